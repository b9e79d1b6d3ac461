/* Fused optimiser steps on the CPU: checks, then fixed chunks over the flat memory of parameter and buffers. */
#include "backend/cpu/kernels/optim.h"
#include "backend/cpu/parallel.h"
#include "ops/optim.h"
#include "ops_gen.h"
#include <math.h>

struct sgd_work {
    fac_sgd_step s;
    fac_tensor *p, *g, *buf;
};

static fac_status sgd_range(void *ctx, int64_t begin, int64_t end) {
    const struct sgd_work *w = ctx;
    const int64_t n = end - begin;
    if (w->p->dtype == FAC_F32) {
        float *buf = w->buf ? (float *)fac__data(w->buf) + begin : NULL;
        FAC_ISA_PICK(fac__sgd_f32)
        ((float *)fac__data(w->p) + begin, (const float *)fac__data(w->g) + begin, buf, n, &w->s);
    } else {
        double *buf = w->buf ? (double *)fac__data(w->buf) + begin : NULL;
        FAC_ISA_PICK(fac__sgd_f64)
        ((double *)fac__data(w->p) + begin, (const double *)fac__data(w->g) + begin, buf, n, &w->s);
    }
    return FAC_OK;
}

fac_status fused_sgd_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor *momentum_buffer,
                         double lr, double weight_decay, double momentum, double dampening, bool nesterov,
                         bool maximize, bool first) {
    (void)c;
    FAC_TRY(fac__optim_check_parameter(self));
    FAC_TRY(fac__optim_check_twin(self, grad, "grad"));
    FAC_TRY(fac__optim_check_twin(self, momentum_buffer, "momentum_buffer"));
    struct sgd_work w = {
        {lr, weight_decay, momentum, dampening, maximize ? -1 : 1, nesterov, first}, self, grad, momentum_buffer};
    return fac__parallel_for(0, self->numel, FAC_GRAIN, sgd_range, &w);
}

struct adam_work {
    fac_adam_step s;
    fac_tensor *p, *g, *m, *v, *max;
};

static fac_status adam_range(void *ctx, int64_t begin, int64_t end) {
    const struct adam_work *w = ctx;
    const int64_t n = end - begin;
    if (w->p->dtype == FAC_F32) {
        float *max = w->max ? (float *)fac__data(w->max) + begin : NULL;
        FAC_ISA_PICK(fac__adam_f32)
        ((float *)fac__data(w->p) + begin, (const float *)fac__data(w->g) + begin, (float *)fac__data(w->m) + begin,
         (float *)fac__data(w->v) + begin, max, n, &w->s);
    } else {
        double *max = w->max ? (double *)fac__data(w->max) + begin : NULL;
        FAC_ISA_PICK(fac__adam_f64)
        ((double *)fac__data(w->p) + begin, (const double *)fac__data(w->g) + begin, (double *)fac__data(w->m) + begin,
         (double *)fac__data(w->v) + begin, max, n, &w->s);
    }
    return FAC_OK;
}

fac_status fused_adamw_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor *exp_avg,
                           fac_tensor *exp_avg_sq, fac_tensor *max_exp_avg_sq, double lr, double beta1, double beta2,
                           double weight_decay, double eps, int64_t step, bool decoupled, bool maximize) {
    (void)c;
    FAC_CHECK(step >= 1, FAC_ERR_ARGUMENT, "step counts from 1, but is %lld", (long long)step);
    FAC_TRY(fac__optim_check_parameter(self));
    FAC_TRY(fac__optim_check_twin(self, grad, "grad"));
    FAC_TRY(fac__optim_check_twin(self, exp_avg, "exp_avg"));
    FAC_TRY(fac__optim_check_twin(self, exp_avg_sq, "exp_avg_sq"));
    FAC_TRY(fac__optim_check_twin(self, max_exp_avg_sq, "max_exp_avg_sq"));
    struct adam_work w = {{lr, beta1, beta2, weight_decay, eps, maximize ? -1 : 1, 1 - pow(beta1, (double)step),
                           sqrt(1 - pow(beta2, (double)step)), decoupled},
                          self,
                          grad,
                          exp_avg,
                          exp_avg_sq,
                          max_exp_avg_sq};
    return fac__parallel_for(0, self->numel, FAC_GRAIN, adam_range, &w);
}
