/* Elementary functions that loops can call and still vectorise: FAC_SIMD(exp, f32)(x). Each is a scalar function with
   vector twins under the names of the vector function ABI (_ZGVeN16v_...), over SLEEF. All twins of one instruction set
   run the same code, so an element's bits do not depend on where in a loop it falls. For *.isa.c files only. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SIMD_MATH_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SIMD_MATH_H

#include "backend/cpu/cpu.h"

/* The file that defines the twins by hand must not have the compiler make them too. */
#if defined(__GNUC__) && !defined(__clang__) && FAC_ISA_X86 && !defined(FAC_SIMD_DEFINE)
#define FAC_VECTOR_TWINS __attribute__((simd("notinbranch"), const))
#else
#define FAC_VECTOR_TWINS __attribute__((const))
#endif

#define FAC_SIMD(name, type) FAC_ISA_NAME(fac__##name##_##type)

/* X(name, SLEEF's accuracy suffix) */
#define FAC_SIMD_UNARY(X)                                                                                              \
    X(exp, u10) X(exp2, u10) X(expm1, u10) X(log, u10) X(log2, u10) X(log10, u10) X(log1p, u10) X(sin, u10)            \
    X(cos, u10) X(tan, u10) X(asin, u10) X(acos, u10) X(atan, u10) X(sinh, u10) X(cosh, u10) X(tanh, u10)              \
    X(asinh, u10) X(acosh, u10) X(atanh, u10) X(erf, u10) X(erfc, u15) X(lgamma, u10) X(tgamma, u10)
#define FAC_SIMD_BINARY(X) X(pow, u10) X(atan2, u10) X(hypot, u05)

#define FAC_SIMD_DECLARE_UNARY(name, accuracy)                                                                         \
    FAC_VECTOR_TWINS float FAC_SIMD(name, f32)(float x);                                                               \
    FAC_VECTOR_TWINS double FAC_SIMD(name, f64)(double x);
#define FAC_SIMD_DECLARE_BINARY(name, accuracy)                                                                        \
    FAC_VECTOR_TWINS float FAC_SIMD(name, f32)(float x, float y);                                                      \
    FAC_VECTOR_TWINS double FAC_SIMD(name, f64)(double x, double y);
FAC_SIMD_UNARY(FAC_SIMD_DECLARE_UNARY)
FAC_SIMD_BINARY(FAC_SIMD_DECLARE_BINARY)

#endif
