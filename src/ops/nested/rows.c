/* What nested tensors do along their last dimensions: softmax, layer norm, sums, means, rows of a table. */
#include "ops/nested/parts.h"

/* ---- softmax --------------------------------------------------------------------------------------------------------------- */

static fac_tensor *softmax_rows(void *context, fac_tensor *rows) {
    return fac__s_softmax_int(rows, 1, *(const fac_dtype *)context);
}
static fac_tensor *log_softmax_rows(void *context, fac_tensor *rows) {
    return fac__s_log_softmax_int(rows, 1, *(const fac_dtype *)context);
}

static fac_tensor *swapped(fac_tensor *t, int a, int b) {
    return t && a != b ? fac__s_transpose_int(t, a + 1, b + 1) : t;
}

/* Along any dimension of the components: it is made the last meanwhile. */
static fac_status along(fac_tensor *self, int64_t dim, const char *what, fac_row_fn fn, fac_dtype dtype,
                        fac_tensor **out) {
    FAC_SCOPE(s);
    int d;
    FAC_TRY(fac__nested_dim(self, dim, what, &d));
    const int last = self->ndim - 2;
    fac_tensor *t = fac__nested_contiguous(swapped(self, d, last));
    if (!t) return fac_error();
    return fac__give(out, swapped(fac__nested_like(fac__nested_by_rows(t, fn, &dtype), t), d, last));
}

fac_status softmax_nested(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return along(self, dim, "softmax", softmax_rows, dtype, out);
}

fac_status log_softmax_nested(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_dtype dtype,
                              fac_tensor **out) {
    (void)c;
    return along(self, dim, "log_softmax", log_softmax_rows, dtype, out);
}

/* ---- sums and means --------------------------------------------------------------------------------------------------------- */

static fac_tensor *sum_rows(void *context, fac_tensor *rows) {
    return fac__s_sum_dim_IntList(rows, FAC_INTS(1), false, *(const fac_dtype *)context);
}
static fac_tensor *mean_rows(void *context, fac_tensor *rows) {
    return fac__s_mean_dim(rows, FAC_INTS(1), false, *(const fac_dtype *)context);
}

static fac_status over_last(fac_tensor *self, fac_ints dims, bool keepdim, const char *what, fac_row_fn fn,
                            fac_dtype dtype, fac_tensor **out) {
    FAC_SCOPE(s);
    FAC_RAGGED_HELD(shape);
    int d = -1;
    FAC_CHECK(dims.v && dims.n == 1, FAC_ERR_UNSUPPORTED,
              "%s of a nested tensor is over its last dimension alone, or over all elements (%s_all)", what, what);
    FAC_TRY(fac__nested_dim(self, dims.v[0], what, &d));
    FAC_CHECK(d == self->ndim - 2, FAC_ERR_UNSUPPORTED,
              "%s of a nested tensor of %d dimensions is over its last dimension, not over dimension %lld; transpose "
              "makes it the last",
              what, self->ndim, (long long)dims.v[0]);
    fac_tensor *t = fac__nested_contiguous(self);
    if (!t) return fac_error();
    FAC_TRY(fac__nested_shape_with(t, 1, keepdim ? FAC_INTS(1) : (fac_ints){0}, &shape));
    return fac__give(out, fac__nested_of_buffer(fac__nested_by_rows(t, fn, &dtype), shape));
}

fac_status sum_nested(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return fac__c_sum(fac__nested_of(self)->buffer, dtype, out);
}

fac_status mean_nested(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return fac__c_mean(fac__nested_of(self)->buffer, dtype, out);
}

fac_status sum_dim_nested(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype,
                          fac_tensor **out) {
    if (!dim.n && !keepdim) return sum_nested(c, self, dtype, out);
    return over_last(self, dim, keepdim, "sum", sum_rows, dtype, out);
}

fac_status mean_dim_nested(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype,
                           fac_tensor **out) {
    if (!dim.n && !keepdim) return mean_nested(c, self, dtype, out);
    return over_last(self, dim, keepdim, "mean", mean_rows, dtype, out);
}

/* ---- layer norm --------------------------------------------------------------------------------------------------------------- */

static fac_status check_normalized(const fac_tensor *input, const fac_tensor *weight, const fac_tensor *bias,
                                   fac_ints normalized) {
    FAC_TRY(fac__nested_need(input, "input"));
    FAC_CHECK(!fac__nested_of(weight) && !fac__nested_of(bias), FAC_ERR_UNSUPPORTED,
              "weight and bias are plain tensors, also where input is nested");
    bool fits = normalized.n > 0 && (int)normalized.n < input->ndim;
    for (size_t k = 0; k < normalized.n && fits; k++)
        fits = input->sizes[input->ndim - (int)normalized.n + (int)k] == normalized.v[k];
    fits |= input->sizes[0] == 0 && normalized.n > 0 && normalized.n < FAC_MAX_DIMS; /* any, without components */
    FAC_CHECK(fits, FAC_ERR_SHAPE,
              "the components of the input do not all end in normalized_shape %s; they have sizes %s",
              fac__shape_text(normalized.v, (int)normalized.n, (char[256]){0}, 256),
              fac__nested_text(input, (char[256]){0}, 256));
    return FAC_OK;
}

fac_status layer_norm_nested(const fac_call_info *c, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                             fac_tensor *bias, double eps, bool cudnn_enable, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    int64_t sizes[FAC_MAX_DIMS], each;
    FAC_TRY(check_normalized(input, weight, bias, normalized_shape));
    FAC_CHECK(fac__numel(normalized_shape.v, (int)normalized_shape.n, &each), FAC_ERR_OVERFLOW,
              "normalized_shape %s has a negative size, or more elements than 64 bits can count",
              fac__shape_text(normalized_shape.v, (int)normalized_shape.n, (char[256]){0}, 256));
    fac_tensor *t = fac__nested_contiguous(input);
    if (!t) return fac_error();
    memcpy(sizes + 1, normalized_shape.v, normalized_shape.n * sizeof *sizes);
    sizes[0] = each ? t->numel / each : 0;
    fac_tensor *rows = fac__s_view(fac__nested_of(t)->buffer, (fac_ints){sizes, normalized_shape.n + 1});
    rows = rows ? fac__s_layer_norm(rows, normalized_shape, weight, bias, eps, cudnn_enable) : NULL;
    return fac__give(out, fac__nested_like(rows ? fac__s_reshape(rows, FAC_INTS(t->numel)) : NULL, t));
}

/* ---- rows of a table ----------------------------------------------------------------------------------------------------------- */

fac_status embedding_nested(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices, int64_t padding_idx,
                            bool scale_grad_by_freq, bool sparse, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_RAGGED_HELD(shape);
    FAC_TRY(fac__nested_need(indices, "indices"));
    FAC_CHECK(!fac__nested_of(weight), FAC_ERR_UNSUPPORTED,
              "the table is a plain tensor, also where indices are nested");
    fac_tensor *t = fac__nested_contiguous(indices);
    fac_tensor *rows =
        t ? fac__s_embedding(weight, fac__nested_of(t)->buffer, padding_idx, scale_grad_by_freq, sparse) : NULL;
    if (!rows) return fac_error();
    FAC_TRY(fac__nested_shape_with(t, 0, FAC_INTS(weight->sizes[1]), &shape));
    return fac__give(out, fac__nested_of_buffer(fac__s_reshape(rows, FAC_INTS(rows->numel)), shape));
}
