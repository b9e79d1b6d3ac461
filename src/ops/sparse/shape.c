/* Shapes of sparse tensors: dimensions exchanged, added and taken out, parts and unions. What are views of strided tensors are
   tensors of their own here, over the same values where these do not change. */
#include "ops/sparse/host.h"

/* ---- order of dimensions ------------------------------------------------------------------------------------------------- */

static fac_tensor *permuted_coo(fac_tensor *t, const int64_t *order) {
    const fac_sparse *s = fac__sparse_of(t);
    int64_t dense[FAC_MAX_DIMS + 1] = {0}, sizes[FAC_MAX_DIMS];
    bool ordered = s->coalesced;
    for (int i = 0; i < t->ndim; i++) {
        if ((order[i] < s->sparse_dim) != (i < s->sparse_dim)) {
            FAC_FAIL(FAC_ERR_UNSUPPORTED,
                     "dimensions with and without indices cannot be exchanged; to_dense makes all strided");
            return NULL;
        }
        sizes[i] = t->sizes[order[i]];
        if (i < s->sparse_dim) ordered = ordered && order[i] == i;
        if (i >= s->sparse_dim) dense[i - s->sparse_dim + 1] = order[i] - s->sparse_dim + 1;
    }
    fac_tensor *indices =
        s->sparse_dim
            ? fac__s_index_select(s->indices, 0, fac__sparse_numbers((fac_ints){order, s->sparse_dim}, t->device))
            : s->indices;
    fac_tensor *values =
        s->dense_dim ? fac__s_permute(s->values, (fac_ints){dense, (size_t)s->dense_dim + 1}) : s->values;
    return fac__sparse_coo((fac_ints){sizes, t->ndim}, indices, values, ordered);
}

/* Rows and columns exchanged: compressed rows are the compressed columns of the other. */
static fac_tensor *turned(fac_tensor *t) {
    static const fac_layout other[] = {[FAC_SPARSE_CSR] = FAC_SPARSE_CSC,
                                       [FAC_SPARSE_CSC] = FAC_SPARSE_CSR,
                                       [FAC_SPARSE_BSR] = FAC_SPARSE_BSC,
                                       [FAC_SPARSE_BSC] = FAC_SPARSE_BSR};
    const fac_sparse *s = fac__sparse_of(t);
    const int batch = s->plain->ndim - 1;
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, t->sizes, t->ndim * sizeof *sizes);
    sizes[batch] = t->sizes[batch + 1], sizes[batch + 1] = t->sizes[batch];
    const bool blocks = s->layout == FAC_SPARSE_BSR || s->layout == FAC_SPARSE_BSC;
    fac_tensor *values = blocks ? fac__s_transpose_int(s->values, batch + 1, batch + 2) : s->values;
    return fac__sparse_compressed(other[s->layout], (fac_ints){sizes, t->ndim}, s->indices, s->plain, values);
}

static fac_status exchange(fac_tensor *self, int64_t a, int64_t b, fac_tensor **out) {
    int64_t order[FAC_MAX_DIMS];
    FAC_TRY(fac__wrap_dim(a, self->ndim, &a));
    FAC_TRY(fac__wrap_dim(b, self->ndim, &b));
    for (int i = 0; i < self->ndim; i++) order[i] = i;
    if (a == b) return fac__give(out, fac__s_alias(self));
    order[a] = b, order[b] = a;
    if (fac__is_coo(self)) return fac__give(out, permuted_coo(self, order));
    const int batch = fac__sparse_of(self)->plain->ndim - 1;
    FAC_CHECK(fac__min(a, b) == batch && fac__max(a, b) == batch + 1, FAC_ERR_UNSUPPORTED,
              "of a %s tensor only rows and columns can be exchanged; to_dense makes it strided",
              fac__layout_name(fac__layout_of(self)));
    return fac__give(out, turned(self));
}

fac_status transpose_sparse(const fac_call_info *c, fac_tensor *self, int64_t dim0, int64_t dim1, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    return exchange(self, dim0, dim1, out);
}

fac_status t_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(self->ndim <= 2, FAC_ERR_SHAPE, "expected a tensor of <= 2 dimensions, but self is %dD", self->ndim);
    return self->ndim < 2 ? fac__alias(self, true, out) : exchange(self, 0, 1, out);
}

fac_status permute_sparse(const fac_call_info *c, fac_tensor *self, fac_ints dims, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    int64_t order[FAC_MAX_DIMS];
    uint64_t seen;
    FAC_CHECK(dims.n == self->ndim, FAC_ERR_SHAPE, "%zu dimensions were given for a tensor of %d", dims.n, self->ndim);
    if (self->ndim) FAC_TRY(fac__dim_mask(dims, self->ndim, &seen));
    for (int i = 0; i < self->ndim; i++) FAC_TRY(fac__wrap_dim(dims.v[i], self->ndim, &order[i]));
    if (fac__is_coo(self)) return fac__give(out, permuted_coo(self, order));
    fac_tensor *coo = fac__sparse_to_coo(self), *p = coo ? permuted_coo(coo, order) : NULL;
    int64_t room[2];
    const fac_ints block = fac__sparse_block(self, room);
    if (block.n) { /* blocks turn with the matrix they are in */
        const int batch = fac__sparse_of(self)->plain->ndim - 1;
        if (order[batch] == batch + 1)
            return fac__give(out, fac__sparse_from_coo(p, fac__layout_of(self), FAC_INTS(room[1], room[0])));
    }
    return fac__give(out, fac__sparse_in_layout_of(p, self));
}

/* ---- dimensions added ------------------------------------------------------------------------------------------------------- */

fac_status unsqueeze_sparse(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__wrap_dim(dim, self->ndim + 1, &dim));
    FAC_CHECK(self->ndim < FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions", FAC_MAX_DIMS);
    const fac_sparse *s = fac__sparse_of(self);
    int64_t sizes[FAC_MAX_DIMS];
    for (int i = 0, k = 0; i <= self->ndim; i++) sizes[i] = i == dim ? 1 : self->sizes[k++];
    const fac_ints all = {sizes, (size_t)self->ndim + 1};
    if (dim > s->sparse_dim)
        return fac__give(
            out, fac__sparse_coo(all, s->indices, fac__s_unsqueeze(s->values, dim - s->sparse_dim + 1), s->coalesced));
    fac_tensor *row = fac__sparse_zeros(FAC_INTS(1, s->indices->sizes[1]), FAC_I64, self->device);
    fac_tensor *before = fac__s_slice_Tensor(s->indices, 0, fac_opt_int_(0), fac_opt_int_(dim), 1),
               *after = fac__s_slice_Tensor(s->indices, 0, fac_opt_int_(dim), (fac_opt_int){0}, 1);
    return fac__give(out,
                     fac__sparse_coo(all, fac__s_cat(FAC_TENSORS(before, row, after), 0), s->values, s->coalesced));
}

/* Elements repeated along dimension dim, which has size one. */
static fac_tensor *repeated(fac_tensor *t, int dim, int64_t n) {
    const fac_sparse *s = t ? fac__sparse_of(t) : NULL;
    int64_t sizes[FAC_MAX_DIMS], room[FAC_MAX_DIMS + 2];
    if (!s) return NULL;
    memcpy(sizes, t->sizes, t->ndim * sizeof *sizes);
    sizes[dim] = n;
    const fac_ints all = {sizes, t->ndim};
    if (dim >= s->sparse_dim) {
        for (int i = 0; i < s->values->ndim; i++) room[i] = i == dim - s->sparse_dim + 1 ? n : -1;
        return fac__sparse_coo(all, s->indices, fac__s_expand(s->values, (fac_ints){room, s->values->ndim}, false),
                               s->coalesced);
    }
    const int64_t z = s->indices->sizes[1], d = s->sparse_dim;
    int64_t total, all_before = 1;
    if (!fac__mul(z, n, &total)) {
        FAC_FAIL(FAC_ERR_OVERFLOW, "%lld elements repeated %lld times are too many", (long long)z, (long long)n);
        return NULL;
    }
    for (int i = 0; i < dim; i++) all_before *= t->sizes[i];
    fac_tensor *copy = fac__s_expand(fac__s_reshape(fac__sparse_range(n, t->device), FAC_INTS(1, n, 1)),
                                     FAC_INTS(1, n, z), false),
               *indices = fac__s_expand(fac__s_unsqueeze(s->indices, 1), FAC_INTS(d, n, z), false);
    fac_tensor *before = fac__s_slice_Tensor(indices, 0, fac_opt_int_(0), fac_opt_int_(dim), 1),
               *after = fac__s_slice_Tensor(indices, 0, fac_opt_int_(dim + 1), (fac_opt_int){0}, 1);
    indices = fac__s_reshape(fac__s_cat(FAC_TENSORS(before, copy, after), 0), FAC_INTS(d, total));
    for (int i = 0; i < s->values->ndim; i++) room[i + 1] = s->values->sizes[i];
    room[0] = n;
    fac_tensor *values =
        fac__s_expand(fac__s_unsqueeze(s->values, 0), (fac_ints){room, (size_t)s->values->ndim + 1}, false);
    /* Copy by copy they are in order if nothing is numbered before the copies; on the meta device order depends on elements. */
    const bool ordered = s->coalesced && all_before == 1 && t->device.type != FAC_META;
    return fac__sparse_coo(all, indices, fac__sparse_reshape(values, 0, 2, FAC_INTS(total)), ordered);
}

fac_status broadcast_sparse(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_CHECK(size.n >= self->ndim && size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "sizes %s do not broadcast to %zu dimensions", FAC_SHAPE_TEXT(self), size.n);
    fac_tensor *t = fac__s_alias(self);
    for (size_t i = 0; i < size.n - self->ndim && t; i++) t = fac__s_unsqueeze(t, 0);
    for (size_t i = 0; i < size.n && t; i++) {
        FAC_CHECK(size.v[i] >= 0 && (t->sizes[i] == size.v[i] || t->sizes[i] == 1), FAC_ERR_SHAPE,
                  "sizes %s do not broadcast: dimension %zu should be %lld", FAC_SHAPE_TEXT(self), i,
                  (long long)size.v[i]);
        if (t->sizes[i] != size.v[i]) t = repeated(t, (int)i, size.v[i]);
    }
    const bool was = fac__sparse_of(self)->coalesced;
    return fac__give(out, was ? fac__sparse_coalesced(t) : t);
}

fac_status broadcast_copy_composite(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, fac__s_clone(fac__s__sparse_broadcast_to(self, size), FAC_FORMAT_DEFAULT));
}

/* ---- parts ---------------------------------------------------------------------------------------------------------------------- */

/* The elements where `keep` is true. */
static void filter(fac_tensor *keep, fac_tensor **indices, fac_tensor **values) {
    fac_tensor *at = fac__s_nonzero(keep);
    at = at ? fac__s_reshape(at, FAC_INTS(at->sizes[0])) : NULL;
    *indices = fac__s_index_select(*indices, 1, at);
    *values = fac__s_index_select(*values, 0, at);
}

static fac_tensor *row_of(const fac_sparse *s, int64_t dim) { return fac__s_select_int(s->indices, 0, dim); }

static fac_tensor *selected(fac_tensor *t, int64_t dim, int64_t index) {
    const fac_sparse *s = fac__sparse_of(t);
    int64_t sizes[FAC_MAX_DIMS];
    for (int i = 0, k = 0; i < t->ndim; i++)
        if (i != dim) sizes[k++] = t->sizes[i];
    const fac_ints all = {sizes, (size_t)t->ndim - 1};
    if (dim >= s->sparse_dim)
        return fac__sparse_coo(all, s->indices, fac__s_select_int(s->values, dim - s->sparse_dim + 1, index),
                               s->coalesced);
    fac_tensor *indices = s->indices, *values = s->values;
    filter(fac__s_eq_Scalar(row_of(s, dim), fac_scalar_i_(index)), &indices, &values);
    if (s->sparse_dim == 1) return fac__s_sum_dim_IntList(values, FAC_INTS(0), false, fac__sparse_dtype(t));
    fac_tensor *before = fac__s_slice_Tensor(indices, 0, fac_opt_int_(0), fac_opt_int_(dim), 1),
               *after = fac__s_slice_Tensor(indices, 0, fac_opt_int_(dim + 1), (fac_opt_int){0}, 1);
    return fac__sparse_coo(all, fac__s_cat(FAC_TENSORS(before, after), 0), values, s->coalesced);
}

fac_status select_sparse(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t index, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(self->ndim > 0, FAC_ERR_INDEX, "a selection cannot be applied to a 0-dim tensor.");
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &dim));
    const int64_t n = self->sizes[dim];
    FAC_CHECK(index >= -n && index < n, FAC_ERR_INDEX,
              "index %lld out of range for tensor of size %s at dimension %lld", (long long)index, FAC_SHAPE_TEXT(self),
              (long long)dim);
    fac_tensor *coo = fac__sparse_to_coo(self), *part = coo ? selected(coo, dim, index < 0 ? index + n : index) : NULL;
    return fac__give(out, part && !fac__is_coo(self) ? fac__sparse_dense(part) : part);
}

fac_status slice_sparse(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_opt_int start, fac_opt_int end,
                        int64_t step, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(self->ndim > 0, FAC_ERR_INDEX, "a slice cannot be applied to a 0-dim tensor.");
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &dim));
    FAC_CHECK(step > 0, FAC_ERR_ARGUMENT, "slice step must be positive");
    const int64_t n = self->sizes[dim];
    int64_t from = start.set ? start.v : 0, to = end.set ? end.v : n, sizes[FAC_MAX_DIMS];
    from = fac__min(fac__max(from < 0 ? from + n : from, 0), n);
    to = fac__max(fac__min(fac__max(to < 0 ? to + n : to, 0), n), from);
    fac_tensor *coo = fac__sparse_to_coo(self);
    if (!coo) return fac_error();
    const fac_sparse *s = fac__sparse_of(coo);
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    sizes[dim] = (to - from) / step + ((to - from) % step != 0);
    fac_tensor *indices = s->indices, *values = s->values;
    if (dim >= s->sparse_dim) {
        values = fac__s_slice_Tensor(values, dim - s->sparse_dim + 1, fac_opt_int_(from), fac_opt_int_(to), step);
    } else {
        fac_tensor *row = fac__s_sub_Scalar(row_of(s, dim), fac_scalar_i_(from), fac_scalar_i_(1));
        fac_tensor *in = fac__s_logical_and(fac__s_ge_Scalar(row, fac_scalar_i_(0)),
                                            fac__s_lt_Scalar(row, fac_scalar_i_(to - from)));
        in = fac__s_logical_and(in,
                                fac__s_eq_Scalar(fac__s_remainder_Scalar(row, fac_scalar_i_(step)), fac_scalar_i_(0)));
        filter(in, &indices, &values);
        int64_t shift[FAC_MAX_DIMS] = {0}, steps[FAC_MAX_DIMS];
        for (int i = 0; i < s->sparse_dim; i++) steps[i] = i == dim ? step : 1;
        shift[dim] = from;
        const size_t d = s->sparse_dim;
        fac_tensor *by =
                       fac__s_reshape(fac__sparse_numbers((fac_ints){shift, d}, self->device), FAC_INTS((int64_t)d, 1)),
                   *over =
                       fac__s_reshape(fac__sparse_numbers((fac_ints){steps, d}, self->device), FAC_INTS((int64_t)d, 1));
        indices = fac__s_div_Tensor_mode(fac__s_sub_Tensor(indices, by, fac_scalar_i_(1)), over, "floor");
    }
    fac_tensor *part = fac__sparse_coo((fac_ints){sizes, self->ndim}, indices, values, s->coalesced);
    return fac__give(out, part && !fac__is_coo(self) ? fac__sparse_in_layout_of(part, self) : part);
}

/* Elements with coordinate `index[j]` in dimension dim get j there. */
static fac_tensor *picked(fac_tensor *t, int64_t dim, fac_tensor *index) {
    const fac_sparse *s = fac__sparse_of(t);
    int64_t sizes[FAC_MAX_DIMS];
    memcpy(sizes, t->sizes, t->ndim * sizeof *sizes);
    sizes[dim] = index->numel;
    const fac_ints all = {sizes, t->ndim};
    if (dim >= s->sparse_dim)
        return fac__sparse_coo(all, s->indices, fac__s_index_select(s->values, dim - s->sparse_dim + 1, index),
                               s->coalesced);
    fac_tensor *here = fac__sparse_host_pick(t, dim, index);
    if (here || fac_error()) return here;
    fac_sort_stable_result sorted = fac__s_sort_stable(row_of(s, dim), fac_opt_num_(fac_scalar_b_(true)), 0, false);
    if (!sorted.values) return NULL;
    fac_tensor *begin = fac__sparse_compress(sorted.values, t->sizes[dim]);
    fac_tensor *first = fac__s_index_select(begin, 0, index);
    fac_tensor *count = fac__s_index_select(fac__s_diff(begin, 1, 0, NULL, NULL), 0, index);
    fac_tensor *j = fac__s_repeat_interleave_Tensor(count, (fac_opt_int){0});
    if (!j || !first) return NULL;
    fac_tensor *shift =
        fac__s_sub_Tensor(first, fac__s_sub_Tensor(fac__s_cumsum(count, 0, FAC_DTYPE_DEFAULT), count, fac_scalar_i_(1)),
                          fac_scalar_i_(1));
    fac_tensor *place =
        fac__s_add_Tensor(fac__sparse_range(j->numel, t->device), fac__s_index_select(shift, 0, j), fac_scalar_i_(1));
    fac_tensor *at = fac__s_index_select(sorted.indices, 0, place), *indices = fac__s_index_select(s->indices, 1, at);
    fac_tensor *before = fac__s_slice_Tensor(indices, 0, fac_opt_int_(0), fac_opt_int_(dim), 1),
               *after = fac__s_slice_Tensor(indices, 0, fac_opt_int_(dim + 1), (fac_opt_int){0}, 1);
    indices = fac__s_cat(FAC_TENSORS(before, fac__s_unsqueeze(j, 0), after), 0);
    return fac__sparse_coo(all, indices, fac__s_index_select(s->values, 0, at), false);
}

fac_status index_select_sparse(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_tensor *index,
                               fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(
        self->ndim > 0 && fac__sparse_of(self) && !fac__sparse_of(index), FAC_ERR_UNSUPPORTED,
        "index_select takes rows of a sparse tensor with dimensions by a strided index; to_dense makes one strided");
    FAC_CHECK(index->ndim <= 1 && (index->dtype == FAC_I32 || index->dtype == FAC_I64), FAC_ERR_DTYPE,
              "index should be a vector of int32 or int64, not %s%s", fac_dtype_name(fac__sparse_dtype(index)),
              FAC_SHAPE_TEXT(index));
    FAC_CHECK(fac_device_equal(self->device, index->device), FAC_ERR_DEVICE, "operands are on different devices");
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &dim));
    fac_tensor *coo = fac__sparse_to_coo(self), *at = fac__sparse_long(fac__s_reshape(index, FAC_INTS(index->numel)));
    fac_tensor *part = coo && at ? picked(coo, dim, at) : NULL;
    return fac__give(out, part && !fac__is_coo(self) ? fac__sparse_in_layout_of(part, self) : part);
}

/* ---- unions ------------------------------------------------------------------------------------------------------------------------ */

static fac_status check_cat(fac_tensors l, int64_t dim) {
    for (size_t i = 0; i < l.n; i++) {
        FAC_CHECK(
            fac__is_coo(l.v[i]), FAC_ERR_UNSUPPORTED,
            "expected tensors of the layout sparse_coo throughout, but got %s; to_sparse or to_dense makes them alike",
            fac__layout_name(fac__layout_of(l.v[i])));
        const fac_sparse *s = fac__sparse_of(l.v[i]), *first = fac__sparse_of(l.v[0]);
        FAC_CHECK(s->sparse_dim == first->sparse_dim && s->dense_dim == first->dense_dim, FAC_ERR_SHAPE,
                  "All tensors must have the same: sparse_dim and dense_dim");
        FAC_CHECK(fac_device_equal(l.v[i]->device, l.v[0]->device), FAC_ERR_DEVICE, "tensors are on different devices");
        for (int d = 0; d < l.v[0]->ndim; d++)
            FAC_CHECK(
                d == dim || l.v[i]->sizes[d] == l.v[0]->sizes[d], FAC_ERR_SHAPE,
                "All tensors must have the same shape: %s (except in the concatenating dimension), but found shape: %s",
                FAC_SHAPE_TEXT(l.v[0]), FAC_SHAPE_TEXT(l.v[i]));
    }
    return FAC_OK;
}

/* The coordinates and values of one tensor at its place among `size` along dimension dim. */
static void placed(fac_tensor *t, int64_t dim, int64_t before, int64_t size, fac_dtype dtype, fac_tensor **indices,
                   fac_tensor **values) {
    const fac_sparse *s = fac__sparse_of(t);
    *indices = s->indices, *values = fac__sparse_cast(s->values, dtype);
    if (dim < s->sparse_dim) return; /* shifted once they are together */
    int64_t pad[2 * FAC_MAX_DIMS] = {0};
    const size_t place = (size_t)(t->ndim - 1 - dim);
    pad[2 * place] = before, pad[2 * place + 1] = size - before - t->sizes[dim];
    *values = fac__s_constant_pad_nd(*values, (fac_ints){pad, 2 * place + 2}, fac_scalar_i_(0));
}

/* Coordinates of tensors, one after the other, move to the tensors' places along dimension dim. */
static fac_status shift(fac_tensor *indices, fac_tensors l, int64_t dim) {
    fac_tensor *row = fac__s_select_int(indices, 0, dim);
    int64_t before = 0, at = 0;
    for (size_t i = 0; i < l.n && row; i++) {
        const int64_t z = fac__sparse_of(l.v[i])->indices->sizes[1];
        if (before && z)
            (void)fac__s_add__Scalar(fac__s_slice_Tensor(row, 0, fac_opt_int_(at), fac_opt_int_(at + z), 1),
                                     fac_scalar_i_(before), fac_scalar_i_(1));
        before += l.v[i]->sizes[dim], at += z;
    }
    return fac_error();
}

fac_status cat_sparse(const fac_call_info *c, fac_tensors tensors, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__wrap_dim(dim, tensors.v[0]->ndim, &dim));
    FAC_TRY(check_cat(tensors, dim));
    int64_t sizes[FAC_MAX_DIMS], before = 0;
    fac_dtype dtype = fac__sparse_dtype(tensors.v[0]);
    memcpy(sizes, tensors.v[0]->sizes, tensors.v[0]->ndim * sizeof *sizes);
    sizes[dim] = 0;
    for (size_t i = 0; i < tensors.n; i++) {
        FAC_CHECK(fac__add(sizes[dim], tensors.v[i]->sizes[dim], &sizes[dim]), FAC_ERR_OVERFLOW, "too many elements");
        dtype = fac_promote_types(dtype, fac__sparse_dtype(tensors.v[i]));
    }
    fac_tensor **parts = fac__alloc_array(2 * tensors.n, sizeof *parts);
    if (!parts) return fac_error();
    for (size_t i = 0; i < tensors.n; i++) {
        placed(tensors.v[i], dim, before, sizes[dim], dtype, &parts[i], &parts[tensors.n + i]);
        before += tensors.v[i]->sizes[dim];
    }
    fac_tensor *indices = fac_error() ? NULL : fac__s_cat((fac_tensors){parts, tensors.n}, 1),
               *values = indices ? fac__s_cat((fac_tensors){parts + tensors.n, tensors.n}, 0) : NULL;
    fac__free(parts);
    if (indices && dim < indices->sizes[0]) FAC_TRY(shift(indices, tensors, dim));
    return fac__give(out, fac__sparse_coo((fac_ints){sizes, tensors.v[0]->ndim}, indices, values, false));
}
