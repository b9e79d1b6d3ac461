/* Gathering: runs along the fastest dimension, in one piece where the index does not change within a run. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/pointwise.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include <stdatomic.h>

enum { ROWS_AHEAD = 2, BYTES_AHEAD = 1024 };

void fac__walk_of(const fac_tensor *t, fac_walk *out) {
    out->ndim = t->ndim ? t->ndim : 1;
    out->data = fac__data(t);
    out->sizes[0] = out->strides[0] = 1;
    for (int d = 0; d < t->ndim; d++) out->sizes[d] = t->sizes[d], out->strides[d] = t->strides[d];
}

/* ---- indices -------------------------------------------------------------------------------------------------------------- */

fac_status fac__index_array(fac_tensor *index, fac_tensor **out, const int64_t **out_v) {
    FAC_CHECK(index->dtype == FAC_I64 || index->dtype == FAC_I32 || !index->numel, FAC_ERR_DTYPE,
              "Expected dtype int32 or int64 for index, got %s", fac_dtype_name((fac_dtype)index->dtype));
    FAC_TRY(fac__cpu_contiguous(index, out));
    if (index->dtype == FAC_I32) {
        fac_tensor *narrow = *out;
        fac_status st = fac__empty(index->sizes, index->ndim, FAC_I64, index->device, out);
        if (st == FAC_OK && index->numel)
            fac__tile_load(FAC_ACC_I64, fac__data(*out), fac__data(narrow), FAC_I32, 1, index->numel);
        fac__unref(narrow);
        if (st != FAC_OK) return st;
    }
    *out_v = fac__data(*out);
    return FAC_OK;
}

typedef struct check_job {
    const int64_t *v;
    int64_t low, size;
    atomic_bool outside;
} check_job;

static fac_status check_range(void *ctx, int64_t begin, int64_t end) {
    check_job *j = ctx;
    if (!FAC_ISA_PICK(fac__indices_within)(j->v + begin, 1, end - begin, j->low, j->size))
        atomic_store_explicit(&j->outside, true, memory_order_relaxed);
    return FAC_OK;
}

bool fac__indices_plain(const int64_t *v, int64_t n, int64_t size) {
    check_job j = {.v = v, .size = size};
    (void)fac__parallel_for(0, n, 2 * FAC_GRAIN, check_range, &j); /* fails for nothing */
    return !atomic_load_explicit(&j.outside, memory_order_relaxed);
}

fac_status fac__check_indices(const int64_t *v, int64_t n, int64_t dim, int64_t size, bool negative) {
    int64_t low = negative ? -size : 0;
    check_job j = {.v = v, .low = low, .size = size};
    FAC_TRY(fac__parallel_for(0, n, 2 * FAC_GRAIN, check_range, &j));
    if (!atomic_load_explicit(&j.outside, memory_order_relaxed)) return FAC_OK;
    for (int64_t i = 0; i < n; i++)
        FAC_CHECK(v[i] >= low && v[i] < size, FAC_ERR_INDEX,
                  "index %lld is out of bounds for dimension %lld with size %lld", (long long)v[i], (long long)dim,
                  (long long)size);
    return FAC_OK;
}

/* Within a nest of one operand. */
typedef struct strided_check {
    check_job check;
    fac_nest nest;
} strided_check;

static fac_status check_strided(void *ctx, int64_t begin, int64_t end) {
    strided_check *j = ctx;
    fac_cursor c;
    fac__nest_seek(&j->nest, 1, begin, &c);
    for (int64_t i = begin, n; i < end; i += n) {
        n = fac__min(fac__nest_run(&j->nest, &c), end - i);
        if (!FAC_ISA_PICK(fac__indices_within)(j->check.v + c.offset[0], fac__nest_step(&j->nest, 0), n, 0,
                                               j->check.size))
            atomic_store_explicit(&j->check.outside, true, memory_order_relaxed);
        fac__nest_advance(&j->nest, 1, n, &c);
    }
    return FAC_OK;
}

fac_status fac__index_elements(fac_tensor *index, int64_t dim, int64_t size, fac_tensor **owned) {
    if (index->dtype == FAC_I64 && !fac__is_contiguous(index)) {
        strided_check j = {.check = {.v = fac__data(index), .size = size}};
        const int64_t *strides[] = {index->strides};
        fac__nest_build(&j.nest, index->sizes, index->ndim, UINT64_MAX, 1, strides, true);
        FAC_TRY(fac__parallel_for(0, j.nest.count, 2 * FAC_GRAIN, check_strided, &j));
        if (!atomic_load_explicit(&j.check.outside, memory_order_relaxed)) return *owned = fac__ref(index), FAC_OK;
    }
    const int64_t *v;
    FAC_TRY(fac__index_array(index, owned, &v));
    const fac_status st = fac__check_indices(v, index->numel, dim, size, false);
    if (st != FAC_OK) fac__unref(*owned);
    return st;
}

fac_status fac__wrap_indices(int64_t *v, int64_t n, int64_t dim, int64_t size) {
    FAC_TRY(fac__check_indices(v, n, dim, size, true));
    for (int64_t i = 0; i < n; i++) v[i] += v[i] < 0 ? size : 0;
    return FAC_OK;
}

/* ---- gathering --------------------------------------------------------------------------------------------------------------- */

typedef struct gather_job {
    const fac_gather_plan *g;
    fac_nest nest; /* out, index, src */
} gather_job;

static fac_status gather_range(void *ctx, int64_t begin, int64_t end) {
    const gather_job *j = ctx;
    const fac_gather_plan *g = j->g;
    int64_t item = (int64_t)g->item, to = fac__nest_step(&j->nest, 0), by = fac__nest_step(&j->nest, 1),
            from = fac__nest_step(&j->nest, 2);
    fac_cursor c;
    fac__nest_seek(&j->nest, 3, begin, &c);
    for (int64_t i = begin; i < end;) {
        int64_t n = fac__min(fac__nest_run(&j->nest, &c), end - i);
        char *out = g->out + c.offset[0] * item;
        const int64_t *index = g->index + c.offset[1];
        const char *src = g->src + c.offset[2] * item;
        if (by == 0 || n == 1)
            fac__items_copy(g->item, out, to * item, src + *index * g->step * item, from * item, n);
        else
            FAC_ISA_PICK(fac__gather_varying)(g->item, out, to, index, by, src, from, g->step, n);
        fac__nest_advance(&j->nest, 3, n, &c);
        i += n;
    }
    return FAC_OK;
}

fac_status fac__gather_run(const fac_gather_plan *g) {
    gather_job j = {.g = g};
    const int64_t *strides[3] = {g->out_strides, g->index_strides, g->src_strides};
    fac__nest_build(&j.nest, g->sizes, g->ndim, UINT64_MAX, 3, strides, true);
    return fac__parallel_for(0, j.nest.count, FAC_GRAIN / 4, gather_range, &j);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------- */

typedef struct rows_job {
    char *out;
    const char *src;
    const int64_t *index;
    int64_t rows, row;
    bool stream;
} rows_job;

/* The processor foresees what follows within a row, but not which row is next. */
static void fetch_ahead(const rows_job *j, int64_t i) {
    if (i >= j->rows) return;
    const char *next = j->src + j->index[i] * j->row;
    int64_t bytes = fac__min(j->row, BYTES_AHEAD);
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(next + b);
}

static fac_status rows_range(void *ctx, int64_t begin, int64_t end) {
    const rows_job *j = ctx;
    if (!j->stream && FAC_ISA_PICK(fac__gather_short_rows)(j->out, j->src, j->index, j->rows, j->row, begin, end))
        return FAC_OK;
    for (int64_t i = begin; i < end; i++) {
        const char *from = j->src + j->index[i] * j->row;
        fetch_ahead(j, i + ROWS_AHEAD);
        if (j->stream)
            fac__stream_copy(j->out + i * j->row, from, j->row);
        else
            fac__items_copy(1, j->out + i * j->row, 1, from, 1, j->row);
    }
    if (j->stream) fac__stream_fence();
    return FAC_OK;
}

/* As much is read as written, so half the size that is written past the cache elsewhere fills it. */
fac_status fac__gather_rows(char *out, const char *src, const int64_t *index, int64_t rows, int64_t row) {
    rows_job j = {out, src, index, rows, row, .stream = rows * row >= FAC_STREAM_BYTES / 2 && row >= 64};
    return fac__parallel_for(0, rows, fac__grain(2 * FAC_GRAIN, row), rows_range, &j);
}
