/* The cache's lock while the driver makes memory: a thread that is served from the cache does not wait for one that is not, unless
   release_lock_on_cudamalloc is off. */
#include "cache_test.h"
#include "support/gate.h"

/* ---- a source with a gate ----------------------------------------------------------------------------------------- */

static fac_memory_source real;

static fac_status gated_alloc(const fac_memory_source *s, int device, int64_t bytes, int64_t stream, void **out) {
    gate_pass();
    return real.alloc(s, device, bytes, stream, out);
}

static fac_status gated_map(const fac_memory_source *s, int device, void *p, int64_t bytes, bool *out_mapped) {
    gate_pass();
    return real.map(s, device, p, bytes, out_mapped);
}

static void begin_gated(const char *settings) {
    fake_source_begin(&f, 4 * GIB);
    real = f.source;
    f.source.alloc = gated_alloc;
    f.source.map = gated_map;
    a = fac_caching_allocator_new(&f.source, 0, settings);
    assert_no_error();
}

/* ---- a thread that asks ---------------------------------------------------------------------------------------------- */

typedef struct asker {
    pthread_t thread;
    int64_t bytes;
    void *got;
    atomic_bool done;
} asker;

static void *ask(void *context) {
    asker *k = context;
    const fac_allocator *face = fac_caching_allocator_face(a);
    k->got = face->alloc(face, k->bytes);
    k->done = true;
    fac__thread_end();
    return NULL;
}

static void start(asker *k, int64_t bytes) {
    *k = (asker){.bytes = bytes};
    assert_int_equal(pthread_create(&k->thread, NULL, ask, k), 0);
}

/* Waits until so many are in the source; where allocations fail one may end without having been there. */
static void await_waiting(int n, const asker *one, const asker *other) {
    while (gate_waiting() < n && !one->done && !other->done) nanosleep(&(struct timespec){0, 100000}, NULL);
    assert_int_equal(gate_waiting(), n);
}

static void *finish(asker *k) {
    pthread_join(k->thread, NULL);
    assert_non_null(k->got);
    return k->got;
}

/* While one thread is in the driver for `bytes`, this one takes, gives and counts memory that the cache has. */
static void check_cache_is_open(const char *settings, int64_t bytes) {
    asker slow;
    begin_gated(settings);
    give(get(MIB / 2));
    gate_close();
    start(&slow, bytes);
    await_waiting(1, &slow, &slow);
    for (int i = 0; i < 3; i++) {
        char *p = get(MIB / 2);
        assert_true(stats().allocated_bytes.all.current == MIB / 2);
        give(p);
    }
    assert_int_equal(gate_waiting(), 1);
    assert_false(slow.done);
    gate_open();
    give(finish(&slow));
    end();
}

static void X09_the_cache_serves_while_another_thread_is_in_the_driver(void **state) {
    (void)state;
    check_cache_is_open(NULL, 64 * MIB);
    check_cache_is_open("release_lock_on_cudamalloc:True", 64 * MIB);
    check_cache_is_open("expandable_segments:True", 64 * MIB);
}

/* Two threads in the driver at once, each of which gets memory of its own. */
static void X09_two_threads_are_in_the_driver_at_once(void **state) {
    (void)state;
    asker one, two;
    begin_gated(NULL);
    gate_close();
    start(&one, 64 * MIB);
    start(&two, 64 * MIB);
    await_waiting(2, &one, &two);
    gate_open();
    void *p = finish(&one), *q = finish(&two);
    assert_ptr_not_equal(p, q);
    assert_int_equal(stats().allocated_bytes.all.current, 128 * MIB);
    give(p);
    give(q);
    end();
}

/* With the lock held the second thread waits, although the cache has what it wants. */
static void X09_a_lock_that_is_kept_holds_the_others_up(void **state) {
    (void)state;
    asker slow, quick;
    begin_gated("release_lock_on_cudamalloc:False");
    give(get(MIB / 2));
    gate_close();
    start(&slow, 64 * MIB);
    await_waiting(1, &slow, &slow);
    start(&quick, MIB / 2);
    nanosleep(&(struct timespec){0, 50 * 1000 * 1000}, NULL);
    assert_int_equal(gate_waiting(), 1);
    assert_false(quick.done);
    gate_open();
    give(finish(&slow));
    give(finish(&quick));
    end();
}

FAC_TEST_MAIN(FAC_TEST(X09_the_cache_serves_while_another_thread_is_in_the_driver),
              FAC_TEST(X09_two_threads_are_in_the_driver_at_once),
              FAC_TEST(X09_a_lock_that_is_kept_holds_the_others_up))
