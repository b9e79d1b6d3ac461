/* Loops over one complex type: a template, included by complex.isa.c once per type after FAC_T, its real type FAC_R, FAC_TD,
   FAC_FN and FAC_C (the C library's name) are defined; it undefines them. */

#define FAC_C1(name, expr)                \
    FAC_LOOP(name) {                      \
        FAC_OPERANDS_1(FAC_T);            \
        for (int64_t i = 0; i < n; i++) { \
            const FAC_T x = a[i];         \
            out[i] = (expr);              \
        }                                 \
    }
#define FAC_C2(name, expr)                  \
    FAC_LOOP(name) {                        \
        FAC_OPERANDS_2(FAC_T);              \
        for (int64_t i = 0; i < n; i++) {   \
            const FAC_T x = a[i], y = b[i]; \
            out[i] = (expr);                \
        }                                   \
    }
/* A test of one or two numbers: the result is a boolean. */
#define FAC_C1_TEST(name, expr)           \
    FAC_LOOP(name) {                      \
        FAC_OPERANDS_1(uint8_t);          \
        for (int64_t i = 0; i < n; i++) { \
            const FAC_T x = a[i];         \
            out[i] = (uint8_t)(expr);     \
        }                                 \
    }
#define FAC_C2_TEST(name, expr)             \
    FAC_LOOP(name) {                        \
        FAC_OPERANDS_2(uint8_t);            \
        for (int64_t i = 0; i < n; i++) {   \
            const FAC_T x = a[i], y = b[i]; \
            out[i] = (uint8_t)(expr);       \
        }                                   \
    }

static inline FAC_T FAC_FN(make)(FAC_R re, FAC_R im) {
    const FAC_R parts[2] = {re, im};
    FAC_T z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static inline FAC_T FAC_FN(sgn)(FAC_T x) {
    FAC_R size = FAC_C(cabs)(x);
    return size == 0 ? 0 : x / size;
}
/* 1 / x; NaN where neither part is finite, as the quotient has no direction. */
static inline FAC_T FAC_FN(reciprocal)(FAC_T x) {
    FAC_R a = FAC_C(creal)(x), b = FAC_C(cimag)(x);
    return isfinite(a) || isfinite(b) ? 1 / x : FAC_FN(make)((FAC_R)NAN, (FAC_R)NAN);
}
/* A product without the C standard's repair of infinities, which stops vectorisation. */
static inline FAC_T FAC_FN(product)(FAC_T x, FAC_T y) {
    FAC_R a = FAC_C(creal)(x), b = FAC_C(cimag)(x), c = FAC_C(creal)(y), d = FAC_C(cimag)(y);
    return FAC_FN(make)(a * c - b * d, a * d + b * c);
}
FAC_LOOP(abs) {
    FAC_OPERANDS_1(FAC_R);
    for (int64_t i = 0; i < n; i++) out[i] = FAC_C(cabs)(a[i]);
}
FAC_LOOP(angle) {
    FAC_OPERANDS_1(FAC_R);
    for (int64_t i = 0; i < n; i++) out[i] = FAC_C(carg)(a[i]);
}
FAC_C1(conj, FAC_C(conj)(x))
FAC_C1(neg, -x)
FAC_C1(sgn, FAC_FN(sgn)(x))
FAC_C1(reciprocal, FAC_FN(reciprocal)(x))
FAC_C1(square, FAC_FN(product)(x, x))
FAC_C1(sqrt, FAC_C(csqrt)(x))
FAC_C1(rsqrt, 1 / FAC_C(csqrt)(x))
FAC_C1(exp, FAC_C(cexp)(x))
FAC_C1(exp2, FAC_C(cexp)(x *(FAC_R)0.69314718055994530942))
FAC_C1(expm1, FAC_C(cexp)(x) - 1)
FAC_C1(log, FAC_C(clog)(x))
FAC_C1(log2, FAC_C(clog)(x) / (FAC_R)0.69314718055994530942)
FAC_C1(log10, FAC_C(clog)(x) / (FAC_R)2.30258509299404568402)
FAC_C1(log1p, FAC_C(clog)(1 + x))
FAC_C1(sin, FAC_C(csin)(x))
FAC_C1(cos, FAC_C(ccos)(x))
FAC_C1(tan, FAC_C(ctan)(x))
FAC_C1(asin, FAC_C(casin)(x))
FAC_C1(acos, FAC_C(cacos)(x))
FAC_C1(atan, FAC_C(catan)(x))
FAC_C1(sinh, FAC_C(csinh)(x))
FAC_C1(cosh, FAC_C(ccosh)(x))
FAC_C1(tanh, FAC_C(ctanh)(x))
FAC_C1(asinh, FAC_C(casinh)(x))
FAC_C1(acosh, FAC_C(cacosh)(x))
FAC_C1(atanh, FAC_C(catanh)(x))
FAC_C1(sigmoid, 1 / (1 + FAC_C(cexp)(-x)))
FAC_C1(silu, x / (1 + FAC_C(cexp)(-x)))
FAC_C1(sinc, x == 0 ? 1 : FAC_C(csin)(x * (FAC_R)3.14159265358979323846) / (x * (FAC_R)3.14159265358979323846))
FAC_C2(add, x + y)
FAC_C2(sub, x - y)
FAC_C2(mul, FAC_FN(product)(x, y))
FAC_C2(div, FAC_FN(quotient)(x, y))
FAC_C2(pow, y == 0 ? 1 : FAC_C(cpow)(x, y))
FAC_C2(sigmoid_backward, x *FAC_C(conj)((1 - y) * y))
FAC_C2(tanh_backward, x *FAC_C(conj)(1 - y * y))
FAC_C2_TEST(eq, x == y)
FAC_C2_TEST(ne, x != y)
FAC_C2_TEST(logical_and, x != 0 && y != 0)
FAC_C2_TEST(logical_or, x != 0 || y != 0)
FAC_C2_TEST(logical_xor, (x != 0) != (y != 0))
FAC_C1_TEST(logical_not, x == 0)
FAC_C1_TEST(isnan, isnan(FAC_C(creal)(x)) || isnan(FAC_C(cimag)(x)))
FAC_C1_TEST(isinf, isinf(FAC_C(creal)(x)) || isinf(FAC_C(cimag)(x)))
FAC_C1_TEST(isfinite, isfinite(FAC_C(creal)(x)) && isfinite(FAC_C(cimag)(x)))

FAC_LOOP(add_alpha) {
    FAC_OPERANDS_2(FAC_T);
    const FAC_T alpha = FAC_FN(make)((FAC_R)args->f[0], (FAC_R)args->f[1]);
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + FAC_FN(product)(alpha, b[i]);
}
FAC_LOOP(addcmul) {
    FAC_OPERANDS_3(FAC_T);
    const FAC_T value = FAC_FN(make)((FAC_R)args->f[0], (FAC_R)args->f[1]);
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + FAC_FN(product)(value, FAC_FN(product)(b[i], c[i]));
}
FAC_LOOP(addcdiv) {
    FAC_OPERANDS_3(FAC_T);
    const FAC_T value = FAC_FN(make)((FAC_R)args->f[0], (FAC_R)args->f[1]);
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + FAC_FN(product)(value, FAC_FN(quotient)(b[i], c[i]));
}
FAC_LOOP(lerp) {
    FAC_OPERANDS_3(FAC_T);
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + FAC_FN(product)(c[i], b[i] - a[i]);
}

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    FAC_INSTALL(abs), FAC_INSTALL(angle), FAC_INSTALL(conj), FAC_INSTALL(neg), FAC_INSTALL(sgn);
    FAC_INSTALL(reciprocal), FAC_INSTALL(square), FAC_INSTALL(sqrt), FAC_INSTALL(rsqrt), FAC_INSTALL(exp);
    FAC_INSTALL(exp2), FAC_INSTALL(expm1), FAC_INSTALL(log), FAC_INSTALL(log2), FAC_INSTALL(log10), FAC_INSTALL(log1p);
    FAC_INSTALL(sin), FAC_INSTALL(cos), FAC_INSTALL(tan), FAC_INSTALL(asin), FAC_INSTALL(acos), FAC_INSTALL(atan);
    FAC_INSTALL(sinh), FAC_INSTALL(cosh), FAC_INSTALL(tanh), FAC_INSTALL(asinh), FAC_INSTALL(acosh);
    FAC_INSTALL(atanh), FAC_INSTALL(sigmoid), FAC_INSTALL(silu), FAC_INSTALL(sinc), FAC_INSTALL(add),
        FAC_INSTALL(add_alpha), FAC_INSTALL(sub);
    FAC_INSTALL(mul), FAC_INSTALL(div), FAC_INSTALL(pow), FAC_INSTALL(sigmoid_backward), FAC_INSTALL(tanh_backward);
    FAC_INSTALL(eq), FAC_INSTALL(ne), FAC_INSTALL(logical_and), FAC_INSTALL(logical_or), FAC_INSTALL(logical_xor);
    FAC_INSTALL(logical_not), FAC_INSTALL(isnan), FAC_INSTALL(isinf), FAC_INSTALL(isfinite);
    FAC_INSTALL(addcmul), FAC_INSTALL(addcdiv), FAC_INSTALL(lerp);
}

#undef FAC_C1
#undef FAC_C2
#undef FAC_C1_TEST
#undef FAC_C2_TEST
#undef FAC_T
#undef FAC_R
#undef FAC_TD
#undef FAC_FN
#undef FAC_C
