/* Convolutions and normalisations: the batch joins the images where all samples share the weights, else the channels.
   */
#include "ops/batch/rules.h"
#include "ops_gen.h"

static fac_status give(batch_call *b, size_t i, fac_status st, fac_tensor *const *owned) {
    if (st != FAC_OK) return st;
    batch_give(b, i, *owned);
    return fac_error();
}

/* [B, N, C, ...] -> [N, B * C, ...] */
fac_status batch_into_channels(batch_call *b, batch_tensor *x) {
    fac_tensor *next = NULL;
    FAC_TRY(batch_front(b, x, true));
    FAC_TRY(batch_become(x, fac__c_transpose_int(x->t, 0, 1, &next), &next));
    return batch_flatten(x, 1, 2);
}

/* [N, B * C, ...] -> [B, N, C, ...] */
fac_status batch_out_of_channels(batch_call *b, size_t i) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *t = fac__value_header(&b->outs[i]), *split = NULL, *out = NULL;
    sizes[0] = t->sizes[0];
    sizes[1] = b->level->size;
    sizes[2] = t->sizes[1] / b->level->size;
    for (int d = 2; d < t->ndim; d++) sizes[d + 1] = t->sizes[d];
    FAC_TRY(fac__c_reshape(t, (fac_ints){sizes, (size_t)t->ndim + 1}, &split));
    const fac_status st = fac__c_transpose_int(split, 0, 1, &out);
    fac__unref(split);
    return give(b, i, st, &out);
}

/* ---- convolutions ----------------------------------------------------------------------------------------------- */

static fac_status with_shared_weights(batch_call *b, batch_tensor *input) {
    FAC_TRY(batch_front(b, input, true));
    FAC_TRY(batch_flatten(input, 0, 2));
    FAC_TRY(batch_call_op(b));
    return batch_split(&b->outs[0], b->level->size);
}

/* Each sample is a group of channels, or several. */
static fac_status with_own_weights(batch_call *b, batch_tensor *input, batch_tensor *weight, batch_tensor *bias) {
    const int groups = batch_find(b, "groups");
    int64_t n;
    FAC_CHECK(fac__mul(fac_value_as_int(b->stack[groups]), b->level->size, &n), FAC_ERR_OVERFLOW, "too many groups");
    FAC_TRY(batch_into_channels(b, input));
    FAC_TRY(batch_front(b, weight, true));
    FAC_TRY(batch_flatten(weight, 0, 2));
    if (bias) {
        FAC_TRY(batch_front(b, bias, true));
        FAC_TRY(batch_flatten(bias, 0, 2));
    }
    FAC_TRY(batch_set(b, (size_t)groups, fac_value_int(n)));
    FAC_TRY(batch_call_op(b));
    return batch_out_of_channels(b, 0);
}

fac_status fac__batch_convolution(batch_call *b) {
    if (batch_find(b, "grad_output") == 0) return fac__batch_convolution_gradients(b);
    batch_tensor *input = batch_tensor_of(b, 0), *weight = batch_tensor_of(b, 1), *bias = batch_tensor_of(b, 2);
    if (input->rank != weight->rank || input->rank < 3 || (bias && bias->rank != 1)) return fac__batch_loop(b);
    if (input->given->numel == 0 || weight->given->numel == 0) return fac__batch_loop(b);
    if (!weight->batched && (!bias || !bias->batched)) return with_shared_weights(b, input);
    return with_own_weights(b, input, weight, bias);
}

/* ---- batch normalisation ---------------------------------------------------------------------------------------- */

/* [C] of all samples, [B * C]; false if what is written would be a copy. */
static fac_status row_of_channels(batch_call *b, batch_tensor *x, bool written, bool *whole) {
    FAC_TRY(batch_front(b, x, true));
    const fac_storage *own = x->t->storage;
    FAC_TRY(batch_flatten(x, 0, 2));
    if (written && (!own || x->t->storage != own)) *whole = false;
    return FAC_OK;
}

static bool is_channels(const batch_tensor *x, const batch_tensor *input) {
    return x->rank == 1 && x->given->sizes[0] == input->given->sizes[1];
}

static fac_status split_rows(batch_call *b, size_t i) {
    int64_t sizes[2];
    fac_tensor *t = fac__value_header(&b->outs[i]), *out = NULL;
    if (!t) return FAC_OK;
    sizes[0] = b->level->size;
    sizes[1] = t->numel / b->level->size;
    return give(b, i, fac__c_reshape(t, (fac_ints){sizes, 2}, &out), &out);
}

fac_status fac__batch_channels(batch_call *b) {
    if (batch_find(b, "grad_out") == 0) return fac__batch_channels_gradients(b);
    batch_tensor *input = batch_tensor_of(b, 0);
    const bool training = fac_value_as_bool(b->stack[batch_find(b, "training")]);
    bool whole = true;
    if (input->rank < 2 || input->given->numel == 0) return fac__batch_loop(b);
    for (size_t i = 1; i < b->n; i++) {
        batch_tensor *x = &b->v[i];
        if (training && x->written && !x->batched)
            return batch_refuse(b, "in training it would change running statistics that all samples share. Use "
                                   "group_norm, or running statistics of a batched tensor");
        if (!is_channels(x, input)) return fac__batch_loop(b);
    }
    for (size_t i = 1; i < b->n; i++) FAC_TRY(row_of_channels(b, &b->v[i], training && b->v[i].written, &whole));
    if (!whole) return fac__batch_loop(b);
    FAC_TRY(batch_into_channels(b, input));
    FAC_TRY(batch_call_op(b));
    FAC_TRY(batch_out_of_channels(b, 0));
    FAC_TRY(split_rows(b, 1));
    return split_rows(b, 2);
}

/* ---- normalisation over the last dimensions --------------------------------------------------------------------- */

/* out *= weight or out += bias, which have a sample's last dimensions. */
static fac_status with(batch_call *b, batch_tensor *x, int rank, bool multiply) {
    fac_tensor *t = fac__value_header(&b->outs[0]), *out = NULL;
    FAC_TRY(batch_front(b, x, false));
    if (x->front) FAC_TRY(batch_insert(x, 1, rank + 1 - x->t->ndim));
    return give(b, 0, multiply ? fac__c_mul_Tensor(t, x->t, &out) : fac__c_add_Tensor(t, x->t, fac_scalar_i_(1), &out),
                &out);
}

static fac_status without_affine(batch_call *b, int weight, int bias) {
    fac_value args[8];
    for (size_t i = 0; i < b->op->n_args && i < FAC_COUNT(args); i++)
        args[i] = (int)i == weight || (int)i == bias ? fac_value_none() : *batch_arg(b, i);
    args[0] = fac__value_tensor(b->v[0].t);
    fac_status st = fac_error();
    if (st == FAC_OK) st = batch_call_other(b, b->op, args, b->op->n_args);
    fac_value_release(&args[0]);
    return st;
}

/* Groups of channels, which weights come after: those of all samples are more images. */
static fac_status group_norm(batch_call *b) {
    const int rows = batch_find(b, "N");
    batch_tensor *input = &b->v[0], *w = batch_tensor_of(b, 1), *c = batch_tensor_of(b, 2);
    int64_t images;
    if (input->rank < 2 || input->given->numel == 0 || fac__is_half((fac_dtype)input->given->dtype))
        return fac__batch_loop(b);
    for (size_t i = 1; i < b->n; i++)
        if (!is_channels(&b->v[i], input) || b->v[i].given->dtype != input->given->dtype) return fac__batch_loop(b);
    FAC_CHECK(fac__mul(fac_value_as_int(b->stack[rows]), b->level->size, &images), FAC_ERR_OVERFLOW,
              "a batch of %lld images is too large", (long long)fac_value_as_int(b->stack[rows]));
    FAC_TRY(batch_front(b, input, true));
    FAC_TRY(batch_flatten(input, 0, 2));
    FAC_TRY(batch_set(b, (size_t)rows, fac_value_int(images)));
    FAC_TRY(without_affine(b, 1, 2));
    for (size_t i = 0; i < b->schema->n_rets; i++) FAC_TRY(batch_split(&b->outs[i], b->level->size));
    for (int multiply = 1; multiply >= 0; multiply--) {
        batch_tensor *x = multiply ? w : c;
        if (!x) continue;
        FAC_TRY(batch_front(b, x, true));
        FAC_TRY(batch_insert(x, 2, input->rank - 2));
        FAC_TRY(batch_insert(x, 1, 1));
        FAC_TRY(with(b, x, x->t->ndim - 1, multiply != 0));
    }
    return FAC_OK;
}

fac_status fac__batch_normalized(batch_call *b) {
    if (batch_find(b, "grad_out") == 0) return fac__batch_normalized_gradients(b);
    if (batch_find(b, "group") >= 0) return group_norm(b);
    const int weight = batch_find(b, "weight"), bias = batch_find(b, "bias");
    batch_tensor *input = batch_tensor_of(b, 0), *w = batch_tensor_of(b, (size_t)weight),
                 *c = bias >= 0 ? batch_tensor_of(b, (size_t)bias) : NULL;
    const size_t n = fac_value_as_ints(b->stack[1]).n;
    if ((size_t)input->rank < n || b->op->n_args > 8) return fac__batch_loop(b);
    for (size_t i = 1; i < b->n; i++)
        if (b->v[i].given->dtype != input->given->dtype || (size_t)b->v[i].rank != n ||
            memcmp(b->v[i].given->sizes, input->given->sizes + input->rank - n, n * sizeof(int64_t)) != 0)
            return fac__batch_loop(b);
    FAC_TRY(batch_front(b, input, true));
    if (!(w && w->batched) && !(c && c->batched)) return batch_call_op(b);
    FAC_TRY(without_affine(b, weight, bias));
    if (w) FAC_TRY(with(b, w, input->rank, true));
    return c ? with(b, c, input->rank, false) : FAC_OK;
}
