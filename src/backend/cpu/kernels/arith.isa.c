/* Arithmetic loops of every real dtype. AVX-512 brings variants for the floating types only: integers gain nothing there
   that would pay for the code. */
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/simd.h"

#define FAC_LOOPS(X) FAC_LOOPS_REAL(X) FAC_LOOPS_PIECEWISE(X)
#define FAC_NUMBER_OF FAC_REAL_NUMBER
/* Those that rows beside one value each are often given to: X(name, inputs, numbers, which input is one value). */
#define EITHER(X, name) X(name, 2, 0, 1) X(name, 2, 0, 2)
#define LOOPS_LEVEL(X)  \
    EITHER(X, add)      \
    EITHER(X, sub)      \
    EITHER(X, mul)      \
    EITHER(X, div)      \
    X(maximum, 2, 0, 2) \
    X(minimum, 2, 0, 2) X(prelu, 2, 0, 2) X(addcmul, 3, 1, 2)

/* The factors of one power are made once. */
#define LEVEL_LDEXP                                                                                                   \
    static void FAC_FN(level_ldexp_2)(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        FAC_T *out = FAC_OPERAND(0, FAC_T), first, second;                                                            \
        FAC_INPUTS_2(1);                                                                                              \
        FAC_FN(ldexp_factors)(*b, &first, &second);                                                                   \
        FAC_EACH(n) out[i] = a[i] * first * second;                                                                   \
    }

/* Bounds are mostly numbers. */
#define LEVEL_CLAMP                                                                                                 \
    static void FAC_FN(level_clamp)(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        FAC_T *out = FAC_OPERAND(0, FAC_T);                                                                         \
        FAC_INPUTS_3(1);                                                                                            \
        const FAC_T low = *b, high = *c;                                                                            \
        FAC_EACH(n) out[i] = FAC_FN(clamp)(a[i], low, high);                                                        \
    }

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#define FAC_BUILTIN(name) __builtin_##name##f
#define FAC_INFINITY __builtin_inff()
#include "ops/scalar/piecewise.h"
#include "ops/scalar/real.h"

LOOPS_LEVEL(FAC_LEVEL_LOOP)
LEVEL_LDEXP
LEVEL_CLAMP
#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#define FAC_BUILTIN(name) __builtin_##name
#define FAC_INFINITY __builtin_inf()
#include "ops/scalar/piecewise.h"
#include "ops/scalar/real.h"

LOOPS_LEVEL(FAC_LEVEL_LOOP)
LEVEL_LDEXP
LEVEL_CLAMP
#include "backend/cpu/kernels/loops_of_type.h"

#undef FAC_LOOPS
#undef FAC_NUMBER_OF

#if FAC_ISA_LEVEL < 2
#define FAC_LOOPS FAC_LOOPS_INTEGER
#define FAC_NUMBER_OF FAC_INTEGER_NUMBER

#define FAC_T int8_t
#define FAC_UT uint32_t
#define FAC_BITS 8
#define FAC_NEGATIVE(x) ((x) < 0)
#define FAC_TD FAC_I8
#define FAC_FN(name) name##_i8
#include "ops/scalar/integer.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T int16_t
#define FAC_UT uint32_t
#define FAC_BITS 16
#define FAC_NEGATIVE(x) ((x) < 0)
#define FAC_TD FAC_I16
#define FAC_FN(name) name##_i16
#include "ops/scalar/integer.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T int32_t
#define FAC_UT uint32_t
#define FAC_BITS 32
#define FAC_NEGATIVE(x) ((x) < 0)
#define FAC_TD FAC_I32
#define FAC_FN(name) name##_i32
#include "ops/scalar/integer.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T int64_t
#define FAC_UT uint64_t
#define FAC_BITS 64
#define FAC_NEGATIVE(x) ((x) < 0)
#define FAC_TD FAC_I64
#define FAC_FN(name) name##_i64
#include "ops/scalar/integer.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T uint8_t
#define FAC_UT uint32_t
#define FAC_BITS 8
#define FAC_NEGATIVE(x) ((void)(x), false)
#define FAC_TD FAC_U8
#define FAC_FN(name) name##_u8
#include "ops/scalar/integer.h"

#include "backend/cpu/kernels/loops_of_type.h"

#undef FAC_LOOPS
#define FAC_LOOPS FAC_LOOPS_BOOLEAN
#define FAC_T uint8_t
#define FAC_TD FAC_BOOL
#define FAC_FN(name) name##_bool
#include "ops/scalar/boolean.h"

#include "backend/cpu/kernels/loops_of_type.h"
#endif

#if FAC_ISA_LEVEL < 2
/* Of 16-bit floats what is done to bits alone. */
static inline int half_order(int bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }
/* The number next to a towards b, whose infinity is `most`: the neighbour's bits are neighbours, too. */
static inline int half_next(int a, int b, int most) {
    const int quiet = (most & -most) >> 1, from = half_order(a), to = half_order(b);
    const int away = from == 0 ? (b & 0x8000) | 1 : (to > from) == (from > 0) ? a + 1 : a - 1;
    const int next = from == to ? b : away, of_b = (b & 0x7fff) > most ? b | quiet : next;
    return (a & 0x7fff) > most ? a | quiet : of_b;
}
#define HALF_LOOP(name, RESULT)                                                                      \
    static void name(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        uint16_t *out = FAC_OPERAND(0, uint16_t);                                                    \
        const uint16_t *a = FAC_OPERAND(1, const uint16_t);                                          \
        FAC_EACH(n) out[i] = (uint16_t)(RESULT);                                                     \
    }
#define OTHER FAC_OPERAND(2, const uint16_t)[i]
HALF_LOOP(half_neg, a[i] ^ 0x8000u)
HALF_LOOP(half_abs, a[i] & 0x7fffu)
HALF_LOOP(half_copysign, (a[i] & 0x7fffu) | (OTHER & 0x8000u))
HALF_LOOP(half_nextafter_f16, half_next(a[i], OTHER, 0x7c00))
HALF_LOOP(half_nextafter_bf16, half_next(a[i], OTHER, 0x7f80))

static void install_halves(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    table[FAC_LOOP_neg][FAC_F16] = table[FAC_LOOP_neg][FAC_BF16] = half_neg;
    table[FAC_LOOP_abs][FAC_F16] = table[FAC_LOOP_abs][FAC_BF16] = half_abs;
    table[FAC_LOOP_copysign][FAC_F16] = table[FAC_LOOP_copysign][FAC_BF16] = half_copysign;
    table[FAC_LOOP_nextafter_half][FAC_F16] = half_nextafter_f16;
    table[FAC_LOOP_nextafter_half][FAC_BF16] = half_nextafter_bf16;
}
#endif

#if FAC_ISA_LEVEL >= 1
/* clang-format off */
#define FAC_LOOPS_BF16(X)                                                                                        \
    FAC_LOOPS_PIECEWISE(X) X(add, VALUE, 2, 0) X(add_alpha, VALUE, 2, 1) X(sub, VALUE, 2, 0) X(mul, VALUE, 2, 0) \
    X(div, VALUE, 2, 0) X(square, VALUE, 1, 0) X(reciprocal, VALUE, 1, 0) X(sqrt, VALUE, 1, 0) X(rsqrt, VALUE, 1, 0) \
    X(ceil, VALUE, 1, 0) X(floor, VALUE, 1, 0) X(round, VALUE, 1, 0) X(trunc, VALUE, 1, 0) X(frac, VALUE, 1, 0)       \
    X(sign, VALUE, 1, 0) X(sgn, VALUE, 1, 0)                                                                        \
    X(maximum, VALUE, 2, 0) X(minimum, VALUE, 2, 0) X(clamp, VALUE, 3, 0) X(lerp, VALUE, 3, 0)                   \
    X(addcmul, VALUE, 3, 1) X(addcdiv, VALUE, 3, 1)
/* clang-format on */
FAC_LOOPS_BF16(FAC_BF16_LOOP)
/* Two of them of which one is one number for the whole run. */
#define HALVES_LEVEL(X) EITHER(X, add) EITHER(X, sub) EITHER(X, mul) EITHER(X, div)
#define BF16_LEVEL_LOOP(name, inputs, numbers, k)                                              \
    static void level_##name##_##k##_bf16(char *const *p, int64_t n,                           \
                                          const fac_loop_args *args __attribute__((unused))) { \
        uint16_t *out = FAC_OPERAND(0, uint16_t);                                              \
        const uint16_t *each = FAC_OPERAND(3 - (k), const uint16_t);                           \
        const float level = fac__bf16_to_f32(*FAC_OPERAND(k, const uint16_t));                 \
        FAC_EACH(n) {                                                                          \
            const float x = fac__bf16_to_f32(each[i]);                                         \
            out[i] = fac__f32_to_bf16((k) == 1 ? name##_f32(level, x) : name##_f32(x, level)); \
        }                                                                                      \
    }
HALVES_LEVEL(BF16_LEVEL_LOOP)
BF16_LEVEL_LOOP(maximum, 2, 0, 2)
BF16_LEVEL_LOOP(minimum, 2, 0, 2)
static void level_clamp_bf16(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) {
    uint16_t *out = FAC_OPERAND(0, uint16_t);
    const uint16_t *a = FAC_OPERAND(1, const uint16_t);
    const float low = fac__bf16_to_f32(*FAC_OPERAND(2, const uint16_t)),
                high = fac__bf16_to_f32(*FAC_OPERAND(3, const uint16_t));
    FAC_EACH(n) out[i] = fac__f32_to_bf16(clamp_f32(fac__bf16_to_f32(a[i]), low, high));
}
#endif

#if FAC_ISA_LEVEL == 1
/* Over f16 likewise; compilers do not vectorise its conversions, which bound these loops: longer vectors gain nothing. */
static inline float number(const fac_loop_args *args) { return (float)args->v[0].real; }
/* Of operands OF(k). */
#define FORMULA_add(OF) OF(1) + OF(2)
#define FORMULA_sub(OF) OF(1) - OF(2)
#define FORMULA_mul(OF) OF(1) * OF(2)
#define FORMULA_div(OF) OF(1) / OF(2)
#define FORMULA_reciprocal(OF) 1.0f / OF(1)
#define FORMULA_addcmul(OF) OF(1) + OF(2) * number(args) * OF(3)
#define FORMULA_addcdiv(OF) OF(1) + OF(2) * number(args) / OF(3)
#define SOME_OF(k) fac_load_f16(FAC_OPERAND(k, const uint16_t) + i)
#define ONE_OF(k) fac_get_f16(FAC_OPERAND(k, const uint16_t)[i])
#define F16_LOOP(name)                                                                                             \
    static void loop_##name##_f16(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) {  \
        uint16_t *out = FAC_OPERAND(0, uint16_t);                                                                  \
        int64_t i = 0;                                                                                             \
        for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32) {                                                       \
            const fac_vf32 y = FORMULA_##name(SOME_OF);                                                            \
            _mm_storeu_si128((__m128i *)(void *)(out + i), _mm256_cvtps_ph((__m256)y, _MM_FROUND_TO_NEAREST_INT)); \
        }                                                                                                          \
        for (; i < n; i++) out[i] = _cvtss_sh(FORMULA_##name(ONE_OF), _MM_FROUND_TO_NEAREST_INT);                  \
    }
#define F16_INSTALL(name) table[FAC_LOOP_##name][FAC_F16] = loop_##name##_f16;
#define LOOPS_F16(X) X(add) X(sub) X(mul) X(div) X(reciprocal) X(addcmul) X(addcdiv)
LOOPS_F16(F16_LOOP)
/* Operand OF(j) of a formula whose operand k is one number. */
#define SOME_OR_MANY_1(j) ((j) == 1 ? many : SOME_OF(j))
#define SOME_OR_MANY_2(j) ((j) == 2 ? many : SOME_OF(j))
#define ONE_OR_LEVEL_1(j) ((j) == 1 ? one : ONE_OF(j))
#define ONE_OR_LEVEL_2(j) ((j) == 2 ? one : ONE_OF(j))
#define F16_LEVEL_LOOP(name, inputs, numbers, k)                                                                   \
    static void level_##name##_##k##_f16(char *const *p, int64_t n,                                                \
                                         const fac_loop_args *args __attribute__((unused))) {                      \
        uint16_t *out = FAC_OPERAND(0, uint16_t);                                                                  \
        const float one = fac_get_f16(*FAC_OPERAND(k, const uint16_t));                                            \
        const fac_vf32 many = fac_splat_f32(one);                                                                  \
        int64_t i = 0;                                                                                             \
        for (; i + FAC_LANES_F32 <= n; i += FAC_LANES_F32) {                                                       \
            const fac_vf32 y = FORMULA_##name(SOME_OR_MANY_##k);                                                   \
            _mm_storeu_si128((__m128i *)(void *)(out + i), _mm256_cvtps_ph((__m256)y, _MM_FROUND_TO_NEAREST_INT)); \
        }                                                                                                          \
        for (; i < n; i++) out[i] = _cvtss_sh(FORMULA_##name(ONE_OR_LEVEL_##k), _MM_FROUND_TO_NEAREST_INT);        \
    }
HALVES_LEVEL(F16_LEVEL_LOOP)
#endif

#if FAC_ISA_LEVEL >= 2
/* Zeros, infinities and NaN are their own mantissas, of exponent 0. */
#define FREXP_LOOP(type, T, LANES, MASK, S)                                                                       \
    static void frexps_##type(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) {     \
        T *mantissa = FAC_OPERAND(0, T), *exponent = FAC_OPERAND(1, T);                                           \
        const T *a = FAC_OPERAND(2, const T);                                                                     \
        for (int64_t i = 0; i < n; i += LANES) {                                                                  \
            const MASK lanes = (MASK)(n - i < LANES ? (1u << (n - i)) - 1 : 0xffffu);                             \
            const __auto_type x = _mm512_maskz_loadu_##S(lanes, a + i);                                           \
            const MASK number =                                                                                   \
                _mm512_cmp_##S##_mask(_mm512_abs_##S(x), _mm512_set1_##S((T)__builtin_inf()), _CMP_LT_OQ) &       \
                _mm512_cmp_##S##_mask(x, _mm512_setzero_##S(), _CMP_NEQ_OQ);                                      \
            _mm512_mask_storeu_##S(mantissa + i, lanes,                                                           \
                                   _mm512_mask_getmant_##S(x, number, x, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src)); \
            _mm512_mask_storeu_##S(exponent + i, lanes,                                                           \
                                   _mm512_maskz_add_##S(number, _mm512_getexp_##S(x), _mm512_set1_##S(1)));       \
        }                                                                                                         \
    }
FREXP_LOOP(f32, float, 16, __mmask16, ps)
FREXP_LOOP(f64, double, 8, __mmask8, pd)
#endif

fac_loop FAC_ISA_NAME(fac__level_loop)(fac_loop loop, unsigned level) {
#define LEVEL_OF(type, name, k) {loop_##name##_##type, level_##name##_##k##_##type, 1u << (k)},
#define LEVEL(name, inputs, numbers, k) LEVEL_OF(f32, name, k) LEVEL_OF(f64, name, k)
#define LEVEL_BF16(name, inputs, numbers, k) LEVEL_OF(bf16, name, k)
#define LEVEL_F16(name, inputs, numbers, k) LEVEL_OF(f16, name, k)
#define BOUNDS(type) {loop_clamp_##type, level_clamp_##type, 1u << 2 | 1u << 3},
    static const struct {
        fac_loop of, own;
        unsigned level;
    } known[] = {
        LOOPS_LEVEL(LEVEL) LEVEL(ldexp, 2, 0, 2) BOUNDS(f32) BOUNDS(f64)
#if FAC_ISA_LEVEL >= 1
            HALVES_LEVEL(LEVEL_BF16) LEVEL_BF16(maximum, 2, 0, 2) LEVEL_BF16(minimum, 2, 0, 2) BOUNDS(bf16)
#endif
#if FAC_ISA_LEVEL == 1
                HALVES_LEVEL(LEVEL_F16)
#endif
    };
    for (size_t i = 0; i < FAC_COUNT(known); i++)
        if (known[i].of == loop && known[i].level == level) return known[i].own;
#if FAC_ISA_LEVEL >= 2
    return fac__level_loop_avx2(loop, level); /* of the loops that are this level's, too */
#else
    return NULL;
#endif
}

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
    install_halves(table);
#endif
#if FAC_ISA_LEVEL >= 1
    FAC_LOOPS_BF16(FAC_BF16_INSTALL)
#endif
#if FAC_ISA_LEVEL >= 2
    table[FAC_LOOP_frexp][FAC_F32] = frexps_f32, table[FAC_LOOP_frexp][FAC_F64] = frexps_f64;
#endif
#if FAC_ISA_LEVEL == 1
    LOOPS_F16(F16_INSTALL)
#endif
}
