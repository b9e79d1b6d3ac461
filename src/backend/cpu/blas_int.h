/* Matrix products of integers. */
#ifndef FAC_SRC_BACKEND_CPU_BLAS_INT_H
#define FAC_SRC_BACKEND_CPU_BLAS_INT_H

#include "backend/cpu/blas.h"
#include "backend/cpu/cpu.h"

/* The product of integer matrices, modulo 2^bits; alpha and beta are taken as integers. Blocks of rows run in parallel. */
fac_status fac__gemm_int(const fac_gemm *g);

/* Rows [begin, end) of one matrix of the batch (blas_int.isa.c). */
FAC_ISA_DECLARE(void, fac__gemm_int_rows,
                (const fac_gemm *g, int64_t batch, int64_t begin, int64_t end, uint64_t alpha, uint64_t beta));

#endif
