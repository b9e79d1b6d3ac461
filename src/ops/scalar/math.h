/* Elementary functions; see README.md. */

FAC_SCALAR_FN FAC_T FAC_FN(exp)(FAC_T x) { return FAC_MATH(exp)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(exp2)(FAC_T x) { return FAC_MATH(exp2)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(expm1)(FAC_T x) { return FAC_MATH(expm1)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(log)(FAC_T x) { return FAC_MATH(log)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(log2)(FAC_T x) { return FAC_MATH(log2)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(log10)(FAC_T x) { return FAC_MATH(log10)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(log1p)(FAC_T x) { return FAC_MATH(log1p)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(sin)(FAC_T x) { return FAC_MATH(sin)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(cos)(FAC_T x) { return FAC_MATH(cos)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(tan)(FAC_T x) { return FAC_MATH(tan)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(asin)(FAC_T x) { return FAC_MATH(asin)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(acos)(FAC_T x) { return FAC_MATH(acos)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(atan)(FAC_T x) { return FAC_MATH(atan)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(sinh)(FAC_T x) { return FAC_MATH(sinh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(cosh)(FAC_T x) { return FAC_MATH(cosh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(tanh)(FAC_T x) { return FAC_MATH(tanh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(asinh)(FAC_T x) { return FAC_MATH(asinh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(acosh)(FAC_T x) { return FAC_MATH(acosh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(atanh)(FAC_T x) { return FAC_MATH(atanh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(erf)(FAC_T x) { return FAC_MATH(erf)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(erfc)(FAC_T x) { return FAC_MATH(erfc)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(pow)(FAC_T a, FAC_T b) { return FAC_MATH(pow)(a, b); }
/* base^x of a base that is 2^power. */
FAC_SCALAR_FN FAC_T FAC_FN(power_of_two)(FAC_T base, FAC_T x, FAC_NUMBER power) {
    return (void)base, FAC_MATH(exp2)(x * power);
}
FAC_SCALAR_FN FAC_T FAC_FN(atan2)(FAC_T a, FAC_T b) { return FAC_MATH(atan2)(a, b); }
FAC_SCALAR_FN FAC_T FAC_FN(hypot)(FAC_T a, FAC_T b) { return FAC_MATH(hypot)(a, b); }
/* sin(pi x) / (pi x), 1 at 0. */
FAC_SCALAR_FN FAC_T FAC_FN(sinc)(FAC_T x) {
    FAC_T y = (FAC_T)3.14159265358979323846 * x, s = FAC_MATH(sin)(y) / y;
    return x == 0 ? 1 : s;
}
FAC_SCALAR_FN FAC_T FAC_FN(lgamma)(FAC_T x) { return FAC_MATH(lgamma)(x); }
/* -x log x, 0 at 0. */
FAC_SCALAR_FN FAC_T FAC_FN(entr)(FAC_T x) {
    const FAC_T y = -x * FAC_MATH(log)(x);
    return x > 0 ? y : x == 0 ? 0 : x < 0 ? -(FAC_T)FAC_INFINITY : x;
}
