/* Integer products: nobody's hot path, so rows of C are summed in wrapping 64-bit arithmetic, whose low bits are right for
   every narrower type. */
#include "backend/cpu/blas_int.h"
#include "backend/cpu/parallel.h"
#include "core/scalar.h"

enum { COLUMNS = 128 /* of C summed together */ };

typedef struct int_job {
    const fac_gemm *g;
    uint64_t alpha, beta;
} int_job;

#define ROW(name, E)                                                                        \
    static void name(const int_job *job, int64_t batch, int64_t i) {                        \
        const fac_gemm *g = job->g;                                                         \
        const E *a = (const E *)g->a.data + batch * g->a.batch + i * g->a.row;              \
        const E *b = (const E *)g->b.data + batch * g->b.batch;                             \
        E *c = (E *)g->c + batch * g->c_batch + i * g->c_row;                               \
        for (int64_t j0 = 0; j0 < g->n; j0 += COLUMNS) {                                    \
            uint64_t sum[COLUMNS] = {0};                                                    \
            int64_t n = fac__min(COLUMNS, g->n - j0);                                       \
            for (int64_t p = 0; p < g->k; p++) {                                            \
                uint64_t x = (uint64_t)a[p * g->a.col];                                     \
                const E *row = b + p * g->b.row + j0 * g->b.col;                            \
                for (int64_t j = 0; j < n; j++) sum[j] += x * (uint64_t)row[j * g->b.col];  \
            }                                                                               \
            for (int64_t j = 0; j < n; j++) {                                               \
                E *e = c + (j0 + j) * g->c_col;                                             \
                *e = (E)(job->alpha * sum[j] + (job->beta ? job->beta * (uint64_t)*e : 0)); \
            }                                                                               \
        }                                                                                   \
    }
ROW(row_u8, uint8_t)
ROW(row_i8, int8_t)
ROW(row_i16, int16_t)
ROW(row_i32, int32_t)
ROW(row_i64, int64_t)
#undef ROW

static fac_status rows(void *ctx, int64_t begin, int64_t end) {
    const int_job *job = ctx;
    for (int64_t r = begin; r < end; r++) {
        int64_t batch = r / job->g->m, i = r % job->g->m;
        switch (job->g->dtype) {
        case FAC_U8: row_u8(job, batch, i); break;
        case FAC_I8: row_i8(job, batch, i); break;
        case FAC_I16: row_i16(job, batch, i); break;
        case FAC_I32: row_i32(job, batch, i); break;
        default: row_i64(job, batch, i); break;
        }
    }
    return FAC_OK;
}

fac_status fac__gemm_int(const fac_gemm *g) {
    int_job job = {g, (uint64_t)fac__scalar_i64(g->alpha), (uint64_t)fac__scalar_i64(g->beta)};
    return fac__parallel_for(0, g->batch * g->m, fac__grain(FAC_GRAIN, g->n * g->k + 1), rows, &job);
}
