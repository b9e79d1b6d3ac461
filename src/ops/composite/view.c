/* View kernels: each computes sizes, strides and offset over self's storage. They touch no data, so that one
   implementation serves every device. Strides are those that PyTorch gives, also where a size is 0 or 1. */
#include "ops/composite/view.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

/* Sizes and strides under construction: room for one dimension more than a tensor may have, which is refused later. */
typedef struct geometry {
    int ndim;
    int64_t offset;
    int64_t sizes[FAC_MAX_DIMS + 1], strides[FAC_MAX_DIMS + 1];
} geometry;

static void append(geometry *g, int64_t size, int64_t stride) {
    g->sizes[g->ndim] = size;
    g->strides[g->ndim++] = stride;
}

static void start_from(geometry *g, const fac_tensor *t) {
    g->ndim = t->ndim;
    g->offset = t->offset;
    for (int d = 0; d < t->ndim; d++) {
        g->sizes[d] = t->sizes[d];
        g->strides[d] = t->strides[d];
    }
}

static void start_empty(geometry *g, const fac_tensor *t) {
    g->ndim = 0;
    g->offset = t->offset;
}

/* Moves the start by steps * stride. Where that overflows the tensor has no elements, and any start will do. */
static void move_start(geometry *g, int64_t steps, int64_t stride) {
    int64_t by, offset;
    if (fac__mul(steps, stride, &by) && fac__add(g->offset, by, &offset)) g->offset = offset;
}

static void remove_dim(geometry *g, int64_t dim) {
    g->ndim--;
    for (int64_t d = dim; d < g->ndim; d++) {
        g->sizes[d] = g->sizes[d + 1];
        g->strides[d] = g->strides[d + 1];
    }
}

static fac_status finish(fac_tensor *self, const geometry *g, fac_tensor **out) {
    FAC_CHECK(g->ndim <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %d", FAC_MAX_DIMS,
              g->ndim);
    return fac__view(self, g->sizes, g->strides, g->ndim, g->offset, false, out);
}

/* ---- sizes of any kind ------------------------------------------------------------------------------------------------- */

fac_status fac__view_sizes(fac_ints sizes, int64_t numel, int64_t *out) {
    FAC_CHECK(sizes.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              sizes.n);
    return fac__infer_size(sizes, numel, out);
}

static void strides_of_empty(const fac_tensor *t, const int64_t *sizes, int ndim, int64_t *strides) {
    if (fac__has_sizes(t, sizes, ndim))
        memcpy(strides, t->strides, (size_t)ndim * sizeof *strides);
    else
        fac__row_major(sizes, ndim, strides);
}

/* Dimensions of t that step through memory without a break form a chunk; new sizes must fill each chunk exactly. */
bool fac__view_strides(const fac_tensor *t, const int64_t *sizes, int ndim, int64_t *out_strides) {
    if (t->numel == 0) {
        strides_of_empty(t, sizes, ndim, out_strides);
        return true;
    }
    int d = ndim - 1;
    int64_t old_count = 1, new_count = 1, base = t->ndim ? t->strides[t->ndim - 1] : 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        old_count *= t->sizes[i];
        bool goes_on = i > 0 && (t->sizes[i - 1] == 1 || t->strides[i - 1] == old_count * base);
        if (goes_on) continue;
        while (d >= 0 && (new_count < old_count || sizes[d] == 1)) {
            out_strides[d] = new_count * base;
            new_count *= sizes[d--];
        }
        if (new_count != old_count) return false;
        if (i > 0) base = t->strides[i - 1];
        old_count = new_count = 1;
    }
    while (t->ndim == 0 && d >= 0) out_strides[d--] = 1;
    return d < 0;
}

static fac_status view_as_sizes(fac_tensor *self, fac_ints size, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    FAC_TRY(fac__view_sizes(size, self->numel, sizes));
    FAC_CHECK(
        fac__view_strides(self, sizes, (int)size.n, strides), FAC_ERR_SHAPE,
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use reshape instead.");
    return fac__view(self, sizes, strides, (int)size.n, self->offset, false, out);
}

fac_status view_view(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out) {
    (void)c;
    return view_as_sizes(self, size, out);
}

fac_status unsafe_view_explicit(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out) {
    (void)c;
    return view_as_sizes(self, size, out);
}

fac_status as_strided_view(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_ints stride,
                           fac_opt_int storage_offset, fac_tensor **out) {
    (void)c;
    FAC_CHECK(size.n == stride.n, FAC_ERR_SHAPE, "mismatch in length of strides and shape: %zu sizes, %zu strides",
              size.n, stride.n);
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    int64_t offset = storage_offset.set ? storage_offset.v : self->offset;
    FAC_CHECK(offset >= 0, FAC_ERR_SHAPE, "invalid storage offset %lld; it may not be negative", (long long)offset);
    for (size_t d = 0; d < size.n; d++) {
        FAC_CHECK(size.v[d] >= 0, FAC_ERR_SHAPE, "size %lld of dimension %zu is negative", (long long)size.v[d], d);
        FAC_CHECK(stride.v[d] >= 0, FAC_ERR_SHAPE,
                  "Negative strides are not supported at the moment, got stride %lld in dimension %zu",
                  (long long)stride.v[d], d);
    }
    return fac__view(self, size.v, stride.v, (int)size.n, offset, true, out);
}

/* ---- order of dimensions --------------------------------------------------------------------------------------------------- */

fac_status permute_view(const fac_call_info *c, fac_tensor *self, fac_ints dims, fac_tensor **out) {
    (void)c;
    FAC_CHECK(
        dims.n == self->ndim, FAC_ERR_SHAPE,
        "number of dimensions in the tensor input does not match the length of the desired ordering of dimensions "
        "i.e. input.dim() = %d is not equal to len(dims) = %zu",
        self->ndim, dims.n);
    geometry g;
    start_empty(&g, self);
    uint64_t seen = 0;
    for (size_t i = 0; i < dims.n; i++) {
        int64_t d;
        FAC_TRY(fac__wrap_dim(dims.v[i], self->ndim, &d));
        FAC_CHECK(!(seen >> d & 1), FAC_ERR_ARGUMENT, "duplicate dims are not allowed; dimension %lld is repeated",
                  (long long)d);
        seen |= (uint64_t)1 << d;
        append(&g, self->sizes[d], self->strides[d]);
    }
    return finish(self, &g, out);
}

static fac_status swap_dims(fac_tensor *self, int64_t a, int64_t b, fac_tensor **out) {
    geometry g;
    start_from(&g, self);
    g.sizes[a] = self->sizes[b], g.strides[a] = self->strides[b];
    g.sizes[b] = self->sizes[a], g.strides[b] = self->strides[a];
    return finish(self, &g, out);
}

fac_status transpose_view(const fac_call_info *c, fac_tensor *self, int64_t dim0, int64_t dim1, fac_tensor **out) {
    (void)c;
    int64_t a, b;
    FAC_TRY(fac__wrap_dim(dim0, self->ndim, &a));
    FAC_TRY(fac__wrap_dim(dim1, self->ndim, &b));
    if (self->ndim == 0) return fac__view(self, self->sizes, self->strides, 0, self->offset, false, out);
    return swap_dims(self, a, b, out);
}

fac_status t_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim <= 2, FAC_ERR_SHAPE, "expected a tensor with <= 2 dimensions, but self is %dD", self->ndim);
    if (self->ndim < 2) return fac__view(self, self->sizes, self->strides, self->ndim, self->offset, false, out);
    return swap_dims(self, 0, 1, out);
}

/* ---- parts ---------------------------------------------------------------------------------------------------------------- */

fac_status select_view(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t index, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "it cannot be applied to a 0-dim tensor.");
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    int64_t size = self->sizes[d];
    FAC_CHECK(index >= -size && index < size, FAC_ERR_INDEX,
              "index %lld out of range for tensor of size %s at dimension %lld", (long long)index, FAC_SHAPE_TEXT(self),
              (long long)d);
    geometry g;
    start_from(&g, self);
    move_start(&g, index < 0 ? index + size : index, self->strides[d]);
    remove_dim(&g, d);
    return finish(self, &g, out);
}

/* A slice's bounds as PyTorch reads them: from the end if negative, then clamped to [0, size]. */
typedef struct slice_span {
    int64_t start, length; /* first element and number of elements */
} slice_span;

static slice_span slice_range(fac_opt_int start, fac_opt_int end, int64_t step, int64_t size) {
    int64_t b = start.set ? start.v : 0, e = end.set ? end.v : INT64_MAX;
    if (b < 0) b += size;
    if (e < 0) e += size;
    b = b < 0 ? 0 : fac__min(b, size);
    e = e < b ? b : fac__min(e, size);
    slice_span r = {b, e > b ? (e - b - 1) / step + 1 : 0};
    return r;
}

fac_status slice_view(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_opt_int start, fac_opt_int end,
                      int64_t step, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "it cannot be applied to a 0-dim tensor.");
    FAC_CHECK(step > 0, FAC_ERR_ARGUMENT, "slice step must be positive, got %lld", (long long)step);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    slice_span r = slice_range(start, end, step, self->sizes[d]);
    geometry g;
    start_from(&g, self);
    move_start(&g, r.start, self->strides[d]);
    g.sizes[d] = r.length;
    if (!fac__mul(self->strides[d], step, &g.strides[d]))
        g.strides[d] = self->strides[d]; /* then there is at most one element */
    return finish(self, &g, out);
}

fac_status fac__narrow_view(fac_tensor *t, int64_t dim, int64_t start, int64_t length, fac_tensor **out) {
    geometry g;
    start_from(&g, t);
    move_start(&g, start, t->strides[dim]);
    g.sizes[dim] = length;
    return finish(t, &g, out);
}

/* First element and length of the diagonal `offset` of an a by b matrix. */
typedef struct diagonal_span {
    int64_t row, col, length;
} diagonal_span;

static diagonal_span diagonal_range(int64_t a, int64_t b, int64_t offset) {
    diagonal_span r = {0, 0, 0};
    if (offset >= b || offset <= -a) return r;
    r.row = offset < 0 ? -offset : 0;
    r.col = offset > 0 ? offset : 0;
    r.length = fac__min(a - r.row, b - r.col);
    return r;
}

fac_status diagonal_view(const fac_call_info *c, fac_tensor *self, int64_t offset, int64_t dim1, int64_t dim2,
                         fac_tensor **out) {
    (void)c;
    int64_t a, b;
    FAC_TRY(fac__wrap_dim(dim1, self->ndim, &a));
    FAC_TRY(fac__wrap_dim(dim2, self->ndim, &b));
    FAC_CHECK(a != b, FAC_ERR_ARGUMENT, "diagonal dimensions cannot be identical %lld, %lld", (long long)dim1,
              (long long)dim2);
    diagonal_span r = diagonal_range(self->sizes[a], self->sizes[b], offset);
    geometry g;
    start_from(&g, self);
    move_start(&g, r.row, self->strides[a]);
    move_start(&g, r.col, self->strides[b]);
    remove_dim(&g, fac__max(a, b));
    remove_dim(&g, fac__min(a, b));
    int64_t stride;
    if (!fac__add(self->strides[a], self->strides[b], &stride)) stride = 1; /* then there is at most one element */
    append(&g, r.length, stride);
    return finish(self, &g, out);
}

fac_status unfold_view(const fac_call_info *c, fac_tensor *self, int64_t dimension, int64_t size, int64_t step,
                       fac_tensor **out) {
    (void)c;
    int64_t d;
    FAC_TRY(fac__wrap_dim(dimension, self->ndim, &d));
    int64_t most = self->ndim ? self->sizes[d] : 1, stride = self->ndim ? self->strides[d] : 1;
    FAC_CHECK(size >= 0, FAC_ERR_ARGUMENT, "size is %lld but must be >= 0", (long long)size);
    FAC_CHECK(size <= most, FAC_ERR_ARGUMENT, "maximum size for tensor at dimension %lld is %lld but size is %lld",
              (long long)d, (long long)most, (long long)size);
    FAC_CHECK(step > 0, FAC_ERR_ARGUMENT, "step is %lld but must be > 0", (long long)step);
    geometry g;
    start_from(&g, self);
    if (self->ndim) {
        g.sizes[d] = (most - size) / step + 1;
        if (!fac__mul(stride, step, &g.strides[d])) g.strides[d] = stride; /* then there is one window */
    }
    append(&g, size, stride);
    return finish(self, &g, out);
}

/* ---- dimensions of size one ------------------------------------------------------------------------------------------------- */

static fac_status squeeze_mask(fac_tensor *self, uint64_t mask, fac_tensor **out) {
    geometry g;
    start_empty(&g, self);
    for (int d = 0; d < self->ndim; d++)
        if (self->sizes[d] != 1 || !(mask >> d & 1)) append(&g, self->sizes[d], self->strides[d]);
    return finish(self, &g, out);
}

fac_status squeeze_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return squeeze_mask(self, ~(uint64_t)0, out);
}

fac_status squeeze_dim_view(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out) {
    (void)c;
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    return squeeze_mask(self, (uint64_t)1 << d, out);
}

fac_status squeeze_dims_view(const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_tensor **out) {
    (void)c;
    uint64_t mask = 0;
    if (dim.n) FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return squeeze_mask(self, mask, out);
}

fac_status unsqueeze_view(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out) {
    (void)c;
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim + 1, &d));
    geometry g;
    start_empty(&g, self);
    for (int i = 0; i < d; i++) append(&g, self->sizes[i], self->strides[i]);
    int64_t stride = 1;
    if (d < self->ndim && !fac__mul(self->sizes[d], self->strides[d], &stride)) stride = 1; /* there are no elements */
    append(&g, 1, stride);
    for (int64_t i = d; i < self->ndim; i++) append(&g, self->sizes[i], self->strides[i]);
    return finish(self, &g, out);
}

/* One dimension of expand: the existing size (1 for a new leading dimension) becomes `want`. */
static fac_status expand_dim(geometry *g, const fac_tensor *self, fac_ints size, int64_t i) {
    int64_t own = i - ((int64_t)size.n - self->ndim), want = size.v[i];
    int64_t have = own >= 0 ? self->sizes[own] : 1, stride = 1;
    if (own >= 0)
        stride = self->strides[own];
    else if (i + 1 < (int64_t)size.n && !fac__mul(g->sizes[i + 1], g->strides[i + 1], &stride))
        stride = 0;
    FAC_CHECK(want >= -1 && (want >= 0 || own >= 0), FAC_ERR_SHAPE,
              "The expanded size of the tensor (%lld) isn't allowed in %s dimension %lld", (long long)want,
              own < 0 ? "a leading, non-existing" : "an existing", (long long)i);
    if (want == -1) want = have;
    FAC_CHECK(
        want == have || have == 1, FAC_ERR_SHAPE,
        "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %lld.  "
        "Target sizes: %s.  Tensor sizes: %s",
        (long long)want, (long long)have, (long long)i, fac__shape_text(size.v, (int)size.n, (char[256]){0}, 256),
        FAC_SHAPE_TEXT(self));
    g->sizes[i] = want;
    g->strides[i] = want == have ? stride : 0;
    return FAC_OK;
}

fac_status expand_view(const fac_call_info *c, fac_tensor *self, fac_ints size, bool implicit, fac_tensor **out) {
    (void)c, (void)implicit;
    FAC_CHECK(
        size.n >= self->ndim, FAC_ERR_SHAPE,
        "expand(%s): the number of sizes provided (%zu) must be greater or equal to the number of dimensions in the tensor (%d)",
        FAC_SHAPE_TEXT(self), size.n, self->ndim);
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    geometry g;
    start_empty(&g, self);
    g.ndim = (int)size.n;
    for (int64_t i = (int64_t)size.n - 1; i >= 0; i--) FAC_TRY(expand_dim(&g, self, size, i));
    return finish(self, &g, out);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

fac_status detach_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__alias(self, true, out);
}

fac_status alias_view(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__view(self, self->sizes, self->strides, self->ndim, self->offset, false, out);
}

/* ---- lists of parts -------------------------------------------------------------------------------------------------------------- */

fac_status fac__list_new(size_t n, fac_tensor_list *out) {
    out->n = 0;
    out->v = fac__alloc_array(n ? n : 1, sizeof *out->v);
    return out->v ? FAC_OK : fac_error();
}

/* Adds a view of `length` elements from start on; the list is freed on failure. */
static fac_status add_piece(fac_tensor_list *l, fac_tensor *self, int64_t dim, int64_t start, int64_t length) {
    fac_status st = fac__narrow_view(self, dim, start, length, &l->v[l->n]);
    if (st != FAC_OK)
        fac__tensor_list_free(l);
    else
        l->n++;
    return st;
}

fac_status split_view(const fac_call_info *c, fac_tensor *self, int64_t split_size, int64_t dim, fac_tensor_list *out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "split expects at least a 1-dimensional tensor");
    FAC_CHECK(split_size >= 0, FAC_ERR_ARGUMENT, "split expects split_size be non-negative, but got split_size=%lld",
              (long long)split_size);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    int64_t size = self->sizes[d];
    FAC_CHECK(split_size > 0 || size == 0, FAC_ERR_ARGUMENT,
              "split_size can only be 0 if dimension size is 0, but got dimension size of %lld", (long long)size);
    int64_t n = size ? (size - 1) / split_size + 1 : 1;
    FAC_TRY(fac__list_new((size_t)n, out));
    for (int64_t i = 0; i < n; i++)
        FAC_TRY(add_piece(out, self, d, i * split_size, fac__min(split_size, size - i * split_size)));
    return FAC_OK;
}

fac_status split_with_sizes_view(const fac_call_info *c, fac_tensor *self, fac_ints split_sizes, int64_t dim,
                                 fac_tensor_list *out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "split expects at least a 1-dimensional tensor");
    int64_t d, left;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    left = self->sizes[d];
    for (size_t i = 0; i < split_sizes.n; i++) {
        FAC_CHECK(split_sizes.v[i] >= 0, FAC_ERR_ARGUMENT,
                  "split_with_sizes expects split_sizes have only non-negative entries, but got %lld",
                  (long long)split_sizes.v[i]);
        left = split_sizes.v[i] > left ? -1 : left - split_sizes.v[i];
        if (left < 0) break;
    }
    FAC_CHECK(
        left == 0, FAC_ERR_ARGUMENT,
        "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at dimension %lld), but got split_sizes=%s",
        (long long)self->sizes[d], (long long)d,
        fac__shape_text(split_sizes.v, (int)fac__min((int64_t)split_sizes.n, 64), (char[256]){0}, 256));
    FAC_TRY(fac__list_new(split_sizes.n, out));
    int64_t start = 0;
    for (size_t i = 0; i < split_sizes.n; start += split_sizes.v[i++])
        FAC_TRY(add_piece(out, self, d, start, split_sizes.v[i]));
    return FAC_OK;
}

fac_status unbind_view(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor_list *out) {
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "Dimension specified as %lld but tensor has no dimensions",
              (long long)dim);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_TRY(fac__list_new((size_t)self->sizes[d], out));
    for (int64_t i = 0; i < self->sizes[d]; i++) {
        fac_status st = select_view(c, self, d, i, &out->v[out->n]);
        if (st != FAC_OK) {
            fac__tensor_list_free(out);
            return st;
        }
        out->n++;
    }
    return FAC_OK;
}
