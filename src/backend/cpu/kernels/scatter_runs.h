/* Runs of scattered elements. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_SCATTER_RUNS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_SCATTER_RUNS_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/gather.h"

/* So many runs, one after the other, and how far each begins from the one before. */
typedef struct fac_scatter_rows {
    int64_t n, dst, index, src;
} fac_scatter_rows;

/* dst[i * dst_step + index[i * index_step] * step] = op(what is there, src[i * src_step]) for n points; steps in elements. */
typedef void (*fac_scatter_run_fn)(void *dst, int64_t dst_step, const int64_t *index, int64_t index_step, int64_t step,
                                   const void *src, int64_t src_step, int64_t n, fac_scatter_rows rows);
#define FAC_SCATTER_ONE_ROW ((fac_scatter_rows){.n = 1})
/* The loop for a dtype and operation; NULL if there is none (the largest of complex numbers). */
FAC_ISA_DECLARE(fac_scatter_run_fn, fac__scatter_pick, (fac_dtype d, fac_scatter_op op));

#endif
