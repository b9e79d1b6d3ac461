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

#endif
