/* Hyperbolic cosines and sines of whole vectors of floats, within 0.79 ulp. They need fused multiplication. For *.isa.c files only.
   |x| = n ln2 + h + l; A and B are a quarter of 2^n and of 2^-n, C and S the series of cosh(h) - 1 and sinh(h). cosh is
   2 (A + B + (A + B) C + (A - B) S), sinh 2 (A - B + (A - B) C + (A + B) S) or, where n is 0 or 1, S of |x| alone. Quarters are numbers where
   the result is. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_VHYPERBOLIC_H
#define FAC_SRC_BACKEND_CPU_KERNELS_VHYPERBOLIC_H

#include "backend/cpu/kernels/vexp.h"

/* h^3 times this is sinh(h) - h. */
static inline fac_vf32 fac__vsinh_terms(fac_vf32 s) {
    fac_vf32 p = fac_fma_f32(fac_splat_f32(1 / 39916800.0f), s, fac_splat_f32(1 / 362880.0f));
    p = fac_fma_f32(p, s, fac_splat_f32(1 / 5040.0f));
    return fac_fma_f32(fac_fma_f32(p, s, fac_splat_f32(1 / 120.0f)), s, fac_splat_f32(1 / 6.0f));
}

static inline fac_vf32 fac__vhyperbolic(fac_vf32 x, bool sine) {
    enum { MOST = 40 }; /* powers whose inverse is too small to count */
    const fac_vi32 all = (fac_vi32)x & 0x7fffffff, large = all > 0x42b30000; /* 89.5: all is inf beyond */
    const fac_vf32 a = (fac_vf32)((large & 0x42b30000) | (~large & all)), magic = fac_splat_f32(0x1.8p+23f);
    const fac_vf32 t = fac_fma_f32(a, fac_splat_f32(0x1.715476p+0f), magic);
    fac_vi32 n = (fac_vi32)t - (fac_vi32)magic;
    const fac_vi32 far = sine ? n > 1 : n > -1, many = n > MOST;
    n &= far;
    const fac_vf32 turns = (fac_vf32)((fac_vi32)(t - magic) & far);
    const fac_vf32 first = fac_fma_f32(turns, fac_splat_f32(-0x1.62e4p-1f), a), part = turns * -0x1.7f7d1cp-20f;
    const fac_vf32 h = first + part, l = part - (h - first), s = h * h;
    const fac_vf32 up = (fac_vf32)((n + 125) << 23), down = (fac_vf32)((125 - ((many & MOST) | (~many & n))) << 23);
    const fac_vf32 most = sine ? up - down : up + down, other = sine ? up + down : up - down;
    fac_vf32 c = fac_fma_f32(fac_splat_f32(1 / 40320.0f), s, fac_splat_f32(1 / 720.0f));
    c = fac_fma_f32(fac_fma_f32(c, s, fac_splat_f32(1 / 24.0f)), s, fac_splat_f32(0.5f)) * s;
    const fac_vf32 cube = h * s, p = fac__vsinh_terms(s), cubic = cube * p, near = fac_fma_f32(cube, p, h);
    /* What A + B, A - B and the sum have lost. */
    const fac_vf32 sum = fac_fma_f32(other, h, most), lost = fac_fma_f32(other, h, most - sum),
                   less = sine ? (up - most) - down : (up - most) + down,
                   short_by = sine ? (up - other) + down : (up - other) - down;
    const fac_vf32 small = fac_fma_f32(fac_fma_f32(most, h, other), l, fac_fma_f32(short_by, h, less));
    const fac_vf32 y = 2 * (sum + (lost + fac_fma_f32(most, c, fac_fma_f32(other, cubic, small))));
    const fac_vi32 chosen = ((fac_vi32)y & far) | ((fac_vi32)near & ~far), nan = all > 0x7f800000;
    return (fac_vf32)((chosen & ~nan) | (all & nan));
}

static inline fac_vf32 fac__vcosh(fac_vf32 x) { return fac__vhyperbolic(x, false); }
static inline fac_vf32 fac__vsinh(fac_vf32 x) {
    return (fac_vf32)((fac_vi32)fac__vhyperbolic(x, true) | ((fac_vi32)x & (-0x7fffffff - 1)));
}

#endif
