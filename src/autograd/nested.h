/* Gradients of nested tensors. The history of one is its buffer's; what is shown of a gradient is a nested tensor over the buffer's. */
#ifndef FAC_SRC_AUTOGRAD_NESTED_H
#define FAC_SRC_AUTOGRAD_NESTED_H

#include "core/nested.h"

/* The gradient that t, a nested tensor, has accumulated: a nested one of the innermost scope; NULL if there is none. */
fac_tensor *fac__nested_grad_of(const fac_tensor *t);
/* Replaces it; NULL drops it. errors: UNSUPPORTED if grad is not nested; SHAPE, DTYPE, DEVICE if it is not as t */
fac_status fac__nested_set_grad(fac_tensor *t, fac_tensor *grad);
/* Owned: the elements of a gradient of t, nested as t is, in the order of t's buffer. A plain t: the gradient itself.
   errors: UNSUPPORTED if one is nested and the other is not; SHAPE */
fac_status fac__nested_grad_elements(fac_tensor *t, fac_tensor *grad, fac_tensor **out);
/* *grad, the gradient of t's buffer, becomes a nested one; nothing happens for a plain t. The gradient is lost on failure. */
fac_status fac__nested_show_grad(const fac_tensor *t, fac_tensor **grad);

#endif
