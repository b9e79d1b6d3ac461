/* Kinds that look at a parameter as a matrix: Adafactor, Muon. */
#include "core/handle.h"
#include "optim/kind.h"
#include <facula/ops.h>
#include <float.h>
#include <math.h>

/* ---- Adafactor ------------------------------------------------------------------------------------------------------------- */

#define ADAFACTOR(X, Y) \
    X(beta2_decay, -0.8) Y(eps1, -1, eps1_of(k.eps1)) X(eps2, 1e-3) X(d, 1.0) X(weight_decay, 0) X(maximize, 0)
/* -1 stands for none; what is given is checked. */
static double eps1_of(double given) {
    if (given == FAC_UNSET_FLOAT) return -1;
    if (!(given >= 0)) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "invalid eps1 value: %g", given);
    return given;
}
FAC_KIND(adafactor, 1e-2, ADAFACTOR)
enum { ROW_VAR, COL_VAR, VARIANCE };

static fac_status check_adafactor(const double *values) {
    FAC_KIND_OPTIONS(adafactor, v, values);
    FAC_CHECK(v->beta2_decay <= 0, FAC_ERR_ARGUMENT, "beta2_decay should be <= 0 but is %g", v->beta2_decay);
    FAC_CHECK(v->eps1 >= 0 || v->eps1 == -1, FAC_ERR_ARGUMENT, "invalid eps1 value: %g", v->eps1);
    FAC_KIND_NOT_NEGATIVE(v, eps2);
    FAC_CHECK(v->d >= 1, FAC_ERR_ARGUMENT, "the clipping threshold d should be >= 1 but is %g", v->d);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    return FAC_OK;
}

/* A row of sums and a column of them, or all squares of what is no matrix. */
static bool adafactor_keeps(const double *values, size_t i, fac_optim_form *form) {
    (void)values;
    const int n = form->ndim;
    if (n < 2) return i == VARIANCE;
    form->sizes[i == ROW_VAR ? n - 1 : n - 2] = 1;
    return i != VARIANCE;
}

/* What the squares of g are, averaged over one dimension. */
static fac_tensor *squares(fac_tensor *g, int64_t dim) {
    fac_tensor *norm = fac_linalg_vector_norm(g, .dim = dim, .keepdim = true);
    return fac_div_(fac_square_(norm), (double)fac_tensor_size(g, (int)dim));
}

/* A new tensor of the running means of squares. */
static fac_tensor *variance(const fac_optimizer_update *u, fac_tensor *g, double weight, double eps1) {
    fac_tensor *row = u->state[ROW_VAR], *col = u->state[COL_VAR], *all = u->state[VARIANCE];
    if (all) return fac_clone(fac_lerp_(all, fac_mul(g, g), weight));
    (void)fac_lerp_(row, squares(g, -1), weight);
    (void)fac_lerp_(col, squares(g, -2), weight);
    return fac_div_(fac_matmul(row, col), fac_clamp_(fac_mean(row, .dim = -2, .keepdim = true), .min = eps1));
}

static double smallest(fac_tensor *parameter) {
    switch (fac_tensor_dtype(parameter)) {
    case FAC_F64: return DBL_EPSILON;
    case FAC_F32: return FLT_EPSILON;
    case FAC_F16: return 0x1p-10;
    default: return 0x1p-7; /* bfloat16 */
    }
}

static double root_mean_square(fac_tensor *t) {
    return fac_item(fac_linalg_vector_norm(t)) / sqrt((double)fac_tensor_numel(t));
}

static fac_status adafactor_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(adafactor, v, u->options);
    fac_tensor *p = u->parameter, *g = fac__optim_gradient(u, v->maximize != 0, 0);
    if (fac_error() || fac_tensor_numel(p) == 0) return fac_error();
    const double eps1 = v->eps1 < 0 ? smallest(p) : v->eps1, n = (double)u->step;
    const double rate = fmax(v->eps2, root_mean_square(p)) * fmin(v->lr, 1 / sqrt(n));
    if (v->weight_decay != 0) (void)fac_mul_(p, 1 - v->lr * v->weight_decay);
    fac_tensor *update = variance(u, g, pow(n, v->beta2_decay), eps1);
    (void)fac_mul_(fac_rsqrt_(fac_clamp_(update, .min = eps1 * eps1)), g);
    const double denominator = fmax(1, root_mean_square(update) / v->d);
    (void)fac_add_(p, update, .alpha = -rate / denominator);
    return fac_error();
}

const fac_optim_kind fac__adafactor_kind = {
    .cls = {.own = &fac__adafactor_kind,
            .name = "Adafactor",
            .options = adafactor_list,
            .state = (const char *const[]){"row_var", "col_var", "variance", NULL},
            .step = adafactor_step,
            .check_options = check_adafactor,
            .check_parameter = fac__optim_check_floating},
    .keeps = adafactor_keeps};

/* ---- Muon ------------------------------------------------------------------------------------------------------------------ */

enum { ORIGINAL, MATCH_RMS_ADAMW, SPECTRAL_UNCLAMPED, ADJUSTMENTS };
static const char *const adjustments[] = {"original", "match_rms_adamw", "spectral_unclamped", NULL};
#define MUON(X, Y)       \
    X(weight_decay, 0.1) \
    X(momentum, 0.95)    \
    X(nesterov, 1)       \
    X(ns_a, 3.4445)      \
    X(ns_b, -4.7750) X(ns_c, 2.0315) X(eps, 1e-7) X(ns_steps, 5) Y(adjust_lr_fn, 0, adjustment_of(k.adjust_lr_fn))
static double adjustment_of(const char *given) {
    return given ? fac__optim_choice("fac_muon", "adjust_lr_fn", given, adjustments) : ORIGINAL;
}
FAC_KIND(muon, 1e-3, MUON)

static fac_status check_muon(const double *values) {
    FAC_KIND_OPTIONS(muon, v, values);
    FAC_KIND_NOT_NEGATIVE(v, momentum);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    FAC_CHECK(v->ns_steps < 100 && v->ns_steps == floor(v->ns_steps), FAC_ERR_ARGUMENT,
              "ns_steps should be a whole number below 100 but is %g", v->ns_steps);
    FAC_CHECK(v->adjust_lr_fn >= 0 && v->adjust_lr_fn < ADJUSTMENTS && v->adjust_lr_fn == floor(v->adjust_lr_fn),
              FAC_ERR_ARGUMENT, "adjust_lr_fn should be 0, 1 or 2 but is %g", v->adjust_lr_fn);
    return FAC_OK;
}

static fac_status check_matrix(fac_tensor *parameter) {
    FAC_TRY(fac__optim_check_floating(parameter));
    FAC_CHECK(fac_tensor_ndim(parameter) == 2, FAC_ERR_SHAPE,
              "Muon optimises matrices, but a parameter has the shape %s; give others to another optimiser",
              FAC_SHAPE_TEXT(fac__header(parameter)));
    return FAC_OK;
}

/* The nearest orthogonal matrix, roughly, in bfloat16: Newton and Schulz's iteration on a matrix that is no taller than wide. */
static fac_tensor *orthogonal(const muon_options *v, fac_tensor *x) {
    x = fac_to(x, .dtype = FAC_BF16);
    const bool tall = fac_tensor_size(x, 0) > fac_tensor_size(x, 1);
    if (tall) x = fac_t(x);
    x = fac_div(x, fac_clamp_(fac_linalg_vector_norm(x), .min = v->eps));
    for (int i = 0; i < v->ns_steps && !fac_error(); i++) {
        fac_tensor *gram = fac_matmul(x, fac_t(x));
        fac_tensor *change = fac_addmm(gram, gram, gram, .beta = v->ns_b, .alpha = v->ns_c);
        x = fac_addmm(x, change, x, .beta = v->ns_a);
    }
    return tall ? fac_t(x) : x;
}

static double adjusted(const muon_options *v, double rows, double columns) {
    switch ((int)v->adjust_lr_fn) {
    case MATCH_RMS_ADAMW: return v->lr * 0.2 * sqrt(fmax(rows, columns));
    case SPECTRAL_UNCLAMPED: return v->lr * sqrt(rows / columns);
    default: return v->lr * sqrt(fmax(1, rows / columns));
    }
}

static fac_status muon_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(muon, v, u->options);
    fac_tensor *p = u->parameter, *mean = u->state[0];
    if (fac_tensor_numel(p) == 0) return FAC_OK;
    (void)fac_lerp_(mean, u->grad, 1 - v->momentum);
    fac_tensor *update = orthogonal(v, v->nesterov != 0 ? fac_lerp(u->grad, mean, v->momentum) : mean);
    const double rate = adjusted(v, (double)fac_tensor_size(p, 0), (double)fac_tensor_size(p, 1));
    (void)fac_add_(fac_mul_(p, 1 - v->lr * v->weight_decay), update, .alpha = -rate);
    return fac_error();
}

const fac_optim_kind fac__muon_kind = {.cls = {.own = &fac__muon_kind,
                                               .name = "Muon",
                                               .options = muon_list,
                                               .state = (const char *const[]){"momentum_buffer", NULL},
                                               .step = muon_step,
                                               .check_options = check_muon,
                                               .check_parameter = check_matrix}};
