/* Copies of tensors to, from, on and between CUDA devices. */
#ifndef FAC_SRC_BACKEND_CUDA_OPS_TRANSFER_H
#define FAC_SRC_BACKEND_CUDA_OPS_TRANSFER_H

#include "core/tensor.h"

/* The elements of src, converted and broadcast, over those of dst; at least one of them lies on a CUDA device, and dst's
   elements do not overlap each other. The host waits unless non_blocking is set and it is safe. */
fac_status fac__cuda_copy_tensor(fac_tensor *dst, fac_tensor *src, bool non_blocking);
/* The same on one CUDA device, neither in each other's memory, by a kernel (kernels/). */
fac_status fac__cuda_copy_elements(fac_tensor *dst, fac_tensor *src);

#endif
