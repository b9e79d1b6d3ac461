/* The operators that the engine itself calls, through the dispatcher, with owned results. With a graph being created they
   are recorded like any other. */
#ifndef FAC_SRC_AUTOGRAD_ENGINE_OPS_H
#define FAC_SRC_AUTOGRAD_ENGINE_OPS_H

#include "core/tensor.h"

fac_status fac__ag_add(fac_tensor *a, fac_tensor *b, fac_tensor **out);
fac_status fac__ag_add_in_place(fac_tensor *a, fac_tensor *b);
fac_status fac__ag_clone(fac_tensor *t, fac_tensor **out);
fac_status fac__ag_ones_like(fac_tensor *t, fac_tensor **out);
fac_status fac__ag_zeros(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, fac_tensor **out);
fac_status fac__ag_zero_in_place(fac_tensor *t);
fac_status fac__ag_copy_in_place(fac_tensor *to, fac_tensor *from);
/* A copy of t with the strides of `like` (row-major if those overlap or leave gaps). */
fac_status fac__ag_copy_laid_out_like(fac_tensor *t, const fac_tensor *like, fac_tensor **out);
/* Sums t over the dimensions by which it is larger than `sizes`; t must be expandable from them. */
fac_status fac__ag_sum_to(fac_tensor *t, const int64_t *sizes, int ndim, fac_tensor **out);
fac_status fac__ag_cast(fac_tensor *t, fac_dtype dtype, fac_device device, fac_tensor **out);
/* What t has where `like`, a sparse tensor, has elements, in its layout. */
fac_status fac__ag_in_layout_of(fac_tensor *t, fac_tensor *like, fac_tensor **out);
fac_status fac__ag_real(fac_tensor *t, fac_tensor **out);
/* The operator as_strided, by which views are recorded whose way from their base is long. */
const fac_operator *fac__ag_as_strided(void);
/* Whether any element is NaN. */
fac_status fac__ag_has_nan(fac_tensor *t, bool *out);

#endif
