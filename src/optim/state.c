/* State dicts of optimisers: per parameter its step count and tensors ("0.step", "0.exp_avg"), per group its settings and the
   places of its parameters ("param_groups.0.lr", "param_groups.0.params"). */
#include "core/read.h"
#include "core/tensor_make.h"
#include "optim/kind.h"

/* ---- saving ---- */

/* Sets the entry that the format names; takes the reference of t, always. */
static fac_status put(fac_state *s, fac_tensor *t, const char *format, ...) FAC_PRINTF(3, 4);
static fac_status put(fac_state *s, fac_tensor *t, const char *format, ...) {
    char name[96];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    fac_status st = fac_state_set(s, name, fac__handle(t));
    fac__unref(t);
    return st;
}

static fac_status put_entry(fac_state *s, const fac_optimizer *o, size_t i) {
    const fac_optim_entry *e = &o->entries.v[i];
    fac_tensor *step = NULL;
    FAC_TRY(fac__scalar_tensor(fac_scalar_i_(e->step), FAC_I64, &step));
    FAC_TRY(put(s, step, "%zu.step", i));
    for (size_t j = 0; j < o->n_state; j++)
        if (e->state[j]) FAC_TRY(put(s, fac__ref(e->state[j]), "%zu.%s", i, o->cls->state[j]));
    return e->master ? put(s, fac__ref(e->master), "%zu.master", i) : FAC_OK;
}

typedef fac_status (*option_visit)(void *context, size_t group, const char *name, double *value);

/* Every setting of a group, the rate that it began with among them. */
static fac_status each_option(const fac_optimizer *o, size_t group, option_visit visit, void *context) {
    fac_optim_group *g = &o->groups.v[group];
    FAC_TRY(visit(context, group, "initial_lr", &g->initial_lr));
    for (size_t i = 0; i < o->n_options; i++) FAC_TRY(visit(context, group, o->cls->options[i].name, &g->options[i]));
    return FAC_OK;
}

static fac_status put_option(void *context, size_t group, const char *name, double *value) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__scalar_tensor(fac_scalar_f_(*value), FAC_F64, &t));
    return put(context, t, "param_groups.%zu.%s", group, name);
}

/* Which entries belong to a group, in order. */
static fac_status places_of(const fac_optimizer *o, size_t group, fac_tensor **out) {
    int64_t n = 0;
    for (size_t i = 0; i < o->entries.n; i++) n += o->entries.v[i].group == group;
    FAC_TRY(fac__empty(&n, 1, FAC_I64, fac_device_make(FAC_CPU, -1), out));
    int64_t *place = fac__data(*out);
    for (size_t i = 0; i < o->entries.n; i++)
        if (o->entries.v[i].group == group) *place++ = (int64_t)i;
    return FAC_OK;
}

static fac_status put_group(fac_state *s, const fac_optimizer *o, size_t group) {
    fac_tensor *places = NULL;
    FAC_TRY(places_of(o, group, &places));
    FAC_TRY(put(s, places, "param_groups.%zu.params", group));
    return each_option(o, group, put_option, s);
}

fac_state *fac_optimizer_state_dict(fac_optimizer *o) {
    if (fac_error() || !fac__given(o, "optimiser")) return NULL;
    fac_state *s = fac_state_new();
    fac_status st = s ? FAC_OK : fac_error();
    for (size_t i = 0; i < o->entries.n && !st; i++) st = put_entry(s, o, i);
    if (!st && o->whole) st = o->kind->whole->save(o, s);
    for (size_t i = 0; i < o->groups.n && !st; i++) st = put_group(s, o, i);
    if (!st) return s;
    fac_state_free(s);
    return NULL;
}

/* ---- loading ---- */

#define MOST_STEPS 9007199254740992.0 /* 2^53: counts below it are exact in every dtype that saved them */

static fac_tensor *entry_of(const fac_state *s, size_t i, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "%zu.%s", i, what);
    return fac__header(fac_state_get(s, name));
}

static fac_tensor *setting_of(const fac_state *s, size_t group, const char *what) {
    char name[96];
    snprintf(name, sizeof name, "param_groups.%zu.%s", group, what);
    return fac__header(fac_state_get(s, name));
}

static fac_status check_step(const fac_state *s, size_t i) {
    fac_tensor *t = entry_of(s, i, "step");
    FAC_CHECK(t && t->numel == 1 && !fac_dtype_is_complex((fac_dtype)t->dtype), FAC_ERR_NOT_FOUND,
              "the state has no step count for parameter %zu", i);
    const double steps = fac__item(t);
    FAC_TRY(fac_error());
    FAC_CHECK(steps >= 0 && steps < MOST_STEPS, FAC_ERR_ARGUMENT, "the step count of parameter %zu is %g in the state",
              i, steps);
    return FAC_OK;
}

/* t is state `name` of parameter i, p, and should be of a form. */
static fac_status check_tensor(const fac_tensor *t, const char *name, const fac_optim_form *f, const fac_tensor *p,
                               size_t i) {
    FAC_CHECK(t->ndim == f->ndim && memcmp(t->sizes, f->sizes, (size_t)f->ndim * sizeof *f->sizes) == 0, FAC_ERR_SHAPE,
              "%s of parameter %zu has shape %s in the state, but the parameter has %s", name, i, FAC_SHAPE_TEXT(t),
              FAC_SHAPE_TEXT(p));
    FAC_CHECK(fac_can_cast((fac_dtype)t->dtype, f->dtype), FAC_ERR_DTYPE,
              "%s of parameter %zu is %s in the state, which does not fit into %s", name, i,
              fac_dtype_name((fac_dtype)t->dtype), fac_dtype_name(f->dtype));
    FAC_CHECK(t->device.type != FAC_META || p->device.type == FAC_META, FAC_ERR_DEVICE,
              "%s of parameter %zu is a meta tensor in the state, without data to load", name, i);
    return FAC_OK;
}

/* The form of state j of parameter i, or of its master (j the number of tensors); false: it has none. */
static bool form_of(const fac_optimizer *o, size_t i, size_t j, fac_optim_form *out) {
    const fac_optim_entry *e = &o->entries.v[i];
    const bool wants = fac__optim_wants_master(o, e->parameter);
    bool kept = wants;
    if (j < o->n_state)
        kept = fac__optim_form(o, e->parameter, o->groups.v[e->group].options, j, out);
    else {
        *out = (fac_optim_form){.ndim = e->parameter->ndim};
        memcpy(out->sizes, e->parameter->sizes, e->parameter->ndim * sizeof *out->sizes);
    }
    if (wants && out->dtype != FAC_F64) out->dtype = FAC_F32;
    return kept;
}

/* A tensor that settings of the optimiser's own do not keep may come with settings that do. */
static fac_status check_entry(const fac_optimizer *o, const fac_state *s, size_t i, size_t *taken) {
    FAC_TRY(check_step(s, i));
    ++*taken;
    for (size_t j = 0; j <= o->n_state; j++) {
        fac_optim_form form;
        const char *name = j < o->n_state ? o->cls->state[j] : "master";
        const bool kept = form_of(o, i, j, &form);
        const fac_tensor *t = kept || j < o->n_state ? entry_of(s, i, name) : NULL;
        if (!t) continue;
        ++*taken;
        FAC_TRY(check_tensor(t, name, &form, o->entries.v[i].parameter, i));
    }
    return FAC_OK;
}

/* What is loaded, aside until all of it was found good. */
typedef struct loading {
    const fac_optimizer *o;
    const fac_state *from;
    fac_optim_group *groups; /* a copy of the optimiser's */
    fac_optim_entry *entries;
    void *whole;
    size_t taken;
} loading;

static fac_status read_option(void *context, size_t group, const char *name, double *value) {
    loading *l = context;
    (void)value;
    fac_tensor *t = setting_of(l->from, group, name);
    if (!t && strcmp(name, "lr") != 0) return FAC_OK; /* one that an older version did not have */
    FAC_CHECK(t && t->numel == 1 && !fac_dtype_is_complex((fac_dtype)t->dtype), FAC_ERR_NOT_FOUND,
              "the state does not say %s of group %zu", name, group);
    *fac__optim_field(l->o, &l->groups[group], name) = fac__item(t);
    l->taken++;
    return fac_error();
}

static fac_status check_options(const loading *l, size_t group) {
    const fac_optim_group *g = &l->groups[group];
    FAC_CHECK(g->initial_lr == g->initial_lr, FAC_ERR_ARGUMENT, "initial_lr of group %zu is %g in the state", group,
              g->initial_lr);
    return fac__optim_check_others(l->o, g->options);
}

static fac_status check_places(const fac_optimizer *o, const fac_state *s, size_t group) {
    fac_tensor *own = NULL, *saved = setting_of(s, group, "params");
    FAC_CHECK(saved, FAC_ERR_NOT_FOUND, "the state does not say which parameters group %zu has", group);
    FAC_TRY(places_of(o, group, &own));
    bool same = saved->dtype == FAC_I64 && saved->device.type == FAC_CPU && fac__same_sizes(own, saved) &&
                fac__is_contiguous(saved);
    if (same && own->numel) same = memcmp(fac__data(own), fac__data(saved), (size_t)own->numel * sizeof(int64_t)) == 0;
    fac__unref(own);
    FAC_CHECK(same, FAC_ERR_ARGUMENT, "group %zu has other parameters in the state", group);
    return FAC_OK;
}

/* A state of version 0.1 has no settings: the optimiser then keeps its own. */
static fac_status read_groups(const fac_optimizer *o, loading *l) {
    if (!setting_of(l->from, 0, "params")) return FAC_OK;
    for (size_t i = 0; i < o->groups.n; i++) {
        FAC_TRY(check_places(o, l->from, i));
        l->taken++;
        FAC_TRY(each_option(o, i, read_option, l));
        FAC_TRY(check_options(l, i));
    }
    return FAC_OK;
}

static size_t count_settings(const fac_state *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += strncmp(s->v[i].name, "param_groups.", 13) == 0;
    return n;
}

/* Everything is looked at before anything changes. An entry that nothing takes is of another kind of optimiser, or of more
   parameters or groups. */
static fac_status check_state(const fac_optimizer *o, loading *l) {
    const size_t settings = count_settings(l->from), others = l->from->n - settings;
    size_t taken = 0;
    for (size_t i = 0; i < o->entries.n; i++) FAC_TRY(check_entry(o, l->from, i, &taken));
    if (o->kind && o->kind->whole) FAC_TRY(o->kind->whole->load(o, l->from, &l->whole, &taken));
    FAC_CHECK(taken == others, FAC_ERR_ARGUMENT, "the state has %zu entries, of which %s over %zu parameters knows %zu",
              others, o->cls->name, o->entries.n, taken);
    FAC_TRY(read_groups(o, l));
    FAC_CHECK(l->taken == settings, FAC_ERR_ARGUMENT, "the state has %zu settings, of which %s in %zu groups knows %zu",
              settings, o->cls->name, o->groups.n, l->taken);
    return FAC_OK;
}

/* Step count and tensors of entry i; the parameter is borrowed. */
static fac_status read_entry(const fac_optimizer *o, const fac_state *s, size_t i, fac_optim_entry *to) {
    FAC_SCOPE(scope);
    to->parameter = o->entries.v[i].parameter;
    to->group = o->entries.v[i].group;
    to->step = fac__item_int(entry_of(s, i, "step"));
    FAC_TRY(fac__optim_make_master(o, to));
    fac_tensor *master = to->master ? entry_of(s, i, "master") : NULL;
    if (master && !fac__s_copy_(to->master, master, false)) return fac_error();
    for (size_t j = 0; j < o->n_state; j++) {
        fac_tensor *t = entry_of(s, i, o->cls->state[j]);
        if (!t) continue;
        FAC_TRY(fac__optim_make_state(o, to, j));
        if (!fac__s_copy_(to->state[j], t, false)) return fac_error();
    }
    return fac_error();
}

/* Exchanges what was loaded with what the optimiser had. */
static void exchange(fac_optimizer *o, loading *l) {
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_optim_entry *e = &o->entries.v[i], had = *e;
        e->step = l->entries[i].step;
        memcpy(e->state, l->entries[i].state, sizeof e->state);
        memcpy(l->entries[i].state, had.state, sizeof had.state);
        e->master = l->entries[i].master;
        l->entries[i].master = had.master;
    }
    void *whole = o->whole;
    o->whole = l->whole;
    l->whole = whole;
    memcpy(o->groups.v, l->groups, o->groups.n * sizeof *l->groups);
}

static fac_status load(fac_optimizer *o, loading *l) {
    FAC_TRY(check_state(o, l));
    FAC_NO_GRAD(g);
    for (size_t i = 0; i < o->entries.n; i++) FAC_TRY(read_entry(o, l->from, i, &l->entries[i]));
    exchange(o, l);
    return FAC_OK;
}

static fac_status loading_begin(loading *l, const fac_optimizer *o, const fac_state *s) {
    *l = (loading){.o = o, .from = s};
    l->groups = fac__alloc_array(o->groups.n, sizeof *l->groups);
    l->entries = fac__alloc_zero(o->entries.n * sizeof *l->entries);
    if (!l->groups || !l->entries) return fac_error();
    memcpy(l->groups, o->groups.v, o->groups.n * sizeof *l->groups);
    return FAC_OK;
}

static void loading_end(loading *l, const fac_optimizer *o) {
    if (l->whole) o->kind->whole->release(l->whole);
    for (size_t i = 0; l->entries && i < o->entries.n; i++) fac__unref(l->entries[i].master);
    for (size_t i = 0; l->entries && i < o->entries.n; i++)
        for (size_t j = 0; j < o->n_state; j++) fac__unref(l->entries[i].state[j]);
    fac__free(l->entries);
    fac__free(l->groups);
}

fac_status fac_optimizer_load_state_dict(fac_optimizer *o, const fac_state *s) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o && s, FAC_ERR_ARGUMENT, "an optimiser or its state is NULL");
    loading l;
    fac_status st = loading_begin(&l, o, s);
    if (st == FAC_OK) st = load(o, &l);
    loading_end(&l, o);
    return st;
}
