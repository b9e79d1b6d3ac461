/* Conversions between devices: x.cuda(), x.cuda(1), x.cpu() and x.to(device, dtype) of PyTorch. */
#include "support/cuda.h"

static const fac_device cpu_device = {.type = FAC_CPU}, any_cuda = {.type = FAC_CUDA};

static fac_tensor *to(fac_tensor *t, fac_device d) { return fac_to(t, .device = d); }

/* n 0: whatever the elements are. */
static void assert_is(fac_tensor *t, fac_device d, fac_dtype dtype, const double *want, size_t n) {
    double got[8];
    assert_no_error();
    assert_true(fac_device_equal(fac_tensor_device(t), d));
    assert_int_equal(fac_tensor_dtype(t), dtype);
    if (n == 0) return;
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

static void S021_cuda_and_cpu_move_elements_there_and_back(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    for (int d = 1; d < FAC_DTYPE_COUNT; d++) {
        fac_tensor *x = fac_to_dtype(fac_reshape(fac_tensor_of(1, 2, 3, 4, 5, 6), FAC_SHAPE(2, 3)), (fac_dtype)d);
        fac_tensor *there = to(x, cuda_device(0)), *turned = to(fac_t(x), cuda_device(1));
        assert_is(there, cuda_device(0), (fac_dtype)d, NULL, 0);
        assert_is(turned, cuda_device(1), (fac_dtype)d, NULL, 0);
        assert_false(fac_is_alias_of(x, there));
        assert_true(fac_equal(to(there, cpu_device), x));
        assert_true(fac_equal(to(turned, cpu_device), fac_t(x)));
        assert_true(fac_equal(to(to(there, cuda_device(1)), cpu_device), x));
    }
}

static void S021_cuda_to_with_nothing_to_change_is_the_tensor_itself(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *here = fac_tensor_of(1, 2), *there = to(here, cuda_device(1));
    assert_no_error();
    int refs = fac__header(there)->refs;
    fac_tensor *const same[] = {to(there, cuda_device(1)),
                                fac_to(there),
                                fac_to_dtype(there, FAC_F32),
                                fac_to(there, .device = fac_device_parse("cuda:1"), .dtype = FAC_F32),
                                fac_to_device(there, cuda_device(1), FAC_F32),
                                fac_to_other(there, there)};
    for (size_t i = 0; i < FAC_COUNT(same); i++) assert_ptr_equal(same[i], there);
    assert_int_equal(fac__header(there)->refs, refs + (int)FAC_COUNT(same));
    assert_int_equal(fac_storage_use_count(fac_tensor_storage(there)), 1);
    assert_ptr_equal(to(here, cpu_device), here);
    assert_no_error();
}

/* x.cuda() and "cuda" mean the current device: the tensor itself if it lies there, else a copy. */
static void S021_cuda_without_an_index_is_the_current_device(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *on_0 = to(fac_tensor_of(1, 2), any_cuda);
    assert_is(on_0, cuda_device(0), FAC_F32, (double[]){1, 2}, 2);
    assert_ptr_equal(to(on_0, any_cuda), on_0);
    {
        FAC_DEVICE_SCOPE(on, cuda_device(1));
        fac_tensor *on_1 = to(on_0, fac_device_parse("cuda"));
        assert_is(on_1, cuda_device(1), FAC_F32, (double[]){1, 2}, 2);
        assert_ptr_equal(to(on_1, any_cuda), on_1);
        assert_ptr_equal(to(on_0, cuda_device(0)), on_0);
    }
    assert_ptr_equal(to(on_0, any_cuda), on_0);
}

static void S021_cuda_device_and_dtype_change_together(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1.5f, -2.25f), *like = fac_zeros(1, .device = cuda_device(1), .dtype = FAC_F64);
    assert_is(fac_to(x, .device = cuda_device(0), .dtype = FAC_F16), cuda_device(0), FAC_F16, (double[]){1.5, -2.25},
              2);
    assert_is(fac_to_device(x, cuda_device(1), FAC_I32), cuda_device(1), FAC_I32, (double[]){1, -2}, 2);
    fac_tensor *y = fac_to_other(x, like);
    assert_is(y, cuda_device(1), FAC_F64, (double[]){1.5, -2.25}, 2);
    assert_is(fac_to_other(y, x), cpu_device, FAC_F32, (double[]){1.5, -2.25}, 2);
    assert_is(fac_to_dtype(y, FAC_BOOL), cuda_device(1), FAC_BOOL, (double[]){1, 1}, 2);
}

static void S021_cuda_gradients_come_back_to_the_device_that_they_left(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    fac_tensor *y = to(fac_mul(to(x, cuda_device(0)), 3), cuda_device(1));
    assert_ok(fac_backward(fac_sum(y)));
    assert_is(fac_grad_of(x), cpu_device, FAC_F32, (double[]){3, 3}, 2);
}

static void S021_cuda_a_device_that_is_not_there_is_refused(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    assert_null(to(fac_tensor_of(1), cuda_device(99)));
    assert_error(FAC_ERR_DEVICE, "cuda:99");
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S021_cuda_and_cpu_move_elements_there_and_back),
              FAC_CUDA_TEST(S021_cuda_to_with_nothing_to_change_is_the_tensor_itself),
              FAC_CUDA_TEST(S021_cuda_without_an_index_is_the_current_device),
              FAC_CUDA_TEST(S021_cuda_device_and_dtype_change_together),
              FAC_CUDA_TEST(S021_cuda_gradients_come_back_to_the_device_that_they_left),
              FAC_CUDA_TEST(S021_cuda_a_device_that_is_not_there_is_refused))
