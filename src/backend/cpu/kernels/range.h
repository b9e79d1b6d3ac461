/* Tiles of numbered contents. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_RANGE_H
#define FAC_SRC_BACKEND_CPU_KERNELS_RANGE_H

#include "backend/cpu/cpu.h"

/* v[i] = start + step * (first + i), of integers modulo 2^64. */
FAC_ISA_DECLARE(void, fac__arange_i64, (int64_t * v, int64_t first, int64_t n, int64_t start, int64_t step));
FAC_ISA_DECLARE(void, fac__arange_f64, (double *v, int64_t first, int64_t n, double start, double step));
/* Element first + i of `total`: start + step * at in the first half, and end - step * (total - 1 - at) in the second. */
FAC_ISA_DECLARE(void, fac__linspace_f64,
                (double *v, int64_t first, int64_t n, int64_t total, double start, double end, double step));
/* v[i] = base to the power of v[i]. */
FAC_ISA_DECLARE(void, fac__powers_f64, (double *v, int64_t n, double base));

#endif
