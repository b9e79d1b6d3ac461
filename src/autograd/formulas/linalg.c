/* Gradients of matrix products: the products themselves are expressions in linalg.yaml. */
#include "ops/call.h"
#include "ops_gen.h"

/* grad * scale, without an operator where scale is 1. */
fac_tensor *scale_grad(fac_tensor *grad, fac_scalar scale) {
    return fac__scalar_is(scale, 1) ? grad : fac__s_mul_Scalar(grad, scale);
}
