/* Group norm of images whose channels are innermost. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_GROUP_NORM_LAST_H
#define FAC_SRC_BACKEND_CPU_KERNELS_GROUP_NORM_LAST_H

#include "core/tensor.h"

/* What a call is given; borrowed. */
typedef struct fac_group_norm_args {
    int64_t batch, channels, plane, groups;
    double eps;
    fac_tensor *x, *weight, *bias, *dy; /* dy: of the gradient alone */
    fac_tensor *y, *mean, *rstd; /* y: the result, or the gradient of x (NULL: not wanted); statistics [N, groups] */
} fac_group_norm_args;

fac_status fac__group_norm_last(const fac_group_norm_args *g);
/* dweight, dbias: [C], or NULL where not wanted. */
fac_status fac__group_norm_last_backward(const fac_group_norm_args *g, fac_tensor *dweight, fac_tensor *dbias);

#endif
