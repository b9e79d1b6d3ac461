/* What is derived from a tensor's geometry, and the version counter's count. */
#ifndef FAC_SRC_CORE_TENSOR_FLAGS_H
#define FAC_SRC_CORE_TENSOR_FLAGS_H

#include "core/tensor.h"

/* Sets the contiguity flags from sizes, strides and numel; leaves the other flags. */
void fac__compute_flags(fac_tensor *t);

fac_version_counter *fac__version_ref(fac_version_counter *v);
void fac__version_unref(fac_version_counter *v);

#endif
