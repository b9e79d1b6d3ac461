/* Gradients of Fourier transforms: a linear map's gradient is its adjoint. The adjoint of a transform is the other one without its
   scale, so that the same scale serves both. */
#include "autograd/formulas/brief.h"

fac_tensor *fft_c2c_grad(fac_tensor *grad, fac_ints dim, int64_t normalization, bool forward) {
    return fac__s__fft_c2c(grad, dim, normalization, !forward);
}

/* t with zeros behind, up to the size that dimension dim has in `sizes`. */
static fac_tensor *extended(fac_tensor *t, int64_t dim, fac_ints sizes) {
    int64_t pad[2 * FAC_MAX_DIMS] = {0}, d;
    if (!t || fac__wrap_dim(dim, t->ndim, &d) != FAC_OK || t->sizes[d] == sizes.v[d]) return t;
    const int64_t from_last = t->ndim - 1 - d;
    pad[2 * from_last + 1] = sizes.v[d] - t->sizes[d];
    return fac__s_constant_pad_nd(t, (fac_ints){pad, 2 * (size_t)from_last + 2}, fac_scalar_i_(0));
}

/* The points that were left out had no gradient. The edge takes the real part. */
fac_tensor *fft_r2c_grad(fac_tensor *grad, fac_ints dim, int64_t normalization, bool onesided, fac_ints sizes) {
    fac_tensor *all = onesided ? extended(grad, dim.v[dim.n - 1], sizes) : grad;
    return fac__s_real(fac__s__fft_c2c(all, dim, normalization, false));
}

/* By its parts: devices without complex arithmetic have it too. */
static fac_tensor *doubled(fac_tensor *t) {
    return t ? fac__s_view_as_complex(scaled_by(fac__s_view_as_real(t), 2)) : NULL;
}

/* A point that stands for its mirror image too counts twice. */
fac_tensor *fft_c2r_grad(fac_tensor *grad, fac_ints dim, int64_t normalization) {
    fac_tensor *half = fac__s__fft_r2c(grad, dim, normalization, true);
    int64_t d;
    if (!half || fac__wrap_dim(dim.v[dim.n - 1], half->ndim, &d) != FAC_OK) return NULL;
    const int64_t twice = grad->sizes[d] - half->sizes[d], after = half->sizes[d] - 1 - twice;
    if (twice <= 0) return half;
    fac_tensor *parts[3] = {fac__s_narrow(half, d, 0, 1), doubled(fac__s_narrow(half, d, 1, twice)),
                            after ? fac__s_narrow(half, d, 1 + twice, after) : NULL};
    return fac__s_cat((fac_tensors){parts, after ? 3 : 2}, d);
}
