/* Row-major operands for kernels that take no strides. */
#ifndef FAC_SRC_OPS_CONTIGUOUS_H
#define FAC_SRC_OPS_CONTIGUOUS_H

#include "core/tensor_make.h"
#include "ops/composite/below.h"

/* Owned: t itself if it is row-major, else a row-major copy, made below autograd. NULL gives NULL. */
static inline fac_status fac__contiguous_below(fac_tensor *t, fac_tensor **out) {
    *out = NULL;
    if (!t) return FAC_OK;
    if (fac__is_contiguous(t)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = fac__copy_below(*out, t);
    if (st == FAC_OK) return FAC_OK;
    fac__unref(*out);
    *out = NULL;
    return st;
}

#endif
