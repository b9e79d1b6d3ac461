/* Bags of embeddings against sums, means and maxima of selected rows; gradients to second order; what is refused. */
#include "linalg_test.h"

static fac_tensor *integers(fac_ints v) { return fac_tensor_from(v.v, FAC_I64, FAC_INTS((int64_t)v.n)); }

enum { SUM, MEAN, MAX };

static fac_tensor *numbers_of(const int64_t *v, int64_t n) { return fac_tensor_from(v, FAC_I64, FAC_INTS(n)); }

/* The bag of rows [begin, end) of the indices, by other operators. */
static fac_tensor *expected_bag(fac_tensor *weight, const int64_t *indices, int64_t begin, int64_t end, int mode,
                                fac_tensor *scale, int64_t padding) {
    fac_tensor *rows[16];
    size_t n = 0;
    for (int64_t i = begin; i < end; i++) {
        if (indices[i] == padding) continue;
        fac_tensor *row = fac_select(weight, 0, indices[i]);
        rows[n++] = scale ? fac_mul(row, fac_select(scale, 0, i)) : row;
    }
    if (!n) return fac_zeros_like(fac_select(weight, 0, 0));
    fac_tensor *all = fac_stack(fac_tensors_of(rows, n));
    return mode == SUM ? fac_sum(all, 0) : mode == MEAN ? fac_mean(all, 0) : fac_amax(all, .dim = 0);
}

static const int64_t indices[] = {0, 3, 1, 1, 2, 3, 3}, offsets[] = {0, 2, 2, 6};
enum { N = 7, BAGS = 4, ROWS = 5 };

static void bags_are_sums_means_and_maxima(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F64, FAC_F32, FAC_F16, FAC_BF16};
    static const double tolerance[] = {1e-14, 1e-6, 1e-3, 8e-3};
    for (size_t d = 0; d < 4; d++)
        for (int mode = SUM; mode <= MAX; mode++)
            for (int64_t padding = -1; padding < 4; padding += 2) {
                FAC_SCOPE(s);
                static const int64_t widths[] = {1, 4, 8, 15, 16, 27, 32, 70, 300};
                for (size_t k = 0; k < FAC_COUNT(widths); k++) {
                    fac_tensor *low = random_of(dtypes[d], FAC_INTS(ROWS, widths[k])),
                               *weight = fac_to_dtype(low, FAC_F64);
                    fac_tensor *scale = mode == SUM ? random_of(dtypes[d], FAC_INTS(N)) : NULL, *want[BAGS];
                    fac_tensor *wide = scale ? fac_to_dtype(scale, FAC_F64) : NULL;
                    for (int b = 0; b < BAGS; b++)
                        want[b] = expected_bag(weight, indices, offsets[b], b + 1 < BAGS ? offsets[b + 1] : N, mode,
                                               wide, padding);
                    fac_tensor *all = fac_stack(fac_tensors_of(want, BAGS));
                    fac_opt_int pad = padding < 0 ? (fac_opt_int){0} : fac_opt_int_(padding);
                    fac_tensor *got =
                        fac_embedding_bag_padding_idx(low, numbers_of(indices, N), numbers_of(offsets, BAGS), false,
                                                      mode, false, scale, false, padding < 0 ? FAC_UNSET : pad.v)
                            .result0;
                    assert_near(got, all, tolerance[d]);
                }
            }
}

typedef struct form {
    int mode;
    bool by_freq;
} form;

static fac_status call_bag(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const form *f = context;
    (void)n;
    out[0] = fac_embedding_bag(in.v[0], numbers_of(indices, N), numbers_of(offsets, BAGS), .mode = f->mode,
                               .scale_grad_by_freq = f->by_freq, .per_sample_weights = in.n > 1 ? in.v[1] : NULL)
                 .result0;
    return fac_error();
}

static void bags_have_gradients_to_second_order(void **state) {
    (void)state;
    for (int mode = SUM; mode <= MAX; mode++) {
        FAC_SCOPE(s);
        form f = {mode, false};
        fac_tensors in = FAC_TENSORS(LEAF(ROWS, 3));
        assert_ok(fac_gradcheck(call_bag, &f, in, 1));
        assert_ok(fac_gradgradcheck(call_bag, &f, in, 1));
    }
    FAC_SCOPE(s);
    form f = {SUM, false};
    fac_tensors in = FAC_TENSORS(LEAF(ROWS, 3), LEAF(N));
    assert_ok(fac_gradcheck(call_bag, &f, in, 1));
    assert_ok(fac_gradgradcheck(call_bag, &f, in, 1));
}

/* Each row's gradient over how often it is used: 1, 2, 1 and 3 times. */
static void bags_scale_gradients_by_frequency(void **state) {
    (void)state;
    FAC_SCOPE(s);
    form f = {SUM, true};
    fac_tensor *weight = LEAF(ROWS, 2), *y;
    assert_ok(call_bag(&f, FAC_TENSORS(weight), &y, 1));
    assert_ok(fac_backward(fac_sum(y)));
    assert_close(fac_grad_of(weight), fac_reshape(fac_tensor_of(1, 1, 1, 1, 1, 1, 1, 1, 0, 0), FAC_INTS(ROWS, 2)));
}

static void bags_end_where_the_last_offset_says(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *weight = LEAF(ROWS, 2), *ends = integers(FAC_INTS(0, 2, 5));
    fac_embedding_bag_result r = fac_embedding_bag(weight, numbers_of(indices, N), ends, .include_last_offset = true);
    assert_sizes(r.result0, 2, 2);
    assert_close(r.result1, integers(FAC_INTS(0, 0, 1, 1, 1, -1, -1)));
    assert_close(r.result2, integers(FAC_INTS(2, 3)));
    assert_ok(fac_backward(fac_sum(r.result0)));
    assert_close(fac_select(fac_grad_of(weight), 1, 0), fac_tensor_of(1, 2, 1, 1, 0));
}

static void bags_refuse_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *weight = RANDOM(ROWS, 2), *at = numbers_of(indices, N), *from = numbers_of(offsets, BAGS);
    assert_null(fac_embedding_bag(weight, at, integers(FAC_INTS(1, 2))).result0);
    assert_error(FAC_ERR_ARGUMENT, "offsets[0] has to be 0");
    assert_null(fac_embedding_bag(weight, at, integers(FAC_INTS(0, 8))).result0);
    assert_error(FAC_ERR_ARGUMENT, "can not be greater than input's length(7)");
    assert_null(fac_embedding_bag(weight, at, integers(FAC_INTS(0, 3, 2))).result0);
    assert_error(FAC_ERR_ARGUMENT, "offsets must not decrease");
    assert_null(fac_embedding_bag(fac_narrow(weight, 0, 0, 3), at, from).result0);
    assert_error(FAC_ERR_INDEX, "index 3");
    assert_null(fac_embedding_bag(weight, at, from, .mode = MEAN, .per_sample_weights = RANDOM(N)).result0);
    assert_error(FAC_ERR_ARGUMENT, "only supported for mode='sum'");
    assert_null(fac_embedding_bag(weight, at, from, .mode = 3).result0);
    assert_error(FAC_ERR_ARGUMENT, "mode must be 0 (sum)");
    assert_null(fac_embedding_bag(weight, at, from, .sparse = true).result0);
    assert_error(FAC_ERR_UNSUPPORTED, "sparse must be false");
    assert_null(fac_embedding_bag(weight, RANDOM(7), from).result0);
    assert_error(FAC_ERR_DTYPE, "indices");
}

FAC_TEST_MAIN(FAC_TEST(bags_are_sums_means_and_maxima), FAC_TEST(bags_have_gradients_to_second_order),
              FAC_TEST(bags_scale_gradients_by_frequency), FAC_TEST(bags_end_where_the_last_offset_says),
              FAC_TEST(bags_refuse_bad_arguments))
