/* Inner loops of pooling that run along a row of the result or the input. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_POOL_ROWS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_POOL_ROWS_H

#include "backend/cpu/cpu.h"

/* out[i] = the greatest of the pairs of elements 2i and 2i + 1 of each of `rows` (1 to 4) rows, and its place, which is first[r] + 2i
   or one more, in indices. The first of equals wins, and a NaN over all. Places fit 31 bits. */
FAC_ISA_DECLARE(void, fac__max_pairs_f32,
                (const float *from, const int64_t *first, int rows, int64_t n, float *out, int64_t *indices));
FAC_ISA_DECLARE(void, fac__max_pairs_f64,
                (const double *from, const int64_t *first, int rows, int64_t n, double *out, int64_t *indices));
/* The greatest element of up to FAC_MAX_WINDOWS windows side by side, which take in columns [begin, end) of rows [y, y_end) of planes
   [z, z_end), each in steps, and its place. The first of equals wins, and a NaN over all; an empty window has -inf and place 0. False, and nothing is
   done, without instructions for it; NULL only asks. Places and steps fit 31 bits. */
#define FAC_MAX_WINDOWS 16
typedef struct fac_max_windows {
    const float *from;
    int64_t z, z_end, z_step, y_step;
    int64_t rows, columns; /* of the input */
    int32_t y[FAC_MAX_WINDOWS], y_end[FAC_MAX_WINDOWS], begin[FAC_MAX_WINDOWS], end[FAC_MAX_WINDOWS], step;
    int n;
    float *to;
    int64_t *indices;
} fac_max_windows;
FAC_ISA_DECLARE(bool, fac__max_windows_f32, (const fac_max_windows *w));
/* Whether one of n elements is greater than top, or NaN. */
FAC_ISA_DECLARE(bool, fac__any_above_f64, (const double *x, int64_t n, double top));
/* out[i] = the sum of element i of `planes` times `rows` rows, `plane` and `row` apart, over n elements. */
FAC_ISA_DECLARE(void, fac__sum_of_rows_f32,
                (const float *x, int64_t planes, int64_t plane, int64_t rows, int64_t row, int64_t n, float *out));
FAC_ISA_DECLARE(void, fac__sum_of_rows_f64,
                (const double *x, int64_t planes, int64_t plane, int64_t rows, int64_t row, int64_t n, double *out));

#endif
