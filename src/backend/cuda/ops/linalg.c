/* Matrix products: each is described with its strides as they are, as on the CPU. */
#include "backend/cuda/kernels/gemm.h"
#include "backend/cuda/ops/pointwise.h"
#include "ops/structured.h"
#include "ops_gen.h"

extern fac_cuda_kernel FAC_CUDA_KERNEL(gemm_f32), FAC_CUDA_KERNEL(gemm_f64), FAC_CUDA_KERNEL(gemm_i64),
    FAC_CUDA_KERNEL(gemm_native_f32), FAC_CUDA_KERNEL(gemm_native_f64), FAC_CUDA_KERNEL(gemm_native_i64);

static fac_cuda_kernel *kernel_for(fac_dtype d) {
    bool native = fac__cu_is_simulated();
    if (fac_dtype_is_integral(d, false)) return native ? &FAC_CUDA_KERNEL(gemm_native_i64) : &FAC_CUDA_KERNEL(gemm_i64);
    if (d == FAC_F64) return native ? &FAC_CUDA_KERNEL(gemm_native_f64) : &FAC_CUDA_KERNEL(gemm_f64);
    return native ? &FAC_CUDA_KERNEL(gemm_native_f32) : &FAC_CUDA_KERNEL(gemm_f32);
}

/* A tensor as a batch of matrices, and as a column. */
typedef struct matrix {
    fac_tensor *t;
    int64_t batch, row, col;
} matrix;
static matrix matrix_of(fac_tensor *t) {
    return (matrix){t, t->ndim > 2 ? t->strides[0] : 0, t->strides[t->ndim - 2], t->strides[t->ndim - 1]};
}
static matrix column_of(fac_tensor *t) { return (matrix){t, 0, t->strides[0], 1}; }

static fac_status launch(fac_structured *s, const k_gemm *g, const matrix *a, const matrix *b) {
    fac_tensor *out = s->out[0];
    fac_cuda_device *d;
    fac_cuda_run r = {.device = fac__cuda_index(out)};
    FAC_TRY(fac__cuda_device(r.device, &d));
    fac__cuda_reads(&r, a->t);
    fac__cuda_reads(&r, b->t);
    (g->beta != 0 || g->beta_i != 0 ? fac__cuda_updates : fac__cuda_writes)(&r, out);
    int64_t columns = fac__div_up(g->n, K_TILE), rows = fac__div_up(g->m, K_TILE);
    FAC_CHECK(rows <= 0x7fffffff && columns <= 65535, FAC_ERR_UNSUPPORTED,
              "a product of %lld columns is too large for the CUDA kernel", (long long)g->n);
    fac_cuda_launch_spec l = {.kernel = kernel_for((fac_dtype)out->dtype),
                              .device = r.device,
                              .grid = {(unsigned)rows, (unsigned)columns, (unsigned)fac__min(g->batch, 65535)},
                              .block = {K_TILE, K_TILE, 1},
                              .args = (void *[]){(void *)(uintptr_t)g},
                              .accesses = r.access,
                              .n_accesses = r.n_accesses,
                              .op = s->call->op};
    return fac__cuda_launch(&l);
}

/* out = beta * self + alpha * A B. */
static fac_status product(fac_structured *s, k_gemm *g, const matrix *a, const matrix *b, fac_tensor *self,
                          fac_scalar beta, fac_scalar alpha) {
    fac_tensor *out = s->out[0];
    if (out->numel == 0) return FAC_OK;
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)out->dtype), FAC_ERR_UNSUPPORTED,
              "matrix products have no CUDA kernel for complex numbers yet");
    g->a = fac__data(a->t), g->a_batch = a->batch, g->a_row = a->row, g->a_col = a->col;
    g->b = fac__data(b->t), g->b_batch = b->batch, g->b_row = b->row, g->b_col = b->col;
    g->c = fac__data(out);
    g->c_batch = out->ndim > 2 ? out->strides[0] : 0;
    g->c_row = out->ndim > 1 ? out->strides[out->ndim - 2] : out->ndim == 1 ? out->strides[0] : 1;
    g->c_col = out->ndim > 1 ? out->strides[out->ndim - 1] : 1;
    g->alpha = fac__scalar_f64(alpha), g->alpha_i = fac__scalar_i64(alpha);
    g->beta = self ? fac__scalar_f64(beta) : 0, g->beta_i = self ? fac__scalar_i64(beta) : 0;
    g->dtype = out->dtype;
    g->item = (int32_t)fac__dtype_size((fac_dtype)out->dtype);
    bool read = self && (g->beta != 0 || g->beta_i != 0);
    bool in_place = self && fac__data(self) == fac__data(out) && fac__same_sizes(self, out);
    if (read && !in_place) FAC_TRY(fac__cuda_copy_elements(out, self));
    return launch(s, g, a, b);
}

static k_gemm sizes_of(const fac_tensor *a, const fac_tensor *b) {
    return (k_gemm){.batch = a->ndim == 3 ? a->sizes[0] : 1,
                    .m = a->sizes[a->ndim - 2],
                    .k = a->sizes[a->ndim - 1],
                    .n = b->sizes[b->ndim - 1]};
}

fac_status addmm_cuda(fac_structured *s, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2, fac_scalar beta,
                      fac_scalar alpha) {
    k_gemm g = sizes_of(mat1, mat2);
    matrix a = matrix_of(mat1), b = matrix_of(mat2);
    return product(s, &g, &a, &b, self, beta, alpha);
}
fac_status baddbmm_cuda(fac_structured *s, fac_tensor *self, fac_tensor *batch1, fac_tensor *batch2, fac_scalar beta,
                        fac_scalar alpha) {
    return addmm_cuda(s, self, batch1, batch2, beta, alpha);
}
fac_status mm_cuda(fac_structured *s, fac_tensor *self, fac_tensor *mat2) {
    return addmm_cuda(s, NULL, self, mat2, fac_scalar_i_(0), fac_scalar_i_(1));
}
fac_status bmm_cuda(fac_structured *s, fac_tensor *self, fac_tensor *mat2) { return mm_cuda(s, self, mat2); }

fac_status addmv_cuda(fac_structured *s, fac_tensor *self, fac_tensor *mat, fac_tensor *vec, fac_scalar beta,
                      fac_scalar alpha) {
    k_gemm g = {.batch = 1, .m = mat->sizes[0], .k = mat->sizes[1], .n = 1};
    matrix a = matrix_of(mat), b = column_of(vec);
    return product(s, &g, &a, &b, self, beta, alpha);
}
fac_status mv_cuda(fac_structured *s, fac_tensor *self, fac_tensor *vec) {
    return addmv_cuda(s, NULL, self, vec, fac_scalar_i_(0), fac_scalar_i_(1));
}
fac_status dot_cuda(fac_structured *s, fac_tensor *self, fac_tensor *tensor) {
    k_gemm g = {.batch = 1, .m = 1, .n = 1, .k = self->numel};
    matrix a = {self, 0, 1, self->strides[0]}, b = column_of(tensor);
    return product(s, &g, &a, &b, NULL, fac_scalar_i_(0), fac_scalar_i_(1));
}

/* ---- matrices of different sizes ---------------------------------------------------------------------------------------- */

/* How many triples of `sizes` from i on are the same. */
static size_t run_of(fac_ints sizes, size_t i) {
    size_t end = i + 3;
    while (end < sizes.n && memcmp(sizes.v + i, sizes.v + end, 3 * sizeof *sizes.v) == 0) end += 3;
    return (end - i) / 3;
}

/* One launch for each run of products of one shape, which lie one after the other. */
fac_status ragged_bmm_cuda(fac_structured *s, fac_tensor *self, fac_tensor *mat2, fac_ints sizes, int64_t transposed) {
    fac_tensor *out = s->out[0];
    const int64_t sa = self->strides[0], sb = mat2->strides[0], item = fac__item_size(out);
    const bool ta = (transposed & 1) != 0, tb = (transposed & 2) != 0;
    int64_t at[3] = {0};
    if (out->numel == 0) return FAC_OK;
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)out->dtype), FAC_ERR_UNSUPPORTED,
              "matrix products have no CUDA kernel for complex numbers yet");
    for (size_t i = 0, run; i < sizes.n; i += 3 * run) {
        const int64_t m = sizes.v[i], k = sizes.v[i + 1], n = sizes.v[i + 2];
        run = run_of(sizes, i);
        k_gemm g = {.batch = (int64_t)run, .m = m, .k = k, .n = n, .dtype = out->dtype, .item = (int32_t)item};
        const matrix a = {self, m * k * sa, ta ? sa : k * sa, ta ? m * sa : sa},
                     b = {mat2, k * n * sb, tb ? sb : n * sb, tb ? k * sb : sb};
        g.a = fac__data(self) ? (char *)fac__data(self) + at[0] * sa * item : NULL;
        g.b = fac__data(mat2) ? (char *)fac__data(mat2) + at[1] * sb * item : NULL;
        g.c = (char *)fac__data(out) + at[2] * item;
        g.a_batch = a.batch, g.a_row = a.row, g.a_col = a.col;
        g.b_batch = b.batch, g.b_row = b.row, g.b_col = b.col;
        g.c_batch = m * n, g.c_row = n, g.c_col = 1;
        g.alpha = 1, g.alpha_i = 1;
        if (m && n) FAC_TRY(launch(s, &g, &a, &b));
        at[0] += (int64_t)run * m * k, at[1] += (int64_t)run * k * n, at[2] += (int64_t)run * m * n;
    }
    return FAC_OK;
}
