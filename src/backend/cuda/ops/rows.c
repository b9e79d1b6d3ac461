/* Softmax, layer norm, RMS norm and losses over classes: kernels work on rows without gaps, so operands that lie otherwise are
   copied first, and results are copied to where they belong. */
#include "backend/cuda/ops/pointwise.h"
#include "core/tensor_make.h"
#include "ops/meta/reduce.h"
#include "ops_gen.h"

#define DECLARE(name) extern fac_cuda_kernel FAC_CUDA_KERNEL(rows_##name##_f32), FAC_CUDA_KERNEL(rows_##name##_f64);
DECLARE(softmax)
DECLARE(softmax_backward)
DECLARE(norm)
DECLARE(norm_backward)
DECLARE(norm_parameters)
DECLARE(nll)
DECLARE(nll_backward)
#define PICK(name, dtype) \
    ((dtype) == FAC_F64 ? &FAC_CUDA_KERNEL(rows_##name##_f64) : &FAC_CUDA_KERNEL(rows_##name##_f32))

static void *data_of(const fac_tensor *t) { return t ? fac__data(t) : NULL; }
static int dtype_of(const fac_tensor *t, const fac_tensor *otherwise) { return t ? t->dtype : otherwise->dtype; }

/* ---- softmax ------------------------------------------------------------------------------------------------------------------ */

/* t with the dimension in `mask` moved to the end; owned. */
static fac_status lines_of(fac_tensor *t, uint64_t mask, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    int n = 0, line = mask ? __builtin_ctzll(mask) : -1;
    for (int d = 0; d < t->ndim; d++) {
        if (d == line) continue;
        sizes[n] = t->sizes[d];
        strides[n++] = t->strides[d];
    }
    if (line >= 0) {
        sizes[n] = t->sizes[line];
        strides[n++] = t->strides[line];
    }
    return fac__view(t, sizes, strides, n, t->offset, false, out);
}

static fac_status contiguous_lines(fac_tensor *t, uint64_t mask, fac_tensor **out) {
    fac_tensor *lines;
    FAC_TRY(lines_of(t, mask, &lines));
    fac_status st = fac__cuda_contiguous(lines, out);
    fac__unref(lines);
    return st;
}

static fac_status softmax_lines(const fac_operator *op, fac_tensor *x, fac_tensor *y, int logarithm) {
    int64_t n = x->ndim ? x->sizes[x->ndim - 1] : 1, rows = x->numel / n;
    fac_tensor *result;
    FAC_TRY(fac__cuda_result(y, &result));
    int dtype = x->dtype, out_dtype = y->dtype;
    void *out = fac__data(result), *in = fac__data(x);
    fac_cuda_run r = {.kernel = PICK(softmax, y->dtype), .device = fac__cuda_index(x), .op = op};
    fac__cuda_reads(&r, x);
    fac__cuda_writes(&r, result);
    fac_status st =
        fac__cuda_run_rows(&r, FAC_CUDA_ARGS(&out, &in, &rows, &n, &dtype, &out_dtype, &logarithm), rows, n);
    return fac__cuda_result_done(y, result, st);
}

static fac_status softmax(fac_structured *s, fac_tensor *self, int logarithm) {
    if (self->numel == 0) return FAC_OK;
    fac_tensor *x, *y;
    FAC_TRY(contiguous_lines(self, fac__carried_mask(s), &x));
    fac_status st = lines_of(s->out[0], fac__carried_mask(s), &y);
    if (st == FAC_OK) {
        st = softmax_lines(s->call->op, x, y, logarithm);
        fac__unref(y);
    }
    fac__unref(x);
    return st;
}

fac_status _softmax_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool half_to_float) {
    (void)dim, (void)half_to_float;
    return softmax(s, self, 0);
}
fac_status _log_softmax_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool half_to_float) {
    (void)dim, (void)half_to_float;
    return softmax(s, self, 1);
}

static fac_status softmax_backward_lines(const fac_operator *op, fac_tensor *g, fac_tensor *y, fac_tensor *dx,
                                         int logarithm) {
    int64_t n = y->ndim ? y->sizes[y->ndim - 1] : 1, rows = y->numel / n;
    fac_tensor *result;
    FAC_TRY(fac__cuda_result(dx, &result));
    int dtype = y->dtype, out_dtype = dx->dtype;
    void *out = fac__data(result), *grad = fac__data(g), *made = fac__data(y);
    fac_cuda_run r = {.kernel = PICK(softmax_backward, y->dtype), .device = fac__cuda_index(y), .op = op};
    fac__cuda_reads(&r, g);
    fac__cuda_reads(&r, y);
    fac__cuda_writes(&r, result);
    fac_status st =
        fac__cuda_run_rows(&r, FAC_CUDA_ARGS(&out, &grad, &made, &rows, &n, &dtype, &out_dtype, &logarithm), rows, n);
    return fac__cuda_result_done(dx, result, st);
}

static fac_status softmax_backward(fac_structured *s, fac_tensor *grad, fac_tensor *output, int logarithm) {
    if (grad->numel == 0) return FAC_OK;
    uint64_t mask = fac__carried_mask(s);
    fac_tensor *g, *y = NULL, *dx = NULL;
    FAC_TRY(contiguous_lines(grad, mask, &g));
    fac_status st = contiguous_lines(output, mask, &y);
    if (st == FAC_OK) st = lines_of(s->out[0], mask, &dx);
    if (st == FAC_OK) st = softmax_backward_lines(s->call->op, g, y, dx, logarithm);
    fac__unref(dx);
    fac__unref(y);
    fac__unref(g);
    return st;
}

fac_status _softmax_backward_data_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *output, int64_t dim,
                                       fac_dtype input_dtype) {
    (void)dim, (void)input_dtype;
    return softmax_backward(s, grad_output, output, 0);
}
fac_status _log_softmax_backward_data_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *output, int64_t dim,
                                           fac_dtype input_dtype) {
    (void)dim, (void)input_dtype;
    return softmax_backward(s, grad_output, output, 1);
}

/* ---- norms ----------------------------------------------------------------------------------------------------------------------- */

/* Operands of a norm; those of the other direction are NULL. Weight and bias share a dtype, mean and rstd too. */
typedef struct norm_job {
    const fac_operator *op;
    fac_tensor *x, *grad, *weight, *bias, *mean, *rstd; /* row-major, owned */
    int64_t n, rows;
    double eps;
    int centred;
} norm_job;

static void norm_close(norm_job *j) {
    fac_tensor *const all[] = {j->x, j->grad, j->weight, j->bias, j->mean, j->rstd};
    for (size_t i = 0; i < FAC_COUNT(all); i++) fac__unref(all[i]);
}

static int64_t row_length(fac_ints shape) {
    int64_t n = 1;
    for (size_t i = 0; i < shape.n; i++) n *= shape.v[i];
    return n;
}

static fac_status run_norm(norm_job *j, fac_tensor *y, fac_tensor *mean, fac_tensor *rstd) {
    void *out = fac__data(y), *mu = data_of(mean), *scale = data_of(rstd);
    void *x = fac__data(j->x), *w = data_of(j->weight), *b = data_of(j->bias);
    int dtype = j->x->dtype, w_dtype = dtype_of(j->weight, j->bias ? j->bias : j->x), stat_dtype = rstd->dtype;
    fac_cuda_run r = {.kernel = PICK(norm, dtype), .device = fac__cuda_index(j->x), .op = j->op};
    fac__cuda_reads(&r, j->x);
    fac__cuda_reads(&r, j->weight);
    fac__cuda_reads(&r, j->bias);
    fac__cuda_writes(&r, y);
    fac__cuda_writes(&r, mean);
    fac__cuda_writes(&r, rstd);
    return fac__cuda_run_rows(&r,
                              FAC_CUDA_ARGS(&out, &mu, &scale, &x, &w, &b, &j->rows, &j->n, &j->eps, &dtype, &w_dtype,
                                            &stat_dtype, &j->centred),
                              j->rows, j->n);
}

static fac_status norm_results(norm_job *j, fac_tensor *y, fac_tensor *mean, fac_tensor *rstd) {
    fac_tensor *to_y = NULL, *to_mean = NULL, *to_rstd = NULL;
    fac_status st = fac__cuda_result(y, &to_y);
    if (st == FAC_OK) st = fac__cuda_result(mean, &to_mean);
    if (st == FAC_OK) st = fac__cuda_result(rstd, &to_rstd);
    if (st == FAC_OK) st = run_norm(j, to_y, to_mean, to_rstd);
    st = fac__cuda_result_done(y, to_y, st);
    st = fac__cuda_result_done(mean, to_mean, st);
    return fac__cuda_result_done(rstd, to_rstd, st);
}

static fac_status norm(const fac_operator *op, fac_tensor *const *outs, fac_tensor *input, fac_ints shape,
                       fac_tensor *weight, fac_tensor *bias, double eps, int centred) {
    if (input->numel == 0) return FAC_OK;
    norm_job j = {.op = op, .n = row_length(shape), .eps = eps, .centred = centred};
    j.rows = input->numel / j.n;
    fac_status st = fac__cuda_contiguous(input, &j.x);
    if (st == FAC_OK) st = fac__cuda_contiguous(weight, &j.weight);
    if (st == FAC_OK) st = fac__cuda_contiguous(bias, &j.bias);
    if (st == FAC_OK) st = norm_results(&j, outs[0], outs[1], outs[2]);
    norm_close(&j);
    return st;
}

fac_status native_layer_norm_cuda(fac_structured *s, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                                  fac_tensor *bias, double eps) {
    return norm(s->call->op, s->out, input, normalized_shape, weight, bias, eps, 1);
}
fac_status _fused_rms_norm_cuda(fac_structured *s, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                                fac_opt_num eps) {
    double by_dtype = input->dtype == FAC_F64 ? 0x1p-52 : 0x1p-23;
    fac_tensor *const outs[] = {s->out[0], NULL, s->out[1]};
    return norm(s->call->op, outs, input, normalized_shape, weight, NULL, eps.set ? fac__scalar_f64(eps.v) : by_dtype,
                0);
}

static fac_status run_norm_input(const norm_job *j, fac_tensor *dx) {
    void *out = fac__data(dx), *g = fac__data(j->grad), *x = fac__data(j->x);
    void *mu = data_of(j->mean), *scale = fac__data(j->rstd), *w = data_of(j->weight);
    int dtype = j->x->dtype, w_dtype = dtype_of(j->weight, j->x), stat_dtype = j->rstd->dtype, centred = j->centred;
    int64_t rows = j->rows, n = j->n;
    fac_cuda_run r = {.kernel = PICK(norm_backward, dtype), .device = fac__cuda_index(j->x), .op = j->op};
    const fac_tensor *const in[] = {j->grad, j->x, j->mean, j->rstd, j->weight};
    for (size_t i = 0; i < FAC_COUNT(in); i++) fac__cuda_reads(&r, in[i]);
    fac__cuda_writes(&r, dx);
    return fac__cuda_run_rows(
        &r, FAC_CUDA_ARGS(&out, &g, &x, &mu, &scale, &w, &rows, &n, &dtype, &w_dtype, &stat_dtype, &centred), rows, n);
}

static fac_status run_norm_parameters(const norm_job *j, fac_tensor *dw, fac_tensor *db) {
    void *of_w = data_of(dw), *of_b = data_of(db), *g = fac__data(j->grad), *x = fac__data(j->x);
    void *mu = data_of(j->mean), *scale = fac__data(j->rstd);
    int dtype = j->x->dtype, w_dtype = dtype_of(dw, db), stat_dtype = j->rstd->dtype;
    int64_t rows = j->rows, n = j->n;
    fac_cuda_run r = {.kernel = PICK(norm_parameters, dtype), .device = fac__cuda_index(j->x), .op = j->op};
    const fac_tensor *const in[] = {j->grad, j->x, j->mean, j->rstd};
    for (size_t i = 0; i < FAC_COUNT(in); i++) fac__cuda_reads(&r, in[i]);
    fac__cuda_writes(&r, dw);
    fac__cuda_writes(&r, db);
    return fac__cuda_run_items(
        &r, FAC_CUDA_ARGS(&of_w, &of_b, &g, &x, &mu, &scale, &rows, &n, &dtype, &w_dtype, &stat_dtype), n);
}

static fac_status zero(fac_tensor *t) { return t && t->numel ? fac__cuda_fill(t, fac_scalar_i_(0)) : FAC_OK; }

/* d: gradients of input, weight and bias, row-major; NULL where not wanted. */
static fac_status norm_backward(norm_job *j, fac_tensor *const *d) {
    if (d[0]) FAC_TRY(run_norm_input(j, d[0]));
    return d[1] || d[2] ? run_norm_parameters(j, d[1], d[2]) : FAC_OK;
}

static fac_status norm_gradients(const fac_operator *op, fac_tensor *const *homes, fac_tensor *grad_out,
                                 fac_tensor *input, fac_ints shape, fac_tensor *mean, fac_tensor *rstd,
                                 fac_tensor *weight, int centred) {
    if (input->numel == 0) {
        FAC_TRY(zero(homes[1]));
        return zero(homes[2]);
    }
    norm_job j = {.op = op, .n = row_length(shape), .centred = centred};
    fac_tensor *d[3] = {NULL, NULL, NULL};
    j.rows = input->numel / j.n;
    fac_status st = fac__cuda_contiguous(input, &j.x);
    if (st == FAC_OK) st = fac__cuda_contiguous(grad_out, &j.grad);
    if (st == FAC_OK) st = fac__cuda_contiguous(weight, &j.weight);
    if (st == FAC_OK) st = fac__cuda_contiguous(mean, &j.mean);
    if (st == FAC_OK) st = fac__cuda_contiguous(rstd, &j.rstd);
    for (int i = 0; i < 3 && st == FAC_OK; i++) st = fac__cuda_result(homes[i], &d[i]);
    if (st == FAC_OK) st = norm_backward(&j, d);
    for (int i = 0; i < 3; i++) st = fac__cuda_result_done(homes[i], d[i], st);
    norm_close(&j);
    return st;
}

fac_status native_layer_norm_backward_cuda(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                           fac_ints normalized_shape, fac_tensor *mean, fac_tensor *rstd,
                                           fac_tensor *weight, fac_tensor *bias, fac_ints output_mask) {
    (void)bias, (void)output_mask;
    return norm_gradients(s->call->op, s->out, grad_out, input, normalized_shape, mean, rstd, weight, 1);
}
fac_status _fused_rms_norm_backward_cuda(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                         fac_ints normalized_shape, fac_tensor *rstd, fac_tensor *weight,
                                         fac_ints output_mask) {
    (void)output_mask;
    fac_tensor *const d[3] = {s->out[0], s->out[1], NULL};
    return norm_gradients(s->call->op, d, grad_out, input, normalized_shape, NULL, rstd, weight, 0);
}
