/* What the shape rules of reductions share with those of other families. */
#ifndef FAC_SRC_OPS_META_REDUCE_H
#define FAC_SRC_OPS_META_REDUCE_H

#include "iter/reduction.h"
#include "ops/structured.h"

/* The dtype that elements are converted to before they are summed or multiplied: the one that is asked for, or else that of an
   out tensor which may take them, so that a sum of halves does not overflow on its way into floats. FAC_DTYPE_DEFAULT: they stay
   as they are. */
static inline fac_dtype fac__sum_via(const fac_structured *s, const fac_tensor *self, fac_dtype dtype) {
    if (dtype || s->form != FAC_OUT) return dtype;
    const fac_dtype out = (fac_dtype)s->given[0]->dtype;
    return fac_can_cast((fac_dtype)self->dtype, out) ? out : FAC_DTYPE_DEFAULT;
}

/* Where a reduction's meta leaves the set of reduced dimensions for its kernel. */
#define FAC_CARRY_MASK 0
static inline uint64_t fac__carried_mask(const fac_structured *s) { return (uint64_t)s->carry[FAC_CARRY_MASK]; }

/* What kernels of any device fold: sums and products in the type that the result has, wide enough not to lose on the way; means;
   norms of an order. */
fac_reduction fac__fold_as(const fac_structured *s, const fac_tensor *self, fac_fold_op op, fac_dtype dtype);
fac_reduction fac__mean_as(const fac_structured *s, const fac_tensor *self, fac_dtype dtype);
fac_reduction fac__norm_as(const fac_structured *s, double order);
fac_reduction fac__powsum_as(const fac_structured *s, double order);

#endif
