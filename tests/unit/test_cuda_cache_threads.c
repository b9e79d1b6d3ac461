/* Many threads on the caching allocators of two devices at once, for ThreadSanitizer and for the count of what is left. */
#include "backend/cuda/runtime/alloc.h"
#include "core/thread.h"
#include "support/cache_source.h"
#include "support/support.h"
#include <stdlib.h>

enum { THREADS = 6, HELD = 32 };
static const int64_t MIB = 1 << 20;

typedef struct worker {
    fac_caching_allocator *a[2];
    fake_source *f;
    unsigned seed;
    int64_t rounds, failures;
} worker;

static int64_t rounds(void) {
    const char *text = getenv("FACULA_STRESS_ROUNDS");
    return text ? strtoll(text, NULL, 10) : 4000;
}

/* The owner's name in a block's first bytes would need memory; that no two hold one address is enough. */
static _Atomic(void *) owners[1 << 16];
static size_t slot(const void *p) { return ((uintptr_t)p >> 9) * 0x9E3779B97F4A7C15u >> 48; }

static void claim(void *p) {
    void *none = NULL;
    size_t i = slot(p);
    if (!atomic_compare_exchange_strong(&owners[i], &none, p))
        assert_ptr_not_equal(none, p); /* a collision, or twice */
}
static void disclaim(void *p) {
    void *own = p;
    atomic_compare_exchange_strong(&owners[slot(p)], &own, NULL);
}

static void *work(void *context) {
    worker *w = context;
    struct {
        void *p;
        int device;
    } held[HELD] = {{0}};
    for (int64_t i = 0; i < w->rounds; i++) {
        const int k = rand_r(&w->seed) % HELD, d = rand_r(&w->seed) % 2, kind = rand_r(&w->seed) % 1000;
        if (held[k].p) {
            if (kind % 3 == 0 && fac_caching_allocator_record_stream(w->a[held[k].device], held[k].p, kind % 8)) break;
            disclaim(held[k].p);
            fac__cache_free(w->a[held[k].device], held[k].p);
            held[k].p = NULL;
        } else {
            const int64_t bytes = kind < 900 ? 1 + rand_r(&w->seed) % MIB : (1 + rand_r(&w->seed) % 30) * MIB;
            held[k].device = d;
            held[k].p = fac__cache_alloc(w->a[d], bytes, kind % 8);
            if (held[k].p)
                claim(held[k].p);
            else
                w->failures++;
            fac_error_clear();
        }
        if (kind == 1 && fac_caching_allocator_empty_cache(w->a[d])) break;
        if (kind == 2) (void)fac_caching_allocator_stats(w->a[d]);
        fake_complete(&w->f[d], kind % 8);
    }
    for (int k = 0; k < HELD; k++) {
        if (!held[k].p) continue;
        disclaim(held[k].p);
        fac__cache_free(w->a[held[k].device], held[k].p);
    }
    fac__thread_end();
    return NULL;
}

static void stress(const char *settings, int64_t capacity) {
    static fake_source f[2];
    worker w[THREADS];
    pthread_t threads[THREADS];
    fac_caching_allocator *a[2];
    for (int d = 0; d < 2; d++) {
        fake_source_begin(&f[d], capacity);
        f[d].next += (int64_t)d << 44; /* addresses of their own */
        assert_non_null(a[d] = fac_caching_allocator_new(&f[d].source, d, settings));
        assert_ok(fac__cache_record_history(a[d], d ? FAC_HISTORY_ALL : FAC_HISTORY_OFF, 100));
    }
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.a = {a[0], a[1]}, .f = f, .seed = (unsigned)i + 1, .rounds = rounds()};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
    }
    int64_t failures = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failures += w[i].failures;
    }
    assert_true(capacity < 2048 * MIB || failures == 0);
    for (int d = 0; d < 2; d++) {
        assert_ok(fac_caching_allocator_empty_cache(a[d]));
        const fac_cuda_memory_stats s = fac_caching_allocator_stats(a[d]);
        assert_int_equal(s.allocation.all.current, 0);
        assert_int_equal(s.allocated_bytes.all.current, 0);
        assert_int_equal(s.active_bytes.all.current, 0);
        assert_int_equal(s.requested_bytes.all.current, 0);
        assert_int_equal(s.reserved_bytes.all.current, 0);
        assert_int_equal(s.inactive_split_bytes.all.current, 0);
        assert_int_equal(f[d].used, 0);
        fac_caching_allocator_free(a[d]);
        fake_source_end(&f[d]);
    }
}

static void X09_threads_share_a_cache_whose_lock_is_dropped_for_the_driver(void **state) {
    (void)state;
    stress(NULL, 64 * 1024 * MIB);
    stress("release_lock_on_cudamalloc:False", 64 * 1024 * MIB);
}
static void S221_threads_share_a_cache_that_is_short_of_memory(void **state) {
    (void)state;
    stress(NULL, 200 * MIB);
    stress("max_split_size_mb:20,garbage_collection_threshold:0.5,per_process_memory_fraction:0.8", 300 * MIB);
}
static void S216_threads_share_expandable_segments(void **state) {
    (void)state;
    stress("expandable_segments:True", 64 * 1024 * MIB);
    stress("expandable_segments:True", 200 * MIB);
}

FAC_TEST_MAIN(FAC_TEST(X09_threads_share_a_cache_whose_lock_is_dropped_for_the_driver),
              FAC_TEST(S221_threads_share_a_cache_that_is_short_of_memory),
              FAC_TEST(S216_threads_share_expandable_segments))
