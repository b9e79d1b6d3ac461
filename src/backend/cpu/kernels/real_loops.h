/* Arithmetic loops over float or double: a template, included by arith.isa.c once per type after FAC_T, FAC_TD (the
   dtype), FAC_FN, FAC_MATH and FAC_BUILTIN are defined; it undefines those that name the type. */
#include "ops/scalar/real.h"

FAC_UNARY_LOOP(abs)
FAC_UNARY_LOOP(neg)
FAC_UNARY_LOOP(sign)
FAC_UNARY_LOOP(ceil)
FAC_UNARY_LOOP(floor)
FAC_UNARY_LOOP(round)
FAC_UNARY_LOOP(trunc)
FAC_UNARY_LOOP(reciprocal)
FAC_UNARY_LOOP(sqrt)
FAC_UNARY_LOOP(rsqrt)
FAC_UNARY_LOOP(square)
FAC_UNARY_LOOP(cube)
FAC_BINARY_LOOP(add)
FAC_BINARY_LOOP(sub)
FAC_BINARY_LOOP(mul)
FAC_BINARY_LOOP(div)
FAC_BINARY_LOOP(div_trunc)
FAC_BINARY_LOOP(div_floor)
FAC_BINARY_LOOP(fmod)
FAC_BINARY_LOOP(remainder)
FAC_BINARY_LOOP(maximum)
FAC_BINARY_LOOP(minimum)
FAC_TERNARY_LOOP(lerp)
FAC_TERNARY_LOOP(clamp)

FAC_LOOP(add_alpha) {
    FAC_OPERANDS_2(FAC_T);
    const FAC_T alpha = (FAC_T)args->f[0];
    FAC_EACH(n) out[i] = FAC_FN(add_alpha)(a[i], b[i], alpha);
}
FAC_LOOP(addcmul) {
    FAC_OPERANDS_3(FAC_T);
    const FAC_T value = (FAC_T)args->f[0];
    FAC_EACH(n) out[i] = FAC_FN(addcmul)(a[i], b[i], c[i], value);
}
FAC_LOOP(addcdiv) {
    FAC_OPERANDS_3(FAC_T);
    const FAC_T value = (FAC_T)args->f[0];
    FAC_EACH(n) out[i] = FAC_FN(addcdiv)(a[i], b[i], c[i], value);
}

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    FAC_INSTALL(abs), FAC_INSTALL(neg), FAC_INSTALL(sign), FAC_INSTALL(ceil), FAC_INSTALL(floor);
    FAC_INSTALL(round), FAC_INSTALL(trunc), FAC_INSTALL(reciprocal), FAC_INSTALL(sqrt), FAC_INSTALL(rsqrt);
    FAC_INSTALL(square), FAC_INSTALL(cube), FAC_INSTALL(add), FAC_INSTALL(add_alpha), FAC_INSTALL(sub),
        FAC_INSTALL(mul);
    FAC_INSTALL(div), FAC_INSTALL(div_trunc), FAC_INSTALL(div_floor), FAC_INSTALL(fmod), FAC_INSTALL(remainder);
    FAC_INSTALL(maximum), FAC_INSTALL(minimum), FAC_INSTALL(clamp), FAC_INSTALL(lerp);
    FAC_INSTALL(addcmul), FAC_INSTALL(addcdiv);
}

#undef FAC_T
#undef FAC_TD
#undef FAC_FN
#undef FAC_MATH
#undef FAC_BUILTIN
