/* Events of any kind of device. Where a kind has none of its own, work is done when a call returns: then an event is done
   once recorded, and its time is the host's. */
#include "core/guard.h"
#include "core/tensor.h"
#include "keywords_gen.h"
#include <time.h>

struct fac_event {
    fac_device_type type;
    bool timing, recorded;
    int index;    /* of the device of the first record */
    void *handle; /* the back end's, made by the first record */
    double host_ms;
};

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static fac_status given(const fac_event *e) {
    FAC_TRY(fac_error());
    FAC_CHECK(e, FAC_ERR_ARGUMENT, "NULL was given where an event is needed");
    return FAC_OK;
}

fac_event *(fac_event_new)(fac_device_type type, const fac_event_new_kw *kw) {
    const fac_device_guard *g;
    fac_event_new_kw k;
    FAC_TRY_NULL(fac_error());
    FAC_TRY_NULL(fac__open_event_new_kw(&k, kw));
    FAC_TRY_NULL(fac__guard_of((int32_t)type, &g));
    fac_event *e = fac__alloc_zero(sizeof *e);
    if (!e) return NULL;
    e->type = type;
    e->timing = k.enable_timing;
    fac__live_add(1);
    return e;
}

void fac_event_free(fac_event *e) {
    if (!e) return;
    const fac_device_guard *g = fac_device_guard_of(e->type);
    if (e->handle && g) g->destroy_event(g, e->handle, e->index);
    fac__free(e);
    fac__live_add(-1);
}

fac_status fac_event_record(fac_event *e, fac_stream s) {
    const fac_device_guard *g;
    FAC_TRY(given(e));
    FAC_TRY(fac__device_resolve(&s.device));
    int index = s.device.index_plus ? s.device.index_plus - 1 : 0;
    bool same = s.device.type == (int32_t)e->type && (!e->recorded || index == e->index);
    FAC_CHECK(same, FAC_ERR_DEVICE, "an event of %s cannot be recorded in a stream of %s",
              fac_device_format(fac_device_make(e->type, e->recorded ? e->index : -1), (char[24]){0}, 24),
              fac_device_format(s.device, (char[24]){0}, 24));
    FAC_TRY(fac__guard_of(s.device.type, &g));
    if (g->record_event) FAC_TRY(g->record_event(g, &e->handle, index, s.id, e->timing));
    e->host_ms = now_ms();
    e->index = index;
    e->recorded = true;
    return FAC_OK;
}

fac_status fac_event_query(fac_event *e, bool *out_done) {
    const fac_device_guard *g;
    FAC_TRY(given(e));
    FAC_CHECK(out_done, FAC_ERR_ARGUMENT, "fac_event_query: out_done is NULL");
    *out_done = true;
    if (!e->handle) return FAC_OK;
    FAC_TRY(fac__guard_of((int32_t)e->type, &g));
    return g->query_event(g, e->handle, out_done);
}

fac_status fac_event_synchronize(fac_event *e) {
    const fac_device_guard *g;
    FAC_TRY(given(e));
    if (!e->handle) return FAC_OK;
    FAC_TRY(fac__guard_of((int32_t)e->type, &g));
    return g->synchronize_event(g, e->handle);
}

fac_status fac_event_elapsed(fac_event *start, fac_event *end, double *out_ms) {
    const fac_device_guard *g;
    FAC_TRY(given(start));
    FAC_TRY(given(end));
    FAC_CHECK(out_ms, FAC_ERR_ARGUMENT, "fac_event_elapsed: out_ms is NULL");
    FAC_CHECK(start->timing && end->timing, FAC_ERR_STATE,
              "both events must be made with timing to measure the time between them");
    FAC_CHECK(start->recorded && end->recorded, FAC_ERR_STATE,
              "both events must be recorded before the time between them is measured");
    FAC_CHECK(start->type == end->type, FAC_ERR_DEVICE, "the two events are of different kinds of devices");
    FAC_TRY(fac__guard_of((int32_t)start->type, &g));
    if (g->elapsed) return g->elapsed(g, start->handle, end->handle, out_ms);
    *out_ms = end->host_ms - start->host_ms;
    return FAC_OK;
}

fac_status fac_stream_wait_event(fac_stream s, fac_event *e) {
    const fac_device_guard *g;
    FAC_TRY(given(e));
    FAC_CHECK(s.device.type != FAC_DEVICE_UNSET, FAC_ERR_ARGUMENT, "an unset stream was given");
    if (!e->handle) return FAC_OK; /* never recorded, or done when recorded */
    if (s.device.type != (int32_t)e->type) return fac_event_synchronize(e);
    FAC_TRY(fac__device_resolve(&s.device));
    FAC_TRY(fac__guard_of(s.device.type, &g));
    return g->block_stream(g, e->handle, s.device.index_plus - 1, s.id);
}

fac_status fac_stream_wait_stream(fac_stream s, fac_stream other) {
    FAC_TRY(fac_error());
    FAC_CHECK(s.device.type != FAC_DEVICE_UNSET && other.device.type != FAC_DEVICE_UNSET, FAC_ERR_ARGUMENT,
              "an unset stream was given");
    if (fac_stream_equal(s, other)) return FAC_OK;
    fac_event *e = fac_event_new((fac_device_type)other.device.type);
    if (!e) return fac_error();
    fac_status st = fac_event_record(e, other);
    if (st == FAC_OK) st = fac_stream_wait_event(s, e);
    fac_event_free(e);
    return st;
}
