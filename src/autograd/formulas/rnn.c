/* Gradients of recurrent layers. The fused operator gives the first ones. Where they are to be differentiated again, the layer is
   computed once more, by operators whose gradients are differentiable to any order, and differentiated there. */
#include "ops/rnn.h"
#include "autograd/formulas/brief.h"
#include "autograd/leaf.h"

typedef struct layer {
    fac_tensor *x, *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;
    fac_rnn_shape shape;
    fac_tensor *h, *c;   /* of the sequences under way */
    fac_tensor *h0, *c0; /* of all */
    bool reverse;
    fac_tensor **y; /* of each step */
    fac_tensor **h_ended,
        **c_ended; /* pieces of sequences that have ended, the last ones first; room for one per step */
    size_t ended;
} layer;

static fac_tensor *part(fac_tensor *t, int64_t i, int64_t units) { return fac__s_narrow(t, 1, i * units, units); }

static fac_tensor *tanh_cell(layer *l, fac_tensor *of_x, fac_tensor *of_h) {
    (void)l;
    return fac__s_tanh(add(of_x, of_h));
}

static fac_tensor *relu_cell(layer *l, fac_tensor *of_x, fac_tensor *of_h) {
    (void)l;
    return fac__s_relu(add(of_x, of_h));
}

static fac_tensor *lstm_cell(layer *l, fac_tensor *of_x, fac_tensor *of_h) {
    const int64_t n = l->shape.units;
    fac_tensor *sums = add(of_x, of_h);
    fac_tensor *in = fac__s_sigmoid(part(sums, 0, n)), *keep = fac__s_sigmoid(part(sums, 1, n));
    fac_tensor *fresh = fac__s_tanh(part(sums, 2, n)), *show = fac__s_sigmoid(part(sums, 3, n));
    l->c = add(mul(keep, l->c), mul(in, fresh));
    fac_tensor *h = mul(show, fac__s_tanh(l->c));
    return l->w_hr ? fac__s_linear(h, l->w_hr, NULL) : h;
}

static fac_tensor *gru_cell(layer *l, fac_tensor *of_x, fac_tensor *of_h) {
    const int64_t n = l->shape.units;
    fac_tensor *reset = fac__s_sigmoid(add(part(of_x, 0, n), part(of_h, 0, n)));
    fac_tensor *keep = fac__s_sigmoid(add(part(of_x, 1, n), part(of_h, 1, n)));
    fac_tensor *fresh = fac__s_tanh(add(part(of_x, 2, n), mul(reset, part(of_h, 2, n))));
    return add(fresh, mul(keep, sub(l->h, fresh)));
}

typedef fac_tensor *(*cell_fn)(layer *l, fac_tensor *of_x, fac_tensor *of_h);
static const cell_fn cells[FAC_RNN_KINDS] = {tanh_cell, relu_cell, lstm_cell, gru_cell};

static fac_tensor *rows(fac_tensor *t, int64_t begin, int64_t end) {
    return t ? fac__s_narrow(t, 0, begin, end - begin) : NULL;
}
static fac_tensor *joined(fac_tensor *a, fac_tensor *b) {
    fac_tensor *const both[2] = {a, b};
    return a ? fac__s_cat((fac_tensors){both, 2}, 0) : NULL;
}

/* Makes h and c those of n sequences: some end, or some begin. */
static void fit_sequences(layer *l, int64_t n) {
    const int64_t have = l->h->sizes[0];
    if (n < have) {
        l->ended++;
        l->h_ended[l->shape.steps - (int64_t)l->ended] = rows(l->h, n, have);
        l->c_ended[l->shape.steps - (int64_t)l->ended] = rows(l->c, n, have);
        l->h = rows(l->h, 0, n);
        l->c = rows(l->c, 0, n);
    } else if (n > have) {
        l->h = joined(l->h, rows(l->h0, have, n));
        l->c = joined(l->c, rows(l->c0, have, n));
    }
}

static fac_tensor *with_ended(const layer *l, fac_tensor *t, fac_tensor *const *ended) {
    fac_tensor *rest =
        l->ended && t ? fac__s_cat((fac_tensors){ended + (l->shape.steps - (int64_t)l->ended), l->ended}, 0) : NULL;
    return rest ? joined(t, rest) : t;
}

/* The layer by differentiable operators: out is output, h_n and c_n. */
static fac_status compose(layer *l, fac_tensor *out[3]) {
    const fac_rnn_shape *s = &l->shape;
    fac_rnn_place p = l->reverse ? fac__rnn_last(s) : fac__rnn_first(s);
    l->h = rows(l->h0, 0, p.n);
    l->c = rows(l->c0, 0, p.n);
    for (; p.n; p = l->reverse ? fac__rnn_earlier(s, p) : fac__rnn_later(s, p)) {
        FAC_TRY(fac_error());
        fit_sequences(l, p.n);
        fac_tensor *x = s->sizes ? rows(l->x, p.at, p.at + p.n) : fac__s_select_int(l->x, 0, p.t);
        if (!x || !l->h) return fac_error();
        l->h = cells[s->kind](l, fac__s_linear(x, l->w_ih, l->b_ih), fac__s_linear(l->h, l->w_hh, l->b_hh));
        l->y[p.t] = l->h;
        if (!l->h) return fac_error();
    }
    const fac_tensors steps = {l->y, (size_t)s->steps};
    out[0] = s->sizes ? fac__s_cat(steps, 0) : fac__s_stack(steps, 0);
    out[1] = with_ended(l, l->h, l->h_ended);
    out[2] = with_ended(l, l->c, l->c_ended);
    return fac_error();
}

static fac_status compose_with_room(layer *l, fac_tensor *out[3]) {
    const size_t steps = (size_t)l->shape.steps;
    fac_tensor **room = fac__alloc_array(steps, 3 * sizeof *room);
    if (!room) return fac_error();
    l->y = room;
    l->h_ended = room + steps;
    l->c_ended = room + 2 * steps;
    fac_status st = compose(l, out);
    fac__free(room);
    return st;
}

/* Differentiates `out` for those of `of` that want it, so that the gradients can be differentiated too. */
static fac_status differentiate(fac_tensor *const *out, fac_tensors in, fac_tensor *const *of, fac_tensor **grads,
                                int n) {
    fac_tensor *roots[3], *given[3], *targets[8], *found[8];
    int at[8], n_targets = 0;
    size_t n_roots = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!in.v[i] || !out[i]) continue;
        roots[n_roots] = out[i];
        given[n_roots++] = in.v[i];
    }
    for (int i = 0; i < n; i++) {
        if (!fac__requires_grad(of[i])) continue;
        at[n_targets] = i;
        targets[n_targets++] = of[i];
    }
    if (!n_roots || !n_targets) return FAC_OK;
    fac_grad_kw kw;
    fac_grad_kw_init(&kw);
    kw.grad_outputs = (fac_tensors){given, n_roots};
    kw.create_graph = kw.allow_unused = true;
    FAC_TRY(fac__grad((fac_tensors){roots, n_roots}, (fac_tensors){targets, (size_t)n_targets}, found, &kw));
    for (int i = 0; i < n_targets; i++) grads[at[i]] = found[i];
    return fac_error();
}

fac_status rnn_layer_grads(fac_tensor **grads, fac_tensors in, fac_tensor *input, fac_tensor *hx, fac_tensor *cx,
                           fac_tensor *w_ih, fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *w_hr,
                           fac_ints batch_sizes, int64_t kind, bool reverse, fac_tensor *output, fac_tensor *gates,
                           fac_tensor *layer_cells, bool needs_input) {
    fac_tensor *const of[8] = {input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr};
    fac_rnn_shape shape;
    FAC_TRY(fac__rnn_shape_of(input, batch_sizes, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, kind, &shape));
    if (!fac_is_grad_enabled() || shape.rows == 0) {
        fac__rnn_layer_backward_result r =
            fac__s__rnn_layer_backward(in.v[0], in.v[1], in.v[2], input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, output,
                                       gates, layer_cells, batch_sizes, kind, reverse, FAC_INTS(needs_input, 1, 1));
        fac_tensor *const made[8] = {r.result0, r.result1, r.result2, r.result3,
                                     r.result4, r.result5, r.result6, r.result7};
        for (int i = 0; i < 8; i++) grads[i] = made[i];
        return fac_error();
    }
    fac_tensor *out[3];
    layer l = {.x = input, .w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh, .w_hr = w_hr, .h0 = hx, .c0 = cx};
    l.reverse = reverse;
    l.shape = shape;
    FAC_TRY(compose_with_room(&l, out));
    return differentiate(out, in, of, grads, 8);
}
