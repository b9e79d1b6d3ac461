/* Reading and writing by index: index, index_put, gather, scatter, embedding. */
#include "difference_cases.h"

static fac_tensor *counting(int64_t rows, int64_t cols) {
    return fac_reshape(fac_arange((double)(rows * cols)), FAC_SHAPE(rows, cols));
}
#define LONGS(...) \
    fac_tensor_from((const int64_t[]){__VA_ARGS__}, FAC_I64, FAC_INTS(sizeof((const int64_t[]){__VA_ARGS__}) / 8))

/* ---- values ---- */

static void index_picks_slices_and_elements(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = counting(3, 2);
    assert_values(fac_index_select(a, 0, LONGS(2, 0)), 4, 5, 0, 1);
    assert_values(fac_gather(a, 1, fac_reshape(LONGS(1, 0, 0), FAC_SHAPE(3, 1))), 1, 2, 4);
    assert_values(fac_take(a, LONGS(-1, 3)), 5, 3);
    assert_values(fac_take(fac_slice(fac_arange(9), 0, .start = 1, .step = 3), LONGS(-1, 0, 1)), 7, 1, 4);
    assert_values(fac_take(fac_expand(fac_tensor_of(4), FAC_SHAPE(3)), LONGS(2, 0)), 4, 4);
    assert_values(fac_take(fac_transpose(a, 0, 1), LONGS(1, 3)), 2, 1);
    assert_values(fac_index(a, FAC_TENSORS(LONGS(0, 2), LONGS(1, -1))), 1, 5);
    assert_values(fac_index(a, FAC_TENSORS(NULL, LONGS(1))), 1, 3, 5);
    assert_values(fac_index(a, FAC_TENSORS(fac_gt(a, 2.5))), 3, 4, 5);
    assert_values(fac_masked_select(a, fac_lt(a, 2)), 0, 1);
    assert_values(fac_nonzero(fac_gt(a, 3.5)), 2, 0, 2, 1);
}

static void index_separated_indices_come_first(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_reshape(fac_arange(24), FAC_SHAPE(2, 3, 4));
    fac_tensor *t = fac_index(a, FAC_TENSORS(LONGS(0, 1), NULL, LONGS(3, 0)));
    assert_int_equal(fac_tensor_size(t, 0), 2);
    assert_int_equal(fac_tensor_size(t, 1), 3);
    assert_values(t, 3, 7, 11, 12, 16, 20);
}

static void index_writes_and_accumulates(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *zeros = fac_zeros(FAC_SHAPE(4));
    assert_values(fac_index_put(zeros, FAC_TENSORS(LONGS(1, 1, 3)), fac_tensor_of(1, 2, 3)), 0, 2, 0, 3);
    assert_values(fac_index_put(zeros, FAC_TENSORS(LONGS(1, 1, 3)), fac_tensor_of(1, 2, 3), .accumulate = true), 0, 3,
                  0, 3);
    assert_values(fac_scatter(zeros, 0, LONGS(2, 0), fac_tensor_of(5, 6)), 6, 0, 5, 0);
    assert_values(fac_scatter(zeros, 0, LONGS(2, 0), 7), 7, 0, 7, 0);
    assert_values(fac_scatter_add(zeros, 0, LONGS(2, 2), fac_tensor_of(5, 6)), 0, 0, 11, 0);
    assert_values(fac_index_add(zeros, 0, LONGS(0, 0), fac_tensor_of(1, 2), .alpha = 10), 30, 0, 0, 0);
    assert_values(fac_index_fill(zeros, 0, LONGS(-1), 4), 0, 0, 0, 4);
    assert_values(zeros, 0, 0, 0, 0);
    fac_scatter_(zeros, 0, LONGS(1), 1);
    assert_values(zeros, 0, 1, 0, 0);
}

static void index_scatter_reduces(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *self = fac_tensor_of(2, 2, 2), *index = LONGS(0, 0, 1), *src = fac_tensor_of(4, 6, 5);
    assert_values(fac_scatter_reduce(self, 0, index, src, "sum"), 12, 7, 2);
    assert_values(fac_scatter_reduce(self, 0, index, src, "mean"), 4, 3.5, 2);
    assert_values(fac_scatter_reduce(self, 0, index, src, "amax", .include_self = false), 6, 5, 2);
    assert_values(fac_scatter_reduce(self, 0, index, src, "prod"), 48, 10, 2);
}

/* NaN is NaN, and zeros differ by their sign. */
static void assert_same_numbers(fac_tensor *t, const double *want, size_t n) {
    double got[16];
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++)
        assert_true(want[i] != want[i] ? got[i] != got[i] : got[i] == want[i] && !signbit(got[i]) == !signbit(want[i]));
}

/* Rows wider than vectors, and elements one by one; NaN wins over all, and of equals, as zeros of either sign are, the first stays. */
static void index_halves_reduce_as_their_numbers(void **state) {
    (void)state;
    static const fac_dtype halves[] = {FAC_F16, FAC_BF16};
    static const char *const how[] = {"sum", "prod", "amax", "amin"};
    enum { ROWS = 5, WIDTH = 83 };
    for (size_t t = 0; t < FAC_COUNT(halves); t++)
        for (size_t h = 0; h < FAC_COUNT(how); h++) {
            FAC_SCOPE(s);
            fac_tensor *self = fac_to_dtype(fac_sin(counting(ROWS, WIDTH)), halves[t]),
                       *src = fac_to_dtype(fac_cos(counting(ROWS, WIDTH)), halves[t]);
            fac_tensor *at = LONGS(4, 0, 3, 1, 2),
                       *each = fac_expand(fac_reshape(at, FAC_SHAPE(ROWS, 1)), FAC_INTS(ROWS, WIDTH));
            /* One number meets one, so that nothing is rounded twice. */
            fac_tensor *wide =
                fac_scatter_reduce(fac_to_dtype(self, FAC_F32), 0, each, fac_to_dtype(src, FAC_F32), how[h]);
            fac_tensor *want = fac_to_dtype(wide, halves[t]);
            assert_true(fac_equal(fac_scatter_reduce(self, 0, each, src, how[h]), want));
            assert_true(fac_equal(fac_scatter_reduce(self, 0, fac_contiguous(each), src, how[h]), want));
            if (h > 0)
                assert_true(fac_equal(fac_index_reduce(self, 0, at, src, how[h]), want));
            else
                assert_true(fac_equal(fac_index_add(self, 0, at, src), want));
        }
    for (size_t t = 0; t < FAC_COUNT(halves); t++) {
        FAC_SCOPE(s);
        fac_tensor *self = fac_to_dtype(fac_tensor_of(-3, (float)NAN, 0, -0.0f, (float)-INFINITY, 2, -(float)NAN),
                                        halves[t]),
                   *src = fac_to_dtype(fac_tensor_of((float)NAN, 1, -0.0f, 0, -7, (float)INFINITY, 5), halves[t]);
        fac_tensor *at = LONGS(0, 1, 2, 3, 4, 5, 6);
        static const double most[] = {NAN, NAN, 0, -0.0, -7, INFINITY, NAN},
                            least[] = {NAN, NAN, 0, -0.0, -INFINITY, 2, NAN};
        assert_same_numbers(fac_scatter_reduce(self, 0, at, src, "amax"), most, FAC_COUNT(most));
        assert_same_numbers(fac_scatter_reduce(self, 0, at, src, "amin"), least, FAC_COUNT(least));
    }
}

static void index_embedding_reads_rows(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = fac_set_requires_grad(counting(3, 2), true);
    fac_tensor *t = fac_embedding(w, LONGS(2, 1, 2), .padding_idx = 1);
    assert_values(t, 4, 5, 2, 3, 4, 5);
    assert_ok(fac_backward(fac_sum(t)));
    assert_values(fac_grad_of(w), 0, 0, 0, 0, 2, 2);
    assert_values(fac_one_hot(LONGS(1, 0)), 0, 1, 1, 0);
}

/* ---- indices out of range: nothing is written ---- */

/* Indices that lie apart, or across, are those of a copy; so is what is said of one out of range. */
static void index_elements_may_have_any_strides(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *wide = fac_randint(70, FAC_SHAPE(70, 140)),
               *views[] = {fac_slice(wide, 1, .start = 1, .step = 2), fac_t(fac_slice(wide, 1, .end = 70)),
                           fac_expand(fac_slice(wide, 1, .end = 1), FAC_INTS(70, 70))},
               *x = fac_randn(FAC_SHAPE(70, 70));
    for (int k = 0; k < 3; k++)
        for (int64_t d = 0; d < 2; d++) {
            fac_tensor *index = fac_clone(views[k], .memory_format = FAC_CONTIGUOUS);
            assert_true(fac_equal(fac_gather(x, d, views[k]), fac_gather(x, d, index)));
            assert_true(fac_equal(fac_scatter_add(x, d, views[k], x), fac_scatter_add(x, d, index, x)));
        }
    fac_fill_(fac_narrow(fac_narrow(wide, 0, 69, 1), 1, 139, 1), 70);
    assert_null(fac_gather(x, 1, views[0]));
    assert_error(FAC_ERR_INDEX, "index 70 is out of bounds for dimension 1 with size 70");
    assert_null(fac_scatter_add_(x, 0, views[0], fac_ones(FAC_SHAPE(70, 70))));
    assert_error(FAC_ERR_INDEX, "index 70 is out of bounds for dimension 0 with size 70");
}

static void index_out_of_range_names_index_dimension_and_size(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = counting(3, 2), *w = counting(5, 2);
    assert_null(fac_embedding(w, LONGS(5)));
    assert_error(FAC_ERR_INDEX, "index 5 is out of bounds for dimension 0 with size 5");
    assert_null(fac_embedding(w, LONGS(-1)));
    assert_error(FAC_ERR_INDEX, "index -1 is out of bounds for dimension 0 with size 5");
    assert_null(fac_embedding(w, LONGS(INT64_MIN)));
    assert_error(FAC_ERR_INDEX, "out of bounds for dimension 0 with size 5");
    assert_null(fac_gather(a, 1, fac_reshape(LONGS(2), FAC_SHAPE(1, 1))));
    assert_error(FAC_ERR_INDEX, "index 2 is out of bounds for dimension 1 with size 2");
    assert_null(fac_index(a, FAC_TENSORS(NULL, LONGS(-3))));
    assert_error(FAC_ERR_INDEX, "index -3 is out of bounds for dimension 1 with size 2");
    assert_null(fac_index_add(a, 0, LONGS(3), fac_ones(FAC_SHAPE(1, 2))));
    assert_error(FAC_ERR_INDEX, "index 3 is out of bounds for dimension 0 with size 3");
    assert_null(fac_take(a, LONGS(6)));
    assert_error(FAC_ERR_INDEX, "index 6");
}

static void index_failed_write_leaves_everything_as_it_was(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_zeros(FAC_SHAPE(3));
    assert_null(fac_scatter_(a, 0, LONGS(0, 1, 7), fac_ones(FAC_SHAPE(3))));
    assert_error(FAC_ERR_INDEX, "index 7");
    assert_null(fac_index_put_(a, FAC_TENSORS(LONGS(0, -4)), fac_ones(FAC_SHAPE(2))));
    assert_error(FAC_ERR_INDEX, "index -4");
    assert_null(fac_index_put_(a, FAC_TENSORS(LONGS(0, 1)), fac_ones(FAC_SHAPE(3))));
    assert_error(FAC_ERR_SHAPE, "shape mismatch");
    assert_null(fac_index(a, FAC_TENSORS(LONGS(0), LONGS(0))));
    assert_error(FAC_ERR_INDEX, "too many indices for tensor of dimension 1");
    assert_values(a, 0, 0, 0);
}

/* ---- the same for any number of threads ---- */

static void index_sums_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_tensor *source = fac_randn(FAC_SHAPE(4000, 96)), *index = fac_randint(50, FAC_SHAPE(4000));
    fac_tensor *zeros = fac_zeros(FAC_SHAPE(50, 96)), *first = NULL;
    int were = fac_num_threads();
    for (int n = 1; n <= 4; n++) {
        assert_ok(fac_set_num_threads(n));
        fac_tensor *t = fac_index_add(zeros, 0, index, source);
        if (!first) first = t;
        assert_true(fac_equal(first, t));
    }
    /* Rows that are summed by columns where there are many, one of them left out; few columns are summed by rows. */
    for (int64_t width = 8; width <= 520; width += 128) {
        fac_tensor *rows = fac_randn(FAC_SHAPE(4000, width)), *by = fac_fmod(index, 49), *whole = NULL;
        fac_tensor *sums = fac_index_add(fac_zeros(FAC_SHAPE(50, width)), 0, by, rows);
        sums = fac_index_fill(sums, 0, LONGS(7), 0);
        for (int n = 1; n <= 4; n++) {
            assert_ok(fac_set_num_threads(n));
            fac_tensor *w = fac_set_requires_grad(fac_zeros(FAC_SHAPE(50, width)), true), *t;
            fac_tensor *read = fac_embedding(w, by, .padding_idx = 7);
            assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(read, rows))), FAC_TENSORS(w), &t));
            if (!whole) whole = t;
            assert_true(fac_equal(whole, t) && fac_equal(t, sums));
        }
    }
    assert_ok(fac_set_num_threads(were));
}

/* ---- gradients ---- */

DIFF_FN(d_select, fac_index_select(x, 1, LONGS(2, 0, 2)))
DIFF_FN(d_index, fac_index(x, FAC_TENSORS(LONGS(0, 2, 2), LONGS(1, 3, 3))))
DIFF_FN(d_index_kept, fac_index(x, FAC_TENSORS(NULL, LONGS(1, 1))))
DIFF_FN(d_put, fac_index_put(x, FAC_TENSORS(LONGS(0, 2)), fac_slice(y, 0, .end = 2)))
DIFF_FN(d_put_add, fac_index_put(x, FAC_TENSORS(LONGS(1, 1)), fac_slice(y, 0, .end = 2), .accumulate = true))
DIFF_FN(d_gather, fac_gather(x, 0, fac_reshape(LONGS(0, 2, 1, 1, 0, 0), FAC_SHAPE(2, 3))))
DIFF_FN(d_scatter, fac_scatter(x, 0, fac_reshape(LONGS(0, 2, 1, 1, 0, 0), FAC_SHAPE(2, 3)), y))
DIFF_FN(d_scatter_add, fac_scatter_add(x, 0, fac_reshape(LONGS(0, 2, 1, 0, 0, 1), FAC_SHAPE(2, 3)), y))
DIFF_FN(d_add, fac_index_add(x, 0, LONGS(1, 1, 0), y, .alpha = 2.5))
DIFF_FN(d_copy, fac_index_copy(x, 0, LONGS(2, 0), fac_slice(y, 0, .end = 2)))
DIFF_FN(d_fill, fac_index_fill(x, 1, LONGS(0, 3), 2.0))
DIFF_FN(d_masked_select, fac_masked_select(x, fac_gt(fac_detach(y), 0)))
DIFF_FN(d_masked_scatter, fac_masked_scatter(x, fac_gt(fac_detach(y), 0), y))
DIFF_FN(d_take, fac_take(x, LONGS(0, 5, 5)))

static void index_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {
        DIFF_CASE(d_select),
        DIFF_CASE(d_index),
        DIFF_CASE(d_index_kept),
        DIFF_CASE(d_put),
        DIFF_CASE(d_put_add),
        DIFF_CASE(d_gather),
        DIFF_CASE(d_scatter),
        DIFF_CASE(d_scatter_add),
        DIFF_CASE(d_add),
        DIFF_CASE(d_copy),
        DIFF_CASE(d_fill),
        DIFF_CASE(d_masked_select),
        DIFF_CASE(d_masked_scatter),
        DIFF_CASE(d_take),
    };
    check_differences(cases, FAC_COUNT(cases),
                      FAC_TENSORS(irregular(FAC_INTS(3, 4), 0.3), irregular(FAC_INTS(3, 4), 1.3)));
}

#define REDUCE(how) fac_scatter_reduce(x, 0, fac_reshape(LONGS(0, 2, 1, 0, 0, 1), FAC_SHAPE(2, 3)), y, how)
DIFF_FN(d_sum, REDUCE("sum"))
DIFF_FN(d_mean, REDUCE("mean"))
DIFF_FN(d_prod, REDUCE("prod"))
DIFF_FN(d_amax, REDUCE("amax"))
DIFF_FN(d_embedding, fac_embedding(x, LONGS(1, 2, 1), .scale_grad_by_freq = false))

static void index_reduction_gradients_agree_with_differences(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const difference_case cases[] = {DIFF_CASE(d_sum), DIFF_CASE(d_mean), DIFF_CASE(d_prod), DIFF_CASE(d_amax),
                                            DIFF_CASE(d_embedding)};
    check_differences(cases, FAC_COUNT(cases),
                      FAC_TENSORS(irregular(FAC_INTS(3, 3), 0.3), irregular(FAC_INTS(2, 3), 1.3)));
}

/* ---- what lies where ---- */

/* Positions and elements of t, [rows, cols] of any strides, where it is not zero, as found one by one. */
static void check_places(fac_tensor *t) {
    fac_tensor *plain = fac_to(fac_contiguous(t), .dtype = FAC_F64), *same = fac_ne(t, 0);
    fac_tensor *at = fac_nonzero(t), *some = fac_nonzero_static(t, 1000, .fill_value = -1);
    fac_tensor *chosen = fac_to(fac_masked_select(t, same), .dtype = FAC_F64),
               *taken = fac_to(fac_index(t, FAC_TENSORS(same)), .dtype = FAC_F64);
    fac_tensor *put = fac_to(fac_masked_scatter(fac_zeros_like(t), same, fac_masked_select(t, same)), .dtype = FAC_F64);
    fac_tensor *written =
        fac_to(fac_index_put(t, FAC_TENSORS(same), fac_masked_select(fac_mul(t, 2), same)), .dtype = FAC_F64);
    assert_non_null(put);
    assert_non_null(written);
    const double *v = fac_tensor_data(plain), *c = fac_tensor_data(chosen), *i = fac_tensor_data(taken);
    const double *p = fac_tensor_data(fac_contiguous(put)), *w = fac_tensor_data(fac_contiguous(written));
    const int64_t *a = fac_tensor_data(at), *b = fac_tensor_data(some);
    const int64_t cols = fac_tensor_size(t, 1);
    int64_t found = 0;
    for (int64_t k = 0; k < fac_tensor_numel(t); k++) {
        assert_true(p[k] == v[k] && w[k] == 2 * v[k]);
        if (v[k] == 0) continue;
        assert_true(found < fac_tensor_size(at, 0) && a[2 * found] == k / cols && a[2 * found + 1] == k % cols);
        assert_true(c[found] == v[k] && i[found] == v[k]);
        if (found < 1000) assert_true(b[2 * found] == k / cols && b[2 * found + 1] == k % cols);
        found++;
    }
    assert_int_equal(fac_tensor_size(at, 0), found);
    assert_int_equal(fac_tensor_size(chosen, 0), found);
    assert_int_equal(fac_tensor_size(some, 0), 1000);
    for (int64_t k = found; k < 1000; k++) assert_true(b[2 * k] == -1 && b[2 * k + 1] == -1);
}

/* Counts are taken part by part, and each part writes behind those before it. */
static void index_finds_what_is_not_zero_in_any_layout(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_I16, FAC_BF16, FAC_F32, FAC_I64, FAC_F64, FAC_C64};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            FAC_SCOPE(s);
            const int before = fac_num_threads();
            assert_ok(fac_set_num_threads(threads));
            fac_tensor *few = fac_eq(fac_remainder(counting(301, 223), 97), 5), *many = fac_ne(few, 1);
            if (dtypes[i] == FAC_BOOL) { /* without a number to compare with twice */
                assert_int_equal(fac_tensor_size(fac_nonzero(few), 0) + fac_tensor_size(fac_nonzero(many), 0),
                                 301 * 223);
            } else {
                fac_tensor *x = fac_neg(fac_to(many, .dtype = dtypes[i])),
                           *y = fac_neg(fac_to(few, .dtype = dtypes[i]));
                check_places(x); /* zeros are -0 */
                check_places(y);
                check_places(fac_transpose(x, 0, 1));
                check_places(fac_slice(x, 1, .start = 1, .step = 3));
                check_places(fac_slice(y, 0, .start = 1, .step = 2));
                check_places(fac_slice(x, 0, .end = 2));
            }
            assert_ok(fac_set_num_threads(before));
        }
}

/* ---- failing allocations ---- */

static fac_status read_and_write(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = fac_zeros(FAC_SHAPE(3, 4)), *i = LONGS(0, 2);
    fac_tensor *t = fac_index(a, FAC_TENSORS(i, i));
    t = fac_index_put(a, FAC_TENSORS(NULL, i), t);
    t = fac_index_add(t, 1, i, fac_ones(FAC_SHAPE(3, 2)));
    t = fac_masked_select(t, fac_gt(t, 0));
    return t ? FAC_OK : fac_error();
}

static void index_gradients_that_nobody_wrote_fail_on_the_way_back(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_SHAPE(3)), true), *at = LONGS(0, 0);
    fac_tensor *added = fac_scatter_src_reduce(x, 0, at, fac_ones(FAC_SHAPE(2)), "add");
    assert_true(fac_requires_grad(added));
    assert_int_equal(fac_backward(fac_sum(added)), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "use scatter_add");
}

static void index_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(read_and_write, NULL);
}

FAC_TEST_MAIN(FAC_TEST(index_picks_slices_and_elements), FAC_TEST(index_separated_indices_come_first),
              FAC_TEST(index_writes_and_accumulates), FAC_TEST(index_scatter_reduces),
              FAC_TEST(index_elements_may_have_any_strides), FAC_TEST(index_halves_reduce_as_their_numbers),
              FAC_TEST(index_embedding_reads_rows), FAC_TEST(index_out_of_range_names_index_dimension_and_size),
              FAC_TEST(index_failed_write_leaves_everything_as_it_was), FAC_TEST(index_sums_do_not_depend_on_threads),
              FAC_TEST(index_gradients_agree_with_differences),
              FAC_TEST(index_reduction_gradients_agree_with_differences),
              FAC_TEST(index_finds_what_is_not_zero_in_any_layout),
              FAC_TEST(index_gradients_that_nobody_wrote_fail_on_the_way_back),
              FAC_TEST(index_survives_failing_allocations))
