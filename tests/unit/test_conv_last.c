/* Convolutions whose channels are innermost, in f32 and bf16, against our path over windows, which computes the same in f64. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "conv_case.h"
#include "pairs.h"
#include <math.h>

/* clang-format off */
static const conv_case cases[] = {
    {"3x3", {3, 16, 12, 11}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"bands of lines", {2, 32, 70, 66}, {48, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"several images in a task", {7, 24, 3, 4}, {70, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"taps that meet padding only", {5, 40, 1, 2}, {33, 40, 5, 3}, {1, 1}, {2, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"sums in passes", {2, 300, 9, 9}, {80, 300, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"sums in passes, one tap", {1, 1700, 6, 7}, {20, 1700, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"tiles that reach past the edges", {3, 30, 21, 23}, {50, 30, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"tiles without padding", {2, 64, 24, 22}, {24, 64, 3, 3}, {1, 1}, {0, 0}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"tiles, padding of 2", {1, 40, 26, 28}, {100, 40, 3, 3}, {1, 1}, {2, 2}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"tiles, transposed", {2, 40, 22, 17}, {40, 33, 3, 3}, {1, 1}, {1, 0}, {1, 1}, {0}, 2, 1, true, UNASKED},
    {"tiles, many channels", {3, 400, 14, 14}, {70, 400, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"odd channels", {3, 13, 17, 19}, {21, 13, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"one channel", {3, 1, 28, 28}, {20, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"three channels, 7x7, stride 2", {2, 3, 45, 44}, {24, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"1x1", {3, 32, 13, 9}, {48, 32, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"1x1, stride 2, what is left over", {3, 24, 14, 16}, {40, 24, 1, 1}, {2, 3}, {0, 0}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"dilation", {2, 16, 23, 21}, {16, 16, 3, 2}, {1, 2}, {2, 1}, {2, 3}, {0}, 2, 1, false, UNASKED},
    {"padding wider than the kernel", {2, 16, 9, 9}, {16, 16, 3, 3}, {1, 1}, {5, 4}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"steps wider than the kernel", {2, 16, 19, 18}, {16, 16, 2, 1}, {3, 4}, {0, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"groups", {2, 64, 16, 16}, {64, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 4, false, UNASKED},
    {"groups of 3 and 14", {2, 12, 15, 14}, {56, 3, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {0}, 2, 4, false, UNASKED},
    {"depthwise", {2, 32, 20, 20}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 32, false, UNASKED},
    {"depthwise 7x7", {2, 40, 19, 23}, {40, 1, 7, 7}, {1, 1}, {3, 3}, {1, 1}, {0}, 2, 40, false, UNASKED},
    {"depthwise, stride 2, channels past a vector", {3, 37, 21, 22}, {37, 1, 5, 5}, {2, 2}, {2, 2}, {1, 1}, {0}, 2, 37, false, UNASKED},
    {"depthwise, dilation", {2, 70, 15, 17}, {70, 1, 3, 4}, {1, 1}, {3, 2}, {3, 2}, {0}, 2, 70, false, UNASKED},
    {"transposed", {2, 16, 12, 12}, {16, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, true, UNASKED},
    {"transposed, stride 2 and output padding", {2, 16, 9, 9}, {16, 24, 4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 1, true, UNASKED},
    {"transposed, 2x2 by 2", {2, 31, 32, 32}, {31, 64, 2, 2}, {2, 2}, {0, 0}, {1, 1}, {0}, 2, 1, true, UNASKED},
    {"transposed, stride 3, dilation 2", {2, 16, 8, 7}, {16, 24, 3, 4}, {3, 2}, {1, 2}, {2, 3}, {1, 0}, 2, 1, true, UNASKED},
    {"transposed, steps wider than the kernel", {2, 16, 8, 7}, {16, 20, 2, 1}, {3, 3}, {0, 0}, {1, 1}, {2, 1}, 2, 1, true, UNASKED},
    {"transposed, groups", {2, 32, 10, 10}, {32, 16, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 4, true, UNASKED},
    {"transposed, depthwise", {2, 32, 10, 9}, {32, 1, 4, 4}, {2, 2}, {1, 1}, {1, 1}, {0}, 2, 32, true, UNASKED},
    {"bands of lines, stride 2", {1, 128, 57, 56}, {128, 128, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {0}, 2, 1, false, UNASKED},
    {"bands of lines, transposed", {1, 128, 60, 28}, {128, 128, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 1}, 2, 1, true, UNASKED},
    {"bands of lines, depthwise", {1, 32, 225, 225}, {32, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {0}, 2, 32, false, UNASKED},
    {"three dimensions", {2, 16, 7, 8, 9}, {16, 16, 3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}, {0}, 3, 1, false, UNASKED},
    {"three dimensions, transposed", {2, 16, 4, 5, 6}, {16, 16, 3, 2, 3}, {2, 2, 1}, {1, 0, 1}, {1, 1, 1}, {1, 0, 0}, 3, 1, true, UNASKED},
};
/* clang-format on */

static fac_tensor *last(const conv_case *k, fac_tensor *t, fac_dtype d) {
    return fac_contiguous(fac_to_dtype(t, d), .memory_format = k->nd == 3 ? FAC_CHANNELS_LAST_3D : FAC_CHANNELS_LAST);
}

static void conv_of_innermost_channels_agrees_with_windows(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = random_of(FAC_F64, (fac_ints){k->input, (size_t)k->nd + 2}), *g = NULL;
        fac_tensor *w = random_of(FAC_F64, (fac_ints){k->weight, (size_t)k->nd + 2}), *b = RANDOM(bias_size(k));
        results own = run_case(k, x, w, b, &g);
        for (int lies = 0; lies < 2; lies++) {
            fac_tensor *weight = lies ? last(k, w, FAC_F32) : fac_to_dtype(w, FAC_F32);
            results r = run_case(k, last(k, x, FAC_F32), weight, fac_to_dtype(b, FAC_F32), &g);
            assert_near(r.y, own.y, 1e-4);
            for (int j = 0; j < 3; j++) assert_near(r.grad[j], own.grad[j], 2e-4);
        }
    }
}

/* The operands are the same numbers in both, so that results differ by one rounding. */
static void assert_rounded(const conv_case *k, const char *what, fac_tensor *a, fac_tensor *b) {
    fac_tensor *wide = fac_to_dtype(a, FAC_F64), *least = fac_maximum(fac_abs(b), fac_full_like(b, 1));
    const double worst = fac_item(fac_max(fac_div(fac_abs(fac_sub(wide, b)), least)));
    if (!(worst <= 0x1.1p-8)) fail_msg("%s: %s in bf16 is off by %g of itself", k->what, what, worst);
}

static void conv_of_bf16_of_innermost_channels_is_that_of_the_same_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = fac_to_dtype(random_of(FAC_F64, (fac_ints){k->input, (size_t)k->nd + 2}), FAC_BF16);
        fac_tensor *w = fac_to_dtype(random_of(FAC_F64, (fac_ints){k->weight, (size_t)k->nd + 2}), FAC_BF16);
        fac_tensor *b = fac_to_dtype(RANDOM(bias_size(k)), FAC_BF16), *g = NULL;
        for (int lies = 0; lies < 2; lies++) {
            results r = run_case(k, last(k, x, FAC_BF16), lies ? last(k, w, FAC_BF16) : w, b, &g);
            fac_tensor *same = fac_to_dtype(fac_to_dtype(g, FAC_BF16), FAC_F64);
            results own =
                run_case(k, fac_to_dtype(x, FAC_F64), fac_to_dtype(w, FAC_F64), fac_to_dtype(b, FAC_F64), &same);
            assert_rounded(k, "the result", r.y, own.y);
            assert_rounded(k, "the gradient of the input", r.grad[0], own.grad[0]);
            assert_rounded(k, "the gradient of the weight", r.grad[1], own.grad[1]);
            assert_rounded(k, "the gradient of the bias", r.grad[2], own.grad[2]);
        }
    }
}

static void conv_of_innermost_channels_has_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    int was = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = last(k, random_of(FAC_F32, (fac_ints){k->input, (size_t)k->nd + 2}), FAC_F32), *g = NULL;
        fac_tensor *w = random_of(FAC_F32, (fac_ints){k->weight, (size_t)k->nd + 2});
        fac_tensor *b = random_of(FAC_F32, FAC_INTS(bias_size(k)));
        assert_ok(fac_set_num_threads(1));
        results one = run_case(k, x, w, b, &g);
        assert_ok(fac_set_num_threads(3));
        results r = run_case(k, x, w, b, &g);
        assert_true(fac_equal(r.y, one.y));
        for (int j = 0; j < 3; j++) assert_true(fac_equal(r.grad[j], one.grad[j]));
    }
    assert_ok(fac_set_num_threads(was));
}

/* Infinity at one point spoils the points whose windows meet it, and no other. */
static void infinity_stays_within_its_windows(void **state) {
    (void)state;
    const fac_dtype dtypes[] = {FAC_F32, FAC_BF16};
    const int64_t channels[][2] = {{3, 20}, {16, 32}, {33, 16}, {33, 40}};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        for (size_t i = 0; i < FAC_COUNT(channels); i++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_ones(FAC_INTS(2, channels[i][0], 19, 17)),
                       *w = fac_ones(FAC_INTS(channels[i][1], channels[i][0], 3, 3));
            (void)fac_fill_(fac_select(fac_select(fac_select(fac_select(x, 0, 1), 0, 0), 0, 4), 0, 4), INFINITY);
            fac_tensor *in = fac_contiguous(fac_to_dtype(x, dtypes[d]), .memory_format = FAC_CHANNELS_LAST);
            fac_tensor *y = fac_conv2d(in, fac_to_dtype(w, dtypes[d]), NULL, .padding = 1);
            assert_no_error();
            assert_int_equal(fac_item(fac_sum(fac_isinf(y))), 9 * channels[i][1]);
            assert_int_equal(fac_item(fac_sum(fac_isnan(y))), 0);
        }
    }
}

/* Products of bf16 without gaps are such convolutions too: against f64, which have the same numbers. */
static void products_of_bf16_are_those_of_the_same_numbers(void **state) {
    (void)state;
    const int64_t sizes[][3] = {{130, 40, 48}, {100, 17, 33}, {700, 70, 16}, {1500, 24, 35}, {128, 300, 1700}};
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        for (int along = 0; along < 2; along++) {
            FAC_SCOPE(s);
            const conv_case k = {.what = "a product"};
            const int64_t m = sizes[i][0], n = sizes[i][1], depth = sizes[i][2];
            fac_tensor *a = fac_to_dtype(random_of(FAC_F64, FAC_INTS(m, depth)), FAC_BF16);
            fac_tensor *b = fac_to_dtype(
                along ? random_of(FAC_F64, FAC_INTS(n, depth)) : random_of(FAC_F64, FAC_INTS(depth, n)), FAC_BF16);
            if (along) b = fac_t(b);
            fac_tensor *bias = fac_to_dtype(RANDOM(n), FAC_BF16);
            fac_tensor *wide = fac_mm(fac_to_dtype(a, FAC_F64), fac_to_dtype(b, FAC_F64));
            assert_rounded(&k, "a product", fac_mm(a, b), wide);
            assert_rounded(&k, "a product and a row", fac_addmm(bias, a, b),
                           fac_add(wide, fac_to_dtype(bias, FAC_F64)));
            assert_no_error();
        }
    }
}

static fac_status convolve_and_back(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_INTS(2, 16, 24, 24)),
               *w = fac_set_requires_grad(fac_ones(FAC_INTS(32, 16, 3, 3)), true);
    fac_tensor *in = fac_set_requires_grad(fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST), true);
    fac_tensor *y = fac_conv2d(in, w, NULL, .padding = 1);
    if (y) (void)!fac_backward(fac_sum(y));
    return fac_error();
}

static void conv_of_innermost_channels_survives_every_failed_allocation(void **state) {
    (void)state;
    int was = fac_num_threads();
    /* A worker that meets its first error keeps a thread's state, which would count. */
    assert_ok(fac_set_num_threads(1));
    support_fail_each_allocation(convolve_and_back, NULL);
    assert_ok(fac_set_num_threads(was));
}

FAC_TEST_MAIN_OF_PAIRS(FAC_TEST(conv_of_innermost_channels_agrees_with_windows),
                       FAC_TEST(conv_of_bf16_of_innermost_channels_is_that_of_the_same_numbers),
                       FAC_TEST(conv_of_innermost_channels_has_the_same_bits_for_any_number_of_threads),
                       FAC_TEST(products_of_bf16_are_those_of_the_same_numbers),
                       FAC_TEST(infinity_stays_within_its_windows),
                       FAC_TEST(conv_of_innermost_channels_survives_every_failed_allocation))
