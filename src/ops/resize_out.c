/* Resizing the out argument of an operator. */
#include "ops/structured.h"

fac_status fac__resize_out(fac_tensor *out, const int64_t *sizes, int ndim) {
    if (out->ndim == ndim && memcmp(out->sizes, sizes, (size_t)ndim * sizeof *sizes) == 0) return FAC_OK;
    if (out->numel) {
        char want[256];
        fac__warn(
            "an output with one or more elements was resized from shape %s to %s; resize outputs to zero elements "
            "first to reuse them without this warning",
            FAC_SHAPE_TEXT(out), fac__shape_text(sizes, ndim, want, sizeof want));
    }
    return fac__resize(out, sizes, ndim);
}
