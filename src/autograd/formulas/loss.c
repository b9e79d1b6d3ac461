/* Second gradients of losses. Where a loss is f(d) with d = self - target, its gradient is g f'(d) c, c being 1/N for a mean;
   the gradient of that for g is v f'(d) c and for self v g f''(d) c, for a gradient v. */
#include "autograd/formulas/brief.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* v g c, the part that does not depend on the loss. */
static fac_tensor *share(fac_tensor *v, fac_tensor *grad_output, int64_t reduction) {
    fac_tensor *t = mul(v, grad_output);
    return t && reduction == REDUCE_MEAN ? divided_by(t, (double)t->numel) : t;
}

static fac_tensor *averaged(fac_tensor *t, int64_t reduction) {
    return t && reduction == REDUCE_MEAN ? divided_by(t, (double)t->numel) : t;
}

static fac_tensor *less(fac_tensor *a, double x) { return fac__s_lt_Scalar(a, fac_scalar_f_(x)); }

fac_tensor *mse_grad_of_grad(fac_tensor *v, fac_tensor *self, fac_tensor *target, int64_t reduction) {
    return averaged(mul(v, scaled_by(sub(self, target), 2)), reduction);
}

fac_tensor *mse_double_grad(fac_tensor *v, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                            int64_t reduction) {
    (void)self, (void)target;
    return scaled_by(share(v, grad_output, reduction), 2);
}

fac_tensor *smooth_l1_grad_of_grad(fac_tensor *v, fac_tensor *self, fac_tensor *target, int64_t reduction,
                                   double beta) {
    fac_tensor *d = sub(self, target);
    if (beta == 0) return averaged(mul(v, fac__s_sign(d)), reduction);
    fac_tensor *slope = fac__s_where_self(less(fac__s_abs(d), beta), divided_by(d, beta), fac__s_sign(d));
    return averaged(mul(v, slope), reduction);
}

fac_tensor *smooth_l1_double_grad(fac_tensor *v, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                  int64_t reduction, double beta) {
    fac_tensor *inside = less(fac__s_abs(sub(self, target)), beta);
    return mul(share(v, grad_output, reduction), beta == 0 ? inside : divided_by(inside, beta));
}

fac_tensor *huber_grad_of_grad(fac_tensor *v, fac_tensor *self, fac_tensor *target, int64_t reduction, double delta) {
    fac_tensor *d = sub(self, target);
    fac_tensor *inside = fac__s_le_Scalar(fac__s_abs(d), fac_scalar_f_(delta));
    fac_tensor *slope = fac__s_where_self(inside, d, scaled_by(fac__s_sign(d), delta));
    return averaged(mul(v, slope), reduction);
}

fac_tensor *huber_double_grad(fac_tensor *v, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                              int64_t reduction, double delta) {
    fac_tensor *inside = fac__s_le_Scalar(fac__s_abs(sub(self, target)), fac_scalar_f_(delta));
    return mul(share(v, grad_output, reduction), inside);
}

/* ---- binary cross entropy --------------------------------------------------------------------------------------------- */

static fac_tensor *weighted(fac_tensor *t, fac_tensor *weight) { return weight ? mul(t, weight) : t; }
static fac_tensor *one_minus(fac_tensor *t) { return fac__s_rsub_Scalar(t, fac_scalar_i_(1), fac_scalar_i_(1)); }

/* The loss is linear in the target: log(1 - x) - log(x), each held above -100. */
fac_tensor *binary_cross_entropy_target_grad(fac_tensor *grad, fac_tensor *self, fac_tensor *weight, int64_t reduction,
                                             int64_t n) {
    fac_tensor *of_one = fac__s_clamp_min(fac__s_log(self), fac_scalar_i_(-100));
    fac_tensor *of_zero = fac__s_clamp_min(fac__s_log1p(fac__s_neg(self)), fac_scalar_i_(-100));
    fac_tensor *g = weighted(mul(grad, sub(of_zero, of_one)), weight);
    return reduction == REDUCE_MEAN ? divided_by(g, (double)n) : g;
}

/* The gradient is g c (x - t) / q with q = x (1 - x) held above 1e-12. */
fac_status binary_cross_entropy_double_grads(fac_tensor **grads, fac_tensor *v, fac_tensor *grad_output,
                                             fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                             int64_t reduction) {
    fac_tensor *d = sub(self, target);
    fac_tensor *q = fac__s_clamp_min(mul(self, one_minus(self)), fac_scalar_f_(1e-12));
    fac_tensor *slope = divide(weighted(d, weight), q);
    fac_tensor *c = divide(weighted(share(v, grad_output, reduction), weight), q);
    grads[0] = averaged(mul(v, slope), reduction);
    /* d/dx of (x - t)/q is 1/q - (x - t)(1 - 2x)/q^2 */
    grads[1] = mul(c, one_minus(divide(mul(d, one_minus(scaled_by(self, 2))), q)));
    grads[2] = fac__s_neg(c);
    return fac_error();
}

/* ---- cross entropy of logits ------------------------------------------------------------------------------------------- */

/* dx = c_i (p - [class]), c_i = w g_i / total, p = softmax(x): for a gradient v of dx, with s = sum p v by row,
   the gradient for g is w (s - v_class) / total and for x c_i p (v - s). */
fac_status cross_entropy_double_grads(fac_tensor **grads, fac_tensor *v, fac_tensor *grad_output, fac_tensor *self,
                                      fac_tensor *target, fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                      fac_tensor *total_weight) {
    fac_tensor *p = fac__s__softmax(self, 1, false);
    fac_tensor *rest = sub(v, sum_over(mul(p, v), FAC_INTS(1), true));
    grads[0] = fac__s_nll_loss_forward(rest, target, weight, reduction, ignore_index).output;
    fac_tensor *picked =
        fac__s_nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight);
    grads[1] = fac__s_neg(mul(mul(p, rest), sum_over(picked, FAC_INTS(1), true)));
    return fac_error();
}
