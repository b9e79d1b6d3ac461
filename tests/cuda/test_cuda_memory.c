/* Device memory of tensors: statistics, options, streams, captures, running out. */
#include "support/cuda.h"
#include "support/files.h"

#include "backend/cuda/runtime/alloc_cuda.h"

#include <pthread.h>
#include <stdlib.h>

static const int64_t MIB = 1 << 20;

static fac_tensor *bytes_on(int index, int64_t n) {
    return fac_empty(FAC_SHAPE(n), .dtype = FAC_U8, .device = cuda_device(index));
}

static void fill(fac_tensor *t, int value) {
    assert_ok(fac__cuda_memset(fac_tensor_device(t).index_plus - 1, fac_tensor_data(t), value, fac_tensor_numel(t)));
}

static bool all_are(fac_tensor *t, int value) {
    const size_t n = (size_t)fac_tensor_numel(t);
    uint8_t *back = malloc(n);
    assert_non_null(back);
    assert_ok(fac_tensor_read(t, FAC_U8, back, n));
    bool same = true;
    for (size_t i = 0; i < n; i++) same = same && back[i] == value;
    free(back);
    return same;
}

/* ---- how much is used ------------------------------------------------------------------------------------------------- */

static void S202_allocated_counts_what_tensors_hold(void **state) {
    (void)state;
    support_need_devices(2);
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
    assert_false(support_has_context(1)); /* asking makes none */
    {
        FAC_SCOPE(s);
        fac_tensor *a = bytes_on(0, 1000);
        bytes_on(0, 3 * MIB);
        assert_int_equal(fac_cuda_memory_allocated(0), 1024 + 3 * MIB);
        assert_int_equal(fac_cuda_memory_allocated(-1), 1024 + 3 * MIB);
        assert_int_equal(fac_cuda_memory_allocated(1), 0);
        fac_drop(a);
        assert_int_equal(fac_cuda_memory_allocated(0), 3 * MIB);
    }
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
    assert_int_equal(fac_cuda_max_memory_allocated(0), 1024 + 3 * MIB);
    assert_ok(fac_cuda_reset_peak_memory_stats(0));
    assert_int_equal(fac_cuda_max_memory_allocated(0), 0);
    assert_int_equal(fac_cuda_memory_stat(0, "allocation.all.allocated"), 2);
    assert_ok(fac_cuda_reset_accumulated_memory_stats(0));
    assert_int_equal(fac_cuda_memory_stat(0, "allocation.all.allocated"), 0);
    assert_int_equal(fac_cuda_memory_stat(0, "allocation.all.sideways"), 0);
    assert_error(FAC_ERR_NOT_FOUND, "sideways");
    assert_int_equal(fac_cuda_memory_allocated(99), 0);
    assert_error(FAC_ERR_DEVICE, "cuda:99");
}

static void S203_reserved_counts_segments_and_S204_empty_cache_returns_them(void **state) {
    (void)state;
    support_need_devices(1);
    int64_t free_before, free_with, free_after, total;
    FAC_SCOPE(s);
    bytes_on(0, 100); /* makes the context */
    assert_ok(fac_cuda_mem_get_info(0, &free_before, &total));
    fac_tensor *t = bytes_on(0, 5 * MIB);
    assert_int_equal(fac_cuda_memory_reserved(0), 22 * MIB);
    assert_ok(fac_cuda_mem_get_info(0, &free_with, &total));
    assert_true(free_with <= free_before - 20 * MIB);
    fac_drop(t);
    assert_int_equal(fac_cuda_memory_reserved(0), 22 * MIB); /* S-223: the driver still counts it as in use */
    assert_ok(fac_cuda_mem_get_info(0, &free_after, &total));
    assert_true(free_after == free_with || !fac_cuda_is_simulated());
    assert_ok(fac_cuda_empty_cache());
    assert_int_equal(fac_cuda_memory_reserved(0), 2 * MIB);
    assert_ok(fac_cuda_mem_get_info(0, &free_after, &total));
    assert_true(free_after == free_before || !fac_cuda_is_simulated());
    assert_int_equal(fac_cuda_max_memory_reserved(0), 22 * MIB);
}

static void S206_summary_of_a_device(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    bytes_on(0, 5 * MIB);
    char *text = fac_cuda_memory_summary(0);
    assert_non_null(strstr(text, "Facula CUDA memory summary, device ID 0"));
    assert_non_null(strstr(text, "|   5120 KiB |"));
    fac_string_free(text);
    assert_null(fac_cuda_memory_summary(77));
    assert_error(FAC_ERR_DEVICE, "77");
}

/* ---- streams ------------------------------------------------------------------------------------------------------------ */

static void S060_freed_memory_comes_back_on_its_stream_without_a_wait(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *t = bytes_on(0, MIB);
    void *p = fac_tensor_data(t);
    fill(t, 1);
    fac_drop(t);
    t = bytes_on(0, MIB);
    assert_ptr_equal(fac_tensor_data(t), p);
    fill(t, 2); /* queued behind the first fill */
    assert_true(all_are(t, 2));
}

static void S222_a_block_used_in_another_stream_waits_for_it(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator(); /* nothing runs there before it is waited for */
    FAC_SCOPE(s);
    fac_stream side = fac_stream_new(cuda_device(0), 0);
    fac_tensor *t = bytes_on(0, MIB);
    {
        FAC_STREAM_SCOPE(scope, side);
        assert_ok(fac_stream_wait_stream(side, fac_default_stream(cuda_device(0))));
        fill(t, 1);
        assert_ok(fac_record_stream(t, side));
    }
    fac_drop(t);
    assert_int_equal(fac_cuda_memory_stat(0, "active.all.current"), 1); /* it waits */
    fac_tensor *u = bytes_on(0, MIB);
    fill(u, 2); /* would come before the side stream's fill, if u were t and that had not been done */
    assert_ok(fac_stream_synchronize(side));
    assert_true(all_are(u, 2));
    fac_drop(u);
}

/* ---- options -------------------------------------------------------------------------------------------------------------- */

static void S209_a_bad_option_is_an_error_at_the_start(void **state) {
    (void)state;
    support_need_devices(1);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "max_split_size_mb:40,no_such_option:1");
    {
        FAC_SCOPE(s);
        assert_null(bytes_on(0, 10));
        assert_error(FAC_ERR_ARGUMENT, "FACULA_CUDA_ALLOC_CONF: there is no option 'no_such_option'");
    }
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "max_split_size_mb:40");
    char *text = fac_cuda_allocator_settings();
    assert_string_equal(text, "max_split_size_mb:40");
    fac_string_free(text);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", NULL);
}

static void X01_options_can_be_changed_while_running(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    bytes_on(0, 10);
    assert_ok(fac_cuda_set_allocator_settings("roundup_power2_divisions:4,per_process_memory_fraction:0.5"));
    fac_tensor *t = bytes_on(0, 1200 << 10);
    assert_int_equal(fac_cuda_memory_allocated(0), 512 + (1280 << 10));
    assert_true(fac_cuda_get_per_process_memory_fraction(0) == 0.5);
    assert_int_equal(fac_cuda_set_allocator_settings("roundup_power2_divisions:5"), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "a power of two");
    char *text = fac_cuda_allocator_settings();
    assert_string_equal(text, "roundup_power2_divisions:4,per_process_memory_fraction:0.5");
    fac_string_free(text);
    assert_int_equal(fac_cuda_set_allocator_settings("backend:cudaMallocAsync"), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "native since the start");
    assert_ok(fac_cuda_set_per_process_memory_fraction(1, 0));
    assert_true(fac_cuda_get_per_process_memory_fraction(0) == 1);
    fac_drop(t);
}

static void S210_stream_ordered_backend(void **state) {
    (void)state;
    support_need_devices(1);
    assert_string_equal(fac_cuda_allocator_backend(), "native");
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");
    assert_string_equal(fac_cuda_allocator_backend(), "cudaMallocAsync");
    {
        FAC_SCOPE(s);
        fac_stream side = fac_stream_new(cuda_device(0), 0);
        fac_tensor *t = bytes_on(0, 3 * MIB), *u = bytes_on(0, 1000);
        fill(t, 7);
        fill(u, 8);
        assert_ok(fac_stream_wait_stream(side, fac_default_stream(cuda_device(0))));
        assert_ok(fac_record_stream(u, side));
        assert_true(all_are(t, 7) && all_are(u, 8));
        fac_cuda_memory_stats m;
        assert_ok(fac_cuda_get_memory_stats(0, &m));
        assert_int_equal(m.allocated_bytes.all.current, 3 * MIB + 1024);
        assert_true(m.reserved_bytes.all.current >= 3 * MIB + 1024);
        assert_int_equal(m.segment.all.current, 0); /* S-224: no meaning here */
        fac_drop(t);
        assert_int_equal(fac_cuda_memory_allocated(0), 1024);
        for (int i = 0; i < 10; i++) fac_drop(bytes_on(0, 3 * MIB));
    }
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_cuda_empty_cache());
    assert_int_equal(fac_cuda_memory_reserved(0), 0);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", NULL);
}

static void S216_expandable_segments_hold_data(void **state) {
    (void)state;
    support_need_devices(1);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "expandable_segments:True");
    {
        FAC_SCOPE(s);
        fac_tensor *t[6];
        for (int i = 0; i < 6; i++) {
            t[i] = bytes_on(0, (3 + i) * MIB + 1000 * i);
            fill(t[i], i + 1);
        }
        for (int i = 0; i < 6; i++) assert_true(all_are(t[i], i + 1));
        assert_int_equal(fac_cuda_memory_reserved(0), 40 * MIB);
        fac_drop(t[0]), fac_drop(t[1]), fac_drop(t[2]);
        fac_tensor *u = bytes_on(0, 30 * MIB); /* crosses what is mapped already */
        fill(u, 9);
        assert_true(all_are(u, 9) && all_are(t[3], 4) && all_are(t[5], 6));
    }
    assert_ok(fac_cuda_empty_cache());
    assert_int_equal(fac_cuda_memory_reserved(0), 0);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", NULL);
}

static void S208_without_caching_the_driver_sees_every_block(void **state) {
    (void)state;
    support_need_devices(1);
    support_restart_with("PYTORCH_NO_CUDA_MEMORY_CACHING", "1");
    {
        FAC_SCOPE(s);
        fac_tensor *t = bytes_on(0, 1000), *u = bytes_on(0, 2000);
        assert_int_equal(fac_cuda_memory_stat(0, "num_device_alloc"), 2);
        fill(t, 1), fill(u, 2);
        assert_true(all_are(t, 1) && all_are(u, 2));
        fac_drop(t);
        assert_int_equal(fac_cuda_memory_stat(0, "num_device_free"), 1);
    }
    assert_int_equal(fac_cuda_memory_reserved(0), 0);
    support_restart_with("PYTORCH_NO_CUDA_MEMORY_CACHING", NULL);
}

static void freed_blocks_are_poisoned_on_request(void **state) {
    (void)state;
    support_need_devices(1);
    support_restart_with("FACULA_CUDA_POISON", "1");
    {
        FAC_SCOPE(s);
        fac_tensor *t = bytes_on(0, 5000);
        fill(t, 1);
        fac_drop(t);
        assert_true(all_are(bytes_on(0, 5000), 0xFF)); /* the same block */
    }
    support_restart_with("FACULA_CUDA_POISON", NULL);
}

int __asan_address_is_poisoned(const volatile void *p) __attribute__((weak));

static void sanitizer_sees_overruns_inside_segments(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    if (!__asan_address_is_poisoned) {
        print_message("needs a build with AddressSanitizer\n");
        skip();
    }
    FAC_SCOPE(s);
    fac_tensor *t = bytes_on(0, 1000);
    const char *p = fac_tensor_data(t);
    fill(t, 1);
    fac_drop(t); /* the fill that is queued may still touch it */
    t = bytes_on(0, 100);
    fill(t, 2);
    assert_ptr_equal(fac_tensor_data(t), p);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_false(__asan_address_is_poisoned(p + 99));
    assert_true(__asan_address_is_poisoned(p + 104)); /* within the block, beyond what was asked for */
    fac_drop(t);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_true(__asan_address_is_poisoned(p));
}

/* ---- captured graphs ------------------------------------------------------------------------------------------------------------ */

static const int64_t POOL[2] = {0, 5};

/* Begins a capture of s whose memory comes from a pool of its own; returns its id. */
static uint64_t capture_begin(fac_stream s) {
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUstream handle = fac_stream_handle(s);
    assert_int_equal(fac__cu.cuStreamBeginCapture(handle, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuStreamGetCaptureInfo(handle, &status, &id, NULL, NULL, NULL), CUDA_SUCCESS);
    assert_ok(fac__cache_capture_begin(fac__cuda_cache(0), id, POOL));
    return id;
}

static CUgraph capture_end(fac_stream s, uint64_t id) {
    CUgraph graph = NULL;
    assert_int_equal(fac__cu.cuStreamEndCapture(fac_stream_handle(s), &graph), CUDA_SUCCESS);
    assert_ok(fac__cache_capture_end(fac__cuda_cache(0), id));
    return graph;
}

static void captured_graphs_have_memory_of_their_own(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_stream stream = fac_stream_new(cuda_device(0), 0);
    FAC_STREAM_SCOPE(on, stream);
    fac_drop(bytes_on(0, MIB)); /* a free block that the capture must not take */
    CUgraphExec exec;
    uint64_t id = capture_begin(stream);
    fac_tensor *t = bytes_on(0, MIB);
    void *p = fac_tensor_data(t);
    fill(t, 5);
    fac_drop(t);
    fac_tensor *u = bytes_on(0, MIB); /* in order after the first */
    assert_ptr_equal(fac_tensor_data(u), p);
    fill(u, 6);
    CUgraph graph = capture_end(stream, id);
    fac_tensor *other = bytes_on(0, MIB);
    assert_ptr_not_equal(fac_tensor_data(other), p);
    assert_int_equal(fac__cu.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuGraphLaunch(exec, fac_stream_handle(stream)), CUDA_SUCCESS);
    assert_true(all_are(u, 6));
    fac_drop(u), fac_drop(other);
    assert_ok(fac_cuda_empty_cache());
    assert_int_equal(fac_cuda_memory_reserved(0), 2 * MIB); /* of the graph, which could be launched again */
    assert_int_equal(fac__cu.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_ok(fac__cache_arena_release(fac__cuda_cache(0), POOL));
    assert_ok(fac_cuda_empty_cache());
    assert_int_equal(fac_cuda_memory_reserved(0), 0);
}

static void X06_memory_comes_back_within_a_capture_once_the_graph_orders_it(void **state) {
    (void)state;
    support_need_devices(1);
    for (int reuse = 0; reuse < 2; reuse++) {
        FAC_SCOPE(s);
        fac_stream stream = fac_stream_new(cuda_device(0), 0), side = fac_stream_new(cuda_device(0), 0);
        FAC_STREAM_SCOPE(on, stream);
        assert_ok(fac_cuda_set_allocator_settings(reuse ? "graph_capture_record_stream_reuse:True" : ""));
        uint64_t id = capture_begin(stream);
        fac_tensor *t = bytes_on(0, MIB);
        void *p = fac_tensor_data(t);
        assert_ok(fac_stream_wait_stream(side, stream));
        {
            FAC_STREAM_SCOPE(aside, side);
            fill(t, 1);
            assert_ok(fac_record_stream(t, side));
        }
        fac_drop(t);
        fac_tensor *early = bytes_on(0, MIB);
        assert_ptr_not_equal(fac_tensor_data(early), p); /* the side stream may still run */
        assert_ok(fac_stream_wait_stream(stream, side));
        for (int i = 0; i < 200; i++) fill(early, i); /* the order is found through all of these */
        fac_tensor *late = bytes_on(0, MIB);
        assert_int_equal(fac_tensor_data(late) == p, reuse);
        CUgraph graph = capture_end(stream, id);
        assert_int_equal(fac__cu.cuGraphDestroy(graph), CUDA_SUCCESS);
        assert_ok(fac__cache_arena_release(fac__cuda_cache(0), POOL));
    }
    assert_ok(fac_cuda_set_allocator_settings(""));
}

static void S216_expandable_segments_are_open_to_peers(void **state) {
    (void)state;
    support_need_devices(2);
    bool can;
    assert_ok(fac_cuda_can_access_peer(0, 1, &can));
    if (!can) {
        print_message("needs a link between cuda:0 and cuda:1\n");
        skip();
    }
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "expandable_segments:True");
    {
        FAC_SCOPE(s);
        fac_tensor *to = bytes_on(0, MIB), *before = bytes_on(1, MIB), *after = NULL;
        fill(before, 3);
        assert_ok(fac_synchronize(cuda_device(1)));
        assert_ok(fac_cuda_enable_peer_access(0, 1));
        after = bytes_on(1, 30 * MIB);
        fill(after, 4);
        assert_ok(fac_synchronize(cuda_device(1)));
        for (int i = 0; i < 2; i++) { /* mapped before and after */
            fac_cuda_entry entry;
            assert_ok(fac__cuda_enter(0, &entry));
            CUresult r = fac__cu.cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)fac_tensor_data(to),
                                                   (CUdeviceptr)(uintptr_t)fac_tensor_data(i ? after : before),
                                                   (size_t)MIB, fac__cuda_stream(0));
            fac__cuda_leave(&entry);
            assert_int_equal(r, CUDA_SUCCESS);
            assert_true(all_are(to, i ? 4 : 3));
        }
    }
    support_restart_with("FACULA_CUDA_ALLOC_CONF", NULL);
}

/* ---- memory out ------------------------------------------------------------------------------------------------------------------ */

static void S221_memory_out_is_an_error_after_which_life_goes_on(void **state) {
    (void)state;
    support_need_devices(1);
    int64_t free, total;
    FAC_SCOPE(s);
    bytes_on(0, 10);
    assert_ok(fac_cuda_mem_get_info(0, &free, &total));
    assert_null(bytes_on(0, total + MIB));
    assert_error(FAC_ERR_MEMORY, "out of memory on cuda:0: tried to allocate");
    assert_int_equal(fac_cuda_memory_stat(0, "num_ooms"), 1);
    assert_int_equal(fac_cuda_memory_stat(0, "num_alloc_retries"), 1);
    fac_tensor *t = bytes_on(0, 100);
    fill(t, 3);
    assert_true(all_are(t, 3));
}

static fac_status some_tensors(void) {
    FAC_SCOPE(s);
    for (int i = 0; i < 4 && fac_error() == FAC_OK; i++) {
        fac_tensor *t = bytes_on(0, (i + 1) * 4 * MIB);
        if (t) fill(t, i);
        if (i == 1) fac_drop(t);
    }
    return fac_error();
}

static void S221_each_driver_allocation_may_fail(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    for (int n = 1; n < 16; n++) {
        char option[16];
        assert_ok(some_tensors()); /* the context and the streams are there */
        assert_ok(fac_cuda_empty_cache());
        snprintf(option, sizeof option, "oom=%d", n);
        support_sim_set(option);
        fac_status st = some_tensors();
        if (st != FAC_OK) assert_error(FAC_ERR_MEMORY, "out of memory");
        support_sim_set("oom=0");
        assert_int_equal(fac_cuda_memory_allocated(0), 0);
        assert_ok(some_tensors());
    }
}

static void frees_on_a_device_that_has_failed_are_harmless(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    FAC_SCOPE(s);
    const fac_allocator *host = fac__cuda_host_allocator();
    fac_stream side = fac_stream_new(cuda_device(0), 0);
    fac_tensor *t = bytes_on(0, 1000), *u = bytes_on(0, 3 * MIB);
    void *pinned = host->alloc(host, 5000);
    assert_non_null(fac_fill_(t, 1));
    assert_ok(fac_record_stream(t, side));
    assert_ok(fac__cuda_host_record(pinned, 0, side.id));
    assert_ok(fac_synchronize(cuda_device(0)));
    support_sim_set("fault=1");
    (void)fac_fill_(t, 2);
    if (fac_error() == FAC_OK) assert_int_not_equal(fac_synchronize(cuda_device(0)), FAC_OK);
    fac_error_clear();
    fac_drop(t);
    fac_error_clear(); /* no mark could be put behind its uses */
    host->free(host, pinned, 5000);
    fac_error_clear();
    fac_drop(u);
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
    assert_null(bytes_on(0, 100 * MIB));
    assert_int_not_equal(fac_error(), FAC_OK);
    fac_error_clear();
    support_sim_set("clear");
}

/* ---- raw blocks, history ------------------------------------------------------------------------------------------------------------- */

static void raw_blocks_come_from_the_cache(void **state) {
    (void)state;
    support_need_devices(2);
    fac_stream s = fac_stream_new(cuda_device(1), 0);
    void *p = fac_cuda_caching_allocator_alloc(1000, 1, s),
         *q = fac_cuda_caching_allocator_alloc(0, 0, (fac_stream){0});
    assert_non_null(p);
    assert_int_equal(fac_cuda_memory_allocated(1), 1024);
    assert_null(fac_cuda_caching_allocator_alloc(1000, 0, s));
    assert_error(FAC_ERR_DEVICE, "stream of another device");
    fac_cuda_caching_allocator_delete(p);
    fac_cuda_caching_allocator_delete(q);
    fac_cuda_caching_allocator_delete(NULL);
    assert_no_error();
    fac_cuda_caching_allocator_delete(p);
    assert_error(FAC_ERR_STATE, "no block of a CUDA caching allocator");
    assert_int_equal(fac_cuda_memory_allocated(1), 0);
}

static void X24_history_snapshot_and_marks(void **state) {
    (void)state;
    support_need_devices(2);
    assert_ok(fac_cuda_record_memory_history(FAC_HISTORY_ALL, 0));
    {
        FAC_SCOPE(s);
        assert_ok(fac_cuda_set_memory_metadata("weights"));
        bytes_on(0, 5 * MIB);
        assert_ok(fac_cuda_set_memory_metadata(NULL));
        assert_ok(fac_cuda_memory_annotate("step 1"));
        fac_drop(bytes_on(1, 100)); /* an allocator made after the recording began */
        fac_memory_snapshot *m = fac_cuda_memory_snapshot();
        assert_non_null(m);
        assert_int_equal(m->n_segments, 2);
        assert_string_equal(m->segments[0].blocks[0].stack.metadata, "weights");
        assert_true(m->segments[0].blocks[0].stack.n_frames > 2);
        assert_int_equal(m->n_events, 2 + 4);
        assert_int_equal(m->n_annotations, 1);
        assert_string_equal(m->annotations[0].name, "step 1");
        assert_int_equal(m->n_devices, fac_cuda_device_count());
        fac_memory_snapshot_free(m);
        assert_ok(fac_cuda_dump_snapshot(files_path("cuda.pickle")));
        assert_ok(fac_cuda_dump_snapshot(files_path("cuda.json")));
        assert_int_equal(fac_cuda_dump_snapshot("/nowhere/x"), FAC_ERR_IO);
        assert_error(FAC_ERR_IO, "/nowhere/x");
    }
    assert_ok(fac_cuda_record_memory_history(FAC_HISTORY_OFF, 0));
}

static void tensors_may_outlive_the_shutdown(void **state) {
    (void)state;
    support_need_devices(1);
    fac_scope s = fac_scope_begin();
    fac_tensor *t = fac_keep(bytes_on(0, 1000));
    fac_scope_end(&s);
    fac_shutdown();
    assert_ok(fac_init());
    fac_release(t); /* its memory went with the device's context; nothing is leaked */
    assert_no_error();
}

/* ---- threads ------------------------------------------------------------------------------------------------------------------------------ */

static void *churn(void *context) {
    int device = *(int *)context;
    for (int i = 0; i < 200; i++) {
        FAC_SCOPE(s);
        fac_stream stream = fac_stream_new(cuda_device(device), 0);
        FAC_STREAM_SCOPE(scope, stream);
        fac_tensor *t = bytes_on(device, 1 + 50000 * (i % 40));
        if (!t || fac__cuda_memset(device, fac_tensor_data(t), i, fac_tensor_numel(t)) != FAC_OK) return "failed";
        if (i % 7 == 0 && fac_record_stream(t, fac_default_stream(cuda_device(device))) != FAC_OK) return "failed";
    }
    return NULL;
}

static void S222_threads_allocate_on_their_own_streams(void **state) {
    (void)state;
    support_need_devices(2);
    pthread_t threads[4];
    int devices[4] = {0, 1, 0, 1};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, churn, &devices[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
    assert_int_equal(fac_cuda_memory_allocated(1), 0);
}

FAC_TEST_MAIN(
    FAC_CUDA_TEST(S202_allocated_counts_what_tensors_hold),
    FAC_CUDA_TEST(S203_reserved_counts_segments_and_S204_empty_cache_returns_them),
    FAC_CUDA_TEST(S206_summary_of_a_device), FAC_CUDA_TEST(S060_freed_memory_comes_back_on_its_stream_without_a_wait),
    FAC_CUDA_TEST(S222_a_block_used_in_another_stream_waits_for_it),
    FAC_CUDA_TEST(S209_a_bad_option_is_an_error_at_the_start), FAC_CUDA_TEST(X01_options_can_be_changed_while_running),
    FAC_CUDA_TEST(S210_stream_ordered_backend), FAC_CUDA_TEST(S216_expandable_segments_hold_data),
    FAC_CUDA_TEST(S208_without_caching_the_driver_sees_every_block),
    FAC_CUDA_TEST(freed_blocks_are_poisoned_on_request), FAC_CUDA_TEST(sanitizer_sees_overruns_inside_segments),
    FAC_CUDA_TEST(captured_graphs_have_memory_of_their_own),
    FAC_CUDA_TEST(X06_memory_comes_back_within_a_capture_once_the_graph_orders_it),
    FAC_CUDA_TEST(S216_expandable_segments_are_open_to_peers),
    FAC_CUDA_TEST(S221_memory_out_is_an_error_after_which_life_goes_on),
    FAC_CUDA_TEST(S221_each_driver_allocation_may_fail), FAC_CUDA_TEST(frees_on_a_device_that_has_failed_are_harmless),
    FAC_CUDA_TEST(raw_blocks_come_from_the_cache), FAC_CUDA_TEST(X24_history_snapshot_and_marks),
    FAC_CUDA_TEST(tensors_may_outlive_the_shutdown), FAC_CUDA_TEST(S222_threads_allocate_on_their_own_streams))
