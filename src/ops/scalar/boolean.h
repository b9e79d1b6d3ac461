/* Formulas over truth values, the bytes 0 and 1: a sum and a maximum are "or", a product and a minimum "and"; see README.md. */

FAC_SCALAR_FN FAC_SAME FAC_FN(sign)(FAC_T x) { return x; }
FAC_SCALAR_FN FAC_SAME FAC_FN(sgn)(FAC_T x) { return x; }
FAC_SCALAR_FN FAC_SAME FAC_FN(conj)(FAC_T x) { return x; }
FAC_SCALAR_FN bool FAC_FN(signbit)(FAC_T x) { return (void)x, false; }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_not)(FAC_T x) { return (FAC_T)(x ^ 1); }
FAC_SCALAR_FN FAC_T FAC_FN(add)(FAC_T a, FAC_T b) { return (FAC_T)(a | b); }
FAC_SCALAR_FN FAC_T FAC_FN(mul)(FAC_T a, FAC_T b) { return (FAC_T)(a & b); }
FAC_SCALAR_FN FAC_T FAC_FN(maximum)(FAC_T a, FAC_T b) { return (FAC_T)(a | b); }
FAC_SCALAR_FN FAC_T FAC_FN(minimum)(FAC_T a, FAC_T b) { return (FAC_T)(a & b); }
FAC_SCALAR_FN FAC_T FAC_FN(fmax)(FAC_T a, FAC_T b) { return (FAC_T)(a | b); }
FAC_SCALAR_FN FAC_T FAC_FN(fmin)(FAC_T a, FAC_T b) { return (FAC_T)(a & b); }
FAC_SCALAR_FN FAC_T FAC_FN(heaviside)(FAC_T x, FAC_T at_zero) { return (FAC_T)(x | at_zero); }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_and)(FAC_T a, FAC_T b) { return (FAC_T)(a & b); }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_or)(FAC_T a, FAC_T b) { return (FAC_T)(a | b); }
FAC_SCALAR_FN FAC_T FAC_FN(bitwise_xor)(FAC_T a, FAC_T b) { return (FAC_T)(a ^ b); }
