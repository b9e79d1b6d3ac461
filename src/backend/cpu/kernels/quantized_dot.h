/* Sums of products of 8-bit integers, exactly in int32. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_QUANTIZED_DOT_H
#define FAC_SRC_BACKEND_CPU_KERNELS_QUANTIZED_DOT_H

#include "backend/cpu/cpu.h"

enum { FAC_DOT_ROWS = 4, FAC_TILE_ROWS = 8, FAC_PANEL = 32 };

/* out[rows][n], `ldo` apart: the dot products of one to FAC_DOT_ROWS rows of a, `lda` apart, with n rows of b, `ldb` apart; all of k.
   total[n], if it is not NULL: the sums of b's rows. |sums| stay below 2^31 for k <= FAC_DOT_MOST. */
FAC_ISA_DECLARE(void, fac__dot_u8s8,
                (const uint8_t *a, int64_t lda, int rows, const int8_t *b, int64_t ldb, int64_t n, int64_t k,
                 int32_t *out, int64_t ldo, int32_t *total));
#define FAC_DOT_MOST 65793
/* Sums of so many products, less those that zero points stand for, stay below 2^31 too. */
#define FAC_DOT_SHORT 33025

/* Rows of codes: row r is the `depth` bytes, a multiple of 4, at rows[r] + offsets[0], then those at rows[r] + offsets[1], ... */
typedef struct fac_tile_rows {
    const uint8_t *rows[FAC_TILE_ROWS];
    const int64_t *offsets; /* [taps] */
    int64_t taps, depth;
} fac_tile_rows;

/* out[FAC_TILE_ROWS][width], `ldo` apart: the dot products of the rows with the columns of a panel of 16 or FAC_PANEL. */
FAC_ISA_DECLARE(void, fac__tile_u8s8,
                (const fac_tile_rows *t, const int8_t *panel, int64_t width, int32_t *out, int64_t ldo));
/* panel[k / 4][width][4] of `width` rows of k weights, a multiple of 4; and the sum of each row. */
FAC_ISA_DECLARE(void, fac__pack_i8,
                (const int8_t *const *rows, int64_t width, int64_t k, int8_t *panel, int32_t *sums));

/* Numbers of each column of a product. */
typedef struct fac_columns {
    int32_t *away; /* what a row's sums are less, as far as it does not depend on the row */
    int32_t *w_zero;
    float *scale, *bias, *multiplier; /* of input and weight; bias over it; it over that of the result */
    float zero, least, most;          /* of the result's codes */
} fac_columns;

/* Of n columns from `first` on, where the number is sum - away - w_zero * x.
   code = (number + bias) * multiplier rounded to nearest even, plus zero, within [least, most] */
FAC_ISA_DECLARE(void, fac__requantize,
                (const int32_t *sum, const fac_columns *c, int64_t first, int64_t n, int32_t x, uint8_t *out));
/* out = number * scale + bias */
FAC_ISA_DECLARE(void, fac__dequantize_sums,
                (const int32_t *sum, const fac_columns *c, int64_t first, int64_t n, int32_t x, float *out));

/* dst[i][j] = src[j][i] ^ flip of bytes, i < rows, j < cols; dst_row and src_row bytes from one row to the next. */
FAC_ISA_DECLARE(void, fac__transpose_bytes,
                (uint8_t * dst, int64_t dst_row, const uint8_t *src, int64_t src_row, int64_t rows, int64_t cols,
                 uint8_t flip));
/* out[r] = the sum of the k bytes of row r < n, ldx apart. */
FAC_ISA_DECLARE(void, fac__sums_u8, (const uint8_t *x, int64_t n, int64_t k, int64_t ldx, int32_t *out));
/* sums[c] = sum over t < taps of x[offsets[t] + c] * w[t * n + c], of n channels; w are numbers of 16 bits. */
FAC_ISA_DECLARE(void, fac__depthwise_dot,
                (const uint8_t *x, const int64_t *offsets, int64_t taps, const int32_t *w, int64_t n, int32_t *sums));

#endif
