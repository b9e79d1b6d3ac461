/* Loops that go along vectors, beside the same operator in float64, which has loops of its own, or on strided numbers: sizes around
   the widths of vectors, tiles and strips. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

enum { MOST = 70000 };
static double got[MOST], want[MOST];

static fac_tensor *wide(fac_tensor *t) { return fac_to_dtype(t, FAC_F64); }

/* Both hold the same numbers, up to `apart` of their size. */
static void agree(const char *what, fac_tensor *a, fac_tensor *b, double apart) {
    assert_no_error();
    assert_non_null(a);
    assert_non_null(b);
    const size_t n = (size_t)fac_tensor_numel(a);
    assert_int_equal(n, fac_tensor_numel(b));
    assert_true(n <= MOST);
    assert_ok(fac_tensor_read(a, FAC_F64, got, n));
    assert_ok(fac_tensor_read(b, FAC_F64, want, n));
    for (size_t i = 0; i < n; i++) {
        if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))) continue;
        if (!(fabs(got[i] - want[i]) <= apart * (1 + fabs(want[i]))))
            fail_msg("%s, element %zu: %.9g, not %.9g", what, i, got[i], want[i]);
    }
}

static const int64_t widths[] = {1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130};

static void rows_of_any_length_agree_with_float64(void **state) {
    (void)state;
    fac_manual_seed(1);
    for (size_t k = 0; k < FAC_COUNT(widths); k++) {
        FAC_SCOPE(s);
        const int64_t n = widths[k];
        fac_tensor *x = fac_randn(FAC_INTS(37, n)), *w = fac_randn(FAC_INTS(n)), *b = fac_randn(FAC_INTS(n));
        agree("softmax", fac_softmax(x, 1), fac_softmax(wide(x), 1), 1e-6);
        agree("log_softmax", fac_log_softmax(x, 1), fac_log_softmax(wide(x), 1), 1e-5);
        agree("layer_norm", fac_layer_norm(x, FAC_INTS(n), .weight = w, .bias = b),
              fac_layer_norm(wide(x), FAC_INTS(n), .weight = wide(w), .bias = wide(b)), 1e-4);
        agree("rms_norm", fac_rms_norm(x, FAC_INTS(n), .weight = w, .eps = 1e-5),
              fac_rms_norm(wide(x), FAC_INTS(n), .weight = wide(w), .eps = 1e-5), 1e-5);
        agree("logsumexp over rows", fac_logsumexp(x, FAC_INTS(0)), fac_logsumexp(wide(x), FAC_INTS(0)), 1e-5);
        agree("norm", fac_linalg_vector_norm(x, .dim = 1), fac_linalg_vector_norm(wide(x), .dim = 1), 1e-5);
        agree("prod", fac_prod_dim(x, 1), fac_prod_dim(wide(x), 1), 1e-4);
        agree("nansum", fac_nansum(x), fac_nansum(wide(x)), 1e-5);
        fac_max_dim_result most = fac_max_dim(x, 1), most64 = fac_max_dim(wide(x), 1);
        agree("max", most.values, most64.values, 0);
        agree("argmax", most.indices, most64.indices, 0);
        fac_cummax_result top = fac_cummax(x, 1), top64 = fac_cummax(wide(x), 1);
        agree("cummax", top.values, top64.values, 0);
        agree("cummax's places", top.indices, top64.indices, 0);
        fac_tensor *whole = fac_randint(1000, FAC_INTS(5, n));
        agree("cumsum", fac_cumsum(whole, 1), fac_cumsum(wide(whole), 1), 0);
    }
}

/* Rows that are summed side by side have the bits of a row alone; so have norms of floats. */
static void sums_of_rows_do_not_depend_on_their_neighbours(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 3, 6, 7, 12, 15, 16, 31, 32, 33, 63, 64, 65, 130, 511, 512, 513};
    for (size_t k = 0; k < 2 * FAC_COUNT(lengths); k++) {
        FAC_SCOPE(s);
        const int64_t n = lengths[k / 2];
        fac_tensor *x = fac_randn(FAC_INTS(101, n + 3), .dtype = k % 2 ? FAC_F64 : FAC_F32),
                   *some = fac_narrow(x, 1, 1, n);
        fac_tensor *sums = fac_sum(some, .dim = 1), *norms = fac_linalg_vector_norm(some, .dim = 1);
        for (int64_t i = 0; i < 101; i++) {
            FAC_SCOPE(each);
            fac_tensor *row = fac_narrow(some, 0, i, 1);
            agree("sum", fac_select(sums, 0, i), fac_squeeze(fac_sum(row, .dim = 1)), 0);
            if (k % 2 == 0)
                agree("norm", fac_select(norms, 0, i), fac_squeeze(fac_linalg_vector_norm(row, .dim = 1)), 0);
        }
    }
}

/* Points that fill strips and blocks, and some more; coordinates that are met in two parts. */
static void distances_of_any_number_of_points_agree_with_float64(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{5, 32, 7}, {37, 70, 300}, {130, 33, 128}, {4, 96, 129}};
    static const double powers[] = {0, 1, 2, 3.5, INFINITY};
    for (size_t k = 0; k < FAC_COUNT(shapes) * FAC_COUNT(powers); k++) {
        FAC_SCOPE(s);
        const int64_t *shape = shapes[k / FAC_COUNT(powers)];
        const double p = powers[k % FAC_COUNT(powers)];
        fac_tensor *a = fac_randint(9, FAC_INTS(shape[0], shape[2])), *b = fac_randint(9, FAC_INTS(shape[1], shape[2]));
        fac_tensor *x = fac_to_dtype(a, FAC_F32), *y = fac_to_dtype(b, FAC_F32);
        fac_tensor *apart = fac_sub(fac_unsqueeze(wide(x), 1), wide(y));
        agree("cdist", fac_cdist(x, y, .p = p), fac_linalg_vector_norm(apart, .ord = p, .dim = 2), 1e-6);
        agree("cdist in double", fac_cdist(wide(x), wide(y), .p = p), fac_linalg_vector_norm(apart, .ord = p, .dim = 2),
              1e-13);
        agree("pdist", fac_pdist(y, .p = p), fac_pdist(wide(y), .p = p), 1e-6);
    }
}

/* What is copied to every other place leaves those between alone, in the last vector too. */
static void parts_of_complex_numbers_lie_beside_each_other(void **state) {
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(widths); k++) {
        FAC_SCOPE(s);
        const int64_t n = widths[k];
        fac_tensor *re = fac_randn(FAC_INTS(3, n)), *im = fac_randn(FAC_INTS(3, n));
        fac_tensor *z = fac_complex_from_parts(re, im), *w = fac_complex_from_parts(wide(re), wide(im));
        agree("real", fac_real(z), re, 0), agree("imag", fac_imag(z), im, 0);
        agree("real of doubles", fac_real(w), re, 0), agree("imag of doubles", fac_imag(w), im, 0);
        fac_tensor *pairs = fac_full(FAC_INTS(n, 2), 7.0);
        fac_copy_(fac_select(pairs, 1, 0), fac_select(re, 0, 1));
        agree("left alone", fac_select(pairs, 1, 1), fac_full(FAC_INTS(n), 7.0), 0);
        agree("first of pairs", fac_select(pairs, 1, 0), fac_select(re, 0, 1), 0);
    }
}

static void losses_of_classes_agree_with_float64(void **state) {
    (void)state;
    fac_manual_seed(2);
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_INTS(700, 19)), *w = fac_rand(FAC_INTS(19)), *t = fac_randint(19, FAC_INTS(700));
    static const fac_loss_reduction reductions[] = {FAC_REDUCTION_NONE, FAC_REDUCTION_MEAN, FAC_REDUCTION_SUM};
    for (size_t k = 0; k < FAC_COUNT(reductions); k++) {
        const fac_loss_reduction reduction = reductions[k];
        agree("nll_loss", fac_nll_loss(x, t, .reduction = reduction, .ignore_index = 3),
              fac_nll_loss(wide(x), t, .reduction = reduction, .ignore_index = 3), 1e-5);
        agree("weighted nll_loss", fac_nll_loss(x, t, .weight = w, .reduction = reduction, .ignore_index = 3),
              fac_nll_loss(wide(x), t, .weight = wide(w), .reduction = reduction, .ignore_index = 3), 1e-5);
        agree("multi_margin_loss", fac_multi_margin_loss(x, t, .reduction = reduction),
              fac_multi_margin_loss(wide(x), t, .reduction = reduction), 1e-5);
    }
    /* Minus the mean of what is picked, of those that count. */
    fac_tensor *counts = wide(fac_ne(t, 3)), *picked = fac_squeeze_dim(fac_gather(wide(x), 1, fac_unsqueeze(t, 1)), 1);
    agree("nll_loss by hand", fac_nll_loss(x, t, .ignore_index = 3),
          fac_neg(fac_div(fac_sum(fac_mul(picked, counts)), fac_sum(counts))), 1e-6);
}

static void a_target_in_a_later_tile_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static int64_t targets[600];
    targets[599] = 4;
    fac_tensor *t = fac_tensor_from(targets, FAC_I64, FAC_INTS(600));
    assert_null(fac_nll_loss(fac_randn(FAC_INTS(600, 4)), t));
    assert_error(FAC_ERR_INDEX, "Target 4");
}

static void pools_agree_with_float64(void **state) {
    (void)state;
    fac_manual_seed(3);
    for (int64_t w = 2; w < 72; w += 5) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(FAC_INTS(2, 3, 4, 6, w));
        x = fac_masked_fill(x, fac_gt(x, 2.0), NAN);
        fac_max_pool3d_with_indices_result m = fac_max_pool3d_with_indices(x, FAC_INTS(2, 2, 2)),
                                           m64 = fac_max_pool3d_with_indices(wide(x), FAC_INTS(2, 2, 2));
        agree("max_pool3d", m.result0, m64.result0, 0);
        agree("max_pool3d's places", m.result1, m64.result1, 0);
        fac_tensor *y = fac_randn(FAC_INTS(3, 9, w));
        agree("adaptive_avg_pool2d", fac_adaptive_avg_pool2d(y, FAC_INTS(4, 2)),
              fac_adaptive_avg_pool2d(wide(y), FAC_INTS(4, 2)), 1e-5);
        agree("avg_pool2d", fac_avg_pool2d(y, FAC_INTS(2, 2), .paddings = FAC_INTS(1, 1)),
              fac_avg_pool2d(wide(y), FAC_INTS(2, 2), .paddings = FAC_INTS(1, 1)), 1e-5);
    }
}

static fac_tensor *some(fac_ints sizes, double share) {
    return fac_mul(fac_randn(sizes, .dtype = FAC_F64), fac_lt(fac_rand(sizes), share));
}

static void sparse_sums_agree_with_dense_ones(void **state) {
    (void)state;
    fac_manual_seed(4);
    static const double shares[] = {0, 0.01, 0.3, 1};
    for (size_t k = 0; k < FAC_COUNT(shares); k++) {
        FAC_SCOPE(s);
        fac_tensor *a = some(FAC_INTS(41, 67), shares[k]), *b = some(FAC_INTS(41, 67), 0.2),
                   *m = some(FAC_INTS(67, 70), 1);
        fac_tensor *both = fac_add(fac_to_sparse(a), fac_to_sparse(b)),
                   *three = fac_add(fac_add(both, fac_to_sparse(b)), fac_to_sparse(a));
        agree("COO + COO", fac_to_dense(both), fac_add(a, b), 1e-14);
        agree("three sums", fac_to_dense(three), fac_add(fac_add(fac_add(a, b), b), a), 1e-14);
        agree("CSC", fac_to_dense(fac_to_sparse_csc(a)), a, 0);
        agree("CSR x dense", fac_mm(fac_to_sparse_csr(a), m), fac_mm(a, m), 1e-12);
        agree("CSR x vector", fac_mv(fac_to_sparse_csr(a), fac_select(m, 1, 5)), fac_mv(a, fac_select(m, 1, 5)), 1e-12);
        agree("CSR x dense in float32", fac_mm(fac_to_sparse_csr(fac_to_dtype(a, FAC_F32)), fac_to_dtype(m, FAC_F32)),
              fac_mm(a, m), 1e-4);
        agree("COO x COO", fac_to_dense(fac_mm(fac_to_sparse(a), fac_to_sparse(m))), fac_mm(a, m), 1e-12);
    }
}

/* The result's codes are those of the convolution of the numbers, or beside them where it lies in the middle. */
static void quantized_conv(int64_t channels, int64_t out, int64_t groups, fac_dtype dtype) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_quantize_per_tensor(fac_randn(FAC_INTS(2, channels, 7, 9)), 0.05, 3, dtype);
    fac_tensor *w = fac_quantize_per_tensor(fac_randn(FAC_INTS(out, channels / groups, 3, 3)), 0.04, 2, FAC_QINT8);
    fac_tensor *bias = fac_randn(FAC_INTS(out));
    const fac_ints one = FAC_INTS(1, 1), two = FAC_INTS(2, 1);
    fac_tensor *y = fac_quantized_conv2d(x, w, bias, two, one, one, groups, 0.2, 5);
    fac_tensor *numbers = fac_conv2d(wide(fac_dequantize(x)), wide(fac_dequantize(w)), wide(bias), .strides = two,
                                     .paddings = one, .groups = groups);
    const double least = dtype == FAC_QUINT8 ? 0 : -128;
    fac_tensor *codes = fac_add(fac_round(fac_div(numbers, 0.2)), 5.0);
    codes = fac_minimum(fac_maximum(codes, fac_full_like(codes, least)), fac_full_like(codes, least + 255));
    fac_tensor *apart = fac_max(fac_abs(fac_sub(wide(fac_int_repr(y)), codes)));
    assert_no_error();
    if (fac_item(apart) > 1) fail_msg("%lld channels: codes are %g apart", (long long)channels, fac_item(apart));
}

static void quantized_convolutions_agree_with_those_of_numbers(void **state) {
    (void)state;
    fac_manual_seed(5);
    static const int64_t shapes[][3] = {{3, 5, 1},    {8, 17, 1}, {16, 70, 1}, {24, 6, 2},
                                        {20, 20, 20}, {4, 4, 4},  {16, 32, 16}};
    for (size_t k = 0; k < FAC_COUNT(shapes); k++) {
        quantized_conv(shapes[k][0], shapes[k][1], shapes[k][2], FAC_QUINT8);
        quantized_conv(shapes[k][0], shapes[k][1], shapes[k][2], FAC_QINT8);
    }
}

FAC_TEST_MAIN(FAC_TEST(rows_of_any_length_agree_with_float64), FAC_TEST(sums_of_rows_do_not_depend_on_their_neighbours),
              FAC_TEST(parts_of_complex_numbers_lie_beside_each_other),
              FAC_TEST(distances_of_any_number_of_points_agree_with_float64),
              FAC_TEST(losses_of_classes_agree_with_float64), FAC_TEST(a_target_in_a_later_tile_is_refused),
              FAC_TEST(pools_agree_with_float64), FAC_TEST(sparse_sums_agree_with_dense_ones),
              FAC_TEST(quantized_convolutions_agree_with_those_of_numbers))
