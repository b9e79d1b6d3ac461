/* What a matrix product's kernel is told: C = alpha A B + beta C for each of a batch. Shared with launchers. */
#ifndef FAC_KERNEL_GEMM_H
#define FAC_KERNEL_GEMM_H

#include "kernel.h"

enum { K_TILE = 16 };

/* Strides in elements. */
typedef struct k_gemm {
    const char *a, *b;
    char *c;
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row, c_col;
    double alpha, beta;
    int64_t alpha_i, beta_i;
    int32_t dtype, item;
} k_gemm;

#endif
