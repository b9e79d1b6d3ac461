/* Checks the arguments of a recurrent layer and says their shape. */
#include "ops/rnn.h"
#include "ops/meta/check.h"

/* Rows of each step: at least one, and no more than the step before. */
static fac_status check_steps(const fac_tensor *input, fac_ints sizes) {
    int64_t rows = 0;
    FAC_CHECK(sizes.n > 0, FAC_ERR_ARGUMENT, "batch_sizes must not be empty");
    for (size_t t = 0; t < sizes.n; t++) {
        FAC_CHECK(sizes.v[t] > 0 && (t == 0 || sizes.v[t] <= sizes.v[t - 1]), FAC_ERR_ARGUMENT,
                  "batch_sizes must be positive and must not increase, but entry %zu is %lld", t,
                  (long long)sizes.v[t]);
        FAC_CHECK(fac__add(rows, sizes.v[t], &rows), FAC_ERR_OVERFLOW, "batch_sizes add up to more than 64 bits hold");
    }
    FAC_CHECK(rows == input->sizes[0], FAC_ERR_SHAPE, "batch_sizes add up to %lld, but the input has %lld rows",
              (long long)rows, (long long)input->sizes[0]);
    return FAC_OK;
}

static fac_status shape_of_input(const fac_tensor *input, fac_ints batch_sizes, fac_rnn_shape *out) {
    const bool packed = batch_sizes.v != NULL;
    const int ndim = packed ? 2 : 3;
    FAC_CHECK(input->ndim == ndim, FAC_ERR_SHAPE, "input must have %d dimensions, got %d", ndim, input->ndim);
    if (packed) FAC_TRY(check_steps(input, batch_sizes));
    out->sizes = batch_sizes.v;
    out->steps = packed ? (int64_t)batch_sizes.n : input->sizes[0];
    out->batch = packed ? batch_sizes.v[0] : input->sizes[1];
    out->inputs = input->sizes[ndim - 1];
    FAC_CHECK(out->steps > 0, FAC_ERR_SHAPE, "Expected sequence length to be larger than 0 in RNN");
    FAC_CHECK(packed || fac__mul(out->steps, out->batch, &out->rows), FAC_ERR_OVERFLOW, "the input %s is too large",
              FAC_SHAPE_TEXT(input));
    if (packed) out->rows = input->sizes[0];
    return FAC_OK;
}

static const uint8_t parts_of[FAC_RNN_KINDS] = {1, 1, 4, 3}, saved_of[FAC_RNN_KINDS] = {0, 0, 4, 4};

static fac_status check_weights(const fac_rnn_shape *s, const fac_tensor *w_ih, const fac_tensor *w_hh,
                                const fac_tensor *b_ih, const fac_tensor *b_hh, const fac_tensor *w_hr) {
    const int64_t all = s->parts * s->units;
    FAC_TRY(fac__need_sizes("w_ih", w_ih, (int64_t[]){all, s->inputs}, 2));
    FAC_TRY(fac__need_sizes("w_hh", w_hh, (int64_t[]){all, s->state}, 2));
    FAC_TRY(fac__need_sizes("b_ih", b_ih, &all, 1));
    FAC_TRY(fac__need_sizes("b_hh", b_hh, &all, 1));
    return fac__need_sizes("w_hr", w_hr, (int64_t[]){s->state, s->units}, 2);
}

static fac_status check_dtypes(const fac_tensor *input, const fac_tensor *const *others, const char *const *names,
                               size_t n) {
    FAC_TRY(fac__need_floating("input", input));
    for (size_t i = 0; i < n; i++) FAC_TRY(fac__need_dtype(names[i], others[i], (fac_dtype)input->dtype));
    return FAC_OK;
}

fac_status fac__rnn_shape_of(const fac_tensor *input, fac_ints batch_sizes, const fac_tensor *hx, const fac_tensor *cx,
                             const fac_tensor *w_ih, const fac_tensor *w_hh, const fac_tensor *b_ih,
                             const fac_tensor *b_hh, const fac_tensor *w_hr, int64_t kind, fac_rnn_shape *out) {
    FAC_CHECK(kind >= 0 && kind < FAC_RNN_KINDS, FAC_ERR_ARGUMENT, "%lld is no kind of recurrent cell",
              (long long)kind);
    const bool lstm = kind == FAC_RNN_KIND_LSTM;
    FAC_CHECK(lstm == (cx != NULL), FAC_ERR_ARGUMENT, "cx is an LSTM's, and it must have one");
    FAC_CHECK(lstm || !w_hr, FAC_ERR_ARGUMENT, "only an LSTM has a projection");
    FAC_CHECK(!b_ih == !b_hh, FAC_ERR_ARGUMENT, "b_ih and b_hh are given together");
    FAC_TRY(check_dtypes(input, (const fac_tensor *const[]){hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr},
                         (const char *const[]){"hx", "cx", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr"}, 7));
    FAC_TRY(shape_of_input(input, batch_sizes, out));
    FAC_CHECK(w_hh->ndim == 2, FAC_ERR_SHAPE, "w_hh must have 2 dimensions, got %d", w_hh->ndim);
    out->kind = kind;
    out->parts = parts_of[kind];
    out->saved = saved_of[kind];
    out->units = w_hh->sizes[0] / out->parts;
    out->state = w_hh->sizes[1];
    FAC_CHECK(out->units > 0 && out->state > 0, FAC_ERR_SHAPE, "a layer must have at least one unit, but w_hh is %s",
              FAC_SHAPE_TEXT(w_hh));
    FAC_CHECK(w_hr || out->state == out->units, FAC_ERR_SHAPE, "w_hh must have size [%lld, %lld], got %s",
              (long long)(out->parts * out->units), (long long)out->units, FAC_SHAPE_TEXT(w_hh));
    FAC_TRY(check_weights(out, w_ih, w_hh, b_ih, b_hh, w_hr));
    FAC_TRY(fac__need_sizes("hx", hx, (int64_t[]){out->batch, out->state}, 2));
    return fac__need_sizes("cx", cx, (int64_t[]){out->batch, out->units}, 2);
}
