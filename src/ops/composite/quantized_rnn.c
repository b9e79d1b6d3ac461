/* Recurrent networks with quantized weights: each step quantizes what it reads, multiplies in integers, and goes on in float32. */
#include "core/scalar.h"
#include "ops/coded.h"
#include "ops/composite/brief.h"
#include "ops/meta/check.h"

typedef enum { LSTM, GRU, RELU, TANH } cell_kind;

/* Weights as quantized tensors; biases may be NULL. */
typedef struct cell {
    cell_kind kind;
    fac_tensor *w_ih, *w_hh, *b_ih, *b_hh;
} cell;

static fac_tensor *linear(fac_tensor *x, fac_tensor *w, fac_tensor *b) {
    return fac__s_quantized_linear_dynamic(x, w, b, false);
}

/* Columns [i * n, i * n + n) of gates. */
static fac_tensor *gate(fac_tensor *gates, int64_t i, int64_t n) { return fac__s_narrow(gates, -1, i * n, n); }
static fac_tensor *sigmoid(fac_tensor *x) { return fac__s_sigmoid(x); }

static fac_tensor *lstm_step(fac_tensor *gates, fac_tensor **c, int64_t n) {
    fac_tensor *kept = mul(sigmoid(gate(gates, 1, n)), *c);
    fac_tensor *added = mul(sigmoid(gate(gates, 0, n)), fac__s_tanh(gate(gates, 2, n)));
    *c = add(kept, added);
    return mul(sigmoid(gate(gates, 3, n)), fac__s_tanh(*c));
}

static fac_tensor *gru_step(fac_tensor *from_x, fac_tensor *from_h, fac_tensor *h, int64_t n) {
    fac_tensor *reset = sigmoid(add(gate(from_x, 0, n), gate(from_h, 0, n)));
    fac_tensor *update = sigmoid(add(gate(from_x, 1, n), gate(from_h, 1, n)));
    fac_tensor *fresh = fac__s_tanh(add(gate(from_x, 2, n), mul(reset, gate(from_h, 2, n))));
    return add(mul(sub(h, fresh), update), fresh);
}

/* The next h, a temporary; of an LSTM *c goes on, too. */
static fac_tensor *step(const cell *k, fac_tensor *x, fac_tensor *h, fac_tensor **c) {
    const int64_t n = h->sizes[h->ndim - 1];
    fac_tensor *from_x = linear(x, k->w_ih, k->b_ih), *from_h = linear(h, k->w_hh, k->b_hh);
    if (!from_x || !from_h) return NULL;
    if (k->kind == GRU) return gru_step(from_x, from_h, h, n);
    fac_tensor *sum = add(from_x, from_h);
    if (k->kind == LSTM) return sum ? lstm_step(sum, c, n) : NULL;
    return k->kind == RELU ? fac__s_relu(sum) : fac__s_tanh(sum);
}

/* ---- cells ------------------------------------------------------------------------------------------------------------------ */

static int64_t gates_of(cell_kind kind) { return kind == LSTM ? 4 : kind == GRU ? 3 : 1; }

static fac_status check_state(const fac_tensor *input, const fac_tensor *h, const fac_tensor *w_ih,
                              const fac_tensor *w_hh, cell_kind kind) {
    FAC_CHECK(input->ndim == 2 && h->ndim == 2 && input->sizes[0] == h->sizes[0], FAC_ERR_SHAPE,
              "an input [B, I] and a state [B, H] are expected, but got %s and %s", FAC_SHAPE_TEXT(input),
              FAC_SHAPE_TEXT(h));
    int64_t rows;
    FAC_CHECK(fac__mul(gates_of(kind), h->sizes[1], &rows), FAC_ERR_OVERFLOW, "a state of %s is too large",
              FAC_SHAPE_TEXT(h));
    FAC_TRY(fac__need_sizes("w_ih", w_ih, (const int64_t[]){rows, input->sizes[1]}, 2));
    return fac__need_sizes("w_hh", w_hh, (const int64_t[]){rows, h->sizes[1]}, 2);
}

/* One step with weights as codes. outs: h and, of an LSTM, c. */
static fac_status cell_step(cell_kind kind, fac_tensor *input, fac_tensor *h, fac_tensor *c, fac_tensor *w_ih,
                            fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, const fac_scalar numbers[4],
                            fac_tensor **out) {
    FAC_TRY(check_state(input, h, w_ih, w_hh, kind));
    if (c) FAC_TRY(fac__need_sizes("hx[1]", c, h->sizes, 2));
    FAC_TRY(fac__need_dtype("w_ih", w_ih, FAC_I8));
    FAC_TRY(fac__need_dtype("w_hh", w_hh, FAC_I8));
    FAC_TRY(fac__need_dtype("hx", h, FAC_F32));
    FAC_TRY(fac__need_dtype("hx[1]", c, FAC_F32));
    FAC_SCOPE(scope);
    const cell k = {
        kind, fac__s__make_per_tensor_quantized_tensor(w_ih, fac__scalar_f64(numbers[0]), fac__scalar_i64(numbers[2])),
        fac__s__make_per_tensor_quantized_tensor(w_hh, fac__scalar_f64(numbers[1]), fac__scalar_i64(numbers[3])), b_ih,
        b_hh};
    if (!k.w_ih || !k.w_hh) return fac_error();
    fac_tensor *next = step(&k, input, h, &c);
    FAC_TRY(fac__give(&out[0], next));
    if (!c) return FAC_OK;
    const fac_status st = fac__give(&out[1], c);
    if (st != FAC_OK) fac__unref(out[0]);
    return st;
}

fac_status quantized_lstm_cell_composite(const fac_call_info *call, fac_tensor *input, fac_tensors hx, fac_tensor *w_ih,
                                         fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *packed_ih,
                                         fac_tensor *packed_hh, fac_tensor *col_offsets_ih, fac_tensor *col_offsets_hh,
                                         fac_scalar scale_ih, fac_scalar scale_hh, fac_scalar zero_point_ih,
                                         fac_scalar zero_point_hh, fac_tensor **out) {
    (void)call, (void)packed_ih, (void)packed_hh, (void)col_offsets_ih, (void)col_offsets_hh;
    FAC_CHECK(hx.n == 2, FAC_ERR_ARGUMENT, "lstm cell expects two hidden states, got %zu", hx.n);
    return cell_step(LSTM, input, hx.v[0], hx.v[1], w_ih, w_hh, b_ih, b_hh,
                     (const fac_scalar[]){scale_ih, scale_hh, zero_point_ih, zero_point_hh}, out);
}

#define CELL(name, kind)                                                                                              \
    fac_status name(const fac_call_info *call, fac_tensor *input, fac_tensor *hx, fac_tensor *w_ih, fac_tensor *w_hh, \
                    fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *packed_ih, fac_tensor *packed_hh,                 \
                    fac_tensor *col_offsets_ih, fac_tensor *col_offsets_hh, fac_scalar scale_ih, fac_scalar scale_hh, \
                    fac_scalar zero_point_ih, fac_scalar zero_point_hh, fac_tensor **out) {                           \
        (void)call, (void)packed_ih, (void)packed_hh, (void)col_offsets_ih, (void)col_offsets_hh;                     \
        return cell_step(kind, input, hx, NULL, w_ih, w_hh, b_ih, b_hh,                                               \
                         (const fac_scalar[]){scale_ih, scale_hh, zero_point_ih, zero_point_hh}, out);                \
    }
CELL(quantized_gru_cell_composite, GRU)
CELL(quantized_rnn_relu_cell_composite, RELU)
CELL(quantized_rnn_tanh_cell_composite, TANH)

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

typedef struct network {
    cell_kind kind;
    fac_tensors params;
    bool has_biases, bidirectional, batch_first;
    int64_t layers;
} network;

static fac_status check_network(const network *k, const fac_tensor *input, const fac_tensor *h, const fac_tensor *c,
                                double dropout, bool train) {
    const int64_t directions = k->bidirectional ? 2 : 1;
    int64_t count;
    FAC_CHECK(!train || dropout == 0, FAC_ERR_UNSUPPORTED, "quantized networks are not trained: dropout should be 0");
    FAC_CHECK(k->layers > 0 && fac__mul(k->layers, directions, &count), FAC_ERR_ARGUMENT,
              "num_layers should be positive, got %lld", (long long)k->layers);
    FAC_CHECK(k->params.n % (k->has_biases ? 4 : 2) == 0 && (int64_t)(k->params.n / (k->has_biases ? 4 : 2)) == count,
              FAC_ERR_ARGUMENT, "expected the weights%s of %lld cells, but got %zu tensors",
              k->has_biases ? " and biases" : "", (long long)count, k->params.n);
    FAC_CHECK(input->ndim == 3 && h->ndim == 3 && h->sizes[0] == count &&
                  h->sizes[1] == input->sizes[k->batch_first ? 0 : 1],
              FAC_ERR_SHAPE, "an input [T, B, I] and a state [%lld, B, H] are expected, but got %s and %s",
              (long long)count, FAC_SHAPE_TEXT(input), FAC_SHAPE_TEXT(h));
    FAC_CHECK(input->sizes[k->batch_first ? 1 : 0] > 0, FAC_ERR_SHAPE,
              "Expected sequence length to be larger than 0 in RNN");
    FAC_TRY(fac__need_dtype("input", input, FAC_F32));
    FAC_TRY(fac__need_dtype("hx", h, FAC_F32));
    FAC_TRY(fac__need_dtype("hx[1]", c, FAC_F32));
    return fac__need_sizes("hx[1]", c, h->sizes, 3);
}

static cell cell_of(const network *k, int64_t i) {
    fac_tensor *const *p = k->params.v + i * (k->has_biases ? 4 : 2);
    return (cell){k->kind, p[0], p[1], k->has_biases ? p[2] : NULL, k->has_biases ? p[3] : NULL};
}

static fac_status check_cell(const cell *k, int64_t width, int64_t h) {
    int64_t rows;
    FAC_CHECK(fac__mul(gates_of(k->kind), h, &rows), FAC_ERR_OVERFLOW, "a state of %lld features is too large",
              (long long)h);
    FAC_TRY(fac__need_sizes("w_ih", k->w_ih, (const int64_t[]){rows, width}, 2));
    return fac__need_sizes("w_hh", k->w_hh, (const int64_t[]){rows, h}, 2);
}

/* One layer in one direction over x [T, B, I]; temporaries [T, B, H], and the last h and c. */
static fac_tensor *direction(const cell *k, fac_tensor *x, fac_tensor **h, fac_tensor **c, bool reverse) {
    const int64_t n = x->sizes[0];
    fac_tensor **steps = fac__alloc_array((size_t)n, sizeof *steps), *all = NULL;
    if (!steps) return NULL;
    for (int64_t i = 0; i < n && *h; i++) {
        const int64_t t = reverse ? n - 1 - i : i;
        *h = step(k, fac__s_select_int(x, 0, t), *h, c);
        steps[t] = *h;
    }
    if (*h) all = fac__s_stack((fac_tensors){steps, (size_t)n}, 0);
    fac__free(steps);
    return all;
}

/* All layers; outs: the output, the last h and, of an LSTM, the last c. */
static fac_status run(const network *k, fac_tensor *input, fac_tensor *hx, fac_tensor *cx, fac_tensor **out) {
    const int directions = k->bidirectional ? 2 : 1;
    const size_t count = (size_t)(k->layers * directions);
    FAC_SCOPE(scope);
    fac_tensor **last = fac__alloc_array(2 * count, sizeof *last);
    fac_tensor *x = k->batch_first ? fac__s_transpose_int(input, 0, 1) : input, *result[3] = {0};
    fac_status st = last && x ? FAC_OK : fac_error();
    for (int64_t l = 0; l < k->layers && st == FAC_OK; l++) {
        fac_tensor *both[2] = {0};
        for (int d = 0; d < directions && st == FAC_OK; d++) {
            const int64_t i = l * directions + d;
            const cell one = cell_of(k, i);
            fac_tensor *h = fac__s_select_int(hx, 0, i), *c = cx ? fac__s_select_int(cx, 0, i) : NULL;
            st = check_cell(&one, x->sizes[2], hx->sizes[2]);
            if (st == FAC_OK && !(both[d] = direction(&one, x, &h, &c, d == 1))) st = fac_error();
            last[i] = h;
            last[count + (size_t)i] = c;
        }
        if (st == FAC_OK) x = directions == 2 ? fac__s_cat((fac_tensors){both, 2}, -1) : both[0];
        if (!x) st = fac_error();
    }
    if (st == FAC_OK) {
        result[0] = k->batch_first ? fac__s_transpose_int(x, 0, 1) : x;
        result[1] = fac__s_stack((fac_tensors){last, count}, 0);
        if (cx) result[2] = fac__s_stack((fac_tensors){last + count, count}, 0);
        st = fac_error();
    }
    fac__free(last);
    const int n = cx ? 3 : 2;
    for (int i = 0; i < n && st == FAC_OK; i++) {
        st = fac__give(&out[i], result[i]);
        for (int j = 0; st != FAC_OK && j < i; j++) fac__unref(out[j]);
    }
    return st;
}

fac_status quantized_lstm_composite(const fac_call_info *c, fac_tensor *input, fac_tensors hx, fac_tensors params,
                                    bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
                                    bool batch_first, fac_dtype dtype, bool use_dynamic, fac_tensor **out) {
    (void)c, (void)use_dynamic;
    FAC_CHECK(hx.n == 2, FAC_ERR_ARGUMENT, "lstm expects two hidden states, got %zu", hx.n);
    FAC_CHECK(!dtype || dtype == FAC_QINT8, FAC_ERR_UNSUPPORTED, "dtype is not supported: weights are qint8, not %s",
              fac_dtype_name(dtype));
    const network k = {LSTM, params, has_biases, bidirectional, batch_first, num_layers};
    FAC_TRY(check_network(&k, input, hx.v[0], hx.v[1], dropout, train));
    return run(&k, input, hx.v[0], hx.v[1], out);
}

fac_status quantized_gru_composite(const fac_call_info *c, fac_tensor *input, fac_tensor *hx, fac_tensors params,
                                   bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
                                   bool batch_first, fac_tensor **out) {
    (void)c;
    const network k = {GRU, params, has_biases, bidirectional, batch_first, num_layers};
    FAC_TRY(check_network(&k, input, hx, NULL, dropout, train));
    return run(&k, input, hx, NULL, out);
}
