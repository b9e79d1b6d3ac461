/* Softmax, its logarithm, their gradients and logsumexp over any layout. Lines that lie in memory as they are needed are
   used in place; others are converted into a buffer of the task's own. Where neighbours belong to different lines, strips of
   lines are handled together. f16 and bf16 compute in float. */
#include "backend/cpu/kernels/softmax.h"
#include "backend/cpu/kernels/complex_parts.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/reduction.h"
#include "backend/cpu/parallel.h"
#include "ops/meta/reduce.h"
#include "ops_gen.h"
#include <math.h>

enum {
    SHORT = 64,         /* a row of so few floats is no more work than finding the next */
    LONG = 8 * FAC_TILE /* and one of more that are converted had better not wait in a buffer for its gradient */
};

/* Operands: forward in, out; backward grad, output, grad_input. */
typedef struct lines {
    fac_nest nest; /* one point per line */
    int n_operands;
    int64_t n; /* length of a line */
    int64_t step[3], item[3];
    char *data[3];
    fac_dtype dtype[3];
    fac_acc kind;
    fac_softmax_form form;
    bool in_place; /* every operand's lines are contiguous elements of the kind */
    bool in_tiles; /* gradients of long lines of halves are made a tile at a time */
    int64_t width, strips, strip;
} lines;

static void add_operand(lines *l, fac_tensor *t, int d) {
    int k = l->n_operands++;
    l->data[k] = fac__data(t);
    l->dtype[k] = (fac_dtype)t->dtype;
    l->item[k] = fac__dtype_size(l->dtype[k]);
    l->step[k] = d < 0 || l->n == 1 ? 1 : t->strides[d]; /* the stride of one element may be any number */
    l->in_place = l->in_place && fac__acc_is(l->kind, l->dtype[k]) && l->step[k] == 1;
}

/* The lines of tensors of equal sizes along the dimension in `mask` (none: one point). */
static void plan_lines(lines *l, fac_tensor *const *t, int n, uint64_t mask, fac_acc kind, fac_softmax_form form) {
    const int64_t *strides[3] = {t[0]->strides, t[1]->strides, t[n - 1]->strides};
    int d = mask ? __builtin_ctzll(mask) : -1;
    l->n_operands = 0;
    l->n = d < 0 ? 1 : t[0]->sizes[d];
    l->kind = kind;
    l->form = form;
    l->in_place = true;
    for (int k = 0; k < n; k++) add_operand(l, t[k], d);
    l->in_tiles = n == 3 && l->n > LONG && fac__is_half(l->dtype[1]);
    fac__nest_build(&l->nest, t[0]->sizes, t[0]->ndim, ~mask, n, strides, false);
    bool columns = l->nest.ndim && l->nest.size[0] >= 4 && l->nest.stride[0][0] < l->step[0];
    l->width = columns ? l->nest.size[0] : 1;
    const int64_t least = kind == FAC_ACC_F32 ? FAC_STRIP_LEAST_F32 : FAC_STRIP_LEAST_F64;
    l->strip = l->width <= least ? least : FAC_STRIP;
    l->strips = columns ? fac__div_up(l->width, l->strip) : 0;
}

static char *address(const lines *l, const fac_cursor *c, int k) { return l->data[k] + c->offset[k] * l->item[k]; }

/* ---- one line -------------------------------------------------------------------------------------------------------- */

static void row(const lines *l, void *const *p) {
    if (l->n_operands == 2) {
        if (l->kind == FAC_ACC_F32)
            FAC_ISA_PICK(fac__softmax_row_f32)(l->form, p[0], p[1], l->n);
        else
            FAC_ISA_PICK(fac__softmax_row_f64)(l->form, p[0], p[1], l->n);
    } else {
        if (l->kind == FAC_ACC_F32)
            FAC_ISA_PICK(fac__softmax_back_row_f32)(l->form, p[0], p[1], p[2], l->n);
        else
            FAC_ISA_PICK(fac__softmax_back_row_f64)(l->form, p[0], p[1], p[2], l->n);
    }
}

/* buffer: room for two lines; inputs are converted into it and the result is made over the first. */
static void converted_row(const lines *l, const fac_cursor *c, char *buffer) {
    char *a = buffer, *b = buffer + (size_t)l->n * fac__acc_size(l->kind);
    int last = l->n_operands - 1;
    fac__tile_load(l->kind, a, address(l, c, 0), l->dtype[0], l->step[0], l->n);
    if (last == 2) fac__tile_load(l->kind, b, address(l, c, 1), l->dtype[1], l->step[1], l->n);
    void *p[3] = {a, last == 2 ? b : a, a};
    row(l, p);
    fac__tile_store(l->kind, a, address(l, c, last), l->dtype[last], l->step[last], l->n);
}

/* A gradient by two passes over tiles of its inputs. */
static void back_in_tiles(const lines *l, const fac_cursor *c) {
    float dy[FAC_TILE], y[FAC_TILE];
    double sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < l->n; i += FAC_TILE) {
            const int64_t n = fac__min(FAC_TILE, l->n - i);
            fac__tile_load(FAC_ACC_F32, dy, address(l, c, 0) + i * l->step[0] * l->item[0], l->dtype[0], l->step[0], n);
            if (pass == 1 || l->form == FAC_SOFTMAX)
                fac__tile_load(FAC_ACC_F32, y, address(l, c, 1) + i * l->step[1] * l->item[1], l->dtype[1], l->step[1],
                               n);
            if (pass == 0) {
                sum += FAC_ISA_PICK(fac__softmax_back_sum_f32)(l->form, dy, y, n);
                continue;
            }
            FAC_ISA_PICK(fac__softmax_back_rest_f32)(l->form, dy, y, (float)sum, dy, n);
            fac__tile_store(FAC_ACC_F32, dy, address(l, c, 2) + i * l->step[2] * l->item[2], l->dtype[2], l->step[2],
                            n);
        }
}

/* Short rows without gaps that have to be converted: many at a time go through a tile. */
static bool fits_tiles(const lines *l) {
    bool dense = l->kind == FAC_ACC_F32 && l->n <= SHORT && l->nest.ndim == 1;
    for (int k = 0; dense && k < l->n_operands; k++) dense = l->step[k] == 1 && l->nest.stride[k][0] == l->n;
    return dense;
}

static fac_status run_tiles(const lines *l, int64_t begin, int64_t end) {
    const int last = l->n_operands - 1;
    const int64_t some = FAC_TILE / l->n;
    float tile[2][FAC_TILE];
    for (int64_t i = begin, rows; i < end; i += rows) {
        rows = fac__min(some, end - i);
        for (int k = 0; k < last; k++)
            fac__tile_load(FAC_ACC_F32, tile[k], l->data[k] + i * l->n * l->item[k], l->dtype[k], 1, rows * l->n);
        /* Not in place: a vector that begins with the next row would wait for what this one stores. */
        if (last == 1) FAC_ISA_PICK(fac__softmax_rows_f32)(l->form, tile[0], l->n, tile[1], l->n, l->n, rows);
        for (float *x = tile[0], *y = tile[1]; last == 2 && x < tile[0] + rows * l->n; x += l->n, y += l->n)
            row(l, (void *const[]){x, y, x});
        fac__tile_store(FAC_ACC_F32, tile[last == 1], l->data[last] + i * l->n * l->item[last], l->dtype[last], 1,
                        rows * l->n);
    }
    return FAC_OK;
}

/* buffer: NULL if lines are used in place. */
static fac_status run_rows(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const lines *l = ctx;
    fac_cursor c;
    if (buffer && fits_tiles(l)) return run_tiles(l, begin, end);
    fac__nest_seek(&l->nest, l->n_operands, begin, &c);
    if (!buffer && l->n_operands == 2 && l->kind == FAC_ACC_F32 && l->n <= SHORT && l->nest.ndim == 1) {
        FAC_ISA_PICK(fac__softmax_rows_f32)
        (l->form, (const float *)(void *)address(l, &c, 0), l->nest.stride[0][0], (float *)(void *)address(l, &c, 1),
         l->nest.stride[1][0], l->n, end - begin);
        return FAC_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        if (l->in_tiles) {
            back_in_tiles(l, &c);
        } else if (buffer) {
            converted_row(l, &c, buffer);
        } else {
            void *p[3] = {address(l, &c, 0), address(l, &c, 1), l->n_operands == 3 ? address(l, &c, 2) : NULL};
            row(l, p);
        }
        fac__nest_advance(&l->nest, l->n_operands, 1, &c);
    }
    return FAC_OK;
}

/* ---- strips ----------------------------------------------------------------------------------------------------------- */

/* Rows of strips may lie pages apart, where nothing but this fetches them before they are wanted. */
enum { AHEAD = 16 };
static void fetch(const char *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += FAC_CACHE_LINE) __builtin_prefetch(p + i);
}

/* Where lines lie side by side as a strip has them, their rows are copied, many at once. */
static bool copy_strip(const lines *l, const fac_cursor *c, int k, int64_t w, char *strip, bool out) {
    const int64_t item = l->item[k], row = l->strip * item, step = l->step[k] * item;
    if (!fac__acc_is(l->kind, l->dtype[k]) || fac__nest_step(&l->nest, k) != 1) return false;
    char *at = address(l, c, k);
    for (int64_t i = 0; i < l->n; i += AHEAD, at += AHEAD * step, strip += AHEAD * row) {
        for (int64_t r = AHEAD; r < 2 * AHEAD && r < l->n - i; r++) fetch(at + r * step, w * item);
        FAC_ISA_PICK(fac__items_copy_rows)
        ((size_t)item, out ? at : strip, item, out ? strip : at, item, w, fac__min(AHEAD, l->n - i), out ? step : row,
         out ? row : step);
    }
    return true;
}

/* Moves w lines side by side between memory and a strip; unused lanes of a loaded strip are zero. */
static void load_strip(const lines *l, const fac_cursor *c, int k, int64_t w, char *strip) {
    size_t row_bytes = (size_t)l->strip * fac__acc_size(l->kind);
    if (w < l->strip) memset(strip, 0, (size_t)l->n * row_bytes);
    if (copy_strip(l, c, k, w, strip, false)) return;
    const char *from = address(l, c, k);
    const int64_t row = l->step[k] * l->item[k];
    for (int64_t i = 0; i < l->n; i++, from += row) {
        if (l->n - i > AHEAD) fetch(from + AHEAD * row, w * l->item[k]);
        fac__tile_load(l->kind, strip + (size_t)i * row_bytes, from, l->dtype[k], fac__nest_step(&l->nest, k), w);
    }
}

static void store_strip(const lines *l, const fac_cursor *c, int k, int64_t w, char *strip) {
    if (copy_strip(l, c, k, w, strip, true)) return;
    size_t row_bytes = (size_t)l->strip * fac__acc_size(l->kind);
    char *to = address(l, c, k);
    const int64_t row = l->step[k] * l->item[k];
    for (int64_t i = 0; i < l->n; i++, to += row) {
        if (l->n - i > AHEAD) fetch(to + AHEAD * row, w * l->item[k]);
        fac__tile_store(l->kind, strip + (size_t)i * row_bytes, to, l->dtype[k], fac__nest_step(&l->nest, k), w);
    }
}

static void strip(const lines *l, void *a, void *b) {
    if (l->n_operands == 2) {
        if (l->kind == FAC_ACC_F32)
            FAC_ISA_PICK(fac__softmax_strip_f32)(l->form, a, l->n, l->strip);
        else
            FAC_ISA_PICK(fac__softmax_strip_f64)(l->form, a, l->n, l->strip);
    } else {
        if (l->kind == FAC_ACC_F32)
            FAC_ISA_PICK(fac__softmax_back_strip_f32)(l->form, a, b, l->n, l->strip);
        else
            FAC_ISA_PICK(fac__softmax_back_strip_f64)(l->form, a, b, l->n, l->strip);
    }
}

static int64_t strip_bytes(const lines *l) { return l->n * l->strip * (int64_t)fac__acc_size(l->kind); }

static fac_status run_strips(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const lines *l = ctx;
    char *a = scratch, *b = a + strip_bytes(l);
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i % l->strips * l->strip, w = fac__min(l->strip, l->width - at);
        fac_cursor c;
        fac__nest_seek(&l->nest, l->n_operands, i / l->strips * l->width + at, &c);
        load_strip(l, &c, 0, w, a);
        if (l->n_operands == 3) load_strip(l, &c, 1, w, b);
        strip(l, a, b);
        store_strip(l, &c, l->n_operands - 1, w, a);
    }
    return FAC_OK;
}

static fac_status run_lines(lines *l) {
    int64_t rows = l->nest.count, n = fac__max(1, l->n), bytes;
    FAC_CHECK(fac__mul(n, FAC_STRIP * 2 * 8, &bytes), FAC_ERR_OVERFLOW, "a line of %lld elements is too long",
              (long long)n);
    if (l->strips)
        return fac__parallel_for_scratch(0, rows / l->width * l->strips, fac__grain(FAC_GRAIN / 8, n * l->strip),
                                         (l->n_operands - 1) * strip_bytes(l), run_strips, l);
    bytes = l->in_place || l->in_tiles ? 0 : 2 * l->n * (int64_t)fac__acc_size(l->kind);
    return fac__parallel_for_scratch(0, rows, fac__grain(FAC_GRAIN / 8, n), bytes, run_rows, l);
}

static fac_status forward(fac_structured *s, fac_tensor *self, fac_softmax_form form) {
    if (self->numel == 0) return FAC_OK;
    fac_tensor *t[2] = {self, s->out[0]};
    lines l;
    plan_lines(&l, t, 2, fac__carried_mask(s), fac__acc_of((fac_dtype)s->out[0]->dtype), form);
    return run_lines(&l);
}

static fac_status backward(fac_structured *s, fac_tensor *grad, fac_tensor *output, fac_softmax_form form) {
    if (grad->numel == 0) return FAC_OK;
    fac_tensor *t[3] = {grad, output, s->out[0]};
    lines l;
    plan_lines(&l, t, 3, fac__carried_mask(s), fac__acc_of((fac_dtype)output->dtype), form);
    return run_lines(&l);
}

fac_status _softmax_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool half_to_float) {
    (void)dim, (void)half_to_float;
    return forward(s, self, FAC_SOFTMAX);
}

fac_status _log_softmax_cpu(fac_structured *s, fac_tensor *self, int64_t dim, bool half_to_float) {
    (void)dim, (void)half_to_float;
    return forward(s, self, FAC_LOG_SOFTMAX);
}

fac_status _softmax_backward_data_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *output, int64_t dim,
                                      fac_dtype input_dtype) {
    (void)dim, (void)input_dtype;
    return backward(s, grad_output, output, FAC_SOFTMAX);
}

fac_status _log_softmax_backward_data_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *output, int64_t dim,
                                          fac_dtype input_dtype) {
    (void)dim, (void)input_dtype;
    return backward(s, grad_output, output, FAC_LOG_SOFTMAX);
}

/* ---- logsumexp ------------------------------------------------------------------------------------------------------- */

typedef struct sums {
    fac_dim_split split;
    fac_tensor *in, *out;
    fac_acc kind;
    bool in_place;
    int64_t width, strips,
        strip; /* neighbours that are outputs of their own, in strips; strips is 0 if there are none */
} sums;

/* Collects the points of the reduced nest in a buffer of the kind. */
static void collect(const sums *s, const char *base, char *buffer) {
    const fac_nest *red = &s->split.reduced;
    size_t item = fac__dtype_size((fac_dtype)s->in->dtype);
    fac_cursor c;
    fac__nest_seek(red, 1, 0, &c);
    for (int64_t i = 0; i < red->count;) {
        int64_t n = fac__nest_run(red, &c);
        fac__tile_load(s->kind, buffer + (size_t)i * fac__acc_size(s->kind), base + c.offset[0] * (int64_t)item,
                       (fac_dtype)s->in->dtype, fac__nest_step(red, 0), n);
        fac__nest_advance(red, 1, n, &c);
        i += n;
    }
}

/* Of n complex numbers, relative to the largest real part. If that is infinite, so are exponentials of it, which then decide the
   angle; those of -inf are 0. */
static void logsumexp_c128(const double *z, int64_t n, double out[2]) {
    double largest = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (z[2 * i] > largest || isnan(z[2 * i])) largest = z[2 * i]; /* a NaN stays */
    if (isinf(largest)) largest = 0;
    double complex sum = 0;
    for (int64_t i = 0; i < n; i++) sum += cexp(fac__complex_parts(z[2 * i] - largest, z[2 * i + 1]));
    sum = clog(sum);
    out[0] = creal(sum) + largest;
    out[1] = cimag(sum);
}

static void logsumexp_row(fac_acc kind, const void *x, int64_t n, fac_acc_value *out) {
    if (kind == FAC_ACC_F32)
        out->f32 = FAC_ISA_PICK(fac__logsumexp_row_f32)(x, n);
    else if (kind == FAC_ACC_F64)
        out->f64 = FAC_ISA_PICK(fac__logsumexp_row_f64)(x, n);
    else
        logsumexp_c128(x, n, out->c128);
}

/* Short rows that lie one behind the other, elements equally far apart: many at a time go through a tile. */
static bool is_short(const sums *s) {
    const fac_nest *kept = &s->split.kept, *red = &s->split.reduced;
    return s->kind == FAC_ACC_F32 && kept->ndim == 1 && red->ndim == 1 && red->count > 0 &&
           red->count <= FAC_TILE / 8 && fac__nest_step(kept, 0) == red->count * fac__nest_step(red, 0);
}

enum { SHORT_SUMS = 256 }; /* the most rows of a tile: their results lie on the stack, as the tile does */

static void short_sums(const sums *s, int64_t begin, int64_t end) {
    const int64_t n = s->split.reduced.count, step = fac__nest_step(&s->split.reduced, 0);
    const fac_dtype from = (fac_dtype)s->in->dtype, to = (fac_dtype)s->out->dtype;
    const int64_t out_step = fac__nest_step(&s->split.kept, 1), some = fac__min(FAC_TILE / n, SHORT_SUMS);
    fac_tile_buf tile;
    float out[SHORT_SUMS];
    for (int64_t i = begin; i < end; i += some) {
        const int64_t rows = fac__min(some, end - i);
        fac__tile_load(FAC_ACC_F32, &tile, (char *)fac__data(s->in) + i * n * step * fac__dtype_size(from), from, step,
                       rows * n);
        FAC_ISA_PICK(fac__logsumexp_rows_f32)(tile.f32, n, n, rows, out, 1);
        fac__tile_store(FAC_ACC_F32, out, (char *)fac__data(s->out) + i * out_step * fac__dtype_size(to), to, out_step,
                        rows);
    }
}

static fac_status run_sums(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const sums *s = ctx;
    int64_t n = s->split.reduced.count;
    fac_cursor c;
    fac__nest_seek(&s->split.kept, 2, begin, &c);
    if (s->in_place && s->kind == FAC_ACC_F32 && s->out->dtype == FAC_F32 && s->split.kept.ndim == 1) {
        FAC_ISA_PICK(fac__logsumexp_rows_f32)
        ((const float *)fac__data(s->in) + c.offset[0], s->split.kept.stride[0][0], n, end - begin,
         (float *)fac__data(s->out) + c.offset[1], s->split.kept.stride[1][0]);
        return FAC_OK;
    }
    if (is_short(s)) {
        short_sums(s, begin, end);
        return FAC_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        const char *base = (char *)fac__data(s->in) + c.offset[0] * fac__item_size(s->in);
        if (buffer) collect(s, base, buffer);
        fac_acc_value v;
        logsumexp_row(s->kind, buffer ? buffer : (const void *)base, n, &v);
        fac_dtype d = (fac_dtype)s->out->dtype;
        fac__tile_store(s->kind, &v, (char *)fac__data(s->out) + c.offset[1] * fac__dtype_size(d), d, 1, 1);
        fac__nest_advance(&s->split.kept, 2, 1, &c);
    }
    return FAC_OK;
}

/* Row i of w neighbouring lines goes to row i of the buffer. */
static void collect_strip(const sums *s, const char *base, int64_t w, char *buffer) {
    const fac_nest *red = &s->split.reduced;
    const fac_dtype d = (fac_dtype)s->in->dtype;
    const int64_t item = fac__dtype_size(d), row = s->strip * (int64_t)fac__acc_size(s->kind);
    fac_cursor c;
    if (w < s->strip && red->count) memset(buffer, 0, (size_t)(red->count * row));
    fac__nest_seek(red, 1, 0, &c);
    for (int64_t i = 0; i < red->count; i++, fac__nest_advance(red, 1, 1, &c))
        fac__tile_load(s->kind, buffer + i * row, base + c.offset[0] * item, d, fac__nest_step(&s->split.kept, 0), w);
}

static fac_status run_sum_strips(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const sums *s = ctx;
    const fac_nest *red = &s->split.reduced, *kept = &s->split.kept;
    const fac_dtype d = (fac_dtype)s->out->dtype;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i % s->strips * s->strip, w = fac__min(s->strip, s->width - at);
        _Alignas(64) char out[FAC_SUMS_F32 * sizeof(float)];
        fac_cursor c;
        fac__nest_seek(kept, 2, i / s->strips * s->width + at, &c);
        const void *x = (char *)fac__data(s->in) + c.offset[0] * fac__item_size(s->in);
        const bool direct = s->in_place && w == s->strip;
        if (!direct) collect_strip(s, x, w, buffer);
        const int64_t ld = direct ? fac__nest_step(red, 0) : s->strip;
        if (s->kind == FAC_ACC_F32)
            FAC_ISA_PICK(fac__logsumexp_strip_f32)(direct ? x : buffer, ld, red->count, (float *)(void *)out);
        else
            FAC_ISA_PICK(fac__logsumexp_strip_f64)(direct ? x : buffer, ld, red->count, (double *)(void *)out);
        fac__tile_store(s->kind, out, (char *)fac__data(s->out) + c.offset[1] * fac__dtype_size(d), d,
                        fac__nest_step(kept, 1), w);
    }
    return FAC_OK;
}

static fac_status sum_strips(sums *s) {
    const fac_nest *red = &s->split.reduced, *kept = &s->split.kept;
    const int64_t cost = fac__mul_or_max(red->count, s->strip), item = (int64_t)fac__acc_size(s->kind);
    s->width = kept->size[0];
    s->strips = fac__div_up(s->width, s->strip);
    s->in_place = fac__acc_is(s->kind, (fac_dtype)s->in->dtype) && red->ndim <= 1 && fac__nest_step(kept, 0) == 1;
    const bool buffer = !s->in_place || s->width % s->strip;
    return fac__parallel_for_scratch(0, kept->count / s->width * s->strips, fac__grain(FAC_GRAIN / 8, cost),
                                     buffer ? fac__mul_or_max(cost, item) : 0, run_sum_strips, s);
}

fac_status logsumexp_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    if (s->out[0]->numel == 0) return FAC_OK;
    sums j;
    j.in = self;
    j.out = s->out[0];
    j.kind = fac__acc_of((fac_dtype)j.out->dtype);
    j.strip = j.kind == FAC_ACC_F32 ? FAC_SUMS_F32 : FAC_SUMS_F64;
    fac__split(&j.split, self, fac__carried_mask(s), &j.out, 1, false);
    const fac_nest *red = &j.split.reduced;
    int64_t bytes;
    FAC_CHECK(fac__mul(red->count, 16, &bytes), FAC_ERR_OVERFLOW, "too many elements to reduce");
    /* Few doubles each are lines side by side as well, though they do not lie so. */
    const bool few = j.kind == FAC_ACC_F64 && red->count <= 16 && j.split.kept.ndim && j.split.kept.size[0] >= j.strip;
    if (j.kind != FAC_ACC_C128 && (few || (fac__split_is_columns(&j.split) && j.split.kept.size[0] >= j.strip / 4)))
        return sum_strips(&j);
    j.in_place = fac__acc_is(j.kind, (fac_dtype)self->dtype) && red->ndim <= 1 && fac__nest_step(red, 0) == 1;
    bytes = j.in_place || is_short(&j) ? 0 : red->count * (int64_t)fac__acc_size(j.kind);
    return fac__parallel_for_scratch(0, j.split.kept.count, fac__grain(FAC_GRAIN / 8, red->count), bytes, run_sums, &j);
}
