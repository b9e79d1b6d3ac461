/* Indexing operators composed of others. */
#include "ops/batch/batch.h"
#include "ops/composite/brief.h"

/* Indices of a dimension of `size`, with negative ones counted from its end. */
static fac_tensor *from_start(fac_tensor *index, int64_t size) {
    fac_tensor *negative = cast(fac__s_lt_Scalar(index, fac_scalar_i_(0)), FAC_I64);
    return add(index, fac__s_mul_Scalar(negative, fac_scalar_i_(size)));
}

fac_status take_along_dim_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *indices, fac_opt_int dim,
                                    fac_tensor **out) {
    (void)c;
    int64_t d, sizes[FAC_MAX_DIMS], own;
    int n;
    FAC_CHECK(indices->dtype == FAC_I64, FAC_ERR_DTYPE, "dtype of indices should be int64, but got %s",
              fac_dtype_name((fac_dtype)indices->dtype));
    FAC_SCOPE(s);
    if (!dim.set)
        return fac__give(
            out, fac__s_gather(fac__s_reshape(self, FAC_INTS(-1)), 0, fac__s_reshape(indices, FAC_INTS(-1)), false));
    FAC_CHECK(self->ndim == indices->ndim, FAC_ERR_SHAPE,
              "input and indices should have the same number of dimensions, but got %d dimensions for input, and %d "
              "dimensions for indices",
              self->ndim, indices->ndim);
    FAC_TRY(fac__wrap_dim(dim.v, self->ndim, &d));
    if (self->ndim == 0) return fac__give(out, fac__s_gather(self, 0, from_start(indices, 1), false));
    int64_t index_sizes[FAC_MAX_DIMS]; /* broadcast with the indexed dimension left out of it */
    memcpy(index_sizes, indices->sizes, indices->ndim * sizeof *index_sizes);
    own = index_sizes[d];
    index_sizes[d] = self->sizes[d];
    FAC_TRY(fac__broadcast(self->sizes, self->ndim, index_sizes, indices->ndim, sizes, &n));
    fac_tensor *x = fac__s_expand(self, (fac_ints){sizes, (size_t)n}, false);
    sizes[d] = own;
    fac_tensor *i = fac__s_expand(from_start(indices, self->sizes[d]), (fac_ints){sizes, (size_t)n}, false);
    return fac__give(out, fac__s_gather(x, d, i, false));
}

fac_status nonzero_numpy_composite(const fac_call_info *c, fac_tensor *self, fac_tensor_list *out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *positions = fac__s_nonzero(self->ndim ? self : fac__s_unsqueeze(self, 0));
    return positions ? fac__c_unbind_int(positions, 1, out) : fac_error();
}

fac_status masked_scatter_backward_composite(const fac_call_info *c, fac_tensor *grad_output, fac_tensor *mask,
                                             fac_ints sizes, fac_tensor **out) {
    (void)c;
    int64_t numel;
    FAC_CHECK(fac__numel(sizes.v, (int)sizes.n, &numel), FAC_ERR_SHAPE,
              "sizes of the source are not sizes of a tensor");
    FAC_SCOPE(s);
    fac_tensor *taken = fac__s_masked_select(grad_output, mask);
    if (!taken) return fac_error();
    return fac__give(
        out, fac__s_reshape(fac__s_constant_pad_nd(taken, FAC_INTS(0, numel - taken->numel), fac_scalar_i_(0)), sizes));
}

/* ---- one_hot ---------------------------------------------------------------------------------------------------------------- */

/* The largest class, with every class checked: not negative, and below num_classes if that is given. */
static fac_status largest_class(fac_tensor *self, int64_t num_classes, int64_t *out) {
    fac_scalar low, high;
    FAC_SCOPE(s);
    fac_tensor *least = fac__s_min(self), *most = fac__s_max(self);
    if (!least || !most) return fac_error();
    FAC_TRY(fac__c__local_scalar_dense(least, &low));
    FAC_TRY(fac__c__local_scalar_dense(most, &high));
    FAC_CHECK(low.bits >= 0, FAC_ERR_INDEX, "Class values must be non-negative, got %lld", (long long)low.bits);
    FAC_CHECK(num_classes < 0 || high.bits < num_classes, FAC_ERR_INDEX,
              "Class values must be smaller than num_classes: %lld is not below %lld", (long long)high.bits,
              (long long)num_classes);
    *out = high.bits;
    return FAC_OK;
}

fac_status one_hot_composite(const fac_call_info *c, fac_tensor *self, int64_t num_classes, fac_tensor **out) {
    (void)c;
    int64_t sizes[FAC_MAX_DIMS + 1], largest = -1;
    FAC_CHECK(self->dtype == FAC_I64, FAC_ERR_DTYPE, "one_hot is only applicable to index tensor, got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(self->ndim < FAC_MAX_DIMS, FAC_ERR_SHAPE, "one_hot adds a dimension to the %d that self has already",
              self->ndim);
    FAC_CHECK(self->numel > 0 || num_classes > 0, FAC_ERR_ARGUMENT,
              "Can not infer total number of classes from empty tensor.");
    FAC_CHECK(num_classes == -1 || num_classes > 0, FAC_ERR_ARGUMENT, "num_classes should be positive, got %lld",
              (long long)num_classes);
    /* Of samples of a vmap no element can be read: with the number given, scatter checks that the classes are below it. */
    if (self->numel && !(fac__batched(self) && num_classes > 0)) FAC_TRY(largest_class(self, num_classes, &largest));
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    if (num_classes == -1)
        FAC_CHECK(fac__add(largest, 1, &num_classes), FAC_ERR_OVERFLOW, "the class %lld is the last of too many",
                  (long long)largest);
    sizes[self->ndim] = num_classes;
    FAC_SCOPE(s);
    fac_tensor *zeros = fac__s_new_zeros(self, (fac_ints){sizes, (size_t)self->ndim + 1}, FAC_DTYPE_DEFAULT,
                                         FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    fac_tensor *at = fac__s_unsqueeze(self, -1);
    return fac__give(out, fac__batched(self) ? fac__s_scatter_value(zeros, -1, at, fac_scalar_i_(1))
                                             : fac__s_scatter__value(zeros, -1, at, fac_scalar_i_(1)));
}
