/* The invariants of the caching allocator, which debug builds check each time its lock is dropped. */
#include "backend/cuda/runtime/alloc.h"

typedef struct tally {
    int64_t mapped, in_use, pending; /* bytes */
    size_t n_in_use, n_free, n_unmapped;
} tally;

/* b begins `at` bytes into the segment. A block that a request has found is in use, but not yet in the table. */
static void check_block(const fac_caching_allocator *a, const fac_segment *s, const fac_block *b, int64_t at,
                        tally *sum) {
    const bool in_use = b->status == FAC_IN_USE && fac__in_use_find(a, b->p) == b;
    const bool joined = b->status != FAC_FREE && b->status != FAC_UNMAPPED;
    FAC_ASSERT(b->segment == s && b->pool == s->pool);
    FAC_ASSERT(b->p == s->p + at && b->size > 0);
    FAC_ASSERT(b->next ? b->next->prev == b : at + b->size == s->size);
    FAC_ASSERT(joined || !b->next || b->next->status != b->status);
    FAC_ASSERT(!b->uses || in_use || b->status == FAC_PENDING);
    if (fac__has_memory(b->status)) sum->mapped += b->size;
    if (in_use) sum->in_use += b->size;
    if (b->status == FAC_PENDING) sum->pending += b->size;
    sum->n_in_use += in_use;
    sum->n_free += b->status == FAC_FREE;
    sum->n_unmapped += b->status == FAC_UNMAPPED;
}

static void check_segment(const fac_caching_allocator *a, const fac_segment *s, tally *all) {
    tally sum = {0};
    int64_t at = 0;
    FAC_ASSERT(s->first && !s->first->prev);
    FAC_ASSERT(!s->next || s->next->prev == s);
    for (const fac_block *b = s->first; b; at += b->size, b = b->next) check_block(a, s, b, at, &sum);
    FAC_ASSERT(sum.mapped == s->mapped);
    all->mapped += sum.mapped;
    all->in_use += sum.in_use;
    all->pending += sum.pending;
    all->n_in_use += sum.n_in_use;
    all->n_free += sum.n_free;
    all->n_unmapped += sum.n_unmapped;
}

/* Each block of the tree once, in order; takes them off `n`. */
static void check_tree(const fac_stream_pool *p, const fac_block_tree *t, fac_block_status status, size_t *n) {
    size_t found = 0;
    for (const fac_block *b = fac__tree_at_least(t, 0); b; b = fac__tree_after(t, b), found++)
        FAC_ASSERT(b->pool == p && b->status == status);
    FAC_ASSERT(found == t->n && found <= *n);
    *n -= found;
}

static void check_arena(const fac_arena *arena, tally *left) {
    for (size_t i = 0; i < arena->pools.n; i++) {
        const fac_stream_pool *p = arena->pools.v[i];
        FAC_ASSERT(p->arena == arena);
        check_tree(p, &p->free, FAC_FREE, &left->n_free);
        check_tree(p, &p->unmapped, FAC_UNMAPPED, &left->n_unmapped);
    }
}

bool fac__cache_is_valid(const fac_caching_allocator *a) {
    tally all = {0};
    for (const fac_segment *s = a->segments; s; s = s->next) check_segment(a, s, &all);
    FAC_ASSERT(all.n_in_use == a->in_use.n);
    FAC_ASSERT(all.mapped == a->stats.reserved_bytes.all.current);
    FAC_ASSERT(all.in_use == a->stats.allocated_bytes.all.current);
    FAC_ASSERT(all.in_use + all.pending == a->stats.active_bytes.all.current);
    check_arena(&a->common, &all);
    for (const fac_arena *arena = a->arenas; arena; arena = arena->next) check_arena(arena, &all);
    FAC_ASSERT(all.n_free == 0 && all.n_unmapped == 0); /* all of them are in trees */
    return true;
}
