/* Forms that write, where the operator has no rule for them: the functional form is called, batched, and its results
   are copied. And losses, which are a pointwise operator and a mean. */
#include "ops/batch/rules.h"
#include "ops/call.h"
#include "ops_gen.h"

/* The functional form of the same arguments, with the level in sight; results are the caller's, as batched as they
   come. */
static fac_status call_functional(batch_call *b, const fac_operator *op) {
    const fac_batch_sight was = fac__batch_hide(b->level);
    const fac_status st = fac_call_op(op, b->stack, op->n_args, b->outs);
    fac__batch_see(was);
    return st;
}

static fac_status in_sight(batch_call *b, fac_status (*f)(batch_call *b)) {
    const fac_batch_sight was = fac__batch_hide(b->level);
    const fac_status st = f(b);
    fac__batch_see(was);
    return st;
}

/* Outs are the last arguments. */
static fac_status copy_to_outs(batch_call *b) {
    fac_tensor *outs[8], *made[8];
    const size_t n = b->schema->n_rets;
    for (size_t i = 0; i < n; i++) {
        outs[i] = fac__value_header(&b->stack[b->op->n_args - n + i]);
        made[i] = fac__value_header(&b->outs[i]);
        FAC_CHECK(
            outs[i] && made[i] && fac__same_sizes(outs[i], made[i]), FAC_ERR_SHAPE,
            "within vmap, an out has to have the sizes of the result, %s, since one sample of it cannot be resized",
            made[i] ? FAC_SHAPE_TEXT(made[i]) : "[]");
    }
    return fac__copy_to_outs(outs, made, n);
}

fac_status fac__batch_out(batch_call *b) {
    const fac_operator *op = b->facts->functional;
    if (!op || b->schema->n_rets == 0 || b->schema->n_rets > 8) return fac__batch_loop(b);
    FAC_TRY(call_functional(b, op));
    return in_sight(b, copy_to_outs);
}

static fac_status copy_over(batch_call *b) {
    fac_tensor *self = fac__value_header(&b->stack[0]), *made = fac__value_header(&b->outs[0]);
    return fac__copy_over(self, made);
}

fac_status fac__batch_inplace(batch_call *b) {
    const fac_operator *op = b->facts->functional;
    if (!op || b->schema->n_rets != 1 || b->stack[0].tag != FAC_TAG_TENSOR) return fac__batch_loop(b);
    FAC_TRY(call_functional(b, op));
    return in_sight(b, copy_over);
}

/* ---- losses ----------------------------------------------------------------------------------------------------- */

/* [B, ...] -> [B], by the mean or the sum. */
static fac_status reduced(batch_call *b, int64_t how, fac_tensor **out) {
    int64_t dims[FAC_MAX_DIMS];
    fac_tensor *t = fac__value_header(&b->outs[0]);
    const size_t n = (size_t)t->ndim - 1;
    for (size_t d = 0; d < n; d++) dims[d] = (int64_t)d + 1;
    if (n == 0) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    return how == 1 ? fac__c_mean_dim(t, (fac_ints){dims, n}, false, FAC_DTYPE_DEFAULT, out)
                    : fac__c_sum_dim_IntList(t, (fac_ints){dims, n}, false, FAC_DTYPE_DEFAULT, out);
}

/* [B] -> [B, 1...]: the gradient of each sample's loss, shared out among its elements where that is their mean. */
static fac_status share_out(batch_tensor *grad, int64_t elements, int rank, bool mean) {
    fac_tensor *next = NULL;
    FAC_TRY(batch_insert(grad, 1, rank));
    if (!mean) return FAC_OK;
    return batch_become(grad, fac__c_div_Scalar(grad->t, fac_scalar_i_(elements), &next), &next);
}

/* Of tensors of one shape, as above: without a reduction each element has its sample's gradient. */
static fac_status loss_backward(batch_call *b) {
    const int i = batch_find(b, "reduction");
    const int64_t how = fac_value_as_int(b->stack[i]);
    batch_tensor *grad = &b->v[0], *self = &b->v[1];
    for (size_t k = 2; k < b->n; k++)
        if (!fac__same_sizes(b->v[k].given, self->given)) return fac__batch_loop(b);
    for (size_t k = 0; k < b->n; k++)
        if (b->v[k].given->dtype != self->given->dtype) return fac__batch_loop(b);
    const bool reduced_one = how == 1 || how == 2;
    if ((how != 0 && !reduced_one) || grad->rank != (reduced_one ? 0 : self->rank) || self->given->numel == 0 ||
        fac__is_half((fac_dtype)self->given->dtype))
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(batch_set(b, (size_t)i, fac_value_int(0)));
    if (reduced_one) FAC_TRY(share_out(grad, self->given->numel, self->rank, how == 1));
    return batch_call_op(b);
}

fac_status fac__batch_loss(batch_call *b) {
    if (batch_find(b, "grad_output") == 0) return loss_backward(b);
    const int i = batch_find(b, "reduction");
    const int64_t how = fac_value_as_int(b->stack[i]);
    fac_tensor *made = NULL;
    for (size_t k = 1; k < b->n; k++) /* of one shape: what would be broadcast comes with a warning */
        if (b->v[k].rank != b->v[0].rank || b->v[k].given->dtype != b->v[0].given->dtype) return fac__batch_loop(b);
    if (how != 0 && how != 1 && how != 2) return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(batch_set(b, (size_t)i, fac_value_int(0)));
    FAC_TRY(batch_call_op(b));
    if (how == 0) return FAC_OK;
    FAC_TRY(reduced(b, how, &made));
    batch_give(b, 0, made);
    return fac_error();
}

/* ---- losses of classes ----------------------------------------------------------------------------------------- */

/* [B, N]: 1 where the target counts. */
static fac_status counted(batch_call *b, fac_tensor *target, fac_dtype dtype, fac_tensor **out) {
    fac_tensor *ne = NULL, *wide = NULL;
    const int64_t rows[] = {b->level->size, -1};
    FAC_TRY(fac__c_ne_Scalar(target, fac_value_as_scalar(b->stack[batch_find(b, "ignore_index")]), &ne));
    fac_status st =
        fac__c__to_copy(ne, dtype, FAC_STRIDED, (fac_device){0, 0}, (fac_opt_num){0}, false, FAC_FORMAT_DEFAULT, &wide);
    if (st == FAC_OK) st = fac__c_reshape(wide, (fac_ints){rows, 2}, out);
    fac__unref(ne);
    fac__unref(wide);
    return st;
}

/* Sums over the rows of each sample, [B, N] -> [B]; takes t. */
static fac_status sum_rows(fac_tensor *t, fac_tensor **out) {
    const int64_t one = 1;
    const fac_status st = fac__c_sum_dim_IntList(t, (fac_ints){&one, 1}, false, FAC_DTYPE_DEFAULT, out);
    fac__unref(t);
    return st;
}

/* The loss of each row in outs[0] becomes that of each sample, and the last out the sum of the weights that count. */
static fac_status reduce_rows(batch_call *b, fac_tensor *target, bool mean) {
    const size_t last = b->schema->n_rets - 1;
    const int64_t rows[] = {b->level->size, -1};
    fac_tensor *loss = NULL, *sum = NULL, *ones = NULL, *total = NULL, *out = NULL;
    FAC_TRY(fac__c_reshape(fac__value_header(&b->outs[0]), (fac_ints){rows, 2}, &loss));
    fac_status st = sum_rows(loss, &sum);
    if (st == FAC_OK) st = counted(b, target, (fac_dtype)fac__value_header(&b->outs[last])->dtype, &ones);
    if (st == FAC_OK) st = sum_rows(ones, &total);
    if (st == FAC_OK) st = mean ? fac__c_div_Tensor(sum, total, &out) : FAC_OK;
    if (st == FAC_OK) {
        batch_give(b, 0, mean ? out : fac__ref(sum));
        batch_give(b, last, fac__ref(total));
        st = fac_error();
    }
    fac__unref(sum);
    fac__unref(total);
    return st;
}

/* The gradient of each row's loss: its sample's, divided by the number of rows that count where the loss is their mean. */
static fac_status grad_of_rows(batch_tensor *grad, const batch_tensor *total, int64_t rows, bool mean) {
    fac_tensor *next = NULL;
    if (mean) FAC_TRY(batch_become(grad, fac__c_div_Tensor(grad->t, total->t, &next), &next));
    FAC_TRY(batch_insert(grad, 1, 1));
    return batch_become(grad, fac__c_expand(grad->t, FAC_INTS(-1, rows), false, &next), &next);
}

/* The same for the gradient, of as many rows: what forward has kept, if it has, is two numbers a row. */
static fac_status nll_backward(batch_call *b) {
    const int i = batch_find(b, "reduction"), sums = batch_find(b, "row_sums");
    const int64_t how = fac_value_as_int(b->stack[i]);
    batch_tensor *grad = &b->v[0], *self = &b->v[1], *target = &b->v[2], *total = &b->v[b->n - 1];
    batch_tensor *kept = sums >= 0 ? batch_tensor_of(b, (size_t)sums) : NULL;
    fac_tensor *one = NULL;
    if (b->n != (size_t)(4 + (sums >= 0)) || (how != 1 && how != 2) || self->rank != 2 || target->rank != 1 ||
        grad->rank != 0 || total->rank != 0 || (kept && kept->rank != 2) || self->given->numel == 0 ||
        target->given->sizes[0] != self->given->sizes[0] || fac__is_half((fac_dtype)self->given->dtype))
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    FAC_TRY(grad_of_rows(grad, total, self->given->sizes[0], how == 1));
    FAC_TRY(batch_become(total, fac__c_select_int(total->t, 0, 0, &one), &one)); /* which rows do not read */
    FAC_TRY(batch_flatten(grad, 0, 2));
    FAC_TRY(batch_flatten(self, 0, 2));
    FAC_TRY(batch_flatten(target, 0, 2));
    if (kept) FAC_TRY(batch_flatten(kept, 0, 2));
    FAC_TRY(batch_set(b, (size_t)i, fac_value_int(0)));
    FAC_TRY(batch_call_op(b));
    return batch_split(&b->outs[0], b->level->size);
}

/* Rows of logits: of one dimension, or of two that the batch joins. Weighted classes go to the loop. */
fac_status fac__batch_nll(batch_call *b) {
    if (batch_find(b, "grad_output") == 0) return nll_backward(b);
    const int i = batch_find(b, "reduction");
    const int64_t how = fac_value_as_int(b->stack[i]);
    batch_tensor *self = &b->v[0], *target = &b->v[1];
    const bool plain = b->n == 2 && self->rank >= 1 && self->rank <= 2 && target->rank == self->rank - 1;
    if (!plain || (how != 1 && how != 2) || fac__is_half((fac_dtype)self->given->dtype) || self->given->numel == 0 ||
        (target->rank && target->given->sizes[0] != self->given->sizes[0]))
        return fac__batch_loop(b);
    FAC_TRY(batch_front_all(b, true));
    if (self->rank == 2) {
        FAC_TRY(batch_flatten(self, 0, 2));
        FAC_TRY(batch_flatten(target, 0, 2));
    }
    FAC_TRY(batch_set(b, (size_t)i, fac_value_int(0)));
    FAC_TRY(batch_call_op(b));
    if (b->schema->n_rets == 3) FAC_TRY(batch_split(&b->outs[1], b->level->size));
    return reduce_rows(b, target->t, how == 1);
}
