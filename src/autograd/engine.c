/* The engine. A pass first walks the graph from its roots and counts, for each node, the edges that lead to it. Then it
   runs nodes whose edges have all delivered, the most recent first; what they return is summed in the buffers of the nodes
   behind. Leaves' accumulators run at once.

   A pass over nodes of several accelerators takes a thread for each but the first, so that the host queues work on all of
   them at once: nodes run side by side, and what they return is distributed under one lock. Otherwise the calling thread
   does everything.

   The records of the nodes of a pass live in scratch memory of the thread, found by hashing the node's address: nothing is
   written into the nodes, which other threads may be passing over too, and a pass over a small graph allocates nothing. */
#include "autograd/engine.h"
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/hooks.h"
#include "autograd/mode.h"
#include "autograd/records.h"
#include "autograd/streams.h"
#include "base/helper.h"
#include "base/mutex.h"
#include "core/guard.h"
#include <pthread.h>

typedef struct pass {
    const fac_pass_request *r;
    scratch *s;
    fac_thread *th, *caller;  /* who runs nodes, and who asked for the pass */
    fac_keyset user_exclude;  /* what hooks and user code see */
    fac_keyset inner_exclude; /* what built-in nodes see: autograd is skipped altogether unless a graph is made */
    struct team *team;        /* NULL unless several accelerators take part */
} pass;

#define MAX_TEAM 16 /* accelerators with a thread of their own; further ones share the last */

/* The threads of a pass over several accelerators. Everything but the lock itself is read and written under the lock; so
   are the records' buffers and counts. */
typedef struct team {
    fac_mutex lock;
    fac_cond news; /* a node is ready, the last one is done, or something failed */
    fac_device devices[MAX_TEAM];
    ready queues[MAX_TEAM]; /* by device; the calling thread serves the first, and nodes of the CPU */
    size_t n, unfinished;   /* queues; nodes that are ready or running */
    fac_status st;
    fac_saved_error *error;
} team;

static void lock(const pass *p) {
    if (FAC_UNLIKELY(p->team != NULL)) fac__mutex_lock(&p->team->lock);
}
static void unlock(const pass *p) {
    if (FAC_UNLIKELY(p->team != NULL)) fac__mutex_unlock(&p->team->lock);
}

atomic_bool fac__detect_anomaly;

bool fac_set_detect_anomaly(bool on) { return atomic_exchange(&fac__detect_anomaly, on); }

/* ---- the walk --------------------------------------------------------------------------------------------------------------- */

static fac_status push_visit(scratch *s, uint32_t rec) {
    if (FAC_UNLIKELY(s->stack.n == s->stack.cap)) FAC_TRY(FAC_VEC_GROW(&s->stack));
    s->stack.v[s->stack.n++] = (visit){rec, 0};
    return FAC_OK;
}

static bool wanted(const record *r) { return r->needed || r->capture; }

/* All nodes behind r have been left: a node with a target behind it is needed. */
static void leave(const scratch *s, record *r) {
    const fac_node *n = r->node;
    for (uint32_t i = 0; i < n->n_edges && !r->needed; i++)
        r->needed = n->edges[i].node && wanted(find(s, n->edges[i].node));
}

/* Depth first, each node once, counting the edges to each. Targets have their records already, marked. */
static fac_status walk(const pass *p, uint32_t root) {
    scratch *s = p->s;
    FAC_TRY(push_visit(s, root));
    while (s->stack.n) {
        visit *top = &s->stack.v[s->stack.n - 1];
        const fac_node *n = s->records.v[top->record].node;
        if (top->edge == n->n_edges) {
            if (p->r->n_targets)
                leave(s, &s->records.v[top->record]);
            else
                s->records.v[top->record].needed = true;
            s->stack.n--;
            continue;
        }
        fac_node *next = n->edges[top->edge++].node;
        if (!next) continue;
        uint32_t rec;
        FAC_TRY(record_of(s, next, &rec));
        if (s->records.v[rec].waits++ == 0) FAC_TRY(push_visit(s, rec));
    }
    return FAC_OK;
}

static fac_status mark_targets(const pass *p) {
    const fac_pass_request *r = p->r;
    scratch *s = p->s;
    for (size_t i = 0; i < r->n_targets; i++) {
        if (!r->targets[i].node) continue;
        uint32_t rec;
        FAC_TRY(record_of(s, r->targets[i].node, &rec));
        if (!r->captured) {
            s->records.v[rec].needed = true;
            continue;
        }
        FAC_TRY(FAC_VEC_GROW(&s->captures));
        s->captures.v[s->captures.n++] = (capture){r->targets[i].nr, s->records.v[rec].capture, i};
        s->records.v[rec].capture = (uint32_t)s->captures.n;
    }
    return FAC_OK;
}

/* ---- buffers --------------------------------------------------------------------------------------------------------------------- */

static bool may_add_in_place(const fac_tensor *t) {
    return atomic_load_explicit(&t->refs, memory_order_acquire) == 1 && t->storage && (t->flags & FAC_TF_DENSE) &&
           atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1;
}

/* Sums two gradients in the stream of the node that takes them. */
static fac_status add(const pass *p, const fac_node *taker, fac_tensor **slot, fac_tensor *more) {
    fac_stream_scope in = {{{0, 0}, 0}, {0, 0}};
    if (fac__is_accelerator(more->device)) in = fac_stream_scope_begin(fac__stream_on(taker, more->device));
    fac_tensor *sum = NULL;
    fac_status st = fac_error();
    if (st == FAC_OK && !p->r->create_graph && may_add_in_place(*slot))
        st = fac__ag_add_in_place(*slot, more);
    else if (st == FAC_OK && (st = fac__ag_add(*slot, more, &sum)) == FAC_OK) {
        fac__unref(*slot);
        *slot = sum;
    }
    fac__leave_stream(&in);
    return st;
}

/* Adds `owned`, which `giver` made (NULL: the caller), to what has arrived for output nr. Takes the reference, always. */
static fac_status deliver(const pass *p, record *r, uint32_t nr, const fac_node *giver, fac_tensor *owned) {
    fac_tensor **slot = &r->one;
    if (FAC_UNLIKELY(r->node->n_outputs != 1)) {
        if (!r->many) r->many = fac__alloc_zero(r->node->n_outputs * sizeof *r->many);
        if (!r->many) {
            fac__unref(owned);
            return FAC_ERR_MEMORY;
        }
        slot = &r->many[nr];
    }
    if (FAC_UNLIKELY(fac__is_accelerator(owned->device))) {
        fac_status st =
            fac__hand_over(owned, fac__stream_on(giver, owned->device), fac__stream_on(r->node, owned->device));
        if (st != FAC_OK) {
            fac__unref(owned);
            return st;
        }
    }
    if (FAC_LIKELY(!*slot)) {
        *slot = owned;
        return FAC_OK;
    }
    fac_status st = add(p, r->node, slot, owned);
    fac__unref(owned);
    return st;
}

static void drop_buffer(record *r) {
    fac_tensor *one = r->one, **many = r->many;
    r->one = NULL;
    r->many = NULL;
    fac__unref(one);
    if (FAC_LIKELY(!many)) return;
    for (uint32_t i = 0; i < r->node->n_outputs; i++) fac__unref(many[i]);
    fac__free(many);
}

/* ---- running a node ------------------------------------------------------------------------------------------------------------------ */

static fac_status check_nan(const fac_node *n, uint32_t i, fac_tensor *grad) {
    bool nan = false;
    FAC_TRY(fac__ag_has_nan(grad, &nan));
    FAC_CHECK(!nan, FAC_ERR_AUTOGRAD, "Function '%s' returned nan values in its %uth output.", n->cls->name, i);
    return FAC_OK;
}

/* What hooks put in the place of gradients, in the shape that the node expects. */
static fac_status fit_replaced(fac_node *n, fac_tensor **grads) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (grads[i]) FAC_TRY(fac__fit_gradient("hook", i, &(fac_edge){n, i}, &grads[i]));
    return FAC_OK;
}

/* Hooks on the gradients of a node's outputs, then on all of them. */
static fac_status run_hooks_before(const pass *p, const record *r, fac_tensor **grads) {
    fac_hooks *h = r->node->hooks;
    p->th->exclude = p->user_exclude;
    fac_status st = fac__run_tensor_hooks(h, grads);
    if (st == FAC_OK) st = fit_replaced(r->node, grads);
    if (st == FAC_OK) st = fac__run_retain_hooks(h, grads);
    if (st == FAC_OK && r->needed) st = fac__run_pre_hooks(h, grads, r->node->n_outputs);
    if (st == FAC_OK) st = fit_replaced(r->node, grads);
    p->th->exclude = p->inner_exclude;
    return st;
}

static fac_status run_hooks_after(const pass *p, const fac_node *n, fac_tensor **out, fac_tensor *const *grads) {
    p->th->exclude = p->user_exclude;
    fac_status st = fac__run_post_hooks(n->hooks, out, n->n_edges, grads, n->n_outputs);
    p->th->exclude = p->inner_exclude;
    return st;
}

static void hand_out(const pass *p, const record *r, fac_tensor *const *grads) {
    for (uint32_t c = r->capture; c; c = p->s->captures.v[c - 1].next) {
        const capture *k = &p->s->captures.v[c - 1];
        p->r->captured[k->target] = fac__ref(grads[k->nr]);
    }
}

/* With named targets, formulas for edges that lead to none of them are not computed. */
static void skip_unwanted(const pass *p, const fac_node *n) {
    p->th->skip_node = n;
    p->th->skip_edges = 0;
    for (uint32_t i = 0; i < n->n_edges && i < 64; i++)
        if (n->edges[i].node && !wanted(find(p->s, n->edges[i].node))) p->th->skip_edges |= (uint64_t)1 << i;
}

static fac_status call_apply(const pass *p, fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
    fac_thread *th = p->th;
    const void *outer_node = th->skip_node;
    uint64_t outer_edges = th->skip_edges;
    if (p->r->n_targets) skip_unwanted(p, n);
    if (FAC_UNLIKELY(n->cls->user_code)) th->exclude = p->user_exclude;
    fac_status st = n->cls->apply(n, grads, out);
    th->exclude = p->inner_exclude;
    th->skip_node = outer_node;
    th->skip_edges = outer_edges;
    if (FAC_UNLIKELY(st != FAC_OK && fac_error() == FAC_OK)) FAC_FAIL(st, "the node failed without saying why");
    return st == FAC_OK ? FAC_OK : fac__error_prefix(n->cls->name);
}

/* The caller's streams will wait for those in which gradients come out. */
static fac_status note_exit(const pass *p, const fac_node *n) {
    if (FAC_LIKELY(!n->stream.device.type)) return FAC_OK;
    scratch *s = p->s;
    for (size_t i = 0; i < s->exits.n; i++)
        if (fac_stream_equal(s->exits.v[i], n->stream)) return FAC_OK;
    if (s->exits.n == s->exits.cap) FAC_TRY(FAC_VEC_GROW(&s->exits));
    s->exits.v[s->exits.n++] = n->stream;
    return FAC_OK;
}

static fac_status wait_for_exits(const pass *p) {
    for (size_t i = 0; i < p->s->exits.n; i++) {
        fac_stream from = p->s->exits.v[i];
        FAC_TRY(fac_stream_wait_stream(fac_current_stream(from.device), from));
    }
    return FAC_OK;
}

static fac_status accumulate(const pass *p, record *r) {
    struct fac_autograd *ag = fac__accumulator_leaf(r->node)->ag;
    if (FAC_UNLIKELY((ag->hooks || r->node->hooks) && r->one)) {
        p->th->exclude = p->user_exclude;
        fac_status st = fac__run_tensor_hooks(ag->hooks, &r->one);
        p->th->exclude = p->inner_exclude;
        FAC_TRY(st == FAC_OK ? st : fac__error_prefix("a tensor hook"));
        FAC_TRY(run_hooks_before(p, r, &r->one));
    }
    if (FAC_UNLIKELY(r->capture)) hand_out(p, r, &r->one);
    fac_tensor *grad = r->one;
    r->one = NULL;
    if (!grad) return FAC_OK;
    if (!r->needed) {
        fac__unref(grad);
        return FAC_OK;
    }
    if (FAC_UNLIKELY(ag->hooks != NULL)) p->th->exclude = p->user_exclude;
    fac_status st = fac__accumulate(r->node, grad, p->r->create_graph);
    p->th->exclude = p->inner_exclude;
    if (st != FAC_OK) return fac__error_prefix("AccumulateGrad");
    return FAC_UNLIKELY(r->node->hooks != NULL) ? run_hooks_after(p, r->node, NULL, (fac_tensor *[]){NULL}) : FAC_OK;
}

static fac_status run_accumulator(const pass *p, record *r) {
    fac_stream_scope in = fac__enter_stream_of(r->node);
    fac_status st = p->th->error;
    if (FAC_LIKELY(st == FAC_OK)) st = accumulate(p, r);
    fac__leave_stream(&in);
    return st;
}

/* Hands a ready record to the thread of its device. */
static fac_status assign(const pass *p, const record *r) {
    team *t = p->team;
    size_t i = 0;
    while (i + 1 < t->n && !fac_device_equal(t->devices[i], r->node->stream.device)) i++;
    if (!r->node->stream.device.type) i = 0;
    t->unfinished++;
    fac__cond_announce(&t->news);
    return push_ready(p->s, &t->queues[i], (uint32_t)(r - p->s->records.v));
}

/* One edge has delivered (`owned`, or NULL for nothing); a node that waits for no other is ready. */
static fac_status arrive(const pass *p, const fac_edge *edge, const fac_node *giver, fac_tensor *owned) {
    record *r = find(p->s, edge->node);
    bool ready = --r->waits == 0;
    if (owned && !wanted(r))
        fac__unref(owned);
    else if (owned)
        FAC_TRY(deliver(p, r, edge->nr, giver, owned));
    if (!ready || !wanted(r)) return FAC_OK;
    if (r->capture || fac__is_accumulator(r->node)) FAC_TRY(note_exit(p, r->node));
    if (FAC_UNLIKELY(p->team != NULL)) return assign(p, r);
    if (fac__is_accumulator(r->node)) return run_accumulator(p, r);
    return push_ready(p->s, &p->s->heap, (uint32_t)(r - p->s->records.v));
}

static fac_status distribute(const pass *p, const fac_node *n, fac_tensor **out) {
    fac_status st = FAC_OK;
    for (uint32_t i = 0; i < n->n_edges; i++) {
        fac_tensor *grad = out[i];
        out[i] = NULL;
        if (st == FAC_OK && n->edges[i].node)
            st = arrive(p, &n->edges[i], n, grad);
        else
            fac__unref(grad);
    }
    return st;
}

/* Results in the shape that the nodes behind expect. */
static fac_status fit_all(const fac_node *n, fac_tensor **out) {
    bool anomaly = atomic_load_explicit(&fac__detect_anomaly, memory_order_relaxed);
    for (uint32_t i = 0; i < n->n_edges; i++) {
        if (!out[i] || !n->edges[i].node) continue;
        FAC_TRY(fac__fit_gradient(n->cls->name, i, &n->edges[i], &out[i]));
        if (FAC_UNLIKELY(anomaly)) FAC_TRY(check_nan(n, i, out[i]));
    }
    return FAC_OK;
}

static bool any(fac_tensor *const *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i]) return true;
    return false;
}

/* Applies r's node to what has arrived. out[] is all NULL where nothing has. */
static fac_status apply(const pass *p, record *r, fac_tensor **out) {
    fac_node *n = r->node;
    fac_tensor **grads = n->n_outputs == 1 ? &r->one : r->many;
    if (!grads || !any(grads, n->n_outputs)) return FAC_OK;
    FAC_TRY(fac__check_cancel(p->caller));
    if (FAC_UNLIKELY(n->hooks != NULL) && run_hooks_before(p, r, grads) != FAC_OK)
        return fac__error_prefix(n->cls->name);
    if (FAC_UNLIKELY(r->capture)) hand_out(p, r, grads);
    if (!r->needed || !any(grads, n->n_outputs)) return FAC_OK; /* a hook may have taken all */
    FAC_TRY(call_apply(p, n, grads, out));
    FAC_TRY(fit_all(n, out));
    if (FAC_UNLIKELY(n->hooks != NULL)) {
        FAC_TRY(run_hooks_after(p, n, out, grads));
        FAC_TRY(fit_all(n, out));
    }
    if (!p->r->keep_graph && n->cls->release) {
        n->cls->release(n);
        n->released = true;
    }
    return FAC_OK;
}

static fac_status run_record(const pass *p, record *r) {
    const fac_node *n = r->node;
    fac_tensor *few[8] = {NULL}, **out = few;
    if (FAC_UNLIKELY(n->n_edges > FAC_COUNT(few))) {
        out = fac__alloc_zero(n->n_edges * sizeof *out);
        if (!out) return FAC_ERR_MEMORY;
    }
    fac_stream_scope in = fac__enter_stream_of(n);
    fac_status st = p->th->error;
    if (FAC_LIKELY(st == FAC_OK)) st = apply(p, r, out);
    fac__leave_stream(&in);
    drop_buffer(r); /* before its results go on, so that one that was passed through is theirs alone */
    if (FAC_LIKELY(st == FAC_OK)) {
        lock(p);
        st = r->needed ? distribute(p, n, out) : FAC_OK;
        unlock(p);
    } else
        for (uint32_t i = 0; i < n->n_edges; i++) fac__unref(out[i]);
    if (FAC_UNLIKELY(out != few)) fac__free(out);
    return st;
}

/* ---- the beginning ------------------------------------------------------------------------------------------------------ */

static fac_status walk_all(const pass *p) {
    const fac_pass_request *r = p->r;
    FAC_TRY(mark_targets(p));
    for (size_t i = 0; i < r->n_roots; i++) {
        uint32_t rec;
        FAC_TRY(record_of(p->s, r->roots[i].node, &rec));
        /* A root waits for its own gradient; the first visit walks on from it. */
        if (p->s->records.v[rec].waits++ == 0) FAC_TRY(walk(p, rec));
    }
    return FAC_OK;
}

static fac_status give_roots(const pass *p) {
    const fac_pass_request *r = p->r;
    for (size_t i = 0; i < r->n_roots; i++) FAC_TRY(arrive(p, &r->roots[i], NULL, fac__ref(r->grads[i])));
    return FAC_OK;
}

/* ---- several accelerators -------------------------------------------------------------------------------------------------- */

static bool several_devices(const scratch *s) {
    fac_device first = {0, 0};
    for (size_t i = 0; i < s->records.n; i++) {
        fac_device d = s->records.v[i].node->stream.device;
        if (FAC_LIKELY(!d.type)) continue;
        if (first.type && !fac_device_equal(first, d)) return true;
        first = d;
    }
    return false;
}

/* Notes the accelerators whose nodes the pass may reach. */
static void gather_devices(const scratch *s, team *t) {
    for (size_t i = 0; i < s->records.n; i++) {
        fac_device d = s->records.v[i].node->stream.device;
        bool known = !d.type || t->n == MAX_TEAM;
        for (size_t k = 0; k < t->n && !known; k++) known = fac_device_equal(t->devices[k], d);
        if (!known) t->devices[t->n++] = d;
    }
}

/* Runs what is ready in one queue until the whole pass is done or has failed. */
static void serve(const pass *p, size_t queue) {
    team *t = p->team;
    fac__mutex_lock(&t->lock);
    while (t->st == FAC_OK && (t->unfinished || t->queues[queue].n)) {
        if (!t->queues[queue].n) {
            fac__cond_wait(&t->news, &t->lock);
            continue;
        }
        record *r = pop_ready(p->s, &t->queues[queue]);
        fac__mutex_unlock(&t->lock);
        fac_status st = fac__is_accumulator(r->node) ? run_accumulator(p, r) : run_record(p, r);
        fac_saved_error *e = st == FAC_OK ? NULL : fac__error_take();
        fac__mutex_lock(&t->lock);
        t->unfinished--;
        if (st != FAC_OK && t->st == FAC_OK) {
            t->st = st;
            t->error = e;
            e = NULL;
        }
        fac__error_drop(e);
        fac__cond_announce(&t->news);
    }
    fac__mutex_unlock(&t->lock);
}

/* Thread state that a thread which works for the caller of a pass inherits from it. */
typedef struct inheritance {
    fac_recording state;
    fac_whereabouts places;
    int num_threads, backward_depth;
    uint64_t next_seq;
} inheritance;

/* places.streams.v is to be freed, also after a failure. */
static fac_status inheritance_save(const fac_thread *th, inheritance *out) {
    *out = (inheritance){.state = fac__recording_save(th),
                         .num_threads = th->num_threads,
                         .backward_depth = th->backward_depth,
                         .next_seq = th->next_seq};
    return fac__whereabouts_save(&out->places);
}

static void inheritance_take_up(fac_thread *th, const inheritance *i) {
    fac__device_thread_begin();
    fac__recording_end(i->state);
    fac__whereabouts_take_up(&i->places);
    th->num_threads = i->num_threads;
    th->next_seq = i->next_seq;
}

typedef struct member {
    const pass *p;
    const inheritance *from;
    size_t queue;
    pthread_t thread;
    bool started;
} member;

static void fail_team(team *t, fac_status st) {
    fac__mutex_lock(&t->lock);
    if (t->st == FAC_OK) {
        t->st = st;
        t->error = fac__error_take();
    }
    fac__cond_announce(&t->news);
    fac__mutex_unlock(&t->lock);
}

static void *run_member(void *context) {
    const member *m = context;
    fac_thread *th = fac__thread();
    pass mine = *m->p;
    mine.th = th;
    inheritance_take_up(th, m->from);
    th->create_graph = mine.r->create_graph;
    th->backward_depth = m->from->backward_depth;
    if (th->error == FAC_OK)
        serve(&mine, m->queue);
    else
        fail_team(mine.team, th->error);
    th->backward_depth = 0;
    return NULL;
}

static fac_status run_members(pass *p, const inheritance *from) {
    team *t = p->team;
    member members[MAX_TEAM];
    for (size_t i = 1; i < t->n; i++) {
        members[i] = (member){.p = p, .from = from, .queue = i};
        members[i].started = fac__helper_start(&members[i].thread, 0, run_member, &members[i]);
        if (!members[i].started)
            fail_team(t, FAC_FAIL(FAC_ERR_MEMORY, "cannot start the thread of a device for a backward pass"));
    }
    serve(p, 0);
    for (size_t i = 1; i < t->n; i++)
        if (members[i].started) pthread_join(members[i].thread, NULL);
    fac__error_restore(t->error);
    return t->st;
}

static fac_status run_team(pass *p) {
    inheritance from;
    fac_status st = inheritance_save(p->th, &from);
    if (st == FAC_OK) st = run_members(p, &from);
    fac__free(from.places.streams.v);
    return st;
}

/* The threads' heaps and what else a team holds. */
static void team_end(team *t) {
    for (size_t i = 0; i < t->n; i++) fac__free(t->queues[i].v);
    fac__mutex_destroy(&t->lock);
}

/* ---- a pass -------------------------------------------------------------------------------------------------------------------------------- */

static fac_status run_alone(const pass *p) {
    fac_status st = give_roots(p);
    while (st == FAC_OK && p->s->heap.n) st = run_record(p, pop_ready(p->s, &p->s->heap));
    return st;
}

static fac_status run_together(pass *p) {
    team t = {.lock = FAC_MUTEX_INIT, .news = {0}};
    gather_devices(p->s, &t);
    p->team = &t;
    fac_status st = give_roots(p);
    if (st == FAC_OK) st = run_team(p);
    p->team = NULL;
    team_end(&t);
    return st;
}

static fac_status run(pass *p) {
    fac_status st = walk_all(p);
    if (st == FAC_OK) st = FAC_UNLIKELY(several_devices(p->s)) ? run_together(p) : run_alone(p);
    if (st == FAC_OK) st = wait_for_exits(p);
    if (st == FAC_OK) return FAC_OK;
    for (size_t i = 0; i < p->s->records.n; i++) drop_buffer(&p->s->records.v[i]);
    for (size_t i = 0; p->r->captured && i < p->r->n_targets; i++) {
        fac__unref(p->r->captured[i]);
        p->r->captured[i] = NULL;
    }
    return st;
}

static fac_status run_here(const fac_pass_request *r) {
    fac_thread *th = fac__thread();
    fac_recording was = fac__recording_save(th);
    pass p = {.r = r, .s = fac__scratch_take(), .th = th, .caller = th, .user_exclude = th->exclude};
    if (!p.s) return FAC_ERR_MEMORY;
    p.inner_exclude = r->create_graph ? th->exclude : th->exclude | FAC_KS_AUTOGRAD | FAC_KS_ADIV;
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

/* ---- deep nesting: a thread, and so a stack, of its own -------------------------------------------------------------------------- */

typedef struct errand {
    const fac_pass_request *r;
    inheritance from;
    fac_saved_error *error;
    fac_status st;
} errand;

static void *run_errand(void *p) {
    errand *e = p;
    fac_thread *th = fac__thread();
    inheritance_take_up(th, &e->from);
    e->st = th->error == FAC_OK ? run_here(e->r) : th->error;
    e->error = fac__error_take();
    return NULL;
}

static fac_status run_errand_elsewhere(errand *e) {
    pthread_t worker;
    FAC_CHECK(fac__helper_start(&worker, 0, run_errand, e), FAC_ERR_MEMORY,
              "cannot start a thread for a backward pass nested %d deep", e->from.backward_depth);
    pthread_join(worker, NULL);
    fac__error_restore(e->error);
    return e->st;
}

static fac_status run_elsewhere(const fac_pass_request *r) {
    errand e = {.r = r};
    fac_status st = inheritance_save(fac__thread(), &e.from);
    if (st == FAC_OK) st = run_errand_elsewhere(&e);
    fac__free(e.from.places.streams.v);
    return st;
}

fac_status fac__pass_run(const fac_pass_request *r) {
    return FAC_LIKELY(fac__thread()->backward_depth < FAC_MAX_NESTED_PASSES) ? run_here(r) : run_elsewhere(r);
}
