/* Parameters that are computed: parametrisations, norms of weights, masks; and joined layers and summaries. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool near(fac_tensor *a, fac_tensor *b) { return fac_allclose(a, b, .rtol = 1e-4, .atol = 1e-5); }

/* ---- parametrisations ------------------------------------------------------------------------------------------------ */

static fac_tensor *symmetric(fac_module *self, fac_tensor *x) {
    (void)self;
    return fac_add(fac_triu(x), fac_transpose(fac_triu(x, 1), 0, 1));
}
static const fac_module_class symmetric_class = {.name = "Symmetric", .version = 1, .forward = symmetric};

static fac_tensor *wider(fac_module *self, fac_tensor *x) {
    (void)self;
    return fac_cat(FAC_TENSORS(x, x));
}
static const fac_module_class wider_class = {.name = "Wider", .version = 1, .forward = wider};

static void parametrised_weight_is_computed_in_each_run(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 3);
    fac_tensor *own = fac_module_parameter(m, "weight"), *x = fac_randn(FAC_INTS(2, 3));
    assert_ok(fac_parametrize_register(m, "weight", fac_module_new(&symmetric_class)));
    assert_true(fac_parametrize_is_parametrized(m, "weight") && fac_parametrize_is_parametrized(m, NULL));
    assert_false(fac_parametrize_is_parametrized(m, "bias"));
    assert_ptr_equal(fac_module_parameter(m, "parametrizations.weight.original"), own);
    fac_tensor *w = fac_module_value(m, "weight");
    assert_true(fac_equal(w, fac_transpose(w, 0, 1)));
    assert_true(near(fac_forward(m, x), fac_linear(x, w, fac_module_parameter(m, "bias"))));
    assert_ok(fac_backward(fac_sum(fac_forward(m, x))));
    assert_non_null(fac_grad_of(own));
    assert_int_equal(fac_module_parameter_count(m), 12);
    {
        FAC_NO_GRAD(g);
        assert_non_null(fac_fill_(own, 1));
    }
    assert_true(near(fac_module_value(m, "weight"), fac_ones(FAC_INTS(3, 3))));
    assert_null(fac_module_parameter(m, "weight"));
    assert_error(FAC_ERR_NOT_FOUND, "'weight' is not a parameter but computed of other parts");
    assert_int_equal(fac_module_set_tensor(m, "weight", x), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_ok(fac_parametrize_remove(m, "weight"));
    assert_false(fac_parametrize_is_parametrized(m, NULL));
    assert_ptr_equal(fac_module_parameter(m, "weight"), own);
    assert_null(fac_module_child(m, "parametrizations"));
    fac_error_clear();
    fac_module_release(m);
}

static void parametrisation_that_changes_the_shape_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 3);
    assert_int_equal(fac_parametrize_register(m, "weight", fac_module_new(&wider_class)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "may not change the shape of 'weight', [3, 3], to [6, 3]");
    assert_non_null(fac_module_parameter(m, "weight")); /* nothing has changed */
    assert_int_equal(fac_parametrize_register(m, "none", fac_relu_new()), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "Linear has no parameter or buffer 'none'");
    assert_int_equal(fac_parametrize_remove(m, "weight"), FAC_ERR_NOT_FOUND);
    fac_error_clear();
    assert_ok(fac_parametrize_register(m, "weight", fac_module_new(&symmetric_class)));
    assert_int_equal(fac_parametrize_register(m, "weight", fac_module_new(&wider_class)), FAC_ERR_SHAPE);
    fac_error_clear();
    assert_ok(fac_parametrize_register(m, "weight", fac_tanh_new()));
    assert_true(fac_item(fac_max(fac_abs(fac_module_value(m, "weight")))) < 1);
    assert_ok(fac_parametrize_remove(m, "weight", .leave_parametrized = false));
    fac_module_release(m);
}

static fac_tensor *failing(fac_module *self, fac_tensor *x) {
    (void)self;
    return fac_reshape(x, FAC_INTS(7, 11));
}
static fac_status to_zeros(fac_module *self, fac_tensor *value, fac_tensor **out, size_t *n) {
    (void)self;
    return out[0] = fac_zeros_like(value), *n = 1, fac_error();
}
static const fac_module_class failing_class = {
    .name = "Failing", .version = 1, .forward = failing, .right_inverse = to_zeros};

static void parametrisation_that_fails_leaves_the_module_as_it_was(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 3);
    fac_tensor *w = fac_clone(fac_detach(fac_module_parameter(m, "weight")));
    assert_int_equal(fac_parametrize_register(m, "weight", fac_module_new(&failing_class), .unsafe = true),
                     FAC_ERR_SHAPE);
    fac_error_clear();
    assert_true(fac_equal(fac_module_parameter(m, "weight"), w));
    assert_false(fac_parametrize_is_parametrized(m, NULL));
    assert_null(fac_module_child(m, "parametrizations"));
    fac_error_clear();
    assert_int_equal(fac_module_parameter_count(m), 12);
    fac_module_release(m);
}

/* ---- norms ----------------------------------------------------------------------------------------------------------- */

static void weight_norm_leaves_the_weight_and_apart_its_length(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(4, 3);
    fac_tensor *w = fac_clone(fac_detach(fac_module_parameter(m, "weight")));
    assert_ok(fac_parametrizations_weight_norm(m, .dim = FAC_UNSET));
    assert_int_equal(fac_tensor_numel(fac_module_parameter(m, "parametrizations.weight.original0")), 1);
    assert_true(near(fac_module_value(m, "weight"), w));
    assert_int_equal(fac_parametrize_remove(m, "weight", .leave_parametrized = false), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_ok(fac_parametrize_remove(m, "weight"));
    assert_true(near(fac_module_parameter(m, "weight"), w));
    assert_ok(fac_utils_weight_norm(m, .dim = -1)); /* all, as in PyTorch, whose state a model then takes */
    assert_int_equal(fac_tensor_ndim(fac_module_parameter(m, "weight_g")), 0);
    assert_ok(fac_utils_remove_weight_norm(m));
    assert_ok(fac_utils_weight_norm(m, .dim = 1));
    assert_int_equal(fac_tensor_size(fac_module_parameter(m, "weight_g"), 1), 4);
    assert_int_equal(fac_utils_weight_norm(m), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_ok(fac_utils_remove_weight_norm(m));
    assert_true(near(fac_module_parameter(m, "weight"), w));
    assert_int_equal(fac_utils_remove_weight_norm(m), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_int_equal(fac_utils_weight_norm(m, .dim = 2), FAC_ERR_INDEX);
    fac_error_clear();
    fac_module_release(m);
}

static void spectral_norm_makes_the_largest_singular_value_one(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_conv2d_new(3, 4, FAC_INTS(3));
    assert_ok(fac_parametrizations_spectral_norm(m, .n_power_iterations = 50));
    fac_tensor *x = fac_randn(FAC_INTS(1, 3, 5, 5));
    for (int i = 0; i < 5; i++) assert_non_null(fac_forward(m, x));
    fac_tensor *matrix = fac_flatten(fac_module_value(m, "weight"), 1);
    assert_true(fabs(fac_item(fac_linalg_matrix_norm(matrix, 2)) - 1) < 1e-3);
    fac_module_release(m);
}

static void orthogonal_weights_stay_so_while_they_learn(void **state) {
    (void)state;
    static const char *const maps[] = {"matrix_exp", "cayley", "householder"};
    for (size_t i = 0; i < FAC_COUNT(maps); i++) {
        FAC_SCOPE(s);
        fac_module *m = fac_linear_new(5, 5);
        assert_ok(fac_parametrizations_orthogonal(m, .orthogonal_map = maps[i]));
        fac_state *p = fac_module_parameters(m);
        assert_int_equal(p->n, 2);
        fac_tensor *all[] = {p->v[0].tensor, p->v[1].tensor};
        fac_optimizer *sgd = fac_sgd_of(fac_tensors_of(all, 2), 0.1);
        for (int step = 0; step < 3; step++) {
            FAC_SCOPE(inner);
            fac_optimizer_zero_grad(sgd);
            assert_ok(fac_backward(fac_sum(fac_square(fac_forward(m, fac_randn(FAC_INTS(4, 5)))))));
            assert_ok(fac_optimizer_step(sgd));
        }
        fac_tensor *w = fac_module_value(m, "weight");
        assert_true(fac_allclose(fac_matmul(fac_transpose(w, 0, 1), w), fac_eye(5), .atol = 1e-4));
        fac_state_free(p);
        fac_optimizer_release(sgd);
        fac_module_release(m);
    }
    fac_module *m = fac_linear_new(2, 2);
    assert_int_equal(fac_parametrizations_orthogonal(m, .orthogonal_map = "polar"), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Got: polar");
    fac_module_release(m);
}

/* ---- pruning --------------------------------------------------------------------------------------------------------- */

static int64_t zeros_of(fac_tensor *t) { return fac_item_int(fac_sum(fac_eq(t, 0))); }

static void pruned_weights_stay_zero_and_get_no_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(10, 10);
    assert_ok(fac_prune_l1_unstructured(m, "weight", 0.3));
    fac_tensor *mask = fac_module_buffer(m, "weight_mask");
    assert_int_equal(zeros_of(mask), 30);
    fac_tensor *gone = fac_masked_select(fac_abs(fac_module_parameter(m, "weight_orig")), fac_eq(mask, 0));
    fac_tensor *kept = fac_masked_select(fac_abs(fac_module_parameter(m, "weight_orig")), fac_eq(mask, 1));
    assert_true(fac_item(fac_max(gone)) <= fac_item(fac_min(kept)));
    assert_ok(fac_backward(fac_sum(fac_forward(m, fac_randn(FAC_INTS(2, 10))))));
    assert_int_equal(zeros_of(fac_grad_of(fac_module_parameter(m, "weight_orig"))), 30);
    assert_ok(fac_prune_random_unstructured(m, "weight", 20, .count = true)); /* of what is left */
    assert_int_equal(zeros_of(fac_module_value(m, "weight")), 50);
    assert_ok(fac_prune_ln_structured(m, "weight", 1, 2, 0, .count = true));
    assert_true(fac_prune_is_pruned(m));
    fac_module *copy = fac_module_copy(m);
    assert_true(fac_equal(fac_module_value(copy, "weight"), fac_module_value(m, "weight")));
    fac_module_release(copy);
    fac_tensor *w = fac_module_value(m, "weight");
    assert_ok(fac_prune_remove(m, "weight"));
    assert_true(fac_equal(fac_module_parameter(m, "weight"), w));
    assert_false(fac_prune_is_pruned(m));
    assert_null(fac_module_buffer(m, "weight_mask"));
    fac_error_clear();
    fac_module_release(m);
}

static void pruning_refuses_amounts_out_of_range(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 4);
    assert_int_equal(fac_prune_l1_unstructured(m, "weight", 1.5), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "amount=1.5 should be in the range [0, 1]");
    assert_int_equal(fac_prune_l1_unstructured(m, "weight", 13, .count = true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "smaller than the number of parameters to prune=12");
    assert_int_equal(fac_prune_random_structured(m, "bias", 0.5), FAC_ERR_SHAPE);
    fac_error_clear();
    assert_int_equal(fac_prune_ln_structured(m, "weight", 0.5, 2, 2), FAC_ERR_INDEX);
    fac_error_clear();
    assert_int_equal(fac_prune_custom_from_mask(m, "weight", fac_ones(FAC_INTS(3, 4))), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "the mask [3, 4] should have the shape of the parameter, [4, 3]");
    assert_int_equal(fac_prune_remove(m, "weight"), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_false(fac_prune_is_pruned(m)); /* nothing has changed */
    assert_non_null(fac_module_parameter(m, "weight"));
    fac_module_release(m);
}

static void global_pruning_masks_the_smallest_of_all(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_linear_new(4, 4), fac_linear_new(4, 4));
    assert_non_null(fac_init_constant(fac_module_parameter(m, "0.weight"), 0.1));
    assert_non_null(fac_init_constant(fac_module_parameter(m, "1.weight"), 0.2));
    fac_module *const modules[] = {fac_module_child(m, "0"), fac_module_child(m, "1")};
    static const char *const names[] = {"weight", "weight"};
    assert_ok(fac_prune_global_unstructured(modules, names, 2, "l1", 0.5));
    assert_int_equal(zeros_of(fac_module_value(modules[0], "weight")), 16);
    assert_int_equal(zeros_of(fac_module_value(modules[1], "weight")), 0);
    assert_int_equal(fac_prune_global_unstructured(modules, names, 2, "l2", 0.5), FAC_ERR_ARGUMENT);
    fac_error_clear();
    fac_module_release(m);
}

/* ---- joined layers, costs -------------------------------------------------------------------------------------------- */

static void joined_layers_do_what_both_do(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"Conv2d(3, 4, 3, bias=False)", "BatchNorm2d(4)"},
                                          {"ConvTranspose2d(3, 4, 3)", "BatchNorm2d(4, affine=False)"},
                                          {"Linear(3, 4)", "BatchNorm1d(4)"}};
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        FAC_SCOPE(s);
        fac_module *layer = fac_parse_module(rows[i][0]), *bn = fac_parse_module(rows[i][1]);
        fac_tensor *x = i < 2 ? fac_randn(FAC_INTS(2, 3, 6, 6)) : fac_randn(FAC_INTS(5, 3));
        assert_non_null(fac_init_uniform(fac_module_buffer(bn, "running_var"), 0.5, 2));
        assert_non_null(fac_init_normal(fac_module_buffer(bn, "running_mean")));
        assert_null(fac_fuse_conv_bn(layer, bn));
        assert_error(FAC_ERR_ARGUMENT, i < 2 ? "Fusion only for eval" : "takes a Conv, not Linear");
        fac_module_train(layer, false);
        fac_module_train(bn, false);
        fac_module *both = i < 2 ? fac_fuse_conv_bn(layer, bn, .transpose = i == 1) : fac_fuse_linear_bn(layer, bn);
        assert_true(near(fac_forward(both, x), fac_forward(bn, fac_forward(layer, x))));
        assert_non_null(fac_module_parameter(both, "bias"));
        fac_module_release(both);
        fac_module_release(layer);
        fac_module_release(bn);
    }
}

static void summary_tells_shapes_and_sums(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fac_module *m = fac_parse_module("Sequential(Conv2d(3, 8, 3), Flatten(), Linear(128, 10))");
    assert_ok(fac_module_summary(m, FAC_TENSORS(fac_ones(FAC_INTS(2, 3, 6, 6))), f));
    assert_int_equal(fac_module_summary(m, FAC_TENSORS(fac_ones(FAC_INTS(2, 3))), f), FAC_ERR_SHAPE);
    fac_error_clear();
    fclose(f);
    assert_non_null(strstr(text, "[2, 8, 4, 4]"));
    assert_non_null(strstr(text, "parameters: 1514, learned: 1514\noperations: 18944\n")); /* 2*256*27 + 2*20*128 */
    free(text);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(parametrised_weight_is_computed_in_each_run),
              FAC_TEST(parametrisation_that_changes_the_shape_is_refused),
              FAC_TEST(parametrisation_that_fails_leaves_the_module_as_it_was),
              FAC_TEST(weight_norm_leaves_the_weight_and_apart_its_length),
              FAC_TEST(spectral_norm_makes_the_largest_singular_value_one),
              FAC_TEST(orthogonal_weights_stay_so_while_they_learn),
              FAC_TEST(pruned_weights_stay_zero_and_get_no_gradient), FAC_TEST(pruning_refuses_amounts_out_of_range),
              FAC_TEST(global_pruning_masks_the_smallest_of_all), FAC_TEST(joined_layers_do_what_both_do),
              FAC_TEST(summary_tells_shapes_and_sums))
