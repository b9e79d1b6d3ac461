/* Sums, norms and softmax over sparse tensors: what is not stored counts as zero in sums, and not at all in softmax. */
#include "ops/sparse/host.h"

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

fac_status sum_sparse(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    return fac__give(out, fac__s_sum(fac__sparse_of(self)->values, dtype));
}

/* The kept rows of coordinates; NULL with none left. */
static fac_tensor *kept_rows(const fac_sparse *s, uint64_t summed, size_t *out_n) {
    int64_t kept[FAC_MAX_DIMS];
    size_t n = 0;
    for (int i = 0; i < s->sparse_dim; i++)
        if (!(summed >> i & 1)) kept[n++] = i;
    *out_n = n;
    return n ? fac__s_index_select(s->indices, 0, fac__sparse_numbers((fac_ints){kept, n}, s->indices->device)) : NULL;
}

/* Sums over the dimensions in a mask. Sparse, unless all dimensions with indices are summed. */
static fac_tensor *sum_over(fac_tensor *t, uint64_t summed) {
    const fac_sparse *s = fac__sparse_of(t);
    int64_t dims[FAC_MAX_DIMS], sizes[FAC_MAX_DIMS];
    size_t n = 0, rest = 0, sparse;
    for (int i = 0; i < s->dense_dim; i++)
        if (summed >> (s->sparse_dim + i) & 1) dims[n++] = 1 + i;
    fac_tensor *values =
        n ? fac__s_sum_dim_IntList(s->values, (fac_ints){dims, n}, false, FAC_DTYPE_DEFAULT) : s->values;
    fac_tensor *indices = kept_rows(s, summed, &sparse);
    if (!sparse) return values ? fac__s_sum_dim_IntList(values, FAC_INTS(0), false, FAC_DTYPE_DEFAULT) : NULL;
    for (int i = 0; i < t->ndim; i++)
        if (!(summed >> i & 1)) sizes[rest++] = t->sizes[i];
    const bool same = sparse == s->sparse_dim;
    return fac__sparse_coalesced(fac__sparse_coo((fac_ints){sizes, rest}, indices, values, same && s->coalesced));
}

fac_status sum_dims_sparse(const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    uint64_t mask;
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    fac_tensor *t = fac__sparse_to_coo(self);
    return fac__give(out, t ? sum_over(t, mask) : NULL);
}

fac_status sum_dim_sparse(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype,
                          fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    uint64_t mask;
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    if (dtype == FAC_DTYPE_DEFAULT && fac__sparse_is_integral(self)) dtype = FAC_I64;
    fac_tensor *t = fac__sparse_to_coo(self);
    if (t && dtype) t = fac__sparse_with_values(t, fac__sparse_cast(fac__sparse_of(t)->values, dtype));
    fac_tensor *sum = t ? sum_over(t, mask) : NULL;
    for (int i = 0; keepdim && sum && i < self->ndim; i++)
        if (mask >> i & 1) sum = fac__s_unsqueeze(sum, i);
    return fac__give(out, sum);
}

fac_status sparse_sum_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__sparse_need_sparse(self));
    return fac__c_sum(self, FAC_DTYPE_DEFAULT, out);
}

fac_status sparse_sum_dtype_composite(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__sparse_need_sparse(self));
    return fac__c_sum(self, dtype, out);
}

fac_status sparse_sum_dim_dtype_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_dtype dtype,
                                          fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__sparse_need_sparse(self));
    return fac__give(out, fac__s__sparse_sum_dim(fac__sparse_cast(self, dtype), dim));
}

/* The gradient's values at the elements of self, before dense dimensions are put back. */
static fac_tensor *gradient_at(fac_tensor *grad, fac_tensor *self, uint64_t summed) {
    const fac_sparse *s = fac__sparse_of(self);
    size_t n;
    fac_tensor *rows = kept_rows(s, summed, &n);
    if (!n) {
        int64_t sizes[FAC_MAX_DIMS + 1] = {s->indices->sizes[1]};
        fac_tensor *dense = fac__sparse_dense(grad);
        for (int i = 0; dense && i < dense->ndim; i++) sizes[i + 1] = dense->sizes[i];
        return dense ? fac__s_expand(dense, (fac_ints){sizes, (size_t)dense->ndim + 1}, false) : NULL;
    }
    fac_tensor *places = fac__sparse_flat(rows, grad->sizes);
    fac_tensor *dense = fac__sparse_dense(grad);
    int64_t cells = 1;
    for (size_t i = 0; i < n; i++) cells *= grad->sizes[i];
    return fac__s_index_select(fac__sparse_reshape(dense, 0, (int)n, FAC_INTS(cells)), 0, places);
}

fac_status sum_backward_sparse(const fac_call_info *c, fac_tensor *grad, fac_tensor *self, fac_ints dim,
                               fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    uint64_t mask;
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    FAC_CHECK(fac_device_equal(grad->device, self->device), FAC_ERR_DEVICE, "grad and self must be on one device");
    int rest = 0;
    for (int i = 0; i < self->ndim; i++) {
        if (mask >> i & 1) continue;
        FAC_CHECK(rest < grad->ndim && grad->sizes[rest] == self->sizes[i], FAC_ERR_SHAPE,
                  "grad of sizes %s is no gradient of a sum of sizes %s", FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(self));
        rest++;
    }
    FAC_CHECK(rest == grad->ndim, FAC_ERR_SHAPE, "grad of sizes %s is no gradient of a sum of sizes %s",
              FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(self));
    fac_tensor *t = fac__sparse_coalesced(self),
               *values = t ? gradient_at(fac__sparse_cast(grad, fac__sparse_dtype(self)), t, mask) : NULL;
    if (!values) return fac_error();
    const fac_sparse *s = fac__sparse_of(t);
    for (int i = 0; i < s->dense_dim; i++)
        if (mask >> (s->sparse_dim + i) & 1) values = fac__s_unsqueeze(values, 1 + i);
    values = fac__s_contiguous(fac__s_expand(values, fac__sparse_sizes(s->values), false), FAC_FORMAT_DEFAULT);
    return fac__give(out, fac__sparse_with_values(t, values));
}

/* ---- groups ------------------------------------------------------------------------------------------------------------------- */

/* Elements by all their coordinates but that of `dim`: the number of its group for each, and how many groups there are, of which
   some may be empty. */
static fac_tensor *groups_of(fac_tensor *coo, int dim, int64_t *out_n) {
    size_t n;
    fac_tensor *rows = kept_rows(fac__sparse_of(coo), (uint64_t)1 << dim, &n);
    int64_t sizes[FAC_MAX_DIMS];
    for (int i = 0, k = 0; i < fac__sparse_of(coo)->sparse_dim; i++)
        if (i != dim) sizes[k++] = coo->sizes[i];
    const int64_t z = fac__sparse_of(coo)->indices->sizes[1];
    fac_tensor *flat = n ? fac__sparse_flat(rows, sizes) : fac__sparse_zeros(FAC_INTS(z), FAC_I64, coo->device);
    if (!flat) return NULL;
    const bool few = fac__numel(sizes, fac__sparse_of(coo)->sparse_dim - 1, out_n) && fac__sparse_countable(*out_n, z);
    if (few && coo->device.type != FAC_META) return flat; /* there the question is whether groups depend on elements */
    fac_sparse_order o = fac__sparse_order_of(flat);
    if (!o.order) return NULL;
    *out_n = o.n;
    fac_tensor *place = fac__sparse_zeros(FAC_INTS(z), FAC_I64, coo->device);
    return place ? fac__s_index_copy_(place, 0, o.order, o.group) : NULL;
}

static fac_tensor *reduce_groups(fac_tensor *values, fac_tensor *group, int64_t n, const char *how, double start) {
    int64_t sizes[FAC_MAX_DIMS + 1] = {n};
    if (!values || !group) return NULL;
    for (int i = 1; i < values->ndim; i++) sizes[i] = values->sizes[i];
    fac_tensor *at = fac__s_full((fac_ints){sizes, values->ndim}, fac_scalar_f_(start), fac__sparse_dtype(values),
                                 FAC_STRIDED, values->device, (fac_opt_num){0});
    if (!at) return NULL;
    if (strcmp(how, "sum") == 0) return fac__s_index_add_(at, 0, group, values, fac_scalar_i_(1));
    return fac__s_index_reduce_(at, 0, group, values, how, true);
}

static fac_tensor *at_groups(fac_tensor *t, fac_tensor *group) { return fac__s_index_select(t, 0, group); }

/* ---- softmax -------------------------------------------------------------------------------------------------------------------- */

static fac_status softmax(fac_tensor *self, int64_t dim, bool half_to_float, bool log, fac_tensor **out) {
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_CHECK(!half_to_float, FAC_ERR_UNSUPPORTED,
              "softmax with half to float conversion is not supported on sparse tensors");
    FAC_CHECK(!fac__sparse_is_integral(self), FAC_ERR_DTYPE, "softmax needs floating values, not %s",
              fac_dtype_name(fac__sparse_dtype(self)));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &dim));
    fac_tensor *t = fac__sparse_coalesced(self);
    if (!t) return fac_error();
    const fac_sparse *s = fac__sparse_of(t);
    if (dim >= s->sparse_dim) {
        const int64_t d = dim - s->sparse_dim + 1;
        return fac__give(out, fac__sparse_with_values(t, log ? fac__s__log_softmax(s->values, d, false)
                                                             : fac__s__softmax(s->values, d, false)));
    }
    int64_t n;
    fac_tensor *group = groups_of(t, (int)dim, &n);
    fac_tensor *most = reduce_groups(s->values, group, n, "amax", -INFINITY);
    fac_tensor *x = most ? fac__s_sub_Tensor(s->values, at_groups(most, group), fac_scalar_i_(1)) : NULL;
    fac_tensor *e = x ? fac__s_exp(x) : NULL, *sums = reduce_groups(e, group, n, "sum", 0);
    if (!sums) return fac_error();
    fac_tensor *values = log ? fac__s_sub_Tensor(x, at_groups(fac__s_log(sums), group), fac_scalar_i_(1))
                             : fac__s_div_Tensor(e, at_groups(sums, group));
    return fac__give(out, fac__sparse_with_values(t, values));
}

/* softmax: y * (g - sum(g * y)); its logarithm: g - exp(y) * sum(g). */
static fac_status softmax_backward(fac_tensor *grad, fac_tensor *output, int64_t dim, fac_tensor *self, bool log,
                                   fac_tensor **out) {
    FAC_TRY(fac__sparse_need_coo(output));
    FAC_TRY(fac__sparse_need_coo(self));
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &dim));
    FAC_CHECK(fac__same_sizes(grad, output) && fac__same_sizes(output, self), FAC_ERR_SHAPE,
              "sizes %s, %s and %s should be equal", FAC_SHAPE_TEXT(grad), FAC_SHAPE_TEXT(output),
              FAC_SHAPE_TEXT(self));
    FAC_CHECK(grad->dtype == output->dtype && output->dtype == self->dtype && !fac__sparse_is_integral(self),
              FAC_ERR_DTYPE, "expected one floating dtype");
    FAC_CHECK(fac_device_equal(grad->device, output->device) && fac_device_equal(self->device, output->device),
              FAC_ERR_DEVICE, "operands are on different devices");
    fac_tensor *t = fac__sparse_coalesced(output), *at = t ? fac__s_sparse_mask(grad, t) : NULL;
    if (!at) return fac_error();
    const fac_sparse *s = fac__sparse_of(t);
    fac_tensor *y = s->values, *g = fac__sparse_of(at)->values, *p = log ? g : fac__s_mul_Tensor(g, y), *sums;
    if (dim >= s->sparse_dim) {
        sums = fac__s_sum_dim_IntList(p, FAC_INTS(dim - s->sparse_dim + 1), true, FAC_DTYPE_DEFAULT);
    } else {
        int64_t n;
        fac_tensor *group = groups_of(t, (int)dim, &n);
        sums = reduce_groups(p, group, n, "sum", 0);
        sums = sums ? at_groups(sums, group) : NULL;
    }
    if (!sums) return fac_error();
    fac_tensor *values = log ? fac__s_sub_Tensor(g, fac__s_mul_Tensor(fac__s_exp(y), sums), fac_scalar_i_(1))
                             : fac__s_mul_Tensor(y, fac__s_sub_Tensor(g, sums, fac_scalar_i_(1)));
    return fac__give(out, fac__sparse_with_values(t, values));
}

#define SOFTMAX(name, log)                                                                                           \
    fac_status name##_sparse(const fac_call_info *c, fac_tensor *self, int64_t dim, bool half_to_float,              \
                             fac_tensor **out) {                                                                     \
        (void)c;                                                                                                     \
        FAC_SPARSE_KERNEL;                                                                                           \
        return softmax(self, dim, half_to_float, log, out);                                                          \
    }                                                                                                                \
    fac_status name##_backward_sparse(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *output,           \
                                      int64_t dim, fac_tensor *self, fac_tensor **out) {                             \
        (void)c;                                                                                                     \
        FAC_SPARSE_KERNEL;                                                                                           \
        return softmax_backward(grad_output, output, dim, self, log, out);                                           \
    }                                                                                                                \
    fac_status sparse_##name##_int_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_dtype dtype, \
                                             fac_tensor **out) {                                                     \
        (void)c;                                                                                                     \
        FAC_SCOPE(s);                                                                                                \
        FAC_TRY(fac__sparse_need_coo(self));                                                                         \
        return fac__give(out, fac__s__sparse_##name(dtype ? fac__sparse_cast(self, dtype) : self, dim, false));      \
    }
SOFTMAX(softmax, false)
SOFTMAX(log_softmax, true)

/* ---- norms and others -------------------------------------------------------------------------------------------------------------- */

fac_status vector_norm_sparse(const fac_call_info *c, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                              fac_dtype dtype, fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    uint64_t mask = 0;
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    const uint64_t all = self->ndim ? ~(uint64_t)0 >> (64 - self->ndim) : 0;
    FAC_CHECK(mask == all && fac__scalar_f64(ord) > 0, FAC_ERR_UNSUPPORTED,
              "the norm of a sparse tensor is over all dimensions and of a positive order; to_dense makes it strided");
    fac_tensor *t = fac__is_coo(self) ? fac__sparse_coalesced(self) : self;
    if (!t) return fac_error();
    fac_tensor *values = fac__sparse_of(t)->values;
    values = fac__s_reshape(values, FAC_INTS(values->numel));
    if (values && values->numel == 0)
        values = fac__sparse_zeros(FAC_INTS(1), fac__sparse_dtype(values), values->device);
    fac_tensor *norm = fac__s_linalg_vector_norm(values, ord, (fac_ints){0}, false, dtype);
    int64_t ones[FAC_MAX_DIMS];
    for (int i = 0; i < self->ndim; i++) ones[i] = 1;
    return fac__give(out, keepdim && norm ? fac__s_reshape(norm, (fac_ints){ones, self->ndim}) : norm);
}

/* Of numbers of all lines, those of the lines that have elements, and which these are. */
static fac_tensor *lines_with(fac_tensor *present, fac_tensor *v, fac_tensor **at) {
    *at = fac__s_nonzero(present);
    *at = *at ? fac__s_reshape(*at, FAC_INTS((*at)->sizes[0])) : NULL;
    return fac__s_index_select(v, 0, *at);
}

static fac_tensor *rows_reduced(fac_tensor *csr, fac_tensor *v, bool sum, const char *how, fac_tensor **at) {
    fac_tensor *begin = fac__sparse_long(fac__sparse_of(csr)->indices), *rows = NULL;
    fac_tensor *all = fac__sparse_host_reduce(begin, v, sum);
    if (!all) {
        fac_tensor *coo = fac_error() ? NULL : fac__sparse_to_coo(csr);
        rows = coo ? fac__s_select_int(fac__sparse_of(coo)->indices, 0, 0) : NULL;
        all = reduce_groups(v, rows, csr->sizes[0], how, sum ? 0 : 1);
    }
    return lines_with(fac__s_gt_Scalar(fac__s_diff(begin, 1, 0, NULL, NULL), fac_scalar_i_(0)), all, at);
}

/* Columns without elements have no room where there are many more columns than elements. */
static fac_tensor *columns_reduced(const fac_sparse *s, fac_tensor *v, int64_t n, bool sum, const char *how,
                                   fac_tensor **at) {
    fac_tensor *columns = fac__sparse_long(s->plain);
    if (!columns) return NULL;
    if (!fac__sparse_countable(n, v->numel)) {
        fac_sparse_order o = fac__sparse_order_of(columns);
        *at = o.first ? fac__s_index_select(columns, 0, o.first) : NULL;
        return *at ? reduce_groups(fac__s_index_select(v, 0, o.order), o.group, o.n, how, sum ? 0 : 1) : NULL;
    }
    fac_tensor *present = fac__sparse_zeros(FAC_INTS(n), FAC_BOOL, v->device);
    present = present ? fac__s_index_fill__int_Scalar(present, 0, columns, fac_scalar_b_(true)) : NULL;
    return lines_with(present, reduce_groups(v, columns, n, how, sum ? 0 : 1), at);
}

/* A reduction of a CSR matrix's elements over dimensions that are kept as ones. */
static fac_status csr_reduce(fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype, const char *how,
                             fac_tensor **out) {
    uint64_t mask;
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    FAC_CHECK(fac__layout_of(self) == FAC_SPARSE_CSR && self->ndim == 2, FAC_ERR_UNSUPPORTED,
              "reductions by dimension expect a CSR matrix, not a %s tensor of sizes %s",
              fac__layout_name(fac__layout_of(self)), FAC_SHAPE_TEXT(self));
    FAC_CHECK(keepdim, FAC_ERR_ARGUMENT, "reduction operations on CSR tensors with keepdim=False is unsupported");
    if (dtype == FAC_DTYPE_DEFAULT) dtype = fac__sparse_is_integral(self) ? FAC_I64 : fac__sparse_dtype(self);
    const int64_t sizes[] = {mask & 1 ? 1 : self->sizes[0], mask & 2 ? 1 : self->sizes[1]};
    const fac_sparse *s = fac__sparse_of(self);
    fac_tensor *v = fac__sparse_cast(s->values, dtype), *at = NULL;
    if (!v) return fac_error();
    const bool sum = strcmp(how, "sum") == 0;
    if (mask == 3) {
        at = fac__sparse_range(v->numel > 0, self->device);
        v = sum ? fac__s_sum(v, dtype) : fac__s_prod(v, dtype);
        v = fac__s_expand(fac__s_reshape(v, FAC_INTS(1)), FAC_INTS(at ? at->numel : 0), false);
    } else {
        v = mask == 1 ? columns_reduced(s, v, sizes[1], sum, how, &at) : rows_reduced(self, v, sum, how, &at);
    }
    fac_tensor *coo = v ? fac__sparse_coo((fac_ints){sizes, 2}, fac__sparse_unflat(at, sizes, 2), v, true) : NULL;
    return fac__give(out, fac__sparse_from_coo(coo, FAC_SPARSE_CSR, (fac_ints){0}));
}

fac_status csr_sum_sparse(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype,
                          fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    return csr_reduce(self, dim, keepdim, dtype, "sum", out);
}

fac_status csr_prod_sparse(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype,
                           fac_tensor **out) {
    (void)c;
    FAC_SPARSE_KERNEL;
    return csr_reduce(self, dim, keepdim, dtype, "prod", out);
}
