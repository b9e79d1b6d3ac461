/* Counts of small numbers. A first pass finds the largest and refuses negative ones; then numbers are cut in at most PARTS parts, by
   their number and that of the bins alone. Each part counts into a table of its own, and tables are added in order: results do
   not depend on the number of threads. Sums of weights are taken in double. */
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

enum { PARTS = 16 };

typedef union cell {
    int64_t count;
    double sum;
} cell;

typedef struct bincount {
    fac_tensor *self, *weights; /* row-major; weights NULL: counts */
    int64_t n, bins, part;
    uint64_t most[PARTS];
    cell *tables; /* [parts, bins] */
} bincount;

/* Numbers from `at` on: in place, or converted into t; *n of them. */
static const int64_t *load(const bincount *b, int64_t at, int64_t end, fac_tile_buf *t, int64_t *n) {
    *n = fac__min(FAC_TILE, end - at);
    if (b->self->dtype == FAC_I64) return (const int64_t *)fac__data(b->self) + at;
    fac__tile_load(FAC_ACC_I64, t, (const char *)fac__data(b->self) + at * fac__item_size(b->self),
                   (fac_dtype)b->self->dtype, 1, *n);
    return t->i64;
}

static int64_t end_of(const bincount *b, int64_t part) { return fac__min(b->n, (part + 1) * b->part); }

/* The largest number of each part, as unsigned: a negative one is above all others. */
static fac_status bound_part(void *ctx, int64_t begin, int64_t end) {
    bincount *b = ctx;
    const fac_fold_row_fn highest = fac__fold_get(FAC_FOLD_MAX, FAC_ACC_I64).row,
                          lowest = fac__fold_get(FAC_FOLD_MIN, FAC_ACC_I64).row;
    fac_tile_buf t;
    for (int64_t p = begin; p < end; p++) {
        int64_t most = 0, least = 0;
        for (int64_t at = p * b->part, n; at < end_of(b, p); at += n) {
            const int64_t *v = load(b, at, end_of(b, p), &t, &n);
            highest(v, n, &most);
            lowest(v, n, &least);
        }
        b->most[p] = (uint64_t)(least < 0 ? least : most);
    }
    return FAC_OK;
}

static fac_status count_part(void *ctx, int64_t begin, int64_t end) {
    const bincount *b = ctx;
    fac_tile_buf t, w;
    for (int64_t p = begin; p < end; p++) {
        cell *table = b->tables + p * b->bins;
        memset(table, 0, (size_t)b->bins * sizeof *table);
        for (int64_t at = p * b->part, n; at < end_of(b, p); at += n) {
            const int64_t *v = load(b, at, end_of(b, p), &t, &n);
            if (b->weights)
                fac__tile_load(FAC_ACC_F64, &w, (const char *)fac__data(b->weights) + at * fac__item_size(b->weights),
                               (fac_dtype)b->weights->dtype, 1, n);
            if (b->weights)
                for (int64_t i = 0; i < n; i++) table[v[i]].sum += w.f64[i];
            else
                for (int64_t i = 0; i < n; i++) table[v[i]].count++;
        }
    }
    return FAC_OK;
}

static int64_t parts_of(const bincount *b) { return b->n / b->part + (b->n % b->part != 0); }

/* The first negative number, of which there is one: for the message. */
static int64_t first_negative(const bincount *b) {
    fac_tile_buf t;
    for (int64_t at = 0, n; at < b->n; at += n) {
        const int64_t *v = load(b, at, b->n, &t, &n);
        for (int64_t i = 0; i < n; i++)
            if (v[i] < 0) return v[i];
    }
    return -1;
}

/* How many bins there are. */
static fac_status find_bins(bincount *b, int64_t minlength) {
    uint64_t most = 0;
    b->part = fac__max(FAC_GRAIN, fac__div_up(b->n, PARTS));
    FAC_TRY(fac__parallel_for(0, parts_of(b), 1, bound_part, b));
    for (int64_t p = 0; p < parts_of(b); p++) most = b->most[p] > most ? b->most[p] : most;
    FAC_CHECK(most <= INT64_MAX, FAC_ERR_ARGUMENT,
              "bincount only supports 1-d non-negative integral inputs, but one is %lld", (long long)first_negative(b));
    FAC_CHECK(most < INT64_MAX, FAC_ERR_OVERFLOW, "the number %lld has too many before it", (long long)most);
    b->bins = b->n ? (int64_t)most + 1 : 0;
    b->bins = fac__max(b->bins, minlength);
    b->part = fac__max(b->part, b->bins); /* a part has more to do than to clear and add its table */
    return FAC_OK;
}

static void add_tables(const bincount *b, int64_t parts) {
    for (int64_t p = 1; p < parts; p++)
        for (int64_t i = 0; i < b->bins; i++) {
            const cell *from = &b->tables[p * b->bins + i];
            if (b->weights)
                b->tables[i].sum += from->sum;
            else
                b->tables[i].count += from->count;
        }
}

/* Counts into an owned tensor. */
static fac_status count_all(bincount *b, fac_tensor **out) {
    fac_workspace room;
    int64_t bytes;
    const int64_t parts = fac__max(1, parts_of(b));
    const fac_dtype d = !b->weights ? FAC_I64 : b->weights->dtype == FAC_F32 ? FAC_F32 : FAC_F64;
    FAC_TRY(fac__empty(&b->bins, 1, d, b->self->device, out));
    fac_status st = fac__mul(parts * (int64_t)sizeof(cell), b->bins, &bytes)
                        ? fac__workspace_take(fac__max(1, bytes), &room)
                        : FAC_FAIL(FAC_ERR_OVERFLOW, "%lld bins are too many", (long long)b->bins);
    if (st == FAC_OK) {
        b->tables = (cell *)(void *)room.at;
        st = fac__parallel_for(0, parts, 1, count_part, b);
        add_tables(b, parts);
        if (b->bins > 0) /* else there is no memory to write */
            fac__tile_store(b->weights ? FAC_ACC_F64 : FAC_ACC_I64, b->tables, fac__data(*out), d, 1, b->bins);
        fac__workspace_give(room);
    }
    if (st != FAC_OK) fac__unref(*out), *out = NULL;
    return st;
}

static fac_status check(const fac_tensor *self, const fac_tensor *weights, int64_t minlength) {
    FAC_CHECK(self->ndim == 1, FAC_ERR_SHAPE, "bincount only supports 1-d non-negative integral inputs, got sizes %s",
              FAC_SHAPE_TEXT(self));
    FAC_CHECK(fac_dtype_is_integral((fac_dtype)self->dtype, false), FAC_ERR_DTYPE,
              "bincount only supports 1-d non-negative integral inputs, got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(minlength >= 0, FAC_ERR_ARGUMENT, "minlength should be >= 0, got %lld", (long long)minlength);
    FAC_CHECK(!weights || fac__same_sizes(weights, self), FAC_ERR_SHAPE,
              "weights should be 1-d and have the same length as input, got sizes %s for %s", FAC_SHAPE_TEXT(weights),
              FAC_SHAPE_TEXT(self));
    FAC_CHECK(!weights || !fac_dtype_is_complex((fac_dtype)weights->dtype), FAC_ERR_DTYPE,
              "weights should be real, got %s", fac_dtype_name((fac_dtype)weights->dtype));
    return FAC_OK;
}

fac_status bincount_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *weights, int64_t minlength,
                        fac_tensor **out) {
    (void)c;
    bincount b = {.n = self->numel};
    FAC_TRY(check(self, weights, minlength));
    FAC_TRY(fac__cpu_contiguous(self, &b.self));
    fac_status st = weights && b.n ? fac__cpu_contiguous(weights, &b.weights) : FAC_OK;
    if (st == FAC_OK) st = find_bins(&b, minlength);
    if (st == FAC_OK) st = count_all(&b, out);
    fac__unref(b.self);
    fac__unref(b.weights);
    return st;
}

fac_status bincount_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *weights, int64_t minlength,
                         fac_tensor **out) {
    (void)c, (void)out;
    FAC_TRY(check(self, weights, minlength));
    return FAC_FAIL(FAC_ERR_STATE, "the number of bins depends on data, which meta tensors do not have");
}
