/* Matrix products of tensors: each is described to fac__gemm with its strides as they are, but factors with gaps that are read often are
   copied first. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels/conv_last.h"
#include "backend/cpu/kernels/items.h"
#include "core/precision.h"
#include "ops/composite/below.h"
#include "ops/structured.h"
#include "ops_gen.h"

/* t as a batch of matrices: 2-d or 3-d. */
static fac_gemm_matrix matrix_of(const fac_tensor *t) {
    fac_gemm_matrix m = {.data = fac__data(t), .conj = (t->flags & FAC_TF_CONJ) != 0};
    m.col = t->strides[t->ndim - 1];
    m.row = t->strides[t->ndim - 2];
    m.batch = t->ndim > 2 ? t->strides[0] : 0;
    return m;
}
static fac_gemm_matrix column_of(const fac_tensor *t) {
    return (fac_gemm_matrix){
        .data = fac__data(t), .row = t->strides[0], .col = 1, .conj = (t->flags & FAC_TF_CONJ) != 0};
}

static void set_result(fac_gemm *g, const fac_tensor *out) {
    g->dtype = (fac_dtype)out->dtype;
    g->c = fac__data(out);
    g->c_batch = out->ndim > 2 ? out->strides[0] : 0;
    g->c_row = out->ndim > 1 ? out->strides[out->ndim - 2] : out->ndim == 1 ? out->strides[0] : 1;
    g->c_col = out->ndim > 1 ? out->strides[out->ndim - 1] : 1;
}

/* True if self is one row of n elements, the same for each row of a result of this dtype, or a matrix or batch whose rows have no gaps; then
   g's from_row and from_batch are set. */
static bool is_rows(const fac_tensor *self, const fac_tensor *out, fac_gemm *g) {
    const int last = self->ndim - 1;
    if (last < 0 || self->dtype != out->dtype || self->sizes[last] != g->n || self->strides[last] != 1) return false;
    if (self->numel != g->n && !fac__same_sizes(self, out)) return false;
    g->from_row = self->numel == g->n ? 0 : self->strides[last - 1];
    g->from_batch = self->numel == g->n || last < 2 ? 0 : self->strides[0];
    return true;
}

static bool is_one(fac_scalar x) {
    double z[2];
    fac__scalar_c128(x, z);
    return z[0] == 1 && z[1] == 0;
}

/* A product of bf16 without gaps, with a row that is added to all rows or nothing, needs no packed copy of A. */
static bool as_points(const fac_gemm *g, const fac_tensor *self) {
    if (g->dtype != FAC_BF16 || g->batch != 1 || !is_one(g->alpha)) return false;
    if (self && !(g->from && g->from_row == 0 && is_one(g->beta))) return false;
    const bool across = g->b.col == 1 && g->b.row == g->n, along = g->b.row == 1 && g->b.col == g->k;
    return g->a.col == 1 && g->a.row == g->k && g->c_col == 1 && g->c_row == g->n && (across || along) &&
           fac__conv_last_suits_product(g->m, g->n, g->k);
}

static fac_status by_kind(const fac_gemm *g, const fac_tensor *self) {
    if (!as_points(g, self)) return fac__gemm(g);
    const bool along = g->b.row == 1 && g->b.col == g->k;
    return fac__conv_last_product(g->m, g->n, g->k, g->a.data, g->b.data, !along, self ? g->from : NULL, g->c);
}

/* Nothing can fail once self is in the result. */
static fac_status product_over_copy(fac_gemm *g, fac_tensor *out, fac_tensor *self) {
    FAC_TRY(fac__workspace_take(fac__gemm_scratch(g, fac_num_threads()), &g->scratch));
    fac_status st = fac__copy_below(out, self);
    if (st == FAC_OK) st = fac__gemm(g);
    fac__workspace_give(g->scratch);
    return st;
}

/* out = beta * self + alpha * A B with g describing A and B. */
static fac_status product(fac_structured *s, fac_gemm *g, fac_tensor *self, fac_scalar beta, fac_scalar alpha) {
    fac_tensor *out = s->out[0];
    if (out->numel == 0) return FAC_OK;
    set_result(g, out);
    g->alpha = alpha;
    g->beta = self ? beta : fac_scalar_i_(0);
    double z[2];
    fac__scalar_c128(g->beta, z);
    bool read = self && (z[0] != 0 || z[1] != 0);
    fac_overlap overlap = read ? fac__overlap(out, self) : FAC_OVERLAP_FULL;
    if (overlap == FAC_OVERLAP_FULL) return read ? fac__gemm(g) : by_kind(g, NULL);
    /* What lies in the result would be read while it is overwritten. */
    if (overlap == FAC_OVERLAP_NO && fac__gemm_takes_from(g) && is_rows(self, out, g))
        g->from = fac__data(self);
    else
        return product_over_copy(g, out, self);
    return by_kind(g, self);
}

static fac_gemm matrices(const fac_tensor *a, const fac_tensor *b) {
    return (fac_gemm){.batch = a->ndim == 3 ? a->sizes[0] : 1,
                      .m = a->sizes[a->ndim - 2],
                      .k = a->sizes[a->ndim - 1],
                      .n = b->sizes[b->ndim - 1],
                      .a = matrix_of(a),
                      .b = matrix_of(b),
                      .may_round = fac__matmul_may_round()};
}

/* Owned: t itself, or a copy without gaps, if each of its elements is read that often and neither its rows nor its columns lie together. */
static fac_status without_gaps(fac_tensor *t, int64_t reads, fac_tensor **out) {
    enum { OFTEN = 64 };
    const bool apart = t->strides[t->ndim - 1] != 1 && t->strides[t->ndim - 2] != 1;
    const bool repeated = t->ndim > 2 && t->strides[0] == 0 && t->sizes[0] > 1; /* a copy would be, too */
    if (apart && !repeated && reads >= OFTEN && t->numel >= OFTEN * OFTEN) return fac__cpu_contiguous(t, out);
    *out = fac__ref(t);
    return FAC_OK;
}

static fac_status matrix_product(fac_structured *s, fac_tensor *self, fac_tensor *a, fac_tensor *b, fac_scalar beta,
                                 fac_scalar alpha) {
    fac_tensor *left, *right;
    FAC_TRY(without_gaps(a, b->sizes[b->ndim - 1], &left));
    fac_status st = without_gaps(b, a->sizes[a->ndim - 2], &right);
    if (st == FAC_OK) {
        fac_gemm g = matrices(left, right);
        st = product(s, &g, self, beta, alpha);
        fac__unref(right);
    }
    fac__unref(left);
    return st;
}

fac_status mm_cpu(fac_structured *s, fac_tensor *self, fac_tensor *mat2) {
    return matrix_product(s, NULL, self, mat2, fac_scalar_i_(0), fac_scalar_i_(1));
}

fac_status bmm_cpu(fac_structured *s, fac_tensor *self, fac_tensor *mat2) { return mm_cpu(s, self, mat2); }

fac_status addmm_cpu(fac_structured *s, fac_tensor *self, fac_tensor *mat1, fac_tensor *mat2, fac_scalar beta,
                     fac_scalar alpha) {
    return matrix_product(s, self, mat1, mat2, beta, alpha);
}

fac_status baddbmm_cpu(fac_structured *s, fac_tensor *self, fac_tensor *batch1, fac_tensor *batch2, fac_scalar beta,
                       fac_scalar alpha) {
    return addmm_cpu(s, self, batch1, batch2, beta, alpha);
}

fac_status addmv_cpu(fac_structured *s, fac_tensor *self, fac_tensor *mat, fac_tensor *vec, fac_scalar beta,
                     fac_scalar alpha) {
    fac_gemm g = {.batch = 1, .m = mat->sizes[0], .k = mat->sizes[1], .n = 1, .a = matrix_of(mat), .b = column_of(vec)};
    return product(s, &g, self, beta, alpha);
}

fac_status mv_cpu(fac_structured *s, fac_tensor *self, fac_tensor *vec) {
    return addmv_cpu(s, NULL, self, vec, fac_scalar_i_(0), fac_scalar_i_(1));
}

/* A row times a column; `conj` conjugates the row. */
static fac_status dot_product(fac_structured *s, const fac_tensor *x, const fac_tensor *y, bool conj) {
    fac_gemm_matrix row = column_of(x);
    row.col = row.row;
    row.row = 1;
    row.conj ^= conj;
    fac_gemm g = {.batch = 1, .m = 1, .n = 1, .k = x->numel, .a = row, .b = column_of(y)};
    return product(s, &g, NULL, fac_scalar_i_(0), fac_scalar_i_(1));
}

fac_status dot_cpu(fac_structured *s, fac_tensor *self, fac_tensor *tensor) {
    return dot_product(s, self, tensor, false);
}
fac_status vdot_cpu(fac_structured *s, fac_tensor *self, fac_tensor *other) {
    return dot_product(s, self, other, true);
}
