/* Requests and frees: in which order memory is looked for, and the face that storages see. */
#include "backend/cuda/runtime/alloc.h"
#include <stdlib.h>

enum { FIRST_BUCKETS = 1024, HEADERS_PER_REQUEST = 4 };
static const int64_t MAX_REQUEST = INT64_MAX / 8;

/* What requests of no bytes get: an address that is never read. */
static _Alignas(64) char nothing[64];

void fac__cache_lock(fac_caching_allocator *a) { fac__mutex_lock(&a->lock); }

void fac__cache_unlock(fac_caching_allocator *a) {
    if (FAC_LIKELY(a->trace.untold.n == 0))
        fac__cache_drop_lock(a);
    else
        fac__trace_tell_and_unlock(a);
}

/* ---- sizes --------------------------------------------------------------------------------------------------------- */

static int64_t round_to(int64_t n, int64_t unit) { return (n + unit - 1) & ~(unit - 1); }

int64_t fac__cache_round(const fac_alloc_config *c, int64_t bytes) {
    if (bytes <= FAC_BLOCK_MIN) return FAC_BLOCK_MIN;
    int64_t divisions = fac__alloc_divisions(c, bytes);
    if (divisions > 1 && bytes > FAC_BLOCK_MIN * divisions) bytes = fac__alloc_roundup(bytes, divisions);
    return round_to(bytes, FAC_BLOCK_MIN);
}

static int64_t segment_size(const fac_caching_allocator *a, int64_t size) {
    if (!a->caching) return size;
    if (size <= FAC_SMALL_MAX) return FAC_SMALL_SEGMENT;
    return size < FAC_LARGE_MIN ? a->config.large_segment : round_to(size, FAC_SEGMENT_ROUND);
}

static bool should_split(const fac_caching_allocator *a, const fac_block *b, int64_t size) {
    int64_t rest = b->size - size;
    if (b->pool->small || b->segment->expandable) return rest >= FAC_BLOCK_MIN;
    return size < a->config.max_split && rest > FAC_SMALL_MAX;
}

/* ---- looking for memory ----------------------------------------------------------------------------------------------- */

static bool find(fac_caching_allocator *a, fac_request *r) { return a->caching && fac__pool_find(a, r, r->pool); }

static fac_status grow(fac_caching_allocator *a, fac_request *r) {
    return a->config.expandable && a->caching ? fac__expand(a, r) : fac__segment_new(a, r);
}

/* Free blocks of private pools whose owners allow it. */
static bool find_elsewhere(fac_caching_allocator *a, fac_request *r) {
    for (fac_arena *arena = a->arenas; arena; arena = arena->next) {
        for (size_t i = 0; arena->on_oom && i < arena->pools.n; i++) {
            fac_stream_pool *p = arena->pools.v[i];
            if (p->stream == r->pool->stream && p->small == r->pool->small && fac__pool_find(a, r, p)) return true;
        }
    }
    return false;
}

/* The source had nothing: waits for what is pending, gives back everything that is free, and asks once more. */
static fac_status retry(fac_caching_allocator *a, fac_request *r) {
    if (r->capturing) return FAC_OK;
    a->stats.num_alloc_retries++;
    FAC_TRY(fac__pending_process(a, true));
    if (find(a, r)) return FAC_OK;
    fac__release_all(a);
    FAC_TRY(grow(a, r));
    return FAC_OK;
}

/* r->found stays NULL when there is no memory. The lock may be dropped and taken again on the way. */
static fac_status look(fac_caching_allocator *a, fac_request *r) {
    if (FAC_LIKELY(find(a, r))) return FAC_OK;
    if (fac__run_callbacks(a) && find(a, r)) return FAC_OK;
    if (!r->capturing) fac__collect_garbage(a);
    FAC_TRY(grow(a, r));
    if (r->found || find(a, r)) return FAC_OK; /* others may have freed something meanwhile */
    if (fac__release_oversize(a, r)) FAC_TRY(grow(a, r));
    if (r->found) return FAC_OK;
    FAC_TRY(retry(a, r));
    if (r->found || find(a, r)) return FAC_OK;
    find_elsewhere(a, r);
    return FAC_OK;
}

static fac_status serve(fac_caching_allocator *a, fac_request *r, int64_t stream) {
    fac_arena *arena = fac__arena_for(a, stream);
    r->capturing = a->routes.n > 0;
    r->size = a->caching ? fac__cache_round(&a->config, r->requested) : round_to(r->requested, FAC_BLOCK_MIN);
    r->segment = segment_size(a, r->size);
    FAC_TRY(fac__headers_reserve(a, HEADERS_PER_REQUEST));
    FAC_TRY(fac__pool_get(arena, stream, r->size <= FAC_SMALL_MAX, &r->pool));
    if (r->capturing)
        fac__deferred_reuse(a, stream);
    else
        FAC_TRY(fac__pending_process(a, false));
    arena->requests++;
    fac_status st = look(a, r);
    arena->requests--;
    if (st == FAC_OK && r->found) st = fac__headers_reserve(a, 1); /* for the split: others may have taken ours */
    if (st != FAC_OK && r->found) fac__block_put(a, r->found);
    return st;
}

static void *hand_out(fac_caching_allocator *a, fac_request *r) {
    fac_block *b = r->found;
    const bool small = b->pool->small;
    if (should_split(a, b, r->size)) fac__block_put(a, fac__block_split(a, b, r->size));
    b->requested = r->requested;
    b->stack = fac__stack_ref(r->stack);
    b->oversize = b->size >= a->config.max_split;
    fac__in_use_add(a, b);
    fac__stat_add(&a->stats.allocation, small, 1);
    fac__stat_add(&a->stats.allocated_bytes, small, b->size);
    fac__stat_add(&a->stats.active, small, 1);
    fac__stat_add(&a->stats.active_bytes, small, b->size);
    fac__stat_add(&a->stats.requested_bytes, small, b->requested);
    if (b->oversize) fac__stat_add_one(&a->stats.oversize_allocations, 1);
    fac__trace(a, FAC_MEMORY_ALLOC, b->p, b->requested, b->pool->stream, b->stack);
    fac__block_open(a, b);
    return b->p;
}

static bool valid_request(int64_t bytes) {
    if (FAC_LIKELY(bytes >= 0 && bytes <= MAX_REQUEST)) return true;
    FAC_FAIL(bytes < 0 ? FAC_ERR_ARGUMENT : FAC_ERR_MEMORY, "cannot allocate %lld bytes", (long long)bytes);
    return false;
}

static void drop_stack(fac_caching_allocator *a, fac_call_stack *s) {
    if (FAC_LIKELY(!s)) return;
    fac__cache_lock(a);
    fac__stack_unref(s);
    fac__cache_unlock(a);
}

void *fac__cache_alloc(fac_caching_allocator *a, int64_t bytes, int64_t stream) {
    if (!valid_request(bytes)) return NULL;
    if (bytes == 0) return nothing;
    void *p = NULL;
    fac_request r = {.requested = bytes, .stack = fac__stack_here(a, FAC_HISTORY_STATE)};
    fac__cache_lock(a);
    fac_status st = serve(a, &r, stream);
    if (st == FAC_OK && !r.found) {
        (void)fac__out_of_memory(a, &r);
    } else {
        if (st == FAC_OK) p = hand_out(a, &r);
        fac__cache_unlock(a);
    }
    drop_stack(a, r.stack);
    return p;
}

/* ---- freeing ------------------------------------------------------------------------------------------------------------ */

static void free_block(fac_caching_allocator *a, fac_block *b, fac_call_stack *stack) {
    const bool small = b->pool->small;
    fac__in_use_remove(a, b);
    fac__stat_add(&a->stats.allocation, small, -1);
    fac__stat_add(&a->stats.allocated_bytes, small, -b->size);
    if (b->oversize) fac__stat_add_one(&a->stats.oversize_allocations, -1);
    fac__trace(a, FAC_MEMORY_FREE_REQUESTED, b->p, b->requested, b->pool->stream, stack);
    if (FAC_UNLIKELY(b->uses != NULL))
        fac__uses_close(a, b);
    else
        fac__block_finish(a, b);
}

bool fac__cache_is_nothing(const void *p) { return p == nothing; }

void fac__cache_free(fac_caching_allocator *a, void *p) {
    if (!p || p == nothing) return;
    fac_call_stack *stack = fac__stack_here(a, FAC_HISTORY_ALL);
    fac__cache_lock(a);
    fac_block *b = fac__in_use_find(a, p);
    if (FAC_LIKELY(b != NULL)) free_block(a, b, stack);
    const bool last = b && a->abandoned && a->in_use.n == 0;
    fac__cache_unlock(a);
    drop_stack(a, stack);
    if (FAC_UNLIKELY(last)) fac_caching_allocator_free(a);
    if (FAC_UNLIKELY(!b))
        FAC_FAIL(FAC_ERR_STATE, "%p was freed on %s:%d, but is no block in use there", p, a->source.name, a->device);
}

bool fac__cache_owns(fac_caching_allocator *a, const void *p) {
    fac__cache_lock(a);
    bool found = fac__in_use_find(a, p) != NULL;
    fac__cache_unlock(a);
    return found;
}

fac_status fac_caching_allocator_record_stream(fac_caching_allocator *a, void *p, int64_t stream) {
    FAC_CHECK(a, FAC_ERR_ARGUMENT, "NULL was given where a caching allocator is needed");
    if (!a->source.record) return FAC_OK;
    fac__cache_lock(a);
    fac_block *b = fac__in_use_find(a, p);
    fac_status st = b ? fac__use_add(a, b, stream) : FAC_OK;
    fac__cache_unlock(a);
    return st;
}

fac_status fac_caching_allocator_empty_cache(fac_caching_allocator *a) {
    FAC_CHECK(a, FAC_ERR_ARGUMENT, "NULL was given where a caching allocator is needed");
    fac_status st = FAC_OK;
    fac__cache_lock(a);
    bool capturing = a->routes.n > 0;
    if (!capturing && (st = fac__pending_process(a, true)) == FAC_OK) fac__release_all(a);
    fac__cache_unlock(a);
    FAC_CHECK(!capturing, FAC_ERR_STATE, "the cache of %s:%d cannot be emptied while a graph is captured",
              a->source.name, a->device);
    return st;
}

/* ---- options -------------------------------------------------------------------------------------------------------------- */

void fac__cache_configure(fac_caching_allocator *a, const fac_alloc_config *c) {
    fac__cache_lock(a);
    const double fraction = a->config.memory_fraction; /* stays unless a new one is named */
    a->config = *c;
    if (c->memory_fraction < 0) a->config.memory_fraction = fraction;
    a->stats.max_split_size = c->max_split == INT64_MAX ? -1 : c->max_split;
    fac__cache_unlock(a);
}

fac_status fac__cache_set_fraction(fac_caching_allocator *a, double fraction) {
    int64_t free, total;
    FAC_CHECK(fraction >= 0 && fraction <= 1, FAC_ERR_ARGUMENT, "a share of memory lies between 0 and 1, not at %g",
              fraction);
    FAC_CHECK(a->source.info, FAC_ERR_UNSUPPORTED,
              "the memory of %s devices is not known, so no share of it can be set", a->source.name);
    FAC_TRY(a->source.info(&a->source, a->device, &free, &total));
    fac__cache_lock(a);
    a->config.memory_fraction = fraction;
    a->limit = (int64_t)(fraction * (double)total);
    fac__cache_unlock(a);
    return FAC_OK;
}

/* ---- making and freeing ----------------------------------------------------------------------------------------------------- */

static void *face_alloc(const fac_allocator *self, int64_t bytes) {
    fac_caching_allocator *a = self->context;
    return fac__cache_alloc(a, bytes, a->source.stream ? a->source.stream(&a->source, a->device) : 0);
}

static void face_free(const fac_allocator *self, void *p, int64_t bytes) {
    (void)bytes;
    fac__cache_free(self->context, p);
}

/* All of these or none. */
#define GIVEN(...) given((const bool[]){__VA_ARGS__}, sizeof((const bool[]){__VA_ARGS__}))
static bool given(const bool *v, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (v[i] != v[0]) return false;
    return true;
}

static fac_status check_source(const fac_memory_source *s) {
    FAC_CHECK(s && s->size == sizeof *s, FAC_ERR_ARGUMENT, "a memory source must say its size, %zu", sizeof *s);
    FAC_CHECK(s->name && s->alloc && s->free, FAC_ERR_ARGUMENT, "a memory source needs a name, alloc and free");
    FAC_CHECK(GIVEN(s->stream, s->record, s->query, s->wait, s->drop, s->synchronize), FAC_ERR_ARGUMENT,
              "a memory source has all of stream, record, query, wait, drop and synchronize, or none");
    FAC_CHECK(GIVEN(s->reserve, s->unreserve, s->map, s->unmap), FAC_ERR_ARGUMENT,
              "a memory source has all of reserve, unreserve, map and unmap, or none");
    FAC_CHECK(GIVEN(s->mark, s->passed), FAC_ERR_ARGUMENT, "a memory source has both of mark and passed, or none");
    return FAC_OK;
}

static fac_status take_option(const void *context, const char *key, const char *value) {
    const fac_memory_source *s = context;
    FAC_CHECK(s->option, FAC_ERR_ARGUMENT, "there is no allocator option '%s'", key);
    return s->option(s, key, value);
}

static bool is_on(const char *name) {
    const char *text = fac__env(name);
    return text && *text && strcmp(text, "0") != 0;
}

static fac_status fill_in(fac_caching_allocator *a, const fac_memory_source *source, int device,
                          const fac_alloc_config *c) {
    FAC_CHECK(!c->expandable || source->reserve, FAC_ERR_UNSUPPORTED,
              "expandable_segments needs virtual memory, which %s devices have not", source->name);
    a->source = *source;
    a->device = device;
    a->face = (fac_allocator){source->name, face_alloc, face_free, a};
    a->limit = INT64_MAX;
    a->config.memory_fraction = -1;
    a->common.users = 1;
    a->caching = !c->async && !is_on("FACULA_NO_CUDA_MEMORY_CACHING") && !is_on("PYTORCH_NO_CUDA_MEMORY_CACHING");
    a->poison = is_on("FACULA_CUDA_POISON");
    a->in_use.buckets = FIRST_BUCKETS;
    if (!(a->in_use.v = fac__alloc_zero(FIRST_BUCKETS * sizeof *a->in_use.v))) return FAC_ERR_MEMORY;
    fac__cache_configure(a, c);
    return c->memory_fraction < 0 ? FAC_OK : fac__cache_set_fraction(a, c->memory_fraction);
}

fac_caching_allocator *fac__cache_new(const fac_memory_source *source, int device, const fac_alloc_config *c) {
    fac_caching_allocator *a = fac__alloc_zero(sizeof *a);
    if (!a) return NULL;
    fac__mutex_init(&a->lock);
    if (fill_in(a, source, device, c) == FAC_OK) return a;
    fac_caching_allocator_free(a);
    return NULL;
}

static fac_status check_settings(const fac_memory_source *source, const char *settings, fac_alloc_config *out) {
    FAC_TRY(check_source(source));
    FAC_TRY(fac__alloc_config_parse(settings, "allocator options", take_option, source, out));
    FAC_CHECK(!out->async, FAC_ERR_UNSUPPORTED, "backend:cudaMallocAsync is for CUDA alone");
    return FAC_OK;
}

fac_caching_allocator *fac_caching_allocator_new(const fac_memory_source *source, int device, const char *settings) {
    fac_alloc_config c;
    FAC_TRY_NULL(check_settings(source, settings, &c));
    return fac__cache_new(source, device, &c);
}

/* Blocks of users go too: their owner has said that there are none. */
static void drop_segments(fac_caching_allocator *a) {
    for (fac_segment *s; (s = a->segments);) {
        if (s->expandable) fac__unmap_all(a, s);
        for (fac_block *b = s->first, *next; b; b = next) {
            next = b->next;
            fac__stack_unref(b->stack);
            fac__header_give(a, b);
        }
        if (s->expandable)
            a->source.unreserve(&a->source, a->device, s->p, s->size);
        else
            a->source.free(&a->source, a->device, s->p, s->size, s->pool->stream);
        fac__segment_drop(a, s);
    }
}

void fac_caching_allocator_free(fac_caching_allocator *a) {
    if (!a) return;
    if (a->in_use.v) { /* it was filled in */
        a->routes.n = 0;
        fac__deferred_close(a);
        fac__pending_finish(a);
        fac__release_all(a);
        drop_segments(a);
    }
    fac__trace_clear(a);
    for (fac_arena *arena; (arena = a->arenas);) {
        a->arenas = arena->next;
        fac__arena_free_pools(arena);
        fac__free(arena);
    }
    fac__arena_free_pools(&a->common);
    fac__headers_free(a);
    fac__free(a->in_use.v);
    fac__free(a->pending.v);
    fac__free(a->routes.v);
    fac__mutex_destroy(&a->lock);
    fac__free(a);
}

/* There will be no streams to put marks into. */
static void forget_uses(fac_caching_allocator *a) {
    for (size_t i = 0; i < a->in_use.buckets; i++)
        for (fac_block *b = a->in_use.v[i]; b; b = b->chain) fac__uses_drop(b);
}

void fac__cache_abandon(fac_caching_allocator *a) {
    fac__cache_lock(a);
    forget_uses(a);
    a->routes.n = 0;
    fac__deferred_close(a);
    fac__pending_finish(a);
    fac__release_all(a);
    a->abandoned = true;
    const bool empty = a->in_use.n == 0;
    fac__cache_unlock(a);
    if (empty) fac_caching_allocator_free(a);
}

const fac_allocator *fac_caching_allocator_face(fac_caching_allocator *a) { return a ? &a->face : NULL; }

fac_cuda_memory_stats fac_caching_allocator_stats(fac_caching_allocator *a) {
    fac_cuda_memory_stats s = {0};
    if (!a) return s;
    fac__cache_lock(a);
    s = a->stats;
    fac__cache_unlock(a);
    return s;
}
