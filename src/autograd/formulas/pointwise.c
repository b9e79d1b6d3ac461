/* Gradients of pointwise operators that are more than an expression, made of public operators. */
#include "ops/call.h"
#include "ops_gen.h"
#include <math.h>

static fac_tensor *mul(fac_tensor *a, fac_tensor *b) { return fac__s_mul_Tensor(a, b); }
static fac_tensor *by(fac_tensor *a, double b) { return fac__s_mul_Scalar(a, fac_scalar_f_(b)); }
static fac_tensor *plus(fac_tensor *a, double b) { return fac__s_add_Scalar(a, fac_scalar_f_(b), fac_scalar_i_(1)); }
/* b - a */
static fac_tensor *from(double b, fac_tensor *a) { return fac__s_rsub_Scalar(a, fac_scalar_f_(b), fac_scalar_i_(1)); }
static fac_tensor *zero_where(fac_tensor *mask, fac_tensor *t) {
    return fac__s_masked_fill_Scalar(t, mask, fac_scalar_i_(0));
}
static fac_tensor *zeros(fac_tensor *t) {
    return fac__s_zeros_like(t, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
}
static bool is_complex(const fac_tensor *t) { return t && fac_dtype_is_complex((fac_dtype)t->dtype); }

/* ---- unary ------------------------------------------------------------------------------------------------------------ */

/* Complex: the part of the gradient at right angles to the number, over its magnitude; 0 at 0. */
fac_tensor *sgn_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result) {
    if (!is_complex(self)) return zeros(grad);
    fac_tensor *size = fac__s_abs(self);
    fac_tensor *along = mul(fac__s_real(mul(fac__s_conj(result), grad)), result);
    fac_tensor *across = fac__s_div_Tensor(fac__s_sub_Tensor(grad, along, fac_scalar_i_(1)), size);
    return zero_where(fac__s_logical_not(size), across);
}

/* (cos(pi x) pi x - sin(pi x)) / (pi x^2); 0 at 0. */
fac_tensor *sinc_grad(fac_tensor *grad, fac_tensor *self) {
    const double pi = 3.14159265358979323846;
    fac_tensor *y = by(self, pi);
    fac_tensor *top = fac__s_sub_Tensor(mul(fac__s_cos(y), y), fac__s_sin(y), fac_scalar_i_(1));
    fac_tensor *slope = fac__s_div_Tensor(top, by(fac__s_square(self), pi));
    return mul(grad, fac__s_conj(zero_where(fac__s_logical_not(self), slope)));
}

/* Turning z = x + iy by one radian moves it by iz; the angle changes by grad * iz / |z|^2. */
fac_tensor *angle_grad(fac_tensor *grad, fac_tensor *self) {
    if (!is_complex(self)) return zeros(grad);
    const double i[2] = {0, 1};
    fac_tensor *squared = fac__s_square(fac__s_abs(self));
    fac_tensor *turn = fac__s_div_Tensor(fac__s_mul_Scalar(self, fac_scalar_c_(i)), squared);
    return mul(grad, zero_where(fac__s_logical_not(squared), turn));
}

/* ---- division and power ------------------------------------------------------------------------------------------------- */

/* Rounding makes a step function: only true division has a gradient other than 0. */
fac_tensor *div_mode_grad_self(fac_tensor *grad, fac_tensor *other, const char *rounding_mode) {
    return rounding_mode ? zeros(grad) : fac__s_div_Tensor(grad, fac__s_conj(other));
}
fac_tensor *div_mode_grad_other(fac_tensor *grad, fac_tensor *result, fac_tensor *other, const char *rounding_mode) {
    if (rounding_mode) return zeros(grad);
    return fac__s_neg(mul(grad, fac__s_conj(fac__s_div_Tensor(result, other))));
}
fac_tensor *div_scalar_mode_grad(fac_tensor *grad, fac_scalar other, const char *rounding_mode) {
    double room[2];
    return rounding_mode ? zeros(grad) : fac__s_div_Scalar(grad, fac__scalar_conj(other, room));
}

/* floor(number / t) */
fac_tensor *floor_divide_number(fac_scalar number, fac_tensor *t) {
    return fac__s_div_Tensor_mode(fac__s_full_like(t, number, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                                   (fac_opt_num){0}, FAC_FORMAT_DEFAULT),
                                  t, "floor");
}

/* exponent * self^(exponent - 1), and 0 for exponent 0 also at self 0. */
fac_tensor *pow_scalar_grad(fac_tensor *grad, fac_tensor *self, fac_scalar exponent) {
    if (fac__scalar_is(exponent, 0)) return zeros(grad);
    if (fac__scalar_is(exponent, 2)) return mul(grad, fac__s_conj(fac__s_mul_Scalar(self, exponent)));
    double room[2];
    fac_tensor *lower = fac__s_pow_Tensor_Scalar(self, fac__scalar_sub(exponent, fac_scalar_i_(1), room));
    return mul(grad, fac__s_conj(fac__s_mul_Scalar(lower, exponent)));
}

fac_tensor *pow_grad_self(fac_tensor *grad, fac_tensor *self, fac_tensor *exponent) {
    fac_tensor *lower = fac__s_pow_Tensor_Tensor(self, fac__s_sub_Scalar(exponent, fac_scalar_i_(1), fac_scalar_i_(1)));
    fac_tensor *slope = mul(grad, fac__s_conj(mul(exponent, lower)));
    return zero_where(fac__s_logical_not(exponent), slope);
}

/* log(0) would poison what is 0: 0^b stays 0 for every positive b. */
fac_tensor *pow_grad_exponent(fac_tensor *grad, fac_tensor *self, fac_tensor *exponent, fac_tensor *result) {
    fac_tensor *flat = fac__s_logical_not(self);
    if (!is_complex(exponent)) flat = fac__s_logical_and(flat, fac__s_ge_Scalar(exponent, fac_scalar_i_(0)));
    /* The logarithm of a negative number is complex where the power is. */
    fac_tensor *base =
        is_complex(result) ? fac__s_to_dtype(self, (fac_dtype)result->dtype, false, false, FAC_FORMAT_DEFAULT) : self;
    fac_tensor *slope = mul(grad, fac__s_conj(mul(result, fac__s_log(base))));
    return zero_where(flat, slope);
}

fac_tensor *pow_number_grad(fac_tensor *grad, fac_scalar self, fac_tensor *exponent, fac_tensor *result) {
    double base[2], room[2];
    if (fac__scalar_is(self, 0)) {
        fac_tensor *slope = fac__s_mul_Scalar(mul(grad, result), fac_scalar_f_(-__builtin_inf()));
        return is_complex(exponent) ? zeros(grad) : zero_where(fac__s_ge_Scalar(exponent, fac_scalar_i_(0)), slope);
    }
    fac__scalar_c128(self, base);
    bool complex = base[1] != 0 || (base[0] < 0 && is_complex(result));
    double size = __builtin_log(__builtin_hypot(base[0], base[1]));
    room[0] = base[0] < 0 && !complex ? __builtin_nan("") : size;
    room[1] = -__builtin_atan2(base[1], base[0]);
    fac_scalar log = complex ? fac_scalar_c_(room) : fac_scalar_f_(room[0]);
    return fac__s_mul_Scalar(mul(grad, fac__s_conj(result)), log);
}

/* ---- extrema and limits --------------------------------------------------------------------------------------------------- */

/* The gradient goes to `self` where it won against `other`, half of it where they tie. */
fac_tensor *extremum_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *other, bool larger) {
    fac_tensor *lost = larger ? fac__s_lt_Tensor(self, other) : fac__s_gt_Tensor(self, other);
    fac_tensor *shared = fac__s_where_self(fac__s_eq_Tensor(self, other), by(grad, 0.5), grad);
    return zero_where(lost, shared);
}

/* fmax and fmin: of a number and NaN the number has it, of two NaN self. */
fac_status number_extremum_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, fac_tensor *other,
                                bool larger) {
    fac_tensor *ahead = larger ? fac__s_gt_Tensor(self, other) : fac__s_lt_Tensor(self, other);
    fac_tensor *mine = fac__s_logical_or(ahead, fac__s_isnan(other)), *equal = fac__s_eq_Tensor(self, other);
    fac_tensor *shared = fac__s_where_self(equal, by(grad, 0.5), grad);
    grads[0] = zero_where(fac__s_logical_not(fac__s_logical_or(mine, equal)), shared);
    grads[1] = zero_where(mine, shared);
    return fac_error();
}

/* grad x / (x^2 + y^2) and -grad y / (x^2 + y^2); 0 at the origin, where there is no slope. Squares of integers wrap. */
fac_status atan2_grads(fac_tensor **grads, fac_tensor *grad, fac_tensor *y, fac_tensor *x, bool of_y, bool of_x) {
    fac_tensor *q = fac__s_addcmul(fac__s_square(y), x, x, fac_scalar_i_(1));
    fac_tensor *whole = fac__s_masked_fill_Scalar(q, fac__s_logical_not(q), fac_scalar_f_(__builtin_inf()));
    if (of_y) grads[0] = mul(grad, fac__s_div_Tensor(x, whole));
    if (of_x) grads[1] = fac__s_neg(mul(grad, fac__s_div_Tensor(y, whole)));
    return fac_error();
}

/* The gradient passes strictly between numbers as bounds. */
fac_tensor *clamp_grad(fac_tensor *grad, fac_tensor *self, fac_opt_num min, fac_opt_num max) {
    fac_tensor *above = min.set ? fac__s_gt_Scalar(self, min.v) : NULL;
    fac_tensor *below = max.set ? fac__s_lt_Scalar(self, max.v) : NULL;
    fac_tensor *within = above && below ? fac__s_logical_and(above, below) : above ? above : below;
    return zero_where(fac__s_logical_not(within), grad);
}

/* The operand that is the result takes the gradient: where the bounds cross that is max; where self lies on one of two
   different bounds each has half, and where all three are equal self has it. */
static void clamp_between_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, fac_tensor *min,
                               fac_tensor *max) {
    fac_tensor *by_max = fac__s_logical_or(fac__s_gt_Tensor(self, max), fac__s_gt_Tensor(min, max));
    fac_tensor *below = fac__s_lt_Tensor(self, min), *apart = fac__s_lt_Tensor(min, max);
    fac_tensor *by_min = fac__s_logical_and(below, fac__s_le_Tensor(min, max));
    fac_tensor *on_min = fac__s_logical_and(apart, fac__s_eq_Tensor(self, min));
    fac_tensor *on_max = fac__s_logical_and(apart, fac__s_eq_Tensor(self, max));
    fac_tensor *half = by(grad, 0.5), *none = zeros(grad);
    fac_tensor *passed = fac__s_where_self(fac__s_logical_or(on_min, on_max), half, grad);
    grads[0] = zero_where(fac__s_logical_or(below, by_max), passed);
    grads[1] = fac__s_where_self(by_min, grad, fac__s_where_self(on_min, half, none));
    grads[2] = fac__s_where_self(by_max, grad, fac__s_where_self(on_max, half, none));
}

fac_status clamp_tensor_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, fac_tensor *min, fac_tensor *max) {
    if (min && max) {
        clamp_between_grad(grads, grad, self, min, max);
    } else {
        fac_tensor *bound = min ? min : max;
        grads[0] = extremum_grad(grad, self, bound, min != NULL);
        grads[min ? 1 : 2] = extremum_grad(grad, bound, self, min != NULL);
    }
    return fac_error();
}

/* ---- second derivatives of activations ---------------------------------------------------------------------------------------- */

/* gelu'' = pdf(x) (2 - x^2) */
static fac_tensor *gelu_curvature(fac_tensor *x) {
    fac_tensor *squared = fac__s_square(x);
    fac_tensor *pdf = by(fac__s_exp(by(squared, -0.5)), 0.39894228040143267794);
    return mul(pdf, from(2, squared));
}
/* With u = k (x + c x^3), t = tanh(u): (1 - t^2) (u' + x (u'' / 2 - t u'^2)). */
static fac_tensor *gelu_tanh_curvature(fac_tensor *x) {
    const double k = 0.79788456080286535588, c = 0.044715;
    fac_tensor *squared = fac__s_square(x);
    fac_tensor *t = fac__s_tanh(by(mul(x, plus(by(squared, c), 1)), k));
    fac_tensor *u1 = by(plus(by(squared, 3 * c), 1), k), *half_u2 = by(x, 3 * k * c);
    fac_tensor *bend = fac__s_sub_Tensor(half_u2, mul(t, fac__s_square(u1)), fac_scalar_i_(1));
    return mul(from(1, fac__s_square(t)), fac__s_add_Tensor(u1, mul(x, bend), fac_scalar_i_(1)));
}
fac_tensor *gelu_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *self, const char *approximate) {
    bool by_tanh = strcmp(approximate, "tanh") == 0;
    return mul(mul(grad, grad_output), by_tanh ? gelu_tanh_curvature(self) : gelu_curvature(self));
}

/* silu'' = s (1 - s) (2 + x (1 - 2 s)) */
fac_tensor *silu_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *self) {
    fac_tensor *s = fac__s_sigmoid(self);
    fac_tensor *bend = plus(mul(self, from(1, by(s, 2))), 2);
    return mul(mul(grad, grad_output), mul(mul(s, from(1, s)), bend));
}

/* With t = tanh(softplus(x)): (1 - t^2) s (2 + x (1 - s - 2 t s)). */
fac_tensor *mish_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *self) {
    fac_tensor *s = fac__s_sigmoid(self);
    fac_tensor *t = fac__s_tanh(fac__s_softplus(self, fac_scalar_i_(1), fac_scalar_i_(20)));
    fac_tensor *inner = fac__s_sub_Tensor(from(1, s), mul(t, s), fac_scalar_i_(2));
    fac_tensor *bend = plus(mul(self, inner), 2);
    return mul(mul(grad, grad_output), mul(mul(from(1, fac__s_square(t)), s), bend));
}

/* 1/3 between -3 and 3. */
fac_tensor *hardswish_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *self) {
    fac_tensor *outside = fac__s_gt_Scalar(fac__s_abs(self), fac_scalar_i_(3));
    return zero_where(outside, by(mul(grad, grad_output), 1.0 / 3.0));
}

fac_tensor *elu_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_scalar alpha, fac_scalar scale,
                            fac_scalar input_scale, bool is_result, fac_tensor *self_or_result) {
    double factor = fac__scalar_f64(input_scale), size = fac__scalar_f64(alpha) * fac__scalar_f64(scale);
    fac_tensor *both = mul(grad, grad_output);
    fac_tensor *bend =
        is_result ? by(both, factor) : mul(by(both, factor * factor * size), fac__s_exp(by(self_or_result, factor)));
    return zero_where(fac__s_gt_Scalar(self_or_result, fac_scalar_i_(0)), bend);
}

fac_tensor *softplus_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *self, fac_scalar beta,
                                 fac_scalar threshold) {
    double factor = fac__scalar_f64(beta);
    fac_tensor *z = by(self, factor), *s = fac__s_sigmoid(z);
    fac_tensor *bend = mul(mul(grad, grad_output), by(mul(s, from(1, s)), factor));
    return zero_where(fac__s_gt_Scalar(z, threshold), bend);
}

/* The edge sums the weight's gradient to its size. */
fac_status prelu_grads(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, fac_tensor *weight) {
    fac__prelu_kernel_backward_result r = fac__s__prelu_kernel_backward(grad, self, weight);
    grads[0] = r.result0;
    grads[1] = r.result1;
    return fac_error();
}
/* gx, gw: what flows to the gradients of the input and of the weight. Both are linear in each of grad_output, and, below 0,
   in the weight and in the input. */
fac_status prelu_double_grads(fac_tensor **grads, fac_tensor *gx, fac_tensor *gw, fac_tensor *grad_output,
                              fac_tensor *self, fac_tensor *weight) {
    fac_tensor *above = fac__s_gt_Scalar(self, fac_scalar_i_(0));
    fac_tensor *bent = fac__s_add_Tensor(mul(weight, gx), mul(self, gw), fac_scalar_i_(1));
    grads[0] = fac__s_where_self(above, gx, bent);
    grads[1] = zero_where(above, mul(grad_output, gw));
    grads[2] = zero_where(above, mul(grad_output, gx));
    return fac_error();
}

/* With s the sigmoid of the second half b of x: s da + (1 - s) y db. The first half of x does not count beside y. */
fac_status glu_jvp_grads(fac_tensor **grads, fac_tensor *grad, fac_tensor *glu, fac_tensor *x, fac_tensor *dx,
                         int64_t dim) {
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, x->ndim, &d));
    const int64_t n = glu->sizes[d];
    fac_tensor *s = fac__s_sigmoid(fac__s_narrow(x, d, n, n)), *da = fac__s_narrow(dx, d, 0, n),
               *db = fac__s_narrow(dx, d, n, n), *left = mul(grad, from(1, s));
    fac_tensor *bend = fac__s_sigmoid_backward(mul(grad, fac__s_sub_Tensor(da, mul(glu, db), fac_scalar_i_(1))), s);
    grads[0] = mul(left, db);
    grads[1] = fac__s_cat(FAC_TENSORS(zeros(bend), bend), d);
    grads[2] = fac__s_cat(FAC_TENSORS(mul(grad, s), mul(left, glu)), d);
    return fac_error();
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------------- */

/* The edge casts; what is left is to go back to self's device. */
fac_tensor *to_copy_grad(fac_tensor *grad, fac_device device) {
    if (fac_device_equal(grad->device, device)) return grad;
    return fac__s__to_copy(grad, FAC_DTYPE_DEFAULT, FAC_STRIDED, device, (fac_opt_num){0}, false, FAC_FORMAT_DEFAULT);
}
