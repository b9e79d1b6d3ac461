/* Gradients of Fourier transforms: a linear map's gradient is its adjoint. The adjoint of a transform is the other one without its
   scale, so that the same scale serves both. */
#include "autograd/formulas/brief.h"

fac_tensor *fft_c2c_grad(fac_tensor *grad, fac_ints dim, int64_t normalization, bool forward) {
    return fac__s__fft_c2c(grad, dim, normalization, !forward);
}

/* Half of a spectrum with the points that stand for their mirror images too, `count` from the second on of dimension d, multiplied. By
   its parts: devices without complex arithmetic have it too. */
static fac_tensor *inner_times(fac_tensor *half, int64_t d, int64_t count, double by) {
    fac_tensor *parts = fac__s_view_as_real(fac__s_resolve_conj(half));
    if (!parts || count <= 0) return parts ? half : NULL;
    const int64_t after = half->sizes[d] - 1 - count, rows[3] = {1, count, after};
    fac_tensor *runs[3];
    for (int i = 0; i < 3; i++)
        runs[i] = fac__s_new_full(parts, FAC_INTS(rows[i], 2), fac_scalar_f_(i == 1 ? by : 1), FAC_DTYPE_DEFAULT,
                                  FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    int64_t shape[FAC_MAX_DIMS];
    for (int i = 0; i < parts->ndim; i++) shape[i] = i == d || i == parts->ndim - 1 ? parts->sizes[i] : 1;
    fac_tensor *factors = fac__s_view(fac__s_cat((fac_tensors){runs, 3}, 0), (fac_ints){shape, (size_t)parts->ndim});
    return fac__s_view_as_complex(fac__s_mul_Tensor(parts, factors));
}

/* The points that were left out had no gradient, and the edge takes the real part: the inverse transform that takes them for mirror
   images gives twice what the others give. */
fac_tensor *fft_r2c_grad(fac_tensor *grad, fac_ints dim, int64_t normalization, bool onesided, fac_ints sizes) {
    int64_t d;
    if (!grad || !onesided) return fac__s_real(fac__s__fft_c2c(grad, dim, normalization, false));
    if (fac__wrap_dim(dim.v[dim.n - 1], grad->ndim, &d) != FAC_OK) return NULL;
    fac_tensor *half = inner_times(grad, d, sizes.v[d] - grad->sizes[d], 0.5);
    return fac__s__fft_c2r(half, dim, normalization, sizes.v[d]);
}

/* A point that stands for its mirror image too counts twice. */
fac_tensor *fft_c2r_grad(fac_tensor *grad, fac_ints dim, int64_t normalization) {
    fac_tensor *half = fac__s__fft_r2c(grad, dim, normalization, true);
    int64_t d;
    if (!half || fac__wrap_dim(dim.v[dim.n - 1], half->ndim, &d) != FAC_OK) return NULL;
    return inner_times(half, d, grad->sizes[d] - half->sizes[d], 2);
}
