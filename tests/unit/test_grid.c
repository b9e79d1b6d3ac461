/* Sampling at given points against its definition, point by point. */
#include "linalg_test.h"

enum { ZEROS, BORDER, REFLECTION };
enum { BILINEAR, CLOSEST, BICUBIC };

/* ---- the definition -------------------------------------------------------------------------------------------------------- */

/* Where a coordinate from -1 to 1 lies among n elements. */
static double unnormalised(double x, int64_t n, bool align) {
    return align ? (x + 1) / 2 * (double)(n - 1) : ((x + 1) * (double)n - 1) / 2;
}

static double kept_inside(double x, int64_t n, int padding, bool align) {
    const double low = align ? 0 : -0.5, high = align ? (double)(n - 1) : (double)n - 0.5;
    if (padding == ZEROS) return x;
    if (padding == REFLECTION) {
        if (high <= low) return 0;
        while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
    }
    return fmax(0, fmin(x, (double)(n - 1)));
}

static double keys(double x) {
    x = fabs(x);
    return x < 1 ? (1.25 * x - 2.25) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.75 : 0;
}

/* The weight with which element k shows in a sample at x along one dimension. */
static double weight(double x, int64_t k, int64_t n, int mode, int padding, bool align) {
    double sum = 0;
    if (mode == BICUBIC) {
        for (double at = floor(x) - 1; at <= floor(x) + 2; at++)
            if ((int64_t)kept_inside(at, n, padding, align) == k && kept_inside(at, n, padding, align) >= 0)
                sum += keys(x - at);
        return sum;
    }
    x = kept_inside(x, n, padding, align);
    return mode == CLOSEST ? (nearbyint(x) == (double)k) : fmax(0, 1 - fabs(x - (double)k));
}

typedef struct grid_case {
    int mode, padding;
    bool align;
} grid_case;

static fac_tensor *expected(const grid_case *g, fac_tensor *input, fac_tensor *grid) {
    const int64_t *in = fac_tensor_sizes(input).v, *points = fac_tensor_sizes(grid).v;
    const int nd = (int)fac_tensor_sizes(input).n - 2;
    int64_t sizes[5] = {in[0], in[1]}, n_points = 1, count = 1;
    for (int d = 0; d < nd; d++) sizes[2 + d] = points[1 + d], n_points *= points[1 + d], count *= in[2 + d];
    double *x = numbers(input), *at = numbers(grid), *y = calloc((size_t)(in[0] * in[1] * n_points), sizeof *y);
    assert_non_null(y);
    for (int64_t n = 0; n < in[0]; n++)
        for (int64_t p = 0; p < n_points; p++)
            for (int64_t e = 0; e < count; e++) {
                double w = 1;
                for (int64_t d = nd - 1, rest = e; d >= 0; rest /= in[2 + d], d--) {
                    const double c = at[(n * n_points + p) * nd + (nd - 1 - d)];
                    w *= weight(unnormalised(c, in[2 + d], g->align), rest % in[2 + d], in[2 + d], g->mode, g->padding,
                                g->align);
                }
                for (int64_t c = 0; c < in[1] && w != 0; c++)
                    y[(n * in[1] + c) * n_points + p] += w * x[(n * in[1] + c) * count + e];
            }
    fac_tensor *t = fac_tensor_from(y, FAC_F64, (fac_ints){sizes, (size_t)nd + 2});
    free(x);
    free(at);
    free(y);
    return t;
}

#define EACH_CASE(g)                       \
    for (int m_ = 0; m_ < 3; m_++)         \
        for (int p_ = 0; p_ < 3; p_++)     \
            for (int a_ = 0; a_ < 2; a_++) \
                for (grid_case g = {m_, p_, a_}, *once_ = &g; once_; once_ = NULL)

static fac_tensor *sampled(const grid_case *g, fac_tensor *input, fac_tensor *grid) {
    return fac_grid_sampler(input, grid, g->mode, g->padding, g->align);
}

static fac_tensor *points(fac_dtype dtype, fac_ints sizes) { return fac_mul(random_of(dtype, sizes), 1.7); }

static void grid_sampler_matches_its_definition(void **state) {
    (void)state;
    for (int nd = 2; nd < 4; nd++) EACH_CASE(g) {
            FAC_SCOPE(s);
            fac_tensor *x = nd == 2 ? RANDOM(2, 3, 5, 7) : RANDOM(2, 3, 4, 1, 5);
            fac_tensor *at =
                nd == 2 ? points(FAC_F64, FAC_INTS(2, 9, 11, 2)) : points(FAC_F64, FAC_INTS(2, 3, 5, 7, 3));
            assert_near(sampled(&g, x, at), expected(&g, x, at), 1e-11);
            fac_tensor *strided = fac_transpose(fac_contiguous(fac_transpose(x, 1, 3)), 1, 3);
            assert_near(sampled(&g, strided, fac_transpose(fac_contiguous(fac_transpose(at, 1, 2)), 1, 2)),
                        expected(&g, x, at), 1e-11);
            fac_tensor *x32 = fac_to_dtype(x, FAC_F32), *at32 = fac_to_dtype(at, FAC_F32);
            if (g.mode != CLOSEST) assert_near(sampled(&g, x32, at32), expected(&g, x32, at32), 1e-4);
            fac_tensor *x16 = fac_to_dtype(x, FAC_BF16), *at16 = fac_to_dtype(at, FAC_BF16);
            if (g.mode != CLOSEST) assert_near(sampled(&g, x16, at16), expected(&g, x16, at16), 0.02);
        }
}

static fac_status call_grid(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = sampled(context, in.v[0], in.v[1]);
    return fac_error();
}

static void grid_sampler_has_gradients(void **state) {
    (void)state;
    for (int nd = 2; nd < 4; nd++) EACH_CASE(g) {
            FAC_SCOPE(s);
            fac_tensor *x = nd == 2 ? LEAF(2, 2, 3, 4) : LEAF(1, 2, 3, 2, 3);
            fac_tensor *at = nd == 2 ? points(FAC_F64, FAC_INTS(2, 3, 2, 2)) : points(FAC_F64, FAC_INTS(1, 2, 2, 2, 3));
            fac_set_requires_grad(at, true);
            assert_ok(fac_gradcheck(call_grid, &g, FAC_TENSORS(x, at), 1, .check_forward_ad = true));
        }
}

/* Wherever the input lies. */
static void grid_sampler_s_gradients_do_not_depend_on_strides(void **state) {
    (void)state;
    for (int nd = 2; nd < 4; nd++) EACH_CASE(g) {
            FAC_SCOPE(s);
            fac_tensor *x = nd == 2 ? RANDOM(2, 3, 5, 7) : RANDOM(2, 3, 4, 1, 5), *gx[2], *ga[2];
            fac_tensor *at = nd == 2 ? points(FAC_F64, FAC_INTS(2, 3, 4, 2)) : points(FAC_F64, FAC_INTS(2, 3, 1, 2, 3));
            for (int strided = 0; strided < 2; strided++) {
                fac_tensor *a = fac_set_requires_grad(fac_detach(x), true),
                           *b = fac_set_requires_grad(fac_detach(at), true);
                fac_tensor *in = strided ? fac_transpose(fac_contiguous(fac_transpose(a, 1, -1)), 1, -1) : a;
                fac_tensor *y = sampled(&g, in, b);
                assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
                gx[strided] = fac_grad_of(a), ga[strided] = fac_grad_of(b);
            }
            assert_near(gx[1], gx[0], 1e-12);
            assert_near(ga[1], ga[0], 1e-12);
        }
}

static void grid_sampler_has_no_second_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    grid_case g = {BILINEAR, ZEROS, false};
    assert_int_not_equal(fac_gradgradcheck(call_grid, &g, FAC_TENSORS(LEAF(1, 1, 3, 3), LEAF(1, 2, 2, 2)), 1), FAC_OK);
    fac_error_clear();
}

/* Coordinates that are no numbers or far away show nothing, or the border; what lies beyond a plane does not count at all. */
static void grid_sampler_bears_any_coordinate(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double at[] = {NAN, 0, INFINITY, 0, -INFINITY, 0, 1e30, 1e30, -1e30, 5, 3, 0};
    fac_tensor *x = fac_full(FAC_INTS(1, 1, 2, 2), INFINITY, .dtype = FAC_F64);
    for (int dtype = 0; dtype < 2; dtype++) {
        fac_tensor *grid = fac_to_dtype(fac_tensor_from(at, FAC_F64, FAC_INTS(1, 1, 6, 2)), dtype ? FAC_F32 : FAC_F64);
        EACH_CASE(g) {
            fac_tensor *in = dtype ? fac_to_dtype(x, FAC_F32) : x;
            double *v = numbers(sampled(&g, in, grid));
            for (int i = 0; i < 6 && g.padding == ZEROS && g.mode != BICUBIC; i++) assert_true(v[i] == 0);
            free(v);
        }
    }
}

static void grid_sampler_is_the_same_on_any_number_of_threads(void **state) {
    (void)state;
    const int before = fac_num_threads();
    FAC_SCOPE(s);
    const grid_case g = {BILINEAR, BORDER, false};
    fac_tensor *x = random_of(FAC_F32, FAC_INTS(2, 24, 40, 40)), *at = points(FAC_F32, FAC_INTS(2, 70, 60, 2)), *y[2],
               *gx[2], *ga[2];
    for (int t = 0; t < 2; t++) {
        assert_ok(fac_set_num_threads(t ? 4 : 1));
        fac_tensor *a = fac_set_requires_grad(fac_detach(x), true), *b = fac_set_requires_grad(fac_detach(at), true);
        y[t] = sampled(&g, a, b);
        assert_ok(fac_backward(fac_sum(fac_mul(y[t], y[t]))));
        gx[t] = fac_grad_of(a), ga[t] = fac_grad_of(b);
    }
    assert_true(fac_equal(y[0], y[1]) && fac_equal(gx[0], gx[1]) && fac_equal(ga[0], ga[1]));
    assert_ok(fac_set_num_threads(before));
}

/* ---- affine maps ---------------------------------------------------------------------------------------------------------- */

/* The identity samples every element where it is. */
static void affine_grid_of_the_identity_changes_nothing(void **state) {
    (void)state;
    for (int align = 0; align < 2; align++) {
        FAC_SCOPE(s);
        const grid_case g = {BILINEAR, ZEROS, align};
        fac_tensor *x = RANDOM(2, 3, 4, 5), *y = RANDOM(1, 2, 3, 4, 5);
        fac_tensor *two =
            fac_repeat(fac_slice(fac_eye(3, .dtype = FAC_F64), 0, .start = 0, .end = 2), FAC_INTS(2, 1, 1));
        fac_tensor *three =
            fac_repeat(fac_slice(fac_eye(4, .dtype = FAC_F64), 0, .start = 0, .end = 3), FAC_INTS(1, 1, 1));
        assert_near(sampled(&g, x, fac_affine_grid_generator(two, FAC_INTS(2, 3, 4, 5), align)), x, 1e-13);
        assert_near(sampled(&g, y, fac_affine_grid_generator(three, FAC_INTS(1, 2, 3, 4, 5), align)), y, 1e-13);
        assert_null(fac_affine_grid_generator(two, FAC_INTS(2, 3, 4), align));
        assert_error(FAC_ERR_ARGUMENT, "4d (spatial) or 5d (volumetric)");
        assert_null(fac_affine_grid_generator(two, FAC_INTS(2, 3, 0, 4), align));
        assert_error(FAC_ERR_ARGUMENT, "Expected non-zero, positive output size");
        assert_null(fac_affine_grid_generator(three, FAC_INTS(2, 3, 4, 4), align));
        assert_error(FAC_ERR_SHAPE, "Expected a batch of affine matrices");
    }
}

static fac_status call_affine(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_affine_grid_generator(in.v[0], FAC_INTS(2, 1, 3, 4), false);
    return fac_error();
}

static void affine_grid_has_gradients_to_second_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *theta = LEAF(2, 2, 3);
    assert_ok(fac_gradcheck(call_affine, NULL, FAC_TENSORS(theta), 1));
    assert_ok(fac_gradgradcheck(call_affine, NULL, FAC_TENSORS(theta), 1));
}

static void grid_sampler_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(1, 2, 4, 4), *at = RANDOM(1, 3, 3, 2);
    assert_null(fac_grid_sampler(RANDOM(2, 4, 4), at, 0, 0, false));
    assert_error(FAC_ERR_SHAPE, "expected 4D or 5D input");
    assert_null(fac_grid_sampler(x, RANDOM(2, 3, 3, 2), 0, 0, false));
    assert_error(FAC_ERR_SHAPE, "same batch size");
    assert_null(fac_grid_sampler(x, RANDOM(1, 3, 3, 3), 0, 0, false));
    assert_error(FAC_ERR_SHAPE, "expected grid to have size 2 in last dimension");
    assert_null(fac_grid_sampler(RANDOM(1, 2, 0, 4), at, 0, 0, false));
    assert_error(FAC_ERR_SHAPE, "non-empty spatial dimensions");
    assert_null(fac_grid_sampler(x, at, 3, 0, false));
    assert_error(FAC_ERR_ARGUMENT, "interpolation_mode");
    assert_null(fac_grid_sampler(RANDOM(1, 2, 3, 4, 4), RANDOM(1, 2, 2, 2, 3), 3, 0, false));
    assert_error(FAC_ERR_ARGUMENT, "interpolation_mode");
    assert_null(fac_grid_sampler(x, at, 0, -1, false));
    assert_error(FAC_ERR_ARGUMENT, "padding_mode");
    assert_null(fac_grid_sampler(x, fac_to_dtype(at, FAC_F32), 0, 0, false));
    assert_error(FAC_ERR_DTYPE, "of one floating dtype");
    assert_sizes(fac_grid_sampler(RANDOM(0, 2, 4, 4), RANDOM(0, 3, 5, 2), 0, 0, false), 0, 2, 3, 5);
}

FAC_TEST_MAIN(FAC_TEST(grid_sampler_matches_its_definition), FAC_TEST(grid_sampler_has_gradients),
              FAC_TEST(grid_sampler_s_gradients_do_not_depend_on_strides),
              FAC_TEST(grid_sampler_has_no_second_gradient), FAC_TEST(grid_sampler_bears_any_coordinate),
              FAC_TEST(grid_sampler_is_the_same_on_any_number_of_threads),
              FAC_TEST(affine_grid_of_the_identity_changes_nothing),
              FAC_TEST(affine_grid_has_gradients_to_second_order), FAC_TEST(grid_sampler_refuses_bad_arguments))
