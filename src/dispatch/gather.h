/* How built-in operators are found: each one's object and its line of the list of operators lie in one group of sections, and a
   linker keeps or drops a group as a whole. A program that contains the library, or a library that exports only some functions,
   thus has the operators that its code reaches, their gradients' and no others (-Wl,--gc-sections -Wl,-z,start-stop-gc); without
   these options it has all. Elsewhere than in 64-bit ELF, and with link-time optimisation, the list is a table. */
#ifndef FAC_SRC_DISPATCH_GATHER_H
#define FAC_SRC_DISPATCH_GATHER_H

#include "dispatch/operator.h"

#if defined(__ELF__) && defined(__LP64__) && !defined(FAC_LTO)
#define FAC_GATHERED 1
#else
#define FAC_GATHERED 0
#endif

/* Defines fac_op_ID, zeroed, and lists fac__row_ID. */
#if FAC_GATHERED
#define FAC_OPERATOR_BYTES 1200
_Static_assert(sizeof(fac_operator) == FAC_OPERATOR_BYTES && _Alignof(fac_operator) == 8, "adapt FAC_OPERATOR_BYTES");
#define FAC_BUILTIN(id)                                                                                          \
    __asm__(".pushsection .bss.fac_op_" #id ",\"awG\",%nobits,fac_op_" #id ".group\n"                            \
            ".balign 64\n.globl fac_op_" #id "\n.hidden fac_op_" #id "\n.type fac_op_" #id ",%object\n"          \
            ".size fac_op_" #id "," FAC_STRINGIZE(                                                               \
                FAC_OPERATOR_BYTES) "\n"                                                                         \
                                    "fac_op_" #id ": .zero " FAC_STRINGIZE(                                      \
                                        FAC_OPERATOR_BYTES) "\n.popsection\n"                                    \
                                                            ".pushsection fac_ops,\"awG\",%progbits,fac_op_" #id \
                                                            ".group\n"                                           \
                                                            ".balign 8\n.dc.a fac__row_" #id "\n.popsection\n");
#else
#define FAC_BUILTIN(id) fac_operator fac_op_##id;
#endif

#endif
