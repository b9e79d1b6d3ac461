/* The one way to LAPACK: `fac__lapack`, a table of its routines, which is filled from a shared library when the first operator needs
   one (docs/design/010-lapack.md). A build without it has lapack_none.c in place of lapack.c.

   Matrices are column-major, and every argument is passed by address, as Fortran has it; behind the last one stands the length of
   each text. A routine runs on the calling thread alone: batches are cut into chunks by fac__lapack_for. */
#ifndef FAC_SRC_BACKEND_CPU_LAPACK_H
#define FAC_SRC_BACKEND_CPU_LAPACK_H

#include "backend/cpu/parallel.h"

/* What a Fortran compiler adds for the text arguments of a routine: their lengths. */
#define FAC_LAPACK_1 size_t
#define FAC_LAPACK_2 size_t, size_t
#define FAC_LAPACK_4 size_t, size_t, size_t, size_t

/* X(member, name for real numbers, name for complex ones, parameters); a name of 0: there is none. */
#define FAC_LAPACK_ROUTINES(X)                                                                                         \
    X(potrf, "potrf", "potrf", (const char *uplo, const int *n, void *a, const int *lda, int *info, FAC_LAPACK_1))     \
    X(potrs, "potrs", "potrs",                                                                                         \
      (const char *uplo, const int *n, const int *nrhs, const void *a, const int *lda, void *b, const int *ldb,        \
       int *info, FAC_LAPACK_1))                                                                                       \
    X(potri, "potri", "potri", (const char *uplo, const int *n, void *a, const int *lda, int *info, FAC_LAPACK_1))     \
    X(getrf, "getrf", "getrf", (const int *m, const int *n, void *a, const int *lda, int *ipiv, int *info))            \
    X(getrs, "getrs", "getrs",                                                                                         \
      (const char *trans, const int *n, const int *nrhs, const void *a, const int *lda, const int *ipiv, void *b,      \
       const int *ldb, int *info, FAC_LAPACK_1))                                                                       \
    X(getri, "getri", "getri",                                                                                         \
      (const int *n, void *a, const int *lda, const int *ipiv, void *work, const int *lwork, int *info))               \
    X(trsm, "trsm", "trsm",                                                                                            \
      (const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,            \
       const void *alpha, const void *a, const int *lda, void *b, const int *ldb, FAC_LAPACK_4))                       \
    X(geqrf, "geqrf", "geqrf",                                                                                         \
      (const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork, int *info))       \
    X(orgqr, "orgqr", "ungqr",                                                                                         \
      (const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work,                 \
       const int *lwork, int *info))                                                                                   \
    X(ormqr, "ormqr", "unmqr",                                                                                         \
      (const char *side, const char *trans, const int *m, const int *n, const int *k, const void *a, const int *lda,   \
       const void *tau, void *c, const int *ldc, void *work, const int *lwork, int *info, FAC_LAPACK_2))               \
    X(sytrf, "sytrf", "sytrf",                                                                                         \
      (const char *uplo, const int *n, void *a, const int *lda, int *ipiv, void *work, const int *lwork, int *info,    \
       FAC_LAPACK_1))                                                                                                  \
    X(hetrf, "sytrf", "hetrf",                                                                                         \
      (const char *uplo, const int *n, void *a, const int *lda, int *ipiv, void *work, const int *lwork, int *info,    \
       FAC_LAPACK_1))                                                                                                  \
    X(sytrs, "sytrs", "sytrs",                                                                                         \
      (const char *uplo, const int *n, const int *nrhs, const void *a, const int *lda, const int *ipiv, void *b,       \
       const int *ldb, int *info, FAC_LAPACK_1))                                                                       \
    X(hetrs, "sytrs", "hetrs",                                                                                         \
      (const char *uplo, const int *n, const int *nrhs, const void *a, const int *lda, const int *ipiv, void *b,       \
       const int *ldb, int *info, FAC_LAPACK_1))                                                                       \
    X(gesdd, "gesdd", 0,                                                                                               \
      (const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u, const int *ldu,         \
       void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info, FAC_LAPACK_1))                  \
    X(gesdd_complex, 0, "gesdd",                                                                                       \
      (const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u, const int *ldu,         \
       void *vt, const int *ldvt, void *work, const int *lwork, void *rwork, int *iwork, int *info, FAC_LAPACK_1))     \
    X(syevd, "syevd", 0,                                                                                               \
      (const char *job, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work,                  \
       const int *lwork, int *iwork, const int *liwork, int *info, FAC_LAPACK_2))                                      \
    X(heevd, 0, "heevd",                                                                                               \
      (const char *job, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work,                  \
       const int *lwork, void *rwork, const int *lrwork, int *iwork, const int *liwork, int *info, FAC_LAPACK_2))      \
    X(geev, "geev", 0,                                                                                                 \
      (const char *left, const char *right, const int *n, void *a, const int *lda, void *wr, void *wi, void *vl,       \
       const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, int *info, FAC_LAPACK_2))             \
    X(geev_complex, 0, "geev",                                                                                         \
      (const char *left, const char *right, const int *n, void *a, const int *lda, void *w, void *vl, const int *ldvl, \
       void *vr, const int *ldvr, void *work, const int *lwork, void *rwork, int *info, FAC_LAPACK_2))                 \
    X(gels, "gels", "gels",                                                                                            \
      (const char *trans, const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,               \
       const int *ldb, void *work, const int *lwork, int *info, FAC_LAPACK_1))                                         \
    X(gelsy, "gelsy", 0,                                                                                               \
      (const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, int *jpvt,       \
       const void *rcond, int *rank, void *work, const int *lwork, int *info))                                         \
    X(gelsy_complex, 0, "gelsy",                                                                                       \
      (const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, int *jpvt,       \
       const void *rcond, int *rank, void *work, const int *lwork, void *rwork, int *info))                            \
    X(gelsd, "gelsd", 0,                                                                                               \
      (const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, void *s,         \
       const void *rcond, int *rank, void *work, const int *lwork, int *iwork, int *info))                             \
    X(gelsd_complex, 0, "gelsd",                                                                                       \
      (const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, void *s,         \
       const void *rcond, int *rank, void *work, const int *lwork, void *rwork, int *iwork, int *info))                \
    X(gelss, "gelss", 0,                                                                                               \
      (const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, void *s,         \
       const void *rcond, int *rank, void *work, const int *lwork, int *info))                                         \
    X(gelss_complex, 0, "gelss",                                                                                       \
      (const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, void *s,         \
       const void *rcond, int *rank, void *work, const int *lwork, void *rwork, int *info))

/* fac__lapack.getrf[fac__lapack_kind(dtype)](&m, ...): one routine for each of f32, f64, c64 and c128. */
#define FAC_LAPACK_MEMBER(name, real, complex, parameters) void(*name[4]) parameters;
typedef struct fac_lapack {
    FAC_LAPACK_ROUTINES(FAC_LAPACK_MEMBER)
} fac_lapack;
#undef FAC_LAPACK_MEMBER
/* All NULL until fac__lapack_load succeeds. */
extern FAC_HIDDEN fac_lapack fac__lapack;

static inline int fac__lapack_kind(fac_dtype d) { return d == FAC_F32 ? 0 : d == FAC_F64 ? 1 : d == FAC_C64 ? 2 : 3; }

/* Whether this build can have LAPACK. */
extern const bool fac__lapack_built_in;
/* Loads the library and fills the table. Once done it is done; a failure is remembered with its message. From any thread.
   errors: UNSUPPORTED in a build without LAPACK, where no library is found, and where it lacks a routine */
fac_status fac__lapack_load(void);
/* As fac__parallel_for_scratch over the n matrices of a batch, each of about `work` multiplications, once LAPACK is loaded.
   Forks wait for chunks under way, since the library has locks of its own. Where it has none that make it safe, chunks run one
   after another, those of other threads' calls too. Results do not depend on the number of threads. */
fac_status fac__lapack_for(int64_t n, double work, int64_t bytes, fac_scratch_fn fn, void *ctx);
/* How many elements of workspace a query asked for, from the number that it left in the first element of `work`. */
int fac__lapack_work(int kind, const void *work);

#endif
