/* The neighbours of a valid call that ought to fail: each with one argument spoilt. */
#ifndef FAC_TESTS_BAD_CALLS_H
#define FAC_TESTS_BAD_CALLS_H

#include "dispatch/schema.h"
#include "sample.h"

typedef void (*bad_call_fn)(void *context, const sample_call *c);

/* Hands every neighbour of `valid` to fn. Some are valid after all, such as one with another dtype that the operator takes:
   fn finds that out. */
void bad_calls(const sample_call *valid, const fac_schema *schema, bad_call_fn fn, void *context);
/* Other shapes of the same call, which are valid as a rule: with floating tensors of other dtypes, of other strides, in the
   storage of another tensor, and results of recorded operations. Writes the n-th; false if there are no more. */
bool bad_calls_variant(const sample_call *valid, int n, sample_call *out);
/* The valid call with its out arguments, if any, of sizes [n]: they must be resized. False if it has none. */
bool bad_calls_resize_outs(sample_call *c, const fac_schema *schema, int64_t n);

#endif
