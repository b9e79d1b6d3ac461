/* Metrics against values counted by hand, and against slow definitions. */
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>

static fac_tensor *ints(fac_tensor *t) { return fac_to_dtype(t, FAC_I64); }
#define INTS(...) ints(fac_tensor_of(__VA_ARGS__))
#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void accuracy_counts_classes_and_the_greatest_scores(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *target = INTS(0, 2, 1, 1);
    assert_near(fac_accuracy(INTS(0, 2, 2, 1), target), 0.75);
    fac_tensor *scores =
        fac_reshape(fac_tensor_of(9, 1, 1, /**/ 3, 5, 4, /**/ 2, 2, 1, /**/ 0, 1, NAN), FAC_SHAPE(4, 3));
    assert_near(fac_accuracy(scores, target), 0.25); /* of equal scores the first is chosen, and NaN is the greatest */
    assert_near(fac_accuracy(scores, target, .top_k = 2), 1.0);
    assert_near(fac_accuracy(scores, target, .top_k = 3), 1.0);
    assert_near(fac_accuracy(INTS(0, 5, 2), INTS(0, -100, 1)), 0.5);
    assert_near(fac_accuracy(INTS(0, 5, 2), INTS(0, 5, 1), .ignore_index = 1), 1.0);
    assert_true(isnan(fac_accuracy(INTS(3), INTS(-100))));
    assert_no_error();
    assert_true(isnan(fac_accuracy(scores, target, .top_k = 4)));
    assert_error(FAC_ERR_ARGUMENT, "1 to 3");
    assert_true(isnan(fac_accuracy(scores, INTS(0, 3, 1, 1))));
    assert_error(FAC_ERR_INDEX, "target 1 is 3");
    assert_true(isnan(fac_accuracy(scores, INTS(0, 1))));
    assert_error(FAC_ERR_SHAPE, "[4, 3]");
    assert_true(isnan(fac_accuracy(scores, fac_ones(4))));
    assert_error(FAC_ERR_DTYPE, "float32");
}

static void confusion_gives_precision_recall_and_f1(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *target = INTS(0, 0, 0, 1, 1, 2), *predicted = INTS(0, 0, 1, 1, 0, 1);
    fac_tensor *m = fac_confusion_matrix(predicted, target, 3);
    assert_true(fac_equal(m, fac_reshape(INTS(2, 1, 0, 1, 1, 0, 0, 1, 0), FAC_SHAPE(3, 3))));
    /* precision 2/3, 1/3, 0; recall 2/3, 1/2, 0; f1 2/3, 2/5, 0 */
    fac_scores r = fac_confusion_scores(m);
    assert_near(r.accuracy, 0.5);
    assert_near(r.precision, 1.0 / 3);
    assert_near(r.recall, (2.0 / 3 + 0.5) / 3);
    assert_near(r.f1, (2.0 / 3 + 0.4) / 3);
    r = fac_confusion_scores(m, "weighted");
    assert_near(r.precision, (3 * 2.0 / 3 + 2.0 / 3) / 6);
    assert_near(r.recall, 0.5);
    assert_near(r.f1, (3 * 2.0 / 3 + 2 * 0.4) / 6);
    r = fac_confusion_scores(m, .average = "micro");
    assert_near(r.f1, 0.5);
    r = fac_confusion_scores(fac_add(m, m));
    assert_near(r.precision, 1.0 / 3);
    r = fac_confusion_scores(fac_reshape(INTS(5, 3, 2, 4), FAC_SHAPE(2, 2)), "binary");
    assert_near(r.precision, 4.0 / 7);
    assert_near(r.recall, 4.0 / 6);
    assert_near(r.f1, 8.0 / 13);
    r = fac_confusion_scores(m, "binary");
    assert_true(isnan(r.f1) && isnan(r.accuracy));
    assert_error(FAC_ERR_ARGUMENT, "3 classes");
    (void)fac_confusion_scores(m, "mean");
    assert_error(FAC_ERR_ARGUMENT, "\"mean\"");
    (void)fac_confusion_scores(fac_ones(FAC_SHAPE(2, 3)));
    assert_error(FAC_ERR_SHAPE, "square");
    assert_null(fac_confusion_matrix(predicted, target, 2));
    assert_error(FAC_ERR_INDEX, "sample 5 of class 2");
    assert_null(fac_confusion_matrix(predicted, target, 0));
    assert_error(FAC_ERR_ARGUMENT, "0 classes");
}

static void auc_is_the_part_of_pairs_in_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    enum { N = 200 };
    fac_tensor *scores = fac_round(fac_mul(fac_randn(N), 3)), *target = ints(fac_gt(fac_randn(N), 0.3));
    double v[N], wins = 0, pairs = 0;
    int64_t t[N];
    assert_ok(fac_tensor_read(scores, FAC_F64, v, N));
    assert_ok(fac_tensor_read(target, FAC_I64, t, N));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (t[i] == 1 && t[j] == 0) {
                pairs++;
                wins += v[i] > v[j] ? 1 : v[i] == v[j] ? 0.5 : 0;
            }
    assert_near(fac_auc(scores, target), wins / pairs);
    assert_near(fac_auc(scores, fac_to_dtype(target, FAC_BOOL)), wins / pairs);
    assert_near(fac_auc(fac_tensor_of(1, 4, 3.5, 8), INTS(0, 0, 1, 1)), 0.75); /* scikit-learn's example */
    assert_true(isnan(fac_auc(scores, fac_ones_like(target))));
    assert_error(FAC_ERR_ARGUMENT, "both kinds");
    assert_true(isnan(fac_auc(fac_tensor_of(1, NAN), INTS(0, 1))));
    assert_error(FAC_ERR_ARGUMENT, "score 1 is NaN");
    assert_true(isnan(fac_auc(fac_tensor_of(1, 2), INTS(0, 2))));
    assert_error(FAC_ERR_ARGUMENT, "target 1 is 2");
    assert_true(isnan(fac_auc(fac_tensor_of(1, 2), INTS(0, 1, 1))));
    assert_error(FAC_ERR_SHAPE, "[2] and [3]");
}

static void perplexity_is_exp_of_the_mean_cross_entropy(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_true(fabs(fac_perplexity(fac_zeros(FAC_SHAPE(2, 3, 7)), ints(fac_ones(FAC_SHAPE(2, 3)))) - 7) < 1e-5);
    fac_tensor *logits = fac_log(fac_reshape(fac_tensor_of(0.5, 0.5, 0.25, 0.75, 0.875, 0.125), FAC_SHAPE(3, 2)));
    assert_true(fabs(fac_perplexity(logits, INTS(0, 0, -100)) - sqrt(8)) < 1e-5);
    assert_true(isnan(fac_perplexity(logits, INTS(0, 0))));
    assert_true(fac_error() != FAC_OK);
    fac_error_clear();
    assert_true(isnan(fac_perplexity(fac_ones(3), INTS(0))));
    assert_error(FAC_ERR_SHAPE, "1 dimensions");
    assert_true(isnan(fac_perplexity(fac_zeros(FAC_SHAPE(2, 3, 7)), ints(fac_ones(FAC_SHAPE(3, 2))))));
    assert_error(FAC_ERR_SHAPE, "logits [2, 3, 7] should have the sizes before C, not [3, 2]");
    fac_tensor *halves = fac_to_dtype(fac_zeros(FAC_SHAPE(2, 3)), FAC_BF16); /* whose mean of 1.0986 would be 1.1016 */
    assert_true(fabs(fac_perplexity(halves, INTS(0, 1)) - 3) < 1e-5);
}

FAC_TEST_MAIN(FAC_TEST(accuracy_counts_classes_and_the_greatest_scores),
              FAC_TEST(confusion_gives_precision_recall_and_f1), FAC_TEST(auc_is_the_part_of_pairs_in_order),
              FAC_TEST(perplexity_is_exp_of_the_mean_cross_entropy))
