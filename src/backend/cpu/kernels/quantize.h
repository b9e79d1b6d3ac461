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

/* How two codes become one: sums are scaled each by its own number and then by `factor`, products by `factor` alone. */
typedef struct fac_code_pair {
    float a_scale, b_scale, factor, zero, least;
    int a_zero, b_zero;
} fac_code_pair;
/* out = ((a - a_zero) * a_scale + (b - b_zero) * b_scale) * factor, or (a - a_zero) * (b - b_zero) * factor, rounded to nearest even,
   plus zero, at least `least` and within what the type holds. */
FAC_ISA_DECLARE(void, fac__codes_add_u8,
                (const fac_code_pair *p, const uint8_t *a, const uint8_t *b, int64_t n, uint8_t *out));
FAC_ISA_DECLARE(void, fac__codes_add_i8,
                (const fac_code_pair *p, const int8_t *a, const int8_t *b, int64_t n, int8_t *out));
FAC_ISA_DECLARE(void, fac__codes_mul_u8,
                (const fac_code_pair *p, const uint8_t *a, const uint8_t *b, int64_t n, uint8_t *out));
FAC_ISA_DECLARE(void, fac__codes_mul_i8,
                (const fac_code_pair *p, const int8_t *a, const int8_t *b, int64_t n, int8_t *out));

#endif
