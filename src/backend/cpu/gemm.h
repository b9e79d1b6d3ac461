/* The packed matrix product, one variant per instruction set (gemm.isa.c), and the matrix-vector products beside it
   (gemv.isa.c) and products of pairs of bf16 (gemm_bf16.isa.c). Callers are in blas.c; onednn.h takes the same blocks. */
#ifndef FAC_SRC_BACKEND_CPU_GEMM_H
#define FAC_SRC_BACKEND_CPU_GEMM_H

#include "backend/cpu/cpu.h"

#define FAC_GEMM_KC 256 /* depth of one pass: a packed strip of B then stays in the L1 cache */

/* A matrix in memory: element (i, j) is at data + (i*rs + j*cs) * item size. */
typedef struct fac_gemm_operand {
    const char *data;
    int64_t rs, cs;
    bool conj;
} fac_gemm_operand;

/* One block of C: c = from + alpha * A[m,k] B[k,n]. A and B hold `dtype`; C holds its compute type (f32 for f16, bf16, f32
   and c64; f64 for f64 and c128), row-major with leading dimension ldc. A complex C is two such planes, real and
   imaginary. Each element of C is the same sum in the same order wherever the block's borders are. */
typedef struct fac_gemm_block {
    fac_dtype dtype;
    int64_t m, n, k;
    fac_gemm_operand a, b;
    double alpha[2]; /* real, imaginary */
    void *c, *c_imag;
    int64_t ldc;
    const void
        *from; /* [m, n] of C's type, real: c itself, other rows ldf apart (0: one row for all), or NULL for zeros */
    int64_t ldf;
    void *scratch; /* fac_gemm_kernels.scratch_bytes(m, n, k, dtype), aligned to 64 */
} fac_gemm_block;

typedef void fac_gemm_block_fn(const fac_gemm_block *g);

/* What one instruction set offers. All matrices of the vector kernels are real, f32, f64, f16 or bf16; vectors x and y
   are contiguous in the compute type. */
typedef struct fac_gemm_kernels {
    int mr, nr_f32, nr_f64;
    bool large; /* `block` takes more rows than a cache holds at the cost of as many strips' scratch */
    size_t (*scratch_bytes)(int64_t m, int64_t n, int64_t k, fac_dtype dtype);
    fac_gemm_block_fn *block;
    /* The same of f32 or f64, alpha 1, where the rows of A and the columns of B lie along k: without packing. Or NULL. */
    fac_gemm_block_fn *dots;
    /* y[i] = sum_j a[i*lda + j] * x[j] for i < m. Each y[i] depends on its row alone. */
    void (*gemv_rows)(fac_dtype dtype, int64_t m, int64_t k, const void *a, int64_t lda, const void *x, void *y);
    /* y[j] (+)= sum_i x[i] * a[i*lda + j] for j < n, summed in the order of i. */
    void (*gemv_cols)(fac_dtype dtype, int64_t k, int64_t n, const void *a, int64_t lda, const void *x, void *y,
                      bool accumulate);
    /* c = beta * c + t, each of n, rounded after the product too. */
    void (*merge)(float *c, float beta, const float *t, int64_t n);
} fac_gemm_kernels;

/* Whether the processor multiplies pairs of bf16, at the level of AVX-512 (gemm_bf16.isa.c), and whether this is faster than to multiply
   floats: Intel's processors take two cycles for 32 products of pairs, and half a cycle for 16 of floats. Convolutions of oneDNN have AMX
   besides, where there is some. */
extern bool fac__cpu_bf16, fac__cpu_bf16_fast, fac__cpu_bf16_conv;

FAC_ISA_DECLARE(const fac_gemm_kernels *, fac__gemm_kernels, (void));

/* As `block`, of k > 0, with no more scratch: of bf16 with an alpha of 1, or of f32 on factors rounded to bf16. NULL where the
   processor has no dot products of these. */
FAC_ISA_DECLARE(fac_gemm_block_fn *, fac__gemm_bf16, (void));
/* The same of bf16 where the rows of A and the columns of B lie along k: without packing. */
FAC_ISA_DECLARE(fac_gemm_block_fn *, fac__gemm_bf16_dots, (void));

/* As gemv_rows, of a bf16 x. NULL likewise. */
typedef void fac_gemv_bf16_fn(int64_t m, int64_t k, const uint16_t *a, int64_t lda, const uint16_t *x, float *y);
FAC_ISA_DECLARE(fac_gemv_bf16_fn *, fac__gemv_bf16, (void));

#endif
