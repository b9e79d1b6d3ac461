/* Quantized layers: against integers computed here, and against what PyTorch gave (data/quantized_cases.h). */
#include "../data/quantized_cases.h"
#include "core/scalar.h"
#include "support/support.h"
#include <facula/facula.h>

#include <math.h>
#include <stdlib.h>

static uint32_t seed;

static uint8_t next_byte(void) {
    seed = seed * 1664525u + 1013904223u;
    return (uint8_t)(seed >> 24);
}

static int64_t numel(fac_ints sizes) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    return n;
}

/* As the functions of these names in gen_quantized_cases.py. */
static fac_tensor *quint8(fac_ints sizes, double scale, int64_t zero) {
    uint8_t *v = malloc((size_t)numel(sizes));
    for (int64_t i = 0; i < numel(sizes); i++) v[i] = next_byte();
    fac_tensor *t = fac_make_per_tensor_quantized_tensor(fac_tensor_from(v, FAC_U8, sizes), scale, zero);
    free(v);
    return t;
}

static fac_tensor *qint8(fac_ints sizes, double scale, int64_t zero) {
    int8_t *v = malloc((size_t)numel(sizes));
    for (int64_t i = 0; i < numel(sizes); i++) v[i] = (int8_t)(next_byte() - 128);
    fac_tensor *t = fac_make_per_tensor_quantized_tensor(fac_tensor_from(v, FAC_I8, sizes), scale, zero);
    free(v);
    return t;
}

static fac_tensor *floats(fac_ints sizes) {
    float *v = malloc((size_t)numel(sizes) * sizeof *v);
    for (int64_t i = 0; i < numel(sizes); i++) v[i] = (float)(next_byte() - 128) / 32;
    fac_tensor *t = fac_tensor_from(v, FAC_F32, sizes);
    free(v);
    return t;
}

static void check_codes(fac_tensor *q, const int64_t *want, size_t n, const char *what) {
    int64_t *codes = malloc(n * sizeof *codes);
    assert_non_null(q);
    assert_ok(fac_tensor_read(fac_int_repr(q), FAC_I64, codes, n));
    for (size_t i = 0; i < n; i++)
        if (codes[i] != want[i])
            fail_msg("%s[%zu] is %lld, not %lld", what, i, (long long)codes[i], (long long)want[i]);
    free(codes);
}
#define SAME(q, want) check_codes(q, want, FAC_COUNT(want), #want)

/* ---- PyTorch's integers ----------------------------------------------------------------------------------------------------- */

static void quantized_products_have_pytorchs_integers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 1;
    fac_tensor *x = quint8(FAC_INTS(3, 7), 0.5, 100), *w = qint8(FAC_INTS(5, 7), 0.25, 0), *b = floats(FAC_INTS(5));
    SAME(fac_quantized_linear(x, w, b, 8.0, 120), torch_linear);
    SAME(fac_quantized_linear_relu(x, w, b, 8.0, 120), torch_linear_relu);
    seed = 2;
    x = quint8(FAC_INTS(1, 4, 5, 5), 0.5, 100), w = qint8(FAC_INTS(6, 2, 3, 3), 0.25, 0), b = floats(FAC_INTS(6));
    SAME(fac_quantized_conv2d(x, w, b, FAC_INTS(2, 1), FAC_INTS(1, 0), FAC_INTS(1, 1), 2, 16.0, 130), torch_conv2d);
}

static void quantized_sums_have_pytorchs_integers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 3;
    fac_tensor *x = quint8(FAC_INTS(24), 0.5, 100), *y = quint8(FAC_INTS(24), 0.3, 20);
    SAME(fac_quantized_add(x, y, 0.9, 30), torch_add);
    SAME(fac_quantized_add_relu(x, y, 0.9, 30), torch_add_relu);
    SAME(fac_quantized_mul(x, y, 11.0, 90), torch_mul);
    SAME(fac_quantized_cat(FAC_TENSORS(x, y), 0, .scale = 0.7, .zero_point = 60), torch_cat);
    seed = 4;
    x = quint8(FAC_INTS(1, 3, 2, 2), 0.5, 100);
    fac_tensor *weight = floats(FAC_INTS(3)), *bias = floats(FAC_INTS(3)), *mean = floats(FAC_INTS(3)),
               *var = fac_add(fac_abs(floats(FAC_INTS(3))), 0.5);
    SAME(fac_quantized_batch_norm(x, weight, bias, mean, var, 1e-3, 0.7, 110), torch_batch_norm);
    SAME(fac_quantized_batch_norm2d(x, weight, bias, mean, var, 1e-3, 0.7, 110), torch_batch_norm);
}

static void quantized_pooling_and_resampling_have_pytorchs_integers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 5;
    fac_tensor *x = quint8(FAC_INTS(1, 2, 6, 6), 0.5, 100);
    SAME(fac_avg_pool2d(x, FAC_INTS(3), .stride = 2, .padding = 1), torch_avg_pool);
    SAME(fac_quantized_max_pool2d(x, FAC_INTS(3), .stride = 2, .padding = 1), torch_max_pool);
    SAME(fac_adaptive_avg_pool2d(x, FAC_INTS(2, 4)), torch_adaptive);
    SAME(fac_upsample_nearest2d(x, FAC_INTS(4, 9), (fac_floats){0}), torch_nearest);
    SAME(fac_upsample_bilinear2d(x, FAC_INTS(4, 9), false, (fac_floats){0}), torch_bilinear);
    SAME(fac_sigmoid(x), torch_sigmoid);
    SAME(fac_tanh(x), torch_tanh);
    assert_true(fac_q_scale(fac_tanh(x)) == 0x1p-7);
}

static void dynamic_quantization_chooses_pytorchs_numbers_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const float ranges[][2] = {{-1, 2}, {0.5f, 3}, {-7, -2}, {0, 0}, {-1e-6f, 2e-6f}, {-100, 0.001f}};
    size_t n = 0;
    for (size_t i = 0; i < FAC_COUNT(ranges); i++)
        for (int k = 0; k < 3; k++, n++) {
            fac_tensor *q = fac_quantize_per_tensor_dynamic(fac_tensor_from(ranges[i], FAC_F32, FAC_INTS(2)),
                                                            k == 2 ? FAC_QINT8 : FAC_QUINT8, k == 1);
            assert_true(fabs(fac_q_scale(q) / torch_dynamic_scales[n] - 1) < 1e-9);
            assert_int_equal(fac_q_zero_point(q), torch_dynamic_zeros[n]);
        }
    const float bad[] = {1, INFINITY};
    assert_null(fac_quantize_per_tensor_dynamic(fac_tensor_from(bad, FAC_F32, FAC_INTS(2)), FAC_QINT8, false));
    assert_error(FAC_ERR_ARGUMENT, "finite");
}

static void packed_rows_have_pytorchs_bytes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 6;
    fac_tensor *w = floats(FAC_INTS(3, 8)), *bytes = fac_quantized_embedding_bag_byte_prepack(w),
               *halves = fac_quantized_embedding_bag_4bit_prepack(w);
    int64_t b[FAC_COUNT(torch_byte_rows)], h[FAC_COUNT(torch_4bit_rows)];
    assert_ok(fac_tensor_read(bytes, FAC_I64, b, FAC_COUNT(b)));
    assert_ok(fac_tensor_read(halves, FAC_I64, h, FAC_COUNT(h)));
    for (size_t i = 0; i < FAC_COUNT(b); i++) assert_int_equal(b[i], torch_byte_rows[i]);
    for (size_t i = 0; i < FAC_COUNT(h); i++) assert_int_equal(h[i], torch_4bit_rows[i]);
    const int64_t picked[] = {2, 0, 2};
    fac_tensor *index = fac_tensor_from(picked, FAC_I64, FAC_INTS(3)), *rows = fac_index_select(w, 0, index);
    const struct {
        fac_tensor *got;
        double off;
    } looked_up[] = {{fac_quantized_embedding_byte(bytes, index), 8.0 / 255 / 2},
                     {fac_quantized_embedding_4bit(halves, index), 8.0 / 15}};
    for (size_t k = 0; k < 2; k++) {
        const double most = fac_item(fac_max(fac_abs(fac_sub(looked_up[k].got, rows))));
        assert_true(most <= looked_up[k].off);
        assert_int_equal(fac_tensor_size(looked_up[k].got, 1), 8);
    }
    const int64_t out_of_range[] = {3};
    assert_null(fac_quantized_embedding_byte(bytes, fac_tensor_from(out_of_range, FAC_I64, FAC_INTS(1))));
    assert_error(FAC_ERR_INDEX, "");
}

static double furthest(fac_tensor *a, fac_tensor *b) {
    return fac_item(fac_max(fac_abs(fac_sub(fac_to(a, .dtype = FAC_F64), fac_to(b, .dtype = FAC_F64)))));
}

/* Rows shorter than a vector, and some that are not a whole number of them. */
static void rows_of_all_lengths_are_looked_up(void **state) {
    (void)state;
    static const int64_t lengths[] = {2, 14, 16, 30, 38, 72};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        FAC_SCOPE(s);
        seed = (uint32_t)i + 60;
        const int64_t picked[] = {4, 0, 3};
        fac_tensor *w = floats(FAC_INTS(5, lengths[i])), *index = fac_tensor_from(picked, FAC_I64, FAC_INTS(3));
        fac_tensor *rows = fac_index_select(w, 0, index);
        fac_tensor *bytes = fac_quantized_embedding_byte(fac_quantized_embedding_bag_byte_prepack(w), index),
                   *halves = fac_quantized_embedding_4bit(fac_quantized_embedding_bag_4bit_prepack(w), index);
        assert_true(furthest(bytes, rows) <= 8.0 / 255 / 2 + 1e-5);
        assert_true(furthest(halves, rows) <= 8.0 / 15 / 2 + 0.01);
    }
}

/* ---- integers computed here ---------------------------------------------------------------------------------------------- */

/* One result of a product: exact sums, and the rounding that quantized_linear.c states. */
static int64_t requantized(int64_t sum, float bias, float xs, float ws, float ys, int64_t zero, int64_t least,
                           int64_t most) {
    const float scale = xs * ws;
    const float r = rintf(((float)sum + bias / scale) * (scale / ys)) + (float)zero;
    return (int64_t)fmaxf((float)least, fminf((float)most, r));
}

/* Sizes on both sides of tiles and of vectors, signed and unsigned codes, zero points of weights, per tensor and per channel. */
static void quantized_linear_sums_exactly_S024(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 15},    {4, 64, 16},   {5, 65, 17},  {17, 70, 63},
                                        {16, 3, 64},  {3, 130, 129}, {1, 2, 4000},  {7, 33, 66},  {65, 17, 5},
                                        {130, 97, 4}, {0, 3, 5},     {32, 69, 129}, {33, 130, 70}};
    for (size_t k = 0; k < FAC_COUNT(shapes); k++)
        for (int kind = 0; kind < 4; kind++) {
            FAC_SCOPE(s);
            const int64_t m = shapes[k][0], n = shapes[k][1], d = shapes[k][2];
            const bool is_signed = kind & 1, channels = kind & 2;
            seed = (uint32_t)(k * 4 + (size_t)kind);
            const int64_t xz = is_signed ? -7 : 131;
            fac_tensor *x = is_signed ? qint8(FAC_INTS(m, d), 0.02, xz) : quint8(FAC_INTS(m, d), 0.02, xz);
            fac_tensor *w = qint8(FAC_INTS(n, d), 0.013, channels ? 0 : 5), *b = floats(FAC_INTS(n));
            double *scales = malloc((size_t)n * sizeof *scales);
            int64_t *zeros = malloc((size_t)n * sizeof *zeros);
            for (int64_t j = 0; j < n; j++)
                scales[j] = channels ? 0.01 + 0.001 * (double)(j % 7) : 0.013, zeros[j] = channels ? j % 3 - 1 : 5;
            if (channels)
                w = fac_make_per_channel_quantized_tensor(fac_int_repr(w),
                                                          fac_tensor_from(scales, FAC_F64, FAC_INTS(n)),
                                                          fac_tensor_from(zeros, FAC_I64, FAC_INTS(n)), 0);
            int64_t *xc = malloc((size_t)(m * d) * 8), *wc = malloc((size_t)(n * d) * 8),
                    *want = malloc((size_t)(m * n) * 8);
            float *bias = malloc((size_t)n * sizeof *bias);
            assert_ok(fac_tensor_read(fac_int_repr(x), FAC_I64, xc, (size_t)(m * d)));
            assert_ok(fac_tensor_read(fac_int_repr(w), FAC_I64, wc, (size_t)(n * d)));
            assert_ok(fac_tensor_read(b, FAC_F32, bias, (size_t)n));
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    int64_t sum = 0;
                    for (int64_t l = 0; l < d; l++) sum += (xc[i * d + l] - xz) * (wc[j * d + l] - zeros[j]);
                    want[i * n + j] = requantized(sum, bias[j], 0.02f, (float)scales[j], 0.3f, 11, is_signed ? -128 : 0,
                                                  is_signed ? 127 : 255);
                }
            check_codes(fac_quantized_linear(x, w, b, 0.3, 11), want, (size_t)(m * n), "linear");
            const int threads = fac_num_threads();
            assert_ok(fac_set_num_threads(1));
            check_codes(fac_quantized_linear(x, w, b, 0.3, 11), want, (size_t)(m * n), "linear on one thread");
            assert_ok(fac_set_num_threads(threads));
            free(scales), free(zeros), free(xc), free(wc), free(want), free(bias);
        }
}

/* Convolutions of what codes stand for, whose sums of few products float64 has exactly, rounded as above. */
static void quantized_convolutions_agree_with_float64_S024(void **state) {
    (void)state;
    for (int nd = 1; nd <= 3; nd++)
        for (int64_t groups = 1; groups <= 2; groups++) {
            FAC_SCOPE(s);
            const int64_t in[] = {2, 4, 5, 6, 4}, kernel[] = {6, 4 / groups, 2, 3, 2}, strides[] = {2, 1, 1},
                          pads[] = {1, 2, 1}, dils[] = {1, 2, 1};
            seed = (uint32_t)(nd * 2 + groups);
            fac_tensor *x = quint8((fac_ints){in, (size_t)nd + 2}, 0.5, 120),
                       *w = qint8((fac_ints){kernel, (size_t)nd + 2}, 0.25, 0);
            fac_tensor *b = floats(FAC_INTS(6));
            const fac_ints st = {strides, (size_t)nd}, pad = {pads, (size_t)nd}, dil = {dils, (size_t)nd};
            fac_tensor *q = nd == 1   ? fac_quantized_conv1d(x, w, b, st, pad, dil, groups, 8, 100)
                            : nd == 2 ? fac_quantized_conv2d(x, w, b, st, pad, dil, groups, 8, 100)
                                      : fac_quantized_conv3d(x, w, b, st, pad, dil, groups, 8, 100);
            fac_tensor *exact = fac_convolution(fac_to(fac_dequantize(x), .dtype = FAC_F64),
                                                fac_to(fac_dequantize(w), .dtype = FAC_F64),
                                                fac_to(b, .dtype = FAC_F64), st, pad, dil, false, FAC_INTS(0), groups);
            assert_non_null(q);
            assert_non_null(exact);
            fac_tensor *want = fac_clamp(fac_add(fac_round(fac_div(exact, 8)), 100), .min = 0, .max = 255);
            assert_true(fac_equal(fac_to(fac_int_repr(q), .dtype = FAC_F64), want));
        }
}

typedef struct conv_case {
    size_t nd;
    int64_t batch, groups, inner, outer, size[3], kernel[3], stride[3], padding[3], dilation[3], x_zero, w_zero;
    bool is_signed;
} conv_case;

static fac_tensor *conv_of(const conv_case *c, fac_tensor *x, fac_tensor *w, fac_tensor *b) {
    const fac_ints st = {c->stride, c->nd}, pad = {c->padding, c->nd}, dil = {c->dilation, c->nd};
    return c->nd == 1   ? fac_quantized_conv1d(x, w, b, st, pad, dil, c->groups, 8, 20)
           : c->nd == 2 ? fac_quantized_conv2d(x, w, b, st, pad, dil, c->groups, 8, 20)
                        : fac_quantized_conv3d(x, w, b, st, pad, dil, c->groups, 8, 20);
}

static void check_conv(const conv_case *c) {
    FAC_SCOPE(s);
    int64_t in[5] = {c->batch, c->groups * c->inner}, kernel[5] = {c->groups * c->outer, c->inner};
    for (size_t d = 0; d < c->nd; d++) in[2 + d] = c->size[d], kernel[2 + d] = c->kernel[d];
    const fac_ints sizes = {in, c->nd + 2}, st = {c->stride, c->nd}, pad = {c->padding, c->nd},
                   dil = {c->dilation, c->nd};
    fac_tensor *x = c->is_signed ? qint8(sizes, 0.5, c->x_zero) : quint8(sizes, 0.5, c->x_zero),
               *w = qint8((fac_ints){kernel, c->nd + 2}, 0.25, c->w_zero), *b = floats(FAC_INTS(kernel[0]));
    fac_tensor *q = conv_of(c, x, w, b);
    fac_tensor *exact =
        fac_convolution(fac_to(fac_dequantize(x), .dtype = FAC_F64), fac_to(fac_dequantize(w), .dtype = FAC_F64),
                        fac_to(b, .dtype = FAC_F64), st, pad, dil, false, FAC_INTS(0), c->groups);
    fac_tensor *want = fac_clamp(fac_add(fac_round(fac_div(exact, 8)), 20), .min = c->is_signed ? -128 : 0,
                                 .max = c->is_signed ? 127 : 255);
    assert_non_null(q);
    assert_non_null(want);
    assert_true(fac_equal(fac_to(fac_int_repr(q), .dtype = FAC_F64), want));
    const int threads = fac_num_threads();
    assert_ok(fac_set_num_threads(threads == 1 ? 2 : 1));
    assert_true(fac_equal(fac_int_repr(conv_of(c, x, w, b)), fac_int_repr(q)));
    assert_ok(fac_set_num_threads(threads));
}

/* Channels on both sides of four, of vectors and of panels; windows that overlap, that leave gaps and that see padding only; zero
   points at both ends, which is what the padding holds; groups, of one channel too; no images at all. */
static void quantized_convolutions_of_all_shapes_agree_with_float64(void **state) {
    (void)state;
    static const conv_case cases[] = {
        {2, 1, 1, 16, 8, {1, 1}, {1, 1}, {3, 3}, {1, 1}, {1, 1}, 5, 0, false}, /* the padding alone */
        {1, 2, 1, 3, 17, {40}, {5}, {1}, {2}, {1}, 255, 0, false},
        {1, 2, 1, 65, 33, {300}, {3}, {2}, {1}, {2}, 0, -128, false},
        {1, 1, 3, 1, 1, {20}, {4}, {3}, {0}, {1}, -128, 127, true},
        {2, 3, 1, 1, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 255, 3, false},
        {2, 1, 1, 17, 65, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0, false},
        {2, 2, 1, 64, 16, {9, 18}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 127, 5, true},
        {2, 2, 1, 16, 32, {15, 17}, {1, 2}, {3, 4}, {2, 3}, {1, 2}, 200, 1, false},
        {2, 1, 1, 4, 3, {2, 2}, {1, 1}, {1, 1}, {5, 4}, {1, 1}, 255, -7, false},
        {2, 1, 65, 1, 1, {12, 11}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, 255, -128, false},
        {2, 2, 16, 1, 1, {5, 30}, {2, 5}, {1, 1}, {0, 2}, {2, 1}, -128, 0, true},
        {2, 1, 3, 1, 4, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 9, 127, false},
        {2, 1, 5, 7, 2, {8, 8}, {3, 2}, {1, 1}, {1, 0}, {1, 1}, 9, 2, false},
        {2, 1, 2, 16, 48, {8, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 2}, 9, 0, false},
        {2, 3, 1, 70, 40, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 77, 4, false},
        {2, 0, 1, 8, 8, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 77, 4, false},
        {3, 2, 1, 5, 16, {4, 5, 6}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 255, 3, false},
        {3, 1, 2, 3, 5, {7, 6, 9}, {2, 1, 2}, {4, 1, 2}, {1, 0, 1}, {2, 1, 1}, -128, 100, true},
        {3, 1, 20, 1, 1, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 128, -1, false},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        seed = (uint32_t)i + 30;
        check_conv(&cases[i]);
    }
}

/* Products of the largest codes: pairs of them do not fit 16 bits, and beyond 33025 the sums of what zero points are subtracted from
   do not fit 32. The last shape has rows enough for tiles. */
static void quantized_sums_of_extremes_are_exact(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 4096}, {9, 4099}, {1, 65793}, {3, 33026}, {9, 33025}, {9, 65793}};
    static const int64_t zeros[][2] = {{0, 0}, {0, 127}, {255, 127}, {255, -128}};
    for (size_t i = 0; i < FAC_COUNT(shapes) * FAC_COUNT(zeros); i++) {
        FAC_SCOPE(s);
        const int64_t m = shapes[i / 4][0], k = shapes[i / 4][1], xz = zeros[i % 4][0], wz = zeros[i % 4][1];
        const int64_t x = xz ? 0 : 255, w = wz == -128 ? 127 : -128;
        fac_tensor *qx = fac_make_per_tensor_quantized_tensor(fac_full(FAC_INTS(m, k), x, .dtype = FAC_U8), 1, xz),
                   *qw = fac_make_per_tensor_quantized_tensor(fac_full(FAC_INTS(5, k), w, .dtype = FAC_I8), 1, wz);
        const double scale = (double)k * 512;
        const int64_t want = requantized((x - xz) * (w - wz) * k, 0, 1, 1, (float)scale, 128, 0, 255);
        fac_tensor *q = fac_quantized_linear(qx, qw, NULL, scale, 128);
        assert_non_null(q);
        assert_true(want > 0);
        assert_true(fac_equal(fac_int_repr(q), fac_full(FAC_INTS(m, 5), want, .dtype = FAC_U8)));
    }
}

static void quantized_layers_refuse_what_does_not_fit_S024(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 9;
    fac_tensor *x = quint8(FAC_INTS(2, 4), 0.5, 3), *w = qint8(FAC_INTS(5, 4), 0.25, 0), *b = floats(FAC_INTS(5)),
               *f = floats(FAC_INTS(2, 4));
    assert_null(fac_quantized_linear(x, quint8(FAC_INTS(5, 4), 1, 0), b, 1, 0));
    assert_error(FAC_ERR_DTYPE, "qint8");
    assert_null(fac_quantized_linear(x, w, floats(FAC_INTS(4)), 1, 0));
    assert_error(FAC_ERR_SHAPE, "bias");
    assert_null(fac_quantized_linear(x, qint8(FAC_INTS(5, 3), 1, 0), b, 1, 0));
    assert_error(FAC_ERR_SHAPE, "[5, 3]");
    assert_null(fac_quantized_linear(f, w, b, 1, 0));
    assert_error(FAC_ERR_DTYPE, "qx");
    assert_null(fac_quantized_linear(fac_int_repr(x), w, b, 1, 0));
    assert_error(FAC_ERR_DTYPE, "uint8");
    assert_null(fac_quantized_linear(x, w, b, 1, 300));
    assert_error(FAC_ERR_ARGUMENT, "300");
    assert_null(fac_quantized_add(x, qint8(FAC_INTS(2, 4), 1, 0), 1, 0));
    assert_error(FAC_ERR_DTYPE, "one dtype");
    assert_null(fac_quantized_add(x, f, 1, 0));
    assert_error(FAC_ERR_DTYPE, "qb");
}

/* ---- floating activations -------------------------------------------------------------------------------------------------- */

static void dynamic_linear_is_the_product_of_what_codes_stand_for(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 10;
    fac_tensor *x = floats(FAC_INTS(2, 3, 20)), *w = qint8(FAC_INTS(7, 20), 0.125, 0), *b = floats(FAC_INTS(7));
    fac_tensor *q = fac_quantize_per_tensor_dynamic(x, FAC_QUINT8, false);
    assert_true(furthest(fac_quantized_linear_dynamic(x, w, b), fac_linear(fac_dequantize(q), fac_dequantize(w), b)) <
                1e-3);
}

static void quantized_networks_agree_with_floating_ones(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 11;
    fac_tensor *x = floats(FAC_INTS(3, 2, 4)), *h = fac_mul(floats(FAC_INTS(2, 2, 5)), 0.2),
               *c = fac_mul(floats(FAC_INTS(2, 2, 5)), 0.2);
    fac_tensor *q[8], *f[8];
    for (int i = 0; i < 8; i++) {
        const bool bias = i % 4 > 1;
        q[i] = bias ? fac_mul(floats(FAC_INTS(20)), 0.1) : qint8(FAC_INTS(20, i % 4 ? 5 : 4), 0.004, 0);
        f[i] = bias ? q[i] : fac_dequantize(q[i]);
    }
    const fac_tensors hx = FAC_TENSORS(h, c), weights = {q, 8}, numbers = {f, 8};
    const fac_quantized_lstm_result got = fac_quantized_lstm(x, hx, weights, true, 1, 0, false, true, false);
    const fac_lstm_result want = fac_lstm(x, hx, numbers, true, 1, 0, false, true, false);
    assert_non_null(got.result0);
    assert_true(furthest(got.result0, want.result0) < 0.05);
    assert_true(furthest(got.result1, want.result1) < 0.05);
    assert_true(furthest(got.result2, want.result2) < 0.05);
    /* One cell is one step of the network. */
    fac_tensor *first = fac_select(x, 0, 0), *h0 = fac_select(h, 0, 0), *c0 = fac_select(c, 0, 0),
               *none = fac_zeros(FAC_INTS(1));
    const fac_quantized_lstm_cell_result cell =
        fac_quantized_lstm_cell(first, FAC_TENSORS(h0, c0), fac_int_repr(q[0]), fac_int_repr(q[1]), q[2], q[3], none,
                                none, none, none, 0.004, 0.004, 0, 0);
    assert_non_null(cell.result0);
    assert_true(furthest(cell.result0, fac_narrow(fac_select(got.result0, 0, 0), 1, 0, 5)) == 0);
}

static void scaled_mm_is_the_product_of_what_is_stored(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 12;
    fac_tensor *a = fac_to(floats(FAC_INTS(3, 16)), .dtype = FAC_F8_E4M3FN),
               *b = fac_to(floats(FAC_INTS(16, 5)), .dtype = FAC_F8_E5M2);
    fac_tensor *bias = floats(FAC_INTS(5)), *one = fac_full(FAC_INTS(1), 0.5), *rows = fac_abs(floats(FAC_INTS(3, 1))),
               *cols = fac_abs(floats(FAC_INTS(1, 5)));
    fac_tensor *exact = fac_mm(fac_to(a, .dtype = FAC_F64), fac_to(b, .dtype = FAC_F64));
    assert_true(furthest(fac_scaled_mm(a, b, one, one, .bias = bias, .out_dtype = FAC_F32),
                         fac_add(fac_mul(exact, 0.25), bias)) < 1e-4);
    assert_true(furthest(fac_scaled_mm(a, b, rows, cols, .out_dtype = FAC_F32), fac_mul(fac_mul(exact, rows), cols)) <
                1e-3);
    fac_tensor *narrow = fac_scaled_mm(a, b, one, one);
    assert_int_equal(fac_tensor_dtype(narrow), FAC_F8_E4M3FN);
    assert_true(fac_equal(narrow, fac_to(fac_to(fac_mul(exact, 0.25), .dtype = FAC_F32), .dtype = FAC_F8_E4M3FN)));
    assert_null(fac_scaled_mm(a, b, rows, rows));
    assert_error(FAC_ERR_SHAPE, "scale_b");
    assert_null(fac_scaled_mm(a, fac_to(b, .dtype = FAC_F32), one, one));
    assert_error(FAC_ERR_DTYPE, "8-bit floats");
}

static void grouped_mm_multiplies_each_group(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 13;
    const int32_t ends[] = {2, 2, 5};
    fac_tensor *offs = fac_tensor_from(ends, FAC_I32, FAC_INTS(3)), *a = floats(FAC_INTS(6, 4)),
               *b = floats(FAC_INTS(3, 4, 5));
    fac_tensor *rows = fac_grouped_mm(a, b, .offs = offs);
    assert_true(furthest(fac_narrow(rows, 0, 0, 2), fac_mm(fac_narrow(a, 0, 0, 2), fac_select(b, 0, 0))) < 1e-5);
    assert_true(furthest(fac_narrow(rows, 0, 2, 3), fac_mm(fac_narrow(a, 0, 2, 3), fac_select(b, 0, 2))) < 1e-5);
    fac_tensor *deep = fac_grouped_mm(fac_t(a), a, .offs = offs); /* groups of inner indices */
    assert_int_equal(fac_tensor_size(deep, 0), 3);
    assert_true(furthest(fac_select(deep, 0, 2), fac_mm(fac_t(fac_narrow(a, 0, 2, 3)), fac_narrow(a, 0, 2, 3))) < 1e-4);
    fac_tensor *wide = fac_grouped_mm(fac_transpose(b, 1, 2), fac_t(a), .offs = offs);
    assert_true(furthest(fac_narrow(wide, 1, 2, 3), fac_mm(fac_t(fac_select(b, 0, 2)), fac_t(fac_narrow(a, 0, 2, 3)))) <
                1e-5);
    const int32_t wrong[] = {2, 1, 5};
    assert_null(fac_grouped_mm(a, b, .offs = fac_tensor_from(wrong, FAC_I32, FAC_INTS(3))));
    assert_error(FAC_ERR_ARGUMENT, "offs[1]");
}

static void weights_of_few_bits_multiply_as_what_they_stand_for(void **state) {
    (void)state;
    FAC_SCOPE(s);
    seed = 14;
    int32_t q[4 * 8];
    for (int i = 0; i < 32; i++) q[i] = next_byte() % 16;
    fac_tensor *x = floats(FAC_INTS(3, 8)), *codes = fac_tensor_from(q, FAC_I32, FAC_INTS(4, 8)),
               *numbers = floats(FAC_INTS(2, 4, 2));
    fac_tensor *packed = fac_convert_weight_to_int4pack_for_cpu(codes, 1);
    float sz[16], w[32];
    assert_ok(fac_tensor_read(numbers, FAC_F32, sz, 16));
    for (int n = 0; n < 4; n++)
        for (int k = 0; k < 8; k++)
            w[n * 8 + k] = (float)(q[n * 8 + k] - 8) * sz[(k / 4 * 4 + n) * 2] + sz[(k / 4 * 4 + n) * 2 + 1];
    assert_true(furthest(fac_weight_int4pack_mm_for_cpu(x, packed, 4, numbers),
                         fac_mm(x, fac_t(fac_tensor_from(w, FAC_F32, FAC_INTS(4, 8))))) < 1e-3);
    fac_tensor *w8 = fac_int_repr(qint8(FAC_INTS(4, 8), 1, 0)), *scales = fac_abs(floats(FAC_INTS(4)));
    fac_tensor *exact =
        fac_mm(fac_to(x, .dtype = FAC_F64), fac_t(fac_mul(fac_to(w8, .dtype = FAC_F64), fac_unsqueeze(scales, 1))));
    assert_true(furthest(fac_weight_int8pack_mm(x, w8, scales), exact) < 1e-2);
    fac_tensor *half = fac_weight_int8pack_mm(fac_to(x, .dtype = FAC_BF16), w8, fac_to(scales, .dtype = FAC_BF16));
    assert_int_equal(fac_tensor_dtype(half), FAC_BF16);
}

/* The weight of a code in the middle is the group's zero alone: times an infinity, or a number near the largest, not NaN. */
static void weights_of_four_bits_multiply_infinities(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_dtype dtypes[] = {FAC_F32, FAC_BF16};
    const float large[] = {INFINITY, 3e38f};
    uint8_t middle[64];
    float x[64] = {0};
    memset(middle, 0x88, sizeof middle);
    fac_tensor *packed = fac_tensor_from(middle, FAC_U8, FAC_INTS(2, 32)), *ones = fac_ones(FAC_INTS(2, 2, 2));
    for (int i = 0; i < 4; i++) {
        x[5] = x[9] = large[i / 2];
        fac_tensor *row = fac_to(fac_tensor_from(x, FAC_F32, FAC_INTS(1, 64)), .dtype = dtypes[i % 2]);
        fac_tensor *y = fac_weight_int4pack_mm_for_cpu(row, packed, 32, fac_to(ones, .dtype = dtypes[i % 2]));
        assert_true(fac_item(fac_min(y)) == INFINITY);
    }
}

/* And where a group's numbers are infinite, each weight is: their sum is an infinity if all have one sign, and else NaN. */
static void weights_of_four_bits_may_be_infinite(void **state) {
    (void)state;
    FAC_SCOPE(s);
    uint8_t codes[128];
    float x[2][128];
    for (int i = 0; i < 128; i++) codes[i] = i < 64 ? 0x99 : 0x79, x[0][i] = 1, x[1][i] = (float)(1 - i % 2 * 2);
    fac_tensor *packed = fac_tensor_from(codes, FAC_U8, FAC_INTS(2, 64));
    const fac_dtype dtypes[] = {FAC_F32, FAC_BF16, FAC_F16};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (int which = 0; which < 2; which++) {
            fac_tensor *numbers = fac_ones(FAC_INTS(4, 2, 2), .dtype = dtypes[i]);
            fac_tensor *rows = fac_to(fac_tensor_from(x, FAC_F32, FAC_INTS(2, 128)), .dtype = dtypes[i]);
            assert_ok(fac_error());
            (void)!fac_fill_(fac_select(fac_select(numbers, 0, 1), 1, which), INFINITY);
            float y[2][2];
            assert_ok(fac_tensor_read(fac_weight_int4pack_mm_for_cpu(rows, packed, 32, numbers), FAC_F32, y, 4));
            assert_true(y[0][0] == INFINITY);                          /* codes of 9 */
            assert_true(which ? y[0][1] == INFINITY : isnan(y[0][1])); /* of 9 and 7 */
            assert_true(isnan(y[1][0]) && (which ? isnan(y[1][1]) : y[1][1] == INFINITY));
        }
}

/* Few rows and many, whole vectors and rests, groups that are looked up at once and those that are not: row 0 is always the same. */
static void weights_of_few_bits_multiply_alike_for_few_and_many_rows(void **state) {
    (void)state;
    static const int64_t depths[][2] = {{192, 32}, {192, 64}, {96, 32}, {256, 128}, {90, 6}, {66, 33}};
    for (size_t i = 0; i < FAC_COUNT(depths); i++) {
        FAC_SCOPE(s);
        seed = 21;
        const int64_t k = depths[i][0], group = depths[i][1], n = 70;
        fac_tensor *x = floats(FAC_INTS(12, k)), *w8 = fac_int_repr(qint8(FAC_INTS(n, k), 1, 0)),
                   *scales = fac_abs(floats(FAC_INTS(n))), *numbers = floats(FAC_INTS(k / group, n, 2)),
                   *packed = fac_int_repr(quint8(FAC_INTS(n, k / 2), 1, 0));
        fac_tensor *many8 = fac_weight_int8pack_mm(x, w8, scales),
                   *many4 = fac_weight_int4pack_mm_for_cpu(x, packed, group, numbers);
        fac_tensor *exact =
            fac_mm(fac_to(x, .dtype = FAC_F64), fac_t(fac_mul(fac_to(w8, .dtype = FAC_F64), fac_unsqueeze(scales, 1))));
        assert_true(furthest(many8, exact) < 0.1);
        for (int64_t m = 1; m <= 9; m++) {
            fac_tensor *few = fac_narrow(x, 0, 0, m);
            assert_true(furthest(fac_weight_int8pack_mm(few, w8, scales), fac_narrow(exact, 0, 0, m)) < 0.1);
            assert_true(furthest(fac_weight_int4pack_mm_for_cpu(few, packed, group, numbers),
                                 fac_narrow(many4, 0, 0, m)) < 1e-2);
            fac_tensor *half = fac_weight_int4pack_mm_for_cpu(fac_to(few, .dtype = FAC_BF16), packed, group,
                                                              fac_to(numbers, .dtype = FAC_BF16));
            fac_tensor *want =
                fac_to(fac_narrow(many4, 0, 0, m), .dtype = FAC_BF16); /* x and numbers are exact in bf16 */
            assert_true(furthest(half, want) <= fac_item(fac_max(fac_abs(many4))) / 256);
        }
    }
}

FAC_TEST_MAIN(FAC_TEST(weights_of_few_bits_multiply_alike_for_few_and_many_rows),
              FAC_TEST(quantized_products_have_pytorchs_integers_S024),
              FAC_TEST(quantized_sums_have_pytorchs_integers_S024),
              FAC_TEST(quantized_pooling_and_resampling_have_pytorchs_integers_S024),
              FAC_TEST(dynamic_quantization_chooses_pytorchs_numbers_S024), FAC_TEST(packed_rows_have_pytorchs_bytes),
              FAC_TEST(rows_of_all_lengths_are_looked_up), FAC_TEST(quantized_linear_sums_exactly_S024),
              FAC_TEST(quantized_convolutions_agree_with_float64_S024),
              FAC_TEST(quantized_convolutions_of_all_shapes_agree_with_float64),
              FAC_TEST(quantized_sums_of_extremes_are_exact), FAC_TEST(quantized_layers_refuse_what_does_not_fit_S024),
              FAC_TEST(dynamic_linear_is_the_product_of_what_codes_stand_for),
              FAC_TEST(quantized_networks_agree_with_floating_ones),
              FAC_TEST(scaled_mm_is_the_product_of_what_is_stored), FAC_TEST(grouped_mm_multiplies_each_group),
              FAC_TEST(weights_of_four_bits_multiply_infinities), FAC_TEST(weights_of_four_bits_may_be_infinite),
              FAC_TEST(weights_of_few_bits_multiply_as_what_they_stand_for))
