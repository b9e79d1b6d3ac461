/* Max pooling with indices, pooling by norms, and the inverse of max pooling. */
#include "nn/layers.h"
#include <facula/ops.h>

/* The sign of the mean of powers, times what is left of it: powers of odd order may be negative. */
static fac_tensor *root_of(fac_tensor *mean, double count, double norm_type) {
    fac_tensor *positive = fac_mul(fac_sign(mean), fac_relu(fac_abs(mean)));
    return fac_pow(fac_mul(positive, count), 1 / norm_type);
}

fac_status fac__check_lp_pool(fac_module *m, double norm_type) {
    FAC_CHECK(norm_type != 0, FAC_ERR_ARGUMENT, "%s: norm_type should not be 0", m->cls->name);
    return FAC_OK;
}

fac_tensor *fac__lp_pool_forward(fac_tensor *x, double norm_type, fac_ints kernel, fac_ints stride, bool ceil_mode) {
    double count = 1;
    for (size_t i = 0; i < kernel.n; i++) count *= (double)kernel.v[i];
    if (stride.v[0] == 0) stride = kernel;
    fac_tensor *powers = fac_pow(x, norm_type), *mean;
    switch (kernel.n) {
    case 1: mean = fac_avg_pool1d(powers, kernel, .strides = stride, .ceil_mode = ceil_mode); break;
    case 2: mean = fac_avg_pool2d(powers, kernel, .strides = stride, .ceil_mode = ceil_mode); break;
    default: mean = fac_avg_pool3d(powers, kernel, .strides = stride, .ceil_mode = ceil_mode);
    }
    return mean ? root_of(mean, count, norm_type) : NULL;
}

#define ALL_OF(DIMS)                                                                                           \
    fac_status fac__max_pool##DIMS##_all(fac_tensor *x, fac_ints kernel, fac_ints stride, fac_ints padding,    \
                                         fac_ints dilation, bool ceil_mode, fac_tensor **out) {                \
        fac_max_pool##DIMS##_with_indices_result r = fac_max_pool##DIMS##_with_indices(                        \
            x, kernel, .strides = stride, .paddings = padding, .dilations = dilation, .ceil_mode = ceil_mode); \
        return out[0] = r.result0, out[1] = r.result1, fac_error();                                            \
    }
ALL_OF(1d)
ALL_OF(2d)
ALL_OF(3d)

fac_status fac__adaptive_max_pool_all(fac_tensor *x, fac_ints size, fac_tensor **out) {
    if (size.n == 1) {
        const fac_adaptive_max_pool1d_result r = fac_adaptive_max_pool1d(x, size);
        out[0] = r.result0, out[1] = r.result1;
    } else if (size.n == 2) {
        const fac_adaptive_max_pool2d_result r = fac_adaptive_max_pool2d(x, size);
        out[0] = r.result0, out[1] = r.result1;
    } else {
        const fac_adaptive_max_pool3d_result r = fac_adaptive_max_pool3d(x, size);
        out[0] = r.result0, out[1] = r.result1;
    }
    return fac_error();
}

fac_tensor *fac__max_unpool_forward(fac_tensor *x, fac_tensor *indices, fac_ints kernel, fac_ints stride,
                                    fac_ints padding) {
    const int n = (int)kernel.n, ndim = fac_tensor_ndim(x);
    if (ndim != n + 1 && ndim != n + 2) {
        FAC_FAIL(FAC_ERR_SHAPE, "max unpooling of %d dimensions takes an input of %d or %d dimensions, not %d", n,
                 n + 1, n + 2, ndim);
        return NULL;
    }
    int64_t sizes[3] = {0};
    for (int d = 0; d < n; d++)
        sizes[d] = (fac_tensor_size(x, ndim - n + d) - 1) * stride.v[d] - 2 * padding.v[d] + kernel.v[d];
    if (n == 3) return fac_max_unpool3d(x, indices, fac_ints_of(sizes, 3), stride, padding);
    if (n == 2) return fac_max_unpool2d(x, indices, fac_ints_of(sizes, 2));
    fac_tensor *plane = fac_max_unpool2d(fac_unsqueeze(x, -1), fac_unsqueeze(indices, -1), FAC_INTS(sizes[0], 1));
    return plane ? fac_squeeze_dim(plane, -1) : NULL;
}

fac_status fac__check_fractional_max_pool(fac_module *m, fac_ints kernel, fac_ints size, fac_floats ratio) {
    const char *name = m->cls->name;
    FAC_CHECK(size.n || ratio.n, FAC_ERR_ARGUMENT, "%s requires specifying either an output size, or a pooling ratio",
              name);
    FAC_CHECK(!size.n || !ratio.n, FAC_ERR_ARGUMENT, "only one of output_size and output_ratio may be specified");
    const size_t n = size.n + ratio.n;
    FAC_CHECK(n == 1 || n == kernel.n, FAC_ERR_ARGUMENT, "%s: output_%s should be one number or %zu, not %zu", name,
              size.n ? "size" : "ratio", kernel.n, n);
    for (size_t i = 0; i < ratio.n; i++)
        FAC_CHECK(ratio.v[i] > 0 && ratio.v[i] < 1, FAC_ERR_ARGUMENT, "output_ratio must be between 0 and 1 (got %g)",
                  ratio.v[i]);
    for (size_t i = 0; i < kernel.n; i++)
        FAC_CHECK(kernel.v[i] > 0, FAC_ERR_ARGUMENT, "kernel_size must be greater than 0, but got %lld",
                  (long long)kernel.v[i]);
    return FAC_OK;
}

fac_status fac__fractional_max_pool_all(fac_tensor *x, fac_ints kernel, fac_ints size, fac_floats ratio,
                                        fac_tensor *samples, fac_tensor **out) {
    const int n = (int)kernel.n, ndim = fac_tensor_ndim(x);
    FAC_CHECK(ndim == n + 1 || ndim == n + 2, FAC_ERR_SHAPE,
              "fractional max pooling of %d dimensions takes an input of %d or %d dimensions, not %d", n, n + 1, n + 2,
              ndim);
    int64_t sizes[3] = {0};
    for (int d = 0; d < n; d++)
        sizes[d] = size.n ? size.v[size.n == 1 ? 0 : d]
                          : (int64_t)((double)fac_tensor_size(x, ndim - n + d) * ratio.v[ratio.n == 1 ? 0 : d]);
    if (!samples)
        samples = fac_rand(FAC_INTS(ndim == n + 1 ? 1 : fac_tensor_size(x, 0), fac_tensor_size(x, ndim - n - 1), n),
                           .dtype = fac_tensor_dtype(x), .device = fac_tensor_device(x));
    if (n == 2) {
        const fac_fractional_max_pool2d_result r = fac_fractional_max_pool2d(x, kernel, fac_ints_of(sizes, 2), samples);
        out[0] = r.result0, out[1] = r.result1;
    } else {
        const fac_fractional_max_pool3d_result r = fac_fractional_max_pool3d(x, kernel, fac_ints_of(sizes, 3), samples);
        out[0] = r.result0, out[1] = r.result1;
    }
    return fac_error();
}
