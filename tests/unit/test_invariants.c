/* Invariants of debug builds find what is broken: structures are spoilt one field at a time and looked at, or used. */
#include "backend/cuda/runtime/alloc.h"
#include "cache_test.h"
#include "core/allocator.h"
#include "core/valid.h"
#include "dispatch/registry.h"
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

/* `look` finds the structure whole, and broken once the field has the value. */
#define ASSERT_SPOILT(look, field, value)       \
    do {                                        \
        const __typeof__(field) was_ = (field); \
        assert_true(look());                    \
        assert_no_error();                      \
        (field) = (__typeof__(field))(value);   \
        assert_found(look);                     \
        (field) = was_;                         \
    } while (0)

/* ---- tensors ---------------------------------------------------------------------------------------------------------------- */

static fac_tensor *spoilt;
static bool look_at_tensor(void) { return fac__tensor_is_valid(spoilt); }

static void a_spoilt_tensor_is_found(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = spoilt = fac__header(fac_transpose(fac_zeros(FAC_SHAPE(3, 4)), 0, 1));
    ASSERT_SPOILT(look_at_tensor, t->numel, 11);
    ASSERT_SPOILT(look_at_tensor, t->offset, 1);
    ASSERT_SPOILT(look_at_tensor, t->offset, -1);
    ASSERT_SPOILT(look_at_tensor, t->sizes[0], 5);
    ASSERT_SPOILT(look_at_tensor, t->strides[1], -4);
    ASSERT_SPOILT(look_at_tensor, t->strides[0], INT64_MAX);
    ASSERT_SPOILT(look_at_tensor, t->flags, t->flags | FAC_TF_CONTIGUOUS);
    ASSERT_SPOILT(look_at_tensor, t->flags, t->flags & ~FAC_TF_DENSE);
    ASSERT_SPOILT(look_at_tensor, t->flags, t->flags | FAC_TF_INFERENCE);
    ASSERT_SPOILT(look_at_tensor, t->flags, t->flags | FAC_TF_NEG);
    ASSERT_SPOILT(look_at_tensor, t->dtype, FAC_DTYPE_COUNT);
    ASSERT_SPOILT(look_at_tensor, t->dtype, FAC_F64);
    ASSERT_SPOILT(look_at_tensor, t->keys, 0);
    ASSERT_SPOILT(look_at_tensor, t->device, fac_device_make(FAC_META, -1));
    ASSERT_SPOILT(look_at_tensor, t->storage->bytes, 44);
}

/* ---- the caching allocator --------------------------------------------------------------------------------------------------- */

static bool look_at_cache(void) { return fac__cache_is_valid(a); }

static void a_spoilt_block_is_found(void **state) {
    (void)state;
    begin(GIB, NULL);
    char *p = get(512 * KIB), *q = get(512 * KIB), *r = get(512 * KIB);
    give(q);
    fac_block *b = fac__in_use_find(a, p);
    ASSERT_SPOILT(look_at_cache, b->size, b->size + 512);
    ASSERT_SPOILT(look_at_cache, b->p, b->p + 512);
    ASSERT_SPOILT(look_at_cache, b->status, FAC_FREE);
    ASSERT_SPOILT(look_at_cache, b->next->status, FAC_IN_USE);
    ASSERT_SPOILT(look_at_cache, b->next->prev, NULL);
    ASSERT_SPOILT(look_at_cache, b->next->size, b->next->size - 512);
    ASSERT_SPOILT(look_at_cache, b->pool->free.root, NULL);
    ASSERT_SPOILT(look_at_cache, b->segment->mapped, 0);
    ASSERT_SPOILT(look_at_cache, a->in_use.n, 3);
    ASSERT_SPOILT(look_at_cache, a->stats.allocated_bytes.all.current, 0);
    ASSERT_SPOILT(look_at_cache, a->stats.reserved_bytes.all.current, 0);
    give(p), give(r);
    end();
}

/* ---- operations that look by themselves, in debug builds alone ----------------------------------------------------------------- */

/* Other builds do not look, so what is spoilt may do anything there. */
#ifdef FAC_DEBUG
static void assert_ends_a_debug_build(int (*operation)(void)) { assert_int_equal(in_child(operation), 100 + SIGABRT); }

static int give_spoilt_to_scope(void) {
    spoilt->numel++;
    return fac__adopt(fac__thread(), fac__ref(spoilt)) == NULL;
}

static void a_spoilt_tensor_is_not_given_to_a_scope(void **state) {
    (void)state;
    FAC_SCOPE(s);
    spoilt = fac__header(fac_zeros(FAC_SHAPE(3)));
    assert_ends_a_debug_build(give_spoilt_to_scope);
}

static int free_small_block_twice(void) {
    const fac_allocator *pool = fac_allocator_pooled();
    void *p = pool->alloc(pool, 64);
    pool->free(pool, p, 64);
    pool->free(pool, p, 64);
    fac_memory_trim();
    return 0;
}
static int free_small_block_as_another_size(void) {
    const fac_allocator *pool = fac_allocator_pooled();
    char *p = pool->alloc(pool, 64), *q = pool->alloc(pool, 64);
    pool->free(pool, p, 192);
    pool->free(pool, q, 192);
    fac_memory_trim();
    return 0;
}
static int write_before_freed_large_block(void) {
    const fac_allocator *pool = fac_allocator_pooled();
    char *p = pool->alloc(pool, 64 * KIB), *q = pool->alloc(pool, 64 * KIB);
    pool->free(pool, p, 64 * KIB);
    memset(p - FAC_DATA_ALIGN, 1, 1);
    pool->free(pool, q, 64 * KIB);
    return 0;
}

static void blocks_that_are_given_back_wrongly_are_found(void **state) {
    (void)state;
    if (!FAC_FREELISTS) skip(); /* each block is the system's own */
    assert_ends_a_debug_build(free_small_block_twice);
    assert_ends_a_debug_build(free_small_block_as_another_size);
    assert_ends_a_debug_build(write_before_freed_large_block);
}

static fac_status kernel(const fac_call_info *c, fac_value *stack) {
    (void)c, (void)stack;
    return FAC_OK;
}

/* Of a new operator, for the CPU. */
static fac_registration *register_kernel(void) {
    return fac_register_operator("t::spoilt(Tensor x) -> Tensor", FAC_HERE)
               ? fac_register_boxed("t::spoilt", "CPU", kernel, NULL, FAC_HERE)
               : NULL;
}
/* For another key: the operator's table is made again. */
static int register_another(void) { return !fac_register_boxed("t::spoilt", "CUDA", kernel, NULL, FAC_HERE); }

static int register_two_kernels(void) { return !register_kernel() || register_another(); }
static int register_above_kernel_without_function(void) {
    register_kernel()->records->kernel.boxed = NULL;
    return register_another();
}
static int register_above_false_fallthrough(void) {
    register_kernel()->records->kernel.fallthrough = true;
    return register_another();
}
static int register_above_misplaced_kernel(void) {
    register_kernel()->place++;
    return register_another();
}
static int register_above_kernel_of_another(void) {
    register_kernel()->op = NULL;
    return register_another();
}

static void a_spoilt_kernel_is_found_by_the_next_registration(void **state) {
    (void)state;
    assert_int_equal(in_child(register_two_kernels), 0);
    assert_ends_a_debug_build(register_above_kernel_without_function);
    assert_ends_a_debug_build(register_above_false_fallthrough);
    assert_ends_a_debug_build(register_above_misplaced_kernel);
    assert_ends_a_debug_build(register_above_kernel_of_another);
}

#define OF_DEBUG_BUILDS                                                                                          \
    , FAC_TEST(a_spoilt_tensor_is_not_given_to_a_scope), FAC_TEST(blocks_that_are_given_back_wrongly_are_found), \
        FAC_TEST(a_spoilt_kernel_is_found_by_the_next_registration)
#else
#define OF_DEBUG_BUILDS
#endif

FAC_TEST_MAIN(FAC_TEST(a_spoilt_tensor_is_found), FAC_TEST(a_spoilt_block_is_found) OF_DEBUG_BUILDS)
