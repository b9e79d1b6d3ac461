/* Sums and products, element by element, of sparse tensors with each other and with strided ones. */
#include "ops/sparse/host.h"

static fac_status need_same_sizes(const fac_tensor *a, const fac_tensor *b) {
    FAC_CHECK(fac__same_sizes(a, b), FAC_ERR_SHAPE,
              "sparse tensors do not broadcast; expected equal sizes, but got %s and %s", FAC_SHAPE_TEXT(a),
              FAC_SHAPE_TEXT(b));
    return FAC_OK;
}

static fac_tensor *scaled_by(fac_tensor *t, fac_scalar alpha) {
    return fac__scalar_is(alpha, 1) ? t : fac__s_mul_Scalar(t, alpha);
}

/* ---- sums ------------------------------------------------------------------------------------------------------------------ */

static fac_tensor *scaled_values(fac_tensor *t, fac_scalar alpha, fac_dtype dtype) {
    return fac__sparse_cast(scaled_by(fac__sparse_cast(fac__sparse_of(t)->values, dtype), alpha), dtype);
}

/* The sum by a loop; NULL where there is none for such tensors. */
static fac_tensor *merged(fac_tensor *a, fac_tensor *b, fac_scalar alpha, fac_dtype dtype) {
    if (a->device.type != FAC_CPU || dtype == FAC_BOOL) return NULL;
    a = fac__sparse_with_values(a, fac__sparse_cast(fac__sparse_of(a)->values, dtype));
    b = a ? fac__sparse_with_values(b, scaled_values(b, alpha, dtype)) : NULL;
    return b ? fac__sparse_host_merge(a, b, false) : NULL;
}

/* Both by coordinates: one after the other, and in order if both are. */
static fac_tensor *sum_of_coo(fac_tensor *a, fac_tensor *b, fac_scalar alpha, fac_dtype dtype) {
    const fac_sparse *s = fac__sparse_of(a), *o = fac__sparse_of(b);
    if (s->sparse_dim != o->sparse_dim) {
        FAC_FAIL(FAC_ERR_SHAPE, "expected equal numbers of sparse dimensions, but got %d and %d", s->sparse_dim,
                 o->sparse_dim);
        return NULL;
    }
    fac_tensor *sum = merged(a, b, alpha, dtype);
    if (sum || fac_error()) return sum;
    sum = fac__sparse_coo(
        fac__sparse_sizes(a), fac__s_cat(FAC_TENSORS(s->indices, o->indices), 1),
        fac__s_cat(FAC_TENSORS(fac__sparse_cast(s->values, dtype), scaled_values(b, alpha, dtype)), 0), false);
    return s->coalesced && o->coalesced ? fac__sparse_coalesced(sum) : sum;
}

/* dense + alpha * sparse, of equal sizes. */
static fac_tensor *sum_with_dense(fac_tensor *dense, fac_tensor *sparse, fac_scalar alpha, fac_dtype dtype) {
    fac_tensor *base = fac__sparse_cast(dense, dtype);
    if (!base) return NULL;
    if (sparse->numel == 0 || fac__sparse_nnz(sparse) == 0) return fac__s_clone(base, FAC_FORMAT_DEFAULT);
    if (dtype == FAC_BOOL) return fac__s_add_Tensor(base, fac__sparse_dense(sparse), alpha);
    if (fac__layout_of(sparse) == FAC_SPARSE_CSR && sparse->ndim == 2 && sparse->device.type == FAC_CPU) {
        fac_sparse_rows rows = fac__sparse_rows_of(sparse);
        rows.values = scaled_values(sparse, alpha, dtype);
        fac_tensor *sum = fac__sparse_host_add(base, rows);
        if (sum || fac_error()) return sum;
    }
    const bool by_column = fac__layout_of(sparse) == FAC_SPARSE_CSC; /* whose elements lie far apart */
    const fac_sparse_cells c = fac__sparse_cells_of(by_column ? fac__sparse_as_coo(sparse) : sparse);
    if (!c.t) return NULL;
    const int dims = sparse->ndim - fac__sparse_of(sparse)->dense_dim;
    fac_tensor *flat = fac__sparse_reshape(base, 0, dims, FAC_INTS(fac__sparse_numel(sparse->sizes, dims)));
    fac_tensor *more = fac__sparse_cast(scaled_by(fac__sparse_cast(c.values, dtype), alpha), dtype);
    fac_tensor *sum = fac__s_index_add(flat, 0, c.at, more, fac_scalar_i_(1));
    return sum ? fac__s_reshape(sum, fac__sparse_sizes(dense)) : NULL;
}

static fac_dtype common(const fac_tensor *a, const fac_tensor *b) {
    return fac_promote_types(fac__sparse_dtype(a), fac__sparse_dtype(b));
}

static fac_status sum_of(fac_tensor *self, fac_tensor *other, fac_scalar alpha, fac_tensor **out) {
    const fac_dtype dtype = common(self, other);
    FAC_TRY(need_same_sizes(self, other));
    FAC_CHECK(fac_device_equal(self->device, other->device), FAC_ERR_DEVICE, "operands are on different devices");
    FAC_TRY(fac__check_factor(dtype, alpha));
    if (!fac__sparse_of(self)) return fac__give(out, sum_with_dense(self, other, alpha, dtype));
    if (!fac__sparse_of(other)) {
        fac_tensor *scaled = scaled_by(fac__sparse_cast(other, dtype), alpha);
        return fac__give(out, scaled ? sum_with_dense(scaled, self, fac_scalar_i_(1), dtype) : NULL);
    }
    if (fac__is_coo(self) && fac__is_coo(other)) return fac__give(out, sum_of_coo(self, other, alpha, dtype));
    fac_tensor *sum = fac__layout_of(self) == fac__layout_of(other) ? merged(self, other, alpha, dtype) : NULL;
    if (sum || fac_error()) return fac__give(out, sum);
    fac_tensor *a = fac__sparse_as_coo(self), *b = fac__sparse_as_coo(other);
    sum = a && b ? sum_of_coo(a, b, alpha, dtype) : NULL;
    return fac__give(out, fac__sparse_in_layout_of(sum, self));
}

fac_status add_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    return sum_of(self, other, alpha, out);
}

fac_status sub_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    double room[2];
    FAC_CHECK(self->dtype != FAC_BOOL && other->dtype != FAC_BOOL, FAC_ERR_DTYPE,
              "Subtraction, the `-` operator, with a bool tensor is not supported.");
    return sum_of(self, other, fac__scalar_neg(alpha, room), out);
}

/* ---- products ------------------------------------------------------------------------------------------------------------------ */

/* Where both have elements. */
static fac_tensor *product_of_sparse(fac_tensor *a, fac_tensor *b) {
    a = fac__sparse_as_coo(a), b = fac__sparse_as_coo(b);
    if (!a || !b) return NULL;
    const fac_sparse *s = fac__sparse_of(a), *o = fac__sparse_of(b);
    if (s->sparse_dim != o->sparse_dim) {
        FAC_FAIL(FAC_ERR_SHAPE, "expected equal numbers of sparse dimensions, but got %d and %d", s->sparse_dim,
                 o->sparse_dim);
        return NULL;
    }
    fac_tensor *merged = fac__sparse_host_merge(a, b, true);
    if (merged || fac_error()) return merged;
    fac_tensor *mine = fac__sparse_flat(s->indices, a->sizes), *theirs = fac__sparse_flat(o->indices, b->sizes);
    if (!mine || !theirs) return NULL;
    if (theirs->numel == 0 || mine->numel == 0) {
        fac_tensor *few = fac__s_slice_Tensor(s->values, 0, fac_opt_int_(0), fac_opt_int_(0), 1);
        return fac__sparse_coo(fac__sparse_sizes(a),
                               fac__s_slice_Tensor(s->indices, 1, fac_opt_int_(0), fac_opt_int_(0), 1),
                               fac__sparse_cast(few, common(a, b)), true);
    }
    fac_tensor *at = fac__sparse_host_places(theirs, mine);
    if (!at && !fac_error()) at = fac__s_searchsorted_Tensor(theirs, mine, false, false, NULL, NULL);
    at = fac__s_clamp_max(at, fac_scalar_i_(theirs->numel - 1));
    fac_tensor *both = fac__s_eq_Tensor(fac__s_index_select(theirs, 0, at), mine);
    fac_tensor *keep = fac__s_nonzero(both);
    keep = keep ? fac__s_reshape(keep, FAC_INTS(keep->sizes[0])) : NULL;
    fac_tensor *values = fac__s_mul_Tensor(fac__s_index_select(s->values, 0, keep),
                                           fac__s_index_select(o->values, 0, fac__s_index_select(at, 0, keep)));
    return fac__sparse_coo(fac__sparse_sizes(a), fac__s_index_select(s->indices, 1, keep), values, true);
}

/* The elements of a strided tensor where a sparse one has some. */
static fac_tensor *elements_at(fac_tensor *dense, fac_sparse_cells c) {
    if (c.at->numel == 0) return fac__sparse_cast(c.values, fac__sparse_dtype(dense));
    const int dims = c.t->ndim - fac__sparse_of(c.t)->dense_dim;
    fac_tensor *all = fac__s_expand(dense, fac__sparse_sizes(c.t), false);
    return fac__s_index_select(fac__sparse_reshape(all, 0, dims, FAC_INTS(fac__sparse_numel(c.t->sizes, dims))), 0,
                               c.at);
}

static fac_tensor *product_with_dense(fac_tensor *sparse, fac_tensor *dense) {
    if (dense->ndim == 0)
        return fac__sparse_with_values(sparse, fac__s_mul_Tensor(fac__sparse_of(sparse)->values, dense));
    const fac_sparse_cells c = fac__sparse_cells_of(sparse);
    return c.t ? fac__sparse_with_cells(c, fac__s_mul_Tensor(c.values, elements_at(dense, c)), sparse) : NULL;
}

/* Whether b broadcasts to the sizes of a without changing them. */
static bool expands_to(const fac_tensor *b, const fac_tensor *a) {
    for (int i = 0; i < b->ndim; i++) {
        const int k = i + a->ndim - b->ndim;
        if (k < 0 || (b->sizes[i] != 1 && b->sizes[i] != a->sizes[k])) return false;
    }
    return true;
}

fac_status mul_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(fac_device_equal(self->device, other->device) || self->ndim == 0 || other->ndim == 0, FAC_ERR_DEVICE,
              "operands are on different devices");
    if (fac__sparse_of(self) && fac__sparse_of(other)) {
        FAC_TRY(need_same_sizes(self, other));
        fac_tensor *merged = fac__is_coo(self) ? NULL : fac__sparse_host_merge(self, other, true);
        if (merged || fac_error()) return fac__give(out, merged);
        return fac__give(out, fac__sparse_in_layout_of(product_of_sparse(self, other), self));
    }
    fac_tensor *sparse = fac__sparse_of(self) ? self : other, *dense = sparse == self ? other : self;
    FAC_CHECK(expands_to(dense, sparse), FAC_ERR_SHAPE,
              "the strided factor of sizes %s does not broadcast to the sparse one of sizes %s", FAC_SHAPE_TEXT(dense),
              FAC_SHAPE_TEXT(sparse));
    return fac__give(out, product_with_dense(sparse, dense));
}

fac_status div_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(fac__sparse_of(self) && !fac__sparse_of(other) && other->ndim == 0, FAC_ERR_UNSUPPORTED,
              "sparse division needs a number or a strided tensor without dimensions as the divisor, since what is not "
              "stored is zero; to_dense makes both strided");
    return fac__give(out, fac__sparse_with_values(self, fac__s_div_Tensor(fac__sparse_of(self)->values, other)));
}

/* ---- masks ----------------------------------------------------------------------------------------------------------------------- */

fac_status sparse_mask_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mask, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_sparse(mask));
    FAC_TRY(need_same_sizes(self, mask));
    FAC_CHECK(fac_device_equal(self->device, mask->device), FAC_ERR_DEVICE, "operands are on different devices");
    if (!fac__sparse_of(self)) {
        const fac_sparse_cells c = fac__sparse_cells_of(mask);
        if (!c.t) return fac_error();
        return fac__give(out, fac__sparse_with_cells(c, elements_at(self, c), mask));
    }
    fac_tensor *at = fac__sparse_as_coo(mask), *from = fac__sparse_as_coo(self);
    if (!at || !from) return fac_error();
    FAC_CHECK(fac__sparse_of(from)->sparse_dim == fac__sparse_of(at)->sparse_dim, FAC_ERR_SHAPE,
              "expected equal numbers of sparse dimensions");
    fac_tensor *values = fac__sparse_values_at(from, at);
    fac_tensor *made = fac__sparse_with_values(at, fac__sparse_cast(values, fac__sparse_dtype(self)));
    return fac__give(out, fac__sparse_in_layout_of(made, mask));
}

fac_status mask_projection_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mask, bool accumulate_matches,
                                  fac_tensor **out) {
    (void)accumulate_matches; /* coalescing adds them up */
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__sparse_need_coo(mask));
    return sparse_mask_sparse(c, self, mask, out);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------------- */

fac_status equal_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(fac_device_equal(self->device, other->device), FAC_ERR_DEVICE, "operands are on different devices");
    FAC_CHECK(self->dtype == other->dtype, FAC_ERR_DTYPE, "expected one dtype, but got %s and %s",
              fac_dtype_name(fac__sparse_dtype(self)), fac_dtype_name(fac__sparse_dtype(other)));
    *out = false;
    if (fac__layout_of(self) != fac__layout_of(other) || !fac__same_sizes(self, other)) return FAC_OK;
    fac_tensor *a = fac__sparse_as_coo(self), *b = fac__sparse_as_coo(other);
    if (!a || !b) return fac_error();
    const fac_sparse *s = fac__sparse_of(a), *o = fac__sparse_of(b);
    if (!fac__same_sizes(s->indices, o->indices)) return FAC_OK;
    bool same = false;
    FAC_TRY(fac__c_equal(s->indices, o->indices, &same));
    return same ? fac__c_equal(s->values, o->values, out) : FAC_OK;
}
