/* The engine: a pass from its beginning to its end. The walk (walk.c) counts, for each node, the edges that lead to it. The
   run (run.c) takes nodes whose edges have all delivered, the most recent first. The calling thread does everything, unless
   nodes of several accelerators take part (device_workers.c).

   The records of the nodes of a pass live in scratch memory of the thread, found by hashing the node's address: nothing is
   written into the nodes, which other threads may be passing over too, and a pass over a small graph allocates nothing. */
#include "autograd/mode.h"
#include "autograd/pass.h"
#include "autograd/thread_state.h"
#include "base/helper.h"

atomic_bool fac__detect_anomaly;

bool fac_set_detect_anomaly(bool on) { return atomic_exchange(&fac__detect_anomaly, on); }

/* ---- a pass on this thread ------------------------------------------------------------------------------------------ */

static fac_status wait_for_exits(const fac_pass *p) {
    for (size_t i = 0; i < p->s->exits.n; i++) {
        fac_stream from = p->s->exits.v[i];
        FAC_TRY(fac_stream_wait_stream(fac_current_stream(from.device), from));
    }
    return FAC_OK;
}

static fac_status run_alone(const fac_pass *p) {
    fac_status st = fac__pass_start(p);
    while (st == FAC_OK && p->s->heap.n) st = fac__pass_run_record(p, fac__ready_pop(p->s, &p->s->heap));
    return st;
}

static fac_status run(fac_pass *p) {
    fac_device devices[FAC_MAX_DEVICE_WORKERS];
    fac_status st = fac__pass_walk(p);
    if (st == FAC_OK) {
        size_t n = fac__pass_devices(p->s, devices);
        st = FAC_LIKELY(n < 2) ? run_alone(p) : fac__pass_run_on_devices(p, devices, n);
    }
    if (st == FAC_OK) st = wait_for_exits(p);
    if (st == FAC_OK) return FAC_OK;
    for (size_t i = 0; i < p->s->records.n; i++) fac__pass_drop(&p->s->records.v[i]);
    for (size_t i = 0; p->r->captured && i < p->r->n_targets; i++) {
        fac__unref(p->r->captured[i]);
        p->r->captured[i] = NULL;
    }
    return st;
}

static fac_status run_here(const fac_pass_request *r) {
    fac_thread *th = fac__thread();
    fac_recording was = fac__recording_save(th);
    fac_pass p = {.r = r, .s = fac__scratch_take(), .th = th, .caller = th, .user_exclude = th->exclude};
    if (!p.s) return FAC_ERR_MEMORY;
    /* Gradients have no names, and the dtypes of what they belong to. */
    p.inner_exclude = th->exclude | fac__func_bit(FAC_KEY_NAMED) | fac__func_bit(FAC_KEY_AUTOCAST);
    if (!r->create_graph) p.inner_exclude |= FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;
    bool outer_creates = th->create_graph;
    th->grad_disabled = !r->create_graph;
    th->create_graph = r->create_graph;
    th->exclude = p.inner_exclude;
    th->backward_depth++;
    fac_status st = run(&p);
    th->backward_depth--;
    th->create_graph = outer_creates;
    fac__recording_end(was);
    fac__scratch_give(p.s);
    return st;
}

/* ---- passes nested deep are offloaded to a thread, and so a stack, of their own ------------------------------------- */

typedef struct offloaded_pass {
    const fac_pass_request *r;
    fac_thread_state from; /* of the thread that asked for it */
    fac_saved_error *error;
    fac_status st;
} offloaded_pass;

static void *run_offloaded(void *context) {
    offloaded_pass *o = context;
    fac__thread_state_restore(&o->from);
    fac_status pending = fac_error();
    o->st = pending == FAC_OK ? run_here(o->r) : pending;
    o->error = fac__error_take();
    return NULL;
}

static fac_status run_and_wait(offloaded_pass *o) {
    pthread_t worker;
    FAC_CHECK(fac__helper_start(&worker, 0, run_offloaded, o), FAC_ERR_MEMORY,
              "cannot start a thread for a backward pass nested %d deep", o->from.backward_depth);
    pthread_join(worker, NULL);
    fac__error_restore(o->error);
    return o->st;
}

static fac_status offload(const fac_pass_request *r) {
    offloaded_pass o = {.r = r};
    fac_status st = fac__thread_state_save(fac__thread(), &o.from);
    if (st == FAC_OK) st = run_and_wait(&o);
    fac__thread_state_free(&o.from);
    return st;
}

fac_status fac__pass_run(const fac_pass_request *r) {
    return FAC_LIKELY(fac__thread()->backward_depth < FAC_MAX_NESTED_PASSES) ? run_here(r) : offload(r);
}
