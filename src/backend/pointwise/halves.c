/* Pointwise operators over the halves of a tensor along a dimension, which the shape rule has put in s->carry[0]. */
#include "backend/pointwise/pointwise.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

/* Owned: the first or the second half of t along d. */
static fac_status half_of(fac_tensor *t, int64_t d, int which, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) sizes[i] = i == d ? t->sizes[i] / 2 : t->sizes[i];
    const int64_t from = t->numel ? which * sizes[d] * t->strides[d] : 0; /* sizes of nothing may be of any size */
    return fac__view(t, sizes, t->strides, t->ndim, t->offset + from, false, out);
}

typedef struct operand {
    fac_tensor *t;
    int half; /* 0, 1, or all of t */
} operand;
enum { ALL = 2 };

/* Runs a loop over operands, outputs first. */
static fac_status run(fac_structured *s, fac_loop_id id, const operand *operands, int n_out, int n) {
    fac_tensor *views[FAC_ITER_MAX] = {NULL};
    fac_status st = FAC_OK;
    fac_iter_begin(&s->iter, 0);
    for (int i = 0; i < n && st == FAC_OK; i++) {
        if (operands[i].half != ALL) st = half_of(operands[i].t, s->carry[0], operands[i].half, &views[i]);
        fac_tensor *t = views[i] ? views[i] : operands[i].t;
        if (st == FAC_OK) st = (i < n_out ? fac_iter_out : fac_iter_in)(&s->iter, t);
    }
    if (st == FAC_OK) st = fac_iter_build(&s->iter);
    if (st == FAC_OK) st = fac__pointwise(s, id, 0, NULL);
    for (int i = 0; i < n; i++) fac__unref(views[i]);
    return st;
}

fac_status glu_kernel(fac_structured *s, fac_tensor *self, int64_t dim) {
    (void)dim;
    return run(s, FAC_LOOP_glu, (const operand[]){{s->out[0], ALL}, {self, 0}, {self, 1}}, 1, 3);
}
fac_status glu_backward_kernel(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, int64_t dim) {
    (void)dim;
    const operand operands[] = {{s->out[0], 0}, {s->out[0], 1}, {grad_output, ALL}, {self, 0}, {self, 1}};
    return run(s, FAC_LOOP_glu_backward, operands, 2, FAC_COUNT(operands));
}
fac_status glu_jvp_kernel(fac_structured *s, fac_tensor *glu, fac_tensor *x, fac_tensor *dx, int64_t dim) {
    (void)dim;
    const operand operands[] = {{s->out[0], ALL}, {glu, ALL}, {x, 1}, {dx, 0}, {dx, 1}};
    return run(s, FAC_LOOP_glu_jvp, operands, 1, FAC_COUNT(operands));
}
