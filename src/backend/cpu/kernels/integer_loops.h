/* Arithmetic loops over one integer type: a template, included by arith.isa.c once per type after FAC_T, FAC_UT, FAC_BITS,
   FAC_NEGATIVE, FAC_FN and FAC_TD are defined; it undefines those that name the type. */
#include "ops/scalar/integer.h"

FAC_UNARY_LOOP(neg)
FAC_UNARY_LOOP(abs)
FAC_UNARY_LOOP(sign)
FAC_UNARY_LOOP(square)
FAC_UNARY_LOOP(bitwise_not)
FAC_BINARY_LOOP(add)
FAC_BINARY_LOOP(sub)
FAC_BINARY_LOOP(mul)
FAC_BINARY_LOOP(pow)
FAC_BINARY_LOOP(maximum)
FAC_BINARY_LOOP(minimum)
FAC_BINARY_LOOP(bitwise_and)
FAC_BINARY_LOOP(bitwise_or)
FAC_BINARY_LOOP(bitwise_xor)
FAC_BINARY_LOOP(shift_left)
FAC_BINARY_LOOP(shift_right)
FAC_TERNARY_LOOP(clamp)
FAC_TERNARY_LOOP(threshold)

/* Divisions note a zero divisor and give 0 there; the kernel turns the note into an error. */
#define FAC_DIVISION_LOOP(name)                                                          \
    FAC_LOOP(name) {                                                                     \
        FAC_OPERANDS_2(FAC_T);                                                           \
        bool zero = false;                                                               \
        for (int64_t i = 0; i < n; i++) {                                                \
            zero |= b[i] == 0;                                                           \
            out[i] = b[i] == 0 ? 0 : FAC_FN(name)(a[i], b[i]);                           \
        }                                                                                \
        if (zero) atomic_store_explicit(args->zero_divisor, true, memory_order_relaxed); \
    }
FAC_DIVISION_LOOP(div_trunc)
FAC_DIVISION_LOOP(div_floor)
FAC_DIVISION_LOOP(fmod)
FAC_DIVISION_LOOP(remainder)
#undef FAC_DIVISION_LOOP

FAC_LOOP(copy) {
    if (n) memmove(p[0], p[1], (size_t)n * sizeof(FAC_T)); /* empty tensors have no address */
}
FAC_LOOP(add_alpha) {
    FAC_OPERANDS_2(FAC_T);
    const FAC_T alpha = (FAC_T)args->i[0];
    FAC_EACH(n) out[i] = FAC_FN(add_alpha)(a[i], b[i], alpha);
}
FAC_LOOP(addcmul) {
    FAC_OPERANDS_3(FAC_T);
    const FAC_T value = (FAC_T)args->i[0];
    FAC_EACH(n) out[i] = FAC_FN(addcmul)(a[i], b[i], c[i], value);
}

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    FAC_INSTALL(neg), FAC_INSTALL(abs), FAC_INSTALL(sign), FAC_INSTALL(square), FAC_INSTALL(bitwise_not);
    FAC_INSTALL(add), FAC_INSTALL(add_alpha), FAC_INSTALL(sub), FAC_INSTALL(mul), FAC_INSTALL(pow);
    FAC_INSTALL(div_trunc), FAC_INSTALL(div_floor), FAC_INSTALL(fmod), FAC_INSTALL(remainder);
    FAC_INSTALL(maximum), FAC_INSTALL(minimum), FAC_INSTALL(clamp), FAC_INSTALL(addcmul);
    FAC_INSTALL(bitwise_and), FAC_INSTALL(bitwise_or), FAC_INSTALL(bitwise_xor);
    FAC_INSTALL(shift_left), FAC_INSTALL(shift_right), FAC_INSTALL(threshold);
    table[FAC_LOOP_ceil][FAC_TD] = table[FAC_LOOP_floor][FAC_TD] = table[FAC_LOOP_round][FAC_TD] =
        table[FAC_LOOP_trunc][FAC_TD] = FAC_FN(loop_copy);
}

#undef FAC_T
#undef FAC_TD
#undef FAC_FN
#undef FAC_BITS
