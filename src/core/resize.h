/* Resizing in two steps: see resize.c. */
#ifndef FAC_SRC_CORE_RESIZE_H
#define FAC_SRC_CORE_RESIZE_H

#include "core/tensor.h"

/* An owned tensor of t's dtype and device with another geometry (strides NULL: row-major), which t can become without
   failing: over t's own storage where that is large enough, else over new bytes that begin with those before t's offset,
   or with all of t's storage where `keep_all`. t is unchanged, until somebody writes to what they share.
   errors: SHAPE, OVERFLOW, MEMORY; STATE if t's storage is too small and its memory is the caller's */
fac_status fac__resize_begin(fac_tensor *t, const int64_t *sizes, const int64_t *strides, int ndim, bool keep_all,
                             fac_tensor **out);
/* Makes t what fac__resize_begin gave, and releases that. All tensors over t's storage see its new bytes. */
void fac__resize_end(fac_tensor *t, fac_tensor *next);

/* Gives t the sizes, strides and offset of `next`, a view of it or of its storage, which is left without dimensions. */
void fac__move_geometry(fac_tensor *t, fac_tensor *next);

#endif
