/* What the numerical checks and the Jacobian share. */
#ifndef FAC_SRC_AUTOGRAD_NUMERIC_H
#define FAC_SRC_AUTOGRAD_NUMERIC_H

#include "core/sparse.h"

/* Real numbers per element: 2 for complex dtypes. */
static inline size_t fac__parts(const fac_tensor *t) { return fac_dtype_is_complex((fac_dtype)t->dtype) ? 2 : 1; }
/* Elements that can change: the stored ones of a sparse tensor, whose others stay zero. */
static inline size_t fac__stored(const fac_tensor *t) {
    return (size_t)(fac__sparse_of(t) ? fac__sparse_of(t)->values->numel : t->numel);
}
/* Real numbers in t; 0 for NULL. */
static inline size_t fac__components(const fac_tensor *t) { return t ? fac__stored(t) * fac__parts(t) : 0; }
/* A tensor shaped like t with the given components, on t's device; belongs to the innermost scope. NULL on failure. */
fac_tensor *fac__tensor_of_components(const fac_tensor *t, const double *components);
/* The same, all zero but component k, which is 1 (or i). */
fac_tensor *fac__unit_like(const fac_tensor *t, size_t k);
/* Reads t's components; zeros for NULL, of which `like` tells the number. */
fac_status fac__read_components(fac_tensor *t, const fac_tensor *like, double *out);

#endif
