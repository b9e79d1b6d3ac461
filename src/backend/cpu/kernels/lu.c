/* LU factors with partial pivoting and what is made of them: solutions, inverses, determinants. Real matrices are factored by the kernels
   of factor.h, complex ones by LAPACK's getrf, getrs and getri.

   Batches are cut into chunks of whole matrices; each is computed in its own dtype, and results do not depend on the number of threads.
   Determinants are multiplied, and their logarithms summed, in f64. */
#include "backend/cpu/kernels/matrices.h"
#include "ops/composite/below.h"
#include "ops/factor.h"
#include "ops_gen.h"
#include <complex.h>
#ifndef CMPLX /* clang with a C library that takes it for gcc's */
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif
#include <math.h>

typedef struct job {
    int kind, n, k, lwork;
    bool left, adjoint;
    fac_dtype dtype;
    fac_matrices a, b, out, lu, pivots, info, det, log;
    int64_t at_lu, at_out, at_pivots, at_work, work_bytes; /* in scratch */
} job;

static double cubed(int64_t n) { return (double)n * (double)n * (double)n; }
static int kind_of(const fac_tensor *t) { return fac__lapack_kind((fac_dtype)t->dtype); }

static fac_workspace work_of(const job *j, void *scratch) {
    return (fac_workspace){(char *)scratch + j->at_work, j->work_bytes};
}

static void put_int(const fac_matrices *m, int64_t i, int v) { *(int32_t *)(void *)fac__matrix_at(m, i) = v; }

/* A matrix's factors, in the tensor or in scratch, and its pivots. A negative info: they failed, and the error is the thread's. */
typedef struct factors {
    char *lu;
    int *pivots, ld, info;
} factors;

static factors factor(const job *j, int64_t i, char *scratch) {
    factors f = {.info = 0};
    int unused;
    const int m = (int)j->a.rows, n = (int)j->a.cols;
    f.pivots = fac__matrix_room(&j->pivots, i, scratch + j->at_pivots, &unused);
    if (fac__factor_takes(j->dtype)) {
        f.lu = scratch + j->at_lu;
        f.ld = (int)fac__factor_ld(m, j->dtype);
        fac__matrix_pack_padded(&j->a, i, f.lu, f.ld);
        f.info = fac__factor_lu(j->dtype, m, n, f.lu, f.ld, f.pivots, work_of(j, scratch));
        if (f.info < 0) return f;
        fac__matrix_unpack(&j->lu, i, f.lu, f.ld);
        fac__matrix_settle(&j->pivots, i, f.pivots, scratch + j->at_pivots);
        return f;
    }
    f.lu = fac__matrix_room(&j->lu, i, scratch + j->at_lu, &f.ld);
    fac__matrix_pack(&j->a, i, f.lu, f.ld);
    if (m && n) fac__lapack.getrf[j->kind](&m, &n, f.lu, &f.ld, f.pivots, &f.info);
    fac__matrix_settle(&j->lu, i, f.lu, scratch + j->at_lu);
    fac__matrix_settle(&j->pivots, i, f.pivots, scratch + j->at_pivots);
    return f;
}

/* Scratch memory for one matrix's factors. */
static int64_t factor_scratch(job *j) {
    int64_t bytes = 0;
    const bool own = fac__factor_takes(j->dtype);
    const int64_t ld = own ? fac__factor_ld(j->a.rows, j->dtype) : j->a.rows;
    j->at_lu = fac__part(&bytes, ld, j->a.cols, j->a.item);
    j->at_pivots = fac__part(&bytes, fac__min(j->a.rows, j->a.cols), 1, sizeof(int));
    j->work_bytes = own ? fac__factor_scratch(j->a.rows, j->a.cols, j->dtype, fac__factor_threads(j->a.count)) : 0;
    j->at_work = fac__part(&bytes, j->work_bytes, 1, 1);
    return bytes;
}

/* fn for each matrix, which takes about `work` multiplications. */
static fac_status for_all(job *j, int64_t count, double work, int64_t bytes, fac_scratch_fn fn) {
    return fac__factor_takes(j->dtype) ? fac__factor_for(count, work, bytes, fn, j)
                                       : fac__lapack_for(count, work, bytes, fn, j);
}

/* ---- factors ------------------------------------------------------------------------------------------------------------------ */

static fac_status factor_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int info = factor(j, i, scratch).info;
        if (info < 0) return fac_error();
        put_int(&j->info, i, info);
    }
    return FAC_OK;
}

/* The factors of A as outputs `first`, first + 1 and, with info, first + 2. */
static job factor_job(const fac_structured *s, fac_tensor *A, int first) {
    return (job){.kind = kind_of(A),
                 .dtype = (fac_dtype)A->dtype,
                 .n = (int)fac__min(A->sizes[A->ndim - 1], INT32_MAX),
                 .a = fac__matrices(A, 2),
                 .lu = fac__matrices(s->out[first], 2),
                 .pivots = fac__matrices(s->out[first + 1], 1)};
}

static fac_status factor_all(fac_structured *s, fac_tensor *A, int first) {
    job j = factor_job(s, A, first);
    j.info = fac__matrices(s->out[first + 2], 0);
    int64_t bytes = factor_scratch(&j);
    return for_all(&j, j.a.count, cubed(fac__min(j.a.rows, j.a.cols)) / 3, bytes, factor_chunk);
}

static fac_status all_aside(fac_structured *s) {
    for (int i = 0; i < s->n_out; i++) FAC_TRY(fac_out_aside(s, i));
    return FAC_OK;
}

fac_status linalg_lu_factor_ex_cpu(fac_structured *s, fac_tensor *A, bool pivot, bool check_errors) {
    (void)pivot;
    FAC_TRY(fac__lapack_sizes(A));
    if (check_errors) FAC_TRY(all_aside(s));
    FAC_TRY(factor_all(s, A, 0));
    return check_errors ? fac__check_info(FAC_FACTOR_LU, s->out[2]) : FAC_OK;
}

/* ---- pivots and triangles --------------------------------------------------------------------------------------------------------- */

/* Every pivot is a row, counted from one. */
static fac_status check_pivots(const fac_tensor *pivots, int64_t rows) {
    fac_matrices m = fac__matrices(pivots, 1);
    for (int64_t i = 0; i < (m.rows ? m.count : 0); i++)
        for (int64_t r = 0; r < m.rows; r++) {
            int32_t p = *(const int32_t *)(const void *)(fac__matrix_at(&m, i) + r * m.row);
            FAC_CHECK(p >= 1 && p <= rows, FAC_ERR_INDEX, "a pivot is %d; pivots are rows from 1 to %lld", (int)p,
                      (long long)rows);
        }
    return FAC_OK;
}

static const void *one_of(int kind) {
    static const double one_f64[2] = {1, 0};
    static const float one_f32[2] = {1, 0};
    return kind % 2 ? (const void *)one_f64 : (const void *)one_f32;
}

/* P with A = P L U: the swaps of rows, applied to the identity from the last to the first. Row r of A comes from row order[r]. */
static void unpack_pivots(const job *j, int64_t i, char *scratch) {
    int32_t *order = (int32_t *)(void *)scratch;
    const char *pivots = fac__matrix_at(&j->pivots, i);
    const int64_t m = j->out.rows;
    for (int64_t r = 0; r < m; r++) order[r] = (int32_t)r;
    for (int64_t r = 0; r < j->pivots.rows; r++) {
        int64_t p = *(const int32_t *)(const void *)(pivots + r * j->pivots.row) - 1;
        int32_t was = order[r];
        order[r] = order[p];
        order[p] = was;
    }
    char *to = fac__matrix_at(&j->out, i);
    const bool rows_lie_together = j->out.col == (int64_t)j->out.item;
    if (rows_lie_together || j->out.row == (int64_t)j->out.item) {
        const int64_t apart = rows_lie_together ? j->out.row : j->out.col;
        for (int64_t r = 0; r < m; r++) memset(to + r * apart, 0, (size_t)m * j->out.item);
    } else {
        for (int64_t e = 0; e < m * m; e++) memset(to + e / m * j->out.row + e % m * j->out.col, 0, j->out.item);
    }
    for (int64_t c = 0; c < m; c++) memcpy(to + order[c] * j->out.row + c * j->out.col, one_of(j->kind), j->out.item);
}

static fac_status unpack_pivots_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++) unpack_pivots(ctx, i, scratch);
    return FAC_OK;
}

/* L into `out`, with its ones, and U into `b`. */
static void unpack_triangles(const job *j, int64_t i) {
    if (j->out.count) {
        char *l = fac__matrix_at(&j->out, i);
        fac__matrix_copy(&j->out, &j->lu, i, j->out.rows, j->out.cols);
        fac__matrix_clear_triangle(&j->out, i, true);
        for (int64_t c = 0; c < j->out.cols; c++)
            memcpy(l + c * (j->out.row + j->out.col), one_of(j->kind), j->out.item);
    }
    fac__matrix_copy(&j->b, &j->lu, i, j->b.rows, j->b.cols);
    fac__matrix_clear_triangle(&j->b, i, false);
}

static fac_status unpack_triangles_chunk(void *ctx, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) unpack_triangles(ctx, i);
    return FAC_OK;
}

fac_status lu_unpack_cpu(fac_structured *s, fac_tensor *LU, fac_tensor *pivots, bool unpack_data, bool unpack_pivots) {
    FAC_TRY(fac__lapack_sizes(LU));
    if (unpack_pivots) FAC_TRY(check_pivots(pivots, LU->sizes[LU->ndim - 2]));
    job j = {.kind = kind_of(LU), .lu = fac__matrices(LU, 2), .pivots = fac__matrices(pivots, 1)};
    if (unpack_pivots && s->out[0]->numel) {
        int64_t bytes = 0;
        j.out = fac__matrices(s->out[0], 2);
        (void)fac__part(&bytes, j.out.rows, 1, sizeof(int32_t));
        const int64_t grain = fac__grain(FAC_GRAIN, fac__mul_or_max(j.out.rows, j.out.rows));
        FAC_TRY(fac__parallel_for_scratch(0, j.out.count, grain, bytes, unpack_pivots_chunk, &j));
    }
    if (!unpack_data || !LU->numel) return FAC_OK;
    j.out = fac__matrices(s->out[1], 2);
    j.b = fac__matrices(s->out[2], 2);
    const int64_t grain = fac__grain(FAC_GRAIN, fac__mul_or_max(j.lu.rows, j.lu.cols));
    return fac__parallel_for(0, j.lu.count, grain, unpack_triangles_chunk, &j);
}

/* ---- solutions --------------------------------------------------------------------------------------------------------------------- */

static void conjugate_columns(const job *j, char *x, int ld) {
    if (j->left || !j->adjoint) return;
    for (int64_t c = 0; c < j->k; c++) fac__conjugate(x + (size_t)(c * ld) * j->out.item, j->n, j->kind);
}

/* X A = B is A^T X^T = B^T, and X A^H = B is conj(A) X^T = B^T: the conjugate of B^T goes in, and that of X^T comes out. */
static fac_status solve_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const char trans = j->left != j->adjoint ? 'N' : j->kind >= 2 && j->left ? 'C' : 'T';
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        int ld, ldlu, unused, info = 0;
        char *x = fac__matrix_room(&j->out, i, at + j->at_out, &ld);
        const void *lu = fac__matrix_read(&j->lu, i, at + j->at_lu, &ldlu);
        const int *pivots = fac__matrix_read(&j->pivots, i, at + j->at_pivots, &unused);
        fac__matrix_pack(&j->b, i, x, ld);
        conjugate_columns(j, x, ld);
        fac__lapack.getrs[j->kind](&trans, &j->n, &j->k, lu, &ldlu, pivots, x, &ld, &info, 1);
        conjugate_columns(j, x, ld);
        fac__matrix_settle(&j->out, i, x, at + j->at_out);
    }
    return FAC_OK;
}

/* Where row i of P A, or of P B, comes from. */
static void order_of(const job *j, int64_t i, int *order) {
    const char *pivots = fac__matrix_at(&j->pivots, i);
    for (int r = 0; r < j->n; r++) order[r] = r;
    for (int64_t r = 0; r < j->n; r++) {
        const int p = *(const int32_t *)(const void *)(pivots + r * j->pivots.row) - 1, was = order[r];
        order[r] = order[p];
        order[p] = was;
    }
}

/* A X = B is L U X = P B; A^T X = B is U^T L^T (P X) = B. X A = B is A^T X^T = B^T. */
static fac_status solve_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const bool transposed = j->left == j->adjoint;
    const fac_matrices lu = transposed ? fac__matrices_turned(j->lu) : j->lu;
    int *order = (int *)(void *)((char *)scratch + j->at_pivots);
    for (int64_t i = begin; i < end; i++) {
        fac_systems s = {.dtype = j->dtype, .steps = 2};
        s.t[0] = fac__matrix_triangle(&lu, i, false, !transposed);
        s.t[1] = fac__matrix_triangle(&lu, i, true, transposed);
        fac__matrix_sides(&j->b, &j->out, i, &s);
        order_of(j, i, order);
        s.order_in = transposed ? NULL : order;
        s.order_out = transposed ? order : NULL;
        fac__solve_systems(&s, work_of(j, scratch));
    }
    return FAC_OK;
}

/* out = the solutions for B, whose matrices have `own` dimensions, with the factors LU. */
static fac_status solve_all(fac_tensor *out, int own, fac_tensor *LU, fac_tensor *pivots, fac_tensor *B, bool left,
                            bool adjoint) {
    const int n_batch = out->ndim - own;
    job j = {.kind = kind_of(LU),
             .dtype = (fac_dtype)LU->dtype,
             .n = (int)LU->sizes[LU->ndim - 1],
             .left = left,
             .adjoint = adjoint,
             .lu = fac__matrices_over(LU, 2, out->sizes, n_batch),
             .pivots = fac__matrices_over(pivots, 1, out->sizes, n_batch),
             .b = fac__matrices_over(B, own, out->sizes, n_batch),
             .out = fac__matrices(out, own)};
    if (!left) j.b = fac__matrices_turned(j.b), j.out = fac__matrices_turned(j.out);
    j.k = (int)j.b.cols;
    int64_t bytes = 0;
    const int64_t count = j.n && j.k ? j.out.count : 0;
    const double work = (double)j.n * j.n * j.k;
    j.at_pivots = fac__part(&bytes, j.n, 1, sizeof(int));
    if (fac__factor_takes(j.dtype)) {
        j.work_bytes = fac__factor_scratch(j.n, j.n, j.dtype, fac__factor_threads(count));
        j.at_work = fac__part(&bytes, j.work_bytes, 1, 1);
        return fac__factor_for(count, work, bytes, solve_real_chunk, &j);
    }
    j.at_lu = fac__part(&bytes, j.n, j.n, j.lu.item);
    j.at_out = fac__part(&bytes, j.n, j.k, j.lu.item);
    return fac__lapack_for(count, work, bytes, solve_chunk, &j);
}

fac_status linalg_lu_solve_cpu(fac_structured *s, fac_tensor *LU, fac_tensor *pivots, fac_tensor *B, bool left,
                               bool adjoint) {
    FAC_TRY(fac__lapack_sizes(LU));
    FAC_TRY(fac__lapack_sizes(B));
    FAC_TRY(check_pivots(pivots, LU->sizes[LU->ndim - 1]));
    return solve_all(s->out[0], 2, LU, pivots, B, left, adjoint);
}

fac_status _linalg_solve_ex_cpu(fac_structured *s, fac_tensor *A, fac_tensor *B, bool left, bool check_errors) {
    FAC_TRY(fac__lapack_sizes(A));
    FAC_TRY(fac__lapack_sizes(B));
    FAC_TRY(all_aside(s)); /* no fault is left to find, but the second step may find no memory */
    FAC_TRY(factor_all(s, A, 1));
    if (check_errors) FAC_TRY(fac__check_info(FAC_FACTOR_SOLVE, s->out[3]));
    const bool vector = B->ndim == 1 || (B->ndim == A->ndim - 1 && fac__has_sizes(B, A->sizes, A->ndim - 1));
    return solve_all(s->out[0], vector ? 1 : 2, s->out[1], s->out[2], B, left, false);
}

/* ---- inverses ------------------------------------------------------------------------------------------------------------------------ */

static void identity(char *a, int64_t ld, int n, int kind, size_t item) {
    for (int64_t c = 0; c < n; c++) {
        memset(a + (size_t)(c * ld) * item, 0, (size_t)n * item);
        char *at = a + (size_t)(c * ld + c) * item;
        if (kind % 2)
            *(double *)(void *)at = 1;
        else
            *(float *)(void *)at = 1;
    }
}

/* A singular matrix has an inverse of infinities and NaN, by the division through its zeros. */
static fac_status inverse_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    int *pivots = (int *)(void *)(at + j->at_pivots);
    for (int64_t i = begin; i < end; i++) {
        int ld, info = 0, unused = 0;
        char *x = fac__matrix_room(&j->out, i, at + j->at_out, &ld), *lu = at + j->at_lu;
        fac__matrix_pack(&j->a, i, x, ld);
        fac__lapack.getrf[j->kind](&j->n, &j->n, x, &ld, pivots, &info);
        if (info == 0) {
            fac__lapack.getri[j->kind](&j->n, x, &ld, pivots, at + j->at_work, &j->lwork, &unused);
        } else {
            for (int64_t c = 0; c < j->n; c++)
                memcpy(lu + (size_t)(c * j->n) * j->a.item, x + (size_t)(c * ld) * j->a.item, (size_t)j->n * j->a.item);
            identity(x, ld, j->n, j->kind, j->a.item);
            fac__lapack.getrs[j->kind]("N", &j->n, &j->n, lu, &j->n, pivots, x, &ld, &unused, 1);
        }
        fac__matrix_settle(&j->out, i, x, at + j->at_out);
        put_int(&j->info, i, info);
    }
    return FAC_OK;
}

/* U X = L^-1, whose columns begin below zeros; A's inverse is X P. */
static fac_status inverse_real_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    job with = *j; /* for its pivots */
    char *lu = (char *)scratch + j->at_lu;
    int *order = (int *)(void *)((char *)scratch + j->at_out),
        *pivots = (int *)(void *)((char *)scratch + j->at_pivots);
    const int64_t ld = fac__factor_ld(j->n, j->dtype), item = (int64_t)j->a.item;
    with.pivots = (fac_matrices){.data = (char *)pivots, .rows = j->n, .row = sizeof(int), .count = 1};
    for (int64_t i = begin; i < end; i++) {
        fac__matrix_pack_padded(&j->a, i, lu, ld);
        const int info = fac__factor_lu(j->dtype, j->n, j->n, lu, ld, pivots, work_of(j, scratch));
        if (info < 0) return fac_error();
        put_int(&j->info, i, info);
        order_of(&with, 0, order);
        const fac_systems s = {.dtype = j->dtype,
                               .n = j->n,
                               .k = j->n,
                               .steps = 2,
                               .t = {{lu, 1, ld, false, true}, {lu, 1, ld, true, false}},
                               .x = fac__matrix_at(&j->out, i),
                               .x_rs = j->out.row / item,
                               .x_cs = j->out.col / item,
                               .order_out = order};
        fac__solve_systems(&s, work_of(j, scratch));
    }
    return FAC_OK;
}

static fac_status inverse_all(fac_structured *s, fac_tensor *A) {
    job j = {.kind = kind_of(A),
             .dtype = (fac_dtype)A->dtype,
             .n = (int)A->sizes[A->ndim - 1],
             .a = fac__matrices(A, 2),
             .out = fac__matrices(s->out[0], 2),
             .info = fac__matrices(s->out[1], 0)};
    if (fac__factor_takes(j.dtype)) {
        int64_t room = factor_scratch(&j);
        j.at_out = fac__part(&room, j.n, 1, sizeof(int));
        return fac__factor_for(j.a.count, cubed(j.n), room, inverse_real_chunk, &j);
    }
    double answer[2] = {0};
    int all = -1, info = 0, ld = fac__ld(j.n);
    FAC_TRY(fac__lapack_load());
    fac__lapack.getri[j.kind](&j.n, answer, &ld, &info, answer, &all, &info);
    j.lwork = fac__lapack_work(j.kind, answer);
    int64_t bytes = 0;
    j.at_lu = fac__part(&bytes, j.n, j.n, j.a.item);
    j.at_out = fac__part(&bytes, j.n, j.n, j.a.item);
    j.at_pivots = fac__part(&bytes, j.n, 1, sizeof(int));
    j.at_work = fac__part(&bytes, j.lwork, 1, j.a.item);
    return fac__lapack_for(j.a.count, cubed(j.n) * 2, bytes, inverse_chunk, &j);
}

fac_status linalg_inv_ex_cpu(fac_structured *s, fac_tensor *A, bool check_errors) {
    FAC_TRY(fac__lapack_sizes(A));
    if (check_errors) FAC_TRY(all_aside(s));
    if (A->sizes[A->ndim - 1] == 0) return fac__fill_below(s->out[1], fac_scalar_i_(0));
    FAC_TRY(inverse_all(s, A));
    return check_errors ? fac__check_info(FAC_FACTOR_INVERSE, s->out[1]) : FAC_OK;
}

/* ---- determinants ------------------------------------------------------------------------------------------------------------------- */

static double complex entry(const char *at, int kind) {
    const float *f = (const float *)(const void *)at;
    const double *d = (const double *)(const void *)at;
    switch (kind) {
    case 0: return f[0];
    case 1: return d[0];
    case 2: return CMPLX((double)f[0], (double)f[1]);
    default: return CMPLX(d[0], d[1]);
    }
}

static void put(char *at, int kind, double complex z) {
    if (kind % 2) {
        ((double *)(void *)at)[0] = creal(z);
        if (kind == 3) ((double *)(void *)at)[1] = cimag(z);
    } else {
        ((float *)(void *)at)[0] = (float)creal(z);
        if (kind == 2) ((float *)(void *)at)[1] = (float)cimag(z);
    }
}

/* The product of two numbers; infinite parts of a complex one are left as the formula gives them. */
static double complex times(double complex a, double complex b) {
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* 1 or -1: whether the swaps are even or odd in number. */
static double parity(const int *pivots, int n) {
    bool odd = false;
    for (int i = 0; i < n; i++) odd ^= pivots[i] != i + 1;
    return odd ? -1 : 1;
}

static double complex diagonal_product(const job *j, const factors *f) {
    double complex z = parity(f->pivots, j->n);
    for (int64_t i = 0; i < j->n; i++) {
        double complex u = entry(f->lu + (size_t)(i * f->ld + i) * j->a.item, j->kind);
        z = j->kind < 2 ? creal(z) * creal(u) : times(z, u);
    }
    return z;
}

static fac_status det_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        factors f = factor(j, i, scratch);
        if (f.info < 0) return fac_error();
        put(fac__matrix_at(&j->det, i), j->kind, diagonal_product(j, &f));
    }
    return FAC_OK;
}

/* The product of the diagonal's directions, and the sum of the logarithms of its moduli. */
static fac_status slogdet_chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        factors f = factor(j, i, scratch);
        if (f.info < 0) return fac_error();
        double complex sign = parity(f.pivots, j->n);
        double log_of = 0;
        for (int64_t r = 0; r < j->n; r++) {
            double complex u = entry(f.lu + (size_t)(r * f.ld + r) * j->a.item, j->kind);
            double modulus = j->kind < 2 ? fabs(creal(u)) : cabs(u);
            log_of += log(modulus);
            sign = modulus == 0 ? 0 : times(sign, CMPLX(creal(u) / modulus, cimag(u) / modulus));
        }
        put(fac__matrix_at(&j->det, i), j->kind, sign);
        put(fac__matrix_at(&j->log, i), j->kind % 2, log_of);
    }
    return FAC_OK;
}

fac_status _linalg_det_cpu(fac_structured *s, fac_tensor *A) {
    FAC_TRY(fac__lapack_sizes(A));
    job j = factor_job(s, A, 1);
    j.det = fac__matrices(s->out[0], 0);
    int64_t bytes = factor_scratch(&j);
    return for_all(&j, j.a.count, cubed(j.n) / 3, bytes, det_chunk);
}

fac_status _linalg_slogdet_cpu(fac_structured *s, fac_tensor *A) {
    FAC_TRY(fac__lapack_sizes(A));
    job j = factor_job(s, A, 2);
    j.det = fac__matrices(s->out[0], 0);
    j.log = fac__matrices(s->out[1], 0);
    int64_t bytes = factor_scratch(&j);
    return for_all(&j, j.a.count, cubed(j.n) / 3, bytes, slogdet_chunk);
}
