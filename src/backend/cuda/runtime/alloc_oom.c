/* Who is told when memory is out, and what the error says. */
#include "backend/cuda/runtime/alloc.h"

/* ---- functions of users ---------------------------------------------------------------------------------------------- */

enum { MAX_OBSERVERS = 8, HOLDERS = 3 };

/* A function and its context; called from a copy, so that no lock is held. */
typedef struct observer {
    void (*fn)(void);
    void *context;
} observer;
typedef struct observers {
    observer v[MAX_OBSERVERS];
    atomic_int n; /* read without the lock to see whether there is any */
} observers;

static fac_mutex observers_lock = FAC_MUTEX_INIT; /* of the four below; not held while an observer runs */
static observers oom, rejection, trackers, callbacks;

static fac_status attach(observers *o, void (*fn)(void), void *context) {
    FAC_CHECK(fn, FAC_ERR_ARGUMENT, "NULL was given where a function is needed");
    fac__mutex_lock(&observers_lock);
    int n = o->n;
    if (n < MAX_OBSERVERS) o->v[o->n++] = (observer){fn, context};
    fac__mutex_unlock(&observers_lock);
    FAC_CHECK(n < MAX_OBSERVERS, FAC_ERR_STATE, "there are %d functions of this kind already", MAX_OBSERVERS);
    return FAC_OK;
}

static void detach(observers *o, void (*fn)(void), void *context) {
    fac__mutex_lock(&observers_lock);
    int kept = 0;
    for (int i = 0; i < o->n; i++)
        if (o->v[i].fn != fn || o->v[i].context != context) o->v[kept++] = o->v[i];
    o->n = kept;
    fac__mutex_unlock(&observers_lock);
}

static int copy(observers *o, observer out[MAX_OBSERVERS]) {
    fac__mutex_lock(&observers_lock);
    int n = o->n;
    memcpy(out, o->v, (size_t)n * sizeof *out);
    fac__mutex_unlock(&observers_lock);
    return n;
}

#define ATTACHING(name, list, type)                                                                                  \
    fac_status fac_cuda_attach_##name(type fn, void *context) { return attach(&list, (void (*)(void))fn, context); } \
    void fac_cuda_detach_##name(type fn, void *context) { detach(&list, (void (*)(void))fn, context); }
ATTACHING(oom_observer, oom, fac_memory_oom_observer)
ATTACHING(rejection_observer, rejection, fac_memory_oom_observer)
ATTACHING(memory_tracker, trackers, fac_memory_tracker)
ATTACHING(free_memory_callback, callbacks, fac_memory_callback)

bool fac__have_trackers(void) { return atomic_load_explicit(&trackers.n, memory_order_relaxed) > 0; }

void fac__tell_trackers(const fac_memory_event *e) {
    observer v[MAX_OBSERVERS];
    int n = copy(&trackers, v);
    for (int i = 0; i < n; i++) ((fac_memory_tracker)v[i].fn)(v[i].context, e);
}

bool fac__run_callbacks(fac_caching_allocator *a) {
    observer v[MAX_OBSERVERS];
    bool freed = false;
    if (FAC_LIKELY(atomic_load_explicit(&callbacks.n, memory_order_relaxed) == 0)) return false;
    fac__cache_unlock(a);
    int n = copy(&callbacks, v);
    for (int i = 0; i < n; i++) freed |= ((fac_memory_callback)v[i].fn)(v[i].context, a->device);
    fac__cache_lock(a);
    return freed;
}

static void tell_oom(observers *o, int device, int64_t asked, int64_t total, int64_t free) {
    observer v[MAX_OBSERVERS];
    int n = copy(o, v);
    for (int i = 0; i < n; i++) ((fac_memory_oom_observer)v[i].fn)(v[i].context, device, asked, total, free);
}

/* ---- the message --------------------------------------------------------------------------------------------------------- */

typedef struct holder {
    int64_t size, n;
    const char *metadata; /* of one such block */
} holder;

/* What an out-of-memory error tells; all sizes in bytes. */
typedef struct report {
    int64_t asked, segment, free, total, limit, allocated, reserved, largest_free, cached;
    holder holders[HOLDERS]; /* the sizes of blocks in use that take most */
    char metadata[HOLDERS][64];
} report;

static void text_size(char out[32], int64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1024 && u + 1 < FAC_COUNT(units)) v /= 1024, u++;
    snprintf(out, 32, u ? "%.2f %s" : "%.0f %s", v, units[u]);
}

static void note_holder(report *o, holder h) {
    for (int i = 0; i < HOLDERS; i++) {
        if (h.size * h.n <= o->holders[i].size * o->holders[i].n) continue;
        memmove(&o->holders[i + 1], &o->holders[i], (size_t)(HOLDERS - 1 - i) * sizeof h);
        o->holders[i] = h;
        return;
    }
}

/* Sizes of blocks in use are counted in a small table; when it is full the rest is left out. */
static void note_block(holder *table, size_t n, const fac_block *b) {
    for (size_t i = 0; i < n; i++) {
        if (table[i].n && table[i].size != b->size) continue;
        table[i].size = b->size;
        table[i].n++;
        if (b->stack && *b->stack->metadata) table[i].metadata = b->stack->metadata;
        return;
    }
}

static void collect(const fac_caching_allocator *a, report *o) {
    holder table[256] = {0};
    for (const fac_segment *s = a->segments; s; s = s->next) {
        for (const fac_block *b = s->first; b; b = b->next) {
            if (b->status == FAC_IN_USE || b->status == FAC_PENDING) note_block(table, FAC_COUNT(table), b);
            if (b->status != FAC_FREE) continue;
            o->cached += b->size;
            o->largest_free = fac__max(o->largest_free, b->size);
        }
    }
    for (size_t i = 0; i < FAC_COUNT(table) && table[i].n; i++) note_holder(o, table[i]);
    for (int i = 0; i < HOLDERS; i++) {
        const char *text = o->holders[i].metadata;
        snprintf(o->metadata[i], sizeof o->metadata[i], "%s", text ? text : "");
    }
    o->allocated = a->stats.allocated_bytes.all.current;
    o->reserved = a->stats.reserved_bytes.all.current;
    o->limit = a->limit;
}

static void write_holders(fac_buf *m, const report *o) {
    char size[32];
    for (int i = 0; i < HOLDERS && o->holders[i].n; i++) {
        text_size(size, o->holders[i].size);
        (void)fac__buf_printf(m, "%s%lld x %s", i ? ", " : " Most of it is in blocks of ", (long long)o->holders[i].n,
                              size);
        if (*o->metadata[i]) (void)fac__buf_printf(m, " (%s)", o->metadata[i]);
    }
    if (o->holders[0].n) (void)fac__buf_printf(m, ".");
}

static void write_limits(fac_buf *m, const report *o) {
    char total[32], free[32], limit[32];
    text_size(total, o->total);
    text_size(free, o->free);
    text_size(limit, o->limit);
    if (o->total) (void)fac__buf_printf(m, " The device has %s, of which %s are free.", total, free);
    if (o->limit != INT64_MAX) (void)fac__buf_printf(m, " This process may reserve %s.", limit);
}

static void write_message(fac_buf *m, const fac_caching_allocator *a, const report *o) {
    char asked[32], allocated[32], cached[32], largest[32];
    text_size(asked, o->asked);
    text_size(allocated, o->allocated);
    text_size(cached, o->reserved - o->allocated);
    text_size(largest, o->largest_free);
    (void)fac__buf_printf(m, "out of memory on %s:%d: tried to allocate %s.", a->source.name, a->device, asked);
    write_limits(m, o);
    const double fragmentation = o->cached ? 100 * (1 - (double)o->largest_free / (double)o->cached) : 0;
    (void)fac__buf_printf(
        m,
        " %s are allocated, %s reserved but unallocated; the largest free block has %s (fragmentation "
        "%.0f%%).",
        allocated, cached, largest, fragmentation);
    write_holders(m, o);
    if (o->cached >= o->asked)
        (void)fac__buf_printf(m,
                              " As more is reserved than asked for, expandable_segments:True in FACULA_CUDA_ALLOC_CONF "
                              "may avoid the fragmentation.");
}

fac_status fac__out_of_memory(fac_caching_allocator *a, const fac_request *r) {
    report o = {.asked = r->requested, .segment = r->refused};
    fac_buf message = {0};
    if (a->source.info && a->source.info(&a->source, a->device, &o.free, &o.total) != FAC_OK) o.free = o.total = 0;
    collect(a, &o);
    a->stats.num_ooms++;
    if (r->rejected) a->stats.num_oom_rejections++;
    fac__trace(a, FAC_MEMORY_OOM, (void *)(uintptr_t)o.free, r->requested, r->pool->stream, r->stack);
    fac__cache_unlock(a);
    if (r->rejected) tell_oom(&rejection, a->device, r->requested, o.total, o.free);
    tell_oom(&oom, a->device, r->requested, o.total, o.free);
    write_message(&message, a, &o);
    fac_status st = FAC_FAIL(FAC_ERR_MEMORY, "%s", message.failed || !message.data ? "out of memory" : message.data);
    fac__buf_free(&message);
    return st;
}
