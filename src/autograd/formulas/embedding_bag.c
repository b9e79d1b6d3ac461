/* The gradient of bags to rows, which is the gradient of rows to bags: a gather, whose own derivatives are known. */
#include "autograd/formulas/brief.h"

enum { MODE_SUM, MODE_MEAN, MODE_MAX };

static fac_tensor *in_column(fac_tensor *t) { return fac__s_unsqueeze(t, 1); }

/* How often each index occurs. */
static fac_tensor *uses_of(fac_tensor *v, fac_tensor *indices) {
    fac_tensor *ones =
        fac__s_new_ones(v, FAC_INTS(indices->numel), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    fac_tensor *counts = fac__s_index_add(spread_zeros(v, FAC_INTS(v->sizes[0])), 0, indices, ones, fac_scalar_i_(1));
    return fac__s_index_select(counts, 0, indices);
}

fac_status embedding_bag_rows_grads(fac_tensor **grads, fac_tensor *v, fac_tensor *bags, fac_tensor *indices,
                                    fac_tensor *offset2bag, fac_tensor *bag_size, fac_tensor *maximum_indices,
                                    bool scale_grad_by_freq, int64_t mode, fac_tensor *per_sample_weights,
                                    int64_t padding_idx) {
    if (mode == MODE_MAX) {
        fac_tensor *empty = in_column(is_zero(bag_size));
        grads[0] = fill_where(fac__s_gather(v, 0, maximum_indices, false), empty, 0);
        return fac_error();
    }
    fac_tensor *outside = fac__s_logical_or(fac__s_lt_Scalar(offset2bag, fac_scalar_i_(0)),
                                            fac__s_eq_Scalar(indices, fac_scalar_i_(padding_idx)));
    fac_tensor *bag = fac__s_clamp_min(offset2bag, fac_scalar_i_(0));
    fac_tensor *rows = fill_where(fac__s_index_select(v, 0, indices), in_column(outside), 0);
    if (scale_grad_by_freq) rows = divide(rows, in_column(uses_of(v, indices)));
    if (mode == MODE_MEAN) {
        fac_tensor *count = fac__s_clamp_min(fac__s_index_select(bag_size, 0, bag), fac_scalar_i_(1));
        rows = divide(rows, in_column(count));
    }
    if (per_sample_weights) grads[1] = sum_over(mul(rows, fac__s_index_select(bags, 0, bag)), FAC_INTS(1), false);
    fac_tensor *weighted = per_sample_weights ? mul(rows, in_column(per_sample_weights)) : rows;
    grads[0] = fac__s_index_add(spread_zeros(bags, fac__sizes_now(bags)), 0, bag, weighted, fac_scalar_i_(1));
    return fac_error();
}
