/* Losses over alignments and over sets of classes: against sums over all alignments, and definitions written out. */
#include "linalg_test.h"

static fac_tensor *integers(fac_ints v) { return fac_tensor_from(v.v, FAC_I64, FAC_INTS((int64_t)v.n)); }

/* The probability of a target under `probs` [T, C]: the sum over all paths of T symbols that give it when repeats and blanks are
   taken out. */
static double by_all_paths(const double *probs, int64_t steps, int64_t classes, const int64_t *target, int64_t n) {
    double total = 0;
    int64_t paths = 1;
    for (int64_t t = 0; t < steps; t++) paths *= classes;
    for (int64_t p = 0; p < paths; p++) {
        double product = 1;
        int64_t rest = p, last = 0, at = 0;
        bool fits = true;
        for (int64_t t = 0; t < steps; t++, rest /= classes) {
            const int64_t c = rest % classes;
            product *= exp(probs[t * classes + c]);
            if (c && c != last) {
                fits = fits && at < n && target[at] == c;
                at++;
            }
            last = c;
        }
        if (fits && at == n) total += product;
    }
    return total;
}

enum { T = 5, N = 4, C = 3 };
static const int64_t input_lengths[N] = {5, 4, 5, 3}, target_lengths[N] = {2, 3, 0, 2},
                     targets[N][3] = {{1, 2}, {1, 1, 2}, {0}, {2, 2}};

static fac_tensor *padded_targets(void) { return fac_tensor_from(targets, FAC_I64, FAC_INTS(N, 3)); }

static void ctc_is_the_sum_over_all_alignments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *probs = fac_log_softmax(RANDOM(T, N, C), -1);
    fac_tensor *loss = fac_ctc_loss(probs, padded_targets(), FAC_INTS(5, 4, 5, 3), FAC_INTS(2, 3, 0, 2),
                                    .reduction = FAC_REDUCTION_NONE);
    for (int64_t n = 0; n < N; n++) {
        double *v = numbers(fac_contiguous(fac_select(probs, 1, n)));
        const double want = -log(by_all_paths(v, input_lengths[n], C, targets[n], target_lengths[n]));
        assert_true(fabs(fac_item(fac_select(loss, 0, n)) - want) < 1e-12 * want || want == INFINITY);
        free(v);
    }
    fac_tensor *together = integers(FAC_INTS(1, 2, 1, 1, 2, 2, 2));
    assert_close(
        fac_ctc_loss(probs, together, FAC_INTS(5, 4, 5, 3), FAC_INTS(2, 3, 0, 2), .reduction = FAC_REDUCTION_NONE),
        loss);
}

static fac_status call_ctc(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_ctc_loss(fac_log_softmax(in.v[0], -1), padded_targets(), FAC_INTS(5, 5, 5, 4), FAC_INTS(2, 3, 0, 2));
    return fac_error();
}

static void ctc_has_a_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_ok(fac_gradcheck(call_ctc, NULL, FAC_TENSORS(LEAF(T, N, C)), 1));
}

/* Three symbols do not fit into two steps. */
static void ctc_of_no_alignment_is_infinite_or_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = LEAF(2, 1, C), *target = fac_reshape(integers(FAC_INTS(1, 2, 1)), FAC_INTS(1, 3));
    fac_tensor *probs = fac_log_softmax(x, -1);
    assert_true(fac_item(fac_ctc_loss(probs, target, FAC_INTS(2), FAC_INTS(3))) == INFINITY);
    fac_tensor *y = fac_ctc_loss(probs, target, FAC_INTS(2), FAC_INTS(3), .zero_infinity = true);
    assert_true(fac_item(y) == 0);
    assert_ok(fac_backward(y));
    assert_close(fac_grad_of(x), fac_zeros_like(x));
}

static void ctc_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *probs = RANDOM(T, N, C), *t = padded_targets();
    assert_null(fac_ctc_loss(probs, t, FAC_INTS(5, 4, 6, 3), FAC_INTS(2, 3, 0, 2)));
    assert_error(FAC_ERR_ARGUMENT, "value at most 5, but got value 6");
    assert_null(fac_ctc_loss(probs, t, FAC_INTS(5, 4, 5, 3), FAC_INTS(2, 4, 0, 2)));
    assert_error(FAC_ERR_ARGUMENT, "target_lengths[1] is 4");
    assert_null(fac_ctc_loss(probs, t, FAC_INTS(5, 4, 5), FAC_INTS(2, 3, 0, 2)));
    assert_error(FAC_ERR_ARGUMENT, "input_lengths must be of size batch_size");
    assert_null(fac_ctc_loss(probs, t, FAC_INTS(5, 4, 5, 3), FAC_INTS(2, 3, 0, 2), .blank = 3));
    assert_error(FAC_ERR_ARGUMENT, "blank must be in label range");
    assert_null(fac_ctc_loss(probs, fac_add(t, 5), FAC_INTS(5, 4, 5, 3), FAC_INTS(2, 3, 0, 2)));
    assert_error(FAC_ERR_INDEX, "but there are 3 classes");
    assert_null(fac_ctc_loss(fac_to_dtype(probs, FAC_F16), t, FAC_INTS(5, 4, 5, 3), FAC_INTS(2, 3, 0, 2)));
    assert_error(FAC_ERR_DTYPE, "float32 or float64");
}

/* ---- margins --------------------------------------------------------------------------------------------------------------- */

static void multi_margin_is_its_definition(void **state) {
    (void)state;
    static const int64_t y[3] = {2, 0, 3};
    for (int p = 1; p < 3; p++) {
        FAC_SCOPE(s);
        fac_tensor *x = RANDOM(3, 4), *w = RANDOM(4), *target = fac_tensor_from(y, FAC_I64, FAC_INTS(3));
        double *v = numbers(x), *u = numbers(w), want[3];
        for (int i = 0; i < 3; i++) {
            want[i] = 0;
            for (int c = 0; c < 4; c++)
                if (c != y[i]) want[i] += pow(fmax(0, 0.5 - v[4 * i + y[i]] + v[4 * i + c]), p) * u[y[i]] / 4;
        }
        fac_tensor *each =
            fac_multi_margin_loss(x, target, .p = p, .margin = 0.5, .weight = w, .reduction = FAC_REDUCTION_NONE);
        assert_close(each, fac_tensor_from(want, FAC_F64, FAC_INTS(3)));
        assert_close(fac_multi_margin_loss(x, target, .p = p, .margin = 0.5, .weight = w), fac_mean(each));
        free(v);
        free(u);
    }
}

typedef struct margin {
    int p, reduction;
} margin;
static fac_status call_multi_margin(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const margin *m = context;
    (void)n;
    out[0] = fac_multi_margin_loss(in.v[0], integers(FAC_INTS(2, 0, 3)), .p = m->p,
                                   .reduction = (fac_loss_reduction)m->reduction);
    return fac_error();
}
static fac_status call_multilabel(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const margin *m = context;
    (void)n;
    fac_tensor *target = fac_reshape(integers(FAC_INTS(2, 0, -1, 1, 3, -1, 0, 0)), FAC_INTS(2, 4));
    out[0] = fac_multilabel_margin_loss(in.v[0], target, .reduction = (fac_loss_reduction)m->reduction);
    return fac_error();
}

static void margin_losses_have_gradients_to_second_order(void **state) {
    (void)state;
    for (int reduction = 0; reduction < 3; reduction++)
        for (int p = 1; p < 3; p++) {
            FAC_SCOPE(s);
            margin m = {p, reduction};
            assert_ok(fac_gradcheck(call_multi_margin, &m, FAC_TENSORS(LEAF(3, 4)), 1));
            assert_ok(fac_gradgradcheck(call_multi_margin, &m, FAC_TENSORS(LEAF(3, 4)), 1));
            assert_ok(fac_gradcheck(call_multilabel, &m, FAC_TENSORS(LEAF(2, 4)), 1));
            assert_ok(fac_gradgradcheck(call_multilabel, &m, FAC_TENSORS(LEAF(2, 4)), 1));
        }
}

/* Targets 2 and 0, then what follows -1 is not read: (1 - x2 + x1) + (1 - x2 + x3) + (1 - x0 + x1) + (1 - x0 + x3) over 4. */
static void multilabel_margin_is_its_definition(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(0.5, 0.25, 0.125, -0.5), *y = integers(FAC_INTS(2, 0, -1, 1));
    assert_close(fac_multilabel_margin_loss(x, y), fac_scalar_tensor((1.125 + 0.375 + 0.75 + 0) / 4));
    fac_multilabel_margin_loss_forward_result r = fac_multilabel_margin_loss_forward(x, y, 1);
    assert_close(r.is_target, fac_tensor_of(1, 0, 1, 0));
}

static void margin_losses_refuse_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3), *y = integers(FAC_INTS(0, 3));
    assert_null(fac_multi_margin_loss(x, y));
    assert_error(FAC_ERR_INDEX, "target 3 is out of range");
    assert_null(fac_multi_margin_loss(x, y, .p = 3));
    assert_error(FAC_ERR_ARGUMENT, "only p == 1 and p == 2 supported");
    assert_null(fac_multi_margin_loss(x, fac_narrow(y, 0, 0, 1)));
    assert_error(FAC_ERR_SHAPE, "inconsistent target size");
    assert_null(fac_multilabel_margin_loss(x, y));
    assert_error(FAC_ERR_SHAPE, "inconsistent target size");
    assert_null(fac_multilabel_margin_loss(x, fac_full(FAC_INTS(2, 3), -2, .dtype = FAC_I64)));
    assert_error(FAC_ERR_INDEX, "target -2 is out of range");
}

FAC_TEST_MAIN(FAC_TEST(ctc_is_the_sum_over_all_alignments), FAC_TEST(ctc_has_a_gradient),
              FAC_TEST(ctc_of_no_alignment_is_infinite_or_zero), FAC_TEST(ctc_refuses_bad_arguments),
              FAC_TEST(multi_margin_is_its_definition), FAC_TEST(margin_losses_have_gradients_to_second_order),
              FAC_TEST(multilabel_margin_is_its_definition), FAC_TEST(margin_losses_refuse_bad_arguments))
