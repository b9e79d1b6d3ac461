/* Pointwise operations on CUDA devices. */
#ifndef FAC_SRC_BACKEND_CUDA_OPS_POINTWISE_H
#define FAC_SRC_BACKEND_CUDA_OPS_POINTWISE_H

#include "backend/cuda/kernels/plan.h"
#include "backend/cuda/ops/run.h"
#include "backend/cuda/ops/transfer.h"
#include "ops/loop.h"

/* Registers CUDA for pointwise operators. Called by fac_init. */
fac_status fac__cuda_ops_init(void);
/* Every element of dst <- v. */
fac_status fac__cuda_fill(fac_tensor *dst, fac_scalar v);

#endif
