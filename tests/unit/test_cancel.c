/* fac_cancel: from the thread itself, from another, from a signal handler; in operators, backward passes, modules. */
#include "support/support.h"
#include <facula/facula.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void cancelled_thread_fails_its_next_operator_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(3));
    assert_true(fac_thread_number() > 0);
    assert_true(fac_cancel(fac_thread_number()));
    assert_true(fac_cancel(fac_thread_number())); /* no second one */
    assert_null(fac_relu(x));
    assert_error(FAC_ERR_INTERRUPTED, "cancelled");
    assert_non_null(fac_relu(x));
    assert_true(fac_cancel(fac_thread_number()));
    fac_value args[] = {fac_value_tensor(x)}, out;
    assert_int_equal(fac_call("aten::relu", args, 1, &out), FAC_ERR_INTERRUPTED);
    fac_error_clear();
    fac_value_release(&args[0]);
    assert_non_null(fac_relu(x));
}

static void random_numbers_of_a_cancelled_operator_are_drawn_by_the_next(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(3);
    fac_tensor *expected = fac_rand(FAC_SHAPE(4));
    fac_manual_seed(3);
    fac_cancel(fac_thread_number());
    assert_null(fac_rand(FAC_SHAPE(4)));
    assert_error(FAC_ERR_INTERRUPTED, "rand");
    assert_true(fac_equal(fac_rand(FAC_SHAPE(4)), expected));
}

static void unknown_threads_are_not_cancelled(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_false(fac_cancel(0));
    assert_false(fac_cancel(-1));
    assert_false(fac_cancel(INT64_MIN));
    assert_false(fac_cancel(fac_thread_number() + 4096)); /* its place, by a later thread */
    assert_false(fac_cancel(fac_thread_number() + 1));
    assert_non_null(fac_ones(FAC_SHAPE(1)));
}

/* ---- other threads -------------------------------------------------------------------------------------------------- */

typedef struct endless {
    _Atomic(int64_t) number;
    fac_status code;
    bool backward;
} endless;

static void *run_endless(void *arg) {
    endless *e = arg;
    FAC_SCOPE(s);
    fac_tensor *w = fac_ones(FAC_SHAPE(8, 8), .requires_grad = true);
    atomic_store(&e->number, fac_thread_number());
    while (!fac_error()) {
        FAC_SCOPE(step);
        fac_tensor *y = fac_sum(fac_mm(w, w));
        if (y && e->backward && fac_backward(y)) break;
    }
    e->code = fac_error();
    fac_error_clear();
    return NULL;
}

static void cancel_ends_the_loop_of_another_thread(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        endless e = {.backward = round % 2};
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, run_endless, &e), 0);
        while (!atomic_load(&e.number)) usleep(100);
        usleep((useconds_t)(round * 50));
        assert_true(fac_cancel(atomic_load(&e.number)));
        pthread_join(t, NULL);
        assert_int_equal(e.code, FAC_ERR_INTERRUPTED);
        assert_false(fac_cancel(atomic_load(&e.number))); /* it has gone */
    }
    FAC_SCOPE(s);
    assert_non_null(fac_ones(FAC_SHAPE(1)));
}

/* ---- signals -------------------------------------------------------------------------------------------------------- */

static int64_t to_cancel;
static void on_signal(int number) {
    (void)number;
    fac_cancel(to_cancel);
}

static void cancel_from_a_signal_handler_ends_a_backward_pass(void **state) {
    (void)state;
    FAC_SCOPE(s);
    struct sigaction handle = {.sa_handler = on_signal}, before;
    sigaction(SIGALRM, &handle, &before);
    to_cancel = fac_thread_number();
    fac_tensor *x = fac_full(FAC_SHAPE(1), 0.5, .requires_grad = true), *y = x;
    for (int i = 0; i < 20000; i++) y = fac_sin(y);
    ualarm(2000, 0);
    fac_status st = FAC_OK;
    while (st == FAC_OK) st = fac_backward(y, .retain_graph = true);
    assert_int_equal(st, FAC_ERR_INTERRUPTED);
    fac_error_clear();
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(fac_backward(y), FAC_OK);
}

FAC_TEST_MAIN(FAC_TEST(cancelled_thread_fails_its_next_operator_once),
              FAC_TEST(random_numbers_of_a_cancelled_operator_are_drawn_by_the_next),
              FAC_TEST(unknown_threads_are_not_cancelled), FAC_TEST(cancel_ends_the_loop_of_another_thread),
              FAC_TEST(cancel_from_a_signal_handler_ends_a_backward_pass))
