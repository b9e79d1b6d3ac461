/* Fused optimiser steps: parameter and buffers have one layout and are walked as flat memory. A step that is queued behind an
   index out of range leaves them as they are. */
#include "ops/optim.h"
#include "backend/cuda/kernels/steps.h"
#include "backend/cuda/ops/run.h"
#include "ops_gen.h"

#include <math.h>

extern fac_cuda_kernel FAC_CUDA_KERNEL(optim_sgd_f32), FAC_CUDA_KERNEL(optim_sgd_f64), FAC_CUDA_KERNEL(optim_adam_f32),
    FAC_CUDA_KERNEL(optim_adam_f64);

fac_status fused_sgd_cuda(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor *momentum_buffer,
                          double lr, double weight_decay, double momentum, double dampening, bool nesterov,
                          bool maximize, bool first) {
    FAC_TRY(fac__optim_check_parameter(self));
    FAC_TRY(fac__optim_check_twin(self, grad, "grad"));
    FAC_TRY(fac__optim_check_twin(self, momentum_buffer, "momentum_buffer"));
    if (self->numel == 0) return FAC_OK;
    k_sgd s = {lr, weight_decay, momentum, dampening, maximize ? -1 : 1, nesterov, first};
    void *p = fac__data(self), *g = fac__data(grad), *buffer = momentum_buffer ? fac__data(momentum_buffer) : NULL;
    int64_t n = self->numel;
    k_bounds bounds = {.dim = 0};
    fac_cuda_run r = {.kernel =
                          self->dtype == FAC_F64 ? &FAC_CUDA_KERNEL(optim_sgd_f64) : &FAC_CUDA_KERNEL(optim_sgd_f32),
                      .device = fac__cuda_index(self),
                      .op = c->op,
                      .bounds = &bounds};
    fac__cuda_updates(&r, self);
    fac__cuda_reads(&r, grad);
    fac__cuda_updates(&r, momentum_buffer);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&p, &g, &buffer, &n, &s, &bounds), n);
}

fac_status fused_adamw_cuda(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor *exp_avg,
                            fac_tensor *exp_avg_sq, fac_tensor *max_exp_avg_sq, double lr, double beta1, double beta2,
                            double weight_decay, double eps, int64_t step, bool decoupled, bool maximize) {
    FAC_CHECK(step >= 1, FAC_ERR_ARGUMENT, "step counts from 1, but is %lld", (long long)step);
    FAC_TRY(fac__optim_check_parameter(self));
    FAC_TRY(fac__optim_check_twin(self, grad, "grad"));
    FAC_TRY(fac__optim_check_twin(self, exp_avg, "exp_avg"));
    FAC_TRY(fac__optim_check_twin(self, exp_avg_sq, "exp_avg_sq"));
    FAC_TRY(fac__optim_check_twin(self, max_exp_avg_sq, "max_exp_avg_sq"));
    if (self->numel == 0) return FAC_OK;
    k_adam s = {lr,
                beta1,
                beta2,
                weight_decay,
                eps,
                maximize ? -1 : 1,
                1 - pow(beta1, (double)step),
                sqrt(1 - pow(beta2, (double)step)),
                decoupled};
    void *p = fac__data(self), *g = fac__data(grad), *m = fac__data(exp_avg), *v = fac__data(exp_avg_sq);
    void *largest = max_exp_avg_sq ? fac__data(max_exp_avg_sq) : NULL;
    int64_t n = self->numel;
    k_bounds bounds = {.dim = 0};
    fac_cuda_run r = {.kernel =
                          self->dtype == FAC_F64 ? &FAC_CUDA_KERNEL(optim_adam_f64) : &FAC_CUDA_KERNEL(optim_adam_f32),
                      .device = fac__cuda_index(self),
                      .op = c->op,
                      .bounds = &bounds};
    fac__cuda_reads(&r, grad);
    fac_tensor *const changed[] = {self, exp_avg, exp_avg_sq, max_exp_avg_sq};
    for (size_t i = 0; i < FAC_COUNT(changed); i++) fac__cuda_updates(&r, changed[i]);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&p, &g, &m, &v, &largest, &n, &s, &bounds), n);
}
