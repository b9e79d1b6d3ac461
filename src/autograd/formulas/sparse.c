/* Gradients of sparse tensors' making, and of their way from layout to layout. A gradient may arrive sparse or strided; what reaches
   a sparse leaf takes its layout and its places (fit.c). */
#include "ops/sparse/parts.h"

static fac_tensor *dense_of(fac_tensor *t) { return fac__s_to_dense(t, FAC_DTYPE_DEFAULT, (fac_opt_num){0}); }

/* The elements of grad at the coordinates. */
fac_tensor *coo_values_grad(fac_tensor *grad, fac_tensor *indices) {
    const int64_t n = indices->sizes[0];
    int64_t cells = 1;
    fac_tensor *dense = dense_of(grad);
    if (!dense) return NULL;
    for (int64_t i = 0; i < n; i++) cells *= dense->sizes[i];
    return fac__s_index_select(fac__sparse_reshape(dense, 0, (int)n, FAC_INTS(cells)), 0,
                               fac__sparse_flat(indices, dense->sizes));
}

fac_tensor *compressed_values_grad(fac_tensor *grad, fac_tensor *compressed_indices, fac_tensor *plain_indices,
                                   fac_tensor *values, fac_layout layout) {
    if (!grad) return NULL;
    fac_tensor *zeros = fac__s_zeros_like(fac__s_detach(values), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                          (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    fac_tensor *pattern = fac__s__sparse_compressed_tensor_with_tensors(compressed_indices, plain_indices, zeros,
                                                                        (fac_ints){grad->sizes, grad->ndim}, layout);
    return fac__s_values(fac__s_sparse_mask(dense_of(grad), pattern));
}

/* grad as the values of a tensor that is otherwise self. */
fac_tensor *values_grad(fac_tensor *grad, fac_tensor *self) {
    const fac_sparse *s = fac__sparse_of(self);
    if (!grad || !s) return NULL;
    if (s->layout != FAC_SPARSE_COO)
        return fac__s__sparse_compressed_tensor_with_tensors(s->indices, s->plain, grad, fac__sparse_sizes(self),
                                                             s->layout);
    return fac__s__sparse_coo_tensor_with_dims_and_tensors(
        s->sparse_dim, s->dense_dim, fac__sparse_sizes(self), s->indices, grad, FAC_DTYPE_DEFAULT, FAC_STRIDED,
        (fac_device){0}, (fac_opt_num){0}, fac_opt_num_(fac_scalar_b_(s->coalesced)));
}

/* grad in the layout that self had. */
fac_tensor *to_sparse_grad(fac_tensor *grad, fac_tensor *self) {
    int64_t room[2];
    if (!grad) return NULL;
    if (!fac__sparse_of(self)) return dense_of(grad);
    if (fac__layout_of(grad) == fac__layout_of(self)) return grad;
    if (!fac__sparse_of(grad)) return fac__s_sparse_mask(grad, self);
    const fac_ints block = fac__sparse_block(self, room);
    return fac__s_to_sparse(grad, fac__layout_of(self), block.n ? block : (fac_ints){0}, (fac_opt_int){0});
}

/* What grad has where `like` has elements. */
fac_tensor *pattern_of(fac_tensor *grad, fac_tensor *like) {
    return grad && fac__layout_of(grad) != fac__layout_of(like) ? fac__s_sparse_mask(grad, like) : grad;
}

fac_tensor *sparse_mask_grad(fac_tensor *grad, fac_tensor *mask, fac_tensor *self) {
    fac_tensor *masked = pattern_of(grad, mask);
    return masked && fac__sparse_of(self) ? masked : dense_of(masked);
}
