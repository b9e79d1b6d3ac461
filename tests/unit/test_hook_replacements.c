/* Hooks that put other tensors in the place of gradients: exchanged ones, none, and ones of another size, dtype or device. */
#include "autograd_test.h"

static void exchange(fac_tensor **v) {
    fac_tensor *first = v[0];
    v[0] = v[1];
    v[1] = first;
}

static fac_status exchange_before(void *context, fac_tensor **grads, size_t n) {
    (void)context;
    assert_int_equal(n, 2);
    exchange(grads);
    return FAC_OK;
}

static fac_status exchange_after(void *context, fac_tensor **grads, size_t n, fac_tensor *const *outs, size_t n_outs) {
    (void)context, (void)outs, (void)n_outs;
    assert_int_equal(n, 2);
    exchange(grads);
    return FAC_OK;
}

static void hooks_may_exchange_gradients_after_a_node(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(2, 3)), *y = leaf(DOUBLES(5, 7));
    fac_tensor *z = fac_mul(fac_mul(x, 1.0), fac_mul(y, 1.0));
    assert_non_null(fac_node_register_hook(fac_grad_fn(z), exchange_after, NULL));
    assert_ok(fac_backward(fac_sum(z)));
    assert_values(fac_grad_of(x), 2, 3);
    assert_values(fac_grad_of(y), 5, 7);
}

static void hooks_may_exchange_gradients_before_a_node(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 1, 1, 1));
    fac_tensors halves = fac_split(fac_mul(x, 1.0), 2);
    assert_non_null(fac_node_register_pre_hook(fac_grad_fn(halves.v[0]), exchange_before, NULL));
    assert_ok(fac_backward(fac_add(fac_sum(fac_mul(halves.v[0], 2.0)), fac_sum(fac_mul(halves.v[1], 3.0)))));
    assert_values(fac_grad_of(x), 3, 3, 2, 2);
}

/* ---- none -------------------------------------------------------------------------------------------------------------- */

static fac_status take_all(void *context, fac_tensor **grads, size_t n) {
    (void)context;
    for (size_t i = 0; i < n; i++) grads[i] = NULL;
    return FAC_OK;
}

static void hooks_that_take_every_gradient_stop_the_pass_there(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = leaf(DOUBLES(3, 4)), *z = fac_mul(x, x);
    assert_non_null(fac_node_register_pre_hook(fac_grad_fn(z), take_all, NULL));
    assert_ok(fac_backward(fac_sum(fac_mul(z, y))));
    assert_null(fac_grad_of(x));
    assert_values(fac_grad_of(y), 1, 4);
}

static void hooks_that_take_the_gradient_of_a_changed_base_stop_the_pass_there(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *z = fac_mul(x, 1.0);
    assert_non_null(fac_mul_(fac_select(z, 0, 0), 2.0));
    assert_string_equal(fac_node_name(fac_grad_fn(z)), "CopySlices");
    assert_non_null(fac_node_register_pre_hook(fac_grad_fn(z), take_all, NULL));
    assert_ok(fac_backward(fac_sum(z)));
    assert_null(fac_grad_of(x));
}

/* ---- of another size, dtype, device ------------------------------------------------------------------------------------ */

static fac_tensor *five(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    return fac_ones(FAC_INTS(5), .dtype = FAC_F64);
}
static fac_tensor *rows(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    return fac_ones(FAC_INTS(3, 2), .dtype = FAC_F64);
}
static fac_tensor *integers(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    return fac_ones(FAC_INTS(2), .dtype = FAC_I32);
}
static fac_tensor *meta(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    return fac_ones(FAC_INTS(2), .dtype = FAC_F64, .device = fac_device_make(FAC_META, -1));
}

/* With the hook on a leaf, on what was computed from it, and on what keeps its gradient. */
static void assert_refused(fac_grad_hook hook, fac_status code, const char *text) {
    for (int place = 0; place < 3; place++) {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 3.0);
        if (place == 2) assert_ok(fac_retain_grad(y));
        assert_non_null(fac_register_hook(place ? y : x, hook, NULL));
        assert_int_equal(fac_backward(fac_sum(y)), code);
        assert_error(code, text);
        assert_null(fac_grad_of(x));
        assert_null(fac_grad_of(y));
    }
}

static void hooks_may_not_change_the_size_or_the_device_of_a_gradient(void **state) {
    (void)state;
    assert_refused(five, FAC_ERR_SHAPE, "hook returned an invalid gradient at index 0 - got [5]");
    assert_refused(meta, FAC_ERR_DEVICE,
                   "hook returned an invalid gradient at index 0 - expected device cpu but got meta");
}

/* As what a node returns: summed to the size, cast to the dtype. */
static void hooks_replacements_are_fitted_to_a_leaf(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = leaf(DOUBLES(3, 4));
    assert_non_null(fac_register_hook(x, rows, NULL));
    assert_non_null(fac_register_hook(y, integers, NULL));
    assert_ok(fac_backward(fac_sum(fac_mul(x, y))));
    assert_values(fac_grad_of(x), 3, 3);
    assert_values(fac_grad_of(y), 1, 1);
    assert_int_equal(fac_tensor_ndim(fac_grad_of(x)), 1);
    assert_int_equal(fac_tensor_dtype(fac_grad_of(y)), FAC_F64);
}

static fac_status five_after(void *context, fac_tensor **grads, size_t n, fac_tensor *const *outs, size_t n_outs) {
    (void)n, (void)outs, (void)n_outs;
    grads[0] = five(context, NULL);
    return FAC_OK;
}

static void hooks_after_a_node_may_not_change_the_size_of_a_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, x);
    assert_non_null(fac_node_register_hook(fac_grad_fn(y), five_after, NULL));
    assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "got [5]");
    assert_null(fac_grad_of(x));
}

FAC_TEST_MAIN(FAC_TEST(hooks_may_exchange_gradients_after_a_node), FAC_TEST(hooks_may_exchange_gradients_before_a_node),
              FAC_TEST(hooks_that_take_every_gradient_stop_the_pass_there),
              FAC_TEST(hooks_that_take_the_gradient_of_a_changed_base_stop_the_pass_there),
              FAC_TEST(hooks_may_not_change_the_size_or_the_device_of_a_gradient),
              FAC_TEST(hooks_replacements_are_fitted_to_a_leaf),
              FAC_TEST(hooks_after_a_node_may_not_change_the_size_of_a_gradient))
