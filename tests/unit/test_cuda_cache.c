/* The caching allocator over a fake source: pools, segments, splitting, options, running out. */
#include "cache_test.h"

/* ---- pools, segments, splitting --------------------------------------------------------------------------------------- */

static void S220_small_requests_share_segments_of_2_mib(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(1), *q = get(MIB), *r = get(600);
    assert_int_equal(f.allocs, 1);
    assert_int_equal(f.used, 2 * MIB);
    assert_ptr_equal(q, p + 512);
    assert_ptr_equal(r, q + MIB);
    assert_int_equal(stats().allocated_bytes.all.current, 512 + MIB + 1024);
    assert_int_equal(stats().requested_bytes.small_pool.current, 1 + MIB + 600);
    give(p), give(q), give(r);
    end();
}

static void S220_large_requests_have_segments_of_20_mib_or_their_own(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(MIB + 1), *q = get(10 * MIB - 1), *r = get(10 * MIB), *s = get(33 * MIB + 1);
    assert_int_equal(f.allocs, 3);
    assert_int_equal(f.used, (20 + 10 + 34) * MIB);
    assert_ptr_equal(q, p + MIB + 512);
    assert_int_equal(stats().segment.large_pool.current, 3);
    give(p), give(q), give(r), give(s);
    end();
}

static void X02_large_segment_size_is_an_option(void **state) {
    (void)state;
    begin(GIB, "large_segment_size_mb:64");
    char *p = get(2 * MIB);
    assert_int_equal(f.used, 64 * MIB);
    give(p);
    end();
}

static void S058_blocks_are_split_and_merged_with_both_neighbours(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p[4];
    for (int i = 0; i < 4; i++) p[i] = get(512 * KIB);
    assert_int_equal(f.allocs, 1);
    give(p[0]), give(p[2]);
    assert_int_equal(stats().inactive_split.all.current, 2);
    assert_int_equal(stats().inactive_split_bytes.all.current, MIB);
    give(p[1]); /* joins three */
    assert_int_equal(stats().inactive_split.all.current, 1);
    assert_ptr_equal(get(MIB), p[0]);
    assert_int_equal(stats().inactive_split_bytes.all.current, 512 * KIB);
    give(p[0]), give(p[3]);
    assert_int_equal(stats().inactive_split.all.current, 0); /* one free block that is the whole segment */
    assert_int_equal(f.allocs, 1);
    empty();
    assert_int_equal(f.used, 0);
    end();
}

static void S058_the_smallest_fitting_block_is_taken(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *hold[5], *p[4];
    const int64_t sizes[] = {64 * KIB, 16 * KIB, 32 * KIB, 128 * KIB};
    for (int i = 0; i < 4; i++) {
        hold[i] = get(512); /* keeps the others apart */
        p[i] = get(sizes[i]);
    }
    hold[4] = get(512);
    for (int i = 0; i < 4; i++) give(p[i]);
    assert_ptr_equal(get(30 * KIB), p[2]);
    assert_ptr_equal(get(33 * KIB), p[0]);
    assert_ptr_equal(get(16 * KIB), p[1]);
    give(p[0]), give(p[1]), give(p[2]);
    for (int i = 0; i < 5; i++) give(hold[i]);
    end();
}

static void S058_large_blocks_keep_small_rests(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(12 * MIB);
    give(p);
    assert_ptr_equal(get(11 * MIB), p); /* 1 MiB would be left: not worth a block */
    assert_int_equal(stats().allocated_bytes.all.current, 12 * MIB);
    give(p);
    assert_ptr_equal(get(11 * MIB - 512), p);
    assert_int_equal(stats().allocated_bytes.all.current, 11 * MIB - 512);
    give(p);
    end();
}

static void S058_thousands_of_blocks_are_found_again(void **state) {
    (void)state;
    enum { N = 10000, STEP = 7919 };
    static char *p[N];
    begin(GIB, NULL);
    for (int i = 0; i < N; i++) p[i] = get(512 + 512 * (i % 3));
    for (int i = 0; i < N; i++) assert_true(fac__cache_owns(a, p[i]));
    for (int i = 0; i < N; i++) give(p[(int64_t)i * STEP % N]);
    assert_int_equal(stats().allocation.all.current, 0);
    assert_int_equal(stats().inactive_split.all.current, 0);
    empty();
    assert_int_equal(f.used, 0);
    end();
}

static void S060_freed_memory_is_reused_at_once_on_its_stream(void **state) {
    (void)state;
    begin(GIB, NULL);
    fake_issue(&f, 0); /* is still running */
    char *p = get(5 * MIB);
    give(p);
    for (int i = 0; i < 100; i++) {
        assert_ptr_equal(get(5 * MIB), p);
        give(p);
    }
    assert_int_equal(f.allocs, 1);
    assert_int_equal(f.completed[0], 0); /* nobody waited */
    end();
}

static void S222_blocks_are_reused_on_their_stream_only(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(MIB);
    give(p);
    f.stream = 1;
    char *q = get(MIB);
    assert_ptr_not_equal(p, q);
    assert_int_equal(f.allocs, 2);
    f.stream = 0;
    assert_ptr_equal(get(MIB), p);
    give(p), give(q); /* a free from any stream goes to the block's own */
    f.stream = 1;
    assert_ptr_equal(get(MIB), q);
    give(q);
    end();
}

static void S059_any_device_is_served_by_two_functions(void **state) {
    (void)state;
    fake_source_begin(&f, 64 * MIB);
    fake_source_plain(&f);
    f.source.info = NULL;
    a = fac_caching_allocator_new(&f.source, 3, "max_split_size_mb:32,roundup_power2_divisions:8");
    assert_non_null(a);
    char *p = get(100), *q = get(20 * MIB);
    assert_ok(fac_caching_allocator_record_stream(a, p, 5)); /* no streams: nothing to wait for */
    give(p);
    assert_ptr_equal(get(200), p);
    refuse(60 * MIB, "out of memory on fake:3: tried to allocate 60.00 MiB");
    give(p), give(q);
    q = get(60 * MIB); /* after the cached blocks were given back */
    give(q);
    end();
}

static void S059_incomplete_sources_are_refused(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    fac_memory_source s = f.source;
    s.wait = NULL;
    assert_null(fac_caching_allocator_new(&s, 0, NULL));
    assert_error(FAC_ERR_ARGUMENT, "stream, record, query, wait, drop and synchronize");
    s = f.source;
    s.map = NULL;
    assert_null(fac_caching_allocator_new(&s, 0, NULL));
    assert_error(FAC_ERR_ARGUMENT, "reserve, unreserve, map and unmap");
    s.size--;
    assert_null(fac_caching_allocator_new(&s, 0, NULL));
    assert_error(FAC_ERR_ARGUMENT, "size");
    fake_source_plain(&f);
    assert_null(fac_caching_allocator_new(&f.source, 0, "expandable_segments:True"));
    assert_error(FAC_ERR_UNSUPPORTED, "expandable_segments needs virtual memory");
    assert_null(fac_caching_allocator_new(&f.source, 0, "max_split:1"));
    assert_error(FAC_ERR_ARGUMENT, "max_split");
    assert_null(fac_caching_allocator_new(NULL, 0, NULL));
    assert_error(FAC_ERR_ARGUMENT, "memory source");
    fake_source_end(&f);
}

static void requests_of_no_bytes_bad_sizes_and_bad_frees(void **state) {
    (void)state;
    begin(GIB, NULL);
    const fac_allocator *face = fac_caching_allocator_face(a);
    char *p = get(0), *q = get(0);
    assert_int_equal(f.allocs, 0);
    give(p), give(q), give(NULL);
    assert_null(face->alloc(face, -1));
    assert_error(FAC_ERR_ARGUMENT, "-1 bytes");
    assert_null(face->alloc(face, INT64_MAX));
    assert_error(FAC_ERR_MEMORY, "9223372036854775807 bytes");
    refuse(INT64_MAX / 16, "out of memory");
    p = get(512);
    face->free(face, p + 1, 0);
    assert_error(FAC_ERR_STATE, "no block in use");
    give(p);
    face->free(face, p, 0);
    assert_error(FAC_ERR_STATE, "no block in use");
    end();
}

/* ---- options ------------------------------------------------------------------------------------------------------------- */

static void S211_blocks_above_max_split_are_never_split(void **state) {
    (void)state;
    begin(4 * GIB, "max_split_size_mb:40");
    char *p = get(100 * MIB);
    give(p);
    char *q = get(30 * MIB); /* not cut out of the 100 */
    assert_ptr_not_equal(p, q);
    char *r = get(60 * MIB); /* oversize itself, but the 100 would waste more than 20 */
    assert_ptr_not_equal(r, p);
    char *s = get(90 * MIB);
    assert_ptr_equal(s, p);
    assert_int_equal(stats().oversize_allocations.current, 2);
    assert_int_equal(stats().oversize_segments.current, 2);
    assert_int_equal(stats().max_split_size, 40 * MIB);
    give(q), give(r), give(s);
    assert_int_equal(stats().oversize_allocations.current, 0);
    end();
}

static void S211_oversize_blocks_make_room_before_the_cache_is_emptied(void **state) {
    (void)state;
    begin(200 * MIB, "max_split_size_mb:40");
    char *small = get(512), *p = get(100 * MIB), *q = get(60 * MIB);
    give(p), give(q);
    char *r = get(130 * MIB); /* both oversize blocks go */
    assert_int_equal(stats().num_alloc_retries, 0);
    give(r);
    char *s = get(80 * MIB); /* the 130 does not serve 80, and goes */
    assert_int_equal(stats().num_alloc_retries, 0);
    give(s), give(small);
    end();
}

static void S214_max_non_split_rounding_lets_larger_blocks_serve(void **state) {
    (void)state;
    begin(8 * GIB, "max_split_size_mb:200,max_non_split_rounding_mb:1024");
    char *p = get(1024 * MIB);
    give(p);
    assert_ptr_equal(get(512 * MIB), p);
    give(p);
    end();
    begin(8 * GIB, "max_split_size_mb:200");
    p = get(1024 * MIB);
    give(p);
    char *q = get(512 * MIB);
    assert_ptr_not_equal(q, p);
    give(q);
    end();
}

static void S212_requests_are_rounded_by_divisions(void **state) {
    (void)state;
    begin(4 * GIB, "roundup_power2_divisions:4");
    char *p = get(1200 * MIB);
    assert_int_equal(stats().allocated_bytes.all.current, 1280 * MIB);
    assert_int_equal(stats().requested_bytes.all.current, 1200 * MIB);
    give(p);
    assert_ptr_equal(get(1270 * MIB), p);
    give(p);
    end();
}

static void S215_garbage_collection_frees_old_blocks_and_keeps_those_in_use(void **state) {
    (void)state;
    begin(1000 * MIB, "garbage_collection_threshold:0.5,per_process_memory_fraction:1.0");
    char *old[4], *hot = get(50 * MIB);
    for (int i = 0; i < 4; i++) old[i] = get((100 + 2 * i) * MIB);
    for (int i = 0; i < 4; i++) give(old[i]);
    give(hot);
    for (int i = 0; i < 20; i++) give(get(50 * MIB)); /* the four grow old */
    assert_int_equal(f.allocs, 5);
    f.stream = 1; /* a miss above the threshold: 462 MiB are held, 300 more are wanted */
    char *p = get(60 * MIB);
    f.stream = 1;
    char *q = get(62 * MIB);
    assert_true(stats().reserved_bytes.all.current <= 562 * MIB);
    assert_true(stats().num_device_free > 0);
    f.stream = 0;
    assert_ptr_equal(get(50 * MIB), hot); /* still there */
    assert_int_equal(stats().num_alloc_retries, 0);
    give(hot), give(p), give(q);
    end();
}

static void S215_without_a_limit_nothing_is_collected(void **state) {
    (void)state;
    begin(1000 * MIB, "garbage_collection_threshold:0.1");
    for (int i = 0; i < 5; i++) {
        f.stream = i;
        give(get(100 * MIB));
    }
    assert_int_equal(stats().num_device_free, 0);
    end();
}

static void X07_a_share_of_the_memory_is_the_limit(void **state) {
    (void)state;
    begin(1000 * MIB, "per_process_memory_fraction:0.5");
    char *p = get(400 * MIB);
    refuse(200 * MIB, "This process may reserve 500.00 MiB");
    assert_ok(fac__cache_set_fraction(a, 0.7));
    char *q = get(200 * MIB);
    give(p), give(q);
    assert_int_equal(fac__cache_set_fraction(a, 1.5), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "between 0 and 1");
    end();
}

static int rejections, ooms;
static int64_t asked_last;
static void on_rejection(void *context, int device, int64_t asked, int64_t total, int64_t free) {
    (void)context, (void)device, (void)free, (void)total;
    rejections++;
    asked_last = asked;
}
static void on_oom(void *context, int device, int64_t asked, int64_t total, int64_t free) {
    (void)device, (void)free;
    assert_int_equal(total, 100 * MIB);
    ooms++;
    asked_last = asked;
    /* no lock is held: the allocator can be used */
    void *p = fac__cache_alloc(context, 512, 0);
    assert_non_null(p);
    fac__cache_free(context, p);
}

static void X08_requests_that_cannot_fit_are_refused_without_the_driver(void **state) {
    (void)state;
    begin(100 * MIB, "throw_on_cudamalloc_oom:True");
    rejections = ooms = 0;
    assert_ok(fac_cuda_attach_rejection_observer(on_rejection, NULL));
    char *p = get(50 * MIB);
    const int64_t calls = f.allocs;
    f.fail_at = 1; /* would count a call */
    refuse(80 * MIB, "tried to allocate 80.00 MiB");
    assert_int_equal(f.fail_at, 1);
    assert_int_equal(f.allocs, calls);
    f.fail_at = 0;
    assert_int_equal(rejections, 1);
    assert_int_equal(stats().num_oom_rejections, 1);
    assert_int_equal(stats().num_ooms, 1);
    give(p);
    p = get(80 * MIB); /* what is cached is given back first */
    assert_int_equal(rejections, 1);
    give(p);
    fac_cuda_detach_rejection_observer(on_rejection, NULL);
    end();
}

/* ---- memory out ---------------------------------------------------------------------------------------------------------------- */

static void S221_cached_blocks_are_given_back_and_the_request_tried_again(void **state) {
    (void)state;
    begin(100 * MIB, NULL);
    f.stream = 1;
    char *p = get(60 * MIB);
    give(p);
    f.stream = 0;
    char *q = get(70 * MIB);
    assert_int_equal(stats().num_alloc_retries, 1);
    assert_int_equal(stats().num_ooms, 0);
    assert_int_equal(f.used, 70 * MIB);
    give(q);
    end();
}

static void S221_the_error_says_what_there_is(void **state) {
    (void)state;
    begin(100 * MIB, NULL);
    char *p = get(30 * MIB), *q = get(30 * MIB), *r = get(600 * KIB);
    const fac_allocator *face = fac_caching_allocator_face(a);
    assert_null(face->alloc(face, 50 * MIB));
    static const char *const parts[] = {"out of memory on fake:0: tried to allocate 50.00 MiB.",
                                        "The device has 100.00 MiB, of which 38.00 MiB are free.",
                                        "60.59 MiB are allocated, 1.41 MiB reserved but unallocated",
                                        "the largest free block has 1.41 MiB (fragmentation 0%)",
                                        "Most of it is in blocks of 2 x 30.00 MiB, 1 x 600.00 KiB."};
    for (size_t i = 0; i < FAC_COUNT(parts); i++)
        if (!strstr(fac_error_message(), parts[i])) fail_msg("'%s' is not in: %s", parts[i], fac_error_message());
    fac_error_clear();
    give(p), give(q), give(r);
    p = get(90 * MIB); /* and life goes on */
    give(p);
    end();
}

static void X25_observers_are_told_without_a_lock(void **state) {
    (void)state;
    begin(100 * MIB, NULL);
    ooms = 0;
    assert_ok(fac_cuda_attach_oom_observer(on_oom, a));
    refuse(200 * MIB, "out of memory");
    assert_int_equal(ooms, 1);
    assert_int_equal(asked_last, 200 * MIB);
    fac_cuda_detach_oom_observer(on_oom, NULL); /* another context: nothing */
    refuse(200 * MIB, "out of memory");
    assert_int_equal(ooms, 2);
    fac_cuda_detach_oom_observer(on_oom, a);
    refuse(200 * MIB, "out of memory");
    assert_int_equal(ooms, 2);
    for (int i = 0; i < 8; i++) assert_ok(fac_cuda_attach_oom_observer(on_oom, &rejections + i));
    assert_int_equal(fac_cuda_attach_oom_observer(on_oom, a), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "8 functions");
    for (int i = 0; i < 8; i++) fac_cuda_detach_oom_observer(on_oom, &rejections + i);
    end();
}

static void *held_back;
static bool let_go(void *context, int device) {
    (void)device;
    if (!held_back) return false;
    fac__cache_free(context, held_back);
    held_back = NULL;
    return true;
}

static void X25_callbacks_free_memory_before_the_driver_is_asked(void **state) {
    (void)state;
    begin(100 * MIB, NULL);
    held_back = get(40 * MIB);
    void *was = held_back;
    assert_ok(fac_cuda_attach_free_memory_callback(let_go, a));
    assert_ptr_equal(get(40 * MIB), was);
    assert_int_equal(f.allocs, 1);
    fac_cuda_detach_free_memory_callback(let_go, a);
    give(was);
    end();
}

/* Every n-th request to the device fails: a retry or an error, nothing is lost, and the next one works. */
static void each_device_allocation_may_fail(void **state) {
    (void)state;
    static const char *const configs[] = {NULL, "expandable_segments:True", "max_split_size_mb:32",
                                          "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9"};
    for (size_t c = 0; c < FAC_COUNT(configs); c++) {
        for (int n = 1;; n++) {
            begin(400 * MIB, configs[c]);
            void *p[24] = {0};
            const fac_allocator *face = fac_caching_allocator_face(a);
            f.fail_at = n;
            for (int i = 0; i < 24; i++) {
                f.stream = i % 3;
                p[i] = face->alloc(face, i % 4 == 3 ? 11 * MIB * (i / 8 + 1) : (int64_t)300 * KIB * (i + 1));
                if (!p[i]) assert_error(FAC_ERR_MEMORY, "out of memory");
                if (i % 5 == 4) {
                    face->free(face, p[i - 2], 0);
                    p[i - 2] = NULL;
                }
            }
            bool met = f.fail_at == 0;
            f.fail_at = 0;
            f.stream = 0;
            give(get(20 * MIB));
            for (int i = 0; i < 24; i++) give(p[i]);
            assert_int_equal(stats().allocated_bytes.all.current, 0);
            empty();
            assert_int_equal(f.used, 0);
            end();
            if (!met) break;
        }
    }
}

/* The same for host memory: no header or list can be had. */
static fac_status few_requests(void *context) {
    (void)context;
    fake_source_begin(&f, 400 * MIB);
    a = fac_caching_allocator_new(&f.source, 0, "expandable_segments:True");
    if (a) {
        const fac_allocator *face = fac_caching_allocator_face(a);
        void *p[6];
        const int64_t sizes[] = {512, 700 * KIB, 3 * MIB, 30 * MIB, 1, MIB};
        for (int i = 0; i < 6; i++) p[i] = face->alloc(face, sizes[i]);
        for (int i = 0; i < 6; i++)
            if (p[i] && fac_caching_allocator_record_stream(a, p[i], 1 + i % 3) != FAC_OK)
                assert_int_not_equal(fac_error(), 0);
        for (int i = 0; i < 6; i++) face->free(face, p[i], 0);
        if (fac_caching_allocator_empty_cache(a) != FAC_OK) assert_int_not_equal(fac_error(), 0);
        fac_caching_allocator_free(a);
    }
    fake_source_end(&f);
    return fac_error();
}

static void S221_each_host_allocation_may_fail(void **state) {
    (void)state;
    support_fail_each_allocation(few_requests, NULL);
}

/* ---- giving back, counting ------------------------------------------------------------------------------------------------------------ */

static void S204_empty_cache_frees_what_is_free_and_nothing_else(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(2 * MIB), *q = get(2 * MIB), *r = get(30 * MIB), *s = get(512);
    give(q), give(r);
    assert_int_equal(f.used, 52 * MIB);
    empty();
    assert_int_equal(f.used, 22 * MIB); /* the 20 MiB segment of p stays, and that of s */
    assert_int_equal(stats().reserved_bytes.all.current, 22 * MIB);
    assert_int_equal(stats().allocated_bytes.all.current, 2 * MIB + 512);
    give(p), give(s);
    empty();
    assert_int_equal(f.used, 0);
    end();
}

static void S205_counters_and_their_names(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(3 * MIB), *q = get(1000);
    give(p);
    const fac_cuda_memory_stats s = stats();
    const struct {
        const char *name;
        int64_t value;
    } cases[] = {
        {"allocation.all.current", 1},
        {"allocation.all.peak", 2},
        {"allocation.all.allocated", 2},
        {"allocation.all.freed", 1},
        {"allocation.large_pool.current", 0},
        {"allocation.small_pool.current", 1},
        {"allocated_bytes.all.peak", 3 * MIB + 1024},
        {"allocated_bytes.large_pool.freed", 3 * MIB},
        {"requested_bytes.all.current", 1000},
        {"active_bytes.small_pool.current", 1024},
        {"segment.all.current", 2},
        {"reserved_bytes.large_pool.current", 20 * MIB},
        {"inactive_split.all.current", 1},
        {"inactive_split_bytes.small_pool.current", 2 * MIB - 1024},
        {"oversize_segments.current", 0},
        {"num_device_alloc", 2},
        {"num_ooms", 0},
        {"max_split_size", -1},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        int64_t v = -77;
        assert_true(fac__stats_find(&s, cases[i].name, &v));
        if (v != cases[i].value)
            fail_msg("%s is %lld, not %lld", cases[i].name, (long long)v, (long long)cases[i].value);
    }
    int64_t v, n = 0;
    for (const char *name; (name = fac_cuda_memory_stat_name((int)n)); n++) assert_true(fac__stats_find(&s, name, &v));
    assert_int_equal(n, 9 * 12 + 2 * 4 + 7);
    assert_false(fac__stats_find(&s, "allocation.all", &v));
    give(q);
    end();
}

static void S202_peaks_and_sums_can_be_reset(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(2 * MIB), *q = get(3 * MIB);
    give(q);
    fac_cuda_memory_stats s = stats();
    assert_int_equal(s.allocated_bytes.all.current, 2 * MIB);
    assert_int_equal(s.allocated_bytes.all.peak, 5 * MIB);
    fac__stats_reset_peaks(&s);
    assert_int_equal(s.allocated_bytes.all.peak, 2 * MIB);
    assert_int_equal(s.reserved_bytes.large_pool.peak, 20 * MIB);
    assert_int_equal(s.allocated_bytes.all.allocated, 5 * MIB);
    fac__stats_reset_sums(&s);
    assert_int_equal(s.allocated_bytes.all.allocated, 0);
    assert_int_equal(s.num_device_alloc, 0);
    assert_int_equal(s.allocated_bytes.all.current, 2 * MIB);
    assert_int_equal(s.max_split_size, -1);
    give(p);
    end();
}

static void S206_the_summary_is_a_table(void **state) {
    (void)state;
    begin(8 * GIB, NULL);
    char *p = get(2 * GIB), *q = get(1000);
    const fac_cuda_memory_stats s = stats();
    char *text = fac__stats_summary(&s, 3, false), *brief = fac__stats_summary(&s, 3, true);
    static const char *const parts[] = {
        "device ID 3", "| Allocated memory      |   2048 MiB |   2048 MiB |   2048 MiB |      0 B   |",
        "|       from small pool |      0 MiB |", "| Allocations           |       2    |", "CUDA OOMs: 0"};
    for (size_t i = 0; i < FAC_COUNT(parts); i++)
        if (!strstr(text, parts[i])) fail_msg("'%s' is not in\n%s", parts[i], text);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_int_equal(strchr(line, '\n') - line, 77); /* all lines are of one width */
    assert_null(strstr(brief, "pool"));
    fac_string_free(text), fac_string_free(brief);
    give(p), give(q);
    end();
}

static void S208_without_caching_every_block_is_the_drivers(void **state) {
    (void)state;
    static const char *const names[] = {"FACULA_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        setenv(names[i], "1", 1);
        begin(GIB, NULL);
        unsetenv(names[i]);
        char *p = get(1000), *q = get(3 * MIB);
        assert_int_equal(f.allocs, 2);
        assert_int_equal(f.used, 1024 + 3 * MIB);
        fake_issue(&f, 2);
        assert_ok(fac_caching_allocator_record_stream(a, q, 2));
        give(p);
        assert_int_equal(f.used, 3 * MIB);
        give(q); /* still read by stream 2 */
        assert_int_equal(f.used, 3 * MIB);
        fake_complete(&f, 2);
        p = get(1000);
        assert_int_equal(f.used, 1024);
        give(p);
        assert_int_equal(f.used, 0);
        end();
    }
}

FAC_TEST_MAIN(
    FAC_TEST(S220_small_requests_share_segments_of_2_mib),
    FAC_TEST(S220_large_requests_have_segments_of_20_mib_or_their_own), FAC_TEST(X02_large_segment_size_is_an_option),
    FAC_TEST(S058_blocks_are_split_and_merged_with_both_neighbours), FAC_TEST(S058_the_smallest_fitting_block_is_taken),
    FAC_TEST(S058_large_blocks_keep_small_rests), FAC_TEST(S058_thousands_of_blocks_are_found_again),
    FAC_TEST(S060_freed_memory_is_reused_at_once_on_its_stream), FAC_TEST(S222_blocks_are_reused_on_their_stream_only),
    FAC_TEST(S059_any_device_is_served_by_two_functions), FAC_TEST(S059_incomplete_sources_are_refused),
    FAC_TEST(requests_of_no_bytes_bad_sizes_and_bad_frees), FAC_TEST(S211_blocks_above_max_split_are_never_split),
    FAC_TEST(S211_oversize_blocks_make_room_before_the_cache_is_emptied),
    FAC_TEST(S214_max_non_split_rounding_lets_larger_blocks_serve), FAC_TEST(S212_requests_are_rounded_by_divisions),
    FAC_TEST(S215_garbage_collection_frees_old_blocks_and_keeps_those_in_use),
    FAC_TEST(S215_without_a_limit_nothing_is_collected), FAC_TEST(X07_a_share_of_the_memory_is_the_limit),
    FAC_TEST(X08_requests_that_cannot_fit_are_refused_without_the_driver),
    FAC_TEST(S221_cached_blocks_are_given_back_and_the_request_tried_again),
    FAC_TEST(S221_the_error_says_what_there_is), FAC_TEST(X25_observers_are_told_without_a_lock),
    FAC_TEST(X25_callbacks_free_memory_before_the_driver_is_asked), FAC_TEST(each_device_allocation_may_fail),
    FAC_TEST(S221_each_host_allocation_may_fail), FAC_TEST(S204_empty_cache_frees_what_is_free_and_nothing_else),
    FAC_TEST(S205_counters_and_their_names), FAC_TEST(S202_peaks_and_sums_can_be_reset),
    FAC_TEST(S206_the_summary_is_a_table), FAC_TEST(S208_without_caching_every_block_is_the_drivers))
