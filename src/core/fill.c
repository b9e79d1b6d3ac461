#include "core/fill.h"

fac_status fac__fill_once(fac_tensor *t, fac_scalar v, fac_status (*fill)(fac_tensor *, fac_scalar)) {
    int64_t sizes[FAC_MAX_DIMS];
    bool repeats = false;
    fac_tensor *once;
    for (int d = 0; d < t->ndim; d++) {
        bool one = t->strides[d] == 0 && t->sizes[d] > 1;
        sizes[d] = one ? 1 : t->sizes[d];
        repeats = repeats || one;
    }
    if (!repeats) return fill(t, v);
    FAC_TRY(fac__view(t, sizes, t->strides, t->ndim, t->offset, false, &once));
    fac_status st = fill(once, v);
    fac__unref(once);
    return st;
}
