/* Reading tensors from the host, wherever they lie. */
#ifndef FAC_SRC_CORE_READ_H
#define FAC_SRC_CORE_READ_H

#include "core/tensor.h"

/* Owned, with no conjugation or negation pending: t itself if it lies so in CPU memory, else a copy there. Errors: meta and
   opaque tensors. */
fac_status fac__readable(fac_tensor *t, fac_tensor **out);

/* fac_tensor_read, fac_item and fac_item_int of a header. */
fac_status fac__read(fac_tensor *t, fac_dtype dtype, void *out, size_t n);
double fac__item(fac_tensor *t);
int64_t fac__item_int(fac_tensor *t);

#endif
