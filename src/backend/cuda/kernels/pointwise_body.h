/* Pointwise kernels over one type: a template, included by pointwise.cu after FAC_T, FAC_FN, K_NAME (of kernels), K_LOAD, K_STORE,
   K_NUMBER, of an operand, K_NUMBER_OF, of the call, and K_LOOPS, the lists, are defined. A kernel reads inputs a, b, c as FAC_T,
   whatever their dtype, and writes out in its own. */

/* Input k of element i. The question is the same for all threads; the formula after it is there once. */
#define K_INPUT(k)                                                  \
    (!p.op[k].data ? (FAC_T)K_NUMBER(p.op[k])                       \
     : p.plain     ? ((const FAC_T *)(const void *)p.op[k].data)[i] \
                   : K_LOAD(p.op[k].data + at[k], p.op[k].dtype, p.op[k].round))
#define K_INPUTS_1(first) const FAC_T a = K_INPUT(first)
#define K_INPUTS_2(first) K_INPUTS_1(first), b = K_INPUT(first + 1)
#define K_INPUTS_3(first) K_INPUTS_2(first), c = K_INPUT(first + 2)
#define K_INPUTS_4(first) K_INPUTS_3(first), d = K_INPUT(first + 3)
#define K_VALUES_1 a
#define K_VALUES_2 a, b
#define K_VALUES_3 a, b, c
#define K_VALUES_4 a, b, c, d
#define K_NUMBERS_0
#define K_NUMBERS_1 const FAC_T v0 = K_NUMBER_OF(0);
#define K_NUMBERS_2 K_NUMBERS_1 const FAC_T v1 = K_NUMBER_OF(1);
#define K_NUMBERS_3 K_NUMBERS_2 const FAC_T v2 = K_NUMBER_OF(2);
#define K_PASS_0
#define K_PASS_1 , v0
#define K_PASS_2 , v0, v1
#define K_PASS_3 , v0, v1, v2
/* Elements that p.op[k] has, as they lie or at their place. */
#define K_PLACE(T, k) ((T *)(void *)p.op[k].data)[i]
#define K_RESULT(k, v)           \
    if (p.plain)                 \
        K_PLACE(FAC_T, k) = (v); \
    else                         \
        K_STORE(p.op[k].data + at[k], p.op[k].dtype, v)

/* The body computes element i of n operands. */
#define K_POINTWISE(name, n, ...)                  \
    KERNEL(K_NAME(name), (VAL, k_plan, p)) {       \
        KLOOP(i, p.numel) {                        \
            int64_t at[n] = {0};                   \
            if (!p.plain) k_offsets(&p, n, i, at); \
            __VA_ARGS__                            \
        }                                          \
    }
#define K_MAKE_VALUE(name, inputs, numbers)                                                                \
    K_POINTWISE(name, inputs + 1, K_INPUTS_##inputs(1);                                                    \
                K_NUMBERS_##numbers const FAC_T result = FAC_FN(name)(K_VALUES_##inputs K_PASS_##numbers); \
                K_RESULT(0, result);)
#define K_MAKE_SAME K_MAKE_VALUE
/* Nothing is divided by zero; the result there is 0. */
#define K_MAKE_QUOTIENT(name, inputs, numbers)                                                       \
    K_POINTWISE(name, 3, K_INPUTS_2(1); const FAC_T result = b == 0 ? (FAC_T)0 : FAC_FN(name)(a, b); \
                K_RESULT(0, result);)
#define K_MAKE_TRUTH(name, inputs, numbers)                                                                  \
    K_POINTWISE(name, inputs + 1, K_INPUTS_##inputs(1); const bool result = FAC_FN(name)(K_VALUES_##inputs); \
                if (p.plain) K_PLACE(uint8_t, 0) = (uint8_t)result;                                          \
                else k_store_i64(p.op[0].data + at[0], p.op[0].dtype, result);)
#define K_MAKE_PAIR(name, inputs, numbers)                                                                   \
    K_POINTWISE(name, inputs + 2, K_INPUTS_##inputs(2); FAC_T x, y; FAC_FN(name)(K_VALUES_##inputs, &x, &y); \
                K_RESULT(0, x); K_RESULT(1, y);)
/* The condition is read as a boolean whatever else is selected. */
#define K_MAKE_SELECTED(name, inputs, numbers)                                                                      \
    K_POINTWISE(name, 4,                                                                                            \
                bool take = p.op[1].data ? k_load_bool(p.op[1].data + at[1], p.op[1].dtype) : p.op[1].integer != 0; \
                const FAC_T result = FAC_FN(name)(take, K_INPUT(2), K_INPUT(3)); K_RESULT(0, result);)
#define K_MAKE(name, result, inputs, numbers) K_MAKE_##result(name, inputs, numbers)
K_LOOPS(K_MAKE)
K_POINTWISE(copy, 2, const FAC_T a = K_INPUT(1); K_RESULT(0, a);)

#undef FAC_T
#undef FAC_FN
#undef FAC_MATH
#undef FAC_BUILTIN
#undef FAC_INFINITY
#undef K_NAME
#undef K_LOAD
#undef K_STORE
