/* Convolutions of f32 with 3x3 taps and steps of 1 whose channels are innermost, by products of 4x4 tiles (conv_winograd.c). */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_CONV_WINOGRAD_H
#define FAC_SRC_BACKEND_CPU_KERNELS_CONV_WINOGRAD_H

#include "backend/cpu/kernels/conv_last.h"

enum { FAC_WINOGRAD_TILE = 4, FAC_WINOGRAD_POINTS = 16, FAC_WINOGRAD_OUT = 2 };

bool fac__conv_winograd_suits(const fac_conv *c, fac_conv_side result, fac_dtype d);
/* A side of a convolution that suits. *done: false if a number of the result is not finite, as infinity would spoil whole tiles; then
   the result has to be computed otherwise. errors: MEMORY */
fac_status fac__conv_winograd(const fac_conv *c, fac_conv_side result, const fac_conv_arrays *arrays, bool *done);

/* 9 lines of n numbers of weights (vectors) to 16. */
FAC_ISA_DECLARE(void, fac__winograd_weight, (const float *from, float *to, int64_t n));
/* `channels` of the 4x4 points at `from` to 16 lines that are `step` floats apart; past the channels there are zeros. */
FAC_ISA_DECLARE(void, fac__winograd_in, (const float *const *from, int64_t channels, float *to, int64_t step));
/* 16 lines `step` apart, of `channels` numbers, plus a bias (NULL: none), to those of the 2x2 points that are not NULL. False if one of
   them is not finite. */
FAC_ISA_DECLARE(bool, fac__winograd_out,
                (const float *from, int64_t step, int64_t channels, const float *bias, float *const *to));

#endif
