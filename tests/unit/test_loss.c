/* Losses: closed forms, both paths of cross entropy, gradients of any order, bad targets. */
#include "grad_cases.h"

#define CLASSES(...)                                         \
    fac_tensor_from((const int64_t[]){__VA_ARGS__}, FAC_I64, \
                    FAC_INTS(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define WEIGHTS fac_tensor_from((const double[]){0.5, 1.0, 2.0, 0.25}, FAC_F64, FAC_INTS(4))
#define SUM .reduction = FAC_REDUCTION_SUM
#define NONE .reduction = FAC_REDUCTION_NONE
#define PLANES fac_view(CLASSES(0, 1, 2, 0, 1, 1, 2, 0), FAC_INTS(2, 2, 2))

/* Losses with a kink take inputs in a range, and parameters, that keep clear of it. */
#define CASES(X)                                                                                                       \
    X(mse, 1, "2,3;2,3", -1, 1, out[0] = fac_mse_loss(x[0], x[1]))                                                     \
    X(mse_sum, 1, "2,3;3", -1, 1, out[0] = fac_mse_loss(x[0], x[1], SUM))                                              \
    X(mse_none, 1, "2,3;2,3", -1, 1, out[0] = fac_mse_loss(x[0], x[1], NONE))                                          \
    X(l1, 1, "2,3;2,3", -1, 1, out[0] = fac_l1_loss(x[0], x[1]))                                                       \
    X(smooth_l1, 1, "2,3;2,3", -1, 1, out[0] = fac_smooth_l1_loss(x[0], x[1], .beta = 0.7))                            \
    X(smooth_l1_zero, 1, "2,3;2,3", -1, 1, out[0] = fac_smooth_l1_loss(x[0], x[1], SUM, .beta = 0))                    \
    X(huber, 1, "2,3;2,3", -1, 1, out[0] = fac_huber_loss(x[0], x[1], NONE, .delta = 0.7))                             \
    X(bce, 1, "2,3;2,3", 0.1, 0.9, out[0] = fac_binary_cross_entropy(x[0], x[1]))                                      \
    X(bce_weight, 1, "2,3;2,3", 0.1, 0.9,                                                                              \
      out[0] = fac_binary_cross_entropy(x[0], x[1], SUM,                                                               \
                                        .weight = fac_tensor_from((const double[]){0.5, 2, 3}, FAC_F64, FAC_INTS(3)))) \
    X(bce_logits, 1, "2,3;2,3;3", -1, 1,                                                                               \
      out[0] = fac_binary_cross_entropy_with_logits(x[0], x[1], .pos_weight = x[2]))                                   \
    X(kl, 1, "2,3;2,3", 0.1, 0.9, out[0] = fac_kl_div(x[0], x[1]))                                                     \
    X(kl_log, 1, "2,3;2,3", 0.1, 0.9, out[0] = fac_kl_div(x[0], x[1], .log_target = true))                             \
    X(nll, 1, "3,4", -1, 1, out[0] = fac_nll_loss(x[0], CLASSES(1, 3, 0), .weight = WEIGHTS))                          \
    X(nll_none, 1, "3,4", -1, 1, out[0] = fac_nll_loss(x[0], CLASSES(1, -100, 0), NONE))                               \
    X(nll_one, 1, "4", -1, 1, out[0] = fac_nll_loss(x[0], fac_select(CLASSES(2), 0, 0)))                               \
    X(nll_planes, 1, "2,3,2,2", -1, 1, out[0] = fac_nll_loss_nd(x[0], PLANES))                                         \
    X(nll_line, 1, "2,3,4", -1, 1, out[0] = fac_nll_loss_nd(x[0], fac_view(PLANES, FAC_INTS(2, 4)), NONE))             \
    X(cross_entropy, 1, "3,4", -1, 1, out[0] = fac_cross_entropy(x[0], CLASSES(1, 3, 0)))                              \
    X(cross_entropy_sum, 1, "3,4", -1, 1,                                                                              \
      out[0] = fac_cross_entropy(x[0], CLASSES(1, -100, 0), SUM, .weight = WEIGHTS))                                   \
    X(cross_entropy_none, 1, "3,4", -1, 1,                                                                             \
      out[0] = fac_cross_entropy(x[0], CLASSES(1, 3, -100), NONE, .weight = WEIGHTS))                                  \
    X(cross_entropy_mean, 1, "3,4", -1, 1, out[0] = fac_cross_entropy(x[0], CLASSES(1, 3, 2), .weight = WEIGHTS))      \
    X(cross_entropy_smooth, 1, "3,4", -1, 1,                                                                           \
      out[0] = fac_cross_entropy(x[0], CLASSES(1, 3, -100), .weight = WEIGHTS, .label_smoothing = 0.2))                \
    X(cross_entropy_soft, 1, "3,4;3,4", 0.1, 1, out[0] = fac_cross_entropy(x[0], x[1], .label_smoothing = 0.1))        \
    X(cross_entropy_planes, 1, "2,3,2,2", -1, 1, out[0] = fac_cross_entropy(x[0], PLANES))                             \
    X(hinge, 1, "4", -1, 0.9, out[0] = fac_hinge_embedding_loss(x[0], fac_tensor_of(1, -1, 1, -1)))                    \
    X(ranking, 1, "4;4", -1, 1,                                                                                        \
      out[0] = fac_margin_ranking_loss(x[0], x[1], fac_tensor_of(1, -1, 1, -1), .margin = 0.3))                        \
    X(soft_margin, 1, "4", -1, 1, out[0] = fac_soft_margin_loss(x[0], fac_tensor_of(1, -1, 1, -1)))                    \
    X(poisson, 1, "4", -1, 1, out[0] = fac_poisson_nll_loss(x[0], fac_tensor_of(1, 2, 3, 0), true, true, 1e-8, 1))     \
    X(cosine, 1, "2,3;2,3", 0.1, 1, out[0] = fac_cosine_similarity(x[0], x[1]))                                        \
    X(cosine_embedding, 1, "2,3;2,3", 0.1, 1, out[0] = fac_cosine_embedding_loss(x[0], x[1], fac_tensor_of(1, -1)))

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void loss_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
}
static void loss_second_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

static void assert_item(fac_tensor *t, double want) {
    assert_no_error();
    double got = fac_item(t);
    assert_no_error();
    assert_near(got, want, 1e-5 * (1 + fabs(want)));
}

static void losses_have_their_closed_forms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(0, 2, -3), *t = fac_tensor_of(1, 0, 0);
    assert_item(fac_mse_loss(x, t), (1 + 4 + 9) / 3.0);
    assert_item(fac_mse_loss(x, t, SUM), 14);
    assert_item(fac_l1_loss(x, t), 2);
    assert_item(fac_smooth_l1_loss(x, t, SUM), 0.5 + 1.5 + 2.5);
    assert_item(fac_huber_loss(x, t, SUM, .delta = 2), 0.5 + 2 + 2 * (3 - 1));
    assert_item(fac_binary_cross_entropy(fac_tensor_of(0.25f, 1), fac_tensor_of(1, 1), SUM), -log(0.25));
    assert_item(fac_binary_cross_entropy(fac_tensor_of(0), fac_tensor_of(1)), 100);
    assert_item(fac_binary_cross_entropy_with_logits(fac_tensor_of(1000), fac_tensor_of(0)), 1000);
    assert_item(fac_kl_div(fac_tensor_of(-1, -2), fac_tensor_of(0, 1), SUM), 2);
}

/* Uniform logits: log(C), whatever the target; large ones do not overflow. */
static void cross_entropy_has_its_closed_form(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = CLASSES(4, 0, 2);
    assert_item(fac_cross_entropy(fac_full(FAC_SHAPE(3, 5), 7.0), t), log(5));
    assert_item(fac_cross_entropy(fac_full(FAC_SHAPE(3, 5), 7.0), t, .label_smoothing = 0.5), log(5));
    fac_tensor *far = fac_tensor_from((const float[]){1000, 0, 0, -1000, 0, 0}, FAC_F32, FAC_INTS(2, 3));
    assert_item(fac_cross_entropy(far, CLASSES(0, 0), SUM), 1000 + log(2));
    assert_item(fac_cross_entropy(far, CLASSES(-100, 0)), 1000 + log(2));
}

/* The fused form against log_softmax and nll_loss, in every dtype and layout of the logits. */
static void fused_cross_entropy_agrees_with_its_parts(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16};
    static float v[37 * 50];
    int64_t target[37];
    for (int i = 0; i < 37 * 50; i++) v[i] = (float)(3 * sin(0.7 * i));
    for (int i = 0; i < 37; i++) target[i] = i % 9 == 4 ? -100 : (i * 7) % 50;
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        double got[37 * 50], want[37 * 50], tolerance = k < 2 ? 1e-5 : 2e-2;
        fac_tensor *t = fac_tensor_from(target, FAC_I64, FAC_INTS(37));
        fac_tensor *x = fac_to_dtype(fac_tensor_from(v, FAC_F32, FAC_INTS(50, 37)), dtypes[k]);
        fac_tensor *a = fac_set_requires_grad(fac_detach(fac_t(x)), true),
                   *b = fac_set_requires_grad(fac_contiguous(fac_detach(fac_t(x))), true);
        fac_tensor *one = fac_cross_entropy(a, t), *two = fac_nll_loss(fac_log_softmax(b, 1), t);
        double first = fac_item(one), second = fac_item(two);
        assert_near(first, second, tolerance * 4);
        assert_ok(fac_backward(one));
        assert_ok(fac_backward(two));
        assert_ok(fac_tensor_read(fac_grad_of(a), FAC_F64, got, 37 * 50));
        assert_ok(fac_tensor_read(fac_grad_of(b), FAC_F64, want, 37 * 50));
        for (int i = 0; i < 37 * 50; i++) assert_near(got[i], want[i], tolerance * 0.1);
    }
}

/* Losses and their gradients do not depend on how operands lie. */
static void losses_are_the_same_in_every_layout(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16};
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++)
        for (int turned = 0; turned < 8; turned++) {
            FAC_SCOPE(s);
            fac_tensor *x = fac_to_dtype(fac_randn(FAC_SHAPE(40, 70)), dtypes[k]);
            fac_tensor *y = fac_to_dtype(fac_randn(FAC_SHAPE(40, 70)), dtypes[k]);
            fac_tensor *there = fac_t(fac_contiguous(fac_t(x))), *far = fac_t(fac_contiguous(fac_t(y)));
            fac_tensor *a = fac_set_requires_grad(fac_detach(turned & 1 ? there : x), true);
            fac_tensor *b = fac_set_requires_grad(fac_clone(x), true);
            fac_tensor *one = fac_huber_loss(a, turned & 2 ? far : y, .reduction = FAC_REDUCTION_NONE),
                       *two = fac_huber_loss(b, y, .reduction = FAC_REDUCTION_NONE);
            assert_true(fac_equal(one, two));
            fac_tensor *weights = fac_to_dtype(fac_randn(FAC_SHAPE(40, 70)), dtypes[k]);
            fac_tensor *across = fac_t(fac_contiguous(fac_t(weights)));
            assert_ok(fac_backward(fac_sum(fac_mul(one, turned & 4 ? across : weights))));
            assert_ok(fac_backward(fac_sum(fac_mul(two, weights))));
            assert_true(fac_equal(fac_grad_of(a), fac_grad_of(b)));
            assert_near(fac_item(fac_mse_loss(there, y)), fac_item(fac_mse_loss(x, y)), 1e-2);
            assert_no_error();
        }
}

static void bad_targets_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(2, 3));
    static const int64_t bad[] = {3, -1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        assert_null(fac_cross_entropy(x, CLASSES(0, bad[i])));
        assert_error(FAC_ERR_INDEX, "is out of bounds for ");
        assert_null(fac_nll_loss(x, CLASSES(bad[i], 0)));
        assert_error(FAC_ERR_INDEX, "is out of bounds for ");
    }
    assert_null(fac_nll_loss(x, CLASSES(0, 1, 2)));
    assert_error(FAC_ERR_SHAPE, "size mismatch (got input: [2, 3], target: [3])");
    assert_null(fac_cross_entropy(x, fac_tensor_of(0, 1)));
    assert_error(FAC_ERR_DTYPE, "expected classes of type int64, but got float32");
    assert_null(fac_binary_cross_entropy(fac_tensor_of(1.5f), fac_tensor_of(1)));
    assert_error(FAC_ERR_ARGUMENT, "between 0 and 1");
    assert_null(fac_mse_loss(x, fac_zeros(FAC_SHAPE(2, 2))));
    assert_error(FAC_ERR_SHAPE, "size");
    assert_null(fac_cross_entropy(x, CLASSES(0, 1), .label_smoothing = 2));
    assert_error(FAC_ERR_ARGUMENT, "label_smoothing must be between 0.0 and 1.0");
}

/* Blocks are cut by shape: many elements, several thread counts, one result. */
static void losses_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    enum { N = 300000, ROWS = 900, CLASSES_ = 70 };
    static float v[N];
    static int64_t target[ROWS];
    double first[2] = {0};
    for (int i = 0; i < N; i++) v[i] = (float)sin(0.1 * i);
    for (int i = 0; i < ROWS; i++) target[i] = i % CLASSES_;
    int was = fac_num_threads();
    for (int threads = 1; threads <= 4; threads++) {
        FAC_SCOPE(s);
        assert_ok(fac_set_num_threads(threads));
        fac_tensor *x = fac_tensor_from(v, FAC_F32, FAC_INTS(N));
        fac_tensor *logits = fac_tensor_from(v, FAC_F32, FAC_INTS(ROWS, CLASSES_));
        double now[2] = {fac_item(fac_mse_loss(x, fac_flip(x, FAC_DIMS(0)))),
                         fac_item(fac_cross_entropy(logits, fac_tensor_from(target, FAC_I64, FAC_INTS(ROWS))))};
        assert_no_error();
        if (threads == 1) memcpy(first, now, sizeof first);
        assert_memory_equal(first, now, sizeof first);
    }
    assert_ok(fac_set_num_threads(was));
}

static fac_status lose_all(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_zeros(FAC_SHAPE(2, 3)), true);
    fac_tensor *loss =
        fac_add(fac_cross_entropy(x, CLASSES(0, 1)), fac_mse_loss(x, fac_ones(FAC_SHAPE(2, 3), .dtype = FAC_F16)));
    return loss ? fac_backward(loss) : fac_error();
}
static void failing_allocations_are_survived(void **state) {
    (void)state;
    support_fail_each_allocation(lose_all, NULL);
}

static void one_sample_without_a_batch_has_one_target(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_nll_loss(fac_zeros(FAC_SHAPE(5)), fac_zeros(FAC_SHAPE(5), .dtype = FAC_I64)));
    assert_error(FAC_ERR_SHAPE, "1D target must have size 1, but got target size: 5");
    assert_int_equal(fac_tensor_ndim(fac_nll_loss(fac_zeros(FAC_SHAPE(5)), fac_zeros(FAC_SHAPE(1), .dtype = FAC_I64))),
                     0);
    assert_no_error();
}

/* Products of small integers wrap before the margin, a number with a fraction, is added. */
static void margins_of_bytes_wrap_as_pytorch_s(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_to_dtype(fac_tensor_of(9, 3, 200), FAC_U8), *b = fac_to_dtype(fac_tensor_of(5, 7, 1), FAC_U8);
    fac_tensor *got = fac_margin_ranking_loss(a, b, fac_ones_like(a), NONE, .margin = 0.5);
    assert_true(fac_equal(got, fac_tensor_of(252.5, 4.5, 57.5)));
}

/* A slope that is not known is not 0. */
static void gradients_at_nan_are_nan(void **state) {
    (void)state;
    const fac_dtype dtypes[] = {FAC_F32, FAC_F64};
    for (int k = 0; k < 6; k++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to(fac_tensor_of(NAN, 3, -3, 0.25), .dtype = dtypes[k % 2]), *zero = fac_zeros_like(x);
        x = fac_set_requires_grad(x, true);
        fac_tensor *loss = k < 2   ? fac_huber_loss(x, zero)
                           : k < 4 ? fac_smooth_l1_loss(x, zero)
                                   : fac_mse_loss(x, zero);
        assert_ok(fac_backward(loss));
        double grad[4];
        assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F64, grad, 4));
        assert_true(isnan(grad[0]) && grad[1] > 0 && grad[2] < 0 && grad[3] > 0);
    }
}

/* Spread along any dimensions, as a sum's is, the losses' gradient gives what it gives without. */
static void nll_takes_gradients_that_are_spread(void **state) {
    (void)state;
    enum { ALL = 3 * 4 * 5 * 7 };
    for (int k = 1; k < 8; k++) {
        FAC_SCOPE(s);
        double got[ALL], want[ALL];
        fac_tensor *x = fac_to_dtype(fac_randn(FAC_SHAPE(3, 4, 5, 7)), FAC_F64);
        fac_tensor *target = fac_randint(4, FAC_SHAPE(3, 5, 7));
        fac_tensor *few = fac_to_dtype(fac_randn(FAC_SHAPE(k & 1 ? 1 : 3, k & 2 ? 1 : 5, k & 4 ? 1 : 7)), FAC_F64);
        fac_tensor *spread = fac_expand(few, FAC_INTS(3, 5, 7));
        fac_tensor *a = fac_set_requires_grad(fac_clone(x), true), *b = fac_set_requires_grad(fac_clone(x), true);
        assert_ok(fac_backward(fac_sum(fac_mul(fac_nll_loss_nd(a, target, NONE), spread))));
        assert_ok(fac_backward(fac_nll_loss_nd(b, target, NONE), .gradient = fac_contiguous(spread)));
        assert_ok(fac_tensor_read(fac_grad_of(a), FAC_F64, got, ALL));
        assert_ok(fac_tensor_read(fac_grad_of(b), FAC_F64, want, ALL));
        for (int i = 0; i < ALL; i++) assert_true(got[i] == want[i]);
        b = fac_set_requires_grad(fac_clone(x), true);
        assert_ok(fac_backward(fac_nll_loss_nd(b, target, NONE), .gradient = spread));
        assert_ok(fac_tensor_read(fac_grad_of(b), FAC_F64, got, ALL));
        for (int i = 0; i < ALL; i++) assert_true(got[i] == want[i]);
    }
}

FAC_TEST_MAIN(FAC_TEST(gradients_at_nan_are_nan), FAC_TEST(nll_takes_gradients_that_are_spread),
              FAC_TEST(margins_of_bytes_wrap_as_pytorch_s), FAC_TEST(one_sample_without_a_batch_has_one_target),
              FAC_TEST(loss_gradients_agree_with_differences), FAC_TEST(loss_second_gradients_agree_with_differences),
              FAC_TEST(losses_have_their_closed_forms), FAC_TEST(cross_entropy_has_its_closed_form),
              FAC_TEST(fused_cross_entropy_agrees_with_its_parts), FAC_TEST(losses_are_the_same_in_every_layout),
              FAC_TEST(bad_targets_are_refused), FAC_TEST(losses_do_not_depend_on_the_number_of_threads),
              FAC_TEST(failing_allocations_are_survived))
