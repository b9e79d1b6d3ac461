/* An allocator that counts: the functions behind counted.h. */
#include "support/counted.h"

static counted_allocator *whole(const fac_allocator *face) { return (counted_allocator *)(uintptr_t)face; }

static void *take(const fac_allocator *self, int64_t bytes) {
    const fac_allocator *below = fac_allocator_immediate();
    counted_allocator *a = whole(self);
    void *p = below->alloc(below, bytes);
    if (!p) return NULL;
    a->allocs++;
    a->live += bytes;
    return p;
}

static void give_back(const fac_allocator *self, void *p, int64_t bytes) {
    const fac_allocator *below = fac_allocator_immediate();
    counted_allocator *a = whole(self);
    a->frees++;
    a->live -= bytes;
    below->free(below, p, bytes);
}

void counted_begin(counted_allocator *a) { *a = (counted_allocator){.face = {"counted", take, give_back, NULL}}; }
