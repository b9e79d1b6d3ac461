/* Conversions between all dtypes. The eight plain types convert directly to one another; f16 and bf16 go
   through f32, complex numbers through their real type, in pieces that stay in L1. Also copying past the cache. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#include <stdalign.h>

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

/* What has gaps is gathered first and scattered last, by the piece. */
enum { SPACED_PIECE = 256, WIDEST = 8 };
static void spaced(char *dst, int64_t ds, int64_t to, const char *src, int64_t ss, int64_t from, int64_t n,
                   fac_cast cast) {
    alignas(64) char in[SPACED_PIECE * WIDEST], out[SPACED_PIECE * WIDEST];
    for (int64_t i = 0; i < n; i += SPACED_PIECE, dst += SPACED_PIECE * ds * to, src += SPACED_PIECE * ss * from) {
        const int64_t m = fac__min(SPACED_PIECE, n - i);
        if (ss != 1) fac__items_copy((size_t)from, in, from, src, ss * from, m);
        cast(ds == 1 ? dst : out, 1, ss == 1 ? src : in, 1, m);
        if (ds != 1) fac__items_copy((size_t)to, dst, ds * to, out, to, m);
    }
}

/* Loops without gaps vectorise; those with them would branch on each truth value besides. */
#define FAC_CAST(from, F, to, T, expr)                                                           \
    static void from##_##to##_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) { \
        T *out = dst;                                                                            \
        const F *a = src;                                                                        \
        if (n > 1 && (ds != 1 || ss != 1))                                                       \
            spaced(dst, ds, sizeof(T), src, ss, sizeof(F), n, from##_##to##_n);                  \
        else                                                                                     \
            FAC_EACH(n) {                                                                        \
                const F x = a[i];                                                                \
                out[i] = (T)(expr);                                                              \
            }                                                                                    \
    }
#define FAC_CASTS_FROM_INT(from, F, x_)   \
    FAC_CAST(from, F, b, uint8_t, x != 0) \
    FAC_CAST(from, F, u8, uint8_t, x_)    \
    FAC_CAST(from, F, i8, int8_t, x_)     \
    FAC_CAST(from, F, i16, int16_t, x_)   \
    FAC_CAST(from, F, i32, int32_t, x_)   \
    FAC_CAST(from, F, i64, int64_t, x_)   \
    FAC_CAST(from, F, f32, float, x_)     \
    FAC_CAST(from, F, f64, double, x_)
#define FAC_CASTS_FROM_FLOAT(from, F)                 \
    FAC_CAST(from, F, b, uint8_t, x != 0)             \
    FAC_CAST(from, F, u8, uint8_t, from##_to_u8(x))   \
    FAC_CAST(from, F, i8, int8_t, from##_to_i8(x))    \
    FAC_CAST(from, F, i16, int16_t, from##_to_i16(x)) \
    FAC_CAST(from, F, i32, int32_t, from##_to_i32(x)) \
    FAC_CAST(from, F, i64, int64_t, from##_to_i64(x)) \
    FAC_CAST(from, F, f32, float, x)                  \
    FAC_CAST(from, F, f64, double, x)

FAC_CASTS_FROM_INT(b, uint8_t, x != 0) /* whatever byte stands for true */
FAC_CASTS_FROM_INT(u8, uint8_t, x)
FAC_CASTS_FROM_INT(i8, int8_t, x)
FAC_CASTS_FROM_INT(i16, int16_t, x)
FAC_CASTS_FROM_INT(i32, int32_t, x)
FAC_CASTS_FROM_INT(i64, int64_t, x)
FAC_CASTS_FROM_FLOAT(f32, float)
FAC_CASTS_FROM_FLOAT(f64, double)

/* ---- 16-bit floats ---------------------------------------------------------------------------------------------------- */

static void f16_f32_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
    float *out = dst;
    const uint16_t *a = src;
    int64_t i = 0;
    for (; ds == 1 && ss == 1 && i + FAC_LANES_F32 <= n; i += FAC_LANES_F32)
        fac_store_f32(out + i, fac_load_f16(a + i));
    for (; i < n; i++) out[i * ds] = fac_get_f16(a[i * ss]);
}
static void f32_f16_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
    uint16_t *out = dst;
    const float *a = src;
    int64_t i = 0;
    for (; ds == 1 && ss == 1 && i + FAC_LANES_F32 <= n; i += FAC_LANES_F32)
        fac_store_f16(out + i, fac_load_f32(a + i));
    for (; i < n; i++) out[i * ds] = fac_put_f16(a[i * ss]);
}
static void f16_f64_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
    double *out = dst;
    const uint16_t *a = src;
    int64_t i = 0;
#if FAC_ISA_LEVEL >= 1
    for (; ds == 1 && ss == 1 && i + 4 <= n; i += 4)
        _mm256_storeu_pd(out + i, _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(a + i)))));
#endif
    for (; i < n; i++) out[i * ds] = (double)fac_get_f16(a[i * ss]);
}
static void f64_f16_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
    uint16_t *out = dst;
    const double *a = src;
    int64_t i = 0;
#if FAC_ISA_LEVEL >= 1
    for (; ds == 1 && ss == 1 && i + 4 <= n; i += 4)
        _mm_storel_epi64((__m128i *)(out + i),
                         _mm_cvtps_ph(_mm256_cvtpd_ps(_mm256_loadu_pd(a + i)), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) out[i * ds] = fac_put_f16((float)a[i * ss]);
}
FAC_CAST(bf16, uint16_t, f32, float, fac__bf16_to_f32(x))
FAC_CAST(bf16, uint16_t, f64, double, fac__bf16_to_f32(x))
FAC_CAST(f32, float, bf16, uint16_t, fac__f32_to_bf16(x))
FAC_CAST(f64, double, bf16, uint16_t, fac__f32_to_bf16((float)x))

#if FAC_ISA_LEVEL >= 2
/* By the instruction, which takes numbers below the normal range for zero: where there is one of those, it is converted as ever. */
__attribute__((target("avx512bf16"))) static void f32_bf16_by_instruction(void *dst, int64_t ds, const void *src,
                                                                          int64_t ss, int64_t n) {
    enum { STEP = 32, SUBNORMAL = 0x20 };
    uint16_t *out = dst;
    const float *a = src;
    int64_t i = 0;
    for (; ds == 1 && ss == 1 && i + STEP <= n; i += STEP) {
        const __m512 low = _mm512_loadu_ps(a + i), high = _mm512_loadu_ps(a + i + STEP / 2);
        if (FAC_UNLIKELY(_mm512_fpclass_ps_mask(low, SUBNORMAL) | _mm512_fpclass_ps_mask(high, SUBNORMAL))) {
            f32_bf16_n(out + i, 1, a + i, 1, STEP);
        } else {
            const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
            memcpy(out + i, &both, sizeof both);
        }
    }
    if (i < n) f32_bf16_n(out + i, ds, a + i, ss, n - i);
}
#endif

/* ---- complex ------------------------------------------------------------------------------------------------------------ */

#define FAC_CAST_REAL_PART(from, to, T)                                                             \
    static void from##_##to##_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {    \
        T *out = dst;                                                                               \
        const T *a = src;                                                                           \
        if (ds == 1 && ss == 1)                                                                     \
            FAC_EACH(n) out[i] = a[2 * i];                                                          \
        else                                                                                        \
            for (int64_t i = 0; i < n; i++) out[i * ds] = a[2 * i * ss];                            \
    }                                                                                               \
    static void to##_##from##_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {    \
        T *out = dst;                                                                               \
        const T *a = src;                                                                           \
        if (ds == 1 && ss == 1)                                                                     \
            FAC_EACH(n) out[2 * i] = a[i], out[2 * i + 1] = 0;                                      \
        else                                                                                        \
            for (int64_t i = 0; i < n; i++) out[2 * i * ds] = a[i * ss], out[2 * i * ds + 1] = 0;   \
    }                                                                                               \
    static void from##_b_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {         \
        uint8_t *out = dst;                                                                         \
        const T *a = src;                                                                           \
        for (int64_t i = 0; i < n; i++) out[i * ds] = a[2 * i * ss] != 0 || a[2 * i * ss + 1] != 0; \
    }
FAC_CAST_REAL_PART(c64, f32, float)
FAC_CAST_REAL_PART(c128, f64, double)
#define FAC_CAST_PARTS(from, F, to, T, part)                                                     \
    static void from##_##to##_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) { \
        if (ds == 1 && ss == 1) {                                                                \
            part(dst, 1, src, 1, 2 * n);                                                         \
        } else {                                                                                 \
            part(dst, 2 * ds, src, 2 * ss, n);                                                   \
            part((T *)dst + 1, 2 * ds, (const F *)src + 1, 2 * ss, n);                           \
        }                                                                                        \
    }
FAC_CAST_PARTS(c64, float, c128, double, f32_f64_n)
FAC_CAST_PARTS(c128, double, c64, float, f64_f32_n)

/* ---- through another dtype ------------------------------------------------------------------------------------------------ */

#define PIECE 512
static inline void through(char *dst, int64_t ds, size_t to_item, const char *src, int64_t ss, size_t from_item,
                           int64_t n, fac_cast first, fac_cast second) {
    double middle[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = fac__min(PIECE, n - i);
        first(middle, 1, src + i * ss * (int64_t)from_item, ss, m);
        second(dst + i * ds * (int64_t)to_item, ds, middle, 1, m);
    }
}
#define FAC_THROUGH(from, from_item, mid, to, to_item)                                           \
    static void from##_##to##_n(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) { \
        through(dst, ds, to_item, src, ss, from_item, n, from##_##mid##_n, mid##_##to##_n);      \
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
FAC_BOTH_THROUGH(f16, 2, f32, bf16, 2)
FAC_BOTH_THROUGH(c64, 8, f32, f64, 8)
FAC_BOTH_THROUGH(c128, 16, f64, f32, 4)
FAC_BOTH_THROUGH(f16, 2, f32, c64, 8)
FAC_BOTH_THROUGH(bf16, 2, f32, c64, 8)
FAC_BOTH_THROUGH(f16, 2, f64, c128, 16)
FAC_BOTH_THROUGH(bf16, 2, f64, c128, 16)

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

/* One element, such as a sum's, costs no further call. */
#define FAC_COPY(item)                                                                       \
    static void copy_##item(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) { \
        if (n == 1)                                                                          \
            memcpy(dst, src, item);                                                          \
        else                                                                                 \
            fac__items_copy(item, dst, ds *item, src, ss *item, n);                          \
    }
FAC_COPY(1)
FAC_COPY(2)
FAC_COPY(4)
FAC_COPY(8)
FAC_COPY(16)
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
    table[FAC_U8][FAC_U8] = table[FAC_I8][FAC_I8] = copy_1, table[FAC_I16][FAC_I16] = copy_2;
    table[FAC_I32][FAC_I32] = table[FAC_F32][FAC_F32] = copy_4,
    table[FAC_I64][FAC_I64] = table[FAC_F64][FAC_F64] = copy_8;
    *stream = stream_copy;
#if FAC_ISA_LEVEL >= 2
    if (fac__cpu_bf16) table[FAC_BF16][FAC_F32] = f32_bf16_by_instruction;
#endif
}
