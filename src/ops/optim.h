/* What the fused optimiser steps ask of their tensors on every device: they are walked as flat memory. */
#ifndef FAC_SRC_OPS_OPTIM_H
#define FAC_SRC_OPS_OPTIM_H

#include "core/tensor.h"

/* A parameter is float32 or float64, without overlap or gaps. errors: DTYPE; SHAPE */
fac_status fac__optim_check_parameter(const fac_tensor *self);
/* Whether t surely has the dtype, device, sizes and strides of self. */
static inline bool fac__optim_is_twin(const fac_tensor *self, const fac_tensor *t) {
    if (t->dtype != self->dtype || t->ndim != self->ndim || t->device.type != self->device.type ||
        t->device.index_plus != self->device.index_plus)
        return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->sizes[d] != self->sizes[d] || t->strides[d] != self->strides[d]) return false;
    return true;
}
/* A gradient or buffer `name` (NULL: none) has the parameter's dtype, device, sizes and strides. errors: DTYPE; DEVICE; SHAPE */
fac_status fac__optim_check_twin(const fac_tensor *self, const fac_tensor *t, const char *name);

#endif
