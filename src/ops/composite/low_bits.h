/* What kernels of products with weights of few bits share with the same products made of other operators. */
#ifndef FAC_SRC_OPS_COMPOSITE_LOW_BITS_H
#define FAC_SRC_OPS_COMPOSITE_LOW_BITS_H

#include "core/tensor.h"

/* The operands of _weight_int8pack_mm, _weight_int4pack_mm_for_cpu and, in halves if `four`, of embeddings of packed rows. */
fac_status fac__check_int8pack(const fac_tensor *self, const fac_tensor *mat2, const fac_tensor *scales);
fac_status fac__check_int4pack(const fac_tensor *self, const fac_tensor *mat2, int64_t group,
                               const fac_tensor *numbers);
fac_status fac__check_look_up(const fac_tensor *weight, const fac_tensor *indices, bool four);
/* Temporaries, on any device: codes of 4 bits less 8, as float32 [n, k / group, group]; and the weights they stand for, [n, k]. */
fac_tensor *fac__int4_centred(fac_tensor *mat2, int64_t group);
fac_tensor *fac__int4_weights(fac_tensor *mat2, int64_t group, fac_tensor *numbers);
/* Owned: x @ w.T, summed in float32, in the dtype of x. w float32. Nothing is recorded. */
fac_status fac__float_product(fac_tensor *x, fac_tensor *w, fac_tensor **out);

#endif
