/* Pointwise kernels: one thread per element in a loop over the grid, f16 and bf16 computed in f32, integers of all widths in 64
   bits. Where every operand lies without gaps in the type computed in, an element is one load per input and one store; else its
   place is found from the iterator's strides and it is converted on the way. Formulas are the CPU's. */
#include "number.h"
#include "plan.h"
#include "pointwise_list.h"

#define FAC_SCALAR_FN KDEV

/* ---- float ------------------------------------------------------------------------------------------------------------------------ */

#define FAC_T float
#define FAC_FN(name) s_##name##_f32
#define FAC_MATH(name) name##f
#define FAC_BUILTIN(name) name##f
#include "ops/scalar/activation.h"
#include "ops/scalar/math.h"
#include "ops/scalar/real.h"

#define K_NAME(name) pointwise_##name##_f32
#define K_LOAD(address, dtype, round) k_round(k_load_f32(address, dtype), round)
#define K_STORE k_store_f32
#define K_NUMBER(o) (o).number[0]
#define K_NUMBERS                                                           \
    const FAC_T f0 = (FAC_T)p.f[0], f1 = (FAC_T)p.f[1], f2 = (FAC_T)p.f[2]; \
    (void)f0, (void)f1, (void)f2
#include "pointwise_body.h"
#define K_ALL_REAL                  \
    K_REAL_1(K_FORMULA_1)           \
    K_REAL_2(K_FORMULA_2)           \
    K_REAL_3(K_FORMULA_3)           \
    K_REAL_1_WITH(K_FORMULA_1_WITH) \
    K_REAL_2_WITH(K_FORMULA_2_WITH) \
    K_REAL_3_WITH(K_FORMULA_3_WITH) \
    K_MATH_1(K_FUNCTION_1)          \
    K_MATH_2(K_FUNCTION_2)
K_ALL_REAL

#undef FAC_T
#undef FAC_FN
#undef FAC_MATH
#undef FAC_BUILTIN
#undef K_NAME
#undef K_LOAD
#undef K_STORE

/* ---- double ----------------------------------------------------------------------------------------------------------------------- */

#define FAC_T double
#define FAC_FN(name) s_##name##_f64
#define FAC_MATH(name) name
#define FAC_BUILTIN(name) name
#include "ops/scalar/activation.h"
#include "ops/scalar/math.h"
#include "ops/scalar/real.h"

#define K_NAME(name) pointwise_##name##_f64
#define K_LOAD(address, dtype, round) k_load_f64(address, dtype)
#define K_STORE k_store_f64
#include "pointwise_body.h"
K_ALL_REAL

#undef FAC_T
#undef FAC_FN
#undef FAC_MATH
#undef FAC_BUILTIN
#undef K_NAME
#undef K_LOAD
#undef K_STORE
#undef K_NUMBER
#undef K_NUMBERS

/* ---- integers --------------------------------------------------------------------------------------------------------------------- */

#define FAC_T int64_t
#define FAC_UT uint64_t
#define FAC_BITS 64
#define FAC_NEGATIVE(x) ((x) < 0)
#define FAC_FN(name) s_##name##_i64
#include "ops/scalar/integer.h"
KDEV int64_t s_relu_i64(int64_t x) { return x > 0 ? x : 0; }

#define K_NAME(name) pointwise_##name##_i64
#define K_LOAD(address, dtype, round) k_load_i64(address, dtype)
#define K_STORE k_store_i64
#define K_NUMBER(o) (o).integer
#define K_NUMBERS              \
    const int64_t i0 = p.i[0]; \
    (void)i0
#include "pointwise_body.h"
K_INTEGER_1(K_FORMULA_1)
K_INTEGER_2(K_FORMULA_2)
K_INTEGER_3(K_FORMULA_3)
K_INTEGER_2_WITH(K_FORMULA_2_WITH)
K_INTEGER_3_WITH(K_FORMULA_3_WITH)
K_INTEGER_DIVISION(K_DIVISION)

#undef FAC_T
#undef FAC_FN
#undef K_NAME
#undef K_LOAD
#undef K_STORE
#undef K_NUMBER
#undef K_NUMBERS

/* ---- of more than one shape -------------------------------------------------------------------------------------------------------- */

/* Gradients of prelu with respect to the input and the weight. */
#define K_PRELU_BACKWARD(suffix, T, LOAD, STORE)                                                 \
    KERNEL(pointwise_prelu_backward_##suffix, (VAL, k_plan, p)) {                                \
        KLOOP(i, p.numel) {                                                                      \
            int64_t at[5];                                                                       \
            k_offsets(&p, 5, i, at);                                                             \
            const T g = LOAD(p.op[2].data + at[2], p.op[2].dtype);                               \
            const T x = LOAD(p.op[3].data + at[3], p.op[3].dtype);                               \
            const T w = LOAD(p.op[4].data + at[4], p.op[4].dtype);                               \
            STORE(p.op[0].data + at[0], p.op[0].dtype, s_leaky_relu_backward_##suffix(g, x, w)); \
            STORE(p.op[1].data + at[1], p.op[1].dtype, x > 0 ? 0 : x * g);                       \
        }                                                                                        \
    }
K_PRELU_BACKWARD(f32, float, k_load_f32, k_store_f32)
K_PRELU_BACKWARD(f64, double, k_load_f64, k_store_f64)

/* Complex numbers are copied and selected. */
KERNEL(pointwise_copy_complex, (VAL, k_plan, p)) {
    KLOOP(i, p.numel) {
        int64_t at[2];
        k_offsets(&p, 2, i, at);
        k_complex z;
        z.re = p.op[1].number[0];
        z.im = p.op[1].number[1];
        if (p.op[1].data) z = k_load_complex(p.op[1].data + at[1], p.op[1].dtype);
        k_store_complex(p.op[0].data + at[0], p.op[0].dtype, z);
    }
}
