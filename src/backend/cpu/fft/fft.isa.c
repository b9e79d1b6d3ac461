/* Inner loops of Fourier transforms: fft_body.h for float32 and float64. */
#include "backend/cpu/fft/fft.h"
#include "backend/cpu/simd.h"

/* Vectors of 2, 4, 8 and 16 lanes: the even elements and the odd elements of two, and the elements of one backwards. */
#define EVEN2(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODD2(a, b) __builtin_shufflevector(a, b, 1, 3)
#define BACK2(a) __builtin_shufflevector(a, a, 1, 0)
#define EVEN4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD4(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define BACK4(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#define EVEN8(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD8(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define BACK8(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#define EVEN16(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD16(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define BACK16(a) __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

int FAC_ISA_NAME(fac__fft_vector)(void) { return FAC_VECTOR_BYTES; }

/* Squares of LANES rows that become columns on their way from memory: square_*, of rows `step` apart, and pairs_*, of points i to
   i + LANES - 1 of LANES lines, whose parts come apart. Here those of 64-byte vectors, which are put together of quarters, by the ports that load, so that
   shuffles, of which there is one a cycle, stay within quarters and are half as many. */
#if FAC_VECTOR_BYTES == 64
static FAC_ALWAYS_INLINE __m512 quarters(const void *a, const void *b, const void *c, const void *d) {
    const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1),
                 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(c)), _mm_loadu_ps(d), 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
/* Rows 0 to 3 of each quarter become its columns. */
static FAC_ALWAYS_INLINE void turn_quarters(const __m512 *a, fac_vf32 *v0, fac_vf32 *v1, fac_vf32 *v2, fac_vf32 *v3) {
    const __m512d low = (__m512d)_mm512_unpacklo_ps(a[0], a[1]), low2 = (__m512d)_mm512_unpacklo_ps(a[2], a[3]),
                  high = (__m512d)_mm512_unpackhi_ps(a[0], a[1]), high2 = (__m512d)_mm512_unpackhi_ps(a[2], a[3]);
    *v0 = (fac_vf32)_mm512_unpacklo_pd(low, low2);
    *v1 = (fac_vf32)_mm512_unpackhi_pd(low, low2);
    *v2 = (fac_vf32)_mm512_unpacklo_pd(high, high2);
    *v3 = (fac_vf32)_mm512_unpackhi_pd(high, high2);
}
static FAC_ALWAYS_INLINE void square_f32(fac_vf32 *v, const float *at, int64_t step) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        __m512 a[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const float *p = at + k * step + 4 * q;
            a[k] = quarters(p, p + 4 * step, p + 8 * step, p + 12 * step);
        }
        turn_quarters(a, &v[4 * q], &v[4 * q + 1], &v[4 * q + 2], &v[4 * q + 3]);
    }
}
static FAC_ALWAYS_INLINE void pairs_f32(fac_vf32 *re, fac_vf32 *im, float *const *at, int64_t i) {
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) {
        const int64_t p = 2 * (i + 2 * q);
        __m512 a[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) a[k] = quarters(at[k] + p, at[4 + k] + p, at[8 + k] + p, at[12 + k] + p);
        turn_quarters(a, &re[2 * q], &im[2 * q], &re[2 * q + 1], &im[2 * q + 1]);
    }
}
/* The other way: LANES points of lanes become the halves of LANES lines. */
static FAC_ALWAYS_INLINE void turn_wholes(__m512 a, __m512 b, __m512 c, __m512 d, __m512 *v0, __m512 *v1, __m512 *v2,
                                          __m512 *v3) {
    const __m512 low = _mm512_shuffle_f32x4(a, b, 0x44), high = _mm512_shuffle_f32x4(a, b, 0xee),
                 low2 = _mm512_shuffle_f32x4(c, d, 0x44), high2 = _mm512_shuffle_f32x4(c, d, 0xee);
    *v0 = _mm512_shuffle_f32x4(low, low2, 0x88);
    *v1 = _mm512_shuffle_f32x4(low, low2, 0xdd);
    *v2 = _mm512_shuffle_f32x4(high, high2, 0x88);
    *v3 = _mm512_shuffle_f32x4(high, high2, 0xdd);
}
static FAC_ALWAYS_INLINE void unpair_f32(fac_vf32 *re, fac_vf32 *im) {
    fac_vf32 t[8][4];
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) {
        const __m512 a[4] = {(__m512)re[2 * q], (__m512)im[2 * q], (__m512)re[2 * q + 1], (__m512)im[2 * q + 1]};
        turn_quarters(a, &t[q][0], &t[q][1], &t[q][2], &t[q][3]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        turn_wholes((__m512)t[0][k], (__m512)t[1][k], (__m512)t[2][k], (__m512)t[3][k], (__m512 *)&re[k],
                    (__m512 *)&re[4 + k], (__m512 *)&re[8 + k], (__m512 *)&re[12 + k]);
        turn_wholes((__m512)t[4][k], (__m512)t[5][k], (__m512)t[6][k], (__m512)t[7][k], (__m512 *)&im[k],
                    (__m512 *)&im[4 + k], (__m512 *)&im[8 + k], (__m512 *)&im[12 + k]);
    }
}
static FAC_ALWAYS_INLINE void unpair_f64(fac_vf64 *re, fac_vf64 *im) {
    __m512 t[8][2];
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) {
        t[q][0] = (__m512)_mm512_unpacklo_pd((__m512d)re[q], (__m512d)im[q]);
        t[q][1] = (__m512)_mm512_unpackhi_pd((__m512d)re[q], (__m512d)im[q]);
    }
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
        turn_wholes(t[0][k], t[1][k], t[2][k], t[3][k], (__m512 *)&re[k], (__m512 *)&re[2 + k], (__m512 *)&re[4 + k],
                    (__m512 *)&re[6 + k]);
        turn_wholes(t[4][k], t[5][k], t[6][k], t[7][k], (__m512 *)&im[k], (__m512 *)&im[2 + k], (__m512 *)&im[4 + k],
                    (__m512 *)&im[6 + k]);
    }
}
static FAC_ALWAYS_INLINE void square_f64(fac_vf64 *v, const double *at, int64_t step) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        const double *p = at + 2 * q, *o = p + step;
        const __m512d even = (__m512d)quarters(p, p + 2 * step, p + 4 * step, p + 6 * step),
                      odd = (__m512d)quarters(o, o + 2 * step, o + 4 * step, o + 6 * step);
        v[2 * q] = (fac_vf64)_mm512_unpacklo_pd(even, odd);
        v[2 * q + 1] = (fac_vf64)_mm512_unpackhi_pd(even, odd);
    }
}
static FAC_ALWAYS_INLINE void pairs_f64(fac_vf64 *re, fac_vf64 *im, double *const *at, int64_t i) {
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) {
        const int64_t p = 2 * (i + q);
        const __m512d even = (__m512d)quarters(at[0] + p, at[2] + p, at[4] + p, at[6] + p),
                      odd = (__m512d)quarters(at[1] + p, at[3] + p, at[5] + p, at[7] + p);
        re[q] = (fac_vf64)_mm512_unpacklo_pd(even, odd);
        im[q] = (fac_vf64)_mm512_unpackhi_pd(even, odd);
    }
}
#endif

/* Which lanes of two vectors make the real and the imaginary parts of pairs, or pairs of parts; the other way round where parts are
   exchanged, so that an exchange costs nothing. */
#if FAC_VECTOR_BYTES == 64
static const int32_t READ_F32[2][16] = {{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30},
                                        {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}};
static const int32_t WRITE_F32[2][16] = {{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23},
                                         {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}};
static const int64_t READ_F64[2][8] = {{0, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 15}};
static const int64_t WRITE_F64[2][8] = {{0, 8, 1, 9, 2, 10, 3, 11}, {4, 12, 5, 13, 6, 14, 7, 15}};
static const float TURNS_F32[17] = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
static const double TURNS_F64[9] = {1, -1, 1, -1, 1, -1, 1, -1, 1};
/* Parts of pairs exchanged. */
#define FLIP_F32(a) ((fac_vf32)_mm512_permute_ps((__m512)(a), 0xb1))
#define FLIP_F64(a) ((fac_vf64)_mm512_permute_pd((__m512d)(a), 0x55))
static FAC_ALWAYS_INLINE fac_vf32 pick_f32(fac_vf32 a, __m512i which, fac_vf32 b) {
    return (fac_vf32)_mm512_permutex2var_ps((__m512)a, which, (__m512)b);
}
static FAC_ALWAYS_INLINE fac_vf64 pick_f64(fac_vf64 a, __m512i which, fac_vf64 b) {
    return (fac_vf64)_mm512_permutex2var_pd((__m512d)a, which, (__m512d)b);
}
/* The first n elements of a vector, for any n: the others are zero, or are not written. */
static FAC_ALWAYS_INLINE unsigned first_bits(int64_t n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (1U << n) - 1; }
static FAC_ALWAYS_INLINE fac_vf32 load_first_f32(const float *at, int64_t n) {
    return (fac_vf32)_mm512_maskz_loadu_ps((__mmask16)first_bits(n), at);
}
static FAC_ALWAYS_INLINE fac_vf64 load_first_f64(const double *at, int64_t n) {
    return (fac_vf64)_mm512_maskz_loadu_pd((__mmask8)first_bits(n), at);
}
static FAC_ALWAYS_INLINE void store_first_f32(float *at, fac_vf32 v, int64_t n) {
    _mm512_mask_storeu_ps(at, (__mmask16)first_bits(n), (__m512)v);
}
static FAC_ALWAYS_INLINE void store_first_f64(double *at, fac_vf64 v, int64_t n) {
    _mm512_mask_storeu_pd(at, (__mmask8)first_bits(n), (__m512d)v);
}
#endif

#define T float
#define READ_LANES READ_F32
#define WRITE_LANES WRITE_F32
#define TURNS TURNS_F32
#define FLIP FLIP_F32
#define LANE_BITS _mm512_set1_epi32
#define VT fac_vf32
#define LANES FAC_LANES_F32
#define X(name) name##_f32
#define FMA fac_fma_f32
#define LOAD fac_load_f32
#define STORE fac_store_f32
#define SPLAT fac_splat_f32
#define TRANSPOSE fac_transpose_f32
#define ZIP_LO FAC_ZIP_LO_F32
#define ZIP_HI FAC_ZIP_HI_F32
#if FAC_VECTOR_BYTES == 64
#define EVEN EVEN16
#define ODD ODD16
#define BACK BACK16
#elif FAC_VECTOR_BYTES == 32
#define EVEN EVEN8
#define ODD ODD8
#define BACK BACK8
#else
#define EVEN EVEN4
#define ODD ODD4
#define BACK BACK4
#endif
#include "backend/cpu/fft/fft_body.h"

#undef T
#undef VT
#undef LANES
#undef X
#undef FMA
#undef LOAD
#undef STORE
#undef SPLAT
#undef TRANSPOSE
#undef ZIP_LO
#undef ZIP_HI
#undef EVEN
#undef ODD
#undef BACK
#undef READ_LANES
#undef WRITE_LANES
#undef TURNS
#undef FLIP
#undef LANE_BITS
#define T double
#define READ_LANES READ_F64
#define WRITE_LANES WRITE_F64
#define TURNS TURNS_F64
#define FLIP FLIP_F64
#define LANE_BITS _mm512_set1_epi64
#define VT fac_vf64
#define LANES FAC_LANES_F64
#define X(name) name##_f64
#define FMA fac_fma_f64
#define LOAD fac_load_f64
#define STORE fac_store_f64
#define SPLAT fac_splat_f64
#define TRANSPOSE fac_transpose_f64
#define ZIP_LO FAC_ZIP_LO_F64
#define ZIP_HI FAC_ZIP_HI_F64
#if FAC_VECTOR_BYTES == 64
#define EVEN EVEN8
#define ODD ODD8
#define BACK BACK8
#elif FAC_VECTOR_BYTES == 32
#define EVEN EVEN4
#define ODD ODD4
#define BACK BACK4
#else
#define EVEN EVEN2
#define ODD ODD2
#define BACK BACK2
#endif
#include "backend/cpu/fft/fft_body.h"
