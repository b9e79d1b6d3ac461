/* Python's subscripts as text: "1:, ::2, ..., None, -1". */
#ifndef FAC_SRC_OPS_COMPOSITE_SUBSCRIPT_H
#define FAC_SRC_OPS_COMPOSITE_SUBSCRIPT_H

#include "core/tensor.h"

enum { FAC_SUBSCRIPT_MAX = 2 * FAC_MAX_DIMS + 1 }; /* every dimension indexed, as many new ones, and an ellipsis */

typedef enum {
    FAC_SUBSCRIPT_INTEGER,
    FAC_SUBSCRIPT_SLICE,
    FAC_SUBSCRIPT_ELLIPSIS,
    FAC_SUBSCRIPT_NEW_DIM,
    FAC_SUBSCRIPT_TENSOR
} fac_subscript_kind;

typedef struct fac_subscript_item {
    fac_subscript_kind kind;
    int column;              /* of its first character, from 1 */
    fac_opt_int start, stop; /* of a slice; `start` of an integer */
    int64_t step;
    fac_tensor *tensor; /* borrowed */
} fac_subscript_item;

typedef struct fac_subscript {
    const char *text;
    int n;
    fac_subscript_item items[FAC_SUBSCRIPT_MAX];
} fac_subscript;

/* Ends a message: FAC_FAIL(code, "... is wrong" FAC_SUBSCRIPT_PLACE, column, text). */
#define FAC_SUBSCRIPT_PLACE ", at column %d of \"%s\""

/* Reads the text; each '%' takes the next of `tensors`, each '#' the next of `ints`.
   errors: ARGUMENT, with the column, for what Python would not read, for a step below 1, and if tensors or ints are missing or
           left over; OVERFLOW for a number beyond 64 bits */
fac_status fac__subscript_parse(fac_subscript *out, const char *text, fac_tensors tensors, fac_ints ints);

#endif
