/* Where the race checker listens: it puts itself into the driver's table, and so sees every event, wait, copy and
   synchronisation, whoever asks for it. Kernels' accesses come from their launcher (fac__race_access). While a stream is being
   captured nothing runs, so nothing is noted. */
#include "backend/cuda/runtime/race.h"
#include <stdlib.h>

atomic_int fac__race_mode_now;

static fac_cu real; /* the table as it was */
static bool installed;

/* ---- helpers; all but the first two under the lock ------------------------------------------------------------------- */

static int current_device(void) {
    CUdevice d = 0;
    return real.cuCtxGetDevice(&d) == CUDA_SUCCESS ? (int)d : 0;
}

/* The default stream cannot be captured, and asking would disturb a capture elsewhere. */
static bool capturing(CUstream stream) {
    if (!stream) return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static uint32_t agent_of(CUstream stream) { return fac__race_stream_agent(current_device(), stream); }

typedef struct conflict {
    uint32_t site;
    bool write;
    fac_status st;
} conflict;

static bool file(void *context, race_epoch earlier, bool earlier_writes, uintptr_t start) {
    conflict *c = context;
    c->st = fac__race_report(earlier.site, earlier.agent, earlier_writes, c->site, c->write, start);
    return false; /* one race per access says enough */
}

/* Notes one comb of bytes; a comb of too many teeth counts as solid. */
static fac_status touch(const fac_cuda_access *a, bool write, race_epoch now, conflict *c) {
    bool solid = a->rows <= 1 || a->pitch <= a->width || a->rows > 65536;
    int64_t rows = solid ? 1 : a->rows;
    int64_t width = solid && a->rows > 1 ? (a->rows - 1) * a->pitch + a->width : a->width;
    for (int64_t r = 0; r < rows && c->st == FAC_OK && width > 0; r++) {
        uintptr_t start = (uintptr_t)a->start + (uintptr_t)(r * a->pitch);
        FAC_TRY(fac__race_shadow_touch(start, start + (uintptr_t)width, write, now, file, c));
    }
    return c->st;
}

static fac_status note(uint32_t agent, const fac_cuda_access *a, size_t n, const char *what) {
    if (agent == UINT32_MAX) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        race_epoch now;
        conflict c = {.site = fac__race_site(what, a[i].name, agent, a[i].write), .write = a[i].write};
        if (!c.site) return FAC_ERR_MEMORY;
        FAC_TRY(fac__race_step(agent, c.site, &now));
        FAC_TRY(touch(&a[i], a[i].write, now, &c));
    }
    return FAC_OK;
}

/* Out of memory for its own records ends the checker, not the program. */
static atomic_bool ran_out;
static fac_status settle(fac_status st) {
    if (st != FAC_ERR_MEMORY) return st;
    fac_error_clear();
    atomic_store(&fac__race_mode_now, FAC_RACE_OFF);
    atomic_store(&ran_out, true);
    return FAC_OK;
}

static _Thread_local bool held __attribute__((tls_model("initial-exec")));
void fac__race_hold(bool on) { held = on; }

/* Warnings wait until no lock is held: their handler may use the library. */
static void tell(void) {
    if (FAC_UNLIKELY(held)) return;
    fac__race_tell();
    if (FAC_UNLIKELY(atomic_load_explicit(&ran_out, memory_order_relaxed)) && atomic_exchange(&ran_out, false))
        fac__warn("the race checker has run out of memory and is off from here on");
}

static fac_status checked(CUstream stream, const fac_cuda_access *a, size_t n, const char *what) {
    if (!fac__race_on() || capturing(stream)) return FAC_OK;
    fac__mutex_lock(&fac__race_lock);
    fac_status st = settle(note(agent_of(stream), a, n, what));
    fac__mutex_unlock(&fac__race_lock);
    tell();
    return st;
}

fac_status fac__race_access(int device, CUstream stream, const fac_cuda_access *a, size_t n, const char *what) {
    if (!fac__race_on() || n == 0 || capturing(stream)) return FAC_OK;
    fac__mutex_lock(&fac__race_lock);
    fac_status st = settle(note(fac__race_stream_agent(device, stream), a, n, what));
    fac__mutex_unlock(&fac__race_lock);
    tell();
    return st;
}

fac_status fac__race_host_access(const void *p, int64_t bytes, bool write, const char *what) {
    if (!fac__race_on() || bytes <= 0) return FAC_OK;
    fac_cuda_access a = {.start = p, .width = bytes, .rows = 1, .write = write, .read = !write};
    fac__mutex_lock(&fac__race_lock);
    fac_status st = settle(note(fac__race_host_agent(), &a, 1, what));
    fac__mutex_unlock(&fac__race_lock);
    tell();
    return st;
}

/* The driver itself orders what comes after: forgets who touched these bytes. */
static void forget(const void *p, int64_t bytes) {
    if (!fac__race_on() || bytes <= 0) return;
    fac__mutex_lock(&fac__race_lock);
    fac__race_shadow_forget((uintptr_t)p, (uintptr_t)p + (uintptr_t)bytes);
    fac__mutex_unlock(&fac__race_lock);
}

/* ---- order ----------------------------------------------------------------------------------------------------------------- */

/* Runs a change of clocks for a call that succeeded. */
#define LEARN(r, expression)                         \
    do {                                             \
        if ((r) == CUDA_SUCCESS && fac__race_on()) { \
            fac__mutex_lock(&fac__race_lock);        \
            (void)settle(expression);                \
            fac__mutex_unlock(&fac__race_lock);      \
        }                                            \
    } while (0)

static fac_status learn_event_recorded(CUevent e, CUstream stream) {
    race_epoch now;
    if (capturing(stream)) return FAC_OK;
    uint32_t agent = agent_of(stream);
    if (agent == UINT32_MAX) return FAC_ERR_MEMORY;
    FAC_TRY(fac__race_step(agent, 0, &now));
    return fac__race_event_record(e, agent);
}

static fac_status learn_wait(CUevent e, CUstream stream) {
    if (capturing(stream)) return FAC_OK;
    uint32_t agent = agent_of(stream);
    return agent == UINT32_MAX ? FAC_ERR_MEMORY : fac__race_event_teach(e, agent);
}

static fac_status learn_event_done(CUevent e) {
    uint32_t host = fac__race_host_agent();
    if (host == UINT32_MAX) return FAC_ERR_MEMORY;
    FAC_TRY(fac__race_event_teach(e, host));
    return fac__race_publish(host);
}

static fac_status learn_stream_done(CUstream stream) {
    uint32_t host = fac__race_host_agent(), agent = agent_of(stream);
    if (host == UINT32_MAX || agent == UINT32_MAX) return FAC_ERR_MEMORY;
    FAC_TRY(fac__race_join(&fac__race_agent(host)->knows, &fac__race_agent(agent)->knows));
    return fac__race_publish(host);
}

static fac_status learn_device_done(void) {
    uint32_t host = fac__race_host_agent();
    if (host == UINT32_MAX) return FAC_ERR_MEMORY;
    FAC_TRY(fac__race_learn_device(host, current_device()));
    return fac__race_publish(host);
}

static fac_status drop_event(CUevent e) {
    fac__race_event_drop(e);
    return FAC_OK;
}

/* An entry from whose success something is learnt. */
#define LESSON(own, entry, parameters, arguments, learn) \
    static CUresult own parameters {                     \
        CUresult r = real.entry arguments;               \
        LEARN(r, learn);                                 \
        return r;                                        \
    }

/* clang-format off */
LESSON(event_record, cuEventRecord, (CUevent e, CUstream s), (e, s), learn_event_recorded(e, s))
LESSON(event_record_with_flags, cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned flags), (e, s, flags),
       learn_event_recorded(e, s))
LESSON(event_query, cuEventQuery, (CUevent e), (e), learn_event_done(e))
LESSON(event_synchronize, cuEventSynchronize, (CUevent e), (e), learn_event_done(e))
LESSON(event_destroy, cuEventDestroy, (CUevent e), (e), drop_event(e))
LESSON(stream_wait_event, cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), (s, e, flags), learn_wait(e, s))
LESSON(stream_query, cuStreamQuery, (CUstream s), (s), learn_stream_done(s))
LESSON(stream_synchronize, cuStreamSynchronize, (CUstream s), (s), learn_stream_done(s))
LESSON(context_synchronize, cuCtxSynchronize, (void), (), learn_device_done())
LESSON(mem_free, cuMemFree, (CUdeviceptr p), (p), learn_device_done()) /* waits for the device */
/* clang-format on */

/* ---- copies ---------------------------------------------------------------------------------------------------------------- */

static fac_cuda_access reads(const void *p, size_t n, const char *name) {
    return (fac_cuda_access){.start = p, .width = (int64_t)n, .rows = 1, .read = true, .name = name};
}
static fac_cuda_access writes(const void *p, size_t n, const char *name) {
    return (fac_cuda_access){.start = p, .width = (int64_t)n, .rows = 1, .write = true, .name = name};
}

/* Host memory that is not page-locked is read before the call returns. */
static size_t from_host(fac_cuda_access *a, const void *p, size_t n) {
    if (!fac__cuda_is_host_memory(p)) return 0;
    *a = reads(p, n, "source");
    return 1;
}

/* Between two places in device memory. */
static fac_status checked_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    fac_cuda_access a[] = {reads((const void *)(uintptr_t)from, bytes, "source"),
                           writes((const void *)(uintptr_t)to, bytes, "destination")};
    return checked(stream, a, 2, "copy");
}

static CUresult copy_any(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    if (checked_copy(to, from, bytes, stream) != FAC_OK) return CUDA_ERROR_NOT_PERMITTED;
    return real.cuMemcpyAsync(to, from, bytes, stream);
}

static CUresult copy_within(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    if (checked_copy(to, from, bytes, stream) != FAC_OK) return CUDA_ERROR_NOT_PERMITTED;
    return real.cuMemcpyDtoDAsync(to, from, bytes, stream);
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                          CUstream stream) {
    if (checked_copy(to, from, bytes, stream) != FAC_OK) return CUDA_ERROR_NOT_PERMITTED;
    return real.cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream);
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    fac_cuda_access a[2] = {writes((const void *)(uintptr_t)to, bytes, "destination")};
    size_t n = 1 + from_host(&a[1], from, bytes);
    if (checked(stream, a, n, "copy") != FAC_OK) return CUDA_ERROR_NOT_PERMITTED;
    return real.cuMemcpyHtoDAsync(to, from, bytes, stream);
}

/* To memory that is not page-locked the copy is done when the call returns. */
static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    bool pinned = fac__cuda_is_host_memory(to);
    fac_cuda_access a[] = {reads((const void *)(uintptr_t)from, bytes, "source"), writes(to, bytes, "destination")};
    if (checked(stream, a, pinned ? 2u : 1u, "copy") != FAC_OK) return CUDA_ERROR_NOT_PERMITTED;
    CUresult r = real.cuMemcpyDtoHAsync(to, from, bytes, stream);
    if (!pinned) LEARN(r, learn_stream_done(stream));
    return r;
}

#define SETTER(own, entry, T)                                                                     \
    static CUresult own(CUdeviceptr to, T value, size_t n, CUstream stream) {                     \
        fac_cuda_access a = writes((const void *)(uintptr_t)to, n * sizeof value, "destination"); \
        if (checked(stream, &a, 1, "memset") != FAC_OK) return CUDA_ERROR_NOT_PERMITTED;          \
        return real.entry(to, value, n, stream);                                                  \
    }
SETTER(set8, cuMemsetD8Async, unsigned char)
SETTER(set16, cuMemsetD16Async, unsigned short)
SETTER(set32, cuMemsetD32Async, unsigned)

/* ---- the driver's own pools: it orders reuse itself ------------------------------------------------------------------------- */

static CUresult alloc_async(CUdeviceptr *p, size_t bytes, CUstream stream) {
    CUresult r = real.cuMemAllocAsync(p, bytes, stream);
    if (r == CUDA_SUCCESS) forget((const void *)(uintptr_t)*p, (int64_t)bytes);
    return r;
}

static CUresult alloc_from_pool(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream) {
    CUresult r = real.cuMemAllocFromPoolAsync(p, bytes, pool, stream);
    if (r == CUDA_SUCCESS) forget((const void *)(uintptr_t)*p, (int64_t)bytes);
    return r;
}

/* ---- on and off ------------------------------------------------------------------------------------------------------------- */

/* Entries, each with what stands in for it. */
#define STAND_INS(X)                                   \
    X(cuEventRecord, event_record)                     \
    X(cuEventRecordWithFlags, event_record_with_flags) \
    X(cuEventQuery, event_query)                       \
    X(cuEventSynchronize, event_synchronize)           \
    X(cuEventDestroy, event_destroy)                   \
    X(cuStreamWaitEvent, stream_wait_event)            \
    X(cuStreamQuery, stream_query)                     \
    X(cuStreamSynchronize, stream_synchronize)         \
    X(cuCtxSynchronize, context_synchronize)           \
    X(cuMemFree, mem_free)                             \
    X(cuMemcpyAsync, copy_any)                         \
    X(cuMemcpyHtoDAsync, copy_in)                      \
    X(cuMemcpyDtoHAsync, copy_out)                     \
    X(cuMemcpyDtoDAsync, copy_within)                  \
    X(cuMemcpyPeerAsync, copy_peer)                    \
    X(cuMemsetD8Async, set8)                           \
    X(cuMemsetD16Async, set16)                         \
    X(cuMemsetD32Async, set32)                         \
    X(cuMemAllocAsync, alloc_async)                    \
    X(cuMemAllocFromPoolAsync, alloc_from_pool)

/* Optional entries may be missing. */
#define PUT_IN(entry, own) \
    if (real.entry) fac__cu.entry = own;
#define TAKE_OUT(entry, own) \
    if (fac__cu.entry == own) fac__cu.entry = real.entry;

static void install(void) {
    if (installed) return;
    real = fac__cu;
    installed = true;
    STAND_INS(PUT_IN)
}

static void uninstall(void) {
    if (!installed) return;
    STAND_INS(TAKE_OUT)
    installed = false;
}

static fac_status turn_on(fac_race_mode mode) {
    install();
    fac_status st = fac__race_watch();
    if (st != FAC_OK) {
        if (!fac__race_on()) uninstall();
        return st;
    }
    atomic_store(&fac__race_mode_now, (int)mode);
    return FAC_OK;
}

fac_status fac_cuda_set_race_mode(fac_race_mode mode) {
    FAC_TRY(fac_error());
    FAC_CHECK(mode >= FAC_RACE_OFF && mode <= FAC_RACE_ERROR, FAC_ERR_ARGUMENT, "%d is no mode of the race checker",
              (int)mode);
    FAC_TRY(fac__cuda_start());
    if (mode == FAC_RACE_OFF) {
        fac__race_stop(true);
        return FAC_OK;
    }
    return turn_on(mode);
}

fac_race_mode fac_cuda_race_mode(void) { return (fac_race_mode)atomic_load(&fac__race_mode_now); }

fac_status fac__race_start(void) {
    const char *text = fac__env("FACULA_CUDA_SANITIZER");
    if (!text || !*text || strcmp(text, "0") == 0 || strcmp(text, "off") == 0) return FAC_OK;
    bool report = strcmp(text, "1") == 0 || strcmp(text, "report") == 0, error = strcmp(text, "error") == 0;
    FAC_CHECK(report || error, FAC_ERR_ARGUMENT,
              "FACULA_CUDA_SANITIZER is '%s'; expected 1 or report, error, or 0 or off", text);
    return turn_on(error ? FAC_RACE_ERROR : FAC_RACE_REPORT);
}

void fac__race_stop(bool dispatcher_lives) {
    atomic_store(&fac__race_mode_now, FAC_RACE_OFF);
    fac__race_unwatch(dispatcher_lives);
    uninstall();
    fac__mutex_lock(&fac__race_lock);
    fac__race_shadow_free();
    fac__race_clocks_free();
    fac__race_report_free();
    fac__mutex_unlock(&fac__race_lock);
}
