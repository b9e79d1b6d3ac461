/* How good predictions are. Sums over batches are the caller's: of matrices of confusion by fac_add, of others by the
   number of samples. */
#ifndef FACULA_METRICS_H
#define FACULA_METRICS_H

#include <facula/keywords.h>
#include <facula/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The part of samples whose class is the predicted one: of integers [N], classes themselves, or of scores [N, C], whose
   target is among the .top_k greatest. Targets int64 [N]; those of .ignore_index do not count. It is NaN if none does,
   and on failure.
   errors: SHAPE; DTYPE; INDEX for a target that is no class; ARGUMENT if top_k is not in 1 ... C */
FAC_API double fac_accuracy(fac_tensor *predicted, fac_tensor *target, const fac_accuracy_kw *kw);
/* How often class j was predicted for samples of class i: int64 [classes, classes], at [i, j], of the innermost scope.
   Predictions as for fac_accuracy.
   errors: SHAPE; DTYPE; INDEX for what is not in 0 ... classes - 1; ARGUMENT
   source: sklearn.metrics.confusion_matrix */
FAC_API fac_tensor *fac_confusion_matrix(fac_tensor *predicted, fac_tensor *target, int64_t classes);
/* What follows from a matrix of confusion. */
typedef struct fac_scores {
    double accuracy, precision, recall, f1;
} fac_scores;
/* Over all classes: .average = "macro" (the mean of the classes), "weighted" (by how many samples each has), "micro"
   (of all samples), or "binary" (of class 1). What would be 0 / 0 is 0. A failure gives NaN for all.
   errors: SHAPE if the matrix is not square; DTYPE; ARGUMENT
   source: sklearn.metrics.precision_recall_fscore_support */
FAC_API fac_scores fac_confusion_scores(fac_tensor *confusion, const fac_confusion_scores_kw *kw);
/* Area under the curve of true over false positives: the probability that a sample of target 1 has a greater score than
   one of target 0, equal scores counting half. Scores floating [N], targets integers or bool [N]. A failure gives NaN.
   errors: SHAPE; DTYPE; ARGUMENT for a target that is neither 0 nor 1, if all are the same, or for a score that is NaN
   source: sklearn.metrics.roc_auc_score */
FAC_API double fac_auc(fac_tensor *scores, fac_tensor *target);
/* exp of the mean cross entropy of logits [N, C] or [N, L, C] and int64 targets of the sizes before C. A failure gives
   NaN.
   errors: as fac_cross_entropy */
FAC_API double fac_perplexity(fac_tensor *logits, fac_tensor *target, const fac_perplexity_kw *kw);

#ifdef __cplusplus
}
#endif
#include <facula/metrics_macros.h>
#endif
