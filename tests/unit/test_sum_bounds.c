/* Sums against exact ones: each result lies within the error bound of pairwise summation, (log2(n) + SLACK) * eps * sum|x|, and what is
   made of sums within the bound that follows. The exact value is summed in pairs of doubles (Dekker 1971, Knuth 1969), twice the digits.
   Inputs are hostile: what is added one after the other loses the small ones; the mean is large beside the spread; numbers cancel, or
   are subnormal. Halves accumulate in float and are rounded once. */
#include "support/support.h"

#include <facula/facula.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { SLACK = 6, COLUMNS = 6, WIDE = 1000000, ROOM = WIDE + 8 };

/* ---- twice a double's digits ---------------------------------------------------------------------------------------- */

typedef struct pair {
    double hi, lo;
} pair;

static pair plus(pair a, double x) {
    const double s = a.hi + x, t = s - a.hi, low = (a.hi - (s - t)) + (x - t) + a.lo;
    return (pair){s + low, low - ((s + low) - s)};
}
static pair plus_product(pair a, double x, double y) {
    const double p = x * y;
    return plus(plus(a, p), fma(x, y, -p));
}

/* ---- inputs --------------------------------------------------------------------------------------------------------- */

typedef struct precision {
    const char *name;
    fac_dtype dtype, sums; /* what it is summed in */
    double eps, unit;      /* of the sums; half a unit in the last place of the dtype, relative */
    double least;          /* the smallest subnormal number */
} precision;
static const precision precisions[] = {
    {"f32", FAC_F32, FAC_F32, FLT_EPSILON, FLT_EPSILON / 2, 0x1p-149},
    {"f64", FAC_F64, FAC_F64, DBL_EPSILON, DBL_EPSILON / 2, 0x1p-1074},
    {"f16", FAC_F16, FAC_F32, FLT_EPSILON, 0x1p-11, 0x1p-24},
    {"bf16", FAC_BF16, FAC_F32, FLT_EPSILON, 0x1p-8, 0x1p-133},
};

static double random_unit(int64_t i) {
    uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

typedef double (*pattern_fn)(int64_t i, const precision *p);
static double tenths(int64_t i, const precision *p) { return (void)i, (void)p, 0.1; }
static double drown(int64_t i, const precision *p, int64_t large) { return i < large ? 1 : p->eps / 2; }
static double drown_8(int64_t i, const precision *p) { return drown(i, p, 8); }
static double drown_64(int64_t i, const precision *p) { return drown(i, p, 64); }
static double drown_256(int64_t i, const precision *p) { return drown(i, p, 256); }
static double cancel(int64_t i, const precision *p) {
    (void)p;
    return (i & 1 ? -1 : 1) * 30000.0 + random_unit(i);
}
static double offset(int64_t i, const precision *p) { return (void)p, 1e4 + (random_unit(i) - 0.5); }
static double spread(int64_t i, const precision *p) {
    (void)p;
    return ldexp(random_unit(i) - 0.5, (int)(random_unit(i + 7777) * 14));
}
static double subnormal(int64_t i, const precision *p) { return p->least * (double)(i % 5 - 1); }

typedef struct pattern {
    const char *name;
    pattern_fn of;
    bool squares; /* squares neither vanish nor overflow */
} pattern;
static const pattern patterns[] = {{"tenths", tenths, true},     {"drown_8", drown_8, true},
                                   {"drown_64", drown_64, true}, {"drown_256", drown_256, true},
                                   {"cancel", cancel, true},     {"offset", offset, true},
                                   {"spread", spread, true},     {"subnormal", subnormal, false}};

static const int64_t lengths[] = {1, 2, 7, 31, 32, 33, 127, 128, 129, 1023, 1025, 4095, 4096, 4097, 33000};

/* How the summed numbers lie: a row; two rows; the columns of a matrix, few or many; every second number; a matrix seen from the side. */
typedef enum layout { ALL, ROWS, FEW_COLUMNS, MANY_COLUMNS, STRIDED, ASIDE, LAYOUTS } layout;

static double values[ROOM], results[ROOM];

/* n values as the dtype rounds them. */
static void fill(const pattern *f, const precision *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) values[i] = f->of(i, p);
    fac_tensor *x = fac_to_dtype(fac_tensor_from(values, FAC_F64, FAC_INTS(n)), p->dtype);
    assert_ok(fac_tensor_read(x, FAC_F64, values, (size_t)n));
}

/* Each line along the dimension *dim holds the values. */
static fac_tensor *lay(const precision *p, layout how, int64_t n, int64_t *dim) {
    fac_tensor *x = fac_to_dtype(fac_tensor_from(values, FAC_F64, FAC_INTS(n)), p->dtype);
    const int64_t columns = how == MANY_COLUMNS ? 300 : COLUMNS;
    *dim = how == ROWS || how == ASIDE;
    switch (how) {
    case ROWS: return fac_contiguous(fac_expand(x, FAC_INTS(2, n)));
    case FEW_COLUMNS:
    case MANY_COLUMNS: return fac_contiguous(fac_t(fac_expand(x, FAC_INTS(columns, n))));
    case STRIDED: return fac_select(fac_contiguous(fac_t(fac_expand(x, FAC_INTS(2, n)))), 1, 1);
    case ASIDE: return fac_t(fac_contiguous(fac_t(fac_expand(x, FAC_INTS(COLUMNS, n)))));
    default: return x;
    }
}

/* ---- what is made of sums ----------------------------------------------------------------------------------------------- */

typedef struct facts {
    double n, sum, abs, square, cube, m2, levels;
} facts;

static facts facts_of(int64_t n) {
    pair sum = {0, 0}, abs = {0, 0}, square = {0, 0}, m2 = {0, 0}, off = {0, 0}, cube = {0, 0};
    facts f = {.n = (double)n, .levels = log2((double)n) + SLACK};
    for (int64_t i = 0; i < n; i++) {
        const double x = values[i];
        sum = plus(sum, x), abs = plus(abs, fabs(x)), square = plus_product(square, x, x);
        cube = plus_product(cube, x * x, fabs(x));
    }
    const double mean = (sum.hi + sum.lo) / (double)n;
    for (int64_t i = 0; i < n; i++) { /* the rounding of the mean is taken out again */
        const double d = values[i] - mean;
        off = plus(off, d), m2 = plus_product(m2, d, d);
    }
    f.sum = sum.hi + sum.lo, f.abs = abs.hi + abs.lo, f.square = square.hi + square.lo, f.cube = cube.hi + cube.lo;
    f.m2 = m2.hi + m2.lo - off.hi * off.hi / (double)n;
    return f;
}

typedef struct bounded {
    double exact, bound; /* before it is rounded to the dtype; the bound in units of the sums' eps */
} bounded;

typedef struct folding {
    const char *name;
    fac_tensor *(*call)(fac_tensor *x, int64_t dim);
    bounded (*expected)(const facts *f);
    bool squares;
} folding;

static fac_tensor *call_sum(fac_tensor *x, int64_t dim) { return fac_sum(x, .dim = dim); }
static fac_tensor *call_nansum(fac_tensor *x, int64_t dim) { return fac_nansum(x, .dim = dim); }
static fac_tensor *call_mean(fac_tensor *x, int64_t dim) { return fac_mean(x, .dim = dim); }
static fac_tensor *call_norm1(fac_tensor *x, int64_t dim) {
    return fac_linalg_vector_norm(x, .ord = 1, .dims = FAC_INTS(dim));
}
static fac_tensor *call_norm2(fac_tensor *x, int64_t dim) { return fac_linalg_vector_norm(x, .dims = FAC_INTS(dim)); }
static fac_tensor *call_norm3(fac_tensor *x, int64_t dim) {
    return fac_linalg_vector_norm(x, .ord = 3, .dims = FAC_INTS(dim));
}
static fac_tensor *call_var(fac_tensor *x, int64_t dim) { return fac_var(x, .dim = dim, .correction = 0); }
static fac_tensor *call_std(fac_tensor *x, int64_t dim) { return fac_std(x, .dim = dim, .correction = 0); }
static fac_tensor *call_var_mean(fac_tensor *x, int64_t dim) {
    return fac_var_mean(x, .dim = dim, .correction = 0).result1;
}
static fac_tensor *call_last_of_cumsum(fac_tensor *x, int64_t dim) { return fac_select(fac_cumsum(x, dim), dim, -1); }

static bounded of_sum(const facts *f) { return (bounded){f->sum, f->levels * f->abs}; }
static bounded of_mean(const facts *f) { return (bounded){f->sum / f->n, (f->levels + 1) * f->abs / f->n}; }
static bounded of_norm1(const facts *f) { return (bounded){f->abs, f->levels * f->abs}; }
static bounded of_norm2(const facts *f) { return (bounded){sqrt(f->square), (f->levels / 2 + 1) * sqrt(f->square)}; }
static bounded of_norm3(const facts *f) { return (bounded){cbrt(f->cube), (f->levels / 3 + 4) * cbrt(f->cube)}; }
static bounded of_var(const facts *f) { return (bounded){f->m2 / f->n, (f->levels + 4) * f->m2 / f->n}; }
static bounded of_std(const facts *f) {
    return (bounded){sqrt(f->m2 / f->n), (f->levels / 2 + 3) * sqrt(f->m2 / f->n)};
}

static const folding foldings[] = {
    {"sum", call_sum, of_sum, false},
    {"nansum", call_nansum, of_sum, false},
    {"mean", call_mean, of_mean, false},
    {"norm 1", call_norm1, of_norm1, false},
    {"norm 2", call_norm2, of_norm2, true},
    {"norm 3", call_norm3, of_norm3, true},
    {"var", call_var, of_var, true},
    {"std", call_std, of_std, true},
    {"var_mean", call_var_mean, of_mean, false},
    {"cumsum", call_last_of_cumsum, of_sum, false},
};

static int failed;

/* Every one of the results. */
static void judge(const char *what, const precision *p, const char *pattern_name, int64_t n, int how, fac_tensor *got,
                  bounded want) {
    const size_t lines = (size_t)fac_tensor_numel(got);
    assert_no_error();
    assert_ok(fac_tensor_read(got, FAC_F64, results, lines));
    const double largest = p->dtype == FAC_F16 ? 65504 : p->sums == FAC_F32 ? FLT_MAX : DBL_MAX;
    if (fabs(want.exact) > 0.999 * largest) return;
    const double bound = want.bound * p->eps + 1.01 * p->unit * fabs(want.exact) + p->least;
    for (size_t i = 0; i < lines; i++) {
        const double error = fabs(results[i] - want.exact);
        if (error <= bound) continue;
        print_error("%s %s of %lld %s in layout %d: %.17g, exactly %.17g, %.3g times the bound\n", what, p->name,
                    (long long)n, pattern_name, how, results[i], want.exact, error / bound);
        failed++;
        break;
    }
}

static void fold_all(const precision *p, const pattern *f, int64_t n, int layouts) {
    FAC_SCOPE(filled);
    fill(f, p, n);
    const facts of = facts_of(n);
    for (int how = 0; how < layouts; how++) {
        FAC_SCOPE(s);
        int64_t dim;
        fac_tensor *x = lay(p, (layout)how, n, &dim);
        for (size_t k = 0; k < FAC_COUNT(foldings); k++) {
            if (foldings[k].squares && (!f->squares || p->dtype == FAC_F16)) continue;
            judge(foldings[k].name, p, f->name, n, how, foldings[k].call(x, dim), foldings[k].expected(&of));
        }
    }
}

static void folds_of_every_layout_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < FAC_COUNT(precisions); d++)
        for (size_t f = 0; f < FAC_COUNT(patterns); f++)
            for (size_t k = 0; k < FAC_COUNT(lengths); k++)
                fold_all(&precisions[d], &patterns[f], lengths[k], lengths[k] > 5000 ? FEW_COLUMNS + 1 : LAYOUTS);
    assert_int_equal(failed, 0);
}

static void folds_of_a_million_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t f = 0; f < FAC_COUNT(patterns); f++)
            fold_all(&precisions[d], &patterns[f], WIDE, f == 3 ? FEW_COLUMNS + 1 : 1);
    assert_int_equal(failed, 0);
}

static void sums_of_complex_numbers_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t f = 0; f < FAC_COUNT(patterns); f++)
        for (size_t k = 0; k < FAC_COUNT(lengths); k++) {
            FAC_SCOPE(s);
            int64_t dim;
            fill(&patterns[f], &precisions[1], lengths[k]);
            const facts of = facts_of(lengths[k]);
            for (int how = 0; how < FEW_COLUMNS + 1; how++) {
                fac_tensor *x = lay(&precisions[1], (layout)how, lengths[k], &dim),
                           *z = fac_view_as_complex(fac_stack(FAC_TENSORS(x, fac_neg(x)), .dim = -1));
                judge("complex sum", &precisions[1], patterns[f].name, lengths[k], how,
                      fac_real(fac_sum(z, .dim = dim)), of_sum(&of));
            }
        }
    assert_int_equal(failed, 0);
}

/* Every element of a running sum, not its last alone. */
static void running_sums_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t f = 0; f < FAC_COUNT(patterns); f++)
            for (int how = 0; how < FEW_COLUMNS + 1; how++) {
                FAC_SCOPE(s);
                const int64_t n = 4097;
                const precision *p = &precisions[d];
                int64_t dim;
                fill(&patterns[f], p, n);
                fac_tensor *x = lay(p, (layout)how, n, &dim), *y = fac_cumsum(x, dim);
                y = how == ALL ? y : fac_contiguous(fac_select(y, 1 - dim, 1));
                assert_ok(fac_tensor_read(y, FAC_F64, results, (size_t)n));
                pair sum = {0, 0}, abs = {0, 0};
                for (int64_t i = 0; i < n; i++) {
                    sum = plus(sum, values[i]), abs = plus(abs, fabs(values[i]));
                    const double exact = sum.hi + sum.lo, error = fabs(results[i] - exact);
                    if (error <= (log2((double)i + 1) + SLACK) * p->eps * abs.hi + p->unit * fabs(exact) + p->least)
                        continue;
                    print_error("cumsum %s %s in layout %d: element %lld is %.17g, exactly %.17g\n", p->name,
                                patterns[f].name, how, (long long)i, results[i], exact);
                    failed++;
                    break;
                }
            }
    assert_int_equal(failed, 0);
}

/* ---- products of two -------------------------------------------------------------------------------------------------------- */

static void products_with_vectors_are_within_the_bound(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 31, 33, 127, 129, 4095, 4097, 33000, WIDE};
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t f = 0; f < FAC_COUNT(patterns) - 1; f++)
            for (size_t k = 0; k < FAC_COUNT(sizes); k++) {
                FAC_SCOPE(s);
                const int64_t n = sizes[k];
                const precision *p = &precisions[d];
                int64_t dim;
                if (n == WIDE && f != 3) continue;
                fill(&patterns[f], p, n);
                pair sum = {0, 0}, abs = {0, 0};
                for (int64_t i = 0; i < n; i++) {
                    const double w = i % 3 == 1 ? -1 : 1;
                    sum = plus_product(sum, values[i], w), abs = plus(abs, fabs(values[i]));
                }
                fac_tensor *x = lay(p, ALL, n, &dim);
                fac_tensor *w =
                    fac_where(fac_eq(fac_remainder(fac_arange(n), 3.0), 1.0),
                              fac_full(FAC_INTS(n), -1.0, .dtype = p->dtype), fac_ones(FAC_INTS(n), .dtype = p->dtype));
                const bounded want = {sum.hi + sum.lo, (log2((double)n) + SLACK) * abs.hi};
                judge("dot", p, patterns[f].name, n, ALL, fac_dot(x, w), want);
                judge("mv of rows", p, patterns[f].name, n, ROWS, fac_mv(lay(p, ROWS, n, &dim), w), want);
                judge("mv of columns", p, patterns[f].name, n, FEW_COLUMNS,
                      fac_mv(fac_t(lay(p, FEW_COLUMNS, n, &dim)), w), want);
            }
    assert_int_equal(failed, 0);
}

static void products_of_many_are_rounded_once_each(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t k = 0; k < FAC_COUNT(lengths); k++)
            for (int how = 0; how < LAYOUTS; how++) {
                FAC_SCOPE(s);
                const precision *p = &precisions[d];
                const int64_t n = lengths[k];
                int64_t dim;
                for (int64_t i = 0; i < n; i++) values[i] = exp2((random_unit(i / 2) - 0.5) * (i & 1 ? -1 : 1));
                fac_tensor *x = fac_to_dtype(fac_tensor_from(values, FAC_F64, FAC_INTS(n)), p->dtype);
                assert_ok(fac_tensor_read(x, FAC_F64, values, (size_t)n));
                long double product = 1;
                for (int64_t i = 0; i < n; i++) product *= (long double)values[i];
                if (how == MANY_COLUMNS && n > 5000) continue;
                x = lay(p, (layout)how, n, &dim);
                judge("prod", p, "ratios", n, how, fac_prod_dim(x, dim),
                      (bounded){(double)product, (double)n / 2 * (double)product});
            }
    assert_int_equal(failed, 0);
}

/* ---- exponentials ------------------------------------------------------------------------------------------------------------ */

/* Differences from the maximum are exact, so that only the sum and the exponentials are rounded. */
static double few_exponents(int64_t i, bool drowned) {
    return drowned ? (i < 64 ? 0 : -17) : -(double)(i * 7 % 13) / 4;
}

static void sums_of_exponentials_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t k = 0; k < FAC_COUNT(lengths); k++)
            for (int how = 0; how < 2 * LAYOUTS; how++) {
                FAC_SCOPE(s);
                const precision *p = &precisions[d];
                const int64_t n = lengths[k];
                int64_t dim;
                pair sum = {0, 0};
                if (how / 2 == MANY_COLUMNS && n > 5000) continue;
                for (int64_t i = 0; i < n; i++) values[i] = few_exponents(i, how & 1), sum = plus(sum, exp(values[i]));
                fac_tensor *x = lay(p, (layout)(how / 2), n, &dim);
                const double levels = log2((double)n) + SLACK, lse = log(sum.hi);
                judge("logsumexp", p, "exponents", n, how, fac_logsumexp(x, FAC_INTS(dim)),
                      (bounded){lse, levels + fabs(lse)});
                judge("softmax", p, "exponents", n, how, fac_select(fac_softmax(x, dim), dim, 0),
                      (bounded){exp(values[0]) / sum.hi, (levels + 2) * exp(values[0]) / sum.hi});
                judge("log_softmax", p, "exponents", n, how, fac_select(fac_log_softmax(x, dim), dim, 0),
                      (bounded){values[0] - lse, levels + fabs(lse)});
            }
    assert_int_equal(failed, 0);
}

/* ---- normalisations ------------------------------------------------------------------------------------------------------------ */

static void statistics_of_normalisations_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t f = 0; f < FAC_COUNT(patterns) - 1; f++)
            for (size_t k = 1; k < FAC_COUNT(lengths); k++) {
                FAC_SCOPE(s);
                const precision *p = &precisions[d];
                const char *name = patterns[f].name;
                const int64_t n = lengths[k];
                int64_t dim;
                fill(&patterns[f], p, n);
                const facts of = facts_of(n);
                const double rstd = 1 / sqrt(of.m2 / of.n + 1e-5), rms = 1 / sqrt(of.square / of.n + 1e-5);
                const bounded want = {rstd, (of.levels / 2 + 4) * rstd};
                fac_tensor *rows = lay(p, ROWS, n, &dim);
                fac_native_layer_norm_result l = fac_native_layer_norm(rows, FAC_INTS(n), NULL, NULL, 1e-5);
                judge("layer_norm mean", p, name, n, ROWS, l.result1, of_mean(&of));
                judge("layer_norm rstd", p, name, n, ROWS, l.result2, want);
                judge("rms_norm", p, name, n, ROWS, fac_select(fac_rms_norm(rows, FAC_INTS(n), .eps = 1e-5), 1, 0),
                      (bounded){values[0] * rms, (of.levels / 2 + 5) * fabs(values[0]) * rms});
                fac_tensor *points = lay(p, FEW_COLUMNS, n, &dim),
                           *planes = fac_reshape(fac_contiguous(fac_t(points)), FAC_INTS(1, COLUMNS, n));
                fac_native_batch_norm_result b = fac_native_batch_norm(points, NULL, NULL, NULL, NULL, true, 0.1, 1e-5);
                judge("batch_norm of points: mean", p, name, n, FEW_COLUMNS, b.result1, of_mean(&of));
                judge("batch_norm of points: rstd", p, name, n, FEW_COLUMNS, b.result2, want);
                b = fac_native_batch_norm(planes, NULL, NULL, NULL, NULL, true, 0.1, 1e-5);
                judge("batch_norm of planes: mean", p, name, n, ROWS, b.result1, of_mean(&of));
                judge("batch_norm of planes: rstd", p, name, n, ROWS, b.result2, want);
            }
    assert_int_equal(failed, 0);
}

static void areas_under_curves_are_within_the_bound(void **state) {
    (void)state;
    failed = 0;
    for (size_t d = 0; d < 2; d++)
        for (size_t f = 0; f < FAC_COUNT(patterns) - 1; f++)
            for (size_t k = 1; k < FAC_COUNT(lengths); k++) {
                FAC_SCOPE(s);
                const int64_t n = lengths[k];
                int64_t dim;
                pair sum = {0, 0};
                fill(&patterns[f], &precisions[d], n);
                const facts of = facts_of(n);
                for (int64_t i = 0; i + 1 < n; i++) sum = plus(plus(sum, values[i] / 2), values[i + 1] / 2);
                judge("trapezoid", &precisions[d], patterns[f].name, n, ALL,
                      fac_trapezoid_dx(lay(&precisions[d], ALL, n, &dim)),
                      (bounded){sum.hi + sum.lo, (of.levels + 2) * of.abs});
            }
    assert_int_equal(failed, 0);
}

FAC_TEST_MAIN(FAC_TEST(folds_of_every_layout_are_within_the_bound), FAC_TEST(folds_of_a_million_are_within_the_bound),
              FAC_TEST(sums_of_complex_numbers_are_within_the_bound), FAC_TEST(running_sums_are_within_the_bound),
              FAC_TEST(products_with_vectors_are_within_the_bound), FAC_TEST(products_of_many_are_rounded_once_each),
              FAC_TEST(sums_of_exponentials_are_within_the_bound),
              FAC_TEST(statistics_of_normalisations_are_within_the_bound),
              FAC_TEST(areas_under_curves_are_within_the_bound))
