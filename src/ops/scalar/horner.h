/* Polynomials by Horner's rule, each step fused where the machine has it: FAC_HORNER(x, c0, c1, ...) is c0 + x (c1 + x (...)), of up
   to 40 coefficients, written out so that loops over it vectorise. FAC_MAD(a, b, c), a b + c over double, is the includer's. */
#ifndef FAC_SRC_OPS_SCALAR_HORNER_H
#define FAC_SRC_OPS_SCALAR_HORNER_H

/* clang-format off */
#define FAC_HORNER(x, ...) FAC_HORNER_NAME_(FAC_HORNER_COUNT_(__VA_ARGS__, \
    40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, \
    10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))(x, __VA_ARGS__)
#define FAC_HORNER_COUNT_(\
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, \
    a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, n, ...) n
#define FAC_HORNER_NAME_(n) FAC_HORNER_NAME__(n)
#define FAC_HORNER_NAME__(n) FAC_HORNER_##n
#define FAC_HORNER_1(x, c) (c)
#define FAC_HORNER_2(x, c, ...) FAC_MAD(FAC_HORNER_1(x, __VA_ARGS__), x, c)
#define FAC_HORNER_3(x, c, ...) FAC_MAD(FAC_HORNER_2(x, __VA_ARGS__), x, c)
#define FAC_HORNER_4(x, c, ...) FAC_MAD(FAC_HORNER_3(x, __VA_ARGS__), x, c)
#define FAC_HORNER_5(x, c, ...) FAC_MAD(FAC_HORNER_4(x, __VA_ARGS__), x, c)
#define FAC_HORNER_6(x, c, ...) FAC_MAD(FAC_HORNER_5(x, __VA_ARGS__), x, c)
#define FAC_HORNER_7(x, c, ...) FAC_MAD(FAC_HORNER_6(x, __VA_ARGS__), x, c)
#define FAC_HORNER_8(x, c, ...) FAC_MAD(FAC_HORNER_7(x, __VA_ARGS__), x, c)
#define FAC_HORNER_9(x, c, ...) FAC_MAD(FAC_HORNER_8(x, __VA_ARGS__), x, c)
#define FAC_HORNER_10(x, c, ...) FAC_MAD(FAC_HORNER_9(x, __VA_ARGS__), x, c)
#define FAC_HORNER_11(x, c, ...) FAC_MAD(FAC_HORNER_10(x, __VA_ARGS__), x, c)
#define FAC_HORNER_12(x, c, ...) FAC_MAD(FAC_HORNER_11(x, __VA_ARGS__), x, c)
#define FAC_HORNER_13(x, c, ...) FAC_MAD(FAC_HORNER_12(x, __VA_ARGS__), x, c)
#define FAC_HORNER_14(x, c, ...) FAC_MAD(FAC_HORNER_13(x, __VA_ARGS__), x, c)
#define FAC_HORNER_15(x, c, ...) FAC_MAD(FAC_HORNER_14(x, __VA_ARGS__), x, c)
#define FAC_HORNER_16(x, c, ...) FAC_MAD(FAC_HORNER_15(x, __VA_ARGS__), x, c)
#define FAC_HORNER_17(x, c, ...) FAC_MAD(FAC_HORNER_16(x, __VA_ARGS__), x, c)
#define FAC_HORNER_18(x, c, ...) FAC_MAD(FAC_HORNER_17(x, __VA_ARGS__), x, c)
#define FAC_HORNER_19(x, c, ...) FAC_MAD(FAC_HORNER_18(x, __VA_ARGS__), x, c)
#define FAC_HORNER_20(x, c, ...) FAC_MAD(FAC_HORNER_19(x, __VA_ARGS__), x, c)
#define FAC_HORNER_21(x, c, ...) FAC_MAD(FAC_HORNER_20(x, __VA_ARGS__), x, c)
#define FAC_HORNER_22(x, c, ...) FAC_MAD(FAC_HORNER_21(x, __VA_ARGS__), x, c)
#define FAC_HORNER_23(x, c, ...) FAC_MAD(FAC_HORNER_22(x, __VA_ARGS__), x, c)
#define FAC_HORNER_24(x, c, ...) FAC_MAD(FAC_HORNER_23(x, __VA_ARGS__), x, c)
#define FAC_HORNER_25(x, c, ...) FAC_MAD(FAC_HORNER_24(x, __VA_ARGS__), x, c)
#define FAC_HORNER_26(x, c, ...) FAC_MAD(FAC_HORNER_25(x, __VA_ARGS__), x, c)
#define FAC_HORNER_27(x, c, ...) FAC_MAD(FAC_HORNER_26(x, __VA_ARGS__), x, c)
#define FAC_HORNER_28(x, c, ...) FAC_MAD(FAC_HORNER_27(x, __VA_ARGS__), x, c)
#define FAC_HORNER_29(x, c, ...) FAC_MAD(FAC_HORNER_28(x, __VA_ARGS__), x, c)
#define FAC_HORNER_30(x, c, ...) FAC_MAD(FAC_HORNER_29(x, __VA_ARGS__), x, c)
#define FAC_HORNER_31(x, c, ...) FAC_MAD(FAC_HORNER_30(x, __VA_ARGS__), x, c)
#define FAC_HORNER_32(x, c, ...) FAC_MAD(FAC_HORNER_31(x, __VA_ARGS__), x, c)
#define FAC_HORNER_33(x, c, ...) FAC_MAD(FAC_HORNER_32(x, __VA_ARGS__), x, c)
#define FAC_HORNER_34(x, c, ...) FAC_MAD(FAC_HORNER_33(x, __VA_ARGS__), x, c)
#define FAC_HORNER_35(x, c, ...) FAC_MAD(FAC_HORNER_34(x, __VA_ARGS__), x, c)
#define FAC_HORNER_36(x, c, ...) FAC_MAD(FAC_HORNER_35(x, __VA_ARGS__), x, c)
#define FAC_HORNER_37(x, c, ...) FAC_MAD(FAC_HORNER_36(x, __VA_ARGS__), x, c)
#define FAC_HORNER_38(x, c, ...) FAC_MAD(FAC_HORNER_37(x, __VA_ARGS__), x, c)
#define FAC_HORNER_39(x, c, ...) FAC_MAD(FAC_HORNER_38(x, __VA_ARGS__), x, c)
#define FAC_HORNER_40(x, c, ...) FAC_MAD(FAC_HORNER_39(x, __VA_ARGS__), x, c)
/* clang-format on */

#endif
