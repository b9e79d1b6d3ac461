/* Bags of embeddings: the doors of PyTorch's names to two kernels, rows to bags and bags to rows. */
#include "ops/composite/brief.h"
#include "ops/structured.h"

enum { MODE_SUM };

/* Gradients have no use for the offsets, but take none that could not have been those of the bags. */
static fac_status check_offsets(fac_tensor *grad, fac_tensor *offsets) {
    FAC_CHECK(offsets->ndim == 1 && (offsets->dtype == FAC_I64 || offsets->dtype == FAC_I32), FAC_ERR_DTYPE,
              "offsets must be a vector of int32 or int64, got %s of size %s",
              fac_dtype_name((fac_dtype)offsets->dtype), FAC_SHAPE_TEXT(offsets));
    return fac__check_same_device((const char *const[]){"grad", "offsets"}, (fac_tensor *const[]){grad, offsets}, 2);
}

fac_status embedding_bag_composite(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices, fac_tensor *offsets,
                                   bool scale_grad_by_freq, int64_t mode, bool sparse, fac_tensor *per_sample_weights,
                                   bool include_last_offset, fac_tensor **out) {
    (void)c;
    return fac__c__embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                 include_last_offset, -1, out);
}

fac_status embedding_bag_padding_composite(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices,
                                           fac_tensor *offsets, bool scale_grad_by_freq, int64_t mode, bool sparse,
                                           fac_tensor *per_sample_weights, bool include_last_offset,
                                           fac_opt_int padding_idx, fac_tensor **out) {
    (void)c;
    int64_t padding = -1;
    if (padding_idx.set) {
        const int64_t rows = weight->ndim ? weight->sizes[0] : 0;
        padding = padding_idx.v;
        FAC_CHECK(padding >= -rows && padding < rows, FAC_ERR_INDEX,
                  "padding_idx must be within the number of embeddings, -%lld through %lld but got %lld",
                  (long long)rows, (long long)rows - 1, (long long)padding);
        if (padding < 0) padding += rows;
    }
    return fac__c__embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                                 include_last_offset, padding, out);
}

fac_status _embedding_bag_forward_only_composite(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices,
                                                 fac_tensor *offsets, bool scale_grad_by_freq, int64_t mode,
                                                 bool sparse, fac_tensor *per_sample_weights, bool include_last_offset,
                                                 int64_t padding_idx, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *w = fac__s_detach(weight), *p = per_sample_weights ? fac__s_detach(per_sample_weights) : NULL;
    if (!w || (per_sample_weights && !p)) return fac_error();
    return fac__c__embedding_bag(w, indices, offsets, scale_grad_by_freq, mode, sparse, p, include_last_offset,
                                 padding_idx, out);
}

fac_status _embedding_bag_backward_composite(const fac_call_info *c, fac_tensor *grad, fac_tensor *indices,
                                             fac_tensor *offsets, fac_tensor *offset2bag, fac_tensor *bag_size,
                                             fac_tensor *maximum_indices, int64_t num_weights, bool scale_grad_by_freq,
                                             int64_t mode, bool sparse, fac_tensor *per_sample_weights,
                                             int64_t padding_idx, fac_tensor **out) {
    (void)c;
    FAC_CHECK(!sparse, FAC_ERR_UNSUPPORTED, "embedding_bag gives dense gradients only; sparse must be false");
    FAC_TRY(check_offsets(grad, offsets));
    return fac__c__embedding_bag_rows(grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                      scale_grad_by_freq, mode, per_sample_weights, padding_idx, out);
}

fac_status _embedding_bag_per_sample_weights_backward_composite(const fac_call_info *c, fac_tensor *grad,
                                                                fac_tensor *weight, fac_tensor *indices,
                                                                fac_tensor *offsets, fac_tensor *offset2bag,
                                                                int64_t mode, int64_t padding_idx, fac_tensor **out) {
    (void)c;
    FAC_CHECK(mode == MODE_SUM, FAC_ERR_ARGUMENT, "per_sample_weights is only supported for mode='sum'");
    FAC_TRY(check_offsets(grad, offsets));
    FAC_CHECK(grad->ndim == 2 && weight->ndim == 2 && grad->sizes[1] == weight->sizes[1] &&
                  fac__same_sizes(indices, offset2bag),
              FAC_ERR_SHAPE, "grad %s, weight %s, indices %s and offset2bag %s do not fit", FAC_SHAPE_TEXT(grad),
              FAC_SHAPE_TEXT(weight), FAC_SHAPE_TEXT(indices), FAC_SHAPE_TEXT(offset2bag));
    FAC_SCOPE(scope);
    fac_tensor *outside = fac__s_logical_or(fac__s_lt_Scalar(offset2bag, fac_scalar_i_(0)),
                                            fac__s_eq_Scalar(indices, fac_scalar_i_(padding_idx)));
    fac_tensor *bag = fac__s_clamp_min(offset2bag, fac_scalar_i_(0));
    fac_tensor *products = mul(fac__s_index_select(grad, 0, bag), fac__s_index_select(weight, 0, indices));
    return fac__give(out, fill_where(sum_along(products, 1, false), outside, 0));
}
