/* The CPU's default allocator: freed blocks are kept for reuse, since fresh pages cost more than the arithmetic on them.

   Small blocks (to 8 KB) come in 19 sizes, cut from slabs of 64 KB. Each thread has a list per size and takes from it
   without a lock; lists are refilled from, and spill to, the slabs in batches. A slab knows how many of its blocks are
   out, so that idle slabs can be given back.

   Large blocks carry a header that says what they hold. Free ones are kept in one array sorted by size; a request takes the
   smallest that fits and wastes at most a quarter, or, from 1 MB on, more where that keeps the sum below what was ever used. The idle ones together never exceed the most that was in use at once, or
   64 MB: what does not fit goes to the system, unless there are idle ones that were freed so long ago that nothing seems to need
   them any more, which go instead.
   Blocks of 4 MB and more ask the kernel for huge pages. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/fft/fft.h"
#include "base/mutex.h"
#include "core/allocator.h"
#include <sys/mman.h>

enum {
    SLAB_BYTES = 64 << 10,
    FINE_CLASSES = 16, /* 64, 128, ... 1024; then 2048, 4096, 8192 */
    SMALL_MAX = 8192,
    HEADER = FAC_DATA_ALIGN,
    HUGE_FROM = 4 << 20,
    HUGE_PAGE = 2 << 20,
    LOOSE_FROM = 1 << 20,
    KEEP_IDLE = 64 << 20 /* idle bytes that are always tolerated */
};
static const int64_t FLUSH_BYTES = 1 << 20;

typedef struct slab {
    struct slab *next, *prev; /* slabs of the class with a free block */
    void *free;               /* linked through the blocks' first words */
    uint32_t n_free, n_blocks;
} slab;

typedef struct large {
    size_t room;                 /* usable bytes after the header */
    size_t freed_at;             /* of an idle block: freed_bytes then */
    struct large *older, *newer; /* idle blocks by that */
    bool leaves;                 /* the idle ones */
} large;
_Static_assert(sizeof(large) <= HEADER, "a block's header holds what is known of it");

static fac_mutex lock = FAC_MUTEX_INIT; /* all below but the counts */
static slab *partial[FAC_POOL_CLASSES];
static struct {
    large **v; /* sorted by room */
    size_t n, cap;
    large *oldest, *newest;
} idle;
static size_t idle_bytes;
static size_t large_used, large_peak;
static size_t freed_bytes; /* of large blocks, all together; may wrap */

static _Atomic(int64_t) total_allocated, total_peak, total_reserved, total_allocations;

/* ---- counts ------------------------------------------------------------------------------------------------------------ */

static void raise_peak(int64_t candidate) {
    int64_t seen = atomic_load_explicit(&total_peak, memory_order_relaxed);
    while (candidate > seen && !atomic_compare_exchange_weak_explicit(&total_peak, &seen, candidate,
                                                                      memory_order_relaxed, memory_order_relaxed)) {}
}

static void flush_counts(fac_thread *th) {
    int64_t bytes = atomic_exchange_explicit(&th->pool_bytes, 0, memory_order_relaxed);
    int64_t peak = atomic_exchange_explicit(&th->pool_peak, 0, memory_order_relaxed);
    int64_t calls = atomic_exchange_explicit(&th->pool_allocations, 0, memory_order_relaxed);
    int64_t before = atomic_fetch_add_explicit(&total_allocated, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&total_allocations, calls, memory_order_relaxed);
    raise_peak(before + peak);
}

/* Each thread counts for itself, and its own highest point, until it has something worth telling. */
static inline void count_bytes(fac_thread *th, int64_t bytes) {
    if (FAC_UNLIKELY(!th)) {
        raise_peak(atomic_fetch_add_explicit(&total_allocated, bytes, memory_order_relaxed) + bytes);
        return;
    }
    int64_t now = atomic_load_explicit(&th->pool_bytes, memory_order_relaxed) + bytes;
    atomic_store_explicit(&th->pool_bytes, now, memory_order_relaxed);
    if (now > atomic_load_explicit(&th->pool_peak, memory_order_relaxed))
        atomic_store_explicit(&th->pool_peak, now, memory_order_relaxed);
    if (FAC_UNLIKELY(now > FLUSH_BYTES || now < -FLUSH_BYTES)) flush_counts(th);
}

static inline void count_call(fac_thread *th) {
    if (FAC_LIKELY(th != NULL))
        fac__count(&th->pool_allocations, 1);
    else
        atomic_fetch_add_explicit(&total_allocations, 1, memory_order_relaxed);
}

static void reserve_bytes(size_t n) { atomic_fetch_add_explicit(&total_reserved, (int64_t)n, memory_order_relaxed); }
static void unreserve_bytes(size_t n) { atomic_fetch_sub_explicit(&total_reserved, (int64_t)n, memory_order_relaxed); }

/* ---- small blocks --------------------------------------------------------------------------------------------------------- */

/* Class of 0 <= bytes <= SMALL_MAX. */
static inline unsigned class_of(int64_t bytes) {
    if (FAC_LIKELY(bytes <= 1024)) return bytes ? (unsigned)(bytes - 1) >> 6 : 0;
    return bytes <= 2048 ? FINE_CLASSES : bytes <= 4096 ? FINE_CLASSES + 1 : FINE_CLASSES + 2;
}
static size_t class_bytes(unsigned c) {
    return c < FINE_CLASSES ? (size_t)(c + 1) << 6 : (size_t)2048 << (c - FINE_CLASSES);
}
/* Blocks that a thread keeps of a class: at most 64 KB of them. */
static uint32_t list_limit(unsigned c) {
    size_t n = SLAB_BYTES / class_bytes(c);
    return n > FAC_FREELIST_MAX ? FAC_FREELIST_MAX : (uint32_t)n;
}

static slab *slab_of(void *block) { return (slab *)((uintptr_t)block & ~(uintptr_t)(SLAB_BYTES - 1)); }

static void link_slab(slab *s, unsigned c) {
    s->prev = NULL;
    s->next = partial[c];
    if (partial[c]) partial[c]->prev = s;
    partial[c] = s;
}

static void unlink_slab(slab *s, unsigned c) {
    if (s->prev)
        s->prev->next = s->next;
    else
        partial[c] = s->next;
    if (s->next) s->next->prev = s->prev;
}

/* Under the lock: n_free blocks are linked, each at a block's place, and the slab is listed if there is one. */
static bool slab_is_valid(const slab *s, unsigned c) {
    uint32_t n = 0;
    for (char *b = s->free, *next; b; b = next, n++) {
        memcpy(&next, b, sizeof next);
        FAC_ASSERT(slab_of(b) == s && (size_t)(b - (const char *)s - HEADER) % class_bytes(c) == 0);
        FAC_ASSERT(n < s->n_free);
    }
    FAC_ASSERT(n == s->n_free && n <= s->n_blocks);
    FAC_ASSERT(n == 0 || s == partial[c] || s->prev->next == s);
    return true;
}

static slab *new_slab(unsigned c) {
    slab *s = fac__memory_hook.alloc(fac__memory_hook.ctx, SLAB_BYTES, SLAB_BYTES);
    if (!s) return NULL;
    size_t bytes = class_bytes(c);
    *s = (slab){.n_blocks = (uint32_t)((SLAB_BYTES - HEADER) / bytes)};
    char *block = (char *)s + HEADER + (s->n_blocks - 1) * bytes;
    for (s->n_free = 0; s->n_free < s->n_blocks; s->n_free++, block -= bytes) {
        memcpy(block, &s->free, sizeof s->free);
        s->free = block;
    }
    reserve_bytes(SLAB_BYTES);
    link_slab(s, c);
    return s;
}

static void *slab_take(unsigned c) {
    slab *s = partial[c] ? partial[c] : new_slab(c);
    if (!s) return NULL;
    void *block = s->free;
    memcpy(&s->free, block, sizeof s->free);
    if (--s->n_free == 0) unlink_slab(s, c);
    FAC_INVARIANT(slab_is_valid(s, c));
    return block;
}

static void slab_give(void *block, unsigned c) {
    slab *s = slab_of(block);
    if (s->n_free == 0) link_slab(s, c);
    memcpy(block, &s->free, sizeof s->free);
    s->free = block;
    s->n_free++;
    FAC_INVARIANT(slab_is_valid(s, c));
}

/* Half a list at a time, so that a thread that allocates and frees at the edge does not take the lock each time. The
   list is empty here. */
static void *small_refill(fac_thread *th, unsigned c) {
    fac__mutex_lock(&lock);
    void *block = slab_take(c);
    uint32_t batch = th ? list_limit(c) / 2 : 0;
    while (batch-- && partial[c]) (void)fac__freelist_push(&th->blocks[c], slab_take(c), list_limit(c));
    fac__mutex_unlock(&lock);
    return block;
}

static void spill(fac_freelist *l, unsigned c, uint32_t keep) {
    fac__mutex_lock(&lock);
    while (l->n > keep) slab_give(fac__freelist_pop(l), c);
    fac__mutex_unlock(&lock);
}

static void *small_alloc(fac_thread *th, unsigned c) {
    void *p = th ? fac__freelist_pop(&th->blocks[c]) : NULL;
    return FAC_LIKELY(p != NULL) ? p : small_refill(th, c);
}

static void small_free(fac_thread *th, void *p, unsigned c) {
    if (th && FAC_LIKELY(fac__freelist_push(&th->blocks[c], p, list_limit(c)))) return;
    fac__mutex_lock(&lock);
    slab_give(p, c);
    fac__mutex_unlock(&lock);
    if (th) spill(&th->blocks[c], c, list_limit(c) / 2);
}

/* ---- large blocks ------------------------------------------------------------------------------------------------------------ */

/* Rounded up to an eighth of the power of two below, so that like sizes share blocks. 0 on overflow. */
static size_t round_large(size_t bytes) {
    size_t step = (size_t)1 << (63 - __builtin_clzll(bytes) - 3);
    if (step < 4096) step = 4096;
    return bytes > SIZE_MAX - step - HUGE_PAGE ? 0 : (bytes + step - 1) & ~(step - 1);
}

/* Under the lock: the idle blocks are sorted by their room, which adds up. */
static bool idle_is_valid(void) {
    size_t sum = 0;
    for (size_t i = 0; i < idle.n; sum += idle.v[i++]->room)
        FAC_ASSERT(i == 0 || idle.v[i - 1]->room <= idle.v[i]->room);
    FAC_ASSERT(sum == idle_bytes);
    return true;
}

/* First idle block with room for n. */
static size_t idle_find(size_t n) {
    size_t lo = 0, hi = idle.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (idle.v[mid]->room < n)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static large *idle_remove(size_t i) {
    large *b = idle.v[i];
    memmove(idle.v + i, idle.v + i + 1, (--idle.n - i) * sizeof *idle.v);
    *(b->older ? &b->older->newer : &idle.oldest) = b->newer;
    *(b->newer ? &b->newer->older : &idle.newest) = b->older;
    idle_bytes -= b->room;
    FAC_INVARIANT(idle_is_valid());
    return b;
}

static large *idle_take(size_t n) {
    size_t i = idle_find(n);
    if (i == idle.n) return NULL;
    /* Where new pages would make more than was ever in use, a block that is up to twice too large is better. */
    const bool short_of_room = n >= LOOSE_FROM && large_used + idle_bytes + n > large_peak;
    return idle.v[i]->room <= (short_of_room ? 2 * n : n + n / 4) ? idle_remove(i) : NULL;
}

static void system_free(large *b) {
    unreserve_bytes(b->room + HEADER);
    fac__free(b);
}

static large *system_alloc(size_t room) {
    size_t align = room >= HUGE_FROM ? HUGE_PAGE : FAC_DATA_ALIGN;
    large *b = fac__memory_hook.alloc(fac__memory_hook.ctx, room + HEADER, align);
    if (!b) return NULL;
#ifdef MADV_HUGEPAGE
    if (room >= HUGE_FROM) madvise(b, room & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE); /* advice: may be refused */
#endif
    b->room = room;
    reserve_bytes(room + HEADER);
    return b;
}

static void *large_alloc(size_t bytes) {
    size_t room = round_large(bytes);
    if (!room) return NULL;
    fac__mutex_lock(&lock);
    large *b = idle_take(room);
    fac__mutex_unlock(&lock);
    if (!b) b = system_alloc(room);
    if (!b) { /* give everything idle back and try once more */
        fac_memory_trim();
        b = system_alloc(room);
    }
    if (!b) return NULL;
    fac__mutex_lock(&lock);
    large_used += b->room;
    if (large_used > large_peak) large_peak = large_used;
    fac__mutex_unlock(&lock);
    return (char *)b + HEADER;
}

/* Under the lock: takes out blocks that were freed long ago, and some more than make room for `room`, so that this is rare. They are
   linked by `newer`. */
static large *idle_evict(size_t room, size_t limit) {
    large *first = idle.oldest, *b = first, *last = NULL;
    for (; b && idle_bytes + room > limit - limit / 4 && freed_bytes - b->freed_at > 2 * limit; b = b->newer) {
        b->leaves = true;
        idle_bytes -= b->room;
        last = b;
    }
    if (!last) return NULL;
    last->newer = NULL;
    idle.oldest = b;
    *(b ? &b->older : &idle.newest) = NULL;
    size_t n = 0;
    for (size_t i = 0; i < idle.n; i++)
        if (!idle.v[i]->leaves) idle.v[n++] = idle.v[i];
    idle.n = n;
    FAC_INVARIANT(idle_is_valid());
    return first;
}

/* Under the lock: whether there is a place for one more in the array. By the hook: running out here is no error. */
static bool idle_has_place(void) {
    if (idle.n < idle.cap) return true;
    size_t cap = idle.cap ? idle.cap * 2 : 64;
    large **v = fac__memory_hook.alloc(fac__memory_hook.ctx, cap * sizeof *v, _Alignof(max_align_t));
    if (!v) return false;
    if (idle.n) memcpy(v, idle.v, idle.n * sizeof *v);
    fac__free(idle.v);
    idle.v = v;
    idle.cap = cap;
    return true;
}

/* Under the lock: keeps the block. What should go back to the system, the block or others, is linked by `newer`. */
static large *keep_idle(large *b) {
    const size_t limit = large_peak > KEEP_IDLE ? large_peak : KEEP_IDLE;
    large *out = idle_bytes + b->room > limit ? idle_evict(b->room, limit) : NULL;
    if (idle_bytes + b->room > limit || !idle_has_place()) {
        b->newer = out;
        return b;
    }
    size_t i = idle_find(b->room);
    memmove(idle.v + i + 1, idle.v + i, (idle.n++ - i) * sizeof *idle.v);
    idle.v[i] = b;
    idle_bytes += b->room;
    b->leaves = false;
    b->freed_at = freed_bytes;
    b->older = idle.newest;
    b->newer = NULL;
    *(idle.newest ? &idle.newest->newer : &idle.oldest) = b;
    idle.newest = b;
    FAC_INVARIANT(idle_is_valid());
    return out;
}

static void large_free(void *p) {
    large *b = (large *)(void *)((char *)p - HEADER);
    fac__mutex_lock(&lock);
    large_used -= b->room;
    freed_bytes += b->room;
    large *out = keep_idle(b);
    fac__mutex_unlock(&lock);
    for (large *next; out; out = next) {
        next = out->newer;
        system_free(out);
    }
}

/* ---- the allocator --------------------------------------------------------------------------------------------------------------- */

/* Without free lists every block is its own, so that a sanitizer sees overruns and uses after free. */
static void *plain_alloc(int64_t bytes) {
    void *p = fac__memory_hook.alloc(fac__memory_hook.ctx, bytes ? (size_t)bytes : 1, FAC_DATA_ALIGN);
    if (p) reserve_bytes((size_t)bytes);
    return p;
}
static void plain_free(void *p, int64_t bytes) {
    unreserve_bytes((size_t)bytes);
    fac__free(p);
}

static inline void *take_block(fac_thread *th, int64_t bytes) {
    if (!FAC_FREELISTS) return plain_alloc(bytes);
    return FAC_LIKELY(bytes <= SMALL_MAX) ? small_alloc(th, class_of(bytes)) : large_alloc((size_t)bytes);
}
static inline void give_block(fac_thread *th, void *p, int64_t bytes) {
    if (!FAC_FREELISTS)
        plain_free(p, bytes);
    else if (FAC_LIKELY(bytes <= SMALL_MAX))
        small_free(th, p, class_of(bytes));
    else
        large_free(p);
}

static void *pooled_alloc(const fac_allocator *self, int64_t bytes) {
    (void)self;
    if (FAC_UNLIKELY(bytes < 0)) return NULL;
    fac_thread *th = fac__tls;
    void *p = take_block(th, bytes);
    if (FAC_UNLIKELY(!p)) return NULL;
    count_bytes(th, bytes);
    count_call(th);
    return p;
}

static void pooled_free(const fac_allocator *self, void *p, int64_t bytes) {
    (void)self;
    fac_thread *th = fac__tls;
    if (!p) return;
    count_bytes(th, -bytes);
    give_block(th, p, bytes);
}

static const fac_allocator pooled = {"pooled", pooled_alloc, pooled_free, NULL};

const fac_allocator *fac_allocator_pooled(void) { return &pooled; }

/* Gives a thread's cached blocks and counts back to the pool. */
static void flush_thread(fac_thread *th) {
    for (unsigned c = 0; c < FAC_POOL_CLASSES; c++)
        if (th->blocks[c].n) spill(&th->blocks[c], c, 0);
    flush_counts(th);
}

void fac__pool_start(void) {
    const char *wanted = fac__env("FACULA_ALLOCATOR");
    bool immediate = wanted && strcmp(wanted, "immediate") == 0;
    fac__thread_on_trim(flush_thread);
    fac__allocator_default(FAC_CPU, immediate ? fac_allocator_immediate() : &pooled);
}

static void trim_slabs(unsigned c) {
    for (slab *s = partial[c], *next; s; s = next) {
        next = s->next;
        if (s->n_free < s->n_blocks) continue;
        unlink_slab(s, c);
        unreserve_bytes(SLAB_BYTES);
        fac__free(s);
    }
}

void fac_memory_trim(void) {
    if (fac__tls) flush_thread(fac__tls);
    fac__fft_plans_trim();
    fac__mutex_lock(&lock);
    for (unsigned c = 0; c < FAC_POOL_CLASSES; c++) trim_slabs(c);
    while (idle.n) system_free(idle_remove(idle.n - 1));
    fac__free(idle.v);
    idle.v = NULL;
    idle.cap = 0;
    fac__mutex_unlock(&lock);
}

/* ---- statistics ------------------------------------------------------------------------------------------------------------------------ */

static void add_counts(void *stats, fac_thread *th) {
    fac_memory_stats *s = stats;
    s->peak += atomic_load_explicit(&th->pool_peak, memory_order_relaxed);
    s->allocated += atomic_load_explicit(&th->pool_bytes, memory_order_relaxed);
    s->allocations += atomic_load_explicit(&th->pool_allocations, memory_order_relaxed);
}

/* Exact for one thread; with more, the peak may be too high by what each has not told yet, a megabyte at most. */
fac_memory_stats fac_memory_get_stats(void) {
    fac_memory_stats s = {0};
    fac__threads_each(add_counts, &s);
    int64_t told = atomic_load_explicit(&total_allocated, memory_order_relaxed);
    int64_t peak = atomic_load_explicit(&total_peak, memory_order_relaxed);
    s.allocated += told;
    s.allocations += atomic_load_explicit(&total_allocations, memory_order_relaxed);
    s.peak = fac__max(peak, s.peak + told);
    s.reserved = atomic_load_explicit(&total_reserved, memory_order_relaxed);
    return s;
}

static void forget_peak(void *context, fac_thread *th) {
    (void)context;
    int64_t now = atomic_load_explicit(&th->pool_bytes, memory_order_relaxed);
    atomic_store_explicit(&th->pool_peak, now, memory_order_relaxed);
}

void fac_memory_reset_peak(void) {
    fac__threads_each(forget_peak, NULL);
    atomic_store_explicit(&total_peak, fac_memory_get_stats().allocated, memory_order_relaxed);
}
