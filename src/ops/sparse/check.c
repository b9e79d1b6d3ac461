/* See check.h. The messages are PyTorch's. */
#include "ops/sparse/check.h"
#include "core/read.h"
#include "core/sparse.h"

/* Row-major indices on the host, as int64: the tensor's own, or a copy. NULL where there are none to look at. */
typedef struct fetched {
    const int64_t *v;
    int64_t *copy;
} fetched;

static void drop(fetched *f) { fac__free(f->copy); }

/* Of two dimensions at most, as those of coordinates: quicker than element by element. */
static void read_rows(const fac_tensor *t, int64_t *out) {
    const bool flat = t->ndim < 2;
    const int64_t rows = flat ? 1 : t->sizes[0], n = t->numel / rows, row = flat ? 0 : t->strides[0],
                  step = t->ndim ? t->strides[t->ndim - 1] : 1, *v = fac__data(t);
    for (int64_t r = 0; r < rows; r++, v += row)
        for (int64_t i = 0; i < n; i++) *out++ = v[i * step];
}

static fac_status fetch(fac_tensor *t, fetched *out) {
    *out = (fetched){0};
    if (t->device.type == FAC_META || t->numel == 0) return FAC_OK;
    const bool here = !t->cls && fac__is_cpu(t) && t->dtype == FAC_I64 && !fac__pending(t);
    if (here && fac__is_contiguous(t)) {
        out->v = fac__data(t);
        return FAC_OK;
    }
    out->v = out->copy = fac__alloc_array((size_t)t->numel, sizeof *out->copy);
    if (!out->v) return FAC_ERR_MEMORY;
    fac_status st = FAC_OK;
    if (here && t->ndim <= 2)
        read_rows(t, out->copy);
    else
        st = fac__read(t, FAC_I64, out->copy, (size_t)t->numel);
    if (st != FAC_OK) drop(out), *out = (fetched){0};
    return st;
}

/* ---- coordinates --------------------------------------------------------------------------------------------------------- */

static fac_status check_row(const int64_t *v, int64_t n, int dim, int64_t size) {
    uint64_t bits = 0; /* of all together: if they make no more than the size, none is beyond it, as mostly */
    for (int64_t i = 0; i < n; i++) bits |= (uint64_t)v[i];
    if (bits < (uint64_t)size) return FAC_OK;
    for (int64_t i = 0; i < n; i++) {
        FAC_CHECK(v[i] >= 0, FAC_ERR_INDEX, "found negative index %lld for dim %d", (long long)v[i], dim);
        FAC_CHECK(v[i] < size, FAC_ERR_INDEX,
                  "size is inconsistent with indices: for dim %d, size is %lld but found index %lld", dim,
                  (long long)size, (long long)v[i]);
    }
    return FAC_OK;
}

static fac_status check_order(const int64_t *v, int64_t rows, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        int64_t d = 0;
        while (d < rows && v[d * n + i] == v[d * n + i - 1]) d++;
        FAC_CHECK(d < rows && v[d * n + i] > v[d * n + i - 1], FAC_ERR_ARGUMENT,
                  "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor");
    }
    return FAC_OK;
}

fac_status fac__sparse_check_coo_indices(fac_tensor *indices, fac_ints size, bool coalesced) {
    fetched f;
    const int64_t rows = indices->sizes[0], n = indices->sizes[1];
    fac_status st = fetch(indices, &f);
    const int64_t *v = f.v;
    for (int64_t d = 0; v && d < rows && st == FAC_OK; d++) st = check_row(v + d * n, n, (int)d, size.v[d]);
    if (st == FAC_OK && coalesced && v) st = check_order(v, rows, n);
    if (st == FAC_OK && rows == 0 && n > 1 && coalesced)
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "a tensor without sparse dimensions is coalesced with one element at most");
    drop(&f);
    return st;
}

static int64_t largest(const int64_t *v, int64_t n) {
    int64_t most = -1;
    for (int64_t i = 0; i < n; i++) most = v[i] > most ? v[i] : most;
    return most == INT64_MAX ? most : most + 1;
}

fac_status fac__sparse_largest(fac_tensor *indices, int64_t *out) {
    fetched f;
    FAC_CHECK(indices->device.type != FAC_META, FAC_ERR_DEVICE,
              "sizes cannot be told from indices on the meta device: give them");
    FAC_TRY(fetch(indices, &f));
    for (int64_t d = 0; d < indices->sizes[0]; d++)
        out[d] = f.v ? largest(f.v + d * indices->sizes[1], indices->sizes[1]) : 0;
    drop(&f);
    return FAC_OK;
}

fac_status fac__sparse_largest_of_all(fac_tensor *indices, int64_t *out) {
    fetched f;
    FAC_CHECK(indices->device.type != FAC_META, FAC_ERR_DEVICE,
              "sizes cannot be told from indices on the meta device: give them");
    FAC_TRY(fetch(indices, &f));
    *out = f.v ? largest(f.v, indices->numel) : 0;
    drop(&f);
    return FAC_OK;
}

/* ---- compressed ------------------------------------------------------------------------------------------------------------ */

typedef struct names {
    const char *compressed, *plain, *lines, *places;
    bool by_row, blocks;
} names;

static names names_of(fac_layout l) {
    const bool by_row = l == FAC_SPARSE_CSR || l == FAC_SPARSE_BSR;
    const names rows = {"crow_indices", "col_indices", "nrows", "ncols", true, false},
                columns = {"ccol_indices", "row_indices", "ncols", "nrows", false, false};
    names n = by_row ? rows : columns;
    n.blocks = l == FAC_SPARSE_BSR || l == FAC_SPARSE_BSC;
    return n;
}

static fac_status check_index_dtypes(const fac_tensor *a, const fac_tensor *b, names n) {
    const bool fine = (a->dtype == FAC_I32 || a->dtype == FAC_I64) && a->dtype == b->dtype;
    FAC_CHECK(fine, FAC_ERR_DTYPE, "%s and %s must both be int32 or both int64, but got %s and %s", n.compressed,
              n.plain, fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    return FAC_OK;
}

/* Sizes of rows and columns, in blocks; false if blocks do not divide them. */
static bool in_blocks(const fac_tensor *values, fac_ints size, int batch, names n, int64_t out[2]) {
    for (int i = 0; i < 2; i++) {
        const int64_t b = n.blocks ? values->sizes[batch + 1 + i] : 1;
        if (b < 1 || size.v[batch + i] % b != 0) return false;
        out[i] = size.v[batch + i] / b;
    }
    return true;
}

fac_status fac__sparse_check_compressed_shapes(fac_tensor *compressed, fac_tensor *plain, fac_tensor *values,
                                               fac_ints size, fac_layout layout) {
    const names n = names_of(layout);
    int64_t counts[2];
    FAC_CHECK(fac__is_compressed_layout(layout), FAC_ERR_UNSUPPORTED,
              "%s is no compressed layout; the strided one neither", fac__layout_name(layout));
    FAC_TRY(check_index_dtypes(compressed, plain, n));
    const int batch = plain->ndim - 1, dense = values->ndim - plain->ndim - (n.blocks ? 2 : 0);
    FAC_CHECK(batch >= 0 && compressed->ndim == plain->ndim, FAC_ERR_SHAPE,
              "%s and %s dimensionalities must be equal and at least 1 but got %d and %d, respectively", n.compressed,
              n.plain, compressed->ndim, plain->ndim);
    FAC_CHECK(dense >= 0 && (size_t)(batch + 2 + dense) == size.n && size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=%d + 2 + %d) but got %zu",
              batch, dense, size.n);
    for (int i = 0; i < batch; i++)
        FAC_CHECK(compressed->sizes[i] == size.v[i] && plain->sizes[i] == size.v[i] && values->sizes[i] == size.v[i],
                  FAC_ERR_SHAPE,
                  "all batch dimensions of %s (=%s), %s (=%s), and values (=%s) must be equal to the tensor's",
                  n.compressed, FAC_SHAPE_TEXT(compressed), n.plain, FAC_SHAPE_TEXT(plain), FAC_SHAPE_TEXT(values));
    for (size_t i = 0; i < size.n; i++)
        FAC_CHECK(size.v[i] >= 0, FAC_ERR_SHAPE, "Trying to create tensor with negative dimension %lld",
                  (long long)size.v[i]);
    FAC_CHECK(values->sizes[batch] == plain->sizes[batch], FAC_ERR_SHAPE,
              "number of specified elements must be the same in %s (=%lld) and values (=%lld)", n.plain,
              (long long)plain->sizes[batch], (long long)values->sizes[batch]);
    for (int i = 0; i < dense; i++)
        FAC_CHECK(values->sizes[values->ndim - dense + i] == size.v[batch + 2 + i], FAC_ERR_SHAPE,
                  "values of sizes %s do not have the dense dimensions of the tensor", FAC_SHAPE_TEXT(values));
    FAC_CHECK(in_blocks(values, size, batch, n, counts), FAC_ERR_SHAPE,
              "tensor shape[%d] (=%lld) and shape[%d] (=%lld) must be divisible by the blocks of values of sizes %s",
              batch, (long long)size.v[batch], batch + 1, (long long)size.v[batch + 1], FAC_SHAPE_TEXT(values));
    FAC_CHECK(compressed->sizes[batch] - 1 == counts[n.by_row ? 0 : 1], FAC_ERR_SHAPE,
              "%s.shape[-1] must be equal to the number of %s + 1 (=%llu), but got %lld", n.compressed, n.lines,
              (unsigned long long)counts[n.by_row ? 0 : 1] + 1, (long long)compressed->sizes[batch]);
    FAC_CHECK(fac_device_equal(compressed->device, plain->device) && fac_device_equal(plain->device, values->device),
              FAC_ERR_DEVICE, "%s, %s and values must be on one device", n.compressed, n.plain);
    return FAC_OK;
}

static fac_status check_batch(const int64_t *a, const int64_t *b, int64_t lines, int64_t places, int64_t z, names n) {
    FAC_CHECK(a[0] == 0, FAC_ERR_ARGUMENT, "`%s[..., 0] == 0` is not satisfied.", n.compressed);
    FAC_CHECK(a[lines] == z, FAC_ERR_ARGUMENT, "`%s[..., -1] == nnz` is not satisfied.", n.compressed);
    for (int64_t i = 0; i < lines; i++)
        FAC_CHECK(a[i + 1] >= a[i] && a[i + 1] - a[i] <= places, FAC_ERR_ARGUMENT,
                  "`0 <= %s[..., 1:] - %s[..., :-1] <= %s` is not satisfied.", n.compressed, n.compressed, n.places);
    for (int64_t i = 0; i < z; i++)
        FAC_CHECK(b[i] >= 0 && b[i] < places, FAC_ERR_INDEX, "`0 <= %s < %s` is not satisfied.", n.plain, n.places);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t k = a[i] + 1; k < a[i + 1]; k++)
            FAC_CHECK(
                b[k] > b[k - 1], FAC_ERR_ARGUMENT,
                "`%s[..., %s[..., i - 1]:%s[..., i]] for all i = 1, ..., %s are sorted and distinct along the last "
                "dimension values` is not satisfied.",
                n.plain, n.compressed, n.compressed, n.lines);
    return FAC_OK;
}

fac_status fac__sparse_check_compressed_indices(fac_tensor *compressed, fac_tensor *plain, fac_tensor *values,
                                                fac_ints size, fac_layout layout) {
    const names n = names_of(layout);
    const int batch = plain->ndim - 1;
    const int64_t z = plain->sizes[batch], lines = compressed->sizes[batch] - 1;
    int64_t counts[2], batches = 1;
    fetched a, b = {0};
    if (!in_blocks(values, size, batch, n, counts)) return FAC_ERR_SHAPE;
    for (int i = 0; i < batch; i++) batches *= size.v[i];
    fac_status st = fetch(compressed, &a);
    if (st == FAC_OK) st = fetch(plain, &b);
    for (int64_t i = 0; a.v && i < batches && st == FAC_OK; i++)
        st = check_batch(a.v + i * (lines + 1), b.v ? b.v + i * z : NULL, lines, counts[n.by_row ? 1 : 0], z, n);
    drop(&a), drop(&b);
    return st;
}
