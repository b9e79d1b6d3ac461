/* What kernels of sparse tensors share. Tensors are headers and temporaries of the innermost scope; NULL, with an error pending,
   is passed on. */
#ifndef FAC_SRC_OPS_SPARSE_PARTS_H
#define FAC_SRC_OPS_SPARSE_PARTS_H

#include "core/sparse.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

/* First in a kernel. */
#define FAC_SPARSE_KERNEL FAC_BELOW_AUTOGRAD

/* A borrowed tensor as a temporary's equal: what is NULL stays so. */
static inline fac_ints fac__sparse_sizes(const fac_tensor *t) { return (fac_ints){t->sizes, t->ndim}; }
static inline fac_dtype fac__sparse_dtype(const fac_tensor *t) { return (fac_dtype)t->dtype; }

static inline bool fac__sparse_is_integral(const fac_tensor *t) {
    return fac_dtype_is_integral((fac_dtype)t->dtype, true);
}

/* How many elements sizes are; INT64_MAX, which no memory holds, if it is more. */
static inline int64_t fac__sparse_numel(const int64_t *sizes, int n) {
    int64_t p;
    return fac__numel(sizes, n, &p) ? p : INT64_MAX;
}
/* Whether room for something of each of n numbers is worth it for z elements: not where there are many more numbers. */
static inline bool fac__sparse_countable(int64_t n, int64_t z) { return n >= 0 && n >> 3 <= z + 8192; }

/* ---- small tensors --------------------------------------------------------------------------------------------------- */

fac_tensor *fac__sparse_zeros(fac_ints sizes, fac_dtype dtype, fac_device device);
/* 0, 1, ..., n - 1 as int64. */
fac_tensor *fac__sparse_range(int64_t n, fac_device device);
/* A vector of int64 on a device. */
fac_tensor *fac__sparse_numbers(fac_ints v, fac_device device);
fac_tensor *fac__sparse_long(fac_tensor *t);
fac_tensor *fac__sparse_cast(fac_tensor *t, fac_dtype dtype);
/* t with sizes[at, at + n) of it replaced by others. */
fac_tensor *fac__sparse_reshape(fac_tensor *t, int at, int n, fac_ints others);

/* ---- coordinates as numbers --------------------------------------------------------------------------------------------- */

/* Row-major numbers of coordinates [n, z] among sizes[0, n): a vector of z. */
fac_tensor *fac__sparse_flat(fac_tensor *coordinates, const int64_t *sizes);
/* The inverse. */
fac_tensor *fac__sparse_unflat(fac_tensor *flat, const int64_t *sizes, int n);

/* How a vector of such numbers comes into order: sorted, place i takes element order[i], which is in group[i] of n groups of equal
   ones; first[g] is the first element of a group. `order` is NULL, with an error pending, if that fails. */
typedef struct fac_sparse_order {
    fac_tensor *order, *group, *first;
    int64_t n;
} fac_sparse_order;
fac_sparse_order fac__sparse_order_of(fac_tensor *flat);

/* ---- tensors --------------------------------------------------------------------------------------------------------------- */

/* A tensor of coordinates over the given parts. */
fac_tensor *fac__sparse_coo(fac_ints sizes, fac_tensor *indices, fac_tensor *values, bool coalesced);
/* A compressed tensor over the given parts. */
fac_tensor *fac__sparse_compressed(fac_layout layout, fac_ints sizes, fac_tensor *compressed, fac_tensor *plain,
                                   fac_tensor *values);
/* Its like with other values. */
fac_tensor *fac__sparse_with_values(fac_tensor *t, fac_tensor *values);
/* Sums values of equal coordinates; a coalesced tensor is given back. */
fac_tensor *fac__sparse_coalesced(fac_tensor *t);
/* Any sparse tensor by coordinates; a compressed one, batches too, in order and each once. */
fac_tensor *fac__sparse_to_coo(fac_tensor *t);
/* The same, coalesced. */
fac_tensor *fac__sparse_as_coo(fac_tensor *t);
/* A tensor of coordinates in another layout. A block size is needed for those with blocks. */
fac_tensor *fac__sparse_from_coo(fac_tensor *t, fac_layout layout, fac_ints block);
/* The block size of t, empty if it has none; into `room`. */
fac_ints fac__sparse_block(const fac_tensor *t, int64_t room[2]);
/* A sparse tensor in the layout, and with the blocks, of another. */
fac_tensor *fac__sparse_in_layout_of(fac_tensor *coo, const fac_tensor *like);
/* Any tensor as a strided one. */
fac_tensor *fac__sparse_dense(fac_tensor *t);
/* A strided tensor by coordinates of its first sparse_dim dimensions. */
fac_tensor *fac__sparse_of_dense(fac_tensor *t, int sparse_dim);
/* A tensor of blocks in the other layout that has some. NULL with no error pending as below. */
fac_tensor *fac__sparse_blocks_turned(fac_tensor *t, fac_layout layout);
/* A strided tensor in a compressed layout. NULL with no error pending if there are blocks, and it is empty or has too many dimensions
   to be seen as one of blocks. */
fac_tensor *fac__sparse_lines_of_dense(fac_tensor *t, int dense_dim, fac_layout layout, fac_ints block);
/* A sparse tensor, or it by coordinates and coalesced; its elements' row-major cells [n] and their values [n, ...]. `t` is NULL, with
   an error pending, if that fails. */
typedef struct fac_sparse_cells {
    fac_tensor *t, *at, *values;
} fac_sparse_cells;
fac_sparse_cells fac__sparse_cells_of(fac_tensor *t);
/* c.t with other values [n, ...], in the layout of `like`. */
fac_tensor *fac__sparse_with_cells(fac_sparse_cells c, fac_tensor *values, const fac_tensor *like);
/* Matrix of compressed rows: where rows begin, columns, values; coalesced. */
typedef struct fac_sparse_rows {
    fac_tensor *begin, *columns, *values;
} fac_sparse_rows;
fac_sparse_rows fac__sparse_rows_of(fac_tensor *matrix);
/* Where each of n rows begins among sorted row numbers. */
fac_tensor *fac__sparse_compress(fac_tensor *rows, int64_t n);
/* t's values at flat places of mask; zeros where t has none. Both coalesced, same sizes. */
fac_tensor *fac__sparse_values_at(fac_tensor *t, fac_tensor *mask);

/* The error for a tensor that is not of coordinates. */
fac_status fac__sparse_need_coo(const fac_tensor *t);
fac_status fac__sparse_need_sparse(const fac_tensor *t);

#endif
