/* Kinds that measure each element's gradient by earlier ones: RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam. Made of public
   operators, in the order in which PyTorch computes. */
#include "core/handle.h"
#include "optim/kind.h"
#include "optim/sparse.h"
#include <facula/ops.h>
#include <math.h>

/* ---- RMSprop --------------------------------------------------------------------------------------------------------------- */

#define RMSPROP(X, Y) X(alpha, 0.99) X(eps, 1e-8) X(weight_decay, 0) X(momentum, 0) X(centered, 0) X(maximize, 0)
FAC_KIND(rmsprop, 1e-2, RMSPROP)
enum { SQUARE_AVG, MOMENTUM_BUFFER, GRAD_AVG };

static fac_status check_rmsprop(const double *values) {
    FAC_KIND_OPTIONS(rmsprop, v, values);
    FAC_KIND_NOT_NEGATIVE(v, alpha);
    FAC_KIND_NOT_NEGATIVE(v, eps);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    FAC_KIND_NOT_NEGATIVE(v, momentum);
    return FAC_OK;
}

static bool rmsprop_keeps(const double *values, size_t i, fac_optim_form *form) {
    FAC_KIND_OPTIONS(rmsprop, v, values);
    (void)form;
    return i == SQUARE_AVG || (i == MOMENTUM_BUFFER ? v->momentum > 0 : v->centered != 0);
}

/* The root of the mean of squares, or of the variance. */
static fac_tensor *spread(const rmsprop_options *v, const fac_optimizer_update *u, fac_tensor *g) {
    fac_tensor *square = u->state[SQUARE_AVG], *mean = u->state[GRAD_AVG];
    (void)fac_addcmul_(fac_mul_(square, v->alpha), g, g, .value = 1 - v->alpha);
    if (v->centered == 0) return fac_sqrt(square);
    (void)fac_lerp_(mean, g, 1 - v->alpha);
    return fac_sqrt_(fac_addcmul(square, mean, mean, .value = -1));
}

static fac_status rmsprop_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(rmsprop, v, u->options);
    fac_tensor *g = fac__optim_gradient(u, v->maximize != 0, v->weight_decay), *buffer = u->state[MOMENTUM_BUFFER];
    fac_tensor *root = fac_add_(spread(v, u, g), v->eps);
    if (v->momentum > 0)
        (void)fac_add_(u->parameter, fac_addcdiv_(fac_mul_(buffer, v->momentum), g, root), .alpha = -v->lr);
    else
        (void)fac_addcdiv_(u->parameter, g, root, .value = -v->lr);
    return fac_error();
}

const fac_optim_kind fac__rmsprop_kind = {
    .cls = {.own = &fac__rmsprop_kind,
            .name = "RMSprop",
            .options = rmsprop_list,
            .state = (const char *const[]){"square_avg", "momentum_buffer", "grad_avg", NULL},
            .step = rmsprop_step,
            .check_options = check_rmsprop,
            .check_parameter = fac__optim_check_floating},
    .keeps = rmsprop_keeps};

/* ---- Adagrad --------------------------------------------------------------------------------------------------------------- */

#define ADAGRAD(X, Y) X(lr_decay, 0) X(weight_decay, 0) X(initial_accumulator_value, 0) X(eps, 1e-10) X(maximize, 0)
FAC_KIND(adagrad, 1e-2, ADAGRAD)

static fac_status check_adagrad(const double *values) {
    FAC_KIND_OPTIONS(adagrad, v, values);
    FAC_KIND_NOT_NEGATIVE(v, lr_decay);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    FAC_KIND_NOT_NEGATIVE(v, initial_accumulator_value);
    FAC_KIND_NOT_NEGATIVE(v, eps);
    return FAC_OK;
}

static fac_status check_adagrad_sparse(const double *values) {
    FAC_KIND_OPTIONS(adagrad, v, values);
    FAC_CHECK(v->weight_decay == 0, FAC_ERR_UNSUPPORTED,
              "Adagrad takes sparse gradients without weight_decay; to_dense makes a gradient strided");
    return FAC_OK;
}

static void adagrad_sparse_step(const fac_optimizer_update *u, double sign, double rate, double eps) {
    const fac_sparse_rows r = fac__sparse_rows(u->grad);
    fac_tensor *sum = u->state[0];
    (void)fac_add_(sum, fac__sparse_like(&r, fac_mul(r.values, r.values)));
    fac_tensor *root = fac_add_(fac_sqrt_(fac__sparse_values(&r, sum)), eps);
    (void)fac_add_(u->parameter, fac__sparse_like(&r, fac_div(r.values, root)), .alpha = -sign * rate);
}

static fac_status adagrad_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(adagrad, v, u->options);
    const double rate = v->lr / (1 + (double)(u->step - 1) * v->lr_decay);
    fac_tensor *sum = u->state[0];
    if (u->fresh && v->initial_accumulator_value != 0) (void)fac_fill_(sum, v->initial_accumulator_value);
    if (fac__header(u->grad)->cls) {
        adagrad_sparse_step(u, v->maximize != 0 ? -1 : 1, rate, v->eps);
        return fac_error();
    }
    fac_tensor *g = fac__optim_gradient(u, v->maximize != 0, v->weight_decay);
    (void)fac_addcmul_(sum, g, g);
    (void)fac_addcdiv_(u->parameter, g, fac_add_(fac_sqrt(sum), v->eps), .value = -rate);
    return fac_error();
}

const fac_optim_kind fac__adagrad_kind = {.cls = {.own = &fac__adagrad_kind,
                                                  .name = "Adagrad",
                                                  .options = adagrad_list,
                                                  .state = (const char *const[]){"sum", NULL},
                                                  .step = adagrad_step,
                                                  .check_options = check_adagrad,
                                                  .check_parameter = fac__optim_check_floating},
                                          .check_sparse = check_adagrad_sparse,
                                          .fused = true};

/* ---- Adadelta -------------------------------------------------------------------------------------------------------------- */

#define ADADELTA(X, Y) X(rho, 0.9) X(eps, 1e-6) X(weight_decay, 0) X(maximize, 0)
FAC_KIND(adadelta, 1.0, ADADELTA)

static fac_status check_adadelta(const double *values) {
    FAC_KIND_OPTIONS(adadelta, v, values);
    FAC_CHECK(v->rho >= 0 && v->rho <= 1, FAC_ERR_ARGUMENT, "invalid rho value: %g should be in [0, 1]", v->rho);
    FAC_KIND_NOT_NEGATIVE(v, eps);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    return FAC_OK;
}

static fac_status adadelta_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(adadelta, v, u->options);
    fac_tensor *g = fac__optim_gradient(u, v->maximize != 0, v->weight_decay), *square = u->state[0],
               *deltas = u->state[1];
    (void)fac_addcmul_(fac_mul_(square, v->rho), g, g, .value = 1 - v->rho);
    fac_tensor *root = fac_sqrt_(fac_add(square, v->eps));
    fac_tensor *delta = fac_mul_(fac_div_(fac_sqrt_(fac_add(deltas, v->eps)), root), g);
    (void)fac_addcmul_(fac_mul_(deltas, v->rho), delta, delta, .value = 1 - v->rho);
    (void)fac_add_(u->parameter, delta, .alpha = -v->lr);
    return fac_error();
}

const fac_optim_kind fac__adadelta_kind = {.cls = {.own = &fac__adadelta_kind,
                                                   .name = "Adadelta",
                                                   .options = adadelta_list,
                                                   .state = (const char *const[]){"square_avg", "acc_delta", NULL},
                                                   .step = adadelta_step,
                                                   .check_options = check_adadelta,
                                                   .check_parameter = fac__optim_check_floating}};

/* ---- Adamax ---------------------------------------------------------------------------------------------------------------- */

#define ADAMAX(X, Y) X(beta1, 0.9) X(beta2, 0.999) X(eps, 1e-8) X(weight_decay, 0) X(maximize, 0)
FAC_KIND(adamax, 2e-3, ADAMAX)

/* Of all whose settings begin as Adamax's do. */
static fac_status check_adamax(const double *values) {
    FAC_KIND_OPTIONS(adamax, v, values);
    FAC_TRY(fac__optim_check_betas(v->beta1, v->beta2));
    FAC_KIND_NOT_NEGATIVE(v, eps);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    return FAC_OK;
}

static fac_status adamax_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(adamax, v, u->options);
    fac_tensor *g = fac__optim_gradient(u, v->maximize != 0, v->weight_decay), *mean = u->state[0], *most = u->state[1];
    (void)fac_lerp_(mean, g, 1 - v->beta1);
    (void)fac_maximum_out(most, fac_mul_(most, v->beta2), fac_add_(fac_abs(g), v->eps));
    (void)fac_addcdiv_(u->parameter, mean, most, .value = -v->lr / (1 - pow(v->beta1, (double)u->step)));
    return fac_error();
}

const fac_optim_kind fac__adamax_kind = {.cls = {.own = &fac__adamax_kind,
                                                 .name = "Adamax",
                                                 .options = adamax_list,
                                                 .state = (const char *const[]){"exp_avg", "exp_inf", NULL},
                                                 .step = adamax_step,
                                                 .check_options = check_adamax,
                                                 .check_parameter = fac__optim_check_floating}};

/* ---- NAdam and RAdam ------------------------------------------------------------------------------------------------------- */

/* The gradient with its decay, or none if that is decoupled: then the parameter has shrunk. */
static fac_tensor *decayed(const fac_optimizer_update *u, bool maximize, double decay, bool decoupled, double rate) {
    if (decay != 0 && decoupled) (void)fac_mul_(u->parameter, 1 - rate * decay);
    return fac__optim_gradient(u, maximize, decoupled ? 0 : decay);
}

#define NADAM(X, Y) \
    X(beta1, 0.9)   \
    X(beta2, 0.999) X(eps, 1e-8) X(weight_decay, 0) X(momentum_decay, 4e-3) X(decoupled_weight_decay, 0) X(maximize, 0)
FAC_KIND(nadam, 2e-3, NADAM)
enum { EXP_AVG, EXP_AVG_SQ, MU_PRODUCT };

static fac_status check_nadam(const double *values) {
    FAC_KIND_OPTIONS(nadam, v, values);
    FAC_TRY(check_adamax(values));
    FAC_KIND_NOT_NEGATIVE(v, momentum_decay);
    return FAC_OK;
}

/* The momentum of a step, which grows to beta1. */
static double nadam_mu(const nadam_options *v, double step) {
    return v->beta1 * (1.0 - 0.5 * pow(0.96, step * v->momentum_decay));
}

static fac_status nadam_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(nadam, v, u->options);
    fac_tensor *mean = u->state[EXP_AVG], *square = u->state[EXP_AVG_SQ];
    const double step = (double)u->step, mu = nadam_mu(v, step), next = nadam_mu(v, step + 1);
    fac_tensor *g = decayed(u, v->maximize != 0, v->weight_decay, v->decoupled_weight_decay != 0, v->lr);
    double *product = fac__optim_number(u, MU_PRODUCT);
    if (fac_error()) return fac_error();
    *product = (fac__optim_fresh(u, MU_PRODUCT) ? 1 : *product) * mu;
    fac__optim_moments(mean, square, g, v->beta1, v->beta2);
    fac_tensor *root = fac_add_(fac_sqrt_(fac_div(square, 1 - pow(v->beta2, step))), v->eps);
    (void)fac_addcdiv_(u->parameter, g, root, .value = -v->lr * (1 - mu) / (1 - *product));
    (void)fac_addcdiv_(u->parameter, mean, root, .value = -v->lr * next / (1 - *product * next));
    return fac_error();
}

const fac_optim_kind fac__nadam_kind = {
    .cls = {.own = &fac__nadam_kind,
            .name = "NAdam",
            .options = nadam_list,
            .state = (const char *const[]){"exp_avg", "exp_avg_sq", "mu_product", NULL},
            .step = nadam_step,
            .check_options = check_nadam,
            .check_parameter = fac__optim_check_floating},
    .numbers = 1u << MU_PRODUCT};

#define RADAM(X, Y) \
    X(beta1, 0.9) X(beta2, 0.999) X(eps, 1e-8) X(weight_decay, 0) X(decoupled_weight_decay, 0) X(maximize, 0)
FAC_KIND(radam, 1e-3, RADAM)

static fac_status radam_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(radam, v, u->options);
    const double step = (double)u->step, left1 = 1 - pow(v->beta1, step), power2 = pow(v->beta2, step),
                 left2 = 1 - power2;
    const double most = 2 / (1 - v->beta2) - 1, length = most - 2 * step * power2 / left2; /* squares that are known */
    fac_tensor *g = decayed(u, v->maximize != 0, v->weight_decay, v->decoupled_weight_decay != 0, v->lr);
    fac__optim_moments(u->state[EXP_AVG], u->state[EXP_AVG_SQ], g, v->beta1, v->beta2);
    if (length <= 5) {
        (void)fac_add_(u->parameter, u->state[EXP_AVG], .alpha = -v->lr / left1);
        return fac_error();
    }
    const double rect = sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
    fac_tensor *root = fac_add_(fac_sqrt(u->state[EXP_AVG_SQ]), v->eps);
    (void)fac_addcdiv_(u->parameter, u->state[EXP_AVG], root, .value = -v->lr / left1 * sqrt(left2) * rect);
    return fac_error();
}

const fac_optim_kind fac__radam_kind = {.cls = {.own = &fac__radam_kind,
                                                .name = "RAdam",
                                                .options = radam_list,
                                                .state = (const char *const[]){"exp_avg", "exp_avg_sq", NULL},
                                                .step = radam_step,
                                                .check_options = check_adamax,
                                                .check_parameter = fac__optim_check_floating}};
