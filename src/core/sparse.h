/* Sparse tensors: what hangs on a header whose elements are mostly zeros.

   Coordinates (COO): indices [sparse_dim, nnz], values [nnz, dense...]; the value of an element that stands more than once is the
   sum. A tensor is coalesced if its coordinates are in order and none stands twice.
   Compressed rows (CSR) and columns (CSC): compressed [batch..., n + 1], plain [batch..., nnz], values [batch..., nnz, dense...];
   BSR and BSC have blocks for elements: values [batch..., nnz, height, width, dense...].

   The tensors inside are never NULL, require no gradient, and belong to nobody else but who was given them by `values` and its
   like. A change in place swaps them, so that aliases that autograd saved keep what they had. */
#ifndef FAC_SRC_CORE_SPARSE_H
#define FAC_SRC_CORE_SPARSE_H

#include "core/tensor.h"

typedef struct fac_sparse {
    fac_layout layout;
    bool coalesced; /* COO only */
    uint8_t sparse_dim, dense_dim;
    fac_tensor *indices; /* COO: coordinates; else the compressed indices */
    fac_tensor *plain;   /* NULL of COO */
    fac_tensor *values;
} fac_sparse;

extern FAC_HIDDEN const fac_tensor_class fac__sparse_class;

/* What t's elements are made of; NULL of tensors that are not sparse. */
static inline fac_sparse *fac__sparse_of(const fac_tensor *t) {
    return t->cls == &fac__sparse_class ? (fac_sparse *)t->ext : NULL;
}
static inline bool fac__is_coo(const fac_tensor *t) {
    return t->cls == &fac__sparse_class && ((const fac_sparse *)t->ext)->layout == FAC_SPARSE_COO;
}
fac_layout fac__layout_of(const fac_tensor *t);
static inline bool fac__is_compressed_layout(fac_layout l) {
    return l == FAC_SPARSE_CSR || l == FAC_SPARSE_CSC || l == FAC_SPARSE_BSR || l == FAC_SPARSE_BSC;
}
/* "torch.sparse_coo" less "torch."; "strided" */
const char *fac__layout_name(fac_layout l);

/* Owned: a tensor of these sizes over `parts`, of which it takes counted references. Dtype and device are the values'. What the
   parts hold is not looked at. */
fac_status fac__sparse_make(const int64_t *sizes, int ndim, const fac_sparse *parts, fac_tensor **out);
/* t becomes what `from` is: sizes, parts and dtype. Both are sparse tensors of one layout. */
fac_status fac__sparse_become(fac_tensor *t, const fac_tensor *from);
/* Stored elements; of compressed tensors those of one batch entry. */
int64_t fac__sparse_nnz(const fac_tensor *t);

#endif
