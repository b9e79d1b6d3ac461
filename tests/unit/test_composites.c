/* Operators made of others: derivatives against differences, values by hand where a part alone would go wrong. */
#include "grad_cases.h"

/* clang-format off */
#define CASES(X) \
    X(selu, 1, "2,3", -1, 1, out[0] = fac_selu(x[0])) \
    X(celu, 1, "2,3", -1, 1, out[0] = fac_celu(x[0])) \
    X(glu, 1, "2,4", -1, 1, out[0] = fac_glu(x[0])) \
    X(frac, 1, "2,3", -2, 2, out[0] = fac_frac(x[0])) \
    X(softshrink, 1, "2,3", -1, 1, out[0] = fac_softshrink(x[0])) \
    X(hardshrink, 1, "2,3", -1, 1, out[0] = fac_hardshrink(x[0])) \
    X(logaddexp, 1, "2,3;3", -1, 1, out[0] = fac_logaddexp(x[0], x[1])) \
    X(logaddexp2, 1, "2,3;3", -1, 1, out[0] = fac_logaddexp2(x[0], x[1])) \
    X(hypot, 1, "2,3;3", 0.5, 1, out[0] = fac_hypot(x[0], x[1])) \
    X(logit, 1, "2,3", 0.2, 0.8, out[0] = fac_logit(x[0])) \
    X(fmax, 1, "2,3;2,3", -1, 1, out[0] = fac_fmax(x[0], x[1])) \
    X(pixel_shuffle, 1, "8,1,2", -1, 1, out[0] = fac_pixel_shuffle(x[0], 2)) \
    X(diff, 1, "2,4", -1, 1, out[0] = fac_diff(x[0], .n = 2)) \
    X(trapezoid, 1, "2,4", -1, 1, out[0] = fac_trapezoid_dx(x[0], .dx = 0.5)) \
    X(cross, 1, "2,3;2,3", -1, 1, out[0] = fac_linalg_cross(x[0], x[1])) \
    X(cosine, 1, "1,2,3;2,1,3", 0.5, 1, out[0] = fac_cosine_similarity(x[0], x[1], .dim = -2))
/* clang-format on */

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void composite_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, sizeof cases / sizeof *cases, false);
}

/* glu's gradient is an operator that has one, and the gradient of that is made of glu_jvp. */
#define TWICE(X)                                          \
    X(glu_twice, 1, "2,4", -1, 1, out[0] = fac_glu(x[0])) \
    X(glu_of_rows_twice, 1, "4,3", -1, 1, out[0] = fac_glu(x[0], .dim = 0))
TWICE(GRAD_FN)
static void glu_differentiates_twice_along_any_dimension(void **state) {
    (void)state;
    static const grad_case twice[] = {TWICE(GRAD_ROW)};
    grad_run(twice, sizeof twice / sizeof *twice, true);
}

static fac_tensor *glu_backward(fac_tensor *grad, fac_tensor *x) {
    fac_value args[] = {fac_value_tensor(grad), fac_value_tensor(x), fac_value_int(1)}, made = fac_value_none();
    const fac_status st = fac_call("aten::glu_backward", args, FAC_COUNT(args), &made);
    for (size_t i = 0; i < FAC_COUNT(args); i++) fac_value_release(&args[i]);
    return st || fac_scope_take(&made, 1) ? NULL : fac_value_as_tensor(made);
}

/* A gradient broadcasts to glu's sizes, and its own is summed to those it has. */
static void glu_takes_gradients_that_broadcast(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(3, 4)), *of[] = {fac_randn(FAC_SHAPE()), fac_randn(FAC_SHAPE(2)),
                                                         fac_randn(FAC_SHAPE(3, 1)), fac_randn(FAC_SHAPE(1, 2))};
    for (size_t i = 0; i < FAC_COUNT(of); i++) {
        fac_tensor *small = fac_set_requires_grad(fac_clone(of[i]), true),
                   *full = fac_set_requires_grad(fac_contiguous(fac_expand(of[i], FAC_INTS(3, 2))), true);
        fac_tensor *got = glu_backward(small, x), *want = glu_backward(full, x);
        assert_true(fac_equal(got, want));
        assert_ok(fac_backward(fac_sum(got)));
        assert_ok(fac_backward(fac_sum(want)));
        fac_tensor *summed = fac_sum_to_size(fac_grad_of(full), fac_tensor_sizes(small));
        assert_true(fac_allclose(fac_grad_of(small), summed));
    }
    assert_null(glu_backward(fac_ones(FAC_SHAPE(5, 3, 2)), x));
    assert_error(FAC_ERR_SHAPE, "grad_output of size [5, 3, 2] does not broadcast to glu's size [3, 2]");
    assert_null(glu_backward(fac_ones(FAC_SHAPE(2, 2)), x));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(glu_backward(fac_ones(FAC_SHAPE(1, 3, 2)), x));
    assert_error(FAC_ERR_SHAPE, "");
}

/* Its result lies as its halves do. */
static void glu_keeps_the_order_of_dimensions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 6, 4, 5)), *last = fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST);
    fac_tensor *y = fac_glu(last, .dim = 1), *turned = fac_glu(fac_permute(x, FAC_INTS(3, 1, 0, 2)), .dim = 1);
    assert_true(fac_tensor_is_contiguous_as(y, FAC_CHANNELS_LAST));
    assert_true(fac_equal(y, fac_glu(x, .dim = 1)));
    assert_true(fac_tensor_is_contiguous(fac_permute(turned, FAC_INTS(2, 1, 3, 0))));
    assert_true(fac_tensor_is_contiguous(fac_glu(fac_expand(fac_select(x, 0, 0), FAC_SHAPE(3, 6, 4, 5)), .dim = 1)));
    assert_true(fac_tensor_is_contiguous(fac_glu(fac_zeros(FAC_SHAPE(0, 6)))));
}

static void values_are(fac_tensor *t, const float *want, size_t n) {
    float got[16];
    assert_non_null(t);
    assert_int_equal(fac_tensor_numel(t), n);
    assert_ok(fac_tensor_read(t, FAC_F32, got, n));
    for (size_t i = 0; i < n; i++) assert_near(got[i], want[i], 1e-5);
}

/* Sizes are made equal before norms are taken: along a dimension where one of the two has size 1. */
static void cosine_similarity_of_broadcast_vectors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_reshape(fac_tensor_of(1, 2), FAC_INTS(1, 2)),
               *b = fac_reshape(fac_tensor_of(3, 4, 3, 4), FAC_INTS(2, 2));
    values_are(fac_cosine_similarity(a, b, .dim = 0), (const float[]){1, 1}, 2);
}

/* d prod / d src_i is the product of the others, also where src_i is the only zero. */
static void scattered_product_gradient_with_a_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *src = fac_set_requires_grad(fac_tensor_of(0, 3, 5), true), *self = fac_tensor_of(2, 7);
    fac_tensor *index = fac_tensor_from((const int64_t[]){0, 0, 1}, FAC_I64, FAC_INTS(3));
    assert_ok(fac_backward(fac_sum(fac_scatter_reduce(self, 0, index, src, "prod"))));
    values_are(fac_grad_of(src), (const float[]){6, 0, 7}, 3);
}

static void gather_with_an_empty_index_of_any_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *got = fac_gather(fac_tensor_of(1, 2), 0, fac_tensor_from(NULL, FAC_U8, FAC_INTS(0)));
    assert_no_error();
    assert_int_equal(fac_tensor_numel(got), 0);
}

static void infinities_add_as_logarithms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *inf = fac_tensor_of(INFINITY, -INFINITY);
    fac_tensor *sum = fac_logaddexp(inf, inf);
    assert_true(isinf(fac_item(fac_select(sum, 0, 0))) && isinf(fac_item(fac_select(sum, 0, 1))));
    assert_true(fac_item(fac_select(sum, 0, 1)) < 0);
}

/* Equal operands share the slope, and its derivative there is 1/4, not 0. */
static void logarithms_of_equal_operands_have_two_derivatives(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(2, 2, INFINITY), *b = fac_tensor_of(2, 3, INFINITY), *g[2] = {0}, *second[2] = {0};
    fac_set_requires_grad(a, true);
    fac_set_requires_grad(b, true);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_logaddexp(a, b))), FAC_TENSORS(a, b), g, .create_graph = true));
    values_are(fac_detach(g[0]), (const float[]){0.5f, 0.26894142f, 0.5f}, 3);
    values_are(fac_detach(g[1]), (const float[]){0.5f, 0.73105858f, 0.5f}, 3);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(g[0])), FAC_TENSORS(a, b), second));
    values_are(second[0], (const float[]){0.25f, 0.19661193f, 0.25f}, 3);
    values_are(second[1], (const float[]){-0.25f, -0.19661193f, -0.25f}, 3);
}

/* A number beside a tensor, on either side of it, at every length of the last vector. */
static void a_number_beside_a_tensor(void **state) {
    (void)state;
    for (int64_t n = 1; n < 70; n += 3) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_slice(fac_arange(2 * n, .dtype = FAC_F32), 0, .step = 2);
        fac_tensor *all[] = {fac_sub(x, 3), fac_rsub(x, 3), fac_mul(x, 3), fac_div(fac_add(x, 1), 4)};
        const double slope[] = {1, -1, 3, 0.25}, shift[] = {-3, 3, 0, 0.25};
        for (int i = 0; i < 4; i++)
            for (int64_t k = 0; k < n; k++)
                assert_true(fac_item(fac_select(all[i], 0, k)) == slope[i] * (double)(2 * k) + shift[i]);
    }
}

static fac_tensor *combined(int how, fac_tensor *a, fac_tensor *b) {
    switch (how) {
    case 0: return fac_add(a, b);
    case 1: return fac_sub(a, b);
    case 2: return fac_mul(a, b);
    case 3: return fac_div(a, b);
    case 4: return fac_maximum(a, b);
    default: return fac_minimum(a, b);
    }
}

/* One value beside a row, on either side of it, gives what as many equal ones give, to the bit, whatever is left of a vector. */
static void a_value_beside_a_row(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16, FAC_F16};
    for (int i = 0; i < 4; i++)
        for (int64_t n = 32; n < 90; n += 5) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_reshape(fac_linspace(-2, 3, 7 * n), FAC_INTS(7, n)), dtypes[i]);
            fac_tensor *one =
                fac_to_dtype(fac_reshape(fac_tensor_of(1, -3, 0.125f, INFINITY, NAN, 5, 7), FAC_INTS(7, 1)), dtypes[i]);
            fac_tensor *all = fac_clone(fac_expand(one, FAC_INTS(7, n)), .memory_format = FAC_CONTIGUOUS);
            fac_tensor *low = fac_full_like(x, -1), *high = fac_full_like(x, 0.5);
            assert_true(fac_equal(fac_clamp(x, .min = -1, .max = 0.5), fac_clamp_tensor(x, .min = low, .max = high)));
            for (int k = 0; k < 6; k++) {
                fac_tensor *got[] = {combined(k, x, one), combined(k, one, x)},
                           *want[] = {combined(k, x, all), combined(k, all, x)};
                assert_no_error();
                for (int side = 0; side < 2; side++)
                    assert_memory_equal(fac_tensor_data(got[side]), fac_tensor_data(want[side]),
                                        (size_t)(7 * n) * fac_dtype_size(dtypes[i]));
            }
        }
}

/* A power that many elements share gives what as many equal ones give, to the bit. */
static void ldexp_of_a_power_that_elements_share(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16, FAC_F16};
    for (int i = 0; i < 4; i++)
        for (int64_t of = 0; of < 3; of++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_reshape(fac_linspace(-2, 3, 100 * 100), FAC_INTS(100, 100)), dtypes[i]);
            fac_tensor *power = fac_to_dtype(fac_linspace(-320, 300.5, 100), dtypes[i]);
            if (of == 1) power = fac_unsqueeze(power, 1);
            if (of == 2) power = fac_select(power, 0, 52);
            fac_tensor *all = fac_clone(fac_expand(power, FAC_INTS(100, 100)));
            fac_tensor *got = fac_ldexp_tensor(x, power), *want = fac_ldexp_tensor(x, all);
            assert_no_error();
            assert_true(fac_tensor_dtype(got) == dtypes[i] && fac_equal(got, want));
        }
}

/* A row that is masked out as a whole is zero, and its gradient too, where softmax's own would be NaN. */
static void safe_softmax_has_a_gradient_where_all_is_masked(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_reshape(fac_tensor_of(-INFINITY, -INFINITY, 0, 0), FAC_INTS(2, 2)), *y, *grad = NULL;
    fac_set_requires_grad(x, true);
    fac_value args[] = {fac_value_tensor(x), fac_value_int(1), fac_value_none()}, result = {0};
    assert_ok(fac_call("aten::_safe_softmax", args, 3, &result));
    y = fac_value_as_tensor(result);
    values_are(fac_detach(y), (const float[]){0, 0, 0.5f, 0.5f}, 4);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_select(y, 1, 0))), FAC_TENSORS(x), &grad));
    values_are(grad, (const float[]){0, 0, 0.25f, -0.25f}, 4);
    fac_value_release(&result);
    fac_value_release(&args[0]);
}

static void unique_rows_in_order_with_places_and_counts(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_reshape(fac_tensor_of(2, 1, 0, 9, 2, 1, 0, 3), FAC_INTS(4, 2));
    fac_unique_dim_result r = fac_unique_dim(t, 0);
    values_are(r.output, (const float[]){0, 3, 0, 9, 2, 1}, 6);
    values_are(r.inverse, (const float[]){2, 1, 2, 0}, 4);
    values_are(r.counts, (const float[]){1, 1, 2}, 3);
}

static void unique_consecutive_slices_are_neighbours(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_reshape(fac_tensor_of(1, 1, 2, 1, 5, 5, 6, 5), FAC_INTS(2, 4));
    fac_unique_consecutive_result r = fac_unique_consecutive(t, .dim = 1);
    values_are(r.output, (const float[]){1, 2, 1, 5, 6, 5}, 6);
    values_are(r.inverse, (const float[]){0, 0, 1, 2}, 4);
    values_are(r.counts, (const float[]){2, 1, 1}, 3);
}

/* Products and differences wrap in the dtype of the vectors. */
static void cross_of_integers_wraps(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const uint8_t a[] = {1, 2, 3, 200, 100, 50}, b[] = {4, 5, 6, 7, 9, 11};
    fac_tensor *x = fac_tensor_from(a, FAC_U8, FAC_INTS(2, 3)), *y = fac_tensor_from(b, FAC_U8, FAC_INTS(2, 3));
    double got[6];
    assert_ok(fac_tensor_read(fac_linalg_cross(x, y), FAC_F64, got, 6));
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 3; k++) {
            const int i = 3 * r + (k + 1) % 3, j = 3 * r + (k + 2) % 3;
            assert_int_equal((int64_t)got[3 * r + k], (uint8_t)(a[i] * b[j] - a[j] * b[i]));
        }
}

FAC_TEST_MAIN(FAC_TEST(cross_of_integers_wraps), FAC_TEST(composite_gradients_agree_with_differences),
              FAC_TEST(glu_differentiates_twice_along_any_dimension), FAC_TEST(glu_takes_gradients_that_broadcast),
              FAC_TEST(glu_keeps_the_order_of_dimensions), FAC_TEST(cosine_similarity_of_broadcast_vectors),
              FAC_TEST(scattered_product_gradient_with_a_zero), FAC_TEST(gather_with_an_empty_index_of_any_dtype),
              FAC_TEST(infinities_add_as_logarithms), FAC_TEST(logarithms_of_equal_operands_have_two_derivatives),
              FAC_TEST(a_number_beside_a_tensor), FAC_TEST(a_value_beside_a_row),
              FAC_TEST(ldexp_of_a_power_that_elements_share), FAC_TEST(safe_softmax_has_a_gradient_where_all_is_masked),
              FAC_TEST(unique_rows_in_order_with_places_and_counts), FAC_TEST(unique_consecutive_slices_are_neighbours))
