/* The public face of a tensor's autograd data: requires_grad, grad, history, hooks. */
#include "autograd/leaf.h"
#include "autograd/autograd_meta.h"
#include "autograd/hooks.h"
#include "autograd/nested.h"
#include "core/handle.h"

bool fac_requires_grad(const fac_tensor *t) {
    FAC_OPEN(t, "fac_requires_grad", "t", false);
    return fac__requires_grad(fac__history_of((fac_tensor *)(uintptr_t)t));
}

bool fac__is_leaf(const fac_tensor *t) { return !(t->ag && fac__history(t->ag)); }

bool fac_is_leaf(const fac_tensor *t) {
    FAC_OPEN(t, "fac_is_leaf", "t", false);
    return fac__is_leaf(fac__history_of((fac_tensor *)(uintptr_t)t));
}

bool fac_is_inference(const fac_tensor *t) {
    FAC_OPEN(t, "fac_is_inference", "t", false);
    return (t->flags & FAC_TF_INFERENCE) != 0;
}

fac_status fac__set_requires_grad(fac_tensor *t, bool on) {
    FAC_TRY(fac__check_own(t, "requires_grad_"));
    FAC_CHECK(!on || fac__differentiable((fac_dtype)t->dtype), FAC_ERR_DTYPE,
              "only Tensors of floating point and complex dtype can require gradients, not %s",
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(!on || !(t->flags & FAC_TF_INFERENCE) || fac__thread()->inference, FAC_ERR_AUTOGRAD,
              "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (on == fac__requires_grad(t)) return FAC_OK;
    FAC_CHECK(!(t->ag && fac__history(t->ag)), FAC_ERR_AUTOGRAD,
              "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
              "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    struct fac_autograd *ag = fac__autograd_of(t);
    if (!ag) return FAC_ERR_MEMORY;
    ag->requires_grad = on;
    return FAC_OK;
}

fac_tensor *fac_set_requires_grad(fac_tensor *t, bool on) {
    FAC_OPEN(t, "requires_grad_", "self", NULL);
    return fac__set_requires_grad(fac__history_of(t), on) == FAC_OK ? fac__handle(t) : NULL;
}

fac_tensor *fac__grad_of(const fac_tensor *t) { return t->ag ? t->ag->grad : NULL; }

fac_tensor *fac_grad_of(const fac_tensor *t) {
    FAC_OPEN(t, "grad", "self", NULL);
    if (FAC_UNLIKELY(fac__nested_of(t) != NULL)) return fac__handle(fac__nested_grad_of(t));
    return fac__handle(fac__grad_of(t));
}

static fac_status check_grad(const fac_tensor *t, const fac_tensor *grad) {
    FAC_CHECK(grad != t, FAC_ERR_ARGUMENT, "can't assign Variable as its own grad");
    FAC_CHECK(fac__same_sizes(t, grad), FAC_ERR_SHAPE, "assigned grad has data of a different size: %s, expected %s",
              FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(t));
    FAC_CHECK(t->dtype == grad->dtype, FAC_ERR_DTYPE, "assigned grad has data of a different type: %s, expected %s",
              fac_dtype_name((fac_dtype)grad->dtype), fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(fac_device_equal(t->device, grad->device), FAC_ERR_DEVICE,
              "assigned grad has data located on a different device");
    return FAC_OK;
}

fac_status fac_set_grad(fac_tensor *t, fac_tensor *grad) {
    FAC_OPEN(t, "set_grad", "self", fac_error());
    FAC_OPEN_OPTIONAL(grad, "set_grad", "grad", fac_error());
    if (FAC_UNLIKELY(fac__nested_of(t) != NULL)) return fac__nested_set_grad(t, grad);
    return fac__set_grad(t, grad);
}

fac_status fac__set_grad(fac_tensor *t, fac_tensor *grad) {
    FAC_TRY(fac__check_own(t, "set_grad"));
    FAC_TRY(fac__check_own(grad, "set_grad"));
    if (grad) FAC_TRY(check_grad(t, grad));
    if (!grad && !t->ag) return FAC_OK;
    struct fac_autograd *ag = fac__autograd_of(t);
    if (!ag) return FAC_ERR_MEMORY;
    fac_tensor *old = ag->grad;
    ag->grad = fac__ref(grad);
    fac__unref(old);
    return FAC_OK;
}

fac_node *fac_grad_fn(fac_tensor *t) {
    FAC_OPEN(t, "grad_fn", "self", NULL);
    return fac__grad_fn(fac__history_of(t));
}

bool fac_is_view(const fac_tensor *t) { return fac_view_base(t) != NULL; }

fac_tensor *fac_view_base(const fac_tensor *t) {
    FAC_OPEN(t, "is_view", "self", NULL);
    return fac__handle(t->ag ? t->ag->base : NULL);
}

fac_status fac_retain_grad(fac_tensor *t) {
    FAC_OPEN(t, "retain_grad", "self", fac_error());
    return fac__retain_grad(fac__history_of(t));
}

fac_status fac__retain_grad(fac_tensor *t) {
    FAC_TRY(fac__check_own(t, "retain_grad"));
    FAC_CHECK(fac__requires_grad(t), FAC_ERR_AUTOGRAD, "can't retain_grad on Tensor that has requires_grad=False");
    fac_node *fn = fac__grad_fn(t);
    if (!fn) return fac_error(); /* a leaf always keeps it */
    return t->ag->retained ? FAC_OK : fac__retain_at(fn, t->ag->output_nr, t->ag);
}

/* ---- hooks ---------------------------------------------------------------------------------------------------------- */

static bool is_hook(void (*fn)(void)) {
    if (!fn) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "a hook needs a function, but it is NULL");
    return fn != NULL;
}

fac_hook *fac_register_hook(fac_tensor *t, fac_grad_hook fn, void *context) {
    FAC_OPEN(t, "register_hook", "self", NULL);
    if (!is_hook((void (*)(void))fn) || fac__check_own(t, "register_hook")) return NULL;
    if (!fac__requires_grad(t)) {
        FAC_FAIL(FAC_ERR_AUTOGRAD, "cannot register a hook on a tensor that doesn't require gradient");
        return NULL;
    }
    fac_node *node = fac__grad_fn(t);
    if (!node && fac_error() != FAC_OK) return NULL;
    fac_hooks **list = node ? &node->hooks : &t->ag->hooks;
    return fac__hook_add(
        list,
        (fac_listed_hook){(void (*)(void))fn, context, FAC_HOOK_TENSOR, (uint32_t)(node ? t->ag->output_nr : 0), NULL},
        true);
}

fac_hook *fac_register_post_accumulate_hook(fac_tensor *t, void (*fn)(void *context, fac_tensor *t), void *context) {
    FAC_OPEN(t, "register_post_accumulate_grad_hook", "self", NULL);
    if (!is_hook((void (*)(void))fn) || fac__check_own(t, "register_post_accumulate_grad_hook")) return NULL;
    if (!t->ag || !t->ag->requires_grad || fac__history(t->ag)) {
        FAC_FAIL(FAC_ERR_AUTOGRAD,
                 "post accumulate grad hooks can only be registered on leaf tensors that require a gradient");
        return NULL;
    }
    return fac__hook_add(&t->ag->hooks,
                         (fac_listed_hook){(void (*)(void))fn, context, FAC_HOOK_POST_ACCUMULATE, 0, NULL}, true);
}

fac_hook *fac_node_register_pre_hook(fac_node *n, fac_status (*fn)(void *context, fac_tensor **grads, size_t n_grads),
                                     void *context) {
    if (!fac__given(n, "node to put a hook on") || !is_hook((void (*)(void))fn)) return NULL;
    return fac__hook_add(&n->hooks, (fac_listed_hook){(void (*)(void))fn, context, FAC_HOOK_PRE, 0, NULL}, true);
}

fac_hook *fac_node_register_hook(fac_node *n,
                                 fac_status (*fn)(void *context, fac_tensor **grad_inputs, size_t n_in,
                                                  fac_tensor *const *grad_outputs, size_t n_out),
                                 void *context) {
    if (!fac__given(n, "node to put a hook on") || !is_hook((void (*)(void))fn)) return NULL;
    return fac__hook_add(&n->hooks, (fac_listed_hook){(void (*)(void))fn, context, FAC_HOOK_POST, 0, NULL}, true);
}
