/* Factors of real matrices and systems of triangles, one variant per instruction set (factor.isa.c), and how they are cut into blocks
   and shared among threads (factor.c). f32 and f64; complex matrices go to LAPACK, but for the products within inverses from their
   Cholesky factors. Each number is the same sum in the same order for any number of threads.

   Matrices that are factored are column-major, with columns ld elements apart: ld is fac__factor_ld(rows), and a column's elements
   beyond its rows are memory that may be written. */
#ifndef FAC_SRC_BACKEND_CPU_FACTOR_H
#define FAC_SRC_BACKEND_CPU_FACTOR_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"

/* Element (i, j) is at a + (i*rs + j*cs) * item size. Only one triangle is read: below the diagonal, or above it if `upper`. */
typedef struct fac_triangle {
    const void *a;
    int64_t rs, cs;
    bool upper, unit; /* unit: ones are meant on the diagonal, which is not read */
} fac_triangle;

/* X[n, k] with T1 T2 X = B (T1 X = B if steps is 1); t[0] is solved first. B's row order_in[i] stands for row i, and X's row i is
   written to row order_out[i]; NULL: as they are. Without b the right sides are the columns of the identity; then order_out, if any,
   speaks of columns. X may be B. */
typedef struct fac_systems {
    fac_dtype dtype;
    int64_t n, k;
    int steps;
    fac_triangle t[2];
    const void *b;
    int64_t b_rs, b_cs;
    void *x;
    int64_t x_rs, x_cs;
    const int *order_in, *order_out;
} fac_systems;

typedef struct fac_factor_kernels {
    int strip_f32, strip_f64; /* right sides that are solved together */
    /* Columns [first, first + strip) of X, through a tile of n x strip numbers, aligned to 64. */
    void (*solve)(const fac_systems *s, int64_t first, void *tile);
    /* The lower factor in place; elements above the diagonal are not read, and left undefined. Returns 0, or the number of the first
       diagonal element that is not positive, counted from one; then the rest is left as it is. */
    int (*cholesky)(fac_dtype dtype, int64_t n, void *a, int64_t ld);
    /* L and U in place, pivots counted from zero. `tile`: min(m, n) x 16 numbers. Returns 0, or the number of the first zero on U's
       diagonal, counted from one. */
    int (*lu)(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, int *pivots, void *tile);
    /* Bunch and Kaufman's factors of the lower triangle in place, as LAPACK's sytrf leaves them; its pivots, and what it returns. For n up
       to FAC_LDL_MOST: columns are updated one by one. */
    int (*ldl)(fac_dtype dtype, int64_t n, void *a, int64_t ld, int *pivots);
    /* Reflections and R in place of a row-major matrix whose rows are fac__factor_row(n) apart, with zeros behind its columns. `room`:
       fac__factor_ld(m) x FAC_QR_BLOCK numbers, aligned to 64. */
    void (*qr)(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, void *tau, void *room);
    /* C[m, cols] = Q C, or its transpose times C, for k reflections of m rows; C is such a matrix too. `identity`: it is one. */
    void (*qr_apply)(fac_dtype dtype, int64_t m, int64_t k, const void *a, int64_t ld, const void *tau, bool transpose,
                     void *c, int64_t ldc, int64_t cols, bool identity, void *room);
    /* For few columns of many rows, which lie together: reflections and R in place of v's n <= FAC_QR_BLOCK columns of m >= FAC_QR_TALL rows.
       Then, from these, Q's first n columns; what is in v is of no use afterwards. NULL where there is no such way. */
    void (*qr_columns)(fac_dtype dtype, int64_t m, int64_t n, void *v, int64_t ld, void *tau);
    void (*qr_columns_give)(fac_dtype dtype, int64_t m, int64_t n, void *v, int64_t ld, const void *tau, void *q,
                            int64_t ldq);
} fac_factor_kernels;
enum { FAC_QR_BLOCK = 8, FAC_QR_TALL = 64, FAC_LDL_MOST = 256 };

FAC_ISA_DECLARE(const fac_factor_kernels *, fac__factor_kernels, (void));

static inline bool fac__factor_takes(fac_dtype d) { return d == FAC_F32 || d == FAC_F64; }
/* Elements from one column to the next: whole vectors, and not so that columns meet in the cache. */
int64_t fac__factor_ld(int64_t rows, fac_dtype dtype);
/* Elements from one row to the next for QR, with room for a strip that begins within the columns: of a single block, at the first. */
static inline int64_t fac__factor_row(int64_t cols, fac_dtype dtype) {
    if (cols <= FAC_QR_BLOCK) return dtype == FAC_F64 ? 8 : 16;
    return fac__factor_ld(cols + 16, dtype);
}
/* How many threads one matrix of a batch of `count` may be given, and bytes of scratch for its m x n factors and any number of right
   sides. */
int fac__factor_threads(int64_t count);
int64_t fac__factor_scratch(int64_t m, int64_t n, fac_dtype dtype, int threads);
/* As fac__parallel_for_scratch over the matrices of a batch, each of about `work` multiplications. */
fac_status fac__factor_for(int64_t n, double work, int64_t bytes, fac_scratch_fn fn, void *ctx);

/* From within a chunk or outside of any, with scratch memory for the threads that they use. LU's pivots are counted from one. Factors
   return what the kernels do or, if a product within them failed, a negative number: the error is the thread's, and what is in `a` and
   `pivots` is of no use. */
void fac__solve_systems(const fac_systems *s, fac_workspace scratch);
int fac__factor_cholesky(fac_dtype dtype, int64_t n, void *a, int64_t ld, fac_workspace scratch);
/* x[n, n] = (L L^H)^-1, Hermitian to the bit, for a lower triangle L without zeros on the diagonal. A complex L is x itself, which its
   inverse takes the place of; LAPACK is loaded. errors: the product's */
fac_status fac__factor_inverse(fac_dtype dtype, int64_t n, const fac_triangle *l, void *x, int64_t ld,
                               fac_workspace scratch);
int fac__factor_lu(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, int *pivots, fac_workspace scratch);

#endif
