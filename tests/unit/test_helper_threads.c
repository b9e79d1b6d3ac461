/* Threads that a backward pass takes: signals stay with the threads of the program. */
#include "autograd_test.h"
#include <pthread.h>
#include <signal.h>

enum { NESTED = 70 }; /* more than a thread runs within each other */

static int depth;
static bool elsewhere, took_signals;
static pthread_t caller;

static void look_at_the_thread(void) {
    sigset_t blocked;
    if (pthread_equal(pthread_self(), caller)) return;
    elsewhere = true;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    took_signals = took_signals || !sigismember(&blocked, SIGUSR1);
}

static fac_tensor *go_deeper(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    look_at_the_thread();
    if (++depth >= NESTED) return NULL;
    FAC_SCOPE(s);
    FAC_ENABLE_GRAD(on);
    fac_tensor *x = leaf(DOUBLES(1, 2));
    if (fac_register_hook(x, go_deeper, NULL)) (void)!fac_backward(fac_sum(fac_mul(x, 2.0)));
    return NULL;
}

static void backward_nested_deeper_than_a_thread_bears_takes_no_signals(void **state) {
    (void)state;
    FAC_SCOPE(s);
    depth = 0;
    elsewhere = took_signals = false;
    caller = pthread_self();
    fac_tensor *x = leaf(DOUBLES(1, 2));
    assert_non_null(fac_register_hook(x, go_deeper, NULL));
    assert_ok(fac_backward(fac_sum(fac_mul(x, 2.0))));
    assert_int_equal(depth, NESTED);
    assert_true(elsewhere);
    assert_false(took_signals);
}

FAC_TEST_MAIN(FAC_TEST(backward_nested_deeper_than_a_thread_bears_takes_no_signals))
