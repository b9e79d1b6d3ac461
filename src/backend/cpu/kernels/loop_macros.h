/* What the loop templates are made of. FAC_T is the element type, FAC_FN(name) the per-type name, FAC_TD the dtype. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_LOOP_MACROS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_LOOP_MACROS_H

#ifdef __clang__
/* FAC_IVDEP permits, it does not demand: loops with inner loops stay scalar. */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#define FAC_SCALAR_FN static inline
#define FAC_EACH(n) FAC_IVDEP for (int64_t i = 0; i < (n); i++)
#define FAC_LOOP(name) \
    static void FAC_FN(loop_##name)(char *const *p, int64_t n, const fac_loop_args *args __attribute__((unused)))
#define FAC_OPERANDS_1(T)       \
    T *out = (T *)(void *)p[0]; \
    const FAC_T *a = (const FAC_T *)(const void *)p[1]
#define FAC_OPERANDS_2(T) \
    FAC_OPERANDS_1(T);    \
    const FAC_T *b = (const FAC_T *)(const void *)p[2]
#define FAC_OPERANDS_3(T) \
    FAC_OPERANDS_2(T);    \
    const FAC_T *c = (const FAC_T *)(const void *)p[3]

#define FAC_UNARY_LOOP(name)                     \
    FAC_LOOP(name) {                             \
        FAC_OPERANDS_1(FAC_T);                   \
        FAC_EACH(n) out[i] = FAC_FN(name)(a[i]); \
    }
#define FAC_BINARY_LOOP(name)                          \
    FAC_LOOP(name) {                                   \
        FAC_OPERANDS_2(FAC_T);                         \
        FAC_EACH(n) out[i] = FAC_FN(name)(a[i], b[i]); \
    }
#define FAC_TERNARY_LOOP(name)                               \
    FAC_LOOP(name) {                                         \
        FAC_OPERANDS_3(FAC_T);                               \
        FAC_EACH(n) out[i] = FAC_FN(name)(a[i], b[i], c[i]); \
    }
#define FAC_INSTALL(name) table[FAC_LOOP_##name][FAC_TD] = FAC_FN(loop_##name)

#endif
