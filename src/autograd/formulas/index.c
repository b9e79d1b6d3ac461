/* Gradients of indexing, made of public operators. Reading through an index is undone by adding through it. */
#include "autograd/formulas/brief.h"

fac_tensor *index_select_grad(fac_tensor *grad, fac_ints sizes, int64_t dim, fac_tensor *index) {
    return fac__s_index_add(spread_zeros(grad, sizes), dim, index, grad, fac_scalar_i_(1));
}

fac_tensor *gather_grad(fac_tensor *grad, fac_ints sizes, int64_t dim, fac_tensor *index) {
    return fac__s_scatter_add(spread_zeros(grad, sizes), dim, index, grad);
}

/* What was scattered from src gets its gradient back; the part of src beyond the index has none. */
fac_tensor *scattered_grad(fac_tensor *grad, fac_ints sizes, int64_t dim, fac_tensor *index) {
    fac_tensor *g = fac__s_gather(grad, dim, index, false);
    int64_t pad[2 * FAC_MAX_DIMS];
    bool whole = true;
    if (!g) return NULL;
    if (g->numel == 0) return zeros_of(grad, sizes); /* an empty index may have any number of dimensions */
    for (size_t k = 0; k < sizes.n; k++) {           /* (before, after) from the last dimension on */
        size_t d = sizes.n - 1 - k;
        pad[2 * k] = 0;
        pad[2 * k + 1] = sizes.v[d] - (g->ndim ? g->sizes[d] : 1);
        whole = whole && pad[2 * k + 1] == 0;
    }
    return whole ? g : fac__s_constant_pad_nd(g, (fac_ints){pad, 2 * sizes.n}, fac_scalar_i_(0));
}

fac_tensor *index_grad(fac_tensor *grad, fac_ints sizes, fac_tensors indices) {
    return fac__s_index_put(spread_zeros(grad, sizes), indices, grad, true);
}

/* A place that several indices name was filled once. */
fac_tensor *index_fill_value_grad(fac_tensor *grad, int64_t dim, fac_tensor *index) {
    fac_tensor *kept =
        fac__s_new_ones(grad, fac__sizes_now(grad), FAC_BOOL, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    kept = fac__s_index_fill_int_Scalar(kept, dim, index, fac_scalar_b_(false));
    return fac__s_masked_fill_Scalar(grad, kept, fac_scalar_i_(0));
}

/* What was written over has no part in the result. */
fac_tensor *index_put_self_grad(fac_tensor *grad, fac_tensors indices, bool accumulate) {
    return accumulate ? grad : fac__s_index_put(grad, indices, zeros_of(grad, FAC_INTS()), false);
}

fac_tensor *take_grad(fac_tensor *grad, fac_ints sizes, fac_tensor *index) {
    return fac__s_put(spread_zeros(grad, sizes), index, grad, true);
}

fac_tensor *put_self_grad(fac_tensor *grad, fac_tensor *index, fac_ints source_sizes, bool accumulate) {
    return accumulate ? grad : fac__s_put(grad, index, zeros_of(grad, source_sizes), false);
}

fac_tensor *take_reshaped(fac_tensor *grad, fac_tensor *index, fac_ints sizes) {
    return fac__s_reshape(fac__s_take(grad, index), sizes);
}

fac_tensor *masked_select_grad(fac_tensor *grad, fac_ints sizes, fac_tensor *mask) {
    int64_t common[FAC_MAX_DIMS];
    int n;
    FAC_TRY_NULL(fac__broadcast(sizes.v, (int)sizes.n, mask->sizes, mask->ndim, common, &n));
    return fac__s_masked_scatter(spread_zeros(grad, (fac_ints){common, (size_t)n}), mask, grad);
}

/* ---- embedding: the gradient of its gradient ------------------------------------------------------------------------------------ */

/* grad [V, D] at the indices, zero where they are padding, divided by how often each occurs if that was asked for. */
fac_tensor *embedding_dense_double_grad(fac_tensor *grad, fac_tensor *indices, int64_t padding_idx,
                                        bool scale_grad_by_freq) {
    fac_tensor *rows = fac__s_embedding(grad, indices, -1, false, false);
    if (padding_idx >= 0) { /* a negative one means none */
        fac_tensor *padding = fac__s_unsqueeze(fac__s_eq_Scalar(indices, fac_scalar_i_(padding_idx)), -1);
        rows = fac__s_masked_fill_Scalar(rows, padding, fac_scalar_i_(0));
    }
    if (!scale_grad_by_freq || !rows) return rows;
    fac_tensor *ones = fac__s_new_ones(grad, FAC_INTS(indices->numel), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                       (fac_opt_num){0});
    fac_tensor *flat = fac__s_reshape(indices, FAC_INTS(-1));
    fac_tensor *counts = fac__s_index_add(zeros_of(grad, FAC_INTS(grad->sizes[0])), 0, flat, ones, fac_scalar_i_(1));
    fac_tensor *uses = fac__s_reshape(fac__s_index_select(counts, 0, flat), fac__sizes_now(indices));
    return fac__s_div_Tensor(rows, fac__s_unsqueeze(uses, -1));
}

/* ---- scatter_reduce ------------------------------------------------------------------------------------------------------------------ */

typedef struct reduced {
    fac_tensor *grad, *self, *index, *src, *result;
    int64_t dim;
    bool include_self;
} reduced;

/* Number of elements that each element of the result was reduced from; at least 1. */
static fac_tensor *reduced_from(const reduced *r) {
    fac_tensor *start = zeros_of(r->grad, fac__sizes_now(r->self));
    if (r->include_self) start = fac__s_add_Scalar(start, fac_scalar_i_(1), fac_scalar_i_(1));
    fac_tensor *ones = fac__s_new_ones(r->grad, fac__sizes_now(r->src), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                       (fac_opt_num){0});
    fac_tensor *n = fac__s_scatter_add(start, r->dim, r->index, ones);
    return fac__s_masked_fill_Scalar(n, fac__s_logical_not(n), fac_scalar_i_(1));
}

static void grads_of_mean(const reduced *r, fac_tensor **grads) {
    fac_tensor *share = fac__s_div_Tensor(r->grad, reduced_from(r));
    grads[0] = share;
    grads[1] = fac__s_gather(share, r->dim, r->index, false);
}

static fac_tensor *ones_for_zeros(fac_tensor *t, fac_tensor *where) {
    return fac__s_masked_fill_Scalar(t, where, fac_scalar_i_(1));
}

/* The product with some of its factors exchanged. */
static fac_tensor *product(const reduced *r, fac_tensor *self, fac_tensor *src) {
    return fac__s_scatter_reduce_two(self, r->dim, r->index, src, "prod", r->include_self);
}

/* grad times the product of the others at each element of src: the result over the element itself, and for a zero the
   product without it, which is zero again where there is another. */
static fac_tensor *src_grad_of_prod(const reduced *r) {
    fac_tensor *zero = fac__s_logical_not(r->src), *flow = fac__s_mul_Tensor(r->grad, r->result);
    fac_tensor *counts = fac__s_to_dtype(zero, (fac_dtype)r->grad->dtype, false, false, FAC_FORMAT_DEFAULT);
    fac_tensor *zeros = fac__s_scatter_add(spread_zeros(r->grad, fac__sizes_now(r->self)), r->dim, r->index, counts);
    fac_tensor *only = fac__s_eq_Scalar(fac__s_gather(zeros, r->dim, r->index, false), fac_scalar_i_(1));
    fac_tensor *lone = fac__s_logical_and(zero, only);
    fac_tensor *without = fac__s_mul_Tensor(r->grad, product(r, r->self, ones_for_zeros(r->src, lone)));
    fac_tensor *others = fac__s_div_Tensor(fac__s_gather(flow, r->dim, r->index, false), ones_for_zeros(r->src, zero));
    return fac__s_where_self(lone, fac__s_gather(without, r->dim, r->index, false), others);
}

static void grads_of_prod(const reduced *r, fac_tensor **grads) {
    fac_tensor *self = ones_for_zeros(r->self, fac__s_logical_not(r->self));
    grads[0] = fac__s_div_Tensor(fac__s_mul_Tensor(r->grad, product(r, self, r->src)), self);
    grads[1] = src_grad_of_prod(r);
}

/* Shared evenly among the elements that are the extreme one. */
static void grads_of_extreme(const reduced *r, fac_tensor **grads) {
    fac_dtype d = (fac_dtype)r->grad->dtype;
    fac_tensor *self_is = fac__s_to_dtype(fac__s_eq_Tensor(r->self, r->result), d, false, false, FAC_FORMAT_DEFAULT);
    fac_tensor *at = fac__s_gather(r->result, r->dim, r->index, false);
    fac_tensor *src_is = fac__s_to_dtype(fac__s_eq_Tensor(r->src, at), d, false, false, FAC_FORMAT_DEFAULT);
    fac_tensor *n = fac__s_scatter_add(self_is, r->dim, r->index, src_is);
    fac_tensor *share =
        fac__s_div_Tensor(r->grad, fac__s_masked_fill_Scalar(n, fac__s_logical_not(n), fac_scalar_i_(1)));
    grads[0] = fac__s_mul_Tensor(share, self_is);
    grads[1] = fac__s_mul_Tensor(fac__s_gather(share, r->dim, r->index, false), src_is);
}

fac_status scatter_reduce_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, int64_t dim, fac_tensor *index,
                               fac_tensor *src, const char *reduce, bool include_self, fac_tensor *result) {
    reduced r = {grad, self, index, src, result, dim, include_self};
    const reduced conjugates = {grad, fac__s_conj(self), index, fac__s_conj(src), fac__s_conj(result),
                                dim,  include_self};
    if (strcmp(reduce, "sum") == 0)
        grads[0] = grad, grads[1] = fac__s_gather(grad, dim, index, false);
    else if (strcmp(reduce, "mean") == 0)
        grads_of_mean(&r, grads);
    else if (strcmp(reduce, "prod") == 0)
        grads_of_prod(&conjugates, grads);
    else
        grads_of_extreme(&r, grads);
    if (!include_self && grads[0]) grads[0] = fac__s_scatter_value(grads[0], dim, index, fac_scalar_i_(0));
    return grads[0] && grads[1] ? FAC_OK : fac_error();
}

/* ---- index_reduce -------------------------------------------------------------------------------------------------------------------- */

/* The same for slices that index names along a dimension. */
typedef struct sliced {
    fac_tensor *grad, *self, *index, *source, *result;
    int64_t dim;
    bool include_self;
} sliced;

static fac_tensor *at_slices(const sliced *r, fac_tensor *t) { return fac__s_index_select(t, r->dim, r->index); }
static fac_tensor *at_source(const sliced *r, fac_tensor *t) {
    return fac__s_reshape(at_slices(r, t), fac__sizes_now(r->source)); /* one number may be of one dimension or none */
}
static fac_tensor *add_slices(const sliced *r, fac_tensor *to, fac_tensor *t) {
    return fac__s_index_add(to, r->dim, r->index, t, fac_scalar_i_(1));
}

/* Number of elements that each element of the result was reduced from; at least 1. */
static fac_tensor *slices_reduced(const sliced *r) {
    fac_tensor *start = zeros_of(r->grad, fac__sizes_now(r->self));
    if (r->include_self) start = fac__s_add_Scalar(start, fac_scalar_i_(1), fac_scalar_i_(1));
    fac_tensor *ones = fac__s_new_ones(r->grad, fac__sizes_now(r->source), FAC_DTYPE_DEFAULT, FAC_STRIDED,
                                       (fac_device){0}, (fac_opt_num){0});
    fac_tensor *n = add_slices(r, start, ones);
    return fac__s_masked_fill_Scalar(n, is_zero(n), fac_scalar_i_(1));
}

static fac_tensor *product_of_slices(const sliced *r, fac_tensor *self, fac_tensor *source) {
    return fac__s_index_reduce(self, r->dim, r->index, source, "prod", r->include_self);
}

/* As src_grad_of_prod. */
static fac_tensor *source_grad_of_prod(const sliced *r) {
    fac_tensor *zero = is_zero(r->source), *flow = mul(r->grad, r->result);
    fac_tensor *counts = fac__s_to_dtype(zero, (fac_dtype)r->grad->dtype, false, false, FAC_FORMAT_DEFAULT);
    fac_tensor *zeros = add_slices(r, zeros_of(r->grad, fac__sizes_now(r->self)), counts);
    fac_tensor *lone = fac__s_logical_and(zero, fac__s_eq_Scalar(at_source(r, zeros), fac_scalar_i_(1)));
    fac_tensor *without = mul(r->grad, product_of_slices(r, r->self, ones_for_zeros(r->source, lone)));
    fac_tensor *others = divide(at_source(r, flow), ones_for_zeros(r->source, zero));
    return fac__s_where_self(lone, at_source(r, without), others);
}

static void slice_grads_of_prod(const sliced *r, fac_tensor **grads) {
    fac_tensor *self = ones_for_zeros(r->self, is_zero(r->self));
    grads[0] = divide(mul(r->grad, product_of_slices(r, self, r->source)), self);
    grads[1] = source_grad_of_prod(r);
}

static void slice_grads_of_extreme(const sliced *r, fac_tensor **grads) {
    fac_dtype d = (fac_dtype)r->grad->dtype;
    fac_tensor *self_is = fac__s_to_dtype(fac__s_eq_Tensor(r->self, r->result), d, false, false, FAC_FORMAT_DEFAULT);
    fac_tensor *equal = fac__s_eq_Tensor(r->source, at_source(r, r->result));
    fac_tensor *source_is = fac__s_to_dtype(equal, d, false, false, FAC_FORMAT_DEFAULT);
    if (!r->include_self) self_is = fac__s_index_fill_int_Scalar(self_is, r->dim, r->index, fac_scalar_i_(0));
    fac_tensor *n = add_slices(r, self_is, source_is);
    fac_tensor *share = divide(r->grad, fac__s_masked_fill_Scalar(n, is_zero(n), fac_scalar_i_(1)));
    grads[0] = mul(share, self_is);
    grads[1] = mul(at_source(r, share), source_is);
}

fac_status index_reduce_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, int64_t dim, fac_tensor *index,
                             fac_tensor *source, const char *reduce, bool include_self, fac_tensor *result) {
    sliced r = {grad, self, index, source, result, dim, include_self};
    if (strcmp(reduce, "mean") == 0) {
        grads[0] = divide(grad, slices_reduced(&r));
        grads[1] = at_source(&r, grads[0]);
    } else if (strcmp(reduce, "prod") == 0) {
        slice_grads_of_prod(&r, grads);
    } else {
        slice_grads_of_extreme(&r, grads);
    }
    if (!include_self && grads[0]) grads[0] = fac__s_index_fill_int_Scalar(grads[0], dim, index, fac_scalar_i_(0));
    return grads[0] && grads[1] ? FAC_OK : fac_error();
}
