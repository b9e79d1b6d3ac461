/* Loops of activations and their derivatives. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/loops.h"

#define FAC_LOOPS FAC_LOOPS_ACTIVATION
#define FAC_NUMBER_OF FAC_REAL_NUMBER

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#define FAC_BUILTIN(name) __builtin_##name##f
#include "ops/scalar/activation.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#define FAC_BUILTIN(name) __builtin_##name
#include "ops/scalar/activation.h"

#include "backend/cpu/kernels/loops_of_type.h"

#if FAC_ISA_LEVEL >= 1
#define FAC_LOOPS_BF16(X)    \
    X(sigmoid, FAC_BF16_ONE) \
    X(silu, FAC_BF16_ONE)    \
    X(gelu, FAC_BF16_ONE) X(gelu_tanh, FAC_BF16_ONE) X(silu_backward, FAC_BF16_TWO) X(gelu_backward, FAC_BF16_TWO)
FAC_LOOPS_BF16(FAC_BF16_LOOP)
#endif

void FAC_ISA_NAME(fac__install_activation)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
#if FAC_ISA_LEVEL >= 1
    FAC_LOOPS_BF16(FAC_BF16_INSTALL)
#endif
}
