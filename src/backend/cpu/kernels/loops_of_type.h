/* The loops of one list over one type: a template, included after the formulas with FAC_T, FAC_FN, FAC_TD and FAC_LOOPS, the list,
   defined; it makes FAC_FN(install), and undefines what names the type. */

FAC_LOOPS(FAC_LOOP)

static void FAC_FN(install)(fac_loop (*table)[FAC_DTYPE_COUNT]) { FAC_LOOPS(FAC_INSTALL) }

#undef FAC_T
#undef FAC_TD
#undef FAC_FN
#undef FAC_MATH
#undef FAC_BUILTIN
#undef FAC_INFINITY
#undef FAC_UT
#undef FAC_BITS
#undef FAC_NEGATIVE
#undef FAC_R
#undef FAC_C
