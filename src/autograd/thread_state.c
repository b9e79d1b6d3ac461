/* Saving a thread's state, and making it another's. */
#include "autograd/thread_state.h"
#include "autograd/streams.h"
#include "core/guard.h"

static fac_status save_kind(const fac_device_guard *g, fac_thread_state *out) {
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

fac_status fac__thread_state_save(const fac_thread *th, fac_thread_state *out) {
    *out = (fac_thread_state){.recording = fac__recording_save(th),
                              .watched = fac__dual_watched(),
                              .batch = th->batch,
                              .autocast = th->autocast,
                              .num_threads = th->num_threads,
                              .backward_depth = th->backward_depth,
                              .next_seq = th->next_seq};
    unsigned seen = atomic_load_explicit(&fac__kinds_seen, memory_order_relaxed);
    for (int type = 0; seen >> type; type++) {
        const fac_device_guard *g = seen >> type & 1 ? fac_device_guard_of((fac_device_type)type) : NULL;
        if (g) FAC_TRY(save_kind(g, out));
    }
    return FAC_OK;
}

void fac__thread_state_restore(const fac_thread_state *s) {
    fac_thread *th = fac__thread();
    fac__device_thread_begin();
    fac__recording_end(s->recording);
    fac__dual_watch_from(th, s->watched);
    th->batch = s->batch;
    th->autocast = s->autocast;
    th->autocast.uncached = true; /* a thread that helps opens no region, and so ends none */
    th->num_threads = s->num_threads;
    th->next_seq = s->next_seq;
    for (int type = 0; type < FAC_DEVICE_TYPE_COUNT; type++) {
        const fac_device_guard *g = s->devices[type].type ? fac_device_guard_of((fac_device_type)type) : NULL;
        if (g) g->set_device_unchecked(g, s->devices[type].index_plus - 1);
    }
    for (size_t i = 0; i < s->streams.n; i++)
        if (fac_set_stream(s->streams.v[i]) != FAC_OK) return; /* ends the pass */
}

void fac__thread_state_free(fac_thread_state *s) { fac__free(s->streams.v); }
