/* Random fills and dropout: the arguments are checked as on the CPU, and each operator takes one offset of the generator. */
#include "backend/cuda/ops/pointwise.h"
#include "core/generator.h"
#include "core/philox.h"
#include "ops/format.h"
#include "ops/meta/check.h"
#include "ops_gen.h"

extern fac_cuda_kernel FAC_CUDA_KERNEL(random_fill), FAC_CUDA_KERNEL(random_dropout),
    FAC_CUDA_KERNEL(random_dropout_backward);

enum { UNIFORM, NORMAL, BERNOULLI, INTEGERS, EXPONENTIAL }; /* as random.cu counts them */

/* self's dimensions in logical order, the last one first, neighbours merged where self allows it. */
static fac_status plan_of(fac_tensor *self, k_plan *p) {
    int64_t item = fac__item_size(self);
    *p = (k_plan){.numel = self->numel};
    p->op[0].data = fac__data(self);
    p->op[0].dtype = self->dtype;
    for (int d = self->ndim - 1; d >= 0 && self->numel; d--) {
        int last = p->ndim - 1;
        int64_t stride = self->strides[d] * item;
        if (self->sizes[d] == 1) continue;
        if (p->ndim && stride == p->op[0].strides[last] * p->shape[last]) {
            p->shape[last] *= self->sizes[d];
            continue;
        }
        FAC_CHECK(p->ndim < K_DIMS, FAC_ERR_UNSUPPORTED, "random numbers fill at most %d dimensions with gaps on CUDA",
                  (int)K_DIMS);
        p->shape[p->ndim] = self->sizes[d];
        p->op[0].strides[p->ndim++] = stride;
    }
    if (!p->ndim) p->shape[p->ndim++] = 1;
    return FAC_OK;
}

static fac_status draw(const fac_call_info *c, fac_tensor *self, k_plan *p, int kind, int bits, fac_draw drawn,
                       fac_tensor **out) {
    if (self->numel) {
        fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(random_fill), .device = fac__cuda_index(self), .op = c->op};
        fac__cuda_writes(&r, self);
        FAC_TRY(fac__cuda_run_items(&r, FAC_CUDA_ARGS(p, &kind, &drawn.seed, &drawn.offset, &bits), self->numel));
    }
    *out = fac__ref(self);
    return FAC_OK;
}

/* A draw with two parameters of a floating tensor. */
static fac_status draw_real(const fac_call_info *c, fac_tensor *self, int kind, double a, double b, fac_draw drawn,
                            fac_tensor **out) {
    k_plan p;
    FAC_TRY(fac__need_floating("self", self));
    FAC_TRY(fac__check_no_overlap(self));
    FAC_TRY(plan_of(self, &p));
    p.f[0] = a;
    p.f[1] = b;
    int bits = self->dtype == FAC_F16 ? 11 : self->dtype == FAC_BF16 ? 8 : 24;
    return draw(c, self, &p, kind, bits, drawn, out);
}

fac_status normal_cuda_(const fac_call_info *c, fac_tensor *self, double mean, double std, fac_draw drawn,
                        fac_tensor **out) {
    FAC_CHECK(std >= 0, FAC_ERR_ARGUMENT, "normal expects std >= 0.0, but found std %g", std);
    return draw_real(c, self, NORMAL, mean, std, drawn, out);
}

fac_status uniform_cuda_(const fac_call_info *c, fac_tensor *self, double from, double to, fac_draw drawn,
                         fac_tensor **out) {
    FAC_CHECK(from <= to, FAC_ERR_ARGUMENT, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
              from, to);
    return draw_real(c, self, UNIFORM, from, to, drawn, out);
}

fac_status exponential_cuda_(const fac_call_info *c, fac_tensor *self, double lambd, fac_draw drawn, fac_tensor **out) {
    FAC_CHECK(lambd > 0, FAC_ERR_ARGUMENT, "exponential_ expects lambda > 0.0, but found lambda=%g", lambd);
    return draw_real(c, self, EXPONENTIAL, lambd, 0, drawn, out);
}

fac_status bernoulli_float_cuda_(const fac_call_info *c, fac_tensor *self, double p, fac_draw drawn, fac_tensor **out) {
    k_plan plan;
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(fac__check_no_overlap(self));
    FAC_TRY(plan_of(self, &plan));
    plan.op[1].number[0] = p;
    return draw(c, self, &plan, BERNOULLI, 0, drawn, out);
}

/* ---- dropout -------------------------------------------------------------------------------------------------------------------- */

static fac_status run_dropout(const fac_operator *op, fac_tensor *input, fac_tensor *out, fac_tensor *mask,
                              uint64_t threshold, double scale, fac_draw drawn) {
    if (input->numel == 0) return FAC_OK;
    fac_tensor *x;
    FAC_TRY(fac__lying_like_below(input, out, &x));
    void *to = fac__data(out), *keep = fac__data(mask), *from = fac__data(x);
    int64_t n = input->numel;
    int dtype = input->dtype;
    fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(random_dropout), .device = fac__cuda_index(input), .op = op};
    fac__cuda_reads(&r, x);
    fac__cuda_writes(&r, out);
    fac__cuda_writes(&r, mask);
    fac_status st = fac__cuda_run_items(
        &r, FAC_CUDA_ARGS(&to, &keep, &from, &n, &dtype, &drawn.seed, &drawn.offset, &threshold, &scale), n);
    fac__unref(x);
    return st;
}

fac_status native_dropout_cuda(fac_structured *s, fac_tensor *input, double p, fac_opt_num train, fac_draw drawn) {
    bool on = !train.set || fac__scalar_f64(train.v) != 0;
    double keep = on ? 1 - p : 1;
    return run_dropout(s->call->op, input, s->out[0], s->out[1], fac__bernoulli_threshold(keep),
                       keep > 0 ? 1 / keep : 0, drawn);
}

static fac_status run_dropout_backward(const fac_operator *op, fac_tensor *g, fac_tensor *mask, fac_tensor *dx,
                                       double scale) {
    void *to = fac__data(dx), *from = fac__data(g), *keep = fac__data(mask);
    int64_t n = g->numel;
    int dtype = g->dtype;
    fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(random_dropout_backward), .device = fac__cuda_index(g), .op = op};
    fac__cuda_reads(&r, g);
    fac__cuda_reads(&r, mask);
    fac__cuda_writes(&r, dx);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&to, &from, &keep, &n, &dtype, &scale), n);
}

fac_status native_dropout_backward_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *mask, double scale) {
    if (grad_output->numel == 0) return FAC_OK;
    fac_tensor *g = NULL, *keep = NULL;
    fac_status st = fac__lying_like_below(grad_output, s->out[0], &g);
    if (st == FAC_OK) st = fac__lying_like_below(mask, s->out[0], &keep);
    if (st == FAC_OK) st = run_dropout_backward(s->call->op, g, keep, s->out[0], scale);
    fac__unref(g);
    fac__unref(keep);
    return st;
}
