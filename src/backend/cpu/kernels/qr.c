/* QR factors by Householder reflections: of real matrices by the kernels of factor.h, of complex ones by LAPACK's geqrf, orgqr (ungqr)
   and ormqr (unmqr).

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. */
#include "backend/cpu/kernels/matrices.h"
#include "ops_gen.h"

enum { SHORT_ROW = 256 }; /* bytes */

typedef struct job {
    int kind, m, n, k, lwork; /* m x n matrices, k reflections */
    int columns;              /* of Q */
    bool left, transpose;
    fac_dtype dtype;
    fac_matrices a, q, r, tau, other;
    int64_t at_a, at_q, at_tau, at_work; /* in scratch */
} job;

static int kind_of(const fac_tensor *t) { return fac__lapack_kind((fac_dtype)t->dtype); }
static double work_of(const job *j) { return 2.0 * j->m * j->n * j->k; }

/* Copies the first `cols` columns of `rows` elements of one column-major matrix to another. */
static void copy_columns(char *to, int64_t ld, const char *from, int64_t ld_from, int64_t rows, int64_t cols,
                         size_t item) {
    for (int64_t c = 0; c < cols && to != from; c++)
        memcpy(to + (size_t)(c * ld) * item, from + (size_t)(c * ld_from) * item, (size_t)rows * item);
}

/* ---- real matrices: by rows ------------------------------------------------------------------------------------------------- */

static const fac_factor_kernels *kernels(void) { return FAC_ISA_PICK(fac__factor_kernels)(); }

/* Matrix i, turned if its columns are to be rows, with zeros behind them: short rows are cleared as one. */
static void pack_rows(const job *j, fac_matrices m, int64_t i, char *to, bool turned) {
    const fac_matrices by = turned ? m : fac__matrices_turned(m); /* its columns are what is packed */
    const int64_t ld = fac__factor_row(by.rows, j->dtype), item = (int64_t)by.item;
    const bool together = ld * item <= SHORT_ROW && by.rows < ld;
    if (together) memset(to, 0, (size_t)(by.cols * ld * item));
    fac__matrix_pack(&by, i, to, ld);
    for (int64_t r = 0; r < by.cols && !together; r++)
        memset(to + (r * ld + by.rows) * item, 0, (size_t)((ld - by.rows) * item));
}

/* C = Q C for a C of the identity's first columns, into q's matrix i. */
static void give_q(const job *j, int64_t i, const char *a, const char *tau, char *scratch) {
    char *c = scratch + j->at_q;
    const int64_t ld = fac__factor_row(j->columns, j->dtype), item = (int64_t)j->a.item;
    const fac_matrices q = fac__matrices_turned(j->q);
    memset(c, 0, (size_t)(j->m * ld * item));
    for (int64_t r = 0; r < fac__min(j->m, j->columns); r++) {
        char *one = c + r * (ld + 1) * item;
        if (j->dtype == FAC_F64)
            *(double *)(void *)one = 1;
        else
            *(float *)(void *)one = 1;
    }
    kernels()->qr_apply(j->dtype, j->m, j->k, a, fac__factor_row(j->n, j->dtype), tau, false, c, ld, j->columns, true,
                        scratch + j->at_work);
    fac__matrix_unpack(&q, i, c, ld);
}

/* Few columns of many rows stay columns. */
static bool stays_columns(const job *j) {
    return kernels()->qr_columns && j->m >= FAC_QR_TALL && j->n <= FAC_QR_BLOCK && j->columns <= j->n;
}

static fac_status qr_columns_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *v = at + j->at_work, *tau = at + j->at_tau, *room = at + j->at_q;
    const int64_t ld = fac__factor_ld(j->m, j->dtype);
    for (int64_t i = begin; i < end; i++) {
        int ldq;
        fac__matrix_pack(&j->a, i, v, ld);
        kernels()->qr_columns(j->dtype, j->m, j->n, v, ld, tau);
        fac__matrix_unpack(&j->r, i, v, ld);
        fac__matrix_clear_triangle(&j->r, i, false);
        if (!j->columns) continue;
        char *q = fac__matrix_room(&j->q, i, room, &ldq);
        kernels()->qr_columns_give(j->dtype, j->m, j->n, v, ld, tau, q, ldq);
        fac__matrix_settle(&j->q, i, q, room);
    }
    return FAC_OK;
}

static fac_status qr_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *a = at + j->at_a, *tau = at + j->at_tau;
    const int64_t ld = fac__factor_row(j->n, j->dtype);
    const fac_matrices r = fac__matrices_turned(j->r);
    for (int64_t i = begin; i < end; i++) {
        pack_rows(j, j->a, i, a, false);
        kernels()->qr(j->dtype, j->m, j->n, a, ld, tau, at + j->at_work);
        fac__matrix_unpack(&r, i, a, ld);
        fac__matrix_clear_triangle(&j->r, i, false);
        if (j->columns) give_q(j, i, a, tau, at);
    }
    return FAC_OK;
}

static fac_status geqrf_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *a = at + j->at_a, *tau = at + j->at_tau;
    const int64_t ld = fac__factor_row(j->n, j->dtype);
    const fac_matrices q = fac__matrices_turned(j->q);
    for (int64_t i = begin; i < end; i++) {
        pack_rows(j, j->a, i, a, false);
        kernels()->qr(j->dtype, j->m, j->n, a, ld, tau, at + j->at_work);
        fac__matrix_unpack(&q, i, a, ld);
        fac__matrix_unpack(&j->tau, i, tau, fac__ld(j->k));
    }
    return FAC_OK;
}

static fac_status product_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *a = at + j->at_a, *tau = at + j->at_tau;
    for (int64_t i = begin; i < end; i++) {
        pack_rows(j, j->a, i, a, false);
        fac__matrix_pack(&j->tau, i, tau, fac__ld(j->k));
        give_q(j, i, a, tau, at);
    }
    return FAC_OK;
}

/* C Q is the transpose of Q^T C^T. */
static fac_status apply_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *a = at + j->at_a, *c = at + j->at_q, *tau = at + j->at_tau;
    const fac_matrices out = j->left ? fac__matrices_turned(j->q) : j->q;
    const int64_t ld = fac__factor_row(out.rows, j->dtype);
    for (int64_t i = begin; i < end; i++) {
        pack_rows(j, j->a, i, a, false);
        pack_rows(j, j->other, i, c, !j->left);
        fac__matrix_pack(&j->tau, i, tau, fac__ld(j->k));
        kernels()->qr_apply(j->dtype, out.cols, j->k, a, fac__factor_row(j->n, j->dtype), tau, j->left == j->transpose,
                            c, ld, out.rows, false, at + j->at_work);
        fac__matrix_unpack(&out, i, c, ld);
    }
    return FAC_OK;
}

/* Scratch memory for one matrix of reflections, another of `rows` x `cols`, and for what the kernels work in. */
static int64_t real_scratch(job *j, int64_t rows, int64_t cols) {
    int64_t bytes = 0;
    j->at_a = fac__part(&bytes, j->m, fac__factor_row(j->n, j->dtype), j->a.item);
    j->at_q = fac__part(&bytes, rows, fac__factor_row(cols, j->dtype), j->a.item);
    j->at_tau = fac__part(&bytes, j->k, 1, j->a.item);
    j->at_work = fac__part(&bytes, fac__factor_ld(j->m, j->dtype), FAC_QR_BLOCK, j->a.item);
    return bytes;
}

/* ---- complex matrices: LAPACK ------------------------------------------------------------------------------------------------- */

static int ask_geqrf(const job *j) {
    double answer[2] = {0};
    int all = -1, info = 0, ld = fac__ld(j->m);
    fac__lapack.geqrf[j->kind](&j->m, &j->n, answer, &ld, answer, answer, &all, &info);
    return fac__lapack_work(j->kind, answer);
}

static int ask_orgqr(const job *j, int columns) {
    double answer[2] = {0};
    int all = -1, info = 0, ld = fac__ld(j->m);
    fac__lapack.orgqr[j->kind](&j->m, &columns, &j->k, answer, &ld, answer, answer, &all, &info);
    return fac__lapack_work(j->kind, answer);
}

/* ---- Q and R --------------------------------------------------------------------------------------------------------------- */

/* R's rows are as many as Q's columns; the reflections below the diagonal go to Q, and zeros in their place. */
static void give_r(const job *j, int64_t i, const char *a, char *room) {
    int ld;
    const int64_t rows = j->r.rows;
    char *r = fac__matrix_room(&j->r, i, room, &ld);
    copy_columns(r, ld, a, fac__ld(j->m), fac__min(rows, j->m), j->n, j->r.item);
    fac__clear_triangle(r, ld, rows, j->n, j->r.item, false);
    fac__matrix_settle(&j->r, i, r, room);
}

static fac_status qr_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch, *a = at + j->at_a, *tau = at + j->at_tau, *work = at + j->at_work, *room = at + j->at_q;
    const int lda = fac__ld(j->m);
    for (int64_t i = begin; i < end; i++) {
        int ld, info = 0;
        fac__matrix_pack(&j->a, i, a, lda);
        if (j->k) fac__lapack.geqrf[j->kind](&j->m, &j->n, a, &lda, tau, work, &j->lwork, &info);
        give_r(j, i, a, room);
        if (!j->columns) continue;
        char *q = fac__matrix_room(&j->q, i, room, &ld);
        copy_columns(q, ld, a, lda, j->m, fac__min(j->n, j->columns), j->q.item);
        fac__lapack.orgqr[j->kind](&j->m, &j->columns, &j->k, q, &ld, tau, work, &j->lwork, &info);
        fac__matrix_settle(&j->q, i, q, room);
    }
    return FAC_OK;
}

/* Scratch memory for one matrix, its reflections, the larger of Q and R, and LAPACK's work. */
static int64_t qr_scratch(job *j) {
    int64_t bytes = 0;
    j->at_a = fac__part(&bytes, j->m, j->n, j->a.item);
    j->at_tau = fac__part(&bytes, j->k, 1, j->a.item);
    j->at_q = fac__part(&bytes, fac__max(j->m, j->k), fac__max(j->columns, j->n), j->a.item);
    j->at_work = fac__part(&bytes, j->lwork, 1, j->a.item);
    return bytes;
}

static job job_of(const fac_tensor *A) {
    job j = {.kind = kind_of(A), .dtype = (fac_dtype)A->dtype, .a = fac__matrices(A, 2)};
    j.m = (int)j.a.rows;
    j.n = (int)j.a.cols;
    j.k = (int)fac__min(j.m, j.n);
    return j;
}

fac_status linalg_qr_cpu(fac_structured *s, fac_tensor *A, const char *mode) {
    FAC_TRY(fac__lapack_sizes(A));
    job j = job_of(A);
    j.r = fac__matrices(s->out[1], 2);
    if (*mode != 'r' || mode[1]) {
        j.q = fac__matrices(s->out[0], 2);
        j.columns = (int)j.q.cols;
    }
    const int64_t count = j.r.rows ? j.a.count : 0; /* with an R of no rows there is a Q of no elements */
    if (fac__factor_takes(j.dtype))
        return fac__factor_for(count, work_of(&j), real_scratch(&j, j.m, j.columns),
                               stays_columns(&j) ? qr_columns_chunk : qr_real_chunk, &j);
    FAC_TRY(fac__lapack_load());
    j.lwork = (int)fac__max(ask_geqrf(&j), j.columns ? ask_orgqr(&j, j.columns) : 1);
    return fac__lapack_for(count, work_of(&j), qr_scratch(&j), qr_chunk, &j);
}

static fac_status geqrf_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, unused, info = 0;
        char *a = fac__matrix_room(&j->q, i, at + j->at_a, &ld),
             *tau = fac__matrix_room(&j->tau, i, at + j->at_tau, &unused);
        fac__matrix_pack(&j->a, i, a, ld);
        fac__lapack.geqrf[j->kind](&j->m, &j->n, a, &ld, tau, at + j->at_work, &j->lwork, &info);
        fac__matrix_settle(&j->q, i, a, at + j->at_a);
        fac__matrix_settle(&j->tau, i, tau, at + j->at_tau);
    }
    return FAC_OK;
}

fac_status geqrf_cpu(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac__lapack_sizes(self));
    job j = job_of(self);
    j.q = fac__matrices(s->out[0], 2);
    j.tau = fac__matrices(s->out[1], 1);
    if (fac__factor_takes(j.dtype))
        return fac__factor_for(j.k ? j.a.count : 0, work_of(&j), real_scratch(&j, 0, 0), geqrf_real_chunk, &j);
    FAC_TRY(fac__lapack_load());
    j.lwork = ask_geqrf(&j);
    return fac__lapack_for(j.k ? j.a.count : 0, work_of(&j), qr_scratch(&j), geqrf_chunk, &j);
}

/* ---- products of reflections ------------------------------------------------------------------------------------------------- */

static fac_status product_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, unused, info = 0;
        char *q = fac__matrix_room(&j->q, i, at + j->at_q, &ld);
        const void *tau = fac__matrix_read(&j->tau, i, at + j->at_tau, &unused);
        fac__matrix_pack(&j->a, i, q, ld);
        fac__lapack.orgqr[j->kind](&j->m, &j->n, &j->k, q, &ld, tau, at + j->at_work, &j->lwork, &info);
        fac__matrix_settle(&j->q, i, q, at + j->at_q);
    }
    return FAC_OK;
}

fac_status linalg_householder_product_cpu(fac_structured *s, fac_tensor *input, fac_tensor *tau) {
    FAC_TRY(fac__lapack_sizes(input));
    job j = job_of(input);
    j.tau = fac__matrices(tau, 1);
    j.q = fac__matrices(s->out[0], 2);
    j.k = (int)j.tau.rows;
    j.columns = j.n;
    if (fac__factor_takes(j.dtype))
        return fac__factor_for(j.n ? j.a.count : 0, work_of(&j), real_scratch(&j, j.m, j.n), product_real_chunk, &j);
    FAC_TRY(fac__lapack_load());
    j.lwork = ask_orgqr(&j, j.n);
    return fac__lapack_for(j.n ? j.a.count : 0, work_of(&j), qr_scratch(&j), product_chunk, &j);
}

static fac_status apply_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const char side = j->left ? 'L' : 'R', trans = !j->transpose ? 'N' : j->kind >= 2 ? 'C' : 'T';
    const int m = (int)j->q.rows, n = (int)j->q.cols;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, unused, info = 0;
        const int lda = fac__ld(j->m);
        char *c = fac__matrix_room(&j->q, i, at + j->at_q, &ld), *a = at + j->at_a;
        const void *tau = fac__matrix_read(&j->tau, i, at + j->at_tau, &unused);
        fac__matrix_pack(&j->a, i, a, lda); /* a copy in any case: the routine writes to it and puts it right again */
        fac__matrix_pack(&j->other, i, c, ld);
        fac__lapack.ormqr[j->kind](&side, &trans, &m, &n, &j->k, a, &lda, tau, c, &ld, at + j->at_work, &j->lwork,
                                   &info, 1, 1);
        fac__matrix_settle(&j->q, i, c, at + j->at_q);
    }
    return FAC_OK;
}

static int ask_ormqr(const job *j) {
    const char side = j->left ? 'L' : 'R';
    const int m = (int)j->q.rows, n = (int)j->q.cols, lda = fac__ld(j->m), ld = fac__ld(m);
    double answer[2] = {0};
    int all = -1, info = 0;
    fac__lapack.ormqr[j->kind](&side, "N", &m, &n, &j->k, answer, &lda, answer, answer, &ld, answer, &all, &info, 1, 1);
    return fac__lapack_work(j->kind, answer);
}

fac_status ormqr_cpu(fac_structured *s, fac_tensor *self, fac_tensor *tau, fac_tensor *other, bool left,
                     bool transpose) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac__lapack_sizes(other));
    job j = job_of(self);
    j.left = left;
    j.transpose = transpose;
    j.tau = fac__matrices(tau, 1);
    j.other = fac__matrices(other, 2);
    j.q = fac__matrices(s->out[0], 2);
    j.k = (int)j.tau.rows;
    const double work = 4.0 * (double)j.q.rows * (double)j.q.cols * j.k;
    const int64_t count = j.q.rows && j.q.cols ? j.q.count : 0;
    int64_t bytes = 0;
    if (fac__factor_takes(j.dtype)) {
        bytes = left ? real_scratch(&j, j.q.rows, j.q.cols) : real_scratch(&j, j.q.cols, j.q.rows);
        return fac__factor_for(count, work, bytes, apply_real_chunk, &j);
    }
    FAC_TRY(fac__lapack_load());
    j.lwork = ask_ormqr(&j);
    j.at_a = fac__part(&bytes, j.m, j.n, j.a.item);
    j.at_tau = fac__part(&bytes, j.k, 1, j.a.item);
    j.at_q = fac__part(&bytes, j.q.rows, j.q.cols, j.a.item);
    j.at_work = fac__part(&bytes, j.lwork, 1, j.a.item);
    return fac__lapack_for(count, work, bytes, apply_chunk, &j);
}
