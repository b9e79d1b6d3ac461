/* What sparse tensors are made of, and their way from layout to layout: the operators. */
#include "core/kinds.h"
#include "core/tensor_make.h"
#include "core/vendor.h"
#include "ops/sparse/parts.h"

/* ---- counts ------------------------------------------------------------------------------------------------------------ */

fac_status sparse_dim_composite(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    *out = fac__sparse_of(self) ? fac__sparse_of(self)->sparse_dim : 0;
    return FAC_OK;
}

fac_status dense_dim_composite(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    *out = fac__sparse_of(self) ? fac__sparse_of(self)->dense_dim : self->ndim;
    return FAC_OK;
}

fac_status nnz_composite(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    FAC_TRY(fac__sparse_need_sparse(self));
    *out = fac__sparse_nnz(self);
    return FAC_OK;
}

fac_status is_coalesced_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    FAC_TRY(fac__sparse_need_coo(self));
    *out = fac__sparse_of(self)->coalesced;
    return FAC_OK;
}

/* ---- parts ---------------------------------------------------------------------------------------------------------------- */

static fac_status hand_out(fac_tensor *part, fac_tensor **out) { return fac__alias(part, true, out); }

static fac_status need_coalesced(const fac_tensor *t, const char *what) {
    FAC_CHECK(!fac__is_coo(t) || fac__sparse_of(t)->coalesced, FAC_ERR_STATE,
              "Cannot get %s on an uncoalesced tensor, please call coalesce() first", what);
    return FAC_OK;
}

fac_status raw_indices_part(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return hand_out(fac__sparse_of(self)->indices, out);
}

fac_status raw_values_part(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return hand_out(fac__sparse_of(self)->values, out);
}

fac_status indices_part(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    FAC_TRY(need_coalesced(self, "indices"));
    return raw_indices_part(c, self, out);
}

fac_status values_part(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    FAC_TRY(need_coalesced(self, "values"));
    return raw_values_part(c, self, out);
}

/* rows: whether the layouts that have it are those of compressed rows. */
static fac_status compressed_part(fac_tensor *self, const char *name, bool rows, bool plain, fac_tensor **out) {
    const fac_sparse *s = fac__sparse_of(self);
    const bool has_rows = s->layout == FAC_SPARSE_CSR || s->layout == FAC_SPARSE_BSR;
    FAC_CHECK(has_rows == rows, FAC_ERR_UNSUPPORTED, "%s is a part of %s, but the layout is %s", name,
              rows ? "compressed rows" : "compressed columns", fac__layout_name(s->layout));
    return hand_out(plain ? s->plain : s->indices, out);
}
#define COMPRESSED_PART(name, rows, plain)                                               \
    fac_status name##_part(const fac_call_info *c, fac_tensor *self, fac_tensor **out) { \
        (void)c;                                                                         \
        return compressed_part(self, #name, rows, plain, out);                           \
    }
COMPRESSED_PART(crow_indices, true, false)
COMPRESSED_PART(col_indices, true, true)
COMPRESSED_PART(ccol_indices, false, false)
COMPRESSED_PART(row_indices, false, true)

#define COPY_OF(name, id)                                                                          \
    fac_status name##_copy_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) { \
        (void)c;                                                                                   \
        FAC_SCOPE(s);                                                                              \
        return fac__give(out, fac__s_clone(fac__s_##id(self), FAC_FORMAT_DEFAULT));                \
    }
COPY_OF(raw_indices, _indices)
COPY_OF(raw_values, _values)
COPY_OF(indices, indices)
COPY_OF(values, values)
COPY_OF(crow_indices, crow_indices)
COPY_OF(col_indices, col_indices)
COPY_OF(ccol_indices, ccol_indices)
COPY_OF(row_indices, row_indices)

/* ---- coalescing ------------------------------------------------------------------------------------------------------------- */

fac_status coalesce_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__sparse_need_coo(self));
    if (!fac__sparse_of(self)->coalesced) return fac__c__coalesce(self, out);
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status coalesce_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    fac_tensor *t = fac__sparse_coalesced(self);
    if (t == self)
        t = fac__sparse_coo(fac__sparse_sizes(self), fac__sparse_of(self)->indices, fac__sparse_of(self)->values, true);
    return fac__give(out, t);
}

fac_status coalesced_sparse(const fac_call_info *c, fac_tensor *self, bool coalesced, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    const fac_sparse *s = fac__sparse_of(self);
    return fac__give(out, fac__sparse_coo(fac__sparse_sizes(self), s->indices, s->values, coalesced));
}

fac_status coalesced_sparse_(const fac_call_info *c, fac_tensor *self, bool coalesced, fac_tensor **out) {
    (void)c;
    fac__sparse_of(self)->coalesced = coalesced;
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- to dense ----------------------------------------------------------------------------------------------------------------- */

fac_status to_dense_composite(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_opt_num masked_grad,
                              fac_tensor **out) {
    (void)c;
    if (fac__layout_of(self) != FAC_STRIDED) return fac__c__to_dense(self, dtype, masked_grad, out);
    if (dtype && dtype != self->dtype) return fac__c_to_dtype(self, dtype, false, false, FAC_FORMAT_DEFAULT, out);
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status to_dense_sparse(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_opt_num masked_grad,
                           fac_tensor **out) {
    (void)c, (void)masked_grad;
    FAC_SPARSE_KERNEL;
    fac_tensor *t = fac__sparse_dense(self);
    return fac__give(out, t && dtype ? fac__sparse_cast(t, dtype) : t);
}

fac_status to_dense_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *input,
                                       fac_opt_num masked_grad, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(fac__same_sizes(grad, input), FAC_ERR_SHAPE, "grad has sizes %s, but input has %s", FAC_SHAPE_TEXT(grad),
              FAC_SHAPE_TEXT(input));
    const bool masked = !masked_grad.set || masked_grad.v.bits != 0;
#if FAC_HAVE_VENDOR
    if (fac__vendor_of(input))
        return fac__give(out, fac__s_to_mkldnn(fac__s_to_dense(grad, FAC_DTYPE_DEFAULT, (fac_opt_num){0}),
                                               fac__sparse_dtype(input)));
#endif
    grad = fac__sparse_cast(grad, fac__sparse_dtype(input));
    if (!fac__sparse_of(input)) return fac__give(out, fac__s_to_dense(grad, FAC_DTYPE_DEFAULT, (fac_opt_num){0}));
    if (masked) return fac__give(out, fac__s_sparse_mask(grad, input));
    int64_t room[2];
    const fac_ints block = fac__sparse_block(input, room);
    if (fac__is_coo(input)) return fac__give(out, fac__s_to_sparse_sparse_dim(grad, fac__sparse_of(input)->sparse_dim));
    return fac__give(out, fac__s_to_sparse(grad, fac__layout_of(input), block.n ? block : (fac_ints){0},
                                           fac_opt_int_(fac__sparse_of(input)->dense_dim)));
}

/* ---- to sparse ------------------------------------------------------------------------------------------------------------------ */

static bool has_blocks(fac_layout l) { return l == FAC_SPARSE_BSR || l == FAC_SPARSE_BSC; }

static fac_status check_block(const fac_tensor *t, fac_layout layout, fac_ints block, int64_t dense_dim) {
    if (!has_blocks(layout)) {
        FAC_CHECK(!block.v || block.n == 0, FAC_ERR_ARGUMENT,
                  "to_sparse for %s conversion does not use specified blocksize", fac__layout_name(layout));
        return FAC_OK;
    }
    FAC_CHECK(block.v && block.n == 2 && block.v[0] > 0 && block.v[1] > 0, FAC_ERR_ARGUMENT,
              "to_sparse for %s conversion requires blocksize of two positive numbers", fac__layout_name(layout));
    const int64_t *m = t->sizes + t->ndim - dense_dim - 2;
    FAC_CHECK(m[0] % block.v[0] == 0 && m[1] % block.v[1] == 0, FAC_ERR_ARGUMENT,
              "tensor sparse size (%lld, %lld) must be divisible by given blocksize (%lld, %lld)", (long long)m[0],
              (long long)m[1], (long long)block.v[0], (long long)block.v[1]);
    return FAC_OK;
}

static fac_status to_layout(fac_tensor *self, fac_layout layout, fac_ints block, fac_opt_int dense_dim,
                            fac_tensor **out) {
    FAC_SPARSE_KERNEL;
    const fac_sparse *s = fac__sparse_of(self);
    if (layout == FAC_STRIDED) layout = FAC_SPARSE_COO;
    FAC_CHECK(layout == FAC_SPARSE_COO || fac__is_compressed_layout(layout), FAC_ERR_UNSUPPORTED,
              "to_sparse makes no tensor of the layout %s", fac__layout_name(layout));
    const int64_t dense = dense_dim.set ? dense_dim.v : s ? s->dense_dim : 0;
    FAC_CHECK(dense >= 0 && dense <= self->ndim && (!s || dense == s->dense_dim), FAC_ERR_ARGUMENT,
              "dense_dim %lld does not suit a %s tensor of %d dimensions", (long long)dense,
              fac__layout_name(fac__layout_of(self)), self->ndim);
    FAC_CHECK(layout == FAC_SPARSE_COO || self->ndim - dense >= 2, FAC_ERR_SHAPE,
              "a tensor of the layout %s needs two dimensions besides %lld dense ones, but there are %d",
              fac__layout_name(layout), (long long)dense, self->ndim);
    FAC_TRY(check_block(self, layout, block, dense));
    if (!s && layout != FAC_SPARSE_COO) {
        fac_tensor *made = fac__sparse_lines_of_dense(self, (int)dense, layout, block);
        if (made || fac_error()) return fac__give(out, made);
    }
    int64_t room[2];
    const fac_ints have = fac__sparse_block(self, room);
    if (has_blocks(layout) && have.n && have.v[0] == block.v[0] && have.v[1] == block.v[1]) {
        fac_tensor *made = fac__sparse_blocks_turned(self, layout);
        if (made || fac_error()) return fac__give(out, made);
    }
    fac_tensor *coo = s ? fac__sparse_as_coo(self) : fac__sparse_of_dense(self, self->ndim - (int)dense);
    return fac__give(out, fac__sparse_from_coo(coo, layout, block));
}

/* Whether self is already what is asked for. */
static bool is_so(const fac_tensor *self, fac_layout layout, fac_ints block) {
    int64_t room[2];
    const fac_ints have = fac__sparse_block(self, room);
    if (layout == FAC_STRIDED) layout = FAC_SPARSE_COO;
    if (fac__layout_of(self) != layout) return false;
    return !block.v || block.n == 0 || (have.n == block.n && have.v[0] == block.v[0] && have.v[1] == block.v[1]);
}

fac_status to_sparse_explicit(const fac_call_info *c, fac_tensor *self, fac_layout layout, fac_ints blocksize,
                              fac_opt_int dense_dim, fac_tensor **out) {
    (void)c;
    return to_layout(self, layout, blocksize, dense_dim, out);
}

fac_status to_sparse_composite(const fac_call_info *c, fac_tensor *self, fac_layout layout, fac_ints blocksize,
                               fac_opt_int dense_dim, fac_tensor **out) {
    (void)c;
    if (!is_so(self, layout, blocksize)) return fac__c__to_sparse(self, layout, blocksize, dense_dim, out);
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status to_sparse_dim_explicit(const fac_call_info *c, fac_tensor *self, int64_t sparse_dim, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(sparse_dim >= 0 && sparse_dim <= self->ndim && (sparse_dim > 0 || self->ndim == 0), FAC_ERR_ARGUMENT,
              "sparse_dim must be in range [1, %d], but got %lld", self->ndim, (long long)sparse_dim);
    const fac_sparse *s = fac__sparse_of(self);
    if (!s) return fac__give(out, fac__sparse_of_dense(self, (int)sparse_dim));
    FAC_CHECK(s->sparse_dim == sparse_dim && fac__is_coo(self), FAC_ERR_ARGUMENT,
              "a sparse tensor keeps its %d dimensions with indices, but sparse_dim is %lld", s->sparse_dim,
              (long long)sparse_dim);
    return coalesced_sparse(c, self, s->coalesced, out);
}

fac_status to_sparse_dim_composite(const fac_call_info *c, fac_tensor *self, int64_t sparse_dim, fac_tensor **out) {
    (void)c;
    if (!fac__is_coo(self)) return fac__c__to_sparse_sparse_dim(self, sparse_dim, out);
    FAC_CHECK(fac__sparse_of(self)->sparse_dim == sparse_dim, FAC_ERR_ARGUMENT,
              "a sparse tensor keeps its %d dimensions with indices, but sparse_dim is %lld",
              fac__sparse_of(self)->sparse_dim, (long long)sparse_dim);
    *out = fac__ref(self);
    return FAC_OK;
}

#define TO_LAYOUT(name, layout, params, block)                                                                      \
    fac_status to_sparse_##name##_explicit(const fac_call_info *c, fac_tensor *self, params fac_opt_int dense_dim,  \
                                           fac_tensor **out) {                                                      \
        (void)c;                                                                                                    \
        return to_layout(self, layout, block, dense_dim, out);                                                      \
    }                                                                                                               \
    fac_status to_sparse_##name##_composite(const fac_call_info *c, fac_tensor *self, params fac_opt_int dense_dim, \
                                            fac_tensor **out) {                                                     \
        return to_sparse_composite(c, self, layout, block, dense_dim, out);                                         \
    }
#define NO_PARAMS
#define BLOCK_PARAM fac_ints blocksize,
TO_LAYOUT(csr, FAC_SPARSE_CSR, NO_PARAMS, ((fac_ints){0}))
TO_LAYOUT(csc, FAC_SPARSE_CSC, NO_PARAMS, ((fac_ints){0}))
TO_LAYOUT(bsr, FAC_SPARSE_BSR, BLOCK_PARAM, blocksize)
TO_LAYOUT(bsc, FAC_SPARSE_BSC, BLOCK_PARAM, blocksize)

/* ---- indices from form to form ------------------------------------------------------------------------------------------------ */

fac_status coo_to_csr_explicit(const fac_call_info *c, fac_tensor *self, int64_t size, bool out_int32,
                               fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(self->ndim == 1 && size >= 0, FAC_ERR_SHAPE,
              "row numbers should be a vector, and size not negative; got %s", FAC_SHAPE_TEXT(self));
    FAC_CHECK(self->dtype == FAC_I32 || self->dtype == FAC_I64, FAC_ERR_DTYPE, "row numbers are int32 or int64, not %s",
              fac_dtype_name(fac__sparse_dtype(self)));
    return fac__give(
        out, fac__sparse_cast(fac__sparse_compress(fac__sparse_long(self), size), out_int32 ? FAC_I32 : FAC_I64));
}

fac_status csr_to_coo_explicit(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices,
                               bool out_int32, bool transpose, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(crow_indices->ndim >= 1 && crow_indices->ndim == col_indices->ndim &&
                  crow_indices->sizes[crow_indices->ndim - 1] >= 1,
              FAC_ERR_SHAPE,
              "crow_indices and col_indices should be lists or batches of lists, but have sizes %s and %s",
              FAC_SHAPE_TEXT(crow_indices), FAC_SHAPE_TEXT(col_indices));
    FAC_CHECK(crow_indices->dtype == col_indices->dtype &&
                  (crow_indices->dtype == FAC_I32 || crow_indices->dtype == FAC_I64),
              FAC_ERR_DTYPE, "crow_indices and col_indices must both be int32 or both int64");
    FAC_CHECK(fac_device_equal(crow_indices->device, col_indices->device), FAC_ERR_DEVICE,
              "crow_indices and col_indices must be on one device");
    const int batch = crow_indices->ndim - 1;
    int64_t sizes[FAC_MAX_DIMS + 2];
    for (int i = 0; i < batch; i++) {
        sizes[i] = crow_indices->sizes[i];
        FAC_CHECK(sizes[i] == col_indices->sizes[i], FAC_ERR_SHAPE, "crow_indices and col_indices have other batches");
    }
    FAC_CHECK(batch + 2 <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "too many dimensions");
    sizes[batch] = crow_indices->sizes[batch] - 1,
    sizes[batch + 1] = 0; /* how many columns there are is not looked at */
    fac_tensor *t = fac__sparse_to_coo(fac__sparse_compressed(FAC_SPARSE_CSR, (fac_ints){sizes, (size_t)batch + 2},
                                                              crow_indices, col_indices, col_indices));
    if (!t) return fac_error();
    fac_tensor *indices = fac__sparse_of(t)->indices;
    if (transpose) {
        int64_t order[FAC_MAX_DIMS];
        for (int i = 0; i < batch; i++) order[i] = i;
        order[batch] = batch + 1, order[batch + 1] = batch;
        indices = fac__s_index_select(indices, 0, fac__sparse_numbers((fac_ints){order, (size_t)batch + 2}, t->device));
    }
    return fac__give(out, fac__sparse_cast(indices, out_int32 ? FAC_I32 : FAC_I64));
}
