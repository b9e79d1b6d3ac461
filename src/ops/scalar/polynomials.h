/* Chebyshev's and Legendre's polynomials in double, one element at a time; the CPU's loops take many together (special.isa.c). */

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
FAC_SCALAR_FN FAC_T FAC_FN(legendre)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_legendre((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(hermite_h)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_hermite_h((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(hermite_he)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_hermite_he((double)a, (double)b); }
FAC_SCALAR_FN FAC_T FAC_FN(laguerre)(FAC_T a, FAC_T b) { return (FAC_T)fac__wide_laguerre((double)a, (double)b); }
