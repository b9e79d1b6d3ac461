/* MultiheadAttention: projections of queries, keys and values, attention by heads, and a projection out. */
#include "keywords_gen.h"
#include "modules_gen.h"
#include "nn/kind.h"
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

/* ---- the projection out, a Linear whose name says that it is not to be quantised by itself ---- */

static fac_tensor *out_forward(fac_module *self, fac_tensor *x) {
    return fac_linear(x, fac__module_slot(self, "weight")->tensor, fac__module_slot(self, "bias")->tensor);
}

static void out_describe(fac_module *self, char *buf, size_t size) {
    const fac_tensor *w = fac__module_slot(self, "weight")->tensor;
    if (w)
        snprintf(buf, size, "in_features=%lld, out_features=%lld, bias=%s", (long long)fac_tensor_size(w, 1),
                 (long long)fac_tensor_size(w, 0), fac__module_slot(self, "bias")->tensor ? "True" : "False");
}

static const fac_module_class out_class = {
    .name = "NonDynamicallyQuantizableLinear", .version = 1, .forward = out_forward, .describe = out_describe};

/* ---- parameters ---- */

static fac_status add_glorot(fac_module *m, const char *name, int64_t out, int64_t in, bool wanted, fac_dtype dtype,
                             fac_device device) {
    const double bound = out + in > 0 ? sqrt(6.0 / ((double)out + (double)in)) : 0;
    return fac__add_uniform(m, name, FAC_INTS(out, in), bound, wanted, dtype, device);
}

/* Normal, by Glorot's rule for [1, 1, dim]: the fans are dim of both sizes 1, so that the deviation is sqrt(2 / (2
   dim)). */
static fac_status add_bias_kv(fac_module *m, const char *name, int64_t dim, bool wanted, fac_dtype dtype,
                              fac_device device) {
    if (!wanted) return FAC_OK;
    fac_tensor *t = fac__nn_parameter(m, name, FAC_INTS(1, 1, dim), dtype, device);
    if (!t) return fac_error();
    FAC_NO_GRAD(g);
    return fac_normal_(t, .std = 1 / sqrt((double)dim)) ? FAC_OK : fac_error();
}

static fac_status add_out(fac_module *m, int64_t dim, bool bias, fac_dtype dtype, fac_device device) {
    fac_module *out = fac_module_add(m, "out_proj", fac_module_new(&out_class));
    if (!out) return fac_error();
    FAC_TRY(fac__add_uniform(out, "weight", FAC_INTS(dim, dim), 1 / sqrt((double)dim), true, dtype, device));
    return fac__add_constant(out, "bias", FAC_INTS(dim), 0, bias, dtype, device);
}

fac_status fac__build_attention(fac_module *m, int64_t dim, int64_t heads, double dropout, bool bias, bool bias_kv,
                                int64_t kdim, int64_t vdim, fac_dtype dtype, fac_device device) {
    FAC_CHECK(dim > 0 && heads > 0, FAC_ERR_ARGUMENT,
              "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and num_heads=%lld instead",
              (long long)dim, (long long)heads);
    FAC_CHECK(dim % heads == 0, FAC_ERR_ARGUMENT, "embed_dim %lld must be divisible by num_heads %lld", (long long)dim,
              (long long)heads);
    FAC_TRY(fac__check_probability(dropout));
    int64_t all;
    FAC_CHECK(fac__mul(3, dim, &all), FAC_ERR_OVERFLOW, "embed_dim %lld is too large", (long long)dim);
    if (kdim == FAC_UNSET) kdim = dim;
    if (vdim == FAC_UNSET) vdim = dim;
    FAC_TRY(fac__check_size(m, "kdim", kdim));
    FAC_TRY(fac__check_size(m, "vdim", vdim));
    const bool apart = kdim != dim || vdim != dim;
    FAC_TRY(add_glorot(m, "q_proj_weight", dim, dim, apart, dtype, device));
    FAC_TRY(add_glorot(m, "k_proj_weight", dim, kdim, apart, dtype, device));
    FAC_TRY(add_glorot(m, "v_proj_weight", dim, vdim, apart, dtype, device));
    FAC_TRY(add_glorot(m, "in_proj_weight", all, dim, !apart, dtype, device));
    FAC_TRY(fac__add_constant(m, "in_proj_bias", FAC_INTS(all), 0, bias, dtype, device));
    FAC_TRY(add_bias_kv(m, "bias_k", dim, bias_kv, dtype, device));
    FAC_TRY(add_bias_kv(m, "bias_v", dim, bias_kv, dtype, device));
    return add_out(m, dim, bias, dtype, device);
}

/* ---- a call ---- */

typedef struct call {
    fac_module *m;
    fac_tensor *q, *k, *v;
    fac_tensor *padding, *mask; /* added to the scores; NULL: none */
    int64_t dim, heads, n, length, keys;
    double dropout;
    bool zero_attn, batch_first, batched, causal;
    bool by_hint; /* of queries and keys that are added alike: the mask is_causal of scaled_dot_product_attention */
} call;

static fac_tensor *slot(const call *a, const char *name) {
    const fac_slot *s = fac__module_slot(a->m, name);
    return s ? s->tensor : NULL;
}

/* The dimensions of positions and of sequences, of what has both. */
static int length_dim(const call *a) { return a->batch_first; }
static int batch_dim(const call *a) { return !a->batch_first; }

static fac_status check_one(const call *a, const fac_tensor *t, const char *name, int64_t size) {
    const int n = fac_tensor_ndim(t);
    FAC_CHECK(n == 2 + a->batched && (size < 0 || fac_tensor_size(t, -1) == size), FAC_ERR_SHAPE,
              "MultiheadAttention: %s should be %s%lld], not %s", name,
              !a->batched      ? "[length, "
              : a->batch_first ? "[N, length, "
                               : "[length, N, ",
              (long long)size, FAC_SHAPE_TEXT(fac__header(t)));
    return FAC_OK;
}

static int64_t columns(const fac_tensor *w, int64_t other) { return w ? fac_tensor_size(w, 1) : other; }

/* Makes batches of what are none, and finds the sizes. */
static fac_status open_call(call *a) {
    const int n = fac_tensor_ndim(a->q);
    FAC_CHECK(!a->k == !a->v, FAC_ERR_ARGUMENT, "attention takes one input, or query, key and value; not 2 inputs");
    FAC_CHECK(n == 2 || n == 3, FAC_ERR_SHAPE,
              "query should be unbatched 2D or batched 3D tensor but received %d-D query tensor", n);
    a->batched = n == 3;
    if (!a->k) a->k = a->v = a->q;
    FAC_TRY(check_one(a, a->q, "query", a->dim));
    FAC_TRY(check_one(a, a->k, "key", columns(slot(a, "k_proj_weight"), a->dim)));
    FAC_TRY(check_one(a, a->v, "value", columns(slot(a, "v_proj_weight"), a->dim)));
    if (!a->batched) {
        const bool same = a->k == a->q && a->v == a->q;
        a->batch_first = false;
        a->q = fac_unsqueeze(a->q, 1);
        a->k = same ? a->q : fac_unsqueeze(a->k, 1);
        a->v = same ? a->q : fac_unsqueeze(a->v, 1);
        if (a->padding) a->padding = fac_unsqueeze(a->padding, 0);
        FAC_TRY(fac_error());
    }
    a->n = fac_tensor_size(a->q, batch_dim(a));
    a->length = fac_tensor_size(a->q, length_dim(a));
    a->keys = fac_tensor_size(a->k, length_dim(a));
    for (int d = 0; d < 2; d++)
        FAC_CHECK(fac_tensor_size(a->k, d) == fac_tensor_size(a->v, d), FAC_ERR_SHAPE,
                  "MultiheadAttention: key %s and value %s should have the same length and batch",
                  FAC_SHAPE_TEXT(fac__header(a->k)), FAC_SHAPE_TEXT(fac__header(a->v)));
    FAC_CHECK(fac_tensor_size(a->k, batch_dim(a)) == a->n, FAC_ERR_SHAPE,
              "MultiheadAttention: query %s and key %s should have the same batch", FAC_SHAPE_TEXT(fac__header(a->q)),
              FAC_SHAPE_TEXT(fac__header(a->k)));
    return FAC_OK;
}

/* ---- masks ---- */

/* What is added to scores: minus infinity where a truth value leaves a position out. */
static fac_tensor *to_add(const call *a, fac_tensor *mask, const char *name) {
    const fac_dtype dtype = fac_tensor_dtype(mask);
    if (fac_dtype_is_floating(dtype)) return mask;
    if (dtype == FAC_BOOL)
        return fac_masked_fill(
            fac_zeros(fac_tensor_sizes(mask), .dtype = fac_tensor_dtype(a->q), .device = fac_tensor_device(mask)), mask,
            -INFINITY);
    FAC_FAIL(FAC_ERR_DTYPE, "only bool and floating types of %s are supported, not %s", name, fac_dtype_name(dtype));
    return NULL;
}

static fac_status check_masks(const call *a) {
    if (a->padding)
        FAC_CHECK(fac_tensor_ndim(a->padding) == 2 && fac_tensor_size(a->padding, 0) == a->n &&
                      fac_tensor_size(a->padding, 1) == a->keys,
                  FAC_ERR_SHAPE, "key_padding_mask should be [%lld, %lld], not %s", (long long)a->n, (long long)a->keys,
                  FAC_SHAPE_TEXT(fac__header(a->padding)));
    if (!a->mask) return FAC_OK;
    const int n = fac_tensor_ndim(a->mask);
    FAC_CHECK((n == 2 || (n == 3 && fac_tensor_size(a->mask, 0) == a->n * a->heads)) &&
                  fac_tensor_size(a->mask, -2) == a->length && fac_tensor_size(a->mask, -1) == a->keys,
              FAC_ERR_SHAPE, "attn_mask should be [%lld, %lld] or [%lld, %lld, %lld], not %s", (long long)a->length,
              (long long)a->keys, (long long)(a->n * a->heads), (long long)a->length, (long long)a->keys,
              FAC_SHAPE_TEXT(fac__header(a->mask)));
    return FAC_OK;
}

static fac_tensor *causal_mask(int64_t rows, int64_t columns, fac_dtype dtype, fac_device device) {
    return fac_triu(fac_full(FAC_INTS(rows, columns), -INFINITY, .dtype = dtype, .device = device), .diagonal = 1);
}

/* Both masks as one of four dimensions, with columns for the keys that are added; `causal` stays where there is
   nothing but it. */
static fac_status join_masks(call *a, int64_t added, bool explicit) {
    if (a->padding && !(a->padding = to_add(a, a->padding, "key_padding_mask"))) return fac_error();
    if (a->mask && !(a->mask = to_add(a, a->mask, "attn_mask"))) return fac_error();
    FAC_TRY(check_masks(a));
    if (a->causal && (a->mask || a->padding || added || explicit)) {
        fac_tensor *c = causal_mask(a->length, a->keys, fac_tensor_dtype(a->q), fac_tensor_device(a->q));
        a->mask = a->mask ? fac_add(a->mask, c) : c;
        a->causal = false;
    }
    if (a->mask)
        a->mask = fac_tensor_ndim(a->mask) == 3 ? fac_reshape(a->mask, FAC_INTS(a->n, a->heads, a->length, a->keys))
                                                : fac_reshape(a->mask, FAC_INTS(1, 1, a->length, a->keys));
    if (a->padding) {
        fac_tensor *p = fac_reshape(a->padding, FAC_INTS(a->n, 1, 1, a->keys));
        a->mask = a->mask ? fac_add(a->mask, p) : p;
    }
    if (a->mask && added) a->mask = fac_pad(a->mask, FAC_INTS(0, added));
    return fac_error();
}

/* ---- projections ---- */

static fac_tensor *part_of(fac_tensor *t, int part, int64_t dim) {
    return t ? fac_narrow(t, 0, part * dim, dim) : NULL;
}

static fac_status project(call *a) {
    fac_tensor *w = slot(a, "in_proj_weight"), *b = slot(a, "in_proj_bias");
    if (w && a->q == a->k && a->k == a->v) {
        const fac_tensors parts = fac_split(fac_linear(a->q, w, b), a->dim, .dim = -1);
        FAC_TRY(fac_error());
        a->q = parts.v[0], a->k = parts.v[1], a->v = parts.v[2];
        return FAC_OK;
    }
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    fac_tensor **const all[] = {&a->q, &a->k, &a->v};
    for (int i = 0; i < 3; i++)
        *all[i] = fac_linear(*all[i], w ? part_of(w, i, a->dim) : slot(a, names[i]), part_of(b, i, a->dim));
    return fac_error();
}

/* t with a key or value behind the others: a learned one, or zeros. */
static fac_tensor *with_one_more(const call *a, fac_tensor *t, fac_tensor *learned) {
    const int64_t sizes[3] = {a->batch_first ? a->n : 1, a->batch_first ? 1 : a->n, a->dim};
    const fac_ints wanted = fac_ints_of(sizes, 3);
    fac_tensor *one = learned ? fac_expand(learned, wanted) : fac_new_zeros(t, wanted);
    return fac_cat(FAC_TENSORS(t, one), .dim = length_dim(a));
}

static fac_status add_keys(call *a) {
    fac_tensor *bias_k = slot(a, "bias_k"), *bias_v = slot(a, "bias_v");
    if (bias_k && bias_v) {
        a->k = with_one_more(a, a->k, bias_k);
        a->v = with_one_more(a, a->v, bias_v);
    }
    if (a->zero_attn) {
        a->k = with_one_more(a, a->k, NULL);
        a->v = with_one_more(a, a->v, NULL);
    }
    return fac_error();
}

/* [N, T, dim] or [T, N, dim] -> [N, heads, T, dim/heads] */
static fac_tensor *split_heads(const call *a, fac_tensor *x) {
    if (!x) return NULL;
    x = fac_reshape(x, FAC_INTS(fac_tensor_size(x, 0), fac_tensor_size(x, 1), a->heads, a->dim / a->heads));
    return a->batch_first ? fac_transpose(x, 1, 2) : fac_permute(x, FAC_INTS(1, 2, 0, 3));
}

/* The other way, through the projection out. */
static fac_tensor *finish(const call *a, fac_tensor *y) {
    if (!y) return NULL;
    y = a->batch_first ? fac_transpose(y, 1, 2) : fac_permute(y, FAC_INTS(2, 0, 1, 3));
    y = fac_reshape(y, a->batch_first ? FAC_INTS(a->n, a->length, a->dim) : FAC_INTS(a->length, a->n, a->dim));
    if (y) y = fac_forward(fac_module_child(a->m, "out_proj"), y);
    return y && !a->batched ? fac_squeeze_dim(y, 1) : y;
}

/* ---- attention ---- */

static fac_status prepare(call *a, bool explicit) {
    FAC_TRY(open_call(a));
    const int64_t added = (slot(a, "bias_k") && slot(a, "bias_v")) + a->zero_attn;
    FAC_TRY(join_masks(a, added, explicit));
    FAC_TRY(project(a));
    FAC_TRY(add_keys(a));
    a->q = split_heads(a, a->q), a->k = split_heads(a, a->k), a->v = split_heads(a, a->v);
    return fac_error();
}

static fac_tensor *attend(call *a) {
    if (prepare(a, false)) return NULL;
    return finish(a, fac_scaled_dot_product_attention(a->q, a->k, a->v, .attn_mask = a->mask,
                                                      .dropout_p = a->m->training ? a->dropout : 0,
                                                      .is_causal = a->causal || a->by_hint));
}

static fac_status attend_with_weights(call *a, bool average, fac_tensor **out) {
    FAC_TRY(prepare(a, true));
    fac_tensor *scores =
        fac_matmul(fac_mul(a->q, sqrt((double)a->heads / (double)a->dim)), fac_transpose(a->k, -2, -1));
    if (a->mask) scores = fac_add(scores, a->mask);
    fac_tensor *weights = fac_softmax(scores, -1);
    if (a->m->training && a->dropout > 0) weights = fac_dropout(weights, a->dropout, true);
    out[0] = finish(a, fac_matmul(weights, a->v));
    if (average) weights = fac_mean(weights, .dim = 1);
    out[1] = weights && !a->batched ? fac_squeeze_dim(weights, 0) : weights;
    return fac_error();
}

fac_tensor *fac__attention_forward(fac_module *m, fac_tensor *q, fac_tensor *k, fac_tensor *v, fac_tensor *padding,
                                   fac_tensor *mask, int64_t dim, int64_t heads, double dropout, bool zero_attn,
                                   bool batch_first, bool causal) {
    call a = {.m = m, .q = q, .k = k, .v = v, .padding = padding, .mask = mask, .dim = dim, .heads = heads};
    a.dropout = dropout, a.zero_attn = zero_attn, a.batch_first = batch_first, a.causal = causal;
    return attend(&a);
}

fac_status fac__attention_forward_all(fac_module *m, fac_tensor *q, fac_tensor *k, fac_tensor *v, fac_tensor *padding,
                                      fac_tensor *mask, int64_t dim, int64_t heads, double dropout, bool zero_attn,
                                      bool batch_first, bool causal, fac_tensor **out) {
    call a = {.m = m, .q = q, .k = k, .v = v, .padding = padding, .mask = mask, .dim = dim, .heads = heads};
    a.dropout = dropout, a.zero_attn = zero_attn, a.batch_first = batch_first, a.causal = causal;
    return attend_with_weights(&a, true, out);
}

/* Runs in the scope that the results leave. */
static fac_status call_fully(call *a, const fac_multihead_attention_forward_kw *k, fac_tensor **out) {
    if (k->is_causal && !k->key_padding_mask && !k->need_weights) {
        a->mask = NULL;
        a->causal = false;
        a->by_hint = true;
    }
    if (k->need_weights) return attend_with_weights(a, k->average_attn_weights, out);
    return (out[0] = attend(a)) ? FAC_OK : fac_error();
}

fac_status(fac_multihead_attention_forward)(fac_module *m, fac_tensor *query, fac_tensor *key, fac_tensor *value,
                                            fac_tensor **output, fac_tensor **weights,
                                            const fac_multihead_attention_forward_kw *kw) {
    fac_multihead_attention_forward_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_multihead_attention_forward_kw(&k, kw));
    if (!fac__given(m, "module")) return fac_error();
    FAC_CHECK(m->cls == &fac__multihead_attention_kind.cls, FAC_ERR_ARGUMENT,
              "multihead_attention_forward takes a MultiheadAttention, not %s", m->cls->name);
    FAC_CHECK(output, FAC_ERR_ARGUMENT, "multihead_attention_forward: there is no room for the output");
    FAC_CHECK(!k.is_causal || k.attn_mask, FAC_ERR_ARGUMENT, "Need attn_mask if specifying the is_causal hint");
    if (!fac__open(query, "multihead_attention_forward", "query")) return fac_error();
    const fac__multihead_attention *o = m->state;
    call a = {.m = m,
              .q = query,
              .k = key,
              .v = value,
              .padding = k.key_padding_mask,
              .mask = k.attn_mask,
              .dim = o->embed_dim,
              .heads = o->num_heads,
              .dropout = o->dropout,
              .zero_attn = o->add_zero_attn,
              .batch_first = o->batch_first,
              .causal = o->causal};
    fac_tensor *out[2] = {NULL, NULL};
    fac_scope s = fac_scope_begin();
    const fac_status st = call_fully(&a, &k, out);
    *output = !st ? fac_scope_yield(&s, out[0]) : NULL;
    if (weights) *weights = !st && out[1] ? fac_scope_yield(&s, out[1]) : NULL;
    fac_scope_end(&s);
    return st ? st : fac_error();
}

fac_tensor *(
    fac_transformer_generate_square_subsequent_mask)(int64_t sz,
                                                     const fac_transformer_generate_square_subsequent_mask_kw *kw) {
    fac_transformer_generate_square_subsequent_mask_kw k;
    if (fac_error() || fac__open_transformer_generate_square_subsequent_mask_kw(&k, kw)) return NULL;
    FAC_SCOPE(s);
    return fac_yield(s, causal_mask(sz, sz, k.dtype, k.device));
}
