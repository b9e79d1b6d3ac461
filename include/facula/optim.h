/* Optimisers and learning-rate schedules. */
#ifndef FACULA_OPTIM_H
#define FACULA_OPTIM_H

#include <facula/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stochastic gradient descent over the parameters of a module. The optimiser holds references; the caller owns the
   result and releases it with fac_optimizer_release. NULL on failure.
   errors: ARGUMENT for negative rates, or nesterov without momentum or with dampening
   source: Sutskever et al. 2013; torch.optim.SGD */
FAC_API FAC_MUST fac_optimizer *fac_sgd_new(fac_module *m, double lr, const fac_sgd_new_kw *kw);

/* Adam with decoupled weight decay. source: Loshchilov, Hutter 2019; torch.optim.AdamW */
FAC_API FAC_MUST fac_optimizer *fac_adamw_new(fac_module *m, double lr, const fac_adamw_new_kw *kw);
/* Adam, weight decay added to the gradient. source: Kingma, Ba 2015; torch.optim.Adam */
FAC_API FAC_MUST fac_optimizer *fac_adam_new(fac_module *m, double lr, const fac_adam_new_kw *kw);

/* NULL is allowed. */
FAC_API void fac_optimizer_release(fac_optimizer *o);
/* Adds another group of parameters with a learning rate and weight decay of its own (decay < 0: the optimiser's). A tensor
   that is already in a group is an error. */
FAC_API FAC_MUST fac_status fac_optimizer_add_group(fac_optimizer *o, fac_tensors parameters, double lr,
                                                    double weight_decay);
/* Updates every parameter that has a gradient, in place, without recording. A pending error is returned and nothing is
   changed. */
FAC_API FAC_MUST fac_status fac_optimizer_step(fac_optimizer *o);
/* Drops all gradients. A pending error does not stop it. */
FAC_API void fac_optimizer_zero_grad(fac_optimizer *o);
/* Learning rate of the first group that was not made at rate 0, and setting it: the rates of all groups keep the ratios in
   which they were made, so that a group made at rate 0 stays there. Where all were made at 0, all get the new rate.
   errors: ARGUMENT if lr is negative or not a number; then no rate changes */
FAC_API double fac_optimizer_lr(const fac_optimizer *o);
FAC_API void fac_optimizer_set_lr(fac_optimizer *o, double lr);
/* All parameters, in order; borrowed while no group is added. */
FAC_API fac_tensors fac_optimizer_parameters(fac_optimizer *o);
/* Step counts and moments as tensors named "0.exp_avg", ..., and per group its settings ("param_groups.0.lr") and the places of
   its parameters ("param_groups.0.params"); freed with fac_state_free. Loading takes what a state dict of the same kind of
   optimiser over parameters of the same shapes in the same groups gave, settings included; on an error in it nothing has
   changed. A state without settings, as version 0.1 wrote them, leaves those of the optimiser. */
FAC_API fac_state *fac_optimizer_state_dict(fac_optimizer *o);
FAC_API FAC_MUST fac_status fac_optimizer_load_state_dict(fac_optimizer *o, const fac_state *s);

/* Learning rate at a step: linear warm-up from 0 to `peak` over `warmup` steps, then half a cosine down to `floor` at
   `total`, then `floor`. Negative steps count as 0. */
typedef struct fac_cosine_schedule {
    double peak, floor;
    int64_t warmup, total;
} fac_cosine_schedule;
FAC_API double fac_cosine_lr(const fac_cosine_schedule *s, int64_t step);

#ifdef __cplusplus
}
#else
#include <facula/optim_macros.h>
#endif
#endif
