/* First and second derivatives of pointwise operators against differences. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

/* X(name, expression over x[0], x[1], x[2], number of inputs, lowest and highest value). Ranges keep clear of kinks. */
/* clang-format off */
#define CASES(X)                                                                                                       \
    X(abs, fac_abs(x[0]), 1, 0.5, 2) X(neg, fac_neg(x[0]), 1, -2, 2) X(sgn, fac_sgn(x[0]), 1, 0.5, 2)                  \
    X(floor, fac_floor(x[0]), 1, 0.1, 0.9) X(reciprocal, fac_reciprocal(x[0]), 1, 0.5, 2)                              \
    X(sqrt, fac_sqrt(x[0]), 1, 0.5, 2) X(rsqrt, fac_rsqrt(x[0]), 1, 0.5, 2) X(square, fac_square(x[0]), 1, -2, 2)      \
    X(exp, fac_exp(x[0]), 1, -2, 2) X(exp2, fac_exp2(x[0]), 1, -2, 2) X(expm1, fac_expm1(x[0]), 1, -2, 2)              \
    X(log, fac_log(x[0]), 1, 0.5, 2) X(log2, fac_log2(x[0]), 1, 0.5, 2) X(log10, fac_log10(x[0]), 1, 0.5, 2)           \
    X(log1p, fac_log1p(x[0]), 1, -0.5, 2) X(sin, fac_sin(x[0]), 1, -2, 2) X(cos, fac_cos(x[0]), 1, -2, 2)              \
    X(tan, fac_tan(x[0]), 1, -1, 1) X(asin, fac_asin(x[0]), 1, -0.8, 0.8) X(acos, fac_acos(x[0]), 1, -0.8, 0.8)        \
    X(atan, fac_atan(x[0]), 1, -2, 2) X(sinh, fac_sinh(x[0]), 1, -2, 2) X(cosh, fac_cosh(x[0]), 1, -2, 2)              \
    X(tanh, fac_tanh(x[0]), 1, -2, 2) X(asinh, fac_asinh(x[0]), 1, -2, 2) X(acosh, fac_acosh(x[0]), 1, 1.5, 3)         \
    X(atanh, fac_atanh(x[0]), 1, -0.7, 0.7) X(erf, fac_erf(x[0]), 1, -2, 2) X(erfc, fac_erfc(x[0]), 1, -2, 2)          \
    X(sinc, fac_sinc(x[0]), 1, 0.3, 2) X(sigmoid, fac_sigmoid(x[0]), 1, -2, 2) X(relu, fac_relu(x[0]), 1, 0.5, 2)      \
    X(relu_negative, fac_relu(x[0]), 1, -2, -0.5) X(silu, fac_silu(x[0]), 1, -2, 2) X(mish, fac_mish(x[0]), 1, -2, 2)  \
    X(gelu, fac_gelu(x[0]), 1, -2, 2) X(gelu_tanh, fac_gelu(x[0], .approximate = "tanh"), 1, -2, 2)                    \
    X(hardswish, fac_hardswish(x[0]), 1, -2.5, 2.5) X(hardsigmoid, fac_hardsigmoid(x[0]), 1, -2, 2)                    \
    X(log_sigmoid, fac_log_sigmoid(x[0]), 1, -2, 2) X(elu, fac_elu(x[0]), 1, 0.2, 2)                                   \
    X(elu_negative, fac_elu(x[0], .alpha = 0.7, .scale = 2, .input_scale = 3), 1, -2, -0.2) \
    X(leaky_relu, fac_leaky_relu(x[0]), 1, -2, -0.2) X(hardtanh, fac_hardtanh(x[0]), 1, -0.9, 0.9)                     \
    X(softplus, fac_softplus(x[0], .beta = 2), 1, -2, 2)                                                      \
    X(threshold, fac_threshold(x[0], FAC_SCALAR(0.1), FAC_SCALAR(20)), 1, 0.2, 2)                                      \
    X(prelu, fac_prelu(x[0], x[1]), 2, -2, 2)                                                                          \
    X(add, fac_add(x[0], x[1], .alpha = 3), 2, -2, 2) X(sub, fac_sub(x[0], x[1], .alpha = 3), 2, -2, 2) \
    X(rsub, fac_rsub(x[0], x[1]), 2, -2, 2) X(rsub_number, fac_rsub(x[0], 3), 1, -2, 2)                                \
    X(mul, fac_mul(x[0], x[1]), 2, -2, 2) X(div, fac_div(x[0], x[1]), 2, 0.5, 2)                                       \
    X(div_number, fac_div(x[0], 3), 1, 0.5, 2) X(div_trunc, fac_div_mode(x[0], x[1], "trunc"), 2, 1.1, 1.9)            \
    X(div_none, fac_div_mode(x[0], x[1], NULL), 2, 0.5, 2) X(fmod, fac_fmod(x[0], x[1]), 2, 1.1, 1.9)                  \
    X(remainder, fac_remainder(x[0], x[1]), 2, 1.1, 1.9)                                                               \
    X(pow, fac_pow(x[0], x[1]), 2, 0.5, 2) X(pow_number, fac_pow(x[0], 3), 1, 0.5, 2)                                  \
    X(pow_half, fac_pow(x[0], 0.5), 1, 0.5, 2) X(pow_zero, fac_pow(x[0], 0), 1, 0.5, 2)                                \
    X(pow_of_number, fac_pow_scalar(FAC_SCALAR(2.5), x[0]), 1, -2, 2) X(atan2, fac_atan2(x[0], x[1]), 2, 0.5, 2) \
    X(atan2_of_y, fac_atan2(x[0], fac_gt(x[0], 1.0)), 1, 0.5, 2) X(atan2_of_x, fac_atan2(fac_gt(x[0], 1.0), x[0]), 1, 0.5, 2) \
    X(maximum, fac_maximum(x[0], x[1]), 2, -2, 2) X(minimum, fac_minimum(x[0], x[1]), 2, -2, 2)                        \
    X(clamp, fac_clamp(x[0], .min = -1.03, .max = 0.97), 1, -2, 2)                                   \
    X(clamp_tensor, fac_clamp_tensor(x[0], .min = x[1], .max = x[2]), 3, -2, 2)                                        \
    X(where, fac_where(fac_gt(x[0], 0.02), x[0], x[1]), 2, -2, 2)                                                      \
    X(masked_fill, fac_masked_fill(x[0], fac_gt(x[0], 0.02), 3.0), 1, -2, 2)                                           \
    X(lerp, fac_lerp(x[0], x[1], 0.3), 2, -2, 2) X(lerp_tensor, fac_lerp(x[0], x[1], x[2]), 3, 0.1, 0.9)               \
    X(addcmul, fac_addcmul(x[0], x[1], x[2], .value = 0.5), 3, -2, 2)                                         \
    X(addcdiv, fac_addcdiv(x[0], x[1], x[2], .value = 0.5), 3, 0.5, 2)                                        \
    X(copy, fac_copy_(fac_mul(x[0], 2.0), x[1]), 2, -2, 2) X(to, fac_to_dtype(fac_to_dtype(x[0], FAC_C128), FAC_C128), 1, -2, 2) \
    X(in_place, fac_mul_(fac_sin_(fac_mul(x[0], 0.5)), x[1]), 2, -2, 2) X(clone, fac_clone(x[0]), 1, -2, 2)
/* clang-format on */

#define DEFINE(name, expression, n, lo, hi)                                                             \
    static fac_status check_##name(void *context, fac_tensors inputs, fac_tensor **out, size_t n_out) { \
        (void)context, (void)n_out;                                                                     \
        fac_tensor *const *x = inputs.v;                                                                \
        out[0] = expression;                                                                            \
        return fac_error();                                                                             \
    }
CASES(DEFINE)

static const struct {
    const char *name;
    fac_func fn;
    size_t n;
    double lo, hi;
} cases[] = {
#define ROW(name, expression, n, lo, hi) {#name, check_##name, n, lo, hi},
    CASES(ROW)};

/* Values spread over [lo, hi]; the second and third input are narrower, to exercise broadcasting. */
static fac_tensor *input(size_t which, double lo, double hi) {
    double v[6];
    for (int i = 0; i < 6; i++)
        v[i] = lo + (hi - lo) * fmod(0.137 + 0.618034 * (double)(i + 1) + 0.29 * (double)which, 1.0);
    fac_tensor *t = which == 0 ? fac_tensor_from(v, FAC_F64, FAC_INTS(2, 3)) : fac_tensor_from(v, FAC_F64, FAC_INTS(3));
    return fac_set_requires_grad(t, true);
}

static void run(bool second) {
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        fac_tensor *x[3];
        for (size_t k = 0; k < cases[i].n; k++) x[k] = input(k, cases[i].lo, cases[i].hi);
        fac_tensors inputs = {x, cases[i].n};
        fac_status st =
            second ? fac_gradgradcheck(cases[i].fn, NULL, inputs, 1) : fac_gradcheck(cases[i].fn, NULL, inputs, 1);
        if (st != FAC_OK) print_error("%s:\n", cases[i].name);
        assert_no_error();
    }
}

static void pointwise_gradients_agree_with_differences(void **state) {
    (void)state;
    run(false);
}
static void pointwise_second_gradients_agree_with_differences(void **state) {
    (void)state;
    run(true);
}

static void ties_share_the_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_set_requires_grad(fac_tensor_of(1, 2, 3), true),
               *b = fac_set_requires_grad(fac_tensor_of(1, 3, 2), true);
    assert_ok(fac_backward(fac_sum_all(fac_maximum(a, b))));
    float g[3];
    assert_ok(fac_tensor_read(fac_grad_of(a), FAC_F32, g, 3));
    assert_true(g[0] == 0.5f && g[1] == 0 && g[2] == 1);
    assert_ok(fac_tensor_read(fac_grad_of(b), FAC_F32, g, 3));
    assert_true(g[0] == 0.5f && g[1] == 1 && g[2] == 0);
}

static void S112_the_iterator_serves_a_backward_operator(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_expand(fac_tensor_of(-1, 2), FAC_INTS(3, 2)), *g = fac_t(fac_ones(FAC_INTS(2, 3)));
    fac_tensor *r = fac_threshold_backward(g, x, FAC_SCALAR(0));
    float v[6];
    assert_ok(fac_tensor_read(r, FAC_F32, v, 6));
    for (int i = 0; i < 6; i++) assert_true(v[i] == (float)(i % 2));
}

static void S106_prelu_has_a_weight_per_channel(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x =
        fac_set_requires_grad(fac_reshape(fac_tensor_of(-1, 2, -3, 4, -5, 6, -7, 8), FAC_INTS(2, 2, 2)), true);
    fac_tensor *w = fac_set_requires_grad(fac_tensor_of(0.5, 0.25), true), *y = fac_prelu(x, w);
    float v[8];
    assert_ok(fac_tensor_read(y, FAC_F32, v, 8));
    assert_true(v[0] == -0.5f && v[1] == 2 && v[2] == -0.75f && v[4] == -2.5f && v[6] == -1.75f && v[7] == 8);
    assert_ok(fac_backward(fac_sum_all(y)));
    assert_ok(fac_tensor_read(fac_grad_of(w), FAC_F32, v, 2));
    assert_true(v[0] == -6 && v[1] == -10); /* sums of the negative inputs */
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, v, 8));
    assert_true(v[0] == 0.5f && v[1] == 1 && v[2] == 0.25f);
    assert_null(fac_prelu(x, fac_tensor_of(1, 2, 3)));
    assert_error(FAC_ERR_SHAPE, "parameter numbers = 3 and channel size = 2");
}

static void powers_at_zero_have_finite_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(0, 0), true),
               *e = fac_set_requires_grad(fac_tensor_of(0, 2), true);
    assert_ok(fac_backward(fac_sum_all(fac_pow(x, e))));
    float g[2];
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, g, 2));
    assert_true(g[0] == 0 && g[1] == 0);
    assert_ok(fac_tensor_read(fac_grad_of(e), FAC_F32, g, 2));
    assert_true(g[0] == 0 && g[1] == 0);
}

FAC_TEST_MAIN(FAC_TEST(pointwise_gradients_agree_with_differences),
              FAC_TEST(pointwise_second_gradients_agree_with_differences), FAC_TEST(ties_share_the_gradient),
              FAC_TEST(S106_prelu_has_a_weight_per_channel), FAC_TEST(S112_the_iterator_serves_a_backward_operator),
              FAC_TEST(powers_at_zero_have_finite_gradients))
