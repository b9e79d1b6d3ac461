/* Matrix products on the CPU: C = beta * C + alpha * A B for every dtype, any strides, batched. Results are bitwise the
   same for any number of threads (of one build, instruction set and set of libraries). */
#ifndef FAC_SRC_BACKEND_CPU_BLAS_H
#define FAC_SRC_BACKEND_CPU_BLAS_H

#include "backend/cpu/parallel.h"

/* Element (b, i, j) of a batch of matrices is at data + (b*batch + i*row + j*col) * item size. Strides are in elements;
   those of inputs may be zero. */
typedef struct fac_gemm_matrix {
    const void *data;
    int64_t row, col, batch;
    bool conj; /* complex: the conjugate is meant */
} fac_gemm_matrix;

typedef struct fac_gemm {
    fac_dtype dtype;   /* of A and B; anything but bool. f16 and bf16 are summed in f32, integers wrap */
    fac_dtype c_dtype; /* of C; 0: dtype. f16 and bf16 inputs may have an f32 C */
    int64_t batch, m, n, k;
    fac_gemm_matrix a; /* [batch, m, k] */
    fac_gemm_matrix b; /* [batch, k, n] */
    void *c;           /* [batch, m, n]; may not overlap A, B or itself */
    int64_t c_row, c_col, c_batch;
    const void *from; /* [batch, m, n], which beta multiplies in place of C; NULL unless fac__gemm_takes_from */
    int64_t from_row, from_batch; /* a row has no gaps; from_row is 0 if all are the same */
    bool may_round;         /* float32 factors may be rounded to bfloat16 where that is faster; sums stay float32 */
    fac_scalar alpha, beta; /* beta == 0: C is not read, so NaN in it does not matter */
    fac_workspace scratch;  /* none: taken before C is written, and given back */
} fac_gemm;

/* True if g, complete but for `from`, may be given one. It then need not be copied to C beforehand; the bits are the same. */
bool fac__gemm_takes_from(const fac_gemm *g);

/* errors, all before C is written: DTYPE for bool; MEMORY unless g has scratch; OVERFLOW */
fac_status fac__gemm(const fac_gemm *g);

/* Bytes of scratch with which g, complete but for its pointers, and any product like it of at most its m, n and k, needs no
   memory on `threads` threads. For products within a chunk of parallel work, which may not allocate, and for those whose C
   is filled beforehand. */
int64_t fac__gemm_scratch(const fac_gemm *g, int threads);

#endif
