/* The caching allocator over a fake source: streams, expandable segments, captures and their pools. */
#include "cache_test.h"

/* ---- streams ---------------------------------------------------------------------------------------------------------------------- */

static void S222_recorded_streams_hold_a_block_until_their_work_is_done(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(4 * MIB);
    fake_issue(&f, 3);
    assert_ok(fac_caching_allocator_record_stream(a, p, 3));
    assert_ok(fac_caching_allocator_record_stream(a, p, 3));  /* once is enough */
    assert_ok(fac_caching_allocator_record_stream(a, p, 0));  /* its own */
    assert_ok(fac_caching_allocator_record_stream(a, &p, 3)); /* no block of ours */
    give(p);
    assert_int_equal(f.events, 1);
    assert_int_equal(stats().allocation.all.current, 0);
    assert_int_equal(stats().active.all.current, 1);
    char *q = get(4 * MIB);
    assert_ptr_not_equal(q, p);
    fake_complete(&f, 3);
    char *r = get(4 * MIB);
    assert_ptr_equal(r, p);
    assert_int_equal(f.events, 0);
    give(q), give(r);
    end();
}

static void S222_memory_out_waits_for_recorded_streams(void **state) {
    (void)state;
    begin(100 * MIB, NULL);
    char *p = get(80 * MIB);
    fake_issue(&f, 3);
    assert_ok(fac_caching_allocator_record_stream(a, p, 3));
    give(p);
    assert_ptr_equal(get(80 * MIB), p); /* nothing else was to be had: it waited */
    assert_int_equal(stats().num_sync_all_streams, 1);
    assert_int_equal(f.allocs, 1);
    give(p);
    end();
}

static void S222_where_no_event_can_be_had_the_stream_is_waited_for(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(4 * MIB);
    fake_issue(&f, 3);
    assert_ok(fac_caching_allocator_record_stream(a, p, 3));
    f.refuse_events = true;
    const fac_allocator *face = fac_caching_allocator_face(a);
    face->free(face, p, 0);
    assert_error(FAC_ERR_DEVICE, "no events today");
    assert_int_equal(f.completed[3], 1);
    assert_ptr_equal(get(4 * MIB), p);
    give(p);
    end();
}

/* ---- expandable segments ----------------------------------------------------------------------------------------------------------- */

static void S216_a_growing_request_leaves_no_slivers(void **state) {
    (void)state;
    double waste[2];
    for (int expandable = 0; expandable < 2; expandable++) {
        begin(4 * GIB, expandable ? "expandable_segments:True" : NULL);
        for (int step = 0; step < 16; step++) { /* batches of N, N + 1, ... */
            char *p[4];
            for (int i = 0; i < 4; i++) p[i] = get((40 + step * 3) * MIB);
            for (int i = 0; i < 4; i++) give(p[i]);
        }
        const fac_cuda_memory_stats s = stats();
        waste[expandable] = (double)s.reserved_bytes.all.peak / (double)s.allocated_bytes.all.peak;
        end();
    }
    assert_true(waste[1] < 1.06); /* at most one unit is stranded */
    assert_true(waste[0] > 2);
}

static void S216_memory_is_mapped_in_units_and_unmapped_when_free(void **state) {
    (void)state;
    begin(GIB, "expandable_segments:True");
    char *p = get(30 * MIB);
    assert_int_equal(f.used, 40 * MIB);
    assert_int_equal(f.allocs, 0);
    assert_int_equal(stats().reserved_bytes.large_pool.current, 40 * MIB);
    char *q = get(25 * MIB);
    assert_ptr_equal(q, p + 30 * MIB);
    assert_int_equal(f.used, 60 * MIB);
    char *small = get(512);
    assert_int_equal(f.used, 62 * MIB);
    assert_int_equal(f.ranges_reserved, 2); /* one per size class */
    give(p);
    empty(); /* 30 MiB are free: only the first 20 form a unit */
    assert_int_equal(f.used, 42 * MIB);
    p = get(26 * MIB); /* mapped again, in front */
    assert_ptr_equal(p, q - 30 * MIB);
    assert_int_equal(f.used, 62 * MIB);
    give(p), give(q), give(small);
    empty();
    assert_int_equal(f.used, 0);
    assert_int_equal(f.ranges_reserved, 0);
    end();
}

static void S216_a_stream_has_a_segment_of_its_own(void **state) {
    (void)state;
    begin(GIB, "expandable_segments:True");
    char *p = get(2 * MIB);
    f.stream = 1;
    char *q = get(2 * MIB);
    assert_int_equal(f.ranges_reserved, 2);
    give(p), give(q);
    end();
}

static void S216_without_memory_nothing_is_left_mapped(void **state) {
    (void)state;
    begin(100 * MIB, "expandable_segments:True");
    char *p = get(50 * MIB);
    refuse(70 * MIB, "out of memory");
    assert_int_equal(f.used, 60 * MIB);
    char *q = get(40 * MIB);
    give(p), give(q);
    p = get(100 * MIB);
    give(p);
    end();
}

/* ---- private pools ------------------------------------------------------------------------------------------------------------------------- */

static const int64_t POOL[2] = {0, 7};

static void captures_allocate_from_their_own_pool(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *before = get(2 * MIB);
    give(before);
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    f.capture[1] = 42;
    f.stream = 1; /* the captured stream, from whatever thread */
    char *p = get(2 * MIB);
    f.stream = 0; /* not captured */
    assert_ptr_equal(get(2 * MIB), before);
    give(before);
    assert_int_equal(fac_caching_allocator_empty_cache(a), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "while a graph is captured");
    give(p);
    f.capture[1] = 0;
    assert_ok(fac__cache_capture_end(a, 42));
    empty(); /* the graph still holds its pool */
    assert_int_equal(f.used, 20 * MIB);
    f.stream = 1;
    char *q = get(2 * MIB); /* is not served from there */
    assert_ptr_not_equal(q, p);
    give(q);
    assert_ok(fac__cache_arena_release(a, POOL));
    empty();
    assert_int_equal(f.used, 0);
    assert_int_equal(fac__cache_arena_release(a, POOL), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "no memory pool (0, 7)");
    end();
}

static void captures_defer_frees_of_blocks_used_elsewhere(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(4 * MIB);
    assert_ok(fac_caching_allocator_record_stream(a, p, 2));
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    give(p);
    assert_int_equal(f.events, 0); /* no event may be recorded now */
    assert_ptr_not_equal(get(4 * MIB), p);
    fake_issue(&f, 2);
    assert_ok(fac__cache_capture_end(a, 42));
    assert_int_equal(f.events, 1);
    assert_int_equal(fac__cache_capture_end(a, 42), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "42");
    fake_complete(&f, 2);
    assert_ok(fac__cache_arena_release(a, POOL));
    end();
}

static void pools_may_serve_others_when_memory_is_out(void **state) {
    (void)state;
    begin(100 * MIB, NULL);
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    f.capture[0] = 42;
    char *p = get(80 * MIB);
    give(p);
    f.capture[0] = 0;
    assert_ok(fac__cache_capture_end(a, 42));
    refuse(50 * MIB, "out of memory");
    assert_ok(fac__cache_arena_use_on_oom(a, POOL));
    assert_ptr_equal(get(50 * MIB), p);
    give(p);
    assert_ok(fac__cache_arena_release(a, POOL));
    end();
}

static fac_status take_mark(const fac_memory_source *s, int device, int64_t stream, void **out_mark) {
    (void)s, (void)device, (void)stream;
    *out_mark = &f;
    return FAC_OK;
}
static bool passed_now;
static bool has_passed(const fac_memory_source *s, int device, int64_t stream, void *mark) {
    (void)s, (void)device, (void)stream;
    assert_ptr_equal(mark, &f);
    return passed_now;
}

static void X06_blocks_come_back_within_a_capture_when_the_graph_orders_them(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    f.source.mark = take_mark;
    f.source.passed = has_passed;
    a = fac_caching_allocator_new(&f.source, 0, "graph_capture_record_stream_reuse:True");
    assert_non_null(a);
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    f.capture[0] = f.capture[1] = 42;
    char *p = get(4 * MIB);
    assert_ok(fac_caching_allocator_record_stream(a, p, 1));
    give(p);
    passed_now = false;
    char *q = get(4 * MIB);
    assert_ptr_not_equal(q, p);
    passed_now = true; /* stream 0 waits for stream 1 by now */
    assert_ptr_equal(get(4 * MIB), p);
    give(p), give(q);
    f.capture[0] = f.capture[1] = 0;
    assert_ok(fac__cache_capture_end(a, 42));
    assert_ok(fac__cache_arena_release(a, POOL));
    end();
}

/* ---- poison ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct touched {
    void *p;
    int64_t bytes;
    int value; /* of a fill; -1: usable, -2: not usable */
} touched;
static touched touches[16];
static size_t n_touches;

static fac_status note_fill(const fac_memory_source *s, int device, void *p, int value, int64_t bytes, int64_t stream) {
    (void)s, (void)device, (void)stream;
    touches[n_touches++] = (touched){p, bytes, value};
    return FAC_OK;
}
static void note_guard(const fac_memory_source *s, int device, void *p, int64_t bytes, bool usable, int64_t stream) {
    (void)s, (void)device, (void)stream;
    touches[n_touches++] = (touched){p, bytes, usable ? -1 : -2};
}

static void freed_blocks_are_poisoned_and_guarded(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    f.source.fill = note_fill;
    f.source.guard = note_guard;
    setenv("FACULA_CUDA_POISON", "1", 1);
    a = fac_caching_allocator_new(&f.source, 0, NULL);
    unsetenv("FACULA_CUDA_POISON");
    n_touches = 0;
    char *p = get(1000);
    give(p);
    empty();
    const touched expected[] = {{p, 2 * MIB, -2}, {p, 1000, -1}, {p, 1024, -1},
                                {p, 1024, 0xFF},  {p, 1024, -2}, {p, 2 * MIB, -1}};
    assert_int_equal(n_touches, FAC_COUNT(expected));
    for (size_t i = 0; i < n_touches; i++) {
        assert_ptr_equal(touches[i].p, expected[i].p);
        assert_int_equal(touches[i].bytes, expected[i].bytes);
        assert_int_equal(touches[i].value, expected[i].value);
    }
    end();
}

FAC_TEST_MAIN(FAC_TEST(S222_recorded_streams_hold_a_block_until_their_work_is_done),
              FAC_TEST(S222_memory_out_waits_for_recorded_streams),
              FAC_TEST(S222_where_no_event_can_be_had_the_stream_is_waited_for),
              FAC_TEST(S216_a_growing_request_leaves_no_slivers),
              FAC_TEST(S216_memory_is_mapped_in_units_and_unmapped_when_free),
              FAC_TEST(S216_a_stream_has_a_segment_of_its_own), FAC_TEST(S216_without_memory_nothing_is_left_mapped),
              FAC_TEST(captures_allocate_from_their_own_pool), FAC_TEST(captures_defer_frees_of_blocks_used_elsewhere),
              FAC_TEST(pools_may_serve_others_when_memory_is_out),
              FAC_TEST(X06_blocks_come_back_within_a_capture_when_the_graph_orders_them),
              FAC_TEST(freed_blocks_are_poisoned_and_guarded))
