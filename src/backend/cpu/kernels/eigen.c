/* Eigenvalues and eigenvectors: our own of small symmetric matrices, LAPACK's syevd (heevd) of larger (Hermitian) ones, geev of others.

   One matrix at a time, batches cut into chunks of whole matrices; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. A matrix that is not finite is refused before LAPACK sees it. */
#include "backend/cpu/eigen.h"
#include "backend/cpu/kernels/matrices.h"
#include "ops_gen.h"

typedef struct job {
    int kind, n, lwork, lreal, lints; /* kind: of the matrices */
    char uplo;
    bool vectors;
    fac_matrices a, w, v;
    int64_t at_a, at_w, at_v, at_work, at_real, at_int, at_own; /* in scratch */
} job;

static double cubed(int64_t n) { return (double)n * (double)n * (double)n; }
static size_t real_size(const job *j) { return j->kind % 2 ? sizeof(double) : sizeof(float); }

static fac_status need_finite(const void *a, int64_t n, int kind, int64_t i) {
    FAC_CHECK(fac__all_finite(a, n, kind), FAC_ERR_ARGUMENT,
              "(Batch element %lld): input tensor should not contain infs or NaNs.", (long long)i);
    return FAC_OK;
}

static fac_status converged(int info, int64_t i) {
    FAC_CHECK(info == 0, FAC_ERR_ARGUMENT,
              "(Batch element %lld): The algorithm failed to converge because the input matrix is ill-conditioned or "
              "has too many repeated eigenvalues (error code: %d).",
              (long long)i, info);
    return FAC_OK;
}

/* ---- symmetric ---------------------------------------------------------------------------------------------------------------- */

/* A call of syevd or heevd; with sizes of -1 the workspaces' first elements become their sizes. */
typedef struct symmetric {
    void *a, *w, *work, *real;
    int ld, *ints, lwork, lreal, lints;
} symmetric;

static int decompose(const job *j, const symmetric *p) {
    const char *what = j->vectors ? "V" : "N";
    int info = 0;
    if (j->kind < 2)
        fac__lapack.syevd[j->kind](what, &j->uplo, &j->n, p->a, &p->ld, p->w, p->work, &p->lwork, p->ints, &p->lints,
                                   &info, 1, 1);
    else
        fac__lapack.heevd[j->kind](what, &j->uplo, &j->n, p->a, &p->ld, p->w, p->work, &p->lwork, p->real, &p->lreal,
                                   p->ints, &p->lints, &info, 1, 1);
    return info;
}

static bool is_own(const job *j) { return j->kind < 2 && j->n <= FAC_EIGEN_MOST; }
/* False where LAPACK is to try: a is left as it was. */
static bool decompose_own(const job *j, const symmetric *p, void *room) {
    const fac_eigen e = {.dtype = j->kind ? FAC_F64 : FAC_F32,
                         .n = j->n,
                         .upper = j->uplo == 'U',
                         .a = p->a,
                         .w = p->w,
                         .v = j->vectors ? p->a : NULL,
                         .lda = p->ld,
                         .ldv = p->ld};
    return FAC_ISA_PICK(fac__eigen_symmetric)(&e, room);
}

/* The triangle that is read, with its other half set to zero so that what is there does not count as not finite. */
static fac_status one_symmetric(const job *j, int64_t i, char *at) {
    int unused;
    symmetric p = {.a = at + j->at_a,
                   .ld = fac__ld(j->n),
                   .work = at + j->at_work,
                   .real = at + j->at_real,
                   .ints = (int *)(void *)(at + j->at_int),
                   .lwork = j->lwork,
                   .lreal = j->lreal,
                   .lints = j->lints};
    p.w = fac__matrix_room(&j->w, i, at + j->at_w, &unused);
    if (j->vectors) p.a = fac__matrix_room(&j->v, i, at + j->at_a, &p.ld);
    fac__matrix_pack(&j->a, i, p.a, p.ld);
    fac__clear_triangle(p.a, p.ld, j->n, j->n, j->a.item, j->uplo == 'L');
    for (int64_t c = 0; c < j->n; c++)
        FAC_TRY(need_finite((char *)p.a + (size_t)(c * p.ld) * j->a.item, j->n, j->kind, i));
    if (!is_own(j) || !decompose_own(j, &p, at + j->at_own)) FAC_TRY(converged(decompose(j, &p), i));
    fac__matrix_settle(&j->w, i, p.w, at + j->at_w);
    if (j->vectors) fac__matrix_settle(&j->v, i, p.a, at + j->at_a);
    return FAC_OK;
}

static fac_status symmetric_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++) FAC_TRY(one_symmetric(ctx, i, scratch));
    return FAC_OK;
}

static void ask_symmetric(job *j) {
    double work[2] = {0}, real[2] = {0};
    int ints[1] = {0};
    symmetric p = {work, work, work, real, fac__ld(j->n), ints, -1, -1, -1};
    (void)decompose(j, &p);
    j->lwork = fac__lapack_work(j->kind, work);
    j->lreal = j->kind < 2 ? 0 : fac__lapack_work(j->kind, real);
    j->lints = (int)fac__max(1, ints[0]);
}

fac_status _linalg_eigh_cpu(fac_structured *s, fac_tensor *A, const char *uplo, bool compute_v) {
    FAC_TRY(fac__lapack_sizes(A));
    FAC_TRY(fac__lapack_load());
    for (int i = 0; i < 2; i++) FAC_TRY(fac_out_aside(s, i));
    job j = {.kind = fac__lapack_kind((fac_dtype)A->dtype),
             .uplo = *uplo == 'U' || *uplo == 'u' ? 'U' : 'L',
             .vectors = compute_v,
             .a = fac__matrices(A, 2),
             .w = fac__matrices(s->out[0], 1)};
    if (compute_v) j.v = fac__matrices(s->out[1], 2);
    j.n = (int)j.a.rows;
    ask_symmetric(&j);
    int64_t bytes = 0;
    j.at_a = fac__part(&bytes, j.n, j.n, j.a.item);
    j.at_w = fac__part(&bytes, j.n, 1, real_size(&j));
    j.at_work = fac__part(&bytes, j.lwork, 1, j.a.item);
    j.at_real = fac__part(&bytes, j.lreal, 1, real_size(&j));
    j.at_int = fac__part(&bytes, j.lints, 1, sizeof(int));
    j.at_own = fac__part(&bytes, is_own(&j) ? fac__eigen_room(j.n) : 0, 1, 1);
    return fac__lapack_for(j.n ? j.a.count : 0, 4 * cubed(j.n), bytes, symmetric_chunk, &j);
}

/* ---- others -------------------------------------------------------------------------------------------------------------------- */

/* A call of geev. Of real matrices w and v are real too: w is n real parts and n imaginary ones. */
static int decompose_general(const job *j, void *a, char *w, void *v, void *work, void *real, int lwork) {
    const char *what = j->vectors ? "V" : "N";
    const int ld = fac__ld(j->n);
    int info = 0;
    if (j->kind < 2)
        fac__lapack.geev[j->kind]("N", what, &j->n, a, &ld, w, w + (size_t)j->n * real_size(j), work, &ld, v, &ld, work,
                                  &lwork, &info, 1, 1);
    else
        fac__lapack.geev_complex[j->kind]("N", what, &j->n, a, &ld, w, work, &ld, v, &ld, work, &lwork, real, &info, 1,
                                          1);
    return info;
}

/* Makes complex numbers of two real columns; `im` NULL: of one. sign: of the imaginary part. */
#define PAIR(T, name)                                                                        \
    static void name(T *to, const T *re, const T *im, T sign, int64_t n) {                   \
        for (int64_t r = 0; r < n; r++) {                                                    \
            to[2 * r] = re[r];                                                               \
            to[2 * r + 1] = im ? sign * im[r] : 0;                                           \
        }                                                                                    \
    }                                                                                        \
    /* Eigenvectors of conjugate pairs share two real columns: real part, imaginary part. */ \
    static void name##_vectors(T *to, int64_t ld, const T *wi, const T *v, int64_t n) {      \
        for (int64_t c = 0; c < n; c++) {                                                    \
            const T *re = v + c * n;                                                         \
            if (wi[c] == 0 || c + 1 == n) {                                                  \
                name(to + 2 * c * ld, re, NULL, 1, n);                                       \
                continue;                                                                    \
            }                                                                                \
            name(to + 2 * c * ld, re, re + n, 1, n);                                         \
            name(to + 2 * (c + 1) * ld, re, re + n, -1, n);                                  \
            c++;                                                                             \
        }                                                                                    \
    }
PAIR(float, pair_f32)
PAIR(double, pair_f64)

static void give_values(const job *j, void *to, const void *w) {
    if (j->kind == 0)
        pair_f32(to, w, (const float *)w + j->n, 1, j->n);
    else
        pair_f64(to, w, (const double *)w + j->n, 1, j->n);
}

static void give_vectors(const job *j, void *to, int64_t ld, const void *w, const void *v) {
    if (j->kind == 0)
        pair_f32_vectors(to, ld, (const float *)w + j->n, v, j->n);
    else
        pair_f64_vectors(to, ld, (const double *)w + j->n, v, j->n);
}

/* Complex results are written where they stand; real ones are made complex on their way there. */
static fac_status one_general(const job *j, int64_t i, char *at) {
    const bool real = j->kind < 2;
    char *a = at + j->at_a, *room_w = at + j->at_w, *room_v = at + j->at_v;
    char *real_w = room_w + 2 * (size_t)j->n * real_size(j),
         *real_v = room_v + 2 * (size_t)j->n * (size_t)j->n * real_size(j);
    int unused, ld = fac__ld(j->n);
    char *w = fac__matrix_room(&j->w, i, room_w, &unused), *v = room_v;
    fac__matrix_pack(&j->a, i, a, fac__ld(j->n));
    FAC_TRY(need_finite(a, (int64_t)j->n * j->n, j->kind, i));
    int info =
        decompose_general(j, a, real ? real_w : w, real ? real_v : room_v, at + j->at_work, at + j->at_real, j->lwork);
    FAC_TRY(converged(info, i));
    if (real) give_values(j, w, real_w);
    fac__matrix_settle(&j->w, i, w, room_w);
    if (!j->vectors) return FAC_OK;
    if (real) {
        v = fac__matrix_room(&j->v, i, room_v, &ld);
        give_vectors(j, v, ld, real_w, real_v);
        fac__matrix_settle(&j->v, i, v, room_v);
    } else {
        fac__matrix_unpack(&j->v, i, room_v, ld);
    }
    return FAC_OK;
}

static fac_status general_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++) FAC_TRY(one_general(ctx, i, scratch));
    return FAC_OK;
}

static fac_status general(fac_structured *s, fac_tensor *self, bool vectors) {
    FAC_TRY(fac__lapack_sizes(self));
    FAC_TRY(fac__lapack_load());
    for (int i = 0; i < s->n_out; i++) FAC_TRY(fac_out_aside(s, i));
    job j = {.kind = fac__lapack_kind((fac_dtype)self->dtype),
             .vectors = vectors,
             .a = fac__matrices(self, 2),
             .w = fac__matrices(s->out[0], 1)};
    if (vectors) j.v = fac__matrices(s->out[1], 2);
    j.n = (int)j.a.rows;
    double answer[2] = {0};
    (void)decompose_general(&j, answer, (char *)answer, answer, answer, answer, -1);
    j.lwork = fac__lapack_work(j.kind, answer);
    int64_t bytes = 0;
    j.at_a = fac__part(&bytes, j.n, j.n, j.a.item);
    j.at_w = fac__part(&bytes, j.n, 4, real_size(&j));
    j.at_v = fac__part(&bytes, fac__mul_or_max(j.n, vectors ? j.n : 0), 3, real_size(&j));
    j.at_work = fac__part(&bytes, j.lwork, 1, j.a.item);
    j.at_real = fac__part(&bytes, j.n, 2, real_size(&j));
    j.at_int = 0;
    return fac__lapack_for(j.n ? j.a.count : 0, 10 * cubed(j.n), bytes, general_chunk, &j);
}

fac_status linalg_eig_cpu(fac_structured *s, fac_tensor *self) { return general(s, self, true); }
fac_status _linalg_eigvals_cpu(fac_structured *s, fac_tensor *self) { return general(s, self, false); }
