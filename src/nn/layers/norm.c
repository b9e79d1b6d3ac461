/* LayerNorm, RMSNorm, BatchNorm2d. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>

#define MAX_NORM_DIMS 8

typedef struct norm {
    int64_t sizes[MAX_NORM_DIMS];
    size_t n;
    double eps; /* FAC_UNSET_FLOAT: the operator's default */
    double momentum;
    bool affine, running;
} norm;

static fac_ints sizes_of(const norm *s) { return (fac_ints){s->sizes, s->n}; }

static fac_tensor *layer_norm_forward(fac_module *self, fac_tensor *x) {
    const norm *s = fac_module_state(self);
    return fac_layer_norm(x, sizes_of(s), .weight = fac_module_parameter(self, "weight"),
                          .bias = fac_module_parameter(self, "bias"), .eps = s->eps);
}

static fac_tensor *rms_norm_forward(fac_module *self, fac_tensor *x) {
    const norm *s = fac_module_state(self);
    return fac_rms_norm(x, sizes_of(s), .weight = fac_module_parameter(self, "weight"), .eps = s->eps);
}

static void norm_describe(fac_module *self, char *buf, size_t size) {
    const norm *s = fac_module_state(self);
    char shape[MAX_NORM_DIMS * 22] = "", eps[32] = "None";
    for (size_t i = 0, at = 0; i < s->n; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld", i ? ", " : "", (long long)s->sizes[i]);
    if (s->eps != FAC_UNSET_FLOAT) snprintf(eps, sizeof eps, "%g", s->eps);
    snprintf(buf, size, "(%s%s), eps=%s, elementwise_affine=%s", shape, s->n == 1 ? "," : "", eps,
             s->affine ? "True" : "False");
}

static const fac_module_class layer_norm_class = {.name = "LayerNorm",
                                                  .version = 1,
                                                  .state_size = sizeof(norm),
                                                  .copy = fac_module_copy_values,
                                                  .forward = layer_norm_forward,
                                                  .describe = norm_describe};
static const fac_module_class rms_norm_class = {.name = "RMSNorm",
                                                .version = 1,
                                                .state_size = sizeof(norm),
                                                .copy = fac_module_copy_values,
                                                .forward = rms_norm_forward,
                                                .describe = norm_describe};

static fac_status add_constant(fac_module *m, const char *name, fac_ints sizes, double value, bool wanted) {
    if (!wanted) return fac_module_add_parameter(m, name, NULL), fac_error();
    fac_tensor *t = fac__nn_parameter(m, name, sizes, FAC_DTYPE_DEFAULT, (fac_device){0});
    return t ? fac__nn_fill(t, value) : fac_error();
}

static fac_status norm_fill(fac_module *m, fac_ints shape, double eps, bool affine) {
    norm *s = fac_module_state(m);
    FAC_CHECK(shape.n >= 1 && shape.n <= MAX_NORM_DIMS, FAC_ERR_SHAPE,
              "the normalised shape should have 1 to %d dimensions, not %zu", MAX_NORM_DIMS, shape.n);
    if (!fac__list_given(shape.v, shape.n, "sizes")) return fac_error();
    memcpy(s->sizes, shape.v, shape.n * sizeof *shape.v);
    s->n = shape.n;
    s->eps = eps;
    s->affine = affine;
    return add_constant(m, "weight", shape, 1, affine);
}

fac_module *(fac_layer_norm_new)(fac_ints normalized_shape, const fac_layer_norm_new_kw *kw) {
    fac_layer_norm_new_kw k;
    if (fac_error() || fac__open_layer_norm_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&layer_norm_class);
    if (!m) return NULL;
    fac_status st = norm_fill(m, normalized_shape, k.eps, k.elementwise_affine);
    if (!st) st = add_constant(m, "bias", normalized_shape, 0, k.elementwise_affine && k.bias);
    return fac__nn_done(m, st);
}

fac_module *(fac_rms_norm_new)(fac_ints normalized_shape, const fac_rms_norm_new_kw *kw) {
    fac_rms_norm_new_kw k;
    if (fac_error() || fac__open_rms_norm_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&rms_norm_class);
    return m ? fac__nn_done(m, norm_fill(m, normalized_shape, k.eps, k.elementwise_affine)) : NULL;
}

/* ---- BatchNorm2d ---- */

static fac_tensor *batch_norm_forward(fac_module *self, fac_tensor *x) {
    const norm *s = fac_module_state(self);
    const bool training = fac_module_is_training(self);
    if (fac_tensor_ndim(x) != 4) {
        FAC_FAIL(FAC_ERR_SHAPE, "expected 4D input (got %dD input)", fac_tensor_ndim(x));
        return NULL;
    }
    if ((training || !s->running) && fac_tensor_numel(x) == fac_tensor_size(x, 1)) {
        FAC_FAIL(FAC_ERR_SHAPE, "Expected more than 1 value per channel when training, got input size %s",
                 FAC_SHAPE_TEXT(fac__header(x)));
        return NULL;
    }
    if (training && s->running) {
        FAC_NO_GRAD(g);
        if (!fac_add_(fac_module_buffer(self, "num_batches_tracked"), 1)) return NULL;
    }
    return fac_batch_norm(x, fac_module_parameter(self, "weight"), fac_module_parameter(self, "bias"),
                          s->running ? fac_module_buffer(self, "running_mean") : NULL,
                          s->running ? fac_module_buffer(self, "running_var") : NULL, training || !s->running,
                          s->momentum, s->eps, true);
}

static void batch_norm_describe(fac_module *self, char *buf, size_t size) {
    const norm *s = fac_module_state(self);
    snprintf(buf, size, "%lld, eps=%g, momentum=%g, affine=%s, track_running_stats=%s", (long long)s->sizes[0], s->eps,
             s->momentum, s->affine ? "True" : "False", s->running ? "True" : "False");
}

static const fac_module_class batch_norm_class = {.name = "BatchNorm2d",
                                                  .version = 2,
                                                  .state_size = sizeof(norm),
                                                  .copy = fac_module_copy_values,
                                                  .forward = batch_norm_forward,
                                                  .describe = batch_norm_describe};

static fac_status batch_norm_fill(fac_module *m, int64_t channels, const fac_batch_norm2d_new_kw *k) {
    norm *s = fac_module_state(m);
    *s = (norm){.sizes = {channels}, .n = 1, .affine = k->affine, .running = k->track_running_stats};
    s->eps = k->eps;
    s->momentum = k->momentum;
    FAC_TRY(add_constant(m, "weight", sizes_of(s), 1, s->affine));
    FAC_TRY(add_constant(m, "bias", sizes_of(s), 0, s->affine));
    if (!s->running) return FAC_OK;
    FAC_SCOPE(scope);
    (void)fac_module_add_buffer(m, "running_mean", fac_zeros(sizes_of(s)));
    (void)fac_module_add_buffer(m, "running_var", fac_ones(sizes_of(s)));
    (void)fac_module_add_buffer(m, "num_batches_tracked", fac_zeros(FAC_INTS(), .dtype = FAC_I64));
    return fac_error();
}

fac_module *(fac_batch_norm2d_new)(int64_t num_features, const fac_batch_norm2d_new_kw *kw) {
    fac_batch_norm2d_new_kw k;
    if (fac_error() || fac__open_batch_norm2d_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&batch_norm_class);
    return m ? fac__nn_done(m, batch_norm_fill(m, num_features, &k)) : NULL;
}
