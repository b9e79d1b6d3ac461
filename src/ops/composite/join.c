/* Joining tensors: cat is a copy of each into its place; the stacks are cats of reshaped views. */
#include "ops/composite/join.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops/composite/view.h"
#include "ops/format.h"
#include "ops_gen.h"

/* ---- cat ---------------------------------------------------------------------------------------------------------------- */

bool fac__cat_skips(const fac_tensor *t) { return t->ndim == 1 && t->sizes[0] == 0; }

static const fac_tensor *first_joined(fac_tensors l) {
    for (size_t i = 0; i < l.n; i++)
        if (!fac__cat_skips(l.v[i])) return l.v[i];
    return l.v[0];
}

static fac_status check_joined(const fac_tensor *first, const fac_tensor *t, int64_t dim, size_t i) {
    FAC_CHECK(fac_device_equal(first->device, t->device), FAC_ERR_DEVICE,
              "Expected all tensors to be on the same device, but tensor %zu is not", i);
    if (fac__cat_skips(t)) return FAC_OK;
    FAC_CHECK(first->ndim == t->ndim, FAC_ERR_SHAPE, "Tensors must have same number of dimensions: got %d and %d",
              first->ndim, t->ndim);
    for (int d = 0; d < t->ndim; d++)
        FAC_CHECK(
            d == dim || first->sizes[d] == t->sizes[d], FAC_ERR_SHAPE,
            "Sizes of tensors must match except in dimension %lld. Expected size %lld but got size %lld for tensor number %zu in the list.",
            (long long)dim, (long long)first->sizes[d], (long long)t->sizes[d], i);
    return FAC_OK;
}

/* The joined sizes and common dtype, and the format of every part, or row-major if they differ. */
typedef struct joined {
    int64_t dim, sizes[FAC_MAX_DIMS];
    int ndim;
    fac_dtype dtype;
    fac_memory_format format;
} joined;

static fac_status plan_join(fac_tensors l, int64_t dim, joined *j) {
    FAC_CHECK(l.n > 0, FAC_ERR_ARGUMENT, "expected a non-empty list of Tensors");
    const fac_tensor *first = first_joined(l);
    fac_promotion types = {0};
    for (size_t i = 0; i < l.n; i++)
        FAC_CHECK(l.v[i]->ndim > 0, FAC_ERR_SHAPE, "zero-dimensional tensor (at position %zu) cannot be concatenated",
                  i);
    FAC_TRY(fac__wrap_dim(dim, first->ndim, &j->dim));
    j->ndim = first->ndim;
    j->format = fac__format_of(first);
    memcpy(j->sizes, first->sizes, first->ndim * sizeof *j->sizes);
    j->sizes[j->dim] = 0;
    for (size_t i = 0; i < l.n; i++) {
        const fac_tensor *t = l.v[i];
        FAC_TRY(check_joined(first, t, j->dim, i));
        fac__promote_tensor(&types, t);
        if (fac__cat_skips(t)) continue;
        FAC_CHECK(fac__add(j->sizes[j->dim], t->sizes[j->dim], &j->sizes[j->dim]), FAC_ERR_OVERFLOW,
                  "the sizes of dimension %lld add up to more than 64 bits hold", (long long)j->dim);
        if (fac__format_of(t) != j->format) j->format = FAC_CONTIGUOUS;
    }
    j->dtype = fac__promote_result(&types);
    return FAC_OK;
}

static fac_status empty_joined(const joined *j, fac_device device, fac_tensor **out) {
    const fac_factory f = {.dtype = j->dtype, .device = device};
    return fac__factory_empty(&f, (fac_ints){j->sizes, (size_t)j->ndim}, j->format, out);
}

fac_status fac__join_copies(fac_tensors l, int64_t dim, int64_t begin, int64_t n, fac_tensor *whole) {
    fac_tensor *rows = fac__ref(whole);
    fac_status st = FAC_OK;
    if (n >= 0) fac__unref(rows), rows = NULL, st = fac__narrow_view(whole, 0, begin, n, &rows);
    int64_t start = 0;
    for (size_t i = 0; i < l.n && st == FAC_OK; i++) {
        if (fac__cat_skips(l.v[i])) continue;
        fac_tensor *place = NULL, *part = n < 0 ? fac__ref(l.v[i]) : NULL;
        if (n >= 0) st = fac__narrow_view(l.v[i], 0, begin, n, &part);
        if (st == FAC_OK) st = fac__narrow_view(rows, dim, start, l.v[i]->sizes[dim], &place);
        if (st == FAC_OK) st = fac__copy_below(place, part);
        if (place) fac__unref(place);
        if (part) fac__unref(part);
        start += l.v[i]->sizes[dim];
    }
    if (rows) fac__unref(rows);
    return st;
}

static fac_status copy_each(fac_tensors l, int64_t dim, fac_tensor *whole) {
    return fac__join_copies(l, dim, 0, -1, whole);
}

fac_status fac__cat(fac_tensors l, int64_t dim, fac_join join, fac_tensor **out) {
    joined j;
    fac_tensor *whole;
    FAC_TRY(plan_join(l, dim, &j));
    FAC_TRY(empty_joined(&j, l.v[0]->device, &whole));
    fac_status st = join(l, j.dim, whole);
    if (st != FAC_OK)
        fac__unref(whole);
    else
        *out = whole;
    return st;
}

fac_status cat_explicit(const fac_call_info *c, fac_tensors tensors, int64_t dim, fac_tensor **out) {
    (void)c;
    return fac__cat(tensors, dim, copy_each, out);
}

/* ---- pieces ----------------------------------------------------------------------------------------------------------------- */

static fac_status check_pieces(const fac_tensor *t, const fac_tensor *first, size_t i, int64_t dim) {
    FAC_CHECK(t->numel > 0, FAC_ERR_SHAPE, "_chunk_cat expects non-empty tensors, but tensor %zu has sizes %s", i,
              FAC_SHAPE_TEXT(t));
    FAC_CHECK(dim < t->ndim, FAC_ERR_INDEX,
              "_chunk_cat expects dim < ndim for all tensors, but dim is %lld and tensor %zu has sizes %s",
              (long long)dim, i, FAC_SHAPE_TEXT(t));
    for (int64_t d = 0; d < dim; d++)
        FAC_CHECK(t->sizes[d] == first->sizes[d], FAC_ERR_SHAPE,
                  "_chunk_cat expects equal sizes before dimension %lld, but tensor %zu has %s and tensor 0 has %s",
                  (long long)dim, i, FAC_SHAPE_TEXT(t), FAC_SHAPE_TEXT(first));
    FAC_CHECK(t->dtype == first->dtype, FAC_ERR_DTYPE,
              "_chunk_cat expects one dtype, but tensor 0 is %s and tensor %zu is %s",
              fac_dtype_name((fac_dtype)first->dtype), i, fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

/* dim among those of every tensor. */
static fac_status dim_of_pieces(fac_tensors l, int64_t dim, int64_t *out) {
    bool same = true;
    for (size_t i = 1; i < l.n; i++) same = same && l.v[i]->ndim == l.v[0]->ndim;
    *out = dim;
    if (same) return fac__wrap_dim(dim, l.v[0]->ndim, out);
    FAC_CHECK(dim >= 0, FAC_ERR_INDEX,
              "_chunk_cat expects a dim that is not negative where numbers of dimensions differ, but got %lld",
              (long long)dim);
    return FAC_OK;
}

/* The pieces of a tensor as rows behind its first dimensions: [#, n, elements of a piece]. */
static fac_tensor *pieces(fac_tensor *t, int64_t dim, int64_t n) {
    int64_t pads[2 * FAC_MAX_DIMS] = {0}, sizes[FAC_MAX_DIMS];
    const int64_t spare = fac__div_up(t->sizes[dim], n) * n - t->sizes[dim];
    pads[2 * (t->ndim - 1 - dim) + 1] = spare;
    if (spare) t = fac__s_constant_pad_nd(t, (fac_ints){pads, 2 * (size_t)(t->ndim - dim)}, fac_scalar_i_(0));
    if (!t) return NULL;
    for (int64_t d = 0; d < dim; d++) sizes[d] = t->sizes[d];
    sizes[dim] = n, sizes[dim + 1] = -1;
    return fac__s_reshape(t, (fac_ints){sizes, (size_t)dim + 2});
}

fac_status chunk_cat_composite(const fac_call_info *c, fac_tensors tensors, int64_t dim, int64_t num_chunks,
                               fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    int64_t d, padded;
    FAC_CHECK(num_chunks >= 1, FAC_ERR_ARGUMENT, "_chunk_cat expects a positive num_chunks, but got %lld",
              (long long)num_chunks);
    FAC_CHECK(tensors.n > 0, FAC_ERR_ARGUMENT, "_chunk_cat expects a non-empty list of tensors");
    FAC_TRY(dim_of_pieces(tensors, dim, &d));
    FAC_CHECK(d <= FAC_MAX_DIMS - 2, FAC_ERR_SHAPE, "a result with two dimensions after %lld has too many",
              (long long)d);
    for (size_t i = 0; i < tensors.n; i++) {
        FAC_TRY(check_pieces(tensors.v[i], tensors.v[0], i, d));
        FAC_CHECK(fac__add(tensors.v[i]->sizes[d], num_chunks, &padded), FAC_ERR_OVERFLOW,
                  "num_chunks %lld is too large", (long long)num_chunks);
    }
    fac_tensor **parts = fac__alloc_array(tensors.n, sizeof *parts);
    if (!parts) return fac_error();
    bool all = true;
    for (size_t i = 0; i < tensors.n && all; i++) all = (parts[i] = pieces(tensors.v[i], d, num_chunks)) != NULL;
    const fac_status st = all ? fac__c_cat((fac_tensors){parts, tensors.n}, d + 1, out) : fac_error();
    fac__free(parts);
    return st;
}

/* ---- stacks ----------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*reshape_one)(fac_tensor *t, int64_t dim);

/* Joins fn(t, arg) of each tensor along `dim`; fn's results belong to the caller's scope. */
static fac_status join_each(fac_tensors l, reshape_one fn, int64_t arg, int64_t dim, fac_tensor **out) {
    FAC_CHECK(l.n > 0, FAC_ERR_ARGUMENT, "expected a non-empty list of Tensors");
    fac_tensor **parts = fac__alloc_array(l.n, sizeof *parts);
    if (!parts) return fac_error();
    fac_status st = FAC_OK;
    for (size_t i = 0; i < l.n && st == FAC_OK; i++) {
        parts[i] = fn(l.v[i], arg);
        if (!parts[i]) st = fac_error();
    }
    if (st == FAC_OK) st = fac__c_cat((fac_tensors){parts, l.n}, dim, out);
    fac__free(parts);
    return st;
}

static fac_tensor *with_new_dim(fac_tensor *t, int64_t dim) { return fac__s_unsqueeze(t, dim); }

fac_status stack_composite(const fac_call_info *c, fac_tensors tensors, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_CHECK(tensors.n > 0, FAC_ERR_ARGUMENT, "stack expects a non-empty TensorList");
    for (size_t i = 1; i < tensors.n; i++)
        FAC_CHECK(fac__same_sizes(tensors.v[0], tensors.v[i]), FAC_ERR_SHAPE,
                  "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %zu",
                  FAC_SHAPE_TEXT(tensors.v[0]), FAC_SHAPE_TEXT(tensors.v[i]), i);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, tensors.v[0]->ndim + 1, &d));
    FAC_SCOPE(s);
    return join_each(tensors, with_new_dim, d, d, out);
}

static fac_tensor *at_least(fac_tensor *t, int64_t ndim) {
    return ndim == 1 ? fac__s_atleast_1d(t) : ndim == 2 ? fac__s_atleast_2d(t) : fac__s_atleast_3d(t);
}

fac_status hstack_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    bool flat = tensors.n > 0 && tensors.v[0]->ndim <= 1;
    return join_each(tensors, at_least, 1, flat ? 0 : 1, out);
}

fac_status vstack_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return join_each(tensors, at_least, 2, 0, out);
}

fac_status dstack_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return join_each(tensors, at_least, 3, 2, out);
}

/* ---- blocks on a diagonal ------------------------------------------------------------------------------------------------------- */

static fac_status block_columns(fac_tensors l, int64_t *out) {
    *out = 0;
    for (size_t i = 0; i < l.n; i++) {
        const fac_tensor *t = l.v[i];
        FAC_CHECK(t->ndim <= 2, FAC_ERR_SHAPE,
                  "Input tensors must have 2 or fewer dimensions. Input %zu has %d dimensions", i, t->ndim);
        FAC_CHECK(fac__add(*out, t->ndim ? t->sizes[t->ndim - 1] : 1, out), FAC_ERR_OVERFLOW,
                  "the columns add up to more than 64 bits hold");
    }
    return FAC_OK;
}

/* Whether only kernels would see how the result is made. */
static bool is_plain_list(fac_tensors l) {
    for (size_t i = 0; i < l.n; i++)
        if (fac__wants_derivative(l.v[i]) || !fac__may_write(l.v[i], l.v[0]) ||
            !fac_device_equal(l.v[i]->device, l.v[0]->device))
            return false;
    return true;
}

static fac_status fill_zero(fac_tensor *rows, int64_t start, int64_t n) {
    fac_tensor *part;
    FAC_TRY(fac__narrow_view(rows, 1, start, n, &part));
    const fac_status st = fac__fill_below(part, fac_scalar_i_(0));
    fac__unref(part);
    return st;
}

/* Each element of the rows is written once. */
static fac_status write_rows(fac_tensor *rows, fac_tensor *block, int64_t before) {
    const int64_t own = block->sizes[1], after = before + own;
    fac_tensor *place;
    FAC_TRY(fill_zero(rows, 0, before));
    FAC_TRY(fill_zero(rows, after, rows->sizes[1] - after));
    FAC_TRY(fac__narrow_view(rows, 1, before, own, &place));
    const fac_status st = fac__copy_below(place, block);
    fac__unref(place);
    return st;
}

static fac_status write_blocks(fac_tensors blocks, fac_tensor *whole) {
    fac_status st = FAC_OK;
    for (int64_t i = 0, row = 0, column = 0; st == FAC_OK && i < (int64_t)blocks.n; i++) {
        fac_tensor *block = blocks.v[i], *rows;
        FAC_TRY(fac__narrow_view(whole, 0, row, block->sizes[0], &rows));
        st = write_rows(rows, block, column);
        fac__unref(rows);
        row += block->sizes[0], column += block->sizes[1];
    }
    return st;
}

/* `blocks` are matrices. */
static fac_status place_blocks(fac_tensors blocks, int64_t columns, fac_dtype dtype, fac_tensor **out) {
    joined j = {.sizes = {0, columns}, .ndim = 2, .dtype = dtype, .format = FAC_CONTIGUOUS};
    for (size_t i = 0; i < blocks.n; i++)
        FAC_CHECK(fac__add(j.sizes[0], blocks.v[i]->sizes[0], &j.sizes[0]), FAC_ERR_OVERFLOW,
                  "the rows add up to more than 64 bits hold");
    fac_tensor *whole;
    FAC_TRY(empty_joined(&j, blocks.v[0]->device, &whole));
    const fac_status st = write_blocks(blocks, whole);
    if (st == FAC_OK)
        *out = whole;
    else
        fac__unref(whole);
    return st;
}

/* The rows of each block, joined; `blocks` become them. */
static fac_status join_blocks(fac_tensor **blocks, size_t n, int64_t columns, fac_dtype dtype, fac_tensor **out) {
    int64_t before = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t own = blocks[i]->sizes[1];
        fac_tensor *block = fac__s_to_dtype(blocks[i], dtype, false, false, FAC_FORMAT_DEFAULT);
        blocks[i] = fac__s_constant_pad_nd(block, FAC_INTS(before, columns - before - own), fac_scalar_i_(0));
        before += own;
        if (!blocks[i]) return fac_error();
    }
    return fac__c_cat((fac_tensors){blocks, n}, 0, out);
}

fac_status block_diag_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    int64_t columns;
    const joined none = {.sizes = {1, 0}, .ndim = 2, .dtype = fac_default_dtype(), .format = FAC_CONTIGUOUS};
    if (!tensors.n) return empty_joined(&none, fac_device_make(FAC_CPU, 0), out);
    FAC_TRY(block_columns(tensors, &columns));
    fac_promotion types = {0}; /* of tensors as they are given: a number ranks below matrices */
    for (size_t i = 0; i < tensors.n; i++) fac__promote_tensor(&types, tensors.v[i]);
    const fac_dtype dtype = fac__promote_result(&types);
    fac_tensor **matrices = fac__alloc_array(tensors.n, sizeof *matrices);
    if (!matrices) return fac_error();
    FAC_SCOPE(s);
    fac_status st = FAC_OK;
    for (size_t i = 0; i < tensors.n && st == FAC_OK; i++)
        if (!(matrices[i] = fac__s_atleast_2d(tensors.v[i]))) st = fac_error();
    if (st == FAC_OK)
        st = is_plain_list(tensors) ? place_blocks((fac_tensors){matrices, tensors.n}, columns, dtype, out)
                                    : join_blocks(matrices, tensors.n, columns, dtype, out);
    fac__free(matrices);
    return st;
}
