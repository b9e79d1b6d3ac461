/* Geometry that views and the operators built on them share. */
#ifndef FAC_SRC_OPS_COMPOSITE_VIEW_H
#define FAC_SRC_OPS_COMPOSITE_VIEW_H

#include "core/tensor.h"
#include "dispatch/operator.h"

/* Strides with which t shows its elements in other sizes (of equal product) without moving them; false if there are none. */
bool fac__view_strides(const fac_tensor *t, const int64_t *sizes, int ndim, int64_t *out_strides);
/* Replaces one -1 in `sizes` by what numel demands, into out (room FAC_MAX_DIMS), and checks the number of dimensions. */
fac_status fac__view_sizes(fac_ints sizes, int64_t numel, int64_t *out);
/* Owned view of `length` elements of dimension dim (wrapped) from start on; both must be in range. */
fac_status fac__narrow_view(fac_tensor *t, int64_t dim, int64_t start, int64_t length, fac_tensor **out);
/* An empty list with room for n tensors. */
fac_status fac__list_new(size_t n, fac_tensor_list *out);

#endif
