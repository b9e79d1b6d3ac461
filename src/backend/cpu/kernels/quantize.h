/* Runs of codes that share a scale. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_QUANTIZE_H
#define FAC_SRC_BACKEND_CPU_KERNELS_QUANTIZE_H

#include "backend/cpu/cpu.h"

/* code = x * (1 / scale) rounded to nearest even, plus zero, within what the type holds; NaN is the least. */
FAC_ISA_DECLARE(void, fac__encode_u8, (uint8_t * out, const float *x, int64_t n, float scale, float zero));
FAC_ISA_DECLARE(void, fac__encode_i8, (int8_t * out, const float *x, int64_t n, float scale, float zero));
/* x = (code - zero) * scale. */
FAC_ISA_DECLARE(void, fac__decode_u8, (float *out, const uint8_t *c, int64_t n, float scale, int zero));
FAC_ISA_DECLARE(void, fac__decode_i8, (float *out, const int8_t *c, int64_t n, float scale, int zero));

#endif
