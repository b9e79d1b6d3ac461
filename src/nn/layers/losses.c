/* Losses that are made of several operators. */
#include "modules_gen.h"
#include "nn/kind.h"
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

static fac_tensor *reduced(fac_tensor *loss, int64_t reduction) {
    if (!loss) return NULL;
    return reduction == FAC_REDUCTION_MEAN ? fac_mean(loss) : reduction == FAC_REDUCTION_SUM ? fac_sum(loss) : loss;
}

bool fac__alike(const fac_tensor *input, const fac_tensor *target) {
    const fac_ints a = fac_tensor_sizes(input), b = fac_tensor_sizes(target);
    if (a.n == b.n && (!a.n || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0)) return true;
    if (!fac_error())
        FAC_FAIL(FAC_ERR_SHAPE, "target %s should be of the same size as input %s", FAC_SHAPE_TEXT(fac__header(target)),
                 FAC_SHAPE_TEXT(fac__header(input)));
    return false;
}

bool fac__of_as_many_dims(const fac_tensor *x1, const fac_tensor *x2, const fac_tensor *target) {
    const int n = fac_tensor_ndim(x1);
    if (fac_tensor_ndim(x2) == n && fac_tensor_ndim(target) == n) return true;
    if (!fac_error())
        FAC_FAIL(FAC_ERR_SHAPE, "inputs and target should have as many dimensions as each other, not %s, %s and %s",
                 FAC_SHAPE_TEXT(fac__header(x1)), FAC_SHAPE_TEXT(fac__header(x2)), FAC_SHAPE_TEXT(fac__header(target)));
    return false;
}

/* var as it goes with input: of its sizes, or one for all of the last dimension, which var may lack; or NULL. */
static fac_tensor *fitting_variance(fac_tensor *input, fac_tensor *var) {
    const fac_ints a = fac_tensor_sizes(input), b = fac_tensor_sizes(var);
    const size_t common = a.n ? a.n - 1 : 0;
    const bool lacks = a.n && b.n == common, same = b.n == a.n;
    if ((lacks || same) && (!common || memcmp(a.v, b.v, common * sizeof *a.v) == 0)) {
        if (lacks) return fac_unsqueeze(var, -1);
        if (!a.n || b.v[common] == a.v[common] || b.v[common] == 1) return var;
    }
    if (!fac_error())
        FAC_FAIL(FAC_ERR_SHAPE, "var %s does not go with input %s", FAC_SHAPE_TEXT(fac__header(var)),
                 FAC_SHAPE_TEXT(fac__header(input)));
    return NULL;
}

fac_tensor *fac__gaussian_nll_loss_forward(fac_tensor *input, fac_tensor *target, fac_tensor *var, bool full,
                                           double eps, int64_t reduction) {
    if (fac_item(fac_any(fac_lt(var, 0))) != 0) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "var has negative entries");
        return NULL;
    }
    if (fac_error()) return NULL;
    var = fitting_variance(input, var);
    if (!var) return NULL;
    fac_tensor *least = fac_clamp_min(fac_detach(var), eps);
    var = fac_add(var, fac_sub(least, fac_detach(var))); /* clamped, the gradient as if it were not */
    fac_tensor *loss = fac_mul(fac_add(fac_log(var), fac_div(fac_square(fac_sub(input, target)), var)), 0.5);
    if (full) loss = fac_add(loss, 0.5 * log(2 * 3.14159265358979323846));
    return reduced(loss, reduction);
}

fac_tensor *fac__kl_div_forward(fac_tensor *input, fac_tensor *target, bool log_target, int64_t reduction,
                                const char *reduction_name) {
    if (reduction_name) reduction = FAC_REDUCTION_SUM;
    fac_tensor *loss = fac_kl_div(input, target, (fac_loss_reduction)reduction, .log_target = log_target);
    if (!loss || !reduction_name) return loss;
    if (fac_tensor_ndim(input) == 0) {
        FAC_FAIL(FAC_ERR_SHAPE, "KLDivLoss: there is no batch in an input of no dimensions");
        return NULL;
    }
    return fac_div(loss, (double)fac_tensor_size(input, 0));
}

fac_tensor *fac__multilabel_soft_margin_loss_forward(fac_tensor *input, fac_tensor *target, fac_tensor *weight,
                                                     int64_t reduction) {
    fac_tensor *yes = fac_mul(target, fac_log_sigmoid(input));
    fac_tensor *no = fac_mul(fac_rsub(target, 1), fac_log_sigmoid(fac_neg(input)));
    fac_tensor *loss = fac_neg(fac_add(yes, no));
    if (weight) loss = fac_mul(loss, weight);
    return loss ? reduced(fac_mean(loss, .dim = -1), reduction) : NULL;
}

/* ---- a linear layer and its loss ---- */

/* The product of the classes and the sizes of a loss of several dimensions. */
static fac_status count_outputs(int64_t classes, fac_ints sizes, int64_t *out) {
    *out = classes;
    for (size_t i = 0; i < sizes.n; i++)
        FAC_CHECK(sizes.v[i] >= 0 && fac__mul(*out, sizes.v[i], out), FAC_ERR_ARGUMENT,
                  "LinearCrossEntropyLoss: out_features %lld is negative or too large", (long long)sizes.v[i]);
    return FAC_OK;
}

fac_status fac__build_linear_cross_entropy(fac_module *m, int64_t in, int64_t classes, fac_ints sizes, bool bias,
                                           fac_tensor *weight, fac_dtype dtype, fac_device device) {
    int64_t out;
    FAC_TRY(fac__check_size(m, "num_classes", classes));
    FAC_TRY(count_outputs(classes, sizes, &out));
    if (weight)
        FAC_CHECK(fac_tensor_ndim(weight) == 1 && fac_tensor_size(weight, 0) == classes, FAC_ERR_SHAPE,
                  "expected weight of shape [%lld], got %s", (long long)classes, FAC_SHAPE_TEXT(fac__header(weight)));
    return fac_module_add(m, "linear", fac_linear_new(in, out, .bias = bias, .device = device, .dtype = dtype))
               ? FAC_OK
               : fac_error();
}

fac_tensor *fac__linear_cross_entropy_forward(fac_module *m, fac_tensor *x, fac_tensor *target, fac_tensor *weight,
                                              int64_t classes, fac_ints sizes, int64_t reduction, int64_t ignore_index,
                                              double smoothing) {
    const int n = fac_tensor_ndim(x);
    if (n < 1 || n > 2 || (n == 1 && sizes.n)) {
        FAC_FAIL(FAC_ERR_SHAPE, "LinearCrossEntropyLoss: input should have %s, not %d",
                 sizes.n ? "2 dimensions, as there are out_features" : "1 or 2 dimensions", n);
        return NULL;
    }
    if (ignore_index != FAC_UNSET && fac_dtype_is_floating(fac_tensor_dtype(target))) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "ignore_index cannot be specified when target contains probabilities");
        return NULL;
    }
    int64_t shape[FAC_NN_MAX_LIST + 2] = {0};
    size_t at = 0;
    if (n == 2) shape[at++] = fac_tensor_size(x, 0);
    shape[at++] = classes;
    if (sizes.n) memcpy(shape + at, sizes.v, sizes.n * sizeof *shape);
    fac_tensor *logits = fac_forward(fac_module_child(m, "linear"), x);
    if (!logits) return NULL;
    return fac_cross_entropy(fac_reshape(logits, fac_ints_of(shape, at + sizes.n)), target, weight,
                             (fac_loss_reduction)reduction, ignore_index == FAC_UNSET ? -100 : ignore_index, smoothing);
}

/* ---- a distance of the user's own ---- */

typedef struct own_distance {
    fac_tensor *(*fn)(void *context, fac_tensor *a, fac_tensor *b);
    void *context;
} own_distance;

static fac_tensor *distance_forward(fac_module *self, fac_tensors in) {
    const own_distance *d = self->state;
    fac_tensor *y = NULL;
    if (fac__nn_inputs(self, in, "a, b", 2, 2)) return NULL;
    FAC_CALLBACK(y = d->fn(d->context, in.v[0], in.v[1]));
    return y;
}

static const fac_module_class distance_class = {
    .name = "Distance", .version = 1, .state_size = sizeof(own_distance), .forward_many = distance_forward};

fac_status fac__build_triplet_margin_with_distance(fac_module *m, double margin) {
    FAC_CHECK(margin > 0, FAC_ERR_ARGUMENT,
              "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got %g instead", margin);
    return fac_module_add(m, "distance_function", fac_pairwise_distance_new()) ? FAC_OK : fac_error();
}

fac_status fac_triplet_margin_with_distance_loss_set_distance(
    fac_module *m, fac_tensor *(*distance)(void *context, fac_tensor *a, fac_tensor *b), void *context) {
    FAC_TRY(fac_error());
    if (!fac__given(m, "module")) return fac_error();
    FAC_CHECK(m->cls == &fac__triplet_margin_with_distance_loss_kind.cls, FAC_ERR_ARGUMENT,
              "a distance is given to a TripletMarginWithDistanceLoss, not to %s", m->cls->name);
    FAC_CHECK(distance, FAC_ERR_ARGUMENT, "the distance is NULL");
    fac_module *d = fac_module_new(&distance_class);
    if (!d) return fac_error();
    *(own_distance *)d->state = (own_distance){distance, context};
    fac_child *c = fac__module_child_of(m, "distance_function", strlen("distance_function"));
    fac_module_release(c->module);
    c->module = d;
    return FAC_OK;
}

fac_tensor *fac__triplet_margin_with_distance_forward(fac_module *m, fac_tensor *anchor, fac_tensor *positive,
                                                      fac_tensor *negative, double margin, bool swap,
                                                      int64_t reduction) {
    fac_module *d = fac_module_child(m, "distance_function");
    if (fac_tensor_ndim(anchor) != fac_tensor_ndim(positive) || fac_tensor_ndim(anchor) != fac_tensor_ndim(negative)) {
        FAC_FAIL(FAC_ERR_SHAPE,
                 "the anchor, positive, and negative tensors should have the same number of dimensions, but have "
                 "%d, %d and %d",
                 fac_tensor_ndim(anchor), fac_tensor_ndim(positive), fac_tensor_ndim(negative));
        return NULL;
    }
    fac_tensor *near = fac_forward_many(d, FAC_TENSORS(anchor, positive));
    fac_tensor *far = fac_forward_many(d, FAC_TENSORS(anchor, negative));
    if (swap) far = fac_minimum(far, fac_forward_many(d, FAC_TENSORS(positive, negative)));
    return reduced(fac_clamp_min(fac_add(fac_sub(near, far), margin), 0), reduction);
}
