/* Sparse tensors from their parts, and the checks of these: shapes by whoever makes one, what indices hold on the host. */
#include "core/read.h"
#include "core/tensor_make.h"
#include "ops/composite/factory.h"
#include "ops/sparse/check.h"
#include "ops/sparse/parts.h"

/* ---- what is asked for ------------------------------------------------------------------------------------------------- */

/* The layout that a factory makes, if it is given one. */
static fac_status need_layout(fac_layout given, fac_layout made) {
    FAC_CHECK(given == FAC_STRIDED || given == made, FAC_ERR_UNSUPPORTED, "%s tensors are made here, not %s ones",
              fac__layout_name(made), fac__layout_name(given));
    return FAC_OK;
}

static fac_status need_no_pinning(fac_opt_num pin_memory) {
    FAC_CHECK(!pin_memory.set || !pin_memory.v.bits, FAC_ERR_UNSUPPORTED, "sparse tensors cannot be pinned");
    return FAC_OK;
}

/* A part in the dtype and on the device that a factory is given. */
static fac_tensor *placed(fac_tensor *t, fac_dtype dtype, fac_device device) {
    if (!t) return NULL;
    if (dtype == FAC_DTYPE_DEFAULT) dtype = fac__sparse_dtype(t);
    if (device.type == FAC_DEVICE_UNSET) return fac__sparse_cast(t, dtype);
    return fac__s_to_device(t, device, dtype, false, false, FAC_FORMAT_DEFAULT);
}

/* Owned: t without a history, sharing its memory. */
static fac_status part_of(fac_tensor *t, fac_tensor **out) { return fac__alias(t, true, out); }

/* ---- coordinates ---------------------------------------------------------------------------------------------------------- */

/* Coordinates of integers become int64; one value without a dimension becomes a list of one. */
static fac_status coo_parts(fac_tensor **indices, fac_tensor **values) {
    FAC_CHECK(fac__sparse_is_integral(*indices) && (*indices)->dtype != FAC_BOOL, FAC_ERR_DTYPE,
              "indices must be integers, not %s", fac_dtype_name(fac__sparse_dtype(*indices)));
    *indices = fac__sparse_long(*indices);
    if ((*values)->ndim == 0) *values = fac__s_reshape(*values, FAC_INTS(1));
    return *indices && *values ? FAC_OK : fac_error();
}

fac_status fac__sparse_check_coo_shapes(fac_tensor *indices, fac_tensor *values, fac_ints size) {
    FAC_CHECK(indices->ndim == 2, FAC_ERR_SHAPE, "indices must be sparse_dim x nnz, but got: %s",
              FAC_SHAPE_TEXT(indices));
    FAC_CHECK(values->ndim >= 1 && values->sizes[0] == indices->sizes[1], FAC_ERR_SHAPE,
              "indices and values must have same nnz, but got nnz from indices: %lld, nnz from values: %s",
              (long long)indices->sizes[1], FAC_SHAPE_TEXT(values));
    const int64_t sparse = indices->sizes[0], dense = values->ndim - 1;
    FAC_CHECK(sparse == (int64_t)size.n - dense, FAC_ERR_SHAPE,
              "number of dimensions must be sparse_dim (%lld) + dense_dim (%lld), but got %zu", (long long)sparse,
              (long long)dense, size.n);
    for (int i = 0; i < dense; i++)
        FAC_CHECK(values->sizes[i + 1] == size.v[sparse + i], FAC_ERR_SHAPE,
                  "values has incorrect size %s for a tensor of sizes %s", FAC_SHAPE_TEXT(values),
                  fac__shape_text(size.v, (int)size.n, (char[256]){0}, 256));
    FAC_CHECK(fac_device_equal(indices->device, values->device), FAC_ERR_DEVICE,
              "indices and values must be on one device");
    return FAC_OK;
}

fac_status coo_with_tensors_explicit(const fac_call_info *c, int64_t sparse_dim, int64_t dense_dim, fac_ints size,
                                     fac_tensor *indices, fac_tensor *values, fac_dtype dtype, fac_layout layout,
                                     fac_device device, fac_opt_num pin_memory, fac_opt_num is_coalesced,
                                     fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(need_layout(layout, FAC_SPARSE_COO));
    FAC_TRY(need_no_pinning(pin_memory));
    FAC_TRY(coo_parts(&indices, &values));
    indices = placed(indices, FAC_I64, device), values = placed(values, dtype, device);
    if (!indices || !values) return fac_error();
    FAC_TRY(fac__sparse_check_coo_shapes(indices, values, size));
    FAC_CHECK(indices->sizes[0] == sparse_dim && values->ndim - 1 == dense_dim, FAC_ERR_SHAPE,
              "indices and values have %lld sparse and %d dense dimensions, not %lld and %lld",
              (long long)indices->sizes[0], values->ndim - 1, (long long)sparse_dim, (long long)dense_dim);
    fac_sparse parts = {.layout = FAC_SPARSE_COO,
                        .coalesced = is_coalesced.set && is_coalesced.v.bits != 0,
                        .sparse_dim = (uint8_t)sparse_dim,
                        .dense_dim = (uint8_t)dense_dim};
    FAC_TRY(part_of(indices, &parts.indices));
    fac_status st = part_of(values, &parts.values);
    if (st == FAC_OK) st = fac__sparse_make(size.v, (int)size.n, &parts, out);
    fac__unref(parts.indices);
    fac__unref(parts.values);
    return st;
}

fac_status coo_with_dims_explicit(const fac_call_info *c, int64_t sparse_dim, int64_t dense_dim, fac_ints size,
                                  fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                  fac_tensor **out) {
    FAC_SPARSE_KERNEL;
    fac_factory f = FACTORY(dtype, FAC_STRIDED, device, pin_memory);
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_CHECK(sparse_dim >= 0 && dense_dim >= 0 && sparse_dim <= FAC_MAX_DIMS && dense_dim <= FAC_MAX_DIMS &&
                  (size_t)(sparse_dim + dense_dim) == size.n && size.n <= FAC_MAX_DIMS,
              FAC_ERR_SHAPE, "number of dimensions must be sparse_dim (%lld) + dense_dim (%lld), but got %zu",
              (long long)sparse_dim, (long long)dense_dim, size.n);
    int64_t values[FAC_MAX_DIMS + 1] = {0};
    for (int64_t i = 0; i < dense_dim; i++) values[i + 1] = size.v[sparse_dim + i];
    fac_tensor *i = fac__sparse_zeros(FAC_INTS(sparse_dim, 0), FAC_I64, f.device),
               *v = fac__sparse_zeros((fac_ints){values, (size_t)dense_dim + 1}, f.dtype, f.device);
    if (!i || !v) return fac_error();
    return coo_with_tensors_explicit(c, sparse_dim, dense_dim, size, i, v, f.dtype, layout, f.device, pin_memory,
                                     fac_opt_num_(fac_scalar_b_(true)), out);
}

fac_status coo_of_size_explicit(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout,
                                fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    return coo_with_dims_explicit(c, (int64_t)size.n, 0, size, dtype, layout, device, pin_memory, out);
}

#define COO_ARGS dtype, layout, device, pin_memory, is_coalesced

static fac_status coo(bool check, fac_tensor *indices, fac_tensor *values, fac_ints size, fac_dtype dtype,
                      fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_opt_num is_coalesced,
                      fac_tensor **out) {
    FAC_SCOPE(s);
    FAC_TRY(coo_parts(&indices, &values));
    FAC_TRY(fac__sparse_check_coo_shapes(indices, values, size));
    if (check) FAC_TRY(fac__sparse_check_coo_indices(indices, size, is_coalesced.set && is_coalesced.v.bits));
    return fac__c__sparse_coo_tensor_with_dims_and_tensors(indices->sizes[0], values->ndim - 1, size, indices, values,
                                                           COO_ARGS, out);
}

fac_status coo_of_indices_size_composite(const fac_call_info *c, fac_tensor *indices, fac_tensor *values, fac_ints size,
                                         fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                         fac_opt_num is_coalesced, fac_tensor **out) {
    (void)c;
    return coo(true, indices, values, size, COO_ARGS, out);
}

fac_status coo_unsafe_composite(const fac_call_info *c, fac_tensor *indices, fac_tensor *values, fac_ints size,
                                fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                fac_opt_num is_coalesced, fac_tensor **out) {
    (void)c;
    return coo(false, indices, values, size, COO_ARGS, out);
}

fac_status coo_of_indices_composite(const fac_call_info *c, fac_tensor *indices, fac_tensor *values, fac_dtype dtype,
                                    fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                    fac_opt_num is_coalesced, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    int64_t size[FAC_MAX_DIMS];
    FAC_TRY(coo_parts(&indices, &values));
    FAC_CHECK(indices->ndim == 2, FAC_ERR_SHAPE, "indices must be sparse_dim x nnz, but got: %s",
              FAC_SHAPE_TEXT(indices));
    FAC_CHECK(indices->sizes[0] <= FAC_MAX_DIMS - (values->ndim - 1), FAC_ERR_SHAPE,
              "a tensor may have at most %d dimensions, got %lld sparse and %d dense ones", FAC_MAX_DIMS,
              (long long)indices->sizes[0], values->ndim - 1);
    const int64_t n = indices->sizes[0] + values->ndim - 1;
    FAC_TRY(fac__sparse_largest(indices, size));
    for (int i = 1; i < values->ndim; i++) size[indices->sizes[0] + i - 1] = values->sizes[i];
    return coo(true, indices, values, (fac_ints){size, (size_t)n}, COO_ARGS, out);
}

fac_status check_coo_composite(const fac_call_info *c, fac_tensor *indices, fac_tensor *values, fac_ints size,
                               fac_opt_num is_coalesced, fac_opt_num check_pinning) {
    (void)c, (void)check_pinning;
    FAC_SCOPE(s);
    FAC_TRY(coo_parts(&indices, &values));
    FAC_TRY(fac__sparse_check_coo_shapes(indices, values, size));
    return fac__sparse_check_coo_indices(indices, size, is_coalesced.set && is_coalesced.v.bits);
}

/* ---- compressed -------------------------------------------------------------------------------------------------------------- */

fac_status compressed_with_tensors_explicit(const fac_call_info *c, fac_tensor *compressed_indices,
                                            fac_tensor *plain_indices, fac_tensor *values, fac_ints size,
                                            fac_layout layout, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__sparse_check_compressed_shapes(compressed_indices, plain_indices, values, size, layout));
    fac_sparse parts = {
        .layout = layout, .sparse_dim = 2, .dense_dim = (uint8_t)(size.n - 1 - (size_t)plain_indices->ndim)};
    fac_status st = part_of(compressed_indices, &parts.indices);
    if (st == FAC_OK) st = part_of(plain_indices, &parts.plain);
    if (st == FAC_OK) st = part_of(values, &parts.values);
    if (st == FAC_OK) st = fac__sparse_make(size.v, (int)size.n, &parts, out);
    fac__unref(parts.indices);
    fac__unref(parts.plain);
    fac__unref(parts.values);
    return st;
}

static fac_status compressed(bool check, fac_layout made, fac_tensor *a, fac_tensor *b, fac_tensor *values,
                             fac_ints size, fac_dtype dtype, fac_layout layout, fac_device device,
                             fac_opt_num pin_memory, fac_tensor **out) {
    FAC_SCOPE(s);
    if (made != FAC_STRIDED) FAC_TRY(need_layout(layout, made));
    if (made == FAC_STRIDED) made = layout;
    FAC_CHECK(fac__is_compressed_layout(made), FAC_ERR_UNSUPPORTED,
              "a compressed layout should be given, not %s: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc",
              fac__layout_name(made));
    FAC_TRY(need_no_pinning(pin_memory));
    FAC_TRY(fac__sparse_check_compressed_shapes(a, b, values, size, made));
    if (check) FAC_TRY(fac__sparse_check_compressed_indices(a, b, values, size, made));
    a = placed(a, FAC_DTYPE_DEFAULT, device), b = placed(b, FAC_DTYPE_DEFAULT, device);
    return fac__give(out,
                     fac__s__sparse_compressed_tensor_with_tensors(a, b, placed(values, dtype, device), size, made));
}

/* Sizes that the parts tell; the plain dimension's is the least that holds all indices. */
static fac_status sizes_of_parts(fac_layout l, fac_tensor *a, fac_tensor *b, fac_tensor *values, int64_t *size,
                                 size_t *n) {
    const bool blocks = l == FAC_SPARSE_BSR || l == FAC_SPARSE_BSC, by_row = l == FAC_SPARSE_CSR || l == FAC_SPARSE_BSR;
    const int batch = b->ndim - 1, dense = values->ndim - b->ndim - (blocks ? 2 : 0);
    FAC_CHECK(batch >= 0 && dense >= 0 && a->ndim == b->ndim && batch + 2 + dense <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "parts of sizes %s, %s and %s make no compressed tensor", FAC_SHAPE_TEXT(a), FAC_SHAPE_TEXT(b),
              FAC_SHAPE_TEXT(values));
    int64_t plain, lines = a->sizes[batch] - 1, h = blocks ? values->sizes[batch + 1] : 1,
                   w = blocks ? values->sizes[batch + 2] : 1, rows, columns;
    FAC_TRY(fac__sparse_largest_of_all(b, &plain));
    for (int i = 0; i < batch; i++) size[i] = b->sizes[i];
    bool fits = fac__mul(by_row ? lines : plain, h, &rows) && fac__mul(by_row ? plain : lines, w, &columns);
    FAC_CHECK(fits && lines >= 0, FAC_ERR_SHAPE, "indices of sizes %s make no compressed tensor", FAC_SHAPE_TEXT(a));
    size[batch] = rows, size[batch + 1] = columns;
    for (int i = 0; i < dense; i++) size[batch + 2 + i] = values->sizes[values->ndim - dense + i];
    *n = (size_t)(batch + 2 + dense);
    return FAC_OK;
}

static fac_status compressed_of_parts(fac_layout made, fac_tensor *a, fac_tensor *b, fac_tensor *values,
                                      fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                      fac_tensor **out) {
    int64_t size[FAC_MAX_DIMS];
    size_t n;
    FAC_TRY(sizes_of_parts(made == FAC_STRIDED ? layout : made, a, b, values, size, &n));
    return compressed(true, made, a, b, values, (fac_ints){size, n}, dtype, layout, device, pin_memory, out);
}

static fac_status check_compressed(fac_tensor *a, fac_tensor *b, fac_tensor *values, fac_ints size, fac_layout layout) {
    FAC_CHECK(fac__is_compressed_layout(layout), FAC_ERR_UNSUPPORTED,
              "a compressed layout should be given, not %s: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc",
              fac__layout_name(layout));
    FAC_TRY(fac__sparse_check_compressed_shapes(a, b, values, size, layout));
    return fac__sparse_check_compressed_indices(a, b, values, size, layout);
}

fac_status check_compressed_composite(const fac_call_info *c, fac_tensor *compressed_indices, fac_tensor *plain_indices,
                                      fac_tensor *values, fac_ints size, fac_layout layout, fac_opt_num check_pinning) {
    (void)c, (void)check_pinning;
    return check_compressed(compressed_indices, plain_indices, values, size, layout);
}

#define OPTIONS fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out
#define OPTION_ARGS dtype, layout, device, pin_memory, out
#define MAKERS(kind, layout_)                                                                                      \
    fac_status kind##_of_parts_size_composite(const fac_call_info *c, fac_tensor *a, fac_tensor *b,                \
                                              fac_tensor *values, fac_ints size, OPTIONS) {                        \
        (void)c;                                                                                                   \
        return compressed(true, layout_, a, b, values, size, OPTION_ARGS);                                         \
    }                                                                                                              \
    fac_status kind##_of_parts_composite(const fac_call_info *c, fac_tensor *a, fac_tensor *b, fac_tensor *values, \
                                         OPTIONS) {                                                                \
        (void)c;                                                                                                   \
        return compressed_of_parts(layout_, a, b, values, OPTION_ARGS);                                            \
    }                                                                                                              \
    fac_status kind##_unsafe_composite(const fac_call_info *c, fac_tensor *a, fac_tensor *b, fac_tensor *values,   \
                                       fac_ints size, OPTIONS) {                                                   \
        (void)c;                                                                                                   \
        return compressed(false, layout_, a, b, values, size, OPTION_ARGS);                                        \
    }
#define CHECKER(kind, layout_)                                                                                    \
    fac_status check_##kind##_composite(const fac_call_info *c, fac_tensor *a, fac_tensor *b, fac_tensor *values, \
                                        fac_ints size, fac_opt_num check_pinning) {                               \
        (void)c, (void)check_pinning;                                                                             \
        return check_compressed(a, b, values, size, layout_);                                                     \
    }
MAKERS(compressed, FAC_STRIDED)
MAKERS(csr, FAC_SPARSE_CSR)
MAKERS(csc, FAC_SPARSE_CSC)
MAKERS(bsr, FAC_SPARSE_BSR)
MAKERS(bsc, FAC_SPARSE_BSC)
CHECKER(csr, FAC_SPARSE_CSR)
CHECKER(csc, FAC_SPARSE_CSC)
CHECKER(bsr, FAC_SPARSE_BSR)
CHECKER(bsc, FAC_SPARSE_BSC)

fac_status compressed_with_dims_explicit(const fac_call_info *c, int64_t nnz, int64_t dense_dim, fac_ints size,
                                         fac_ints blocksize, fac_dtype index_dtype, OPTIONS) {
    FAC_SPARSE_KERNEL;
    const bool blocks = layout == FAC_SPARSE_BSR || layout == FAC_SPARSE_BSC,
               by_row = layout == FAC_SPARSE_CSR || layout == FAC_SPARSE_BSR;
    fac_factory f = FACTORY(dtype, FAC_STRIDED, device, pin_memory);
    FAC_CHECK(fac__is_compressed_layout(layout), FAC_ERR_UNSUPPORTED,
              "a compressed layout should be given, not %s: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc",
              fac__layout_name(layout));
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_CHECK(nnz >= 0 && dense_dim >= 0 && dense_dim <= FAC_MAX_DIMS && size.n <= FAC_MAX_DIMS &&
                  dense_dim + 2 <= (int64_t)size.n,
              FAC_ERR_SHAPE, "a compressed tensor of %zu dimensions cannot have %lld dense ones and %lld elements",
              size.n, (long long)dense_dim, (long long)nnz);
    FAC_CHECK(blocksize.n == (blocks ? 2u : 0u) && (!blocks || (blocksize.v[0] > 0 && blocksize.v[1] > 0)),
              FAC_ERR_ARGUMENT, "the layout %s needs %s block size", fac__layout_name(layout), blocks ? "a" : "no");
    FAC_CHECK(index_dtype == FAC_I32 || index_dtype == FAC_I64, FAC_ERR_DTYPE, "indices are int32 or int64");
    const int batch = (int)size.n - 2 - (int)dense_dim;
    int64_t sizes[2 * FAC_MAX_DIMS];
    size_t n = (size_t)batch;
    for (int i = 0; i < batch; i++) sizes[i] = size.v[i];
    const int64_t lines = size.v[batch + (by_row ? 0 : 1)] / (blocks ? blocksize.v[by_row ? 0 : 1] : 1);
    FAC_CHECK(fac__add(lines, 1, &sizes[batch]), FAC_ERR_OVERFLOW, "a compressed tensor of %lld lines is too large",
              (long long)lines);
    fac_tensor *a = fac__sparse_zeros((fac_ints){sizes, n + 1}, index_dtype, f.device);
    sizes[n++] = nnz;
    fac_tensor *b = fac__sparse_zeros((fac_ints){sizes, n}, index_dtype, f.device);
    for (size_t i = 0; i < blocksize.n; i++) sizes[n++] = blocksize.v[i];
    for (int64_t i = 0; i < dense_dim; i++) sizes[n++] = size.v[batch + 2 + i];
    FAC_CHECK(n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "the values would have %zu dimensions", n);
    fac_tensor *values = fac__sparse_zeros((fac_ints){sizes, n}, f.dtype, f.device);
    if (!a || !b || !values) return fac_error();
    return compressed_with_tensors_explicit(c, a, b, values, size, layout, out);
}

fac_status spdiags_composite(const fac_call_info *c, fac_tensor *diagonals, fac_tensor *offsets, fac_ints shape,
                             fac_layout layout, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(diagonals->ndim == 1 || diagonals->ndim == 2, FAC_ERR_SHAPE, "Diagonals must be vector or matrix");
    if (diagonals->ndim == 1) diagonals = fac__s_unsqueeze(diagonals, 0);
    if (offsets->ndim == 0) offsets = fac__s_reshape(offsets, FAC_INTS(1));
    if (!diagonals || !offsets) return fac_error();
    FAC_CHECK(shape.n == 2, FAC_ERR_SHAPE, "Output shape must be 2d");
    FAC_CHECK(offsets->ndim == 1 && offsets->dtype == FAC_I64, FAC_ERR_DTYPE, "Offset Tensor must be int64");
    FAC_CHECK(offsets->numel == diagonals->sizes[0], FAC_ERR_SHAPE,
              "Number of diagonals (%lld) does not match the number of offsets (%lld)", (long long)diagonals->sizes[0],
              (long long)offsets->numel);
    FAC_CHECK(shape.v[0] >= 0 && shape.v[1] >= 0, FAC_ERR_SHAPE, "sizes must not be negative");
    const int64_t n = fac__min(diagonals->sizes[1], shape.v[1]);
    fac_tensor *column = fac__s_expand(fac__sparse_range(n, diagonals->device), FAC_INTS(offsets->numel, n), false);
    fac_tensor *row = fac__s_sub_Tensor(column, fac__s_unsqueeze(offsets, 1), fac_scalar_i_(1));
    fac_tensor *inside =
        fac__s_logical_and(fac__s_ge_Scalar(row, fac_scalar_i_(0)), fac__s_lt_Scalar(row, fac_scalar_i_(shape.v[0])));
    fac_tensor *values =
        fac__s_masked_select(fac__s_slice_Tensor(diagonals, 1, fac_opt_int_(0), fac_opt_int_(n), 1), inside);
    fac_tensor *indices =
        fac__s_stack(FAC_TENSORS(fac__s_masked_select(row, inside), fac__s_masked_select(column, inside)), 0);
    bool unique = false;
    fac_sort_result sorted = fac__s_sort(offsets, 0, false);
    if (!sorted.values || !indices) return fac_error();
    fac_tensor *steps = fac__s_ne_Scalar(fac__s_diff(sorted.values, 1, 0, NULL, NULL), fac_scalar_i_(0));
    unique = fac__item(fac__s_all(steps)) != 0;
    FAC_TRY(fac_error());
    FAC_CHECK(unique, FAC_ERR_ARGUMENT, "Offset tensor contains duplicate values");
    fac_tensor *coo = fac__s__sparse_coo_tensor_unsafe(indices, values, shape, FAC_DTYPE_DEFAULT, FAC_STRIDED,
                                                       (fac_device){0}, (fac_opt_num){0}, (fac_opt_num){0});
    if (layout == FAC_STRIDED || layout == FAC_SPARSE_COO) return fac__give(out, fac__s_coalesce(coo));
    return fac__give(out, fac__s_to_sparse(coo, layout, (fac_ints){0}, (fac_opt_int){0}));
}
