/* The gradient scaler: when it grows and backs off, which steps it leaves out, its state. */
#include "support/support.h"
#include "support/values.h"

#include <facula/facula.h>
#include <math.h>

typedef struct fixture {
    fac_tensor *w;
    fac_optimizer *o;
} fixture;

static fixture fixture_new(double lr) {
    FAC_SCOPE(s);
    fixture f = {fac_keep(fac_set_requires_grad(fac_ones(FAC_SHAPE(3)), true)), NULL};
    f.o = fac_sgd_of(FAC_TENSORS(f.w), lr);
    assert_no_error();
    return f;
}

static void fixture_free(fixture *f) {
    fac_optimizer_release(f->o);
    fac_release(f->w);
}

/* A scaled backward pass: d loss / d w is `slope` for each element. */
static void pass(fac_grad_scaler *s, const fixture *f, double slope) {
    fac_optimizer_zero_grad(f->o);
    FAC_SCOPE(scope);
    assert_ok(fac_backward(fac_grad_scaler_scale(s, fac_sum(fac_mul(f->w, slope)))));
}

static double first(fac_tensor *t) {
    FAC_SCOPE(s);
    return fac_item(fac_select(t, 0, 0));
}

static void S170_the_scale_grows_and_backs_off(void **state) {
    (void)state;
    fixture f = fixture_new(0.5);
    fac_grad_scaler *s = fac_grad_scaler_new(.init_scale = 8, .growth_interval = 2);
    assert_true(fac_grad_scaler_is_enabled(s));
    pass(s, &f, 2);
    assert_true(first(fac_grad_of(f.w)) == 16);
    assert_ok(fac_grad_scaler_step(s, f.o));
    assert_true(first(f.w) == 0); /* by the gradient as it is */
    assert_ok(fac_grad_scaler_update(s));
    assert_true(fac_grad_scaler_get_scale(s) == 8);
    assert_int_equal(fac_grad_scaler_growth_tracker(s), 1);
    pass(s, &f, 1);
    assert_ok(fac_grad_scaler_step(s, f.o));
    assert_ok(fac_grad_scaler_update(s));
    assert_true(fac_grad_scaler_get_scale(s) == 16);
    assert_int_equal(fac_grad_scaler_growth_tracker(s), 0);
    const double before = first(f.w);
    pass(s, &f, INFINITY);
    assert_ok(fac_grad_scaler_step(s, f.o));
    assert_true(first(f.w) == before); /* left out */
    assert_ok(fac_grad_scaler_update(s));
    assert_true(fac_grad_scaler_get_scale(s) == 8);
    pass(s, &f, NAN);
    assert_ok(fac_grad_scaler_step(s, f.o));
    assert_ok(fac_grad_scaler_update(s));
    assert_true(fac_grad_scaler_get_scale(s) == 4);
    assert_ok(fac_grad_scaler_update(s, .new_scale = 32));
    assert_true(fac_grad_scaler_get_scale(s) == 32);
    pass(s, &f, 1);
    assert_true(first(fac_grad_of(f.w)) == 32);
    fac_grad_scaler_release(s);
    fixture_free(&f);
}

static void S170_gradients_are_clipped_after_they_are_unscaled(void **state) {
    (void)state;
    fixture f = fixture_new(1);
    fac_grad_scaler *s = fac_grad_scaler_new(1024);
    pass(s, &f, 3);
    assert_ok(fac_grad_scaler_unscale(s, f.o));
    assert_true(first(fac_grad_of(f.w)) == 3);
    assert_int_equal(fac_grad_scaler_unscale(s, f.o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "has already been called on this optimiser");
    double norm = 0;
    assert_ok(fac_clip_grad_norm(FAC_TENSORS(f.w), 1.0, .total_norm = &norm));
    assert_true(fabs(norm - 3 * sqrt(3)) < 1e-5);
    assert_ok(fac_grad_scaler_step(s, f.o)); /* not unscaled again */
    assert_true(fabs(first(f.w) - (1 - 1 / sqrt(3))) < 1e-5);
    assert_int_equal(fac_grad_scaler_step(s, f.o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "fac_grad_scaler_step has already been called");
    assert_int_equal(fac_grad_scaler_unscale(s, f.o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "after fac_grad_scaler_step");
    assert_ok(fac_grad_scaler_update(s));
    pass(s, &f, 1);
    assert_ok(fac_grad_scaler_step(s, f.o));
    fac_grad_scaler_release(s);
    fixture_free(&f);
}

static void S170_one_scaler_serves_several_optimisers(void **state) {
    (void)state;
    fixture a = fixture_new(0.25), b = fixture_new(0.25);
    fac_grad_scaler *s = fac_grad_scaler_new(.init_scale = 4, .growth_interval = 1);
    pass(s, &a, INFINITY);
    pass(s, &b, 1);
    assert_ok(fac_grad_scaler_step(s, a.o));
    assert_ok(fac_grad_scaler_step(s, b.o));
    assert_true(first(a.w) == 1);
    assert_true(first(b.w) == 0.75); /* is stepped although the other is not */
    assert_ok(fac_grad_scaler_update(s));
    assert_true(fac_grad_scaler_get_scale(s) == 2); /* one of them is enough */
    pass(s, &a, 1);
    pass(s, &b, 1);
    assert_ok(fac_grad_scaler_step(s, a.o));
    assert_ok(fac_grad_scaler_step(s, b.o));
    assert_ok(fac_grad_scaler_update(s));
    assert_true(fac_grad_scaler_get_scale(s) == 4); /* once, not twice */
    fac_grad_scaler_release(s);
    fixture_free(&a);
    fixture_free(&b);
}

static void S170_a_scaler_that_is_off_hands_through(void **state) {
    (void)state;
    fixture f = fixture_new(1);
    fac_grad_scaler *s = fac_grad_scaler_new(.enabled = false);
    FAC_SCOPE(scope);
    fac_tensor *loss = fac_sum(f.w);
    assert_false(fac_grad_scaler_is_enabled(s));
    assert_true(fac_grad_scaler_get_scale(s) == 1);
    assert_ptr_equal(fac_grad_scaler_scale(s, loss), loss);
    assert_ok(fac_backward(loss));
    assert_ok(fac_grad_scaler_unscale(s, f.o));
    assert_ok(fac_grad_scaler_step(s, f.o));
    assert_ok(fac_grad_scaler_step(s, f.o)); /* as the optimiser itself */
    assert_ok(fac_grad_scaler_update(s));
    assert_true(first(f.w) == -1);
    fac_state *state_dict = fac_grad_scaler_state_dict(s);
    assert_int_equal(state_dict->n, 0);
    assert_ok(fac_grad_scaler_load_state_dict(s, state_dict));
    fac_state_free(state_dict);
    fac_grad_scaler_release(s);
    fixture_free(&f);
}

/* Runs `steps` iterations, of which every fifth overflows. */
static void run(fac_grad_scaler *s, const fixture *f, int from, int steps) {
    for (int i = from; i < from + steps; i++) {
        pass(s, f, i % 5 == 4 ? INFINITY : 0.125 * (i + 1));
        assert_ok(fac_grad_scaler_step(s, f->o));
        assert_ok(fac_grad_scaler_update(s));
    }
}

static void S170_a_scaler_resumes_from_its_state(void **state) {
    (void)state;
    fixture f = fixture_new(0.01);
    fac_grad_scaler *through = fac_grad_scaler_new(.init_scale = 16, .growth_interval = 3),
                    *again = fac_grad_scaler_new(.growth_factor = 3);
    run(through, &f, 0, 7);
    fac_state *kept = fac_grad_scaler_state_dict(through);
    assert_non_null(kept);
    assert_ok(fac_grad_scaler_load_state_dict(again, kept));
    assert_int_equal(fac_grad_scaler_growth_tracker(again), fac_grad_scaler_growth_tracker(through));
    assert_true(fac_grad_scaler_growth_factor(again) == 2);
    run(through, &f, 7, 20);
    run(again, &f, 7, 20);
    assert_true(fac_grad_scaler_get_scale(again) == fac_grad_scaler_get_scale(through));
    assert_int_equal(fac_grad_scaler_growth_tracker(again), fac_grad_scaler_growth_tracker(through));
    fac_state_remove(kept, "_growth_tracker");
    const double scale = fac_grad_scaler_get_scale(again);
    assert_int_equal(fac_grad_scaler_load_state_dict(again, kept), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "has no '_growth_tracker'");
    {
        FAC_SCOPE(scope);
        assert_ok(fac_state_set(kept, "_growth_tracker", fac_full(FAC_SHAPE(), 1)));
        assert_ok(fac_state_set(kept, "scale", fac_full(FAC_SHAPE(), -1)));
    }
    assert_int_equal(fac_grad_scaler_load_state_dict(again, kept), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "positive and finite");
    assert_true(fac_grad_scaler_get_scale(again) == scale);
    fac_state_free(kept);
    fac_grad_scaler_release(through);
    fac_grad_scaler_release(again);
    fixture_free(&f);
}

static void S170_what_makes_no_sense_is_refused(void **state) {
    (void)state;
    assert_null(fac_grad_scaler_new(.init_scale = 0));
    assert_error(FAC_ERR_ARGUMENT, "positive and finite in float32, got 0");
    assert_null(fac_grad_scaler_new(.init_scale = 1e-60)); /* 0 in float32 */
    assert_error(FAC_ERR_ARGUMENT, "positive and finite in float32, got 1e-60");
    assert_null(fac_grad_scaler_new(.init_scale = 1e39));
    assert_error(FAC_ERR_ARGUMENT, "positive and finite in float32");
    assert_null(fac_grad_scaler_new(.growth_factor = 1));
    assert_error(FAC_ERR_ARGUMENT, "growth_factor should be more than 1");
    assert_null(fac_grad_scaler_new(.backoff_factor = 1));
    assert_error(FAC_ERR_ARGUMENT, "backoff_factor should be between 0 and 1");
    assert_null(fac_grad_scaler_new(.growth_interval = 0));
    assert_error(FAC_ERR_ARGUMENT, "growth_interval should be between 1 and");
    fixture f = fixture_new(1);
    fac_grad_scaler *s = fac_grad_scaler_new();
    assert_int_equal(fac_grad_scaler_step(s, f.o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "no loss went through fac_grad_scaler_scale");
    assert_int_equal(fac_grad_scaler_update(s), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "no loss went through fac_grad_scaler_scale");
    {
        FAC_SCOPE(scope);
        assert_null(fac_grad_scaler_scale(s, fac_ones(FAC_SHAPE(1), .dtype = FAC_I64)));
        assert_error(FAC_ERR_DTYPE, "scales floating losses, got int64");
        assert_non_null(fac_grad_scaler_scale(s, fac_ones(FAC_SHAPE())));
    }
    assert_int_equal(fac_grad_scaler_update(s), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "no gradients were checked");
    assert_int_equal(fac_grad_scaler_step(s, f.o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "no parameter of the optimiser has a gradient");
    assert_int_equal(fac_grad_scaler_update(s, .new_scale = -1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "positive and finite");
    assert_int_equal(fac_grad_scaler_set_growth_factor(s, 0.5), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "more than 1");
    assert_ok(fac_grad_scaler_set_growth_factor(s, 4));
    assert_ok(fac_grad_scaler_set_backoff_factor(s, 0.25));
    assert_ok(fac_grad_scaler_set_growth_interval(s, 5));
    assert_true(fac_grad_scaler_growth_factor(s) == 4 && fac_grad_scaler_backoff_factor(s) == 0.25);
    assert_int_equal(fac_grad_scaler_growth_interval(s), 5);
    fac_grad_scaler_release(s);
    fixture_free(&f);
    fac_grad_scaler_release(NULL);
}

static void S170_halves_are_not_unscaled(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *w = fac_set_requires_grad(fac_ones(FAC_SHAPE(3), .dtype = FAC_F16), true);
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(w), 1.0);
    fac_grad_scaler *s = fac_grad_scaler_new(2);
    assert_ok(fac_backward(fac_grad_scaler_scale(s, fac_sum(w))));
    assert_int_equal(fac_grad_scaler_step(s, o), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "unscale a gradient in float16");
    assert_true(first(w) == 1);
    fac_grad_scaler_release(s);
    fac_optimizer_release(o);
}

static void S170_sparse_gradients_are_unscaled(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *w = fac_set_requires_grad(fac_ones(FAC_SHAPE(4, 2)), true);
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(w), 1.0);
    fac_grad_scaler *s = fac_grad_scaler_new(64);
    fac_tensor *at = fac_tensor_from((int64_t[]){1, 1}, FAC_I64, FAC_INTS(2));
    assert_ok(fac_backward(fac_grad_scaler_scale(s, fac_sum(fac_embedding(w, at, .sparse = true)))));
    assert_int_equal(fac_tensor_layout(fac_grad_of(w)), FAC_SPARSE_COO);
    assert_ok(fac_grad_scaler_step(s, o));
    assert_true(fac_item(fac_select(fac_select(w, 0, 1), 0, 0)) == -1);
    assert_true(first(fac_select(w, 0, 0)) == 1);
    fac_grad_scaler_release(s);
    fac_optimizer_release(o);
}

FAC_TEST_MAIN(FAC_TEST(S170_the_scale_grows_and_backs_off),
              FAC_TEST(S170_gradients_are_clipped_after_they_are_unscaled),
              FAC_TEST(S170_one_scaler_serves_several_optimisers), FAC_TEST(S170_a_scaler_that_is_off_hands_through),
              FAC_TEST(S170_a_scaler_resumes_from_its_state), FAC_TEST(S170_what_makes_no_sense_is_refused),
              FAC_TEST(S170_halves_are_not_unscaled), FAC_TEST(S170_sparse_gradients_are_unscaled))
