/* Integer products, cut into blocks of rows. */
#include "backend/cpu/blas_int.h"
#include "backend/cpu/parallel.h"
#include "core/scalar.h"

enum {
    BLOCK_ROWS = 32,  /* which share what is packed of B */
    VECTOR_ROWS = 128 /* of a product with a vector: lanes are rows where A is column by column */
};

typedef struct int_job {
    const fac_gemm *g;
    int64_t blocks, rows; /* blocks of rows per matrix */
    uint64_t alpha, beta;
} int_job;

static fac_status rows(void *ctx, int64_t begin, int64_t end) {
    const int_job *job = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % job->blocks * job->rows, last = fac__min(first + job->rows, job->g->m);
        FAC_ISA_PICK(fac__gemm_int_rows)(job->g, i / job->blocks, first, last, job->alpha, job->beta);
    }
    return FAC_OK;
}

fac_status fac__gemm_int(const fac_gemm *g) {
    const int64_t some = g->n == 1 ? VECTOR_ROWS : BLOCK_ROWS;
    const int_job job = {.g = g,
                         .blocks = fac__div_up(g->m, some),
                         .rows = some,
                         .alpha = (uint64_t)fac__scalar_i64(g->alpha),
                         .beta = (uint64_t)fac__scalar_i64(g->beta)};
    const int64_t each = fac__min(some, g->m) * (g->n * g->k + 1);
    return fac__parallel_for(0, g->batch * job.blocks, fac__grain(2 * FAC_GRAIN, each), rows, (void *)(uintptr_t)&job);
}
