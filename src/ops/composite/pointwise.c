/* Aliases, and pointwise operators made of others. */
#include "ops/call.h"
#include "ops_gen.h"

#define ALIAS(name, of)                                                                       \
    fac_status name##_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) { \
        (void)c;                                                                              \
        return fac__c_##of(self, out);                                                        \
    }
ALIAS(absolute, abs)
ALIAS(negative, neg)
ALIAS(arcsin, asin)
ALIAS(arccos, acos)
ALIAS(arctan, atan)
ALIAS(arcsinh, asinh)
ALIAS(arccosh, acosh)
ALIAS(arctanh, atanh)
ALIAS(fix, trunc)

#define BINARY_ALIAS(name, of)                                                                                         \
    fac_status name##_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other,                    \
                                       fac_tensor **out) {                                                             \
        (void)c;                                                                                                       \
        return fac__c_##of##_Tensor(self, other, out);                                                                 \
    }                                                                                                                  \
    fac_status name##_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_tensor **out) { \
        (void)c;                                                                                                       \
        return fac__c_##of##_Scalar(self, other, out);                                                                 \
    }
BINARY_ALIAS(multiply, mul)
BINARY_ALIAS(divide, div)
BINARY_ALIAS(true_divide, div)
BINARY_ALIAS(greater, gt)
BINARY_ALIAS(greater_equal, ge)
BINARY_ALIAS(less, lt)
BINARY_ALIAS(less_equal, le)
BINARY_ALIAS(not_equal, ne)
BINARY_ALIAS(and, bitwise_and)
BINARY_ALIAS(or, bitwise_or)
BINARY_ALIAS(xor, bitwise_xor)

fac_status subtract_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_scalar alpha,
                                     fac_tensor **out) {
    (void)c;
    return fac__c_sub_Tensor(self, other, alpha, out);
}
fac_status subtract_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_scalar alpha,
                                     fac_tensor **out) {
    (void)c;
    return fac__c_sub_Scalar(self, other, alpha, out);
}
fac_status floor_divide_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_div_Tensor_mode(self, other, "floor", out);
}
fac_status floor_divide_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_tensor **out) {
    (void)c;
    return fac__c_div_Scalar_mode(self, other, "floor", out);
}
fac_status clip_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num min, fac_opt_num max,
                          fac_tensor **out) {
    (void)c;
    return fac__c_clamp(self, min, max, out);
}
fac_status clip_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *min, fac_tensor *max,
                                 fac_tensor **out) {
    (void)c;
    return fac__c_clamp_Tensor(self, min, max, out);
}
fac_status lshift_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_bitwise_left_shift_Tensor(self, other, out);
}
fac_status lshift_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_tensor **out) {
    (void)c;
    return fac__c_bitwise_left_shift_Tensor_Scalar(self, other, out);
}
fac_status rshift_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_bitwise_right_shift_Tensor(self, other, out);
}
fac_status rshift_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_tensor **out) {
    (void)c;
    return fac__c_bitwise_right_shift_Tensor_Scalar(self, other, out);
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
