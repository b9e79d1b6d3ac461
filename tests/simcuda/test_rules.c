/* What the simulated driver does beyond a driver's contract: it names what is wrong, injects failures, and chooses
   orders. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_abi/entries.h"
#include "simcuda/exec.h"
#include "simcuda/simcuda.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DECLARE(name, symbol, version, need, parameters) CUresult symbol parameters;
FAC_CU_ENTRIES(DECLARE)

static void expect_at(CUresult got, CUresult wanted, const char *part, const char *call, int line) {
    const char *text = NULL;
    if (cuGetErrorString(got, &text) || !text) text = "";
    bool good = got == wanted && strstr(text, part);
    if (!good) print_error("%s\n    returned %d: %s\n    expected %d with \"%s\"\n", call, got, text, wanted, part);
    _assert_true(good, call, __FILE__, line);
}
#define expect(call, wanted, part) expect_at((call), (wanted), (part), #call, __LINE__)
#define ok(call) expect(call, CUDA_SUCCESS, "")

/* Starts the driver with options and makes device 0 current. */
static CUcontext start(const char *options) {
    CUcontext c = NULL;
    simcuda_stop();
    setenv("FACULA_CUDA", options, 1);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&c, 0));
    ok(cuCtxSetCurrent(c));
    return c;
}

static CUcontext other_device(void) {
    CUcontext c = NULL;
    ok(cuDevicePrimaryCtxRetain(&c, 1));
    return c;
}

static int stop(void **state) {
    (void)state;
    simcuda_stop();
    return 0;
}

static CUdeviceptr memory(size_t bytes) {
    CUdeviceptr p = 0;
    ok(cuMemAlloc_v2(&p, bytes));
    return p;
}

static CUstream stream(void) {
    CUstream s = NULL;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static void store_once(void **args) { **(unsigned **)args[0] = *(unsigned *)args[1]; }
static const sim_param params[] = {{8, 8, SIM_OUT, "result"}, {4, 4, SIM_VAL, "value"}};
static const sim_kernel store = {.name = "store", .call = store_once, .params = params, .n_params = 2, .native = 1};
static const sim_param plain[] = {{8, 8, SIM_VAL, "address"}, {4, 4, SIM_VAL, "value"}};
static const sim_kernel stray = {.name = "stray", .call = store_once, .params = plain, .n_params = 2};
static const sim_kernel *const kernels[] = {&store, &stray};
static unsigned variable;
static const sim_global globals[] = {{"variable", &variable, sizeof variable}};
static const sim_image image = {.magic = SIM_IMAGE_MAGIC,
                                .size = sizeof(sim_image),
                                .n_kernels = 2,
                                .n_globals = 1,
                                .kernels = kernels,
                                .globals = globals};

static CUlibrary library;
static CUfunction kernel(void) {
    CUkernel k = NULL;
    ok(cuLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&k, library, "store"));
    return (CUfunction)k;
}
static CUresult launch(CUfunction f, CUdeviceptr p, unsigned v, CUstream s) {
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &v}, NULL);
}

static int open_null(void) {
    int file = open("/dev/null", O_WRONLY);
    assert_true(file >= 0);
    return file;
}

/* ---- bad pointers ------------------------------------------------------------------------------------------------ */

static void bad_pointers_are_explained(void **state) {
    (void)state;
    unsigned local = 0;
    start("sim:1");
    CUdeviceptr p = memory(1000);
    expect(cuMemsetD8Async(p + 990, 0, 20, NULL), CUDA_ERROR_INVALID_VALUE, "0 bytes past the end of block");
    expect(cuMemcpyDtoH_v2(&local, p + 1000, 4), CUDA_ERROR_INVALID_VALUE, "0 bytes past the end of block");
    expect(cuMemcpyDtoH_v2(&local, (CUdeviceptr)&local, 4), CUDA_ERROR_INVALID_VALUE,
           "is no memory that the driver knows");
    expect(cuMemcpyHtoD_v2(p, (void *)p, 4), CUDA_ERROR_INVALID_VALUE, "is memory of device 0, not of the host");
    expect(cuMemFree_v2(p + 8), CUDA_ERROR_INVALID_VALUE, "8 bytes into block");
    ok(cuMemFree_v2(p));
    expect(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE, "into the freed block");
    expect(cuMemsetD8Async(p + 4, 0, 20, NULL), CUDA_ERROR_INVALID_VALUE, "4 bytes into the freed block");
    expect(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE, "not the start of a block");
}

static void stale_handles_are_refused(void **state) {
    (void)state;
    CUevent e;
    start("sim:1");
    CUstream s = stream();
    CUfunction f = kernel();
    ok(cuEventCreate(&e, 0));
    ok(cuEventDestroy_v2(e));
    ok(cuStreamDestroy_v2(s));
    ok(cuLibraryUnload(library));
    expect(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE, "is no stream, or was destroyed");
    expect(cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE, "is no stream");
    expect(cuEventRecord(e, NULL), CUDA_ERROR_INVALID_HANDLE, "is no event, or was destroyed");
    expect(launch(f, memory(4), 1, NULL), CUDA_ERROR_INVALID_HANDLE, "its image was unloaded");
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void memory_of_another_device_is_a_fault_without_peer_access(void **state) {
    (void)state;
    CUcontext first = start("sim:2"), second = other_device();
    CUfunction f = kernel();
    CUdeviceptr p = memory(4);
    ok(cuCtxSetCurrent(second));
    ok(cuCtxEnablePeerAccess(first, 0));
    expect(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "already");
    ok(launch(f, p, 1, NULL));
    ok(cuCtxSynchronize());
    ok(cuCtxDisablePeerAccess(first));
    ok(launch(f, p, 1, NULL));
    expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS, "device 1: kernel store, argument result at");
    expect(cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS, "memory of device 0, which device 1 may not touch");
    ok(cuCtxSetCurrent(first));
    ok(cuCtxSynchronize()); /* the other device goes on */
}

static void work_on_memory_unmapped_too_early_faults(void **state) {
    (void)state;
    start("sim:1");
    CUdeviceptr p;
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp on = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t grain = 2 << 20;
    ok(cuMemAddressReserve(&p, grain, 0, 0, 0));
    ok(cuMemCreate(&h, grain, &on, 0));
    ok(cuMemMap(p, grain, 0, h, 0));
    expect(cuMemsetD8Async(p, 0, 4, NULL), CUDA_ERROR_INVALID_VALUE, "no device has been given access to");
    ok(cuMemSetAccess(p, grain, &access, 1));
    ok(cuMemsetD8Async(p, 0, 4, NULL));
    ok(cuMemUnmap(p, grain)); /* without waiting */
    expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS, "the freed block");
    assert_int_equal(simcuda_set("clear"), 0);
    ok(cuCtxSynchronize());
}

static void stream_ordered_memory_is_held_to_its_order(void **state) {
    (void)state;
    start("sim:1,seed=0");
    CUstream a = stream(), b = stream();
    CUdeviceptr p;
    CUevent e;
    ok(cuEventCreate(&e, 0));
    /* allocated in b behind other work, used in a without waiting */
    ok(cuMemAllocAsync(&p, 64, b));
    ok(cuEventRecord(e, b));
    ok(cuStreamWaitEvent(a, e, 0));
    ok(cuMemsetD8Async(p, 1, 64, a)); /* with a wait it is right */
    ok(cuMemFreeAsync(p, a));
    expect(cuMemFreeAsync(p, a), CUDA_ERROR_INVALID_VALUE, "not the start of live stream-ordered memory");
    ok(cuMemsetD8Async(p, 1, 64, a)); /* after the free */
    expect(cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS, "into the freed block");
}

static atomic_bool opened;
static void stand(void *unused) {
    (void)unused;
    while (!atomic_load(&opened)) nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void stream_ordered_memory_is_not_there_before_its_turn(void **state) {
    (void)state;
    start("sim:1");
    CUstream a = stream(), b = stream();
    CUdeviceptr p;
    atomic_store(&opened, false);
    ok(cuLaunchHostFunc(b, stand, NULL));
    ok(cuMemAllocAsync(&p, 64, b));
    ok(cuMemsetD8Async(p, 1, 64, a)); /* without waiting for b */
    CUresult r = cuStreamSynchronize(a);
    atomic_store(&opened, true);
    expect(r, CUDA_ERROR_ILLEGAL_ADDRESS, "the not yet allocated block");
}

/* The address comes as a plain number, so only the access itself tells. */
static void a_stray_access_of_a_kernel_faults(void **state) {
    (void)state;
    start("sim:1");
    CUkernel k;
    kernel();
    ok(cuLibraryGetKernel(&k, library, "stray"));
    CUdeviceptr p = memory(512);
    ok(launch((CUfunction)k, p + 508, 1, NULL));
    ok(cuCtxSynchronize());
    ok(launch((CUfunction)k, p + 512, 1, NULL));
    expect(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS, "0 bytes past the end of block");
}

static void kernel_on_a_stream_of_another_device_is_refused(void **state) {
    (void)state;
    start("sim:2");
    CUstream s = stream();
    CUfunction f = kernel();
    CUdeviceptr p = memory(4);
    CUevent e;
    ok(cuCtxSetCurrent(other_device()));
    expect(launch(f, p, 1, s), CUDA_ERROR_INVALID_HANDLE, "the stream is of device 0, the current context of device 1");
    ok(cuEventCreate(&e, 0));
    expect(cuEventRecord(e, s), CUDA_ERROR_INVALID_HANDLE, "the event is of device 1, the stream of device 0");
    ok(cuMemsetD32Async(p, 3, 1, s)); /* copies and fills may */
}

static CUresult from_host_function;
static void calls_the_driver(void *unused) {
    (void)unused;
    from_host_function = cuCtxSynchronize();
}

static void host_functions_must_not_call_the_driver(void **state) {
    (void)state;
    start("sim:1");
    ok(cuLaunchHostFunc(NULL, calls_the_driver, NULL));
    ok(cuCtxSynchronize());
    assert_int_equal(from_host_function, CUDA_ERROR_NOT_PERMITTED);
}

/* ---- injection --------------------------------------------------------------------------------------------------- */

static void the_nth_allocation_fails(void **state) {
    (void)state;
    CUdeviceptr p, q;
    start("sim:1,oom=2");
    ok(cuMemAlloc_v2(&p, 8));
    expect(cuMemAlloc_v2(&q, 8), CUDA_ERROR_OUT_OF_MEMORY, "a failure that was asked for");
    ok(cuMemAlloc_v2(&q, 8));
    assert_int_equal(simcuda_count("allocations"), 3);
    assert_int_equal(simcuda_count("blocks"), 2);
    assert_int_equal(simcuda_set("oom=1"), 0);
    expect(cuMemAllocAsync(&p, 8, NULL), CUDA_ERROR_OUT_OF_MEMORY, "asked for");
    ok(cuMemAllocAsync(&p, 8, NULL));
}

static void the_nth_launch_fails_or_faults(void **state) {
    (void)state;
    start("sim:1,fail=2");
    CUfunction f = kernel();
    CUdeviceptr p = memory(4);
    ok(launch(f, p, 1, NULL));
    expect(launch(f, p, 2, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "asked for");
    ok(launch(f, p, 3, NULL));
    ok(cuCtxSynchronize()); /* that was not sticky */
    assert_int_equal(simcuda_set("fault=1"), 0);
    ok(launch(f, p, 4, NULL));
    expect(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED, "a fault that was asked for");
    expect(cuMemFree_v2(p), CUDA_ERROR_LAUNCH_FAILED, "reported by"); /* this is */
    assert_int_equal(simcuda_set("clear"), 0);
    unsigned v;
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 3); /* the kernel that faulted did not run */
}

static void options_are_read_strictly(void **state) {
    (void)state;
    static const char *const bad[][2] = {{"sim:x", "N devices in [0, 64]"},
                                         {"sim:65", "FACULA_CUDA=sim:65"},
                                         {"sim:1,nonsense", "there is no option \"nonsense\"; there are: seed"},
                                         {"sim:1,mem=3", "option mem wants a value in [1048576"},
                                         {"sim:1,sms=0", "not \"0\""},
                                         {"sim:1,seed", "option seed wants a value"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        simcuda_stop();
        setenv("FACULA_CUDA", bad[i][0], 1);
        expect(cuInit(0), CUDA_ERROR_INVALID_VALUE, bad[i][1]);
    }
    int null = open_null(), err = dup(2);
    fflush(stderr);
    dup2(null, 2); /* the complaint is meant for people */
    int refused = simcuda_set("what=1");
    fflush(stderr);
    dup2(err, 2);
    close(err);
    close(null);
    assert_int_equal(refused, -1);
    int n;
    size_t free_bytes, total;
    start("sim:3,mem=64M,sms=132");
    ok(cuDeviceGetCount(&n));
    assert_int_equal(n, 3);
    ok(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2));
    assert_int_equal(n, 132);
    CUdeviceptr p = memory(48 << 20), q;
    ok(cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(total, 64 << 20);
    assert_int_equal(free_bytes, 16 << 20);
    expect(cuMemAlloc_v2(&q, 17 << 20), CUDA_ERROR_OUT_OF_MEMORY, "16777216 of 67108864 are free");
    ok(cuMemFree_v2(p));
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Two streams write the same word without an order; what is left. */
static unsigned race(unsigned seed) {
    char options[64];
    unsigned v = 0;
    snprintf(options, sizeof options, "sim:1,seed=%u", seed);
    start(options);
    CUstream a = stream(), b = stream();
    CUdeviceptr p = memory(4);
    ok(cuMemsetD32Async(p, 1, 1, a));
    ok(cuMemsetD32Async(p, 2, 1, b));
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    return v;
}

static void seeds_choose_among_orders_and_repeat_them(void **state) {
    (void)state;
    int seen[3] = {0};
    for (unsigned seed = 1; seed <= 20; seed++) {
        unsigned v = race(seed);
        assert_in_range(v, 1, 2);
        assert_int_equal(race(seed), v);
        seen[v]++;
    }
    assert_true(seen[1] > 2 && seen[2] > 2);
    assert_int_equal(race(0), 2); /* in the order of queueing */
}

static atomic_int counted;
static void count(void *unused) {
    (void)unused;
    atomic_fetch_add(&counted, 1);
}

static void nothing_runs_before_it_is_waited_for(void **state) {
    (void)state;
    start("sim:1");
    CUstream s = stream();
    CUdeviceptr p = memory(4);
    atomic_store(&counted, 0);
    ok(cuMemsetD32Async(p, 1, 1, s));
    ok(cuLaunchHostFunc(s, count, NULL));
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    assert_int_equal(atomic_load(&counted), 0);
    assert_int_equal(simcuda_count("pending"), 2);
    CUresult r;
    for (int i = 0; (r = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY; i++)
        assert_true(i < 1000); /* asking gets it done */
    ok(r);
    assert_int_equal(atomic_load(&counted), 1);
}

static void workers_run_unasked(void **state) {
    (void)state;
    start("sim:1,threads=2,delay=10");
    CUstream s = stream();
    atomic_store(&counted, 0);
    for (int i = 0; i < 5; i++) ok(cuLaunchHostFunc(s, count, NULL));
    for (int i = 0; i < 2000 && atomic_load(&counted) < 5; i++) nanosleep(&(struct timespec){0, 5000000}, NULL);
    assert_int_equal(atomic_load(&counted), 5);
}

static void a_full_queue_runs_by_itself(void **state) {
    (void)state;
    start("sim:1");
    CUstream s = stream();
    CUdeviceptr p = memory(4);
    for (unsigned i = 0; i < 20000; i++) ok(cuMemsetD32Async(p, i, 1, s));
    assert_true(simcuda_count("pending") <= 4096);
    ok(cuStreamSynchronize(s));
    unsigned v;
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 19999);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static void a_launch_in_a_capture_is_a_child_graph(void **state) {
    (void)state;
    start("sim:1");
    CUstream s = stream();
    CUdeviceptr p = memory(4), q;
    CUgraph inner, outer;
    CUgraphExec inner_exec, outer_exec;
    CUfunction f = kernel();
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch(f, p, 5, s));
    ok(cuStreamEndCapture(s, &inner));
    ok(cuGraphInstantiateWithFlags(&inner_exec, inner, 0));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuGraphLaunch(inner_exec, s));
    ok(cuStreamEndCapture(s, &outer));
    CUgraphNode node;
    CUgraphNodeType type;
    size_t n = 1;
    ok(cuGraphGetNodes(outer, &node, &n));
    ok(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_GRAPH);
    ok(cuGraphInstantiateWithFlags(&outer_exec, outer, 0));
    ok(cuGraphExecDestroy(inner_exec));
    ok(cuGraphLaunch(outer_exec, s));
    unsigned v;
    ok(cuMemcpyDtoHAsync_v2(&v, p, 4, s));
    assert_int_equal(v, 5);
    ok(cuLibraryUnload(library));
    expect(cuGraphLaunch(outer_exec, s), CUDA_ERROR_INVALID_HANDLE, "was unloaded");
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect(cuMemAllocAsync(&q, 4, s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "graphs that allocate are not simulated");
    CUgraph none;
    expect(cuStreamEndCapture(s, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "invalidated");
}

static void graphs_record_and_wait_for_events(void **state) {
    (void)state;
    start("sim:1");
    CUstream s = stream(), other = stream();
    CUdeviceptr p = memory(4);
    CUgraph g;
    CUgraphNode fill, record, loop;
    CUgraphExec exec;
    CUevent e;
    CUcontext c;
    ok(cuCtxGetCurrent(&c));
    ok(cuEventCreate(&e, 0));
    ok(cuGraphCreate(&g, 0));
    CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .value = 6, .elementSize = 4, .width = 1, .height = 1};
    ok(cuGraphAddMemsetNode(&fill, g, NULL, 0, &set, c));
    ok(cuGraphAddEventRecordNode(&record, g, &fill, 1, e));
    ok(cuGraphAddEmptyNode(&loop, g, &record, 1));
    expect(cuGraphAddDependencies(g, &loop, &fill, 1), CUDA_ERROR_INVALID_VALUE, "would make a circle");
    ok(cuGraphInstantiateWithFlags(&exec, g, 0));
    ok(cuGraphLaunch(exec, s));
    ok(cuStreamWaitEvent(other, e, 0));
    unsigned v = 0;
    ok(cuMemcpyDtoHAsync_v2(&v, p, 4, other));
    assert_int_equal(v, 6);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void a_stop_frees_what_was_left(void **state) {
    (void)state;
    CUgraph g;
    CUevent e;
    CUmemoryPool pool;
    void *host;
    start("sim:2,threads");
    for (int i = 0; i < 3; i++) memory(100), stream();
    ok(cuGraphCreate(&g, 0));
    ok(cuEventCreate(&e, 0));
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemHostAlloc(&host, 100, 0));
    kernel();
    CUdeviceptr address = memory(8);
    assert_int_equal(simcuda_count("streams"), 3);
    simcuda_stop();
    static const char *const names[] = {"streams", "events", "graphs", "libraries",
                                        "blocks",  "pinned", "bytes",  "pools"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_int_equal(simcuda_count(names[i]), 0);
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_NOT_INITIALIZED);
    start("sim:1");
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

static void variables_of_an_image_have_addresses(void **state) {
    (void)state;
    start("sim:1");
    CUdeviceptr p;
    size_t bytes;
    kernel();
    ok(cuLibraryGetGlobal(&p, &bytes, library, "variable"));
    assert_int_equal(bytes, sizeof variable);
    ok(cuMemsetD32Async(p, 17, 1, NULL));
    ok(cuCtxSynchronize());
    assert_int_equal(variable, 17);
    expect(cuLibraryGetGlobal(&p, &bytes, library, "nothing"), CUDA_ERROR_NOT_FOUND, "has no variable nothing");
}

static void touch_device_memory(void) {
    CUcontext c;
    CUdeviceptr p;
    unsigned v = 0;
    signal(SIGSEGV, SIG_DFL); /* cmocka would take it for a failed test */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setenv("FACULA_CUDA", "sim:1,trap", 1);
    bool fine = !cuInit(0) && !cuDevicePrimaryCtxRetain(&c, 0) && !cuCtxSetCurrent(c) && !cuMemAlloc_v2(&p, 4) &&
                !cuMemsetD32Async(p, 9, 1, NULL) && !cuMemcpyDtoH_v2(&v, p, 4) && v == 9;
    if (fine) v = *(volatile unsigned *)p;
    _exit(0);
}

/* In a child: with `trap`, device memory is out of the host's reach. */
static void touching_device_memory_is_trapped(void **state) {
    (void)state;
    int status, ends[2];
    char said[4096] = "";
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        dup2(ends[1], STDERR_FILENO);
        touch_device_memory();
    }
    close(ends[1]);
    for (ssize_t n, at = 0; (n = read(ends[0], said + at, sizeof said - 1 - (size_t)at)) > 0;) at += n;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(said, "the host touches memory out of its reach"));
    assert_non_null(strstr(said, "0 bytes into block 1 (4 bytes of memory of device 0)"));
}

/* ---- many threads ------------------------------------------------------------------------------------------------ */

typedef struct player {
    CUcontext context;
    CUfunction kernel;
    unsigned id;
    int failures;
} player;

/* Work of one thread in streams and memory of its own; every value is checked. */
static void *play(void *data) {
    player *t = data;
    unsigned *host = NULL;
    CUstream a, b;
    CUevent e;
    t->failures += cuCtxSetCurrent(t->context) != 0;
    t->failures += cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) || cuStreamCreate(&b, CU_STREAM_DEFAULT);
    t->failures += cuEventCreate(&e, CU_EVENT_DISABLE_TIMING) || cuMemHostAlloc((void **)&host, 8, 0);
    for (unsigned i = 0; i < 60 && !t->failures; i++) {
        CUdeviceptr p, q;
        unsigned v = t->id * 1000 + i;
        t->failures += cuMemAlloc_v2(&p, 8 + 512 * (size_t)(i % 7)) || cuMemAllocAsync(&q, 64, a);
        t->failures += launch(t->kernel, p, v, a) || cuMemcpyDtoDAsync_v2(q, p, 4, a) || cuEventRecord(e, a);
        t->failures += cuStreamWaitEvent(b, e, 0) || cuMemcpyDtoHAsync_v2(host, q, 4, b) || cuEventRecord(e, b);
        t->failures += cuStreamWaitEvent(a, e, 0) || cuMemFreeAsync(q, a);
        t->failures += (i % 2 ? cuEventSynchronize(e) : cuStreamSynchronize(b)) != 0;
        t->failures += host[0] != v;
        t->failures += cuMemFree_v2(p) != 0;
    }
    t->failures += cuMemFreeHost(host) || cuEventDestroy_v2(e) || cuStreamDestroy_v2(a) || cuStreamDestroy_v2(b);
    return NULL;
}

static void play_together(const char *options) {
    enum { PLAYERS = 8 };
    pthread_t threads[PLAYERS];
    player players[PLAYERS];
    CUcontext contexts[2] = {start(options), other_device()};
    CUfunction f = kernel();
    for (unsigned i = 0; i < PLAYERS; i++) {
        players[i] = (player){contexts[i % 2], f, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    }
    for (int i = 0; i < PLAYERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(players[i].failures, 0);
    }
    ok(cuCtxSynchronize());
    ok(cuCtxSetCurrent(contexts[1]));
    ok(cuCtxSynchronize());
    static const char *const names[] = {"streams", "events", "blocks", "pinned", "bytes", "pending"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_int_equal(simcuda_count(names[i]), 0);
}

static void threads_share_the_driver(void **state) {
    (void)state;
    play_together("sim:2,seed=5");
    play_together("sim:2,threads=3,delay=20");
}

/* For ThreadSanitizer: two streams store to one word, ordered by an event or not. */
static void two_streams(bool ordered) {
    start("sim:1,threads=4,delay=200");
    CUstream a = stream(), b = stream();
    CUfunction f = kernel();
    CUdeviceptr p = memory(4);
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 50; i++) {
        ok(launch(f, p, i, a));
        if (ordered) {
            ok(cuEventRecord(e, a));
            ok(cuStreamWaitEvent(b, e, 0));
        }
        ok(launch(f, p, i, b));
        if (ordered) {
            ok(cuEventRecord(e, b));
            ok(cuStreamWaitEvent(a, e, 0));
        }
    }
    ok(cuCtxSynchronize());
    assert_int_equal(*(unsigned *)p, 49);
}

static void ordered_streams_do_not_race(void **state) {
    (void)state;
    two_streams(true);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "race")) return two_streams(false), 0;
#define RULE(name) cmocka_unit_test_teardown(name, stop)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touching_device_memory_is_trapped),
        RULE(bad_pointers_are_explained),
        RULE(stale_handles_are_refused),
        RULE(memory_of_another_device_is_a_fault_without_peer_access),
        RULE(work_on_memory_unmapped_too_early_faults),
        RULE(stream_ordered_memory_is_held_to_its_order),
        RULE(stream_ordered_memory_is_not_there_before_its_turn),
        RULE(a_stray_access_of_a_kernel_faults),
        RULE(kernel_on_a_stream_of_another_device_is_refused),
        RULE(host_functions_must_not_call_the_driver),
        RULE(the_nth_allocation_fails),
        RULE(the_nth_launch_fails_or_faults),
        RULE(options_are_read_strictly),
        RULE(seeds_choose_among_orders_and_repeat_them),
        RULE(nothing_runs_before_it_is_waited_for),
        RULE(workers_run_unasked),
        RULE(ordered_streams_do_not_race),
        RULE(threads_share_the_driver),
        RULE(a_full_queue_runs_by_itself),
        RULE(a_launch_in_a_capture_is_a_child_graph),
        RULE(graphs_record_and_wait_for_events),
        RULE(a_stop_frees_what_was_left),
        RULE(variables_of_an_image_have_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
