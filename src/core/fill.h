/* Filling tensors whose elements share memory. */
#ifndef FAC_SRC_CORE_FILL_H
#define FAC_SRC_CORE_FILL_H

#include "core/tensor.h"

/* Fills t by way of `fill`: elements that share a place, along dimensions of stride 0 or in windows that overlap, are
   written once, so that threads do not write to one place at a time. Left over are strides of which none divides the
   next, such as 2 and 3. */
fac_status fac__fill_once(fac_tensor *t, fac_scalar v, fac_status (*fill)(fac_tensor *, fac_scalar));

#endif
