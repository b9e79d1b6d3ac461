/* Shapes and dtypes of recurrent layers. */
#include "ops/rnn.h"
#include "ops/meta/check.h"
#include "ops_gen.h"

/* Sizes of what has a row per step and sequence: [steps, batch, width], or [rows, width] of packed sequences. */
static int row_sizes(const fac_rnn_shape *r, int64_t width, int64_t sizes[3]) {
    int n = 0;
    if (!r->sizes) sizes[n++] = r->steps;
    sizes[n++] = r->sizes ? r->rows : r->batch;
    sizes[n++] = width;
    return n;
}

static fac_status declare_rows(fac_structured *s, int i, const fac_rnn_shape *r, int64_t width, fac_dtype dtype,
                               fac_device device) {
    int64_t sizes[3];
    const int n = row_sizes(r, width, sizes);
    return fac_out_declare(s, i, sizes, NULL, n, dtype, device);
}

static fac_status need_rows(const char *name, const fac_tensor *t, const fac_rnn_shape *r, int64_t width,
                            fac_dtype dtype) {
    int64_t sizes[3];
    const int n = row_sizes(r, width, sizes);
    FAC_TRY(fac__need_sizes(name, t, sizes, n));
    return fac__need_dtype(name, t, dtype);
}

static fac_status declare_like(fac_structured *s, int i, const fac_tensor *t) {
    return t ? fac_out_declare(s, i, t->sizes, NULL, t->ndim, (fac_dtype)t->dtype, t->device) : FAC_OK;
}

fac_status _rnn_layer_meta(fac_structured *s, fac_tensor *input, fac_tensor *hx, fac_tensor *cx, fac_tensor *w_ih,
                           fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *w_hr, fac_ints batch_sizes,
                           int64_t kind, bool reverse) {
    (void)reverse;
    fac_rnn_shape r;
    const fac_dtype sums = fac__statistic_dtype(input);
    FAC_TRY(fac__rnn_shape_of(input, batch_sizes, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, kind, &r));
    FAC_TRY(declare_rows(s, 0, &r, r.state, (fac_dtype)input->dtype, input->device));
    FAC_TRY(declare_like(s, 1, hx));
    FAC_TRY(declare_like(s, 2, cx));
    if (r.saved) FAC_TRY(declare_rows(s, 3, &r, r.saved * r.units, sums, input->device));
    return cx ? declare_rows(s, 4, &r, r.units, sums, input->device) : FAC_OK;
}

fac_status _rnn_layer_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *grad_h, fac_tensor *grad_c,
                                    fac_tensor *input, fac_tensor *hx, fac_tensor *cx, fac_tensor *w_ih,
                                    fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *w_hr,
                                    fac_tensor *output, fac_tensor *gates, fac_tensor *cells, fac_ints batch_sizes,
                                    int64_t kind, bool reverse, fac_ints output_mask) {
    (void)reverse;
    fac_rnn_shape r;
    const fac_dtype dtype = (fac_dtype)input->dtype, sums = fac__statistic_dtype(input);
    FAC_CHECK(output_mask.n == 3, FAC_ERR_ARGUMENT, "output_mask must have 3 entries, got %zu", output_mask.n);
    FAC_TRY(fac__rnn_shape_of(input, batch_sizes, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, kind, &r));
    FAC_CHECK(!r.saved == !gates && !cx == !cells, FAC_ERR_ARGUMENT, "gates and cells must be those of the layer");
    FAC_CHECK(cx || !grad_c, FAC_ERR_ARGUMENT, "cx is an LSTM's, and so is grad_c");
    FAC_TRY(need_rows("grad_output", grad_output, &r, r.state, dtype));
    FAC_TRY(need_rows("output", output, &r, r.state, dtype));
    FAC_TRY(need_rows("gates", gates, &r, r.saved * r.units, sums));
    FAC_TRY(need_rows("cells", cells, &r, r.units, sums));
    FAC_TRY(fac__need_sizes("grad_h", grad_h, hx->sizes, 2));
    FAC_TRY(fac__need_dtype("grad_h", grad_h, dtype));
    if (cx) FAC_TRY(fac__need_sizes("grad_c", grad_c, cx->sizes, 2));
    FAC_TRY(fac__need_dtype("grad_c", grad_c, dtype));
    fac_tensor *const of[8] = {input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr};
    for (int i = 0; i < 8; i++)
        if (output_mask.v[i == 0 ? 0 : i < 3 ? 1 : 2]) FAC_TRY(declare_like(s, i, of[i]));
    return FAC_OK;
}
