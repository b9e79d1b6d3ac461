/* Recurrent networks against the textbook's equations written with other operators: outputs and gradients of padded and packed
   sequences, in both directions, with projections, and their second derivatives. */
#include "linalg_test.h"
#include "pairs.h"

static fac_tensor *integers(fac_ints v) { return fac_tensor_from(v.v, FAC_I64, FAC_INTS((int64_t)v.n)); }

enum { TANH, RELU, LSTM, GRU };

static const int64_t parts_of[] = {1, 1, 4, 3};

typedef struct weights {
    fac_tensor *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
} weights;

static weights random_weights(int kind, int64_t inputs, int64_t units, int64_t state, bool biases) {
    const int64_t n = parts_of[kind] * units;
    weights w = {LEAF(n, inputs), LEAF(n, state), NULL, NULL, NULL};
    if (biases) w.b_ih = LEAF(n), w.b_hh = LEAF(n);
    if (state != units) w.w_hr = LEAF(state, units);
    return w;
}

/* The weights as operators take them; returns how many there are. */
static size_t list_of(const weights *w, fac_tensor **out) {
    size_t n = 0;
    out[n++] = w->w_ih;
    out[n++] = w->w_hh;
    if (w->b_ih) out[n++] = w->b_ih, out[n++] = w->b_hh;
    if (w->w_hr) out[n++] = w->w_hr;
    return n;
}

static fac_tensor *part(fac_tensor *t, int64_t i, int64_t n) { return fac_narrow(t, 1, i * n, n); }

/* One step of the textbook: the new h, and c in place. */
static fac_tensor *cell(int kind, const weights *w, fac_tensor *x, fac_tensor *h, fac_tensor **c) {
    fac_tensor *a = fac_matmul(x, fac_t(w->w_ih)), *b = fac_matmul(h, fac_t(w->w_hh));
    if (w->b_ih) a = fac_add(a, w->b_ih), b = fac_add(b, w->b_hh);
    const int64_t n = fac_tensor_size(w->w_hh, 0) / parts_of[kind];
    if (kind == TANH) return fac_tanh(fac_add(a, b));
    if (kind == RELU) return fac_relu(fac_add(a, b));
    if (kind == GRU) {
        fac_tensor *r = fac_sigmoid(fac_add(part(a, 0, n), part(b, 0, n)));
        fac_tensor *z = fac_sigmoid(fac_add(part(a, 1, n), part(b, 1, n)));
        fac_tensor *fresh = fac_tanh(fac_add(part(a, 2, n), fac_mul(r, part(b, 2, n))));
        return fac_add(fac_mul(fac_rsub(z, 1), fresh), fac_mul(z, h));
    }
    fac_tensor *sum = fac_add(a, b);
    fac_tensor *in = fac_sigmoid(part(sum, 0, n)), *keep = fac_sigmoid(part(sum, 1, n));
    *c = fac_add(fac_mul(keep, *c), fac_mul(in, fac_tanh(part(sum, 2, n))));
    h = fac_mul(fac_sigmoid(part(sum, 3, n)), fac_tanh(*c));
    return w->w_hr ? fac_matmul(h, fac_t(w->w_hr)) : h;
}

enum { MOST_STEPS = 40 };

typedef struct sequence {
    int kind;
    bool reverse;
    int64_t lengths[8], batch, steps; /* of each sequence, decreasing */
} sequence;

/* A layer by the textbook, sequence by sequence: y [T, B, P] with zeros where a sequence has ended, h and c [B, ...]. */
static void textbook(const sequence *s, const weights *w, fac_tensor *x, fac_tensor *h0, fac_tensor *c0,
                     fac_tensor *out[3]) {
    fac_tensor *rows[8], *hs[8], *cs[8], *steps[MOST_STEPS];
    for (int64_t b = 0; b < s->batch; b++) {
        fac_tensor *h = fac_narrow(h0, 0, b, 1), *c = c0 ? fac_narrow(c0, 0, b, 1) : NULL;
        for (int64_t t = 0; t < s->steps; t++) steps[t] = fac_zeros_like(h);
        for (int64_t i = 0; i < s->lengths[b]; i++) {
            const int64_t t = s->reverse ? s->lengths[b] - 1 - i : i;
            h = cell(s->kind, w, fac_narrow(fac_select(x, 0, t), 0, b, 1), h, &c);
            steps[t] = h;
        }
        rows[b] = fac_stack(fac_tensors_of(steps, (size_t)s->steps));
        hs[b] = h, cs[b] = c;
    }
    const size_t n = (size_t)s->batch;
    out[0] = fac_cat(fac_tensors_of(rows, n), .dim = 1);
    out[1] = fac_cat(fac_tensors_of(hs, n));
    out[2] = c0 ? fac_cat(fac_tensors_of(cs, n)) : NULL;
    assert_no_error();
}

/* The operators' results of one layer in one direction: a bidirectional layer has the other one too, so it is its second half. */
static void operators(const sequence *s, const weights *w, fac_tensor *x, fac_tensor *h0, fac_tensor *c0,
                      fac_tensor *out[3]) {
    fac_tensor *params[10], *h = fac_unsqueeze(h0, 0), *c = c0 ? fac_unsqueeze(c0, 0) : NULL;
    size_t n = list_of(w, params);
    if (s->reverse) {
        for (size_t i = 0; i < n; i++) params[n + i] = fac_detach(params[i]);
        for (size_t i = 0; i < n; i++) {
            fac_tensor *own = params[i];
            params[i] = params[n + i], params[n + i] = own;
        }
        n *= 2;
        h = fac_cat(FAC_TENSORS(fac_detach(h), h));
        c = c ? fac_cat(FAC_TENSORS(fac_detach(c), c)) : NULL;
    }
    const fac_tensors p = fac_tensors_of(params, n);
    fac_pack_padded_sequence_result packed =
        fac_pack_padded_sequence(x, fac_tensor_from(s->lengths, FAC_I64, FAC_INTS(s->batch)), false);
    fac_tensor *y;
    if (s->kind == LSTM) {
        fac_lstm_data_result r = fac_lstm_data(packed.result0, packed.result1, FAC_TENSORS(h, c), p, w->b_ih != NULL, 1,
                                               0, true, s->reverse);
        y = r.result0, out[1] = r.result1, out[2] = r.result2;
    } else if (s->kind == GRU) {
        fac_gru_data_result r =
            fac_gru_data(packed.result0, packed.result1, h, p, w->b_ih != NULL, 1, 0, true, s->reverse);
        y = r.result0, out[1] = r.result1, out[2] = NULL;
    } else if (s->kind == TANH) {
        fac_rnn_tanh_data_result r =
            fac_rnn_tanh_data(packed.result0, packed.result1, h, p, w->b_ih != NULL, 1, 0, true, s->reverse);
        y = r.result0, out[1] = r.result1, out[2] = NULL;
    } else {
        fac_rnn_relu_data_result r =
            fac_rnn_relu_data(packed.result0, packed.result1, h, p, w->b_ih != NULL, 1, 0, true, s->reverse);
        y = r.result0, out[1] = r.result1, out[2] = NULL;
    }
    assert_no_error();
    y = fac_pad_packed_sequence(y, packed.result1, false, fac_scalar_i_(0), s->steps).result0;
    const int64_t width = fac_tensor_size(h0, 1);
    out[0] = s->reverse ? fac_narrow(y, 2, width, width) : y;
    out[1] = fac_select(out[1], 0, -1);
    if (out[2]) out[2] = fac_select(out[2], 0, -1);
    assert_no_error();
}

static fac_tensor *weighted_sum(fac_tensor *const out[3], fac_tensor *const by[3]) {
    fac_tensor *sum = fac_sum(fac_mul(out[0], by[0]));
    for (int i = 1; i < 3; i++)
        if (out[i]) sum = fac_add(sum, fac_sum(fac_mul(out[i], by[i])));
    return sum;
}

static void expect_textbook(const sequence *s, int64_t inputs, int64_t units, int64_t state, bool biases) {
    FAC_SCOPE(scope);
    weights w = random_weights(s->kind, inputs, units, state, biases);
    fac_tensor *of[9] = {LEAF(s->steps, s->batch, inputs), LEAF(s->batch, state)}, *got[3], *want[3], *g[9], *h[9],
               *by[3];
    size_t n = 2;
    fac_tensor *c0 = s->kind == LSTM ? LEAF(s->batch, units) : NULL;
    if (c0) of[n++] = c0;
    n += list_of(&w, of + n);
    textbook(s, &w, of[0], of[1], c0, want);
    operators(s, &w, of[0], of[1], c0, got);
    for (int i = 0; i < 3; i++) {
        if (!want[i]) continue;
        assert_near(got[i], want[i], 1e-12);
        by[i] = random_of(FAC_F64, fac_tensor_sizes(want[i]));
    }
    assert_ok(fac_grad(FAC_TENSORS(weighted_sum(want, by)), fac_tensors_of(of, n), h));
    assert_ok(fac_grad(FAC_TENSORS(weighted_sum(got, by)), fac_tensors_of(of, n), g));
    for (size_t i = 0; i < n; i++) assert_near(g[i], h[i], 1e-11);
}

static void rnn_layers_are_the_textbooks(void **state) {
    (void)state;
    for (int kind = TANH; kind <= GRU; kind++)
        for (int reverse = 0; reverse < 2; reverse++) {
            expect_textbook(&(sequence){kind, reverse, {5, 5, 5}, 3, 5}, 4, 6, 6, true);
            expect_textbook(&(sequence){kind, reverse, {7, 5, 5, 2, 1}, 5, 7}, 3, 37, 37, true);
            expect_textbook(&(sequence){kind, reverse, {9, 8, 8, 6, 3, 2, 1}, 7, 9}, 20, 9, 9, false);
            expect_textbook(&(sequence){kind, reverse, {1, 1}, 2, 1}, 2, 3, 3, true);
            expect_textbook(&(sequence){kind, reverse, {40}, 1, 40}, 2, 3, 3, true);
        }
}

static void lstm_projections_are_the_textbooks(void **state) {
    (void)state;
    for (int reverse = 0; reverse < 2; reverse++) {
        expect_textbook(&(sequence){LSTM, reverse, {6, 4, 4, 1}, 4, 6}, 5, 7, 3, true);
        expect_textbook(&(sequence){LSTM, reverse, {2, 1}, 2, 2}, 5, 4, 19, false);
    }
}

/* Two layers in two directions, batch first, are layers one by one. */
static void lstm_stacks_layers_and_directions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    enum { T = 5, B = 3, I = 4, H = 6 };
    fac_tensor *params[16], *x = RANDOM(B, T, I), *h0 = RANDOM(4, B, H), *c0 = RANDOM(4, B, H), *ends[4], *cells[4];
    weights w[4];
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        w[i] = random_weights(LSTM, i < 2 ? I : 2 * H, H, H, true);
        n += list_of(&w[i], params + n);
    }
    fac_lstm_result got = fac_lstm(x, FAC_TENSORS(h0, c0), fac_tensors_of(params, n), true, 2, 0.5, false, true, true);
    fac_tensor *y = fac_transpose(x, 0, 1);
    for (int layer = 0; layer < 2; layer++) {
        fac_tensor *sides[2];
        for (int d = 0; d < 2; d++) {
            fac_tensor *out[3];
            const int i = 2 * layer + d;
            textbook(&(sequence){LSTM, d, {T, T, T}, B, T}, &w[i], y, fac_select(h0, 0, i), fac_select(c0, 0, i), out);
            sides[d] = out[0], ends[i] = out[1], cells[i] = out[2];
        }
        y = fac_cat(fac_tensors_of(sides, 2), .dim = -1);
    }
    assert_near(got.result0, fac_transpose(y, 0, 1), 1e-12);
    assert_near(got.result1, fac_stack(fac_tensors_of(ends, 4)), 1e-12);
    assert_near(got.result2, fac_stack(fac_tensors_of(cells, 4)), 1e-12);
}

static void lstm_drops_between_layers_while_training(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *params[8], *x = RANDOM(3, 2, 4), *h = fac_zeros(FAC_INTS(2, 2, 5), .dtype = FAC_F64);
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        weights w = random_weights(LSTM, i ? 5 : 4, 5, 5, true);
        n += list_of(&w, params + n);
    }
    const fac_tensors p = fac_tensors_of(params, n), hc = FAC_TENSORS(h, h);
    fac_tensor *still = fac_lstm(x, hc, p, true, 2, 0.9, false, false, false).result0;
    fac_tensor *plain = fac_lstm(x, hc, p, true, 2, 0, true, false, false).result0;
    fac_tensor *dropped = fac_lstm(x, hc, p, true, 2, 0.9, true, false, false).result0;
    assert_close(still, plain);
    assert_true(fac_item(fac_sum(fac_abs(fac_sub(dropped, plain)))) > 1e-3);
}

/* ---- gradients, numerically and of second order ------------------------------------------------------------------------------ */

typedef struct form {
    int kind;
    bool reverse;
    const int64_t *sizes; /* NULL: padded */
    size_t steps;
} form;

static fac_status call_layer(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const form *f = context;
    const bool lstm = f->kind == LSTM;
    fac_value args[11] = {fac_value_tensor(in.v[0]), fac_value_tensor(in.v[1]), fac_value_none()};
    for (int i = 0; i < 4; i++) args[3 + i] = fac_value_tensor(in.v[2 + lstm + i]);
    if (lstm) args[2] = fac_value_tensor(in.v[2]);
    args[7] = in.n == 8 ? fac_value_tensor(in.v[7]) : fac_value_none();
    args[8] = f->sizes ? fac_value_ints(f->sizes, f->steps) : fac_value_none();
    args[9] = fac_value_int(f->kind);
    args[10] = fac_value_bool(f->reverse);
    fac_value results[5];
    fac_status st = fac_call("aten::_rnn_layer", args, 11, results);
    for (int i = 0; i < 11; i++) fac_value_release(&args[i]);
    if (st != FAC_OK) return st;
    for (size_t i = 0; i < n; i++) out[i] = fac_alias(fac_value_as_tensor(results[i]));
    for (int i = 0; i < 5; i++) fac_value_release(&results[i]);
    return fac_error();
}

static void rnn_has_gradients_to_second_order(void **state) {
    (void)state;
    static const int64_t sizes[] = {3, 2, 1};
    for (int kind = TANH; kind <= GRU; kind++)
        for (int packed = 0; packed < 2; packed++)
            for (int reverse = 0; reverse < 2; reverse++) {
                if (kind == RELU && packed) continue;
                FAC_SCOPE(s);
                form f = {kind, reverse, packed ? sizes : NULL, 3};
                const int64_t b = packed ? 3 : 2, n = parts_of[kind] * 2;
                fac_tensor *x = packed ? LEAF(6, 2) : LEAF(2, 2, 2), *h = LEAF(b, 2);
                fac_tensors in = kind == LSTM ? FAC_TENSORS(x, h, LEAF(b, 2), LEAF(n, 2), LEAF(n, 2), LEAF(n), LEAF(n))
                                              : FAC_TENSORS(x, h, LEAF(n, 2), LEAF(n, 2), LEAF(n), LEAF(n));
                const size_t outs = kind == LSTM ? 3 : 2;
                assert_ok(fac_gradcheck(call_layer, &f, in, outs));
                assert_ok(fac_gradgradcheck(call_layer, &f, in, outs));
            }
}

static void lstm_projection_has_gradients_to_second_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    form f = {LSTM, false, NULL, 0};
    fac_tensors in =
        FAC_TENSORS(LEAF(2, 2, 2), LEAF(2, 1), LEAF(2, 2), LEAF(8, 2), LEAF(8, 1), LEAF(8), LEAF(8), LEAF(1, 2));
    assert_ok(fac_gradcheck(call_layer, &f, in, 3));
    assert_ok(fac_gradgradcheck(call_layer, &f, in, 3));
}

/* ---- cells ------------------------------------------------------------------------------------------------------------------- */

static void cells_are_the_textbooks(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(3, 4), *h = RANDOM(3, 5), *c = RANDOM(3, 5), *next = c;
    weights w = random_weights(LSTM, 4, 5, 5, true);
    fac_lstm_cell_result r = fac_lstm_cell(x, FAC_TENSORS(h, c), w.w_ih, w.w_hh, .b_ih = w.b_ih, .b_hh = w.b_hh);
    assert_close(r.result0, cell(LSTM, &w, x, h, &next));
    assert_close(r.result1, next);
    w = random_weights(GRU, 4, 5, 5, true);
    assert_close(fac_gru_cell(x, h, w.w_ih, w.w_hh, .b_ih = w.b_ih, .b_hh = w.b_hh), cell(GRU, &w, x, h, NULL));
    w = random_weights(TANH, 4, 5, 5, false);
    assert_close(fac_rnn_tanh_cell(x, h, w.w_ih, w.w_hh), cell(TANH, &w, x, h, NULL));
    assert_close(fac_rnn_relu_cell(x, h, w.w_ih, w.w_hh), cell(RELU, &w, x, h, NULL));
}

/* ---- dtypes, threads, packing -------------------------------------------------------------------------------------------------- */

static fac_tensor *run_lstm(fac_tensor *x, fac_tensor *h, fac_tensors p) {
    return fac_lstm(x, FAC_TENSORS(h, h), p, true, 1, 0, false, false, false).result0;
}

static void rnn_halves_are_computed_in_single_precision(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16};
    static const double tolerance[] = {1e-3, 8e-3};
    for (int i = 0; i < 2; i++) {
        FAC_SCOPE(s);
        weights w = random_weights(LSTM, 8, 20, 20, true);
        fac_tensor *wide[4], *low[4], *x = fac_to_dtype(RANDOM(30, 4, 8), dtypes[i]),
                                      *h = fac_to_dtype(RANDOM(1, 4, 20), dtypes[i]);
        list_of(&w, wide);
        for (int k = 0; k < 4; k++) {
            low[k] = fac_to_dtype(wide[k], dtypes[i]);
            wide[k] = fac_to_dtype(low[k], FAC_F64);
        }
        fac_tensor *got = run_lstm(x, h, fac_tensors_of(low, 4));
        assert_int_equal(fac_tensor_dtype(got), dtypes[i]);
        assert_near(got, run_lstm(fac_to_dtype(x, FAC_F64), fac_to_dtype(h, FAC_F64), fac_tensors_of(wide, 4)),
                    tolerance[i]);
    }
}

/* A layer's input, states, weights and biases as leaves: `size` is steps, batch, inputs and units. Returns how many there are. */
static size_t layer_leaves(fac_dtype dtype, int kind, const int64_t *size, fac_tensor **of) {
    const int64_t b = size[1], h = size[3], n = parts_of[kind] * h;
    const int64_t shapes[7][2] = {{0, 0}, {b, h}, {b, h}, {n, size[2]}, {n, h}, {n, 0}, {n, 0}};
    size_t count = 0;
    of[count++] = fac_set_requires_grad(random_of(dtype, FAC_INTS(size[0], b, size[2])), true);
    for (int j = 1; j < 7; j++) {
        if (j == 2 && kind != LSTM) continue;
        fac_tensor *leaf = fac_div(random_of(dtype, (fac_ints){shapes[j], shapes[j][1] ? 2 : 1}), 8);
        of[count++] = fac_set_requires_grad(fac_detach(leaf), true);
    }
    return count;
}

/* Gradients of a sum of squares, and the outputs behind them. */
static void layer_grads(form *f, const fac_tensor *const *leaves, size_t count, fac_tensor **g) {
    fac_tensor *out[1], *of[8];
    for (size_t j = 0; j < count; j++) of[j] = (fac_tensor *)leaves[j];
    assert_ok(call_layer(f, fac_tensors_of(of, count), out, 1));
    g[count] = out[0];
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(out[0], out[0]))), fac_tensors_of(of, count), g));
}

/* The bits of outputs and gradients, for sizes whose sequences or whose weights are cut. */
static void rnn_bits_do_not_depend_on_threads(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {{9, 40, 30, 33}, {6, 3, 20, 260}};
    const int usual = fac_num_threads();
    for (size_t k = 0; k < 2 * FAC_COUNT(sizes); k++)
        for (int kind = TANH; kind <= GRU; kind++) {
            FAC_SCOPE(s);
            fac_tensor *of[7], *first[8] = {NULL}, *g[8];
            const size_t count = layer_leaves(k % 2 ? FAC_BF16 : FAC_F32, kind, sizes[k / 2], of);
            form f = {kind, false, NULL, 0};
            for (int threads = 1; threads < 5; threads++) {
                assert_ok(fac_set_num_threads(threads));
                layer_grads(&f, (const fac_tensor *const *)of, count, g);
                for (size_t j = 0; j <= count; j++) {
                    if (threads == 1) first[j] = g[j];
                    assert_true(fac_item(fac_all(fac_eq(first[j], g[j]))) == 1);
                }
            }
        }
    assert_ok(fac_set_num_threads(usual));
}

static fac_tensor *bf16_leaf(fac_ints sizes) {
    return fac_set_requires_grad(fac_detach(fac_div(random_of(FAC_BF16, sizes), 8)), true);
}

/* A relu whose sum is rounded to the other side of zero is wrong by more. Odd depths, columns that fill no vector, and a call that does not pack its weights; with a projection too. */
static void rnn_of_bf16_is_near_that_of_f64(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {{9, 5, 7, 21}, {4, 20, 33, 70}, {1, 5, 7, 21}};
    for (size_t k = 0; k < 2 * FAC_COUNT(sizes); k++)
        for (int kind = TANH; kind <= GRU + 1; kind++) {
            FAC_SCOPE(s);
            const bool projected = kind > GRU;
            const int64_t *size = sizes[k / 2], h = size[3];
            form f = {projected ? LSTM : kind, k % 2, NULL, 0};
            fac_tensor *low[8], *wide[8], *g[9], *want[9];
            size_t count = layer_leaves(FAC_BF16, f.kind, size, low);
            if (projected) {
                low[1] = bf16_leaf(FAC_INTS(size[1], 9));
                low[4] = bf16_leaf(FAC_INTS(4 * h, 9));
                low[count++] = bf16_leaf(FAC_INTS(9, h));
            }
            for (size_t j = 0; j < count; j++)
                wide[j] = fac_set_requires_grad(fac_detach(fac_to_dtype(low[j], FAC_F64)), true);
            layer_grads(&f, (const fac_tensor *const *)low, count, g);
            layer_grads(&f, (const fac_tensor *const *)wide, count, want);
            for (size_t j = 0; j <= count; j++) {
                const double most = fac_item(fac_amax(fac_abs(want[j]))),
                             off = fac_item(fac_amax(fac_abs(fac_sub(fac_to_dtype(g[j], FAC_F64), want[j]))));
                if (!(off <= (kind == RELU ? 0.1 : 0.03) * most))
                    fail_msg("kind %d, tensor %zu: off by %g of %g", kind, j, off, most);
            }
        }
}

static void packing_and_padding_undo_each_other(void **state) {
    (void)state;
    for (int batch_first = 0; batch_first < 2; batch_first++) {
        FAC_SCOPE(s);
        fac_tensor *x = batch_first ? LEAF(3, 4, 2) : LEAF(4, 3, 2), *lengths = integers(FAC_INTS(4, 2, 1));
        fac_pack_padded_sequence_result p = fac_pack_padded_sequence(x, lengths, batch_first);
        assert_sizes(p.result0, 7, 2);
        assert_close(p.result1, integers(FAC_INTS(3, 2, 1, 1)));
        fac_pad_packed_sequence_result q =
            fac_pad_packed_sequence(p.result0, p.result1, batch_first, fac_scalar_f_(-1), 5);
        assert_close(q.result1, lengths);
        static const int64_t counts[] = {4, 2, 1};
        fac_tensor *rows = batch_first ? q.result0 : fac_transpose(q.result0, 0, 1),
                   *from = batch_first ? x : fac_transpose(x, 0, 1);
        assert_sizes(rows, 3, 5, 2);
        for (int64_t b = 0; b < 3; b++) {
            const int64_t n = counts[b];
            assert_close(fac_narrow(fac_select(rows, 0, b), 0, 0, n), fac_narrow(fac_select(from, 0, b), 0, 0, n));
            assert_close(fac_narrow(fac_select(rows, 0, b), 0, n, 5 - n),
                         fac_full(FAC_INTS(5 - n, 2), -1, .dtype = FAC_F64));
        }
        assert_ok(fac_backward(fac_sum(p.result0)));
        assert_true(fac_item(fac_sum(fac_grad_of(x))) == 14);
    }
}

static void rnn_of_no_sequences_gives_zero_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    weights w = random_weights(LSTM, 4, 5, 5, true);
    fac_tensor *params[4], *h = fac_zeros(FAC_INTS(1, 0, 5), .dtype = FAC_F64),
                           *x = fac_zeros(FAC_INTS(3, 0, 4), .dtype = FAC_F64);
    list_of(&w, params);
    fac_tensor *y = run_lstm(x, h, fac_tensors_of(params, 4));
    assert_sizes(y, 3, 0, 5);
    assert_ok(fac_backward(fac_sum(y)));
    assert_close(fac_grad_of(w.w_hh), fac_zeros_like(w.w_hh));
}

static void rnn_refuses_bad_arguments(void **state) {
    (void)state;
    FAC_SCOPE(s);
    weights w = random_weights(LSTM, 4, 5, 5, true);
    fac_tensor *params[4], *x = RANDOM(3, 2, 4), *h = RANDOM(1, 2, 5);
    list_of(&w, params);
    const fac_tensors p = fac_tensors_of(params, 4);
    assert_null(fac_lstm(x, FAC_TENSORS(h), p, true, 1, 0, false, false, false).result0);
    assert_error(FAC_ERR_ARGUMENT, "lstm expects two hidden states");
    assert_null(fac_lstm(x, FAC_TENSORS(h, h), p, true, 2, 0, false, false, false).result0);
    assert_error(FAC_ERR_SHAPE, "hx must have size [2, B, H]");
    assert_null(fac_lstm(x, FAC_TENSORS(h, h), p, false, 1, 0, false, false, false).result0);
    assert_error(FAC_ERR_ARGUMENT, "expected 2 parameters for each of 1 layers and directions, got 4");
    assert_null(fac_lstm(RANDOM(3, 2, 3), FAC_TENSORS(h, h), p, true, 1, 0, false, false, false).result0);
    assert_error(FAC_ERR_SHAPE, "w_ih must have size [20, 3]");
    assert_null(
        fac_lstm(random_of(FAC_F32, FAC_INTS(3, 2, 4)), FAC_TENSORS(h, h), p, true, 1, 0, false, false, false).result0);
    assert_error(FAC_ERR_DTYPE, "hx must be float32");
    assert_null(fac_lstm(RANDOM(0, 2, 4), FAC_TENSORS(h, h), p, true, 1, 0, false, false, false).result0);
    assert_error(FAC_ERR_SHAPE, "sequence length to be larger than 0");
    fac_tensor *sizes = integers(FAC_INTS(1, 2));
    assert_null(fac_lstm_data(RANDOM(3, 4), sizes, FAC_TENSORS(h, h), p, true, 1, 0, false, false).result0);
    assert_error(FAC_ERR_ARGUMENT, "must not increase");
    assert_null(fac_pack_padded_sequence(x, sizes, false).result0);
    assert_error(FAC_ERR_ARGUMENT, "sorted in decreasing order");
    assert_null(fac_pack_padded_sequence(x, integers(FAC_INTS(4, 2)), false).result0);
    assert_error(FAC_ERR_ARGUMENT, "exceeds the 3 steps");
}

FAC_TEST_MAIN_OF_PAIRS(FAC_TEST(rnn_layers_are_the_textbooks), FAC_TEST(lstm_projections_are_the_textbooks),
                       FAC_TEST(lstm_stacks_layers_and_directions), FAC_TEST(lstm_drops_between_layers_while_training),
                       FAC_TEST(rnn_has_gradients_to_second_order),
                       FAC_TEST(lstm_projection_has_gradients_to_second_order), FAC_TEST(cells_are_the_textbooks),
                       FAC_TEST(rnn_halves_are_computed_in_single_precision),
                       FAC_TEST(rnn_bits_do_not_depend_on_threads), FAC_TEST(rnn_of_bf16_is_near_that_of_f64),
                       FAC_TEST(packing_and_padding_undo_each_other),
                       FAC_TEST(rnn_of_no_sequences_gives_zero_gradients), FAC_TEST(rnn_refuses_bad_arguments))
