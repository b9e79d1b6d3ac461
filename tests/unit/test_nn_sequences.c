/* Recurrent networks over packed sequences, attention with all its arguments, transformers, and losses of many classes. */
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

static bool near(fac_tensor *a, fac_tensor *b) { return fac_allclose(a, b, .rtol = 1e-4, .atol = 1e-5); }

/* ---- packed sequences ------------------------------------------------------------------------------------------------ */

static fac_tensor *lengths_of(int64_t a, int64_t b, int64_t c) {
    const int64_t v[] = {a, b, c};
    return fac_tensor_from(v, FAC_I64, FAC_INTS(3));
}

static void packing_and_padding_give_the_sequences_back(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_INTS(2, 4)), *b = fac_randn(FAC_INTS(5, 4)), *c = fac_randn(FAC_INTS(3, 4));
    fac_packed_sequence p;
    assert_ok(fac_rnn_pack_sequence(FAC_TENSORS(a, b, c), &p, .enforce_sorted = false));
    assert_int_equal(fac_tensor_size(p.data, 0), 10);
    fac_tensors parts = fac_rnn_unpack_sequence(&p);
    assert_int_equal(parts.n, 3);
    assert_true(fac_equal(parts.v[0], a) && fac_equal(parts.v[1], b) && fac_equal(parts.v[2], c));
    fac_tensor *padded, *lengths;
    assert_ok(fac_rnn_pad_packed_sequence(&p, &padded, &lengths, .batch_first = true, .padding_value = -1,
                                          .total_length = 6));
    assert_int_equal(fac_tensor_size(padded, 1), 6);
    assert_true(fac_equal(lengths, lengths_of(2, 5, 3)));
    assert_true(fac_item(fac_sum(fac_slice(fac_select(padded, 0, 0), 0, .start = 2, .end = 6))) == -16);
    assert_int_equal(fac_rnn_pad_packed_sequence(&p, &padded, NULL, .total_length = 4), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "total_length should be at least");
    assert_int_equal(fac_rnn_pack_sequence(FAC_TENSORS(a, b, c), &p), FAC_ERR_ARGUMENT);
    fac_error_clear();
}

/* Each sequence alone gives what it gives in a packed batch. */
static void check_packed(const char *text, bool lstm) {
    FAC_SCOPE(s);
    fac_module *m = fac_parse_module(text);
    const int64_t lengths[] = {2, 5, 3};
    fac_tensor *all[3];
    for (int i = 0; i < 3; i++) all[i] = fac_randn(FAC_INTS(lengths[i], 4));
    fac_packed_sequence in, out;
    assert_ok(fac_rnn_pack_sequence(fac_tensors_of(all, 3), &in, .enforce_sorted = false));
    fac_tensor *h = fac_randn(FAC_INTS(4, 3, 6)), *c = lstm ? fac_randn(FAC_INTS(4, 3, 6)) : NULL, *h_n, *c_n;
    assert_ok(fac_rnn_forward_packed(m, &in, h, c, &out, &h_n, &c_n));
    const fac_tensors parts = fac_rnn_unpack_sequence(&out);
    for (int i = 0; i < 3; i++) {
        fac_tensor *one[] = {all[i], fac_select(h, 1, i), lstm ? fac_select(c, 1, i) : NULL}, *r[3];
        assert_ok(fac_forward_all(m, fac_tensors_of(one, lstm ? 3 : 2), r, 3));
        assert_true(near(r[0], parts.v[i]));
        assert_true(near(r[1], fac_select(h_n, 1, i)));
        if (lstm) assert_true(near(r[2], fac_select(c_n, 1, i)));
    }
    assert_ok(fac_backward(fac_sum(out.data)));
    assert_non_null(fac_grad_of(fac_module_parameter(m, "weight_hh_l1_reverse")));
    fac_module_release(m);
}

static void networks_over_packed_sequences_are_those_over_each(void **state) {
    (void)state;
    check_packed("RNN(4, 6, num_layers=2, bidirectional=True)", false);
    check_packed("GRU(4, 6, num_layers=2, bidirectional=True)", false);
    check_packed("LSTM(4, 6, num_layers=2, bidirectional=True)", true);
}

static void recurrent_layers_refuse_what_does_not_fit(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_lstm_new(4, 6);
    fac_tensor *x = fac_ones(FAC_INTS(3, 2, 4)), *h = fac_ones(FAC_INTS(1, 2, 6)), *y[3];
    assert_int_equal(fac_forward_all(m, FAC_TENSORS(x, h), y, 3), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "LSTM takes h_0 and c_0 together, or neither");
    assert_null(fac_forward(m, fac_ones(FAC_INTS(3, 2, 5))));
    assert_error(FAC_ERR_SHAPE, "Expected 4, got 5");
    assert_null(fac_forward(m, fac_ones(FAC_INTS(4))));
    assert_error(FAC_ERR_SHAPE, "LSTM: Expected input to be 2D or 3D, got 1D instead");
    assert_null(fac_forward_many(m, FAC_TENSORS(x, h, fac_ones(FAC_INTS(1, 3, 6)))));
    assert_error(FAC_ERR_SHAPE, "Expected c_0 of size (1, 2, 6), got [1, 3, 6]");
    assert_null(fac_lstm_new(4, 6, .proj_size = 6));
    assert_error(FAC_ERR_ARGUMENT, "proj_size");
    assert_null(fac_gru_new(4, 0));
    assert_error(FAC_ERR_ARGUMENT, "hidden_size must be greater than zero");
    fac_packed_sequence p = {x, x, NULL, NULL};
    fac_module *cell = fac_gru_cell_new(4, 6);
    assert_int_equal(fac_rnn_forward_packed(cell, &p, NULL, NULL, &p, NULL, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "takes an RNN, LSTM or GRU, not GRUCell");
    fac_module_release(cell);
    fac_module_release(m);
}

/* ---- attention ------------------------------------------------------------------------------------------------------- */

static void weights_of_attention_sum_to_one_and_follow_masks(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_multihead_attention_new(8, 2, .batch_first = true);
    fac_tensor *x = fac_randn(FAC_INTS(3, 5, 8)), *y, *w, *plain;
    fac_tensor *mask = fac_transformer_generate_square_subsequent_mask(5);
    assert_ok(
        fac_multihead_attention_forward(m, x, NULL, NULL, &y, &w, .attn_mask = mask, .average_attn_weights = false));
    assert_int_equal(fac_tensor_ndim(w), 4);
    assert_true(near(fac_sum(w, .dim = -1), fac_ones(FAC_INTS(3, 2, 5))));
    assert_true(fac_item(fac_sum(fac_abs(fac_triu(w, 1)))) == 0);
    assert_ok(fac_multihead_attention_forward(m, x, x, x, &plain, &w, .attn_mask = mask, .need_weights = false,
                                              .is_causal = true));
    assert_null(w);
    assert_true(near(plain, y));
    fac_tensor *all[2];
    assert_ok(fac_forward_all(m, FAC_TENSORS(x, NULL, NULL, NULL, mask), all, 2));
    assert_true(near(all[0], y));
    assert_int_equal(fac_tensor_ndim(all[1]), 3);
    assert_int_equal(fac_multihead_attention_forward(m, x, x, x, &y, NULL, .is_causal = true), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Need attn_mask");
    assert_int_equal(fac_multihead_attention_forward(m, x, x, x, &y, NULL, .attn_mask = fac_ones(FAC_INTS(4, 5))),
                     FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "attn_mask should be [5, 5] or [6, 5, 5], not [4, 5]");
    assert_null(fac_forward_many(m, FAC_TENSORS(x, NULL, NULL, fac_ones(FAC_INTS(3, 5), .dtype = FAC_I64))));
    assert_error(FAC_ERR_DTYPE, "only bool and floating types of key_padding_mask");
    fac_module_release(m);
}

/* Keys that are added stand behind all queries, so that with the hint nobody sees them; with the mask all do. */
static void attention_with_the_causal_hint_does_not_see_added_keys(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_multihead_attention_new(8, 2, .add_bias_kv = true, .add_zero_attn = true);
    fac_tensor *x = fac_randn(FAC_INTS(5, 3, 8)), *mask = fac_transformer_generate_square_subsequent_mask(5), *y[4];
    for (int i = 0; i < 4; i++) {
        FAC_NO_GRAD(g);
        if (i == 2) (void)fac_fill_(fac_module_parameter(m, "bias_v"), 100);
        assert_ok(fac_multihead_attention_forward(m, x, x, x, &y[i], NULL, .attn_mask = mask, .need_weights = false,
                                                  .is_causal = i % 2));
    }
    assert_true(near(y[1], y[3]) && !near(y[0], y[2]) && !near(y[0], y[1]));
    fac_module_release(m);
}

/* A causal module is one with the mask, also where keys are added. */
static void causal_attention_is_that_with_the_mask(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *causal = fac_multihead_attention_new(8, 2, .add_bias_kv = true, .add_zero_attn = true, .causal = true);
    fac_module *plain = fac_multihead_attention_new(8, 2, .add_bias_kv = true, .add_zero_attn = true);
    fac_state *all = fac_module_state_dict(causal);
    assert_ok(fac_module_load_state_dict(plain, all));
    fac_state_free(all);
    fac_tensor *x = fac_randn(FAC_INTS(5, 3, 8)), *mask = fac_transformer_generate_square_subsequent_mask(5);
    assert_true(near(fac_forward(causal, x), fac_forward_many(plain, FAC_TENSORS(x, NULL, NULL, NULL, mask))));
    fac_module_release(causal);
    fac_module_release(plain);
}

static void transformer_sees_only_what_masks_leave(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_transformer_new(8, 2, 1, 1, 16, .batch_first = true);
    fac_module_train(m, false);
    fac_tensor *src = fac_randn(FAC_INTS(2, 4, 8)), *tgt = fac_randn(FAC_INTS(2, 3, 8)), *other = fac_clone(tgt);
    fac_tensor *mask = fac_transformer_generate_square_subsequent_mask(3);
    assert_non_null(fac_fill_(fac_select(other, 1, 2), 5));
    fac_tensor *a = fac_forward_many(m, FAC_TENSORS(src, tgt, NULL, mask));
    fac_tensor *b = fac_forward_many(m, FAC_TENSORS(src, other, NULL, mask));
    assert_true(near(fac_narrow(a, 1, 0, 2), fac_narrow(b, 1, 0, 2)));
    assert_false(near(a, b));
    assert_null(fac_forward_many(m, FAC_TENSORS(src, fac_ones(FAC_INTS(3, 3, 8)))));
    assert_error(FAC_ERR_SHAPE, "the batch number of src and tgt must be equal");
    fac_module_release(m);
}

static void stacks_are_copies_of_a_layer_that_they_take_over(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_transformer_encoder_new(fac_transformer_encoder_layer_new(8, 2, 16), 2,
                                                .norm = fac_layer_norm_new(FAC_INTS(8)));
    assert_true(fac_equal(fac_module_parameter(m, "layers.0.linear1.weight"),
                          fac_module_parameter(m, "layers.1.linear1.weight")));
    assert_non_null(fac_forward(m, fac_randn(FAC_INTS(4, 3, 8))));
    fac_module_release(m);
    assert_null(fac_transformer_encoder_new(fac_relu_new(), -1, .norm = fac_relu_new()));
    assert_error(FAC_ERR_ARGUMENT, "num_layers should not be negative");
    assert_null(fac_transformer_decoder_new(NULL, 1, .norm = fac_relu_new()));
    assert_error(FAC_ERR_ARGUMENT, "the layer is NULL");
}

/* ---- losses ---------------------------------------------------------------------------------------------------------- */

static void adaptive_softmax_gives_probabilities(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_adaptive_log_softmax_with_loss_new(16, 20, FAC_INTS(5, 12));
    fac_tensor *x = fac_randn(FAC_INTS(30, 16)), *all = fac_adaptive_log_softmax_log_prob(m, x);
    assert_true(near(fac_sum(fac_exp(all), .dim = 1), fac_ones(FAC_INTS(30))));
    assert_true(fac_equal(fac_adaptive_log_softmax_predict(m, x), fac_argmax(all, .dim = 1)));
    fac_tensor *target = fac_remainder(fac_arange(30), 20), *out[2];
    assert_ok(fac_forward_all(m, FAC_TENSORS(x, target), out, 2));
    assert_true(near(out[0], fac_squeeze_dim(fac_gather(all, 1, fac_unsqueeze(target, 1)), 1)));
    assert_int_equal(fac_forward_all(m, FAC_TENSORS(x, fac_add(target, 10)), out, 2), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "Target values should be in [0, 19], but values in range [10, 29] were found");
    fac_module_release(m);
    assert_null(fac_adaptive_log_softmax_with_loss_new(16, 20, FAC_INTS(5, 5)));
    assert_error(FAC_ERR_ARGUMENT, "cutoffs should be");
}

static fac_tensor *taxi(void *context, fac_tensor *a, fac_tensor *b) {
    ++*(int *)context;
    return fac_sum(fac_abs(fac_sub(a, b)), .dim = 1);
}

static void triplet_loss_takes_a_distance_of_the_users(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int calls = 0;
    fac_module *m =
        fac_triplet_margin_with_distance_loss_new(.margin = 2, .swap = true, .reduction = FAC_REDUCTION_SUM);
    assert_ok(fac_triplet_margin_with_distance_loss_set_distance(m, taxi, &calls));
    fac_tensor *a = fac_zeros(FAC_INTS(1, 2)), *p = fac_full(FAC_INTS(1, 2), 1), *n = fac_full(FAC_INTS(1, 2), 1.5);
    /* d(a, p) = 2, the smaller of d(a, n) = 3 and d(p, n) = 1 */
    assert_true(fac_item(fac_forward_many(m, FAC_TENSORS(a, p, n))) == 3);
    assert_int_equal(calls, 3);
    assert_null(fac_module_copy(m));
    assert_error(FAC_ERR_UNSUPPORTED, "Distance cannot be copied");
    fac_module *other = fac_relu_new();
    assert_int_equal(fac_triplet_margin_with_distance_loss_set_distance(other, taxi, NULL), FAC_ERR_ARGUMENT);
    fac_error_clear();
    fac_module_release(other);
    fac_module_release(m);
    assert_null(fac_triplet_margin_with_distance_loss_new(.margin = 0));
    assert_error(FAC_ERR_ARGUMENT, "greater than 0");
}

FAC_TEST_MAIN(FAC_TEST(packing_and_padding_give_the_sequences_back),
              FAC_TEST(networks_over_packed_sequences_are_those_over_each),
              FAC_TEST(recurrent_layers_refuse_what_does_not_fit),
              FAC_TEST(weights_of_attention_sum_to_one_and_follow_masks),
              FAC_TEST(attention_with_the_causal_hint_does_not_see_added_keys),
              FAC_TEST(causal_attention_is_that_with_the_mask), FAC_TEST(transformer_sees_only_what_masks_leave),
              FAC_TEST(stacks_are_copies_of_a_layer_that_they_take_over),
              FAC_TEST(adaptive_softmax_gives_probabilities), FAC_TEST(triplet_loss_takes_a_distance_of_the_users))
