/* The cache of page-locked memory. Copies to and from a block run after the host has gone on, so a freed block is reused only
   when the marks behind its last copies are reached: one per stream that copied. Sizes are powers of two, so that blocks of
   like requests are interchangeable; free ones lie in a list per power. */
#include "backend/cuda/runtime/pinned.h"
#include "base/helper.h"
#include <time.h>

enum { CLASSES = 63, LEAST = 512 };
static const long POLL_NS = 100000; /* of the background thread */

typedef struct block block;

/* Copies of a block in a stream; after its free, the mark behind them. */
typedef struct use {
    struct use *next;
    block *of;
    int device;
    int64_t stream;
    fac_cuda_event *event;
} use;

struct block {
    char *p;
    int64_t size, requested;
    block *next; /* in a list of free ones */
    use *uses;
    int n_pending;
    bool in_use;
    bool registered; /* by us, rather than allocated by the driver */
    bool reserved;   /* lies in the reserved segment */
    bool lost;       /* was in use at the stop: it is no longer the driver's */
};

static struct {
    fac_mutex lock; /* of all below, and of every block */
    fac_cond wake;  /* of the background thread */
    fac_alloc_config config;
    struct {
        block **v;               /* all, by address */
        size_t n, cap, promised; /* promised: room for headers that are not in it yet */
    } blocks;
    block *free[CLASSES];
    use *first, *last; /* marks not reached yet, in the order of the frees */
    struct {
        char *p; /* segment for small requests; cut from the front */
        int64_t size, used;
        bool registered;
    } reserve;
    fac_cuda_host_memory_stats stats;
    pthread_t thread;
    bool has_thread, stopping;
} host = {.lock = FAC_MUTEX_INIT, .wake = {0}};

static char nothing[64] __attribute__((aligned(64))); /* what requests of no bytes get */

void fac__pinned_configure(const fac_alloc_config *c) {
    fac__mutex_lock(&host.lock);
    host.config = *c;
    fac__mutex_unlock(&host.lock);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------ */

/* Blocks of a class serve requests that round up to the same power of two. */
static int class_of(int64_t bytes) { return bytes <= 1 ? 0 : 64 - __builtin_clzll((unsigned long long)bytes - 1); }

static int64_t round_size(int64_t bytes) {
    if (bytes > host.config.pinned_max_round) return (bytes + LEAST - 1) / LEAST * LEAST;
    return bytes <= LEAST ? LEAST : (int64_t)1 << class_of(bytes);
}

/* ---- blocks by address --------------------------------------------------------------------------------------------------- */

/* Index of the first block that ends after p. */
static size_t find_index(const char *p) {
    size_t lo = 0, hi = host.blocks.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (host.blocks.v[mid]->p + host.blocks.v[mid]->size <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static block *block_at(const void *p) {
    size_t i = find_index(p);
    return i < host.blocks.n && host.blocks.v[i]->p <= (const char *)p ? host.blocks.v[i] : NULL;
}

/* The room is that which was promised to its header. */
static void insert(block *b) {
    size_t i = find_index(b->p);
    host.blocks.promised--;
    memmove(host.blocks.v + i + 1, host.blocks.v + i, (host.blocks.n++ - i) * sizeof b);
    host.blocks.v[i] = b;
}

static void forget(block *b) {
    size_t i = find_index(b->p);
    memmove(host.blocks.v + i, host.blocks.v + i + 1, (--host.blocks.n - i) * sizeof b);
}

/* ---- the system ------------------------------------------------------------------------------------------------------------ */

static int64_t now_us(void) { return (int64_t)(fac__now() * 1e6); }

static void count_time(int64_t *sum, int64_t *max, int64_t us) {
    *sum += us;
    *max = fac__max(*max, us);
}

static void count_system(int64_t bytes, int64_t us) {
    fac_cuda_host_memory_stats *s = &host.stats;
    fac__stat_add_one(&s->segment, bytes > 0 ? 1 : -1);
    fac__stat_add_one(&s->reserved_bytes, bytes);
    if (bytes > 0) {
        s->num_host_alloc++;
        count_time(&s->host_alloc_time_us, &s->host_alloc_time_max_us, us);
    } else {
        s->num_host_free++;
        count_time(&s->host_free_time_us, &s->host_free_time_max_us, us);
    }
}

/* Without the lock, which is taken again for counting. */
static fac_status map_counted(int64_t bytes, const fac_alloc_config *c, void **out) {
    const int64_t begin = now_us();
    FAC_TRY(fac__pinned_map(bytes, c, out));
    if (!*out) return FAC_OK;
    fac__mutex_lock(&host.lock);
    count_system(bytes, now_us() - begin);
    fac__mutex_unlock(&host.lock);
    return FAC_OK;
}

static void unmap_counted(void *p, int64_t bytes, bool registered) {
    const int64_t begin = now_us();
    fac__pinned_unmap(p, registered);
    fac__mutex_lock(&host.lock);
    count_system(-bytes, now_us() - begin);
    fac__mutex_unlock(&host.lock);
}

/* ---- free blocks -------------------------------------------------------------------------------------------------------------- */

static block *take_free(int64_t size) {
    for (block **link = &host.free[class_of(size)], *b; (b = *link); link = &b->next) {
        if (b->size < size) continue;
        *link = b->next;
        return b;
    }
    return NULL;
}

static bool is_kept(const block *b) { return !b->lost && (b->reserved || b->size <= host.config.pinned_max_cached); }

/* The block is nobody's: kept, or put on *out_drop, to be given back without the lock. */
static void settle(block *b, block **out_drop) {
    fac__stat_add_one(&host.stats.allocation, -1);
    fac__stat_add_one(&host.stats.allocated_bytes, -b->size);
    block **list = &host.free[class_of(b->size)];
    if (!is_kept(b)) {
        forget(b);
        list = out_drop;
    }
    b->next = *list;
    *list = b;
}

static void drop_list(block *b) {
    for (block *next; b; b = next) {
        next = b->next;
        if (!b->lost)
            unmap_counted(b->p, b->size, b->registered);
        else if (b->registered)
            fac__free(b->p);
        fac__free(b);
    }
}

/* ---- marks ------------------------------------------------------------------------------------------------------------------------ */

/* Nothing of it disturbs a capture. */
static fac_status look_at(const use *u, bool wait, bool *out_done) {
    CUstreamCaptureMode mode = fac__cuda_relax();
    *out_done = true;
    fac_status st = wait ? fac__cuda_event_synchronize(u->event) : fac__cuda_event_query(u->event, out_done);
    fac__cuda_unrelax(mode);
    return st;
}

/* Blocks whose marks are reached become free. A mark that cannot be asked about counts as reached: its device has failed, and
   nothing runs there any more. */
static void process(bool wait, block **out_drop) {
    for (use **link = &host.first, *u, *before = NULL; (u = *link);) {
        bool done;
        if (look_at(u, wait, &done) == FAC_OK && !done) {
            before = u;
            link = &u->next;
            continue;
        }
        *link = u->next;
        if (host.last == u) host.last = before;
        block *b = u->of;
        fac__cuda_event_put(u->event);
        fac__free(u);
        if (--b->n_pending == 0) settle(b, out_drop);
    }
}

static void append(use *u) {
    u->next = NULL;
    if (host.last)
        host.last->next = u;
    else
        host.first = u;
    host.last = u;
}

/* Puts marks behind the copies; where that fails, waits for the stream. */
static void close_uses(block *b) {
    for (use *u = b->uses, *next; u; u = next) {
        next = u->next;
        if (fac__cuda_event_take(u->device, false, &u->event) == FAC_OK &&
            fac__cuda_event_record(u->event, u->device, u->stream) == FAC_OK) {
            append(u);
            b->n_pending++;
            continue;
        }
        fac__cuda_event_put(u->event);
        (void)fac__cuda_stream_synchronize(u->device, u->stream);
        fac__free(u);
    }
    b->uses = NULL;
}

/* ---- the background thread --------------------------------------------------------------------------------------------------------- */

static void *background(void *unused) {
    const struct timespec pause = {0, POLL_NS};
    (void)unused;
    fac__cuda_helper_begin();
    fac__mutex_lock(&host.lock);
    while (!host.stopping) {
        block *drop = NULL;
        process(false, &drop);
        if (!host.first && !drop) {
            fac__cond_wait(&host.wake, &host.lock);
            continue;
        }
        fac__mutex_unlock(&host.lock);
        drop_list(drop);
        nanosleep(&pause, NULL);
        fac__mutex_lock(&host.lock);
    }
    fac__mutex_unlock(&host.lock);
    return NULL;
}

/* Where no thread can be had, allocations look after the marks as they do without the option. */
static void wake_background(void) {
    if (!host.config.pinned_background) return;
    if (!host.has_thread) host.has_thread = fac__helper_start(&host.thread, 0, background, NULL);
    fac__cond_announce(&host.wake);
}

static void stop_background(void) {
    fac__mutex_lock(&host.lock);
    const bool had = host.has_thread;
    host.stopping = true;
    fac__cond_announce(&host.wake);
    fac__mutex_unlock(&host.lock);
    if (had) pthread_join(host.thread, NULL);
    host.has_thread = host.stopping = false;
}

/* ---- allocating ------------------------------------------------------------------------------------------------------------------------ */

/* The reserved segment is made by the first request; failing that, there is none. */
static fac_status make_reserve(const fac_alloc_config *c) {
    void *p;
    fac__mutex_lock(&host.lock);
    const bool there = host.reserve.p != NULL;
    fac__mutex_unlock(&host.lock);
    if (there) return FAC_OK;
    FAC_TRY(map_counted(c->pinned_reserve, c, &p));
    if (!p) return FAC_OK;
    fac__mutex_lock(&host.lock);
    const bool wanted = !host.reserve.p;
    if (wanted) {
        host.reserve.p = p;
        host.reserve.size = c->pinned_reserve;
        host.reserve.registered = c->pinned_register;
    }
    fac__mutex_unlock(&host.lock);
    if (!wanted) unmap_counted(p, c->pinned_reserve, c->pinned_register); /* another thread was first */
    return FAC_OK;
}

static char *cut_reserve(int64_t size) {
    if (!host.reserve.p || size > host.reserve.size - host.reserve.used) return NULL;
    char *p = host.reserve.p + host.reserve.used;
    host.reserve.used += size;
    return p;
}

static void hand_out(block *b, int64_t bytes) {
    b->in_use = true;
    b->requested = bytes;
    fac__stat_add_one(&host.stats.allocation, 1);
    fac__stat_add_one(&host.stats.allocated_bytes, b->size);
    fac__stat_add_one(&host.stats.active_requests, 1);
    fac__stat_add_one(&host.stats.active_bytes, bytes);
}

/* A cached block, or one from the reserved segment for which `fresh` is the header. */
static block *from_cache(int64_t bytes, int64_t size, block *fresh) {
    block *b = take_free(size);
    if (!b && fresh && (fresh->p = cut_reserve(size))) {
        b = fresh;
        b->size = size;
        b->reserved = true;
        insert(b);
    }
    if (b) hand_out(b, bytes);
    return b;
}

/* Takes the lock. */
static block *look(int64_t bytes, fac_alloc_config *out_config, int64_t *out_size, block *fresh) {
    block *drop = NULL;
    fac__mutex_lock(&host.lock);
    *out_config = host.config;
    *out_size = round_size(bytes);
    if (!host.has_thread) process(false, &drop);
    block *b = from_cache(bytes, *out_size, fresh);
    fac__mutex_unlock(&host.lock);
    drop_list(drop);
    return b;
}

/* The header is ready and there is room in the table. */
static fac_status from_system(int64_t bytes, int64_t size, const fac_alloc_config *c, block *b) {
    void *p;
    FAC_TRY(map_counted(size, c, &p));
    if (!p) { /* what is cached may be what is missing */
        FAC_TRY(fac_cuda_host_empty_cache());
        FAC_TRY(map_counted(size, c, &p));
    }
    FAC_CHECK(p, FAC_ERR_MEMORY, "out of page-locked host memory: tried to allocate %lld bytes, %lld are in use",
              (long long)size, (long long)fac_cuda_get_host_memory_stats().allocated_bytes.current);
    *b = (block){.p = p, .size = size, .registered = c->pinned_register};
    fac__mutex_lock(&host.lock);
    insert(b);
    hand_out(b, bytes);
    fac__mutex_unlock(&host.lock);
    return FAC_OK;
}

/* A header, and the promise of room for it in the table, so that memory got from the driver always has a place. */
static block *new_header(void) {
    block *b = fac__alloc_zero(sizeof *b);
    if (!b) return NULL;
    fac__mutex_lock(&host.lock);
    size_t wanted = host.blocks.n + ++host.blocks.promised;
    block **v = host.blocks.v;
    if (wanted > host.blocks.cap) {
        size_t cap = 2 * wanted + 64;
        v = fac__realloc(host.blocks.v, host.blocks.n * sizeof *v, cap * sizeof *v);
        if (v) {
            host.blocks.v = v;
            host.blocks.cap = cap;
        } else
            host.blocks.promised--;
    }
    fac__mutex_unlock(&host.lock);
    if (v) return b;
    fac__free(b);
    return NULL;
}

/* A header that was not needed. */
static void free_header(block *b) {
    fac__mutex_lock(&host.lock);
    host.blocks.promised--;
    fac__mutex_unlock(&host.lock);
    fac__free(b);
}

static bool wants_reserve(const fac_alloc_config *c, int64_t size) {
    return c->pinned_reserve > 0 && size <= c->pinned_reserve;
}

static fac_status allocate(int64_t bytes, block **out) {
    fac_alloc_config c;
    int64_t size;
    FAC_TRY(fac__cuda_start());
    FAC_TRY(fac__cuda_alloc_options(&c));
    if ((*out = look(bytes, &c, &size, NULL))) return FAC_OK;
    block *fresh = new_header();
    if (!fresh) return FAC_ERR_MEMORY;
    fac_status st = wants_reserve(&c, size) ? make_reserve(&c) : FAC_OK;
    if (st == FAC_OK && !(*out = look(bytes, &c, &size, fresh))) {
        st = from_system(bytes, size, &c, fresh);
        *out = fresh;
    }
    if (st != FAC_OK || *out != fresh) free_header(fresh);
    return st;
}

static void *face_alloc(const fac_allocator *self, int64_t bytes) {
    block *b = NULL;
    (void)self;
    if (bytes == 0) return nothing;
    if (bytes < 0 || bytes > INT64_MAX / 4) {
        FAC_FAIL(bytes < 0 ? FAC_ERR_ARGUMENT : FAC_ERR_MEMORY, "cannot allocate %lld bytes of page-locked memory",
                 (long long)bytes);
        return NULL;
    }
    return allocate(bytes, &b) == FAC_OK ? b->p : NULL;
}

/* ---- freeing ---------------------------------------------------------------------------------------------------------------------------- */

static void free_table(void) {
    fac__free(host.blocks.v);
    host.blocks.v = NULL;
    host.blocks.cap = 0;
}

static bool free_locked(void *p, block **out_drop) {
    block *b = block_at(p);
    if (!b || b->p != p || !b->in_use) return false;
    b->in_use = false;
    fac__stat_add_one(&host.stats.active_requests, -1);
    fac__stat_add_one(&host.stats.active_bytes, -b->requested);
    close_uses(b);
    if (b->n_pending == 0)
        settle(b, out_drop);
    else
        wake_background();
    if (host.blocks.n == 0 && !fac__cuda_running()) free_table(); /* that was the last one from before the stop */
    return true;
}

/* With pinned_free_catch_all an error that the free itself met becomes a warning. */
static void swallow(bool pending_before) {
    if (pending_before || fac_error() == FAC_OK) return;
    fac__warn("while page-locked memory was freed: %s", fac_error_message());
    fac_error_clear();
}

static void face_free(const fac_allocator *self, void *p, int64_t bytes) {
    block *drop = NULL;
    (void)self, (void)bytes;
    if (!p || p == nothing) return;
    const bool pending = fac_error() != FAC_OK;
    fac__mutex_lock(&host.lock);
    const bool known = free_locked(p, &drop), catch_all = host.config.pinned_catch_all;
    fac__mutex_unlock(&host.lock);
    drop_list(drop);
    if (!known) FAC_FAIL(FAC_ERR_STATE, "%p was freed, but is no block of page-locked memory in use", p);
    if (catch_all) swallow(pending);
}

static const fac_allocator face = {"page-locked", face_alloc, face_free, NULL};

const fac_allocator *fac__cuda_host_allocator(void) { return &face; }

/* ---- questions ------------------------------------------------------------------------------------------------------------------------------ */

bool fac__cuda_is_host_memory(const void *p) {
    CUmemorytype type = 0;
    if (!p) return false;
    if (p == nothing) return true;
    fac__mutex_lock(&host.lock);
    const bool ours = block_at(p) != NULL;
    fac__mutex_unlock(&host.lock);
    if (ours) return true;
    return fac__cuda_running() &&
           fac__cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)p) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

fac_status fac__cuda_host_record(const void *p, int index, int64_t stream) {
    fac_status st = FAC_OK;
    fac__mutex_lock(&host.lock);
    block *b = p ? block_at(p) : NULL;
    use *u = b && b->in_use ? b->uses : NULL;
    while (u && (u->device != index || u->stream != stream)) u = u->next;
    if (b && b->in_use && !u) {
        u = fac__alloc(sizeof *u);
        if (u) {
            *u = (use){.next = b->uses, .of = b, .device = index, .stream = stream};
            b->uses = u;
        }
        st = u ? FAC_OK : FAC_ERR_MEMORY;
    }
    fac__mutex_unlock(&host.lock);
    return st;
}

fac_cuda_host_memory_stats fac_cuda_get_host_memory_stats(void) {
    fac__mutex_lock(&host.lock);
    fac_cuda_host_memory_stats s = host.stats;
    fac__mutex_unlock(&host.lock);
    return s;
}

/* The counters that have a peak are the first six. */
enum { N_STATS = offsetof(fac_cuda_host_memory_stats, num_host_alloc) / sizeof(fac_memory_stat) };

void fac_cuda_reset_peak_host_memory_stats(void) {
    fac__mutex_lock(&host.lock);
    fac_memory_stat *v = &host.stats.allocation;
    for (int i = 0; i < N_STATS; i++) v[i].peak = v[i].current;
    fac__mutex_unlock(&host.lock);
}

void fac_cuda_reset_accumulated_host_memory_stats(void) {
    fac__mutex_lock(&host.lock);
    fac_cuda_host_memory_stats *s = &host.stats;
    fac_memory_stat *v = &s->allocation;
    for (int i = 0; i < N_STATS; i++) v[i].allocated = v[i].freed = 0;
    s->num_host_alloc = s->num_host_free = 0;
    s->host_alloc_time_us = s->host_alloc_time_max_us = s->host_free_time_us = s->host_free_time_max_us = 0;
    fac__mutex_unlock(&host.lock);
}

/* ---- giving back -------------------------------------------------------------------------------------------------------------------------------- */

/* Free blocks that are not parts of the reserved segment, taken out of the table. */
static block *take_all_free(void) {
    block *all = NULL;
    for (int c = 0; c < CLASSES; c++) {
        for (block **link = &host.free[c], *b; (b = *link);) {
            if (b->reserved) {
                link = &b->next;
                continue;
            }
            *link = b->next;
            forget(b);
            b->next = all;
            all = b;
        }
    }
    return all;
}

fac_status fac_cuda_host_empty_cache(void) {
    block *drop = NULL;
    fac__mutex_lock(&host.lock);
    process(false, &drop);
    block *all = take_all_free();
    fac__mutex_unlock(&host.lock);
    drop_list(drop);
    drop_list(all);
    return FAC_OK;
}

/* What users still hold is no longer the driver's; its header stays for the sake of its free. */
static void lose(block *b) {
    if (b->lost) return; /* at an earlier stop */
    for (use *u = b->uses, *next; u; u = next) {
        next = u->next;
        fac__free(u);
    }
    b->uses = NULL;
    b->lost = true;
    if (!b->reserved) count_system(-b->size, 0);
}

static void drop_reserve(void) {
    for (int c = 0; c < CLASSES; c++) {
        for (block *b; (b = host.free[c]);) {
            host.free[c] = b->next;
            forget(b);
            fac__free(b);
        }
    }
    if (host.reserve.p) {
        fac__pinned_unmap(host.reserve.p, host.reserve.registered);
        count_system(-host.reserve.size, 0);
    }
    memset(&host.reserve, 0, sizeof host.reserve);
}

/* Blocks in use stay in the table, so that they can be freed later. */
void fac__pinned_stop(void) {
    block *drop = NULL;
    stop_background();
    fac__mutex_lock(&host.lock);
    process(true, &drop);
    block *all = take_all_free();
    fac__mutex_unlock(&host.lock);
    drop_list(drop);
    drop_list(all);
    fac__mutex_lock(&host.lock);
    for (size_t i = 0; i < host.blocks.n; i++)
        if (host.blocks.v[i]->in_use) lose(host.blocks.v[i]);
    drop_reserve();
    if (host.blocks.n == 0) {
        free_table();
        memset(&host.stats, 0, sizeof host.stats);
    }
    fac__mutex_unlock(&host.lock);
}
