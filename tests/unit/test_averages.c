/* Averages of parameters, batch statistics for them, and norms and vectors of many tensors. The averages themselves are compared with
   PyTorch's in tests/optim. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

static fac_module *normalised(void) { return fac_sequential(fac_conv2d_new(1, 2, 1), fac_batch_norm2d_new(2)); }

static void averaged_model_is_the_mean(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(2, 1, .bias = false), *a = fac_averaged_model_new(m),
               *e = fac_averaged_model_new(m, .ema_decay = 0.5);
    fac_tensor *w = fac_module_parameter(m, "weight"), *x = fac_ones(FAC_SHAPE(1, 2));
    for (int i = 1; i <= 3; i++) {
        {
            FAC_NO_GRAD(g);
            (void)fac_fill_(w, i * i);
        }
        assert_ok(fac_averaged_model_update(a, m));
        assert_ok(fac_averaged_model_update(e, m));
    }
    assert_true(fabs(fac_item(fac_forward(a, x)) - 2 * 14.0 / 3) < 1e-5);
    assert_true(fac_item(fac_forward(e, x)) == 2 * (0.5 * 2.5 + 0.5 * 9));
    assert_int_equal(fac_item_int(fac_module_buffer(a, "n_averaged")), 3);
    fac_module *copy = fac_module_copy(a);
    assert_ok(fac_averaged_model_update(copy, m));
    assert_true(fabs(fac_item(fac_forward(copy, x)) - 2 * 23.0 / 4) < 1e-5);
    fac_module_release(copy);
    fac_module_release(a);
    fac_module_release(e);
    fac_module_release(m);
}

static fac_tensor *largest(void *context, fac_tensor *averaged, fac_tensor *current, int64_t n) {
    *(int64_t *)context += n;
    return fac_maximum(averaged, current);
}
static fac_tensor *nothing(void *context, fac_tensor *averaged, fac_tensor *current, int64_t n) {
    return (void)context, (void)averaged, (void)current, (void)n, NULL;
}

static void averaged_model_takes_a_function(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t sum = 0;
    const fac_average_fn best = {largest, &sum}, none = {nothing, NULL}, empty = {NULL, NULL};
    fac_module *m = fac_linear_new(2, 1, .bias = false), *a = fac_averaged_model_new(m, .avg_fn = &best),
               *b = fac_averaged_model_new(m, .avg_fn = &none);
    for (int i = 0; i < 3; i++) {
        FAC_NO_GRAD(g);
        (void)fac_fill_(fac_module_parameter(m, "weight"), i == 1 ? 7 : i);
        assert_ok(fac_averaged_model_update(a, m));
    }
    assert_true(fac_item(fac_forward(a, fac_ones(FAC_SHAPE(1, 2)))) == 14 && sum == 3);
    assert_ok(fac_averaged_model_update(b, m));
    assert_int_equal(fac_averaged_model_update(b, m), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "avg_fn returned NULL without an error");
    assert_null(fac_averaged_model_new(m, .avg_fn = &empty));
    assert_error(FAC_ERR_ARGUMENT, "avg_fn has no function");
    assert_null(fac_averaged_model_new(m, .avg_fn = &best, .ema_decay = 0.5));
    assert_error(FAC_ERR_ARGUMENT, "ema_decay and avg_fn are both given");
    assert_null(fac_averaged_model_new(m, .ema_decay = 1.5));
    assert_error(FAC_ERR_ARGUMENT, "ema_decay should be in [0, 1], not 1.5");
    fac_module_release(a);
    fac_module_release(b);
    fac_module_release(m);
}

static void averaged_model_refuses_other_models(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(2, 1), *wide = fac_linear_new(3, 1), *more = normalised(),
               *a = fac_averaged_model_new(m);
    assert_int_equal(fac_averaged_model_update(a, wide), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "weight has the shape [1, 2] in the averaged model, but [1, 3] in the model");
    assert_int_equal(fac_averaged_model_update(a, more), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the averaged model has 2 parameters, the model 4");
    assert_int_equal(fac_averaged_model_update(m, m), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Linear is no averaged model");
    assert_int_equal(fac_item_int(fac_module_buffer(a, "n_averaged")), 0);
    fac_module_release(a);
    fac_module_release(m);
    fac_module_release(wide);
    fac_module_release(more);
}

/* ---- batch statistics -------------------------------------------------------------------------------------------------------- */

static fac_tensor *next_batch(void *context) {
    int *left = context;
    return (*left)-- > 0
               ? fac_mul(fac_to(fac_reshape(fac_arange(8), FAC_INTS(2, 1, 2, 2)), .dtype = FAC_F32), *left + 1)
               : NULL;
}
static fac_tensor *bad_batch(void *context) { return next_batch(context) ? fac_ones(FAC_SHAPE(2)) : NULL; }

static void update_bn_leaves_everything_else(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_batch_norm2d_new(1, .momentum = 0.3), fac_batch_norm2d_new(1)),
               *plain = fac_linear_new(1, 1);
    int left = 3;
    fac_module_train(m, false);
    fac_module_train(fac_module_child(m, "1"), true);
    assert_ok(fac_update_bn(m, next_batch, &left));
    assert_true(fac_item(fac_module_buffer(m, "0.running_mean")) == 3.5 * 2); /* of three batches, times 3, 2, 1 */
    assert_int_equal(fac_item_int(fac_module_buffer(m, "0.num_batches_tracked")), 3);
    assert_false(fac_module_is_training(m) || fac_module_is_training(fac_module_child(m, "0")));
    assert_true(fac_module_is_training(fac_module_child(m, "1")));
    left = 1;
    fac_module_train(m, true);
    (void)!fac_forward(m, next_batch(&left)); /* by its own momentum again */
    assert_true(fabs(fac_item(fac_module_buffer(m, "0.running_mean")) - (0.7 * 7 + 0.3 * 3.5)) < 1e-6);
    left = 2;
    assert_int_equal(fac_update_bn(m, bad_batch, &left), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "expected 4D input");
    left = 5;
    assert_ok(fac_update_bn(plain, next_batch, &left));
    assert_int_equal(left, 5);
    assert_int_equal(fac_update_bn(m, NULL, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the function of batches is NULL");
    fac_module_release(m);
    fac_module_release(plain);
}

static fac_status average(void *context) {
    (void)context;
    FAC_SCOPE(s);
    int left = 2;
    fac_module *m = fac_sequential(fac_batch_norm2d_new(1)),
               *a = m ? fac_averaged_model_new(m, .use_buffers = true) : NULL;
    for (int i = 0; a && i < 2 && !fac_error(); i++) (void)!fac_averaged_model_update(a, m);
    if (a && !fac_error()) (void)!fac_update_bn(a, next_batch, &left);
    fac_module_release(a);
    fac_module_release(m);
    return fac_error();
}

static void averages_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(average, NULL);
}

/* ---- norms and vectors ------------------------------------------------------------------------------------------------------- */

static void total_norms_are_of_all_tensors_together(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double norm = -1;
    fac_tensor *a = fac_tensor_of(3, 0), *b = fac_tensor_of(-4);
    assert_ok(fac_get_total_norm(FAC_TENSORS(a, b), &norm));
    assert_true(fabs(norm - 5) < 1e-12);
    assert_ok(fac_get_total_norm(FAC_TENSORS(a, b), &norm, .norm_type = 1));
    assert_true(norm == 7);
    assert_ok(fac_get_total_norm(FAC_TENSORS(a, b), &norm, .norm_type = INFINITY));
    assert_true(norm == 4);
    assert_ok(fac_get_total_norm(FAC_TENSORS(), &norm));
    assert_true(norm == 0);
    assert_int_equal(fac_get_total_norm(FAC_TENSORS(fac_tensor_of(INFINITY)), &norm, .error_if_nonfinite = true),
                     FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the total norm of order 2");
    assert_int_equal(fac_get_total_norm(FAC_TENSORS(a), &norm, .norm_type = NAN), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "norm_type should be a number");
    assert_int_equal(fac_get_total_norm(FAC_TENSORS(a), NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "place for the norm is NULL");
}

static void gradients_are_clipped_by_a_norm_that_is_known(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = fac_set_requires_grad(fac_tensor_of(0, 0), true);
    assert_ok(fac_set_grad(p, fac_tensor_of(3, 4)));
    assert_ok(fac_clip_grads_with_norm(FAC_TENSORS(p), 20, 10));
    assert_true(fac_item(fac_sum(fac_grad_of(p))) == 7);
    assert_ok(fac_clip_grads_with_norm(FAC_TENSORS(p), 1, 10));
    assert_true(fabs(fac_item(fac_sum(fac_grad_of(p))) - 0.7) < 1e-6);
    assert_int_equal(fac_clip_grads_with_norm(FAC_TENSORS(p), 1, NAN), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "max_norm and total_norm should not be negative");
}

static void parameters_become_a_vector_and_back(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_set_requires_grad(fac_ones(FAC_SHAPE(2, 2)), true),
               *b = fac_set_requires_grad(fac_tensor_of(5), true);
    fac_tensor *v = fac_parameters_to_vector(FAC_TENSORS(a, b));
    assert_int_equal(fac_tensor_numel(v), 5);
    assert_ok(fac_backward(fac_sum(fac_mul(v, v))));
    assert_true(fac_item(fac_grad_of(b)) == 10);
    assert_ok(fac_vector_to_parameters(fac_tensor_of(1, 2, 3, 4, 6), FAC_TENSORS(a, b)));
    assert_true(fac_item(fac_at(a, "1, 0")) == 3 && fac_item(b) == 6);
    assert_int_equal(fac_vector_to_parameters(fac_tensor_of(1, 2), FAC_TENSORS(a, b)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "the vector has the shape [2], but the parameters 5 elements");
    assert_null(fac_parameters_to_vector(FAC_TENSORS()));
    assert_error(FAC_ERR_ARGUMENT, "there are no parameters to make a vector of");
}

FAC_TEST_MAIN(FAC_TEST(averaged_model_is_the_mean), FAC_TEST(averaged_model_takes_a_function),
              FAC_TEST(averaged_model_refuses_other_models), FAC_TEST(update_bn_leaves_everything_else),
              FAC_TEST(averages_survive_failing_allocations), FAC_TEST(total_norms_are_of_all_tensors_together),
              FAC_TEST(gradients_are_clipped_by_a_norm_that_is_known), FAC_TEST(parameters_become_a_vector_and_back))
