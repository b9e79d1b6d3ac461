/* Makes an optimiser by its name. */
#include "optimizers.h"
#include <string.h>

static fac_optimizer *adamw(fac_module *m, const train_options *o) {
    return fac_adamw_new(m, o->lr, .weight_decay = o->weight_decay);
}
static fac_optimizer *adam(fac_module *m, const train_options *o) {
    return fac_adam_new(m, o->lr, .weight_decay = o->weight_decay);
}
static fac_optimizer *sgd(fac_module *m, const train_options *o) {
    return fac_sgd_new(m, o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay);
}
static fac_optimizer *rmsprop(fac_module *m, const train_options *o) {
    return fac_rmsprop_new(m, o->lr, .weight_decay = o->weight_decay);
}
static fac_optimizer *nadam(fac_module *m, const train_options *o) {
    return fac_nadam_new(m, o->lr, .weight_decay = o->weight_decay, .decoupled_weight_decay = true);
}
static fac_optimizer *radam(fac_module *m, const train_options *o) {
    return fac_radam_new(m, o->lr, .weight_decay = o->weight_decay, .decoupled_weight_decay = true);
}
static fac_optimizer *adamax(fac_module *m, const train_options *o) {
    return fac_adamax_new(m, o->lr, .weight_decay = o->weight_decay);
}
static fac_optimizer *adagrad(fac_module *m, const train_options *o) {
    return fac_adagrad_new(m, o->lr, .weight_decay = o->weight_decay);
}
static fac_optimizer *adafactor(fac_module *m, const train_options *o) {
    return fac_adafactor_new(m, o->lr, .weight_decay = o->weight_decay);
}

static const struct {
    const char *name;
    double rate;
    fac_optimizer *(*make)(fac_module *m, const train_options *o);
} KINDS[] = {
    {OPTIMIZER_OF_TEXT, 0.01, NULL}, {"adamw", 0.001, adamw},       {"adam", 0.001, adam},   {"sgd", 0.05, sgd},
    {"rmsprop", 0.001, rmsprop},     {"nadam", 0.001, nadam},       {"radam", 0.001, radam}, {"adamax", 0.002, adamax},
    {"adagrad", 0.01, adagrad},      {"adafactor", 0.01, adafactor}};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

double optimizer_rate(const char *name) {
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(KINDS[i].name, name) == 0) return KINDS[i].rate;
    return 0.001;
}

fac_optimizer *optimizer_new(const train_job *j) {
    const char *name = j->options->optimizer;
    for (size_t i = 0; i < N_KINDS; i++)
        if (KINDS[i].make && strcmp(KINDS[i].name, name) == 0) return KINDS[i].make(j->model, j->options);
    fac_error_set(FAC_ERR_ARGUMENT, "there is no optimiser '%s'", name);
    return NULL;
}
