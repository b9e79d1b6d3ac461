/* What a reduction's kernels are told. Shared with launchers. */
#ifndef FAC_KERNEL_FOLD_H
#define FAC_KERNEL_FOLD_H

#include "kernel.h"

enum { K_FOLD_DIMS = 8 };
enum { K_SUM, K_PROD, K_MAX, K_MIN };                                                      /* fac_fold_op */
enum { K_MAP_NONE, K_MAP_NONZERO, K_MAP_NAN_TO_ZERO, K_MAP_ABS, K_MAP_SQUARE, K_MAP_POW }; /* fac_tile_map */
enum { K_FINISH_NONE, K_FINISH_DIV, K_FINISH_SQRT, K_FINISH_ROOT };                        /* fac_finish */

/* Output o folds n_fold elements, cut in `parts` pieces of `part`. Strides in bytes, fastest dimension first. */
typedef struct k_fold {
    const char *in;
    char *out;               /* results; with several parts the partial ones, [parts][n_out] of the type folded in */
    const int64_t *in_index; /* of places: those of the elements, when they are partial results; else NULL */
    int64_t *out_index;      /* of places, or NULL */
    int64_t n_out, n_fold, part, parts;
    int32_t in_dtype, out_dtype;
    int32_t op, map, via, finish;
    int32_t kept_ndim, fold_ndim;
    double p, finish_p;
    int64_t kept_size[K_FOLD_DIMS], kept_in[K_FOLD_DIMS], kept_out[K_FOLD_DIMS], kept_index[K_FOLD_DIMS];
    int64_t fold_size[K_FOLD_DIMS], fold_in[K_FOLD_DIMS];
} k_fold;

/* Offset of point i of a nest. */
KDEV int64_t k_at(int32_t ndim, const int64_t *size, const int64_t *stride, int64_t i) {
    if (ndim == 1) return i * stride[0];
    int64_t offset = 0;
    for (int d = 0; d < ndim; d++) {
        offset += i % size[d] * stride[d];
        i /= size[d];
    }
    return offset;
}

#endif
