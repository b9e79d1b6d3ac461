/* Matrix products of integers. */
#ifndef FAC_SRC_BACKEND_CPU_BLAS_INT_H
#define FAC_SRC_BACKEND_CPU_BLAS_INT_H

#include "backend/cpu/blas.h"

/* The product of integer matrices, modulo 2^bits; alpha and beta are taken as integers. Rows run in parallel. */
fac_status fac__gemm_int(const fac_gemm *g);

#endif
