/* Normalisation, and dropout of channels. */
#include "nn/layers.h"
#include <facula/ops.h>

fac_status fac__build_layer_norm(fac_module *m, fac_ints shape, bool weight, bool bias, bool has_bias, fac_dtype dtype,
                                 fac_device device) {
    FAC_CHECK(shape.n >= 1, FAC_ERR_SHAPE, "the normalised shape should have at least one dimension");
    FAC_TRY(fac__add_constant(m, "weight", shape, 1, weight, dtype, device));
    return has_bias ? fac__add_constant(m, "bias", shape, 0, bias, dtype, device) : FAC_OK;
}

fac_status fac__build_group_norm(fac_module *m, int64_t groups, int64_t channels, bool affine, bool bias,
                                 fac_dtype dtype, fac_device device) {
    FAC_CHECK(groups > 0 && channels % groups == 0, FAC_ERR_ARGUMENT, "num_channels must be divisible by num_groups");
    FAC_TRY(fac__add_constant(m, "weight", FAC_INTS(channels), 1, affine, dtype, device));
    return fac__add_constant(m, "bias", FAC_INTS(channels), 0, bias, dtype, device);
}

/* ---- by channels, over a batch or in each sample ---- */

fac_status fac__build_batch_norm(fac_module *m, int64_t channels, bool affine, bool bias, bool running, fac_dtype dtype,
                                 fac_device device) {
    const fac_ints sizes = FAC_INTS(channels);
    FAC_TRY(fac__add_constant(m, "weight", sizes, 1, affine, dtype, device));
    FAC_TRY(fac__add_constant(m, "bias", sizes, 0, bias, dtype, device));
    FAC_SCOPE(scope);
    if (!running) {
        (void)fac_module_add_buffer(m, "running_mean", NULL);
        (void)fac_module_add_buffer(m, "running_var", NULL);
        (void)fac_module_add_buffer(m, "num_batches_tracked", NULL);
        return fac_error();
    }
    (void)fac_module_add_buffer(m, "running_mean", fac_zeros(sizes, .dtype = dtype, .device = device));
    (void)fac_module_add_buffer(m, "running_var", fac_ones(sizes, .dtype = dtype, .device = device));
    (void)fac_module_add_buffer(m, "num_batches_tracked", fac_zeros(FAC_INTS(), .dtype = FAC_I64, .device = device));
    return fac_error();
}

static fac_tensor *slot(fac_module *m, const char *name) { return fac__module_slot(m, name)->tensor; }

/* Counts a batch; the momentum of the running statistics, of a mean over all batches where there is none. */
static fac_status count_batch(fac_module *m, double *momentum) {
    fac_tensor *count = slot(m, "num_batches_tracked");
    FAC_NO_GRAD(g);
    if (!fac_add_(count, 1)) return fac_error();
    if (*momentum == FAC_UNSET_FLOAT) *momentum = 1 / fac_item(count);
    return fac_error();
}

static bool has_dims(const fac_tensor *x, int least, int most) {
    const int n = fac_tensor_ndim(x);
    if (n >= least && n <= most) return true;
    if (least == most)
        FAC_FAIL(FAC_ERR_SHAPE, "expected %dD input (got %dD input)", least, n);
    else
        FAC_FAIL(FAC_ERR_SHAPE, "expected %dD or %dD input (got %dD input)", least, most, n);
    return false;
}

fac_tensor *fac__batch_norm_forward(fac_module *m, fac_tensor *x, int dims, double eps, double momentum, bool running) {
    const bool training = m->training;
    if (!has_dims(x, dims == 1 ? 2 : dims + 2, dims + 2)) return NULL;
    if ((training || !running) && fac_tensor_numel(x) == fac_tensor_size(x, 1)) {
        FAC_FAIL(FAC_ERR_SHAPE, "Expected more than 1 value per channel when training, got input size %s",
                 FAC_SHAPE_TEXT(fac__header(x)));
        return NULL;
    }
    if ((training || !running) && !(eps > 0)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "batch_norm eps must be positive during training, but got %g", eps);
        return NULL;
    }
    if (m->cumulative) momentum = FAC_UNSET_FLOAT;
    if (training && running && count_batch(m, &momentum)) return NULL;
    return fac_batch_norm(x, slot(m, "weight"), slot(m, "bias"), slot(m, "running_mean"), slot(m, "running_var"),
                          training || !running, momentum == FAC_UNSET_FLOAT ? 0 : momentum, eps, true);
}

bool fac__nn_has_batch_statistics(fac_module *m) {
    static const char *const names[] = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"};
    bool is = false;
    for (size_t i = 0; i < FAC_COUNT(names); i++) is |= strcmp(m->cls->name, names[i]) == 0;
    const fac_slot *mean = is ? fac__module_slot(m, "running_mean") : NULL;
    return mean && mean->tensor;
}

fac_tensor *fac__instance_norm_forward(fac_module *m, fac_tensor *x, int dims, int64_t channels, double eps,
                                       double momentum, bool running) {
    if (!has_dims(x, dims + 1, dims + 2)) return NULL;
    const bool single = fac_tensor_ndim(x) == dims + 1;
    if (slot(m, "weight") && fac_tensor_size(x, single ? 0 : 1) != channels) {
        FAC_FAIL(FAC_ERR_SHAPE, "expected an input of %lld channels (got %s)", (long long)channels,
                 FAC_SHAPE_TEXT(fac__header(x)));
        return NULL;
    }
    if (single) x = fac_unsqueeze(x, 0);
    fac_tensor *y = fac_instance_norm(x, slot(m, "weight"), slot(m, "bias"), slot(m, "running_mean"),
                                      slot(m, "running_var"), m->training || !running, momentum, eps, true);
    return single && y ? fac_squeeze_dim(y, 0) : y;
}

/* The mean of the squares of `size` neighbouring channels is an average pooling along them, with zeros around. */
fac_tensor *fac__local_response_norm_forward(fac_tensor *x, int64_t size, double alpha, double beta, double k) {
    if (fac_tensor_ndim(x) < 3) {
        FAC_FAIL(FAC_ERR_SHAPE, "Expected 3D or higher dimensionality input (got %d dimensions)", fac_tensor_ndim(x));
        return NULL;
    }
    if (fac_tensor_numel(x) == 0) return x;
    const fac_ints flat = FAC_INTS(fac_tensor_size(x, 0), 1, fac_tensor_size(x, 1), -1);
    fac_tensor *squares = fac_reshape(fac_mul(x, x), flat);
    squares = fac_pad(squares, FAC_INTS(0, 0, size / 2, (size - 1) / 2));
    fac_tensor *mean = fac_avg_pool2d(squares, FAC_INTS(size, 1), .stride = 1);
    if (!mean) return NULL;
    return fac_div(x, fac_pow(fac_add(fac_mul(fac_reshape(mean, fac_tensor_sizes(x)), alpha), k), beta));
}

/* ---- channels ---- */

fac_tensor *fac__feature_dropout_forward(fac_tensor *x, int dims, double p, bool training, bool inplace) {
    const int n = fac_tensor_ndim(x);
    const bool single = n == dims + 1 && dims != 2; /* of [N, C, L] the channels are dropped, in PyTorch as well */
    if (!has_dims(x, dims + 1, dims + 2)) return NULL;
    if (inplace) {
        fac_tensor *y = fac_feature_dropout_(single ? fac_unsqueeze(x, 0) : x, p, training);
        return single && y ? x : y;
    }
    fac_tensor *y = fac_feature_dropout(single ? fac_unsqueeze(x, 0) : x, p, training);
    return single && y ? fac_squeeze_dim(y, 0) : y;
}

int64_t fac__softmax_dim(const fac_tensor *x, int64_t dim) {
    const int n = fac_tensor_ndim(x);
    return dim != FAC_UNSET ? dim : n == 0 || n == 1 || n == 3 ? 0 : 1;
}

fac_tensor *fac__softmax2d_forward(fac_tensor *x) {
    if (!has_dims(x, 3, 4)) return NULL;
    return fac_softmax(x, -3);
}
