/* Rows of a table scaled down to a norm. The rows that indices name are marked, then taken in order, each once; a row's norm is
   summed in double, in order, so results do not depend on the number of threads. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "ops_gen.h"
#include <math.h>

typedef struct renorm_job {
    const uint8_t *marked; /* per row of the table */
    char *table;
    int64_t row, step, width; /* from row to row in bytes, and along a row in elements */
    fac_dtype dtype;
    double most, p;
} renorm_job;

static char *place(const renorm_job *j, int64_t row, int64_t at) {
    return j->table + row * j->row + at * j->step * fac__dtype_size(j->dtype);
}

/* What one element adds to the sum whose root is the norm; of an infinite norm the larger one stays. */
static double folded(double sum, double x, double p) {
    const double size = fabs(x);
    if (p == 2) return sum + x * x;
    if (isinf(p)) return size > sum || size != size ? size : sum;
    return sum + (p == 1 ? size : pow(size, p));
}

static double norm_of(const renorm_job *j, int64_t row) {
    fac_tile_buf t;
    double sum = 0;
    for (int64_t at = 0; at < j->width; at += FAC_TILE) {
        const int64_t n = fac__min(FAC_TILE, j->width - at);
        fac__tile_load(FAC_ACC_F64, t.f64, place(j, row, at), j->dtype, j->step, n);
        for (int64_t i = 0; i < n; i++) sum = folded(sum, t.f64[i], j->p);
    }
    if (j->p == 2) return sqrt(sum);
    return isinf(j->p) || j->p == 1 ? sum : pow(sum, 1 / j->p);
}

static void scale_row(const renorm_job *j, int64_t row, double by) {
    fac_tile_buf t;
    for (int64_t at = 0; at < j->width; at += FAC_TILE) {
        const int64_t n = fac__min(FAC_TILE, j->width - at);
        fac__tile_load(FAC_ACC_F64, t.f64, place(j, row, at), j->dtype, j->step, n);
        for (int64_t i = 0; i < n; i++) t.f64[i] *= by;
        fac__tile_store(FAC_ACC_F64, t.f64, place(j, row, at), j->dtype, j->step, n);
    }
}

static fac_status renorm_range(void *ctx, int64_t begin, int64_t end) {
    const renorm_job *j = ctx;
    for (int64_t row = begin; row < end; row++) {
        if (!j->marked[row]) continue;
        const double norm = norm_of(j, row);
        if (norm > j->most) scale_row(j, row, j->most / (norm + 1e-7));
    }
    return FAC_OK;
}

/* The table has been copied to the output: scales its marked rows. */
static fac_status renorm_rows(fac_tensor *out, const uint8_t *marked, double max_norm, double norm_type) {
    renorm_job j = {.marked = marked,
                    .table = fac__data(out),
                    .row = out->strides[0] * fac__item_size(out),
                    .step = out->strides[1],
                    .width = out->sizes[1],
                    .dtype = (fac_dtype)out->dtype,
                    .most = max_norm,
                    .p = norm_type};
    return fac__parallel_for(0, out->sizes[0], fac__grain(FAC_GRAIN / 4, j.width), renorm_range, &j);
}

fac_status embedding_renorm_cpu(fac_structured *s, fac_tensor *self, fac_tensor *indices, double max_norm,
                                double norm_type) {
    fac_tensor *owned, *out = s->out[0];
    const int64_t *v;
    const int64_t rows = self->sizes[0];
    FAC_TRY(fac__index_array(indices, &owned, &v));
    fac_status st = fac__check_indices(v, indices->numel, 0, rows, false);
    uint8_t *marked = st == FAC_OK ? fac__alloc_zero((size_t)(self->numel ? rows : 0) + 1) : NULL;
    if (st == FAC_OK && !marked) st = fac_error();
    for (int64_t i = 0; st == FAC_OK && self->numel && i < indices->numel; i++) marked[v[i]] = 1;
    const bool same = out == self || (out->storage == self->storage && fac__data(out) == fac__data(self));
    if (st == FAC_OK && !same) st = fac__cpu_copy(out, self);
    if (st == FAC_OK && self->numel) st = renorm_rows(out, marked, max_norm, norm_type);
    fac__free(marked);
    fac__unref(owned);
    return st;
}
