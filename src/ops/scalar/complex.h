/* Formulas over complex numbers, by the compiler's complex arithmetic and the C library's functions; see README.md. */

FAC_SCALAR_HELPER FAC_T FAC_FN(make)(FAC_R re, FAC_R im) {
    const FAC_R parts[2] = {re, im};
    FAC_T z;
    memcpy(&z, parts, sizeof z);
    return z;
}
/* A product without the C standard's repair of infinities, which stops vectorisation. */
FAC_SCALAR_HELPER FAC_T FAC_FN(product)(FAC_T x, FAC_T y) {
    FAC_R a = FAC_C(creal)(x), b = FAC_C(cimag)(x), c = FAC_C(creal)(y), d = FAC_C(cimag)(y);
    return FAC_FN(make)(a * c - b * d, a * d + b * c);
}

FAC_SCALAR_FN FAC_R FAC_FN(abs)(FAC_T x) { return FAC_C(cabs)(x); }
FAC_SCALAR_FN FAC_R FAC_FN(angle)(FAC_T x) { return FAC_C(carg)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(conj)(FAC_T x) { return FAC_C(conj)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(neg)(FAC_T x) { return -x; }
FAC_SCALAR_FN FAC_T FAC_FN(sgn)(FAC_T x) {
    FAC_R size = FAC_C(cabs)(x);
    return size == 0 ? 0 : x / size;
}
/* NaN where neither part is finite, as the quotient has no direction. */
FAC_SCALAR_FN FAC_T FAC_FN(reciprocal)(FAC_T x) {
    FAC_R a = FAC_C(creal)(x), b = FAC_C(cimag)(x);
    return isfinite(a) || isfinite(b) ? 1 / x : FAC_FN(make)((FAC_R)NAN, (FAC_R)NAN);
}
FAC_SCALAR_FN FAC_T FAC_FN(square)(FAC_T x) { return FAC_FN(product)(x, x); }
FAC_SCALAR_FN FAC_T FAC_FN(sqrt)(FAC_T x) { return FAC_C(csqrt)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(rsqrt)(FAC_T x) { return 1 / FAC_C(csqrt)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(exp)(FAC_T x) { return FAC_C(cexp)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(exp2)(FAC_T x) { return FAC_C(cexp)(x * (FAC_R)0.69314718055994530942); }
FAC_SCALAR_FN FAC_T FAC_FN(expm1)(FAC_T x) { return FAC_C(cexp)(x) - 1; }
FAC_SCALAR_FN FAC_T FAC_FN(log)(FAC_T x) { return FAC_C(clog)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(log2)(FAC_T x) { return FAC_C(clog)(x) / (FAC_R)0.69314718055994530942; }
FAC_SCALAR_FN FAC_T FAC_FN(log10)(FAC_T x) { return FAC_C(clog)(x) / (FAC_R)2.30258509299404568402; }
FAC_SCALAR_FN FAC_T FAC_FN(log1p)(FAC_T x) { return FAC_C(clog)(1 + x); }
FAC_SCALAR_FN FAC_T FAC_FN(sin)(FAC_T x) { return FAC_C(csin)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(cos)(FAC_T x) { return FAC_C(ccos)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(tan)(FAC_T x) { return FAC_C(ctan)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(asin)(FAC_T x) { return FAC_C(casin)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(acos)(FAC_T x) { return FAC_C(cacos)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(atan)(FAC_T x) { return FAC_C(catan)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(sinh)(FAC_T x) { return FAC_C(csinh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(cosh)(FAC_T x) { return FAC_C(ccosh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(tanh)(FAC_T x) { return FAC_C(ctanh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(asinh)(FAC_T x) { return FAC_C(casinh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(acosh)(FAC_T x) { return FAC_C(cacosh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(atanh)(FAC_T x) { return FAC_C(catanh)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(sigmoid)(FAC_T x) { return 1 / (1 + FAC_C(cexp)(-x)); }
FAC_SCALAR_FN FAC_T FAC_FN(silu)(FAC_T x) { return x / (1 + FAC_C(cexp)(-x)); }
FAC_SCALAR_FN FAC_T FAC_FN(sinc)(FAC_T x) {
    FAC_T y = x * (FAC_R)3.14159265358979323846;
    return x == 0 ? 1 : FAC_C(csin)(y) / y;
}

FAC_SCALAR_FN FAC_T FAC_FN(add)(FAC_T x, FAC_T y) { return x + y; }
FAC_SCALAR_FN FAC_T FAC_FN(add_alpha)(FAC_T x, FAC_T y, FAC_NUMBER alpha) { return x + FAC_FN(product)(alpha, y); }
FAC_SCALAR_FN FAC_T FAC_FN(sub)(FAC_T x, FAC_T y) { return x - y; }
FAC_SCALAR_FN FAC_T FAC_FN(mul)(FAC_T x, FAC_T y) { return FAC_FN(product)(x, y); }
FAC_SCALAR_FN FAC_T FAC_FN(div)(FAC_T x, FAC_T y) { return FAC_FN(quotient)(x, y); }
FAC_SCALAR_FN FAC_T FAC_FN(pow)(FAC_T x, FAC_T y) { return y == 0 ? 1 : FAC_C(cpow)(x, y); }
FAC_SCALAR_FN FAC_T FAC_FN(sigmoid_backward)(FAC_T g, FAC_T y) { return g * FAC_C(conj)((1 - y) * y); }
FAC_SCALAR_FN FAC_T FAC_FN(tanh_backward)(FAC_T g, FAC_T y) { return g * FAC_C(conj)(1 - y * y); }
FAC_SCALAR_FN FAC_T FAC_FN(lerp)(FAC_T a, FAC_T b, FAC_T w) { return a + FAC_FN(product)(w, b - a); }
FAC_SCALAR_FN FAC_T FAC_FN(addcmul)(FAC_T x, FAC_T a, FAC_T b, FAC_NUMBER value) {
    return x + FAC_FN(product)(value, FAC_FN(product)(a, b));
}
FAC_SCALAR_FN FAC_T FAC_FN(addcdiv)(FAC_T x, FAC_T a, FAC_T b, FAC_NUMBER value) {
    return x + FAC_FN(product)(value, FAC_FN(quotient)(a, b));
}

FAC_SCALAR_FN bool FAC_FN(eq)(FAC_T x, FAC_T y) { return x == y; }
FAC_SCALAR_FN bool FAC_FN(ne)(FAC_T x, FAC_T y) { return x != y; }
FAC_SCALAR_FN bool FAC_FN(logical_and)(FAC_T x, FAC_T y) { return x != 0 && y != 0; }
FAC_SCALAR_FN bool FAC_FN(logical_or)(FAC_T x, FAC_T y) { return x != 0 || y != 0; }
FAC_SCALAR_FN bool FAC_FN(logical_xor)(FAC_T x, FAC_T y) { return (x != 0) != (y != 0); }
FAC_SCALAR_FN bool FAC_FN(logical_not)(FAC_T x) { return x == 0; }
FAC_SCALAR_FN bool FAC_FN(isnan)(FAC_T x) { return isnan(FAC_C(creal)(x)) || isnan(FAC_C(cimag)(x)); }
FAC_SCALAR_FN bool FAC_FN(isinf)(FAC_T x) { return isinf(FAC_C(creal)(x)) || isinf(FAC_C(cimag)(x)); }
FAC_SCALAR_FN bool FAC_FN(isfinite)(FAC_T x) { return isfinite(FAC_C(creal)(x)) && isfinite(FAC_C(cimag)(x)); }
