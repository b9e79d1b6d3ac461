/* Elementary functions that loops can call and still vectorise: FAC_SIMD(exp, f32)(x). Each is a scalar function with
   vector twins under the names of the vector function ABI (_ZGVeN16v_...), over SLEEF. All twins of one instruction set
   run the same code, so an element's bits do not depend on where in a loop it falls. Without SLEEF they are the C
   library's, one element at a time. For *.isa.c files only. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SIMD_MATH_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SIMD_MATH_H

#include "backend/cpu/cpu.h"
#include "ops/scalar/erfcx_terms.h"
#include "ops/scalar/horner.h"

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
    X(tan, _u10) X(atan, _u10) X(asin, _u10) X(acos, _u10) X(atanh, _u10) X(lgamma, _u10) X(tgamma, _u10)
/* X(name, suffix, f32, f64): SLEEF's overflow or vanish at the ends of the range, and from these numbers on the C library's
   are taken. */
#define FAC_SIMD_SETTLED(X)                                                                                            \
    X(log1p, _u10, 1e37f, 1e306) X(sinh, _u10, 88, 709) X(cosh, _u10, 88, 709) X(asinh, _u10, 1e18f, 1e153)            \
    X(acosh, _u10, 1e18f, 1e153)
/* Of these only the f64 form is SLEEF's. */
#define FAC_SIMD_UNARY_F64(X) X(tanh, _u10) X(erf, _u10) X(erfc, _u15)
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

static inline double FAC_ISA_NAME(fac__mad_f64)(double a, double b, double c) {
#if FAC_ISA_LEVEL >= 1
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* 2^more exp(n ln2 + r) of |r| <= ln2/2, n in the low bits of t: 1 + r + r^2 q(r) as in vexp.h, times 2^(n + more). */
static inline float FAC_ISA_NAME(fac__exp_reduced)(float t, float r, unsigned more) {
    union {
        float f;
        uint32_t bits;
    } n, scale;
    n.f = t;
    float q = FAC_ISA_NAME(fac__mad)(0x1.6a2434p-10f, r, 0x1.1239e2p-7f);
    q = FAC_ISA_NAME(fac__mad)(q, r, 0x1.5558f2p-5f);
    q = FAC_ISA_NAME(fac__mad)(q, r, 0x1.555492p-3f);
    q = FAC_ISA_NAME(fac__mad)(q, r, 0x1.fffffcp-2f);
    scale.bits = (n.bits << 23) + 0x3f800000u + (more << 23); /* the upper bits are shifted out */
    return (FAC_ISA_NAME(fac__mad)(q * r, r, r) + 1) * scale.f;
}
/* x / ln2 rounded, in the low bits of the sum with 1.5 * 2^23; and x - n ln2. */
static inline float FAC_ISA_NAME(fac__exp_multiple)(float x) {
    return FAC_ISA_NAME(fac__mad)(x, 0x1.715476p+0f, 0x1.8p+23f);
}
static inline float FAC_ISA_NAME(fac__exp_rest)(float x, float t) {
    const float n = t - 0x1.8p+23f, r = FAC_ISA_NAME(fac__mad)(n, -0x1.63p-1f, x);
    return FAC_ISA_NAME(fac__mad)(n, 0x1.bd0106p-13f, r);
}
/* exp of a number in [-60, 60] (or NaN) without a call, within 1 ulp where multiplications fuse, else 2. */
static inline float FAC_ISA_NAME(fac__exp_near)(float x) {
    const float t = FAC_ISA_NAME(fac__exp_multiple)(x);
    return FAC_ISA_NAME(fac__exp_reduced)(t, FAC_ISA_NAME(fac__exp_rest)(x, t), 0);
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
    const float y = 2 * (size > 10 ? 10 : size), t = FAC_ISA_NAME(fac__exp_multiple)(y);
    const float rest =
        FAC_ISA_NAME(fac__mad)(t - 0x1.8p+23f, -0x1.62e430p-1f, y); /* the more it lacks the less it counts */
    const float large = 1 - 2 / (FAC_ISA_NAME(fac__exp_reduced)(t, rest, 0) + 1);
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

/* exp(-|x|) in f32 without a call, within 1 ulp where multiplications fuse, else 2, down to the smallest number: it is computed 2^64
   times too large, so that only the result rounds to a subnormal number. */
static inline float FAC_SIMD(exp_minus_abs, f32)(float x) {
    const float size = __builtin_fabsf(x), y = size > 105 ? -105 : -size, t = FAC_ISA_NAME(fac__exp_multiple)(y);
    return FAC_ISA_NAME(fac__exp_reduced)(t, FAC_ISA_NAME(fac__exp_rest)(y, t), 64) * 0x1p-64f;
}
static inline double FAC_SIMD(exp_minus_abs, f64)(double x) { return FAC_SIMD(exp, f64)(-__builtin_fabs(x)); }

/* log(1 + x) of x in [0, 1], in f32 without a call, within 1.3 ulp: of s = x / (2 + x), x^2 / 2 and the logarithm 2s + s^3 P(s^2), P a
   minimax fit, it is x - (x^2 / 2 - s (x^2 / 2 + s^2 P(s^2))), which loses little of what s lacks. */
static inline float FAC_SIMD(log1p_unit, f32)(float x) {
    const float s = x / (2 + x), z = s * s, half = 0.5f * x * x;
    float p = 0x1.1ed98ap-2f;
    p = FAC_ISA_NAME(fac__mad)(p, z, 0x1.1ebcb8p-2f);
    p = FAC_ISA_NAME(fac__mad)(p, z, 0x1.99d20ep-2f);
    p = FAC_ISA_NAME(fac__mad)(p, z, 0x1.555502p-1f);
    return x - (half - s * FAC_ISA_NAME(fac__mad)(p, z, half));
}
static inline double FAC_SIMD(log1p_unit, f64)(double x) { return FAC_SIMD(log1p, f64)(x); }

/* What `square`, a * a rounded, has lost. */
static inline float FAC_ISA_NAME(fac__square_rest)(float a, float square) {
#if FAC_ISA_LEVEL >= 1
    return __builtin_fmaf(a, a, -square);
#else /* of a in two halves, whose products are exact (Dekker 1971) */
    const float up = 4097 * a, high = up - (up - a), low = a - high;
    return ((high * high - square) + 2 * high * low) + low * low;
#endif
}

/* 2^64 Phi(-a) of 0 <= a <= 15, Phi being the normal distribution's cumulative function: exp(-a^2 / 2) P(a) / Q(a), a minimax fit of
   relative error 7e-9 with coefficients that are all positive, and 1/2 at 0. The exponential is that above, of z = -2r. */
static inline float FAC_ISA_NAME(fac__normal_tail)(float a) {
    const float square = a * a, rest = FAC_ISA_NAME(fac__square_rest)(a, square);
    union {
        float f;
        uint32_t bits;
    } t, scale;
    t.f = FAC_ISA_NAME(fac__mad)(square, -0x1.715476p-1f, 0x1.8p+23f);
    const float n = t.f - 0x1.8p+23f;
    const float z = FAC_ISA_NAME(fac__mad)(n, -0x1.bd0106p-12f, FAC_ISA_NAME(fac__mad)(n, 0x1.63p+0f, square)) + rest;
    float e = 0x1.6a2434p-16f;
    e = FAC_ISA_NAME(fac__mad)(e, z, -0x1.1239e2p-12f);
    e = FAC_ISA_NAME(fac__mad)(e, z, 0x1.5558f2p-9f);
    e = FAC_ISA_NAME(fac__mad)(e, z, -0x1.555492p-6f);
    e = FAC_ISA_NAME(fac__mad)(e, z, 0x1.fffffcp-4f);
    e = FAC_ISA_NAME(fac__mad)(e, z, -0.5f);
    e = FAC_ISA_NAME(fac__mad)(e, z, 1);
    scale.bits = (t.bits << 23) + 0x3f800000u + (64u << 23);
    float p = 0x1.0e238ep-8f;
    p = FAC_ISA_NAME(fac__mad)(p, a, 0x1.4d4f38p-5f);
    p = FAC_ISA_NAME(fac__mad)(p, a, 0x1.77a3f6p-3f);
    p = FAC_ISA_NAME(fac__mad)(p, a, 0x1.c11a8cp-2f);
    p = FAC_ISA_NAME(fac__mad)(p, a, 0x1p-1f);
    float q = 0x1.5290aep-7f;
    q = FAC_ISA_NAME(fac__mad)(q, a, 0x1.a1c45cp-4f);
    q = FAC_ISA_NAME(fac__mad)(q, a, 0x1.e139c0p-2f);
    q = FAC_ISA_NAME(fac__mad)(q, a, 0x1.340cdcp+0f);
    q = FAC_ISA_NAME(fac__mad)(q, a, 0x1.accf74p+0f);
    q = FAC_ISA_NAME(fac__mad)(q, a, 1);
    return p / q * (e * scale.f);
}

/* Phi(x) in f32 within 7 ulp (8 without fused multiplication), down to the smallest number. */
static inline float FAC_SIMD(normcdf, f32)(float x) {
    const float size = __builtin_fabsf(x);
    const float tail = FAC_ISA_NAME(fac__normal_tail)(size > 15 ? 15 : size) * 0x1p-64f;
    return x < 0 ? tail : 1 - tail;
}

/* x Phi(x) in f32 likewise: max(x, 0) - |x| Phi(-|x|), of which only the result rounds to a subnormal number. */
static inline float FAC_SIMD(gelu, f32)(float x) {
    const float size = __builtin_fabsf(x), a = size > 15 ? 15 : size;
    return FAC_ISA_NAME(fac__mad)(FAC_ISA_NAME(fac__normal_tail)(a) * a, -0x1p-64f, x < 0 ? x * 0 : x);
}

#define FAC_MAD FAC_ISA_NAME(fac__mad_f64)
/* Phi(-a) in f64, a not negative, as *scale times what is returned: exp(-a^2 / 2) erfcx(a / sqrt(2)) / 2, where erfcx is that of
   erfcx_terms.h. The square of a's upper half is exact; a power of two that may be subnormal is kept apart, to be multiplied last. */
static inline __attribute__((always_inline)) double FAC_ISA_NAME(fac__normal_tail_f64)(double a, double *scale) {
    union {
        double number;
        uint64_t bits;
    } whole, first, second;
    const double magic = 0x1.8p52, high = (double)(float)a, y = -0.5 * (high * high),
                 low = -0.5 * ((a - high) * (a + high));
    whole.number = FAC_ISA_NAME(fac__mad_f64)(y, 0x1.71547652b82fep+0, magic); /* y / ln2 rounded, in the low bits */
    const double k = whole.number - magic;
    first.number = FAC_ISA_NAME(fac__mad_f64)(k, 0.5, magic);
    second.number = k - (first.number - magic) + magic;
    first.bits = (first.bits << 52) + 0x3ff0000000000000;
    second.bits = (second.bits << 52) + 0x3ff0000000000000;
    /* ln2 in two, the first of which a whole number can multiply exactly */
    const double r = FAC_ISA_NAME(fac__mad_f64)(k, -0x1.62e42fefa38p-1, y) +
                     FAC_ISA_NAME(fac__mad_f64)(k, -0x1.ef35793c7673p-45, low);
    const double e =
        FAC_HORNER(r, 1, 1, 0x1.0000000000000p-1, 0x1.5555555555555p-3, 0x1.5555555555555p-5, 0x1.1111111111111p-7,
                   0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19,
                   0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26, 0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33);
    const double s = 0x1.6a09e667f3bcdp-1 * a, t = (s - 3) / (s + 3), p = FAC_HORNER(t, FAC_ERFCX_TERMS);
    *scale = second.number;
    return p / (2 + 4 * s) * (e * first.number);
}
#undef FAC_MAD

static inline __attribute__((always_inline)) double FAC_SIMD(normcdf, f64)(double x) {
    const double size = __builtin_fabs(x);
    double scale;
    const double tail = FAC_ISA_NAME(fac__normal_tail_f64)(size > 39 ? 39 : size, &scale) * scale;
    return x < 0 ? tail : 1 - tail;
}
/* x Phi(x), which may be a number where Phi(x) is subnormal, and is 0 from -39 on. */
static inline __attribute__((always_inline)) double FAC_SIMD(gelu, f64)(double x) {
    const double size = __builtin_fabs(x), a = size > 39 ? 39 : size;
    double scale;
    const double tail = FAC_ISA_NAME(fac__normal_tail_f64)(a, &scale);
    return x < 0 ? x * 0 - a * tail * scale : x * (1 - tail * scale);
}

/* The next number after a on the way to b: one more or less of the bits, whose order is that of the sizes. */
#define FAC_SIMD_NEXTAFTER(T, type, W)                            \
    static inline T FAC_SIMD(nextafter, type)(T a, T b) {         \
        union {                                                   \
            T number;                                             \
            W bits;                                               \
        } from, to, least;                                        \
        from.number = a, to.number = b;                           \
        least.bits = (to.bits & (W)1 << (8 * sizeof(W) - 1)) | 1; \
        from.bits += (a < b) == (a > 0) ? (W)1 : (W)-1;           \
        const T next = a == 0 ? least.number : from.number;       \
        return ((a != a) | (b != b)) ? a + b : a == b ? b : next; \
    }
FAC_SIMD_NEXTAFTER(float, f32, uint32_t)
FAC_SIMD_NEXTAFTER(double, f64, uint64_t)

#endif
