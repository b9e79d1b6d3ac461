/* Expandable segments: an address range per stream and size class, larger than the device, in which memory is mapped unit by
   unit from the front. What a segment of fixed size would strand at its end is here simply the beginning of the next block,
   so requests that grow from step to step leave no slivers behind.

   Blocks tile the whole range; those without memory are UNMAPPED and lie in a tree of their own. Borders between mapped and
   unmapped memory are multiples of the unit. */
#include "backend/cuda/runtime/alloc.h"

static int64_t unit_of(const fac_caching_allocator *a, const fac_stream_pool *p) {
    return p->small ? FAC_SMALL_SEGMENT : a->config.large_segment;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static bool can_join(const fac_block *b) { return b && (b->status == FAC_FREE || b->status == FAC_UNMAPPED); }

/* ---- unmapped blocks ---------------------------------------------------------------------------------------------------- */

static void take_unmapped(fac_block *b) {
    fac__tree_remove(&b->pool->unmapped, b);
    b->status = FAC_IN_USE;
}

/* A range without any memory left is given up. */
static void put_unmapped(fac_caching_allocator *a, fac_block *b) {
    if (b->next && b->next->status == FAC_UNMAPPED) {
        take_unmapped(b->next);
        fac__block_join(a, b);
    }
    if (b->prev && b->prev->status == FAC_UNMAPPED) {
        b = b->prev;
        take_unmapped(b);
        fac__block_join(a, b);
    }
    fac_segment *s = b->segment;
    if (!b->prev && !b->next) {
        a->source.unreserve(&a->source, a->device, s->p, s->size);
        fac__header_give(a, b);
        fac__segment_drop(a, s);
        return;
    }
    b->status = FAC_UNMAPPED;
    fac__tree_add(&b->pool->unmapped, b);
}

/* A new range of 9/8 of the device's memory, as one block that is in no tree; as much as is asked for where that is more. */
static fac_status reserve_range(fac_caching_allocator *a, const fac_request *r, fac_block **out) {
    int64_t free, total = 0, unit = unit_of(a, r->pool);
    void *p = NULL;
    if (a->source.info) FAC_TRY(a->source.info(&a->source, a->device, &free, &total));
    const int64_t bytes = round_up(fac__max(total + total / 8, r->size), unit);
    FAC_TRY(fac__headers_reserve(a, 1));
    fac_segment *s = fac__alloc(sizeof *s);
    if (!s) return FAC_ERR_MEMORY;
    fac_status st = a->source.reserve(&a->source, a->device, bytes, &p);
    if (st != FAC_OK) {
        fac__free(s);
        return st;
    }
    *out = fac__header_take(a);
    fac__segment_adopt(a, s, *out, r, p, bytes, true);
    s->unit = unit;
    return FAC_OK;
}

/* ---- mapping ------------------------------------------------------------------------------------------------------------- */

static void unmap_units(fac_caching_allocator *a, char *p, int64_t bytes, int64_t unit) {
    for (int64_t at = 0; at < bytes; at += unit) a->source.unmap(&a->source, a->device, p + at, unit);
}

/* All of the bytes or none; false if there is not enough memory. */
static fac_status map_units(fac_caching_allocator *a, char *p, int64_t bytes, int64_t unit, bool *out_mapped) {
    fac_status st = FAC_OK;
    int64_t at = 0;
    *out_mapped = true;
    for (; at < bytes; at += unit) {
        st = a->source.map(&a->source, a->device, p + at, unit, out_mapped);
        if (st != FAC_OK || !*out_mapped) break;
    }
    if (at < bytes) unmap_units(a, p, at, unit);
    return st;
}

static fac_status map_without_lock(fac_caching_allocator *a, char *p, int64_t bytes, int64_t unit, bool *out_mapped) {
    const bool drop = a->config.release_lock;
    a->promised += bytes;
    if (drop) fac__cache_drop_lock(a);
    fac_status st = map_units(a, p, bytes, unit, out_mapped);
    if (drop) fac__mutex_lock(&a->lock);
    a->promised -= bytes;
    return st;
}

static bool may_map(fac_caching_allocator *a, fac_request *r, int64_t bytes) {
    if (fac__within_limit(a, bytes)) return true;
    r->refused = bytes;
    r->rejected = a->config.reject_early;
    return false;
}

/* Puts memory behind the first `wanted` bytes, rounded up, of b, which is unmapped and in no tree; what is left of b becomes
   an unmapped neighbour. False in *out if there is no memory: b is then unmapped as before. */
static fac_status map_block(fac_caching_allocator *a, fac_request *r, fac_block *b, int64_t wanted, bool *out) {
    const int64_t unit = b->segment->unit, bytes = fac__min(round_up(wanted, unit), b->size);
    fac_segment *s = b->segment;
    fac_status st = fac__headers_reserve(a, 1);
    *out = false;
    if (st == FAC_OK && may_map(a, r, bytes)) {
        if (bytes < b->size) {
            fac_block *rest = fac__block_split(a, b, bytes);
            rest->status = FAC_UNMAPPED;
            fac__tree_add(&rest->pool->unmapped, rest);
        }
        b->status = FAC_MAPPING;
        st = map_without_lock(a, b->p, bytes, unit, out);
        b->status = FAC_IN_USE;
        if (st == FAC_OK && !*out) r->refused = bytes;
    }
    if (!*out) {
        put_unmapped(a, b);
        return st;
    }
    if (s->mapped == 0) fac__stat_add(&a->stats.segment, b->pool->small, 1);
    s->mapped += bytes;
    fac__stat_add(&a->stats.reserved_bytes, b->pool->small, bytes);
    a->stats.num_device_alloc++;
    fac__trace(a, FAC_MEMORY_SEGMENT_MAP, b->p, bytes, b->pool->stream, r->stack);
    fac__guard_all(a, b->pool, b->p, bytes, false);
    return FAC_OK;
}

/* ---- serving --------------------------------------------------------------------------------------------------------------- */

/* The first block of a run of free and unmapped neighbours that is large enough. */
static fac_block *find_run(const fac_stream_pool *p, int64_t size) {
    for (fac_block *b = fac__tree_at_least(&p->unmapped, 0); b; b = fac__tree_after(&p->unmapped, b)) {
        fac_block *first = b->prev && b->prev->status == FAC_FREE ? b->prev : b;
        int64_t room = 0;
        for (fac_block *k = first; can_join(k); k = k->next)
            if ((room += k->size) >= size) return first;
    }
    return NULL;
}

/* Takes b out of its tree and, if it is unmapped, maps what is wanted of it. */
static fac_status claim(fac_caching_allocator *a, fac_request *r, fac_block *b, int64_t wanted, bool *out) {
    *out = true;
    if (b->status == FAC_FREE) {
        fac__block_take(a, b);
        return FAC_OK;
    }
    if (b->status == FAC_UNMAPPED) take_unmapped(b);
    return map_block(a, r, b, wanted, out);
}

fac_status fac__expand(fac_caching_allocator *a, fac_request *r) {
    bool got;
    fac_block *b = find_run(r->pool, r->size);
    if (!b) FAC_TRY(reserve_range(a, r, &b));
    FAC_TRY(claim(a, r, b, r->size, &got));
    if (!got) return FAC_OK;
    while (b->size < r->size) {
        fac_status st = FAC_OK;
        got = can_join(b->next); /* others may have taken it while the lock was dropped */
        if (got) st = claim(a, r, b->next, r->size - b->size, &got);
        if (!got) {
            fac__block_put(a, b);
            return st;
        }
        fac__block_join(a, b);
    }
    r->found = b;
    return FAC_OK;
}

int64_t fac__shrink(fac_caching_allocator *a, fac_block *b) {
    fac_segment *s = b->segment;
    fac_stream_pool *pool = b->pool;
    const int64_t unit = s->unit, offset = b->p - s->p;
    const int64_t from = round_up(offset, unit), to = (offset + b->size) / unit * unit;
    if (from >= to || fac__headers_reserve(a, 2) != FAC_OK ||
        (a->source.synchronize && a->source.synchronize(&a->source, a->device, pool->stream) != FAC_OK)) {
        fac__block_put(a, b);
        return 0;
    }
    fac_block *middle = from > offset ? fac__block_split(a, b, from - offset) : b;
    fac_block *back = to - from < middle->size ? fac__block_split(a, middle, to - from) : NULL;
    fac__guard_all(a, pool, middle->p, to - from, true);
    unmap_units(a, middle->p, to - from, unit);
    s->mapped -= to - from;
    if (s->mapped == 0) fac__stat_add(&a->stats.segment, pool->small, -1);
    fac__stat_add(&a->stats.reserved_bytes, pool->small, from - to);
    a->stats.num_device_free++;
    fac__trace(a, FAC_MEMORY_SEGMENT_UNMAP, middle->p, to - from, pool->stream, s->stack);
    if (middle != b) fac__block_put(a, b);
    if (back) fac__block_put(a, back);
    put_unmapped(a, middle);
    return to - from;
}

/* Calls fn for each unit that is mapped. */
static fac_status each_unit(fac_caching_allocator *a, const fac_segment *s,
                            fac_status (*fn)(fac_caching_allocator *a, void *p, int64_t bytes, int context),
                            int context) {
    const char *at = s->p; /* up to here all is done */
    for (const fac_block *b = s->first; b; b = b->next) {
        if (!fac__has_memory(b->status)) {
            at = b->p + b->size;
            continue;
        }
        for (; at < b->p + b->size; at += s->unit) FAC_TRY(fn(a, (void *)(uintptr_t)at, s->unit, context));
    }
    return FAC_OK;
}

static fac_status unmap_one(fac_caching_allocator *a, void *p, int64_t bytes, int unused) {
    (void)unused;
    a->source.unmap(&a->source, a->device, p, bytes);
    return FAC_OK;
}

void fac__unmap_all(fac_caching_allocator *a, const fac_segment *s) { (void)each_unit(a, s, unmap_one, 0); }

fac_status fac__cache_open(fac_caching_allocator *a, int reader,
                           fac_status (*fn)(fac_caching_allocator *a, void *p, int64_t bytes, int reader)) {
    fac_status st = FAC_OK;
    fac__cache_lock(a);
    for (const fac_segment *s = a->segments; s && st == FAC_OK; s = s->next)
        if (s->expandable) st = each_unit(a, s, fn, reader);
    fac__cache_unlock(a);
    return st;
}
