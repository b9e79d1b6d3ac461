/* The matrices in a tensor's last dimensions, as kernels hand them to LAPACK: one after the other, column-major. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_MATRICES_H
#define FAC_SRC_BACKEND_CPU_KERNELS_MATRICES_H

#include "backend/cpu/factor.h"
#include "backend/cpu/lapack.h"
#include "ops/structured.h"

/* Strides are bytes. A vector is a matrix of one column, a number one of one element. */
typedef struct fac_matrices {
    char *data;
    size_t item;
    int64_t rows, cols, row, col; /* from one row, and one column, to the next */
    int64_t count;                /* of matrices */
    int n;                        /* dimensions of the batch */
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
} fac_matrices;

/* t's last `own` dimensions (0, 1 or 2) are a matrix's. With `batch`, whose first n_batch sizes those of t broadcast to, a matrix
   may be met several times. */
fac_matrices fac__matrices(const fac_tensor *t, int own);
fac_matrices fac__matrices_over(const fac_tensor *t, int own, const int64_t *batch, int n_batch);
/* The same memory, rows and columns swapped. */
fac_matrices fac__matrices_turned(fac_matrices m);

char *fac__matrix_at(const fac_matrices *m, int64_t i);
/* Copies matrix i to and from columns that lie ld elements apart. */
void fac__matrix_pack(const fac_matrices *m, int64_t i, void *dst, int64_t ld);
void fac__matrix_unpack(const fac_matrices *m, int64_t i, const void *src, int64_t ld);

/* Where a routine writes matrix i: straight into the tensor if its columns lie as LAPACK has them, else into `scratch`, which
   fac__matrix_settle copies to the tensor. *ld: from one column to the next. */
void *fac__matrix_room(const fac_matrices *m, int64_t i, void *scratch, int *ld);
void fac__matrix_settle(const fac_matrices *m, int64_t i, const void *room, const void *scratch);
/* Where a routine reads matrix i: straight from the tensor, or from a copy in `scratch`. */
const void *fac__matrix_read(const fac_matrices *m, int64_t i, void *scratch, int *ld);

/* Copies the first rows and columns of one tensor's matrix i to another's. */
void fac__matrix_copy(const fac_matrices *to, const fac_matrices *from, int64_t i, int64_t rows, int64_t cols);
/* Zeros above (or below) the diagonal of matrix i. */
void fac__matrix_clear_triangle(const fac_matrices *m, int64_t i, bool upper);
/* Matrix i for fac__factor_*, with zeros where the last vector of a column has more lanes than there are rows. */
void fac__matrix_pack_padded(const fac_matrices *m, int64_t i, void *dst, int64_t ld);
/* Matrix i as a triangle, and as the right sides or the solutions of systems. */
fac_triangle fac__matrix_triangle(const fac_matrices *m, int64_t i, bool upper, bool unit);
void fac__matrix_sides(const fac_matrices *b, const fac_matrices *x, int64_t i, fac_systems *s);

/* Zeros above (or below) the diagonal of a column-major matrix. */
void fac__clear_triangle(char *a, int64_t ld, int64_t rows, int64_t cols, size_t item, bool upper);
/* Conjugates n numbers of a complex kind; nothing happens to real ones. */
void fac__conjugate(void *v, int64_t n, int kind);
/* False if one of n numbers is infinite or NaN. */
bool fac__all_finite(const void *v, int64_t n, int kind);
/* LAPACK counts in 32 bits. errors: OVERFLOW */
fac_status fac__lapack_sizes(const fac_tensor *t);

/* Scratch memory of several parts: each begins where fac__part says, and *total grows by it. */
static inline int64_t fac__part(int64_t *total, int64_t rows, int64_t cols, size_t item) {
    const int64_t at = *total, most = INT64_MAX / 8;
    const int64_t bytes = fac__mul_or_max(fac__mul_or_max(rows, cols), (int64_t)item);
    *total = bytes >= most - at ? most : at + fac__workspace_round(bytes);
    return at;
}
static inline int fac__ld(int64_t rows) { return (int)fac__max(1, rows); }

#endif
