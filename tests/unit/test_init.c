/* Initial values: the formulas of torch.nn.init, by moments and bounds, and what is exact. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

static double std_of(fac_tensor *t) { return sqrt(fac_item(fac_mean(fac_square(t)))); }
static double most_of(fac_tensor *t) { return fac_item(fac_max(fac_abs(t))); }

static void gains_are_pytorchs(void **state) {
    (void)state;
    assert_true(fac_init_calculate_gain("conv_transpose2d") == 1);
    assert_true(fac_init_calculate_gain("tanh") == 5.0 / 3);
    assert_true(fac_init_calculate_gain("relu") == sqrt(2));
    assert_true(fac_init_calculate_gain("leaky_relu") == sqrt(2 / (1 + 0.01 * 0.01)));
    assert_true(fac_init_calculate_gain("leaky_relu", 0.5) == sqrt(2 / 1.25));
    assert_true(fac_init_calculate_gain("selu") == 0.75);
    assert_true(isnan(fac_init_calculate_gain("gelu")));
    assert_error(FAC_ERR_ARGUMENT, "Unsupported nonlinearity gelu");
}

/* Of [30, 20, 5, 2]: fans 200 and 300. */
static void drawn_values_have_the_deviations_of_their_rules(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_empty(FAC_INTS(30, 20, 5, 2));
    assert_ptr_equal(fac_init_xavier_uniform(t, .gain = 2), t);
    assert_true(most_of(t) <= 2 * sqrt(6.0 / 500) && most_of(t) > 1.95 * sqrt(6.0 / 500));
    assert_non_null(fac_init_xavier_normal(t));
    assert_true(fabs(std_of(t) - sqrt(2.0 / 500)) < 0.05 * sqrt(2.0 / 500));
    assert_non_null(fac_init_kaiming_uniform(t, .mode = "fan_out", .nonlinearity = "relu"));
    assert_true(most_of(t) <= sqrt(6.0 / 300) && most_of(t) > 0.97 * sqrt(6.0 / 300));
    assert_non_null(fac_init_kaiming_normal(t, .a = 1));
    assert_true(fabs(std_of(t) - sqrt(1.0 / 200)) < 0.05 * sqrt(1.0 / 200));
    assert_null(fac_init_kaiming_normal(t, .mode = "fan"));
    assert_error(FAC_ERR_ARGUMENT, "Mode fan not supported");
    assert_null(fac_init_xavier_uniform(fac_ones(FAC_INTS(3))));
    assert_error(FAC_ERR_SHAPE, "2 dimensions or more");
}

static void values_are_written_without_recording(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_set_requires_grad(fac_ones(FAC_INTS(40, 50)), true);
    assert_non_null(fac_init_uniform(t, .a = 2, .b = 3));
    assert_true(fac_item(fac_min(t)) >= 2 && most_of(t) <= 3);
    assert_non_null(fac_init_normal(t, .mean = 5, .std = 0.1));
    assert_true(fabs(fac_item(fac_mean(t)) - 5) < 0.02);
    assert_non_null(fac_init_constant(t, 4));
    assert_true(fac_item(fac_sum(t)) == 8000);
    assert_non_null(fac_init_zeros(t));
    assert_true(most_of(t) == 0);
    assert_non_null(fac_init_ones(t));
    assert_true(fac_is_leaf(t) && fac_requires_grad(t));
}

static void truncated_normals_stay_inside(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_empty(FAC_INTS(100, 100));
    assert_non_null(fac_init_trunc_normal(t));
    assert_true(most_of(t) <= 2);
    /* the variance of a normal within two deviations: 1 - 2 * 2 phi(2) / (2 Phi(2) - 1) */
    assert_true(fabs(std_of(t) - 0.8796) < 0.02);
    assert_non_null(fac_init_trunc_normal(t, .a = 3, .b = 4)); /* by rejection: little of the curve is there */
    assert_true(fac_item(fac_min(t)) >= 3 && most_of(t) <= 4);
    assert_true(fabs(fac_item(fac_mean(t)) - 3.2605) < 0.02); /* (phi(3) - phi(4)) / (Phi(4) - Phi(3)) */
    assert_null(fac_init_trunc_normal(t, .a = 1, .b = 1));
    assert_error(FAC_ERR_ARGUMENT, "a below b");
}

static void identities_leave_what_they_are_given(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_empty(FAC_INTS(3, 4));
    assert_non_null(fac_init_eye(t));
    assert_true(fac_item(fac_sum(t)) == 3 && fac_item(fac_sum(fac_diagonal(t))) == 3);
    fac_tensor *w = fac_empty(FAC_INTS(4, 2, 3, 3)), *x = fac_randn(FAC_INTS(1, 4, 5, 5));
    assert_non_null(fac_init_dirac(w, 2));
    assert_true(fac_allclose(fac_conv2d(x, w, NULL, .padding = 1, .groups = 2), x));
    assert_null(fac_init_dirac(w, 3));
    assert_error(FAC_ERR_ARGUMENT, "divisible by groups");
    assert_null(fac_init_eye(w));
    assert_error(FAC_ERR_SHAPE, "only tensors with 2 dimensions");
}

static void orthogonal_rows_and_sparse_columns(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_empty(FAC_INTS(6, 3, 4)), *flat = fac_reshape(t, FAC_INTS(6, 12));
    assert_non_null(fac_init_orthogonal(t, .gain = 2));
    assert_true(fac_allclose(fac_matmul(flat, fac_t(flat)), fac_mul(fac_eye(6), 4), .atol = 1e-5));
    fac_tensor *high = fac_empty(FAC_INTS(12, 6));
    assert_non_null(fac_init_orthogonal(high));
    assert_true(fac_allclose(fac_matmul(fac_t(high), high), fac_eye(6), .atol = 1e-5));
    assert_non_null(fac_init_sparse(high, 0.2, .std = 3));
    assert_true(fac_item(fac_sum(fac_eq(fac_sum(fac_eq(high, 0), .dim = 0), 3))) == 6); /* 0.2 * 12, rounded up */
    assert_null(fac_init_sparse(high, 2));
    assert_error(FAC_ERR_ARGUMENT, "sparsity should be in [0, 1]");
}

FAC_TEST_MAIN(FAC_TEST(gains_are_pytorchs), FAC_TEST(drawn_values_have_the_deviations_of_their_rules),
              FAC_TEST(values_are_written_without_recording), FAC_TEST(truncated_normals_stay_inside),
              FAC_TEST(identities_leave_what_they_are_given), FAC_TEST(orthogonal_rows_and_sparse_columns))
