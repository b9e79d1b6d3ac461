/* Products of quantized matrices: linear layers and convolutions. Blocks of ROWS rows of codes meet BLOCK rows of weights; sums of
   products are exact in int32, corrected for both zero points, and rounded once: (sum + bias / (xs * ws)) * (xs * ws / ys) to nearest
   even in float32, plus the zero point. source: the order of operations is FBGEMM's, whose integers torch.ops.quantized gives. Rows of
   a convolution are patches of its input, in which the padding is the zero point; where a group has several channels they are laid
   innermost first, in input and weight, so that a patch is copied by whole channels. A group of one channel each is not a product of
   matrices: all channels of a place are summed side by side. Tasks are cut by shape; no sum is split. */
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

enum { ROWS = 16, BLOCK = 64, MOST_TAPS = 128 };

typedef struct product product;

struct product {
    /* Writes rows [begin, begin + n) of group g, each k wide, as uint8. */
    void (*take)(const product *p, int64_t g, int64_t begin, int64_t n, uint8_t *out);
    const void *source;               /* row-major codes of the input */
    int flip;                         /* 0x80 makes int8 codes uint8 */
    int64_t groups, rows, columns, k; /* columns and k of each group */
    int64_t x_zero;                   /* of uint8 codes */
    const int8_t *weight;             /* [groups, columns, k] */
    /* For each of groups * columns: */
    int64_t *w_zero, *away; /* away: what a row's sums are less, as far as it does not depend on the row */
    int32_t *w_sum;
    float *scale, *bias, *multiplier; /* xs * ws; bias over it; it over ys */
    bool any_zero;                    /* some w_zero is not 0 */
    /* The result: uint8 or int8 codes, or float32 if it has no scale. Element (row, column of all groups) is at
       (row / plane * all columns + column) * plane + row % plane; a plane of 0 stands for row-major. */
    void *out;
    int64_t plane, y_zero, least, most;
    fac_dtype out_dtype;
    const fac_conv *conv;
    /* A convolution with channels innermost: uint8 codes [batch, large_count, all channels], and weights [groups * columns, taps,
       large], or [taps, groups] where each group has one channel; else NULL. */
    uint8_t *last;
    int8_t *last_weight;
};

/* ---- rows of the input ---------------------------------------------------------------------------------------------------- */

static void take_rows(const product *p, int64_t g, int64_t begin, int64_t n, uint8_t *out) {
    (void)g;
    if (p->k == 0) return; /* there may be no rows to point at */
    const uint8_t *x = (const uint8_t *)p->source + begin * p->k;
    if (!p->flip) {
        memcpy(out, x, (size_t)(n * p->k));
        return;
    }
    for (int64_t i = 0; i < n * p->k; i++) out[i] = (uint8_t)(x[i] ^ p->flip);
}

/* One patch: all channels of the group, all taps. */
static void take_patch(const product *p, int64_t g, int64_t row, uint8_t *out) {
    const fac_conv *c = p->conv;
    const int64_t image = row / c->small_count;
    int64_t at[FAC_CONV_DIMS], rest = row % c->small_count;
    for (int d = FAC_CONV_DIMS; d--;) {
        at[d] = rest % c->small_size[d] * c->stride[d] - c->padding[d];
        rest /= c->small_size[d];
    }
    for (int64_t ch = 0; ch < c->large; ch++) {
        const uint8_t *x =
            (const uint8_t *)p->source + (image * c->groups + g) * c->large * c->large_count + ch * c->large_count;
        for (int64_t i = 0; i < c->kernel[0]; i++)
            for (int64_t j = 0; j < c->kernel[1]; j++)
                for (int64_t l = 0; l < c->kernel[2]; l++) {
                    const int64_t z = at[0] + i * c->dilation[0], y = at[1] + j * c->dilation[1],
                                  w = at[2] + l * c->dilation[2];
                    const bool in = z >= 0 && z < c->large_size[0] && y >= 0 && y < c->large_size[1] && w >= 0 &&
                                    w < c->large_size[2];
                    *out++ = in ? (uint8_t)(x[(z * c->large_size[1] + y) * c->large_size[2] + w] ^ p->flip)
                                : (uint8_t)p->x_zero;
                }
    }
}

/* Where the taps of output `row` lie in c->large_count, -1 in the padding. */
static void taps_of(const fac_conv *c, int64_t row, int64_t *taps) {
    int64_t at[FAC_CONV_DIMS], rest = row % c->small_count;
    for (int d = FAC_CONV_DIMS; d--;) {
        at[d] = rest % c->small_size[d] * c->stride[d] - c->padding[d];
        rest /= c->small_size[d];
    }
    for (int64_t i = 0; i < c->kernel[0]; i++)
        for (int64_t j = 0; j < c->kernel[1]; j++)
            for (int64_t l = 0; l < c->kernel[2]; l++) {
                const int64_t z = at[0] + i * c->dilation[0], y = at[1] + j * c->dilation[1],
                              w = at[2] + l * c->dilation[2];
                const bool in =
                    z >= 0 && z < c->large_size[0] && y >= 0 && y < c->large_size[1] && w >= 0 && w < c->large_size[2];
                *taps++ = in ? (z * c->large_size[1] + y) * c->large_size[2] + w : -1;
            }
}

static void take_patches(const product *p, int64_t g, int64_t begin, int64_t n, uint8_t *out) {
    const fac_conv *c = p->conv;
    int64_t taps[MOST_TAPS];
    if (!p->last) {
        for (int64_t i = 0; i < n; i++) take_patch(p, g, begin + i, out + i * p->k);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *x =
            p->last + (begin + i) / c->small_count * c->large_count * c->groups * c->large + g * c->large;
        taps_of(c, begin + i, taps);
        for (int64_t t = 0; t < c->taps; t++, out += c->large) {
            if (taps[t] < 0)
                memset(out, (int)p->x_zero, (size_t)c->large);
            else if (c->large == 16) /* without a call */
                memcpy(out, x + taps[t] * c->groups * 16, 16);
            else
                memcpy(out, x + taps[t] * c->groups * c->large, (size_t)c->large);
        }
    }
}

/* ---- one task ------------------------------------------------------------------------------------------------------------------ */

/* n sums of a row, of the columns from `column` on, to the row's results; `codes` takes those that are codes. away: what the sums are
   less. */
static void finish_row(const product *p, int64_t row, int64_t column, const int32_t *sums, const int64_t *away,
                       int64_t n, uint8_t *codes) {
    if (p->out_dtype == FAC_F32) {
        float *to = (float *)p->out + row * p->groups * p->columns + column;
        FAC_ISA_PICK(fac__dequantize_sums)(sums, away, p->scale + column, p->bias + column, n, to);
        return;
    }
    const float zero = (float)p->y_zero, least = (float)p->least, most = (float)p->most;
    const float *bias = p->bias + column, *multiplier = p->multiplier + column;
    FAC_ISA_PICK(fac__requantize)(sums, away, bias, multiplier, n, zero, least, most, codes);
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

/* Few rows leave one of those that are multiplied at a time free: of ones, it sums the weights. */
static bool sums_beside(const product *p) { return p->rows < FAC_DOT_ROWS && p->x_zero && !p->conv; }

/* Task `t`: a block of rows of a group with a block of its columns. */
static void one_task(const product *p, int64_t t, uint8_t *rows) {
    const int64_t blocks = fac__div_up(p->rows, ROWS), parts = fac__div_up(p->columns, BLOCK);
    const int64_t part = t % parts, g = t / parts / blocks, begin = t / parts % blocks * ROWS;
    const int64_t n = fac__min(ROWS, p->rows - begin), first = part * BLOCK,
                  width = fac__min(BLOCK, p->columns - first), column = g * p->columns + first;
    const int8_t *weight = p->last_weight ? p->last_weight : p->weight;
    int32_t sums[FAC_DOT_ROWS * BLOCK];
    int64_t away[BLOCK], corrected[BLOCK];
    uint8_t aside[ROWS * BLOCK];
    p->take(p, g, begin, n, rows);
    if (n % FAC_DOT_ROWS && p->k)
        memset(rows + n * p->k, sums_beside(p), (size_t)((FAC_DOT_ROWS - n % FAC_DOT_ROWS) * p->k));
    for (int64_t r = 0; r < n; r += FAC_DOT_ROWS) {
        FAC_ISA_PICK(fac__dot_u8s8)(rows + r * p->k, p->k, weight + column * p->k, p->k, width, p->k, sums, BLOCK);
        for (int64_t i = 0; i < FAC_DOT_ROWS && r + i < n; i++) {
            const bool own = p->any_zero || sums_beside(p);
            const int64_t x =
                p->any_zero ? FAC_ISA_PICK(fac__row_sum_u8)(rows + (r + i) * p->k, p->k) - p->x_zero * p->k : 0;
            const int64_t *base = p->away + column;
            for (int64_t j = 0; sums_beside(p) && j < width; j++) away[j] = p->x_zero * sums[n * BLOCK + j];
            if (sums_beside(p)) base = away;
            if (own) FAC_ISA_PICK(fac__zero_corrections)(base, p->w_zero + column, NULL, x, width, corrected);
            finish_row(p, begin + r + i, column, sums + i * BLOCK, own ? corrected : base, width,
                       codes_at(p, begin + r + i, column, aside + (r + i) * BLOCK));
        }
    }
    if (p->plane) to_planes(p, begin, column, aside, BLOCK, n, width);
}

/* Rows [begin, end) of a convolution whose groups have one channel and one result each: all channels of a place side by side. */
static void depthwise_rows(const product *p, int64_t begin, int64_t end, char *scratch) {
    const fac_conv *c = p->conv;
    const int64_t n = p->groups;
    int64_t taps[MOST_TAPS], *away = (int64_t *)(void *)scratch;
    int32_t *sums = (int32_t *)(void *)(away + n), *x_sums = sums + n;
    uint8_t *aside = (uint8_t *)(x_sums + n);
    const uint8_t *at[MOST_TAPS];
    for (int64_t row = begin; row < end; row++) {
        const uint8_t *x = p->last + row / c->small_count * c->large_count * n;
        taps_of(c, row, taps);
        for (int64_t t = 0; t < c->taps; t++) at[t] = taps[t] < 0 ? NULL : x + taps[t] * n;
        FAC_ISA_PICK(fac__depthwise_dot)(at, p->last_weight, c->taps, n, (uint8_t)p->x_zero, sums, x_sums);
        if (p->any_zero) FAC_ISA_PICK(fac__zero_corrections)(p->away, p->w_zero, x_sums, -p->x_zero * p->k, n, away);
        finish_row(p, row, 0, sums, p->any_zero ? away : p->away, n, aside + (row - begin) * n);
    }
    to_planes(p, begin, 0, aside, n, end - begin, n);
}

static fac_status depthwise_tasks(void *context, int64_t begin, int64_t end, void *scratch) {
    const product *p = context;
    for (int64_t row = begin; row < end; row += ROWS) depthwise_rows(p, row, fac__min(end, row + ROWS), scratch);
    return FAC_OK;
}

static fac_status tasks(void *context, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) one_task(context, t, scratch);
    return FAC_OK;
}

static bool is_depthwise(const product *p) { return p->last && p->conv->large == 1 && p->columns == 1; }

static fac_status run(product *p) {
    if (is_depthwise(p)) {
        const int64_t each = (int64_t)(sizeof(int64_t) + 2 * sizeof(int32_t)) + ROWS;
        return fac__parallel_for_scratch(0, p->rows, 4 * ROWS, fac__mul_or_max(p->groups, each), depthwise_tasks, p);
    }
    const int64_t parts = fac__div_up(p->columns, BLOCK), n = p->groups * (fac__div_up(p->rows, ROWS)) * parts;
    int64_t bytes;
    FAC_CHECK(fac__mul(p->k, ROWS, &bytes), FAC_ERR_OVERFLOW, "rows of %lld codes are too long", (long long)p->k);
    return n ? fac__parallel_for_scratch(0, n, 1, fac__max(bytes, 1), tasks, p) : FAC_OK;
}

/* ---- numbers for each column ------------------------------------------------------------------------------------------------- */

static fac_status sum_weights(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    FAC_ISA_PICK(fac__row_sums_i8)(p->weight + begin * p->k, end - begin, p->k, p->w_sum + begin);
    return FAC_OK;
}

/* Owned block behind w_zero, away, w_sum, scale, bias and multiplier. */
static fac_status make_columns(product *p, const fac_quantizer *q, double x_scale, double y_scale, const float *bias) {
    const int64_t n = p->groups * p->columns;
    char *block = fac__alloc_array((size_t)fac__max(n, 1), 2 * sizeof(int64_t) + sizeof(int32_t) + 3 * sizeof(float));
    if (!block) return FAC_ERR_MEMORY;
    p->w_zero = (int64_t *)(void *)block;
    p->away = p->w_zero + n;
    p->w_sum = (int32_t *)(p->away + n);
    p->scale = (float *)(p->w_sum + n);
    p->bias = p->scale + n;
    p->multiplier = p->bias + n;
    memset(p->w_sum, 0, (size_t)n * sizeof *p->w_sum);
    if (p->x_zero && !sums_beside(p)) (void)fac__parallel_for(0, n, fac__grain(8 * FAC_GRAIN, p->k), sum_weights, p);
    for (int64_t j = 0; j < n; j++) {
        const int64_t channel = q->axis < 0 ? 0 : j;
        p->away[j] = p->x_zero * p->w_sum[j];
        p->w_zero[j] = q->zero_points[channel];
        p->any_zero |= q->zero_points[channel] != 0;
        p->scale[j] = (float)x_scale * (float)q->scales[channel];
        p->bias[j] = !bias ? 0 : p->out_dtype == FAC_F32 ? bias[j] : bias[j] / p->scale[j];
        p->multiplier[j] = p->scale[j] / (float)y_scale;
    }
    return FAC_OK;
}

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

static fac_status turn_image(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    const fac_conv *c = p->conv;
    const int64_t channels = c->groups * c->large, n = c->large_count;
    for (int64_t i = begin; i < end;) {
        const int64_t image = i / n, at = i % n, some = fac__min(end - i, n - at);
        FAC_ISA_PICK(fac__transpose_bytes)
        (p->last + i * channels, channels, (const uint8_t *)p->source + image * channels * n + at, n, some, channels,
         (uint8_t)p->flip);
        i += some;
    }
    return FAC_OK;
}

/* One allocation holds both. Patches of few channels are not worth it. */
static fac_status lay_channels_innermost(product *p) {
    const fac_conv *c = p->conv;
    const bool depthwise = c && c->large == 1 && p->columns == 1 && c->groups >= 8;
    if (!c || c->taps > MOST_TAPS || (c->large < 8 && !depthwise)) return FAC_OK;
    const int64_t channels = c->groups * c->large, weights = p->groups * p->columns * p->k;
    int64_t image, bytes;
    FAC_CHECK(fac__mul(c->batch * c->large_count, channels, &image) && fac__add(image, weights, &bytes),
              FAC_ERR_OVERFLOW, "the input is too large");
    p->last = fac__alloc_array((size_t)fac__max(1, bytes), 1);
    if (!p->last) return FAC_ERR_MEMORY;
    p->last_weight = (int8_t *)p->last + image;
    const int64_t blocks = depthwise ? 1 : p->groups * p->columns, large = depthwise ? c->groups : c->large;
    for (int64_t j = 0; j < blocks; j++) /* [large, taps] to [taps, large] */
        FAC_ISA_PICK(fac__transpose_bytes)
    ((uint8_t *)p->last_weight + j * large * c->taps, large, (const uint8_t *)p->weight + j * large * c->taps, c->taps,
     c->taps, large, 0);
    return fac__parallel_for(0, c->batch * c->large_count, fac__grain(8 * FAC_GRAIN, channels), turn_image, p);
}

/* Fills in the numbers of x, weight and result, and runs. p has its geometry. y: NULL for a result in float32. */
static fac_status compute(product *p, fac_tensor *x, fac_tensor *weight, fac_tensor *bias, const fac_quantizer *y,
                          bool relu, fac_tensor *out) {
    operands o;
    const fac_quantizer *q = fac__quantizer_of(x);
    FAC_TRY(take_operands(x, weight, bias, &o));
    p->source = fac__data(o.x);
    p->weight = fac__data(o.weight);
    p->flip = x->dtype == FAC_QINT8 ? 0x80 : 0;
    p->x_zero = q->zero_points[0] + p->flip;
    p->out = fac__data(out);
    p->out_dtype = (fac_dtype)out->dtype;
    if (y) {
        fac__code_range((fac_dtype)x->dtype, &p->least, &p->most);
        p->y_zero = y->zero_points[0];
        if (relu) p->least = p->y_zero;
    }
    fac_status st = make_columns(p, fac__quantizer_of(weight), q->scales[0], y ? y->scales[0] : 1,
                                 o.bias ? fac__data(o.bias) : NULL);
    if (st == FAC_OK) st = lay_channels_innermost(p);
    if (st == FAC_OK) st = run(p);
    fac__free(p->w_zero);
    fac__free(p->last);
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
    *p = (product){.take = take_rows, .groups = 1, .rows = 1, .columns = weight->sizes[0], .k = weight->sizes[1]};
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
    product p = {.take = take_patches,
                 .groups = plan.groups,
                 .rows = rows,
                 .columns = plan.small,
                 .k = plan.large * plan.taps,
                 .plane = plan.small_count,
                 .conv = &plan};
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
