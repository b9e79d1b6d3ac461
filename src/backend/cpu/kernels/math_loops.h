/* Loops of elementary functions over float or double: a template, included by math.isa.c once per type after FAC_T,
   FAC_TD, FAC_FN and FAC_MATH are defined; it undefines them. */
#include "ops/scalar/math.h"

#define FAC_MATH_LOOP(name)                        \
    FAC_LOOP(name) {                               \
        FAC_OPERANDS_1(FAC_T);                     \
        FAC_EACH(n) out[i] = FAC_MATH(name)(a[i]); \
    }
FAC_MATH_LOOP(exp)
FAC_MATH_LOOP(exp2)
FAC_MATH_LOOP(expm1)
FAC_MATH_LOOP(log)
FAC_MATH_LOOP(log2)
FAC_MATH_LOOP(log10)
FAC_MATH_LOOP(log1p)
FAC_MATH_LOOP(sin)
FAC_MATH_LOOP(cos)
FAC_MATH_LOOP(tan)
FAC_MATH_LOOP(asin)
FAC_MATH_LOOP(acos)
FAC_MATH_LOOP(atan)
FAC_MATH_LOOP(sinh)
FAC_MATH_LOOP(cosh)
FAC_MATH_LOOP(tanh)
FAC_MATH_LOOP(asinh)
FAC_MATH_LOOP(acosh)
FAC_MATH_LOOP(atanh)
FAC_MATH_LOOP(erf)
FAC_MATH_LOOP(erfc)
FAC_UNARY_LOOP(sinc)
FAC_UNARY_LOOP(angle)
FAC_LOOP(pow) {
    FAC_OPERANDS_2(FAC_T);
    FAC_EACH(n) out[i] = FAC_MATH(pow)(a[i], b[i]);
}
FAC_LOOP(atan2) {
    FAC_OPERANDS_2(FAC_T);
    FAC_EACH(n) out[i] = FAC_MATH(atan2)(a[i], b[i]);
}
FAC_LOOP(hypot) {
    FAC_OPERANDS_2(FAC_T);
    FAC_EACH(n) out[i] = FAC_MATH(hypot)(a[i], b[i]);
}

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    FAC_INSTALL(exp), FAC_INSTALL(exp2), FAC_INSTALL(expm1), FAC_INSTALL(log), FAC_INSTALL(log2);
    FAC_INSTALL(log10), FAC_INSTALL(log1p), FAC_INSTALL(sin), FAC_INSTALL(cos), FAC_INSTALL(tan);
    FAC_INSTALL(asin), FAC_INSTALL(acos), FAC_INSTALL(atan), FAC_INSTALL(sinh), FAC_INSTALL(cosh);
    FAC_INSTALL(tanh), FAC_INSTALL(asinh), FAC_INSTALL(acosh), FAC_INSTALL(atanh), FAC_INSTALL(erf);
    FAC_INSTALL(erfc), FAC_INSTALL(sinc), FAC_INSTALL(angle), FAC_INSTALL(pow), FAC_INSTALL(atan2), FAC_INSTALL(hypot);
}

#undef FAC_MATH_LOOP
#undef FAC_T
#undef FAC_TD
#undef FAC_FN
#undef FAC_MATH
