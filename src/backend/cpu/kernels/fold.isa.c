/* Sums are pairwise over blocks of 16 steps of four vectors (cascade.h). Order depends on n alone. */
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/cascade.h"
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/short_row.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define UNROLL 4
#define V32 FAC_LANES_F32
#define V64 FAC_LANES_F64

typedef float half_vf32 __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
/* Both halves added in double. */
static inline fac_vf64 widen_sum(fac_vf32 v) {
    half_vf32 part[2];
    memcpy(part, &v, sizeof v);
#if FAC_VECTOR_BYTES == 64 /* gcc would convert quarters */
    return (fac_vf64)_mm512_cvtps_pd((__m256)part[0]) + (fac_vf64)_mm512_cvtps_pd((__m256)part[1]);
#else
    return __builtin_convertvector(part[0], fac_vf64) + __builtin_convertvector(part[1], fac_vf64);
#endif
}
static inline double lanes_sum(fac_vf32 v) { return fac_sum_f64(widen_sum(v)); }

FAC_CASCADE(cascade_f32, fac_vf32, 1)
FAC_CASCADE(cascade_f64, fac_vf64, 1)

/* The sum of n elements in lanes; *out_rest is how many are left over, fewer than a vector. Whole blocks are summed in a function of
   their own, so that short sums need no room for a cascade. */
#define SUM_FOUR(T, VT, LANES, LOAD)         \
    for (; i < end; i += UNROLL * (LANES)) { \
        a0 += LOAD(x + i);                   \
        a1 += LOAD(x + i + (LANES));         \
        a2 += LOAD(x + i + 2 * (LANES));     \
        a3 += LOAD(x + i + 3 * (LANES));     \
    }
#define SUM_LANES(NAME, T, VT, LANES, LOAD, CASCADE)                           \
    static __attribute__((noinline)) VT NAME##_blocks(const T *x, int64_t n) { \
        enum { BLOCK = FAC_CASCADE_STEPS * UNROLL * (LANES) };                 \
        VT level[FAC_CASCADE_LEVELS][1], sum = {0};                            \
        const uint64_t blocks = (uint64_t)n / BLOCK;                           \
        for (uint64_t k = 0; k < blocks; k++) {                                \
            VT a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};                         \
            int64_t i = (int64_t)k * BLOCK;                                    \
            const int64_t end = i + BLOCK;                                     \
            SUM_FOUR(T, VT, LANES, LOAD)                                       \
            a0 = (a0 + a1) + (a2 + a3);                                        \
            CASCADE##_push(level, k, &a0);                                     \
        }                                                                      \
        CASCADE##_total(level, blocks, &sum);                                  \
        return sum;                                                            \
    }                                                                          \
    static inline VT NAME(const T *x, int64_t n, int64_t *out_rest) {          \
        enum { BLOCK = FAC_CASCADE_STEPS * UNROLL * (LANES) };                 \
        VT a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};                             \
        int64_t i = n / BLOCK * BLOCK;                                         \
        const int64_t end = n - n % (UNROLL * (LANES));                        \
        VT whole = i ? NAME##_blocks(x, n) : a0;                               \
        SUM_FOUR(T, VT, LANES, LOAD)                                           \
        for (; i + (LANES) <= n; i += (LANES)) a0 += LOAD(x + i);              \
        *out_rest = n - i;                                                     \
        return ((a0 + a1) + (a2 + a3)) + whole;                                \
    }
SUM_LANES(sum_lanes_f32, float, fac_vf32, V32, fac_load_f32, cascade_f32)
SUM_LANES(sum_lanes_f64, double, fac_vf64, V64, fac_load_f64, cascade_f64)

/* Sums of elements that become floats on the way, a vector at a time. */
typedef uint32_t vu32 __attribute__((vector_size(FAC_VECTOR_BYTES)));
static inline fac_vf32 load_number(const float *p) {
    const fac_vf32 v = fac_load_f32(p);
    return (fac_vf32)((vu32)v & (vu32)(v == v));
}
static inline fac_vf32 load_abs(const float *p) { return (fac_vf32)((vu32)fac_load_f32(p) & 0x7fffffffu); }
static inline fac_vf32 load_square(const float *p) {
    const fac_vf32 v = fac_load_f32(p);
    return v * v;
}
typedef uint64_t vu64 __attribute__((vector_size(FAC_VECTOR_BYTES)));
static inline fac_vf64 load_number_f64(const double *p) {
    const fac_vf64 v = fac_load_f64(p);
    return (fac_vf64)((vu64)v & (vu64)(v == v));
}
static inline fac_vf64 load_square_f64(const double *p) {
    const fac_vf64 v = fac_load_f64(p);
    return v * v;
}
static inline fac_vf64 load_abs_f64(const double *p) {
    return (fac_vf64)((vu64)fac_load_f64(p) & ~(uint64_t)INT64_MIN);
}
static inline fac_vf32 load_square_bf16(const uint16_t *p) {
    const fac_vf32 v = fac_load_bf16(p);
    return v * v;
}
static inline float square(float x) { return x * x; }
static inline double square_f64(double x) { return x * x; }
static inline float square_bf16(uint16_t x) { return square(fac__bf16_to_f32(x)); }
static inline fac_vf32 load_number_bf16(const uint16_t *p) {
    const fac_vf32 v = fac_load_bf16(p);
    return (fac_vf32)((vu32)v & (vu32)(v == v));
}
static inline float number(float x) { return x == x ? x : 0; }
static inline double number_f64(double x) { return x == x ? x : 0; }
static inline float number_bf16(uint16_t x) { return number(fac__bf16_to_f32(x)); }
#define SUM_ROW_OF(NAME, T, LOAD, ONE)                                                    \
    SUM_LANES(NAME##_lanes, T, fac_vf32, V32, LOAD, cascade_f32)                          \
    static void NAME(const void *vx, int64_t n, void *vacc) {                             \
        const T *x = vx;                                                                  \
        int64_t rest;                                                                     \
        double sum = lanes_sum(NAME##_lanes(x, n, &rest)), tail = (double)*(float *)vacc; \
        for (int64_t i = n - rest; i < n; i++) tail += (double)ONE(x[i]);                 \
        *(float *)vacc = (float)(sum + tail);                                             \
    }
SUM_ROW_OF(sum_row_bf16, uint16_t, fac_load_bf16, fac__bf16_to_f32)
SUM_ROW_OF(sum_row_numbers_bf16, uint16_t, load_number_bf16, number_bf16)
SUM_ROW_OF(sum_row_squares_bf16, uint16_t, load_square_bf16, square_bf16)
#if FAC_ISA_LEVEL >= 1
static inline fac_vf32 load_number_f16(const uint16_t *p) {
    const fac_vf32 v = fac_load_f16(p);
    return (fac_vf32)((vu32)v & (vu32)(v == v));
}
static inline float number_f16(uint16_t x) { return number(fac_get_f16(x)); }
static inline fac_vf32 load_square_f16(const uint16_t *p) {
    const fac_vf32 v = fac_load_f16(p);
    return v * v;
}
static inline float square_f16(uint16_t x) { return square(fac_get_f16(x)); }
SUM_ROW_OF(sum_row_squares_f16, uint16_t, load_square_f16, square_f16)
SUM_ROW_OF(sum_row_f16, uint16_t, fac_load_f16, fac_get_f16)
SUM_ROW_OF(sum_row_numbers_f16, uint16_t, load_number_f16, number_f16)
#endif
SUM_ROW_OF(sum_row_numbers, float, load_number, number)
SUM_ROW_OF(sum_row_abs, float, load_abs, fabsf)

#define SUM_ROW_F64(NAME, LANES, ONE)                             \
    static void NAME(const void *vx, int64_t n, void *vacc) {     \
        const double *x = vx;                                     \
        int64_t rest;                                             \
        double sum = fac_sum_f64(LANES(x, n, &rest)), tail = 0;   \
        for (int64_t i = n - rest; i < n; i++) tail += ONE(x[i]); \
        *(double *)vacc += sum + tail;                            \
    }
SUM_LANES(sum_lanes_numbers_f64, double, fac_vf64, V64, load_number_f64, cascade_f64)
SUM_LANES(sum_lanes_squares_f64, double, fac_vf64, V64, load_square_f64, cascade_f64)
SUM_LANES(sum_lanes_abs_f64, double, fac_vf64, V64, load_abs_f64, cascade_f64)
SUM_ROW_F64(sum_row_squares_f64, sum_lanes_squares_f64, square_f64)
SUM_ROW_F64(sum_row_abs_f64, sum_lanes_abs_f64, fabs)
SUM_ROW_F64(sum_row_f64, sum_lanes_f64, )
SUM_ROW_F64(sum_row_numbers_f64, sum_lanes_numbers_f64, number_f64)

/* The lanes and what is left over are added in double: a short sum is rounded about once. */
#define SUM_FLOATS(NAME, LANES, LOAD, REST)                                                \
    static inline fac_vf64 NAME##_short(const float *x, int64_t n) {                       \
        fac_vf32 v = {0};                                                                  \
        int64_t i = 0;                                                                     \
        for (; i + V32 <= n; i += V32) v += LOAD(x + i);                                   \
        fac_vf64 sum = i ? widen_sum(v) : (fac_vf64){0};                                   \
        if (i < n) {                                                                       \
            v = fac__short_load(x + i, n - i, 0);                                          \
            sum += widen_sum(REST(v));                                                     \
        }                                                                                  \
        return sum;                                                                        \
    }                                                                                      \
    static inline fac_vf64 NAME##_wide(const float *x, int64_t n) {                        \
        if (n < UNROLL * V32) return NAME##_short(x, n);                                   \
        int64_t rest;                                                                      \
        const fac_vf64 sum = widen_sum(LANES(x, n, &rest));                                \
        return rest ? sum + NAME##_short(x + n - rest, rest) : sum;                        \
    }                                                                                      \
    static void NAME(const void *x, int64_t n, void *vacc) {                               \
        *(float *)vacc = (float)(fac_sum_f64(NAME##_wide(x, n)) + (double)*(float *)vacc); \
    }                                                                                      \
    static void NAME##_several(const float *x, int64_t step, int64_t n, float *sums) {     \
        fac_vf64 v[V64];                                                                   \
        if (n < UNROLL * V32)                                                              \
            for (int i = 0; i < V64; i++) v[i] = NAME##_short(x + i * step, n);            \
        else                                                                               \
            for (int i = 0; i < V64; i++) v[i] = NAME##_wide(x + i * step, n);             \
        FOLD_ROWS(V64, F64, PLUS)                                                          \
        const half_vf32 sum = __builtin_convertvector(v[0] + 0.0, half_vf32);              \
        memcpy(sums, &sum, sizeof sum);                                                    \
    }
/* A vector v[i] of each of L rows becomes one of what STEP makes of each row's lanes, of which those half a vector apart come together
   first. */
#define FOLD_ROWS(L, ZIP, STEP)                                                                    \
    _Pragma("GCC unroll 4") for (int half = (L) / 2; half > 0; half /= 2) {                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < half; i++) {                                   \
            v[i] = STEP(FAC_ZIP_HI_##ZIP(v[i], v[i + half]), FAC_ZIP_LO_##ZIP(v[i], v[i + half])); \
        }                                                                                          \
    }
#define PLUS(x, a) ((a) + (x))
#define SAME(x) (x)
#define SQUARED(x) ((x) * (x))
SUM_LANES(sum_lanes_squares, float, fac_vf32, V32, load_square, cascade_f32)
SUM_FLOATS(sum_row_f32, sum_lanes_f32, fac_load_f32, SAME)
SUM_FLOATS(sum_row_squares, sum_lanes_squares, load_square, SQUARED)

void FAC_ISA_NAME(fac__sum_rows_f32)(bool squares, const float *x, int64_t step, int64_t n, int64_t rows, float *sums) {
    int64_t r = 0;
    for (; r + V64 <= rows; r += V64)
        (squares ? sum_row_squares_several : sum_row_f32_several)(x + r * step, step, n, sums + r);
    for (; r < rows; r++) {
        sums[r] = 0;
        (squares ? sum_row_squares : sum_row_f32)(x + r * step, n, sums + r);
    }
}

/* Wraps as two's complement: no sum is undefined. */
static void sum_row_i64(const void *vx, int64_t n, void *vacc) {
    const uint64_t *x = vx;
    uint64_t s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i];
    *(uint64_t *)vacc += s;
}

/* Real parts are in the even lanes. */
static void sum_row_c128(const void *vx, int64_t n, void *vacc) {
    const double *x = vx;
    double *acc = vacc, s[V64], tail[2] = {0, 0};
    int64_t rest;
    fac_store_f64(s, sum_lanes_f64(x, 2 * n, &rest));
    for (int w = V64 / 2; w > 1; w /= 2)
        for (int i = 0; i < w; i++) s[i] += s[i + w];
    for (int64_t i = 2 * n - rest; i < 2 * n; i++) tail[i & 1] += x[i];
    acc[0] += s[0] + tail[0];
    acc[1] += s[1] + tail[1];
}

#define LANES_ROW(NAME, T, N, STEP)                                              \
    static void NAME(const void *vx, int64_t n, void *vacc) {                    \
        const T *x = vx;                                                         \
        T acc = *(T *)vacc;                                                      \
        int64_t i = 0;                                                           \
        if (n >= (N)) {                                                          \
            T lane[N];                                                           \
            for (int j = 0; j < (N); j++) lane[j] = x[j];                        \
            for (i = (N); i + (N) <= n; i += (N)) {                              \
                for (int j = 0; j < (N); j++) lane[j] = STEP(x[i + j], lane[j]); \
            }                                                                    \
            for (int j = 0; j < (N); j++) acc = STEP(lane[j], acc);              \
        }                                                                        \
        for (; i < n; i++) acc = STEP(x[i], acc);                                \
        *(T *)vacc = acc;                                                        \
    }

#define MUL(x, a) ((x) * (a))
/* A NaN is taken when it comes, and kept: no comparison with it is true. */
#define LARGER(x, a) ((x) > (a) || (x) != (x) ? (x) : (a))
#define SMALLER(x, a) ((x) < (a) || (x) != (x) ? (x) : (a))
#define EXCLUSIVE_OR(x, a) ((x) ^ (a))
#define LARGER_INT(x, a) ((x) > (a) ? (x) : (a))
#define SMALLER_INT(x, a) ((x) < (a) ? (x) : (a))

/* Four times N products side by side hide the latency of the multiplication. */
#define PROD_ROW(NAME, T, N)                                                \
    static void NAME(const void *vx, int64_t n, void *vacc) {               \
        const T *x = vx;                                                    \
        T a[N], b[N], c[N], d[N], acc = *(T *)vacc;                         \
        int64_t i = 0;                                                      \
        for (int j = 0; j < (N); j++) a[j] = b[j] = c[j] = d[j] = 1;        \
        for (; i + 4 * (N) <= n; i += 4 * (N)) {                            \
            for (int j = 0; j < (N); j++) a[j] *= x[i + j];                 \
            for (int j = 0; j < (N); j++) b[j] *= x[i + (N) + j];           \
            for (int j = 0; j < (N); j++) c[j] *= x[i + 2 * (N) + j];       \
            for (int j = 0; j < (N); j++) d[j] *= x[i + 3 * (N) + j];       \
        }                                                                   \
        for (; i + (N) <= n; i += (N))                                      \
            for (int j = 0; j < (N); j++) a[j] *= x[i + j];                 \
        for (int j = 0; j < (N); j++) a[j] = (a[j] * b[j]) * (c[j] * d[j]); \
        for (int j = 0; j < (N); j++) acc *= a[j];                          \
        for (; i < n; i++) acc *= x[i];                                     \
        *(T *)vacc = acc;                                                   \
    }
PROD_ROW(prod_row_f32, float, 16)
PROD_ROW(prod_row_f64, double, 8)
LANES_ROW(prod_row_u64, uint64_t, 8, MUL)
LANES_ROW(xor_row_i64, int64_t, 16, EXCLUSIVE_OR)
LANES_ROW(max_row_i64, int64_t, 16, LARGER_INT)
LANES_ROW(min_row_i64, int64_t, 16, SMALLER_INT)

/* The better of each lane; a NaN of x is taken, and one of a kept. */
#if FAC_VECTOR_BYTES == 64
static inline fac_vf64 larger_f64(fac_vf64 x, fac_vf64 a) {
    __m512d v = (__m512d)x, m = _mm512_max_pd(v, (__m512d)a);
    return (fac_vf64)_mm512_mask_mov_pd(m, _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), v);
}
static inline fac_vf64 smaller_f64(fac_vf64 x, fac_vf64 a) {
    __m512d v = (__m512d)x, m = _mm512_min_pd(v, (__m512d)a);
    return (fac_vf64)_mm512_mask_mov_pd(m, _mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), v);
}
static inline fac_vf32 larger_f32(fac_vf32 x, fac_vf32 a) {
    __m512 v = (__m512)x, m = _mm512_max_ps(v, (__m512)a);
    return (fac_vf32)_mm512_mask_mov_ps(m, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v);
}
static inline fac_vf32 smaller_f32(fac_vf32 x, fac_vf32 a) {
    __m512 v = (__m512)x, m = _mm512_min_ps(v, (__m512)a);
    return (fac_vf32)_mm512_mask_mov_ps(m, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v);
}
#elif FAC_VECTOR_BYTES == 32
static inline fac_vf64 larger_f64(fac_vf64 x, fac_vf64 a) {
    __m256d v = (__m256d)x, m = _mm256_max_pd(v, (__m256d)a);
    return (fac_vf64)_mm256_blendv_pd(m, v, _mm256_cmp_pd(v, v, _CMP_UNORD_Q));
}
static inline fac_vf64 smaller_f64(fac_vf64 x, fac_vf64 a) {
    __m256d v = (__m256d)x, m = _mm256_min_pd(v, (__m256d)a);
    return (fac_vf64)_mm256_blendv_pd(m, v, _mm256_cmp_pd(v, v, _CMP_UNORD_Q));
}
static inline fac_vf32 larger_f32(fac_vf32 x, fac_vf32 a) {
    __m256 v = (__m256)x, m = _mm256_max_ps(v, (__m256)a);
    return (fac_vf32)_mm256_blendv_ps(m, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
static inline fac_vf32 smaller_f32(fac_vf32 x, fac_vf32 a) {
    __m256 v = (__m256)x, m = _mm256_min_ps(v, (__m256)a);
    return (fac_vf32)_mm256_blendv_ps(m, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
#else
static inline fac_vf32 larger_f32(fac_vf32 x, fac_vf32 a) {
    for (int j = 0; j < V32; j++) a[j] = LARGER(x[j], a[j]);
    return a;
}
static inline fac_vf64 larger_f64(fac_vf64 x, fac_vf64 a) {
    for (int j = 0; j < V64; j++) a[j] = LARGER(x[j], a[j]);
    return a;
}
static inline fac_vf64 smaller_f64(fac_vf64 x, fac_vf64 a) {
    for (int j = 0; j < V64; j++) a[j] = SMALLER(x[j], a[j]);
    return a;
}
static inline fac_vf32 smaller_f32(fac_vf32 x, fac_vf32 a) {
    for (int j = 0; j < V32; j++) a[j] = SMALLER(x[j], a[j]);
    return a;
}
#endif

/* Four vectors hide the latency of the comparison. The last vector overlaps the one before it, and halves of lanes are folded:
   scalar loops would branch at each element. */
#define EXTREME_ROW(NAME, T, S, ZIP, VT, L, VSTEP, STEP)                                                   \
    static void NAME(const void *vx, int64_t n, void *vacc) {                                              \
        const T *x = vx;                                                                                   \
        T acc = *(T *)vacc;                                                                                \
        int64_t i = 0;                                                                                     \
        if (n >= L) {                                                                                      \
            VT a0 = fac_load_##S(x), a1 = a0, a2 = a0, a3 = a0;                                            \
            for (i = L; i + 4 * L <= n; i += 4 * L) {                                                      \
                a0 = VSTEP(fac_load_##S(x + i), a0);                                                       \
                a1 = VSTEP(fac_load_##S(x + i + L), a1);                                                   \
                a2 = VSTEP(fac_load_##S(x + i + 2 * L), a2);                                               \
                a3 = VSTEP(fac_load_##S(x + i + 3 * L), a3);                                               \
            }                                                                                              \
            for (; i + L <= n; i += L) a0 = VSTEP(fac_load_##S(x + i), a0);                                \
            if (i < n) a1 = VSTEP(fac_load_##S(x + n - L), a1);                                            \
            a0 = VSTEP(VSTEP(a0, a1), VSTEP(a2, a3));                                                      \
            for (int w = 1; w < L; w *= 2) a0 = VSTEP(FAC_ZIP_LO_##ZIP(a0, a0), FAC_ZIP_HI_##ZIP(a0, a0)); \
            acc = STEP(a0[0], acc);                                                                        \
            i = n;                                                                                         \
        }                                                                                                  \
        for (; i < n; i++) acc = STEP(x[i], acc);                                                          \
        *(T *)vacc = acc;                                                                                  \
    }
EXTREME_ROW(max_row_f32, float, f32, F32, fac_vf32, V32, larger_f32, LARGER)
EXTREME_ROW(min_row_f32, float, f32, F32, fac_vf32, V32, smaller_f32, SMALLER)
EXTREME_ROW(max_row_f64, double, f64, F64, fac_vf64, V64, larger_f64, LARGER)
EXTREME_ROW(min_row_f64, double, f64, F64, fac_vf64, V64, smaller_f64, SMALLER)

/* The first n (at most a vector's) doubles, the rest filled. */
static inline fac_vf64 load_some(const double *p, int64_t n, double fill) {
    if (n >= V64) return fac_load_f64(p);
    fac_vf64 v = fac_splat_f64(fill);
#if FAC_VECTOR_BYTES == 64
    return (fac_vf64)_mm512_mask_loadu_pd((__m512d)v, (__mmask8)((1u << n) - 1), p);
#else
    for (int64_t k = 0; k < n; k++) v[k] = p[k];
    return v;
#endif
}

/* As many rows as a vector has lanes are each folded to one; of the square of them, rows become columns. Where smaller numbers win, signs
   are turned. */
static inline fac_vf64 load_turned(const double *p, int64_t n, vu64 sign) {
    return (fac_vf64)((vu64)load_some(p, n, sign[0] ? INFINITY : -INFINITY) ^ sign);
}
/* Sums begin with 0, which those of negative zeros are too. */
static inline fac_vf64 load_terms(const double *p, int64_t n, vu64 sign) {
    return (void)sign, load_some(p, n, 0) + 0.0;
}
#define SHORT_ROWS(NAME, LOAD, STEP)                                                                   \
    static void NAME(const double *x, int64_t step, int64_t n, int64_t rows, vu64 sign, double *out) { \
        for (int64_t r = 0; r < rows; r += V64) {                                                      \
            fac_vf64 v[V64];                                                                           \
            const int64_t some = rows - r < V64 ? rows - r : V64;                                      \
            for (int64_t i = 0; i < V64; i++) {                                                        \
                const double *row = x + (r + (i < some ? i : 0)) * step;                               \
                v[i] = LOAD(row, n, sign);                                                             \
                for (int64_t k = V64; k < n; k += V64) v[i] = STEP(LOAD(row + k, n - k, sign), v[i]);  \
            }                                                                                          \
            FOLD_ROWS(V64, F64, STEP)                                                                  \
            v[0] = (fac_vf64)((vu64)v[0] ^ sign);                                                      \
            memcpy(out + r, v, (size_t)some * sizeof *out);                                            \
        }                                                                                              \
    }
SHORT_ROWS(short_sums, load_terms, PLUS)
static inline fac_vf64 load_factors(const double *p, int64_t n, vu64 sign) { return (void)sign, load_some(p, n, 1); }
SHORT_ROWS(short_extremes, load_turned, larger_f64)
SHORT_ROWS(short_products, load_factors, MUL)

void FAC_ISA_NAME(fac__fold_short_rows_f64)(fac_fold_op op, const double *x, int64_t step, int64_t n, int64_t rows,
                                            double *out) {
    const vu64 sign = (vu64){0} + (op == FAC_FOLD_MIN ? (uint64_t)INT64_MIN : 0);
    (op == FAC_FOLD_SUM    ? short_sums
     : op == FAC_FOLD_PROD ? short_products
                           : short_extremes)(x, step, n, rows, sign, out);
}

void FAC_ISA_NAME(fac__prod_rows_f32)(const float *x, int64_t step, int64_t n, int64_t rows, float *out) {
    for (int64_t r = 0; r < rows; r += V32) {
        fac_vf32 v[V32];
        const int64_t some = rows - r < V32 ? rows - r : V32;
        for (int64_t i = 0; i < V32; i++) {
            const float *row = x + (r + (i < some ? i : 0)) * step;
            v[i] = fac__short_load(row, n < V32 ? n : V32, 1);
            for (int64_t k = V32; k < n; k += V32) v[i] *= fac__short_load(row + k, n - k < V32 ? n - k : V32, 1);
        }
        FOLD_ROWS(V32, F32, MUL)
        memcpy(out + r, v, (size_t)some * sizeof *out);
    }
}

static void prod_row_c128(const void *vx, int64_t n, void *vacc) {
    const double *x = vx;
    double *acc = vacc;
    double re = acc[0], im = acc[1];
    for (int64_t i = 0; i < n; i++) {
        double r = re * x[2 * i] - im * x[2 * i + 1];
        im = re * x[2 * i + 1] + im * x[2 * i];
        re = r;
    }
    acc[0] = re, acc[1] = im;
}

#define COL(NAME, T, STEP)                                                              \
    static void NAME(const void *vx, int64_t ld, int64_t rows, int64_t w, void *vacc) { \
        const T *restrict x = vx;                                                       \
        T *restrict acc = vacc;                                                         \
        for (int64_t i = 0; i < rows; i++, x += ld) {                                   \
            for (int64_t j = 0; j < w; j++) acc[j] = STEP(x[j], acc[j]);                \
        }                                                                               \
    }
#define ADD(x, a) ((x) + (a))
COL(sum_col_u64, uint64_t, ADD)
COL(prod_col_f32, float, MUL)
COL(prod_col_f64, double, MUL)
COL(prod_col_u64, uint64_t, MUL)
COL(xor_col_i64, int64_t, EXCLUSIVE_OR)
COL(max_col_i64, int64_t, LARGER_INT)
COL(min_col_i64, int64_t, SMALLER_INT)

/* Four rows at a time, so that accumulators are moved less often. The last vector overlaps the one before it. */
#define EXTREME_COL(NAME, T, S, VT, L, VSTEP, STEP)                                      \
    static void NAME(const void *vx, int64_t ld, int64_t rows, int64_t w, void *vacc) {  \
        const T *x = vx;                                                                 \
        T *acc = vacc;                                                                   \
        if (w < L) {                                                                     \
            for (int64_t j = 0; j < w; j++)                                              \
                for (int64_t i = 0; i < rows; i++) acc[j] = STEP(x[i * ld + j], acc[j]); \
            return;                                                                      \
        }                                                                                \
        for (int64_t i = 0, some; i < rows; i += some) {                                 \
            some = rows - i < 4 ? 1 : 4;                                                 \
            for (int64_t j = 0; j < w; j += L) {                                         \
                j = j + L <= w ? j : w - L;                                              \
                const T *at = x + i * ld + j;                                            \
                VT a = VSTEP(fac_load_##S(at), fac_load_##S(acc + j));                   \
                if (some == 4) {                                                         \
                    a = VSTEP(fac_load_##S(at + ld), a);                                 \
                    a = VSTEP(fac_load_##S(at + 2 * ld), a);                             \
                    a = VSTEP(fac_load_##S(at + 3 * ld), a);                             \
                }                                                                        \
                fac_store_##S(acc + j, a);                                               \
            }                                                                            \
        }                                                                                \
    }
EXTREME_COL(max_col_f32, float, f32, fac_vf32, V32, larger_f32, LARGER)
EXTREME_COL(min_col_f32, float, f32, fac_vf32, V32, smaller_f32, SMALLER)
EXTREME_COL(max_col_f64, double, f64, fac_vf64, V64, larger_f64, LARGER)
EXTREME_COL(min_col_f64, double, f64, fac_vf64, V64, smaller_f64, SMALLER)

/* Eight rows at a time: an eighth of the traffic on the accumulators. Rows that lie apart are no one stream to the processor, so the
   next eight are asked for. */
#define SUM_COL(NAME, T, V, LANES, S)                                                                       \
    static void NAME(const void *vx, int64_t ld, int64_t rows, int64_t w, void *vacc) {                     \
        const T *restrict x = vx;                                                                           \
        T *restrict acc = vacc;                                                                             \
        int64_t i = 0;                                                                                      \
        for (; i + 8 <= rows; i += 8, x += 8 * ld) {                                                        \
            int64_t j = 0;                                                                                  \
            for (; j + LANES <= w; j += LANES) {                                                            \
                const T *p = x + j;                                                                         \
                V v[8];                                                                                     \
                _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) {                                       \
                    __builtin_prefetch(p + (8 + k) * ld);                                                   \
                    v[k] = fac_load_##S(p + k * ld);                                                        \
                }                                                                                           \
                const V first = fac_load_##S(acc + j) + ((v[0] + v[1]) + (v[2] + v[3]));                    \
                fac_store_##S(acc + j, first + ((v[4] + v[5]) + (v[6] + v[7])));                            \
            }                                                                                               \
            for (; j < w; j++) {                                                                            \
                const T *p = x + j, *q = p + 4 * ld;                                                        \
                acc[j] = (acc[j] + ((p[0] + p[ld]) + (p[2 * ld] + p[3 * ld]))) +                            \
                         ((q[0] + q[ld]) + (q[2 * ld] + q[3 * ld]));                                        \
            }                                                                                               \
        }                                                                                                   \
        for (; i + 4 <= rows; i += 4, x += 4 * ld) {                                                        \
            for (int64_t j = 0; j < w; j++) acc[j] += (x[j] + x[ld + j]) + (x[2 * ld + j] + x[3 * ld + j]); \
        }                                                                                                   \
        for (; i < rows; i++, x += ld) {                                                                    \
            for (int64_t j = 0; j < w; j++) acc[j] += x[j];                                                 \
        }                                                                                                   \
    }
SUM_COL(sum_col_f32, float, fac_vf32, V32, f32)
SUM_COL(sum_col_f64, double, fac_vf64, V64, f64)

/* The same of elements that are changed on the way. */
#define SUM_COL_TO(NAME, T, A, V, LANES, S, LOAD, ONE)                                   \
    static void NAME(const void *vx, int64_t ld, int64_t rows, int64_t w, void *vacc) {  \
        const T *x = vx;                                                                 \
        A *acc = vacc;                                                                   \
        int64_t i = 0;                                                                   \
        for (; i + 4 <= rows; i += 4) {                                                  \
            const T *a = x + i * ld, *b = a + ld, *c = b + ld, *d = c + ld;              \
            for (int64_t j = 0; j + LANES <= w; j += LANES) {                            \
                const V sum = (LOAD(a + j) + LOAD(b + j)) + (LOAD(c + j) + LOAD(d + j)); \
                fac_store_##S(acc + j, fac_load_##S(acc + j) + sum);                     \
            }                                                                            \
        }                                                                                \
        for (; i < rows; i++)                                                            \
            for (int64_t j = 0; j + LANES <= w; j += LANES)                              \
                fac_store_##S(acc + j, fac_load_##S(acc + j) + LOAD(x + i * ld + j));    \
        for (int64_t j = w - w % LANES; j < w; j++)                                      \
            for (i = 0; i < rows; i++) acc[j] += ONE(x[i * ld + j]);                     \
    }
#define SUM_COL_OF(NAME, T, LOAD, ONE) SUM_COL_TO(NAME, T, float, fac_vf32, V32, f32, LOAD, ONE)
SUM_COL_OF(sum_col_numbers, float, load_number, number)
SUM_COL_TO(sum_col_numbers_f64, double, double, fac_vf64, V64, f64, load_number_f64, number_f64)
SUM_COL_OF(sum_col_squares_f32, float, load_square, square)
SUM_COL_TO(sum_col_squares_f64, double, double, fac_vf64, V64, f64, load_square_f64, square_f64)
SUM_COL_OF(sum_col_squares_bf16, uint16_t, load_square_bf16, square_bf16)
SUM_COL_OF(sum_col_bf16, uint16_t, fac_load_bf16, fac__bf16_to_f32)
SUM_COL_OF(sum_col_numbers_bf16, uint16_t, load_number_bf16, number_bf16)
#if FAC_ISA_LEVEL >= 1
SUM_COL_OF(sum_col_squares_f16, uint16_t, load_square_f16, square_f16)
SUM_COL_OF(sum_col_f16, uint16_t, fac_load_f16, fac_get_f16)
SUM_COL_OF(sum_col_numbers_f16, uint16_t, load_number_f16, number_f16)
#endif

static void sum_col_c128(const void *x, int64_t ld, int64_t rows, int64_t w, void *acc) {
    sum_col_f64(x, 2 * ld, rows, 2 * w, acc);
}

static void prod_col_c128(const void *vx, int64_t ld, int64_t rows, int64_t w, void *vacc) {
    const double *x = vx;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < w; j++) prod_row_c128(x + 2 * (i * ld + j), 1, (double *)vacc + 2 * j);
    }
}

const fac_fold_table FAC_ISA_NAME(fac__folds) = {
    [FAC_FOLD_SUM] = {{sum_row_f32, sum_col_f32},
                      {sum_row_f64, sum_col_f64},
                      {sum_row_i64, sum_col_u64},
                      {sum_row_c128, sum_col_c128}},
    [FAC_FOLD_PROD] = {{prod_row_f32, prod_col_f32},
                       {prod_row_f64, prod_col_f64},
                       {prod_row_u64, prod_col_u64},
                       {prod_row_c128, prod_col_c128}},
    [FAC_FOLD_MAX] = {{max_row_f32, max_col_f32}, {max_row_f64, max_col_f64}, {max_row_i64, max_col_i64}, {NULL, NULL}},
    [FAC_FOLD_MIN] = {{min_row_f32, min_col_f32}, {min_row_f64, min_col_f64}, {min_row_i64, min_col_i64}, {NULL, NULL}},
    [FAC_FOLD_XOR] = {[FAC_ACC_I64] = {xor_row_i64, xor_col_i64}},
};

/* ---- elements that are narrower than accumulators ----------------------------------------------------------------------- */

typedef uint8_t vu8 __attribute__((vector_size(FAC_VECTOR_BYTES)));
typedef int16_t vi16 __attribute__((vector_size(FAC_VECTOR_BYTES)));
typedef int32_t vi32 __attribute__((vector_size(FAC_VECTOR_BYTES)));

#if FAC_VECTOR_BYTES == 64
#define BETTER_LANES(NAME, VT, OP, X, WINS) \
    static inline VT NAME(VT x, VT a) { return (VT)_mm512_##OP##_##X((__m512i)x, (__m512i)a); }
#elif FAC_VECTOR_BYTES == 32
#define BETTER_LANES(NAME, VT, OP, X, WINS) \
    static inline VT NAME(VT x, VT a) { return (VT)_mm256_##OP##_##X((__m256i)x, (__m256i)a); }
#else
#define BETTER_LANES(NAME, VT, OP, X, WINS) \
    static inline VT NAME(VT x, VT a) {     \
        const VT m = (VT)(WINS);            \
        return (x & m) | (a & ~m);          \
    }
#endif
BETTER_LANES(larger_u8, vu8, max, epu8, x > a)
BETTER_LANES(larger_i16, vi16, max, epi16, x > a)
BETTER_LANES(larger_i32, vi32, max, epi32, x > a)
BETTER_LANES(smaller_u8, vu8, min, epu8, x < a)
BETTER_LANES(smaller_i16, vi16, min, epi16, x < a)
BETTER_LANES(smaller_i32, vi32, min, epi32, x < a)

/* The largest of x ^ flip, as T compares: flip turns the sign bit of numbers of the other signedness, and all others where the smallest is
   wanted. n is at least 1. Of columns it is that of each of w <= FAC_NARROW of them. */
#define FAC_NARROW 256
#define BEST_OF(S, T, VT)                                                                                            \
    static inline VT best_load_##S(const T *p, VT flip) {                                                            \
        VT v;                                                                                                        \
        memcpy(&v, p, sizeof v);                                                                                     \
        return v ^ flip;                                                                                             \
    }                                                                                                                \
    static inline T best_lane_##S(VT a) {                                                                            \
        T part[4 / sizeof(T)], best;                                                                                 \
        for (int w = 1; w < V32; w *= 2) {                                                                           \
            const fac_vf32 v = (fac_vf32)a;                                                                          \
            a = larger_##S((VT)FAC_ZIP_LO_F32(v, v), (VT)FAC_ZIP_HI_F32(v, v));                                      \
        }                                                                                                            \
        memcpy(part, &a, sizeof part);                                                                               \
        best = part[0];                                                                                              \
        for (size_t k = 1; k < sizeof part / sizeof *part; k++) best = part[k] > best ? part[k] : best;              \
        return best;                                                                                                 \
    }                                                                                                                \
    static __attribute__((noinline)) T best_row_##S(const T *x, int64_t n, T f) {                                    \
        enum { L = FAC_VECTOR_BYTES / sizeof(T) };                                                                   \
        const VT flip = (VT){0} + f;                                                                                 \
        T best = x[0] ^ f;                                                                                           \
        if (n < L) {                                                                                                 \
            for (int64_t i = 1; i < n; i++) best = (T)(x[i] ^ f) > best ? (T)(x[i] ^ f) : best;                      \
            return best;                                                                                             \
        }                                                                                                            \
        VT a0 = best_load_##S(x + n - L, flip), a1 = a0, a2 = a0, a3 = a0;                                           \
        int64_t i = 0;                                                                                               \
        for (; i + 4 * L <= n; i += 4 * L) {                                                                         \
            a0 = larger_##S(best_load_##S(x + i, flip), a0);                                                         \
            a1 = larger_##S(best_load_##S(x + i + L, flip), a1);                                                     \
            a2 = larger_##S(best_load_##S(x + i + 2 * L, flip), a2);                                                 \
            a3 = larger_##S(best_load_##S(x + i + 3 * L, flip), a3);                                                 \
        }                                                                                                            \
        for (; i + L <= n; i += L) a1 = larger_##S(best_load_##S(x + i, flip), a1);                                  \
        return best_lane_##S(larger_##S(larger_##S(a0, a1), larger_##S(a2, a3)));                                    \
    }                                                                                                                \
    static                                                                                                           \
        __attribute__((noinline)) void best_col_##S(const T *x, int64_t ld, int64_t rows, int64_t w, T f, T *best) { \
        enum { L = FAC_VECTOR_BYTES / sizeof(T) };                                                                   \
        const VT flip = (VT){0} + f;                                                                                 \
        int64_t j = 0;                                                                                               \
        for (; j + 4 * L <= w; j += 4 * L) {                                                                         \
            VT a[4];                                                                                                 \
            for (int k = 0; k < 4; k++) a[k] = best_load_##S(x + j + k * L, flip);                                   \
            for (int64_t i = 1; i < rows; i++)                                                                       \
                for (int k = 0; k < 4; k++) a[k] = larger_##S(best_load_##S(x + i * ld + j + k * L, flip), a[k]);    \
            for (int k = 0; k < 4; k++) a[k] ^= flip;                                                                \
            memcpy(best + j, a, sizeof a);                                                                           \
        }                                                                                                            \
        for (; j < w && w >= L; j += L) {                                                                            \
            j = j + L <= w ? j : w - L;                                                                              \
            VT a = best_load_##S(x + j, flip);                                                                       \
            for (int64_t i = 1; i < rows; i++) a = larger_##S(best_load_##S(x + i * ld + j, flip), a);               \
            a ^= flip;                                                                                               \
            memcpy(best + j, &a, sizeof a);                                                                          \
        }                                                                                                            \
        for (; j < w; j++) {                                                                                         \
            T b = x[j] ^ f;                                                                                          \
            for (int64_t i = 1; i < rows; i++) b = (T)(x[i * ld + j] ^ f) > b ? (T)(x[i * ld + j] ^ f) : b;          \
            best[j] = b ^ f;                                                                                         \
        }                                                                                                            \
    }                                                                                                                \
    /* What is best, of dtype d, goes to accumulators by `take`. */                                                  \
    static __attribute__((noinline)) void fold_col_##S(const T *x, int64_t ld, int64_t rows, int64_t w, T f,         \
                                                       fac_dtype d, fac_fold_col_fn take, int64_t *acc) {            \
        T best[FAC_NARROW];                                                                                          \
        int64_t wide[FAC_NARROW];                                                                                    \
        for (int64_t at = 0; rows > 0 && at < w; at += FAC_NARROW) {                                                 \
            const int64_t some = w - at < FAC_NARROW ? w - at : FAC_NARROW;                                          \
            best_col_##S(x + at, ld, rows, some, f, best);                                                           \
            fac__casts[FAC_I64][d](wide, 1, best, 1, some);                                                          \
            take(wide, some, 1, some, acc + at);                                                                     \
        }                                                                                                            \
    }
BEST_OF(u8, uint8_t, vu8)
BEST_OF(i16, int16_t, vi16)
BEST_OF(i32, int32_t, vi32)

/* The largest of x ^ flip of each of several rows, turned back. The last vector of a row overlaps the one before it. */
#define BEST_ROWS(NAME, STEP, WORST)                                                                              \
    static void NAME(const float *x, int64_t step, int64_t n, int64_t rows, vi32 flip, float *out) {              \
        for (int64_t r = 0; r < rows; r += V32) {                                                                 \
            fac_vf32 v[V32];                                                                                      \
            const int64_t some = rows - r < V32 ? rows - r : V32;                                                 \
            for (int64_t i = 0; i < V32; i++) {                                                                   \
                const float *row = x + (r + (i < some ? i : 0)) * step;                                           \
                v[i] = (fac_vf32)((vi32)fac__short_load(row, n < V32 ? n : V32, WORST) ^ flip);                   \
                for (int64_t k = V32; k < n; k += V32)                                                            \
                    v[i] = STEP((fac_vf32)((vi32)fac_load_f32(row + (k + V32 <= n ? k : n - V32)) ^ flip), v[i]); \
            }                                                                                                     \
            FOLD_ROWS(V32, F32, STEP)                                                                             \
            v[0] = (fac_vf32)((vi32)v[0] ^ flip);                                                                 \
            memcpy(out + r, v, (size_t)some * sizeof *out);                                                       \
        }                                                                                                         \
    }
static inline float worst_i32(int32_t flip) {
    const int32_t bits = INT32_MIN ^ flip;
    float worst;
    memcpy(&worst, &bits, sizeof worst);
    return worst;
}
#define LARGER_BITS(x, a) ((fac_vf32)larger_i32((vi32)(x), (vi32)(a)))
BEST_ROWS(best_rows_f32, larger_f32, flip[0] ? INFINITY : -INFINITY)
BEST_ROWS(best_rows_i32, LARGER_BITS, worst_i32(flip[0]))

void FAC_ISA_NAME(fac__best_rows)(fac_fold_op op, fac_dtype d, const void *x, int64_t step, int64_t n, int64_t rows,
                                  void *out) {
    const int32_t flip = op == FAC_FOLD_MAX ? 0 : d == FAC_F32 ? INT32_MIN : -1;
    (d == FAC_F32 ? best_rows_f32 : best_rows_i32)(x, step, n, rows, (vi32){0} + flip, out);
}

/* The least and the largest key of n >= 1 elements. A key compares as its element does: KEY(x, f), where f is as wide as x. */
#define EXTREMES_OF(NAME, S, T, VT, KEY)                                                                         \
    static __attribute__((noinline)) void NAME(const T *x, int64_t n, T f, T least_most[2]) {                    \
        enum { L = FAC_VECTOR_BYTES / sizeof(T) };                                                               \
        const VT flip = (VT){0} + f;                                                                             \
        T least = (T)KEY(x[0], f), most = least;                                                                 \
        if (n < L) {                                                                                             \
            for (int64_t i = 1; i < n; i++) {                                                                    \
                const T key = (T)KEY(x[i], f);                                                                   \
                least = key < least ? key : least, most = key > most ? key : most;                               \
            }                                                                                                    \
        } else {                                                                                                 \
            const VT last = best_load_##S(x + n - L, (VT){0});                                                   \
            VT low0 = KEY(last, flip), low1 = low0, high0 = low0, high1 = low0;                                  \
            int64_t i = 0;                                                                                       \
            for (; i + 2 * L <= n; i += 2 * L) {                                                                 \
                const VT a = best_load_##S(x + i, (VT){0}), b = best_load_##S(x + i + L, (VT){0});               \
                const VT u = KEY(a, flip), v = KEY(b, flip);                                                     \
                low0 = smaller_##S(u, low0), high0 = larger_##S(u, high0);                                       \
                low1 = smaller_##S(v, low1), high1 = larger_##S(v, high1);                                       \
            }                                                                                                    \
            if (i + L <= n) {                                                                                    \
                const VT a = best_load_##S(x + i, (VT){0}), u = KEY(a, flip);                                    \
                low0 = smaller_##S(u, low0), high0 = larger_##S(u, high0);                                       \
            }                                                                                                    \
            least = (T)~best_lane_##S(~smaller_##S(low0, low1)), most = best_lane_##S(larger_##S(high0, high1)); \
        }                                                                                                        \
        least_most[0] = least, least_most[1] = most;                                                             \
    }
#define FLIPPED(x, f) ((x) ^ (f))
#define HALF_KEY(x, f) ((x) ^ (((x) >> 15) & (f)))
EXTREMES_OF(extremes_u8, u8, uint8_t, vu8, FLIPPED)
EXTREMES_OF(extremes_i16, i16, int16_t, vi16, FLIPPED)
EXTREMES_OF(extremes_i32, i32, int32_t, vi32, FLIPPED)
/* Of 16-bit floats, whose sign and size are turned into a number; it is its own inverse. */
EXTREMES_OF(extremes_half, i16, int16_t, vi16, HALF_KEY)

static inline float half_of_key(fac_dtype d, int16_t key) {
    const uint16_t bits = (uint16_t)HALF_KEY(key, 0x7fff);
    return d == FAC_F16 ? fac_get_f16(bits) : fac__bf16_to_f32(bits);
}
/* NaNs are further out than the infinities: those with a sign below, others above. */
static inline void extremes_float(fac_dtype d, const void *x, int64_t n, float least_most[2]) {
    int16_t key[2];
    extremes_half(x, n, 0x7fff, key);
    const float least = half_of_key(d, key[0]), most = half_of_key(d, key[1]);
    least_most[0] = most != most ? most : least;
    least_most[1] = least != least ? least : most;
}
#define HALF_ROW(NAME, D, WHICH, STEP)                      \
    static void NAME(const void *x, int64_t n, void *acc) { \
        float best[2];                                      \
        if (n == 0) return;                                 \
        extremes_float(D, x, n, best);                      \
        *(float *)acc = STEP(best[WHICH], *(float *)acc);   \
    }
HALF_ROW(min_row_f16, FAC_F16, 0, SMALLER)
HALF_ROW(max_row_f16, FAC_F16, 1, LARGER)
HALF_ROW(min_row_bf16, FAC_BF16, 0, SMALLER)
HALF_ROW(max_row_bf16, FAC_BF16, 1, LARGER)

void FAC_ISA_NAME(fac__extremes)(fac_dtype d, const void *x, int64_t n, fac_acc_value least_most[2]) {
    int64_t v[2];
    if (d == FAC_BOOL || d == FAC_U8 || d == FAC_I8) {
        uint8_t b[2];
        const uint8_t flip = d == FAC_I8 ? 0x80 : 0;
        extremes_u8(x, n, flip, b);
        for (int k = 0; k < 2; k++) v[k] = flip ? (int8_t)(b[k] ^ flip) : b[k];
    } else if (d == FAC_I16) {
        int16_t b[2];
        extremes_i16(x, n, 0, b);
        v[0] = b[0], v[1] = b[1];
    } else if (d == FAC_I32) {
        int32_t b[2];
        extremes_i32(x, n, 0, b);
        v[0] = b[0], v[1] = b[1];
    } else if (d == FAC_F16 || d == FAC_BF16) {
        float b[2];
        extremes_float(d, x, n, b);
        least_most[0].f32 = SMALLER(b[0], least_most[0].f32), least_most[1].f32 = LARGER(b[1], least_most[1].f32);
        return;
    } else {
        const fac_acc kind = d == FAC_F32 ? FAC_ACC_F32 : d == FAC_F64 ? FAC_ACC_F64 : FAC_ACC_I64;
        FAC_ISA_NAME(fac__folds)[FAC_FOLD_MIN][kind].row(x, n, &least_most[0]);
        FAC_ISA_NAME(fac__folds)[FAC_FOLD_MAX][kind].row(x, n, &least_most[1]);
        return;
    }
    least_most[0].i64 = SMALLER_INT(v[0], least_most[0].i64), least_most[1].i64 = LARGER_INT(v[1], least_most[1].i64);
}

/* A fold of numbers of dtype D and type N in the lanes of S: STEP and `take` bring the best of some into an accumulator. */
#define FOLD_OF(NAME, S, D, N, FLIP, STEP, TAKE)                                            \
    static void NAME##_row(const void *x, int64_t n, void *acc) {                           \
        if (n == 0) return;                                                                 \
        const int64_t best = (N)(best_row_##S(x, n, FLIP) ^ (FLIP));                        \
        *(int64_t *)acc = STEP(best, *(int64_t *)acc);                                      \
    }                                                                                       \
    static void NAME##_col(const void *x, int64_t ld, int64_t rows, int64_t w, void *acc) { \
        fold_col_##S(x, ld, rows, w, FLIP, D, TAKE, acc);                                   \
    }
#define AND(x, a) ((x) != 0 ? (a) : 0)
#define OR(x, a) LARGER_INT((x) != 0, a) /* the accumulator begins with the least number */
FOLD_OF(max_u8, u8, FAC_U8, uint8_t, 0, LARGER_INT, max_col_i64)
FOLD_OF(min_u8, u8, FAC_U8, uint8_t, 0xff, SMALLER_INT, min_col_i64)
FOLD_OF(max_i8, u8, FAC_I8, int8_t, 0x80, LARGER_INT, max_col_i64)
FOLD_OF(min_i8, u8, FAC_I8, int8_t, 0x7f, SMALLER_INT, min_col_i64)
FOLD_OF(max_i16, i16, FAC_I16, int16_t, 0, LARGER_INT, max_col_i64)
FOLD_OF(min_i16, i16, FAC_I16, int16_t, -1, SMALLER_INT, min_col_i64)
FOLD_OF(max_i32, i32, FAC_I32, int32_t, 0, LARGER_INT, max_col_i64)
FOLD_OF(min_i32, i32, FAC_I32, int32_t, -1, SMALLER_INT, min_col_i64)
FOLD_OF(any_u8, u8, FAC_BOOL, uint8_t, 0, OR, max_col_i64)
FOLD_OF(all_u8, u8, FAC_BOOL, uint8_t, 0xff, AND, prod_col_u64)

typedef struct narrow {
    fac_acc kind;
    fac_dtype dtype;
    fac_fold_op op;
    fac_tile_map map;
    fac_fold_fns fns;
} narrow;
static const narrow narrows[] = {
    {FAC_ACC_F64, FAC_F64, FAC_FOLD_SUM, FAC_MAP_NAN_TO_ZERO, {sum_row_numbers_f64, sum_col_numbers_f64}},
    {FAC_ACC_F32, FAC_F32, FAC_FOLD_SUM, FAC_MAP_NAN_TO_ZERO, {sum_row_numbers, sum_col_numbers}},
    {FAC_ACC_F32, FAC_F32, FAC_FOLD_SUM, FAC_MAP_ABS, {sum_row_abs, NULL}},
    {FAC_ACC_F32, FAC_F32, FAC_FOLD_SUM, FAC_MAP_SQUARE, {sum_row_squares, sum_col_squares_f32}},
    {FAC_ACC_F64, FAC_F64, FAC_FOLD_SUM, FAC_MAP_SQUARE, {sum_row_squares_f64, sum_col_squares_f64}},
    {FAC_ACC_F64, FAC_F64, FAC_FOLD_SUM, FAC_MAP_ABS, {sum_row_abs_f64, NULL}},
    {FAC_ACC_F32, FAC_BF16, FAC_FOLD_SUM, FAC_MAP_SQUARE, {sum_row_squares_bf16, sum_col_squares_bf16}},
    {FAC_ACC_F32, FAC_BF16, FAC_FOLD_SUM, FAC_MAP_NONE, {sum_row_bf16, sum_col_bf16}},
    {FAC_ACC_F32, FAC_BF16, FAC_FOLD_SUM, FAC_MAP_NAN_TO_ZERO, {sum_row_numbers_bf16, sum_col_numbers_bf16}},
#if FAC_ISA_LEVEL >= 1
    {FAC_ACC_F32, FAC_F16, FAC_FOLD_SUM, FAC_MAP_SQUARE, {sum_row_squares_f16, sum_col_squares_f16}},
    {FAC_ACC_F32, FAC_F16, FAC_FOLD_SUM, FAC_MAP_NONE, {sum_row_f16, sum_col_f16}},
    {FAC_ACC_F32, FAC_F16, FAC_FOLD_SUM, FAC_MAP_NAN_TO_ZERO, {sum_row_numbers_f16, sum_col_numbers_f16}},
#endif
    {FAC_ACC_F32, FAC_F16, FAC_FOLD_MAX, FAC_MAP_NONE, {max_row_f16, NULL}},
    {FAC_ACC_F32, FAC_F16, FAC_FOLD_MIN, FAC_MAP_NONE, {min_row_f16, NULL}},
    {FAC_ACC_F32, FAC_BF16, FAC_FOLD_MAX, FAC_MAP_NONE, {max_row_bf16, NULL}},
    {FAC_ACC_F32, FAC_BF16, FAC_FOLD_MIN, FAC_MAP_NONE, {min_row_bf16, NULL}},
    {FAC_ACC_I64, FAC_U8, FAC_FOLD_MAX, FAC_MAP_NONE, {max_u8_row, max_u8_col}},
    {FAC_ACC_I64, FAC_U8, FAC_FOLD_MIN, FAC_MAP_NONE, {min_u8_row, min_u8_col}},
    {FAC_ACC_I64, FAC_I8, FAC_FOLD_MAX, FAC_MAP_NONE, {max_i8_row, max_i8_col}},
    {FAC_ACC_I64, FAC_I8, FAC_FOLD_MIN, FAC_MAP_NONE, {min_i8_row, min_i8_col}},
    {FAC_ACC_I64, FAC_I16, FAC_FOLD_MAX, FAC_MAP_NONE, {max_i16_row, max_i16_col}},
    {FAC_ACC_I64, FAC_I16, FAC_FOLD_MIN, FAC_MAP_NONE, {min_i16_row, min_i16_col}},
    {FAC_ACC_I64, FAC_I32, FAC_FOLD_MAX, FAC_MAP_NONE, {max_i32_row, max_i32_col}},
    {FAC_ACC_I64, FAC_I32, FAC_FOLD_MIN, FAC_MAP_NONE, {min_i32_row, min_i32_col}},
    {FAC_ACC_I64, FAC_U8, FAC_FOLD_MAX, FAC_MAP_NONZERO, {any_u8_row, any_u8_col}},
    {FAC_ACC_I64, FAC_U8, FAC_FOLD_PROD, FAC_MAP_NONZERO, {all_u8_row, all_u8_col}},
};

fac_fold_fns FAC_ISA_NAME(fac__fold_of)(fac_fold_op op, fac_acc k, fac_dtype d, fac_tile_map map) {
    if (d == FAC_BOOL) d = FAC_U8;
    for (size_t i = 0; i < sizeof narrows / sizeof *narrows; i++) {
        const narrow *t = &narrows[i];
        if (t->op == op && t->kind == k && t->dtype == d && t->map == map) return t->fns;
    }
    return (fac_fold_fns){NULL, NULL};
}

/* The rounding of the mean is taken out again: m2 = sum d^2 - (sum d)^2 / n with d = x - mean. */
#define MOMENTS(NAME, T, VT, LANES, LOAD, SPLAT, FMA, SUM_ROW, HSUM, CASCADE)                                          \
    void FAC_ISA_NAME(NAME)(const T *x, int64_t n, double mean[2], double *m2) {                                       \
        T s = 0;                                                                                                       \
        SUM_ROW(x, n, &s);                                                                                             \
        const T m = s / (T)n;                                                                                          \
        const VT vm = SPLAT(m);                                                                                        \
        VT ds[FAC_CASCADE_LEVELS][1], qs[FAC_CASCADE_LEVELS][1], d0, d1, q0, q1;                                       \
        uint64_t blocks = 0;                                                                                           \
        int64_t i = 0;                                                                                                 \
        for (;; blocks++) {                                                                                            \
            const int64_t left = (n - i) / (2 * (LANES)), steps = left < FAC_CASCADE_STEPS ? left : FAC_CASCADE_STEPS; \
            d0 = d1 = q0 = q1 = (VT){0};                                                                               \
            for (int64_t k = 0; k < steps; k++, i += 2 * (LANES)) {                                                    \
                VT a = LOAD(x + i) - vm, b = LOAD(x + i + (LANES)) - vm;                                               \
                d0 += a, d1 += b;                                                                                      \
                q0 = FMA(a, a, q0), q1 = FMA(b, b, q1);                                                                \
            }                                                                                                          \
            d0 += d1, q0 += q1;                                                                                        \
            if (steps < FAC_CASCADE_STEPS) break;                                                                      \
            CASCADE##_push(ds, blocks, &d0);                                                                           \
            CASCADE##_push(qs, blocks, &q0);                                                                           \
        }                                                                                                              \
        CASCADE##_total(ds, blocks, &d0);                                                                              \
        CASCADE##_total(qs, blocks, &q0);                                                                              \
        double d = (double)HSUM(d0), q = (double)HSUM(q0), d_tail = 0, q_tail = 0;                                     \
        for (; i < n; i++) {                                                                                           \
            double a = (double)x[i] - (double)m;                                                                       \
            d_tail += a;                                                                                               \
            q_tail += a * a;                                                                                           \
        }                                                                                                              \
        d += d_tail, q += q_tail;                                                                                      \
        mean[0] = (double)m, mean[1] = d / (double)n;                                                                  \
        *m2 = q == q ? fmax(q - d * d / (double)n, 0.0) : q;                                                           \
    }
MOMENTS(fac__moments_f32, float, fac_vf32, V32, fac_load_f32, fac_splat_f32, fac_fma_f32, sum_row_f32, fac_sum_f32,
        cascade_f32)
MOMENTS(fac__moments_f64, double, fac_vf64, V64, fac_load_f64, fac_splat_f64, fac_fma_f64, sum_row_f64, fac_sum_f64,
        cascade_f64)

/* Sums over 16 rows at a time go to sums of their own first. */
#define MOMENTS_STRIP(NAME, T, SUM_COL_OF)                                                                      \
    void FAC_ISA_NAME(NAME)(const T *x, int64_t ld, int64_t rows, int64_t w, T *restrict mean, T *restrict low, \
                            T *restrict m2) {                                                                   \
        T part[FAC_MOMENTS_WIDTH], part_off[FAC_MOMENTS_WIDTH];                                                 \
        const T inv = 1 / (T)rows;                                                                              \
        memset(mean, 0, (size_t)w * sizeof *mean);                                                              \
        memset(low, 0, (size_t)w * sizeof *low);                                                                \
        memset(m2, 0, (size_t)w * sizeof *m2);                                                                  \
        for (int64_t i = 0; i < rows; i += 4 * FAC_CASCADE_STEPS) {                                             \
            const int64_t some = rows - i < 4 * FAC_CASCADE_STEPS ? rows - i : 4 * FAC_CASCADE_STEPS;           \
            memset(part, 0, (size_t)w * sizeof *part);                                                          \
            SUM_COL_OF(x + i * ld, ld, some, w, part);                                                          \
            for (int64_t j = 0; j < w; j++) mean[j] += part[j];                                                 \
        }                                                                                                       \
        for (int64_t j = 0; j < w; j++) mean[j] *= inv;                                                         \
        for (int64_t i = 0; i < rows; i += FAC_CASCADE_STEPS) {                                                 \
            const int64_t last = rows - i < FAC_CASCADE_STEPS ? rows : i + FAC_CASCADE_STEPS;                   \
            memset(part, 0, (size_t)w * sizeof *part);                                                          \
            memset(part_off, 0, (size_t)w * sizeof *part_off);                                                  \
            for (int64_t r = i; r < last; r++, x += ld) {                                                       \
                for (int64_t j = 0; j < w; j++) {                                                               \
                    T d = x[j] - mean[j];                                                                       \
                    part_off[j] += d;                                                                           \
                    part[j] += d * d;                                                                           \
                }                                                                                               \
            }                                                                                                   \
            for (int64_t j = 0; j < w; j++) low[j] += part_off[j], m2[j] += part[j];                            \
        }                                                                                                       \
        for (int64_t j = 0; j < w; j++) {                                                                       \
            T excess = low[j] * low[j] * inv;                                                                   \
            low[j] *= inv;                                                                                      \
            m2[j] = m2[j] < excess ? 0 : m2[j] - excess;                                                        \
        }                                                                                                       \
    }
MOMENTS_STRIP(fac__moments_strip_f32, float, sum_col_f32)
MOMENTS_STRIP(fac__moments_strip_f64, double, sum_col_f64)

/* ---- running sums ------------------------------------------------------------------------------------------------------- */

typedef double eight __attribute__((vector_size(64), aligned(8)));

/* The sum of an eight is added to `before` apart from its elements, so that the next eight waits for one addition. */
double FAC_ISA_NAME(fac__prefix_sum_f64)(double *x, int64_t n, double before) {
    const eight none = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        eight v = *(eight *)(x + i);
        v += __builtin_shufflevector(none, v, 0, 8, 9, 10, 11, 12, 13, 14);
        v += __builtin_shufflevector(none, v, 0, 0, 8, 9, 10, 11, 12, 13);
        v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 8, 9, 10, 11);
        *(eight *)(x + i) = v + before;
        before += v[7];
    }
    for (; i < n; i++) x[i] = before += x[i];
    return before;
}
