/* Pointwise operations on CUDA devices. */
#ifndef FAC_SRC_BACKEND_CUDA_OPS_POINTWISE_H
#define FAC_SRC_BACKEND_CUDA_OPS_POINTWISE_H

#include "backend/cuda/kernels/plan.h"
#include "backend/cuda/ops/run.h"
#include "backend/cuda/runtime/transfer.h"
#include "iter/iter.h"
#include "ops/loop.h"

/* A fac_pointwise_run. */
fac_status fac__cuda_pointwise(const fac_iter *it, fac_loop_id id, const char *op, fac_dtype out,
                               const fac_loop_args *args);
/* Every element of dst <- v. */
fac_status fac__cuda_fill(fac_tensor *dst, fac_scalar v);

#endif
