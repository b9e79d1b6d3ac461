/* Loops of elementary functions. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/kernels/vtrig.h"
#include "backend/cpu/loops.h"

#define FAC_LOOPS FAC_LOOPS_MATH
#define FAC_NUMBER_OF FAC_REAL_NUMBER

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#define FAC_INFINITY __builtin_inff()
#include "ops/scalar/math.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#define FAC_INFINITY __builtin_inf()
#include "ops/scalar/math.h"

#include "backend/cpu/kernels/loops_of_type.h"

#if FAC_SIMD_SLEEF && FAC_ISA_LEVEL >= 1
/* Loops that would pay more for calling the twins of a function than for computing it; simd_math.isa.c takes the same vectors. */
#define VECTOR_LOOP(name, T, V, RESULT)                                                              \
    static void name(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        enum { LANES = sizeof(V) / sizeof(T) };                                                      \
        T *out = FAC_OPERAND(0, T);                                                                  \
        const T *a = FAC_OPERAND(1, const T);                                                        \
        for (; n >= LANES; n -= LANES, a += LANES, out += LANES) {                                   \
            V x, r;                                                                                  \
            memcpy(&x, a, sizeof x);                                                                 \
            r = RESULT(x);                                                                           \
            memcpy(out, &r, sizeof r);                                                               \
        }                                                                                            \
        if (n > 0) {                                                                                 \
            V x = {0}, r;                                                                            \
            memcpy(&x, a, (size_t)n * sizeof *a);                                                    \
            r = RESULT(x);                                                                           \
            memcpy(out, &r, (size_t)n * sizeof *out);                                                \
        }                                                                                            \
    }
VECTOR_LOOP(vexp_f32, float, fac_vf32, fac__vexp)
VECTOR_LOOP(vexp_f64, double, fac_vf64, fac__vexp_f64)
#define TRIG_LOOP(name)                                                           \
    static __attribute__((noinline)) fac_vf32 far_##name(fac_vf32 x) {            \
        for (int j = 0; j < FAC_LANES_F32; j++) x[j] = FAC_SIMD(name, f32)(x[j]); \
        return x;                                                                 \
    }                                                                             \
    static inline fac_vf32 near_or_far_##name(fac_vf32 x) {                       \
        return FAC_LIKELY(!fac__vtrig_far(x)) ? fac__v##name(x) : far_##name(x);  \
    }                                                                             \
    VECTOR_LOOP(v##name##_f32, float, fac_vf32, near_or_far_##name)
TRIG_LOOP(sin)
TRIG_LOOP(cos)
TRIG_LOOP(tan)
static void install_vectors(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    table[FAC_LOOP_exp][FAC_F32] = vexp_f32, table[FAC_LOOP_exp][FAC_F64] = vexp_f64;
    table[FAC_LOOP_sin][FAC_F32] = vsin_f32, table[FAC_LOOP_cos][FAC_F32] = vcos_f32;
    table[FAC_LOOP_tan][FAC_F32] = vtan_f32;
}
#endif

#if FAC_ISA_LEVEL >= 1
#define FAC_LOOPS_BF16(X) X(exp, FAC_BF16_ONE) X(tanh, FAC_BF16_ONE)
FAC_LOOPS_BF16(FAC_BF16_LOOP)
#endif

void FAC_ISA_NAME(fac__install_math)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
#if FAC_SIMD_SLEEF && FAC_ISA_LEVEL >= 1
    install_vectors(table);
#endif
#if FAC_ISA_LEVEL >= 1
    FAC_LOOPS_BF16(FAC_BF16_INSTALL)
#endif
}
