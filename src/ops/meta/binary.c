/* Shape and dtype rules of binary and ternary operators and comparisons. */
#include "ops/meta/pointwise.h"
#include "ops_gen.h"

#define PROMOTE FAC_PW_PROMOTE

fac_status binary_meta(fac_structured *s, fac_tensor *self, fac_tensor *other) {
    return fac__pw_2(s, self, other, PROMOTE, 0);
}
fac_status binary_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar other) {
    return fac__pw_2_scalar(s, self, other, PROMOTE, 0);
}
fac_status scalar_binary_meta(fac_structured *s, fac_scalar self, fac_tensor *other) {
    return fac__pw_scalar_2(s, self, other, PROMOTE, 0);
}
fac_status binary_float_meta(fac_structured *s, fac_tensor *self, fac_tensor *other) {
    return fac__pw_2(s, self, other, FAC_PW_FLOAT, 0);
}
fac_status binary_float_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar other) {
    return fac__pw_2_scalar(s, self, other, FAC_PW_FLOAT, 0);
}
fac_status scalar_binary_float_meta(fac_structured *s, fac_scalar self, fac_tensor *other) {
    return fac__pw_scalar_2(s, self, other, FAC_PW_FLOAT, 0);
}
/* Comparisons and logic: a number is first rounded to the dtype that it is compared in. */
fac_status compare_meta(fac_structured *s, fac_tensor *self, fac_tensor *other) {
    return fac__pw_2(s, self, other, PROMOTE | FAC_ITER_ROUND_NUMBERS, FAC_BOOL);
}
fac_status compare_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar other) {
    return fac__pw_2_scalar(s, self, other, PROMOTE | FAC_ITER_ROUND_NUMBERS, FAC_BOOL);
}
fac_status minmax_meta(fac_structured *s, fac_tensor *self, fac_tensor *other) {
    FAC_TRY(fac__refuse_complex((fac_dtype)self->dtype));
    FAC_TRY(fac__refuse_complex((fac_dtype)other->dtype));
    return fac__pw_2(s, self, other, PROMOTE, 0);
}

/* ---- add, sub ------------------------------------------------------------------------------------------------------- */

static inline fac_status check_alpha(fac_dtype common, fac_scalar alpha) {
    if (FAC_LIKELY(fac__fits_every_dtype(alpha))) return FAC_OK;
    FAC_CHECK(alpha.kind != FAC_KIND_BOOL || common == FAC_BOOL, FAC_ERR_DTYPE,
              "Boolean alpha only supported for Boolean results.");
    FAC_CHECK(alpha.kind != FAC_KIND_COMPLEX || fac_dtype_is_complex(common), FAC_ERR_DTYPE,
              "For non-complex input tensors, argument alpha must not be a complex number.");
    FAC_CHECK(alpha.kind != FAC_KIND_FLOAT || !fac_dtype_is_integral(common, true), FAC_ERR_DTYPE,
              "For integral input tensors, argument alpha must not be a floating point number.");
    return fac__check_factor(common, alpha);
}

static fac_status check_sub(bool a, bool b) {
    FAC_CHECK(!a || !b, FAC_ERR_DTYPE,
              "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
              "operator instead.");
    FAC_CHECK(
        !a && !b, FAC_ERR_DTYPE,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
        "the `~` or `logical_not()` operator instead.");
    return FAC_OK;
}

fac_status add_meta(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    FAC_TRY(fac__pw_2(s, self, other, PROMOTE, 0));
    return check_alpha(s->iter.common, alpha);
}
fac_status add_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    FAC_TRY(fac__pw_2_scalar(s, self, other, PROMOTE, 0));
    return check_alpha(s->iter.common, alpha);
}
fac_status sub_meta(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    FAC_TRY(check_sub(self->dtype == FAC_BOOL, other->dtype == FAC_BOOL));
    return add_meta(s, self, other, alpha);
}
fac_status sub_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    FAC_TRY(check_sub(self->dtype == FAC_BOOL, false));
    FAC_TRY(check_sub(false, other.kind == FAC_KIND_BOOL));
    return add_scalar_meta(s, self, other, alpha);
}
fac_status rsub_meta(fac_structured *s, fac_tensor *self, fac_tensor *other, fac_scalar alpha) {
    return sub_meta(s, other, self, alpha);
}
fac_status rsub_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar other, fac_scalar alpha) {
    FAC_TRY(check_sub(self->dtype == FAC_BOOL, false));
    FAC_TRY(check_sub(false, other.kind == FAC_KIND_BOOL));
    FAC_TRY(fac__pw_scalar_2(s, other, self, PROMOTE, 0));
    return check_alpha(s->iter.common, alpha);
}

/* ---- division, power -------------------------------------------------------------------------------------------------- */

/* Options for a rounding mode: none is true division. */
static fac_status rounding_options(const char *mode, uint32_t *options) {
    *options = mode ? PROMOTE : FAC_PW_FLOAT;
    bool known = !mode || strcmp(mode, "trunc") == 0 || strcmp(mode, "floor") == 0;
    FAC_CHECK(known, FAC_ERR_ARGUMENT,
              "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode);
    return FAC_OK;
}

fac_status div_mode_meta(fac_structured *s, fac_tensor *self, fac_tensor *other, const char *rounding_mode) {
    uint32_t options;
    FAC_TRY(rounding_options(rounding_mode, &options));
    return fac__pw_2(s, self, other, options, 0);
}
fac_status div_scalar_mode_meta(fac_structured *s, fac_tensor *self, fac_scalar other, const char *rounding_mode) {
    uint32_t options;
    FAC_TRY(rounding_options(rounding_mode, &options));
    return fac__pw_2_scalar(s, self, other, options, 0);
}
fac_status pow_scalar_meta(fac_structured *s, fac_tensor *self, fac_scalar exponent) {
    bool negative = exponent.kind == FAC_KIND_INT && exponent.bits < 0;
    FAC_CHECK(!negative || !fac_dtype_is_integral((fac_dtype)self->dtype, true), FAC_ERR_ARGUMENT,
              "Integers to negative integer powers are not allowed.");
    if (exponent.kind == FAC_KIND_INT && fac_dtype_is_integral((fac_dtype)self->dtype, false))
        FAC_TRY(fac__check_number((fac_dtype)self->dtype, exponent));
    return fac__pw_2_scalar(s, self, exponent, PROMOTE, 0);
}

/* ---- clamp ------------------------------------------------------------------------------------------------------------- */

/* Of integers, bounds beyond the dtype's range bound nothing. With a fraction among them the result is floating. */
static fac_status check_bounds(const fac_tensor *self, const bool *lower, fac_scalar *v, int n) {
    fac_dtype d = (fac_dtype)self->dtype;
    for (int i = 0; i < n; i++)
        if (v[i].kind == FAC_KIND_FLOAT && fac_dtype_is_integral(d, true)) d = fac_default_dtype();
    for (int i = 0; i < n; i++)
        if (d != FAC_BOOL) FAC_TRY(fac__check_bound(d, lower[i], &v[i]));
    return FAC_OK;
}

fac_status clamp_meta(fac_structured *s, fac_tensor *self, fac_opt_num min, fac_opt_num max) {
    FAC_CHECK(min.set || max.set, FAC_ERR_ARGUMENT, "At least one of 'min' or 'max' must not be None");
    FAC_TRY(fac__refuse_complex((fac_dtype)self->dtype));
    fac_tensor *t[3] = {self, NULL, NULL};
    fac_scalar v[2] = {min.set ? min.v : max.v, max.v};
    int n = min.set && max.set ? 2 : 1;
    FAC_TRY(check_bounds(self, (const bool[]){min.set, false}, v, n));
    return n == 1 ? fac__pw_2_scalar(s, self, v[0], PROMOTE, 0) : fac__pw_n(s, t, 3, v, PROMOTE, 0);
}
fac_status clamp_tensor_meta(fac_structured *s, fac_tensor *self, fac_tensor *min, fac_tensor *max) {
    FAC_CHECK(min || max, FAC_ERR_ARGUMENT, "At least one of 'min' or 'max' must not be None");
    FAC_TRY(fac__refuse_complex((fac_dtype)self->dtype));
    fac_tensor *t[3] = {self, min ? min : max, max};
    return fac__pw_n(s, t, min && max ? 3 : 2, NULL, PROMOTE, 0);
}
fac_status clamp_min_meta(fac_structured *s, fac_tensor *self, fac_scalar min) {
    return clamp_meta(s, self, fac_opt_num_(min), (fac_opt_num){0});
}
fac_status clamp_max_meta(fac_structured *s, fac_tensor *self, fac_scalar max) {
    return clamp_meta(s, self, (fac_opt_num){0}, fac_opt_num_(max));
}

/* ---- selection ---------------------------------------------------------------------------------------------------------- */

static fac_status check_condition(const fac_tensor *condition) {
    FAC_CHECK(condition->dtype == FAC_BOOL || condition->dtype == FAC_U8, FAC_ERR_DTYPE,
              "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
              fac_dtype_name((fac_dtype)condition->dtype));
    return FAC_OK;
}

/* Condition, then the two values (tensor, or number where NULL); the values meet in `common`, which numbers must fit. */
static fac_status select_meta(fac_structured *s, fac_tensor *condition, fac_tensor *a, fac_tensor *b,
                              const fac_scalar *v, fac_dtype common) {
    fac_iter *it = &s->iter;
    fac_iter_begin(it, FAC_ITER_ANY_DTYPE | FAC_ITER_CPU_SCALARS);
    FAC_TRY(fac_iter_out(it, NULL));
    FAC_TRY(fac_iter_in(it, condition));
    FAC_TRY(a ? fac_iter_in(it, a) : fac_iter_scalar(it, *v++));
    FAC_TRY(b ? fac_iter_in(it, b) : fac_iter_scalar(it, *v));
    it->common = common;
    for (int i = 1; i <= 2; i++)
        if (it->op[it->n - i].is_scalar) FAC_TRY(fac__check_number(common, it->op[it->n - i].value));
    return fac_out_declare_iter(s, common);
}

fac_status where_meta(fac_structured *s, fac_tensor *condition, fac_tensor *self, fac_tensor *other) {
    FAC_TRY(check_condition(condition));
    fac_promotion p = {0};
    fac__promote_tensor(&p, self);
    fac__promote_tensor(&p, other);
    return select_meta(s, condition, self, other, NULL, fac__promote_result(&p));
}
fac_status where_scalar_other_meta(fac_structured *s, fac_tensor *condition, fac_tensor *self, fac_scalar other) {
    FAC_TRY(check_condition(condition));
    fac_promotion p = {0};
    fac__promote_tensor(&p, self);
    fac__promote_scalar(&p, other);
    return select_meta(s, condition, self, NULL, &other, fac__promote_result(&p));
}
fac_status where_scalar_self_meta(fac_structured *s, fac_tensor *condition, fac_scalar self, fac_tensor *other) {
    FAC_TRY(check_condition(condition));
    fac_promotion p = {0};
    fac__promote_scalar(&p, self);
    fac__promote_tensor(&p, other);
    return select_meta(s, condition, NULL, other, &self, fac__promote_result(&p));
}
fac_status where_scalar_meta(fac_structured *s, fac_tensor *condition, fac_scalar self, fac_scalar other) {
    FAC_TRY(check_condition(condition));
    fac_promotion p = {0};
    fac__promote_scalar(&p, self);
    fac__promote_scalar(&p, other);
    return select_meta(s, condition, NULL, NULL, (fac_scalar[]){self, other}, fac__promote_result(&p));
}

static fac_status check_mask(const fac_tensor *mask) {
    FAC_CHECK(mask->dtype == FAC_BOOL || mask->dtype == FAC_U8, FAC_ERR_DTYPE,
              "masked_fill only supports boolean masks, but got mask with dtype %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    return FAC_OK;
}
/* The result has self's dtype: the value is converted. */
fac_status masked_fill_meta(fac_structured *s, fac_tensor *self, fac_tensor *mask, fac_scalar value) {
    FAC_TRY(check_mask(mask));
    return select_meta(s, mask, NULL, self, &value, (fac_dtype)self->dtype);
}
fac_status masked_fill_tensor_meta(fac_structured *s, fac_tensor *self, fac_tensor *mask, fac_tensor *value) {
    FAC_TRY(check_mask(mask));
    FAC_CHECK(value->ndim == 0, FAC_ERR_SHAPE,
              "masked_fill only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
              value->ndim);
    FAC_TRY(fac__check_value((fac_dtype)self->dtype, value));
    return select_meta(s, mask, value, self, NULL, (fac_dtype)self->dtype);
}

/* ---- ternary arithmetic --------------------------------------------------------------------------------------------------- */

fac_status lerp_meta(fac_structured *s, fac_tensor *self, fac_tensor *end, fac_tensor *weight) {
    return fac__pw_n(s, (fac_tensor *[]){self, end, weight}, 3, NULL, FAC_ITER_CPU_SCALARS, 0);
}
fac_status lerp_scalar_meta(fac_structured *s, fac_tensor *self, fac_tensor *end, fac_scalar weight) {
    FAC_TRY(fac__check_factor((fac_dtype)self->dtype, weight));
    return fac__pw_n(s, (fac_tensor *[]){self, end, NULL}, 3, &weight, FAC_ITER_CPU_SCALARS, 0);
}
fac_status logaddexp_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *other,
                                   double scale) {
    (void)scale;
    return fac__pw_n(s, (fac_tensor *[]){grad_output, self, other}, 3, NULL, FAC_ITER_CPU_SCALARS, 0);
}
fac_status addcmul_meta(fac_structured *s, fac_tensor *self, fac_tensor *tensor1, fac_tensor *tensor2,
                        fac_scalar value) {
    FAC_TRY(fac__pw_n(s, (fac_tensor *[]){self, tensor1, tensor2}, 3, NULL, PROMOTE, 0));
    return fac__check_factor(s->iter.common, value);
}
fac_status addcdiv_meta(fac_structured *s, fac_tensor *self, fac_tensor *tensor1, fac_tensor *tensor2,
                        fac_scalar value) {
    bool integral = fac_dtype_is_integral((fac_dtype)tensor1->dtype, true) &&
                    fac_dtype_is_integral((fac_dtype)tensor2->dtype, true);
    FAC_CHECK(!integral, FAC_ERR_DTYPE,
              "integer division with addcdiv is not supported; cast an operand to a floating dtype");
    return addcmul_meta(s, self, tensor1, tensor2, value);
}
