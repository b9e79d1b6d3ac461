/* Bessel's functions and Airy's over double, without branches; see wide_error.h. Near a zero other than those named the error is
   relative to the function's size around it. */

/* ---- modified, first kind ------------------------------------------------------------------------------------------------------ */

/* (I0(x) - 1) / x^2 over x^2 in [0, 64]. */
FAC_WIDE_FN double fac__wide_i0_small_poly(double t) {
    return FAC_HORNER(t, 0x1p-2, 0x1p-6, 0x1.c71c71c71c718p-12, 0x1.c71c71c71c7c2p-18, 0x1.23456789ab17bp-24,
                      0x1.02e85c08a7dfcp-31, 0x1.522a43f4ad0f5p-39, 0x1.522a441639e1cp-47, 0x1.0b3130d34d86p-55,
                      0x1.5601aa949484bp-64, 0x1.69c8a8327233ep-73, 0x1.41ac98bb3887bp-82, 0x1.e5e1e29c5a679p-92,
                      0x1.44f6f6b62cb2ep-101, 0x1.3958326cb099fp-111, 0x1.192af56e3fb42p-120);
}

/* (I1(x) / x - 1/2) / x^2 over x^2 in [0, 64]. */
FAC_WIDE_FN double fac__wide_i1_small_poly(double t) {
    return FAC_HORNER(t, 0x1p-4, 0x1.5555555555554p-9, 0x1.c71c71c71c75dp-15, 0x1.6c16c16c164acp-21,
                      0x1.845c8a0cf35b3p-28, 0x1.27e4fb76812bfp-35, 0x1.522a440f55384p-43, 0x1.2c97573d1a3e7p-51,
                      0x1.ab8210355a0f4p-60, 0x1.f1742082aee8fp-69, 0x1.e2811d44a152bp-78, 0x1.8ad126c06d494p-87,
                      0x1.1c36d151fe25ep-96, 0x1.2645a1df6278ep-106, 0x1.18be74abc7634p-115);
}

/* exp(-x) sqrt(x) I0(x) over 16 / x - 1, x from 8. */
FAC_WIDE_FN double fac__wide_i0_large_poly(double t) {
    return FAC_HORNER(t, 0x1.9bd428ad249a5p-2, 0x1.b87969bb93b75p-9, 0x1.1daa72b5e650cp-13, 0x1.75e5ee71edd14p-17,
                      0x1.8e513a1d5e52bp-20, 0x1.3f49a6bcfc2d9p-22, 0x1.7d0f75812d9bcp-24, 0x1.51ced7b713adcp-25,
                      0x1.7224b1828e507p-26, 0x1.03896efb09a41p-27, -0x1.ce768f00b5374p-28, -0x1.cc90f59ec1228p-27,
                      -0x1.77cc956faaa2fp-28, 0x1.0317d4c7b215ap-27, 0x1.047454ffcb608p-27, -0x1.df1549cddfaf8p-29,
                      -0x1.a9411c5b0ad08p-28, 0x1.9bbbfe31d81e9p-30, 0x1.0ab5ef575d285p-28, -0x1.31c908a5dd531p-31,
                      -0x1.e8fd992032bedp-30, 0x1.42a55974d41b8p-33, 0x1.1ce14787c5bdep-31, -0x1.52109c25bd9ecp-36,
                      -0x1.36e52c10032d7p-34);
}

/* exp(-x) sqrt(x) I1(x), likewise. */
FAC_WIDE_FN double fac__wide_i1_large_poly(double t) {
    return FAC_HORNER(t, 0x1.8ebe783a8403p-2, -0x1.3f796198ee63fp-7, -0x1.cbc54df1e894cp-13, -0x1.f89c230446f74p-17,
                      -0x1.ec8e107bd7eaap-20, -0x1.7613865ea6e9ap-22, -0x1.ad8d43e5d60bep-24, -0x1.727702ec186d3p-25,
                      -0x1.9191ff33370adp-26, -0x1.21f47a4eb566bp-27, 0x1.ceff3cea7c3a4p-28, 0x1.e413f0678e137p-27,
                      0x1.99d190fe908dap-28, -0x1.0c96c7afcb02cp-27, -0x1.0e2bb88351649p-27, 0x1.05656ba38c1b6p-28,
                      0x1.aa440cf09ce3p-28, -0x1.11c9f66d690fcp-29, -0x1.01ef463d9c576p-28, 0x1.268bd450a314cp-30,
                      0x1.c7aed1ee533f7p-30, -0x1.07d06c81c1d24p-31, -0x1.fff33f3b3e75ap-32, 0x1.37bea5c8dbcccp-33,
                      0x1.0ddc7620a9205p-34, -0x1.5a29b473f1663p-36);
}

/* e is exp(x / 2), or 1 for the functions scaled by exp(-x), s what those up to 8 are scaled by: 1, or exp(-x). */
FAC_WIDE_FN double fac__wide_i0_of(double size, double e, double s) {
    const double square = size * size, small = s * FAC_MAD(square, fac__wide_i0_small_poly(square), 1);
    const double large = fac__wide_i0_large_poly(FAC_MAD(16, 1 / size, -1)) / sqrt(size) * e * e;
    return size > 8 ? large : small;
}
FAC_WIDE_FN double fac__wide_i1_of(double size, double e, double s) {
    const double square = size * size, small = s * (size * FAC_MAD(square, fac__wide_i1_small_poly(square), 0.5));
    const double large = fac__wide_i1_large_poly(FAC_MAD(16, 1 / size, -1)) / sqrt(size) * e * e;
    return size > 8 ? large : small;
}
FAC_WIDE_FN double fac__wide_i0(double x) { return fac__wide_i0_of(fabs(x), FAC_WIDE(exp)(0.5 * fabs(x)), 1); }
FAC_WIDE_FN double fac__wide_i1(double x) {
    return copysign(fac__wide_i1_of(fabs(x), FAC_WIDE(exp)(0.5 * fabs(x)), 1), x);
}
FAC_WIDE_FN double fac__wide_i0e(double x) { return fac__wide_i0_of(fabs(x), 1, FAC_WIDE(exp)(-fabs(x))); }
FAC_WIDE_FN double fac__wide_i1e(double x) { return copysign(fac__wide_i1_of(fabs(x), 1, FAC_WIDE(exp)(-fabs(x))), x); }

/* For an x of single precision, to 2^-31. */
FAC_WIDE_FN double fac__wide_i1_single_poly(double t) {
    return FAC_HORNER(t, 0x1.fffffffcdbf5ap-5, 0x1.555555f24c2a6p-9, 0x1.c71c5d97ce0eep-15, 0x1.6c17c29bef8ddp-21,
                      0x1.844f92b6c3621p-28, 0x1.2844bfde2a183p-35, 0x1.4ed1cc4a32afep-43, 0x1.3eefbeec93e88p-51,
                      0x1.3428d878ab53dp-60, 0x1.c5bf5fdb46575p-68);
}
FAC_WIDE_FN double fac__wide_i1_single_large_poly(double t) {
    return FAC_HORNER(t, 0x1.8ebe783b59c09p-2, -0x1.3f7961b35d006p-7, -0x1.cbc62cce289f4p-13, -0x1.f88f405d331bp-17,
                      -0x1.e9e58599225d8p-20, -0x1.7cfc0d8e4b86fp-22, -0x1.08893a744e8a6p-23, -0x1.452e4764e49e5p-25);
}
FAC_WIDE_FN double fac__wide_i1e_single(double x) {
    const double size = fabs(x), square = size * size;
    const double small = FAC_WIDE(exp)(-size) * (size * FAC_MAD(square, fac__wide_i1_single_poly(square), 0.5));
    const double large = fac__wide_i1_single_large_poly(FAC_MAD(16, 1 / size, -1)) / sqrt(size);
    return copysign(size > 8 ? large : small, x);
}

/* ---- modified, second kind ------------------------------------------------------------------------------------------------------ */

/* (I0(x) - 1) / x^2 over x^2 in [0, 1]. */
FAC_WIDE_FN double fac__wide_i0_unit_poly(double t) {
    return FAC_HORNER(t, 0x1p-2, 0x1.fffffffffffbfp-7, 0x1.c71c71c7249f2p-12, 0x1.c71c71bad96c7p-18,
                      0x1.2345704a901d8p-24, 0x1.02e1f2645736cp-31, 0x1.56d1a37cbc97p-39);
}

/* (I1(x) / x - 1/2) / x^2, likewise. */
FAC_WIDE_FN double fac__wide_i1_unit_poly(double t) {
    return FAC_HORNER(t, 0x1p-4, 0x1.5555555555547p-9, 0x1.c71c71c720133p-15, 0x1.6c16c166a511bp-21,
                      0x1.845c91d2dd081p-28, 0x1.27df497fbe0f4p-35, 0x1.564c918b6d40cp-43);
}

/* K0(x) + log(x) I0(x) over 2 x^2 - 1, x up to 1. */
FAC_WIDE_FN double fac__wide_k0_small_poly(double t) {
    return FAC_HORNER(t, 0x1.0c2047108e956p-2, 0x1.3830d94ea686dp-3, 0x1.b2d72c6a79dedp-8, 0x1.cb6b8d18ee4c4p-14,
                      0x1.0120e8a956b1ep-20, 0x1.6546fbabbe4b3p-28, 0x1.527ba0ac06586p-36, 0x1.d18d9ed13c7bcp-45,
                      0x1.e61b679067c7fp-54);
}

/* (K1(x) - log(x) I1(x) - 1/x) / x, likewise. */
FAC_WIDE_FN double fac__wide_k1_small_poly(double t) {
    return FAC_HORNER(t, -0x1.684507a99024ap-2, -0x1.710ab17f0d2b8p-5, -0x1.3b728099ba46fp-10, -0x1.e53d2237dc1eap-17,
                      -0x1.ac12dc43dea1ep-24, -0x1.eb4b13e9a0b0fp-32, -0x1.8ca57959db8adp-40, -0x1.db688ccb14ac9p-49);
}

/* exp(x) sqrt(x) K0(x) over 2 / x - 1, x from 1. */
FAC_WIDE_FN double fac__wide_k0_large_poly(double t) {
    return FAC_HORNER(t, 0x1.30ae2423de262p+0, -0x1.ac450893fa53fp-5, 0x1.085a24b1d994fp-7, -0x1.f446a7e2795fbp-10,
                      0x1.2a7215a205657p-11, -0x1.9db9cc1c7b2cfp-13, 0x1.3f1d21f9855eep-14, -0x1.0ae1c41ae0649p-15,
                      0x1.dbdb2e98bb69dp-17, -0x1.bee18f1e3146ap-18, 0x1.b650e04faa95ap-19, -0x1.beee2277be14bp-20,
                      0x1.d5f587f3c8afp-21, -0x1.e76b93302a891p-22, 0x1.0a533af44a1cep-22, -0x1.df1a6eb7be4b4p-23,
                      0x1.2f0307b6359c4p-23, 0x1.7f5bc9ac732d3p-23, -0x1.2b4c795423db2p-23, -0x1.196b7b5d284f4p-21,
                      0x1.9e2efb6d589fap-22, 0x1.b2dbfd4256ea1p-21, -0x1.42280893ca314p-21, -0x1.00c12c560dc78p-20,
                      0x1.7b92a75d8e24fp-21, 0x1.a5277fed392f2p-21, -0x1.373f3eb71e659p-21, -0x1.d34335f390714p-22,
                      0x1.58e450650d95cp-22, 0x1.38aaa473a94d6p-23, -0x1.cd0e044b673b6p-24, -0x1.884f8147af48fp-26,
                      0x1.207dbefb884a3p-26);
}

/* exp(x) sqrt(x) K1(x), likewise. */
FAC_WIDE_FN double fac__wide_k1_large_poly(double t) {
    return FAC_HORNER(t, 0x1.7628990a85c65p+0, 0x1.80fb15bf9d15cp-3, -0x1.03bbb0fa2f773p-6, 0x1.97e59d8926171p-9,
                      -0x1.bab479ac9a431p-11, 0x1.21729ca7b243p-12, -0x1.acf5ac5c56c84p-14, 0x1.5c524bc57cd8p-15,
                      -0x1.2f8c05bb0e918p-16, 0x1.17ee775dfd865p-17, -0x1.0e80a48308e04p-18, 0x1.10565b340eceap-19,
                      -0x1.1b5163793d539p-20, 0x1.24453521c07f3p-21, -0x1.3d2001d31102dp-22, 0x1.128910ff3d008p-22,
                      -0x1.5824589ed4655p-23, -0x1.97c3b2ece20c3p-23, 0x1.3fce9ef0e5c6p-23, 0x1.3222d36aa3a5ap-21,
                      -0x1.c1d57f3c726a9p-22, -0x1.d7ea1717c7bbcp-21, 0x1.5d3a0650a73f4p-21, 0x1.16d783afbb71dp-20,
                      -0x1.9bbaa0eef6ebap-21, -0x1.c9668ddfc23cbp-21, 0x1.51a263818bf55p-21, 0x1.fbac18916bf1ap-22,
                      -0x1.764408d6377ecp-22, -0x1.53d17674a6cb7p-23, 0x1.f47b730670fbbp-24, 0x1.aab88fb0e6dep-26,
                      -0x1.3965fb36bcc16p-26);
}

/* e is exp(-x), or 1 for the functions scaled by exp(x), s what those up to 1 are scaled by: 1, or exp(x). */
FAC_WIDE_FN double fac__wide_k0_of(double x, double e, double s) {
    const double square = x * x, i0 = FAC_MAD(square, fac__wide_i0_unit_poly(square), 1);
    const double small = fac__wide_k0_small_poly(FAC_MAD(2, square, -1)) - FAC_WIDE(log)(x) * i0;
    const double large = fac__wide_k0_large_poly(FAC_MAD(2, 1 / x, -1)) / sqrt(x) * e;
    return x > 1 ? large : s * small;
}
FAC_WIDE_FN double fac__wide_k1_of(double x, double e, double s) {
    const double square = x * x, i1 = FAC_MAD(square, fac__wide_i1_unit_poly(square), 0.5);
    const double rest = x * FAC_MAD(FAC_WIDE(log)(x), i1, fac__wide_k1_small_poly(FAC_MAD(2, square, -1)));
    const double large = fac__wide_k1_large_poly(FAC_MAD(2, 1 / x, -1)) / sqrt(x) * e;
    const double small = x == 0 ? (double)FAC_WIDE_INFINITY : s * (1 / x + rest);
    return x > 1 ? large : small;
}
FAC_WIDE_FN double fac__wide_k0(double x) { return fac__wide_k0_of(x, FAC_WIDE(exp)(-x), 1); }
FAC_WIDE_FN double fac__wide_k1(double x) { return fac__wide_k1_of(x, FAC_WIDE(exp)(-x), 1); }
FAC_WIDE_FN double fac__wide_k0e(double x) { return fac__wide_k0_of(x, 1, FAC_WIDE(exp)(x)); }
FAC_WIDE_FN double fac__wide_k1e(double x) { return fac__wide_k1_of(x, 1, FAC_WIDE(exp)(x)); }
