/* Positions of nonzero elements, which masks stand for. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_MASKED_H
#define FAC_SRC_BACKEND_CPU_KERNELS_MASKED_H

#include "core/tensor.h"

/* Owned int64 [count, ndim]: positions of the elements that are not zero, row-major. */
fac_status fac__nonzero(fac_tensor *t, fac_tensor **out);

#endif
