/* Inner loops of the fused optimiser steps: n contiguous elements, read and written once each. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_OPTIM_H
#define FAC_SRC_BACKEND_CPU_KERNELS_OPTIM_H

#include "backend/cpu/cpu.h"

typedef struct fac_sgd_step {
    double lr, weight_decay, momentum, dampening, sign; /* sign -1: maximise */
    bool nesterov, first;
} fac_sgd_step;

typedef struct fac_adam_step {
    double lr, beta1, beta2, weight_decay, eps, sign;
    double correction1, correction2_sqrt; /* 1 - beta1^t, sqrt(1 - beta2^t) */
    bool decoupled;
} fac_adam_step;

typedef struct fac_adagrad_step {
    double lr, weight_decay, eps, sign;
} fac_adagrad_step;

/* buf is NULL without momentum; max is NULL without amsgrad. */
FAC_ISA_DECLARE(void, fac__sgd_f32, (float *p, const float *g, float *buf, int64_t n, const fac_sgd_step *s));
FAC_ISA_DECLARE(void, fac__sgd_f64, (double *p, const double *g, double *buf, int64_t n, const fac_sgd_step *s));
FAC_ISA_DECLARE(void, fac__adam_f32,
                (float *p, const float *g, float *m, float *v, float *max, int64_t n, const fac_adam_step *s));
FAC_ISA_DECLARE(void, fac__adam_f64,
                (double *p, const double *g, double *m, double *v, double *max, int64_t n, const fac_adam_step *s));
FAC_ISA_DECLARE(void, fac__adagrad_f32, (float *p, const float *g, float *sum, int64_t n, const fac_adagrad_step *s));
FAC_ISA_DECLARE(void, fac__adagrad_f64,
                (double *p, const double *g, double *sum, int64_t n, const fac_adagrad_step *s));
/* g[i] /= scale */
FAC_ISA_DECLARE(void, fac__unscale_f32, (float *g, int64_t n, float scale));
FAC_ISA_DECLARE(void, fac__unscale_f64, (double *g, int64_t n, double scale));
/* g[i] *= factor; true if some g[i] was infinite or not a number before. */
FAC_ISA_DECLARE(bool, fac__scale_and_test_f32, (float *g, int64_t n, float factor));
FAC_ISA_DECLARE(bool, fac__scale_and_test_f64, (double *g, int64_t n, double factor));

#endif
