/* What always holds of a tensor. */
#ifndef FAC_SRC_CORE_VALID_H
#define FAC_SRC_CORE_VALID_H

#include "core/tensor.h"

/* True; each condition that does not hold is a bug by its own name. For FAC_INVARIANT: where a header is made, changed and
   given to a scope. The tensor must not be changed by another thread meanwhile. */
bool fac__tensor_is_valid(const fac_tensor *t);

#endif
