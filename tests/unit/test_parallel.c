/* Parallel loops: every item once, failures, nesting, forked children. */
#include "backend/cpu/parallel.h"

#include "support/support.h"
#include <facula/facula.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 100003

typedef struct visits {
    atomic_uchar seen[N];
    atomic_int chunks;
    int64_t grain;
    int64_t fail_from; /* chunks that begin here or later fail; negative: none */
    atomic_int misaligned;
} visits;

static fac_status visit(void *ctx, int64_t begin, int64_t end) {
    visits *v = ctx;
    if (begin % v->grain != 0 || (end % v->grain != 0 && end != N)) atomic_fetch_add(&v->misaligned, 1);
    atomic_fetch_add(&v->chunks, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&v->seen[i], 1);
    FAC_CHECK(v->fail_from < 0 || begin < v->fail_from, FAC_ERR_ARGUMENT, "chunk at %lld", (long long)begin);
    return FAC_OK;
}

static visits *fresh(int64_t grain) {
    static visits v;
    memset(&v, 0, sizeof v);
    v.grain = grain;
    v.fail_from = -1;
    return &v;
}

static void S109_chunks_cover_the_range_once_for_any_number_of_threads(void **state) {
    (void)state;
    int before = fac_num_threads();
    for (int threads = 1; threads <= 4; threads += 3) {
        assert_ok(fac_set_num_threads(threads));
        visits *v = fresh(2048);
        assert_ok(fac__parallel_for(0, N, v->grain, visit, v));
        for (int i = 0; i < N; i++) assert_int_equal(v->seen[i], 1);
        assert_int_equal(v->chunks, (N + 2047) / 2048);
        assert_int_equal(v->misaligned, 0);
    }
    assert_ok(fac_set_num_threads(before));
}

static void S109_the_first_failing_chunk_is_reported(void **state) {
    (void)state;
    visits *v = fresh(1000);
    v->fail_from = 40000;
    assert_int_equal(fac__parallel_for(0, N, v->grain, visit, v), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "chunk at 40000");
}

static fac_status nest(void *ctx, int64_t begin, int64_t end) {
    visits *v = ctx;
    return fac__parallel_for(begin, end, v->grain, visit, v);
}

static void nested_calls_run_on_their_own_thread(void **state) {
    (void)state;
    visits *v = fresh(100);
    assert_ok(fac__parallel_for(0, N, 1000, nest, v));
    for (int i = 0; i < N; i++) assert_int_equal(v->seen[i], 1);
}

static void empty_ranges_call_nothing(void **state) {
    (void)state;
    visits *v = fresh(10);
    assert_ok(fac__parallel_for(5, 5, 10, visit, v));
    assert_ok(fac__parallel_for(5, 3, 10, visit, v));
    assert_int_equal(v->chunks, 0);
}

static void numbers_of_threads_are_checked(void **state) {
    (void)state;
    assert_int_equal(fac_set_num_threads(0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "expected 1 to");
    assert_int_equal(fac_set_num_threads(-3), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "got -3");
}

static fac_status add_up(void *context, int64_t begin, int64_t end) {
    atomic_fetch_add((_Atomic int64_t *)context, end - begin);
    return FAC_OK;
}

static void a_forked_child_works_alone(void **state) {
    (void)state;
    _Atomic int64_t sum = 0;
    assert_ok(fac_set_num_threads(4));
    assert_ok(fac__parallel_for(0, 1000, 10, add_up, &sum));
    const pid_t child = fork();
    if (child == 0) {
        alarm(20); /* it would wait for ever for threads that it does not have */
        _exit(fac__parallel_for(0, 1000, 10, add_up, &sum) == FAC_OK && sum == 2000 && fac_num_threads() == 1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(fac_num_threads(), 4);
}

/* Worker threads have states of their own from their first error on: they are made before blocks are counted. */
static int start_workers(void **state) {
    (void)state;
    if (fac_init() != FAC_OK || fac_set_num_threads(4) != FAC_OK) return -1;
    visits *v = fresh(100);
    v->fail_from = 0;
    fac_status st = fac__parallel_for(0, N, v->grain, visit, v);
    fac_error_clear();
    return st == FAC_ERR_ARGUMENT ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {FAC_TEST(S109_the_first_failing_chunk_is_reported),
                                       FAC_TEST(nested_calls_run_on_their_own_thread),
                                       FAC_TEST(empty_ranges_call_nothing),
                                       FAC_TEST(numbers_of_threads_are_checked),
                                       FAC_TEST(a_forked_child_works_alone),
                                       FAC_TEST(S109_chunks_cover_the_range_once_for_any_number_of_threads)};
    return support_run(tests, FAC_COUNT(tests), start_workers);
}
