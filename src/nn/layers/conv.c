/* Conv2d and the pooling layers. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <math.h>

typedef struct conv2d {
    int64_t in, out, groups;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
} conv2d;

#define PAIR(v) fac_ints_of((v), 2)

static fac_tensor *conv2d_forward(fac_module *self, fac_tensor *x) {
    const conv2d *c = fac_module_state(self);
    return fac_conv2d(x, fac_module_parameter(self, "weight"), fac_module_parameter(self, "bias"),
                      .strides = PAIR(c->stride), .paddings = PAIR(c->padding), .dilations = PAIR(c->dilation),
                      .groups = c->groups);
}

static void conv2d_describe(fac_module *self, char *buf, size_t size) {
    const conv2d *c = fac_module_state(self);
    char padding[64] = "", dilation[64] = "", groups[32] = "";
    if (c->padding[0] || c->padding[1])
        snprintf(padding, sizeof padding, ", padding=(%lld, %lld)", (long long)c->padding[0], (long long)c->padding[1]);
    if (c->dilation[0] != 1 || c->dilation[1] != 1)
        snprintf(dilation, sizeof dilation, ", dilation=(%lld, %lld)", (long long)c->dilation[0],
                 (long long)c->dilation[1]);
    if (c->groups != 1) snprintf(groups, sizeof groups, ", groups=%lld", (long long)c->groups);
    snprintf(buf, size, "%lld, %lld, kernel_size=(%lld, %lld), stride=(%lld, %lld)%s%s%s%s", (long long)c->in,
             (long long)c->out, (long long)c->kernel[0], (long long)c->kernel[1], (long long)c->stride[0],
             (long long)c->stride[1], padding, dilation, groups,
             fac__module_slot(self, "bias")->tensor ? "" : ", bias=False");
}

static const fac_module_class conv2d_class = {.name = "Conv2d",
                                              .version = 1,
                                              .state_size = sizeof(conv2d),
                                              .copy = fac_module_copy_values,
                                              .forward = conv2d_forward,
                                              .describe = conv2d_describe};

/* One number for both directions, or two. */
static fac_status pair_of(const char *what, fac_ints l, int64_t fallback, int64_t out[2]) {
    FAC_CHECK(l.n <= 2, FAC_ERR_ARGUMENT, "%s should be one number or two, not %zu", what, l.n);
    out[0] = l.n ? l.v[0] : fallback;
    out[1] = l.n == 2 ? l.v[1] : out[0];
    return FAC_OK;
}

static fac_status conv2d_fill(fac_module *m, int64_t in, int64_t out, fac_ints kernel, const fac_conv2d_new_kw *k) {
    conv2d *c = fac_module_state(m);
    *c = (conv2d){.in = in, .out = out, .groups = k->groups};
    FAC_CHECK(kernel.n > 0, FAC_ERR_ARGUMENT, "kernel_size is empty");
    FAC_TRY(pair_of("kernel_size", kernel, 1, c->kernel));
    FAC_TRY(pair_of("stride", k->strides, 1, c->stride));
    FAC_TRY(pair_of("padding", k->paddings, 0, c->padding));
    FAC_TRY(pair_of("dilation", k->dilations, 1, c->dilation));
    FAC_CHECK(c->groups > 0 && in % c->groups == 0, FAC_ERR_ARGUMENT, "in_channels must be divisible by groups");
    FAC_CHECK(out % c->groups == 0, FAC_ERR_ARGUMENT, "out_channels must be divisible by groups");
    fac_tensor *w = fac__nn_parameter(m, "weight", FAC_INTS(out, in / c->groups, c->kernel[0], c->kernel[1]),
                                      FAC_DTYPE_DEFAULT, (fac_device){0});
    if (!w) return fac_error();
    const double fan_in = (double)(in / c->groups) * (double)c->kernel[0] * (double)c->kernel[1],
                 bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
    FAC_TRY(fac__nn_uniform(w, bound));
    if (!k->bias) return fac_module_add_parameter(m, "bias", NULL), fac_error();
    fac_tensor *b = fac__nn_parameter(m, "bias", FAC_INTS(out), FAC_DTYPE_DEFAULT, (fac_device){0});
    return b ? fac__nn_uniform(b, bound) : fac_error();
}

fac_module *(fac_conv2d_new)(int64_t in_channels, int64_t out_channels, fac_ints kernel_size,
                             const fac_conv2d_new_kw *kw) {
    fac_conv2d_new_kw k;
    if (fac_error() || fac__open_conv2d_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&conv2d_class);
    return m ? fac__nn_done(m, conv2d_fill(m, in_channels, out_channels, kernel_size, &k)) : NULL;
}

/* ---- pooling ---- */

typedef struct pool {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, count_include_pad;
} pool;

static fac_tensor *max_pool_forward(fac_module *self, fac_tensor *x) {
    const pool *p = fac_module_state(self);
    return fac_max_pool2d(x, PAIR(p->kernel), .strides = PAIR(p->stride), .paddings = PAIR(p->padding),
                          .dilations = PAIR(p->dilation), .ceil_mode = p->ceil_mode);
}

static fac_tensor *avg_pool_forward(fac_module *self, fac_tensor *x) {
    const pool *p = fac_module_state(self);
    return fac_avg_pool2d(x, PAIR(p->kernel), .strides = PAIR(p->stride), .paddings = PAIR(p->padding),
                          .ceil_mode = p->ceil_mode, .count_include_pad = p->count_include_pad);
}

/* "3", or "(3, 2)" where the directions differ. */
static const char *pair_text(const int64_t v[2], char text[48]) {
    if (v[0] == v[1])
        snprintf(text, 48, "%lld", (long long)v[0]);
    else
        snprintf(text, 48, "(%lld, %lld)", (long long)v[0], (long long)v[1]);
    return text;
}

static void avg_pool_describe(fac_module *self, char *buf, size_t size) {
    const pool *p = fac_module_state(self);
    char kernel[48], stride[48], padding[48];
    snprintf(buf, size, "kernel_size=%s, stride=%s, padding=%s", pair_text(p->kernel, kernel),
             pair_text(p->stride, stride), pair_text(p->padding, padding));
}

static void max_pool_describe(fac_module *self, char *buf, size_t size) {
    const pool *p = fac_module_state(self);
    avg_pool_describe(self, buf, size);
    const size_t n = strlen(buf);
    char dilation[48];
    snprintf(buf + n, size - n, ", dilation=%s, ceil_mode=%s", pair_text(p->dilation, dilation),
             p->ceil_mode ? "True" : "False");
}

static const fac_module_class max_pool_class = {.name = "MaxPool2d",
                                                .version = 1,
                                                .state_size = sizeof(pool),
                                                .copy = fac_module_copy_values,
                                                .forward = max_pool_forward,
                                                .describe = max_pool_describe};
static const fac_module_class avg_pool_class = {.name = "AvgPool2d",
                                                .version = 1,
                                                .state_size = sizeof(pool),
                                                .copy = fac_module_copy_values,
                                                .forward = avg_pool_forward,
                                                .describe = avg_pool_describe};

/* What the two kinds have in common. */
static fac_status pool_fill(pool *p, fac_ints kernel, fac_ints stride, fac_ints padding) {
    FAC_CHECK(kernel.n > 0, FAC_ERR_ARGUMENT, "kernel_size is empty");
    FAC_TRY(pair_of("kernel_size", kernel, 1, p->kernel));
    FAC_TRY(pair_of("stride", stride, 0, p->stride));
    FAC_TRY(pair_of("padding", padding, 0, p->padding));
    for (int d = 0; d < 2; d++)
        if (!p->stride[d]) p->stride[d] = p->kernel[d];
    return FAC_OK;
}

fac_module *(fac_max_pool2d_new)(fac_ints kernel_size, const fac_max_pool2d_new_kw *kw) {
    fac_max_pool2d_new_kw k;
    if (fac_error() || fac__open_max_pool2d_new_kw(&k, kw)) return NULL;
    pool p = {.ceil_mode = k.ceil_mode};
    if (pool_fill(&p, kernel_size, k.strides, k.paddings) || pair_of("dilation", k.dilations, 1, p.dilation))
        return NULL;
    fac_module *m = fac_module_new(&max_pool_class);
    if (m) *(pool *)fac_module_state(m) = p;
    return m;
}

fac_module *(fac_avg_pool2d_new)(fac_ints kernel_size, const fac_avg_pool2d_new_kw *kw) {
    fac_avg_pool2d_new_kw k;
    if (fac_error() || fac__open_avg_pool2d_new_kw(&k, kw)) return NULL;
    pool p = {.ceil_mode = k.ceil_mode, .count_include_pad = k.count_include_pad};
    if (pool_fill(&p, kernel_size, k.strides, k.paddings)) return NULL;
    fac_module *m = fac_module_new(&avg_pool_class);
    if (m) *(pool *)fac_module_state(m) = p;
    return m;
}
