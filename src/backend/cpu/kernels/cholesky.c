/* Cholesky factors and triangular systems: LAPACK's potrf, potrs and potri, and trsm of BLAS.

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. A result whose columns lie together is computed where it stands, any other in scratch memory. */
#include "backend/cpu/kernels/matrices.h"
#include "ops/factor.h"
#include "ops_gen.h"

typedef struct job {
    int kind, n, k; /* n x n factors; k columns of a right side */
    char uplo;
    bool left, trans, unit;
    fac_matrices a, b, out, info;
    int64_t at_a, at_out, at_work; /* in scratch */
} job;

static char uplo_of(bool upper) { return upper ? 'U' : 'L'; }
static double cubed(int64_t n) { return (double)n * (double)n * (double)n; }

/* ---- factors -------------------------------------------------------------------------------------------------------------- */

static fac_status factor_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int ld, info = 0;
        char *l = fac__matrix_room(&j->out, i, scratch, &ld);
        fac__matrix_pack(&j->a, i, l, ld);
        fac__lapack.potrf[j->kind](&j->uplo, &j->n, l, &ld, &info, 1);
        fac__clear_triangle(l, ld, j->n, j->n, j->out.item, j->uplo == 'L');
        fac__matrix_settle(&j->out, i, l, scratch);
        *(int32_t *)(void *)fac__matrix_at(&j->info, i) = info;
    }
    return FAC_OK;
}

fac_status linalg_cholesky_ex_cpu(fac_structured *s, fac_tensor *self, bool upper, bool check_errors) {
    FAC_TRY(fac__lapack_sizes(self));
    for (int i = 0; check_errors && i < 2; i++) FAC_TRY(fac_out_aside(s, i));
    job j = {.kind = fac__lapack_kind((fac_dtype)self->dtype),
             .uplo = uplo_of(upper),
             .a = fac__matrices(self, 2),
             .out = fac__matrices(s->out[0], 2),
             .info = fac__matrices(s->out[1], 0)};
    int64_t bytes = 0;
    j.n = (int)j.a.rows;
    (void)fac__part(&bytes, j.n, j.n, j.a.item);
    FAC_TRY(fac__lapack_for(j.a.count, cubed(j.n) / 3, bytes, factor_chunk, &j));
    return check_errors ? fac__check_info(FAC_FACTOR_CHOLESKY, s->out[1]) : FAC_OK;
}

/* ---- with factors ----------------------------------------------------------------------------------------------------------- */

static fac_status solve_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, lda, info = 0;
        char *x = fac__matrix_room(&j->out, i, at + j->at_out, &ld);
        const void *a = fac__matrix_read(&j->a, i, at + j->at_a, &lda);
        fac__matrix_pack(&j->b, i, x, ld);
        fac__lapack.potrs[j->kind](&j->uplo, &j->n, &j->k, a, &lda, x, &ld, &info, 1);
        fac__matrix_settle(&j->out, i, x, at + j->at_out);
    }
    return FAC_OK;
}

/* a's matrices and b's, over the batch of the result, and scratch memory for one of each. */
static int64_t with_operands(job *j, const fac_structured *s, fac_tensor *a, fac_tensor *b) {
    const fac_tensor *out = s->out[0];
    int64_t bytes = 0;
    j->kind = fac__lapack_kind((fac_dtype)out->dtype);
    j->out = fac__matrices(out, 2);
    j->a = fac__matrices_over(a, 2, out->sizes, out->ndim - 2);
    j->b = fac__matrices_over(b, 2, out->sizes, out->ndim - 2);
    j->n = (int)j->a.rows;
    j->k = (int)j->b.cols;
    j->at_a = fac__part(&bytes, j->n, j->n, j->a.item);
    j->at_out = fac__part(&bytes, j->b.rows, j->b.cols, j->a.item);
    return bytes;
}

fac_status cholesky_solve_cpu(fac_structured *s, fac_tensor *self, fac_tensor *input2, bool upper) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac__lapack_sizes(input2));
    job j = {.uplo = uplo_of(upper)};
    int64_t bytes = with_operands(&j, s, input2, self);
    return fac__lapack_for(j.n && j.k ? j.out.count : 0, (double)j.n * j.n * j.k, bytes, solve_chunk, &j);
}

/* The other triangle of a Hermitian matrix, from the one that LAPACK wrote. */
static void mirror(char *a, int64_t ld, int n, int kind, bool upper, size_t item) {
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = c + 1; r < n; r++) {
            char *low = a + (size_t)(c * ld + r) * item, *high = a + (size_t)(r * ld + c) * item;
            memcpy(upper ? low : high, upper ? high : low, item);
            fac__conjugate(upper ? low : high, 1, kind);
        }
}

static fac_status inverse_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        int ld, info = 0;
        char *x = fac__matrix_room(&j->out, i, scratch, &ld);
        fac__matrix_pack(&j->a, i, x, ld);
        fac__lapack.potri[j->kind](&j->uplo, &j->n, x, &ld, &info, 1);
        FAC_CHECK(info == 0, FAC_ERR_ARGUMENT,
                  "(Batch element %lld): The diagonal element %d is zero, the inversion could not be "
                  "completed because the input matrix is singular.",
                  (long long)i, info);
        mirror(x, ld, j->n, j->kind, j->uplo == 'U', j->out.item);
        fac__matrix_settle(&j->out, i, x, scratch);
    }
    return FAC_OK;
}

fac_status cholesky_inverse_cpu(fac_structured *s, fac_tensor *self, bool upper) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac_out_aside(s, 0));
    job j = {.uplo = uplo_of(upper)};
    int64_t bytes = with_operands(&j, s, self, self);
    return fac__lapack_for(j.n ? j.out.count : 0, cubed(j.n), bytes, inverse_chunk, &j);
}

/* ---- triangular systems --------------------------------------------------------------------------------------------------------- */

/* A's transpose is A itself to a routine that is told so: a matrix whose rows lie together needs no copy. */
static fac_status triangular_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const char side = j->left ? 'L' : 'R', diag = j->unit ? 'U' : 'N', trans = j->trans ? 'T' : 'N';
    const char uplo = uplo_of((j->uplo == 'U') != j->trans);
    const double one_f64[2] = {1, 0};
    const float one_f32[2] = {1, 0};
    const int rows = (int)j->b.rows, cols = (int)j->b.cols;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, lda;
        char *x = fac__matrix_room(&j->out, i, at + j->at_out, &ld);
        const void *a = fac__matrix_read(&j->a, i, at + j->at_a, &lda);
        fac__matrix_pack(&j->b, i, x, ld);
        fac__lapack.trsm[j->kind](&side, &uplo, &trans, &diag, &rows, &cols,
                                  j->kind % 2 ? (const void *)one_f64 : (const void *)one_f32, a, &lda, x, &ld, 1, 1, 1,
                                  1);
        fac__matrix_settle(&j->out, i, x, at + j->at_out);
    }
    return FAC_OK;
}

fac_status linalg_solve_triangular_cpu(fac_structured *s, fac_tensor *self, fac_tensor *B, bool upper, bool left,
                                       bool unitriangular) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac__lapack_sizes(B));
    job j = {.uplo = uplo_of(upper), .left = left, .unit = unitriangular};
    int64_t bytes = with_operands(&j, s, self, B);
    j.trans = j.a.col == (int64_t)j.a.item && j.a.row != j.a.col;
    if (j.trans) j.a = fac__matrices_turned(j.a);
    const double others = (double)(left ? j.b.cols : j.b.rows);
    return fac__lapack_for(j.b.rows && j.b.cols ? j.out.count : 0, (double)j.n * j.n * others / 2, bytes,
                           triangular_chunk, &j);
}
