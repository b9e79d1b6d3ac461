/* Comparisons, logic and tests, whose results are booleans, and selection by a boolean. They read every dtype and so share
   one template; selection moves bits and needs only a loop per element size. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#define FAC_PREDICATE_LOOP(name, expr)        \
    FAC_LOOP(name) {                          \
        FAC_OPERANDS_2(uint8_t);              \
        FAC_EACH(n) out[i] = (uint8_t)(expr); \
    }
#define FAC_TEST_LOOP(name, expr)             \
    FAC_LOOP(name) {                          \
        FAC_OPERANDS_1(uint8_t);              \
        FAC_EACH(n) out[i] = (uint8_t)(expr); \
    }

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_ISNAN(x) ((x) != (x))
#define FAC_ISINF(x) (__builtin_fabsf(x) == __builtin_inff())
#define FAC_ISFINITE(x) (__builtin_fabsf(x) < __builtin_inff())
#include "backend/cpu/kernels/compare_loops.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_ISNAN(x) ((x) != (x))
#define FAC_ISINF(x) (__builtin_fabs(x) == __builtin_inf())
#define FAC_ISFINITE(x) (__builtin_fabs(x) < __builtin_inf())
#include "backend/cpu/kernels/compare_loops.h"

#if FAC_ISA_LEVEL < 2
#define FAC_ISNAN(x) ((void)(x), 0)
#define FAC_ISINF(x) ((void)(x), 0)
#define FAC_ISFINITE(x) ((void)(x), 1)
#define FAC_KEEP_TESTS

#define FAC_T int8_t
#define FAC_TD FAC_I8
#define FAC_FN(name) name##_i8
#include "backend/cpu/kernels/compare_loops.h"

#define FAC_T int16_t
#define FAC_TD FAC_I16
#define FAC_FN(name) name##_i16
#include "backend/cpu/kernels/compare_loops.h"

#define FAC_T int32_t
#define FAC_TD FAC_I32
#define FAC_FN(name) name##_i32
#include "backend/cpu/kernels/compare_loops.h"

#define FAC_T int64_t
#define FAC_TD FAC_I64
#define FAC_FN(name) name##_i64
#include "backend/cpu/kernels/compare_loops.h"

#define FAC_T uint8_t
#define FAC_TD FAC_U8
#define FAC_FN(name) name##_u8
#include "backend/cpu/kernels/compare_loops.h"

#define FAC_T uint8_t
#define FAC_TD FAC_BOOL
#define FAC_FN(name) name##_bool
#include "backend/cpu/kernels/compare_loops.h"
#endif

#define FAC_WHERE_LOOP(bits, T)                                                                                   \
    static void loop_where_##bits(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        T *out = (T *)(void *)p[0];                                                                               \
        const uint8_t *take = (const uint8_t *)p[1];                                                              \
        const T *a = (const T *)(const void *)p[2], *b = (const T *)(const void *)p[3];                           \
        FAC_EACH(n) out[i] = take[i] ? a[i] : b[i];                                                               \
    }
typedef struct two_words {
    uint64_t w[2];
} two_words;
FAC_WHERE_LOOP(8, uint8_t)
FAC_WHERE_LOOP(16, uint16_t)
FAC_WHERE_LOOP(32, uint32_t)
FAC_WHERE_LOOP(64, uint64_t)
FAC_WHERE_LOOP(128, two_words)

static void install_where(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    fac_loop *w = table[FAC_LOOP_where];
    w[FAC_BOOL] = w[FAC_U8] = w[FAC_I8] = loop_where_8;
    w[FAC_I16] = w[FAC_F16] = w[FAC_BF16] = loop_where_16;
    w[FAC_I32] = w[FAC_F32] = loop_where_32;
    w[FAC_I64] = w[FAC_F64] = w[FAC_C64] = loop_where_64;
    w[FAC_C128] = loop_where_128;
}

void FAC_ISA_NAME(fac__install_compare)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
    install_where(table);
#if FAC_ISA_LEVEL < 2
    install_i8(table);
    install_i16(table);
    install_i32(table);
    install_i64(table);
    install_u8(table);
    install_bool(table);
    table[FAC_LOOP_bitwise_not][FAC_BOOL] = loop_logical_not_bool;
#endif
}
