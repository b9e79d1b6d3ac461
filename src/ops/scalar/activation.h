/* Activations by elementary functions, and their derivatives, over real numbers; see README.md. A backward formula takes the
   gradient first. */

FAC_SCALAR_FN FAC_T FAC_FN(sigmoid)(FAC_T x) { return 1 / (1 + FAC_MATH(exp)(-x)); }
/* min(x, 0) - log(1 + exp(-|x|)) never overflows. */
FAC_SCALAR_FN FAC_T FAC_FN(log_sigmoid)(FAC_T x) {
    FAC_T low = x < 0 ? x : 0, size = x < 0 ? -x : x;
    return low - FAC_MATH(log1p)(FAC_MATH(exp)(-size));
}
FAC_SCALAR_FN FAC_T FAC_FN(silu)(FAC_T x) { return x / (1 + FAC_MATH(exp)(-x)); }
FAC_SCALAR_FN FAC_T FAC_FN(mish)(FAC_T x) { return x * FAC_MATH(tanh)(FAC_MATH(log1p)(FAC_MATH(exp)(x))); }
FAC_SCALAR_FN FAC_T FAC_FN(gelu)(FAC_T x) {
    return (FAC_T)0.5 * x * (1 + FAC_MATH(erf)(x * (FAC_T)0.70710678118654752440));
}
#define FAC_GELU_INNER(x) ((FAC_T)0.79788456080286535588 * ((x) + (FAC_T)0.044715 * (x) * (x) * (x)))
FAC_SCALAR_FN FAC_T FAC_FN(gelu_tanh)(FAC_T x) { return (FAC_T)0.5 * x * (1 + FAC_MATH(tanh)(FAC_GELU_INNER(x))); }
/* scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1)) */
FAC_SCALAR_FN FAC_T FAC_FN(elu)(FAC_T x, FAC_NUMBER negative, FAC_NUMBER scale, FAC_NUMBER input_scale) {
    FAC_T e = FAC_MATH(expm1)(x * input_scale) * negative;
    return x < 0 || x != x ? e : x * scale;
}
/* log(1 + exp(beta x)) / beta; the line x once beta x is beyond the threshold. */
FAC_SCALAR_FN FAC_T FAC_FN(softplus)(FAC_T x, FAC_NUMBER beta, FAC_NUMBER threshold) {
    FAC_T z = x * beta, soft = FAC_MATH(log1p)(FAC_MATH(exp)(z)) / beta;
    return z > threshold ? x : soft;
}

/* From the input x. */
FAC_SCALAR_FN FAC_T FAC_FN(silu_backward)(FAC_T g, FAC_T x) {
    FAC_T s = FAC_FN(sigmoid)(x);
    return g * s * (1 + x * (1 - s));
}
FAC_SCALAR_FN FAC_T FAC_FN(mish_backward)(FAC_T g, FAC_T x) {
    FAC_T s = FAC_FN(sigmoid)(x), t = FAC_MATH(tanh)(FAC_MATH(log1p)(FAC_MATH(exp)(x)));
    return g * (t + x * s * (1 - t * t));
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
FAC_SCALAR_FN FAC_T FAC_FN(elu_backward)(FAC_T g, FAC_T x, FAC_NUMBER negative, FAC_NUMBER scale,
                                         FAC_NUMBER input_scale) {
    FAC_T below = input_scale * negative * FAC_MATH(exp)(x * input_scale);
    return g * (x <= 0 ? below : scale);
}
/* From the result y. */
FAC_SCALAR_FN FAC_T FAC_FN(elu_backward_of_result)(FAC_T g, FAC_T y, FAC_NUMBER negative, FAC_NUMBER scale,
                                                   FAC_NUMBER input_scale) {
    return g * (y <= 0 ? input_scale * (y + negative) : scale);
}
FAC_SCALAR_FN FAC_T FAC_FN(softplus_backward)(FAC_T g, FAC_T x, FAC_NUMBER beta, FAC_NUMBER threshold) {
    FAC_T z = x * beta, soft = g / (1 + FAC_MATH(exp)(-z));
    return z > threshold ? g : soft;
}
#undef FAC_GELU_INNER
