/* Numbers in kernels: 16-bit floats as storage, and elements of any dtype read as, or written from, float, double, int64_t or a
   pair of doubles. The conversions follow the rule of core/scalar.c. */
#ifndef FAC_KERNEL_NUMBER_H
#define FAC_KERNEL_NUMBER_H

#include "dtype.h"
#include "kernel.h"

/* ---- 16-bit floats ------------------------------------------------------------------------------------------------------------ */

KDEV float k_bf16_to_f32(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
/* To nearest, ties to even; NaN stays NaN. */
KDEV uint16_t k_f32_to_bf16(float x) {
    uint32_t bits = __float_as_uint(x);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#ifdef __CUDACC__
KDEV float k_f16_to_f32(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
KDEV uint16_t k_f32_to_f16(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#else
KDEV float k_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x400u) return __uint_as_float(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    float x = (float)magnitude * 0x1p-24f;
    return sign ? -x : x;
}
KDEV uint16_t k_f32_to_f16(float x) {
    uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) /* subnormal: adding 0.5 leaves it in units of 2^-24 */
        return (uint16_t)(sign | (__float_as_uint(__uint_as_float(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((a - ((127u - 15u) << 23) + 0xfffu + (a >> 13 & 1u)) >> 13));
}
#endif

/* x as if it had been stored in a 16-bit float and read again; other dtypes leave it alone. */
KDEV float k_round(float x, int dtype) {
    if (dtype == K_F16) return k_f16_to_f32(k_f32_to_f16(x));
    return dtype == K_BF16 ? k_bf16_to_f32(k_f32_to_bf16(x)) : x;
}

/* ---- floating to integral ----------------------------------------------------------------------------------------------------- */

#define FAC_TRUNCATE_FN KDEV
#define FAC_FROM double
#define FAC_TRUNCATE(name) k_f64_##name
#include "core/truncate.h"

/* x as if it had been stored in an integer dtype and read again. */
KDEV_CALL int64_t k_truncate(double x, int dtype) {
    switch (dtype) {
    case K_U8: return k_f64_to_u8(x);
    case K_I8: return k_f64_to_i8(x);
    case K_I16: return k_f64_to_i16(x);
    case K_I32: return k_f64_to_i32(x);
    default: return k_f64_to_i64(x);
    }
}

/* ---- elements of any dtype ------------------------------------------------------------------------------------------------------- */

typedef struct k_complex {
    double re, im;
} k_complex;

#define K_READ(T) (*(const T *)(const void *)p)
#define K_WRITE(T, v) (*(T *)(void *)p = (T)(v))

KDEV_CALL double k_load_f64(const char *p, int dtype) {
    switch (dtype) {
    case K_BOOL: return K_READ(uint8_t) != 0;
    case K_U8: return K_READ(uint8_t);
    case K_I8: return K_READ(int8_t);
    case K_I16: return K_READ(int16_t);
    case K_I32: return K_READ(int32_t);
    case K_I64: return (double)K_READ(int64_t);
    case K_F16: return k_f16_to_f32(K_READ(uint16_t));
    case K_BF16: return k_bf16_to_f32(K_READ(uint16_t));
    case K_F32:
    case K_C64: return K_READ(float);
    default: return K_READ(double);
    }
}

KDEV_CALL float k_load_f32(const char *p, int dtype) {
    switch (dtype) {
    case K_I64: return (float)K_READ(int64_t);
    case K_F16: return k_f16_to_f32(K_READ(uint16_t));
    case K_BF16: return k_bf16_to_f32(K_READ(uint16_t));
    case K_F32: return K_READ(float);
    default: return (float)k_load_f64(p, dtype);
    }
}

KDEV_CALL int64_t k_load_i64(const char *p, int dtype) {
    switch (dtype) {
    case K_BOOL: return K_READ(uint8_t) != 0;
    case K_U8: return K_READ(uint8_t);
    case K_I8: return K_READ(int8_t);
    case K_I16: return K_READ(int16_t);
    case K_I32: return K_READ(int32_t);
    case K_I64: return K_READ(int64_t);
    default: return k_f64_to_i64(k_load_f64(p, dtype));
    }
}

KDEV_CALL bool k_load_bool(const char *p, int dtype) {
    if (dtype == K_C64) return K_READ(float) != 0 || ((const float *)(const void *)p)[1] != 0;
    if (dtype == K_C128) return K_READ(double) != 0 || ((const double *)(const void *)p)[1] != 0;
    return dtype >= K_F16 ? k_load_f64(p, dtype) != 0 : k_load_i64(p, dtype) != 0;
}

KDEV_CALL void k_store_f64(char *p, int dtype, double v) {
    switch (dtype) {
    case K_BOOL: K_WRITE(uint8_t, v != 0); break;
    case K_U8: K_WRITE(uint8_t, k_f64_to_u8(v)); break;
    case K_I8: K_WRITE(int8_t, k_f64_to_i8(v)); break;
    case K_I16: K_WRITE(int16_t, k_f64_to_i16(v)); break;
    case K_I32: K_WRITE(int32_t, k_f64_to_i32(v)); break;
    case K_I64: K_WRITE(int64_t, k_f64_to_i64(v)); break;
    case K_F16: K_WRITE(uint16_t, k_f32_to_f16((float)v)); break;
    case K_BF16: K_WRITE(uint16_t, k_f32_to_bf16((float)v)); break;
    case K_F32: K_WRITE(float, v); break;
    case K_F64: K_WRITE(double, v); break;
    case K_C64:
        K_WRITE(float, v);
        ((float *)(void *)p)[1] = 0;
        break;
    default:
        K_WRITE(double, v);
        ((double *)(void *)p)[1] = 0;
        break;
    }
}

KDEV_CALL void k_store_f32(char *p, int dtype, float v) {
    switch (dtype) {
    case K_F16: K_WRITE(uint16_t, k_f32_to_f16(v)); break;
    case K_BF16: K_WRITE(uint16_t, k_f32_to_bf16(v)); break;
    case K_F32: K_WRITE(float, v); break;
    default: k_store_f64(p, dtype, v); break;
    }
}

KDEV_CALL void k_store_i64(char *p, int dtype, int64_t v) {
    switch (dtype) {
    case K_BOOL: K_WRITE(uint8_t, v != 0); break;
    case K_U8: K_WRITE(uint8_t, v); break;
    case K_I8: K_WRITE(int8_t, v); break;
    case K_I16: K_WRITE(int16_t, v); break;
    case K_I32: K_WRITE(int32_t, v); break;
    case K_I64: K_WRITE(int64_t, v); break;
    case K_F16:
    case K_BF16:
    case K_F32: k_store_f32(p, dtype, (float)v); break;
    default: k_store_f64(p, dtype, (double)v); break;
    }
}

KDEV_CALL k_complex k_load_complex(const char *p, int dtype) {
    k_complex z;
    z.re = k_load_f64(p, dtype);
    z.im = dtype == K_C64    ? (double)((const float *)(const void *)p)[1]
           : dtype == K_C128 ? ((const double *)(const void *)p)[1]
                             : 0.0;
    return z;
}

KDEV_CALL void k_store_complex(char *p, int dtype, k_complex z) {
    if (dtype == K_BOOL) {
        K_WRITE(uint8_t, z.re != 0 || z.im != 0);
        return;
    }
    k_store_f64(p, dtype, z.re);
    if (dtype == K_C64) ((float *)(void *)p)[1] = (float)z.im;
    if (dtype == K_C128) ((double *)(void *)p)[1] = z.im;
}

#endif
