/* Tensors with a conjugation or negation pending, beneath operators whose kernels know nothing of it. */
#ifndef FAC_SRC_OPS_PENDING_H
#define FAC_SRC_OPS_PENDING_H

#include "core/tensor.h"

/* Registers the fallback of the key Conjugate, and how copy_ does without it. */
fac_status fac__pending_init(void);

#endif
