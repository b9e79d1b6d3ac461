/* Gradients of copying shape operators, made of public operators. */
#include "autograd/formulas/brief.h"
#include "autograd/node.h"

/* Each tensor's stretch of the joined gradient; empty one-dimensional tensors were left out of the join. */
fac_status cat_grad(fac_tensor **grads, fac_tensor *grad, const fac_saved_sizes_list *sizes, int64_t dim) {
    int64_t d, start = 0;
    FAC_TRY(fac__wrap_dim(dim, grad->ndim, &d));
    for (size_t i = 0; i < sizes->n; i++) {
        fac_ints own = fac__ints_of(&sizes->v[i]);
        bool skipped = own.n == 1 && own.v[0] == 0;
        int64_t length = skipped ? 0 : own.v[d];
        grads[i] = skipped ? zeros_of(grad, own) : fac__s_narrow(grad, d, start, length);
        if (!grads[i]) return fac_error();
        start += length;
    }
    return FAC_OK;
}

/* Entries of a list negated. NULL on failure; freed by the caller. */
static int64_t *negated(fac_ints l) {
    int64_t *v = fac__alloc_array(l.n + 1, sizeof *v);
    for (size_t i = 0; v && i < l.n; i++) v[i] = l.v[i] == INT64_MIN ? INT64_MIN : -l.v[i];
    return v;
}

fac_tensor *roll_grad(fac_tensor *grad, fac_ints shifts, fac_ints dims) {
    int64_t *back = negated(shifts);
    if (!back) return NULL;
    fac_tensor *g = fac__s_roll(grad, (fac_ints){back, shifts.n}, dims);
    fac__free(back);
    return g;
}

fac_tensor *constant_pad_nd_grad(fac_tensor *grad, fac_ints pad) {
    int64_t *back = negated(pad);
    if (!back) return NULL;
    fac_tensor *g = fac__s_constant_pad_nd(grad, (fac_ints){back, pad.n}, fac_scalar_i_(0));
    fac__free(back);
    return g;
}
