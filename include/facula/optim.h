/* Optimisers over groups of parameters, and kinds of one's own. Schedules of their rates are in facula/schedule.h. */
#ifndef FACULA_OPTIM_H
#define FACULA_OPTIM_H

#include <facula/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* A setting of a group of parameters, by name: {"lr", 0.1}, {"weight_decay", 0}. A flag is 1 or 0. */
typedef struct fac_option {
    const char *name;
    double value;
} fac_option;
/* A borrowed list of settings. */
typedef struct fac_options {
    const fac_option *v;
    size_t n;
} fac_options;
FAC_INLINE_ fac_options fac_options_of(const fac_option *v, size_t n) {
    fac_options l = {v, n};
    return l;
}
#ifndef __cplusplus
/* A list of settings: FAC_OPTIONS({"lr", 0.1}, {"momentum", 0.9}); empty is legal. Lives as long as the enclosing
   block. */
#define FAC_OPTIONS(...)                                             \
    ((fac_options){(const fac_option[]){{NULL, 0}, __VA_ARGS__} + 1, \
                   sizeof((const fac_option[]){{NULL, 0}, __VA_ARGS__}) / sizeof(fac_option) - 1})
#endif

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* Stochastic gradient descent over the parameters of a module (_new), or of a list (_of). The optimiser holds
   references; the caller owns the result and releases it with fac_optimizer_release. NULL on failure.
   settings: lr, momentum, dampening, weight_decay, nesterov, maximize
   errors:   ARGUMENT for negative rates, nesterov without momentum or with dampening, a tensor that is given twice, and
             no tensors at all; AUTOGRAD for a tensor that is no leaf
   source:   Sutskever et al. 2013; torch.optim.SGD */
FAC_API FAC_MUST fac_optimizer *fac_sgd_new(fac_module *m, double lr, const fac_sgd_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_sgd_of(fac_tensors parameters, double lr, const fac_sgd_of_kw *kw);

/* Adam with decoupled weight decay.
   settings: lr, beta1, beta2, eps, weight_decay, amsgrad, maximize
   errors:   as fac_sgd_new; ARGUMENT for betas outside [0, 1) and a negative eps
   source:   Loshchilov, Hutter 2019; torch.optim.AdamW */
FAC_API FAC_MUST fac_optimizer *fac_adamw_new(fac_module *m, double lr, const fac_adamw_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_adamw_of(fac_tensors parameters, double lr, const fac_adamw_of_kw *kw);
/* Adam, weight decay added to the gradient unless it is decoupled.
   settings: as of fac_adamw_new, and decoupled_weight_decay
   errors:   as fac_adamw_new
   source:   Kingma, Ba 2015; torch.optim.Adam */
FAC_API FAC_MUST fac_optimizer *fac_adam_new(fac_module *m, double lr, const fac_adam_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_adam_of(fac_tensors parameters, double lr, const fac_adam_of_kw *kw);

/* Parameters of float16 and bfloat16 have gradients and state of that dtype, as in PyTorch. SGD, Adam, AdamW and
   Adagrad step them in float32 copies and round what comes out once, as PyTorch's fused steps do; the other kinds round
   after every operation, as PyTorch does there. Small steps are lost in the rounding, unless there are master weights
   (fac_optimizer_use_master_weights). A step that finds no memory for its temporaries leaves the parameters before that
   one updated. */

/* Each gradient over the root of a running mean of its squares, or, centered, of their variance.
   settings: lr, alpha, eps, weight_decay, momentum, centered, maximize
   errors:   as fac_sgd_new; ARGUMENT for a negative setting
   source:   Hinton 2012, lecture 6; torch.optim.RMSprop */
FAC_API FAC_MUST fac_optimizer *fac_rmsprop_new(fac_module *m, double lr, const fac_rmsprop_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_rmsprop_of(fac_tensors parameters, double lr, const fac_rmsprop_of_kw *kw);
/* Each gradient over the root of the sum of its squares. Takes sparse gradients too, without weight_decay.
   settings: lr, lr_decay, weight_decay, initial_accumulator_value, eps, maximize
   errors:   as fac_sgd_new; ARGUMENT for a negative setting
   source:   Duchi, Hazan, Singer 2011; torch.optim.Adagrad */
FAC_API FAC_MUST fac_optimizer *fac_adagrad_new(fac_module *m, double lr, const fac_adagrad_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_adagrad_of(fac_tensors parameters, double lr, const fac_adagrad_of_kw *kw);
/* Steps in units of earlier steps.
   settings: lr, rho, eps, weight_decay, maximize
   errors:   as fac_sgd_new; ARGUMENT for a rho outside [0, 1], and a negative eps or weight_decay
   source:   Zeiler 2012; torch.optim.Adadelta */
FAC_API FAC_MUST fac_optimizer *fac_adadelta_new(fac_module *m, double lr, const fac_adadelta_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_adadelta_of(fac_tensors parameters, double lr, const fac_adadelta_of_kw *kw);
/* Adam in the infinity norm.
   settings: lr, beta1, beta2, eps, weight_decay, maximize
   errors:   as fac_adamw_new
   source:   Kingma, Ba 2015; torch.optim.Adamax */
FAC_API FAC_MUST fac_optimizer *fac_adamax_new(fac_module *m, double lr, const fac_adamax_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_adamax_of(fac_tensors parameters, double lr, const fac_adamax_of_kw *kw);
/* Adam with Nesterov's momentum.
   settings: lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay, maximize
   errors:   as fac_adamw_new; ARGUMENT for a negative momentum_decay
   source:   Dozat 2016; torch.optim.NAdam */
FAC_API FAC_MUST fac_optimizer *fac_nadam_new(fac_module *m, double lr, const fac_nadam_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_nadam_of(fac_tensors parameters, double lr, const fac_nadam_of_kw *kw);
/* Adam whose first steps are smaller, while few squares are known.
   settings: lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay, maximize
   errors:   as fac_adamw_new
   source:   Liu et al. 2020; torch.optim.RAdam */
FAC_API FAC_MUST fac_optimizer *fac_radam_new(fac_module *m, double lr, const fac_radam_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_radam_of(fac_tensors parameters, double lr, const fac_radam_of_kw *kw);
/* Steps by the sign of the gradient, each element with a length of its own, which is lr at first, grows by etaplus
   while the sign stays and shrinks by etaminus when it changes.
   settings: lr, etaminus, etaplus, step_size_min, step_size_max, maximize
   errors:   as fac_sgd_new; ARGUMENT unless 0 < etaminus < 1 < etaplus
   source:   Riedmiller, Braun 1993; torch.optim.Rprop */
FAC_API FAC_MUST fac_optimizer *fac_rprop_new(fac_module *m, double lr, const fac_rprop_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_rprop_of(fac_tensors parameters, double lr, const fac_rprop_of_kw *kw);
/* SGD with falling rates that keeps, as "ax" in its state dict, the mean of the parameters from step t0 on.
   settings: lr, lambd, alpha, t0, weight_decay, maximize
   errors:   as fac_sgd_new; ARGUMENT for a negative lambd, alpha or weight_decay
   source:   Polyak, Juditsky 1992; torch.optim.ASGD */
FAC_API FAC_MUST fac_optimizer *fac_asgd_new(fac_module *m, double lr, const fac_asgd_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_asgd_of(fac_tensors parameters, double lr, const fac_asgd_of_kw *kw);
/* Adam for parameters whose gradients are sparse: only the rows that have elements change, and their means.
   settings: lr, beta1, beta2, eps, maximize
   errors:   as fac_adamw_new; ARGUMENT for a rate or eps of 0; UNSUPPORTED, at a step, for a gradient that is strided
   source:   torch.optim.SparseAdam */
FAC_API FAC_MUST fac_optimizer *fac_sparse_adam_new(fac_module *m, double lr, const fac_sparse_adam_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_sparse_adam_of(fac_tensors parameters, double lr, const fac_sparse_adam_of_kw *kw);
/* Adam without first moments, whose second ones are, for matrices, the product of a column and a row. eps1 that is not
   given is the smallest difference from 1 that the parameter's dtype has; as a setting it is -1 then.
   settings: lr, beta2_decay, eps1, eps2, d, weight_decay, maximize
   errors:   as fac_sgd_new; ARGUMENT for a positive beta2_decay, a negative eps or weight_decay, and a d below 1
   source:   Shazeer, Stern 2018; torch.optim.Adafactor */
FAC_API FAC_MUST fac_optimizer *fac_adafactor_new(fac_module *m, double lr, const fac_adafactor_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_adafactor_of(fac_tensors parameters, double lr, const fac_adafactor_of_kw *kw);
/* SGD with momentum whose steps are made orthogonal, in bfloat16, by ns_steps iterations with the coefficients ns_a,
   ns_b and ns_c. For matrices; other parameters want another optimiser. adjust_lr_fn is "original", "match_rms_adamw"
   or "spectral_unclamped", as a setting 0, 1 or 2.
   settings: lr, weight_decay, momentum, nesterov, ns_a, ns_b, ns_c, eps, ns_steps, adjust_lr_fn
   errors:   as fac_sgd_new; ARGUMENT for a negative momentum or weight_decay, ns_steps from 100 on and another
             adjust_lr_fn; SHAPE for a parameter that is no matrix
   source:   Jordan 2024; torch.optim.Muon */
FAC_API FAC_MUST fac_optimizer *fac_muon_new(fac_module *m, double lr, const fac_muon_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_muon_of(fac_tensors parameters, double lr, const fac_muon_of_kw *kw);
/* Newton's method with the curvature of the last history_size steps. It evaluates the loss several times: a step is
   fac_optimizer_step_closure. One group; line_search_fn is NULL or "strong_wolfe", as a setting 0 or 1; a max_eval that
   is not given is max_iter * 5 / 4. A step that fails leaves the parameters where it came to.
   settings: lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, line_search_fn, maximize
   errors:   as fac_sgd_new; ARGUMENT for a history_size below 1, and another line_search_fn; UNSUPPORTED for a
             second group, and for fac_optimizer_step
   source:   Nocedal, Wright 2006, ch. 3 and 7; torch.optim.LBFGS */
FAC_API FAC_MUST fac_optimizer *fac_lbfgs_new(fac_module *m, double lr, const fac_lbfgs_new_kw *kw);
FAC_API FAC_MUST fac_optimizer *fac_lbfgs_of(fac_tensors parameters, double lr, const fac_lbfgs_of_kw *kw);

/* ---- a kind of one's own ----------------------------------------------------------------------------------------- */

/* How many settings a class may have, and how many tensors for each parameter. */
#define FAC_OPTIMIZER_MAX_OPTIONS 16
#define FAC_OPTIMIZER_MAX_STATE 8

/* One parameter in a step. All is borrowed for the time of the call. */
typedef struct fac_optimizer_update {
    fac_tensor *parameter;
    fac_tensor *grad; /* of the parameter's sizes, strides and dtype; not to be changed */
    fac_tensor *const
        *state; /* the tensors of the class in its order, laid out as the parameter; NULL: its group keeps none */
    const double *options; /* settings of its group, in the order of the class */
    int64_t step;          /* how many steps the parameter has taken with this one */
    unsigned fresh;        /* bit i: state[i] was made for this step, and is zero */
} fac_optimizer_update;

/* A kind of optimiser; SGD, Adam and AdamW are classes of this type too. Static: it must outlive its optimisers. */
typedef struct fac_optimizer_class {
    const char *name; /* "Lion" */
    const fac_option
        *options; /* settings and their defaults, "lr" first, a NULL name last; at most FAC_OPTIMIZER_MAX_OPTIONS */
    const char *const
        *state; /* names of the tensors that are kept for each parameter, such as "exp_avg", as they stand in the
                                  state dict, NULL last; NULL: none; at most FAC_OPTIMIZER_MAX_STATE */
    /* Updates one parameter in place. Called without recording, in a scope of its own, after all parameters of the step
       were checked and the tensors for them were made. What it finds wrong only now leaves other parameters updated. */
    fac_status (*step)(const fac_optimizer_update *u);
    /* Refuses settings that make no sense, whenever some are given or loaded; NULL: any number will do. A rate is never
       negative, and nothing is NaN; a rate that a schedule has made is not asked about, and 1 stands in its place. */
    fac_status (*check_options)(const double *options);
    /* Refuses a parameter that cannot be updated, before any is; NULL: none is refused. */
    fac_status (*check_parameter)(fac_tensor *parameter);
    /* How many of the tensors, from the first on, a group with these settings keeps; NULL: all. */
    size_t (*state_count)(const double *options);
    /* What only the library's own classes have; NULL. */
    const struct fac_optim_kind *own;
} fac_optimizer_class;

/* An optimiser of a class over the parameters of a module (_new), or of a list (_of); settings that are not given have
   the class's defaults. The caller owns the result, which holds references. NULL on failure.
   errors: as fac_sgd_new; ARGUMENT also for a class that is incomplete, and settings that it does not have */
FAC_API FAC_MUST fac_optimizer *fac_optimizer_new(const fac_optimizer_class *cls, fac_module *m, fac_options options);
FAC_API FAC_MUST fac_optimizer *fac_optimizer_of(const fac_optimizer_class *cls, fac_tensors parameters,
                                                 fac_options options);
FAC_API const fac_optimizer_class *fac_optimizer_class_of(const fac_optimizer *o);

/* ---- stepping ---------------------------------------------------------------------------------------------------- */

/* NULL is allowed. */
FAC_API void fac_optimizer_release(fac_optimizer *o);
/* Updates every parameter that has a gradient, in place, without recording. A pending error is returned and nothing is
   changed. */
FAC_API FAC_MUST fac_status fac_optimizer_step(fac_optimizer *o);
/* Calls closure, which computes the loss anew - it drops the gradients, runs the model, calls fac_backward and returns
   the loss, or NULL with an error - and then takes a step; LBFGS calls it as often as it needs. Where out_loss points,
   what it returned first is written; NULL is allowed.
   source: torch.optim.Optimizer.step(closure) */
FAC_API FAC_MUST fac_status fac_optimizer_step_closure(fac_optimizer *o, fac_tensor *(*closure)(void *context),
                                                       void *context, double *out_loss);
/* Keeps from the next step on a float32 copy of every parameter of float16 or bfloat16: steps are computed there, with
   gradients and state in float32 too, and the parameter gets the rounded copy. State dicts have it as "0.master".
   What else writes into such a parameter is overwritten by the next step, unless a state is loaded.
   errors: STATE if the optimiser has taken a step without; UNSUPPORTED for LBFGS */
FAC_API FAC_MUST fac_status fac_optimizer_use_master_weights(fac_optimizer *o);
/* Drops all gradients. A pending error does not stop it. */
FAC_API void fac_optimizer_zero_grad(fac_optimizer *o);
/* All parameters, in order; borrowed while no group is added. */
FAC_API fac_tensors fac_optimizer_parameters(fac_optimizer *o);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Adds a group of parameters with settings of its own: fac_optimizer_add_group(o, FAC_TENSORS(b), FAC_OPTIONS({"lr",
   0.01})). Those that are not given are as the optimiser was made with. On an error nothing has changed.
   errors: ARGUMENT for a tensor that is in a group already, a setting that the optimiser does not have, or one that
           makes no sense
   source: torch.optim.Optimizer.add_param_group */
FAC_API FAC_MUST fac_status fac_optimizer_add_group(fac_optimizer *o, fac_tensors parameters, fac_options options);
/* fac_optimizer_add_group with all parameters of a module: fac_optimizer_add_module(o, head, FAC_OPTIONS({"lr",
   0.01})).
   errors: ARGUMENT also for a module without parameters */
FAC_API FAC_MUST fac_status fac_optimizer_add_module(fac_optimizer *o, fac_module *m, fac_options options);
/* Number of groups; the first has number 0. */
FAC_API size_t fac_optimizer_group_count(const fac_optimizer *o);
/* Parameters of a group, in order; borrowed while no group is added. */
FAC_API fac_tensors fac_optimizer_group(fac_optimizer *o, size_t group);
/* A setting of a group (0 with an error pending if there is none such), and another value for it. "lr" is the rate,
   "initial_lr" the one that schedules begin from: the rate that the group was made with.
   errors: INDEX if there is no such group; NOT_FOUND if there is no such setting; ARGUMENT if the value makes no sense:
           then nothing changes */
FAC_API double fac_optimizer_option(const fac_optimizer *o, size_t group, const char *name);
FAC_API FAC_MUST fac_status fac_optimizer_set_option(fac_optimizer *o, size_t group, const char *name, double value);

/* ---- rates and schedules ----------------------------------------------------------------------------------------- */

/* Learning rate of the first group that was not made at rate 0 (0 with an error pending if o is NULL), and setting it:
   the rates of all groups keep the ratios in which they were made, so that a group made at rate 0 stays there. Where
   all were made at 0, all get the new rate.
   errors: ARGUMENT if lr is negative or not a number; then no rate changes */
FAC_API double fac_optimizer_lr(const fac_optimizer *o);
FAC_API void fac_optimizer_set_lr(fac_optimizer *o, double lr);
/* Sets the rate of every group to its "initial_lr" times `factor`, or times factor(context, group, step).
   errors: ARGUMENT if a factor is negative or not a number; then no rate changes
   source: torch.optim.lr_scheduler.LambdaLR */
FAC_API FAC_MUST fac_status fac_optimizer_scale_lr(fac_optimizer *o, double factor);
FAC_API FAC_MUST fac_status fac_optimizer_lambda_lr(fac_optimizer *o,
                                                    double (*factor)(void *context, size_t group, int64_t step),
                                                    void *context, int64_t step);
/* Learning rate at a step, or a factor of it if the peak is 1: linear warm-up from 0 to `peak` over `warmup` steps,
   then half a cosine down to `floor` at `total`, then `floor`. Negative steps count as 0. */
typedef struct fac_cosine_schedule {
    double peak, floor;
    int64_t warmup, total;
} fac_cosine_schedule;
FAC_API double fac_cosine_lr(const fac_cosine_schedule *s, int64_t step);

/* ---- averages of parameters -------------------------------------------------------------------------------------- */

/* What the average of a parameter becomes when `current` is added to n_averaged earlier ones; NULL with an error. */
typedef struct fac_average_fn {
    fac_tensor *(*fn)(void *context, fac_tensor *averaged, fac_tensor *current, int64_t n_averaged);
    void *context;
} fac_average_fn;
/* A module around a copy of m, "module", whose parameters are the mean of those that fac_averaged_model_update has
   seen, or with .ema_decay = d an exponential one, d old + (1 - d) new, or what .avg_fn says, which must outlive it.
   Buffers are averaged likewise with .use_buffers = true, else they are the last ones. "n_averaged" is a buffer; it is
   called, saved, loaded and moved as every module is. The caller owns the result; NULL on failure.
   errors: ARGUMENT for a decay outside [0, 1], and one beside an avg_fn; as fac_module_copy
   source: Izmailov et al. 2018; torch.optim.swa_utils.AveragedModel */
FAC_API FAC_MUST fac_module *fac_averaged_model_new(fac_module *m, const fac_averaged_model_new_kw *kw);
/* Adds the parameters of m, which are as those that the averaged model was made of.
   errors: ARGUMENT if `averaged` is no averaged model, or m has other parameters or buffers; SHAPE, when nothing has
           changed */
FAC_API FAC_MUST fac_status fac_averaged_model_update(fac_module *averaged, fac_module *m);
/* Computes the running statistics of all batch normalisations of m anew, as means over all inputs that `next` returns,
   until it returns NULL without an error; m runs on each, in training mode, without recording.
   source: torch.optim.swa_utils.update_bn */
FAC_API FAC_MUST fac_status fac_update_bn(fac_module *m, fac_tensor *(*next)(void *context), void *context);

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* Step counts and the tensors of the class as "0.step", "0.exp_avg", ..., and per group its settings
   ("param_groups.0.lr") and the places of its parameters ("param_groups.0.params"); freed with fac_state_free. Loading
   takes what a state dict of the same kind of optimiser over parameters of the same shapes in the same groups gave,
   settings included; on an error in it nothing has changed. A state without settings, as version 0.1 wrote them, leaves
   those of the optimiser. */
FAC_API fac_state *fac_optimizer_state_dict(fac_optimizer *o);
FAC_API FAC_MUST fac_status fac_optimizer_load_state_dict(fac_optimizer *o, const fac_state *s);

#ifdef __cplusplus
}
#include <initializer_list>
/* A list of settings: FAC_OPTIONS({"lr", 0.1}, {"momentum", 0.9}). Lives until the end of the statement. */
struct fac_option_list : fac_options {
    fac_option_list(std::initializer_list<fac_option> l) : fac_options{l.begin(), l.size()} {}
};
#define FAC_OPTIONS(...) (fac_option_list{__VA_ARGS__})
#endif
#include <facula/optim_macros.h>
#endif
