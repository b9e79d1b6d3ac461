/* Convolutions of one, two and three dimensions, and transposed ones. */
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

enum { MAX_DIMS = 3 };

/* Sizes of a weight: two numbers of channels, then the kernel. */
static fac_ints weight_sizes(int64_t *room, int64_t a, int64_t b, fac_ints kernel) {
    room[0] = a;
    room[1] = b;
    memcpy(room + 2, kernel.v, kernel.n * sizeof *kernel.v);
    return fac_ints_of(room, kernel.n + 2);
}

static fac_status check_channels(fac_module *m, int64_t in, int64_t out, int64_t groups, fac_ints kernel,
                                 fac_ints stride) {
    FAC_TRY(fac__check_size(m, "in_channels", in));
    FAC_TRY(fac__check_size(m, "out_channels", out));
    FAC_CHECK(groups > 0 && in % groups == 0, FAC_ERR_ARGUMENT, "in_channels must be divisible by groups");
    FAC_CHECK(out % groups == 0, FAC_ERR_ARGUMENT, "out_channels must be divisible by groups");
    for (size_t d = 0; d < kernel.n; d++) {
        FAC_TRY(fac__check_size(m, "kernel_size", kernel.v[d]));
        FAC_CHECK(stride.v[d] > 0, FAC_ERR_ARGUMENT, "%s: stride should be positive, but is %lld", m->cls->name,
                  (long long)stride.v[d]);
    }
    return FAC_OK;
}

/* Weight and bias, uniform within 1/sqrt of the elements that one output reads. */
static fac_status add_parameters(fac_module *m, fac_ints sizes, int64_t out, bool bias, fac_dtype dtype,
                                 fac_device device) {
    double fan_in = 1;
    for (size_t i = 1; i < sizes.n; i++) fan_in *= (double)sizes.v[i];
    const double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
    FAC_TRY(fac__add_uniform(m, "weight", sizes, bound, true, dtype, device));
    return fac__add_uniform(m, "bias", FAC_INTS(out), bound, bias, dtype, device);
}

fac_status fac__build_conv(fac_module *m, int64_t in, int64_t out, fac_ints kernel, fac_ints stride,
                           const char *padding, int64_t groups, bool bias, fac_dtype dtype, fac_device device) {
    FAC_TRY(check_channels(m, in, out, groups, kernel, stride));
    for (size_t d = 0; padding && strcmp(padding, "same") == 0 && d < stride.n; d++)
        FAC_CHECK(stride.v[d] == 1, FAC_ERR_ARGUMENT, "padding 'same' is not supported for strided convolutions");
    int64_t room[MAX_DIMS + 2];
    return add_parameters(m, weight_sizes(room, out, in / groups, kernel), out, bias, dtype, device);
}

fac_status fac__build_conv_transpose(fac_module *m, int64_t in, int64_t out, fac_ints kernel, fac_ints stride,
                                     int64_t groups, bool bias, fac_dtype dtype, fac_device device) {
    FAC_TRY(check_channels(m, in, out, groups, kernel, stride));
    int64_t room[MAX_DIMS + 2];
    return add_parameters(m, weight_sizes(room, in, out / groups, kernel), out, bias, dtype, device);
}

/* ---- forward ---- */

static fac_tensor *conv(fac_tensor *x, fac_tensor *w, fac_tensor *b, fac_ints s, fac_ints p, fac_ints d,
                        int64_t groups) {
    switch (s.n) {
    case 1: return fac_conv1d(x, w, b, .strides = s, .paddings = p, .dilations = d, .groups = groups);
    case 2: return fac_conv2d(x, w, b, .strides = s, .paddings = p, .dilations = d, .groups = groups);
    default: return fac_conv3d(x, w, b, .strides = s, .paddings = p, .dilations = d, .groups = groups);
    }
}

static fac_tensor *conv_named(fac_tensor *x, fac_tensor *w, fac_tensor *b, fac_ints s, const char *padding, fac_ints d,
                              int64_t groups) {
    switch (s.n) {
    case 1: return fac_conv1d_padding(x, w, b, .strides = s, .padding = padding, .dilations = d, .groups = groups);
    case 2: return fac_conv2d_padding(x, w, b, .strides = s, .padding = padding, .dilations = d, .groups = groups);
    default: return fac_conv3d_padding(x, w, b, .strides = s, .padding = padding, .dilations = d, .groups = groups);
    }
}

/* Before and behind, the last dimension first, as fac_pad takes them: `padding`, or what "same" means. */
static fac_ints both_sides(int64_t *room, fac_tensor *w, fac_ints padding, fac_ints dilation, const char *name) {
    const size_t n = padding.n;
    for (size_t i = 0; i < n; i++) {
        const size_t d = n - 1 - i;
        const bool same = name && strcmp(name, "same") == 0;
        const int64_t all = same ? dilation.v[d] * (fac_tensor_size(w, (int64_t)d + 2) - 1) : 0;
        room[2 * i] = name ? all / 2 : padding.v[d];
        room[2 * i + 1] = name ? all - all / 2 : padding.v[d];
    }
    return fac_ints_of(room, 2 * n);
}

fac_tensor *fac__conv_forward(fac_module *m, fac_tensor *x, fac_ints stride, fac_ints padding, fac_ints dilation,
                              int64_t groups, const char *mode, const char *padding_name) {
    fac_tensor *w = fac__module_slot(m, "weight")->tensor, *b = fac__module_slot(m, "bias")->tensor;
    if (strcmp(mode, "zeros") == 0)
        return padding_name ? conv_named(x, w, b, stride, padding_name, dilation, groups)
                            : conv(x, w, b, stride, padding, dilation, groups);
    int64_t room[2 * MAX_DIMS];
    static const int64_t none[MAX_DIMS] = {0};
    x = fac_pad(x, both_sides(room, w, padding, dilation, padding_name), .mode = mode);
    return conv(x, w, b, stride, fac_ints_of(none, stride.n), dilation, groups);
}
