/* Questions about tensors: sizes, kinds, equality within a tolerance, the value of a single element. */
#include "ops_gen.h"

fac_status numel_composite(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    *out = self->numel;
    return FAC_OK;
}

fac_status dim_composite(const fac_call_info *c, fac_tensor *self, int64_t *out) {
    (void)c;
    *out = self->ndim;
    return FAC_OK;
}

/* Entry `dim` of sizes or strides; a tensor without dimensions has none. */
static fac_status entry(const fac_tensor *self, const int64_t *list, int64_t dim, int64_t *out) {
    int64_t d;
    FAC_CHECK(self->ndim > 0, FAC_ERR_INDEX, "dimension specified as %lld but tensor has no dimensions",
              (long long)dim);
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    *out = list[d];
    return FAC_OK;
}

fac_status size_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t *out) {
    (void)c;
    return entry(self, self->sizes, dim, out);
}

fac_status stride_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t *out) {
    (void)c;
    return entry(self, self->strides, dim, out);
}

fac_status is_same_size_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    (void)c;
    *out = fac__same_sizes(self, other);
    return FAC_OK;
}

fac_status is_complex_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    *out = fac_dtype_is_complex((fac_dtype)self->dtype);
    return FAC_OK;
}

fac_status is_conj_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    *out = (self->flags & FAC_TF_CONJ) != 0;
    return FAC_OK;
}

fac_status is_neg_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    *out = (self->flags & FAC_TF_NEG) != 0;
    return FAC_OK;
}

fac_status is_floating_point_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    *out = fac_dtype_is_floating((fac_dtype)self->dtype) || fac_dtype_is_float8((fac_dtype)self->dtype);
    return FAC_OK;
}

/* ---- one element -------------------------------------------------------------------------------------------------------- */

fac_status item_composite(const fac_call_info *c, fac_tensor *self, fac_scalar *out) {
    (void)c;
    return fac__c__local_scalar_dense(self, out);
}

fac_status is_nonzero_composite(const fac_call_info *c, fac_tensor *self, bool *out) {
    (void)c;
    FAC_CHECK(self->numel != 0, FAC_ERR_ARGUMENT, "Boolean value of Tensor with no values is ambiguous");
    FAC_CHECK(self->numel == 1, FAC_ERR_ARGUMENT,
              "Boolean value of Tensor with more than one value is ambiguous; it has %lld", (long long)self->numel);
    fac_scalar v;
    double re_im[2];
    FAC_TRY(fac__c__local_scalar_dense(self, &v));
    fac__scalar_c128(v, re_im);
    *out = re_im[0] != 0 || re_im[1] != 0;
    return FAC_OK;
}

/* ---- closeness -------------------------------------------------------------------------------------------------------------- */

static fac_tensor *either(fac_tensor *a, fac_tensor *b) { return fac__s_logical_or(a, b); }

/* |self - other| <= atol + rtol * |other|, where the difference is finite. */
static fac_tensor *within(fac_tensor *self, fac_tensor *other, double rtol, double atol) {
    bool whole = fac_dtype_is_integral((fac_dtype)other->dtype, true);
    fac_tensor *o = whole ? fac__s_to_dtype(other, fac_default_dtype(), false, false, FAC_FORMAT_DEFAULT) : other;
    if (self->dtype == FAC_BOOL) self = fac__s_to_dtype(self, fac_default_dtype(), false, false, FAC_FORMAT_DEFAULT);
    fac_tensor *allowed =
        fac__s_add_Scalar(fac__s_abs(fac__s_mul_Scalar(o, fac_scalar_f_(rtol))), fac_scalar_f_(atol), fac_scalar_i_(1));
    fac_tensor *actual = fac__s_abs(fac__s_sub_Tensor(self, o, fac_scalar_i_(1)));
    return fac__s_logical_and(fac__s_isfinite(actual), fac__s_le_Tensor(actual, allowed));
}

static fac_status check_tolerances(const fac_tensor *self, const fac_tensor *other, double rtol, double atol) {
    FAC_CHECK(self->dtype == other->dtype, FAC_ERR_DTYPE, "%s did not match %s", fac_dtype_name((fac_dtype)self->dtype),
              fac_dtype_name((fac_dtype)other->dtype));
    FAC_CHECK(rtol >= 0, FAC_ERR_ARGUMENT, "rtol must be greater than or equal to zero, but got %g", rtol);
    FAC_CHECK(atol >= 0, FAC_ERR_ARGUMENT, "atol must be greater than or equal to zero, but got %g", atol);
    return FAC_OK;
}

fac_status isclose_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, double rtol, double atol,
                             bool equal_nan, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_tolerances(self, other, rtol, atol));
    FAC_SCOPE(s);
    bool has_nan = fac_dtype_is_floating((fac_dtype)self->dtype) || fac_dtype_is_complex((fac_dtype)self->dtype);
    fac_tensor *close = fac__s_eq_Tensor(self, other);
    if (equal_nan && has_nan) close = either(close, fac__s_logical_and(fac__s_isnan(self), fac__s_isnan(other)));
    if (rtol > 0 || atol > 0) close = either(close, within(self, other, rtol, atol));
    return fac__give(out, close);
}

fac_status allclose_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, double rtol, double atol,
                              bool equal_nan, bool *out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *all = fac__s_all(fac__s_isclose(self, other, rtol, atol, equal_nan));
    if (!all) return fac_error();
    return fac__c_is_nonzero(all, out);
}
