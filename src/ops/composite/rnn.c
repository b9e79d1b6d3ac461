/* Recurrent networks as PyTorch's operators: layers and directions of _rnn_layer, cells as layers of one step, and the packing
   of sequences, which is a choice of rows by number. */
#include "ops/rnn.h"
#include "core/read.h"
#include "core/tensor_make.h"
#include "ops/composite/brief.h"

typedef struct network {
    int64_t kind;
    fac_tensors params;
    fac_tensor *hx, *cx; /* [layers * directions, B, ...] */
    bool biases, train, bidirectional;
    int64_t layers;
    double dropout;
    fac_ints sizes; /* of steps, where sequences are packed */
} network;

/* ---- layers --------------------------------------------------------------------------------------------------------------- */

static bool projects(const network *r) { return r->cx && r->hx->sizes[2] != r->cx->sizes[2]; }
static int64_t per_direction(const network *r) { return 2 + 2 * r->biases + projects(r); }
static int64_t directions(const network *r) { return r->bidirectional ? 2 : 1; }

static fac_status check_state(const char *name, const fac_tensor *t, int64_t count) {
    FAC_CHECK(t->ndim == 3 && t->sizes[0] == count, FAC_ERR_SHAPE, "%s must have size [%lld, B, H], got %s", name,
              (long long)count, FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

static fac_status check_network(const network *r) {
    int64_t count, params;
    FAC_CHECK(r->layers > 0 && fac__mul(r->layers, directions(r), &count), FAC_ERR_ARGUMENT,
              "num_layers must be positive, got %lld", (long long)r->layers);
    FAC_TRY(check_state("hx", r->hx, count));
    if (r->cx) FAC_TRY(check_state("cx", r->cx, count));
    FAC_CHECK(fac__mul(count, per_direction(r), &params) && r->params.n == (size_t)params, FAC_ERR_ARGUMENT,
              "expected %lld parameters for each of %lld layers and directions, got %zu", (long long)per_direction(r),
              (long long)count, r->params.n);
    return FAC_OK;
}

/* One direction of a layer; its last h and c go to the lists. */
static fac_tensor *run_direction(const network *r, fac_tensor *x, int64_t index, bool reverse, fac_tensor **h,
                                 fac_tensor **c) {
    fac_tensor *const *p = r->params.v + index * per_direction(r);
    fac_tensor *b_ih = r->biases ? p[2] : NULL, *b_hh = r->biases ? p[3] : NULL;
    fac_tensor *w_hr = projects(r) ? p[per_direction(r) - 1] : NULL;
    fac_tensor *hx = fac__s_select_int(r->hx, 0, index), *cx = r->cx ? fac__s_select_int(r->cx, 0, index) : NULL;
    if (!hx || (r->cx && !cx)) return NULL;
    fac__rnn_layer_result out = fac__s__rnn_layer(x, hx, cx, p[0], p[1], b_ih, b_hh, w_hr, r->sizes, r->kind, reverse);
    h[index] = out.h_n;
    c[index] = out.c_n;
    return out.output;
}

static fac_tensor *run_layer(const network *r, fac_tensor *x, int64_t layer, fac_tensor **h, fac_tensor **c) {
    const int64_t first = layer * directions(r);
    fac_tensor *y = run_direction(r, x, first, false, h, c);
    if (r->bidirectional && y) {
        fac_tensor *const both[2] = {y, run_direction(r, x, first + 1, true, h, c)};
        y = both[1] ? fac__s_cat((fac_tensors){both, 2}, -1) : NULL;
    }
    const bool drops = r->train && r->dropout > 0 && layer + 1 < r->layers;
    return drops && y ? fac__s_dropout(y, r->dropout, true) : y;
}

/* out: the last layer's output, h_n, and c_n of an LSTM. */
static fac_status run_layers(const network *r, fac_tensor *x, bool batch_first, fac_tensor **h, fac_tensor **c,
                             fac_tensor **out) {
    const size_t n = (size_t)(r->layers * directions(r));
    FAC_SCOPE(scope);
    for (int64_t i = 0; i < r->layers && x; i++) x = run_layer(r, x, i, h, c);
    if (batch_first && x) x = fac__s_transpose_int(x, 0, 1);
    if (!x) return fac_error();
    FAC_TRY(fac__give(out, x));
    FAC_TRY(fac__give(out + 1, fac__s_stack((fac_tensors){h, n}, 0)));
    return r->cx ? fac__give(out + 2, fac__s_stack((fac_tensors){c, n}, 0)) : FAC_OK;
}

static fac_status run_network(const network *r, fac_tensor *x, bool batch_first, fac_tensor **out) {
    FAC_TRY(check_network(r));
    const size_t n = (size_t)(r->layers * directions(r));
    fac_tensor **last = fac__alloc_array(n, 2 * sizeof *last), *results[3] = {NULL, NULL, NULL};
    if (!last) return fac_error();
    fac_status st = run_layers(r, x, batch_first, last, last + n, results);
    fac__free(last);
    for (int i = 0; i < (r->cx ? 3 : 2); i++) {
        if (st == FAC_OK)
            out[i] = results[i];
        else
            fac__unref(results[i]);
    }
    return st;
}

static fac_status run_padded(network *r, fac_tensor *input, bool batch_first, fac_tensor **out) {
    FAC_CHECK(input->ndim == 3, FAC_ERR_SHAPE, "input must have 3 dimensions, got %d", input->ndim);
    FAC_SCOPE(scope);
    fac_tensor *x = batch_first ? fac__s_transpose_int(input, 0, 1) : input;
    return x ? run_network(r, x, batch_first, out) : fac_error();
}

/* An int64 vector on the CPU as an array, to be freed. */
static fac_status read_integers(const char *name, fac_tensor *t, int64_t **out) {
    FAC_CHECK(t->ndim == 1 && t->dtype == FAC_I64 && fac__is_cpu(t), FAC_ERR_DTYPE,
              "%s must be a vector of int64 on the CPU, got %s of size %s", name, fac_dtype_name((fac_dtype)t->dtype),
              FAC_SHAPE_TEXT(t));
    *out = fac__alloc_array((size_t)fac__max(1, t->numel), sizeof **out);
    if (!*out) return fac_error();
    fac_status st = t->numel ? fac__read(t, FAC_I64, *out, (size_t)t->numel) : FAC_OK;
    if (st != FAC_OK) fac__free(*out);
    return st;
}

static fac_status run_packed(network *r, fac_tensor *data, fac_tensor *batch_sizes, fac_tensor **out) {
    int64_t *sizes;
    FAC_TRY(read_integers("batch_sizes", batch_sizes, &sizes));
    r->sizes = (fac_ints){sizes, (size_t)batch_sizes->numel};
    fac_status st = run_network(r, data, false, out);
    fac__free(sizes);
    return st;
}

static network network_of(int64_t kind, fac_tensor *hx, fac_tensors params, bool has_biases, int64_t num_layers,
                          double dropout, bool train, bool bidirectional) {
    return (network){.kind = kind,
                     .params = params,
                     .hx = hx,
                     .biases = has_biases,
                     .train = train,
                     .bidirectional = bidirectional,
                     .layers = num_layers,
                     .dropout = dropout};
}

static fac_status take_states(network *r, fac_tensors hx) {
    FAC_CHECK(hx.n == 2, FAC_ERR_ARGUMENT, "lstm expects two hidden states, got %zu", hx.n);
    r->hx = hx.v[0];
    r->cx = hx.v[1];
    return check_state("hx", r->hx, r->hx->ndim ? r->hx->sizes[0] : 0) == FAC_OK
               ? check_state("cx", r->cx, r->cx->ndim ? r->cx->sizes[0] : 0)
               : fac_error();
}

fac_status lstm_input_composite(const fac_call_info *call, fac_tensor *input, fac_tensors hx, fac_tensors params,
                                bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
                                bool batch_first, fac_tensor **out) {
    (void)call;
    network r = network_of(FAC_RNN_KIND_LSTM, NULL, params, has_biases, num_layers, dropout, train, bidirectional);
    FAC_TRY(take_states(&r, hx));
    return run_padded(&r, input, batch_first, out);
}

fac_status lstm_data_composite(const fac_call_info *call, fac_tensor *data, fac_tensor *batch_sizes, fac_tensors hx,
                               fac_tensors params, bool has_biases, int64_t num_layers, double dropout, bool train,
                               bool bidirectional, fac_tensor **out) {
    (void)call;
    network r = network_of(FAC_RNN_KIND_LSTM, NULL, params, has_biases, num_layers, dropout, train, bidirectional);
    FAC_TRY(take_states(&r, hx));
    return run_packed(&r, data, batch_sizes, out);
}

/* The operators whose state is one tensor. */
#define WITH_ONE_STATE(name, KIND)                                                                                   \
    fac_status name##_input_composite(const fac_call_info *call, fac_tensor *input, fac_tensor *hx,                  \
                                      fac_tensors params, bool has_biases, int64_t num_layers, double dropout,       \
                                      bool train, bool bidirectional, bool batch_first, fac_tensor **out) {          \
        (void)call;                                                                                                  \
        network r = network_of(KIND, hx, params, has_biases, num_layers, dropout, train, bidirectional);             \
        return run_padded(&r, input, batch_first, out);                                                              \
    }                                                                                                                \
    fac_status name##_data_composite(const fac_call_info *call, fac_tensor *data, fac_tensor *batch_sizes,           \
                                     fac_tensor *hx, fac_tensors params, bool has_biases, int64_t num_layers,        \
                                     double dropout, bool train, bool bidirectional, fac_tensor **out) {             \
        (void)call;                                                                                                  \
        network r = network_of(KIND, hx, params, has_biases, num_layers, dropout, train, bidirectional);             \
        return run_packed(&r, data, batch_sizes, out);                                                               \
    }                                                                                                                \
    fac_status name##_cell_composite(const fac_call_info *call, fac_tensor *input, fac_tensor *hx, fac_tensor *w_ih, \
                                     fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor **out) {       \
        (void)call;                                                                                                  \
        return run_cell(KIND, input, hx, NULL, w_ih, w_hh, b_ih, b_hh, out);                                         \
    }

/* ---- cells ------------------------------------------------------------------------------------------------------------------ */

/* A layer of one step: out is h, and c of an LSTM. */
static fac_status run_cell(int64_t kind, fac_tensor *input, fac_tensor *hx, fac_tensor *cx, fac_tensor *w_ih,
                           fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor **out) {
    FAC_CHECK(input->ndim == 2, FAC_ERR_SHAPE, "input must have 2 dimensions, got %d", input->ndim);
    FAC_SCOPE(scope);
    fac_tensor *x = fac__s_unsqueeze(input, 0);
    if (!x) return fac_error();
    fac__rnn_layer_result r =
        fac__s__rnn_layer(x, hx, cx, w_ih, w_hh, b_ih, b_hh, NULL, (fac_ints){NULL, 0}, kind, false);
    FAC_TRY(fac__give(out, r.h_n));
    if (!cx) return FAC_OK;
    fac_status st = fac__give(out + 1, r.c_n);
    if (st != FAC_OK) fac__unref(out[0]);
    return st;
}

fac_status lstm_cell_composite(const fac_call_info *call, fac_tensor *input, fac_tensors hx, fac_tensor *w_ih,
                               fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor **out) {
    (void)call;
    FAC_CHECK(hx.n == 2, FAC_ERR_ARGUMENT, "lstm_cell expects two hidden states, got %zu", hx.n);
    return run_cell(FAC_RNN_KIND_LSTM, input, hx.v[0], hx.v[1], w_ih, w_hh, b_ih, b_hh, out);
}

WITH_ONE_STATE(gru, FAC_RNN_KIND_GRU)
WITH_ONE_STATE(rnn_tanh, FAC_RNN_KIND_TANH)
WITH_ONE_STATE(rnn_relu, FAC_RNN_KIND_RELU)

/* ---- cells whose products are given -------------------------------------------------------------------------------------------- */

/* Gives n results; all or none. */
static fac_status give_all(fac_tensor **out, fac_tensor *const *results, int n) {
    for (int i = 0; i < n; i++) out[i] = NULL;
    for (int i = 0; i < n; i++) {
        if (!results[i] && !fac_error()) continue;
        fac_status st = fac__give(&out[i], results[i]);
        if (st == FAC_OK) continue;
        for (int k = 0; k < i; k++) fac__unref(out[k]);
        return st;
    }
    return FAC_OK;
}

static fac_status check_gates(const fac_tensor *input_gates, const fac_tensor *hidden_gates, const fac_tensor *state,
                              int64_t parts, const fac_tensor *input_bias, const fac_tensor *hidden_bias) {
    bool fits = state->ndim == 2 && input_gates->ndim == 2 && fac__same_sizes(input_gates, hidden_gates) &&
                input_gates->sizes[0] == state->sizes[0] && input_gates->sizes[1] % parts == 0 &&
                input_gates->sizes[1] / parts == state->sizes[1];
    FAC_CHECK(fits, FAC_ERR_SHAPE, "gates [B, %lld*H] and state [B, H] do not fit: %s, %s and %s", (long long)parts,
              FAC_SHAPE_TEXT(input_gates), FAC_SHAPE_TEXT(hidden_gates), FAC_SHAPE_TEXT(state));
    FAC_CHECK(!input_bias == !hidden_bias, FAC_ERR_ARGUMENT, "input_bias and hidden_bias are given together");
    return FAC_OK;
}

static fac_tensor *gate(fac_tensor *t, int64_t i, int64_t units) { return fac__s_narrow(t, 1, i * units, units); }
static fac_tensor *side_by_side(fac_tensor *const *parts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!parts[i]) return NULL;
    return fac__s_cat((fac_tensors){parts, n}, 1);
}
static fac_tensor *with_bias(fac_tensor *t, fac_tensor *bias) { return bias ? add(t, bias) : t; }
static fac_tensor *one_minus(fac_tensor *t) { return fac__s_rsub_Scalar(t, fac_scalar_i_(1), fac_scalar_i_(1)); }
static fac_tensor *slope_of_sigmoid(fac_tensor *y) { return mul(y, one_minus(y)); }
static fac_tensor *slope_of_tanh(fac_tensor *y) { return one_minus(mul(y, y)); }

fac_status thnn_fused_lstm_cell_composite(const fac_call_info *call, fac_tensor *input_gates, fac_tensor *hidden_gates,
                                          fac_tensor *cx, fac_tensor *input_bias, fac_tensor *hidden_bias,
                                          fac_tensor **out) {
    (void)call;
    FAC_TRY(check_gates(input_gates, hidden_gates, cx, 4, input_bias, hidden_bias));
    const int64_t n = cx->sizes[1];
    FAC_SCOPE(scope);
    fac_tensor *sums = add(with_bias(input_gates, input_bias), with_bias(hidden_gates, hidden_bias));
    if (!sums) return fac_error();
    fac_tensor *const gates[4] = {fac__s_sigmoid(gate(sums, 0, n)), fac__s_sigmoid(gate(sums, 1, n)),
                                  fac__s_tanh(gate(sums, 2, n)), fac__s_sigmoid(gate(sums, 3, n))};
    fac_tensor *cy = add(mul(gates[1], cx), mul(gates[0], gates[2]));
    fac_tensor *const results[3] = {mul(gates[3], fac__s_tanh(cy)), cy, side_by_side(gates, 4)};
    return give_all(out, results, 3);
}

/* The gradients of the sums of the gates and of cx. */
static fac_status lstm_cell_grads(fac_tensor *grad_hy, fac_tensor *grad_cy, fac_tensor *cx, fac_tensor *cy,
                                  fac_tensor *workspace, fac_tensor *grads[2]) {
    FAC_CHECK(grad_hy || grad_cy, FAC_ERR_ARGUMENT, "at least one of grad_hy and grad_cy must be given");
    FAC_TRY(check_gates(workspace, workspace, cx, 4, NULL, NULL));
    FAC_CHECK(fac__same_sizes(cx, cy) && (!grad_hy || fac__same_sizes(grad_hy, cx)) &&
                  (!grad_cy || fac__same_sizes(grad_cy, cx)),
              FAC_ERR_SHAPE, "gradients, cx and cy must have one size, cx has %s", FAC_SHAPE_TEXT(cx));
    const int64_t n = cx->sizes[1];
    fac_tensor *in = gate(workspace, 0, n), *keep = gate(workspace, 1, n), *fresh = gate(workspace, 2, n);
    fac_tensor *show = gate(workspace, 3, n), *t = fac__s_tanh(cy), *of_c = grad_cy;
    if (grad_hy) {
        of_c = mul(mul(grad_hy, show), slope_of_tanh(t));
        if (grad_cy) of_c = add(of_c, grad_cy);
    }
    fac_tensor *of_show = grad_hy ? mul(mul(grad_hy, t), slope_of_sigmoid(show)) : scaled(show, 0);
    fac_tensor *const parts[4] = {mul(mul(of_c, fresh), slope_of_sigmoid(in)),
                                  mul(mul(of_c, cx), slope_of_sigmoid(keep)), mul(mul(of_c, in), slope_of_tanh(fresh)),
                                  of_show};
    grads[0] = side_by_side(parts, 4);
    grads[1] = mul(of_c, keep);
    return fac_error();
}

fac_status thnn_fused_lstm_cell_backward_impl_composite(const fac_call_info *call, fac_tensor *grad_hy,
                                                        fac_tensor *grad_cy, fac_tensor *cx, fac_tensor *cy,
                                                        fac_tensor *workspace, bool has_bias, fac_tensor **out) {
    (void)call;
    fac_tensor *g[2];
    FAC_SCOPE(scope);
    FAC_TRY(lstm_cell_grads(grad_hy, grad_cy, cx, cy, workspace, g));
    fac_tensor *const results[3] = {g[0], g[1], has_bias ? sum_along(g[0], 0, false) : NULL};
    return give_all(out, results, 3);
}

fac_status thnn_fused_lstm_cell_backward_composite(const fac_call_info *call, fac_tensor *grad_hy, fac_tensor *grad_cy,
                                                   fac_tensor *cx, fac_tensor *cy, fac_tensor *workspace, bool has_bias,
                                                   fac_tensor **out) {
    (void)call;
    fac_tensor *g[2];
    FAC_SCOPE(scope);
    FAC_TRY(lstm_cell_grads(grad_hy, grad_cy, cx, cy, workspace, g));
    fac_tensor *bias = has_bias ? sum_along(g[0], 0, false) : NULL;
    fac_tensor *const results[5] = {g[0], g[0], g[1], bias, bias};
    return give_all(out, results, 5);
}

fac_status thnn_fused_gru_cell_composite(const fac_call_info *call, fac_tensor *input_gates, fac_tensor *hidden_gates,
                                         fac_tensor *hx, fac_tensor *input_bias, fac_tensor *hidden_bias,
                                         fac_tensor **out) {
    (void)call;
    FAC_TRY(check_gates(input_gates, hidden_gates, hx, 3, input_bias, hidden_bias));
    const int64_t n = hx->sizes[1];
    FAC_SCOPE(scope);
    fac_tensor *x = with_bias(input_gates, input_bias), *h = with_bias(hidden_gates, hidden_bias);
    if (!x || !h) return fac_error();
    fac_tensor *reset = fac__s_sigmoid(add(gate(x, 0, n), gate(h, 0, n)));
    fac_tensor *keep = fac__s_sigmoid(add(gate(x, 1, n), gate(h, 1, n)));
    fac_tensor *of_h = gate(h, 2, n), *fresh = fac__s_tanh(add(gate(x, 2, n), mul(reset, of_h)));
    fac_tensor *const kept[5] = {reset, keep, fresh, hx, of_h};
    fac_tensor *const results[2] = {add(fresh, mul(keep, sub(hx, fresh))), side_by_side(kept, 5)};
    return give_all(out, results, 2);
}

fac_status thnn_fused_gru_cell_backward_composite(const fac_call_info *call, fac_tensor *grad_hy, fac_tensor *workspace,
                                                  bool has_bias, fac_tensor **out) {
    (void)call;
    FAC_TRY(check_gates(workspace, workspace, grad_hy, 5, NULL, NULL));
    const int64_t n = grad_hy->sizes[1];
    FAC_SCOPE(scope);
    fac_tensor *reset = gate(workspace, 0, n), *keep = gate(workspace, 1, n), *fresh = gate(workspace, 2, n);
    fac_tensor *hx = gate(workspace, 3, n), *of_h = gate(workspace, 4, n);
    fac_tensor *of_n = mul(mul(grad_hy, one_minus(keep)), slope_of_tanh(fresh));
    fac_tensor *of_r = mul(mul(of_n, of_h), slope_of_sigmoid(reset));
    fac_tensor *of_z = mul(mul(grad_hy, sub(hx, fresh)), slope_of_sigmoid(keep));
    fac_tensor *const of_input[3] = {of_r, of_z, of_n}, *const of_hidden[3] = {of_r, of_z, mul(of_n, reset)};
    fac_tensor *x = side_by_side(of_input, 3), *h = side_by_side(of_hidden, 3);
    fac_tensor *const results[5] = {x, h, mul(grad_hy, keep), has_bias ? sum_along(x, 0, false) : NULL,
                                    has_bias ? sum_along(h, 0, false) : NULL};
    return give_all(out, results, 5);
}

/* ---- packing ---------------------------------------------------------------------------------------------------------------------- */

/* Sequences on a grid of steps by sequences (or the other way round), and the rows of those that are under way. */
typedef struct grid {
    int64_t steps, batch, rows;
    int64_t *sizes; /* owned: of each step */
} grid;

/* Positive and never increasing, which `name` must be. */
static fac_status check_decreasing(const char *name, const int64_t *v, int64_t n) {
    FAC_CHECK(n > 0, FAC_ERR_ARGUMENT, "%s must not be empty", name);
    for (int64_t i = 0; i < n; i++)
        FAC_CHECK(v[i] > 0 && (i == 0 || v[i] <= v[i - 1]), FAC_ERR_ARGUMENT,
                  "%s must be positive and sorted in decreasing order, but entry %lld is %lld", name, (long long)i,
                  (long long)v[i]);
    return FAC_OK;
}

/* Reads the sizes of steps; free them in any case after success. */
static fac_status grid_of_sizes(fac_tensor *batch_sizes, grid *out) {
    FAC_TRY(read_integers("batch_sizes", batch_sizes, &out->sizes));
    out->steps = batch_sizes->numel;
    out->batch = out->sizes[0];
    out->rows = 0;
    fac_status st = check_decreasing("batch_sizes", out->sizes, out->steps);
    for (int64_t t = 0; st == FAC_OK && t < out->steps; t++)
        if (!fac__add(out->rows, out->sizes[t], &out->rows))
            st = FAC_FAIL(FAC_ERR_OVERFLOW, "batch_sizes add up to more than 64 bits hold");
    if (st != FAC_OK) fac__free(out->sizes);
    return st;
}

/* The number of each row on the grid, in the order of packing. */
static fac_tensor *row_numbers(const grid *g, bool batch_first, int64_t total_steps) {
    fac_tensor *t;
    if (fac__empty(&g->rows, 1, FAC_I64, (fac_device){FAC_CPU, 0}, &t) != FAC_OK) return NULL;
    int64_t *v = fac__data(t);
    for (int64_t s = 0; s < g->steps; s++)
        for (int64_t b = 0; b < g->sizes[s]; b++) *v++ = batch_first ? b * total_steps + s : s * g->batch + b;
    return fac__adopt(fac__thread(), t);
}

/* The numbers where data is. */
static fac_tensor *numbers_beside(fac_tensor *data, const grid *g, bool batch_first, int64_t total_steps) {
    fac_tensor *numbers = row_numbers(g, batch_first, total_steps);
    if (!numbers || fac__is_cpu(data)) return numbers;
    return fac__s_to_device(numbers, data->device, FAC_I64, false, false, FAC_FORMAT_DEFAULT);
}

/* [a, b, *] as [a * b, *], and back. */
static fac_tensor *flat_grid(fac_tensor *t) { return fac__s_flatten_using_ints(t, 0, 1); }

/* How many sequences are under way at each step. */
static fac_status grid_of_lengths(fac_tensor *input, fac_tensor *lengths, bool batch_first, grid *out) {
    int64_t *v, at = 0;
    const int64_t most = input->sizes[batch_first ? 1 : 0], batch = input->sizes[batch_first ? 0 : 1];
    FAC_TRY(read_integers("lengths", lengths, &v));
    fac_status st = check_decreasing("lengths", v, lengths->numel);
    if (st == FAC_OK && lengths->numel != batch)
        st =
            FAC_FAIL(FAC_ERR_SHAPE, "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
                     (long long)lengths->numel, (long long)batch);
    if (st == FAC_OK && v[0] > most)
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "a length of %lld exceeds the %lld steps of the input", (long long)v[0],
                      (long long)most);
    if (st == FAC_OK) {
        *out = (grid){.steps = v[0], .batch = batch, .sizes = fac__alloc_array((size_t)v[0], sizeof(int64_t))};
        st = out->sizes ? FAC_OK : fac_error();
    }
    if (st == FAC_OK)
        for (int64_t b = batch - 1; b >= 0; b--)
            for (; at < v[b]; at++) out->sizes[at] = b + 1;
    for (int64_t b = 0; st == FAC_OK && b < batch; b++) out->rows += v[b];
    fac__free(v);
    return st;
}

static fac_tensor *integers(const int64_t *v, int64_t n) { return fac__tensor_from(v, FAC_I64, FAC_INTS(n)); }

fac_status pack_padded_sequence_composite(const fac_call_info *call, fac_tensor *input, fac_tensor *lengths,
                                          bool batch_first, fac_tensor **out) {
    (void)call;
    grid g;
    FAC_CHECK(input->ndim >= 2 && input->numel > 0, FAC_ERR_SHAPE, "Cannot pack empty tensors: input has size %s",
              FAC_SHAPE_TEXT(input));
    FAC_TRY(grid_of_lengths(input, lengths, batch_first, &g));
    FAC_SCOPE(scope);
    fac_tensor *flat = flat_grid(input), *numbers = numbers_beside(input, &g, batch_first, input->sizes[1]);
    fac_tensor *const results[2] = {flat && numbers ? fac__s_index_select(flat, 0, numbers) : NULL,
                                    integers(g.sizes, g.steps)};
    fac_status st = give_all(out, results, 2);
    fac__free(g.sizes);
    return st;
}

/* data [rows, *] at its places on a grid filled with `padding`: [T, B, *], or [B, T, *]. */
static fac_tensor *spread(fac_tensor *data, const grid *g, bool batch_first, int64_t steps, fac_scalar padding) {
    int64_t sizes[FAC_MAX_DIMS], flat[FAC_MAX_DIMS], points;
    const size_t n = (size_t)data->ndim;
    if (!fac__mul(steps, g->batch, &points)) {
        FAC_FAIL(FAC_ERR_OVERFLOW, "%lld steps of %lld sequences do not fit 64 bits", (long long)steps,
                 (long long)g->batch);
        return NULL;
    }
    memcpy(sizes + 2, data->sizes + 1, (n - 1) * sizeof *sizes);
    memcpy(flat + 1, data->sizes + 1, (n - 1) * sizeof *sizes);
    sizes[0] = batch_first ? g->batch : steps;
    sizes[1] = batch_first ? steps : g->batch;
    flat[0] = points;
    fac_tensor *numbers = numbers_beside(data, g, batch_first, steps);
    fac_tensor *empty = fac__s_new_full(data, (fac_ints){flat, n}, padding, FAC_DTYPE_DEFAULT, FAC_STRIDED,
                                        (fac_device){0}, (fac_opt_num){0});
    if (!numbers || !empty) return NULL;
    return fac__s_reshape(fac__s_index_copy(empty, 0, numbers, data), (fac_ints){sizes, n + 1});
}

static fac_status check_data(const fac_tensor *data, const grid *g) {
    FAC_CHECK(data->ndim >= 1 && data->ndim < FAC_MAX_DIMS && data->sizes[0] == g->rows, FAC_ERR_SHAPE,
              "batch_sizes add up to %lld rows, but data has size %s", (long long)g->rows, FAC_SHAPE_TEXT(data));
    return FAC_OK;
}

fac_status pack_padded_sequence_backward_composite(const fac_call_info *call, fac_tensor *grad, fac_ints input_size,
                                                   fac_tensor *batch_sizes, bool batch_first, fac_tensor **out) {
    (void)call;
    grid g;
    FAC_TRY(grid_of_sizes(batch_sizes, &g));
    const size_t steps_at = batch_first ? 1 : 0;
    const int64_t steps = input_size.n >= 2 ? input_size.v[steps_at] : 0;
    bool fits = input_size.n == (size_t)grad->ndim + 1 && steps >= g.steps && input_size.v[1 - steps_at] == g.batch;
    for (int d = 1; fits && d < grad->ndim; d++) fits = grad->sizes[d] == input_size.v[d + 1];
    fac_status st = check_data(grad, &g);
    if (st == FAC_OK && !fits)
        st = FAC_FAIL(FAC_ERR_SHAPE, "grad %s does not fit input_size %s", FAC_SHAPE_TEXT(grad),
                      fac__shape_text(input_size.v, (int)input_size.n, (char[256]){0}, 256));
    FAC_SCOPE(scope);
    if (st == FAC_OK) st = fac__give(out, spread(grad, &g, batch_first, steps, fac_scalar_i_(0)));
    fac__free(g.sizes);
    return st;
}

/* The length of each sequence: steps that have more rows than its number. */
static fac_tensor *lengths_of(const grid *g) {
    fac_tensor *t;
    if (fac__empty(&g->batch, 1, FAC_I64, (fac_device){FAC_CPU, 0}, &t) != FAC_OK) return NULL;
    int64_t *v = fac__data(t);
    for (int64_t s = 0; s < g->steps; s++)
        for (int64_t b = s + 1 < g->steps ? g->sizes[s + 1] : 0; b < g->sizes[s]; b++) v[b] = s + 1;
    return fac__adopt(fac__thread(), t);
}

fac_status pad_packed_sequence_composite(const fac_call_info *call, fac_tensor *data, fac_tensor *batch_sizes,
                                         bool batch_first, fac_scalar padding_value, int64_t total_length,
                                         fac_tensor **out) {
    (void)call;
    grid g;
    FAC_TRY(grid_of_sizes(batch_sizes, &g));
    fac_status st = check_data(data, &g);
    if (st == FAC_OK && total_length > 0 && total_length < g.steps)
        st = FAC_FAIL(FAC_ERR_ARGUMENT,
                      "Expected total_length to be at least the length of the longest sequence in input, but got "
                      "total_length=%lld and max sequence length being %lld",
                      (long long)total_length, (long long)g.steps);
    FAC_SCOPE(scope);
    if (st == FAC_OK) {
        fac_tensor *const results[2] = {
            spread(data, &g, batch_first, total_length > 0 ? total_length : g.steps, padding_value), lengths_of(&g)};
        st = give_all(out, results, 2);
    }
    fac__free(g.sizes);
    return st;
}
