/* Views, changes in place, versions: values and messages as PyTorch 1.13 gives them. */
#include "autograd_test.h"

static fac_tensor *pair(fac_tensor *t, int64_t start) { return fac_narrow(t, 0, start, 2); }

static void S122_change_of_a_saved_tensor_is_found_out(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *z = fac_exp(x), *y = fac_mul(z, z);
    fac_add_(z, 1.0);
    assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD,
                 "one of the variables needed for gradient computation has been modified by an inplace operation: "
                 "[float64 [4]]");
    y = fac_mul(x, z);
    fac_zero_(z);
    fac_zero_(z);
    assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "is at version 3; expected version 1 instead");
    /* exp keeps its result: an output is watched too, and through any view. */
    z = fac_exp(x);
    fac_add_(pair(z, 0), 1.0);
    assert_int_equal(fac_backward(fac_sum(z)), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "which is output 0 of ExpBackward0, is at version 1; expected version 0 instead");
}

static void S122_change_of_what_was_not_saved_is_fine(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *z = fac_mul(x, 3.0);
    fac_mul_(z, 2.0);
    fac_add_(z, x);
    assert_ok(fac_backward(fac_sum(z)));
    assert_values(fac_grad_of(x), 7, 7);
    assert_int_equal(fac_tensor_version(z), 2);
    assert_int_equal(fac_tensor_version(fac_detach(z)), 2);
}

static void inplace_leaves_and_their_views_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4));
    assert_null(fac_mul_(x, 2.0));
    assert_error(FAC_ERR_AUTOGRAD, "a leaf Variable that requires grad is being used in an in-place operation.");
    assert_null(fac_mul_(pair(x, 0), 2.0));
    assert_error(FAC_ERR_AUTOGRAD,
                 "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    assert_values(x, 1, 2, 3, 4);
    {
        FAC_NO_GRAD(g);
        assert_non_null(fac_mul_(x, 2.0));
        assert_non_null(fac_mul_(pair(x, 0), 5.0));
    }
    assert_values(x, 10, 20, 6, 8);
    assert_true(fac_is_leaf(x));
}

static void inplace_views_of_several_and_of_no_grad_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *y = fac_mul(x, 1.0), *v;
    fac_tensors parts = fac_unbind(y);
    assert_null(fac_mul_(parts.v[0], 2.0));
    assert_error(FAC_ERR_AUTOGRAD,
                 "Output 0 of UnbindBackward0 is a view and is being modified inplace. This view is the output of a "
                 "function that returns multiple views.");
    parts = fac_split(y, 2);
    assert_non_null(fac_mul_(y, 2.0));
    assert_null(fac_mul(parts.v[1], 1.0));
    assert_error(FAC_ERR_AUTOGRAD,
                 "Output 1 of SplitBackward0 is a view and its base or another view of its base has been modified "
                 "inplace.");
    {
        FAC_NO_GRAD(g);
        v = fac_view(x, FAC_INTS(2, 2));
    }
    assert_null(fac_mul_(v, 2.0));
    assert_error(FAC_ERR_AUTOGRAD,
                 "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
}

static void inplace_on_a_view_rebases_its_base(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *base = fac_mul(x, 1.0), *v = pair(base, 0);
    assert_true(fac_is_view(v));
    assert_ptr_equal(fac_view_base(v), base);
    fac_mul_(v, 3.0);
    assert_string_equal(fac_node_name(fac_grad_fn(base)), "CopySlices");
    assert_ptr_equal(fac_node_next(fac_grad_fn(v), 0), fac_grad_fn(base));
    assert_values(base, 3, 6, 3, 4);
    assert_ok(fac_backward(fac_sum(fac_mul(base, vector(DOUBLES(1, 10, 100, 1000)))), .retain_graph = true));
    assert_values(fac_grad_of(x), 3, 30, 100, 1000);
    assert_ok(fac_set_grad(x, NULL));
    assert_ok(fac_backward(fac_sum(v)));
    assert_values(fac_grad_of(x), 3, 3, 0, 0);
}

static void inplace_brings_others_into_the_graph_of_the_base(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = leaf(DOUBLES(5, 6)), *base = fac_zeros(FAC_INTS(2, 2), .dtype = FAC_F64);
    fac_tensor *row = fac_select(base, 0, 1), *flat = fac_view(base, FAC_INTS(4));
    assert_false(fac_requires_grad(flat));
    fac_add_(row, fac_mul(w, 2.0));
    fac_mul_(row, w);
    assert_true(fac_requires_grad(base));
    assert_true(fac_requires_grad(flat));
    assert_values(flat, 0, 0, 50, 72);
    assert_ok(fac_backward(fac_sum(fac_mul(flat, flat))));
    /* d (2 w^2)^2 / dw = 16 w^3 */
    assert_values(fac_grad_of(w), 16 * 125, 16 * 216);
}

static void inplace_writes_that_forget_the_old_value_cut_its_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *w = leaf(DOUBLES(7, 8)), *y = fac_mul(x, 2.0);
    fac_copy_(pair(y, 1), w);
    assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
    assert_values(fac_grad_of(x), 8, 0, 0, 32);
    assert_values(fac_grad_of(w), 14, 16);
    assert_ok(fac_set_grad(x, NULL));
    y = fac_mul(x, 2.0);
    fac_zero_(y);
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 0, 0, 0, 0);
    y = fac_mul(x, 2.0);
    fac_fill_(pair(y, 2), 1.0);
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 2, 2, 0, 0);
}

static void inplace_on_a_view_can_be_differentiated_twice(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(2, 3, 4)), *y = fac_mul(x, x), *g[1], *h[1];
    fac_mul_(pair(y, 0), pair(x, 1)); /* y = x0^2 x1, x1^2 x2, x2^2 */
    assert_values(y, 12, 36, 16);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(y)), FAC_TENSORS(x), g, .create_graph = true));
    assert_values(g[0], 2 * 2 * 3, 4 + 2 * 3 * 4, 9 + 2 * 4);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(x), h));
    /* g = 2 x0 x1, x0^2 + 2 x1 x2, x1^2 + 2 x2 */
    assert_values(h[0], 2 * 3 + 2 * 2, 2 * 2 + 2 * 4 + 2 * 3, 2 * 3 + 2);
}

static void inplace_formula_that_reads_the_old_value_keeps_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(2, 3)), *y = fac_mul(x, 1.0), *w = leaf(DOUBLES(5, 7));
    fac_mul_(y, w);
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 5, 7);
    assert_values(fac_grad_of(w), 2, 3);
}

static void inplace_forms_made_of_others_keep_the_old_value(void **state) {
    (void)state;
    const int64_t before = fac_live();
    {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(-1, 2));
        fac_tensor *t = fac_mul(x, 2.0);
        assert_ok(fac_backward(fac_sum(fac_multiply_(fac_absolute_(t), 3.0))));
        assert_values(fac_grad_of(x), -6, 6);
        fac_tensor *factor = vector(DOUBLES(5, 7)); /* itself without a gradient, but needed for that of x */
        assert_ok(fac_set_grad(x, NULL));
        assert_ok(fac_backward(fac_sum(fac_multiply_(factor, x))));
        assert_values(fac_grad_of(x), 5, 7);
    }
    assert_int_equal(fac_live(), before);
}

static void inplace_inference_tensors_stay_out_of_graphs(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *inside, *w = leaf(DOUBLES(1, 2));
    {
        FAC_INFERENCE(g);
        inside = vector(DOUBLES(3, 4));
        assert_true(fac_is_inference_mode());
        assert_non_null(fac_add_(inside, 1.0));
        assert_false(fac_requires_grad(fac_mul(w, 2.0)));
    }
    assert_true(fac_is_inference(inside));
    assert_false(fac_is_inference(w));
    assert_null(fac_add_(inside, 1.0));
    assert_error(FAC_ERR_AUTOGRAD, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    fac_value args[2] = {fac_value_tensor(inside), fac_value_tensor(w)}, result = fac_value_none();
    assert_int_equal(fac_call("aten::add_.Tensor", args, 2, &result), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    for (int i = 0; i < 2; i++) fac_value_release(&args[i]);
    assert_values(inside, 4, 5);
    assert_null(fac_mul(w, inside));
    assert_error(FAC_ERR_AUTOGRAD, "Inference tensors cannot be saved for backward.");
    assert_null(fac_set_requires_grad(inside, true));
    assert_error(FAC_ERR_AUTOGRAD,
                 "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    assert_int_equal(fac_tensor_version(inside), 0);
    fac_error_clear();
    fac_tensor *copy = fac_clone(inside);
    assert_ok(fac_backward(fac_sum(fac_mul(w, copy))));
    assert_values(fac_grad_of(w), 4, 5);
}

static void inplace_set_data_under_a_leaf(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2));
    assert_ok(fac_backward(fac_sum(fac_mul(x, 3.0))));
    assert_ok(fac_set_grad(x, NULL));
    assert_ok(fac_set_data(x, fac_tensor_of(4, 5, 6))); /* another dtype and size under the same handle */
    assert_true(fac_requires_grad(x));
    assert_ok(fac_backward(fac_sum(fac_mul(x, x))));
    assert_values(fac_grad_of(x), 8, 10, 12);
    assert_int_equal(fac_tensor_dtype(fac_grad_of(x)), FAC_F32);
}

static void out_forms_take_no_part(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *out = vector(DOUBLES(0, 0));
    assert_null(fac_add_out(out, x, 1.0));
    assert_error(FAC_ERR_AUTOGRAD,
                 "functions with out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad.");
    FAC_NO_GRAD(g);
    assert_non_null(fac_add_out(out, x, 1.0));
    assert_values(out, 2, 3);
}

/* ---- tensors that are read by what they are changed with ---- */

typedef fac_tensor *(*change)(fac_tensor *x);

static fac_tensor *itself_times_itself(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_mul_(t, t);
}

static fac_tensor *itself_by_itself(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_div_(t, t);
}

static fac_tensor *its_magnitude(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_copy_(t, fac_abs(t));
}

static fac_tensor *plus_its_square(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_add_(t, fac_mul(t, t));
}

/* The factor has no history when it is saved, and gets one that leads to where it was saved. */
static fac_tensor *plain_factor(fac_tensor *x) {
    fac_tensor *w = fac_ones_like(x);
    return fac_add_(w, fac_mul(w, x));
}

static fac_tensor *view_of_the_base(fac_tensor *x) {
    fac_tensor *base = fac_mul(x, 2.0), *v = pair(base, 0);
    fac_add_(pair(base, 1), fac_mul(v, v));
    return base;
}

static fac_tensor *third_operand(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_addcmul_(t, t, t);
}

static fac_tensor *plus_itself(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_add_(t, t);
}

static fac_tensor *minus_itself(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_sub_(t, t);
}

static fac_tensor *over_itself(fac_tensor *x) {
    fac_tensor *t = fac_mul(x, 2.0);
    return fac_copy_(t, t);
}

static void inplace_change_of_what_a_gradient_reads_is_found_out_and_freed(void **state) {
    (void)state;
    const change cases[] = {itself_times_itself, itself_by_itself, its_magnitude, plus_its_square,
                            plain_factor,        view_of_the_base, third_operand};
    const int64_t before = fac_live();
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(-1, 2, 3)), *y = cases[i](x);
        assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_AUTOGRAD);
        assert_error(FAC_ERR_AUTOGRAD, "is at version 1; expected version 0 instead");
    }
    assert_int_equal(fac_live(), before);
}

static void inplace_change_by_itself_has_pytorchs_gradient(void **state) {
    (void)state;
    const change cases[] = {plus_itself, minus_itself, over_itself};
    const double want[] = {4, 0, 2};
    const int64_t before = fac_live();
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(-1, 2, 3));
        assert_ok(fac_backward(fac_sum(cases[i](x))));
        assert_values(fac_grad_of(x), want[i], want[i], want[i]);
    }
    assert_int_equal(fac_live(), before);
}

static void saved_intermediates_are_differentiated_through(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(2, 3)), *z = fac_mul(x, x), *y = fac_mul(z, pair(fac_mul(z, x), 0)), *g[1], *h[1];
    /* y = x^5 */
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(y)), FAC_TENSORS(x), g, .create_graph = true));
    assert_values(g[0], 5 * 16, 5 * 81);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(x), h));
    assert_values(h[0], 20 * 8, 20 * 27);
}

static fac_status change_view(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(2, 3, 4)), *y = fac_mul(x, x);
    if (!y || !fac_mul_(pair(y, 0), pair(x, 1)) || !fac_add_(pair(y, 1), pair(x, 0))) return fac_error();
    return fac_backward(fac_sum(y));
}

static void inplace_survives_every_failing_allocation(void **state) {
    (void)state;
    support_fail_each_allocation(change_view, NULL);
}

FAC_TEST_MAIN(FAC_TEST(S122_change_of_a_saved_tensor_is_found_out), FAC_TEST(S122_change_of_what_was_not_saved_is_fine),
              FAC_TEST(inplace_leaves_and_their_views_are_refused),
              FAC_TEST(inplace_views_of_several_and_of_no_grad_are_refused),
              FAC_TEST(inplace_on_a_view_rebases_its_base), FAC_TEST(inplace_brings_others_into_the_graph_of_the_base),
              FAC_TEST(inplace_writes_that_forget_the_old_value_cut_its_gradient),
              FAC_TEST(inplace_on_a_view_can_be_differentiated_twice),
              FAC_TEST(inplace_formula_that_reads_the_old_value_keeps_it),
              FAC_TEST(inplace_forms_made_of_others_keep_the_old_value),
              FAC_TEST(inplace_inference_tensors_stay_out_of_graphs), FAC_TEST(inplace_set_data_under_a_leaf),
              FAC_TEST(inplace_change_of_what_a_gradient_reads_is_found_out_and_freed),
              FAC_TEST(inplace_change_by_itself_has_pytorchs_gradient),
              FAC_TEST(saved_intermediates_are_differentiated_through), FAC_TEST(out_forms_take_no_part),
              FAC_TEST(inplace_survives_every_failing_allocation))
