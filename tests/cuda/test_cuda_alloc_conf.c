/* Options of the caching allocator, given as a program's user gives them, and what tensors of a device then take. */
#include "support/cuda.h"
#include "support/gate.h"

#include <pthread.h>
#include <time.h>

static const int64_t MIB = 1 << 20;
static const char *const CONF = "FACULA_CUDA_ALLOC_CONF";

static fac_tensor *bytes_on(int index, int64_t n) {
    return fac_empty(FAC_SHAPE(n), .dtype = FAC_U8, .device = cuda_device(index));
}

/* ---- roundup_power2_divisions ----------------------------------------------------------------------------------------- */

/* PyTorch's rule: an entry holds from its size up to twice that size, the first one for all below too, '>' for the last named size
   and all above; with one division sizes are multiples of 512 bytes. */
static const struct rounding {
    int64_t bytes, taken;
} roundings[] = {
    {1, 512},
    {1200, 1536},
    {100 * MIB + 1, 100 * MIB + 512},
    {300 * MIB, 300 * MIB},
    {510 * MIB + 700, 510 * MIB + 1024},
    {512 * MIB, 512 * MIB},
    {512 * MIB + 1, 768 * MIB},
    {600 * MIB, 768 * MIB},
    {768 * MIB + 1, 1024 * MIB},
    {1024 * MIB, 1024 * MIB},
    {1024 * MIB + 1, 1152 * MIB},
    {1200 * MIB, 1280 * MIB},
    {2100 * MIB, 2304 * MIB},
};

static void check_roundings(void) {
    for (size_t i = 0; i < FAC_COUNT(roundings); i++) {
        FAC_SCOPE(s);
        const int64_t before = fac_cuda_memory_allocated(0);
        assert_non_null(bytes_on(0, roundings[i].bytes));
        assert_no_error();
        assert_int_equal(fac_cuda_memory_allocated(0) - before, roundings[i].taken);
        assert_int_equal(fac_cuda_memory_stat(0, "requested_bytes.all.current"), roundings[i].bytes);
    }
}

static void E72_the_list_of_roundings_says_what_tensors_take(void **state) {
    (void)state;
    const char *const list = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";
    support_need_devices(1);
    support_need_no_checker(); /* which counts memory of its own */
    const char *const names[] = {CONF, "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        support_restart_with(names[i], list);
        check_roundings();
        assert_ok(fac_cuda_empty_cache());
        support_restart_with(names[i], NULL);
    }
    assert_ok(fac_cuda_set_allocator_settings(
        "max_split_size_mb:512, roundup_power2_divisions: [256:1, 512:2, 1024:4, >:8]"));
    check_roundings();
    char *settings = fac_cuda_allocator_settings();
    assert_non_null(strstr(settings, "1024:4"));
    fac_string_free(settings);
}

static void E72_a_list_that_is_wrong_is_refused_by_name_and_nothing_changes(void **state) {
    (void)state;
    support_need_devices(1);
    assert_ok(fac_cuda_set_allocator_settings("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"));
    assert_int_equal(fac_cuda_set_allocator_settings("roundup_power2_divisions:[256:1,512:3]"), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "roundup_power2_divisions");
    FAC_SCOPE(s);
    assert_non_null(bytes_on(0, 600 * MIB));
    assert_int_equal(fac_cuda_memory_allocated(0), 768 * MIB);
}

/* ---- release_lock_on_cudamalloc --------------------------------------------------------------------------------------- */

static CUresult (*driver_alloc)(CUdeviceptr *p, size_t bytes);

static CUresult gated_alloc(CUdeviceptr *p, size_t bytes) {
    gate_pass();
    return driver_alloc(p, bytes);
}

static atomic_bool slow_done;

static void *take_slowly(void *unused) {
    (void)unused;
    FAC_SCOPE(s);
    fac_tensor *t = bytes_on(0, 64 * MIB);
    slow_done = true;
    return t ? &slow_done : NULL;
}

static void X09_a_thread_takes_cached_memory_while_another_is_in_the_driver(void **state) {
    (void)state;
    support_need_devices(1);
    pthread_t slow;
    void *worked;
    FAC_SCOPE(s);
    fac_drop(bytes_on(0, MIB / 2)); /* leaves a segment in the cache */
    assert_no_error();
    driver_alloc = fac__cu.cuMemAlloc;
    fac__cu.cuMemAlloc = gated_alloc;
    slow_done = false;
    gate_close();
    assert_int_equal(pthread_create(&slow, NULL, take_slowly, NULL), 0);
    while (gate_waiting() == 0 && !slow_done) nanosleep(&(struct timespec){0, 100000}, NULL);
    assert_int_equal(gate_waiting(), 1);
    for (int i = 0; i < 3; i++) {
        fac_tensor *t = bytes_on(0, MIB / 2);
        assert_no_error();
        assert_int_equal(fac_cuda_memory_allocated(0), MIB / 2);
        fac_drop(t);
    }
    assert_int_equal(gate_waiting(), 1);
    assert_false(slow_done);
    gate_open();
    pthread_join(slow, &worked);
    fac__cu.cuMemAlloc = driver_alloc;
    assert_non_null(worked);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(E72_the_list_of_roundings_says_what_tensors_take),
              FAC_CUDA_TEST(E72_a_list_that_is_wrong_is_refused_by_name_and_nothing_changes),
              FAC_CUDA_TEST(X09_a_thread_takes_cached_memory_while_another_is_in_the_driver))
