/* Checks of the parts of sparse tensors. What indices hold is looked at on the host; on the meta device they hold nothing. */
#ifndef FAC_SRC_OPS_SPARSE_CHECK_H
#define FAC_SRC_OPS_SPARSE_CHECK_H

#include "core/tensor.h"

fac_status fac__sparse_check_coo_shapes(fac_tensor *indices, fac_tensor *values, fac_ints size);
/* Coordinates [n, z] in order of size[0, n); where `coalesced`, in order and each once. */
fac_status fac__sparse_check_coo_indices(fac_tensor *indices, fac_ints size, bool coalesced);
fac_status fac__sparse_check_compressed_shapes(fac_tensor *compressed, fac_tensor *plain, fac_tensor *values,
                                               fac_ints size, fac_layout layout);
fac_status fac__sparse_check_compressed_indices(fac_tensor *compressed, fac_tensor *plain, fac_tensor *values,
                                                fac_ints size, fac_layout layout);
/* One more than the largest index of each row of a matrix, and of a whole tensor; 0 where there are none. */
fac_status fac__sparse_largest(fac_tensor *indices, int64_t *out);
/* The operands of _spmm. */
fac_status fac__sparse_check_spmm(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_tensor *dense);
/* Those of _spmm_extremes and _spmm_winners. */
fac_status fac__sparse_check_extremes(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_tensor *dense);
fac_status fac__sparse_largest_of_all(fac_tensor *indices, int64_t *out);

#endif
