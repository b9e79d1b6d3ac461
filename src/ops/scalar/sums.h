/* Special functions whose loops end when an element is done, computed in double as those of special.h. */

/* The n-th derivative of digamma, n from 2: (-1)^(n + 1) n! zeta(n + 1, x). The factor comes as part * 2^exponent. */
FAC_SCALAR_FN FAC_T FAC_FN(polygamma)(FAC_T x, FAC_NUMBER n, FAC_NUMBER part, FAC_NUMBER exponent) {
    return (FAC_T)ldexp((double)part * fac__wide_zeta((double)n + 1, (double)x), (int)exponent);
}
FAC_SCALAR_FN FAC_T FAC_FN(zeta)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_zeta((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(zeta_slope)(FAC_T a, FAC_T b) {
    return (FAC_T)(-(double)a * fac__wide_zeta((double)a + 1, (double)b));
}
FAC_SCALAR_FN FAC_T FAC_FN(igamma)(FAC_T a, FAC_T b) {
    return (FAC_T)fac__wide_igamma((double)a, (double)b, FAC_IS_SINGLE);
}
FAC_SCALAR_FN FAC_T FAC_FN(igammac)(FAC_T a, FAC_T b) {
    return (FAC_T)fac__wide_igammac((double)a, (double)b, FAC_IS_SINGLE);
}
