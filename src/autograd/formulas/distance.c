/* Gradients of the gradients of distances. With d = x_i - y_j and r the distance, _cdist_backward sums g f over j, where
   f = sign(d) |d|^(p - 1) / r^(p - 1); of infinite p, f is sign(d) where |d| is r. */
#include "autograd/formulas/brief.h"
#include "core/scalar.h"
#include <math.h>

/* A pair's difference d, distance r and gradient g, and w, what flows to f g: all [*, D] or, where they are the same for every
   coordinate, [*, 1]. */
typedef struct pair {
    fac_tensor *w, *g, *d, *r;
    double p;
} pair;

static fac_tensor *power(fac_tensor *t, double p) { return fac__s_pow_Tensor_Scalar(t, fac_scalar_f_(p)); }

/* t where a distance and a difference have a direction, else 0. */
static fac_tensor *directed(const pair *q, fac_tensor *t) {
    fac_tensor *none = fac__s_logical_or(is_zero(q->r), is_zero(q->d));
    return fill_where(t, none, 0);
}

static fac_tensor *slope(const pair *q) {
    fac_tensor *sign = fac__s_sign(q->d);
    if (q->p == 1) return sign;
    if (isinf(q->p)) return mul(sign, fac__s_eq_Tensor(fac__s_abs(q->d), q->r));
    if (q->p == 0) return scaled_by(sign, 0);
    return directed(q, mul(sign, power(divide(fac__s_abs(q->d), q->r), q->p - 1)));
}

/* The slope of f for d, and for r. They vanish where p is 0, 1 or infinite. */
static bool is_flat(double p) { return p == 0 || p == 1 || isinf(p); }
static fac_tensor *slope_of_d(const pair *q) {
    fac_tensor *at = divide(power(divide(fac__s_abs(q->d), q->r), q->p - 2), q->r);
    return q->p == 2 ? fill_where(at, is_zero(q->r), 0) : directed(q, scaled_by(at, q->p - 1));
}
static fac_tensor *slope_of_r(const pair *q) { return scaled_by(divide(directed(q, slope(q)), q->r), 1 - q->p); }

static fac_tensor *zeros_for(fac_tensor *t) { return zeros_of(t, fac__sizes_now(t)); }
static fac_tensor *over_coordinates(fac_tensor *t) { return sum_over(t, FAC_INTS(-1), false); }

/* What flows to g and to r; *to_d, to d. NULL there: nothing. */
static fac_status flows(const pair *q, fac_tensor **to_g, fac_tensor **to_r, fac_tensor **to_d) {
    *to_g = over_coordinates(mul(q->w, slope(q)));
    *to_r = *to_d = NULL;
    if (*to_g && !is_flat(q->p)) {
        fac_tensor *wg = mul(q->w, q->g);
        *to_d = mul(wg, slope_of_d(q));
        *to_r = over_coordinates(fill_where(mul(wg, slope_of_r(q)), is_zero(q->r), 0));
        return *to_d && *to_r ? FAC_OK : fac_error();
    }
    return *to_g ? FAC_OK : fac_error();
}

/* grad [*, P, D] flows back to all pairs [*, P, R, D]. */
fac_status cdist_backward_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *grad_output, fac_tensor *x1,
                               fac_tensor *x2, double p, fac_tensor *cdist) {
    pair q = {.w = fac__s_unsqueeze(grad, -2),
              .g = fac__s_unsqueeze(grad_output, -1),
              .d = sub(fac__s_unsqueeze(x1, -2), fac__s_unsqueeze(x2, -3)),
              .r = fac__s_unsqueeze(cdist, -1),
              .p = p};
    fac_tensor *to_d;
    FAC_TRY(flows(&q, &grads[0], &grads[3], &to_d));
    grads[1] = to_d ? sum_over(to_d, FAC_INTS(-2), false) : zeros_for(x1);
    grads[2] = to_d ? fac__s_neg(sum_over(to_d, FAC_INTS(-3), false)) : zeros_for(x2);
    if (!to_d) grads[3] = zeros_for(cdist);
    return grads[1] && grads[2] && grads[3] ? FAC_OK : fac_error();
}

/* Pairs are rows i < j in order; each difference is theirs. */
fac_status pdist_backward_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *grad_output, fac_tensor *self,
                               double p, fac_tensor *pdist) {
    const int64_t n = self->sizes[0];
    fac_tensor *at = fac__s_triu_indices(n, n, 1, FAC_I64, FAC_STRIDED, self->device, (fac_opt_num){0});
    fac_tensor *i = fac__s_select_int(at, 0, 0), *j = fac__s_select_int(at, 0, 1);
    pair q = {.w = sub(fac__s_index_select(grad, 0, i), fac__s_index_select(grad, 0, j)),
              .g = fac__s_unsqueeze(grad_output, -1),
              .d = sub(fac__s_index_select(self, 0, i), fac__s_index_select(self, 0, j)),
              .r = fac__s_unsqueeze(pdist, -1),
              .p = p};
    fac_tensor *to_d;
    FAC_TRY(flows(&q, &grads[0], &grads[2], &to_d));
    grads[1] = zeros_for(self);
    if (!to_d) {
        grads[2] = zeros_for(pdist);
    } else {
        grads[1] = fac__s_index_add(grads[1], 0, i, to_d, fac_scalar_i_(1));
        grads[1] = fac__s_index_add(grads[1], 0, j, to_d, fac_scalar_i_(-1));
    }
    return grads[1] && grads[2] ? FAC_OK : fac_error();
}
