/* Call stacks and the history of events. */
#include "backend/cuda/runtime/alloc.h"
#include <execinfo.h>
#include <time.h>

enum { MAX_FRAMES = 64, DEFAULT_ENTRIES = 100000, METADATA = 256 };

static _Thread_local char metadata[METADATA]; /* of blocks that this thread allocates */

fac_status fac_cuda_set_memory_metadata(const char *text) {
    size_t n = text ? strlen(text) : 0;
    FAC_CHECK(n < METADATA, FAC_ERR_ARGUMENT, "metadata of memory blocks has at most %d bytes, not %zu", METADATA - 1,
              n);
    memcpy(metadata, text ? text : "", n + 1);
    return FAC_OK;
}

int64_t fac__wall_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- call stacks ---------------------------------------------------------------------------------------------------- */

/* Frames of this file are left out. By the hook, since running out of memory here is no error: the stack is then missing. */
fac_call_stack *fac__stack_here(const fac_caching_allocator *a, fac_memory_history from) {
    void *frames[MAX_FRAMES];
    if (FAC_LIKELY(atomic_load_explicit(&a->trace.level, memory_order_relaxed) < (int)from)) return NULL;
    const int all = backtrace(frames, MAX_FRAMES), skipped = all > 1 ? 1 : 0, n = all - skipped;
    const size_t text = strlen(metadata) + 1, bytes = sizeof(fac_call_stack) + (size_t)n * sizeof *frames + text;
    fac_call_stack *s = fac__memory_hook.alloc(fac__memory_hook.ctx, bytes, _Alignof(max_align_t));
    if (!s) return NULL;
    *s = (fac_call_stack){.refs = 1, .n = n, .frames = (void **)(s + 1)};
    memcpy(s->frames, frames + skipped, (size_t)n * sizeof *frames);
    s->metadata = (char *)(s->frames + n);
    memcpy(s->metadata, metadata, text);
    return s;
}

fac_call_stack *fac__stack_ref(fac_call_stack *s) {
    if (s) s->refs++;
    return s;
}

void fac__stack_unref(fac_call_stack *s) {
    if (s && --s->refs == 0) fac__free(s);
}

/* ---- events ---------------------------------------------------------------------------------------------------------- */

/* Grows by the hook: an event for which there is no memory is lost, and nothing else. */
static bool room(fac_alloc_event **v, size_t n, size_t *cap) {
    if (n < *cap) return true;
    size_t more = *cap ? *cap * 2 : 64;
    fac_alloc_event *grown = fac__memory_hook.alloc(fac__memory_hook.ctx, more * sizeof *grown, _Alignof(max_align_t));
    if (!grown) return false;
    if (n) memcpy(grown, *v, n * sizeof *grown);
    fac__free(*v);
    *v = grown;
    *cap = more;
    return true;
}

static void keep(fac_alloc_trace *t, fac_alloc_event e) {
    if ((int64_t)t->ring.n >= t->limit) {
        fac__stack_unref(t->ring.v[t->first].stack);
        t->ring.v[t->first] = e;
        t->first = (t->first + 1) % t->limit;
    } else if (room(&t->ring.v, t->ring.n, &t->ring.cap)) {
        t->ring.v[t->ring.n++] = e;
    } else {
        fac__stack_unref(e.stack);
    }
}

void fac__trace(fac_caching_allocator *a, fac_memory_action action, const void *p, int64_t size, int64_t stream,
                fac_call_stack *stack) {
    fac_alloc_trace *t = &a->trace;
    const bool kept = atomic_load_explicit(&t->level, memory_order_relaxed) >= FAC_HISTORY_ALLOC;
    const bool told = fac__have_trackers();
    if (FAC_LIKELY(!kept && !told)) return;
    fac_alloc_event e = {action, (uint64_t)(uintptr_t)p, size, stream, fac__wall_us(), stack};
    if (kept) {
        fac__stack_ref(stack);
        keep(t, e);
    }
    if (told && room(&t->untold.v, t->untold.n, &t->untold.cap)) {
        fac__stack_ref(stack);
        t->untold.v[t->untold.n++] = e;
    }
}

void fac__trace_tell_and_unlock(fac_caching_allocator *a) {
    fac_alloc_trace *t = &a->trace;
    fac_alloc_event *v = t->untold.v;
    const size_t n = t->untold.n;
    t->untold.v = NULL;
    t->untold.n = t->untold.cap = 0;
    fac__cache_drop_lock(a);
    for (size_t i = 0; i < n; i++) {
        fac_memory_event e = {v[i].action, a->device,    v[i].address, v[i].size,
                              v[i].stream, v[i].time_us, {NULL, 0, ""}};
        if (v[i].stack) e.stack = (fac_memory_stack){v[i].stack->frames, v[i].stack->n, v[i].stack->metadata};
        fac__tell_trackers(&e);
    }
    fac__mutex_lock(&a->lock); /* guards the counts of the stacks */
    for (size_t i = 0; i < n; i++) fac__stack_unref(v[i].stack);
    fac__cache_drop_lock(a);
    fac__free(v);
}

void fac__trace_clear(fac_caching_allocator *a) {
    fac_alloc_trace *t = &a->trace;
    for (size_t i = 0; i < t->ring.n; i++) fac__stack_unref(t->ring.v[i].stack);
    fac__free(t->ring.v);
    t->ring.v = NULL;
    t->ring.n = t->ring.cap = 0;
    t->first = 0;
}

fac_status fac__cache_record_history(fac_caching_allocator *a, fac_memory_history what, int64_t max_entries) {
    void *warm[1];
    FAC_CHECK(what >= FAC_HISTORY_OFF && what <= FAC_HISTORY_ALL && max_entries >= 0, FAC_ERR_ARGUMENT,
              "history is recorded at levels 0 to %d with at least 0 entries, not %d with %lld", FAC_HISTORY_ALL,
              (int)what, (long long)max_entries);
    if (what) (void)backtrace(warm, 1); /* its first call loads a library */
    fac__cache_lock(a);
    fac__trace_clear(a);
    a->trace.limit = max_entries ? max_entries : DEFAULT_ENTRIES;
    atomic_store_explicit(&a->trace.level, (int)what, memory_order_relaxed);
    fac__cache_unlock(a);
    return FAC_OK;
}
