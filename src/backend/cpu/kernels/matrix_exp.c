/* The exponential of matrices by scaling and squaring: exp(A) = exp(A / 2^s)^(2^s), with a Taylor polynomial inside.

   The polynomial's degree is the smallest of a list whose backward error is below the rounding of the dtype for the matrix's 1-norm
   (Al-Mohy and Higham 2011 for the method); beyond the last one's reach the matrix is halved. The bounds were computed with 60 digits:
   the largest x for which the series of |log(exp(-x) T_m(x))| / x, its terms' moduli summed, is below 2^-53 or 2^-24. Polynomials are
   evaluated by Paterson's and Stockmeyer's grouping: s - 1 products for the powers up to A^s, and one for each group but the first.

   Products are fac__gemm's, in the matrix's dtype. Several matrices are cut into chunks of whole ones; a single one's products use all
   threads. Each product's bits are the same for any number of threads, and so are the results. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels/matrices.h"
#include "ops_gen.h"
#include <math.h>

enum { POWERS = 4, BUFFERS = POWERS + 2 };

/* A polynomial of degree `step` * groups, and the 1-norms that it serves, of f32 and f64. */
static const struct polynomial {
    int degree, step;
    double reach[2];
} polynomials[] = {
    {1, 1, {1.192092801e-7, 2.220446049e-16}}, {2, 2, {5.978858894e-4, 2.580956803e-8}},
    {4, 2, {5.116619363e-2, 3.397168840e-4}},  {6, 3, {2.495289323e-1, 9.065656408e-3}},
    {9, 3, {7.795113374e-1, 8.957760203e-2}},  {12, 4, {1.461661507, 2.996158914e-1}},
    {16, 4, {2.478280878, 7.802874257e-1}},
};

typedef struct job {
    int kind;
    fac_dtype dtype;
    int64_t n;
    fac_matrices a, out;
    int64_t at_buffers, buffer, at_gemm, gemm_bytes; /* in scratch */
} job;

/* One matrix under way: its powers A, A^2, ... and two more, n x n each, row-major. */
typedef struct walk {
    const job *j;
    void *power[POWERS + 1], *x, *y; /* power[0] is not there */
    fac_workspace gemm;
} walk;

static fac_status multiply(const walk *w, const void *a, const void *b, void *c) {
    const int64_t n = w->j->n;
    fac_gemm g = {.dtype = w->j->dtype,
                  .batch = 1,
                  .m = n,
                  .n = n,
                  .k = n,
                  .a = {a, n, 1, 0, false},
                  .b = {b, n, 1, 0, false},
                  .c = c,
                  .c_row = n,
                  .c_col = 1,
                  .alpha = fac_scalar_i_(1),
                  .beta = fac_scalar_i_(0),
                  .scratch = w->gemm};
    return fac__gemm(&g);
}

/* x = sum of f[i] * power[i] for 0 < i <= count, and f[0] on the diagonal; added to x if `more`. */
#define COMBINE(T, name)                                                                                   \
    static void name(const walk *w, const double *f, int count, bool more) {                               \
        const int64_t parts = w->j->kind >= 2 ? 2 : 1, all = w->j->n * w->j->n * parts;                    \
        T *x = w->x;                                                                                       \
        if (!more) memset(x, 0, (size_t)all * sizeof *x);                                                  \
        for (int i = 1; i <= count; i++) {                                                                 \
            const T *p = w->power[i], factor = (T)f[i];                                                    \
            for (int64_t e = 0; e < all; e++) x[e] += factor * p[e];                                       \
        }                                                                                                  \
        for (int64_t d = 0; d < w->j->n; d++) x[d * (w->j->n + 1) * parts] += (T)f[0];                     \
    }                                                                                                      \
    static double name##_norm(const walk *w, const T *a) {                                                 \
        const int64_t n = w->j->n;                                                                         \
        double most = 0;                                                                                   \
        for (int64_t c = 0; c < n; c++) {                                                                  \
            double sum = 0;                                                                                \
            for (int64_t r = 0; r < n; r++)                                                                \
                sum += w->j->kind >= 2 ? hypot((double)a[2 * (r * n + c)], (double)a[2 * (r * n + c) + 1]) \
                                       : fabs((double)a[r * n + c]);                                       \
            most = sum > most || isnan(sum) ? sum : most;                                                  \
        }                                                                                                  \
        return most;                                                                                       \
    }                                                                                                      \
    static void name##_scale(const walk *w, T *a, double factor) {                                         \
        const int64_t all = w->j->n * w->j->n * (w->j->kind >= 2 ? 2 : 1);                                 \
        for (int64_t e = 0; e < all; e++) a[e] *= (T)factor;                                               \
    }
COMBINE(float, combine_f32)
COMBINE(double, combine_f64)

static void combine(const walk *w, const double *f, int count, bool more) {
    (w->j->kind % 2 ? combine_f64 : combine_f32)(w, f, count, more);
}

static double norm_of(const walk *w) {
    return w->j->kind % 2 ? combine_f64_norm(w, w->power[1]) : combine_f32_norm(w, w->power[1]);
}

/* The factors 1 / k! of a group's powers, from k = first on. */
static void factors(double *f, int first, int count) {
    double factorial = 1;
    for (int k = 2; k <= first; k++) factorial *= k;
    for (int i = 0; i <= count; i++) {
        f[i] = 1 / factorial;
        factorial *= first + i + 1;
    }
}

/* w->x = the polynomial in power[1]. */
static fac_status evaluate(walk *w, const struct polynomial *p) {
    double f[POWERS + 1];
    for (int i = 2; i <= p->step; i++) FAC_TRY(multiply(w, w->power[i - 1], w->power[1], w->power[i]));
    factors(f, p->degree - p->step, p->step);
    combine(w, f, p->step, false);
    for (int k = p->degree - 2 * p->step; k >= 0; k -= p->step) {
        FAC_TRY(multiply(w, w->x, w->power[p->step], w->y));
        void *was = w->x;
        w->x = w->y, w->y = was;
        factors(f, k, p->step - 1);
        combine(w, f, p->step - 1, true);
    }
    return FAC_OK;
}

static fac_status exponential(walk *w) {
    const double norm = norm_of(w);
    const int last = (int)FAC_COUNT(polynomials) - 1, wide = w->j->kind % 2;
    int which = 0, halvings = 0;
    while (which < last && !(norm <= polynomials[which].reach[wide])) which++;
    if (norm > polynomials[last].reach[wide] && isfinite(norm))
        halvings = (int)ceil(log2(norm / polynomials[last].reach[wide]));
    if (wide)
        combine_f64_scale(w, w->power[1], ldexp(1, -halvings));
    else
        combine_f32_scale(w, w->power[1], ldexp(1, -halvings));
    FAC_TRY(evaluate(w, &polynomials[which]));
    for (; halvings > 0; halvings--) {
        FAC_TRY(multiply(w, w->x, w->x, w->y));
        void *was = w->x;
        w->x = w->y, w->y = was;
    }
    return FAC_OK;
}

static fac_status chunk(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    char *at = scratch;
    for (int64_t i = begin; i < end; i++) {
        walk w = {.j = j, .gemm = {at + j->at_gemm, j->gemm_bytes}};
        for (int b = 1; b <= POWERS; b++) w.power[b] = at + j->at_buffers + (b - 1) * j->buffer;
        w.x = at + j->at_buffers + POWERS * j->buffer;
        w.y = at + j->at_buffers + (POWERS + 1) * j->buffer;
        fac_matrices turned = fac__matrices_turned(j->a),
                     out = fac__matrices_turned(j->out); /* row-major in the buffers */
        fac__matrix_pack(&turned, i, w.power[1], j->n);
        FAC_TRY(exponential(&w));
        fac__matrix_unpack(&out, i, w.x, j->n);
    }
    return FAC_OK;
}

static int64_t lay_out(job *j, int threads) {
    fac_gemm like = {.dtype = j->dtype,
                     .batch = 1,
                     .m = j->n,
                     .n = j->n,
                     .k = j->n,
                     .a = {NULL, j->n, 1, 0, false},
                     .b = {NULL, j->n, 1, 0, false},
                     .c_row = j->n,
                     .c_col = 1,
                     .alpha = fac_scalar_i_(1),
                     .beta = fac_scalar_i_(0)};
    int64_t bytes = 0;
    j->at_buffers = 0;
    (void)fac__part(&bytes, j->n, j->n, j->a.item);
    j->buffer = bytes;
    bytes = fac__mul_or_max(bytes, BUFFERS);
    if (bytes > INT64_MAX / 8) return INT64_MAX / 8;
    j->gemm_bytes = fac__gemm_scratch(&like, threads);
    j->at_gemm = fac__part(&bytes, j->gemm_bytes, 1, 1);
    return bytes;
}

static fac_status one_alone(job *j) {
    fac_workspace scratch;
    FAC_TRY(fac__workspace_take(lay_out(j, fac_num_threads()), &scratch));
    fac_status st = chunk(j, 0, 1, scratch.at);
    fac__workspace_give(scratch);
    return st;
}

fac_status matrix_exp_wide_cpu(fac_structured *s, fac_tensor *self) {
    FAC_TRY(fac_out_aside(s, 0));
    if (self->numel == 0) return FAC_OK;
    job j = {.kind = fac__lapack_kind((fac_dtype)self->dtype),
             .dtype = (fac_dtype)self->dtype,
             .n = self->sizes[self->ndim - 1],
             .a = fac__matrices(self, 2),
             .out = fac__matrices(s->out[0], 2)};
    if (j.a.count == 1) return one_alone(&j);
    const int64_t grain = fac__grain(FAC_GRAIN / 8, fac__mul_or_max(fac__mul_or_max(j.n, j.n), j.n));
    return fac__parallel_for_scratch(0, j.a.count, grain, lay_out(&j, 1), chunk, &j);
}
