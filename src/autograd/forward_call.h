/* A call with dual tensors while it is carried out; shared by forward_call.c, forward_rules.c and forward_views.c. */
#ifndef FAC_SRC_AUTOGRAD_FORWARD_CALL_H
#define FAC_SRC_AUTOGRAD_FORWARD_CALL_H

#include "autograd/forward.h"
#include "dispatch/operator.h"

/* A tensor among the arguments, in the order of these; entries of lists follow each other. */
typedef struct dual_slot {
    size_t arg;
    fac_tensor *given, *primal; /* borrowed; the primal is what is given, without the level */
    fac_tensor *tangent;        /* borrowed; NULL: zero */
    bool written;
} dual_slot;

typedef struct dual_call {
    const fac_operator *op;
    const fac_schema *schema;
    const fac_value *args;
    fac_level level;
    dual_slot *slots;
    size_t n, n_written;
    bool is_view; /* results are views of the first argument */
    bool records; /* somebody may go backward through primals or tangents */
} dual_call;

/* Tensors that the innermost scope owns; NULL where there is none. The array is fac__alloc'ed. */
typedef struct dual_list {
    fac_tensor **v;
    size_t n;
} dual_list;

/* Calls the operator on v[n], one for each slot, at whatever key these have. Of an operator that writes, the outputs are the
   tensors of the slots that are written; else all tensors of the results, in order. The results, n_rets values, are the caller's
   to release (NULL: not wanted). */
fac_status fac__dual_evaluate(const dual_call *k, fac_tensor *const *v, fac_value *results, dual_list *out);
/* The tangents of the outputs, one for each; with the results and the outputs where these come with it (out_results and *outputs
   are else left alone, and *is_evaluated false). */
typedef struct dual_outcome {
    fac_value *results; /* n_rets */
    dual_list outputs, tangents;
    bool is_evaluated;
} dual_outcome;
fac_status fac__dual_tangents(const dual_call *k, dual_outcome *o);
/* Whether the call is as_strided of a primal whose elements overlap, or of more memory than the primal has: its tangent, whose elements
   do not overlap, has no memory of that form. The result's is made by gradients, and is no view of it. */
bool fac__dual_is_restrided(const dual_call *k);

/* A plain tensor, which may have views, has become a dual one of `level`. */
void fac__dual_note_change(fac_level level);

#endif
