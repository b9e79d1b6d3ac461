/* Indexing that compilers emit, diagonals that are filled, searches for one number, and gradients by name. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/brief.h"

static fac_tensor *zeros_like_sizes(fac_tensor *like, fac_ints sizes) {
    return fac__s_new_zeros(like, sizes, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
}

/* ---- indices that need not be looked at, or are limited first ----------------------------------------------------------------- */

/* Indices within the sizes of self, one per dimension from the first on; missing ones stay so. */
static fac_status limit_indices(const fac_tensor *self, fac_tensors indices, fac_tensor **room) {
    FAC_CHECK(indices.n <= self->ndim, FAC_ERR_INDEX, "too many indices for a tensor of %d dimensions: %zu", self->ndim,
              indices.n);
    for (size_t i = 0; i < indices.n; i++) {
        room[i] = NULL;
        if (!indices.v[i]) continue;
        FAC_CHECK(indices.v[i]->dtype == FAC_I64 || indices.v[i]->dtype == FAC_I32, FAC_ERR_DTYPE,
                  "tensors used as unsafe masked indices must be int32 or int64, got %s",
                  fac_dtype_name((fac_dtype)indices.v[i]->dtype));
        const int64_t size = fac__max(1, self->sizes[i]);
        room[i] = fac__s_clamp(indices.v[i], fac_opt_num_(fac_scalar_i_(-size)), fac_opt_num_(fac_scalar_i_(size - 1)));
        if (!room[i]) return fac_error();
    }
    return FAC_OK;
}

/* What is read in the place of a tensor without elements: one of number fill in sizes that have some. */
static fac_tensor *stand_in(fac_tensor *self, fac_scalar fill) {
    int64_t sizes[FAC_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) sizes[d] = fac__max(1, self->sizes[d]);
    return fac__s_new_full(self, (fac_ints){sizes, self->ndim}, fill, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                           (fac_opt_num){0});
}

fac_status unsafe_masked_index_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mask,
                                         fac_tensors indices, fac_scalar fill, fac_tensor **out) {
    (void)c;
    fac_tensor *room[FAC_MAX_DIMS];
    FAC_SCOPE(s);
    FAC_TRY(limit_indices(self, indices, room));
    if (self->numel == 0) self = stand_in(self, fill);
    fac_tensor *picked = fac__s_index_Tensor(self, (fac_tensors){room, indices.n});
    return fac__give(out, fac__s_masked_fill_Scalar(picked, fac__s_logical_not(mask), fill));
}

fac_status unsafe_masked_index_put_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mask,
                                             fac_tensors indices, fac_tensor *values, fac_tensor **out) {
    (void)c;
    fac_tensor *room[FAC_MAX_DIMS];
    FAC_SCOPE(s);
    FAC_TRY(limit_indices(self, indices, room));
    if (self->numel == 0) return fac__give(out, fac__s_clone(self, FAC_FORMAT_DEFAULT));
    fac_tensor *shown = fac__s_masked_fill_Scalar(values, fac__s_logical_not(mask), fac_scalar_i_(0));
    return fac__give(out, fac__s_index_put(self, (fac_tensors){room, indices.n}, shown, true));
}

/* ---- diagonals ------------------------------------------------------------------------------------------------------------------ */

/* Whether a diagonal that begins anew after each block of rows is one line through t: its steps do not change at a block's end. */
static bool wraps_along_a_line(const fac_tensor *t) { return t->strides[0] == t->sizes[1] * t->strides[1]; }

/* A view of n elements, `step` apart. */
static fac_tensor *line(fac_tensor *t, int64_t n, int64_t step) {
    return fac__s_as_strided(t, FAC_INTS(n), FAC_INTS(step), fac_opt_int_(t->offset));
}

static fac_tensor *diagonal(fac_tensor *t) {
    int64_t step = 0;
    for (int d = 0; d < t->ndim; d++) step += t->strides[d];
    return line(t, fac__min(t->sizes[0], t->sizes[1]), step);
}

/* The diagonal of a matrix of which wraps_along_a_line holds: each of its elements comes one place after a row's length. */
static fac_tensor *wrapped_diagonal(fac_tensor *t) {
    const int64_t apart = t->sizes[1] + 1;
    return line(t, fac__div_up(t->numel, apart), apart * t->strides[1]);
}

/* Where the wrapped diagonal of a matrix of other strides lies. */
static fac_tensor *wrapped_places(fac_tensor *self) {
    fac_tensor *places = fac__s_new_zeros(self, FAC_INTS(self->sizes[0], self->sizes[1]), FAC_BOOL, FAC_STRIDED,
                                          self->device, (fac_opt_num){0});
    if (!places || !fac__s_fill__Scalar(wrapped_diagonal(places), fac_scalar_i_(1))) return NULL;
    return places;
}

/* One write, so that a failed call has changed nothing. */
fac_status fill_diagonal_composite_(const fac_call_info *c, fac_tensor *self, fac_scalar fill_value, bool wrap,
                                    fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim >= 2, FAC_ERR_SHAPE, "dimensions must larger than 1, got sizes %s", FAC_SHAPE_TEXT(self));
    for (int d = 1; self->ndim > 2 && d < self->ndim; d++)
        FAC_CHECK(self->sizes[d] == self->sizes[0], FAC_ERR_SHAPE,
                  "all dimensions of input must be of equal length, got sizes %s", FAC_SHAPE_TEXT(self));
    FAC_TRY(fac__check_number((fac_dtype)self->dtype, fill_value));
    if (self->numel == 0) return fac__give(out, self);
    FAC_SCOPE(s);
    fac_tensor *filled;
    if (!wrap || self->ndim > 2 || self->sizes[0] <= self->sizes[1])
        filled = fac__s_fill__Scalar(diagonal(self), fill_value);
    else if (wraps_along_a_line(self))
        filled = fac__s_fill__Scalar(wrapped_diagonal(self), fill_value);
    else
        filled = fac__s_masked_fill__Scalar(self, wrapped_places(self), fill_value);
    return filled ? fac__give(out, self) : fac_error();
}

/* ---- one number, and fewer results --------------------------------------------------------------------------------------------------- */

fac_status searchsorted_scalar_composite(const fac_call_info *c, fac_tensor *sorted_sequence, fac_scalar self,
                                         bool out_int32, bool right, const char *side, fac_tensor *sorter,
                                         fac_tensor **out) {
    (void)c;
    fac_tensor *number;
    FAC_CHECK(sorted_sequence->ndim == 1, FAC_ERR_SHAPE,
              "input value can be a scalar only when boundaries tensor dimension is 1, got sizes %s",
              FAC_SHAPE_TEXT(sorted_sequence));
    FAC_TRY(fac__scalar_tensor(self, FAC_DTYPE_DEFAULT, &number));
    fac_status st = fac__c_searchsorted_Tensor(sorted_sequence, number, out_int32, right, side, sorter, out);
    fac__unref(number);
    return st;
}

fac_status bucketize_scalar_composite(const fac_call_info *c, fac_scalar self, fac_tensor *boundaries, bool out_int32,
                                      bool right, fac_tensor **out) {
    return searchsorted_scalar_composite(c, boundaries, self, out_int32, right, NULL, NULL, out);
}

fac_status unique_dim_consecutive_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, bool return_inverse,
                                            bool return_counts, fac_tensor **out) {
    (void)c;
    return fac__c_unique_consecutive(self, return_inverse, return_counts, fac_opt_int_(dim), out);
}

fac_status unique_pair_composite(const fac_call_info *c, fac_tensor *self, bool sorted, bool return_inverse,
                                 fac_tensor **out) {
    (void)c;
    fac_tensor *all[3] = {NULL, NULL, NULL};
    FAC_TRY(fac__c__unique2(self, sorted, return_inverse, false, all));
    fac__unref(all[2]);
    out[0] = all[0], out[1] = all[1];
    return FAC_OK;
}

/* ---- gradients by name ------------------------------------------------------------------------------------------------------------------- */

/* grad added to zeros at `index` along `dim`. */
static fac_tensor *add_to_zeros(fac_tensor *grad, fac_ints sizes, int64_t dim, fac_tensor *index) {
    fac_tensor *zeros = zeros_like_sizes(grad, sizes);
    return fac__may_write(grad, index) ? fac__s_scatter_add_(zeros, dim, index, grad)
                                       : fac__s_scatter_add(zeros, dim, index, grad);
}

fac_status gather_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *self, int64_t dim,
                                     fac_tensor *index, bool sparse_grad, fac_tensor **out) {
    (void)c, (void)sparse_grad;
    FAC_SCOPE(s);
    return fac__give(out, add_to_zeros(grad, fac__sizes_now(self), dim, index));
}

fac_status index_select_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_ints self_sizes, int64_t dim,
                                           fac_tensor *index, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *zeros = zeros_like_sizes(grad, self_sizes);
    return fac__give(out, fac__may_write(grad, index) ? fac__s_index_add_(zeros, dim, index, grad, fac_scalar_i_(1))
                                                      : fac__s_index_add(zeros, dim, index, grad, fac_scalar_i_(1)));
}

fac_status masked_select_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *input,
                                            fac_tensor *mask, fac_tensor **out) {
    (void)c;
    int64_t sizes[FAC_MAX_DIMS];
    int n;
    FAC_TRY(fac__broadcast(input->sizes, input->ndim, mask->sizes, mask->ndim, sizes, &n));
    FAC_SCOPE(s);
    fac_tensor *zeros = zeros_like_sizes(grad, (fac_ints){sizes, (size_t)n});
    return fac__give(out, fac__may_write(grad, mask) ? fac__s_masked_scatter_(zeros, mask, grad)
                                                     : fac__s_masked_scatter(zeros, mask, grad));
}

fac_status embedding_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *indices,
                                        int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq, bool sparse,
                                        fac_tensor **out) {
    (void)c;
    if (sparse)
        return fac__c_embedding_sparse_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, out);
    return fac__c_embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, out);
}

fac_status trace_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_ints sizes, fac_tensor **out) {
    (void)c;
    FAC_CHECK(sizes.n == 2, FAC_ERR_SHAPE, "expected matrix input, but sizes are %zu", sizes.n);
    FAC_CHECK(grad->numel == 1, FAC_ERR_SHAPE, "grad should have one element, got sizes %s", FAC_SHAPE_TEXT(grad));
    FAC_CHECK(sizes.v[0] >= 0 && sizes.v[1] >= 0, FAC_ERR_SHAPE, "sizes must not be negative");
    const int64_t n = fac__min(sizes.v[0], sizes.v[1]);
    FAC_SCOPE(s);
    fac_tensor *square =
        fac__s_diag_embed(fac__s_expand(fac__s_reshape(grad, FAC_INTS(1)), FAC_INTS(n), false), 0, -2, -1);
    if (sizes.v[0] == sizes.v[1]) return fac__give(out, square);
    return fac__give(out,
                     fac__s_constant_pad_nd(square, FAC_INTS(0, sizes.v[1] - n, 0, sizes.v[0] - n), fac_scalar_i_(0)));
}

fac_status cummaxmin_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *input,
                                        fac_tensor *indices, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, add_to_zeros(grad, fac__sizes_now(input), dim, indices));
}
