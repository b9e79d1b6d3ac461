/* What operators do with the names of dimensions. */
#ifndef FAC_SRC_OPS_NAMES_H
#define FAC_SRC_OPS_NAMES_H

#include "core/names.h"
#include "dispatch/operator.h"

/* A rule for the names of results. Dimensions and flags are those of the arguments of usual names (dim,
   keepdim, dim0 ...). */
typedef enum fac_name_rule {
    FAC_NAMES_REFUSE,  /* none: tensors with names are refused                                                */
    FAC_NAMES_UNIFY,   /* those of all tensors, broadcast together: equal where both have one                    */
    FAC_NAMES_KEEP,    /* those of the first tensor                                                               */
    FAC_NAMES_REDUCE,  /* those of the first tensor without the reduced dimensions, unless keepdim                 */
    FAC_NAMES_PRODUCT, /* of a matrix product of the first two tensors: what is contracted goes                     */
    FAC_NAMES_ADDED,   /* of the second and third tensor's product, unified with those of the first                  */
    FAC_NAMES_LINEAR,  /* of input @ weight^T                                                                         */
    FAC_NAMES_TRANSPOSE, /* two dimensions change places                                                                 */
    FAC_NAMES_PERMUTE, /* all dimensions in a new order                                                                 */
    FAC_NAMES_REVERSE, /* all dimensions from the last to the first                                                      */
    FAC_NAMES_SQUEEZE, /* without the dimensions of one element                                                           */
    FAC_NAMES_UNSQUEEZE, /* with one more, without a name                                                                    */
    FAC_NAMES_EXPAND, /* aligned at the right                                                                              */
    FAC_NAMES_JOIN, /* those of all tensors of a list, which have as many dimensions                                      */
    FAC_NAMES_FORGET /* none, whatever the tensors have                                                                     */
} fac_name_rule;

/* The operator's: by its name, with the overload or without, or UNIFY for one that is pointwise. */
fac_name_rule fac__name_rule(const fac_operator *op);
/* The names that a rule gives the results of a call, and whether it says anything of them. errors: ARGUMENT */
fac_status fac__names_by_rule(fac_name_rule rule, const fac_schema *s, const fac_value *args, fac_dim_names *out);
/* The first time, registers the kernels that carry the rules out; before, no call looks for them. */
fac_status fac__names_begin(void);

#endif
