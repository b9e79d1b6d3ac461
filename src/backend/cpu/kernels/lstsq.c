/* Least squares: LAPACK's gels (QR), gelsy (pivoted QR), gelsd and gelss (singular values).

   One system at a time, batches cut into chunks of whole systems; each is computed in its own dtype by one thread, so results do not
   depend on the number of threads. Residuals are summed in f64. Whether there are residuals depends on the ranks found. */
#include "backend/cpu/kernels/matrices.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/meta/matrix.h"
#include "ops_gen.h"

typedef enum driver { GELS, GELSY, GELSD, GELSS, NO_DRIVER } driver;
static const char *const driver_names[] = {"gels", "gelsy", "gelsd", "gelss"};

typedef struct job {
    int kind, m, n, k, rows, lwork, lreal, lints; /* rows: of the right side's room, max(m, n) */
    driver driver;
    double rcond;
    fac_matrices a, b, solution, residuals, rank, values;
    int64_t at_a, at_b, at_s, at_work, at_real, at_int; /* in scratch */
} job;

static driver driver_of(const char *name) {
    int d = 0;
    if (!name) return GELSY;
    while (d < NO_DRIVER && strcmp(name, driver_names[d]) != 0) d++;
    return (driver)d;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------- */

/* A call of a driver; with lwork -1 the workspaces' first elements become their sizes. */
typedef struct parts {
    void *a, *b, *s, *work, *real;
    int *ints, rank, lwork;
} parts;

static int solve_real(const job *j, parts *p, const void *rcond) {
    const int lda = fac__ld(j->m), ldb = fac__ld(j->rows), t = j->kind;
    int info = 0;
    switch (j->driver) {
    case GELSY:
        fac__lapack.gelsy[t](&j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->ints, rcond, &p->rank, p->work, &p->lwork,
                             &info);
        break;
    case GELSD:
        fac__lapack.gelsd[t](&j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->s, rcond, &p->rank, p->work, &p->lwork,
                             p->ints, &info);
        break;
    default:
        fac__lapack.gelss[t](&j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->s, rcond, &p->rank, p->work, &p->lwork,
                             &info);
    }
    return info;
}

static int solve_complex(const job *j, parts *p, const void *rcond) {
    const int lda = fac__ld(j->m), ldb = fac__ld(j->rows), t = j->kind;
    int info = 0;
    switch (j->driver) {
    case GELSY:
        fac__lapack.gelsy_complex[t](&j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->ints, rcond, &p->rank, p->work,
                                     &p->lwork, p->real, &info);
        break;
    case GELSD:
        fac__lapack.gelsd_complex[t](&j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->s, rcond, &p->rank, p->work,
                                     &p->lwork, p->real, p->ints, &info);
        break;
    default:
        fac__lapack.gelss_complex[t](&j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->s, rcond, &p->rank, p->work,
                                     &p->lwork, p->real, &info);
    }
    return info;
}

static int solve(const job *j, parts *p) {
    const float single = (float)j->rcond;
    const void *rcond = j->kind % 2 ? (const void *)&j->rcond : (const void *)&single;
    const int lda = fac__ld(j->m), ldb = fac__ld(j->rows);
    int info = 0;
    if (j->driver != GELS) return (j->kind < 2 ? solve_real : solve_complex)(j, p, rcond);
    p->rank = j->n;
    fac__lapack.gels[j->kind]("N", &j->m, &j->n, &j->k, p->a, &lda, p->b, &ldb, p->work, &p->lwork, &info, 1);
    return info;
}

static void ask_work(job *j) {
    double work[2] = {0}, real[2] = {0};
    int ints[1] = {0};
    parts p = {.a = work, .b = work, .s = real, .work = work, .real = real, .ints = ints, .lwork = -1};
    (void)solve(j, &p);
    j->lwork = fac__lapack_work(j->kind, work);
    const int k = (int)fac__min(j->m, j->n);
    j->lints = j->driver == GELSD ? (int)fac__max(1, ints[0]) : j->n;
    j->lreal = j->driver == GELSD ? fac__lapack_work(j->kind, real) : j->driver == GELSS ? 5 * k : 2 * j->n;
}

/* ---- one system ---------------------------------------------------------------------------------------------------------------- */

/* The squares below row n of the right side's columns, summed. */
static void give_residuals(const job *j, int64_t i, const char *b) {
    const int parts_of = j->kind >= 2 ? 2 : 1;
    char *to = fac__matrix_at(&j->residuals, i);
    for (int64_t c = 0; c < j->b.cols; c++) {
        double sum = 0;
        const char *column = b + (size_t)(c * j->rows) * j->b.item;
        for (int64_t r = (int64_t)j->n * parts_of; r < (int64_t)j->m * parts_of; r++) {
            double x = j->kind % 2 ? ((const double *)(const void *)column)[r]
                                   : (double)((const float *)(const void *)column)[r];
            sum += x * x;
        }
        if (j->kind % 2)
            *(double *)(void *)(to + c * j->residuals.row) = sum;
        else
            *(float *)(void *)(to + c * j->residuals.row) = (float)sum;
    }
}

static fac_status refused(const job *j, int info, int64_t i) {
    FAC_CHECK(info == 0 || j->driver != GELS, FAC_ERR_ARGUMENT,
              "(Batch element %lld): The least squares solution could not be computed because the input "
              "matrix does not have full rank (error code: %d).",
              (long long)i, info);
    FAC_CHECK(info == 0, FAC_ERR_ARGUMENT, "(Batch element %lld): The algorithm did not converge (error code: %d).",
              (long long)i, info);
    return FAC_OK;
}

static fac_status one(const job *j, int64_t i, char *at) {
    char *b = at + j->at_b;
    parts p = {.a = at + j->at_a,
               .b = b,
               .s = at + j->at_s,
               .work = at + j->at_work,
               .real = at + j->at_real,
               .ints = (int *)(void *)(at + j->at_int),
               .lwork = j->lwork};
    fac__matrix_pack(&j->a, i, p.a, fac__ld(j->m));
    if (!j->b.cols) memset(b, 0, (size_t)j->rows * j->b.item);
    fac__matrix_pack(&j->b, i, b, fac__ld(j->rows));
    FAC_CHECK(fac__all_finite(p.a, (int64_t)j->m * j->n, j->kind), FAC_ERR_ARGUMENT,
              "(Batch element %lld): the input matrix contains non-finite values", (long long)i);
    memset(p.ints, 0, (size_t)j->lints * sizeof *p.ints); /* gelsy: every column may be moved */
    FAC_TRY(refused(j, solve(j, &p), i));
    fac__matrix_unpack(&j->solution, i, b, fac__ld(j->rows));
    if (j->m > j->n) give_residuals(j, i, b);
    *(int64_t *)(void *)fac__matrix_at(&j->rank, i) = p.rank;
    if (j->driver >= GELSD) fac__matrix_unpack(&j->values, i, p.s, fac__ld(j->values.rows));
    return FAC_OK;
}

static fac_status chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++) FAC_TRY(one(ctx, i, scratch));
    return FAC_OK;
}

static int64_t lay_out(job *j) {
    int64_t bytes = 0;
    const size_t real = j->kind % 2 ? sizeof(double) : sizeof(float);
    j->at_a = fac__part(&bytes, j->m, j->n, j->a.item);
    j->at_b = fac__part(&bytes, j->rows, j->k, j->a.item);
    j->at_s = fac__part(&bytes, fac__min(j->m, j->n), 1, real);
    j->at_work = fac__part(&bytes, j->lwork, 1, j->a.item);
    j->at_real = fac__part(&bytes, j->lreal, 1, real);
    j->at_int = fac__part(&bytes, j->lints, 1, sizeof(int));
    return bytes;
}

/* ---- the operator ---------------------------------------------------------------------------------------------------------------- */

enum { SOLUTION, RESIDUALS, RANK, VALUES, RESULTS };

static fac_status check(fac_tensor *A, fac_tensor *b, driver d, fac_batch_sizes *batch) {
    FAC_TRY(fac__need_matrices("input", A));
    FAC_TRY(fac__need_alike("other", b, A));
    FAC_CHECK(fac_device_equal(A->device, b->device), FAC_ERR_DEVICE, "input and other should be on the same device");
    FAC_CHECK(d != NO_DRIVER, FAC_ERR_ARGUMENT, "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
    FAC_CHECK(b->ndim >= 1, FAC_ERR_SHAPE, "other must have at least 1 dimension.");
    const bool vector = fac__is_vector_for(A, b);
    const int own = vector ? 1 : 2;
    FAC_CHECK(b->ndim >= own && b->sizes[b->ndim - own] == fac__rows(A), FAC_ERR_SHAPE,
              "the rows of other should match those of input, got %s and %s", FAC_SHAPE_TEXT(b), FAC_SHAPE_TEXT(A));
    FAC_TRY(fac__lapack_sizes(A));
    FAC_TRY(fac__lapack_sizes(b));
    return fac__batch_of_both(A, 2, b, own, batch);
}

/* Makes the four results; those that a driver does not give are empty, but residuals and ranks are needed on the way. */
static fac_status make(fac_tensor *A, fac_tensor *b, driver d, fac_batch_sizes *batch, fac_tensor **r) {
    const fac_dtype dtype = (fac_dtype)A->dtype, real = fac__real_dtype(dtype);
    const bool vector = fac__is_vector_for(A, b);
    const int64_t n = fac__cols(A), k = vector ? 1 : fac__cols(b), least = fac__min(fac__rows(A), n);
    const int nb = batch->n;
    FAC_CHECK(nb + 2 <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions", FAC_MAX_DIMS);
    FAC_TRY(fac__empty(batch->v, nb, FAC_I64, A->device, &r[RANK]));
    batch->v[nb] = d >= GELSD ? least : 0;
    FAC_TRY(d >= GELSD ? fac__empty(batch->v, nb + 1, real, A->device, &r[VALUES])
                       : fac__empty((int64_t[]){0}, 1, real, A->device, &r[VALUES]));
    batch->v[nb] = k;
    FAC_TRY(fac__empty(batch->v, nb + 1, real, A->device, &r[RESIDUALS]));
    batch->v[nb] = n;
    batch->v[nb + 1] = k;
    return fac__empty(batch->v, vector ? nb + 1 : nb + 2, dtype, A->device, &r[SOLUTION]);
}

static double smallest_step(fac_dtype d) { return d == FAC_F32 || d == FAC_C64 ? 0x1p-23 : 0x1p-52; }

static fac_status run(fac_tensor *A, fac_tensor *b, double rcond, driver d, fac_tensor **r) {
    const int own = fac__is_vector_for(A, b) ? 1 : 2, nb = r[SOLUTION]->ndim - own;
    const int64_t *batch = r[SOLUTION]->sizes;
    job j = {.kind = fac__lapack_kind((fac_dtype)A->dtype),
             .driver = d,
             .rcond = rcond,
             .a = fac__matrices_over(A, 2, batch, nb),
             .b = fac__matrices_over(b, own, batch, nb),
             .solution = fac__matrices(r[SOLUTION], own),
             .residuals = fac__matrices(r[RESIDUALS], 1),
             .rank = fac__matrices(r[RANK], 0)};
    if (d >= GELSD) j.values = fac__matrices(r[VALUES], 1);
    j.m = (int)j.a.rows;
    j.n = (int)j.a.cols;
    j.k = (int)fac__max(1, j.b.cols); /* for no columns, one of zeros: ranks and singular values are wanted too */
    j.rows = fac__ld(fac__max(j.m, j.n));
    if (!j.m || !j.n || !j.a.count) {
        FAC_TRY(fac__fill_below(r[SOLUTION], fac_scalar_i_(0)));
        return fac__fill_below(r[RANK], fac_scalar_i_(0));
    }
    ask_work(&j);
    return fac__lapack_for(j.a.count, 4.0 * j.m * j.n * (double)fac__min(j.m, j.n), lay_out(&j), chunk, &j);
}

/* A matrix without columns leaves b as it is. */
static fac_status squares_of(fac_tensor *A, fac_tensor *b, fac_tensor *residuals) {
    if (fac__cols(A) || !residuals->numel) return FAC_OK;
    FAC_SCOPE(s);
    fac_tensor *real = fac_dtype_is_complex((fac_dtype)b->dtype) ? fac__s_abs(b) : b;
    fac_tensor *sum = fac__s_sum_dim_IntList(fac__s_mul_Tensor(real, real),
                                             FAC_INTS(fac__is_vector_for(A, b) ? -1 : -2), false, FAC_DTYPE_DEFAULT);
    if (!sum) return fac_error();
    if (fac__is_vector_for(A, b)) sum = fac__s_unsqueeze(sum, -1);
    return sum ? fac__copy_below(residuals, sum) : fac_error();
}

/* True if the residuals mean something: A is tall, of full rank, and the driver's right side holds them. */
static bool has_residuals(fac_tensor *A, driver d, const fac_tensor *rank) {
    const int64_t *v = fac__data(rank);
    bool full = d != GELSY && fac__rows(A) > fac__cols(A);
    for (int64_t i = 0; full && d != GELS && i < rank->numel; i++) full = v[i] == fac__cols(A);
    return full;
}

static fac_status empty_in_place_of(fac_tensor **t) {
    fac_tensor *none = NULL;
    FAC_TRY(fac__empty((int64_t[]){0}, 1, (fac_dtype)(*t)->dtype, (*t)->device, &none));
    fac__unref(*t);
    *t = none;
    return FAC_OK;
}

static fac_status drop_unasked(fac_tensor *A, fac_tensor *b, driver d, fac_tensor **r) {
    if (has_residuals(A, d, r[RANK]))
        FAC_TRY(squares_of(A, b, r[RESIDUALS]));
    else
        FAC_TRY(empty_in_place_of(&r[RESIDUALS]));
    return d == GELS ? empty_in_place_of(&r[RANK]) : FAC_OK;
}

fac_status linalg_lstsq_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *b, fac_opt_num rcond,
                            const char *name, fac_tensor **out) {
    (void)c;
    fac_batch_sizes batch;
    const driver d = driver_of(name);
    FAC_TRY(check(self, b, d, &batch));
    FAC_TRY(fac__lapack_load());
    double limit = smallest_step((fac_dtype)self->dtype) * (double)fac__max(fac__rows(self), fac__cols(self));
    if (rcond.set) limit = fac__scalar_f64(rcond.v);
    fac_tensor *r[RESULTS] = {NULL};
    fac_status st = make(self, b, d, &batch, r);
    if (st == FAC_OK) st = run(self, b, limit, d, r);
    if (st == FAC_OK) st = drop_unasked(self, b, d, r);
    for (int i = 0; i < RESULTS; i++) {
        if (st == FAC_OK)
            out[i] = r[i];
        else
            fac__unref(r[i]);
    }
    return st;
}

fac_status linalg_lstsq_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *b, fac_opt_num rcond,
                             const char *name, fac_tensor **out) {
    (void)c, (void)rcond, (void)out;
    fac_batch_sizes batch;
    FAC_TRY(check(self, b, driver_of(name), &batch));
    return FAC_FAIL(FAC_ERR_STATE, "the sizes of the result depend on data, which meta tensors do not have");
}
