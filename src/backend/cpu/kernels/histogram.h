/* The inner loop of histograms: where along equal bins numbers fall. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_HISTOGRAM_H
#define FAC_SRC_BACKEND_CPU_KERNELS_HISTOGRAM_H

#include "backend/cpu/cpu.h"

/* out[i] = the bin of x[i] among `bins` equal ones over [low, high], whose last one holds high; -1 outside and for NaN. Computed in
   the type of x: (x - low) * bins / (high - low), cut off. */
FAC_ISA_DECLARE(void, fac__bins_f32, (const float *x, int64_t n, float low, float high, int32_t bins, int32_t *out));
FAC_ISA_DECLARE(void, fac__bins_f64, (const double *x, int64_t n, double low, double high, int32_t bins, int32_t *out));

#endif
