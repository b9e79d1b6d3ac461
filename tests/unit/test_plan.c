/* The schedule of facula train, and how many steps fit into a time. */
#include "support/support.h"

#include "../../apps/facula/plan.c"

static bool near(double a, double b) { return fabs(a - b) < 1e-12; }

static void plan_warms_up_stays_and_goes_down_to_zero(void **state) {
    (void)state;
    const plan p = {.peak = 2, .warmup = 10, .steps = 100};
    assert_true(near(plan_rate(&p, 0), 0.2));
    assert_true(near(plan_rate(&p, 4), 1));
    assert_true(near(plan_rate(&p, 9), 2));
    assert_true(near(plan_rate(&p, 30), 2));
    assert_true(near(plan_rate(&p, 65), 1));
    assert_true(near(plan_rate(&p, 99), 2.0 / 70));
    assert_true(near(plan_rate(&p, 100), 0));
    assert_true(near(plan_rate(&p, 1000), 0));
    assert_true(near(plan_rate(&(plan){.peak = 2, .steps = 100}, 0), 2));
    /* A training shorter than its warm-up goes down before it was up. */
    assert_true(plan_rate(&(plan){.peak = 2, .warmup = 50, .steps = 10}, 9) < 2.0 / 7 + 1e-12);
}

/* A hundred steps a second for 10 s, of which 1 is needed at the end: 250 when a quarter has passed, 650 more. */
static void plan_fits_steps_into_a_time(void **state) {
    (void)state;
    plan p = {.peak = 1, .warmup = 10, .seconds = 10};
    assert_false(plan_decide(&p, 0, 0, 5, 1));
    assert_false(plan_decide(&p, 200, 100, 2.4, 1));
    assert_int_equal(p.steps, 0);
    assert_int_equal(plan_expect(&p, 200, 100, 2), 1000);
    assert_true(plan_decide(&p, 250, 100, 2.5, 1));
    assert_int_equal(p.steps, 900);
    assert_false(plan_decide(&p, 300, 100, 3, 1));
    assert_int_equal(plan_expect(&p, 300, 100, 3), 900);
}

/* One that was stopped after 150 steps goes on with the whole time. */
static void plan_of_a_training_that_goes_on_counts_the_steps_before(void **state) {
    (void)state;
    plan p = {.peak = 1, .warmup = 10, .seconds = 10};
    assert_int_equal(plan_expect(&p, 150, 100, 0), 1150);
    assert_true(plan_decide(&p, 400, 100, 2.5, 0));
    assert_int_equal(p.steps, 1334); /* not 1150: 400 steps at the peak make the whole so long */
}

/* What was trained before the number of steps was known is what a training of that number does. */
static void plan_that_is_decided_late_changes_no_rate_before(void **state) {
    (void)state;
    for (int64_t decided = 1; decided < 400; decided += 7)
        for (double slow = 1; slow < 10; slow *= 1.5) {
            plan p = {.peak = 1, .warmup = 10, .seconds = 10};
            const plan before = p;
            assert_true(plan_decide(&p, decided, (double)decided / (2.4 * slow), 2.5 * slow, 0.5));
            assert_true(p.steps >= decided);
            for (int64_t step = 0; step < decided; step++) assert_true(plan_rate(&p, step) == plan_rate(&before, step));
        }
}

FAC_TEST_MAIN(FAC_TEST(plan_warms_up_stays_and_goes_down_to_zero), FAC_TEST(plan_fits_steps_into_a_time),
              FAC_TEST(plan_of_a_training_that_goes_on_counts_the_steps_before),
              FAC_TEST(plan_that_is_decided_late_changes_no_rate_before))
