/* The error function's relatives over double: a few units in the last place, without branches. Polynomials are interpolations at
   Chebyshev's points in 50 digits, our own; errors are relative. See README.md for the macros. */
#include "ops/scalar/erfcx_terms.h"

/* ---- quantiles of the normal distribution ------------------------------------------------------------------------------------ */

/* z / q, where the normal distribution reaches 1/2 + q at z, over q^2 in [0, 0.375^2]. */
FAC_WIDE_FN double fac__wide_quantile_centre_poly(double t) {
    return FAC_HORNER(t, 0x1.5d035b66e70fep+1, 0x1.0eb631c37ef8cp-2, 0x1.c840e1acde8b9p-5, 0x1.df71d8a6d1535p-7,
                      0x1.17d914a57860dp-8, 0x1.5b687ca1cfbb9p-10, 0x1.c103465b7e1dcp-12, 0x1.2a88cf689c4fdp-13,
                      0x1.95722d8dda9bdp-15, 0x1.17d941c4a29bcp-16, 0x1.875b3cfbb545dp-18, 0x1.1488e0a5fcb64p-19,
                      0x1.8a42424abf86ap-21, 0x1.1b74722bff019p-22, 0x1.99b5b503078bfp-24, 0x1.254726021c6d8p-25,
                      0x1.ac13b340b4597p-27, 0x1.616bbfb91dc29p-28, 0x1.048cefac57a8ep-29, 0x1.452f7260ff469p-32,
                      0x1.db279ca9f1eccp-34, 0x1.bb91895408e2dp-33, 0x1.4b55fde559c1ap-34);
}

/* z / r, where the tail beyond z is exp(-r^2), over v = (r - 3) / (r + 3), for tails from 1/8 to the least number's. */
FAC_WIDE_FN double fac__wide_quantile_tail_poly(double t) {
    return FAC_HORNER(t, 0x1.52ffa26a23fc7p+0, 0x1.76bbc387450d1p-3, -0x1.3dd28207dc9d7p-3, 0x1.7107d64fb81eep-4,
                      -0x1.8f0a335765bc1p-5, 0x1.9850f7d4aff1ep-6, -0x1.9ae12bfbe6d06p-7, 0x1.94ca3c008910cp-8,
                      -0x1.8d7db46bcf82ep-9, 0x1.81628944227c5p-10, -0x1.765049df5c9cfp-11, 0x1.6783871f8d417p-12,
                      -0x1.5b40b17df3cc5p-13, 0x1.4b3a5be18269p-14, -0x1.3f2f6eb07a8d5p-15, 0x1.2de80aa1788d3p-16,
                      -0x1.24b22f3b40f8bp-17, 0x1.190b1d57b2bd6p-18, -0x1.000e7418c11ebp-19, 0x1.75cbb122c97b7p-21,
                      -0x1.4c750aaa04d2bp-21, 0x1.317482016fa48p-21, 0x1.69828376cda6ap-23, -0x1.9a480eed2cd6cp-22,
                      -0x1.71e3826957e4p-22, 0x1.87760e4894f7dp-22, 0x1.18c67e15a75dep-22, -0x1.a5a6d9b550281p-23,
                      -0x1.4596a63e2a3ecp-23, 0x1.22bdd2e26e695p-24, 0x1.b72dd34c772cdp-25, -0x1.6ce08146e7f0bp-27,
                      -0x1.221b9f5e901c6p-27);
}

/* The normal distribution's quantile of 1/2 + q; tail is the smaller of the probabilities beside it, which q alone would lose. */
FAC_WIDE_FN double fac__wide_normal_quantile(double q, double tail) {
    const double r = sqrt(-FAC_WIDE(log)(tail)), v = (r - 3) / (r + 3);
    const double centre = q * fac__wide_quantile_centre_poly(FAC_MAD(q * q, 0x1.c71c71c71c71cp+3, -1.0));
    double far = r * fac__wide_quantile_tail_poly(FAC_MAD(v, 0x1.bbeafe4662ac1p+0, -0x1.9135d20a6536p-2));
    far = tail == 0 ? (double)FAC_WIDE_INFINITY : far;
    return tail < 0.125 ? copysign(far, q) : centre;
}
FAC_WIDE_FN double fac__wide_ndtri(double p) { return fac__wide_normal_quantile(p - 0.5, p < 0.5 ? p : 1 - p); }
FAC_WIDE_FN double fac__wide_erfinv(double x) {
    return 0x1.6a09e667f3bcdp-1 * fac__wide_normal_quantile(0.5 * x, 0.5 - 0.5 * fabs(x));
}

/* For an x of single precision, to 2^-31: the polynomials are as above, but no tail lies below 2^-25. */
FAC_WIDE_FN double fac__wide_erfinv_centre_poly(double t) {
    return FAC_HORNER(t, 0x1.5d035b65bd5c9p+1, 0x1.0eb631c023a95p-2, 0x1.c840f691bbe7bp-5, 0x1.df71f6ce65ddp-7,
                      0x1.17d188df19bb4p-8, 0x1.5b5d98f09b9fbp-10, 0x1.c2fc7234c8f4ep-12, 0x1.2bf53beae0136p-13,
                      0x1.781d14ab2264fp-15, 0x1.02b266a8fca38p-16, 0x1.23f9824bf5219p-17, 0x1.9f4df3a4b2979p-19);
}
FAC_WIDE_FN double fac__wide_erfinv_tail_poly(double t) {
    return FAC_HORNER(t, 0x1.28d7c917ea319p+0, 0x1.bfea4bf933ba5p-3, -0x1.85680d0c1cbc9p-4, 0x1.0c64c456ccf84p-5,
                      -0x1.59d794d0df26fp-7, 0x1.ae31728eaa036p-9, -0x1.06b9cb98e198ap-10, 0x1.3de54405071e6p-12,
                      -0x1.7ce3544f4f53ep-14, 0x1.b31cd62969091p-16, -0x1.0247833eb4d8ap-17, 0x1.a977b7ef21a2p-19,
                      -0x1.f57f441b0e9adp-21);
}
FAC_WIDE_FN double fac__wide_erfinv_single(double x) {
    const double q = 0.5 * x, tail = 0.5 - fabs(q);
    const double r = sqrt(-FAC_WIDE(log)(tail)), v = (r - 3) / (r + 3);
    const double centre = q * fac__wide_erfinv_centre_poly(FAC_MAD(q * q, 0x1.c71c71c71c71cp+3, -1.0));
    double far = r * fac__wide_erfinv_tail_poly(FAC_MAD(v, 0x1.e41977bd95979p+1, 0x1.4e52f3380b525p-2));
    far = tail == 0 ? (double)FAC_WIDE_INFINITY : far;
    return 0x1.6a09e667f3bcdp-1 * (tail < 0.125 ? copysign(far, q) : centre);
}

/* ---- the scaled complementary error function ---------------------------------------------------------------------------------- */

/* (1 + 2x) erfcx(x) over (x - 3) / (x + 3), x not negative: between 1 and 1.2. */
FAC_WIDE_FN double fac__wide_erfcx_poly(double t) { return FAC_HORNER(t, FAC_ERFCX_TERMS); }

FAC_WIDE_FN double fac__wide_erfcx_positive(double x) {
    const double t = x > 1e17 ? 1 : (x - 3) / (x + 3);
    return fac__wide_erfcx_poly(t) / (1 + 2 * x);
}
/* exp(x^2) for |x| up to 27, beyond which it is infinite: the square of x's upper half is exact, the rest is added behind. */
FAC_WIDE_FN double fac__wide_exp_square(double x) {
    const double size = fabs(x), near = size < 27 ? size : 27, high = (double)(float)near;
    const double low = (near - high) * (near + high), e = FAC_WIDE(exp)(high * high);
    const double y = FAC_MAD(e, low * FAC_HORNER(low, 1, 0.5, 0x1.5555555555555p-3), e);
    return e < (double)FAC_WIDE_INFINITY ? y : e;
}
/* erfcx(-x) = 2 exp(x^2) - erfcx(x). */
FAC_WIDE_FN double fac__wide_erfcx(double x) {
    const double right = fac__wide_erfcx_positive(fabs(x)), left = 2 * fac__wide_exp_square(x) - right;
    return x < 0 ? left : right;
}
/* log of the normal distribution. Its tail far to the left is exp(-x^2 / 2) erfcx(-x / sqrt 2) / 2. */
FAC_WIDE_FN double fac__wide_log_ndtr(double x) {
    const double s = 0x1.6a09e667f3bcdp-1 * x;
    const double left = FAC_WIDE(log)(0.5 * fac__wide_erfcx_positive(fabs(s))) - 0.5 * (x * x);
    const double right = FAC_WIDE(log1p)(-0.5 * FAC_WIDE(erfc)(s));
    return x < -1 ? left : right;
}
