/* Gradients of nested tensors, shown as nested ones: see nested.h. */
#include "autograd/nested.h"
#include "autograd/leaf.h"
#include "core/kinds.h"
#include "ops/call.h"
#include "ops/nested/parts.h"

fac_status fac__nested_grad_elements(fac_tensor *t, fac_tensor *grad, fac_tensor **out) {
    FAC_CHECK(!fac__nested_of(t) == !fac__nested_of(grad), FAC_ERR_UNSUPPORTED,
              "the gradient of a nested tensor is a nested one, and that of a plain tensor a plain one");
#if FAC_HAVE_NESTED
    if (fac__nested_of(t)) {
        FAC_SCOPE(s);
        return fac__give(out, fac__nested_elements_like(grad, t));
    }
#endif
    *out = fac__ref(grad);
    return FAC_OK;
}

fac_status fac__nested_show_grad(const fac_tensor *t, fac_tensor **grad) {
    const fac_nested *own = fac__nested_of(t);
    fac_tensor *elements = *grad;
    if (!own || !elements) return FAC_OK;
    const fac_status st = fac__nested_make(elements, own->shape, own->order, grad);
    fac__unref(elements);
    return st;
}

fac_tensor *fac__nested_grad_of(const fac_tensor *t) {
    fac_tensor *grad = fac__ref(fac__grad_of(fac__nested_of(t)->buffer));
    if (!grad || fac__nested_show_grad(t, &grad) != FAC_OK) return NULL;
    return fac__adopt(fac__thread(), grad);
}

fac_status fac__nested_set_grad(fac_tensor *t, fac_tensor *grad) {
    fac_tensor *elements = NULL;
    if (grad) FAC_TRY(fac__nested_grad_elements(t, grad, &elements));
    const fac_status st = fac__set_grad(fac__nested_of(t)->buffer, elements);
    fac__unref(elements);
    return st;
}
