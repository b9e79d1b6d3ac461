/* Conversions by `to`: what is asked for changes and nothing else does; where nothing would change the result is the tensor itself. On
   devices: tests/cuda/test_cuda_to.c. */
#include "support/support.h"
#include <facula/facula.h>

static const fac_device cpu = {FAC_CPU, 0};

static void assert_numbers(fac_tensor *t, const double *want, size_t n) {
    double got[8];
    assert_no_error();
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

static void S021_a_tensor_of_every_dtype_becomes_one_of_every_other(void **state) {
    (void)state;
    const double numbers[] = {0, 1, 2, 100}, as_bool[] = {0, 1, 1, 1};
    for (int from = 1; from < FAC_DTYPE_COUNT; from++)
        for (int to = 1; to < FAC_DTYPE_COUNT; to++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_tensor_from(numbers, FAC_F64, FAC_SHAPE(2, 2)), (fac_dtype)from);
            fac_tensor *y = fac_to_dtype(x, (fac_dtype)to);
            assert_no_error();
            assert_int_equal(fac_tensor_dtype(y), to);
            assert_int_equal(fac_tensor_size(y, 0), 2);
            assert_true(from == to ? y == x : !fac_is_alias_of(x, y));
            assert_true(fac_device_equal(fac_tensor_device(y), fac_tensor_device(x)));
            const double *want = from == FAC_BOOL || to == FAC_BOOL ? as_bool : numbers;
            assert_numbers(fac_real(fac_to_dtype(y, FAC_C128)), want, 4);
            assert_numbers(fac_imag(fac_to_dtype(y, FAC_C128)), (double[]){0, 0, 0, 0}, 4);
        }
}

/* x.float(), x.double(), x.half(), x.long() of PyTorch. */
static void S021_named_conversions_are_dtypes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from((const double[]){1.75, -2.5}, FAC_F64, FAC_SHAPE(2));
    assert_ptr_equal(fac_to_dtype(x, FAC_F64), x);
    assert_numbers(fac_to_dtype(x, FAC_F32), (double[]){1.75, -2.5}, 2);
    assert_numbers(fac_to_dtype(x, FAC_F16), (double[]){1.75, -2.5}, 2);
    assert_numbers(fac_to_dtype(x, FAC_I64), (double[]){1, -2}, 2);
    assert_numbers(fac_to_dtype(fac_to_dtype(fac_tensor_of(0.1f), FAC_F64), FAC_F64), (double[]){(double)0.1f}, 1);
}

/* The handle of the tensor, with a reference for the scope and no other change. */
static void assert_itself(fac_tensor *result, fac_tensor *x, int *refs) {
    assert_no_error();
    assert_ptr_equal(result, x);
    assert_int_equal(fac__header(x)->refs, ++*refs);
    assert_int_equal(fac_storage_use_count(fac_tensor_storage(x)), 1);
    assert_int_equal(fac_tensor_version(x), 0);
}

static void S021_to_with_nothing_to_change_is_the_tensor_itself(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(1, 2, 3, 4)), *like = fac_zeros(1);
    assert_no_error();
    assert_non_null(fac_set_requires_grad(x, true));
    int refs = fac__header(x)->refs;
    assert_itself(fac_to(x), x, &refs);
    assert_itself(fac_to_dtype(x, FAC_F32), x, &refs);
    assert_itself(fac_to(x, .dtype = FAC_F32), x, &refs);
    assert_itself(fac_to(x, .device = cpu), x, &refs);
    assert_itself(fac_to(x, .device = fac_device_parse("cpu:0")), x, &refs);
    assert_itself(fac_to(x, .device = fac_device_parse("cpu"), .dtype = FAC_F32, .layout = FAC_STRIDED), x, &refs);
    assert_itself(fac_to_device(x, cpu, FAC_F32), x, &refs);
    assert_itself(fac_to_other(x, like), x, &refs);
    assert_itself(fac_to(x, .memory_format = FAC_PRESERVE), x, &refs);
    assert_itself(fac_to(x, .memory_format = FAC_CONTIGUOUS), x, &refs);
    assert_itself(fac_to(x, .non_blocking = true), x, &refs);
    assert_null(fac_grad_fn(x)); /* still a leaf */
    assert_no_error();
}

static void S021_to_copies_where_a_copy_is_asked_for(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2), *y = fac_to(x, .copy = true), *z = fac_to_dtype(x, FAC_F32, .copy = true);
    assert_no_error();
    assert_false(fac_is_alias_of(x, y) || fac_is_alias_of(x, z));
    assert_non_null(fac_zero_(x));
    assert_numbers(y, (double[]){1, 2}, 2);
    assert_numbers(z, (double[]){1, 2}, 2);
}

static void S021_a_conversion_keeps_the_order_of_dimensions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_permute(fac_zeros(FAC_SHAPE(2, 3, 4)), FAC_INTS(2, 0, 1)), *y = fac_to_dtype(x, FAC_F64);
    fac_tensor *rows = fac_to_dtype(x, FAC_F64, .memory_format = FAC_CONTIGUOUS);
    assert_no_error();
    for (int d = 0; d < 3; d++) assert_int_equal(fac_tensor_stride(y, d), fac_tensor_stride(x, d));
    assert_true(fac_tensor_is_contiguous(rows));
    /* An expanded tensor has no order to keep, but nothing changes unless it is converted. */
    fac_tensor *wide = fac_expand(fac_tensor_of(5), FAC_INTS(3));
    assert_ptr_equal(fac_to_dtype(wide, FAC_F32), wide);
    assert_int_equal(fac_tensor_stride(fac_to_dtype(wide, FAC_F64), 0), 1);
}

static void S012_a_memory_format_reorders_strides_and_keeps_elements(void **state) {
    (void)state;
    const struct {
        fac_memory_format format;
        int64_t sizes[5], strides[5];
        size_t ndim;
    } cases[] = {{FAC_CHANNELS_LAST, {2, 3, 4, 5}, {60, 1, 15, 3}, 4},
                 {FAC_CHANNELS_LAST_3D, {2, 3, 4, 5, 2}, {120, 1, 30, 6, 3}, 5}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(((fac_ints){cases[i].sizes, cases[i].ndim}));
        fac_tensor *y = fac_to(x, .memory_format = cases[i].format), *back = fac_to(y, .memory_format = FAC_CONTIGUOUS);
        fac_tensor *kept[] = {y, fac_clone(y), fac_relu(y), fac_add(y, y), fac_to_dtype(y, FAC_F64), fac_zeros_like(y)};
        assert_no_error();
        assert_true(fac_equal(x, y) && fac_equal(back, x) && fac_tensor_is_contiguous(back));
        assert_ptr_equal(fac_to(y, .memory_format = cases[i].format), y);
        for (size_t k = 0; k < FAC_COUNT(kept); k++)
            for (size_t d = 0; d < cases[i].ndim; d++)
                assert_int_equal(fac_tensor_stride(kept[k], (int64_t)d), cases[i].strides[d]);
        assert_null(fac_to(fac_tensor_of(1), .memory_format = cases[i].format));
        assert_error(FAC_ERR_ARGUMENT, "rank");
    }
}

static void S021_gradients_come_back_in_the_dtype_that_left(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    fac_tensor *y = fac_mul(fac_to_dtype(fac_to_dtype(x, FAC_F64), FAC_F16), 3);
    assert_ok(fac_backward(fac_sum(fac_to_dtype(y, FAC_F32))));
    assert_int_equal(fac_tensor_dtype(fac_grad_of(x)), FAC_F32);
    assert_numbers(fac_grad_of(x), (double[]){3, 3}, 2);
}

static void S021_what_cannot_be_converted_to_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2);
    assert_null(fac_to(x, .layout = FAC_SPARSE_COO));
    assert_error(FAC_ERR_UNSUPPORTED, "strided");
    assert_null(fac_to_dtype(x, (fac_dtype)99));
    assert_error(FAC_ERR_DTYPE, "99");
    assert_null(fac_to(x, .device = fac_device_make(FAC_CPU, 3)));
    assert_error(FAC_ERR_DEVICE, "got 3");
    assert_numbers(x, (double[]){1, 2}, 2);
}

FAC_TEST_MAIN(FAC_TEST(S021_a_tensor_of_every_dtype_becomes_one_of_every_other),
              FAC_TEST(S021_named_conversions_are_dtypes),
              FAC_TEST(S021_to_with_nothing_to_change_is_the_tensor_itself),
              FAC_TEST(S021_to_copies_where_a_copy_is_asked_for),
              FAC_TEST(S021_a_conversion_keeps_the_order_of_dimensions),
              FAC_TEST(S012_a_memory_format_reorders_strides_and_keeps_elements),
              FAC_TEST(S021_gradients_come_back_in_the_dtype_that_left),
              FAC_TEST(S021_what_cannot_be_converted_to_is_refused))
