/* Layout rules that the shape rules of batch and group norm and their kernels must agree on. */
#ifndef FAC_SRC_OPS_META_NORM_H
#define FAC_SRC_OPS_META_NORM_H

#include "ops/format.h"

/* True if x [N, C, *] lies in memory as a dense array of points of C neighbouring values. */
bool fac__channels_fastest(const fac_tensor *x);

/* The format of group norm's result and of the gradient of its input. */
fac_memory_format fac__group_norm_format(const fac_tensor *input, int64_t n, int64_t c);

#endif
