/* Eigenvalues and eigenvectors of small real symmetric matrices (eigen.isa.c). Larger ones, and Hermitian ones, go to LAPACK. */
#ifndef FAC_SRC_BACKEND_CPU_EIGEN_H
#define FAC_SRC_BACKEND_CPU_EIGEN_H

#include "backend/cpu/cpu.h"

enum {
    FAC_EIGEN_MOST = 64, /* the largest n */
    FAC_EIGEN_LANES = 8  /* the most of any vector */
};

/* A column-major matrix of f32 or f64 that is finite, of which one triangle is read. */
typedef struct fac_eigen {
    fac_dtype dtype;
    int n;
    bool upper;
    const void *a;
    void *w;          /* [n]: eigenvalues, from the smallest on */
    void *v;          /* orthonormal eigenvectors as columns; NULL: none are wanted. May be a */
    int64_t lda, ldv; /* elements from one column to the next */
} fac_eigen;

/* Bytes of its room, which is aligned to 64. */
static inline int64_t fac__eigen_room(int n) {
    const int64_t ld = fac__div_up(n, FAC_EIGEN_LANES) * FAC_EIGEN_LANES;
    return (6 + 2 * n) * ld * (int64_t)sizeof(double);
}
/* False if the iteration did not end, which nobody has seen; then nothing was written. */
FAC_ISA_DECLARE(bool, fac__eigen_symmetric, (const fac_eigen *p, void *room));

#endif
