/* The CPU's allocators and their registry: alignment, reuse, counting, threads. */
#include "core/allocator.h"
#include "core/tensor_make.h"
#include "support/support.h"
#include <pthread.h>
#include <stdlib.h>

static void fill(void *p, int64_t n, int value) { memset(p, value, (size_t)n); }

static bool is_filled(const unsigned char *p, int64_t n, int value) {
    for (int64_t i = 0; i < n; i++)
        if (p[i] != value) return false;
    return true;
}

static void check_sizes(const fac_allocator *a) {
    const int64_t sizes[] = {0,    1,    63,   64,   65,    1023,    1024,          1025,
                             2048, 4097, 8192, 8193, 65536, 1 << 20, (1 << 20) + 1, 5 << 20};
    unsigned char *p[FAC_COUNT(sizes)];
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        p[i] = a->alloc(a, sizes[i]);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % FAC_DATA_ALIGN, 0);
        fill(p[i], sizes[i], (int)i + 1);
    }
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        assert_true(is_filled(p[i], sizes[i], (int)i + 1)); /* no two share a byte */
        a->free(a, p[i], sizes[i]);
    }
}

static void S057_immediate_allocator_gives_aligned_blocks_of_every_size(void **state) {
    (void)state;
    int64_t before = memory_hook_live();
    check_sizes(fac_allocator_immediate());
    assert_int_equal(memory_hook_live(), before); /* nothing is kept */
}

static void E33_pooled_allocator_gives_aligned_blocks_of_every_size(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) check_sizes(fac_allocator_pooled());
}

static void S057_allocator_failure_is_an_error_with_the_size(void **state) {
    (void)state;
    const fac_allocator *all[] = {fac_allocator_immediate(), fac_allocator_pooled()};
    for (size_t i = 0; i < FAC_COUNT(all); i++) {
        fac_tensor *t;
        assert_ok(fac_allocator_set(FAC_CPU, all[i]));
        assert_ok(fac__empty(FAC_INTS(1).v, 1, FAC_U8, fac_device_make(FAC_CPU, -1), &t));
        fac__unref(t); /* leaves a slot for the tensor's header */
        fac__thread_trim();
        memory_hook_fail(FAC_FREELISTS ? 2 : 3,
                         true); /* the headers are given: the storage's, and the tensor's if no slot is kept */
        assert_int_equal(fac__empty(FAC_INTS(123456).v, 1, FAC_U8, fac_device_make(FAC_CPU, -1), &t), FAC_ERR_MEMORY);
        memory_hook_fail(0, false);
        assert_error(FAC_ERR_MEMORY, "123456 bytes");
        assert_null(all[i]->alloc(all[i], -1));
    }
}

static void pooled_allocator_reuses_small_blocks(void **state) {
    (void)state;
    if (!FAC_FREELISTS) skip(); /* nothing is reused */
    const fac_allocator *a = fac_allocator_pooled();
    void *p = a->alloc(a, 100);
    a->free(a, p, 100);
    void *q = a->alloc(a, 128); /* the same class */
    assert_ptr_equal(p, q);
    a->free(a, q, 128);
}

static void pooled_allocator_reuses_large_blocks_that_fit_well(void **state) {
    (void)state;
    if (!FAC_FREELISTS) skip(); /* nothing is reused */
    const fac_allocator *a = fac_allocator_pooled();
    char *big = a->alloc(a, 8 << 20), *fit = a->alloc(a, 1100000), *small = a->alloc(a, 20000);
    a->free(a, big, 8 << 20);
    a->free(a, fit, 1100000);
    a->free(a, small, 20000);
    char *p = a->alloc(a, 1050000);
    assert_ptr_equal(p, fit); /* not the big one, which would be wasted */
    char *q = a->alloc(a, 3 << 20);
    assert_ptr_not_equal(q, big);
    assert_ptr_equal(a->alloc(a, 7 << 20), big);
    a->free(a, p, 1050000);
    a->free(a, q, 3 << 20);
    a->free(a, big, 7 << 20);
}

static void use(const fac_allocator *a, int n, int64_t bytes) {
    char *blocks[100];
    for (int i = 0; i < n; i++) blocks[i] = a->alloc(a, bytes);
    for (int i = 0; i < n; i++) a->free(a, blocks[i], bytes);
}

/* However much of other sizes lies idle, a size that goes on being used is kept in the end: what was freed long ago goes instead. */
static void pooled_allocator_forgets_the_sizes_of_long_ago(void **state) {
    (void)state;
    if (!FAC_FREELISTS) skip(); /* nothing is reused */
    const fac_allocator *a = fac_allocator_pooled();
    fac_memory_trim();
    const int64_t base = fac_memory_get_stats().reserved;
    use(a, 40, 4 << 20);
    const int64_t full = fac_memory_get_stats().reserved;
    for (int i = 0; i < 400; i++) use(a, 1, 1 << 20);
    memory_hook_fail(0, false);
    for (int i = 0; i < 10; i++) use(a, 1, 1 << 20);
    assert_int_equal(memory_hook_requests(), 0);
    for (int i = 0; i < 3000; i++) use(a, 1, 10000 + i * 5000);
    assert_true(fac_memory_get_stats().reserved <= full + (1 << 20));
    fac_memory_trim();
    assert_int_equal(fac_memory_get_stats().reserved, base);
}

/* Two phases of a step that are not in use together: what does not fit beside the first goes to the system, not both in turn. */
static void pooled_allocator_keeps_what_a_step_comes_back_to(void **state) {
    (void)state;
    if (!FAC_FREELISTS) skip(); /* nothing is reused */
    const fac_allocator *a = fac_allocator_pooled();
    for (int step = 0; step < 20; step++) {
        if (step == 2) memory_hook_fail(0, false);
        use(a, 100, 2 << 20);
        use(a, 1, 200 << 20);
    }
    assert_true(memory_hook_requests() <= 18);
    fac_memory_trim();
}

static void pooled_allocator_counts_bytes(void **state) {
    (void)state;
    const fac_allocator *a = fac_allocator_pooled();
    fac_memory_reset_peak();
    fac_memory_stats before = fac_memory_get_stats();
    assert_int_equal(before.peak, before.allocated);
    void *p = a->alloc(a, 1000), *q = a->alloc(a, 3000000);
    fac_memory_stats during = fac_memory_get_stats();
    assert_int_equal(during.allocated - before.allocated, 3001000);
    assert_int_equal(during.allocations - before.allocations, 2);
    assert_true(during.reserved - before.reserved >= 3001000);
    a->free(a, q, 3000000);
    a->free(a, p, 1000);
    fac_memory_stats after = fac_memory_get_stats();
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.peak - before.allocated, 3001000);
    for (int i = 0; i < 1000; i++) a->free(a, a->alloc(a, 5000), 5000); /* many small ones do not raise it */
    assert_int_equal(fac_memory_get_stats().peak, after.peak);
    fac_memory_reset_peak();
    assert_int_equal(fac_memory_get_stats().peak, before.allocated);
}

static void pooled_allocator_trim_gives_everything_idle_back(void **state) {
    (void)state;
    const fac_allocator *a = fac_allocator_pooled();
    int64_t blocks = memory_hook_live(), reserved = fac_memory_get_stats().reserved;
    void *p = a->alloc(a, 64), *q = a->alloc(a, 1 << 20), *r = a->alloc(a, 64);
    fill(r, 64, 7);
    a->free(a, q, 1 << 20);
    a->free(a, p, 64);
    fac_memory_trim(); /* r still holds its slab */
    assert_int_equal(memory_hook_live(), blocks + 1);
    assert_true(is_filled(r, 64, 7));
    a->free(a, r, 64);
    fac_memory_trim();
    assert_int_equal(memory_hook_live(), blocks);
    assert_int_equal(fac_memory_get_stats().reserved, reserved);
}

static void pooled_allocator_gives_idle_blocks_back_before_it_fails(void **state) {
    (void)state;
    if (!FAC_FREELISTS) skip(); /* nothing is reused */
    const fac_allocator *a = fac_allocator_pooled();
    a->free(a, a->alloc(a, 1 << 20), 1 << 20);
    memory_hook_fail(1, false);
    void *p = a->alloc(a, 50 << 20); /* refused, trimmed, given */
    assert_non_null(p);
    assert_int_equal(memory_hook_failures(), 1);
    memory_hook_fail(0, false);
    a->free(a, p, 50 << 20);
}

/* A byte pattern per block, allocations and frees at random; each block must hold its pattern until freed. */
static void *exercise(void *seed_in) {
    enum { SLOTS = 64, STEPS = 20000 };
    const fac_allocator *a = fac_allocator_pooled();
    struct {
        unsigned char *p;
        int64_t n;
        int mark;
    } slot[SLOTS] = {0};
    unsigned seed = (unsigned)(uintptr_t)seed_in;
    intptr_t bad = 0;
    for (int step = 0; step < STEPS + SLOTS; step++) {
        seed = seed * 1664525u + 1013904223u;
        size_t i = step < STEPS ? (seed >> 8) % SLOTS : (size_t)(step - STEPS);
        if (slot[i].p) {
            bad += !is_filled(slot[i].p, slot[i].n < 64 ? slot[i].n : 64, slot[i].mark);
            a->free(a, slot[i].p, slot[i].n);
            slot[i].p = NULL;
        } else if (step < STEPS) {
            slot[i].n = (seed >> 20) % 64 == 0 ? 100000 : (seed >> 10) % 3000;
            slot[i].mark = (int)(seed >> 24);
            slot[i].p = a->alloc(a, slot[i].n);
            fill(slot[i].p, slot[i].n, slot[i].mark);
        }
    }
    return (void *)bad;
}

static void pooled_allocator_is_safe_between_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    int64_t before = fac_memory_get_stats().allocated;
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, exercise, (void *)(i + 1));
    void *bad[4] = {0};
    for (int i = 0; i < 4; i++) pthread_join(threads[i], &bad[i]);
    for (int i = 0; i < 4; i++) assert_null(bad[i]);
    assert_int_equal(fac_memory_get_stats().allocated, before);
}

struct handoff {
    void *p[500];
};

static void *free_them(void *h) {
    const fac_allocator *a = fac_allocator_pooled();
    for (size_t i = 0; i < 500; i++) a->free(a, ((struct handoff *)h)->p[i], 200);
    return NULL;
}

static void pooled_allocator_takes_blocks_back_from_another_thread(void **state) {
    (void)state;
    const fac_allocator *a = fac_allocator_pooled();
    struct handoff h;
    pthread_t thread;
    for (size_t i = 0; i < 500; i++) h.p[i] = a->alloc(a, 200);
    pthread_create(&thread, NULL, free_them, &h);
    pthread_join(thread, NULL);
    assert_int_equal(fac_memory_get_stats().allocated, 0);
}

/* ---- replacing it ---- */

static int given, taken;

static void *counting_alloc(const fac_allocator *self, int64_t bytes) {
    (void)self;
    given++;
    return aligned_alloc(64, ((size_t)bytes + 64) & ~(size_t)63);
}

static void counting_free(const fac_allocator *self, void *p, int64_t bytes) {
    assert_string_equal(self->name, "counting");
    assert_int_equal(bytes, 12);
    taken++;
    free(p);
}

static void S056_allocator_of_a_device_can_be_replaced(void **state) {
    (void)state;
    static const fac_allocator counting = {"counting", counting_alloc, counting_free, NULL};
    const fac_allocator *before = fac_allocator_get(FAC_CPU);
    fac_tensor *old;
    assert_ok(fac__empty(FAC_INTS(3).v, 1, FAC_F32, fac_device_make(FAC_CPU, -1), &old));
    assert_ok(fac_allocator_set(FAC_CPU, &counting));
    assert_ptr_equal(fac_allocator_get(FAC_CPU), &counting);
    {
        FAC_SCOPE(s);
        fac_tensor_of(1, 2, 3);
        assert_int_equal(given, 1);
        assert_int_equal(taken, 0);
    }
    assert_int_equal(taken, 1);
    fac__unref(old); /* back to the allocator that it came from */
    assert_int_equal(taken, 1);
    assert_ok(fac_allocator_set(FAC_CPU, before));
}

static void S056_allocator_registry_refuses_nonsense(void **state) {
    (void)state;
    const fac_allocator incomplete = {"incomplete", NULL, NULL, NULL};
    assert_int_equal(fac_allocator_set(FAC_META, fac_allocator_immediate()), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "no allocator");
    assert_int_equal(fac_allocator_set(FAC_CPU, &incomplete), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "needs a name");
    assert_int_equal(fac_allocator_set(FAC_CPU, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "needs a name");
    assert_null(fac_allocator_get((fac_device_type)99));
    assert_null(fac_allocator_get(FAC_PRIVATE3));
}

FAC_TEST_MAIN(FAC_TEST(S057_immediate_allocator_gives_aligned_blocks_of_every_size),
              FAC_TEST(E33_pooled_allocator_gives_aligned_blocks_of_every_size),
              FAC_TEST(S057_allocator_failure_is_an_error_with_the_size),
              FAC_TEST(pooled_allocator_reuses_small_blocks),
              FAC_TEST(pooled_allocator_reuses_large_blocks_that_fit_well),
              FAC_TEST(pooled_allocator_forgets_the_sizes_of_long_ago),
              FAC_TEST(pooled_allocator_keeps_what_a_step_comes_back_to), FAC_TEST(pooled_allocator_counts_bytes),
              FAC_TEST(pooled_allocator_trim_gives_everything_idle_back),
              FAC_TEST(pooled_allocator_gives_idle_blocks_back_before_it_fails),
              FAC_TEST(pooled_allocator_is_safe_between_threads),
              FAC_TEST(pooled_allocator_takes_blocks_back_from_another_thread),
              FAC_TEST(S056_allocator_of_a_device_can_be_replaced), FAC_TEST(S056_allocator_registry_refuses_nonsense))
