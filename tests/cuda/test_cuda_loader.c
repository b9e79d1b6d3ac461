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

static fac_status get(void *context, const fac_sample *at, fac_tensor **out) {
    (void)context;
    out[1] = fac_full(FAC_SHAPE(), (double)at->index, .dtype = FAC_I64);
    out[0] = fac_to_dtype(fac_stack(FAC_TENSORS(out[1], fac_mul(out[1], 10))), FAC_F32);
    return fac_error();
}

static void S168_pinned_batches_lie_in_page_locked_memory(void **state) {
    (void)state;
    support_need_devices(1);
    for (int workers = 0; workers < 3; workers++) {
        FAC_SCOPE(s);
        fac_tensor *columns[2], *batch[2];
        make_samples(columns);
        const fac_dataset_class cls = {.size = sizeof cls, .get = get};
        fac_dataset *own = fac_dataset_new(&cls, NULL, SAMPLES, 2);
        fac_loader *loaders[] = {
            fac_loader_new(FAC_TENSORS(columns[0], columns[1]), BATCH, .pin_memory = true, .num_workers = workers),
            fac_loader_of(own, BATCH, .pin_memory = true, .num_workers = workers)};
        for (int i = 0; i < 2; i++) {
            int seen[SAMPLES] = {0};
            assert_no_error();
            while (fac_loader_next(loaders[i], batch)) {
                FAC_SCOPE(step);
                assert_true(fac_is_pinned(batch[0]) && fac_is_pinned(batch[1]));
                check_batch(fac_to(batch[0], .device = cuda_device(0), .non_blocking = true),
                            fac_to(batch[1], .device = cuda_device(0), .non_blocking = true),
                            fac_tensor_size(batch[0], 0), seen);
            }
            assert_no_error();
            for (int k = 0; k < SAMPLES; k++) assert_int_equal(seen[k], 1);
            fac_loader_release(loaders[i]);
        }
        fac_dataset_release(own);
    }
}

FAC_TEST_MAIN(FAC_CUDA_TEST(E84_a_loop_over_a_loader_moves_each_batch_to_the_device),
              FAC_CUDA_TEST(S168_pinned_batches_lie_in_page_locked_memory))
