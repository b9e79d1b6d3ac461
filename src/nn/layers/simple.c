/* Layers without parameters: activations, Dropout, Flatten, Sequential, losses. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <string.h>

static fac_module *plain_new(const fac_module_class *cls) { return fac_error() ? NULL : fac_module_new(cls); }

/* ---- activations ---- */

static fac_tensor *relu_forward(fac_module *self, fac_tensor *x) { return (void)self, fac_relu(x); }
static fac_tensor *silu_forward(fac_module *self, fac_tensor *x) { return (void)self, fac_silu(x); }
static fac_tensor *tanh_forward(fac_module *self, fac_tensor *x) { return (void)self, fac_tanh(x); }
static fac_tensor *sigmoid_forward(fac_module *self, fac_tensor *x) { return (void)self, fac_sigmoid(x); }

static fac_tensor *gelu_forward(fac_module *self, fac_tensor *x) {
    const bool *approximate = fac_module_state(self);
    return fac_gelu(x, .approximate = *approximate ? "tanh" : "none");
}

static void gelu_describe(fac_module *self, char *buf, size_t size) {
    const bool *approximate = fac_module_state(self);
    snprintf(buf, size, "approximate='%s'", *approximate ? "tanh" : "none");
}

static const fac_module_class relu_class = {.name = "ReLU", .version = 1, .forward = relu_forward};
static const fac_module_class silu_class = {.name = "SiLU", .version = 1, .forward = silu_forward};
static const fac_module_class tanh_class = {.name = "Tanh", .version = 1, .forward = tanh_forward};
static const fac_module_class sigmoid_class = {.name = "Sigmoid", .version = 1, .forward = sigmoid_forward};
static const fac_module_class gelu_class = {.name = "GELU",
                                            .version = 1,
                                            .state_size = sizeof(bool),
                                            .copy = fac_module_copy_values,
                                            .forward = gelu_forward,
                                            .describe = gelu_describe};

fac_module *fac_relu_new(void) { return plain_new(&relu_class); }
fac_module *fac_silu_new(void) { return plain_new(&silu_class); }
fac_module *fac_tanh_new(void) { return plain_new(&tanh_class); }
fac_module *fac_sigmoid_new(void) { return plain_new(&sigmoid_class); }

fac_module *(fac_gelu_new)(const fac_gelu_new_kw *kw) {
    fac_gelu_new_kw k;
    if (fac_error() || fac__open_gelu_new_kw(&k, kw)) return NULL;
    const bool tanh = k.approximate && strcmp(k.approximate, "tanh") == 0;
    if (!tanh && (!k.approximate || strcmp(k.approximate, "none") != 0)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "gelu_new: approximate must be \"none\" or \"tanh\", not \"%s\"",
                 k.approximate ? k.approximate : "");
        return NULL;
    }
    fac_module *m = fac_module_new(&gelu_class);
    if (m) *(bool *)fac_module_state(m) = tanh;
    return m;
}

/* ---- Dropout ---- */

static fac_tensor *dropout_forward(fac_module *self, fac_tensor *x) {
    const double *p = fac_module_state(self);
    return fac_dropout(x, *p, fac_module_is_training(self));
}

static void dropout_describe(fac_module *self, char *buf, size_t size) {
    const double *p = fac_module_state(self);
    snprintf(buf, size, "p=%g, inplace=False", *p);
}

static const fac_module_class dropout_class = {.name = "Dropout",
                                               .version = 1,
                                               .state_size = sizeof(double),
                                               .copy = fac_module_copy_values,
                                               .forward = dropout_forward,
                                               .describe = dropout_describe};

fac_module *(fac_dropout_new)(const fac_dropout_new_kw *kw) {
    fac_dropout_new_kw k;
    if (fac_error() || fac__open_dropout_new_kw(&k, kw)) return NULL;
    if (!(k.p >= 0 && k.p <= 1)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", k.p);
        return NULL;
    }
    fac_module *m = fac_module_new(&dropout_class);
    if (m) *(double *)fac_module_state(m) = k.p;
    return m;
}

/* ---- Flatten, Sequential ---- */

typedef struct dims {
    int64_t start, end;
} dims;

static fac_tensor *flatten_forward(fac_module *self, fac_tensor *x) {
    const dims *d = fac_module_state(self);
    return fac_flatten(x, d->start, d->end);
}
static void flatten_describe(fac_module *self, char *buf, size_t size) {
    const dims *d = fac_module_state(self);
    snprintf(buf, size, "start_dim=%lld, end_dim=%lld", (long long)d->start, (long long)d->end);
}

static const fac_module_class flatten_class = {.name = "Flatten",
                                               .version = 1,
                                               .state_size = sizeof(dims),
                                               .copy = fac_module_copy_values,
                                               .forward = flatten_forward,
                                               .describe = flatten_describe};

fac_module *(fac_flatten_new)(const fac_flatten_new_kw *kw) {
    fac_flatten_new_kw k;
    if (fac_error() || fac__open_flatten_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&flatten_class);
    if (m) *(dims *)fac_module_state(m) = (dims){k.start_dim, k.end_dim};
    return m;
}

static fac_tensor *sequential_forward(fac_module *self, fac_tensor *x) {
    fac_tensor *first = x;
    for (size_t i = 0; i < self->children.n && x; i++) {
        fac_tensor *y = fac_forward(self->children.v[i].module, x);
        if (y && x != first && x != y) fac_drop(x); /* what the next layer needs of it, the graph holds */
        x = y;
    }
    return x;
}

static const fac_module_class sequential_class = {.name = "Sequential", .version = 1, .forward = sequential_forward};

fac_module *fac_sequential_new(fac_module *const *modules, size_t n) {
    fac_module *m = plain_new(&sequential_class);
    if (n && !modules) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_sequential_new: %zu modules were announced, but the array is NULL", n);
        fac_module_release(m);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (!m)
            fac_module_release(modules[i]);
        else if (!fac_module_add(m, name, modules[i])) {
            fac_module_release(m);
            m = NULL;
        }
    }
    return m;
}

/* ---- losses ---- */

static fac_tensor *two_inputs(const char *name, fac_tensors in) {
    if (in.n != 2)
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s takes two inputs, a prediction and a target, but got %zu", name, in.n);
    return in.n == 2 ? in.v[0] : NULL;
}

static fac_tensor *mse_forward(fac_module *self, fac_tensors in) {
    const fac_loss_reduction *reduction = fac_module_state(self);
    return two_inputs("MSELoss", in) ? fac_mse_loss(in.v[0], in.v[1], .reduction = *reduction) : NULL;
}

static const fac_module_class mse_class = {.name = "MSELoss",
                                           .version = 1,
                                           .state_size = sizeof(fac_loss_reduction),
                                           .copy = fac_module_copy_values,
                                           .forward_many = mse_forward};

fac_module *(fac_mse_loss_new)(const fac_mse_loss_new_kw *kw) {
    fac_mse_loss_new_kw k;
    if (fac_error() || fac__open_mse_loss_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&mse_class);
    if (m) *(fac_loss_reduction *)fac_module_state(m) = k.reduction;
    return m;
}

/* The weight is the buffer of this name. */
typedef struct cross_entropy {
    int64_t ignore_index;
    double label_smoothing;
    fac_loss_reduction reduction;
} cross_entropy;

static fac_tensor *cross_entropy_forward(fac_module *self, fac_tensors in) {
    const cross_entropy *c = fac_module_state(self);
    if (!two_inputs("CrossEntropyLoss", in)) return NULL;
    fac_tensor *weight = fac_module_buffer(self, "weight");
    return fac_cross_entropy(in.v[0], in.v[1], weight, .reduction = c->reduction, .ignore_index = c->ignore_index,
                             .label_smoothing = c->label_smoothing);
}

static const fac_module_class cross_entropy_class = {.name = "CrossEntropyLoss",
                                                     .version = 1,
                                                     .state_size = sizeof(cross_entropy),
                                                     .copy = fac_module_copy_values,
                                                     .forward_many = cross_entropy_forward};

fac_module *(fac_cross_entropy_loss_new)(const fac_cross_entropy_loss_new_kw *kw) {
    fac_cross_entropy_loss_new_kw k;
    if (fac_error() || fac__open_cross_entropy_loss_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&cross_entropy_class);
    if (!m) return NULL;
    *(cross_entropy *)fac_module_state(m) = (cross_entropy){k.ignore_index, k.label_smoothing, k.reduction};
    (void)fac_module_add_buffer(m, "weight", k.weight);
    if (!fac_error()) return m;
    fac_module_release(m);
    return NULL;
}
