/* Patches against their definition, pooling that is undone or drawn, and channels in another order. */
#include "linalg_test.h"

typedef struct patch_case {
    int64_t size[2], kernel[2], dilation[2], padding[2], stride[2];
} patch_case;
static const patch_case cases[] = {
    {{5, 6}, {2, 3}, {1, 1}, {0, 0}, {1, 1}}, {{7, 5}, {3, 2}, {2, 1}, {1, 3}, {1, 2}},
    {{4, 4}, {1, 1}, {1, 1}, {0, 0}, {2, 3}}, {{3, 3}, {2, 2}, {2, 2}, {4, 1}, {3, 1}},
    {{6, 9}, {3, 3}, {1, 2}, {1, 2}, {1, 1}},
};
static fac_ints pair_of(const int64_t *v) { return (fac_ints){v, 2}; }
static fac_tensor *columns_of(const patch_case *k, fac_tensor *x) {
    return fac_im2col(x, pair_of(k->kernel), pair_of(k->dilation), pair_of(k->padding), pair_of(k->stride));
}
static fac_tensor *image_of(const patch_case *k, fac_tensor *columns) {
    return fac_col2im(columns, pair_of(k->size), pair_of(k->kernel), pair_of(k->dilation), pair_of(k->padding),
                      pair_of(k->stride));
}

static int64_t windows(const patch_case *k, int d) {
    return (k->size[d] + 2 * k->padding[d] - k->dilation[d] * (k->kernel[d] - 1) - 1) / k->stride[d] + 1;
}

/* Calls visit(column element, image element) for every pair of a plane, -1 where the padding is. */
typedef void (*pair_fn)(double *column, double *image);
static void each_pair(const patch_case *k, int64_t planes, double *columns, double *image, pair_fn visit) {
    const int64_t oh = windows(k, 0), ow = windows(k, 1);
    for (int64_t p = 0; p < planes; p++)
        for (int64_t a = 0; a < k->kernel[0]; a++)
            for (int64_t b = 0; b < k->kernel[1]; b++)
                for (int64_t i = 0; i < oh; i++)
                    for (int64_t j = 0; j < ow; j++, columns++) {
                        const int64_t r = i * k->stride[0] - k->padding[0] + a * k->dilation[0],
                                      c = j * k->stride[1] - k->padding[1] + b * k->dilation[1];
                        if (r >= 0 && r < k->size[0] && c >= 0 && c < k->size[1])
                            visit(columns, image + (p * k->size[0] + r) * k->size[1] + c);
                    }
}
static void take(double *column, double *image) { *column = *image; }
static void give(double *column, double *image) { *image += *column; }

static void patches_match_their_definition(void **state) {
    (void)state;
    static const fac_dtype types[] = {FAC_F64, FAC_F32, FAC_BF16, FAC_F16};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (size_t d = 0; d < FAC_COUNT(types); d++) {
            FAC_SCOPE(s);
            const patch_case *k = &cases[i];
            const int64_t taps = k->kernel[0] * k->kernel[1], n = windows(k, 0) * windows(k, 1);
            const double tolerance = types[d] == FAC_BF16 ? 0.02 : types[d] == FAC_F16 ? 0.003 : 1e-6;
            fac_tensor *x = random_of(types[d], FAC_INTS(2, 3, k->size[0], k->size[1]));
            double *image = numbers(x), *columns = calloc((size_t)(6 * taps * n), sizeof *columns);
            each_pair(k, 6, columns, image, take);
            fac_tensor *want = fac_tensor_from(columns, FAC_F64, FAC_INTS(2, 3 * taps, n)), *got = columns_of(k, x);
            assert_near(got, want, 0);
            fac_tensor *last = fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST);
            assert_near(columns_of(k, last), want, 0);
            memset(image, 0, (size_t)(6 * k->size[0] * k->size[1]) * sizeof *image);
            each_pair(k, 6, columns, image, give);
            assert_near(image_of(k, got), fac_tensor_from(image, FAC_F64, FAC_INTS(2, 3, k->size[0], k->size[1])),
                        tolerance);
            free(image);
            free(columns);
        }
}

static void patches_of_other_dtypes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const patch_case *k = &cases[1];
    fac_tensor *re = RANDOM(3, k->size[0], k->size[1]), *im = RANDOM(3, k->size[0], k->size[1]),
               *z = fac_view_as_complex(fac_stack(FAC_TENSORS(re, im), .dim = -1));
    fac_tensor *columns = columns_of(k, z);
    assert_close(fac_imag(columns), columns_of(k, im));
    fac_tensor *back = image_of(k, columns);
    assert_close(fac_real(back), image_of(k, columns_of(k, re)));
    fac_tensor *truth = fac_ones(FAC_INTS(1, 3, 3), .dtype = FAC_BOOL),
               *wide = fac_im2col(truth, FAC_INTS(2), FAC_INTS(1), FAC_INTS(1), FAC_INTS(1));
    assert_int_equal(fac_tensor_dtype(wide), FAC_BOOL);
    assert_true(fac_equal(fac_col2im(wide, FAC_INTS(3), FAC_INTS(2), FAC_INTS(1), FAC_INTS(1), FAC_INTS(1)), truth));
    assert_null(
        fac_col2im(fac_to_dtype(wide, FAC_I32), FAC_INTS(3), FAC_INTS(2), FAC_INTS(1), FAC_INTS(1), FAC_INTS(1)));
    assert_error(FAC_ERR_DTYPE, "patches of int32 are not added up");
}

static fac_status call_im2col(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = columns_of(context, in.v[0]);
    return fac_error();
}
static fac_status call_col2im(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const patch_case *k = context;
    (void)n;
    out[0] = image_of(k, in.v[0]);
    return fac_error();
}

static void patches_have_gradients_to_second_order(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        patch_case k = cases[i];
        fac_tensors image = FAC_TENSORS(LEAF(1, 2, k.size[0], k.size[1])),
                    columns = FAC_TENSORS(LEAF(2 * k.kernel[0] * k.kernel[1], windows(&k, 0) * windows(&k, 1)));
        assert_ok(fac_gradcheck(call_im2col, &k, image, 1));
        assert_ok(fac_gradgradcheck(call_im2col, &k, image, 1));
        assert_ok(fac_gradcheck(call_col2im, &k, columns, 1));
        assert_ok(fac_gradgradcheck(call_col2im, &k, columns, 1));
    }
}

static void patches_fill_an_out_with_gaps(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const patch_case *k = &cases[0];
    fac_tensor *x = RANDOM(2, 3, k->size[0], k->size[1]), *want = columns_of(k, x), *image = image_of(k, want);
    fac_tensor *room = fac_full(FAC_INTS(16, 18, 2), -7, .dtype = FAC_F64);
    fac_tensor *out = fac_permute(fac_select(room, 2, 0), FAC_INTS(1, 0));
    assert_non_null(fac_im2col_out(out, fac_select(x, 0, 0), pair_of(k->kernel), pair_of(k->dilation),
                                   pair_of(k->padding), pair_of(k->stride)));
    assert_close(out, fac_select(want, 0, 0));
    fac_tensor *planes = fac_full(FAC_INTS(3, k->size[0], k->size[1], 2), -7, .dtype = FAC_F64),
               *part = fac_select(planes, 3, 1);
    assert_non_null(fac_col2im_out(part, fac_select(want, 0, 0), pair_of(k->size), pair_of(k->kernel),
                                   pair_of(k->dilation), pair_of(k->padding), pair_of(k->stride)));
    assert_close(part, fac_select(image, 0, 0));
    assert_close(fac_select(planes, 3, 0), fac_full(FAC_INTS(3, k->size[0], k->size[1]), -7, .dtype = FAC_F64));
}

static void patches_refuse_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(1, 2, 5, 5), *columns = RANDOM(1, 8, 16);
    const fac_ints one = FAC_INTS(1), none = FAC_INTS(0), two = FAC_INTS(2);
    assert_null(fac_im2col(x, FAC_INTS(9, 2), one, none, one));
    assert_error(FAC_ERR_SHAPE, "the shape of the array of sliding blocks");
    assert_null(fac_im2col(RANDOM(5, 5), two, one, none, one));
    assert_error(FAC_ERR_SHAPE, "Expected 3D or 4D (batch mode) tensor");
    assert_null(fac_im2col(x, none, one, none, one));
    assert_error(FAC_ERR_ARGUMENT, "kernel_size should be greater than zero");
    assert_null(fac_im2col(x, two, one, FAC_INTS(-1), one));
    assert_error(FAC_ERR_ARGUMENT, "padding should be non-negative");
    assert_null(fac_im2col(x, FAC_INTS(1, 2, 3), one, none, one));
    assert_error(FAC_ERR_ARGUMENT, "list of two numbers");
    assert_null(fac_im2col(x, two, FAC_INTS(INT64_MAX), FAC_INTS(1), one));
    assert_error(FAC_ERR_OVERFLOW, "too large");
    assert_null(fac_col2im(columns, FAC_INTS(5, 4), two, one, none, one));
    assert_error(FAC_ERR_SHAPE, "the calculated number of sliding blocks 4 * 3");
    assert_null(fac_col2im(RANDOM(1, 7, 16), FAC_INTS(5), two, one, none, one));
    assert_error(FAC_ERR_SHAPE, "divisible by the product of kernel_size");
    assert_sizes(fac_im2col(RANDOM(0, 2, 5, 5), two, one, none, one), 0, 8, 16);
    assert_sizes(fac_col2im(RANDOM(0, 8, 16), FAC_INTS(5), two, one, none, one), 0, 2, 5, 5);
}

/* ---- pooling ------------------------------------------------------------------------------------------------------------------ */

static void max_unpool_puts_maxima_back(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 6, 4), *y = RANDOM(1, 2, 4, 2, 6);
    fac_max_pool2d_with_indices_result two = fac_max_pool2d_with_indices(x, FAC_INTS(2));
    fac_tensor *back = fac_max_unpool2d(two.result0, two.result1, FAC_INTS(6, 4));
    assert_close(fac_sum(back), fac_sum(two.result0));
    assert_close(fac_mul(back, fac_sub(back, x)), fac_zeros_like(x)); /* each is zero or what was there */
    fac_max_pool3d_with_indices_result three = fac_max_pool3d_with_indices(y, FAC_INTS(2));
    back = fac_max_unpool3d(three.result0, three.result1, FAC_INTS(4, 2, 6), FAC_INTS(2, 2, 2), FAC_INTS(0, 0, 0));
    assert_close(fac_sum(back), fac_sum(three.result0));
    assert_close(fac_mul(back, fac_sub(back, y)), fac_zeros_like(y));
}

static fac_status call_unpool(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_max_unpool2d(in.v[0], context, FAC_INTS(4, 4));
    return fac_error();
}

static void max_unpool_has_gradients_and_refuses_bad_indices(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t good[] = {0, 5, 10, 15}, bad[] = {0, 5, 10, 16}, wrong[] = {0, 5, -1, 3};
    fac_tensor *x = LEAF(1, 1, 2, 2), *at = fac_tensor_from(good, FAC_I64, FAC_INTS(1, 1, 2, 2));
    assert_ok(fac_gradcheck(call_unpool, at, FAC_TENSORS(x), 1));
    assert_ok(fac_gradgradcheck(call_unpool, at, FAC_TENSORS(x), 1));
    assert_null(fac_max_unpool2d(x, fac_tensor_from(bad, FAC_I64, FAC_INTS(1, 1, 2, 2)), FAC_INTS(4, 4)));
    assert_error(FAC_ERR_INDEX, "Found an invalid max index: 16");
    assert_null(fac_max_unpool2d(x, fac_tensor_from(wrong, FAC_I64, FAC_INTS(1, 1, 2, 2)), FAC_INTS(4, 4)));
    assert_error(FAC_ERR_INDEX, "Found an invalid max index: -1");
    assert_null(fac_max_unpool2d(x, at, FAC_INTS(4)));
    assert_error(FAC_ERR_ARGUMENT, "exactly 2 elements in output_size");
    assert_null(fac_max_unpool2d(x, fac_to_dtype(at, FAC_I32), FAC_INTS(4, 4)));
    assert_error(FAC_ERR_DTYPE, "should be type int64");
    assert_null(fac_max_unpool2d(x, fac_zeros(FAC_INTS(1, 1, 2, 1), .dtype = FAC_I64), FAC_INTS(4, 4)));
    assert_error(FAC_ERR_SHAPE, "same as that of the input tensor");
    assert_sizes(
        fac_max_unpool2d(RANDOM(0, 1, 2, 2), fac_zeros(FAC_INTS(0, 1, 2, 2), .dtype = FAC_I64), FAC_INTS(4, 4)), 0, 1,
        4, 4);
}

/* Where Graham's sequence of step (in - kernel) / (out - 1) begins window i. */
static int64_t begins(int64_t i, int64_t in, int64_t out, int64_t kernel, double u) {
    const double step = (double)(in - kernel) / (double)(out - 1);
    return i == out - 1 ? in - kernel : (int64_t)(((double)i + u) * step) - (int64_t)(u * step);
}

static void fractional_max_pool_matches_its_definition(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t h = 9, w = 11, oh = 4, ow = 5;
    fac_tensor *x = RANDOM(2, 3, h, w), *u = fac_rand(FAC_INTS(2, 3, 2), .dtype = FAC_F64);
    fac_fractional_max_pool2d_result r = fac_fractional_max_pool2d(x, FAC_INTS(2, 3), FAC_INTS(oh, ow), u);
    double *xs = numbers(x), *us = numbers(u), *y = numbers(r.result0), *at = numbers(r.result1);
    for (int64_t o = 0; o < 6 * oh * ow; o++) {
        const int64_t p = o / (oh * ow), i = o / ow % oh, j = o % ow;
        double best = -INFINITY;
        for (int64_t a = 0; a < 2; a++)
            for (int64_t b = 0; b < 3; b++)
                best =
                    fmax(best,
                         xs[(p * h + begins(i, h, oh, 2, us[2 * p + 1]) + a) * w + begins(j, w, ow, 3, us[2 * p]) + b]);
        assert_true(y[o] == best && xs[p * h * w + (int64_t)at[o]] == best);
    }
    free(xs);
    free(us);
    free(y);
    free(at);
}

static fac_status call_fractional(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_fractional_max_pool3d(in.v[0], FAC_INTS(2, 2, 2), FAC_INTS(2, 3, 2), context).result0;
    return fac_error();
}

static void fractional_max_pool_has_gradients_and_bears_any_sample(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = LEAF(1, 2, 4, 5, 4), *u = fac_rand(FAC_INTS(1, 2, 3), .dtype = FAC_F64);
    assert_ok(fac_gradcheck(call_fractional, u, FAC_TENSORS(x), 1));
    assert_ok(fac_gradgradcheck(call_fractional, u, FAC_TENSORS(x), 1));
    const double odd[] = {NAN, -5, 1e30, INFINITY, -INFINITY, 7};
    fac_tensor *far = fac_tensor_from(odd, FAC_F64, FAC_INTS(1, 2, 3));
    fac_fractional_max_pool3d_result r = fac_fractional_max_pool3d(x, FAC_INTS(2, 2, 2), FAC_INTS(2, 3, 2), far);
    double *at = numbers(r.result1);
    for (int i = 0; i < 24; i++) assert_true(at[i] >= 0 && at[i] < 80);
    free(at);
    assert_null(fac_fractional_max_pool3d(x, FAC_INTS(2, 2, 2), FAC_INTS(4, 3, 2), u).result0);
    assert_error(FAC_ERR_SHAPE, "too large relative to input");
    assert_null(fac_fractional_max_pool3d(x, FAC_INTS(2, 2, 2), FAC_INTS(2, 3, 2),
                                          fac_rand(FAC_INTS(1, 3, 3), .dtype = FAC_F64))
                    .result0);
    assert_error(FAC_ERR_SHAPE, "Expect _random_samples");
    assert_null(fac_fractional_max_pool3d(x, FAC_INTS(2, 2), FAC_INTS(2, 3, 2), u).result0);
    assert_error(FAC_ERR_ARGUMENT, "exactly 3 elements in kernel_size");
}

/* ---- channels --------------------------------------------------------------------------------------------------------------- */

static void channel_shuffle_deals_channels_out(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 6, 3, 2), *y = fac_channel_shuffle(x, 3);
    for (int64_t c = 0; c < 6; c++) assert_close(fac_select(y, 1, c), fac_select(x, 1, c % 3 * 2 + c / 3));
    assert_null(fac_channel_shuffle(x, 4));
    assert_error(FAC_ERR_SHAPE, "divisible by groups");
    assert_null(fac_channel_shuffle(x, 0));
    assert_error(FAC_ERR_ARGUMENT, "must be positive");
    assert_null(fac_channel_shuffle(RANDOM(2, 6), 2));
    assert_error(FAC_ERR_SHAPE, "> 2 dims");
    assert_sizes(fac_channel_shuffle(RANDOM(2, 6, 0), 2), 2, 6, 0);
}

FAC_TEST_MAIN(FAC_TEST(patches_match_their_definition), FAC_TEST(patches_of_other_dtypes),
              FAC_TEST(patches_have_gradients_to_second_order), FAC_TEST(patches_fill_an_out_with_gaps),
              FAC_TEST(patches_refuse_bad_arguments), FAC_TEST(max_unpool_puts_maxima_back),
              FAC_TEST(max_unpool_has_gradients_and_refuses_bad_indices),
              FAC_TEST(fractional_max_pool_matches_its_definition),
              FAC_TEST(fractional_max_pool_has_gradients_and_bears_any_sample),
              FAC_TEST(channel_shuffle_deals_channels_out))
