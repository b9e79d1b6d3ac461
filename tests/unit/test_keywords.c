/* Keywords: by name and by position, zero as zero, two names of one argument, and slips, which are errors that name it. */
#include "support/support.h"
#include <facula/facula.h>

static fac_tensor *matrix(void) { return fac_reshape(fac_arange(6, .dtype = FAC_F32), FAC_INTS(2, 3)); }

static void keywords_go_by_name_and_by_position(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix(), *columns = fac_tensor_of(3, 5, 7), *rows = fac_tensor_of(3, 12);
    assert_true(fac_equal(fac_sum(x, 0), columns) && fac_equal(fac_sum(x, .dim = 0), columns));
    assert_true(fac_equal(fac_sum(x, 1), rows) && fac_equal(fac_sum(x, -1), rows));
    assert_true(fac_equal(fac_sum(x, .dims = FAC_INTS(0)), columns));
    assert_true(fac_item(fac_sum(x)) == 15 && fac_item(fac_sum(x, .dims = FAC_INTS(0, 1))) == 15);
    assert_int_equal(fac_tensor_ndim(fac_sum(x, 0, true)), 2);
    assert_int_equal(fac_tensor_ndim(fac_sum(x, 0, .keepdim = true)), 2);
    assert_int_equal(fac_tensor_dtype(fac_sum(x, .dtype = FAC_F64, .dim = 0)), FAC_F64);
    assert_int_equal(fac_item_int(fac_argmax(fac_sum(x, 1), 0)), 1);
    fac_tensor *pair = fac_cat(FAC_TENSORS(x, x), 1);
    assert_int_equal(fac_tensor_size(pair, 1), 6);
    assert_no_error();
}

static void keywords_zero_and_false_mean_what_they_say(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(3, 1, 2);
    assert_true(fac_equal(fac_add(x, x, .alpha = 0), x));
    assert_true(fac_equal(fac_topk(x, 2, .largest = false).values, fac_tensor_of(1, 2)));
    assert_true(fac_equal(fac_elu(fac_neg(x), .alpha = 0), fac_tensor_of(0, 0, 0)));
    assert_true(fac_item(fac_var(x, .correction = 0)) < fac_item(fac_var(x)));
    fac_module *m = fac_linear_new(3, 2, false);
    assert_null(fac_module_parameter(m, "bias"));
    fac_error_clear();
    fac_module_release(m);
    assert_no_error();
}

static void keywords_numbers_keep_their_kind(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *i = fac_tensor_from((const int64_t[]){1, 5, 9}, FAC_I64, FAC_INTS(3));
    assert_int_equal(fac_tensor_dtype(fac_clamp(i, .min = 2)), FAC_I64);
    assert_int_equal(fac_tensor_dtype(fac_clamp(i, .min = 2.5)), FAC_F32);
    const int64_t large = (INT64_C(1) << 53) + 1;
    fac_tensor *cut = fac_clamp(i, .min_scalar = FAC_SCALAR(large));
    int64_t got[3];
    assert_ok(fac_tensor_read(cut, FAC_I64, got, 3));
    assert_true(got[0] == large);
    assert_null(fac_clamp(i, .min = 1, .min_scalar = FAC_SCALAR(2)));
    assert_error(FAC_ERR_ARGUMENT, "keywords .min and .min_scalar are two names of one argument");
}

static void keywords_of_windows_are_numbers_or_lists(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(1, 1, 8, 8)), *w = fac_ones(FAC_SHAPE(1, 1, 2, 2));
    assert_int_equal(fac_tensor_size(fac_conv2d(x, w, NULL, .stride = 2), 3), 4);
    assert_int_equal(fac_tensor_size(fac_conv2d(x, w, NULL, 2), 3), 4);
    assert_int_equal(fac_tensor_size(fac_conv2d(x, w, NULL, .strides = FAC_INTS(1, 2)), 2), 7);
    assert_null(fac_conv2d(x, w, NULL, .stride = 2, .strides = FAC_INTS(2, 1)));
    assert_error(FAC_ERR_ARGUMENT, "keywords .stride and .strides are two names of one argument");
    fac_module *m = fac_conv2d_new(1, 1, FAC_INTS(2), 2, .bias = false);
    assert_int_equal(fac_tensor_size(fac_forward(m, x), 2), 4);
    fac_module_release(m);
}

static void keywords_values_too_many_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix();
    assert_null(fac_sum(x, 0, true, FAC_F64));
    assert_error(FAC_ERR_ARGUMENT, "at most 3 arguments may be given by position");
    assert_null(fac_add(x, x, 2));
    assert_error(FAC_ERR_ARGUMENT, "at most 2 arguments");
    assert_null(fac_zeros(FAC_SHAPE(2), FAC_F32));
    assert_error(FAC_ERR_ARGUMENT, "at most 1 arguments");
    assert_null(fac_linear_new(2, 3, true, fac_device_make(FAC_CPU, -1), FAC_F32, 1));
    assert_error(FAC_ERR_ARGUMENT, "at most 5 arguments");
}

/* The second half of what a bare number does not fill shows it. */
static void keywords_bare_numbers_for_lists_and_devices_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix();
    fac_sum_kw sum;
    fac_sum_kw_init(&sum);
    const fac_ints unset = sum.dims;
    for (uintptr_t number = 0; number < 3; number++) {
        sum.dims = fac_ints_of((const int64_t *)number, unset.n);
        assert_null((fac_sum)(x, &sum));
        assert_error(FAC_ERR_ARGUMENT, "keyword .dims takes a list");
        fac_zeros_kw zeros;
        fac_zeros_kw_init(&zeros);
        zeros.device.type = (int32_t)number;
        assert_null((fac_zeros)(FAC_SHAPE(2), &zeros));
        assert_error(FAC_ERR_ARGUMENT, "keyword .device takes a device");
        fac_add_kw add;
        fac_add_kw_init(&add);
        add.alpha_scalar.bits = (int64_t)number;
        assert_null((fac_add_tensor)(x, x, &add));
        assert_error(FAC_ERR_ARGUMENT, "keyword .alpha_scalar takes FAC_SCALAR(x)");
    }
}

static void keywords_of_other_versions_are_taken_or_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix();
    fac_sum_kw kw;
    fac_sum_kw_init(&kw);
    kw.dim = 1;
    kw.kw_size = offsetof(fac_sum_kw, dtype); /* as an older header had it */
    kw.dtype = FAC_F64;                       /* which it does not have */
    assert_int_equal(fac_tensor_dtype((fac_sum)(x, &kw)), FAC_F32);
    assert_true(fac_item((fac_sum)(x, NULL)) == 15);
    kw.kw_size = sizeof kw + 8;
    assert_null((fac_sum)(x, &kw));
    assert_error(FAC_ERR_ARGUMENT, "later version");
    kw.kw_size = 0;
    assert_null((fac_sum)(x, &kw));
    assert_error(FAC_ERR_ARGUMENT, "fac_..._kw_init");
}

static void keywords_nest_and_repeat(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix();
    double total = 0;
    for (int i = 0; i < 2; i++)
        total += fac_item(fac_sum(fac_sum(x, i, .keepdim = true), .dim = 1 - i, .keepdim = false));
    assert_true(total == 30);
}

FAC_TEST_MAIN(FAC_TEST(keywords_go_by_name_and_by_position), FAC_TEST(keywords_zero_and_false_mean_what_they_say),
              FAC_TEST(keywords_numbers_keep_their_kind), FAC_TEST(keywords_of_windows_are_numbers_or_lists),
              FAC_TEST(keywords_values_too_many_are_errors),
              FAC_TEST(keywords_bare_numbers_for_lists_and_devices_are_errors),
              FAC_TEST(keywords_of_other_versions_are_taken_or_refused), FAC_TEST(keywords_nest_and_repeat))
