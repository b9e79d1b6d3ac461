/* Splitting work over threads. Results must not depend on the number of threads, so ranges are cut by shape alone. */
#ifndef FAC_SRC_BACKEND_CPU_PARALLEL_H
#define FAC_SRC_BACKEND_CPU_PARALLEL_H

#include "base/base.h"

#define FAC_GRAIN 32768 /* elements of simple work per chunk: about 10 us */

/* Items per chunk of `elements` where an item takes `each`, which may be 0. */
static inline int64_t fac__grain(int64_t elements, int64_t each) { return fac__max(1, elements / fac__max(1, each)); }

/* Work on [begin, end). Runs on any thread, calls no operators; an error it sets is moved to the caller. */
typedef fac_status (*fac_range_fn)(void *ctx, int64_t begin, int64_t end);
/* Calls fn on consecutive chunks of `grain` (the last may be shorter) covering [begin, end), each exactly once, on up to
   fac_num_threads() threads, of which the caller is one. A call from inside another runs on its own thread. Returns the
   lowest failing chunk's status; chunks above it may not run at all. Fails for no reason of its own: where there is no
   thread to be had, the caller does everything. */
fac_status fac__parallel_for(int64_t begin, int64_t end, int64_t grain, fac_range_fn fn, void *ctx);
/* True inside a body of fac__parallel_for that runs on several threads. */
bool fac__in_parallel(void);
/* Finds out the number of threads that callers use unless they say otherwise. */
fac_status fac__parallel_start(void);

#endif
