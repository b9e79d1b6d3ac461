/* Folding runs of one accumulation kind: the inner loops of every reduction. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_FOLD_H
#define FAC_SRC_BACKEND_CPU_KERNELS_FOLD_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/tile.h"

/* acc = acc (op) x[0] (op) ... (op) x[n-1]. NaN wins over every number in MAX and MIN. Complex kinds: SUM and PROD only. XOR: I64
   only. */
typedef void (*fac_fold_row_fn)(const void *x, int64_t n, void *acc);
/* acc[j] = acc[j] (op) x[i*ld + j] over i, for j < w. `ld` is in elements. */
typedef void (*fac_fold_col_fn)(const void *x, int64_t ld, int64_t rows, int64_t w, void *acc);

typedef struct fac_fold_fns {
    fac_fold_row_fn row;
    fac_fold_col_fn col;
} fac_fold_fns;
typedef fac_fold_fns fac_fold_table[FAC_FOLD_COUNT][FAC_ACC_COUNT];

extern const fac_fold_table fac__folds_default, fac__folds_avx2, fac__folds_avx512;
static inline fac_fold_fns fac__fold_get(fac_fold_op op, fac_acc k) { return FAC_ISA_PICK(fac__folds)[op][k]; }
/* What folds elements of dtype d as they become by `map`, which are no accumulators of kind k: NULL where there is none that needs no tile. */
FAC_ISA_DECLARE(fac_fold_fns, fac__fold_of, (fac_fold_op op, fac_acc k, fac_dtype d, fac_tile_map map));
/* The least and the largest of n >= 1 elements of dtype d, which is not complex, and of what is there already: accumulators of its kind. */
FAC_ISA_DECLARE(void, fac__extremes, (fac_dtype d, const void *x, int64_t n, fac_acc_value least_most[2]));
/* sums[r] = what the row fold of n floats at x + r * step gives, or of their squares, of `rows` rows side by side, n >= 1. */
FAC_ISA_DECLARE(void, fac__sum_rows_f32,
                (bool squares, const float *x, int64_t step, int64_t n, int64_t rows, float *sums));
/* out[r] = the maximum or minimum (op) of n >= 1 elements of dtype d, f32 or i32, at x + r * step. */
FAC_ISA_DECLARE(void, fac__best_rows,
                (fac_fold_op op, fac_dtype d, const void *x, int64_t step, int64_t n, int64_t rows, void *out));
/* The products of n >= 1 floats likewise. */
FAC_ISA_DECLARE(void, fac__prod_rows_f32, (const float *x, int64_t step, int64_t n, int64_t rows, float *out));
/* out[r] = the sum, product, maximum or minimum (op) of n doubles at x + r * step likewise; n is at least 1 for all but sums. */
FAC_ISA_DECLARE(void, fac__fold_short_rows_f64,
                (fac_fold_op op, const double *x, int64_t step, int64_t n, int64_t rows, double *out));
/* Sets n accumulators to the operation's identity. */
void fac__fold_identity(fac_fold_op op, fac_acc k, void *acc, int64_t n);

/* x[i] <- before + x[0] + ... + x[i]; returns the last. Eights are summed first, and so rounded otherwise than one by one: for
   results that are shorter than doubles. */
FAC_ISA_DECLARE(double, fac__prefix_sum_f64, (double *x, int64_t n, double before));
/* Two-pass moments of a run: the mean as a sum of two, the second of which it is rounded by, and the sum of squared differences from
   it. Differences of means of runs keep their digits so, where the means are large. */
FAC_ISA_DECLARE(void, fac__moments_f32, (const float *x, int64_t n, double mean[2], double *m2));
FAC_ISA_DECLARE(void, fac__moments_f64, (const double *x, int64_t n, double mean[2], double *m2));
/* The same for w <= FAC_MOMENTS_WIDTH neighbouring columns of a few rows. */
#define FAC_MOMENTS_WIDTH 128
FAC_ISA_DECLARE(void, fac__moments_strip_f32,
                (const float *x, int64_t ld, int64_t rows, int64_t w, float *restrict mean, float *restrict low,
                 float *restrict m2));
FAC_ISA_DECLARE(void, fac__moments_strip_f64,
                (const double *x, int64_t ld, int64_t rows, int64_t w, double *restrict mean, double *restrict low,
                 double *restrict m2));
/* Index of the first largest (sign +1) or smallest (-1) element, a NaN counting as more extreme than any number. */
FAC_ISA_DECLARE(int64_t, fac__argbest_f32, (const float *x, int64_t n, int sign));
FAC_ISA_DECLARE(int64_t, fac__argbest_f64, (const double *x, int64_t n, int sign));
/* The same of n >= 1 integers of dtype d; the element is returned as well. */
FAC_ISA_DECLARE(int64_t, fac__argbest_int, (fac_dtype d, const void *x, int64_t n, int sign, int64_t *best));
/* The same of `rows` rows of n floats, `step` apart, n >= 1; values may be NULL. Both results are dense. */
FAC_ISA_DECLARE(void, fac__argbest_rows_f32,
                (const float *x, int64_t step, int64_t n, int64_t rows, int sign, float *values, int64_t *indices));
/* Rows i to i + rows of n columns, `step` apart, against the best of those before them and their places. */
FAC_ISA_DECLARE(void, fac__argbest_columns_f32,
                (const float *x, int64_t step, int64_t rows, int64_t i, int64_t n, int sign, float *best, int64_t *at));
FAC_ISA_DECLARE(void, fac__argbest_columns_f64,
                (const double *x, int64_t step, int64_t rows, int64_t i, int64_t n, int sign, double *best,
                 int64_t *at));
FAC_ISA_DECLARE(void, fac__argbest_columns_i64,
                (const int64_t *x, int64_t step, int64_t rows, int64_t i, int64_t n, int sign, int64_t *best,
                 int64_t *at));

#endif
