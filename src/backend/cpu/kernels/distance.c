/* Distances between points, from their differences, so that nothing cancels. Tasks are blocks of POINTS points of x1; in each, x2 is
   packed strip by strip (STRIP rows side by side, DEPTH coordinates at a time), and every point of the block meets the strip while it
   lies in a cache. Sums are taken in float (double for float64) in order of the coordinates: results do not depend on threads. Few points
   of many coordinates meet pair by pair, in vectors along the coordinates.

   The gradient takes blocks of BACK_POINTS points of x1 over BACK_ROWS rows of x2 at a time, which stay in a cache, as do the
   gradients and distances of their pairs, converted from wherever they lie; sums go on from block to block in order of x2's rows. pdist
   is the same for pairs of rows of one matrix; below the diagonal nothing is computed but what shares a block with it. */
#include "backend/cpu/kernels/distance.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/kernels/transpose.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops_gen.h"
#include <math.h>

enum { POINTS = 128, DEPTH = 128, STRIP = FAC_DISTANCE_STRIP };

static fac_metric metric_of(double p) {
    if (p == 0) return FAC_METRIC_COUNT;
    if (p == 1) return FAC_METRIC_SUM;
    return p == 2 ? FAC_METRIC_SQUARE : isinf(p) ? FAC_METRIC_MOST : FAC_METRIC_POWER;
}

/* Matrices of one number per pair of points, as they lie: strides in elements. */
typedef struct pair_values {
    const char *data;
    fac_dtype dtype;
    int64_t row, col;
} pair_values;

/* Matrices in the type that is computed in, row-major: x1 [batch, P, D], x2 [batch, R, D]; batches are broadcast. */
typedef struct distances {
    fac_metric metric;
    double p;
    bool wide, pairs; /* double; pairs: pdist, x2 is x1 */
    size_t item;
    int64_t n1, n2, depth; /* P, R, D */
    fac_nest batch;        /* out, x1, x2 (, grad, dist): offsets in elements */
    const char *x1, *x2;
    pair_values grad, dist;
    char *out;
} distances;

static const char *at(const distances *j, const char *base, int64_t i) { return base + i * (int64_t)j->item; }

/* ---- operands ----------------------------------------------------------------------------------------------------------- */

/* An owned row-major tensor of t's elements, in float for halves. */
static fac_status operand(fac_tensor *t, fac_tensor **out) {
    if (!fac__is_half((fac_dtype)t->dtype)) return fac__cpu_contiguous(t, out);
    FAC_TRY(fac__empty(t->sizes, t->ndim, FAC_F32, t->device, out));
    fac_status st = fac__cpu_copy(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

static fac_status operands(fac_tensor *const *given, fac_tensor **out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    for (size_t i = 0; i < n; i++) {
        fac_status st = operand(given[i], &out[i]);
        if (st == FAC_OK) continue;
        for (size_t k = 0; k < i; k++) fac__unref(out[k]);
        return st;
    }
    return FAC_OK;
}

static void drop(fac_tensor *const *t, size_t n) {
    for (size_t i = 0; i < n; i++) fac__unref(t[i]);
}

/* Element strides of t's leading dimensions as broadcast to `batch` of them. */
static void batch_strides(const fac_tensor *t, int batch, int64_t *out) {
    const int lead = t->ndim - 2, missing = batch - lead;
    for (int d = 0; d < batch; d++) out[d] = d < missing || t->sizes[d - missing] == 1 ? 0 : t->strides[d - missing];
}

/* Where results are written, row-major in the type that is computed in: the output itself, or an owned room from which they are
   then taken home. */
static fac_status begin_output(fac_tensor *out, const distances *j, fac_tensor **room) {
    const fac_dtype d = j->wide ? FAC_F64 : FAC_F32;
    if (out->dtype != d || !fac__is_contiguous(out)) return fac__empty(out->sizes, out->ndim, d, out->device, room);
    *room = fac__ref(out);
    return FAC_OK;
}

static fac_status end_output(fac_status st, fac_tensor *out, fac_tensor *room) {
    if (st == FAC_OK && room != out) st = fac__cpu_copy(out, room);
    fac__unref(room);
    return st;
}

static distances plan(fac_tensor *x1, fac_tensor *x2, double p) {
    const bool wide = x1->dtype == FAC_F64;
    return (distances){.metric = metric_of(p),
                       .p = p,
                       .wide = wide,
                       .item = wide ? 8 : 4,
                       .n1 = x1->sizes[x1->ndim - 2],
                       .n2 = x2->sizes[x2->ndim - 2],
                       .depth = x1->sizes[x1->ndim - 1]};
}

/* ---- forward ---------------------------------------------------------------------------------------------------------------- */

/* Sums of a block of points over one strip: rows of x2, of which coordinates are packed as strip[depth, STRIP]; missing rows are zero. */
#define MEET(T, ADD)                                                                                              \
    static void meet_##T(const distances *j, const T *x1, int64_t rows, const T *x2, int64_t n, T *strip, T *acc, \
                         int64_t acc_ld) {                                                                        \
        int64_t k = 0, depth;                                                                                     \
        do {                                                                                                      \
            depth = fac__min(DEPTH, j->depth - k);                                                                \
            for (int64_t i = 0; i < depth && n < STRIP && k == 0; i++)                                            \
                memset(strip + i * STRIP + n, 0, (size_t)(STRIP - n) * sizeof(T));                                \
            fac__transpose_block(sizeof(T), (char *)strip, sizeof(T), STRIP * sizeof(T), (const char *)(x2 + k),  \
                                 j->depth * (int64_t)sizeof(T), depth, n);                                        \
            FAC_ISA_PICK(ADD)                                                                                     \
            (j->metric, j->p, x1 + k, rows, j->depth, strip, n, depth, acc, acc_ld,                               \
             (fac_distance_part){k == 0, k + depth == j->depth});                                                 \
            k += depth;                                                                                           \
        } while (k < j->depth);                                                                                   \
    }
MEET(float, fac__distance_add_f32)
MEET(double, fac__distance_add_f64)

/* Where the pair (i, i + 1) lies among those of n rows. */
static int64_t pair_of(int64_t n, int64_t i) { return i * n - i * (i + 1) / 2; }

/* Row i of the block's sums to its place: columns [j0, j0 + n), of pairs only those beyond i. */
static void store_row(const distances *j, char *out, int64_t i, int64_t j0, int64_t n, const char *acc) {
    int64_t skip = 0, to = i * j->n2 + j0;
    if (j->pairs) {
        skip = fac__max(0, i + 1 - j0);
        to = pair_of(j->n1, i) + j0 - i - 1;
    }
    if (skip < n)
        memcpy(out + (to + skip) * (int64_t)j->item, acc + skip * (int64_t)j->item, (size_t)(n - skip) * j->item);
}

/* Whole strips of a matrix are summed up where they go. */
static void run_block(const distances *j, const fac_cursor *c, int64_t i0, char *scratch) {
    const int64_t rows = fac__min(POINTS, j->n1 - i0);
    const char *x1 = at(j, j->x1, c->offset[1] + i0 * j->depth), *x2 = at(j, j->x2, c->offset[2]);
    char *strip = scratch + POINTS * STRIP * j->item, *out = j->out + c->offset[0] * (int64_t)j->item;
    for (int64_t j0 = j->pairs ? (i0 + 1) / STRIP * STRIP : 0; j0 < j->n2; j0 += STRIP) {
        const int64_t n = fac__min(STRIP, j->n2 - j0);
        const bool in_place = n == STRIP && !j->pairs;
        const char *y = at(j, x2, j0 * j->depth);
        char *acc = in_place ? out + (i0 * j->n2 + j0) * (int64_t)j->item : scratch;
        const int64_t ld = in_place ? j->n2 : STRIP;
        if (j->wide)
            meet_double(j, (const double *)(const void *)x1, rows, (const double *)(const void *)y, n,
                        (double *)(void *)strip, (double *)(void *)acc, ld);
        else
            meet_float(j, (const float *)(const void *)x1, rows, (const float *)(const void *)y, n,
                       (float *)(void *)strip, (float *)(void *)acc, ld);
        for (int64_t i = 0; i < rows && !in_place; i++) store_row(j, out, i0 + i, j0, n, at(j, acc, i * STRIP));
    }
}

/* Few points of many coordinates: pairs of them, each along its coordinates, in tasks of their own. Rows of x1 are the outer loop. */
static bool by_lines(const distances *j) {
    return j->depth >= 128 && (j->n1 < 4 || j->n2 <= 8) && j->metric != FAC_METRIC_POWER;
}

static fac_status lines_range(void *ctx, int64_t begin, int64_t end) {
    const distances *j = ctx;
    const int64_t each = j->n1 * j->n2;
    for (int64_t pair = begin; pair < end; pair++) {
        fac_cursor c;
        fac__nest_seek(&j->batch, 3, pair / each, &c);
        const int64_t r = pair % each / j->n2, k = pair % each % j->n2;
        if (j->pairs && k <= r) continue;
        const char *x = at(j, j->x1, c.offset[1] + r * j->depth), *y = at(j, j->x2, c.offset[2] + k * j->depth);
        char *out =
            j->out + (c.offset[0] + (j->pairs ? pair_of(j->n1, r) + k - r - 1 : r * j->n2 + k)) * (int64_t)j->item;
        if (j->wide)
            *(double *)(void *)out = FAC_ISA_PICK(fac__distance_line_f64)(j->metric, (const double *)(const void *)x,
                                                                          (const double *)(const void *)y, j->depth);
        else
            *(float *)(void *)out = FAC_ISA_PICK(fac__distance_line_f32)(j->metric, (const float *)(const void *)x,
                                                                         (const float *)(const void *)y, j->depth);
    }
    return FAC_OK;
}

static int64_t blocks_of(const distances *j) { return fac__div_up(j->n1, POINTS); }

static fac_status forward_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const distances *j = ctx;
    const int64_t blocks = blocks_of(j);
    for (int64_t b = begin; b < end; b++) {
        fac_cursor c;
        fac__nest_seek(&j->batch, 3, b / blocks, &c);
        run_block(j, &c, b % blocks * POINTS, scratch);
    }
    return FAC_OK;
}

static fac_status run_forward(distances *j, fac_tensor *out) {
    const int64_t work = fac__mul_or_max(fac__mul_or_max(POINTS, j->n2), fac__max(1, j->depth));
    fac_tensor *room;
    FAC_TRY(begin_output(out, j, &room));
    j->out = fac__data(room);
    fac_status st =
        by_lines(j)
            ? fac__parallel_for(0, j->batch.count * j->n1 * j->n2, fac__grain(FAC_GRAIN, j->depth), lines_range, j)
            : fac__parallel_for_scratch(0, j->batch.count * blocks_of(j), fac__grain(4 * FAC_GRAIN, work),
                                        (POINTS + DEPTH) * STRIP * (int64_t)j->item, forward_range, j);
    return end_output(st, out, room);
}

fac_status cdist_forward_cpu(fac_structured *s, fac_tensor *x1, fac_tensor *x2, double p, fac_opt_int compute_mode) {
    (void)compute_mode; /* always from the differences */
    fac_tensor *out = s->out[0], *x[2];
    int64_t outs[FAC_MAX_DIMS], first[FAC_MAX_DIMS], second[FAC_MAX_DIMS], rows[FAC_MAX_DIMS];
    const int64_t *strides[3] = {outs, first, second};
    if (out->numel == 0) return FAC_OK;
    FAC_TRY(operands((fac_tensor *[]){x1, x2}, x, 2));
    distances j = plan(x[0], x[1], p);
    j.x1 = fac__data(x[0]), j.x2 = fac__data(x[1]);
    fac__row_major(out->sizes, out->ndim, rows);
    memcpy(outs, rows, sizeof outs);
    batch_strides(x[0], out->ndim - 2, first);
    batch_strides(x[1], out->ndim - 2, second);
    fac__nest_build(&j.batch, out->sizes, out->ndim - 2, UINT64_MAX, 3, strides, true);
    fac_status st = run_forward(&j, out);
    drop(x, 2);
    return st;
}

fac_status pdist_forward_cpu(fac_structured *s, fac_tensor *self, double p) {
    fac_tensor *out = s->out[0], *x;
    if (out->numel == 0) return FAC_OK;
    FAC_TRY(operand(self, &x));
    distances j = plan(x, x, p);
    j.pairs = true;
    j.x1 = j.x2 = fac__data(x);
    fac__nest_build(&j.batch, NULL, 0, 0, 0, NULL, true);
    fac_status st = run_forward(&j, out);
    fac__unref(x);
    return st;
}

/* ---- backward -------------------------------------------------------------------------------------------------------------------- */

/* What a distance's gradient is multiplied by the differences' powers with; 0 where there is no direction. */
static double factor(const distances *j, double grad, double dist) {
    if (j->metric == FAC_METRIC_SUM) return grad;
    if (dist == 0 || j->metric == FAC_METRIC_COUNT) return 0;
    if (j->metric == FAC_METRIC_MOST) return grad;
    return grad / (j->metric == FAC_METRIC_SQUARE ? dist : pow(dist, j->p - 1));
}

enum { BACK_POINTS = 16, BACK_ROWS = 64, BACK_TILE = BACK_POINTS * BACK_ROWS };

/* n times the number at p. */
static void spread(char *p, size_t item, int64_t n) {
    for (int64_t i = 1; i < n; i++) memcpy(p + i * (int64_t)item, p, item);
}

/* A block of values, rows ld apart, in the type that is computed in. */
typedef struct pair_block {
    const char *at;
    int64_t ld;
} pair_block;

/* Values of a block of pairs, `rows` x `cols` of them from one on: where they lie, if they can be read there, else converted to `to`.
   Matrices that lie by columns are converted by columns, and then turned. */
static pair_block load_pairs(const distances *j, pair_values v, int64_t at, int64_t rows, int64_t cols, char *to,
                             char *turn) {
    const int64_t item = (int64_t)j->item, from = fac__dtype_size(v.dtype);
    const fac_cast cast = fac__casts[j->wide ? FAC_F64 : FAC_F32][v.dtype];
    const char *src = v.data + at * from;
    if (v.col == 1 && from == item) return (pair_block){src, v.row};
    if (v.row != 1 || v.col == 1) {
        for (int64_t r = 0; r < rows; r++, src += v.row * from) {
            cast(to + r * BACK_ROWS * item, 1, src, v.col, v.col ? cols : 1);
            if (!v.col) spread(to + r * BACK_ROWS * item, j->item, cols);
        }
        return (pair_block){to, BACK_ROWS};
    }
    for (int64_t c = 0; c < cols; c++) {
        __builtin_prefetch(src + (c + BACK_ROWS) * v.col * from); /* of the next block: the hardware does not guess */
        cast(turn + c * BACK_POINTS * item, 1, src + c * v.col * from, 1, rows);
    }
    if (j->wide)
        FAC_ISA_PICK(fac__transpose_8)(to, BACK_ROWS * item, turn, BACK_POINTS * item, rows, cols);
    else
        FAC_ISA_PICK(fac__transpose_4)(to, BACK_ROWS * item, turn, BACK_POINTS * item, rows, cols, false);
    return (pair_block){to, BACK_ROWS};
}

/* Values of the pairs of rows [i, i + rows) with columns [c0, c0 + cols), which lie once for both orders; 0 for a row and itself. */
#define ROW_PAIRS(T)                                                                                                \
    static void row_pairs_##T(const distances *j, const T *from, int64_t i, int64_t rows, int64_t c0, int64_t cols, \
                              T *to) {                                                                              \
        for (int64_t r = i; r < i + rows; r++, to += BACK_ROWS) {                                                   \
            const int64_t mid = fac__max(c0, fac__min(r, c0 + cols)),                                               \
                          after = fac__max(c0, fac__min(r + 1, c0 + cols));                                         \
            for (int64_t c = c0, p = pair_of(j->n1, c0) + r - c0 - 1; c < mid; p += j->n1 - c - 2, c++)             \
                to[c - c0] = from[p];                                                                               \
            if (mid < after) to[mid - c0] = 0;                                                                      \
            const T *beyond = from + pair_of(j->n1, r) + after - r - 1;                                             \
            for (int64_t c = 0; c < c0 + cols - after; c++) to[after - c0 + c] = beyond[c];                         \
        }                                                                                                           \
    }
ROW_PAIRS(float)
ROW_PAIRS(double)

static pair_block load_row_pairs(const distances *j, pair_values v, int64_t i, int64_t rows, int64_t c0, int64_t cols,
                                 char *to) {
    if (j->wide)
        row_pairs_double(j, (const double *)(const void *)v.data, i, rows, c0, cols, (double *)(void *)to);
    else
        row_pairs_float(j, (const float *)(const void *)v.data, i, rows, c0, cols, (float *)(void *)to);
    return (pair_block){to, BACK_ROWS};
}

/* Both values of a block's pairs; `room` holds two blocks and what is turned. */
static void load_block(const distances *j, const fac_cursor *c, int64_t i, int64_t rows, int64_t k, int64_t cols,
                       char *room, pair_block *grad, pair_block *dist) {
    char *second = room + BACK_TILE * j->item, *turn = second + BACK_TILE * j->item;
    if (j->pairs) {
        *grad = load_row_pairs(j, j->grad, i, rows, k, cols, room);
        *dist = load_row_pairs(j, j->dist, i, rows, k, cols, second);
        return;
    }
    *grad = load_pairs(j, j->grad, c->offset[3] + i * j->grad.row + k * j->grad.col, rows, cols, room, turn);
    *dist = load_pairs(j, j->dist, c->offset[4] + i * j->dist.row + k * j->dist.col, rows, cols, second, turn);
}

/* Scratch memory holds what load_block needs, and what the differences are multiplied by. */
#define BACK(T)                                                                                               \
    static void prepare_##T(const distances *j, const T *grad, const T *dist, int64_t n, T *by) {             \
        if (j->metric == FAC_METRIC_SQUARE)                                                                   \
            RATIO_##T(grad, dist, n, by);                                                                     \
        else                                                                                                  \
            for (int64_t k = 0; k < n; k++) by[k] = (T)factor(j, (double)grad[k], (double)dist[k]);           \
    }                                                                                                         \
    static void back_##T(const distances *j, const fac_cursor *c, int64_t i, int64_t points, char *scratch) { \
        T *by = (T *)(void *)(scratch + 3 * BACK_TILE * sizeof(T));                                           \
        const T *x1 = (const T *)(const void *)j->x1 + c->offset[1] + i * j->depth;                           \
        const T *x2 = (const T *)(const void *)j->x2 + c->offset[2];                                          \
        T *out = (T *)(void *)j->out + c->offset[0] + i * j->depth;                                           \
        for (int64_t k = 0, n; k < j->n2; k += n, x2 += n * j->depth) {                                       \
            pair_block grad, dist;                                                                            \
            n = fac__min(BACK_ROWS, j->n2 - k);                                                               \
            load_block(j, c, i, points, k, n, scratch, &grad, &dist);                                         \
            const T *g = (const T *)(const void *)grad.at, *d = (const T *)(const void *)dist.at;             \
            for (int64_t r = 0; r < points; r++)                                                              \
                prepare_##T(j, g + r * grad.ld, d + r * dist.ld, n, by + r * BACK_ROWS);                      \
            BACK_##T(j->metric, j->p, x1, points, x2, n, j->depth, by, BACK_ROWS, d, dist.ld, k == 0, out);   \
        }                                                                                                     \
    }
#define RATIO_float FAC_ISA_PICK(fac__distance_ratio_f32)
#define RATIO_double FAC_ISA_PICK(fac__distance_ratio_f64)
#define BACK_float FAC_ISA_PICK(fac__distance_back_f32)
#define BACK_double FAC_ISA_PICK(fac__distance_back_f64)
BACK(float)
BACK(double)

static fac_status backward_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const distances *j = ctx;
    const int64_t blocks = fac__div_up(j->n1, BACK_POINTS);
    for (int64_t b = begin; b < end; b++) {
        const int64_t i = b % blocks * BACK_POINTS, points = fac__min(BACK_POINTS, j->n1 - i);
        fac_cursor c;
        fac__nest_seek(&j->batch, 5, b / blocks, &c);
        if (j->wide)
            back_double(j, &c, i, points, scratch);
        else
            back_float(j, &c, i, points, scratch);
    }
    return FAC_OK;
}

static fac_status run_backward(distances *j, fac_tensor *out) {
    fac_tensor *room;
    if (j->n2 == 0) return fac__cpu_fill(out, fac_scalar_i_(0));
    FAC_TRY(begin_output(out, j, &room));
    j->out = fac__data(room);
    const int64_t work = fac__mul_or_max(fac__mul_or_max(BACK_POINTS, j->n2), j->depth);
    fac_status st =
        fac__parallel_for_scratch(0, j->batch.count * fac__div_up(j->n1, BACK_POINTS), fac__grain(FAC_GRAIN, work),
                                  4 * BACK_TILE * (int64_t)j->item, backward_range, j);
    return end_output(st, out, room);
}

/* The stride of a dimension of one element may be any number, and is not used. */
static pair_values values_of(const fac_tensor *t) {
    const int n = t->ndim;
    return (pair_values){.data = fac__data(t),
                         .dtype = (fac_dtype)t->dtype,
                         .row = n > 1 && t->sizes[n - 2] > 1 ? t->strides[n - 2] : 0,
                         .col = t->sizes[n - 1] > 1 ? t->strides[n - 1] : 1};
}

fac_status cdist_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *x1, fac_tensor *x2, double p,
                              fac_tensor *cdist) {
    enum { OPERANDS = 5 };
    fac_tensor *out = s->out[0], *x[2];
    fac_tensor *const t[4] = {x1, x2, grad_output, cdist};
    int64_t strides[OPERANDS][FAC_MAX_DIMS];
    const int64_t *lists[OPERANDS];
    const int batch = out->ndim - 2;
    if (out->numel == 0) return FAC_OK;
    FAC_TRY(operands(t, x, 2));
    distances j = plan(x[0], x[1], p);
    j.x1 = fac__data(x[0]), j.x2 = fac__data(x[1]), j.grad = values_of(grad_output), j.dist = values_of(cdist);
    fac__row_major(out->sizes, out->ndim, strides[0]);
    for (int i = 0; i < 4; i++) batch_strides(i < 2 ? x[i] : t[i], batch, strides[i + 1]);
    for (int i = 0; i < OPERANDS; i++) lists[i] = strides[i];
    fac__nest_build(&j.batch, out->sizes, batch, UINT64_MAX, OPERANDS, lists, true);
    fac_status st = run_backward(&j, out);
    drop(x, 2);
    return st;
}

fac_status pdist_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, double p,
                              fac_tensor *pdist) {
    fac_tensor *out = s->out[0], *t[3];
    if (out->numel == 0) return FAC_OK;
    FAC_TRY(operands((fac_tensor *[]){self, grad_output, pdist}, t, 3));
    distances j = plan(t[0], t[0], p);
    j.pairs = true;
    j.x1 = j.x2 = fac__data(t[0]), j.grad = values_of(t[1]), j.dist = values_of(t[2]);
    fac__nest_build(&j.batch, NULL, 0, 0, 0, NULL, true);
    fac_status st = run_backward(&j, out);
    drop(t, 3);
    return st;
}
