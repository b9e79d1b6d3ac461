/* What autograd hangs on a tensor, and how results get their history. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/hooks.h"
#include "autograd/init.h"

struct fac_autograd *fac__autograd_of(fac_tensor *t) {
    if (t->ag) return t->ag;
    struct fac_autograd *ag = fac__block_new(fac__thread(), sizeof *ag);
    if (!ag) return NULL;
    memset(ag, 0, sizeof *ag);
    return t->ag = ag;
}

/* The core calls this when a tensor dies. No graph holds its accumulator then, or the tensor would live. */
void fac__autograd_free(struct fac_autograd *ag) {
    fac__retain_remove(ag);
    fac__node_unref(fac__history(ag));
    fac__unref(ag->grad);
    fac__accumulator_free(atomic_load_explicit(&ag->accumulator, memory_order_acquire));
    fac__view_step_unref(ag->view);
    fac__unref(ag->base);
    fac__hooks_free(ag->hooks);
    fac__block_free(ag, sizeof *ag);
}

bool fac__autograd_wants(const struct fac_autograd *ag) {
    return ag->requires_grad || fac__history(ag) || (ag->base && fac__requires_grad(ag->base)) ||
           (ag->stands_for && fac__requires_grad(ag->stands_for));
}

fac_status fac__autograd_stand_for(fac_tensor *t, fac_tensor *value) {
    struct fac_autograd *ag = fac__autograd_of(t);
    if (!ag) return FAC_ERR_MEMORY;
    ag->stands_for = value;
    return FAC_OK;
}

fac_status fac__exchange_grad_fn(fac_tensor *t, fac_node *n, uint32_t nr, fac_node **out_old) {
    struct fac_autograd *ag = fac__autograd_of(t);
    if (FAC_UNLIKELY(!ag)) return FAC_ERR_MEMORY;
    if (FAC_UNLIKELY(ag->retained != NULL)) FAC_TRY(fac__retain_at(n, nr, ag));
    *out_old = fac__history(ag);
    ag->output_nr = nr;
    atomic_store_explicit(&ag->grad_fn, fac__node_ref(n), memory_order_release);
    return FAC_OK;
}

fac_status fac__set_grad_fn(fac_tensor *t, fac_node *n, uint32_t nr) {
    fac_node *old = NULL;
    FAC_TRY(fac__exchange_grad_fn(t, n, nr, &old));
    fac__node_unref(old);
    return FAC_OK;
}

fac_status fac__set_history(fac_tensor *t, fac_node *n, uint32_t nr) {
    if (FAC_UNLIKELY(!t || !fac__differentiable((fac_dtype)t->dtype))) return FAC_OK; /* NULL: masked out */
    if (FAC_UNLIKELY(t->ag && (fac__history(t->ag) || t->ag->requires_grad)))
        return FAC_FAIL(FAC_ERR_INTERNAL, "%s returned a tensor that has a history already; it must return a fresh one",
                        n->cls->name);
    FAC_TRY(fac__output_meta_set(n, nr, t));
    return fac__set_grad_fn(t, n, nr);
}

fac_status fac__check_out_form(fac_tensor *const *outs, size_t n_outs, bool any_requires_grad) {
    if (!fac__grad_enabled(fac__thread())) return FAC_OK;
    for (size_t i = 0; i < n_outs; i++) any_requires_grad = any_requires_grad || fac__requires_grad(outs[i]);
    FAC_CHECK(!any_requires_grad, FAC_ERR_AUTOGRAD,
              "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
              "requires grad.");
    return FAC_OK;
}

fac_status fac__not_differentiable(const char *op, const char *reason) {
    return FAC_FAIL(FAC_ERR_AUTOGRAD,
                    "the derivative for '%s' is not implemented: %s. Detach its inputs, or call it where no gradient "
                    "is recorded",
                    op, reason && *reason ? reason : "it is not differentiable");
}

fac_tensor *fac__grad_or_zeros(fac_node *n, fac_tensor *const *grads, uint32_t i) {
    if (grads[i]) return grads[i];
    const fac_output_meta *m = &n->outputs[i];
    fac_tensor *zeros = NULL;
    if (!m->set) {
        FAC_FAIL(FAC_ERR_INTERNAL, "%s: the gradient of output %u, which has none, was asked for", n->cls->name, i);
        return NULL;
    }
    FAC_TRY_NULL(fac__ag_zeros(m->sizes, m->ndim, (fac_dtype)m->dtype, m->device, &zeros));
    return fac__adopt(fac__thread(), zeros);
}
