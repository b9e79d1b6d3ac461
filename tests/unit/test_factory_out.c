/* Factories into given tensors: what is written is what the function gives, in the dtype of the tensor. */
#include "autograd_test.h"

static void factory_out_takes_the_dtype_of_the_tensor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *d = fac_empty(FAC_INTS(3), .dtype = FAC_F64), *i = fac_empty(FAC_INTS(4), .dtype = FAC_I64);
    assert_ptr_equal(fac_ones_out(d, FAC_INTS(3)), d);
    assert_values(d, 1, 1, 1);
    assert_non_null(fac_full_out(d, FAC_INTS(3), fac_scalar_f_(2.5)));
    assert_values(d, 2.5, 2.5, 2.5);
    assert_non_null(fac_arange_step_out(i, fac_scalar_i_(1), fac_scalar_i_(9), fac_scalar_i_(2)));
    assert_values(i, 1, 3, 5, 7);
    assert_int_equal(fac_tensor_dtype(i), FAC_I64);
    assert_non_null(fac_linspace_out(d, fac_scalar_i_(0), fac_scalar_i_(1), 3));
    assert_values(d, 0, 0.5, 1);
    assert_int_equal(fac_tensor_version(d), 3);
}

static void factory_out_resizes_an_empty_tensor_and_keeps_gaps(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *none = fac_empty(FAC_INTS(0)), *whole = fac_ones(FAC_INTS(2, 4), .dtype = FAC_F64);
    assert_non_null(fac_eye_m_out(none, 2, 3));
    assert_values(none, 1, 0, 0, 0, 1, 0);
    assert_non_null(fac_zeros_out(fac_slice(whole, 1, .step = 2), FAC_INTS(2, 2)));
    assert_values(whole, 0, 1, 0, 1, 0, 1, 0, 1);
}

static void factory_out_draws_what_the_function_draws(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *out = fac_empty(FAC_INTS(100));
    fac_manual_seed(5);
    fac_tensor *expected = fac_randn(FAC_INTS(100));
    fac_manual_seed(5);
    assert_non_null(fac_randn_out(out, FAC_INTS(100)));
    assert_true(fac_equal(out, expected));
}

static void factory_out_refuses_before_it_writes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *i = fac_ones(FAC_INTS(2), .dtype = FAC_I64);
    assert_null(fac_zeros_out(x, FAC_INTS(2)));
    assert_error(FAC_ERR_AUTOGRAD, "functions with out=... arguments don't support automatic differentiation");
    assert_values(x, 1, 2);
    assert_null(fac_rand_out(i, FAC_INTS(2)));
    assert_int_equal(fac_error(), FAC_ERR_DTYPE);
    fac_error_clear();
    assert_values(i, 1, 1);
}

FAC_TEST_MAIN(FAC_TEST(factory_out_takes_the_dtype_of_the_tensor),
              FAC_TEST(factory_out_resizes_an_empty_tensor_and_keeps_gaps),
              FAC_TEST(factory_out_draws_what_the_function_draws), FAC_TEST(factory_out_refuses_before_it_writes))
