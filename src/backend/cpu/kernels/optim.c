/* Fused optimiser steps on the CPU, over lists of parameters and over one. Of a list the elements of all parameters are one range, cut
   into chunks by number alone, so that a hundred small parameters cost one pass over the threads. Everything is checked, and what differs
   between parameters (the corrections of their step) computed, before the first element is written. f16 and bf16 go through tiles of
   float32. */
#include "backend/cpu/kernels/optim.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/pointwise.h"
#include "ops/optim.h"
#include "ops_gen.h"
#include <math.h>
#include <stdlib.h>

enum { PARAMETER, GRADIENT, STATE, TENSORS = STATE + 3 };

/* One parameter and what goes with it; t[i] NULL: not kept. */
typedef struct place {
    const fac_tensor *t[TENSORS];
    int64_t end; /* of its elements in the range of all */
    union {
        fac_sgd_step sgd;
        fac_adam_step adam;
        fac_adagrad_step adagrad;
    } step;
} place;

/* Runs the step over n elements that lie at p, in one of two precisions. */
typedef void (*step_f32)(const place *at, float *const p[TENSORS], int64_t n);
typedef void (*step_f64)(const place *at, double *const p[TENSORS], int64_t n);

typedef struct job {
    place *places;
    size_t n;
    step_f32 f32;
    step_f64 f64;
    double grad_scale; /* gradients are divided by it, and written; 0: they are not scaled */
} job;

/* ---- running ---------------------------------------------------------------------------------------------------------------- */

static void run_f32(const job *j, const place *at, float *const p[TENSORS], int64_t n) {
    if (j->grad_scale != 0) FAC_ISA_PICK(fac__unscale_f32)(p[GRADIENT], n, (float)j->grad_scale);
    j->f32(at, p, n);
}

static void run_f64(const job *j, const place *at, double *const p[TENSORS], int64_t n) {
    if (j->grad_scale != 0) FAC_ISA_PICK(fac__unscale_f64)(p[GRADIENT], n, j->grad_scale);
    j->f64(at, p, n);
}

static void *data_at(const place *at, int k, int64_t begin) {
    if (!at->t[k]) return NULL;
    return (char *)fac__data(at->t[k]) + begin * fac__dtype_size((fac_dtype)at->t[k]->dtype);
}

/* A tile of halves: converted, computed with and rounded once. */
static void run_tile(const job *j, const place *at, int64_t begin, int64_t n) {
    float room[TENSORS][FAC_TILE], *p[TENSORS];
    const fac_dtype d = (fac_dtype)at->t[PARAMETER]->dtype;
    for (int k = 0; k < TENSORS; k++) {
        p[k] = at->t[k] ? room[k] : NULL;
        if (p[k]) fac__tile_load(FAC_ACC_F32, p[k], data_at(at, k, begin), d, 1, n);
    }
    run_f32(j, at, p, n);
    for (int k = 0; k < TENSORS; k++)
        if (p[k] && (k != GRADIENT || j->grad_scale != 0))
            fac__tile_store(FAC_ACC_F32, p[k], data_at(at, k, begin), d, 1, n);
}

/* Elements [begin, end) of one parameter. */
static void run_place(const job *j, const place *at, int64_t begin, int64_t end) {
    const fac_dtype d = (fac_dtype)at->t[PARAMETER]->dtype;
    if (fac__is_half(d)) {
        for (int64_t i = begin; i < end; i += FAC_TILE) run_tile(j, at, i, fac__min(FAC_TILE, end - i));
        return;
    }
    /* with a scale a gradient is read again while it is in the cache */
    const int64_t most = j->grad_scale != 0 ? FAC_TILE : end - begin;
    for (int64_t i = begin, n; i < end; i += n) {
        void *p[TENSORS];
        n = fac__min(most, end - i);
        for (int k = 0; k < TENSORS; k++) p[k] = data_at(at, k, i);
        if (d == FAC_F32)
            run_f32(j, at, (float *const *)(void *)p, n);
        else
            run_f64(j, at, (double *const *)(void *)p, n);
    }
}

static fac_status run_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (size_t k = fac__list_entry(&j->places->end, sizeof *j->places, j->n, begin); begin < end; k++) {
        const int64_t first = k ? j->places[k - 1].end : 0, stop = fac__min(end, j->places[k].end);
        if (begin < stop) run_place(j, &j->places[k], begin - first, stop - first);
        begin = fac__max(begin, stop);
    }
    return FAC_OK;
}

/* ---- checking --------------------------------------------------------------------------------------------------------------- */

typedef struct span {
    uintptr_t begin, end;
} span;

static int by_begin(const void *a, const void *b) {
    const uintptr_t x = ((const span *)a)->begin, y = ((const span *)b)->begin;
    return (x > y) - (x < y);
}

/* No tensor lies over another, as threads walk them in no order. */
static fac_status check_apart(const job *j) {
    size_t n = 0;
    span *v = fac__alloc_array(j->n * TENSORS + 1, sizeof *v);
    if (!v) return fac_error();
    for (size_t i = 0; i < j->n; i++)
        for (int k = 0; k < TENSORS; k++) {
            const fac_tensor *t = j->places[i].t[k];
            if (!t || !t->numel) continue;
            const uintptr_t at = (uintptr_t)fac__data(t);
            v[n++] = (span){at, at + (uintptr_t)t->numel * (uintptr_t)fac__dtype_size((fac_dtype)t->dtype)};
        }
    qsort(v, n, sizeof *v, by_begin);
    bool apart = true;
    for (size_t i = 1; i < n && apart; i++) apart = v[i].begin >= v[i - 1].end;
    fac__free(v);
    FAC_CHECK(apart, FAC_ERR_ARGUMENT, "two of the parameters, gradients and states share memory");
    return FAC_OK;
}

static fac_status check_parameter(const fac_tensor *t) {
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)t->dtype), FAC_ERR_DTYPE, "optimisers take floating parameters, not %s",
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(t->flags & FAC_TF_DENSE, FAC_ERR_SHAPE, "a parameter should not overlap itself or have gaps");
    return FAC_OK;
}

static fac_status check_place(const place *at, const char *const names[TENSORS]) {
    FAC_TRY(fac__check_writable((fac_tensor *)(uintptr_t)at->t[PARAMETER]));
    FAC_TRY(check_parameter(at->t[PARAMETER]));
    for (int k = GRADIENT; k < TENSORS; k++) FAC_TRY(fac__optim_check_twin(at->t[PARAMETER], at->t[k], names[k]));
    return FAC_OK;
}

/* The number that a tensor of one element holds. */
static fac_status number_of(const char *name, const fac_tensor *t, double *out) {
    double part[2];
    FAC_CHECK(t->numel == 1, FAC_ERR_SHAPE, "%s should have one element, but has sizes %s", name, FAC_SHAPE_TEXT(t));
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)t->dtype) && t->dtype != FAC_BOOL, FAC_ERR_DTYPE,
              "%s should be a real number, not %s", name, fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(fac__is_cpu(t), FAC_ERR_DEVICE, "%s should be on the parameters' device", name);
    *out = fac__scalar_f64(fac__load(fac__data(t), (fac_dtype)t->dtype, part));
    return FAC_OK;
}

/* The lists of a call, in the order of a place's tensors; without an array: none is kept. */
typedef struct call {
    fac_tensors lists[TENSORS];
    const char *names[TENSORS];
    fac_tensors steps; /* of Adam and Adagrad */
    fac_tensor *lr;    /* NULL: a number was given */
    fac_tensor *grad_scale, *found_inf;
    step_f32 f32;
    step_f64 f64;
} call;

static fac_status check_lengths(const call *c) {
    const size_t n = c->lists[PARAMETER].n;
    for (int k = GRADIENT; k < TENSORS; k++)
        FAC_CHECK(c->lists[k].n == n || !c->names[k], FAC_ERR_ARGUMENT,
                  "%s has %zu entries, but there are %zu parameters", c->names[k], c->lists[k].n, n);
    return FAC_OK;
}

/* Fills the job's places. */
static fac_status take_places(const call *c, job *j) {
    int64_t end = 0;
    for (size_t i = 0; i < j->n; i++) {
        place *at = &j->places[i];
        for (int k = 0; k < TENSORS; k++) at->t[k] = c->names[k] ? c->lists[k].v[i] : NULL;
        FAC_TRY(check_place(at, c->names));
        FAC_CHECK(fac__add(end, at->t[PARAMETER]->numel, &end), FAC_ERR_OVERFLOW, "there are too many elements");
        at->end = end;
    }
    return check_apart(j);
}

/* Checks the call and makes its job, whose places the caller fills with the steps and frees. *out_skip: the gradients are not finite,
   and nothing is to be done. */
static fac_status prepare(const call *c, double *lr, job *j, bool *out_skip) {
    double found = 0;
    *j = (job){.n = c->lists[PARAMETER].n, .f32 = c->f32, .f64 = c->f64};
    FAC_TRY(check_lengths(c));
    if (c->lr) FAC_TRY(number_of("lr", c->lr, lr));
    if (c->grad_scale) FAC_TRY(number_of("grad_scale", c->grad_scale, &j->grad_scale));
    if (c->found_inf) FAC_TRY(number_of("found_inf", c->found_inf, &found));
    FAC_CHECK(!c->grad_scale || j->grad_scale != 0, FAC_ERR_ARGUMENT, "grad_scale should not be zero");
    j->places = fac__alloc_array(j->n + 1, sizeof *j->places);
    if (!j->places) return fac_error();
    *out_skip = found == 1;
    return take_places(c, j);
}

/* The step of a parameter, which counts from 1. */
static fac_status step_of(const call *c, size_t i, double *out) {
    FAC_TRY(number_of("an entry of state_steps", c->steps.v[i], out));
    FAC_CHECK(*out >= 1, FAC_ERR_ARGUMENT, "steps count from 1, but entry %zu of state_steps is %g", i, *out);
    return FAC_OK;
}

static fac_status run_and_free(job *j, fac_status st, bool skip) {
    if (!st && !skip && j->n) st = fac__parallel_for(0, j->places[j->n - 1].end, FAC_GRAIN, run_range, j);
    fac__free(j->places);
    return st;
}

/* ---- SGD -------------------------------------------------------------------------------------------------------------------- */

static void sgd_f32(const place *at, float *const p[TENSORS], int64_t n) {
    FAC_ISA_PICK(fac__sgd_f32)(p[PARAMETER], p[GRADIENT], p[STATE], n, &at->step.sgd);
}
static void sgd_f64(const place *at, double *const p[TENSORS], int64_t n) {
    FAC_ISA_PICK(fac__sgd_f64)(p[PARAMETER], p[GRADIENT], p[STATE], n, &at->step.sgd);
}

static fac_status sgd(call c, fac_sgd_step s) {
    job j;
    bool skip = false;
    c.f32 = sgd_f32, c.f64 = sgd_f64;
    c.names[PARAMETER] = "self", c.names[GRADIENT] = "grads";
    c.names[STATE] = s.momentum != 0 ? "momentum_buffer_list" : NULL;
    const fac_status st = prepare(&c, &s.lr, &j, &skip);
    for (size_t i = 0; i < j.n && !st; i++) j.places[i].step.sgd = s;
    return run_and_free(&j, st, skip);
}

fac_status fused_sgd_list_cpu(const fac_call_info *c, fac_tensors self, fac_tensors grads,
                              fac_tensors momentum_buffer_list, double weight_decay, double momentum, double lr,
                              double dampening, bool nesterov, bool maximize, bool is_first_step,
                              fac_tensor *grad_scale, fac_tensor *found_inf) {
    (void)c;
    return sgd((call){.lists = {self, grads, momentum_buffer_list}, .grad_scale = grad_scale, .found_inf = found_inf},
               (fac_sgd_step){lr, weight_decay, momentum, dampening, maximize ? -1 : 1, nesterov, is_first_step});
}

fac_status fused_sgd_list_lr_cpu(const fac_call_info *c, fac_tensors self, fac_tensors grads,
                                 fac_tensors momentum_buffer_list, double weight_decay, double momentum, fac_tensor *lr,
                                 double dampening, bool nesterov, bool maximize, bool is_first_step,
                                 fac_tensor *grad_scale, fac_tensor *found_inf) {
    (void)c;
    return sgd(
        (call){
            .lists = {self, grads, momentum_buffer_list}, .lr = lr, .grad_scale = grad_scale, .found_inf = found_inf},
        (fac_sgd_step){0, weight_decay, momentum, dampening, maximize ? -1 : 1, nesterov, is_first_step});
}

/* ---- Adam and AdamW --------------------------------------------------------------------------------------------------------- */

static void adam_f32(const place *at, float *const p[TENSORS], int64_t n) {
    FAC_ISA_PICK(fac__adam_f32)(p[PARAMETER], p[GRADIENT], p[STATE], p[STATE + 1], p[STATE + 2], n, &at->step.adam);
}
static void adam_f64(const place *at, double *const p[TENSORS], int64_t n) {
    FAC_ISA_PICK(fac__adam_f64)(p[PARAMETER], p[GRADIENT], p[STATE], p[STATE + 1], p[STATE + 2], n, &at->step.adam);
}

static fac_status adam_steps(const call *c, const job *j, fac_adam_step s) {
    for (size_t i = 0; i < j->n; i++) {
        double step;
        FAC_TRY(step_of(c, i, &step));
        s.correction1 = 1 - pow(s.beta1, step);
        s.correction2_sqrt = sqrt(1 - pow(s.beta2, step));
        j->places[i].step.adam = s;
    }
    return FAC_OK;
}

static fac_status adam(call c, fac_adam_step s, bool amsgrad) {
    job j;
    bool skip = false;
    c.f32 = adam_f32, c.f64 = adam_f64;
    static const char *const names[TENSORS] = {"self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"};
    memcpy(c.names, names, sizeof names);
    if (!amsgrad) c.names[STATE + 2] = NULL;
    FAC_CHECK(c.steps.n == c.lists[PARAMETER].n, FAC_ERR_ARGUMENT,
              "state_steps has %zu entries, but there are %zu parameters", c.steps.n, c.lists[PARAMETER].n);
    fac_status st = prepare(&c, &s.lr, &j, &skip);
    if (!st && !skip) st = adam_steps(&c, &j, s);
    return run_and_free(&j, st, skip);
}

#define ADAM(name, decoupled)                                                                                          \
    fac_status name##_list_cpu(const fac_call_info *c, fac_tensors self, fac_tensors grads, fac_tensors exp_avgs,      \
                               fac_tensors exp_avg_sqs, fac_tensors max_exp_avg_sqs, fac_tensors state_steps,          \
                               double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,   \
                               bool maximize, fac_tensor *grad_scale, fac_tensor *found_inf) {                         \
        (void)c;                                                                                                       \
        return adam((call){.lists = {self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs},                             \
                           .steps = state_steps,                                                                       \
                           .grad_scale = grad_scale,                                                                   \
                           .found_inf = found_inf},                                                                    \
                    (fac_adam_step){lr, beta1, beta2, weight_decay, eps, maximize ? -1 : 1, 0, 0, decoupled},          \
                    amsgrad);                                                                                          \
    }                                                                                                                  \
    fac_status name##_list_lr_cpu(const fac_call_info *c, fac_tensors self, fac_tensors grads, fac_tensors exp_avgs,   \
                                  fac_tensors exp_avg_sqs, fac_tensors max_exp_avg_sqs, fac_tensors state_steps,       \
                                  fac_tensor *lr, double beta1, double beta2, double weight_decay, double eps,         \
                                  bool amsgrad, bool maximize, fac_tensor *grad_scale, fac_tensor *found_inf) {        \
        (void)c;                                                                                                       \
        return adam((call){.lists = {self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs},                             \
                           .steps = state_steps,                                                                       \
                           .lr = lr,                                                                                   \
                           .grad_scale = grad_scale,                                                                   \
                           .found_inf = found_inf},                                                                    \
                    (fac_adam_step){0, beta1, beta2, weight_decay, eps, maximize ? -1 : 1, 0, 0, decoupled}, amsgrad); \
    }
ADAM(fused_adam, false)
ADAM(fused_adamw, true)

/* ---- Adagrad ---------------------------------------------------------------------------------------------------------------- */

static void adagrad_f32(const place *at, float *const p[TENSORS], int64_t n) {
    FAC_ISA_PICK(fac__adagrad_f32)(p[PARAMETER], p[GRADIENT], p[STATE], n, &at->step.adagrad);
}
static void adagrad_f64(const place *at, double *const p[TENSORS], int64_t n) {
    FAC_ISA_PICK(fac__adagrad_f64)(p[PARAMETER], p[GRADIENT], p[STATE], n, &at->step.adagrad);
}

static fac_status adagrad_steps(const call *c, const job *j, fac_adagrad_step s, double lr, double lr_decay) {
    for (size_t i = 0; i < j->n; i++) {
        double step;
        FAC_TRY(step_of(c, i, &step));
        s.lr = lr / (1 + (step - 1) * lr_decay);
        j->places[i].step.adagrad = s;
    }
    return FAC_OK;
}

static fac_status adagrad(call c, fac_adagrad_step s, double lr, double lr_decay) {
    job j;
    bool skip = false;
    c.f32 = adagrad_f32, c.f64 = adagrad_f64;
    c.names[PARAMETER] = "self", c.names[GRADIENT] = "grads", c.names[STATE] = "state_sums";
    FAC_CHECK(c.steps.n == c.lists[PARAMETER].n, FAC_ERR_ARGUMENT,
              "state_steps has %zu entries, but there are %zu parameters", c.steps.n, c.lists[PARAMETER].n);
    fac_status st = prepare(&c, &lr, &j, &skip);
    if (!st && !skip) st = adagrad_steps(&c, &j, s, lr, lr_decay);
    return run_and_free(&j, st, skip);
}

fac_status fused_adagrad_list_cpu(const fac_call_info *c, fac_tensors self, fac_tensors grads, fac_tensors state_sums,
                                  fac_tensors state_steps, double lr, double lr_decay, double weight_decay, double eps,
                                  bool maximize, fac_tensor *grad_scale, fac_tensor *found_inf) {
    (void)c;
    return adagrad(
        (call){
            .lists = {self, grads, state_sums}, .steps = state_steps, .grad_scale = grad_scale, .found_inf = found_inf},
        (fac_adagrad_step){0, weight_decay, eps, maximize ? -1 : 1}, lr, lr_decay);
}

fac_status fused_adagrad_list_lr_cpu(const fac_call_info *c, fac_tensors self, fac_tensors grads,
                                     fac_tensors state_sums, fac_tensors state_steps, fac_tensor *lr, double lr_decay,
                                     double weight_decay, double eps, bool maximize, fac_tensor *grad_scale,
                                     fac_tensor *found_inf) {
    (void)c;
    return adagrad((call){.lists = {self, grads, state_sums},
                          .steps = state_steps,
                          .lr = lr,
                          .grad_scale = grad_scale,
                          .found_inf = found_inf},
                   (fac_adagrad_step){0, weight_decay, eps, maximize ? -1 : 1}, 0, lr_decay);
}

/* ---- one parameter ---------------------------------------------------------------------------------------------------------- */

struct sgd_work {
    fac_sgd_step s;
    fac_tensor *p, *g, *buf;
};

static fac_status sgd_range(void *ctx, int64_t begin, int64_t end) {
    const struct sgd_work *w = ctx;
    const int64_t n = end - begin;
    if (w->p->dtype == FAC_F32) {
        float *buf = w->buf ? (float *)fac__data(w->buf) + begin : NULL;
        FAC_ISA_PICK(fac__sgd_f32)
        ((float *)fac__data(w->p) + begin, (const float *)fac__data(w->g) + begin, buf, n, &w->s);
    } else {
        double *buf = w->buf ? (double *)fac__data(w->buf) + begin : NULL;
        FAC_ISA_PICK(fac__sgd_f64)
        ((double *)fac__data(w->p) + begin, (const double *)fac__data(w->g) + begin, buf, n, &w->s);
    }
    return FAC_OK;
}

fac_status fused_sgd_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor *momentum_buffer,
                         double lr, double weight_decay, double momentum, double dampening, bool nesterov,
                         bool maximize, bool first) {
    (void)c;
    FAC_TRY(fac__optim_check_parameter(self));
    FAC_TRY(fac__optim_check_twin(self, grad, "grad"));
    FAC_TRY(fac__optim_check_twin(self, momentum_buffer, "momentum_buffer"));
    struct sgd_work w = {
        {lr, weight_decay, momentum, dampening, maximize ? -1 : 1, nesterov, first}, self, grad, momentum_buffer};
    return fac__parallel_for(0, self->numel, FAC_GRAIN, sgd_range, &w);
}

struct adam_work {
    fac_adam_step s;
    fac_tensor *p, *g, *m, *v, *max;
};

static fac_status adam_range(void *ctx, int64_t begin, int64_t end) {
    const struct adam_work *w = ctx;
    const int64_t n = end - begin;
    if (w->p->dtype == FAC_F32) {
        float *max = w->max ? (float *)fac__data(w->max) + begin : NULL;
        FAC_ISA_PICK(fac__adam_f32)
        ((float *)fac__data(w->p) + begin, (const float *)fac__data(w->g) + begin, (float *)fac__data(w->m) + begin,
         (float *)fac__data(w->v) + begin, max, n, &w->s);
    } else {
        double *max = w->max ? (double *)fac__data(w->max) + begin : NULL;
        FAC_ISA_PICK(fac__adam_f64)
        ((double *)fac__data(w->p) + begin, (const double *)fac__data(w->g) + begin, (double *)fac__data(w->m) + begin,
         (double *)fac__data(w->v) + begin, max, n, &w->s);
    }
    return FAC_OK;
}

fac_status fused_adamw_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *grad, fac_tensor *exp_avg,
                           fac_tensor *exp_avg_sq, fac_tensor *max_exp_avg_sq, double lr, double beta1, double beta2,
                           double weight_decay, double eps, int64_t step, bool decoupled, bool maximize) {
    (void)c;
    FAC_CHECK(step >= 1, FAC_ERR_ARGUMENT, "step counts from 1, but is %lld", (long long)step);
    FAC_TRY(fac__optim_check_parameter(self));
    FAC_TRY(fac__optim_check_twin(self, grad, "grad"));
    FAC_TRY(fac__optim_check_twin(self, exp_avg, "exp_avg"));
    FAC_TRY(fac__optim_check_twin(self, exp_avg_sq, "exp_avg_sq"));
    FAC_TRY(fac__optim_check_twin(self, max_exp_avg_sq, "max_exp_avg_sq"));
    struct adam_work w = {{lr, beta1, beta2, weight_decay, eps, maximize ? -1 : 1, 1 - pow(beta1, (double)step),
                           sqrt(1 - pow(beta2, (double)step)), decoupled},
                          self,
                          grad,
                          exp_avg,
                          exp_avg_sq,
                          max_exp_avg_sq};
    return fac__parallel_for(0, self->numel, FAC_GRAIN, adam_range, &w);
}
