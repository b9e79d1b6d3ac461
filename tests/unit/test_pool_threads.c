/* The threads that work for parallel loops: many callers, none to be had, forks, ends and beginnings. What they compute is
   checked against what one thread computes. */
#define _GNU_SOURCE
#include "backend/cpu/parallel.h"
#include "backend/cpu/workers.h"
#include "base/sanitizers.h"
#include "core/thread.h"

#include "support/child.h"
#include "support/support.h"
#include <dirent.h>
#include <facula/facula.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- one job at a time ------------------------------------------------------------------------------------------------- */

typedef struct tally {
    int64_t begin, end, grain, fail_from;
    atomic_uchar *seen; /* by element */
    atomic_int wrong;   /* chunks that are not where they should be */
} tally;

static fac_status count_chunk(void *context, int64_t begin, int64_t end) {
    tally *t = context;
    if ((begin - t->begin) % t->grain || (end != t->end && end - begin != t->grain)) atomic_fetch_add(&t->wrong, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&t->seen[i - t->begin], 1);
    FAC_CHECK(begin < t->fail_from, FAC_ERR_ARGUMENT, "chunk at %lld", (long long)begin);
    return FAC_OK;
}

static uint64_t draw(uint64_t *seed) { return (*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33; }

/* A loop of random size, begun anywhere. Returns what is wrong with it, or NULL. */
static const char *run_random_job(uint64_t *seed, atomic_uchar *seen, int64_t room) {
    tally t = {
        .begin = (int64_t)(draw(seed) % 100) - 50, .grain = 1 + (int64_t)(draw(seed) % 40), .fail_from = INT64_MAX};
    t.end = t.begin + (int64_t)(draw(seed) % (uint64_t)room);
    t.seen = seen;
    memset(seen, 0, (size_t)room);
    const bool fails = draw(seed) % 8 == 0 && t.end > t.begin;
    if (fails) t.fail_from = t.begin + (int64_t)(draw(seed) % (uint64_t)(t.end - t.begin));
    if (fac_set_num_threads(1 + (int)(draw(seed) % 7))) return "set_num_threads failed";
    fac_status st = fac__parallel_for(t.begin, t.end, t.grain, count_chunk, &t);
    if (t.wrong) return "a chunk lies elsewhere";
    const int64_t chunk = fails ? (t.fail_from - t.begin + t.grain - 1) / t.grain : INT64_MAX / t.grain - 100;
    const int64_t first = t.begin + chunk * t.grain; /* the first that fails */
    const bool failed = first < t.end;
    if (st != (failed ? FAC_ERR_ARGUMENT : FAC_OK)) return "the status is another";
    char expected[64];
    snprintf(expected, sizeof expected, "chunk at %lld", (long long)first);
    if (failed && !strstr(fac_error_message(), expected)) return "not the lowest chunk's error";
    fac_error_clear();
    const int64_t all = failed ? first : t.end;
    for (int64_t i = t.begin; i < all; i++)
        if (seen[i - t.begin] != 1) return "an element was not visited once";
    return NULL;
}

static const char *run_random_jobs(uint64_t seed, int n) {
    enum { ROOM = 3000 };
    atomic_uchar *seen = malloc(ROOM);
    const char *wrong = seen ? NULL : "no memory";
    while (!wrong && n--) wrong = run_random_job(&seed, seen, ROOM);
    free(seen);
    return wrong;
}

static void pool_random_jobs_visit_each_element_once(void **state) {
    (void)state;
    const char *wrong = run_random_jobs(7, 4000);
    if (wrong) fail_msg("%s", wrong);
}

/* ---- nested and concurrent ----------------------------------------------------------------------------------------------- */

typedef struct inner {
    atomic_llong sum;
    atomic_int outside; /* inner chunks that did not know where they were */
} inner;

static fac_status add_up(void *context, int64_t begin, int64_t end) {
    inner *n = context;
    if (!fac__in_parallel()) atomic_fetch_add(&n->outside, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&n->sum, i);
    return FAC_OK;
}
static fac_status add_up_inside(void *context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) FAC_TRY(fac__parallel_for(i * 100, i * 100 + 100, 7, add_up, context));
    return FAC_OK;
}

static void pool_nested_jobs_are_done_once(void **state) {
    (void)state;
    for (int threads = 2; threads <= 5; threads++) {
        inner n = {0};
        assert_ok(fac_set_num_threads(threads));
        assert_ok(fac__parallel_for(0, 300, 1, add_up_inside, &n));
        assert_int_equal(n.sum, 30000LL * 29999 / 2);
        assert_int_equal(n.outside, 0);
        assert_false(fac__in_parallel());
    }
}

enum { CALLERS = 64 };
static void *call_often(void *context) { return (void *)(uintptr_t)run_random_jobs((uint64_t)(uintptr_t)context, 60); }

/* Each with its own number of threads, on a stack of 64 KiB where the build's frames are ordinary. */
static void pool_64_callers_at_once(void **state) {
    (void)state;
    pthread_t callers[CALLERS];
    pthread_attr_t small;
    pthread_attr_init(&small);
#ifdef NDEBUG
    assert_int_equal(pthread_attr_setstacksize(&small, 1 << 16), 0);
#endif
    for (uintptr_t i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], &small, call_often, (void *)(i + 1)), 0);
    void *wrong[CALLERS];
    for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], &wrong[i]);
    pthread_attr_destroy(&small);
    for (int i = 0; i < CALLERS; i++)
        if (wrong[i]) fail_msg("%s", (const char *)wrong[i]);
}

/* ---- workers ------------------------------------------------------------------------------------------------------------- */

static void use_workers(int threads) {
    inner n = {0};
    assert_ok(fac_set_num_threads(threads));
    assert_ok(fac__parallel_for(0, 1000, 1, add_up, &n));
    assert_int_equal(n.sum, 1000LL * 999 / 2);
}

static void pool_workers_are_made_when_wanted_and_end_with_the_library(void **state) {
    (void)state;
    fac_shutdown();
    assert_int_equal(fac__workers_count(), 0);
    assert_ok(fac_init());
    assert_int_equal(fac__workers_count(), 0);
    use_workers(2);
    assert_int_equal(fac__workers_count(), 1);
    use_workers(4);
    assert_int_equal(fac__workers_count(), 3);
    use_workers(2);
    assert_int_equal(fac__workers_count(), 3);
    fac_shutdown();
    assert_int_equal(fac__workers_count(), 0);
    assert_ok(fac_init());
    use_workers(3);
    assert_int_equal(fac__workers_count(), 2);
}

/* How many threads of the process have names that begin so. */
static int threads_named(const char *begin) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        if (e->d_name[0] == '.') continue;
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(name, sizeof name, f) && strncmp(name, begin, strlen(begin)) == 0) n++;
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return n;
}

static void pool_oneDNN_starts_no_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    use_workers(3);
    fac_tensor *x = fac_randn(FAC_INTS(4, 16, 32, 32), .requires_grad = true);
    fac_tensor *w = fac_randn(FAC_INTS(16, 16, 3, 3), .requires_grad = true);
    fac_tensor *y = fac_conv2d(x, w, NULL, .padding = 1);
    fac_tensor *z = fac_matmul(fac_randn(FAC_INTS(512, 512)), fac_randn(FAC_INTS(512, 512)));
    assert_ok(fac_backward(fac_add(fac_sum(y), fac_sum(z))));
    assert_no_error();
    /* ThreadSanitizer has a thread of its own, and makes none in the child of a process with threads. */
    const int ours = fac__workers_count(), own = FAC_UNDER_TSAN ? 2 : 1;
    for (int i = 0; i < 1000 && (threads_named("") > own + ours || threads_named("facula-") < ours); i++)
        usleep(1000);                   /* joined ones leave, and new ones take their names, a little later */
    if (threads_named("") == 0) skip(); /* no /proc */
    assert_int_equal(threads_named("facula-"), ours);
    assert_int_equal(threads_named(""), own + ours);
}

static pthread_t main_thread;
static atomic_int stray_signals, signals;
static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
    if (!pthread_equal(pthread_self(), main_thread)) atomic_fetch_add(&stray_signals, 1);
}

static void pool_workers_take_no_signals(void **state) {
    (void)state;
    struct sigaction act = {.sa_handler = on_signal}, before;
    sigset_t usr1;
    main_thread = pthread_self();
    use_workers(4);
    sigaction(SIGUSR1, &act, &before);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL); /* a worker that took signals would be the only one to get it now */
    kill(getpid(), SIGUSR1);
    usleep(20000);
    assert_int_equal(signals, 0);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(signals, 1);
    assert_int_equal(stray_signals, 0);
}

/* ---- numbers of threads change, others compute ------------------------------------------------------------------------ */

static atomic_bool enough;
static void *change_and_compute(void *context) {
    uint64_t seed = (uint64_t)(uintptr_t)context;
    for (int i = 0; i < 300; i++) {
        inner n = {0};
        if (fac_set_num_threads(1 + (int)(draw(&seed) % 6)) || fac__parallel_for(0, 400, 3, add_up, &n) ||
            n.sum != 400LL * 399 / 2)
            return "a sum is wrong";
    }
    return NULL;
}
static void *stop_often(void *context) {
    while (!atomic_load(&enough)) {
        fac__workers_stop();
        usleep(500);
    }
    return context;
}

static void pool_workers_may_end_while_others_compute(void **state) {
    (void)state;
    pthread_t threads[4], stopper;
    void *wrong[4];
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&stopper, NULL, stop_often, NULL), 0);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, change_and_compute, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], &wrong[i]);
    atomic_store(&enough, true);
    pthread_join(stopper, NULL);
    for (int i = 0; i < 4; i++) assert_null(wrong[i]);
}

/* ---- children ---------------------------------------------------------------------------------------------------------- */

static bool compute_some(void) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_INTS(1 << 18), .requires_grad = true);
    if (fac_backward(fac_sum(fac_mul(x, x)))) return false;
    return fac_item(fac_sum(fac_grad_of(x))) == 2.0 * (1 << 18);
}

static int compute_alone_then_with_workers(void) {
    if (fac_num_threads() != 1) return 1;
    if (!compute_some()) return 2;
    if (fac__workers_count() != 0) return 3;
    if (FAC_UNDER_TSAN) return 0;
    if (fac_set_num_threads(3) || !compute_some()) return 4;
    return fac__workers_count() == 2 ? 0 : 5;
}

static void pool_a_child_works_alone_and_may_have_workers_of_its_own(void **state) {
    (void)state;
    use_workers(4);
    const int before = fac__workers_count();
    assert_in_range(before, 3, FAC_MAX_THREADS);
    assert_int_equal(in_child(compute_alone_then_with_workers), 0);
    assert_int_equal(fac__workers_count(), before);
    use_workers(4);
}

/* A user other than root whose limit of processes is used up: the system refuses each thread with EAGAIN. */
static int compute_without_threads(void) {
    const struct rlimit none = {0, 0};
    fac_shutdown();
    if (fac_init()) return 1;
    if (geteuid() == 0 && setuid(65534) != 0) return 2;
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return 3;
    if (fac_set_num_threads(4) || !compute_some() || !compute_some()) return 4;
    return fac__workers_count() == 0 ? 0 : 5;
}

static void pool_no_thread_to_be_had_is_no_error(void **state) {
    (void)state;
    if (FAC_UNDER_TSAN) skip();
    assert_int_equal(in_child(compute_without_threads), 0);
}

/* As a program that ends without fac_shutdown, its workers asleep or at work. */
static int exit_as_it_is(void) {
    if (!FAC_UNDER_TSAN && (fac_set_num_threads(4) || !compute_some())) return 1;
    exit(0);
}

static void pool_a_process_may_exit_with_its_workers(void **state) {
    (void)state;
    if (getenv("FACULA_TEST_ALLOCATIONS")) skip(); /* there an exit is a failed assertion */
    for (int i = 0; i < 5; i++) assert_int_equal(in_child(exit_as_it_is), 0);
}

static int start(void **state) {
    (void)state;
    return fac_init() == FAC_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(pool_random_jobs_visit_each_element_once),
        FAC_TEST(pool_nested_jobs_are_done_once),
        FAC_TEST(pool_64_callers_at_once),
        cmocka_unit_test(pool_workers_are_made_when_wanted_and_end_with_the_library), /* stops what set-up starts */
        FAC_TEST(pool_oneDNN_starts_no_threads),
        FAC_TEST(pool_workers_take_no_signals),
        FAC_TEST(pool_workers_may_end_while_others_compute),
        FAC_TEST(pool_a_child_works_alone_and_may_have_workers_of_its_own),
        FAC_TEST(pool_no_thread_to_be_had_is_no_error),
        FAC_TEST(pool_a_process_may_exit_with_its_workers),
    };
    return support_run(tests, FAC_COUNT(tests), start);
}
