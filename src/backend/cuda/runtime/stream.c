/* Streams: pools of them per device and priority, foreign ones, and each thread's current ones. An id is 0 for the default
   stream, odd for a pooled one (slot and priority in the bits above), else the foreign handle itself. */
#include "backend/cuda/runtime/parts.h"
#include "base/mutex.h"

enum { PRIORITIES = 6 }; /* 0 ... -5 on hardware of today; fewer are clamped */

typedef struct stream_pool {
    _Atomic(CUstream) handles[PRIORITIES][FAC_CUDA_POOL_STREAMS]; /* made on first use */
    atomic_uint next[PRIORITIES];
} stream_pool;

static stream_pool pools[FAC_CUDA_MAX_DEVICES];
static fac_mutex lock = FAC_MUTEX_INIT; /* of the making of pooled streams */

static _Thread_local struct {
    unsigned generation;
    int64_t ids[FAC_CUDA_MAX_DEVICES];
} current;

/* ---- ids ------------------------------------------------------------------------------------------------------------------ */

static int64_t id_of(unsigned level, unsigned slot) { return (int64_t)((slot << 4) | (level << 1) | 1u); }
static unsigned level_of(int64_t id) { return (unsigned)(id >> 1) & 7u; }
static unsigned slot_of(int64_t id) { return (unsigned)(id >> 4) % FAC_CUDA_POOL_STREAMS; }

static _Atomic(CUstream) *pooled(int index, int64_t id) {
    return &pools[index].handles[level_of(id) % PRIORITIES][slot_of(id)];
}

static fac_status create(int level, CUstream *out) {
    int least, greatest;
    FAC_CU(fac__cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    int priority = -level < greatest ? greatest : -level;
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = fac__cu.cuStreamCreateWithPriority(out, CU_STREAM_NON_BLOCKING, priority);
    fac__cuda_unrelax(mode);
    FAC_CU_AS(r, "making a stream");
    return FAC_OK;
}

static fac_status make_pooled(int index, int64_t id) {
    _Atomic(CUstream) *place = pooled(index, id);
    CUstream made = NULL;
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    fac__mutex_lock(&lock);
    fac_status st = atomic_load_explicit(place, memory_order_relaxed) ? FAC_OK : create((int)level_of(id), &made);
    if (made) atomic_store_explicit(place, made, memory_order_release);
    fac__mutex_unlock(&lock);
    fac__cuda_leave(&entry);
    return st;
}

CUstream fac__cuda_stream_of(int index, int64_t id) {
    if (FAC_LIKELY(id == 0)) return NULL;
    if (!(id & 1)) return (CUstream)(intptr_t)id;
    CUstream s = atomic_load_explicit(pooled(index, id), memory_order_acquire);
    if (FAC_UNLIKELY(!s) && make_pooled(index, id) == FAC_OK) /* from before a shutdown */
        s = atomic_load_explicit(pooled(index, id), memory_order_acquire);
    return s;
}

int64_t fac__cuda_stream_id_of(int index, CUstream handle) {
    for (unsigned level = 0; level < PRIORITIES; level++)
        for (unsigned slot = 0; slot < FAC_CUDA_POOL_STREAMS; slot++)
            if (handle && atomic_load_explicit(&pools[index].handles[level][slot], memory_order_acquire) == handle)
                return id_of(level, slot);
    return fac__cuda_stream_wrap(handle);
}

fac_status fac__cuda_stream_new(int index, int priority, int64_t *out_id) {
    FAC_TRY(fac__cuda_check_index(index));
    FAC_CHECK(priority <= 0, FAC_ERR_ARGUMENT,
              "a stream's priority is 0 (normal) or below (earlier), such as -1, but %d was given", priority);
    unsigned level = priority > -PRIORITIES ? (unsigned)-priority : PRIORITIES - 1;
    unsigned turn = atomic_fetch_add_explicit(&pools[index].next[level], 1, memory_order_relaxed);
    *out_id = id_of(level, turn % FAC_CUDA_POOL_STREAMS);
    if (atomic_load_explicit(pooled(index, *out_id), memory_order_acquire)) return FAC_OK;
    return make_pooled(index, *out_id);
}

int64_t fac__cuda_stream_wrap(void *handle) { return handle == CU_STREAM_LEGACY ? 0 : (int64_t)(intptr_t)handle; }

/* ---- current streams --------------------------------------------------------------------------------------------------------- */

static int64_t *current_ids(void) {
    unsigned now = fac__cuda_generation();
    if (FAC_UNLIKELY(current.generation != now)) {
        memset(&current, 0, sizeof current);
        current.generation = now;
    }
    return current.ids;
}

int64_t fac__cuda_stream_id(int index) { return current_ids()[index]; }
CUstream fac__cuda_stream(int index) { return fac__cuda_stream_of(index, fac__cuda_stream_id(index)); }

int64_t fac__cuda_stream_exchange(int index, int64_t id) {
    int64_t *place = &current_ids()[index], was = *place;
    *place = id;
    return was;
}

/* ---- waiting ------------------------------------------------------------------------------------------------------------------- */

fac_status fac__cuda_stream_synchronize(int index, int64_t id) {
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUresult r = fac__cu.cuStreamSynchronize(fac__cuda_stream_of(index, id));
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "cuStreamSynchronize");
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac__cuda_stream_capturing(int index, int64_t id, bool *out) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    *out = false;
    if (id == 0)
        return FAC_OK; /* the default stream cannot be captured, and asking would disturb a capture elsewhere */
    FAC_CU(fac__cu.cuStreamIsCapturing(fac__cuda_stream_of(index, id), &status));
    *out = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return FAC_OK;
}

fac_status fac__cuda_stream_follow(int index, int64_t id, int other_index, int64_t other_id) {
    fac_cuda_event *mark;
    if (index == other_index && id == other_id) return FAC_OK;
    FAC_TRY(fac__cuda_event_take(other_index, false, &mark));
    fac_status st = fac__cuda_event_record(mark, other_index, other_id);
    if (st == FAC_OK) st = fac__cuda_event_wait(mark, index, id);
    fac__cuda_event_put(mark);
    return st;
}

void fac__cuda_streams_stop(int index) {
    stream_pool *p = &pools[index];
    for (int level = 0; level < PRIORITIES; level++) {
        for (int slot = 0; slot < FAC_CUDA_POOL_STREAMS; slot++) {
            CUstream s = atomic_exchange_explicit(&p->handles[level][slot], NULL, memory_order_relaxed);
            if (s) fac__cu.cuStreamDestroy(s);
        }
        atomic_store_explicit(&p->next[level], 0, memory_order_relaxed);
    }
}
