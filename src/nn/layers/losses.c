/* Losses that are made of several operators. */
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
