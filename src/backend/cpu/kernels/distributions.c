/* Draws whose parameters are elements: Poisson, binomial, gamma and Dirichlet numbers, and the derivatives of the last two by their
   parameters. Samplers compute in double precision. Element i reads the blocks (i, attempt) of its draw, as many as it needs, so that
   what is drawn depends neither on threads nor on what other elements reject (core/philox.h).

   sources: Marsaglia, Tsang 2000, "A simple method for generating gamma variables"; Hörmann 1993, "The transformed rejection method for
   generating Poisson random variables" (PTRS) and "The generation of binomial random variates" (BTRS); inversion where means are
   below 10. Derivatives: series of positive terms of the incomplete gamma and beta functions, differentiated term by term. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/generator.h"
#include "core/philox.h"
#include "ops_gen.h"
#include <float.h>
#include <math.h>

#define HALF_LOG_2PI 0.91893853320467274178

/* ---- random bits of one element ------------------------------------------------------------------------------------------------ */

typedef struct stream {
    fac_draw drawn;
    uint64_t index;
    uint32_t attempt;
    fac_philox_block block;
    int left; /* pairs of words in the block that are not used yet */
} stream;

static stream stream_of(fac_draw drawn, int64_t i) { return (stream){.drawn = drawn, .index = (uint64_t)i}; }

static uint64_t next_bits(stream *s) {
    if (!s->left) {
        s->block = fac__philox_at(s->drawn.seed, s->drawn.offset, s->index, s->attempt++ & 0xffffu);
        s->left = 2;
    }
    s->left--;
    return (uint64_t)s->block.word[2 * s->left + 1] << 32 | s->block.word[2 * s->left];
}

static double next_uniform(stream *s) { return fac__uniform_f64(next_bits(s)); }   /* in [0, 1) */
static double next_open(stream *s) { return fac__uniform_open_f64(next_bits(s)); } /* in (0, 1] */

static double next_normal(stream *s) {
    double pair[2];
    const uint64_t a = next_bits(s), b = next_bits(s);
    fac__normal_pair_f64(a, b, pair);
    return pair[0];
}

/* ---- samplers ------------------------------------------------------------------------------------------------------------------ */

/* What Stirling's series leaves: log k! - ((k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2), k whole. */
static double stirling_rest(double k) {
    static const double factorials[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880};
    const double z = k + 1;
    if (k < 10) return log(factorials[(int)k]) - ((k + 0.5) * log(z) - z + HALF_LOG_2PI);
    const double w = 1 / (z * z);
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - w / 1680) * w) * w) / z;
}

/* Counts on from zero until the probabilities that have passed exceed a uniform number; next[k] / next[k - 1] is a ratio. */
static double poisson_by_inversion(stream *s, double rate) {
    double u = next_uniform(s), p = exp(-rate), k = 0;
    while (u >= p && k < 1000) {
        u -= p;
        k++;
        p *= rate / k;
    }
    return k;
}

/* log of the probability of k: by log1p, since rate and k are large and near to each other. */
static double poisson_log(double rate, double k) {
    if (k < 10) return k * log(rate) - rate - ((k + 0.5) * log(k + 1) - (k + 1) + HALF_LOG_2PI + stirling_rest(k));
    const double more = (rate - k) / k, w = 1 / (k * k);
    return k * (log1p(more) - more) - 0.5 * log(k) - HALF_LOG_2PI - (1.0 / 12 - (1.0 / 360 - w / 1260) * w) / k;
}

static double poisson_by_rejection(stream *s, double rate) {
    const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4),
                 sure = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = next_uniform(s) - 0.5, v = next_open(s), us = 0.5 - fabs(u),
                     k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= sure) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v * inverse / (a / (us * us) + b)) <= poisson_log(rate, k)) return k;
    }
}

static double sample_poisson(stream *s, double rate, double unused) {
    (void)unused;
    if (rate == 0 || isinf(rate)) return rate;
    return rate < 10 ? poisson_by_inversion(s, rate) : poisson_by_rejection(s, rate);
}

static double binomial_by_inversion(stream *s, double n, double p) {
    double u = next_uniform(s), q = exp(n * log1p(-p)), k = 0;
    while (u >= q && k < n) {
        u -= q;
        q *= (n - k) / (k + 1) * (p / (1 - p));
        k++;
        if (q < DBL_MIN) break;
    }
    return k;
}

static double binomial_by_rejection(stream *s, double n, double p) {
    const double deviation = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p,
                 centre = n * p + 0.5, sure = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation,
                 mode = floor((n + 1) * p);
    const double at_mode =
        (mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1))) + stirling_rest(mode) + stirling_rest(n - mode);
    for (;;) {
        const double u = next_uniform(s) - 0.5, v = next_open(s), us = 0.5 - fabs(u),
                     k = floor((2 * a / us + b) * u + centre);
        if (k < 0 || k > n) continue;
        if (us >= 0.07 && v <= sure) return k;
        const double bound = at_mode + (n + 1) * log((n - mode + 1) / (n - k + 1)) +
                             (k + 0.5) * log((n - k + 1) * odds / (k + 1)) - stirling_rest(k) - stirling_rest(n - k);
        if (log(v * alpha / (a / (us * us) + b)) <= bound) return k;
    }
}

static double sample_binomial(stream *s, double count, double p) {
    if (isnan(count) || isnan(p)) return NAN;
    const double n = floor(count);
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1 || isinf(n)) return n;
    const double rare = fmin(p, 1 - p),
                 k = n * rare < 10 ? binomial_by_inversion(s, n, rare) : binomial_by_rejection(s, n, rare);
    return p <= 0.5 ? k : n - k;
}

/* Of a shape of 1 or more. */
static double large_gamma(stream *s, double shape) {
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = next_normal(s), y = 1 + c * x, v = y * y * y;
        if (y <= 0) continue;
        const double u = next_open(s), square = x * x;
        if (u < 1 - 0.0331 * square * square || log(u) < 0.5 * square + d * (1 - v + log(v))) return d * v;
    }
}

/* The logarithm of a gamma number, which may be below all numbers. */
static double log_gamma_number(stream *s, double shape) {
    if (shape >= 1) return log(large_gamma(s, shape));
    const double large = large_gamma(s, shape + 1);
    return log(large) + log(next_open(s)) / shape;
}

static double sample_gamma(stream *s, double shape, double unused) {
    (void)unused;
    if (!(shape > 0) || isinf(shape)) return shape < 0 ? NAN : shape;
    if (shape >= 1) return large_gamma(s, shape);
    const double large = large_gamma(s, shape + 1);
    return large * pow(next_open(s), 1 / shape);
}

/* ---- derivatives --------------------------------------------------------------------------------------------------------------- */

/* The logarithmic derivative of the gamma function, x > 0: by recurrence to 10, then the asymptotic series. */
static double digamma(double x) {
    double before = 0;
    for (; x < 10; x++) before -= 1 / x;
    const double w = 1 / (x * x);
    const double series =
        w * (1.0 / 12 -
             w * (1.0 / 120 - w * (1.0 / 252 - w * (1.0 / 240 - w * (1.0 / 132 - w * (691.0 / 32760 - w / 12))))));
    return before + log(x) - 0.5 / x - series;
}

enum { MOST_TERMS = 200000 };

/* -(dP/da) / (dP/dx), P(a, x) the lower incomplete gamma function: x sum of t_n (digamma(a + n + 1) - log x),
   t_n = x^n / (a (a + 1) ... (a + n)). Every term is positive for x <= a. */
static double gamma_slope_below(double a, double x) {
    const double log_x = log(x);
    double term = 1 / a, psi = digamma(a + 1), sum = 0;
    for (int n = 1; n < MOST_TERMS; n++) {
        const double more = term * (psi - log_x);
        sum += more;
        if (fabs(more) < 1e-17 * fabs(sum) && x < a + n) break;
        term *= x / (a + n);
        psi += 1 / (a + n);
    }
    return x * sum;
}

/* The same by the upper function: x (h (log x - digamma(a)) + dh/da) with h = Gamma(a, x) e^x x^-a, the continued fraction
   1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), evaluated by Lentz's way together with its derivative. */
static double gamma_slope_above(double a, double x) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    double dc = 0, dd = d * d, dh = dd; /* derivatives by a; db = -1 throughout */
    for (int n = 1; n < MOST_TERMS; n++) {
        const double an = -n * (n - a), dan = n;
        b += 2;
        const double old_d = d, next = b + an * d, dnext = -1 + dan * old_d + an * dd;
        d = 1 / next;
        dd = -dnext * d * d;
        const double old_c = c;
        c = b + an / old_c;
        dc = -1 + dan / old_c - an * dc / (old_c * old_c);
        const double factor = c * d, dfactor = dc * d + c * dd;
        dh = dh * factor + h * dfactor;
        h *= factor;
        if (fabs(factor - 1) < 1e-16 && fabs(dfactor * h) < 1e-15 * fabs(dh)) break;
    }
    return x * (h * (log(x) - digamma(a)) + dh);
}

/* Of a large shape the quantile is a + z sqrt a + (z^2 - 1) / 3 + (z^3 - 7 z) / (36 sqrt a) - (3 z^4 + 7 z^2 - 16) / (810 a)
   (Cornish and Fisher); z is found of x, and held while a moves. */
static double gamma_slope_large(double a, double x) {
    const double root = sqrt(a), y = (x - a) / root;
    double z = y;
    for (int i = 0; i < 8; i++) {
        const double value = z + (z * z - 1) / (3 * root) + z * (z * z - 7) / (36 * a) -
                             (z * z * (3 * z * z + 7) - 16) / (810 * a * root),
                     slope = 1 + 2 * z / (3 * root) + (3 * z * z - 7) / (36 * a);
        z -= (value - y) / slope;
    }
    return 1 + z / (2 * root) - z * (z * z - 7) / (72 * a * root) + (z * z * (3 * z * z + 7) - 16) / (810 * a * a);
}

static double gamma_rate(double a, double x) {
    if (!(a > 0) || !(x >= 0) || isinf(x) || isinf(a)) return NAN;
    if (x == 0) return 0;
    if (a > 1e5 && fabs(x - a) < 30 * sqrt(a)) return gamma_slope_large(a, x);
    return x <= a + 1 ? gamma_slope_below(a, x) : gamma_slope_above(a, x);
}

/* -(dI/da) / (dI/dx) / (1 - x), I the incomplete beta function of (a, b) at x, b held: for x up to 1/2 from the series
   x sum of s_n (digamma(a + n + 1) - digamma(a + b + n) - log x), s_n = x^n (a + b)_n / (a (a + 1)_n). */
static double beta_slope_low(double a, double b, double x) {
    const double log_x = log(x);
    double term = 1 / a, psi = digamma(a + 1) - digamma(a + b), sum = 0;
    for (int n = 1; n < MOST_TERMS; n++) {
        const double more = term * (psi - log_x);
        sum += more;
        if (fabs(more) < 1e-17 * fabs(sum) && x * (a + b + n) < a + n) break;
        term *= x * (a + b + n - 1) / (a + n);
        psi += 1 / (a + n) - 1 / (a + b + n - 1);
    }
    return x * sum;
}

/* For larger x from that of 1 - I, in y = 1 - x: x sum of s_n (log x - digamma(a) + digamma(a + b + n)), s_n as above of (b, a, y). */
static double beta_slope_high(double a, double b, double x) {
    const double y = 1 - x, log_x = log(x), psi_a = digamma(a);
    double term = 1 / b, psi = digamma(a + b), sum = 0;
    for (int n = 1; n < MOST_TERMS; n++) {
        const double more = term * (log_x - psi_a + psi);
        sum += more;
        if (fabs(more) < 1e-17 * fabs(sum) && y * (a + b + n) < b + n) break;
        term *= y * (a + b + n - 1) / (b + n);
        psi += 1 / (a + b + n - 1);
    }
    return x * sum;
}

static double dirichlet_slope(double x, double a, double total) {
    const double b = total - a;
    if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1) || isinf(total)) return NAN;
    if (x == 0) return 0;
    return x <= 0.5 ? beta_slope_low(a, b, x) : beta_slope_high(a, b, x);
}

/* ---- over tensors -------------------------------------------------------------------------------------------------------------- */

enum { INPUTS = 3 };

/* Elements in row-major order; in[i] NULL: none. One of the two functions is given. */
typedef struct job {
    const char *in[INPUTS];
    char *out;
    fac_dtype dtype;
    fac_draw drawn;
    double (*sample)(stream *s, double a, double b);
    double (*compute)(double a, double b, double c);
    const char *rates; /* the first input should not be below zero, and is called this; or NULL */
    double least;      /* results of positive parameters are not below */
} job;

static fac_status check_rates(const job *j, const double *v, int64_t n) {
    for (int64_t i = 0; i < n && j->rates; i++)
        FAC_CHECK(v[i] >= 0, FAC_ERR_ARGUMENT, "invalid %s, expected it to be non-negative, but got %g", j->rates,
                  v[i]);
    return FAC_OK;
}

static void fill_tile(const job *j, int64_t begin, int64_t n, double in[INPUTS][FAC_TILE], double *out) {
    for (int64_t i = 0; i < n; i++) {
        const double a = in[0][i], b = in[1][i];
        stream s = stream_of(j->drawn, begin + i);
        out[i] = j->sample ? j->sample(&s, a, b) : j->compute(a, b, in[2][i]);
        if (out[i] < j->least && a >= 0) out[i] = j->least;
    }
}

static fac_status fill_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t item = fac__dtype_size(j->dtype);
    double in[INPUTS][FAC_TILE], out[FAC_TILE];
    for (int64_t i = begin; i < end; i += FAC_TILE) {
        const int64_t n = fac__min(FAC_TILE, end - i);
        for (int k = 0; k < INPUTS; k++)
            if (j->in[k])
                fac__tile_load(FAC_ACC_F64, in[k], j->in[k] + i * item, j->dtype, 1, n);
            else
                memset(in[k], 0, (size_t)n * sizeof *in[k]);
        FAC_TRY(check_rates(j, in[0], n));
        fill_tile(j, i, n, in, out);
        fac__tile_store(FAC_ACC_F64, out, j->out + i * item, j->dtype, 1, n);
    }
    return FAC_OK;
}

/* Fills s->out[0], which is row-major; inputs may lie as they like. */
static fac_status fill(fac_structured *s, job *j, fac_tensor *const *inputs, int n) {
    enum { GRAIN = 1024 }; /* a number takes some 50 ns */
    fac_tensor *rows[INPUTS] = {NULL};
    fac_status st = FAC_OK;
    j->out = fac__data(s->out[0]);
    j->dtype = (fac_dtype)s->out[0]->dtype;
    for (int i = 0; i < n && !st; i++) {
        st = fac__cpu_contiguous(inputs[i], &rows[i]);
        if (!st) j->in[i] = fac__data(rows[i]);
    }
    if (!st) st = fac__parallel_for(0, s->out[0]->numel, GRAIN, fill_range, j);
    for (int i = 0; i < n; i++) fac__unref(rows[i]);
    return st;
}

/* The smallest normal number of a dtype: logarithms of results should be finite. */
static double least_of(fac_dtype d) { return d == FAC_F64 ? DBL_MIN : d == FAC_F16 ? 0x1p-14 : FLT_MIN; }

fac_status poisson_cpu(fac_structured *s, fac_tensor *self, fac_draw drawn) {
    job j = {.drawn = drawn, .sample = sample_poisson, .rates = "Poisson rate", .least = -1};
    return fill(s, &j, (fac_tensor *[]){self}, 1);
}

fac_status standard_gamma_cpu(fac_structured *s, fac_tensor *self, fac_draw drawn) {
    job j = {.drawn = drawn, .sample = sample_gamma, .least = least_of((fac_dtype)self->dtype)};
    return fill(s, &j, (fac_tensor *[]){self}, 1);
}

static double gamma_slope_of(double a, double x, double unused) { return (void)unused, gamma_rate(a, x); }

fac_status standard_gamma_grad_cpu(fac_structured *s, fac_tensor *self, fac_tensor *output) {
    job j = {.compute = gamma_slope_of, .least = -INFINITY};
    return fill(s, &j, (fac_tensor *[]){self, output}, 2);
}

fac_status dirichlet_grad_cpu(fac_structured *s, fac_tensor *x, fac_tensor *alpha, fac_tensor *total) {
    job j = {.compute = dirichlet_slope, .least = -INFINITY};
    return fill(s, &j, (fac_tensor *[]){x, alpha, total}, 3);
}

fac_status binomial_cpu(fac_structured *s, fac_tensor *count, fac_tensor *prob, fac_draw drawn) {
    job j = {.drawn = drawn, .sample = sample_binomial, .least = -1};
    const fac_ints sizes = {s->out[0]->sizes, s->out[0]->ndim};
    FAC_SCOPE(scope);
    fac_tensor *both[] = {fac__s_expand(fac__s_detach(count), sizes, false),
                          fac__s_expand(fac__s_detach(prob), sizes, false)};
    return both[0] && both[1] ? fill(s, &j, both, 2) : fac_error();
}

/* ---- Dirichlet ----------------------------------------------------------------------------------------------------------------- */

typedef struct rows_job {
    const char *in;
    char *out;
    fac_dtype dtype;
    int64_t width;
    fac_draw drawn;
} rows_job;

/* Gamma numbers, divided by their sum. They are kept as logarithms, since with small parameters all may be below the smallest double. */
static void dirichlet_row(const rows_job *j, int64_t row, double *v) {
    const int64_t item = fac__dtype_size(j->dtype), first = row * j->width;
    const double least = least_of(j->dtype), most = 1 - (j->dtype == FAC_F64   ? 0x1p-53
                                                         : j->dtype == FAC_F32 ? 0x1p-24
                                                         : j->dtype == FAC_F16 ? 0x1p-11
                                                                               : 0x1p-8);
    double top = -INFINITY, sum = 0;
    fac__tile_load(FAC_ACC_F64, v, j->in + first * item, j->dtype, 1, j->width);
    for (int64_t i = 0; i < j->width; i++) {
        stream s = stream_of(j->drawn, first + i);
        v[i] = v[i] > 0 ? log_gamma_number(&s, v[i]) : v[i] == 0 ? -INFINITY : NAN;
        top = v[i] > top ? v[i] : top;
    }
    for (int64_t i = 0; i < j->width; i++) sum += v[i] = exp(v[i] - top);
    for (int64_t i = 0; i < j->width; i++) v[i] = fmax(least, fmin(most, v[i] / sum));
    fac__tile_store(FAC_ACC_F64, v, j->out + first * item, j->dtype, 1, j->width);
}

static fac_status dirichlet_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t i = begin; i < end; i++) dirichlet_row(ctx, i, scratch);
    return FAC_OK;
}

fac_status sample_dirichlet_cpu(fac_structured *s, fac_tensor *self, fac_draw drawn) {
    fac_tensor *rows;
    if (self->numel == 0) return FAC_OK;
    FAC_TRY(fac__cpu_contiguous(self, &rows));
    rows_job j = {fac__data(rows), fac__data(s->out[0]), (fac_dtype)self->dtype,
                  self->ndim ? self->sizes[self->ndim - 1] : 1, drawn};
    int64_t bytes;
    fac_status st =
        fac__mul(j.width, (int64_t)sizeof(double), &bytes) ? FAC_OK : FAC_FAIL(FAC_ERR_OVERFLOW, "rows are too long");
    if (!st)
        st = fac__parallel_for_scratch(0, self->numel / j.width, fac__grain(1024, j.width), bytes, dirichlet_range, &j);
    fac__unref(rows);
    return st;
}
