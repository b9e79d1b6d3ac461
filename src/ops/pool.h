/* The geometry of pooling, worked out and checked in one place for metas and kernels. */
#ifndef FAC_SRC_OPS_POOL_H
#define FAC_SRC_OPS_POOL_H

#include "ops/format.h"

#define FAC_POOL_DIMS 3

/* Windows over the last nd dimensions of planes. The arrays hold the real dimensions last; those before are of size 1. */
typedef struct fac_pool {
    int nd;
    bool adaptive; /* windows are [o * in / out, ceil((o + 1) * in / out)); the arrays of windows are then not set */
    int64_t planes;
    int64_t in[FAC_POOL_DIMS], out[FAC_POOL_DIMS];
    int64_t kernel[FAC_POOL_DIMS], stride[FAC_POOL_DIMS], padding[FAC_POOL_DIMS], dilation[FAC_POOL_DIMS];
    int64_t in_count, out_count;      /* elements of a plane */
    int64_t sizes[FAC_POOL_DIMS + 2]; /* of the result */
    int ndim;
} fac_pool;

typedef struct fac_pool_args {
    fac_ints kernel, stride, padding, dilation; /* an empty stride is the kernel; an unset dilation is 1 */
    bool ceil_mode;
} fac_pool_args;

/* Fills and checks `out` for pooling self by windows.
   errors: SHAPE for another rank, an empty dimension or an empty result; ARGUMENT for a kernel, stride or dilation below 1,
           a padding below 0 or above half the kernel, or lists of a wrong length; OVERFLOW */
fac_status fac__pool_plan(int nd, const fac_tensor *self, const fac_pool_args *args, fac_pool *out);
/* The same for pooling to a given size.
   errors: SHAPE for another rank or an empty dimension; ARGUMENT for a negative size or a wrong number of sizes; OVERFLOW */
fac_status fac__pool_plan_adaptive(int nd, const fac_tensor *self, fac_ints output_size, fac_pool *out);
/* The format of the result and of the gradient of self. As in PyTorch, only maxima keep that of three dimensions, and none if the
   windows are adaptive. */
static inline fac_memory_format fac__pool_format(const fac_pool *p, const fac_tensor *self, bool maxima) {
    const bool keeps = self->ndim == p->nd + 2 && (p->nd == 2 || (maxima && !p->adaptive));
    return keeps ? fac__format_of(self) : FAC_CONTIGUOUS;
}
/* The window of output position o in dimension d before clipping: [*begin, *end) in steps of dilation. */
static inline void fac__pool_window(const fac_pool *p, int d, int64_t o, int64_t *begin, int64_t *end) {
    if (p->adaptive) {
        *begin = o * p->in[d] / p->out[d];
        *end = ((o + 1) * p->in[d] + p->out[d] - 1) / p->out[d];
        return;
    }
    *begin = o * p->stride[d] - p->padding[d];
    *end = *begin + (p->kernel[d] - 1) * p->dilation[d] + 1;
}

#endif
