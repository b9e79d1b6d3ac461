/* Second gradients of margin losses. Their gradients are linear in that of the loss, so the derivative by it is the product of what
   comes in with the gradient for ones. */
#include "autograd/formulas/brief.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static fac_tensor *ones_of(fac_tensor *t) {
    return fac__s_ones_like(t, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
}

/* v times the gradient for ones, summed to the size of the loss's gradient. */
static fac_tensor *along_loss(fac_tensor *v, fac_tensor *for_ones, fac_tensor *grad_output) {
    fac_tensor *products = mul(v, for_ones);
    if (grad_output->ndim == 1 && v->ndim == 2) return sum_over(products, FAC_INTS(1), false);
    return fac__s_reshape(fac__s_sum(products, FAC_DTYPE_DEFAULT), fac__sizes_now(grad_output));
}

fac_tensor *multi_margin_grad_of_grad(fac_tensor *v, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                      fac_scalar p, fac_scalar margin, fac_tensor *weight, int64_t reduction) {
    fac_tensor *for_ones =
        fac__s_multi_margin_loss_backward(ones_of(grad_output), self, target, p, margin, weight, reduction);
    return along_loss(v, for_ones, grad_output);
}

/* With p = 2 the slope of a class is c (margin - x_y + x): where it counts, c (v - v_y), whose sum is taken from the target's. */
fac_tensor *multi_margin_double_grad(fac_tensor *v, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                     fac_scalar p, fac_scalar margin, fac_tensor *weight, int64_t reduction) {
    if (fac__scalar_f64(p) != 2) return zeros_of(self, fac__sizes_now(self));
    if (self->ndim == 0) return zeros_of(self, fac__sizes_now(self)); /* its one class is the target */
    const int64_t last = self->ndim - 1;
    fac_tensor *y = self->ndim == 2 ? fac__s_unsqueeze(target, 1) : fac__s_reshape(target, FAC_INTS(1));
    fac_tensor *at_y = fac__s_gather(self, last, y, false);
    fac_tensor *inside =
        fac__s_gt_Scalar(fac__s_add_Scalar(sub(self, at_y), margin, fac_scalar_i_(1)), fac_scalar_i_(0));
    fac_tensor *c = self->ndim == 2 && grad_output->ndim == 1 ? fac__s_unsqueeze(grad_output, 1) : grad_output;
    c = scaled_by(c, 2.0 / (double)self->sizes[last]);
    if (weight)
        c = mul(
            c, fac__s_reshape(fac__s_index_select(weight, 0, fac__s_reshape(target, FAC_INTS(-1))), fac__sizes_now(y)));
    if (reduction == REDUCE_MEAN && self->ndim == 2) c = divided_by(c, (double)self->sizes[0]);
    fac_tensor *part = mul(mul(sub(v, fac__s_gather(v, last, y, false)), inside), c); /* zero at the target */
    return fac__s_scatter_add(part, last, y, fac__s_neg(sum_over(part, FAC_INTS(last), true)));
}

fac_tensor *multilabel_margin_grad_of_grad(fac_tensor *v, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                           int64_t reduction, fac_tensor *is_target) {
    fac_tensor *for_ones =
        fac__s_multilabel_margin_loss_backward(ones_of(grad_output), self, target, reduction, is_target);
    return along_loss(v, for_ones, grad_output);
}
