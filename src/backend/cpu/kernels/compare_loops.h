/* Loops with boolean results over one type: a template, included by compare.isa.c once per type after FAC_T, FAC_FN, FAC_TD
   and the tests FAC_ISNAN, FAC_ISINF, FAC_ISFINITE are defined; it undefines them, the tests unless FAC_KEEP_TESTS. */

FAC_PREDICATE_LOOP(eq, a[i] == b[i])
FAC_PREDICATE_LOOP(ne, a[i] != b[i])
FAC_PREDICATE_LOOP(lt, a[i] < b[i])
FAC_PREDICATE_LOOP(le, a[i] <= b[i])
FAC_PREDICATE_LOOP(gt, a[i] > b[i])
FAC_PREDICATE_LOOP(ge, a[i] >= b[i])
FAC_PREDICATE_LOOP(logical_and, (a[i] != 0) & (b[i] != 0))
FAC_PREDICATE_LOOP(logical_or, (a[i] != 0) | (b[i] != 0))
FAC_PREDICATE_LOOP(logical_xor, (a[i] != 0) ^ (b[i] != 0))
FAC_TEST_LOOP(logical_not, a[i] == 0)
FAC_TEST_LOOP(isnan, FAC_ISNAN(a[i]))
FAC_TEST_LOOP(isinf, FAC_ISINF(a[i]))
FAC_TEST_LOOP(isfinite, FAC_ISFINITE(a[i]))

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    FAC_INSTALL(eq), FAC_INSTALL(ne), FAC_INSTALL(lt), FAC_INSTALL(le), FAC_INSTALL(gt), FAC_INSTALL(ge);
    FAC_INSTALL(logical_and), FAC_INSTALL(logical_or), FAC_INSTALL(logical_xor), FAC_INSTALL(logical_not);
    FAC_INSTALL(isnan), FAC_INSTALL(isinf), FAC_INSTALL(isfinite);
}

#undef FAC_T
#undef FAC_TD
#undef FAC_FN
#ifndef FAC_KEEP_TESTS
#undef FAC_ISNAN
#undef FAC_ISINF
#undef FAC_ISFINITE
#endif
