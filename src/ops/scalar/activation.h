/* Activations and their derivatives over real numbers; see README.md. A backward formula takes the gradient first. */

FAC_SCALAR_FN FAC_T FAC_FN(relu)(FAC_T x) { return x < 0 ? 0 : x; }
FAC_SCALAR_FN FAC_T FAC_FN(sigmoid)(FAC_T x) { return 1 / (1 + FAC_MATH(exp)(-x)); }
/* min(x, 0) - log(1 + exp(-|x|)) never overflows. */
FAC_SCALAR_FN FAC_T FAC_FN(log_sigmoid)(FAC_T x) {
    FAC_T low = x < 0 ? x : 0, size = x < 0 ? -x : x;
    return low - FAC_MATH(log1p)(FAC_MATH(exp)(-size));
}
FAC_SCALAR_FN FAC_T FAC_FN(silu)(FAC_T x) { return x / (1 + FAC_MATH(exp)(-x)); }
FAC_SCALAR_FN FAC_T FAC_FN(mish)(FAC_T x) { return x * FAC_MATH(tanh)(FAC_MATH(log1p)(FAC_MATH(exp)(x))); }
FAC_SCALAR_FN FAC_T FAC_FN(hardsigmoid)(FAC_T x) {
    FAC_T y = x + 3;
    y = y < 0 ? 0 : y;
    return (y > 6 ? 6 : y) / 6;
}
FAC_SCALAR_FN FAC_T FAC_FN(hardswish)(FAC_T x) { return x * FAC_FN(hardsigmoid)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(gelu)(FAC_T x) {
    return (FAC_T)0.5 * x * (1 + FAC_MATH(erf)(x * (FAC_T)0.70710678118654752440));
}
#define FAC_GELU_INNER(x) ((FAC_T)0.79788456080286535588 * ((x) + (FAC_T)0.044715 * (x) * (x) * (x)))
FAC_SCALAR_FN FAC_T FAC_FN(gelu_tanh)(FAC_T x) { return (FAC_T)0.5 * x * (1 + FAC_MATH(tanh)(FAC_GELU_INNER(x))); }
/* scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1)) */
FAC_SCALAR_FN FAC_T FAC_FN(elu)(FAC_T x, FAC_T negative, FAC_T scale, FAC_T input_scale) {
    FAC_T e = FAC_MATH(expm1)(x * input_scale) * negative;
    return x < 0 || x != x ? e : x * scale;
}
FAC_SCALAR_FN FAC_T FAC_FN(leaky_relu)(FAC_T x, FAC_T slope) { return x > 0 ? x : x * slope; }
/* As clamp: a bound that is NaN makes everything NaN. */
FAC_SCALAR_FN FAC_T FAC_FN(hardtanh)(FAC_T x, FAC_T lo, FAC_T hi) {
    FAC_T y = ((x < lo) | (lo != lo)) ? lo : x;
    return ((y > hi) | (hi != hi)) ? hi : y;
}
/* log(1 + exp(beta x)) / beta; the line x once beta x is beyond the threshold. */
FAC_SCALAR_FN FAC_T FAC_FN(softplus)(FAC_T x, FAC_T beta, FAC_T threshold) {
    FAC_T z = x * beta, soft = FAC_MATH(log1p)(FAC_MATH(exp)(z)) / beta;
    return z > threshold ? x : soft;
}
FAC_SCALAR_FN FAC_T FAC_FN(threshold)(FAC_T x, FAC_T at, FAC_T value) { return x <= at ? value : x; }
FAC_SCALAR_FN FAC_T FAC_FN(prelu)(FAC_T x, FAC_T w) { return x > 0 ? x : w * x; }

/* From the result y. */
FAC_SCALAR_FN FAC_T FAC_FN(sigmoid_backward)(FAC_T g, FAC_T y) { return g * ((1 - y) * y); }
FAC_SCALAR_FN FAC_T FAC_FN(tanh_backward)(FAC_T g, FAC_T y) { return g * (1 - y * y); }
/* From the input x. */
FAC_SCALAR_FN FAC_T FAC_FN(silu_backward)(FAC_T g, FAC_T x) {
    FAC_T s = FAC_FN(sigmoid)(x);
    return g * s * (1 + x * (1 - s));
}
FAC_SCALAR_FN FAC_T FAC_FN(mish_backward)(FAC_T g, FAC_T x) {
    FAC_T s = FAC_FN(sigmoid)(x), t = FAC_MATH(tanh)(FAC_MATH(log1p)(FAC_MATH(exp)(x)));
    return g * (t + x * s * (1 - t * t));
}
FAC_SCALAR_FN FAC_T FAC_FN(hardsigmoid_backward)(FAC_T g, FAC_T x) { return x > -3 && x < 3 ? g / 6 : 0; }
FAC_SCALAR_FN FAC_T FAC_FN(hardswish_backward)(FAC_T g, FAC_T x) {
    FAC_T inside = g * (x / 3 + (FAC_T)0.5);
    return x <= -3 ? 0 : x < 3 ? inside : g;
}
FAC_SCALAR_FN FAC_T FAC_FN(log_sigmoid_backward)(FAC_T g, FAC_T x) { return g / (1 + FAC_MATH(exp)(x)); }
FAC_SCALAR_FN FAC_T FAC_FN(gelu_backward)(FAC_T g, FAC_T x) {
    FAC_T cdf = (FAC_T)0.5 * (1 + FAC_MATH(erf)(x * (FAC_T)0.70710678118654752440));
    FAC_T pdf = (FAC_T)0.39894228040143267794 * FAC_MATH(exp)((FAC_T)-0.5 * x * x);
    return g * (cdf + x * pdf);
}
FAC_SCALAR_FN FAC_T FAC_FN(gelu_tanh_backward)(FAC_T g, FAC_T x) {
    FAC_T t = FAC_MATH(tanh)(FAC_GELU_INNER(x));
    FAC_T slope = (FAC_T)0.79788456080286535588 * (1 + 3 * (FAC_T)0.044715 * x * x);
    return g * ((FAC_T)0.5 * (1 + t) + (FAC_T)0.5 * x * (1 - t * t) * slope);
}
#undef FAC_GELU_INNER
/* x is the input, or, if from_result, the result. */
FAC_SCALAR_FN FAC_T FAC_FN(elu_backward)(FAC_T g, FAC_T x, FAC_T negative, FAC_T scale, FAC_T input_scale,
                                         bool from_result) {
    FAC_T e = FAC_MATH(exp)(x * input_scale);
    FAC_T below = from_result ? input_scale * (x + negative) : input_scale * negative * e;
    return g * (x <= 0 ? below : scale);
}
FAC_SCALAR_FN FAC_T FAC_FN(leaky_relu_backward)(FAC_T g, FAC_T x, FAC_T slope) { return x > 0 ? g : g * slope; }
FAC_SCALAR_FN FAC_T FAC_FN(hardtanh_backward)(FAC_T g, FAC_T x, FAC_T lo, FAC_T hi) {
    return x <= lo || x >= hi ? 0 : g;
}
FAC_SCALAR_FN FAC_T FAC_FN(softplus_backward)(FAC_T g, FAC_T x, FAC_T beta, FAC_T threshold) {
    FAC_T z = x * beta, soft = g / (1 + FAC_MATH(exp)(-z));
    return z > threshold ? g : soft;
}
FAC_SCALAR_FN FAC_T FAC_FN(threshold_backward)(FAC_T g, FAC_T x, FAC_T at) { return x <= at ? 0 : g; }
