/* Every host allocation of the library goes through one hook, so that tests can count blocks and fail the n-th. */
#include "base/base.h"
#include <stdlib.h>

static void *system_alloc(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    void *p = NULL;
    if (align <= _Alignof(max_align_t)) return malloc(bytes);
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static void system_free(void *ctx, void *p) {
    (void)ctx;
    free(p);
}

fac_memory_hook fac__memory_hook = {system_alloc, system_free, NULL};

void *fac__alloc_aligned(size_t bytes, size_t align) {
    size_t least = _Alignof(max_align_t);
    void *p = fac__memory_hook.alloc(fac__memory_hook.ctx, bytes ? bytes : 1, align > least ? align : least);
    if (FAC_UNLIKELY(!p)) FAC_FAIL(FAC_ERR_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
    return p;
}

void *fac__alloc(size_t bytes) { return fac__alloc_aligned(bytes, _Alignof(max_align_t)); }

void *fac__alloc_zero(size_t bytes) {
    void *p = fac__alloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *fac__alloc_array(size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        FAC_FAIL(FAC_ERR_OVERFLOW, "an array of %zu elements of %zu bytes does not fit the address space", n, size);
        return NULL;
    }
    return fac__alloc(bytes);
}

void *fac__realloc(void *p, size_t old, size_t bytes) {
    void *fresh = fac__alloc(bytes);
    if (!fresh) return NULL;
    if (p) memcpy(fresh, p, old < bytes ? old : bytes);
    fac__free(p);
    return fresh;
}

void fac__free(void *p) {
    if (p) fac__memory_hook.free(fac__memory_hook.ctx, p);
}

fac_status fac__vec_grow(void **v, size_t n, size_t *cap, size_t elem) {
    if (FAC_LIKELY(n < *cap)) return FAC_OK;
    size_t wanted = *cap < 8 ? 8 : *cap + *cap / 2, bytes;
    if (wanted < *cap || __builtin_mul_overflow(wanted, elem, &bytes))
        return FAC_FAIL(FAC_ERR_OVERFLOW, "a list of %zu elements of %zu bytes does not fit the address space", n,
                        elem);
    void *fresh = fac__realloc(*v, n * elem, bytes);
    if (!fresh) return FAC_ERR_MEMORY;
    *v = fresh;
    *cap = wanted;
    return FAC_OK;
}
