/* Inner loops of the normalisations for float and double. */
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/cascade.h"
#include "backend/cpu/half.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define LANES 32
#define T float
#define S f32
#include "backend/cpu/kernels/norm_rows_body.h"
#undef T
#undef S
#undef LANES

#define LANES 16
#define T double
#define S f64
#include "backend/cpu/kernels/norm_rows_body.h"

#undef T
#undef S

enum { SIDES = 8 };
/* The sum of `term`, of element i, in lanes of doubles. */
#define SHORT_SUM(result, term)                                                     \
    double result;                                                                  \
    do {                                                                            \
        double s[SIDES] = {0};                                                      \
        int64_t at = 0;                                                             \
        for (; at + SIDES <= n; at += SIDES)                                        \
            for (int64_t i = at; i < at + SIDES; i++) s[i - at] += (term);          \
        for (int64_t i = at; i < n; i++) s[i - at] += (term);                       \
        result = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])); \
    } while (0)

#define SHORT_ROWS(T, S)                                                                                               \
    static inline void short_row_##S(const T *restrict x, int64_t n, bool centred, double eps, const T *w, const T *b, \
                                     T *restrict y, double out[2]) {                                                   \
        double mean = 0;                                                                                               \
        if (centred) {                                                                                                 \
            SHORT_SUM(sum, (double)x[i]);                                                                              \
            mean = sum / (double)n;                                                                                    \
        }                                                                                                              \
        SHORT_SUM(square, ((double)x[i] - mean) * ((double)x[i] - mean));                                              \
        out[0] = mean;                                                                                                 \
        out[1] = 1.0 / __builtin_sqrt(square / (double)n + eps);                                                       \
        const T m = (T)mean, r = (T)out[1];                                                                            \
        if (w && b) {                                                                                                  \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * r * w[i] + b[i];                                       \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * r * (w ? w[i] : (T)1) + (b ? b[i] : -(T)0);            \
        }                                                                                                              \
    }                                                                                                                  \
    void FAC_ISA_NAME(fac__norm_short_rows_##S)(const T *x, int64_t n, int64_t rows, bool centred, double eps,         \
                                                const T *w, const T *b, T *y, T *means, T *rstds) {                    \
        for (int64_t r = 0; r < rows; r++, x += n, y += n) {                                                           \
            double found[2];                                                                                           \
            if (sizeof(T) == 4 && n == 16)                                                                             \
                short_row_##S(x, 16, centred, eps, w, b, y, found);                                                    \
            else                                                                                                       \
                short_row_##S(x, n, centred, eps, w, b, y, found);                                                     \
            if (means) means[r] = (T)found[0];                                                                         \
            if (rstds) rstds[r] = (T)found[1];                                                                         \
        }                                                                                                              \
    }
SHORT_ROWS(float, f32)
SHORT_ROWS(double, f64)

#define SHORT_BACK(T, S)                                                                                             \
    static inline __attribute__((always_inline)) void short_back_##S(                                                \
        const T *restrict dy, const T *restrict x, int64_t n, bool centred, T m, T r, const T *restrict w,           \
        T *restrict dw, T *restrict db, T *restrict dx) {                                                            \
        if (dw)                                                                                                      \
            for (int64_t i = 0; i < n; i++) dw[i] += dy[i] * ((x[i] - m) * r), db[i] += dy[i];                       \
        if (!dx) return;                                                                                             \
        SHORT_SUM(sum, (double)(dy[i] * w[i]));                                                                      \
        SHORT_SUM(along, (double)(dy[i] * w[i]) * (double)(x[i] - m));                                               \
        const T a = centred ? (T)(sum / (double)n) : 0, c = (T)(along * (double)r * (double)r / (double)n);          \
        for (int64_t i = 0; i < n; i++) dx[i] = r * (dy[i] * w[i] - a - (x[i] - m) * c);                             \
    }                                                                                                                \
    void FAC_ISA_NAME(fac__norm_short_back_##S)(const T *dy, const T *x, int64_t n, int64_t rows, const T *means,    \
                                                const T *rstds, const T *w, T *restrict dw, T *restrict db, T *dx) { \
        T ones[FAC_NORM_SHORT];                                                                                      \
        for (int64_t i = 0; !w && i < n; i++) ones[i] = 1;                                                           \
        for (int64_t i = 0; i < rows; i++, dy += n, x += n, dx += dx ? n : 0) {                                      \
            const T m = means ? means[i] : 0;                                                                        \
            if (n == 8)                                                                                              \
                short_back_##S(dy, x, 8, means, m, rstds[i], w ? w : ones, dw, db, dx);                              \
            else                                                                                                     \
                short_back_##S(dy, x, n, means, m, rstds[i], w ? w : ones, dw, db, dx);                              \
        }                                                                                                            \
    }
SHORT_BACK(float, f32)
SHORT_BACK(double, f64)

void FAC_ISA_NAME(fac__scale_each_f16)(const uint16_t *x, const float *scale, const float *shift, uint16_t *y,
                                       int64_t n) {
    int64_t i = 0;
    for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32)
        fac_store_f16(y + i, fac_load_f16(x + i) * fac_load_f32(scale + i) + fac_load_f32(shift + i));
    for (; i < n; i++) y[i] = fac_put_f16(fac_get_f16(x[i]) * scale[i] + shift[i]);
}

#define GET_bf16 fac__bf16_to_f32
#define PUT_bf16 fac__f32_to_bf16
#define GET_f16 fac_get_f16
#define PUT_f16 fac_put_f16

/* Sums have the lanes of norm_rows_body.h. */
enum { HALF_LANES = 32, HALF_VECTORS = HALF_LANES / FAC_LANES_F32 };
#define EACH_VECTOR for (int v = 0; v < HALF_VECTORS; v++)
#define PLANE_HALF(S)                                                                                                 \
    static void scale_##S(const uint16_t *x, float scale, float shift, uint16_t *y, int64_t n) {                      \
        const fac_vf32 a = fac_splat_f32(scale), b = fac_splat_f32(shift);                                            \
        int64_t i = 0;                                                                                                \
        for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32) fac_store_##S(y + i, fac_load_##S(x + i) * a + b);         \
        for (; i < n; i++) y[i] = PUT_##S(GET_##S(x[i]) * scale + shift);                                             \
    }                                                                                                                 \
    static void blend_##S(const uint16_t *dy, const uint16_t *x, float p, float q, float r, uint16_t *y, int64_t n) { \
        const fac_vf32 a = fac_splat_f32(p), b = fac_splat_f32(q), c = fac_splat_f32(r);                              \
        int64_t i = 0;                                                                                                \
        for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32)                                                            \
            fac_store_##S(y + i, fac_load_##S(dy + i) * a + fac_load_##S(x + i) * b + c);                             \
        for (; i < n; i++) y[i] = PUT_##S(GET_##S(dy[i]) * p + GET_##S(x[i]) * q + r);                                \
    }                                                                                                                 \
    static void sums_##S(const uint16_t *dy, const uint16_t *x, float mean, int64_t n, double *sums) {                \
        float s_level[FAC_CASCADE_LEVELS][HALF_LANES], p_level[FAC_CASCADE_LEVELS][HALF_LANES], sum[HALF_LANES],      \
            dot[HALF_LANES];                                                                                          \
        const fac_vf32 m = fac_splat_f32(mean);                                                                       \
        int64_t i = 0, steps = FAC_CASCADE_STEPS;                                                                     \
        for (uint64_t blocks = 0; steps == FAC_CASCADE_STEPS; blocks++) {                                             \
            fac_vf32 s[HALF_VECTORS], p[HALF_VECTORS];                                                                \
            EACH_VECTOR s[v] = p[v] = fac_splat_f32(0);                                                               \
            steps = (n - i) / HALF_LANES < FAC_CASCADE_STEPS ? (n - i) / HALF_LANES : FAC_CASCADE_STEPS;              \
            for (int64_t end = i + steps * HALF_LANES; i < end; i += HALF_LANES) {                                    \
                EACH_VECTOR {                                                                                         \
                    const fac_vf32 g = fac_load_##S(dy + i + v * FAC_LANES_F32);                                      \
                    s[v] += g;                                                                                        \
                    p[v] += g * (fac_load_##S(x + i + v * FAC_LANES_F32) - m);                                        \
                }                                                                                                     \
            }                                                                                                         \
            EACH_VECTOR fac_store_f32(sum + v * FAC_LANES_F32, s[v]), fac_store_f32(dot + v * FAC_LANES_F32, p[v]);   \
            if (steps == FAC_CASCADE_STEPS) {                                                                         \
                lanes_f32_push(s_level, blocks, sum);                                                                 \
                lanes_f32_push(p_level, blocks, dot);                                                                 \
                continue;                                                                                             \
            }                                                                                                         \
            for (int j = 0; i < n; i++, j++) {                                                                        \
                sum[j] += GET_##S(dy[i]);                                                                             \
                dot[j] += GET_##S(dy[i]) * (GET_##S(x[i]) - mean);                                                    \
            }                                                                                                         \
            lanes_f32_total(s_level, blocks, sum);                                                                    \
            lanes_f32_total(p_level, blocks, dot);                                                                    \
        }                                                                                                             \
        sums[0] = lane_sum_f32(sum);                                                                                  \
        sums[1] = lane_sum_f32(dot);                                                                                  \
    }
PLANE_HALF(bf16)
PLANE_HALF(f16)

void FAC_ISA_NAME(fac__scale_half)(bool bf16, const uint16_t *x, float scale, float shift, uint16_t *y, int64_t n) {
    (bf16 ? scale_bf16 : scale_f16)(x, scale, shift, y, n);
}
void FAC_ISA_NAME(fac__blend_half)(bool bf16, const uint16_t *dy, const uint16_t *x, float p, float q, float r,
                                   uint16_t *y, int64_t n) {
    (bf16 ? blend_bf16 : blend_f16)(dy, x, p, q, r, y, n);
}
void FAC_ISA_NAME(fac__norm_sums_half)(bool bf16, const uint16_t *dy, const uint16_t *x, float mean, int64_t n,
                                       double *sums) {
    (bf16 ? sums_bf16 : sums_f16)(dy, x, mean, n, sums);
}

#define APPLY_HALF(S)                                                                                               \
    static inline                                                                                                   \
        __attribute__((always_inline)) void apply_##S(const uint16_t *x, float mean, float rstd, const bool alike,  \
                                                      const void *w, const void *b, uint16_t *y, int64_t n) {       \
        const float *wide_w = w, *wide_b = b;                                                                       \
        const uint16_t *half_w = w, *half_b = b;                                                                    \
        const fac_vf32 m = fac_splat_f32(mean), r = fac_splat_f32(rstd);                                            \
        int64_t i = 0;                                                                                              \
        for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32) {                                                        \
            fac_vf32 v = (fac_load_##S(x + i) - m) * r;                                                             \
            const fac_vf32 p = !w ? fac_splat_f32(1) : alike ? fac_load_##S(half_w + i) : fac_load_f32(wide_w + i); \
            const fac_vf32 q = !b      ? fac_splat_f32(-0.0f)                                                       \
                               : alike ? fac_load_##S(half_b + i)                                                   \
                                       : fac_load_f32(wide_b + i);                                                  \
            fac_store_##S(y + i, v * p + q);                                                                        \
        }                                                                                                           \
        for (; i < n; i++) {                                                                                        \
            const float p = !w ? 1 : alike ? GET_##S(half_w[i]) : wide_w[i];                                        \
            const float q = !b ? -0.0f : alike ? GET_##S(half_b[i]) : wide_b[i];                                    \
            y[i] = PUT_##S((GET_##S(x[i]) - mean) * rstd * p + q);                                                  \
        }                                                                                                           \
    }
APPLY_HALF(bf16)
APPLY_HALF(f16)

void FAC_ISA_NAME(fac__norm_apply_half)(bool bf16, const uint16_t *x, float mean, float rstd, bool alike, const void *w,
                                        const void *b, uint16_t *y, int64_t n) {
    if (bf16 && alike)
        apply_bf16(x, mean, rstd, true, w, b, y, n);
    else if (bf16)
        apply_bf16(x, mean, rstd, false, w, b, y, n);
    else if (alike)
        apply_f16(x, mean, rstd, true, w, b, y, n);
    else
        apply_f16(x, mean, rstd, false, w, b, y, n);
}

void FAC_ISA_NAME(fac__root_inverses)(double *v, double eps, int64_t n) {
    for (int64_t i = 0; i < n; i++) v[i] = 1.0 / sqrt(v[i] + eps);
}
