/* Conversions between memory and tiles. Unit strides are separate loops so that they vectorise. */
#include "backend/cpu/kernels/tile_isa.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define RUN(T, D, EXPR)                       \
    do {                                      \
        const T *s_ = src;                    \
        D *d_ = dst;                          \
        if (stride == 1) {                    \
            for (int64_t i = 0; i < n; i++) { \
                T x = s_[i];                  \
                d_[i] = (D)(EXPR);            \
            }                                 \
        } else {                              \
            for (int64_t i = 0; i < n; i++) { \
                T x = s_[i * stride];         \
                d_[i] = (D)(EXPR);            \
            }                                 \
        }                                     \
    } while (0)

/* The cases that real kinds share. A bool is read as a byte and normalised. */
#define REAL_CASES(D)                              \
    case FAC_BOOL: RUN(uint8_t, D, x != 0); break; \
    case FAC_U8: RUN(uint8_t, D, x); break;        \
    case FAC_I8: RUN(int8_t, D, x); break;         \
    case FAC_I16: RUN(int16_t, D, x); break;       \
    case FAC_I32: RUN(int32_t, D, x); break;       \
    case FAC_I64: RUN(int64_t, D, x); break

typedef struct re_im32 {
    float re, im;
} re_im32;
typedef struct re_im64 {
    double re, im;
} re_im64;

static inline float half_to_f32(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return fac__f16_to_f32(h);
#endif
}

static inline uint16_t half_of_f32(float x) {
#if defined(__F16C__)
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#else
    return fac__f32_to_f16(x);
#endif
}

static int64_t half_to_f32_blocks(float *dst, const uint16_t *src, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + i))));
#else
    (void)dst, (void)src, (void)n;
#endif
    return i;
}

static int64_t half_of_f32_blocks(uint16_t *dst, const float *src, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(dst + i), h);
    }
#else
    (void)dst, (void)src, (void)n;
#endif
    return i;
}

static void load_f16(float *dst, const uint16_t *src, int64_t stride, int64_t n) {
    int64_t i = stride == 1 ? half_to_f32_blocks(dst, src, n) : 0;
    for (; i < n; i++) dst[i] = half_to_f32(src[i * stride]);
}

static void store_f16(uint16_t *dst, const float *src, int64_t stride, int64_t n) {
    int64_t i = stride == 1 ? half_of_f32_blocks(dst, src, n) : 0;
    for (; i < n; i++) dst[i * stride] = half_of_f32(src[i]);
}

static void load_f32(void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    switch (d) {
        REAL_CASES(float);
    case FAC_F16: load_f16(dst, src, stride, n); break;
    case FAC_BF16: RUN(uint16_t, float, fac__bf16_to_f32(x)); break;
    case FAC_F32: RUN(float, float, x); break;
    case FAC_F64: RUN(double, float, x); break;
    case FAC_C64: RUN(re_im32, float, x.re); break;
    case FAC_C128: RUN(re_im64, float, x.re); break;
    default: break;
    }
}

static void load_f64(void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    switch (d) {
        REAL_CASES(double);
    case FAC_F16: RUN(uint16_t, double, half_to_f32(x)); break;
    case FAC_BF16: RUN(uint16_t, double, fac__bf16_to_f32(x)); break;
    case FAC_F32: RUN(float, double, x); break;
    case FAC_F64: RUN(double, double, x); break;
    case FAC_C64: RUN(re_im32, double, x.re); break;
    case FAC_C128: RUN(re_im64, double, x.re); break;
    default: break;
    }
}

#define FAC_TRUNCATE_FN static inline
#define FAC_FROM float
#define FAC_TRUNCATE(name) f32_##name
#include "core/truncate.h"
#define FAC_TRUNCATE_FN static inline
#define FAC_FROM double
#define FAC_TRUNCATE(name) f64_##name
#include "core/truncate.h"

static void load_i64(void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    switch (d) {
        REAL_CASES(int64_t);
    case FAC_F16: RUN(uint16_t, int64_t, f32_to_i64(half_to_f32(x))); break;
    case FAC_BF16: RUN(uint16_t, int64_t, f32_to_i64(fac__bf16_to_f32(x))); break;
    case FAC_F32: RUN(float, int64_t, f32_to_i64(x)); break;
    case FAC_F64: RUN(double, int64_t, f64_to_i64(x)); break;
    case FAC_C64: RUN(re_im32, int64_t, f32_to_i64(x.re)); break;
    case FAC_C128: RUN(re_im64, int64_t, f64_to_i64(x.re)); break;
    default: break;
    }
}

static void load_c128(void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    re_im64 *z = dst;
    if (d == FAC_C64) {
        const re_im32 *s = src;
        for (int64_t i = 0; i < n; i++) z[i] = (re_im64){(double)s[i * stride].re, (double)s[i * stride].im};
    } else if (d == FAC_C128) {
        const re_im64 *s = src;
        for (int64_t i = 0; i < n; i++) z[i] = s[i * stride];
    } else {
        /* Reals are laid in the upper half, then spread from the front. */
        double *re = (double *)dst + n;
        load_f64(re, src, d, stride, n);
        for (int64_t i = 0; i < n; i++) z[i] = (re_im64){re[i], 0.0};
    }
}

void FAC_ISA_NAME(fac__tile_load)(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    switch (k) {
    case FAC_ACC_F32: load_f32(dst, src, d, stride, n); break;
    case FAC_ACC_F64: load_f64(dst, src, d, stride, n); break;
    case FAC_ACC_I64: load_i64(dst, src, d, stride, n); break;
    default: load_c128(dst, src, d, stride, n); break;
    }
}

static void load_nonzero(void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    switch (fac__dtype_size(d)) {
    case 1: RUN(uint8_t, int64_t, x != 0); break;
    case 2:
        if (d == FAC_I16)
            RUN(uint16_t, int64_t, x != 0);
        else
            RUN(uint16_t, int64_t, (x & 0x7fff) != 0); /* the sign of a 16-bit float's zero does not count */
        break;
    case 4:
        if (d == FAC_F32)
            RUN(float, int64_t, x != 0);
        else
            RUN(uint32_t, int64_t, x != 0);
        break;
    case 8:
        if (d == FAC_F64)
            RUN(double, int64_t, x != 0);
        else if (d == FAC_C64)
            RUN(re_im32, int64_t, x.re != 0 || x.im != 0);
        else
            RUN(uint64_t, int64_t, x != 0);
        break;
    default: RUN(re_im64, int64_t, x.re != 0 || x.im != 0); break;
    }
}

static void load_modulus(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    if (d == FAC_C64 && k == FAC_ACC_F32)
        RUN(re_im32, float, hypotf(x.re, x.im));
    else if (d == FAC_C64)
        RUN(re_im32, double, hypot((double)x.re, (double)x.im));
    else if (k == FAC_ACC_F32)
        RUN(re_im64, float, hypot(x.re, x.im));
    else
        RUN(re_im64, double, hypot(x.re, x.im));
}

static void map_f32(float *x, int64_t n, fac_tile_map map, double p) {
    float q = (float)p;
    switch (map) {
    case FAC_MAP_NAN_TO_ZERO:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] == x[i] ? x[i] : 0.0f;
        break;
    case FAC_MAP_ABS:
        for (int64_t i = 0; i < n; i++) x[i] = fabsf(x[i]);
        break;
    case FAC_MAP_SQUARE:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] * x[i];
        break;
    case FAC_MAP_POW:
        for (int64_t i = 0; i < n; i++) x[i] = powf(fabsf(x[i]), q);
        break;
    default: break;
    }
}

static void map_f64(double *x, int64_t n, fac_tile_map map, double p) {
    switch (map) {
    case FAC_MAP_NAN_TO_ZERO:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] == x[i] ? x[i] : 0.0;
        break;
    case FAC_MAP_ABS:
        for (int64_t i = 0; i < n; i++) x[i] = fabs(x[i]);
        break;
    case FAC_MAP_SQUARE:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] * x[i];
        break;
    case FAC_MAP_POW:
        for (int64_t i = 0; i < n; i++) x[i] = pow(fabs(x[i]), p);
        break;
    default: break;
    }
}

void FAC_ISA_NAME(fac__tile_load_map)(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n,
                                      fac_tile_map map, double p) {
    if (map == FAC_MAP_NONZERO) {
        load_nonzero(dst, src, d, stride, n);
        return;
    }
    if (fac_dtype_is_complex(d) && k != FAC_ACC_C128)
        load_modulus(k, dst, src, d, stride, n);
    else
        FAC_ISA_NAME(fac__tile_load)(k, dst, src, d, stride, n);
    if (k == FAC_ACC_F32)
        map_f32(dst, n, map, p);
    else if (k == FAC_ACC_F64)
        map_f64(dst, n, map, p);
}

#define PUT(S, T, EXPR)                       \
    do {                                      \
        const S *s_ = src;                    \
        T *d_ = dst;                          \
        if (stride == 1) {                    \
            for (int64_t i = 0; i < n; i++) { \
                S x = s_[i];                  \
                d_[i] = (T)(EXPR);            \
            }                                 \
        } else {                              \
            for (int64_t i = 0; i < n; i++) { \
                S x = s_[i];                  \
                d_[i * stride] = (T)(EXPR);   \
            }                                 \
        }                                     \
    } while (0)

/* TO_u8 and so on convert one element. */
#define INT_CASES(S, TO)                              \
    case FAC_BOOL: PUT(S, uint8_t, x != 0); break;    \
    case FAC_U8: PUT(S, uint8_t, TO##u8(x)); break;   \
    case FAC_I8: PUT(S, int8_t, TO##i8(x)); break;    \
    case FAC_I16: PUT(S, int16_t, TO##i16(x)); break; \
    case FAC_I32: PUT(S, int32_t, TO##i32(x)); break; \
    case FAC_I64:                                     \
        PUT(S, int64_t, TO##i64(x));                  \
        break
#define FLOAT_CASES(S)                                                  \
    case FAC_F16: PUT(S, uint16_t, half_of_f32((float)x)); break;       \
    case FAC_BF16: PUT(S, uint16_t, fac__f32_to_bf16((float)x)); break; \
    case FAC_F32: PUT(S, float, x); break;                              \
    case FAC_F64:                                                       \
        PUT(S, double, x);                                              \
        break
#define COMPLEX_CASES(S)                                                              \
    case FAC_C64: {                                                                   \
        re_im32 *z = dst;                                                             \
        const S *s = src;                                                             \
        for (int64_t i = 0; i < n; i++) z[i * stride] = (re_im32){(float)s[i], 0.0f}; \
        break;                                                                        \
    }                                                                                 \
    case FAC_C128: {                                                                  \
        re_im64 *z = dst;                                                             \
        const S *s = src;                                                             \
        for (int64_t i = 0; i < n; i++) z[i * stride] = (re_im64){(double)s[i], 0.0}; \
        break;                                                                        \
    }

static void store_f32(const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    if (d == FAC_F16) {
        store_f16(dst, src, stride, n);
        return;
    }
    switch (d) {
        INT_CASES(float, f32_to_);
        FLOAT_CASES(float);
        COMPLEX_CASES(float);
    default: break;
    }
}

static void store_f64(const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    switch (d) {
        INT_CASES(double, f64_to_);
        FLOAT_CASES(double);
        COMPLEX_CASES(double);
    default: break;
    }
}

/* Integers keep their low bits. */
#define low_u8 (uint8_t)
#define low_i8 (int8_t)
#define low_i16 (int16_t)
#define low_i32 (int32_t)
#define low_i64 (int64_t)
static void store_i64(const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    switch (d) {
        INT_CASES(int64_t, low_);
        FLOAT_CASES(int64_t);
        COMPLEX_CASES(int64_t);
    default: break;
    }
}

static void store_c128(const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    const re_im64 *s = src;
    if (d == FAC_C64) {
        re_im32 *z = dst;
        for (int64_t i = 0; i < n; i++) z[i * stride] = (re_im32){(float)s[i].re, (float)s[i].im};
    } else if (d == FAC_C128) {
        re_im64 *z = dst;
        for (int64_t i = 0; i < n; i++) z[i * stride] = s[i];
    } else {
        char *p = dst;
        for (int64_t i = 0; i < n; i++) store_f64(&s[i].re, p + i * stride * fac__dtype_size(d), d, 1, 1);
    }
}

void FAC_ISA_NAME(fac__tile_store)(fac_acc k, const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    switch (k) {
    case FAC_ACC_F32: store_f32(src, dst, d, stride, n); break;
    case FAC_ACC_F64: store_f64(src, dst, d, stride, n); break;
    case FAC_ACC_I64: store_i64(src, dst, d, stride, n); break;
    default: store_c128(src, dst, d, stride, n); break;
    }
}
