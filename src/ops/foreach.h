/* What operators over lists have in common, which are generated (`foreach` in the operator files): the checks of the lists, and how
   entries are written in place so that a call that fails changes nothing. */
#ifndef FAC_SRC_OPS_FOREACH_H
#define FAC_SRC_OPS_FOREACH_H

#include "dispatch/operator.h"

/* The arguments of a call. */
typedef struct fac_foreach {
    fac_tensors lists[4]; /* n of them; those that are written in place first */
    size_t n;
    fac_tensor *single;  /* a tensor that meets every entry, or NULL */
    fac_scalars numbers; /* one for each entry, or none */
} fac_foreach;

/* There is an entry, and all lists have as many. errors: ARGUMENT */
fac_status fac__foreach_check(const fac_foreach *each);

/* Room for a result of each entry; the end returns st, and frees them if it is a failure. */
fac_status fac__foreach_begin(const fac_foreach *each, fac_tensor_list *out);
fac_status fac__foreach_end(fac_tensor_list *out, fac_status st);

/* The same with results made: `first`, which is counted, and what is of its dtype and of the sizes of the other entries. */
fac_status fac__foreach_results(const fac_foreach *each, fac_tensor *first, fac_tensor_list *out);

/* True if what is done of entry i is recorded for going backward. */
bool fac__foreach_is_recorded(const fac_foreach *each, size_t i);

/* True if entries can be written one after the other, as all succeed if the first does: they have one dtype, lie without gaps,
   agree in sizes and dtype with what meets them, share memory with that whole or not at all, and nothing is recorded; the numbers
   are of one kind and fit every floating dtype. */
bool fac__foreach_is_plain(const fac_foreach *each);
/* True if one loop can serve all entries as they lie: tensors of the CPU, of one dtype, without gaps, the same sizes at each place, and
   no list of numbers; and `part` would go straight to its kernel, as nothing is recorded and nobody listens. */
bool fac__foreach_is_flat(const fac_foreach *each, const fac_operator *part);
/* What the functional form computes from while entries may fail: the entries, or recorded copies where the graph would keep what is
   about to be overwritten. */
fac_status fac__foreach_before(const fac_foreach *each, fac_tensor_list *out);
/* Each result can be copied over its entry of the first list. errors: DTYPE, SHAPE, DEVICE */
fac_status fac__foreach_check_results(const fac_foreach *each, const fac_tensor_list *made);

#endif
