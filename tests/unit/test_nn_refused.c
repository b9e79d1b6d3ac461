/* What modules, their layers and optimisers refuse, and that they are as before then; how layers print. */
#include "support/support.h"
#include <facula/facula.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts ---------------------------------------------------------------------------------------------------------- */

static void module_takes_another_tensor_in_a_parameters_place(void **state) {
    (void)state;
    FAC_SCOPE(s);
    float got[2];
    fac_module *inner[] = {fac_linear_new(3, 2)};
    fac_module *m = fac_sequential_new(inner, 1);
    fac_tensor *w = fac_ones(FAC_INTS(2, 3));
    assert_ok(fac_module_set_tensor(m, "0.weight", w));
    assert_ok(fac_module_set_tensor(m, "0.bias", NULL));
    assert_ptr_equal(fac_module_parameter(m, "0.weight"), w);
    assert_null(fac_module_parameter(m, "0.bias"));
    assert_no_error();
    assert_ok(fac_tensor_read(fac_forward(m, fac_ones(FAC_INTS(1, 3))), FAC_F32, got, 2));
    assert_true(got[0] == 3 && got[1] == 3);
    fac_module_release(m);
}

static void module_refuses_parameters_that_were_computed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_tensor *before = fac_module_parameter(m, "weight"), *computed = fac_mul(before, 2);
    assert_int_equal(fac_module_set_tensor(m, "weight", computed), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "parameter 'weight' should be a leaf");
    assert_ptr_equal(fac_module_parameter(m, "weight"), before);
    assert_null(fac_module_add_parameter(m, "more", computed));
    assert_error(FAC_ERR_AUTOGRAD, "parameter 'more' was computed by an operation");
    assert_int_equal(fac_module_set_tensor(m, "none", before), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "Linear has no parameter or buffer 'none'");
    fac_module_release(m);
}

static void module_refuses_a_taken_name_and_leaves_the_tensor_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_tensor *t = fac_ones(FAC_INTS(2, 3));
    assert_null(fac_module_add_parameter(m, "weight", t));
    assert_error(FAC_ERR_ARGUMENT, "weight");
    assert_false(fac_requires_grad(t));
    fac_module_release(m);
}

static void module_paths_name_what_is_not_there(void **state) {
    (void)state;
    fac_module *inner[] = {fac_linear_new(3, 2)};
    fac_module *m = fac_sequential_new(inner, 1);
    assert_null(fac_module_child(m, "1.weight"));
    assert_error(FAC_ERR_NOT_FOUND, "Sequential has no child '1', looked up as '1.weight'; it has '0'");
    assert_null(fac_module_child(m, "7"));
    assert_error(FAC_ERR_NOT_FOUND, "Sequential has no child '7'; it has '0'");
    assert_null(fac_module_parameter(m, "0.wait"));
    assert_error(FAC_ERR_NOT_FOUND,
                 "Linear has no parameter or buffer 'wait', looked up as '0.wait'; it has 'weight', 'bias'");
    assert_null(fac_module_parameter(m, "weight"));
    assert_error(FAC_ERR_NOT_FOUND, "Sequential has no parameter or buffer 'weight'; it has '0'");
    assert_null(fac_module_child(m, "0.weight.x"));
    assert_error(FAC_ERR_NOT_FOUND, "Linear has no child 'weight', looked up as '0.weight.x'; it has none");
    assert_null(fac_module_child(m, NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_null(fac_module_buffer(m, "0.weight"));
    assert_error(FAC_ERR_NOT_FOUND, "'0.weight' is not a buffer but a parameter");
    assert_null(fac_module_add(m, "last", NULL));
    assert_error(FAC_ERR_ARGUMENT, "child 'last' is NULL");
    fac_module_release(m);
}

static void module_paths_show_a_few_of_many_names(void **state) {
    (void)state;
    fac_module *many[11];
    for (size_t i = 0; i < FAC_COUNT(many); i++) many[i] = fac_relu_new();
    fac_module *m = fac_sequential_new(many, FAC_COUNT(many));
    assert_null(fac_module_child(m, "11"));
    assert_error(FAC_ERR_NOT_FOUND, "it has '0', '1', '2', '3', '4', '5', '6', '7' and 3 more");
    fac_module_release(m);
}

static void module_drops_all_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    assert_ok(fac_backward(fac_sum(fac_forward(m, fac_ones(FAC_INTS(4, 3))))));
    assert_non_null(fac_grad_of(fac_module_parameter(m, "weight")));
    assert_ok(fac_module_zero_grad(m));
    assert_null(fac_grad_of(fac_module_parameter(m, "weight")));
    assert_null(fac_grad_of(fac_module_parameter(m, "bias")));
    assert_no_error();
    fac_module_release(m);
}

/* ---- layers --------------------------------------------------------------------------------------------------------- */

static void layers_refuse_inputs_of_another_shape(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *attention = fac_multihead_attention_new(8, 2, .batch_first = true), *norm = fac_batch_norm2d_new(3);
    fac_tensor *flat = fac_ones(FAC_INTS(4, 8));
    assert_null(fac_forward(attention, fac_ones(FAC_INTS(2, 4, 6))));
    assert_error(FAC_ERR_SHAPE, "query should be [N, length, 8], not [2, 4, 6]");
    assert_null(fac_forward(attention, fac_ones(FAC_INTS(8))));
    assert_error(FAC_ERR_SHAPE, "1-D query");
    assert_null(fac_forward_many(attention, FAC_TENSORS(flat, flat)));
    assert_error(FAC_ERR_ARGUMENT, "not 2 inputs");
    assert_null(fac_forward(norm, flat));
    assert_error(FAC_ERR_SHAPE, "expected 4D input (got 2D input)");
    fac_module_release(attention);
    fac_module_release(norm);
}

static void print_begins_with(fac_module *m, const char *expected) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_ok(fac_module_print(m, f));
    fclose(f);
    if (strncmp(text, expected, strlen(expected)) != 0) fail_msg("'%s' does not begin with '%s'", text, expected);
    free(text);
    fac_module_release(m);
}

static void layers_print_their_settings(void **state) {
    (void)state;
    print_begins_with(fac_embedding_new(10, 4), "Embedding(10, 4)");
    print_begins_with(fac_embedding_new(10, 4, .padding_idx = 3), "Embedding(10, 4, padding_idx=3)");
    print_begins_with(fac_batch_norm2d_new(3),
                      "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
    print_begins_with(fac_avg_pool2d_new(3, 2, 1), "AvgPool2d(kernel_size=3, stride=2, padding=1)");
    print_begins_with(fac_multihead_attention_new(8, 2, .causal = true), "MultiheadAttention(\n  causal=True\n");
    print_begins_with(fac_multihead_attention_new(8, 2),
                      "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=8, ");
}

/* ---- optimisers ----------------------------------------------------------------------------------------------------- */

static void adam_refuses_rates_outside_their_range(void **state) {
    (void)state;
    fac_module *m = fac_linear_new(2, 2);
    assert_null(fac_adamw_new(m, 0.1, .beta1 = 1));
    assert_error(FAC_ERR_ARGUMENT, "invalid beta1: 1 should be in [0, 1)");
    assert_null(fac_adam_new(m, 0.1, .beta2 = -0.5));
    assert_error(FAC_ERR_ARGUMENT, "invalid beta2: -0.5 should be in [0, 1)");
    assert_null(fac_adamw_new(m, 0.1, .eps = -1));
    assert_error(FAC_ERR_ARGUMENT, "invalid epsilon value: -1");
    assert_null(fac_adam_new(m, 0.1, .weight_decay = -2));
    assert_error(FAC_ERR_ARGUMENT, "invalid weight_decay value: -2");
    assert_null(fac_adam_new(m, -0.1));
    assert_error(FAC_ERR_ARGUMENT, "invalid learning rate: -0.1");
    fac_module_release(m);
}

/* A group of which one tensor cannot be taken is not added in part. */
static void group_that_fails_in_the_middle_leaves_no_part(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(2, 2);
    fac_optimizer *o = fac_sgd_new(m, 1);
    float got[2];
    fac_tensor *fresh = fac_set_requires_grad(fac_ones(FAC_INTS(2)), true);
    fac_tensor *taken = fac_module_parameter(m, "weight");
    assert_int_equal(fac_optimizer_add_group(o, FAC_TENSORS(fresh, taken), FAC_OPTIONS({"lr", 1})), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "a parameter appears in more than one group");
    assert_int_equal(fac_optimizer_add_group(o, FAC_TENSORS(fresh, fac_mul(fresh, 2)), FAC_OPTIONS({"lr", 1})),
                     FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "non-leaf");
    assert_ok(fac_backward(fac_sum(fresh)));
    assert_ok(fac_optimizer_step(o));
    assert_ok(fac_tensor_read(fresh, FAC_F32, got, 2));
    assert_true(got[0] == 1 && got[1] == 1); /* it is in no group */
    assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(fresh), FAC_OPTIONS({"lr", 1})));
    assert_ok(fac_optimizer_step(o));
    assert_ok(fac_tensor_read(fresh, FAC_F32, got, 2));
    assert_true(got[0] == 0 && got[1] == 0);
    fac_optimizer_release(o);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(module_takes_another_tensor_in_a_parameters_place),
              FAC_TEST(module_refuses_parameters_that_were_computed),
              FAC_TEST(module_refuses_a_taken_name_and_leaves_the_tensor_alone),
              FAC_TEST(module_paths_name_what_is_not_there), FAC_TEST(module_paths_show_a_few_of_many_names),
              FAC_TEST(module_drops_all_gradients), FAC_TEST(layers_refuse_inputs_of_another_shape),
              FAC_TEST(layers_print_their_settings), FAC_TEST(adam_refuses_rates_outside_their_range),
              FAC_TEST(group_that_fails_in_the_middle_leaves_no_part))
