/* Who owns what, as docs/ownership.md tells it: scopes own results, makers give references, getters lend. */
#include "support/support.h"
#include <facula/facula.h>

static fac_tensor *twice(fac_tensor *x) {
    FAC_SCOPE(s);
    fac_tensor *sum = fac_add(x, x);
    assert_non_null(fac_exp(sum)); /* left to the scope */
    return fac_yield(s, sum);
}

static void S287_ownership_scopes_free_all_but_what_is_handed_out(void **state) {
    (void)state;
    const int64_t before = fac_live();
    {
        FAC_SCOPE(s);
        fac_tensor *x = fac_tensor_of(1, 2);
        const int64_t one = fac_live() - before;
        fac_tensor *y = twice(x);
        assert_true(fac_item(fac_select(y, 0, 1)) == 4);
        assert_int_equal(fac_live() - before, 2 * one + 1); /* x, y, and the element that was looked at, a view */
    }
    assert_int_equal(fac_live(), before);
}

static void S287_ownership_kept_references_are_the_programs(void **state) {
    (void)state;
    fac_tensor *kept;
    {
        FAC_SCOPE(s);
        kept = fac_keep(fac_tensor_of(5));
        fac_drop(fac_tensor_of(1, 2, 3));
    }
    assert_true(fac_item(kept) == 5);
    fac_release(kept);
    fac_release(kept); /* no more often than it was kept */
    assert_error(FAC_ERR_STATE, "");
    (void)fac_tensor_numel(kept);
    assert_error(FAC_ERR_STATE, "");
}

static void S287_ownership_results_without_a_scope_are_an_error(void **state) {
    (void)state;
    assert_null(fac_zeros(3));
    assert_error(FAC_ERR_STATE, "FAC_SCOPE");
}

static void S287_ownership_a_model_owns_what_was_given_to_it(void **state) {
    (void)state;
    const int64_t before = fac_live();
    fac_module *net = fac_sequential(fac_linear_new(2, 3), fac_relu_new());
    fac_optimizer *sgd = fac_sgd_new(net, 0.1);
    fac_tensor *weight = fac_module_parameter(net, "0.weight"); /* lent */
    fac_module_release(net);
    assert_int_equal(fac_tensor_numel(weight), 6); /* the optimiser has it too */
    fac_optimizer_release(sgd);
    (void)fac_tensor_numel(weight);
    assert_error(FAC_ERR_STATE, "");
    assert_int_equal(fac_live(), before);
}

static void S287_ownership_references_are_taken_over_on_failure_too(void **state) {
    (void)state;
    const int64_t before = fac_live();
    fac_module *net = fac_sequential(fac_linear_new(2, 3), fac_relu_new());
    assert_null(fac_module_add(net, "0", fac_tanh_new()));
    assert_error(FAC_ERR_ARGUMENT, "0");
    assert_null(fac_sequential(fac_linear_new(2, 2), NULL));
    fac_error_clear();
    fac_module_release(net);
    assert_int_equal(fac_live(), before);
}

/* What a forward function may return. */
static fac_tensor *give(fac_module *self, fac_tensor *x) {
    const int *what = fac_module_state(self);
    return *what == 0 ? x : *what == 1 ? fac_module_parameter(self, "w") : fac_add(x, x);
}

static void S287_ownership_callbacks_return_what_they_like(void **state) {
    (void)state;
    static const fac_module_class cls = {.name = "Give", .state_size = sizeof(int), .forward = give};
    FAC_SCOPE(s);
    fac_module *m = fac_module_new(&cls);
    fac_tensor *x = fac_tensor_of(3), *w = fac_module_add_parameter(m, "w", fac_tensor_of(7));
    *(int *)fac_module_state(m) = 0;
    assert_ptr_equal(fac_forward(m, x), x);
    *(int *)fac_module_state(m) = 1;
    assert_ptr_equal(fac_forward(m, x), w);
    *(int *)fac_module_state(m) = 2;
    assert_true(fac_item(fac_forward(m, x)) == 6);
    fac_module_release(m);
    assert_no_error();
}

static fac_status fails_with(fac_tensor *x) {
    return fac_tensor_read(x, FAC_F32, NULL, 0); /* some function with a status */
}

static void S287_errors_are_codes_and_leave_arguments_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2), *y = fac_tensor_of(1, 2, 3);
    assert_null(fac_add_(x, y));
    assert_int_equal(fac_error(), FAC_ERR_SHAPE);
    assert_int_equal(fails_with(x), FAC_ERR_SHAPE); /* the first error stays, and is what calls return */
    assert_string_equal(fac_status_name(fac_error()), "SHAPE");
    fac_error_clear();
    float v[2];
    assert_ok(fac_tensor_read(x, FAC_F32, v, 2));
    assert_true(v[0] == 1 && v[1] == 2 && fac_tensor_version(x) == 0);
}

FAC_TEST_MAIN(FAC_TEST(S287_ownership_scopes_free_all_but_what_is_handed_out),
              FAC_TEST(S287_ownership_kept_references_are_the_programs),
              FAC_TEST(S287_ownership_results_without_a_scope_are_an_error),
              FAC_TEST(S287_ownership_a_model_owns_what_was_given_to_it),
              FAC_TEST(S287_ownership_references_are_taken_over_on_failure_too),
              FAC_TEST(S287_ownership_callbacks_return_what_they_like),
              FAC_TEST(S287_errors_are_codes_and_leave_arguments_alone))
