/* Inner loops of running folds. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SCAN_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SCAN_H

#include "backend/cpu/cpu.h"
#include "iter/reduction.h"

/* out[i] = before + x[0] + ... + x[i], wrapping; x may be out. Returns the last. */
FAC_ISA_DECLARE(int64_t, fac__prefix_sum_i64, (const int64_t *x, int64_t *out, int64_t n, int64_t before));
/* Running extremes of up to FAC_SCAN_LINES lines of n floats, and their places: the latest of equals, a NaN once met until a later one. Lines
   follow each other x_line, out_line and at_line elements apart. */
#define FAC_SCAN_LINES 4
FAC_ISA_DECLARE(void, fac__extreme_lines_f32,
                (int lines, bool larger, const float *x, int64_t x_line, float *out, int64_t out_line, int64_t *at,
                 int64_t at_line, int64_t n));
/* FAC_SCAN_WIDE lines of doubles or int64 (kind); `at` is for extremes; out may be x. Sums of doubles are exact over blocks. */
typedef enum scan_op { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, SCAN_LOGSUMEXP } scan_op;
#define FAC_SCAN_WIDE 8
FAC_ISA_DECLARE(void, fac__scan_lines,
                (scan_op op, fac_acc kind, const void *x, int64_t x_line, void *out, int64_t out_line, int64_t *at,
                 int64_t at_line, int64_t n));
/* Rows of elements of w lines, the first of them the lines' i-th, become the extremes so far, with the places in `at`. */
FAC_ISA_DECLARE(void, fac__scan_extremes,
                (scan_op op, fac_acc kind, void *best, int64_t *where, void *x, int64_t *at, int64_t w, int64_t rows,
                 int64_t i));
/* The same of sums and products, of doubles and int64; acc has those so far. */
FAC_ISA_DECLARE(void, fac__scan_rows, (scan_op op, fac_acc kind, void *acc, void *x, int64_t w, int64_t rows));
/* Elements that are summed from 0 and added to the exact sum of those before: sums as long as what they are summed in. */
#define FAC_SCAN_BLOCK 64
/* x[i] becomes the logarithm of the sum of the exponentials of a finite `before` and x up to i; false, and nothing is done, if an x is
   larger by more than 16. For results that are narrower than double: one near zero has lost the digits of its terms. */
FAC_ISA_DECLARE(bool, fac__prefix_log_sum_f64, (double *x, int64_t n, double before));

#endif
