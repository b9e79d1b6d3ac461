/* Sorting operators composed of others. */
#include "ops/composite/below.h"
#include "ops_gen.h"

/* One of two owned results; the other is dropped. */
static fac_status keep_one(fac_status st, fac_tensor *both[2], int which, fac_tensor **out) {
    if (st != FAC_OK) return st;
    fac__unref(both[1 - which]);
    *out = both[which];
    return FAC_OK;
}

fac_status argsort_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, bool descending, fac_tensor **out) {
    (void)c;
    fac_tensor *both[2] = {NULL, NULL};
    return keep_one(fac__c_sort(self, dim, descending, both), both, 1, out);
}

fac_status argsort_stable_composite(const fac_call_info *c, fac_tensor *self, bool stable, int64_t dim, bool descending,
                                    fac_tensor **out) {
    (void)c;
    fac_tensor *both[2] = {NULL, NULL};
    return keep_one(fac__c_sort_stable(self, fac_opt_num_(fac_scalar_b_(stable)), dim, descending, both), both, 1, out);
}

fac_status msort_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    fac_tensor *both[2] = {NULL, NULL};
    return keep_one(fac__c_sort(self, 0, false, both), both, 0, out);
}

fac_status median_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    fac_tensor *both[2] = {NULL, NULL};
    FAC_SCOPE(s);
    if (self->numel == 0) {
        FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype), FAC_ERR_DTYPE,
                  "the median of no elements is NaN, which %s does not hold", fac_dtype_name((fac_dtype)self->dtype));
        return fac__give(out, fac__s_new_full(self, FAC_INTS(), fac_scalar_f_(__builtin_nan("")), FAC_DTYPE_DEFAULT,
                                              FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}));
    }
    fac_tensor *flat = fac__s_reshape(self, FAC_INTS(-1));
    if (!flat) return fac_error();
    return keep_one(fac__c_median_dim(flat, 0, false, both), both, 0, out);
}

fac_status bucketize_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *boundaries, bool out_int32,
                               bool right, fac_tensor **out) {
    (void)c;
    FAC_CHECK(boundaries->ndim == 1, FAC_ERR_SHAPE, "boundaries tensor must be 1 dimension, but got dim(%d)",
              boundaries->ndim);
    return fac__c_searchsorted_Tensor(boundaries, self, out_int32, right, NULL, NULL, out);
}

fac_status value_selecting_reduction_backward_composite(const fac_call_info *c, fac_tensor *grad, int64_t dim,
                                                        fac_tensor *indices, fac_ints sizes, bool keepdim,
                                                        fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *zeros =
        fac__s_new_zeros(grad, sizes, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    if (!keepdim && sizes.n > 0) {
        grad = fac__s_unsqueeze(grad, dim);
        indices = fac__s_unsqueeze(indices, dim);
    }
    return fac__give(out, fac__may_write(grad, indices) ? fac__s_scatter__src(zeros, dim, indices, grad)
                                                        : fac__s_scatter_src(zeros, dim, indices, grad));
}
