/* tril and triu. */
#include "backend/cuda/ops/run.h"
#include "ops_gen.h"

extern fac_cuda_kernel FAC_CUDA_KERNEL(triangle);

static fac_status run(const fac_operator *op, fac_tensor *to, fac_tensor *x, int64_t diagonal, int upper) {
    void *out = fac__data(to), *from = fac__data(x);
    int64_t n = x->numel, rows = x->sizes[x->ndim - 2], columns = x->sizes[x->ndim - 1];
    int item = (int)fac__item_size(x);
    fac_cuda_run r = {.kernel = &FAC_CUDA_KERNEL(triangle), .device = fac__cuda_index(x), .op = op};
    fac__cuda_reads(&r, x);
    fac__cuda_writes(&r, to);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&out, &from, &n, &rows, &columns, &diagonal, &item, &upper), n);
}

static fac_status triangle(fac_structured *s, fac_tensor *self, int64_t diagonal, int upper) {
    fac_tensor *x = NULL, *to = NULL;
    if (self->numel == 0) return FAC_OK;
    FAC_TRY(fac__cuda_contiguous(self, &x));
    fac_status st = fac__cuda_result(s->out[0], &to);
    if (st == FAC_OK) st = run(s->call->op, to, x, diagonal, upper);
    fac__unref(x);
    return fac__cuda_result_done(s->out[0], to, st);
}

fac_status tril_cuda(fac_structured *s, fac_tensor *self, int64_t diagonal) { return triangle(s, self, diagonal, 0); }
fac_status triu_cuda(fac_structured *s, fac_tensor *self, int64_t diagonal) { return triangle(s, self, diagonal, 1); }
