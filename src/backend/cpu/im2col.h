/* Convolution's windows as matrices, and back. */
#ifndef FAC_SRC_BACKEND_CPU_IM2COL_H
#define FAC_SRC_BACKEND_CPU_IM2COL_H

#include "backend/cpu/cpu.h"
#include "ops/conv.h"

/* col[channel][tap][p - begin] = large[channel] at the place that `tap` of the window of small position p reads, zero in the
   padding, for `channels` channels and positions [begin, end). `item` is 2, 4, 8 or 16 bytes. */
FAC_ISA_DECLARE(void, fac__im2col,
                (const fac_conv *c, size_t item, const void *large, int64_t channels, int64_t begin, int64_t end, void *col));
/* The transpose: adds col to large, whose elements are f32 or f64 (c64 or c128 likewise). */
FAC_ISA_DECLARE(void, fac__col2im,
                (const fac_conv *c, fac_dtype dtype, const void *col, int64_t channels, int64_t begin, int64_t end, void *large));

#endif
