/* What the rules and the kernels of recurrent layers share: kinds of cells, and the shape of a call. */
#ifndef FAC_SRC_OPS_RNN_H
#define FAC_SRC_OPS_RNN_H

#include "core/tensor.h"

enum { FAC_RNN_KIND_TANH, FAC_RNN_KIND_RELU, FAC_RNN_KIND_LSTM, FAC_RNN_KIND_GRU, FAC_RNN_KINDS };

/* One layer in one direction. The rows of step t follow those of step t - 1; a step never has more rows than the one before, so
   that row b of each step belongs to sequence b. */
typedef struct fac_rnn_shape {
    int64_t kind, steps, batch, rows;
    const int64_t *sizes; /* rows of each step; NULL: `batch` each */
    int64_t inputs, units;
    int64_t state; /* width of h: units, or less with a projection */
    int64_t parts; /* products with the input and with h, each `units` wide */
    int64_t saved; /* numbers kept per unit and row for the gradient; 0: those of the output are enough */
} fac_rnn_shape;

/* Of the arguments of a layer, all of which it checks. errors: SHAPE, DTYPE, ARGUMENT */
fac_status fac__rnn_shape_of(const fac_tensor *input, fac_ints batch_sizes, const fac_tensor *hx, const fac_tensor *cx,
                             const fac_tensor *w_ih, const fac_tensor *w_hh, const fac_tensor *b_ih,
                             const fac_tensor *b_hh, const fac_tensor *w_hr, int64_t kind, fac_rnn_shape *out);

/* The rows of a step, from `at` on; n is 0 beyond either end. */
typedef struct fac_rnn_place {
    int64_t t, at, n;
} fac_rnn_place;
static inline int64_t fac__rnn_size(const fac_rnn_shape *s, int64_t t) {
    return t < 0 || t >= s->steps ? 0 : s->sizes ? s->sizes[t] : s->batch;
}
static inline fac_rnn_place fac__rnn_first(const fac_rnn_shape *s) {
    return (fac_rnn_place){0, 0, fac__rnn_size(s, 0)};
}
static inline fac_rnn_place fac__rnn_last(const fac_rnn_shape *s) {
    const int64_t n = fac__rnn_size(s, s->steps - 1);
    return (fac_rnn_place){s->steps - 1, s->rows - n, n};
}
static inline fac_rnn_place fac__rnn_later(const fac_rnn_shape *s, fac_rnn_place p) {
    return (fac_rnn_place){p.t + 1, p.at + p.n, fac__rnn_size(s, p.t + 1)};
}
static inline fac_rnn_place fac__rnn_earlier(const fac_rnn_shape *s, fac_rnn_place p) {
    const int64_t n = fac__rnn_size(s, p.t - 1);
    return (fac_rnn_place){p.t - 1, p.at - n, n};
}

#endif
