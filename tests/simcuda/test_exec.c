/* The executor of simulated kernels: right kernels give right results in every order, wrong ones end with the code and the
   sentence that say what is wrong. */
#include "simcuda/exec.h"

#include "base/sanitizers.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Faults of the host are the sanitizers' to report, and so are races ThreadSanitizer's. */
#define FAULTS (!FAC_UNDER_ASAN && !FAC_UNDER_TSAN)

extern sim_image exec_image;
extern int launches;

/* The driver's half, for addresses: here there is one buffer. */
static float buffer[4096];
int sim_memory_explain(const void *p, char *text, size_t size) {
    if ((const char *)p >= (const char *)buffer + sizeof(buffer)) return 0;
    return snprintf(text, size, "below the buffer") > 0;
}

static const sim_kernel *find(const char *name) {
    for (uint32_t i = 0; i < exec_image.n_kernels; i++)
        if (strcmp(exec_image.kernels[i]->name, name) == 0) return exec_image.kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

static char message[512];
static uint64_t seed;

static int launch_shared(const char *name, unsigned blocks, unsigned threads, unsigned shared, void **args) {
    sim_launch l = {.kernel = find(name), .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .args = args};
    l.dynamic_shared = shared;
    l.seed = seed;
    l.multiprocessors = 2;
    return sim_execute(&l, message, sizeof(message));
}
#define LAUNCH(name, blocks, threads, ...) launch_shared(name, blocks, threads, 0, (void *[]){__VA_ARGS__})
#define assert_launch(...)                \
    do {                                  \
        int code_ = LAUNCH(__VA_ARGS__);  \
        assert_string_equal(message, ""); \
        assert_int_equal(code_, 0);       \
    } while (0)
#define assert_fails(code, text, ...)                        \
    do {                                                     \
        assert_int_equal(LAUNCH(__VA_ARGS__), code);         \
        if (!strstr(message, text)) fail_msg("%s", message); \
    } while (0)

/* Runs body in the plain order and in several drawn ones. */
static void in_every_order(void (*body)(void)) {
    for (seed = 0; seed < 6; seed++) body();
    seed = 0;
}

/* ---- right ------------------------------------------------------------------------------------------------------------- */

static void add(void) {
    float a[1000], b[1000], out[1000];
    for (int i = 0; i < 1000; i++) a[i] = (float)i, b[i] = 0.25f, out[i] = NAN;
    float *pa = a, *pb = b, *po = out;
    int64_t n = 1000;
    assert_launch("add", 3, 64, &po, &pa, &pb, &n);
    for (int i = 0; i < 1000; i++) assert_float_equal(out[i], (float)i + 0.25f, 0);
}
static void exec_threads_cover_the_range(void **state) {
    (void)state;
    in_every_order(add);
}

static void places(void) {
    enum { N = 2 * 3 * 2 * 4 * 2 * 3 };
    unsigned out[N], *p = out;
    int unused = 0;
    memset(out, 0xff, sizeof(out));
    sim_launch l = {.kernel = find("places"), .grid = {2, 3, 2}, .block = {4, 2, 3}, .seed = seed};
    l.args = (void *[]){&p, &unused};
    assert_int_equal(sim_execute(&l, message, sizeof(message)), 0);
    for (unsigned i = 0; i < N; i++) assert_int_equal(out[i], i / 24 * 10000 + i % 24);
}
static void exec_every_thread_runs_once_at_its_place(void **state) {
    (void)state;
    in_every_order(places);
}

static void sum(void) {
    static float x[10000];
    float out = 0, *px = x, *po = &out;
    int64_t n = 10000;
    for (int i = 0; i < n; i++) x[i] = (float)(i % 7);
    assert_launch("sum", 4, 256, &po, &px, &n);
    float expected = 0;
    for (int i = 0; i < n; i++) expected += x[i];
    assert_float_equal(out, expected, 0);
}
static void exec_blocks_reduce_with_shuffles_and_a_barrier(void **state) {
    (void)state;
    in_every_order(sum);
}

/* The number of wrong elements of a transposition. */
static int transpose(int barrier) {
    static float x[70 * 45], out[70 * 45];
    float *px = x, *po = out;
    int rows = 70, columns = 45, wrong = 0;
    for (int i = 0; i < rows * columns; i++) x[i] = (float)i;
    sim_launch l = {.kernel = find("transpose"), .grid = {2, 3, 1}, .block = {32, 8, 1}, .seed = seed};
    l.args = (void *[]){&po, &px, &rows, &columns, &barrier};
    assert_int_equal(sim_execute(&l, message, sizeof(message)), 0);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) wrong += !(out[c * rows + r] == x[r * columns + c]);
    return wrong;
}
static void transpose_right(void) { assert_int_equal(transpose(1), 0); }
static void exec_tiles_pass_through_shared_memory(void **state) {
    (void)state;
    in_every_order(transpose_right);
}

static void check_warps(int lanes) {
    unsigned out[32 * 10], *p = out;
    assert_launch("warps", 1, (unsigned)lanes, &p, &lanes);
    for (unsigned t = 0; t < (unsigned)lanes; t++) {
        const unsigned *row = out + t * 10;
        assert_int_equal(row[0], 15);
        assert_int_equal(row[1], t ? t - 1 : 0);
        assert_int_equal(row[2], t % 8 < 6 ? t + 2 : t);
        assert_int_equal(row[3], t ^ 4);
        assert_int_equal(row[4], lanes == 32 ? 0x49249249u : 0x9249u);
        assert_int_equal(row[5], 1);
        assert_int_equal(row[6], 0);
        assert_int_equal(row[7], 0xfu << t / 4 * 4);
        assert_int_equal(row[8], (t ^ 1) + (t < 16 ? 0 : 100));
        assert_int_equal(row[9], 3);
    }
}
static void full_warp(void) { check_warps(32); }
static void half_warp(void) { check_warps(16); }
static void exec_warp_operations_exchange_values(void **state) {
    (void)state;
    in_every_order(full_warp);
    in_every_order(half_warp);
}

static void votes(void) {
    int out[3], *p = out;
    for (int limit = 0; limit <= 96; limit += 48) {
        assert_launch("votes", 1, 96, &p, &limit);
        assert_int_equal(out[0], limit);
        assert_int_equal(out[1], limit == 96);
        assert_int_equal(out[2], limit > 0);
    }
}
static void exec_barriers_fold_predicates(void **state) {
    (void)state;
    in_every_order(votes);
}

static void atomics(void) {
    int counters[5] = {0}, *p = counters, n = 500;
    double total = 0, *pt = &total;
    assert_launch("atomics", 4, 128, &p, &pt, &n);
    assert_int_equal(counters[0], 500);
    assert_int_equal(counters[1], 499);
    assert_int_equal(counters[2], -499);
    assert_int_equal(counters[3], 0x7fffffff);
    assert_in_range(counters[4], 1, 500);
    assert_float_equal(total, 250, 0);
}
static void exec_atomics_lose_nothing(void **state) {
    (void)state;
    in_every_order(atomics);
}

static void early_return(void) {
    int out[40], *p = out, n = 40;
    assert_int_equal(launch_shared("early_return", 1, 64, 40 * sizeof(int), (void *[]){&p, &n}), 0);
    for (int i = 0; i < n; i++) assert_int_equal(out[i], n - 1 - i);
}
static void exec_barriers_do_not_wait_for_threads_that_returned(void **state) {
    (void)state;
    in_every_order(early_return);
}

static void last_block(void) {
    float out = 0, parts[9], *po = &out, *pp = parts;
    unsigned arrived = 0, *pa = &arrived;
    assert_launch("last_block", 9, 32, &po, &pa, &pp);
    assert_float_equal(out, 36, 0);
}
static void exec_the_last_block_sees_the_others_work(void **state) {
    (void)state;
    in_every_order(last_block);
}

static void exec_images_list_kernels_and_variables(void **state) {
    (void)state;
    assert_int_equal(exec_image.magic, SIM_IMAGE_MAGIC);
    assert_int_equal(exec_image.n_globals, 1);
    assert_string_equal(exec_image.globals[0].name, "launches");
    assert_int_equal(exec_image.globals[0].bytes, sizeof(int));
    int by = 3;
    launches = 0;
    assert_launch("count_launches", 2, 32, &by);
    assert_int_equal(*(int *)exec_image.globals[0].address, 6);
    const sim_kernel *k = find("transpose");
    assert_int_equal(k->n_params, 5);
    assert_int_equal(k->params[0].role, SIM_OUT);
    assert_int_equal(k->params[1].role, SIM_IN);
    assert_int_equal(k->params[2].role, SIM_VAL);
    assert_int_equal(k->params[2].size, sizeof(int));
    assert_string_equal(k->params[3].name, "columns");
}

static void exec_native_kernels_run_once(void **state) {
    (void)state;
    float out[10] = {0}, *p = out, value = 2;
    int64_t n = 10;
    assert_launch("native_fill", 7, 128, &p, &value, &n);
    for (int i = 0; i < n; i++) assert_float_equal(out[i], 2, 0);
}

static void *run_sums(void *arg) {
    static float x[4096];
    int *wrong = arg;
    for (int i = 0; i < 20; i++) {
        float out = 0, *px = x, *po = &out;
        int64_t n = 4096;
        char text[256];
        sim_launch l = {.kernel = find("sum"), .grid = {3, 1, 1}, .block = {128, 1, 1}};
        l.args = (void *[]){&po, &px, &n};
        *wrong += sim_execute(&l, text, sizeof(text)) != 0 || out != 0;
    }
    return NULL;
}
static void exec_threads_of_the_host_run_launches_side_by_side(void **state) {
    (void)state;
    pthread_t threads[3];
    int wrong[3] = {0};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_sums, &wrong[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(wrong[i], 0);
}

/* ---- wrong ------------------------------------------------------------------------------------------------------------- */

static void divergent(void) {
    float *p = buffer;
    int n = 5;
    assert_fails(719, "divergent barrier", "wrong_barrier", 1, 64, &p, &n);
    assert_non_null(strstr(message, "exec_kernels.cu:"));
    assert_non_null(strstr(message, "kernel wrong_barrier, block (0, 0, 0)"));
}
static void exec_divergent_barriers_fail(void **state) {
    (void)state;
    in_every_order(divergent);
}

static void exec_warp_operations_that_lanes_miss_fail(void **state) {
    (void)state;
    float *p = buffer;
    int n = 5;
    assert_fails(719, "waits for its warp", "wrong_warp", 1, 32, &p, &n);
    unsigned mask = 0xf0;
    assert_fails(719, "whose mask leaves it out", "wrong_mask", 1, 32, &p, &mask);
}

#if !FAC_UNDER_TSAN
static void exec_missing_barriers_show_as_nan(void **state) {
    (void)state;
    assert_true(transpose(0) > 0);
}
#endif

static void exec_assertions_fail_the_launch(void **state) {
    (void)state;
    float *p = buffer;
    int n = 3;
    assert_fails(710, "thread (3, 0, 0): assertion: (int)threadIdx.x != n", "wrong_assertion", 1, 32, &p, &n);
}

static void exec_shared_memory_has_a_limit(void **state) {
    (void)state;
    int *p = (int *)buffer, n = 4;
    assert_int_equal(launch_shared("early_return", 1, 32, 1u << 20, (void *[]){&p, &n}), 1);
    assert_non_null(strstr(message, "does not fit"));
}

static void exec_launches_that_no_device_takes_are_refused(void **state) {
    (void)state;
    float *p = buffer;
    int n = 3;
    assert_fails(1, "cannot be launched", "wrong_barrier", 1, 1025, &p, &n);
    assert_fails(1, "cannot be launched", "wrong_barrier", 0, 32, &p, &n);
}

#if FAULTS
static void bad_address(void) {
    float *p = NULL;
    int64_t at = 4;
    assert_fails(700, "illegal address 0x", "wrong_address", 2, 32, &p, &at);
    assert_non_null(strstr(message, "below the buffer"));
}
static void exec_illegal_addresses_fail_the_launch(void **state) {
    (void)state;
    in_every_order(bad_address);
    add();
}

static void exec_integer_division_by_zero_fails_the_launch(void **state) {
    (void)state;
    float *p = buffer;
    int by = 0;
    assert_fails(719, "division by zero", "wrong_division", 1, 32, &p, &by);
}
#endif

static void exec_misaligned_vectors_fail_the_launch(void **state) {
    (void)state;
    float *p = (float *)(((uintptr_t)buffer + 15) / 16 * 16);
    int at = 4;
    assert_launch("wrong_alignment", 1, 1, &p, &at);
    at = 1;
    assert_fails(716, "misaligned address", "wrong_alignment", 1, 1, &p, &at);
}

static void exec_works_after_failures(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) divergent();
    add();
    sum();
}

/* Races for ThreadSanitizer to find: `test_exec barrier`, `test_exec accumulation`. */
static int race(const char *kind) {
    float *p = buffer, v = 1;
    if (strcmp(kind, "barrier") == 0) return transpose(0) < 0;
    return LAUNCH("wrong_accumulation", 1, 64, &p, &v);
}

int main(int argc, char **argv) {
    if (argc > 1) return race(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exec_threads_cover_the_range),
        cmocka_unit_test(exec_every_thread_runs_once_at_its_place),
        cmocka_unit_test(exec_blocks_reduce_with_shuffles_and_a_barrier),
        cmocka_unit_test(exec_tiles_pass_through_shared_memory),
        cmocka_unit_test(exec_warp_operations_exchange_values),
        cmocka_unit_test(exec_barriers_fold_predicates),
        cmocka_unit_test(exec_atomics_lose_nothing),
        cmocka_unit_test(exec_barriers_do_not_wait_for_threads_that_returned),
        cmocka_unit_test(exec_the_last_block_sees_the_others_work),
        cmocka_unit_test(exec_images_list_kernels_and_variables),
        cmocka_unit_test(exec_native_kernels_run_once),
        cmocka_unit_test(exec_threads_of_the_host_run_launches_side_by_side),
        cmocka_unit_test(exec_divergent_barriers_fail),
        cmocka_unit_test(exec_warp_operations_that_lanes_miss_fail),
#if !FAC_UNDER_TSAN
        cmocka_unit_test(exec_missing_barriers_show_as_nan),
#endif
        cmocka_unit_test(exec_assertions_fail_the_launch),
        cmocka_unit_test(exec_shared_memory_has_a_limit),
        cmocka_unit_test(exec_launches_that_no_device_takes_are_refused),
#if FAULTS
        cmocka_unit_test(exec_illegal_addresses_fail_the_launch),
        cmocka_unit_test(exec_integer_division_by_zero_fails_the_launch),
#endif
        cmocka_unit_test(exec_misaligned_vectors_fail_the_launch),
        cmocka_unit_test(exec_works_after_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
