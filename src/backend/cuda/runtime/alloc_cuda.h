/* The caching allocators of the CUDA devices, one each, made when a device is first used. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_ALLOC_CUDA_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_ALLOC_CUDA_H

#include "backend/cuda/runtime/alloc.h"
#include "backend/cuda/runtime/parts.h"

/* Memory from the driver: in segments, or with `async` from its stream-ordered pool. The generation tells blocks that
   outlive fac_shutdown: they are no longer the driver's. */
void fac__cuda_source(bool async, fac_memory_source *out);
/* The device's allocator; NULL with an error. */
fac_caching_allocator *fac__cuda_cache(int index);
/* The device's allocator if it has been used, else NULL. Sets no error. */
fac_caching_allocator *fac__cuda_cache_if_any(int index);
/* Reads the options in the environment, once between start and stop. */
fac_status fac__cuda_alloc_options(fac_alloc_config *out);
/* The reserved bytes of the stream-ordered pool, now and at most; false without one. */
bool fac__cuda_pool_reserved(int index, int64_t *out_now, int64_t *out_peak);

/* A point in a captured stream, and whether all later work of a stream comes after it (alloc_graph.c). */
fac_status fac__cuda_capture_mark(CUstream stream, void **out_mark);
bool fac__cuda_capture_passed(CUstream stream, void *mark);

/* ---- pinned.c --------------------------------------------------------------------------------------------------------- */

void fac__pinned_configure(const fac_alloc_config *c);
void fac__pinned_stop(void);

#endif
