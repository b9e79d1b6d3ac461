/* Copies and sets of memory, and when they block. */
#include "contract.h"
#include <stdlib.h>

/* Of a pageable source the driver keeps a copy before the call returns. */
static void pageable_upload_may_be_overwritten_at_once(void **state) {
    (void)state;
    gate g;
    unsigned source[256];
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(sizeof source);
    for (unsigned i = 0; i < 256; i++) source[i] = i;
    gate_close(&g, s);
    ok(cu.cuMemcpyHtoDAsync(p, source, sizeof source, s));
    for (unsigned i = 0; i < 256; i++) source[i] = 0;
    gate_open(&g);
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(read_word(p + 4 * 200), 200);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

static void pageable_download_has_arrived_on_return(void **state) {
    (void)state;
    unsigned v = 0;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    ok(cu.cuMemsetD32Async(p, 77, 1, s));
    ok(cu.cuMemcpyDtoHAsync(&v, p, 4, s));
    assert_int_equal(v, 77);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

/* Page-locked memory is read and written when the copy's turn comes. */
static void pinned_copies_run_in_their_turn(void **state) {
    (void)state;
    gate g;
    volatile unsigned *host;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    ok(cu.cuMemHostAlloc((void **)&host, 8, CU_MEMHOSTALLOC_PORTABLE));
    host[0] = 1, host[1] = 0;
    gate_close(&g, s);
    ok(cu.cuMemcpyHtoDAsync(p, (const void *)host, 4, s));
    ok(cu.cuMemcpyDtoHAsync((void *)(host + 1), p, 4, s));
    host[0] = 2;
    expect(cu.cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    assert_int_equal(host[1], 0);
    gate_open(&g);
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(host[1], 2);
    ok(cu.cuMemFreeHost((void *)host));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

static void synchronous_copies_are_done_on_return(void **state) {
    (void)state;
    unsigned v = 9, w = 0;
    CUdeviceptr p = new_memory(4);
    ok(cu.cuMemcpyHtoD(p, &v, 4));
    v = 0;
    ok(cu.cuMemcpyDtoH(&w, p, 4));
    assert_int_equal(w, 9);
    ok(cu.cuMemFree(p));
}

static void fills_of_each_width(void **state) {
    (void)state;
    CUdeviceptr p = new_memory(16);
    ok(cu.cuMemsetD8Async(p, 0xab, 16, NULL));
    ok(cu.cuMemsetD16Async(p + 4, 0x1234, 2, NULL));
    ok(cu.cuMemsetD32Async(p + 8, 0xdeadbeef, 1, NULL));
    assert_int_equal(read_word(p), 0xabababab);
    assert_int_equal(read_word(p + 4), 0x12341234);
    assert_int_equal(read_word(p + 8), 0xdeadbeef);
    assert_int_equal(read_word(p + 12), 0xabababab);
    expect(cu.cuMemsetD32Async(p + 2, 0, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    ok(cu.cuMemFree(p));
}

static void a_copy_of_rows_leaves_the_gaps(void **state) {
    (void)state;
    unsigned host[12];
    CUdeviceptr p = new_memory(64);
    for (unsigned i = 0; i < 12; i++) host[i] = i;
    ok(cu.cuMemsetD8Async(p, 0, 64, NULL));
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = host,
                       .srcPitch = 16,
                       .srcXInBytes = 4,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstPitch = 20,
                       .dstY = 1,
                       .WidthInBytes = 8,
                       .Height = 2};
    ok(cu.cuMemcpy2DAsync(&c, NULL));
    assert_int_equal(read_word(p + 20), 1);
    assert_int_equal(read_word(p + 24), 2);
    assert_int_equal(read_word(p + 28), 0);
    assert_int_equal(read_word(p + 40), 5);
    ok(cu.cuMemFree(p));
}

static void empty_copies_and_fills_do_nothing(void **state) {
    (void)state;
    unsigned v = 3;
    CUdeviceptr p = new_memory(4);
    ok(cu.cuMemcpyHtoDAsync(p, &v, 0, NULL));
    ok(cu.cuMemsetD8Async(p, 1, 0, NULL));
    ok(cu.cuMemFree(p));
}

static void copies_between_devices_need_no_peer_access(void **state) {
    (void)state;
    int n;
    ok(cu.cuDeviceGetCount(&n));
    if (n < 2) {
        print_message("one device only: nothing to copy between\n");
        skip();
    }
    CUcontext a, b = contract_context(1);
    ok(cu.cuCtxGetCurrent(&a));
    CUdeviceptr p = new_memory(4);
    ok(cu.cuMemsetD32Async(p, 31, 1, NULL));
    ok(cu.cuCtxSynchronize());
    ok(cu.cuCtxSetCurrent(b));
    CUdeviceptr q = new_memory(4);
    ok(cu.cuMemcpyPeerAsync(q, b, p, a, 4, NULL));
    assert_int_equal(read_word(q), 31);
    ok(cu.cuMemsetD32Async(q, 32, 1, NULL));
    ok(cu.cuMemcpyAsync(p, q, 4, NULL));
    assert_int_equal(read_word(p), 32);
    ok(cu.cuMemFree(q));
    ok(cu.cuCtxSetCurrent(a));
    ok(cu.cuMemFree(p));
    ok(cu.cuDevicePrimaryCtxRelease(1));
}

const struct CMUnitTest copy_tests[] = {
    CONTRACT(pageable_upload_may_be_overwritten_at_once),
    CONTRACT(pageable_download_has_arrived_on_return),
    CONTRACT(pinned_copies_run_in_their_turn),
    CONTRACT(synchronous_copies_are_done_on_return),
    CONTRACT(fills_of_each_width),
    CONTRACT(a_copy_of_rows_leaves_the_gaps),
    CONTRACT(empty_copies_and_fills_do_nothing),
    CONTRACT(copies_between_devices_need_no_peer_access),
};
const size_t n_copy_tests = FAC_COUNT(copy_tests);
