/* SGD, Adam, AdamW: their settings, and the fused operators that update a parameter. */
#include "core/handle.h"
#include "keywords_gen.h"
#include "ops/optim.h"
#include "ops_gen.h"
#include "optim/optimizer.h"

/* The fused operators take float32 and float64. */
static fac_status check_fused(fac_tensor *parameter) { return fac__optim_check_parameter(fac__header(parameter)); }

/* ---- SGD ------------------------------------------------------------------------------------------------------------------ */

enum { SGD_LR, SGD_MOMENTUM, SGD_DAMPENING, SGD_DECAY, SGD_NESTEROV, SGD_MAXIMIZE };
static const fac_option sgd_options[] = {{"lr", 1e-3},    {"momentum", 0}, {"dampening", 0}, {"weight_decay", 0},
                                         {"nesterov", 0}, {"maximize", 0}, {NULL, 0}};
#define SGD_VALUES(k) \
    (const double[]) { lr, (k).momentum, (k).dampening, (k).weight_decay, (k).nesterov, (k).maximize }

static size_t sgd_state_count(const double *v) { return v[SGD_MOMENTUM] != 0; }

static fac_status check_sgd(const double *v) {
    FAC_CHECK(v[SGD_MOMENTUM] >= 0, FAC_ERR_ARGUMENT, "invalid momentum value: %g", v[SGD_MOMENTUM]);
    FAC_CHECK(v[SGD_DECAY] >= 0, FAC_ERR_ARGUMENT, "invalid weight_decay value: %g", v[SGD_DECAY]);
    FAC_CHECK(v[SGD_NESTEROV] == 0 || (v[SGD_MOMENTUM] > 0 && v[SGD_DAMPENING] == 0), FAC_ERR_ARGUMENT,
              "Nesterov momentum requires a momentum and zero dampening");
    return FAC_OK;
}

/* The step of a parameter whose gradient is sparse: only the rows that have elements change. */
static fac_status sgd_sparse_step(const fac_optimizer_update *u) {
    const double *v = u->options;
    FAC_SCOPE(s);
    const fac_scalar step = fac_scalar_f_(v[SGD_MAXIMIZE] != 0 ? v[SGD_LR] : -v[SGD_LR]);
    return fac__s_add__Tensor(fac__header(u->parameter), fac__header(u->grad), step) ? FAC_OK : fac_error();
}

static fac_status sgd_step(const fac_optimizer_update *u) {
    const double *v = u->options;
    if (FAC_UNLIKELY(fac__header(u->grad)->cls != NULL)) return sgd_sparse_step(u);
    fac_tensor *buffer = fac__header(u->state[0]);
    return fac__s__sgd_step_(fac__header(u->parameter), fac__header(u->grad), buffer, v[SGD_LR], v[SGD_DECAY],
                             v[SGD_MOMENTUM], v[SGD_DAMPENING], v[SGD_NESTEROV] != 0, v[SGD_MAXIMIZE] != 0,
                             !buffer || u->fresh);
}

static const fac_optimizer_class sgd_class = {.name = "SGD",
                                              .options = sgd_options,
                                              .state = (const char *const[]){"momentum_buffer", NULL},
                                              .step = sgd_step,
                                              .check_options = check_sgd,
                                              .check_parameter = check_fused,
                                              .state_count = sgd_state_count};

fac_optimizer *(fac_sgd_new)(fac_module *m, double lr, const fac_sgd_new_kw *kw) {
    fac_sgd_new_kw k;
    return fac_error() || fac__open_sgd_new_kw(&k, kw) ? NULL : fac__optim_new(&sgd_class, m, SGD_VALUES(k));
}

fac_optimizer *(fac_sgd_of)(fac_tensors parameters, double lr, const fac_sgd_of_kw *kw) {
    fac_sgd_of_kw k;
    return fac_error() || fac__open_sgd_of_kw(&k, kw) ? NULL : fac__optim_of(&sgd_class, parameters, SGD_VALUES(k));
}

/* ---- Adam and AdamW --------------------------------------------------------------------------------------------------------- */

enum { ADAM_LR, ADAM_BETA1, ADAM_BETA2, ADAM_EPS, ADAM_DECAY, ADAM_AMSGRAD, ADAM_MAXIMIZE };
#define ADAM_OPTIONS(decay)                                                                                     \
    {                                                                                                           \
        {"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", decay}, {"amsgrad", 0}, \
            {"maximize", 0}, {                                                                                  \
            NULL, 0                                                                                             \
        }                                                                                                       \
    }
static const fac_option adam_options[] = ADAM_OPTIONS(0), adamw_options[] = ADAM_OPTIONS(0.01);
#define ADAM_VALUES(k) \
    (const double[]) { lr, (k).beta1, (k).beta2, (k).eps, (k).weight_decay, (k).amsgrad, (k).maximize }
static const char *const adam_state[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL};

static size_t adam_state_count(const double *v) { return v[ADAM_AMSGRAD] != 0 ? 3 : 2; }

static fac_status check_adam(const double *v) {
    FAC_CHECK(v[ADAM_BETA1] >= 0 && v[ADAM_BETA1] < 1, FAC_ERR_ARGUMENT, "invalid beta1: %g should be in [0, 1)",
              v[ADAM_BETA1]);
    FAC_CHECK(v[ADAM_BETA2] >= 0 && v[ADAM_BETA2] < 1, FAC_ERR_ARGUMENT, "invalid beta2: %g should be in [0, 1)",
              v[ADAM_BETA2]);
    FAC_CHECK(v[ADAM_EPS] >= 0, FAC_ERR_ARGUMENT, "invalid epsilon value: %g", v[ADAM_EPS]);
    FAC_CHECK(v[ADAM_DECAY] >= 0, FAC_ERR_ARGUMENT, "invalid weight_decay value: %g", v[ADAM_DECAY]);
    return FAC_OK;
}

static fac_status adam_update(const fac_optimizer_update *u, bool decoupled) {
    const double *v = u->options;
    return fac__s__adam_step_(fac__header(u->parameter), fac__header(u->grad), fac__header(u->state[0]),
                              fac__header(u->state[1]), fac__header(u->state[2]), v[ADAM_LR], v[ADAM_BETA1],
                              v[ADAM_BETA2], v[ADAM_DECAY], v[ADAM_EPS], u->step, decoupled, v[ADAM_MAXIMIZE] != 0);
}

static fac_status adam_step(const fac_optimizer_update *u) { return adam_update(u, false); }
static fac_status adamw_step(const fac_optimizer_update *u) { return adam_update(u, true); }

static const fac_optimizer_class adam_class = {.name = "Adam",
                                               .options = adam_options,
                                               .state = adam_state,
                                               .step = adam_step,
                                               .check_options = check_adam,
                                               .check_parameter = check_fused,
                                               .state_count = adam_state_count};
static const fac_optimizer_class adamw_class = {.name = "AdamW",
                                                .options = adamw_options,
                                                .state = adam_state,
                                                .step = adamw_step,
                                                .check_options = check_adam,
                                                .check_parameter = check_fused,
                                                .state_count = adam_state_count};

fac_status fac__optim_check_sparse(const fac_optimizer_class *cls, const double *options) {
    FAC_CHECK(cls != &sgd_class || (options[SGD_MOMENTUM] == 0 && options[SGD_DECAY] == 0), FAC_ERR_UNSUPPORTED,
              "SGD takes sparse gradients without momentum and weight_decay; to_dense makes a gradient strided");
    FAC_CHECK(cls != &adam_class && cls != &adamw_class, FAC_ERR_UNSUPPORTED,
              "%s does not take sparse gradients; to_dense makes a gradient strided", cls->name);
    return FAC_OK;
}

fac_optimizer *(fac_adam_new)(fac_module *m, double lr, const fac_adam_new_kw *kw) {
    fac_adam_new_kw k;
    return fac_error() || fac__open_adam_new_kw(&k, kw) ? NULL : fac__optim_new(&adam_class, m, ADAM_VALUES(k));
}

fac_optimizer *(fac_adam_of)(fac_tensors parameters, double lr, const fac_adam_of_kw *kw) {
    fac_adam_of_kw k;
    return fac_error() || fac__open_adam_of_kw(&k, kw) ? NULL : fac__optim_of(&adam_class, parameters, ADAM_VALUES(k));
}

fac_optimizer *(fac_adamw_new)(fac_module *m, double lr, const fac_adamw_new_kw *kw) {
    fac_adamw_new_kw k;
    return fac_error() || fac__open_adamw_new_kw(&k, kw) ? NULL : fac__optim_new(&adamw_class, m, ADAM_VALUES(k));
}

fac_optimizer *(fac_adamw_of)(fac_tensors parameters, double lr, const fac_adamw_of_kw *kw) {
    fac_adamw_of_kw k;
    return fac_error() || fac__open_adamw_of_kw(&k, kw) ? NULL
                                                        : fac__optim_of(&adamw_class, parameters, ADAM_VALUES(k));
}
