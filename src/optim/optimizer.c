/* Optimisers as objects: making, groups of parameters, what is lent of them. */
#include "optim/optimizer.h"
#include "autograd/leaf.h"
#include "core/handle.h"
#include "optim/kind.h"

void fac_optimizer_release(fac_optimizer *o) {
    if (!o) return;
    for (size_t i = 0; i < o->entries.n; i++) {
        fac__unref(o->entries.v[i].parameter);
        fac__unref(o->entries.v[i].master);
        for (size_t j = 0; j < o->n_state; j++) fac__unref(o->entries.v[i].state[j]);
    }
    if (o->whole) o->kind->whole->release(o->whole);
    fac__free(o->entries.v);
    fac__free(o->groups.v);
    fac__free(o->list.v);
    fac__set_free(&o->set);
    fac__free(o);
    fac__live_add(-1);
}

/* ---- groups --------------------------------------------------------------------------------------------------------------- */

static fac_status add_entry(fac_optimizer *o, fac_tensor *t) {
    FAC_CHECK(fac__is_leaf(t), FAC_ERR_AUTOGRAD, "can't optimise a non-leaf tensor");
    FAC_CHECK(!fac__set_has(&o->set, t), FAC_ERR_ARGUMENT, "a parameter appears in more than one group");
    FAC_TRY(FAC_VEC_GROW(&o->entries));
    FAC_TRY(FAC_VEC_GROW(&o->list));
    FAC_TRY(fac__set_add(&o->set, t));
    o->list.v[o->list.n++] = fac__handle(t);
    o->entries.v[o->entries.n++] = (fac_optim_entry){.parameter = fac__ref(t), .group = o->groups.n};
    return FAC_OK;
}

static void remove_last_entry(fac_optimizer *o) {
    fac_tensor *t = o->entries.v[--o->entries.n].parameter;
    o->list.n--;
    fac__set_remove(&o->set, t);
    fac__unref(t);
}

static fac_status add_entries(fac_optimizer *o, fac_tensors parameters) {
    FAC_TRY(FAC_VEC_GROW(&o->groups));
    for (size_t i = 0; i < parameters.n; i++) FAC_TRY(add_entry(o, parameters.v[i]));
    return FAC_OK;
}

/* Parameters are handles. All or none are added. */
static fac_status add_group(fac_optimizer *o, fac_tensors parameters, const fac_optim_group *g) {
    const size_t before = o->entries.n;
    fac_handle_list open;
    fac_status st = fac__open_list(&open, parameters, false, "fac_optimizer", "parameter");
    if (st == FAC_OK) st = add_entries(o, open.l);
    fac__handle_list_free(&open);
    if (st == FAC_OK) o->groups.v[o->groups.n++] = *g;
    while (st && o->entries.n > before) remove_last_entry(o);
    return st;
}

fac_status fac_optimizer_add_group(fac_optimizer *o, fac_tensors parameters, fac_options options) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o && (parameters.v || !parameters.n), FAC_ERR_ARGUMENT,
              "the optimiser or the array of parameters is NULL");
    FAC_CHECK(!o->kind || !o->kind->whole, FAC_ERR_UNSUPPORTED, "%s has one group of parameters", o->cls->name);
    fac_optim_group g;
    memcpy(g.options, o->defaults, sizeof g.options);
    FAC_TRY(fac__optim_take_options(o, &g, options));
    return add_group(o, parameters, &g);
}

/* The parameters of a module, while an optimiser takes them. */
typedef struct module_parameters {
    fac_state *state;
    fac_tensor **v;
} module_parameters;

/* Fills room, which is freed with free_parameters; none, with an error pending, if there are none. */
static fac_tensors parameters_of(fac_module *m, module_parameters *room) {
    *room = (module_parameters){.state = fac__given(m, "module to optimise") ? fac_module_parameters(m) : NULL};
    const size_t n = room->state ? room->state->n : 0;
    if (room->state && !n) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "the optimiser got a module without parameters");
    if (n) room->v = fac__alloc_array(n, sizeof *room->v);
    for (size_t i = 0; room->v && i < n; i++) room->v[i] = room->state->v[i].tensor;
    return (fac_tensors){room->v, room->v ? n : 0};
}

static void free_parameters(module_parameters *room) {
    fac__free(room->v);
    fac_state_free(room->state);
}

fac_status fac_optimizer_add_module(fac_optimizer *o, fac_module *m, fac_options options) {
    if (fac_error()) return fac_error();
    module_parameters room;
    const fac_tensors parameters = parameters_of(m, &room);
    const fac_status st = parameters.n ? fac_optimizer_add_group(o, parameters, options) : fac_error();
    free_parameters(&room);
    return st;
}

size_t fac_optimizer_group_count(const fac_optimizer *o) { return fac__given(o, "optimiser") ? o->groups.n : 0; }

fac_tensors fac_optimizer_parameters(fac_optimizer *o) {
    return fac__given(o, "optimiser") ? (fac_tensors){o->list.v, o->list.n} : (fac_tensors){NULL, 0};
}

fac_tensors fac_optimizer_group(fac_optimizer *o, size_t group) {
    size_t begin = 0, end;
    if (group >= fac_optimizer_group_count(o)) {
        if (o) (void)FAC_FAIL(FAC_ERR_INDEX, "group %zu is out of range: the optimiser has %zu", group, o->groups.n);
        return (fac_tensors){NULL, 0};
    }
    while (begin < o->entries.n && o->entries.v[begin].group != group) begin++;
    for (end = begin; end < o->entries.n && o->entries.v[end].group == group;) end++;
    return (fac_tensors){o->list.v + begin, end - begin};
}

const fac_optimizer_class *fac_optimizer_class_of(const fac_optimizer *o) {
    return fac__given(o, "optimiser") ? o->cls : NULL;
}

/* ---- making -------------------------------------------------------------------------------------------------------------- */

/* With the defaults of the class, and without groups; NULL on failure. */
static fac_optimizer *make(const fac_optimizer_class *cls) {
    size_t n_options, n_state;
    if (fac_init() || fac__optim_check_class(cls, &n_options, &n_state)) return NULL;
    fac_optimizer *o = fac__alloc_zero(sizeof *o);
    if (!o) return NULL;
    fac__live_add(1);
    o->cls = cls;
    o->kind = fac__optim_kind_of(cls);
    o->n_options = n_options;
    o->n_state = n_state;
    for (size_t i = 0; i < n_options; i++) o->defaults[i] = cls->options[i].value;
    return o;
}

static fac_status begin(fac_optimizer *o, fac_tensors parameters, fac_options options) {
    fac_optim_group g;
    FAC_CHECK(parameters.n, FAC_ERR_ARGUMENT, "the optimiser got no parameters");
    memcpy(g.options, o->defaults, sizeof g.options);
    FAC_TRY(fac__optim_take_options(o, &g, options));
    memcpy(o->defaults, g.options, sizeof g.options);
    return add_group(o, parameters, &g);
}

fac_optimizer *fac_optimizer_of(const fac_optimizer_class *cls, fac_tensors parameters, fac_options options) {
    fac_optimizer *o = fac_error() ? NULL : make(cls);
    if (!o || begin(o, parameters, options) == FAC_OK) return o;
    fac_optimizer_release(o);
    return NULL;
}

fac_optimizer *fac_optimizer_new(const fac_optimizer_class *cls, fac_module *m, fac_options options) {
    if (fac_error()) return NULL;
    module_parameters room;
    const fac_tensors parameters = parameters_of(m, &room);
    fac_optimizer *o = parameters.n ? fac_optimizer_of(cls, parameters, options) : NULL;
    free_parameters(&room);
    return o;
}

/* ---- for the kinds ---- */

static fac_options named(const fac_optimizer_class *cls, const double *values, fac_option *room) {
    size_t n = 0;
    for (; cls->options[n].name; n++) room[n] = (fac_option){cls->options[n].name, values[n]};
    return (fac_options){room, n};
}

fac_optimizer *fac__optim_new(const fac_optimizer_class *cls, fac_module *m, const double *values) {
    fac_option room[FAC_OPTIMIZER_MAX_OPTIONS];
    FAC_ASSERT(fac__optim_kind_of(cls));
    return fac_optimizer_new(cls, m, named(cls, values, room));
}

fac_optimizer *fac__optim_of(const fac_optimizer_class *cls, fac_tensors parameters, const double *values) {
    fac_option room[FAC_OPTIMIZER_MAX_OPTIONS];
    FAC_ASSERT(fac__optim_kind_of(cls));
    return fac_optimizer_of(cls, parameters, named(cls, values, room));
}
