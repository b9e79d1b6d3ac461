/* Before an operator over lists writes: each entry may be written, and has a version counter. */
#include "autograd/foreach.h"
#include "autograd/node.h"
#include "core/tensor_make.h"

fac_status fac__foreach_check_written(const fac_foreach *each) {
    for (size_t i = 0; i < each->lists[0].n; i++) {
        fac_tensor *t = each->lists[0].v[i];
        FAC_TRY(fac__check_writable(t));
        if (!(t->flags & FAC_TF_DENSE)) FAC_TRY(fac__check_no_overlap(t));
        if (fac__foreach_is_recorded(each, i)) FAC_TRY(fac__check_inplace(t, true));
        FAC_TRY(fac__version_make(t));
    }
    return FAC_OK;
}
