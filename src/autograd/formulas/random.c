/* Gradients of random operators. */
#include "ops_gen.h"

fac_tensor *native_dropout_grad(fac_tensor *grad, fac_tensor *mask, double p, fac_opt_num train) {
    double keep = !train.set || fac__scalar_f64(train.v) != 0 ? 1 - p : 1;
    return fac__s_native_dropout_backward(grad, mask, keep > 0 ? 1 / keep : 0);
}
