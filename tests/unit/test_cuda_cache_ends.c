/* The caching allocator where something ends early or is refused: freed with blocks in use, sources that fail, limits. */
#include "cache_test.h"
#include <string.h>

static const int64_t POOL[2] = {0, 7};

/* An allocator over f.source as it now is, after fake_source_begin. */
static void begin_changed(const char *settings) {
    a = fac_caching_allocator_new(&f.source, 0, settings);
    assert_no_error();
    assert_non_null(a);
}

/* ---- freeing the allocator ------------------------------------------------------------------------------------------ */

static void allocator_gives_back_mapped_memory_that_is_in_use(void **state) {
    (void)state;
    begin(GIB, "expandable_segments:True");
    (void)get(3 * MIB);
    give(get(30 * MIB));
    (void)get(50 * MIB);
    (void)get(100);
    assert_true(f.used > 0 && f.ranges_reserved > 0);
    end(); /* finds nothing mapped or reserved */
}

static void allocator_gives_back_pools_of_graphs_that_are_held(void **state) {
    (void)state;
    begin(GIB, NULL);
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    f.capture[0] = 42;
    (void)get(4 * MIB);
    give(get(100));
    f.capture[0] = 0;
    assert_ok(fac__cache_capture_end(a, 42));
    end();
}

static fac_status wait_fails(const fac_memory_source *s, int device, void *event) {
    (void)s, (void)device, (void)event;
    return fac_error_set(FAC_ERR_DEVICE, "the device is gone");
}

static void allocator_gives_back_blocks_whose_events_cannot_be_waited_for(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    f.source.wait = wait_fails;
    begin_changed(NULL);
    char *p = get(4 * MIB);
    assert_ok(fac_caching_allocator_record_stream(a, p, 2));
    fake_issue(&f, 2);
    give(p);
    assert_int_equal(f.events, 1);
    fac_caching_allocator_free(a);
    assert_error(FAC_ERR_DEVICE, "the device is gone");
    fake_source_end(&f);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------ */

static void capture_has_one_pool(void **state) {
    (void)state;
    static const int64_t other[2] = {0, 8};
    begin(GIB, NULL);
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    assert_int_equal(fac__cache_capture_begin(a, 42, other), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "the capture 42 has a memory pool already");
    assert_int_equal(fac__cache_arena_release(a, other), FAC_ERR_NOT_FOUND); /* it was not made */
    assert_error(FAC_ERR_NOT_FOUND, "(0, 8)");
    assert_ok(fac__cache_capture_end(a, 42));
    assert_ok(fac__cache_arena_release(a, POOL));
    end();
}

static fac_status take_speed(const fac_memory_source *s, const char *key, const char *value) {
    (void)s;
    if (strcmp(key, "speed") != 0) return fac_error_set(FAC_ERR_ARGUMENT, "there is no '%s' here", key);
    return strcmp(value, "high") == 0 ? FAC_OK : fac_error_set(FAC_ERR_ARGUMENT, "speed cannot be '%s'", value);
}

static void options_of_the_source_are_its_own(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    f.source.option = take_speed;
    begin_changed("speed:high,max_split_size_mb:40");
    assert_int_equal(stats().max_split_size, 40 * MIB);
    fac_caching_allocator_free(a);
    assert_null(fac_caching_allocator_new(&f.source, 0, "speed:low"));
    assert_error(FAC_ERR_ARGUMENT, "speed cannot be 'low'");
    assert_null(fac_caching_allocator_new(&f.source, 0, "colour:red"));
    assert_error(FAC_ERR_ARGUMENT, "there is no 'colour' here");
    fake_source_end(&f);
}

static fac_status reserve_fails(const fac_memory_source *s, int device, int64_t bytes, void **out) {
    (void)s, (void)device, (void)bytes, (void)out;
    return fac_error_set(FAC_ERR_DEVICE, "no addresses are left");
}

static void range_that_cannot_be_reserved_is_an_error(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    f.source.reserve = reserve_fails;
    begin_changed("expandable_segments:True");
    const fac_allocator *face = fac_caching_allocator_face(a);
    assert_null(face->alloc(face, MIB));
    assert_error(FAC_ERR_DEVICE, "no addresses are left");
    assert_int_equal(stats().allocation.all.current, 0);
    end();
}

static void mapping_stays_below_the_limit(void **state) {
    (void)state;
    begin(400 * MIB, "expandable_segments:True,per_process_memory_fraction:0.25");
    char *p = get(60 * MIB);
    refuse(60 * MIB, "tried to allocate 60.00 MiB");
    assert_true(f.used <= 100 * MIB);
    give(p);
    p = get(90 * MIB);
    give(p);
    end();
}

static bool never_passed(const fac_memory_source *s, int device, int64_t stream, void *mark) {
    (void)s, (void)device, (void)stream, (void)mark;
    return false;
}

static void source_refused(const char *settings, fac_status code, const char *message) {
    assert_null(fac_caching_allocator_new(&f.source, 0, settings));
    assert_error(code, message);
}

static void sources_and_settings_that_make_no_sense_are_refused(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    const fac_memory_source whole = f.source;
    source_refused("backend:cudaMallocAsync", FAC_ERR_UNSUPPORTED, "for CUDA alone");
    source_refused("speed:high", FAC_ERR_ARGUMENT, "there is no allocator option 'speed'");
    f.source.name = NULL;
    source_refused(NULL, FAC_ERR_ARGUMENT, "a name, alloc and free");
    f.source = whole, f.source.alloc = NULL;
    source_refused(NULL, FAC_ERR_ARGUMENT, "a name, alloc and free");
    f.source = whole, f.source.free = NULL;
    source_refused(NULL, FAC_ERR_ARGUMENT, "a name, alloc and free");
    f.source = whole, f.source.mark = NULL, f.source.passed = never_passed;
    source_refused(NULL, FAC_ERR_ARGUMENT, "both of mark and passed");
    f.source = whole, f.source.info = NULL;
    source_refused("per_process_memory_fraction:0.5", FAC_ERR_UNSUPPORTED, "no share of it can be set");
    f.source = whole;
    fake_source_end(&f);
}

static void no_allocator_is_an_error_or_nothing(void **state) {
    (void)state;
    assert_int_equal(fac_caching_allocator_record_stream(NULL, NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "where a caching allocator is needed");
    assert_int_equal(fac_caching_allocator_empty_cache(NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "where a caching allocator is needed");
    assert_null(fac_caching_allocator_face(NULL));
    assert_int_equal(fac_caching_allocator_stats(NULL).num_ooms, 0);
    fac_caching_allocator_free(NULL);
    assert_no_error();
}

/* ---- room ----------------------------------------------------------------------------------------------------------- */

static void one_oversize_block_that_is_large_enough_makes_room(void **state) {
    (void)state;
    begin(200 * MIB, "max_split_size_mb:40");
    char *p = get(130 * MIB), *q = get(50 * MIB);
    give(q), give(p);
    char *r = get(80 * MIB); /* the 130 is too large to serve it, and goes; the 50 stays */
    assert_int_equal(stats().num_alloc_retries, 0);
    assert_ptr_equal(get(50 * MIB), q);
    give(q), give(r);
    end();
}

static fac_status mark_fails(const fac_memory_source *s, int device, int64_t stream, void **out_mark) {
    (void)s, (void)device, (void)stream, (void)out_mark;
    return fac_error_set(FAC_ERR_DEVICE, "no mark");
}

static void block_that_cannot_be_marked_waits_for_the_end_of_the_capture(void **state) {
    (void)state;
    fake_source_begin(&f, GIB);
    f.source.mark = mark_fails;
    f.source.passed = never_passed;
    begin_changed("graph_capture_record_stream_reuse:True");
    assert_ok(fac__cache_capture_begin(a, 42, POOL));
    f.capture[0] = f.capture[1] = 42;
    char *p = get(4 * MIB);
    assert_ok(fac_caching_allocator_record_stream(a, p, 1));
    const fac_allocator *face = fac_caching_allocator_face(a);
    face->free(face, p, 0);
    assert_error(FAC_ERR_DEVICE, "no mark");
    char *q = get(4 * MIB);
    assert_ptr_not_equal(q, p);
    give(q);
    f.capture[0] = f.capture[1] = 0;
    assert_ok(fac__cache_capture_end(a, 42));
    assert_int_equal(f.events, 1); /* now an ordinary one, for the use by stream 1 */
    assert_ok(fac__cache_arena_release(a, POOL));
    end();
}

FAC_TEST_MAIN(FAC_TEST(allocator_gives_back_mapped_memory_that_is_in_use),
              FAC_TEST(allocator_gives_back_pools_of_graphs_that_are_held),
              FAC_TEST(allocator_gives_back_blocks_whose_events_cannot_be_waited_for), FAC_TEST(capture_has_one_pool),
              FAC_TEST(options_of_the_source_are_its_own),
              FAC_TEST(sources_and_settings_that_make_no_sense_are_refused),
              FAC_TEST(no_allocator_is_an_error_or_nothing), FAC_TEST(range_that_cannot_be_reserved_is_an_error),
              FAC_TEST(mapping_stays_below_the_limit), FAC_TEST(one_oversize_block_that_is_large_enough_makes_room),
              FAC_TEST(block_that_cannot_be_marked_waits_for_the_end_of_the_capture))
