/* Gradients of special functions and of operators over the parts of numbers. */
#include "autograd/formulas/brief.h"

/* The order 0 less that of order 1 over x, which is 1/2 at 0: the slope of J1, I1 and Y1. */
fac_tensor *bessel_1_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *order_0, fac_tensor *order_1) {
    return mul(grad, fill_where(sub(order_0, divide(order_1, self)), is_zero(self), 0.5));
}

/* Of exp(-|x|) I1, likewise, less that sign(x) times itself, in one factor. */
fac_tensor *i1e_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *order_0, fac_tensor *result) {
    fac_tensor *factor = add(fac__s_sgn(self), fac__s_reciprocal(self));
    return mul(grad, fill_where(sub(order_0, mul(result, factor)), is_zero(self), 0.5));
}

/* (cos(x) - sin(x) / x) / x, and 0 at 0. */
fac_tensor *spherical_bessel_grad(fac_tensor *grad, fac_tensor *x, fac_tensor *result) {
    return mul(grad, fill_where(divide(sub(fac__s_cos(x), result), x), is_zero(x), 0));
}

/* x^(a - 1) exp(-x) / gamma(a) */
fac_tensor *gamma_slope(fac_tensor *grad, fac_tensor *a, fac_tensor *x) {
    fac_tensor *lower = fac__s_sub_Scalar(a, fac_scalar_i_(1), fac_scalar_i_(1));
    fac_tensor *exponent = sub(sub(mul(lower, fac__s_log(x)), x), fac__s_lgamma(a));
    return mul(grad, fac__s_exp(exponent));
}

/* The sign that was turned, as a factor; 0 at 0. */
fac_tensor *copysign_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result) {
    return mul(grad, mul(fac__s_sgn(self), fac__s_sgn(result)));
}

/* As PyTorch's: what self has is kept, but where it is other already. */
fac_tensor *nextafter_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *other) {
    return fill_where(grad, fac__s_eq_Tensor(self, other), 0);
}

/* The mantissa is self over a power of two. */
fac_tensor *frexp_grad(fac_tensor *grad, fac_tensor *exponent) {
    if (!grad) return NULL;
    fac_tensor *power = fac__s_to_dtype(fac__s_neg(exponent), (fac_dtype)grad->dtype, false, false, FAC_FORMAT_DEFAULT);
    return mul(grad, fac__s_exp2(power));
}
