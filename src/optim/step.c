/* Stepping: everything that can fail is done for all parameters before the first is updated. */
#include "autograd/leaf.h"
#include "core/handle.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include "ops/optim.h"
#include "optim/optimizer.h"
#include <facula/names.h>

/* ---- preparing ------------------------------------------------------------------------------------------------------------ */

fac_status fac__optim_make_state(fac_optim_entry *e, size_t i) {
    if (e->state[i]) return FAC_OK;
    fac_tensor *t = NULL;
    FAC_TRY(fac__empty_strided(e->parameter->sizes, e->parameter->strides, e->parameter->ndim,
                               (fac_dtype)e->parameter->dtype, e->parameter->device, &t));
    if (!fac__s_zero_(t)) {
        fac__unref(t);
        return fac_error();
    }
    e->state[i] = t;
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

static fac_status check_parameter(const fac_optimizer *o, const fac_tensor *p) {
    FAC_CHECK(fac__layout_of(p) == FAC_STRIDED, FAC_ERR_UNSUPPORTED,
              "a parameter should be strided, but has the layout %s; convert it where it is used",
              fac__layout_name(fac__layout_of(p)));
    FAC_CHECK(p->flags & FAC_TF_DENSE, FAC_ERR_SHAPE, "a parameter should not overlap itself or have gaps");
    fac_status st = FAC_OK;
    if (o->cls->check_parameter) FAC_CALLBACK(st = o->cls->check_parameter(fac__handle(p)));
    return FAC_LIKELY(!st) ? FAC_OK : FAC_FAIL(st, "%s refuses a parameter", o->cls->name);
}

static fac_status check_sparse(const fac_optimizer *o, const fac_optim_entry *e, const fac_tensor *grad) {
    FAC_TRY(check_grad(e->parameter, grad));
    return fac__sparse_of(grad) ? fac__optim_check_sparse(o->cls, o->groups.v[e->group].options) : FAC_OK;
}

static fac_status make_state(const fac_optimizer *o, fac_optim_entry *e) {
    e->kept = o->n_state;
    if (o->cls->state_count) FAC_CALLBACK(e->kept = o->cls->state_count(o->groups.v[e->group].options));
    FAC_CHECK(e->kept <= o->n_state, FAC_ERR_ARGUMENT, "%s asks for %zu tensors, but names %zu", o->cls->name, e->kept,
              o->n_state);
    for (size_t i = 0; i < e->kept; i++) {
        if (e->state[i]) continue;
        FAC_TRY(fac__optim_make_state(e, i));
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
    FAC_TRY(check_parameter(o, e->parameter));
    if (FAC_UNLIKELY(grad->cls != NULL)) FAC_TRY(check_sparse(o, e, grad));
    FAC_TRY(make_state(o, e));
    grad = aligned_grad(e->parameter, grad);
    if (!grad) return fac_error();
    FAC_TRY(fac__version_make(e->parameter));
    for (size_t i = 0; i < o->n_state; i++) {
        fac_tensor *t = e->state[i];
        if (!t) continue;
        if (FAC_UNLIKELY(!fac__optim_is_twin(e->parameter, t)))
            FAC_TRY(fac__optim_check_twin(e->parameter, t, o->cls->state[i]));
        FAC_TRY(fac__version_make(t));
    }
    e->grad = grad;
    return FAC_OK;
}

static void take_back(fac_optim_entry *e) {
    for (size_t i = 0; i < FAC_OPTIMIZER_MAX_STATE; i++) {
        if (!(e->made >> i & 1)) continue;
        fac__unref(e->state[i]);
        e->state[i] = NULL;
    }
    e->made = 0;
}

/* Prepares all parameters before the first is updated, so that a step that fails changes nothing. */
static fac_status prepare_all(fac_optimizer *o) {
    fac_status st = FAC_OK;
    size_t n = 0;
    while (n < o->entries.n && !st) st = prepare(o, &o->entries.v[n++]);
    if (!st) st = fac_error();
    while (st && n > 0) take_back(&o->entries.v[--n]);
    return st;
}

/* ---- updating ------------------------------------------------------------------------------------------------------------- */

static fac_status update(const fac_optimizer *o, const fac_optim_entry *e) {
    fac_tensor *state[FAC_OPTIMIZER_MAX_STATE];
    for (size_t i = 0; i < o->n_state; i++) state[i] = i < e->kept ? fac__handle(e->state[i]) : NULL;
    const fac_optimizer_update u = {fac__handle(e->parameter),     fac__handle(e->grad), state,
                                    o->groups.v[e->group].options, e->step + 1,          e->made};
    fac_status st;
    FAC_CALLBACK(st = o->cls->step(&u));
    return FAC_LIKELY(!st) ? FAC_OK : FAC_FAIL(st, "the step of %s failed without a message", o->cls->name);
}

/* What a step function leaves in the scope is freed before the next parameter. */
static fac_status update_all(fac_optimizer *o) {
    const fac_thread *th = fac__thread();
    FAC_SCOPE(s);
    const size_t begin = th->n_temps;
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_optim_entry *e = &o->entries.v[i];
        if (!e->grad) continue;
        FAC_TRY(update(o, e));
        e->grad = NULL;
        e->step++;
        if (FAC_LIKELY(th->n_temps == begin)) continue;
        fac_scope_end(&s);
        s = fac_scope_begin();
    }
    return fac_error();
}

fac_status fac_optimizer_step(fac_optimizer *o) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o != NULL, FAC_ERR_ARGUMENT, "the optimiser is NULL");
    FAC_NO_GRAD(g);
    FAC_NO_NAMES(masked);
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
