/* Inner loops over tensors whose channels lie in blocks (core/vendor.h), in f32. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_BLOCKED_H
#define FAC_SRC_BACKEND_CPU_KERNELS_BLOCKED_H

#include "backend/cpu/cpu.h"
#include "ops/conv.h"

/* A convolution from the large side to the small one, in the words of ops/conv.h. Where the input is not in blocks (in_block 1), it
   has fewer channels than a block. */
typedef struct fac_blocked_conv {
    const fac_conv *c;
    const float *in, *weight, *bias; /* bias: of whole blocks, NULL for none */
    float *out;
    int block;         /* output channels in a block: 8 or 16 */
    int64_t in_block;  /* channels that lie beside each other: block, or 1 */
    int64_t weight_in; /* input channels in a block of the weight; 0: each group has one channel on either side */
    int64_t blocks;    /* of output channels per group; of groups where each has one channel */
    int64_t rows;      /* tasks: lines along the last dimension of one block of one image of the output */
} fac_blocked_conv;

/* Lines [begin, end) of the output. */
FAC_ISA_DECLARE(void, fac__blocked_conv_rows, (const fac_blocked_conv *j, int64_t begin, int64_t end));
/* Zeros over n floats. */
FAC_ISA_DECLARE(void, fac__blocked_zero, (float *p, int64_t n));

#endif
