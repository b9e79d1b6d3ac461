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
    const fac_vi32 odd = -(fac__vtrig_reduce(size, &h, &l) & 1);
    const fac_vf32 s = h * h, cube = s * h, cube_low = fac_fma_f32(fac_fma_f32(h, h, -s), h, fac_fma_f32(s, h, -cube));
    fac_vf32 p = fac_splat_f32(0x1.1f82dep-8f);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) p = fac_fma_f32(p, s, fac_splat_f32(of[i]));
    const fac_vf32 slope = fac_fma_f32(s, s, s); /* and 1, of the tangent at h */
    const fac_vf32 rest = fac_fma_f32(cube, p, fac_fma_f32(cube_low, p, fac_fma_f32(l, slope, l)));
    const fac_vf32 t = h + rest, t_low = (h - t) + rest, i = -fac__vinverse(t);
    const fac_vf32 lack = fac_fma_f32(i, t_low, fac_fma_f32(i, t, fac_splat_f32(1)));
    const fac_vf32 inverse = fac_fma_f32(i, lack, i);
    return (fac_vf32)((((fac_vi32)inverse & odd) | ((fac_vi32)t & ~odd)) ^ ((fac_vi32)x ^ (fac_vi32)size));
}

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
