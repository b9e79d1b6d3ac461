/* Channels in another order, and the gradient of pooling over drawn windows. */
#include "ops/composite/brief.h"
#include "ops/format.h"

static fac_status check_drawn(int nd, const fac_tensor *grad, fac_ints kernel_size, fac_ints output_size) {
    const size_t n = (size_t)nd;
    FAC_CHECK(kernel_size.n == n && output_size.n == n, FAC_ERR_ARGUMENT,
              "There should be exactly %d elements in kernel_size and output_size, but got %zu and %zu", nd,
              kernel_size.n, output_size.n);
    const bool fits =
        grad->ndim >= nd && memcmp(grad->sizes + grad->ndim - nd, output_size.v, n * sizeof(int64_t)) == 0;
    FAC_CHECK(fits, FAC_ERR_SHAPE, "grad_output %s does not end in output_size", FAC_SHAPE_TEXT(grad));
    return FAC_OK;
}

fac_status fractional_max_pool2d_backward_composite(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *self,
                                                    fac_ints kernel_size, fac_ints output_size, fac_tensor *indices,
                                                    fac_tensor **out) {
    (void)c;
    FAC_TRY(check_drawn(2, grad_output, kernel_size, output_size));
    return fac__c_adaptive_max_pool2d_backward(grad_output, self, indices, out);
}

fac_status fractional_max_pool3d_backward_composite(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *self,
                                                    fac_ints kernel_size, fac_ints output_size, fac_tensor *indices,
                                                    fac_tensor **out) {
    (void)c;
    FAC_TRY(check_drawn(3, grad_output, kernel_size, output_size));
    return fac__c_adaptive_max_pool3d_backward(grad_output, self, indices, out);
}

/* Channels that are innermost, and stay so. */
static fac_status shuffle_points(fac_tensor *self, int64_t groups, fac_tensor **out) {
    FAC_SCOPE(s);
    fac_tensor *t = fac__s_movedim_int(self, 1, -1);
    if (!t) return fac_error();
    const fac_ints sizes = fac__sizes_now(t);
    t = fac__s_unflatten_int(t, -1, FAC_INTS(groups, self->sizes[1] / groups));
    t = fac__s_clone(fac__s_transpose_int(t, -1, -2), FAC_CONTIGUOUS);
    return fac__give(out, fac__s_movedim_int(fac__s_reshape(t, sizes), -1, 1));
}

fac_status channel_shuffle_composite(const fac_call_info *c, fac_tensor *self, int64_t groups, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 2, FAC_ERR_SHAPE, "channel_shuffle expects input with > 2 dims, but got input with sizes %s",
              FAC_SHAPE_TEXT(self));
    FAC_CHECK(groups > 0, FAC_ERR_ARGUMENT,
              "Number of groups to divide channels in must be positive. Value of groups: %lld", (long long)groups);
    const int64_t n = self->sizes[0], channels = self->sizes[1];
    FAC_CHECK(channels % groups == 0, FAC_ERR_SHAPE,
              "Number of channels must be divisible by groups. Got %lld channels and %lld groups.", (long long)channels,
              (long long)groups);
    int64_t rest = 1;
    for (int d = 2; d < self->ndim; d++) rest = fac__mul_or_max(rest, self->sizes[d]);
    if (fac__is_channels_last(fac__format_of(self))) return shuffle_points(self, groups, out);
    if (self->numel == 0) return fac__c_clone(self, FAC_CONTIGUOUS, out);
    FAC_SCOPE(s);
    fac_tensor *t = fac__s_reshape(self, FAC_INTS(n, groups, channels / groups, rest));
    t = fac__s_clone(fac__s_transpose_int(t, 1, 2), FAC_CONTIGUOUS);
    return fac__give(out, fac__s_reshape(t, fac__sizes_now(self)));
}
