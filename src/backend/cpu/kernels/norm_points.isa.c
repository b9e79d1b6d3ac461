/* Channels go in strips of STRIP vectors, then of one, then singly, whose coefficients and sums stay in registers while points pass. */
#include "backend/cpu/kernels/norm_points.h"
#include "backend/cpu/half.h"

enum { STRIP = 4 };

#define LOAD_F32(p) fac_load_f32(p)
#define STORE_F32(p, v) fac_store_f32(p, v)
#define LOAD_BF16(p) fac_load_bf16(p)
#define STORE_BF16(p, v) fac_store_bf16(p, v)
#define GET_F32(x) (x)
#define PUT_F32(x) (x)
#define GET_BF16(h) fac__bf16_to_f32(h)
#define PUT_BF16(x) fac__f32_to_bf16(x)
#define EACH_VECTOR(v) _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)

/* Of strips of V vectors from channel c on, and of what is left. */
#define POINTS(T, S)                                                                                                  \
    __attribute__((always_inline)) static inline void scale_strip_##S(                                                \
        const int V, const T *x, const float *p, const float *r, T *y, int64_t points, int64_t n) {                   \
        fac_vf32 a[STRIP], b[STRIP];                                                                                  \
        EACH_VECTOR(v) a[v] = fac_load_f32(p + v * FAC_LANES_F32), b[v] = fac_load_f32(r + v * FAC_LANES_F32);        \
        for (int64_t i = 0; i < points; i++, x += n, y += n)                                                          \
            EACH_VECTOR(v) STORE_##S(y + v * FAC_LANES_F32, LOAD_##S(x + v * FAC_LANES_F32) * a[v] + b[v]);           \
    }                                                                                                                 \
    static void scale_##S(const T *x, const float *p, const float *r, T *y, int64_t points, int64_t n) {              \
        int64_t c = 0;                                                                                                \
        for (; c + STRIP * FAC_LANES_F32 <= n; c += STRIP * FAC_LANES_F32)                                            \
            scale_strip_##S(STRIP, x + c, p + c, r + c, y + c, points, n);                                            \
        for (; c + 2 * FAC_LANES_F32 <= n; c += 2 * FAC_LANES_F32)                                                    \
            scale_strip_##S(2, x + c, p + c, r + c, y + c, points, n);                                                \
        for (; c + FAC_LANES_F32 <= n; c += FAC_LANES_F32) scale_strip_##S(1, x + c, p + c, r + c, y + c, points, n); \
        for (int64_t i = 0; c < n && i < points; i++)                                                                 \
            for (int64_t k = c; k < n; k++) y[i * n + k] = PUT_##S(GET_##S(x[i * n + k]) * p[k] + r[k]);              \
    }                                                                                                                 \
    __attribute__((always_inline)) static inline void blend_strip_##S(const int V, const T *dy, const T *x,           \
                                                                      const float *p, const float *q, const float *r, \
                                                                      T *dx, int64_t points, int64_t n) {             \
        fac_vf32 a[STRIP], b[STRIP], d[STRIP];                                                                        \
        EACH_VECTOR(v)                                                                                                \
        a[v] = fac_load_f32(p + v * FAC_LANES_F32), b[v] = fac_load_f32(q + v * FAC_LANES_F32),                       \
        d[v] = fac_load_f32(r + v * FAC_LANES_F32);                                                                   \
        for (int64_t i = 0; i < points; i++, x += n, dy += n, dx += n) EACH_VECTOR(v)                                 \
        STORE_##S(dx + v * FAC_LANES_F32,                                                                             \
                  LOAD_##S(dy + v * FAC_LANES_F32) * a[v] + LOAD_##S(x + v * FAC_LANES_F32) * b[v] + d[v]);           \
    }                                                                                                                 \
    static void blend_##S(const T *dy, const T *x, const float *p, const float *q, const float *r, T *dx,             \
                          int64_t points, int64_t n) {                                                                \
        int64_t c = 0;                                                                                                \
        for (; c + STRIP * FAC_LANES_F32 <= n; c += STRIP * FAC_LANES_F32)                                            \
            blend_strip_##S(STRIP, dy + c, x + c, p + c, q + c, r + c, dx + c, points, n);                            \
        for (; c + FAC_LANES_F32 <= n; c += FAC_LANES_F32)                                                            \
            blend_strip_##S(1, dy + c, x + c, p + c, q + c, r + c, dx + c, points, n);                                \
        for (int64_t i = 0; c < n && i < points; i++)                                                                 \
            for (int64_t k = i * n + c, o = c; o < n; k++, o++)                                                       \
                dx[k] = PUT_##S(GET_##S(dy[k]) * p[o] + GET_##S(x[k]) * q[o] + r[o]);                                 \
    }                                                                                                                 \
    __attribute__((always_inline)) static inline void sums_strip_##S(                                                 \
        const int V, const T *dy, const T *x, const float *mean, float *dot, float *sum, int64_t points, int64_t n) { \
        fac_vf32 m[STRIP], d[STRIP], s[STRIP];                                                                        \
        EACH_VECTOR(v)                                                                                                \
        m[v] = fac_load_f32(mean + v * FAC_LANES_F32), d[v] = fac_load_f32(dot + v * FAC_LANES_F32),                  \
        s[v] = fac_load_f32(sum + v * FAC_LANES_F32);                                                                 \
        for (int64_t i = 0; i < points; i++, x += n, dy += n) {                                                       \
            EACH_VECTOR(v) {                                                                                          \
                const fac_vf32 g = LOAD_##S(dy + v * FAC_LANES_F32);                                                  \
                d[v] += g * (LOAD_##S(x + v * FAC_LANES_F32) - m[v]);                                                 \
                s[v] += g;                                                                                            \
            }                                                                                                         \
        }                                                                                                             \
        EACH_VECTOR(v) fac_store_f32(dot + v * FAC_LANES_F32, d[v]), fac_store_f32(sum + v * FAC_LANES_F32, s[v]);    \
    }                                                                                                                 \
    static void sums_##S(const T *dy, const T *x, const float *mean, float *dot, float *sum, int64_t points,          \
                         int64_t n) {                                                                                 \
        int64_t c = 0;                                                                                                \
        for (; c + STRIP * FAC_LANES_F32 <= n; c += STRIP * FAC_LANES_F32)                                            \
            sums_strip_##S(STRIP, dy + c, x + c, mean + c, dot + c, sum + c, points, n);                              \
        for (; c + FAC_LANES_F32 <= n; c += FAC_LANES_F32)                                                            \
            sums_strip_##S(1, dy + c, x + c, mean + c, dot + c, sum + c, points, n);                                  \
        for (int64_t i = 0; c < n && i < points; i++)                                                                 \
            for (int64_t k = c; k < n; k++) {                                                                         \
                const float g = GET_##S(dy[i * n + k]);                                                               \
                dot[k] += g * (GET_##S(x[i * n + k]) - mean[k]);                                                      \
                sum[k] += g;                                                                                          \
            }                                                                                                         \
    }
POINTS(float, F32)
POINTS(uint16_t, BF16)

void FAC_ISA_NAME(fac__points_scale)(bool bf16, const void *x, const float *p, const float *r, void *y, int64_t points,
                                     int64_t n) {
    if (bf16)
        scale_BF16(x, p, r, y, points, n);
    else
        scale_F32(x, p, r, y, points, n);
}
void FAC_ISA_NAME(fac__points_blend)(bool bf16, const void *dy, const void *x, const float *p, const float *q,
                                     const float *r, void *dx, int64_t points, int64_t n) {
    if (bf16)
        blend_BF16(dy, x, p, q, r, dx, points, n);
    else
        blend_F32(dy, x, p, q, r, dx, points, n);
}
void FAC_ISA_NAME(fac__points_sums)(bool bf16, const void *dy, const void *x, const float *mean, float *dot, float *sum,
                                    int64_t points, int64_t n) {
    if (bf16)
        sums_BF16(dy, x, mean, dot, sum, points, n);
    else
        sums_F32(dy, x, mean, dot, sum, points, n);
}
