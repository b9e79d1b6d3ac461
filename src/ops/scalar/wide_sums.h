/* The zeta function of two arguments, polygamma and the incomplete gamma functions over double: one element at a time, by loops
   that end when the next term no longer counts. See wide_error.h. */

#define FAC_WIDE_EPSILON 1.1102230246251565e-16 /* half a unit in the last place of 1 */

/* ---- zeta ---------------------------------------------------------------------------------------------------------------------- */

/* B_2j / (2j)! */
FAC_WIDE_TABLE(fac__wide_bernoulli, 14) = {0x1.5555555555555p-4,   -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15,
                                           -0x1.bbd779334ef0bp-21, 0x1.66a8f2bf70ebep-26,  -0x1.22805d644267fp-31,
                                           0x1.d6db2c4e09162p-37,  -0x1.7da4e1f79955cp-42, 0x1.355871d652e9ep-47,
                                           -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58,  -0x1.497d9033a2b5cp-63,
                                           0x1.0b132d7c6ad06p-68,  -0x1.b0f72d59f1c16p-74};

/* z^-s, for whole s up to 4 within 2.5 ulp, by products that do not leave the range. */
FAC_SCALAR_HELPER double fac__wide_power(double z, double s) {
    const double size = fabs(z);
    if (!(s == 2 || s == 3 || s == 4) || !(size < 1e50 && size > 1e-50)) return pow(z, -s);
    const double square = z * z;
    return 1 / (s == 2 ? square : s == 3 ? square * z : square * square);
}
/* sum over k of (a + k)^-s, s > 1, a > 0, by Euler and Maclaurin (DLMF 2.10.1): terms up to where the rest's series converges, and
   that series. */
FAC_SCALAR_HELPER double fac__wide_zeta_positive(double s, double a) {
    const double from = 9 + 0.5 * s;
    double z = a, sum = 0, term = fac__wide_power(a, s);
    while (z < from) {
        sum += term;
        if (term <= FAC_WIDE_EPSILON * sum) return sum;
        z += 1;
        term = fac__wide_power(z, s);
    }
    sum += term * (z / (s - 1)) + 0.5 * term;
    double factor = s * term / z;
    for (int j = 0; j < 14; j++) {
        const double next = factor * fac__wide_bernoulli[j];
        sum += next;
        if (fabs(next) <= FAC_WIDE_EPSILON * fabs(sum)) break;
        factor *= (s + 2 * j + 1) / z * ((s + 2 * j + 2) / z);
    }
    return sum;
}
/* Left of 0 for a whole s: near it the terms are added up to there, else what lies between -a and 0 is a difference of two sums that go
   the other way. */
FAC_SCALAR_HELPER double fac__wide_zeta_left(double s, double a) {
    if (a > -16) {
        double z = a, sum = 0;
        for (; z < 0; z += 1) sum += fac__wide_power(z, s); /* exact until z is no longer below 0 */
        return sum + fac__wide_zeta_positive(s, z);
    }
    const double part = a - floor(a),
                 mirrored = fac__wide_zeta_positive(s, 1 - part) - fac__wide_zeta_positive(s, 1 - a);
    const bool odd = s * 0.5 != floor(s * 0.5);
    return fac__wide_zeta_positive(s, part) + (odd ? -mirrored : mirrored);
}
FAC_SCALAR_HELPER double fac__wide_zeta(double s, double a) {
    if (s == 1) return (double)FAC_WIDE_INFINITY;
    if (!(s > 1)) return (double)FAC_WIDE_NAN;
    if (a > 0) return fac__wide_zeta_positive(s, a);
    if (a == floor(a)) return (double)FAC_WIDE_INFINITY;
    return s == floor(s) ? fac__wide_zeta_left(s, a) : (double)FAC_WIDE_NAN;
}

/* ---- incomplete gamma functions ------------------------------------------------------------------------------------------------ */

/* eta(t) / t, where eta^2 / 2 = t - log(1 + t) and eta has t's sign, |t| up to 0.3. */
FAC_SCALAR_HELPER double fac__wide_eta_poly(double t) {
    return FAC_HORNER(t, 1.0, -0x1.999999999999ap-4, 0x1.1eb851eb8525bp-6, -0x1.de69ad42c3d9cp-9, 0x1.b4245f5abcd2dp-11,
                      -0x1.a39952e540da4p-13, 0x1.a292edb24e9bbp-15, -0x1.ac92984787437p-17, 0x1.bf838ef16f1efp-19,
                      -0x1.da83b746f1799p-21, 0x1.fd621d12342a7p-23, -0x1.142d2a139ff0fp-24, 0x1.2dda8742a0f7cp-26,
                      -0x1.4c7255bf57e75p-28, 0x1.73ddabd57bd41p-30, -0x1.9e5c7e20d3374p-32, 0x1.a09bf35a598e8p-34,
                      -0x1.d3864f0106154p-36, 0x1.b9353180ffc3ep-37, -0x1.f475994d5ea6p-39);
}

FAC_SCALAR_HELPER double fac__wide_temme_eta(double t) { return t * fac__wide_eta_poly(t * 0x1.aaaaaaaaaaaabp+1); }

/* log(gamma(1 + a)) / a over [0, 1.25], by even and odd powers, which do not wait for each other. */
FAC_SCALAR_HELPER double fac__wide_lgamma1p_poly(double t) {
    const double w = t * t;
    const double even =
        FAC_HORNER(w, -0x1.65bde6b3e6004p-3, -0x1.e425e8ce3f6f9p-5, -0x1.1ee9ff1ff41aep-8, -0x1.d236d4eed9fffp-12,
                   -0x1.aa2190d8c9377p-15, -0x1.9d5dda5128fe1p-18, -0x1.9f9181a3c193bp-21, -0x1.abdd446e5382p-24,
                   -0x1.c1a911bebef12p-27, -0x1.cf842f4f3a942p-30, -0x1.2ce3a67e3932dp-32, -0x1.339965cddeefcp-37,
                   -0x1.8430cf60675d3p-37);
    const double odd =
        FAC_HORNER(w, 0x1.49b276d6793adp-2, 0x1.ed37fdf8d6b27p-7, 0x1.661157d6885d7p-10, 0x1.381a65baa36f8p-13,
                   0x1.2722edbf3454cp-16, 0x1.2406f9437e12ap-19, 0x1.2971efb3bd212p-22, 0x1.352098657e5aep-25,
                   0x1.473714626d22p-28, 0x1.53063878c7251p-31, 0x1.bb261ceaafd3fp-34, 0x1.bccd3aed8aa39p-39,
                   0x1.201973ce412dap-38);
    return FAC_MAD(odd, t, even);
}

FAC_SCALAR_HELPER double fac__wide_lgamma1p(double a) {
    return fac__wide_lgamma1p_poly(FAC_MAD(a, 0x1.999999999999ap+0, -1.0));
}
/* x^a exp(-x) / gamma(a + 1). For large a by Stirling's series (DLMF 5.11.1), the exponent as a (t - log(1 + t)) with t the relative
   distance. */
FAC_SCALAR_HELPER double fac__wide_gamma_factor(double a, double x, bool single) {
    if (a <= 20) { /* gamma(a + 1) from its value up to 2 */
        const double whole = a < 1 ? 0 : floor(a), part = a - whole;
        double product = 1;
        for (int k = (int)whole; k > 0; k--) product *= part + k;
        const double gamma = part * fac__wide_lgamma1p(part);
        if (single) return exp(a * log(x) - x - gamma) / product;
        const double half = exp(-0.5 * x);
        return half * pow(x, a) * exp(-gamma) / product * half;
    }
    const double t = (x - a) / a, eta = fac__wide_temme_eta(t), i = 1 / a;
    const double exponent = fabs(t) < 0.3 ? 0.5 * eta * eta : t - log1p(t);
    const double stirling = i * FAC_HORNER(i * i, 0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11,
                                           -0x1.3813813813814p-11);
    return exp(-a * exponent - stirling) / sqrt(6.28318530717958647693 * a);
}
/* P by sum of x^k / ((a + 1) ... (a + k)) (DLMF 8.7.1), for x below a or little above. */
FAC_SCALAR_HELPER double fac__wide_gamma_series(double a, double x, bool single) {
    const double least = single ? 1e-10 : FAC_WIDE_EPSILON;
    double sum = 1, term = 1;
    for (int k = 1; k < 2000 && term > least * sum; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return fac__wide_gamma_factor(a, x, single) * sum;
}
/* Q by Legendre's continued fraction (DLMF 8.9.2), for x above a and 1. Backwards for small a, which forgets rounding errors, from
   where what is left out no longer counts (found by trial); forwards after Lentz for large a, whose length is not known. */
FAC_SCALAR_HELPER double fac__wide_gamma_backwards(double a, double x, bool single) {
    double p = 0, q = 1; /* the tail's numerator and denominator: divisions would wait for each other */
    for (int k = single ? 16 + (int)(28 / x) : 20 + (int)(100 / x); k > 0; k--) {
        const double next = FAC_MAD(x + (2 * k + 1 - a), q, -p);
        p = k * (k - a) * q;
        q = next;
    }
    return q / ((x + 1 - a) * q - p);
}
FAC_SCALAR_HELPER double fac__wide_gamma_forwards(double a, double x, bool single) {
    const double least = single ? 1e-10 : FAC_WIDE_EPSILON;
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d, step = 0;
    for (int k = 1; k < 2000 && fabs(step - 1) > least; k++) {
        const double an = -k * (k - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        step = c * d;
        h *= step;
    }
    return h;
}
FAC_SCALAR_HELPER double fac__wide_gamma_fraction(double a, double x, bool single) {
    if (a <= 20 && x > 1000) return 0;
    const double h = a > 20 ? fac__wide_gamma_forwards(a, x, single) : fac__wide_gamma_backwards(a, x, single);
    return fac__wide_gamma_factor(a, x, single) * a * h;
}
/* Q for small x and a: 1 - x^a / gamma(1 + a), which is as small as a, less the other terms of P's alternating series (DLMF 8.7.3). */
FAC_SCALAR_HELPER double fac__wide_gamma_small(double a, double x, bool single) {
    const double least = single ? 1e-10 : FAC_WIDE_EPSILON;
    double sum = 0, power = 1;
    for (int k = 1; k < 100; k++) {
        power *= -x / k;
        const double term = power / (a + k);
        sum += term;
        if (fabs(term) <= least * fabs(sum)) break;
    }
    const double grown = expm1(a * (log(x) - fac__wide_lgamma1p(a))); /* x and a are such that this is not near -1 */
    return -grown - a * (1 + grown) * sum;
}

/* Coefficients d(k, n) of Temme's uniform expansion (DLMF 8.12.7 to 8.12.10), from the recurrence there in exact fractions; row k ends
   at fac__wide_temme_ends[k]. What is left out counts less than 2^-56 for a from 20 and |eta| up to 0.34. */
FAC_WIDE_TABLE(fac__wide_temme,
               109) = {-0x1.5555555555555p-2,  0x1.5555555555555p-4,   -0x1.e573ac901e574p-7,  0x1.2f684bda12f68p-10,
                       0x1.71de3a556c734p-12,  -0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15,  -0x1.255370652afc1p-19,
                       -0x1.f1b22f594c6b5p-20, 0x1.bd6d21e4b4109p-21,  -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
                       0x1.6097d55c37c1cp-27,  -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,  -0x1.e573ac901e574p-10,
                       -0x1.c71c71c71c71cp-9,  0x1.5ac056b015acp-9,    -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13,
                       -0x1.af83440e53dbcp-22, -0x1.2fa4ae89e5afp-16,  0x1.00a9cabd6b83ep-17,  -0x1.b0bdfcc629cbap-20,
                       0x1.3f59230a8357cp-28,  0x1.280f2cde3f847p-23,  -0x1.ee23d0cba8aeep-25, 0x1.9aa7a30de114cp-27,
                       -0x1.349fbca3a377bp-36, -0x1.1564ecff73d58p-30, 0x1.0ee643b990ee6p-8,   -0x1.5f7268edab4c8p-9,
                       0x1.948b0fcd6e9ep-11,   0x1.0db20a88f4696p-19,  -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15,
                       -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,  0x1.7058929663937p-20,  -0x1.522cb05171911p-21,
                       0x1.32ac81c15d3d7p-23,  -0x1.c24bd0e740a6cp-33, -0x1.e437343a46f5dp-27, 0x1.ac0d455e2536p-28,
                       0x1.547d93b34e2b6p-11,  0x1.e13ce465fa859p-13,  -0x1.ebfb188b7cap-12,   0x1.18b9b5bf2d984p-12,
                       -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22, 0x1.73df462204ef4p-17,  -0x1.7cd6f27b3f02p-18,
                       0x1.7e0201539310ep-20,  -0x1.ea23269c140a7p-36, -0x1.6c2dcffbefeefp-23, 0x1.5bde8ef4c4dc7p-24,
                       -0x1.4853ced169327p-26, -0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11,  -0x1.3999a85a4237ap-12,
                       -0x1.88f2ae1def9dp-20,  0x1.16908b48ce058p-14,  -0x1.4ce3fd902bcadp-15, 0x1.7db4c02846e81p-17,
                       0x1.13b3c5b7cb45ep-32,  -0x1.c71c074985d3fp-20, 0x1.de37d9f09164cp-21,  -0x1.ec676cf33153cp-23,
                       -0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12,  -0x1.a2042c5148e27p-13,
                       0x1.1d1e9cb24760bp-14,  0x1.30bdcf208080ep-23,  -0x1.c823fc1b3cc36p-17, 0x1.0d0e229150428p-17,
                       -0x1.338eb19652fd9p-19, 0x1.168ef1b0931c8p-11,  -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12,
                       0x1.a8411da6cab49p-21,  -0x1.5600945495b37p-14, 0x1.d6bdf83130dc1p-15,  -0x1.3382f4cf48618p-16,
                       -0x1.a74243fa27729p-29, 0x1.d115d4f5dcc68p-19,  0x1.691879c01efb4p-12,  0x1.b1d75d3346711p-15,
                       -0x1.5f3385098cebfp-12, 0x1.26eeb5ece1d9fp-12,  -0x1.cc642787368cep-14, -0x1.119c70312e0a2p-23,
                       0x1.d179830b113abp-16,  -0x1.3269164e3e304p-16, -0x1.5629b3187b744p-11, 0x1.b8239c670e69p-11,
                       -0x1.cb967b4446107p-12, -0x1.762676b30cfd6p-21, 0x1.5d1157082916dp-13,  -0x1.0c16fcea7ddb2p-13,
                       -0x1.38dff1cc96982p-11, -0x1.2e31f9b7913eap-14, 0x1.63969bb825829p-11,  -0x1.4f9f2582dd0a5p-11,
                       0x1.22fb20c28e8ap-12,   0x1.5d4ae684527bfp-10,  -0x1.f5dbcaf756cdep-10, 0x1.22b37f1b46951p-10,
                       0x1.9e1dba8ec5904p-10};
FAC_WIDE_TABLE(fac__wide_temme_ends, 12) = {15.0, 30.0, 44.0, 57.0, 68.0, 77.0, 86.0, 94.0, 100.0, 105.0, 108.0, 109.0};

/* The part of P and Q that is not erfc: exp(-a eta^2 / 2) / sqrt(2 pi a) * sum of c_k(eta) a^-k. */
FAC_SCALAR_HELPER double fac__wide_temme_rest(double a, double eta, bool single) {
    double sum = 0;
    for (int k = single ? 5 : 11; k >= 0; k--) {
        const int begin = k > 0 ? (int)fac__wide_temme_ends[k - 1] : 0;
        double c = 0;
        for (int n = (int)fac__wide_temme_ends[k] - 1; n >= begin; n--) c = FAC_MAD(c, eta, fac__wide_temme[n]);
        sum = sum / a + c;
    }
    return exp(-0.5 * a * eta * eta) / sqrt(6.28318530717958647693 * a) * sum;
}
FAC_SCALAR_HELPER bool fac__wide_near_transition(double a, double x) { return a > 20 && fabs(x - a) < 0.3 * a; }
/* P (lower) or Q near x = a, for large a. */
FAC_SCALAR_HELPER double fac__wide_temme_sum(double a, double x, bool lower, bool single) {
    const double eta = fac__wide_temme_eta((x - a) / a), far = eta * sqrt(0.5 * a),
                 rest = fac__wide_temme_rest(a, eta, single);
    return lower ? 0.5 * erfc(-far) - rest : 0.5 * erfc(far) + rest;
}

/* Where an argument is 0 or infinite, or neither is a number that has a value: *found says whether this settles it. */
FAC_SCALAR_HELPER double fac__wide_gamma_edge(double a, double x, bool lower, bool *found) {
    *found = true;
    if (x < 0 || a < 0) return (double)FAC_WIDE_NAN;
    if (a == 0) return x > 0 ? lower : (double)FAC_WIDE_NAN;
    if (x == 0) return !lower;
    if (a > 1.7976931348623157e308) return x > 1.7976931348623157e308 ? (double)FAC_WIDE_NAN : !lower;
    if (x > 1.7976931348623157e308) return lower;
    *found = false;
    return a + x;
}
/* Whether Q is small enough beside 1 that it is not 1 - P. */
FAC_SCALAR_HELPER bool fac__wide_gamma_upper(double a, double x) {
    if (x > 1.1) return x >= a;
    return x <= 0.5 ? -0.4 / log(x) >= a : x * 1.1 >= a;
}
/* Q where x >= a or both are small. */
FAC_SCALAR_HELPER double fac__wide_gamma_q(double a, double x, bool single) {
    return x > 1.1 ? fac__wide_gamma_fraction(a, x, single) : fac__wide_gamma_small(a, x, single);
}
FAC_SCALAR_HELPER double fac__wide_igamma(double a, double x, bool single) {
    bool found;
    const double edge = fac__wide_gamma_edge(a, x, true, &found);
    if (found || edge != edge) return edge;
    if (fac__wide_near_transition(a, x)) return fac__wide_temme_sum(a, x, true, single);
    return x > 1 && x > a ? 1 - fac__wide_gamma_q(a, x, single) : fac__wide_gamma_series(a, x, single);
}
FAC_SCALAR_HELPER double fac__wide_igammac(double a, double x, bool single) {
    bool found;
    const double edge = fac__wide_gamma_edge(a, x, false, &found);
    if (found || edge != edge) return edge;
    if (fac__wide_near_transition(a, x)) return fac__wide_temme_sum(a, x, false, single);
    return fac__wide_gamma_upper(a, x) ? fac__wide_gamma_q(a, x, single) : 1 - fac__wide_gamma_series(a, x, single);
}

#undef FAC_WIDE_EPSILON
