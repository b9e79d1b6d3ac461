/* Three passes over a line that is in L1 or L2: maximum, exponentials and their sum, scaling. Sums are pairwise over short blocks
   (cascade.h), in an order that depends on the length alone. */
#include "backend/cpu/kernels/softmax.h"
#include "backend/cpu/cascade.h"
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/short_row.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/kernels/vexp.h"
#include <float.h>
#include <math.h>

#define V FAC_LANES_F32

static float max_f32(const float *x, int64_t n) {
    float m = -INFINITY;
    FAC_ISA_NAME(fac__folds)[FAC_FOLD_MAX][FAC_ACC_F32].row(x, n, &m);
    return m;
}

static double max_f64(const double *x, int64_t n) {
    double m = -INFINITY;
    FAC_ISA_NAME(fac__folds)[FAC_FOLD_MAX][FAC_ACC_F64].row(x, n, &m);
    return m;
}

FAC_CASCADE(cascade_f32, fac_vf32, 1)
FAC_CASCADE(cascade_f64, double, 8)

/* Sum of exp(x - m); the exponentials go to y unless it is NULL. */
static float exp_sum_f32(const float *x, float m, float *y, int64_t n) {
    const fac_vf32 vm = fac_splat_f32(m);
    fac_vf32 level[FAC_CASCADE_LEVELS][1], s0, s1;
    uint64_t blocks = 0;
    int64_t i = 0;
    for (;; blocks++) {
        const int64_t left = (n - i) / (2 * V), steps = left < FAC_CASCADE_STEPS ? left : FAC_CASCADE_STEPS;
        s0 = s1 = (fac_vf32){0};
        for (int64_t end = i + steps * 2 * V; i < end; i += 2 * V) {
            fac_vf32 a = fac__vexp(fac_load_f32(x + i) - vm), b = fac__vexp(fac_load_f32(x + i + V) - vm);
            s0 += a, s1 += b;
            if (y) fac_store_f32(y + i, a), fac_store_f32(y + i + V, b);
        }
        s0 += s1;
        if (steps < FAC_CASCADE_STEPS) break;
        cascade_f32_push(level, blocks, &s0);
    }
    for (; i < n; i += V) {
        const int64_t part = n - i < V ? n - i : V;
        fac_vf32 a = fac__vexp(fac__short_load(x + i, part, -INFINITY) - vm);
        if (part < V) a = fac__short_keep(a, part);
        s0 += a;
        if (y) fac__short_store(y + i, a, part);
    }
    cascade_f32_total(level, blocks, &s0);
    return fac_sum_f32(s0);
}

/* The sum of eight lanes, which hold a block's elements, and of the blocks before. */
static double total_f64(double (*level)[8], uint64_t blocks, double *s) {
    cascade_f64_total(level, blocks, s);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The sum of `term`, of element i, over n elements. */
#define SUM_F64(n, term)                                           \
    double level[FAC_CASCADE_LEVELS][8], s[8] = {0};               \
    uint64_t blocks = 0;                                           \
    int64_t at = 0;                                                \
    for (; at + 8 <= (n); at += 8) {                               \
        for (int64_t i = at; i < at + 8; i++) s[i - at] += (term); \
        if ((at + 8) % (8 * FAC_CASCADE_STEPS)) continue;          \
        cascade_f64_push(level, blocks++, s);                      \
        memset(s, 0, sizeof s);                                    \
    }                                                              \
    for (int64_t i = at; i < (n); i++) s[i - at] += (term);        \
    return total_f64(level, blocks, s)

static double sum_f64(const double *x, int64_t n) { SUM_F64(n, x[i]); }
static double dot_f64(const double *x, const double *y, int64_t n) { SUM_F64(n, x[i] * y[i]); }
/* y[i] = exp(x[i] - shift) of eight numbers. Vectors are spelled out, since the compiler makes calls for single numbers of a loop of a
   known length; without fused multiplications only the other function is within 1 ulp. */
#if FAC_ISA_LEVEL >= 1
static inline void exp_eight(const double *x, double shift, double *y) {
    for (int k = 0; k < 8; k += FAC_LANES_F64) fac_store_f64(y + k, fac__vexp_f64(fac_load_f64(x + k) - shift));
}
#else
static __attribute__((noinline)) void exp_any(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = FAC_SIMD(exp, f64)(x[i]);
}
static inline void exp_eight(const double *x, double shift, double *y) {
    for (int k = 0; k < 8; k++) y[k] = x[k] - shift;
    exp_any(y, 8);
}
#endif

/* Of the first `part` numbers of a row's rest, at most eight, exp(x - shift). */
static inline void exp_part(const double *x, int64_t part, double shift, double *y) {
    if (part < 8) x = memcpy(y, x, (size_t)part * sizeof *y);
    exp_eight(x, shift, y);
}

/* As exp_sum_f32. */
static double exp_sum_f64(const double *x, double m, double *y, int64_t n) {
    double level[FAC_CASCADE_LEVELS][8], s[8] = {0}, e[8] = {0};
    uint64_t blocks = 0;
    int64_t at = 0;
    for (; at + 8 <= n; at += 8) {
        exp_eight(x + at, m, e);
        if (y) memcpy(y + at, e, sizeof e);
        for (int k = 0; k < 8; k++) s[k] += e[k];
        if ((at + 8) % (8 * FAC_CASCADE_STEPS)) continue;
        cascade_f64_push(level, blocks++, s);
        memset(s, 0, sizeof s);
    }
    const int64_t part = n - at;
    if (part) {
        exp_part(x + at, part, m, e);
        if (y) memcpy(y + at, e, (size_t)part * sizeof *e);
    }
    for (int64_t k = 0; k < part; k++) s[k] += e[k];
    return total_f64(level, blocks, s);
}

void FAC_ISA_NAME(fac__softmax_row_f32)(fac_softmax_form form, const float *x, float *y, int64_t n) {
    float m = max_f32(x, n);
    if (form == FAC_SOFTMAX) {
        float inv = 1.0f / exp_sum_f32(x, m, y, n);
        for (int64_t i = 0; i < n; i++) y[i] *= inv;
    } else {
        float log_sum = logf(exp_sum_f32(x, m, NULL, n));
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) - log_sum;
    }
}

/* Rows of one or two vectors stay in registers. */
static inline void short_softmax(fac_softmax_form form, const float *x, float *y, int64_t n, int vectors) {
    const int64_t rest = n - (vectors - 1) * V;
    fac_vf32 v[2], e[2];
    for (int k = 0; k < vectors; k++) {
        const int64_t part = k == vectors - 1 ? rest : V;
        v[k] = fac__short_load(x + k * V, part, -INFINITY);
    }
    const fac_vf32 m = fac__fold_max(vectors == 2 ? fac__lane_max(v[1], v[0]) : v[0]);
    for (int k = 0; k < vectors; k++) e[k] = fac__vexp(v[k] -= m);
    e[vectors - 1] = fac__short_keep(e[vectors - 1], rest);
    const fac_vf32 sum = fac__fold_sum(vectors == 2 ? e[0] + e[1] : e[0]);
    const float last = form == FAC_SOFTMAX ? 1.0f / sum[0] : logf(sum[0]);
    for (int k = 0; k < vectors; k++)
        fac__short_store(y + k * V, form == FAC_SOFTMAX ? e[k] * last : v[k] - last, k == vectors - 1 ? rest : V);
}

void FAC_ISA_NAME(fac__softmax_rows_f32)(fac_softmax_form form, const float *x, int64_t x_row, float *y, int64_t y_row,
                                         int64_t n, int64_t rows) {
    for (int64_t i = 0; i < rows; i++, x += x_row, y += y_row) {
        if (n <= V)
            short_softmax(form, x, y, n, 1);
        else if (n <= 2 * V)
            short_softmax(form, x, y, n, 2);
        else
            FAC_ISA_NAME(fac__softmax_row_f32)(form, x, y, n);
    }
}

void FAC_ISA_NAME(fac__softmax_row_f64)(fac_softmax_form form, const double *x, double *y, int64_t n) {
    double m = max_f64(x, n);
    if (form == FAC_SOFTMAX) {
        const double sum = exp_sum_f64(x, m, y, n);
        for (int64_t i = 0; i < n; i++) y[i] /= sum;
    } else {
        const double sum = log(exp_sum_f64(x, m, NULL, n));
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) - sum;
    }
}

void FAC_ISA_NAME(fac__logsumexp_terms_f32)(const float *x, int64_t n, float out[2]) {
    float m = out[0] = max_f32(x, n);
    out[1] = isinf(m) ? 0 : logf(exp_sum_f32(x, m, NULL, n));
}

void FAC_ISA_NAME(fac__logsumexp_terms_f64)(const double *x, int64_t n, double out[2]) {
    double m = out[0] = max_f64(x, n);
    out[1] = isinf(m) ? 0 : log(exp_sum_f64(x, m, NULL, n));
}

float FAC_ISA_NAME(fac__logsumexp_row_f32)(const float *x, int64_t n) {
    float terms[2];
    FAC_ISA_NAME(fac__logsumexp_terms_f32)(x, n, terms);
    return terms[0] + terms[1];
}

void FAC_ISA_NAME(fac__logsumexp_rows_f32)(const float *x, int64_t x_row, int64_t n, int64_t rows, float *out,
                                           int64_t step) {
    for (int64_t i = 0; i < rows; i++, x += x_row, out += step) {
        if (n == 0 || n > V) {
            *out = FAC_ISA_NAME(fac__logsumexp_row_f32)(x, n);
            continue;
        }
        const fac_vf32 v = fac__short_load(x, n, -INFINITY), m = fac__fold_max(v);
        *out = isinf(m[0]) ? m[0] : m[0] + logf(fac_sum_f32(fac__short_keep(fac__vexp(v - m), n)));
    }
}

double FAC_ISA_NAME(fac__logsumexp_row_f64)(const double *x, int64_t n) {
    double terms[2];
    FAC_ISA_NAME(fac__logsumexp_terms_f64)(x, n, terms);
    return terms[0] + terms[1];
}

/* The shift need not be the maximum: the exponentials are divided by their sum. A total beyond 1 / (8 EPS) may be too far from it. */
#define SOFTMAX_TOTAL(T, S, EXP, LOG, ABS, EPS, LOWEST)                                  \
    T FAC_ISA_NAME(fac__softmax_total_##S)(const T *x, T *y, int64_t n) {                \
        T m = max_##S(x, n);                                                             \
        if (m == -INFINITY) return memset(y, 0, (size_t)n * sizeof *y), m;               \
        T sum = exp_sum_##S(x, m, y, n), factor = 1 / sum;                               \
        for (int64_t i = 0; i < n; i++) y[i] *= factor;                                  \
        return m + LOG(sum);                                                             \
    }                                                                                    \
    bool FAC_ISA_NAME(fac__softmax_of_total_##S)(const T *x, T total, T *y, int64_t n) { \
        if (total == -INFINITY) return memset(y, 0, (size_t)n * sizeof *y), true;        \
        T shift = ABS(total) < 1 / (8 * EPS) ? total : max_##S(x, n);                    \
        if (shift == -INFINITY) shift = LOWEST;                                          \
        T sum = exp_sum_##S(x, shift, y, n), apart = (shift - total) + LOG(sum);         \
        bool whole = ABS(apart) <= EPS * (ABS(total) + 16);                              \
        T factor = whole ? 1 / sum : EXP(shift - total);                                 \
        for (int64_t i = 0; i < n; i++) y[i] *= factor;                                  \
        return whole;                                                                    \
    }
SOFTMAX_TOTAL(float, f32, expf, logf, fabsf, FLT_EPSILON, -FLT_MAX)
SOFTMAX_TOTAL(double, f64, exp, log, fabs, DBL_EPSILON, -DBL_MAX)

void FAC_ISA_NAME(fac__scale_add_row_f32)(float *x, float scale, const float *add, int64_t n) {
    if (add)
        FAC_IVDEP for (int64_t i = 0; i < n; i++) x[i] = x[i] * scale + add[i];
    else
        for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

void FAC_ISA_NAME(fac__exp_row_f32)(const float *x, float shift, float scale, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i += V) {
        const int64_t part = n - i < V ? n - i : V;
        fac__short_store(y + i, fac__vexp(fac__short_load(x + i, part, 0) - shift) * scale, part);
    }
}

void FAC_ISA_NAME(fac__exp_row_f64)(const double *x, double shift, double scale, double *y, int64_t n) {
    double e[8] = {0};
    for (int64_t i = 0, part; i < n; i += part) {
        part = n - i < 8 ? n - i : 8;
        exp_part(x + i, part, shift, e);
        for (int64_t k = 0; k < part; k++) y[i + k] = e[k] * scale;
    }
}

static float dot_f32(const float *a, const float *b, int64_t n) {
    fac_vf32 level[FAC_CASCADE_LEVELS][1], s0, s1;
    uint64_t blocks = 0;
    int64_t i = 0;
    for (;; blocks++) {
        const int64_t left = (n - i) / (2 * V), steps = left < FAC_CASCADE_STEPS ? left : FAC_CASCADE_STEPS;
        s0 = s1 = (fac_vf32){0};
        for (int64_t end = i + steps * 2 * V; i < end; i += 2 * V) {
            s0 = fac_fma_f32(fac_load_f32(a + i), fac_load_f32(b + i), s0);
            s1 = fac_fma_f32(fac_load_f32(a + i + V), fac_load_f32(b + i + V), s1);
        }
        s0 += s1;
        if (steps < FAC_CASCADE_STEPS) break;
        cascade_f32_push(level, blocks, &s0);
    }
    cascade_f32_total(level, blocks, &s0);
    float tail = 0;
    for (; i < n; i++) tail = fac_fma1_f32(a[i], b[i], tail);
    return fac_sum_f32(s0) + tail;
}

float FAC_ISA_NAME(fac__softmax_back_sum_f32)(fac_softmax_form form, const float *dy, const float *y, int64_t n) {
    float s = 0;
    if (form == FAC_SOFTMAX) return dot_f32(dy, y, n);
    FAC_ISA_NAME(fac__folds)[FAC_FOLD_SUM][FAC_ACC_F32].row(dy, n, &s);
    return s;
}

static void back_rest(fac_softmax_form form, const float *dy, const float *y, float s, float *dx, int64_t n) {
    if (form == FAC_SOFTMAX) {
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - s);
        return;
    }
    const fac_vf32 vs = fac_splat_f32(s);
    int64_t i = 0;
    for (; i + V <= n; i += V) fac_store_f32(dx + i, fac_load_f32(dy + i) - fac__vexp(fac_load_f32(y + i)) * vs);
    if (i == n) return;
    const fac_vf32 rest = fac__short_load(dy + i, n - i, 0) - fac__vexp(fac__short_load(y + i, n - i, 0)) * vs;
    fac__short_store(dx + i, rest, n - i);
}

void FAC_ISA_NAME(fac__softmax_back_row_f32)(fac_softmax_form form, const float *dy, const float *y, float *dx,
                                             int64_t n) {
    back_rest(form, dy, y, FAC_ISA_NAME(fac__softmax_back_sum_f32)(form, dy, y, n), dx, n);
}

void FAC_ISA_NAME(fac__softmax_back_rest_f32)(fac_softmax_form form, const float *dy, const float *y, float s,
                                              float *dx, int64_t n) {
    back_rest(form, dy, y, s, dx, n);
}

void FAC_ISA_NAME(fac__softmax_back_row_f64)(fac_softmax_form form, const double *dy, const double *y, double *dx,
                                             int64_t n) {
    if (form == FAC_SOFTMAX) {
        const double s = dot_f64(dy, y, n);
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - s);
    } else {
        const double s = sum_f64(dy, n);
        double e[8] = {0};
        for (int64_t i = 0, part; i < n; i += part) {
            part = n - i < 8 ? n - i : 8;
            exp_part(y + i, part, 0, e);
            for (int64_t k = 0; k < part; k++) dx[i + k] = dy[i + k] - e[k] * s;
        }
    }
}

/* ---- strips: the same, a line per lane ---------------------------------------------------------------------------- */

static void exp_all_f32(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += V) fac_store_f32(x + i, fac__vexp(fac_load_f32(x + i)));
}
static inline void exp_all_f64(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) exp_eight(x + i, 0, x + i);
}

/* Ends a block of rows: its sums go to the cascade. */
#define END_BLOCK(i, S)                         \
    if (((i) + 1) % FAC_CASCADE_STEPS == 0) {   \
        strip_##S##_push(level, blocks++, sum); \
        memset(sum, 0, sizeof sum);             \
    }
#define STRIP(T, S, MOST, LEAST, LOG)                                                                                 \
    FAC_CASCADE(strip_##S, T, MOST)                                                                                   \
    static inline                                                                                                     \
        __attribute__((always_inline)) void softmax_strip_##S(fac_softmax_form form, T *x, int64_t n, const int w) {  \
        T m[MOST], sum[MOST] = {0}, e[MOST], level[FAC_CASCADE_LEVELS][MOST];                                         \
        uint64_t blocks = 0;                                                                                          \
        for (int j = 0; j < w; j++) m[j] = x[j];                                                                      \
        FAC_ISA_NAME(fac__folds)[FAC_FOLD_MAX][sizeof(T) == 4 ? FAC_ACC_F32 : FAC_ACC_F64].col(x, w, n, w, m);        \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            T *r = x + i * w;                                                                                         \
            for (int j = 0; j < w; j++) e[j] = r[j] -= m[j];                                                          \
            exp_all_##S(e, w);                                                                                        \
            for (int j = 0; j < w; j++) sum[j] += e[j];                                                               \
            if (form == FAC_SOFTMAX) memcpy(r, e, (size_t)w * sizeof *e);                                             \
            END_BLOCK(i, S)                                                                                           \
        }                                                                                                             \
        strip_##S##_total(level, blocks, sum);                                                                        \
        for (int j = 0; j < w; j++) sum[j] = form == FAC_SOFTMAX ? 1 / sum[j] : LOG(sum[j]);                          \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            T *r = x + i * w;                                                                                         \
            if (form == FAC_SOFTMAX)                                                                                  \
                for (int j = 0; j < w; j++) r[j] *= sum[j];                                                           \
            else                                                                                                      \
                for (int j = 0; j < w; j++) r[j] -= sum[j];                                                           \
        }                                                                                                             \
    }                                                                                                                 \
    static inline __attribute__((always_inline)) void back_strip_##S(fac_softmax_form form, T *dy, const T *y,        \
                                                                     int64_t n, const int w) {                        \
        T sum[MOST] = {0}, e[MOST], level[FAC_CASCADE_LEVELS][MOST];                                                  \
        uint64_t blocks = 0;                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            for (int j = 0; j < w; j++) sum[j] += form == FAC_SOFTMAX ? dy[i * w + j] * y[i * w + j] : dy[i * w + j]; \
            END_BLOCK(i, S)                                                                                           \
        }                                                                                                             \
        strip_##S##_total(level, blocks, sum);                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            T *d = dy + i * w;                                                                                        \
            memcpy(e, y + i * w, (size_t)w * sizeof *e);                                                              \
            if (form == FAC_SOFTMAX) {                                                                                \
                for (int j = 0; j < w; j++) d[j] = e[j] * (d[j] - sum[j]);                                            \
            } else {                                                                                                  \
                exp_all_##S(e, w);                                                                                    \
                for (int j = 0; j < w; j++) d[j] -= e[j] * sum[j];                                                    \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    void FAC_ISA_NAME(fac__softmax_strip_##S)(fac_softmax_form form, T * x, int64_t n, int64_t width) {               \
        if (width == LEAST)                                                                                           \
            softmax_strip_##S(form, x, n, LEAST);                                                                     \
        else                                                                                                          \
            softmax_strip_##S(form, x, n, MOST);                                                                      \
    }                                                                                                                 \
    void FAC_ISA_NAME(fac__softmax_back_strip_##S)(fac_softmax_form form, T * dy, const T *y, int64_t n,              \
                                                   int64_t width) {                                                   \
        if (width == LEAST)                                                                                           \
            back_strip_##S(form, dy, y, n, LEAST);                                                                    \
        else                                                                                                          \
            back_strip_##S(form, dy, y, n, MOST);                                                                     \
    }
STRIP(float, f32, FAC_STRIP, FAC_STRIP_LEAST_F32, logf)
STRIP(double, f64, FAC_STRIP, FAC_STRIP_LEAST_F64, log)

/* Exponentials are taken relative to each line's maximum, of 0 where that is infinite. */
#define SUMS_STRIP(T, S, W, LOG)                                                                                \
    FAC_CASCADE(sums_##S, T, W)                                                                                 \
    void FAC_ISA_NAME(fac__logsumexp_strip_##S)(const T *x, int64_t ld, int64_t n, T *out) {                    \
        T m[W], shift[W], sum[W] = {0}, e[W], level[FAC_CASCADE_LEVELS][W];                                     \
        uint64_t blocks = 0;                                                                                    \
        for (int j = 0; j < (W); j++) m[j] = -(T)INFINITY;                                                      \
        FAC_ISA_NAME(fac__folds)[FAC_FOLD_MAX][sizeof(T) == 4 ? FAC_ACC_F32 : FAC_ACC_F64].col(x, ld, n, W, m); \
        for (int j = 0; j < (W); j++) shift[j] = isinf(m[j]) ? 0 : m[j];                                        \
        for (int64_t i = 0; i < n; i++) {                                                                       \
            const T *r = x + i * ld;                                                                            \
            for (int j = 0; j < (W); j++) e[j] = r[j] - shift[j];                                               \
            exp_all_##S(e, W);                                                                                  \
            for (int j = 0; j < (W); j++) sum[j] += e[j];                                                       \
            if ((i + 1) % FAC_CASCADE_STEPS) continue;                                                          \
            sums_##S##_push(level, blocks++, sum);                                                              \
            memset(sum, 0, sizeof sum);                                                                         \
        }                                                                                                       \
        sums_##S##_total(level, blocks, sum);                                                                   \
        for (int j = 0; j < (W); j++) out[j] = isinf(m[j]) ? m[j] : m[j] + LOG(sum[j]);                         \
    }
SUMS_STRIP(float, f32, FAC_SUMS_F32, logf)
SUMS_STRIP(double, f64, FAC_SUMS_F64, log)
