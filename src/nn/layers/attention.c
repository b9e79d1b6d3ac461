/* MultiheadAttention: one projection for queries, keys and values, attention by heads, one projection out. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <math.h>

typedef struct attention {
    int64_t dim, heads;
    double dropout;
    bool causal;
} attention;

/* [N, T, dim] -> [N, heads, T, dim/heads] */
static fac_tensor *split_heads(const attention *a, fac_tensor *x) {
    return fac_transpose(
        fac_view(x, FAC_INTS(fac_tensor_size(x, 0), fac_tensor_size(x, 1), a->heads, a->dim / a->heads)), 1, 2);
}

static fac_tensor *attend(fac_module *self, fac_tensor *q, fac_tensor *k, fac_tensor *v) {
    const attention *a = fac_module_state(self);
    fac_tensor *y = fac_scaled_dot_product_attention(split_heads(a, q), split_heads(a, k), split_heads(a, v),
                                                     .dropout_p = fac_module_is_training(self) ? a->dropout : 0,
                                                     .is_causal = a->causal);
    if (!y) return NULL;
    y = fac_reshape(fac_transpose(y, 1, 2), FAC_INTS(fac_tensor_size(q, 0), fac_tensor_size(q, 1), a->dim));
    return fac_forward(fac_module_child(self, "out_proj"), y);
}

static bool check_input(const attention *a, const fac_tensor *x) {
    if (x && fac_tensor_ndim(x) == 3 && fac_tensor_size(x, 2) == a->dim) return true;
    if (!fac_error())
        FAC_FAIL(FAC_ERR_SHAPE, "attention takes [N, T, %lld], not %s", (long long)a->dim,
                 x ? FAC_SHAPE_TEXT(fac__header(x)) : "NULL");
    return false;
}

static fac_tensor *self_attention(fac_module *self, fac_tensor *x) {
    const attention *a = fac_module_state(self);
    if (!check_input(a, x)) return NULL;
    fac_tensor *qkv =
        fac_linear(x, fac_module_parameter(self, "in_proj_weight"), fac_module_parameter(self, "in_proj_bias"));
    fac_tensors parts = fac_split(qkv, a->dim, .dim = 2);
    return parts.n == 3 ? attend(self, parts.v[0], parts.v[1], parts.v[2]) : NULL;
}

static fac_tensor *project(fac_module *self, int part, fac_tensor *x) {
    const attention *a = fac_module_state(self);
    fac_tensor *w = fac_module_parameter(self, "in_proj_weight"), *b = fac_module_parameter(self, "in_proj_bias");
    if (!check_input(a, x) || fac_error()) return NULL;
    w = fac_narrow(w, 0, part * a->dim, a->dim);
    return fac_linear(x, w, b ? fac_narrow(b, 0, part * a->dim, a->dim) : NULL);
}

static fac_tensor *cross_attention(fac_module *self, fac_tensors in) {
    if (in.n != 3) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "attention takes one input, or query, key and value; not %zu inputs", in.n);
        return NULL;
    }
    fac_tensor *q = project(self, 0, in.v[0]), *k = project(self, 1, in.v[1]), *v = project(self, 2, in.v[2]);
    return q && k && v ? attend(self, q, k, v) : NULL;
}

static void attention_describe(fac_module *self, char *buf, size_t size) {
    const attention *a = fac_module_state(self);
    snprintf(buf, size, "%lld, heads=%lld%s", (long long)a->dim, (long long)a->heads, a->causal ? ", causal=True" : "");
}

static const fac_module_class attention_class = {.name = "MultiheadAttention",
                                                 .version = 1,
                                                 .state_size = sizeof(attention),
                                                 .copy = fac_module_copy_values,
                                                 .forward = self_attention,
                                                 .forward_many = cross_attention,
                                                 .describe = attention_describe};

/* Projections start as Glorot's uniform (in) and as a Linear (out); biases start at zero. */
static fac_status attention_fill(fac_module *m, int64_t dim, int64_t heads, const fac_multihead_attention_new_kw *k) {
    FAC_CHECK(heads > 0 && dim > 0 && dim % heads == 0, FAC_ERR_ARGUMENT, "dim %lld must be divisible by heads %lld",
              (long long)dim, (long long)heads);
    FAC_CHECK(k->dropout >= 0 && k->dropout <= 1, FAC_ERR_ARGUMENT,
              "dropout probability has to be between 0 and 1, but got %g", k->dropout);
    int64_t projected;
    FAC_CHECK(fac__mul(3, dim, &projected), FAC_ERR_OVERFLOW, "dim %lld is too large", (long long)dim);
    *(attention *)fac_module_state(m) = (attention){dim, heads, k->dropout, k->causal};
    fac_tensor *w =
        fac__nn_parameter(m, "in_proj_weight", FAC_INTS(projected, dim), FAC_DTYPE_DEFAULT, (fac_device){0});
    if (!w) return fac_error();
    FAC_TRY(fac__nn_uniform(w, sqrt(6.0 / (4.0 * (double)dim))));
    fac_tensor *b =
        k->bias ? fac__nn_parameter(m, "in_proj_bias", FAC_INTS(projected), FAC_DTYPE_DEFAULT, (fac_device){0}) : NULL;
    if (!k->bias) fac_module_add_parameter(m, "in_proj_bias", NULL);
    if (fac_error()) return fac_error();
    if (b) FAC_TRY(fac__nn_fill(b, 0));
    fac_module *out = fac_module_add(m, "out_proj", fac_linear_new(dim, dim, .bias = k->bias));
    if (!out) return fac_error();
    return k->bias ? fac__nn_fill(fac_module_parameter(out, "bias"), 0) : FAC_OK;
}

fac_module *(fac_multihead_attention_new)(int64_t embed_dim, int64_t num_heads,
                                          const fac_multihead_attention_new_kw *kw) {
    fac_multihead_attention_new_kw k;
    if (fac_error() || fac__open_multihead_attention_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&attention_class);
    return m ? fac__nn_done(m, attention_fill(m, embed_dim, num_heads, &k)) : NULL;
}
