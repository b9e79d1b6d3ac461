/* Pointwise functions in terms of others. */
#include "ops/composite/brief.h"
#include "ops/structured.h"
#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

fac_status deg2rad_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_mul_Scalar(self, fac_scalar_f_(pi / 180), out);
}

fac_status rad2deg_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_mul_Scalar(self, fac_scalar_f_(180 / pi), out);
}

/* ---- questions ------------------------------------------------------------------------------------------------------ */

static fac_tensor *all_of(fac_tensor *self, bool answer) {
    return fac__s_full_like(self, fac_scalar_b_(answer), FAC_BOOL, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0},
                            FAC_FORMAT_DEFAULT);
}

static fac_status is_infinity(fac_tensor *self, double infinity, fac_tensor **out) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "isposinf and isneginf do not support complex inputs.");
    FAC_SCOPE(s);
    return fac__give(out, is_integral(self) ? all_of(self, false) : is_value(self, infinity));
}

fac_status isposinf_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return is_infinity(self, INFINITY, out);
}

fac_status isneginf_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return is_infinity(self, -INFINITY, out);
}

fac_status isreal_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    bool complex = fac_dtype_is_complex((fac_dtype)self->dtype);
    return fac__give(out, complex ? is_value(fac__s_imag(self), 0) : all_of(self, true));
}

/* ---- replacing ------------------------------------------------------------------------------------------------------- */

/* The given value, infinite if it is beyond the dtype's range, or another. */
static double value_or(fac_opt_num given, double otherwise, double most) {
    double x = given.set ? fac__scalar_f64(given.v) : otherwise;
    return fabs(x) > most ? copysign(INFINITY, x) : x;
}

fac_status nan_to_num_composite(const fac_call_info *c, fac_tensor *self, fac_opt_num nan, fac_opt_num posinf,
                                fac_opt_num neginf, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    if (is_integral(self)) return fac__give(out, fac__s_clone(self, FAC_FORMAT_DEFAULT));
    if (fac_dtype_is_complex((fac_dtype)self->dtype)) { /* part by part */
        fac_tensor *parts = fac__s_nan_to_num(fac__s_view_as_real(fac__s_resolve_conj(self)), nan, posinf, neginf);
        return fac__give(out, fac__s_view_as_complex(parts));
    }
    double most = fac__dtype_largest((fac_dtype)self->dtype);
    return fac__c__nan_to_num(self, fac_scalar_f_(value_or(nan, 0, most)), fac_scalar_f_(value_or(posinf, most, most)),
                              fac_scalar_f_(value_or(neginf, -most, most)), out);
}

fac_status clamp_min_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *min, fac_tensor **out) {
    (void)c;
    return fac__c_clamp_Tensor(self, min, NULL, out);
}

fac_status clamp_max_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *max, fac_tensor **out) {
    (void)c;
    return fac__c_clamp_Tensor(self, NULL, max, out);
}

/* ---- powers and logarithms ---------------------------------------------------------------------------------------------- */

/* 16-bit floats are computed in single precision and rounded once. */
static fac_tensor *widened(fac_tensor *t) { return t && fac__is_half((fac_dtype)t->dtype) ? cast(t, FAC_F32) : t; }

/* Converts both operands to the dtype of a function of them; returns that dtype. */
static fac_dtype meet_narrow(fac_tensor **a, fac_tensor **b) {
    fac_promotion p = {0};
    fac__promote_tensor(&p, *a);
    fac__promote_tensor(&p, *b);
    fac_dtype common = fac__promote_result(&p);
    if (fac_dtype_is_integral(common, true)) common = fac_default_dtype();
    *a = cast(*a, common);
    *b = cast(*b, common);
    return common;
}

/* The same, widened. */
static fac_dtype meet(fac_tensor **a, fac_tensor **b) {
    const fac_dtype common = meet_narrow(a, b);
    *a = widened(*a);
    *b = widened(*b);
    return common;
}

/* The one of the larger real part plus the logarithm of 1 plus a number of modulus up to 1. */
static fac_tensor *log_add_exp_complex(fac_tensor *a, fac_tensor *b) {
    fac_tensor *first = fac__s_ge_Tensor(fac__s_real(a), fac__s_real(b));
    fac_tensor *large = either(first, a, b), *small = either(first, b, a);
    fac_tensor *same = fac__s_eq_Tensor(a, b);
    fac_tensor *apart = fill_where(sub(small, large), same, 0);
    return add(large, fac__s_log1p(fac__s_exp(apart)));
}

static fac_status log_add_exp(fac_tensor *a, fac_tensor *b, bool two, fac_tensor **out) {
    FAC_SCOPE(s);
    if (fac_dtype_is_complex(meet_narrow(&a, &b))) return fac__give(out, log_add_exp_complex(a, b));
    return fac__give(out, two ? fac__s__logaddexp2(a, b) : fac__s__logaddexp(a, b));
}

fac_status logaddexp_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return log_add_exp(self, other, false, out);
}

fac_status logaddexp2_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return log_add_exp(self, other, true, out);
}

/* y, or `neutral` (whose logarithm is 0) where x is 0 and y a number whose logarithm is not finite: 0 times it is 0, and so is its
   slope. Elsewhere the slope for x is the logarithm, at 0 too. */
static fac_tensor *neutral_where_zero(fac_tensor *x, fac_tensor *y, double neutral) {
    fac_tensor *endless =
        y && fac_dtype_is_complex((fac_dtype)y->dtype)
            ? fac__s_logical_not(fac__s_isnan(y))
            : fac__s_logical_or(fac__s_le_Scalar(y, fac_scalar_f_(neutral - 1)), is_value(y, INFINITY));
    return fac__s_where_ScalarSelf(fac__s_logical_and(is_value(x, 0), endless), fac_scalar_f_(neutral), y);
}

static fac_status times_log(fac_tensor *x, fac_tensor *y, bool plus_one, fac_tensor **out) {
    FAC_SCOPE(s);
    fac_dtype common = meet(&x, &y);
    fac_tensor *log = plus_one ? fac__s_log1p(neutral_where_zero(x, y, 0)) : fac__s_log(neutral_where_zero(x, y, 1));
    return fac__give(out, cast(plus(mul(x, log), 0), common)); /* 0, not -0 */
}

/* A number as a tensor without dimensions, in the dtype that it has beside t; infinite if it is beyond that. */
static fac_tensor *number_beside(fac_tensor *t, fac_scalar x) {
    fac_promotion p = {0};
    fac__promote_tensor(&p, t);
    fac__promote_scalar(&p, x);
    fac_dtype common = fac__promote_result(&p);
    if (fac_dtype_is_integral(common, true)) common = fac_default_dtype();
    fac_tensor *wide = fac__s_new_full(t, (fac_ints){0}, x, x.kind == FAC_KIND_COMPLEX ? FAC_C128 : FAC_F64,
                                       FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    return cast(wide, common);
}

#define TIMES_LOG(name, plus_one)                                                                                     \
    fac_status name##_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other,                   \
                                       fac_tensor **out) {                                                            \
        (void)c;                                                                                                      \
        return times_log(self, other, plus_one, out);                                                                 \
    }                                                                                                                 \
    fac_status name##_other_composite(const fac_call_info *c, fac_tensor *self, fac_scalar other, fac_tensor **out) { \
        (void)c;                                                                                                      \
        FAC_SCOPE(s);                                                                                                 \
        fac_tensor *number = number_beside(self, other);                                                              \
        return number ? times_log(self, number, plus_one, out) : fac_error();                                         \
    }                                                                                                                 \
    fac_status name##_self_composite(const fac_call_info *c, fac_scalar self, fac_tensor *other, fac_tensor **out) {  \
        (void)c;                                                                                                      \
        FAC_SCOPE(s);                                                                                                 \
        fac_tensor *number = number_beside(other, self);                                                              \
        return number ? times_log(number, other, plus_one, out) : fac_error();                                        \
    }
TIMES_LOG(xlogy, false)
TIMES_LOG(xlog1py, true)

/* x 2^power as the loop has it, where many elements share a power: its two factors are made once. */
static fac_tensor *ldexp_of_few(fac_tensor *x, fac_tensor *power) {
    fac_tensor *most = fac__s_clamp(power, fac_opt_num_(fac_scalar_f_(-4096)), fac_opt_num_(fac_scalar_f_(4096)));
    fac_tensor *half = fac__s_round(scaled(most, 0.5));
    return fac__s__product3(x, fac__s_exp2(half), fac__s_exp2(sub(most, half)));
}

static bool are_few(const fac_tensor *power, const fac_tensor *x) {
    enum { LEAST = 8192, SHARE = 4, ROW = 32 };
    const int last = power->ndim - 1;
    if (last < 0 || (power->sizes[last] == 1 && x->ndim && x->sizes[x->ndim - 1] >= ROW)) return false; /* once a row */
    return x->numel >= LEAST && power->numel <= x->numel / SHARE &&
           !(fac_is_grad_enabled() && fac__requires_grad(power));
}

fac_status ldexp_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *x = self, *power = other;
    const fac_dtype common = meet_narrow(&x, &power);
    if (fac_dtype_is_complex(common)) return fac__give(out, mul(x, fac__s_pow_Scalar(fac_scalar_f_(2), power)));
    const bool few = !fac__is_half(common) && are_few(other, self);
    return fac__give(out, few ? ldexp_of_few(x, power) : fac__s__ldexp(x, power));
}

static fac_dtype widest(fac_dtype a, bool complex) { return complex || fac_dtype_is_complex(a) ? FAC_C128 : FAC_F64; }

fac_status float_power_tensor_tensor_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *exponent,
                                               fac_tensor **out) {
    (void)c;
    fac_dtype dtype = widest((fac_dtype)self->dtype, fac_dtype_is_complex((fac_dtype)exponent->dtype));
    FAC_SCOPE(s);
    return fac__give(out, fac__s_pow_Tensor_Tensor(cast(self, dtype), cast(exponent, dtype)));
}

fac_status float_power_tensor_scalar_composite(const fac_call_info *c, fac_tensor *self, fac_scalar exponent,
                                               fac_tensor **out) {
    (void)c;
    fac_dtype dtype = widest((fac_dtype)self->dtype, exponent.kind == FAC_KIND_COMPLEX);
    FAC_SCOPE(s);
    return fac__give(out, fac__s_pow_Tensor_Scalar(cast(self, dtype), exponent));
}

fac_status float_power_scalar_composite(const fac_call_info *c, fac_scalar self, fac_tensor *exponent,
                                        fac_tensor **out) {
    (void)c;
    fac_dtype dtype = widest((fac_dtype)exponent->dtype, self.kind == FAC_KIND_COMPLEX);
    FAC_SCOPE(s);
    return fac__give(out, fac__s_pow_Scalar(self, cast(exponent, dtype)));
}

/* ---- complex numbers from two real ones ------------------------------------------------------------------------------------ */

/* The dimensions by descending stride, if both parts lie without gaps in the same order that is not row-major. */
static bool is_permuted(const fac_tensor *a, const fac_tensor *b, int64_t *order) {
    if (fac__is_contiguous(a) || memcmp(a->strides, b->strides, a->ndim * sizeof *a->strides) != 0) return false;
    for (int d = 0; d < a->ndim; d++) {
        int at = d;
        for (; at > 0 && a->strides[order[at - 1]] < a->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t expected = 1;
    for (int i = a->ndim; i-- > 0; expected *= a->sizes[order[i]])
        if (a->strides[order[i]] != expected) return false;
    return true;
}

static fac_tensor *interleaved(fac_tensor *re, fac_tensor *im) {
    return fac__s_view_as_complex(fac__s_stack((fac_tensors){(fac_tensor *[]){re, im}, 2}, -1));
}

/* The result lies in memory as the parts do. */
static fac_tensor *complex_of(fac_tensor *re, fac_tensor *im) {
    fac_tensors both = fac__s_broadcast_tensors((fac_tensors){(fac_tensor *[]){re, im}, 2});
    if (both.n != 2) return NULL;
    re = both.v[0], im = both.v[1];
    int64_t order[FAC_MAX_DIMS], back[FAC_MAX_DIMS];
    const int ndim = re->ndim;
    if (!is_permuted(re, im, order)) return interleaved(re, im);
    for (int i = 0; i < ndim; i++) back[order[i]] = i;
    const fac_ints to = {order, (size_t)ndim}, from = {back, (size_t)ndim};
    return fac__s_permute(interleaved(fac__s_permute(re, to), fac__s_permute(im, to)), from);
}

static fac_status check_parts(const fac_tensor *a, const fac_tensor *b) {
    FAC_CHECK(a->dtype == FAC_F32 || a->dtype == FAC_F64, FAC_ERR_DTYPE,
              "Expected both inputs to be float32 or float64 tensors but got %s", fac_dtype_name((fac_dtype)a->dtype));
    FAC_CHECK(a->dtype == b->dtype, FAC_ERR_DTYPE,
              "Expected object of scalar type %s but got scalar type %s for second argument",
              fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    return FAC_OK;
}

fac_status complex_composite(const fac_call_info *c, fac_tensor *real, fac_tensor *imag, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_parts(real, imag));
    FAC_SCOPE(s);
    return fac__give(out, complex_of(real, imag));
}

fac_status polar_composite(const fac_call_info *c, fac_tensor *abs, fac_tensor *angle, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_parts(abs, angle));
    FAC_SCOPE(s);
    return fac__give(out, complex_of(mul(abs, fac__s_cos(angle)), mul(abs, fac__s_sin(angle))));
}
