/* Recurrent layers over whole sequences: tanh, relu, LSTM (also projected) and GRU, one layer in one direction a call.

   Forward: the input's part of all gates is made for some steps at a time, so that it is in cache when these, one after the other,
   add h W and compute the cell on the way, strip by strip of packed weights (rnn.h), which are packed once. What the gradient needs
   of the gates is kept. Inputs that are too wide, and weights that are used too seldom to be packed, are left to a product of their own.
   Backward: step by step from the end the slopes of the gates are made of the gradient of h, which is the given one plus the
   later step's slopes times the weights; the gradients of input and weights are then one product each over all steps.

   Threads take sequences, each for all steps, while the weights fit beside them in a cache; else strips of the weights, step by
   step. Sums, gates and cells are f32 (f64 for f64). Of f16, elements are widened first, and h is rounded at the end only; so are those
   of bf16 where the processor does not multiply pairs of them. Where it does, h and the slopes are rounded as they are made. Each element is the same sum in the same order for every
   cut, so results do not depend on the number of threads. */
#include "backend/cpu/kernels/rnn.h"
#include "backend/cpu/blas.h"
#include "ops/contiguous.h"
#include "ops/rnn.h"
#include "ops_gen.h"

enum {
    FEW_ROWS = 16,          /* rows of a call for which packing does not pay */
    STEP_WORK = 1 << 17,    /* multiply-adds of a step that are worth several threads */
    SUMS_ROWS = 64,         /* of the input that are multiplied before the steps they belong to: at least, */
    SUMS_BYTES = 1 << 18,   /* and more while the sums stay in cache, */
    STRIP_BYTES = 1 << 18,  /* as must a strip of the weights */
    CACHED_BYTES = 1 << 19, /* of packed weights that stay in a thread's own cache */
    FEW_SEQUENCES = 4,      /* per thread: cut the weights instead */
    MAX_OPERANDS = 16,
    MAX_RESULTS = 8
};

/* A row-major matrix; step 0: one row for all. */
typedef struct matrix {
    char *at;
    int64_t step;
    fac_dtype dtype;
} matrix;

typedef struct layer {
    fac_rnn_shape shape;
    fac_dtype dtype, sums_dtype; /* of elements: f32, f64 or bf16; of sums, gates and cells: f32 or f64 */
    const fac_rnn_kernels *kernels;
    bool reverse, projected;
    fac_tensor *operands[MAX_OPERANDS]; /* owned: in the type asked for, row-major */
    int n_operands;
    fac_tensor *results[MAX_RESULTS]; /* owned: what stands for each output */
    matrix x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, y, gates, cells;
    /* scratch */
    matrix bias;       /* [parts, units] and, of a GRU, [units] */
    matrix zeros;      /* a row */
    matrix sums;       /* of the input, [rows, parts * units]: where gates go, or y, or a place of their own */
    matrix products;   /* [batch, parts * units], where weights are not packed */
    matrix projecting; /* [batch, units] */
    fac_rnn_weights w, w_project, w_input;
    fac_workspace scratch;
    /* backward */
    matrix grad, grad_h, slopes, carry;
    matrix wide, shown; /* the gradient of a projected h; h before projection */
} layer;

static int64_t item(matrix m) { return fac__dtype_size(m.dtype); }
static matrix from_row(matrix m, int64_t row) { return (matrix){m.at + row * m.step * item(m), m.step, m.dtype}; }
static matrix from_column(matrix m, int64_t column) { return (matrix){m.at + column * item(m), m.step, m.dtype}; }
static fac_rnn_rows rows_of(matrix m, int64_t row) {
    return m.at ? (fac_rnn_rows){m.at + row * m.step * item(m), m.step} : (fac_rnn_rows){NULL, 0};
}
static int threads_now(void) { return fac__in_parallel() ? 1 : fac_num_threads(); }

/* ---- operands ---------------------------------------------------------------------------------------------------------- */

static matrix matrix_over(const fac_tensor *t) {
    return (matrix){fac__data(t), t->sizes[t->ndim - 1], (fac_dtype)t->dtype};
}

/* t row-major and of a dtype; NULL gives no matrix. */
static fac_status open_operand(layer *l, fac_tensor *t, fac_dtype dtype, matrix *out) {
    fac_tensor **slot = &l->operands[l->n_operands];
    *out = (matrix){NULL, 0, dtype};
    if (!t) return FAC_OK;
    if (t->dtype == dtype) {
        FAC_TRY(fac__contiguous_below(t, slot));
        l->n_operands++;
    } else {
        FAC_TRY(fac__empty(t->sizes, t->ndim, dtype, t->device, slot));
        l->n_operands++;
        FAC_TRY(fac__copy_below(*slot, t));
    }
    *out = matrix_over(*slot);
    return FAC_OK;
}

/* Output i as the layer computes it: the tensor itself, or one of another dtype that close_results converts. */
static fac_status open_result(layer *l, const fac_structured *s, int i, fac_dtype dtype, matrix *out) {
    fac_tensor *t = s->out[i];
    *out = (matrix){NULL, 0, dtype};
    if (!t) return FAC_OK;
    if (t->dtype == dtype)
        l->results[i] = fac__ref(t);
    else
        FAC_TRY(fac__empty(t->sizes, t->ndim, dtype, t->device, &l->results[i]));
    *out = matrix_over(l->results[i]);
    return FAC_OK;
}

static fac_status close_results(const layer *l, const fac_structured *s) {
    for (int i = 0; i < s->n_out; i++)
        if (l->results[i] && l->results[i] != s->out[i]) FAC_TRY(fac__copy_below(s->out[i], l->results[i]));
    return FAC_OK;
}

static void layer_free(layer *l) {
    for (int i = 0; i < l->n_operands; i++) fac__unref(l->operands[i]);
    for (int i = 0; i < MAX_RESULTS; i++) fac__unref(l->results[i]);
    fac__workspace_give(l->scratch);
}

/* ---- scratch ------------------------------------------------------------------------------------------------------------- */

/* Pieces of one allocation: sizes are added up first, then addresses are given out in the same order. */
typedef struct pieces {
    char *at; /* NULL while sizes are added up */
    int64_t bytes;
} pieces;

static char *piece(pieces *p, int64_t bytes) {
    char *at = p->at ? p->at + p->bytes : NULL;
    const int64_t round = bytes > INT64_MAX - 64 ? bytes : fac__workspace_round(bytes);
    if (!fac__add(p->bytes, round, &p->bytes)) p->bytes = INT64_MAX;
    return at;
}

static matrix piece_matrix(fac_dtype dtype, pieces *p, int64_t rows, int64_t columns) {
    const int64_t bytes = fac__mul_or_max(fac__mul_or_max(rows, columns), fac__dtype_size(dtype));
    return (matrix){piece(p, bytes), columns, dtype};
}

/* The shape of a matrix [k, parts * columns] as strips, which are as wide as an instruction set wants. */
static fac_rnn_weights weights_of(const layer *l, int64_t k, int64_t columns, int64_t parts) {
    const int64_t lanes = l->kernels->lanes;
    fac_rnn_weights w = {.k = k, .columns = columns, .parts = parts, .vectors = parts == 3 ? 3 : 4};
    w.strips = fac__div_up(columns, parts > 1 ? lanes : lanes * w.vectors);
    return w;
}

static fac_rnn_weights piece_weights(const layer *l, pieces *p, int64_t k, int64_t columns, int64_t parts) {
    fac_rnn_weights w = weights_of(l, k, columns, parts);
    const int64_t widest = FAC_RNN_STRIP_BYTES; /* of one row of a strip */
    w.packed = piece(p, fac__mul_or_max(fac__mul_or_max(w.strips, fac__div_up(k, l->kernels->depth)), widest));
    return w;
}

typedef struct pack_job {
    const layer *l;
    const fac_rnn_weights *w;
    const void *from;
    int64_t k_step, column_step;
} pack_job;

static fac_status pack_range(void *ctx, int64_t begin, int64_t end) {
    const pack_job *j = ctx;
    j->l->kernels->pack(j->w, j->from, j->k_step, j->column_step, begin, end);
    return FAC_OK;
}

static fac_status pack(const layer *l, const fac_rnn_weights *w, const void *from, int64_t k_step,
                       int64_t column_step) {
    pack_job j = {l, w, from, k_step, column_step};
    return fac__parallel_for(0, w->strips, fac__grain(FAC_GRAIN, w->k * 64), pack_range, &j);
}

/* Packed weights pay where they are used often. */
static bool packs(const fac_rnn_shape *s) { return s->steps > 1 && s->rows >= FEW_ROWS; }

/* ---- products ------------------------------------------------------------------------------------------------------------ */

/* Operand of a product; `turned`: its transpose is meant. */
static fac_gemm_matrix operand(matrix m, bool turned) {
    return (fac_gemm_matrix){m.at, turned ? 1 : m.step, turned ? m.step : 1, 0, false};
}

/* c[m, n] = a[m, k] b[k, n], or plus what is there. */
static fac_status product(const layer *l, int64_t m, int64_t n, int64_t k, fac_gemm_matrix a, fac_gemm_matrix b,
                          matrix c, bool add) {
    fac_gemm g = {.dtype = l->dtype,
                  .c_dtype = c.dtype,
                  .batch = 1,
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = a,
                  .b = b,
                  .alpha = fac_scalar_i_(1)};
    g.beta = fac_scalar_i_(add);
    g.c = c.at;
    g.c_row = c.step;
    g.c_col = 1;
    return fac__gemm(&g);
}

/* c[rows, n] = bias + a[rows, k] w[n, k]^T, bias one row. */
static fac_status product_with_bias(const layer *l, int64_t n, int64_t k, matrix a, matrix w, matrix bias, matrix c) {
    const int64_t rows = l->shape.rows;
    fac_gemm g = {.dtype = l->dtype, .c_dtype = c.dtype, .batch = 1, .m = rows, .n = n, .k = k};
    g.a = operand(a, false);
    g.b = operand(w, true);
    g.alpha = g.beta = fac_scalar_i_(1);
    g.c = c.at;
    g.c_row = c.step;
    g.c_col = 1;
    if (fac__gemm_takes_from(&g))
        g.from = bias.at;
    else
        for (int64_t i = 0; i < rows; i++) memcpy(from_row(c, i).at, bias.at, (size_t)(n * item(c)));
    return fac__gemm(&g);
}

/* ---- places ---------------------------------------------------------------------------------------------------------------- */

static fac_rnn_place start(const layer *l) { return l->reverse ? fac__rnn_last(&l->shape) : fac__rnn_first(&l->shape); }
static fac_rnn_place finish(const layer *l) {
    return l->reverse ? fac__rnn_first(&l->shape) : fac__rnn_last(&l->shape);
}
/* The step whose h comes in, and the one to which it goes. */
static fac_rnn_place before(const layer *l, fac_rnn_place p) {
    return l->reverse ? fac__rnn_later(&l->shape, p) : fac__rnn_earlier(&l->shape, p);
}
static fac_rnn_place after(const layer *l, fac_rnn_place p) {
    return l->reverse ? fac__rnn_earlier(&l->shape, p) : fac__rnn_later(&l->shape, p);
}
/* How many of the rows of a step another step has too. */
static int64_t shared(fac_rnn_place p, fac_rnn_place other) { return fac__min(p.n, other.n); }

/* The h or c that comes into rows from r on: of the step before in `steps`, or the first one. */
static fac_rnn_rows incoming(matrix steps, matrix first, fac_rnn_place prev, int64_t r) {
    return r < prev.n ? rows_of(steps, prev.at + r) : rows_of(first, r);
}

/* ---- forward ---------------------------------------------------------------------------------------------------------------- */

static const fac_rnn_action forward_action[FAC_RNN_KINDS] = {FAC_RNN_TANH, FAC_RNN_RELU, FAC_RNN_LSTM, FAC_RNN_GRU};

/* Rows [r, end) of a step, all of which find their h in the same place, and strips [first, last) of the weights. */
static void forward_rows(const layer *l, fac_rnn_place p, fac_rnn_place prev, int64_t r, int64_t end, int64_t first,
                         int64_t last) {
    const bool lstm = l->shape.kind == FAC_RNN_KIND_LSTM;
    const fac_rnn_rows h = incoming(l->y, l->h0, prev, r);
    fac_rnn_step s = {.action = forward_action[l->shape.kind], .w = &l->w, .first = first, .end = last};
    s.rows = end - r;
    s.units = l->shape.units;
    s.a = l->w.packed ? h : rows_of(l->products, r);
    s.gates = rows_of(l->sums, p.at + r);
    s.prev = lstm ? incoming(l->cells, l->c0, prev, r) : h;
    s.cell = rows_of(l->cells, p.at + r);
    s.given = (fac_rnn_rows){from_column(l->bias, l->shape.parts * l->shape.units).at, 0};
    s.out = l->projected ? rows_of(l->projecting, r) : rows_of(l->y, p.at + r);
    l->kernels->step(&s);
    if (!l->projected) return;
    fac_rnn_step project = {.action = FAC_RNN_ADD, .w = &l->w_project, .end = l->w_project.strips};
    project.rows = s.rows;
    project.a = s.out;
    project.out = rows_of(l->y, p.at + r);
    l->kernels->step(&project);
}

static void forward_part(const layer *l, fac_rnn_place p, int64_t begin, int64_t end, int64_t first, int64_t last) {
    const fac_rnn_place prev = before(l, p);
    const int64_t known = shared(p, prev);
    end = fac__min(end, p.n);
    if (begin < fac__min(known, end)) forward_rows(l, p, prev, begin, fac__min(known, end), first, last);
    if (fac__max(known, begin) < end) forward_rows(l, p, prev, fac__max(known, begin), end, first, last);
}

/* ---- backward ---------------------------------------------------------------------------------------------------------------- */

static const fac_rnn_action backward_action[FAC_RNN_KINDS] = {FAC_RNN_TANH_BACK, FAC_RNN_RELU_BACK, FAC_RNN_LSTM_BACK,
                                                              FAC_RNN_GRU_BACK};
static fac_rnn_weights not_packed(const layer *l) {
    fac_rnn_weights w = l->w;
    w.packed = NULL;
    return w;
}

/* The slopes that meet h: of all products with it. A GRU's begin with one that does not. */
static matrix slopes_of_h(const layer *l) {
    return l->shape.kind == FAC_RNN_KIND_GRU ? from_column(l->slopes, l->shape.units) : l->slopes;
}

/* Where the gradient of h comes from, beside the given one: the later step's slopes, whose product with the weights is to be
   made (or has been, without packed ones), or the gradient of the last h, which is complete. */
static fac_rnn_rows coming_back(const layer *l, fac_rnn_place next, int64_t r, fac_rnn_step *s) {
    if (r >= next.n) return l->grad_h.at ? rows_of(l->grad_h, r) : (fac_rnn_rows){l->zeros.at, 0};
    if (!l->w.packed) return rows_of(l->products, r);
    s->w = &l->w;
    return rows_of(slopes_of_h(l), next.at + r);
}

static void backward_rows(const layer *l, fac_rnn_place p, int64_t r, int64_t end, int64_t first, int64_t last) {
    const fac_rnn_place prev = before(l, p), next = after(l, p);
    const fac_rnn_weights as_given = not_packed(l);
    const bool lstm = l->shape.kind == FAC_RNN_KIND_LSTM;
    fac_rnn_step s = {.action = backward_action[l->shape.kind], .w = &as_given, .first = first, .end = last};
    s.rows = end - r;
    s.units = l->shape.units;
    s.a = coming_back(l, next, r, &s);
    s.given = l->grad.at ? rows_of(l->grad, p.at + r) : (fac_rnn_rows){l->zeros.at, 0};
    if (l->projected) {
        fac_rnn_step wide = s;
        wide.action = FAC_RNN_ADD;
        wide.out = rows_of(l->wide, p.at + r);
        l->kernels->step(&wide);
        s.w = &l->w_project;
        s.first = 0, s.end = l->w_project.strips;
        s.a = wide.out;
        s.given = (fac_rnn_rows){l->zeros.at, 0};
        s.out = rows_of(l->shown, p.at + r);
    } else if (!lstm) {
        s.out = rows_of(l->y, p.at + r);
    }
    s.gates = rows_of(l->gates, p.at + r);
    s.prev = lstm ? incoming(l->cells, l->c0, prev, r) : incoming(l->y, l->h0, prev, r);
    s.cell = rows_of(l->cells, p.at + r);
    s.carry = rows_of(l->carry, r);
    s.slopes = rows_of(l->slopes, p.at + r);
    l->kernels->step(&s);
}

/* Cuts rows where what they read changes its place. */
static void backward_part(const layer *l, fac_rnn_place p, int64_t begin, int64_t end, int64_t first, int64_t last) {
    const int64_t from_next = shared(p, after(l, p)), known = shared(p, before(l, p));
    end = fac__min(end, p.n);
    for (int64_t r = begin, cut; r < end; r = cut) {
        cut = end;
        if (r < from_next) cut = fac__min(cut, from_next);
        if (r < known) cut = fac__min(cut, known);
        backward_rows(l, p, r, cut, first, last);
    }
}

/* ---- all steps ----------------------------------------------------------------------------------------------------------------- */

typedef void (*part_fn)(const layer *l, fac_rnn_place p, int64_t begin, int64_t end, int64_t first, int64_t last);

/* Some steps, from one on. */
typedef struct steps_job {
    const layer *l;
    bool back;
    part_fn part;
    fac_rnn_place from;
    int64_t steps;
    fac_rnn_place place; /* of a job over strips */
} steps_job;

static fac_rnn_place next_place(const steps_job *j, fac_rnn_place p) {
    return j->back ? before(j->l, p) : after(j->l, p);
}

static fac_status sequences_range(void *ctx, int64_t begin, int64_t end) {
    const steps_job *j = ctx;
    fac_rnn_place p = j->from;
    for (int64_t i = 0; i < j->steps; i++, p = next_place(j, p)) j->part(j->l, p, begin, end, 0, j->l->w.strips);
    return FAC_OK;
}

static fac_status strips_range(void *ctx, int64_t begin, int64_t end) {
    const steps_job *j = ctx;
    j->part(j->l, j->place, 0, j->place.n, begin, end);
    return FAC_OK;
}

/* Sequences are cut while each thread has some, or where a cell is more than one product. */
static fac_status run_sequences(steps_job *j, int threads) {
    const int64_t chunks = (int64_t)threads * (j->l->shape.sizes && threads > 1 ? 4 : 1);
    return fac__parallel_for(0, j->l->shape.batch, fac__div_up(j->l->shape.batch, chunks), sequences_range, j);
}

/* The chunk of `all` items for each of some threads; one for all where there is little work. */
static int64_t share(int64_t all, int64_t each, int64_t times, int threads) {
    return fac__max(1, fac__mul_or_max(each, times) < STEP_WORK ? all : fac__div_up(all, threads));
}

static fac_status run_strips(steps_job *j, int threads) {
    const fac_rnn_weights *w = &j->l->w;
    const int64_t each = w->k * w->columns * w->parts;
    j->place = j->from;
    for (int64_t i = 0; i < j->steps; i++, j->place = next_place(j, j->place))
        FAC_TRY(fac__parallel_for(0, w->strips, share(w->strips, each, j->place.n, threads), strips_range, j));
    return FAC_OK;
}

/* Without packed weights the products of a step with h are made first. */
static fac_status products_of_step(const layer *l, fac_rnn_place p, bool back) {
    const fac_rnn_shape *s = &l->shape;
    const int64_t width = s->parts * s->units;
    const fac_rnn_place from = back ? after(l, p) : before(l, p);
    const int64_t n = shared(p, from);
    if (back)
        return n ? product(l, n, s->state, width, operand(from_row(slopes_of_h(l), from.at), false),
                           operand(l->w_hh, false), l->products, false)
                 : FAC_OK;
    if (n)
        FAC_TRY(product(l, n, width, s->state, operand(from_row(l->y, from.at), false), operand(l->w_hh, true),
                        l->products, false));
    if (n == p.n) return FAC_OK;
    return product(l, p.n - n, width, s->state, operand(from_row(l->h0, n), false), operand(l->w_hh, true),
                   from_row(l->products, n), false);
}

static fac_status run_unpacked(steps_job *j) {
    fac_rnn_place p = j->from;
    for (int64_t i = 0; i < j->steps; i++, p = next_place(j, p)) {
        FAC_TRY(products_of_step(j->l, p, j->back));
        j->part(j->l, p, 0, p.n, 0, j->l->w.strips);
    }
    return FAC_OK;
}

static fac_status run_some(steps_job *j) {
    const layer *l = j->l;
    if (!l->w.packed) return run_unpacked(j);
    const int threads = threads_now();
    const int64_t bytes = fac__mul_or_max(l->w.k * l->w.columns * l->w.parts, fac__dtype_size(l->dtype));
    if (l->projected || threads == 1 || (bytes <= CACHED_BYTES && l->shape.batch >= FEW_SEQUENCES * threads))
        return run_sequences(j, threads);
    return run_strips(j, threads);
}

static fac_status input_range(void *ctx, int64_t begin, int64_t end) {
    const layer *l = ctx;
    fac_rnn_step s = {.action = FAC_RNN_SUM, .w = &l->w_input, .end = l->w_input.strips, .rows = end - begin};
    s.units = l->shape.units;
    s.a = rows_of(l->x, begin);
    s.gates = rows_of(l->sums, begin);
    s.given = (fac_rnn_rows){l->bias.at, 0};
    l->kernels->step(&s);
    return FAC_OK;
}

/* Some steps, after the sums of their inputs. */
static fac_status run_with_inputs(steps_job *j) {
    const layer *l = j->l;
    const int64_t width = l->shape.parts * l->shape.units, each = l->w_input.k * width;
    const int64_t most = fac__max(SUMS_ROWS, SUMS_BYTES / (width * item(l->sums)));
    while (j->from.n) {
        fac_rnn_place next = j->from;
        int64_t first = next.at, end = next.at;
        for (j->steps = 0; next.n && end - first < most; j->steps++, next = next_place(j, next)) {
            first = fac__min(first, next.at);
            end = fac__max(end, next.at + next.n);
        }
        FAC_TRY(fac__parallel_for(first, end, share(end - first, each, end - first, threads_now()), input_range,
                                  (void *)l));
        FAC_TRY(run_some(j));
        j->from = next;
    }
    return FAC_OK;
}

static fac_status run_steps(const layer *l, bool back) {
    steps_job j = {.l = l, .back = back, .part = back ? backward_part : forward_part, .steps = l->shape.steps};
    j.from = back ? finish(l) : start(l);
    return !back && l->w_input.packed ? run_with_inputs(&j) : run_some(&j);
}

/* ---- the forward operator -------------------------------------------------------------------------------------------------------- */

static void add_row(matrix bias, char *to, const char *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (bias.dtype == FAC_F64)
            ((double *)(void *)to)[i] += ((const double *)(const void *)from)[i];
        else
            ((float *)(void *)to)[i] += ((const float *)(const void *)from)[i];
    }
}

/* What is added to the products of the input, [parts * units]: both biases; a GRU's last part of b_hh belongs to h alone and
   follows. */
static void make_bias(const layer *l) {
    const int64_t units = l->shape.units, all = l->shape.parts * units;
    const bool gru = l->shape.kind == FAC_RNN_KIND_GRU;
    memset(l->bias.at, 0, (size_t)((all + units) * item(l->bias)));
    if (!l->b_ih.at) return;
    add_row(l->bias, l->bias.at, l->b_ih.at, all);
    add_row(l->bias, l->bias.at, l->b_hh.at, gru ? all - units : all);
    if (gru) add_row(l->bias, from_column(l->bias, all).at, from_column(l->b_hh, all - units).at, units);
}

static fac_status open_weights(layer *l, fac_tensor *hx, fac_tensor *cx, fac_tensor *input, fac_tensor *w_ih,
                               fac_tensor *w_hh, fac_tensor *w_hr) {
    FAC_TRY(open_operand(l, input, l->dtype, &l->x));
    FAC_TRY(open_operand(l, hx, l->dtype, &l->h0));
    FAC_TRY(open_operand(l, cx, l->sums_dtype, &l->c0));
    FAC_TRY(open_operand(l, w_ih, l->dtype, &l->w_ih));
    FAC_TRY(open_operand(l, w_hh, l->dtype, &l->w_hh));
    return open_operand(l, w_hr, l->dtype, &l->w_hr);
}

static void place_forward(layer *l, pieces *p) {
    const fac_rnn_shape *s = &l->shape;
    l->bias = piece_matrix(l->sums_dtype, p, 1, (s->parts + 1) * s->units);
    l->sums = s->saved ? l->gates : l->y;
    if (l->sums.dtype != l->sums_dtype) l->sums = piece_matrix(l->sums_dtype, p, s->rows, s->units);
    l->w = weights_of(l, s->state, s->units, s->parts);
    if (packs(s))
        l->w = piece_weights(l, p, s->state, s->units, s->parts);
    else
        l->products = piece_matrix(l->sums_dtype, p, s->batch, s->parts * s->units);
    if (packs(s) && s->inputs / l->kernels->depth <= STRIP_BYTES / FAC_RNN_STRIP_BYTES)
        l->w_input = piece_weights(l, p, s->inputs, s->units, s->parts);
    if (!l->projected) return;
    l->projecting = piece_matrix(l->dtype, p, s->batch, s->units);
    l->w_project = piece_weights(l, p, s->units, s->state, 1);
}

static fac_status take_scratch(layer *l, void (*place)(layer *, pieces *)) {
    pieces p = {NULL, 0};
    place(l, &p);
    FAC_TRY(fac__workspace_take(p.bytes, &l->scratch));
    p = (pieces){l->scratch.at, 0};
    place(l, &p);
    return FAC_OK;
}

/* The last h and c of each sequence. */
static void take_last(const layer *l, matrix steps, matrix out) {
    for (fac_rnn_place p = start(l); p.n; p = after(l, p)) {
        const int64_t stay = shared(p, after(l, p));
        const size_t row = (size_t)(steps.step * item(steps));
        memcpy(from_row(out, stay).at, from_row(steps, p.at + stay).at, (size_t)(p.n - stay) * row);
    }
}

static fac_status forward(layer *l) {
    const fac_rnn_shape *s = &l->shape;
    FAC_TRY(take_scratch(l, place_forward));
    make_bias(l);
    if (l->w_input.packed)
        FAC_TRY(pack(l, &l->w_input, l->w_ih.at, 1, s->inputs));
    else
        FAC_TRY(product_with_bias(l, s->parts * s->units, s->inputs, l->x, l->w_ih, l->bias, l->sums));
    if (l->w.packed) FAC_TRY(pack(l, &l->w, l->w_hh.at, 1, s->state));
    if (l->projected) FAC_TRY(pack(l, &l->w_project, l->w_hr.at, 1, s->units));
    return run_steps(l, false);
}

static void layer_init(layer *l, const fac_rnn_shape *shape, const fac_tensor *input, bool reverse, bool projected) {
    *l = (layer){.shape = *shape, .reverse = reverse, .projected = projected};
    l->sums_dtype = input->dtype == FAC_F64 ? FAC_F64 : FAC_F32;
    l->dtype = (fac_dtype)input->dtype;
    l->kernels = FAC_ISA_PICK(fac__rnn_kernels)(l->dtype);
    if (l->kernels) return;
    l->dtype = l->sums_dtype;
    l->kernels = FAC_ISA_PICK(fac__rnn_kernels)(l->dtype);
}

fac_status _rnn_layer_cpu(fac_structured *s, fac_tensor *input, fac_tensor *hx, fac_tensor *cx, fac_tensor *w_ih,
                          fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *w_hr, fac_ints batch_sizes,
                          int64_t kind, bool reverse) {
    fac_rnn_shape shape;
    matrix h_n, c_n;
    layer l;
    FAC_TRY(fac__rnn_shape_of(input, batch_sizes, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, kind, &shape));
    if (shape.rows == 0) return FAC_OK;
    layer_init(&l, &shape, input, reverse, w_hr != NULL);
    fac_status st = open_weights(&l, hx, cx, input, w_ih, w_hh, w_hr);
    if (st == FAC_OK) st = open_operand(&l, b_ih, l.sums_dtype, &l.b_ih);
    if (st == FAC_OK) st = open_operand(&l, b_hh, l.sums_dtype, &l.b_hh);
    matrix *const results[] = {&l.y, &h_n, &c_n, &l.gates, &l.cells};
    for (int i = 0; i < 5 && st == FAC_OK; i++) st = open_result(&l, s, i, i < 2 ? l.dtype : l.sums_dtype, results[i]);
    if (st == FAC_OK) st = forward(&l);
    if (st == FAC_OK) {
        take_last(&l, l.y, h_n);
        if (c_n.at) take_last(&l, l.cells, c_n);
        st = close_results(&l, s);
    }
    layer_free(&l);
    return st;
}

/* ---- the backward operator ---------------------------------------------------------------------------------------------------------- */

enum { GRAD_X, GRAD_H, GRAD_C, GRAD_W_IH, GRAD_W_HH, GRAD_B_IH, GRAD_B_HH, GRAD_W_HR };

typedef struct backward_layer {
    layer l;
    matrix out[MAX_RESULTS];
    matrix incoming, sums, block; /* the h of the step before, [rows, state]; column sums of the slopes */
} backward_layer;

static int64_t slope_parts(const fac_rnn_shape *s) { return s->kind == FAC_RNN_KIND_GRU ? 4 : s->parts; }

static void place_backward(layer *l, pieces *p) {
    backward_layer *b = (backward_layer *)l; /* its first member */
    const fac_rnn_shape *s = &l->shape;
    const int64_t slopes = slope_parts(s) * s->units;
    l->zeros = piece_matrix(l->sums_dtype, p, 1, fac__max(s->units, s->state));
    l->slopes = piece_matrix(l->dtype, p, s->rows, slopes);
    l->carry = piece_matrix(l->sums_dtype, p, s->batch, s->units);
    b->incoming = piece_matrix(l->dtype, p, s->rows, s->state);
    b->sums = piece_matrix(l->sums_dtype, p, 1, slopes);
    b->block = piece_matrix(l->sums_dtype, p, 1, slopes);
    l->w = weights_of(l, s->parts * s->units, s->state, 1);
    if (packs(s))
        l->w = piece_weights(l, p, s->parts * s->units, s->state, 1);
    else
        l->products = piece_matrix(l->sums_dtype, p, s->batch, s->state);
    if (!l->projected) return;
    l->wide = piece_matrix(l->dtype, p, s->rows, s->state);
    l->shown = piece_matrix(l->dtype, p, s->rows, s->units);
    l->w_project = piece_weights(l, p, s->state, s->units, 1);
}

/* Begins the carry: a GRU's is empty, an LSTM's the gradient of the last c. */
static void start_carry(const layer *l, matrix grad_c) {
    const size_t bytes = (size_t)(l->shape.batch * l->shape.units * item(l->carry));
    if (grad_c.at)
        memcpy(l->carry.at, grad_c.at, bytes);
    else
        memset(l->carry.at, 0, bytes);
}

/* The gradients of the first h and c: what is left to carry, and the slopes of each sequence's first step times the weights. */
static fac_status state_grads(const backward_layer *b) {
    const layer *l = &b->l;
    const fac_rnn_shape *s = &l->shape;
    const size_t carried = (size_t)(s->batch * s->units * item(l->carry));
    const bool gru = s->kind == FAC_RNN_KIND_GRU;
    if (b->out[GRAD_C].at) memcpy(b->out[GRAD_C].at, l->carry.at, carried);
    if (!b->out[GRAD_H].at) return FAC_OK;
    if (gru) memcpy(b->out[GRAD_H].at, l->carry.at, carried);
    for (fac_rnn_place p = start(l); p.n; p = after(l, p)) {
        const int64_t known = shared(p, before(l, p));
        if (known < p.n)
            FAC_TRY(product(l, p.n - known, s->state, s->parts * s->units,
                            operand(from_row(slopes_of_h(l), p.at + known), false), operand(l->w_hh, false),
                            from_row(b->out[GRAD_H], known), gru));
    }
    return FAC_OK;
}

/* The h that came into each row. */
static void gather_incoming(const backward_layer *b) {
    const layer *l = &b->l;
    const size_t row = (size_t)(l->shape.state * item(l->y));
    for (fac_rnn_place p = start(l); p.n; p = after(l, p)) {
        const fac_rnn_place prev = before(l, p);
        const int64_t known = shared(p, prev);
        char *to = from_row(b->incoming, p.at).at;
        if (known) memcpy(to, from_row(l->y, prev.at).at, (size_t)known * row);
        if (known < p.n) memcpy(to + (size_t)known * row, from_row(l->h0, known).at, (size_t)(p.n - known) * row);
    }
}

/* Parts of the slopes that meet the input, and the rows of w_ih that are theirs: a GRU has its n first, w_ih last. */
typedef struct met {
    int64_t column, row, n;
} met;
static int parts_met(const fac_rnn_shape *s, met out[2]) {
    if (s->kind != FAC_RNN_KIND_GRU) {
        out[0] = (met){0, 0, s->parts * s->units};
        return 1;
    }
    out[0] = (met){s->units, 0, 2 * s->units};
    out[1] = (met){0, 2 * s->units, s->units};
    return 2;
}

static fac_status input_grads(const backward_layer *b) {
    const layer *l = &b->l;
    const fac_rnn_shape *s = &l->shape;
    met m[2];
    for (int i = 0, n = parts_met(s, m); i < n; i++) {
        const matrix slopes = from_column(l->slopes, m[i].column);
        if (b->out[GRAD_X].at)
            FAC_TRY(product(l, s->rows, s->inputs, m[i].n, operand(slopes, false),
                            operand(from_row(l->w_ih, m[i].row), false), b->out[GRAD_X], i > 0));
        if (b->out[GRAD_W_IH].at)
            FAC_TRY(product(l, m[i].n, s->inputs, s->rows, operand(slopes, true), operand(l->x, false),
                            from_row(b->out[GRAD_W_IH], m[i].row), false));
        if (b->out[GRAD_B_IH].at)
            memcpy(from_column(b->out[GRAD_B_IH], m[i].row).at, from_column(b->sums, m[i].column).at,
                   (size_t)(m[i].n * item(b->sums)));
    }
    return FAC_OK;
}

static fac_status weight_grads(const backward_layer *b) {
    const layer *l = &b->l;
    const fac_rnn_shape *s = &l->shape;
    const int64_t width = s->parts * s->units, slopes = slope_parts(s) * s->units;
    if (b->out[GRAD_B_IH].at) l->kernels->column_sums(s->rows, slopes, l->slopes.at, slopes, b->sums.at, b->block.at);
    FAC_TRY(input_grads(b));
    if (!b->out[GRAD_W_HH].at) return FAC_OK;
    gather_incoming(b);
    FAC_TRY(product(l, width, s->state, s->rows, operand(slopes_of_h(l), true), operand(b->incoming, false),
                    b->out[GRAD_W_HH], false));
    if (b->out[GRAD_B_HH].at)
        memcpy(b->out[GRAD_B_HH].at, from_column(b->sums, slopes - width).at, (size_t)(width * item(b->sums)));
    if (!l->projected) return FAC_OK;
    return product(l, s->state, s->units, s->rows, operand(l->wide, true), operand(l->shown, false), b->out[GRAD_W_HR],
                   false);
}

static fac_status backward(backward_layer *b, matrix grad_c) {
    layer *l = &b->l;
    const fac_rnn_shape *s = &l->shape;
    FAC_TRY(take_scratch(l, place_backward));
    memset(l->zeros.at, 0, (size_t)(l->zeros.step * item(l->zeros)));
    start_carry(l, grad_c);
    if (l->w.packed) FAC_TRY(pack(l, &l->w, l->w_hh.at, s->state, 1));
    if (l->projected) FAC_TRY(pack(l, &l->w_project, l->w_hr.at, s->units, 1));
    FAC_TRY(run_steps(l, true));
    FAC_TRY(state_grads(b));
    return weight_grads(b);
}

/* The dtype of a gradient: sums that are copied or added to before they are rounded are not elements yet. */
static fac_dtype grad_dtype(const layer *l, int i) {
    const bool gru = l->shape.kind == FAC_RNN_KIND_GRU;
    const bool of_sums = i == GRAD_C || i == GRAD_B_IH || i == GRAD_B_HH || (gru && (i == GRAD_X || i == GRAD_H));
    return of_sums ? l->sums_dtype : l->dtype;
}

static fac_status zero_all(const fac_structured *s) {
    for (int i = 0; i < s->n_out; i++)
        if (s->out[i]) FAC_TRY(fac__fill_below(s->out[i], fac_scalar_i_(0)));
    return FAC_OK;
}

fac_status _rnn_layer_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *grad_h, fac_tensor *grad_c,
                                   fac_tensor *input, fac_tensor *hx, fac_tensor *cx, fac_tensor *w_ih,
                                   fac_tensor *w_hh, fac_tensor *b_ih, fac_tensor *b_hh, fac_tensor *w_hr,
                                   fac_tensor *output, fac_tensor *gates, fac_tensor *cells, fac_ints batch_sizes,
                                   int64_t kind, bool reverse, fac_ints output_mask) {
    (void)output_mask;
    fac_rnn_shape shape;
    backward_layer b = {.out = {{NULL, 0, 0}}};
    matrix c_n;
    FAC_TRY(fac__rnn_shape_of(input, batch_sizes, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, kind, &shape));
    if (shape.rows == 0) return zero_all(s);
    layer *l = &b.l;
    layer_init(l, &shape, input, reverse, w_hr != NULL);
    fac_tensor *const given[] = {output, grad_output, gates, cells, grad_h, grad_c};
    matrix *const into[] = {&l->y, &l->grad, &l->gates, &l->cells, &l->grad_h, &c_n};
    fac_status st = open_weights(l, hx, cx, input, w_ih, w_hh, w_hr);
    for (int i = 0; i < 6 && st == FAC_OK; i++)
        st = open_operand(l, given[i], i < 2 ? l->dtype : l->sums_dtype, into[i]);
    for (int i = 0; i < MAX_RESULTS && st == FAC_OK; i++) st = open_result(l, s, i, grad_dtype(l, i), &b.out[i]);
    if (st == FAC_OK) st = backward(&b, c_n);
    if (st == FAC_OK) st = close_results(l, s);
    layer_free(l);
    return st;
}
