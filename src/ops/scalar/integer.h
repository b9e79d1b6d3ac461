/* Formulas over integers; see README.md. Results wrap. */

FAC_SCALAR_FN FAC_T FAC_FN(neg)(FAC_T x) { return (FAC_T)(0 - (FAC_UT)x); }
FAC_SCALAR_FN FAC_T FAC_FN(abs)(FAC_T x) { return FAC_NEGATIVE(x) ? FAC_FN(neg)(x) : x; }
FAC_SCALAR_FN FAC_T FAC_FN(sign)(FAC_T x) { return (FAC_T)((x > 0) - FAC_NEGATIVE(x)); }
FAC_SCALAR_FN FAC_T FAC_FN(sgn)(FAC_T x) { return FAC_FN(sign)(x); }
FAC_SCALAR_FN FAC_SAME FAC_FN(ceil)(FAC_T x) { return x; }
FAC_SCALAR_FN FAC_SAME FAC_FN(floor)(FAC_T x) { return x; }
FAC_SCALAR_FN FAC_SAME FAC_FN(round)(FAC_T x) { return x; }
FAC_SCALAR_FN FAC_SAME FAC_FN(trunc)(FAC_T x) { return x; }
FAC_SCALAR_FN FAC_T FAC_FN(frac)(FAC_T x) { return (void)x, (FAC_T)0; }
FAC_SCALAR_FN FAC_SAME FAC_FN(conj)(FAC_T x) { return x; }
FAC_SCALAR_FN bool FAC_FN(signbit)(FAC_T x) { return FAC_NEGATIVE(x); }
FAC_SCALAR_FN FAC_T FAC_FN(relu)(FAC_T x) { return x > 0 ? x : 0; }
FAC_SCALAR_FN FAC_T FAC_FN(square)(FAC_T x) { return (FAC_T)((FAC_UT)x * (FAC_UT)x); }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_not)(FAC_T x) { return (FAC_T)~x; }

FAC_SCALAR_FN FAC_T FAC_FN(add)(FAC_T a, FAC_T b) { return (FAC_T)((FAC_UT)a + (FAC_UT)b); }
FAC_SCALAR_FN FAC_T FAC_FN(sub)(FAC_T a, FAC_T b) { return (FAC_T)((FAC_UT)a - (FAC_UT)b); }
FAC_SCALAR_FN FAC_T FAC_FN(mul)(FAC_T a, FAC_T b) { return (FAC_T)((FAC_UT)a * (FAC_UT)b); }
FAC_SCALAR_FN FAC_T FAC_FN(add_alpha)(FAC_T a, FAC_T b, FAC_NUMBER alpha) {
    return (FAC_T)((FAC_UT)a + (FAC_UT)alpha * (FAC_UT)b);
}
/* The divisions take b != 0. The least integer divided by -1 wraps to itself. */
FAC_SCALAR_FN FAC_T FAC_FN(div_trunc)(FAC_T a, FAC_DIVISOR b) {
    return (FAC_T)(FAC_NEGATIVE(b) && b == (FAC_T)-1 ? FAC_FN(neg)(a) : a / b);
}
FAC_SCALAR_FN FAC_T FAC_FN(fmod)(FAC_T a, FAC_DIVISOR b) {
    return (FAC_T)(FAC_NEGATIVE(b) && b == (FAC_T)-1 ? 0 : a % b);
}
FAC_SCALAR_FN FAC_T FAC_FN(remainder)(FAC_T a, FAC_DIVISOR b) {
    const FAC_T m = FAC_FN(fmod)(a, b);
    const bool apart = (m != 0) & (FAC_NEGATIVE(m) != FAC_NEGATIVE(b)); /* a branch would be taken at random */
    return (FAC_T)((FAC_UT)m + (FAC_UT)b * apart);
}
FAC_SCALAR_FN FAC_T FAC_FN(div_floor)(FAC_T a, FAC_DIVISOR b) {
    const FAC_T q = FAC_FN(div_trunc)(a, b), m = (FAC_T)((FAC_UT)a - (FAC_UT)q * (FAC_UT)b);
    return (FAC_T)((FAC_UT)q - ((m != 0) & (FAC_NEGATIVE(m) != FAC_NEGATIVE(b))));
}
/* By squaring. A negative exponent leaves what truncation leaves: 1 and -1 keep their powers, others vanish. */
FAC_SCALAR_FN FAC_T FAC_FN(pow)(FAC_T base, FAC_T exponent) {
    if (FAC_NEGATIVE(exponent)) {
        if (base == 1) return 1;
        return base == (FAC_T)-1 ? (exponent & 1 ? (FAC_T)-1 : (FAC_T)1) : 0;
    }
    FAC_UT power = 1, b = (FAC_UT)base;
    for (FAC_UT e = (FAC_UT)exponent; e; e >>= 1) {
        if (e & 1) power *= b;
        b *= b;
    }
    return (FAC_T)power;
}
FAC_SCALAR_FN FAC_T FAC_FN(maximum)(FAC_T a, FAC_T b) { return a > b ? a : b; }
FAC_SCALAR_FN FAC_T FAC_FN(minimum)(FAC_T a, FAC_T b) { return a < b ? a : b; }
FAC_SCALAR_FN FAC_T FAC_FN(fmax)(FAC_T a, FAC_T b) { return FAC_FN(maximum)(a, b); }
FAC_SCALAR_FN FAC_T FAC_FN(fmin)(FAC_T a, FAC_T b) { return FAC_FN(minimum)(a, b); }
FAC_SCALAR_FN FAC_T FAC_FN(heaviside)(FAC_T x, FAC_T at_zero) { return x == 0 ? at_zero : (FAC_T)(x > 0); }
FAC_SCALAR_FN FAC_T FAC_FN(clamp)(FAC_T x, FAC_T lo, FAC_T hi) { return FAC_FN(minimum)(FAC_FN(maximum)(x, lo), hi); }
FAC_SCALAR_FN FAC_T FAC_FN(threshold_by)(FAC_T x, FAC_T at, FAC_T value) { return x <= at ? value : x; }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_and)(FAC_T a, FAC_T b) { return (FAC_T)(a & b); }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_or)(FAC_T a, FAC_T b) { return (FAC_T)(a | b); }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_xor)(FAC_T a, FAC_T b) { return (FAC_T)(a ^ b); }
/* Shifts by a negative amount or by the width and more shift everything out, on every device; C leaves these open. */
FAC_SCALAR_FN FAC_T FAC_FN(shift_left)(FAC_T a, FAC_T b) {
#if FAC_BITS == 8 /* processors shift no bytes by amounts of their own: by 1, 2 and 4 where the bits of b say so */
    const uint8_t by = (uint8_t)b, x = (uint8_t)a;
    const uint8_t one = by & 1 ? (uint8_t)(x << 1) : x, two = by & 2 ? (uint8_t)(one << 2) : one,
                  four = by & 4 ? (uint8_t)(two << 4) : two;
    return (FAC_T)(by > 7 ? 0 : four);
#else
    bool out = FAC_NEGATIVE(b) || b >= FAC_BITS;
    return (FAC_T)(out ? 0 : (FAC_UT)a << (b & (FAC_BITS - 1)));
#endif
}
FAC_SCALAR_FN FAC_T FAC_FN(shift_right)(FAC_T a, FAC_T b) {
    bool out = FAC_NEGATIVE(b) || b >= FAC_BITS;
    FAC_T all = FAC_NEGATIVE(a) ? (FAC_T)-1 : 0;
    return (FAC_T)(out ? all : a >> (b & (FAC_BITS - 1)));
}
FAC_SCALAR_FN FAC_T FAC_FN(addcmul)(FAC_T x, FAC_T a, FAC_T b, FAC_NUMBER value) {
    return (FAC_T)((FAC_UT)x + (FAC_UT)value * (FAC_UT)a * (FAC_UT)b);
}
/* Euclid's; the least integer's magnitude wraps to itself. */
FAC_SCALAR_FN FAC_T FAC_FN(gcd)(FAC_T x, FAC_T y) {
    FAC_T a = FAC_FN(abs)(x), b = FAC_FN(abs)(y);
    while (a != 0) {
        const FAC_T rest = (FAC_T)(FAC_NEGATIVE(a) && a == (FAC_T)-1 ? 0 : b % a);
        b = a;
        a = rest;
    }
    return b;
}
FAC_SCALAR_FN FAC_T FAC_FN(lcm)(FAC_T a, FAC_T b) {
    const FAC_T g = FAC_FN(gcd)(a, b);
    return g == 0 ? 0
                  : FAC_FN(abs)(FAC_FN(mul)((FAC_T)(FAC_NEGATIVE(g) && g == (FAC_T)-1 ? FAC_FN(neg)(a) : a / g), b));
}
