/* What a reduction is, on every device: the operation and the type it is carried out in, and the plan of its dimensions, which are
   kept or reduced, ordered and merged by what memory is like. */
#ifndef FAC_SRC_ITER_REDUCTION_H
#define FAC_SRC_ITER_REDUCTION_H

#include "iter/nest.h"

/* The types that kernels accumulate in. */
typedef enum fac_acc {
    FAC_ACC_F32,  /* float: f16, bf16, f32 */
    FAC_ACC_F64,  /* double                */
    FAC_ACC_I64,  /* int64_t: bool and integers */
    FAC_ACC_C128, /* two doubles: c64, c128 */
    FAC_ACC_COUNT
} fac_acc;

/* What happens to an element before it is folded. */
typedef enum fac_tile_map {
    FAC_MAP_NONE,
    FAC_MAP_NONZERO, /* 1 or 0; the kind is I64 */
    FAC_MAP_NAN_TO_ZERO,
    FAC_MAP_ABS,    /* a complex element gives its modulus in a real kind */
    FAC_MAP_SQUARE, /* |x|^2 */
    FAC_MAP_POW,    /* |x|^p */
    FAC_MAP_BITS    /* the bits of an integer, or of a real number as a double; the kind is I64 */
} fac_tile_map;

/* The kind that holds sums of d without loss of range. */
static inline fac_acc fac__acc_of(fac_dtype d) {
    if (fac_dtype_is_complex(d)) return FAC_ACC_C128;
    if (d == FAC_F64) return FAC_ACC_F64;
    return fac_dtype_is_floating(d) ? FAC_ACC_F32 : FAC_ACC_I64;
}

typedef enum fac_fold_op {
    FAC_FOLD_SUM,
    FAC_FOLD_PROD,
    FAC_FOLD_MAX,
    FAC_FOLD_MIN,
    FAC_FOLD_XOR,
    FAC_FOLD_COUNT
} fac_fold_op;

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

/* The dimensions of `in` split in two nests: those of `mask`, and the rest, over which `outs` (n_out <= 3 tensors shaped as
   above) run along as operands 1, 2, 3. */
typedef struct fac_dim_split {
    fac_nest kept, reduced;
} fac_dim_split;
void fac__split(fac_dim_split *s, fac_tensor *in, uint64_t mask, fac_tensor *const *outs, int n_out, bool ordered);
#define FAC_LONG_RUN 64 /* elements side by side that are worth a loop of their own */
/* True if neighbours in memory belong to different outputs, so that work should run across outputs. */
bool fac__split_is_columns(const fac_dim_split *s);

#endif
