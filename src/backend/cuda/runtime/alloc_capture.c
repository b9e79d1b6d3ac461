/* Private pools. What is allocated while a stream is captured must stay at its address for as long as the graph may be
   replayed, so it comes from an arena of its own, whose segments are not given back while a graph holds it. The stream decides:
   work of the capture may be queued from other threads than the one that began it. */
#include "backend/cuda/runtime/alloc.h"

static fac_arena *find_arena(fac_caching_allocator *a, const int64_t id[2]) {
    fac_arena *arena = a->arenas;
    while (arena && (arena->id[0] != id[0] || arena->id[1] != id[1])) arena = arena->next;
    return arena;
}

static fac_arena *get_arena(fac_caching_allocator *a, const int64_t id[2]) {
    fac_arena *arena = find_arena(a, id);
    if (arena || !(arena = fac__alloc_zero(sizeof *arena))) return arena;
    *arena = (fac_arena){.next = a->arenas, .id = {id[0], id[1]}};
    a->arenas = arena;
    return arena;
}

static fac_status not_there(const int64_t id[2]) {
    return FAC_FAIL(FAC_ERR_NOT_FOUND, "there is no memory pool (%lld, %lld)", (long long)id[0], (long long)id[1]);
}

static fac_status begin(fac_caching_allocator *a, uint64_t capture, const int64_t id[2]) {
    FAC_TRY(FAC_VEC_GROW(&a->routes));
    for (size_t i = 0; i < a->routes.n; i++)
        FAC_CHECK(a->routes.v[i].capture != capture, FAC_ERR_STATE, "the capture %llu has a memory pool already",
                  (unsigned long long)capture);
    fac_arena *arena = get_arena(a, id);
    if (!arena) return FAC_ERR_MEMORY;
    arena->users++;
    a->routes.v[a->routes.n++] = (fac_route){capture, arena};
    return FAC_OK;
}

fac_status fac__cache_capture_begin(fac_caching_allocator *a, uint64_t capture, const int64_t arena_id[2]) {
    FAC_CHECK(capture && (arena_id[0] || arena_id[1]), FAC_ERR_ARGUMENT,
              "a capture and its memory pool need ids other than 0");
    fac__cache_lock(a);
    fac_status st = begin(a, capture, arena_id);
    fac__cache_unlock(a);
    return st;
}

fac_status fac__cache_capture_end(fac_caching_allocator *a, uint64_t capture) {
    fac__cache_lock(a);
    size_t i = 0;
    while (i < a->routes.n && a->routes.v[i].capture != capture) i++;
    bool found = i < a->routes.n;
    if (found) a->routes.v[i] = a->routes.v[--a->routes.n];
    fac__deferred_close(a);
    fac__cache_unlock(a);
    FAC_CHECK(found, FAC_ERR_NOT_FOUND, "the capture %llu has no memory pool", (unsigned long long)capture);
    return FAC_OK;
}

fac_status fac__cache_arena_release(fac_caching_allocator *a, const int64_t arena_id[2]) {
    fac__cache_lock(a);
    fac_arena *arena = find_arena(a, arena_id);
    bool held = arena && arena->users > 0;
    if (held) arena->users--;
    fac__arenas_tidy(a);
    fac__cache_unlock(a);
    return held ? FAC_OK : not_there(arena_id);
}

fac_status fac__cache_arena_use_on_oom(fac_caching_allocator *a, const int64_t arena_id[2]) {
    fac__cache_lock(a);
    fac_arena *arena = find_arena(a, arena_id);
    if (arena) arena->on_oom = true;
    fac__cache_unlock(a);
    return arena ? FAC_OK : not_there(arena_id);
}

fac_arena *fac__arena_for(fac_caching_allocator *a, int64_t stream) {
    if (FAC_LIKELY(a->routes.n == 0) || !a->source.capture) return &a->common;
    uint64_t capture = a->source.capture(&a->source, a->device, stream);
    for (size_t i = 0; capture && i < a->routes.n; i++)
        if (a->routes.v[i].capture == capture) return a->routes.v[i].arena;
    return &a->common;
}

void fac__arenas_tidy(fac_caching_allocator *a) {
    for (fac_arena **link = &a->arenas, *arena; (arena = *link);) {
        if (arena->users || arena->held || arena->requests) {
            link = &arena->next;
            continue;
        }
        *link = arena->next;
        fac__arena_free_pools(arena);
        fac__free(arena);
    }
}
