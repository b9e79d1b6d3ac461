/* What code that launches kernels includes. */
#ifndef FAC_SRC_BACKEND_CUDA_KERNELS_LAUNCH_H
#define FAC_SRC_BACKEND_CUDA_KERNELS_LAUNCH_H

#include "backend/cuda/runtime/runtime.h"

/* The row of the launch table that KERNEL(name, ...) makes. */
#define FAC_CUDA_KERNEL(name) fac__cuda_kernel_##name

#endif
