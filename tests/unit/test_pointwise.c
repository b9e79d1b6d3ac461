/* Pointwise operators against the C library and against PyTorch's documented corner cases. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

#include "data/complex_cases.h"

#define DOUBLES(...) (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double)

static fac_tensor *make(fac_dtype d, const double *v, size_t n) {
    fac_tensor *t = fac_tensor_from(v, FAC_F64, FAC_INTS((int64_t)n));
    return d == FAC_F64 ? t : fac_to_dtype(t, d);
}
#define OF(d, ...) make((d), DOUBLES(__VA_ARGS__))

static void values_are(fac_tensor *t, fac_dtype d, const double *want, size_t n, int line) {
    double got[64];
    support_no_error(__FILE__, line);
    assert_non_null(t);
    _assert_int_equal((uintmax_t)fac_tensor_dtype(t), d, __FILE__, line);
    _assert_int_equal((uintmax_t)fac_tensor_numel(t), n, __FILE__, line);
    _assert_int_equal(fac_tensor_read(t, FAC_F64, got, n), FAC_OK, __FILE__, line);
    for (size_t i = 0; i < n; i++) {
        if ((isnan(got[i]) && isnan(want[i])) || got[i] == want[i]) continue;
        print_error("element %zu is %.17g, should be %.17g\n", i, got[i], want[i]);
        _fail(__FILE__, line);
    }
}
#define assert_values(t, d, ...) values_are((t), (d), DOUBLES(__VA_ARGS__), __LINE__)

/* ---- unary functions against the C library ------------------------------------------------------------------------------ */

static double rsqrt_of(double x) { return 1 / sqrt(x); }
static double reciprocal_of(double x) { return 1 / x; }
static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double silu_of(double x) { return x / (1 + exp(-x)); }
static double gelu_of(double x) { return 0.5 * x * (1 + erf(x * M_SQRT1_2)); }
static double mish_of(double x) { return x * tanh(log1p(exp(x))); }
static double softplus_of(double x) { return log1p(exp(x)); }
static double log_sigmoid_of(double x) { return -log1p(exp(-x)); }
static double square_of(double x) { return x * x; }
static double sinc_of(double x) { return sin(M_PI * x) / (M_PI * x); }
static double relu_of(double x) { return x > 0 ? x : 0; }
static double elu_of(double x) { return x > 0 ? x : expm1(x); }
static double leaky_relu_of(double x) { return x > 0 ? x : 0.01 * x; }
static double hardtanh_of(double x) { return fmin(fmax(x, -1), 1); }
static double hardsigmoid_of(double x) { return fmin(fmax(x + 3, 0), 6) / 6; }
static double hardswish_of(double x) { return x * hardsigmoid_of(x); }

/* X(operator, reference, lowest and highest argument, error allowed in units of the last place) */
/* clang-format off */
#define UNARY_CASES(X)                                                                                               \
    X(abs, fabs, -5, 5, 0) X(ceil, ceil, -5, 5, 0) X(floor, floor, -5, 5, 0) X(round, rint, -5, 5, 0)                \
    X(trunc, trunc, -5, 5, 0) X(sqrt, sqrt, 0, 9, 1) X(rsqrt, rsqrt_of, 0.1, 9, 2)                                   \
    X(reciprocal, reciprocal_of, 0.1, 9, 1) X(square, square_of, -9, 9, 1) X(exp, exp, -10, 10, 1)                   \
    X(exp2, exp2, -10, 14, 1) X(expm1, expm1, -5, 5, 1) X(log, log, 0.01, 100, 1) X(log2, log2, 0.01, 100, 1)      \
    X(log10, log10, 0.01, 100, 1) X(log1p, log1p, -0.9, 10, 1) X(sin, sin, -30, 30, 1) X(cos, cos, -30, 30, 1)       \
    X(tan, tan, -1.5, 1.5, 1) X(asin, asin, -1, 1, 1) X(acos, acos, -1, 1, 1) X(atan, atan, -9, 9, 1)                \
    X(sinh, sinh, -9, 9, 1) X(cosh, cosh, -9, 9, 1) X(tanh, tanh, -5, 5, 1) X(asinh, asinh, -9, 9, 1)                \
    X(acosh, acosh, 1.01, 9, 1) X(atanh, atanh, -0.95, 0.95, 1) X(erf, erf, -4, 4, 1) X(erfc, erfc, -4, 4, 2)        \
    X(sigmoid, sigmoid_of, -9, 9, 4) X(silu, silu_of, -9, 9, 4) X(gelu, gelu_of, -2, 9, 16)                          \
    X(mish, mish_of, -9, 9, 8) X(softplus, softplus_of, -9, 9, 4) X(log_sigmoid, log_sigmoid_of, -9, 9, 4)           \
    X(sinc, sinc_of, 0.1, 0.9, 16) X(relu, relu_of, -5, 5, 0) X(elu, elu_of, -5, 5, 2)                                \
    X(leaky_relu, leaky_relu_of, -5, 5, 1) X(hardtanh, hardtanh_of, -5, 5, 0)                                        \
    X(hardsigmoid, hardsigmoid_of, -5, 5, 2) X(hardswish, hardswish_of, -5, 5, 4)
/* clang-format on */

#define DEFINE_RUN(op, reference, lo, hi, ulps) \
    static fac_tensor *run_##op(fac_tensor *t) { return fac_##op(t); }
UNARY_CASES(DEFINE_RUN)

typedef struct unary_case {
    const char *name;
    fac_tensor *(*run)(fac_tensor *);
    double (*reference)(double);
    double lo, hi, ulps;
} unary_case;
#define ROW(op, reference, lo, hi, ulps) {#op, run_##op, reference, lo, hi, ulps},
static const unary_case unary_cases[] = {UNARY_CASES(ROW)};

#define POINTS 1003 /* not a multiple of any vector length */

/* unit: the spacing of numbers at 1; least: the smallest normal number, below which the spacing stays. */
static void check_unary(const unary_case *c, fac_dtype d, double unit, double least) {
    FAC_SCOPE(s);
    double x[POINTS], got[POINTS];
    for (int i = 0; i < POINTS; i++) x[i] = c->lo + (c->hi - c->lo) * (i + 0.5) / POINTS;
    fac_tensor *t = make(d, x, POINTS);
    assert_ok(fac_tensor_read(t, FAC_F64, x, POINTS)); /* as rounded */
    assert_ok(fac_tensor_read(c->run(t), FAC_F64, got, POINTS));
    for (int i = 0; i < POINTS; i++) {
        double want = c->reference(x[i]), step = fmax(fabs(want), least) * unit;
        if (fabs(got[i] - want) <= (c->ulps + 0.5) * step) continue;
        print_error("%s(%.17g) in %s is %.17g, should be %.17g\n", c->name, x[i], fac_dtype_name(d), got[i], want);
        fail();
    }
}

static void unary_operators_agree_with_the_c_library(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(unary_cases); i++) {
        check_unary(&unary_cases[i], FAC_F32, 0x1p-23, 0x1p-126);
        check_unary(&unary_cases[i], FAC_F64, 0x1p-51, 0x1p-126); /* the reference is itself rounded */
        check_unary(&unary_cases[i], FAC_F16, 0x1p-10, 0x1p-14);
        check_unary(&unary_cases[i], FAC_BF16, 0x1p-7, 0x1p-126);
    }
}

/* An element's result does not depend on where in the vector loop it lies. */
static void S109_results_do_not_depend_on_the_position(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(unary_cases); i++) {
        FAC_SCOPE(s);
        const unary_case *c = &unary_cases[i];
        fac_tensor *t = fac_linspace(c->lo + 1e-3, c->hi - 1e-3, 67);
        fac_tensor *whole = c->run(t), *part = c->run(fac_narrow(t, 0, 5, 33));
        assert_no_error();
        assert_memory_equal((float *)fac_tensor_data(whole) + 5, fac_tensor_data(part), 33 * sizeof(float));
    }
}

static void integers_become_floats_where_functions_need_them(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_sqrt(OF(FAC_I64, 4, 9)), FAC_F32, 2, 3);
    assert_values(fac_exp(OF(FAC_BOOL, 0)), FAC_F32, 1);
    assert_values(fac_neg(OF(FAC_I32, 4, -9)), FAC_I32, -4, 9);
    assert_values(fac_floor(OF(FAC_I32, 4, -9)), FAC_I32, 4, -9);
    assert_values(fac_abs(OF(FAC_I8, -128, -1)), FAC_I8, -128, 1);
    assert_values(fac_sign(OF(FAC_F32, NAN, -0.0, -3, 2)), FAC_F32, 0, 0, -1, 1);
    assert_values(fac_relu(OF(FAC_F32, NAN, -1, 2)), FAC_F32, NAN, 0, 2);
    assert_values(fac_relu(OF(FAC_I32, -1, 2)), FAC_I32, 0, 2);
    assert_values(fac_isnan(OF(FAC_F32, NAN, INFINITY, 1)), FAC_BOOL, 1, 0, 0);
    assert_values(fac_isinf(OF(FAC_F32, NAN, -INFINITY, 1)), FAC_BOOL, 0, 1, 0);
    assert_values(fac_isfinite(OF(FAC_F16, NAN, INFINITY, 1)), FAC_BOOL, 0, 0, 1);
    assert_values(fac_isnan(OF(FAC_I32, 1)), FAC_BOOL, 0);
    assert_values(fac_logical_not(OF(FAC_F32, 0, 2)), FAC_BOOL, 1, 0);
    assert_values(fac_bitwise_not(OF(FAC_U8, 0, 255, 1)), FAC_U8, 255, 0, 254);
    assert_values(fac_bitwise_not(OF(FAC_BOOL, 0, 1)), FAC_BOOL, 1, 0);
}

/* ---- arithmetic ---------------------------------------------------------------------------------------------------- */

static void promotion_ranks_tensors_over_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *i = OF(FAC_I32, 1, 2), *h = OF(FAC_F16, 1, 2);
    assert_values(fac_add(i, 2), FAC_I32, 3, 4);
    assert_values(fac_add(i, 0.5), FAC_F32, 1.5, 2.5);
    assert_values(fac_add(h, 0.5), FAC_F16, 1.5, 2.5);
    assert_values(fac_add(i, h), FAC_F16, 2, 4);
    assert_values(fac_add(i, OF(FAC_F64, 0.5)), FAC_F64, 1.5, 2.5);
    assert_values(fac_mul(OF(FAC_BOOL, 0, 1), 3), FAC_I64, 0, 3);
    assert_values(fac_add(OF(FAC_BOOL, 0, 1), OF(FAC_BOOL, 1, 1)), FAC_BOOL, 1, 1);
    assert_values(fac_add(OF(FAC_U8, 1), 300), FAC_U8, 45);
    assert_values(fac_add(i, i, .alpha = 3), FAC_I32, 4, 8);
    assert_values(fac_sub(i, i, .alpha = 3), FAC_I32, -2, -4);
    assert_values(fac_rsub(i, 10), FAC_I32, 9, 8);
    assert_values(fac_rsub(h, OF(FAC_F16, 5)), FAC_F16, 4, 3);
}

static void division_follows_its_rounding_mode(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = OF(FAC_I32, 7, -7, 7, -7), *b = OF(FAC_I32, 2, 2, -2, -2);
    assert_values(fac_div(a, b), FAC_F32, 3.5, -3.5, -3.5, 3.5);
    assert_values(fac_floor_divide(a, b), FAC_I32, 3, -4, -4, 3);
    assert_values(fac_div_mode(a, b, "trunc"), FAC_I32, 3, -3, -3, 3);
    assert_values(fac_remainder(a, b), FAC_I32, 1, 1, -1, -1);
    assert_values(fac_fmod(a, b), FAC_I32, 1, -1, 1, -1);
    fac_tensor *x = OF(FAC_F32, 7.5, -7.5, 7.5, -7.5, 1, INFINITY), *y = OF(FAC_F32, 2, 2, -2, -2, 0, 2);
    assert_values(fac_floor_divide(x, y), FAC_F32, 3, -4, -4, 3, INFINITY, NAN);
    assert_values(fac_remainder(x, y), FAC_F32, 1.5, 0.5, -0.5, -1.5, NAN, NAN);
    assert_values(fac_fmod(x, y), FAC_F32, 1.5, -1.5, 1.5, -1.5, NAN, NAN);
    assert_values(fac_div(OF(FAC_F32, 1, -1, 0), OF(FAC_F32, 0, 0, 0)), FAC_F32, INFINITY, -INFINITY, NAN);
    assert_null(fac_div_mode(a, b, "up"));
    assert_error(FAC_ERR_ARGUMENT, "rounding_mode to be one of None, 'trunc', or 'floor' but found 'up'");
}

static void integer_division_by_zero_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = OF(FAC_I64, 1, 2), *zero = OF(FAC_I64, 1, 0);
    assert_null(fac_floor_divide(a, zero));
    assert_error(FAC_ERR_ARGUMENT, "an integer divisor is zero");
    assert_null(fac_remainder(a, 0));
    assert_error(FAC_ERR_ARGUMENT, "an integer divisor is zero");
    assert_null(fac_fmod(a, zero));
    assert_error(FAC_ERR_ARGUMENT, "an integer divisor is zero");
}

static void the_least_integer_survives_division_by_minus_one(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *least = fac_tensor_from((const int64_t[]){INT64_MIN}, FAC_I64, FAC_INTS(1));
    fac_tensor *r = fac_floor_divide(least, -1);
    assert_no_error();
    assert_true(*(const int64_t *)fac_tensor_data(r) == INT64_MIN);
    assert_values(fac_remainder(least, -1), FAC_I64, 0);
    assert_values(fac_fmod(OF(FAC_I32, INT32_MIN), -1), FAC_I32, 0);
}

static void powers_of_integers_and_special_exponents(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_pow(OF(FAC_I32, 2, 3, -2), 3), FAC_I32, 8, 27, -8);
    assert_values(fac_pow(OF(FAC_I32, 1, -1, 2, -1), OF(FAC_I32, -5, -5, -1, -4)), FAC_I32, 1, -1, 0, 1);
    assert_null(fac_pow(OF(FAC_I32, 2), -1));
    assert_error(FAC_ERR_ARGUMENT, "Integers to negative integer powers are not allowed.");
    assert_values(fac_pow(OF(FAC_F32, 4, 9), 0.5), FAC_F32, 2, 3);
    assert_values(fac_pow(OF(FAC_F32, 4, -2), -1), FAC_F32, 0.25, -0.5);
    assert_values(fac_pow(OF(FAC_F32, -2, 3), 2), FAC_F32, 4, 9);
    assert_values(fac_pow(OF(FAC_F64, 0, NAN, -8), OF(FAC_F64, 0, 0, 1.0 / 3)), FAC_F64, 1, 1, NAN);
    assert_values(fac_pow_scalar(FAC_SCALAR(2), OF(FAC_I32, 0, 1, 10)), FAC_I32, 1, 2, 1024);
    assert_values(fac_pow(OF(FAC_F32, 2, 3), 3), FAC_F32, 8, 27);
}

static void limits_and_thresholds_of_integers_lose_their_fractions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = OF(FAC_I32, -7, 1, 2, 100);
    assert_values(fac_hardtanh(x, .min_val = -1.5, .max_val = 5.9), FAC_I32, -1, 1, 2, 5);
    assert_values(fac_threshold(x, 1.5, -3.5), FAC_I32, -3, -3, 2, 100);
    assert_values(fac_threshold_(OF(FAC_U8, 0, 200), 1, 7), FAC_U8, 7, 200);
    assert_values(fac_relu6(OF(FAC_U8, 0, 200)), FAC_U8, 0, 6);
    assert_values(fac_hardtanh(OF(FAC_U8, 0, 1, 2)), FAC_U8, 0, 1, 1);
    assert_null(fac_hardtanh(OF(FAC_U8, 1), .min_val = -3, .max_val = -1));
    assert_error(FAC_ERR_OVERFLOW, "upper bound -1 is beyond what uint8 holds");
    assert_null(fac_hardtanh(OF(FAC_BOOL, 1)));
    assert_error(FAC_ERR_DTYPE, "hardtanh");
    assert_null(fac_threshold(OF(FAC_BOOL, 1), 0, 1));
    assert_error(FAC_ERR_DTYPE, "threshold");
    assert_null(fac_threshold(OF(FAC_I8, 1), 0, 300));
    assert_error(FAC_ERR_OVERFLOW, "int8");
}

static void shifts_beyond_the_width_shift_everything_out(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_bitwise_left_shift(OF(FAC_I32, 1, 1, 1), OF(FAC_I32, 4, 32, -1)), FAC_I32, 16, 0, 0);
    assert_values(fac_bitwise_right_shift(OF(FAC_I32, -8, -8, 8), OF(FAC_I32, 1, 40, 40)), FAC_I32, -4, -1, 0);
    assert_values(fac_bitwise_right_shift(OF(FAC_I64, -8, 8), OF(FAC_I64, -1, 64)), FAC_I64, -1, 0);
    assert_values(fac_bitwise_right_shift(OF(FAC_U8, 200), OF(FAC_U8, 9)), FAC_U8, 0);
    assert_values(fac_bitwise_and(OF(FAC_I32, 12), 10), FAC_I32, 8);
    assert_values(fac_bitwise_or(OF(FAC_BOOL, 0, 1), OF(FAC_BOOL, 0, 0)), FAC_BOOL, 0, 1);
    assert_values(fac_bitwise_xor(OF(FAC_I64, 12), OF(FAC_I64, 10)), FAC_I64, 6);
}

static void extrema_pass_nan_on(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = OF(FAC_F32, 1, NAN, 3), *b = OF(FAC_F32, NAN, 2, 2);
    assert_values(fac_maximum(a, b), FAC_F32, NAN, NAN, 3);
    assert_values(fac_minimum(a, b), FAC_F32, NAN, NAN, 2);
    assert_values(fac_clamp(a, .min = 2), FAC_F32, 2, NAN, 3);
    assert_values(fac_clamp(a, .min = 2, .max = 2.5), FAC_F32, 2, NAN, 2.5);
    assert_values(fac_clamp(a, .min = 5, .max = 0), FAC_F32, 0, NAN, 0);
    assert_values(fac_clamp(OF(FAC_I32, 1, 5), .max = 3), FAC_I32, 1, 3);
    assert_values(fac_clamp(OF(FAC_I32, 1, 5), .max = 2.5), FAC_F32, 1, 2.5);
    assert_null(fac_clamp(a));
    assert_error(FAC_ERR_ARGUMENT, "At least one of 'min' or 'max' must not be None");
}

static void comparisons_round_numbers_to_the_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_eq(OF(FAC_F16, 0.1, 0.2), 0.1), FAC_BOOL, 1, 0);
    assert_values(fac_lt(OF(FAC_F32, 1, NAN, 3), 2), FAC_BOOL, 1, 0, 0);
    assert_values(fac_ne(OF(FAC_F32, NAN), OF(FAC_F32, NAN)), FAC_BOOL, 1);
    assert_values(fac_ge(OF(FAC_I64, 1, 2), OF(FAC_F32, 1.5, 2)), FAC_BOOL, 0, 1);
    assert_values(fac_lt_(OF(FAC_F32, 1, 3), 2), FAC_F32, 1, 0);
    assert_values(fac_logical_xor(OF(FAC_F32, 0, 2), OF(FAC_I32, 3, 4)), FAC_BOOL, 1, 0);
}

static void selection_by_a_mask(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *mask = OF(FAC_BOOL, 1, 0, 1), *a = OF(FAC_F32, 1, 2, 3), *h = OF(FAC_F16, 4, 5, 6);
    assert_values(fac_where(mask, a, h), FAC_F32, 1, 5, 3);
    assert_values(fac_where(mask, a, 0.0), FAC_F32, 1, 0, 3);
    assert_values(fac_where(mask, h, OF(FAC_I32, 7)), FAC_F16, 4, 7, 6);
    assert_values(fac_masked_fill(a, mask, -1.0), FAC_F32, -1, 2, -1);
    assert_values(fac_masked_fill_(OF(FAC_I32, 1, 2, 3), mask, 9), FAC_I32, 9, 2, 9);
    assert_null(fac_where(a, a, a));
    assert_error(FAC_ERR_DTYPE, "where expected condition to be a boolean tensor");
}

static void ternary_arithmetic(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = OF(FAC_F32, 1, 2), *b = OF(FAC_F32, 3, 4), *c = OF(FAC_F32, 2, 8);
    assert_values(fac_addcmul(a, b, c), FAC_F32, 7, 34);
    assert_values(fac_addcmul(a, b, c, .value = 0.5), FAC_F32, 4, 18);
    assert_values(fac_addcdiv(a, b, c, .value = 2), FAC_F32, 4, 3);
    assert_values(fac_lerp(a, b, 0.5), FAC_F32, 2, 3);
    assert_values(fac_lerp(a, b, OF(FAC_F32, 0, 1)), FAC_F32, 1, 4);
    assert_null(fac_lerp(a, OF(FAC_F64, 1, 2), 0.5));
    assert_error(FAC_ERR_DTYPE, "float32 and float64");
    assert_null(fac_addcdiv(a, OF(FAC_I32, 1, 1), OF(FAC_I32, 1, 1)));
    assert_error(FAC_ERR_DTYPE, "integer division");
}

/* ---- errors ----------------------------------------------------------------------------------------------------------- */

static void booleans_are_refused_where_arithmetic_means_something_else(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *b = OF(FAC_BOOL, 1, 0), *i = OF(FAC_I32, 1, 2);
    assert_null(fac_sub(b, b));
    assert_error(FAC_ERR_DTYPE, "with two bool tensors is not supported");
    assert_null(fac_sub(b, 1));
    assert_error(FAC_ERR_DTYPE, "with a bool tensor is not supported");
    assert_null(fac_neg(b));
    assert_error(FAC_ERR_DTYPE, "Negation, the `-` operator, on a bool tensor is not supported");
    assert_null(fac_abs(b));
    assert_error(FAC_ERR_DTYPE, "not implemented for");
    assert_null(fac_add(i, i, .alpha = 1.5));
    assert_error(FAC_ERR_DTYPE, "argument alpha must not be a floating point number");
    assert_null(fac_bitwise_and(OF(FAC_F32, 1), 1));
    assert_error(FAC_ERR_DTYPE, "bitwise_and");
    assert_null(fac_gelu(i));
    assert_error(FAC_ERR_DTYPE, "gelu");
}

static void in_place_results_must_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *i = OF(FAC_I32, 1, 2);
    assert_null(fac_add_(i, 1.5));
    assert_error(FAC_ERR_DTYPE, "result type float32 can't be cast to the desired output type int32");
    assert_null(fac_sqrt_(i));
    assert_error(FAC_ERR_DTYPE, "can't be cast");
    assert_null(fac_add_(i, fac_ones(FAC_INTS(2, 2), .dtype = FAC_I32)));
    assert_error(FAC_ERR_SHAPE, "output with shape [2] doesn't match the broadcast shape [2, 2]");
    assert_null(fac_add_(fac_expand(OF(FAC_F32, 1), FAC_INTS(3)), 1.0));
    assert_error(FAC_ERR_ARGUMENT, "more than one element of the written-to tensor");
    fac_tensor *f = OF(FAC_F32, 1, 2, 3, 4);
    assert_null(fac_add_(fac_narrow(f, 0, 1, 3), fac_narrow(f, 0, 0, 3)));
    assert_error(FAC_ERR_ARGUMENT, "some elements of the input tensor and the written-to tensor");
    assert_values(f, FAC_F32, 1, 2, 3, 4);
    assert_values(fac_add_(f, f), FAC_F32, 2, 4, 6, 8);
    assert_values(fac_mul_(OF(FAC_F32, 2), OF(FAC_F64, 0.5)), FAC_F32, 1);
}

static void out_forms_resize_and_convert(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = OF(FAC_F32, 1, 2), *empty = fac_empty(FAC_INTS(0)),
               *wide = fac_zeros(FAC_INTS(2), .dtype = FAC_F64);
    assert_ptr_equal(fac_add_out(empty, a, a), empty);
    assert_values(empty, FAC_F32, 2, 4);
    assert_values(fac_exp_out(wide, fac_mul(a, 0.0)), FAC_F64, 1, 1);
    assert_null(fac_add_out(fac_zeros(FAC_INTS(2), .dtype = FAC_I64), a, a));
    assert_error(FAC_ERR_DTYPE, "result type float32 can't be cast to the desired output type int64");
}

/* ---- copies and conversions ------------------------------------------------------------------------------------------- */

static void floats_that_do_not_fit_saturate(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = OF(FAC_F32, NAN, INFINITY, -INFINITY, 1e30, -1e30, 3.9, -3.9);
    assert_values(fac_to_dtype(x, FAC_I32), FAC_I32, 0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 3, -3);
    assert_values(fac_to_dtype(x, FAC_I8), FAC_I8, 0, 127, -128, 127, -128, 3, -3);
    assert_values(fac_to_dtype(x, FAC_BOOL), FAC_BOOL, 1, 1, 1, 1, 1, 1, 1);
    assert_values(fac_to_dtype(OF(FAC_F32, 300, -1), FAC_U8), FAC_U8, 44, 255);
    assert_values(fac_to_dtype(OF(FAC_F64, 1e300, 65504, 65520), FAC_F16), FAC_F16, INFINITY, 65504, INFINITY);
    assert_values(fac_to_dtype(OF(FAC_I64, 257, -1), FAC_U8), FAC_U8, 1, 255);
}

static void every_pair_of_dtypes_converts_small_integers(void **state) {
    (void)state;
    for (int from = FAC_BOOL; from < FAC_DTYPE_COUNT; from++)
        for (int to = FAC_BOOL; to < FAC_DTYPE_COUNT; to++) {
            FAC_SCOPE(s);
            double x[45], want[45];
            for (int i = 0; i < 45; i++) {
                x[i] = from == FAC_BOOL ? i % 2 : i;
                want[i] = to == FAC_BOOL ? x[i] != 0 : x[i];
            }
            fac_tensor *t =
                fac_to_dtype(fac_to_dtype(fac_tensor_from(x, FAC_F64, FAC_INTS(45)), (fac_dtype)from), (fac_dtype)to);
            values_are(t, (fac_dtype)to, want, 45, __LINE__);
        }
}

static void copies_broadcast_convert_and_transpose(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *m = fac_reshape(fac_arange(70 * 50, .dtype = FAC_F32), FAC_INTS(70, 50));
    fac_tensor *t = fac_contiguous(fac_t(m));
    assert_no_error();
    const float *v = fac_tensor_data(t);
    for (int i = 0; i < 50; i++)
        for (int j = 0; j < 70; j++) assert_true(v[i * 70 + j] == (float)(j * 50 + i));
    fac_tensor *dst = fac_zeros(FAC_INTS(2, 2), .dtype = FAC_I32);
    assert_values(fac_copy_(dst, OF(FAC_F32, 1.5, 2.5)), FAC_I32, 1, 2, 1, 2);
    assert_null(fac_copy_(OF(FAC_F32, 1), OF(FAC_F32, 1, 2)));
    assert_error(FAC_ERR_SHAPE, "doesn't match the broadcast shape");
    assert_ptr_equal(fac_contiguous(m), m);
    assert_ptr_equal(fac_to_dtype(m, FAC_F32), m);
    assert_false(fac_is_alias_of(fac_clone(m), m));
    assert_int_equal(fac_tensor_stride(fac_clone(fac_t(m)), 0), 1); /* clone keeps the order */
    assert_values(fac_fill_(fac_zeros(FAC_INTS(3)), 2.5), FAC_F32, 2.5, 2.5, 2.5);
    assert_values(fac_zero_(OF(FAC_I16, 1, 2)), FAC_I16, 0, 0);
    assert_null(fac_fill_(OF(FAC_I8, 1), 300));
    assert_error(FAC_ERR_OVERFLOW, "value cannot be converted to type int8 without overflow");
}

/* Batches of matrices of every element size, with edges that blocks do not cover. */
static void copies_that_swap_dimensions_agree_with_a_plain_loop(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_U8, FAC_I16, FAC_F32, FAC_F64, FAC_C128};
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to_dtype(
            fac_reshape(fac_remainder(fac_arange(2 * 37 * 5 * 21), 120), FAC_INTS(2, 37, 5, 21)), dtypes[k]);
        fac_tensor *y = fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST);
        fac_tensor *z = fac_contiguous(fac_permute(x, FAC_INTS(3, 0, 2, 1)));
        assert_no_error();
        assert_int_equal(fac_tensor_stride(y, 1), 1);
        size_t item = fac_dtype_size(dtypes[k]);
        const char *a = fac_tensor_data(x), *b = fac_tensor_data(y), *c = fac_tensor_data(z);
        for (size_t n = 0; n < 2; n++)
            for (size_t p = 0; p < 37; p++)
                for (size_t q = 0; q < 5; q++)
                    for (size_t r = 0; r < 21; r++) {
                        const char *e = a + (((n * 37 + p) * 5 + q) * 21 + r) * item;
                        assert_memory_equal(e, b + (((n * 5 + q) * 21 + r) * 37 + p) * item, item);
                        assert_memory_equal(e, c + (((r * 2 + n) * 5 + q) * 37 + p) * item, item);
                    }
    }
}

static void overlapping_copies_read_before_they_write(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = OF(FAC_F32, 1, 2, 3, 4, 5);
    fac_copy_(fac_narrow(x, 0, 1, 4), fac_narrow(x, 0, 0, 4));
    assert_values(x, FAC_F32, 1, 1, 2, 3, 4);
}

static void complex_arithmetic(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float a[] = {1, 2, 0, 1}, b[] = {3, -1, 0, 1};
    fac_tensor *x = fac_tensor_from(a, FAC_C64, FAC_INTS(2)), *y = fac_tensor_from(b, FAC_C64, FAC_INTS(2));
    assert_values(fac_real(fac_mul(x, y)), FAC_F32, 5, -1);
    assert_values(fac_imag(fac_mul(x, y)), FAC_F32, 5, 0);
    assert_values(fac_abs(fac_tensor_from((const float[]){3, 4}, FAC_C64, FAC_INTS(1))), FAC_F32, 5);
    assert_values(fac_real(fac_div(fac_mul(x, y), y)), FAC_F32, 1, 0);
    assert_values(fac_eq(x, x), FAC_BOOL, 1, 1);
    assert_values(fac_imag(fac_add(x, 1.0)), FAC_F32, 2, 1);
    assert_values(fac_imag(fac_conj(x)), FAC_F32, -2, -1);
    assert_null(fac_lt(x, y));
    assert_error(FAC_ERR_DTYPE, "lt");
}

static char kind_of(double x) { return isnan(x) ? 'n' : isfinite(x) ? 'f' : x > 0 ? '+' : '-'; }

/* Row k of the table, at once and alone: (a + bi) over each pair of parts. */
static void quotients_are_of_kind(fac_dtype d, size_t k) {
    enum { PARTS = FAC_COUNT(complex_parts), N = PARTS * PARTS };
    FAC_SCOPE(s);
    double num[2 * N], den[2 * N], got[2 * N];
    for (size_t i = 0; i < N; i++) {
        num[2 * i] = complex_parts[k / PARTS], num[2 * i + 1] = complex_parts[k % PARTS];
        den[2 * i] = complex_parts[i / PARTS], den[2 * i + 1] = complex_parts[i % PARTS];
    }
    fac_tensor *x = fac_to_dtype(fac_tensor_from(num, FAC_C128, FAC_INTS(N)), d);
    fac_tensor *y = fac_to_dtype(fac_tensor_from(den, FAC_C128, FAC_INTS(N)), d), *q = fac_div(x, y);
    assert_ok(fac_tensor_read(q, FAC_C128, got, N));
    for (size_t i = 0; i < N; i++) {
        double one[2];
        assert_ok(
            fac_tensor_read(fac_div(fac_select(x, 0, (int64_t)i), fac_select(y, 0, (int64_t)i)), FAC_C128, one, 1));
        for (size_t part = 0; part < 2; part++) {
            assert_int_equal(kind_of(got[2 * i + part]), complex_quotients[k][2 * i + part]);
            assert_int_equal(kind_of(one[part]), complex_quotients[k][2 * i + part]);
        }
    }
}

static void complex_quotients_of_special_values_are_pytorchs(void **state) {
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(complex_quotients); k++) {
        quotients_are_of_kind(FAC_C64, k);
        quotients_are_of_kind(FAC_C128, k);
    }
    FAC_SCOPE(s);
    const double x[] = {3, -4, 1e200, 1e200, 1e-200, 2e-200}, y[] = {1, 2, 2e200, 2e200, 2e-200, -1e-200};
    fac_tensor *q = fac_div(fac_tensor_from(x, FAC_C128, FAC_INTS(3)), fac_tensor_from(y, FAC_C128, FAC_INTS(3)));
    assert_values(fac_real(q), FAC_F64, -1, 0.5, 0);
    assert_values(fac_imag(q), FAC_F64, -2, 0, 1);
}

static fac_status add_and_scale(void *context) {
    FAC_SCOPE(s);
    fac_tensor *t = context;
    if (!fac_exp(fac_add(fac_mul(t, 2.0), fac_to_dtype(t, FAC_F64)))) return fac_error();
    fac_add_out(fac_empty(FAC_INTS(0)), t, t);
    return fac_error();
}
static void allocation_failures_leave_nothing(void **state) {
    (void)state;
    FAC_SCOPE(s);
    support_fail_each_allocation(add_and_scale, OF(FAC_F32, 1, 2, 3));
}

static void hypot_neither_overflows_nor_vanishes_on_the_way(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_values(fac_hypot(OF(FAC_F64, INFINITY, 0), OF(FAC_F64, NAN, 0)), FAC_F64, INFINITY, 0);
    assert_true(fabs(fac_item(fac_hypot(OF(FAC_F64, 3e300), OF(FAC_F64, 4e300))) / 5e300 - 1) < 1e-15);
    assert_true(fabs(fac_item(fac_hypot(OF(FAC_F64, 3e-300), OF(FAC_F64, 4e-300))) / 5e-300 - 1) < 1e-15);
    fac_tensor *y = fac_hypot(OF(FAC_F32, 3e30), OF(FAC_F32, 4e30));
    assert_true(fabs(fac_item(y) / 5e30 - 1) < 1e-6);
    assert_null(fac_hypot(OF(FAC_I64, 3), OF(FAC_I64, 4)));
    assert_error(FAC_ERR_DTYPE, "hypot");
}

/* A number goes into a tensor's dtype, or is refused; nothing wraps around in silence. */
static void numbers_that_the_dtype_cannot_hold_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *bytes = OF(FAC_U8, 1, 2), *halves = OF(FAC_F16, 1, 2), *floats = OF(FAC_F32, 1, 2),
               *mask = OF(FAC_BOOL, 1, 0), *first = OF(FAC_I64, 0);
    const double re_im[2] = {0, 1};
    const fac_scalar i = fac_scalar_c_(re_im);
    assert_null(fac_masked_fill(bytes, mask, 300));
    assert_error(FAC_ERR_OVERFLOW, "uint8");
    assert_null(fac_masked_fill(halves, mask, 1e6));
    assert_error(FAC_ERR_OVERFLOW, "float16");
    assert_values(fac_masked_fill(halves, mask, -INFINITY), FAC_F16, -INFINITY, 2);
    assert_values(fac_full_like(bytes, fac_scalar_i_(-1)), FAC_U8, 255, 255); /* as PyTorch has it */
    assert_null(fac_index_fill(bytes, 0, first, NAN));
    assert_error(FAC_ERR_OVERFLOW, "uint8");
    assert_null(fac_scatter_value(bytes, 0, first, fac_scalar_i_(256)));
    assert_error(FAC_ERR_OVERFLOW, "uint8");
    assert_null(fac_addcmul(floats, floats, floats, .value_scalar = i));
    assert_error(FAC_ERR_DTYPE, "imaginary");
    assert_null(fac_clamp_min(bytes, fac_scalar_i_(300)));
    assert_error(FAC_ERR_OVERFLOW, "uint8");
    assert_values(fac_hardtanh(halves, .max_val = 1e6), FAC_F16, 1, 2); /* bounds are compared in float32 */
}

/* ---- large results ------------------------------------------------------------------------------------------------------- */

/* Outputs from 24 MiB on are written past the cache, in bursts of their own. */
static void large_results_equal_their_pieces(void **state) {
    (void)state;
    FAC_SCOPE(s);
    enum { N = (24 << 18) + 77, PIECE = 1 << 20, RESULTS = 4 };
    fac_tensor *x = fac_rand(FAC_INTS(N)), *y = fac_rand(FAC_INTS(N)), *half = fac_to_dtype(y, FAC_BF16);
    fac_tensor *whole[RESULTS] = {fac_add(x, y), fac_mul(x, 3.0), fac_exp(x), fac_add(x, half)};
    assert_no_error();
    for (int64_t at = 0; at < N; at += PIECE) {
        FAC_SCOPE(piece);
        int64_t n = N - at < PIECE ? N - at : PIECE;
        fac_tensor *a = fac_narrow(x, 0, at, n), *b = fac_narrow(y, 0, at, n);
        fac_tensor *part[RESULTS] = {fac_add(a, b), fac_mul(a, 3.0), fac_exp(a),
                                     fac_add(a, fac_narrow(half, 0, at, n))};
        assert_no_error();
        for (int i = 0; i < RESULTS; i++)
            assert_memory_equal((float *)fac_tensor_data(whole[i]) + at, fac_tensor_data(part[i]),
                                (size_t)n * sizeof(float));
    }
}

FAC_TEST_MAIN(
    FAC_TEST(hypot_neither_overflows_nor_vanishes_on_the_way), FAC_TEST(numbers_that_the_dtype_cannot_hold_are_refused),
    FAC_TEST(unary_operators_agree_with_the_c_library), FAC_TEST(S109_results_do_not_depend_on_the_position),
    FAC_TEST(integers_become_floats_where_functions_need_them), FAC_TEST(promotion_ranks_tensors_over_numbers),
    FAC_TEST(division_follows_its_rounding_mode), FAC_TEST(integer_division_by_zero_is_an_error),
    FAC_TEST(the_least_integer_survives_division_by_minus_one), FAC_TEST(powers_of_integers_and_special_exponents),
    FAC_TEST(limits_and_thresholds_of_integers_lose_their_fractions),
    FAC_TEST(shifts_beyond_the_width_shift_everything_out), FAC_TEST(extrema_pass_nan_on),
    FAC_TEST(comparisons_round_numbers_to_the_dtype), FAC_TEST(selection_by_a_mask), FAC_TEST(ternary_arithmetic),
    FAC_TEST(booleans_are_refused_where_arithmetic_means_something_else), FAC_TEST(in_place_results_must_fit),
    FAC_TEST(out_forms_resize_and_convert), FAC_TEST(floats_that_do_not_fit_saturate),
    FAC_TEST(every_pair_of_dtypes_converts_small_integers), FAC_TEST(copies_broadcast_convert_and_transpose),
    FAC_TEST(copies_that_swap_dimensions_agree_with_a_plain_loop), FAC_TEST(overlapping_copies_read_before_they_write),
    FAC_TEST(complex_arithmetic), FAC_TEST(complex_quotients_of_special_values_are_pytorchs),
    FAC_TEST(large_results_equal_their_pieces), FAC_TEST(allocation_failures_leave_nothing))
