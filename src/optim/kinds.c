/* SGD, Adam, AdamW: their settings, and the fused operators that update a parameter. What kinds have in common. */
#include "core/handle.h"
#include "ops/optim.h"
#include "optim/kind.h"
#include <facula/ops.h>

/* ---- in common ------------------------------------------------------------------------------------------------------------- */

fac_status fac__optim_check_betas(double beta1, double beta2) {
    FAC_CHECK(beta1 >= 0 && beta1 < 1, FAC_ERR_ARGUMENT, "invalid beta1: %g should be in [0, 1)", beta1);
    FAC_CHECK(beta2 >= 0 && beta2 < 1, FAC_ERR_ARGUMENT, "invalid beta2: %g should be in [0, 1)", beta2);
    return FAC_OK;
}

fac_status fac__optim_check_floating(fac_tensor *parameter) {
    const fac_dtype d = fac_tensor_dtype(parameter);
    FAC_CHECK(fac_dtype_is_floating(d) && !fac_dtype_is_complex(d), FAC_ERR_DTYPE,
              "optimisers take floating parameters, not %s", fac_dtype_name(d));
    return FAC_OK;
}

fac_tensor *fac__optim_gradient(const fac_optimizer_update *u, bool maximize, double decay) {
    fac_tensor *g = maximize ? fac_neg(u->grad) : u->grad;
    return decay != 0 ? fac_add(g, u->parameter, .alpha = decay) : g;
}

void fac__optim_moments(fac_tensor *mean, fac_tensor *square, fac_tensor *grad, double beta1, double beta2) {
    (void)fac_lerp_(mean, grad, 1 - beta1);
    (void)fac_addcmul_(fac_mul_(square, beta2), grad, grad, .value = 1 - beta2);
}

double fac__optim_choice(const char *function, const char *keyword, const char *given, const char *const *choices) {
    fac_buf list = {0};
    fac_status st = FAC_OK;
    for (size_t i = 0; choices[i]; i++)
        if (given && strcmp(given, choices[i]) == 0) return (double)i;
    for (size_t i = 0; choices[i] && !st; i++) st = fac__buf_printf(&list, "%s\"%s\"", i ? ", " : "", choices[i]);
    if (!st)
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "%s: %s should be one of %s, not \"%s\"", function, keyword, list.data,
                       given ? given : "NULL");
    fac__buf_free(&list);
    return 0;
}

/* The fused operators take float32 and float64, and copies of halves. */
static fac_status check_fused(fac_tensor *parameter) {
    const fac_tensor *p = fac__header(parameter);
    return fac__is_half((fac_dtype)p->dtype) ? FAC_OK : fac__optim_check_parameter(p);
}

/* ---- SGD ------------------------------------------------------------------------------------------------------------------ */

#define SGD(X, Y) X(momentum, 0) X(dampening, 0) X(weight_decay, 0) X(nesterov, 0) X(maximize, 0)
FAC_KIND(sgd, 1e-3, SGD)

static size_t sgd_state_count(const double *values) {
    FAC_KIND_OPTIONS(sgd, v, values);
    return v->momentum != 0;
}

static fac_status check_sgd(const double *values) {
    FAC_KIND_OPTIONS(sgd, v, values);
    FAC_KIND_NOT_NEGATIVE(v, momentum);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    FAC_CHECK(v->nesterov == 0 || (v->momentum > 0 && v->dampening == 0), FAC_ERR_ARGUMENT,
              "Nesterov momentum requires a momentum and zero dampening");
    return FAC_OK;
}

static fac_status check_sgd_sparse(const double *values) {
    FAC_KIND_OPTIONS(sgd, v, values);
    FAC_CHECK(v->momentum == 0 && v->weight_decay == 0, FAC_ERR_UNSUPPORTED,
              "SGD takes sparse gradients without momentum and weight_decay; to_dense makes a gradient strided");
    return FAC_OK;
}

/* The step of a parameter whose gradient is sparse: only the rows that have elements change. */
static fac_status sgd_sparse_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(sgd, v, u->options);
    FAC_SCOPE(s);
    const fac_scalar step = fac_scalar_f_(v->maximize != 0 ? v->lr : -v->lr);
    return fac__s_add__Tensor(fac__header(u->parameter), fac__header(u->grad), step) ? FAC_OK : fac_error();
}

static fac_status sgd_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(sgd, v, u->options);
    if (FAC_UNLIKELY(fac__header(u->grad)->cls != NULL)) return sgd_sparse_step(u);
    fac_tensor *buffer = fac__header(u->state[0]);
    return fac__s__sgd_step_(fac__header(u->parameter), fac__header(u->grad), buffer, v->lr, v->weight_decay,
                             v->momentum, v->dampening, v->nesterov != 0, v->maximize != 0, !buffer || u->fresh);
}

const fac_optim_kind fac__sgd_kind = {.cls = {.own = &fac__sgd_kind,
                                              .name = "SGD",
                                              .options = sgd_list,
                                              .state = (const char *const[]){"momentum_buffer", NULL},
                                              .step = sgd_step,
                                              .check_options = check_sgd,
                                              .check_parameter = check_fused,
                                              .state_count = sgd_state_count},
                                      .check_sparse = check_sgd_sparse,
                                      .fused = true};

/* ---- Adam and AdamW --------------------------------------------------------------------------------------------------------- */

#define ADAM_OF(X, decay) X(beta1, 0.9) X(beta2, 0.999) X(eps, 1e-8) X(weight_decay, decay) X(amsgrad, 0) X(maximize, 0)
#define ADAM(X, Y) ADAM_OF(X, 0) X(decoupled_weight_decay, 0)
#define ADAMW(X, Y) ADAM_OF(X, 0.01)
FAC_KIND(adam, 1e-3, ADAM)
FAC_KIND(adamw, 1e-3, ADAMW) /* its settings are the first of Adam's */

static size_t adam_state_count(const double *values) {
    FAC_KIND_OPTIONS(adamw, v, values);
    return v->amsgrad != 0 ? 3 : 2;
}

static fac_status check_adam(const double *values) {
    FAC_KIND_OPTIONS(adamw, v, values);
    FAC_TRY(fac__optim_check_betas(v->beta1, v->beta2));
    FAC_CHECK(v->eps >= 0, FAC_ERR_ARGUMENT, "invalid epsilon value: %g", v->eps);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    return FAC_OK;
}

static fac_status adam_update(const fac_optimizer_update *u, bool decoupled) {
    FAC_KIND_OPTIONS(adamw, v, u->options);
    return fac__s__adam_step_(fac__header(u->parameter), fac__header(u->grad), fac__header(u->state[0]),
                              fac__header(u->state[1]), fac__header(u->state[2]), v->lr, v->beta1, v->beta2,
                              v->weight_decay, v->eps, u->step, decoupled, v->maximize != 0);
}

static fac_status adam_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(adam, v, u->options);
    return adam_update(u, v->decoupled_weight_decay != 0);
}
static fac_status adamw_step(const fac_optimizer_update *u) { return adam_update(u, true); }

#define ADAM_CLASS(title, kind)                                                                  \
    {                                                                                            \
        .cls = {.own = &fac__##kind##_kind,                                                      \
                .name = title,                                                                   \
                .options = kind##_list,                                                          \
                .state = (const char *const[]){"exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL}, \
                .step = kind##_step,                                                             \
                .check_options = check_adam,                                                     \
                .check_parameter = check_fused,                                                  \
                .state_count = adam_state_count},                                                \
        .fused = true                                                                            \
    }
const fac_optim_kind fac__adam_kind = ADAM_CLASS("Adam", adam);
const fac_optim_kind fac__adamw_kind = ADAM_CLASS("AdamW", adamw);
