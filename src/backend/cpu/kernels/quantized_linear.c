/* Products of quantized matrices: linear layers and convolutions. Sums of products are exact in int32, corrected for both zero points,
   and rounded once: (sum + bias / (xs * ws)) * (xs * ws / ys) to nearest even in float32, plus the zero point. source: the order of
   operations is FBGEMM's, whose integers torch.ops.quantized gives.

   Weights are packed in panels, tiles of which meet as many rows (quantized_dot.h). Rows of a convolution are patches of its input,
   which is laid out anew for that, channels innermost and with the padding, which is the zero point, written out: a row is then a place
   to begin and the distances of the taps from it, which all rows share. A group of one channel and one result is not a product of
   matrices: all channels of a place are summed side by side. Of a linear layer with few rows the weights are read as they lie. Tasks
   are cut by shape; no sum is split. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/quantized_dot.h"
#include "backend/cpu/parallel.h"
#include "core/coded.h"
#include "core/tensor_make.h"
#include "ops/coded.h"
#include "ops/conv.h"
#include "ops/meta/check.h"
#include "ops_gen.h"
#include <math.h>

enum { ROWS = 64, BLOCK = 64, SOME = 256, FEW_ROWS = 32 }; /* rows and columns of a task; places laid out at a time */

/* The dimensions of a convolution, of which the last is innermost: those that it lacks come first. Where windows leave gaps between
   them only the windows are laid out: number p along a dimension is p / step * stride + p % step - padding of the input. */
typedef struct window {
    int64_t in[FAC_CONV_DIMS], laid[FAC_CONV_DIMS], out[FAC_CONV_DIMS];
    int64_t step[FAC_CONV_DIMS], stride[FAC_CONV_DIMS], padding[FAC_CONV_DIMS];
    int64_t lines; /* laid out by a task */
    bool plain;    /* the input is laid out as it is, but for its order */
} window;

typedef struct product {
    const uint8_t *source;            /* row-major codes of the input */
    int flip;                         /* 0x80 makes int8 codes uint8 */
    int64_t groups, rows, columns, k; /* columns and k of each group */
    int64_t inner, depth, taps;       /* k is inner * taps; depth: inner with what is added to it in `laid` */
    int64_t x_zero;                   /* of uint8 codes */
    const int8_t *weight;             /* [groups, columns, inner, taps] */
    bool any_zero;                    /* some w_zero is not 0 */
    fac_columns numbers;              /* of groups * columns */
    int32_t *w_sum;
    /* The result: uint8 or int8 codes, or float32. Element (row, column of all groups) is at
       (row / plane * all columns + column) * plane + row % plane; a plane of 0 stands for row-major. */
    void *out;
    int64_t plane;
    fac_dtype out_dtype;
    const fac_conv *conv;
    window window;
    /* uint8 codes of rows or of [batch, places, groups], `depth` each, and the sums of each if any_zero; */
    uint8_t *laid;
    int32_t *x_sums;
    int64_t *offsets; /* [taps]: from a row's place, in bytes */
    int8_t *packed;   /* [groups][panels of columns]; of a depthwise convolution w - w_zero as int32 [taps, groups] */
} product;

/* Few rows meet the weights as they lie, which it would take longer to pack. */
static bool is_few(const product *p) { return p->rows <= FEW_ROWS && !p->conv; }
static bool is_depthwise(const product *p) {
    return p->conv && p->inner == 1 && p->columns == 1 && p->k <= FAC_DOT_SHORT;
}
static int64_t pitch(const product *p) { return p->groups * p->depth; }

/* ---- the input ------------------------------------------------------------------------------------------------------------ */

static void plan_window(const fac_conv *c, window *w) {
    *w = (window){.plain = true};
    for (int i = 0; i < FAC_CONV_DIMS; i++) {
        const int d = (i + c->nd) % FAC_CONV_DIMS; /* those from nd on have size 1 */
        const int64_t extent = (c->kernel[d] - 1) * c->dilation[d] + 1;
        w->in[i] = c->large_size[d], w->out[i] = c->small_size[d];
        w->stride[i] = c->stride[d], w->padding[i] = c->padding[d];
        w->step[i] = fac__min(c->stride[d], extent);
        w->laid[i] = (c->small_size[d] - 1) * w->step[i] + extent;
        w->plain &= w->padding[i] == 0 && w->step[i] == w->stride[i] && w->laid[i] == w->in[i];
    }
    const int64_t lines = w->step[1] == w->stride[1] ? SOME / fac__max(1, w->in[2]) : 1;
    w->lines = fac__max(1, fac__min(lines, w->laid[1]));
}

/* Of the input; may lie in the padding. */
static int64_t coordinate(const window *w, int d, int64_t p) {
    return p / w->step[d] * w->stride[d] + p % w->step[d] - w->padding[d];
}

/* `n` places from `at` on of an image, channels innermost. */
static void turn(const product *p, int64_t image, int64_t at, int64_t n, uint8_t *to) {
    const int64_t count = p->conv->large_count, channels = p->groups * p->inner;
    const uint8_t *from = p->source + image * channels * count + at;
    const bool dense = p->depth == p->inner;
    if (!dense) memset(to, 0, (size_t)(n * pitch(p)));
    for (int64_t g = 0; g < (dense ? 1 : p->groups); g++) FAC_ISA_PICK(fac__transpose_bytes)
    (to + g * p->depth, pitch(p), from + g * p->inner * count, count, n, dense ? channels : p->inner, (uint8_t)p->flip);
}

/* A line along the last dimension from one of the input, NULL for one of padding. */
static void lay_line(const product *p, const uint8_t *from, uint8_t *to) {
    const window *w = &p->window;
    const int64_t n = w->laid[2], bytes = pitch(p), before = from ? fac__min(w->padding[2], n) : n,
                  inside = fac__min(w->in[2], n - before), after = n - before - inside;
    if (from && w->step[2] != w->stride[2]) {
        for (int64_t i = 0; i < n; i++, to += bytes) {
            const int64_t at = coordinate(w, 2, i);
            if (at < 0 || at >= w->in[2])
                memset(to, (int)p->x_zero, (size_t)bytes);
            else
                memcpy(to, from + at * bytes, (size_t)bytes);
        }
        return;
    }
    memset(to, (int)p->x_zero, (size_t)(before * bytes));
    if (inside) memcpy(to + before * bytes, from, (size_t)(inside * bytes));
    memset(to + (before + inside) * bytes, (int)p->x_zero, (size_t)(after * bytes));
}

/* Task `t`: some lines of an image. */
static void lay_lines(const product *p, int64_t t, uint8_t *aside) {
    const window *w = &p->window;
    const int64_t parts = fac__div_up(w->laid[1], w->lines), plane = t / parts, first = t % parts * w->lines,
                  n = fac__min(w->lines, w->laid[1] - first), line = w->laid[2] * pitch(p);
    const int64_t z = coordinate(w, 0, plane % w->laid[0]), low = fac__max(0, coordinate(w, 1, first)),
                  high = fac__min(w->in[1] - 1, coordinate(w, 1, first + n - 1));
    const bool inside = z >= 0 && z < w->in[0] && low <= high && w->in[2] > 0;
    uint8_t *to = p->laid + (plane * w->laid[1] + first) * line, *from = w->plain ? to : aside;
    if (inside) turn(p, plane / w->laid[0], (z * w->in[1] + low) * w->in[2], (high - low + 1) * w->in[2], from);
    for (int64_t i = 0; i < n && !w->plain; i++) {
        const int64_t y = coordinate(w, 1, first + i);
        lay_line(p, inside && y >= low && y <= high ? from + (y - low) * w->in[2] * pitch(p) : NULL, to + i * line);
    }
    if (p->x_sums) FAC_ISA_PICK(fac__sums_u8)
    (to, n * w->laid[2] * p->groups, p->inner, p->depth, p->x_sums + (to - p->laid) / p->depth);
}

/* n codes of the input, from number `at` on. */
static void take_codes(const product *p, int64_t at, int64_t n, uint8_t *to) {
    if (n == 0) return; /* there may be none to point at */
    memcpy(to, p->source + at, (size_t)n);
    for (int64_t i = 0; p->flip && i < n; i++) to[i] ^= 0x80;
}

static void lay_row(const product *p, int64_t r) {
    uint8_t *to = p->laid + r * p->depth;
    take_codes(p, r * p->k, p->k, to);
    memset(to + p->k, 0, (size_t)(p->depth - p->k));
}

static fac_status lay(void *context, int64_t begin, int64_t end, void *scratch) {
    const product *p = context;
    for (int64_t t = begin; p->conv && t < end; t++) lay_lines(p, t, scratch);
    if (p->conv) return FAC_OK;
    for (int64_t r = begin; p->laid != p->source && r < end; r++) lay_row(p, r);
    if (p->x_sums) FAC_ISA_PICK(fac__sums_u8)
    (p->laid + begin * p->depth, end - begin, p->k, p->depth, p->x_sums + begin);
    return FAC_OK;
}

static fac_status lay_all(product *p) {
    const window *w = &p->window;
    if (!p->conv) return fac__parallel_for_scratch(0, p->rows, fac__grain(8 * FAC_GRAIN, p->k), 0, lay, p);
    for (int64_t t = 0; t < p->taps; t++) {
        const fac_conv *c = p->conv;
        int64_t at[FAC_CONV_DIMS], rest = t, place = 0;
        for (int d = FAC_CONV_DIMS; d--; rest /= c->kernel[d]) at[d] = rest % c->kernel[d] * c->dilation[d];
        for (int i = 0; i < FAC_CONV_DIMS; i++) place = place * w->laid[i] + at[(i + c->nd) % FAC_CONV_DIMS];
        p->offsets[t] = place * pitch(p);
    }
    if (pitch(p) == 0) return FAC_OK; /* places without channels may be any number */
    const int64_t n = p->conv->batch * w->laid[0] * fac__div_up(w->laid[1], w->lines),
                  aside = w->plain ? 0 : fac__mul_or_max(w->lines * w->in[2], pitch(p));
    return fac__parallel_for_scratch(0, n, fac__grain(8 * FAC_GRAIN, w->lines * w->laid[2] * pitch(p)), aside, lay, p);
}

/* ---- the weights ----------------------------------------------------------------------------------------------------------- */

static int64_t row_bytes(const product *p) { return p->taps * p->depth; }
static int64_t padded_columns(const product *p) { return (p->columns + 15) & ~INT64_C(15); }
/* Whether a row of weights is packed as it lies. */
static bool is_ready(const product *p) { return p->taps == 1 && p->depth == p->k; }

static void set_sum(const product *p, int64_t column, int32_t sum) {
    p->w_sum[column] = sum;
    p->numbers.away[column] = (int32_t)((uint32_t)p->x_zero * (uint32_t)sum);
}

/* Panel `t`, from rows that are turned to [taps, depth] aside; columns that do not exist are zeros. */
static void pack_panel(const product *p, int64_t t, int8_t *aside) {
    const int64_t panels = fac__div_up(p->columns, FAC_PANEL), g = t / panels, first = t % panels * FAC_PANEL,
                  n = fac__min(FAC_PANEL, p->columns - first), width = n > 16 ? FAC_PANEL : 16, bytes = row_bytes(p);
    const int8_t *weight = p->weight + (g * p->columns + first) * p->k, *rows[FAC_PANEL];
    int32_t sums[FAC_PANEL];
    if (bytes) memset(aside, 0, (size_t)(is_ready(p) ? bytes : FAC_PANEL * bytes));
    for (int64_t j = 0; j < width; j++) {
        rows[j] = !is_ready(p) ? aside + j * bytes : j < n ? weight + j * p->k : aside;
        if (j < n && !is_ready(p)) FAC_ISA_PICK(fac__transpose_bytes)
        ((uint8_t *)aside + j * bytes, p->depth, (const uint8_t *)weight + j * p->k, p->taps, p->taps, p->inner, 0);
    }
    FAC_ISA_PICK(fac__pack_i8)
    (rows, width, bytes, p->packed + (g * padded_columns(p) + first) * bytes, sums);
    for (int64_t j = 0; j < n; j++) set_sum(p, g * p->columns + first + j, sums[j]);
}

static fac_status pack(void *context, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) pack_panel(context, t, scratch);
    return FAC_OK;
}

static void pack_depthwise(const product *p) {
    int32_t *w = (int32_t *)(void *)p->packed;
    for (int64_t g = 0; g < p->groups; g++) {
        int32_t sum = 0;
        for (int64_t t = 0; t < p->taps; t++) {
            const int32_t number = p->weight[g * p->taps + t] - p->numbers.w_zero[g];
            w[t * p->groups + g] = number;
            sum += number;
        }
        set_sum(p, g, sum);
    }
}

static fac_status pack_all(product *p) {
    if (is_depthwise(p)) {
        pack_depthwise(p);
        return FAC_OK;
    }
    const int64_t bytes = row_bytes(p);
    return fac__parallel_for_scratch(0, p->groups * fac__div_up(p->columns, FAC_PANEL),
                                     fac__grain(8 * FAC_GRAIN, fac__mul_or_max(FAC_PANEL, bytes)),
                                     is_ready(p) ? bytes : FAC_PANEL * bytes, pack, p);
}

/* ---- one task -------------------------------------------------------------------------------------------------------------- */

/* Sums so long that what zero points stand for need not fit 32 bits. */
static void finish_long(const product *p, int64_t row, int64_t column, const int32_t *sums, int64_t n, int32_t x,
                        uint8_t *codes) {
    const fac_columns *c = &p->numbers;
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = column + i;
        const float v = (float)(sums[i] - p->x_zero * p->w_sum[j] - (int64_t)c->w_zero[j] * x);
        const float r = rintf((v + c->bias[j]) * c->multiplier[j]) + c->zero;
        if (p->out_dtype == FAC_F32)
            ((float *)p->out)[row * p->columns + j] = v * c->scale[j] + c->bias[j];
        else
            codes[i] = (uint8_t)(int32_t)(r > c->least ? r < c->most ? r : c->most : c->least);
    }
}

/* n sums of a row, of the columns from `column` on, to the row's results; `codes` takes those that are codes. x: the row's sum, less
   what its zero point stands for, or 0 if no weight's is other than 0. */
static void finish_row(const product *p, int64_t row, int64_t column, const int32_t *sums, int64_t n, int32_t x,
                       uint8_t *codes) {
    if (p->k > FAC_DOT_SHORT)
        finish_long(p, row, column, sums, n, x, codes);
    else if (p->out_dtype == FAC_F32)
        FAC_ISA_PICK(fac__dequantize_sums)
    (sums, &p->numbers, column, n, x, (float *)p->out + row * p->groups * p->columns + column);
    else FAC_ISA_PICK(fac__requantize)(sums, &p->numbers, column, n, x, codes);
}

/* Where the codes of a row go: to their place, or side by side to be turned into planes. */
static uint8_t *codes_at(const product *p, int64_t row, int64_t column, uint8_t *aside) {
    return p->plane ? aside : (uint8_t *)p->out + row * p->groups * p->columns + column;
}

/* Codes of n rows from `row` on and `width` columns, `ld` apart, go to their planes. */
static void to_planes(const product *p, int64_t row, int64_t column, const uint8_t *codes, int64_t ld, int64_t n,
                      int64_t width) {
    const int64_t all = p->groups * p->columns;
    for (int64_t i = 0; i < n;) {
        const int64_t image = (row + i) / p->plane, at = (row + i) % p->plane, some = fac__min(n - i, p->plane - at);
        FAC_ISA_PICK(fac__transpose_bytes)
        ((uint8_t *)p->out + (image * all + column) * p->plane + at, p->plane, codes + i * ld, ld, width, some, 0);
        i += some;
    }
}

/* The numbers in `laid`, counted in `depth`, of the places of group 0 where n rows begin. */
static void places(const product *p, int64_t begin, int64_t n, int64_t *out) {
    const window *w = &p->window;
    if (!p->conv) {
        for (int64_t i = 0; i < n; i++) out[i] = begin + i;
        return;
    }
    int64_t rest = begin / w->out[2];
    int64_t x = begin % w->out[2], y = rest % w->out[1], z = rest / w->out[1] % w->out[0],
            image = rest / w->out[1] / w->out[0];
    for (int64_t i = 0; i < n; i++) {
        out[i] = (((image * w->laid[0] + z * w->step[0]) * w->laid[1] + y * w->step[1]) * w->laid[2] + x * w->step[2]) *
                 p->groups;
        if (++x < w->out[2]) continue;
        x = 0;
        if (++y < w->out[1]) continue;
        y = 0;
        if (++z == w->out[0]) z = 0, image++;
    }
}

static void sum_rows(const product *p, const int64_t *at, int64_t n, int32_t *x) {
    for (int64_t i = 0; i < n; i++) x[i] = p->x_sums ? (int32_t)(-p->x_zero * p->k) : 0;
    for (int64_t t = 0; p->x_sums && t < p->taps; t++) {
        const int32_t *sums = p->x_sums + p->offsets[t] / fac__max(1, p->depth);
        for (int64_t i = 0; i < n; i++) x[i] += sums[at[i]];
    }
}

/* Task `t`: a block of rows of a group with a block of its columns. */
static void one_task(const product *p, int64_t t) {
    const int64_t blocks = fac__div_up(p->rows, ROWS), parts = fac__div_up(p->columns, BLOCK);
    const int64_t part = t % parts, g = t / parts / blocks, begin = t / parts % blocks * ROWS;
    const int64_t n = fac__min(ROWS, p->rows - begin), first = part * BLOCK,
                  width = fac__min(BLOCK, p->columns - first), column = g * p->columns + first;
    const int8_t *weight = p->packed + (g * padded_columns(p) + first) * row_bytes(p);
    fac_tile_rows tile = {.offsets = p->offsets, .taps = p->taps, .depth = p->depth};
    int32_t sums[FAC_TILE_ROWS * BLOCK], x[ROWS];
    int64_t at[ROWS];
    uint8_t aside[ROWS * BLOCK];
    places(p, begin, n, at);
    for (int64_t i = 0; i < n; i++) at[i] += g;
    sum_rows(p, at, n, x);
    for (int64_t r = 0; r < n; r += FAC_TILE_ROWS) {
        for (int64_t i = 0; i < FAC_TILE_ROWS; i++) tile.rows[i] = p->laid + at[fac__min(r + i, n - 1)] * p->depth;
        for (int64_t j = 0; j < width; j += FAC_PANEL) FAC_ISA_PICK(fac__tile_u8s8)
        (&tile, weight + j * row_bytes(p), width - j > 16 ? FAC_PANEL : 16, sums + j, BLOCK);
        for (int64_t i = 0; i < FAC_TILE_ROWS && r + i < n; i++)
            finish_row(p, begin + r + i, column, sums + i * BLOCK, width, x[r + i],
                       codes_at(p, begin + r + i, column, aside + (r + i) * BLOCK));
    }
    if (p->plane) to_planes(p, begin, column, aside, BLOCK, n, width);
}

static fac_status tasks(void *context, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) one_task(context, t);
    return FAC_OK;
}

/* Rows [begin, end) of a convolution whose groups have one channel and one result each: all channels of a place side by side. */
static void depthwise_rows(const product *p, int64_t begin, int64_t end, char *scratch) {
    const int64_t n = p->groups;
    int32_t *sums = (int32_t *)(void *)scratch;
    uint8_t *aside = (uint8_t *)(sums + n);
    int64_t at[ROWS];
    places(p, begin, end - begin, at);
    for (int64_t row = begin; row < end; row++) {
        FAC_ISA_PICK(fac__depthwise_dot)
        (p->laid + at[row - begin], p->offsets, p->taps, (const int32_t *)(const void *)p->packed, n, sums);
        finish_row(p, row, 0, sums, n, 0, aside + (row - begin) * n);
    }
    to_planes(p, begin, 0, aside, n, end - begin, n);
}

static fac_status depthwise_tasks(void *context, int64_t begin, int64_t end, void *scratch) {
    const product *p = context;
    for (int64_t row = begin; row < end; row += ROWS) depthwise_rows(p, row, fac__min(end, row + ROWS), scratch);
    return FAC_OK;
}

/* A block of columns with the few rows there are, and a row of ones, whose products are the sums of the weights. */
static void few_task(const product *p, int64_t part, uint8_t *scratch) {
    const int64_t first = part * BLOCK, width = fac__min(BLOCK, p->columns - first), k = p->k;
    const uint8_t *rows = p->flip ? scratch : p->source;
    int32_t sums[FAC_DOT_ROWS * BLOCK], total[BLOCK], x[FAC_DOT_ROWS] = {0};
    if (p->flip) take_codes(p, 0, p->rows * k, scratch);
    for (int64_t row = 0; row < p->rows; row += FAC_DOT_ROWS, rows += FAC_DOT_ROWS * k) {
        const int n = (int)fac__min(FAC_DOT_ROWS, p->rows - row);
        FAC_ISA_PICK(fac__dot_u8s8)
        (rows, k, n, p->weight + first * k, k, width, k, sums, BLOCK, row == 0 ? total : NULL);
        for (int64_t j = 0; row == 0 && j < width; j++) set_sum(p, first + j, total[j]);
        if (p->any_zero) FAC_ISA_PICK(fac__sums_u8)(rows, n, k, k, x);
        for (int r = 0; r < n; r++)
            finish_row(p, row + r, first, sums + r * BLOCK, width, p->any_zero ? x[r] - (int32_t)(p->x_zero * k) : 0,
                       codes_at(p, row + r, first, NULL));
    }
}

static fac_status few_tasks(void *context, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) few_task(context, t, scratch);
    return FAC_OK;
}

static fac_status run(product *p) {
    const int64_t parts = fac__div_up(p->columns, BLOCK);
    if (p->rows == 0) return FAC_OK;
    if (is_few(p))
        return fac__parallel_for_scratch(0, parts, 1, fac__max(1, p->flip ? p->rows * p->k : 0), few_tasks, p);
    FAC_TRY(pack_all(p));
    FAC_TRY(lay_all(p));
    if (is_depthwise(p)) {
        const int64_t each = (int64_t)sizeof(int32_t) + ROWS;
        return fac__parallel_for_scratch(0, p->rows, 4 * ROWS, fac__mul_or_max(p->groups, each), depthwise_tasks, p);
    }
    return fac__parallel_for(0, p->groups * fac__div_up(p->rows, ROWS) * parts, 1, tasks, p);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

/* A block that is divided: what is taken begins at `total`, in bytes. */
typedef struct block {
    int64_t total;
    bool fits;
} block;

static int64_t take(block *b, int64_t n, int64_t m, int64_t each) {
    const int64_t at = b->total;
    int64_t bytes;
    b->fits = b->fits && fac__mul(n, m, &bytes) && fac__mul(bytes, each, &bytes) && fac__add(bytes, 63, &bytes) &&
              fac__add(at, bytes & ~INT64_C(63), &b->total);
    return at;
}

static void set_numbers(product *p, const fac_quantizer *q, double x_scale, double y_scale, const float *bias) {
    const fac_columns *c = &p->numbers;
    for (int64_t j = 0; j < p->groups * p->columns; j++) {
        const int64_t channel = q->axis < 0 ? 0 : j;
        c->w_zero[j] = (int32_t)q->zero_points[channel];
        c->scale[j] = (float)x_scale * (float)q->scales[channel];
        c->bias[j] = !bias ? 0 : p->out_dtype == FAC_F32 ? bias[j] : bias[j] / c->scale[j];
        c->multiplier[j] = c->scale[j] / (float)y_scale;
    }
}

/* Whether the bytes, more than a gigabyte, are hundreds of times as many as the input has. */
static bool is_mostly_padding(const product *p, int64_t bytes) {
    double given = (double)(p->groups * p->depth);
    for (int d = 0; p->conv && d < FAC_CONV_DIMS; d++) given *= (double)p->window.in[d];
    return p->conv && bytes > INT64_C(1) << 30 && (double)bytes > 256 * given * (double)p->conv->batch;
}

/* Memory for everything that is computed beforehand. */
static fac_status take_memory(product *p, fac_workspace *out) {
    const int64_t all = p->groups * p->columns, *laid = p->window.laid;
    const bool few = is_few(p), depthwise = is_depthwise(p), copy = p->conv || p->flip || p->depth != p->k;
    block b = {.fits = true};
    int64_t numbers[6], rows = p->rows, weights = all;
    for (int i = 0; i < 6; i++) numbers[i] = take(&b, all, 1, sizeof(int32_t));
    for (int i = 0; p->conv && i < FAC_CONV_DIMS; i++) b.fits &= fac__mul(i ? rows : p->conv->batch, laid[i], &rows);
    b.fits &= fac__mul(rows, p->groups, &rows) && fac__mul(p->groups, padded_columns(p), &weights);
    const int64_t offsets = take(&b, p->taps, 1, sizeof(int64_t)),
                  packed = few         ? 0
                           : depthwise ? take(&b, p->taps, p->groups, sizeof(int32_t))
                                       : take(&b, weights, row_bytes(p), 1),
                  at = few || !copy ? 0 : take(&b, rows, p->depth, 1),
                  sums = few || depthwise || !p->any_zero || p->k == 0 ? 0 : take(&b, rows, 1, sizeof(int32_t));
    FAC_CHECK(b.fits && !is_mostly_padding(p, b.total), FAC_ERR_OVERFLOW,
              "the input, its padding or the weight is too large");
    FAC_TRY(fac__workspace_take(b.total, out));
    int32_t *ints[6];
    for (int i = 0; i < 6; i++) ints[i] = (int32_t *)(void *)(out->at + numbers[i]);
    p->numbers.away = ints[0], p->numbers.w_zero = ints[1], p->w_sum = ints[2];
    p->numbers.scale = (float *)ints[3], p->numbers.bias = (float *)ints[4], p->numbers.multiplier = (float *)ints[5];
    p->offsets = (int64_t *)(void *)(out->at + offsets);
    p->offsets[0] = 0;
    p->packed = (int8_t *)out->at + packed;
    p->laid = copy ? (uint8_t *)out->at + at : (uint8_t *)p->source;
    p->x_sums = sums ? (int32_t *)(void *)(out->at + sums) : NULL;
    return FAC_OK;
}

/* ---- calls -------------------------------------------------------------------------------------------------------------------- */

static fac_status check_weight(const fac_tensor *weight, const fac_tensor *bias, int64_t k) {
    const fac_quantizer *q = fac__quantizer_of(weight);
    FAC_CHECK(q && weight->dtype == FAC_QINT8, FAC_ERR_DTYPE, "weight should be qint8, but is %s",
              fac_dtype_name((fac_dtype)weight->dtype));
    FAC_CHECK(q->axis <= 0, FAC_ERR_UNSUPPORTED,
              "weight should be quantized per tensor or along axis 0, but is along %d", q->axis);
    FAC_CHECK(k <= FAC_DOT_MOST, FAC_ERR_UNSUPPORTED,
              "sums of %lld products of 8-bit codes need not fit 32 bits; at most %d", (long long)k, FAC_DOT_MOST);
    if (!bias) return FAC_OK;
    FAC_TRY(fac__need_sizes("bias", bias, &weight->sizes[0], 1));
    return fac__need_dtype("bias", bias, FAC_F32);
}

static fac_status check_devices(const fac_tensor *x, const fac_tensor *weight, const fac_tensor *bias) {
    const fac_tensor *others[] = {weight, bias};
    for (int i = 0; i < 2; i++)
        FAC_CHECK(!others[i] || fac_device_equal(others[i]->device, x->device), FAC_ERR_DEVICE,
                  "the tensors should be on one device, but one is on %s and one on %s",
                  fac_device_format(x->device, (char[24]){0}, 24),
                  fac_device_format(others[i]->device, (char[24]){0}, 24));
    return FAC_OK;
}

/* What a call computes with: row-major codes and bias, all owned. */
typedef struct operands {
    fac_tensor *x, *weight, *bias;
} operands;

static fac_status row_major_codes(fac_tensor *t, fac_tensor **out) {
    fac_tensor *codes;
    FAC_TRY(fac__codes_of(t, &codes));
    const fac_status st = fac__cpu_contiguous(codes, out);
    fac__unref(codes);
    return st;
}

static void drop(const operands *o) {
    fac__unref(o->x);
    fac__unref(o->weight);
    fac__unref(o->bias);
}

static fac_status take_operands(fac_tensor *x, fac_tensor *weight, fac_tensor *bias, operands *out) {
    *out = (operands){0};
    fac_status st = row_major_codes(x, &out->x);
    if (st == FAC_OK) st = row_major_codes(weight, &out->weight);
    if (st == FAC_OK && bias) st = fac__cpu_contiguous(bias, &out->bias);
    if (st != FAC_OK) drop(out);
    return st;
}

/* Fills in the numbers of x, weight and result, and runs. p has its geometry. y: NULL for a result in float32. */
static fac_status compute(product *p, fac_tensor *x, fac_tensor *weight, fac_tensor *bias, const fac_quantizer *y,
                          bool relu, fac_tensor *out) {
    operands o;
    const fac_quantizer *q = fac__quantizer_of(x), *w = fac__quantizer_of(weight);
    fac_workspace memory;
    int64_t least = 0, most = 0;
    FAC_TRY(take_operands(x, weight, bias, &o));
    p->source = fac__data(o.x);
    p->weight = fac__data(o.weight);
    p->flip = x->dtype == FAC_QINT8 ? 0x80 : 0;
    p->x_zero = q->zero_points[0] + p->flip;
    p->out = fac__data(out);
    p->out_dtype = (fac_dtype)out->dtype;
    for (int64_t i = 0; i < w->n; i++) p->any_zero |= w->zero_points[i] != 0;
    p->depth = is_depthwise(p) ? 1 : (p->inner + 3) & ~INT64_C(3);
    if (p->conv) plan_window(p->conv, &p->window);
    fac_status st = take_memory(p, &memory);
    if (st == FAC_OK) {
        if (y) fac__code_range((fac_dtype)x->dtype, &least, &most);
        p->numbers.zero = y ? (float)y->zero_points[0] : 0;
        p->numbers.least = relu ? p->numbers.zero : (float)least;
        p->numbers.most = (float)most;
        set_numbers(p, w, q->scales[0], y ? y->scales[0] : 1, o.bias ? fac__data(o.bias) : NULL);
        st = run(p);
        fac__workspace_give(memory);
    }
    drop(&o);
    return st;
}

/* Owned: the result, computed by p unless it is on the meta device. */
static fac_status result(product *p, const int64_t *sizes, int ndim, fac_tensor *x, fac_tensor *weight,
                         fac_tensor *bias, fac_quantizer *y, bool relu, fac_tensor **out) {
    const fac_dtype dtype = y ? fac__code_dtype((fac_dtype)x->dtype) : FAC_F32;
    FAC_TRY(fac__empty(sizes, ndim, dtype, x->device, out));
    fac_status st = fac__is_cpu(x) ? compute(p, x, weight, bias, y, relu, *out) : FAC_OK;
    if (st != FAC_OK) {
        fac__unref(*out);
        *out = NULL;
    } else if (y) {
        fac__make_coded(*out, (fac_dtype)x->dtype, y);
    }
    return st;
}

/* Owned: the quantizer of a result. */
static fac_status of_result(const fac_tensor *x, double scale, int64_t zero_point, fac_quantizer **out) {
    FAC_TRY(fac__quantizer_per_tensor(scale, zero_point, out));
    const fac_status st = fac__quantizer_check(*out, (fac_dtype)x->dtype);
    if (st != FAC_OK) fac__quantizer_unref(*out);
    return st;
}

/* ---- linear -------------------------------------------------------------------------------------------------------------------- */

/* Checks sizes; those of the result go to `sizes`. x need not be quantized. */
static fac_status plan_linear(const fac_tensor *x, const fac_tensor *weight, const fac_tensor *bias, product *p,
                              int64_t *sizes) {
    FAC_CHECK(x->ndim >= 1 && weight->ndim == 2 && x->sizes[x->ndim - 1] == weight->sizes[1], FAC_ERR_SHAPE,
              "an input [*, K] and a weight [N, K] are expected, but got %s and %s", FAC_SHAPE_TEXT(x),
              FAC_SHAPE_TEXT(weight));
    FAC_TRY(check_weight(weight, bias, weight->sizes[1]));
    FAC_TRY(check_devices(x, weight, bias));
    const int64_t k = weight->sizes[1];
    *p = (product){.groups = 1, .rows = 1, .columns = weight->sizes[0], .k = k, .inner = k, .taps = 1};
    for (int d = 0; d < x->ndim; d++) sizes[d] = x->sizes[d];
    for (int d = 0; d < x->ndim - 1; d++)
        FAC_CHECK(fac__mul(p->rows, x->sizes[d], &p->rows), FAC_ERR_OVERFLOW, "the input has too many rows");
    sizes[x->ndim - 1] = p->columns;
    return FAC_OK;
}

static fac_status linear(fac_tensor *x, fac_tensor *weight, fac_tensor *bias, double scale, int64_t zero_point,
                         bool relu, fac_tensor **out) {
    product p;
    fac_quantizer *y;
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(fac__need_per_tensor("qx", x, true));
    FAC_TRY(plan_linear(x, weight, bias, &p, sizes));
    FAC_TRY(of_result(x, scale, zero_point, &y));
    const fac_status st = result(&p, sizes, x->ndim, x, weight, bias, y, relu, out);
    fac__quantizer_unref(y);
    return st;
}

fac_status quantized_linear_kernel(const fac_call_info *c, fac_tensor *qx, fac_tensor *weight, fac_tensor *bias,
                                   double output_scale, int64_t output_zero_point, fac_tensor **out) {
    (void)c;
    return linear(qx, weight, bias, output_scale, output_zero_point, false, out);
}

fac_status quantized_linear_relu_kernel(const fac_call_info *c, fac_tensor *qx, fac_tensor *weight, fac_tensor *bias,
                                        double output_scale, int64_t output_zero_point, fac_tensor **out) {
    (void)c;
    return linear(qx, weight, bias, output_scale, output_zero_point, true, out);
}

fac_status quantized_linear_dynamic_kernel(const fac_call_info *c, fac_tensor *x, fac_tensor *weight, fac_tensor *bias,
                                           bool reduce_range, fac_tensor **out) {
    (void)c;
    product p;
    fac_tensor *qx;
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(fac__need_dtype("x", x, FAC_F32));
    FAC_TRY(plan_linear(x, weight, bias, &p, sizes));
    if (x->device.type == FAC_META) return fac__empty(sizes, x->ndim, FAC_F32, x->device, out);
    FAC_TRY(fac__c_quantize_per_tensor_dynamic(x, FAC_QUINT8, reduce_range, &qx));
    const fac_status st = result(&p, sizes, x->ndim, qx, weight, bias, NULL, false, out);
    fac__unref(qx);
    return st;
}

/* ---- convolutions --------------------------------------------------------------------------------------------------------------- */

/* The plan looks at sizes, and asks for one dtype of input and weight. */
static fac_status plan_conv(fac_tensor *x, fac_tensor *weight, const fac_conv_args *args, fac_conv *conv) {
    fac_tensor *a, *b = NULL;
    FAC_TRY(fac__codes_of(x, &a));
    fac_status st = fac__codes_of(weight, &b);
    if (st == FAC_OK) {
        a->dtype = b->dtype;
        st = fac__conv_plan(a, b, NULL, args, conv);
    }
    fac__unref(a);
    fac__unref(b);
    return st;
}

typedef struct conv_call {
    int nd;
    fac_tensor *x, *weight, *bias;
    fac_conv_args args;
    double scale;
    int64_t zero_point;
    bool relu;
} conv_call;

static fac_status conv(const conv_call *k, fac_tensor **out) {
    fac_conv plan;
    fac_quantizer *y;
    FAC_TRY(fac__need_per_tensor("qx", k->x, true));
    FAC_CHECK(k->weight->ndim == k->nd + 2, FAC_ERR_SHAPE, "weight should have %d dimensions, but has %s", k->nd + 2,
              FAC_SHAPE_TEXT(k->weight));
    int64_t depth = 1;
    for (int d = 1; d < k->weight->ndim; d++)
        FAC_CHECK(fac__mul(depth, k->weight->sizes[d], &depth), FAC_ERR_OVERFLOW, "the weight is too large");
    FAC_TRY(check_weight(k->weight, k->bias, depth));
    FAC_TRY(check_devices(k->x, k->weight, k->bias));
    FAC_TRY(plan_conv(k->x, k->weight, &k->args, &plan));
    int64_t rows;
    FAC_CHECK(fac__mul(plan.batch, plan.small_count, &rows), FAC_ERR_OVERFLOW, "the input has too many positions");
    FAC_TRY(of_result(k->x, k->scale, k->zero_point, &y));
    bool places = plan.groups != 1 || plan.taps != 1 || plan.small_count != 1 || plan.large_count != 1; /* else it is
                                                                                                         a linear layer */
    for (int d = 0; d < FAC_CONV_DIMS; d++) places |= plan.padding[d] != 0;
    product p = {.groups = plan.groups,
                 .rows = rows,
                 .columns = plan.small,
                 .k = plan.large * plan.taps,
                 .inner = plan.large,
                 .taps = plan.taps,
                 .plane = places ? plan.small_count : 0,
                 .conv = places ? &plan : NULL};
    const fac_status st = result(&p, plan.out_sizes, plan.out_ndim, k->x, k->weight, k->bias, y, k->relu, out);
    fac__quantizer_unref(y);
    return st;
}

#define CONV(name, dims, relu_)                                                                                    \
    fac_status name(const fac_call_info *c, fac_tensor *qx, fac_tensor *weight, fac_tensor *bias, fac_ints stride, \
                    fac_ints padding, fac_ints dilation, int64_t groups, double output_scale,                      \
                    int64_t output_zero_point, fac_tensor **out) {                                                 \
        (void)c;                                                                                                   \
        const conv_call k = {dims,                                                                                 \
                             qx,                                                                                   \
                             weight,                                                                               \
                             bias,                                                                                 \
                             {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups},       \
                             output_scale,                                                                         \
                             output_zero_point,                                                                    \
                             relu_};                                                                               \
        return conv(&k, out);                                                                                      \
    }
CONV(quantized_conv1d_kernel, 1, false)
CONV(quantized_conv2d_kernel, 2, false)
CONV(quantized_conv3d_kernel, 3, false)
CONV(quantized_conv1d_relu_kernel, 1, true)
CONV(quantized_conv2d_relu_kernel, 2, true)
CONV(quantized_conv3d_relu_kernel, 3, true)
