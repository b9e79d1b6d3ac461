/* Metrics: counted on the host, whatever device predictions are on. */
#include "core/handle.h"
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include <facula/autograd.h>
#include <facula/metrics.h>
#include <facula/ops.h>
#include <facula/tensor.h>
#include <math.h>
#include <stdlib.h>

/* A copy of a tensor's elements on the host, to be freed. */
static void *values(fac_tensor *handle, fac_dtype dtype) {
    const int64_t n = fac__header(handle)->numel;
    void *v = fac__alloc_array((size_t)n, fac_dtype_size(dtype));
    if (v && fac_tensor_read(handle, dtype, v, (size_t)n) == FAC_OK) return v;
    fac__free(v);
    return NULL;
}

/* Predictions and targets on the host. */
typedef struct predictions {
    int64_t n, classes; /* classes 0: `chosen` was given, else scores */
    int64_t *chosen, *target;
    double *scores;
} predictions;

static fac_status check_shapes(const fac_tensor *p, const fac_tensor *t) {
    const bool scores = fac_dtype_is_floating((fac_dtype)p->dtype);
    FAC_CHECK(t->dtype == FAC_I64, FAC_ERR_DTYPE, "targets are int64, not %s", fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(scores || (fac_dtype_is_integral((fac_dtype)p->dtype, false)), FAC_ERR_DTYPE,
              "predictions are scores, floating, or classes, integers, but not %s",
              fac_dtype_name((fac_dtype)p->dtype));
    FAC_CHECK(t->ndim == 1 && p->ndim == (scores ? 2 : 1) && p->sizes[0] == t->sizes[0], FAC_ERR_SHAPE,
              "predictions are classes [N] or scores [N, C], and targets [N]; got %s and %s", FAC_SHAPE_TEXT(p),
              FAC_SHAPE_TEXT(t));
    FAC_CHECK(!scores || p->sizes[1] > 0, FAC_ERR_SHAPE, "there are scores of no class");
    return FAC_OK;
}

static void free_predictions(predictions *p) {
    fac__free(p->chosen);
    fac__free(p->target);
    fac__free(p->scores);
}

static fac_status read_predictions(predictions *out, fac_tensor *predicted, fac_tensor *target, const char *op) {
    *out = (predictions){0};
    if (fac_error()) return fac_error();
    const fac_tensor *p = fac__open(predicted, op, "predicted"), *t = p ? fac__open(target, op, "target") : NULL;
    if (!t) return fac_error();
    FAC_TRY(check_shapes(p, t));
    out->n = t->sizes[0];
    out->classes = p->ndim == 2 ? p->sizes[1] : 0;
    out->target = values(target, FAC_I64);
    if (out->classes)
        out->scores = values(predicted, FAC_F64);
    else
        out->chosen = values(predicted, FAC_I64);
    return out->target && (out->scores || out->chosen) ? FAC_OK : fac_error();
}

/* Whether score a comes before b in falling order; NaN is greater than all, as in PyTorch. */
static bool before(double a, double b) { return isnan(a) ? !isnan(b) : a > b; }

/* How many classes come before class c of sample i; of equal scores the first. */
static int64_t rank_of(const predictions *p, int64_t i, int64_t c) {
    const double *row = p->scores + i * p->classes;
    int64_t rank = 0;
    for (int64_t j = 0; j < p->classes; j++) rank += before(row[j], row[c]) || (j < c && !before(row[c], row[j]));
    return rank;
}

static int64_t chosen_of(const predictions *p, int64_t i) {
    if (p->chosen) return p->chosen[i];
    const double *row = p->scores + i * p->classes;
    int64_t best = 0;
    for (int64_t j = 1; j < p->classes; j++)
        if (before(row[j], row[best])) best = j;
    return best;
}

static fac_status count_right(const predictions *p, const fac_accuracy_kw *k, double *out) {
    int64_t right = 0, counted = 0;
    FAC_CHECK(k->top_k >= 1 && k->top_k <= (p->classes ? p->classes : 1), FAC_ERR_ARGUMENT,
              "top_k is %lld; 1 to %lld are possible", (long long)k->top_k, (long long)(p->classes ? p->classes : 1));
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t t = p->target[i];
        if (t == k->ignore_index) continue;
        FAC_CHECK(!p->classes || (t >= 0 && t < p->classes), FAC_ERR_INDEX,
                  "target %lld is %lld, but there are %lld classes", (long long)i, (long long)t, (long long)p->classes);
        counted++;
        right += p->classes ? rank_of(p, i, t) < k->top_k : p->chosen[i] == t;
    }
    *out = counted ? (double)right / (double)counted : NAN;
    return FAC_OK;
}

double(fac_accuracy)(fac_tensor *predicted, fac_tensor *target, const fac_accuracy_kw *kw) {
    fac_accuracy_kw k;
    predictions p;
    double out = NAN;
    if (fac_error() || fac__open_accuracy_kw(&k, kw)) return NAN;
    if (read_predictions(&p, predicted, target, "accuracy") == FAC_OK) (void)count_right(&p, &k, &out);
    free_predictions(&p);
    return out;
}

static fac_status count_pairs(const predictions *p, int64_t classes, int64_t *counts) {
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t t = p->target[i], c = chosen_of(p, i);
        FAC_CHECK(t >= 0 && t < classes && c >= 0 && c < classes, FAC_ERR_INDEX,
                  "sample %lld of class %lld is predicted to be %lld, but there are %lld classes", (long long)i,
                  (long long)t, (long long)c, (long long)classes);
        counts[t * classes + c]++;
    }
    return FAC_OK;
}

fac_tensor *fac_confusion_matrix(fac_tensor *predicted, fac_tensor *target, int64_t classes) {
    predictions p;
    fac_tensor *out = NULL;
    fac_status st = read_predictions(&p, predicted, target, "confusion_matrix");
    if (st == FAC_OK && classes < 1)
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "there are %lld classes; at least one is needed", (long long)classes);
    if (st == FAC_OK) st = fac__empty((int64_t[]){classes, classes}, 2, FAC_I64, fac_device_make(FAC_CPU, -1), &out);
    if (st == FAC_OK) {
        memset(fac__data(out), 0, (size_t)out->numel * sizeof(int64_t));
        st = count_pairs(&p, classes, fac__data(out));
        if (st) fac__unref(out);
    }
    free_predictions(&p);
    return st ? NULL : fac__adopt_handle(fac__thread(), out);
}

/* ---- what follows from a matrix ---------------------------------------------------------------------------------------- */

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

/* Of one class. */
static fac_scores scores_of(const double *m, int64_t n, int64_t c, double *out_samples) {
    double row = 0, column = 0;
    for (int64_t i = 0; i < n; i++) {
        row += m[c * n + i];
        column += m[i * n + c];
    }
    const double hits = m[c * n + c];
    *out_samples = row;
    return (fac_scores){0, ratio(hits, column), ratio(hits, row), ratio(2 * hits, row + column)};
}

static fac_scores average(const double *m, int64_t n, bool weighted, double all) {
    fac_scores sum = {0};
    for (int64_t c = 0; c < n; c++) {
        double samples;
        const fac_scores s = scores_of(m, n, c, &samples);
        const double w = weighted ? ratio(samples, all) : 1 / (double)n;
        sum.precision += w * s.precision;
        sum.recall += w * s.recall;
        sum.f1 += w * s.f1;
    }
    return sum;
}

static fac_status score(const double *m, int64_t n, const char *how, fac_scores *out) {
    double all = 0, hits = 0, samples;
    for (int64_t i = 0; i < n * n; i++) all += m[i];
    for (int64_t i = 0; i < n; i++) hits += m[i * n + i];
    const double accuracy = ratio(hits, all);
    if (strcmp(how, "macro") == 0 || strcmp(how, "weighted") == 0) {
        *out = average(m, n, how[0] == 'w', all);
    } else if (strcmp(how, "micro") == 0) {
        *out = (fac_scores){0, accuracy, accuracy, accuracy};
    } else if (strcmp(how, "binary") == 0) {
        FAC_CHECK(n == 2, FAC_ERR_ARGUMENT, "average is \"binary\", but there are %lld classes", (long long)n);
        *out = scores_of(m, n, 1, &samples);
    } else {
        return FAC_FAIL(FAC_ERR_ARGUMENT, "average is \"%s\"; there are macro, weighted, micro and binary", how);
    }
    out->accuracy = accuracy;
    return FAC_OK;
}

static fac_status score_matrix(fac_tensor *handle, const char *how, fac_scores *out) {
    const fac_tensor *t = fac__open(handle, "confusion_scores", "confusion");
    if (!t || !fac__given(how, "average")) return fac_error();
    FAC_CHECK(t->ndim == 2 && t->sizes[0] == t->sizes[1] && t->sizes[0] > 0, FAC_ERR_SHAPE,
              "a matrix of confusion is square, but this is %s", FAC_SHAPE_TEXT(t));
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)t->dtype), FAC_ERR_DTYPE, "a matrix of confusion is real, not %s",
              fac_dtype_name((fac_dtype)t->dtype));
    const int64_t n = t->sizes[0];
    double *m = values(handle, FAC_F64);
    if (!m) return fac_error();
    const fac_status st = score(m, n, how, out);
    fac__free(m);
    return st;
}

fac_scores(fac_confusion_scores)(fac_tensor *confusion, const fac_confusion_scores_kw *kw) {
    const fac_scores none = {NAN, NAN, NAN, NAN};
    fac_confusion_scores_kw k;
    fac_scores out = none;
    if (fac_error() || fac__open_confusion_scores_kw(&k, kw)) return none;
    return score_matrix(confusion, k.average, &out) ? none : out;
}

/* ---- area under the curve ------------------------------------------------------------------------------------------------ */

typedef struct scored {
    double score;
    bool positive;
} scored;

static int by_score(const void *a, const void *b) {
    const scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

/* Mann and Whitney's U from the ranks, equal scores sharing theirs. */
static fac_status area(scored *v, int64_t n, double *out) {
    double ranks = 0, positives = 0;
    qsort(v, (size_t)n, sizeof *v, by_score);
    for (int64_t i = 0, j; i < n; i = j) {
        int64_t hits = 0;
        for (j = i; j < n && v[j].score == v[i].score; j++) hits += v[j].positive;
        ranks += (double)hits * ((double)(i + 1 + j) / 2);
        positives += (double)hits;
    }
    const double negatives = (double)n - positives;
    FAC_CHECK(positives > 0 && negatives > 0, FAC_ERR_ARGUMENT,
              "the area under the curve needs targets of both kinds; there are %g of 1 and %g of 0", positives,
              negatives);
    *out = (ranks - positives * (positives + 1) / 2) / (positives * negatives);
    return FAC_OK;
}

static fac_status area_of(const double *scores, const int64_t *targets, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) {
        FAC_CHECK(targets[i] == 0 || targets[i] == 1, FAC_ERR_ARGUMENT, "target %lld is %lld, neither 0 nor 1",
                  (long long)i, (long long)targets[i]);
        FAC_CHECK(!isnan(scores[i]), FAC_ERR_ARGUMENT, "score %lld is NaN", (long long)i);
    }
    scored *v = fac__alloc_array((size_t)n, sizeof *v);
    if (!v) return fac_error();
    for (int64_t i = 0; i < n; i++) v[i] = (scored){scores[i], targets[i] == 1};
    const fac_status st = area(v, n, out);
    fac__free(v);
    return st;
}

double fac_auc(fac_tensor *scores, fac_tensor *target) {
    double out = NAN;
    if (fac_error()) return NAN;
    const fac_tensor *s = fac__open(scores, "auc", "scores"), *t = s ? fac__open(target, "auc", "target") : NULL;
    if (!t) return NAN;
    if (s->ndim != 1 || t->ndim != 1 || s->sizes[0] != t->sizes[0] || s->sizes[0] < 1)
        return (void)FAC_FAIL(FAC_ERR_SHAPE, "scores and targets are [N]; got %s and %s", FAC_SHAPE_TEXT(s),
                              FAC_SHAPE_TEXT(t)),
               NAN;
    if (!fac_dtype_is_floating((fac_dtype)s->dtype) || !fac_dtype_is_integral((fac_dtype)t->dtype, true))
        return (void)FAC_FAIL(FAC_ERR_DTYPE, "scores are floating and targets integers or bool, not %s and %s",
                              fac_dtype_name((fac_dtype)s->dtype), fac_dtype_name((fac_dtype)t->dtype)),
               NAN;
    double *v = values(scores, FAC_F64);
    int64_t *w = v ? values(target, FAC_I64) : NULL;
    if (w) (void)area_of(v, w, s->sizes[0], &out);
    fac__free(v);
    fac__free(w);
    return out;
}

/* ---- text --------------------------------------------------------------------------------------------------------------- */

double(fac_perplexity)(fac_tensor *logits, fac_tensor *target, const fac_perplexity_kw *kw) {
    fac_perplexity_kw k;
    if (fac_error() || fac__open_perplexity_kw(&k, kw)) return NAN;
    const fac_tensor *x = fac__open(logits, "perplexity", "logits");
    if (!x || !fac__open(target, "perplexity", "target")) return NAN;
    if (x->ndim != 2 && x->ndim != 3)
        return (void)FAC_FAIL(FAC_ERR_SHAPE, "logits are [N, C] or [N, L, C], but have %d dimensions", x->ndim), NAN;
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *flat = logits, *labels = target;
    if (x->ndim == 3) {
        const fac_tensor *t = fac__header(target);
        if (t->ndim != 2 || memcmp(t->sizes, x->sizes, 2 * sizeof *x->sizes) != 0)
            return (void)FAC_FAIL(FAC_ERR_SHAPE, "targets of logits %s should have the sizes before C, not %s",
                                  FAC_SHAPE_TEXT(x), FAC_SHAPE_TEXT(t)),
                   NAN;
        flat = fac_flatten(logits, 0, 1);
        labels = fac_flatten(target);
    }
    if (fac__dtype_size((fac_dtype)x->dtype) == 2)
        flat = fac_to(flat, .dtype = FAC_F32); /* a half would round the mean */
    fac_tensor *loss = fac_cross_entropy(flat, labels, .ignore_index = k.ignore_index);
    const double mean = loss ? fac_item(loss) : NAN;
    return fac_error() ? NAN : exp(mean);
}
