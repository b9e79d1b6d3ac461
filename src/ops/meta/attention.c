/* Shapes and dtypes of fused attention. */
#include "ops/meta/check.h"
#include "ops/structured.h"
#include "ops_gen.h"

static fac_status check_operands(const fac_tensor *q, const fac_tensor *k, const fac_tensor *v, double dropout_p) {
    fac_dtype d = (fac_dtype)q->dtype;
    FAC_CHECK(q->ndim == 4 && k->ndim == 4 && v->ndim == 4, FAC_ERR_SHAPE,
              "query, key and value must be 4-d, got %s, %s and %s", FAC_SHAPE_TEXT(q), FAC_SHAPE_TEXT(k),
              FAC_SHAPE_TEXT(v));
    FAC_CHECK(k->dtype == d && v->dtype == d, FAC_ERR_DTYPE,
              "Expected query, key, and value to have the same dtype, but got %s, %s and %s", fac_dtype_name(d),
              fac_dtype_name((fac_dtype)k->dtype), fac_dtype_name((fac_dtype)v->dtype));
    FAC_CHECK(fac_dtype_is_floating(d), FAC_ERR_DTYPE, "attention takes floating tensors, got %s", fac_dtype_name(d));
    bool fits = q->sizes[3] == k->sizes[3] && k->sizes[2] == v->sizes[2];
    for (int i = 0; i < 2; i++) fits = fits && q->sizes[i] == k->sizes[i] && k->sizes[i] == v->sizes[i];
    FAC_CHECK(fits, FAC_ERR_SHAPE,
              "query [B, H, L, E], key [B, H, S, E] and value [B, H, S, V] do not fit: %s, %s and %s",
              FAC_SHAPE_TEXT(q), FAC_SHAPE_TEXT(k), FAC_SHAPE_TEXT(v));
    FAC_CHECK(dropout_p == 0, FAC_ERR_ARGUMENT, "fused attention has no dropout, got %g", dropout_p);
    return FAC_OK;
}

static fac_status check_mask(const fac_tensor *mask, const fac_tensor *q, const fac_tensor *k) {
    if (!mask) return FAC_OK;
    const int64_t full[4] = {q->sizes[0], q->sizes[1], q->sizes[2], k->sizes[2]};
    bool fits = mask->ndim <= 4;
    for (int i = 1; fits && i <= mask->ndim; i++) {
        int64_t have = mask->sizes[mask->ndim - i];
        fits = have == 1 || have == full[4 - i];
    }
    FAC_CHECK(fits, FAC_ERR_SHAPE, "attn_mask of size %s does not broadcast to %s", FAC_SHAPE_TEXT(mask),
              fac__shape_text(full, 4, (char[256]){0}, 256));
    FAC_CHECK(mask->dtype == FAC_BOOL || fac_dtype_is_floating((fac_dtype)mask->dtype), FAC_ERR_DTYPE,
              "Expected attn_mask dtype to be bool or float, but got %s", fac_dtype_name((fac_dtype)mask->dtype));
    return FAC_OK;
}

/* Result i, [B, H, L, E], lies in memory as `like` does: where projections made that, as [B, L, H, E], so that neither the
   next projection nor the gradient of the last needs a copy. */
static fac_status declare_by_heads(fac_structured *s, int i, const int64_t sizes[4], const fac_tensor *like) {
    int64_t row = 0, all = 0;
    bool heads_inside = like->strides[1] < like->strides[2] &&
                        fac__mul(fac__max(1, sizes[1]), fac__max(1, sizes[3]), &row) &&
                        fac__mul(fac__max(1, sizes[2]), row, &all);
    const int64_t strides[4] = {all, sizes[3], row, 1};
    return fac_out_declare(s, i, sizes, heads_inside ? strides : NULL, 4, (fac_dtype)like->dtype, like->device);
}

fac_status flash_attention_meta(fac_structured *s, fac_tensor *query, fac_tensor *key, fac_tensor *value,
                                double dropout_p, bool is_causal, fac_tensor *attn_mask, fac_opt_num scale) {
    (void)is_causal;
    (void)scale;
    FAC_TRY(check_operands(query, key, value, dropout_p));
    FAC_TRY(check_mask(attn_mask, query, key));
    const int64_t sizes[4] = {query->sizes[0], query->sizes[1], query->sizes[2], value->sizes[3]};
    FAC_TRY(declare_by_heads(s, 0, sizes, query));
    return fac_out_declare(s, 1, sizes, NULL, 3, fac__statistic_dtype(query), query->device);
}

fac_status flash_attention_backward_meta(fac_structured *s, fac_tensor *grad_out, fac_tensor *query, fac_tensor *key,
                                         fac_tensor *value, fac_tensor *out, fac_tensor *logsumexp, double dropout_p,
                                         bool is_causal, fac_tensor *attn_mask, fac_opt_num scale) {
    (void)is_causal;
    (void)scale;
    FAC_TRY(check_operands(query, key, value, dropout_p));
    FAC_TRY(check_mask(attn_mask, query, key));
    const int64_t sizes[4] = {query->sizes[0], query->sizes[1], query->sizes[2], value->sizes[3]};
    bool same = fac__same_sizes(grad_out, out) && fac__has_sizes(out, sizes, 4);
    FAC_CHECK(same, FAC_ERR_SHAPE, "grad_out and out must have size %s, got %s and %s",
              fac__shape_text(sizes, 4, (char[256]){0}, 256), FAC_SHAPE_TEXT(grad_out), FAC_SHAPE_TEXT(out));
    FAC_TRY(fac__need_dtype("grad_out", grad_out, (fac_dtype)query->dtype));
    FAC_TRY(fac__need_dtype("out", out, (fac_dtype)query->dtype));
    FAC_TRY(fac__need_sizes("logsumexp", logsumexp, sizes, 3));
    FAC_TRY(fac__need_dtype("logsumexp", logsumexp, fac__statistic_dtype(query)));
    fac_tensor *const like[3] = {query, key, value};
    for (int i = 0; i < 3; i++) FAC_TRY(declare_by_heads(s, i, like[i]->sizes, like[i]));
    return FAC_OK;
}
