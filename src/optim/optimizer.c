/* What all optimisers share: groups, stepping, state. */
#include "optim/optimizer.h"
#include "autograd/leaf.h"
#include "core/read.h"
#include "ops/optim.h"

void fac_optimizer_release(fac_optimizer *o) {
    if (!o) return;
    for (size_t i = 0; i < o->entries.n; i++) {
        fac__unref(o->entries.v[i].parameter);
        for (int j = 0; j < FAC_OPTIM_BUFFERS; j++) fac__unref(o->entries.v[i].buffers[j]);
    }
    fac__free(o->entries.v);
    fac__free(o->groups.v);
    fac__free(o->list.v);
    fac__set_free(&o->set);
    fac__free(o);
    fac__live_add(-1);
}

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

static fac_status add_group(fac_optimizer *o, fac_tensors parameters, fac_optim_group g) {
    FAC_CHECK(g.lr >= 0, FAC_ERR_ARGUMENT, "invalid learning rate: %g", g.lr);
    FAC_TRY(FAC_VEC_GROW(&o->groups));
    for (size_t i = 0; i < parameters.n; i++) FAC_TRY(add_entry(o, parameters.v[i]));
    g.initial_lr = g.lr;
    o->groups.v[o->groups.n++] = g;
    return FAC_OK;
}

fac_status fac_optimizer_add_group(fac_optimizer *o, fac_tensors parameters, double lr, double weight_decay) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o && (parameters.v || !parameters.n), FAC_ERR_ARGUMENT,
              "the optimiser or the array of parameters is NULL");
    const size_t before = o->entries.n;
    fac_optim_group g = o->groups.v[0];
    g.lr = lr;
    if (!(weight_decay < 0)) g.weight_decay = weight_decay;
    fac_handle_list open;
    fac_status st = fac__open_list(&open, parameters, false, "fac_optimizer", "parameter");
    if (st == FAC_OK) st = add_group(o, open.l, g);
    fac__handle_list_free(&open);
    while (st && o->entries.n > before) remove_last_entry(o);
    return st;
}

static fac_status add_parameters_of(fac_optimizer *o, const fac_state *s, fac_optim_group g) {
    FAC_CHECK(s->n > 0, FAC_ERR_ARGUMENT, "the optimiser got a module without parameters");
    fac_tensor **v = fac__alloc_array(s->n, sizeof *v);
    if (!v) return fac_error();
    for (size_t i = 0; i < s->n; i++) v[i] = fac__header(s->v[i].tensor);
    fac_status st = add_group(o, (fac_tensors){v, s->n}, g);
    fac__free(v);
    return st;
}

fac_optimizer *fac__optim_new(const fac_optim_class *cls, fac_module *m, fac_optim_group g) {
    if (!m) FAC_FAIL(FAC_ERR_ARGUMENT, "the module to optimise is NULL");
    fac_state *s = m ? fac_module_parameters(m, false) : NULL;
    fac_optimizer *o = s ? fac__alloc_zero(sizeof *o) : NULL;
    if (o) {
        o->cls = cls;
        fac__live_add(1);
        (void)add_parameters_of(o, s, g);
    }
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
    if (!fac__s_zero_(t)) {
        fac__unref(t);
        return fac_error();
    }
    e->buffers[i] = t;
    return FAC_OK;
}

static fac_status check_grad(const fac_tensor *p, const fac_tensor *grad) {
    FAC_CHECK(fac__same_sizes(p, grad), FAC_ERR_SHAPE, "a parameter of shape %s has a gradient of shape %s",
              FAC_SHAPE_TEXT(p), FAC_SHAPE_TEXT(grad));
    return FAC_OK;
}

/* The gradient laid out as the parameter, which may have got other data since the gradient was made. */
static fac_tensor *aligned_grad(fac_tensor *p, fac_tensor *g) {
    if (fac__optim_is_twin(p, g)) return g;
    FAC_TRY_NULL(check_grad(p, g));
    if (g->dtype == p->dtype && memcmp(g->strides, p->strides, p->ndim * sizeof *g->strides) == 0)
        return fac__optim_check_twin(p, g, "grad") ? NULL : g;
    fac_tensor *t = NULL;
    if (fac__empty_strided(p->sizes, p->strides, p->ndim, (fac_dtype)p->dtype, p->device, &t)) return NULL;
    t = fac__adopt(fac__thread(), t);
    return t ? fac__s_copy_(t, g, false) : NULL;
}

static fac_status make_buffers(const fac_optimizer *o, fac_optim_entry *e) {
    const int n = o->cls->buffers_of(&o->groups.v[e->group]);
    for (int i = 0; i < n; i++) {
        if (e->buffers[i]) continue;
        FAC_TRY(fac__optim_buffer(e, i));
        e->made |= 1u << i;
    }
    return FAC_OK;
}

/* Everything that can fail. */
static fac_status prepare(const fac_optimizer *o, fac_optim_entry *e) {
    fac_tensor *grad = fac__grad_of(e->parameter);
    e->grad = NULL;
    e->made = 0;
    if (!grad) return FAC_OK;
    FAC_TRY(fac__optim_check_parameter(e->parameter));
    FAC_TRY(make_buffers(o, e));
    grad = aligned_grad(e->parameter, grad);
    if (!grad) return fac_error();
    FAC_TRY(fac__version_make(e->parameter));
    for (int i = 0; i < FAC_OPTIM_BUFFERS; i++) {
        if (!e->buffers[i]) continue;
        FAC_TRY(fac__optim_check_twin(e->parameter, e->buffers[i], o->cls->buffers[i]));
        FAC_TRY(fac__version_make(e->buffers[i]));
    }
    e->grad = grad;
    return FAC_OK;
}

static void take_back(fac_optim_entry *e) {
    for (int i = 0; i < FAC_OPTIM_BUFFERS; i++) {
        if (!(e->made >> i & 1)) continue;
        fac__unref(e->buffers[i]);
        e->buffers[i] = NULL;
    }
    e->made = 0;
}

/* Prepares all parameters before the first is updated, so that a step that fails changes nothing. */
static fac_status prepare_all(fac_optimizer *o) {
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_status st = prepare(o, &o->entries.v[i]);
        for (; st; i--) {
            take_back(&o->entries.v[i]);
            if (i == 0) return st;
        }
    }
    return FAC_OK;
}

static fac_status update_all(fac_optimizer *o) {
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_optim_entry *e = &o->entries.v[i];
        if (!e->grad) continue;
        FAC_TRY(o->cls->step(o, e, &o->groups.v[e->group]));
        e->grad = NULL;
        e->step++;
    }
    return FAC_OK;
}

fac_status fac_optimizer_step(fac_optimizer *o) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o != NULL, FAC_ERR_ARGUMENT, "the optimiser is NULL");
    FAC_NO_GRAD(g);
    FAC_SCOPE(s);
    FAC_TRY(prepare_all(o));
    return update_all(o);
}

void fac_optimizer_zero_grad(fac_optimizer *o) {
    fac_saved_error *pending = fac__error_take();
    for (size_t i = 0; o && i < o->entries.n; i++)
        if (fac__set_grad(o->entries.v[i].parameter, NULL)) break;
    if (pending) {
        fac_error_clear();
        fac__error_restore(pending);
    }
}

static bool is_there(const fac_optimizer *o) { return fac__given(o, "optimiser"); }

/* The group whose rate stands for the optimiser's: the first that was not made at rate 0. Another rate for it multiplies those
   of all groups, so that a group made at rate 0 stays there, unless all were. */
static size_t leading_group(const fac_optimizer *o) {
    for (size_t i = 0; i < o->groups.n; i++)
        if (o->groups.v[i].initial_lr > 0) return i;
    return 0;
}

double fac_optimizer_lr(const fac_optimizer *o) { return is_there(o) ? o->groups.v[leading_group(o)].lr : 0; }

void fac_optimizer_set_lr(fac_optimizer *o, double lr) {
    if (!is_there(o)) return;
    if (!(lr >= 0)) {
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "invalid learning rate: %g", lr);
        return;
    }
    const double base = o->groups.v[leading_group(o)].initial_lr;
    for (size_t i = 0; i < o->groups.n; i++) {
        fac_optim_group *g = &o->groups.v[i];
        g->lr = g->initial_lr == base ? lr : lr * (g->initial_lr / base);
    }
}

fac_tensors fac_optimizer_parameters(fac_optimizer *o) {
    return is_there(o) ? (fac_tensors){o->list.v, o->list.n} : (fac_tensors){NULL, 0};
}
