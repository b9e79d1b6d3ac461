/* Elementary functions that loops do not call by themselves; see README.md. */

/* sin(pi x) / (pi x), 1 at 0. */
FAC_SCALAR_FN FAC_T FAC_FN(sinc)(FAC_T x) {
    FAC_T y = (FAC_T)3.14159265358979323846 * x, s = FAC_MATH(sin)(y) / y;
    return x == 0 ? 1 : s;
}
/* pi for negative numbers, 0 for others, NaN for NaN. */
FAC_SCALAR_FN FAC_T FAC_FN(angle)(FAC_T x) { return x < 0 ? (FAC_T)3.14159265358979323846 : x != x ? x : 0; }
