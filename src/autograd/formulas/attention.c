/* Gradients of fused attention, of first and of any higher order. */
#include "ops/call.h"
#include "ops_gen.h"
#include <math.h>

fac_status flash_attention_grad(fac_tensor **grads, fac_tensor *grad, fac_tensor *query, fac_tensor *key,
                                fac_tensor *value, fac_tensor *out, fac_tensor *logsumexp, double dropout_p,
                                bool is_causal, fac_tensor *attn_mask, fac_opt_num scale) {
    fac__scaled_dot_product_flash_attention_for_cpu_backward_result r =
        fac__s__scaled_dot_product_flash_attention_for_cpu_backward(grad, query, key, value, out, logsumexp, dropout_p,
                                                                    is_causal, attn_mask, scale);
    grads[0] = r.grad_query;
    grads[1] = r.grad_key;
    grads[2] = r.grad_value;
    return fac_error();
}

static fac_tensor *turn(fac_tensor *t) { return fac__s_transpose_int(t, -2, -1); }
static fac_tensor *mul(fac_tensor *a, fac_tensor *b) { return fac__s_mul_Tensor(a, b); }
static fac_tensor *scaled(fac_tensor *t, double s) { return fac__s_mul_Scalar(t, fac_scalar_f_(s)); }
/* a + b, either of which may be missing. */
static fac_tensor *plus(fac_tensor *a, fac_tensor *b) {
    return !a ? b : !b ? a : fac__s_add_Tensor(a, b, fac_scalar_i_(1));
}
static fac_tensor *minus(fac_tensor *a, fac_tensor *b) { return fac__s_sub_Tensor(a, b, fac_scalar_i_(1)); }
static fac_tensor *row_sum(fac_tensor *t) { return fac__s_sum_dim_IntList(t, FAC_INTS(-1), true, FAC_DTYPE_DEFAULT); }

/* The weights P by separate operators. */
static fac_tensor *weights_of(fac_tensor *q, fac_tensor *k, bool causal, fac_tensor *mask, fac_opt_num scale) {
    return fac__s__scaled_dot_product_attention_math(q, k, k, mask, 0, causal, NULL, scale, false).result1;
}

/* The backward pass made dV = P^T dO and, with dP = dO V^T and dS = P (dP - rowsum(P dP)), dQ = s dS K and dK = s dS^T Q.
   With A, B, C flowing to dQ, dK, dV, the scalar <A, dQ> + <B, dK> + <C, dV> is differentiated by dO, Q, K and V; the names
   g_x are its derivatives by x. (Its dependence on the saved output and log-sum-exp is part of that by Q, K and V.) */
fac_status flash_attention_double_grad(fac_tensor **grads, fac_tensors gg, fac_tensor *grad_out, fac_tensor *query,
                                       fac_tensor *key, fac_tensor *value, bool is_causal, fac_tensor *attn_mask,
                                       fac_opt_num scale) {
    double s = scale.set ? fac__scalar_f64(scale.v) : 1 / sqrt((double)fac__max(1, query->sizes[3]));
    fac_tensor *a = gg.v[0], *b = gg.v[1], *c = gg.v[2];
    fac_tensor *p = weights_of(query, key, is_causal, attn_mask, scale), *g_p = NULL, *g_out = NULL, *g_v = NULL,
               *ds = NULL;
    if (c) {
        g_p = fac__s_matmul(grad_out, turn(c));
        g_out = fac__s_matmul(p, c);
    }
    if (a || b) {
        fac_tensor *g_ds = NULL;
        if (a) g_ds = fac__s_matmul(a, turn(key));
        if (b) g_ds = plus(g_ds, fac__s_matmul(query, turn(b)));
        g_ds = scaled(g_ds, s);
        fac_tensor *dp = fac__s_matmul(grad_out, turn(value)), *centred = minus(dp, row_sum(mul(p, dp)));
        ds = mul(p, centred);
        fac_tensor *inner = row_sum(mul(p, g_ds)), *g_dp = mul(p, minus(g_ds, inner));
        g_p = plus(g_p, minus(mul(g_ds, centred), mul(inner, dp)));
        g_out = plus(g_out, fac__s_matmul(g_dp, value));
        g_v = fac__s_matmul(turn(g_dp), grad_out);
    }
    if (g_p) {
        fac_tensor *g_scores = mul(p, minus(g_p, row_sum(mul(p, g_p))));
        grads[1] = scaled(fac__s_matmul(g_scores, key), s);
        grads[2] = scaled(fac__s_matmul(turn(g_scores), query), s);
        if (b) grads[1] = plus(grads[1], scaled(fac__s_matmul(ds, b), s));
        if (a) grads[2] = plus(grads[2], scaled(fac__s_matmul(turn(ds), a), s));
    }
    grads[0] = g_out;
    grads[3] = g_v;
    return fac_error();
}
