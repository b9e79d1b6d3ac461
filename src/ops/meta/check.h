/* What shape rules ask of tensor arguments whose sizes and dtype follow from the others, such as the statistics that a
   forward operator saved. Kernels trust them, and anyone can call an operator by name: each is checked. */
#ifndef FAC_SRC_OPS_META_CHECK_H
#define FAC_SRC_OPS_META_CHECK_H

#include "core/tensor.h"

/* t must have these sizes. NULL, an argument that was not given, passes in all of these. */
fac_status fac__need_sizes(const char *name, const fac_tensor *t, const int64_t *sizes, int ndim);
/* t must have one element, in any shape. */
fac_status fac__need_one(const char *name, const fac_tensor *t);
fac_status fac__need_dtype(const char *name, const fac_tensor *t, fac_dtype dtype);
/* t must be of a real floating type. */
fac_status fac__need_floating(const char *name, const fac_tensor *t);
/* glu's: the dimension along which t is cut in two halves must have an even size. */
fac_status fac__check_halves(const fac_tensor *t, int64_t dim, int64_t *out_dim);
/* The type in which statistics and sums over elements of this type are kept: float64 for itself, else float32. */
static inline fac_dtype fac__statistic_dtype(const fac_tensor *t) { return t->dtype == FAC_F64 ? FAC_F64 : FAC_F32; }

/* Of draws of given keys: int64 keys [*batch, 2] on the device of self, whose dtype is one of from ... to, and whose leading sizes are
   those of the batch or meet a 1 there. */
fac_status fac__check_philox(const fac_tensor *self, const fac_tensor *key, fac_dtype from, fac_dtype to);

#endif
