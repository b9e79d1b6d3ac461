/* Matrix products against sums in f64, over shapes, layouts, dtypes, alpha and beta; and their bits against the number of
   threads. */
#include "backend/cpu/blas.h"
#include "base/sanitizers.h"
#include "core/scalar.h"
#include "pairs.h"
#include "support/support.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum {
    ROWS,
    COLUMNS,
    GAPS,
    LAYOUTS
} layout; /* row-major with slack, column-major with slack, both strides > 1 */

static uint64_t state = 1;
static double uniform(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(state >> 32) / 2147483648.0;
}

static void strides_of(layout l, int64_t m, int64_t n, int64_t *row, int64_t *col) {
    *row = l == ROWS ? n + 3 : l == COLUMNS ? 1 : 2 * n + 1;
    *col = l == ROWS ? 1 : l == COLUMNS ? m + 2 : 2;
}

/* A buffer of `n` elements of a dtype: small integers for integral dtypes, else in (-1, 1). */
static void *filled(fac_dtype d, int64_t n) {
    char *p = calloc((size_t)n, fac_dtype_size(d));
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        double re_im[2] = {uniform(), uniform()};
        fac_scalar s = fac_dtype_is_complex(d) ? fac_scalar_c_(re_im)
                       : fac_dtype_is_integral(d, false)
                           ? fac_scalar_i_((long long)((d == FAC_U8 ? fabs(re_im[0]) : re_im[0]) * 5))
                           : fac_scalar_f_(re_im[0]);
        fac__store(p + (size_t)i * fac_dtype_size(d), d, s);
    }
    return p;
}

static void get(const void *p, int64_t i, fac_dtype d, double z[2]) {
    double room[2];
    fac__scalar_c128(fac__load((const char *)p + i * (int64_t)fac_dtype_size(d), d, room), z);
}

static double tolerance(fac_dtype d, int64_t k) {
    switch (d) {
    case FAC_F16: return 2e-3 * (1 + sqrt((double)k));
    case FAC_BF16: return 2e-2 * (1 + sqrt((double)k));
    case FAC_F32:
    case FAC_C64: return 2e-6 * (double)(8 + k);
    case FAC_F64:
    case FAC_C128: return 1e-14 * (double)(8 + k);
    default: return 0;
    }
}

typedef struct problem {
    fac_gemm g;
    int64_t c_size;
    void *a, *b, *c, *before;
} problem;

static void problem_make(problem *p, fac_dtype d, int64_t batch, int64_t m, int64_t n, int64_t k, layout la, layout lb,
                         layout lc) {
    fac_gemm *g = &p->g;
    *g = (fac_gemm){
        .dtype = d, .batch = batch, .m = m, .n = n, .k = k, .alpha = fac_scalar_i_(1), .beta = fac_scalar_i_(0)};
    strides_of(la, m, k, &g->a.row, &g->a.col);
    strides_of(lb, k, n, &g->b.row, &g->b.col);
    strides_of(lc, m, n, &g->c_row, &g->c_col);
    g->a.batch = m * g->a.row + k * g->a.col;
    g->b.batch = k * g->b.row + n * g->b.col;
    g->c_batch = m * g->c_row + n * g->c_col;
    p->c_size = batch * g->c_batch + 1;
    g->a.data = p->a = filled(d, batch * g->a.batch + 1);
    g->b.data = p->b = filled(d, batch * g->b.batch + 1);
    g->c = p->c = filled(d, p->c_size);
    p->before = malloc((size_t)p->c_size * fac_dtype_size(d));
    assert_non_null(p->before);
    memcpy(p->before, p->c, (size_t)p->c_size * fac_dtype_size(d));
}

static void problem_free(problem *p) {
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->before);
}

typedef struct number {
    double re, im;
} number;

/* The n elements of an operand, conjugated if it is. */
static number *widened(const void *p, int64_t n, fac_dtype d, bool conj) {
    number *v = calloc((size_t)n, sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) {
        double z[2];
        get(p, i, d, z);
        v[i] = (number){z[0], conj ? -z[1] : z[1]};
    }
    return v;
}

/* beta * C + alpha * sum A B of one element, in f64; a and b are the widened operands. */
static void expected(const problem *p, const number *a, const number *b, int64_t batch, int64_t i, int64_t j,
                     double out[2]) {
    const fac_gemm *g = &p->g;
    double re = 0, im = 0, alpha[2], beta[2], c[2];
    a += batch * g->a.batch + i * g->a.row;
    b += batch * g->b.batch + j * g->b.col;
    for (int64_t q = 0; q < g->k; q++) {
        const number x = a[q * g->a.col], y = b[q * g->b.row];
        re += x.re * y.re - x.im * y.im;
        im += x.re * y.im + x.im * y.re;
    }
    fac__scalar_c128(g->alpha, alpha);
    fac__scalar_c128(g->beta, beta);
    get(p->before, batch * g->c_batch + i * g->c_row + j * g->c_col, g->dtype, c);
    out[0] = alpha[0] * re - alpha[1] * im + (beta[0] != 0 || beta[1] != 0 ? beta[0] * c[0] - beta[1] * c[1] : 0);
    out[1] = alpha[0] * im + alpha[1] * re + (beta[0] != 0 || beta[1] != 0 ? beta[0] * c[1] + beta[1] * c[0] : 0);
}

/* Runs the problem; every element of C must be right and every byte between its elements untouched. */
static void problem_check(problem *p) {
    const fac_gemm *g = &p->g;
    size_t item = fac_dtype_size(g->dtype);
    assert_int_equal(fac__gemm(g), FAC_OK);
    number *wide_a = widened(p->a, g->batch * g->a.batch + 1, g->dtype, g->a.conj);
    number *wide_b = widened(p->b, g->batch * g->b.batch + 1, g->dtype, g->b.conj);
    char *seen = calloc((size_t)p->c_size, 1);
    assert_non_null(seen);
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                int64_t at = b * g->c_batch + i * g->c_row + j * g->c_col;
                double want[2], got[2];
                seen[at] = 1;
                expected(p, wide_a, wide_b, b, i, j, want);
                get(p->c, at, g->dtype, got);
                double e = fabs(want[0] - got[0]) + fabs(want[1] - got[1]);
                if (fac_dtype_is_integral(g->dtype, false)) e = fmod(e, ldexp(1, 8 * (int)item)); /* they wrap */
                if (!(e <= tolerance(g->dtype, g->k)))
                    fail_msg("%s %lld x [%lld,%lld,%lld] at (%lld,%lld,%lld): %g%+gi, expected %g%+gi",
                             fac_dtype_name(g->dtype), (long long)g->batch, (long long)g->m, (long long)g->n,
                             (long long)g->k, (long long)b, (long long)i, (long long)j, got[0], got[1], want[0],
                             want[1]);
            }
    for (int64_t i = 0; i < p->c_size; i++)
        if (!seen[i]) assert_memory_equal((char *)p->c + (size_t)i * item, (char *)p->before + (size_t)i * item, item);
    free(seen);
    free(wide_a);
    free(wide_b);
}

static const fac_dtype dtypes[] = {FAC_U8,   FAC_I8,  FAC_I16, FAC_I32, FAC_I64, FAC_F16,
                                   FAC_BF16, FAC_F32, FAC_F64, FAC_C64, FAC_C128};

static void blas_every_layout_matches_f64(void **unused) {
    (void)unused;
    static const int64_t sides[][3] = {{1, 1, 1},     {1, 1, 50},   {3, 5, 7},     {17, 1, 33},
                                       {1, 37, 19},   {15, 33, 40}, {29, 70, 300}, {150, 1, 21},
                                       {21, 24, 300}, {13, 32, 9},  {12, 16, 5}};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t s = 0; s < FAC_COUNT(sides); s++)
            for (int l = 0; l < LAYOUTS * LAYOUTS * LAYOUTS; l++) {
                problem p;
                problem_make(&p, dtypes[d], 1 + l % 2, sides[s][0], sides[s][1], sides[s][2], (layout)(l % LAYOUTS),
                             (layout)(l / LAYOUTS % LAYOUTS), (layout)(l / LAYOUTS / LAYOUTS));
                problem_check(&p);
                problem_free(&p);
            }
}

static void blas_alpha_and_beta_scale(void **unused) {
    (void)unused;
    static const double alpha[] = {0.5, -2}, beta[] = {3, 0.25};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int l = 0; l < 4 * LAYOUTS; l++) {
            static const int64_t sides[][2] = {{19, 40}, {1, 40}, {70, 1}, {70, 1}};
            const int64_t *side = sides[l / LAYOUTS];
            problem p;
            problem_make(&p, dtypes[d], 2, side[0], side[1], 65, l < 3 * LAYOUTS ? ROWS : COLUMNS, COLUMNS,
                         (layout)(l % LAYOUTS));
            bool integral = fac_dtype_is_integral(dtypes[d], false), complex = fac_dtype_is_complex(dtypes[d]);
            p.g.alpha = integral ? fac_scalar_i_(2) : complex ? fac_scalar_c_(alpha) : fac_scalar_f_(0.5);
            p.g.beta = integral ? fac_scalar_i_(3) : complex ? fac_scalar_c_(beta) : fac_scalar_f_(3);
            problem_check(&p);
            problem_free(&p);
        }
}

static void blas_conjugate_operands(void **unused) {
    (void)unused;
    for (int l = 0; l < 8; l++) {
        problem p;
        problem_make(&p, l & 4 ? FAC_C128 : FAC_C64, 1, 20, 40, 150, ROWS, COLUMNS, ROWS);
        p.g.a.conj = l & 1;
        p.g.b.conj = (l & 2) != 0;
        problem_check(&p);
        problem_free(&p);
    }
}

static void blas_large_blocks_match(void **unused) {
    (void)unused;
    static const int64_t sides[][3] = {{300, 280, 270}, {700, 40, 33}, {5, 1500, 600},
                                       {8, 9, 9000},    {1, 3, 20000}, {1, 1, 50000}};
    for (size_t s = 0; s < FAC_COUNT(sides); s++)
        for (int l = 0; l < 4; l++) {
            problem p;
            problem_make(&p, l & 2 ? FAC_F64 : FAC_F32, 1, sides[s][0], sides[s][1], sides[s][2], ROWS,
                         l & 1 ? COLUMNS : ROWS, ROWS);
            problem_check(&p);
            problem_free(&p);
        }
}

static void blas_beta_zero_does_not_read(void **unused) {
    (void)unused;
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        if (fac_dtype_is_integral(dtypes[d], false)) continue;
        for (int v = 0; v < 3; v++) {
            problem p;
            problem_make(&p, dtypes[d], 1, v == 1 ? 1 : 16, v == 2 ? 1 : 35, 9, ROWS, ROWS, ROWS);
            for (int64_t i = 0; i < p.c_size; i++)
                fac__store((char *)p.c + (size_t)i * fac_dtype_size(dtypes[d]), dtypes[d], fac_scalar_f_(NAN));
            memcpy(p.before, p.c, (size_t)p.c_size * fac_dtype_size(dtypes[d]));
            problem_check(&p);
            problem_free(&p);
        }
    }
}

static void blas_empty_depth_scales_only(void **unused) {
    (void)unused;
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int beta = 0; beta < 2; beta++) {
            problem p;
            problem_make(&p, dtypes[d], 2, 4, 3, 0, ROWS, ROWS, ROWS);
            p.g.beta = fac_scalar_i_(beta);
            problem_check(&p);
            problem_free(&p);
        }
}

static void blas_bits_do_not_depend_on_threads(void **unused) {
    (void)unused;
    static const int64_t sides[][3] = {{64, 64, 64},    {300, 300, 300}, {513, 600, 520}, {32, 1024, 512},
                                       {8, 8, 20000},   {1, 700, 900},   {900, 1, 700},   {1, 1, 100000},
                                       {64, 512, 3136}, {200, 10, 5000}, {1100, 170, 300}};
    static const fac_dtype kinds[] = {FAC_BF16, FAC_F32, FAC_F64, FAC_C64};
    static const int counts[] = {3, 2, 7};
    const size_t n_counts = FAC_UNDER_ASAN ? 1 : FAC_COUNT(counts); /* which takes its time */
    int was = fac_num_threads();
    for (size_t s = 0; s < FAC_COUNT(sides); s++)
        for (size_t d = 0; d < FAC_COUNT(kinds); d++)
            for (int l = 0; l < 4; l++) {
                problem p;
                problem_make(&p, kinds[d], 1, sides[s][0], sides[s][1], sides[s][2], l & 1 ? COLUMNS : ROWS,
                             l & 2 ? COLUMNS : ROWS, ROWS);
                size_t bytes = (size_t)p.c_size * fac_dtype_size(kinds[d]);
                assert_int_equal(fac_set_num_threads(1), FAC_OK);
                assert_int_equal(fac__gemm(&p.g), FAC_OK);
                memcpy(p.before, p.c, bytes);
                for (size_t t = 0; t < n_counts; t++) {
                    assert_int_equal(fac_set_num_threads(counts[t]), FAC_OK);
                    assert_int_equal(fac__gemm(&p.g), FAC_OK);
                    assert_memory_equal(p.c, p.before, bytes);
                }
                problem_free(&p);
            }
    assert_int_equal(fac_set_num_threads(was), FAC_OK);
}

/* The last block of columns may be as narrow as a vector with some numbers of threads and not with others. */
static void blas_bits_of_narrow_blocks_do_not_depend_on_threads(void **unused) {
    (void)unused;
    static const struct {
        int64_t m, n, k;
        double alpha;
    } cases[] = {{24, 33, 4000, 0.3}, {24, 50, 4000, 0.3}, {24, 53, 4000, 0.3}, {2, 32 * 65552 + 1, 1, 0.3}};
    static const fac_dtype kinds[] = {FAC_F32, FAC_F64};
    int was = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (size_t d = 0; d < FAC_COUNT(kinds); d++) {
            problem p;
            problem_make(&p, kinds[d], 1, cases[i].m, cases[i].n, cases[i].k, ROWS, ROWS, ROWS);
            p.g.alpha = fac_scalar_f_(cases[i].alpha);
            p.g.beta = fac_scalar_i_(1);
            const size_t bytes = (size_t)p.c_size * fac_dtype_size(kinds[d]);
            void *first = NULL;
            for (int threads = 1; threads <= 4; threads++) {
                memcpy(p.c, p.before, bytes);
                assert_int_equal(fac_set_num_threads(threads), FAC_OK);
                assert_int_equal(fac__gemm(&p.g), FAC_OK);
                if (first) {
                    if (memcmp(p.c, first, bytes) != 0)
                        fail_msg("case %zu in %s on %d threads", i, fac_dtype_name(kinds[d]), threads);
                    continue;
                }
                first = malloc(bytes);
                assert_non_null(first);
                memcpy(first, p.c, bytes);
            }
            free(first);
            problem_free(&p);
        }
    assert_int_equal(fac_set_num_threads(was), FAC_OK);
}

/* Panels of every height and strips of every kind: of A in rows and in columns, with up to one group of strips and with more. */
static void blas_panels_and_strips_of_every_kind(void **unused) {
    (void)unused;
    static const fac_dtype kinds[] = {FAC_F32, FAC_F64};
    static const int64_t columns[] = {33, 40, 48, 64, 90, 128, 129, 160};
    for (size_t d = 0; d < FAC_COUNT(kinds); d++)
        for (int64_t m = 15; m <= 28; m++)
            for (size_t n = 0; n < FAC_COUNT(columns); n++)
                for (int l = 0; l < 2; l++) {
                    problem p;
                    problem_make(&p, kinds[d], 1, m, columns[n], 263, l ? COLUMNS : ROWS, ROWS, ROWS);
                    p.g.beta = fac_scalar_i_(m % 2);
                    problem_check(&p);
                    problem_free(&p);
                }
}

/* Few rows or columns that lie along k: every number of them, with and without what is left of a vector, in rows with gaps. */
static void blas_dots_of_few_rows_and_columns(void **unused) {
    (void)unused;
    static const fac_dtype kinds[] = {FAC_F32, FAC_F64, FAC_BF16};
    for (size_t d = 0; d < FAC_COUNT(kinds); d++)
        for (int64_t few = 2; few <= 17; few++)
            for (int64_t k = 544; k <= 561; k += 17)
                for (int turned = 0; turned < 2; turned++)
                    for (int beta = 0; beta < 2; beta++) {
                        const int64_t m = turned ? 23 : few, n = turned ? few : 23;
                        problem p;
                        problem_make(&p, kinds[d], 2, m, n, k, ROWS, COLUMNS, ROWS);
                        p.g.beta = fac_scalar_i_(beta);
                        problem_check(&p);
                        problem_free(&p);
                    }
}

/* Halves by few columns, which are widened first: by rows or columns of A, of B in any strides. */
static void blas_narrow_halves_of_every_layout(void **unused) {
    (void)unused;
    static const int64_t sides[][3] = {{700, 4, 4}, {65, 1, 3}, {33, 16, 64}, {1, 7, 20}, {530, 3, 1}, {9, 5, 0}};
    for (size_t i = 0; i < FAC_COUNT(sides); i++)
        for (int l = 0; l < LAYOUTS * LAYOUTS * 4; l++) {
            problem p;
            problem_make(&p, l & 1 ? FAC_F16 : FAC_BF16, 2, sides[i][0], sides[i][1], sides[i][2],
                         (layout)(l / 4 % LAYOUTS), (layout)(l / 4 / LAYOUTS), ROWS);
            p.g.beta = fac_scalar_i_(l >> 1 & 1);
            problem_check(&p);
            problem_free(&p);
        }
}

/* Of few columns and of many: sums are rounded once, and a product of -0 stays one where nothing is added. */
static void blas_bits_of_depth_1_do_not_depend_on_columns(void **unused) {
    (void)unused;
    static const fac_dtype kinds[] = {FAC_F32, FAC_F64};
    for (size_t d = 0; d < FAC_COUNT(kinds); d++)
        for (int beta = 0; beta < 2; beta++)
            for (int64_t few = 2; few <= 40; few++) {
                const size_t item = fac_dtype_size(kinds[d]);
                problem p;
                problem_make(&p, kinds[d], 1, 30, 70, 1, ROWS, ROWS, ROWS);
                p.g.beta = fac_scalar_i_(beta);
                for (int64_t i = 0; i < 4; i++)
                    fac__store((char *)p.a + (size_t)(i * p.g.a.row) * item, kinds[d],
                               fac_scalar_f_(i % 2 ? -0.0 : 0.0));
                assert_int_equal(fac__gemm(&p.g), FAC_OK);
                char *many = p.c;
                p.g.c = p.c = p.before;
                p.before = many;
                p.g.n = few;
                assert_int_equal(fac__gemm(&p.g), FAC_OK);
                for (int64_t i = 0; i < p.g.m; i++) {
                    const size_t at = (size_t)(i * p.g.c_row) * item;
                    if (memcmp((char *)p.c + at, many + at, (size_t)few * item) != 0)
                        fail_msg("row %lld of %lld columns in %s", (long long)i, (long long)few,
                                 fac_dtype_name(kinds[d]));
                }
                problem_free(&p);
            }
}

/* Numbers just below the normal range would be rounded up into it. */
static void blas_rounded_factors_are_the_same_in_all_strides(void **unused) {
    (void)unused;
    enum { SIDE = 40 };
    for (int which = 0; which < 2; which++) {
        float first[SIDE * SIDE];
        for (int l = 0; l < LAYOUTS * LAYOUTS; l++) {
            problem p;
            problem_make(&p, FAC_F32, 1, SIDE, SIDE, SIDE, (layout)(l % LAYOUTS), (layout)(l / LAYOUTS), ROWS);
            p.g.may_round = true;
            for (int64_t i = 0; i < SIDE; i++)
                for (int64_t j = 0; j < SIDE; j++) {
                    const float few = (i + j) % 3 ? 0x1.fffcp-127f : -0x1p-126f, many = (i + 2 * j) % 5 ? 0x1p100f : 1;
                    ((float *)p.a)[i * p.g.a.row + j * p.g.a.col] = which ? many : few;
                    ((float *)p.b)[i * p.g.b.row + j * p.g.b.col] = which ? few : many;
                }
            assert_int_equal(fac__gemm(&p.g), FAC_OK);
            for (int64_t i = 0; i < SIDE; i++) {
                const float *row = (const float *)p.c + i * p.g.c_row;
                if (l == 0) memcpy(first + i * SIDE, row, SIDE * sizeof *row);
                assert_memory_equal(row, first + i * SIDE, SIDE * sizeof *row);
            }
            problem_free(&p);
        }
    }
}

/* Copies `from` to C. */
static void copy_to_c(problem *p, const void *from) {
    const fac_gemm *g = &p->g;
    size_t item = fac_dtype_size(g->dtype);
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < g->m; i++)
            memcpy((char *)p->c + (size_t)(b * g->c_batch + i * g->c_row) * item,
                   (const char *)from + (size_t)(b * g->from_batch + i * g->from_row) * item, (size_t)g->n * item);
}

/* One row for all of C, or a matrix for each of the batch. */
static void blas_what_is_added_has_the_bits_of_a_copy_in_c(void **unused) {
    (void)unused;
    static const int64_t sides[][3] = {{2, 2, 1},   {29, 70, 300}, {300, 500, 90}, {15, 33, 600},
                                       {40, 5, 33}, {17, 16, 300}, {19, 32, 300},  {7, 20, 9},
                                       {9, 8, 8},   {30, 40, 1},   {1100, 70, 30}};
    for (size_t s = 0; s < FAC_COUNT(sides); s++)
        for (int l = 0; l < 16; l++) {
            problem p;
            fac_dtype d = l & 4 ? FAC_F64 : FAC_F32;
            problem_make(&p, d, l & 8 ? 2 : 1, sides[s][0], sides[s][1], sides[s][2], l & 1 ? COLUMNS : ROWS,
                         l & 2 ? COLUMNS : ROWS, ROWS);
            p.g.beta = fac_scalar_i_(1);
            p.g.from_row = l & 8 ? p.g.n + 2 : 0;
            p.g.from_batch = p.g.m * p.g.from_row;
            void *from = filled(d, l & 8 ? 2 * p.g.from_batch : p.g.n);
            copy_to_c(&p, from);
            memcpy(p.before, p.c, (size_t)p.c_size * fac_dtype_size(d));
            problem_check(&p);
            void *copied = p.c;
            p.g.c = p.c = filled(d, p.c_size);
            assert_true(fac__gemm_takes_from(&p.g));
            p.g.from = from;
            assert_int_equal(fac__gemm(&p.g), FAC_OK);
            for (int64_t i = 0; i < p.g.batch * p.g.m; i++) {
                const int64_t row = i / p.g.m * p.g.c_batch + i % p.g.m * p.g.c_row;
                size_t at = (size_t)row * fac_dtype_size(d);
                assert_memory_equal((char *)p.c + at, (char *)copied + at, (size_t)p.g.n * fac_dtype_size(d));
            }
            free(copied);
            free(from);
            problem_free(&p);
        }
}

/* A row is added to products of bf16, in C of bf16 and of f32. */
static void blas_what_is_added_to_bf16_has_the_bits_of_a_copy_in_c(void **unused) {
    (void)unused;
    static const int64_t sides[][3] = {{2, 2, 1}, {20, 40, 30}, {600, 70, 33}, {15, 33, 600}};
    static const fac_dtype kinds[] = {FAC_BF16, FAC_F32};
    for (size_t s = 0; s < FAC_COUNT(sides); s++)
        for (size_t d = 0; d < FAC_COUNT(kinds); d++) {
            const int64_t m = sides[s][0], n = sides[s][1], k = sides[s][2];
            const size_t row = (size_t)n * fac_dtype_size(kinds[d]);
            void *a = filled(FAC_BF16, m * k), *b = filled(FAC_BF16, k * n), *from = filled(kinds[d], n);
            char *copied = filled(kinds[d], m * n), *added = filled(kinds[d], m * n);
            for (int64_t i = 0; i < m; i++) memcpy(copied + (size_t)i * row, from, row);
            fac_gemm g = {.dtype = FAC_BF16, .c_dtype = kinds[d], .batch = 1, .m = m, .n = n, .k = k, .c = copied};
            g.a = (fac_gemm_matrix){a, k, 1, 0, false};
            g.b = (fac_gemm_matrix){b, n, 1, 0, false};
            g.c_row = n;
            g.c_col = 1;
            g.alpha = g.beta = fac_scalar_i_(1);
            assert_true(fac__gemm_takes_from(&g));
            assert_int_equal(fac__gemm(&g), FAC_OK);
            g.c = added;
            g.from = from;
            assert_int_equal(fac__gemm(&g), FAC_OK);
            assert_memory_equal(added, copied, (size_t)m * row);
            free(a);
            free(b);
            free(from);
            free(copied);
            free(added);
        }
}

static void blas_what_is_added_is_refused_where_c_is_read(void **unused) {
    (void)unused;
    static const struct {
        fac_dtype dtype;
        int64_t m, n, k;
        layout c;
        int beta;
    } cases[] = {
        {FAC_BF16, 20, 40, 30, COLUMNS, 1}, {FAC_C64, 20, 40, 30, ROWS, 1},    {FAC_I32, 20, 40, 30, ROWS, 1},
        {FAC_F32, 20, 40, 0, ROWS, 1},      {FAC_F32, 1, 40, 30, ROWS, 1},     {FAC_F32, 20, 1, 30, ROWS, 1},
        {FAC_F32, 20, 40, 30, ROWS, 2},     {FAC_F32, 20, 40, 30, COLUMNS, 1}, {FAC_F32, 64, 64, 9000, ROWS, 1}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        problem p;
        problem_make(&p, cases[i].dtype, 1, cases[i].m, cases[i].n, cases[i].k, ROWS, ROWS, cases[i].c);
        p.g.beta = fac_scalar_i_(cases[i].beta);
        assert_false(fac__gemm_takes_from(&p.g));
        problem_free(&p);
    }
}

static void blas_bool_is_refused(void **unused) {
    (void)unused;
    bool one = true, out = false;
    fac_gemm g = {.dtype = FAC_BOOL, .batch = 1, .m = 1, .n = 1, .k = 1, .c = &out, .alpha = fac_scalar_i_(1)};
    g.a.data = g.b.data = &one;
    assert_int_equal(fac__gemm(&g), FAC_ERR_DTYPE);
    fac_error_clear();
}

FAC_TEST_MAIN_OF_PAIRS(FAC_TEST(blas_every_layout_matches_f64), FAC_TEST(blas_alpha_and_beta_scale),
                       FAC_TEST(blas_conjugate_operands), FAC_TEST(blas_large_blocks_match),
                       FAC_TEST(blas_beta_zero_does_not_read), FAC_TEST(blas_empty_depth_scales_only),
                       FAC_TEST(blas_bits_do_not_depend_on_threads), FAC_TEST(blas_panels_and_strips_of_every_kind),
                       FAC_TEST(blas_dots_of_few_rows_and_columns), FAC_TEST(blas_narrow_halves_of_every_layout),
                       FAC_TEST(blas_bits_of_narrow_blocks_do_not_depend_on_threads),
                       FAC_TEST(blas_bits_of_depth_1_do_not_depend_on_columns),
                       FAC_TEST(blas_rounded_factors_are_the_same_in_all_strides),
                       FAC_TEST(blas_what_is_added_has_the_bits_of_a_copy_in_c),
                       FAC_TEST(blas_what_is_added_to_bf16_has_the_bits_of_a_copy_in_c),
                       FAC_TEST(blas_what_is_added_is_refused_where_c_is_read), FAC_TEST(blas_bool_is_refused))
