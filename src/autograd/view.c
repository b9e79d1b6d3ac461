/* Views: the steps by which a view was made, and its node computed again after its base changed in place. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/mode.h"
#include <pthread.h>

static size_t step_bytes(size_t n_args) { return sizeof(fac_view_step) + n_args * sizeof(fac_value); }

void fac__view_step_unref(fac_view_step *v) {
    while (v && atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) == 1) {
        fac_view_step *parent = v->parent;
        for (uint32_t i = 0; i < v->n_args; i++) fac_value_release(&v->args[i]);
        fac__block_free(v, step_bytes(v->n_args));
        v = parent;
    }
}

static fac_view_step *step_new(fac_thread *th, fac_tensor *parent, const fac_operator *op, const fac_value *args,
                               size_t n) {
    fac_view_step *v = fac__block_new(th, step_bytes(n));
    if (!v) return NULL;
    fac_view_step *before = parent->ag ? parent->ag->view : NULL;
    atomic_init(&v->refs, 1);
    v->op = op;
    v->parent = before;
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

fac_status fac__view_record(fac_thread *th, fac_tensor *parent, fac_tensor *view, fac_view_made how,
                            const fac_operator *op, const fac_value *args, size_t n_args) {
    if (view == parent || (parent->flags & FAC_TF_INFERENCE)) return FAC_OK;
    struct fac_autograd *ag = fac__autograd_of(view);
    if (!ag) return FAC_ERR_MEMORY;
    if (ag->view) return FAC_OK; /* the operator went through another view operator, which has recorded it */
    ag->view = step_new(th, parent, op, args, n_args);
    if (!ag->view) return FAC_ERR_MEMORY;
    ag->base = fac__ref(parent->ag && parent->ag->base ? parent->ag->base : parent);
    if (th->inference)
        how = FAC_VIEW_INFERENCE;
    else if (th->grad_disabled)
        how = FAC_VIEW_NO_GRAD;
    else if (how == FAC_VIEW_DEFAULT && ag->view->parent)
        how = (fac_view_made)parent->ag->how;
    ag->how = (uint8_t)how;
    ag->view_version = fac__version_of(view);
    return FAC_OK;
}

/* ---- replay ------------------------------------------------------------------------------------------------------- */

static fac_status replay_step(const fac_view_step *v, fac_tensor *from, fac_tensor **out) {
    fac_value args[16], result = fac_value_none();
    FAC_CHECK(v->n_args + 1 <= FAC_COUNT(args) && fac_operator_return_count(v->op) == 1, FAC_ERR_UNSUPPORTED,
              "the view operator %s cannot be replayed", fac_operator_name(v->op));
    args[0] = fac_value_tensor(from);
    memcpy(args + 1, v->args, v->n_args * sizeof *args);
    fac_status st = fac_call_op(v->op, args, v->n_args + 1, &result);
    fac_value_release(&args[0]);
    if (st == FAC_OK) st = fac__take_tensor(&result, out);
    fac_value_release(&result);
    return st;
}

/* Steps run from the base on, but are linked from the view back: their number is small, so each finds its turn by
   walking. */
static const fac_view_step *nth_step(const fac_view_step *last, size_t back) {
    while (back--) last = last->parent;
    return last;
}

fac_status fac__view_replay(const fac_view_step *v, fac_tensor *base, fac_tensor **out) {
    size_t n = 0;
    for (const fac_view_step *s = v; s; s = s->parent) n++;
    fac_tensor *t = fac__ref(base);
    for (size_t i = n; i-- > 0;) {
        fac_tensor *next = NULL;
        fac_status st = replay_step(nth_step(v, i), t, &next);
        fac__unref(t);
        FAC_TRY(st);
        t = next;
    }
    *out = t;
    return FAC_OK;
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
                        ag->grad_fn ? ag->grad_fn->cls->name : "a function", changed, multi_output_advice);
    bool inference = ag->how == FAC_VIEW_INFERENCE;
    const char *mode = inference ? "inference" : "no_grad", *advice = inference ? inference_advice : no_grad_advice;
    if (ag->grad_fn)
        return FAC_FAIL(FAC_ERR_AUTOGRAD,
                        "Output %u of %s is a view of a view which was created in %s mode and %s modified inplace with "
                        "grad mode enabled.%s",
                        ag->output_nr, ag->grad_fn->cls->name, mode, changed, advice);
    return FAC_FAIL(FAC_ERR_AUTOGRAD, "A view was created in %s mode and %s modified inplace with grad mode enabled.%s",
                    mode, changed, advice);
}

/* ---- a view's node -------------------------------------------------------------------------------------------------- */

/* Computes the view again from its base, recorded, and takes over the node of the result. */
fac_status fac__view_regenerate(fac_tensor *t) {
    struct fac_autograd *ag = t->ag;
    FAC_TRY(fac__check_view_inplace(t, true));
    fac_tensor *again = NULL;
    fac_recording was = fac__recording_begin();
    fac_status st = fac__view_replay(ag->view, ag->base, &again);
    fac__recording_end(was);
    FAC_TRY(st);
    if (again->ag && again->ag->grad_fn) st = fac__set_grad_fn(t, again->ag->grad_fn, again->ag->output_nr);
    ag->view_version = fac__version_of(t);
    fac__unref(again);
    return st;
}

static pthread_mutex_t regenerating = PTHREAD_MUTEX_INITIALIZER;

fac_node *fac__grad_fn(fac_tensor *t) {
    if (!t || !t->ag) return NULL;
    struct fac_autograd *ag = t->ag;
    if (FAC_LIKELY(!ag->view) || (!ag->grad_fn && !fac__requires_grad(ag->base))) return ag->grad_fn;
    if (ag->view_version == fac__version_of(t)) return ag->grad_fn;
    pthread_mutex_lock(&regenerating);
    fac_status st = ag->view_version == fac__version_of(t) ? FAC_OK : fac__view_regenerate(t);
    pthread_mutex_unlock(&regenerating);
    return st == FAC_OK ? ag->grad_fn : NULL;
}
