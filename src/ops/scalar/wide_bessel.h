/* Bessel's functions of the first and second kind and Airy's over double, without branches; see wide_error.h. Near zeros other than
   the first of J0 and of J1 the error is relative to the function's size around them. */

/* ---- first and second kind ------------------------------------------------------------------------------------------------------ */

/* J0(x) / (x^2 - r^2) over 2/25 x^2 - 1, x up to 5, where r is J0's first zero. */
FAC_WIDE_FN double fac__wide_j0_small_poly(double t) {
    return FAC_HORNER(t, -0x1.d53e8d99876e7p-5, 0x1.309ab8e4cba18p-4, -0x1.0c8428b928722p-5, 0x1.e362f8d0b5d5fp-8,
                      -0x1.09a87b4aa43bp-10, 0x1.8adf23edac497p-14, -0x1.a8151133adc62p-18, 0x1.58d6c0f7477ddp-22,
                      -0x1.b7a52da46b2c8p-27, 0x1.c36cda1a8e82dp-32, -0x1.7d6d14fc216d8p-37, 0x1.0e2bd35ccb2ffp-42,
                      -0x1.44dbce99a9ae8p-48);
}

/* J1(x) / x / (x^2 - r^2), likewise. */
FAC_WIDE_FN double fac__wide_j1_small_poly(double t) {
    return FAC_HORNER(t, -0x1.041c9423ec767p-6, 0x1.acf566aaededbp-7, -0x1.15e32ff822fa4p-8, 0x1.8bf87b5439004p-11,
                      -0x1.686a2a3c3f229p-14, 0x1.c95360babdc49p-18, -0x1.ac92400b19a6bp-22, 0x1.35278ce236c7p-26,
                      -0x1.623701daa0881p-31, 0x1.4a45b9d07dcf3p-36, -0x1.ff29dfb068a37p-42, 0x1.4df092968c41dp-47,
                      -0x1.74a8fd8887c3cp-53);
}

/* Y0(x) - 2/pi log(x) J0(x), likewise. */
FAC_WIDE_FN double fac__wide_y0_small_poly(double t) {
    return FAC_HORNER(t, 0x1.ef5591b23addcp-2, -0x1.bb0a20bc8fa17p-2, -0x1.e1dec550e2063p-2, 0x1.8dd73e3860a7fp-2,
                      -0x1.c8c5dcec55175p-4, 0x1.20efffecdb2p-6, -0x1.d898823c280f9p-10, 0x1.1084623b52889p-13,
                      -0x1.d4ca0d2405a34p-18, 0x1.38e97d030cbc8p-22, -0x1.4e026d20601c1p-27, 0x1.23cf653ed486ap-32,
                      -0x1.a9b9f9880c2ffp-38, 0x1.06ae24e5e72fcp-43);
}

/* (Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x, likewise. */
FAC_WIDE_FN double fac__wide_y1_small_poly(double t) {
    return FAC_HORNER(t, 0x1.1e34eda905916p-3, 0x1.75172069e41bbp-4, -0x1.4e11f71d95a0fp-3, 0x1.0fc1d2bad4f78p-4,
                      -0x1.b82fcf4b7e778p-7, 0x1.b5777b8435ccbp-10, -0x1.2893671e1f7a1p-13, 0x1.2508be43f04c1p-17,
                      -0x1.b9b6abba6cb87p-22, 0x1.06a94d23eb79dp-26, -0x1.f9eb1c7cdcc71p-32, 0x1.92d2ecc4f2b6fp-37,
                      -0x1.0df75ed5109efp-42, 0x1.343d6300a8432p-48);
}

/* From 5 on J and Y are P and x/5 Q with the phase x - pi/4 (of order 1: x - 3 pi/4), over 50 / x^2 - 1 (DLMF 10.17). */
/* P of order 0. */
FAC_WIDE_FN double fac__wide_p0_poly(double t) {
    return FAC_HORNER(t, 0x1.ff4d0e58750e7p-1, -0x1.5bfe8e449925ap-10, 0x1.24e857e02aa14p-15, -0x1.4a2bb235ba5c6p-19,
                      0x1.3f88eec83e8edp-22, -0x1.b4ebd1af9e79ep-25, 0x1.7bf9a9f9354b5p-27, -0x1.8a87528f88286p-29,
                      0x1.d57e5c282a4bep-31, -0x1.39728e08fd4aep-32, 0x1.c7f23c04cffccp-34, -0x1.38f529aa6485cp-35,
                      0x1.ea98b01aa05ep-37, -0x1.d8732e7f26233p-37, 0x1.eceac98eb3a7ap-38, 0x1.cfaa3b4b3b6ddp-39,
                      -0x1.2947ebdb381a8p-39, -0x1.36927d6125999p-39, 0x1.65e18bba0284bp-40);
}

/* x/5 Q of order 0. */
FAC_WIDE_FN double fac__wide_q0_poly(double t) {
    return FAC_HORNER(t, -0x1.950fbf4834245p-6, 0x1.139c534eb8ba5p-12, -0x1.a9624d5643a6p-17, 0x1.4ef5b7ee1ea8ep-20,
                      -0x1.9426abf8a6421p-23, 0x1.44306f8ba32acp-25, -0x1.3ed8474216b2bp-27, 0x1.6d808d64f1358p-29,
                      -0x1.d81d0cb50f88p-31, 0x1.4f9bbcf38ab94p-32, -0x1.0324727c00fd5p-33, 0x1.aadb0d12f5db3p-35,
                      -0x1.56bfc5f8555dap-36, 0x1.2d674ef98bb91p-37, -0x1.14424192dba38p-37, 0x1.3a1ece8f939d6p-38,
                      0x1.00bb0bf44510ap-38, -0x1.6f90a01ea980dp-39, -0x1.4d348e5726678p-38, 0x1.b8618432bfe31p-39,
                      0x1.3fe99397eec77p-39, -0x1.ace63dffb1f9p-40, -0x1.6413ea7974005p-41, 0x1.d4b5d46547e15p-42);
}

/* P of order 1. */
FAC_WIDE_FN double fac__wide_p1_poly(double t) {
    return FAC_HORNER(t, 0x1.00961eaac1aa9p+0, 0x1.25cb0665de436p-9, -0x1.800dd4110a856p-15, 0x1.8fc8a4526094ep-19,
                      -0x1.743c702920b44p-22, 0x1.f1801ca80f4c8p-25, -0x1.aa2b5a8dc1ff8p-27, 0x1.b5bdd791c7abdp-29,
                      -0x1.0258ca34740a8p-30, 0x1.56aeacee9061cp-32, -0x1.efd929faa9ffep-34, 0x1.540264a96d5d9p-35,
                      -0x1.09d68e9fb6e5fp-36, 0x1.f83ada9e51c69p-37, -0x1.0636dc916e03ep-37, -0x1.e773041a98e62p-39,
                      0x1.38a43dab23279p-39, 0x1.4918b121e34b8p-39, -0x1.7aa5ee294d90cp-40);
}

/* x/5 Q of order 1. */
FAC_WIDE_FN double fac__wide_q1_poly(double t) {
    return FAC_HORNER(t, 0x1.3199b791160d8p-4, -0x1.87165a0a754ecp-12, 0x1.09041cc59c084p-16, -0x1.8bab84b803716p-20,
                      0x1.cfcea73c3c499p-23, -0x1.6d5c1d47cc18cp-25, 0x1.62e0eca3e6461p-27, -0x1.93168ab8b8032p-29,
                      0x1.02851ea49230cp-30, -0x1.6deb9111885cap-32, 0x1.18655ea26826dp-33, -0x1.bde653f3ff538p-35,
                      0x1.7caa2f6453b91p-36, -0x1.e23785332d98ap-37, 0x1.f6d398245b539p-38, 0x1.ac39434232feap-39,
                      -0x1.4d370bbbc1aap-39, -0x1.a82c060b01843p-38, 0x1.11b84a2fccd24p-38, 0x1.99a096756c4a8p-39,
                      -0x1.0ee8fb585ccdbp-39, -0x1.f98ca71480bedp-41, 0x1.469883554fc3ap-41);
}

FAC_WIDE_FN double fac__wide_j0_small(double x) {
    const double factor = ((x - 0x1.33d152e971b4p+1) - -0x1.0f539d7da258ep-53) * (x + 0x1.33d152e971b4p+1);
    return factor * fac__wide_j0_small_poly(FAC_MAD(x * x, 0.08, -1));
}
FAC_WIDE_FN double fac__wide_j1_small(double x) {
    const double factor = ((x - 0x1.ea75575af6f09p+1) - -0x1.60155a9d1b256p-53) * (x + 0x1.ea75575af6f09p+1);
    return x * (factor * fac__wide_j1_small_poly(FAC_MAD(x * x, 0.08, -1)));
}
/* sqrt(2 / (pi x)) (P a + Q b), where a and b are sqrt 2 times the cosine and the sine of the phase, or what takes their places. */
FAC_WIDE_FN double fac__wide_wave(double x, double p, double q, double a, double b) {
    return (p * a + 5 / x * q * b) * 0x1.20dd750429b6dp-1 / sqrt(x);
}
FAC_WIDE_FN double fac__wide_j0(double x) {
    const double size = fabs(x), i = 1 / size, t = FAC_MAD(50 * i, i, -1);
    const double c = FAC_WIDE(cos)(size), s = FAC_WIDE(sin)(size);
    const double large = fac__wide_wave(size, fac__wide_p0_poly(t), fac__wide_q0_poly(t), c + s, c - s),
                 small = fac__wide_j0_small(size);
    return size > 5 ? large : size == 0 ? 1 : small;
}
FAC_WIDE_FN double fac__wide_j1(double x) {
    const double size = fabs(x), i = 1 / size, t = FAC_MAD(50 * i, i, -1);
    const double c = FAC_WIDE(cos)(size), s = FAC_WIDE(sin)(size);
    const double large = fac__wide_wave(size, fac__wide_p1_poly(t), fac__wide_q1_poly(t), s - c, s + c),
                 small = fac__wide_j1_small(size);
    return copysign(1.0, x) * (size > 5 ? large : small);
}
/* Up to 5. */
FAC_WIDE_FN double fac__wide_y0_small(double x) {
    const double ln = 0x1.45f306dc9c883p-1 * FAC_WIDE(log)(x);
    return FAC_MAD(ln, fac__wide_j0_small(x), fac__wide_y0_small_poly(FAC_MAD(x * x, 0.08, -1)));
}
FAC_WIDE_FN double fac__wide_y1_small(double x) {
    const double rest = FAC_WIDE(log)(x) * fac__wide_j1_small(x) - 1 / x;
    const double small = FAC_MAD(0x1.45f306dc9c883p-1, rest, x * fac__wide_y1_small_poly(FAC_MAD(x * x, 0.08, -1)));
    return x == 0 ? -(double)FAC_WIDE_INFINITY : x < 0 ? (double)FAC_WIDE_NAN : small;
}
FAC_WIDE_FN double fac__wide_y0(double x) {
    const double i = 1 / x, t = FAC_MAD(50 * i, i, -1), c = FAC_WIDE(cos)(x), s = FAC_WIDE(sin)(x);
    const double large = fac__wide_wave(x, fac__wide_p0_poly(t), fac__wide_q0_poly(t), s - c, c + s);
    const double small = fac__wide_y0_small(x);
    return x > 5 ? large : small;
}
FAC_WIDE_FN double fac__wide_y1(double x) {
    const double i = 1 / x, t = FAC_MAD(50 * i, i, -1), c = FAC_WIDE(cos)(x), s = FAC_WIDE(sin)(x);
    const double large = fac__wide_wave(x, fac__wide_p1_poly(t), fac__wide_q1_poly(t), -(s + c), s - c);
    const double small = fac__wide_y1_small(x);
    return x > 5 ? large : small;
}
FAC_WIDE_FN double fac__wide_spherical_j0(double x) {
    const double y = FAC_WIDE(sin)(x) / x;
    return x == 0 ? 1 : fabs(x) > 1.7976931348623157e308 ? 0 : y;
}

/* ---- Airy's function ------------------------------------------------------------------------------------------------------------ */

/* exp(z) x^(1/4) Ai(x), z = 2/3 x^(3/2), over 4/3 / z - 1, x from 1. */
FAC_WIDE_FN double fac__wide_ai_right_poly(double t) {
    return FAC_HORNER(t, 0x1.1580bb5a7c7f5p-2, -0x1.1edfc86fcd188p-7, 0x1.a5999ac1dd5bcp-10, -0x1.db10bd022a8fep-12,
                      0x1.4d2df74f055a9p-13, -0x1.0c3681ec9b4e9p-14, 0x1.db9c8a42b93a1p-16, -0x1.c54c1dc9e4a48p-17,
                      0x1.c92fe8de7c97bp-18, -0x1.e2c27ea9b0133p-19, 0x1.08bfb28c55a9bp-19, -0x1.2af5447e1bcecp-20,
                      0x1.5bba1edc49535p-21, -0x1.bf6a4da47ac53p-22, 0x1.16c594e1af908p-22, 0x1.1ffc71a18139cp-25,
                      -0x1.c8324c64b136p-25, -0x1.ddea4df1f52c5p-21, 0x1.7d651144dcf49p-21, 0x1.7e504bb1d92ddp-19,
                      -0x1.35942288781e6p-19, -0x1.fc0059eb76f2bp-18, 0x1.9a896cc13cb09p-18, 0x1.fde445e3027c5p-17,
                      -0x1.9c1899d42b95ap-17, -0x1.880ed55e6db4fp-16, 0x1.3cc3660215b1p-16, 0x1.c8ed7bef4f69dp-16,
                      -0x1.7112f924bb2a9p-16, -0x1.8d148dfc9c67p-16, 0x1.409ea687e5289p-16, 0x1.f2adaab51690cp-17,
                      -0x1.927d304035d67p-17, -0x1.ac1ca040b1dbbp-18, 0x1.595b3e6216a18p-18, 0x1.c25128c850fd6p-20,
                      -0x1.6b09ad7520998p-20, -0x1.b776040dfbab9p-23, 0x1.61f7acf2a952dp-23);
}

/* Ai(x) over (x + 1) / 2, x from -3 to 1. */
FAC_WIDE_FN double fac__wide_ai_middle_poly(double t) {
    return FAC_HORNER(t, 0x1.1235093d83da5p-1, -0x1.4cf103bcc6625p-6, -0x1.1235093d83da5p+0, 0x1.748bbc65f3f01p-1,
                      0x1.5fbcac2a27899p-2, -0x1.25dff9df33e6cp-1, 0x1.2f95f0618239dp-3, 0x1.ebe510ca31808p-4,
                      -0x1.7b39f6c3e1643p-4, 0x1.4116876eafae2p-7, 0x1.e4a0beb3a4f68p-7, -0x1.d0a22d9788093p-8,
                      0x1.318c3ddcdf029p-13, 0x1.ecf3ec402249ep-11, -0x1.4a22039ca130ap-12, -0x1.9eb08e1874b64p-17,
                      0x1.32ecf1ad6c0aep-15, -0x1.309f9b3744604p-17, -0x1.ae336071c7b9fp-21, 0x1.025600017eb2ap-20,
                      -0x1.88865edb5b675p-23, -0x1.a8920325412a3p-26, 0x1.3adfb0d285a4p-26, -0x1.5c4526df2c6ddp-29,
                      -0x1.2741d8a83a28bp-31, 0x1.cb2915ae7a203p-33, -0x1.b87eced5e863bp-37);
}

/* P of Ai(-x) = (P sin(z + pi/4) - Q cos(z + pi/4)) / (sqrt(pi) x^(1/4)) (DLMF 9.7.9), over 2 (z3 / z)^2 - 1, z3 being z at 3. */
FAC_WIDE_FN double fac__wide_ai_left_p_poly(double t) {
    return FAC_HORNER(t, 0x1.ff404d99c373fp-1, -0x1.6c3fa9e32d749p-10, 0x1.0c1617809ed7p-14, -0x1.e9ef62018c3e6p-18,
                      0x1.665fa78d3e005p-20, -0x1.5e7dad712cb1ap-22, 0x1.a1c2865cb59b4p-24, -0x1.1f7a54d80189dp-25,
                      0x1.b9b50b801a6cap-27, -0x1.71ef2d44575b6p-28, 0x1.459f0eb0f0eaap-29, -0x1.3263297f0b99cp-30,
                      0x1.a39c327cde42cp-31, -0x1.e5febd708787ap-32, -0x1.8a7ef2edeaf03p-32, 0x1.4c980ebe957a5p-32,
                      0x1.160eb68ee25eap-30, -0x1.9e7bb0a2e17f2p-31, -0x1.3eb1d6d0c72dcp-30, 0x1.e13cdd75a144bp-31,
                      0x1.00e238dc5bae1p-30, -0x1.81a93c1ebeb0dp-31, -0x1.d380d8912acap-32, 0x1.5ebfcd4862c8ep-32,
                      0x1.91d31afc41fdfp-34, -0x1.2b791c36de24ep-34);
}

/* z / z3 Q, likewise. */
FAC_WIDE_FN double fac__wide_ai_left_q_poly(double t) {
    return FAC_HORNER(t, 0x1.41b674d929111p-6, -0x1.880a4805f929bp-12, 0x1.02ed733d0cb37p-15, -0x1.428bb5d2d1ce3p-18,
                      0x1.2064421196c58p-20, -0x1.45e6466c67d9fp-22, 0x1.b21ac5cc905bcp-24, -0x1.46a9ff0235f1p-25,
                      0x1.0e2b8c07e228cp-26, -0x1.e1b31b1f624bbp-28, 0x1.c8d897d8b34ccp-29, -0x1.d008b906e3135p-30,
                      0x1.e8818fd33f62ep-31, -0x1.540a2d6ed6048p-32, 0x1.2532084471b77p-33, -0x1.c6651faab001fp-31,
                      0x1.5d1b593b90effp-31, 0x1.10590d5dd2568p-29, -0x1.bad1dacceab93p-30, -0x1.342ede75b030ap-28,
                      0x1.f130ef25c69dep-29, 0x1.e929713c59a95p-28, -0x1.8adc7c821f14ap-28, -0x1.1a2c06697ac33p-27,
                      0x1.c72399d2fe8bep-28, 0x1.c8dbf2bbc51a5p-28, -0x1.7038c80a34e74p-28, -0x1.ef3437821869dp-29,
                      0x1.8eb959edc1418p-29, 0x1.42dba6a875569p-30, -0x1.03a62c8ecae63p-30, -0x1.82c9eab4295bdp-33,
                      0x1.3670759950447p-33);
}

FAC_WIDE_FN double fac__wide_airy_ai(double x) {
    const double size = fabs(x), root = sqrt(size), z = 0x1.5555555555555p-1 * size * root, quarter = 1 / sqrt(root),
                 i = 1 / z;
    const double right = quarter * FAC_WIDE(exp)(-z) * fac__wide_ai_right_poly(FAC_MAD(i, 0x1.5555555555555p+0, -1.0));
    const double u = 0x1.bb67ae8584caap+1 * i, t = FAC_MAD(2 * u, u, -1), c = FAC_WIDE(cos)(z), s = FAC_WIDE(sin)(z);
    const double wave = fac__wide_ai_left_p_poly(t) * (s + c) - u * fac__wide_ai_left_q_poly(t) * (c - s);
    const double left = quarter * 0x1.9884533d43652p-2 * wave;
    const double middle = fac__wide_ai_middle_poly(FAC_MAD(x, 0x1p-1, 0x1p-1));
    const double y = x > 1 ? right : x < -3 ? left : middle;
    return x > 1.7976931348623157e308 ? (double)FAC_WIDE_NAN : y;
}
