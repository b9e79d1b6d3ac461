/* Gradients of convolutions, normalisations and embeddings. The gradient of the input is that of one call for all samples; those of
   weights are sums over each sample's own images or rows, which that call would add up for all of them. */
#include "ops/batch/rules.h"
#include "ops_gen.h"

static bool wanted(const batch_call *b, size_t i) {
    const fac_ints mask = fac_value_as_ints(b->stack[batch_find(b, "output_mask")]);
    return i < mask.n && mask.v[i];
}

/* A temporary moves to the outs. */
static fac_status give(batch_call *b, size_t i, fac_tensor *t) {
    fac_tensor *owned = NULL;
    FAC_TRY(fac__give(&owned, t));
    batch_give(b, i, owned);
    return fac_error();
}

/* The gradient of the input alone, by the operator itself; bits of `left_out` are arguments that it does not
   get. */
static fac_status input_gradient(batch_call *b, uint32_t left_out) {
    enum { MOST = 12 };
    fac_value args[MOST], own[MOST];
    const int mask = batch_find(b, "output_mask");
    const int64_t first[3] = {1, 0, 0};
    const size_t n = b->op->n_args;
    FAC_CHECK(n <= MOST, FAC_ERR_ARGUMENT, "%s has %zu arguments", b->op->name, n);
    for (size_t i = 0; i < n; i++) {
        const batch_tensor *x = batch_tensor_of(b, i);
        own[i] = fac_value_none();
        if ((int)i == mask)
            own[i] = fac_value_ints(first, fac_value_as_ints(b->stack[i]).n);
        else if (x && !(left_out >> i & 1))
            own[i] = fac__value_tensor(x->t);
        args[i] = x || (int)i == mask ? own[i] : *batch_arg(b, i);
    }
    fac_status st = fac_error();
    if (st == FAC_OK) st = batch_call_other(b, b->op, args, n);
    for (size_t i = 0; i < n; i++) fac_value_release(&own[i]);
    return st;
}

/* Sums over dimensions [from, to) of t. */
static fac_tensor *sum_over(fac_tensor *t, int from, int to) {
    int64_t dims[FAC_MAX_DIMS];
    for (int d = from; d < to; d++) dims[d - from] = d;
    return from >= to ? t : fac__s_sum_dim_IntList(t, (fac_ints){dims, (size_t)(to - from)}, false, FAC_DTYPE_DEFAULT);
}

static fac_status become(batch_tensor *x, fac_tensor *t) {
    fac_tensor *owned = NULL;
    FAC_TRY(fac__give(&owned, t));
    return batch_become(x, FAC_OK, &owned);
}

/* All of one dtype, in which statistics are exact enough to be used again. */
static bool is_plain(const batch_call *b) {
    const fac_dtype d = (fac_dtype)b->v[0].given->dtype;
    for (size_t i = 1; i < b->n; i++)
        if (b->v[i].given->dtype != d) return false;
    return !fac__is_half(d);
}

/* ---- normalisation over the last dimensions --------------------------------------------------------------------- */

/* (input - mean) * rstd; mean NULL: it is 0. */
static fac_tensor *normal(fac_tensor *input, fac_tensor *mean, fac_tensor *rstd) {
    return fac__s_mul_Tensor(mean ? fac__s_sub_Tensor(input, mean, fac_scalar_i_(1)) : input, rstd);
}

static bool ends_alike(const batch_tensor *weight, const batch_tensor *input, size_t n) {
    return !weight || ((size_t)weight->rank == n &&
                       memcmp(weight->given->sizes, input->given->sizes + input->rank - n, n * sizeof(int64_t)) == 0);
}

static fac_status rows_gradients(batch_call *b) {
    const int mean_at = batch_find(b, "mean"), bias_at = batch_find(b, "bias"), weight_at = batch_find(b, "weight");
    batch_tensor *grad = &b->v[0], *input = &b->v[1], *weight = batch_tensor_of(b, (size_t)weight_at),
                 *mean = mean_at >= 0 ? batch_tensor_of(b, (size_t)mean_at) : NULL,
                 *bias = bias_at >= 0 ? batch_tensor_of(b, (size_t)bias_at) : NULL,
                 *rstd = batch_tensor_of(b, (size_t)batch_find(b, "rstd"));
    const size_t n = fac_value_as_ints(b->stack[2]).n;
    const int rank = input->rank, lead = rank - (int)n;
    if (!is_plain(b) || lead < 0 || grad->rank != rank || rstd->rank != rank || (mean && mean->rank != rank) ||
        !ends_alike(weight, input, n) || !ends_alike(bias, input, n) || input->given->numel == 0 ||
        !fac__same_sizes(grad->given, input->given) || (wanted(b, 1) && !weight))
        return fac__batch_loop(b);
    batch_tensor *samples[] = {grad, input, rstd, mean};
    for (size_t i = 0; i < FAC_COUNT(samples); i++)
        if (samples[i]) FAC_TRY(batch_front(b, samples[i], true));
    if (weight) FAC_TRY(batch_front(b, weight, false));
    FAC_SCOPE(s);
    fac_tensor *plain = grad->t;
    if (wanted(b, 0) && weight && weight->batched) { /* has a sample's last dimensions */
        FAC_TRY(batch_insert(weight, 1, lead));
        plain = fac__adopt(fac__thread(), fac__ref(plain));
        if (!plain) return fac_error();
        FAC_TRY(become(grad, fac__s_mul_Tensor(plain, weight->t)));
    }
    const uint32_t left_out = (weight && weight->batched ? 1u << weight_at : 0) | (bias ? 1u << bias_at : 0);
    if (wanted(b, 0)) FAC_TRY(input_gradient(b, left_out));
    if (wanted(b, 1)) {
        fac_tensor *terms = fac__s_mul_Tensor(plain, normal(input->t, mean ? mean->t : NULL, rstd->t));
        FAC_TRY(give(b, 1, sum_over(terms, 1, lead + 1)));
    }
    return wanted(b, 2) ? give(b, 2, lead ? sum_over(plain, 1, lead + 1) : fac__s_clone(plain, FAC_FORMAT_DEFAULT))
                        : FAC_OK;
}

/* ---- group norm ------------------------------------------------------------------------------------------------- */

/* [B, N, C, *] times the weights of each sample, [B, C]. */
static fac_tensor *times_channels(fac_tensor *t, fac_tensor *weight) {
    int64_t sizes[FAC_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) sizes[d] = d == 0 || d == 2 ? t->sizes[d] : 1;
    return fac__s_mul_Tensor(t, fac__s_reshape(weight, (fac_ints){sizes, (size_t)t->ndim}));
}

static int64_t number_of(const batch_call *b, const char *name) {
    return fac_value_as_int(b->stack[batch_find(b, name)]);
}

static fac_status group_gradients(batch_call *b) {
    const int weight_at = batch_find(b, "weight"), rows = batch_find(b, "N");
    batch_tensor *grad = &b->v[0], *input = &b->v[1], *mean = &b->v[2], *rstd = &b->v[3],
                 *weight = batch_tensor_of(b, (size_t)weight_at);
    const int64_t n = number_of(b, "N"), c = number_of(b, "C"), group = number_of(b, "group");
    int64_t images;
    const bool fits = input->rank >= 2 && input->given->sizes[0] == n && input->given->sizes[1] == c && group > 0 &&
                      fac__same_sizes(grad->given, input->given) && mean->rank == 2 && rstd->rank == 2 &&
                      mean->given->sizes[0] == n && mean->given->sizes[1] == group &&
                      fac__same_sizes(mean->given, rstd->given) && c % group == 0 && input->given->numel > 0 &&
                      (!weight || (weight->rank == 1 && weight->given->sizes[0] == c));
    if (!fits || !is_plain(b)) return fac__batch_loop(b);
    FAC_CHECK(fac__mul(n, b->level->size, &images), FAC_ERR_OVERFLOW, "a batch of %lld images is too large",
              (long long)n);
    for (int i = 0; i < 4; i++) FAC_TRY(batch_front(b, &b->v[i], true));
    FAC_SCOPE(s);
    const int64_t all = b->level->size;
    fac_tensor *by_channel = fac__s_reshape(grad->t, FAC_INTS(all, n, c, -1)); /* [B, N, C, HW] */
    if (weight && weight->batched && wanted(b, 0)) {
        FAC_TRY(batch_front(b, weight, true));
        FAC_TRY(become(grad, times_channels(grad->t, weight->t)));
    }
    for (int i = 0; i < 4; i++) FAC_TRY(batch_flatten(&b->v[i], 0, 2));
    FAC_TRY(batch_set(b, (size_t)rows, fac_value_int(images)));
    const uint32_t left_out = weight && weight->batched ? 1u << weight_at : 0;
    if (wanted(b, 0)) {
        FAC_TRY(input_gradient(b, left_out));
        FAC_TRY(batch_split(&b->outs[0], all));
    }
    if (wanted(b, 1)) {
        const fac_ints groups = FAC_INTS(images, group, -1), one = FAC_INTS(images, group, 1);
        fac_tensor *x =
            normal(fac__s_reshape(input->t, groups), fac__s_reshape(mean->t, one), fac__s_reshape(rstd->t, one));
        fac_tensor *terms = fac__s_mul_Tensor(by_channel, fac__s_reshape(x, FAC_INTS(all, n, c, -1)));
        FAC_TRY(give(b, 1, fac__s_sum_dim_IntList(terms, FAC_INTS(1, 3), false, FAC_DTYPE_DEFAULT)));
    }
    if (!wanted(b, 2)) return FAC_OK;
    return give(b, 2, fac__s_sum_dim_IntList(by_channel, FAC_INTS(1, 3), false, FAC_DTYPE_DEFAULT));
}

fac_status fac__batch_normalized_gradients(batch_call *b) {
    return batch_find(b, "group") >= 0 ? group_gradients(b) : rows_gradients(b);
}

/* ---- batch norm and convolutions: each sample is channels of its own -------------------------------------------- */

/* Statistics of nothing stand for those that are not kept. */
static bool is_row(const batch_tensor *x, const batch_tensor *input) {
    return x->rank == 1 && (x->given->sizes[0] == input->given->sizes[1] || x->given->numel == 0);
}

fac_status fac__batch_channels_gradients(batch_call *b) {
    batch_tensor *grad = &b->v[0], *input = &b->v[1];
    if (input->rank < 2 || input->given->numel == 0 || !fac__same_sizes(grad->given, input->given))
        return fac__batch_loop(b);
    for (size_t i = 2; i < b->n; i++)
        if (!is_row(&b->v[i], input)) return fac__batch_loop(b);
    FAC_TRY(batch_into_channels(b, grad));
    FAC_TRY(batch_into_channels(b, input));
    for (size_t i = 2; i < b->n; i++) {
        FAC_TRY(batch_front(b, &b->v[i], true));
        FAC_TRY(batch_flatten(&b->v[i], 0, 2));
    }
    FAC_TRY(batch_call_op(b));
    if (wanted(b, 0)) FAC_TRY(batch_out_of_channels(b, 0));
    for (size_t i = 1; i < 3; i++)
        if (wanted(b, i)) FAC_TRY(batch_split(&b->outs[i], b->level->size));
    return FAC_OK;
}

/* The gradient of the input alone where all samples share the weights: more images. */
static fac_status input_of_shared_weights(batch_call *b, batch_tensor *grad, batch_tensor *input) {
    FAC_TRY(batch_front(b, grad, true));
    FAC_TRY(batch_front(b, input, true));
    FAC_TRY(batch_flatten(grad, 0, 2));
    FAC_TRY(batch_flatten(input, 0, 2));
    FAC_TRY(batch_call_op(b));
    return batch_split(&b->outs[0], b->level->size);
}

/* As many groups, and channels of the bias, as all samples have. */
static fac_status scale_groups(batch_call *b) {
    const int groups = batch_find(b, "groups"), bias = batch_find(b, "bias_sizes");
    int64_t n;
    FAC_CHECK(fac__mul(fac_value_as_int(b->stack[groups]), b->level->size, &n), FAC_ERR_OVERFLOW, "too many groups");
    FAC_TRY(batch_set(b, (size_t)groups, fac_value_int(n)));
    if (b->stack[bias].tag == FAC_TAG_NONE) return FAC_OK;
    const fac_ints sizes = fac_value_as_ints(b->stack[bias]);
    if (sizes.n != 1) return FAC_OK; /* an error of the operator's */
    FAC_CHECK(fac__mul(sizes.v[0], b->level->size, &n), FAC_ERR_OVERFLOW, "too many channels");
    return batch_set_ints(b, (size_t)bias, &n, 1);
}

fac_status fac__batch_convolution_gradients(batch_call *b) {
    batch_tensor *grad = &b->v[0], *input = &b->v[1], *weight = &b->v[2];
    if (input->rank < 3 || grad->rank != input->rank || weight->rank != input->rank || input->given->numel == 0 ||
        grad->given->numel == 0 || weight->given->numel == 0)
        return fac__batch_loop(b);
    if (!weight->batched && !wanted(b, 1) && !wanted(b, 2)) return input_of_shared_weights(b, grad, input);
    FAC_TRY(batch_into_channels(b, grad));
    FAC_TRY(batch_into_channels(b, input));
    FAC_TRY(batch_front(b, weight, true));
    FAC_TRY(batch_flatten(weight, 0, 2));
    FAC_TRY(scale_groups(b));
    FAC_TRY(batch_call_op(b));
    if (wanted(b, 0)) FAC_TRY(batch_out_of_channels(b, 0));
    for (size_t i = 1; i < 3; i++)
        if (wanted(b, i)) FAC_TRY(batch_split(&b->outs[i], b->level->size));
    return FAC_OK;
}

/* ---- embeddings ------------------------------------------------------------------------------------------------- */

/* Indices into the rows of all samples, [B, ...]: those of sample i begin at i * n. One outside its sample's rows stays outside of
   all, and padding is the row behind the last. */
static fac_tensor *indices_of_all(const batch_call *b, fac_tensor *indices, int64_t n, int64_t padding) {
    int64_t sizes[FAC_MAX_DIMS];
    const int64_t all = b->level->size, rows = all * n;
    for (int d = 0; d < indices->ndim; d++) sizes[d] = d ? 1 : all;
    fac_tensor *begin = fac__s_arange(fac_scalar_i_(all), FAC_I64, FAC_STRIDED, indices->device, (fac_opt_num){0});
    begin = fac__s_reshape(fac__s_mul_Scalar(begin, fac_scalar_i_(n)), (fac_ints){sizes, (size_t)indices->ndim});
    fac_tensor *at = fac__s_add_Tensor(indices, begin, fac_scalar_i_(1));
    fac_tensor *outside =
        fac__s_logical_or(fac__s_lt_Scalar(indices, fac_scalar_i_(0)), fac__s_ge_Scalar(indices, fac_scalar_i_(n)));
    at = fac__s_masked_fill_Scalar(at, outside, fac_scalar_i_(INT64_MAX));
    if (padding >= 0)
        at = fac__s_masked_fill_Scalar(at, fac__s_eq_Scalar(indices, fac_scalar_i_(padding)), fac_scalar_i_(rows));
    return at;
}

fac_status fac__batch_embedding_gradients(batch_call *b) {
    batch_tensor *grad = &b->v[0], *indices = &b->v[1];
    const int64_t n = number_of(b, "num_weights"), padding = number_of(b, "padding_idx");
    const int rank = indices->rank;
    int64_t rows;
    bool fits = grad->rank == rank + 1 && n > 0 && grad->given->numel > 0 &&
                memcmp(grad->given->sizes, indices->given->sizes, (size_t)rank * sizeof(int64_t)) == 0;
    if (!fits || !fac__mul(n, b->level->size, &rows) || rows == INT64_MAX) return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_SCOPE(s);
    fac_tensor *at = indices_of_all(b, indices->t, n, padding);
    fac_tensor *sums =
        fac__s_embedding_dense_backward(grad->t, at, rows + (padding >= 0), padding >= 0 ? rows : -1,
                                        fac_value_as_bool(b->stack[batch_find(b, "scale_grad_by_freq")]));
    if (padding >= 0) sums = fac__s_narrow(sums, 0, 0, rows);
    return give(b, 0, fac__s_reshape(sums, FAC_INTS(b->level->size, n, -1)));
}
