/* Loops of activations over float or double: a template, included by activation.isa.c once per type after FAC_T, FAC_TD,
   FAC_FN and FAC_MATH are defined; it undefines them. */
#include "ops/scalar/activation.h"

FAC_UNARY_LOOP(relu)
FAC_UNARY_LOOP(sigmoid)
FAC_UNARY_LOOP(log_sigmoid)
FAC_UNARY_LOOP(silu)
FAC_UNARY_LOOP(mish)
FAC_UNARY_LOOP(hardswish)
FAC_UNARY_LOOP(hardsigmoid)
FAC_UNARY_LOOP(gelu)
FAC_UNARY_LOOP(gelu_tanh)
FAC_BINARY_LOOP(prelu)
FAC_BINARY_LOOP(sigmoid_backward)
FAC_BINARY_LOOP(tanh_backward)
FAC_BINARY_LOOP(silu_backward)
FAC_BINARY_LOOP(mish_backward)
FAC_BINARY_LOOP(hardswish_backward)
FAC_BINARY_LOOP(hardsigmoid_backward)
FAC_BINARY_LOOP(log_sigmoid_backward)
FAC_BINARY_LOOP(gelu_backward)
FAC_BINARY_LOOP(gelu_tanh_backward)

/* The numbers that come with a call, in the element type. */
#define FAC_NUMBERS                                                                     \
    const FAC_T f0 = (FAC_T)args->f[0], f1 = (FAC_T)args->f[1], f2 = (FAC_T)args->f[2]; \
    (void)f0, (void)f1, (void)f2
#define FAC_UNARY_LOOP_WITH(name, ...)                        \
    FAC_LOOP(name) {                                          \
        FAC_OPERANDS_1(FAC_T);                                \
        FAC_NUMBERS;                                          \
        FAC_EACH(n) out[i] = FAC_FN(name)(a[i], __VA_ARGS__); \
    }
#define FAC_BINARY_LOOP_WITH(name, ...)                             \
    FAC_LOOP(name) {                                                \
        FAC_OPERANDS_2(FAC_T);                                      \
        FAC_NUMBERS;                                                \
        FAC_EACH(n) out[i] = FAC_FN(name)(a[i], b[i], __VA_ARGS__); \
    }
FAC_UNARY_LOOP_WITH(elu, f0, f1, f2)
FAC_UNARY_LOOP_WITH(leaky_relu, f0)
FAC_UNARY_LOOP_WITH(hardtanh, f0, f1)
FAC_UNARY_LOOP_WITH(softplus, f0, f1)
FAC_UNARY_LOOP_WITH(threshold, f0, f1)
FAC_BINARY_LOOP_WITH(leaky_relu_backward, f0)
FAC_BINARY_LOOP_WITH(hardtanh_backward, f0, f1)
FAC_BINARY_LOOP_WITH(softplus_backward, f0, f1)
FAC_BINARY_LOOP_WITH(threshold_backward, f0)
FAC_LOOP(elu_backward) {
    FAC_OPERANDS_2(FAC_T);
    FAC_NUMBERS;
    if (args->i[0])
        FAC_EACH(n) out[i] = FAC_FN(elu_backward)(a[i], b[i], f0, f1, f2, true);
    else
        FAC_EACH(n) out[i] = FAC_FN(elu_backward)(a[i], b[i], f0, f1, f2, false);
}

/* Two outputs: the gradients of the input and of the weight. */
FAC_LOOP(prelu_backward) {
    FAC_T *gx = (FAC_T *)(void *)p[0], *gw = (FAC_T *)(void *)p[1];
    const FAC_T *g = (const FAC_T *)(const void *)p[2], *x = (const FAC_T *)(const void *)p[3];
    const FAC_T *w = (const FAC_T *)(const void *)p[4];
    FAC_EACH(n) {
        gx[i] = FAC_FN(leaky_relu_backward)(g[i], x[i], w[i]);
        gw[i] = x[i] > 0 ? 0 : x[i] * g[i];
    }
}

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    FAC_INSTALL(relu), FAC_INSTALL(sigmoid), FAC_INSTALL(log_sigmoid), FAC_INSTALL(silu), FAC_INSTALL(mish);
    FAC_INSTALL(hardswish), FAC_INSTALL(hardsigmoid), FAC_INSTALL(gelu), FAC_INSTALL(gelu_tanh), FAC_INSTALL(elu);
    FAC_INSTALL(leaky_relu), FAC_INSTALL(hardtanh), FAC_INSTALL(softplus), FAC_INSTALL(threshold);
    FAC_INSTALL(sigmoid_backward), FAC_INSTALL(tanh_backward), FAC_INSTALL(silu_backward), FAC_INSTALL(mish_backward);
    FAC_INSTALL(hardswish_backward), FAC_INSTALL(hardsigmoid_backward), FAC_INSTALL(log_sigmoid_backward);
    FAC_INSTALL(gelu_backward), FAC_INSTALL(gelu_tanh_backward), FAC_INSTALL(elu_backward);
    FAC_INSTALL(leaky_relu_backward), FAC_INSTALL(hardtanh_backward), FAC_INSTALL(softplus_backward);
    FAC_INSTALL(threshold_backward), FAC_INSTALL(prelu), FAC_INSTALL(prelu_backward);
}

#undef FAC_NUMBERS
#undef FAC_UNARY_LOOP_WITH
#undef FAC_BINARY_LOOP_WITH
#undef FAC_T
#undef FAC_TD
#undef FAC_FN
#undef FAC_MATH
