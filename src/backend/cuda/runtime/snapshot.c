/* Taking a snapshot: plain copies of segments, blocks and events, made under the lock of each allocator in turn. */
#include "backend/cuda/runtime/alloc.h"
#include <stdlib.h>

/* ---- copies ------------------------------------------------------------------------------------------------------- */

/* The frames and the text lie in one block, which begins with the frames. */
static fac_status copy_stack(const fac_call_stack *s, fac_memory_stack *out) {
    *out = (fac_memory_stack){.metadata = ""};
    if (!s) return FAC_OK;
    const size_t frames = (size_t)s->n * sizeof *s->frames, text = strlen(s->metadata) + 1;
    char *copy = fac__alloc(frames + text);
    if (!copy) return FAC_ERR_MEMORY;
    memcpy(copy, s->frames, frames);
    memcpy(copy + frames, s->metadata, text);
    *out = (fac_memory_stack){(void *const *)(void *)copy, s->n, copy + frames};
    return FAC_OK;
}

static void free_stack(const fac_memory_stack *s) { fac__free((void *)(uintptr_t)s->frames); }

static fac_status copy_block(const fac_block *b, fac_memory_block *out) {
    *out = (fac_memory_block){.address = (uint64_t)(uintptr_t)b->p, .size = b->size, .requested_size = b->requested};
    out->state = b->status == FAC_FREE      ? FAC_BLOCK_INACTIVE
                 : b->status == FAC_PENDING ? FAC_BLOCK_ACTIVE_PENDING_FREE
                                            : FAC_BLOCK_ACTIVE_ALLOCATED;
    return copy_stack(b->stack, &out->stack);
}

static void add_up(fac_memory_segment *s, const fac_memory_block *b) {
    s->total_size += b->size;
    if (b->state == FAC_BLOCK_INACTIVE) return;
    s->active_size += b->size;
    s->requested_size += b->requested_size;
    if (b->state == FAC_BLOCK_ACTIVE_ALLOCATED) s->allocated_size += b->size;
}

/* The blocks from `first` on, up to the end of the segment or of its mapped part. */
static fac_status copy_run(const fac_caching_allocator *a, const fac_block *first, fac_memory_segment *out,
                           const fac_block **out_end) {
    const fac_segment *s = first->segment;
    const fac_block *b = first;
    size_t n = 0;
    for (; b && fac__has_memory(b->status); b = b->next) n++;
    *out_end = b;
    *out = (fac_memory_segment){.device = a->device,
                                .address = (uint64_t)(uintptr_t)first->p,
                                .stream = s->pool->stream,
                                .large = !s->pool->small,
                                .is_expandable = s->expandable,
                                .pool_id = {s->pool->arena->id[0], s->pool->arena->id[1]}};
    FAC_TRY(copy_stack(s->stack, &out->stack));
    if (!(out->blocks = fac__alloc_array(n, sizeof *out->blocks))) return FAC_ERR_MEMORY;
    for (b = first; b != *out_end; b = b->next) {
        fac_memory_block *to = &out->blocks[out->n_blocks];
        FAC_TRY(copy_block(b, to));
        out->n_blocks++;
        add_up(out, to);
    }
    return FAC_OK;
}

static size_t count_runs(const fac_caching_allocator *a) {
    size_t n = 0;
    for (const fac_segment *s = a->segments; s; s = s->next)
        for (const fac_block *b = s->first; b; b = b->next)
            if (fac__has_memory(b->status) && (!b->prev || !fac__has_memory(b->prev->status))) n++;
    return n;
}

/* Makes room for n more elements in an array of the snapshot. */
static fac_status enlarge(void **v, size_t have, size_t more, size_t size) {
    void *p = fac__realloc(*v, have * size, (have + more) * size);
    if (p) *v = p;
    return p ? FAC_OK : FAC_ERR_MEMORY;
}

static fac_status copy_segments(const fac_caching_allocator *a, fac_memory_snapshot *s) {
    FAC_TRY(enlarge((void **)&s->segments, s->n_segments, count_runs(a), sizeof *s->segments));
    for (const fac_segment *g = a->segments; g; g = g->next) {
        for (const fac_block *b = g->first; b;) {
            if (!fac__has_memory(b->status)) {
                b = b->next;
                continue;
            }
            FAC_TRY(copy_run(a, b, &s->segments[s->n_segments++], &b));
        }
    }
    return FAC_OK;
}

static fac_status copy_events(const fac_caching_allocator *a, fac_memory_snapshot *s) {
    const fac_alloc_trace *t = &a->trace;
    FAC_TRY(enlarge((void **)&s->events, s->n_events, t->ring.n, sizeof *s->events));
    for (size_t i = 0; i < t->ring.n; i++) {
        const fac_alloc_event *e = &t->ring.v[(i + (size_t)t->first) % t->ring.n];
        fac_memory_event *to = &s->events[s->n_events++];
        *to = (fac_memory_event){e->action, a->device, e->address, e->size, e->stream, e->time_us, {NULL, 0, ""}};
        FAC_TRY(copy_stack(e->stack, &to->stack));
    }
    return FAC_OK;
}

fac_status fac__cache_snapshot(fac_caching_allocator *a, fac_memory_snapshot *s) {
    fac__cache_lock(a);
    fac_status st = copy_segments(a, s);
    if (st == FAC_OK) st = copy_events(a, s);
    fac__trace(a, FAC_MEMORY_SNAPSHOT, NULL, 0, 0, NULL);
    fac__cache_unlock(a);
    return st;
}

static int by_address(const void *x, const void *y) {
    const fac_memory_segment *a = x, *b = y;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return (a->address > b->address) - (a->address < b->address);
}

void fac__snapshot_sort(fac_memory_snapshot *s) {
    if (s->n_segments) qsort(s->segments, s->n_segments, sizeof *s->segments, by_address);
}

void fac_memory_snapshot_free(fac_memory_snapshot *s) {
    if (!s) return;
    for (size_t i = 0; i < s->n_segments; i++) {
        fac_memory_segment *g = &s->segments[i];
        for (size_t k = 0; k < g->n_blocks; k++) free_stack(&g->blocks[k].stack);
        free_stack(&g->stack);
        fac__free(g->blocks);
    }
    for (size_t i = 0; i < s->n_events; i++) free_stack(&s->events[i].stack);
    for (size_t i = 0; i < s->n_annotations; i++) fac__free((void *)(uintptr_t)s->annotations[i].name);
    fac__free(s->segments);
    fac__free(s->events);
    fac__free(s->annotations);
    fac__free(s->settings);
    fac__free(s);
}
