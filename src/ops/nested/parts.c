/* Helpers of operators on nested tensors: see parts.h. */
#include "ops/nested/parts.h"
#include "core/tensor_make.h"

fac_status fac__nested_need(const fac_tensor *t, const char *argument) {
    FAC_CHECK(fac__nested_of(t), FAC_ERR_UNSUPPORTED,
              "expected a nested tensor as %s, but got a plain one of sizes %s; nested_tensor makes one of a list",
              argument, FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

/* ---- sizes --------------------------------------------------------------------------------------------------------------- */

fac_status fac__nested_shape_with(const fac_tensor *t, int drop, fac_ints sizes, fac_ragged **out) {
    const fac_nested *own = fac__nested_of(t);
    const int kept = own->shape->d - drop;
    FAC_TRY(fac__ragged_new(own->shape->n, kept + (int)sizes.n, out));
    for (int64_t i = 0; i < own->shape->n; i++) {
        int64_t *to = (*out)->sizes + i * (*out)->d;
        for (int k = 0; k < kept; k++) to[k] = fac__nested_size(own, i, k);
        for (size_t k = 0; k < sizes.n; k++) to[kept + (int)k] = sizes.v[k];
    }
    const fac_status st = fac__ragged_complete(*out);
    if (st != FAC_OK) fac__ragged_unref(*out), *out = NULL;
    return st;
}

/* ---- making --------------------------------------------------------------------------------------------------------------- */

fac_tensor *fac__nested_of_buffer(fac_tensor *buffer, fac_ragged *shape) {
    fac_tensor *t;
    if (!buffer || !shape || fac__nested_make(buffer, shape, NULL, &t) != FAC_OK) return NULL;
    return fac__adopt(fac__thread(), t);
}

fac_tensor *fac__nested_like(fac_tensor *buffer, const fac_tensor *like) {
    const fac_nested *own = fac__nested_of(like);
    fac_tensor *t;
    if (!buffer || fac__nested_make(buffer, own->shape, own->order, &t) != FAC_OK) return NULL;
    return fac__adopt(fac__thread(), t);
}

static fac_tensor *flat(fac_tensor *t) { return t ? fac__s_reshape(t, FAC_INTS(t->numel)) : NULL; }

/* One after the other; of one, itself. */
static fac_tensor *joined(fac_tensor **v, int64_t n, const fac_tensor *like) {
    if (n == 1) return v[0];
    if (n > 1) return fac__s_cat((fac_tensors){v, (size_t)n}, 0);
    return fac__s_empty_memory_format(FAC_INTS(0), (fac_dtype)like->dtype, FAC_STRIDED, like->device, (fac_opt_num){0},
                                      FAC_FORMAT_DEFAULT);
}

/* The same as a copy, also of one. */
static fac_tensor *joined_copy(fac_tensor **v, int64_t n, const fac_tensor *like) {
    return n == 1 ? fac__s_clone(v[0], FAC_CONTIGUOUS) : joined(v, n, like);
}

static fac_status check_list(fac_tensors l) {
    const fac_tensor *first = l.v[0];
    for (size_t i = 0; i < l.n; i++) {
        const fac_tensor *t = l.v[i];
        FAC_CHECK(!fac__nested_of(t), FAC_ERR_UNSUPPORTED, "tensor %zu of the list is a nested tensor itself", i);
        if (t->cls && !t->cls->in_memory) return fac__not_plain(t, "a nested tensor");
        FAC_CHECK(t->ndim == first->ndim, FAC_ERR_SHAPE,
                  "all tensors of the list must have the same number of dimensions, but tensor 0 has %d and tensor %zu "
                  "has %d",
                  first->ndim, i, t->ndim);
        FAC_CHECK(t->dtype == first->dtype, FAC_ERR_DTYPE,
                  "all tensors of the list must have one dtype, but tensor 0 is %s and tensor %zu is %s",
                  fac_dtype_name((fac_dtype)first->dtype), i, fac_dtype_name((fac_dtype)t->dtype));
        FAC_CHECK(fac_device_equal(t->device, first->device), FAC_ERR_DEVICE,
                  "all tensors of the list must be on one device, but tensor %zu is not on that of tensor 0", i);
    }
    return FAC_OK;
}

static fac_status shape_of_list(fac_tensors l, fac_ragged **out) {
    FAC_TRY(fac__ragged_new((int64_t)l.n, l.v[0]->ndim, out));
    for (size_t i = 0; i < l.n; i++)
        for (int k = 0; k < l.v[i]->ndim; k++) (*out)->sizes[(int64_t)i * (*out)->d + k] = l.v[i]->sizes[k];
    return fac__ragged_complete(*out);
}

fac_tensor *fac__nested_of_list(fac_tensors l) {
    FAC_RAGGED_HELD(shape);
    if (check_list(l) != FAC_OK || shape_of_list(l, &shape) != FAC_OK) return NULL;
    fac_tensor **v = fac__alloc_array(l.n, sizeof *v), *buffer = NULL;
    bool all = v != NULL;
    for (size_t i = 0; i < l.n && all; i++) all = (v[i] = flat(l.v[i])) != NULL;
    if (all) buffer = joined_copy(v, (int64_t)l.n, l.v[0]);
    fac__free(v);
    return fac__nested_of_buffer(buffer, shape);
}

fac_tensor *fac__nested_contiguous(fac_tensor *t) {
    if (!t || fac__nested_in_order(fac__nested_of(t))) return t;
    FAC_RAGGED_HELD(shape);
    const fac_tensors parts = fac__nested_split(t);
    const int64_t n = fac__nested_of(t)->shape->n;
    if (fac_error() != FAC_OK || fac__nested_shape_with(t, 0, (fac_ints){0}, &shape) != FAC_OK) return NULL;
    fac_tensor **v = fac__alloc_array((size_t)n + 1, sizeof *v), *buffer = NULL;
    bool all = v != NULL;
    for (int64_t i = 0; i < n && all; i++) all = (v[i] = flat(fac__nested_component(t, i, parts.v[i]))) != NULL;
    if (all) buffer = joined_copy(v, n, fac__nested_of(t)->buffer);
    fac__free(v);
    return fac__nested_of_buffer(buffer, shape);
}

fac_tensor *fac__nested_of_strided(fac_tensor *t) {
    FAC_RAGGED_HELD(shape);
    if (!t || fac__ragged_new(t->sizes[0], t->ndim - 1, &shape) != FAC_OK) return NULL;
    for (int64_t i = 0; i < shape->n; i++)
        for (int k = 0; k < shape->d; k++) shape->sizes[i * shape->d + k] = t->sizes[k + 1];
    return fac__ragged_complete(shape) == FAC_OK ? fac__nested_of_buffer(flat(t), shape) : NULL;
}

/* ---- components ------------------------------------------------------------------------------------------------------------ */

fac_tensor *fac__nested_component(const fac_tensor *t, int64_t i, fac_tensor *elements) {
    const fac_nested *own = fac__nested_of(t);
    const fac_ragged *r = own->shape;
    int64_t order[FAC_MAX_DIMS];
    if (!elements) return NULL;
    fac_tensor *c = fac__s_view(elements, (fac_ints){r->sizes + i * r->d, (size_t)r->d});
    if (!c || fac__nested_in_order(own)) return c;
    for (int k = 0; k < r->d; k++) order[k] = own->order[k];
    return fac__s_permute(c, (fac_ints){order, (size_t)r->d});
}

fac_tensors fac__nested_split(const fac_tensor *t) {
    const fac_nested *own = fac__nested_of(t);
    const int64_t n = own->shape->n;
    int64_t *counts = fac__alloc_array((size_t)n + 1, sizeof *counts);
    if (!counts) return fac__no_tensors();
    for (int64_t i = 0; i < n; i++) counts[i] = own->shape->offsets[i + 1] - own->shape->offsets[i];
    const fac_tensors l = fac__s_split_with_sizes(own->buffer, (fac_ints){counts, (size_t)n}, 0);
    fac__free(counts);
    return l;
}

fac_status fac__nested_dim(const fac_tensor *t, int64_t dim, const char *what, int *out) {
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, t->ndim, &d));
    FAC_CHECK(d > 0, FAC_ERR_UNSUPPORTED,
              "dimension 0 of a nested tensor counts its components, and cannot be that of %s; unbind them first",
              what);
    *out = (int)d - 1;
    return FAC_OK;
}

fac_tensor *fac__nested_elements_like(fac_tensor *t, fac_tensor *like) {
    const fac_nested *a = fac__nested_of(t), *b = fac__nested_of(like);
    const fac_tensor *given = t;
    int64_t dims[FAC_MAX_DIMS] = {0};
    if (fac__nested_alike(a, b)) return a->buffer;
    if (a->shape->d == b->shape->d) {
        for (int k = 0; k < b->shape->d; k++) dims[b->order[k] + 1] = k + 1;
        t = fac__nested_contiguous(fac__s_permute(t, (fac_ints){dims, (size_t)b->shape->d + 1}));
        if (!t) return NULL;
        if (fac__ragged_equal(fac__nested_of(t)->shape, b->shape)) return fac__nested_of(t)->buffer;
    }
    FAC_FAIL(FAC_ERR_SHAPE, "nested tensors must have the same sizes, but their components have %s and %s",
             fac__nested_text(like, (char[256]){0}, 256), fac__nested_text(given, (char[256]){0}, 256));
    return NULL;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static int64_t row_length(const fac_ragged *r, int64_t i) { return r->sizes[i * r->d + r->d - 1]; }

/* Rows of components [i, end). Their number cannot be told from their elements where they have none. */
static int64_t rows_among(const fac_ragged *r, int64_t i, int64_t end) {
    int64_t rows = 0;
    for (; i < end; i++) {
        int64_t own;
        if (fac__numel(r->sizes + i * r->d, r->d - 1, &own) && fac__add(rows, own, &rows)) continue;
        FAC_FAIL(FAC_ERR_OVERFLOW, "the components of a nested tensor have more rows than 64 bits can count");
        return 0;
    }
    return rows;
}

static fac_tensor *on_rows(fac_tensor *elements, int64_t n, int64_t length, fac_row_fn fn, void *context) {
    if (!elements || fac_error() != FAC_OK) return NULL;
    fac_tensor *rows = fac__s_view(elements, FAC_INTS(n, length));
    return rows ? flat(fn(context, rows)) : NULL;
}

/* How many components from i on have rows of the length that component i has. */
static int64_t run_of(const fac_ragged *r, int64_t i) {
    int64_t end = i + 1;
    while (end < r->n && row_length(r, end) == row_length(r, i)) end++;
    return end - i;
}

static fac_tensor *by_runs(const fac_nested *own, fac_row_fn fn, void *context, int64_t *counts, fac_tensor **v) {
    const fac_ragged *r = own->shape;
    int64_t runs = 0;
    for (int64_t i = 0; i < r->n; i += run_of(r, i), runs++)
        counts[runs] = r->offsets[i + run_of(r, i)] - r->offsets[i];
    const fac_tensors l = fac__s_split_with_sizes(own->buffer, (fac_ints){counts, (size_t)runs}, 0);
    if (fac_error() != FAC_OK) return NULL;
    int64_t run = 0;
    for (int64_t i = 0; i < r->n; i += run_of(r, i), run++) {
        v[run] = on_rows(l.v[run], rows_among(r, i, i + run_of(r, i)), row_length(r, i), fn, context);
        if (!v[run]) return NULL;
    }
    return joined(v, runs, own->buffer);
}

fac_tensor *fac__nested_by_rows(fac_tensor *t, fac_row_fn fn, void *context) {
    const fac_nested *own = fac__nested_of(t);
    const int64_t n = own->shape->n;
    if (n == 0) return on_rows(own->buffer, 0, 1, fn, context); /* fn chooses the dtype */
    const int64_t common = fac__nested_common_size(own, own->shape->d - 1);
    if (common > 0) return on_rows(own->buffer, own->buffer->numel / common, common, fn, context);
    int64_t *counts = fac__alloc_array((size_t)n + 1, sizeof *counts);
    fac_tensor **v = fac__alloc_array((size_t)n + 1, sizeof *v);
    fac_tensor *result = counts && v ? by_runs(own, fn, context, counts, v) : NULL;
    fac__free(v);
    fac__free(counts);
    return result;
}
