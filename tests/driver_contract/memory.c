/* Memory: device, host, virtual, stream-ordered. */
#include "contract.h"
#include <stdlib.h>

static void more_than_there_is_is_out_of_memory(void **state) {
    (void)state;
    size_t free_before, free_after, total;
    CUdeviceptr p;
    ok(cu.cuMemGetInfo(&free_before, &total));
    assert_true(free_before <= total);
    expect(cu.cuMemAlloc(&p, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
    expect(cu.cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    p = new_memory(64 << 20);
    ok(cu.cuMemGetInfo(&free_after, &total));
    assert_true(free_after + (64 << 20) <= free_before);
    ok(cu.cuMemFree(p));
    ok(cu.cuMemFree(0));
}

static void a_pointer_tells_what_it_is(void **state) {
    (void)state;
    unsigned type = 0;
    int device = -1, local = 0;
    CUdeviceptr p = new_memory(1000), base;
    size_t bytes;
    void *host;
    ok(cu.cuMemHostAlloc(&host, 100, 0));
    assert_int_equal(p % 256, 0);
    ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 10));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    ok(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    assert_int_equal(device, 0);
    ok(cu.cuMemGetAddressRange(&base, &bytes, p + 10));
    assert_int_equal(base, p);
    assert_true(bytes >= 1000);
    ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    expect(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&local),
           CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    ok(cu.cuPointerGetAttributes(1, list, (void *[]){&type}, (CUdeviceptr)&local));
    assert_int_equal(type, 0);
    ok(cu.cuMemFreeHost(host));
    ok(cu.cuMemFree(p));
}

static void host_memory_can_be_registered_once(void **state) {
    (void)state;
    unsigned flags;
    CUdeviceptr alias;
    void *memory = aligned_alloc(4096, 8192);
    assert_non_null(memory);
    ok(cu.cuMemHostRegister(memory, 8192, CU_MEMHOSTREGISTER_PORTABLE));
    expect(cu.cuMemHostRegister(memory, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok(cu.cuMemHostGetFlags(&flags, memory));
    ok(cu.cuMemHostGetDevicePointer(&alias, memory, 0));
    ok(cu.cuMemHostUnregister(memory));
    expect(cu.cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    free(memory);
}

static void a_kernel_writes_pinned_memory(void **state) {
    (void)state;
    unsigned *host;
    CUdeviceptr alias;
    ok(cu.cuMemHostAlloc((void **)&host, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cu.cuMemHostGetDevicePointer(&alias, host, 0));
    ok(launch(contract_kernel("store"), alias, 12, NULL));
    ok(cu.cuCtxSynchronize());
    assert_int_equal(*host, 12);
    ok(cu.cuMemFreeHost(host));
}

static CUmemAllocationProp on_device_0(void) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
}

static void virtual_memory_is_mapped_in_2_mib(void **state) {
    (void)state;
    size_t grain;
    CUdeviceptr p;
    CUmemGenericAllocationHandle one, two;
    CUmemAllocationProp properties = on_device_0();
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ok(cu.cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(grain, 2 << 20);
    ok(cu.cuMemAddressReserve(&p, 4 * grain, 0, 0, 0));
    ok(cu.cuMemCreate(&one, grain, &properties, 0));
    ok(cu.cuMemCreate(&two, grain, &properties, 0));
    expect(cu.cuMemMap(p + 4096, grain, 0, one, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cu.cuMemMap(p, grain, 0, one, 0));
    ok(cu.cuMemMap(p + grain, grain, 0, two, 0));
    ok(cu.cuMemSetAccess(p, 2 * grain, &access, 1));
    ok(cu.cuMemsetD32Async(p, 21, 2 * grain / 4, NULL)); /* across the seam */
    assert_int_equal(read_word(p + grain - 4), 21);
    assert_int_equal(read_word(p + 2 * grain - 4), 21);
    ok(cu.cuMemRelease(one)); /* lives on while mapped */
    assert_int_equal(read_word(p), 21);
    ok(cu.cuMemUnmap(p, grain));
    ok(cu.cuMemUnmap(p + grain, grain));
    ok(cu.cuMemRelease(two));
    ok(cu.cuMemAddressFree(p, 4 * grain));
}

static void physical_memory_keeps_its_bytes_when_mapped_again(void **state) {
    (void)state;
    size_t grain = 2 << 20;
    CUdeviceptr p;
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp properties = on_device_0();
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ok(cu.cuMemAddressReserve(&p, 2 * grain, 0, 0, 0));
    ok(cu.cuMemCreate(&memory, grain, &properties, 0));
    for (int i = 0; i < 2; i++) {
        CUdeviceptr at = p + (size_t)i * grain;
        ok(cu.cuMemMap(at, grain, 0, memory, 0));
        ok(cu.cuMemSetAccess(at, grain, &access, 1));
        if (!i) ok(cu.cuMemsetD32Async(at, 99, 1, NULL));
        assert_int_equal(read_word(at), 99);
        ok(cu.cuMemUnmap(at, grain));
    }
    ok(cu.cuMemRelease(memory));
    ok(cu.cuMemAddressFree(p, 2 * grain));
}

static void stream_ordered_memory_is_counted_by_its_pool(void **state) {
    (void)state;
    uint64_t used, keep = UINT64_MAX, reserved;
    CUdeviceptr p;
    CUmemoryPool pool;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuMemPoolCreate(&pool, &properties));
    ok(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    ok(cu.cuMemAllocFromPoolAsync(&p, 1 << 20, pool, s));
    ok(cu.cuMemsetD32Async(p, 4, 1, s));
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(read_word(p), 4);
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_true(used >= 1 << 20);
    ok(cu.cuMemFreeAsync(p, s));
    ok(cu.cuStreamSynchronize(s));
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_int_equal(used, 0);
    assert_true(reserved >= 1 << 20); /* the threshold keeps it */
    ok(cu.cuMemPoolTrimTo(pool, 0));
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_int_equal(reserved, 0);
    ok(cu.cuMemPoolDestroy(pool));
    ok(cu.cuStreamDestroy(s));
}

static void a_device_has_a_pool_that_can_be_exchanged(void **state) {
    (void)state;
    CUdeviceptr p;
    uint64_t used;
    CUmemoryPool first, current, own;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    ok(cu.cuDeviceGetDefaultMemPool(&first, 0));
    ok(cu.cuDeviceGetMemPool(&current, 0));
    assert_ptr_equal(first, current);
    ok(cu.cuMemPoolCreate(&own, &properties));
    ok(cu.cuDeviceSetMemPool(0, own));
    ok(cu.cuMemAllocAsync(&p, 4096, NULL));
    ok(cu.cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_true(used >= 4096);
    ok(cu.cuMemFreeAsync(p, NULL));
    ok(cu.cuCtxSynchronize());
    ok(cu.cuDeviceSetMemPool(0, first));
    ok(cu.cuMemPoolDestroy(own));
}

static void devices_may_be_let_into_each_others_memory(void **state) {
    (void)state;
    int n, can = 0, supported = 0;
    ok(cu.cuDeviceGetCount(&n));
    if (n > 1) ok(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    if (!can) {
        print_message("no two devices that can reach each other\n");
        skip();
    }
    ok(cu.cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    assert_true(supported);
    CUcontext a, b = contract_context(1);
    CUdeviceptr p = new_memory(4), q;
    CUmemoryPool pool;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ok(cu.cuCtxGetCurrent(&a));
    ok(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cu.cuMemAllocAsync(&q, 4, NULL));
    ok(cu.cuMemPoolSetAccess(pool, &access, 1)); /* pools do not follow cuCtxEnablePeerAccess */
    ok(cu.cuCtxSynchronize());
    ok(cu.cuCtxSetCurrent(b));
    ok(cu.cuCtxEnablePeerAccess(a, 0));
    CUfunction store = NULL;
    CUmodule module;
    ok(cu.cuModuleLoadData(&module, contract_image()));
    ok(cu.cuModuleGetFunction(&store, module, "store"));
    ok(launch(store, p, 51, NULL));
    ok(launch(store, q, 52, NULL));
    assert_int_equal(read_word(p), 51);
    assert_int_equal(read_word(q), 52);
    ok(cu.cuModuleUnload(module));
    ok(cu.cuCtxDisablePeerAccess(a));
    ok(cu.cuDevicePrimaryCtxRelease(1));
    ok(cu.cuCtxSetCurrent(a));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    ok(cu.cuMemPoolSetAccess(pool, &access, 1));
    ok(cu.cuMemFree(p));
    ok(cu.cuMemFree(q));
}

const struct CMUnitTest memory_tests[] = {
    CONTRACT(more_than_there_is_is_out_of_memory),
    CONTRACT(a_pointer_tells_what_it_is),
    CONTRACT(host_memory_can_be_registered_once),
    CONTRACT(a_kernel_writes_pinned_memory),
    CONTRACT(virtual_memory_is_mapped_in_2_mib),
    CONTRACT(physical_memory_keeps_its_bytes_when_mapped_again),
    CONTRACT(stream_ordered_memory_is_counted_by_its_pool),
    CONTRACT(a_device_has_a_pool_that_can_be_exchanged),
    CONTRACT(devices_may_be_let_into_each_others_memory),
};
const size_t n_memory_tests = FAC_COUNT(memory_tests);
