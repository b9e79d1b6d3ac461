/* The pointwise operations that have kernels, by the shape of their kernel; names are those of fac_loop_id. Read by pointwise.cu,
   which makes the kernels, and by ops/pointwise.c, which finds them. */
#ifndef FAC_KERNEL_POINTWISE_LIST_H
#define FAC_KERNEL_POINTWISE_LIST_H

/* clang-format off */
/* Formulas of ops/scalar over float and double. */
#define K_REAL_1(X) \
    X(abs) X(neg) X(sign) X(ceil) X(floor) X(round) X(trunc) X(reciprocal) X(sqrt) X(rsqrt) X(square) X(cube) X(sinc) X(angle) \
    X(relu) X(sigmoid) X(log_sigmoid) X(silu) X(mish) X(hardswish) X(hardsigmoid) X(gelu) X(gelu_tanh)
#define K_REAL_2(X) \
    X(add) X(sub) X(mul) X(div) X(div_trunc) X(div_floor) X(fmod) X(remainder) X(maximum) X(minimum) X(prelu) \
    X(sigmoid_backward) X(tanh_backward) X(silu_backward) X(mish_backward) X(hardswish_backward) \
    X(hardsigmoid_backward) X(log_sigmoid_backward) X(gelu_backward) X(gelu_tanh_backward)
#define K_REAL_3(X) X(lerp) X(clamp)
/* The same with numbers that come with the call. */
#define K_REAL_1_WITH(X) \
    X(elu, f0, f1, f2) X(leaky_relu, f0) X(hardtanh, f0, f1) X(softplus, f0, f1) X(threshold, f0, f1)
#define K_REAL_2_WITH(X) \
    X(add_alpha, f0) X(leaky_relu_backward, f0) X(hardtanh_backward, f0, f1) X(softplus_backward, f0, f1) \
    X(threshold_backward, f0) X(elu_backward, f0, f1, f2, p.i[0] != 0)
#define K_REAL_3_WITH(X) X(addcmul, f0) X(addcdiv, f0)
/* Functions of the mathematical library. */
#define K_MATH_1(X) \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) \
    X(asinh) X(acosh) X(atanh) X(erf) X(erfc)
#define K_MATH_2(X) X(pow) X(atan2)
/* Formulas over integers; all widths are computed in 64 bits, whose low bits are theirs. */
#define K_INTEGER_1(X) X(abs) X(neg) X(sign) X(square) X(bitwise_not) X(relu)
#define K_INTEGER_2(X) \
    X(add) X(sub) X(mul) X(pow) X(maximum) X(minimum) X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(shift_left) X(shift_right)
#define K_INTEGER_DIVISION(X) X(div_trunc) X(div_floor) X(fmod) X(remainder)
#define K_INTEGER_2_WITH(X) X(add_alpha, i0)
#define K_INTEGER_3(X) X(clamp) X(threshold)
#define K_INTEGER_3_WITH(X) X(addcmul, i0)
/* What holds of numbers of every kind. */
#define K_TRUTH_1(X) X(logical_not, a == 0) X(isnan, a != a) X(isinf, a - a != 0 && a == a) X(isfinite, a - a == 0)
#define K_TRUTH_2(X) \
    X(eq, a == b) X(ne, a != b) X(lt, a < b) X(le, a <= b) X(gt, a > b) X(ge, a >= b) \
    X(logical_and, a != 0 && b != 0) X(logical_or, a != 0 || b != 0) X(logical_xor, (a != 0) != (b != 0))
/* clang-format on */

#endif
