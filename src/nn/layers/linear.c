/* Linear, Bilinear, PReLU, and tables of rows: Embedding and EmbeddingBag. */
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

static double bound_of(int64_t fan_in) { return fan_in > 0 ? 1 / sqrt((double)fan_in) : 0; }

fac_status fac__build_linear(fac_module *m, int64_t in, int64_t out, bool bias, fac_dtype dtype, fac_device device) {
    FAC_TRY(fac__add_uniform(m, "weight", FAC_INTS(out, in), bound_of(in), true, dtype, device));
    return fac__add_uniform(m, "bias", FAC_INTS(out), bound_of(in), bias, dtype, device);
}

fac_status fac__build_bilinear(fac_module *m, int64_t in1, int64_t in2, int64_t out, bool bias, fac_dtype dtype,
                               fac_device device) {
    FAC_CHECK(in1 > 0, FAC_ERR_ARGUMENT, "in1_features must be > 0, but got %lld", (long long)in1);
    FAC_TRY(fac__add_uniform(m, "weight", FAC_INTS(out, in1, in2), bound_of(in1), true, dtype, device));
    return fac__add_uniform(m, "bias", FAC_INTS(out), bound_of(in1), bias, dtype, device);
}

fac_status fac__build_prelu(fac_module *m, int64_t n, double init, fac_dtype dtype, fac_device device) {
    FAC_TRY(fac__check_size(m, "num_parameters", n));
    return fac__add_constant(m, "weight", FAC_INTS(n), init, true, dtype, device);
}

/* ---- tables ---- */

static fac_status zero_row(fac_tensor *w, int64_t row) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *r = fac_select(w, 0, row);
    return r && fac_zero_(r) ? FAC_OK : fac_error();
}

fac_status fac__build_embedding(fac_module *m, int64_t count, int64_t dim, int64_t *padding_idx, fac_dtype dtype,
                                fac_device device) {
    FAC_CHECK(count >= 0 && dim >= 0, FAC_ERR_ARGUMENT, "a table cannot have %lld rows of %lld numbers",
              (long long)count, (long long)dim);
    const int64_t given = *padding_idx, row = given == FAC_UNSET ? -1 : given < 0 ? given + count : given;
    FAC_CHECK(given == FAC_UNSET || (row >= 0 && row < count), FAC_ERR_INDEX,
              "padding_idx %lld is outside of a table of %lld rows", (long long)given, (long long)count);
    if (given != FAC_UNSET) *padding_idx = row;
    fac_tensor *w = fac__nn_parameter(m, "weight", FAC_INTS(count, dim), dtype, device);
    if (!w) return fac_error();
    FAC_TRY(fac__nn_normal(w));
    return row >= 0 ? zero_row(w, row) : FAC_OK;
}

/* Scales the rows of w that x looks up to a norm of at most max_norm, unless that is FAC_UNSET_FLOAT. */
static fac_status limit_rows(fac_tensor *w, fac_tensor *x, double max_norm, double norm_type) {
    if (max_norm == FAC_UNSET_FLOAT) return FAC_OK;
    FAC_NO_GRAD(g);
    return fac_embedding_renorm_(w, x, max_norm, norm_type) ? FAC_OK : fac_error();
}

fac_tensor *fac__embedding_forward(fac_module *m, fac_tensor *x, int64_t padding_idx, double max_norm, double norm_type,
                                   bool scale_grad_by_freq, bool sparse) {
    fac_tensor *w = fac__module_slot(m, "weight")->tensor;
    if (limit_rows(w, x, max_norm, norm_type)) return NULL;
    return fac_embedding(w, x, .padding_idx = padding_idx == FAC_UNSET ? -1 : padding_idx,
                         .scale_grad_by_freq = scale_grad_by_freq, .sparse = sparse);
}

fac_tensor *fac__embedding_bag_forward(fac_module *m, fac_tensor *x, fac_tensor *offsets, fac_tensor *weights,
                                       int64_t padding_idx, double max_norm, double norm_type, bool scale_grad_by_freq,
                                       const char *mode, bool sparse, bool include_last_offset) {
    fac_tensor *w = fac__module_slot(m, "weight")->tensor;
    const int ndim = x ? fac_tensor_ndim(x) : 0;
    if (ndim != 1 && ndim != 2) {
        FAC_FAIL(FAC_ERR_SHAPE, "EmbeddingBag takes an input of one or two dimensions, not %d", ndim);
        return NULL;
    }
    if ((ndim == 2) == (offsets != NULL)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "EmbeddingBag takes offsets if the input has one dimension, and only then");
        return NULL;
    }
    const int64_t how = strcmp(mode, "sum") == 0 ? 0 : strcmp(mode, "mean") == 0 ? 1 : 2;
    if (how == 2 && scale_grad_by_freq) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "max mode does not support scaling the gradient by the frequency");
        return NULL;
    }
    if (limit_rows(w, x, max_norm, norm_type)) return NULL;
    if (ndim == 2) { /* bags of equal size */
        const int64_t bags = fac_tensor_size(x, 0), size = fac_tensor_size(x, 1);
        offsets = fac_mul(fac_arange(bags, .dtype = fac_tensor_dtype(x), .device = fac_tensor_device(x)), size);
        x = fac_reshape(x, FAC_INTS(-1));
        if (weights) weights = fac_reshape(weights, FAC_INTS(-1));
        include_last_offset = false;
    }
    return fac_embedding_bag_padding_idx(w, x, offsets, scale_grad_by_freq, how, sparse, weights, include_last_offset,
                                         padding_idx)
        .result0;
}
