/* The run of a pass: what arrives at a node is summed; a node whose edges have all delivered is ready; it runs between its
   hooks, and its results go on to the nodes behind. Leaves' accumulators run at once. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/hooks.h"
#include "autograd/pass.h"
#include "autograd/streams.h"

/* ---- arriving --------------------------------------------------------------------------------------------------- */

/* Sums two gradients in the stream of the node that takes them. */
static fac_status add(const fac_pass *p, const fac_node *taker, fac_tensor **slot, fac_tensor *more) {
    fac_stream_scope in = {{{0, 0}, 0}, {0, 0}};
    if (fac__is_accelerator(more->device)) in = fac_stream_scope_begin(fac__stream_on(taker, more->device));
    fac_tensor *sum = NULL;
    fac_status st = fac_error();
    if (st == FAC_OK && !p->r->create_graph && fac__is_ours_alone(*slot) && ((*slot)->flags & FAC_TF_DENSE))
        st = fac__ag_add_in_place(*slot, more);
    else if (st == FAC_OK && (st = fac__ag_add(*slot, more, &sum)) == FAC_OK) {
        fac__unref(*slot);
        *slot = sum;
    }
    fac__leave_stream(&in);
    return st;
}

/* Adds `owned`, which `giver` made (NULL: the caller), to what has arrived for output nr. Takes the reference, always. */
static fac_status deliver(const fac_pass *p, record *r, uint32_t nr, const fac_node *giver, fac_tensor *owned) {
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

void fac__pass_drop(record *r) {
    fac_tensor *one = r->one, **many = r->many;
    r->one = NULL;
    r->many = NULL;
    fac__unref(one);
    if (FAC_LIKELY(!many)) return;
    for (uint32_t i = 0; i < r->node->n_outputs; i++) fac__unref(many[i]);
    fac__free(many);
}

/* ---- hooks and captures ------------------------------------------------------------------------------------------- */

/* What hooks put in the place of gradients, in the shape that the node expects. */
static fac_status fit_replaced(fac_node *n, fac_tensor **grads) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (grads[i]) FAC_TRY(fac__fit_gradient("hook", i, &(fac_edge){n, i}, &grads[i]));
    return FAC_OK;
}

/* Hooks on the gradients of a node's outputs, then on all of them. */
static fac_status run_hooks_before(const fac_pass *p, const record *r, fac_tensor **grads) {
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

static fac_status run_hooks_after(const fac_pass *p, const fac_node *n, fac_tensor **out, fac_tensor *const *grads) {
    p->th->exclude = p->user_exclude;
    fac_status st = fac__run_post_hooks(n->hooks, out, n->n_edges, grads, n->n_outputs);
    p->th->exclude = p->inner_exclude;
    return st;
}

static void hand_out(const fac_pass *p, const record *r, fac_tensor *const *grads) {
    for (uint32_t c = r->capture; c; c = p->s->captures.v[c - 1].next) {
        const capture *k = &p->s->captures.v[c - 1];
        p->r->captured[k->target] = fac__ref(grads[k->nr]);
    }
}

/* ---- accumulators: the end of the line ---------------------------------------------------------------------------- */

static fac_status accumulate(const fac_pass *p, record *r) {
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

fac_status fac__pass_run_accumulator(const fac_pass *p, record *r) {
    fac_stream_scope in = fac__enter_stream_of(r->node);
    fac_status st = p->th->error;
    if (FAC_LIKELY(st == FAC_OK)) st = accumulate(p, r);
    fac__leave_stream(&in);
    return st;
}

/* ---- handing on ----------------------------------------------------------------------------------------------------- */

/* The caller's streams will wait for those in which gradients come out. */
static fac_status note_exit(const fac_pass *p, const fac_node *n) {
    if (FAC_LIKELY(!n->stream.device.type)) return FAC_OK;
    scratch *s = p->s;
    for (size_t i = 0; i < s->exits.n; i++)
        if (fac_stream_equal(s->exits.v[i], n->stream)) return FAC_OK;
    if (s->exits.n == s->exits.cap) FAC_TRY(FAC_VEC_GROW(&s->exits));
    s->exits.v[s->exits.n++] = n->stream;
    return FAC_OK;
}

/* One edge has delivered (`owned`, or NULL for nothing); a node that waits for no other is ready. */
static fac_status arrive(const fac_pass *p, const fac_edge *edge, const fac_node *giver, fac_tensor *owned) {
    record *r = fac__record_find(p->s, edge->node);
    bool ready = --r->waits == 0;
    if (owned && !fac__wanted(r))
        fac__unref(owned);
    else if (owned)
        FAC_TRY(deliver(p, r, edge->nr, giver, owned));
    if (!ready || !fac__wanted(r)) return FAC_OK;
    if (r->capture || fac__is_accumulator(r->node)) FAC_TRY(note_exit(p, r->node));
    if (FAC_UNLIKELY(p->workers != NULL)) return fac__workers_assign(p, r);
    if (fac__is_accumulator(r->node)) return fac__pass_run_accumulator(p, r);
    return fac__ready_push(p->s, &p->s->heap, (uint32_t)(r - p->s->records.v));
}

static fac_status distribute(const fac_pass *p, const fac_node *n, fac_tensor **out) {
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

fac_status fac__pass_start(const fac_pass *p) {
    const fac_pass_request *r = p->r;
    for (size_t i = 0; i < r->n_roots; i++) FAC_TRY(arrive(p, &r->roots[i], NULL, fac__ref(r->grads[i])));
    return FAC_OK;
}

/* ---- running a node ------------------------------------------------------------------------------------------------- */

/* With named targets, formulas for edges that lead to none of them are not computed. */
static void skip_unwanted(const fac_pass *p, const fac_node *n) {
    p->th->skip_node = n;
    p->th->skip_edges = 0;
    for (uint32_t i = 0; i < n->n_edges && i < 64; i++)
        if (n->edges[i].node && !fac__wanted(fac__record_find(p->s, n->edges[i].node)))
            p->th->skip_edges |= (uint64_t)1 << i;
}

static fac_status call_apply(const fac_pass *p, fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
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

static fac_status check_nan(const fac_node *n, uint32_t i, fac_tensor *grad) {
    bool nan = false;
    FAC_TRY(fac__ag_has_nan(grad, &nan));
    FAC_CHECK(!nan, FAC_ERR_AUTOGRAD, "Function '%s' returned nan values in its %uth output.", n->cls->name, i);
    return FAC_OK;
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
static fac_status apply(const fac_pass *p, record *r, fac_tensor **out) {
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

fac_status fac__pass_run_record(const fac_pass *p, record *r) {
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
    fac__pass_drop(r); /* before its results go on, so that one that was passed through is theirs alone */
    if (FAC_LIKELY(st == FAC_OK)) {
        if (FAC_UNLIKELY(p->workers != NULL)) fac__workers_lock(p->workers);
        st = r->needed ? distribute(p, n, out) : FAC_OK;
        if (FAC_UNLIKELY(p->workers != NULL)) fac__workers_unlock(p->workers);
    } else
        for (uint32_t i = 0; i < n->n_edges; i++) fac__unref(out[i]);
    if (FAC_UNLIKELY(out != few)) fac__free(out);
    return st;
}
