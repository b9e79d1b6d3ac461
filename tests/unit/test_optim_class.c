/* Kinds of optimisers of one's own: Lion, written with public functions, and what is refused of a class. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <string.h>

/* ---- Lion: Chen et al. 2023 -------------------------------------------------------------------------------------------------- */

enum { LR, BETA1, BETA2, DECAY };
static const fac_option lion_options[] = {
    {"lr", 1e-4}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0}, {NULL, 0}};

static fac_status lion_check(const double *options) {
    for (int i = BETA1; i <= BETA2; i++)
        if (!(options[i] >= 0 && options[i] < 1))
            return fac_error_set(FAC_ERR_ARGUMENT, "betas should be in [0, 1), but one is %g", options[i]);
    return FAC_OK;
}

static fac_status lion_step(const fac_optimizer_update *u) {
    const double *v = u->options;
    fac_tensor *average = u->state[0];
    fac_tensor *direction = fac_sign(fac_lerp(u->grad, average, v[BETA1]));
    fac_mul_(u->parameter, 1 - v[LR] * v[DECAY]);
    fac_sub_(u->parameter, direction, .alpha = v[LR]);
    fac_lerp_(average, u->grad, 1 - v[BETA2]);
    return fac_error();
}

static const fac_optimizer_class lion = {.name = "Lion",
                                         .options = lion_options,
                                         .state = (const char *const[]){"exp_avg", NULL},
                                         .step = lion_step,
                                         .check_options = lion_check};

/* The same for one number. */
static void lion_by_hand(double *p, double *average, double grad, double lr, double decay) {
    const double direction = 0.9 * *average + 0.1 * grad;
    *p = *p * (1 - lr * decay) - lr * ((direction > 0) - (direction < 0));
    *average += 0.01 * (grad - *average);
}

static fac_tensor *parameter(double x) {
    return fac_set_requires_grad(fac_tensor_from(&x, FAC_F64, FAC_INTS(1)), true);
}

static void step(fac_optimizer *o, fac_tensor *p, double grad) {
    FAC_SCOPE(s);
    assert_ok(fac_set_grad(p, fac_full_like(p, grad)));
    assert_ok(fac_optimizer_step(o));
}

static void optim_class_of_ones_own_steps(void **state) {
    (void)state;
    const double grads[] = {1, -0.25, 3, -2, -2, 0.5};
    FAC_SCOPE(s);
    fac_tensor *p = parameter(1.5);
    fac_optimizer *o = fac_optimizer_of(&lion, FAC_TENSORS(p), FAC_OPTIONS({"lr", 0.1}, {"weight_decay", 0.5}));
    double by_hand = 1.5, average = 0;
    for (size_t i = 0; i < FAC_COUNT(grads); i++) {
        step(o, p, grads[i]);
        lion_by_hand(&by_hand, &average, grads[i], 0.1, 0.5);
        assert_true(fabs(fac_item(p) - by_hand) < 1e-12);
    }
    assert_ptr_equal(fac_optimizer_class_of(o), &lion);
    fac_optimizer_release(o);
}

/* Two groups, saved to a file with the module and loaded by others. */
static void optim_class_of_ones_own_is_saved_and_loaded(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = parameter(1), *q = parameter(1), *other = parameter(2), *other_too = parameter(2);
    fac_optimizer *a = fac_optimizer_of(&lion, FAC_TENSORS(p), FAC_OPTIONS({"lr", 0.1}));
    fac_optimizer *b = fac_optimizer_of(&lion, FAC_TENSORS(q), FAC_OPTIONS());
    assert_ok(fac_optimizer_add_group(a, FAC_TENSORS(other), FAC_OPTIONS({"beta1", 0.5})));
    assert_ok(fac_optimizer_add_group(b, FAC_TENSORS(other_too), FAC_OPTIONS()));
    for (int i = 0; i < 3; i++) step(a, p, i - 0.5);
    fac_state *saved = fac_optimizer_state_dict(a);
    assert_non_null(fac_state_get(saved, "0.exp_avg"));
    assert_true(fac_item(fac_state_get(saved, "param_groups.1.beta1")) == 0.5);
    assert_ok(fac_optimizer_load_state_dict(b, saved));
    assert_true(fac_optimizer_option(b, 1, "beta1") == 0.5 && fac_optimizer_option(b, 0, "lr") == 0.1);
    {
        FAC_NO_GRAD(g);
        assert_non_null(fac_copy_(q, p));
    }
    for (int i = 0; i < 3; i++) {
        step(a, p, 1 - i);
        step(b, q, 1 - i);
        assert_true(fac_item(p) == fac_item(q));
    }
    assert_ok(fac_state_set(saved, "param_groups.0.beta2", fac_tensor_of(2)));
    assert_int_equal(fac_optimizer_load_state_dict(b, saved), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "betas should be in [0, 1), but one is 2");
    assert_true(fac_optimizer_option(b, 0, "beta2") == 0.99);
    fac_state_free(saved);
    fac_optimizer_release(a);
    fac_optimizer_release(b);
}

static void optim_class_takes_the_parameters_of_a_module(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_optimizer *o = fac_optimizer_new(&lion, m, FAC_OPTIONS({"lr", 0.5}));
    fac_tensor *before = fac_clone(fac_detach(fac_module_parameter(m, "bias")));
    assert_ok(fac_backward(fac_sum(fac_forward(m, fac_ones(FAC_SHAPE(1, 3))))));
    assert_ok(fac_optimizer_step(o));
    assert_true(fac_allclose(fac_module_parameter(m, "bias"), fac_sub(before, 0.5)));
    fac_optimizer_release(o);
    fac_module_release(m);
}

/* ---- what a step function finds ---------------------------------------------------------------------------------------------- */

/* Each step's number, first use of the state, and whether it was kept. */
typedef struct seen {
    int64_t step;
    unsigned fresh;
    bool kept[2], recording, zero;
} seen;
static seen last;
static fac_status verdict;

static fac_status watching_step(const fac_optimizer_update *u) {
    last = (seen){u->step, u->fresh, {u->state[0] != NULL, u->state[1] != NULL}, fac_is_grad_enabled(), false};
    if (u->state[0]) {
        last.zero = fac_item(fac_sum(u->state[0])) == 0;
        assert_true(fac_tensor_stride(u->state[0], 0) == fac_tensor_stride(u->parameter, 0));
        fac_add_(u->state[0], 1);
    }
    for (int i = 0; i < 100; i++) (void)!fac_ones_like(u->parameter); /* freed before the next parameter */
    return verdict;
}
static size_t as_many_as_it_says(const double *options) { return (size_t)options[1]; }
static const fac_option watching_options[] = {{"lr", 1}, {"kept", 1}, {NULL, 0}};
static const fac_optimizer_class watching = {.name = "Watching",
                                             .options = watching_options,
                                             .state = (const char *const[]){"one", "two", NULL},
                                             .step = watching_step,
                                             .state_count = as_many_as_it_says};

static void optim_class_makes_its_tensors_when_they_are_needed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    verdict = FAC_OK;
    fac_tensor *p = fac_set_requires_grad(fac_t(fac_ones(FAC_SHAPE(3, 2))), true);
    p = fac_set_requires_grad(fac_detach(p), true);
    fac_optimizer *o = fac_optimizer_of(&watching, FAC_TENSORS(p), FAC_OPTIONS({"kept", 0}));
    step(o, p, 1);
    assert_true(last.step == 1 && !last.fresh && !last.kept[0] && !last.kept[1] && !last.recording);
    assert_ok(fac_optimizer_set_option(o, 0, "kept", 1));
    step(o, p, 1);
    assert_true(last.step == 2 && last.fresh == 1 && last.kept[0] && !last.kept[1] && last.zero);
    assert_ok(fac_optimizer_set_option(o, 0, "kept", 2));
    step(o, p, 1);
    assert_true(last.step == 3 && last.fresh == 2 && last.kept[0] && last.kept[1] && !last.zero);
    step(o, p, 1);
    assert_true(last.step == 4 && last.fresh == 0);
    assert_ok(fac_optimizer_set_option(o, 0, "kept", 3));
    assert_int_equal(fac_optimizer_step(o), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Watching asks for 3 tensors, but names 2");
    fac_optimizer_release(o);
}

static void optim_class_whose_step_fails_without_a_message_gets_one(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *p = parameter(1);
    fac_optimizer *o = fac_optimizer_of(&watching, FAC_TENSORS(p), FAC_OPTIONS());
    assert_ok(fac_set_grad(p, fac_ones_like(p)));
    verdict = FAC_ERR_STATE;
    assert_int_equal(fac_optimizer_step(o), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "the step of Watching failed without a message");
    verdict = FAC_OK;
    assert_ok(fac_optimizer_step(o));
    assert_int_equal(last.step, 1); /* the one that failed is not counted */
    fac_optimizer_release(o);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------------ */

static fac_status small_ones_only(fac_tensor *p) { return fac_tensor_numel(p) < 4 ? FAC_OK : FAC_ERR_SHAPE; }

static void optim_class_refuses_a_parameter_before_any_is_updated(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_optimizer_class cautious = lion;
    cautious.check_parameter = small_ones_only;
    fac_tensor *p = parameter(1), *large = fac_set_requires_grad(fac_ones(FAC_SHAPE(5)), true);
    fac_optimizer *o = fac_optimizer_of(&cautious, FAC_TENSORS(p, large), FAC_OPTIONS());
    assert_ok(fac_set_grad(p, fac_ones_like(p)));
    assert_ok(fac_set_grad(large, fac_ones_like(large)));
    assert_int_equal(fac_optimizer_step(o), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "Lion refuses a parameter");
    assert_true(fac_item(p) == 1);
    fac_optimizer_release(o);
}

static void assert_refused(const fac_optimizer_class *cls, const char *message) {
    assert_null(fac_optimizer_of(cls, FAC_TENSORS(parameter(1)), FAC_OPTIONS()));
    assert_error(FAC_ERR_ARGUMENT, message);
}

static void optim_classes_that_are_incomplete_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const fac_option no_rate[] = {{"beta", 1}, {NULL, 0}}, dotted[] = {{"lr", 1}, {"a.b", 1}, {NULL, 0}},
                            negative[] = {{"lr", -1}, {NULL, 0}};
    fac_option many[FAC_OPTIMIZER_MAX_OPTIONS + 2] = {{"lr", 1}};
    const char *tensors[FAC_OPTIMIZER_MAX_STATE + 2] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", NULL};
    for (size_t i = 1; i <= FAC_OPTIMIZER_MAX_OPTIONS; i++) many[i] = (fac_option){"x", 0};
    assert_refused(NULL, "the class of a new optimiser is NULL");
    assert_refused(&(fac_optimizer_class){.options = lion_options, .step = lion_step}, "has no name");
    assert_refused(&(fac_optimizer_class){.name = "A", .options = lion_options}, "has no step function");
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step}, "should be \"lr\"");
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step, .options = no_rate}, "should be \"lr\"");
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step, .options = dotted}, "'a.b' of class A");
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step, .options = negative}, "learning rate: -1");
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step, .options = many}, "more than 16 settings");
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step, .options = lion_options, .state = tensors},
                   "keeps more than 8 tensors");
    tensors[0] = "step", tensors[1] = NULL;
    assert_refused(&(fac_optimizer_class){.name = "A", .step = lion_step, .options = lion_options, .state = tensors},
                   "'step' of class A cannot be a name");
}

static fac_status train_once(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *p = parameter(1), *q = parameter(2);
    fac_optimizer *o = fac_error() ? NULL : fac_optimizer_of(&lion, FAC_TENSORS(p, q), FAC_OPTIONS({"lr", 0.5}));
    if (o && !fac_backward(fac_sum(fac_mul(p, q))) && !fac_optimizer_step(o)) {
        fac_state *st = fac_optimizer_state_dict(o);
        if (st) (void)!fac_optimizer_load_state_dict(o, st);
        fac_state_free(st);
    }
    fac_optimizer_release(o);
    return fac_error();
}

static void optim_class_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(train_once, NULL);
}

FAC_TEST_MAIN(FAC_TEST(optim_class_of_ones_own_steps), FAC_TEST(optim_class_of_ones_own_is_saved_and_loaded),
              FAC_TEST(optim_class_takes_the_parameters_of_a_module),
              FAC_TEST(optim_class_makes_its_tensors_when_they_are_needed),
              FAC_TEST(optim_class_whose_step_fails_without_a_message_gets_one),
              FAC_TEST(optim_class_refuses_a_parameter_before_any_is_updated),
              FAC_TEST(optim_classes_that_are_incomplete_are_refused),
              FAC_TEST(optim_class_survives_failing_allocations))
