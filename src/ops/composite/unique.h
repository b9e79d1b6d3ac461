/* Unique slices along a dimension. */
#ifndef FAC_SRC_OPS_COMPOSITE_UNIQUE_H
#define FAC_SRC_OPS_COMPOSITE_UNIQUE_H

#include "core/tensor.h"

/* Slices of self along `dim` without those equal to the one before, the group of each slice [n], and the size of each group.
   Owned results; nothing is recorded for a gradient. */
fac_status fac__unique_slices(fac_tensor *self, int64_t dim, fac_tensor **out);

#endif
