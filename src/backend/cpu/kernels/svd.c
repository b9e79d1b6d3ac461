/* Singular values and vectors: LAPACK's gesdd, divide and conquer. Of real matrices with at least twice as many rows as columns, or the
   other way round, the kernels of factor.h make Q and R first, unless U is wanted whole; gesdd gets R, and Q its singular vectors.

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. A matrix that is not finite is refused before LAPACK sees it. */
#include "backend/cpu/kernels/matrices.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

typedef struct job {
    int kind, m, n, k, lwork;
    char what;    /* LAPACK's job: N, S or A */
    int64_t rows; /* of a tall matrix, whose R is m x n; else 0 */
    fac_dtype dtype;
    fac_matrices a, u, s, vh;
    int64_t at_a, at_u, at_s, at_vh, at_work, at_real, at_int; /* in scratch */
    int64_t at_rows, at_c, at_tau, at_room;                    /* of tall matrices */
} job;

/* A call of gesdd; info is the result. */
typedef struct parts {
    void *a, *s, *u, *vh, *work, *real;
    int ldu, ldvh, *ints, lwork;
} parts;

static int decompose(const job *j, const parts *p) {
    int info = 0;
    const int lda = fac__ld(j->m);
    if (j->kind < 2)
        fac__lapack.gesdd[j->kind](&j->what, &j->m, &j->n, p->a, &lda, p->s, p->u, &p->ldu, p->vh, &p->ldvh, p->work,
                                   &p->lwork, p->ints, &info, 1);
    else
        fac__lapack.gesdd_complex[j->kind](&j->what, &j->m, &j->n, p->a, &lda, p->s, p->u, &p->ldu, p->vh, &p->ldvh,
                                           p->work, &p->lwork, p->real, p->ints, &info, 1);
    return info;
}

static fac_status not_finite(int64_t i) {
    return FAC_FAIL(FAC_ERR_ARGUMENT,
                    "(Batch element %lld): The algorithm failed to converge because the input matrix contained "
                    "non-finite values.",
                    (long long)i);
}

/* ---- tall matrices ---------------------------------------------------------------------------------------------------------- */

static int64_t row_of(const job *j) { return fac__factor_row(j->n, j->dtype); }

/* Where no vectors are wanted: R of the triangles of blocks of rows that stay in a cache, which take the rows' place. Returns how many
   rows are left to factor. */
static int64_t reduce_blocks(const job *j, char *at) {
    const int64_t ld = row_of(j), item = (int64_t)j->a.item, block = fac__max(1024, 8 * j->n);
    int64_t rows = j->rows;
    char *a = at + j->at_rows;
    while (rows >= 2 * block) {
        const int64_t blocks = rows / block;
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t first = b * rows / blocks, end = (b + 1) * rows / blocks;
            char *from = a + first * ld * item, *to = a + b * j->n * ld * item;
            FAC_ISA_PICK(fac__factor_kernels)
            ()->qr(j->dtype, end - first, j->n, from, ld, at + j->at_tau, at + j->at_room);
            memmove(to, from, (size_t)(j->n * ld * item));
            for (int64_t r = 1; r < j->n; r++) memset(to + r * ld * item, 0, (size_t)(r * item));
        }
        rows = blocks * j->n;
    }
    return rows;
}

static void multiply(const job *j, void *v, int64_t n, double by) {
    for (int64_t k = 0; k < n && j->dtype == FAC_F32; k++) ((float *)v)[k] *= (float)by;
    for (int64_t k = 0; k < n && j->dtype == FAC_F64; k++) ((double *)v)[k] *= by;
}

static void pack_tall(const job *j, int64_t i, char *a) {
    const int64_t ld = row_of(j), item = (int64_t)j->a.item;
    const fac_matrices rows = fac__matrices_turned(j->a);
    fac__matrix_pack(&rows, i, a, ld);
    for (int64_t r = 0; r < j->rows; r++) memset(a + (r * ld + j->n) * item, 0, (size_t)((ld - j->n) * item));
}

/* R of the packed rows to p, by columns; reflections stay in scratch. False if R is not finite. */
static bool reduce_packed(const job *j, char *at, char *p) {
    const int64_t ld = row_of(j), item = (int64_t)j->a.item;
    char *a = at + j->at_rows;
    const int64_t left = j->what == 'N' ? reduce_blocks(j, at) : j->rows;
    FAC_ISA_PICK(fac__factor_kernels)()->qr(j->dtype, left, j->n, a, ld, at + j->at_tau, at + j->at_room);
    memset(p, 0, (size_t)(j->n * j->n * item));
    for (int64_t r = 0; r < j->n; r++)
        for (int64_t c = r; c < j->n; c++) memcpy(p + (c * j->n + r) * item, a + (r * ld + c) * item, (size_t)item);
    return fac__all_finite(p, (int64_t)j->n * j->n, j->kind);
}

/* A matrix that is not finite has no finite R. One that is has none if lengths of its columns do not fit: it is made small. Returns what
   singular values are to be multiplied by, 0 if the matrix is not finite. */
static double reduce(const job *j, int64_t i, char *at, char *p) {
    const double down = 0x1p-40;
    const int64_t all = j->rows * row_of(j);
    char *a = at + j->at_rows;
    pack_tall(j, i, a);
    if (reduce_packed(j, at, p)) return 1;
    pack_tall(j, i, a);
    if (!fac__all_finite(a, all, j->kind)) return 0;
    multiply(j, a, all, down);
    return reduce_packed(j, at, p) ? 1 / down : 0;
}

/* U = Q times the singular vectors of R, which lie by columns. */
static void give_u(const job *j, int64_t i, char *at, const char *small) {
    const int64_t ld = row_of(j), item = (int64_t)j->a.item;
    const fac_matrices u = fac__matrices_turned(j->u);
    char *c = at + j->at_c;
    memset(c, 0, (size_t)(j->rows * ld * item));
    for (int64_t r = 0; r < j->n; r++)
        for (int64_t k = 0; k < j->n; k++) memcpy(c + (r * ld + k) * item, small + (k * j->n + r) * item, (size_t)item);
    FAC_ISA_PICK(fac__factor_kernels)
    ()->qr_apply(j->dtype, j->rows, j->n, at + j->at_rows, ld, at + j->at_tau, false, c, ld, j->n, false,
                 at + j->at_room);
    fac__matrix_unpack(&u, i, c, ld);
}

/* The matrix that LAPACK gets, and what reduce returns. */
static double load(const job *j, int64_t i, char *at, char *p) {
    if (j->rows) return reduce(j, i, at, p);
    fac__matrix_pack(&j->a, i, p, fac__ld(j->m));
    return fac__all_finite(p, (int64_t)j->m * j->n, j->kind);
}

static fac_status one(const job *j, int64_t i, char *at) {
    const bool vectors = j->what != 'N';
    int unused;
    parts p = {.a = at + j->at_a,
               .ldu = 1,
               .ldvh = 1,
               .work = at + j->at_work,
               .real = at + j->at_real,
               .ints = (int *)(void *)(at + j->at_int),
               .lwork = j->lwork};
    p.s = fac__matrix_room(&j->s, i, at + j->at_s, &unused);
    p.u = !vectors ? p.a : j->rows ? at + j->at_u : fac__matrix_room(&j->u, i, at + j->at_u, &p.ldu);
    if (vectors && j->rows) p.ldu = j->n;
    p.vh = vectors ? fac__matrix_room(&j->vh, i, at + j->at_vh, &p.ldvh) : p.a;
    const double up = load(j, i, at, p.a);
    if (up == 0) return not_finite(i);
    int info = decompose(j, &p);
    FAC_CHECK(info == 0, FAC_ERR_ARGUMENT,
              "(Batch element %lld): The algorithm failed to converge because the input matrix is "
              "ill-conditioned or has too many repeated singular values (error code: %d).",
              (long long)i, info);
    if (up != 1) multiply(j, p.s, j->k, up);
    fac__matrix_settle(&j->s, i, p.s, at + j->at_s);
    if (!vectors) return FAC_OK;
    if (j->rows)
        give_u(j, i, at, p.u);
    else
        fac__matrix_settle(&j->u, i, p.u, at + j->at_u);
    fac__matrix_settle(&j->vh, i, p.vh, at + j->at_vh);
    return FAC_OK;
}

static fac_status chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++) FAC_TRY(one(ctx, i, scratch));
    return FAC_OK;
}

static int ask_work(const job *j) {
    double answer[2] = {0};
    int some[8];
    parts p = {answer, answer, answer, answer, answer, answer, fac__ld(j->m), fac__ld(j->n), some, -1};
    (void)decompose(j, &p);
    return fac__lapack_work(j->kind, answer);
}

/* Sizes of the workspaces are those that gesdd's description asks for. */
static int64_t lay_out(job *j) {
    const int64_t k = j->k, big = fac__max(j->m, j->n);
    const size_t real = j->kind % 2 ? sizeof(double) : sizeof(float);
    const bool vectors = j->what != 'N';
    int64_t bytes = 0;
    j->at_a = fac__part(&bytes, j->m, j->n, j->a.item);
    j->at_s = fac__part(&bytes, k, 1, real);
    j->at_u = fac__part(&bytes, vectors ? j->rows ? j->n : j->u.rows : 0, j->u.cols, j->a.item);
    j->at_vh = fac__part(&bytes, vectors ? j->vh.rows : 0, j->vh.cols, j->a.item);
    j->at_work = fac__part(&bytes, j->lwork, 1, j->a.item);
    if (j->kind >= 2)
        j->at_real = fac__part(&bytes, fac__max(5 * k * k + 5 * k, 2 * big * k + 2 * k * k + k) + 7 * k, 1, real);
    j->at_int = fac__part(&bytes, 8 * k, 1, sizeof(int));
    if (j->rows) {
        j->at_rows = fac__part(&bytes, j->rows, row_of(j), j->a.item);
        j->at_c = fac__part(&bytes, vectors ? j->rows : 0, row_of(j), j->a.item);
        j->at_tau = fac__part(&bytes, k, 1, j->a.item);
        j->at_room = fac__part(&bytes, fac__factor_ld(j->rows, j->dtype), FAC_QR_BLOCK, j->a.item);
    }
    return bytes;
}

/* Of matrices without elements U and Vh are identities. */
static fac_status of_nothing(fac_structured *s) {
    for (int i = 0; i < 3; i += 2) {
        fac_tensor *t = s->out[i];
        fac_matrices m;
        if (t->ndim < 2 || t->numel == 0) continue;
        FAC_TRY(fac__fill_below(t, fac_scalar_i_(0)));
        m = fac__matrices(t, 2);
        for (int64_t b = 0; b < m.count; b++)
            for (int64_t d = 0; d < fac__min(m.rows, m.cols); d++) {
                char *at = fac__matrix_at(&m, b) + d * (m.row + m.col);
                if (fac__lapack_kind((fac_dtype)t->dtype) % 2)
                    *(double *)(void *)at = 1;
                else
                    *(float *)(void *)at = 1;
            }
    }
    return FAC_OK;
}

/* Turns a wide matrix, A^T = V S U^T, and gives LAPACK the triangle of a tall one. */
static void look_for_tall(job *j) {
    if (!fac__factor_takes(j->dtype) || j->what == 'A') return;
    if (j->a.cols >= 2 * j->a.rows) {
        const fac_matrices u = j->u;
        j->a = fac__matrices_turned(j->a);
        j->u = fac__matrices_turned(j->vh);
        j->vh = fac__matrices_turned(u);
    }
    if (j->a.rows < 2 * j->a.cols) return;
    j->rows = j->a.rows;
    j->m = j->n = (int)j->a.cols;
}

fac_status _linalg_svd_cpu(fac_structured *s, fac_tensor *A, bool full_matrices, bool compute_uv, const char *driver) {
    (void)driver;
    FAC_TRY(fac__lapack_sizes(A));
    FAC_TRY(fac__lapack_load());
    for (int i = 0; i < 3; i++) FAC_TRY(fac_out_aside(s, i));
    if (A->numel == 0) return of_nothing(s);
    job j = {.kind = fac__lapack_kind((fac_dtype)A->dtype),
             .dtype = (fac_dtype)A->dtype,
             .what = !compute_uv     ? 'N'
                     : full_matrices ? 'A'
                                     : 'S',
             .a = fac__matrices(A, 2),
             .s = fac__matrices(s->out[1], 1)};
    if (compute_uv) {
        j.u = fac__matrices(s->out[0], 2);
        j.vh = fac__matrices(s->out[2], 2);
    }
    j.m = (int)j.a.rows;
    j.n = (int)j.a.cols;
    j.k = (int)fac__min(j.m, j.n);
    const double work = 8.0 * j.m * j.n * j.k;
    look_for_tall(&j);
    j.lwork = ask_work(&j);
    return fac__lapack_for(j.a.count, work, lay_out(&j), chunk, &j);
}
