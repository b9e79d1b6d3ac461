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
    fac_vf32 y = fac_fma_f32(q * r, r, r) + 1.0f;
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_scalef_ps((__m512)y, (__m512)n);
#else
    return fac__vscale(y, (fac_vi32)t - (fac_vi32)magic);
#endif
}

#endif
