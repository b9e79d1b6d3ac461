/* Pools per stream, segments, splitting and merging of blocks, and giving memory back to the source. */
#include "backend/cuda/runtime/alloc.h"

enum { POISON = 0xFF }; /* reads as NaN in every floating type, and as -1 */

/* ---- counting -------------------------------------------------------------------------------------------------------- */

void fac__stat_add_one(fac_memory_stat *s, int64_t n) {
    s->current += n;
    if (n > 0) {
        s->allocated += n;
        if (s->current > s->peak) s->peak = s->current;
    } else {
        s->freed -= n;
    }
}

void fac__stat_add(fac_memory_stat_by_pool *s, bool small, int64_t n) {
    fac__stat_add_one(&s->all, n);
    fac__stat_add_one(small ? &s->small_pool : &s->large_pool, n);
}

/* sign: 1 when the free block b comes into the tree, -1 when it leaves. */
static void count_inactive_split(fac_caching_allocator *a, const fac_block *b, int sign) {
    if ((!b->prev && !b->next) || b->segment->expandable) return;
    fac__stat_add(&a->stats.inactive_split, b->pool->small, sign);
    fac__stat_add(&a->stats.inactive_split_bytes, b->pool->small, sign * b->size);
}

/* ---- pools --------------------------------------------------------------------------------------------------------------- */

fac_status fac__pool_get(fac_arena *arena, int64_t stream, bool small, fac_stream_pool **out) {
    for (size_t i = 0; i < arena->pools.n; i++) {
        *out = arena->pools.v[i];
        if ((*out)->stream == stream && (*out)->small == small) return FAC_OK;
    }
    FAC_TRY(FAC_VEC_GROW(&arena->pools));
    if (!(*out = fac__alloc_zero(sizeof **out))) return FAC_ERR_MEMORY;
    **out = (fac_stream_pool){.stream = stream, .arena = arena, .small = small};
    arena->pools.v[arena->pools.n++] = *out;
    return FAC_OK;
}

void fac__arena_free_pools(fac_arena *arena) {
    for (size_t i = 0; i < arena->pools.n; i++) fac__free(arena->pools.v[i]);
    fac__free(arena->pools.v);
}

/* ---- sanitizers and poison --------------------------------------------------------------------------------------------------- */

/* Graphs replay without the allocator, so what belongs to them is always usable. */
static bool is_guarded(const fac_caching_allocator *a, const fac_stream_pool *pool) {
    return pool->arena == &a->common;
}

void fac__guard_all(fac_caching_allocator *a, const fac_stream_pool *pool, void *p, int64_t bytes, bool usable) {
    if (a->source.guard && is_guarded(a, pool)) a->source.guard(&a->source, a->device, p, bytes, usable, pool->stream);
}

void fac__block_open(fac_caching_allocator *a, fac_block *b) { fac__guard_all(a, b->pool, b->p, b->requested, true); }

void fac__block_close(fac_caching_allocator *a, fac_block *b) {
    if (FAC_UNLIKELY(a->poison) && a->source.fill && is_guarded(a, b->pool)) {
        fac__guard_all(a, b->pool, b->p, b->size, true);
        (void)a->source.fill(&a->source, a->device, b->p, POISON, b->size, b->pool->stream);
    }
    fac__guard_all(a, b->pool, b->p, b->size, false);
}

/* ---- splitting and merging ------------------------------------------------------------------------------------------------------ */

fac_block *fac__block_split(fac_caching_allocator *a, fac_block *b, int64_t size) {
    fac_block *rest = fac__header_take(a);
    rest->p = b->p + size;
    rest->size = b->size - size;
    rest->pool = b->pool;
    rest->segment = b->segment;
    rest->status = b->status;
    rest->searches = b->searches;
    rest->prev = b;
    rest->next = b->next;
    if (b->next) b->next->prev = rest;
    b->next = rest;
    b->size = size;
    return rest;
}

void fac__block_join(fac_caching_allocator *a, fac_block *b) {
    fac_block *n = b->next;
    b->size += n->size;
    b->next = n->next;
    if (n->next) n->next->prev = b;
    fac__header_give(a, n);
}

void fac__block_take(fac_caching_allocator *a, fac_block *b) {
    fac__tree_remove(&b->pool->free, b);
    count_inactive_split(a, b, -1);
    b->status = FAC_IN_USE;
}

fac_block *fac__block_put(fac_caching_allocator *a, fac_block *b) {
    if (b->next && b->next->status == FAC_FREE) {
        fac__block_take(a, b->next);
        fac__block_join(a, b);
    }
    if (b->prev && b->prev->status == FAC_FREE) {
        b = b->prev;
        fac__block_take(a, b);
        fac__block_join(a, b);
    }
    b->status = FAC_FREE;
    b->requested = 0;
    b->searches = b->pool->searches;
    fac__tree_add(&b->pool->free, b);
    count_inactive_split(a, b, 1);
    return b;
}

bool fac__pool_find(fac_caching_allocator *a, fac_request *r, fac_stream_pool *pool) {
    const fac_alloc_config *c = &a->config;
    if (c->gc_threshold > 0) pool->searches++;
    fac_block *b = fac__tree_at_least(&pool->free, r->size);
    if (!b) return false;
    /* Oversize blocks are kept whole for oversize requests, and do not serve much smaller ones of these. */
    if (r->size < c->max_split && b->size >= c->max_split) return false;
    if (r->size >= c->max_split && b->size - r->size >= c->max_non_split_rounding) return false;
    fac__block_take(a, b);
    r->found = b;
    return true;
}

/* ---- segments ---------------------------------------------------------------------------------------------------------------------- */

bool fac__within_limit(const fac_caching_allocator *a, int64_t bytes) {
    int64_t held = a->stats.reserved_bytes.all.current + a->promised;
    return bytes <= a->limit - held;
}

/* Whether a request may go to the source; with throw_on_cudamalloc_oom, not if the device is known to lack the memory. */
static bool may_ask(fac_caching_allocator *a, fac_request *r, int64_t bytes) {
    int64_t free = INT64_MAX, total;
    bool fits = fac__within_limit(a, bytes);
    if (fits && a->config.reject_early && a->source.info &&
        a->source.info(&a->source, a->device, &free, &total) == FAC_OK)
        fits = bytes <= free;
    if (!fits) {
        r->refused = bytes;
        r->rejected = a->config.reject_early;
    }
    return fits;
}

/* Asks the source without the lock, if so configured. */
static fac_status ask_source(fac_caching_allocator *a, int64_t bytes, int64_t stream, void **out) {
    const bool drop = a->config.release_lock;
    *out = NULL;
    a->promised += bytes;
    if (drop) fac__cache_drop_lock(a);
    fac_status st = a->source.alloc(&a->source, a->device, bytes, stream, out);
    if (drop) fac__mutex_lock(&a->lock);
    a->promised -= bytes;
    return st;
}

static void link_segment(fac_caching_allocator *a, fac_segment *s) {
    s->next = a->segments;
    if (a->segments) a->segments->prev = s;
    a->segments = s;
    s->pool->arena->held++;
}

static void unlink_segment(fac_caching_allocator *a, fac_segment *s) {
    if (s->prev)
        s->prev->next = s->next;
    else
        a->segments = s->next;
    if (s->next) s->next->prev = s->prev;
    s->pool->arena->held--;
}

fac_segment *fac__segment_adopt(fac_caching_allocator *a, fac_segment *s, fac_block *b, const fac_request *r, char *p,
                                int64_t size, bool expandable) {
    *s = (fac_segment){.pool = r->pool,
                       .p = p,
                       .size = size,
                       .mapped = expandable ? 0 : size,
                       .expandable = expandable,
                       .first = b,
                       .stack = fac__stack_ref(r->stack)};
    b->p = p;
    b->size = size;
    b->pool = r->pool;
    b->segment = s;
    b->status = FAC_IN_USE;
    link_segment(a, s);
    return s;
}

void fac__segment_drop(fac_caching_allocator *a, fac_segment *s) {
    unlink_segment(a, s);
    fac__stack_unref(s->stack);
    fac__free(s);
}

fac_status fac__segment_new(fac_caching_allocator *a, fac_request *r) {
    void *p;
    const int64_t bytes = r->segment;
    if (!may_ask(a, r, bytes)) return FAC_OK;
    FAC_TRY(fac__headers_reserve(a, 1));
    fac_segment *s = fac__alloc(sizeof *s);
    if (!s) return FAC_ERR_MEMORY;
    fac_block *b = fac__header_take(a);
    fac_status st = ask_source(a, bytes, r->pool->stream, &p);
    if (st != FAC_OK || !p) {
        if (st == FAC_OK) r->refused = bytes;
        fac__header_give(a, b);
        fac__free(s);
        return st;
    }
    fac__segment_adopt(a, s, b, r, p, bytes, false);
    s->oversize = bytes >= a->config.max_split;
    fac__stat_add(&a->stats.segment, r->pool->small, 1);
    fac__stat_add(&a->stats.reserved_bytes, r->pool->small, bytes);
    if (s->oversize) fac__stat_add_one(&a->stats.oversize_segments, 1);
    a->stats.num_device_alloc++;
    fac__trace(a, FAC_MEMORY_SEGMENT_ALLOC, p, bytes, r->pool->stream, r->stack);
    fac__guard_all(a, r->pool, p, bytes, false);
    r->found = b;
    return FAC_OK;
}

void fac__segment_release(fac_caching_allocator *a, fac_block *b) {
    fac_segment *s = b->segment;
    const bool small = s->pool->small;
    fac__stat_add(&a->stats.segment, small, -1);
    fac__stat_add(&a->stats.reserved_bytes, small, -s->size);
    if (s->oversize) fac__stat_add_one(&a->stats.oversize_segments, -1);
    a->stats.num_device_free++;
    fac__trace(a, FAC_MEMORY_SEGMENT_FREE, s->p, s->size, s->pool->stream, s->stack);
    fac__guard_all(a, s->pool, s->p, s->size, true);
    a->source.free(&a->source, a->device, s->p, s->size, s->pool->stream);
    fac__header_give(a, b);
    fac__segment_drop(a, s);
}

/* ---- giving back ------------------------------------------------------------------------------------------------------------------------ */

static bool is_whole_segment(const fac_block *b) { return !b->prev && !b->next && !b->segment->expandable; }

static int64_t release_block(fac_caching_allocator *a, fac_block *b) {
    int64_t size = b->size;
    fac__block_take(a, b);
    fac__segment_release(a, b);
    return size;
}

bool fac__release_oversize(fac_caching_allocator *a, const fac_request *r) {
    const int64_t max_split = a->config.max_split, wanted = fac__max(r->size, max_split);
    fac_block_tree *t = &r->pool->free;
    if (max_split == INT64_MAX) return false;
    for (fac_block *b = fac__tree_at_least(t, wanted); b; b = fac__tree_after(t, b))
        if (is_whole_segment(b)) return release_block(a, b) > 0;
    int64_t released = 0; /* none is large enough: several together, the largest first */
    for (fac_block *b = fac__tree_last(t), *before; b && released < wanted && b->size >= max_split; b = before) {
        before = fac__tree_before(t, b);
        if (is_whole_segment(b)) released += release_block(a, b);
    }
    return released >= wanted;
}

static int64_t age(const fac_block *b) { return b->pool->searches - b->searches; }

/* The ages and the number of large blocks that could be given back. */
static int64_t count_collectable(const fac_arena *arena, int64_t *out_age) {
    int64_t n = 0;
    *out_age = 0;
    for (size_t i = 0; i < arena->pools.n; i++) {
        const fac_stream_pool *p = arena->pools.v[i];
        for (fac_block *b = p->small ? NULL : fac__tree_at_least(&p->free, 0); b; b = fac__tree_after(&p->free, b)) {
            if (!is_whole_segment(b)) continue;
            *out_age += age(b);
            n++;
        }
    }
    return n;
}

static int64_t release_older(fac_caching_allocator *a, int64_t min_age, int64_t wanted) {
    int64_t released = 0;
    for (size_t i = 0; i < a->common.pools.n; i++) {
        fac_stream_pool *p = a->common.pools.v[i];
        for (fac_block *b = p->small ? NULL : fac__tree_at_least(&p->free, 0), *after; b && released < wanted;
             b = after) {
            after = fac__tree_after(&p->free, b);
            if (is_whole_segment(b) && age(b) >= min_age) released += release_block(a, b);
        }
    }
    return released;
}

/* Blocks at least as old as the mean go first, until enough is given back; those in steady use are young. */
void fac__collect_garbage(fac_caching_allocator *a) {
    if (a->config.gc_threshold <= 0 || a->limit == INT64_MAX) return;
    int64_t threshold = (int64_t)(a->config.gc_threshold * (double)a->limit), ages;
    int64_t wanted = a->stats.reserved_bytes.all.current - threshold;
    for (int64_t n; wanted > 0 && (n = count_collectable(&a->common, &ages)) > 0;) {
        int64_t released = release_older(a, fac__max(ages / n, 1), wanted);
        if (released == 0) return;
        wanted -= released;
    }
}

static void release_pool(fac_caching_allocator *a, fac_stream_pool *p) {
    for (fac_block *b = fac__tree_at_least(&p->free, 0), *after; b; b = after) {
        after = fac__tree_after(&p->free, b);
        if (is_whole_segment(b)) {
            release_block(a, b);
        } else if (b->segment->expandable) {
            fac__block_take(a, b);
            fac__shrink(a, b);
        }
    }
}

void fac__release_all(fac_caching_allocator *a) {
    for (size_t i = 0; i < a->common.pools.n; i++) release_pool(a, a->common.pools.v[i]);
    for (fac_arena *arena = a->arenas; arena; arena = arena->next)
        for (size_t i = 0; arena->users == 0 && i < arena->pools.n; i++) release_pool(a, arena->pools.v[i]);
    if (a->source.trim) a->source.trim(&a->source, a->device);
    fac__arenas_tidy(a);
}
