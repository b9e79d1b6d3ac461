/* Conversions between all dtypes, contiguous. The eight plain types convert directly to one another; f16 and bf16 go
   through f32, complex numbers through their real type, in pieces that stay in L1. Also copying past the cache. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#if FAC_ISA_X86
#include <immintrin.h>
#endif

/* ---- plain types ---------------------------------------------------------------------------------------------------- */

#define FAC_TRUNCATE_FN static inline
#define FAC_FROM float
#define FAC_TRUNCATE(name) f32_##name
#include "core/truncate.h"
#define FAC_TRUNCATE_FN static inline
#define FAC_FROM double
#define FAC_TRUNCATE(name) f64_##name
#include "core/truncate.h"

#define FAC_CAST(from, F, to, T, expr)                                   \
    static void from##_##to##_n(void *dst, const void *src, int64_t n) { \
        T *out = dst;                                                    \
        const F *a = src;                                                \
        FAC_EACH(n) {                                                    \
            const F x = a[i];                                            \
            out[i] = (T)(expr);                                          \
        }                                                                \
    }
#define FAC_CASTS_FROM_INT(from, F)       \
    FAC_CAST(from, F, b, uint8_t, x != 0) \
    FAC_CAST(from, F, u8, uint8_t, x)     \
    FAC_CAST(from, F, i8, int8_t, x)      \
    FAC_CAST(from, F, i16, int16_t, x)    \
    FAC_CAST(from, F, i32, int32_t, x)    \
    FAC_CAST(from, F, i64, int64_t, x)    \
    FAC_CAST(from, F, f32, float, x)      \
    FAC_CAST(from, F, f64, double, x)
#define FAC_CASTS_FROM_FLOAT(from, F)                 \
    FAC_CAST(from, F, b, uint8_t, x != 0)             \
    FAC_CAST(from, F, u8, uint8_t, from##_to_u8(x))   \
    FAC_CAST(from, F, i8, int8_t, from##_to_i8(x))    \
    FAC_CAST(from, F, i16, int16_t, from##_to_i16(x)) \
    FAC_CAST(from, F, i32, int32_t, from##_to_i32(x)) \
    FAC_CAST(from, F, i64, int64_t, from##_to_i64(x)) \
    FAC_CAST(from, F, f32, float, x)                  \
    FAC_CAST(from, F, f64, double, x)

FAC_CASTS_FROM_INT(b, uint8_t)
FAC_CASTS_FROM_INT(u8, uint8_t)
FAC_CASTS_FROM_INT(i8, int8_t)
FAC_CASTS_FROM_INT(i16, int16_t)
FAC_CASTS_FROM_INT(i32, int32_t)
FAC_CASTS_FROM_INT(i64, int64_t)
FAC_CASTS_FROM_FLOAT(f32, float)
FAC_CASTS_FROM_FLOAT(f64, double)

/* ---- 16-bit floats ---------------------------------------------------------------------------------------------------- */

static void f16_f32_n(void *dst, const void *src, int64_t n) {
    float *out = dst;
    const uint16_t *a = src;
    int64_t i = 0;
#if FAC_ISA_LEVEL >= 2
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(a + i))));
#elif FAC_ISA_LEVEL >= 1
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(a + i))));
#endif
    for (; i < n; i++) out[i] = fac__f16_to_f32(a[i]);
}
static void f32_f16_n(void *dst, const void *src, int64_t n) {
    uint16_t *out = dst;
    const float *a = src;
    int64_t i = 0;
#if FAC_ISA_LEVEL >= 2
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT));
#elif FAC_ISA_LEVEL >= 1
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) out[i] = fac__f32_to_f16(a[i]);
}
static void bf16_f32_n(void *dst, const void *src, int64_t n) {
    float *out = dst;
    const uint16_t *a = src;
    FAC_EACH(n) out[i] = fac__bf16_to_f32(a[i]);
}
static void f32_bf16_n(void *dst, const void *src, int64_t n) {
    uint16_t *out = dst;
    const float *a = src;
    FAC_EACH(n) out[i] = fac__f32_to_bf16(a[i]);
}

/* ---- complex ------------------------------------------------------------------------------------------------------------ */

#define FAC_CAST_REAL_PART(from, to, T)                                              \
    static void from##_##to##_n(void *dst, const void *src, int64_t n) {             \
        T *out = dst;                                                                \
        const T *a = src;                                                            \
        FAC_EACH(n) out[i] = a[2 * i];                                               \
    }                                                                                \
    static void to##_##from##_n(void *dst, const void *src, int64_t n) {             \
        T *out = dst;                                                                \
        const T *a = src;                                                            \
        FAC_EACH(n) {                                                                \
            out[2 * i] = a[i];                                                       \
            out[2 * i + 1] = 0;                                                      \
        }                                                                            \
    }                                                                                \
    static void from##_b_n(void *dst, const void *src, int64_t n) {                  \
        uint8_t *out = dst;                                                          \
        const T *a = src;                                                            \
        for (int64_t i = 0; i < n; i++) out[i] = a[2 * i] != 0 || a[2 * i + 1] != 0; \
    }
FAC_CAST_REAL_PART(c64, f32, float)
FAC_CAST_REAL_PART(c128, f64, double)
static void c64_c128_n(void *dst, const void *src, int64_t n) { f32_f64_n(dst, src, 2 * n); }
static void c128_c64_n(void *dst, const void *src, int64_t n) { f64_f32_n(dst, src, 2 * n); }

/* ---- through another dtype ------------------------------------------------------------------------------------------------ */

#define PIECE 512
static inline void through(char *dst, size_t to_item, const char *src, size_t from_item, int64_t n, fac_cast first,
                           fac_cast second) {
    double middle[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = fac__min(PIECE, n - i);
        first(middle, src + (size_t)i * from_item, m);
        second(dst + (size_t)i * to_item, middle, m);
    }
}
#define FAC_THROUGH(from, from_item, mid, to, to_item)                              \
    static void from##_##to##_n(void *dst, const void *src, int64_t n) {            \
        through(dst, to_item, src, from_item, n, from##_##mid##_n, mid##_##to##_n); \
    }
/* Both ways between `x`, which converts to `mid` directly, and a type that mid converts to. */
#define FAC_BOTH_THROUGH(x, x_item, mid, y, y_item) \
    FAC_THROUGH(x, x_item, mid, y, y_item)          \
    FAC_THROUGH(y, y_item, mid, x, x_item)
#define FAC_INTEGERS_THROUGH(x, x_item, mid) \
    FAC_BOTH_THROUGH(x, x_item, mid, u8, 1)  \
    FAC_BOTH_THROUGH(x, x_item, mid, i8, 1)  \
    FAC_BOTH_THROUGH(x, x_item, mid, i16, 2) \
    FAC_BOTH_THROUGH(x, x_item, mid, i32, 4) \
    FAC_BOTH_THROUGH(x, x_item, mid, i64, 8) \
    FAC_THROUGH(b, 1, mid, x, x_item)
FAC_INTEGERS_THROUGH(f16, 2, f32)
FAC_INTEGERS_THROUGH(bf16, 2, f32)
FAC_INTEGERS_THROUGH(c64, 8, f32)
FAC_INTEGERS_THROUGH(c128, 16, f64)
FAC_THROUGH(f16, 2, f32, b, 1)
FAC_THROUGH(bf16, 2, f32, b, 1)
FAC_BOTH_THROUGH(f16, 2, f32, f64, 8)
FAC_BOTH_THROUGH(bf16, 2, f32, f64, 8)
FAC_BOTH_THROUGH(f16, 2, f32, bf16, 2)
FAC_BOTH_THROUGH(c64, 8, f32, f64, 8)
FAC_BOTH_THROUGH(c128, 16, f64, f32, 4)
FAC_BOTH_THROUGH(f16, 2, f32, c64, 8)
FAC_BOTH_THROUGH(bf16, 2, f32, c64, 8)
FAC_BOTH_THROUGH(f16, 2, f64, c128, 16)
FAC_BOTH_THROUGH(bf16, 2, f64, c128, 16)

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

static void copy_2(void *dst, const void *src, int64_t n) { memcpy(dst, src, (size_t)n * 2); }
static void copy_8(void *dst, const void *src, int64_t n) { memcpy(dst, src, (size_t)n * 8); }
static void copy_16(void *dst, const void *src, int64_t n) { memcpy(dst, src, (size_t)n * 16); }
#define f16_f16_n copy_2
#define bf16_bf16_n copy_2
#define c64_c64_n copy_8
#define c128_c128_n copy_16

#define FAC_INSTALL_FROM(FROM, from)                                                                                 \
    table[FAC_BOOL][FROM] = from##_b_n, table[FAC_U8][FROM] = from##_u8_n, table[FAC_I8][FROM] = from##_i8_n;        \
    table[FAC_I16][FROM] = from##_i16_n, table[FAC_I32][FROM] = from##_i32_n, table[FAC_I64][FROM] = from##_i64_n;   \
    table[FAC_F16][FROM] = from##_f16_n, table[FAC_BF16][FROM] = from##_bf16_n, table[FAC_F32][FROM] = from##_f32_n; \
    table[FAC_F64][FROM] = from##_f64_n, table[FAC_C64][FROM] = from##_c64_n, table[FAC_C128][FROM] = from##_c128_n

/* Copies bytes with stores that go past the cache. What precedes alignment and what is left over is copied plainly. */
static void stream_copy(char *dst, const char *src, int64_t bytes) {
#if FAC_ISA_X86
    int64_t head = fac__min(bytes, (int64_t)(-(uintptr_t)dst & 63u));
    memcpy(dst, src, (size_t)head);
    int64_t i = head;
    for (; i + 64 <= bytes; i += 64) {
#if FAC_ISA_LEVEL >= 2
        _mm512_stream_si512((void *)(dst + i), _mm512_loadu_si512(src + i));
#elif FAC_ISA_LEVEL >= 1
        _mm256_stream_si256((__m256i *)(void *)(dst + i), _mm256_loadu_si256((const __m256i *)(const void *)(src + i)));
        _mm256_stream_si256((__m256i *)(void *)(dst + i + 32),
                            _mm256_loadu_si256((const __m256i *)(const void *)(src + i + 32)));
#else
        for (int64_t j = i; j < i + 64; j += 16)
            _mm_stream_si128((__m128i *)(void *)(dst + j), _mm_loadu_si128((const __m128i *)(const void *)(src + j)));
#endif
    }
    memcpy(dst + i, src + i, (size_t)(bytes - i));
#else
    memcpy(dst, src, (size_t)bytes);
#endif
}

void FAC_ISA_NAME(fac__install_casts)(fac_cast (*table)[FAC_DTYPE_COUNT], fac_stream_copy *stream) {
    FAC_INSTALL_FROM(FAC_BOOL, b);
    FAC_INSTALL_FROM(FAC_U8, u8);
    FAC_INSTALL_FROM(FAC_I8, i8);
    FAC_INSTALL_FROM(FAC_I16, i16);
    FAC_INSTALL_FROM(FAC_I32, i32);
    FAC_INSTALL_FROM(FAC_I64, i64);
    FAC_INSTALL_FROM(FAC_F16, f16);
    FAC_INSTALL_FROM(FAC_BF16, bf16);
    FAC_INSTALL_FROM(FAC_F32, f32);
    FAC_INSTALL_FROM(FAC_F64, f64);
    FAC_INSTALL_FROM(FAC_C64, c64);
    FAC_INSTALL_FROM(FAC_C128, c128);
    *stream = stream_copy;
}
