/* QR factors by Householder reflections: LAPACK's geqrf, orgqr (ungqr) and ormqr (unmqr).

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. */
#include "backend/cpu/kernels/matrices.h"
#include "ops_gen.h"

typedef struct job {
    int kind, m, n, k, lwork; /* m x n matrices, k reflections */
    int columns;              /* of Q */
    bool left, transpose;
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
    job j = {.kind = kind_of(A), .a = fac__matrices(A, 2)};
    j.m = (int)j.a.rows;
    j.n = (int)j.a.cols;
    j.k = (int)fac__min(j.m, j.n);
    return j;
}

fac_status linalg_qr_cpu(fac_structured *s, fac_tensor *A, const char *mode) {
    FAC_TRY(fac__lapack_sizes(A));
    FAC_TRY(fac__lapack_load());
    job j = job_of(A);
    j.r = fac__matrices(s->out[1], 2);
    if (*mode != 'r' || mode[1]) {
        j.q = fac__matrices(s->out[0], 2);
        j.columns = (int)j.q.cols;
    }
    j.lwork = (int)fac__max(ask_geqrf(&j), j.columns ? ask_orgqr(&j, j.columns) : 1);
    const int64_t count = j.r.rows ? j.a.count : 0; /* with an R of no rows there is a Q of no elements */
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
    FAC_TRY(fac__lapack_load());
    job j = job_of(self);
    j.q = fac__matrices(s->out[0], 2);
    j.tau = fac__matrices(s->out[1], 1);
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
    FAC_TRY(fac__lapack_load());
    job j = job_of(input);
    j.tau = fac__matrices(tau, 1);
    j.q = fac__matrices(s->out[0], 2);
    j.k = (int)j.tau.rows;
    j.columns = j.n;
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
    FAC_TRY(fac__lapack_load());
    job j = job_of(self);
    j.left = left;
    j.transpose = transpose;
    j.tau = fac__matrices(tau, 1);
    j.other = fac__matrices(other, 2);
    j.q = fac__matrices(s->out[0], 2);
    j.k = (int)j.tau.rows;
    j.lwork = ask_ormqr(&j);
    int64_t bytes = 0;
    j.at_a = fac__part(&bytes, j.m, j.n, j.a.item);
    j.at_tau = fac__part(&bytes, j.k, 1, j.a.item);
    j.at_q = fac__part(&bytes, j.q.rows, j.q.cols, j.a.item);
    j.at_work = fac__part(&bytes, j.lwork, 1, j.a.item);
    const double work = 4.0 * (double)j.q.rows * (double)j.q.cols * j.k;
    return fac__lapack_for(j.q.rows && j.q.cols ? j.q.count : 0, work, bytes, apply_chunk, &j);
}
