/* Tensors in the vendor layout (PyTorch's torch._mkldnn): what hangs on a header whose elements lie as a back end's library wants
   them. Who has the tensor sees sizes and dtype, neither strides nor memory.

   Rows: the elements in row-major order.
   Channels: [N, C, size...] lies as [N, ceil(C / block), size..., block], which oneDNN calls nChw16c or nChw8c.
   Weight of a convolution [groups * O, I, tap...]: [groups, ceil(O / block), ceil(I / in_block), tap..., in_block, block], oneDNN's
   gOIhw16i16o; or, where each group has one channel on either side, [ceil(groups / block), tap..., block], oneDNN's Goihw16g.
   Places behind the last channel hold zeros; every kernel keeps them so. */
#ifndef FAC_SRC_CORE_VENDOR_H
#define FAC_SRC_CORE_VENDOR_H

#include "core/tensor.h"

typedef enum fac_vendor_order { FAC_VENDOR_ROWS, FAC_VENDOR_CHANNELS, FAC_VENDOR_WEIGHT } fac_vendor_order;

typedef struct fac_vendor {
    fac_vendor_order order;
    int block;         /* channels that lie beside each other; 1 of rows */
    int64_t in_block;  /* weight: input channels in a block */
    int64_t groups;    /* weight */
    fac_tensor *cells; /* plain, contiguous and with memory of its own; never NULL */
} fac_vendor;

extern FAC_HIDDEN const fac_tensor_class fac__vendor_class;
/* Channels in a block: as many as the widest vectors that the machine's kernels use hold float32 numbers. Set once, at start. */
extern FAC_HIDDEN int fac__vendor_block;

/* What t's elements lie in; NULL of tensors in another layout. */
static inline fac_vendor *fac__vendor_of(const fac_tensor *t) {
    return t && t->cls == &fac__vendor_class ? (fac_vendor *)t->ext : NULL;
}
/* Of channels: how many places behind the last channel there are. */
static inline int64_t fac__vendor_spare(const fac_tensor *t) {
    const fac_vendor *v = fac__vendor_of(t);
    return v->order == FAC_VENDOR_CHANNELS ? (v->block - t->sizes[1] % v->block) % v->block : 0;
}

/* Owned: a tensor of these sizes over `parts`, of whose cells it takes a counted reference. Dtype and device are the cells'. */
fac_status fac__vendor_make(const int64_t *sizes, int ndim, const fac_vendor *parts, fac_tensor **out);
/* Sizes of the cells of a tensor of rows or channels; returns how many. out: room for FAC_MAX_DIMS + 1. */
int fac__vendor_cell_sizes(const int64_t *sizes, int ndim, fac_vendor_order order, int64_t *out);
/* Owned: the elements in a plain row-major tensor, element by element: for text and for who reads elements. */
fac_status fac__vendor_settled(const fac_tensor *t, fac_tensor **out);

#endif
