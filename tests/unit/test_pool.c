/* Pooling against its definition, its gradients against differences, and what it refuses. */
#include "linalg_test.h"

typedef struct pool_case {
    int64_t h, w, kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
} pool_case;
static const pool_case cases[] = {
    {6, 6, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false}, {7, 5, {3, 2}, {2, 1}, {1, 1}, {1, 1}, false},
    {7, 6, {2, 3}, {2, 3}, {0, 1}, {1, 1}, true},  {9, 8, {3, 3}, {1, 2}, {1, 0}, {2, 1}, false},
    {5, 5, {2, 2}, {3, 3}, {1, 1}, {1, 1}, true},
};

static int64_t count_of(const pool_case *k, int d) {
    int64_t in = d ? k->w : k->h, room = in + 2 * k->padding[d] - k->dilation[d] * (k->kernel[d] - 1) - 1;
    int64_t n = (room + (k->ceil_mode ? k->stride[d] - 1 : 0)) / k->stride[d] + 1;
    return k->ceil_mode && (n - 1) * k->stride[d] >= in + k->padding[d] ? n - 1 : n;
}

/* The greatest (or, with `mean`, the mean) of each window; the mean's divisor counts the padding when `padded`. */
static fac_tensor *expected_pool(const pool_case *k, fac_tensor *x, bool mean, bool padded, int64_t divisor) {
    int64_t planes = fac_tensor_size(x, 0) * fac_tensor_size(x, 1),
            size[4] = {fac_tensor_size(x, 0), fac_tensor_size(x, 1), count_of(k, 0), count_of(k, 1)};
    double *xs = numbers(x), *y = calloc((size_t)(planes * size[2] * size[3]), sizeof *y), *to = y;
    assert_non_null(y);
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < size[2]; i++)
            for (int64_t j = 0; j < size[3]; j++, to++) {
                double best = -INFINITY, sum = 0;
                int64_t inside = 0, all = 0;
                for (int64_t a = 0; a < k->kernel[0]; a++)
                    for (int64_t b = 0; b < k->kernel[1]; b++) {
                        int64_t r = i * k->stride[0] - k->padding[0] + a * k->dilation[0],
                                c = j * k->stride[1] - k->padding[1] + b * k->dilation[1];
                        all += r < k->h + k->padding[0] && c < k->w + k->padding[1];
                        if (r < 0 || r >= k->h || c < 0 || c >= k->w) continue;
                        double v = xs[(p * k->h + r) * k->w + c];
                        inside++;
                        sum += v;
                        if (v > best || v != v) best = v;
                    }
                *to = mean ? sum / (double)(divisor ? divisor : padded ? all : inside) : best;
            }
    fac_tensor *t = fac_tensor_from(y, FAC_F64, (fac_ints){size, 4});
    free(xs);
    free(y);
    return t;
}
#define WINDOWS(k)                                                                                               \
    .strides = FAC_INTS((k)->stride[0], (k)->stride[1]), .paddings = FAC_INTS((k)->padding[0], (k)->padding[1]), \
    .ceil_mode = (k)->ceil_mode

static void max_pool2d_matches_its_definition(void **state) {
    (void)state;
    static const fac_dtype types[] = {FAC_F64, FAC_F32, FAC_BF16, FAC_F16};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (size_t d = 0; d < FAC_COUNT(types); d++) {
            FAC_SCOPE(s);
            const pool_case *k = &cases[i];
            fac_tensor *x = random_of(types[d], FAC_INTS(2, 3, k->h, k->w));
            fac_tensor *y = fac_max_pool2d(x, FAC_INTS(k->kernel[0], k->kernel[1]), WINDOWS(k),
                                           .dilations = FAC_INTS(k->dilation[0], k->dilation[1]));
            assert_close(y, expected_pool(k, x, false, false, 0));
            fac_max_pool2d_with_indices_result r =
                fac_max_pool2d_with_indices(x, FAC_INTS(k->kernel[0], k->kernel[1]), WINDOWS(k),
                                            .dilations = FAC_INTS(k->dilation[0], k->dilation[1]));
            fac_tensor *found =
                fac_gather(fac_reshape(x, FAC_INTS(2, 3, k->h * k->w)), 2, fac_reshape(r.result1, FAC_INTS(2, 3, -1)));
            assert_close(fac_reshape_as(found, y), y);
        }
}

/* Rows of any number of windows, which are computed by vectors of several lengths; two kinds of windows take turns. */
static void max_pool2d_nan_wins_and_the_first_of_equals(void **state) {
    (void)state;
    static const fac_dtype types[] = {FAC_F64, FAC_F32, FAC_BF16, FAC_F16};
    enum { MOST = 37 };
    for (int t = 0; t < (int)FAC_COUNT(types) * MOST; t++) {
        FAC_SCOPE(s);
        const int windows = 1 + t % MOST, columns = 2 * windows;
        fac_tensor *x = fac_reshape(fac_tensor_of(1, 1, 5, NAN, 1, 1, NAN, 9), FAC_INTS(1, 2, 4));
        x = fac_contiguous(fac_narrow(fac_repeat(x, FAC_INTS(1, 1, MOST)), 2, 0, columns));
        fac_max_pool2d_with_indices_result r =
            fac_max_pool2d_with_indices(fac_to_dtype(x, types[t / MOST]), FAC_INTS(2));
        double *v = numbers(fac_to_dtype(r.result0, FAC_F64)), *at = numbers(r.result1);
        for (int i = 0; i < windows; i++) {
            if (i % 2)
                assert_true(v[i] != v[i] && at[i] == 2 * i + 1);
            else
                assert_true(v[i] == 1 && at[i] == 2 * i);
        }
        free(v);
        free(at);
    }
}

/* Windows that lie wholly in the padding, which dilation makes, give the least value of the dtype, as PyTorch's do, and place 0:
   windows over columns -1 and 2 of two. */
static void max_pool_of_padding_alone_is_the_least_value(void **state) {
    (void)state;
    static const struct {
        fac_dtype dtype;
        double least;
    } types[] = {{FAC_F64, -INFINITY},  {FAC_F32, -INFINITY}, {FAC_F16, -INFINITY},
                 {FAC_BF16, -INFINITY}, {FAC_U8, 0},          {FAC_I8, INT8_MIN},
                 {FAC_I16, INT16_MIN},  {FAC_I32, INT32_MIN}, {FAC_I64, (double)INT64_MIN}};
    for (size_t d = 0; d < FAC_COUNT(types); d++)
        for (int last = 0; last < 2; last++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_add(fac_arange(2 * 20 * 3 * 2), 1), types[d].dtype);
            fac_tensor *flat = fac_reshape(x, FAC_INTS(2, 20, 3, 2)), *deep = fac_reshape(x, FAC_INTS(2, 20, 1, 3, 2));
            if (last) flat = fac_contiguous(flat, .memory_format = FAC_CHANNELS_LAST);
            if (last) deep = fac_contiguous(deep, .memory_format = FAC_CHANNELS_LAST_3D);
            fac_max_pool2d_with_indices_result a = fac_max_pool2d_with_indices(
                flat, FAC_INTS(2, 2), .padding = 1, .dilations = FAC_INTS(1, 3), .stride = 1);
            assert_sizes(a.result0, 2, 20, 4, 1);
            fac_max_pool3d_with_indices_result b = fac_max_pool3d_with_indices(
                deep, FAC_INTS(2, 2, 2), .padding = 1, .dilations = FAC_INTS(2, 1, 3), .stride = 1);
            fac_max_pool1d_with_indices_result c = fac_max_pool1d_with_indices(
                fac_reshape(x, FAC_INTS(2, 60, 2)), 2, .padding = 1, .dilation = 3, .stride = 1);
            fac_tensor *values[] = {a.result0, b.result0, c.result0}, *places[] = {a.result1, b.result1, c.result1};
            for (int i = 0; i < 3; i++) {
                assert_true(fac_equal(values[i], fac_full_like(values[i], types[d].least)));
                assert_close(places[i], fac_zeros_like(places[i]));
            }
        }
}

static void avg_pool2d_matches_its_definition(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const pool_case *k = &cases[i];
        if (k->dilation[0] != 1) continue;
        fac_tensor *x = RANDOM(2, 3, k->h, k->w);
        fac_ints kernel = FAC_INTS(k->kernel[0], k->kernel[1]);
        assert_close(fac_avg_pool2d(x, kernel, WINDOWS(k)), expected_pool(k, x, true, true, 0));
        assert_close(fac_avg_pool2d(x, kernel, WINDOWS(k), .count_include_pad = false),
                     expected_pool(k, x, true, false, 0));
        assert_close(fac_avg_pool2d(x, kernel, WINDOWS(k), .divisor_override = 3), expected_pool(k, x, true, true, 3));
    }
}

static void pooling_of_other_ranks_agrees(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 9), *flat = fac_unsqueeze(x, 2);
    assert_close(fac_max_pool1d(x, FAC_INTS(3), .stride = 2),
                 fac_squeeze_dim(fac_max_pool2d(flat, FAC_INTS(1, 3), .strides = FAC_INTS(1, 2)), 2));
    assert_close(fac_avg_pool1d(x, FAC_INTS(3), .padding = 1),
                 fac_squeeze_dim(fac_avg_pool2d(flat, FAC_INTS(1, 3), .paddings = FAC_INTS(0, 1)), 2));
    assert_close(fac_adaptive_avg_pool1d(x, FAC_INTS(1)), fac_mean(x, .dim = 2, .keepdim = true));
    fac_tensor *x3 = RANDOM(1, 2, 2, 4, 4), *y3 = fac_max_pool3d(x3, FAC_INTS(2));
    assert_close(fac_select(y3, 2, 0), fac_maximum(fac_max_pool2d(fac_select(x3, 2, 0), FAC_INTS(2)),
                                                   fac_max_pool2d(fac_select(x3, 2, 1), FAC_INTS(2))));
    assert_close(fac_avg_pool3d(x3, FAC_INTS(2, 4, 4)), fac_mean(x3, .dims = FAC_INTS(2, 3, 4), .keepdim = true));
    /* Unequal windows: 5 to 3 is [0,2), [1,4), [3,5). */
    fac_tensor *line = RANDOM(1, 1, 5), *three = fac_adaptive_avg_pool1d(line, FAC_INTS(3));
    assert_close(fac_select(three, 2, 1), fac_mean(fac_narrow(line, 2, 1, 3), .dim = 2));
    assert_close(fac_select(three, 2, 2), fac_mean(fac_narrow(line, 2, 3, 2), .dim = 2));
}

/* ---- gradients --------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*pool_fn)(fac_tensor *x);
static fac_status call_pool(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = (*(pool_fn *)context)(in.v[0]);
    return fac_error();
}
static fac_tensor *do_max(fac_tensor *x) { return fac_max_pool2d(x, FAC_INTS(2), .stride = 1, .padding = 1); }
static fac_tensor *do_avg(fac_tensor *x) { return fac_avg_pool2d(x, FAC_INTS(3, 2), .padding = 1, .ceil_mode = true); }
static fac_tensor *do_adaptive(fac_tensor *x) { return fac_adaptive_avg_pool2d(x, FAC_INTS(3, 2)); }
static fac_tensor *do_adaptive_max(fac_tensor *x) { return fac_adaptive_max_pool2d(x, FAC_INTS(3, 2)).result0; }
static fac_tensor *do_max1(fac_tensor *x) { return fac_max_pool1d(fac_select(x, 0, 0), FAC_INTS(2)); }

static void pooling_has_gradients_to_second_order(void **state) {
    (void)state;
    static const pool_fn fns[] = {do_max, do_avg, do_adaptive, do_adaptive_max, do_max1};
    for (size_t i = 0; i < FAC_COUNT(fns); i++) {
        FAC_SCOPE(s);
        pool_fn fn = fns[i];
        fac_tensors in = FAC_TENSORS(LEAF(1, 2, 5, 4));
        assert_ok(fac_gradcheck(call_pool, &fn, in, 1));
        assert_ok(fac_gradgradcheck(call_pool, &fn, in, 1));
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------------ */

static void pooling_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(1, 2, 5, 5);
    const int64_t huge = INT64_C(8600000000000000000);
    assert_null(fac_max_pool2d(x, FAC_INTS(2), .stride = 0));
    assert_error(FAC_ERR_ARGUMENT, "stride should be greater than zero");
    assert_null(fac_max_pool2d(x, FAC_INTS(0)));
    assert_error(FAC_ERR_ARGUMENT, "kernel_size should be greater than zero");
    assert_null(fac_max_pool2d(x, FAC_INTS()));
    assert_error(FAC_ERR_ARGUMENT, "kernel_size must either be a single int");
    assert_null(fac_max_pool2d(x, FAC_INTS(huge)));
    assert_error(FAC_ERR_SHAPE, "too small");
    assert_null(fac_max_pool2d(x, FAC_INTS(huge), .dilation = INT64_C(1200000000000)));
    assert_error(FAC_ERR_OVERFLOW, "too large");
    assert_null(fac_avg_pool2d(x, FAC_INTS(huge), .padding = huge / 2));
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_null(fac_avg_pool2d(x, FAC_INTS(2), .padding = 2));
    assert_error(FAC_ERR_ARGUMENT, "pad should be at most half of kernel size");
    assert_null(fac_avg_pool2d(x, FAC_INTS(2), .divisor_override = 0));
    assert_error(FAC_ERR_ARGUMENT, "divisor must be not zero");
    assert_null(fac_avg_pool2d(RANDOM(5, 5), FAC_INTS(2)));
    assert_error(FAC_ERR_SHAPE, "Expected 3D or 4D");
    assert_null(fac_max_pool2d(RANDOM(1, 0, 5, 5), FAC_INTS(2)));
    assert_error(FAC_ERR_SHAPE, "non-zero sizes");
    assert_null(fac_adaptive_avg_pool2d(x, FAC_INTS(-1)));
    assert_error(FAC_ERR_ARGUMENT, "output_size should be non-negative");
    assert_sizes(fac_max_pool2d(RANDOM(0, 2, 4, 4), FAC_INTS(2)), 0, 2, 2, 2);
}

static void max_pool_backward_refuses_bad_indices(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(1, 1, 4, 4), *grad = RANDOM(1, 1, 2, 2);
    static const int64_t bad[] = {16, -1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        int64_t places[4] = {0, 5, 10, bad[i]};
        fac_tensor *indices = fac_tensor_from(places, FAC_I64, FAC_INTS(1, 1, 2, 2));
        assert_null(fac_max_pool2d_with_indices_backward(grad, x, FAC_INTS(2), FAC_INTS(2), FAC_INTS(0), FAC_INTS(1),
                                                         false, indices));
        assert_error(FAC_ERR_INDEX, "found an invalid max index");
    }
    fac_tensor *few = fac_zeros(FAC_INTS(1, 1, 1, 2), .dtype = FAC_I64);
    assert_null(
        fac_max_pool2d_with_indices_backward(grad, x, FAC_INTS(2), FAC_INTS(2), FAC_INTS(0), FAC_INTS(1), false, few));
    assert_error(FAC_ERR_SHAPE, "Expected indices to have the pooled size");
}

/* Vectors of channels and what is left of them, in both dtypes, with NaN and infinities: the values and the indices of planes. */
static void maxima_of_innermost_channels_are_those_of_planes(void **state) {
    (void)state;
    const int64_t channels[] = {5, 16, 70, 150};
    const fac_dtype dtypes[] = {FAC_F32, FAC_BF16};
    for (size_t i = 0; i < FAC_COUNT(channels) * FAC_COUNT(dtypes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_round(fac_mul(fac_randn(FAC_INTS(2, channels[i / 2], 9, 8)), 2));
        x = fac_to_dtype(fac_div(x, fac_ne(x, 3)), dtypes[i % 2]); /* equal numbers, infinity */
        x = fac_masked_fill(x, fac_eq(x, -3), NAN);
        fac_tensor *last = fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST);
        fac_max_pool2d_with_indices_result a =
            fac_max_pool2d_with_indices(x, FAC_INTS(3, 2), .strides = FAC_INTS(2, 1), .padding = 1);
        fac_max_pool2d_with_indices_result b =
            fac_max_pool2d_with_indices(last, FAC_INTS(3, 2), .strides = FAC_INTS(2, 1), .padding = 1);
        assert_no_error();
        assert_true(fac_equal(fac_nan_to_num(a.result0), fac_nan_to_num(b.result0)));
        assert_true(fac_equal(fac_isnan(a.result0), fac_isnan(b.result0)));
        assert_true(fac_equal(a.result1, b.result1));
    }
}

/* Windows of many columns of doubles, with equals, infinities and NaN among them, against those of floats, whose loops are others. */
static void maxima_of_wide_windows_of_doubles_are_those_of_floats(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_round(fac_randn(FAC_SHAPE(3, 4, 50, 77)));
        if (how == 1) x = fac_masked_fill(x, fac_gt(x, FAC_SCALAR(1)), FAC_SCALAR(-INFINITY));
        if (how == 2)
            x = fac_masked_fill(x, fac_gt(fac_randn(FAC_SHAPE(3, 4, 50, 77)), FAC_SCALAR(3)), FAC_SCALAR(NAN));
        if (how == 1) assert_non_null(fac_fill_(fac_select(x, 0, 1), FAC_SCALAR(-INFINITY)));
        fac_tensor *y = fac_to_dtype(x, FAC_F64);
        const fac_adaptive_max_pool2d_result a = fac_adaptive_max_pool2d(x, FAC_INTS(3, 4)),
                                             b = fac_adaptive_max_pool2d(y, FAC_INTS(3, 4));
        assert_no_error();
        assert_true(fac_allclose(fac_to_dtype(a.result0, FAC_F64), b.result0, .rtol = 0, .atol = 0, .equal_nan = true));
        assert_true(fac_equal(a.result1, b.result1));
    }
}

FAC_TEST_MAIN(FAC_TEST(maxima_of_wide_windows_of_doubles_are_those_of_floats),
              FAC_TEST(maxima_of_innermost_channels_are_those_of_planes), FAC_TEST(max_pool2d_matches_its_definition),
              FAC_TEST(max_pool2d_nan_wins_and_the_first_of_equals),
              FAC_TEST(max_pool_of_padding_alone_is_the_least_value), FAC_TEST(avg_pool2d_matches_its_definition),
              FAC_TEST(pooling_of_other_ranks_agrees), FAC_TEST(pooling_has_gradients_to_second_order),
              FAC_TEST(pooling_refuses_bad_arguments), FAC_TEST(max_pool_backward_refuses_bad_indices))
