/* Formulas over real numbers; see README.md. */

FAC_SCALAR_FN FAC_T FAC_FN(abs)(FAC_T x) { return FAC_BUILTIN(fabs)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(neg)(FAC_T x) { return -x; }
FAC_SCALAR_FN FAC_T FAC_FN(sign)(FAC_T x) { return (FAC_T)((x > 0) - (x < 0)); }
FAC_SCALAR_FN FAC_T FAC_FN(sgn)(FAC_T x) { return FAC_FN(sign)(x); }
/* pi for negative numbers, 0 for others, NaN for NaN. */
FAC_SCALAR_FN FAC_T FAC_FN(angle)(FAC_T x) { return x < 0 ? (FAC_T)3.14159265358979323846 : x != x ? x : 0; }
FAC_SCALAR_FN FAC_T FAC_FN(ceil)(FAC_T x) { return FAC_BUILTIN(ceil)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(floor)(FAC_T x) { return FAC_BUILTIN(floor)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(round)(FAC_T x) { return FAC_BUILTIN(rint)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(trunc)(FAC_T x) { return FAC_BUILTIN(trunc)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(reciprocal)(FAC_T x) { return 1 / x; }
FAC_SCALAR_FN FAC_T FAC_FN(sqrt)(FAC_T x) { return FAC_BUILTIN(sqrt)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(rsqrt)(FAC_T x) { return 1 / FAC_BUILTIN(sqrt)(x); }
FAC_SCALAR_FN FAC_T FAC_FN(square)(FAC_T x) { return x * x; }
FAC_SCALAR_FN FAC_T FAC_FN(frac)(FAC_T x) { return x - FAC_BUILTIN(trunc)(x); }
/* To decimals, and to places before the point. */
FAC_SCALAR_FN FAC_T FAC_FN(round_decimals)(FAC_T x, FAC_NUMBER power) { return FAC_BUILTIN(rint)(x * power) / power; }
FAC_SCALAR_FN FAC_T FAC_FN(round_places)(FAC_T x, FAC_NUMBER power) { return FAC_BUILTIN(rint)(x / power) * power; }
FAC_SCALAR_FN FAC_SAME FAC_FN(conj)(FAC_T x) { return x; }
FAC_SCALAR_FN bool FAC_FN(isnan)(FAC_T x) { return x != x; }
FAC_SCALAR_FN bool FAC_FN(isinf)(FAC_T x) { return FAC_BUILTIN(fabs)(x) == FAC_INFINITY; }
FAC_SCALAR_FN bool FAC_FN(isfinite)(FAC_T x) { return FAC_BUILTIN(fabs)(x) < FAC_INFINITY; }
FAC_SCALAR_FN bool FAC_FN(signbit)(FAC_T x) { return FAC_BUILTIN(copysign)((FAC_T)1, x) < 0; }
/* x = mantissa 2^exponent, the mantissa's magnitude in [1/2, 1). */
FAC_SCALAR_FN void FAC_FN(frexp)(FAC_T x, FAC_T *mantissa, FAC_T *exponent) {
    int e = 0;
    *mantissa = FAC_BUILTIN(frexp)(x, &e);
    *exponent = FAC_BUILTIN(fabs)(x) < FAC_INFINITY ? (FAC_T)e : 0;
}
FAC_SCALAR_FN FAC_T FAC_FN(cube)(FAC_T x) { return x * x * x; }

FAC_SCALAR_FN FAC_T FAC_FN(add)(FAC_T a, FAC_T b) { return a + b; }
FAC_SCALAR_FN FAC_T FAC_FN(add_alpha)(FAC_T a, FAC_T b, FAC_NUMBER alpha) { return a + alpha * b; }
FAC_SCALAR_FN FAC_T FAC_FN(sub)(FAC_T a, FAC_T b) { return a - b; }
FAC_SCALAR_FN FAC_T FAC_FN(mul)(FAC_T a, FAC_T b) { return a * b; }
FAC_SCALAR_FN FAC_T FAC_FN(div)(FAC_T a, FAC_T b) { return a / b; }
FAC_SCALAR_FN FAC_T FAC_FN(div_trunc)(FAC_T a, FAC_T b) { return FAC_BUILTIN(trunc)(a / b); }
FAC_SCALAR_FN FAC_T FAC_FN(fmod)(FAC_T a, FAC_T b) { return FAC_MATH(fmod)(a, b); }
/* The remainder that has the divisor's sign, as Python's %. */
FAC_SCALAR_FN FAC_T FAC_FN(remainder)(FAC_T a, FAC_T b) {
    FAC_T m = FAC_MATH(fmod)(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
/* Python's //: the largest whole number not above a / b, found through the exact remainder, since a / b may round up to
   the next whole number. */
FAC_SCALAR_FN FAC_T FAC_FN(div_floor)(FAC_T a, FAC_T b) {
    FAC_T m = FAC_MATH(fmod)(a, b), q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;
    FAC_T whole = FAC_BUILTIN(floor)(q);
    if (q - whole > (FAC_T)0.5) whole += 1;
    if (q == 0) whole = FAC_BUILTIN(copysign)((FAC_T)0, a / b);
    return b == 0 ? a / b : whole;
}
/* NaN if either is. The conditions are joined without branches, so that nested uses vectorise too. */
FAC_SCALAR_FN FAC_T FAC_FN(maximum)(FAC_T a, FAC_T b) { return ((b > a) | (b != b)) ? b : a; }
FAC_SCALAR_FN FAC_T FAC_FN(minimum)(FAC_T a, FAC_T b) { return ((b < a) | (b != b)) ? b : a; }
/* The number where the other is NaN. */
FAC_SCALAR_FN FAC_T FAC_FN(fmax)(FAC_T a, FAC_T b) { return ((a >= b) | (b != b)) ? a : b; }
FAC_SCALAR_FN FAC_T FAC_FN(fmin)(FAC_T a, FAC_T b) { return ((a <= b) | (b != b)) ? a : b; }
FAC_SCALAR_FN FAC_T FAC_FN(heaviside)(FAC_T x, FAC_T at_zero) {
    const FAC_T step = x > 0 ? 1 : 0;
    return x == 0 ? at_zero : step;
}
FAC_SCALAR_FN FAC_T FAC_FN(nan_to_num)(FAC_T x, FAC_NUMBER nan, FAC_NUMBER above, FAC_NUMBER below) {
    const FAC_T end = x == FAC_INFINITY ? above : x, number = x == -FAC_INFINITY ? below : end;
    return x != x ? nan : number;
}
FAC_SCALAR_FN FAC_T FAC_FN(clamp)(FAC_T x, FAC_T lo, FAC_T hi) { return FAC_FN(minimum)(FAC_FN(maximum)(x, lo), hi); }
/* Takes the nearer end as the starting point, so that weights 0 and 1 give the ends exactly. */
FAC_SCALAR_FN FAC_T FAC_FN(lerp)(FAC_T a, FAC_T b, FAC_T w) {
    FAC_T low = a + w * (b - a), high = b - (b - a) * (1 - w);
    return w < (FAC_T)0.5 && w > (FAC_T)-0.5 ? low : high;
}
FAC_SCALAR_FN FAC_T FAC_FN(addcmul)(FAC_T x, FAC_T a, FAC_T b, FAC_NUMBER value) { return x + value * a * b; }
FAC_SCALAR_FN FAC_T FAC_FN(addcdiv)(FAC_T x, FAC_T a, FAC_T b, FAC_NUMBER value) { return x + value * a / b; }
FAC_SCALAR_FN FAC_T FAC_FN(copysign)(FAC_T a, FAC_T b) { return FAC_BUILTIN(copysign)(a, b); }
/* x 2^power, the power in two parts, as all of it may be out of range where the result is not: enough for x in the normal range. One
   below it may become infinite too early. The half is rounded by a sum with a number whose last place is 1. */
FAC_SCALAR_HELPER void FAC_FN(ldexp_factors)(FAC_T power, FAC_T *first, FAC_T *second) {
    const FAC_T low = power < -4096 ? -4096 : power, most = low > 4096 ? 4096 : low;
    const FAC_T large = sizeof(FAC_T) == sizeof(float) ? (FAC_T)0x1.8p+23 : (FAC_T)0x1.8p+52;
    const FAC_T half = (most / 2 + large) - large;
    *first = FAC_MATH(exp2)(half), *second = FAC_MATH(exp2)(most - half);
}
FAC_SCALAR_FN FAC_T FAC_FN(ldexp)(FAC_T x, FAC_T power) {
    FAC_T first, second;
    FAC_FN(ldexp_factors)(power, &first, &second);
    return x * first * second;
}
FAC_SCALAR_FN FAC_T FAC_FN(product3)(FAC_T a, FAC_T b, FAC_T c) { return a * b * c; }
FAC_SCALAR_FN FAC_T FAC_FN(nextafter)(FAC_T a, FAC_T b) { return FAC_MATH(nextafter)(a, b); }
/* The same among the numbers of a narrower type that has so many bits, the least number tiny and the largest one most. Towards 0
   from a power of two the step is half as long. */
FAC_SCALAR_FN FAC_T FAC_FN(nextafter_half)(FAC_T a, FAC_T b, FAC_NUMBER bits, FAC_NUMBER tiny, FAC_NUMBER most) {
    int e = 0;
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    if (a == 0) return FAC_BUILTIN(copysign)(tiny, b);
    if (FAC_BUILTIN(fabs)(a) == FAC_INFINITY) return FAC_BUILTIN(copysign)(most, a);
    const bool inwards = (b > a) != (a > 0), power = FAC_BUILTIN(fabs)(FAC_BUILTIN(frexp)(a, &e)) == (FAC_T)0.5;
    FAC_T step = FAC_BUILTIN(ldexp)((FAC_T)1, e - (int)bits - (inwards && power));
    step = step < tiny ? tiny : step;
    const FAC_T next = a + (b > a ? step : -step);
    return next == 0 ? FAC_BUILTIN(copysign)(next, a) : next;
}
