/* Special functions; see README.md. All but the logarithm of gamma are computed in double, whatever the type, by wide_*.h: in single
   precision that is exact but for the last rounding. Where less is enough there the functions are told so, or have a shorter twin. */

#define FAC_IS_SINGLE (sizeof(FAC_T) == sizeof(float))

FAC_SCALAR_FN FAC_T FAC_FN(lgamma)(FAC_T x) { return FAC_MATH(lgamma)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(digamma)(FAC_T x) { return (FAC_T)fac__wide_digamma((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(trigamma)(FAC_T x) { return (FAC_T)fac__wide_trigamma((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(erfinv)(FAC_T x) {
    return (FAC_T)(FAC_IS_SINGLE ? fac__wide_erfinv_single((double)x) : fac__wide_erfinv((double)x));
}
FAC_SCALAR_FN FAC_T FAC_FN(ndtri)(FAC_T x) { return (FAC_T)fac__wide_ndtri((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(log_ndtr)(FAC_T x) { return (FAC_T)fac__wide_log_ndtr((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(erfcx)(FAC_T x) { return (FAC_T)fac__wide_erfcx((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(i0)(FAC_T x) { return (FAC_T)fac__wide_i0((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(i0e)(FAC_T x) { return (FAC_T)fac__wide_i0e((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(i1)(FAC_T x) { return (FAC_T)fac__wide_i1((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(i1e)(FAC_T x) {
    return (FAC_T)(FAC_IS_SINGLE ? fac__wide_i1e_single((double)x) : fac__wide_i1e((double)x));
}
FAC_SCALAR_FN FAC_T FAC_FN(bessel_j0)(FAC_T x) { return (FAC_T)fac__wide_j0((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_j1)(FAC_T x) { return (FAC_T)fac__wide_j1((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_y0)(FAC_T x) { return (FAC_T)fac__wide_y0((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_y1)(FAC_T x) { return (FAC_T)fac__wide_y1((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_k0)(FAC_T x) { return (FAC_T)fac__wide_k0((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_k1)(FAC_T x) { return (FAC_T)fac__wide_k1((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_k0e)(FAC_T x) { return (FAC_T)fac__wide_k0e((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bessel_k1e)(FAC_T x) { return (FAC_T)fac__wide_k1e((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(spherical_j0)(FAC_T x) { return (FAC_T)fac__wide_spherical_j0((double)x); }
FAC_SCALAR_FN FAC_T FAC_FN(airy_ai)(FAC_T x) { return (FAC_T)fac__wide_airy_ai((double)x); }
/* -x log x, 0 at 0. */
FAC_SCALAR_FN FAC_T FAC_FN(entr)(FAC_T x) {
    const FAC_T y = -x * FAC_MATH(log)(x);
    return x > 0 ? y : x == 0 ? 0 : x < 0 ? -(FAC_T)FAC_WIDE_INFINITY : x;
}
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
FAC_SCALAR_FN FAC_T FAC_FN(chebyshev_t)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_chebyshev_t((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(chebyshev_u)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_chebyshev_u((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(chebyshev_v)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_chebyshev_v((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(chebyshev_w)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_chebyshev_w((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(shifted_chebyshev_t)(FAC_T a, FAC_T b) {
    return (FAC_T)fac__wide_chebyshev_t(2 * (double)a - 1, (double)b);
}
FAC_SCALAR_FN FAC_T FAC_FN(shifted_chebyshev_u)(FAC_T a, FAC_T b) {
    return (FAC_T)fac__wide_chebyshev_u(2 * (double)a - 1, (double)b);
}
FAC_SCALAR_FN FAC_T FAC_FN(shifted_chebyshev_v)(FAC_T a, FAC_T b) {
    return (FAC_T)fac__wide_chebyshev_v(2 * (double)a - 1, (double)b);
}
FAC_SCALAR_FN FAC_T FAC_FN(shifted_chebyshev_w)(FAC_T a, FAC_T b) {
    return (FAC_T)fac__wide_chebyshev_w(2 * (double)a - 1, (double)b);
}
FAC_SCALAR_FN FAC_T FAC_FN(hermite_h)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_hermite_h((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(hermite_he)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_hermite_he((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(laguerre)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_laguerre((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(legendre)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_legendre((double)a, (double)b); }

#undef FAC_IS_SINGLE
