/* RNN, LSTM and GRU, and one step of each. */
#include "modules_gen.h"
#include "nn/kind.h"
#include "nn/layers.h"
#include <facula/ops.h>
#include <math.h>

/* ---- parameters ---- */

static fac_status check_rnn(fac_module *m, int64_t in, int64_t hidden, int64_t proj, int64_t layers, double dropout) {
    FAC_CHECK(in > 0, FAC_ERR_ARGUMENT, "input_size must be greater than zero");
    FAC_CHECK(hidden > 0, FAC_ERR_ARGUMENT, "hidden_size must be greater than zero");
    FAC_CHECK(layers > 0, FAC_ERR_ARGUMENT, "num_layers must be greater than zero");
    FAC_CHECK(dropout >= 0 && dropout <= 1, FAC_ERR_ARGUMENT, "%s: dropout should be in [0, 1], but is %g",
              m->cls->name, dropout);
    FAC_CHECK(proj >= 0 && proj < hidden, FAC_ERR_ARGUMENT,
              "proj_size should be positive, or zero for none, and smaller than hidden_size (%lld), but is %lld",
              (long long)hidden, (long long)proj);
    return FAC_OK;
}

/* What the parameters of one layer in one direction have in common. */
typedef struct layer {
    fac_module *m;
    const char *suffix; /* "_l0", "_l1_reverse" */
    double bound;
    fac_dtype dtype;
    fac_device device;
} layer;

static fac_status add(const layer *l, const char *name, fac_ints sizes, bool wanted) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", name, l->suffix);
    return wanted ? fac__add_uniform(l->m, full, sizes, l->bound, true, l->dtype, l->device) : FAC_OK;
}

static fac_status add_layer(const layer *l, int64_t gates, int64_t in, int64_t hidden, int64_t proj, bool bias) {
    int64_t rows;
    FAC_CHECK(fac__mul(gates, hidden, &rows), FAC_ERR_OVERFLOW, "hidden_size %lld is too large", (long long)hidden);
    FAC_TRY(add(l, "weight_ih", FAC_INTS(rows, in), true));
    FAC_TRY(add(l, "weight_hh", FAC_INTS(rows, proj ? proj : hidden), true));
    FAC_TRY(add(l, "bias_ih", FAC_INTS(rows), bias));
    FAC_TRY(add(l, "bias_hh", FAC_INTS(rows), bias));
    return add(l, "weight_hr", FAC_INTS(proj, hidden), proj > 0);
}

fac_status fac__build_rnn(fac_module *m, int64_t gates, int64_t in, int64_t hidden, int64_t proj, int64_t layers,
                          bool bias, double dropout, bool bidirectional, fac_dtype dtype, fac_device device) {
    FAC_TRY(check_rnn(m, in, hidden, proj, layers, dropout));
    int64_t above;
    FAC_CHECK(fac__mul(proj ? proj : hidden, 1 + bidirectional, &above), FAC_ERR_OVERFLOW,
              "hidden_size %lld is too large", (long long)hidden);
    for (int64_t i = 0; i < layers; i++) {
        for (int direction = 0; direction < 1 + bidirectional; direction++) {
            char suffix[40];
            snprintf(suffix, sizeof suffix, "_l%lld%s", (long long)i, direction ? "_reverse" : "");
            const layer l = {m, suffix, 1 / sqrt((double)hidden), dtype, device};
            FAC_TRY(add_layer(&l, gates, i ? above : in, hidden, proj, bias));
        }
    }
    return FAC_OK;
}

fac_status fac__build_rnn_cell(fac_module *m, int64_t gates, int64_t in, int64_t hidden, bool bias, fac_dtype dtype,
                               fac_device device) {
    FAC_TRY(fac__check_size(m, "input_size", in));
    FAC_TRY(fac__check_size(m, "hidden_size", hidden));
    int64_t rows;
    FAC_CHECK(fac__mul(gates, hidden, &rows), FAC_ERR_OVERFLOW, "hidden_size %lld is too large", (long long)hidden);
    const double bound = hidden > 0 ? 1 / sqrt((double)hidden) : 0;
    FAC_TRY(fac__add_uniform(m, "weight_ih", FAC_INTS(rows, in), bound, true, dtype, device));
    FAC_TRY(fac__add_uniform(m, "weight_hh", FAC_INTS(rows, hidden), bound, true, dtype, device));
    FAC_TRY(fac__add_uniform(m, "bias_ih", FAC_INTS(rows), bound, bias, dtype, device));
    return fac__add_uniform(m, "bias_hh", FAC_INTS(rows), bound, bias, dtype, device);
}

/* ---- whole sequences ---- */

/* A call: the sequences and states as the operators take them. */
typedef struct call {
    fac_module *m;
    fac_rnn_module kind;
    fac_tensor *x, *h, *c, *batch_sizes;
    int64_t layers, hidden, projected; /* projected: the size of h */
    bool bias, batch_first, bidirectional, batched;
    double dropout;
} call;

static int batch_dim(const call *r) { return r->batch_first ? 0 : 1; }

static fac_status check_input(call *r) {
    const char *name = r->m->cls->name;
    const int n = fac_tensor_ndim(r->x);
    const fac_tensor *w = r->m->slots.v[0].tensor;
    if (r->batch_sizes)
        FAC_CHECK(n == 2, FAC_ERR_SHAPE, "%s: packed sequences should have 2 dimensions, not %d", name, n);
    FAC_CHECK(n == 2 || n == 3, FAC_ERR_SHAPE, "%s: Expected input to be 2D or 3D, got %dD instead", name, n);
    FAC_CHECK(!w || fac_tensor_size(r->x, -1) == fac_tensor_size(w, 1), FAC_ERR_SHAPE,
              "input.size(-1) must be equal to input_size. Expected %lld, got %lld", (long long)fac_tensor_size(w, 1),
              (long long)fac_tensor_size(r->x, -1));
    r->batched = n == 3 || r->batch_sizes;
    if (!r->batched && !(r->x = fac_unsqueeze(r->x, batch_dim(r)))) return fac_error();
    return FAC_OK;
}

/* How many sequences there are; -1 on failure. */
static int64_t batch_of(const call *r) {
    if (!r->batch_sizes) return fac_tensor_size(r->x, batch_dim(r));
    if (fac_tensor_ndim(r->batch_sizes) == 1 && fac_tensor_size(r->batch_sizes, 0) > 0) {
        const int64_t n = fac_item_int(fac_select(r->batch_sizes, 0, 0));
        return fac_error() ? -1 : n;
    }
    FAC_FAIL(FAC_ERR_SHAPE, "%s: batch_sizes should be a list of at least one number", r->m->cls->name);
    return -1;
}

/* A state as the operators take it, zeros where it is not given. */
static fac_tensor *state(const call *r, fac_tensor *given, const char *name, int64_t size, int64_t batch) {
    const int64_t all = r->layers * (1 + r->bidirectional);
    if (!given) return fac_new_zeros(r->x, FAC_INTS(all, batch, size));
    const int n = fac_tensor_ndim(given);
    if (n != 2 + r->batched) {
        FAC_FAIL(FAC_ERR_SHAPE, "%s: for %s input %s should be %d-D, but is %d-D", r->m->cls->name,
                 r->batched ? "batched" : "unbatched", name, 2 + r->batched, n);
        return NULL;
    }
    if (!r->batched && !(given = fac_unsqueeze(given, 1))) return NULL;
    if (fac_tensor_size(given, 0) == all && fac_tensor_size(given, 1) == batch && fac_tensor_size(given, 2) == size)
        return given;
    FAC_FAIL(FAC_ERR_SHAPE, "%s: Expected %s of size (%lld, %lld, %lld), got %s", r->m->cls->name, name, (long long)all,
             (long long)batch, (long long)size, FAC_SHAPE_TEXT(fac__header(given)));
    return NULL;
}

static fac_status prepare(call *r) {
    FAC_TRY(check_input(r));
    const int64_t batch = batch_of(r);
    if (batch < 0) return fac_error();
    FAC_CHECK(r->kind != FAC_RNN_MODULE_LSTM || !r->h == !r->c, FAC_ERR_ARGUMENT,
              "LSTM takes h_0 and c_0 together, or neither");
    if (!(r->h = state(r, r->h, "h_0", r->projected, batch))) return fac_error();
    if (r->kind == FAC_RNN_MODULE_LSTM && !(r->c = state(r, r->c, "c_0", r->hidden, batch))) return fac_error();
    return FAC_OK;
}

#define TWO(NAME)                                                                                                  \
    do {                                                                                                           \
        if (r->batch_sizes) {                                                                                      \
            fac_##NAME##_data_result y = fac_##NAME##_data(r->x, r->batch_sizes, r->h, params, r->bias, r->layers, \
                                                           r->dropout, train, r->bidirectional);                   \
            out[0] = y.result0, out[1] = y.result1;                                                                \
        } else {                                                                                                   \
            fac_##NAME##_result y = fac_##NAME(r->x, r->h, params, r->bias, r->layers, r->dropout, train,          \
                                               r->bidirectional, r->batch_first);                                  \
            out[0] = y.result0, out[1] = y.result1;                                                                \
        }                                                                                                          \
    } while (0)

static void run_lstm(const call *r, fac_tensors params, bool train, fac_tensor **out) {
    const fac_tensors states = FAC_TENSORS(r->h, r->c);
    if (r->batch_sizes) {
        fac_lstm_data_result y = fac_lstm_data(r->x, r->batch_sizes, states, params, r->bias, r->layers, r->dropout,
                                               train, r->bidirectional);
        out[0] = y.result0, out[1] = y.result1, out[2] = y.result2;
    } else {
        fac_lstm_result y =
            fac_lstm(r->x, states, params, r->bias, r->layers, r->dropout, train, r->bidirectional, r->batch_first);
        out[0] = y.result0, out[1] = y.result1, out[2] = y.result2;
    }
}

static fac_status run(const call *r, fac_tensors params, fac_tensor **out) {
    const bool train = r->m->training;
    switch (r->kind) {
    case FAC_RNN_MODULE_TANH: TWO(rnn_tanh); break;
    case FAC_RNN_MODULE_RELU: TWO(rnn_relu); break;
    case FAC_RNN_MODULE_GRU: TWO(gru); break;
    case FAC_RNN_MODULE_LSTM: run_lstm(r, params, train, out); break;
    }
    if (r->batched || fac_error()) return fac_error();
    out[0] = fac_squeeze_dim(out[0], batch_dim(r));
    out[1] = fac_squeeze_dim(out[1], 1);
    if (out[2]) out[2] = fac_squeeze_dim(out[2], 1);
    return fac_error();
}

/* The operators take the parameters in the order in which they were added. */
static fac_status run_with_parameters(const call *r, fac_tensor **out) {
    const bool projects = r->projected != r->hidden;
    const size_t n = (size_t)r->layers * (size_t)(1 + r->bidirectional) * (size_t)(2 + 2 * r->bias + projects);
    fac_tensor **params = fac__alloc(n * sizeof(fac_tensor *));
    if (!params) return fac_error();
    for (size_t i = 0; i < n; i++) params[i] = r->m->slots.v[i].tensor;
    const fac_status st = run(r, (fac_tensors){params, n}, out);
    fac__free(params);
    return st;
}

fac_status fac__rnn_forward_all(fac_module *m, fac_rnn_module kind, fac_tensor *x, fac_tensor *h, fac_tensor *c,
                                fac_tensor *batch_sizes, int64_t layers, bool bias, bool batch_first, double dropout,
                                bool bidirectional, int64_t hidden, int64_t proj, fac_tensor **out) {
    call r = {m,           kind,          x,    h,      c, batch_sizes, layers, hidden, proj ? proj : hidden, bias,
              batch_first, bidirectional, true, dropout};
    FAC_TRY(prepare(&r));
    return run_with_parameters(&r, out);
}

/* ---- one step ---- */

static fac_tensor *slot(fac_module *m, const char *name) { return fac__module_slot(m, name)->tensor; }

/* An input or state of one dimension or two as one of two; zeros for a state that is not given. */
static fac_tensor *rows_of(fac_module *m, fac_tensor *t, const char *name, bool batched) {
    const int n = fac_tensor_ndim(t);
    if (n == 1 + batched) return batched ? t : fac_unsqueeze(t, 0);
    FAC_FAIL(FAC_ERR_SHAPE, "%s: Expected %s to be %s, got %dD instead", m->cls->name, name,
             batched ? "2D, as the input" : "1D, as the input", n);
    return NULL;
}

static fac_tensor *cell_state(fac_module *m, fac_tensor *given, const char *name, fac_tensor *x, bool batched,
                              int64_t hidden) {
    return given ? rows_of(m, given, name, batched) : fac_new_zeros(x, FAC_INTS(fac_tensor_size(x, 0), hidden));
}

static bool cell_input(fac_module *m, fac_tensor **x, bool *batched) {
    const int n = fac_tensor_ndim(*x);
    if (n != 1 && n != 2) {
        FAC_FAIL(FAC_ERR_SHAPE, "%s: Expected input to be 1D or 2D, got %dD instead", m->cls->name, n);
        return false;
    }
    *batched = n == 2;
    if (n == 1) *x = fac_unsqueeze(*x, 0);
    return *x != NULL;
}

fac_tensor *fac__rnn_cell_forward(fac_module *m, fac_rnn_module kind, fac_tensor *x, fac_tensor *h, int64_t hidden) {
    bool batched;
    if (!cell_input(m, &x, &batched) || !(h = cell_state(m, h, "h", x, batched, hidden))) return NULL;
    fac_tensor *w_ih = slot(m, "weight_ih"), *w_hh = slot(m, "weight_hh"), *y;
    fac_tensor *b_ih = slot(m, "bias_ih"), *b_hh = slot(m, "bias_hh");
    switch (kind) {
    case FAC_RNN_MODULE_GRU: y = fac_gru_cell(x, h, w_ih, w_hh, b_ih, b_hh); break;
    case FAC_RNN_MODULE_RELU: y = fac_rnn_relu_cell(x, h, w_ih, w_hh, b_ih, b_hh); break;
    default: y = fac_rnn_tanh_cell(x, h, w_ih, w_hh, b_ih, b_hh);
    }
    return y && !batched ? fac_squeeze_dim(y, 0) : y;
}

fac_status fac__lstm_cell_forward_all(fac_module *m, fac_tensor *x, fac_tensor *h, fac_tensor *c, int64_t hidden,
                                      fac_tensor **out) {
    bool batched;
    FAC_CHECK(!h == !c, FAC_ERR_ARGUMENT, "LSTMCell takes h and c together, or neither");
    if (!cell_input(m, &x, &batched)) return fac_error();
    if (!(h = cell_state(m, h, "h", x, batched, hidden))) return fac_error();
    if (!(c = cell_state(m, c, "c", x, batched, hidden))) return fac_error();
    fac_lstm_cell_result y = fac_lstm_cell(x, FAC_TENSORS(h, c), slot(m, "weight_ih"), slot(m, "weight_hh"),
                                           slot(m, "bias_ih"), slot(m, "bias_hh"));
    FAC_TRY(fac_error());
    out[0] = batched ? y.result0 : fac_squeeze_dim(y.result0, 0);
    out[1] = batched ? y.result1 : fac_squeeze_dim(y.result1, 0);
    return fac_error();
}
