/* Random operators against the distributions that they document: Kolmogorov's distance to the closed form for continuous ones, the chi
   square of counts for discrete ones, tails, independence of neighbours and of draws, for each dtype. Seeds are fixed, so that a bound
   that a sound generator passes once in ten thousand tries is passed or not for good. */
#include "difference_cases.h"

#include "core/generator.h"
#include <stdlib.h>

enum { N = 200000 };

/* ---- distribution functions ---------------------------------------------------------------------------------------------------- */

typedef double (*cdf_fn)(double x, const double *p);

static double normal_cdf(double x, const double *p) { return 0.5 * erfc((p[0] - x) / p[1] * M_SQRT1_2); }
static double uniform_cdf(double x, const double *p) { return fmin(1, fmax(0, (x - p[0]) / (p[1] - p[0]))); }
static double exponential_cdf(double x, const double *p) { return -expm1(-p[0] * x); }
static double cauchy_cdf(double x, const double *p) { return 0.5 + atan((x - p[0]) / p[1]) / M_PI; }
static double log_normal_cdf(double x, const double *p) { return normal_cdf(log(x), p); }

/* The lower incomplete gamma function, by its series. */
static double gamma_cdf(double x, const double *p) {
    const double a = p[0];
    if (x <= 0) return 0;
    double term = exp(a * log(x) - x - lgamma(a + 1)), sum = 0;
    for (int n = 1; n < 5000 && (term > 1e-17 * sum || n < x); n++) {
        sum += term;
        term *= x / (a + n);
    }
    return fmin(1, sum);
}

/* The incomplete beta function, by its series, from the nearer end. */
static double beta_series(double a, double b, double x) {
    double term = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a + 1) - lgamma(b)), sum = 0;
    for (int n = 1; n < 20000 && term > 1e-17 * sum; n++) {
        sum += term;
        term *= x * (a + b + n - 1) / (a + n);
    }
    return fmin(1, sum);
}
static double beta_cdf(double x, const double *p) {
    if (x <= 0 || x >= 1) return x >= 1;
    return x < 0.5 ? beta_series(p[0], p[1], x) : 1 - beta_series(p[1], p[0], 1 - x);
}

/* ---- distances ------------------------------------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *read_all(fac_tensor *t, size_t n) {
    double *v = malloc(n * sizeof *v);
    assert_non_null(v);
    assert_ok(fac_tensor_read(t, FAC_F64, v, n));
    return v;
}

/* Neighbours should not be correlated: their places in the distribution are uniform, of variance 1/12. */
static void check_neighbours(const double *u, size_t n, const char *what) {
    for (size_t lag = 1; lag <= 4; lag++) {
        double sum = 0;
        for (size_t i = 0; i + lag < n; i++) sum += (u[i] - 0.5) * (u[i + lag] - 0.5);
        const double z = 12 * sum / sqrt((double)(n - lag));
        if (!(fabs(z) < 4.5)) fail_msg("%s: elements %zu apart are correlated, %g deviations", what, lag, z);
    }
}

/* Of a thousandth at either end as many should lie beyond as the distribution says. */
static void check_tails(const double *u, size_t n, const char *what) {
    const double expected = 1e-3 * (double)n;
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++) low += u[i]<1e-3, high += u[i]> 1 - 1e-3;
    if (fabs(low - expected) > 4.5 * sqrt(expected) || fabs(high - expected) > 4.5 * sqrt(expected))
        fail_msg("%s: %g below and %g above, expected %g", what, low, high, expected);
}

/* t follows the distribution function; `rounded`: how much of the distribution may lie on one value of the dtype. */
static void follows(fac_tensor *t, cdf_fn cdf, const double *p, double rounded, const char *what) {
    assert_no_error();
    const size_t n = (size_t)fac_tensor_numel(t);
    double *u = read_all(t, n), far = 0;
    for (size_t i = 0; i < n; i++) u[i] = cdf(u[i], p);
    if (rounded == 0) check_neighbours(u, n, what), check_tails(u, n, what);
    qsort(u, n, sizeof *u, ascending);
    for (size_t i = 0; i < n; i++)
        far = fmax(far, fmax(u[i] - (double)i / (double)n, (double)(i + 1) / (double)n - u[i]));
    if (!(far < 2.3 / sqrt((double)n) + rounded)) fail_msg("%s: the distance to the distribution is %g", what, far);
    free(u);
}

/* The chi square of counts against expectations, as deviations of a normal number (Wilson and Hilferty). */
static double chi_square(const double *counts, const double *expected, size_t n) {
    double sum = 0, freedom = -1;
    for (size_t i = 0; i < n; i++) {
        if (expected[i] <= 0) {
            assert_true(counts[i] == 0);
            continue;
        }
        sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
        freedom++;
    }
    return (cbrt(sum / freedom) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom));
}

/* Draws of integers from 0 on with the probabilities p[0..n); what is beyond goes to the last, which has the rest. */
static void counts_follow(fac_tensor *t, double *p, size_t n, const char *what) {
    assert_no_error();
    const size_t all = (size_t)fac_tensor_numel(t);
    double *v = read_all(t, all), *counts = calloc(n, sizeof *counts), rest = 1;
    assert_non_null(counts);
    for (size_t i = 0; i < all; i++) {
        assert_true(v[i] >= 0 && v[i] == floor(v[i]));
        counts[v[i] < (double)(n - 1) ? (size_t)v[i] : n - 1]++;
    }
    for (size_t i = 0; i + 1 < n; i++) rest -= p[i];
    p[n - 1] = fmax(rest, 0);
    for (size_t i = 0; i < n; i++) p[i] *= (double)all;
    /* few of a kind go with their neighbour */
    for (size_t i = 0; i + 1 < n; i++)
        if (p[i] < 8) p[i + 1] += p[i], counts[i + 1] += counts[i], p[i] = counts[i] = 0;
    if (p[n - 1] < 8)
        for (size_t i = n - 1; i-- > 0;)
            if (p[i] > 0) {
                p[i] += p[n - 1], counts[i] += counts[n - 1], p[n - 1] = counts[n - 1] = 0;
                break;
            }
    const double z = chi_square(counts, p, n);
    if (!(z < 4)) fail_msg("%s: counts are %g deviations from the distribution", what, z);
    free(counts);
    free(v);
}

static const fac_dtype floating[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16};
/* How much of the distributions below one value of the dtype holds. */
static const double rounding[] = {0, 0, 1e-3, 6e-3};

static fac_tensor *blank(fac_dtype d) { return fac_zeros(FAC_SHAPE(N), .dtype = d); }
static fac_tensor *constant(double x, fac_dtype d) { return fac_full(FAC_SHAPE(N), x, .dtype = d); }

/* ---- continuous fills ----------------------------------------------------------------------------------------------------------- */

static void distributions_fills_follow_their_function(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(floating); i++) {
        FAC_SCOPE(s);
        const fac_dtype d = floating[i];
        const double r = rounding[i];
        fac_manual_seed(2024 + i);
        follows(fac_normal_(blank(d), .mean = -2, .std = 3), normal_cdf, (double[]){-2, 3}, r, "normal_");
        follows(fac_uniform_(blank(d), .from = -3, .to = 5), uniform_cdf, (double[]){-3, 5}, r, "uniform_");
        follows(fac_exponential_(blank(d), .lambd = 0.7), exponential_cdf, (double[]){0.7}, r, "exponential_");
        follows(fac_cauchy_(blank(d), .median = 1, .sigma = 2), cauchy_cdf, (double[]){1, 2}, r, "cauchy_");
        follows(fac_log_normal_(blank(d), .mean = 0.5, .std = 0.75), log_normal_cdf, (double[]){0.5, 0.75}, r,
                "log_normal_");
        follows(fac_rand(FAC_SHAPE(N), .dtype = d), uniform_cdf, (double[]){0, 1}, r, "rand");
        follows(fac_randn(FAC_SHAPE(N), .dtype = d), normal_cdf, (double[]){0, 1}, r, "randn");
        follows(fac_rand_like(blank(d)), uniform_cdf, (double[]){0, 1}, r, "rand_like");
        follows(fac_randn_like(blank(d)), normal_cdf, (double[]){0, 1}, r, "randn_like");
    }
}

static void distributions_complex_numbers_have_independent_parts(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(77);
    fac_tensor *z = fac_view_as_real(fac_randn(FAC_SHAPE(N), .dtype = FAC_C64));
    follows(fac_contiguous(fac_select(z, 1, 0)), normal_cdf, (double[]){0, M_SQRT1_2}, 0, "real parts");
    follows(fac_contiguous(fac_select(z, 1, 1)), normal_cdf, (double[]){0, M_SQRT1_2}, 0, "imaginary parts");
    follows(fac_reshape(z, FAC_INTS(2 * N)), normal_cdf, (double[]){0, M_SQRT1_2}, 0, "parts side by side");
}

static void distributions_normal_takes_means_and_deviations_of_elements(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(12);
    fac_tensor *means = fac_arange(N, .dtype = FAC_F64), *stds = fac_add(fac_div(means, (double)N), 0.5);
    fac_tensor *a = fac_div(fac_sub(fac_normal_tensor_tensor(means, stds), means), stds),
               *b = fac_sub(fac_normal_tensor_float(means, .std = 2), means),
               *c = fac_div(fac_normal_float_tensor(0, stds), stds);
    follows(a, normal_cdf, (double[]){0, 1}, 0, "normal.Tensor_Tensor");
    follows(b, normal_cdf, (double[]){0, 2}, 0, "normal.Tensor_float");
    follows(c, normal_cdf, (double[]){0, 1}, 0, "normal.float_Tensor");
    follows(fac_normal(3, 0.25, FAC_SHAPE(N)), normal_cdf, (double[]){3, 0.25}, 0, "normal.float_float");
}

/* What two draws of one generator give to one element is as independent as what one gives to two. */
static void distributions_draws_are_independent(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(3);
    double *a = read_all(fac_rand(FAC_SHAPE(N), .dtype = FAC_F64), N), sum = 0;
    double *b = read_all(fac_rand(FAC_SHAPE(N), .dtype = FAC_F64), N);
    fac_manual_seed(4);
    double *c = read_all(fac_rand(FAC_SHAPE(N), .dtype = FAC_F64), N), other = 0;
    for (size_t i = 0; i < N; i++) {
        sum += (a[i] - 0.5) * (b[i] - 0.5);
        other += (a[i] - 0.5) * (c[i] - 0.5);
    }
    assert_true(fabs(12 * sum / sqrt(N)) < 4 && fabs(12 * other / sqrt(N)) < 4);
    free(a);
    free(b);
    free(c);
}

/* ---- discrete fills ------------------------------------------------------------------------------------------------------------- */

static const fac_dtype real_dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16, FAC_U8, FAC_I8, FAC_I16, FAC_I32, FAC_I64};

static void distributions_counts_of_fills(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(real_dtypes); i++) {
        FAC_SCOPE(s);
        const fac_dtype d = real_dtypes[i];
        fac_manual_seed(500 + i);
        counts_follow(fac_bernoulli_float_(blank(d), .p = 0.3), (double[]){0.7, 0}, 2, "bernoulli_.float");
        counts_follow(fac_bernoulli_tensor_(blank(d), constant(0.8, FAC_F32)), (double[]){0.2, 0}, 2,
                      "bernoulli_.Tensor");
        double p[40] = {0}, even[101], few[8];
        for (int k = 1; k < 39; k++) p[k] = 0.2 * pow(0.8, k - 1);
        counts_follow(fac_geometric_(blank(d), 0.2), p, 40, "geometric_");
        for (int k = 0; k < 101; k++) even[k] = k < 100 ? 0.01 : 0;
        counts_follow(fac_random_to_(blank(d), 100), even, 101, "random_.to");
        for (int k = 0; k < 8; k++) few[k] = k < 7 ? 1.0 / 7 : 0;
        counts_follow(
            fac_add(fac_random_from_(blank(d), d == FAC_U8 ? 3 : -3, d == FAC_U8 ? 10 : 4), d == FAC_U8 ? -3 : 3), few,
            8, "random_.from");
    }
}

/* The highest bits of what random_ gives over the whole range of a dtype are even, and so are the lowest. */
static void distributions_random_fills_the_range(void **state) {
    (void)state;
    static const struct {
        fac_dtype dtype;
        double values;
    } cases[] = {{FAC_BOOL, 2},     {FAC_U8, 256},   {FAC_I8, 128},   {FAC_I16, 32768},      {FAC_I32, 0x1p31},
                 {FAC_I64, 0x1p63}, {FAC_F16, 2049}, {FAC_BF16, 257}, {FAC_F32, 0x1p24 + 1}, {FAC_F64, 0x1p53 + 1}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const size_t bins = cases[i].values < 16 ? 2 : 16;
        fac_manual_seed(90 + i);
        double *v = read_all(fac_random_(blank(cases[i].dtype)), N), counts[16] = {0}, expected[16];
        for (size_t k = 0; k < N; k++) {
            assert_true(v[k] >= 0 && v[k] <= cases[i].values);
            counts[(size_t)fmin((double)bins - 1, floor(v[k] / cases[i].values * (double)bins))]++;
        }
        for (size_t k = 0; k < bins; k++)
            expected[k] = (floor((double)(k + 1) * cases[i].values / (double)bins) -
                           floor((double)k * cases[i].values / (double)bins)) /
                          cases[i].values * N;
        if (cases[i].values == 2049 || cases[i].values == 257) /* one value more than the bins divide */
            for (size_t k = 0; k < bins; k++)
                expected[k] = (ceil((double)(k + 1) * cases[i].values / (double)bins) -
                               ceil((double)k * cases[i].values / (double)bins)) /
                              cases[i].values * N;
        const double z = chi_square(counts, expected, bins);
        if (!(z < 4)) fail_msg("random_ of dtype %s: %g deviations", fac_dtype_name(cases[i].dtype), z);
        free(v);
    }
}

static void distributions_randint_and_its_generators(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_generator *g = fac_generator_new(31);
    double six[7] = {1 / 6., 1 / 6., 1 / 6., 1 / 6., 1 / 6., 1 / 6.};
    fac_tensor *like = blank(FAC_I32);
#define SIX(t) counts_follow((t), (double[]){six[0], six[1], six[2], six[3], six[4], six[5], 0}, 7, #t)
    SIX(fac_randint(6, FAC_SHAPE(N)));
    SIX(fac_randint_low(0, 6, FAC_SHAPE(N)));
    SIX(fac_randint_generator(6, FAC_SHAPE(N), g));
    SIX(fac_add(fac_randint_low_generator(-2, 4, FAC_SHAPE(N), g), 2));
    SIX(fac_randint_like(like, 6));
    SIX(fac_add(fac_randint_like_low(like, 10, 16), -10));
    SIX(fac_randint_like_generator(like, 6, g));
    SIX(fac_add(fac_randint_like_low_generator(like, 1, 7, g), -1));
#undef SIX
    follows(fac_rand_like_generator(blank(FAC_F32), g), uniform_cdf, (double[]){0, 1}, 0, "rand_like.generator");
    follows(fac_randn_like_generator(blank(FAC_F64), g), normal_cdf, (double[]){0, 1}, 0, "randn_like.generator");
    uint64_t offset;
    fac_generator_get_state(g, NULL, &offset);
    assert_int_equal(offset, 6);
    fac_generator_set_state(g, 31, 0);
    fac_tensor *first = fac_randint_generator(1000, FAC_SHAPE(50), g);
    fac_generator_set_state(g, 31, 0);
    assert_true(
        fac_equal(first, fac_randint_like_low_generator(fac_zeros(FAC_SHAPE(50), .dtype = FAC_I64), 0, 1000, g)));
    fac_generator_release(g);
}

static void distributions_permutations_are_even(void **state) {
    (void)state;
    double counts[256] = {0}, expected[256] = {0};
    size_t made = 0;
    fac_generator *g = fac_generator_new(8);
    for (int i = 0; i < 12000; i++) {
        FAC_SCOPE(s);
        int64_t p[4];
        assert_ok(fac_tensor_read(fac_randperm_generator(4, g), FAC_I64, p, 4));
        counts[p[0] * 64 + p[1] * 16 + p[2] * 4 + p[3]]++;
    }
    for (size_t i = 0; i < 256; i++) {
        const size_t p[4] = {i / 64, i / 16 % 4, i / 4 % 4, i % 4};
        const bool is_one = (1u << p[0] | 1u << p[1] | 1u << p[2] | 1u << p[3]) == 15;
        expected[i] = is_one ? 12000 / 24. : 0;
        made += is_one && counts[i] > 0;
    }
    assert_int_equal(made, 24);
    assert_true(chi_square(counts, expected, 256) < 4);
    fac_generator_release(g);
}

/* ---- multinomial and dropout ---------------------------------------------------------------------------------------------------- */

static void distributions_multinomial_with_and_without_replacement(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(floating); i++) {
        FAC_SCOPE(s);
        const double w[5] = {1, 0, 2, 4, 1};
        fac_manual_seed(40 + i);
        fac_tensor *row = fac_to_dtype(fac_tensor_from(w, FAC_F64, FAC_INTS(5)), floating[i]);
        counts_follow(fac_multinomial(row, N, .replacement = true), (double[]){0.125, 0, 0.25, 0.5, 0.125, 0}, 6,
                      "multinomial");
        fac_tensor *rows = fac_contiguous(fac_expand(row, FAC_INTS(20000, 5)));
        double *v = read_all(fac_multinomial(rows, 2), 40000), counts[25] = {0}, expected[25];
        for (size_t k = 0; k < 20000; k++) counts[(size_t)v[2 * k] * 5 + (size_t)v[2 * k + 1]]++;
        for (size_t k = 0; k < 25; k++)
            expected[k] = k / 5 == k % 5 ? 0 : 20000 * w[k / 5] / 8 * w[k % 5] / (8 - w[k / 5]);
        assert_true(chi_square(counts, expected, 25) < 4);
        free(v);
    }
}

static void distributions_dropout_keeps_with_its_probability(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(floating); i++) {
        FAC_SCOPE(s);
        fac_manual_seed(60 + i);
        fac_native_dropout_result r = fac_native_dropout(constant(1, floating[i]), 0.35, true);
        counts_follow(r.result1, (double[]){0.35, 0}, 2, "native_dropout");
        assert_true(fac_equal(fac_ne(r.result0, 0), r.result1));
    }
}

/* ---- numbers with parameters of their own --------------------------------------------------------------------------------------- */

static void distributions_poisson_follows_its_rate(void **state) {
    (void)state;
    static const double rates[] = {0.05, 1, 4.5, 9.99, 10, 25, 300};
    for (size_t i = 0; i < FAC_COUNT(floating); i++)
        for (size_t k = 0; k < FAC_COUNT(rates); k++) {
            FAC_SCOPE(s);
            double p[480] = {0}, x;
            if (rates[k] == 300 && i >= 2) continue; /* halves have not every number there */
            fac_tensor *rate = constant(rates[k], floating[i]);
            assert_ok(fac_tensor_read(fac_narrow(rate, 0, 0, 1), FAC_F64, &x, 1));
            for (int n = 0; n < 479; n++) p[n] = exp(n * log(x) - x - lgamma(n + 1.0));
            fac_manual_seed(700 + 10 * i + k);
            counts_follow(fac_poisson(rate), p, 480, "poisson");
        }
}

/* Of a large rate the numbers are nearly normal, and their moments exact. */
static void distributions_poisson_of_large_rates(void **state) {
    (void)state;
    static const double rates[] = {1e6, 1e12, 1e15};
    for (size_t k = 0; k < FAC_COUNT(rates); k++) {
        FAC_SCOPE(s);
        fac_manual_seed(7 + k);
        follows(fac_poisson(constant(rates[k], FAC_F64)), normal_cdf, (double[]){rates[k], sqrt(rates[k])}, 1.5e-3,
                "poisson");
    }
    FAC_SCOPE(s);
    assert_true(fac_item(fac_max(fac_poisson(constant(0, FAC_F32)))) == 0);
    assert_true(isinf(fac_item(fac_poisson(fac_full(FAC_SHAPE(1), INFINITY)))));
    assert_null(fac_poisson(fac_tensor_of(1, -0.5)));
    assert_error(FAC_ERR_ARGUMENT, "invalid Poisson rate, expected it to be non-negative, but got -0.5");
    assert_null(fac_poisson(fac_tensor_of(NAN)));
    assert_error(FAC_ERR_ARGUMENT, "invalid Poisson rate");
    assert_null(fac_poisson(fac_arange(3)));
    assert_error(FAC_ERR_DTYPE, "self should be floating");
}

static void distributions_binomial_follows_count_and_probability(void **state) {
    (void)state;
    static const double cases[][2] = {{1, 0.3},   {10, 0.5},   {40, 0.05},       {60, 0.25},
                                      {100, 0.5}, {90, 0.875}, {200, 0.99609375}};
    for (size_t i = 0; i < FAC_COUNT(floating); i++)
        for (size_t k = 0; k < FAC_COUNT(cases); k++) {
            FAC_SCOPE(s);
            double p[202] = {0}, x;
            const double n = cases[k][0];
            fac_tensor *prob = constant(cases[k][1], floating[i]);
            assert_ok(fac_tensor_read(fac_narrow(prob, 0, 0, 1), FAC_F64, &x, 1));
            for (int j = 0; j <= (int)n; j++)
                p[j] = exp(lgamma(n + 1) - lgamma(j + 1.0) - lgamma(n - j + 1) + j * log(x) + (n - j) * log1p(-x));
            fac_manual_seed(900 + 10 * i + k);
            counts_follow(fac_binomial(constant(n, floating[i]), prob), p, (size_t)n + 2, "binomial");
        }
}

static void distributions_binomial_at_its_edges(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    assert_values(fac_binomial(fac_tensor_of(-3, 5, 5, 5.5, 0), fac_tensor_of(0.5, -1, 2, 1, 0.5)), 0, 0, 5, 5, 0);
    assert_true(isnan(fac_item(fac_binomial(fac_tensor_of(3), fac_tensor_of(NAN)))));
    follows(fac_binomial(constant(1e12, FAC_F64), fac_full(FAC_SHAPE(), 0.25, .dtype = FAC_F64)), normal_cdf,
            (double[]){0.25e12, sqrt(0.1875e12)}, 1.5e-3, "binomial");
    fac_ints sizes = fac_tensor_sizes(fac_binomial(fac_ones(FAC_SHAPE(3, 1)), fac_ones(FAC_SHAPE(2))));
    assert_true(sizes.n == 2 && sizes.v[0] == 3 && sizes.v[1] == 2);
    assert_null(fac_binomial(fac_ones(FAC_SHAPE(3)), fac_ones(FAC_SHAPE(3), .dtype = FAC_F64)));
    assert_error(FAC_ERR_DTYPE, "Found dtype float64 but expected float32");
    assert_null(fac_binomial(fac_arange(3), fac_arange(3)));
    assert_error(FAC_ERR_DTYPE, "binomial only supports floating-point dtypes for count, got: int64");
}

static void distributions_gamma_follows_its_shape(void **state) {
    (void)state;
    static const double shapes[] = {0.125, 0.75, 1, 1.5, 10, 200};
    for (size_t i = 0; i < FAC_COUNT(floating); i++)
        for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
            FAC_SCOPE(s);
            fac_manual_seed(1100 + 10 * i + k);
            fac_tensor *x = fac_standard_gamma(constant(shapes[k], floating[i]));
            follows(x, gamma_cdf, &shapes[k],
                    i < 2                     ? (shapes[k] < 0.5 ? 1e-6 : 0)
                    : i == 2 && shapes[k] < 1 ? 0.4
                                              : 0.05,
                    "gamma");
        }
    FAC_SCOPE(s);
    double v[4];
    assert_ok(fac_tensor_read(fac_standard_gamma(fac_tensor_of(0, INFINITY, -1, NAN)), FAC_F64, v, 4));
    assert_true(v[0] == 0x1p-126 && isinf(v[1]) && isnan(v[2]) && isnan(v[3]));
}

/* Elements of Dirichlet points are beta numbers; rows sum to one; and small concentrations do not end as zeros. */
static void distributions_dirichlet_has_beta_margins(void **state) {
    (void)state;
    static const double concentrations[][3] = {{0.5, 1.5, 3}, {20, 2, 7}, {0.1, 0.2, 0.3}};
    for (size_t k = 0; k < FAC_COUNT(concentrations); k++)
        for (size_t i = 0; i < 2; i++) {
            FAC_SCOPE(s);
            const double *a = concentrations[k], total = a[0] + a[1] + a[2];
            fac_tensor *row = fac_to_dtype(fac_tensor_from(a, FAC_F64, FAC_INTS(3)), floating[i]);
            fac_manual_seed(60 + 3 * k + i);
            fac_tensor *x = fac_sample_dirichlet(fac_contiguous(fac_expand(row, FAC_INTS(100000, 3))));
            assert_true(fac_allclose(fac_sum(x, 1), fac_ones(FAC_SHAPE(100000), .dtype = floating[i]), .rtol = 1e-5));
            for (int64_t c = 0; c < 3; c++)
                follows(fac_contiguous(fac_select(x, 1, c)), beta_cdf, (double[]){a[c], total - a[c]},
                        a[0] < 0.5 ? 1e-3 : 1e-5, "dirichlet");
        }
    FAC_SCOPE(s);
    fac_tensor *x = fac_sample_dirichlet(fac_full(FAC_SHAPE(1000, 4), 1e-5, .dtype = FAC_F64));
    assert_true(fac_item(fac_min(x)) > 0 && fac_item(fac_max(x)) < 1);
    assert_true(fabs(fac_item(fac_mean(fac_amax(x, .dim = 1))) - 1) < 1e-3);
}

/* ---- derivatives ---------------------------------------------------------------------------------------------------------------- */

/* Made with mpmath, by numerical differentiation of its incomplete functions at 40 digits. */
static const double gamma_slopes[][3] = {
    {0.01, 1e-30, 6.85166673319527e-27}, {0.01, 0.5, 46.679279405150682},  {0.3, 0.02, 0.25419430208458901},
    {0.3, 4, 4.4243438508123207},        {1, 0.5, 0.80697911682531802},    {1, 1, 1.1735630272247269},
    {2.5, 2, 0.9534627029186165},        {2.5, 9, 1.891711800090848},      {7, 7, 1.0241206362551834},
    {7, 30, 1.9413257279714352},         {50, 40, 0.89554970274607532},    {50, 70, 1.1815725627654056},
    {1000, 950, 0.97473502369716372},    {1000, 1100, 1.0485866785616168}, {250000, 249000, 0.99799799331862709},
    {250000, 251500, 1.0029946865976074}};
static const double beta_slopes[][4] = {
    {0.001, 0.5, 1.5, 0.013829339897862136},   {0.3, 0.5, 1.5, 1.0319766894222308},
    {0.7, 0.5, 1.5, 1.6644830717140844},       {0.999, 0.5, 1.5, 1.9989996664998999},
    {0.2, 3, 5, 0.12166898183010264},          {0.6, 3, 5, 0.22619261633911859},
    {0.95, 3, 5, 0.28459747061329859},         {0.02, 0.01, 5, 4.2487190520750028},
    {0.4, 20, 50, 0.020302607269723258},       {0.55, 20, 50, 0.02371909659226495},
    {0.1, 1, 100, 0.029877860915458138},       {0.99, 100, 101, 0.0099498324949664267},
    {0.5, 500, 1000, 0.0010006669332569906},   {0.52, 500, 1000, 0.0010204219689847758},
    {0.0001, 0.05, 200, 0.0070014334027227819}};

static double call_number(const char *op, const double *v, size_t n) {
    FAC_SCOPE(s);
    fac_value args[3], out = fac_value_none();
    for (size_t i = 0; i < n; i++) args[i] = fac_value_tensor(fac_tensor_from(&v[i], FAC_F64, FAC_INTS(1)));
    assert_ok(fac_call(op, args, n, &out));
    const double x = fac_item(fac_value_as_tensor(out));
    for (size_t i = 0; i < n; i++) fac_value_release(&args[i]);
    fac_value_release(&out);
    return x;
}

static void distributions_slopes_of_gamma_and_dirichlet_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(gamma_slopes); i++) {
        const double *c = gamma_slopes[i], x = call_number("aten::_standard_gamma_grad", c, 2);
        if (!(fabs(x / c[2] - 1) < 1e-11))
            fail_msg("gamma slope of (%g, %g): %.17g, expected %.17g", c[0], c[1], x, c[2]);
    }
    for (size_t i = 0; i < FAC_COUNT(beta_slopes); i++) {
        const double *c = beta_slopes[i], x = call_number("aten::_dirichlet_grad", c, 3);
        if (!(fabs(x / c[3] - 1) < 1e-10))
            fail_msg("beta slope of (%g, %g, %g): %.17g, expected %.17g", c[0], c[1], c[2], x, c[3]);
    }
}

/* The mean of f(x) moves with the parameter as the mean of f'(x) times the slope: E x = a, and E log x of a gamma number moves by
   the trigamma function, 0.6449 at 1 + 0.6449... ; of a Dirichlet point E x_i = a_i / total. */
static void distributions_gradients_of_means_are_those_of_the_parameters(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(15);
    fac_tensor *a = fac_set_requires_grad(fac_full(FAC_SHAPE(), 2.5, .dtype = FAC_F64), true);
    assert_ok(fac_backward(fac_mean(fac_standard_gamma(fac_expand(a, FAC_INTS(N))))));
    assert_true(fabs(fac_item(fac_grad_of(a)) - 1) < 0.01);
    fac_tensor *c = fac_set_requires_grad(fac_to_dtype(fac_tensor_of(1, 2, 5), FAC_F64), true);
    fac_tensor *x = fac_sample_dirichlet(fac_expand(c, FAC_INTS(N, 3)));
    assert_ok(fac_backward(fac_mean(fac_select(x, 1, 1))));
    double g[3];
    assert_ok(fac_tensor_read(fac_grad_of(c), FAC_F64, g, 3));
    assert_true(fabs(g[0] + 2 / 64.) < 1e-3 && fabs(g[1] - 6 / 64.) < 1e-3 && fabs(g[2] + 2 / 64.) < 1e-3);
}

/* ---- where numbers come from ---------------------------------------------------------------------------------------------------- */

static void distributions_do_not_depend_on_threads_or_strides(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *rates = fac_mul(fac_rand(FAC_SHAPE(61, 97), .dtype = FAC_F64), 30),
               *turned = fac_t(fac_contiguous(fac_t(rates)));
    fac_tensor *first[3] = {NULL};
    const int were = fac_num_threads();
    for (int n = 1; n <= 4; n++) {
        assert_ok(fac_set_num_threads(n));
        fac_manual_seed(19);
        fac_tensor *in = n % 2 ? rates : turned;
        fac_tensor *now[3] = {fac_poisson(in), fac_standard_gamma(in), fac_sample_dirichlet(in)};
        for (int k = 0; k < 3; k++) {
            if (!first[k]) first[k] = now[k];
            assert_true(fac_equal(first[k], now[k]));
        }
    }
    assert_ok(fac_set_num_threads(were));
    assert_int_equal(fac_tensor_numel(fac_poisson(fac_zeros(FAC_SHAPE(0, 3)))), 0);
    assert_int_equal(fac_tensor_numel(fac_sample_dirichlet(fac_zeros(FAC_SHAPE(3, 0)))), 0);
}

/* A kernel for the key CustomRNG, which counts up from the generator's offset. */
static fac_status count_up(const fac_call_info *c, fac_value *stack) {
    FAC_SCOPE(s);
    uint64_t seed, offset;
    fac_generator *g = fac_value_as_generator(stack[3]);
    fac_tensor *t = fac_value_as_tensor(stack[0]);
    fac_generator_get_state(g, &seed, &offset);
    fac_fill_(t, (double)offset);
    fac_generator_set_state(g, seed, offset + 1);
    ++*(int *)c->context;
    return fac_error(); /* the result is the first argument, which stays where it is */
}

static fac_status count_up_owned(const fac_call_info *c, fac_value *stack) {
    const fac_value self = fac_value_copy(stack[0]);
    const fac_status st = count_up(c, stack);
    stack[0] = self;
    return st;
}

static void S093_a_users_generator_steers_random_operators(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int calls = 0;
    fac_registration *r = fac_register_boxed("aten::uniform_", "CustomRNG", count_up_owned, &calls, FAC_HERE);
    assert_non_null(r);
    fac_generator *mine = fac_generator_new(5), *plain = fac_generator_new(5);
    assert_ok(fac_generator_set_custom(mine, true));
    fac_tensor *t = fac_zeros(FAC_SHAPE(2));
    assert_ptr_equal(fac_uniform_(t, .generator = mine), t);
    assert_values(t, 0, 0);
    assert_values(fac_rand_generator(FAC_SHAPE(2), mine), 1, 1);
    assert_values(fac_rand_like_generator(t, mine), 2, 2);
    assert_int_equal(calls, 3);
    /* others, and operators without such a kernel, are as ever */
    fac_tensor *other = fac_uniform_(fac_zeros(FAC_SHAPE(2)), .generator = plain);
    assert_int_equal(calls, 3);
    fac_generator_set_state(mine, 5, 0);
    fac_generator_set_state(plain, 5, 0);
    assert_true(fac_equal(fac_normal_(fac_zeros(FAC_SHAPE(9)), .generator = mine),
                          fac_normal_(fac_zeros(FAC_SHAPE(9)), .generator = plain)));
    assert_ok(fac_generator_set_custom(mine, false));
    fac_generator_set_state(mine, 5, 0);
    assert_true(fac_equal(fac_uniform_(fac_zeros(FAC_SHAPE(2)), .generator = mine), other));
    assert_int_equal(fac_generator_set_custom(NULL, true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the generator is NULL");
    fac_registration_release(r);
    fac_generator_release(mine);
    fac_generator_release(plain);
    fac_scope_end(&s);
    fac_shutdown(); /* retired registrations live until then */
    assert_ok(fac_init());
}

FAC_TEST_MAIN(
    FAC_TEST(distributions_fills_follow_their_function), FAC_TEST(distributions_complex_numbers_have_independent_parts),
    FAC_TEST(distributions_normal_takes_means_and_deviations_of_elements),
    FAC_TEST(distributions_draws_are_independent), FAC_TEST(distributions_counts_of_fills),
    FAC_TEST(distributions_random_fills_the_range), FAC_TEST(distributions_randint_and_its_generators),
    FAC_TEST(distributions_permutations_are_even), FAC_TEST(distributions_multinomial_with_and_without_replacement),
    FAC_TEST(distributions_dropout_keeps_with_its_probability), FAC_TEST(distributions_poisson_follows_its_rate),
    FAC_TEST(distributions_poisson_of_large_rates), FAC_TEST(distributions_binomial_follows_count_and_probability),
    FAC_TEST(distributions_binomial_at_its_edges), FAC_TEST(distributions_gamma_follows_its_shape),
    FAC_TEST(distributions_dirichlet_has_beta_margins), FAC_TEST(distributions_slopes_of_gamma_and_dirichlet_numbers),
    FAC_TEST(distributions_gradients_of_means_are_those_of_the_parameters),
    FAC_TEST(distributions_do_not_depend_on_threads_or_strides),
    FAC_TEST(S093_a_users_generator_steers_random_operators))
