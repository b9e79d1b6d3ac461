/* Losses that are made of several operators. */
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

static fac_tensor *reduced(fac_tensor *loss, int64_t reduction) {
    if (!loss) return NULL;
    return reduction == FAC_REDUCTION_MEAN ? fac_mean(loss) : reduction == FAC_REDUCTION_SUM ? fac_sum(loss) : loss;
}

fac_tensor *fac__gaussian_nll_loss_forward(fac_tensor *input, fac_tensor *target, fac_tensor *var, bool full,
                                           double eps, int64_t reduction) {
    if (fac_item(fac_any(fac_lt(var, 0))) != 0) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "var has negative entries");
        return NULL;
    }
    if (fac_error()) return NULL;
    const int n = fac_tensor_ndim(input);
    if (fac_tensor_ndim(var) + 1 == n) var = fac_unsqueeze(var, -1); /* one for each sample */
    fac_tensor *least = fac_clamp_min(fac_detach(var), eps);
    var = fac_add(var, fac_sub(least, fac_detach(var))); /* clamped, the gradient as if it were not */
    fac_tensor *loss = fac_mul(fac_add(fac_log(var), fac_div(fac_square(fac_sub(input, target)), var)), 0.5);
    if (full) loss = fac_add(loss, 0.5 * log(2 * 3.14159265358979323846));
    return reduced(loss, reduction);
}

fac_tensor *fac__multilabel_soft_margin_loss_forward(fac_tensor *input, fac_tensor *target, fac_tensor *weight,
                                                     int64_t reduction) {
    fac_tensor *yes = fac_mul(target, fac_log_sigmoid(input));
    fac_tensor *no = fac_mul(fac_rsub(target, 1), fac_log_sigmoid(fac_neg(input)));
    fac_tensor *loss = fac_neg(fac_add(yes, no));
    if (weight) loss = fac_mul(loss, weight);
    return loss ? reduced(fac_mean(loss, .dim = -1), reduction) : NULL;
}
