/* Losses over classes: each target's loss and weight go to scratch memory in double; one block adds them up in a fixed order. */
#include "backend/cuda/ops/pointwise.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

extern fac_cuda_kernel FAC_CUDA_KERNEL(rows_nll_f32), FAC_CUDA_KERNEL(rows_nll_f64),
    FAC_CUDA_KERNEL(rows_nll_backward_f32), FAC_CUDA_KERNEL(rows_nll_backward_f64), FAC_CUDA_KERNEL(rows_nll_finish);

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* Operands, row-major and owned: x [outer, classes, inner], targets [outer, inner]. */
typedef struct nll_job {
    const fac_operator *op;
    fac_tensor *x, *target, *weight;
    int64_t n, classes, inner, ignore;
    int dtype, target_dtype;
} nll_job;

static void *data_of(const fac_tensor *t) { return t ? fac__data(t) : NULL; }

static void job_close(nll_job *j) {
    fac__unref(j->x);
    fac__unref(j->target);
    fac__unref(j->weight);
}

static fac_status job_open(nll_job *j, const fac_operator *op, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                           int64_t ignore) {
    int d = self->ndim == 1 ? 0 : 1;
    *j = (nll_job){.op = op,
                   .n = target->numel,
                   .classes = self->sizes[d],
                   .inner = 1,
                   .ignore = ignore,
                   .dtype = self->dtype,
                   .target_dtype = target->dtype};
    for (int i = d + 1; i < self->ndim; i++) j->inner = fac__mul_or_max(j->inner, self->sizes[i]);
    fac_status st = fac__cuda_contiguous(self, &j->x);
    if (st == FAC_OK) st = fac__cuda_contiguous(target, &j->target);
    if (st == FAC_OK) st = fac__cuda_contiguous(weight, &j->weight);
    if (st != FAC_OK) job_close(j);
    return st;
}

/* ---- forward ---------------------------------------------------------------------------------------------------------------- */

/* parts: [2][n], losses and weights. */
static fac_status run_each(nll_job *j, fac_tensor *parts, fac_tensor *sums) {
    if (j->n == 0) return FAC_OK;
    double *loss = fac__data(parts), *of_class = loss + j->n;
    void *row_sums = data_of(sums), *x = fac__data(j->x), *target = fac__data(j->target), *w = data_of(j->weight);
    int sums_dtype = sums ? sums->dtype : FAC_F32;
    k_bounds bounds = {.dim = K_DIM_CLASS};
    fac_cuda_run r = {.kernel = j->dtype == FAC_F64 ? &FAC_CUDA_KERNEL(rows_nll_f64) : &FAC_CUDA_KERNEL(rows_nll_f32),
                      .device = fac__cuda_index(j->x),
                      .op = j->op,
                      .bounds = &bounds};
    fac__cuda_reads(&r, j->x);
    fac__cuda_reads(&r, j->target);
    fac__cuda_reads(&r, j->weight);
    fac__cuda_writes(&r, parts);
    fac__cuda_writes(&r, sums);
    return fac__cuda_run_items(&r,
                               FAC_CUDA_ARGS(&loss, &of_class, &row_sums, &x, &target, &w, &j->n, &j->classes,
                                             &j->inner, &j->ignore, &j->dtype, &j->target_dtype, &sums_dtype, &bounds),
                               j->n);
}

static fac_status run_finish(nll_job *j, fac_tensor *parts, fac_tensor *out, fac_tensor *total, int mean) {
    double *loss = fac__data(parts), *of_class = loss + j->n;
    void *to = fac__data(out), *to_total = fac__data(total);
    fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(rows_nll_finish), .device = fac__cuda_index(out), .op = j->op};
    fac__cuda_reads(&r, parts);
    fac__cuda_writes(&r, out);
    fac__cuda_writes(&r, total);
    return fac__cuda_run_rows(&r, FAC_CUDA_ARGS(&to, &to_total, &loss, &of_class, &j->n, &j->dtype, &mean), 1, j->n);
}

/* out <- the losses, one by one. */
static fac_status keep_each(fac_tensor *out, fac_tensor *total, fac_tensor *parts) {
    fac_tensor *losses;
    FAC_TRY(fac__cuda_fill(total, fac_scalar_i_(0)));
    int64_t strides[FAC_MAX_DIMS], step = 1;
    for (int d = out->ndim - 1; d >= 0; d--) {
        strides[d] = step;
        step *= out->sizes[d];
    }
    FAC_TRY(fac__view(parts, out->sizes, strides, out->ndim, parts->offset, false, &losses));
    fac_status st = fac__cuda_copy_elements(out, losses);
    fac__unref(losses);
    return st;
}

static fac_status forward(nll_job *j, fac_tensor *out, fac_tensor *sums, fac_tensor *total, bool each,
                          int64_t reduction) {
    fac_tensor *parts;
    const int64_t sizes[2] = {2, j->n};
    FAC_TRY(fac__empty(sizes, 2, FAC_F64, j->x->device, &parts));
    fac_status st = run_each(j, parts, sums);
    if (st == FAC_OK)
        st = each ? keep_each(out, total, parts) : run_finish(j, parts, out, total, reduction == REDUCE_MEAN);
    fac__unref(parts);
    return st;
}

fac_status nll_loss_forward_cuda(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                 int64_t reduction, int64_t ignore_index) {
    nll_job j;
    FAC_TRY(job_open(&j, s->call->op, self, target, weight, ignore_index));
    fac_status st = forward(&j, s->out[0], NULL, s->out[1], reduction == REDUCE_NONE && self->ndim > 1, reduction);
    job_close(&j);
    return st;
}

fac_status _cross_entropy_cuda(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                               int64_t reduction, int64_t ignore_index) {
    nll_job j;
    fac_tensor *sums;
    FAC_TRY(job_open(&j, s->call->op, self, target, weight, ignore_index));
    fac_status st = fac__cuda_result(s->out[1], &sums);
    if (st == FAC_OK) st = forward(&j, s->out[0], sums, s->out[2], reduction == REDUCE_NONE, reduction);
    st = fac__cuda_result_done(s->out[1], sums, st);
    job_close(&j);
    return st;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------------ */

static fac_status run_backward(nll_job *j, fac_tensor *dx, fac_tensor *grad, fac_tensor *sums, fac_tensor *total,
                               int each) {
    void *to = fac__data(dx), *g = fac__data(grad), *x = fac__data(j->x), *row_sums = data_of(sums);
    void *target = fac__data(j->target), *w = data_of(j->weight), *weights = data_of(total);
    int sums_dtype = sums ? sums->dtype : FAC_F32;
    bool wide = j->dtype == FAC_F64;
    k_bounds bounds = {.dim = K_DIM_CLASS};
    fac_cuda_run r = {.kernel =
                          wide ? &FAC_CUDA_KERNEL(rows_nll_backward_f64) : &FAC_CUDA_KERNEL(rows_nll_backward_f32),
                      .device = fac__cuda_index(dx),
                      .op = j->op,
                      .bounds = &bounds};
    const fac_tensor *const in[] = {grad, j->x, sums, j->target, j->weight, total};
    for (size_t i = 0; i < FAC_COUNT(in); i++) fac__cuda_reads(&r, in[i]);
    fac__cuda_writes(&r, dx);
    return fac__cuda_run_items(&r,
                               FAC_CUDA_ARGS(&to, &g, &x, &row_sums, &target, &w, &weights, &j->n, &j->classes,
                                             &j->inner, &j->ignore, &j->dtype, &j->target_dtype, &sums_dtype, &each,
                                             &bounds),
                               j->n * j->classes);
}

static fac_status backward(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                           fac_tensor *weight, int64_t reduction, int64_t ignore_index, fac_tensor *row_sums,
                           fac_tensor *total_weight) {
    nll_job j;
    fac_tensor *out = s->out[0], *grad = NULL, *sums = NULL, *dx = NULL;
    if (out->numel == 0) return FAC_OK;
    FAC_TRY(job_open(&j, s->call->op, self, target, weight, ignore_index));
    fac_status st = fac__cuda_contiguous(grad_output, &grad);
    if (st == FAC_OK) st = fac__cuda_contiguous(row_sums, &sums);
    if (st == FAC_OK) st = fac__cuda_result(out, &dx);
    if (st == FAC_OK)
        st = run_backward(&j, dx, grad, sums, reduction == REDUCE_MEAN ? total_weight : NULL,
                          reduction == REDUCE_NONE && self->ndim > 1);
    st = fac__cuda_result_done(out, dx, st);
    fac__unref(sums);
    fac__unref(grad);
    job_close(&j);
    return st;
}

fac_status nll_loss_backward_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                  fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                  fac_tensor *total_weight) {
    return backward(s, grad_output, self, target, weight, reduction, ignore_index, NULL, total_weight);
}
fac_status _cross_entropy_backward_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                        fac_tensor *target, fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                        fac_tensor *row_sums, fac_tensor *total_weight) {
    return backward(s, grad_output, self, target, weight, reduction, ignore_index, row_sums, total_weight);
}
