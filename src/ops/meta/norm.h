/* Layout rules that the shape rules of batch norm and its kernels must agree on. */
#ifndef FAC_SRC_OPS_META_NORM_H
#define FAC_SRC_OPS_META_NORM_H

#include "core/tensor.h"

/* True if x [N, C, *] lies in memory as a dense array of points of C neighbouring values. */
bool fac__channels_fastest(const fac_tensor *x);
/* True if both have equal strides (sizes are known to be equal). */
bool fac__same_strides(const fac_tensor *a, const fac_tensor *b);

#endif
