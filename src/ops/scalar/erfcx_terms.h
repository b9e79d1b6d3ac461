/* The polynomial of (1 + 2x) erfcx(x), x not negative, over (x - 3) / (x + 3), from the constant term on: what FAC_HORNER takes. */
#ifndef FAC_SRC_OPS_SCALAR_ERFCX_TERMS_H
#define FAC_SRC_OPS_SCALAR_ERFCX_TERMS_H

/* clang-format off */
#define FAC_ERFCX_TERMS \
    0x1.40c522d7e4987p+0, -0x1.15c084bb9e8f3p-3, -0x1.85a15c58aa4eap-5, 0x1.098366a5b46c8p-3, \
    -0x1.e88b803a4a976p-4, 0x1.17ca2877f0d2cp-4, -0x1.8574c40b65516p-6, 0x1.4b884e44cd0e1p-9, \
    0x1.ef1bdd0bb2a66p-10, -0x1.98db513818f4ap-11, -0x1.b91262a99168ap-14, 0x1.065a3be611552p-13, \
    0x1.4c225639c5885p-18, -0x1.513c1a4a08a45p-16, -0x1.885831a7de85p-21, 0x1.d21dfa3539366p-19, \
    0x1.7df1f4db22675p-22, -0x1.4b68ad1b45d14p-21, -0x1.2d90f5a1e329cp-23, 0x1.b853b0903e576p-24, \
    0x1.60759b5fc132ap-25, -0x1.d8431ba5bb8ddp-27, -0x1.19ee783a4b3bdp-27, 0x1.3a555a247e121p-30, \
    0x1.cc52dfb8af559p-31, -0x1.bb7a8d4dea67ep-36
/* clang-format on */

#endif
