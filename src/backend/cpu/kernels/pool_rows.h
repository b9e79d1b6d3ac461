/* Inner loops of pooling that run along a row of the result or the input. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_POOL_ROWS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_POOL_ROWS_H

#include "backend/cpu/cpu.h"

/* out[i] = the greatest of the pairs of elements 2i and 2i + 1 of each of `rows` (1 to 4) rows, and its place, which is first[r] + 2i
   or one more, in indices. The first of equals wins, and a NaN over all. Places fit 31 bits. */
FAC_ISA_DECLARE(void, fac__max_pairs_f32,
                (const float *from, const int64_t *first, int rows, int64_t n, float *out, int64_t *indices));
/* out[i] = the sum of element i of `planes` times `rows` rows, `plane` and `row` apart, over n elements. */
FAC_ISA_DECLARE(void, fac__sum_of_rows_f32,
                (const float *x, int64_t planes, int64_t plane, int64_t rows, int64_t row, int64_t n, float *out));

#endif
