/* See engine_ops.h. Results of dispatching calls are owned. */
#include "autograd/engine_ops.h"
#include "core/kinds.h"
#include "core/read.h"
#include "core/tensor_make.h"
#include "core/vendor.h"
#include "ops_gen.h"

fac_status fac__ag_add(fac_tensor *a, fac_tensor *b, fac_tensor **out) {
    return fac__c_add_Tensor(a, b, fac_scalar_i_(1), out);
}

/* In-place forms give a counted reference of the tensor itself. */
static fac_status same(fac_status st, fac_tensor *const *result) {
    if (st == FAC_OK) fac__unref(*result);
    return st;
}

fac_status fac__ag_add_in_place(fac_tensor *a, fac_tensor *b) {
    fac_tensor *r = NULL;
    return same(fac__c_add__Tensor(a, b, fac_scalar_i_(1), &r), &r);
}

fac_status fac__ag_zero_in_place(fac_tensor *t) {
    fac_tensor *r = NULL;
    return same(fac__c_zero_(t, &r), &r);
}

fac_status fac__ag_copy_in_place(fac_tensor *to, fac_tensor *from) {
    fac_tensor *r = NULL;
    return same(fac__c_copy_(to, from, false, &r), &r);
}

const fac_operator *fac__ag_as_strided(void) { return &fac_op_as_strided; }

fac_status fac__ag_clone(fac_tensor *t, fac_tensor **out) { return fac__c_clone(t, FAC_FORMAT_DEFAULT, out); }

fac_status fac__ag_ones_like(fac_tensor *t, fac_tensor **out) {
    return fac__c_ones_like(t, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0, 0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT,
                            out);
}

fac_status fac__ag_zeros(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, fac_tensor **out) {
    fac_ints size = {sizes, (size_t)ndim};
    return fac__c_zeros(size, dtype, FAC_STRIDED, device, (fac_opt_num){0}, out);
}

static fac_status copied(fac_status st, fac_tensor *fresh, fac_tensor *from, fac_tensor **out) {
    if (st != FAC_OK) return st;
    st = fac__ag_copy_in_place(fresh, from);
    if (st == FAC_OK)
        *out = fresh;
    else
        fac__unref(fresh);
    return st;
}

fac_status fac__ag_copy_laid_out_like(fac_tensor *t, const fac_tensor *like, fac_tensor **out) {
    fac_tensor *fresh = NULL;
    bool dense = (like->flags & FAC_TF_DENSE) != 0;
    fac_status st = dense ? fac__empty_strided(t->sizes, like->strides, t->ndim, (fac_dtype)t->dtype, t->device, &fresh)
                          : fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, &fresh);
    return copied(st, fresh, t, out);
}

fac_status fac__ag_sum_to(fac_tensor *t, const int64_t *sizes, int ndim, fac_tensor **out) {
    int64_t dims[FAC_MAX_DIMS];
    size_t n = 0;
    int lead = t->ndim - ndim;
    for (int i = 0; i < t->ndim; i++)
        if (i < lead || (sizes[i - lead] == 1 && t->sizes[i] != 1)) dims[n++] = i;
    fac_tensor *sum = NULL;
    FAC_TRY(fac__c_sum_dim_IntList(t, (fac_ints){dims, n}, true, FAC_DTYPE_DEFAULT, &sum));
    if (lead == 0) {
        *out = sum;
        return FAC_OK;
    }
    fac_status st = fac__c_reshape(sum, (fac_ints){sizes, (size_t)ndim}, out);
    fac__unref(sum);
    return st;
}

fac_status fac__ag_cast(fac_tensor *t, fac_dtype dtype, fac_device device, fac_tensor **out) {
    return fac__c__to_copy(t, dtype, FAC_STRIDED, device, (fac_opt_num){0}, false, FAC_FORMAT_DEFAULT, out);
}

fac_status fac__ag_in_layout_of(fac_tensor *t, fac_tensor *like, fac_tensor **out) {
#if FAC_HAVE_VENDOR
    if (fac__vendor_of(like)) return fac__c_to_mkldnn(t, FAC_DTYPE_DEFAULT, out);
#endif
    return fac__c_sparse_mask(t, like, out);
}

fac_status fac__ag_real(fac_tensor *t, fac_tensor **out) { return fac__c_real(t, out); }

fac_status fac__ag_has_nan(fac_tensor *t, bool *out) {
    fac_tensor *nan = NULL, *any = NULL;
    FAC_TRY(fac__c_isnan(t, &nan));
    fac_status st = fac__c_any(nan, &any);
    fac__unref(nan);
    FAC_TRY(st);
    *out = fac__item(any) != 0;
    fac__unref(any);
    return fac_error();
}
