/* A loop of a formula, X(name, what it writes, inputs, numbers) of loops_gen.h. FAC_T is the element type, FAC_FN(name) the
   per-type name, FAC_TD the dtype. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_LOOP_MACROS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_LOOP_MACROS_H

#include "backend/cpu/cpu.h"

#define FAC_SCALAR_FN static inline
#define FAC_SCALAR_HELPER static inline
#define FAC_SAME FAC_T
#define FAC_NUMBER FAC_T
#define FAC_DIVISOR FAC_T
#define FAC_EACH(n) FAC_IVDEP for (int64_t i = 0; i < (n); i++)

#define FAC_OPERAND(k, T) ((T *)(void *)p[k])
#define FAC_INPUTS_1(first) const FAC_T *a = FAC_OPERAND(first, const FAC_T)
#define FAC_INPUTS_2(first) FAC_INPUTS_1(first), *b = FAC_OPERAND((first) + 1, const FAC_T)
#define FAC_INPUTS_3(first) FAC_INPUTS_2(first), *c = FAC_OPERAND((first) + 2, const FAC_T)
#define FAC_INPUTS_4(first) FAC_INPUTS_3(first), *d = FAC_OPERAND((first) + 3, const FAC_T)
#define FAC_VALUES_1 a[i]
#define FAC_VALUES_2 a[i], b[i]
#define FAC_VALUES_3 a[i], b[i], c[i]
#define FAC_VALUES_4 a[i], b[i], c[i], d[i]
/* How the numbers of a call are read is the element type's: FAC_NUMBER_OF(k). */
#define FAC_NUMBERS_0
#define FAC_NUMBERS_1 const FAC_T v0 = FAC_NUMBER_OF(0);
#define FAC_NUMBERS_2 FAC_NUMBERS_1 const FAC_T v1 = FAC_NUMBER_OF(1);
#define FAC_NUMBERS_3 FAC_NUMBERS_2 const FAC_T v2 = FAC_NUMBER_OF(2);
#define FAC_PASS_0
#define FAC_PASS_1 , v0
#define FAC_PASS_2 , v0, v1
#define FAC_PASS_3 , v0, v1, v2
#define FAC_REAL_NUMBER(k) (FAC_T) args->v[k].real
#define FAC_INTEGER_NUMBER(k) (FAC_T) args->v[k].integer

#define FAC_LOOP_RUN(name, T, inputs, numbers) \
    T *out = FAC_OPERAND(0, T);                \
    FAC_INPUTS_##inputs(1);                    \
    FAC_NUMBERS_##numbers FAC_EACH(n) out[i] = (T)FAC_FN(name)(FAC_VALUES_##inputs FAC_PASS_##numbers);
#define FAC_LOOP_VALUE(name, inputs, numbers) FAC_LOOP_RUN(name, FAC_T, inputs, numbers)
#define FAC_LOOP_SAME(name, inputs, numbers) \
    if (n) memmove(p[0], p[1], (size_t)n * sizeof(FAC_T)); /* empty tensors have no address */
#define FAC_LOOP_TRUTH(name, inputs, numbers) FAC_LOOP_RUN(name, uint8_t, inputs, numbers)
#define FAC_LOOP_PART(name, inputs, numbers) FAC_LOOP_RUN(name, FAC_R, inputs, numbers)
#define FAC_LOOP_PAIR(name, inputs, numbers)                           \
    FAC_T *out = FAC_OPERAND(0, FAC_T), *also = FAC_OPERAND(1, FAC_T); \
    FAC_INPUTS_##inputs(2);                                            \
    FAC_EACH(n) FAC_FN(name)(FAC_VALUES_##inputs, &out[i], &also[i]);
#define FAC_LOOP_SELECTED(name, inputs, numbers)                                    \
    FAC_T *out = FAC_OPERAND(0, FAC_T);                                             \
    const uint8_t *take = FAC_OPERAND(1, const uint8_t);                            \
    const FAC_T *a = FAC_OPERAND(2, const FAC_T), *b = FAC_OPERAND(3, const FAC_T); \
    FAC_EACH(n) out[i] = FAC_FN(name)(take[i], a[i], b[i]);
/* A zero divisor is noted and gives 0; the operator turns the note into an error. */
#define FAC_LOOP_QUOTIENT(name, inputs, numbers)           \
    FAC_T *out = FAC_OPERAND(0, FAC_T);                    \
    FAC_INPUTS_##inputs(1);                                \
    bool zero = false;                                     \
    for (int64_t i = 0; i < n; i++) {                      \
        zero |= b[i] == 0;                                 \
        out[i] = b[i] == 0 ? 0 : FAC_FN(name)(a[i], b[i]); \
    }                                                      \
    if (zero) atomic_store_explicit(args->zero_divisor, true, memory_order_relaxed);

#define FAC_LOOP(name, result, inputs, numbers)                                                                     \
    static void FAC_FN(loop_##name)(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        FAC_LOOP_##result(name, inputs, numbers)                                                                    \
    }
/* The same where input k is one number for the whole run. */
#define FAC_LEVEL_OF_1 a
#define FAC_LEVEL_OF_2 b
#define FAC_LEVEL_VALUES_2_1 level, b[i]
#define FAC_LEVEL_VALUES_2_2 a[i], level
#define FAC_LEVEL_VALUES_3_2 a[i], level, c[i]
#define FAC_LEVEL_LOOP(name, inputs, numbers, k)                                                \
    static void FAC_FN(level_##name##_##k)(char *const *p, int64_t n,                           \
                                           const fac_loop_args *args __attribute__((unused))) { \
        FAC_T *out = FAC_OPERAND(0, FAC_T);                                                     \
        FAC_INPUTS_##inputs(1);                                                                 \
        FAC_NUMBERS_##numbers const FAC_T level = *FAC_LEVEL_OF_##k;                            \
        FAC_EACH(n) out[i] = FAC_FN(name)(FAC_LEVEL_VALUES_##inputs##_##k FAC_PASS_##numbers);  \
    }
#define FAC_INSTALL(name, result, inputs, numbers) table[FAC_LOOP_##name][FAC_TD] = FAC_FN(loop_##name);

/* Over bf16, in float: what conversions before and after the loop of floats give, in one pass. Of what a list writes only values. */
#if FAC_ISA_LEVEL >= 1
#define FAC_BF16_INPUTS_1 const uint16_t *a = FAC_OPERAND(1, const uint16_t)
#define FAC_BF16_INPUTS_2 FAC_BF16_INPUTS_1, *b = FAC_OPERAND(2, const uint16_t)
#define FAC_BF16_INPUTS_3 FAC_BF16_INPUTS_2, *c = FAC_OPERAND(3, const uint16_t)
#define FAC_BF16_VALUES_1 fac__bf16_to_f32(a[i])
#define FAC_BF16_VALUES_2 FAC_BF16_VALUES_1, fac__bf16_to_f32(b[i])
#define FAC_BF16_VALUES_3 FAC_BF16_VALUES_2, fac__bf16_to_f32(c[i])
#define FAC_BF16_NUMBERS_0
#define FAC_BF16_NUMBERS_1 const float v0 = (float)args->v[0].real;
#define FAC_BF16_NUMBERS_2 FAC_BF16_NUMBERS_1 const float v1 = (float)args->v[1].real;
#define FAC_BF16_NUMBERS_3 FAC_BF16_NUMBERS_2 const float v2 = (float)args->v[2].real;
#define FAC_BF16_VALUE(name, inputs, numbers)                                                                      \
    static void loop_##name##_bf16(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused))) { \
        uint16_t *out = FAC_OPERAND(0, uint16_t);                                                                  \
        FAC_BF16_INPUTS_##inputs;                                                                                  \
        FAC_BF16_NUMBERS_##numbers FAC_EACH(n) out[i] =                                                            \
            fac__f32_to_bf16(name##_f32(FAC_BF16_VALUES_##inputs FAC_PASS_##numbers));                             \
    }
#define FAC_BF16_PAIR(name, inputs, numbers)
#define FAC_BF16_LOOP(name, result, inputs, numbers) FAC_BF16_##result(name, inputs, numbers)
#define FAC_BF16_PUT_VALUE(name) table[FAC_LOOP_##name][FAC_BF16] = loop_##name##_bf16;
#define FAC_BF16_PUT_PAIR(name)
#define FAC_BF16_INSTALL(name, result, inputs, numbers) FAC_BF16_PUT_##result(name)
#endif

#endif
