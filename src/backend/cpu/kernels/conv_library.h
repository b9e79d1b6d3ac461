/* Convolutions through oneDNN. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_CONV_LIBRARY_H
#define FAC_SRC_BACKEND_CPU_KERNELS_CONV_LIBRARY_H

#include "ops/conv.h"

/* Computes one side of an f32 convolution from the two others where oneDNN is built in and the faster way; *done says whether it was.
   side: row-major arrays of the whole batch; bias: of the result's channels, NULL for none (and for a weight).
   errors: MEMORY */
fac_status fac__conv_library(const fac_conv *c, fac_conv_side result, float *const side[FAC_CONV_SIDES],
                             const float *bias, bool *done);

#endif
