/* Shape and dtype rules of unary operators and activations. */
#include "ops/meta/check.h"
#include "ops/meta/pointwise.h"
#include "ops_gen.h"
#include <math.h>

fac_status unary_meta(fac_structured *s, fac_tensor *self) { return fac__pw_1(s, self, FAC_PW_PROMOTE, 0); }
/* Truth values are squared as the integers 0 and 1: a number beside them, which the loop does not look at, makes them int64. */
fac_status square_meta(fac_structured *s, fac_tensor *self) {
    if (self->dtype != FAC_BOOL) return unary_meta(s, self);
    return fac__pw_2_scalar(s, self, fac_scalar_i_(1), FAC_PW_PROMOTE, 0);
}
fac_status unary_float_meta(fac_structured *s, fac_tensor *self) { return fac__pw_1(s, self, FAC_PW_FLOAT, 0); }
fac_status unary_bool_meta(fac_structured *s, fac_tensor *self) { return fac__pw_1(s, self, FAC_PW_PROMOTE, FAC_BOOL); }

/* For operators that order numbers or round them. */
fac_status unary_real_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac__refuse_complex((fac_dtype)self->dtype));
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}

fac_status sign_meta(fac_structured *s, fac_tensor *self) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "Unlike NumPy, sign is not intended to support complex numbers. Please use sgn instead.");
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}

fac_status neg_meta(fac_structured *s, fac_tensor *self) {
    FAC_CHECK(
        self->dtype != FAC_BOOL, FAC_ERR_DTYPE,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
        "`~` or `logical_not()` operator instead.");
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}

/* The magnitude of a complex number is real. */
fac_status abs_meta(fac_structured *s, fac_tensor *self) {
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(s->form != FAC_INPLACE || !fac_dtype_is_complex(d), FAC_ERR_DTYPE,
              "In-place abs is not supported for complex tensors.");
    return fac__pw_1(s, self, FAC_PW_PROMOTE, fac_dtype_is_complex(d) ? fac__real_of(d) : 0);
}
fac_status angle_meta(fac_structured *s, fac_tensor *self) {
    fac_dtype d = (fac_dtype)self->dtype;
    return fac__pw_1(s, self, FAC_PW_FLOAT, fac_dtype_is_complex(d) ? fac__real_of(d) : 0);
}

/* ---- activations ---------------------------------------------------------------------------------------------------- */

fac_status relu_meta(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac__refuse_bool((fac_dtype)self->dtype));
    return unary_real_meta(s, self);
}
fac_status gelu_meta(fac_structured *s, fac_tensor *self, const char *approximate) {
    bool known = strcmp(approximate, "none") == 0 || strcmp(approximate, "tanh") == 0;
    FAC_CHECK(known, FAC_ERR_ARGUMENT, "approximate argument must be either none or tanh, got \"%s\"", approximate);
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}
fac_status elu_meta(fac_structured *s, fac_tensor *self, fac_scalar alpha, fac_scalar scale, fac_scalar input_scale) {
    const fac_dtype d = (fac_dtype)self->dtype;
    FAC_TRY(fac__check_factor(d, alpha));
    FAC_TRY(fac__check_factor(d, scale));
    FAC_TRY(fac__check_factor(d, input_scale));
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}
fac_status unary_1_meta(fac_structured *s, fac_tensor *self, fac_scalar a) {
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, a));
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}
fac_status unary_2_meta(fac_structured *s, fac_tensor *self, fac_scalar a, fac_scalar b) {
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, a));
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, b));
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}
fac_status softshrink_meta(fac_structured *s, fac_tensor *self, fac_scalar lambd) {
    const double l = fac__scalar_f64(lambd);
    FAC_CHECK(l >= 0 && isfinite(l), FAC_ERR_ARGUMENT, "lambda must be finite and not negative, but found to be %g.",
              l);
    return unary_1_meta(s, self, lambd);
}
fac_status nan_to_num_meta(fac_structured *s, fac_tensor *self, fac_scalar nan, fac_scalar posinf, fac_scalar neginf) {
    (void)nan, (void)posinf, (void)neginf; /* of the dtype already */
    return fac__pw_1(s, self, FAC_PW_PROMOTE, 0);
}
/* The tensor and two numbers without their fractions, in the tensor's integer dtype. */
static fac_status integers_meta(fac_structured *s, fac_tensor *self, fac_scalar a, fac_scalar b) {
    FAC_TRY(fac__check_number((fac_dtype)self->dtype, a));
    FAC_TRY(fac__check_number((fac_dtype)self->dtype, b));
    const fac_scalar v[2] = {fac_scalar_i_(fac__scalar_i64(a)), fac_scalar_i_(fac__scalar_i64(b))};
    return fac__pw_n(s, (fac_tensor *[]){self, NULL, NULL}, 3, v, FAC_PW_PROMOTE, 0);
}
fac_status hardtanh_meta(fac_structured *s, fac_tensor *self, fac_scalar min_val, fac_scalar max_val) {
    const fac_dtype d = (fac_dtype)self->dtype;
    FAC_TRY(fac__refuse_bool(d));
    if (!fac_dtype_is_integral(d, false)) return unary_2_meta(s, self, min_val, max_val);
    FAC_TRY(fac__check_bound(d, true, &min_val));
    FAC_TRY(fac__check_bound(d, false, &max_val));
    return integers_meta(s, self, min_val, max_val);
}
fac_status threshold_meta(fac_structured *s, fac_tensor *self, fac_scalar threshold, fac_scalar value) {
    bool integral = fac_dtype_is_integral((fac_dtype)self->dtype, false);
    return (integral ? integers_meta : unary_2_meta)(s, self, threshold, value);
}

/* Derivatives take the gradient and the input (or result), of equal dtype as a rule. */
fac_status backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self) {
    return fac__pw_2(s, grad_output, self, FAC_PW_PROMOTE, 0);
}
fac_status gelu_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, const char *approximate) {
    (void)approximate;
    return fac__pw_2(s, grad_output, self, FAC_PW_PROMOTE, 0);
}
fac_status backward_1_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_scalar a) {
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, a));
    return fac__pw_2(s, grad_output, self, FAC_PW_PROMOTE, 0);
}
fac_status backward_2_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_scalar a, fac_scalar b) {
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, a));
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, b));
    return fac__pw_2(s, grad_output, self, FAC_PW_PROMOTE, 0);
}
fac_status leaky_relu_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                    fac_scalar negative_slope, bool self_is_result) {
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, negative_slope));
    FAC_CHECK(
        !self_is_result || fac__scalar_f64(negative_slope) >= 0, FAC_ERR_ARGUMENT,
        "in-place leaky_relu with a negative slope below zero has no gradient from its result; use the functional "
        "form");
    return fac__pw_2(s, grad_output, self, FAC_PW_PROMOTE, 0);
}
fac_status elu_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_scalar alpha, fac_scalar scale,
                             fac_scalar input_scale, bool is_result, fac_tensor *self_or_result) {
    const fac_dtype d = (fac_dtype)self_or_result->dtype;
    FAC_TRY(fac__check_factor(d, alpha));
    FAC_TRY(fac__check_factor(d, scale));
    FAC_TRY(fac__check_factor(d, input_scale));
    FAC_CHECK(!is_result || fac__scalar_f64(alpha) >= 0, FAC_ERR_ARGUMENT,
              "in-place elu with an alpha below zero has no gradient from its result; use the functional form");
    return fac__pw_2(s, grad_output, self_or_result, FAC_PW_PROMOTE, 0);
}
fac_status prelu_kernel_meta(fac_structured *s, fac_tensor *self, fac_tensor *weight) {
    return fac__pw_2(s, self, weight, FAC_PW_PROMOTE, 0);
}
fac_status prelu_kernel_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                      fac_tensor *weight) {
    /* No numbers of the CPU's among tensors of another device: the kernel of two outputs follows addresses only. */
    return fac__pw_n(s, (fac_tensor *[]){grad_output, self, weight}, 3, NULL, FAC_ITER_PROMOTE, 0);
}

/* ---- halves ----------------------------------------------------------------------------------------------------------- */

fac_status fac__check_halves(const fac_tensor *t, int64_t dim, int64_t *out_dim) {
    FAC_CHECK(t->ndim > 0, FAC_ERR_SHAPE, "glu does not support 0-dimensional tensors");
    FAC_TRY(fac__wrap_dim(dim, t->ndim, out_dim));
    FAC_CHECK(t->sizes[*out_dim] % 2 == 0, FAC_ERR_SHAPE,
              "Halving dimension must be even, but dimension %lld is size %lld", (long long)*out_dim,
              (long long)t->sizes[*out_dim]);
    return FAC_OK;
}

/* The dimension of x along which it has two halves is handed to the kernel; their sizes. */
static fac_status halved(fac_structured *s, const fac_tensor *x, int64_t dim, int64_t *sizes) {
    FAC_TRY(fac__check_halves(x, dim, &s->carry[0]));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)x->dtype), FAC_ERR_DTYPE, "not implemented for '%s'",
              fac_dtype_name((fac_dtype)x->dtype));
    for (int i = 0; i < x->ndim; i++) sizes[i] = i == s->carry[0] ? x->sizes[i] / 2 : x->sizes[i];
    return FAC_OK;
}
static fac_status need_half(const char *name, const fac_tensor *t, const fac_tensor *x, const int64_t *sizes) {
    FAC_TRY(fac__need_dtype(name, t, (fac_dtype)x->dtype));
    return fac__need_sizes(name, t, sizes, x->ndim);
}

/* The result has x's dtype and dimensions, in the order in which they lie in memory. */
static fac_status declare_half(fac_structured *s, const fac_tensor *x, const int64_t *sizes) {
    int64_t strides[FAC_MAX_DIMS];
    bool is_ordered = x->numel > 0;
    for (int i = 0; i < x->ndim && is_ordered; i++) {
        strides[i] = 1;
        is_ordered = x->strides[i] > 0 || x->sizes[i] == 1;
        for (int j = 0; j < x->ndim; j++)
            if (x->strides[j] < x->strides[i] || (x->strides[j] == x->strides[i] && j > i)) strides[i] *= sizes[j];
    }
    return fac_out_declare(s, 0, sizes, is_ordered ? strides : NULL, x->ndim, (fac_dtype)x->dtype, x->device);
}

fac_status glu_meta(fac_structured *s, fac_tensor *self, int64_t dim) {
    int64_t half[FAC_MAX_DIMS];
    FAC_TRY(halved(s, self, dim, half));
    return declare_half(s, self, half);
}
fac_status glu_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, int64_t dim) {
    int64_t half[FAC_MAX_DIMS], common[FAC_MAX_DIMS];
    int n;
    FAC_TRY(halved(s, self, dim, half));
    FAC_TRY(fac__need_dtype("grad_output", grad_output, (fac_dtype)self->dtype));
    FAC_TRY(fac__broadcast(half, self->ndim, grad_output->sizes, grad_output->ndim, common, &n));
    FAC_CHECK(n == self->ndim && !memcmp(common, half, (size_t)n * sizeof *half), FAC_ERR_SHAPE,
              "grad_output of size %s does not broadcast to glu's size %s", FAC_SHAPE_TEXT(grad_output),
              fac__shape_text(half, self->ndim, (char[256]){0}, 256));
    return fac_out_declare_like(s, 0, self, (fac_dtype)self->dtype);
}
fac_status glu_jvp_meta(fac_structured *s, fac_tensor *glu, fac_tensor *x, fac_tensor *dx, int64_t dim) {
    int64_t half[FAC_MAX_DIMS];
    FAC_TRY(halved(s, x, dim, half));
    FAC_TRY(need_half("glu", glu, x, half));
    FAC_TRY(need_half("dx", dx, x, x->sizes));
    return declare_half(s, x, half);
}
