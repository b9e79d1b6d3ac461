/* exp of a whole vector, for kernels that have their data in registers already. Below 1 ulp with fused multiply-add, 2
   without; 0 and inf where the result leaves the range, NaN stays NaN. For *.isa.c files only.
   x = n ln2 + r with |r| <= ln2/2; exp(r) = 1 + r + r^2 q(r), q a minimax polynomial of degree 4 (error 3e-9). */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_VEXP_H
#define FAC_SRC_BACKEND_CPU_KERNELS_VEXP_H

#include "backend/cpu/simd.h"

typedef int32_t fac_vi32 __attribute__((vector_size(FAC_VECTOR_BYTES)));

/* x limited to [-104, 89], where exp is 0 and inf; NaN passes. */
static inline fac_vf32 fac__vexp_clamp(fac_vf32 x) {
    const fac_vf32 lo = fac_splat_f32(-104.0f), hi = fac_splat_f32(89.0f);
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_min_ps((__m512)hi, _mm512_max_ps((__m512)lo, (__m512)x));
#elif FAC_VECTOR_BYTES == 32
    return (fac_vf32)_mm256_min_ps((__m256)hi, _mm256_max_ps((__m256)lo, (__m256)x));
#elif defined(__SSE__)
    return (fac_vf32)_mm_min_ps((__m128)hi, _mm_max_ps((__m128)lo, (__m128)x));
#else
    for (int j = 0; j < FAC_LANES_F32; j++) x[j] = lo[j] > x[j] ? lo[j] : hi[j] < x[j] ? hi[j] : x[j];
    return x;
#endif
}

/* 1 / x of a normal x whose inverse is one, within 2^-23 of its size, and of doubles within 2^-27: quicker than a quotient where the
   processor has estimates. */
static inline fac_vf32 fac__vinverse(fac_vf32 x) {
#if FAC_VECTOR_BYTES == 64
    const fac_vf32 i = (fac_vf32)_mm512_rcp14_ps((__m512)x);
    return fac_fma_f32(i, fac_fma_f32(-x, i, fac_splat_f32(1)), i);
#else
    return 1 / x;
#endif
}
static inline fac_vf64 fac__vinverse_f64(fac_vf64 x) {
#if FAC_VECTOR_BYTES == 64
    const fac_vf64 i = (fac_vf64)_mm512_rcp14_pd((__m512d)x);
#else
    typedef float narrow __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
    const fac_vf64 i = __builtin_convertvector(1 / __builtin_convertvector(x, narrow), fac_vf64);
#endif
    return fac_fma_f64(i, fac_fma_f64(-x, i, fac_splat_f64(1)), i);
}

/* y * 2^n in two steps, so that neither factor leaves the range. */
static inline fac_vf32 fac__vscale(fac_vf32 y, fac_vi32 n) {
    fac_vi32 a = n >> 1, b = n - a;
    return y * (fac_vf32)((a + 127) << 23) * (fac_vf32)((b + 127) << 23);
}

static inline fac_vf32 fac__vexp(fac_vf32 x) {
    const fac_vf32 magic = fac_splat_f32(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    x = fac__vexp_clamp(x);
    fac_vf32 t = fac_fma_f32(x, fac_splat_f32(1.44269504f), magic), n = t - magic;
    fac_vf32 r = fac_fma_f32(n, fac_splat_f32(-0.693359375f), x);
    r = fac_fma_f32(n, fac_splat_f32(2.12194440e-4f), r);
    fac_vf32 q = fac_fma_f32(fac_splat_f32(0x1.6a2434p-10f), r, fac_splat_f32(0x1.1239e2p-7f));
    q = fac_fma_f32(q, r, fac_splat_f32(0x1.5558f2p-5f));
    q = fac_fma_f32(q, r, fac_splat_f32(0x1.555492p-3f));
    q = fac_fma_f32(q, r, fac_splat_f32(0x1.fffffcp-2f));
    fac_vf32 y = fac_fma_f32(fac_fma_f32(q, r, fac_splat_f32(1)), r, fac_splat_f32(1));
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_scalef_ps((__m512)y, (__m512)n);
#else
    return fac__vscale(y, (fac_vi32)t - (fac_vi32)magic);
#endif
}

/* The same of doubles, within 1 ulp where multiplications fuse: q of degree 10. */
static inline fac_vf64 fac__vexp_f64(fac_vf64 x) {
    const fac_vf64 lo = fac_splat_f64(-746), hi = fac_splat_f64(710), magic = fac_splat_f64(0x1.8p+52);
#if FAC_VECTOR_BYTES == 64
    x = (fac_vf64)_mm512_min_pd((__m512d)hi, _mm512_max_pd((__m512d)lo, (__m512d)x));
#elif FAC_VECTOR_BYTES == 32
    x = (fac_vf64)_mm256_min_pd((__m256d)hi, _mm256_max_pd((__m256d)lo, (__m256d)x));
#else
    for (int j = 0; j < FAC_LANES_F64; j++) x[j] = lo[j] > x[j] ? lo[j] : hi[j] < x[j] ? hi[j] : x[j];
#endif
    const fac_vf64 t = fac_fma_f64(x, fac_splat_f64(0x1.71547652b82fep+0), magic), n = t - magic;
    const fac_vf64 most = fac_fma_f64(n, fac_splat_f64(-0x1.62e42fefa39efp-1), x), less = n * -0x1.abc9e3b39803fp-56;
    const fac_vf64 r = most + less, lost = less - (r - most);
    static const double of[] = {2.51112930892876518610661e-08, 2.75573911234900471893338e-07,
                                2.75572362911928827629423e-06, 2.4801587159235472998791e-05,
                                0.000198412698960509205564975, 0.00138888888889774492207962,
                                0.00833333333331652721664984,  0.0416666666666665047591422,
                                0.166666666666666851703837,    0.5};
    fac_vf64 q = fac_splat_f64(2.08860621107283687536341e-09);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) q = fac_fma_f64(q, r, fac_splat_f64(of[i]));
    const fac_vf64 y = fac_fma_f64(q * r, r, lost) + r + 1.0;
#if FAC_VECTOR_BYTES == 64
    return (fac_vf64)_mm512_scalef_pd((__m512d)y, (__m512d)n);
#else
    typedef uint64_t words __attribute__((vector_size(FAC_VECTOR_BYTES)));
    const words all = (words)t - (words)magic + 2048, first = all >> 1,
                second = all - first; /* 1,024 more than their parts each */
    return y * (fac_vf64)((first - 1) << 52) * (fac_vf64)((second - 1) << 52);
#endif
}

/* tanh of doubles, within 0.85 ulp where multiplications fuse: x + x^3 P(x^2) / Q(x^2) (Moshier's Cephes) below 0.625, from there on 1 - 2 / (exp(2x) + 1),
   where what the roundings of the sum, the quotient and the difference have lost is made up for. From 20 on it is 1. */
static inline fac_vf64 fac__vtanh_f64(fac_vf64 x) {
    typedef int64_t bits __attribute__((vector_size(FAC_VECTOR_BYTES)));
#define CHOOSE(which, a, b) ((fac_vf64)((which & (bits)(a)) | (~which & (bits)(b))))
    const fac_vf64 size = (fac_vf64)((bits)x & INT64_MAX), s = x * x, one = fac_splat_f64(1);
    const bits far = size > 20, small = size < 0.625, sign = (bits)x & INT64_MIN;
    const fac_vf64 e = fac__vexp_f64(2 * CHOOSE(far, 20 * one, size));
    fac_vf64 p = fac_fma_f64(fac_splat_f64(-9.64399179425052238628e-1), s, fac_splat_f64(-9.92877231001918586564e1));
    p = fac_fma_f64(p, s, fac_splat_f64(-1.61468768441708447952e3));
    fac_vf64 q = fac_fma_f64(s + 1.12811678491632931402e2, s, fac_splat_f64(2.23548839060100448583e3));
    q = fac_fma_f64(q, s, fac_splat_f64(4.84406305325125486048e3));
    const fac_vf64 over = CHOOSE(small, q, e + 1), top = CHOOSE(small, p, 2 * one);
    const fac_vf64 inverse = fac__vinverse_f64(over), ratio = top * inverse;
    const fac_vf64 lost = (fac_vf64)((bits)(1 - (over - e)) & ~small);
    const fac_vf64 low = (fac_fma_f64(-ratio, over, top) - ratio * lost) * inverse;
    const fac_vf64 up = 1 - ratio, large = up + (((1 - up) - ratio) - low);
    return (fac_vf64)((bits)CHOOSE(small, fac_fma_f64(x * s, ratio + low, x), large) | sign); /* -0 is of none */
#undef CHOOSE
}

#endif
