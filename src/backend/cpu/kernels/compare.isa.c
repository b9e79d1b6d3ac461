/* Comparisons and logic, whose results are booleans, and selection by a boolean. They read every dtype; selection moves
   bits and needs only a loop per element size. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#define FAC_LOOPS FAC_LOOPS_TRUTH

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"

#if FAC_ISA_LEVEL < 2
#define FAC_T int8_t
#define FAC_TD FAC_I8
#define FAC_FN(name) name##_i8
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T int16_t
#define FAC_TD FAC_I16
#define FAC_FN(name) name##_i16
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T int32_t
#define FAC_TD FAC_I32
#define FAC_FN(name) name##_i32
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T int64_t
#define FAC_TD FAC_I64
#define FAC_FN(name) name##_i64
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T uint8_t
#define FAC_TD FAC_U8
#define FAC_FN(name) name##_u8
#include "ops/scalar/truth.h"

#include "backend/cpu/kernels/loops_of_type.h"
#endif

#undef FAC_LOOPS
#define FAC_LOOPS FAC_LOOPS_SELECT

#define FAC_T uint8_t
#define FAC_TD FAC_U8
#define FAC_FN(name) name##_8
#include "ops/scalar/select.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T uint16_t
#define FAC_TD FAC_I16
#define FAC_FN(name) name##_16
#include "ops/scalar/select.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T uint32_t
#define FAC_TD FAC_I32
#define FAC_FN(name) name##_32
#include "ops/scalar/select.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T uint64_t
#define FAC_TD FAC_I64
#define FAC_FN(name) name##_64
#include "ops/scalar/select.h"

#include "backend/cpu/kernels/loops_of_type.h"

typedef struct two_words {
    uint64_t w[2];
} two_words;
#define FAC_T two_words
#define FAC_TD FAC_C128
#define FAC_FN(name) name##_128
#include "ops/scalar/select.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_SAME_BITS(name, result, inputs, numbers) share_bits(table[FAC_LOOP_##name]);
static void share_bits(fac_loop *loops) {
    loops[FAC_BOOL] = loops[FAC_I8] = loops[FAC_U8];
    loops[FAC_F16] = loops[FAC_BF16] = loops[FAC_I16];
    loops[FAC_F32] = loops[FAC_I32];
    loops[FAC_F64] = loops[FAC_C64] = loops[FAC_I64];
}

/* A boolean is a byte and compares as one. */
#define FAC_SAME_BYTES(name, result, inputs, numbers) table[FAC_LOOP_##name][FAC_BOOL] = table[FAC_LOOP_##name][FAC_U8];

void FAC_ISA_NAME(fac__install_compare)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
    install_8(table);
    install_16(table);
    install_32(table);
    install_64(table);
    install_128(table);
    FAC_LOOPS_SELECT(FAC_SAME_BITS)
#if FAC_ISA_LEVEL < 2
    install_i8(table);
    install_i16(table);
    install_i32(table);
    install_i64(table);
    install_u8(table);
    FAC_LOOPS_TRUTH(FAC_SAME_BYTES)
#endif
}
