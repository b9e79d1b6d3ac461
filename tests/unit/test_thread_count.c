/* How many threads a process uses: affinity, the quota of control groups, the environment. */
#define _GNU_SOURCE
#include "backend/cpu/thread_count.h"

#include "support/support.h"
#include <facula/facula.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void threads_affinity_is_followed(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(fac__affinity_count(), CPU_COUNT(&before));
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int n = fac__affinity_count();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(n, 1);
}

static void threads_quota_v2_is_rounded_up(void **state) {
    (void)state;
    const struct {
        const char *text;
        int n;
    } cases[] = {{"max 100000\n", 0},
                 {"100000 100000\n", 1},
                 {"150000 100000\n", 2},
                 {"1000 100000\n", 1},
                 {"250000", 3},
                 {"", 0},
                 {"-1 100000", 0},
                 {"100000 0", 0},
                 {"200000 50000", 4},
                 {"nonsense", 0},
                 {"9223372036854775807 1", 2147483647}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) assert_int_equal(fac__quota_v2(cases[i].text), cases[i].n);
}

static void threads_quota_v1_is_rounded_up(void **state) {
    (void)state;
    assert_int_equal(fac__quota_v1("-1\n", "100000\n"), 0);
    assert_int_equal(fac__quota_v1("250000\n", "100000\n"), 3);
    assert_int_equal(fac__quota_v1("50000", "100000"), 1);
    assert_int_equal(fac__quota_v1("", "100000"), 0);
    assert_int_equal(fac__quota_v1("50000", ""), 0);
    assert_int_equal(fac__quota_v1("50000", "0"), 0);
}

static char root[] = "/tmp/facula-cgroup-XXXXXX";

static void put(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, folder);
    (void)mkdir(path, 0700);
    if (!name) return;
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void threads_quota_is_the_least_of_all_groups_around(void **state) {
    (void)state;
    assert_int_equal(fac__cgroup_quota("0::/a/b\n", root), 0);
    put("/a", "cpu.max", "400000 100000\n");
    put("/a/b", "cpu.max", "max 100000\n");
    assert_int_equal(fac__cgroup_quota("0::/a/b\n", root), 4);
    assert_int_equal(fac__cgroup_quota("0::/a/b/c/d\n", root), 4); /* groups that are not there have no quota */
    put("/a/b", "cpu.max", "600000 100000\n");
    assert_int_equal(fac__cgroup_quota("0::/a/b\n", root), 4);
    put("", "cpu.max", "300000 100000\n");
    assert_int_equal(fac__cgroup_quota("0::/a/b\n", root), 3);
    assert_int_equal(fac__cgroup_quota("0::/\n", root), 3);
    put("/cpu,cpuacct", NULL, NULL);
    put("/cpu,cpuacct/x", "cpu.cfs_quota_us", "150000\n");
    put("/cpu,cpuacct/x", "cpu.cfs_period_us", "100000\n");
    assert_int_equal(fac__cgroup_quota("4:memory:/x\n3:cpu,cpuacct:/x\n0::/a/b\n", root), 2);
    assert_int_equal(fac__cgroup_quota("3:cpu,cpuacct:/docker/of/the/host\n", root), 0);
    assert_int_equal(fac__cgroup_quota("nonsense\n:\n::\n\n", root), 3); /* the root's own, and no more */
}

static void threads_omp_list_begins_with_the_number(void **state) {
    (void)state;
    assert_int_equal(fac__first_of_list("4"), 4);
    assert_int_equal(fac__first_of_list("4,3,2"), 4);
    assert_int_equal(fac__first_of_list(" 2 "), 2);
    assert_int_equal(fac__first_of_list("100000"), 1024);
    assert_int_equal(fac__first_of_list(""), 0);
    assert_int_equal(fac__first_of_list("0"), 0);
    assert_int_equal(fac__first_of_list("-2"), 0);
    assert_int_equal(fac__first_of_list("two"), 0);
    assert_int_equal(fac__first_of_list("2x"), 0);
    assert_int_equal(fac__first_of_list("99999999999999999999"), 0);
}

/* Of both variables; NULL unsets. */
static fac_status count_with(const char *own, const char *omp, int *out) {
    (void)!(own ? setenv("FACULA_NUM_THREADS", own, 1) : unsetenv("FACULA_NUM_THREADS"));
    (void)!(omp ? setenv("OMP_NUM_THREADS", omp, 1) : unsetenv("OMP_NUM_THREADS"));
    fac_status st = fac__thread_count(out);
    unsetenv("FACULA_NUM_THREADS");
    unsetenv("OMP_NUM_THREADS");
    return st;
}

static void threads_environment_comes_first(void **state) {
    (void)state;
    int n;
    assert_ok(count_with("3", "5", &n));
    assert_int_equal(n, 3);
    assert_ok(count_with(NULL, "5,2", &n));
    assert_int_equal(n, 5);
    assert_ok(count_with("", "nonsense", &n));
    assert_in_range(n, 1, fac__affinity_count());
    assert_int_equal(count_with("many", NULL, &n), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "FACULA_NUM_THREADS is \"many\"; expected 1 to 1024");
    assert_int_equal(count_with("0", "4", &n), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "FACULA_NUM_THREADS");
}

static int make_root(void **state) {
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {FAC_TEST(threads_affinity_is_followed),
                                       FAC_TEST(threads_quota_v2_is_rounded_up),
                                       FAC_TEST(threads_quota_v1_is_rounded_up),
                                       FAC_TEST(threads_quota_is_the_least_of_all_groups_around),
                                       FAC_TEST(threads_omp_list_begins_with_the_number),
                                       FAC_TEST(threads_environment_comes_first)};
    return support_run(tests, FAC_COUNT(tests), make_root);
}
