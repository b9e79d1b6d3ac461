/* Singular values and vectors: LAPACK's gesdd, divide and conquer.

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. A matrix that is not finite is refused before LAPACK sees it. */
#include "backend/cpu/kernels/matrices.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

typedef struct job {
    int kind, m, n, k, lwork;
    char what; /* LAPACK's job: N, S or A */
    fac_matrices a, u, s, vh;
    int64_t at_a, at_u, at_s, at_vh, at_work, at_real, at_int; /* in scratch */
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
    p.u = vectors ? fac__matrix_room(&j->u, i, at + j->at_u, &p.ldu) : p.a;
    p.vh = vectors ? fac__matrix_room(&j->vh, i, at + j->at_vh, &p.ldvh) : p.a;
    fac__matrix_pack(&j->a, i, p.a, fac__ld(j->m));
    if (!fac__all_finite(p.a, (int64_t)j->m * j->n, j->kind)) return not_finite(i);
    int info = decompose(j, &p);
    FAC_CHECK(info == 0, FAC_ERR_ARGUMENT,
              "(Batch element %lld): The algorithm failed to converge because the input matrix is "
              "ill-conditioned or has too many repeated singular values (error code: %d).",
              (long long)i, info);
    fac__matrix_settle(&j->s, i, p.s, at + j->at_s);
    if (!vectors) return FAC_OK;
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
    j->at_u = fac__part(&bytes, vectors ? j->u.rows : 0, j->u.cols, j->a.item);
    j->at_vh = fac__part(&bytes, vectors ? j->vh.rows : 0, j->vh.cols, j->a.item);
    j->at_work = fac__part(&bytes, j->lwork, 1, j->a.item);
    if (j->kind >= 2)
        j->at_real = fac__part(&bytes, fac__max(5 * k * k + 5 * k, 2 * big * k + 2 * k * k + k) + 7 * k, 1, real);
    j->at_int = fac__part(&bytes, 8 * k, 1, sizeof(int));
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

fac_status _linalg_svd_cpu(fac_structured *s, fac_tensor *A, bool full_matrices, bool compute_uv, const char *driver) {
    (void)driver;
    FAC_TRY(fac__lapack_sizes(A));
    FAC_TRY(fac__lapack_load());
    for (int i = 0; i < 3; i++) FAC_TRY(fac_out_aside(s, i));
    if (A->numel == 0) return of_nothing(s);
    job j = {.kind = fac__lapack_kind((fac_dtype)A->dtype),
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
    j.lwork = ask_work(&j);
    return fac__lapack_for(j.a.count, 8.0 * j.m * j.n * j.k, lay_out(&j), chunk, &j);
}
