/* Statistics and selection: values against closed forms, what is refused, NaN and nothing, gaps in outputs, threads, gradients. */
#include "difference_cases.h"
#include "grad_cases.h"

static fac_tensor *matrix(const double *v, int64_t rows, int64_t columns) {
    return fac_tensor_from(v, FAC_F64, FAC_INTS(rows, columns));
}

/* ---- truth and membership ---- */

static void any_and_all_reduce_the_dimensions_that_are_given(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix((const double[]){0, 1, 0, 0, 2, 0}, 2, 3);
    assert_values(fac_any_dims(x, .dim = FAC_INTS(0)), 0, 1, 0);
    assert_values(fac_all_dims(x, .dim = FAC_INTS(0)), 0, 1, 0);
    assert_values(fac_any_dims(x), 1);
    assert_values(fac_any_dims(x, .dim = FAC_INTS()), 0, 1, 0, 0, 1, 0);
    assert_int_equal(fac_tensor_ndim(fac_any_dims(x, .keepdim = true)), 2);
    assert_int_equal(fac_tensor_dtype(fac_any_dims(fac_to_dtype(x, FAC_U8), .dim = FAC_INTS(0, 1))), FAC_U8);
    assert_values(fac_all_dims(fac_zeros(FAC_SHAPE(2, 0)), .dim = FAC_INTS(1)), 1, 1);
    assert_values(fac_any_dims(fac_zeros(FAC_SHAPE(2, 0)), .dim = FAC_INTS(1)), 0, 0);
    assert_null(fac_any_dims(x, .dim = FAC_INTS(0, 0)));
    assert_error(FAC_ERR_ARGUMENT, "dim");
}

/* Every way that a set of keys is kept, against comparing with each. */
static void check_membership(fac_tensor *elements, fac_tensor *test) {
    FAC_SCOPE(s);
    fac_tensor *flat = fac_reshape(elements, FAC_SHAPE(-1, 1));
    fac_tensor *want = fac_any_dim(fac_eq(flat, fac_reshape(test, FAC_SHAPE(1, -1))), 1);
    fac_tensor *got = fac_isin(elements, test);
    assert_true(fac_equal(fac_reshape(got, FAC_SHAPE(-1)), want));
    assert_true(fac_equal(fac_logical_not(got), fac_isin(elements, test, .invert = true)));
    assert_no_error();
}

static void membership_agrees_with_comparing_each(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_U8,  FAC_I8,   FAC_I16, FAC_I32,
                                       FAC_I64,  FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        FAC_SCOPE(s);
        fac_tensor *few = fac_randint_low(-200, 200, FAC_SHAPE(40, 30)), *spread = fac_mul(few, 1000003.0);
        fac_tensor *x = fac_to_dtype(few, dtypes[i]), *wide = fac_to_dtype(spread, dtypes[i]);
        check_membership(fac_t(x), fac_slice(fac_select(x, 0, 0), 0, .end = 7));
        check_membership(wide, fac_select(wide, 0, 1));
        check_membership(x, fac_slice(fac_select(x, 0, 0), 0, .end = 0));
    }
    FAC_SCOPE(s);
    fac_tensor *ends = fac_tensor_from((const int64_t[]){INT64_MIN, -1, 0, INT64_MAX}, FAC_I64, FAC_INTS(4));
    check_membership(ends, fac_slice(ends, 0, .start = 3));
    check_membership(ends, fac_slice(ends, 0, .end = 1));
    check_membership(ends, ends);
}

static void membership_of_nan_zeros_and_mixed_dtypes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(NAN, 0.0, -0.0, INFINITY, 2);
    assert_values(fac_isin(x, fac_tensor_of(NAN, -0.0, INFINITY)), 0, 1, 1, 1, 0);
    assert_values(fac_isin(fac_tensor_from((const int64_t[]){1, 2}, FAC_I64, FAC_INTS(2)), fac_tensor_of(1.5, 2)), 0,
                  1);
    assert_values(fac_isin_scalar(x, FAC_SCALAR(2), .invert = true), 1, 1, 1, 1, 0);
    assert_values(fac_isin_of_scalar(FAC_SCALAR(2), x), 1);
    fac_tensor *gaps = fac_slice(fac_full(FAC_SHAPE(10), 1, .dtype = FAC_BOOL), 0, .step = 2);
    assert_non_null(fac_isin_out(gaps, x, fac_tensor_of(2)));
    assert_values(gaps, 0, 0, 0, 0, 1);
    assert_null(fac_isin(x, fac_zeros(FAC_SHAPE(1), .dtype = FAC_C64)));
    assert_error(FAC_ERR_DTYPE, "Unsupported input type encountered for isin(): complex64");
}

/* ---- bins ---- */

static void bincount_counts_and_adds_weights(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from((const int32_t[]){3, 0, 3, 1}, FAC_I32, FAC_INTS(4));
    assert_values(fac_bincount(x), 1, 1, 0, 2);
    assert_values(fac_bincount(x, .minlength = 6), 1, 1, 0, 2, 0, 0);
    fac_tensor *w = fac_bincount(x, .weights = fac_tensor_of(0.5, 1, 2, 4));
    assert_values(w, 1, 4, 0, 2.5);
    assert_int_equal(fac_tensor_dtype(w), FAC_F32);
    assert_int_equal(fac_tensor_dtype(fac_bincount(x, .weights = fac_to_dtype(x, FAC_F16))), FAC_F64);
    assert_int_equal(fac_tensor_numel(fac_bincount(fac_zeros(FAC_SHAPE(0), .dtype = FAC_I64))), 0);
    assert_null(fac_bincount(fac_neg(x)));
    assert_error(FAC_ERR_ARGUMENT, "non-negative integral inputs, but one is -3");
    assert_null(fac_bincount(x, .weights = fac_tensor_of(1, 2)));
    assert_error(FAC_ERR_SHAPE, "weights should be 1-d and have the same length as input");
    assert_null(fac_bincount(fac_tensor_of(1, 2)));
    assert_error(FAC_ERR_DTYPE, "got float32");
    assert_null(fac_bincount(x, .minlength = -1));
    assert_error(FAC_ERR_ARGUMENT, "minlength should be >= 0");
}

static void bincount_of_many_agrees_with_scatter(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randint(1000, FAC_SHAPE(300000)), *w = fac_rand(FAC_SHAPE(300000), .dtype = FAC_F64);
    fac_tensor *ones = fac_ones(FAC_SHAPE(300000), .dtype = FAC_I64);
    fac_tensor *want = fac_scatter_add(fac_zeros(FAC_SHAPE(1000), .dtype = FAC_I64), 0, x, ones);
    assert_true(fac_equal(fac_bincount(x, .minlength = 1000), want));
    fac_tensor *sums = fac_scatter_add(fac_zeros(FAC_SHAPE(1000), .dtype = FAC_F64), 0, x, w);
    assert_true(fac_allclose(fac_bincount(x, .weights = w, .minlength = 1000), sums, .rtol = 1e-12));
}

static void histograms_have_their_closed_forms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(0, 1, 2, 3, NAN, 4, 9);
    assert_values(fac_histc(x, .bins = 4, .min = 0, .max = 4), 1, 1, 1, 2);
    assert_values(fac_histc(fac_tensor_of(1, 1, 1), .bins = 2), 0, 3);
    assert_values(fac_histc(fac_zeros(FAC_SHAPE(0)), .bins = 2), 0, 0);
    fac_histogram_result h = fac_histogram(fac_tensor_of(0, 1, 3), .bins = 2, .weight = fac_tensor_of(1, 2, 4));
    assert_values(h.hist, 3, 4);
    assert_values(h.bin_edges, 0, 1.5, 3);
    h = fac_histogram(fac_to_dtype(fac_tensor_of(0, 1, 3), FAC_F64), .bins = 2, .range = FAC_FLOATS(0, 4),
                      .density = true);
    assert_values(h.hist, 2.0 / 6, 1.0 / 6);
    h = fac_histogram(fac_tensor_of(3), .bins = 2);
    assert_values(h.hist, 0, 1);
    assert_values(h.bin_edges, 2.5, 3, 3.5);
    fac_histogram_bins_result b = fac_histogram_bins(fac_tensor_of(0, 0.5, 1, 2, 7), fac_tensor_of(0, 1, 2));
    assert_values(b.hist, 2, 2);
    assert_values(b.bin_edges, 0, 1, 2);
}

/* Numbers at the edges of many bins, where a division alone puts some one bin aside. */
static void histogram_agrees_with_its_own_edges(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_linspace(0, 1, 1001), *edges, *want;
    fac_histogram_result h = fac_histogram(x, .bins = 100);
    edges = h.bin_edges;
    want = fac_clamp_max(fac_sub(fac_searchsorted(edges, x, .right = true), 1), FAC_SCALAR(99));
    assert_true(fac_equal(fac_to_dtype(h.hist, FAC_I64), fac_bincount(want, .minlength = 100)));
    assert_true(fac_equal(fac_histogram_bins(x, edges).hist, h.hist));
}

static void histograms_refuse_what_does_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(0, 1);
    assert_null(fac_histc(x, .bins = 0));
    assert_error(FAC_ERR_ARGUMENT, "bins must be > 0, but got 0");
    assert_null(fac_histc(x, .min = 2, .max = 1));
    assert_error(FAC_ERR_ARGUMENT, "max must be larger than min");
    assert_null(fac_histc(fac_tensor_of(NAN)));
    assert_error(FAC_ERR_ARGUMENT, "is not finite");
    assert_null(fac_histc(fac_ones(FAC_SHAPE(2), .dtype = FAC_I64)));
    assert_error(FAC_ERR_DTYPE, "must be of a floating type");
    assert_null(fac_histogram(x, .range = FAC_FLOATS(2, 1)).hist);
    assert_error(FAC_ERR_ARGUMENT, "min should not exceed max, but got min 2 max 1");
    assert_null(fac_histogram(x, .weight = fac_tensor_of(1)).hist);
    assert_error(FAC_ERR_SHAPE, "one element for each of self's");
    assert_null(fac_histogram_bins(x, fac_tensor_of(1)).hist);
    assert_error(FAC_ERR_ARGUMENT, "bins must be > 0, but got 0");
}

static void counts_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(200000)), *w = fac_rand(FAC_SHAPE(200000)), *first = NULL;
    fac_tensor *n = fac_randint(50, FAC_SHAPE(200000));
    int were = fac_num_threads();
    for (int k = 1; k <= 3; k++) {
        assert_ok(fac_set_num_threads(k));
        fac_tensor *t = fac_cat(FAC_TENSORS(fac_histogram(x, .bins = 50, .weight = w).hist,
                                            fac_bincount(n, .weights = w, .minlength = 50)));
        if (!first) first = t;
        assert_true(fac_equal(first, t));
    }
    assert_ok(fac_set_num_threads(were));
}

/* ---- order ---- */

static void quantiles_lie_between_neighbours(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(5, 1, 3, 2), *q = fac_tensor_of(0, 0.5, 1);
    assert_values(fac_quantile(x, q), 1, 2.5, 5);
    assert_values(fac_quantile_scalar(x, 0.5, .interpolation = "lower"), 2);
    assert_values(fac_quantile_scalar(x, 0.5, .interpolation = "higher"), 3);
    assert_values(fac_quantile_scalar(x, 0.4, .interpolation = "midpoint"), 2.5);
    assert_values(fac_quantile_scalar(x, 0.6, .interpolation = "nearest"), 3);
    fac_tensor *spoilt = fac_tensor_of(5, NAN, 3, 2);
    assert_true(isnan(fac_item(fac_quantile_scalar(spoilt, 0.5))));
    assert_values(fac_nanquantile_scalar(spoilt, 0.5), 3);
    assert_true(isnan(fac_item(fac_nanquantile_scalar(fac_tensor_of(NAN, NAN), 0.5))));
    fac_tensor *rows = matrix((const double[]){1, 2, 3, 9, 8, 7}, 2, 3);
    fac_tensor *two = fac_to_dtype(fac_tensor_of(0, 1), FAC_F64);
    assert_values(fac_quantile(rows, two, .dim = 1), 1, 7, 3, 9);
    assert_int_equal(fac_tensor_ndim(fac_quantile(rows, two, .dim = 1, .keepdim = true)), 3);
    assert_values(fac_quantile_scalar(rows, 0.5, .dim = 0), 5, 5, 5);
}

/* Of long rows few quantiles are selected, more of them read from sorted rows: values and gradients are the same, among equal elements
   and NaN too. */
static void quantiles_of_long_rows_are_those_of_sorted_ones(void **state) {
    (void)state;
    static const char *const ways[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    for (size_t i = 0; i < FAC_COUNT(ways); i++)
        for (int64_t dim = 0; dim < 2; dim++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_floor(fac_mul(fac_rand(FAC_SHAPE(303, 303), .dtype = FAC_F64), 90.0)),
                       *y = fac_clone(x);
            fac_fill_(fac_select(fac_select(x, 0, 3), 0, 5), NAN);
            fac_copy_(y, x);
            assert_non_null(fac_set_requires_grad(x, true));
            assert_non_null(fac_set_requires_grad(y, true));
            fac_tensor *few =
                fac_quantile(x, fac_to_dtype(fac_tensor_of(0.5, 0.125), FAC_F64), .dim = dim, .interpolation = ways[i]);
            fac_tensor *many = fac_quantile(y, fac_to_dtype(fac_tensor_of(0.5, 0.125, 1), FAC_F64), .dim = dim,
                                            .interpolation = ways[i]);
            many = fac_narrow(many, 0, 0, 2);
            assert_true(fac_allclose(few, many, .rtol = 0, .atol = 0, .equal_nan = true));
            assert_true(isnan(fac_item(fac_select(fac_select(few, 0, 0), 0, dim ? 3 : 5))));
            assert_ok(fac_backward(fac_nansum(few)));
            assert_ok(fac_backward(fac_nansum(many)));
            assert_true(fac_equal(fac_grad_of(x), fac_grad_of(y)));
        }
    assert_no_error();
}

static void quantiles_refuse_what_does_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2);
    assert_null(fac_quantile_scalar(x, 1.5));
    assert_error(FAC_ERR_ARGUMENT, "q must be in the range [0, 1] but got 1.5");
    assert_null(fac_quantile(x, fac_tensor_of(0.5, 2)));
    assert_error(FAC_ERR_ARGUMENT, "q values must be in the range [0, 1]");
    assert_null(fac_quantile_scalar(x, 0.5, .interpolation = "cubic"));
    assert_error(FAC_ERR_ARGUMENT, "but got cubic");
    assert_null(fac_quantile_scalar(fac_zeros(FAC_SHAPE(0)), 0.5));
    assert_error(FAC_ERR_ARGUMENT, "non-empty");
    assert_null(fac_quantile_scalar(fac_ones(FAC_SHAPE(2), .dtype = FAC_I64), 0.5));
    assert_error(FAC_ERR_DTYPE, "either float or double");
}

static void mode_and_nanmedian_choose(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_mode_result m = fac_mode(fac_tensor_of(2, 1, 2, 1, 3));
    assert_values(m.values, 1);
    assert_values(m.indices, 3);
    m = fac_mode(fac_tensor_of(NAN, NAN, 7));
    assert_values(m.values, 7);
    m = fac_mode(matrix((const double[]){1, 2, 2, 5, 5, 4}, 2, 3), .dim = 1, .keepdim = true);
    assert_values(m.values, 2, 5);
    assert_int_equal(fac_tensor_ndim(m.values), 2);
    assert_null(fac_mode(fac_zeros(FAC_SHAPE(3, 0))).values);
    assert_error(FAC_ERR_INDEX, "non-zero size");
    assert_values(fac_nanmedian(fac_tensor_of(NAN, 4, 1, NAN, 3)), 3);
    assert_values(fac_nanmedian_dim(fac_tensor_of(NAN, 4, 1, 3), 0).indices, 3);
    assert_true(isnan(fac_item(fac_nanmedian(fac_tensor_of(NAN, NAN)))));
    fac_tensor *values = fac_slice(fac_zeros(FAC_SHAPE(4)), 0, .step = 2);
    fac_tensor *indices = fac_zeros(FAC_SHAPE(2), .dtype = FAC_I64);
    fac_mode_out(values, indices, fac_reshape(fac_tensor_of(1, 2, 2, 5, 5, 4), FAC_SHAPE(2, 3)));
    assert_values(values, 2, 5);
    assert_values(indices, 2, 1);
}

/* ---- variables and grids ---- */

static void covariance_has_its_closed_form(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix((const double[]){1, 2, 3, 6, 4, 2}, 2, 3);
    assert_values(fac_cov(x), 1, -2, -2, 4);
    assert_values(fac_cov(x, .correction = 0), 2.0 / 3, -4.0 / 3, -4.0 / 3, 8.0 / 3);
    assert_values(fac_corrcoef(x), 1, -1, -1, 1);
    fac_tensor *times = fac_tensor_from((const int64_t[]){1, 2, 1}, FAC_I64, FAC_INTS(3));
    assert_values(fac_cov(fac_select(x, 0, 0), .fweights = times), 2.0 / 3); /* of 1, 2, 2, 3 */
    assert_values(fac_cov(fac_select(x, 0, 0), .aweights = fac_to_dtype(times, FAC_F64)),
                  0.5 / (1 - 6.0 / 16)); /* variance / (1 - sum of squared shares) */
    assert_null(fac_cov(x, .fweights = fac_neg(times)));
    assert_error(FAC_ERR_ARGUMENT, "fweights cannot be negative");
    assert_null(fac_cov(fac_ones(FAC_SHAPE(2), .dtype = FAC_BOOL)));
    assert_error(FAC_ERR_DTYPE, "bool dtype is not supported");
}

static void combinations_come_in_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3);
    assert_values(fac_combinations(x), 1, 2, 1, 3, 2, 3);
    assert_values(fac_combinations(x, .r = 2, .with_replacement = true), 1, 1, 1, 2, 1, 3, 2, 2, 2, 3, 3, 3);
    assert_values(fac_combinations(x, .r = 3), 1, 2, 3);
    assert_int_equal(fac_tensor_numel(fac_combinations(x, .r = 4)), 0);
    assert_int_equal(fac_tensor_numel(fac_combinations(x, .r = 0)), 0);
    assert_int_equal(fac_tensor_sizes(fac_combinations(fac_arange(20), .r = 6)).v[0], 38760);
    assert_int_equal(fac_tensor_sizes(fac_combinations(fac_arange(7), .r = 4, .with_replacement = true)).v[0], 210);
    assert_null(fac_combinations(x, .r = -1));
    assert_error(FAC_ERR_ARGUMENT, "Expect a non-negative number, but got -1");
    assert_null(
        fac_combinations(fac_expand(fac_zeros(FAC_INTS(1)), FAC_INTS(INT64_MAX)), .r = 2, .with_replacement = true));
    assert_error(FAC_ERR_OVERFLOW, "more than 2^63 choices");
    assert_null(fac_combinations(fac_arange(1000), .r = 500));
    assert_error(FAC_ERR_OVERFLOW, "choices");
}

/* Both orders are exact for a parabola inside; the second at the borders too, also between uneven positions. */
static void gradient_is_exact_for_a_parabola(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_to_dtype(fac_tensor_of(0, 1, 3, 4, 7), FAC_F64), *y = fac_mul(x, x);
    fac_tensors g = fac_gradient_tensorarrayint(y, FAC_TENSORS(x), .dim = 0, .edge_order = 2);
    assert_values(g.v[0], 0, 2, 6, 8, 14);
    g = fac_gradient_tensorarrayint(y, FAC_TENSORS(x));
    assert_values(g.v[0], 1, 2, 6, 8, 11);
    fac_tensor *even = fac_mul(fac_arange(5, .dtype = FAC_F64), 0.5);
    g = fac_gradient(fac_mul(even, even), .spacing = 0.5, .edge_order = 2);
    assert_values(g.v[0], 0, 1, 2, 3, 4);
    g = fac_gradient(matrix((const double[]){1, 2, 4, 1, 3, 9}, 2, 3));
    assert_int_equal(g.n, 2);
    assert_values(g.v[0], 0, 1, 5, 0, 1, 5);
    assert_values(g.v[1], 1, 1.5, 2, 2, 4, 6);
    assert_null(fac_gradient(x, .edge_order = 3).v[0]);
    assert_error(FAC_ERR_ARGUMENT, "edge_order=1 and edge_order=2");
    assert_null(fac_gradient(fac_ones(FAC_SHAPE(1))).v[0]);
    assert_error(FAC_ERR_SHAPE, "at least edge_order+1");
}

/* ---- selection ---- */

static void index_reduce_reduces_slices(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix((const double[]){1, 2, 3, 4, 5, 6}, 3, 2);
    fac_tensor *at = fac_tensor_from((const int64_t[]){0, 2, 0}, FAC_I64, FAC_INTS(3));
    fac_tensor *y = matrix((const double[]){5, 1, 7, 2, 0, 9}, 3, 2);
    assert_values(fac_index_reduce(x, 0, at, y, "amax"), 5, 9, 3, 4, 7, 6);
    assert_values(fac_index_reduce(x, 0, at, y, "amin", .include_self = false), 0, 1, 3, 4, 7, 2);
    assert_values(fac_index_reduce(x, 0, at, y, "prod"), 0, 18, 3, 4, 35, 12);
    assert_values(fac_index_reduce(x, 0, at, y, "mean"), 2, 4, 3, 4, 6, 4);
    assert_values(fac_index_reduce(x, 0, at, y, "mean", .include_self = false), 2.5, 5, 3, 4, 7, 2);
    fac_tensor *gaps = fac_slice(fac_zeros(FAC_SHAPE(3, 4), .dtype = FAC_F64), 1, .step = 2);
    assert_non_null(fac_index_reduce_out(gaps, x, 0, at, y, "mean"));
    assert_values(gaps, 2, 4, 3, 4, 6, 4);
    assert_non_null(fac_index_reduce_(x, 0, at, y, "mean"));
    assert_values(x, 2, 4, 3, 4, 6, 4);
    assert_null(fac_index_reduce(x, 0, at, y, "sum"));
    assert_error(FAC_ERR_ARGUMENT, "one of prod, mean, amax or amin but got sum");
}

static void segments_are_reduced(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 5, 2, NAN, 4),
               *n = fac_tensor_from((const int64_t[]){3, 0, 2}, FAC_I64, FAC_INTS(3));
    fac_tensor *r = fac_segment_reduce(x, "max", .lengths = n);
    assert_true(fac_item(fac_select(r, 0, 0)) == 5 && isnan(fac_item(fac_select(r, 0, 2))));
    assert_true(fac_item(fac_select(r, 0, 1)) == -INFINITY);
    r = fac_segment_reduce(x, "mean", .lengths = n);
    assert_true(isnan(fac_item(fac_select(r, 0, 1))));
    fac_tensor *rows = matrix((const double[]){1, 2, 3, 4, 5, 6}, 3, 2);
    fac_tensor *at = fac_tensor_from((const int32_t[]){0, 2, 3}, FAC_I32, FAC_INTS(3));
    assert_values(fac_segment_reduce(rows, "sum", .offsets = at), 4, 6, 5, 6);
    assert_values(fac_segment_reduce(rows, "prod", .offsets = at, .initial = 2), 6, 16, 10, 12);
    assert_values(fac_segment_reduce(rows, "mean", .offsets = at, .initial = 2), 3, 4, 7, 8);
    assert_null(fac_segment_reduce(x, "sum", .lengths = fac_sub(n, 1)));
    assert_error(FAC_ERR_ARGUMENT, "lengths contains negative value!");
    assert_null(fac_segment_reduce(x, "sum", .lengths = fac_slice(n, 0, .end = 2)));
    assert_error(FAC_ERR_ARGUMENT, "when !unsafe");
    assert_values(fac_segment_reduce(x, "sum", .lengths = fac_slice(n, 0, .end = 2), .unsafe = true), 8, 0);
    assert_null(fac_segment_reduce(x, "sum"));
    assert_error(FAC_ERR_ARGUMENT, "Either lengths or offsets must be defined.");
    assert_null(fac_segment_reduce(x, "first", .lengths = n));
    assert_error(FAC_ERR_ARGUMENT, "got first");
}

static void tables_are_renormed_once_per_row(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *table = fac_tensor_from((const float[]){3, 4, 30, 40, 1, 0}, FAC_F32, FAC_INTS(3, 2));
    fac_tensor *at = fac_tensor_from((const int64_t[]){1, 1, 2}, FAC_I64, FAC_INTS(3));
    fac_tensor *view = fac_t(fac_clone(fac_t(table)));
    assert_true(fac_allclose(fac_embedding_renorm(view, at, 5, 2),
                             fac_mul(table, fac_tensor_from((const float[]){1, 0.1f, 1}, FAC_F32, FAC_INTS(3, 1)))));
    assert_non_null(fac_embedding_renorm_(table, at, 35, INFINITY));
    assert_true(fabs(fac_item(fac_select(fac_select(table, 0, 1), 0, 1)) - 35) < 1e-4);
    assert_null(fac_embedding_renorm(table, fac_add(at, 1), 5, 2));
    assert_error(FAC_ERR_INDEX, "index 3 is out of bounds");
}

static void diagonals_are_filled_and_wrapped(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(6, 2));
    assert_non_null(fac_fill_diagonal_(x, FAC_SCALAR(1), .wrap = true));
    assert_values(x, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0);
    x = fac_t(fac_zeros(FAC_SHAPE(2, 5)));
    assert_non_null(fac_fill_diagonal_(x, FAC_SCALAR(1), .wrap = true));
    assert_values(x, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1);
    x = fac_fill_diagonal_(fac_zeros(FAC_SHAPE(2, 2, 2)), FAC_SCALAR(3));
    assert_values(x, 3, 0, 0, 0, 0, 0, 0, 3);
    assert_null(fac_fill_diagonal_(fac_zeros(FAC_SHAPE(2, 3, 2)), FAC_SCALAR(3)));
    assert_error(FAC_ERR_SHAPE, "equal length");
}

static void places_fill_a_size_known_before(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = matrix((const double[]){1, 0, 0, 2}, 2, 2);
    assert_values(fac_nonzero_static(x, 3), 0, 0, 1, 1, -1, -1);
    assert_values(fac_nonzero_static(x, 1), 0, 0);
    assert_null(fac_nonzero_static(x, -1));
    assert_error(FAC_ERR_ARGUMENT, "non-negative");
}

/* ---- distances ---- */

/* Against differences that are made whole, for sizes on both sides of every block. */
static void check_distances(fac_dtype d, int64_t n, int64_t m, int64_t depth, double p) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(n, depth), .dtype = FAC_F64),
               *y = fac_randn(FAC_SHAPE(m, depth), .dtype = FAC_F64);
    x = fac_to_dtype(x, d), y = fac_to_dtype(y, d);
    fac_tensor *wide = fac_sub(fac_unsqueeze(fac_to_dtype(x, FAC_F64), 1), fac_unsqueeze(fac_to_dtype(y, FAC_F64), 0));
    fac_tensor *want = fac_linalg_vector_norm(wide, .ord = p, .dim = -1);
    const double rtol = d == FAC_F64 ? 1e-12 : d == FAC_F32 ? 2e-6 : 1e-2;
    assert_true(fac_allclose(fac_to_dtype(fac_cdist(x, y, .p = p), FAC_F64), want, .rtol = rtol));
    fac_tensor *at = fac_triu_indices(n, n, .offset = 1), *all = fac_cdist(x, x, .p = p);
    fac_tensor *pairs = fac_index(all, FAC_TENSORS(fac_select(at, 0, 0), fac_select(at, 0, 1)));
    assert_true(fac_equal(fac_pdist(x, .p = p), pairs));
    assert_no_error();
}

static void distances_agree_with_norms_of_differences(void **state) {
    (void)state;
    static const double powers[] = {0, 0.5, 1, 1.5, 2, 3, INFINITY};
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    for (size_t p = 0; p < FAC_COUNT(powers); p++)
        for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
            check_distances(dtypes[d], 5, 3, 7, powers[p]);
            check_distances(dtypes[d], 131, 33, 130, powers[p]);
        }
}

static void distances_keep_nan_and_do_not_cancel(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from((const float[]){1e6f, NAN}, FAC_F32, FAC_INTS(2, 1)),
               *y = fac_tensor_from((const float[]){1e6f + 0.0625f}, FAC_F32, FAC_INTS(1, 1));
    static const double powers[] = {0, 1, 1.5, 2, INFINITY};
    for (size_t i = 0; i < FAC_COUNT(powers); i++) {
        fac_tensor *d = fac_cdist(x, y, .p = powers[i]);
        assert_near(fac_item(fac_select(d, 0, 0)), powers[i] == 0 ? 1 : 0.0625, 1e-7);
        assert_true(isnan(fac_item(fac_select(d, 0, 1))));
    }
    fac_tensor *batch = fac_cdist(fac_randn(FAC_SHAPE(4, 1, 3, 2)), fac_randn(FAC_SHAPE(5, 6, 2)));
    assert_int_equal(fac_tensor_ndim(batch), 4);
    assert_int_equal(fac_tensor_numel(batch), 4 * 5 * 3 * 6);
}

/* Few powers are made one by one, many by doubling. */
static void vander_holds_powers(void **state) {
    (void)state;
    static const int64_t columns[] = {2, 3, 7, 8, 16, 17, 30};
    for (size_t i = 0; i < FAC_COUNT(columns); i++)
        for (int d = 0; d < 2; d++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_mt(fac_reshape(fac_arange(6), FAC_INTS(2, 3))), d ? FAC_I64 : FAC_F64);
            x = fac_clamp(fac_sub(x, 2), -2, 2);
            fac_tensor *want =
                fac_pow(fac_unsqueeze(x, -1), fac_to_dtype(fac_arange(columns[i]), d ? FAC_I64 : FAC_F64));
            assert_true(fac_equal(fac_linalg_vander(x, .N = columns[i]), want));
        }
    assert_no_error();
}

/* Fewer than two columns are ones or nothing, and a number of columns that no memory holds is refused before a power is made. */
static void vander_of_few_and_of_very_many_columns(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(2, 3, 4), *one = fac_vander(x, .N = 1);
    assert_true(fac_equal(one, fac_ones(FAC_SHAPE(3, 1))));
    assert_true(fac_equal(fac_vander(fac_tensor_of(7)), fac_ones(FAC_SHAPE(1, 1))));
    assert_true(fac_equal(fac_vander(x, .N = 0), fac_empty(FAC_SHAPE(3, 0))));
    assert_null(fac_vander(x, .N = -1));
    assert_error(FAC_ERR_ARGUMENT, "non-negative");
    assert_null(fac_vander(x, .N = INT64_MAX / 2));
    assert_error(FAC_ERR_OVERFLOW, "64 bits");
    assert_null(fac_linalg_vander(x, .N = INT64_MAX / 2));
    assert_error(FAC_ERR_OVERFLOW, "64 bits");
    assert_null(fac_linalg_vander(x, .N = 1));
    assert_error(FAC_ERR_ARGUMENT, "greater than 1");
}

/* ---- gradients ---- */

#define AT fac_tensor_from((const int64_t[]){0, 2, 0}, FAC_I64, FAC_INTS(3))
#define LENGTHS fac_tensor_from((const int64_t[]){3, 2}, FAC_I64, FAC_INTS(2))
#define TWICE(X)                                                                                                       \
    X(quantile, 1, "3,4", -1, 1, out[0] = fac_quantile_scalar(x[0], 0.4, .dim = 1))                                    \
    X(nanquantile, 1, "3,4", -1, 1, out[0] = fac_nanquantile_scalar(x[0], 0.4, .dim = 0, .keepdim = true))             \
    X(mode, 1, "3,4", -1, 1, out[0] = fac_mode(x[0]).values)                                                           \
    X(nanmedian, 1, "3,4", -1, 1, out[0] = fac_nanmedian(x[0]))                                                        \
    X(nanmedian_dim, 1, "3,4", -1, 1, out[0] = fac_nanmedian_dim(x[0], 1).values)                                      \
    X(cov, 1, "3,4", -1, 1, out[0] = fac_cov(x[0]))                                                                    \
    X(corrcoef, 1, "2,4", -1, 1, out[0] = fac_corrcoef(x[0]))                                                          \
    X(combinations, 1, "4", -1, 1, out[0] = fac_combinations(x[0], .r = 3))                                            \
    X(vander, 1, "4", -1, 1, out[0] = fac_vander(x[0]))                                                                \
    X(gradient, 2, "3,4", -1, 1, fac_tensors g = fac_gradient(x[0], .spacing = 0.5, .edge_order = 2); out[0] = g.v[0]; \
      out[1] = g.v[1])                                                                                                 \
    X(index_reduce_mean, 1, "3,2;3,2", 0.5, 2, out[0] = fac_index_reduce(x[0], 0, AT, x[1], "mean"))                   \
    X(index_reduce_prod, 1, "3,2;3,2", 0.5, 2,                                                                         \
      out[0] = fac_index_reduce(x[0], 0, AT, x[1], "prod", .include_self = false))                                     \
    X(index_reduce_amax, 1, "3,2;3,2", -1, 1, out[0] = fac_index_reduce(x[0], 0, AT, x[1], "amax"))                    \
    X(cdist_0, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1], .p = 0))                                            \
    X(cdist_05, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1], .p = 0.5))                                         \
    X(cdist_1, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1], .p = 1))                                            \
    X(cdist_2, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1]))                                                    \
    X(cdist_3, 1, "2,2,3;4,3", -1, 1, out[0] = fac_cdist(x[0], x[1], .p = 3))                                          \
    X(cdist_inf, 1, "2,3;4,3", -1, 1, out[0] = fac_cdist(fac_exp(x[0]), x[1], .p = INFINITY))                          \
    X(cdist_long, 1, "2,20;3,20", -1, 1, out[0] = fac_cdist(x[0], x[1]))                                               \
    X(pdist_1, 1, "4,3", -1, 1, out[0] = fac_pdist(x[0], .p = 1))                                                      \
    X(pdist_2, 1, "4,3", -1, 1, out[0] = fac_pdist(x[0]))                                                              \
    X(pdist_3, 1, "4,3", -1, 1, out[0] = fac_pdist(x[0], .p = 3))                                                      \
    X(pdist_inf, 1, "4,3", -1, 1, out[0] = fac_pdist(fac_exp(x[0]), .p = INFINITY))
#define ONCE(X)                                                                                                   \
    X(segment_sum, 1, "5,2", -1, 1, out[0] = fac_segment_reduce(x[0], "sum", .lengths = LENGTHS))                 \
    X(segment_mean, 1, "5,2", -1, 1, out[0] = fac_segment_reduce(x[0], "mean", .lengths = LENGTHS, .initial = 1)) \
    X(segment_max, 1, "5,2", -1, 1, out[0] = fac_segment_reduce(x[0], "max", .lengths = LENGTHS))                 \
    X(segment_prod, 1, "5,2", -1, 1, out[0] = fac_segment_reduce(x[0], "prod", .lengths = LENGTHS, .initial = 2))

TWICE(GRAD_FN)
ONCE(GRAD_FN)
static const grad_case cases[] = {TWICE(GRAD_ROW)}, once[] = {ONCE(GRAD_ROW)};

static void gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
    grad_run(once, FAC_COUNT(once), false);
}

static void second_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

/* The product of the others, where one or two factors are zero. */
static void gradients_of_products_with_zeros(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(2, 0, 3, 0, 5), true);
    fac_tensor *n = fac_tensor_from((const int64_t[]){3, 2}, FAC_I64, FAC_INTS(2));
    assert_ok(fac_backward(fac_sum(fac_segment_reduce(x, "prod", .lengths = n))));
    assert_values(fac_grad_of(x), 0, 6, 0, 5, 0);
    fac_tensor *y = fac_set_requires_grad(fac_tensor_of(2, 0, 3, 0, 0), true);
    fac_tensor *at = fac_tensor_from((const int64_t[]){0, 0, 0, 1, 1}, FAC_I64, FAC_INTS(5));
    assert_ok(fac_backward(fac_sum(fac_index_reduce(fac_ones(FAC_SHAPE(2)), 0, at, y, "prod"))));
    assert_values(fac_grad_of(y), 0, 6, 0, 0, 0);
}

static fac_status some_of_all(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_reshape(fac_arange(12, .dtype = FAC_F32), FAC_SHAPE(3, 4));
    fac_tensor *at = fac_tensor_from((const int64_t[]){0, 2, 0}, FAC_I64, FAC_INTS(3));
    fac_tensor *t = fac_histogram(fac_t(x), .bins = 3).hist;
    t = t ? fac_bincount(at) : NULL;
    t = t ? fac_isin(at, at) : NULL;
    t = t ? fac_quantile_scalar(x, 0.5, .dim = 0) : NULL;
    t = t ? fac_cdist(x, x) : NULL;
    t = t ? fac_index_reduce_(x, 0, at, fac_clone(x), "mean") : NULL;
    t = t ? fac_segment_reduce(x, "sum", .offsets = fac_tensor_from((const int64_t[]){0, 1, 3}, FAC_I64, FAC_INTS(3)))
          : NULL;
    return t && fac_combinations(at) ? FAC_OK : fac_error();
}

static void statistics_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(some_of_all, NULL);
}

FAC_TEST_MAIN(FAC_TEST(any_and_all_reduce_the_dimensions_that_are_given),
              FAC_TEST(membership_agrees_with_comparing_each), FAC_TEST(membership_of_nan_zeros_and_mixed_dtypes),
              FAC_TEST(bincount_counts_and_adds_weights), FAC_TEST(bincount_of_many_agrees_with_scatter),
              FAC_TEST(histograms_have_their_closed_forms), FAC_TEST(histogram_agrees_with_its_own_edges),
              FAC_TEST(histograms_refuse_what_does_not_fit), FAC_TEST(counts_do_not_depend_on_threads),
              FAC_TEST(quantiles_lie_between_neighbours), FAC_TEST(quantiles_of_long_rows_are_those_of_sorted_ones),
              FAC_TEST(quantiles_refuse_what_does_not_fit), FAC_TEST(mode_and_nanmedian_choose),
              FAC_TEST(covariance_has_its_closed_form), FAC_TEST(combinations_come_in_order),
              FAC_TEST(gradient_is_exact_for_a_parabola), FAC_TEST(index_reduce_reduces_slices),
              FAC_TEST(segments_are_reduced), FAC_TEST(tables_are_renormed_once_per_row),
              FAC_TEST(diagonals_are_filled_and_wrapped), FAC_TEST(places_fill_a_size_known_before),
              FAC_TEST(distances_agree_with_norms_of_differences), FAC_TEST(distances_keep_nan_and_do_not_cancel),
              FAC_TEST(vander_holds_powers), FAC_TEST(vander_of_few_and_of_very_many_columns),
              FAC_TEST(gradients_agree_with_differences), FAC_TEST(second_gradients_agree_with_differences),
              FAC_TEST(gradients_of_products_with_zeros), FAC_TEST(statistics_survive_failing_allocations))
