/* A convolution, or linear layer, and the batch normalisation behind it as one layer, for evaluation. */
#include "keywords_gen.h"
#include "nn/kind.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>

static fac_tensor *slot(fac_module *m, const char *name) {
    const fac_slot *s = fac__module_slot(m, name);
    return s ? s->tensor : NULL;
}

static const fac_nn_kind *kind_of(const fac_module *m) {
    for (const fac_nn_kind *const *k = fac__nn_kinds; *k; k++)
        if (&(*k)->cls == m->cls) return *k;
    return NULL;
}

static void *setting(const fac_module *m, const char *name, fac_nn_type type) {
    const fac_nn_kind *k = kind_of(m);
    for (size_t i = 0; k && i < k->n_fields; i++)
        if (strcmp(k->fields[i].name, name) == 0 && k->fields[i].type == type)
            return (char *)m->state + k->fields[i].offset;
    return NULL;
}

static fac_status check_pair(const fac_module *layer, fac_module *bn, const char *wanted, const char *op) {
    FAC_TRY(fac_error());
    if (!fac__given(layer, "layer") || !fac__given(bn, "bn")) return fac_error();
    FAC_CHECK(strncmp(layer->cls->name, wanted, strlen(wanted)) == 0 && kind_of(layer), FAC_ERR_ARGUMENT,
              "%s takes a %s, not %s", op, wanted, layer->cls->name);
    FAC_CHECK(strncmp(bn->cls->name, "BatchNorm", strlen("BatchNorm")) == 0 && kind_of(bn), FAC_ERR_ARGUMENT,
              "%s takes a batch normalisation, not %s", op, bn->cls->name);
    FAC_CHECK(!layer->training && !bn->training, FAC_ERR_ARGUMENT, "%s: Fusion only for eval!", op);
    FAC_CHECK(slot(bn, "running_mean") && slot(bn, "running_var"), FAC_ERR_ARGUMENT,
              "%s: bn.running_mean and bn.running_var must not be None", op);
    FAC_CHECK(!layer->computed.n, FAC_ERR_ARGUMENT, "%s: parameters of %s are parametrised, normed or pruned", op,
              layer->cls->name);
    return FAC_OK;
}

/* Puts a new parameter in the place of one. */
static fac_status put(fac_module *m, const char *name, fac_tensor *t, bool learned) {
    fac_tensor *leaf = t ? fac_detach(t) : NULL;
    if (!leaf || (learned && !fac_set_requires_grad(leaf, true))) return fac_error();
    return fac_module_set_tensor(m, name, leaf);
}

/* Weights of which dimension `channels` is that of the normalisation, -1: there is one of all. */
static fac_status fuse(fac_module *layer, fac_module *bn, int channels) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *w = slot(layer, "weight"), *b = slot(layer, "bias"), *mean = slot(bn, "running_mean");
    fac_tensor *gain = slot(bn, "weight"), *shift = slot(bn, "bias");
    const fac_dtype dtype = fac_tensor_dtype(w);
    const bool learned = fac_requires_grad(w);
    fac_tensor *scale = fac_rsqrt(fac_add(slot(bn, "running_var"), *(double *)setting(bn, "eps", FAC_NN_FLOAT)));
    if (gain) scale = fac_mul(scale, gain);
    int64_t sizes[FAC_MAX_DIMS];
    for (int d = 0; d < fac_tensor_ndim(w); d++) sizes[d] = d == channels ? -1 : 1;
    fac_tensor *by = fac_reshape(scale, fac_ints_of(sizes, (size_t)fac_tensor_ndim(w)));
    fac_tensor *made = fac_mul(b ? fac_sub(b, mean) : fac_neg(mean), scale);
    if (shift) made = fac_add(made, shift);
    FAC_TRY(put(layer, "weight", fac_to(fac_mul(w, by), .dtype = dtype), learned));
    FAC_TRY(
        put(layer, "bias", fac_to(made, .dtype = b ? fac_tensor_dtype(b) : dtype), b ? fac_requires_grad(b) : learned));
    bool *has_bias = setting(layer, "bias", FAC_NN_BOOL);
    if (has_bias) *has_bias = true;
    return FAC_OK;
}

fac_module *(fac_fuse_conv_bn)(fac_module *conv, fac_module *bn, const fac_fuse_conv_bn_kw *kw) {
    fac_fuse_conv_bn_kw k;
    if (fac_error() || fac__open_fuse_conv_bn_kw(&k, kw) || check_pair(conv, bn, "Conv", "fuse_conv_bn")) return NULL;
    const int channels = k.transpose ? 1 : 0;
    if (fac_tensor_size(slot(conv, "weight"), channels) != fac_tensor_size(slot(bn, "running_mean"), 0)) {
        FAC_FAIL(FAC_ERR_SHAPE, "fuse_conv_bn: the weight %s has not %lld channels in dimension %d",
                 FAC_SHAPE_TEXT(fac__header(slot(conv, "weight"))),
                 (long long)fac_tensor_size(slot(bn, "running_mean"), 0), channels);
        return NULL;
    }
    fac_module *m = fac_module_copy(conv);
    return m ? fac__nn_done(m, fuse(m, bn, channels)) : NULL;
}

fac_module *fac_fuse_linear_bn(fac_module *linear, fac_module *bn) {
    if (check_pair(linear, bn, "Linear", "fuse_linear_bn")) return NULL;
    const int64_t out = fac_tensor_size(slot(linear, "weight"), 0), n = fac_tensor_size(slot(bn, "running_mean"), 0);
    if (n != out && n != 1) {
        FAC_FAIL(FAC_ERR_SHAPE,
                 "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got %lld and %lld",
                 (long long)out, (long long)n);
        return NULL;
    }
    fac_module *m = fac_module_copy(linear);
    return m ? fac__nn_done(m, fuse(m, bn, 0)) : NULL;
}
