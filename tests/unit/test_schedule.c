/* Schedules as objects: settings that are refused, parts and who owns them, states, groups. Their rates are compared with PyTorch's in
   tests/optim. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

static fac_tensor *parameter(void) { return fac_set_requires_grad(fac_ones(FAC_SHAPE(2)), true); }

static fac_optimizer *two_groups(void) {
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(parameter()), 0.5, .momentum = 0.9);
    if (o && !fac_optimizer_add_group(o, FAC_TENSORS(parameter()), FAC_OPTIONS({"lr", 0.25}))) return o;
    fac_optimizer_release(o);
    return NULL;
}

static double shrink(void *context, size_t group, int64_t step) {
    return (void)context, 1 / (1.0 + (double)step + (double)group);
}
static double bad_at_three(void *context, size_t group, int64_t step) {
    return (void)context, step == 3 && group == 1 ? INFINITY : 0.5;
}

/* ---- every kind ------------------------------------------------------------------------------------------------------------ */

#define KINDS(X)                                                                                            \
    X(fac_lambda_lr_new(o, shrink, NULL))                                                                   \
    X(fac_multiplicative_lr_new(o, shrink, NULL))                                                           \
    X(fac_step_lr_new(o, 3))                                                                                \
    X(fac_multi_step_lr_new(o, FAC_INTS(2, 4, 4)))                                                          \
    X(fac_constant_lr_new(o))                                                                               \
    X(fac_linear_lr_new(o))                                                                                 \
    X(fac_exponential_lr_new(o, 0.9))                                                                       \
    X(fac_polynomial_lr_new(o))                                                                             \
    X(fac_cosine_annealing_lr_new(o, 7))                                                                    \
    X(fac_cosine_annealing_warm_restarts_new(o, 3, .T_mult = 2))                                            \
    X(fac_cyclic_lr_new(o, 0.1, 0.2, .step_size_up = 3))                                                    \
    X(fac_one_cycle_lr_new(o, 1, .total_steps = 20))                                                        \
    X(fac_swa_lr_new(o, 0.01))                                                                              \
    X(fac_chained_scheduler_new(FAC_SCHEDULERS(fac_linear_lr_new(o), fac_exponential_lr_new(o, 0.9))))      \
    X(fac_sequential_lr_new(o, FAC_SCHEDULERS(fac_linear_lr_new(o), fac_multi_step_lr_new(o, FAC_INTS(1))), \
                            FAC_INTS(3)))                                                                   \
    X(fac_reduce_lr_on_plateau_new(o, .patience = 1))
enum { LAST_KIND = 15 };

/* One of the kinds by number. */
static fac_lr_scheduler *make(size_t kind, fac_optimizer *o) {
    size_t n = 0;
#define MAKE_IF(call) \
    if (n++ == kind) return call;
    KINDS(MAKE_IF)
    return NULL;
}

static fac_status step(size_t kind, fac_lr_scheduler *s) {
    return kind == LAST_KIND ? fac_lr_scheduler_step_metric(s, 1) : fac_lr_scheduler_step(s);
}

/* All numbers of a state, to be compared. */
static bool same(const fac_state *a, const fac_state *b) {
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++) equal = fac_equal(a->v[i].tensor, b->v[i].tensor);
    return equal;
}

static void schedules_go_on_where_they_stopped(void **state) {
    (void)state;
    for (size_t kind = 0; kind <= LAST_KIND; kind++) {
        FAC_SCOPE(scope);
        fac_optimizer *a = two_groups(), *b = two_groups();
        fac_lr_scheduler *s = make(kind, a), *t = make(kind, b);
        for (int i = 0; i < 4; i++) assert_ok(step(kind, s));
        fac_state *of_a = fac_optimizer_state_dict(a), *of_s = fac_lr_scheduler_state_dict(s);
        assert_ok(fac_optimizer_load_state_dict(b, of_a));
        assert_ok(fac_lr_scheduler_load_state_dict(t, of_s));
        for (int i = 0; i < 5; i++) {
            assert_ok(step(kind, s));
            assert_ok(step(kind, t));
            for (size_t g = 0; g < 2; g++) {
                assert_true(fac_optimizer_option(a, g, "lr") == fac_optimizer_option(b, g, "lr"));
                assert_true(fac_optimizer_option(a, g, "lr") == fac_lr_scheduler_last_lr(s, g));
            }
        }
        assert_int_equal(fac_lr_scheduler_last_epoch(s), fac_lr_scheduler_last_epoch(t));
        fac_state_free(of_a);
        fac_state_free(of_s);
        fac_lr_scheduler_release(s);
        fac_lr_scheduler_release(t);
        fac_optimizer_release(a);
        fac_optimizer_release(b);
    }
}

static size_t kind_that_fails;

static fac_status use(void *context) {
    (void)context;
    FAC_SCOPE(scope);
    fac_optimizer *o = two_groups();
    fac_lr_scheduler *s = o ? make(kind_that_fails, o) : NULL;
    if (s && !step(kind_that_fails, s)) {
        fac_state *saved = fac_lr_scheduler_state_dict(s);
        if (saved) (void)!fac_lr_scheduler_load_state_dict(s, saved);
        fac_state_free(saved);
    }
    fac_lr_scheduler_release(s);
    fac_optimizer_release(o);
    return fac_error();
}

static void schedules_survive_failing_allocations(void **state) {
    (void)state;
    for (kind_that_fails = 0; kind_that_fails <= LAST_KIND; kind_that_fails++) support_fail_each_allocation(use, NULL);
}

/* A number that is not there, one too long, a senseless one and one too many: the schedule is as it was. */
static void schedule_states_that_are_bad_change_nothing(void **state) {
    (void)state;
    for (size_t kind = 0; kind <= LAST_KIND; kind++) {
        FAC_SCOPE(scope);
        fac_optimizer *o = two_groups();
        fac_lr_scheduler *s = make(kind, o);
        fac_state *before = fac_lr_scheduler_state_dict(s), *after;
        assert_ok(step(kind, s));
        fac_state *saved = fac_lr_scheduler_state_dict(s);
        assert_false(same(before, saved));
        const struct {
            const char *name;
            fac_tensor *other;
            fac_status code;
        } cases[] = {{"last_epoch", NULL, FAC_ERR_NOT_FOUND},
                     {"last_lr", fac_ones(FAC_SHAPE(3)), FAC_ERR_SHAPE},
                     {"last_epoch", fac_tensor_of(0.5), FAC_ERR_ARGUMENT},
                     {"step_count", fac_tensor_of(NAN), FAC_ERR_ARGUMENT},
                     {"more", fac_tensor_of(1), FAC_ERR_ARGUMENT}};
        for (size_t i = 0; i < FAC_COUNT(cases); i++) {
            fac_state *bad = fac_state_part(before, "");
            fac_state_remove(bad, cases[i].name);
            if (cases[i].other) assert_ok(fac_state_set(bad, cases[i].name, cases[i].other));
            assert_int_equal(fac_lr_scheduler_load_state_dict(s, bad), cases[i].code);
            fac_error_clear();
            after = fac_lr_scheduler_state_dict(s);
            assert_true(same(after, saved));
            fac_state_free(after);
            fac_state_free(bad);
        }
        fac_state_free(before);
        fac_state_free(saved);
        fac_lr_scheduler_release(s);
        fac_optimizer_release(o);
    }
}

static void schedules_want_the_groups_that_they_were_made_for(void **state) {
    (void)state;
    for (size_t kind = 0; kind <= LAST_KIND; kind++) {
        FAC_SCOPE(scope);
        fac_optimizer *o = two_groups();
        fac_lr_scheduler *s = make(kind, o);
        fac_state *saved = fac_lr_scheduler_state_dict(s);
        assert_ok(fac_optimizer_add_group(o, FAC_TENSORS(parameter()), FAC_OPTIONS()));
        assert_int_equal(step(kind, s), FAC_ERR_STATE);
        assert_error(FAC_ERR_STATE, "was made for 2 groups, but the optimiser has 3");
        assert_int_equal(fac_lr_scheduler_load_state_dict(s, saved), FAC_ERR_STATE);
        fac_error_clear();
        fac_state_free(saved);
        fac_lr_scheduler_release(s);
        fac_optimizer_release(o);
    }
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

#define REFUSED(call, message)                   \
    do {                                         \
        assert_null(call);                       \
        assert_error(FAC_ERR_ARGUMENT, message); \
    } while (0)

static void schedules_refuse_settings_that_make_no_sense(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_optimizer *o = two_groups(), *adagrad = fac_adagrad_of(FAC_TENSORS(parameter()), 0.5);
    REFUSED(fac_step_lr_new(o, 0), "step_size should be a whole number other than 0, not 0");
    REFUSED(fac_step_lr_new(o, 1, .gamma = NAN), "StepLR: gamma is not a number");
    REFUSED(fac_step_lr_new(o, 1, .last_epoch = -2), "last_epoch should be -1 or more, not -2");
    REFUSED(fac_exponential_lr_new(o, NAN), "gamma is not a number");
    REFUSED(fac_constant_lr_new(o, .factor = 1.5), "factor should be between 0 and 1, not 1.5");
    REFUSED(fac_linear_lr_new(o, .start_factor = 0), "start_factor should be above 0");
    REFUSED(fac_linear_lr_new(o, .end_factor = 2), "end_factor should be between 0 and 1, not 2");
    REFUSED(fac_cosine_annealing_lr_new(o, 0), "T_max should be a whole number other than 0");
    REFUSED(fac_cosine_annealing_warm_restarts_new(o, 0), "T_0 should be a whole number above 0");
    REFUSED(fac_cosine_annealing_warm_restarts_new(o, 1, .T_mult = 0), "T_mult should be a whole number from 1");
    REFUSED(fac_cyclic_lr_new(o, 0.1, 0.2, .step_size_up = 0), "neither step_size_up nor its sum");
    REFUSED(fac_cyclic_lr_new(o, 0.1, 0.2, .step_size_up = 3, .step_size_down = -3), "they are 3 and -3");
    REFUSED(fac_cyclic_lr_new(o, 0.1, 0.2, .mode = "square"), "mode should be one of \"triangular\", \"triangular2\"");
    REFUSED(fac_cyclic_lr_new(o, 0.1, 0.2, .scale_mode = "x"), "scale_mode should be one of \"cycle\", \"iterations\"");
    REFUSED(fac_cyclic_lr_new(o, 0.1, 0.2, .max_lrs = FAC_FLOATS(1)), "max_lrs has 1 numbers for 2 groups");
    REFUSED(fac_cyclic_lr_new(adagrad, 0.1, 0.2), "Adagrad has no momentum and no beta1 to cycle");
    REFUSED(fac_cyclic_lr_new(o, 0.1, 0.2, .max_momentum = -1), "momentum");
    REFUSED(fac_constant_lr_new(o, .factor = 0, .total_iters = 0, .last_epoch = -2), "last_epoch should be -1 or more");
    REFUSED(fac_one_cycle_lr_new(o, 1, .total_steps = 10, .div_factor = 0),
            "OneCycleLR: the rate of group 0 would be inf");
    REFUSED(fac_one_cycle_lr_new(o, 1, .total_steps = 10, .pct_start = 0.1),
            "OneCycleLR: the rate of group 0 would be");
    REFUSED(fac_one_cycle_lr_new(o, 1), "total_steps, or epochs and steps_per_epoch, should be whole numbers above 0");
    REFUSED(fac_one_cycle_lr_new(o, 1, .total_steps = 5, .pct_start = 2), "pct_start should be between 0 and 1");
    REFUSED(fac_one_cycle_lr_new(o, 1, .total_steps = 5, .anneal_strategy = "sin"),
            "anneal_strategy should be one of \"cos\"");
    REFUSED(fac_reduce_lr_on_plateau_new(o, .factor = 1), "factor should be below 1");
    REFUSED(fac_reduce_lr_on_plateau_new(o, .mode = "least"), "mode should be one of \"min\", \"max\", not \"least\"");
    REFUSED(fac_reduce_lr_on_plateau_new(o, .min_lrs = FAC_FLOATS(1, 2, 3)), "min_lrs has 3 numbers for 2 groups");
    REFUSED(fac_swa_lr_new(o, 0.1, .anneal_epochs = -1), "anneal_epochs should be a whole number from 0");
    REFUSED(fac_swa_lr_new(o, 0.1, .anneal_strategy = NULL), "not \"NULL\"");
    REFUSED(fac_lambda_lr_new(o, NULL, NULL), "the function of a schedule is NULL");
    REFUSED(fac_step_lr_new(NULL, 1), "the optimiser of a schedule is NULL");
    for (size_t g = 0; g < 2; g++) {
        assert_true(fac_optimizer_option(o, g, "lr") == (g ? 0.25 : 0.5));
        assert_true(fac_optimizer_option(o, g, "initial_lr") == (g ? 0.25 : 0.5));
    }
    fac_optimizer_release(o);
    fac_optimizer_release(adagrad);
}

static void schedule_steps_that_are_refused_change_nothing(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_optimizer *o = two_groups();
    fac_lr_scheduler *s = fac_lambda_lr_new(o, bad_at_three, NULL), *p = fac_reduce_lr_on_plateau_new(o);
    for (int i = 0; i < 2; i++) assert_ok(fac_lr_scheduler_step(s));
    fac_state *before = fac_lr_scheduler_state_dict(s);
    assert_int_equal(fac_lr_scheduler_step(s), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "LambdaLR: the rate of group 1 would be inf at epoch 3");
    fac_state *after = fac_lr_scheduler_state_dict(s);
    assert_true(same(before, after) && fac_optimizer_option(o, 0, "lr") == 0.25);
    assert_int_equal(fac_lr_scheduler_step(p), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "call fac_lr_scheduler_step_metric");
    assert_int_equal(fac_lr_scheduler_step_metric(s, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "LambdaLR goes by no metric");
    assert_int_equal(fac_lr_scheduler_step_to(s, -1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid epoch: -1");
    assert_int_equal(fac_lr_scheduler_step_to(s, 1.5), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "LambdaLR takes whole epochs, not 1.5");
    assert_int_equal(fac_lr_scheduler_step_to(p, 1), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "cannot be set to an epoch");
    assert_true(fac_lr_scheduler_last_lr(s, 2) == 0);
    assert_error(FAC_ERR_INDEX, "group 2 is out of range: the schedule has 2");
    fac_state_free(before);
    fac_state_free(after);
    fac_lr_scheduler_release(s);
    fac_lr_scheduler_release(p);
    fac_optimizer_release(o);
}

/* A rate that a schedule has made negative is kept in a state, stays when other settings change, and is refused from a caller. */
static void schedule_rates_below_0_come_back(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_optimizer *a = two_groups(), *b = two_groups();
    fac_lr_scheduler *s = fac_exponential_lr_new(a, -0.5);
    assert_ok(fac_lr_scheduler_step(s));
    assert_true(fac_optimizer_option(a, 0, "lr") == -0.25 && fac_optimizer_option(a, 1, "lr") == -0.125);
    assert_ok(fac_optimizer_set_option(a, 0, "momentum", 0.25));
    assert_int_equal(fac_optimizer_set_option(a, 0, "lr", -0.25), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid learning rate: -0.25");
    assert_int_equal(fac_optimizer_set_option(a, 0, "momentum", -1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid momentum value: -1");
    fac_state *saved = fac_optimizer_state_dict(a);
    assert_ok(fac_optimizer_load_state_dict(b, saved));
    assert_true(fac_optimizer_option(b, 0, "lr") == -0.25 && fac_optimizer_option(b, 0, "momentum") == 0.25);
    assert_ok(fac_state_set(saved, "param_groups.0.lr", fac_tensor_of(NAN)));
    assert_int_equal(fac_optimizer_load_state_dict(b, saved), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "invalid learning rate");
    fac_state_free(saved);
    fac_lr_scheduler_release(s);
    fac_optimizer_release(a);
    fac_optimizer_release(b);
}

static void one_cycle_ends(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_optimizer *o = two_groups();
    fac_lr_scheduler *s = fac_one_cycle_lr_new(o, 1, .total_steps = 5);
    for (int i = 0; i < 5; i++) assert_ok(fac_lr_scheduler_step(s));
    const double lr = fac_optimizer_option(o, 0, "lr");
    assert_int_equal(fac_lr_scheduler_step(s), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "tried to step 6 times; the number of total steps is 5");
    assert_true(fac_optimizer_option(o, 0, "lr") == lr && fac_lr_scheduler_last_epoch(s) == 5);
    fac_lr_scheduler_release(s);
    fac_optimizer_release(o);
}

/* ---- parts ----------------------------------------------------------------------------------------------------------------- */

/* All of them are freed, whatever is wrong. */
static void schedules_of_schedules_own_their_parts(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_optimizer *o = two_groups(), *other = two_groups();
    REFUSED(fac_chained_scheduler_new((fac_lr_schedulers){NULL, 0}), "ChainedScheduler expects at least one schedule");
    REFUSED(fac_chained_scheduler_new((fac_lr_schedulers){NULL, 2}), "schedules");
    REFUSED(fac_chained_scheduler_new(FAC_SCHEDULERS(fac_linear_lr_new(o), fac_linear_lr_new(other))),
            "another optimiser");
    REFUSED(fac_chained_scheduler_new(FAC_SCHEDULERS(fac_linear_lr_new(o), NULL)), "a schedule of the list is NULL");
    REFUSED(fac_chained_scheduler_new(FAC_SCHEDULERS(fac_linear_lr_new(o), fac_step_lr_new(o, 0))), "step_size");
    REFUSED(fac_chained_scheduler_new(FAC_SCHEDULERS(fac_reduce_lr_on_plateau_new(o))), "which goes by a metric");
    REFUSED(fac_sequential_lr_new(o, FAC_SCHEDULERS(fac_linear_lr_new(o), fac_linear_lr_new(o)), FAC_INTS()),
            "expects one milestone less than there are schedules, but got 0 for 2");
    REFUSED(fac_sequential_lr_new(NULL, FAC_SCHEDULERS(fac_linear_lr_new(o)), FAC_INTS()),
            "the optimiser of a schedule is NULL");
    fac_lr_scheduler *twice = fac_linear_lr_new(o);
    REFUSED(fac_chained_scheduler_new(FAC_SCHEDULERS(twice, twice)), "a schedule is a part already");
    fac_lr_scheduler *chain = fac_chained_scheduler_new(FAC_SCHEDULERS(fac_linear_lr_new(o)));
    REFUSED(fac_sequential_lr_new(o, FAC_SCHEDULERS(fac_linear_lr_new(o), chain), FAC_INTS(3)),
            "ChainedScheduler, which cannot begin later, can only be the first");
    fac_optimizer_release(o);
    fac_optimizer_release(other);
}

FAC_TEST_MAIN(FAC_TEST(schedules_go_on_where_they_stopped), FAC_TEST(schedules_survive_failing_allocations),
              FAC_TEST(schedule_states_that_are_bad_change_nothing),
              FAC_TEST(schedules_want_the_groups_that_they_were_made_for),
              FAC_TEST(schedules_refuse_settings_that_make_no_sense),
              FAC_TEST(schedule_steps_that_are_refused_change_nothing), FAC_TEST(schedule_rates_below_0_come_back),
              FAC_TEST(one_cycle_ends), FAC_TEST(schedules_of_schedules_own_their_parts))
