/* Special functions without branches; see README.md. They are computed in double, whatever the type, by wide_*.h: in single precision
   that is exact but for the last rounding. Where less is enough there FAC_IS_SINGLE says so, and a function may have a shorter twin. */

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
