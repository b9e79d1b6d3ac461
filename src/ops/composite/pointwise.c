/* Pointwise operators made of others. */
#include "ops/call.h"
#include "ops_gen.h"

fac_status floor_divide_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_div_Tensor_mode(self, other, "floor", out);
}
fac_status floor_divide_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_tensor **out) {
    (void)c;
    return fac__c_div_Scalar_mode(self, other, "floor", out);
}
fac_status positive_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->dtype != FAC_BOOL, FAC_ERR_DTYPE, "The `+` operator, on a bool tensor is not supported.");
    *out = fac__ref(self);
    return FAC_OK;
}

/* A weight per channel lies along dimension 1 (dimension 0 of a single vector has no channels: one weight). */
fac_status prelu_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *weight, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    int64_t channels = self->ndim >= 2 ? self->sizes[1] : 1, shape[FAC_MAX_DIMS];
    FAC_CHECK(self->dtype == weight->dtype, FAC_ERR_DTYPE, "Type promoting not supported. Got %s and %s",
              fac_dtype_name((fac_dtype)self->dtype), fac_dtype_name((fac_dtype)weight->dtype));
    FAC_CHECK(weight->ndim <= 1, FAC_ERR_SHAPE, "Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d",
              weight->ndim);
    FAC_CHECK(
        weight->numel == 1 || weight->numel == channels, FAC_ERR_SHAPE,
        "Mismatch of parameter numbers and input channel size. Found parameter numbers = %lld and channel size = %lld.",
        (long long)weight->numel, (long long)channels);
    for (int d = 0; d < self->ndim; d++) shape[d] = d == 1 ? weight->numel : 1;
    fac_tensor *w = fac__s_view(weight, (fac_ints){shape, self->ndim});
    return fac__give(out, fac__s__prelu_kernel(self, w));
}
