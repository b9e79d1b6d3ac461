/* NumPy's format of one array: magic number, version, a header that is a Python dict as text, and the elements. */
#ifndef FAC_SRC_IO_NPY_H
#define FAC_SRC_IO_NPY_H

#include "core/tensor.h"

/* Where the bytes come from. */
typedef struct npy_source {
    void *context;
    fac_status (*read)(void *context, void *out, size_t n); /* exactly n, or an error */
    int64_t left;                                           /* bytes, counted down by what reads */
    const char *name;                                       /* for messages */
} npy_source;

/* What a header says. */
typedef struct npy_header {
    fac_dtype dtype;
    bool swapped, fortran; /* the other byte order; first dimension fastest */
    int ndim;
    int64_t sizes[FAC_MAX_DIMS];
} npy_header;

/* Reads the header; the elements that it promises are all that is left. */
fac_status fac__npy_header(npy_source *s, npy_header *out);
/* Reads the elements into a new tensor of the innermost scope (a header). */
fac_tensor *fac__npy_elements(npy_source *s, const npy_header *h);
/* Appends the header of a tensor to a buffer. errors: UNSUPPORTED for a dtype that NumPy has not */
fac_status fac__npy_make_header(const fac_tensor *t, fac_buf *out);
/* The bytes of a tensor in row-major order: its own, or in *out_copy, to be freed, a copy. */
fac_status fac__elements_in_order(fac_tensor *t, const void **out, size_t *out_bytes, void **out_copy);

#endif
