/* Digamma and trigamma over double, without branches; see wide_error.h. */

/* ---- digamma ------------------------------------------------------------------------------------------------------------------- */

/* digamma(x) / (x - r) over [1, 2], where r is its root. */
FAC_WIDE_FN double fac__wide_digamma_near_poly(double t) {
    return FAC_HORNER(t, 0x1.e6f0cbb873616p-1, -0x1.b1cb63005ee98p-3, 0x1.eca189b8e6f6dp-5, -0x1.2feeeb98a78eap-6,
                      0x1.8512e5903903ep-8, -0x1.fb44202a2306bp-10, 0x1.4de9aa1779d23p-11, -0x1.b9f8b11bfd3dp-13,
                      0x1.2564717896ec6p-14, -0x1.863563f44f303p-16, 0x1.03c0adafa529cp-17, -0x1.5a06a5d662cb4p-19,
                      0x1.cd2011454fd05p-21, -0x1.336dbe66757c8p-22, 0x1.99d3f5c0cad5ep-24, -0x1.0fb38d217b8p-25,
                      0x1.6a3e76070c135p-27, -0x1.fd8e50abf2196p-29, 0x1.53b23429da21bp-30, -0x1.2fae5cb379bf2p-32,
                      0x1.94e73cc9821e1p-34, -0x1.75c084e78a4cdp-34, 0x1.f255c4568ac4dp-36);
}

/* On [1, 2], exact near the root, which is kept in two parts. */
FAC_WIDE_FN double fac__wide_digamma_near(double x) {
    return ((x - 0x1.762d86356be3fp+0) - 0x1.b86a722197829p-54) * fac__wide_digamma_near_poly(FAC_MAD(x, 2, -3));
}
/* By the asymptotic series in Bernoulli's numbers (DLMF 5.11.2) from 10 on, where the term left out is below 2^-57; arguments below
   are moved there by 1/x + ... + 1/(x + 9), taken as one fraction. */
FAC_WIDE_FN double fac__wide_digamma_far(double x) {
    const bool moved = x < 10;
    const double z = moved ? x + 10 : x, inverse = 1 / z, w = inverse * inverse;
    const double series = w * FAC_HORNER(w, 0x1.5555555555555p-4, -0x1.1111111111111p-7, 0x1.041041041041p-8,
                                         -0x1.1111111111111p-8, 0x1.f07c1f07c1f08p-8, -0x1.5995995995996p-6,
                                         0x1.5555555555555p-4, -0x1.c5e5e5e5e5e5ep-2, 0x1.86e7f9b9fe6e8p+1);
    /* x + k and x + 9 - k make u + k (9 - k), u = x^2 + 9x: the sum is (2x + 9) p'(u) / p(u). */
    const double u = x * (x + 9);
    const double p = FAC_HORNER(u, 0, 40320, 12176, 1308, 60, 1), slope = FAC_HORNER(u, 40320, 24352, 3924, 240, 5);
    const double y = FAC_WIDE(log)(z) - 0.5 * inverse - series;
    return moved ? y - FAC_MAD(2, x, 9) * slope / p : y;
}
/* psi(x) = psi(1 + x) - 1/x, psi(-x) = psi(1 + x) + pi cot(pi x). */
FAC_WIDE_FN double fac__wide_digamma(double x) {
    const double size = fabs(x), rest = size - rint(size), inverse = 1 / size;
    const double at = size < 1 ? size + 1 : size, near = fac__wide_digamma_near(at), far = fac__wide_digamma_far(at);
    const double y = at < 2 ? near : far;
    const double turn = 3.14159265358979323846 / FAC_WIDE(tan)(3.14159265358979323846 * rest);
    const double cot = rest == 0 ? (double)FAC_WIDE_NAN : turn;
    const double right = size < 1 ? y - inverse : y, after = size < 1 ? y : y + inverse;
    const double all = x < 0 ? after + cot : right;
    return x == 0 ? -copysign((double)FAC_WIDE_INFINITY, x) : all;
}

/* ---- trigamma ------------------------------------------------------------------------------------------------------------------ */

/* 1/a^2 + 1/(a + 1)^2 + 1/(a + 2)^2 as one fraction. */
FAC_WIDE_FN double fac__wide_three_squares(double a) {
    const double p = a * a, q = (a + 1) * (a + 1), r = (a + 2) * (a + 2);
    return (q * r + p * (q + r)) / (p * (q * r));
}
/* As digamma: from 10 on by its series, below by the first ten terms of sum 1/(x + k)^2 and the series of what follows. Left of 0
   psi'(-x) = pi^2 / sin(pi x)^2 + 1/x^2 - psi'(x), so that the first term is of right arguments alone. */
FAC_WIDE_FN double fac__wide_trigamma(double x) {
    const double size = fabs(x), rest = size - rint(size);
    const bool moved = size < 10;
    const double z = moved ? size + 10 : size, inverse = 1 / z, w = inverse * inverse;
    const double series =
        inverse * (1 + 0.5 * inverse +
                   w * FAC_HORNER(w, 0x1.5555555555555p-3, -0x1.1111111111111p-5, 0x1.8618618618618p-6,
                                  -0x1.1111111111111p-5, 0x1.364d9364d9365p-4, -0x1.033033033033p-2,
                                  0x1.2aaaaaaaaaaabp+0, -0x1.c5e5e5e5e5e5ep+2, 0x1.b7c4f8f13e3c5p+5));
    const double nine =
        fac__wide_three_squares(size + 1) + fac__wide_three_squares(size + 4) + fac__wide_three_squares(size + 7);
    const double first = 1 / size * (1 / size);
    const double sine = FAC_WIDE(sin)(3.14159265358979323846 * rest), turn = 3.14159265358979323846 / sine;
    const double after = moved ? series + nine : series - first; /* of 1 + size */
    const double right = moved ? after + first : series;
    return x < 0 ? turn * turn - after : right;
}
