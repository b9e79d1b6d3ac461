/* What all optimisers share: groups, stepping, state. */
#include "optim/optimizer.h"

void fac_optimizer_release(fac_optimizer *o) {
    if (!o) return;
    for (size_t i = 0; i < o->entries.n; i++) {
        fac__unref(o->entries.v[i].parameter);
        for (int j = 0; j < FAC_OPTIM_BUFFERS; j++) fac__unref(o->entries.v[i].buffers[j]);
    }
    fac__free(o->entries.v);
    fac__free(o->groups.v);
    fac__free(o->list);
    fac__free(o);
    fac__live_add(-1);
}

static fac_status add_entry(fac_optimizer *o, fac_tensor *t) {
    FAC_TRY(fac__check_handle(t, "fac_optimizer", "parameter"));
    FAC_CHECK(fac_is_leaf(t), FAC_ERR_AUTOGRAD, "can't optimise a non-leaf tensor");
    for (size_t i = 0; i < o->entries.n; i++)
        FAC_CHECK(o->entries.v[i].parameter != t, FAC_ERR_ARGUMENT, "a parameter appears in more than one group");
    FAC_TRY(FAC_VEC_GROW(&o->entries));
    o->entries.v[o->entries.n++] = (fac_optim_entry){.parameter = fac__ref(t), .group = o->groups.n};
    return FAC_OK;
}

static fac_status add_group(fac_optimizer *o, fac_tensors parameters, double lr, double weight_decay) {
    FAC_CHECK(lr >= 0, FAC_ERR_ARGUMENT, "invalid learning rate: %g", lr);
    FAC_TRY(FAC_VEC_GROW(&o->groups));
    for (size_t i = 0; i < parameters.n; i++) FAC_TRY(add_entry(o, parameters.v[i]));
    fac_tensor **list = fac__alloc_array(o->entries.n + 1, sizeof *list);
    if (!list) return fac_error();
    for (size_t i = 0; i < o->entries.n; i++) list[i] = o->entries.v[i].parameter;
    fac__free(o->list);
    o->list = list;
    o->groups.v[o->groups.n++] = (fac_optim_group){lr, lr, weight_decay};
    return FAC_OK;
}

fac_status fac_optimizer_add_group(fac_optimizer *o, fac_tensors parameters, double lr, double weight_decay) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o && (parameters.v || !parameters.n), FAC_ERR_ARGUMENT,
              "the optimiser or the array of parameters is NULL");
    const size_t before = o->entries.n;
    fac_status st = add_group(o, parameters, lr, weight_decay < 0 ? o->groups.v[0].weight_decay : weight_decay);
    while (st && o->entries.n > before) fac__unref(o->entries.v[--o->entries.n].parameter);
    return st;
}

fac_optimizer *fac__optim_new(const fac_optim_class *cls, fac_module *m, double lr, double weight_decay) {
    if (!m) FAC_FAIL(FAC_ERR_ARGUMENT, "the module to optimise is NULL");
    fac_state *s = m ? fac_module_parameters(m, false) : NULL;
    fac_optimizer *o = s ? fac__alloc_zero(sizeof *o) : NULL;
    fac_tensor **v = o ? fac__alloc_array(s->n + 1, sizeof *v) : NULL;
    if (o) {
        o->cls = cls;
        fac__live_add(1);
    }
    if (v) {
        for (size_t i = 0; i < s->n; i++) v[i] = s->v[i].tensor;
        if (!s->n)
            FAC_FAIL(FAC_ERR_ARGUMENT, "the optimiser got a module without parameters");
        else
            (void)add_group(o, (fac_tensors){v, s->n}, lr, weight_decay);
    }
    fac__free(v);
    fac_state_free(s);
    if (!fac_error()) return o;
    fac_optimizer_release(o);
    return NULL;
}

/* ---- stepping ---- */

fac_status fac__optim_buffer(fac_optim_entry *e, int i) {
    if (e->buffers[i]) return FAC_OK;
    fac_tensor *t = NULL;
    FAC_TRY(fac__empty_strided(e->parameter->sizes, e->parameter->strides, e->parameter->ndim,
                               (fac_dtype)e->parameter->dtype, e->parameter->device, &t));
    if (!fac_zero_(t)) {
        fac__unref(t);
        return fac_error();
    }
    e->buffers[i] = t;
    return FAC_OK;
}

/* The gradient laid out as the parameter. */
static fac_tensor *aligned_grad(fac_tensor *p, fac_tensor *g) {
    if (g->dtype == p->dtype && memcmp(g->strides, p->strides, p->ndim * sizeof *g->strides) == 0) return g;
    fac_tensor *t = NULL;
    if (fac__empty_strided(p->sizes, p->strides, p->ndim, (fac_dtype)p->dtype, p->device, &t)) return NULL;
    t = fac__adopt(fac__thread(), t);
    return t ? fac_copy_(t, g) : NULL;
}

fac_status fac_optimizer_step(fac_optimizer *o) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o != NULL, FAC_ERR_ARGUMENT, "the optimiser is NULL");
    FAC_NO_GRAD(g);
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_optim_entry *e = &o->entries.v[i];
        fac_tensor *grad = fac_grad_of(e->parameter);
        if (!grad) continue;
        fac_scope s = fac_scope_begin();
        grad = aligned_grad(e->parameter, grad);
        fac_status st = grad ? o->cls->step(o, e, &o->groups.v[e->group], grad) : fac_error();
        fac_scope_end(&s);
        if (st) return st;
        e->step++;
    }
    return FAC_OK;
}

void fac_optimizer_zero_grad(fac_optimizer *o) {
    fac_saved_error *pending = fac__error_take();
    for (size_t i = 0; o && i < o->entries.n; i++)
        if (fac_set_grad(o->entries.v[i].parameter, NULL)) break;
    if (pending) {
        fac_error_clear();
        fac__error_restore(pending);
    }
}

static bool is_there(const fac_optimizer *o) { return fac__given(o, "optimiser"); }

double fac_optimizer_lr(const fac_optimizer *o) { return is_there(o) ? o->groups.v[0].lr : 0; }

void fac_optimizer_set_lr(fac_optimizer *o, double lr) {
    if (!is_there(o)) return;
    if (!(lr >= 0)) {
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "invalid learning rate: %g", lr);
        return;
    }
    const double base = o->groups.v[0].initial_lr;
    for (size_t i = 0; i < o->groups.n; i++) {
        fac_optim_group *g = &o->groups.v[i];
        g->lr = i == 0 || base == 0 ? lr : lr * (g->initial_lr / base);
    }
}

fac_tensors fac_optimizer_parameters(fac_optimizer *o) {
    return is_there(o) ? (fac_tensors){o->list, o->entries.n} : (fac_tensors){NULL, 0};
}

/* ---- state ---- */

static fac_status put(fac_state *s, size_t i, const char *what, fac_tensor *t) {
    char *name = fac__format("%zu.%s", i, what);
    fac_status st = name ? fac_state_set(s, name, t) : fac_error();
    fac__free(name);
    return st;
}

static fac_status put_step(fac_state *s, size_t i, int64_t step) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__scalar_tensor(fac_scalar_i_(step), FAC_I64, &t));
    fac_status st = put(s, i, "step", t);
    fac__unref(t);
    return st;
}

fac_state *fac_optimizer_state_dict(fac_optimizer *o) {
    if (fac_error() || !is_there(o)) return NULL;
    fac_state *s = fac_state_new();
    fac_status st = s ? FAC_OK : fac_error();
    for (size_t i = 0; i < o->entries.n && !st; i++) {
        const fac_optim_entry *e = &o->entries.v[i];
        st = put_step(s, i, e->step);
        for (int j = 0; j < FAC_OPTIM_BUFFERS && !st; j++)
            if (e->buffers[j]) st = put(s, i, o->cls->buffers[j], e->buffers[j]);
    }
    if (!st) return s;
    fac_state_free(s);
    return NULL;
}

static fac_tensor *entry_of(const fac_state *s, size_t i, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%zu.%s", i, what);
    return fac_state_get(s, name);
}

/* Everything is looked at before anything changes. An entry that nothing takes is of another kind of optimiser, or of more
   parameters. */
static fac_status check_state(const fac_optimizer *o, const fac_state *s) {
    size_t taken = 0;
    for (size_t i = 0; i < o->entries.n; i++) {
        const fac_tensor *p = o->entries.v[i].parameter, *step = entry_of(s, i, "step");
        FAC_CHECK(step && step->numel == 1, FAC_ERR_NOT_FOUND, "the state has no step count for parameter %zu", i);
        taken++;
        for (int j = 0; j < FAC_OPTIM_BUFFERS && o->cls->buffers[j]; j++) {
            const fac_tensor *t = entry_of(s, i, o->cls->buffers[j]);
            taken += t != NULL;
            FAC_CHECK(!t || fac__same_sizes(t, p), FAC_ERR_SHAPE,
                      "%s of parameter %zu has shape %s in the state, but the parameter has %s", o->cls->buffers[j], i,
                      FAC_SHAPE_TEXT(t), FAC_SHAPE_TEXT(p));
        }
    }
    FAC_CHECK(taken == s->n, FAC_ERR_ARGUMENT, "the state has %zu entries, of which %s over %zu parameters knows %zu",
              s->n, o->cls->name, o->entries.n, taken);
    return FAC_OK;
}

fac_status fac_optimizer_load_state_dict(fac_optimizer *o, const fac_state *s) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o && s, FAC_ERR_ARGUMENT, "an optimiser or its state is NULL");
    FAC_TRY(check_state(o, s));
    FAC_NO_GRAD(g);
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_optim_entry *e = &o->entries.v[i];
        FAC_SCOPE(scope);
        e->step = fac_item_int(entry_of(s, i, "step"));
        for (int j = 0; j < FAC_OPTIM_BUFFERS && o->cls->buffers[j]; j++) {
            fac_tensor *t = entry_of(s, i, o->cls->buffers[j]);
            if (!t) {
                fac__unref(e->buffers[j]);
                e->buffers[j] = NULL;
                continue;
            }
            FAC_TRY(fac__optim_buffer(e, j));
            if (!fac_copy_(e->buffers[j], t)) return fac_error();
        }
    }
    return fac_error();
}
