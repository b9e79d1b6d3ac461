/* Factories, *_like and new_*, equality and resizing. */
#include "difference_cases.h"

/* ---- S-015: factories ---- */

static void S015_factories_take_dtype_device_and_requires_grad(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_zeros(FAC_SHAPE(2, 3));
    assert_int_equal(fac_tensor_dtype(t), FAC_F32);
    assert_int_equal(fac_tensor_version(t), 0);
    assert_values(t, 0, 0, 0, 0, 0, 0);
    t = fac_ones(FAC_SHAPE(2), .dtype = FAC_F64, .requires_grad = true);
    assert_int_equal(fac_tensor_dtype(t), FAC_F64);
    assert_true(fac_requires_grad(t) && fac_is_leaf(t));
    t = fac_empty(FAC_SHAPE(5), .device = fac_device_make(FAC_META, -1));
    assert_int_equal(fac_tensor_device(t).type, FAC_META);
    assert_values(fac_tensor_from((const int32_t[]){7, 8}, FAC_I32, FAC_INTS(2)), 7, 8);
    assert_values(fac_full(FAC_SHAPE(2), 2.5), 2.5, 2.5);
    assert_int_equal(fac_tensor_dtype(fac_full(FAC_SHAPE(2), 3)), FAC_I64);
    assert_int_equal(fac_tensor_dtype(fac_full(FAC_SHAPE(2), (bool)true)), FAC_BOOL);
    assert_int_equal(fac_tensor_numel(fac_rand(FAC_SHAPE(2, 2))), 4);
    assert_int_equal(fac_tensor_numel(fac_randn(FAC_SHAPE())), 1);
}

static void S015_arange_linspace_and_eye(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_int_equal(fac_tensor_dtype(fac_arange(3)), FAC_I64);
    assert_int_equal(fac_tensor_dtype(fac_arange(3.0)), FAC_F32);
    assert_values(fac_arange_step(5, 0, -2), 5, 3, 1);
    assert_values(fac_arange_start(2, 4, .dtype = FAC_F64), 2, 3);
    assert_values(fac_linspace(0, 1, 5), 0, 0.25, 0.5, 0.75, 1);
    assert_values(fac_logspace(0, 2, 3, .dtype = FAC_F64), 1, 10, 100);
    assert_values(fac_eye_m(2, 3), 1, 0, 0, 0, 1, 0);
    assert_values(fac_tril_indices(2, 2), 0, 1, 1, 0, 0, 1);
    assert_null(fac_arange_step(0, 1, 0));
    assert_error(FAC_ERR_ARGUMENT, "step must be nonzero");
    assert_null(fac_arange_step(0, 1, -1));
    assert_error(FAC_ERR_ARGUMENT, "inconsistent with step sign");
    assert_null(fac_arange(NAN));
    assert_error(FAC_ERR_ARGUMENT, "unsupported range");
    assert_null(fac_linspace(0, 1, -1));
    assert_error(FAC_ERR_ARGUMENT, "non-negative");
}

/* ---- S-016, S-017: like another tensor ---- */

static void S016_like_factories_keep_sizes_dtype_and_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_t(fac_zeros(FAC_SHAPE(2, 3), .dtype = FAC_F64));
    fac_tensor *t = fac_ones_like(a);
    assert_int_equal(fac_tensor_dtype(t), FAC_F64);
    assert_int_equal(fac_tensor_stride(t, 0), 1);
    assert_values(t, 1, 1, 1, 1, 1, 1);
    assert_int_equal(fac_tensor_dtype(fac_zeros_like(a, .dtype = FAC_I8)), FAC_I8);
    assert_values(fac_full_like(fac_zeros(FAC_SHAPE(2), .dtype = FAC_I32), 2.9), 2, 2);
    t = fac_rand_like(a);
    assert_true(fac_is_nonzero(fac_all(fac_logical_and(fac_ge(t, 0), fac_lt(t, 1)))));
    assert_false(fac_requires_grad(fac_zeros_like(fac_set_requires_grad(t, true))));
}

static void S017_new_factories_keep_dtype_and_device(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *longs = fac_zeros(FAC_SHAPE(1), .dtype = FAC_I64),
               *meta = fac_empty(FAC_SHAPE(2), .device = fac_device_make(FAC_META, -1));
    assert_values(fac_new_ones(longs, FAC_SHAPE(2)), 1, 1);
    assert_int_equal(fac_tensor_dtype(fac_new_full(longs, FAC_SHAPE(2), 1.5)), FAC_I64);
    assert_int_equal(fac_tensor_device(fac_new_zeros(meta, FAC_SHAPE(3))).type, FAC_META);
    assert_int_equal(fac_tensor_dtype(fac_new_empty(longs, FAC_SHAPE(3), .dtype = FAC_F16)), FAC_F16);
}

static void prints_as(fac_tensor *t, const char *text) {
    char *got = fac_tensor_string(t);
    assert_no_error();
    assert_string_equal(got, text);
    fac_string_free(got);
}

static void E86_new_full_and_new_tensor_print_as_the_example(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_empty(FAC_SHAPE(1)), *x_long = fac_empty(FAC_SHAPE(1), .dtype = FAC_I64);
    prints_as(fac_new_full(x, FAC_SHAPE(3, 2), 0.3),
              "tensor([[0.3000, 0.3000],\n        [0.3000, 0.3000],\n        [0.3000, 0.3000]])");
    prints_as(fac_new_full(x, FAC_SHAPE(3, 2), -5), "tensor([[-5., -5.],\n        [-5., -5.],\n        [-5., -5.]])");
    prints_as(fac_tensor_from((const int64_t[]){1, 2, 3}, fac_tensor_dtype(x_long), FAC_INTS(1, 3)),
              "tensor([[1, 2, 3]])");
}

static void E87_ones_like_and_zeros_like(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_empty(FAC_SHAPE(2, 3));
    prints_as(fac_ones_like(x), "tensor([[1., 1., 1.],\n        [1., 1., 1.]])");
    prints_as(fac_zeros_like(x), "tensor([[0., 0., 0.],\n        [0., 0., 0.]])");
}

/* ---- bad sizes ---- */

static void creation_bad_sizes_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_zeros(FAC_SHAPE((int64_t)1 << 32, (int64_t)1 << 32)));
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_null(fac_zeros(FAC_SHAPE((int64_t)1 << 61), .dtype = FAC_C128));
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_null(fac_zeros(FAC_SHAPE(2, -1)));
    assert_error(FAC_ERR_SHAPE, "negative dimension -1");
    assert_null(fac_empty_strided(FAC_SHAPE(2), FAC_INTS(1, 1)));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_empty(FAC_SHAPE(0, (int64_t)1 << 62, 8)));
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_null(fac_zeros(FAC_SHAPE(1), .pin_memory = 1));
    assert_error(FAC_ERR_UNSUPPORTED, "pin_memory");
}

/* ---- properties ---- */

static void creation_equality_and_closeness(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(1, 2, NAN), *b = fac_tensor_of(1, 2.00001f, NAN);
    assert_false(fac_equal(a, a));
    assert_true(fac_equal(fac_tensor_of(0, 1), fac_tensor_of(-0.0f, 1)));
    assert_values(fac_isclose(a, b), 1, 1, 0);
    assert_true(fac_allclose(a, b, .equal_nan = true));
    assert_false(fac_allclose(a, b));
    assert_true(fac_is_nonzero(fac_tensor_of(-1)));
    assert_false(fac_is_nonzero(fac_tensor_of(1, 2)));
    assert_error(FAC_ERR_ARGUMENT, "more than one value is ambiguous");
}

static void S014_resize_keeps_memory_and_refuses_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_arange(4);
    fac_resize_(a, FAC_SHAPE(2, 2));
    assert_values(a, 0, 1, 2, 3);
    fac_resize_as_(a, fac_zeros(FAC_SHAPE(3)));
    assert_values(a, 0, 1, 2);
    assert_null(fac_resize_(fac_ones(FAC_SHAPE(2), .requires_grad = true), FAC_SHAPE(3)));
    assert_error(FAC_ERR_AUTOGRAD, "");
}

static fac_status make_some(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = fac_eye(3), *b = fac_arange_step(0, 10, 2), *c = fac_triu_indices(3, 3, .dtype = FAC_I32);
    return a && b && c && fac_ones_like(fac_t(a)) ? FAC_OK : fac_error();
}

static void creation_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(make_some, NULL);
}

static void arguments_of_null_are_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_zeros(((fac_ints){NULL, 3})));
    assert_error(FAC_ERR_ARGUMENT, "zeros, argument size: NULL was given");
    assert_null(fac_einsum(NULL, FAC_TENSORS(fac_ones(FAC_SHAPE(2)))));
    assert_error(FAC_ERR_ARGUMENT, "einsum, argument equation: NULL was given");
}

FAC_TEST_MAIN(FAC_TEST(arguments_of_null_are_errors), FAC_TEST(S015_factories_take_dtype_device_and_requires_grad),
              FAC_TEST(S015_arange_linspace_and_eye), FAC_TEST(S016_like_factories_keep_sizes_dtype_and_order),
              FAC_TEST(S017_new_factories_keep_dtype_and_device),
              FAC_TEST(E86_new_full_and_new_tensor_print_as_the_example), FAC_TEST(E87_ones_like_and_zeros_like),
              FAC_TEST(creation_bad_sizes_are_errors), FAC_TEST(creation_equality_and_closeness),
              FAC_TEST(S014_resize_keeps_memory_and_refuses_gradients), FAC_TEST(creation_survives_failing_allocations))
