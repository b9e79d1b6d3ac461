/* Inner loops of a matrix of compressed rows times a dense one. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SPMM_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SPMM_H

#include "backend/cpu/cpu.h"

/* Row i of out, n wide, = the sum over k in [begin[i], begin[i + 1]) of values[k] times row columns[k] of dense, in order; for i in
   [first, last). */
FAC_ISA_DECLARE(void, fac__spmm_f32,
                (const int64_t *begin, const int64_t *columns, const float *values, const float *dense, int64_t n,
                 float *out, int64_t first, int64_t last));
FAC_ISA_DECLARE(void, fac__spmm_f64,
                (const int64_t *begin, const int64_t *columns, const double *values, const double *dense, int64_t n,
                 double *out, int64_t first, int64_t last));
/* Whether one of n indices is not in [0, size). */
FAC_ISA_DECLARE(bool, fac__some_beyond, (const int64_t *index, int64_t n, int64_t size));

#endif
