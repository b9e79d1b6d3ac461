/* The engine under every folding reduction: cuts the work by shape, converts what cannot be read in place, combines
   partial results in a fixed order. Results do not depend on the number of threads. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_REDUCTION_H
#define FAC_SRC_BACKEND_CPU_KERNELS_REDUCTION_H

#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/nest.h"

#define FAC_ROW_BLOCK 32768 /* elements of one output that one task folds */
#define FAC_COL_BLOCK 1024  /* rows that one task folds into a strip of outputs */
#define FAC_COL_WIDTH 256   /* outputs in a strip */

typedef enum fac_finish {
    FAC_FINISH_NONE,
    FAC_FINISH_DIV, /* by finish_p (real kinds and C128) */
    FAC_FINISH_SQRT,
    FAC_FINISH_ROOT /* acc ^ (1/finish_p) */
} fac_finish;

typedef struct fac_reduction {
    fac_fold_op op;
    fac_acc kind;
    fac_tile_map map;
    fac_dtype via; /* elements are first cast to this; 0: not */
    double p;      /* exponent of FAC_MAP_POW */
    fac_finish finish;
    double finish_p;
} fac_reduction;

/* Folds the dimensions of `in` whose bit is set in `mask` into `out`, which has the sizes that remain (or 1 in their place).
   An empty fold gives the operation's identity. */
fac_status fac__reduce(const fac_reduction *r, fac_tensor *in, uint64_t mask, fac_tensor *out);

/* The dimensions of `in` split in two nests: those of `mask`, and the rest, over which `outs` (n_out <= 3 tensors shaped as
   above) run along as operands 1, 2, 3. */
typedef struct fac_dim_split {
    fac_nest kept, reduced;
} fac_dim_split;
void fac__split(fac_dim_split *s, fac_tensor *in, uint64_t mask, fac_tensor *const *outs, int n_out, bool ordered);
/* True if neighbours in memory belong to different outputs, so that work should run across outputs. */
bool fac__split_is_columns(const fac_dim_split *s);

#endif
