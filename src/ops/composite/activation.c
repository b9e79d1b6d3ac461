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
