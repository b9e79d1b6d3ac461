/* Pointwise kernels over one type: a template, included by pointwise.cu after FAC_T, FAC_FN, K_NAME (of kernels), K_LOAD, K_STORE
   and K_NUMBER are defined. A kernel reads inputs a, b, c as FAC_T, whatever their dtype, and writes out in its own. */

/* Input k of element i. The question is the same for all threads; the formula after it is there once. */
#define K_INPUT(k)                                                  \
    (!p.op[k].data ? (FAC_T)K_NUMBER(p.op[k])                       \
     : p.plain     ? ((const FAC_T *)(const void *)p.op[k].data)[i] \
                   : K_LOAD(p.op[k].data + at[k], p.op[k].dtype, p.op[k].round))
#define K_INPUTS_1 const FAC_T a = K_INPUT(1)
#define K_INPUTS_2 const FAC_T a = K_INPUT(1), b = K_INPUT(2)
#define K_INPUTS_3 const FAC_T a = K_INPUT(1), b = K_INPUT(2), c = K_INPUT(3)
#define K_RESULT_VALUE(v)                            \
    const FAC_T result = (v);                        \
    if (p.plain)                                     \
        ((FAC_T *)(void *)p.op[0].data)[i] = result; \
    else                                             \
        K_STORE(p.op[0].data + at[0], p.op[0].dtype, result)
#define K_RESULT_TRUTH(v)                               \
    const bool result = (v);                            \
    if (p.plain)                                        \
        ((uint8_t *)p.op[0].data)[i] = (uint8_t)result; \
    else                                                \
        k_store_i64(p.op[0].data + at[0], p.op[0].dtype, result)

/* n inputs; RESULT is VALUE or TRUTH. */
#define K_POINTWISE(name, n, RESULT, ...)              \
    KERNEL(K_NAME(name), (VAL, k_plan, p)) {           \
        K_NUMBERS;                                     \
        KLOOP(i, p.numel) {                            \
            int64_t at[n + 1] = {0};                   \
            if (!p.plain) k_offsets(&p, n + 1, i, at); \
            K_INPUTS_##n;                              \
            K_RESULT_##RESULT(__VA_ARGS__);            \
        }                                              \
    }
#define K_FORMULA_1(name) K_POINTWISE(name, 1, VALUE, FAC_FN(name)(a))
#define K_FORMULA_2(name) K_POINTWISE(name, 2, VALUE, FAC_FN(name)(a, b))
#define K_FORMULA_3(name) K_POINTWISE(name, 3, VALUE, FAC_FN(name)(a, b, c))
#define K_FORMULA_1_WITH(name, ...) K_POINTWISE(name, 1, VALUE, FAC_FN(name)(a, __VA_ARGS__))
#define K_FORMULA_2_WITH(name, ...) K_POINTWISE(name, 2, VALUE, FAC_FN(name)(a, b, __VA_ARGS__))
#define K_FORMULA_3_WITH(name, ...) K_POINTWISE(name, 3, VALUE, FAC_FN(name)(a, b, c, __VA_ARGS__))
#define K_FUNCTION_1(name) K_POINTWISE(name, 1, VALUE, FAC_MATH(name)(a))
#define K_FUNCTION_2(name) K_POINTWISE(name, 2, VALUE, FAC_MATH(name)(a, b))
/* Nothing is divided by zero; the result there is 0. */
#define K_DIVISION(name) K_POINTWISE(name, 2, VALUE, b == 0 ? (FAC_T)0 : FAC_FN(name)(a, b))
#define K_PREDICATE_1(name, ...) K_POINTWISE(name, 1, TRUTH, __VA_ARGS__)
#define K_PREDICATE_2(name, ...) K_POINTWISE(name, 2, TRUTH, __VA_ARGS__)

K_TRUTH_1(K_PREDICATE_1)
K_TRUTH_2(K_PREDICATE_2)
K_POINTWISE(copy, 1, VALUE, a)

/* The condition is read as a boolean whatever else is selected. */
KERNEL(K_NAME(where), (VAL, k_plan, p)) {
    KLOOP(i, p.numel) {
        int64_t at[4];
        k_offsets(&p, 4, i, at);
        bool take = p.op[1].data ? k_load_bool(p.op[1].data + at[1], p.op[1].dtype) : p.op[1].integer != 0;
        K_RESULT_VALUE(take ? K_INPUT(2) : K_INPUT(3));
    }
}
