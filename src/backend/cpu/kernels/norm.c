/* Layer norm and RMS norm over rows of the last dimensions, and their gradients. Rows are independent and split over
   threads; the gradients of weight and bias are summed over fixed groups of rows whose results are added in order; of a few
   long rows, pieces are the tasks. Layer norm: y = (x - mean) rstd w + b. RMS norm is the same without mean and bias.
   Computes in float for 16-bit types. */
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/parallel.h"
#include "ops_gen.h"
#include <math.h>

typedef struct job {
    fac_acc kind;
    int64_t rows, n, part_rows;
    double eps;
    bool centred; /* layer norm */
    fac_rows x, y, dy, dx, w, b;
    fac_rows mean, rstd; /* one element per row */
    void *w_row, *b_row; /* weight and bias in the kind, or alike to rows of 16-bit floats; NULL if none */
    void *parts;         /* [groups][2][n]: partial gradients of weight and bias; NULL if not wanted */
    bool want_w, want_b;
} job;

/* Buffers of one task: the rows that have to be converted. */
typedef struct buffers {
    void *x, *dy, *out;
} buffers;

/* Whether rows go from 16-bit floats to such without a row of floats between. */
static bool is_half(const job *j) {
    return fac__is_half(j->x.dtype) && j->y.dtype == j->x.dtype && j->n > FAC_NORM_SHORT;
}

static int64_t buffers_bytes(const job *j) {
    if (is_half(j) && !j->dy.data) return FAC_NORM_PIECE * (int64_t)sizeof(float);
    const bool as_they_are = fac__acc_is(j->kind, j->x.dtype) && (!j->dy.data || fac__acc_is(j->kind, j->dy.dtype));
    return as_they_are ? 0 : 3 * j->n * (int64_t)fac__acc_size(j->kind);
}

static buffers buffers_in(const job *j, char *scratch) {
    const size_t row = (size_t)j->n * fac__acc_size(j->kind);
    return scratch ? (buffers){scratch, scratch + row, scratch + 2 * row} : (buffers){0};
}

/* Statistics are read and written one element at a time. */
static double stat_get(const fac_rows *r, int64_t i) {
    if (!r->data) return 0.0;
    double v;
    fac__tile_load(FAC_ACC_F64, &v, r->data + i * fac__dtype_size(r->dtype), r->dtype, 1, 1);
    return v;
}

static void stat_set(const fac_rows *r, int64_t i, double v) {
    if (!r->data) return;
    if (fac__acc_is(r->kind, r->dtype))
        fac__acc_set(r->kind, r->data, i, v);
    else
        fac__tile_store(FAC_ACC_F64, &v, r->data + i * fac__dtype_size(r->dtype), r->dtype, 1, 1);
}

enum { SHORT_ROWS = 32, SHORT_PIECE = 256 };
static bool is_short(const job *j) {
    return j->n <= FAC_NORM_SHORT && (j->kind == FAC_ACC_F32 || j->kind == FAC_ACC_F64);
}

/* `count` rows from row i on as one. */
static fac_rows run_of(const fac_rows *r, int64_t i, int64_t count) {
    fac_rows run = *r;
    run.n = r->n * count;
    if (r->data) run.data += i * r->n * fac__dtype_size(r->dtype);
    return run;
}

/* Rows that are so short that a call for each would be most of the work. */
static void short_rows(const job *j, int64_t begin, int64_t end) {
    double room[2][SHORT_PIECE], found[2][SHORT_ROWS]; /* of the kind */
    const int64_t some = fac__min(SHORT_ROWS, SHORT_PIECE / fac__max(1, j->n));
    for (int64_t i = begin; i < end; i += some) {
        const int64_t m = fac__min(some, end - i);
        const fac_rows x = run_of(&j->x, i, m), y = run_of(&j->y, i, m), mean = run_of(&j->mean, i, m),
                       rstd = run_of(&j->rstd, i, m);
        const void *given = fac__rows_read(&x, 0, room[0]);
        void *made = fac__rows_place(&y, 0, room[1]);
        void *means = mean.data ? fac__rows_place(&mean, 0, found[0]) : NULL;
        void *rstds = rstd.data ? fac__rows_place(&rstd, 0, found[1]) : NULL;
        if (j->kind == FAC_ACC_F32) FAC_ISA_PICK(fac__norm_short_rows_f32)
        (given, j->n, m, j->centred, j->eps, j->w_row, j->b_row, made, means, rstds);
        else FAC_ISA_PICK(fac__norm_short_rows_f64)(given, j->n, m, j->centred, j->eps, j->w_row, j->b_row, made, means,
                                                    rstds);
        fac__rows_put(&y, 0, made);
        fac__rows_put(&mean, 0, means);
        fac__rows_put(&rstd, 0, rstds);
    }
}

/* Weight and bias stay what they are if they are of the rows' dtype. */
static bool alike(const job *j) {
    return is_half(j) && (!j->w.data || j->w.dtype == j->x.dtype) && (!j->b.data || j->b.dtype == j->x.dtype);
}

static void half_rows(const job *j, int64_t begin, int64_t end, float *piece) {
    const bool same = alike(j);
    for (int64_t i = begin; i < end; i++) {
        double mean, square;
        fac__half_row_moments(&j->x, i, j->centred, piece, &mean, &square);
        const double rstd = 1.0 / sqrt(square / (double)j->n + j->eps);
        FAC_ISA_PICK(fac__norm_apply_half)
        (fac__is_bf16(j->x.dtype), (const uint16_t *)(const void *)j->x.data + i * j->n, (float)mean, (float)rstd, same,
         j->w_row, j->b_row, (uint16_t *)(void *)j->y.data + i * j->n, j->n);
        stat_set(&j->mean, i, mean);
        stat_set(&j->rstd, i, rstd);
    }
}

static fac_status forward_rows(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    if (is_half(j)) {
        half_rows(j, begin, end, scratch);
        return FAC_OK;
    }
    const buffers b = buffers_in(j, scratch);
    if (is_short(j)) {
        short_rows(j, begin, end);
        return FAC_OK;
    }
    for (int64_t i = begin; i < end; i++) {
        const void *x = fac__rows_read(&j->x, i, b.x);
        void *y = fac__rows_place(&j->y, i, b.out);
        double mean = 0, square;
        if (j->centred)
            fac__row_moments(j->kind, x, j->n, &mean, &square);
        else
            square = fac__square_sum(j->kind, x, j->n);
        double rstd = 1.0 / sqrt(square / (double)j->n + j->eps);
        fac__norm_apply(j->kind, x, mean, rstd, j->w_row, j->b_row, y, j->n);
        fac__rows_put(&j->y, i, y);
        stat_set(&j->mean, i, mean);
        stat_set(&j->rstd, i, rstd);
    }
    return FAC_OK;
}

static void input_row(const job *j, int64_t i, const void *x, const void *dy, double mean, double rstd, void *buffer) {
    void *dx = fac__rows_place(&j->dx, i, buffer);
    double sums[2];
    fac__norm_sums(j->kind, dy, x, mean, rstd, j->w_row, j->n, sums);
    double a = j->centred ? sums[0] / (double)j->n : 0.0;
    fac__norm_back(j->kind, dy, x, mean, rstd, j->w_row, a, sums[1] / (double)j->n, dx, j->n);
    fac__rows_put(&j->dx, i, dx);
}

/* The same of short rows. */
static void short_rows_back(const job *j, int64_t begin, int64_t end, void *dw, void *db) {
    double room[3][SHORT_PIECE], found[2][SHORT_ROWS]; /* of the kind */
    const int64_t some = fac__min(SHORT_ROWS, SHORT_PIECE / fac__max(1, j->n));
    for (int64_t i = begin; i < end; i += some) {
        const int64_t m = fac__min(some, end - i);
        const fac_rows x = run_of(&j->x, i, m), dy = run_of(&j->dy, i, m), dx = run_of(&j->dx, i, m),
                       mean = run_of(&j->mean, i, m), rstd = run_of(&j->rstd, i, m);
        const void *given = fac__rows_read(&x, 0, room[0]), *grads = fac__rows_read(&dy, 0, room[1]),
                   *means = fac__rows_read(&mean, 0, found[0]), *rstds = fac__rows_read(&rstd, 0, found[1]);
        void *made = dx.data ? fac__rows_place(&dx, 0, room[2]) : NULL;
        if (j->kind == FAC_ACC_F32) FAC_ISA_PICK(fac__norm_short_back_f32)
        (grads, given, j->n, m, means, rstds, j->w_row, dw, db, made);
        else FAC_ISA_PICK(fac__norm_short_back_f64)(grads, given, j->n, m, means, rstds, j->w_row, dw, db, made);
        fac__rows_put(&dx, 0, made);
    }
}

/* Groups of part_rows rows: each row is read once, for the input's gradient and for the group's own sums of the parameters'. */
static fac_status backward_groups(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const buffers b = buffers_in(j, scratch);
    for (int64_t g = begin; g < end; g++) {
        void *dw = j->parts ? fac__acc_at(j->kind, j->parts, 2 * g * j->n) : NULL,
             *db = dw ? fac__acc_at(j->kind, dw, j->n) : NULL;
        if (dw) memset(dw, 0, 2 * (size_t)j->n * fac__acc_size(j->kind));
        const int64_t first = g * j->part_rows, last = fac__min(j->rows, first + j->part_rows);
        if (is_short(j)) {
            short_rows_back(j, first, last, dw, db);
            continue;
        }
        for (int64_t i = first; i < last; i++) {
            const void *x = fac__rows_read(&j->x, i, b.x), *dy = fac__rows_read(&j->dy, i, b.dy);
            double mean = stat_get(&j->mean, i), rstd = stat_get(&j->rstd, i);
            if (dw) fac__norm_params(j->kind, dy, x, mean, rstd, j->want_w ? dw : NULL, j->want_b ? db : NULL, j->n);
            if (j->dx.data) input_row(j, i, x, dy, mean, rstd, b.out);
        }
    }
    return FAC_OK;
}

/* A parameter of n elements as an array of the kind; *owned is what to give back. */
static fac_status parameter_row(const fac_rows *r, void **row, fac_workspace *owned) {
    *row = NULL;
    *owned = (fac_workspace){0};
    if (!r->data) return FAC_OK;
    if (!fac__acc_is(r->kind, r->dtype)) FAC_TRY(fac__workspace_take(r->n * (int64_t)fac__acc_size(r->kind), owned));
    *row = (void *)(uintptr_t)fac__rows_read(r, 0, owned->at);
    return FAC_OK;
}

static int64_t grain(const job *j) { return fac__grain(FAC_GRAIN / 2, j->n); }

static fac_status open_common(job *j, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, int64_t n) {
    FAC_TRY(fac__rows_open(&j->x, input, j->kind, n));
    FAC_TRY(fac__rows_open(&j->w, weight, j->kind, n));
    return fac__rows_open(&j->b, bias, j->kind, n);
}

static void close_all(job *j) {
    fac_rows *const all[] = {&j->x, &j->y, &j->dy, &j->dx, &j->w, &j->b, &j->mean, &j->rstd};
    for (size_t i = 0; i < FAC_COUNT(all); i++) fac__rows_close(all[i]);
}

static int64_t row_length(fac_ints normalized_shape) {
    int64_t n = 1;
    for (size_t i = 0; i < normalized_shape.n; i++) n *= normalized_shape.v[i];
    return n;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

static fac_status run_forward(job *j) {
    fac_workspace owned_w = {0}, owned_b = {0};
    fac_status st = FAC_OK;
    j->w_row = j->w.data, j->b_row = j->b.data;
    if (!alike(j)) st = parameter_row(&j->w, &j->w_row, &owned_w);
    if (st == FAC_OK && !alike(j)) st = parameter_row(&j->b, &j->b_row, &owned_b);
    if (st == FAC_OK) st = fac__parallel_for_scratch(0, j->rows, grain(j), buffers_bytes(j), forward_rows, j);
    fac__workspace_give(owned_w);
    fac__workspace_give(owned_b);
    return st;
}

static fac_status forward(job *j, fac_tensor *y, fac_tensor *mean, fac_tensor *rstd, fac_tensor *input, fac_ints shape,
                          fac_tensor *weight, fac_tensor *bias) {
    if (input->numel == 0) return FAC_OK;
    int64_t n = row_length(shape);
    j->kind = fac__norm_kind((fac_dtype)input->dtype);
    j->n = n;
    j->rows = input->numel / n;
    fac_status st = open_common(j, input, weight, bias, n);
    if (st == FAC_OK) st = fac__rows_open(&j->y, y, j->kind, n);
    if (st == FAC_OK) st = fac__rows_open(&j->mean, mean, j->kind, 1);
    if (st == FAC_OK) st = fac__rows_open(&j->rstd, rstd, j->kind, 1);
    if (st == FAC_OK) st = run_forward(j);
    close_all(j);
    return st;
}

fac_status native_layer_norm_cpu(fac_structured *s, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                                 fac_tensor *bias, double eps) {
    job j = {.eps = eps, .centred = true};
    return forward(&j, s->out[0], s->out[1], s->out[2], input, normalized_shape, weight, bias);
}

fac_status _fused_rms_norm_cpu(fac_structured *s, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                               fac_opt_num eps) {
    double by_dtype = input->dtype == FAC_F64 ? 0x1p-52 : 0x1p-23;
    job j = {.eps = eps.set ? fac__scalar_f64(eps.v) : by_dtype, .centred = false};
    return forward(&j, s->out[0], NULL, s->out[1], input, normalized_shape, weight, NULL);
}

/* ---- backward ----------------------------------------------------------------------------------------------------- */

/* Adds the groups' sums in order and writes them out. */
static void collect(const job *j, int64_t groups, int which, fac_tensor *out) {
    if (!out) return;
    void *sum = fac__acc_at(j->kind, j->parts, which * j->n);
    fac__fold_get(FAC_FOLD_SUM, j->kind).col(fac__acc_at(j->kind, sum, 2 * j->n), 2 * j->n, groups - 1, j->n, sum);
    fac__tile_store(j->kind, sum, fac__data(out), (fac_dtype)out->dtype, 1, j->n);
}

static fac_status run_groups(job *j, fac_tensor *dw, fac_tensor *db) {
    j->want_w = dw != NULL;
    j->want_b = db != NULL;
    j->part_rows = dw || db ? fac__rows_per_part(j->rows) : grain(j);
    int64_t groups = fac__div_up(j->rows, j->part_rows);
    fac_workspace parts = {0};
    if (dw || db) FAC_TRY(fac__workspace_take(2 * groups * j->n * (int64_t)fac__acc_size(j->kind), &parts));
    j->parts = parts.at;
    fac_status st = fac__parallel_for_scratch(0, groups, 1, buffers_bytes(j), backward_groups, j);
    if (st == FAC_OK) {
        collect(j, groups, 0, dw);
        collect(j, groups, 1, db);
    }
    fac__workspace_give(parts);
    return st;
}

/* ---- a few long rows backward: cut along the rows, which are read twice ----------------------------------------------- */

enum { LONG_PIECE = 2048, LONG_PIECES = 8 };
typedef struct long_rows {
    const job *j;
    int64_t pieces;    /* of a row */
    double (*sums)[2]; /* [rows][pieces]: of fac__norm_sums */
    fac_rows dw, db;   /* of one row */
} long_rows;

/* Whether all rows are one group, and long. */
static bool are_long(const job *j) {
    return j->rows <= fac__rows_per_part(j->rows) && j->n >= LONG_PIECES * LONG_PIECE;
}

/* Elements [at, at + n) of row i, as a row. */
static fac_rows part_of(const fac_rows *r, int64_t i, int64_t at, int64_t n) {
    fac_rows part = *r;
    part.n = n;
    if (r->data) part.data += (i * r->n + at) * fac__dtype_size(r->dtype);
    return part;
}
static const void *read_part(const fac_rows *r, int64_t i, int64_t at, int64_t n, void *buffer) {
    const fac_rows part = part_of(r, i, at, n);
    return fac__rows_read(&part, 0, buffer);
}
static void *piece_in(const job *j, void *room, int which) { return fac__acc_at(j->kind, room, which * LONG_PIECE); }

static fac_status long_sums(void *ctx, int64_t begin, int64_t end, void *room) {
    const long_rows *l = ctx;
    const job *j = l->j;
    for (int64_t t = begin; t < end; t++) {
        const int64_t i = t / l->pieces, at = t % l->pieces * LONG_PIECE, n = fac__min(LONG_PIECE, j->n - at);
        fac__norm_sums(j->kind, read_part(&j->dy, i, at, n, piece_in(j, room, 0)),
                       read_part(&j->x, i, at, n, piece_in(j, room, 1)), stat_get(&j->mean, i), stat_get(&j->rstd, i),
                       read_part(&j->w, 0, at, n, piece_in(j, room, 2)), n, l->sums[t]);
    }
    return FAC_OK;
}

/* The pieces' sums of each row, in order, become the first one's: they are divided by n. */
static void add_long_sums(const long_rows *l) {
    const double n = (double)l->j->n;
    for (int64_t i = 0; i < l->j->rows; i++) {
        double(*s)[2] = l->sums + i * l->pieces;
        for (int64_t p = 1; p < l->pieces; p++) s[0][0] += s[p][0], s[0][1] += s[p][1];
        s[0][0] = l->j->centred ? s[0][0] / n : 0;
        s[0][1] /= n;
    }
}

/* Pieces of all rows: what the parameters get is summed over these at once. */
static fac_status long_pieces(void *ctx, int64_t begin, int64_t end, void *room) {
    const long_rows *l = ctx;
    const job *j = l->j;
    for (int64_t p = begin; p < end; p++) {
        const int64_t at = p * LONG_PIECE, n = fac__min(LONG_PIECE, j->n - at);
        const void *w = read_part(&j->w, 0, at, n, piece_in(j, room, 2));
        void *dw = l->dw.data ? piece_in(j, room, 4) : NULL, *db = l->db.data ? piece_in(j, room, 5) : NULL;
        memset(piece_in(j, room, 4), 0, 2 * LONG_PIECE * fac__acc_size(j->kind));
        for (int64_t i = 0; i < j->rows; i++) {
            const double mean = stat_get(&j->mean, i), rstd = stat_get(&j->rstd, i), *sums = l->sums[i * l->pieces];
            const void *dy = read_part(&j->dy, i, at, n, piece_in(j, room, 0)),
                       *x = read_part(&j->x, i, at, n, piece_in(j, room, 1));
            if (dw || db) fac__norm_params(j->kind, dy, x, mean, rstd, dw, db, n);
            if (!j->dx.data) continue;
            const fac_rows out = part_of(&j->dx, i, at, n);
            void *dx = fac__rows_place(&out, 0, piece_in(j, room, 3));
            fac__norm_back(j->kind, dy, x, mean, rstd, w, sums[0], sums[1], dx, n);
            fac__rows_put(&out, 0, dx);
        }
        if (dw) fac__tile_store(j->kind, dw, part_of(&l->dw, 0, at, n).data, l->dw.dtype, 1, n);
        if (db) fac__tile_store(j->kind, db, part_of(&l->db, 0, at, n).data, l->db.dtype, 1, n);
    }
    return FAC_OK;
}

static fac_status run_long(const job *j, fac_tensor *dw, fac_tensor *db) {
    long_rows l = {.j = j, .pieces = fac__div_up(j->n, LONG_PIECE)};
    const int64_t piece = LONG_PIECE * (int64_t)fac__acc_size(j->kind), each = fac__grain(FAC_GRAIN / 2, LONG_PIECE);
    fac_workspace sums;
    if (dw) l.dw = (fac_rows){.data = fac__data(dw), .dtype = (fac_dtype)dw->dtype, .kind = j->kind, .n = j->n};
    if (db) l.db = (fac_rows){.data = fac__data(db), .dtype = (fac_dtype)db->dtype, .kind = j->kind, .n = j->n};
    FAC_TRY(fac__workspace_take(j->rows * l.pieces * (int64_t)sizeof *l.sums, &sums));
    l.sums = (double(*)[2])(void *)sums.at;
    fac_status st = FAC_OK;
    if (j->dx.data) st = fac__parallel_for_scratch(0, j->rows * l.pieces, each, 3 * piece, long_sums, &l);
    if (st == FAC_OK && j->dx.data) add_long_sums(&l);
    if (st == FAC_OK)
        st = fac__parallel_for_scratch(0, l.pieces, fac__grain(each, j->rows), 6 * piece, long_pieces, &l);
    fac__workspace_give(sums);
    return st;
}

static fac_status run_backward(job *j, fac_tensor *dw, fac_tensor *db) {
    fac_workspace owned;
    if (are_long(j)) return run_long(j, dw, db);
    FAC_TRY(parameter_row(&j->w, &j->w_row, &owned));
    fac_status st = run_groups(j, dw, db);
    fac__workspace_give(owned);
    return st;
}

static fac_status zero(fac_tensor *t) {
    if (t && t->numel) memset(fac__data(t), 0, (size_t)t->numel * fac__dtype_size((fac_dtype)t->dtype));
    return FAC_OK;
}

/* d[0..2]: gradients of input, weight and bias; NULL where not wanted. */
static fac_status backward(job *j, fac_tensor *const *d, fac_tensor *grad_out, fac_tensor *input, fac_ints shape,
                           fac_tensor *mean, fac_tensor *rstd, fac_tensor *weight) {
    if (input->numel == 0) {
        FAC_TRY(zero(d[1]));
        return zero(d[2]);
    }
    int64_t n = row_length(shape);
    j->kind = fac__norm_kind((fac_dtype)input->dtype);
    j->n = n;
    j->rows = input->numel / n;
    fac_status st = open_common(j, input, weight, NULL, n);
    if (st == FAC_OK) st = fac__rows_open(&j->dy, grad_out, j->kind, n);
    if (st == FAC_OK) st = fac__rows_open(&j->dx, d[0], j->kind, n);
    if (st == FAC_OK) st = fac__rows_open(&j->mean, mean, j->kind, 1);
    if (st == FAC_OK) st = fac__rows_open(&j->rstd, rstd, j->kind, 1);
    if (st == FAC_OK) st = run_backward(j, d[1], d[2]);
    close_all(j);
    return st;
}

fac_status native_layer_norm_backward_cpu(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                          fac_ints normalized_shape, fac_tensor *mean, fac_tensor *rstd,
                                          fac_tensor *weight, fac_tensor *bias, fac_ints output_mask) {
    (void)bias, (void)output_mask;
    job j = {.centred = true};
    return backward(&j, s->out, grad_out, input, normalized_shape, mean, rstd, weight);
}

fac_status _fused_rms_norm_backward_cpu(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                        fac_ints normalized_shape, fac_tensor *rstd, fac_tensor *weight,
                                        fac_ints output_mask) {
    (void)output_mask;
    job j = {.centred = false};
    fac_tensor *const d[3] = {s->out[0], s->out[1], NULL};
    return backward(&j, d, grad_out, input, normalized_shape, NULL, rstd, weight);
}
