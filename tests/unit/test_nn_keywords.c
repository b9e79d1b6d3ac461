/* Keywords of modules: losses, dropout, parts and lists of them, and of the clipping of gradients. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static fac_tensor *logits(void) {
    return fac_reshape(fac_tensor_of(0.5, -1, 2, 3, 0, -2, 1, 1, 0.25), FAC_SHAPE(3, 3));
}

static fac_tensor *classes(void) { return fac_tensor_from((const int64_t[]){2, 1, 0}, FAC_I64, FAC_INTS(3)); }

/* ---- losses --------------------------------------------------------------------------------------------------------- */

static void losses_reduce_as_their_keyword_says(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3), *y = fac_tensor_of(1, 0, 0);
    fac_module *mean = fac_mse_loss_new(), *sum = fac_mse_loss_new(.reduction = FAC_REDUCTION_SUM),
               *none = fac_mse_loss_new(FAC_REDUCTION_NONE);
    assert_true(fabs(fac_item(fac_forward_many(mean, FAC_TENSORS(x, y))) - 13.0 / 3) < 1e-6);
    assert_true(fac_item(fac_forward_many(sum, FAC_TENSORS(x, y))) == 13);
    assert_true(fac_equal(fac_forward_many(none, FAC_TENSORS(x, y)), fac_tensor_of(0, 4, 9)));
    fac_module_release(mean);
    fac_module_release(sum);
    fac_module_release(none);
    assert_no_error();
}

/* The mean over the samples of class 2 and 0, weighted: class 1 is left out. */
static double weighted_by_hand(void) {
    const double first = -log(exp(2) / (exp(0.5) + exp(-1) + exp(2)));
    const double last = -log(exp(1) / (2 * exp(1) + exp(0.25)));
    return (4 * first + 1 * last) / (4 + 1);
}

static void cross_entropy_loss_has_weights_and_leaves_a_class_out(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_cross_entropy_loss_new(.weight = fac_tensor_of(1, 2, 4), .ignore_index = 1);
    assert_true(fabs(fac_item(fac_forward_many(m, FAC_TENSORS(logits(), classes()))) - weighted_by_hand()) < 1e-6);
    fac_module_release(m);
    assert_no_error();
}

static void cross_entropy_loss_smooths_labels(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_cross_entropy_loss_new(.label_smoothing = 0.3, .reduction = FAC_REDUCTION_SUM);
    fac_tensor *x = logits(), *rows = fac_neg(fac_log_softmax(x, 1));
    fac_tensor *given = fac_sum(fac_gather(rows, 1, fac_unsqueeze(classes(), 1)));
    const double expected = 0.7 * fac_item(given) + 0.3 / 3 * fac_item(fac_sum(rows));
    assert_true(fabs(fac_item(fac_forward_many(m, FAC_TENSORS(x, classes()))) - expected) < 1e-5);
    fac_module_release(m);
    m = fac_cross_entropy_loss_new(.label_smoothing = 2);
    assert_null(fac_forward_many(m, FAC_TENSORS(x, classes())));
    assert_error(FAC_ERR_ARGUMENT, "label_smoothing");
    fac_module_release(m);
}

static void cross_entropy_loss_keeps_its_weight_as_a_buffer(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_cross_entropy_loss_new(fac_tensor_of(1, 2, 4), .ignore_index = 1), *plain, *copy;
    fac_tensor *loss = fac_forward_many(m, FAC_TENSORS(logits(), classes()));
    assert_non_null(plain = fac_cross_entropy_loss_new());
    fac_state *with = fac_module_state_dict(m), *without = fac_module_state_dict(plain);
    assert_true(with->n == 1 && without->n == 0);
    assert_string_equal(with->v[0].name, "weight");
    assert_non_null(copy = fac_module_copy(m));
    fac_module_release(m);
    assert_true(fac_equal(fac_forward_many(copy, FAC_TENSORS(logits(), classes())), loss));
    assert_ok(fac_module_to(copy, .dtype = FAC_F64));
    assert_int_equal(fac_tensor_dtype(fac_module_buffer(copy, "weight")), FAC_F64);
    fac_state_free(with);
    fac_state_free(without);
    fac_module_release(plain);
    fac_module_release(copy);
    assert_no_error();
}

/* PyTorch shows no settings of a loss. */
static void losses_print_their_kind(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_mse_loss_new(.reduction = FAC_REDUCTION_SUM),
                                   fac_cross_entropy_loss_new(.ignore_index = 3), fac_dropout_new());
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_ok(fac_module_print(m, f));
    fclose(f);
    assert_string_equal(
        text, "Sequential(\n  (0): MSELoss()\n  (1): CrossEntropyLoss()\n  (2): Dropout(p=0.5, inplace=False)\n)\n");
    free(text);
    fac_module_release(m);
}

/* ---- parts ---------------------------------------------------------------------------------------------------------- */

static size_t counted(fac_state *l) {
    assert_non_null(l);
    const size_t n = l->n;
    fac_state_free(l);
    return n;
}

static void module_lists_only_its_own_parts_without_recursion(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_linear_new(2, 3), fac_batch_norm2d_new(3));
    assert_true(counted(fac_module_parameters(m)) == 4 && counted(fac_module_parameters(m, .recurse = false)) == 0);
    assert_true(counted(fac_module_buffers(m)) == 3 && counted(fac_module_buffers(m, .recurse = false)) == 0);
    fac_module *norm = fac_module_child(m, "1");
    assert_true(counted(fac_module_parameters(norm, .recurse = false)) == 2);
    assert_null(fac_module_parameters(m, false)); /* of version 0.1, where it meant the opposite */
    assert_error(FAC_ERR_ARGUMENT, "by position");
    fac_module_release(m);
}

static void buffers_are_saved_unless_told_otherwise(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(2, 3, .bias = false);
    fac_module_add_buffer(m, "kept", fac_tensor_of(1));
    fac_module_add_buffer(m, "scratch", fac_tensor_of(2), .persistent = false);
    fac_module_add_buffer(m, "by_position", fac_tensor_of(3), false);
    fac_state *saved = fac_module_state_dict(m);
    assert_true(fac_state_get(saved, "kept") && !fac_state_get(saved, "scratch") &&
                !fac_state_get(saved, "by_position"));
    assert_true(counted(fac_module_buffers(m)) == 3);
    fac_state_free(saved);
    fac_module_release(m);
    assert_no_error();
}

/* ---- clipping ------------------------------------------------------------------------------------------------------- */

static fac_tensor *with_grad(double a, double b) {
    fac_tensor *t = fac_set_requires_grad(fac_tensor_of(0, 0), true);
    assert_ok(fac_set_grad(t, fac_tensor_of((float)a, (float)b)));
    return t;
}

static void clip_grad_norm_takes_any_order(void **state) {
    (void)state;
    static const struct {
        double order, expected;
    } rows[] = {{1, 10}, {2, 5.477225575051661}, {3, 4.641588833612779}, {INFINITY, 4}, {-INFINITY, 1}, {0, 2}};
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        FAC_SCOPE(s);
        fac_tensor *a = with_grad(1, -2), *b = with_grad(3, 4), *none = fac_set_requires_grad(fac_ones(2), true);
        double norm = -1;
        assert_ok(fac_clip_grad_norm(FAC_TENSORS(a, none, b), 0.5, rows[i].order, .total_norm = &norm));
        assert_true(fabs(norm - rows[i].expected) < 1e-5);
        double got[2];
        assert_ok(fac_tensor_read(fac_grad_of(b), FAC_F64, got, 2));
        assert_true(fabs(got[1] - 4 * 0.5 / rows[i].expected) < 1e-5);
    }
}

static void clip_grad_norm_without_gradients_is_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_set_requires_grad(fac_ones(2), true);
    double norm = -1;
    assert_ok(fac_clip_grad_norm(FAC_TENSORS(t), 1, INFINITY, .total_norm = &norm));
    assert_true(norm == 0);
    assert_ok(fac_clip_grad_norm(FAC_TENSORS(), 1, .total_norm = &norm));
    assert_true(norm == 0);
}

static void clip_grad_norm_leaves_what_is_not_finite(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = with_grad(NAN, 4);
    double norm = 0, got[2];
    assert_ok(fac_clip_grad_norm(FAC_TENSORS(t), 1, INFINITY, .total_norm = &norm));
    assert_true(isnan(norm));
    assert_int_equal(fac_clip_grad_norm(FAC_TENSORS(t), 1, 3, true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the total norm of order 3 of the gradients is nan");
    assert_int_equal(fac_clip_grad_norm(FAC_TENSORS(t), 1, NAN), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "norm_type");
    assert_ok(fac_tensor_read(fac_grad_of(t), FAC_F64, got, 2));
    assert_true(isnan(got[0]) && got[1] == 4);
}

FAC_TEST_MAIN(FAC_TEST(losses_reduce_as_their_keyword_says),
              FAC_TEST(cross_entropy_loss_has_weights_and_leaves_a_class_out),
              FAC_TEST(cross_entropy_loss_smooths_labels), FAC_TEST(cross_entropy_loss_keeps_its_weight_as_a_buffer),
              FAC_TEST(losses_print_their_kind), FAC_TEST(module_lists_only_its_own_parts_without_recursion),
              FAC_TEST(buffers_are_saved_unless_told_otherwise), FAC_TEST(clip_grad_norm_takes_any_order),
              FAC_TEST(clip_grad_norm_without_gradients_is_zero), FAC_TEST(clip_grad_norm_leaves_what_is_not_finite))
