/* A sample's call as a function of its differentiable tensors, for tests of derivatives. */
#ifndef FAC_TESTS_CHECKED_CALLS_H
#define FAC_TESTS_CHECKED_CALLS_H

#include "sample.h"

enum { CHECKED_RESULTS = 32 };

/* Operators whose definition is not the derivative of what they compute, and such as are functions of part of their input. */
typedef struct peculiarity {
    const char *op;
    enum { SKIPPED, SYMMETRIC, LOWER, SUMS_TO_ONE, ABOVE_ONE } how;
    const char *why;
} peculiarity;

const peculiarity *peculiarity_of(const char *op);

typedef struct checked {
    const fac_operator *op;
    const peculiarity *peculiar;
    sample_call call;
    sample_made made;
    fac_tensor *leaves[SAMPLE_TENSORS];
    size_t place[SAMPLE_TENSORS], n_leaves; /* which of the call's tensors each leaf is */
    size_t outs[CHECKED_RESULTS], n_outs;   /* which of the results are looked at */
} checked;

/* The results that are looked at, of the call with `in` in the place of its leaves; a fac_func whose context is a `checked`. */
fac_status checked_run(void *context, fac_tensors in, fac_tensor **out, size_t n);
/* The call in `text` with every floating number in `dtype`. False if it does not work so, or gives nothing that has a gradient, or
   no numbers; else it is to be unmade (k->made). */
bool checked_make(checked *k, const fac_operator *op, const char *gradient, const char *text, fac_dtype dtype);

#endif
