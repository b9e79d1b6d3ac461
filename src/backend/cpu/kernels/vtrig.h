/* Sines, cosines and tangents of whole vectors of floats up to FAC_VTRIG_MOST, within 1 ulp, and arc tangents; a caller takes others for larger numbers.
   NaN stays NaN. They need fused multiplication. For *.isa.c files only.
   x = n pi/2 + h + l, with |h| <= pi/4 and l what rounding h has lost; the polynomials are minimax in h^2, fitted. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_VTRIG_H
#define FAC_SRC_BACKEND_CPU_KERNELS_VTRIG_H

#include "backend/cpu/kernels/vexp.h"

#include <stdbool.h>

#define FAC_VTRIG_MOST 100000.0f

static inline fac_vf32 fac__vtrig_size(fac_vf32 x) { return (fac_vf32)((fac_vi32)x & 0x7fffffff); }

/* Whether any lane is beyond the range. */
static inline bool fac__vtrig_far(fac_vf32 x) {
#if FAC_VECTOR_BYTES == 64
    return _mm512_cmp_ps_mask(_mm512_abs_ps((__m512)x), _mm512_set1_ps(FAC_VTRIG_MOST), _CMP_GT_OQ) != 0;
#elif FAC_VECTOR_BYTES == 32
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)fac__vtrig_size(x), _mm256_set1_ps(FAC_VTRIG_MOST), _CMP_GT_OQ)) !=
           0;
#else
    bool far = false;
    for (int j = 0; j < FAC_LANES_F32; j++) far |= fac__vtrig_size(x)[j] > FAC_VTRIG_MOST;
    return far;
#endif
}

/* The two low bits of n. pi/2 is the sum of three floats; n times the first one is taken from x exactly. */
static inline fac_vi32 fac__vtrig_reduce(fac_vf32 x, fac_vf32 *high, fac_vf32 *low) {
    const fac_vf32 magic = fac_splat_f32(0x1.8p+23f); /* adding it rounds to an integer in the low bits */
    const fac_vf32 t = fac_fma_f32(x, fac_splat_f32(0x1.45f306p-1f), magic), n = t - magic;
    const fac_vf32 r = fac_fma_f32(n, fac_splat_f32(-0x1.921fb6p+0f), x);
    const fac_vf32 c = fac_splat_f32(0x1.777a5cp-25f), p = n * c, h = r + p, moved = h - r;
    const fac_vf32 l = fac_fma_f32(n, c, -p) + ((r - (h - moved)) + (p - moved));
    *high = h;
    *low = fac_fma_f32(n, fac_splat_f32(0x1.ee59dap-50f), l);
    return (fac_vi32)t & 3;
}

/* The sine of x >= 0 and `more` right angles. */
static inline fac_vf32 fac__vtrig_sine(fac_vf32 x, int more) {
    fac_vf32 h, l;
    const fac_vi32 n = fac__vtrig_reduce(x, &h, &l) + more, odd = -(n & 1);
    const fac_vf32 s = h * h, half = fac_splat_f32(-0.5f);
    fac_vf32 p = fac_fma_f32(fac_splat_f32(-0x1.994b3ep-13f), s, fac_splat_f32(0x1.110756p-7f));
    p = fac_fma_f32(p, s, fac_splat_f32(-0x1.555546p-3f));
    const fac_vf32 sine = fac_fma_f32(s * h, p, fac_fma_f32(l * s, half, l)) + h;
    fac_vf32 q = fac_fma_f32(fac_splat_f32(0x1.99ff3ep-16f), s, fac_splat_f32(-0x1.6c0c82p-10f));
    q = fac_fma_f32(q, s, fac_splat_f32(0x1.55554ap-5f));
    const fac_vf32 w = fac_fma_f32(s, half, fac_splat_f32(1)), lost = fac_fma_f32(s, half, 1 - w);
    const fac_vf32 cosine = w + (lost + fac_fma_f32(q * s, s, -(h * l)));
    return (fac_vf32)((((fac_vi32)cosine & odd) | ((fac_vi32)sine & ~odd)) ^ ((n & 2) << 30));
}

static inline fac_vf32 fac__vsin(fac_vf32 x) {
    const fac_vf32 size = fac__vtrig_size(x);
    return (fac_vf32)((fac_vi32)fac__vtrig_sine(size, 0) ^ ((fac_vi32)x ^ (fac_vi32)size));
}
static inline fac_vf32 fac__vcos(fac_vf32 x) { return fac__vtrig_sine(fac__vtrig_size(x), 1); }

/* After an odd number of right angles -1 / tan(h + l), a quotient that is corrected by what its product with the tangent lacks. */
static inline fac_vf32 fac__vtan(fac_vf32 x) {
    static const float of[] = {0x1.1e1942p-14f, 0x1.639aa2p-7f, 0x1.5c9644p-6f,
                               0x1.bade46p-5f,  0x1.110d80p-3f, 0x1.555560p-2f};
    const fac_vf32 size = fac__vtrig_size(x);
    fac_vf32 h, l;
    const fac_vi32 turns = fac__vtrig_reduce(size, &h, &l);
#if FAC_VECTOR_BYTES == 64
    const __mmask16 odd = _mm512_test_epi32_mask((__m512i)turns, _mm512_set1_epi32(1));
#else
    const fac_vi32 odd = -(turns & 1);
#endif
    const fac_vf32 s = h * h, cube = s * h, cube_low = fac_fma_f32(fac_fma_f32(h, h, -s), h, fac_fma_f32(s, h, -cube));
    fac_vf32 p = fac_splat_f32(0x1.1f82dep-8f);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) p = fac_fma_f32(p, s, fac_splat_f32(of[i]));
    const fac_vf32 slope = fac_fma_f32(s, s, s); /* and 1, of the tangent at h */
    const fac_vf32 rest = fac_fma_f32(cube, p, fac_fma_f32(cube_low, p, fac_fma_f32(l, slope, l)));
    const fac_vf32 t = h + rest, t_low = (h - t) + rest;
#if FAC_VECTOR_BYTES == 64
    const fac_vf32 i = (fac_vf32)_mm512_rcp14_ps((__m512)t);
    const fac_vf32 lack = fac_fma_f32(-i, t_low, fac_fma_f32(-i, t, fac_splat_f32(1)));
    const fac_vf32 inverse = fac_fma_f32(i, fac_fma_f32(lack, lack, lack), i);
    const __m512i signs = _mm512_set1_epi32(INT32_MIN);
    const __m512i y = _mm512_mask_xor_epi32((__m512i)t, odd, (__m512i)inverse, signs);
    return (fac_vf32)_mm512_xor_epi32(y, _mm512_and_epi32((__m512i)x, signs));
#else
    const fac_vf32 i = -fac__vinverse(t);
    const fac_vf32 lack = fac_fma_f32(i, t_low, fac_fma_f32(i, t, fac_splat_f32(1)));
    const fac_vf32 inverse = fac_fma_f32(i, lack, i);
    return (fac_vf32)((((fac_vi32)inverse & odd) | ((fac_vi32)t & ~odd)) ^ ((fac_vi32)x ^ (fac_vi32)size));
#endif
}

#if FAC_VECTOR_BYTES == 64
/* Within 0.86 ulp: of y, |x| or its inverse if that is below 1, whose nearest of sixteen centres c is chosen by a permutation:
   atan(c), and t + t P(t) with t = y - c and what y lacks, a fit of its own for each. Centres lie where atan(c) is nearly a float. Where
   y is the inverse the sum is taken from pi/2. */
static inline fac_vf32 fac__vatan(fac_vf32 x) {
    /* clang-format off */
    static const float centre[] = {0, 0x1.08419ap-4f, 0x1.0842eap-3f, 0x1.8c63a4p-3f, 0x1.083edp-2f, 0x1.4a523cp-2f,
        0x1.8c640ap-2f, 0x1.ce733ep-2f, 0x1.0841d8p-1f, 0x1.294a38p-1f, 0x1.4a5312p-1f, 0x1.6b5b12p-1f,
        0x1.8c6192p-1f, 0x1.ad6b34p-1f, 0x1.ce736ep-1f, 0x1.ef7b8ap-1f},
        at[] = {0, 0x1.07e3fap-4f, 0x1.06cf2ap-3f, 0x1.878c3ep-3f, 0x1.029a8ap-2f, 0x1.3f87a8p-2f, 0x1.7a336cp-2f,
        0x1.b25fb6p-2f, 0x1.e7e6bap-2f, 0x1.0d588p-1f, 0x1.255c2ap-1f, 0x1.3c00aap-1f, 0x1.514e12p-1f, 0x1.65536ep-1f,
        0x1.781caap-1f, 0x1.89bb02p-1f},
        beyond[] = {0x1.921fb6p+0f, 0x1.81a176p+0f, 0x1.7145dp+0f, 0x1.612e2ep+0f, 0x1.517912p+0f, 0x1.423dccp+0f,
        0x1.3392dap+0f, 0x1.2587c8p+0f, 0x1.182606p+0f, 0x1.0b7376p+0f, 0x1.fee34p-1f, 0x1.e83ecp-1f, 0x1.d2f158p-1f,
        0x1.beebfcp-1f, 0x1.ac22cp-1f, 0x1.9a8468p-1f},
        rest[] = {-0x1.777a5cp-25f, -0x1.6ea236p-26f, 0x1.218988p-30f, -0x1.ee436ap-26f, 0x1.87644p-25f,
        -0x1.787cdap-25f, 0x1.12c6bcp-26f, -0x1.df9474p-27f, 0x1.88bddcp-25f, -0x1.78c8e2p-25f, 0x1.14d948p-26f,
        0x1.0c2972p-26f, 0x1.0c2da8p-26f, 0x1.0f72c8p-26f, 0x1.0f77p-26f, 0x1.0f8d3ap-26f};
    /* clang-format on */
    static const float of[4][16] = {
        {0, -0x1.0fa6fap-8f, -0x1.0c529ep-6f, -0x1.27cd8p-5f, -0x1.ff745cp-5f, -0x1.820c4cp-4f, -0x1.0ae49ap-3f,
         -0x1.5aefd2p-3f, -0x1.aecd24p-3f, -0x1.0230dep-2f, -0x1.2cf526p-2f, -0x1.56fcecp-2f, -0x1.7fbe3p-2f,
         -0x1.a6dc52p-2f, -0x1.cc10dp-2f, -0x1.ef375ep-2f},
        {0x1.5126a8p-20f, -0x1.0611eap-4f, -0x1.ff5a5ep-4f, -0x1.70479cp-3f, -0x1.d08f46p-3f, -0x1.0efd68p-2f,
         -0x1.2bceeap-2f, -0x1.3f0a62p-2f, -0x1.498d4p-2f, -0x1.4c8bbp-2f, -0x1.49618p-2f, -0x1.416b4ap-2f,
         -0x1.35ebecp-2f, -0x1.27fab8p-2f, -0x1.18834ap-2f, -0x1.083ff2p-2f},
        {-0x1.559298p-2f, -0x1.4ca5b6p-2f, -0x1.346812p-2f, -0x1.0f2f0ep-2f, -0x1.c2161ap-3f, -0x1.5ce7cap-3f,
         -0x1.ee90cap-4f, -0x1.3004aap-4f, -0x1.0ee2f2p-5f, 0x1.858746p-10f, 0x1.dc765cp-6f, 0x1.999fcp-5f,
         0x1.0a0506p-4f, 0x1.326d98p-4f, 0x1.49e0dep-4f, 0x1.540da2p-4f},
        {0x1.97361cp-7f, 0x1.0273acp-4f, 0x1.e5d794p-4f, 0x1.48f086p-3f, 0x1.7cc40cp-3f, 0x1.8e02ecp-3f, 0x1.814c9p-3f,
         0x1.5e43bep-3f, 0x1.2d6e3p-3f, 0x1.ed24bcp-4f, 0x1.7f9184p-4f, 0x1.1a6862p-4f, 0x1.84aa2ep-5f, 0x1.e4b446p-6f,
         0x1.f6b232p-7f, 0x1.2070b2p-8f}};
    const fac_vf32 size = fac__vtrig_size(x);
    const __mmask16 far = _mm512_cmp_ps_mask((__m512)size, _mm512_set1_ps(1), _CMP_GT_OQ);
    const __m512 most = _mm512_min_ps(_mm512_set1_ps(0x1p+64f), (__m512)size), inverse = _mm512_rcp14_ps(most);
    const __m512 lack = _mm512_fnmadd_ps(inverse, most, _mm512_set1_ps(1));
    const fac_vf32 y = (fac_vf32)_mm512_mask_mov_ps((__m512)size, far, inverse);
    const __m512i n =
        (__m512i)fac_fma_f32(y, fac_splat_f32(15.499999f), fac_splat_f32(0x1.8p+23f)); /* in the low bits */
#define CHOSEN(table) (fac_vf32) _mm512_permutexvar_ps(n, _mm512_loadu_ps(table))
    const fac_vf32 near = y - CHOSEN(centre), t = (fac_vf32)_mm512_mask3_fmadd_ps(lack, inverse, (__m512)near, far);
    fac_vf32 p = CHOSEN(of[3]);
    for (int i = 2; i >= 0; i--) p = fac_fma_f32(p, t, CHOSEN(of[i]));
    const fac_vf32 part = fac_fma_f32(t, p, t);
    const __m512 most_of = _mm512_mask_permutexvar_ps((__m512)CHOSEN(at), far, n, _mm512_loadu_ps(beyond));
    const __m512 sum =
        _mm512_add_ps(most_of, _mm512_mask_sub_ps((__m512)part, far, (__m512)CHOSEN(rest), (__m512)part));
#undef CHOSEN
    return (fac_vf32)(((fac_vi32)x & INT32_MIN) | (fac_vi32)sum);
}
#else
/* Within 1.03 ulp: of y, |x| or its inverse if that is below 1, y + y^3 P(y^2), a minimax fit, and pi/2 less that where y is the
   inverse; what the roundings of y and of pi/2 - y have lost is made up for. */
static inline fac_vf32 fac__vatan(fac_vf32 x) {
    static const float of[] = {-0x1.e6a0ecp-8f, 0x1.753040p-6f,  -0x1.7080bap-5f, 0x1.150a00p-4f, -0x1.6953bcp-4f,
                               0x1.c51170p-4f,  -0x1.247620p-3f, 0x1.99981cp-3f,  -0x1.555552p-2f};
    const fac_vf32 size = fac__vtrig_size(x), one = fac_splat_f32(1), most = fac_splat_f32(0x1p+64f);
    const fac_vi32 far = size > one, most_far = size > most;
    const fac_vf32 top = (fac_vf32)(((fac_vi32)one & far) | ((fac_vi32)size & ~far));
    fac_vf32 over = (fac_vf32)(((fac_vi32)size & far) | ((fac_vi32)one & ~far));
    over = (fac_vf32)(((fac_vi32)most & most_far) | ((fac_vi32)over & ~most_far));
    const fac_vf32 y = top * fac__vinverse(over), s = y * y;
    fac_vf32 p = fac_splat_f32(0x1.29687ep-10f);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) p = fac_fma_f32(p, s, fac_splat_f32(of[i]));
    /* pi/2 is 0x1.921fb6p+0 - 0x1.777a5cp-25. */
    const fac_vf32 lost = fac_fma_f32(fac_fma_f32(-y, over, one), 0.5f * y, fac_splat_f32(0x1.777a5cp-25f));
    const fac_vf32 ps = p * s, near = fac_fma_f32(ps, y, y);
    const fac_vf32 half = fac_splat_f32(0x1.921fb6p+0f), rest = half - y, cut = (half - rest) - y;
    const fac_vf32 beyond = rest + (cut - fac_fma_f32(ps, y, lost));
    return (fac_vf32)(((fac_vi32)beyond & far) | ((fac_vi32)near & ~far) | ((fac_vi32)x ^ (fac_vi32)size));
}
#endif

#endif
