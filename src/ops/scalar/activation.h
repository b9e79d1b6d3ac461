/* Activations by elementary functions, and their derivatives, over real numbers; see README.md. A backward formula takes the
   gradient first. */

/* 1 / (1 + exp(-x)), of an exponential that does not overflow, so that the tail is kept. */
FAC_SCALAR_FN FAC_T FAC_FN(sigmoid)(FAC_T x) {
    FAC_T e = FAC_MATH(exp_minus_abs)(x);
    return (x < 0 ? e : 1) / (1 + e);
}
/* min(x, 0) - log(1 + exp(-|x|)) never overflows. */
FAC_SCALAR_FN FAC_T FAC_FN(log_sigmoid)(FAC_T x) {
    return (x < 0 ? x : 0) - FAC_MATH(log1p_unit)(FAC_MATH(exp_minus_abs)(x));
}
/* exp(-|x|), times exp(40) below -60, where only the result of x exp(x) may round to a subnormal number. The size is not a choice by
   the sign, which a compiler may hoist over what is computed of it, and so leave a branch in the loop. */
#define FAC_FAR(x) ((x) < -60)
FAC_SCALAR_HELPER FAC_T FAC_FN(exp_scaled)(FAC_T x) {
    return FAC_MATH(exp)((FAC_FAR(x) ? 40 : 0) - FAC_BUILTIN(fabs)(x));
}
#define FAC_UNSCALED(x, y) (FAC_FAR(x) ? (y) * (FAC_T)4.2483542552915889953e-18 : (y))
FAC_SCALAR_FN FAC_T FAC_FN(silu)(FAC_T x) {
    FAC_T e = FAC_FN(exp_scaled)(x), y = x * (x < 0 ? e : 1) / (FAC_FAR(x) ? 1 : 1 + e);
    return FAC_UNSCALED(x, y);
}
/* tanh(log(1 + exp(x))) = ((1 + exp(x))^2 - 1) / ((1 + exp(x))^2 + 1), with numerator and denominator times exp(-2x) above 0; exp(x)
   far below. Of e, which is exp(-|x|). */
FAC_SCALAR_HELPER FAC_T FAC_FN(mish_factor)(FAC_T x, FAC_T e) {
    FAC_T above = 1 + 2 * e, below = e * (e + 2), near = x < 0 ? below / (below + 2) : above / (above + 2 * e * e);
    return FAC_FAR(x) ? e : near;
}
FAC_SCALAR_FN FAC_T FAC_FN(mish)(FAC_T x) {
    FAC_T y = x * FAC_FN(mish_factor)(x, FAC_FN(exp_scaled)(x));
    return FAC_UNSCALED(x, y);
}
FAC_SCALAR_FN FAC_T FAC_FN(gelu)(FAC_T x) { return FAC_MATH(gelu)(x); }
/* (1 + tanh(y)) / 2 is the sigmoid of 2y. */
#define FAC_GELU_INNER(x) ((FAC_T)1.5957691216057307118 * ((x) + (FAC_T)0.044715 * (x) * (x) * (x)))
FAC_SCALAR_FN FAC_T FAC_FN(gelu_tanh)(FAC_T x) { return x * FAC_FN(sigmoid)(FAC_GELU_INNER(x)); }
/* The larger one plus a correction in (0, 1]; their difference is 0, not NaN, where both are the same infinity. */
FAC_SCALAR_FN FAC_T FAC_FN(logaddexp)(FAC_T a, FAC_T b) {
    const FAC_T apart = a == b ? 0 : a - b, larger = ((b > a) | (b != b)) ? b : a;
    return larger + FAC_MATH(log1p_unit)(FAC_MATH(exp_minus_abs)(apart));
}
FAC_SCALAR_FN FAC_T FAC_FN(logaddexp2)(FAC_T a, FAC_T b) {
    const FAC_T apart = a == b ? 0 : a - b, larger = ((b > a) | (b != b)) ? b : a;
    return larger + (FAC_T)1.44269504088896340736 * FAC_MATH(log1p_unit)(FAC_MATH(exp2)(-FAC_BUILTIN(fabs)(apart)));
}
/* What a has of the slope: g exp(a) / (exp(a) + exp(b)), or of powers of two. */
FAC_SCALAR_FN FAC_T FAC_FN(logaddexp_backward)(FAC_T g, FAC_T a, FAC_T b, FAC_NUMBER scale) {
    return g * FAC_FN(sigmoid)((a == b ? 0 : a - b) * scale);
}
/* The standard normal distribution's function. */
FAC_SCALAR_FN FAC_T FAC_FN(ndtr)(FAC_T x) { return FAC_MATH(normcdf)(x); }
/* log(x / (1 - x)), of x brought to its bounds; where they cross, the lower one counts. */
FAC_SCALAR_FN FAC_T FAC_FN(logit)(FAC_T x, FAC_NUMBER low, FAC_NUMBER high) {
    const FAC_T y = x > high ? high : x, z = x < low ? low : y;
    return FAC_MATH(log)(z / (1 - z));
}
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
/* With t the factor above, n / d or below / (below + 2), 1 - t^2 as one fraction: the difference would have lost its digits. */
FAC_SCALAR_FN FAC_T FAC_FN(mish_backward)(FAC_T g, FAC_T x) {
    FAC_T e = FAC_MATH(exp_minus_abs)(x), s = (x < 0 ? e : 1) / (1 + e), t = FAC_FN(mish_factor)(x, e);
    FAC_T above = 1 + 2 * e, square = e * e, below = e * (e + 2), d = x < 0 ? below + 2 : above + 2 * square;
    FAC_T rest = x < 0 ? 4 * (below + 1) : 4 * square * (above + square);
    return g * (t + x * s * (rest / (d * d)));
}
/* a s(b), with s the sigmoid; its gradients are g s, and g a s (1 - s), its change s da + (1 - s) y db, where y is the result. */
FAC_SCALAR_FN FAC_T FAC_FN(glu)(FAC_T a, FAC_T b) { return a * FAC_FN(sigmoid)(b); }
FAC_SCALAR_FN void FAC_FN(glu_backward)(FAC_T g, FAC_T a, FAC_T b, FAC_T *ga, FAC_T *gb) {
    FAC_T e = FAC_MATH(exp_minus_abs)(b), s = (b < 0 ? e : 1) / (1 + e), rest = (b < 0 ? 1 : e) / (1 + e);
    *ga = g * s, *gb = g * a * s * rest;
}
FAC_SCALAR_FN FAC_T FAC_FN(glu_jvp)(FAC_T y, FAC_T b, FAC_T da, FAC_T db) {
    FAC_T e = FAC_MATH(exp_minus_abs)(b), i = 1 / (1 + e);
    return i * ((b < 0 ? e : 1) * da + (b < 0 ? 1 : e) * y * db);
}
FAC_SCALAR_FN FAC_T FAC_FN(log_sigmoid_backward)(FAC_T g, FAC_T x) { return g / (1 + FAC_MATH(exp)(x)); }
FAC_SCALAR_FN FAC_T FAC_FN(gelu_backward)(FAC_T g, FAC_T x) {
    FAC_T pdf = (FAC_T)0.39894228040143267794 * FAC_MATH(exp)((FAC_T)-0.5 * x * x);
    return g * (FAC_MATH(normcdf)(x) + x * pdf);
}
FAC_SCALAR_FN FAC_T FAC_FN(gelu_tanh_backward)(FAC_T g, FAC_T x) {
    FAC_T y = FAC_GELU_INNER(x), e = FAC_MATH(exp_minus_abs)(y), small = e / (1 + e), large = 1 / (1 + e);
    FAC_T slope = (FAC_T)1.5957691216057307118 * (1 + 3 * (FAC_T)0.044715 * x * x);
    return g * ((y < 0 ? small : large) + x * small * large * slope);
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
#undef FAC_FAR
#undef FAC_UNSCALED
