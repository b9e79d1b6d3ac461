/* Rows that fit in a vector: parts of vectors, and folds of all lanes into each. For *.isa.c files. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SHORT_ROW_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SHORT_ROW_H

#include "backend/cpu/simd.h"

/* The first n (1 to a vector's) floats, the rest filled. */
static inline fac_vf32 fac__short_load(const float *p, int64_t n, float fill) {
    if (n == FAC_LANES_F32) return fac_load_f32(p);
    fac_vf32 v = fac_splat_f32(fill);
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_mask_loadu_ps((__m512)v, (__mmask16)((1u << n) - 1), p);
#else
    for (int64_t k = 0; k < n; k++) v[k] = p[k];
    return v;
#endif
}

/* The first n lanes; the others are 0. */
static inline fac_vf32 fac__short_keep(fac_vf32 v, int64_t n) {
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), (__m512)v);
#else
    for (int64_t k = n; k < FAC_LANES_F32; k++) v[k] = 0;
    return v;
#endif
}

static inline void fac__short_store(float *p, fac_vf32 v, int64_t n) {
    if (n == FAC_LANES_F32) {
        fac_store_f32(p, v);
        return;
    }
#if FAC_VECTOR_BYTES == 64
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    for (int64_t k = 0; k < n; k++) p[k] = v[k];
#endif
}

/* The larger of each lane; a NaN of x is taken, and one of a kept. */
static inline fac_vf32 fac__lane_max(fac_vf32 x, fac_vf32 a) {
#if FAC_VECTOR_BYTES == 64
    const __m512 m = _mm512_max_ps((__m512)x, (__m512)a);
    return (fac_vf32)_mm512_mask_mov_ps(m, _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q), (__m512)x);
#else
    for (int j = 0; j < FAC_LANES_F32; j++) a[j] = x[j] > a[j] || x[j] != x[j] ? x[j] : a[j];
    return a;
#endif
}
static inline fac_vf32 fac__lane_min(fac_vf32 x, fac_vf32 a) {
#if FAC_VECTOR_BYTES == 64
    const __m512 m = _mm512_min_ps((__m512)x, (__m512)a);
    return (fac_vf32)_mm512_mask_mov_ps(m, _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q), (__m512)x);
#else
    for (int j = 0; j < FAC_LANES_F32; j++) a[j] = x[j] < a[j] || x[j] != x[j] ? x[j] : a[j];
    return a;
#endif
}

/* All lanes folded, in each of them; sums are pairwise. */
static inline fac_vf32 fac__fold_max(fac_vf32 v) {
    for (int w = 1; w < FAC_LANES_F32; w *= 2) v = fac__lane_max(FAC_ZIP_LO_F32(v, v), FAC_ZIP_HI_F32(v, v));
    return v;
}
static inline fac_vf32 fac__fold_min(fac_vf32 v) {
    for (int w = 1; w < FAC_LANES_F32; w *= 2) v = fac__lane_min(FAC_ZIP_LO_F32(v, v), FAC_ZIP_HI_F32(v, v));
    return v;
}
static inline fac_vf32 fac__fold_sum(fac_vf32 v) {
    for (int w = 1; w < FAC_LANES_F32; w *= 2) v = FAC_ZIP_LO_F32(v, v) + FAC_ZIP_HI_F32(v, v);
    return v;
}

#endif
