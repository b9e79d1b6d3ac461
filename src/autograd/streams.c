#include "autograd/streams.h"
#include "core/guard.h"

atomic_uint fac__kinds_seen;

fac_stream fac__stream_on(const fac_node *n, fac_device d) {
    return n && fac_device_equal(n->stream.device, d) ? n->stream : fac_current_stream(d);
}

fac_status fac__hand_over(fac_tensor *grad, fac_stream from, fac_stream to) {
    if (fac_stream_equal(from, to)) return FAC_OK;
    FAC_TRY(fac_stream_wait_stream(to, from));
    return fac__record_stream(grad, to);
}

static fac_status save_kind(const fac_device_guard *g, fac_whereabouts *out) {
    int index, n = g->count(g);
    if (n == 0) return FAC_OK; /* no longer */
    FAC_TRY(g->get_device(g, &index));
    out->devices[g->type] = fac_device_make(g->type, index);
    for (int i = 0; i < n && g->get_stream; i++) {
        int64_t id = 0;
        FAC_TRY(g->get_stream(g, i, &id));
        if (id == 0) continue;
        FAC_TRY(FAC_VEC_GROW(&out->streams));
        out->streams.v[out->streams.n++] = (fac_stream){fac_device_make(g->type, i), id};
    }
    return FAC_OK;
}

fac_status fac__whereabouts_save(fac_whereabouts *out) {
    unsigned seen = atomic_load_explicit(&fac__kinds_seen, memory_order_relaxed);
    *out = (fac_whereabouts){.streams = {NULL, 0, 0}};
    for (int type = 0; seen >> type; type++) {
        const fac_device_guard *g = seen >> type & 1 ? fac_device_guard_of((fac_device_type)type) : NULL;
        if (g) FAC_TRY(save_kind(g, out));
    }
    return FAC_OK;
}

void fac__whereabouts_take_up(const fac_whereabouts *w) {
    for (int type = 0; type < FAC_DEVICE_TYPE_COUNT; type++) {
        const fac_device_guard *g = w->devices[type].type ? fac_device_guard_of((fac_device_type)type) : NULL;
        if (g) g->set_device_unchecked(g, w->devices[type].index_plus - 1);
    }
    for (size_t i = 0; i < w->streams.n; i++)
        if (fac_set_stream(w->streams.v[i]) != FAC_OK) return; /* the error stays pending, and ends the pass */
}
