/* Reductions in terms of others, and softmax with a cast. */
#include "ops/call.h"
#include "ops_gen.h"

static const fac_ints all_dims = {0};
/* unbiased=True divides by N - 1. */
static fac_opt_num correction_of(bool unbiased) { return fac_opt_num_(fac_scalar_i_(unbiased)); }

fac_status count_nonzero_composite(const fac_call_info *c, fac_tensor *self, fac_opt_int dim, fac_tensor **out) {
    (void)c;
    return fac__c_count_nonzero_dim_IntList(self, (fac_ints){dim.set ? &dim.v : NULL, dim.set ? 1 : 0}, out);
}

fac_status nanmean_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype,
                             fac_tensor **out) {
    (void)c;
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "expected input to have floating point dtype but got %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_SCOPE(scope);
    fac_tensor *count = fac__s_sum_dim_IntList(fac__s_logical_not(fac__s_isnan(self)), dim, keepdim, FAC_DTYPE_DEFAULT);
    return fac__give(out, fac__s_div_Tensor(fac__s_nansum(self, dim, keepdim, dtype), count));
}

/* The dimensions that broadcasting `size` to self would have stretched, or added in front. */
static fac_status stretched(const fac_tensor *self, fac_ints size, int64_t *dims, size_t *n) {
    size_t lead = (size_t)self->ndim - size.n;
    bool fits = size.n <= (size_t)self->ndim;
    *n = 0;
    for (size_t d = 0; fits && d < (size_t)self->ndim; d++) {
        int64_t want = d < lead ? 1 : size.v[d - lead];
        fits = want == self->sizes[d] || want == 1;
        if (d < lead || want != self->sizes[d]) dims[(*n)++] = (int64_t)d;
    }
    FAC_CHECK(fits, FAC_ERR_SHAPE, "size {%s} is not expandable to size {%s}.",
              fac__shape_text(size.v, (int)size.n, (char[256]){0}, 256), FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

fac_status sum_to_size_composite(const fac_call_info *c, fac_tensor *self, fac_ints size, fac_tensor **out) {
    (void)c;
    int64_t dims[FAC_MAX_DIMS];
    size_t n;
    FAC_TRY(stretched(self, size, dims, &n));
    if (size.n == 0) return fac__c_sum(self, FAC_DTYPE_DEFAULT, out);
    FAC_SCOPE(scope);
    fac_tensor *sum = n ? fac__s_sum_dim_IntList(self, (fac_ints){dims, n}, true, FAC_DTYPE_DEFAULT) : self;
    return fac__give(out, fac__s_view(sum, size));
}

fac_status var_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_var_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status var_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim,
                   fac_tensor **out) {
    (void)c;
    return fac__c_var_correction(self, dim, correction_of(unbiased), keepdim, out);
}

fac_status std_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_std_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status std_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim,
                   fac_tensor **out) {
    (void)c;
    return fac__c_std_correction(self, dim, correction_of(unbiased), keepdim, out);
}

fac_status var_mean_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_var_mean_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status var_mean_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim,
                        fac_tensor **out) {
    (void)c;
    return fac__c_var_mean_correction(self, dim, correction_of(unbiased), keepdim, out);
}

fac_status std_mean_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_std_mean_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status std_mean_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim,
                        fac_tensor **out) {
    (void)c;
    return fac__c_std_mean_correction(self, dim, correction_of(unbiased), keepdim, out);
}

/* ---- norms --------------------------------------------------------------------------------------------------------- */

static fac_scalar order_of(fac_opt_num p) { return p.set ? p.v : fac_scalar_i_(2); }

fac_status norm_scalar(const fac_call_info *c, fac_tensor *self, fac_scalar p, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, p, all_dims, false, FAC_DTYPE_DEFAULT, out);
}

fac_status norm_dim(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_ints dim, bool keepdim,
                    fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, order_of(p), dim, keepdim, FAC_DTYPE_DEFAULT, out);
}

fac_status norm_dtype(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, order_of(p), all_dims, false, dtype, out);
}

fac_status norm_dim_dtype(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_ints dim, bool keepdim,
                          fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, order_of(p), dim, keepdim, dtype, out);
}

/* ---- softmax --------------------------------------------------------------------------------------------------------- */

typedef fac_status (*softmax_fn)(fac_tensor *self, int64_t dim, bool half_to_float, fac_tensor **out);

/* A 16-bit input widens inside the kernel; every other cast is made first. */
static fac_status softmax_as(softmax_fn fn, fac_tensor *self, int64_t dim, fac_dtype dtype, fac_tensor **out) {
    bool half = fac__is_half((fac_dtype)self->dtype);
    if (!dtype || dtype == (fac_dtype)self->dtype) return fn(self, dim, false, out);
    if (half && dtype == FAC_F32) return fn(self, dim, true, out);
    fac_tensor *cast;
    FAC_TRY(fac__c_to_dtype(self, dtype, false, false, FAC_FORMAT_DEFAULT, &cast));
    fac_status st = fn(cast, dim, false, out);
    fac__unref(cast);
    return st;
}

fac_status softmax_int(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return softmax_as(fac__c__softmax, self, dim, dtype, out);
}

fac_status log_softmax_int(const fac_call_info *c, fac_tensor *self, int64_t dim, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return softmax_as(fac__c__log_softmax, self, dim, dtype, out);
}
