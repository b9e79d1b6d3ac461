/* Convolution's windows as matrices, and back. */
#ifndef FAC_SRC_BACKEND_CPU_IM2COL_H
#define FAC_SRC_BACKEND_CPU_IM2COL_H

#include "backend/cpu/cpu.h"
#include "ops/conv.h"

/* col[channel][tap][p - begin] = large[channel] at the place that `tap` of the window of small position p reads, zero in the
   padding, for `channels` channels and positions [begin, end). `item` is 2, 4, 8 or 16 bytes. */
FAC_ISA_DECLARE(void, fac__im2col,
                (const fac_conv *c, size_t item, const void *large, int64_t channels, int64_t begin, int64_t end,
                 void *col));
/* The transpose: adds col to large, whose elements are f32 or f64 (c64 or c128 likewise), or i16, i32 or i64, which wrap. */
FAC_ISA_DECLARE(void, fac__col2im,
                (const fac_conv *c, fac_dtype dtype, const void *col, int64_t channels, int64_t begin, int64_t end,
                 void *large));

/* Depthwise convolution, one plane (a group whose two sides have one channel each) of f32 or f64: no windows are made, each
   tap passes over the plane once. weight: the plane's taps; bias: one element or NULL. */
FAC_ISA_DECLARE(void, fac__depthwise_to_small,
                (const fac_conv *c, fac_dtype dtype, const void *weight, const void *large, const void *bias,
                 void *small));
FAC_ISA_DECLARE(void, fac__depthwise_to_large,
                (const fac_conv *c, fac_dtype dtype, const void *weight, const void *small, const void *bias,
                 void *large));
/* Adds the plane's gradient to `weight`. */
FAC_ISA_DECLARE(void, fac__depthwise_to_weight,
                (const fac_conv *c, fac_dtype dtype, const void *small, const void *large, void *weight));

#endif
