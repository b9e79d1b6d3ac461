/* Arithmetic of sizes and strides: counted, broadcast, inferred, wrapped, written as text. */
#include "core/tensor.h"

bool fac__numel(const int64_t *sizes, int ndim, int64_t *out) {
    int64_t n = 1;
    bool fits = true, empty = false;
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] < 0) return false;
        empty |= sizes[d] == 0;
        fits = fits && fac__mul(n, sizes[d], &n);
    }
    *out = empty ? 0 : n;
    return fits || empty;
}

void fac__row_major(const int64_t *sizes, int ndim, int64_t *out_strides) {
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        out_strides[d] = stride;
        if (!fac__mul(stride, fac__max(sizes[d], 1), &stride)) stride = INT64_MAX; /* only where numel is 0 */
    }
}

fac_status fac__wrap_dim(int64_t dim, int64_t ndim, int64_t *out) {
    int64_t n = ndim > 0 ? ndim : 1;
    if (FAC_UNLIKELY(dim < -n || dim >= n))
        return FAC_FAIL(FAC_ERR_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
                        (long long)-n, (long long)(n - 1), (long long)dim);
    *out = dim < 0 ? dim + n : dim;
    return FAC_OK;
}

fac_status fac__dim_mask(fac_ints dims, int64_t ndim, uint64_t *out_mask) {
    uint64_t mask = 0;
    if (dims.n == 0) {
        *out_mask = ndim == 0 ? 0 : UINT64_MAX >> (64 - ndim);
        return FAC_OK;
    }
    for (size_t i = 0; i < dims.n; i++) {
        int64_t d;
        FAC_TRY(fac__wrap_dim(dims.v[i], ndim, &d));
        uint64_t bit = (uint64_t)1 << d;
        FAC_CHECK(!(mask & bit), FAC_ERR_ARGUMENT, "dim %lld appears multiple times in the list of dims", (long long)d);
        mask |= bit;
    }
    *out_mask = ndim == 0 ? 0 : mask;
    return FAC_OK;
}

fac_status fac__broadcast(const int64_t *a, int na, const int64_t *b, int nb, int64_t *out, int *out_n) {
    int n = na > nb ? na : nb;
    for (int i = 1; i <= n; i++) { /* counted from the last dimension */
        int64_t x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
        FAC_CHECK(x == y || x == 1 || y == 1, FAC_ERR_SHAPE,
                  "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
                  (long long)x, (long long)y, n - i);
        out[n - i] = x == 1 ? y : x;
    }
    *out_n = n;
    return FAC_OK;
}

fac_status fac__infer_size(fac_ints sizes, int64_t numel, int64_t *out) {
    char text[256];
    int n = (int)sizes.n, unknown = -1;
    int64_t known = 1;
    FAC_CHECK(sizes.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a shape of %zu dimensions; at most %d are supported", sizes.n,
              FAC_MAX_DIMS);
    for (int d = 0; d < n; d++) {
        out[d] = sizes.v[d];
        if (out[d] == -1) {
            FAC_CHECK(unknown < 0, FAC_ERR_SHAPE, "only one dimension can be inferred");
            unknown = d;
            continue;
        }
        FAC_CHECK(out[d] >= 0, FAC_ERR_SHAPE, "invalid shape dimension %lld", (long long)out[d]);
    }
    if (unknown >= 0) out[unknown] = 1;
    bool fits = fac__numel(out, n, &known);
    if (unknown >= 0) {
        FAC_CHECK(
            !fits || known != 0 || numel != 0, FAC_ERR_SHAPE,
            "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any "
            "value and is ambiguous",
            fac__shape_text(sizes.v, n, text, sizeof text));
        fits = fits && known != 0 && numel % known == 0;
        if (fits) out[unknown] = numel / known;
    } else {
        fits = fits && known == numel;
    }
    FAC_CHECK(fits, FAC_ERR_SHAPE, "shape '%s' is invalid for input of size %lld",
              fac__shape_text(sizes.v, n, text, sizeof text), (long long)numel);
    return FAC_OK;
}

char *fac__shape_text(const int64_t *sizes, int ndim, char *buf, size_t size) {
    size_t at = 0;
    for (int d = 0; d < ndim && at < size; d++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", d ? ", " : "[", (long long)sizes[d]);
    if (at < size) snprintf(buf + at, size - at, "%s", ndim ? "]" : "[]");
    if (at + 2 > size && size > 4) memcpy(buf + size - 5, "...]", 5);
    return buf;
}
