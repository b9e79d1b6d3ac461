/* The geometry of pooling that is undone, and of pooling whose windows are drawn. */
#ifndef FAC_SRC_OPS_UNPOOL_H
#define FAC_SRC_OPS_UNPOOL_H

#include "core/tensor.h"

#define FAC_UNPOOL_DIMS 3

/* Sizes of the result of max_unpool over the last nd dimensions.
   errors: SHAPE for another rank, an empty dimension beside the batch, or indices of other sizes; ARGUMENT for another number of
           sizes, or a negative one; DTYPE; OVERFLOW */
fac_status fac__unpool_sizes(int nd, const fac_tensor *self, const fac_tensor *indices, fac_ints output_size,
                             int64_t *sizes);

/* The arrays hold the real dimensions last; those before are of size 1. */
typedef struct fac_drawn_pool {
    int nd;
    int64_t planes;
    int64_t in[FAC_UNPOOL_DIMS], out[FAC_UNPOOL_DIMS], kernel[FAC_UNPOOL_DIMS];
    int64_t sizes[FAC_UNPOOL_DIMS + 2]; /* of the result */
} fac_drawn_pool;

/* errors: SHAPE for another rank, an empty dimension beside the batch, windows that do not fit, or samples of other sizes than [n, c,
           nd]; ARGUMENT for lists of a wrong length or sizes below 1; DTYPE */
fac_status fac__drawn_pool_plan(int nd, const fac_tensor *self, fac_ints kernel_size, fac_ints output_size,
                                const fac_tensor *samples, fac_drawn_pool *out);

#endif
