/* The convolutions by number of dimensions, in terms of the general one. */
#include "ops/call.h"
#include "ops_gen.h"

/* The number of dimensions is that of the operator's name. */
static fac_status check_rank(const fac_tensor *input, const fac_tensor *weight, int nd) {
    FAC_CHECK(weight->ndim == nd + 2, FAC_ERR_SHAPE, "expected weight to have %d dimensions, but got weight of size %s",
              nd + 2, FAC_SHAPE_TEXT(weight));
    FAC_CHECK(input->ndim == nd + 2 || input->ndim == nd + 1, FAC_ERR_SHAPE,
              "Expected %dD (unbatched) or %dD (batched) input, but got size: %s", nd + 1, nd + 2,
              FAC_SHAPE_TEXT(input));
    return FAC_OK;
}

static fac_status conv(int nd, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_ints stride,
                       fac_ints padding, fac_ints output_padding, fac_ints dilation, bool transposed, int64_t groups,
                       fac_tensor **out) {
    FAC_TRY(check_rank(input, weight, nd));
    FAC_SCOPE(scope);
    return fac__give(
        out, fac__s_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups));
}

#define CONV(nd)                                                                                                      \
    fac_status conv##nd##d_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, \
                                     fac_ints stride, fac_ints padding, fac_ints dilation, int64_t groups,            \
                                     fac_tensor **out) {                                                              \
        (void)c;                                                                                                      \
        return conv(nd, input, weight, bias, stride, padding, FAC_INTS(0), dilation, false, groups, out);             \
    }                                                                                                                 \
    fac_status conv_transpose##nd##d_composite(                                                                       \
        const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_ints stride,             \
        fac_ints padding, fac_ints output_padding, int64_t groups, fac_ints dilation, fac_tensor **out) {             \
        (void)c;                                                                                                      \
        return conv(nd, input, weight, bias, stride, padding, output_padding, dilation, true, groups, out);           \
    }
CONV(1)
CONV(2)
CONV(3)

static int64_t entry(fac_ints l, int d) { return l.n == 1 ? l.v[0] : (size_t)d < l.n ? l.v[d] : 1; }

/* padding="same": dilation * (kernel - 1) in all, the odd one at the end, where the input is padded by hand. */
static fac_status conv_same(int nd, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_ints stride,
                            fac_ints dilation, int64_t groups, fac_tensor **out) {
    int64_t left[3], after[6] = {0};
    bool uneven = false;
    for (int d = 0; d < nd; d++) {
        FAC_CHECK(entry(stride, d) == 1, FAC_ERR_ARGUMENT, "padding='same' is not supported for strided convolutions");
        int64_t total;
        FAC_CHECK(fac__mul(entry(dilation, d), fac__max(weight->sizes[2 + d] - 1, 0), &total), FAC_ERR_OVERFLOW,
                  "dilation %lld is too large", (long long)entry(dilation, d));
        left[d] = total / 2;
        after[2 * (nd - 1 - d) + 1] = total % 2;
        uneven |= total % 2 != 0;
    }
    FAC_SCOPE(scope);
    fac_tensor *x = uneven ? fac__s_constant_pad_nd(input, (fac_ints){after, 2 * (size_t)nd}, fac_scalar_i_(0)) : input;
    return fac__give(out, fac__s_convolution(x, weight, bias, stride, (fac_ints){left, (size_t)nd}, dilation, false,
                                             FAC_INTS(0), groups));
}

static fac_status conv_named(int nd, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_ints stride,
                             const char *padding, fac_ints dilation, int64_t groups, fac_tensor **out) {
    FAC_TRY(check_rank(input, weight, nd));
    if (strcmp(padding, "same") == 0) return conv_same(nd, input, weight, bias, stride, dilation, groups, out);
    FAC_CHECK(strcmp(padding, "valid") == 0, FAC_ERR_ARGUMENT,
              "Invalid padding string: '%s'; it is \"valid\" or \"same\"", padding);
    return conv(nd, input, weight, bias, stride, FAC_INTS(0), FAC_INTS(0), dilation, false, groups, out);
}

#define CONV_PADDING(nd)                                                                                    \
    fac_status conv##nd##d_padding_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, \
                                             fac_tensor *bias, fac_ints stride, const char *padding,        \
                                             fac_ints dilation, int64_t groups, fac_tensor **out) {         \
        (void)c;                                                                                            \
        return conv_named(nd, input, weight, bias, stride, padding, dilation, groups, out);                 \
    }
CONV_PADDING(1)
CONV_PADDING(2)
CONV_PADDING(3)

fac_status convolution_flags_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                       fac_ints stride, fac_ints padding, fac_ints dilation, bool transposed,
                                       fac_ints output_padding, int64_t groups, bool benchmark, bool deterministic,
                                       bool cudnn_enabled, bool allow_tf32, fac_tensor **out) {
    (void)c;
    (void)benchmark;
    (void)deterministic;
    (void)cudnn_enabled;
    (void)allow_tf32;
    FAC_SCOPE(scope);
    return fac__give(
        out, fac__s_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups));
}

fac_status convolution_mode_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                      fac_ints stride, const char *padding, fac_ints dilation, int64_t groups,
                                      fac_tensor **out) {
    (void)c;
    FAC_CHECK(weight->ndim >= 3 && weight->ndim <= 5, FAC_ERR_SHAPE, "weight must have 3 to 5 dimensions, got size %s",
              FAC_SHAPE_TEXT(weight));
    return conv_named(weight->ndim - 2, input, weight, bias, stride, padding, dilation, groups, out);
}
