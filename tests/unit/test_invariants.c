/* Invariants of debug builds find what is broken: structures are spoilt one field at a time and looked at. */
#include "backend/cuda/runtime/alloc.h"
#include "cache_test.h"
#include "core/valid.h"
#include "support/child.h"
#include <facula/ops.h>
#include <signal.h>

/* ---- in a child: a debug build ends there, another fails with the condition's name ---------------------------------------- */

static bool (*look_at)(void);

static int look_in_child(void) {
    (void)look_at();
    return fac_error() == FAC_ERR_INTERNAL ? 100 + SIGABRT : 0;
}
static void assert_found(bool (*look)(void)) {
    look_at = look;
    assert_int_equal(in_child(look_in_child), 100 + SIGABRT);
}

/* ---- tensors ---------------------------------------------------------------------------------------------------------------- */

static fac_tensor *spoilt;
static bool look_at_tensor(void) { return fac__tensor_is_valid(spoilt); }

#define ASSERT_SPOILT(field, value)             \
    do {                                        \
        const __typeof__(field) was_ = (field); \
        assert_true(look_at_tensor());          \
        assert_no_error();                      \
        (field) = (__typeof__(field))(value);   \
        assert_found(look_at_tensor);           \
        (field) = was_;                         \
    } while (0)

static void a_spoilt_tensor_is_found(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = spoilt = fac__header(fac_transpose(fac_zeros(FAC_SHAPE(3, 4)), 0, 1));
    ASSERT_SPOILT(t->numel, 11);
    ASSERT_SPOILT(t->offset, 1);
    ASSERT_SPOILT(t->offset, -1);
    ASSERT_SPOILT(t->sizes[0], 5);
    ASSERT_SPOILT(t->strides[1], -4);
    ASSERT_SPOILT(t->strides[0], INT64_MAX);
    ASSERT_SPOILT(t->flags, t->flags | FAC_TF_CONTIGUOUS);
    ASSERT_SPOILT(t->flags, t->flags & ~FAC_TF_DENSE);
    ASSERT_SPOILT(t->flags, t->flags | FAC_TF_INFERENCE);
    ASSERT_SPOILT(t->dtype, FAC_DTYPE_COUNT);
    ASSERT_SPOILT(t->dtype, FAC_F64);
    ASSERT_SPOILT(t->keys, 0);
    ASSERT_SPOILT(t->device, fac_device_make(FAC_META, -1));
    ASSERT_SPOILT(t->storage->bytes, 44);
}

/* ---- the caching allocator --------------------------------------------------------------------------------------------------- */

static bool look_at_cache(void) { return fac__cache_is_valid(a); }

#define ASSERT_CACHE_SPOILT(field, value)       \
    do {                                        \
        const __typeof__(field) was_ = (field); \
        assert_true(look_at_cache());           \
        assert_no_error();                      \
        (field) = (value);                      \
        assert_found(look_at_cache);            \
        (field) = was_;                         \
    } while (0)

static void a_spoilt_block_is_found(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(512 * KIB), *q = get(512 * KIB), *r = get(512 * KIB);
    give(q);
    fac_block *b = fac__in_use_find(a, p);
    ASSERT_CACHE_SPOILT(b->size, b->size + 512);
    ASSERT_CACHE_SPOILT(b->p, b->p + 512);
    ASSERT_CACHE_SPOILT(b->status, FAC_FREE);
    ASSERT_CACHE_SPOILT(b->next->status, FAC_IN_USE);
    ASSERT_CACHE_SPOILT(b->next->prev, NULL);
    ASSERT_CACHE_SPOILT(b->next->size, b->next->size - 512);
    ASSERT_CACHE_SPOILT(b->pool->free.root, NULL);
    ASSERT_CACHE_SPOILT(b->segment->mapped, 0);
    ASSERT_CACHE_SPOILT(a->in_use.n, 3);
    ASSERT_CACHE_SPOILT(a->stats.allocated_bytes.all.current, 0);
    ASSERT_CACHE_SPOILT(a->stats.reserved_bytes.all.current, 0);
    give(p), give(r);
    end();
}

FAC_TEST_MAIN(FAC_TEST(a_spoilt_tensor_is_found), FAC_TEST(a_spoilt_block_is_found))
