/* Reductions in terms of others, and softmax with a cast. */
#include "ops/call.h"
#include "ops_gen.h"

static const fac_ints all_dims = {0};
/* unbiased=True divides by N - 1. */
static fac_opt_int correction_of(bool unbiased) { return fac_opt_int_(unbiased ? 1 : 0); }

fac_status max_other(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_maximum(self, other, out);
}

fac_status min_other(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_tensor **out) {
    (void)c;
    return fac__c_minimum(self, other, out);
}

fac_status count_nonzero_composite(const fac_call_info *c, fac_tensor *self, fac_opt_int dim, fac_tensor **out) {
    (void)c;
    return fac__c_count_nonzero_dim_IntList(self, (fac_ints){dim.set ? &dim.v : NULL, dim.set ? 1 : 0}, out);
}

fac_status var_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_var_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status var_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim, fac_tensor **out) {
    (void)c;
    return fac__c_var_correction(self, dim, correction_of(unbiased), keepdim, out);
}

fac_status std_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_std_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status std_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim, fac_tensor **out) {
    (void)c;
    return fac__c_std_correction(self, dim, correction_of(unbiased), keepdim, out);
}

fac_status var_mean_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_var_mean_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status var_mean_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim, fac_tensor **out) {
    (void)c;
    return fac__c_var_mean_correction(self, dim, correction_of(unbiased), keepdim, out);
}

fac_status std_mean_all(const fac_call_info *c, fac_tensor *self, bool unbiased, fac_tensor **out) {
    (void)c;
    return fac__c_std_mean_correction(self, all_dims, correction_of(unbiased), false, out);
}

fac_status std_mean_dim(const fac_call_info *c, fac_tensor *self, fac_ints dim, bool unbiased, bool keepdim, fac_tensor **out) {
    (void)c;
    return fac__c_std_mean_correction(self, dim, correction_of(unbiased), keepdim, out);
}

/* ---- norms --------------------------------------------------------------------------------------------------------- */

static fac_scalar order_of(fac_opt_num p) { return p.set ? p.v : fac_scalar_i_(2); }

fac_status norm_scalar(const fac_call_info *c, fac_tensor *self, fac_scalar p, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, p, all_dims, false, FAC_DTYPE_DEFAULT, out);
}

fac_status norm_dim(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_ints dim, bool keepdim, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, order_of(p), dim, keepdim, FAC_DTYPE_DEFAULT, out);
}

fac_status norm_dtype(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_dtype dtype, fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, order_of(p), all_dims, false, dtype, out);
}

fac_status norm_dim_dtype(const fac_call_info *c, fac_tensor *self, fac_opt_num p, fac_ints dim, bool keepdim, fac_dtype dtype,
                          fac_tensor **out) {
    (void)c;
    return fac__c_linalg_vector_norm(self, order_of(p), dim, keepdim, dtype, out);
}

/* ---- softmax --------------------------------------------------------------------------------------------------------- */

typedef fac_status (*softmax_fn)(fac_tensor *self, int64_t dim, bool half_to_float, fac_tensor **out);

/* A 16-bit input widens inside the kernel; every other cast is made first. */
static fac_status softmax_as(softmax_fn fn, fac_tensor *self, int64_t dim, fac_dtype dtype, fac_tensor **out) {
    bool half = self->dtype == FAC_F16 || self->dtype == FAC_BF16;
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
