/* Joining tensors, for back ends that know a better way than a copy of each. */
#ifndef FAC_SRC_OPS_COMPOSITE_JOIN_H
#define FAC_SRC_OPS_COMPOSITE_JOIN_H

#include "core/tensor.h"

/* Writes the tensors of l, joined along `dim`, into `whole`, which is fresh. */
typedef fac_status (*fac_join)(fac_tensors l, int64_t dim, fac_tensor *whole);
/* cat: checks, the result and `join`. */
fac_status fac__cat(fac_tensors l, int64_t dim, fac_join join, fac_tensor **out);
/* Whether cat leaves a tensor out: a one-dimensional one without elements, which fits anywhere. */
bool fac__cat_skips(const fac_tensor *t);
/* Copies rows [begin, begin + n) of dimension 0 of every tensor, which is not the one they are joined along, or if n is -1 all of
   them. */
fac_status fac__join_copies(fac_tensors l, int64_t dim, int64_t begin, int64_t n, fac_tensor *whole);

#endif
