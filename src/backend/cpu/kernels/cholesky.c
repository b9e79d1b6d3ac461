/* Cholesky factors and triangular systems: of real matrices by the kernels of factor.h, of complex ones by LAPACK's potrf and potrs, and
   trsm of BLAS; inverses by blocks of both.

   Batches are cut into chunks of whole matrices; each is computed in its own dtype, and results do not depend on the number of threads.
   To LAPACK a result whose columns lie together is computed where it stands, any other in scratch memory. */
#include "backend/cpu/kernels/matrices.h"
#include "ops/factor.h"
#include "ops_gen.h"

typedef struct job {
    int kind, n, k; /* n x n factors; k columns of a right side */
    char uplo;
    bool left, trans, unit;
    fac_dtype dtype;
    fac_matrices a, b, out, info;
    int64_t at_a, at_out, at_work, work_bytes; /* in scratch */
} job;

static char uplo_of(bool upper) { return upper ? 'U' : 'L'; }
static double cubed(int64_t n) { return (double)n * (double)n * (double)n; }

static fac_workspace work_of(const job *j, void *scratch) {
    return (fac_workspace){(char *)scratch + j->at_work, j->work_bytes};
}

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

/* An upper factor is the transpose of the lower one, of the upper triangle's transpose. */
static fac_status factor_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *l = (char *)scratch + j->at_a;
    const int64_t ld = fac__factor_ld(j->n, j->dtype);
    const fac_matrices a = j->uplo == 'U' ? fac__matrices_turned(j->a) : j->a,
                       out = j->uplo == 'U' ? fac__matrices_turned(j->out) : j->out;
    for (int64_t i = begin; i < end; i++) {
        fac__matrix_pack_padded(&a, i, l, ld);
        const int info = fac__factor_cholesky(j->dtype, j->n, l, ld, work_of(j, scratch));
        if (info < 0) return fac_error(); /* the product within it */
        fac__clear_triangle(l, ld, j->n, j->n, j->out.item, true);
        fac__matrix_unpack(&out, i, l, ld);
        *(int32_t *)(void *)fac__matrix_at(&j->info, i) = info;
    }
    return FAC_OK;
}

/* Scratch memory for so many columns, and for what factor.h does with a matrix and its right sides. */
static int64_t own_scratch(job *j, int64_t count, int64_t columns) {
    int64_t bytes = 0;
    const int64_t ld = fac__factor_ld(j->n, j->dtype);
    j->work_bytes = fac__factor_scratch(j->n, j->n, j->dtype, fac__factor_threads(count));
    j->at_a = fac__part(&bytes, ld, columns, j->out.item);
    j->at_work = fac__part(&bytes, j->work_bytes, 1, 1);
    return bytes;
}

static fac_status factor_all(job *j) {
    int64_t bytes = 0;
    if (fac__factor_takes(j->dtype)) {
        bytes = own_scratch(j, j->a.count, j->n);
        return fac__factor_for(j->a.count, cubed(j->n) / 6, bytes, factor_real_chunk, j);
    }
    (void)fac__part(&bytes, j->n, j->n, j->a.item);
    return fac__lapack_for(j->a.count, cubed(j->n) / 3, bytes, factor_chunk, j);
}

fac_status linalg_cholesky_ex_cpu(fac_structured *s, fac_tensor *self, bool upper, bool check_errors) {
    FAC_TRY(fac__lapack_sizes(self));
    for (int i = 0; check_errors && i < 2; i++) FAC_TRY(fac_out_aside(s, i));
    job j = {.kind = fac__lapack_kind((fac_dtype)self->dtype),
             .dtype = (fac_dtype)self->dtype,
             .uplo = uplo_of(upper),
             .a = fac__matrices(self, 2),
             .out = fac__matrices(s->out[0], 2),
             .info = fac__matrices(s->out[1], 0)};
    j.n = (int)j.a.rows;
    FAC_TRY(factor_all(&j));
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

/* L L^T X = B, or U^T U X = B. */
static fac_status solve_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const fac_matrices l = j->uplo == 'U' ? fac__matrices_turned(j->a) : j->a, turned = fac__matrices_turned(l);
    for (int64_t i = begin; i < end; i++) {
        fac_systems s = {.dtype = j->dtype, .steps = 2};
        s.t[0] = fac__matrix_triangle(&l, i, false, false);
        s.t[1] = fac__matrix_triangle(&turned, i, true, false);
        fac__matrix_sides(&j->b, &j->out, i, &s);
        fac__solve_systems(&s, work_of(j, scratch));
    }
    return FAC_OK;
}

/* a's matrices and b's, over the batch of the result, and scratch memory for one of each. */
static int64_t with_operands(job *j, const fac_structured *s, fac_tensor *a, fac_tensor *b) {
    const fac_tensor *out = s->out[0];
    int64_t bytes = 0;
    j->dtype = (fac_dtype)out->dtype;
    j->kind = fac__lapack_kind(j->dtype);
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
    const int64_t count = j.n && j.k ? j.out.count : 0;
    const double work = (double)j.n * j.n * j.k;
    if (!fac__factor_takes(j.dtype)) return fac__lapack_for(count, work, bytes, solve_chunk, &j);
    bytes = own_scratch(&j, count, 0);
    return fac__factor_for(count, work, bytes, solve_real_chunk, &j);
}

static fac_status refuse_zero(int64_t i, int info) {
    FAC_CHECK(info == 0, FAC_ERR_ARGUMENT,
              "(Batch element %lld): The diagonal element %d is zero, the inversion could not be "
              "completed because the input matrix is singular.",
              (long long)i, info);
    return FAC_OK;
}

static int zero_on_diagonal(const job *j, int64_t i) {
    const char *a = fac__matrix_at(&j->a, i);
    for (int64_t r = 0; r < j->n; r++) {
        const float *f = (const float *)(const void *)(a + r * (j->a.row + j->a.col));
        const double *d = (const double *)(const void *)f;
        if (j->kind % 2 ? d[0] == 0 && (j->kind < 2 || d[1] == 0) : f[0] == 0 && (j->kind < 2 || f[1] == 0))
            return (int)r + 1;
    }
    return 0;
}

/* The transpose of an upper factor is the lower one of the matrix's transpose. */
static fac_status inverse_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const bool upper = j->uplo == 'U', real = j->kind < 2;
    const fac_matrices l = upper ? fac__matrices_turned(j->a) : j->a,
                       out =
                           (real ? j->out.row != (int64_t)j->out.item : upper) ? fac__matrices_turned(j->out) : j->out;
    char *x = (char *)scratch + j->at_a;
    const int64_t ld = fac__factor_ld(j->n, j->dtype);
    for (int64_t i = begin; i < end; i++) {
        FAC_TRY(refuse_zero(i, zero_on_diagonal(j, i)));
        const fac_triangle t =
            real ? fac__matrix_triangle(&l, i, false, false) : (fac_triangle){.a = x, .rs = 1, .cs = ld};
        if (!real) fac__matrix_pack(&l, i, x, ld);
        FAC_TRY(fac__factor_inverse(j->dtype, j->n, &t, x, ld, work_of(j, scratch)));
        fac__matrix_unpack(&out, i, x, ld);
    }
    return FAC_OK;
}

fac_status cholesky_inverse_cpu(fac_structured *s, fac_tensor *self, bool upper) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac_out_aside(s, 0));
    job j = {.uplo = uplo_of(upper)};
    (void)with_operands(&j, s, self, self);
    const int64_t count = j.n ? j.out.count : 0, bytes = own_scratch(&j, count, j.n);
    if (fac__factor_takes(j.dtype)) return fac__factor_for(count, cubed(j.n) / 3, bytes, inverse_chunk, &j);
    return fac__lapack_for(count, cubed(j.n), bytes, inverse_chunk, &j);
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

/* X A = B is A^T X^T = B^T. */
static fac_status triangular_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const fac_matrices a = j->left ? j->a : fac__matrices_turned(j->a), b = j->left ? j->b : fac__matrices_turned(j->b),
                       x = j->left ? j->out : fac__matrices_turned(j->out);
    for (int64_t i = begin; i < end; i++) {
        fac_systems s = {.dtype = j->dtype, .steps = 1};
        s.t[0] = fac__matrix_triangle(&a, i, (j->uplo == 'U') == j->left, j->unit);
        fac__matrix_sides(&b, &x, i, &s);
        fac__solve_systems(&s, work_of(j, scratch));
    }
    return FAC_OK;
}

fac_status linalg_solve_triangular_cpu(fac_structured *s, fac_tensor *self, fac_tensor *B, bool upper, bool left,
                                       bool unitriangular) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac__lapack_sizes(B));
    job j = {.uplo = uplo_of(upper), .left = left, .unit = unitriangular};
    int64_t bytes = with_operands(&j, s, self, B);
    const double work = (double)j.n * j.n * (double)(left ? j.b.cols : j.b.rows) / 2;
    const int64_t count = j.b.rows && j.b.cols ? j.out.count : 0;
    if (fac__factor_takes(j.dtype)) {
        bytes = own_scratch(&j, count, 0);
        return fac__factor_for(count, work, bytes, triangular_real_chunk, &j);
    }
    j.trans = j.a.col == (int64_t)j.a.item && j.a.row != j.a.col;
    if (j.trans) j.a = fac__matrices_turned(j.a);
    return fac__lapack_for(count, work, bytes, triangular_chunk, &j);
}
