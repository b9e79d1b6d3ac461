/* Views: the steps by which a view was made, and its node computed again after its base changed in place. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/hooks.h"
#include "autograd/mode.h"
#include "base/mutex.h"
#include "core/resize.h"
#include "dispatch/value.h"

static size_t step_bytes(size_t n_args) { return sizeof(fac_view_step) + n_args * sizeof(fac_value); }

void fac__view_step_unref(fac_view_step *v) {
    while (v && fac__last_ref(&v->refs)) {
        fac_view_step *parent = v->parent;
        for (uint32_t i = 0; i < v->n_args; i++) fac_value_release(&v->args[i]);
        fac__block_free(v, step_bytes(v->n_args));
        v = parent;
    }
}

/* A longer way from the base is recorded as one step by as_strided where geometry says all, so that changing a view of any
   depth costs the same. */
#define LONG_WAY 32

enum { AS_STRIDED_SIZE, AS_STRIDED_STRIDE, AS_STRIDED_OFFSET, AS_STRIDED_ARGS }; /* after self */

/* An offset into a storage as one relative to a tensor's own; an offset that is not given is the tensor's own. */
static fac_value relative(fac_value offset, const fac_tensor *to) {
    return fac_value_int(offset.tag == FAC_TAG_NONE ? 0 : fac_value_as_int(offset) - to->offset);
}

/* The step of `op` from the end of `before` (NULL: from the base). */
static fac_view_step *step_new(fac_thread *th, fac_view_step *before, const fac_operator *op, const fac_value *args,
                               size_t n) {
    fac_view_step *v = fac__block_new(th, step_bytes(n));
    if (!v) return NULL;
    atomic_init(&v->refs, 1);
    v->op = op;
    v->parent = before;
    v->depth = before ? before->depth + 1 : 1;
    if (before) atomic_fetch_add_explicit(&before->refs, 1, memory_order_relaxed);
    v->n_args = (uint32_t)n;
    bool whole = true;
    for (size_t i = 0; i < n; i++) {
        v->args[i] = fac_value_copy(args[i]);
        whole = whole && (v->args[i].tag == args[i].tag);
    }
    if (whole) return v;
    fac__view_step_unref(v);
    return NULL;
}

static fac_view_step *strided_step(fac_thread *th, fac_view_step *before, const fac_value args[AS_STRIDED_ARGS],
                                   const fac_tensor *from) {
    const fac_value own[] = {args[AS_STRIDED_SIZE], args[AS_STRIDED_STRIDE], relative(args[AS_STRIDED_OFFSET], from)};
    return step_new(th, before, fac__ag_as_strided(), own, AS_STRIDED_ARGS);
}

static bool is_in_memory(const fac_tensor *t) { return !t->cls || t->cls->in_memory; }

static bool is_plain_view_of(const fac_tensor *view, const fac_tensor *base) {
    return view->dtype == base->dtype && is_in_memory(view) && is_in_memory(base) && view->storage == base->storage &&
           fac__pending(view) == fac__pending(base);
}

/* The whole way from the base in one step. */
static fac_view_step *short_cut(fac_thread *th, const fac_tensor *base, const fac_tensor *view) {
    fac_value args[] = {fac_value_ints(view->sizes, view->ndim), fac_value_ints(view->strides, view->ndim),
                        fac_value_int(view->offset)};
    const bool whole = args[AS_STRIDED_SIZE].tag == FAC_TAG_INTS && args[AS_STRIDED_STRIDE].tag == FAC_TAG_INTS;
    fac_view_step *v = whole ? strided_step(th, NULL, args, base) : NULL;
    for (size_t i = 0; i < FAC_COUNT(args); i++) fac_value_release(&args[i]);
    return v;
}

fac_status fac__view_way(fac_tensor *t, fac_view_step **out) {
    struct fac_autograd *ag = t->ag, *of_base = ag->base->ag;
    if (!of_base || !of_base->reshaped) {
        atomic_fetch_add_explicit(&ag->view->refs, 1, memory_order_relaxed);
        *out = ag->view;
        return FAC_OK;
    }
    FAC_CHECK(is_plain_view_of(t, ag->base), FAC_ERR_UNSUPPORTED,
              "the history of a view of another dtype is lost where the sizes of its base were changed in place");
    *out = short_cut(fac__thread(), ag->base, t);
    return *out ? FAC_OK : fac_error() ? fac_error() : FAC_ERR_MEMORY;
}

static fac_view_step *step_to(fac_thread *th, fac_tensor *parent, const fac_tensor *view, const fac_operator *op,
                              const fac_value *args, size_t n) {
    const struct fac_autograd *ag = parent->ag;
    fac_view_step *before = ag ? ag->view : NULL;
    if (before && before->depth >= LONG_WAY && is_plain_view_of(view, ag->base)) return short_cut(th, ag->base, view);
    if (op == fac__ag_as_strided()) return strided_step(th, before, args, parent);
    return step_new(th, before, op, args, n);
}

fac_status fac__view_record(fac_thread *th, fac_tensor *parent, fac_tensor *view, fac_view_made how,
                            const fac_operator *op, const fac_value *args, size_t n_args) {
    if (view == parent || (parent->flags & FAC_TF_INFERENCE)) return FAC_OK;
    if (FAC_UNLIKELY(view->cls != NULL))
        return FAC_OK; /* a tensor of its own: its elements are not in parent's memory */
    struct fac_autograd *ag = fac__autograd_of(view);
    if (!ag) return FAC_ERR_MEMORY;
    if (ag->view) return FAC_OK; /* the operator went through another view operator, which has recorded it */
    ag->view = step_to(th, parent, view, op, args, n_args);
    if (!ag->view) return FAC_ERR_MEMORY;
    ag->base = fac__ref(parent->ag && parent->ag->base ? parent->ag->base : parent);
    if (th->inference)
        how = FAC_VIEW_INFERENCE;
    else if (th->grad_disabled)
        how = FAC_VIEW_NO_GRAD;
    else if (how == FAC_VIEW_DEFAULT && ag->view->parent)
        how = (fac_view_made)parent->ag->how;
    ag->how = (uint8_t)how;
    atomic_store_explicit(&ag->view_version, fac__version_of(view), memory_order_relaxed);
    return FAC_OK;
}

/* ---- replay ------------------------------------------------------------------------------------------------------- */

/* Calls the step's operator on `from`. The offset of as_strided is kept relative to what it is called on, which may lie
   anywhere in its storage. */
static fac_status replay_step(const fac_view_step *v, fac_tensor *from, fac_tensor **out) {
    fac_value args[16], result = fac_value_none();
    FAC_CHECK(v->n_args + 1 <= FAC_COUNT(args) && fac_operator_return_count(v->op) == 1, FAC_ERR_UNSUPPORTED,
              "the view operator %s cannot be replayed", fac_operator_name(v->op));
    args[0] = fac__value_tensor(from);
    memcpy(args + 1, v->args, v->n_args * sizeof *args);
    if (v->op == fac__ag_as_strided())
        args[1 + AS_STRIDED_OFFSET] = fac_value_int(from->offset + fac_value_as_int(v->args[AS_STRIDED_OFFSET]));
    fac_status st = fac_call_op(v->op, args, v->n_args + 1, &result);
    fac_value_release(&args[0]);
    if (st == FAC_OK) st = fac__take_tensor(&result, out);
    fac_value_release(&result);
    return st;
}

/* Steps are linked from the view back to the base, and run the other way. */
fac_status fac__view_replay(const fac_view_step *v, fac_tensor *base, fac_tensor **out) {
    const size_t n = v->depth;
    const fac_view_step *few[LONG_WAY], **steps = n <= LONG_WAY ? few : fac__alloc_array(n, sizeof *steps);
    if (!steps) return FAC_ERR_MEMORY;
    for (size_t i = n; i--; v = v->parent) steps[i] = v;
    fac_tensor *t = fac__ref(base), *next;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && st == FAC_OK; i++) {
        next = NULL;
        st = replay_step(steps[i], t, &next);
        fac__unref(t);
        t = next;
    }
    if (steps != few) fac__free(steps);
    *out = t;
    return st;
}

/* ---- views that may not change -------------------------------------------------------------------------------------- */

static const char *const no_grad_advice =
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or "
    "both outside (if you want the inplace to be tracked).";
static const char *const inference_advice =
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the inference_mode block (if you don't want the inplace to be tracked) "
    "or both outside (if you want the inplace to be tracked).";
static const char *const multi_output_advice =
    " This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one.";

fac_status fac__check_view_inplace(const fac_tensor *t, bool indirect) {
    const struct fac_autograd *ag = t->ag;
    if (!ag || !ag->view || ag->how == FAC_VIEW_DEFAULT) return FAC_OK;
    const char *changed = indirect ? "its base or another view of its base has been" : "is being";
    if (ag->how == FAC_VIEW_MULTI_OUTPUT)
        return FAC_FAIL(FAC_ERR_AUTOGRAD, "Output %u of %s is a view and %s modified inplace.%s", ag->output_nr,
                        fac__history(ag) ? fac__history(ag)->cls->name : "a function", changed, multi_output_advice);
    bool inference = ag->how == FAC_VIEW_INFERENCE;
    const char *mode = inference ? "inference" : "no_grad", *advice = inference ? inference_advice : no_grad_advice;
    if (fac__history(ag))
        return FAC_FAIL(FAC_ERR_AUTOGRAD,
                        "Output %u of %s is a view of a view which was created in %s mode and %s modified inplace with "
                        "grad mode enabled.%s",
                        ag->output_nr, fac__history(ag)->cls->name, mode, changed, advice);
    return FAC_FAIL(FAC_ERR_AUTOGRAD, "A view was created in %s mode and %s modified inplace with grad mode enabled.%s",
                    mode, changed, advice);
}

/* ---- a view's node -------------------------------------------------------------------------------------------------- */

/* Guards the node, output_nr and view_version of every view, where a node that was computed again takes the old one's place.
   Threads that read one view may all find its node out of date. Each computes the view again, without the lock, since operators
   may run users' code. The first publishes its result; the others drop theirs. The version is stored last: who reads it sees
   the node and the number that belong to it. */
static fac_mutex publishing = FAC_MUTEX_INIT;

static bool is_stale(const struct fac_autograd *ag, unsigned version) {
    return atomic_load_explicit(&ag->view_version, memory_order_acquire) != version;
}

static fac_status publish(fac_tensor *t, fac_tensor *again, unsigned version, bool only_if_stale) {
    struct fac_autograd *ag = t->ag;
    fac_node *node = again->ag ? fac__history(again->ag) : NULL, *old = NULL;
    fac_status st = FAC_OK;
    fac__mutex_lock(&publishing);
    if (!only_if_stale || is_stale(ag, version)) {
        if (node) st = fac__exchange_grad_fn(t, node, again->ag->output_nr, &old);
        if (st == FAC_OK) atomic_store_explicit(&ag->view_version, version, memory_order_release);
    }
    fac__mutex_unlock(&publishing);
    fac__node_unref(old);
    return st;
}

/* Computes the view again from its base, recorded, and takes over the node of the result. */
static fac_status regenerate(fac_tensor *t, bool only_if_stale) {
    FAC_TRY(fac__check_view_inplace(t, true));
    const unsigned version = fac__version_of(t);
    fac_tensor *again = NULL;
    fac_view_step *way = NULL;
    FAC_TRY(fac__view_way(t, &way));
    fac_recording was = fac__recording_begin();
    fac_status st = fac__view_replay(way, t->ag->base, &again);
    fac__recording_end(was);
    fac__view_step_unref(way);
    if (st == FAC_OK) st = publish(t, again, version, only_if_stale);
    fac__unref(again);
    return st;
}

fac_status fac__view_regenerate(fac_tensor *t) { return regenerate(t, false); }

fac_node *fac__grad_fn(fac_tensor *t) {
    if (!t || !t->ag) return NULL;
    const struct fac_autograd *ag = t->ag;
    if (FAC_LIKELY(!ag->view) || (!fac__history(ag) && !fac__requires_grad(ag->base))) return fac__history(ag);
    if (is_stale(ag, fac__version_of(t)) && regenerate(t, true) != FAC_OK) return NULL;
    return fac__history(ag);
}

/* ---- views in place -------------------------------------------------------------------------------------------------- */

/* The steps to t as it will be: those of the view, which are one more than t's, or, where nobody recorded them, what geometry
   says. NULL, with an error, without memory. */
static fac_view_step *steps_to(const fac_tensor *t, const fac_tensor *view) {
    fac_view_step *made = view->ag ? view->ag->view : NULL;
    if (!made) return short_cut(fac__thread(), t->ag->base, view);
    atomic_fetch_add_explicit(&made->refs, 1, memory_order_relaxed);
    return made;
}

/* t's history becomes the view's. What can fail comes first. */
static fac_status take_history(fac_tensor *t, const fac_tensor *view) {
    fac_node *node = view->ag ? fac__history(view->ag) : NULL;
    const bool is_view = t->ag->view != NULL;
    fac_view_step *steps = is_view ? steps_to(t, view) : NULL;
    if (is_view && !steps) return fac_error() ? fac_error() : FAC_ERR_MEMORY;
    const fac_status st = node ? fac__set_grad_fn(t, node, view->ag->output_nr) : FAC_OK;
    if (st != FAC_OK || !is_view) {
        fac__view_step_unref(steps);
        t->ag->reshaped = t->ag->reshaped || st == FAC_OK;
        return st;
    }
    fac__view_step_unref(t->ag->view);
    t->ag->view = steps;
    return FAC_OK;
}

/* Steps that other views of t recorded began at its old sizes: `reshaped` says that they no longer hold. */
fac_status fac__view_become(fac_tensor *t, fac_tensor *view) {
    FAC_TRY(fac__check_own(t, "what a view becomes in place"));
    FAC_TRY(fac__version_make(t));
    if (!fac__autograd_of(t)) return FAC_ERR_MEMORY;
    if (view != t) {
        FAC_TRY(take_history(t, view));
        fac__move_geometry(t, view);
        if (t->cls && t->cls == view->cls) { /* the parts of a dual tensor change along */
            void *parts = t->ext;
            t->ext = view->ext;
            view->ext = parts;
        }
    }
    FAC_TRY(fac__bump_version(t));
    atomic_store_explicit(&t->ag->view_version, fac__version_of(t), memory_order_release);
    return FAC_OK;
}

fac_status fac__detach_in_place(fac_tensor *t) {
    FAC_TRY(fac__check_own(t, "what a view becomes in place"));
    struct fac_autograd *ag = t->ag;
    if (!ag) return FAC_OK;
    FAC_CHECK(!ag->view, FAC_ERR_AUTOGRAD, "Can't detach views in-place. Use detach() instead.");
    fac__retain_remove(ag);
    fac_node *old = atomic_exchange_explicit(&ag->grad_fn, NULL, memory_order_acq_rel);
    ag->output_nr = 0;
    ag->requires_grad = false;
    fac__node_unref(old);
    return FAC_OK;
}
