/* Boxed values beside what facula/dispatch.h says of them. */
#ifndef FAC_SRC_DISPATCH_VALUE_H
#define FAC_SRC_DISPATCH_VALUE_H

#include "core/tensor.h"
#include "dispatch/schema.h"

/* The schema's word for what a tag holds: "Tensor", "int[]". Never NULL. */
const char *fac__tag_name(int64_t tag);
/* Values of headers: a new reference, or the caller's. NULL gives NONE. */
fac_value fac__value_tensor(fac_tensor *header);
fac_value fac__value_owned_tensor(fac_tensor *owned);
fac_value fac__value_tensors(fac_tensor *const *headers, size_t n);
/* Headers of what a live value holds, borrowed from it: NULL, or none, if it is of another tag. */
fac_tensor *fac__value_header(const fac_value *v);
fac_tensors fac__value_headers(const fac_value *v);
/* A list value of n owned tensors in an fac__alloc'ed array; takes both, also on failure (NONE, error pending). */
fac_value fac__value_owned_tensors(fac_tensor **v, size_t n);
/* Whether a value without a tensor owns a reference. */
bool fac__value_is_counted(const fac_value *v);
/* What the argument's default stands for; NONE and FAC_OK for None. The caller releases it. */
fac_status fac__default_value(const fac_schema_arg *a, fac_value *out);
/* Whether v is of a schema type as it stands; an int or bool also counts as a float, a bool as an int. */
bool fac__value_fits(const fac_schema_type *t, fac_value v);
/* Whether v may be passed for a schema type. Where it must be converted first (an int for a float, one int for
   int[2], ints for float[]) *held receives the converted value, which the caller releases; else it is NONE. */
fac_status fac__value_coerce(const fac_schema_type *t, const char *arg, fac_value v, fac_value *held);

#endif
