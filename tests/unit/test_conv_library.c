/* Convolutions that oneDNN computes, in f32 and halves, against our own path, which computes the same in f64. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn_conv.h"
#include "conv_case.h"
#include <pthread.h>

/* clang-format off */
static const conv_case cases[] = {
    {"3x3", {4, 16, 12, 11}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"one image in blocks of channels", {1, 32, 40, 40}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"a batch that parts do not share evenly", {7, 32, 30, 30}, {32, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"a weight larger than its inputs", {2, 96, 7, 7}, {160, 96, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"odd channels", {3, 13, 17, 19}, {21, 13, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"three channels, 7x7, stride 2", {2, 3, 45, 44}, {24, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"1x1", {3, 32, 13, 9}, {48, 32, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0}, 2, 1, false, NEVER},
    {"1x1, channels past a vector", {3, 24, 13, 9}, {40, 24, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0}, 2, 1, false, NEVER},
    {"1x1, stride 2, what is left over", {3, 24, 14, 16}, {40, 24, 1, 1}, {2, 3}, {0, 0}, {1, 1}, {0}, 2, 1, false, ALWAYS},
    {"dilation", {2, 16, 23, 21}, {16, 16, 3, 2}, {1, 2}, {2, 1}, {2, 3}, {0}, 2, 1, false, ALWAYS},
    {"padding wider than the kernel", {2, 16, 9, 9}, {16, 16, 3, 3}, {1, 1}, {5, 4}, {1, 1}, {0}, 2, 1, false, PERHAPS},
    {"groups of 8", {2, 64, 16, 16}, {64, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 8, false, ALWAYS},
    {"groups of 16, one image", {1, 64, 48, 48}, {64, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 4, false, ALWAYS},
    {"groups of 3", {2, 12, 24, 24}, {16, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 4, false, PERHAPS},
    {"depthwise", {2, 32, 20, 20}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 32, false, ALWAYS},
    {"depthwise, stride 2, channels past a vector", {3, 37, 21, 22}, {37, 1, 5, 5}, {2, 2}, {2, 2}, {1, 1}, {0}, 2, 37, false, ALWAYS},
    {"transposed", {2, 16, 12, 12}, {16, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, true, ALWAYS},
    {"transposed, stride 2 and output padding", {2, 16, 9, 9}, {16, 24, 4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 1, true, ALWAYS},
    {"transposed, one image in blocks", {1, 32, 32, 32}, {32, 64, 2, 2}, {2, 2}, {0, 0}, {1, 1}, {0}, 2, 1, true, ALWAYS},
    {"transposed, groups", {2, 32, 10, 10}, {32, 8, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2, 4, true, ALWAYS},
    {"transposed, output padding beyond the stride", {2, 16, 9, 9}, {16, 24, 3, 3}, {1, 1}, {0, 0}, {3, 3}, {2, 2}, 2, 1, true, PERHAPS},
    {"one dimension", {4, 16, 130}, {32, 16, 5}, {2}, {2}, {1}, {0}, 1, 1, false, ALWAYS},
    {"wide, whose gradient is a convolution with the kernel turned", {2, 16, 67, 52}, {24, 16, 3, 2}, {1, 1}, {2, 1}, {2, 1}, {0}, 2, 1, false, ALWAYS},
    {"wide, transposed, with output padding", {2, 16, 60, 51}, {16, 24, 3, 4}, {1, 1}, {1, 0}, {2, 1}, {1, 0}, 2, 1, true, ALWAYS},
    {"wide, one dimension", {4, 16, 1100}, {16, 24, 5}, {1}, {1}, {1}, {0}, 1, 1, true, ALWAYS},
    {"wide, three dimensions", {2, 8, 12, 15, 16}, {16, 8, 3, 2, 3}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}, {0}, 3, 1, false, ALWAYS},
    {"three dimensions", {2, 8, 7, 8, 9}, {16, 8, 3, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}, {0}, 3, 1, false, ALWAYS},
    {"too little work", {1, 4, 5, 5}, {4, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 1, false, NEVER},
};
/* clang-format on */

/* Terms of a sum are below one, so errors grow as the root of their number; a weight's sum is the longest. */
static void conv_through_onednn_agrees_with_own_path(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = random_of(FAC_F64, (fac_ints){k->input, (size_t)k->nd + 2}), *g = NULL;
        fac_tensor *w = random_of(FAC_F64, (fac_ints){k->weight, (size_t)k->nd + 2}), *b = RANDOM(bias_size(k));
        results own = run_case(k, x, w, b, &g);
        fac__conv_primitives_trim();
        fac_tensor *narrow[3] = {fac_to_dtype(x, FAC_F32), fac_to_dtype(w, FAC_F32), fac_to_dtype(b, FAC_F32)};
        results library = run_case(k, narrow[0], narrow[1], narrow[2], &g);
        int used = fac__conv_primitives_kept();
        if (k->library == NEVER ? used > 0 : k->library == ALWAYS && fac__cpu_isa >= FAC_ISA_AVX2 && used == 0)
            fail_msg("%s: %d of oneDNN's convolutions were used", k->what, used);
        assert_near(library.y, own.y, 2e-5);
        for (int j = 0; j < 3; j++) assert_near(library.grad[j], own.grad[j], 1e-4);
    }
}

/* The operands are the same numbers in both, so that results differ by one rounding. */
static void assert_rounded(const conv_case *k, const char *what, fac_tensor *a, fac_tensor *b) {
    const double unit = fac_tensor_dtype(a) == FAC_F16 ? 0x1.1p-11 : 0x1.1p-8;
    fac_tensor *wide = fac_to_dtype(a, FAC_F64), *least = fac_maximum(fac_abs(b), fac_full_like(b, 1));
    const double worst = fac_item(fac_max(fac_div(fac_abs(fac_sub(wide, b)), least)));
    if (!(worst <= unit)) fail_msg("%s: %s is off by %g of itself", k->what, what, worst);
}

static void check_halves(const conv_case *k, fac_dtype d) {
    FAC_SCOPE(s);
    const int64_t bias = bias_size(k);
    fac_tensor *x = fac_to_dtype(random_of(FAC_F64, (fac_ints){k->input, (size_t)k->nd + 2}), d);
    fac_tensor *w = fac_to_dtype(random_of(FAC_F64, (fac_ints){k->weight, (size_t)k->nd + 2}), d);
    fac_tensor *b = fac_to_dtype(RANDOM(bias), d), *g = NULL;
    fac__conv_primitives_trim();
    results library = run_case(k, x, w, b, &g);
    /* Many channels are put last, where our own loops take them. */
    const bool moves = fac__cpu_isa == FAC_ISA_AVX512 && k->groups == 1 && k->weight[0] >= 32 && k->weight[1] >= 32;
    if (fac__cpu_isa >= FAC_ISA_AVX2 && k->library == ALWAYS && !moves && fac__conv_primitives_kept() == 0)
        fail_msg("%s: none of oneDNN's convolutions were used", k->what);
    fac_tensor *same = fac_to_dtype(fac_to_dtype(g, d), FAC_F64);
    results own = run_case(k, fac_to_dtype(x, FAC_F64), fac_to_dtype(w, FAC_F64), fac_to_dtype(b, FAC_F64), &same);
    assert_rounded(k, "the result", library.y, own.y);
    assert_rounded(k, "the gradient of the input", library.grad[0], own.grad[0]);
    assert_rounded(k, "the gradient of the weight", library.grad[1], own.grad[1]);
    assert_rounded(k, "the gradient of the bias", library.grad[2], own.grad[2]);
}

/* bf16 by itself too where the processor multiplies it, whether or not that is faster. */
static void conv_of_halves_is_that_of_the_same_numbers(void **state) {
    (void)state;
    const bool was = fac__cpu_bf16_fast, convolves = fac__cpu_bf16_conv;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac__cpu_bf16_fast = fac__cpu_bf16_conv = false;
        check_halves(&cases[i], FAC_F16);
        check_halves(&cases[i], FAC_BF16);
        if (!fac__cpu_bf16) continue;
        fac__cpu_bf16_conv = true;
        check_halves(&cases[i], FAC_BF16);
        fac__cpu_bf16_fast = true;
        check_halves(&cases[i], FAC_BF16);
    }
    fac__cpu_bf16_fast = was, fac__cpu_bf16_conv = convolves;
}

static void assert_same_bits(fac_tensor *a, fac_tensor *b) {
    assert_memory_equal(fac_tensor_data(a), fac_tensor_data(b), (size_t)fac_tensor_numel(a) * sizeof(float));
}

static void conv_through_onednn_has_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    int was = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = random_of(FAC_F32, (fac_ints){k->input, (size_t)k->nd + 2}), *g = NULL;
        fac_tensor *w = random_of(FAC_F32, (fac_ints){k->weight, (size_t)k->nd + 2});
        fac_tensor *b = random_of(FAC_F32, FAC_INTS(bias_size(k)));
        assert_ok(fac_set_num_threads(1));
        results one = run_case(k, x, w, b, &g);
        for (int threads = 2; threads <= 5; threads++) {
            assert_ok(fac_set_num_threads(threads));
            fac__conv_primitives_trim(); /* whatever the number of threads when a primitive is made */
            results r = run_case(k, x, w, b, &g);
            assert_same_bits(r.y, one.y);
            for (int j = 0; j < 3; j++) assert_same_bits(r.grad[j], one.grad[j]);
        }
    }
    assert_ok(fac_set_num_threads(was));
}

/* Element 0 of a 3x3 convolution of ones with ones, whose channel count makes its shape a new one. */
static double corner_of_ones(int64_t channels) {
    FAC_SCOPE(s);
    fac_tensor *y = fac_conv2d(fac_ones(FAC_INTS(1, channels, 32, 32)), fac_ones(FAC_INTS(16, channels, 3, 3)), NULL);
    double v = -1;
    return y && fac_tensor_read(fac_select(fac_flatten(y), 0, 0), FAC_F64, &v, 1) == FAC_OK ? v : -1;
}

static void conv_primitives_kept_are_bounded(void **state) {
    (void)state;
    for (int64_t channels = 1; channels <= FAC_CONV_KEPT + 20; channels++) {
        assert_true(corner_of_ones(channels) == 9.0 * (double)channels);
        assert_true(fac__conv_primitives_kept() <= FAC_CONV_KEPT);
    }
    assert_true(corner_of_ones(3) == 27); /* made again */
    if (fac__cpu_isa >= FAC_ISA_AVX2) assert_int_equal(fac__conv_primitives_kept(), FAC_CONV_KEPT);
    fac__conv_primitives_trim();
    assert_int_equal(fac__conv_primitives_kept(), 0);
}

static void a_conv_primitive_has_a_place_when_all_are_in_use(void **state) {
    (void)state;
    fac_conv_primitive *held[FAC_CONV_KEPT + 1], rooms[FAC_CONV_KEPT + 1];
    fac_conv_shape shape = {.result = FAC_CONV_SMALL, .nd = 1, .images = 1, .groups = 1, .small = 16, .large = 16};
    for (int d = 0; d < FAC_CONV_DIMS; d++) shape.kernel[d] = shape.stride[d] = shape.dilation[d] = 1;
    shape.weight_pitch = 16;
    fac__conv_primitives_trim();
    for (int i = 0; i <= FAC_CONV_KEPT; i++) {
        shape.small_size[0] = shape.large_size[0] = 20 + i;
        shape.small_pitch = shape.large_pitch = 16 * (20 + i);
        assert_ok(fac__conv_primitive_take(&shape, &rooms[i], &held[i]));
        assert_true((held[i] == &rooms[i]) == (i == FAC_CONV_KEPT));
        assert_memory_equal(&held[i]->shape, &shape, sizeof shape);
    }
    for (int i = 0; i <= FAC_CONV_KEPT; i++) fac__conv_primitive_give(held[i], &rooms[i]);
    fac__conv_primitives_trim();
    assert_int_equal(fac__conv_primitives_kept(), 0);
}

static void *convolve_many(void *context) {
    const int64_t first = *(const int64_t *)context;
    if (fac_set_num_threads(1)) return NULL;
    for (int64_t i = 0; i < 60; i++)
        if (corner_of_ones(1 + (first + i) % 90) != 9.0 * (double)(1 + (first + i) % 90)) return NULL;
    return context;
}

static void conv_primitives_are_shared_by_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    int64_t first[4] = {0, 0, 30, 60};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, convolve_many, &first[i]), 0);
    void *done[4] = {0}; /* all have ended before one is judged: a failed assertion leaves the test */
    for (int i = 0; i < 4; i++) pthread_join(threads[i], &done[i]);
    for (int i = 0; i < 4; i++) assert_ptr_equal(done[i], &first[i]);
}

/* Blocks of packed weights, parts of a weight's sum and room for layouts. */
static fac_status convolve_and_back(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(4, 16, 24, 24)), true),
               *w = fac_set_requires_grad(fac_ones(FAC_INTS(32, 16, 3, 3)), true);
    fac_tensor *y = fac_conv2d(x, w, NULL, .padding = 1);
    if (y) (void)!fac_backward(fac_sum(y));
    return fac_error();
}

static void conv_through_onednn_survives_every_failed_allocation(void **state) {
    (void)state;
    int was = fac_num_threads();
    /* A worker that meets its first error keeps a thread's state, which would count. */
    assert_ok(fac_set_num_threads(1));
    support_fail_each_allocation(convolve_and_back, NULL);
    assert_ok(fac_set_num_threads(was));
}

FAC_TEST_MAIN(FAC_TEST(conv_through_onednn_agrees_with_own_path), FAC_TEST(conv_of_halves_is_that_of_the_same_numbers),
              FAC_TEST(conv_through_onednn_has_the_same_bits_for_any_number_of_threads),
              FAC_TEST(conv_primitives_kept_are_bounded), FAC_TEST(a_conv_primitive_has_a_place_when_all_are_in_use),
              FAC_TEST(conv_primitives_are_shared_by_threads),
              FAC_TEST(conv_through_onednn_survives_every_failed_allocation))
