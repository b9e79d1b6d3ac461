/* AdaptiveLogSoftmaxWithLoss: frequent classes have outputs of their own in the head; the others lie in clusters,
   of which each has one output in the head and a network of two layers, the smaller the rarer its classes are. */
#include "modules_gen.h"
#include "nn/kind.h"
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

static fac_status check_cutoffs(int64_t classes, fac_ints cutoffs) {
    FAC_CHECK(cutoffs.n > 0, FAC_ERR_ARGUMENT, "cutoffs should be a sequence of length larger than 0");
    for (size_t i = 0; i < cutoffs.n; i++)
        FAC_CHECK(cutoffs.v[i] > (i ? cutoffs.v[i - 1] : 0) && cutoffs.v[i] < classes, FAC_ERR_ARGUMENT,
                  "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                  "value is between 1 and n_classes-1, but number %zu is %lld",
                  i, (long long)cutoffs.v[i]);
    return FAC_OK;
}

/* Where cluster i ends: the last one with the last class. */
static int64_t end_of(fac_ints cutoffs, int64_t classes, size_t i) {
    return i + 1 < cutoffs.n ? cutoffs.v[i + 1] : classes;
}

static fac_module *cluster(int64_t in, int64_t inner, int64_t out, fac_dtype dtype, fac_device device) {
    fac_module *const two[] = {fac_linear_new(in, inner, .bias = false, .dtype = dtype, .device = device),
                               fac_linear_new(inner, out, .bias = false, .dtype = dtype, .device = device)};
    return fac_sequential_new(two, 2);
}

fac_status fac__build_adaptive_softmax(fac_module *m, int64_t in, int64_t classes, fac_ints cutoffs, double div_value,
                                       bool head_bias, fac_dtype dtype, fac_device device) {
    FAC_TRY(fac__check_size(m, "in_features", in));
    FAC_TRY(check_cutoffs(classes, cutoffs));
    FAC_CHECK(div_value > 0, FAC_ERR_ARGUMENT, "div_value should be positive, but is %g", div_value);
    fac_module_add(
        m, "head",
        fac_linear_new(in, cutoffs.v[0] + (int64_t)cutoffs.n, .bias = head_bias, .dtype = dtype, .device = device));
    fac_module *tail = fac_module_add(m, "tail", fac_module_list_new(NULL, 0));
    for (size_t i = 0; tail && i < cutoffs.n; i++) {
        const int64_t inner = (int64_t)floor((double)in / pow(div_value, (double)(i + 1)));
        const int64_t out = end_of(cutoffs, classes, i) - cutoffs.v[i];
        if (!fac_module_list_append(tail, cluster(in, inner, out, dtype, device))) break;
    }
    return fac_error();
}

/* ---- with targets ---- */

/* Which rows have a target in [low, high), as indices; NULL without an error where there is none. */
static fac_tensor *rows_in(fac_tensor *target, int64_t low, int64_t high) {
    fac_tensor *in = fac_logical_and(fac_ge(target, low), fac_lt(target, high));
    fac_tensor *rows = fac_flatten(fac_nonzero(in), 0);
    return rows && fac_tensor_numel(rows) ? rows : NULL;
}

static fac_tensor *cluster_log_prob(fac_module *m, size_t i, fac_tensor *x) {
    fac_module *c = fac_module_list_get(fac_module_child(m, "tail"), (int64_t)i);
    return fac_log_softmax(c ? fac_forward(c, x) : NULL, 1);
}

/* Of each row: its place in the head, and the log-probability within its cluster. */
typedef struct places {
    fac_tensor *head, *within;
    int64_t used;
} places;

static fac_status place_cluster(fac_module *m, fac_tensor *x, fac_tensor *target, fac_ints cutoffs, int64_t classes,
                                size_t i, places *p) {
    fac_tensor *rows = rows_in(target, cutoffs.v[i], end_of(cutoffs, classes, i));
    if (!rows) return fac_error();
    fac_tensor *own = fac_sub(fac_index_select(target, 0, rows), cutoffs.v[i]);
    fac_tensor *all = cluster_log_prob(m, i, fac_index_select(x, 0, rows));
    fac_tensor *got = fac_squeeze_dim(fac_gather(all, 1, fac_unsqueeze(own, 1)), 1);
    p->within = fac_index_copy(p->within, 0, rows, got);
    p->head = fac_index_copy(p->head, 0, rows, fac_full_like(own, cutoffs.v[0] + (int64_t)i));
    p->used += fac_tensor_numel(rows);
    return fac_error();
}

static fac_status place_all(fac_module *m, fac_tensor *x, fac_tensor *target, fac_ints cutoffs, int64_t classes,
                            places *p) {
    p->within = fac_new_zeros(x, FAC_INTS(fac_tensor_size(target, 0)));
    p->head = fac_zeros_like(target);
    fac_tensor *rows = rows_in(target, 0, cutoffs.v[0]);
    if (rows) {
        p->head = fac_index_copy(p->head, 0, rows, fac_index_select(target, 0, rows));
        p->used = fac_tensor_numel(rows);
    }
    for (size_t i = 0; i < cutoffs.n; i++) FAC_TRY(place_cluster(m, x, target, cutoffs, classes, i, p));
    FAC_TRY(fac_error());
    FAC_CHECK(p->used == fac_tensor_size(target, 0), FAC_ERR_INDEX,
              "Target values should be in [0, %lld], but values in range [%lld, %lld] were found",
              (long long)(classes - 1), (long long)fac_item_int(fac_min(target)),
              (long long)fac_item_int(fac_max(target)));
    return FAC_OK;
}

static fac_status check_target(const fac_tensor *x, const fac_tensor *target) {
    const int n = fac_tensor_ndim(target);
    FAC_CHECK(n <= 1, FAC_ERR_SHAPE, "0D or 1D target tensor expected, multi-target not supported");
    FAC_CHECK(fac_tensor_ndim(x) == n + 1, FAC_ERR_SHAPE,
              "%dD target tensor expects %dD input tensors, but found inputs with size %s", n, n + 1,
              FAC_SHAPE_TEXT(fac__header(x)));
    FAC_CHECK(!n || fac_tensor_size(x, 0) == fac_tensor_size(target, 0), FAC_ERR_SHAPE,
              "Input and target should have the same size in the batch dimension, but have %lld and %lld",
              (long long)fac_tensor_size(x, 0), (long long)fac_tensor_size(target, 0));
    return FAC_OK;
}

fac_status fac__adaptive_softmax_forward_all(fac_module *m, fac_tensor *x, fac_tensor *target, int64_t classes,
                                             fac_ints cutoffs, fac_tensor **out) {
    FAC_TRY(check_target(x, target));
    const bool batched = fac_tensor_ndim(target) > 0;
    if (!batched) x = fac_unsqueeze(x, 0), target = fac_unsqueeze(target, 0);
    places p = {0};
    FAC_TRY(place_all(m, x, target, cutoffs, classes, &p));
    fac_tensor *head = fac_log_softmax(fac_forward(fac_module_child(m, "head"), x), 1);
    fac_tensor *y = fac_add(p.within, fac_squeeze_dim(fac_gather(head, 1, fac_unsqueeze(p.head, 1)), 1));
    out[1] = fac_mean(fac_neg(y));
    out[0] = batched ? y : fac_squeeze_dim(y, 0);
    return fac_error();
}

/* ---- without ---- */

static const fac__adaptive_log_softmax_with_loss *options_of(fac_module *m, fac_tensor *x, const char *name) {
    if (fac_error() || !fac__given(m, "module") || !fac__open(x, name, "x")) return NULL;
    if (m->cls != &fac__adaptive_log_softmax_with_loss_kind.cls)
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s takes an AdaptiveLogSoftmaxWithLoss, not %s", name, m->cls->name);
    else if (fac_tensor_ndim(x) != 2)
        FAC_FAIL(FAC_ERR_SHAPE, "%s takes an input of 2 dimensions, not %d", name, fac_tensor_ndim(x));
    return fac_error() ? NULL : m->state;
}

static fac_tensor *full_log_prob(fac_module *m, const fac__adaptive_log_softmax_with_loss *o, fac_tensor *x,
                                 fac_tensor *head) {
    const fac_nn_list *c = &o->cutoffs;
    fac_tensor *all[FAC_NN_MAX_LIST + 1];
    head = fac_log_softmax(head, 1);
    all[0] = fac_narrow(head, 1, 0, c->v[0]);
    for (size_t i = 0; i < c->n; i++)
        all[i + 1] = fac_add(cluster_log_prob(m, i, x), fac_narrow(head, 1, c->v[0] + (int64_t)i, 1));
    return fac_cat(fac_tensors_of(all, c->n + 1), .dim = 1);
}

fac_tensor *fac_adaptive_log_softmax_log_prob(fac_module *m, fac_tensor *x) {
    const fac__adaptive_log_softmax_with_loss *o = options_of(m, x, "adaptive_log_softmax_log_prob");
    if (!o) return NULL;
    FAC_SCOPE(s);
    fac_tensor *y = full_log_prob(m, o, x, fac_forward(fac_module_child(m, "head"), x));
    return y ? fac_yield(s, y) : NULL;
}

/* A row whose likeliest output of the head is one of the shortlist needs no more: no class of a cluster is likelier
   than the cluster. */
fac_tensor *fac_adaptive_log_softmax_predict(fac_module *m, fac_tensor *x) {
    const fac__adaptive_log_softmax_with_loss *o = options_of(m, x, "adaptive_log_softmax_predict");
    if (!o) return NULL;
    FAC_SCOPE(s);
    fac_tensor *head = fac_forward(fac_module_child(m, "head"), x);
    fac_tensor *best = fac_argmax(head, .dim = 1);
    fac_tensor *rows = fac_flatten(fac_nonzero(fac_ge(best, o->cutoffs.v[0])), 0);
    if (rows && fac_tensor_numel(rows)) {
        fac_tensor *all = full_log_prob(m, o, fac_index_select(x, 0, rows), fac_index_select(head, 0, rows));
        best = fac_index_copy(best, 0, rows, fac_argmax(all, .dim = 1));
    }
    return best && !fac_error() ? fac_yield(s, best) : NULL;
}
