/* The engine under every folding reduction: cuts the work by shape, converts what cannot be read in place, combines
   partial results in a fixed order. Results do not depend on the number of threads. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_REDUCTION_H
#define FAC_SRC_BACKEND_CPU_KERNELS_REDUCTION_H

#include "backend/cpu/kernels/fold.h"

#define FAC_ROW_BLOCK 32768 /* elements of one output that one task folds */
#define FAC_COL_BLOCK 1024  /* rows that one task folds into a strip of outputs */
#define FAC_COL_WIDTH 256   /* outputs in a strip */

/* Folds the dimensions of `in` whose bit is set in `mask` into `out`, which has the sizes that remain (or 1 in their place).
   An empty fold gives the operation's identity. */
fac_status fac__reduce(const fac_reduction *r, fac_tensor *in, uint64_t mask, fac_tensor *out);
/* The least and the largest element of `in`, which is contiguous, not complex and not empty, in one walk; outputs have one element. */
fac_status fac__reduce_extremes(fac_acc kind, fac_tensor *in, fac_tensor *least, fac_tensor *most);

#endif
