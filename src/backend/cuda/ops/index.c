/* Indexing along one dimension, embeddings and numbered contents. */
#include "backend/cuda/ops/pointwise.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

#include <math.h>

extern fac_cuda_kernel FAC_CUDA_KERNEL(index_select), FAC_CUDA_KERNEL(index_count),
    FAC_CUDA_KERNEL(index_embedding_backward_f32), FAC_CUDA_KERNEL(index_embedding_backward_f64),
    FAC_CUDA_KERNEL(index_arange), FAC_CUDA_KERNEL(index_linspace);

static void *data_of(const fac_tensor *t) { return t ? fac__data(t) : NULL; }

/* ---- selecting ------------------------------------------------------------------------------------------------------------- */

/* to [outer, count, n] <- x [outer, size, n] by index [count]; all row-major. */
static fac_status run_select(const fac_operator *op, fac_tensor *to, fac_tensor *x, fac_tensor *index, int64_t outer,
                             int64_t d, int64_t n) {
    void *out = fac__data(to), *from = fac__data(x), *which = fac__data(index);
    int64_t count = index->numel, size = x->ndim ? x->sizes[d] : 1;
    k_bounds bounds = {.dim = (int)d};
    int item = (int)fac__dtype_size((fac_dtype)x->dtype), index_dtype = index->dtype;
    fac_cuda_run r = {
        .kernel = &FAC_CUDA_KERNEL(index_select), .device = fac__cuda_index(x), .op = op, .bounds = &bounds};
    fac__cuda_reads(&r, x);
    fac__cuda_reads(&r, index);
    fac__cuda_writes(&r, to);
    return fac__cuda_run_items(
        &r, FAC_CUDA_ARGS(&out, &from, &which, &outer, &count, &size, &n, &item, &index_dtype, &bounds), to->numel);
}

static fac_status select_along(fac_structured *s, fac_tensor *self, fac_tensor *index, int64_t d) {
    fac_tensor *out = s->out[0];
    if (out->numel == 0) return FAC_OK;
    fac_tensor *x = NULL, *which = NULL, *to = NULL;
    int64_t outer = 1, n = 1;
    for (int i = 0; i < self->ndim; i++) *(i < d ? &outer : &n) *= i == d ? 1 : self->sizes[i];
    fac_status st = fac__cuda_contiguous(self, &x);
    if (st == FAC_OK) st = fac__cuda_contiguous(index, &which);
    if (st == FAC_OK) st = fac__cuda_result(out, &to);
    if (st == FAC_OK) st = run_select(s->call->op, to, x, which, outer, d, n);
    fac__unref(x);
    fac__unref(which);
    return fac__cuda_result_done(out, to, st);
}

fac_status index_select_cuda(fac_structured *s, fac_tensor *self, int64_t dim, fac_tensor *index) {
    (void)dim;
    return select_along(s, self, index, s->carry[0]);
}
fac_status embedding_cuda(fac_structured *s, fac_tensor *weight, fac_tensor *indices, int64_t padding_idx,
                          bool scale_grad_by_freq, bool sparse) {
    (void)padding_idx, (void)scale_grad_by_freq, (void)sparse;
    return select_along(s, weight, indices, 0);
}

/* ---- the gradient of an embedding ---------------------------------------------------------------------------------------------- */

static fac_status run_count(const fac_operator *op, fac_tensor *times, fac_tensor *index, int64_t size) {
    void *to = fac__data(times), *which = fac__data(index);
    int64_t count = index->numel;
    int index_dtype = index->dtype;
    k_bounds bounds = {.dim = 0};
    fac_cuda_run r = {
        .kernel = &FAC_CUDA_KERNEL(index_count), .device = fac__cuda_index(index), .op = op, .bounds = &bounds};
    FAC_TRY(fac__cuda_fill(times, fac_scalar_i_(0)));
    fac__cuda_reads(&r, index);
    fac__cuda_updates(&r, times);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&to, &which, &count, &size, &index_dtype, &bounds), count);
}

/* sum, of the type summed in, starts as zeros. */
static fac_status run_rows(const fac_operator *op, fac_tensor *sum, fac_tensor *grad, fac_tensor *index,
                           fac_tensor *times, int64_t padding) {
    void *to = fac__data(sum), *g = fac__data(grad), *which = fac__data(index), *how_often = data_of(times);
    int64_t count = index->numel, size = sum->sizes[0], n = sum->sizes[1];
    int dtype = grad->dtype, index_dtype = index->dtype;
    bool wide = sum->dtype == FAC_F64;
    k_bounds bounds = {.dim = 0};
    fac_cuda_run r = {.kernel = wide ? &FAC_CUDA_KERNEL(index_embedding_backward_f64)
                                     : &FAC_CUDA_KERNEL(index_embedding_backward_f32),
                      .device = fac__cuda_index(sum),
                      .op = op,
                      .bounds = &bounds};
    FAC_TRY(fac__cuda_fill(sum, fac_scalar_i_(0)));
    fac__cuda_reads(&r, grad);
    fac__cuda_reads(&r, index);
    fac__cuda_reads(&r, times);
    fac__cuda_updates(&r, sum);
    if (count * n == 0) return FAC_OK;
    return fac__cuda_run_items(
        &r, FAC_CUDA_ARGS(&to, &g, &which, &how_often, &count, &size, &n, &padding, &dtype, &index_dtype, &bounds),
        count * n);
}

fac_status embedding_dense_backward_cuda(fac_structured *s, fac_tensor *grad_output, fac_tensor *indices,
                                         int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq) {
    fac_tensor *out = s->out[0], *grad = NULL, *index = NULL, *times = NULL, *sum = NULL;
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)out->dtype), FAC_ERR_UNSUPPORTED,
              "the gradient of an embedding is summed in floating types on CUDA, got %s",
              fac_dtype_name((fac_dtype)out->dtype));
    if (out->numel == 0) return FAC_OK;
    bool half = fac__is_half((fac_dtype)out->dtype);
    fac_status st = fac__cuda_contiguous(grad_output, &grad);
    if (st == FAC_OK) st = fac__cuda_contiguous(indices, &index);
    if (st == FAC_OK && scale_grad_by_freq) st = fac__empty(&num_weights, 1, FAC_I32, out->device, &times);
    if (st == FAC_OK && times && index->numel) st = run_count(s->call->op, times, index, num_weights);
    if (st == FAC_OK)
        st = half ? fac__empty(out->sizes, out->ndim, FAC_F32, out->device, &sum) : fac__cuda_result(out, &sum);
    if (st == FAC_OK) st = run_rows(s->call->op, sum, grad, index, times, padding_idx);
    fac__unref(times);
    fac__unref(index);
    fac__unref(grad);
    return fac__cuda_result_done(out, sum, st);
}

/* ---- numbered contents ------------------------------------------------------------------------------------------------------------ */

static fac_status check_vector(const fac_tensor *self) {
    FAC_CHECK(self->ndim == 1, FAC_ERR_SHAPE, "a range fills a vector, not a tensor of sizes %s", FAC_SHAPE_TEXT(self));
    return fac__check_no_overlap(self);
}

fac_status arange_cuda_(const fac_call_info *c, fac_tensor *self, fac_scalar start, fac_scalar step, fac_tensor **out) {
    FAC_TRY(check_vector(self));
    fac_dtype d = (fac_dtype)self->dtype;
    FAC_CHECK(d != FAC_BOOL && !fac_dtype_is_complex(d), FAC_ERR_DTYPE, "not implemented for %s", fac_dtype_name(d));
    int whole = fac_dtype_is_integral(d, false);
    int64_t start_i = fac__scalar_i64(start), step_i = fac__scalar_i64(step), n = self->numel;
    int64_t stride = self->strides[0] * fac__dtype_size(d);
    double from = fac__scalar_f64(start), by = fac__scalar_f64(step);
    void *to = fac__data(self);
    int dtype = (int)d;
    fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(index_arange), .device = fac__cuda_index(self), .op = c->op};
    fac__cuda_writes(&r, self);
    if (n)
        FAC_TRY(
            fac__cuda_run_items(&r, FAC_CUDA_ARGS(&to, &n, &stride, &dtype, &whole, &start_i, &step_i, &from, &by), n));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status linspace_cuda_(const fac_call_info *c, fac_tensor *self, fac_scalar start, fac_scalar end, fac_opt_num base,
                          fac_tensor **out) {
    FAC_TRY(check_vector(self));
    fac_dtype d = (fac_dtype)self->dtype;
    int64_t n = self->numel, stride = self->strides[0] * fac__dtype_size(d);
    bool whole = fac_dtype_is_integral(d, true); /* then so are the ends */
    double from = fac__scalar_f64(start), to = fac__scalar_f64(end);
    if (whole) from = trunc(from), to = trunc(to);
    double step = n > 1 ? (to - from) / (double)(n - 1) : 0, power = base.set ? fac__scalar_f64(base.v) : 0;
    if (n == 1) to = from;
    void *data = fac__data(self);
    int dtype = (int)d;
    fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(index_linspace), .device = fac__cuda_index(self), .op = c->op};
    fac__cuda_writes(&r, self);
    if (n) FAC_TRY(fac__cuda_run_items(&r, FAC_CUDA_ARGS(&data, &n, &stride, &dtype, &from, &to, &step, &power), n));
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- one element ------------------------------------------------------------------------------------------------------------------ */

fac_status local_scalar_dense_cuda(const fac_call_info *c, fac_tensor *self, fac_scalar *out) {
    static _Thread_local double complex_item[2]; /* where a complex result points until the thread's next */
    _Alignas(16) char element[16];
    (void)c;
    FAC_CHECK(self->numel == 1, FAC_ERR_ARGUMENT, "a Tensor with %lld elements cannot be converted to Scalar",
              (long long)self->numel);
    FAC_TRY(fac__cuda_copy(fac_device_make(FAC_CPU, 0), element, self->device, fac__data(self), fac__item_size(self),
                           false));
    *out = fac__load(element, (fac_dtype)self->dtype, complex_item);
    return FAC_OK;
}

fac_status equal_cuda(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool *out) {
    fac_tensor *same = NULL, *all = NULL;
    fac_scalar truth = fac_scalar_i_(0);
    FAC_CHECK(fac_device_equal(self->device, other->device), FAC_ERR_DEVICE, "Expected both tensors on one device");
    *out = false;
    if (!fac__same_sizes(self, other)) return FAC_OK;
    FAC_TRY(fac__c_eq_Tensor(self, other, &same));
    fac_status st = fac__c_all(same, &all);
    if (st == FAC_OK) st = local_scalar_dense_cuda(c, all, &truth);
    fac__unref(all);
    fac__unref(same);
    *out = st == FAC_OK && fac__scalar_i64(truth) != 0;
    return st;
}
