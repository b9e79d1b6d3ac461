/* Filling tensors whose elements share memory. */
#ifndef FAC_SRC_CORE_FILL_H
#define FAC_SRC_CORE_FILL_H

#include "core/tensor.h"

/* Fills t by way of `fill`: elements along dimensions of stride 0 are written once. */
fac_status fac__fill_once(fac_tensor *t, fac_scalar v, fac_status (*fill)(fac_tensor *, fac_scalar));

#endif
