/* A training step in which the driver refuses the n-th allocation, for every n: a retry or a clear error, nothing lost, and
   the next step works. */
#include "support/cuda.h"

static fac_module *make_net(fac_device d) {
    fac_manual_seed(3);
    fac_module *net =
        fac_sequential(fac_linear_new(6, 300, .device = d), fac_tanh_new(), fac_linear_new(300, 2, .device = d));
    return net;
}

typedef struct trainee {
    fac_module *net;
    fac_optimizer *optimizer;
} trainee;

static fac_status step(const trainee *t, fac_device d, double *loss_value) {
    FAC_SCOPE(s);
    fac_manual_seed(9);
    fac_tensor *x = fac_to(fac_randn(FAC_SHAPE(2000, 6)), .device = d), *y = fac_zeros(FAC_SHAPE(2000, 2), .device = d);
    fac_tensor *loss = fac_mse_loss(fac_forward(t->net, x), y);
    if (fac_backward(loss) == FAC_OK && fac_optimizer_step(t->optimizer) == FAC_OK) *loss_value = fac_item(loss);
    return fac_error();
}

static void finish(trainee *t) {
    fac_optimizer_release(t->optimizer);
    fac_module_release(t->net);
    *t = (trainee){NULL, NULL};
}

/* Everything from the first tensor on the device to the end of a step. */
static fac_status run(fac_device d, trainee *t, double *loss) {
    t->net = make_net(d);
    if (!t->net) return fac_error();
    t->optimizer = fac_sgd_new(t->net, 0.1, .momentum = 0.9);
    if (!t->optimizer) return fac_error();
    return step(t, d, loss);
}

static int64_t allocated(int index) { return fac_cuda_memory_allocated(index); }

/* How many allocations the driver is asked for by a run from nothing. */
static int64_t count_allocations(double *loss) {
    trainee t = {NULL, NULL};
    assert_ok(fac_cuda_empty_cache());
    int64_t before = support_sim_count("allocations");
    assert_ok(run(cuda_device(1), &t, loss));
    int64_t n = support_sim_count("allocations") - before;
    finish(&t);
    return n;
}

/* Each of the allocations that a run asks the driver for fails once; there are at least so many of them. */
static void fail_each(int64_t at_least) {
    fac_device d = cuda_device(1);
    double right = 0, loss;
    int64_t n = count_allocations(&right), errors = 0, retries = 0;
    assert_in_range(n, at_least, 1000);
    for (int64_t i = 1; i <= n; i++) {
        char option[32];
        trainee t = {NULL, NULL};
        assert_ok(fac_cuda_empty_cache());
        assert_int_equal(allocated(1), 0);
        snprintf(option, sizeof option, "oom=%lld", (long long)i);
        support_sim_set(option);
        fac_status st = run(d, &t, &loss);
        support_sim_set("oom=0");
        if (st == FAC_OK) {
            assert_true(loss == right);
            retries++;
        } else {
            assert_error(FAC_ERR_MEMORY, "out of memory on cuda:1");
            errors++;
        }
        finish(&t);
        assert_ok(run(d, &t, &loss)); /* the next one works, and computes the same */
        assert_true(loss == right);
        finish(&t);
        assert_int_equal(allocated(1), 0);
    }
    assert_int_equal(errors + retries, n);
    print_message("%lld allocations: %lld ended in an error, %lld were made good by a retry\n", (long long)n,
                  (long long)errors, (long long)retries);
}

static void S221_every_failing_device_allocation_in_training(void **state) {
    (void)state;
    support_need_simulator();
    fail_each(2);
}

/* Without a cache every tensor is an allocation of the driver's. */
static void S208_S221_every_failing_device_allocation_without_a_cache(void **state) {
    (void)state;
    support_need_simulator();
    support_restart_with("FACULA_NO_CUDA_MEMORY_CACHING", "1");
    fail_each(20);
    support_restart_with("FACULA_NO_CUDA_MEMORY_CACHING", NULL);
}

static void S221_a_device_that_is_too_small(void **state) {
    (void)state;
    double right = 0, loss = 0;
    trainee t = {NULL, NULL};
    assert_ok(run(cuda_device(1), &t, &right));
    int64_t peak = fac_cuda_max_memory_reserved(1), free, total;
    assert_ok(fac_cuda_mem_get_info(1, &free, &total));
    finish(&t);
    for (int64_t mib = 2; mib << 20 < peak; mib += 2) { /* no retry helps here */
        assert_ok(fac_cuda_empty_cache());
        assert_ok(fac_cuda_set_per_process_memory_fraction((double)(mib << 20) / (double)total, 1));
        assert_int_equal(run(cuda_device(1), &t, &loss), FAC_ERR_MEMORY);
        assert_error(FAC_ERR_MEMORY, "out of memory on cuda:1");
        finish(&t);
        assert_int_equal(allocated(1), 0);
    }
    assert_ok(fac_cuda_set_per_process_memory_fraction(1, 1));
    assert_ok(run(cuda_device(1), &t, &loss));
    assert_true(loss == right);
    finish(&t);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S221_every_failing_device_allocation_in_training),
              FAC_CUDA_TEST(S208_S221_every_failing_device_allocation_without_a_cache),
              FAC_CUDA_TEST(S221_a_device_that_is_too_small))
