/* Gradients of operators that are for the vendor layout alone. */
#include "ops/vendor/parts.h"

static fac_tensor *strided(fac_tensor *t) { return t ? fac__s_to_dense(t, FAC_DTYPE_DEFAULT, (fac_opt_num){0}) : NULL; }
/* In the layout of what it is the gradient of. */
static fac_tensor *as(fac_tensor *grad, const fac_tensor *of) {
    return grad && fac__vendor_of(of) ? fac__s_to_mkldnn(grad, FAC_DTYPE_DEFAULT) : grad;
}

/* y = x w^T + b, over all rows of x. */
fac_status mkldnn_linear_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *self, fac_tensor *weight,
                              fac_tensor *bias, bool needs_self, bool needs_weight, bool needs_bias) {
    fac_tensor *g = strided(grad), *x = strided(self), *w = strided(weight);
    if (!g || !x || !w) return fac_error();
    const int64_t ins = w->sizes[w->ndim - 1], outs = w->ndim == 2 ? w->sizes[0] : 1;
    int64_t n = 1;
    for (int i = 0; i < x->ndim - 1; i++) n *= x->sizes[i];
    fac_tensor *rows = fac__s_reshape(g, FAC_INTS(n, outs));
    if (needs_self) {
        fac_tensor *dx = fac__s_mm(rows, fac__s_reshape(w, FAC_INTS(outs, ins)));
        grads[0] = as(fac__s_reshape(dx, (fac_ints){x->sizes, x->ndim}), self);
    }
    if (needs_weight) {
        fac_tensor *dw = fac__s_mm(fac__s_t(rows), fac__s_reshape(x, FAC_INTS(n, ins)));
        grads[1] = as(fac__s_reshape(dw, (fac_ints){w->sizes, w->ndim}), weight);
    }
    if (needs_bias) {
        fac_tensor *db = fac__s_sum_dim_IntList(rows, FAC_INTS(0), false, FAC_DTYPE_DEFAULT);
        grads[2] = as(fac__s_reshape(db, (fac_ints){bias->sizes, bias->ndim}), bias);
    }
    return fac_error();
}
