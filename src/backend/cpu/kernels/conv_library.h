/* Convolutions through oneDNN. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_CONV_LIBRARY_H
#define FAC_SRC_BACKEND_CPU_KERNELS_CONV_LIBRARY_H

#include "ops/conv.h"

/* The arrays of a convolution in f32 or bf16, of the whole batch. */
typedef struct fac_conv_arrays {
    void *side[FAC_CONV_SIDES];
    const void *bias; /* of the result's channels, NULL for none (and for a weight) */
    bool bf16;
    bool last;        /* the channels of both sides are innermost, else the arrays are row-major */
    bool weight_last; /* so are the weight's large channels */
} fac_conv_arrays;

/* Whether oneDNN is built in and may be the faster way, for f32, and for bf16 where the processor multiplies it. */
bool fac__conv_library_suits(const fac_conv *c, fac_conv_side result);
/* Computes one side of a convolution that suits from the two others; *done says whether oneDNN could.
   errors: MEMORY */
fac_status fac__conv_library(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done);

/* The small side of a convolution that suits, in blocks of `block` channels as is the weight (core/vendor.h); so is the large side if
   large_block, else it is row-major with less channels. bias: of the channels, NULL for none. Groups have whole blocks.
   errors: MEMORY */
typedef struct fac_conv_blocked {
    const float *large, *weight, *bias;
    float *small;
    int block;
    bool large_block;
} fac_conv_blocked;
fac_status fac__conv_library_blocked(const fac_conv *c, const fac_conv_blocked *arrays, bool *done);

#endif
