/* What users ask of a tensor's autograd data, of headers: for the rooms above. */
#ifndef FAC_SRC_AUTOGRAD_LEAF_H
#define FAC_SRC_AUTOGRAD_LEAF_H

#include "core/tensor.h"
#include <facula/autograd.h>

bool fac__is_leaf(const fac_tensor *t);
/* The accumulated gradient, borrowed from t; NULL if there is none. */
fac_tensor *fac__grad_of(const fac_tensor *t);
fac_status fac__set_requires_grad(fac_tensor *t, bool on);
/* Replaces the gradient (NULL drops it). */
fac_status fac__set_grad(fac_tensor *t, fac_tensor *grad);
fac_status fac__retain_grad(fac_tensor *t);
/* fac_grad, with headers in the lists and in kw, and out. */
fac_status fac__grad(fac_tensors outputs, fac_tensors inputs, fac_tensor **out_grads, const fac_grad_kw *kw);

#endif
