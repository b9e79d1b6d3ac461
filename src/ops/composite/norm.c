/* The normalisations that users call: each runs its native form and gives the first result. */
#include "ops/call.h"
#include "ops_gen.h"
#include <facula/autograd.h>

/* Keeps the first of n owned results. */
static fac_status first_of(fac_tensor **results, size_t n, fac_tensor **out) {
    *out = results[0];
    for (size_t i = 1; i < n; i++) fac__unref(results[i]);
    return FAC_OK;
}

fac_status layer_norm_composite(const fac_call_info *c, fac_tensor *input, fac_ints normalized_shape,
                                fac_tensor *weight, fac_tensor *bias, double eps, bool cudnn_enable, fac_tensor **out) {
    (void)c, (void)cudnn_enable;
    fac_tensor *r[3];
    FAC_TRY(fac__c_native_layer_norm(input, normalized_shape, weight, bias, eps, r));
    return first_of(r, 3, out);
}

fac_status rms_norm_composite(const fac_call_info *c, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                              fac_opt_num eps, fac_tensor **out) {
    (void)c;
    fac_tensor *r[2];
    FAC_TRY(fac__c__fused_rms_norm(input, normalized_shape, weight, eps, r));
    return first_of(r, 2, out);
}

/* Nothing to normalise: the input, tied to the parameters so that they get (zero) gradients. */
static fac_status empty_batch(fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_tensor **out) {
    FAC_SCOPE(scope);
    fac_tensor *y = fac__s_clone(input, FAC_FORMAT_DEFAULT);
    if (weight) y = fac__s_mul_Tensor(y, fac__s_select_int(weight, 0, 0));
    if (bias) y = fac__s_add_Tensor(y, fac__s_select_int(bias, 0, 0), fac_scalar_i_(1));
    return fac__give(out, y);
}

fac_status batch_norm_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                fac_tensor *running_mean, fac_tensor *running_var, bool training, double momentum,
                                double eps, bool cudnn_enabled, fac_tensor **out) {
    (void)c, (void)cudnn_enabled;
    if (input->numel == 0) return empty_batch(input, weight, bias, out);
    fac_tensor *r[3];
    FAC_TRY(fac__c_native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, r));
    return first_of(r, 3, out);
}

fac_status group_norm_composite(const fac_call_info *c, fac_tensor *input, int64_t num_groups, fac_tensor *weight,
                                fac_tensor *bias, double eps, bool cudnn_enabled, fac_tensor **out) {
    (void)c, (void)cudnn_enabled;
    FAC_CHECK(input->ndim >= 2, FAC_ERR_SHAPE, "Expected at least 2 dimensions for input tensor but received %d",
              input->ndim);
    FAC_CHECK(num_groups > 0, FAC_ERR_ARGUMENT, "num_groups must be positive, got %lld", (long long)num_groups);
    int64_t n = input->sizes[0], channels = input->sizes[1], plane = 1;
    for (int d = 2; d < input->ndim; d++)
        FAC_CHECK(fac__mul(plane, input->sizes[d], &plane), FAC_ERR_OVERFLOW, "input %s is too large",
                  FAC_SHAPE_TEXT(input));
    fac_tensor *r[3];
    FAC_TRY(fac__c_native_group_norm(input, weight, bias, n, channels, plane, num_groups, eps, r));
    return first_of(r, 3, out);
}

/* ---- instance norm: batch norm over samples and channels as one ---------------------------------------------------- */

/* The mean over the batch of the statistics of N * C channels. */
static fac_tensor *by_channel(fac_tensor *repeated, int64_t n, int64_t channels) {
    fac_tensor *by_sample = fac__s_view(repeated, FAC_INTS(n, channels));
    return fac__s_mean_dim(by_sample, FAC_INTS(0), false, FAC_DTYPE_DEFAULT);
}

/* Moves the running statistics to those of the call, outside the graph: both or, if that cannot be, none. */
static fac_status put_back(fac_tensor *const *running, fac_tensor *const *repeated, int64_t n) {
    FAC_NO_GRAD(guard);
    fac_tensor *outs[2], *means[2];
    size_t k = 0;
    for (int i = 0; i < 2; i++) {
        if (!running[i]) continue;
        outs[k] = running[i];
        means[k] = by_channel(repeated[i], n, running[i]->numel);
        if (!means[k++]) return fac_error();
    }
    return fac__copy_to_outs(outs, means, k);
}

static fac_tensor *repeated(fac_tensor *t, int64_t n) { return t ? fac__s_repeat(t, FAC_INTS(n)) : NULL; }

fac_status instance_norm_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                   fac_tensor *running_mean, fac_tensor *running_var, bool use_input_stats,
                                   double momentum, double eps, bool cudnn_enabled, fac_tensor **out) {
    (void)c;
    FAC_CHECK(input->ndim >= 2, FAC_ERR_SHAPE, "expected input of at least 2 dimensions [N, C, ...], got %s",
              FAC_SHAPE_TEXT(input));
    FAC_CHECK(use_input_stats || (running_mean && running_var), FAC_ERR_ARGUMENT,
              "Expected running_mean and running_var to be defined when use_input_stats is false");
    FAC_SCOPE(scope);
    int64_t n = input->sizes[0], sizes[FAC_MAX_DIMS];
    memcpy(sizes, input->sizes, (size_t)input->ndim * sizeof *sizes);
    sizes[0] = 1;
    FAC_CHECK(fac__mul(n, input->sizes[1], &sizes[1]), FAC_ERR_OVERFLOW, "input %s has too many channels",
              FAC_SHAPE_TEXT(input));
    fac_tensor *const running[2] = {running_mean, running_var};
    fac_tensor *const stats[2] = {repeated(running_mean, n), repeated(running_var, n)};
    /* What has gaps is brought together here, once for the result and for the gradient. */
    fac_tensor *x = fac__s_reshape(fac__s_contiguous(input, FAC_CONTIGUOUS), (fac_ints){sizes, (size_t)input->ndim});
    fac_tensor *y = fac__s_batch_norm(x, repeated(weight, n), repeated(bias, n), stats[0], stats[1], use_input_stats,
                                      momentum, eps, cudnn_enabled);
    y = fac__s_view(y, fac__sizes_now(input));
    if (!y) return fac_error();
    if (use_input_stats) FAC_TRY(put_back(running, stats, n));
    return fac__give(out, y);
}
