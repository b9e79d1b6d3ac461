/* LDL factors of symmetric and Hermitian matrices, on the lower triangle: of small real ones by a kernel of factor.h, else by LAPACK's sytrf
   and hetrf; solutions by sytrs and hetrs.

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. */
#include "backend/cpu/kernels/matrices.h"
#include "ops/factor.h"
#include "ops_gen.h"

typedef struct job {
    int kind, n, k, lwork;
    bool hermitian;
    fac_matrices a, b, out, pivots, info;
    int64_t at_a, at_out, at_pivots, at_work; /* in scratch */
} job;

static double cubed(int64_t n) { return (double)n * (double)n * (double)n; }

static fac_status factor_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, unused, info = 0;
        char *a = fac__matrix_room(&j->out, i, at + j->at_out, &ld);
        int *pivots = fac__matrix_room(&j->pivots, i, at + j->at_pivots, &unused);
        fac__matrix_pack(&j->a, i, a, ld);
        (j->hermitian ? fac__lapack.hetrf : fac__lapack.sytrf)[j->kind]("L", &j->n, a, &ld, pivots, at + j->at_work,
                                                                        &j->lwork, &info, 1);
        fac__clear_triangle(a, ld, j->n, j->n, j->out.item, true);
        fac__matrix_settle(&j->out, i, a, at + j->at_out);
        fac__matrix_settle(&j->pivots, i, pivots, at + j->at_pivots);
        *(int32_t *)(void *)fac__matrix_at(&j->info, i) = info;
    }
    return FAC_OK;
}

static fac_status factor_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *a = at + j->at_out;
    const fac_dtype dtype = j->kind ? FAC_F64 : FAC_F32;
    const int64_t ld = fac__factor_ld(j->n, dtype);
    for (int64_t i = begin; i < end; i++) {
        int unused, *pivots = fac__matrix_room(&j->pivots, i, at + j->at_pivots, &unused);
        fac__matrix_pack_padded(&j->a, i, a, ld);
        *(int32_t *)(void *)fac__matrix_at(&j->info, i) =
            FAC_ISA_PICK(fac__factor_kernels)()->ldl(dtype, j->n, a, ld, pivots);
        fac__clear_triangle(a, ld, j->n, j->n, j->out.item, true);
        fac__matrix_unpack(&j->out, i, a, ld);
        fac__matrix_settle(&j->pivots, i, pivots, at + j->at_pivots);
    }
    return FAC_OK;
}

static fac_status ask_work(job *j) {
    double answer[2] = {0};
    int all = -1, info = 0, ld = fac__ld(j->n);
    FAC_TRY(fac__lapack_load());
    (j->hermitian ? fac__lapack.hetrf : fac__lapack.sytrf)[j->kind]("L", &j->n, answer, &ld, &info, answer, &all, &info,
                                                                    1);
    j->lwork = fac__lapack_work(j->kind, answer);
    return FAC_OK;
}

static fac_status factor_all(job *j, fac_dtype dtype) {
    int64_t bytes = 0;
    const bool own = fac__factor_takes(dtype) && j->n <= FAC_LDL_MOST;
    if (!own) FAC_TRY(ask_work(j));
    j->at_out = fac__part(&bytes, own ? fac__factor_ld(j->n, dtype) : j->n, j->n, j->a.item);
    j->at_pivots = fac__part(&bytes, j->n, 1, sizeof(int));
    j->at_work = fac__part(&bytes, j->lwork, 1, j->a.item);
    return own ? fac__factor_for(j->a.count, cubed(j->n) / 3, bytes, factor_real_chunk, j)
               : fac__lapack_for(j->a.count, cubed(j->n) / 3, bytes, factor_chunk, j);
}

fac_status linalg_ldl_factor_ex_cpu(fac_structured *s, fac_tensor *self, bool hermitian, bool check_errors) {
    FAC_TRY(fac__lapack_sizes(self));
    for (int i = 0; check_errors && i < 3; i++) FAC_TRY(fac_out_aside(s, i));
    job j = {.kind = fac__lapack_kind((fac_dtype)self->dtype),
             .hermitian = hermitian,
             .a = fac__matrices(self, 2),
             .out = fac__matrices(s->out[0], 2),
             .pivots = fac__matrices(s->out[1], 1),
             .info = fac__matrices(s->out[2], 0)};
    j.n = (int)j.a.rows;
    FAC_TRY(factor_all(&j, (fac_dtype)self->dtype));
    return check_errors ? fac__check_info(FAC_FACTOR_LDL, s->out[2]) : FAC_OK;
}

/* A pivot is a row counted from one; two negative ones in succession are a block of two. */
static fac_status check_pivots(const fac_tensor *pivots) {
    fac_matrices m = fac__matrices(pivots, 1);
    for (int64_t i = 0; i < m.count; i++) {
        const char *p = fac__matrix_at(&m, i);
        for (int64_t r = 0; r < m.rows; r++) {
            int64_t v = *(const int32_t *)(const void *)(p + r * m.row), row = v < 0 ? -v : v;
            bool good = row >= 1 && row <= m.rows;
            if (v < 0 && good) { /* the block's second row says the same */
                good = r + 1 < m.rows && *(const int32_t *)(const void *)(p + (r + 1) * m.row) == v;
                r++;
            }
            FAC_CHECK(good, FAC_ERR_INDEX, "pivot %lld of a matrix, %lld, tells no swap of rows", (long long)r,
                      (long long)v);
        }
    }
    return FAC_OK;
}

static fac_status solve_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, lda, unused, info = 0;
        char *x = fac__matrix_room(&j->out, i, at + j->at_out, &ld);
        const void *a = fac__matrix_read(&j->a, i, at + j->at_a, &lda);
        const int *pivots = fac__matrix_read(&j->pivots, i, at + j->at_pivots, &unused);
        fac__matrix_pack(&j->b, i, x, ld);
        (j->hermitian ? fac__lapack.hetrs : fac__lapack.sytrs)[j->kind]("L", &j->n, &j->k, a, &lda, pivots, x, &ld,
                                                                        &info, 1);
        fac__matrix_settle(&j->out, i, x, at + j->at_out);
    }
    return FAC_OK;
}

fac_status linalg_ldl_solve_cpu(fac_structured *s, fac_tensor *LD, fac_tensor *pivots, fac_tensor *B, bool hermitian) {
    FAC_TRY(fac__lapack_sizes(LD));
    FAC_TRY(fac__lapack_sizes(B));
    FAC_TRY(check_pivots(pivots));
    const fac_tensor *out = s->out[0];
    const int n_batch = out->ndim - 2;
    job j = {.kind = fac__lapack_kind((fac_dtype)LD->dtype),
             .hermitian = hermitian,
             .a = fac__matrices_over(LD, 2, out->sizes, n_batch),
             .b = fac__matrices_over(B, 2, out->sizes, n_batch),
             .pivots = fac__matrices_over(pivots, 1, out->sizes, n_batch),
             .out = fac__matrices(out, 2)};
    int64_t bytes = 0;
    j.n = (int)j.a.rows;
    j.k = (int)j.b.cols;
    j.at_a = fac__part(&bytes, j.n, j.n, j.a.item);
    j.at_pivots = fac__part(&bytes, j.n, 1, sizeof(int));
    j.at_out = fac__part(&bytes, j.n, j.k, j.a.item);
    return fac__lapack_for(j.n && j.k ? j.out.count : 0, (double)j.n * j.n * j.k, bytes, solve_chunk, &j);
}
