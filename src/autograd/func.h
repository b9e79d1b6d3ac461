/* What the transforms of functions ask of autograd. */
#ifndef FAC_SRC_AUTOGRAD_FUNC_H
#define FAC_SRC_AUTOGRAD_FUNC_H

#include "core/tensor.h"
#include <facula/autograd.h>

/* Gradients of outputs with respect to inputs, as fac__grad gives them, for n gradients of the outputs at once: each
   of grad_outputs has a dimension of n in front, and so have the results, which are owned; NULL where none came. */
fac_status fac__grad_batched(fac_tensors outputs, fac_tensors inputs, fac_tensors grad_outputs, int64_t n,
                             bool keep_graph, bool create_graph, fac_tensor **out_grads);
/* Whether t's graph ends at a leaf that is none of `leaves`. */
fac_status fac__depends_on_others(fac_tensor *t, fac_tensors leaves, bool *out);

/* fac_func_jvp with headers in and out. */
fac_status fac__jvp(fac_func fn, void *context, fac_tensors primals, fac_tensors tangents, fac_tensor **out_outputs,
                    fac_tensor **out_tangents, size_t n_outputs);
/* Owned: an alias of t that is in no graph of t's own level. One of a dual tensor keeps the tangent, and what primal and tangent
   have as history. */
fac_status fac__dual_cut(fac_tensor *t, fac_tensor **out);

#endif
