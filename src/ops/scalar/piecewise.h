/* Activations made of straight lines, and derivatives without elementary functions, over real numbers; see README.md. A backward
   formula takes the gradient first. */

FAC_SCALAR_FN FAC_T FAC_FN(relu)(FAC_T x) { return x < 0 ? 0 : x; }
FAC_SCALAR_FN FAC_T FAC_FN(hardsigmoid)(FAC_T x) {
    FAC_T y = x + 3;
    y = y < 0 ? 0 : y;
    return (y > 6 ? 6 : y) / 6;
}
FAC_SCALAR_FN FAC_T FAC_FN(hardswish)(FAC_T x) { return x * FAC_FN(hardsigmoid)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(leaky_relu)(FAC_T x, FAC_NUMBER slope) { return x > 0 ? x : x * slope; }
/* As clamp: a bound that is NaN makes everything NaN. */
FAC_SCALAR_FN FAC_T FAC_FN(hardtanh)(FAC_T x, FAC_NUMBER lo, FAC_NUMBER hi) {
    FAC_T y = ((x < lo) | (lo != lo)) ? lo : x;
    return ((y > hi) | (hi != hi)) ? hi : y;
}
FAC_SCALAR_FN FAC_T FAC_FN(threshold)(FAC_T x, FAC_NUMBER at, FAC_NUMBER value) { return x <= at ? value : x; }
/* NaN stays. */
FAC_SCALAR_FN FAC_T FAC_FN(hardshrink)(FAC_T x, FAC_NUMBER lambd) { return FAC_BUILTIN(fabs)(x) <= lambd ? 0 : x; }
FAC_SCALAR_FN FAC_T FAC_FN(softshrink)(FAC_T x, FAC_NUMBER lambd) {
    const FAC_T moved = x > 0 ? x - lambd : x + lambd;
    return FAC_BUILTIN(fabs)(x) <= lambd ? 0 : moved;
}
FAC_SCALAR_FN FAC_T FAC_FN(prelu)(FAC_T x, FAC_T w) { return x > 0 ? x : w * x; }

/* From the result y. */
FAC_SCALAR_FN FAC_T FAC_FN(sigmoid_backward)(FAC_T g, FAC_T y) { return g * ((1 - y) * y); }
FAC_SCALAR_FN FAC_T FAC_FN(tanh_backward)(FAC_T g, FAC_T y) { return g * (1 - y * y); }
/* From the input x. */
FAC_SCALAR_FN FAC_T FAC_FN(hardsigmoid_backward)(FAC_T g, FAC_T x) { return x > -3 && x < 3 ? g / 6 : 0; }
FAC_SCALAR_FN FAC_T FAC_FN(hardswish_backward)(FAC_T g, FAC_T x) {
    FAC_T inside = g * (x / 3 + (FAC_T)0.5);
    return x <= -3 ? 0 : x < 3 ? inside : g;
}
FAC_SCALAR_FN FAC_T FAC_FN(leaky_relu_backward)(FAC_T g, FAC_T x, FAC_NUMBER slope) { return x > 0 ? g : g * slope; }
FAC_SCALAR_FN FAC_T FAC_FN(hardtanh_backward)(FAC_T g, FAC_T x, FAC_NUMBER lo, FAC_NUMBER hi) {
    return x <= lo || x >= hi ? 0 : g;
}
FAC_SCALAR_FN FAC_T FAC_FN(threshold_backward)(FAC_T g, FAC_T x, FAC_NUMBER at) { return x <= at ? 0 : g; }
/* Of both shrinkages. */
FAC_SCALAR_FN FAC_T FAC_FN(shrink_backward)(FAC_T g, FAC_T x, FAC_NUMBER lambd) {
    return FAC_BUILTIN(fabs)(x) <= lambd ? 0 : g;
}
/* `beyond` where x is not within its bounds. */
FAC_SCALAR_FN FAC_T FAC_FN(logit_backward)(FAC_T g, FAC_T x, FAC_NUMBER low, FAC_NUMBER high, FAC_NUMBER beyond) {
    const FAC_T slope = g / (x * (1 - x));
    return ((x < low) | (x > high)) ? beyond : slope;
}
/* The gradients of the input and of the weight. */
FAC_SCALAR_FN void FAC_FN(prelu_backward)(FAC_T g, FAC_T x, FAC_T w, FAC_T *gx, FAC_T *gw) {
    *gx = x > 0 ? g : g * w;
    *gw = x > 0 ? 0 : x * g;
}
