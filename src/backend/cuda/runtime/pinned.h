/* Page-locked host memory: getting it from the system, and a cache of blocks. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_PINNED_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_PINNED_H

#include "backend/cuda/runtime/alloc_cuda.h"

/* ---- pinned_map.c ----------------------------------------------------------------------------------------------------- */

/* Page-locks fresh memory, which every device can reach: by the driver's own allocation, or, if the options say so, ordinary
   memory whose pages `threads` threads have touched and which is then registered. NULL in *out when there is not enough. */
fac_status fac__pinned_map(int64_t bytes, const fac_alloc_config *c, void **out);
/* Gives it back; `registered` as the option was when it was made. */
void fac__pinned_unmap(void *p, bool registered);

#endif
