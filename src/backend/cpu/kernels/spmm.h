/* Inner loops of a matrix of compressed rows, or rows of blocks, times a dense one. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SPMM_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SPMM_H

#include "backend/cpu/cpu.h"

/* Of row-major blocks: row i of blocks of `out`, n wide, = the sum over k in [begin[i], begin[i + 1]) of block k, height by width, times
   the rows of `dense` from columns[k] * width, in order. */
typedef struct fac_spmm {
    const int64_t *begin, *columns;
    const void *values, *dense;
    void *out;
    int64_t n, height, width;
    int64_t z; /* blocks of all rows */
} fac_spmm;
/* Rows of blocks [first, last). */
FAC_ISA_DECLARE(void, fac__spmm_f32, (const fac_spmm *s, int64_t first, int64_t last));
FAC_ISA_DECLARE(void, fac__spmm_f64, (const fac_spmm *s, int64_t first, int64_t last));
/* The same of single elements, whose terms' largest, or with sign -1 least, takes the place of the sum: NaN where one is, 0 without any. */
FAC_ISA_DECLARE(void, fac__spmm_extremes_f32, (const fac_spmm *s, int64_t first, int64_t last, float sign));
FAC_ISA_DECLARE(void, fac__spmm_extremes_f64, (const fac_spmm *s, int64_t first, int64_t last, double sign));
/* Which elements give these terms, counted over all rows, in int64: the first of equal ones, or of those that are NaN; z without any. */
FAC_ISA_DECLARE(void, fac__spmm_winners_f32, (const fac_spmm *s, int64_t first, int64_t last, float sign));
FAC_ISA_DECLARE(void, fac__spmm_winners_f64, (const fac_spmm *s, int64_t first, int64_t last, double sign));
/* Whether one of n indices is not in [0, size). */
FAC_ISA_DECLARE(bool, fac__some_beyond, (const int64_t *index, int64_t n, int64_t size));

#endif
