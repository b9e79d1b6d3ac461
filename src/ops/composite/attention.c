/* Scaled dot-product attention: the fused operator where it can serve, else by separate operators. */
#include "ops/call.h"
#include "ops_gen.h"
#include <facula/autograd.h>
#include <math.h>

static fac_ints ints(const int64_t *v, int n) { return (fac_ints){v, (size_t)n}; }

static fac_status check(const fac_tensor *q, const fac_tensor *k, const fac_tensor *v, const fac_tensor *mask,
                        bool causal) {
    FAC_CHECK(q->ndim >= 2 && k->ndim >= 2 && v->ndim >= 2, FAC_ERR_SHAPE,
              "Expected query, key, and value to all be at least 2 dimensional, but got %d, %d and %d dimensions",
              q->ndim, k->ndim, v->ndim);
    FAC_CHECK(q->dtype == k->dtype && q->dtype == v->dtype, FAC_ERR_DTYPE,
              "Expected query, key, and value to have the same dtype, but got %s, %s and %s",
              fac_dtype_name((fac_dtype)q->dtype), fac_dtype_name((fac_dtype)k->dtype),
              fac_dtype_name((fac_dtype)v->dtype));
    FAC_CHECK(!mask || !causal, FAC_ERR_ARGUMENT, "Explicit attn_mask should not be set when is_causal=True");
    FAC_CHECK(!mask || mask->dtype == FAC_BOOL || mask->dtype == q->dtype, FAC_ERR_DTYPE,
              "Expected attn_mask dtype to be bool or to match query dtype, but got %s and query %s",
              mask ? fac_dtype_name((fac_dtype)mask->dtype) : "", fac_dtype_name((fac_dtype)q->dtype));
    return FAC_OK;
}

/* Heads of keys or values repeated until there are as many as query has. */
static fac_tensor *repeat_heads(fac_tensor *t, const fac_tensor *query) {
    if (!t) return NULL;
    if (t->ndim < 3 || query->ndim < 3 || t->sizes[t->ndim - 3] <= 0 ||
        query->sizes[query->ndim - 3] % t->sizes[t->ndim - 3] != 0) {
        FAC_FAIL(FAC_ERR_SHAPE,
                 "with enable_gqa the heads of query %s must be a multiple of those of key and value, got %s",
                 FAC_SHAPE_TEXT(query), FAC_SHAPE_TEXT(t));
        return NULL;
    }
    int64_t times = query->sizes[query->ndim - 3] / t->sizes[t->ndim - 3];
    return times == 1 ? t : fac__s_repeat_interleave_self_int(t, times, fac_opt_int_(-3), (fac_opt_int){0});
}

/* As many heads of keys and values as of queries, if that is asked for. */
static fac_status match_heads(bool enable_gqa, const fac_tensor *query, fac_tensor **key, fac_tensor **value) {
    if (!enable_gqa) return FAC_OK;
    *key = repeat_heads(*key, query);
    *value = repeat_heads(*value, query);
    return *key && *value ? FAC_OK : fac_error();
}

/* ---- separate operators --------------------------------------------------------------------------------------------------- */

static fac_tensor *causal_mask(const fac_tensor *q, const fac_tensor *k) {
    int64_t sizes[2] = {q->sizes[q->ndim - 2], k->sizes[k->ndim - 2]};
    return fac__s_tril(fac__s_ones(ints(sizes, 2), FAC_BOOL, FAC_STRIDED, q->device, (fac_opt_num){0}), 0);
}

/* Softmax over the keys. A row that the mask closes altogether gets weights 0, and gradients 0, rather than NaN. */
static fac_tensor *masked_softmax(fac_tensor *scores, fac_tensor *mask) {
    if (!mask) return fac__s_softmax_int(scores, -1, FAC_DTYPE_DEFAULT);
    const fac_scalar none = fac_scalar_f_(-INFINITY), zero = fac_scalar_f_(0);
    scores = mask->dtype == FAC_BOOL ? fac__s_masked_fill_Scalar(scores, fac__s_logical_not(mask), none)
                                     : fac__s_add_Tensor(scores, mask, fac_scalar_i_(1));
    fac_tensor *closed = fac__s_all_dim(fac__s_eq_Scalar(scores, none), -1, true);
    fac_tensor *weights = fac__s_softmax_int(fac__s_masked_fill_Scalar(scores, closed, zero), -1, FAC_DTYPE_DEFAULT);
    return fac__s_masked_fill_Scalar(weights, closed, zero);
}

static fac_tensor *drop(fac_tensor *weights, double p, fac_tensor *kept) {
    if (!kept) return p > 0 ? fac__s_dropout(weights, p, true) : weights;
    fac_tensor *w = fac__s_masked_fill_Scalar(weights, fac__s_logical_not(kept), fac_scalar_f_(0));
    return fac__s_mul_Scalar(w, fac_scalar_f_(1 / (1 - p)));
}

fac_status scaled_dot_product_attention_math_composite(const fac_call_info *c, fac_tensor *query, fac_tensor *key,
                                                       fac_tensor *value, fac_tensor *attn_mask, double dropout_p,
                                                       bool is_causal, fac_tensor *dropout_mask, fac_opt_num scale,
                                                       bool enable_gqa, fac_tensor **out) {
    (void)c;
    FAC_TRY(check(query, key, value, attn_mask, is_causal));
    FAC_SCOPE(scope);
    FAC_TRY(match_heads(enable_gqa, query, &key, &value));
    double by = scale.set ? fac__scalar_f64(scale.v) : 1 / sqrt((double)fac__max(1, query->sizes[query->ndim - 1]));
    fac_tensor *scores = fac__s_matmul(fac__s_mul_Scalar(query, fac_scalar_f_(by)), fac__s_transpose_int(key, -2, -1));
    fac_tensor *weights = masked_softmax(scores, is_causal ? causal_mask(query, key) : attn_mask);
    weights = drop(weights, dropout_p, dropout_mask);
    fac_tensor *y = fac__s_matmul(weights, value);
    FAC_TRY(fac__give(&out[0], y));
    fac_status st = fac__give(&out[1], weights);
    if (st == FAC_OK) return st;
    fac__unref(out[0]);
    out[0] = NULL;
    return st;
}

/* ---- the choice -------------------------------------------------------------------------------------------------------------- */

/* Whether the fused operator takes these: three or four dimensions, equal batches, no dropout, a mask without gradient. */
static bool fits_fused(const fac_tensor *q, const fac_tensor *k, const fac_tensor *v, const fac_tensor *mask,
                       double p) {
    bool fits = p == 0 && (q->ndim == 3 || q->ndim == 4) && k->ndim == q->ndim && v->ndim == q->ndim &&
                !fac__wants_derivative(mask) && (!mask || mask->ndim <= q->ndim);
    for (int d = 0; fits && d < q->ndim - 2; d++) fits = q->sizes[d] == k->sizes[d] && k->sizes[d] == v->sizes[d];
    return fits && fac__is_cpu(q) && fac_dtype_is_floating((fac_dtype)q->dtype);
}

/* Three dimensions become [B, 1, L, E]; a mask's batch likewise. */
static fac_tensor *with_heads(fac_tensor *t, int ndim) {
    return t && t->ndim == 3 && ndim == 3 ? fac__s_unsqueeze(t, 1) : t;
}

fac_status scaled_dot_product_attention_composite(const fac_call_info *c, fac_tensor *query, fac_tensor *key,
                                                  fac_tensor *value, fac_tensor *attn_mask, double dropout_p,
                                                  bool is_causal, fac_opt_num scale, bool enable_gqa,
                                                  fac_tensor **out) {
    (void)c;
    FAC_TRY(check(query, key, value, attn_mask, is_causal));
    FAC_CHECK(dropout_p >= 0 && dropout_p <= 1, FAC_ERR_ARGUMENT,
              "dropout probability has to be between 0 and 1, but got %g", dropout_p);
    FAC_SCOPE(scope);
    FAC_TRY(match_heads(enable_gqa, query, &key, &value));
    if (!fits_fused(query, key, value, attn_mask, dropout_p))
        return fac__give(out, fac__s__scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p,
                                                                        is_causal, NULL, scale, false)
                                  .result0);
    int n = query->ndim;
    fac_tensor *mask = with_heads(attn_mask, n);
    if (attn_mask && !mask) return fac_error();
    fac_tensor *y = fac__s__scaled_dot_product_flash_attention_for_cpu(with_heads(query, n), with_heads(key, n),
                                                                       with_heads(value, n), 0, is_causal, mask, scale)
                        .output;
    return fac__give(out, n == 3 ? fac__s_squeeze_dim(y, 1) : y);
}

fac_status scaled_dot_product_attention_and_weights_composite(const fac_call_info *c, fac_tensor *query,
                                                              fac_tensor *key, fac_tensor *value, fac_tensor *attn_mask,
                                                              double dropout_p, bool need_attn_weights, bool is_causal,
                                                              fac_tensor **out) {
    (void)c, (void)need_attn_weights;
    FAC_TRY(check(query, key, value, attn_mask, is_causal));
    return fac__c__scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, NULL,
                                                     (fac_opt_num){0}, false, out);
}
