/* First and second derivatives of reductions, scans and softmax against differences. */
#include "grad_cases.h"

/* A [2, 3] input of range [0.5, 1.5] less its first element there: an exact zero beside five other numbers. */
static fac_tensor *with_zero(fac_tensor *x) {
    double first = 0.5 + fmod(0.137 + 0.6180339887, 1.0);
    return fac_sub(x, fac_tensor_from((const double[]){first, 0, 0, 0, 0, 0}, FAC_F64, FAC_INTS(2, 3)));
}

/* clang-format off */
#define CASES(X) \
    X(sum, 1, "2,3", -1, 1, out[0] = fac_sum(x[0])) \
    X(sum_dim, 1, "2,3", -1, 1, out[0] = fac_sum(x[0], .dim = -1)) \
    X(sum_keep, 1, "2,3,2", -1, 1, out[0] = fac_sum(x[0], .dims = FAC_DIMS(0, 2), .keepdim = true)) \
    X(sum_all, 1, "2,3", -1, 1, out[0] = fac_sum_all(x[0])) \
    X(nansum, 1, "2,3", -1, 1, out[0] = fac_nansum(x[0], .dim = 0)) \
    X(mean, 1, "2,3", -1, 1, out[0] = fac_mean(x[0], .dim = 1)) \
    X(mean_all, 1, "2,3", -1, 1, out[0] = fac_mean_all(x[0])) \
    X(prod, 1, "2,3", 0.5, 1.5, out[0] = fac_prod(x[0])) \
    X(prod_dim, 1, "2,3", 0.5, 1.5, out[0] = fac_prod_dim(x[0], 1, .keepdim = true)) \
    X(prod_zero, 1, "2,3", 0.5, 1.5, out[0] = fac_prod(with_zero(x[0]))) \
    X(prod_dim_zero, 1, "2,3", 0.5, 1.5, out[0] = fac_prod_dim(with_zero(x[0]), -1)) \
    X(amax, 1, "2,3", -1, 1, out[0] = fac_amax(x[0], .dim = 1)) \
    X(amin, 1, "2,3", -1, 1, out[0] = fac_amin(x[0])) \
    X(max, 1, "2,3", -1, 1, out[0] = fac_max(x[0])) \
    X(min, 1, "2,3", -1, 1, out[0] = fac_min(x[0])) \
    X(max_dim, 1, "2,3", -1, 1, out[0] = fac_max_dim(x[0], 0).values) \
    X(min_dim, 1, "2,3", -1, 1, out[0] = fac_min_dim(x[0], 1, .keepdim = true).values) \
    X(max_other, 1, "2,3;3", -1, 1, out[0] = fac_max_other(x[0], x[1])) \
    X(aminmax, 2, "2,3", -1, 1, fac_aminmax_result r = fac_aminmax(x[0], .dim = 1); out[0] = r.min; out[1] = r.max) \
    X(var, 1, "3,4", -1, 1, out[0] = fac_var(x[0])) \
    X(std, 1, "3,4", -1, 1, out[0] = fac_std(x[0], .dim = 0)) \
    X(var_biased, 1, "3,4", -1, 1, out[0] = fac_var(x[0], .dim = 1, .correction = 0)) \
    X(var_mean, 2, "3,4", -1, 1, fac_var_mean_result r = fac_var_mean(x[0], .dim = 1); out[0] = r.result0; out[1] = r.result1) \
    X(std_mean, 2, "3,4", -1, 1, fac_std_mean_result r = fac_std_mean(x[0]); out[0] = r.result0; out[1] = r.result1) \
    X(norm, 1, "2,3", 0.3, 1, out[0] = fac_norm(x[0])) \
    X(norm_1, 1, "2,3", 0.3, 1, out[0] = fac_norm(x[0], .p = 1)) \
    X(norm_3, 1, "2,3", 0.3, 1, out[0] = fac_norm(x[0], .p = 3)) \
    X(norm_15, 1, "2,3", 0.3, 1, out[0] = fac_norm(x[0], .p = 1.5)) \
    X(norm_half, 1, "2,3", 0.3, 1, out[0] = fac_norm(x[0], .p = 0.5)) \
    X(norm_minus, 1, "2,3", 0.3, 1, out[0] = fac_norm(x[0], .p = -2)) \
    X(norm_inf, 1, "2,3", -1, 1, out[0] = fac_linalg_vector_norm(x[0], .ord = INFINITY, .dim = 1)) \
    X(norm_zero, 1, "2,3", 0.3, 1, out[0] = fac_linalg_vector_norm(x[0], .ord = 0)) \
    X(logsumexp, 1, "2,3", -1, 1, out[0] = fac_logsumexp(x[0], FAC_DIMS(1))) \
    X(cumsum, 1, "2,4", -1, 1, out[0] = fac_cumsum(x[0], 1)) \
    X(cumprod, 1, "2,4", 0.5, 1.5, out[0] = fac_cumprod(x[0], 0)) \
    X(cumprod_zero, 1, "2,3", 0.5, 1.5, out[0] = fac_cumprod(with_zero(x[0]), 1)) \
    X(cummax, 1, "2,4", -1, 1, out[0] = fac_cummax(x[0], 1).values) \
    X(cummin, 1, "2,4", -1, 1, out[0] = fac_cummin(x[0], 0).values) \
    X(logcumsumexp, 1, "2,4", -1, 1, out[0] = fac_logcumsumexp(x[0], 1)) \
    X(softmax, 1, "2,4", -1, 1, out[0] = fac_softmax(x[0], 1)) \
    X(softmax_0, 1, "3,5", -1, 1, out[0] = fac_softmax(x[0], 0)) \
    X(log_softmax, 1, "2,4", -1, 1, out[0] = fac_log_softmax(x[0], -1)) \
    X(log_softmax_0, 1, "3,5", -1, 1, out[0] = fac_log_softmax(x[0], 0))
/* clang-format on */

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void reduction_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
}
static void reduction_second_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

static void gradient_is(fac_tensor *x, const float *want, size_t n) {
    float got[8];
    assert_no_error();
    assert_non_null(fac_grad_of(x));
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, got, n));
    for (size_t i = 0; i < n; i++) assert_near(got[i], want[i], 1e-6);
}

static void equal_maxima_share_the_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(3, 1, 3, 2), true);
    assert_ok(fac_backward(fac_max(x)));
    gradient_is(x, (const float[]){0.5f, 0, 0.5f, 0}, 4);
}

static void max_along_a_dim_gives_the_first_of_equals_all(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(3, 1, 3, 2), true);
    assert_ok(fac_backward(fac_max_dim(x, 0).values));
    gradient_is(x, (const float[]){1, 0, 0, 0}, 4);
}

/* d prod / dx_i is the product of the others, whatever is zero. */
static void product_gradient_with_two_zeros_is_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(0, 5, 0, 2), true);
    assert_ok(fac_backward(fac_prod(x)));
    gradient_is(x, (const float[]){0, 0, 0, 0}, 4);
}

static void norm_gradient_at_zero_is_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(0, 0), true);
    assert_ok(fac_backward(fac_norm(x)));
    gradient_is(x, (const float[]){0, 0}, 2);
}

FAC_TEST_MAIN(FAC_TEST(reduction_gradients_agree_with_differences),
              FAC_TEST(reduction_second_gradients_agree_with_differences), FAC_TEST(equal_maxima_share_the_gradient),
              FAC_TEST(max_along_a_dim_gives_the_first_of_equals_all),
              FAC_TEST(product_gradient_with_two_zeros_is_zero), FAC_TEST(norm_gradient_at_zero_is_zero))
