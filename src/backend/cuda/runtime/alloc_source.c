/* Where the CUDA allocators get their memory: cuMemAlloc in segments, virtual memory, or the driver's stream-ordered pool. */
#include "backend/cuda/runtime/alloc_cuda.h"
#include "backend/cuda/runtime/race.h"
#include "base/sanitizers.h"

#if FAC_UNDER_ASAN
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#endif

/* ---- entering ------------------------------------------------------------------------------------------------------ */

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

/* False for what is left of the time before a stop, or of a process that ends: then nothing is done. */
static bool alive(const fac_memory_source *s) {
    return (unsigned)(uintptr_t)s->context == fac__cuda_generation() && fac__cuda_running();
}

/* The device's context is current and captures elsewhere are not disturbed. */
typedef struct visit {
    fac_cuda_entry entry;
    CUstreamCaptureMode mode;
} visit;
static fac_status begin(int device, visit *v) {
    FAC_TRY(fac__cuda_enter(device, &v->entry));
    v->mode = fac__cuda_relax();
    return FAC_OK;
}
static void end(const visit *v) {
    fac__cuda_unrelax(v->mode);
    fac__cuda_leave(&v->entry);
}

/* Out of memory is no error here: the cache has its own ways. */
static fac_status given(CUresult r, CUdeviceptr p, const char *what, void **out) {
    *out = r == CUDA_SUCCESS ? (void *)(uintptr_t)p : NULL;
    return r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY ? FAC_OK : fac__cuda_fail(r, what);
}

/* ---- segments --------------------------------------------------------------------------------------------------------- */

static fac_status segment_alloc(const fac_memory_source *s, int device, int64_t bytes, int64_t stream, void **out) {
    visit v;
    CUdeviceptr p = 0;
    (void)s, (void)stream;
    FAC_TRY(begin(device, &v));
    CUresult r = fac__cu.cuMemAlloc(&p, (size_t)bytes);
    fac_status st = given(r, p, "cuMemAlloc", out);
    end(&v);
    return st;
}

static void segment_free(const fac_memory_source *s, int device, void *p, int64_t bytes, int64_t stream) {
    visit v;
    (void)bytes, (void)stream;
    if (!alive(s) || begin(device, &v) != FAC_OK) return;
    fac__cu.cuMemFree(address(p));
    end(&v);
}

static fac_status info(const fac_memory_source *s, int device, int64_t *out_free, int64_t *out_total) {
    visit v;
    size_t free = 0, total = 0;
    (void)s;
    FAC_TRY(begin(device, &v));
    CUresult r = fac__cu.cuMemGetInfo(&free, &total);
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "cuMemGetInfo");
    end(&v);
    *out_free = (int64_t)free;
    *out_total = (int64_t)total;
    return st;
}

/* ---- the stream-ordered pool ---------------------------------------------------------------------------------------------- */

static fac_status pool_alloc(const fac_memory_source *s, int device, int64_t bytes, int64_t stream, void **out) {
    visit v;
    CUdeviceptr p = 0;
    (void)s;
    FAC_TRY(begin(device, &v));
    CUresult r = fac__cu.cuMemAllocAsync(&p, (size_t)bytes, fac__cuda_stream_of(device, stream));
    fac_status st = given(r, p, "cuMemAllocAsync", out);
    end(&v);
    return st;
}

static void pool_free(const fac_memory_source *s, int device, void *p, int64_t bytes, int64_t stream) {
    visit v;
    (void)bytes;
    if (!alive(s) || begin(device, &v) != FAC_OK) return;
    fac__cu.cuMemFreeAsync(address(p), fac__cuda_stream_of(device, stream));
    end(&v);
}

static void pool_trim(const fac_memory_source *s, int device) {
    CUmemoryPool pool;
    visit v;
    if (!alive(s) || begin(device, &v) != FAC_OK) return;
    if (fac__cu.cuCtxSynchronize() == CUDA_SUCCESS &&
        fac__cu.cuDeviceGetDefaultMemPool(&pool, fac__cuda_known(device)->ordinal) == CUDA_SUCCESS)
        fac__cu.cuMemPoolTrimTo(pool, 0);
    end(&v);
}

bool fac__cuda_pool_reserved(int index, int64_t *out_now, int64_t *out_peak) {
    CUmemoryPool pool;
    uint64_t now = 0, peak = 0;
    if (!fac__cu.cuDeviceGetDefaultMemPool || !fac__cu.cuMemPoolGetAttribute ||
        fac__cu.cuDeviceGetDefaultMemPool(&pool, fac__cuda_known(index)->ordinal) != CUDA_SUCCESS ||
        fac__cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &now) != CUDA_SUCCESS ||
        fac__cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &peak) != CUDA_SUCCESS)
        return false;
    *out_now = (int64_t)now;
    *out_peak = (int64_t)peak;
    return true;
}

/* ---- streams and events ------------------------------------------------------------------------------------------------------ */

static int64_t current_stream(const fac_memory_source *s, int device) {
    (void)s;
    return fac__cuda_stream_id(device);
}

static fac_status record(const fac_memory_source *s, int device, int64_t stream, void **event) {
    fac_cuda_event *e;
    (void)s;
    if (!*event) {
        FAC_TRY(fac__cuda_event_take(device, false, &e));
        *event = e;
    }
    return fac__cuda_event_record(*event, device, stream);
}

static fac_status query(const fac_memory_source *s, int device, void *event, bool *out_done) {
    (void)device;
    *out_done = true;
    if (!alive(s)) return FAC_OK;
    CUstreamCaptureMode mode = fac__cuda_relax();
    fac_status st = fac__cuda_event_query(event, out_done);
    fac__cuda_unrelax(mode);
    return st;
}

static fac_status wait_for(const fac_memory_source *s, int device, void *event) {
    (void)device;
    if (!alive(s)) return FAC_OK;
    CUstreamCaptureMode mode = fac__cuda_relax();
    fac_status st = fac__cuda_event_synchronize(event);
    fac__cuda_unrelax(mode);
    return st;
}

static void drop(const fac_memory_source *s, int device, void *event) {
    (void)s, (void)device;
    fac__cuda_event_put(event);
}

static fac_status synchronize(const fac_memory_source *s, int device, int64_t stream) {
    return alive(s) ? fac__cuda_stream_synchronize(device, stream) : FAC_OK;
}

static uint64_t capture(const fac_memory_source *s, int device, int64_t stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    (void)s;
    if (!fac__cu.cuStreamGetCaptureInfo) return 0;
    CUresult r = fac__cu.cuStreamGetCaptureInfo(fac__cuda_stream_of(device, stream), &status, &id, NULL, NULL, NULL);
    return r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

static fac_status mark(const fac_memory_source *s, int device, int64_t stream, void **out_mark) {
    (void)s;
    return fac__cuda_capture_mark(fac__cuda_stream_of(device, stream), out_mark);
}

static bool passed(const fac_memory_source *s, int device, int64_t stream, void *at) {
    (void)s;
    return fac__cuda_capture_passed(fac__cuda_stream_of(device, stream), at);
}

/* ---- virtual memory ------------------------------------------------------------------------------------------------------------ */

static CUmemAllocationProp properties_of(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)fac__cuda_known(device)->ordinal}};
}

static fac_status reserve(const fac_memory_source *s, int device, int64_t bytes, void **out) {
    CUdeviceptr p = 0;
    visit v;
    (void)s;
    FAC_TRY(begin(device, &v));
    CUresult r = fac__cu.cuMemAddressReserve(&p, (size_t)bytes, 0, 0, 0);
    end(&v);
    *out = (void *)(uintptr_t)p;
    return r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "cuMemAddressReserve");
}

static void unreserve(const fac_memory_source *s, int device, void *p, int64_t bytes) {
    (void)device;
    if (alive(s)) fac__cu.cuMemAddressFree(address(p), (size_t)bytes);
}

static CUmemAccessDesc access_of(int reader) {
    return (CUmemAccessDesc){properties_of(reader).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

/* The device itself and the peers that may reach its memory; for mapped memory each must be told so. */
static size_t readers_of(int device, CUmemAccessDesc out[FAC_CUDA_MAX_DEVICES]) {
    size_t n = 0;
    for (int i = 0; i < fac__cuda_count(); i++)
        if (fac__cuda_peer_enabled(i, device)) out[n++] = access_of(i);
    return n;
}

static fac_status open_unit(fac_caching_allocator *a, void *p, int64_t bytes, int reader) {
    const CUmemAccessDesc access = access_of(reader);
    (void)a;
    FAC_CU_AS(fac__cu.cuMemSetAccess(address(p), (size_t)bytes, &access, 1), "opening mapped memory to a peer");
    return FAC_OK;
}

fac_status fac__cuda_allocators_open(int owner, int reader) {
    fac_caching_allocator *a = fac__cuda_cache_if_any(owner);
    return a && a->source.map ? fac__cache_open(a, reader, open_unit) : FAC_OK;
}

/* The handle may go at once: the memory stays until it is unmapped. */
static CUresult map_handle(CUdeviceptr p, size_t bytes, CUmemGenericAllocationHandle handle, int device) {
    CUmemAccessDesc readers[FAC_CUDA_MAX_DEVICES];
    const size_t n = readers_of(device, readers);
    CUresult r = fac__cu.cuMemMap(p, bytes, 0, handle, 0);
    if (r == CUDA_SUCCESS && (r = fac__cu.cuMemSetAccess(p, bytes, readers, n)) != CUDA_SUCCESS)
        fac__cu.cuMemUnmap(p, bytes);
    fac__cu.cuMemRelease(handle);
    return r;
}

static fac_status map(const fac_memory_source *s, int device, void *p, int64_t bytes, bool *out_mapped) {
    const CUmemAllocationProp properties = properties_of(device);
    CUmemGenericAllocationHandle handle;
    visit v;
    (void)s;
    FAC_TRY(begin(device, &v));
    CUresult r = fac__cu.cuMemCreate(&handle, (size_t)bytes, &properties, 0);
    if (r == CUDA_SUCCESS) r = map_handle(address(p), (size_t)bytes, handle, device);
    end(&v);
    *out_mapped = r == CUDA_SUCCESS;
    return r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY ? FAC_OK : fac__cuda_fail(r, "mapping device memory");
}

static void unmap(const fac_memory_source *s, int device, void *p, int64_t bytes) {
    visit v;
    if (!alive(s) || begin(device, &v) != FAC_OK) return;
    fac__cu.cuMemUnmap(address(p), (size_t)bytes);
    end(&v);
}

/* ---- poison and sanitizers --------------------------------------------------------------------------------------------------------- */

static bool is_captured(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return fac__cu.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static fac_status fill(const fac_memory_source *s, int device, void *p, int value, int64_t bytes, int64_t stream) {
    CUstream handle = fac__cuda_stream_of(device, stream);
    visit v;
    if (!alive(s)) return FAC_OK;
    FAC_TRY(begin(device, &v)); /* what follows needs a context */
    fac__race_hold(true);       /* the cache is locked */
    CUresult r = is_captured(handle) ? CUDA_SUCCESS
                                     : fac__cu.cuMemsetD8Async(address(p), (unsigned char)value, (size_t)bytes, handle);
    fac__race_hold(false);
    end(&v);
    return r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "poisoning a freed block");
}

#if FAC_UNDER_ASAN
typedef struct change {
    void *p;
    size_t bytes;
    bool usable;
} change;

/* Runs in stream order, so that work queued before a free may still touch the block. */
static void apply(void *data) {
    change *c = data;
    if (c->usable)
        ASAN_UNPOISON_MEMORY_REGION(c->p, c->bytes);
    else
        ASAN_POISON_MEMORY_REGION(c->p, c->bytes);
    free(c);
}

static void guard(const fac_memory_source *s, int device, void *p, int64_t bytes, bool usable, int64_t stream) {
    CUstream handle = fac__cuda_stream_of(device, stream);
    visit v;
    if (!alive(s) || !fac__cu_is_simulated() || begin(device, &v) != FAC_OK) return;
    change *c = is_captured(handle) ? NULL : malloc(sizeof *c);
    if (c) *c = (change){p, (size_t)bytes, usable};
    if (c && fac__cu.cuLaunchHostFunc(handle, apply, c) != CUDA_SUCCESS) free(c);
    end(&v);
}
#endif

/* ---- the table ------------------------------------------------------------------------------------------------------------------------ */

void fac__cuda_source(bool async, fac_memory_source *out) {
    *out = (fac_memory_source){.size = sizeof *out,
                               .name = "cuda",
                               .context = (void *)(uintptr_t)fac__cuda_generation(),
                               .alloc = async ? pool_alloc : segment_alloc,
                               .free = async ? pool_free : segment_free,
                               .trim = async ? pool_trim : NULL,
                               .info = info,
                               .stream = current_stream,
                               .record = record,
                               .query = query,
                               .wait = wait_for,
                               .drop = drop,
                               .synchronize = synchronize,
                               .capture = capture,
                               .fill = fill};
    if (fac__cu.cuStreamGetCaptureInfo && fac__cu.cuStreamUpdateCaptureDependencies) {
        out->mark = mark;
        out->passed = passed;
    }
    if (fac__cu.cuMemAddressReserve && fac__cu.cuMemCreate && fac__cu.cuMemMap && fac__cu.cuMemSetAccess) {
        out->reserve = reserve;
        out->unreserve = unreserve;
        out->map = map;
        out->unmap = unmap;
    }
#if FAC_UNDER_ASAN
    out->guard = async ? NULL : guard;
#endif
}
