/* Learning-rate schedules as objects: each sets the rates of an optimiser's groups, step by step. */
#ifndef FACULA_SCHEDULE_H
#define FACULA_SCHEDULE_H

#include <facula/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* A schedule over an optimiser, which must outlive it. Making one sets the rates for the first step of training; after
   each step of the optimiser, or each epoch, comes fac_lr_scheduler_step. Several over one optimiser multiply, as in
   PyTorch. The base rate of a group is its "initial_lr". The caller owns what the functions below make and frees it
   with fac_lr_scheduler_release; NULL on failure.
   last_epoch: -1 to begin; else the number that is counted on from, where the rates are as the optimiser has them. To
               go on from a checkpoint, make the schedule anew and load its state dict, and the optimiser's.
   errors:     ARGUMENT for settings that make no sense, and lists of another length than the number of groups */
typedef struct fac_lr_scheduler fac_lr_scheduler;

/* NULL is allowed. */
FAC_API void fac_lr_scheduler_release(fac_lr_scheduler *s);
/* The rates of the next step or epoch.
   errors: STATE if the optimiser has got another group since the schedule was made; ARGUMENT for a plateau schedule,
           which wants fac_lr_scheduler_step_metric, and if a rate would not be finite, or the schedule is at its end
           (one cycle); then no rate changes. A rate may become negative, as in PyTorch. */
FAC_API FAC_MUST fac_status fac_lr_scheduler_step(fac_lr_scheduler *s);
/* The same for fac_reduce_lr_on_plateau_new, with what is to fall or rise, such as the validation loss. */
FAC_API FAC_MUST fac_status fac_lr_scheduler_step_metric(fac_lr_scheduler *s, double metric);
/* The rates at an epoch, by the closed form where the schedule has one. Warm restarts take fractions of an epoch;
   others whole ones.
   errors: as fac_lr_scheduler_step; ARGUMENT for a negative epoch, or a fraction; UNSUPPORTED for chained, sequential
           and plateau schedules */
FAC_API FAC_MUST fac_status fac_lr_scheduler_step_to(fac_lr_scheduler *s, double epoch);
/* How many steps were taken, from 0; and the rate that the schedule set last for a group: 0 with an error pending if
   there is none such.
   errors: INDEX if there is no such group */
FAC_API int64_t fac_lr_scheduler_last_epoch(const fac_lr_scheduler *s);
FAC_API double fac_lr_scheduler_last_lr(const fac_lr_scheduler *s, size_t group);
/* All numbers of a schedule by name, "last_epoch" and "base_lrs" among them, those of the parts of chained and
   sequential ones as "0.last_epoch"; freed with fac_state_free. Loading takes what a schedule of the same kind over as
   many groups gave, settings included; the rates are the optimiser's, which has a state dict of its own. On an error
   nothing has changed.
   errors: NOT_FOUND, SHAPE, ARGUMENT for entries that are not there, too long, or senseless */
FAC_API fac_state *fac_lr_scheduler_state_dict(fac_lr_scheduler *s);
FAC_API FAC_MUST fac_status fac_lr_scheduler_load_state_dict(fac_lr_scheduler *s, const fac_state *state);

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* The base rate of each group times factor(context, group, step), or the last rate times it.
   source: torch.optim.lr_scheduler.LambdaLR, MultiplicativeLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_lambda_lr_new(fac_optimizer *o,
                                                     double (*factor)(void *context, size_t group, int64_t step),
                                                     void *context, const fac_lambda_lr_new_kw *kw);
FAC_API FAC_MUST fac_lr_scheduler *fac_multiplicative_lr_new(fac_optimizer *o,
                                                             double (*factor)(void *context, size_t group,
                                                                              int64_t step),
                                                             void *context, const fac_multiplicative_lr_new_kw *kw);
/* Times gamma every step_size steps. source: torch.optim.lr_scheduler.StepLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_step_lr_new(fac_optimizer *o, int64_t step_size, const fac_step_lr_new_kw *kw);
/* Times gamma at each milestone, twice at one that is given twice. source: torch.optim.lr_scheduler.MultiStepLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_multi_step_lr_new(fac_optimizer *o, fac_ints milestones,
                                                         const fac_multi_step_lr_new_kw *kw);
/* Times factor for total_iters steps. source: torch.optim.lr_scheduler.ConstantLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_constant_lr_new(fac_optimizer *o, const fac_constant_lr_new_kw *kw);
/* Times a factor that goes from start_factor to end_factor in total_iters steps.
   source: torch.optim.lr_scheduler.LinearLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_linear_lr_new(fac_optimizer *o, const fac_linear_lr_new_kw *kw);
/* Times gamma at each step. source: torch.optim.lr_scheduler.ExponentialLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_exponential_lr_new(fac_optimizer *o, double gamma,
                                                          const fac_exponential_lr_new_kw *kw);
/* (1 - step / total_iters)^power, down to 0. source: torch.optim.lr_scheduler.PolynomialLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_polynomial_lr_new(fac_optimizer *o, const fac_polynomial_lr_new_kw *kw);
/* Half a cosine from the base rate to eta_min in T_max steps, and up again.
   source: Loshchilov, Hutter 2017; torch.optim.lr_scheduler.CosineAnnealingLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_cosine_annealing_lr_new(fac_optimizer *o, int64_t T_max,
                                                               const fac_cosine_annealing_lr_new_kw *kw);
/* Half a cosine down in T_0 steps, then from the base rate again in T_mult times as many, and so on.
   source: Loshchilov, Hutter 2017; torch.optim.lr_scheduler.CosineAnnealingWarmRestarts */
FAC_API FAC_MUST fac_lr_scheduler *fac_cosine_annealing_warm_restarts_new(
    fac_optimizer *o, int64_t T_0, const fac_cosine_annealing_warm_restarts_new_kw *kw);
/* A factor of the height of a cycle, at its number (from 1) or, with .scale_mode = "iterations", at the step. */
typedef struct fac_scale_fn {
    double (*fn)(void *context, double x);
    void *context;
} fac_scale_fn;
/* From base_lr to max_lr in step_size_up steps and down again in step_size_down, over and over; the height stays
   (mode "triangular"), halves with each cycle ("triangular2"), or is times gamma^step ("exp_range"). Momentum, or
   beta1, goes the other way unless cycle_momentum is false. base_lrs and max_lrs are rates for each group; scale_fn, in
   place of a mode, must outlive the schedule.
   errors: ARGUMENT also if the optimiser has neither momentum nor beta1 to cycle
   source: Smith 2017; torch.optim.lr_scheduler.CyclicLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_cyclic_lr_new(fac_optimizer *o, double base_lr, double max_lr,
                                                     const fac_cyclic_lr_new_kw *kw);
/* From max_lr / div_factor up to max_lr in pct_start of total_steps (or epochs times steps_per_epoch), then down to
   the begin over final_div_factor, by "cos" or "linear"; with three_phase down to the begin first. Momentum, or beta1,
   goes the other way unless cycle_momentum is false. max_lrs are rates for each group.
   source: Smith, Topin 2018; torch.optim.lr_scheduler.OneCycleLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_one_cycle_lr_new(fac_optimizer *o, double max_lr,
                                                        const fac_one_cycle_lr_new_kw *kw);
/* Times factor once a metric has not fallen (mode "min") or risen ("max") by threshold, relative ("rel") or not
   ("abs"), for more than patience steps; cooldown steps then count as good. min_lrs are rates for each group.
   source: torch.optim.lr_scheduler.ReduceLROnPlateau */
FAC_API FAC_MUST fac_lr_scheduler *fac_reduce_lr_on_plateau_new(fac_optimizer *o,
                                                                const fac_reduce_lr_on_plateau_new_kw *kw);
/* From the present rate to swa_lr in anneal_epochs steps, by "cos" or "linear". swa_lrs are rates for each group.
   source: Izmailov et al. 2018; torch.optim.swa_utils.SWALR */
FAC_API FAC_MUST fac_lr_scheduler *fac_swa_lr_new(fac_optimizer *o, double swa_lr, const fac_swa_lr_new_kw *kw);

/* ---- schedules of schedules -------------------------------------------------------------------------------------- */

/* A borrowed list of schedules. */
typedef struct fac_lr_schedulers {
    fac_lr_scheduler *const *v;
    size_t n;
} fac_lr_schedulers;
#ifndef __cplusplus
/* FAC_SCHEDULERS(fac_linear_lr_new(o), fac_exponential_lr_new(o, 0.9)). Lives as long as the enclosing block. */
#define FAC_SCHEDULERS(...)                                        \
    ((fac_lr_schedulers){(fac_lr_scheduler *const[]){__VA_ARGS__}, \
                         sizeof((fac_lr_scheduler *const[]){__VA_ARGS__}) / sizeof(fac_lr_scheduler *)})
#endif
/* All of them at each step, in order. Takes over the schedules, also when it fails; a NULL entry is an earlier failure.
   errors: ARGUMENT for none, for those of other optimisers or given twice, and for plateau schedules
   source: torch.optim.lr_scheduler.ChainedScheduler */
FAC_API FAC_MUST fac_lr_scheduler *fac_chained_scheduler_new(fac_lr_schedulers schedulers);
/* The first up to milestones[0], the second, from its own beginning, up to milestones[1], and so on; otherwise as
   fac_chained_scheduler_new.
   errors: ARGUMENT also unless there is one milestone less than there are schedules
   source: torch.optim.lr_scheduler.SequentialLR */
FAC_API FAC_MUST fac_lr_scheduler *fac_sequential_lr_new(fac_optimizer *o, fac_lr_schedulers schedulers,
                                                         fac_ints milestones, const fac_sequential_lr_new_kw *kw);

#ifdef __cplusplus
}
/* A list of schedules. Lives until the end of the statement. */
struct fac_lr_scheduler_list : fac_lr_schedulers {
    fac_lr_scheduler_list(std::initializer_list<fac_lr_scheduler *> l) : fac_lr_schedulers{l.begin(), l.size()} {}
};
#define FAC_SCHEDULERS(...) (fac_lr_scheduler_list{__VA_ARGS__})
#endif
#include <facula/schedule_macros.h>
#endif
