/* Stepping: everything that can fail is done for all parameters before the first is updated. */
#include "autograd/leaf.h"
#include "core/handle.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include "ops/optim.h"
#include "optim/kind.h"
#include <facula/names.h>

/* ---- preparing ------------------------------------------------------------------------------------------------------------ */

bool fac__optim_form(const fac_optimizer *o, const fac_tensor *target, const double *options, size_t i,
                     fac_optim_form *out) {
    const fac_optim_kind *kind = o->kind;
    *out = (fac_optim_form){.ndim = target->ndim, .dtype = (fac_dtype)target->dtype, .device = target->device};
    if (kind && kind->numbers >> i & 1) {
        *out = (fac_optim_form){.dtype = FAC_F64, .device = fac_device_make(FAC_CPU, -1)};
        return true;
    }
    memcpy(out->sizes, target->sizes, target->ndim * sizeof *out->sizes);
    const bool kept = !kind || !kind->keeps || kind->keeps(options, i, out);
    if (memcmp(out->sizes, target->sizes, target->ndim * sizeof *out->sizes) == 0) out->strides = target->strides;
    return kept;
}

static fac_status empty_form(const fac_optim_form *f, fac_tensor **out) {
    return f->strides ? fac__empty_strided(f->sizes, f->strides, f->ndim, f->dtype, f->device, out)
                      : fac__empty(f->sizes, f->ndim, f->dtype, f->device, out);
}

fac_status fac__optim_make_state(const fac_optimizer *o, fac_optim_entry *e, size_t i) {
    if (e->state[i]) return FAC_OK;
    fac_tensor *t = NULL;
    fac_optim_form form;
    (void)fac__optim_form(o, fac__optim_target(e), o->groups.v[e->group].options, i, &form);
    FAC_TRY(empty_form(&form, &t));
    if (!fac__s_zero_(t)) {
        fac__unref(t);
        return fac_error();
    }
    e->state[i] = t;
    return FAC_OK;
}

bool fac__optim_wants_master(const fac_optimizer *o, const fac_tensor *parameter) {
    const fac_dtype d = (fac_dtype)parameter->dtype;
    return o->masters && fac_dtype_is_floating(d) && fac__dtype_size(d) == 2;
}

/* Owned, laid out as t, which is dense; NULL on failure. */
static fac_tensor *float32_copy(fac_tensor *t) {
    fac_tensor *copy = NULL;
    return fac__c_to_dtype(t, FAC_F32, false, false, FAC_PRESERVE, &copy) ? NULL : copy;
}

fac_status fac__optim_make_master(const fac_optimizer *o, fac_optim_entry *e) {
    const fac_tensor *p = e->parameter;
    if (e->master || !fac__optim_wants_master(o, p)) return FAC_OK;
    e->made_master = (e->master = float32_copy(e->parameter)) != NULL;
    return e->made_master ? FAC_OK : fac_error();
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

/* A class of the program's own sees for itself. */
static fac_status check_sparse(const fac_optimizer *o, const fac_optim_entry *e, const fac_tensor *grad) {
    FAC_TRY(check_grad(e->parameter, grad));
    if (!o->kind || !fac__sparse_of(grad)) return FAC_OK;
    FAC_CHECK(!e->master, FAC_ERR_UNSUPPORTED, "master weights take no sparse gradients");
    FAC_CHECK(o->kind->check_sparse, FAC_ERR_UNSUPPORTED,
              "%s does not take sparse gradients; to_dense makes a gradient strided", o->cls->name);
    return o->kind->check_sparse(o->groups.v[e->group].options);
}

static fac_status make_state(const fac_optimizer *o, fac_optim_entry *e) {
    const double *options = o->groups.v[e->group].options;
    size_t n = o->n_state;
    e->kept = 0;
    if (o->cls->state_count) FAC_CALLBACK(n = o->cls->state_count(options));
    FAC_CHECK(n <= o->n_state, FAC_ERR_ARGUMENT, "%s asks for %zu tensors, but names %zu", o->cls->name, n, o->n_state);
    for (size_t i = 0; i < n; i++) {
        fac_optim_form form;
        if (!fac__optim_form(o, fac__optim_target(e), options, i, &form)) continue;
        e->kept |= 1u << i;
        if (e->state[i]) continue;
        FAC_TRY(fac__optim_make_state(o, e, i));
        e->made |= 1u << i;
    }
    return FAC_OK;
}

/* What is kept may have got other data, or the parameter may have. */
static fac_status check_state(const fac_optimizer *o, const fac_optim_entry *e, size_t i) {
    const fac_tensor *t = e->state[i], *p = fac__optim_target(e);
    fac_optim_form form;
    if (FAC_LIKELY(fac__optim_is_twin(p, t))) return FAC_OK;
    (void)fac__optim_form(o, p, o->groups.v[e->group].options, i, &form);
    if (form.strides) return fac__optim_check_twin(p, t, o->cls->state[i]);
    FAC_CHECK(t->ndim == form.ndim && memcmp(t->sizes, form.sizes, (size_t)form.ndim * sizeof *form.sizes) == 0,
              FAC_ERR_SHAPE, "%s has the shape %s, which is not that of a parameter of shape %s", o->cls->state[i],
              FAC_SHAPE_TEXT(t), FAC_SHAPE_TEXT(p));
    FAC_CHECK(t->dtype == form.dtype, FAC_ERR_DTYPE, "%s is %s, but should be %s", o->cls->state[i],
              fac_dtype_name((fac_dtype)t->dtype), fac_dtype_name(form.dtype));
    FAC_CHECK(fac_device_equal(t->device, form.device), FAC_ERR_DEVICE, "%s is not on the parameter's device",
              o->cls->state[i]);
    return FAC_OK;
}

/* Everything that can fail. */
static fac_status prepare(const fac_optimizer *o, fac_optim_entry *e) {
    fac_tensor *grad = fac__grad_of(e->parameter);
    e->grad = NULL;
    e->made = 0;
    e->made_master = false;
    if (!grad) return FAC_OK;
    if (FAC_UNLIKELY(o->masters)) FAC_TRY(fac__optim_make_master(o, e));
    fac_tensor *target = fac__optim_target(e);
    FAC_TRY(check_parameter(o, target));
    if (FAC_UNLIKELY(grad->cls != NULL)) FAC_TRY(check_sparse(o, e, grad));
    FAC_CHECK(!o->kind || !o->kind->sparse_only || fac__sparse_of(grad), FAC_ERR_UNSUPPORTED,
              "%s does not take strided gradients; Adam does", o->cls->name);
    FAC_TRY(make_state(o, e));
    if (!o->kind || !fac__sparse_of(grad)) grad = aligned_grad(target, grad);
    if (!grad) return fac_error();
    FAC_TRY(fac__version_make(target));
    FAC_TRY(fac__version_make(e->parameter));
    for (size_t i = 0; i < o->n_state; i++) {
        fac_tensor *t = e->state[i];
        if (!t) continue;
        FAC_TRY(check_state(o, e, i));
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
    if (!e->made_master) return;
    fac__unref(e->master);
    e->master = NULL;
    e->made_master = false;
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
    for (size_t i = 0; i < o->n_state; i++) state[i] = e->kept >> i & 1 ? fac__handle(e->state[i]) : NULL;
    const fac_optimizer_update u = {fac__handle(fac__optim_target(e)), fac__handle(e->grad), state,
                                    o->groups.v[e->group].options,     e->step + 1,          e->made};
    fac_status st;
    FAC_CALLBACK(st = o->cls->step(&u));
    if (FAC_UNLIKELY(st)) return FAC_FAIL(st, "the step of %s failed without a message", o->cls->name);
    return !e->master || fac__s_copy_(e->parameter, e->master, false) ? FAC_OK : fac_error();
}

enum { GRADIENT, PARAMETER, STATE };
static fac_tensor **place(fac_optim_entry *e, size_t i) {
    return i == GRADIENT ? &e->grad : i == PARAMETER ? &e->parameter : &e->state[i - STATE];
}

static bool is_of_halves(const fac_optimizer *o, const fac_optim_entry *e) {
    return o->kind && o->kind->fused && fac__is_half((fac_dtype)fac__optim_target(e)->dtype) &&
           !fac__sparse_of(e->grad);
}

/* Steps float32 copies of halves, and rounds them into what they are copies of. */
static fac_status update_halves(const fac_optimizer *o, fac_optim_entry *e) {
    fac_optim_entry f = *e;
    for (size_t i = 0; i < STATE + o->n_state; i++) {
        fac_tensor **const t = place(&f, i);
        if (*t) *t = float32_copy(*t);
    }
    fac_status st = fac_error();
    if (!st) st = update(o, &f);
    for (size_t i = 0; i < STATE + o->n_state; i++) {
        fac_tensor *const t = *place(&f, i);
        if (t && i != GRADIENT && !st && !fac__s_copy_(*place(e, i), t, false)) st = fac_error();
        fac__unref(t);
    }
    return st;
}

/* What a step function leaves in the scope is freed before the next parameter. */
static fac_status update_all(fac_optimizer *o) {
    const fac_thread *th = fac__thread();
    FAC_SCOPE(s);
    const size_t begin = th->n_temps;
    for (size_t i = 0; i < o->entries.n; i++) {
        fac_optim_entry *e = &o->entries.v[i];
        if (!e->grad) continue;
        FAC_TRY(FAC_UNLIKELY(is_of_halves(o, e)) ? update_halves(o, e) : update(o, e));
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
    FAC_CHECK(!o->kind || !o->kind->whole, FAC_ERR_UNSUPPORTED,
              "%s computes the loss several times in a step: call fac_optimizer_step_closure", o->cls->name);
    FAC_NO_GRAD(g);
    FAC_NO_NAMES(masked);
    FAC_SCOPE(s);
    FAC_TRY(prepare_all(o));
    return update_all(o);
}

/* The loss of a closure, which may record. */
fac_status fac__optim_call_closure(fac_tensor *(*closure)(void *context), void *context, double *out) {
    FAC_ENABLE_GRAD(g);
    FAC_SCOPE(s);
    fac_tensor *loss;
    FAC_CALLBACK(loss = closure(context));
    FAC_CHECK(loss || fac_error(), FAC_ERR_ARGUMENT,
              "a closure returned NULL in the place of a loss, without an error");
    const double value = fac_item(loss);
    if (out) *out = value;
    return fac_error();
}

fac_status fac_optimizer_step_closure(fac_optimizer *o, fac_tensor *(*closure)(void *context), void *context,
                                      double *out_loss) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o != NULL, FAC_ERR_ARGUMENT, "the optimiser is NULL");
    if (!fac__given((const void *)(uintptr_t)closure, "closure of a step")) return fac_error();
    double loss = 0;
    if (o->kind && o->kind->whole) {
        FAC_NO_GRAD(g);
        FAC_NO_NAMES(masked);
        FAC_TRY(o->kind->whole->step(o, closure, context, &loss));
    } else {
        FAC_TRY(fac__optim_call_closure(closure, context, &loss));
        FAC_TRY(fac_optimizer_step(o));
    }
    if (out_loss) *out_loss = loss;
    return FAC_OK;
}

fac_status fac_optimizer_use_master_weights(fac_optimizer *o) {
    if (fac_error()) return fac_error();
    FAC_CHECK(o != NULL, FAC_ERR_ARGUMENT, "the optimiser is NULL");
    FAC_CHECK(!o->kind || !o->kind->whole, FAC_ERR_UNSUPPORTED, "%s keeps no master weights", o->cls->name);
    for (size_t i = 0; i < o->entries.n; i++)
        FAC_CHECK(o->masters || !o->entries.v[i].step, FAC_ERR_STATE,
                  "master weights are to be asked for before the first step, but parameter %zu has taken %lld", i,
                  (long long)o->entries.v[i].step);
    o->masters = true;
    return FAC_OK;
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
