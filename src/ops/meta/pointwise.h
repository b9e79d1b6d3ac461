/* Building the iterators of pointwise operators. */
#ifndef FAC_SRC_OPS_META_POINTWISE_H
#define FAC_SRC_OPS_META_POINTWISE_H

#include "ops/structured.h"

/* How the common dtype follows from the inputs. */
#define FAC_PW_PROMOTE (FAC_ITER_PROMOTE | FAC_ITER_CPU_SCALARS)
#define FAC_PW_FLOAT (FAC_PW_PROMOTE | FAC_ITER_INT_TO_FLOAT)

/* Declares the one output of a pointwise operator over one or two inputs, a number in place of a tensor where the name says
   so. `out` is the output's dtype, or 0 for the common one. The iterator is in s->iter. */
fac_status fac__pw_1(fac_structured *s, fac_tensor *a, uint32_t options, fac_dtype out);
fac_status fac__pw_2(fac_structured *s, fac_tensor *a, fac_tensor *b, uint32_t options, fac_dtype out);
fac_status fac__pw_2_scalar(fac_structured *s, fac_tensor *a, fac_scalar b, uint32_t options, fac_dtype out);
fac_status fac__pw_scalar_2(fac_structured *s, fac_scalar a, fac_tensor *b, uint32_t options, fac_dtype out);
/* The same over any inputs: entries of t that are NULL take the next number of v. */
fac_status fac__pw_n(fac_structured *s, fac_tensor *const *t, int n, const fac_scalar *v, uint32_t options,
                     fac_dtype out);

/* Errors for dtypes that an operator does not take. */
fac_status fac__refuse_complex(fac_dtype d);
fac_status fac__refuse_bool(fac_dtype d);

#endif
