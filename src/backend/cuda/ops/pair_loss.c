/* Losses over pairs of tensors, made of other operators below autograd. */
#include "ops_gen.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static fac_keyset below(const fac_tensor *t) { return t->keys & (FAC_BACKEND_MASK | FAC_KS_DENSE); }

/* dst <- src; takes src's reference whatever `st` is, and hands st on. */
static fac_status give_home(fac_status st, fac_tensor *dst, fac_tensor *src) {
    fac_tensor *same = NULL;
    if (st == FAC_OK) st = fac__redispatch_copy_(below(dst), dst, src, false, &same);
    fac__unref(same);
    fac__unref(src);
    return st;
}

static fac_status reduce(fac_tensor *each, int64_t reduction, fac_tensor **out) {
    if (reduction == REDUCE_SUM) return fac__redispatch_sum(below(each), each, FAC_DTYPE_DEFAULT, out);
    if (reduction == REDUCE_MEAN) return fac__redispatch_mean(below(each), each, FAC_DTYPE_DEFAULT, out);
    *out = fac__ref(each);
    return FAC_OK;
}

static fac_status difference(fac_tensor *self, fac_tensor *target, fac_tensor **out) {
    return fac__redispatch_sub_Tensor(below(self), self, target, fac_scalar_i_(1), out);
}

fac_status mse_loss_cuda(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction) {
    fac_tensor *diff = NULL, *each = NULL, *loss = NULL;
    FAC_TRY(difference(self, target, &diff));
    fac_status st = fac__redispatch_square(below(self), diff, &each);
    fac__unref(diff);
    if (st == FAC_OK) st = reduce(each, reduction, &loss);
    fac__unref(each);
    return give_home(st, s->out[0], loss);
}

/* 2 (self - target) grad, divided by the number of elements for the mean. */
fac_status mse_loss_backward_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                  int64_t reduction) {
    fac_tensor *diff = NULL, *scaled = NULL, *grad = NULL;
    double by = reduction == REDUCE_MEAN ? 2.0 / (double)s->out[0]->numel : 2.0;
    FAC_TRY(difference(self, target, &diff));
    fac_status st = fac__redispatch_mul_Scalar(below(self), diff, fac_scalar_f_(by), &scaled);
    fac__unref(diff);
    if (st == FAC_OK) st = fac__redispatch_mul_Tensor(below(self), scaled, grad_output, &grad);
    fac__unref(scaled);
    return give_home(st, s->out[0], grad);
}
