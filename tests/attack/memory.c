/* A bound on what a call may take of the machine, and storages without a gap after their last element. */
#include "attack.h"

#include "core/tensor.h"

#include <malloc.h>
#include <stdlib.h>

enum { MOST_AT_ONCE = 64 << 20, MOST_IN_ALL = 512 << 20, MOST_IN_A_STORAGE = 8 << 20 };

static fac_memory_hook below;
static _Atomic(int64_t) taken;

static void *bounded_alloc(void *ctx, size_t bytes, size_t align) {
    if (bytes > MOST_AT_ONCE || atomic_load(&taken) + (int64_t)bytes > MOST_IN_ALL) return NULL;
    void *p = below.alloc(ctx, bytes, align);
    if (p) atomic_fetch_add(&taken, (int64_t)malloc_usable_size(p));
    return p;
}

static void bounded_free(void *ctx, void *p) {
    if (p) atomic_fetch_sub(&taken, (int64_t)malloc_usable_size(p));
    below.free(ctx, p);
}

void attack_bound_memory(void) {
    below = fac__memory_hook;
    fac__memory_hook = (fac_memory_hook){bounded_alloc, bounded_free, below.ctx};
}

static void *storage_alloc(const fac_allocator *a, int64_t bytes) {
    (void)a;
    void *p = NULL;
    if (bytes > MOST_IN_A_STORAGE || atomic_load(&taken) > MOST_IN_ALL) return NULL;
    return posix_memalign(&p, 64, (size_t)bytes) == 0 ? p : NULL;
}

static void storage_free(const fac_allocator *a, void *p, int64_t bytes) {
    (void)a, (void)bytes;
    free(p);
}

void attack_exact_storages(void) {
    static const fac_allocator exact = {"exact", storage_alloc, storage_free, NULL};
    (void)!fac_allocator_set(FAC_CPU, &exact);
}
