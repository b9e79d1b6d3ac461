/* Sorting, topk, kthvalue, median, searches and unique. */
#include "difference_cases.h"

/* ---- order ---- */

static void sort_orders_nan_last_and_keeps_ties(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(2, NAN, -0.0f, INFINITY, 0, 2, -INFINITY);
    fac_sort_result r = fac_sort(a);
    assert_values(r.indices, 6, 2, 4, 0, 5, 3, 1);
    assert_int_equal(fac_tensor_dtype(r.indices), FAC_I64);
    r = fac_sort(a, .descending = true);
    assert_values(r.indices, 1, 3, 0, 5, 2, 4, 6);
    assert_true(signbit(fac_item(fac_select(r.values, 0, 4))));
}

/* Neighbours in order, and values where the indices say: for rows short, middling and long, of every kind of key. */
static void check_sorted(fac_dtype d, int64_t n, bool descending) {
    FAC_SCOPE(s);
    fac_tensor *a = fac_to_dtype(fac_mul(fac_randn(FAC_SHAPE(n), .dtype = FAC_F64), 40.0), d);
    fac_sort_result r = fac_sort(a, .descending = descending);
    assert_true(fac_equal(r.values, fac_gather(a, 0, r.indices)));
    fac_tensor *low = fac_slice(r.values, 0, .end = n - 1), *high = fac_slice(r.values, 0, .start = 1);
    assert_true(fac_is_nonzero(fac_all(descending ? fac_ge(low, high) : fac_le(low, high))));
    fac_tensor *seen = fac_scatter(fac_zeros(FAC_SHAPE(n)), 0, r.indices, 1);
    assert_int_equal(fac_item_int(fac_sum(seen)), n);
    assert_no_error();
}

static void sort_of_every_dtype_is_a_permutation_in_order(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_U8,  FAC_I8,   FAC_I16, FAC_I32,
                                       FAC_I64,  FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
    static const int64_t lengths[] = {1, 2, 39, 40, 41, 300, 5000};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (size_t j = 0; j < FAC_COUNT(lengths); j++) {
            check_sorted(dtypes[i], lengths[j], false);
            check_sorted(dtypes[i], lengths[j], true);
        }
}

static void sort_works_along_any_dimension(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_from((const int32_t[]){3, 1, 2, 1, 3, 0}, FAC_I32, FAC_INTS(2, 3));
    assert_values(fac_sort(a, .dim = 0).values, 1, 1, 0, 3, 3, 2);
    assert_values(fac_sort(fac_t(a), .dim = 0).indices, 1, 2, 2, 0, 0, 1);
    assert_values(fac_argsort(a), 1, 2, 0, 2, 0, 1);
    assert_values(fac_msort(a), 1, 1, 0, 3, 3, 2);
}

/* Whether what is made of rows together is what is made of each alone. */
static bool rows_agree(fac_tensor *a) {
    bool ok = true;
    fac_sort_result all = fac_sort(a, .dim = 1), down = fac_sort(a, .dim = 1, .descending = true);
    fac_median_dim_result middle = fac_median_dim(a, 1);
    fac_mode_result often = fac_mode(a, .dim = 1);
    fac_kthvalue_result second = fac_kthvalue(a, 2, .dim = 1);
    fac_topk_result top = fac_topk(a, 2, .dim = 1);
    for (int64_t i = 0; i < fac_tensor_size(a, 0); i++) {
        fac_tensor *row = fac_clone(fac_select(a, 0, i));
        ok = ok && fac_equal(fac_select(all.indices, 0, i), fac_sort(row).indices);
        ok = ok && fac_equal(fac_select(down.indices, 0, i), fac_sort(row, .descending = true).indices);
        const bool has_nan = fac_is_nonzero(fac_any(fac_isnan(row)));
        fac_tensor *there = fac_gather(row, 0, fac_select(down.indices, 0, i));
        ok = ok && (has_nan || fac_equal(there, fac_select(down.values, 0, i)));
        ok = ok && fac_equal(fac_select(middle.indices, 0, i), fac_median_dim(row, 0).indices);
        ok = ok && fac_equal(fac_select(often.indices, 0, i), fac_mode(row, .dim = 0).indices);
        ok = ok && fac_equal(fac_select(second.indices, 0, i), fac_kthvalue(row, 2, .dim = 0).indices);
        ok = ok && fac_equal(fac_select(top.indices, 0, i), fac_topk(row, 2, .dim = 0).indices);
    }
    return ok;
}

static void sort_of_rows_together_is_that_of_each(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_U8, FAC_I64, FAC_BF16, FAC_F32, FAC_F64};
    static const int64_t lengths[] = {2, 3, 8, 24, 25, 70};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (size_t j = 0; j < FAC_COUNT(lengths); j++) {
            FAC_SCOPE(s);
            fac_tensor *a = fac_to_dtype(fac_randint(6, FAC_SHAPE(45, lengths[j])), dtypes[i]);
            if (fac_dtype_is_floating(dtypes[i])) a = fac_div(a, fac_remainder(a, 3)); /* NaN and infinity */
            assert_true(rows_agree(a));
            assert_true(rows_agree(fac_t(fac_contiguous(fac_t(a)))));
        }
}

/* Keys of 64 bits of which the higher half, the lower half, or bits in the middle tell many apart. */
static void sort_of_long_keys_tells_all_bits_apart(void **state) {
    (void)state;
    static const int64_t low[] = {1, 1, 1000, 7}, high[] = {1, 60, 3, 1 << 20},
                         step[] = {3, (int64_t)1 << 40, (int64_t)1 << 33, 129};
    for (size_t i = 0; i < FAC_COUNT(low); i++) {
        FAC_SCOPE(s);
        fac_tensor *many = fac_mul(fac_randint(high[i], FAC_SHAPE(3000), .dtype = FAC_I64), step[i]);
        fac_tensor *a = fac_sub(fac_add(many, fac_randint(low[i], FAC_SHAPE(3000), .dtype = FAC_I64)), 900);
        fac_sort_result r = fac_sort(a);
        fac_tensor *x = fac_slice(r.values, 0, .end = 2999), *y = fac_slice(r.values, 0, .start = 1);
        fac_tensor *at = fac_slice(r.indices, 0, .end = 2999), *then = fac_slice(r.indices, 0, .start = 1);
        fac_tensor *ordered = fac_logical_or(fac_lt(x, y), fac_logical_and(fac_eq(x, y), fac_lt(at, then)));
        assert_true(fac_is_nonzero(fac_all(ordered)));
        assert_true(fac_equal(fac_gather(a, 0, r.indices), r.values));
        for (int64_t k = 1; k < 3000; k = k * 3 + 1) {
            assert_int_equal(fac_item_int(fac_kthvalue(a, k).indices), fac_item_int(fac_select(r.indices, 0, k - 1)));
            assert_true(fac_equal(fac_topk(a, k, .largest = false).indices, fac_slice(r.indices, 0, .end = k)));
        }
        assert_no_error();
    }
}

/* Rows whose elements at even distances are alike, so that samples of them say little of the others, and rows of few values. */
static void sort_finds_the_kth_of_rows_that_samples_tell_little_of(void **state) {
    (void)state;
    enum { N = 8192 };
    for (int64_t period = 1; period <= 128; period *= 2) {
        FAC_SCOPE(s);
        fac_tensor *i = fac_arange(N, .dtype = FAC_I64);
        fac_tensor *sampled = fac_eq(fac_remainder(i, period), 0), *noise = fac_randint(1000000, FAC_SHAPE(N));
        fac_tensor *a = fac_where(sampled, fac_mul(i, period), fac_sub(fac_mul(noise, 3), 2000000));
        if (period == 1) a = fac_randint(3, FAC_SHAPE(N));
        fac_tensor *rows[] = {a, fac_to_dtype(a, FAC_F64), fac_to_dtype(a, FAC_F32), fac_to_dtype(a, FAC_I32)};
        for (size_t r = 0; r < FAC_COUNT(rows); r++) {
            fac_sort_result sorted = fac_sort(rows[r]);
            for (int64_t k = 1; k <= N; k = k * 2 + 1) {
                fac_kthvalue_result kth = fac_kthvalue(rows[r], k);
                assert_true(fac_equal(kth.values, fac_select(sorted.values, 0, k - 1)));
                assert_true(fac_equal(kth.indices, fac_select(sorted.indices, 0, k - 1)));
            }
        }
        assert_no_error();
    }
}

/* ---- selection ---- */

static void sort_topk_kthvalue_and_median(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(5, 1, 4, 2, 3);
    assert_values(fac_topk(a, 2).values, 5, 4);
    assert_values(fac_topk(a, 2, .largest = false).indices, 1, 3);
    assert_values(fac_kthvalue(a, 2).values, 2);
    assert_values(fac_median(a), 3);
    assert_values(fac_median_dim(fac_tensor_of(4, NAN, 1), 0).indices, 1);
    assert_null(fac_topk(a, 6).values);
    assert_error(FAC_ERR_INDEX, "k is 6, dimension 0 has size 5");
    assert_null(fac_kthvalue(a, 0).values);
    assert_error(FAC_ERR_INDEX, "out of range");
    assert_null(fac_sort(fac_zeros(FAC_SHAPE(2), .dtype = FAC_C64)).values);
    assert_error(FAC_ERR_DTYPE, "sort: not implemented for complex64");
}

static void sort_topk_agrees_with_sort(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(3, 20000));
    fac_sort_result all = fac_sort(a, .descending = true);
    fac_topk_result best = fac_topk(a, 37);
    assert_true(fac_equal(best.indices, fac_slice(all.indices, 1, .end = 37)));
    fac_tensor *steps = fac_arange(20000);
    assert_true(fac_equal(fac_topk(steps, 3).values,
                          fac_tensor_from((const int64_t[]){19999, 19998, 19997}, FAC_I64, FAC_INTS(3))));
}

/* ---- searching ---- */

static void sort_searches_and_finds_unique_values(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *edges = fac_tensor_of(1, 3, 5), *v = fac_tensor_of(0, 3, 9);
    assert_values(fac_searchsorted(edges, v), 0, 1, 3);
    assert_values(fac_searchsorted(edges, v, .right = true), 0, 2, 3);
    assert_values(fac_bucketize(v, edges, .out_int32 = true), 0, 1, 3);
    fac_unique_result u = fac_unique(fac_tensor_of(3, 1, 3), .return_inverse = true, .return_counts = true);
    assert_values(u.output, 1, 3);
    assert_values(u.inverse, 1, 0, 1);
    assert_values(u.counts, 1, 2);
    assert_null(fac_searchsorted(edges, v, .side = "middle"));
    assert_error(FAC_ERR_ARGUMENT, "side can only be 'left' or 'right'");
}

/* ---- threads, gradients, allocations ---- */

static void sort_does_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randint(9, FAC_SHAPE(64, 500)), *first = NULL;
    int were = fac_num_threads();
    for (int n = 1; n <= 3; n++) {
        assert_ok(fac_set_num_threads(n));
        fac_tensor *t = fac_sort(a).indices;
        if (!first) first = t;
        assert_true(fac_equal(first, t));
    }
    assert_ok(fac_set_num_threads(were));
}

DIFF_FN(d_sort, fac_sort(x, .dim = 0, .descending = true).values)
DIFF_FN(d_topk, fac_topk(x, 2).values)
DIFF_FN(d_kth, fac_kthvalue(x, 3, .keepdim = true).values)
DIFF_FN(d_median, fac_median_dim(x, 1).values)
DIFF_FN(d_median_all, fac_median(x))

static void sort_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {DIFF_CASE(d_sort), DIFF_CASE(d_topk), DIFF_CASE(d_kth), DIFF_CASE(d_median),
                                            DIFF_CASE(d_median_all)};
    check_differences(cases, FAC_COUNT(cases), FAC_TENSORS(irregular(FAC_INTS(3, 5), 0.3)));
}

static void unique_gradient_fails_on_the_way_back(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(3, 1, 3), true);
    fac_unique_result u = fac_unique(x, .return_counts = true);
    assert_true(fac_requires_grad(u.output));
    assert_false(fac_requires_grad(u.counts));
    assert_int_equal(fac_backward(fac_sum(u.output)), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "duplicates");
}

static fac_status sort_and_search(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = fac_reshape(fac_arange(12), FAC_SHAPE(3, 4));
    fac_tensor *t = fac_sort(fac_t(a)).values;
    t = fac_topk(a, 2).values ? fac_searchsorted(fac_select(a, 0, 0), t) : NULL;
    return t && fac_unique(t, .return_inverse = true).inverse ? FAC_OK : fac_error();
}

static void sort_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(sort_and_search, NULL);
}

/* Of equal values those that come first are taken, in order, however many are asked for. */
static void topk_of_equal_values_takes_the_first_in_order(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 40, 41, 100, 128, 129, 1000, 2100, 4000};
    for (size_t i = 0; i < FAC_COUNT(counts); i++)
        for (int d = 0; d < 2; d++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_randint(50, FAC_SHAPE(4100), .dtype = d ? FAC_F64 : FAC_I32);
            fac_topk_result top = fac_topk(x, counts[i], .largest = false);
            fac_sort_stable_result all = fac_sort_stable(x, .stable = true);
            assert_true(fac_equal(top.indices, fac_narrow(all.indices, 0, 0, counts[i])));
            assert_true(fac_equal(top.values, fac_narrow(all.values, 0, 0, counts[i])));
        }
}

/* Runs among many elements of every width; a NaN is a run of its own. */
static void unique_consecutive_finds_where_runs_begin(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_I16, FAC_I32, FAC_I64, FAC_F32, FAC_F64, FAC_BF16};
    static const int64_t lengths[] = {1, 9, 17, 1000};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (size_t j = 0; j < FAC_COUNT(lengths); j++) {
            FAC_SCOPE(s);
            const int64_t n = lengths[j];
            fac_tensor *x = fac_to_dtype(fac_sub(fac_randint(3, FAC_SHAPE(n)), 1), dtypes[i]);
            if (fac_dtype_is_floating(dtypes[i])) x = fac_div(x, x); /* 1 and NaN */
            fac_unique_consecutive_result r = fac_unique_consecutive(x, .return_inverse = true, .return_counts = true);
            fac_tensor *begins = fac_ones(FAC_SHAPE(n), .dtype = FAC_BOOL);
            if (n > 1) {
                fac_tensor *later = fac_slice(begins, 0, .start = 1);
                fac_copy_(later, fac_ne(fac_slice(x, 0, .start = 1), fac_slice(x, 0, .end = n - 1)));
            }
            fac_tensor *first = fac_masked_select(x, begins);
            assert_true(fac_equal(fac_isnan(r.output), fac_isnan(first)));
            assert_true(fac_equal(fac_nan_to_num(r.output), fac_nan_to_num(first)));
            assert_true(fac_equal(r.inverse, fac_sub(fac_cumsum(begins, 0), 1)));
            assert_true(fac_equal(r.counts, fac_bincount(r.inverse)));
            assert_true(fac_equal(fac_isnan(fac_unique_consecutive(x).output), fac_isnan(first)));
            assert_no_error();
        }
}

/* Places of many values, those at the ends and NaN among them. */
static void searchsorted_counts_what_is_below(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 64, 1001};
    for (size_t j = 0; j < FAC_COUNT(lengths); j++)
        for (int narrow = 0; narrow < 2; narrow++) {
            FAC_SCOPE(s);
            fac_tensor *keys =
                fac_sort(fac_to_dtype(fac_randint(30, FAC_SHAPE(3, lengths[j])), FAC_F64), .dim = 1).values;
            fac_tensor *v = fac_sub(fac_to_dtype(fac_randint(34, FAC_SHAPE(3, 45)), FAC_F64), 2);
            fac_tensor *below = fac_sum(fac_lt(fac_unsqueeze(keys, 1), fac_unsqueeze(v, 2)), .dims = FAC_DIMS(2));
            fac_tensor *upto = fac_sum(fac_le(fac_unsqueeze(keys, 1), fac_unsqueeze(v, 2)), .dims = FAC_DIMS(2));
            assert_true(fac_equal(fac_to_dtype(fac_searchsorted(keys, v, .out_int32 = narrow), FAC_I64), below));
            assert_true(
                fac_equal(fac_to_dtype(fac_searchsorted(keys, v, .out_int32 = narrow, .right = true), FAC_I64), upto));
            assert_true(
                fac_equal(fac_searchsorted(fac_select(keys, 0, 1), fac_select(v, 0, 1)), fac_select(below, 0, 1)));
            fac_tensor *nan = fac_full(FAC_SHAPE(3, 2), NAN, .dtype = FAC_F64);
            for (int right = 0; right < 2; right++)
                assert_values(fac_searchsorted(keys, nan, .right = right != 0), (double)lengths[j], (double)lengths[j],
                              (double)lengths[j], (double)lengths[j], (double)lengths[j], (double)lengths[j]);
            assert_no_error();
        }
}

FAC_TEST_MAIN(FAC_TEST(topk_of_equal_values_takes_the_first_in_order), FAC_TEST(sort_orders_nan_last_and_keeps_ties),
              FAC_TEST(sort_of_every_dtype_is_a_permutation_in_order), FAC_TEST(sort_works_along_any_dimension),
              FAC_TEST(sort_topk_kthvalue_and_median), FAC_TEST(sort_finds_the_kth_of_rows_that_samples_tell_little_of),
              FAC_TEST(sort_topk_agrees_with_sort), FAC_TEST(sort_searches_and_finds_unique_values),
              FAC_TEST(sort_does_not_depend_on_threads), FAC_TEST(sort_gradients_agree_with_differences),
              FAC_TEST(unique_gradient_fails_on_the_way_back), FAC_TEST(sort_survives_failing_allocations),
              FAC_TEST(sort_of_rows_together_is_that_of_each), FAC_TEST(sort_of_long_keys_tells_all_bits_apart),
              FAC_TEST(unique_consecutive_finds_where_runs_begin), FAC_TEST(searchsorted_counts_what_is_below))
