/* Segments of a dimension, each reduced to one element: data is seen as [outer, n, inner], the result as [outer, segments, inner].
   Where segments begin and end is checked before anything is written. A task takes some segments, and the elements beside each
   other (inner) in tiles; sums are taken in double, in order, so results do not depend on the number of threads.

   The gradient of a sum goes to every element, that of a mean is divided, an extreme's is shared evenly by those that are it; of
   a product each element gets the product of the others, which is the result over it unless it is zero. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops_gen.h"
#include <math.h>

typedef enum segment_op { SEGMENT_SUM, SEGMENT_MEAN, SEGMENT_MAX, SEGMENT_MIN, SEGMENT_PROD } segment_op;

typedef struct segments {
    segment_op op;
    int64_t outer, n, count, inner; /* elements along the axis, segments along it */
    int64_t *bounds;                /* [outer, count, 2]: begin and end */
    double initial;
    bool has_initial;
    fac_dtype dtype;
    char *out;
    const char *data, *grad, *result;
} segments;

static segment_op op_of(const char *reduce) {
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    int op = 0;
    while (strcmp(names[op], reduce) != 0) op++;
    return (segment_op)op;
}

/* ---- where segments are ------------------------------------------------------------------------------------------------ */

static fac_status bounds_of_offsets(const segments *g, const int64_t *offsets) {
    for (int64_t o = 0; o < g->outer; o++)
        for (int64_t k = 0; k < g->count; k++) {
            const int64_t *at = offsets + o * (g->count + 1) + k;
            FAC_CHECK(at[0] >= 0 && at[0] <= at[1] && at[1] <= g->n, FAC_ERR_ARGUMENT,
                      "offsets should not decrease and lie in [0, %lld], but a segment goes from %lld to %lld",
                      (long long)g->n, (long long)at[0], (long long)at[1]);
            memcpy(g->bounds + 2 * (o * g->count + k), at, 2 * sizeof *at);
        }
    return FAC_OK;
}

static fac_status bounds_of_lengths(const segments *g, const int64_t *lengths, bool whole) {
    for (int64_t o = 0; o < g->outer; o++) {
        int64_t at = 0;
        for (int64_t k = 0; k < g->count; k++) {
            const int64_t length = lengths[o * g->count + k];
            FAC_CHECK(length >= 0, FAC_ERR_ARGUMENT, "lengths contains negative value! (%lld)", (long long)length);
            FAC_CHECK(length <= g->n - at, FAC_ERR_ARGUMENT, "lengths add up to more than data's %lld elements",
                      (long long)g->n);
            g->bounds[2 * (o * g->count + k)] = at;
            g->bounds[2 * (o * g->count + k) + 1] = at += length;
        }
        FAC_CHECK(!whole || at == g->n, FAC_ERR_ARGUMENT,
                  "Expected all rows of lengths along axis to sum to %lld when !unsafe, but one sums to %lld",
                  (long long)g->n, (long long)at);
    }
    return FAC_OK;
}

/* Numbers as row-major int64: an owned tensor. */
static fac_status as_int64(fac_tensor *t, fac_tensor **out) {
    FAC_TRY(fac__empty(t->sizes, t->ndim, FAC_I64, t->device, out));
    fac_status st = fac__cpu_copy(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

/* Fills in everything but the pointers; bounds are allocated. */
static fac_status plan(segments *g, const fac_structured *s, fac_tensor *data, const char *reduce, fac_tensor *lengths,
                       fac_tensor *offsets, bool whole, fac_opt_num initial) {
    const int64_t axis = s->carry[0];
    fac_tensor *places = offsets ? offsets : lengths, *numbers;
    *g = (segments){.op = op_of(reduce),
                    .outer = 1,
                    .n = data->sizes[axis],
                    .inner = 1,
                    .count = places->sizes[axis] - (offsets != NULL),
                    .has_initial = initial.set,
                    .dtype = (fac_dtype)data->dtype};
    if (initial.set) g->initial = fac__scalar_f64(initial.v);
    for (int64_t d = 0; d < axis; d++) g->outer *= data->sizes[d];
    for (int64_t d = axis + 1; d < data->ndim; d++) g->inner *= data->sizes[d];
    FAC_TRY(as_int64(places, &numbers));
    g->bounds = fac__alloc_array((size_t)places->numel + 1, 2 * sizeof *g->bounds);
    fac_status st = g->bounds ? FAC_OK : fac_error();
    if (st == FAC_OK && g->outer * g->count > 0)
        st = offsets ? bounds_of_offsets(g, fac__data(numbers)) : bounds_of_lengths(g, fac__data(numbers), whole);
    fac__unref(numbers);
    if (st != FAC_OK) fac__free(g->bounds), g->bounds = NULL;
    return st;
}

/* Segments that a task takes. */
static int64_t grain(const segments *g) { return fac__grain(FAC_GRAIN / 4, g->n * g->inner / fac__max(1, g->count)); }

static const char *row_of(const segments *g, const char *base, int64_t segment, int64_t i, int64_t at) {
    const int64_t outer = segment / g->count;
    return base + ((outer * g->n + i) * g->inner + at) * fac__dtype_size(g->dtype);
}

static void load(const segments *g, double *dst, const char *src, int64_t n) {
    fac__tile_load(FAC_ACC_F64, dst, src, g->dtype, 1, n);
}

/* ---- reducing ------------------------------------------------------------------------------------------------------------- */

static double neutral(segment_op op) {
    if (op == SEGMENT_MAX) return -INFINITY;
    return op == SEGMENT_MIN ? INFINITY : op == SEGMENT_PROD;
}

static double start_of(const segments *g) { return g->has_initial ? g->initial : neutral(g->op); }

enum { LANES = 8 }; /* accumulators of one result, which are folded in the end */

#define FOLD(EXPR)                                     \
    for (int64_t r = 0; r < rows; r++)                 \
        for (int64_t i = 0; i < n; i++) {              \
            const double a = acc[i], x = v[r * n + i]; \
            acc[i] = (EXPR);                           \
        }                                              \
    break

/* Folds rows of n numbers into as many accumulators. A NaN stays. */
static inline __attribute__((always_inline)) void fold_rows(segment_op op, double *restrict acc,
                                                            const double *restrict v, int64_t n, int64_t rows) {
    switch (op) {
    case SEGMENT_PROD: FOLD(a * x);
    case SEGMENT_MAX: FOLD(x > a || x != x ? x : a);
    case SEGMENT_MIN: FOLD(x < a || x != x ? x : a);
    default: FOLD(a + x);
    }
}
static void fold(segment_op op, double *acc, const double *v, int64_t n, int64_t rows) {
    switch (n) { /* accumulators of a few stay in registers */
    case 2: fold_rows(op, acc, v, 2, rows); break;
    case 3: fold_rows(op, acc, v, 3, rows); break;
    case 4: fold_rows(op, acc, v, 4, rows); break;
    case 8: fold_rows(op, acc, v, 8, rows); break;
    default: fold_rows(op, acc, v, n, rows); break;
    }
}

/* Folds a run of n numbers into one accumulator, by way of LANES of them. */
static void fold_run(segment_op op, double *acc, const double *v, int64_t n) {
    double lanes[LANES];
    for (int k = 0; k < LANES; k++) lanes[k] = neutral(op);
    fold(op, lanes, v, LANES, n / LANES);
    fold(op, lanes, v + n / LANES * LANES, n % LANES, 1);
    fold(op, acc, lanes, 1, LANES);
}

static void finish(const segments *g, double *acc, int64_t n, int64_t length) {
    if (g->op != SEGMENT_MEAN) return;
    for (int64_t i = 0; i < n; i++) {
        if (length > 0)
            acc[i] /= (double)length;
        else if (!g->has_initial)
            acc[i] = NAN;
    }
}

/* Elements [at, at + n) of one segment's result. */
static void reduce_tile(const segments *g, int64_t segment, int64_t at, int64_t n) {
    fac_tile_buf acc, v;
    const int64_t begin = g->bounds[2 * segment], end = g->bounds[2 * segment + 1];
    const double start = start_of(g);
    for (int64_t i = 0; i < n; i++) acc.f64[i] = start;
    for (int64_t i = begin, m; i < end; i += m) {
        m = n == g->inner ? fac__min(FAC_TILE / n, end - i) : 1;
        load(g, v.f64, row_of(g, g->data, segment, i, at), m * n);
        if (g->inner == 1)
            fold_run(g->op, acc.f64, v.f64, m);
        else
            fold(g->op, acc.f64, v.f64, n, m);
    }
    finish(g, acc.f64, n, end - begin);
    fac__tile_store(FAC_ACC_F64, acc.f64, g->out + (segment * g->inner + at) * fac__dtype_size(g->dtype), g->dtype, 1,
                    n);
}

static fac_status reduce_range(void *ctx, int64_t begin, int64_t end) {
    const segments *g = ctx;
    for (int64_t k = begin; k < end; k++)
        for (int64_t at = 0; at < g->inner; at += FAC_TILE) reduce_tile(g, k, at, fac__min(FAC_TILE, g->inner - at));
    return FAC_OK;
}

/* Bounds have been found, and row-major data is at hand: reduces into the output. */
static fac_status reduce_all(fac_structured *s, segments *g) {
    fac_rowmajor r;
    FAC_TRY(fac__rowmajor_begin(s->out[0], false, &r));
    g->out = fac__data(r.t);
    return fac__rowmajor_end(&r, fac__parallel_for(0, g->outer * g->count, grain(g), reduce_range, g));
}

fac_status segment_reduce_cpu(fac_structured *s, fac_tensor *data, const char *reduce, fac_tensor *lengths,
                              fac_tensor *indices, fac_tensor *offsets, int64_t axis, bool unsafe,
                              fac_opt_num initial) {
    (void)indices, (void)axis;
    segments g;
    fac_tensor *rows = NULL;
    if (s->out[0]->numel == 0) return FAC_OK;
    FAC_TRY(plan(&g, s, data, reduce, lengths, offsets, !unsafe, initial));
    fac_status st = fac__cpu_contiguous(data, &rows);
    if (st == FAC_OK) {
        g.data = fac__data(rows);
        st = reduce_all(s, &g);
    }
    fac__unref(rows);
    fac__free(g.bounds);
    return st;
}

/* ---- the gradient ----------------------------------------------------------------------------------------------------------- */

/* One element of the result, whose gradient goes to the elements of its segment. */
typedef struct share {
    segment_op op;
    double grad, result, start;
    int64_t length;
} share;

static bool is_result(const share *h, double x) { return x == h->result || (x != x && h->result != h->result); }

/* The product of a segment's elements but the one at `but`. */
static double product_without(const share *h, const double *x, int64_t but) {
    double p = h->start;
    for (int64_t i = 0; i < h->length; i++)
        if (i != but) p *= x[i];
    return p;
}

/* x and g: the segment's elements and their gradients, one behind the other. */
static void share_out(const share *h, const double *x, double *g) {
    double each = h->grad;
    int64_t equal = 0;
    if (h->op == SEGMENT_MEAN) each /= (double)h->length;
    if (h->op == SEGMENT_MAX || h->op == SEGMENT_MIN) {
        for (int64_t i = 0; i < h->length; i++) equal += is_result(h, x[i]);
        each /= (double)fac__max(1, equal);
    }
    for (int64_t i = 0; i < h->length; i++) {
        if (h->op == SEGMENT_SUM || h->op == SEGMENT_MEAN)
            g[i] = each;
        else if (h->op != SEGMENT_PROD)
            g[i] = is_result(h, x[i]) ? each : 0;
        else
            g[i] = x[i] == 0 || x[i] != x[i] ? each * product_without(h, x, i) : each * h->result / x[i];
    }
}

/* The gradients of one segment's column; x and g are room for it. */
static void share_column(const segments *g, int64_t segment, int64_t at, double *x, double *out) {
    const int64_t begin = g->bounds[2 * segment], length = g->bounds[2 * segment + 1] - begin;
    const int64_t item = fac__dtype_size(g->dtype), place = (segment * g->inner + at) * item;
    share h = {.op = g->op, .start = start_of(g), .length = length};
    if (length == 0) return;
    load(g, &h.grad, g->grad + place, 1);
    if (g->op != SEGMENT_SUM && g->op != SEGMENT_MEAN) { /* which are shared whatever the elements are */
        load(g, &h.result, g->result + place, 1);
        fac__tile_load(FAC_ACC_F64, x, row_of(g, g->data, segment, begin, at), g->dtype, g->inner, length);
    }
    share_out(&h, x, out);
    fac__tile_store(FAC_ACC_F64, out, (char *)(uintptr_t)row_of(g, g->out, segment, begin, at), g->dtype, g->inner,
                    length);
}

static fac_status share_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const segments *g = ctx;
    double *x = scratch;
    for (int64_t k = begin; k < end; k++)
        for (int64_t at = 0; at < g->inner; at++) share_column(g, k, at, x, x + g->n);
    return FAC_OK;
}

/* grad, output and data in row-major order. */
static fac_status share_all(fac_structured *s, segments *g, fac_tensor *const *rows) {
    g->out = fac__data(s->out[0]);
    g->grad = fac__data(rows[0]), g->result = fac__data(rows[1]), g->data = fac__data(rows[2]);
    FAC_TRY(fac__cpu_fill(s->out[0], fac_scalar_i_(0))); /* some elements may be in no segment */
    if (!g->grad) return FAC_OK;
    int64_t room;
    FAC_CHECK(fac__mul(g->n, 2 * (int64_t)sizeof(double), &room), FAC_ERR_OVERFLOW, "a segment is too long");
    return fac__parallel_for_scratch(0, g->outer * g->count, grain(g), fac__max(room, 1), share_range, g);
}

fac_status segment_reduce_backward_cpu(fac_structured *s, fac_tensor *grad, fac_tensor *output, fac_tensor *data,
                                       const char *reduce, fac_tensor *lengths, fac_tensor *offsets, int64_t axis,
                                       fac_opt_num initial) {
    (void)axis;
    segments g;
    fac_tensor *const given[3] = {grad, output, data};
    fac_tensor *rows[3] = {NULL, NULL, NULL};
    if (data->numel == 0) return FAC_OK;
    FAC_TRY(plan(&g, s, data, reduce, lengths, offsets, false, initial));
    fac_status st = FAC_OK;
    for (int i = 0; i < 3 && st == FAC_OK; i++) st = fac__cpu_contiguous(given[i], &rows[i]);
    if (st == FAC_OK) st = share_all(s, &g, rows);
    for (int i = 0; i < 3; i++) fac__unref(rows[i]);
    fac__free(g.bounds);
    return st;
}
