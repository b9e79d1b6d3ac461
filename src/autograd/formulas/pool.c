/* Gradients of pooling's gradients. */
#include "autograd/formulas/brief.h"

/* Elements of grad [*, d...] at flat places `indices` [*, o...] of each plane of nd dimensions. */
fac_tensor *pool_gather(fac_tensor *grad, fac_tensor *indices, int64_t nd) {
    int64_t lead = grad->ndim - nd;
    if (indices->numel == 0) return zeros_of(grad, fac__sizes_now(indices));
    fac_tensor *planes = fac__s_flatten_using_ints(grad, lead, -1);
    fac_tensor *places = fac__s_flatten_using_ints(indices, lead, -1);
    return fac__s_reshape(fac__s_gather(planes, lead, places, false), fac__sizes_now(indices));
}

/* Adaptive mean pooling of grad to the window dimensions of `sizes`. */
fac_tensor *adaptive_pool_again(fac_tensor *grad, fac_ints sizes, int64_t nd) {
    fac_ints last = {sizes.v + sizes.n - (size_t)nd, (size_t)nd};
    return nd == 2 ? fac__s__adaptive_avg_pool2d(grad, last) : fac__s__adaptive_avg_pool3d(grad, last);
}
