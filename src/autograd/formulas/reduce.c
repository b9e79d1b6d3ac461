/* Gradients of reductions. */
#include "autograd/formulas/brief.h"
#include "core/read.h"
#include <math.h>

/* A reduction's result (or its gradient) with 1 where the dimensions were reduced. */
static fac_tensor *restored(fac_tensor *t, int64_t ndim, fac_ints dim, bool keepdim) {
    uint64_t mask;
    int64_t sizes[FAC_MAX_DIMS];
    if (!t || keepdim || t->ndim == 0) return t; /* no dimensions broadcast as they are */
    FAC_TRY_NULL(fac__dim_mask(dim, ndim, &mask));
    for (int64_t d = 0, o = 0; d < ndim; d++) sizes[d] = mask >> d & 1 ? 1 : t->sizes[o++];
    return fac__s_view(t, (fac_ints){sizes, (size_t)ndim});
}

/* Number of elements that were folded into each result. */
static double folded(const fac_tensor *self, fac_ints dim) {
    uint64_t mask;
    double n = 1;
    if (fac__dim_mask(dim, self->ndim, &mask) != FAC_OK) return n;
    for (int d = 0; d < self->ndim; d++) n *= mask >> d & 1 ? (double)self->sizes[d] : 1;
    return n;
}

fac_tensor *sum_dim_grad(fac_tensor *grad, fac_ints sizes, fac_ints dim, bool keepdim) {
    return fac__s_expand(restored(grad, (int64_t)sizes.n, dim, keepdim), sizes, false);
}

fac_tensor *nansum_grad(fac_tensor *grad, fac_tensor *self, fac_ints dim, bool keepdim) {
    fac_tensor *g = sum_dim_grad(grad, fac__sizes_now(self), dim, keepdim);
    return mul(g, fac__s_logical_not(fac__s_isnan(self)));
}

fac_tensor *mean_dim_grad(fac_tensor *grad, fac_ints sizes, fac_ints dim, bool keepdim) {
    uint64_t mask;
    double n = 1;
    FAC_TRY_NULL(fac__dim_mask(dim, (int64_t)sizes.n, &mask));
    for (size_t d = 0; d < sizes.n; d++) n *= mask >> d & 1 ? (double)sizes.v[d] : 1;
    return divided_by(sum_dim_grad(grad, sizes, dim, keepdim), n);
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

static bool has_zero(fac_tensor *t) {
    fac_tensor *any = fac__s_any(is_zero(t));
    return any && fac__item_int(any) != 0;
}

static fac_tensor *conj_if_complex(fac_tensor *t) {
    return t && fac_dtype_is_complex((fac_dtype)t->dtype) ? fac__s_conj(t) : t;
}

/* t moved by k places along dim; the places before it hold `fill`. */
static fac_tensor *shifted(fac_tensor *t, int64_t dim, int64_t k, double fill) {
    if (!t) return NULL;
    int64_t pad[2 * FAC_MAX_DIMS] = {0}, n = t->sizes[dim];
    size_t used = 2 * (size_t)(t->ndim - dim);
    pad[used - 2] = k < n ? k : n;
    fac_tensor *kept = fac__s_narrow(t, dim, 0, k < n ? n - k : 0);
    return fac__s_constant_pad_nd(kept, (fac_ints){pad, used}, fac_scalar_f_(fill));
}

/* Along dim, the product of all elements before each one. Doubling steps: log2(n) products, differentiable with zeros. */
static fac_tensor *product_before(fac_tensor *t, int64_t dim) {
    int64_t n = t->sizes[dim];
    fac_tensor *p = shifted(t, dim, 1, 1);
    for (int64_t k = 1; p && k < n; k *= 2) p = mul(p, shifted(p, dim, k, 1));
    return p;
}

/* Along dim, the product of all elements but each one. */
static fac_tensor *product_of_others(fac_tensor *t, int64_t dim) {
    fac_tensor *back = fac__s_flip(t, (fac_ints){&dim, 1});
    if (!back) return NULL;
    fac_tensor *after = product_before(back, dim);
    return mul(product_before(t, dim), fac__s_flip(after, (fac_ints){&dim, 1}));
}

fac_tensor *prod_dim_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result, int64_t dim, bool keepdim) {
    if (self->ndim == 0) return grad;
    if (self->numel == 0) return fac__s_zeros_like(self, 0, 0, (fac_device){0}, (fac_opt_num){0}, 0);
    int64_t d;
    FAC_TRY_NULL(fac__wrap_dim(dim, self->ndim, &d));
    fac_ints dims = {&d, 1};
    fac_tensor *g = restored(grad, self->ndim, dims, keepdim);
    if (has_zero(self)) return mul(g, conj_if_complex(product_of_others(self, d)));
    return mul(g, conj_if_complex(divide(restored(result, self->ndim, dims, keepdim), self)));
}

fac_tensor *prod_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result) {
    if (self->ndim == 0) return grad;
    fac_tensor *flat = fac__s_reshape(self, FAC_INTS(-1));
    return flat ? fac__s_reshape(prod_dim_grad(grad, flat, result, 0, false), fac__sizes_now(self)) : NULL;
}

/* ---- extremes --------------------------------------------------------------------------------------------------------- */

fac_tensor *amax_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result, fac_ints dim, bool keepdim) {
    fac_tensor *best = fac__s_eq_Tensor(self, restored(result, self->ndim, dim, keepdim));
    fac_tensor *share = divide(restored(grad, self->ndim, dim, keepdim), sum_over(best, dim, true));
    return mul(share, best);
}

/* Shared evenly by the elements that are the result, those that are NaN if it is. */
fac_tensor *max_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result) {
    fac_tensor *nan = fac__s_logical_and(fac__s_isnan(self), fac__s_isnan(result));
    fac_tensor *chosen = fac__s_logical_or(fac__s_eq_Tensor(self, result), nan);
    return mul(divide(grad, fac__s_sum(chosen, FAC_DTYPE_DEFAULT)), chosen);
}

fac_tensor *aminmax_grad(fac_tensors grads, fac_tensor *self, fac_tensor *least, fac_tensor *most, fac_opt_int dim,
                         bool keepdim) {
    fac_ints dims = {dim.set ? &dim.v : NULL, dim.set ? 1 : 0};
    fac_tensor *g = grads.v[0] ? amax_grad(grads.v[0], self, least, dims, keepdim) : NULL;
    return plus(g, grads.v[1] ? amax_grad(grads.v[1], self, most, dims, keepdim) : NULL);
}

/* ---- moments ------------------------------------------------------------------------------------------------------------- */

fac_tensor *var_grad(fac_tensor *grad, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    double n = fmax(0, folded(self, dim) - (correction.set ? fac__scalar_f64(correction.v) : 1.0));
    fac_tensor *centred = sub(self, fac__s_mean_dim(self, dim, true, FAC_DTYPE_DEFAULT));
    return mul(scaled_by(restored(grad, self->ndim, dim, keepdim), 2.0 / n), centred);
}

/* a / b, 0 where b is 0, and so are its own derivatives: what is masked must be so before the division. */
static fac_tensor *ratio(fac_tensor *a, fac_tensor *b) {
    fac_tensor *zero = is_zero(b);
    return divide(fill_where(a, zero, 0), fill_where(b, zero, 1));
}

fac_tensor *std_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result, fac_ints dim, fac_opt_num correction,
                     bool keepdim) {
    fac_tensor *of_var = ratio(grad, scaled_by(result, 2));
    return var_grad(of_var, self, dim, correction, keepdim);
}

fac_tensor *var_mean_grad(fac_tensors grads, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    fac_tensor *g = grads.v[0] ? var_grad(grads.v[0], self, dim, correction, keepdim) : NULL;
    return plus(g, grads.v[1] ? mean_dim_grad(grads.v[1], fac__sizes_now(self), dim, keepdim) : NULL);
}

fac_tensor *std_mean_grad(fac_tensors grads, fac_tensor *self, fac_tensor *result, fac_ints dim, fac_opt_num correction,
                          bool keepdim) {
    fac_tensor *g = grads.v[0] ? std_grad(grads.v[0], self, result, dim, correction, keepdim) : NULL;
    return plus(g, grads.v[1] ? mean_dim_grad(grads.v[1], fac__sizes_now(self), dim, keepdim) : NULL);
}

/* ---- norms ---------------------------------------------------------------------------------------------------------------- */

/* sgn(x) |x|^(p-1) g / norm^(p-1), 0 where the norm is 0. */
static fac_tensor *power_norm_grad(fac_tensor *g, fac_tensor *self, double p, fac_tensor *norm) {
    fac_tensor *scale = ratio(g, fac__s_pow_Tensor_Scalar(fill_where(norm, is_zero(norm), 1), fac_scalar_f_(p - 1)));
    scale = fill_where(scale, is_zero(norm), 0);
    if (p > 2) return mul(mul(self, fac__s_pow_Tensor_Scalar(fac__s_abs(self), fac_scalar_f_(p - 2))), scale);
    fac_tensor *power = fac__s_pow_Tensor_Scalar(fac__s_abs(self), fac_scalar_f_(p - 1));
    if (p < 1) power = fill_where(power, is_zero(self), 0);
    return mul(mul(fac__s_sgn(self), power), scale);
}

/* The gradient goes in equal shares to the elements whose modulus is the norm. */
static fac_tensor *extreme_norm_grad(fac_tensor *g, fac_tensor *self, fac_tensor *norm, fac_ints dim) {
    fac_tensor *modulus = fac__s_abs(self);
    fac_tensor *best = fac__s_logical_or(fac__s_eq_Tensor(modulus, norm), fac__s_isnan(modulus));
    return mul(fac__s_sgn(self), mul(divide(g, sum_over(best, dim, true)), best));
}

fac_tensor *norm_grad(fac_tensor *grad, fac_tensor *self, fac_scalar ord, fac_tensor *result, fac_ints dim,
                      bool keepdim) {
    double p = fac__scalar_f64(ord);
    fac_tensor *g = restored(grad, self->ndim, dim, keepdim), *norm = restored(result, self->ndim, dim, keepdim);
    if (p == 0) return fac__s_zeros_like(self, 0, 0, (fac_device){0}, (fac_opt_num){0}, 0);
    if (p == 1) return mul(fac__s_sgn(self), g);
    if (p == 2) return mul(self, ratio(g, norm));
    return isinf(p) ? extreme_norm_grad(g, self, norm, dim) : power_norm_grad(g, self, p, norm);
}

fac_tensor *powsum_grad(fac_tensor *grad, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim) {
    const double p = fac__scalar_f64(ord);
    fac_tensor *g = restored(grad, self->ndim, dim, keepdim);
    if (p == 0) return fac__s_zeros_like(self, 0, 0, (fac_device){0}, (fac_opt_num){0}, 0);
    if (p == 1) return mul(fac__s_sgn(self), g);
    if (p == 2) return mul(self, fac__s_mul_Scalar(g, fac_scalar_i_(2)));
    fac_tensor *power = fac__s_pow_Tensor_Scalar(fac__s_abs(self), fac_scalar_f_(p - 1));
    return mul(mul(fac__s_sgn(self), power), fac__s_mul_Scalar(g, fac_scalar_f_(p)));
}

fac_tensor *logsumexp_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result, fac_ints dim, bool keepdim) {
    fac_tensor *weights = fac__s_exp(sub(self, restored(result, self->ndim, dim, keepdim)));
    return mul(restored(grad, self->ndim, dim, keepdim), conj_if_complex(weights));
}

/* ---- scans ----------------------------------------------------------------------------------------------------------------- */

static fac_tensor *flipped(fac_tensor *t, int64_t dim) {
    return t && t->ndim ? fac__s_flip(t, (fac_ints){&dim, 1}) : t;
}

fac_tensor *cumsum_grad(fac_tensor *grad, int64_t dim) {
    if (!grad || grad->ndim == 0) return grad;
    return flipped(fac__s_cumsum(flipped(grad, dim), dim, FAC_DTYPE_DEFAULT), dim);
}

/* s_k = g_k + x_(k+1) s_(k+1), solved backwards by doubling. */
static fac_tensor *weighted_tails(fac_tensor *g, fac_tensor *x, int64_t dim) {
    int64_t n = x->sizes[dim];
    fac_tensor *s = flipped(g, dim), *a = shifted(flipped(x, dim), dim, 1, 0);
    for (int64_t k = 1; s && a && k < n; k *= 2) {
        s = add(s, mul(a, shifted(s, dim, k, 0)));
        a = mul(a, shifted(a, dim, k, 0));
    }
    return flipped(s, dim);
}

fac_tensor *cumprod_grad(fac_tensor *grad, fac_tensor *self, int64_t dim, fac_tensor *result) {
    if (self->ndim == 0 || self->numel == 0) return grad;
    int64_t d;
    FAC_TRY_NULL(fac__wrap_dim(dim, self->ndim, &d));
    if (!has_zero(self)) return divide(cumsum_grad(mul(grad, conj_if_complex(result)), d), conj_if_complex(self));
    fac_tensor *x = conj_if_complex(self);
    return x ? mul(product_before(x, d), weighted_tails(grad, x, d)) : NULL;
}

fac_status cumprod_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *input, int64_t dim,
                                      fac_tensor *output, fac_tensor **out) {
    (void)c;
    int64_t d;
    FAC_CHECK(fac__same_sizes(grad, input) && fac__same_sizes(output, input), FAC_ERR_SHAPE,
              "grad %s and output %s should have the sizes of input, %s", FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(output),
              FAC_SHAPE_TEXT(input));
    FAC_CHECK(input->dtype >= FAC_F16, FAC_ERR_DTYPE, "input should be floating or complex, but it is %s",
              fac_dtype_name((fac_dtype)input->dtype));
    FAC_TRY(fac__wrap_dim(dim, input->ndim, &d));
    FAC_SCOPE(s);
    return fac__give(out, cumprod_grad(grad, input, dim, output));
}

fac_tensor *cummax_grad(fac_tensor *grad, fac_tensor *indices, int64_t dim) {
    return grad->ndim == 0 ? grad : gather_grad(grad, fac__sizes_now(grad), dim, indices);
}

/* log(x) where x > 0, or for complex numbers is not 0, else a number whose exponential is 0. */
static fac_tensor *log_or_nothing(fac_tensor *x) {
    const bool complex = x && fac_dtype_is_complex((fac_dtype)x->dtype);
    fac_tensor *has = complex ? fac__s_ne_Scalar(x, fac_scalar_i_(0)) : fac__s_gt_Scalar(x, fac_scalar_i_(0));
    fac_tensor *safe = fac__s_where_ScalarOther(has, x, fac_scalar_i_(1));
    return fac__s_where_ScalarOther(has, fac__s_log(safe), fac_scalar_f_(x && x->dtype == FAC_F16 ? -6e4 : -1e30));
}

/* exp(x_k) * sum over i >= k of g_i exp(-y_i), in logarithms, given that of g. */
static fac_tensor *log_tails(fac_tensor *log_g, fac_tensor *self, fac_tensor *result, int64_t dim) {
    fac_tensor *terms = flipped(sub(log_g, result), dim);
    return fac__s_exp(add(flipped(fac__s_logcumsumexp(terms, dim), dim), self));
}

fac_tensor *logcumsumexp_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *result, int64_t dim) {
    if (grad->ndim == 0 || grad->numel == 0) return grad;
    if (fac_dtype_is_complex((fac_dtype)grad->dtype))
        return fac__s_conj(log_tails(log_or_nothing(fac__s_conj(grad)), self, result, dim));
    return sub(log_tails(log_or_nothing(grad), self, result, dim),
               log_tails(log_or_nothing(fac__s_neg(grad)), self, result, dim));
}

/* ---- softmax ----------------------------------------------------------------------------------------------------------------- */

/* dx = y (dy - s), s = sum(dy y): the part of the second gradient that goes to y, for a gradient g of dx. */
fac_tensor *softmax_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *output, int64_t dim) {
    fac_ints dims = {&dim, 1};
    fac_tensor *s = sum_over(mul(grad_output, output), dims, true);
    return sub(mul(grad, sub(grad_output, s)), mul(grad_output, sum_over(mul(grad, output), dims, true)));
}

/* dx = dy - exp(y) sum(dy), transposed. */
fac_tensor *log_softmax_grad_of_grad(fac_tensor *grad, fac_tensor *output, int64_t dim) {
    return sub(grad, sum_over(mul(fac__s_exp(output), grad), (fac_ints){&dim, 1}, true));
}

fac_tensor *log_softmax_double_grad(fac_tensor *grad, fac_tensor *grad_output, fac_tensor *output, int64_t dim) {
    fac_tensor *s = sum_over(grad_output, (fac_ints){&dim, 1}, true);
    return fac__s_neg(mul(mul(grad, fac__s_exp(output)), s));
}
