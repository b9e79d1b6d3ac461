/* Loops over parts of sparse tensors that lie in the host's memory, where a step of operators would take several times as long. What
   they do not take they leave to the operators: NULL, and the operators take over unless an error is pending. Indices may be
   anything that a user wrote: each loop looks at those that it steps by, and at the order that it relies on. Results do not depend on
   threads: the loops run on one. */
#ifndef FAC_SRC_OPS_SPARSE_HOST_H
#define FAC_SRC_OPS_SPARSE_HOST_H

#include "core/tensor_make.h"
#include "ops/sparse/parts.h"

/* Whether a loop may read t's elements. */
static inline bool fac__sparse_on_host(const fac_tensor *t) {
    return t && t->device.type == FAC_CPU && !t->cls && t->storage && !fac__pending(t);
}
/* Uninitialised; of the innermost scope. */
fac_tensor *fac__sparse_host_empty(fac_ints sizes, fac_dtype dtype);
/* The numbers of *t, which becomes an equal row-major one of int64; NULL with an error pending. */
const int64_t *fac__sparse_host_numbers(fac_tensor **t);
/* Whether n lines begin in order among z elements. */
bool fac__sparse_host_begins(const int64_t *begin, int64_t n, int64_t z);
/* The error unless they do, and each element is at one of the places of a line: tensors made without a check may say anything. */
fac_status fac__sparse_host_check(const int64_t *begin, int64_t lines, const int64_t *place, int64_t z, int64_t places);
/* Elements at[0, n) of `bytes` bytes each, one after the other. */
void fac__sparse_host_take(const void *from, const int64_t *at, int64_t n, int64_t bytes, void *to);

/* Where `set` [cells] is true: coordinates among sizes[0, sparse_dim) and elements of flat [cells, ...]. */
fac_tensor *fac__sparse_host_of_set(fac_tensor *set, fac_tensor *flat, fac_ints sizes, int sparse_dim);
/* How many of the numbers, which are in order, are below each of 0, ..., n - 1. */
fac_tensor *fac__sparse_host_edges(fac_tensor *numbers, int64_t n);
/* n times v. */
void fac__sparse_host_fill(int64_t *to, int64_t n, int64_t v);
/* The order, stable, of numbers below n, and where each number begins in it [n + 1]; n is bounded by the number of elements. */
fac_tensor *fac__sparse_host_order(fac_tensor *numbers, int64_t n, fac_tensor **begin);
/* Row-major numbers of the cells of CSR and CSC tensors' elements, batches one after the other. */
fac_tensor *fac__sparse_host_cells(fac_tensor *t);
/* Coordinates of a matrix [2, z] with rows and columns exchanged, and its values, in order again; false if they were not in order or
   two are the same. */
bool fac__sparse_host_turn(fac_tensor **indices, fac_tensor **values, int64_t columns);
/* Coordinates of blocks [2, z] and blocks [z, h, w, ...] become those of elements, in order; false if blocks are not in order. */
bool fac__sparse_host_unblock(fac_tensor **indices, fac_tensor **values, int64_t h, int64_t w);
/* Elements whose coordinate in dimension dim is index[j] get j there: t is one of coordinates, dim one of its sparse ones. */
fac_tensor *fac__sparse_host_pick(fac_tensor *t, int64_t dim, fac_tensor *index);

/* Whether two parts hold the same numbers. */
bool fac__sparse_host_same(fac_tensor *a, fac_tensor *b);
/* Where each of the numbers `want` would be put in `have`, before equal ones; both are in order, and each number is there once. */
fac_tensor *fac__sparse_host_places(fac_tensor *have, fac_tensor *want);

/* Sums, or where `both` products, of two tensors of one layout, sizes and dtype. */
fac_tensor *fac__sparse_host_merge(fac_tensor *a, fac_tensor *b, bool both);

/* The product of matrices of compressed rows, [n, m] and [m, p], as one. */
fac_tensor *fac__sparse_host_product(fac_sparse_rows a, fac_sparse_rows b, int64_t n, int64_t m, int64_t p);
/* The sums, or products, of rows' elements: one, or for products of none of them one, in a row without elements. */
fac_tensor *fac__sparse_host_reduce(fac_tensor *begin, fac_tensor *values, bool sum);
/* A row-major matrix and one of compressed rows. */
fac_tensor *fac__sparse_host_add(fac_tensor *dense, fac_sparse_rows rows);
/* For the elements of a CSR matrix: products of rows of a [n, m] by rows of b [p, m]. */
fac_tensor *fac__sparse_host_dots(fac_sparse_rows rows, fac_tensor *a, fac_tensor *b);

#endif
