/* Walking over the elements of a tensor in CPU memory, in row-major order of the logical index. */
#ifndef FAC_SRC_CORE_READ_H
#define FAC_SRC_CORE_READ_H

#include "core/tensor.h"

/* Owned: t itself if it lies in CPU memory, else a copy there. Errors: meta and opaque tensors. */
fac_status fac__readable(fac_tensor *t, fac_tensor **out);

/* fac_tensor_read, fac_item and fac_item_int of a header. */
fac_status fac__read(fac_tensor *t, fac_dtype dtype, void *out, size_t n);
double fac__item(fac_tensor *t);
int64_t fac__item_int(fac_tensor *t);

typedef struct fac_reader {
    const fac_tensor *t;
    const char *p;
    int64_t index[FAC_MAX_DIMS];
} fac_reader;
/* Starts at the first element. */
void fac__reader_init(fac_reader *r, const fac_tensor *t);
/* The present element, and one step on. May be called numel times. A complex value is put in re_im. */
fac_scalar fac__reader_next(fac_reader *r, double re_im[2]);

#endif
