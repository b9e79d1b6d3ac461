/* Resizing the out argument of an operator. */
#include "core/resize.h"
#include "ops/structured.h"

void fac__resize_out_end(fac_tensor *out, fac_tensor *resized) {
    if (out->numel)
        fac__warn(
            "an output with one or more elements was resized from shape %s to %s; resize outputs to zero elements "
            "first to reuse them without this warning",
            FAC_SHAPE_TEXT(out), FAC_SHAPE_TEXT(resized));
    fac__resize_end(out, resized);
}
