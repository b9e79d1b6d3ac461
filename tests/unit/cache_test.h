/* What the caching allocator's tests share: one allocator over a source of fake memory. */
#ifndef FAC_TESTS_CACHE_TEST_H
#define FAC_TESTS_CACHE_TEST_H

#include "backend/cuda/runtime/alloc.h"
#include "support/cache_source.h"
#include "support/support.h"
#include <stdlib.h>

static const int64_t MIB = 1 << 20, KIB = 1 << 10, GIB = 1 << 30;

static fake_source f;
static fac_caching_allocator *a;

static inline void begin(int64_t capacity, const char *settings) {
    fake_source_begin(&f, capacity);
    a = fac_caching_allocator_new(&f.source, 0, settings);
    assert_no_error();
    assert_non_null(a);
}

static inline void end(void) {
    fac_caching_allocator_free(a);
    fake_source_end(&f);
}

static inline char *get(int64_t bytes) {
    const fac_allocator *face = fac_caching_allocator_face(a);
    char *p = face->alloc(face, bytes);
    assert_no_error();
    assert_non_null(p);
    return p;
}

static inline void refuse(int64_t bytes, const char *message) {
    const fac_allocator *face = fac_caching_allocator_face(a);
    assert_null(face->alloc(face, bytes));
    assert_error(FAC_ERR_MEMORY, message);
}

static inline void give(void *p) {
    const fac_allocator *face = fac_caching_allocator_face(a);
    face->free(face, p, 0);
    assert_no_error();
}

static inline fac_cuda_memory_stats stats(void) { return fac_caching_allocator_stats(a); }

static inline void empty(void) { assert_ok(fac_caching_allocator_empty_cache(a)); }

#endif
