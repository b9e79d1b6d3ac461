/* Averages of parameters: a module around a copy of another, and batch statistics for it. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <facula/optim.h>

typedef struct averaged {
    double decay; /* negative: every model counts alike */
    bool use_buffers;
    const fac_average_fn *fn; /* the program's; NULL: none */
} averaged;

static fac_tensor *averaged_forward(fac_module *self, fac_tensors inputs) {
    fac_module *inner = fac_module_child(self, "module");
    return inputs.n == 1 ? fac_forward(inner, inputs.v[0]) : fac_forward_many(inner, inputs);
}

static const fac_module_class averaged_class = {.name = "AveragedModel",
                                                .version = 1,
                                                .state_size = sizeof(averaged),
                                                .forward_many = averaged_forward,
                                                .copy = fac_module_copy_values};

static fac_status fill(fac_module *a, fac_module *m, const fac_averaged_model_new_kw *k) {
    averaged *s = fac_module_state(a);
    const bool decays = k->ema_decay != FAC_UNSET_FLOAT;
    FAC_CHECK(!decays || (k->ema_decay >= 0 && k->ema_decay <= 1), FAC_ERR_ARGUMENT,
              "averaged_model_new: ema_decay should be in [0, 1], not %g", k->ema_decay);
    FAC_CHECK(!decays || !k->avg_fn, FAC_ERR_ARGUMENT, "averaged_model_new: ema_decay and avg_fn are both given");
    FAC_CHECK(!k->avg_fn || k->avg_fn->fn, FAC_ERR_ARGUMENT, "averaged_model_new: avg_fn has no function");
    *s = (averaged){decays ? k->ema_decay : -1, k->use_buffers, k->avg_fn};
    if (!fac_module_add(a, "module", fac_module_copy(m))) return fac_error();
    FAC_SCOPE(scope);
    (void)fac_module_add_buffer(a, "n_averaged", fac_zeros(FAC_INTS(), .dtype = FAC_I64));
    return fac_error();
}

fac_module *(fac_averaged_model_new)(fac_module *m, const fac_averaged_model_new_kw *kw) {
    fac_averaged_model_new_kw k;
    if (fac_error() || fac__open_averaged_model_new_kw(&k, kw) || !fac__given(m, "module to average")) return NULL;
    fac_module *a = fac_module_new(&averaged_class);
    return a ? fac__nn_done(a, fill(a, m, &k)) : NULL;
}

/* ---- averaging ------------------------------------------------------------------------------------------------------------- */

/* What the average of n and one more is; NULL with an error. */
static fac_tensor *mean_of(const averaged *s, fac_tensor *old, fac_tensor *now, int64_t n) {
    if (s->fn) {
        fac_tensor *mean;
        FAC_CALLBACK(mean = s->fn->fn(s->fn->context, old, now, n));
        if (!mean && !fac_error()) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "avg_fn returned NULL without an error");
        return mean;
    }
    const double weight = s->decay < 0 ? 1 / ((double)n + 1) : 1 - s->decay;
    if (fac_dtype_is_floating(fac_tensor_dtype(old)) || fac_dtype_is_complex(fac_tensor_dtype(old)))
        return fac_lerp(old, now, weight);
    return fac_add(fac_mul(old, 1 - weight), fac_mul(now, weight)); /* rounded down when it is copied */
}

static fac_status check_pair(const fac_state *a, const fac_state *b, const char *what) {
    if (!a || !b) return fac_error();
    FAC_CHECK(a->n == b->n, FAC_ERR_ARGUMENT, "the averaged model has %zu %s, the model %zu", a->n, what, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const fac_tensor *x = fac__header(a->v[i].tensor), *y = fac__header(b->v[i].tensor);
        FAC_CHECK(fac__same_sizes(x, y), FAC_ERR_SHAPE,
                  "%s has the shape %s in the averaged model, but %s in the model", a->v[i].name, FAC_SHAPE_TEXT(x),
                  FAC_SHAPE_TEXT(y));
    }
    return FAC_OK;
}

/* Adds those of `from` to the averages, or, without one, copies them. */
static fac_status take(const averaged *s, const fac_state *to, const fac_state *from, int64_t n) {
    for (size_t i = 0; i < to->n; i++) {
        FAC_SCOPE(scope);
        fac_tensor *old = to->v[i].tensor;
        fac_tensor *now =
            fac_to(fac_detach(from->v[i].tensor), .device = fac_tensor_device(old), .dtype = fac_tensor_dtype(old));
        if (!fac_copy_(old, n == 0 ? now : mean_of(s, old, now, n))) return fac_error();
    }
    return FAC_OK;
}

static fac_status update(fac_module *a, fac_state *const lists[4]) {
    const averaged *s = fac_module_state(a);
    FAC_SCOPE(scope);
    FAC_TRY(check_pair(lists[0], lists[1], "parameters"));
    FAC_TRY(check_pair(lists[2], lists[3], "buffers"));
    fac_tensor *count = fac_module_buffer(a, "n_averaged");
    const int64_t n = fac_item_int(count);
    if (fac_error()) return fac_error();
    FAC_TRY(take(s, lists[0], lists[1], n));
    FAC_TRY(take(s, lists[2], lists[3], s->use_buffers ? n : 0));
    return fac_add_(count, 1) ? FAC_OK : fac_error();
}

fac_status fac_averaged_model_update(fac_module *averaged, fac_module *m) {
    if (fac_error()) return fac_error();
    FAC_CHECK(averaged && m, FAC_ERR_ARGUMENT, "an averaged model or the model to add is NULL");
    FAC_CHECK(fac_module_class_of(averaged) == &averaged_class, FAC_ERR_ARGUMENT, "%s is no averaged model",
              fac_module_class_of(averaged)->name);
    fac_module *inner = fac_module_child(averaged, "module");
    if (!inner) return fac_error();
    FAC_NO_GRAD(g);
    fac_state *const lists[4] = {fac_module_parameters(inner), fac_module_parameters(m), fac_module_buffers(inner),
                                 fac_module_buffers(m)};
    const fac_status st = update(averaged, lists);
    for (size_t i = 0; i < FAC_COUNT(lists); i++) fac_state_free(lists[i]);
    return st;
}

/* ---- batch statistics -------------------------------------------------------------------------------------------------------- */

static fac_status reset(fac_module *m) {
    (void)fac_zero_(fac_module_buffer(m, "running_mean"));
    (void)fac_fill_(fac_module_buffer(m, "running_var"), 1);
    (void)fac_zero_(fac_module_buffer(m, "num_batches_tracked"));
    return fac_error();
}

static fac_status run_all(fac_module *m, fac_tensor *(*next)(void *context), void *context) {
    while (!fac_error()) {
        FAC_SCOPE(scope);
        fac_tensor *x;
        FAC_CALLBACK(x = next(context));
        if (!x) break;
        (void)!fac_forward(m, x);
    }
    return fac_error();
}

/* modules are m and those below it. */
static fac_status run_anew(fac_module *m, const fac_state *modules, fac_tensor *(*next)(void *context), void *context) {
    size_t found = 0;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < modules->n; i++) {
        fac_module *at = modules->v[i].module;
        at->cumulative = fac__nn_has_batch_statistics(at);
        found += at->cumulative;
        if (at->cumulative) FAC_TRY(reset(at));
    }
    if (!found) return FAC_OK;
    fac_module_train(m, true);
    return run_all(m, next, context);
}

fac_status fac_update_bn(fac_module *m, fac_tensor *(*next)(void *context), void *context) {
    if (fac_error()) return fac_error();
    if (!fac__given(m, "module") || !fac__given((const void *)(uintptr_t)next, "function of batches"))
        return fac_error();
    FAC_NO_GRAD(g);
    fac_state *modules = fac_module_modules(m);
    if (!modules) return fac_error();
    bool *training = fac__alloc_array(modules->n, sizeof *training);
    for (size_t i = 0; training && i < modules->n; i++) training[i] = modules->v[i].module->training;
    const fac_status st = training ? run_anew(m, modules, next, context) : fac_error();
    for (size_t i = 0; training && i < modules->n; i++) {
        modules->v[i].module->training = training[i];
        modules->v[i].module->cumulative = false;
    }
    fac__free(training);
    fac_state_free(modules);
    return st;
}
