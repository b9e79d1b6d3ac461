/* What kernels of tensors in the vendor layout share. Tensors are headers and temporaries of the innermost scope; NULL, with an error
   pending, is passed on. */
#ifndef FAC_SRC_OPS_VENDOR_PARTS_H
#define FAC_SRC_OPS_VENDOR_PARTS_H

#include "core/vendor.h"
#include "ops/sparse/parts.h"

/* First in a kernel: temporaries die with it, and what it calls is not recorded. */
#define FAC_VENDOR_KERNEL FAC_SPARSE_KERNEL

static inline fac_ints fac__vendor_sizes(const fac_tensor *t) { return (fac_ints){t->sizes, t->ndim}; }
static inline fac_dtype fac__vendor_dtype(const fac_tensor *t) { return (fac_dtype)t->dtype; }
/* A new reference, so that a part of a tensor may be given to operators as a temporary. NULL stays NULL. */
static inline fac_tensor *fac__vendor_keep(fac_tensor *t) { return t ? fac__adopt(fac__thread(), fac__ref(t)) : NULL; }

/* Dtypes that the layout is for: float32, bfloat16, float16. */
static inline bool fac__vendor_takes(fac_dtype d) { return d == FAC_F32 || fac__is_half(d); }
fac_status fac__vendor_check_dtype(fac_dtype d);

/* The order that a tensor of these sizes gets: channels in blocks, of images and volumes with a block of them at least. */
fac_vendor_order fac__vendor_order_for(const int64_t *sizes, int ndim);
/* A tensor of rows or channels over these cells. */
fac_tensor *fac__vendor_over(fac_ints sizes, fac_vendor_order order, fac_tensor *cells);
/* Its like with other cells of the same sizes, which may have another dtype. */
fac_tensor *fac__vendor_with_cells(fac_tensor *like, fac_tensor *cells);
/* Unspecified elements, but zeros behind the last channel. */
fac_tensor *fac__vendor_empty(fac_ints sizes, fac_vendor_order order, fac_dtype dtype);
/* A strided tensor in the layout; its elements may be shared. */
fac_tensor *fac__vendor_of_strided(fac_tensor *t, fac_vendor_order order);
/* A strided tensor of the same elements, which may share the cells of rows; a strided tensor is given back. */
fac_tensor *fac__vendor_strided(fac_tensor *t);
/* The same elements in another order; t itself if it has it. */
fac_tensor *fac__vendor_in_order(fac_tensor *t, fac_vendor_order order);
fac_tensor *fac__vendor_cast(fac_tensor *t, fac_dtype dtype);
/* Puts zeros behind the last channel of a tensor that nobody else has. */
fac_status fac__vendor_clear_spare(fac_tensor *t);
/* The elements of `from`, in either layout, into those of `to`, converted. Sizes are equal. */
fac_status fac__vendor_put(fac_tensor *to, fac_tensor *from);
/* A weight of a convolution in the order in which it is read; weight: in either layout. nd: its spatial dimensions. */
fac_tensor *fac__vendor_weight(fac_tensor *weight, int64_t groups);

/* Calls the operator with strided tensors in the place of those in the vendor layout. Results of dtypes that the layout takes are
   in the vendor layout where the argument is that `like` names for each, -1 for none. */
fac_status fac__vendor_detour(const fac_operator *op, const int8_t *like, fac_value *stack);

#endif
