/* In-place and out forms of operators, as fallbacks of layouts see them. */
#ifndef FAC_SRC_OPS_FORMS_H
#define FAC_SRC_OPS_FORMS_H

#include "dispatch/operator.h"

/* How many arguments op writes, if it is an in-place form (one, its first) or an out form (its last) of a `functional` that takes the
   others; else 0. */
size_t fac__form_writes(const fac_operator *op, const fac_operator *functional, bool *in_place);

#endif
