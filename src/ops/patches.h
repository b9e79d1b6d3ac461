/* The geometry of patches: windows over the last two dimensions, whose elements are the rows of a matrix with a column for each
   window. */
#ifndef FAC_SRC_OPS_PATCHES_H
#define FAC_SRC_OPS_PATCHES_H

#include "core/tensor.h"

typedef struct fac_patches_args {
    fac_ints kernel, dilation, padding, stride;
} fac_patches_args;

typedef struct fac_patches {
    int64_t planes;              /* batch * channels */
    int64_t in[2], out[2], taps; /* out: windows along each dimension; taps: elements of a window */
    int64_t kernel[2], dilation[2], padding[2], stride[2];
    int64_t image[4], columns[3]; /* sizes of the two tensors, without the batch in the first place if there is none */
    int image_ndim, columns_ndim;
} fac_patches;

/* Fills and checks `out` for an image, or for its columns and the image's last two sizes.
   errors: SHAPE for another rank, an empty dimension beside the batch, no window, or columns that do not fit; ARGUMENT for a kernel,
           dilation or stride below 1, a negative padding, or lists of a wrong length; OVERFLOW */
fac_status fac__patches_plan(const fac_tensor *image, const fac_patches_args *args, fac_patches *out);
fac_status fac__patches_plan_columns(const fac_tensor *columns, fac_ints output_size, const fac_patches_args *args,
                                     fac_patches *out);

#endif
