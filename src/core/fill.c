/* Fills each place of a tensor once, however its elements share memory. */
#include "core/fill.h"
#include "core/tensor_make.h"

/* Dimensions as sets of places: each of more than one, the smallest stride first. Returns how many. */
static int sort_by_stride(const fac_tensor *t, int64_t *sizes, int64_t *strides) {
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->strides[d] == 0 || t->sizes[d] == 1) continue;
        int at = n++;
        for (; at && strides[at - 1] > t->strides[d]; at--) sizes[at] = sizes[at - 1], strides[at] = strides[at - 1];
        sizes[at] = t->sizes[d];
        strides[at] = t->strides[d];
    }
    return n;
}

/* Joins a dimension with the one before it where its steps begin within that one or at its end: the places of both are
   then one row. Returns how many dimensions are left; *places is their number of elements. */
static int join_rows(int64_t *sizes, int64_t *strides, int n, int64_t *places) {
    int last = -1;
    for (int d = 0; d < n; d++) {
        bool joins = last >= 0 && strides[d] % strides[last] == 0 && strides[d] / strides[last] <= sizes[last];
        if (joins) {
            sizes[last] += strides[d] / strides[last] * (sizes[d] - 1);
        } else {
            last++;
            sizes[last] = sizes[d];
            strides[last] = strides[d];
        }
    }
    *places = 1;
    for (int d = 0; d <= last; d++) *places *= sizes[d];
    return last + 1;
}

fac_status fac__fill_once(fac_tensor *t, fac_scalar v, fac_status (*fill)(fac_tensor *, fac_scalar)) {
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS], places;
    fac_tensor *once;
    if (t->numel == 0 || (t->flags & FAC_TF_DENSE)) return fill(t, v);
    int n = join_rows(sizes, strides, sort_by_stride(t, sizes, strides), &places);
    if (places == t->numel) return fill(t, v);
    FAC_TRY(fac__view(t, sizes, strides, n, t->offset, false, &once));
    fac_status st = fill(once, v);
    fac__unref(once);
    return st;
}
