/* Loop nests over strided operands: how everything that walks tensors of any layout does, on every device. A nest lists dimensions
   fastest first; neighbours that every operand steps through evenly are merged, size 1 is dropped. */
#ifndef FAC_SRC_ITER_NEST_H
#define FAC_SRC_ITER_NEST_H

#include "core/tensor.h"

#define FAC_NEST_OPERANDS 5

typedef struct fac_nest {
    int ndim;      /* 0: one point */
    int64_t count; /* product of the sizes */
    int64_t size[FAC_MAX_DIMS];
    int64_t stride[FAC_NEST_OPERANDS][FAC_MAX_DIMS]; /* in elements; the tensor iterator's in bytes */
} fac_nest;

/* A position in a nest. */
typedef struct fac_cursor {
    int64_t index[FAC_MAX_DIMS];
    int64_t offset[FAC_NEST_OPERANDS];
} fac_cursor;

/* Takes the dimensions of `sizes` whose bit in `mask` is set. Sorted by strides unless `ordered`, which keeps logical order
   (the last dimension is the fastest). */
void fac__nest_build(fac_nest *n, const int64_t *sizes, int ndim, uint64_t mask, int n_operands,
                     const int64_t *const *strides, bool ordered);
/* Sorts the dimensions by stride, the first operand that tells two apart deciding; `order`, unless NULL, moves along. True if some
   dimension was moved. */
bool fac__nest_sort(fac_nest *n, int n_operands, int8_t *order);
/* Merges neighbours, drops sizes of one, and counts the points. */
void fac__nest_merge(fac_nest *n, int n_operands);
/* Moves the cursor to point i (0 <= i < count). */
void fac__nest_seek(const fac_nest *n, int n_operands, int64_t i, fac_cursor *c);
/* Moves `step` points on; may end one past the last. */
void fac__nest_advance(const fac_nest *n, int n_operands, int64_t step, fac_cursor *c);
/* Points left along the fastest dimension from the cursor on. */
static inline int64_t fac__nest_run(const fac_nest *n, const fac_cursor *c) {
    return n->ndim ? n->size[0] - c->index[0] : 1;
}
/* The fastest dimension's step for an operand; 1 for a nest of one point. */
static inline int64_t fac__nest_step(const fac_nest *n, int operand) { return n->ndim ? n->stride[operand][0] : 1; }

/* Strides of t as broadcast to a shape of `ndim` dimensions (t's sizes must be compatible). */
void fac__broadcast_strides(const fac_tensor *t, int ndim, int64_t *out_strides);

#endif
