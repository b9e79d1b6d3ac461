/* Inner loops of running folds. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SCAN_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SCAN_H

#include "backend/cpu/cpu.h"

/* out[i] = before + x[0] + ... + x[i], wrapping; x may be out. Returns the last. */
FAC_ISA_DECLARE(int64_t, fac__prefix_sum_i64, (const int64_t *x, int64_t *out, int64_t n, int64_t before));
/* Running extremes of FAC_SCAN_LINES lines of n floats, and their places: the latest of equals, a NaN once met until a later one. Lines
   follow each other x_line, out_line and at_line elements apart. */
#define FAC_SCAN_LINES 4
FAC_ISA_DECLARE(void, fac__extreme_lines_f32,
                (bool larger, const float *x, int64_t x_line, float *out, int64_t out_line, int64_t *at,
                 int64_t at_line, int64_t n));
/* The same of FAC_SCAN_LINES_F64 lines of doubles. */
#define FAC_SCAN_LINES_F64 8
FAC_ISA_DECLARE(void, fac__extreme_lines_f64,
                (bool larger, const double *x, int64_t x_line, double *out, int64_t out_line, int64_t *at,
                 int64_t at_line, int64_t n));

#endif
