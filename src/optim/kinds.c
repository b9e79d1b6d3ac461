/* SGD, Adam, AdamW: checks, buffers, and the fused step operators. */
#include "keywords_gen.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include <math.h>

/* ---- SGD ---- */

static int sgd_buffers(const fac_optim_group *g) { return g->u.sgd.momentum != 0; }

static fac_status sgd_step(fac_optimizer *o, fac_optim_entry *e, const fac_optim_group *g) {
    (void)o;
    const bool momentum = sgd_buffers(g), first = !momentum || e->made;
    return fac__s__fused_sgd_(e->parameter, e->grad, momentum ? e->buffers[0] : NULL, g->lr, g->weight_decay,
                              g->u.sgd.momentum, g->u.sgd.dampening, g->u.sgd.nesterov, g->u.sgd.maximize, first);
}

static const fac_optim_option sgd_options[] = {FAC_OPTIM_NUMBER("momentum", u.sgd.momentum),
                                               FAC_OPTIM_NUMBER("dampening", u.sgd.dampening),
                                               FAC_OPTIM_FLAG("nesterov", u.sgd.nesterov),
                                               FAC_OPTIM_FLAG("maximize", u.sgd.maximize),
                                               {NULL, false, 0}};
static const fac_optim_class sgd_class = {"SGD", {"momentum_buffer"}, sgd_options, false, sgd_buffers, sgd_step};

static fac_status check_sgd(const fac_sgd_new_kw *k) {
    FAC_CHECK(k->momentum >= 0, FAC_ERR_ARGUMENT, "invalid momentum value: %g", k->momentum);
    FAC_CHECK(k->weight_decay >= 0, FAC_ERR_ARGUMENT, "invalid weight_decay value: %g", k->weight_decay);
    FAC_CHECK(!k->nesterov || (k->momentum > 0 && k->dampening == 0), FAC_ERR_ARGUMENT,
              "Nesterov momentum requires a momentum and zero dampening");
    return FAC_OK;
}

fac_optimizer *(fac_sgd_new)(fac_module *m, double lr, const fac_sgd_new_kw *kw) {
    fac_sgd_new_kw k;
    if (fac_error() || fac__open_sgd_new_kw(&k, kw) || check_sgd(&k)) return NULL;
    fac_optim_group g = {.lr = lr, .weight_decay = k.weight_decay};
    g.u.sgd.momentum = k.momentum;
    g.u.sgd.dampening = k.dampening;
    g.u.sgd.nesterov = k.nesterov;
    g.u.sgd.maximize = k.maximize;
    return fac__optim_new(&sgd_class, m, g);
}

/* ---- Adam and AdamW ---- */

static int adam_buffers(const fac_optim_group *g) { return g->u.adam.amsgrad ? 3 : 2; }

static fac_status adam_step(fac_optimizer *o, fac_optim_entry *e, const fac_optim_group *g) {
    return fac__s__fused_adamw_(e->parameter, e->grad, e->buffers[0], e->buffers[1],
                                g->u.adam.amsgrad ? e->buffers[2] : NULL, g->lr, g->u.adam.beta1, g->u.adam.beta2,
                                g->weight_decay, g->u.adam.eps, e->step + 1, o->cls->decoupled, g->u.adam.maximize);
}

static const fac_optim_option adam_options[] = {
    FAC_OPTIM_NUMBER("beta1", u.adam.beta1),     FAC_OPTIM_NUMBER("beta2", u.adam.beta2),
    FAC_OPTIM_NUMBER("eps", u.adam.eps),         FAC_OPTIM_FLAG("amsgrad", u.adam.amsgrad),
    FAC_OPTIM_FLAG("maximize", u.adam.maximize), {NULL, false, 0}};
#define ADAM_BUFFERS \
    { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" }
static const fac_optim_class adamw_class = {"AdamW", ADAM_BUFFERS, adam_options, true, adam_buffers, adam_step};
static const fac_optim_class adam_class = {"Adam", ADAM_BUFFERS, adam_options, false, adam_buffers, adam_step};

static fac_status check_adam(const fac_optim_group *g) {
    const double b1 = g->u.adam.beta1, b2 = g->u.adam.beta2, eps = g->u.adam.eps;
    FAC_CHECK(b1 >= 0 && b1 < 1, FAC_ERR_ARGUMENT, "invalid beta1: %g should be in [0, 1)", b1);
    FAC_CHECK(b2 >= 0 && b2 < 1, FAC_ERR_ARGUMENT, "invalid beta2: %g should be in [0, 1)", b2);
    FAC_CHECK(eps >= 0, FAC_ERR_ARGUMENT, "invalid epsilon value: %g", eps);
    FAC_CHECK(g->weight_decay >= 0, FAC_ERR_ARGUMENT, "invalid weight_decay value: %g", g->weight_decay);
    return FAC_OK;
}

/* Both kinds have the same keywords, apart from a default. */
#define ADAM_GROUP(k)                                           \
    {                                                           \
        .lr = lr, .weight_decay = (k).weight_decay, .u.adam = { \
            .beta1 = (k).beta1,                                 \
            .beta2 = (k).beta2,                                 \
            .eps = (k).eps,                                     \
            .amsgrad = (k).amsgrad,                             \
            .maximize = (k).maximize                            \
        }                                                       \
    }

fac_optimizer *(fac_adamw_new)(fac_module *m, double lr, const fac_adamw_new_kw *kw) {
    fac_adamw_new_kw k;
    if (fac_error() || fac__open_adamw_new_kw(&k, kw)) return NULL;
    const fac_optim_group g = ADAM_GROUP(k);
    return check_adam(&g) ? NULL : fac__optim_new(&adamw_class, m, g);
}

fac_optimizer *(fac_adam_new)(fac_module *m, double lr, const fac_adam_new_kw *kw) {
    fac_adam_new_kw k;
    if (fac_error() || fac__open_adam_new_kw(&k, kw)) return NULL;
    const fac_optim_group g = ADAM_GROUP(k);
    return check_adam(&g) ? NULL : fac__optim_new(&adam_class, m, g);
}

/* ---- schedules ---- */

double fac_cosine_lr(const fac_cosine_schedule *s, int64_t step) {
    if (!fac__given(s, "schedule")) return 0;
    const int64_t warmup = fac__max(s->warmup, 0);
    step = fac__max(step, 0);
    if (step < warmup) return s->peak * (double)(step + 1) / (double)warmup;
    if (step >= s->total || s->total <= warmup) return s->floor;
    const double done = (double)(step - warmup) / (double)(s->total - warmup);
    return s->floor + 0.5 * (s->peak - s->floor) * (1 + cos(acos(-1.0) * done));
}
