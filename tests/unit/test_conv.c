/* Convolutions against their definition, their gradients against differences, and what they refuse. */
#include "linalg_test.h"

/* A case: everything in two dimensions. */
typedef struct conv_case {
    int64_t batch, in, out, groups, h, w, kh, kw, stride[2], padding[2], dilation[2];
} conv_case;
static const conv_case cases[] = {
    {1, 1, 1, 1, 4, 4, 1, 1, {1, 1}, {0, 0}, {1, 1}},     {2, 3, 4, 1, 6, 5, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {2, 4, 6, 2, 7, 8, 3, 2, {2, 3}, {2, 1}, {1, 2}},     {3, 6, 6, 6, 5, 5, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {1, 2, 5, 1, 9, 3, 5, 1, {1, 1}, {0, 0}, {2, 1}},     {2, 8, 3, 1, 6, 6, 1, 1, {2, 2}, {0, 0}, {1, 1}},
    {1, 40, 30, 1, 33, 31, 3, 3, {1, 1}, {1, 1}, {1, 1}},
};

static int64_t at4(const int64_t *n, int64_t a, int64_t b, int64_t c, int64_t d) {
    return ((a * n[1] + b) * n[2] + c) * n[3] + d;
}

/* The sum over channels and taps that defines a convolution. */
static fac_tensor *expected_conv(const conv_case *k, fac_tensor *x, fac_tensor *w, fac_tensor *bias) {
    int64_t size[4] = {k->batch, k->out,
                       (k->h + 2 * k->padding[0] - k->dilation[0] * (k->kh - 1) - 1) / k->stride[0] + 1,
                       (k->w + 2 * k->padding[1] - k->dilation[1] * (k->kw - 1) - 1) / k->stride[1] + 1};
    double *xs = numbers(x), *ws = numbers(w), *bs = numbers(bias);
    double *y = calloc((size_t)(size[0] * size[1] * size[2] * size[3]), sizeof *y);
    assert_non_null(y);
    int64_t per = k->in / k->groups;
    for (int64_t n = 0; n < size[0]; n++)
        for (int64_t o = 0; o < size[1]; o++)
            for (int64_t i = 0; i < size[2]; i++)
                for (int64_t j = 0; j < size[3]; j++) {
                    double sum = bs[o];
                    for (int64_t c = 0; c < per; c++)
                        for (int64_t a = 0; a < k->kh; a++)
                            for (int64_t b = 0; b < k->kw; b++) {
                                int64_t p = i * k->stride[0] + a * k->dilation[0] - k->padding[0];
                                int64_t q = j * k->stride[1] + b * k->dilation[1] - k->padding[1];
                                if (p < 0 || p >= k->h || q < 0 || q >= k->w) continue;
                                int64_t channel = o / (k->out / k->groups) * per + c;
                                sum += ws[at4(fac_tensor_sizes(w).v, o, c, a, b)] *
                                       xs[at4(fac_tensor_sizes(x).v, n, channel, p, q)];
                            }
                    y[at4(size, n, o, i, j)] = sum;
                }
    fac_tensor *t = fac_tensor_from(y, FAC_F64, (fac_ints){size, 4});
    free(xs);
    free(ws);
    free(bs);
    free(y);
    return t;
}

static fac_tensor *run_conv(const conv_case *k, fac_tensor *x, fac_tensor *w, fac_tensor *bias) {
    return fac_conv2d(x, w, bias, .strides = FAC_INTS(k->stride[0], k->stride[1]),
                      .paddings = FAC_INTS(k->padding[0], k->padding[1]),
                      .dilations = FAC_INTS(k->dilation[0], k->dilation[1]), .groups = k->groups);
}

static void conv2d_matches_its_definition(void **state) {
    (void)state;
    static const struct {
        fac_dtype dtype;
        double tolerance;
    } types[] = {{FAC_F64, 1e-12}, {FAC_F32, 1e-4}, {FAC_BF16, 0.06}, {FAC_F16, 0.01}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (size_t d = 0; d < FAC_COUNT(types); d++) {
            FAC_SCOPE(s);
            const conv_case *k = &cases[i];
            fac_tensor *x = random_of(types[d].dtype, FAC_INTS(k->batch, k->in, k->h, k->w));
            fac_tensor *w = random_of(types[d].dtype, FAC_INTS(k->out, k->in / k->groups, k->kh, k->kw));
            fac_tensor *bias = random_of(types[d].dtype, FAC_INTS(k->out));
            assert_near(run_conv(k, x, w, bias), expected_conv(k, x, w, bias), types[d].tolerance);
        }
}

/* Sums wrap, whatever they are computed in: those of narrow dtypes are those of i64, cut. */
static void convolutions_of_integers_wrap(void **state) {
    (void)state;
    static const fac_dtype types[] = {FAC_U8, FAC_I8, FAC_I16, FAC_I32};
    static const double scale[] = {300, 300, 70000, 5e9};
    for (size_t i = 0; i < FAC_COUNT(types) * 12; i++) {
        FAC_SCOPE(s);
        const fac_dtype d = types[i / 12];
        const int64_t stride = 1 + (int64_t)i % 2, groups = 1 + (int64_t)i / 2 % 2,
                      width = 5 + 13 * ((int64_t)i / 4 % 3);
        fac_tensor *given[3] = {random_of(FAC_F64, FAC_INTS(2, 4, 9, width)),
                                random_of(FAC_F64, FAC_INTS(4, 4 / groups, 3, 3)), random_of(FAC_F64, FAC_INTS(4))};
        fac_tensor *few[3], *wide[3];
        for (int k = 0; k < 3; k++) {
            few[k] = fac_to_dtype(fac_to_dtype(fac_mul(given[k], scale[i / 12]), FAC_I64), d);
            wide[k] = fac_to_dtype(few[k], FAC_I64);
        }
        fac_tensor *y = fac_conv2d(few[0], few[1], few[2], .stride = stride, .padding = 1, .groups = groups),
                   *z = fac_conv2d(wide[0], wide[1], wide[2], .stride = stride, .padding = 1, .groups = groups);
        assert_no_error();
        assert_int_equal(fac_tensor_dtype(y), d);
        assert_true(fac_equal(y, fac_to_dtype(z, d)));
        fac_tensor *bias = fac_narrow(few[2], 0, 0, 4 / groups), *wide_bias = fac_to_dtype(bias, FAC_I64);
        y = fac_conv_transpose2d(few[0], few[1], groups == 1 ? bias : NULL, .stride = stride, .padding = 1,
                                 .groups = groups);
        z = fac_conv_transpose2d(wide[0], wide[1], groups == 1 ? wide_bias : NULL, .stride = stride, .padding = 1,
                                 .groups = groups);
        assert_no_error();
        assert_true(fac_equal(y, fac_to_dtype(z, d)));
    }
}

static void conv_of_other_ranks_agrees_with_conv2d(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 9), *w = RANDOM(4, 3, 3), *b = RANDOM(4);
    fac_tensor *flat =
        fac_conv2d(fac_unsqueeze(x, 2), fac_unsqueeze(w, 2), b, .strides = FAC_INTS(1, 2), .paddings = FAC_INTS(0, 1));
    assert_close(fac_conv1d(x, w, b, .stride = 2, .padding = 1), fac_squeeze_dim(flat, 2));
    fac_tensor *one = fac_conv1d(fac_select(x, 0, 1), w, b, .stride = 2, .padding = 1);
    assert_close(one, fac_select(fac_squeeze_dim(flat, 2), 0, 1));
    /* A depth of kernel 2 is the sum of two planes. */
    fac_tensor *x3 = RANDOM(1, 2, 3, 5, 4), *w3 = RANDOM(3, 2, 2, 3, 3),
               *y3 = fac_conv3d(x3, w3, NULL, .paddings = FAC_INTS(0, 1, 1));
    assert_sizes(y3, 1, 3, 2, 5, 4);
    fac_tensor *first = fac_conv2d(fac_select(x3, 2, 1), fac_select(w3, 2, 0), NULL, .padding = 1);
    fac_tensor *second = fac_conv2d(fac_select(x3, 2, 2), fac_select(w3, 2, 1), NULL, .padding = 1);
    assert_near(fac_select(y3, 2, 1), fac_add(first, second), 1e-12);
}

static void conv_padding_by_name(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 6, 7), *w = RANDOM(4, 3, 4, 3),
               *same = fac_conv2d_padding(x, w, NULL, .padding = "same");
    assert_sizes(same, 2, 4, 6, 7);
    fac_tensor *padded = fac_constant_pad_nd(x, FAC_INTS(1, 1, 1, 2));
    assert_close(same, fac_conv2d(padded, w, NULL));
    assert_close(fac_conv2d_padding(x, w, NULL), fac_conv2d(x, w, NULL));
    assert_null(fac_conv2d_padding(x, w, NULL, .padding = "same", .stride = 2));
    assert_error(FAC_ERR_ARGUMENT, "padding='same' is not supported for strided convolutions");
    assert_null(fac_conv2d_padding(x, w, NULL, .padding = "most"));
    assert_error(FAC_ERR_ARGUMENT, "Invalid padding string: 'most'");
}

/* <conv(x), y> == <x, conv_transpose(y)> for every x and y. */
static void conv_transpose_is_the_adjoint(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = RANDOM(k->batch, k->in, k->h, k->w), *w = RANDOM(k->out, k->in / k->groups, k->kh, k->kw);
        fac_tensor *c = run_conv(k, x, w, NULL), *y = fac_rand_like(c);
        int64_t left[2] = {k->h + 2 * k->padding[0] - k->dilation[0] * (k->kh - 1) - 1,
                           k->w + 2 * k->padding[1] - k->dilation[1] * (k->kw - 1) - 1};
        fac_tensor *t =
            fac_conv_transpose2d(y, w, NULL, .strides = FAC_INTS(k->stride[0], k->stride[1]),
                                 .paddings = FAC_INTS(k->padding[0], k->padding[1]),
                                 .output_paddings = FAC_INTS(left[0] % k->stride[0], left[1] % k->stride[1]),
                                 .dilations = FAC_INTS(k->dilation[0], k->dilation[1]), .groups = k->groups);
        assert_near(fac_sum(fac_mul(c, y)), fac_sum(fac_mul(x, t)), 1e-10);
    }
}

static void conv_results_do_not_depend_on_threads(void **state) {
    (void)state;
    int was = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const conv_case *k = &cases[i];
        fac_tensor *x = random_of(FAC_F32, FAC_INTS(k->batch, k->in, k->h, k->w));
        fac_tensor *w = random_of(FAC_F32, FAC_INTS(k->out, k->in / k->groups, k->kh, k->kw)), *g[2][3], *y[2];
        for (int t = 0; t < 2; t++) {
            assert_ok(fac_set_num_threads(t + 1));
            fac_tensor *a = fac_set_requires_grad(fac_clone(x), true), *b = fac_set_requires_grad(fac_clone(w), true);
            y[t] = run_conv(k, a, b, NULL);
            assert_ok(fac_backward(fac_sum(fac_mul(y[t], y[t]))));
            g[t][0] = fac_grad_of(a), g[t][1] = fac_grad_of(b), g[t][2] = y[t];
        }
        for (int j = 0; j < 3; j++)
            assert_memory_equal(fac_tensor_data(g[0][j]), fac_tensor_data(g[1][j]),
                                (size_t)fac_tensor_numel(g[0][j]) * sizeof(float));
    }
    assert_ok(fac_set_num_threads(was));
}

/* ---- gradients ---------------------------------------------------------------------------------------------------------------- */

static fac_status call_conv(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = run_conv(context, in.v[0], in.v[1], in.v[2]);
    return fac_error();
}
static fac_status call_transposed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context;
    (void)n;
    out[0] =
        fac_conv_transpose1d(in.v[0], in.v[1], in.v[2], .stride = 2, .padding = 1, .output_padding = 1, .groups = 2);
    return fac_error();
}

static void conv_has_gradients_to_second_order(void **state) {
    (void)state;
    static const conv_case small[] = {{2, 2, 2, 1, 3, 4, 2, 2, {1, 2}, {1, 0}, {1, 1}},
                                      {1, 4, 2, 2, 4, 3, 2, 1, {1, 1}, {0, 0}, {2, 1}}};
    for (size_t i = 0; i < FAC_COUNT(small); i++) {
        FAC_SCOPE(s);
        conv_case k = small[i];
        fac_tensors in =
            FAC_TENSORS(LEAF(k.batch, k.in, k.h, k.w), LEAF(k.out, k.in / k.groups, k.kh, k.kw), LEAF(k.out));
        assert_ok(fac_gradcheck(call_conv, &k, in, 1));
        assert_ok(fac_gradgradcheck(call_conv, &k, in, 1));
    }
    FAC_SCOPE(s);
    fac_tensors in = FAC_TENSORS(LEAF(2, 4, 3), LEAF(4, 1, 3), LEAF(2));
    assert_ok(fac_gradcheck(call_transposed, NULL, in, 1));
    assert_ok(fac_gradgradcheck(call_transposed, NULL, in, 1));
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------------ */

static void conv_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(1, 4, 5, 5), *w = RANDOM(6, 2, 3, 3);
    const int64_t huge = INT64_C(8600000000000000000);
    assert_null(fac_conv2d(x, w, NULL));
    assert_error(FAC_ERR_SHAPE, "expected input[1, 4, 5, 5] to have 2 channels, but got 4 channels instead");
    assert_null(fac_conv2d(x, w, NULL, .groups = -1));
    assert_error(FAC_ERR_ARGUMENT, "non-positive groups is not supported");
    assert_null(fac_conv2d(x, w, NULL, .groups = 4));
    assert_error(FAC_ERR_SHAPE, "divisible by 4");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .stride = 0));
    assert_error(FAC_ERR_ARGUMENT, "non-positive stride is not supported");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .padding = -1));
    assert_error(FAC_ERR_ARGUMENT, "negative padding is not supported");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .dilation = 0));
    assert_error(FAC_ERR_ARGUMENT, "non-positive dilation");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .dilation = 3));
    assert_error(FAC_ERR_SHAPE, "Kernel size can't be greater than actual input size");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .dilation = huge));
    assert_error(FAC_ERR_OVERFLOW, "too large");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .padding = huge));
    assert_error(FAC_ERR_OVERFLOW, "too large");
    assert_null(fac_conv2d(x, w, NULL, .groups = 2, .strides = FAC_INTS(1, 1, 1)));
    assert_error(FAC_ERR_ARGUMENT, "list of 2 values, but got 3");
    assert_null(fac_conv2d(x, w, RANDOM(5), .groups = 2));
    assert_error(FAC_ERR_SHAPE, "expected bias to be 1-dimensional with 6 elements");
    assert_null(fac_conv2d(RANDOM(1, 2, 5, 5), fac_zeros(FAC_INTS(6, 2, 0, 3), .dtype = FAC_F64), NULL));
    assert_error(FAC_ERR_SHAPE, "the kernel is empty");
    assert_null(fac_conv2d(RANDOM(2, 5), w, NULL));
    assert_error(FAC_ERR_SHAPE, "conv2d: Expected 3D (unbatched) or 4D (batched) input, but got size");
    assert_null(fac_conv_transpose2d(RANDOM(1, 6, 2, 2), w, NULL, .stride = huge));
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_null(fac_conv_transpose2d(RANDOM(1, 6, 2, 2), w, NULL, .output_padding = 1));
    assert_error(FAC_ERR_ARGUMENT, "output padding must be smaller");
    assert_sizes(fac_conv2d(RANDOM(0, 2, 5, 5), w, NULL), 0, 6, 3, 3);
}

static fac_status convolve(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(2, 3, 8, 8)), true),
               *w = fac_set_requires_grad(fac_ones(FAC_INTS(4, 3, 3, 3)), true);
    fac_tensor *y = fac_conv2d(x, w, NULL, .padding = 1);
    if (y) (void)!fac_backward(fac_sum(y));
    return fac_error();
}

static void conv_survives_every_failed_allocation(void **state) {
    (void)state;
    int was = fac_num_threads();
    assert_ok(
        fac_set_num_threads(1)); /* a worker that meets its first error keeps a thread's state, which would count */
    support_fail_each_allocation(convolve, NULL);
    assert_ok(fac_set_num_threads(was));
}

FAC_TEST_MAIN(FAC_TEST(conv2d_matches_its_definition), FAC_TEST(conv_of_other_ranks_agrees_with_conv2d),
              FAC_TEST(conv_padding_by_name), FAC_TEST(convolutions_of_integers_wrap),
              FAC_TEST(conv_transpose_is_the_adjoint), FAC_TEST(conv_results_do_not_depend_on_threads),
              FAC_TEST(conv_has_gradients_to_second_order), FAC_TEST(conv_refuses_bad_arguments),
              FAC_TEST(conv_survives_every_failed_allocation))
