/* Page-locked host memory: pin_memory, the cache of blocks, its options. */
#include "support/cuda.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const int64_t MIB = 1 << 20;

static char *get(int64_t bytes) {
    const fac_allocator *a = fac__cuda_host_allocator();
    char *p = a->alloc(a, bytes);
    assert_no_error();
    assert_non_null(p);
    return p;
}
static void give(void *p) {
    const fac_allocator *a = fac__cuda_host_allocator();
    a->free(a, p, 0);
    assert_no_error();
}
static fac_cuda_host_memory_stats stats(void) { return fac_cuda_get_host_memory_stats(); }

static fac_tensor *on_device(int64_t n) { return fac_empty(FAC_SHAPE(n), .dtype = FAC_U8, .device = cuda_device(0)); }

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

static void S244_pin_memory_gives_a_page_locked_copy(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_of(1, 2, 3), *p = fac_pin_memory(t);
    assert_no_error();
    assert_false(fac_is_pinned(t));
    assert_true(fac_is_pinned(p));
    assert_ptr_not_equal(fac_tensor_data(t), fac_tensor_data(p));
    float back[3];
    assert_ok(fac_tensor_read(p, FAC_F32, back, 3));
    assert_true(back[0] == 1 && back[1] == 2 && back[2] == 3);
    assert_ptr_equal(fac_tensor_data(fac_pin_memory(p)), fac_tensor_data(p)); /* is pinned already */
    assert_true(fac_is_pinned(fac_select(p, 0, 1)));                          /* addresses inside count too */
}

static void S009_factories_choose_the_allocator_by_pin_memory(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *p = fac_empty(FAC_SHAPE(1000), .dtype = FAC_U8, .pin_memory = true),
               *t = fac_empty(FAC_SHAPE(1000), .dtype = FAC_U8);
    assert_no_error();
    assert_true(fac_is_pinned(p));
    assert_false(fac_is_pinned(t));
    assert_int_equal(stats().allocation.current, 1);
    assert_int_equal(stats().allocated_bytes.current, 1024);
    assert_int_equal(stats().active_bytes.current, 1000);
}

/* Milliseconds from `from` to the end of what is queued in s. */
static double ms_since(fac_event *from, fac_stream s) {
    double ms = 0;
    fac_event *to = fac_event_new(FAC_CUDA, .enable_timing = true);
    assert_ok(fac_event_record(to, s));
    assert_ok(fac_event_synchronize(to));
    assert_ok(fac_event_elapsed(from, to, &ms));
    fac_event_free(to);
    return ms;
}

static void copy_up(fac_tensor *to, fac_tensor *from, fac_stream s) {
    FAC_STREAM_SCOPE(on, s);
    assert_ok(fac__cuda_copy(cuda_device(0), fac_tensor_data(to), fac_device_make(FAC_CPU, -1), fac_tensor_data(from),
                             fac_tensor_numel(from), true));
}

static void work(fac_tensor *t, fac_stream s) {
    FAC_STREAM_SCOPE(on, s);
    for (int i = 0; i < 64; i++) assert_ok(fac__cuda_memset(0, fac_tensor_data(t), i, fac_tensor_numel(t)));
}

static void S245_copies_from_pinned_memory_overlap_with_work(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    const int64_t n = fac_cuda_is_simulated() ? MIB : 256 * MIB;
    fac_tensor *pinned = fac_empty(FAC_SHAPE(n), .dtype = FAC_U8, .pin_memory = true), *d = on_device(n),
               *w = on_device(4 * n), *plain = fac_empty(FAC_SHAPE(n), .dtype = FAC_U8);
    fac_stream a = fac_stream_new(cuda_device(0), 0), b = fac_stream_new(cuda_device(0), 0);
    assert_no_error();
    assert_ok(fac_synchronize(cuda_device(0))); /* the blocks may be used in other streams from now on */
    if (fac_cuda_is_simulated()) {              /* the host does not wait; with ordinary memory it does */
        copy_up(d, pinned, a);
        assert_true(support_sim_count("pending") > 0);
        assert_ok(fac_synchronize(cuda_device(0)));
        copy_up(d, plain, a);
        assert_int_equal(support_sim_count("pending"), 0);
        return;
    }
    fac_event *start = fac_event_new(FAC_CUDA, .enable_timing = true);
    copy_up(d, pinned, a), work(w, b); /* warm */
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_event_record(start, a));
    copy_up(d, pinned, a);
    double copying = ms_since(start, a);
    assert_ok(fac_event_record(start, b));
    work(w, b);
    double working = ms_since(start, b);
    assert_ok(fac_event_record(start, a));
    assert_ok(fac_stream_wait_event(b, start));
    copy_up(d, pinned, a), work(w, b);
    assert_ok(fac_stream_wait_stream(a, b));
    double both = ms_since(start, a);
    fac_event_free(start);
    assert_true(both < copying + working - 0.3 * (copying < working ? copying : working));
}

/* ---- the cache ------------------------------------------------------------------------------------------------------------ */

static void S246_sizes_are_powers_of_two_and_blocks_are_reused(void **state) {
    (void)state;
    support_need_devices(1);
    char *p = get(600), *q = get(1025);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(stats().allocated_bytes.current, 1024 + 2048);
    assert_int_equal(stats().num_host_alloc, 2);
    memset(p, 1, 600), memset(q, 2, 1025);
    give(p);
    assert_ptr_equal(get(1000), p);
    assert_int_equal(stats().num_host_alloc, 2);
    give(p), give(q);
    assert_int_equal(stats().reserved_bytes.current, 3072);
    assert_int_equal(stats().allocated_bytes.current, 0);
    assert_ok(fac_cuda_host_empty_cache());
    assert_int_equal(stats().reserved_bytes.current, 0);
    assert_int_equal(stats().num_host_free, 2);
}

static void S246_a_block_is_reused_only_after_its_copies(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator(); /* nothing runs there before it is waited for */
    FAC_SCOPE(s);
    fac_stream side = fac_stream_new(cuda_device(0), 0);
    fac_tensor *d = on_device(MIB);
    assert_ok(fac_synchronize(cuda_device(0)));
    char *p = get(MIB);
    memset(p, 5, (size_t)MIB);
    {
        FAC_STREAM_SCOPE(scope, side);
        assert_ok(fac__cuda_copy(cuda_device(0), fac_tensor_data(d), fac_device_make(FAC_CPU, -1), p + 0, MIB, true));
    }
    give(p);
    char *q = get(MIB);
    memset(q, 6, (size_t)MIB); /* would spoil the copy, if it had not been done and q were p */
    assert_ok(fac_stream_synchronize(side));
    uint8_t back;
    assert_ok(fac_tensor_read(fac_select(d, 0, MIB - 1), FAC_U8, &back, 1));
    assert_int_equal(back, 5);
    give(q);
    char *r = get(MIB); /* no copy holds either any more */
    assert_true(r == p || r == q);
    give(r);
}

static void S246_copies_from_inside_a_block_and_in_several_streams(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    char *p = get(MIB);
    assert_ok(fac__cuda_host_record(p + 12345, 0, fac_stream_new(cuda_device(0), 0).id));
    assert_ok(fac__cuda_host_record(p + MIB - 1, 1, fac_stream_new(cuda_device(1), 0).id));
    assert_ok(fac__cuda_host_record(p, 0, 0));
    assert_ok(fac__cuda_host_record(p, 0, 0));
    assert_ok(fac__cuda_host_record(&s, 0, 0)); /* not ours */
    assert_ok(fac__cuda_host_record(NULL, 0, 0));
    give(p);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_synchronize(cuda_device(1)));
    assert_ptr_equal(get(MIB), p);
    give(p);
}

static void pinned_requests_that_make_no_sense(void **state) {
    (void)state;
    support_need_devices(1);
    const fac_allocator *a = fac__cuda_host_allocator();
    char *p = get(0), *q = get(0);
    assert_true(fac__cuda_is_host_memory(p));
    give(p), give(q), give(NULL);
    assert_null(a->alloc(a, -1));
    assert_error(FAC_ERR_ARGUMENT, "-1 bytes");
    assert_null(a->alloc(a, INT64_MAX));
    assert_error(FAC_ERR_MEMORY, "page-locked");
    p = get(1000);
    a->free(a, p + 64, 0);
    assert_error(FAC_ERR_STATE, "no block of page-locked memory in use");
    give(p);
    a->free(a, p, 0);
    assert_error(FAC_ERR_STATE, "no block of page-locked memory in use");
    assert_false(fac__cuda_is_host_memory(&a));
    assert_false(fac__cuda_is_host_memory(NULL));
}

static void is_pinned_knows_memory_that_others_locked(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    on_device(1); /* makes the context */
    fac_cuda_entry entry;
    void *p = NULL;
    assert_ok(fac__cuda_enter(0, &entry));
    assert_int_equal(fac__cu.cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    assert_true(fac__cuda_is_host_memory(p));
    assert_true(fac__cuda_is_host_memory((char *)p + 100));
    assert_int_equal(fac__cu.cuMemFreeHost(p), CUDA_SUCCESS);
    fac__cuda_leave(&entry);
    assert_false(fac__cuda_is_host_memory(fac_tensor_data(on_device(100))));
}

/* ---- options ---------------------------------------------------------------------------------------------------------------- */

static void settings(const char *text) { assert_ok(fac_cuda_set_allocator_settings(text)); }

static void S217_registered_memory_in_place_of_the_drivers(void **state) {
    (void)state;
    support_need_devices(1);
    settings("pinned_use_cuda_host_register:True");
    char *p = get(3 * MIB);
    memset(p, 1, (size_t)(3 * MIB));
    assert_true(fac__cuda_is_host_memory(p + MIB));
    FAC_SCOPE(s);
    fac_tensor *d = on_device(3 * MIB);
    assert_ok(fac__cuda_copy(cuda_device(0), fac_tensor_data(d), fac_device_make(FAC_CPU, -1), p, 3 * MIB, true));
    give(p);
    settings("");
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_cuda_host_empty_cache()); /* unregistered as it was made, whatever the option says now */
    assert_int_equal(stats().reserved_bytes.current, 0);
    if (fac_cuda_is_simulated()) assert_int_equal(support_sim_count("pinned"), 0);
}

static void S218_pages_are_touched_by_several_threads(void **state) {
    (void)state;
    support_need_devices(1);
    for (int threads = 1; threads <= 16; threads *= 4) {
        char text[96];
        snprintf(text, sizeof text, "pinned_use_cuda_host_register:True,pinned_num_register_threads:%d", threads);
        settings(text);
        char *p = get(5 * MIB), *q = get(1); /* of one page too */
        for (int64_t i = 0; i < 5 * MIB; i += 4096) assert_int_equal(p[i], 0);
        p[5 * MIB - 1] = q[0] = 1;
        give(p), give(q);
        assert_ok(fac_cuda_host_empty_cache());
    }
    settings("");
}

static void S219_a_thread_looks_after_the_marks(void **state) {
    (void)state;
    support_need_devices(1);
    settings("pinned_use_background_threads:True");
    char *p = get(MIB);
    assert_ok(fac__cuda_host_record(p, 0, 0));
    give(p);
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < 5000 && stats().allocation.current; i++) nanosleep(&pause, NULL);
    assert_int_equal(stats().allocation.current, 0); /* nobody asked for memory meanwhile */
    settings("");
}

static void X03_small_requests_come_from_a_reserved_segment(void **state) {
    (void)state;
    support_need_devices(1);
    settings("pinned_reserve_segment_size_mb:1");
    char *p = get(1000), *q = get(200 << 10), *r = get(2 * MIB);
    assert_int_equal(stats().num_host_alloc, 2); /* the segment, and r, which does not fit */
    assert_ptr_equal(q, p + 1024);
    char *s = get(900 << 10); /* no room is left */
    assert_int_equal(stats().num_host_alloc, 3);
    give(p);
    assert_ptr_equal(get(600), p);
    give(p), give(q), give(r), give(s);
    assert_ok(fac_cuda_host_empty_cache());
    assert_int_equal(stats().reserved_bytes.current, MIB); /* the segment stays */
    settings("");
}

static void X04_large_requests_are_not_rounded(void **state) {
    (void)state;
    support_need_devices(1);
    settings("pinned_max_round_threshold_mb:1");
    char *p = get(MIB + 1000), *q = get(MIB - 1000);
    assert_int_equal(stats().allocated_bytes.current, MIB + 1024 + MIB);
    give(p);
    char *r = get(MIB + 1500); /* of the same power of two, but larger */
    assert_ptr_not_equal(r, p);
    assert_ptr_equal(get(MIB + 700), p);
    give(p), give(q), give(r);
    settings("");
}

static void X05_large_blocks_are_not_kept(void **state) {
    (void)state;
    support_need_devices(1);
    settings("pinned_max_cached_size_mb:1");
    char *p = get(2 * MIB), *q = get(MIB);
    give(p), give(q);
    assert_int_equal(stats().reserved_bytes.current, MIB);
    settings("");
}

static char warned[256];
static void note(void *context, const char *message) {
    (void)context;
    snprintf(warned, sizeof warned, "%s", message);
}

static void X10_errors_while_freeing_can_be_warnings(void **state) {
    (void)state;
    support_need_devices(1);
    const fac_allocator *a = fac__cuda_host_allocator();
    char *p = get(1000);
    settings("pinned_free_catch_all:True");
    *warned = '\0';
    fac_set_warning_handler(note, NULL);
    a->free(a, p + 64, 0);
    fac_set_warning_handler(NULL, NULL);
    assert_no_error();
    assert_non_null(strstr(warned, "no block of page-locked memory"));
    fac_error_set(FAC_ERR_STATE, "pending before");
    a->free(a, p, 0);
    assert_error(FAC_ERR_STATE, "pending before"); /* is not swallowed */
    settings("");
}

static void X26_counters_have_peaks_that_can_be_reset(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_reset_accumulated_host_memory_stats();
    char *p = get(MIB), *q = get(MIB);
    give(q);
    assert_int_equal(stats().allocated_bytes.peak, 2 * MIB);
    assert_int_equal(stats().active_requests.allocated, 2);
    assert_true(stats().host_alloc_time_max_us <= stats().host_alloc_time_us);
    fac_cuda_reset_peak_host_memory_stats();
    assert_int_equal(stats().allocated_bytes.peak, MIB);
    fac_cuda_reset_accumulated_host_memory_stats();
    assert_int_equal(stats().active_requests.allocated, 0);
    assert_int_equal(stats().active_requests.current, 1);
    give(p);
    fac_cuda_reset_peak_host_memory_stats();
}

/* ---- failures and threads ------------------------------------------------------------------------------------------------------- */

static fac_status two_blocks(void *context) {
    const fac_allocator *a = context;
    void *p = a->alloc(a, 700), *q = p ? a->alloc(a, 3 * MIB) : NULL;
    if (p && fac__cuda_host_record(p, 0, 0) != FAC_OK) assert_int_equal(fac_error(), FAC_ERR_MEMORY);
    a->free(a, p, 700);
    a->free(a, q, 3 * MIB);
    fac_status st = fac_synchronize(cuda_device(0));
    if (fac_cuda_host_empty_cache() != FAC_OK || st != FAC_OK) assert_int_not_equal(fac_error(), FAC_OK);
    return fac_error();
}

static void S246_each_host_allocation_may_fail(void **state) {
    (void)state;
    support_need_devices(1);
    const fac_allocator *a = fac__cuda_host_allocator();
    for (int i = 0; i < 70; i++) assert_ok(two_blocks((void *)(uintptr_t)a)); /* tables and pools have grown */
    settings("pinned_use_cuda_host_register:True");
    support_fail_each_allocation(two_blocks, (void *)(uintptr_t)a);
    settings("");
}

static void *churn(void *context) {
    unsigned seed = *(unsigned *)context;
    char *held[8] = {0};
    const fac_allocator *a = fac__cuda_host_allocator();
    for (int i = 0; i < 1500; i++) {
        const int k = rand_r(&seed) % 8;
        if (held[k]) {
            if (*held[k] != (char)k) return "spoilt";
            if (i % 3 == 0 && fac__cuda_host_record(held[k], (int)(seed % 2), 0) != FAC_OK) return "failed";
            a->free(a, held[k], 0);
            held[k] = NULL;
        } else if ((held[k] = a->alloc(a, 1 + rand_r(&seed) % 5000))) {
            *held[k] = (char)k;
        } else {
            return "failed";
        }
    }
    for (int k = 0; k < 8; k++) a->free(a, held[k], 0);
    return NULL;
}

static void churn_on_threads(const char *text) {
    pthread_t threads[4];
    unsigned seeds[4] = {2, 3, 4, 5};
    settings(text);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result) fail_msg("%s", (const char *)result);
    }
    for (int i = 0; i < 2; i++) assert_ok(fac_synchronize(cuda_device(i)));
    assert_int_equal(stats().active_requests.current, 0);
    settings("");
}

static void S246_threads_share_the_cache(void **state) {
    (void)state;
    support_need_devices(2);
    churn_on_threads("");
    churn_on_threads("pinned_use_background_threads:True");
    churn_on_threads("pinned_reserve_segment_size_mb:1,pinned_use_cuda_host_register:True");
}

enum { CROWD = 300 };
static atomic_int arrived;
static fac_memory_hook hook;

/* Pages are got only once everybody asks for some. */
static void *alloc_together(void *context, size_t bytes, size_t align) {
    if (align == (size_t)sysconf(_SC_PAGESIZE))
        for (atomic_fetch_add(&arrived, 1); atomic_load(&arrived) < CROWD;) sched_yield();
    return hook.alloc(context, bytes, align);
}

static void *get_one(void *context) {
    const fac_allocator *a = context;
    void *p = a->alloc(a, 512);
    if (!p) atomic_fetch_add(&arrived, 1); /* the others need not wait */
    if (p) a->free(a, p, 0);
    return p;
}

static void S246_any_number_of_threads_allocate_at_once(void **state) {
    (void)state;
    support_need_devices(1);
    static pthread_t threads[CROWD];
    settings("pinned_use_cuda_host_register:True");
    atomic_store(&arrived, 0);
    hook = fac__memory_hook;
    fac__memory_hook.alloc = alloc_together;
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_one, (void *)(uintptr_t)fac__cuda_host_allocator()), 0);
    int served = 0;
    for (int i = 0; i < CROWD; i++) {
        void *p;
        pthread_join(threads[i], &p);
        served += p != NULL;
    }
    fac__memory_hook = hook;
    assert_int_equal(served, CROWD);
    assert_int_equal(stats().num_host_alloc, CROWD);
    settings("");
}

static void pinned_memory_may_outlive_the_shutdown(void **state) {
    (void)state;
    support_need_devices(1);
    char *p = get(1000);
    fac_shutdown();
    assert_ok(fac_init());
    give(p);
    assert_int_equal(stats().reserved_bytes.current, 0);
}

FAC_TEST_MAIN(
    FAC_CUDA_TEST(S244_pin_memory_gives_a_page_locked_copy),
    FAC_CUDA_TEST(S009_factories_choose_the_allocator_by_pin_memory),
    FAC_CUDA_TEST(S245_copies_from_pinned_memory_overlap_with_work),
    FAC_CUDA_TEST(S246_sizes_are_powers_of_two_and_blocks_are_reused),
    FAC_CUDA_TEST(S246_a_block_is_reused_only_after_its_copies),
    FAC_CUDA_TEST(S246_copies_from_inside_a_block_and_in_several_streams),
    FAC_CUDA_TEST(pinned_requests_that_make_no_sense), FAC_CUDA_TEST(is_pinned_knows_memory_that_others_locked),
    FAC_CUDA_TEST(S217_registered_memory_in_place_of_the_drivers),
    FAC_CUDA_TEST(S218_pages_are_touched_by_several_threads), FAC_CUDA_TEST(S219_a_thread_looks_after_the_marks),
    FAC_CUDA_TEST(X03_small_requests_come_from_a_reserved_segment), FAC_CUDA_TEST(X04_large_requests_are_not_rounded),
    FAC_CUDA_TEST(X05_large_blocks_are_not_kept), FAC_CUDA_TEST(X10_errors_while_freeing_can_be_warnings),
    FAC_CUDA_TEST(X26_counters_have_peaks_that_can_be_reset), FAC_CUDA_TEST(S246_each_host_allocation_may_fail),
    FAC_CUDA_TEST(S246_threads_share_the_cache), FAC_CUDA_TEST(S246_any_number_of_threads_allocate_at_once),
    FAC_CUDA_TEST(pinned_memory_may_outlive_the_shutdown))
