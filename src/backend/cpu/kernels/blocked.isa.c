/* Convolutions of channels in blocks. A line of the output is computed a few points at a time, each of which is one vector of a block's
   output channels that stays in a register: for every input channel and tap the weight's vector is read once and multiplied by the
   input's number at each point. Sums are in f32, over blocks of input channels, taps, and channels within a block, in this order,
   whatever the number of threads. Where the machine has fused multiply-adds, they are used. */
#include "backend/cpu/kernels/blocked.h"
#include "backend/cpu/simd.h"

enum { TILE = 12 };

/* Vectors of n lanes: the machine's own, or what the compiler makes of several of them. */
#define BLOCK 16
#define NAME(f) f##_16
#include "backend/cpu/kernels/blocked_body.h"
#undef BLOCK
#undef NAME
#define BLOCK 8
#define NAME(f) f##_8
#include "backend/cpu/kernels/blocked_body.h"

void FAC_ISA_NAME(fac__blocked_conv_rows)(const fac_blocked_conv *j, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
        if (j->block == 16)
            line_16(j, r);
        else
            line_8(j, r);
    }
}

void FAC_ISA_NAME(fac__blocked_zero)(float *p, int64_t n) {
    int64_t i = 0;
    for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32) fac_store_f32(p + i, fac_splat_f32(0));
    for (; i < n; i++) p[i] = 0;
}
