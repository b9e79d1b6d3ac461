/* Inner loops of the margin losses. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_MARGIN_H
#define FAC_SRC_BACKEND_CPU_KERNELS_MARGIN_H

#include "backend/cpu/cpu.h"

/* The sum of z over n elements, or of its square, where z = shift + x[i] is positive. */
FAC_ISA_DECLARE(double, fac__hinge_sum, (const double *x, int64_t n, double shift, bool square));
/* dx[i] += scale where z is positive, or 2 z times it for the square; returns the sum of what was added. */
FAC_ISA_DECLARE(double, fac__hinge_slopes,
                (const double *x, int64_t n, double shift, bool square, double scale, double *dx));

/* Whether one of n targets is less than `least`, or not less than `classes`. */
FAC_ISA_DECLARE(bool, fac__some_outside, (const int64_t *t, int64_t n, int64_t least, int64_t classes));

#endif
