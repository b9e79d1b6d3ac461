/* Blocks that were used in other streams than their own: each use becomes a mark in its stream when the block is freed, and
   the block is free when all its marks are reached. Everything that a free needs is allocated when the use is noted, so that
   freeing cannot fail. */
#include "backend/cuda/runtime/alloc.h"

static fac_pending_queue *queue_of(fac_caching_allocator *a, int64_t stream) {
    for (size_t i = 0; i < a->pending.n; i++)
        if (a->pending.v[i].stream == stream) return &a->pending.v[i];
    return NULL;
}

fac_status fac__use_add(fac_caching_allocator *a, fac_block *b, int64_t stream) {
    if (stream == b->pool->stream) return FAC_OK;
    for (const fac_block_use *u = b->uses; u; u = u->next)
        if (u->stream == stream) return FAC_OK;
    if (!queue_of(a, stream)) {
        FAC_TRY(FAC_VEC_GROW(&a->pending));
        a->pending.v[a->pending.n++] = (fac_pending_queue){.stream = stream};
    }
    fac_block_use *u = fac__alloc(sizeof *u);
    if (!u) return FAC_ERR_MEMORY;
    *u = (fac_block_use){.next = b->uses, .block = b, .stream = stream};
    b->uses = u;
    return FAC_OK;
}

void fac__block_finish(fac_caching_allocator *a, fac_block *b) {
    const bool small = b->pool->small;
    fac__stat_add(&a->stats.active, small, -1);
    fac__stat_add(&a->stats.active_bytes, small, -b->size);
    fac__stat_add(&a->stats.requested_bytes, small, -b->requested);
    fac__trace(a, FAC_MEMORY_FREE_COMPLETED, b->p, b->requested, b->pool->stream, b->stack);
    fac__stack_unref(b->stack);
    b->stack = NULL;
    fac__block_close(a, b);
    if (FAC_LIKELY(a->caching))
        fac__block_put(a, b);
    else
        fac__segment_release(a, b);
}

void fac__uses_drop(fac_block *b) {
    for (fac_block_use *u = b->uses, *next; u; u = next) {
        next = u->next;
        fac__free(u);
    }
    b->uses = NULL;
}

static void append(fac_pending_queue *q, fac_block_use *u) {
    u->next = NULL;
    if (q->last)
        q->last->next = u;
    else
        q->first = u;
    q->last = u;
}

/* Puts a mark into the use's stream. Where that fails the stream is waited for instead. */
static void close_use(fac_caching_allocator *a, fac_block_use *u) {
    const fac_memory_source *s = &a->source;
    u->event = NULL;
    if (s->record(s, a->device, u->stream, &u->event) == FAC_OK) {
        append(queue_of(a, u->stream), u);
        u->block->n_pending++;
        return;
    }
    if (u->event) s->drop(s, a->device, u->event);
    (void)s->synchronize(s, a->device, u->stream);
    fac__free(u);
}

/* Notes where in the graph each use ends; without it the block waits for the end of the capture. */
static void mark_uses(fac_caching_allocator *a, fac_block *b) {
    const fac_memory_source *s = &a->source;
    if (!a->config.capture_reuse || !s->mark || !s->capture) return;
    for (fac_block_use *u = b->uses; u; u = u->next)
        if (s->capture(s, a->device, u->stream) && s->mark(s, a->device, u->stream, &u->event) != FAC_OK)
            u->event = NULL;
}

void fac__uses_close(fac_caching_allocator *a, fac_block *b) {
    fac_block_use *u = b->uses, *next;
    b->status = FAC_PENDING;
    if (a->routes.n) {
        mark_uses(a, b);
        b->left = a->deferred;
        a->deferred = b;
        return;
    }
    b->uses = NULL;
    for (; u; u = next) {
        next = u->next;
        close_use(a, u);
    }
    if (b->n_pending == 0) fac__block_finish(a, b);
}

/* The first mark of a queue is reached. */
static void pop(fac_caching_allocator *a, fac_pending_queue *q) {
    fac_block_use *u = q->first;
    q->first = u->next;
    if (!q->first) q->last = NULL;
    a->source.drop(&a->source, a->device, u->event);
    fac_block *b = u->block;
    fac__free(u);
    if (--b->n_pending == 0) fac__block_finish(a, b);
}

fac_status fac__pending_process(fac_caching_allocator *a, bool wait) {
    const fac_memory_source *s = &a->source;
    for (size_t i = 0; i < a->pending.n; i++) {
        fac_pending_queue *q = &a->pending.v[i];
        while (q->first) {
            bool done = true;
            FAC_TRY(wait ? s->wait(s, a->device, q->first->event) : s->query(s, a->device, q->first->event, &done));
            if (!done) break;
            pop(a, q);
        }
    }
    if (wait) a->stats.num_sync_all_streams++;
    return FAC_OK;
}

void fac__pending_finish(fac_caching_allocator *a) {
    if (fac__pending_process(a, true) == FAC_OK) return;
    for (size_t i = 0; i < a->pending.n; i++)
        while (a->pending.v[i].first) pop(a, &a->pending.v[i]);
}

void fac__deferred_close(fac_caching_allocator *a) {
    if (a->routes.n) return;
    for (fac_block *b; (b = a->deferred);) {
        a->deferred = b->left;
        fac__uses_close(a, b);
    }
}

static bool all_passed(fac_caching_allocator *a, const fac_block *b, int64_t stream) {
    const fac_memory_source *s = &a->source;
    for (const fac_block_use *u = b->uses; u; u = u->next)
        if (!u->event || !s->passed(s, a->device, stream, u->event)) return false;
    return true;
}

void fac__deferred_reuse(fac_caching_allocator *a, int64_t stream) {
    if (!a->config.capture_reuse || !a->source.passed) return;
    for (fac_block **link = &a->deferred, *b; (b = *link);) {
        if (b->pool->stream != stream || !all_passed(a, b, stream)) {
            link = &b->left;
            continue;
        }
        *link = b->left;
        fac__uses_drop(b);
        fac__block_finish(a, b);
    }
}
