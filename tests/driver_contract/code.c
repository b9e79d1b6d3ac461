/* Modules, libraries, launches and the properties of devices. */
#include "contract.h"
#include <string.h>

static void a_kernel_runs_with_both_forms_of_arguments(void **state) {
    (void)state;
    CUfunction store = contract_kernel("store");
    struct {
        CUdeviceptr p;
        unsigned v;
    } packed = {new_memory(4), 6};
    size_t bytes = 12;
    ok(launch(store, packed.p, 5, NULL));
    assert_int_equal(read_word(packed.p), 5);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    ok(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    assert_int_equal(read_word(packed.p), 6);
    ok(cu.cuMemFree(packed.p));
}

static void every_thread_of_a_grid_runs_once(void **state) {
    (void)state;
    CUfunction add = contract_kernel("add");
    CUdeviceptr p = new_memory(4);
    unsigned one = 1;
    ok(cu.cuMemsetD32Async(p, 0, 1, NULL));
    ok(cu.cuLaunchKernel(add, 3, 2, 1, 32, 4, 2, 0, NULL, (void *[]){&p, &one}, NULL));
    assert_int_equal(read_word(p), 3 * 2 * 32 * 4 * 2);
    ok(cu.cuMemFree(p));
}

static void arguments_are_read_at_the_launch(void **state) {
    (void)state;
    gate g;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    unsigned v = 1;
    gate_close(&g, s);
    ok(cu.cuLaunchKernel(contract_kernel("store"), 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &v}, NULL));
    v = 2;
    gate_open(&g);
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(read_word(p), 1);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

static void impossible_launches_are_refused(void **state) {
    (void)state;
    CUfunction store = contract_kernel("store");
    CUdeviceptr p = new_memory(4);
    unsigned v = 1;
    void *args[] = {&p, &v};
    expect(cu.cuLaunchKernel(store, 0, 1, 1, 1, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    expect(cu.cuLaunchKernel(store, 1, 1, 1, 2048, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    expect(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    ok(launch(store, p, 3, NULL)); /* none of that sticks */
    assert_int_equal(read_word(p), 3);
    ok(cu.cuMemFree(p));
}

static void what_is_no_image_is_refused(void **state) {
    (void)state;
    CUmodule module;
    static const char nothing[64] = "this is no image of any kind";
    assert_int_not_equal(cu.cuModuleLoadData(&module, nothing), CUDA_SUCCESS);
    assert_int_not_equal(cu.cuModuleLoadDataEx(&module, nothing, 0, NULL, NULL), CUDA_SUCCESS);
}

static void attributes_and_occupancy_are_sane(void **state) {
    (void)state;
    CUfunction store = contract_kernel("store");
    int threads = 0, blocks = 0, grid = 0, block = 0;
    ok(cu.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, store));
    assert_true(threads >= 32 && threads <= 1024);
    ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 256, 0));
    assert_true(blocks >= 1 && blocks * 256 <= 2048);
    ok(cu.cuOccupancyMaxPotentialBlockSize(&grid, &block, store, NULL, 0, 0));
    assert_true(block >= 32 && block <= 1024 && grid >= 1);
    ok(cu.cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    CUdeviceptr p = new_memory(4);
    unsigned v = 8;
    ok(cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 64 << 10, NULL, (void *[]){&p, &v}, NULL));
    assert_int_equal(read_word(p), 8);
    ok(cu.cuMemFree(p));
}

static void devices_describe_themselves(void **state) {
    (void)state;
    int n, major, processors, version;
    char name[100] = "", bus[32] = "";
    CUuuid uuid = {{0}}, none = {{0}};
    size_t total;
    ok(cu.cuDeviceGetCount(&n));
    assert_true(n >= 1);
    ok(cu.cuDeviceGetName(name, sizeof name, 0));
    ok(cu.cuDeviceGetUuid(&uuid, 0));
    ok(cu.cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    ok(cu.cuDeviceTotalMem(&total, 0));
    ok(cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    ok(cu.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    ok(cu.cuDriverGetVersion(&version));
    assert_true(*name && strchr(bus, ':') && total > 1 << 20 && major >= 3 && processors >= 1 && version >= 11000);
    assert_memory_not_equal(&uuid, &none, sizeof uuid);
    expect(cu.cuDeviceGet(&n, 1000), CUDA_ERROR_INVALID_DEVICE);
}

static void contexts_are_counted(void **state) {
    (void)state;
    unsigned flags;
    int active = 0;
    CUcontext c, again;
    CUdevice d;
    ok(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_true(active);
    ok(cu.cuCtxGetCurrent(&c));
    ok(cu.cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(c, again);
    ok(cu.cuDevicePrimaryCtxRelease(0));
    ok(cu.cuCtxGetDevice(&d));
    assert_int_equal(d, 0);
    ok(cu.cuCtxSetCurrent(NULL));
    expect(cu.cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    ok(cu.cuCtxSetCurrent(c));
}

static void errors_have_names_and_texts(void **state) {
    (void)state;
    const char *name = NULL, *text = NULL;
    ok(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
    assert_string_equal(name, "CUDA_ERROR_OUT_OF_MEMORY");
    ok(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_true(strlen(text) > 3);
    expect(cu.cuGetErrorName((CUresult)123456, &name), CUDA_ERROR_INVALID_VALUE);
}

/* A kernel of a library belongs to no context: it runs on the current device. */
static void a_library_serves_every_context(void **state) {
    (void)state;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUdeviceptr p, variable;
    size_t bytes = 0;
    int most = 0;
    ok(cu.cuLibraryLoadData(&library, contract_image(), NULL, NULL, 0, NULL, NULL, 0));
    ok(cu.cuLibraryGetKernel(&kernel, library, "store"));
    expect(cu.cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    ok(cu.cuLibraryGetKernel(&kernel, library, "store"));
    ok(cu.cuKernelGetFunction(&function, kernel));
    ok(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, kernel, 0));
    ok(cu.cuKernelGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
    assert_int_equal(most, 60000);
    ok(cu.cuLibraryGetGlobal(&variable, &bytes, library, "variable"));
    assert_int_equal(bytes, 4);
    ok(launch((CUfunction)kernel, variable, 61, NULL)); /* a kernel is launched as a function is */
    assert_int_equal(read_word(variable), 61);
    p = new_memory(4);
    ok(launch(function, p, 62, NULL));
    assert_int_equal(read_word(p), 62);
    ok(cu.cuMemFree(p));
    ok(cu.cuLibraryUnload(library));
}

static void a_module_tells_of_its_parts(void **state) {
    (void)state;
    CUmodule module;
    CUfunction store;
    CUdeviceptr variable;
    size_t bytes = 0, offset = 0, size = 0;
    ok(cu.cuModuleLoadData(&module, contract_image()));
    ok(cu.cuModuleGetGlobal(&variable, &bytes, module, "variable"));
    assert_int_equal(bytes, 4);
    ok(cu.cuModuleGetFunction(&store, module, "store"));
    expect(cu.cuModuleGetFunction(&store, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    ok(cu.cuModuleGetFunction(&store, module, "store"));
    if (cu.cuFuncGetParamInfo) {
        ok(cu.cuFuncGetParamInfo(store, 1, &offset, &size));
        assert_int_equal(offset, 8);
        assert_int_equal(size, 4);
        expect(cu.cuFuncGetParamInfo(store, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    }
    ok(cu.cuModuleUnload(module));
}

const struct CMUnitTest code_tests[] = {
    CONTRACT(a_kernel_runs_with_both_forms_of_arguments),
    CONTRACT(every_thread_of_a_grid_runs_once),
    CONTRACT(arguments_are_read_at_the_launch),
    CONTRACT(impossible_launches_are_refused),
    CONTRACT(what_is_no_image_is_refused),
    CONTRACT(attributes_and_occupancy_are_sane),
    CONTRACT(a_library_serves_every_context),
    CONTRACT(a_module_tells_of_its_parts),
    CONTRACT(devices_describe_themselves),
    CONTRACT(contexts_are_counted),
    CONTRACT(errors_have_names_and_texts),
};
const size_t n_code_tests = FAC_COUNT(code_tests);
