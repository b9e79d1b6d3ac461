/* Distances: closed forms, gradients of any order, and what is refused. */
#include "grad_cases.h"

#define CASES(X)                                                                                          \
    X(dist, 1, "2,3;2,3", -1, 1, out[0] = fac_dist(x[0], x[1]))                                           \
    X(pairwise, 1, "2,3;2,3", -1, 1, out[0] = fac_pairwise_distance(x[0], x[1]))                          \
    X(cdist, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1]))                                         \
    X(cdist_15, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1], .p = 1.5))                            \
    X(pdist, 1, "4,3", -1, 1, out[0] = fac_pdist(x[0]))                                                   \
    X(triplet, 1, "2,3;2,3;2,3", -1, 1, out[0] = fac_triplet_margin_loss(x[0], x[1], x[2], .swap = true)) \
    X(renorm, 1, "3,4", -1, 1, out[0] = fac_renorm(x[0], FAC_SCALAR(2), 0, FAC_SCALAR(0.9)))              \
    X(nanmean, 1, "3,4", -1, 1, out[0] = fac_nanmean(x[0], .dim = 1))                                     \
    X(sum_to_size, 1, "2,3,4", -1, 1, out[0] = fac_sum_to_size(x[0], FAC_INTS(3, 1)))

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void distance_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
}
static void distance_second_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

static void values_are(fac_tensor *t, const double *want, size_t n) {
    double got[16];
    assert_no_error();
    assert_non_null(t);
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_near(got[i], want[i], 1e-5);
}

static void distances_have_their_closed_forms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from((const float[]){0, 0, 3, 4, 0, 1}, FAC_F32, FAC_INTS(3, 2));
    values_are(fac_pdist(x), (const double[]){5, 1, sqrt(18)}, 3);
    values_are(fac_cdist(fac_narrow(x, 0, 0, 1), x), (const double[]){0, 5, 1}, 3);
    values_are(fac_cdist(fac_narrow(x, 0, 0, 1), x, .p = INFINITY), (const double[]){0, 4, 1}, 3);
    values_are(fac_renorm(x, FAC_SCALAR(2), 0, FAC_SCALAR(2.5)), (const double[]){0, 0, 1.5, 2, 0, 1}, 6);
    values_are(fac_nanmean(fac_tensor_of(1, NAN, 3)), (const double[]){2}, 1);
    values_are(fac_sum_to_size(x, FAC_INTS(2)), (const double[]){3, 5}, 2);
}

/* A distance of zero has no direction; its gradient is zero, not NaN. */
static void gradient_of_a_zero_distance_is_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_SHAPE(2, 3)), true);
    assert_ok(fac_backward(fac_sum(fac_cdist(x, x))));
    values_are(fac_grad_of(x), (const double[]){0, 0, 0, 0, 0, 0}, 6);
}

/* The gradient of cdist, of sizes on both sides of every block, against those of norms of differences; the weights of the
   distances lie by rows, by columns, in steps, or are one number. */
static fac_tensor *weights_of(int how, int64_t n, int64_t m, fac_dtype d) {
    if (how == 1) return fac_t(fac_randn(FAC_SHAPE(m, n), .dtype = d));
    if (how == 2) return fac_slice(fac_randn(FAC_SHAPE(n, 2 * m), .dtype = d), 1, .step = 2);
    return how == 3 ? fac_expand(fac_full(FAC_SHAPE(1), 0.5, .dtype = d), FAC_INTS(n, m))
                    : fac_randn(FAC_SHAPE(n, m), .dtype = d);
}

static void check_gradients(fac_dtype d, double p, int how) {
    FAC_SCOPE(s);
    enum { N = 37, M = 131, DEPTH = 41 };
    fac_tensor *x = fac_randn(FAC_SHAPE(N, DEPTH), .dtype = d), *y = fac_randn(FAC_SHAPE(M, DEPTH), .dtype = d);
    fac_tensor *a = fac_to_dtype(x, FAC_F64), *b = fac_to_dtype(y, FAC_F64), *w = weights_of(how, N, M, d);
    for (int i = 0; i < 4; i++) assert_non_null(fac_set_requires_grad((fac_tensor *[]){x, y, a, b}[i], true));
    fac_tensor *apart = fac_sub(fac_unsqueeze(a, 1), fac_unsqueeze(b, 0));
    assert_ok(fac_backward(fac_cdist(x, y, .p = p), .gradient = w));
    assert_ok(fac_backward(fac_linalg_vector_norm(apart, .ord = p, .dim = -1), .gradient = fac_to_dtype(w, FAC_F64)));
    const double tol = d == FAC_F64 ? 1e-11 : d == FAC_F32 ? 1e-4 : 1e-1;
    assert_true(fac_allclose(fac_to_dtype(fac_grad_of(x), FAC_F64), fac_grad_of(a), .rtol = tol, .atol = tol));
    assert_true(fac_allclose(fac_to_dtype(fac_grad_of(y), FAC_F64), fac_grad_of(b), .rtol = tol, .atol = tol));
}

static void gradients_agree_with_norms_of_differences_across_blocks(void **state) {
    (void)state;
    static const double powers[] = {1, 2, 3, INFINITY};
    static const fac_dtype dtypes[] = {FAC_BF16, FAC_F32, FAC_F64};
    fac_manual_seed(7);
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t p = 0; p < FAC_COUNT(powers) - (dtypes[d] == FAC_BF16); p++) /* the largest is rounded in bf16 */
            for (int how = 0; how < 4; how++) check_gradients(dtypes[d], powers[p], how);
}

/* Pairs of rows weigh what they do in the gradient of cdist with itself, whichever of the two is first. */
static void pdist_gradients_agree_with_cdist_across_blocks(void **state) {
    (void)state;
    static const int64_t rows[] = {2, 15, 64, 65, 150};
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64};
    for (size_t i = 0; i < FAC_COUNT(rows) * FAC_COUNT(dtypes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(FAC_SHAPE(rows[i / 2], 9), .dtype = dtypes[i % 2]), *y = fac_clone(x);
        fac_set_requires_grad(x, true), fac_set_requires_grad(y, true);
        fac_tensor *pairs = fac_pdist(x), *all = fac_cdist(y, fac_detach(y));
        assert_ok(fac_backward(pairs, .gradient = fac_detach(pairs)));
        assert_ok(fac_backward(all, .gradient = fac_detach(all)));
        assert_true(fac_allclose(fac_grad_of(x), fac_grad_of(y), .rtol = 1e-4, .atol = 1e-4));
    }
}

/* An infinite gradient flows to the coordinate that is the distance only; a coordinate that is no number gives nothing. */
static void gradients_of_the_largest_difference_stay_where_it_is(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_from((const float[]){1, 5, -2}, FAC_F32, FAC_INTS(1, 3)), true);
    fac_tensor *w = fac_full(FAC_SHAPE(1, 1), INFINITY);
    assert_ok(fac_backward(fac_cdist(x, fac_zeros(FAC_SHAPE(1, 3)), .p = INFINITY), .gradient = w));
    double g[3];
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F64, g, 3));
    assert_true(g[0] == 0 && isinf(g[1]) && g[2] == 0);
}

/* Few points of many coordinates meet in vectors along these. */
static void check_lines(fac_dtype d, double p, int64_t n, int64_t m, int64_t depth) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, n, depth), .dtype = d), *y = fac_randn(FAC_SHAPE(m, depth), .dtype = d);
    fac_tensor *a = fac_to_dtype(x, FAC_F64), *b = fac_to_dtype(y, FAC_F64);
    fac_tensor *want = fac_linalg_vector_norm(fac_sub(fac_unsqueeze(a, 2), fac_unsqueeze(b, 0)), .ord = p, .dim = -1);
    fac_tensor *got = fac_to_dtype(fac_cdist(x, y, .p = p), FAC_F64);
    assert_true(fac_allclose(got, want, .rtol = 1e-5, .atol = 0));
    fac_tensor *own = fac_cdist(y, y, .p = p), *pairs = fac_triu_indices(m, m, .offset = 1);
    own = fac_gather(fac_index_select(own, 0, fac_select(pairs, 0, 0)), 1, fac_unsqueeze(fac_select(pairs, 0, 1), 1));
    assert_true(fac_allclose(fac_pdist(y, .p = p), fac_squeeze_dim(own, 1), .rtol = 1e-5, .atol = 0));
    assert_no_error();
    assert_ok(fac_fill_(fac_narrow(fac_select(y, 0, 0), 0, depth - 2, 1), FAC_SCALAR(NAN)) ? FAC_OK : FAC_ERR_ARGUMENT);
    assert_true(isnan(fac_item(fac_select(fac_pdist(y, .p = p), 0, 0))));
}

static void few_points_of_many_coordinates_have_their_distances(void **state) {
    (void)state;
    static const double powers[] = {0, 1, 2, INFINITY};
    static const int64_t sizes[][3] = {{1, 9, 128}, {3, 40, 300}, {50, 2, 135}, {5, 8, 4099}};
    for (size_t i = 0; i < FAC_COUNT(sizes) * FAC_COUNT(powers); i++) {
        const int64_t *n = sizes[i / FAC_COUNT(powers)];
        check_lines(FAC_F32, powers[i % FAC_COUNT(powers)], n[0], n[1], n[2]);
        check_lines(FAC_F64, powers[i % FAC_COUNT(powers)], n[0], n[1], n[2]);
    }
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(2, 3));
    assert_null(fac_cdist(x, fac_zeros(FAC_SHAPE(2, 4))));
    assert_error(FAC_ERR_SHAPE, "X1 and X2 must have the same number of columns. X1: 3 X2: 4");
    assert_null(fac_cdist(x, x, .p = -1));
    assert_error(FAC_ERR_ARGUMENT, "cdist only supports non-negative p values");
    assert_null(fac_pdist(fac_zeros(FAC_SHAPE(3))));
    assert_error(FAC_ERR_SHAPE, "pdist only supports 2D tensors, got: 1D");
    assert_null(fac_sum_to_size(x, FAC_INTS(2, 2)));
    assert_error(FAC_ERR_SHAPE, "is not expandable to size");
}

static void points_without_coordinates_are_at_distance_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double zeros[6] = {0};
    for (int i = 0; i < 4; i++) {
        const double p = (const double[]){0, 1, 2, INFINITY}[i];
        values_are(fac_cdist(fac_zeros(FAC_SHAPE(2, 0)), fac_zeros(FAC_SHAPE(3, 0)), .p = p), zeros, 6);
        values_are(fac_pdist(fac_zeros(FAC_SHAPE(3, 0)), .p = p), zeros, 3);
    }
}

static void renorm_leaves_a_row_whose_norm_is_not_a_number(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from((const double[]){1, NAN, 3, 4}, FAC_F64, FAC_INTS(2, 2));
    fac_tensor *y = fac_renorm(x, FAC_SCALAR(2), 0, FAC_SCALAR(1));
    assert_true(fac_item(fac_select(fac_select(y, 0, 0), 0, 0)) == 1);
    assert_true(fabs(fac_item(fac_select(fac_select(y, 0, 1), 0, 1)) - 0.8) < 1e-6);
}

FAC_TEST_MAIN(FAC_TEST(points_without_coordinates_are_at_distance_zero),
              FAC_TEST(renorm_leaves_a_row_whose_norm_is_not_a_number),
              FAC_TEST(distance_gradients_agree_with_differences),
              FAC_TEST(distance_second_gradients_agree_with_differences), FAC_TEST(distances_have_their_closed_forms),
              FAC_TEST(gradient_of_a_zero_distance_is_zero),
              FAC_TEST(gradients_agree_with_norms_of_differences_across_blocks),
              FAC_TEST(pdist_gradients_agree_with_cdist_across_blocks),
              FAC_TEST(gradients_of_the_largest_difference_stay_where_it_is),
              FAC_TEST(few_points_of_many_coordinates_have_their_distances),
              FAC_TEST(shapes_that_do_not_fit_are_refused))
