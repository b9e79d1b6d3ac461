/* What is derived from a tensor's geometry, and the version counter's count. */
#ifndef FAC_SRC_CORE_TENSOR_FLAGS_H
#define FAC_SRC_CORE_TENSOR_FLAGS_H

#include "core/tensor.h"

enum { FAC_TF_GEOMETRY = FAC_TF_CONTIGUOUS | FAC_TF_DENSE | FAC_TF_CHANNELS_LAST | FAC_TF_CHANNELS_LAST_3D };
/* The flags that follow from sizes, strides and numel. */
unsigned fac__geometry_flags(const fac_tensor *t);
/* Sets them; leaves the other flags. */
static inline void fac__compute_flags(fac_tensor *t) {
    t->flags = (uint16_t)((t->flags & ~(unsigned)FAC_TF_GEOMETRY) | fac__geometry_flags(t));
}

fac_version_counter *fac__version_ref(fac_version_counter *v);
void fac__version_unref(fac_version_counter *v);

#endif
