/* Scaled dot-product attention: fused against separate operators, and gradients of both to second order. */
#include "linalg_test.h"
#include "pairs.h"

/* softmax(q k^T / sqrt(E) + mask) v by separate operators. */
static fac_tensor *expected_attention(fac_tensor *q, fac_tensor *k, fac_tensor *v, fac_tensor *mask, bool causal,
                                      double scale) {
    fac_tensor *scores = fac_mul(fac_matmul(q, fac_transpose(k, -2, -1)), scale);
    if (causal) {
        fac_tensor *see =
            fac_tril(fac_ones(FAC_INTS(fac_tensor_size(q, -2), fac_tensor_size(k, -2)), .dtype = FAC_BOOL));
        scores = fac_masked_fill(scores, fac_logical_not(see), -INFINITY);
    }
    if (mask)
        scores = fac_tensor_dtype(mask) == FAC_BOOL ? fac_masked_fill(scores, fac_logical_not(mask), -INFINITY)
                                                    : fac_add(scores, mask);
    return fac_matmul(fac_softmax(scores, -1), v);
}

static void attention_fused_matches_separate_operators(void **state) {
    (void)state;
    static const int64_t sizes[][5] = {{2, 3, 5, 7, 4}, {1, 1, 1, 1, 8}, {2, 2, 130, 130, 16}, {1, 2, 40, 3000, 8}};
    for (size_t i = 0; i < FAC_COUNT(sizes); i++)
        for (int causal = 0; causal < 2; causal++) {
            FAC_SCOPE(s);
            const int64_t *n = sizes[i];
            fac_tensor *q = RANDOM(n[0], n[1], n[2], n[4]), *k = RANDOM(n[0], n[1], n[3], n[4]),
                       *v = RANDOM(n[0], n[1], n[3], 6);
            fac_tensor *want = expected_attention(q, k, v, NULL, causal, 1 / sqrt((double)n[4]));
            assert_near(fac_scaled_dot_product_attention(q, k, v, .is_causal = causal), want, 1e-12);
            fac_tensor *low = fac_scaled_dot_product_attention(fac_to_dtype(q, FAC_BF16), fac_to_dtype(k, FAC_BF16),
                                                               fac_to_dtype(v, FAC_BF16), .is_causal = causal);
            assert_near(low, want, 0.03);
        }
}

static void attention_masks_and_scale(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = fac_transpose(RANDOM(2, 5, 3, 4), 1, 2), *k = RANDOM(2, 3, 7, 4), *v = RANDOM(2, 3, 7, 4);
    fac_tensor *added = RANDOM(2, 1, 5, 7), *kept = fac_gt(RANDOM(5, 7), -0.5);
    kept = fac_logical_or(kept, fac_eq(fac_arange(7), 0)); /* no row is closed */
    assert_near(fac_scaled_dot_product_attention(q, k, v, .attn_mask = added),
                expected_attention(q, k, v, added, false, 0.5), 1e-12);
    assert_near(fac_scaled_dot_product_attention(q, k, v, .attn_mask = kept),
                expected_attention(q, k, v, kept, false, 0.5), 1e-12);
    assert_near(fac_scaled_dot_product_attention(q, k, v, .scale = 0.1), expected_attention(q, k, v, NULL, false, 0.1),
                1e-12);
    fac_tensor *q3 = RANDOM(3, 5, 4), *k3 = RANDOM(3, 6, 4);
    assert_near(fac_scaled_dot_product_attention(q3, k3, k3), expected_attention(q3, k3, k3, NULL, false, 0.5), 1e-12);
    fac_tensor *q2 = RANDOM(5, 4);
    assert_near(fac_scaled_dot_product_attention(q2, q2, q2), expected_attention(q2, q2, q2, NULL, false, 0.5), 1e-12);
}

static void attention_closed_rows_give_zeros(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = LEAF(1, 1, 2, 4), *mask = fac_zeros(FAC_INTS(2, 3), .dtype = FAC_BOOL);
    fac_tensor *k = RANDOM(1, 1, 3, 4), *y = fac_scaled_dot_product_attention(q, k, k, .attn_mask = mask);
    assert_close(y, fac_zeros(FAC_INTS(1, 1, 2, 4), .dtype = FAC_F64));
    assert_ok(fac_backward(fac_sum(y)));
    assert_close(fac_grad_of(q), fac_zeros(FAC_INTS(1, 1, 2, 4), .dtype = FAC_F64));
}

static void attention_shares_heads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = RANDOM(2, 4, 3, 4), *k = RANDOM(2, 2, 5, 4), *v = RANDOM(2, 2, 5, 4);
    fac_tensor *y = fac_scaled_dot_product_attention(q, k, v, .enable_gqa = true);
    assert_near(
        fac_narrow(y, 1, 2, 1),
        fac_scaled_dot_product_attention(fac_narrow(q, 1, 2, 1), fac_narrow(k, 1, 1, 1), fac_narrow(v, 1, 1, 1)),
        1e-12);
}

static void attention_dropout_keeps_the_mean(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_manual_seed(3);
    fac_tensor *q = RANDOM(1, 1, 50, 4), *k = RANDOM(1, 1, 200, 4),
               *ones = fac_ones(FAC_INTS(1, 1, 200, 1), .dtype = FAC_F64);
    fac_tensor *y = fac_scaled_dot_product_attention(q, k, ones, .dropout_p = 0.5);
    double mean = fac_item(fac_mean(y)), spread = fac_item(fac_std(y));
    assert_true(fabs(mean - 1) < 0.05);
    assert_true(spread > 0.01); /* something was dropped */
}

typedef struct form {
    bool causal;
    fac_tensor *mask;
} form;
static fac_status call_attention(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const form *f = context;
    (void)n;
    out[0] = fac_scaled_dot_product_attention(in.v[0], in.v[1], in.v[2], .is_causal = f->causal, .attn_mask = f->mask);
    return fac_error();
}

static void attention_has_gradients_to_second_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    form forms[] = {{false, NULL}, {true, NULL}, {false, RANDOM(3, 4)}, {false, LEAF(3, 4)}};
    for (size_t i = 0; i < FAC_COUNT(forms); i++) {
        fac_tensors in = FAC_TENSORS(LEAF(1, 2, 3, 2), LEAF(1, 2, 4, 2), LEAF(1, 2, 4, 2));
        assert_ok(fac_gradcheck(call_attention, &forms[i], in, 1));
        assert_ok(fac_gradgradcheck(call_attention, &forms[i], in, 1));
    }
}

static void attention_gradients_over_several_blocks(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        FAC_SCOPE(s);
        fac_tensor *x[3] = {LEAF(2, 2, 200, 8), LEAF(2, 2, 200, 8), LEAF(2, 2, 200, 8)}, *w = RANDOM(2, 2, 200, 8),
                   *g[3];
        fac_tensor *y = fac_scaled_dot_product_attention(x[0], x[1], x[2], .is_causal = causal);
        assert_ok(fac_backward(fac_sum(fac_mul(y, w))));
        fac_tensor *z = expected_attention(x[0], x[1], x[2], NULL, causal, 1 / sqrt(8.0));
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(z, w))), fac_tensors_of(x, 3), g));
        for (int i = 0; i < 3; i++) assert_near(fac_grad_of(x[i]), g[i], 1e-11);
    }
}

static void attention_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = RANDOM(1, 2, 3, 4), *k = RANDOM(1, 2, 5, 4), *mask = fac_ones(FAC_INTS(3, 5), .dtype = FAC_BOOL);
    assert_null(fac_scaled_dot_product_attention(q, k, k, .attn_mask = mask, .is_causal = true));
    assert_error(FAC_ERR_ARGUMENT, "Explicit attn_mask should not be set when is_causal=True");
    assert_null(fac_scaled_dot_product_attention(q, random_of(FAC_F32, FAC_INTS(1, 2, 5, 4)), k));
    assert_error(FAC_ERR_DTYPE, "same dtype");
    assert_null(fac_scaled_dot_product_attention(q, RANDOM(1, 2, 5, 3), k));
    assert_error(FAC_ERR_SHAPE, "do not fit");
    assert_null(fac_scaled_dot_product_attention(q, k, k, .attn_mask = fac_ones(FAC_INTS(4, 5), .dtype = FAC_BOOL)));
    assert_error(FAC_ERR_SHAPE, "does not broadcast");
    assert_null(fac_scaled_dot_product_attention(RANDOM(3), k, k));
    assert_error(FAC_ERR_SHAPE, "at least 2 dimensional");
}

FAC_TEST_MAIN_OF_PAIRS(FAC_TEST(attention_fused_matches_separate_operators), FAC_TEST(attention_masks_and_scale),
                       FAC_TEST(attention_closed_rows_give_zeros), FAC_TEST(attention_shares_heads),
                       FAC_TEST(attention_dropout_keeps_the_mean), FAC_TEST(attention_has_gradients_to_second_order),
                       FAC_TEST(attention_gradients_over_several_blocks), FAC_TEST(attention_refuses_bad_arguments))
