/* Inner loops of batch norm over points: rows of n channels of f32 or bf16, one value per channel, computed in f32 and rounded once. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_NORM_POINTS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_NORM_POINTS_H

#include "backend/cpu/cpu.h"

/* y = x p + r. */
FAC_ISA_DECLARE(void, fac__points_scale,
                (bool bf16, const void *x, const float *p, const float *r, void *y, int64_t points, int64_t n));
/* dx = dy p + x q + r. */
FAC_ISA_DECLARE(void, fac__points_blend,
                (bool bf16, const void *dy, const void *x, const float *p, const float *q, const float *r, void *dx,
                 int64_t points, int64_t n));
/* dot += dy (x - mean), sum += dy, point by point. */
FAC_ISA_DECLARE(void, fac__points_sums,
                (bool bf16, const void *dy, const void *x, const float *mean, float *dot, float *sum, int64_t points,
                 int64_t n));

#endif
