/* Losses over classes. nll_loss reads one element per target, a tile of targets at a time; _cross_entropy reads each row of logits once (maximum and sum
   of exponentials while it is in cache) and its gradient writes each row once. Targets are cut in fixed blocks whose sums
   are added in order, in double. */
#include "backend/cpu/kernels/nll.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/softmax.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include "ops_gen.h"
#include <math.h>

#define BLOCK 8192
enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };
enum { TARGET, INPUT, LOSS, OPERANDS }; /* of the nest over targets; LOSS: losses or their gradients */

typedef struct job {
    fac_nest nest;
    const char *target, *input, *weight, *loss;
    char *out;
    fac_dtype target_dtype, dtype, loss_dtype;
    int64_t classes, class_step, weight_step, ignore, reduction, block;
    bool clears;     /* the places of points that are not their class' are set to zero with them */
    double scale;    /* of the gradient */
    double *partial; /* [blocks][2]: loss, weight */
    char *sums;      /* _cross_entropy: the terms of each row's log-sum-exp; else NULL */
    fac_dtype sums_dtype;
    fac_acc kind;
} job;

static double get(const char *p, fac_dtype d, int64_t i) {
    double v;
    fac__tile_load(FAC_ACC_F64, &v, p + i * fac__dtype_size(d), d, 1, 1);
    return v;
}

static void put(char *p, fac_dtype d, int64_t i, double v) {
    fac__tile_store(FAC_ACC_F64, &v, p + i * fac__dtype_size(d), d, 1, 1);
}

static int64_t target_at(const job *j, int64_t offset) {
    const char *p = j->target + offset * fac__dtype_size(j->target_dtype);
    return j->target_dtype == FAC_I64 ? *(const int64_t *)(const void *)p : (int64_t) * (const uint8_t *)p;
}

static fac_status check_class(const job *j, int64_t t) {
    FAC_CHECK(t >= 0 && t < j->classes, FAC_ERR_INDEX, "Target %lld is out of bounds for %lld classes", (long long)t,
              (long long)j->classes);
    return FAC_OK;
}

/* The class at a point: -1 if it is to be ignored. */
static fac_status class_at(const job *j, const fac_cursor *c, int64_t *out) {
    const int64_t t = target_at(j, c->offset[TARGET]);
    *out = -1;
    if (t == j->ignore) return FAC_OK;
    FAC_TRY(check_class(j, t));
    *out = t;
    return FAC_OK;
}

static double weight_of(const job *j, int64_t t) {
    return j->weight ? get(j->weight, j->dtype, t * j->weight_step) : 1.0;
}

/* Over the points of targets: operand INPUT steps over the input without its class dimension. */
static void plan(job *j, fac_tensor *self, fac_tensor *target, fac_tensor *weight, fac_tensor *losses) {
    int64_t in[FAC_MAX_DIMS], none[FAC_MAX_DIMS] = {0};
    int d_class = self->ndim == 1 ? 0 : 1;
    for (int d = 0, o = 0; d < self->ndim; d++) {
        if (d != d_class) in[o++] = self->strides[d];
    }
    bool flat = self->ndim == 1;
    const int64_t *strides[OPERANDS] = {target->strides, flat ? none : in,
                                        losses && losses->ndim && !flat ? losses->strides : none};
    fac__nest_build(&j->nest, target->sizes, target->ndim, UINT64_MAX, OPERANDS, strides, true);
    j->target = fac__data(target);
    j->input = fac__data(self);
    j->weight = weight ? fac__data(weight) : NULL;
    j->target_dtype = (fac_dtype)target->dtype;
    j->dtype = (fac_dtype)self->dtype;
    j->classes = self->sizes[d_class];
    j->class_step = self->strides[d_class];
    j->weight_step = weight ? weight->strides[0] : 0;
    j->kind = fac__norm_kind(j->dtype);
    j->sums = NULL;
    j->partial = NULL;
}

/* ---- one point -------------------------------------------------------------------------------------------------------- */

/* The maximum of a line of logits and the logarithm of its sum of exponentials beside it. */
static void terms_of(const job *j, const void *line, double out[2]) {
    if (j->kind == FAC_ACC_F64) return FAC_ISA_PICK(fac__logsumexp_terms_f64)(line, j->classes, out);
    float terms[2];
    FAC_ISA_PICK(fac__logsumexp_terms_f32)(line, j->classes, terms);
    out[0] = (double)terms[0], out[1] = (double)terms[1];
}

/* ---- tiles: points that follow each other along the fastest dimension -------------------------------------------------- */

enum { POINTS = 256 };

/* The classes of n points, -1 for those that are to be ignored. */
static fac_status classes_of(const job *j, const fac_cursor *c, int64_t n, int64_t *restrict classes) {
    const int64_t step = fac__nest_step(&j->nest, TARGET), at = c->offset[TARGET];
    const char *p = j->target + at * fac__dtype_size(j->target_dtype);
    const bool good =
        j->target_dtype == FAC_I64
            ? FAC_ISA_PICK(fac__nll_classes_i64)((const int64_t *)(const void *)p, step, n, j->classes, j->ignore,
                                                 classes)
            : FAC_ISA_PICK(fac__nll_classes_u8)((const uint8_t *)p, step, n, j->classes, j->ignore, classes);
    for (int64_t i = 0; !good && i < n; i++)
        if (target_at(j, at + i * step) != j->ignore) FAC_TRY(check_class(j, target_at(j, at + i * step)));
    return FAC_OK;
}

/* x[i] = the element of class t[i] at point i, 0 for -1; points are `step` apart, classes `class_step`. */
static void pick(const job *j, const char *p, int64_t step, int64_t class_step, const int64_t *t, int64_t n,
                 double *x) {
    fac_item8 raw[POINTS];
    FAC_ISA_PICK(fac__nll_pick)((size_t)fac__dtype_size(j->dtype), p, step, class_step, t, n, raw);
    fac__tile_load(FAC_ACC_F64, x, raw, j->dtype, 1, n);
}

static void weights_of(const job *j, const int64_t *t, int64_t n, double *w) {
    if (j->weight) {
        pick(j, j->weight, 0, j->weight_step, t, n, w);
    } else {
        for (int64_t i = 0; i < n; i++) w[i] = t[i] < 0 ? 0.0 : 1.0;
    }
}

/* Weighted logarithms and weights of a block's points, added up side by side. */
enum { SIDES = 8 };
typedef struct totals {
    double log[SIDES], weight[SIDES];
} totals;

static void add_up(double *restrict sums, const double *x, int64_t n) {
    int64_t i = 0;
    for (; i + SIDES <= n; i += SIDES)
        for (int k = 0; k < SIDES; k++) sums[k] += x[i + k];
    for (int k = 0; i + k < n; k++) sums[k] += x[i + k];
}

static double together(const double *s) { return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])); }

static fac_status forward_tile(const job *j, const fac_cursor *c, int64_t n, totals *sums) {
    int64_t t[POINTS];
    double x[POINTS], w[POINTS];
    FAC_TRY(classes_of(j, c, n, t));
    pick(j, j->input + c->offset[INPUT] * fac__dtype_size(j->dtype), fac__nest_step(&j->nest, INPUT), j->class_step, t,
         n, x);
    if (!j->weight && !j->out) {
        int64_t some = 0;
        for (int64_t i = 0; i < n; i++) some += t[i] >= 0;
        sums->weight[0] += (double)some;
    } else {
        weights_of(j, t, n, w);
        for (int64_t i = 0; i < n; i++) x[i] = t[i] < 0 ? 0.0 : x[i] * w[i];
        add_up(sums->weight, w, n);
    }
    add_up(sums->log, x, n);
    for (int64_t i = 0; j->out && i < n; i++) x[i] = t[i] < 0 ? 0.0 : -x[i];
    if (j->out)
        fac__tile_store(FAC_ACC_F64, x, j->out + c->offset[LOSS] * fac__dtype_size(j->loss_dtype), j->loss_dtype,
                        fac__nest_step(&j->nest, LOSS), n);
    return FAC_OK;
}

/* Points from the cursor to the end of its run, of a tile, or of the block. */
static int64_t next_tile(const job *j, const fac_cursor *c, int64_t left) {
    return fac__min(fac__min(fac__nest_run(&j->nest, c), left), POINTS);
}

static fac_status nll_block(const job *j, int64_t b) {
    totals sums = {{0}, {0}};
    fac_cursor c;
    const int64_t end = fac__min(j->nest.count, (b + 1) * j->block);
    fac__nest_seek(&j->nest, OPERANDS, b * j->block, &c);
    for (int64_t i = b * j->block, n; i < end; i += n) {
        n = next_tile(j, &c, end - i);
        FAC_TRY(forward_tile(j, &c, n, &sums));
        fac__nest_advance(&j->nest, OPERANDS, n, &c);
    }
    j->partial[2 * b] = 0.0 - together(sums.log);
    j->partial[2 * b + 1] = together(sums.weight);
    return FAC_OK;
}

/* Minus the log-probability of class t of a row of logits. The terms of its log-sum-exp are found and kept on the way. */
static double row_loss(const job *j, const fac_cursor *c, int64_t i, int64_t t, void *buffer) {
    const char *row = j->input + c->offset[INPUT] * fac__dtype_size(j->dtype);
    double x = t < 0 ? 0.0 : get(row, j->dtype, t * j->class_step);
    const void *line = row;
    if (!fac__acc_is(j->kind, j->dtype) || j->class_step != 1) {
        fac__tile_load(j->kind, buffer, row, j->dtype, j->class_step, j->classes);
        line = buffer;
    }
    double terms[2];
    terms_of(j, line, terms);
    for (int k = 0; k < 2; k++) put(j->sums, j->sums_dtype, 2 * i + k, terms[k]);
    return (terms[0] - x) + terms[1];
}

static fac_status logits_block(const job *j, int64_t b, void *buffer) {
    double loss = 0, total = 0;
    fac_cursor c;
    int64_t end = fac__min(j->nest.count, (b + 1) * j->block);
    fac__nest_seek(&j->nest, OPERANDS, b * j->block, &c);
    for (int64_t i = b * j->block; i < end; i++, fac__nest_advance(&j->nest, OPERANDS, 1, &c)) {
        int64_t t;
        FAC_TRY(class_at(j, &c, &t));
        double w = t < 0 ? 0.0 : weight_of(j, t), one = row_loss(j, &c, i, t, buffer) * w;
        if (t < 0) one = 0;
        if (j->out) put(j->out, j->loss_dtype, c.offset[LOSS], one);
        loss += one;
        total += w;
    }
    j->partial[2 * b] = loss;
    j->partial[2 * b + 1] = total;
    return FAC_OK;
}

static fac_status forward_blocks(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const job *j = ctx;
    for (int64_t b = begin; b < end; b++) FAC_TRY(j->sums ? logits_block(j, b, buffer) : nll_block(j, b));
    return FAC_OK;
}

/* A row of logits, where it has to be converted. */
static int64_t row_bytes(const job *j) {
    const bool converts = j->sums && (!fac__acc_is(j->kind, j->dtype) || j->class_step != 1);
    return converts ? fac__mul_or_max(j->classes, (int64_t)fac__acc_size(j->kind)) : 0;
}

/* Runs the blocks and reduces; out and total are the results. */
static fac_status run_forward(job *j, fac_tensor *out, fac_tensor *total, bool each, int64_t reduction) {
    int64_t blocks = fac__div_up(j->nest.count, j->block);
    j->out = each ? fac__data(out) : NULL;
    j->loss_dtype = (fac_dtype)out->dtype;
    j->partial = fac__alloc_array((size_t)fac__max(1, blocks), 2 * sizeof(double));
    if (!j->partial) return fac_error();
    fac_status st = fac__parallel_for_scratch(0, blocks, 1, row_bytes(j), forward_blocks, j);
    double loss = 0, weight = 0;
    for (int64_t b = 0; st == FAC_OK && b < blocks; b++) {
        loss += j->partial[2 * b];
        weight += j->partial[2 * b + 1];
    }
    fac__free(j->partial);
    if (!each) put(fac__data(out), j->loss_dtype, 0, reduction == REDUCE_MEAN ? loss / weight : loss);
    put(fac__data(total), (fac_dtype)total->dtype, 0, each ? 0 : weight);
    return st;
}

fac_status nll_loss_forward_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                int64_t reduction, int64_t ignore_index) {
    bool each = reduction == REDUCE_NONE && self->ndim > 1;
    job j;
    for (int i = 0; i < 2; i++) FAC_TRY(fac_out_aside(s, i)); /* a target may turn out to be no class half way */
    plan(&j, self, target, weight, each ? s->out[0] : NULL);
    j.ignore = ignore_index;
    j.block = BLOCK;
    return run_forward(&j, s->out[0], s->out[1], each, reduction);
}

/* A block of logits is as much work as a block of targets. */
static int64_t rows_per_block(int64_t classes) { return fac__max(1, BLOCK / fac__max(1, classes)); }

fac_status _cross_entropy_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                              int64_t reduction, int64_t ignore_index) {
    enum { ACROSS = 16 }; /* elements from one class to the next: each lies in a cache line of its own */
    job j;
    fac_tensor *rows = NULL;
    if (self->ndim > 1 && self->strides[1] >= ACROSS) FAC_TRY(fac__cpu_contiguous(self, &rows));
    plan(&j, rows ? rows : self, target, weight, reduction == REDUCE_NONE ? s->out[0] : NULL);
    j.ignore = ignore_index;
    j.block = rows_per_block(j.classes);
    j.sums = fac__data(s->out[1]);
    j.sums_dtype = (fac_dtype)s->out[1]->dtype;
    const fac_status st = run_forward(&j, s->out[0], s->out[2], reduction == REDUCE_NONE, reduction);
    fac__unref(rows);
    return st;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

/* The factor of a point: its weight times the gradient that reaches it. */
static double point_scale(const job *j, const fac_cursor *c, int64_t t) {
    return t < 0 ? 0.0 : weight_of(j, t) * j->scale * get(j->loss, j->loss_dtype, c->offset[LOSS]);
}

/* Gradients of n points, into the places of their classes; `same`: those of a tile, which are known. */
static fac_status scatter_tile(const job *j, const fac_cursor *c, int64_t n, const fac_item8 *same) {
    const int64_t step = fac__nest_step(&j->nest, INPUT), size = fac__dtype_size(j->dtype);
    char *out = j->out + c->offset[INPUT] * size;
    int64_t t[POINTS];
    double w[POINTS], g[POINTS];
    fac_item8 raw[POINTS];
    FAC_TRY(classes_of(j, c, n, t));
    if (j->clears) memset(out, 0, (size_t)(n * step * size));
    if (same) {
        FAC_ISA_PICK(fac__nll_put)((size_t)size, out, step, j->class_step, t, n, same);
        return FAC_OK;
    }
    weights_of(j, t, n, w);
    fac__tile_load(FAC_ACC_F64, g, j->loss + c->offset[LOSS] * fac__dtype_size(j->loss_dtype), j->loss_dtype,
                   fac__nest_step(&j->nest, LOSS), n);
    for (int64_t i = 0; i < n; i++) w[i] = -(w[i] * j->scale * g[i]);
    fac__tile_store(FAC_ACC_F64, w, raw, j->dtype, 1, n);
    FAC_ISA_PICK(fac__nll_put)((size_t)size, out, step, j->class_step, t, n, raw);
    return FAC_OK;
}

/* Whether one gradient reaches all points. */
static bool one_gradient(const job *j) {
    for (int d = 0; d < j->nest.ndim; d++)
        if (j->nest.stride[LOSS][d] != 0) return false;
    return true;
}

static fac_status scatter_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    fac_cursor c;
    fac_item8 same[POINTS];
    const bool alike = !j->weight && one_gradient(j) && end > begin;
    fac__nest_seek(&j->nest, OPERANDS, begin, &c);
    if (alike) {
        double g[POINTS];
        g[0] = -(j->scale * get(j->loss, j->loss_dtype, c.offset[LOSS]));
        for (int64_t i = 1; i < POINTS; i++) g[i] = g[0];
        fac__tile_store(FAC_ACC_F64, g, same, j->dtype, 1, POINTS);
    }
    for (int64_t i = begin, n; i < end; i += n) {
        n = next_tile(j, &c, end - i);
        FAC_TRY(scatter_tile(j, &c, n, alike ? same : NULL));
        fac__nest_advance(&j->nest, OPERANDS, n, &c);
    }
    return FAC_OK;
}

static fac_status check_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    int64_t t[POINTS];
    fac_cursor c;
    fac__nest_seek(&j->nest, OPERANDS, begin, &c);
    for (int64_t i = begin, n; i < end; i += n) {
        n = next_tile(j, &c, end - i);
        FAC_TRY(classes_of(j, &c, n, t));
        fac__nest_advance(&j->nest, OPERANDS, n, &c);
    }
    return FAC_OK;
}

static fac_status clear_range(void *ctx, int64_t begin, int64_t end) {
    memset((char *)ctx + begin, 0, (size_t)(end - begin));
    return FAC_OK;
}

/* The gradient is row-major whatever the input is, so the nest is laid over it. */
static void plan_backward(job *j, fac_tensor *grad_in, fac_tensor *grad, fac_tensor *target, fac_tensor *weight,
                          int64_t reduction, fac_tensor *total) {
    plan(j, grad_in, target, weight, reduction == REDUCE_NONE ? grad : NULL);
    j->out = fac__data(grad_in);
    j->loss = fac__data(grad);
    j->loss_dtype = (fac_dtype)grad->dtype;
    j->scale = reduction == REDUCE_MEAN ? 1.0 / get(fac__data(total), (fac_dtype)total->dtype, 0) : 1.0;
}

/* All classes are known to be in range before the first zero is written. Rows of classes are cleared as they are come to. */
static fac_status scatter(job *j, const fac_tensor *out) {
    FAC_TRY(fac__parallel_for(0, j->nest.count, BLOCK, check_range, j));
    j->clears = j->class_step == 1 && j->nest.ndim == 1 && fac__nest_step(&j->nest, INPUT) == j->classes;
    if (!j->clears)
        FAC_TRY(fac__parallel_for(0, out->numel * fac__dtype_size((fac_dtype)out->dtype), 4 * FAC_GRAIN, clear_range,
                                  fac__data(out)));
    return fac__parallel_for(0, j->nest.count, BLOCK, scatter_range, j);
}

fac_status nll_loss_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                 fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                 fac_tensor *total_weight) {
    (void)self;
    if (s->out[0]->numel == 0) return FAC_OK;
    fac_rowmajor out;
    job j;
    FAC_TRY(fac__rowmajor_begin(s->out[0], false, &out));
    plan_backward(&j, out.t, grad_output, target, weight, reduction, total_weight);
    j.ignore = ignore_index;
    return fac__rowmajor_end(&out, scatter(&j, out.t));
}

typedef struct rows_job {
    job j;
    fac_rows x, dx;
} rows_job;

/* dx = (exp(x - m) / sum - [class]) * scale, of the row's maximum m and sum. */
static fac_status logit_row(const rows_job *r, int64_t i, const fac_cursor *c, void *buffer) {
    const job *j = &r->j;
    int64_t t;
    FAC_TRY(class_at(j, c, &t));
    double scale = point_scale(j, c, t), m = get(j->sums, j->sums_dtype, 2 * i);
    double share = scale * exp(-get(j->sums, j->sums_dtype, 2 * i + 1));
    const void *x = fac__rows_read(&r->x, i, buffer);
    void *dx = fac__rows_place(&r->dx, i, buffer);
    if (j->kind == FAC_ACC_F32)
        FAC_ISA_PICK(fac__exp_row_f32)(x, (float)m, (float)share, dx, j->classes);
    else
        FAC_ISA_PICK(fac__exp_row_f64)(x, m, share, dx, j->classes);
    if (t >= 0) fac__acc_set(j->kind, dx, t, fac__acc_get(j->kind, dx, t) - scale);
    fac__rows_put(&r->dx, i, dx);
    return FAC_OK;
}

static fac_status logit_rows(void *ctx, int64_t begin, int64_t end, void *buffer) {
    const rows_job *r = ctx;
    fac_cursor c;
    fac__nest_seek(&r->j.nest, OPERANDS, begin, &c);
    for (int64_t i = begin; i < end; i++, fac__nest_advance(&r->j.nest, OPERANDS, 1, &c))
        FAC_TRY(logit_row(r, i, &c, buffer));
    return FAC_OK;
}

fac_status _cross_entropy_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                       fac_tensor *weight, int64_t reduction, int64_t ignore_index,
                                       fac_tensor *row_sums, fac_tensor *total_weight) {
    fac_tensor *out = s->out[0];
    if (out->numel == 0) return FAC_OK;
    rows_job r = {.x = {0}, .dx = {0}};
    fac_tensor *sums;
    FAC_TRY(fac__cpu_contiguous(row_sums, &sums));
    plan_backward(&r.j, out, grad_output, target, weight, reduction, total_weight);
    r.j.ignore = ignore_index;
    r.j.sums = fac__data(sums);
    r.j.sums_dtype = (fac_dtype)sums->dtype;
    fac_status st = fac__rows_open(&r.x, self, r.j.kind, r.j.classes);
    if (st == FAC_OK) st = fac__rows_open(&r.dx, out, r.j.kind, r.j.classes);
    if (st == FAC_OK)
        st = fac__parallel_for_scratch(0, out->sizes[0], rows_per_block(r.j.classes),
                                       fac__mul_or_max(r.j.classes, (int64_t)fac__acc_size(r.j.kind)), logit_rows, &r);
    fac__rows_close(&r.x);
    fac__rows_close(&r.dx);
    fac__unref(sums);
    return st;
}
