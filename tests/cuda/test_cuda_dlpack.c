/* DLPack with CUDA tensors: whose memory it is, and which stream waits. */
#include "support/cuda.h"

static fac_tensor *there(fac_tensor *t) { return fac_to(t, .device = cuda_device(0)); }

static void dlpack_shares_cuda_memory(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = there(fac_arange(6.0));
    assert_int_equal(fac_dlpack_device(x).type, FAC_DL_CUDA);
    fac_dl_versioned *m = fac_to_dlpack(x);
    assert_non_null(m);
    assert_true(m->tensor.device.type == FAC_DL_CUDA && m->tensor.device.id == 0);
    fac_tensor *y = fac_from_dlpack(m);
    assert_no_error();
    assert_true(fac_device_equal(fac_tensor_device(y), fac_tensor_device(x)));
    assert_non_null(fac_add_(y, 1.0));
    assert_true(fac_item(fac_select(x, 0, 5)) == 6);
    fac_tensor *copy = fac_from_dlpack(fac_to_dlpack(x, .stream = -1), .copy = true);
    assert_non_null(fac_add_(copy, 1.0));
    assert_true(fac_item(fac_select(x, 0, 5)) == 6 && fac_item(fac_select(copy, 0, 5)) == 7);
    assert_null(fac_to_dlpack(x, .stream = 0));
    assert_error(FAC_ERR_ARGUMENT, "a stream should be 1, 2, the address of a CUstream, or -1, got 0");
}

static bool is_done(fac_stream s) {
    bool done = false;
    assert_ok(fac_stream_query(s, &done));
    return done;
}

static void dlpack_lets_the_reading_stream_wait(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = there(fac_arange(6.0));
    const fac_stream writer = fac_stream_new(cuda_device(0), 0), reader = fac_stream_new(cuda_device(0), 0),
                     apart = fac_stream_new(cuda_device(0), 0);
    assert_ok(fac_stream_wait_stream(writer, fac_current_stream(cuda_device(0))));
    fac_dl_versioned *m, *free;
    support_gate_close(writer);
    {
        FAC_STREAM_SCOPE(on, writer);
        assert_non_null(fac_add_(x, 1.0));
        m = fac_to_dlpack(x, .stream = (int64_t)(uintptr_t)fac_stream_handle(reader));
        free = fac_to_dlpack(x, .stream = -1);
    }
    assert_no_error();
    assert_false(is_done(reader));
    assert_true(is_done(apart)); /* nothing waits that was not asked to */
    support_gate_open();
    assert_ok(fac_stream_synchronize(reader));
    {
        FAC_STREAM_SCOPE(on, reader);
        assert_true(fac_item(fac_select(fac_from_dlpack(m), 0, 5)) == 6);
    }
    free->deleter(free);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(dlpack_shares_cuda_memory), FAC_CUDA_TEST(dlpack_lets_the_reading_stream_wait))
