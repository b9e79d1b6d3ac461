/* Elementary functions that loops can call and still vectorise: FAC_SIMD(exp, f32)(x). Each is a scalar function with
   vector twins under the names of the vector function ABI (_ZGVeN16v_...), over SLEEF. All twins of one instruction set
   run the same code, so an element's bits do not depend on where in a loop it falls. Without SLEEF they are the C
   library's, one element at a time. For *.isa.c files only. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SIMD_MATH_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SIMD_MATH_H

#include "backend/cpu/cpu.h"

#define FAC_SIMD_SLEEF (FAC_ISA_X86 && FAC_HAVE_SLEEF)

/* The file that defines the twins by hand must not have the compiler make them too. */
#if defined(__GNUC__) && !defined(__clang__) && FAC_SIMD_SLEEF && !defined(FAC_SIMD_DEFINE)
#define FAC_VECTOR_TWINS __attribute__((simd("notinbranch"), const))
#else
#define FAC_VECTOR_TWINS __attribute__((const))
#endif

#define FAC_SIMD(name, type) FAC_ISA_NAME(fac__##name##_##type)

/* clang-format off */
/* X(name, SLEEF's suffix, which says the accuracy) */
#define FAC_SIMD_UNARY(X)                                                                                              \
    X(exp, _u10) X(exp2, _u10) X(expm1, _u10) X(log, _u10) X(log2, _u10) X(log10, _u10) X(sin, _u10) X(cos, _u10)       \
    X(tan, _u10) X(asin, _u10) X(acos, _u10) X(atan, _u10) X(atanh, _u10) X(erfc, _u15) X(lgamma, _u10)                \
    X(tgamma, _u10)
/* X(name, suffix, f32, f64): SLEEF's overflow or vanish at the ends of the range, and from these numbers on the C library's
   are taken. */
#define FAC_SIMD_SETTLED(X)                                                                                            \
    X(log1p, _u10, 1e37f, 1e306) X(sinh, _u10, 88, 709) X(cosh, _u10, 88, 709) X(asinh, _u10, 1e18f, 1e153)            \
    X(acosh, _u10, 1e18f, 1e153)
/* Of these only the f64 form is SLEEF's. */
#define FAC_SIMD_UNARY_F64(X) X(tanh, _u10) X(erf, _u10)
#define FAC_SIMD_BINARY(X) X(atan2, _u10) X(hypot, _u05)
/* clang-format on */

#define FAC_SIMD_DECLARE_UNARY(name, accuracy)           \
    FAC_VECTOR_TWINS float FAC_SIMD(name, f32)(float x); \
    FAC_VECTOR_TWINS double FAC_SIMD(name, f64)(double x);
#define FAC_SIMD_DECLARE_SETTLED(name, accuracy, f32, f64) FAC_SIMD_DECLARE_UNARY(name, accuracy)
#define FAC_SIMD_DECLARE_UNARY_F64(name, accuracy) FAC_VECTOR_TWINS double FAC_SIMD(name, f64)(double x);
#define FAC_SIMD_DECLARE_BINARY(name, accuracy)                   \
    FAC_VECTOR_TWINS float FAC_SIMD(name, f32)(float x, float y); \
    FAC_VECTOR_TWINS double FAC_SIMD(name, f64)(double x, double y);
FAC_SIMD_UNARY(FAC_SIMD_DECLARE_UNARY)
FAC_SIMD_SETTLED(FAC_SIMD_DECLARE_SETTLED)
FAC_SIMD_UNARY_F64(FAC_SIMD_DECLARE_UNARY_F64)
FAC_SIMD_BINARY(FAC_SIMD_DECLARE_BINARY)
FAC_SIMD_DECLARE_BINARY(pow, )
FAC_SIMD_DECLARE_BINARY(fmod, )

/* a b + c, fused where the instruction set has it. */
static inline float FAC_ISA_NAME(fac__mad)(float a, float b, float c) {
#if FAC_ISA_LEVEL >= 1
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* exp of a number in [-60, 60] (or NaN) without a call, within 1 ulp where multiplications fuse, else 2: x = n ln2 + r with
   |r| <= ln2/2, exp(r) = 1 + r + r^2 q(r) as in vexp.h. */
static inline float FAC_ISA_NAME(fac__exp_near)(float x) {
    union {
        float f;
        uint32_t bits;
    } t, scale;
    t.f = FAC_ISA_NAME(fac__mad)(x, 0x1.715476p+0f, 0x1.8p+23f); /* n in the low bits */
    const float n = t.f - 0x1.8p+23f;
    float r = FAC_ISA_NAME(fac__mad)(n, -0x1.63p-1f, x);
    r = FAC_ISA_NAME(fac__mad)(n, 0x1.bd0106p-13f, r);
    float q = FAC_ISA_NAME(fac__mad)(0x1.6a2434p-10f, r, 0x1.1239e2p-7f);
    q = FAC_ISA_NAME(fac__mad)(q, r, 0x1.5558f2p-5f);
    q = FAC_ISA_NAME(fac__mad)(q, r, 0x1.555492p-3f);
    q = FAC_ISA_NAME(fac__mad)(q, r, 0x1.fffffcp-2f);
    scale.bits = (t.bits << 23) + 0x3f800000u; /* 2^n: the sum's upper bits are shifted out */
    return (FAC_ISA_NAME(fac__mad)(q * r, r, r) + 1) * scale.f;
}

/* tanh in f32, several times as fast as SLEEF's and within 2 ulp: an odd polynomial (minimax, fitted) below 0.625, where
   1 - 2 / (exp(2x) + 1) would cancel, and that above. */
static inline float FAC_SIMD(tanh, f32)(float x) {
    const float size = __builtin_fabsf(x), s = x * x;
    float p = -0x1.8f3ccap-8f;
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.57fd94p-6f);
    p = FAC_ISA_NAME(fac__mad)(p, s, -0x1.b925cap-5f);
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.110e24p-3f);
    p = FAC_ISA_NAME(fac__mad)(p, s, -0x1.555552p-2f);
    const float small = FAC_ISA_NAME(fac__mad)(p * s, x, x);
    const float large = 1 - 2 / (FAC_ISA_NAME(fac__exp_near)(size > 10 ? 20 : 2 * size) + 1);
    return __builtin_copysignf(size < 0.625f ? small : large, x);
}

/* erf in f32 likewise, within 1 ulp where multiplications fuse: x + x P(x^2) up to 0.92; beyond, with u = |x| - 1,
   1 - erfc(1) exp(u Q(u)), where u Q(u) is a fit of log(erfc(1 + u) / erfc(1)): its error vanishes with u, just where erfc
   still counts. Past 4 the result is 1. */
static inline float FAC_SIMD(erf, f32)(float x) {
    const float size = __builtin_fabsf(x), s = x * x, u = (size > 4 ? 4 : size) - 1;
    float p = -0x1.436f42p-17f;
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.d828eap-14f);
    p = FAC_ISA_NAME(fac__mad)(p, s, -0x1.bcc104p-11f);
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.562950p-8f);
    p = FAC_ISA_NAME(fac__mad)(p, s, -0x1.b829b4p-6f);
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.ce2f08p-4f);
    p = FAC_ISA_NAME(fac__mad)(p, s, -0x1.812746p-2f);
    p = FAC_ISA_NAME(fac__mad)(p, s, 0x1.06eba8p-3f);
    float q = -0x1.6990ccp-16f;
    q = FAC_ISA_NAME(fac__mad)(q, u, 0x1.2eef02p-12f);
    q = FAC_ISA_NAME(fac__mad)(q, u, -0x1.07920cp-9f);
    q = FAC_ISA_NAME(fac__mad)(q, u, 0x1.492c74p-7f);
    q = FAC_ISA_NAME(fac__mad)(q, u, -0x1.547c40p-5f);
    q = FAC_ISA_NAME(fac__mad)(q, u, -0x1.afabbcp-1f);
    q = FAC_ISA_NAME(fac__mad)(q, u, -0x1.51c9b0p+1f);
    const float small = FAC_ISA_NAME(fac__mad)(p, x, x);
    const float large = FAC_ISA_NAME(fac__mad)(-0x1.422616p-3f, FAC_ISA_NAME(fac__exp_near)(u * q), 1);
    return size < 0.92f ? small : __builtin_copysignf(large, x);
}

#endif
