/* What autograd asks of operators over lists that write. */
#ifndef FAC_SRC_AUTOGRAD_FOREACH_H
#define FAC_SRC_AUTOGRAD_FOREACH_H

#include "ops/foreach.h"

/* Every entry of the first list may be written: no inference tensor, no leaf that is being recorded, no overlap with itself; and
   its version can be counted. */
fac_status fac__foreach_check_written(const fac_foreach *each);
/* Copies the results over the first list, once all are known to fit and their histories are recorded; frees both lists. */
fac_status fac__foreach_over(const fac_foreach *each, fac_tensor_list *before, fac_tensor_list *made, fac_status st);

#endif
