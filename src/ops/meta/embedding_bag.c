/* Shapes and dtypes of bags of embeddings. */
#include "ops/meta/check.h"
#include "ops_gen.h"

enum { MODE_SUM, MODE_MEAN, MODE_MAX, MODES };

static fac_status need_numbers(const char *name, const fac_tensor *t, int64_t n) {
    FAC_CHECK(t->dtype == FAC_I64 || t->dtype == FAC_I32, FAC_ERR_DTYPE, "expected %s of int32 or int64, got %s", name,
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(t->ndim == 1, FAC_ERR_SHAPE, "%s has to be a 1D Tensor, but got Tensor of dimension %d", name, t->ndim);
    FAC_CHECK(n < 0 || t->numel == n, FAC_ERR_SHAPE, "%s must have %lld elements, got %lld", name, (long long)n,
              (long long)t->numel);
    return FAC_OK;
}

static fac_status check_weights(const fac_tensor *per_sample_weights, const fac_tensor *indices, const fac_tensor *like,
                                int64_t mode) {
    if (!per_sample_weights) return FAC_OK;
    FAC_CHECK(mode == MODE_SUM, FAC_ERR_ARGUMENT,
              "per_sample_weights was not None. It is only supported for mode='sum'");
    FAC_CHECK(per_sample_weights->ndim == 1 && per_sample_weights->numel == indices->numel, FAC_ERR_SHAPE,
              "expected per_sample_weights of %lld elements, as many as indices, got size %s",
              (long long)indices->numel, FAC_SHAPE_TEXT(per_sample_weights));
    return fac__need_dtype("per_sample_weights", per_sample_weights, (fac_dtype)like->dtype);
}

static fac_status check_mode(int64_t mode) {
    FAC_CHECK(mode >= 0 && mode < MODES, FAC_ERR_ARGUMENT, "mode must be 0 (sum), 1 (mean) or 2 (max), got %lld",
              (long long)mode);
    return FAC_OK;
}

fac_status _embedding_bag_meta(fac_structured *s, fac_tensor *weight, fac_tensor *indices, fac_tensor *offsets,
                               bool scale_grad_by_freq, int64_t mode, bool sparse, fac_tensor *per_sample_weights,
                               bool include_last_offset, int64_t padding_idx) {
    (void)scale_grad_by_freq, (void)padding_idx;
    FAC_CHECK(!sparse, FAC_ERR_UNSUPPORTED, "embedding_bag gives dense gradients only; sparse must be false");
    FAC_TRY(check_mode(mode));
    FAC_TRY(fac__need_floating("weight", weight));
    FAC_CHECK(weight->ndim == 2, FAC_ERR_SHAPE, "'weight' must be 2-D, got sizes %s", FAC_SHAPE_TEXT(weight));
    FAC_TRY(need_numbers("indices", indices, -1));
    FAC_TRY(need_numbers("offsets", offsets, -1));
    FAC_CHECK(!include_last_offset || offsets->numel >= 1, FAC_ERR_ARGUMENT,
              "with include_last_offset the number of offsets should be at least 1");
    FAC_TRY(check_weights(per_sample_weights, indices, weight, mode));
    const int64_t bags = offsets->numel - include_last_offset, sizes[2] = {bags, weight->sizes[1]}, nothing = 0;
    FAC_TRY(fac_out_declare(s, 0, sizes, NULL, 2, (fac_dtype)weight->dtype, weight->device));
    FAC_TRY(fac_out_declare(s, 1, indices->sizes, NULL, 1, FAC_I64, weight->device));
    FAC_TRY(fac_out_declare(s, 2, &bags, NULL, 1, FAC_I64, weight->device));
    return mode == MODE_MAX ? fac_out_declare(s, 3, sizes, NULL, 2, FAC_I64, weight->device)
                            : fac_out_declare(s, 3, &nothing, NULL, 1, FAC_I64, weight->device);
}

fac_status _embedding_bag_rows_meta(fac_structured *s, fac_tensor *bags, fac_tensor *indices, fac_tensor *offset2bag,
                                    fac_tensor *bag_size, fac_tensor *maximum_indices, int64_t num_weights,
                                    bool scale_grad_by_freq, int64_t mode, fac_tensor *per_sample_weights,
                                    int64_t padding_idx) {
    (void)scale_grad_by_freq, (void)padding_idx;
    FAC_TRY(check_mode(mode));
    FAC_TRY(fac__need_floating("grad", bags));
    FAC_CHECK(bags->ndim == 2, FAC_ERR_SHAPE, "grad must be [bags, D], got %s", FAC_SHAPE_TEXT(bags));
    FAC_CHECK(num_weights >= 0, FAC_ERR_ARGUMENT, "num_weights must not be negative, got %lld", (long long)num_weights);
    FAC_TRY(need_numbers("indices", indices, -1));
    FAC_TRY(need_numbers("offset2bag", offset2bag, indices->numel));
    FAC_TRY(need_numbers("bag_size", bag_size, bags->sizes[0]));
    const int64_t nothing = 0;
    FAC_TRY(mode == MODE_MAX ? fac__need_sizes("maximum_indices", maximum_indices, bags->sizes, 2)
                             : fac__need_sizes("maximum_indices", maximum_indices, &nothing, 1));
    FAC_TRY(fac__need_dtype("maximum_indices", maximum_indices, FAC_I64));
    FAC_TRY(check_weights(per_sample_weights, indices, bags, mode));
    return fac_out_declare(s, 0, (int64_t[]){num_weights, bags->sizes[1]}, NULL, 2, (fac_dtype)bags->dtype,
                           bags->device);
}
