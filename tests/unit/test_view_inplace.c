/* Views in place: the tensor's own sizes change, and its history with them. Gradients are those of PyTorch 2.15. */
#include "autograd_test.h"

static fac_tensor *matrix(fac_tensor *six) { return fac_view(six, FAC_INTS(2, 3)); }

static void assert_sizes(const fac_tensor *t, fac_ints sizes) {
    const fac_ints own = fac_tensor_sizes(t);
    assert_int_equal(own.n, sizes.n);
    for (size_t i = 0; i < sizes.n; i++) assert_int_equal(own.v[i], sizes.v[i]);
}

static void view_inplace_changes_the_tensor_itself_and_counts_its_version(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_arange(fac_scalar_i_(6)), *first;
    assert_ptr_equal(fac_unsqueeze_(t, 0), t);
    assert_sizes(t, FAC_INTS(1, 6));
    assert_int_equal(fac_tensor_version(t), 1);
    assert_non_null(fac_squeeze_(t));
    assert_sizes(t, FAC_INTS(6));
    assert_non_null(fac_as_strided_(t, FAC_INTS(2, 2), FAC_INTS(3, 1), .storage_offset = 1));
    assert_values(t, 1, 2, 4, 5);
    first = fac_select(t, 0, 1);
    assert_non_null(fac_t_(t));
    assert_values(t, 1, 4, 2, 5);
    assert_values(first, 4, 5);
    assert_int_equal(fac_tensor_version(t), 4);
    assert_null(fac_transpose_(t, 0, 2));
    assert_error(FAC_ERR_INDEX, "Dimension out of range");
    assert_int_equal(fac_tensor_version(t), 4);
}

static void view_inplace_of_a_result_has_the_gradient_of_the_view(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4, 5, 6)), *y = fac_mul(matrix(x), 2.0), *row = fac_narrow(y, 0, 0, 1);
    assert_non_null(fac_t_(y));
    fac_tensor *weights = fac_view(fac_arange(fac_scalar_i_(6)), FAC_INTS(3, 2));
    assert_ok(fac_backward(fac_add(fac_sum(row), fac_sum(fac_mul(y, weights)))));
    assert_values(fac_grad_of(x), 2, 6, 10, 2, 6, 10);
}

static void view_inplace_of_a_view_is_a_view_of_the_same_base(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4, 5, 6)), *y = fac_mul(matrix(x), 2.0), *v = fac_narrow(y, 1, 0, 2);
    assert_non_null(fac_t_(v));
    assert_ptr_equal(fac_view_base(v), y);
    fac_mul_(v, fac_view(vector(DOUBLES(1, 2, 3, 4)), FAC_INTS(2, 2)));
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 2, 6, 2, 4, 8, 2);
}

static void view_inplace_of_a_base_leaves_its_views_where_they_were(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4, 5, 6)), *y = fac_mul(matrix(x), 2.0), *row = fac_select(y, 0, 0);
    assert_non_null(fac_t_(y));
    fac_mul_(row, 3.0); /* the first row of x, which is now the first column of y */
    fac_tensor *weights = fac_view(fac_arange(fac_scalar_i_(6)), FAC_INTS(3, 2));
    assert_ok(fac_backward(fac_sum(fac_mul(y, weights))));
    assert_values(fac_grad_of(x), 0, 12, 24, 2, 6, 10);
}

static void view_inplace_refuses_what_pytorch_refuses(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *y = fac_mul(x, 1.0), *hidden;
    assert_null(fac_unsqueeze_(x, 0));
    assert_error(FAC_ERR_AUTOGRAD, "a leaf Variable that requires grad is being used in an in-place operation.");
    assert_null(fac_squeeze_(fac_narrow(x, 0, 0, 2)));
    assert_error(FAC_ERR_AUTOGRAD,
                 "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    assert_null(fac_unsqueeze_(fac_unbind(y).v[0], 0));
    assert_error(FAC_ERR_AUTOGRAD, "Output 0 of UnbindBackward0 is a view and is being modified inplace.");
    {
        FAC_NO_GRAD(g);
        hidden = fac_narrow(x, 0, 0, 2);
        assert_non_null(fac_unsqueeze_(x, 0));
    }
    assert_sizes(x, FAC_INTS(1, 4));
    assert_null(fac_unsqueeze_(hidden, 0));
    assert_error(FAC_ERR_AUTOGRAD, "A view was created in no_grad mode and is being modified inplace");
}

static void detach_inplace_ends_the_history_and_refuses_views(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 2.0);
    assert_null(fac_detach_(fac_narrow(y, 0, 0, 1)));
    assert_error(FAC_ERR_AUTOGRAD, "Can't detach views in-place. Use detach() instead.");
    assert_ptr_equal(fac_detach_(y), y);
    assert_false(fac_requires_grad(y));
    assert_true(fac_is_leaf(y));
    assert_int_equal(fac_tensor_version(y), 0);
    assert_non_null(fac_detach_(x));
    assert_false(fac_requires_grad(x));
}

static fac_status change(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4, 5, 6)), *y = fac_mul(matrix(x), 2.0), *v = fac_narrow(y, 1, 0, 2);
    fac_t_(v);
    fac_mul_(v, 2.0);
    fac_t_(y);
    fac_mul_(v, 2.0);
    return fac_error() ? fac_error() : fac_backward(fac_sum(y));
}

static void view_inplace_survives_every_failing_allocation(void **state) {
    (void)state;
    support_fail_each_allocation(change, NULL);
}

FAC_TEST_MAIN(FAC_TEST(view_inplace_changes_the_tensor_itself_and_counts_its_version),
              FAC_TEST(view_inplace_of_a_result_has_the_gradient_of_the_view),
              FAC_TEST(view_inplace_of_a_view_is_a_view_of_the_same_base),
              FAC_TEST(view_inplace_of_a_base_leaves_its_views_where_they_were),
              FAC_TEST(view_inplace_refuses_what_pytorch_refuses),
              FAC_TEST(detach_inplace_ends_the_history_and_refuses_views),
              FAC_TEST(view_inplace_survives_every_failing_allocation))
