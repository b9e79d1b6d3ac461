/* Vectors of the instruction set a file is compiled for, in GNU C vector types: 64 bytes with AVX-512, 32 with AVX2, else
   16. Contraction is off in the whole library, so a fused multiply-add is asked for by name; where the hardware has none
   fac_fma_* is a product and a sum. For *.isa.c files only. */
#ifndef FAC_SRC_BACKEND_CPU_SIMD_H
#define FAC_SRC_BACKEND_CPU_SIMD_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define FAC_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#define FAC_VECTOR_BYTES 32
#else
#define FAC_VECTOR_BYTES 16
#endif

typedef float fac_vf32 __attribute__((vector_size(FAC_VECTOR_BYTES)));
typedef double fac_vf64 __attribute__((vector_size(FAC_VECTOR_BYTES)));
#define FAC_LANES_F32 (FAC_VECTOR_BYTES / 4)
#define FAC_LANES_F64 (FAC_VECTOR_BYTES / 8)

/* a * b + c. */
static inline fac_vf32 fac_fma_f32(fac_vf32 a, fac_vf32 b, fac_vf32 c) {
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif FAC_VECTOR_BYTES == 32
    return (fac_vf32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
static inline fac_vf64 fac_fma_f64(fac_vf64 a, fac_vf64 b, fac_vf64 c) {
#if FAC_VECTOR_BYTES == 64
    return (fac_vf64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif FAC_VECTOR_BYTES == 32
    return (fac_vf64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}
/* The same for one lane, with the same rounding as the vectors'. */
static inline float fac_fma1_f32(float a, float b, float c) {
#if FAC_VECTOR_BYTES > 16
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
static inline double fac_fma1_f64(double a, double b, double c) {
#if FAC_VECTOR_BYTES > 16
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

static inline fac_vf32 fac_load_f32(const float *p) {
    fac_vf32 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline fac_vf64 fac_load_f64(const double *p) {
    fac_vf64 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void fac_store_f32(float *p, fac_vf32 v) { memcpy(p, &v, sizeof v); }
static inline void fac_store_f64(double *p, fac_vf64 v) { memcpy(p, &v, sizeof v); }
static inline fac_vf32 fac_splat_f32(float x) { return x - (fac_vf32){0}; }
static inline fac_vf64 fac_splat_f64(double x) { return x - (fac_vf64){0}; }

/* The lower and the upper half of a vector of floats. */
#if FAC_VECTOR_BYTES == 64
#define FAC_LO_F32(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define FAC_HI_F32(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#elif FAC_VECTOR_BYTES == 32
#define FAC_LO_F32(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define FAC_HI_F32(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#else
#define FAC_LO_F32(v) __builtin_shufflevector(v, v, 0, 1)
#define FAC_HI_F32(v) __builtin_shufflevector(v, v, 2, 3)
#endif

/* The sum of the lanes: one half is added to the other until one lane is left. */
static inline float fac_sum_f32(fac_vf32 v) {
    typedef float four __attribute__((vector_size(16)));
#if FAC_VECTOR_BYTES == 64
    typedef float eight __attribute__((vector_size(32)));
    const eight h = FAC_LO_F32(v) + FAC_HI_F32(v);
    const four q = __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#elif FAC_VECTOR_BYTES == 32
    const four q = FAC_LO_F32(v) + FAC_HI_F32(v);
#else
    const four q = v;
#endif
    return (q[0] + q[2]) + (q[1] + q[3]);
}
static inline double fac_sum_f64(fac_vf64 v) {
    typedef double two __attribute__((vector_size(16)));
#if FAC_VECTOR_BYTES == 64
    typedef double four __attribute__((vector_size(32)));
    const four h = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
    const two q = __builtin_shufflevector(h, h, 0, 1) + __builtin_shufflevector(h, h, 2, 3);
#elif FAC_VECTOR_BYTES == 32
    const two q = __builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3);
#else
    const two q = v;
#endif
    return q[0] + q[1];
}

/* Interleaving of the lower and of the upper halves of two vectors: a0 b0 a1 b1 ... */
#if FAC_VECTOR_BYTES == 64
#define FAC_ZIP_LO_F32(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define FAC_ZIP_HI_F32(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define FAC_ZIP_LO_F64(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define FAC_ZIP_HI_F64(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif FAC_VECTOR_BYTES == 32
#define FAC_ZIP_LO_F32(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define FAC_ZIP_HI_F32(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define FAC_ZIP_LO_F64(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define FAC_ZIP_HI_F64(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define FAC_ZIP_LO_F32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define FAC_ZIP_HI_F32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define FAC_ZIP_LO_F64(a, b) __builtin_shufflevector(a, b, 0, 2)
#define FAC_ZIP_HI_F64(a, b) __builtin_shufflevector(a, b, 1, 3)
#endif

/* v[lanes] as rows -> columns, in place: log2(lanes) rounds of shuffles. */
#if FAC_VECTOR_BYTES == 64
/* Interleaving within the quarters of vectors makes quarters of columns, which the last two rounds bring together. */
static inline __attribute__((always_inline)) void fac_transpose_f32(fac_vf32 *v) {
    __m512 t[16], u[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            const __m512d a = (__m512d)t[i + k], b = (__m512d)t[i + k + 2];
            u[i + 2 * k] = (__m512)_mm512_unpacklo_pd(a, b);
            u[i + 2 * k + 1] = (__m512)_mm512_unpackhi_pd(a, b);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88), b = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xdd),
                     c = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88),
                     d = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xdd);
        v[i] = (fac_vf32)_mm512_shuffle_f32x4(a, c, 0x88);
        v[i + 4] = (fac_vf32)_mm512_shuffle_f32x4(b, d, 0x88);
        v[i + 8] = (fac_vf32)_mm512_shuffle_f32x4(a, c, 0xdd);
        v[i + 12] = (fac_vf32)_mm512_shuffle_f32x4(b, d, 0xdd);
    }
}
static inline __attribute__((always_inline)) void fac_transpose_f64(fac_vf64 *v) {
    __m512d t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd((__m512d)v[i], (__m512d)v[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd((__m512d)v[i], (__m512d)v[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const __m512d a = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88), b = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd),
                      c = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88),
                      d = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
        v[i] = (fac_vf64)_mm512_shuffle_f64x2(a, c, 0x88);
        v[i + 2] = (fac_vf64)_mm512_shuffle_f64x2(b, d, 0x88);
        v[i + 4] = (fac_vf64)_mm512_shuffle_f64x2(a, c, 0xdd);
        v[i + 6] = (fac_vf64)_mm512_shuffle_f64x2(b, d, 0xdd);
    }
}
#else
#define FAC_TRANSPOSE(name, V, LANES, ZIP_LO, ZIP_HI)                             \
    static inline __attribute__((always_inline)) void name(V *v) {                \
        V t[LANES];                                                               \
        _Pragma("GCC unroll 4") for (int round = LANES; round > 1; round /= 2) {  \
            _Pragma("GCC unroll 8") for (int i = 0; i < LANES / 2; i++) {         \
                t[2 * i] = ZIP_LO(v[i], v[i + LANES / 2]);                        \
                t[2 * i + 1] = ZIP_HI(v[i], v[i + LANES / 2]);                    \
            }                                                                     \
            _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] = t[i]; \
        }                                                                         \
    }
FAC_TRANSPOSE(fac_transpose_f32, fac_vf32, FAC_LANES_F32, FAC_ZIP_LO_F32, FAC_ZIP_HI_F32)
FAC_TRANSPOSE(fac_transpose_f64, fac_vf64, FAC_LANES_F64, FAC_ZIP_LO_F64, FAC_ZIP_HI_F64)
#endif

#define FAC_PASTE_(a, b) a##b
#define FAC_PASTE(a, b) FAC_PASTE_(a, b)

#endif
