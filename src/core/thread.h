/* All state of one thread, behind one initial-exec pointer that a call path loads once. */
#ifndef FAC_SRC_CORE_THREAD_H
#define FAC_SRC_CORE_THREAD_H

#include "base/base.h"
#include "base/sanitizers.h"
#include "core/keyset.h"

#define FAC_FREELIST_MAX 256 /* headers kept per list and thread */
#define FAC_POOL_CLASSES 19  /* small sizes that the pooled allocator keeps per thread */
/* Nothing is kept for reuse under AddressSanitizer, so that use after free is seen. */
#define FAC_FREELISTS (!FAC_UNDER_ASAN)
#define FAC_DUAL_DEPTH 32
#define FAC_SMALL_CLASSES 8 /* size classes of 128 bytes for small blocks */

typedef struct fac_scope_mark {
    size_t start;
    uint64_t serial;
} fac_scope_mark;

typedef struct fac_freelist {
    void *head; /* linked through the first word of each free object */
    uint32_t n;
} fac_freelist;

/* Offsets that a call has taken from a generator: see generator.h. */
typedef struct fac_draws {
    fac_generator *g; /* counted; NULL: no such operator runs; see generator.c for one that has drawn nothing */
    uint64_t before, n;
} fac_draws;

/* What is known of a pending error besides its code and message. Strings are cut short that do not fit. */
typedef struct fac_error_facts {
    const char *source_file; /* in the library; literals */
    int source_line;
    int line; /* of the call in the program; 0: not known yet, -1: will not be known */
    char file[160];
    char op[64], arg[64];
    char operands[256];
    const void *module; /* the outermost one that has failed so far; only compared */
    char path[192];     /* from there to the innermost one */
    char kind[48];      /* of the innermost one */
    bool told;          /* the error handler has been called */
} fac_error_facts;

/* What a region of autocast says: see facula/amp.h. A thread where something is on includes the key Autocast. */
typedef struct fac_autocast {
    uint8_t on;       /* kinds of devices, as bits: FAC_AUTOCAST_... */
    uint8_t dtype[2]; /* fac_dtype, by the same numbers; 0: the device's own */
    bool uncached;    /* casts of weights are not kept */
} fac_autocast;
enum { FAC_AUTOCAST_CPU, FAC_AUTOCAST_CUDA };

typedef struct fac_thread {
    /* error record: code 0 means none; message is a static buffer or allocated */
    fac_status error;
    char *error_message; /* points into error_text or the heap */
    char error_text[512];
    fac_error_facts facts;

    /* scopes: one vector of owned temporaries, and marks into it */
    fac_tensor **temps;
    size_t n_temps, cap_temps;
    fac_scope_mark *marks;
    size_t n_scopes, cap_scopes;
    uint64_t next_serial;

    /* dispatch */
    fac_keyset include, exclude;
    fac_autocast autocast;
    int autocast_regions;                      /* open ones */
    struct fac_cast_cache *casts;              /* of weights: amp/autocast.c */
    void (*drop_casts)(struct fac_thread *th); /* set with casts */

    /* autograd */
    bool grad_disabled; /* no_grad */
    bool inference;     /* inference mode */
    bool create_graph;  /* set while a backward pass with create_graph runs */
    int backward_depth; /* nested engine runs on this thread */
    uint64_t next_seq;  /* recency of the nodes this thread makes */
    bool tangents_off;  /* fac_set_fwd_grad_enabled(false) */
    int dual_depth;     /* dual levels that this thread has open: see autograd/forward.h */
    uint8_t dual_levels[FAC_DUAL_DEPTH];
    const void *skip_node; /* the node that runs in a pass with named targets, */
    uint64_t skip_edges;   /* and which of its first 64 edges lead to none of them */

    /* free lists */
    fac_freelist tensors; /* slots: see core/slot.h */
    fac_freelist storages, versions, small[FAC_SMALL_CLASSES];
    fac_freelist blocks[FAC_POOL_CLASSES]; /* of the CPU's allocator: see backend/cpu/allocator_pooled.c */

    /* counts that only this thread writes and any thread may read */
    _Atomic(int64_t) live;                                    /* objects made less objects freed here */
    _Atomic(int64_t) pool_bytes, pool_peak, pool_allocations; /* since the last flush to the process's counts */
    struct fac_thread *next, *prev;                           /* all threads that have a state */

    fac_draws draws; /* of the random operator that runs */

    int num_threads; /* for parallel_for; 0 = default */
    int callbacks;   /* functions of the program's that the library is calling on this thread */

    _Atomic(uint64_t) *cancel; /* where fac_cancel leaves word (core/cancel.c); NULL if there was no place left */
    int64_t number;            /* what fac_cancel knows the thread by; 0 without a place */

    const struct fac_batch_level *batch; /* the innermost vmap that operators see: ops/batch/batch.h */
} fac_thread;

extern _Thread_local fac_thread *fac__tls __attribute__((tls_model("initial-exec")));
/* Makes the calling thread's state (and starts the library). Never NULL: when memory is out, a shared record with a
   pending FAC_ERR_MEMORY is returned. */
fac_thread *fac__thread_start(void);
static inline fac_thread *fac__thread(void) {
    fac_thread *t = fac__tls;
    return FAC_LIKELY(t != NULL) ? t : fac__thread_start();
}
/* Gives the calling thread's cached headers and blocks back. */
void fac__thread_trim(void);
/* `trim` is called from now on, on the thread, when one is trimmed or ends: a room's start says what else it keeps for
   each thread. Saying it again changes nothing, and it stays said after fac_shutdown, since threads may end later. */
void fac__thread_on_trim(void (*trim)(fac_thread *th));
/* The calling thread's state without making one: NULL if it has none, the shared record with a pending error if memory
   was out when it asked. fac__thread_forgive forgets the latter, so that the next call tries again. */
fac_thread *fac__thread_if_any(void);
void fac__thread_forgive(void);
/* Frees the calling thread's state; the next call that needs one makes it afresh. */
void fac__thread_end(void);
/* Calls `visit` for each thread that has a state, under a lock: visit may read the atomic counts only. */
void fac__threads_each(void (*visit)(void *context, fac_thread *th), void *context);
/* Ends every open scope of a thread. */
void fac__scopes_end_all(fac_thread *th);
/* True between fac_init and fac_shutdown; read without a lock by every scope's begin. */
extern FAC_HIDDEN atomic_bool fac__started;

/* Adds to a count that only this thread writes: no locked instruction. */
static inline void fac__count(_Atomic(int64_t) *counter, int64_t n) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}
/* A free object, or NULL. */
static inline void *fac__freelist_pop(fac_freelist *l) {
    void *p = l->head;
    if (FAC_LIKELY(p != NULL)) {
        memcpy(&l->head, p, sizeof p);
        l->n--;
    }
    return p;
}
/* Room for an object of `bytes` bytes, from th's list of such objects if it has one; NULL, with an error, when memory is
   out. A thread without a state makes no objects: its shared record could not count them. */
void *fac__object_alloc_slow(const fac_thread *th, size_t bytes);
static inline void *fac__object_alloc(fac_thread *th, fac_freelist *l, size_t bytes) {
    void *p = fac__freelist_pop(l);
    return FAC_LIKELY(p != NULL) ? p : fac__object_alloc_slow(th, bytes);
}
/* False if the list is full: the object is then the caller's to free. */
static inline bool fac__freelist_push(fac_freelist *l, void *p, uint32_t limit) {
    if (!FAC_FREELISTS || FAC_UNLIKELY(l->n >= limit)) return false;
    memcpy(p, &l->head, sizeof p);
    l->head = p;
    l->n++;
    return true;
}
/* Small blocks of any size from the thread's lists: autograd's nodes, lists in boxed values. Freed on any thread, with the
   size that was asked for. */
void *fac__block_new(fac_thread *th, size_t bytes);
void fac__block_free(void *p, size_t bytes);

/* Names the operator (and argument, or NULL) of the pending error, if it has none yet. Returns the pending code. */
fac_status fac__error_context(const char *op, const char *argument);
/* Puts `name` and a colon before the message. Returns the pending code. */
fac_status fac__error_prefix(const char *name);
/* Where the facts of the pending error may be added to; NULL if none is pending, or if its record is shared. */
fac_error_facts *fac__error_facts(void);
/* What makes operators leave their fast path before they run: an observer of calls, and each cancellation that waits. */
enum { FAC_WATCHED_OBSERVER = 1, FAC_WATCHED_CANCEL = 2 };
extern FAC_HIDDEN atomic_int fac__watched;
void fac__cancel_begin(fac_thread *th);
void fac__cancel_end(fac_thread *th);
/* An error if the thread's work was cancelled, which it is then no longer. */
fac_status fac__take_cancel(fac_thread *of);
static inline fac_status fac__check_cancel(fac_thread *of) {
    return FAC_LIKELY(!atomic_load_explicit(&fac__watched, memory_order_relaxed)) ? FAC_OK : fac__take_cancel(of);
}

/* Around a call of a function of the program's by the library: what fails in it is told to the error handler when the
   outermost call has returned. The thread's state may begin or end meanwhile. */
static inline void fac__callback_begin(void) {
    if (FAC_LIKELY(fac__tls != NULL)) fac__tls->callbacks++;
}
static inline void fac__callback_end(void) {
    if (FAC_LIKELY(fac__tls != NULL && fac__tls->callbacks > 0)) fac__tls->callbacks--;
}
#define FAC_CALLBACK(...)      \
    do {                       \
        fac__callback_begin(); \
        __VA_ARGS__;           \
        fac__callback_end();   \
    } while (0)
/* Of an operator that the program calls while an error is pending: the place of this call is not that of the error. In
   a callback it may be, as a layer's forward goes on with what failed; the program's own calls there have told theirs. */
FAC_COLD void fac__inert(void);
/* Moves the pending error out of the thread and back, for running code with a clean record (hooks, the engine). */
typedef struct fac_saved_error fac_saved_error;
fac_saved_error *fac__error_take(void);      /* NULL if none pending */
void fac__error_restore(fac_saved_error *e); /* first wins; frees e */
void fac__error_drop(fac_saved_error *e);

/* Owned pointer -> temporary of the innermost scope, which now owns it. NULL (and the object released) when no
   scope is open or memory is out. The public operator stubs end with it. */
fac_tensor *fac__adopt(fac_thread *th, fac_tensor *owned);
/* The reverse: moves `t`'s reference out of the scopes to the caller without counting. If no scope owns it (a
   parameter, a kept tensor) a reference is counted. */
fac_tensor *fac__take(fac_tensor *t);
/* fac_scope_yield of a header. */
fac_tensor *fac__scope_yield(fac_scope *s, fac_tensor *t);

#endif
