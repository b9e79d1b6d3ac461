/* Running folds along one dimension. Sums and products accumulate in double or int64 (PyTorch's choice for f32 as well).
   Where neighbours in memory are different lines, strips of them advance together; else one line goes through a tile. */
#include "backend/cpu/kernels/scan.h"
#include "backend/cpu/kernels/complex_parts.h"
#include "backend/cpu/kernels/reduction.h"
#include "backend/cpu/parallel.h"
#include "ops/meta/reduce.h"
#include "ops_gen.h"
#include <math.h>

#define STRIP 128
#define BLOCK FAC_SCAN_BLOCK

typedef struct scan {
    scan_op op;
    fac_acc kind;
    fac_dtype via, in_dtype, out_dtype;
    fac_nest lines; /* operands: in, out, indices */
    int64_t n, in_step, out_step, index_step;
    const char *in;
    char *out;
    int64_t *indices; /* NULL for sums and products */
    bool columns;
    int64_t width, strips;
} scan;

typedef union wide {
    double f64[2 * STRIP];
    int64_t i64[2 * STRIP];
} wide;

/* ---- steps: acc takes in x and becomes the next result --------------------------------------------------------------- */

static double log_add(double acc, double x) {
    double hi = fmax(acc, x), lo = fmin(acc, x);
    if (acc != acc || x != x) return acc + x;
    if (hi == lo && isinf(hi)) return hi;
    return hi + log1p(exp(lo - hi));
}

static void step_f64(scan_op op, double *acc, const double *x, int64_t w) {
    switch (op) {
    case SCAN_SUM:
        for (int64_t j = 0; j < w; j++) acc[j] += x[j];
        break;
    case SCAN_PROD:
        for (int64_t j = 0; j < w; j++) acc[j] *= x[j];
        break;
    default:
        for (int64_t j = 0; j < w; j++) acc[j] = log_add(acc[j], x[j]);
        break;
    }
}

/* Wraps as two's complement. */
static void step_i64(scan_op op, int64_t *acc, const int64_t *x, int64_t w) {
    for (int64_t j = 0; j < w; j++) {
        uint64_t a = (uint64_t)acc[j], b = (uint64_t)x[j];
        acc[j] = (int64_t)(op == SCAN_SUM ? a + b : a * b);
    }
}

/* Of numbers with real part -inf only the logarithm of 0 is kept, as their exponential is 0 whatever the angle. The rest is
   added to the one of the larger real part, the logarithm of 1 plus a number of modulus up to 1. */
static void log_add_c128(double *acc, const double *x) {
    double complex a = fac__complex_parts(acc[0], acc[1]), b = fac__complex_parts(x[0], x[1]), sum;
    double complex low = acc[0] <= x[0] ? a : b, high = acc[0] <= x[0] ? b : a;
    if (isnan(acc[0]) || isnan(acc[1]) || isnan(x[0]) || isnan(x[1])) {
        sum = fac__complex_parts(NAN, NAN);
    } else if (acc[0] == x[0] && isinf(x[0])) {
        sum = x[0] < 0 ? a : clog(cexp(a) + cexp(b));
    } else {
        double complex e = cexp(low - high);
        double re = creal(e), im = cimag(e);
        /* Near -1 the sum cancels: 1 + re is exact there, and what log1p would be given is not. */
        double modulus = re < -0.5 ? log(hypot(1 + re, im)) : 0.5 * log1p(re * (2 + re) + im * im);
        sum = high + fac__complex_parts(modulus, atan2(im, 1 + re));
    }
    acc[0] = creal(sum);
    acc[1] = cimag(sum);
}

static void multiply_c128(double *acc, const double *x) {
    double re = acc[0] * x[0] - acc[1] * x[1];
    acc[1] = acc[0] * x[1] + acc[1] * x[0];
    acc[0] = re;
}

static void step_c128(scan_op op, double *acc, const double *x, int64_t w) {
    switch (op) {
    case SCAN_SUM: step_f64(op, acc, x, 2 * w); break;
    case SCAN_PROD:
        for (int64_t j = 0; j < w; j++) multiply_c128(acc + 2 * j, x + 2 * j);
        break;
    default:
        for (int64_t j = 0; j < w; j++) log_add_c128(acc + 2 * j, x + 2 * j);
        break;
    }
}

static void step(const scan *s, void *acc, const void *x, int64_t w) {
    if (s->kind == FAC_ACC_F64)
        step_f64(s->op, acc, x, w);
    else if (s->kind == FAC_ACC_I64)
        step_i64(s->op, acc, x, w);
    else
        step_c128(s->op, acc, x, w);
}

static void identity(const scan *s, void *acc, int64_t w) {
    static const fac_fold_op folds[] = {FAC_FOLD_SUM, FAC_FOLD_PROD, FAC_FOLD_MAX, FAC_FOLD_MIN, FAC_FOLD_MAX};
    fac__fold_identity(folds[s->op], s->kind, acc, w);
}

static void load(const scan *s, void *dst, const char *src, int64_t stride, int64_t n) {
    if (s->via && s->via != s->in_dtype && !fac__acc_is(s->kind, s->via)) /* else loading converts to it */
        fac__tile_load_as(s->kind, dst, src, s->in_dtype, stride, n, s->via);
    else
        fac__tile_load(s->kind, dst, src, s->in_dtype, stride, n);
}

/* The sum of all blocks before, in two doubles (Knuth 1969). */
typedef struct before {
    double hi, lo;
} before;

static void add_block(before *b, double x) {
    const double sum = b->hi + x, t = sum - b->hi, low = b->lo + ((b->hi - (sum - t)) + (x - t));
    b->hi = sum;
    b->lo = isfinite(low) ? low : 0;
}

/* x[k], x[k + step] ... become running sums; *local is the block's so far, of `at` elements. */
static void prefix_exact(double *x, int64_t n, int64_t step, int64_t at, before *b, double *local) {
    for (int64_t i = 0; i < n;) {
        const int64_t end = i + fac__min(n - i, BLOCK - (at + i) % BLOCK);
        const double hi = b->hi, lo = b->lo;
        double a = *local;
        for (; i < end; i++) {
            a += x[i * step];
            x[i * step] = hi + (lo + a);
        }
        *local = a;
        if ((at + i) % BLOCK) continue;
        add_block(b, a);
        *local = 0;
    }
}

/* Products of a whole line whose elements need no tile; the same sums of doubles, block by block. */
#define LINE_PROD(NAME, T)                                                                 \
    static void NAME(const T *x, int64_t step, T *out, int64_t out_step, int64_t n) {      \
        double a = 1;                                                                      \
        for (int64_t i = 0; i < n; i++) out[i * out_step] = (T)(a *= (double)x[i * step]); \
    }
LINE_PROD(line_prod_f32, float)
LINE_PROD(line_prod_f64, double)

static void line_sum_f64(const double *x, int64_t step, double *out, int64_t out_step, int64_t n) {
    before b = {0, 0};
    for (int64_t i = 0; i < n;) {
        const int64_t end = fac__min(n, i + BLOCK);
        const double hi = b.hi, lo = b.lo;
        double a = 0;
        for (; i < end; i++) out[i * out_step] = hi + (lo + (a += x[i * step]));
        add_block(&b, a);
    }
}

/* The common line: sums and products of doubles, acc carried from tile to tile. */
static void prefix_f64(scan_op op, double *x, int64_t n, double *acc) {
    double a = *acc;
    if (op == SCAN_SUM) {
        for (int64_t i = 0; i < n; i++) x[i] = a += x[i];
    } else {
        for (int64_t i = 0; i < n; i++) x[i] = a *= x[i];
    }
    *acc = a;
}

/* Of running logarithms, the first ones until they are finite, and all that may differ by much, come one by one. */
static void prefix_log_sum(double *x, int64_t n, double *acc) {
    double a = *acc;
    int64_t i = 0;
    for (; i < n && !isfinite(a); i++) x[i] = a = log_add(a, x[i]);
    if (i < n && FAC_ISA_PICK(fac__prefix_log_sum_f64)(x + i, n - i, a))
        a = x[n - 1];
    else
        for (; i < n; i++) x[i] = a = log_add(a, x[i]);
    *acc = a;
}

/* Of integers, which wrap. */
static void prefix_i64(scan_op op, int64_t *x, int64_t n, int64_t *acc) {
    uint64_t a = (uint64_t)*acc;
    if (op == SCAN_SUM) {
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(a += (uint64_t)x[i]);
    } else {
        for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(a *= (uint64_t)x[i]);
    }
    *acc = (int64_t)a;
}

/* Running extremes of a tile's n elements, the first of which is number `first` of the line: among equals the latest, a NaN, once met,
   until a later one. */
#define PREFIX_EXTREME(NAME, T, TAKES)                                                                         \
    static void NAME(T *x, int64_t n, T *acc, int64_t *where, int64_t *indices, int64_t step, int64_t first) { \
        T a = *acc;                                                                                            \
        int64_t at = *where;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                      \
            const bool take = (TAKES);                                                                         \
            a = take ? x[i] : a;                                                                               \
            at = take ? first + i : at;                                                                        \
            x[i] = a;                                                                                          \
            indices[i * step] = at;                                                                            \
        }                                                                                                      \
        *acc = a;                                                                                              \
        *where = at;                                                                                           \
    }
PREFIX_EXTREME(larger_f64, double, (x[i] != x[i]) | ((a == a) & (x[i] >= a)))
PREFIX_EXTREME(smaller_f64, double, (x[i] != x[i]) | ((a == a) & (x[i] <= a)))
PREFIX_EXTREME(larger_i64, int64_t, x[i] >= a)
PREFIX_EXTREME(smaller_i64, int64_t, x[i] <= a)

/* Sums whose results are as long as what they are summed in. */
static bool sums_exactly(const scan *s) {
    return s->op == SCAN_SUM && (s->kind == FAC_ACC_C128 || (s->kind == FAC_ACC_F64 && s->out_dtype == FAC_F64));
}

/* ---- walks --------------------------------------------------------------------------------------------------------------- */

/* Rows of w lines side by side, from element i on, become results. */
static void scan_rows(const scan *s, wide *acc, int64_t *where, before *blocks, void *rows, int64_t *places, int64_t w,
                      int64_t m, int64_t i) {
    const size_t row = (size_t)w * fac__acc_size(s->kind);
    const bool exactly = blocks != NULL;
    const int64_t parts = s->kind == FAC_ACC_C128 ? 2 * w : w;
    if (s->indices) {
        FAC_ISA_PICK(fac__scan_extremes)(s->op, s->kind, acc, where, rows, places, w, m, i);
        return;
    }
    if (!exactly && s->kind != FAC_ACC_C128 && s->op != SCAN_LOGSUMEXP) {
        FAC_ISA_PICK(fac__scan_rows)(s->op, s->kind, acc, rows, w, m);
        return;
    }
    for (int64_t r = 0; r < m; r++) {
        double *x = (void *)((char *)rows + (size_t)r * row);
        step(s, acc, x, w);
        if (!exactly) {
            memcpy(x, acc, row);
            continue;
        }
        for (int64_t j = 0; j < parts; j++) x[j] = blocks[j].hi + (blocks[j].lo + acc->f64[j]);
        for (int64_t j = 0; (i + r + 1) % BLOCK == 0 && j < parts; j++) {
            add_block(&blocks[j], acc->f64[j]);
            acc->f64[j] = 0;
        }
    }
}

/* w lines side by side from the cursor on: several rows at once, where they follow each other. */
static void scan_strip(const scan *s, const fac_cursor *c, int64_t w) {
    size_t in_item = fac__dtype_size(s->in_dtype), out_item = fac__dtype_size(s->out_dtype);
    const char *in = s->in + c->offset[0] * (int64_t)in_item;
    char *out = s->out + c->offset[1] * (int64_t)out_item;
    int64_t *indices = s->indices ? s->indices + c->offset[2] : NULL;
    const int64_t in_next = fac__nest_step(&s->lines, 0), out_next = fac__nest_step(&s->lines, 1),
                  index_next = fac__nest_step(&s->lines, 2);
    const bool behind =
        s->in_step == w * in_next && s->out_step == w * out_next && (!indices || s->index_step == w * index_next);
    const int64_t together = behind ? FAC_TILE / w : 1;
    wide acc;
    fac_tile_buf rows;
    int64_t where[STRIP], places[FAC_TILE];
    before blocks[2 * STRIP];
    const bool exactly = sums_exactly(s);
    if (exactly) memset(blocks, 0, (size_t)(s->kind == FAC_ACC_C128 ? 2 * w : w) * sizeof *blocks);
    if (indices) memset(where, 0, (size_t)w * sizeof *where);
    identity(s, &acc, w);
    for (int64_t i = 0; i < s->n; i += together) {
        const int64_t m = fac__min(together, s->n - i);
        load(s, &rows, in + i * s->in_step * (int64_t)in_item, in_next, m * w);
        scan_rows(s, &acc, where, exactly ? blocks : NULL, &rows, places, w, m, i);
        fac__tile_store(s->kind, &rows, out + i * s->out_step * (int64_t)out_item, s->out_dtype, out_next, m * w);
        if (indices) fac__tile_store(FAC_ACC_I64, places, indices + i * s->index_step, FAC_I64, index_next, m * w);
    }
}

/* Of complex numbers and exponentials. */
static void prefix_any(const scan *s, void *tile, int64_t n, void *acc) {
    const size_t item = fac__acc_size(s->kind);
    for (int64_t j = 0; j < n; j++) {
        char *x = (char *)tile + (size_t)j * item;
        step(s, acc, x, 1);
        memcpy(x, acc, item);
    }
}

/* One line, tile after tile. */
static void scan_line(const scan *s, const fac_cursor *c) {
    size_t in_item = fac__dtype_size(s->in_dtype), out_item = fac__dtype_size(s->out_dtype);
    const char *in = s->in + c->offset[0] * (int64_t)in_item;
    char *out = s->out + c->offset[1] * (int64_t)out_item;
    int64_t *indices = s->indices ? s->indices + c->offset[2] : NULL, where = 0;
    bool plain = s->kind == FAC_ACC_F64 && (s->op == SCAN_SUM || s->op == SCAN_PROD);
    fac_tile_buf tile;
    fac_acc_value acc;
    before blocks[2] = {{0, 0}, {0, 0}};
    double local[2] = {0, 0};
    const bool exactly = sums_exactly(s);
    const int parts = s->kind == FAC_ACC_C128 ? 2 : 1;
    if (s->op == SCAN_SUM && s->in_dtype == FAC_I64 && s->out_dtype == FAC_I64 && s->in_step == 1 && s->out_step == 1) {
        FAC_ISA_PICK(fac__prefix_sum_i64)((const int64_t *)(const void *)in, (int64_t *)(void *)out, s->n, 0);
        return;
    }
    const bool same = s->in_dtype == s->out_dtype && (!s->via || s->via == s->in_dtype) && !s->indices;
    if (same && s->in_dtype == FAC_F64 && (s->op == SCAN_SUM || s->op == SCAN_PROD)) {
        (exactly ? line_sum_f64 : line_prod_f64)((const void *)in, s->in_step, (void *)out, s->out_step, s->n);
        return;
    }
    if (same && s->in_dtype == FAC_F32 && s->op == SCAN_PROD) {
        line_prod_f32((const void *)in, s->in_step, (void *)out, s->out_step, s->n);
        return;
    }
    identity(s, &acc, 1);
    for (int64_t i = 0; i < s->n; i += FAC_TILE) {
        int64_t m = fac__min(FAC_TILE, s->n - i);
        load(s, &tile, in + i * s->in_step * (int64_t)in_item, s->in_step, m);
        for (int k = 0; exactly && k < parts; k++) prefix_exact(tile.f64 + k, m, parts, i, &blocks[k], &local[k]);
        if (exactly) {
            fac__tile_store(s->kind, &tile, out + i * s->out_step * (int64_t)out_item, s->out_dtype, s->out_step, m);
            continue;
        }
        if (plain && s->op == SCAN_SUM && s->out_dtype != FAC_F64)
            acc.f64 = FAC_ISA_PICK(fac__prefix_sum_f64)(tile.f64, m, acc.f64);
        else if (s->kind == FAC_ACC_F64 && s->op == SCAN_LOGSUMEXP)
            prefix_log_sum(tile.f64, m, &acc.f64);
        else if (plain)
            prefix_f64(s->op, tile.f64, m, &acc.f64);
        else if (indices && s->kind == FAC_ACC_F64)
            (s->op == SCAN_MAX ? larger_f64 : smaller_f64)(tile.f64, m, &acc.f64, &where, indices + i * s->index_step,
                                                           s->index_step, i);
        else if (indices)
            (s->op == SCAN_MAX ? larger_i64 : smaller_i64)(tile.i64, m, &acc.i64, &where, indices + i * s->index_step,
                                                           s->index_step, i);
        else if (s->kind == FAC_ACC_I64 && s->op == SCAN_SUM)
            acc.i64 = FAC_ISA_PICK(fac__prefix_sum_i64)(tile.i64, tile.i64, m, acc.i64);
        else if (s->kind == FAC_ACC_I64)
            prefix_i64(s->op, tile.i64, m, &acc.i64);
        else
            prefix_any(s, &tile, m, &acc);
        fac__tile_store(s->kind, &tile, out + i * s->out_step * (int64_t)out_item, s->out_dtype, s->out_step, m);
    }
}

/* Lines that lie in rows, whose elements need no conversion: several lines at once. */
static bool has_plain_lines(const scan *s) {
    const bool known = s->in_dtype == FAC_F32   ? s->indices != NULL
                       : s->in_dtype == FAC_I64 ? s->indices || s->op == SCAN_PROD
                                                : s->in_dtype == FAC_F64 && s->op != SCAN_LOGSUMEXP;
    return known && !s->columns && s->out_dtype == s->in_dtype && (!s->via || s->via == s->in_dtype) &&
           s->in_step == 1 && s->out_step == 1 && (!s->indices || s->index_step == 1) && s->lines.ndim <= 1;
}

/* Returns how many lines it took. */
static int64_t scan_lines(const scan *s, int64_t begin, int64_t end) {
    const int64_t from = fac__nest_step(&s->lines, 0), to = fac__nest_step(&s->lines, 1),
                  index = fac__nest_step(&s->lines, 2);
    const int64_t item = fac__dtype_size(s->in_dtype);
    int64_t i = begin;
    const int64_t many = s->in_dtype == FAC_F32 ? FAC_SCAN_LINES : FAC_SCAN_WIDE;
    for (int64_t some = many; i < end; i += some) {
        some = s->in_dtype == FAC_F32 ? fac__min(many, end - i) : many;
        if (i + some > end) break;
        int64_t *at = s->indices ? s->indices + i * index : NULL;
        const void *x = s->in + i * from * item;
        void *out = s->out + i * to * item;
        if (s->in_dtype == FAC_F32) FAC_ISA_PICK(fac__extreme_lines_f32)
        ((int)some, s->op == SCAN_MAX, x, from, out, to, at, index, s->n);
        else FAC_ISA_PICK(fac__scan_lines)(s->op, s->kind, x, from, out, to, at, index, s->n);
    }
    return i - begin;
}

/* Short lines that follow each other: some of them are converted together, scanned where they are, and converted back. */
enum { SHORT_LINE = 64 };
static bool has_short_lines(const scan *s) {
    const bool behind = fac__nest_step(&s->lines, 0) == s->n * s->in_step &&
                        fac__nest_step(&s->lines, 1) == s->n * s->out_step &&
                        (!s->indices || fac__nest_step(&s->lines, 2) == s->n * s->index_step);
    return behind && s->lines.ndim == 1 && !s->columns && s->n <= SHORT_LINE && s->kind != FAC_ACC_C128 &&
           s->op != SCAN_LOGSUMEXP && s->lines.count >= FAC_SCAN_WIDE;
}

static void scan_short_lines(const scan *s, int64_t begin, int64_t end) {
    const int64_t n = s->n, some = FAC_TILE / n / FAC_SCAN_WIDE * FAC_SCAN_WIDE;
    const int64_t in_line = n * s->in_step * fac__dtype_size(s->in_dtype),
                  out_line = n * s->out_step * fac__dtype_size(s->out_dtype);
    fac_tile_buf tile; /* of numbers of 8 bytes */
    int64_t places[FAC_TILE];
    for (int64_t i = begin; i < end; i += some) {
        const int64_t m = fac__min(some, end - i);
        load(s, &tile, s->in + i * in_line, s->in_step, m * n);
        if (m % FAC_SCAN_WIDE) memset(tile.i64 + m * n, 0, (size_t)(FAC_SCAN_WIDE * n) * sizeof *tile.i64);
        for (int64_t l = 0; l < m; l += FAC_SCAN_WIDE) FAC_ISA_PICK(fac__scan_lines)
        (s->op, s->kind, tile.i64 + l * n, n, tile.i64 + l * n, n, places + l * n, n, n);
        fac__tile_store(s->kind, &tile, s->out + i * out_line, s->out_dtype, s->out_step, m * n);
        if (s->indices)
            fac__tile_store(FAC_ACC_I64, places, s->indices + i * n * s->index_step, FAC_I64, s->index_step, m * n);
    }
}

static fac_status run_scan(void *ctx, int64_t begin, int64_t end) {
    const scan *s = ctx;
    if (has_plain_lines(s)) begin += scan_lines(s, begin, end);
    if (has_short_lines(s)) {
        scan_short_lines(s, begin, end);
        return FAC_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        fac_cursor c;
        if (!s->columns) {
            fac__nest_seek(&s->lines, 3, i, &c);
            scan_line(s, &c);
            continue;
        }
        int64_t at = i % s->strips * STRIP;
        fac__nest_seek(&s->lines, 3, i / s->strips * s->width + at, &c);
        scan_strip(s, &c, fac__min(STRIP, s->width - at));
    }
    return FAC_OK;
}

/* Scans `self` along the dimension in `mask` (none for 0-dim tensors: one point). */
static fac_status scan_run(scan *s, fac_tensor *self, uint64_t mask, fac_tensor *out, fac_tensor *indices) {
    if (self->numel == 0) return FAC_OK;
    const int64_t *strides[3] = {self->strides, out->strides, indices ? indices->strides : out->strides};
    int d = mask ? __builtin_ctzll(mask) : -1;
    s->in = fac__data(self);
    s->out = fac__data(out);
    s->indices = indices ? fac__data(indices) : NULL;
    s->in_dtype = (fac_dtype)self->dtype;
    s->out_dtype = (fac_dtype)out->dtype;
    s->n = d < 0 ? 1 : self->sizes[d];
    s->in_step = d < 0 ? 1 : strides[0][d];
    s->out_step = d < 0 ? 1 : strides[1][d];
    s->index_step = d < 0 ? 1 : strides[2][d];
    fac__nest_build(&s->lines, self->sizes, self->ndim, ~mask, 3, strides, false);
    s->width = s->lines.ndim ? s->lines.size[0] : 1;
    s->columns = s->lines.ndim && s->width >= 4 && s->lines.stride[0][0] < s->in_step;
    s->strips = fac__div_up(s->width, STRIP);
    int64_t items = s->columns ? s->lines.count / s->width * s->strips : s->lines.count;
    int64_t cost = s->n * (s->columns ? fac__min(s->width, STRIP) : 1);
    return fac__parallel_for(0, items, fac__grain(FAC_GRAIN / 4, cost), run_scan, s);
}

static fac_acc scan_kind(fac_dtype d) { return fac__acc_of(d) == FAC_ACC_F32 ? FAC_ACC_F64 : fac__acc_of(d); }

static fac_status running(fac_structured *st, fac_tensor *self, scan_op op, fac_dtype dtype) {
    scan s;
    s.op = op;
    s.via = dtype;
    s.kind = scan_kind((fac_dtype)st->out[0]->dtype);
    return scan_run(&s, self, fac__carried_mask(st), st->out[0], NULL);
}

static fac_status running_extreme(fac_structured *st, fac_tensor *self, scan_op op) {
    scan s;
    s.op = op;
    s.via = FAC_DTYPE_DEFAULT;
    s.kind = scan_kind((fac_dtype)self->dtype);
    return scan_run(&s, self, fac__carried_mask(st), st->out[0], st->out[1]);
}

fac_status cumsum_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_dtype dtype) {
    (void)dim;
    return running(s, self, SCAN_SUM, fac__sum_via(s, self, dtype));
}

fac_status cumprod_cpu(fac_structured *s, fac_tensor *self, int64_t dim, fac_dtype dtype) {
    (void)dim;
    return running(s, self, SCAN_PROD, fac__sum_via(s, self, dtype));
}

fac_status cummax_cpu(fac_structured *s, fac_tensor *self, int64_t dim) {
    (void)dim;
    return running_extreme(s, self, SCAN_MAX);
}

fac_status cummin_cpu(fac_structured *s, fac_tensor *self, int64_t dim) {
    (void)dim;
    return running_extreme(s, self, SCAN_MIN);
}

fac_status logcumsumexp_cpu(fac_structured *s, fac_tensor *self, int64_t dim) {
    (void)dim;
    return running(s, self, SCAN_LOGSUMEXP, FAC_DTYPE_DEFAULT);
}
