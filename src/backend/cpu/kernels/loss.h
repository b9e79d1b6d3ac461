/* Elementwise losses and their gradients over a tile of n elements. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_LOSS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_LOSS_H

#include "backend/cpu/cpu.h"

typedef enum fac_loss { FAC_LOSS_SQUARE, FAC_LOSS_SMOOTH, FAC_LOSS_HUBER, FAC_LOSS_BINARY } fac_loss;

/* y = loss(x, t); p is beta or delta. */
FAC_ISA_DECLARE(void, fac__loss_f32, (fac_loss l, const float *x, const float *t, double p, float *y, int64_t n));
FAC_ISA_DECLARE(void, fac__loss_f64, (fac_loss l, const double *x, const double *t, double p, double *y, int64_t n));
/* y = d loss / dx times scale times g. */
FAC_ISA_DECLARE(void, fac__loss_back_f32,
                (fac_loss l, const float *g, const float *x, const float *t, double p, double scale, float *y,
                 int64_t n));
FAC_ISA_DECLARE(void, fac__loss_back_f64,
                (fac_loss l, const double *g, const double *x, const double *t, double p, double scale, double *y,
                 int64_t n));

#endif
