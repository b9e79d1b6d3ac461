/* exp and tanh of a whole vector, for kernels that have their data in registers already. exp is below 1 ulp with fused multiply-add, 2
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

#if FAC_VECTOR_BYTES == 64
/* The same of doubles, within 0.7 ulp: x = n ln2/16 + r; 2^(n/16) is of a table in registers, in two doubles, and q of degree 4. */
static inline fac_vf64 fac__vexp_f64(fac_vf64 x) {
    /* clang-format off */
    static const double at[] = {0x1p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
        0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0, 0x1.6a09e667f3bcdp+0,
        0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0, 0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0,
        0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0},
        rest[] = {0, 0x1.8a62e4adc610bp-54, -0x1.19041b9d78a76p-55, 0x1.9b07eb6c70573p-54, 0x1.6f46ad23182e4p-55,
        0x1.ada0911f09ebcp-55, 0x1.d4397afec42e2p-56, 0x1.6324c054647adp-54, -0x1.bdd3413b26456p-54,
        -0x1.41577ee04992fp-55, 0x1.6e9f156864b27p-54, 0x1.c7c46b071f2bep-56, 0x1.7a1cd345dcc81p-54,
        0x1.11065895048ddp-55, 0x1.2ed02d75b3707p-55, -0x1.e9c23179c2893p-54};
    /* clang-format on */
    const __m512d limited = _mm512_min_pd(_mm512_set1_pd(710), _mm512_max_pd(_mm512_set1_pd(-746), (__m512d)x));
    const __m512d magic = _mm512_set1_pd(0x1.8p+52),
                  t = _mm512_fmadd_pd(limited, _mm512_set1_pd(0x1.71547652b82fep+4), magic);
    const __m512d n = _mm512_sub_pd(t, magic),
                  high = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.62e42fefa39efp-5), limited),
                  r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.abc9e3b39803fp-60), high);
#define CHOSEN(table) \
    _mm512_permutex2var_pd(_mm512_loadu_pd(table), _mm512_castpd_si512(t), _mm512_loadu_pd((table) + 8))
    __m512d q = _mm512_set1_pd(0x1.6c17bb51f236dp-10);
    q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(0x1.11120af701debp-7));
    q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(0x1.55555555194d2p-5));
    q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(0x1.55555554dd44dp-3));
    q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(0x1.0000000000000p-1));
    q = _mm512_fmadd_pd(_mm512_mul_pd(q, r), r, r);
    const __m512d power = CHOSEN(at), y = _mm512_add_pd(power, _mm512_fmadd_pd(power, q, CHOSEN(rest)));
#undef CHOSEN
    return (fac_vf64)_mm512_scalef_pd(y, _mm512_mul_pd(n, _mm512_set1_pd(0x1p-4))); /* which rounds down */
}
#else
/* The same of doubles, within 1 ulp where multiplications fuse: q of degree 10. */
static inline fac_vf64 fac__vexp_f64(fac_vf64 x) {
    const fac_vf64 lo = fac_splat_f64(-746), hi = fac_splat_f64(710), magic = fac_splat_f64(0x1.8p+52);
#if FAC_VECTOR_BYTES == 32
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
    typedef uint64_t words __attribute__((vector_size(FAC_VECTOR_BYTES)));
    const words all = (words)t - (words)magic + 2048, first = all >> 1,
                second = all - first; /* 1,024 more than their parts each */
    return y * (fac_vf64)((first - 1) << 52) * (fac_vf64)((second - 1) << 52);
}
#endif

/* tanh of doubles, within 0.86 ulp where multiplications fuse: x + x^3 P(x^2) / Q(x^2) (Moshier's Cephes) below 0.625, from there on 1 - 2 / (exp(2x) + 1),
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

#if FAC_VECTOR_BYTES == 64
/* tanh of floats, within 1 ulp: of |x| in a quarter of a power of two, or below 1/8, tanh(c) + t P(t) with t = |x| - c, a fit of its own
   for each, which permutations choose by the exponent and two more bits. The tables begin with the exponents of even halves. Centres c lie
   where tanh(c) is nearly a float. */
static inline fac_vf32 fac__vtanh(fac_vf32 x) {
    /* clang-format off */
    static const float centre[32] = {0x1.1fff0ap+1f, 0x1.5fffe6p+1f, 0x1.a0006ep+1f, 0x1.e00028p+1f, 0x1.2000dap+2f,
        0x1.6005ep+2f, 0x1.9fefb2p+2f, 0x1.e01f3ep+2f, 0x1.10712ap+3f, 0, 0, 0, 0, 0, 0, 0, 0x1.200078p-3f,
        0x1.5fffe2p-3f, 0x1.9fffccp-3f, 0x1.e00038p-3f, 0x1.1fffe4p-2f, 0x1.5fffe8p-2f, 0x1.9fff82p-2f,
        0x1.e00062p-2f, 0x1.200078p-1f, 0x1.5fffdep-1f, 0x1.9fff5ep-1f, 0x1.dfffbp-1f, 0x1.20000cp+0f, 0x1.600018p+0f,
        0x1.9fffbp+0f, 0x1.e00028p+0f},
        at[32] = {0x1.f4bfacp-1f, 0x1.fbd508p-1f, 0x1.fe767cp-1f, 0x1.ff6f18p-1f, 0x1.ffdfa8p-1f, 0x1.fffbap-1f,
        0x1.ffff68p-1f, 0x1.ffffecp-1f, 0x1.fffffep-1f, 0, 0, 0, 0, 0, 0, 0, 0x1.1e1e46p-3f, 0x1.5c92eap-3f,
        0x1.9a5eeap-3f, 0x1.d76692p-3f, 0x1.18a38p-2f, 0x1.52c2bp-2f, 0x1.8a8776p-2f, 0x1.bfaebap-2f, 0x1.0508c8p-1f,
        0x1.3157cap-1f, 0x1.5788a6p-1f, 0x1.77d814p-1f, 0x1.9e5cbep-1f, 0x1.c278bp-1f, 0x1.d9c6e4p-1f,
        0x1.e878a6p-1f};
    static const float of[6][32] = {{0x1.6415c4p-5f, 0x1.09a814p-6f, 0x1.88ecccp-8f, 0x1.21a7p-9f, 0x1.02b958p-11f,
        0x1.180108p-14f, 0x1.2ffc6ep-17f, 0x1.473788p-20f, 0x1.59efa4p-23f, 0, 0, 0, 0, 0, 0, 0x1p+0f, 0x1.f601c2p-1f,
        0x1.f12b02p-1f, 0x1.eb715ep-1f, 0x1.e4dfacp-1f, 0x1.d98b3ep-1f, 0x1.c7f72ap-1f, 0x1.b3ff58p-1f,
        0x1.9e238cp-1f, 0x1.7aea8cp-1f, 0x1.49e6dap-1f, 0x1.198046p-1f, 0x1.d8354p-2f, 0x1.614fe8p-2f, 0x1.cea6f8p-3f,
        0x1.265edep-3f, 0x1.6fcf3ap-4f},
        {-0x1.5c428cp-5f, -0x1.077e76p-6f, -0x1.87becap-8f, -0x1.215502p-9f, -0x1.02a82cp-11f, -0x1.17fdc4p-14f,
        -0x1.2ffafap-17f, -0x1.4736a4p-20f, -0x1.59eee2p-23f, 0, 0, 0, 0, 0, 0, -0x1.5976fcp-25f, -0x1.1888aap-3f,
        -0x1.5279e4p-3f, -0x1.89e4e4p-3f, -0x1.be6ce4p-3f, -0x1.038f5ep-2f, -0x1.2daf8cp-2f, -0x1.4ff6dap-2f,
        -0x1.6a1d5cp-2f, -0x1.825e2p-2f, -0x1.897d2ap-2f, -0x1.79c12p-2f, -0x1.5aa248p-2f, -0x1.1def9cp-2f,
        -0x1.970dcep-3f, -0x1.1064fep-3f, -0x1.5ee82ep-4f},
        {0x1.bbd47p-6f, 0x1.5994fcp-7f, 0x1.03948ap-8f, 0x1.80e63ap-10f, 0x1.58575cp-12f, 0x1.74e574p-15f,
        0x1.94de7cp-18f, 0x1.b3d04ep-21f, 0x1.ccb414p-24f, 0, 0, 0, 0, 0, 0, -0x1.555426p-2f, -0x1.3b133ap-2f,
        -0x1.2ea402p-2f, -0x1.202a4p-2f, -0x1.0fdef4p-2f, -0x1.e91f08p-3f, -0x1.98589ep-3f, -0x1.4272ap-3f,
        -0x1.d71e62p-4f, -0x1.bd06e8p-5f, 0x1.d7669ap-7f, 0x1.072b2cp-4f, 0x1.84342ep-4f, 0x1.c68d88p-4f,
        0x1.97d7ecp-4f, 0x1.33dfa2p-4f, 0x1.a85bbp-5f},
        {-0x1.93d166p-7f, -0x1.4e3c2cp-8f, -0x1.007586p-9f, -0x1.7f345ap-11f, -0x1.582218p-13f, -0x1.74faecp-16f,
        -0x1.950b4cp-19f, -0x1.b3ec12p-22f, -0x1.ccc49ap-25f, 0, 0, 0, 0, 0, 0, -0x1.5ba6b2p-13f, 0x1.6b1826p-4f,
        0x1.afb0e8p-4f, 0x1.ed8fdap-4f, 0x1.11f7p-3f, 0x1.3316dp-3f, 0x1.503692p-3f, 0x1.5c35a4p-3f, 0x1.5864d8p-3f,
        0x1.3a4ce2p-3f, 0x1.e982a4p-4f, 0x1.47188cp-4f, 0x1.626b8p-5f, 0x1.ac44d2p-9f, -0x1.5dd64cp-6f,
        -0x1.9d2aeap-6f, -0x1.55d64p-6f},
        {0x1.04a238p-8f, 0x1.f5f552p-10f, 0x1.93f278p-11f, 0x1.32db7ep-12f, 0x1.1e73cep-14f, 0x1.372618p-17f,
        0x1.51f56p-20f, 0x1.6bd282p-23f, 0x1.814906p-26f, 0, 0, 0, 0, 0, 0, 0x1.168758p-3f, 0x1.ca8cdep-4f,
        0x1.a25fb6p-4f, 0x1.74a4c4p-4f, 0x1.428a98p-4f, 0x1.e3c93ap-5f, 0x1.05c5b6p-5f, 0x1.8490d2p-8f,
        -0x1.192328p-6f, -0x1.642ce8p-5f, -0x1.f85e7ap-5f, -0x1.00b12p-4f, -0x1.b2ab1p-5f, -0x1.06754cp-5f,
        -0x1.37bf84p-7f, 0x1.6dab8cp-10f, 0x1.2d8854p-8f},
        {-0x1.78b9a2p-11f, -0x1.1dfbbp-11f, -0x1.fe88a2p-13f, -0x1.90f674p-14f, -0x1.799e72p-16f, -0x1.9beb7ep-19f,
        -0x1.be9b24p-22f, -0x1.e33428p-25f, -0x1.009edap-27f, 0, 0, 0, 0, 0, 0, -0x1.40b4bp-6f, -0x1.8b257cp-5f,
        -0x1.cc35d6p-5f, -0x1.00bd1cp-4f, -0x1.14c354p-4f, -0x1.25e05ap-4f, -0x1.260b1p-4f, -0x1.0f2834p-4f,
        -0x1.cdc516p-5f, -0x1.313bfcp-5f, -0x1.7c8d48p-7f, 0x1.d98974p-8f, 0x1.16157ap-6f, 0x1.2eb104p-6f,
        0x1.678162p-7f, 0x1.0dd3d2p-8f, 0x1.5487a2p-11f}};
    /* clang-format on */
    const __m512 size = _mm512_min_ps(_mm512_set1_ps(9.02f), _mm512_abs_ps((__m512)x)); /* NaN passes */
    const __m512i n = _mm512_srli_epi32((__m512i)_mm512_max_ps(size, _mm512_set1_ps(0x1.cp-4f)), 21);
#define CHOSEN(table) (fac_vf32) _mm512_permutex2var_ps(_mm512_loadu_ps(table), n, _mm512_loadu_ps((table) + 16))
    const fac_vf32 t = (fac_vf32)size - CHOSEN(centre);
    fac_vf32 p = CHOSEN(of[5]);
    for (int i = 4; i >= 0; i--) p = fac_fma_f32(p, t, CHOSEN(of[i]));
    p = fac_fma_f32(p, t, CHOSEN(at));
#undef CHOSEN
    return (fac_vf32)(((fac_vi32)x & INT32_MIN) | (fac_vi32)p);
}
#endif

#endif
