/* Arithmetic loops of every real dtype. AVX-512 brings variants for the floating types only: integers gain nothing there
   that would pay for the code. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/loops.h"

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#define FAC_BUILTIN(name) __builtin_##name##f
#include "backend/cpu/kernels/real_loops.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#define FAC_BUILTIN(name) __builtin_##name
#include "backend/cpu/kernels/real_loops.h"

#if FAC_ISA_LEVEL < 2

#define FAC_NEGATIVE(x) ((x) < 0)

#define FAC_T int8_t
#define FAC_UT uint32_t
#define FAC_BITS 8
#define FAC_TD FAC_I8
#define FAC_FN(name) name##_i8
#include "backend/cpu/kernels/integer_loops.h"

#define FAC_T int16_t
#define FAC_BITS 16
#define FAC_TD FAC_I16
#define FAC_FN(name) name##_i16
#include "backend/cpu/kernels/integer_loops.h"

#define FAC_T int32_t
#define FAC_BITS 32
#define FAC_TD FAC_I32
#define FAC_FN(name) name##_i32
#include "backend/cpu/kernels/integer_loops.h"
#undef FAC_UT

#define FAC_T int64_t
#define FAC_UT uint64_t
#define FAC_BITS 64
#define FAC_TD FAC_I64
#define FAC_FN(name) name##_i64
#include "backend/cpu/kernels/integer_loops.h"
#undef FAC_UT
#undef FAC_NEGATIVE

#define FAC_T uint8_t
#define FAC_UT uint32_t
#define FAC_BITS 8
#define FAC_NEGATIVE(x) ((void)(x), false)
#define FAC_TD FAC_U8
#define FAC_FN(name) name##_u8
#include "backend/cpu/kernels/integer_loops.h"

/* Booleans are bytes 0 and 1: sum and maximum are "or", product and minimum "and". */
static void install_bool(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    table[FAC_LOOP_add][FAC_BOOL] = table[FAC_LOOP_maximum][FAC_BOOL] = table[FAC_LOOP_bitwise_or][FAC_BOOL] =
        loop_bitwise_or_u8;
    table[FAC_LOOP_mul][FAC_BOOL] = table[FAC_LOOP_minimum][FAC_BOOL] = table[FAC_LOOP_bitwise_and][FAC_BOOL] =
        loop_bitwise_and_u8;
    table[FAC_LOOP_bitwise_xor][FAC_BOOL] = loop_bitwise_xor_u8;
    table[FAC_LOOP_sign][FAC_BOOL] = loop_copy_u8;
}
#endif

void FAC_ISA_NAME(fac__install_arith)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
#if FAC_ISA_LEVEL < 2
    install_i8(table);
    install_i16(table);
    install_i32(table);
    install_i64(table);
    install_u8(table);
    install_bool(table);
#endif
}
