/* Rprop, which goes by signs, and ASGD, which keeps the mean of the parameters. */
#include "optim/kind.h"
#include <facula/ops.h>
#include <math.h>

/* ---- Rprop ----------------------------------------------------------------------------------------------------------------- */

#define RPROP(X, Y) X(etaminus, 0.5) X(etaplus, 1.2) X(step_size_min, 1e-6) X(step_size_max, 50) X(maximize, 0)
FAC_KIND(rprop, 1e-2, RPROP)
enum { PREV, STEP_SIZE };

static fac_status check_rprop(const double *values) {
    FAC_KIND_OPTIONS(rprop, v, values);
    FAC_CHECK(v->etaminus > 0 && v->etaminus < 1 && v->etaplus > 1, FAC_ERR_ARGUMENT,
              "invalid eta values: %g, %g; they should be in (0, 1), and above 1", v->etaminus, v->etaplus);
    return FAC_OK;
}

/* Where the sign changed, the element stays, and the next step does not compare. */
static fac_status rprop_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(rprop, v, u->options);
    fac_tensor *prev = u->state[PREV], *size = u->state[STEP_SIZE];
    if (fac__optim_fresh(u, STEP_SIZE)) (void)fac_fill_(size, v->lr);
    fac_tensor *g = fac__optim_gradient(u, v->maximize != 0, 0);
    fac_tensor *sign = fac_sign_(fac_mul(g, prev)), *turned = fac_lt(sign, 0), *same = fac_gt(sign, 0);
    fac_tensor *factor = fac_masked_fill_(fac_masked_fill_(fac_fill_(sign, 1), same, v->etaplus), turned, v->etaminus);
    (void)fac_clamp_(fac_mul_(size, factor), .min = v->step_size_min, .max = v->step_size_max);
    (void)fac_copy_(prev, fac_masked_fill(g, turned, 0));
    (void)fac_addcmul_(u->parameter, fac_sign(prev), size, .value = -1);
    return fac_error();
}

const fac_optim_kind fac__rprop_kind = {.cls = {.own = &fac__rprop_kind,
                                                .name = "Rprop",
                                                .options = rprop_list,
                                                .state = (const char *const[]){"prev", "step_size", NULL},
                                                .step = rprop_step,
                                                .check_options = check_rprop,
                                                .check_parameter = fac__optim_check_floating}};

/* ---- ASGD ------------------------------------------------------------------------------------------------------------------ */

#define ASGD(X, Y) X(lambd, 1e-4) X(alpha, 0.75) X(t0, 1e6) X(weight_decay, 0) X(maximize, 0)
FAC_KIND(asgd, 1e-2, ASGD)
enum { ETA, MU, AX };

static fac_status check_asgd(const double *values) {
    FAC_KIND_OPTIONS(asgd, v, values);
    FAC_KIND_NOT_NEGATIVE(v, lambd);
    FAC_KIND_NOT_NEGATIVE(v, alpha);
    FAC_KIND_NOT_NEGATIVE(v, weight_decay);
    return FAC_OK;
}

/* eta and mu are those of the next step. */
static fac_status asgd_step(const fac_optimizer_update *u) {
    FAC_KIND_OPTIONS(asgd, v, u->options);
    fac_tensor *p = u->parameter, *mean = u->state[AX], *g = fac__optim_gradient(u, v->maximize != 0, v->weight_decay);
    double *eta = fac__optim_number(u, ETA), *mu = fac__optim_number(u, MU);
    if (fac_error()) return fac_error();
    if (fac__optim_fresh(u, ETA)) *eta = v->lr;
    if (fac__optim_fresh(u, MU)) *mu = 1;
    (void)fac_add_(fac_mul_(p, 1 - v->lambd * *eta), g, .alpha = -*eta);
    if (*mu == 1)
        (void)fac_copy_(mean, p);
    else
        (void)fac_add_(mean, fac_mul_(fac_sub(p, mean), *mu));
    *eta = v->lr / pow(1 + v->lambd * v->lr * (double)u->step, v->alpha);
    *mu = 1 / fmax(1, (double)u->step - v->t0);
    return fac_error();
}

const fac_optim_kind fac__asgd_kind = {.cls = {.own = &fac__asgd_kind,
                                               .name = "ASGD",
                                               .options = asgd_list,
                                               .state = (const char *const[]){"eta", "mu", "ax", NULL},
                                               .step = asgd_step,
                                               .check_options = check_asgd,
                                               .check_parameter = fac__optim_check_floating},
                                       .numbers = 1u << ETA | 1u << MU};
