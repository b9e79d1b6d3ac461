/* Helpers of sparse kernels: small tensors, coordinates as numbers, tensors over parts. */
#include "ops/sparse/parts.h"
#include "core/tensor_make.h"

/* ---- small tensors ----------------------------------------------------------------------------------------------------- */

fac_tensor *fac__sparse_zeros(fac_ints sizes, fac_dtype dtype, fac_device device) {
    return fac__s_zeros(sizes, dtype, FAC_STRIDED, device, (fac_opt_num){0});
}

fac_tensor *fac__sparse_range(int64_t n, fac_device device) {
    return fac__s_arange(fac_scalar_i_(n), FAC_I64, FAC_STRIDED, device, (fac_opt_num){0});
}

fac_tensor *fac__sparse_numbers(fac_ints v, fac_device device) {
    fac_tensor *t = fac__tensor_from(v.v, FAC_I64, FAC_INTS((int64_t)v.n));
    return t && device.type != FAC_CPU ? fac__s_to_device(t, device, FAC_I64, false, false, FAC_FORMAT_DEFAULT) : t;
}

fac_tensor *fac__sparse_cast(fac_tensor *t, fac_dtype dtype) {
    return t && t->dtype != dtype ? fac__s_to_dtype(t, dtype, false, false, FAC_FORMAT_DEFAULT) : t;
}
fac_tensor *fac__sparse_long(fac_tensor *t) { return fac__sparse_cast(t, FAC_I64); }

fac_tensor *fac__sparse_reshape(fac_tensor *t, int at, int n, fac_ints others) {
    int64_t sizes[2 * FAC_MAX_DIMS];
    size_t k = 0;
    if (!t) return NULL;
    for (int i = 0; i < at; i++) sizes[k++] = t->sizes[i];
    for (size_t i = 0; i < others.n; i++) sizes[k++] = others.v[i];
    for (int i = at + n; i < t->ndim; i++) sizes[k++] = t->sizes[i];
    return fac__s_reshape(t, (fac_ints){sizes, k});
}

/* ---- coordinates as numbers ------------------------------------------------------------------------------------------------ */

static void steps_of(const int64_t *sizes, int n, int64_t *steps) {
    int64_t step = 1;
    for (int i = n - 1; i >= 0; i--) {
        steps[i] = step;
        step = fac__mul_or_max(step, fac__max(sizes[i], 1));
    }
}

fac_tensor *fac__sparse_flat(fac_tensor *coordinates, const int64_t *sizes) {
    int64_t steps[FAC_MAX_DIMS];
    if (!coordinates) return NULL;
    const int n = (int)coordinates->sizes[0];
    if (n == 0) return fac__sparse_zeros(FAC_INTS(coordinates->sizes[1]), FAC_I64, coordinates->device);
    fac_tensor *flat = fac__sparse_long(fac__s_select_int(coordinates, 0, n - 1));
    steps_of(sizes, n, steps);
    for (int i = 0; i < n - 1; i++)
        flat = fac__s_add_Tensor(flat, fac__sparse_long(fac__s_select_int(coordinates, 0, i)), fac_scalar_i_(steps[i]));
    return flat;
}

fac_tensor *fac__sparse_unflat(fac_tensor *flat, const int64_t *sizes, int n) {
    int64_t steps[FAC_MAX_DIMS];
    fac_tensor *rows[FAC_MAX_DIMS];
    if (!flat) return NULL;
    if (n == 0) return fac__sparse_zeros(FAC_INTS(0, flat->numel), FAC_I64, flat->device);
    if (n == 1) return fac__s_unsqueeze(flat, 0);
    steps_of(sizes, n, steps);
    for (int i = 0; i < n; i++) {
        rows[i] = i == n - 1 ? flat : fac__s_div_Scalar_mode(flat, fac_scalar_i_(steps[i]), "floor");
        if (i > 0) rows[i] = fac__s_remainder_Scalar(rows[i], fac_scalar_i_(fac__max(sizes[i], 1)));
        if (!rows[i]) return NULL;
    }
    return fac__s_stack((fac_tensors){rows, (size_t)n}, 0);
}

/* ---- tensors over parts --------------------------------------------------------------------------------------------------------- */

static fac_tensor *made(fac_ints sizes, const fac_sparse *parts) {
    fac_tensor *t = NULL;
    if (!parts->indices || !parts->values || (parts->layout != FAC_SPARSE_COO && !parts->plain)) return NULL;
    return fac__sparse_make(sizes.v, (int)sizes.n, parts, &t) == FAC_OK ? fac__adopt(fac__thread(), t) : NULL;
}

fac_tensor *fac__sparse_coo(fac_ints sizes, fac_tensor *indices, fac_tensor *values, bool coalesced) {
    if (!indices || !values) return NULL;
    return made(sizes, &(fac_sparse){.layout = FAC_SPARSE_COO,
                                     .coalesced = coalesced,
                                     .sparse_dim = (uint8_t)indices->sizes[0],
                                     .dense_dim = (uint8_t)(values->ndim - 1),
                                     .indices = indices,
                                     .values = values});
}

fac_tensor *fac__sparse_compressed(fac_layout layout, fac_ints sizes, fac_tensor *compressed, fac_tensor *plain,
                                   fac_tensor *values) {
    if (!compressed || !plain || !values) return NULL;
    const int block = layout == FAC_SPARSE_BSR || layout == FAC_SPARSE_BSC ? 2 : 0;
    return made(sizes, &(fac_sparse){.layout = layout,
                                     .sparse_dim = 2,
                                     .dense_dim = (uint8_t)(values->ndim - plain->ndim - block),
                                     .indices = compressed,
                                     .plain = plain,
                                     .values = values});
}

fac_tensor *fac__sparse_with_values(fac_tensor *t, fac_tensor *values) {
    if (!t || !values) return NULL;
    fac_sparse parts = *fac__sparse_of(t);
    parts.values = values;
    return made(fac__sparse_sizes(t), &parts);
}

fac_ints fac__sparse_block(const fac_tensor *t, int64_t room[2]) {
    const fac_sparse *s = fac__sparse_of(t);
    if (!s || (s->layout != FAC_SPARSE_BSR && s->layout != FAC_SPARSE_BSC)) return (fac_ints){room, 0};
    room[0] = s->values->sizes[s->plain->ndim];
    room[1] = s->values->sizes[s->plain->ndim + 1];
    return (fac_ints){room, 2};
}

fac_status fac__sparse_need_coo(const fac_tensor *t) {
    FAC_CHECK(fac__is_coo(t), FAC_ERR_UNSUPPORTED,
              "expected a tensor of the layout sparse_coo, but got %s; to_sparse() makes one",
              fac__layout_name(fac__layout_of(t)));
    return FAC_OK;
}

fac_status fac__sparse_need_sparse(const fac_tensor *t) {
    FAC_CHECK(fac__sparse_of(t), FAC_ERR_UNSUPPORTED,
              "expected a sparse tensor, but got a %s one; to_sparse() makes one", fac__layout_name(fac__layout_of(t)));
    return FAC_OK;
}

/* ---- coalescing ---------------------------------------------------------------------------------------------------------------- */

/* Sums of equal neighbours: `group` says which of n sums each value belongs to. Truth values are joined by `or`. */
static fac_tensor *sums_of(fac_tensor *values, fac_tensor *group, int64_t n) {
    if (!values || !group) return NULL;
    const bool truth = values->dtype == FAC_BOOL;
    fac_tensor *v = truth ? fac__s_to_dtype(values, FAC_I64, false, false, FAC_FORMAT_DEFAULT) : values;
    int64_t sizes[FAC_MAX_DIMS + 1] = {n};
    if (!v) return NULL;
    for (int i = 1; i < v->ndim; i++) sizes[i] = v->sizes[i];
    fac_tensor *zeros = fac__sparse_zeros((fac_ints){sizes, v->ndim}, fac__sparse_dtype(v), v->device);
    fac_tensor *sum = zeros ? fac__s_index_add_(zeros, 0, group, v, fac_scalar_i_(1)) : NULL;
    return truth ? fac__s_ne_Scalar(sum, fac_scalar_i_(0)) : sum;
}

fac_tensor *fac__sparse_coalesced(fac_tensor *t) {
    if (!t) return NULL;
    const fac_sparse *s = fac__sparse_of(t);
    if (s->coalesced) return t;
    if (s->indices->sizes[1] < 2) return fac__sparse_coo(fac__sparse_sizes(t), s->indices, s->values, true);
    fac_sparse_order o = fac__sparse_order_of(fac__sparse_flat(s->indices, t->sizes));
    fac_tensor *values = o.order ? fac__s_index_select(s->values, 0, o.order) : NULL;
    if (!values) return NULL;
    if (o.n != o.order->numel) values = sums_of(values, o.group, o.n);
    return fac__sparse_coo(fac__sparse_sizes(t), fac__s_index_select(s->indices, 1, o.first), values, true);
}
