/* Matrix products with sparse operands. Rows of the result are sums over a row's elements in their order, whatever the threads. */
#include "ops/sparse/check.h"
#include "ops/sparse/host.h"

static fac_status need_matrices(const fac_tensor *a, const fac_tensor *b) {
    FAC_CHECK(a->ndim == 2 && b->ndim == 2, FAC_ERR_SHAPE, "expected matrices, but got sizes %s and %s",
              FAC_SHAPE_TEXT(a), FAC_SHAPE_TEXT(b));
    FAC_CHECK(a->sizes[1] == b->sizes[0], FAC_ERR_SHAPE, "sizes %s and %s cannot be multiplied", FAC_SHAPE_TEXT(a),
              FAC_SHAPE_TEXT(b));
    FAC_CHECK(a->dtype == b->dtype, FAC_ERR_DTYPE, "expected one dtype, but got %s and %s",
              fac_dtype_name(fac__sparse_dtype(a)), fac_dtype_name(fac__sparse_dtype(b)));
    FAC_CHECK(fac_device_equal(a->device, b->device), FAC_ERR_DEVICE, "operands are on different devices");
    return FAC_OK;
}

static fac_status need_no_dense_dims(const fac_tensor *t) {
    const fac_sparse *s = fac__sparse_of(t);
    FAC_CHECK(!s || s->dense_dim == 0, FAC_ERR_UNSUPPORTED, "a sparse matrix should have indices for both dimensions");
    return FAC_OK;
}

/* ---- the kernel by other operators ------------------------------------------------------------------------------------- */

fac_status fac__sparse_check_spmm(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_tensor *dense) {
    const bool blocks = values->ndim == 3;
    FAC_CHECK(begin->ndim == 1 && columns->ndim == 1 && (values->ndim == 1 || blocks) && dense->ndim == 2 &&
                  begin->numel >= 1 && columns->numel == values->sizes[0],
              FAC_ERR_SHAPE, "indices of sizes %s and %s and values of sizes %s are no matrix of compressed rows",
              FAC_SHAPE_TEXT(begin), FAC_SHAPE_TEXT(columns), FAC_SHAPE_TEXT(values));
    FAC_CHECK(!blocks || (values->sizes[1] > 0 && values->sizes[2] > 0 && dense->sizes[0] % values->sizes[2] == 0),
              FAC_ERR_SHAPE, "blocks of sizes %s do not cut a matrix of sizes %s", FAC_SHAPE_TEXT(values),
              FAC_SHAPE_TEXT(dense));
    FAC_CHECK(begin->dtype == FAC_I64 && columns->dtype == FAC_I64, FAC_ERR_DTYPE, "indices must be int64");
    FAC_CHECK(values->dtype == dense->dtype && dense->dtype != FAC_BOOL, FAC_ERR_DTYPE,
              "expected one dtype that has sums, but got %s and %s", fac_dtype_name(fac__sparse_dtype(values)),
              fac_dtype_name(fac__sparse_dtype(dense)));
    const bool here = fac_device_equal(begin->device, dense->device) &&
                      fac_device_equal(columns->device, dense->device) &&
                      fac_device_equal(values->device, dense->device);
    FAC_CHECK(here, FAC_ERR_DEVICE, "operands are on different devices");
    return FAC_OK;
}

fac_status fac__sparse_check_extremes(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_tensor *dense) {
    FAC_TRY(fac__sparse_check_spmm(begin, columns, values, dense));
    FAC_CHECK(values->ndim == 1, FAC_ERR_SHAPE, "extremes are of single elements, but got blocks of sizes %s",
              FAC_SHAPE_TEXT(values));
    return FAC_OK;
}

fac_status spmm_explicit(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices, fac_tensor *values,
                         fac_tensor *dense, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_check_spmm(crow_indices, col_indices, values, dense));
    const bool blocks = values->ndim == 3;
    const int64_t z = values->sizes[0], n = crow_indices->numel - 1, p = dense->sizes[1],
                  h = blocks ? values->sizes[1] : 1, w = blocks ? values->sizes[2] : 1;
    int64_t rows_of_all;
    FAC_CHECK(!__builtin_mul_overflow(n, h, &rows_of_all), FAC_ERR_SHAPE,
              "%lld rows of blocks of %lld rows are too many", (long long)n, (long long)h);
    if (dense->device.type == FAC_META)
        return fac__give(out, fac__sparse_zeros(FAC_INTS(rows_of_all, p), fac__sparse_dtype(dense), dense->device));
    fac_tensor *zeros =
        fac__sparse_zeros(blocks ? FAC_INTS(n, h, p) : FAC_INTS(n, p), fac__sparse_dtype(dense), dense->device);
    fac_tensor *ends = fac__s_slice_Tensor(crow_indices, 0, fac_opt_int_(1), (fac_opt_int){0}, 1);
    fac_tensor *rows = fac__s_searchsorted_Tensor(ends, fac__sparse_range(z, dense->device), false, true, NULL, NULL);
    if (blocks) dense = fac__s_reshape(dense, FAC_INTS(dense->sizes[0] / w, w, p));
    fac_tensor *met = fac__s_index_select(dense, 0, col_indices);
    fac_tensor *terms = blocks ? fac__s_bmm(values, met) : fac__s_mul_Tensor(met, fac__s_unsqueeze(values, 1));
    fac_tensor *sums = fac__s_index_add(zeros, 0, rows, terms, fac_scalar_i_(1));
    return fac__give(out, blocks ? fac__s_reshape(sums, FAC_INTS(rows_of_all, p)) : sums);
}

/* ---- matrices ------------------------------------------------------------------------------------------------------------------ */

static fac_tensor *sparse_by_dense(fac_tensor *sparse, fac_tensor *dense) {
    if (!sparse || !dense) return NULL;
    const fac_dtype d = fac__sparse_dtype(dense);
    const bool half = fac__is_half(d);
    int64_t room[2];
    if (fac__sparse_block(sparse, room).n && fac__layout_of(sparse) != FAC_SPARSE_BSR)
        sparse = fac__sparse_blocks_turned(sparse, FAC_SPARSE_BSR);
    if (!sparse) return NULL;
    const fac_sparse *s = fac__sparse_of(sparse);
    const fac_sparse_rows rows =
        s->layout == FAC_SPARSE_BSR ? (fac_sparse_rows){s->indices, s->plain, s->values} : fac__sparse_rows_of(sparse);
    fac_tensor *product = rows.values ? fac__s__spmm(fac__sparse_long(rows.begin), fac__sparse_long(rows.columns),
                                                     half ? fac__sparse_cast(rows.values, FAC_F32) : rows.values,
                                                     half ? fac__sparse_cast(dense, FAC_F32) : dense)
                                      : NULL;
    return half ? fac__sparse_cast(product, d) : product;
}

/* Each element of a meets the row of b that its column names. */
static fac_tensor *sparse_by_sparse(fac_tensor *a, fac_tensor *b) {
    const fac_layout la = fac__layout_of(a);
    fac_sparse_rows rows = fac__sparse_rows_of(b);
    if (!rows.values) return NULL;
    if (fac__sparse_on_host(rows.values)) {
        fac_tensor *here =
            fac__sparse_host_product(fac__sparse_rows_of(a), rows, a->sizes[0], a->sizes[1], b->sizes[1]);
        if (here && la != FAC_SPARSE_CSR) here = fac__sparse_to_coo(here);
        if (here && la == FAC_SPARSE_CSC) here = fac__sparse_from_coo(here, la, (fac_ints){0});
        if (here || fac_error()) return here;
    }
    fac_tensor *coo = fac__sparse_as_coo(a);
    if (!coo) return NULL;
    const fac_sparse *s = fac__sparse_of(coo);
    fac_tensor *begin = fac__sparse_long(rows.begin), *columns = fac__sparse_long(rows.columns);
    fac_tensor *lengths = fac__s_diff(begin, 1, 0, NULL, NULL), *k = fac__s_select_int(s->indices, 0, 1);
    fac_tensor *count = fac__s_index_select(lengths, 0, k);
    fac_tensor *which = fac__s_repeat_interleave_Tensor(count, (fac_opt_int){0});
    if (!which) return NULL;
    fac_tensor *before = fac__s_sub_Tensor(fac__s_cumsum(count, 0, FAC_DTYPE_DEFAULT), count, fac_scalar_i_(1));
    fac_tensor *shift = fac__s_sub_Tensor(fac__s_index_select(begin, 0, k), before, fac_scalar_i_(1));
    fac_tensor *at = fac__s_add_Tensor(fac__sparse_range(which->numel, a->device), fac__s_index_select(shift, 0, which),
                                       fac_scalar_i_(1));
    fac_tensor *i = fac__s_index_select(fac__s_select_int(s->indices, 0, 0), 0, which),
               *j = fac__s_index_select(columns, 0, at);
    fac_tensor *values =
        fac__s_mul_Tensor(fac__s_index_select(s->values, 0, which), fac__s_index_select(rows.values, 0, at));
    fac_tensor *product =
        fac__sparse_coo(FAC_INTS(a->sizes[0], b->sizes[1]), fac__s_stack(FAC_TENSORS(i, j), 0), values, false);
    product = fac__sparse_coalesced(product);
    return la == FAC_SPARSE_CSR || la == FAC_SPARSE_CSC ? fac__sparse_from_coo(product, la, (fac_ints){0}) : product;
}

/* The product of two matrices, at least one of them sparse. */
static fac_status product(fac_tensor *a, fac_tensor *b, fac_tensor **out) {
    if (!a || !b) return fac_error();
    FAC_TRY(need_matrices(a, b));
    FAC_TRY(need_no_dense_dims(a));
    FAC_TRY(need_no_dense_dims(b));
    *out = fac__sparse_of(a) && fac__sparse_of(b) ? sparse_by_sparse(a, b)
           : fac__sparse_of(a)                    ? sparse_by_dense(a, b)
                                                  : fac__s_t(sparse_by_dense(fac__s_t(b), fac__s_t(a)));
    return *out ? FAC_OK : fac_error();
}

fac_status mm_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    fac_tensor *p;
    FAC_TRY(product(self, mat2, &p));
    return fac__give(out, p);
}

fac_status sparse_matmul_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    FAC_TRY(fac__sparse_need_sparse(self));
    FAC_TRY(fac__sparse_need_sparse(other));
    return mm_sparse(c, self, other, out);
}

/* beta * self + alpha * p; self broadcasts where it is strided. */
static fac_tensor *combined(fac_tensor *self, fac_tensor *p, fac_scalar beta, fac_scalar alpha) {
    if (!p) return NULL;
    if (!fac__sparse_of(self)) self = fac__s_expand(self, fac__sparse_sizes(p), false);
    if (fac__scalar_is(beta, 0)) return fac__s_mul_Scalar(p, alpha);
    fac_tensor *base = fac__scalar_is(beta, 1) ? self : fac__s_mul_Scalar(self, beta);
    return fac__s_add_Tensor(base, p, alpha);
}

static fac_status need_dtype(const fac_tensor *self, const fac_tensor *m) {
    FAC_CHECK(self->dtype == m->dtype, FAC_ERR_DTYPE, "expected one dtype, but got %s and %s",
              fac_dtype_name(fac__sparse_dtype(self)), fac_dtype_name(fac__sparse_dtype(m)));
    FAC_CHECK(fac_device_equal(self->device, m->device), FAC_ERR_DEVICE, "operands are on different devices");
    return FAC_OK;
}

fac_status addmm_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2, fac_scalar beta,
                        fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    fac_tensor *p = NULL;
    FAC_TRY(need_dtype(self, mat1));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), alpha));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), beta));
    if (fac__sparse_of(mat1) || fac__sparse_of(mat2)) {
        FAC_TRY(product(mat1, mat2, &p));
    } else {
        FAC_TRY(need_matrices(mat1, mat2));
        p = fac__s_mm(mat1, mat2);
    }
    return fac__give(out, combined(self, p, beta, alpha));
}

static fac_status by_vector(fac_tensor *m, fac_tensor *v, fac_tensor **out) {
    FAC_CHECK(m->ndim == 2 && v->ndim == 1 && m->sizes[1] == v->sizes[0], FAC_ERR_SHAPE,
              "sizes %s and %s cannot be multiplied", FAC_SHAPE_TEXT(m), FAC_SHAPE_TEXT(v));
    FAC_CHECK(fac__sparse_of(m) && !fac__sparse_of(v), FAC_ERR_UNSUPPORTED,
              "a sparse matrix is multiplied by strided vectors, not a %s by a %s one; to_dense makes one strided",
              fac__layout_name(fac__layout_of(m)), fac__layout_name(fac__layout_of(v)));
    FAC_TRY(product(m, fac__s_unsqueeze(v, 1), out));
    *out = fac__s_select_int(*out, 1, 0);
    return *out ? FAC_OK : fac_error();
}

fac_status mv_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *vec, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    fac_tensor *p;
    FAC_TRY(by_vector(self, vec, &p));
    return fac__give(out, fac__s_contiguous(p, FAC_FORMAT_DEFAULT));
}

fac_status addmv_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mat, fac_tensor *vec, fac_scalar beta,
                        fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    fac_tensor *p;
    FAC_TRY(need_dtype(self, mat));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), alpha));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), beta));
    FAC_CHECK(!fac__sparse_of(self), FAC_ERR_UNSUPPORTED, "what is added to must be strided; to_dense makes it so");
    FAC_TRY(by_vector(mat, vec, &p));
    return fac__give(out, combined(self, p, beta, alpha));
}

/* Batches are blocks on the diagonal of one large matrix. */
static fac_tensor *batched(fac_tensor *a, fac_tensor *b) {
    fac_tensor *coo = fac__sparse_as_coo(a);
    if (!coo || !b) return NULL;
    const fac_sparse *s = fac__sparse_of(coo);
    const int64_t n = a->sizes[1], m = a->sizes[2], batches = a->sizes[0], p = b->sizes[2];
    fac_tensor *at = fac__s_select_int(s->indices, 0, 0);
    fac_tensor *i = fac__s_add_Tensor(fac__s_select_int(s->indices, 0, 1), at, fac_scalar_i_(n)),
               *k = fac__s_add_Tensor(fac__s_select_int(s->indices, 0, 2), at, fac_scalar_i_(m));
    fac_tensor *large =
        fac__sparse_coo(FAC_INTS(batches * n, batches * m), fac__s_stack(FAC_TENSORS(i, k), 0), s->values, true);
    return fac__s_reshape(sparse_by_dense(large, fac__s_reshape(b, FAC_INTS(batches * m, p))), FAC_INTS(batches, n, p));
}

fac_status bmm_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_CHECK(self->ndim == 3 && mat2->ndim == 3 && self->sizes[0] == mat2->sizes[0] &&
                  self->sizes[2] == mat2->sizes[1],
              FAC_ERR_SHAPE, "sizes %s and %s cannot be multiplied", FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(mat2));
    FAC_TRY(need_dtype(self, mat2));
    FAC_TRY(need_no_dense_dims(self));
    FAC_TRY(need_no_dense_dims(mat2));
    FAC_CHECK(!fac__sparse_of(self) || !fac__sparse_of(mat2), FAC_ERR_UNSUPPORTED,
              "one of the operands must be strided; to_dense makes it so");
    int64_t rows;
    FAC_CHECK(fac__mul(self->sizes[0], fac__max(self->sizes[1], self->sizes[2]), &rows), FAC_ERR_OVERFLOW,
              "too many rows for 64 bits");
    if (fac__sparse_of(self)) return fac__give(out, batched(self, mat2));
    fac_tensor *p = batched(fac__s_transpose_int(fac__sparse_to_coo(mat2), 1, 2), fac__s_transpose_int(self, 1, 2));
    return fac__give(out, fac__s_transpose_int(p, 1, 2));
}

/* ---- under other names ------------------------------------------------------------------------------------------------------------ */

fac_status sparse_mm_composite(const fac_call_info *c, fac_tensor *sparse, fac_tensor *dense, fac_tensor **out) {
    (void)c;
    FAC_CHECK(fac__sparse_of(sparse) || fac__sparse_of(dense), FAC_ERR_UNSUPPORTED,
              "one of the operands should be sparse; to_sparse makes it so");
    return fac__c_mm(sparse, dense, out);
}

/* What is reduced: terms[e, j] = values[e] * dense[columns[e], j] over the elements e of each row. */
typedef struct terms {
    fac_tensor *begin, *columns, *rows, *values, *dense;
    int64_t n, z, p; /* rows, elements, columns of the result */
} terms;

static fac_status terms_of(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_tensor *dense, terms *t) {
    if (!begin || !columns || !values) return fac_error();
    *t = (terms){.begin = begin, .columns = columns, .values = values, .dense = dense};
    t->n = begin->numel - 1, t->z = values->numel, t->p = dense->sizes[1];
    fac_tensor *ends = fac__s_slice_Tensor(begin, 0, fac_opt_int_(1), (fac_opt_int){0}, 1);
    t->rows = fac__s_searchsorted_Tensor(ends, fac__sparse_range(t->z, dense->device), false, true, NULL, NULL);
    return fac_error();
}

/* Whether the CPU has kernels of extremes of these, and nothing else has to see the call. */
static bool has_kernels(const fac_tensor *values, const fac_tensor *dense) {
    const fac_dtype d = fac__sparse_dtype(dense);
    return (d == FAC_F32 || d == FAC_F64) && fac__sparse_on_host(values) && fac__sparse_on_host(dense) &&
           fac__may_write(values, dense);
}

/* The number of the element that gives each result its term, the first of equal ones or of those that are NaN; z where there is
   none. */
static fac_tensor *winners_by_operators(const terms *t, const char *reduce) {
    fac_tensor *dense = fac__s_detach(t->dense), *values = fac__s_unsqueeze(fac__s_detach(t->values), 1);
    fac_tensor *all = fac__s_mul_Tensor(fac__s_index_select(dense, 0, t->columns), values);
    fac_tensor *best = fac__sparse_zeros(FAC_INTS(t->n, t->p), fac__sparse_dtype(t->dense), t->dense->device);
    best = fac__s_index_reduce(best, 0, t->rows, all, reduce, false);
    fac_tensor *wins = fac__s_eq_Tensor(all, fac__s_index_select(best, 0, t->rows));
    wins = fac__s_logical_or(wins, fac__s_isnan(all));
    fac_tensor *number = fac__s_unsqueeze(fac__sparse_range(t->z, t->dense->device), 1);
    fac_tensor *none =
        fac__s_full_like(fac__s_sum_dim_IntList(wins, FAC_INTS(0), true, FAC_DTYPE_DEFAULT), fac_scalar_i_(t->z),
                         FAC_I64, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    fac_tensor *first = fac__s_contiguous(fac__s_expand(none, FAC_INTS(t->n, t->p), false), FAC_CONTIGUOUS);
    return fac__s_index_reduce(first, 0, t->rows, fac__s_where_self(wins, number, none), "amin", true);
}

static fac_tensor *winners(const terms *t, const char *reduce) {
    fac_tensor *values = fac__s_detach(t->values), *dense = fac__s_detach(t->dense);
    if (!values || !dense || !has_kernels(values, dense)) return winners_by_operators(t, reduce);
    return fac__s__spmm_winners(t->begin, t->columns, values, dense, strcmp(reduce, "amax") == 0);
}

/* The winning terms, made anew of values and dense, so that both have gradients. */
static fac_tensor *extreme_terms(const terms *t, const char *reduce) {
    fac_tensor *first = winners(t, reduce);
    fac_tensor *there = fac__s_lt_Scalar(first, fac_scalar_i_(t->z));
    fac_tensor *at = fac__s_reshape(fac__s_mul_Tensor(first, there), FAC_INTS(-1));
    const fac_ints sizes = FAC_INTS(t->n, t->p);
    fac_tensor *value = fac__s_reshape(fac__s_index_select(t->values, 0, at), sizes);
    fac_tensor *column = fac__s_reshape(fac__s_index_select(t->columns, 0, at), sizes);
    fac_tensor *term = fac__s_mul_Tensor(value, fac__s_gather(t->dense, 0, column, false));
    return fac__s_masked_fill_Scalar(term, fac__s_logical_not(there), fac_scalar_i_(0));
}

/* A kernel of extremes by other operators: what `make` makes of the terms, or zeros of the dtype where there are none, as on the meta
   device. */
static fac_status by_operators(fac_tensor *(*make)(const terms *, const char *), fac_sparse_rows rows,
                               fac_tensor *dense, bool largest, fac_dtype dtype, fac_tensor **out) {
    terms t = {0};
    FAC_TRY(fac__sparse_check_extremes(rows.begin, rows.columns, rows.values, dense));
    if (dense->device.type != FAC_META) FAC_TRY(terms_of(rows.begin, rows.columns, rows.values, dense, &t));
    const fac_ints sizes = FAC_INTS(rows.begin->numel - 1, dense->sizes[1]);
    return fac__give(out, t.z ? make(&t, largest ? "amax" : "amin") : fac__sparse_zeros(sizes, dtype, dense->device));
}

fac_status spmm_extremes_explicit(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices,
                                  fac_tensor *values, fac_tensor *dense, bool largest, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    const fac_sparse_rows rows = {crow_indices, col_indices, values};
    return by_operators(extreme_terms, rows, dense, largest, fac__sparse_dtype(dense), out);
}

fac_status spmm_winners_explicit(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices,
                                 fac_tensor *values, fac_tensor *dense, bool largest, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    const fac_sparse_rows rows = {crow_indices, col_indices, values};
    return by_operators(winners_by_operators, rows, dense, largest, FAC_I64, out);
}

/* Sums are divided in float32 where they are of halves, and rounded once. */
static fac_tensor *means(fac_tensor *sparse, fac_tensor *dense) {
    const fac_dtype d = fac__sparse_dtype(dense);
    const bool half = fac__is_half(d);
    fac_tensor *begin = fac__sparse_long(fac__sparse_of(sparse)->indices);
    fac_tensor *counts = fac__s_clamp_min(fac__s_diff(begin, 1, 0, NULL, NULL), fac_scalar_i_(1));
    if (half) sparse = fac__sparse_cast(sparse, FAC_F32), dense = fac__sparse_cast(dense, FAC_F32);
    fac_tensor *y = sparse && dense ? fac__s_div_Tensor(fac__s_mm(sparse, dense), fac__s_unsqueeze(counts, 1)) : NULL;
    return half ? fac__sparse_cast(y, d) : y;
}

static fac_status check_reduced(const fac_tensor *sparse, const fac_tensor *dense, const char *reduce) {
    FAC_CHECK(fac__layout_of(sparse) == FAC_SPARSE_CSR && fac__layout_of(dense) == FAC_STRIDED, FAC_ERR_UNSUPPORTED,
              "a CSR matrix is multiplied by a strided one, but got layouts %s and %s; to_sparse_csr and to_dense make "
              "them so",
              fac__layout_name(fac__layout_of(sparse)), fac__layout_name(fac__layout_of(dense)));
    FAC_TRY(need_matrices(sparse, dense));
    FAC_TRY(need_no_dense_dims(sparse));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)dense->dtype), FAC_ERR_DTYPE,
              "terms of a floating dtype are reduced, but got %s", fac_dtype_name(fac__sparse_dtype(dense)));
    const bool known = strcmp(reduce, "sum") == 0 || strcmp(reduce, "mean") == 0 || strcmp(reduce, "amax") == 0 ||
                       strcmp(reduce, "amin") == 0;
    FAC_CHECK(known, FAC_ERR_ARGUMENT, "reduce must be one of sum, mean, amax or amin but got %s", reduce);
    return FAC_OK;
}

fac_status sparse_mm_reduce_composite(const fac_call_info *c, fac_tensor *sparse, fac_tensor *dense, const char *reduce,
                                      fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(check_reduced(sparse, dense, reduce));
    if (strcmp(reduce, "mean") == 0) return fac__give(out, means(sparse, dense));
    if (strcmp(reduce, "sum") == 0) return fac__c_mm(sparse, dense, out);
    const fac_sparse *parts = fac__sparse_of(sparse);
    fac_tensor *begin = fac__sparse_long(parts->indices), *columns = fac__sparse_long(parts->plain);
    if (!fac__wants_derivative(sparse) && !fac__wants_derivative(dense) && has_kernels(parts->values, dense))
        return fac__c__spmm_extremes(begin, columns, parts->values, dense, strcmp(reduce, "amax") == 0, out);
    terms t = {0};
    FAC_TRY(terms_of(begin, columns, fac__s_values(sparse), dense, &t));
    return fac__give(out, t.z ? extreme_terms(&t, reduce) : fac__s_mm(sparse, dense)); /* zeros */
}

fac_status sparse_addmm_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2,
                                  fac_scalar beta, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    return fac__c_addmm(self, mat1, mat2, beta, alpha, out);
}

fac_status smm_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__sparse_need_sparse(self));
    return fac__give(out, fac__s_to_sparse(fac__s_mm(self, mat2), FAC_STRIDED, (fac_ints){0}, (fac_opt_int){0}));
}

fac_status hspmm_sparse(const fac_call_info *c, fac_tensor *mat1, fac_tensor *mat2, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(mat1));
    FAC_CHECK(!fac__sparse_of(mat2), FAC_ERR_UNSUPPORTED, "mat2 must be strided; to_dense makes it so");
    fac_tensor *p, *coo = fac__sparse_as_coo(mat1);
    FAC_TRY(product(mat1, mat2, &p));
    if (!coo) return fac_error();
    fac_unique_consecutive_result rows = fac__s_unique_consecutive(
        fac__s_select_int(fac__sparse_of(coo)->indices, 0, 0), false, false, (fac_opt_int){0});
    if (!rows.output) return fac_error();
    return fac__give(out, fac__sparse_coo(fac__sparse_sizes(p), fac__s_unsqueeze(rows.output, 0),
                                          fac__s_index_select(p, 0, rows.output), true));
}

fac_status sspaddmm_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2,
                           fac_scalar beta, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__sparse_need_coo(mat1));
    FAC_TRY(need_dtype(self, mat1));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), alpha));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), beta));
    fac_tensor *p;
    FAC_TRY(product(mat1, mat2, &p));
    FAC_CHECK(fac__same_sizes(self, p), FAC_ERR_SHAPE, "self has sizes %s, but the product has %s",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(p));
    p = fac__sparse_of(p) ? p : fac__sparse_of_dense(p, 2);
    return fac__give(out, combined(self, p, beta, alpha));
}

/* ---- where another has elements ------------------------------------------------------------------------------------------------------ */

/* The rows of t [B..., n, d] that `row` numbers in batch `batch`: [z, d]. */
static fac_tensor *rows_at(fac_tensor *t, fac_tensor *batch, fac_tensor *row) {
    if (!t || !row) return NULL;
    fac_tensor *at = batch ? fac__s_add_Tensor(row, batch, fac_scalar_i_(t->sizes[t->ndim - 2])) : row;
    return fac__s_index_select(fac__s_flatten_using_ints(t, 0, -2), 0, at);
}

static fac_status check_sampled(const fac_tensor *self, const fac_tensor *a, const fac_tensor *b) {
    FAC_CHECK(fac__layout_of(self) == FAC_SPARSE_CSR && !fac__sparse_of(a) && !fac__sparse_of(b), FAC_ERR_UNSUPPORTED,
              "expected a CSR matrix and two strided ones, but got layouts %s, %s and %s; to_dense makes "
              "others strided",
              fac__layout_name(fac__layout_of(self)), fac__layout_name(fac__layout_of(a)),
              fac__layout_name(fac__layout_of(b)));
    const int n = self->ndim;
    FAC_CHECK(fac__sparse_of(self)->dense_dim == 0 && n >= 2 && a->ndim == n && b->ndim == n &&
                  a->sizes[n - 2] == self->sizes[n - 2] && b->sizes[n - 1] == self->sizes[n - 1] &&
                  a->sizes[n - 1] == b->sizes[n - 2],
              FAC_ERR_SHAPE, "sizes %s, %s and %s do not fit", FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(a),
              FAC_SHAPE_TEXT(b));
    for (int i = 0; i < n - 2; i++)
        FAC_CHECK(a->sizes[i] == self->sizes[i] && b->sizes[i] == self->sizes[i], FAC_ERR_SHAPE,
                  "batches of sizes %s, %s and %s do not fit", FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(a),
                  FAC_SHAPE_TEXT(b));
    FAC_TRY(need_dtype(self, a));
    return need_dtype(self, b);
}

/* Products of rows of a by rows of b, for each element of a CSR tensor. */
static fac_tensor *dots_of(fac_tensor *csr, fac_tensor *a, fac_tensor *b) {
    fac_tensor *coo = fac__sparse_to_coo(csr), *batch = NULL;
    if (!coo) return NULL;
    const fac_sparse *s = fac__sparse_of(coo);
    const int batch_dims = s->sparse_dim - 2;
    if (batch_dims) {
        batch = fac__s_slice_Tensor(s->indices, 0, fac_opt_int_(0), fac_opt_int_(batch_dims), 1);
        batch = fac__sparse_flat(batch, coo->sizes);
        if (!batch) return NULL;
    }
    a = rows_at(a, batch, fac__s_select_int(s->indices, 0, batch_dims));
    b = rows_at(b, batch, fac__s_select_int(s->indices, 0, batch_dims + 1));
    return fac__s_sum_dim_IntList(fac__s_mul_Tensor(a, b), FAC_INTS(1), false, FAC_DTYPE_DEFAULT);
}

fac_status sampled_addmm_sparse(const fac_call_info *c, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2,
                                fac_scalar beta, fac_scalar alpha, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    FAC_TRY(check_sampled(self, mat1, mat2));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), alpha));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), beta));
    fac_tensor *turned = fac__s_contiguous(fac__s_transpose_int(mat2, -2, -1), FAC_FORMAT_DEFAULT);
    fac_tensor *dots = self->ndim == 2 ? fac__sparse_host_dots(fac__sparse_rows_of(self), mat1, turned) : NULL;
    if (!dots) dots = fac_error() ? NULL : dots_of(self, mat1, turned);
    if (!dots) return fac_error();
    fac_tensor *values = fac__s_reshape(fac__sparse_of(self)->values, FAC_INTS(dots->numel));
    values = fac__scalar_is(beta, 0) ? fac__s_mul_Scalar(dots, alpha)
                                     : fac__s_add_Tensor(fac__s_mul_Scalar(values, beta), dots, alpha);
    values = values ? fac__s_reshape(values, fac__sparse_sizes(fac__sparse_of(self)->values)) : NULL;
    return fac__give(out, fac__sparse_with_values(self, values));
}

/* ---- the gradient of a table ------------------------------------------------------------------------------------------------------- */

fac_status embedding_sparse_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *indices,
                                               int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq,
                                               fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_CHECK(!scale_grad_by_freq, FAC_ERR_UNSUPPORTED, "scale_grad_by_freq is not supported with sparse gradients");
    FAC_CHECK(indices->dtype == FAC_I32 || indices->dtype == FAC_I64, FAC_ERR_DTYPE,
              "indices must be int32 or int64, not %s", fac_dtype_name(fac__sparse_dtype(indices)));
    FAC_CHECK(grad->ndim == indices->ndim + 1 && num_weights >= 0, FAC_ERR_SHAPE,
              "grad of sizes %s does not suit indices of sizes %s and %lld rows", FAC_SHAPE_TEXT(grad),
              FAC_SHAPE_TEXT(indices), (long long)num_weights);
    for (int i = 0; i < indices->ndim; i++)
        FAC_CHECK(grad->sizes[i] == indices->sizes[i], FAC_ERR_SHAPE,
                  "grad of sizes %s does not suit indices of sizes %s", FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(indices));
    FAC_CHECK(fac_device_equal(grad->device, indices->device), FAC_ERR_DEVICE,
              "grad and indices must be on one device");
    const int64_t d = grad->sizes[grad->ndim - 1];
    fac_tensor *at = fac__sparse_long(fac__s_reshape(indices, FAC_INTS(indices->numel)));
    fac_tensor *rows = fac__s_reshape(grad, FAC_INTS(indices->numel, d));
    if (padding_idx >= 0 && at) {
        fac_tensor *keep = fac__s_nonzero(fac__s_ne_Scalar(at, fac_scalar_i_(padding_idx)));
        keep = keep ? fac__s_reshape(keep, FAC_INTS(keep->sizes[0])) : NULL;
        at = fac__s_index_select(at, 0, keep), rows = fac__s_index_select(rows, 0, keep);
    }
    fac_tensor *index = fac__s_unsqueeze(at, 0);
    if (!index) return fac_error();
    FAC_TRY(fac__sparse_check_coo_indices(index, FAC_INTS(num_weights), false));
    return fac__give(out, fac__s__sparse_coo_tensor_unsafe(index, rows, FAC_INTS(num_weights, d), FAC_DTYPE_DEFAULT,
                                                           FAC_STRIDED, (fac_device){0}, (fac_opt_num){0},
                                                           (fac_opt_num){0}));
}
