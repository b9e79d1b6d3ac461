/* Every public function takes NULL for any of its pointers: it is legal and said to be, or it is an error. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

#define REFUSED(call)                           \
    do {                                        \
        call;                                   \
        assert_error(FAC_ERR_ARGUMENT, "NULL"); \
    } while (0)

static void null_ends_of_scopes_and_modes_do_nothing(void **state) {
    (void)state;
    fac_scope_end(NULL);
    fac_scope_unwind(NULL);
    fac_mode_end(NULL);
    assert_no_error();
}

static void null_scope_cannot_take_a_result(void **state) {
    (void)state;
    FAC_SCOPE(s);
    REFUSED((void)fac_scope_yield(NULL, fac_ones(FAC_INTS(2))));
}

static void null_places_for_results_are_left_out(void **state) {
    (void)state;
    assert_int_equal(fac_error_get(NULL), FAC_OK);
    fac_error_set(FAC_ERR_IO, "of the test's own");
    assert_int_equal(fac_error_get(NULL), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "of the test's own");
    uint64_t seed = 0, offset = 1;
    fac_manual_seed(5);
    fac_generator_get_state(NULL, NULL, NULL);
    fac_generator_get_state(NULL, &seed, NULL);
    fac_generator_get_state(NULL, NULL, &offset);
    assert_true(seed == 5 && offset == 0);
    fac_value v = fac_value_scalars((const fac_scalar[]){fac_scalar_i_(3)}, 1);
    assert_non_null(fac_value_as_scalars(v, NULL));
    fac_value_release(&v);
}

static void null_hooks_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(2)), true), *y = fac_sum(fac_mul(x, x));
    REFUSED((void)fac_register_hook(x, NULL, NULL));
    REFUSED((void)fac_register_hook(y, NULL, NULL));
    REFUSED((void)fac_register_post_accumulate_hook(x, NULL, NULL));
    REFUSED((void)fac_node_register_pre_hook(fac_grad_fn(y), NULL, NULL));
    REFUSED((void)fac_node_register_hook(fac_grad_fn(y), NULL, NULL));
    REFUSED((void)fac_node_register_pre_hook(NULL, NULL, NULL));
    REFUSED((void)fac_node_register_hook(NULL, NULL, NULL));
    assert_ok(fac_backward(y));
}

static void null_contexts_of_custom_functions_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_INTS(2));
    REFUSED(assert_int_equal(fac_function_save(NULL, FAC_TENSORS(x)), FAC_ERR_ARGUMENT));
    REFUSED((void)fac_function_saved(NULL));
    REFUSED(fac_function_set_user(NULL, x));
    REFUSED((void)fac_function_user(NULL));
    REFUSED((void)fac_function_needs_input_grad(NULL, 0));
    REFUSED(fac_function_mark_dirty(NULL, x));
    REFUSED(fac_function_mark_non_differentiable(NULL, x));
}

static void null_calls_are_not_redispatched(void **state) {
    (void)state;
    fac_value none = fac_value_none();
    REFUSED(assert_int_equal(fac_redispatch(NULL, 0, &none), FAC_ERR_ARGUMENT));
    REFUSED(assert_int_equal(fac_redispatch(fac_operator_find("aten::add.Tensor"), 0, NULL), FAC_ERR_ARGUMENT));
    REFUSED(assert_int_equal(fac_redispatch_below(NULL, FAC_KEY_AUTOGRAD, &none), FAC_ERR_ARGUMENT));
}

static void null_files_of_tensors_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    REFUSED((void)fac_safetensors_open(NULL));
    REFUSED((void)fac_safetensors_count(NULL));
    REFUSED(assert_int_equal(fac_safetensors_get(NULL, 0, &(fac_safetensors_entry){0}), FAC_ERR_ARGUMENT));
    REFUSED((void)fac_safetensors_find(NULL, "x"));
    REFUSED((void)fac_safetensors_metadata_count(NULL));
    REFUSED((void)fac_safetensors_metadata_at(NULL, 0));
    REFUSED((void)fac_safetensors_metadata(NULL, "x"));
    REFUSED(assert_int_equal(fac_safetensors_verify(NULL), FAC_ERR_ARGUMENT));
    REFUSED((void)fac_safetensors_read(NULL, 0));
    REFUSED((void)fac_safetensors_map(NULL, 0));
    REFUSED((void)fac_tensor_file_map(NULL, 0));
    fac_safetensors_close(NULL);
    assert_no_error();
}

static void null_schedules_and_wrong_rates_are_refused(void **state) {
    (void)state;
    REFUSED((void)fac_cosine_lr(NULL, 1));
    fac_module *m = fac_linear_new(2, 2);
    fac_optimizer *o = fac_sgd_new(m, 0.5);
    const double wrong[] = {-1, NAN, -INFINITY};
    for (size_t i = 0; i < FAC_COUNT(wrong); i++) {
        fac_optimizer_set_lr(o, wrong[i]);
        assert_error(FAC_ERR_ARGUMENT, "invalid learning rate");
        assert_true(fac_optimizer_lr(o) == 0.5);
    }
    fac_optimizer_set_lr(o, 0);
    assert_true(fac_optimizer_lr(o) == 0);
    fac_optimizer_release(o);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(null_ends_of_scopes_and_modes_do_nothing), FAC_TEST(null_scope_cannot_take_a_result),
              FAC_TEST(null_places_for_results_are_left_out), FAC_TEST(null_hooks_are_refused),
              FAC_TEST(null_contexts_of_custom_functions_are_refused), FAC_TEST(null_calls_are_not_redispatched),
              FAC_TEST(null_files_of_tensors_are_refused), FAC_TEST(null_schedules_and_wrong_rates_are_refused))
