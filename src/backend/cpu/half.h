/* 16-bit floats as the instruction set that a file is compiled for converts them, singly and by vectors of simd.h. For *.isa.c files
   only. */
#ifndef FAC_SRC_BACKEND_CPU_HALF_H
#define FAC_SRC_BACKEND_CPU_HALF_H

#include "backend/cpu/simd.h"
#include "core/scalar.h"

#if FAC_VECTOR_BYTES > 16
static inline float fac_get_f16(uint16_t h) { return _cvtsh_ss(h); }
static inline uint16_t fac_put_f16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
#define fac_get_f16 fac__f16_to_f32
#define fac_put_f16 fac__f32_to_f16
#endif

/* Sums and products of bf16: what stays in one register file takes a third less instructions. */
#if FAC_VECTOR_BYTES > 16
static inline __m128 fac_widen_bf16(uint16_t h) {
    return _mm_castsi128_ps(_mm_insert_epi16(_mm_setzero_si128(), h, 1));
}
static inline uint16_t fac_round_bf16(__m128 x) {
    const __m128i bits = _mm_castps_si128(x);
    if (__builtin_isnan(_mm_cvtss_f32(x))) return (uint16_t)(_mm_extract_epi16(bits, 1) | 0x40);
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
    return (uint16_t)_mm_extract_epi16(_mm_add_epi32(_mm_add_epi32(bits, odd), _mm_set1_epi32(0x7fff)), 1);
}
static inline uint16_t fac_add_bf16(uint16_t a, uint16_t b) {
    return fac_round_bf16(_mm_add_ss(fac_widen_bf16(a), fac_widen_bf16(b)));
}
static inline uint16_t fac_mul_bf16(uint16_t a, uint16_t b) {
    return fac_round_bf16(_mm_mul_ss(fac_widen_bf16(a), fac_widen_bf16(b)));
}
#else
#define fac_add_bf16(a, b) fac__f32_to_bf16(fac__bf16_to_f32(a) + fac__bf16_to_f32(b))
#define fac_mul_bf16(a, b) fac__f32_to_bf16(fac__bf16_to_f32(a) * fac__bf16_to_f32(b))
#endif

static inline fac_vf32 fac_load_bf16(const uint16_t *p) {
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)), 16);
#elif FAC_VECTOR_BYTES == 32
    return (fac_vf32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)), 16);
#else
    typedef uint16_t codes __attribute__((vector_size(FAC_LANES_F32 * 2)));
    typedef uint32_t words __attribute__((vector_size(FAC_LANES_F32 * 4)));
    codes v;
    memcpy(&v, p, sizeof v);
    return (fac_vf32)(__builtin_convertvector(v, words) << 16);
#endif
}
/* To the nearest; NaN stays NaN. */
static inline void fac_store_bf16(uint16_t *p, fac_vf32 v) {
#if FAC_VECTOR_BYTES == 64
    const __m512i bits = (__m512i)v, odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 none = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    const __m512i kept = _mm512_mask_or_epi32(rounded, none, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16)));
#else
    typedef uint16_t codes __attribute__((vector_size(FAC_LANES_F32 * 2)));
    typedef uint32_t words __attribute__((vector_size(FAC_LANES_F32 * 4)));
    const words bits = (words)v, number = (words)(v == v), rounded = bits + 0x7fff + (bits >> 16 & 1);
    const codes c = __builtin_convertvector(((rounded & number) | ((bits | 0x400000) & ~number)) >> 16, codes);
    memcpy(p, &c, sizeof c);
#endif
}
static inline fac_vf32 fac_load_f16(const uint16_t *p) {
#if FAC_VECTOR_BYTES == 64
    return (fac_vf32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif FAC_VECTOR_BYTES == 32
    return (fac_vf32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
    float v[FAC_LANES_F32];
    for (int i = 0; i < FAC_LANES_F32; i++) v[i] = fac__f16_to_f32(p[i]);
    return fac_load_f32(v);
#endif
}
static inline void fac_store_f16(uint16_t *p, fac_vf32 v) {
#if FAC_VECTOR_BYTES == 64
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif FAC_VECTOR_BYTES == 32
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
    for (int i = 0; i < FAC_LANES_F32; i++) p[i] = fac__f32_to_f16(v[i]);
#endif
}

#endif
