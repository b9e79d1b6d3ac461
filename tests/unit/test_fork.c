/* Forks of a process whose other threads compute, differentiate, register operators, come and go: each child finds every
   lock free and what it guards whole. */
#include "base/mutex.h"

#include "support/child.h"
#include "support/dispatch.h"
#include <facula/facula.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Threads that a fork leaves behind are nobody's to join in the child. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "report_thread_leaks=0"; }

static atomic_bool stop;
static atomic_int failures, rounds;

/* ---- what threads and children do ---------------------------------------------------------------------------------------- */

static fac_tensor *shared_leaf; /* of all threads, so that its accumulator is locked often */

static bool differentiate(void) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_dropout(fac_randn(FAC_INTS(64, 64)), 0.5, true);
    return fac_backward(fac_sum(fac_matmul(x, shared_leaf))) == FAC_OK;
}

/* Of a shape that no primitive of oneDNN is kept for, now and then. */
static bool convolve(int64_t size) {
    FAC_SCOPE(s);
    fac_tensor *image = fac_randn(FAC_INTS(2, 8, size, size)), *kernel = fac_randn(FAC_INTS(8, 8, 3, 3));
    return fac_conv2d(image, kernel, NULL) && fac_sum(fac_exp(fac_randn(FAC_INTS(1 << 17))));
}

static bool register_one(int i) {
    char schema[64], name[64];
    snprintf(schema, sizeof schema, "forks::f%d(Tensor x) -> int", i);
    snprintf(name, sizeof name, "forks::f%d", i);
    fac_registration *k = fac_register_boxed(name, "CPU", ANSWER(one), FAC_HERE);
    fac_registration *o = fac_register_operator(schema, FAC_HERE);
    const bool well = k && o && fac_operator_lookup(name);
    fac_registration_release(o);
    fac_registration_release(k);
    return well;
}

static void *train(void *context) {
    while (!atomic_load(&stop)) {
        if (!differentiate()) atomic_fetch_add(&failures, 1);
        atomic_fetch_add(&rounds, 1);
    }
    return context;
}

static void *convolve_many(void *context) {
    for (int64_t i = 0; !atomic_load(&stop); i++)
        if (!convolve(8 + i % 150)) atomic_fetch_add(&failures, 1);
    return context;
}

static void *register_many(void *context) {
    for (int i = 0; !atomic_load(&stop); i++) {
        if (!register_one(i % 20)) atomic_fetch_add(&failures, 1);
        usleep(100); /* what is released stays until the library ends */
    }
    return context;
}

static void *use_once(void *context) {
    FAC_SCOPE(s);
    return fac_randn(FAC_INTS(16)) ? context : NULL;
}

static void *come_and_go(void *context) {
    while (!atomic_load(&stop)) {
        pthread_t t;
        void *well = NULL;
        if (pthread_create(&t, NULL, use_once, &stop) == 0) pthread_join(t, &well);
        if (!well) atomic_fetch_add(&failures, 1);
    }
    return context;
}

static int do_everything(void) {
    if (!differentiate()) return 1;
    if (!convolve(9) || !convolve(9 + (int64_t)(getpid() % 200))) return 2;
    if (!register_one(1000)) return 3;
    fac_memory_trim();
    return fac_error() == FAC_OK ? 0 : 4;
}

static void fork_children_of_a_busy_process_find_no_lock_held(void **state) {
    (void)state;
    if (!FAC_FREELISTS) {
        print_message(
            "AddressSanitizer's own allocator may be locked in the child of a process whose threads allocate\n");
        skip();
    }
    static void *(*const bodies[])(void *) = {train, train, convolve_many, register_many, come_and_go};
    enum { THREADS = FAC_COUNT(bodies) };
    const char *asked = getenv("FACULA_FORKS");
    const int forks = asked ? atoi(asked) : 100;
    pthread_t threads[THREADS];
    int bad = 0, status = 0, made = 0;
    FAC_SCOPE(s);
    shared_leaf = fac_ones(FAC_INTS(64, 64), .requires_grad = true);
    atomic_store(&stop, false);
    for (; made < THREADS; made++)
        if (pthread_create(&threads[made], NULL, bodies[made], NULL)) break;
    for (int i = 0; i < forks && bad == 0; i++) {
        status = in_child(do_everything);
        bad += status != 0;
    }
    atomic_store(&stop, true);
    while (made--) pthread_join(threads[made], NULL);
    assert_int_equal(status, 0);
    assert_int_equal(failures, 0);
    assert_true(rounds > 0);
}

/* ---- the gate itself ----------------------------------------------------------------------------------------------------- */

static fac_mutex recursive = FAC_MUTEX_INIT_RECURSIVE, plain = FAC_MUTEX_INIT;

static int lock_both(void) {
    fac__mutex_lock(&recursive);
    fac__mutex_lock(&plain);
    fac__mutex_unlock(&plain);
    fac__mutex_unlock(&recursive);
    return 0;
}

/* As from a function that the library calls under its lock: the child has the lock, and may lock it again. */
static void fork_under_a_lock_keeps_it_for_the_child(void **state) {
    (void)state;
    fac__mutex_lock(&recursive);
    fac__mutex_lock(&recursive);
    const int status = in_child(lock_both);
    fac__mutex_unlock(&recursive);
    fac__mutex_unlock(&recursive);
    assert_int_equal(status, 0);
    assert_int_equal(in_child(lock_both), 0);
}

static void *lock_often(void *context) {
    while (!atomic_load(&stop)) {
        fac__mutex_lock(&plain);
        usleep(200);
        fac__mutex_unlock(&plain);
    }
    return context;
}

static void fork_waits_for_holders_of_a_lock(void **state) {
    (void)state;
    pthread_t t[2];
    int status = 0;
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, lock_often, NULL), 0);
    for (int i = 0; i < 50 && status == 0; i++) status = in_child(lock_both);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    assert_int_equal(status, 0);
}

typedef struct gate {
    fac_mutex lock;
    fac_cond opened;
    bool open;
    int through;
} gate;

static void *go_through(void *context) {
    gate *g = context;
    fac__mutex_lock(&g->lock);
    while (!g->open) fac__cond_wait(&g->opened, &g->lock);
    g->through++;
    fac__mutex_unlock(&g->lock);
    return NULL;
}

/* Those who sleep on a condition hold nothing: the fork is not kept waiting by them. */
static void fork_does_not_wait_for_sleepers(void **state) {
    (void)state;
    gate g = {.lock = FAC_MUTEX_INIT};
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, go_through, &g), 0);
    usleep(20000);
    const double begin = fac__now();
    const int status = in_child(lock_both);
    const double took = fac__now() - begin;
    fac__mutex_lock(&g.lock);
    g.open = true;
    fac__cond_announce(&g.opened);
    fac__mutex_unlock(&g.lock);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    fac__mutex_destroy(&g.lock);
    assert_int_equal(status, 0);
    assert_int_equal(g.through, 3);
    assert_true(took < FAC_FORK_PATIENCE);
}

static atomic_bool locked;

/* For longer than a fork has patience. */
static void *hold_long(void *context) {
    fac__mutex_lock(&plain);
    atomic_store(&locked, true);
    usleep((useconds_t)(1.4e6 * FAC_FORK_PATIENCE));
    fac__mutex_unlock(&plain);
    return context;
}

static int hurry(void) { return 0; }

static void *fork_at_once(void *context) {
    *(int *)context = in_child(hurry);
    return NULL;
}

/* The patience of a fork that waits for another one begins when it is its turn. */
static void fork_after_an_impatient_one_still_waits_for_holders(void **state) {
    (void)state;
    pthread_t holder, impatient;
    int first = -1;
    assert_int_equal(pthread_create(&holder, NULL, hold_long, NULL), 0);
    while (!atomic_load(&locked)) usleep(1000);
    assert_int_equal(pthread_create(&impatient, NULL, fork_at_once, &first), 0);
    usleep(100000);
    const int second = in_child(lock_both);
    pthread_join(impatient, NULL);
    pthread_join(holder, NULL);
    assert_int_equal(first, 0);
    assert_int_equal(second, 0);
}

FAC_TEST_MAIN(DISPATCH_TEST(fork_children_of_a_busy_process_find_no_lock_held),
              FAC_TEST(fork_under_a_lock_keeps_it_for_the_child), FAC_TEST(fork_waits_for_holders_of_a_lock),
              FAC_TEST(fork_does_not_wait_for_sleepers), FAC_TEST(fork_after_an_impatient_one_still_waits_for_holders))
