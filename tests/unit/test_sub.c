/* Every form of subtraction, and its factor alpha: each result against numbers worked out by hand. There is no kernel for sparse
   tensors. */
#include "support/support.h"
#include <facula/facula.h>

static void assert_numbers(fac_tensor *t, fac_dtype d, const double *want, size_t n) {
    double got[8];
    assert_no_error();
    assert_int_equal(fac_tensor_dtype(t), d);
    assert_int_equal(fac_tensor_numel(t), n);
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

static fac_tensor *of(fac_dtype d) { return fac_to_dtype(fac_tensor_of(5, 7, 9), d); }

static void S108_sub_of_tensors_takes_alpha_times_the_other(void **state) {
    (void)state;
    for (int d = FAC_U8; d < FAC_C64; d++) {
        FAC_SCOPE(s);
        const fac_dtype dtype = (fac_dtype)d;
        fac_tensor *a = of(dtype), *b = fac_to_dtype(fac_tensor_of(1, 2, 3), dtype);
        assert_numbers(fac_sub(a, b), dtype, (double[]){4, 5, 6}, 3);
        assert_numbers(fac_sub(a, b, .alpha = 3), dtype, (double[]){2, 1, 0}, 3);
        assert_numbers(fac_sub(a, b, .alpha = 0), dtype, (double[]){5, 7, 9}, 3);
        assert_numbers(fac_subtract(a, b, .alpha = 2), dtype, (double[]){3, 3, 3}, 3);
        assert_numbers(fac_rsub(b, a, .alpha = 2), dtype, (double[]){3, 3, 3}, 3);
        if (!fac_dtype_is_floating(dtype)) continue;
        assert_numbers(fac_sub(a, b, .alpha = -1), dtype, (double[]){6, 9, 12}, 3);
        assert_numbers(fac_sub(a, b, .alpha = 0.5), dtype, (double[]){4.5, 6, 7.5}, 3);
    }
}

static void S108_sub_of_a_number_takes_alpha_too(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = of(FAC_F32);
    assert_numbers(fac_sub(a, 2), FAC_F32, (double[]){3, 5, 7}, 3);
    assert_numbers(fac_sub(a, 2, .alpha = 2), FAC_F32, (double[]){1, 3, 5}, 3);
    assert_numbers(fac_rsub(a, 10), FAC_F32, (double[]){5, 3, 1}, 3);
    assert_numbers(fac_sub(of(FAC_I32), 0.5), FAC_F32, (double[]){4.5, 6.5, 8.5}, 3);
}

static void S108_sub_out_writes_to_the_tensor_given_and_returns_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = of(FAC_F32), *b = fac_tensor_of(1, 2, 3), *out = fac_empty(0),
               *wide = fac_empty(3, .dtype = FAC_F64);
    const void *data = fac_tensor_data(wide);
    assert_ptr_equal(fac_sub_out(out, a, b, .alpha = 2), out);
    assert_numbers(out, FAC_F32, (double[]){3, 3, 3}, 3);
    assert_ptr_equal(fac_sub_out(wide, a, b), wide);
    assert_numbers(wide, FAC_F64, (double[]){4, 5, 6}, 3);
    assert_ptr_equal(fac_tensor_data(wide), data);
    assert_ptr_equal(fac_sub_out(a, a, b), a); /* one of the operands */
    assert_numbers(a, FAC_F32, (double[]){4, 5, 6}, 3);
    assert_null(fac_sub_out(fac_empty(3, .dtype = FAC_I32), a, b));
    assert_error(FAC_ERR_DTYPE, "int32");
}

static void S108_sub_in_place_keeps_its_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = of(FAC_F32), *i = of(FAC_I64);
    assert_ptr_equal(fac_sub_(a, fac_tensor_of(1, 2, 3), .alpha = 2), a);
    assert_numbers(a, FAC_F32, (double[]){3, 3, 3}, 3);
    assert_ptr_equal(fac_sub_(i, 4), i);
    assert_numbers(i, FAC_I64, (double[]){1, 3, 5}, 3);
    assert_null(fac_sub_(i, fac_tensor_of(1, 2, 3)));
    assert_error(FAC_ERR_DTYPE, "can't be cast");
    assert_numbers(i, FAC_I64, (double[]){1, 3, 5}, 3);
}

static void S108_sub_broadcasts_and_promotes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *column = fac_reshape(fac_tensor_of(10, 20), FAC_SHAPE(2, 1)), *row = fac_to_dtype(of(FAC_F32), FAC_I16);
    assert_numbers(fac_sub(column, row, .alpha = 2), FAC_F32, (double[]){0, -4, -8, 10, 6, 2}, 6);
    assert_numbers(fac_sub(row, row), FAC_I16, (double[]){0, 0, 0}, 3);
}

static void S108_sub_sends_gradients_with_alpha(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_set_requires_grad(of(FAC_F32), true), *b = fac_set_requires_grad(fac_tensor_of(2), true);
    assert_ok(fac_backward(fac_sum(fac_sub(a, b, .alpha = 3))));
    assert_numbers(fac_grad_of(a), FAC_F32, (double[]){1, 1, 1}, 3);
    assert_numbers(fac_grad_of(b), FAC_F32, (double[]){-9}, 1);
}

static void S108_sub_refuses_truth_values_and_factors_that_do_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *flags = fac_ones(FAC_SHAPE(3), .dtype = FAC_BOOL), *whole = of(FAC_I32), *out = of(FAC_F32);
    assert_null(fac_sub(flags, flags));
    assert_error(FAC_ERR_DTYPE, "bool");
    assert_null(fac_sub(whole, whole, .alpha = 0.5));
    assert_error(FAC_ERR_DTYPE, "alpha");
    assert_null(fac_sub_out(out, out, fac_tensor_of(1, 2)));
    assert_error(FAC_ERR_SHAPE, "must match");
    assert_numbers(out, FAC_F32, (double[]){5, 7, 9}, 3);
}

FAC_TEST_MAIN(FAC_TEST(S108_sub_of_tensors_takes_alpha_times_the_other), FAC_TEST(S108_sub_of_a_number_takes_alpha_too),
              FAC_TEST(S108_sub_out_writes_to_the_tensor_given_and_returns_it),
              FAC_TEST(S108_sub_in_place_keeps_its_dtype), FAC_TEST(S108_sub_broadcasts_and_promotes),
              FAC_TEST(S108_sub_sends_gradients_with_alpha),
              FAC_TEST(S108_sub_refuses_truth_values_and_factors_that_do_not_fit))
