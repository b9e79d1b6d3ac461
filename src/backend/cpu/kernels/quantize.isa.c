/* Element by element: nothing depends on a neighbour, so all vectors give the same codes. Where vectors are widest the rounding and
   narrowing are written out, as compilers narrow 32-bit numbers to bytes by way of 16. */
#include "backend/cpu/kernels/quantize.h"
#include <math.h>

#if FAC_ISA_LEVEL >= 2
#include <immintrin.h>
enum { AT_ONCE = 16 };

static inline __m512 floats_u8(const uint8_t *c, int zero) {
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)c));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, _mm512_set1_epi32(zero)));
}
static inline __m512 floats_i8(const int8_t *c, int zero) {
    const __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)c));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, _mm512_set1_epi32(zero)));
}

/* A maximum gives its second operand if one is NaN. */
static inline void store_codes(void *out, __m512 units, float zero, float least, float most) {
    __m512 r = _mm512_roundscale_ps(units, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    r = _mm512_max_ps(_mm512_add_ps(r, _mm512_set1_ps(zero)), _mm512_set1_ps(least));
    r = _mm512_min_ps(r, _mm512_set1_ps(most));
    _mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(r)));
}
#define IF_WIDE(...) __VA_ARGS__
#else
#define IF_WIDE(...)
#endif

static inline int32_t code_of(float units, float zero, float least, float most) {
    float r = rintf(units) + zero;
    r = r > least ? r : least;
    r = r < most ? r : most;
    return (int32_t)r;
}

#define RUNS(T, name, LEAST, MOST)                                                                                 \
    void FAC_ISA_NAME(fac__encode_##name)(T *restrict out, const float *restrict x, int64_t n, float scale,        \
                                          float zero) {                                                            \
        const float inverse = 1.0f / scale;                                                                        \
        int64_t i = 0;                                                                                             \
        IF_WIDE(for (; i + AT_ONCE <= n; i += AT_ONCE) store_codes(                                                \
                    out + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse)), zero, LEAST, MOST);)  \
        for (; i < n; i++) out[i] = (T)code_of(x[i] * inverse, zero, LEAST, MOST);                                 \
    }                                                                                                              \
    void FAC_ISA_NAME(fac__decode_##name)(float *restrict out, const T *restrict c, int64_t n, float scale,        \
                                          int zero) {                                                              \
        for (int64_t i = 0; i < n; i++) out[i] = (float)(c[i] - zero) * scale;                                     \
    }                                                                                                              \
    void FAC_ISA_NAME(fac__codes_add_##name)(const fac_code_pair *p, const T *restrict a, const T *restrict b,     \
                                             int64_t n, T *restrict out) {                                         \
        int64_t i = 0;                                                                                             \
        IF_WIDE(for (; i + AT_ONCE <= n; i += AT_ONCE) {                                                           \
            const __m512 x = _mm512_mul_ps(floats_##name(a + i, p->a_zero), _mm512_set1_ps(p->a_scale));           \
            const __m512 y = _mm512_mul_ps(floats_##name(b + i, p->b_zero), _mm512_set1_ps(p->b_scale));           \
            store_codes(out + i, _mm512_mul_ps(_mm512_add_ps(x, y), _mm512_set1_ps(p->factor)), p->zero, p->least, \
                        MOST);                                                                                     \
        })                                                                                                         \
        for (; i < n; i++) {                                                                                       \
            const float x = (float)(a[i] - p->a_zero) * p->a_scale, y = (float)(b[i] - p->b_zero) * p->b_scale;    \
            out[i] = (T)code_of((x + y) * p->factor, p->zero, p->least, MOST);                                     \
        }                                                                                                          \
    }                                                                                                              \
    void FAC_ISA_NAME(fac__codes_mul_##name)(const fac_code_pair *p, const T *restrict a, const T *restrict b,     \
                                             int64_t n, T *restrict out) {                                         \
        int64_t i = 0;                                                                                             \
        IF_WIDE(for (; i + AT_ONCE <= n; i += AT_ONCE) {                                                           \
            const __m512 xy = _mm512_mul_ps(floats_##name(a + i, p->a_zero), floats_##name(b + i, p->b_zero));     \
            store_codes(out + i, _mm512_mul_ps(xy, _mm512_set1_ps(p->factor)), p->zero, p->least, MOST);           \
        })                                                                                                         \
        for (; i < n; i++) {                                                                                       \
            const float xy = (float)(a[i] - p->a_zero) * (float)(b[i] - p->b_zero);                                \
            out[i] = (T)code_of(xy * p->factor, p->zero, p->least, MOST);                                          \
        }                                                                                                          \
    }
RUNS(uint8_t, u8, 0.0f, 255.0f)
RUNS(int8_t, i8, -128.0f, 127.0f)
