/* SGD, Adam, AdamW: checks, buffers, and the fused step operators. */
#include "nn/module.h"
#include "optim/optimizer.h"
#include <math.h>

/* ---- SGD ---- */

static fac_status sgd_step(fac_optimizer *o, fac_optim_entry *e, const fac_optim_group *g, fac_tensor *grad) {
    const bool momentum = o->u.sgd.momentum != 0, first = !e->buffers[0];
    if (momentum) FAC_TRY(fac__optim_buffer(e, 0));
    return fac__s__fused_sgd_(e->parameter, grad, momentum ? e->buffers[0] : NULL, g->lr, g->weight_decay,
                              o->u.sgd.momentum, o->u.sgd.dampening, o->u.sgd.nesterov, o->u.sgd.maximize, first);
}

static const fac_optim_class sgd_class = {"SGD", {"momentum_buffer"}, sgd_step};

static fac_status check_sgd(const fac_sgd_kw *k) {
    FAC_CHECK(k->momentum >= 0, FAC_ERR_ARGUMENT, "invalid momentum value: %g", k->momentum);
    FAC_CHECK(k->weight_decay >= 0, FAC_ERR_ARGUMENT, "invalid weight_decay value: %g", k->weight_decay);
    FAC_CHECK(!k->nesterov || (k->momentum > 0 && k->dampening == 0), FAC_ERR_ARGUMENT,
              "Nesterov momentum requires a momentum and zero dampening");
    return FAC_OK;
}

fac_optimizer *(fac_sgd_new)(fac_module *m, double lr, const fac_sgd_kw *kw) {
    fac_sgd_kw local;
    if (fac_error()) return NULL;
    const fac_sgd_kw *k = fac__nn_kw("fac_sgd_new", kw, &local, sizeof local);
    if (!k || check_sgd(k)) return NULL;
    fac_optimizer *o = fac__optim_new(&sgd_class, m, lr, k->weight_decay);
    if (!o) return NULL;
    o->u.sgd.momentum = k->momentum;
    o->u.sgd.dampening = k->dampening;
    o->u.sgd.nesterov = k->nesterov;
    o->u.sgd.maximize = k->maximize;
    return o;
}

/* ---- Adam and AdamW ---- */

static fac_status adam_step(fac_optimizer *o, fac_optim_entry *e, const fac_optim_group *g, fac_tensor *grad) {
    FAC_TRY(fac__optim_buffer(e, 0));
    FAC_TRY(fac__optim_buffer(e, 1));
    if (o->u.adam.amsgrad) FAC_TRY(fac__optim_buffer(e, 2));
    return fac__s__fused_adamw_(e->parameter, grad, e->buffers[0], e->buffers[1],
                                o->u.adam.amsgrad ? e->buffers[2] : NULL, g->lr, o->u.adam.beta1, o->u.adam.beta2,
                                g->weight_decay, o->u.adam.eps, e->step + 1, o->u.adam.decoupled, o->u.adam.maximize);
}

static const fac_optim_class adamw_class = {"AdamW", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, adam_step};
static const fac_optim_class adam_class = {"Adam", {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, adam_step};

static double number_or(fac_opt_num n, double fallback) { return n.set ? fac__scalar_f64(n.v) : fallback; }

static fac_optimizer *adam_new(const char *what, const fac_optim_class *cls, fac_module *m, double lr,
                               const fac_adamw_kw *kw, bool decoupled) {
    fac_adamw_kw local;
    if (fac_error()) return NULL;
    const fac_adamw_kw *k = fac__nn_kw(what, kw, &local, sizeof local);
    if (!k) return NULL;
    const double b1 = number_or(k->beta1, 0.9), b2 = number_or(k->beta2, 0.999), eps = number_or(k->eps, 1e-8);
    const double decay = number_or(k->weight_decay, decoupled ? 0.01 : 0);
    if (!(b1 >= 0 && b1 < 1))
        FAC_FAIL(FAC_ERR_ARGUMENT, "invalid beta1: %g should be in [0, 1)", b1);
    else if (!(b2 >= 0 && b2 < 1))
        FAC_FAIL(FAC_ERR_ARGUMENT, "invalid beta2: %g should be in [0, 1)", b2);
    else if (!(eps >= 0))
        FAC_FAIL(FAC_ERR_ARGUMENT, "invalid epsilon value: %g", eps);
    else if (!(decay >= 0))
        FAC_FAIL(FAC_ERR_ARGUMENT, "invalid weight_decay value: %g", decay);
    fac_optimizer *o = fac_error() ? NULL : fac__optim_new(cls, m, lr, decay);
    if (!o) return NULL;
    o->u.adam.beta1 = b1;
    o->u.adam.beta2 = b2;
    o->u.adam.eps = eps;
    o->u.adam.amsgrad = k->amsgrad;
    o->u.adam.maximize = k->maximize;
    o->u.adam.decoupled = decoupled;
    return o;
}

fac_optimizer *(fac_adamw_new)(fac_module *m, double lr, const fac_adamw_kw *kw) {
    return adam_new("fac_adamw_new", &adamw_class, m, lr, kw, true);
}
fac_optimizer *(fac_adam_new)(fac_module *m, double lr, const fac_adamw_kw *kw) {
    return adam_new("fac_adam_new", &adam_class, m, lr, kw, false);
}

/* ---- schedules ---- */

double fac_cosine_lr(const fac_cosine_schedule *s, int64_t step) {
    if (!fac__given(s, "schedule")) return 0;
    if (s->warmup > 0 && step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    if (step >= s->total || s->total <= s->warmup) return s->floor;
    const double done = (double)(step - s->warmup) / (double)(s->total - s->warmup);
    return s->floor + 0.5 * (s->peak - s->floor) * (1 + cos(acos(-1.0) * done));
}
