/* cuFFT's plans. Each device keeps those used last in a table with a list from the latest use to the earliest.

   A plan has one stream and one work area at a time, so threads that share one take turns (plan.turn) at setting both and
   executing. The work area is a tensor that is released once the transform is queued: the allocator keeps it for the stream.
   A plan that leaves the table while a call uses it goes with that call. One that a capture has recorded goes at the stop, as the
   graph reads the plan's own memory. */
#include "backend/cuda/runtime/fft.h"
#include "backend/cuda/driver/cufft.h"
#include "backend/cuda/runtime/parts.h"
#include "backend/cuda/runtime/race.h"
#include "base/mutex.h"
#include "core/tensor_make.h"
#include "dispatch/operator.h"
#include <facula/cuda.h>
#include <stdio.h>

enum { BUCKETS = 512 };

typedef struct plan {
    fac_cuda_fft what;
    bool made; /* has a handle: any number is one, 0 too */
    cufftHandle handle;
    size_t work_bytes;
    fac_mutex turn; /* the plan's stream and work area, until it is executed */
    /* Below: of the cache's lock. */
    int users;
    bool kept, captured;
    struct plan *older, *newer; /* of those kept */
    struct plan *next;          /* of its bucket, or of those set aside */
} plan;

typedef struct cache {
    plan *bucket[BUCKETS], *oldest, *newest;
    plan *aside; /* captured, and in the table no more */
    int64_t size;
} cache;

static fac_mutex lock = FAC_MUTEX_INIT; /* all caches and maxima */
static cache *caches[FAC_CUDA_MAX_DEVICES];
static struct {
    bool set;
    int64_t v;
} maxima[FAC_CUDA_MAX_DEVICES];

/* ---- the table -------------------------------------------------------------------------------------------------------------- */

static int64_t max_of(int index) { return maxima[index].set ? maxima[index].v : FAC_CUDA_FFT_PLANS; }

static plan **bucket_of(cache *c, const fac_cuda_fft *what) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *what; i++) h = (h ^ ((const unsigned char *)what)[i]) * 0x100000001b3u;
    return &c->bucket[(h ^ (h >> 32)) % BUCKETS];
}

static void list_remove(cache *c, plan *p) {
    *(p->older ? &p->older->newer : &c->oldest) = p->newer;
    *(p->newer ? &p->newer->older : &c->newest) = p->older;
    p->older = p->newer = NULL;
}

static void list_add(cache *c, plan *p) {
    p->older = c->newest;
    p->newer = NULL;
    *(c->newest ? &c->newest->newer : &c->oldest) = p;
    c->newest = p;
}

static plan *find(cache *c, const fac_cuda_fft *what) {
    plan *p = c ? *bucket_of(c, what) : NULL;
    while (p && memcmp(&p->what, what, sizeof *what) != 0) p = p->next;
    if (!p) return NULL;
    list_remove(c, p);
    list_add(c, p);
    p->users++;
    return p;
}

/* Takes a plan out of the table; it goes now, unless somebody uses it or a graph may: see give. Returns it if it is to go. */
static plan *take_out(cache *c, plan *p) {
    plan **at = bucket_of(c, &p->what);
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    p->next = NULL;
    list_remove(c, p);
    c->size--;
    p->kept = false;
    if (p->captured && p->users == 0) {
        p->next = c->aside;
        c->aside = p;
    }
    return p->captured || p->users ? NULL : p;
}

/* Plans to be destroyed, chained by `next`, until there are at most `max`. */
static plan *shrink(cache *c, int64_t max) {
    plan *gone = NULL;
    while (c && c->size > max) {
        plan *p = take_out(c, c->oldest);
        if (!p) continue;
        p->next = gone;
        gone = p;
    }
    return gone;
}

/* ---- plans ------------------------------------------------------------------------------------------------------------------ */

/* "2 transforms from real numbers of 4 x 6 points in float32 on cuda:0" */
static const char *describe(const fac_cuda_fft *what, int index, char *text, size_t size) {
    static const char *const kinds[] = {"from real numbers", "of complex numbers", "to real numbers"};
    int n = snprintf(text, size, "%lld transforms %s of %lld", (long long)what->batch, kinds[what->kind],
                     (long long)what->n[0]);
    for (int d = 1; d < what->rank && n > 0 && (size_t)n < size; d++)
        n += snprintf(text + n, size - (size_t)n, " x %lld", (long long)what->n[d]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, " points in %s on cuda:%d", what->wide ? "float64" : "float32", index);
    return text;
}

static fac_status fail(cufftResult r, const char *call, const fac_cuda_fft *what, int index) {
    char text[192];
    const bool refused = r == CUFFT_INVALID_SIZE || r == CUFFT_NOT_SUPPORTED || r == CUFFT_NOT_IMPLEMENTED;
    return FAC_FAIL(r == CUFFT_ALLOC_FAILED ? FAC_ERR_MEMORY
                    : refused               ? FAC_ERR_UNSUPPORTED
                                            : FAC_ERR_DEVICE,
                    "cuFFT error in %s of %s: %s (%d)", call, describe(what, index, text, sizeof text),
                    fac__cufft_name(r), (int)r);
}

static void destroy(const fac_cufft *fft, plan *p) {
    if (!p) return;
    const CUstreamCaptureMode mode = fac__cuda_relax();
    if (p->made) fft->cufftDestroy(p->handle);
    fac__cuda_unrelax(mode);
    fac__mutex_destroy(&p->turn);
    fac__free(p);
}

static void destroy_all(const fac_cufft *fft, plan *p) {
    for (plan *next; p; p = next) {
        next = p->next;
        destroy(fft, p);
    }
}

static cufftResult make_handle(const fac_cufft *fft, plan *p) {
    const bool from_real = p->what.kind == FAC_CUDA_FFT_R2C, to_real = p->what.kind == FAC_CUDA_FFT_C2R;
    const cudaDataType real = p->what.wide ? CUDA_R_64F : CUDA_R_32F, complex = p->what.wide ? CUDA_C_64F : CUDA_C_32F;
    long long n[FAC_CUDA_FFT_RANK];
    for (int d = 0; d < FAC_CUDA_FFT_RANK; d++) n[d] = p->what.n[d];
    cufftResult r = fft->cufftCreate(&p->handle);
    if (r != CUFFT_SUCCESS) return r;
    r = fft->cufftSetAutoAllocation(p->handle, 0);
    if (r == CUFFT_SUCCESS)
        r = fft->cufftXtMakePlanMany(p->handle, p->what.rank, n, NULL, 1, 1, from_real ? real : complex, NULL, 1, 1,
                                     to_real ? real : complex, p->what.batch, &p->work_bytes, complex);
    p->made = r == CUFFT_SUCCESS;
    if (!p->made) fft->cufftDestroy(p->handle);
    return r;
}

/* cuFFT loads code and allocates, which must not disturb captures elsewhere; the allocator may hold what it lacks. */
static fac_status make(const fac_cufft *fft, const fac_cuda_fft *what, int index, plan **out) {
    plan *p = fac__alloc_zero(sizeof *p);
    if (!p) return fac_error();
    p->what = *what;
    fac__mutex_init(&p->turn);
    fac_status st = FAC_OK;
    for (int tries = 0; tries < 2 && !p->made && st == FAC_OK; tries++) {
        const CUstreamCaptureMode mode = fac__cuda_relax();
        const cufftResult r = make_handle(fft, p);
        fac__cuda_unrelax(mode);
        if (r != CUFFT_SUCCESS)
            st = r == CUFFT_ALLOC_FAILED && tries == 0 ? fac_cuda_empty_cache()
                                                       : fail(r, "cufftXtMakePlanMany", what, index);
    }
    if (st != FAC_OK)
        destroy(fft, p);
    else
        *out = p;
    return st;
}

/* Puts a plan into the table, if that may hold one and has none of its kind; the plans that make room for it are *gone. */
static fac_status keep_locked(int index, plan *p, plan **gone) {
    *gone = NULL;
    if (max_of(index) == 0) return FAC_OK;
    if (!caches[index]) caches[index] = fac__alloc_zero(sizeof *caches[index]);
    cache *c = caches[index];
    if (!c) return fac_error();
    plan **at = bucket_of(c, &p->what);
    for (const plan *q = *at; q; q = q->next)
        if (memcmp(&q->what, &p->what, sizeof p->what) == 0) return FAC_OK;
    *gone = shrink(c, max_of(index) - 1);
    p->next = *at;
    *at = p;
    p->kept = true;
    list_add(c, p);
    c->size++;
    return FAC_OK;
}

/* Two threads may make the same plan at once: the second one's goes with its call. */
static fac_status take(const fac_cufft *fft, const fac_cuda_fft *what, int index, plan **out) {
    plan *gone = NULL;
    fac__mutex_lock(&lock);
    *out = find(caches[index], what);
    fac__mutex_unlock(&lock);
    if (*out) return FAC_OK;
    FAC_TRY(make(fft, what, index, out));
    (*out)->users = 1;
    fac__mutex_lock(&lock);
    fac_status st = keep_locked(index, *out, &gone);
    fac__mutex_unlock(&lock);
    destroy_all(fft, gone);
    if (st != FAC_OK) destroy(fft, *out);
    return st;
}

static void give(const fac_cufft *fft, plan *p, int index, bool captured) {
    fac__mutex_lock(&lock);
    p->captured = p->captured || captured;
    bool last = --p->users == 0 && !p->kept;
    if (last && p->captured) {
        cache *c = caches[index];
        if (!c) c = caches[index] = fac__alloc_zero(sizeof *c);
        if (c) p->next = c->aside, c->aside = p;
        if (!c) fac_error_clear(); /* without room for a note the plan stays to the end of the process */
        last = false;
    }
    fac__mutex_unlock(&lock);
    if (last) destroy(fft, p);
}

/* ---- running ---------------------------------------------------------------------------------------------------------------- */

/* One transform with its plan. */
typedef struct job {
    const fac_cufft *fft;
    plan *plan;
    int index;
    bool forward;
    fac_tensor *in, *out, *work;
    const fac_operator *op;
} job;

static fac_status check_accesses(const job *j, CUstream stream) {
    const char *op = fac__operator_base_name(j->op);
    fac_cuda_access a[3];
    fac__cuda_access_tensor(j->in, true, j->plan->what.kind == FAC_CUDA_FFT_C2R, NULL, &a[0]);
    fac__cuda_access_tensor(j->out, false, true, NULL, &a[1]);
    fac__cuda_access_tensor(j->work, false, true, NULL, &a[2]);
    FAC_TRY(fac__cuda_bounds_check(j->index, op));
    return fac__race_access(j->index, stream, a, FAC_COUNT(a), op);
}

static fac_status execute(const job *j, CUstream stream) {
    const fac_cufft *fft = j->fft;
    plan *p = j->plan;
    const char *call = "cufftSetStream";
    fac__mutex_lock(&p->turn);
    cufftResult r = fft->cufftSetStream(p->handle, stream);
    if (r == CUFFT_SUCCESS) {
        call = "cufftSetWorkArea";
        r = fft->cufftSetWorkArea(p->handle, fac__data(j->work));
    }
    if (r == CUFFT_SUCCESS) {
        call = "cufftXtExec";
        r = fft->cufftXtExec(p->handle, fac__data(j->in), fac__data(j->out),
                             j->forward ? CUFFT_FORWARD : CUFFT_INVERSE);
    }
    fac__mutex_unlock(&p->turn);
    return r == CUFFT_SUCCESS ? FAC_OK : fail(r, call, &p->what, j->index);
}

/* In launch-blocking mode the error names the operator. */
static fac_status queue(const job *j, int64_t id) {
    char text[256], what[192];
    const CUstream stream = fac__cuda_stream_of(j->index, id);
    FAC_TRY(check_accesses(j, stream));
    FAC_TRY(execute(j, stream));
    fac__cuda_launched(j->index, "cufftXtExec");
    if (FAC_LIKELY(!fac__cuda_blocking())) return FAC_OK;
    snprintf(text, sizeof text, "%s: %s", fac__operator_base_name(j->op),
             describe(&j->plan->what, j->index, what, sizeof what));
    return fac__cuda_queued(j->index, id, text);
}

static fac_status run(job *j) {
    const int64_t id = fac__cuda_stream_id(j->index), bytes = fac__max(1, (int64_t)j->plan->work_bytes);
    FAC_TRY(fac__empty(&bytes, 1, FAC_U8, j->in->device, &j->work));
    fac_status st = queue(j, id);
    fac__unref(j->work);
    return st;
}

static fac_status run_with_plan(job *j, const fac_cuda_fft *what) {
    bool capturing = false;
    FAC_TRY(take(j->fft, what, j->index, &j->plan));
    fac_status st = fac__cuda_stream_capturing(j->index, fac__cuda_stream_id(j->index), &capturing);
    if (st == FAC_OK) st = run(j);
    give(j->fft, j->plan, j->index, capturing);
    return st;
}

fac_status fac__cuda_fft_run(const fac_cuda_fft *what, bool forward, fac_tensor *in, fac_tensor *out,
                             const fac_operator *op) {
    fac_cuda_entry entry;
    job j = {.index = in->device.index_plus - 1, .forward = forward, .in = in, .out = out, .op = op};
    FAC_TRY(fac__cuda_enter(j.index, &entry));
    fac_status st = fac__cufft_load(&j.fft);
    if (st == FAC_OK) st = run_with_plan(&j, what);
    fac__cuda_leave(&entry);
    return st;
}

/* ---- the stop, and what users may ask ---------------------------------------------------------------------------------------- */

void fac__cuda_fft_stop(int index) {
    const fac_cufft *fft;
    fac__mutex_lock(&lock);
    cache *c = caches[index];
    caches[index] = NULL;
    fac__mutex_unlock(&lock);
    if (!c || fac__cufft_load(&fft) != FAC_OK) return;
    destroy_all(fft, shrink(c, 0));
    destroy_all(fft, c->aside);
    fac__free(c);
}

static fac_status index_of(int device, int *out) {
    *out = device;
    if (device == -1) FAC_TRY(fac__cuda_get_device(out));
    return fac__cuda_check_index(*out);
}

int64_t fac_cuda_fft_plan_cache_size(int device) {
    int index;
    if (index_of(device, &index) != FAC_OK) return 0;
    fac__mutex_lock(&lock);
    const int64_t n = caches[index] ? caches[index]->size : 0;
    fac__mutex_unlock(&lock);
    return n;
}

int64_t fac_cuda_fft_plan_cache_max_size(int device) {
    int index;
    if (index_of(device, &index) != FAC_OK) return 0;
    fac__mutex_lock(&lock);
    const int64_t n = max_of(index);
    fac__mutex_unlock(&lock);
    return n;
}

/* Plans are destroyed under their device's context. Without a plan there is nothing that needs one. */
static fac_status reduce(int index, int64_t max) {
    const fac_cufft *fft;
    fac_cuda_entry entry;
    fac__mutex_lock(&lock);
    plan *gone = shrink(caches[index], max);
    fac__mutex_unlock(&lock);
    if (!gone) return FAC_OK;
    FAC_TRY(fac__cuda_enter(index, &entry));
    fac_status st = fac__cufft_load(&fft);
    if (st == FAC_OK) destroy_all(fft, gone);
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac_cuda_fft_plan_cache_set_max_size(int device, int64_t max) {
    int index;
    FAC_TRY(index_of(device, &index));
    FAC_CHECK(max >= 0, FAC_ERR_ARGUMENT, "cuda_fft_plan_cache_set_max_size: max must not be negative, got %lld",
              (long long)max);
    fac__mutex_lock(&lock);
    maxima[index].set = true;
    maxima[index].v = max;
    fac__mutex_unlock(&lock);
    return reduce(index, max);
}

fac_status fac_cuda_fft_plan_cache_clear(int device) {
    int index;
    FAC_TRY(index_of(device, &index));
    return reduce(index, 0);
}
