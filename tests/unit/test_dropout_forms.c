/* Dropout of features and for self-normalising networks as distributions; fake quantisation against its definition. */
#include "linalg_test.h"

static fac_tensor *integers(fac_ints v) { return fac_tensor_from(v.v, FAC_I64, FAC_INTS((int64_t)v.n)); }

/* Features are dropped whole, with the probability asked for, and the others are scaled. */
static void feature_dropout_drops_whole_features(void **state) {
    (void)state;
    FAC_SCOPE(s);
    enum { N = 200, C = 50, L = 3 };
    fac_manual_seed(5);
    fac_tensor *y = fac_feature_dropout(fac_ones(FAC_INTS(N, C, L), .dtype = FAC_F64), 0.25, true);
    double *v = numbers(y), kept = 0;
    for (int i = 0; i < N * C; i++) {
        assert_true(v[L * i] == 0 || fabs(v[L * i] - 4.0 / 3) < 1e-12);
        assert_true(v[L * i] == v[L * i + 1] && v[L * i] == v[L * i + 2]);
        kept += v[L * i] > 0;
    }
    assert_true(fabs(kept / (N * C) - 0.75) < 5 * sqrt(0.25 * 0.75 / (N * C)));
    free(v);
}

static void alpha_dropout_keeps_mean_and_variance(void **state) {
    (void)state;
    enum { N = 200000 };
    for (int features = 0; features < 2; features++) {
        FAC_SCOPE(s);
        fac_manual_seed(7);
        fac_tensor *x = fac_randn(FAC_INTS(N, 1, 1), .dtype = FAC_F64);
        fac_tensor *y = features ? fac_feature_alpha_dropout(x, 0.3, true) : fac_alpha_dropout(x, 0.3, true);
        assert_true(fabs(fac_item(fac_mean(y))) < 0.02);
        assert_true(fabs(fac_item(fac_var(y)) - 1) < 0.03);
        /* What was dropped has become a limit * (p - 1), where a keeps the variance. */
        const double limit = 1.7580993408473766, dropped = limit * (0.3 - 1) / sqrt((limit * limit * 0.3 + 1) * 0.7);
        const double share = fac_item(fac_sum(fac_lt(fac_abs(fac_sub(y, dropped)), 1e-12))) / N;
        assert_true(fabs(share - 0.3) < 5 * sqrt(0.3 * 0.7 / N));
    }
}

static void dropout_forms_leave_the_input_when_not_training(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 4);
    assert_close(fac_feature_dropout(x, 0.5, false), x);
    assert_close(fac_alpha_dropout(x, 0, true), x);
    assert_close(fac_feature_dropout(x, 1, true), fac_zeros_like(x));
    assert_close(fac_alpha_dropout(x, 1, true), fac_zeros_like(x));
    fac_tensor *y = fac_clone(x);
    assert_ptr_equal(fac_feature_alpha_dropout_(y, 1, true), y);
    assert_close(y, fac_zeros_like(x));
}

/* In place and out of place draw the same noise, and the gradient meets it again. */
static void dropout_forms_agree(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = LEAF(4, 5, 6);
    fac_manual_seed(11);
    fac_tensor *y = fac_feature_dropout(x, 0.5, true);
    fac_manual_seed(11);
    assert_close(fac_feature_dropout_(fac_clone(fac_detach(x)), 0.5, true), y);
    assert_ok(fac_backward(fac_sum(y)));
    assert_close(fac_mul(fac_grad_of(x), x), y);
}

static void dropout_forms_refuse_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_feature_dropout(RANDOM(3), 0.5, true));
    assert_error(FAC_ERR_SHAPE, "at least 2 dimensions");
    assert_null(fac_alpha_dropout(RANDOM(3), 1.5, true));
    assert_error(FAC_ERR_ARGUMENT, "between 0 and 1, but got 1.5");
    assert_null(fac_alpha_dropout(fac_arange(3), 0.5, true));
    assert_error(FAC_ERR_DTYPE, "floating or complex");
}

/* ---- fake quantisation ------------------------------------------------------------------------------------------------------- */

static double quantised(double x, double scale, double zero, double low, double high) {
    return (fmin(high, fmax(low, rint(x / scale) + zero)) - zero) * scale;
}

static void fake_quantize_is_its_definition(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_mul(RANDOM(4, 3, 5), 4), *scale = fac_tensor_of(0.25, 0.5, 0.125);
    fac_tensor *zero = integers(FAC_INTS(3, 0, 7));
    static const double scales[] = {0.25, 0.5, 0.125}, zeros[] = {3, 0, 7};
    double *v = numbers(x), want[60], one[60];
    for (int i = 0; i < 60; i++) {
        const int c = i / 5 % 3;
        want[i] = quantised(v[i], scales[c], zeros[c], 0, 15);
        one[i] = quantised(v[i], 0.25, 3, 0, 15);
    }
    zero = fac_to_dtype(zero, FAC_I32);
    assert_close(fac_fake_quantize_per_channel_affine(x, scale, zero, 1, 0, 15),
                 fac_tensor_from(want, FAC_F64, FAC_INTS(4, 3, 5)));
    assert_close(fac_fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 15),
                 fac_tensor_from(one, FAC_F64, FAC_INTS(4, 3, 5)));
    assert_close(fac_fake_quantize_per_tensor_affine_tensor_qparams(fac_transpose(x, 0, 2), fac_tensor_of(0.25),
                                                                    fac_narrow(zero, 0, 0, 1), 0, 15),
                 fac_transpose(fac_tensor_from(one, FAC_F64, FAC_INTS(4, 3, 5)), 0, 2));
    free(v);
}

/* The gradient passes within the grid, both ends included, and nowhere else. */
static void fake_quantize_passes_gradients_within_the_grid(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(-1, 0, 0.71875f, 3.75f, 3.9375f, INFINITY, NAN), true);
    assert_ok(fac_backward(fac_sum(fac_fake_quantize_per_tensor_affine(x, 0.25, 0, 0, 15))));
    assert_close(fac_grad_of(x), fac_tensor_of(0, 1, 1, 1, 0, 0, 0));
}

static void fake_quantize_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3), *scale = fac_ones(FAC_INTS(3)), *zero = fac_zeros(FAC_INTS(3), .dtype = FAC_I32);
    assert_null(fac_fake_quantize_per_tensor_affine(x, 1, 0, 5, 4));
    assert_error(FAC_ERR_ARGUMENT, "less than or equal to `quant_max`");
    assert_null(fac_fake_quantize_per_tensor_affine(x, 1, 9, 0, 4));
    assert_error(FAC_ERR_ARGUMENT, "`zero_point` must be between");
    assert_null(fac_fake_quantize_per_channel_affine(x, scale, zero, 2, 0, 4));
    assert_error(FAC_ERR_INDEX, "`axis` must be between");
    assert_null(fac_fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 4));
    assert_error(FAC_ERR_SHAPE, "scale must have size [2]");
    assert_null(fac_fake_quantize_per_channel_affine(x, scale, zero, 1, 1, 4));
    assert_error(FAC_ERR_ARGUMENT, "`zero_point` must be between");
}

FAC_TEST_MAIN(FAC_TEST(feature_dropout_drops_whole_features), FAC_TEST(alpha_dropout_keeps_mean_and_variance),
              FAC_TEST(dropout_forms_leave_the_input_when_not_training), FAC_TEST(dropout_forms_agree),
              FAC_TEST(dropout_forms_refuse_bad_arguments), FAC_TEST(fake_quantize_is_its_definition),
              FAC_TEST(fake_quantize_passes_gradients_within_the_grid), FAC_TEST(fake_quantize_refuses_bad_arguments))
