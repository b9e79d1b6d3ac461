/* Orthogonal polynomials over double, one element at a time, by their recurrences (DLMF 18.9) in ever higher degrees up to n; within
   (-1, 1) Chebyshev's above degree FAC_WIDE_COSINES are cosines. A degree is cut off to a whole number; below 0 the polynomial is 0,
   and above FAC_WIDE_MOST_DEGREE what needs the recurrence is NaN. Results that overflow on the way are NaN. */

#define FAC_WIDE_MOST_DEGREE 0x1p22
#define FAC_WIDE_COSINES 16

/* ---- Chebyshev --------------------------------------------------------------------------------------------------------------- */

/* p(k + 1) = 2x p(k) - p(k - 1) from 1 and `first`. */
FAC_SCALAR_HELPER double fac__wide_chebyshev(double x, double n, double first) {
    if (n < 1) return 1;
    if (n > FAC_WIDE_MOST_DEGREE) return (double)FAC_WIDE_NAN;
    const double twice = 2 * x;
    double before = 1, p = first;
    for (double k = 1; k < n && p == p; k += 1) {
        const double next = FAC_MAD(twice, p, -before);
        before = p;
        p = next;
    }
    return p;
}
FAC_SCALAR_HELPER bool fac__wide_even(double n) { return n * 0.5 == floor(n * 0.5); }
FAC_SCALAR_HELPER double fac__wide_signed(bool plus, double size) { return plus ? size : -size; }

FAC_SCALAR_HELPER double fac__wide_chebyshev_t(double x, double degree) {
    const double n = trunc(degree);
    if (!(n >= 0)) return 0;
    if (fabs(x) == 1) return fac__wide_signed(x > 0 || fac__wide_even(n), 1);
    return n > FAC_WIDE_COSINES && fabs(x) < 1 ? cos(n * acos(x)) : fac__wide_chebyshev(x, n, x);
}
FAC_SCALAR_HELPER double fac__wide_chebyshev_u(double x, double degree) {
    const double n = trunc(degree);
    if (!(n >= 0)) return 0;
    if (fabs(x) == 1) return fac__wide_signed(x > 0 || fac__wide_even(n), n + 1);
    return n > FAC_WIDE_COSINES && fabs(x) < 1 ? sin((n + 1) * acos(x)) / sin(acos(x))
                                               : fac__wide_chebyshev(x, n, 2 * x);
}
FAC_SCALAR_HELPER double fac__wide_chebyshev_v(double x, double degree) {
    const double n = trunc(degree);
    if (!(n >= 0)) return 0;
    if (x == 1) return 1;
    if (x == -1) return fac__wide_signed(fac__wide_even(n), 2 * n + 1);
    return n > FAC_WIDE_COSINES && fabs(x) < 1 ? cos((n + 0.5) * acos(x)) / cos(0.5 * acos(x))
                                               : fac__wide_chebyshev(x, n, 2 * x - 1);
}
FAC_SCALAR_HELPER double fac__wide_chebyshev_w(double x, double degree) {
    const double n = trunc(degree);
    if (!(n >= 0)) return 0;
    if (x == 1) return 2 * n + 1;
    if (x == -1) return fac__wide_signed(fac__wide_even(n), 1);
    return n > FAC_WIDE_COSINES && fabs(x) < 1 ? sin((n + 0.5) * acos(x)) / sin(0.5 * acos(x))
                                               : fac__wide_chebyshev(x, n, 2 * x + 1);
}

/* ---- others ------------------------------------------------------------------------------------------------------------------ */

/* The degree as a whole number, or -1 where `result`, which is set then, needs no recurrence. */
FAC_SCALAR_HELPER double fac__wide_degree(double degree, double first, double *result) {
    *result = degree > FAC_WIDE_MOST_DEGREE ? (double)FAC_WIDE_NAN : degree < 1 ? 1 : first;
    if (!(degree > -1)) *result = 0;
    return degree >= 2 && degree <= FAC_WIDE_MOST_DEGREE ? trunc(degree) : -1;
}
FAC_SCALAR_HELPER double fac__wide_hermite_h(double x, double degree) {
    double p, before = 1;
    const double n = fac__wide_degree(degree, 2 * x, &p);
    for (double k = 1; k < n && p == p; k += 1) {
        const double next = FAC_MAD(2 * x, p, -2 * k * before);
        before = p;
        p = next;
    }
    return p;
}
FAC_SCALAR_HELPER double fac__wide_hermite_he(double x, double degree) {
    double p, before = 1;
    const double n = fac__wide_degree(degree, x, &p);
    for (double k = 1; k < n && p == p; k += 1) {
        const double next = FAC_MAD(x, p, -k * before);
        before = p;
        p = next;
    }
    return p;
}
FAC_SCALAR_HELPER double fac__wide_laguerre(double x, double degree) {
    double p, before = 1;
    const double n = fac__wide_degree(degree, 1 - x, &p);
    if (x == 0 && degree > -1) return 1;
    for (double k = 1; k < n && p == p; k += 1) {
        const double share = 1 / (k + 1), next = FAC_MAD(2 * k + (1 - x), p, -k * before) * share;
        before = p;
        p = next;
    }
    return p;
}
FAC_SCALAR_HELPER double fac__wide_legendre(double x, double degree) {
    double p, before = 1;
    const double n = fac__wide_degree(degree, x, &p);
    if (fabs(x) == 1 && degree > -1) return fac__wide_signed(x > 0 || fac__wide_even(trunc(degree)), 1);
    for (double k = 1; k < n && p == p; k += 1) {
        const double share = 1 / (k + 1), next = FAC_MAD((2 * k + 1) * x, p, -k * before) * share;
        before = p;
        p = next;
    }
    return p;
}

#undef FAC_WIDE_MOST_DEGREE
#undef FAC_WIDE_COSINES
