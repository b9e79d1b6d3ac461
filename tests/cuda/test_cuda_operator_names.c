/* Errors name the operator that was called, whichever operators share its kernel. */
#include "support/cuda.h"

enum { M = 2, K = 3, N = 4 };

/* Random numbers of these sizes, on the device. */
static fac_tensor *on(fac_device d, fac_ints sizes) { return fac_randn(sizes, .device = d); }

static fac_tensor *run_mm(fac_device d) { return fac_mm(on(d, FAC_INTS(M, K)), on(d, FAC_INTS(K, N))); }
static fac_tensor *run_bmm(fac_device d) { return fac_bmm(on(d, FAC_INTS(2, M, K)), on(d, FAC_INTS(2, K, N))); }
static fac_tensor *run_addmm(fac_device d) {
    return fac_addmm(on(d, FAC_INTS(M, N)), on(d, FAC_INTS(M, K)), on(d, FAC_INTS(K, N)), .beta = 0);
}
static fac_tensor *run_baddbmm(fac_device d) {
    return fac_baddbmm(on(d, FAC_INTS(2, M, N)), on(d, FAC_INTS(2, M, K)), on(d, FAC_INTS(2, K, N)), .beta = 0);
}
static fac_tensor *run_addmv(fac_device d) {
    return fac_addmv(on(d, FAC_INTS(M)), on(d, FAC_INTS(M, K)), on(d, FAC_INTS(K)), .beta = 0);
}
static fac_tensor *run_mv(fac_device d) { return fac_mv(on(d, FAC_INTS(M, K)), on(d, FAC_INTS(K))); }
static fac_tensor *run_dot(fac_device d) { return fac_dot(on(d, FAC_INTS(K)), on(d, FAC_INTS(K))); }
static fac_tensor *run_triu(fac_device d) { return fac_triu(on(d, FAC_INTS(M, K))); }
static fac_tensor *run_amax(fac_device d) { return fac_amax(on(d, FAC_INTS(M, K))); }
static fac_tensor *run_mean(fac_device d) { return fac_mean(on(d, FAC_INTS(M, K))); }
static fac_tensor *run_argmin(fac_device d) { return fac_argmin(on(d, FAC_INTS(M, K))); }
static fac_tensor *run_mul(fac_device d) { return fac_mul(on(d, FAC_INTS(M, K)), on(d, FAC_INTS(M, K))); }

static const struct {
    const char *op;
    fac_tensor *(*run)(fac_device d);
    int before; /* launches that make its arguments */
} cases[] = {{"mm", run_mm, 2},       {"bmm", run_bmm, 2},   {"addmm", run_addmm, 3},   {"baddbmm", run_baddbmm, 3},
             {"addmv", run_addmv, 3}, {"mv", run_mv, 2},     {"dot", run_dot, 2},       {"triu", run_triu, 1},
             {"amax", run_amax, 1},   {"mean", run_mean, 1}, {"argmin", run_argmin, 1}, {"mul", run_mul, 2}};

static void S046_launch_that_fails_names_the_operator(void **state) {
    (void)state;
    support_need_devices(1);
    if (!fac_cuda_is_simulated()) skip(); /* devices fail no launch when told to */
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        char option[32], start[64];
        assert_non_null(cases[i].run(cuda_device(0)));
        snprintf(option, sizeof option, "fail=%d", cases[i].before + 1);
        snprintf(start, sizeof start, "%s: kernel ", cases[i].op);
        support_sim_set(option);
        assert_null(cases[i].run(cuda_device(0)));
        support_sim_set("fail=0");
        fac_error_info e;
        assert_int_not_equal(fac_error_get(&e), FAC_OK);
        assert_string_equal(e.op, cases[i].op);
        if (!strstr(e.message, start)) fail_msg("\"%s\" lacks \"%s\"", e.message, start);
        fac_error_clear();
    }
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S046_launch_that_fails_names_the_operator))
