/* What the core knows of CUDA: the guard table, and the room's start, which touches no driver. */
#include "backend/cuda/runtime/parts.h"

static int count(const fac_device_guard *g) {
    (void)g;
    return fac__cuda_count();
}

static fac_status get_device(const fac_device_guard *g, int *out_index) {
    (void)g;
    return fac__cuda_get_device(out_index);
}

static fac_status set_device(const fac_device_guard *g, int index) {
    (void)g;
    return fac__cuda_set_device(index);
}

static void set_device_unchecked(const fac_device_guard *g, int index) {
    (void)g;
    fac__cuda_set_device_lazily(index);
}

static fac_status synchronize(const fac_device_guard *g, int index) {
    (void)g;
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUresult r = fac__cu.cuCtxSynchronize();
    fac_status st =
        r == CUDA_SUCCESS ? fac__cuda_bounds_check(index, "cuCtxSynchronize") : fac__cuda_fail(r, "cuCtxSynchronize");
    fac__cuda_leave(&entry);
    return st;
}

static const fac_allocator *allocator(const fac_device_guard *g, int index) {
    (void)g;
    if (FAC_UNLIKELY(fac__cuda_check_index(index) != FAC_OK)) return NULL;
    return fac__cuda_allocator(index);
}

static const fac_allocator *host_allocator(const fac_device_guard *g) {
    (void)g;
    return fac__cuda_start() == FAC_OK ? fac__cuda_host_allocator() : NULL;
}

static bool is_host_memory(const fac_device_guard *g, const void *p) {
    (void)g;
    return fac__cuda_running() && fac__cuda_is_host_memory(p);
}

static fac_status copy(const fac_device_guard *g, fac_device to_device, void *to, fac_device from_device,
                       const void *from, int64_t bytes, bool non_blocking) {
    (void)g;
    return fac__cuda_copy(to_device, to, from_device, from, bytes, non_blocking);
}

/* ---- streams ---------------------------------------------------------------------------------------------------------------- */

static fac_status get_stream(const fac_device_guard *g, int index, int64_t *out_id) {
    (void)g;
    FAC_TRY(fac__cuda_check_index(index));
    *out_id = fac__cuda_stream_id(index);
    return FAC_OK;
}

static fac_status new_stream(const fac_device_guard *g, int index, int priority, int64_t *out_id) {
    (void)g;
    return fac__cuda_stream_new(index, priority, out_id);
}

static fac_status wrap_stream(const fac_device_guard *g, int index, void *handle, int64_t *out_id) {
    (void)g;
    FAC_TRY(fac__cuda_check_index(index));
    FAC_CHECK(handle == (void *)CU_STREAM_LEGACY || !((uintptr_t)handle & 1), FAC_ERR_ARGUMENT,
              "%p is no CUstream: it has an odd address", handle);
    *out_id = fac__cuda_stream_id_of(index, handle); /* one of ours comes back as what it is */
    return FAC_OK;
}

static fac_status exchange_stream(const fac_device_guard *g, int index, int64_t id, int64_t *out_was) {
    (void)g;
    FAC_TRY(fac__cuda_check_index(index));
    *out_was = fac__cuda_stream_exchange(index, id);
    return FAC_OK;
}

static void *stream_handle(const fac_device_guard *g, int index, int64_t id) {
    (void)g;
    return fac__cuda_check_index(index) == FAC_OK ? fac__cuda_stream_of(index, id) : NULL;
}

static fac_status query_stream(const fac_device_guard *g, int index, int64_t id, bool *out_done) {
    (void)g;
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUresult r = fac__cu.cuStreamQuery(fac__cuda_stream_of(index, id));
    *out_done = r == CUDA_SUCCESS;
    fac_status st = *out_done || r == CUDA_ERROR_NOT_READY ? FAC_OK : fac__cuda_fail(r, "cuStreamQuery");
    fac__cuda_leave(&entry);
    return *out_done ? fac__cuda_bounds_check(index, "cuStreamQuery") : st;
}

static fac_status synchronize_stream(const fac_device_guard *g, int index, int64_t id) {
    (void)g;
    FAC_TRY(fac__cuda_stream_synchronize(index, id));
    return fac__cuda_bounds_check(index, "cuStreamSynchronize");
}

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

static fac_status record_event(const fac_device_guard *g, void **event, int index, int64_t id, bool timing) {
    (void)g;
    fac_cuda_event *e = *event;
    if (!e) FAC_TRY(fac__cuda_event_take(index, timing, &e));
    fac_status st = fac__cuda_event_record(e, index, id);
    if (st != FAC_OK && !*event)
        fac__cuda_event_put(e);
    else
        *event = e;
    return st;
}

static fac_status block_stream(const fac_device_guard *g, void *event, int index, int64_t id) {
    (void)g;
    return fac__cuda_event_wait(event, index, id);
}

static fac_status query_event(const fac_device_guard *g, void *event, bool *out_done) {
    (void)g;
    const fac_cuda_event *e = event;
    FAC_TRY(fac__cuda_event_query(e, out_done));
    return *out_done ? fac__cuda_bounds_check(e->device, "cuEventQuery") : FAC_OK;
}

static fac_status synchronize_event(const fac_device_guard *g, void *event) {
    (void)g;
    const fac_cuda_event *e = event;
    FAC_TRY(fac__cuda_event_synchronize(e));
    return fac__cuda_bounds_check(e->device, "cuEventSynchronize");
}

static fac_status elapsed(const fac_device_guard *g, void *start, void *end, double *out_ms) {
    (void)g;
    return fac__cuda_event_elapsed(start, end, out_ms);
}

static void destroy_event(const fac_device_guard *g, void *event, int index) {
    (void)g, (void)index;
    fac__cuda_event_put(event);
}

static fac_status record_data(const fac_device_guard *g, void *data, int index, int64_t id) {
    (void)g;
    return fac__cuda_record_data(data, index, id);
}

static void begin_thread(const fac_device_guard *g) {
    (void)g;
    fac__cuda_helper_begin();
}

static const fac_device_guard guard = {
    .size = sizeof guard,
    .type = FAC_CUDA,
    .count = count,
    .get_device = get_device,
    .set_device = set_device,
    .set_device_unchecked = set_device_unchecked,
    .synchronize = synchronize,
    .allocator = allocator,
    .host_allocator = host_allocator,
    .is_host_memory = is_host_memory,
    .copy = copy,
    .get_stream = get_stream,
    .new_stream = new_stream,
    .wrap_stream = wrap_stream,
    .exchange_stream = exchange_stream,
    .stream_handle = stream_handle,
    .query_stream = query_stream,
    .synchronize_stream = synchronize_stream,
    .record_event = record_event,
    .block_stream = block_stream,
    .query_event = query_event,
    .synchronize_event = synchronize_event,
    .elapsed = elapsed,
    .destroy_event = destroy_event,
    .begin_thread = begin_thread,
    .record_data = record_data,
};

fac_status fac__cuda_init(void) { return fac_register_device_guard(&guard); }
