/* Saved values. A leaf that wants a gradient is saved as it is. Anything else may hold the saving node sooner or later: an
   output does at once, an input once it is changed in place by something computed from it. So what is kept of these is an
   alias without autograd data, and beside it the edge that their gradient goes to. The version is remembered, so that a
   change in place is found out. */
#include "autograd/saved.h"
#include "autograd/autograd_meta.h"
#include "core/tensor_make.h"

static unsigned version_now(const fac_tensor *t) {
    return t->version ? atomic_load_explicit(&t->version->value, memory_order_relaxed) : 0;
}

static fac_status cannot_save(void) {
    return FAC_FAIL(FAC_ERR_AUTOGRAD,
                    "Inference tensors cannot be saved for backward. To work around you can make a clone "
                    "to get a normal tensor and use it in autograd.");
}

/* Whether t never holds a node: a leaf that wants a gradient has no history. What is not plain cannot be aliased. */
static bool kept_as_it_is(const fac_tensor *t) {
    const struct fac_autograd *ag = t->ag;
    return (ag && ag->requires_grad && !ag->base) || FAC_UNLIKELY(t->cls && !t->cls->alias);
}

static fac_status keep(fac_saved *s, fac_tensor *t) {
    if (kept_as_it_is(t)) {
        s->t = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__alias(t, true, &s->t));
    s->t->flags |= t->flags & FAC_TF_WRAPPED;
    return t->ag ? fac__gradient_edge(t, &s->edge) : FAC_OK;
}

fac_status fac__save(fac_saved *s, fac_tensor *t) {
    s->set = true;
    if (!t) return FAC_OK;
    if (FAC_UNLIKELY((t->flags & FAC_TF_INFERENCE) != 0)) return cannot_save();
    if (FAC_UNLIKELY(fac__saved_tensor_hooks.pack != NULL)) return fac__pack(s, t);
    FAC_TRY(keep(s, t));
    s->version = version_now(t);
    return FAC_OK;
}

fac_status fac__save_output_begin(fac_saved *s, fac_tensor *t, uint32_t nr) {
    s->set = true;
    if (!t) return FAC_OK;
    if (FAC_UNLIKELY((t->flags & FAC_TF_INFERENCE) != 0)) return cannot_save();
    s->is_output = true;
    s->edge.nr = nr;
    return fac__alias(t, true, &s->t);
}

fac_status fac__save_output_end(fac_saved *s) {
    if (!s->t) return FAC_OK;
    s->version = version_now(s->t);
    if (FAC_LIKELY(!fac__saved_tensor_hooks.pack)) return FAC_OK;
    fac_tensor *alias = s->t;
    s->t = NULL;
    fac_status st = fac__pack(s, alias);
    fac__unref(alias);
    return st;
}

fac_status fac__save_output(fac_saved *s, fac_tensor *t, uint32_t nr) {
    FAC_TRY(fac__save_output_begin(s, t, nr));
    return fac__save_output_end(s);
}

void fac__saved_release(fac_saved *s) {
    fac_saved was = *s;
    *s = (fac_saved){0};
    if (was.hooks) fac__packed_release(was.hooks);
    fac__node_unref(was.edge.node);
    fac__unref(was.t);
}

/* ---- unpacking --------------------------------------------------------------------------------------------------------- */

static fac_status already_freed(void) {
    return FAC_FAIL(
        FAC_ERR_AUTOGRAD,
        "Trying to backward through the graph a second time (or directly access saved tensors after they have "
        "already been freed). Saved intermediate values of the graph are freed when you call backward() or "
        "grad(). Specify retain_graph if you need to backward through the graph a second time or if you need "
        "to access saved tensors after calling backward.");
}

static fac_status changed_in_place(const fac_saved *s, const fac_node *n, const char *what, unsigned now) {
    char origin[128] = "";
    const fac_node *maker = s->is_output ? n : s->edge.node;
    if (maker) snprintf(origin, sizeof origin, ", which is output %u of %s,", s->edge.nr, maker->cls->name);
    return FAC_FAIL(FAC_ERR_AUTOGRAD,
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    "[%s %s] (saved as '%s')%s is at version %u; expected version %u instead.",
                    fac_dtype_name((fac_dtype)s->t->dtype), FAC_SHAPE_TEXT(s->t), what, origin, now, s->version);
}

/* An alias of t that continues the graph at an edge; belongs to the current scope. */
static fac_status with_history(fac_tensor *t, fac_node *node, uint32_t nr, fac_tensor **out) {
    fac_tensor *alias = NULL;
    FAC_TRY(fac__alias(t, true, &alias));
    fac_status st = fac__set_grad_fn(alias, node, nr);
    if (st != FAC_OK) {
        fac__unref(alias);
        return st;
    }
    *out = fac__adopt(fac__thread(), alias);
    return *out ? FAC_OK : fac_error();
}

/* Gives *out its history back where something is recorded; what was kept as it is has it all along. */
static fac_status reconnect(const fac_saved *s, fac_node *n, fac_tensor **out) {
    if (!*out || !fac__grad_enabled(fac__thread())) return FAC_OK;
    if (s->is_output) return n->outputs[s->edge.nr].set ? with_history(*out, n, s->edge.nr, out) : FAC_OK;
    return s->edge.node ? with_history(*out, s->edge.node, s->edge.nr, out) : FAC_OK;
}

fac_status fac__unpack(fac_saved *s, fac_node *n, const char *what, fac_tensor **out) {
    *out = NULL;
    if (FAC_UNLIKELY(!s->set)) return already_freed();
    if (FAC_UNLIKELY(s->hooks != NULL)) {
        FAC_TRY(fac__unpack_hooked(s, out));
        return reconnect(s, n, out);
    }
    if (!s->t) return FAC_OK;
    unsigned now = version_now(s->t);
    if (FAC_UNLIKELY(now != s->version)) return changed_in_place(s, n, what, now);
    *out = s->t;
    return reconnect(s, n, out);
}

/* ---- lists: one block, the saved values and behind them room for the unpacked pointers --------------------------------- */

static size_t list_bytes(size_t n) { return n * (sizeof(fac_saved) + sizeof(fac_tensor *)); }

fac_status fac__saved_list_reserve(fac_saved_list *s, size_t n) {
    s->n = n;
    if (n == 0) return FAC_OK;
    FAC_CHECK(n <= SIZE_MAX / list_bytes(1), FAC_ERR_OVERFLOW, "a list of %zu tensors is too long", n);
    s->v = fac__alloc_zero(list_bytes(n));
    return s->v ? FAC_OK : FAC_ERR_MEMORY;
}

fac_status fac__save_list(fac_saved_list *s, fac_tensors l) {
    FAC_TRY(fac__saved_list_reserve(s, l.n));
    for (size_t i = 0; i < l.n; i++) FAC_TRY(fac__save(&s->v[i], l.v[i]));
    return FAC_OK;
}

fac_status fac__unpack_list(fac_saved_list *s, fac_node *n, const char *what, fac_tensors *out) {
    *out = (fac_tensors){NULL, 0};
    if (s->n == 0) return FAC_OK;
    if (!s->v) return already_freed();
    fac_tensor **v = (fac_tensor **)(s->v + s->n);
    for (size_t i = 0; i < s->n; i++) FAC_TRY(fac__unpack(&s->v[i], n, what, &v[i]));
    *out = (fac_tensors){v, s->n};
    return FAC_OK;
}

/* The length stays, which tells a freed list from an empty one. */
void fac__saved_list_release(fac_saved_list *s) {
    for (size_t i = 0; s->v && i < s->n; i++) fac__saved_release(&s->v[i]);
    fac__free(s->v);
    s->v = NULL;
}

/* ---- sizes and numbers ----------------------------------------------------------------------------------------------------- */

static fac_status save_ints(fac_saved_ints *s, const int64_t *v, size_t n) {
    s->n = n;
    s->v = s->inline_v;
    if (FAC_UNLIKELY(n > FAC_COUNT(s->inline_v))) {
        s->v = fac__alloc_array(n, sizeof *v);
        if (!s->v) return FAC_ERR_MEMORY;
    }
    if (n) memcpy(s->v, v, n * sizeof *v);
    return FAC_OK;
}

fac_status fac__save_ints(fac_saved_ints *s, fac_ints l) { return l.v ? save_ints(s, l.v, l.n) : FAC_OK; }

fac_status fac__save_sizes(fac_saved_ints *s, const fac_tensor *t) {
    return t ? save_ints(s, t->sizes, t->ndim) : FAC_OK;
}

void fac__saved_ints_release(fac_saved_ints *s) {
    if (s->v != s->inline_v) fac__free(s->v);
    s->v = NULL;
    s->n = 0;
}

fac_status fac__save_sizes_list(fac_saved_sizes_list *s, fac_tensors l) {
    if (l.n == 0) return FAC_OK;
    s->v = fac__alloc_array(l.n, sizeof *s->v);
    if (!s->v) return FAC_ERR_MEMORY;
    memset(s->v, 0, l.n * sizeof *s->v);
    s->n = l.n;
    for (size_t i = 0; i < l.n; i++) FAC_TRY(fac__save_sizes(&s->v[i], l.v[i]));
    return FAC_OK;
}

void fac__saved_sizes_list_release(fac_saved_sizes_list *s) {
    for (size_t i = 0; i < s->n; i++) fac__saved_ints_release(&s->v[i]);
    fac__free(s->v);
    s->v = NULL;
    s->n = 0;
}

void fac__save_scalar(fac_saved_scalar *s, fac_scalar v) {
    s->v = v;
    if (v.kind == FAC_KIND_COMPLEX) memcpy(s->re_im, (const void *)(intptr_t)v.bits, sizeof s->re_im);
}

void fac__save_opt_num(fac_saved_opt_num *s, fac_opt_num v) {
    s->set = v.set;
    if (s->set) fac__save_scalar(&s->s, v.v);
}
