/* Products with weights of 8 and 4 bits, and rows of packed codes made numbers. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_LOW_BITS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_LOW_BITS_H

#include "backend/cpu/cpu.h"

/* out[r] = the sum of x[r * ldx + i] * w[i] over i < k, for r < rows. */
FAC_ISA_DECLARE(void, fac__dot_i8, (const float *x, int64_t ldx, int64_t rows, const int8_t *w, int64_t k, float *out));

/* Weights of 4 bits: code q of column i is (q - 8) * numbers[i / group * 2] + numbers[i / group * 2 + 1]; a byte has those of two
   columns, the even one in its low half. */
typedef struct fac_row4 {
    const uint8_t *bytes;
    const float *numbers;
    int64_t k, group;
    bool narrow; /* x is of bf16, which takes fac__cpu_bf16, k a multiple of 64, and `group` another, or 32 */
} fac_row4;

/* out[r] = the sum of x times the row's weights, for r < rows. A row of x has its even columns first, then its odd ones, then for each
   group a zero and the sum of the group's columns. Those are float32 even where columns are narrow; ldx counts in these. */
FAC_ISA_DECLARE(void, fac__dot_i4, (const fac_row4 *w, const float *x, int64_t ldx, int64_t rows, float *out));
/* out[i] = the weight of column i. */
FAC_ISA_DECLARE(void, fac__unpack_i4, (const fac_row4 *w, float *out));

/* A table whose rows are n codes of 8 bits, or of 4 with the even ones in the low halves of bytes, and two numbers, scale and least, in
   float32 and in float16; and indices of rows. */
typedef struct fac_rows_of_codes {
    const uint8_t *table;
    const void *indices;
    bool wide;        /* int64 indices, else int32 */
    int64_t bytes, n; /* of a row; its codes */
} fac_rows_of_codes;

static inline int64_t fac__code_row(const fac_rows_of_codes *r, int64_t i) {
    return r->wide ? ((const int64_t *)r->indices)[i] : ((const int32_t *)r->indices)[i];
}

/* Whether n indices are of a table of `rows` rows: the sign of neither it nor of what lacks to the last one is set. */
FAC_ISA_DECLARE(bool, fac__code_rows_within, (const fac_rows_of_codes *r, int64_t n, int64_t rows));
/* Rows of n numbers, code * scale + least, for indices begin to end. */
FAC_ISA_DECLARE(void, fac__look_up_8, (const fac_rows_of_codes *r, int64_t begin, int64_t end, float *out));
FAC_ISA_DECLARE(void, fac__look_up_4, (const fac_rows_of_codes *r, int64_t begin, int64_t end, float *out));

#endif
