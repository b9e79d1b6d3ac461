/* Reads a convolution's arguments and works out its sizes. */
#include "ops/conv.h"

/* One entry per spatial dimension from a list of nd entries or one. */
static fac_status read_list(const char *name, fac_ints l, int nd, int64_t fallback, int64_t least, int64_t *out) {
    for (int d = 0; d < FAC_CONV_DIMS; d++) out[d] = fallback;
    if (!l.v) return FAC_OK;
    FAC_CHECK(l.n == 1 || l.n == (size_t)nd, FAC_ERR_ARGUMENT,
              "expected %s to be a single integer value or a list of %d values, but got %zu", name, nd, l.n);
    for (int d = 0; d < nd; d++) {
        out[d] = l.v[l.n == 1 ? 0 : d];
        FAC_CHECK(out[d] >= least, FAC_ERR_ARGUMENT,
                  least ? "non-positive %s is not supported: %s is %lld" : "negative %s is not supported: %s is %lld",
                  name, name, (long long)out[d]);
    }
    return FAC_OK;
}

static fac_status check_ranks(const fac_tensor *input, const fac_tensor *weight, fac_conv *c) {
    int k = weight->ndim;
    FAC_CHECK(k >= 3 && k <= 2 + FAC_CONV_DIMS, FAC_ERR_SHAPE,
              "weight must have 3 to 5 dimensions [out, in, kernel...], got size %s", FAC_SHAPE_TEXT(weight));
    FAC_CHECK(input->ndim == k || input->ndim == k - 1, FAC_ERR_SHAPE,
              "Expected %dD (unbatched) or %dD (batched) input for weight of size %s, but got input of size: %s", k - 1,
              k, FAC_SHAPE_TEXT(weight), FAC_SHAPE_TEXT(input));
    fac_dtype dtype = (fac_dtype)input->dtype;
    FAC_CHECK(dtype != FAC_BOOL, FAC_ERR_DTYPE, "not implemented for bool");
    FAC_CHECK(weight->dtype == input->dtype, FAC_ERR_DTYPE,
              "input and weight should have the same dtype, but got %s and %s", fac_dtype_name(dtype),
              fac_dtype_name((fac_dtype)weight->dtype));
    c->nd = k - 2;
    c->batched = input->ndim == k;
    c->batch = c->batched ? input->sizes[0] : 1;
    return FAC_OK;
}

static fac_status check_channels(const fac_tensor *input, const fac_tensor *weight, fac_conv *c) {
    int64_t channels = input->sizes[c->batched], first = weight->sizes[0];
    FAC_CHECK(c->groups > 0, FAC_ERR_ARGUMENT, "non-positive groups is not supported: groups is %lld",
              (long long)c->groups);
    FAC_CHECK(
        first >= c->groups && first % c->groups == 0, FAC_ERR_SHAPE,
        "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight of size %s instead",
        (long long)c->groups, (long long)c->groups, FAC_SHAPE_TEXT(weight));
    c->small = first / c->groups;
    c->large = weight->sizes[1];
    int64_t all_large;
    FAC_CHECK(fac__mul(c->large, c->groups, &all_large), FAC_ERR_OVERFLOW, "too many channels in weight of size %s",
              FAC_SHAPE_TEXT(weight));
    const int64_t expected = c->transposed ? first : all_large;
    FAC_CHECK(channels == expected, FAC_ERR_SHAPE,
              "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld channels instead",
              c->transposed ? "transposed=1, groups" : "groups", (long long)c->groups, FAC_SHAPE_TEXT(weight),
              FAC_SHAPE_TEXT(input), (long long)expected, (long long)channels);
    return FAC_OK;
}

static fac_status check_bias(const fac_tensor *weight, const fac_tensor *bias, const fac_conv *c) {
    if (!bias) return FAC_OK;
    int64_t channels = (c->transposed ? c->large : c->small) * c->groups;
    FAC_CHECK(
        bias->ndim == 1 && bias->sizes[0] == channels, FAC_ERR_SHAPE,
        "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but got bias of size %s instead",
        FAC_SHAPE_TEXT(weight), (long long)channels, FAC_SHAPE_TEXT(bias));
    FAC_CHECK(bias->dtype == weight->dtype, FAC_ERR_DTYPE, "Input type (%s) and bias type (%s) should be the same",
              fac_dtype_name((fac_dtype)weight->dtype), fac_dtype_name((fac_dtype)bias->dtype));
    return FAC_OK;
}

/* A stride between positions of which there is one, and a dilation between taps of which there is one, mean nothing. They
   become 1, so that kernels may compute with them: every other step fits into the padded size. */
static void drop_idle_steps(fac_conv *c, int d) {
    if (c->small_size[d] == 1) c->stride[d] = 1;
    if (c->kernel[d] == 1) c->dilation[d] = 1;
}

/* From large to small: (large + 2 pad - extent) / stride + 1, floored, which must be positive. */
static fac_status shrink(fac_conv *c, int d) {
    int64_t extent, padded;
    FAC_CHECK(fac__mul(c->dilation[d], c->kernel[d] - 1, &extent) && fac__add(extent, 1, &extent) &&
                  fac__mul(c->padding[d], 2, &padded) && fac__add(padded, c->large_size[d], &padded),
              FAC_ERR_OVERFLOW, "kernel size %lld, dilation %lld or padding %lld is too large", (long long)c->kernel[d],
              (long long)c->dilation[d], (long long)c->padding[d]);
    FAC_CHECK(
        extent <= padded, FAC_ERR_SHAPE,
        "Calculated padded input size per channel: %lld in dimension %d. Kernel size: %lld (dilated). Kernel size can't be "
        "greater than actual input size",
        (long long)padded, d, (long long)extent);
    c->small_size[d] = (padded - extent) / c->stride[d] + 1;
    drop_idle_steps(c, d);
    return FAC_OK;
}

/* From small to large: (small - 1) * stride - 2 pad + extent + output_padding. */
static fac_status grow(fac_conv *c, int d, int64_t output_padding) {
    FAC_CHECK(
        output_padding < c->stride[d] || output_padding < c->dilation[d], FAC_ERR_ARGUMENT,
        "output padding must be smaller than either stride or dilation, but got output_padding %lld, stride %lld, dilation %lld",
        (long long)output_padding, (long long)c->stride[d], (long long)c->dilation[d]);
    int64_t size, extent, pad;
    FAC_CHECK(fac__mul(c->small_size[d] - 1, c->stride[d], &size) &&
                  fac__mul(c->dilation[d], c->kernel[d] - 1, &extent) && fac__mul(c->padding[d], 2, &pad) &&
                  fac__add(size, extent, &size) && fac__sub(size, pad, &size) &&
                  fac__add(size, output_padding + 1, &size),
              FAC_ERR_OVERFLOW, "kernel size %lld, dilation %lld, stride %lld or padding %lld is too large",
              (long long)c->kernel[d], (long long)c->dilation[d], (long long)c->stride[d], (long long)c->padding[d]);
    FAC_CHECK(size > 0, FAC_ERR_SHAPE, "calculated output size %lld in dimension %d is too small", (long long)size, d);
    c->large_size[d] = size;
    drop_idle_steps(c, d);
    return FAC_OK;
}

static fac_status spatial(const fac_tensor *input, const fac_tensor *weight, const int64_t *output_padding,
                          fac_conv *c) {
    for (int d = 0; d < FAC_CONV_DIMS; d++) {
        c->kernel[d] = c->small_size[d] = c->large_size[d] = 1;
        if (d >= c->nd) continue;
        int64_t size = input->sizes[1 + c->batched + d];
        c->kernel[d] = weight->sizes[2 + d];
        FAC_CHECK(c->kernel[d] > 0, FAC_ERR_SHAPE, "the kernel is empty: weight has size %s", FAC_SHAPE_TEXT(weight));
        FAC_CHECK(size > 0, FAC_ERR_SHAPE,
                  "Expected non-zero sizes of all but the batch dimension, but got input of size %s",
                  FAC_SHAPE_TEXT(input));
        (c->transposed ? c->small_size : c->large_size)[d] = size;
        FAC_TRY(c->transposed ? grow(c, d, output_padding[d]) : shrink(c, d));
    }
    FAC_CHECK(fac__numel(c->small_size, FAC_CONV_DIMS, &c->small_count) &&
                  fac__numel(c->large_size, FAC_CONV_DIMS, &c->large_count) &&
                  fac__numel(c->kernel, FAC_CONV_DIMS, &c->taps),
              FAC_ERR_OVERFLOW, "a convolution of input %s with weight %s is too large", FAC_SHAPE_TEXT(input),
              FAC_SHAPE_TEXT(weight));
    return FAC_OK;
}

fac_status fac__conv_plan(const fac_tensor *input, const fac_tensor *weight, const fac_tensor *bias,
                          const fac_conv_args *args, fac_conv *out) {
    fac_conv *c = out;
    int64_t output_padding[FAC_CONV_DIMS];
    *c = (fac_conv){.groups = args->groups, .transposed = args->transposed};
    FAC_TRY(check_ranks(input, weight, c));
    FAC_TRY(read_list("stride", args->stride, c->nd, 1, 1, c->stride));
    FAC_TRY(read_list("padding", args->padding, c->nd, 0, 0, c->padding));
    FAC_TRY(read_list("dilation", args->dilation, c->nd, 1, 1, c->dilation));
    FAC_TRY(read_list("output_padding", args->output_padding, c->nd, 0, 0, output_padding));
    FAC_TRY(check_channels(input, weight, c));
    FAC_TRY(check_bias(weight, bias, c));
    FAC_TRY(spatial(input, weight, output_padding, c));
    int n = 0;
    if (c->batched) c->out_sizes[n++] = c->batch;
    c->out_sizes[n++] = (c->transposed ? c->large : c->small) * c->groups;
    for (int d = 0; d < c->nd; d++) c->out_sizes[n++] = (c->transposed ? c->large_size : c->small_size)[d];
    c->out_ndim = n;
    return FAC_OK;
}
