/* A loader on the host that feeds a device, batch by batch. */
#include "support/cuda.h"

enum { SAMPLES = 10, BATCH = 4 };

/* Sample i is {i, 10 i}, its label i. */
static void make_samples(fac_tensor **columns) {
    columns[1] = fac_arange(SAMPLES);
    columns[0] = fac_to_dtype(fac_stack(FAC_TENSORS(columns[1], fac_mul(columns[1], 10)), .dim = 1), FAC_F32);
    assert_no_error();
}

static void check_batch(fac_tensor *x, fac_tensor *labels, int64_t n, int *seen) {
    float values[BATCH * 2];
    int64_t of[BATCH];
    assert_no_error();
    assert_true(fac_device_equal(fac_tensor_device(x), cuda_device(0)));
    assert_true(fac_device_equal(fac_tensor_device(labels), cuda_device(0)));
    assert_ok(fac_tensor_read(x, FAC_F32, values, (size_t)n * 2));
    assert_ok(fac_tensor_read(labels, FAC_I64, of, (size_t)n));
    for (int64_t k = 0; k < n; k++) {
        assert_true(values[2 * k] == (float)of[k] && values[2 * k + 1] == 10 * (float)of[k]);
        seen[of[k]]++;
    }
}

static void E84_a_loop_over_a_loader_moves_each_batch_to_the_device(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *columns[2], *batch[2];
    int seen[SAMPLES] = {0}, batches = 0;
    make_samples(columns);
    fac_loader *loader = fac_loader_new(FAC_TENSORS(columns[0], columns[1]), .batch_size = BATCH, .shuffle = true);
    assert_no_error();
    for (; fac_loader_next(loader, batch); batches++) {
        FAC_SCOPE(step);
        const int64_t n = fac_tensor_size(batch[0], 0);
        assert_int_equal(n, batches < SAMPLES / BATCH ? BATCH : SAMPLES % BATCH);
        check_batch(fac_to(batch[0], .device = cuda_device(0)), fac_to(batch[1], .device = cuda_device(0)), n, seen);
    }
    assert_no_error();
    assert_int_equal(batches, 3);
    for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], 1);
    fac_loader_release(loader);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(E84_a_loop_over_a_loader_moves_each_batch_to_the_device))
