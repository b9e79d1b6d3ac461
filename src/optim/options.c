/* Settings of groups: by name and in the order of the class, checked whenever one changes; rates of all groups together. */
#include "optim/optimizer.h"

/* ---- classes --------------------------------------------------------------------------------------------------------------- */

/* Names are parts of those in the state dict. */
static fac_status check_name(const fac_optimizer_class *cls, const char *name) {
    static const char *const taken[] = {"step", "params", "initial_lr"};
    bool good = name[0] && strlen(name) < FAC_OPTIM_NAME && !strchr(name, '.');
    for (size_t i = 0; i < FAC_COUNT(taken); i++) good = good && strcmp(name, taken[i]) != 0;
    FAC_CHECK(good, FAC_ERR_ARGUMENT,
              "'%s' of class %s cannot be a name: it is empty, long, has a dot or stands for something else", name,
              cls->name);
    return FAC_OK;
}

static fac_status count_options(const fac_optimizer_class *cls, size_t *out_n) {
    size_t n = 0;
    for (; cls->options[n].name; n++) {
        FAC_TRY(check_name(cls, cls->options[n].name));
        FAC_CHECK(n < FAC_OPTIMIZER_MAX_OPTIONS, FAC_ERR_ARGUMENT, "class %s has more than %d settings", cls->name,
                  FAC_OPTIMIZER_MAX_OPTIONS);
    }
    *out_n = n;
    return FAC_OK;
}

static fac_status count_state(const fac_optimizer_class *cls, size_t *out_n) {
    size_t n = 0;
    for (; cls->state && cls->state[n]; n++) {
        FAC_TRY(check_name(cls, cls->state[n]));
        FAC_CHECK(n < FAC_OPTIMIZER_MAX_STATE, FAC_ERR_ARGUMENT, "class %s keeps more than %d tensors", cls->name,
                  FAC_OPTIMIZER_MAX_STATE);
    }
    *out_n = n;
    return FAC_OK;
}

fac_status fac__optim_check_class(const fac_optimizer_class *cls, size_t *out_options, size_t *out_state) {
    FAC_CHECK(cls && cls->name && cls->step, FAC_ERR_ARGUMENT, "the class of a new optimiser %s",
              !cls        ? "is NULL"
              : cls->name ? "has no step function"
                          : "has no name");
    FAC_CHECK(cls->options && cls->options[0].name && strcmp(cls->options[0].name, "lr") == 0, FAC_ERR_ARGUMENT,
              "the first setting of class %s should be \"lr\"", cls->name);
    FAC_TRY(count_options(cls, out_options));
    return count_state(cls, out_state);
}

/* ---- settings ------------------------------------------------------------------------------------------------------------- */

fac_status fac__optim_check_options(const fac_optimizer *o, const double *options) {
    FAC_CHECK(options[0] >= 0, FAC_ERR_ARGUMENT, "invalid learning rate: %g", options[0]);
    for (size_t i = 1; i < o->n_options; i++)
        FAC_CHECK(options[i] == options[i], FAC_ERR_ARGUMENT, "%s of %s is not a number", o->cls->options[i].name,
                  o->cls->name);
    if (!o->cls->check_options) return FAC_OK;
    fac_status st;
    FAC_CALLBACK(st = o->cls->check_options(options));
    return st ? FAC_FAIL(st, "%s refuses its settings", o->cls->name) : fac_error();
}

fac_status fac__optim_check_others(const fac_optimizer *o, const double *options) {
    double with_rate[FAC_OPTIMIZER_MAX_OPTIONS];
    memcpy(with_rate, options, sizeof with_rate);
    FAC_CHECK(options[0] == options[0], FAC_ERR_ARGUMENT, "invalid learning rate: %g", options[0]);
    with_rate[0] = 1;
    return fac__optim_check_options(o, with_rate);
}

double *fac__optim_field(const fac_optimizer *o, fac_optim_group *g, const char *name) {
    if (strcmp(name, "initial_lr") == 0) return &g->initial_lr;
    for (size_t i = 0; i < o->n_options; i++)
        if (strcmp(o->cls->options[i].name, name) == 0) return &g->options[i];
    return NULL;
}

static fac_status no_such_option(const fac_optimizer *o, const char *name, fac_status code) {
    fac_buf names = {0};
    fac_status st = FAC_OK;
    for (size_t i = 0; i < o->n_options && !st; i++)
        st = fac__buf_printf(&names, "%s%s", i ? ", " : "", o->cls->options[i].name);
    if (!st) st = FAC_FAIL(code, "%s has no setting '%s'; it has %s", o->cls->name, name, names.data);
    fac__buf_free(&names);
    return st;
}

static fac_status check_group(const fac_optimizer *o, const fac_optim_group *g) {
    FAC_TRY(fac__optim_check_options(o, g->options));
    FAC_CHECK(g->initial_lr >= 0, FAC_ERR_ARGUMENT, "invalid initial_lr: %g", g->initial_lr);
    return FAC_OK;
}

fac_status fac__optim_take_options(const fac_optimizer *o, fac_optim_group *g, fac_options options) {
    bool has_initial = false;
    if (!fac__list_given(options.v, options.n, "settings")) return fac_error();
    for (size_t i = 0; i < options.n; i++) {
        const char *name = options.v[i].name;
        FAC_CHECK(name, FAC_ERR_ARGUMENT, "the name of a setting is NULL");
        double *field = fac__optim_field(o, g, name);
        if (!field) return no_such_option(o, name, FAC_ERR_ARGUMENT);
        *field = options.v[i].value;
        has_initial |= field == &g->initial_lr;
    }
    if (!has_initial) g->initial_lr = fac__optim_lr(g);
    return check_group(o, g);
}

static bool is_there(const fac_optimizer *o) { return fac__given(o, "optimiser"); }

/* The group, or NULL with an error. */
static fac_optim_group *group_at(const fac_optimizer *o, size_t group, const char *name) {
    if (!is_there(o) || !fac__given(name, "name of a setting")) return NULL;
    if (group < o->groups.n) return &o->groups.v[group];
    (void)FAC_FAIL(FAC_ERR_INDEX, "group %zu is out of range: the optimiser has %zu", group, o->groups.n);
    return NULL;
}

double fac_optimizer_option(const fac_optimizer *o, size_t group, const char *name) {
    fac_optim_group *g = group_at(o, group, name);
    const double *field = g ? fac__optim_field(o, g, name) : NULL;
    if (g && !field) (void)no_such_option(o, name, FAC_ERR_NOT_FOUND);
    return field ? *field : 0;
}

fac_status fac_optimizer_set_option(fac_optimizer *o, size_t group, const char *name, double value) {
    if (fac_error()) return fac_error();
    fac_optim_group *g = group_at(o, group, name);
    if (!g) return fac_error();
    fac_optim_group changed = *g;
    double *field = fac__optim_field(o, &changed, name);
    if (!field) return no_such_option(o, name, FAC_ERR_NOT_FOUND);
    *field = value;
    const bool is_rate = field == changed.options || field == &changed.initial_lr;
    FAC_TRY(is_rate ? check_group(o, &changed) : fac__optim_check_others(o, changed.options));
    *g = changed;
    return FAC_OK;
}

/* ---- rates of all groups --------------------------------------------------------------------------------------------------- */

/* The group whose rate stands for the optimiser's: the first that was not made at rate 0. Another rate for it multiplies those
   of all groups, so that a group made at rate 0 stays there, unless all were. */
static size_t leading_group(const fac_optimizer *o) {
    for (size_t i = 0; i < o->groups.n; i++)
        if (o->groups.v[i].initial_lr > 0) return i;
    return 0;
}

double fac_optimizer_lr(const fac_optimizer *o) {
    return is_there(o) ? fac__optim_lr(&o->groups.v[leading_group(o)]) : 0;
}

void fac_optimizer_set_lr(fac_optimizer *o, double lr) {
    if (!is_there(o)) return;
    if (!(lr >= 0)) {
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "invalid learning rate: %g", lr);
        return;
    }
    const double base = o->groups.v[leading_group(o)].initial_lr;
    for (size_t i = 0; i < o->groups.n; i++) {
        fac_optim_group *g = &o->groups.v[i];
        g->options[0] = g->initial_lr == base ? lr : lr * (g->initial_lr / base);
    }
}

typedef double (*lr_factor)(void *context, size_t group, int64_t step);

/* All factors are asked for and checked before the first rate changes; asking twice would show a caller's side effects. */
fac_status fac_optimizer_lambda_lr(fac_optimizer *o, lr_factor factor, void *context, int64_t step) {
    if (fac_error()) return fac_error();
    if (!is_there(o) || !fac__given((const void *)(uintptr_t)factor, "function of a schedule")) return fac_error();
    double *rates = fac__alloc_array(o->groups.n, sizeof *rates);
    if (!rates) return fac_error();
    for (size_t i = 0; i < o->groups.n && !fac_error(); i++) {
        FAC_CALLBACK(rates[i] = o->groups.v[i].initial_lr * factor(context, i, step));
        if (!(rates[i] >= 0)) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "invalid learning rate of group %zu: %g", i, rates[i]);
    }
    for (size_t i = 0; i < o->groups.n && !fac_error(); i++) o->groups.v[i].options[0] = rates[i];
    fac__free(rates);
    return fac_error();
}

static double same_factor(void *context, size_t group, int64_t step) {
    (void)group, (void)step;
    return *(const double *)context;
}

fac_status fac_optimizer_scale_lr(fac_optimizer *o, double factor) {
    return fac_optimizer_lambda_lr(o, same_factor, &factor, 0);
}
