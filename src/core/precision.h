/* How exact products of float32 matrices must be: one setting of the process, for the kernels that heed it. */
#ifndef FAC_SRC_CORE_PRECISION_H
#define FAC_SRC_CORE_PRECISION_H

#include "base/base.h"
#include <facula/tensor.h>

/* A fac_matmul_precision. Read once per call of an operator, so that no product changes its mind halfway. */
extern _Atomic(int) fac__matmul_precision;

static inline bool fac__matmul_may_round(void) {
    return atomic_load_explicit(&fac__matmul_precision, memory_order_relaxed) == FAC_PRECISION_MEDIUM;
}

#endif
