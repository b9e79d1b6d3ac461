/* The geometry of a convolution, worked out and checked in one place for metas, kernels and gradients. */
#ifndef FAC_SRC_OPS_CONV_H
#define FAC_SRC_OPS_CONV_H

#include "ops/format.h"

#define FAC_CONV_DIMS 3

/* Every convolution relates a small side and a large side by weight [groups * small, large, kernel...]:
       small = sum over the kernel of weight * large (at stride * position + dilation * tap - padding).
   A plain convolution goes from large (input) to small (output); a transposed one from small to large. */
typedef struct fac_conv {
    int nd; /* spatial dimensions, 1 to 3; the arrays' entries from nd on are those of a dimension of size 1 */
    int64_t batch, groups;
    int64_t small, large; /* channels per group */
    int64_t small_size[FAC_CONV_DIMS], large_size[FAC_CONV_DIMS];
    int64_t kernel[FAC_CONV_DIMS], stride[FAC_CONV_DIMS], padding[FAC_CONV_DIMS], dilation[FAC_CONV_DIMS];
    int64_t small_count, large_count, taps; /* products of the sizes and of the kernel */
    bool transposed;
    bool batched;         /* the input has a batch dimension */
    int64_t out_sizes[5]; /* of the result */
    int out_ndim;
} fac_conv;

/* What is computed from the other two; also the numbers of the three arrays. */
typedef enum { FAC_CONV_SMALL, FAC_CONV_LARGE, FAC_CONV_WEIGHT, FAC_CONV_SIDES } fac_conv_side;

/* The format of the result and of the gradients of input and weight: channels-last if either is. Without a batch, and in one
   dimension, they are row-major. */
static inline fac_memory_format fac__conv_format(const fac_tensor *input, const fac_tensor *weight) {
    if (input->ndim != weight->ndim) return FAC_CONTIGUOUS;
    const fac_memory_format f = fac__format_of(input);
    return fac__is_channels_last(f) ? f : fac__format_of(weight);
}

/* The schema's arguments. A list of one entry counts for every dimension. */
typedef struct fac_conv_args {
    fac_ints stride, padding, dilation, output_padding;
    bool transposed;
    int64_t groups;
} fac_conv_args;

/* Fills and checks `out` from sizes; bias may be NULL.
   errors: SHAPE if ranks, channels or bias do not fit or the kernel is larger than the padded input; ARGUMENT for strides,
           dilations or groups below one, negative paddings, or lists of a wrong length; DTYPE if dtypes differ or are not
           floating or complex; OVERFLOW */
fac_status fac__conv_plan(const fac_tensor *input, const fac_tensor *weight, const fac_tensor *bias,
                          const fac_conv_args *args, fac_conv *out);

#endif
