/* Splitting work over threads. Results must not depend on the number of threads, so ranges are cut by shape alone, unless each element
   is computed alike wherever the cuts are. */
#ifndef FAC_SRC_BACKEND_CPU_PARALLEL_H
#define FAC_SRC_BACKEND_CPU_PARALLEL_H

#include "base/base.h"

#define FAC_GRAIN 32768 /* elements of simple work per chunk: about 10 us */

/* Items per chunk of `elements` where an item takes `each`, which may be 0. */
static inline int64_t fac__grain(int64_t elements, int64_t each) { return fac__max(1, elements / fac__max(1, each)); }

/* Work on [begin, end). Runs on any thread, calls no operators and allocates nothing: a chunk that finds no memory would fail
   after others have written. An error it sets is moved to the caller. */
typedef fac_status (*fac_range_fn)(void *ctx, int64_t begin, int64_t end);
/* Calls fn on consecutive chunks of `grain` (the last may be shorter) covering [begin, end), each exactly once, on up to
   fac_num_threads() threads, of which the caller is one. A call from inside another runs on its own thread. Returns the
   lowest failing chunk's status; chunks above it may not run at all. Fails for no reason of its own: where there is no
   thread to be had, the caller does everything. */
fac_status fac__parallel_for(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx);
/* How many threads that call would use at most, and the same call on so many. */
int fac__parallel_threads(int64_t begin, int64_t end, int64_t grain);
fac_status fac__parallel_for_on(int threads, int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx);
/* True inside a body of fac__parallel_for that runs on several threads. */
bool fac__in_parallel(void);
/* True inside any body of fac__parallel_for: where nothing may be allocated. */
bool fac__in_chunk(void);
extern _Thread_local bool fac__chunk
    __attribute__((tls_model("initial-exec"))); /* the same, of a thread that is no worker */
/* Finds out the number of threads that callers use unless they say otherwise. */
fac_status fac__parallel_start(void);

/* ---- with scratch memory (scratch.c) --------------------------------------------------------------------------------- */

/* Work on [begin, end) with scratch memory, aligned to 64 and not zeroed, that no other thread uses at the time. */
typedef fac_status (*fac_scratch_fn)(void *ctx, int64_t begin, int64_t end, void *scratch);
/* As fac__parallel_for, with `bytes` of scratch for each chunk under way. All of it is taken before the first chunk runs.
   errors: MEMORY, OVERFLOW, and then no chunk has run */
fac_status fac__parallel_for_scratch(int64_t begin, int64_t end, int64_t grain, int64_t bytes, fac_scratch_fn fn,
                                     void *ctx);

/* Scratch memory that a caller has taken beforehand. */
typedef struct fac_workspace {
    char *at; /* NULL: none was taken */
    int64_t bytes;
} fac_workspace;
/* As fac__parallel_for_scratch, on as many threads as `taken` has room for, and fails for no reason of its own if that is
   one or more; allocates if nothing was taken. */
fac_status fac__parallel_for_taken(int64_t begin, int64_t end, int64_t grain, int64_t bytes, fac_workspace taken,
                                   fac_scratch_fn fn, void *ctx);
/* From the CPU's allocator, since fresh pages would cost more than most work on them. */
fac_status fac__workspace_take(int64_t bytes, fac_workspace *out);
void fac__workspace_give(fac_workspace s);
/* A size that keeps what follows aligned to 64. */
static inline int64_t fac__workspace_round(int64_t bytes) { return (bytes + 63) & ~INT64_C(63); }

#endif
