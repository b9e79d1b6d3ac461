/* Sums of products of 8-bit integers, exactly in int32. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_QUANTIZED_DOT_H
#define FAC_SRC_BACKEND_CPU_KERNELS_QUANTIZED_DOT_H

#include "backend/cpu/cpu.h"

enum { FAC_DOT_ROWS = 4 };

/* out[FAC_DOT_ROWS][n], `ldo` apart: the dot products of four rows of a, `lda` apart, with n rows of b, `ldb` apart; all of k.
   Four rows are read. |sums| stay below 2^31 for k <= FAC_DOT_MOST. */
FAC_ISA_DECLARE(void, fac__dot_u8s8,
                (const uint8_t *a, int64_t lda, const int8_t *b, int64_t ldb, int64_t n, int64_t k, int32_t *out,
                 int64_t ldo));
#define FAC_DOT_MOST 65793

/* out[r] = the sum of the k numbers of row r. */
FAC_ISA_DECLARE(void, fac__row_sums_i8, (const int8_t *w, int64_t rows, int64_t k, int32_t *out));
FAC_ISA_DECLARE(int64_t, fac__row_sum_u8, (const uint8_t *x, int64_t k));
/* code = (sum - away + bias) * multiplier rounded to nearest even, plus zero, within [least, most]; all but the last three of n. */
FAC_ISA_DECLARE(void, fac__requantize,
                (const int32_t *sum, const int64_t *away, const float *bias, const float *multiplier, int64_t n,
                 float zero, float least, float most, uint8_t *out));
/* out[j] = base[j] + w_zero[j] * (x + x_sums[j]), without the latter if that is NULL. */
FAC_ISA_DECLARE(void, fac__zero_corrections,
                (const int64_t *base, const int64_t *w_zero, const int32_t *x_sums, int64_t x, int64_t n,
                 int64_t *out));
/* out = (sum - away) * scale + bias. */
FAC_ISA_DECLARE(void, fac__dequantize_sums,
                (const int32_t *sum, const int64_t *away, const float *scale, const float *bias, int64_t n,
                 float *out));
/* dst[i][j] = src[j][i] ^ flip of bytes, i < rows, j < cols; dst_row and src_row bytes from one row to the next. */
FAC_ISA_DECLARE(void, fac__transpose_bytes,
                (uint8_t * dst, int64_t dst_row, const uint8_t *src, int64_t src_row, int64_t rows, int64_t cols,
                 uint8_t flip));
/* sum[c] = sum over t < taps of at[t][c] * w[t * n + c], of n channels, and x_sum[c] that of at[t][c]; an `at` that is NULL stands for
   bytes of `pad`. */
FAC_ISA_DECLARE(void, fac__depthwise_dot,
                (const uint8_t *const *at, const int8_t *w, int64_t taps, int64_t n, uint8_t pad, int32_t *sum,
                 int32_t *x_sum));

#endif
