/* Activations in terms of others. */
#include "ops/composite/brief.h"
#include "ops/structured.h"
#include <math.h>

fac_status relu6_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_hardtanh(self, fac_scalar_i_(0), fac_scalar_i_(6), out);
}

/* Constants for which the activations of a deep network keep mean 0 and variance 1. */
fac_status selu_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_elu(self, fac_scalar_f_(1.6732632423543772848170429916717),
                      fac_scalar_f_(1.0507009873554804934193349852946), fac_scalar_i_(1), out);
}

fac_status celu_composite(const fac_call_info *c, fac_tensor *self, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    double a = fac__scalar_f64(alpha);
    FAC_CHECK(a != 0, FAC_ERR_ARGUMENT, "alpha cannot be 0");
    return fac__c_elu(self, alpha, fac_scalar_i_(1), fac_scalar_f_(1 / a), out);
}

fac_status glu_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "glu does not support 0-dimensional tensors");
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    int64_t n = self->sizes[d];
    FAC_CHECK(n % 2 == 0, FAC_ERR_SHAPE, "Halving dimension must be even, but dimension %lld is size %lld",
              (long long)d, (long long)n);
    FAC_SCOPE(s);
    return fac__give(out, mul(fac__s_narrow(self, d, 0, n / 2), fac__s_sigmoid(fac__s_narrow(self, d, n / 2, n / 2))));
}

static fac_status check_shrink(const fac_tensor *self, fac_scalar lambd) {
    FAC_CHECK(!is_integral(self), FAC_ERR_DTYPE, "not implemented for %s", fac_dtype_name((fac_dtype)self->dtype));
    return fac__check_factor((fac_dtype)self->dtype, lambd);
}

/* x where |x| > lambd, else 0; NaN stays. */
fac_status hardshrink_composite(const fac_call_info *c, fac_tensor *self, fac_scalar lambd, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_shrink(self, lambd));
    FAC_SCOPE(s);
    return fac__give(out, fill_where(self, fac__s_le_Scalar(fac__s_abs(self), lambd), 0));
}

/* x moved by lambd towards 0, and 0 where it would pass it. */
fac_status softshrink_composite(const fac_call_info *c, fac_tensor *self, fac_scalar lambd, fac_tensor **out) {
    (void)c;
    double l = fac__scalar_f64(lambd);
    FAC_TRY(check_shrink(self, lambd));
    FAC_CHECK(l >= 0 && isfinite(l), FAC_ERR_ARGUMENT, "lambda must be finite and not negative, but found to be %g.",
              l);
    FAC_SCOPE(s);
    fac_tensor *moved = either(fac__s_gt_Scalar(self, fac_scalar_i_(0)), plus(self, -l), plus(self, l));
    return fac__give(out, fill_where(moved, fac__s_le_Scalar(fac__s_abs(self), lambd), 0));
}

/* Of both shrinkages: nothing passes where self is within lambd of 0. */
fac_status shrink_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *self, fac_scalar lambd,
                                     fac_tensor **out) {
    (void)c;
    FAC_TRY(check_shrink(self, lambd));
    FAC_SCOPE(s);
    return fac__give(out, fill_where(grad, fac__s_le_Scalar(fac__s_abs(self), lambd), 0));
}

/* ---- random slopes ---------------------------------------------------------------------------------------------------------- */

static fac_scalar mean_slope(fac_scalar lower, fac_scalar upper) {
    return fac_scalar_f_((fac__scalar_f64(lower) + fac__scalar_f64(upper)) / 2);
}

fac_status rrelu_composite(const fac_call_info *c, fac_tensor *self, fac_scalar lower, fac_scalar upper, bool training,
                           fac_generator *generator, fac_tensor **out) {
    (void)c;
    const double low = fac__scalar_f64(lower), high = fac__scalar_f64(upper);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(fac__check_number(FAC_F64, lower));
    FAC_TRY(fac__check_number(FAC_F64, upper));
    FAC_CHECK(isfinite(low) && isfinite(high) && low <= high, FAC_ERR_ARGUMENT,
              "Lower bound should be less than or equal to the upper bound, both finite, but got %g and %g", low, high);
    if (!training) return fac__c_leaky_relu(self, mean_slope(lower, upper), out);
    FAC_SCOPE(s);
    fac_tensor *slopes =
        fac__s_empty_like(self, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    slopes = fac__s_uniform_(slopes, low, high, generator);
    return fac__give(out, mul(self, fill_where(slopes, fac__s_gt_Scalar(self, fac_scalar_i_(0)), 1)));
}

fac_status rrelu_with_noise_backward_composite(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *self,
                                               fac_tensor *noise, fac_scalar lower, fac_scalar upper, bool training,
                                               bool self_is_result, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__check_number(FAC_F64, lower));
    FAC_TRY(fac__check_number(FAC_F64, upper));
    if (training && fac__scalar_f64(upper) - fac__scalar_f64(lower) > 1e-6)
        return fac__c_mul_Tensor(grad_output, noise, out);
    return fac__c_leaky_relu_backward(grad_output, self, mean_slope(lower, upper), self_is_result, out);
}
