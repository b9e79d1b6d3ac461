/* Changes in place: what may be changed, and the history of what was. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/mode.h"
#include "core/tensor_make.h"
#include "ops/call.h"

fac_status fac__check_inplace(fac_tensor *t, bool any_requires_grad) {
    const fac_thread *th = fac__thread();
    FAC_TRY(fac__check_writable(t));
    if (!any_requires_grad || !fac__grad_enabled(th) || !t->ag) return FAC_OK;
    FAC_TRY(fac__check_view_inplace(t, false));
    if (!fac__requires_grad(t)) return FAC_OK;
    const fac_node *fn = fac__grad_fn(t);
    FAC_TRY(fac_error());
    FAC_CHECK(!t->ag->view || fac__grad_fn(t->ag->base), FAC_ERR_AUTOGRAD,
              "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    FAC_CHECK(fn, FAC_ERR_AUTOGRAD, "a leaf Variable that requires grad is being used in an in-place operation.");
    return FAC_OK;
}

/* ---- CopySlices: the history of a base one of whose views was changed ---------------------------------------------------- */
/* The base's new value is its old one with the slice that the view shows replaced by fn(old slice, others). So its gradient
   goes to the old value with the slice replaced by fn's gradient for it, and through fn to the others. */

typedef struct copy_slices {
    fac_node node; /* edge 0: the base's history before; then fn's other edges */
    fac_node *fn;  /* owned; its output fn_nr is the slice */
    uint32_t fn_nr;
    bool fn_reads_slice; /* fn's edge 0 is the slice's own; else fn replaces it whatever it was */
    fac_view_step *view; /* owned: from the base to the slice */
    int64_t *strides;    /* of the base: the steps may depend on them */
} copy_slices;

/* A copy of grad laid out as the base, owned. */
static fac_status copy_of_grad(const copy_slices *c, fac_tensor *grad, fac_tensor **out) {
    fac_tensor *copy = NULL;
    FAC_TRY(fac__empty_strided(grad->sizes, c->strides, grad->ndim, (fac_dtype)grad->dtype, grad->device, &copy));
    fac_status st = fac__ag_copy_in_place(copy, grad);
    if (st == FAC_OK)
        *out = copy;
    else
        fac__unref(copy);
    return st;
}

/* Calls fn on the slice's gradient; res has room for its edges. */
static fac_status apply_fn(const copy_slices *c, fac_tensor *slice, fac_tensor **res) {
    fac_node *fn = c->fn;
    fac_tensor *few[4] = {NULL},
               **grads = fn->n_outputs <= FAC_COUNT(few) ? few : fac__alloc_zero(fn->n_outputs * sizeof *grads);
    if (!grads) return FAC_ERR_MEMORY;
    fac_recording was = fac__recording_save(fac__thread());
    if (fn->cls->user_code) fac__thread()->exclude &= ~(FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW);
    fac_status st = fac__ag_clone(slice, &grads[c->fn_nr]);
    if (st == FAC_OK) st = fn->cls->apply(fn, grads, res);
    fac__unref(grads[c->fn_nr]);
    fac__recording_end(was);
    if (grads != few) fac__free(grads);
    return st;
}

static fac_status put_slice(const copy_slices *c, fac_tensor *slice, fac_tensor *grad) {
    return c->fn_reads_slice && grad ? fac__ag_copy_in_place(slice, grad) : fac__ag_zero_in_place(slice);
}

/* out[0]: the whole; out[1..]: fn's other results. */
static fac_status apply_to(const copy_slices *c, fac_tensor *whole, fac_tensor **res, fac_tensor **out) {
    fac_tensor *slice = NULL;
    FAC_TRY(fac__view_replay(c->view, whole, &slice));
    fac_status st = apply_fn(c, slice, res);
    uint32_t own = c->fn_reads_slice ? 1 : 0;
    if (st == FAC_OK && c->node.edges[0].node) {
        st = put_slice(c, slice, own ? res[0] : NULL);
        if (st == FAC_OK) out[0] = fac__ref(whole);
    }
    for (uint32_t i = own; st == FAC_OK && i < c->fn->n_edges; i++) {
        out[1 + i - own] = res[i];
        res[i] = NULL;
    }
    fac__unref(slice);
    return st;
}

static fac_status copy_slices_apply(fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
    const copy_slices *c = (const copy_slices *)n;
    uint32_t n_res = c->fn->n_edges;
    fac_tensor *whole = NULL, *few[8] = {NULL}, **res = few;
    if (n_res > FAC_COUNT(few)) res = fac__alloc_zero(n_res * sizeof *res);
    if (!res) return FAC_ERR_MEMORY;
    fac_scope s = fac_scope_begin();
    fac_status st = copy_of_grad(c, grads[0], &whole);
    if (st == FAC_OK) st = apply_to(c, whole, res, out);
    fac__unref(whole);
    for (uint32_t i = 0; i < n_res; i++) fac__unref(res[i]);
    fac_scope_end(&s);
    if (res != few) fac__free(res);
    if (st == FAC_OK) return FAC_OK;
    for (uint32_t i = 0; i < n->n_edges; i++) {
        fac__unref(out[i]);
        out[i] = NULL;
    }
    return st;
}

static void copy_slices_release(fac_node *n) {
    fac_node *fn = ((copy_slices *)n)->fn;
    if (!fn || !fn->cls->release) return;
    fn->cls->release(fn);
    fn->released = true;
}

static void copy_slices_destroy(fac_node *n) {
    copy_slices *c = (copy_slices *)n;
    fac__node_unref(c->fn);
    fac__view_step_unref(c->view);
    fac__free(c->strides);
}

static const fac_node_class copy_slices_class = {.name = "CopySlices",
                                                 .size = sizeof(copy_slices),
                                                 .apply = copy_slices_apply,
                                                 .release = copy_slices_release,
                                                 .destroy = copy_slices_destroy};

static fac_status copy_slices_fill(copy_slices *c, fac_tensor *base, fac_node *fn) {
    c->strides = fac__alloc_array(base->ndim, sizeof *c->strides);
    if (!c->strides) return FAC_ERR_MEMORY;
    memcpy(c->strides, base->strides, base->ndim * sizeof *c->strides);
    FAC_TRY(fac__gradient_edge(base, &c->node.edges[0]));
    uint32_t own = c->fn_reads_slice ? 1 : 0;
    for (uint32_t i = own; i < fn->n_edges; i++)
        c->node.edges[1 + i - own] = (fac_edge){fac__node_ref(fn->edges[i].node), fn->edges[i].nr};
    return fac__output_meta_set(&c->node, 0, base);
}

/* Whether fn's first edge leads to the history that t had: then t is what fn reads. */
static bool reads(const fac_node *fn, const fac_tensor *t) {
    return fn->n_edges && fn->edges[0].node == fac__history(t->ag) &&
           (!fac__history(t->ag) || fn->edges[0].nr == t->ag->output_nr);
}

/* The node that replaces the history of t's base once fn has changed t; owned. */
static fac_status copy_slices_new(fac_tensor *t, fac_node *fn, uint32_t nr, fac_node **out) {
    fac_view_step *view = NULL;
    bool own = reads(fn, t);
    uint32_t n_edges = fn->n_edges + (own ? 0 : 1);
    FAC_TRY(fac__view_way(t, &view));
    copy_slices *c = (copy_slices *)fac__node_new(fac__thread(), &copy_slices_class, n_edges, 1);
    if (!c) {
        fac__view_step_unref(view);
        return FAC_ERR_MEMORY;
    }
    c->fn = fac__node_ref(fn);
    c->fn_nr = nr;
    c->fn_reads_slice = own;
    c->view = view; /* the count goes along */
    fac_status st = copy_slices_fill(c, t->ag->base, fn);
    if (st == FAC_OK)
        *out = &c->node;
    else
        fac__node_unref(&c->node);
    return st;
}

/* ---- the new history, in a step that can fail and one that cannot ----------------------------------------------------- */

fac_status fac__rebase_begin(fac_tensor *t, fac_node *n, uint32_t nr, fac_rebase *out) {
    *out = (fac_rebase){0};
    if (!fac__differentiable((fac_dtype)t->dtype)) return FAC_OK;
    FAC_TRY(fac__output_meta_set(n, nr, t));
    const bool view = t->ag && t->ag->view;
    fac_tensor *whole = view ? t->ag->base : t;
    if (!fac__autograd_of(whole)) return FAC_ERR_MEMORY;
    fac_node *next = NULL;
    if (view)
        FAC_TRY(copy_slices_new(t, n, nr, &next));
    else
        next = fac__node_ref(n);
    *out = (fac_rebase){whole, next, view ? 0 : nr};
    return FAC_OK;
}

/* A view computes its own node again when it is asked for: its version has moved on. */
fac_status fac__rebase_end(fac_rebase *r, fac_status st) {
    if (r->node && st == FAC_OK) st = fac__set_grad_fn(r->whole, r->node, r->nr);
    fac__node_unref(r->node);
    return st;
}

fac_status fac__rebase_history(fac_tensor *t, fac_node *n, uint32_t nr) {
    fac_rebase r;
    FAC_TRY(fac__rebase_begin(t, n, nr, &r));
    FAC_TRY(fac__rebase_end(&r, FAC_OK));
    return t->ag && t->ag->view && r.node ? fac__view_regenerate(t) : FAC_OK;
}
