/* Softmax along lines: one line in a row of memory, or a strip of lines side by side. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SOFTMAX_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SOFTMAX_H

#include "backend/cpu/cpu.h"

typedef enum fac_softmax_form { FAC_SOFTMAX, FAC_LOG_SOFTMAX } fac_softmax_form;

/* y = softmax(x) or its logarithm, over n elements; x == y is allowed. */
FAC_ISA_DECLARE(void, fac__softmax_row_f32, (fac_softmax_form form, const float *x, float *y, int64_t n));
FAC_ISA_DECLARE(void, fac__softmax_row_f64, (fac_softmax_form form, const double *x, double *y, int64_t n));
/* The same of `rows` rows, x_row and y_row floats from one to the next: for short ones. */
FAC_ISA_DECLARE(void, fac__softmax_rows_f32,
                (fac_softmax_form form, const float *x, int64_t x_row, float *y, int64_t y_row, int64_t n,
                 int64_t rows));
/* dx from dy and y = softmax(x) or its logarithm; dx may be dy. */
FAC_ISA_DECLARE(void, fac__softmax_back_row_f32,
                (fac_softmax_form form, const float *dy, const float *y, float *dx, int64_t n));
FAC_ISA_DECLARE(void, fac__softmax_back_row_f64,
                (fac_softmax_form form, const double *dy, const double *y, double *dx, int64_t n));
/* The same in two steps: the sum that all elements of a row need, and the gradient with it; dx may be dy. */
FAC_ISA_DECLARE(float, fac__softmax_back_sum_f32, (fac_softmax_form form, const float *dy, const float *y, int64_t n));
FAC_ISA_DECLARE(void, fac__softmax_back_rest_f32,
                (fac_softmax_form form, const float *dy, const float *y, float s, float *dx, int64_t n));
/* log(sum(exp(x))) of n elements; -inf for none. */
FAC_ISA_DECLARE(float, fac__logsumexp_row_f32, (const float *x, int64_t n));
FAC_ISA_DECLARE(double, fac__logsumexp_row_f64, (const double *x, int64_t n));
/* Of rows x_row elements apart, the results of which are `step` apart. */
FAC_ISA_DECLARE(void, fac__logsumexp_rows_f32,
                (const float *x, int64_t x_row, int64_t n, int64_t rows, float *out, int64_t step));
/* The two terms of the same, maximum and log(sum(exp(x - maximum))): their sum, rounded, has lost the digits of the second where
   the first is large. */
FAC_ISA_DECLARE(void, fac__logsumexp_terms_f32, (const float *x, int64_t n, float out[2]));
FAC_ISA_DECLARE(void, fac__logsumexp_terms_f64, (const double *x, int64_t n, double out[2]));

/* The same of FAC_SUMS_F32 (FAC_SUMS_F64) lines side by side: element i of line j at x[i * ld + j]. */
#define FAC_SUMS_F32 64
#define FAC_SUMS_F64 32
FAC_ISA_DECLARE(void, fac__logsumexp_strip_f32, (const float *x, int64_t ld, int64_t n, float *out));
FAC_ISA_DECLARE(void, fac__logsumexp_strip_f64, (const double *x, int64_t ld, int64_t n, double *out));

/* y = softmax(x), all 0 where each x is -inf; x == y is allowed. Returns log(sum(exp(x))). */
FAC_ISA_DECLARE(float, fac__softmax_total_f32, (const float *x, float *y, int64_t n));
FAC_ISA_DECLARE(double, fac__softmax_total_f64, (const double *x, double *y, int64_t n));
/* y = exp(x - total); x == y is allowed. Returns whether `total` is the log-sum-exp of x itself, as far as its rounding lets one
   tell; then y is softmax(x), without the error of that rounding. It is not where x is a part of a longer line. */
FAC_ISA_DECLARE(bool, fac__softmax_of_total_f32, (const float *x, float total, float *y, int64_t n));
FAC_ISA_DECLARE(bool, fac__softmax_of_total_f64, (const double *x, double total, double *y, int64_t n));

/* x = x * scale + add, of NULL nothing is added. */
FAC_ISA_DECLARE(void, fac__scale_add_row_f32, (float *x, float scale, const float *add, int64_t n));

/* y = exp(x - shift) * scale; x == y is allowed. */
FAC_ISA_DECLARE(void, fac__exp_row_f32, (const float *x, float shift, float scale, float *y, int64_t n));
FAC_ISA_DECLARE(void, fac__exp_row_f64, (const double *x, double shift, double scale, double *y, int64_t n));

/* Strips hold `width` lines side by side, FAC_STRIP or the least of the kind: element i of line j at x[i * width + j]. In place. */
#define FAC_STRIP 32
#define FAC_STRIP_LEAST_F32 16
#define FAC_STRIP_LEAST_F64 8
FAC_ISA_DECLARE(void, fac__softmax_strip_f32, (fac_softmax_form form, float *x, int64_t n, int64_t width));
FAC_ISA_DECLARE(void, fac__softmax_strip_f64, (fac_softmax_form form, double *x, int64_t n, int64_t width));
FAC_ISA_DECLARE(void, fac__softmax_back_strip_f32,
                (fac_softmax_form form, float *dy, const float *y, int64_t n, int64_t width));
FAC_ISA_DECLARE(void, fac__softmax_back_strip_f64,
                (fac_softmax_form form, double *dy, const double *y, int64_t n, int64_t width));

#endif
