/* Resampling against its definition: a sum over all neighbours under the kernel of each kind, dimension by dimension. */
#include "linalg_test.h"

typedef enum { LINEAR, CUBIC, LINEAR_AA, CUBIC_AA, NEAREST, EXACT } mode;

/* ---- the definition -------------------------------------------------------------------------------------------------------- */

static double keys(double x, double a) {
    x = fabs(x);
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
static double tent(double x) { return fmax(0, 1 - fabs(x)); }

static double position(int64_t i, int64_t in, int64_t out, bool align) {
    if (align) return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    return ((double)i + 0.5) * (double)in / (double)out - 0.5;
}

/* Element i of a line of `in` elements, `step` apart, brought to `out`. */
static double element(mode m, const double *x, int64_t step, int64_t in, int64_t out, int64_t i, bool align) {
    const double scale = align ? (out > 1 ? (double)(in - 1) / (double)(out - 1) : 0) : (double)in / (double)out;
    double at = position(i, in, out, align), sum = 0, total = 0;
    if (m == NEAREST) return x[step * fac__min(in - 1, (int64_t)floor((double)i * scale))];
    if (m == EXACT) return x[step * fac__min(in - 1, (int64_t)floor(((double)i + 0.5) * scale))];
    if (m == LINEAR || m == CUBIC) { /* beyond the ends the last element is repeated */
        for (int64_t k = (int64_t)floor(at) - 3; k <= (int64_t)floor(at) + 3; k++)
            sum += (m == LINEAR ? tent(at - (double)k) : keys(at - (double)k, -0.75)) *
                   x[step * fac__max(0, fac__min(in - 1, k))];
        return sum;
    }
    const double wide = fmax(scale, 1), half = m == LINEAR_AA ? 1 : 2, center = ((double)i + 0.5) * scale;
    for (int64_t k = 0; k < in; k++) { /* elements whose middle is within reach; beyond the ends there is nothing */
        const double d = ((double)k + 0.5 - center) / wide;
        const double w = fabs(d) < half ? (m == LINEAR_AA ? tent(d) : keys(d, -0.5)) : 0;
        sum += w * x[step * k], total += w;
    }
    return sum / total;
}

/* Dimension `dim` of t brought to `out`. */
static fac_tensor *along(mode m, fac_tensor *t, int dim, int64_t out, bool align) {
    const fac_ints was = fac_tensor_sizes(t);
    int64_t sizes[5], before = 1, after = 1, in = was.v[dim];
    for (size_t d = 0; d < was.n; d++) {
        sizes[d] = (int)d == dim ? out : was.v[d];
        if ((int)d < dim) before *= was.v[d];
        if ((int)d > dim) after *= was.v[d];
    }
    double *x = numbers(t), *y = malloc((size_t)(before * out * after) * sizeof *y);
    assert_non_null(y);
    for (int64_t b = 0; b < before; b++)
        for (int64_t i = 0; i < out; i++)
            for (int64_t a = 0; a < after; a++)
                y[(b * out + i) * after + a] = element(m, x + b * in * after + a, after, in, out, i, align);
    fac_tensor *r = fac_tensor_from(y, FAC_F64, (fac_ints){sizes, was.n});
    free(x);
    free(y);
    return r;
}

static fac_tensor *expected(mode m, fac_tensor *x, fac_ints size, bool align) {
    for (size_t d = 0; d < size.n; d++) x = along(m, x, (int)d + 2, size.v[d], align);
    return x;
}

/* ---- the operators ------------------------------------------------------------------------------------------------------------ */

static const fac_floats NO_FACTORS = {NULL, 0};

static fac_tensor *resampled(mode m, fac_tensor *x, fac_ints size, bool align) {
    switch (m) {
    case NEAREST:
        return size.n == 1   ? fac_upsample_nearest1d(x, size, NO_FACTORS)
               : size.n == 2 ? fac_upsample_nearest2d(x, size, NO_FACTORS)
                             : fac_upsample_nearest3d(x, size, NO_FACTORS);
    case EXACT:
        return size.n == 1   ? fac_upsample_nearest_exact1d(x, size, NO_FACTORS)
               : size.n == 2 ? fac_upsample_nearest_exact2d(x, size, NO_FACTORS)
                             : fac_upsample_nearest_exact3d(x, size, NO_FACTORS);
    case CUBIC: return fac_upsample_bicubic2d(x, size, align, NO_FACTORS);
    case LINEAR_AA: return fac_upsample_bilinear2d_aa(x, size, align, NO_FACTORS);
    case CUBIC_AA: return fac_upsample_bicubic2d_aa(x, size, align, NO_FACTORS);
    default:
        return size.n == 1   ? fac_upsample_linear1d(x, size, align, NO_FACTORS)
               : size.n == 2 ? fac_upsample_bilinear2d(x, size, align, NO_FACTORS)
                             : fac_upsample_trilinear3d(x, size, align, NO_FACTORS);
    }
}

typedef struct resize_case {
    mode m;
    int nd;
    bool align;
    int64_t channels, in[3], out[3];
} resize_case;
static const resize_case cases[] = {
    {LINEAR, 1, false, 3, {7}, {19}},
    {LINEAR, 1, true, 3, {19}, {7}},
    {LINEAR, 2, false, 3, {5, 7}, {9, 16}},
    {LINEAR, 2, true, 3, {9, 70}, {4, 131}},
    {LINEAR, 2, false, 40, {5, 4}, {9, 7}},
    {LINEAR, 2, false, 2, {1, 1}, {3, 4}},
    {LINEAR, 3, false, 2, {3, 4, 5}, {7, 5, 8}},
    {LINEAR, 3, true, 20, {4, 3, 5}, {2, 6, 5}},
    {CUBIC, 2, false, 3, {5, 7}, {9, 16}},
    {CUBIC, 2, true, 3, {9, 8}, {4, 13}},
    {CUBIC, 2, false, 24, {3, 2}, {7, 5}},
    {CUBIC, 2, false, 1, {1, 2}, {3, 4}},
    {LINEAR_AA, 2, false, 3, {23, 17}, {5, 6}},
    {LINEAR_AA, 2, false, 2, {5, 6}, {9, 17}},
    {CUBIC_AA, 2, false, 3, {40, 17}, {3, 6}},
    {CUBIC_AA, 2, true, 18, {9, 17}, {4, 6}},
    {NEAREST, 1, false, 3, {7}, {19}},
    {NEAREST, 2, false, 3, {9, 70}, {5, 35}},
    {NEAREST, 2, false, 3, {3, 4}, {6, 8}},
    {NEAREST, 3, false, 2, {3, 4, 5}, {7, 5, 8}},
    {EXACT, 1, false, 3, {7}, {3}},
    {EXACT, 2, false, 5, {9, 70}, {5, 35}},
    {EXACT, 3, false, 2, {3, 4, 5}, {6, 8, 4}},
};

static fac_tensor *input_of(const resize_case *k, fac_dtype dtype) {
    int64_t sizes[5] = {2, k->channels};
    memcpy(sizes + 2, k->in, (size_t)k->nd * sizeof *sizes);
    return random_of(dtype, (fac_ints){sizes, (size_t)k->nd + 2});
}
static fac_ints size_of(const resize_case *k) { return (fac_ints){k->out, (size_t)k->nd}; }

/* With the channel as the fastest dimension, where there is a format for it. */
static fac_tensor *channels_last(const resize_case *k, fac_tensor *x) {
    const fac_memory_format f = k->nd == 3 ? FAC_CHANNELS_LAST_3D : FAC_CHANNELS_LAST;
    return k->nd == 1 ? x : fac_contiguous(x, .memory_format = f);
}

static void upsample_matches_its_definition(void **state) {
    (void)state;
    static const struct {
        fac_dtype dtype;
        double tolerance;
    } types[] = {{FAC_F64, 1e-13}, {FAC_F32, 1e-5}, {FAC_BF16, 0.01}, {FAC_F16, 0.002}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (size_t d = 0; d < FAC_COUNT(types); d++) {
            FAC_SCOPE(s);
            const resize_case *k = &cases[i];
            fac_tensor *x = input_of(k, types[d].dtype), *want = expected(k->m, x, size_of(k), k->align);
            assert_near(resampled(k->m, x, size_of(k), k->align), want, types[d].tolerance);
            fac_tensor *last = resampled(k->m, channels_last(k, x), size_of(k), k->align);
            assert_near(last, want, types[d].tolerance);
            const bool one_pixel = k->in[0] == 1 && k->in[1] == 1; /* contiguous in both formats; so is the result */
            if (k->nd > 1 && k->channels > 1 && !one_pixel) assert_int_equal(fac_tensor_strides(last).v[1], 1);
            fac_tensor *strided = fac_transpose(fac_contiguous(fac_transpose(x, 0, 2)), 0, 2);
            assert_near(resampled(k->m, strided, size_of(k), k->align), want, types[d].tolerance);
        }
}

static void upsample_by_factors_takes_positions_from_the_factor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = random_of(FAC_F64, FAC_INTS(1, 1, 5));
    const double factor = 1.7;
    fac_tensor *y = fac_upsample_linear1d(x, (fac_ints){0}, false, FAC_FLOATS(factor));
    assert_sizes(y, 1, 1, 8); /* 8.5, rounded down */
    double *v = numbers(x), *got = numbers(y);
    for (int64_t i = 0; i < 8; i++) {
        const double at = fmax(0, ((double)i + 0.5) / factor - 0.5);
        const int64_t low = fac__min(4, (int64_t)at), next = fac__min(4, low + 1);
        assert_true(fabs(got[i] - (v[low] + (at - (double)low) * (v[next] - v[low]))) < 1e-12);
    }
    free(v);
    free(got);
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------------ */

static fac_status call_case(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const resize_case *k = context;
    (void)n;
    out[0] = resampled(k->m, in.v[0], size_of(k), k->align);
    return fac_error();
}

static void upsample_has_gradients_to_second_order(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        resize_case k = cases[i];
        if (k.channels * k.in[0] * k.out[0] > 200) continue;
        fac_tensors in = FAC_TENSORS(fac_set_requires_grad(input_of(&k, FAC_F64), true));
        assert_ok(fac_gradcheck(call_case, &k, in, 1));
        assert_ok(fac_gradgradcheck(call_case, &k, in, 1));
    }
}

/* <A x, y> = <x, A' y>, in every layout and dtype of sums. */
static void upsample_gradient_is_the_transposed_map(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++)
        for (int last = 0; last < 2; last++) {
            FAC_SCOPE(s);
            const resize_case *k = &cases[i];
            fac_tensor *x = input_of(k, FAC_F64);
            if (last) x = channels_last(k, x);
            x = fac_set_requires_grad(fac_detach(x), true);
            fac_tensor *y = resampled(k->m, x, size_of(k), k->align), *g = random_of(FAC_F64, fac_tensor_sizes(y));
            if (last) g = channels_last(k, g);
            fac_tensor *forward = fac_sum(fac_mul(y, g));
            assert_ok(fac_backward(forward));
            assert_near(fac_sum(fac_mul(fac_detach(x), fac_grad_of(x))), fac_detach(forward), 1e-11);
        }
}

/* ---- what elements see ---------------------------------------------------------------------------------------------------------- */

/* An infinity reaches only those that it is a neighbour of. */
static void upsample_keeps_infinities_to_their_neighbours(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double v[8] = {1, 2, 3, 4, 5, 6, 7, INFINITY};
    fac_tensor *x = fac_tensor_from(v, FAC_F64, FAC_INTS(1, 1, 1, 8));
    for (int dtype = 0; dtype < 2; dtype++) {
        fac_tensor *in = dtype ? fac_to_dtype(x, FAC_F32) : x;
        double *up = numbers(fac_upsample_bilinear2d(in, FAC_INTS(1, 16), false, NO_FACTORS));
        for (int i = 0; i < 16; i++) assert_true(i < 13 ? isfinite(up[i]) : up[i] == INFINITY);
        double *down = numbers(fac_upsample_bilinear2d_aa(in, FAC_INTS(1, 4), false, NO_FACTORS));
        for (int i = 0; i < 4; i++) assert_true(i < 3 ? isfinite(down[i]) : down[i] == INFINITY);
        free(up);
        free(down);
    }
}

/* Rounded to a byte after each dimension, the width first. */
static fac_tensor *expected_bytes(mode m, fac_tensor *x, fac_ints size) {
    for (int d = 1; d >= 0; d--) x = fac_clamp(fac_round(along(m, x, d + 2, size.v[d], false)), .min = 0, .max = 255);
    return x;
}

static void upsample_of_bytes_is_rounded_as_pillow_rounds(void **state) {
    (void)state;
    FAC_SCOPE(s);
    uint8_t v[2 * 3 * 9 * 11];
    for (size_t i = 0; i < sizeof v; i++) v[i] = (uint8_t)(127.5 + 127.5 * next_value());
    fac_tensor *x = fac_tensor_from(v, FAC_U8, FAC_INTS(2, 3, 9, 11)), *wide = fac_to_dtype(x, FAC_F64);
    static const mode modes[] = {LINEAR, CUBIC, LINEAR_AA, CUBIC_AA};
    for (size_t m = 0; m < FAC_COUNT(modes); m++)
        for (int last = 0; last < 2; last++) {
            fac_ints size = FAC_INTS(14, 5);
            fac_tensor *in = last ? fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST) : x;
            double *got = numbers(resampled(modes[m], in, size, false)),
                   *want = numbers(expected_bytes(modes[m], wide, size));
            for (int i = 0; i < 2 * 3 * 14 * 5; i++) assert_true(fabs(got[i] - want[i]) <= 1);
            free(got);
            free(want);
        }
}

static void upsample_is_the_same_on_any_number_of_threads(void **state) {
    (void)state;
    const int before = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        FAC_SCOPE(s);
        const resize_case *k = &cases[i];
        int64_t sizes[5] = {2, 40}, out[3];
        for (int d = 0; d < k->nd; d++) sizes[2 + d] = k->in[d] * 3, out[d] = k->out[d] * 5;
        fac_tensor *x = random_of(FAC_F32, (fac_ints){sizes, (size_t)k->nd + 2}), *y[2], *g[2];
        for (int t = 0; t < 2; t++) {
            assert_ok(fac_set_num_threads(t ? 4 : 1));
            fac_tensor *leaf = fac_set_requires_grad(fac_detach(x), true);
            y[t] = resampled(k->m, leaf, (fac_ints){out, (size_t)k->nd}, k->align);
            assert_ok(fac_backward(fac_sum(fac_mul(y[t], y[t]))));
            g[t] = fac_grad_of(leaf);
        }
        assert_true(fac_equal(y[0], y[1]) && fac_equal(g[0], g[1]));
    }
    assert_ok(fac_set_num_threads(before));
}

/* Halves are summed in f32 and rounded once, few of them and many, forward and backward. */
static void upsample_of_halves_is_that_of_floats_rounded(void **state) {
    (void)state;
    static const int64_t channels[] = {3, 400};
    for (int i = 0; i < 2 * 2 * 2; i++) {
        FAC_SCOPE(s);
        const fac_dtype d = i & 1 ? FAC_F16 : FAC_BF16;
        fac_tensor *x = random_of(d, FAC_INTS(2, channels[i >> 1 & 1], 3, 5)), *y[2], *g[2];
        for (int t = 0; t < 2; t++) {
            fac_tensor *leaf = fac_set_requires_grad(fac_detach(t ? fac_to_dtype(x, FAC_F32) : x), true);
            y[t] = resampled(i & 4 ? NEAREST : LINEAR, leaf, FAC_INTS(7, 9), false);
            assert_ok(fac_backward(fac_sum(y[t])));
            y[t] = fac_to_dtype(fac_detach(y[t]), d);
            g[t] = fac_to_dtype(fac_grad_of(leaf), d);
        }
        assert_true(fac_equal(y[0], y[1]) && fac_equal(g[0], g[1]));
    }
}

/* ---- out forms and refusals ----------------------------------------------------------------------------------------------------- */

/* By name, into an out with gaps. */
static void upsample_fills_an_out_with_gaps(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 5, 7), *room = fac_full(FAC_INTS(2, 3, 9, 32), -7, .dtype = FAC_F64);
    fac_tensor *out = fac_slice(room, 3, .start = 0, .end = 32, .step = 2);
    fac_value args[] = {fac_value_tensor(x),   fac_value_ints((int64_t[]){9, 16}, 2),
                        fac_value_bool(false), fac_value_none(),
                        fac_value_none(),      fac_value_tensor(out)};
    fac_value result = fac_value_none();
    assert_ok(fac_call("aten::upsample_bilinear2d.out", args, FAC_COUNT(args), &result));
    fac_value_release(&result);
    for (size_t i = 0; i < FAC_COUNT(args); i++) fac_value_release(&args[i]);
    assert_near(out, expected(LINEAR, x, FAC_INTS(9, 16), false), 1e-13);
    double *gaps = numbers(fac_slice(room, 3, .start = 1, .end = 32, .step = 2));
    for (int i = 0; i < 2 * 3 * 9 * 16; i++) assert_true(gaps[i] == -7);
    free(gaps);
}

static void upsample_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(1, 2, 5, 5);
    assert_null(fac_upsample_bilinear2d(x, FAC_INTS(3, 3), false, FAC_FLOATS(2, 2)));
    assert_error(FAC_ERR_ARGUMENT, "exactly one of output_size and scale_factors");
    assert_null(fac_upsample_bilinear2d(x, (fac_ints){0}, false, NO_FACTORS));
    assert_error(FAC_ERR_ARGUMENT, "exactly one of output_size and scale_factors");
    assert_null(fac_upsample_bilinear2d(x, (fac_ints){0}, false, FAC_FLOATS(1e300, 1)));
    assert_error(FAC_ERR_ARGUMENT, "makes no size");
    assert_null(fac_upsample_bilinear2d(x, FAC_INTS(3), false, NO_FACTORS));
    assert_error(FAC_ERR_ARGUMENT, "expected 2 sizes");
    assert_null(fac_upsample_bilinear2d(x, FAC_INTS(0, 3), false, NO_FACTORS));
    assert_error(FAC_ERR_SHAPE, "Input and output sizes should be greater than 0");
    assert_null(fac_upsample_bilinear2d(RANDOM(2, 5, 5), FAC_INTS(3, 3), false, NO_FACTORS));
    assert_error(FAC_ERR_SHAPE, "It is expected input_size equals to 4");
    assert_null(fac_upsample_bilinear2d(RANDOM(1, 0, 5, 5), FAC_INTS(3, 3), false, NO_FACTORS));
    assert_error(FAC_ERR_SHAPE, "Non-empty 4D data tensor expected");
    assert_null(fac_upsample_bilinear2d(fac_to_dtype(x, FAC_I32), FAC_INTS(3, 3), false, NO_FACTORS));
    assert_error(FAC_ERR_DTYPE, "int32 tensors are not resampled");
    assert_null(fac_upsample_linear1d(fac_to_dtype(RANDOM(1, 2, 5), FAC_U8), FAC_INTS(3), false, NO_FACTORS));
    assert_error(FAC_ERR_DTYPE, "uint8 tensors are not resampled");
    assert_sizes(fac_upsample_bicubic2d(RANDOM(0, 2, 5, 5), FAC_INTS(3, 4), false, NO_FACTORS), 0, 2, 3, 4);
    const int64_t far = INT64_C(1) << 40;
    assert_null(fac_upsample_bilinear2d(x, FAC_INTS(far, far), false, NO_FACTORS));
    assert_error(FAC_ERR_OVERFLOW, "");
}

FAC_TEST_MAIN(FAC_TEST(upsample_matches_its_definition), FAC_TEST(upsample_by_factors_takes_positions_from_the_factor),
              FAC_TEST(upsample_has_gradients_to_second_order), FAC_TEST(upsample_gradient_is_the_transposed_map),
              FAC_TEST(upsample_keeps_infinities_to_their_neighbours),
              FAC_TEST(upsample_of_bytes_is_rounded_as_pillow_rounds),
              FAC_TEST(upsample_of_halves_is_that_of_floats_rounded),
              FAC_TEST(upsample_is_the_same_on_any_number_of_threads), FAC_TEST(upsample_fills_an_out_with_gaps),
              FAC_TEST(upsample_refuses_bad_arguments))
