/* Operators whose kernels go other ways where operands lie otherwise: transposed, with gaps or channels innermost they give what
   row-major ones give, gradients too, with any number of threads. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

typedef fac_tensor *call_fn(fac_tensor *x, fac_tensor *y);

static fac_tensor *batch_norm(fac_tensor *x, fac_tensor *y) {
    return fac_batch_norm(x, y, NULL, NULL, NULL, true, 0.1, 1e-5, false);
}
static fac_tensor *addr(fac_tensor *x, fac_tensor *y) { return fac_addr(x, fac_select(x, 1, 0), y, .beta = 2.0); }
static fac_tensor *softmax(fac_tensor *x, fac_tensor *y) { return fac_mul(fac_softmax(x, 1), y); }
static fac_tensor *log_softmax(fac_tensor *x, fac_tensor *y) { return fac_mul(fac_log_softmax(x, 1), y); }
static fac_tensor *largest(fac_tensor *x, fac_tensor *y) { return fac_add(fac_max_dim(x, 1).values, fac_sum(y)); }
static fac_tensor *cross_last(fac_tensor *x, fac_tensor *y) { return fac_linalg_cross(x, y); }
static fac_tensor *cross_first(fac_tensor *x, fac_tensor *y) { return fac_linalg_cross(x, y, .dim = 0); }

static const struct {
    call_fn *call;
    int64_t x[2], y[2]; /* y[1] 0: of one dimension */
} calls[] = {{batch_norm, {67, 19}, {19}},
             {batch_norm, {5, 1}, {1}},
             {batch_norm, {40, 130}, {130}},
             {addr, {33, 18}, {18}},
             {addr, {2, 1}, {1}},
             {softmax, {35, 50}, {50}},
             {softmax, {1, 17}, {17}},
             {log_softmax, {35, 50}, {50}},
             {log_softmax, {40, 15}, {15}},
             {softmax, {1000, 1}, {1}},
             {softmax, {300, 3}, {3}},
             {log_softmax, {70, 64}, {64}},
             {largest, {300, 1}, {2}},
             {largest, {300, 7}, {2}},
             {cross_last, {1500, 3}, {1500, 3}},
             {cross_last, {1, 3}, {700, 3}},
             {cross_first, {3, 41}, {3, 41}},
             {cross_last, {0, 3}, {0, 3}},
             {cross_first, {3, 10000}, {3, 1}},
             {cross_last, {9000, 3}, {9000, 3}}};

/* The same numbers: as they are, transposed, and every second of a larger tensor. */
static fac_tensor *lying(fac_tensor *t, int how) {
    if (how == 1 && fac_tensor_ndim(t) == 2) return fac_transpose(fac_contiguous(fac_transpose(t, 0, 1)), 0, 1);
    if (how != 2) return fac_clone(t);
    const int64_t last = fac_tensor_ndim(t) - 1;
    fac_tensor *wide = fac_repeat_interleave_self_int(t, 2, .dim = last);
    return fac_slice(wide, last, .start = 1, .step = 2);
}

/* A call's result and gradients, of operands that lie so. What reaches the result follows from `like`, or the result itself. */
static void run(call_fn *call, fac_tensor *x, fac_tensor *y, int how, fac_tensor *like, fac_tensor *out[3]) {
    fac_tensor *a = fac_set_requires_grad(fac_detach(lying(x, how)), true);
    fac_tensor *b = fac_set_requires_grad(fac_detach(lying(y, how)), true);
    fac_tensor *made = call(a, b);
    assert_non_null(made);
    fac_tensor *reaching = fac_to_dtype(fac_cos(like ? like : fac_detach(made)), fac_tensor_dtype(made));
    assert_ok(fac_grad(FAC_TENSORS(made), FAC_TENSORS(a, b), out + 1, .grad_outputs = FAC_TENSORS(reaching)));
    out[0] = fac_detach(made);
}

/* Beside the largest of all. */
static void are_close(fac_tensor *got, fac_tensor *want, fac_dtype dtype, size_t which) {
    const double most = dtype == FAC_BF16 ? 0.04 : dtype == FAC_F32 ? 3e-5 : 1e-12;
    assert_true(fac_tensor_numel(got) == fac_tensor_numel(want));
    if (fac_tensor_numel(want) == 0) return;
    const double away = fac_item(fac_max(fac_abs(fac_sub(fac_to_dtype(got, FAC_F64), want)))),
                 largest = fac_item(fac_max(fac_abs(want)));
    if (!(away <= most * (1 + largest))) fail_msg("call %zu, %s: %g away", which, fac_dtype_name(dtype), away);
}

static void operands_that_lie_differently_give_the_same(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16};
    const int were = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(calls); i++)
        for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
            FAC_SCOPE(s);
            const fac_ints of_x = {calls[i].x, 2}, of_y = {calls[i].y, calls[i].y[1] ? 2 : 1};
            fac_tensor *x = fac_to_dtype(fac_randn(of_x), dtypes[d]), *y = fac_to_dtype(fac_randn(of_y), dtypes[d]);
            fac_tensor *want[3];
            run(calls[i].call, fac_to_dtype(x, FAC_F64), fac_to_dtype(y, FAC_F64), 0, NULL, want);
            for (int how = 0; how < 3; how++) {
                fac_tensor *got[2][3];
                for (int many = 0; many < 2; many++) {
                    assert_ok(fac_set_num_threads(many ? 5 : 1));
                    run(calls[i].call, x, y, how, want[0], got[many]);
                }
                for (int k = 0; k < 3; k++) {
                    are_close(got[0][k], want[k], dtypes[d], i);
                    assert_true(fac_equal(got[0][k], got[1][k]));
                }
            }
        }
    assert_ok(fac_set_num_threads(were));
}

/* Elements by hand: of numbers so small that nothing is rounded. */
static void cross_products_by_hand(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randint(9, FAC_SHAPE(37, 3), .dtype = FAC_F32),
               *y = fac_randint(9, FAC_SHAPE(37, 3), .dtype = FAC_F32);
    fac_tensor *first = fac_linalg_cross(fac_transpose(x, 0, 1), fac_transpose(y, 0, 1), .dim = 0);
    float a[111], b[111], got[111], turned[111];
    assert_ok(fac_tensor_read(x, FAC_F32, a, 111));
    assert_ok(fac_tensor_read(y, FAC_F32, b, 111));
    assert_ok(fac_tensor_read(fac_linalg_cross(x, y), FAC_F32, got, 111));
    assert_ok(fac_tensor_read(first, FAC_F32, turned, 111));
    for (int i = 0; i < 111; i++) {
        const int r = i / 3 * 3, p = r + (i + 1) % 3, q = r + (i + 2) % 3;
        assert_true(got[i] == a[p] * b[q] - a[q] * b[p]);
        assert_true(turned[i % 3 * 37 + i / 3] == got[i]);
    }
}

/* Planes that are copied one at a time: more than a megabyte of them, with gaps. */
static void pooled_planes_with_gaps(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F64, FAC_BF16, FAC_I32};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to_dtype(fac_randint_low(-90, 90, FAC_SHAPE(3, 4, 11, 64, 70)), dtypes[d]);
        fac_tensor *gaps = lying(x, 2);
        assert_false(fac_tensor_is_contiguous(gaps));
        const fac_adaptive_max_pool3d_result want = fac_adaptive_max_pool3d(x, FAC_INTS(3, 5, 4)),
                                             got = fac_adaptive_max_pool3d(gaps, FAC_INTS(3, 5, 4));
        assert_true(fac_equal(got.result0, want.result0) && fac_equal(got.result1, want.result1));
        if (dtypes[d] == FAC_I32) continue;
        const fac_ints sizes = FAC_INTS(12, 11 * 64, 70);
        fac_tensor *mean = fac_avg_pool2d(fac_view(x, sizes), FAC_INTS(3, 2));
        fac_tensor *turned = fac_avg_pool2d(lying(fac_view(x, sizes), 2), FAC_INTS(3, 2));
        assert_true(fac_equal(mean, turned));
    }
}

/* Means of windows whose channels are innermost, of a number that is no multiple of a vector. */
/* More bytes than fit: an error, whichever way is taken. */
static void planes_beyond_memory_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int was = fac_num_threads();
    fac_tensor *one = fac_zeros(FAC_SHAPE(1, 1, 1, 2), .dtype = FAC_F64);
    fac_tensor *many = fac_expand(one, FAC_INTS(2, 2, INT64_C(1) << 59, 2));
    assert_ok(fac_set_num_threads(1));
    assert_null(fac_adaptive_max_pool2d(many, FAC_INTS(2, 2)).result0);
    assert_error(FAC_ERR_OVERFLOW, "");
    assert_ok(fac_set_num_threads(was));
}

static void means_of_innermost_channels(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_BF16, FAC_F16, FAC_F64};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int64_t channels = 1; channels < 150; channels += channels < 20 ? 5 : 43) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_randn(FAC_SHAPE(2, channels, 7, 6)), dtypes[d]);
            fac_fill_(fac_select(fac_select(x, 3, 2), 2, 3), NAN);
            fac_tensor *last = fac_contiguous(x, .memory_format = FAC_CHANNELS_LAST);
            fac_tensor *want = fac_avg_pool2d(x, FAC_INTS(3, 2), .strides = FAC_INTS(2, 2), .paddings = FAC_INTS(1, 1)),
                       *got =
                           fac_avg_pool2d(last, FAC_INTS(3, 2), .strides = FAC_INTS(2, 2), .paddings = FAC_INTS(1, 1));
            const double most = dtypes[d] == FAC_F64 ? 1e-12 : dtypes[d] == FAC_F32 ? 1e-5 : 0.02;
            assert_true(fac_allclose(got, want, .rtol = most, .atol = most, .equal_nan = true));
        }
}

FAC_TEST_MAIN(FAC_TEST(operands_that_lie_differently_give_the_same), FAC_TEST(cross_products_by_hand),
              FAC_TEST(pooled_planes_with_gaps), FAC_TEST(planes_beyond_memory_are_refused),
              FAC_TEST(means_of_innermost_channels))
