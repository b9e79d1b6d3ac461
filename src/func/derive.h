/* One call of a function between fresh inputs and the values of its outputs. Private to this folder. */
#ifndef FAC_SRC_FUNC_DERIVE_H
#define FAC_SRC_FUNC_DERIVE_H

#include "autograd/func.h"
#include "autograd/leaf.h"
#include "core/handle.h"
#include <facula/func.h>

/* A function that was called with inputs that are fresh, so that gradients of its outputs end there. Under vmap an
   input has a dimension for each level in front: samples do not depend on each other, so the gradient of the sum over
   them is each one's. */
typedef struct derivation {
    fac_tensor **leaves;  /* owned: the values that gradients are taken of; n_leaves */
    fac_tensor **inputs;  /* handles that the function got; temporaries, n_inputs */
    fac_tensor **outputs; /* headers that it gave, temporaries, n_outputs */
    fac_tensor **values;  /* owned: the outputs with all levels' dimensions in front */
    size_t n_leaves, n_inputs, n_outputs;
    bool recorded; /* gradients are to be recorded in turn */
    fac_scope scope;
} derivation;

/* Calls fn with inputs (headers) of which those of `which` are fresh. To be ended also after a failure; the scope is
   the caller's to yield from before that. */
fac_status fac__derive(derivation *d, fac_func fn, void *context, fac_tensors inputs, fac_ints which, size_t n_outputs);
void fac__derive_end(derivation *d);
/* The gradients of the leaves for a cotangent of each output (NULL: that has none), as temporaries shaped like the
   inputs; zeros where the outputs do not depend on one. */
fac_status fac__derive_grads(derivation *d, fac_tensors cotangents, fac_tensor **out);
/* Output i as a temporary, cut off from the leaves unless it is to be recorded. */
fac_status fac__derive_value(derivation *d, size_t i, fac_tensor **out);
/* Whether there are derivatives by t: of floating and complex tensors. */
static inline bool fac__derive_is_floating(const fac_tensor *t) { return t->dtype >= FAC_F16 && t->dtype < FAC_QINT8; }
/* The number of an input, which may be counted from the end. */
fac_status fac__derive_argnum(const char *who, int64_t argnum, size_t n_inputs, int64_t *out);

#endif
