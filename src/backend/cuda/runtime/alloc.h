/* The caching allocator of one device, over any source of memory (facula/cuda_memory.h). What each file does:

   alloc.c          requests, frees, and the order in which memory is looked for
   alloc_blocks.c   headers of blocks, the table of blocks in use, the trees of free ones
   alloc_pool.c     pools per stream, segments, splitting and merging, giving back
   alloc_expand.c   expandable segments
   alloc_events.c   blocks that were used in other streams
   alloc_capture.c  private pools of captured graphs
   alloc_trace.c    call stacks and the history of events
   alloc_oom.c      observers and the message when memory is out
   alloc_config.c   the options
   alloc_valid.c    what always holds, for debug builds

   and for CUDA (alloc_cuda.h): alloc_cuda.c the allocators of the devices and the public functions, alloc_source.c what they
   ask of the driver, alloc_graph.c the order within a captured graph.

   Everything but the fields marked otherwise is guarded by `lock`. The lock is dropped around the source's alloc and map, and
   whenever a function of the user's is called; whoever had it must then look again. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_ALLOC_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_ALLOC_H

#include "backend/cuda/runtime/alloc_config.h"
#include "base/mutex.h"
#include <facula/cuda_memory.h>

#define FAC_MIB ((int64_t)1 << 20)
#define FAC_BLOCK_MIN 512     /* sizes are multiples of this */
#define FAC_SMALL_MAX FAC_MIB /* the largest request that comes from the small pool */
#define FAC_SMALL_SEGMENT (2 * FAC_MIB)
#define FAC_LARGE_MIN (10 * FAC_MIB)    /* requests below share large segments */
#define FAC_SEGMENT_ROUND (2 * FAC_MIB) /* others have their own, rounded to this */

typedef struct fac_block fac_block;
typedef struct fac_segment fac_segment;
typedef struct fac_arena fac_arena;
typedef struct fac_call_stack fac_call_stack;

/* Free blocks by size, then address: a treap. */
typedef struct fac_block_tree {
    fac_block *root;
    size_t n;
} fac_block_tree;

/* The free blocks of a stream, of one size class. Lives as long as its arena. */
typedef struct fac_stream_pool {
    int64_t stream;
    fac_arena *arena;
    bool small;
    fac_block_tree free, unmapped; /* unmapped: address space of expandable segments */
    int64_t searches;              /* by which ages are counted */
} fac_stream_pool;

/* A use of a block in another stream; after the block is freed, a mark that its reuse waits for. */
typedef struct fac_block_use {
    struct fac_block_use *next; /* of the block, or of the stream's queue */
    fac_block *block;
    int64_t stream;
    void *event; /* or, while capturing, the mark in the graph */
} fac_block_use;

/* Pending blocks wait for marks. Unmapped ones have addresses only; mapping ones are about to get memory, without the lock. */
typedef enum fac_block_status { FAC_FREE, FAC_IN_USE, FAC_PENDING, FAC_UNMAPPED, FAC_MAPPING } fac_block_status;

static inline bool fac__has_memory(fac_block_status s) { return s < FAC_UNMAPPED; }

/* A part of a segment. Blocks of a segment follow each other without gaps; two free ones are never neighbours. */
struct fac_block {
    char *p;
    int64_t size, requested;
    fac_stream_pool *pool;
    fac_segment *segment;
    fac_block *prev, *next;  /* neighbours in the segment */
    fac_block *left, *right; /* in a tree; `left` links headers that are spare, and deferred blocks */
    fac_block *chain;        /* in the table of blocks in use */
    uint32_t priority;       /* in a tree */
    fac_block_status status;
    bool oversize;    /* counted as an oversize allocation */
    int n_pending;    /* marks not reached yet */
    int64_t searches; /* of the pool when the block became free */
    fac_block_use *uses;
    fac_call_stack *stack; /* where it was allocated, while history is recorded */
};

/* What the source gave in one piece, or an address range in which memory is mapped as needed. */
struct fac_segment {
    fac_segment *prev, *next; /* of the allocator */
    fac_stream_pool *pool;
    char *p;
    int64_t size, mapped; /* mapped == size unless expandable */
    int64_t unit;         /* expandable: memory is mapped in multiples of this */
    bool expandable, oversize;
    fac_block *first;
    fac_call_stack *stack;
};

/* The pools that share segments: the common arena, or that of the graphs which share a pool. */
struct fac_arena {
    fac_arena *next;
    int64_t id[2];
    int users;    /* graphs and captures that hold it; the common one has one for ever */
    int64_t held; /* segments */
    int requests; /* under way */
    bool on_oom;  /* may serve others when memory is out */
    struct {
        fac_stream_pool **v;
        size_t n, cap;
    } pools;
};

/* Allocations in streams of this capture go to this arena. */
typedef struct fac_route {
    uint64_t capture;
    fac_arena *arena;
} fac_route;

/* Marks of one stream, in order: they are reached in order too. */
typedef struct fac_pending_queue {
    int64_t stream;
    fac_block_use *first, *last;
} fac_pending_queue;

/* A call stack with the text that goes with it; counted, the count being guarded by the lock of the allocator. */
struct fac_call_stack {
    int refs, n;
    void **frames;
    char *metadata;
};

typedef struct fac_alloc_event {
    fac_memory_action action;
    uint64_t address;
    int64_t size, stream, time_us;
    fac_call_stack *stack;
} fac_alloc_event;

/* The history: a ring of the latest events, and those that trackers have not been told of yet. */
typedef struct fac_alloc_trace {
    atomic_int level;     /* a fac_memory_history; also read without the lock */
    int64_t limit, first; /* of the ring; `first` is the oldest once it is full */
    struct {
        fac_alloc_event *v;
        size_t n, cap;
    } ring, untold;
} fac_alloc_trace;

struct fac_caching_allocator {
    fac_allocator face;       /* not guarded; context is the allocator */
    fac_memory_source source; /* not guarded: never changes */
    int device;               /* likewise */
    fac_mutex lock;           /* of all below */
    fac_alloc_config config;
    bool caching, poison;
    bool abandoned;            /* goes with its last block */
    int64_t limit, promised;   /* bytes that may be reserved; being asked of the source now */
    fac_arena common, *arenas; /* arenas: the private ones */
    struct {
        fac_route *v;
        size_t n, cap;
    } routes;
    struct {
        fac_pending_queue *v;
        size_t n, cap;
    } pending;
    fac_block *deferred; /* freed during a capture with uses; linked by `left` */
    struct {
        fac_block **v;
        size_t n, buckets;
    } in_use;
    fac_block *spare; /* headers */
    size_t n_spare;
    fac_segment *segments;
    fac_cuda_memory_stats stats;
    fac_alloc_trace trace;
};

/* A request while it is served. */
typedef struct fac_request {
    fac_stream_pool *pool;
    int64_t requested, size, segment;
    fac_block *found; /* in no tree */
    fac_call_stack *stack;
    int64_t refused; /* bytes that the source did not have; 0 if it was not asked in vain */
    bool capturing, rejected;
} fac_request;

/* ---- alloc.c ------------------------------------------------------------------------------------------------------- */

/* With backend:cudaMallocAsync in the options nothing is cached: then the source's memory is stream-ordered. */
fac_caching_allocator *fac__cache_new(const fac_memory_source *source, int device, const fac_alloc_config *c);
void *fac__cache_alloc(fac_caching_allocator *a, int64_t bytes, int64_t stream);
void fac__cache_free(fac_caching_allocator *a, void *p);
int64_t fac__cache_round(const fac_alloc_config *c, int64_t bytes);
/* Takes the lock, and drops it and tells trackers what happened. */
void fac__cache_lock(fac_caching_allocator *a);
void fac__cache_unlock(fac_caching_allocator *a);
/* New options; the caller has parsed them. Takes the lock. */
void fac__cache_configure(fac_caching_allocator *a, const fac_alloc_config *c);
/* Sets the bytes that may be reserved to a share of the device's. Takes the lock. */
fac_status fac__cache_set_fraction(fac_caching_allocator *a, double fraction);
/* The end of an allocator whose source is gone or about to go: frees what is free, and the allocator with its last block. */
void fac__cache_abandon(fac_caching_allocator *a);
/* Whether p is what requests of no bytes get. */
bool fac__cache_is_nothing(const void *p);
/* Whether p begins a block in use. Takes the lock. */
bool fac__cache_owns(fac_caching_allocator *a, const void *p);

/* ---- alloc_valid.c ---------------------------------------------------------------------------------------------------- */

/* True, under the lock: blocks tile segments, free ones are joined and in their trees, and counts agree; each condition that does
   not hold is a bug by its own name. */
bool fac__cache_is_valid(const fac_caching_allocator *a);
/* Drops the lock with nothing told to trackers: for a source's call in the middle of a request, and for telling. */
static inline void fac__cache_drop_lock(fac_caching_allocator *a) {
    FAC_INVARIANT(fac__cache_is_valid(a));
    fac__mutex_unlock(&a->lock);
}

/* ---- alloc_blocks.c -------------------------------------------------------------------------------------------------- */

void fac__tree_add(fac_block_tree *t, fac_block *b);
void fac__tree_remove(fac_block_tree *t, fac_block *b);
/* The smallest block of at least `size`, NULL if there is none; the next and the one before in order; the last. */
fac_block *fac__tree_at_least(const fac_block_tree *t, int64_t size);
fac_block *fac__tree_after(const fac_block_tree *t, const fac_block *b);
fac_block *fac__tree_before(const fac_block_tree *t, const fac_block *b);
fac_block *fac__tree_last(const fac_block_tree *t);

/* Ensures that n headers can be taken without allocating. */
fac_status fac__headers_reserve(fac_caching_allocator *a, size_t n);
fac_block *fac__header_take(fac_caching_allocator *a);
void fac__header_give(fac_caching_allocator *a, fac_block *b);
void fac__headers_free(fac_caching_allocator *a);

void fac__in_use_add(fac_caching_allocator *a, fac_block *b);
fac_block *fac__in_use_find(const fac_caching_allocator *a, const void *p);
void fac__in_use_remove(fac_caching_allocator *a, fac_block *b);

/* ---- alloc_pool.c ------------------------------------------------------------------------------------------------------ */

/* The pool of a stream in an arena, made on first use. */
fac_status fac__pool_get(fac_arena *arena, int64_t stream, bool small, fac_stream_pool **out);
void fac__arena_free_pools(fac_arena *arena);
/* Moves a block into the free tree of its pool, joined with its free neighbours, and out of it again. put gives the block
   that it is part of now. */
fac_block *fac__block_put(fac_caching_allocator *a, fac_block *b);
void fac__block_take(fac_caching_allocator *a, fac_block *b);
/* Cuts b at `size`: the rest becomes its next neighbour, in no tree, with the same status. Needs a spare header. */
fac_block *fac__block_split(fac_caching_allocator *a, fac_block *b, int64_t size);
/* Joins b and its next neighbour, both in no tree; b stays. */
void fac__block_join(fac_caching_allocator *a, fac_block *b);
/* The best free block for a request, taken out of its tree; false if there is none. */
bool fac__pool_find(fac_caching_allocator *a, fac_request *r, fac_stream_pool *pool);
/* A new segment from the source; drops the lock meanwhile. FAC_OK without r->found when there is no memory. */
fac_status fac__segment_new(fac_caching_allocator *a, fac_request *r);
/* Fills in a segment of r's pool with b as its one block, and the end of it. */
fac_segment *fac__segment_adopt(fac_caching_allocator *a, fac_segment *s, fac_block *b, const fac_request *r, char *p,
                                int64_t size, bool expandable);
void fac__segment_drop(fac_caching_allocator *a, fac_segment *s);
/* Gives a segment that is one free block back; the block is in no tree. */
void fac__segment_release(fac_caching_allocator *a, fac_block *b);
/* Whether `bytes` more may be reserved. */
bool fac__within_limit(const fac_caching_allocator *a, int64_t bytes);
/* Gives back: enough oversize blocks for a request; the oldest free blocks above the threshold; every free segment of arenas
   without users. */
bool fac__release_oversize(fac_caching_allocator *a, const fac_request *r);
void fac__collect_garbage(fac_caching_allocator *a);
void fac__release_all(fac_caching_allocator *a);
/* Sanitizers and poison: b is handed out, or free. */
void fac__block_open(fac_caching_allocator *a, fac_block *b);
void fac__block_close(fac_caching_allocator *a, fac_block *b);
void fac__guard_all(fac_caching_allocator *a, const fac_stream_pool *pool, void *p, int64_t bytes, bool usable);

/* Counting. */
void fac__stat_add(fac_memory_stat_by_pool *s, bool small, int64_t n);
void fac__stat_add_one(fac_memory_stat *s, int64_t n);

/* ---- alloc_expand.c ----------------------------------------------------------------------------------------------------- */

/* Serves a request from an expandable segment, mapping memory as needed. FAC_OK without r->found when there is none. */
fac_status fac__expand(fac_caching_allocator *a, fac_request *r);
/* Unmaps what can be of a free block, which is in no tree; the rest is put back. Returns the bytes given back. */
int64_t fac__shrink(fac_caching_allocator *a, fac_block *b);
/* Unmaps whatever is mapped of a segment that is about to be dropped. */
void fac__unmap_all(fac_caching_allocator *a, const fac_segment *s);
/* Calls fn for each mapped unit of the expandable segments. Takes the lock. */
fac_status fac__cache_open(fac_caching_allocator *a, int reader,
                           fac_status (*fn)(fac_caching_allocator *a, void *p, int64_t bytes, int reader));

/* ---- alloc_events.c -------------------------------------------------------------------------------------------------------- */

/* Notes that a block is used in a stream. */
fac_status fac__use_add(fac_caching_allocator *a, fac_block *b, int64_t stream);
/* Forgets the uses of a block, none of which has a mark. */
void fac__uses_drop(fac_block *b);
/* A block was freed that has uses: records a mark in each stream, or defers it while a capture is under way. */
void fac__uses_close(fac_caching_allocator *a, fac_block *b);
/* Frees blocks whose marks are reached; with `wait`, waits for all. */
fac_status fac__pending_process(fac_caching_allocator *a, bool wait);
/* At the end: waits, and lets go what cannot be waited for. */
void fac__pending_finish(fac_caching_allocator *a);
/* Frees blocks that were deferred, once no capture is under way; or, for reuse within a capture, those passed. */
void fac__deferred_close(fac_caching_allocator *a);
void fac__deferred_reuse(fac_caching_allocator *a, int64_t stream);
/* The block is nobody's any more: counts, and puts it into its pool. */
void fac__block_finish(fac_caching_allocator *a, fac_block *b);

/* ---- alloc_capture.c --------------------------------------------------------------------------------------------------------- */

/* Sends allocations in streams of a capture to the private arena of this id, which is made if need be and held until
   fac__cache_arena_release. The end, which comes after the capture's own, undoes the sending, not the holding. All three take the
   lock. */
fac_status fac__cache_capture_begin(fac_caching_allocator *a, uint64_t capture, const int64_t arena_id[2]);
fac_status fac__cache_capture_end(fac_caching_allocator *a, uint64_t capture);
/* Drops one hold; at the last, the arena's segments may be given back. */
fac_status fac__cache_arena_release(fac_caching_allocator *a, const int64_t arena_id[2]);
/* Lets the arena's free blocks serve other requests when memory is out. */
fac_status fac__cache_arena_use_on_oom(fac_caching_allocator *a, const int64_t arena_id[2]);
/* The arena for an allocation in a stream. */
fac_arena *fac__arena_for(fac_caching_allocator *a, int64_t stream);
/* Frees private arenas that nobody holds and that have no segment. */
void fac__arenas_tidy(fac_caching_allocator *a);

/* ---- alloc_trace.c ------------------------------------------------------------------------------------------------------------- */

/* The caller's stack, if history is recorded that wants it; NULL otherwise or when host memory is out. Without the lock. */
fac_call_stack *fac__stack_here(const fac_caching_allocator *a, fac_memory_history from);
fac_call_stack *fac__stack_ref(fac_call_stack *s);
void fac__stack_unref(fac_call_stack *s);
void fac__trace(fac_caching_allocator *a, fac_memory_action action, const void *p, int64_t size, int64_t stream,
                fac_call_stack *stack);
void fac__trace_clear(fac_caching_allocator *a);
/* Hands the untold events to trackers; called with the lock, which is dropped. */
void fac__trace_tell_and_unlock(fac_caching_allocator *a);
fac_status fac__cache_record_history(fac_caching_allocator *a, fac_memory_history what, int64_t max_entries);
/* Microseconds since 1970. */
int64_t fac__wall_us(void);

/* ---- stats.c ---------------------------------------------------------------------------------------------------------- */

/* One counter by PyTorch's name; false if there is none of that name. */
bool fac__stats_find(const fac_cuda_memory_stats *s, const char *name, int64_t *out);
/* Peaks become the present values; sums and counts of events become zero. */
void fac__stats_reset_peaks(fac_cuda_memory_stats *s);
void fac__stats_reset_sums(fac_cuda_memory_stats *s);
/* The table for people; to be freed with fac_string_free. */
char *fac__stats_summary(const fac_cuda_memory_stats *s, int device, bool abbreviated);

/* ---- snapshot.c --------------------------------------------------------------------------------------------------------- */

/* Appends the segments and events of an allocator. Takes the lock. On failure s is still to be freed. */
fac_status fac__cache_snapshot(fac_caching_allocator *a, fac_memory_snapshot *s);
void fac__snapshot_sort(fac_memory_snapshot *s);
/* Writes a snapshot to a file, as JSON or as a pickle. */
fac_status fac__snapshot_write(const fac_memory_snapshot *s, const char *path);

/* ---- alloc_oom.c ----------------------------------------------------------------------------------------------------------------- */

/* Runs the callbacks that may free memory; true if one did. Drops the lock meanwhile. */
bool fac__run_callbacks(fac_caching_allocator *a);
/* Counts, tells the observers and sets the error; called with the lock, which is dropped. */
fac_status fac__out_of_memory(fac_caching_allocator *a, const fac_request *r);
/* Whether any tracker is attached. */
bool fac__have_trackers(void);
void fac__tell_trackers(const fac_memory_event *e);

#endif
