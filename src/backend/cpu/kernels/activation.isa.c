/* Loops of activations and their derivatives. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/loops.h"

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#include "backend/cpu/kernels/activation_loops.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#include "backend/cpu/kernels/activation_loops.h"

#if FAC_ISA_LEVEL < 2
/* relu also takes integers. */
#define FAC_INTEGER_RELU(T, type)                                                        \
    static void loop_relu_##type(char *const *p, int64_t n, const fac_loop_args *args) { \
        T *out = (T *)(void *)p[0];                                                      \
        const T *a = (const T *)(const void *)p[1];                                      \
        (void)args;                                                                      \
        FAC_EACH(n) out[i] = a[i] > 0 ? a[i] : 0;                                        \
    }
FAC_INTEGER_RELU(uint8_t, u8)
FAC_INTEGER_RELU(int8_t, i8)
FAC_INTEGER_RELU(int16_t, i16)
FAC_INTEGER_RELU(int32_t, i32)
FAC_INTEGER_RELU(int64_t, i64)

static void install_integers(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    fac_loop *relu = table[FAC_LOOP_relu];
    relu[FAC_U8] = loop_relu_u8;
    relu[FAC_I8] = loop_relu_i8;
    relu[FAC_I16] = loop_relu_i16;
    relu[FAC_I32] = loop_relu_i32;
    relu[FAC_I64] = loop_relu_i64;
}
#endif

void FAC_ISA_NAME(fac__install_activation)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
#if FAC_ISA_LEVEL < 2
    install_integers(table);
#endif
}
