/* A number where a function requires a list of integers: N times where PyTorch has int[N], else a list of one. */
#include "support/support.h"
#include <facula/facula.h>

static void number_for_list_is_repeated_for_windows(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_reshape(fac_arange(32, .dtype = FAC_F32), FAC_INTS(1, 2, 4, 4));
    assert_true(fac_equal(fac_avg_pool2d(x, 2), fac_avg_pool2d(x, FAC_INTS(2, 2))));
    assert_true(fac_equal(fac_max_pool2d(x, 3, .stride = 1), fac_max_pool2d(x, FAC_INTS(3, 3), .stride = 1)));
    assert_false(fac_equal(fac_avg_pool2d(x, 2), fac_avg_pool2d(x, FAC_INTS(2, 1), .stride = 2)));
    fac_module *m = fac_conv2d_new(2, 8, 3, .bias = false);
    fac_tensor *w = fac_module_parameter(m, "weight");
    assert_int_equal(fac_tensor_size(w, 2), 3);
    assert_int_equal(fac_tensor_size(w, 3), 3);
    fac_module_release(m);
    assert_no_error();
}

static void number_for_list_is_a_list_of_one(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t n = 3;
    fac_tensor *x = fac_arange(3, .dtype = FAC_F32);
    assert_true(fac_equal(fac_flip(x, 0), fac_tensor_of(2, 1, 0)));
    assert_true(fac_equal(fac_zeros(n), fac_zeros(FAC_SHAPE(3))));
    assert_int_equal(fac_tensor_ndim(fac_reshape(fac_ones(FAC_SHAPE(2, 3)), -1)), 1);
    assert_int_equal(fac_tensor_ndim(fac_ones(FAC_SHAPE())), 0);
    fac_module *norm = fac_layer_norm_new(3);
    assert_int_equal(fac_tensor_ndim(fac_module_parameter(norm, "weight")), 1);
    fac_module_release(norm);
    assert_no_error();
}

static void number_for_list_is_evaluated_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int n = 2;
    assert_int_equal(fac_tensor_size(fac_ones(n++), 0), 2);
    assert_int_equal(n, 3);
}

FAC_TEST_MAIN(FAC_TEST(number_for_list_is_repeated_for_windows), FAC_TEST(number_for_list_is_a_list_of_one),
              FAC_TEST(number_for_list_is_evaluated_once))
