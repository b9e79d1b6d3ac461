/* Margin losses over rows of classes and their gradients. Rows are widened to double, one thread each; the losses of blocks of rows
   are added in order, in double. */
#include "backend/cpu/kernels/margin.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops_gen.h"
#include <math.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };
enum { AT_ONCE = 512 }; /* elements that are widened in one call */

typedef struct margin_job margin_job;
/* The loss of a row x, or, with dx, its gradient times g into dx. `others` is what the job marked. */
typedef double (*row_fn)(const margin_job *j, int64_t row, double *x, double *dx, const double *others, double g);
/* Makes `others` of `rows` rows x: with is_flags it has the rows' flags, which are a caller's. Several rows before the first is read: what
   was just written element by element is slow to be read by vectors. */
typedef void (*mark_fn)(const margin_job *j, int64_t first, int64_t rows, const double *x, bool is_flags,
                        double *others);

struct margin_job {
    row_fn fn;
    mark_fn mark;         /* or NULL */
    fac_tensor *owned[3]; /* input, target, flags: row-major */
    const char *x;
    const int64_t *target;
    const char *weight, *grad;
    int64_t weight_step, grad_step;
    char *out, *flags;
    fac_dtype dtype;
    int64_t rows, classes;
    bool square;
    double margin, scale; /* scale: of the gradient */
    double *losses;       /* of each row */
};

static double get(const char *p, fac_dtype d, int64_t i) {
    double v;
    fac__tile_load(FAC_ACC_F64, &v, p + i * fac__dtype_size(d), d, 1, 1);
    return v;
}
static void put(char *p, fac_dtype d, int64_t i, double v) {
    fac__tile_store(FAC_ACC_F64, &v, p + i * fac__dtype_size(d), d, 1, 1);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

/* The classes that are not the target. */
static void multi_mark(const margin_job *j, int64_t first, int64_t rows, const double *x, bool is_flags,
                       double *others) {
    (void)is_flags;
    memcpy(others, x, (size_t)(rows * j->classes) * sizeof *others);
    for (int64_t i = 0; i < rows; i++) others[i * j->classes + j->target[first + i]] = -INFINITY;
}

static double multi_margin_row(const margin_job *j, int64_t row, double *x, double *dx, const double *others,
                               double g) {
    const int64_t y = j->target[row];
    const double w = (j->weight ? get(j->weight, j->dtype, y * j->weight_step) : 1) / (double)j->classes;
    const double shift = j->margin - x[y];
    if (!dx) return FAC_ISA_PICK(fac__hinge_sum)(others, j->classes, shift, j->square) * w;
    memset(dx, 0, (size_t)j->classes * sizeof *dx);
    dx[y] = 0.0 - FAC_ISA_PICK(fac__hinge_slopes)(others, j->classes, shift, j->square, w * g, dx);
    return 0;
}

/* Targets of a row, which end at the first -1. */
static int64_t targets_of(const margin_job *j, int64_t row) {
    int64_t n = 0;
    while (n < j->classes && j->target[row * j->classes + n] >= 0) n++;
    return n;
}

/* The classes that are no targets. */
static void multilabel_mark(const margin_job *j, int64_t first, int64_t rows, const double *x, bool is_flags,
                            double *others) {
    const int64_t all = rows * j->classes, *target = j->target + first * j->classes;
    if (is_flags) {
        for (int64_t c = 0; c < all; c++) others[c] = others[c] != 0 ? -INFINITY : x[c];
        return;
    }
    memcpy(others, x, (size_t)all * sizeof *others);
    for (int64_t at = 0; at < all; at += j->classes)
        for (int64_t i = 0; i < j->classes && target[at + i] >= 0; i++) others[at + target[at + i]] = -INFINITY;
}

static double multilabel_row(const margin_job *j, int64_t row, double *x, double *dx, const double *others, double g) {
    const int64_t *target = j->target + row * j->classes, n = targets_of(j, row);
    double loss = 0;
    if (dx) memset(dx, 0, (size_t)j->classes * sizeof *dx);
    for (int64_t i = 0; i < n; i++) {
        const double shift = 1 - x[target[i]];
        if (dx)
            dx[target[i]] -=
                FAC_ISA_PICK(fac__hinge_slopes)(others, j->classes, shift, false, g / (double)j->classes, dx);
        else
            loss += FAC_ISA_PICK(fac__hinge_sum)(others, j->classes, shift, false);
    }
    return loss / (double)j->classes;
}

static int64_t rows_at_once(const margin_job *j) { return fac__max(1, AT_ONCE / fac__max(1, j->classes)); }

/* room: three times the rows that are widened at once. */
static fac_status rows_range(void *ctx, int64_t begin, int64_t end, void *room) {
    const margin_job *j = ctx;
    const int64_t bytes = j->classes * fac__dtype_size(j->dtype), most = rows_at_once(j), apart = most * j->classes;
    double *x = room, *dx = j->grad ? x + apart : NULL, *others = x + 2 * apart, g = 0;
    for (int64_t first = begin; first < end; first += most) {
        const int64_t rows = fac__min(most, end - first), n = rows * j->classes;
        fac__tile_load(FAC_ACC_F64, x, j->x + first * bytes, j->dtype, 1, n);
        if (j->flags && dx) fac__tile_load(FAC_ACC_F64, others, j->flags + first * bytes, j->dtype, 1, n);
        if (j->mark) j->mark(j, first, rows, x, j->flags && dx, others);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = i * j->classes;
            if (dx && (j->grad_step || i == 0)) g = get(j->grad, j->dtype, (first + i) * j->grad_step) * j->scale;
            const double loss = j->fn(j, first + i, x + at, dx ? dx + at : NULL, others + at, g);
            if (!dx) j->losses[first + i] = loss;
        }
        if (dx) fac__tile_store(FAC_ACC_F64, dx, j->out + first * bytes, j->dtype, 1, n);
    }
    return FAC_OK;
}

static fac_status run_rows(margin_job *j) {
    return fac__parallel_for_scratch(0, j->rows, fac__grain(FAC_GRAIN / 8, j->classes),
                                     fac__mul_or_max(fac__mul_or_max(rows_at_once(j), j->classes), 3 * sizeof(double)),
                                     rows_range, j);
}

/* ---- operands and results ------------------------------------------------------------------------------------------------- */

static fac_status open_margin(margin_job *j, fac_tensor *self, fac_tensor *target) {
    j->dtype = (fac_dtype)self->dtype;
    j->rows = self->ndim == 2 ? self->sizes[0] : 1;
    j->classes = self->ndim ? self->sizes[self->ndim - 1] : 1;
    FAC_TRY(fac__cpu_contiguous(self, &j->owned[0]));
    FAC_TRY(fac__cpu_contiguous(target, &j->owned[1]));
    j->x = fac__data(j->owned[0]);
    j->target = fac__data(j->owned[1]);
    return FAC_OK;
}

static void margin_free(margin_job *j) {
    for (size_t i = 0; i < FAC_COUNT(j->owned); i++) fac__unref(j->owned[i]);
}

typedef struct check_job {
    const margin_job *j;
    int64_t least;
} check_job;

static fac_status check_range(void *ctx, int64_t begin, int64_t end) {
    const check_job *k = ctx;
    const margin_job *j = k->j;
    if (!FAC_ISA_PICK(fac__some_outside)(j->target + begin, end - begin, k->least, j->classes)) return FAC_OK;
    for (int64_t i = begin; i < end; i++)
        FAC_CHECK(j->target[i] >= k->least && j->target[i] < j->classes, FAC_ERR_INDEX,
                  "target %lld is out of range for %lld classes", (long long)j->target[i], (long long)j->classes);
    return FAC_OK;
}

static fac_status check_classes(const margin_job *j, int64_t n, int64_t least) {
    check_job k = {j, least};
    return fac__parallel_for(0, n, FAC_GRAIN, check_range, &k);
}

/* The losses of all rows into out: each, or their sum or mean. */
static fac_status run_forward(margin_job *j, fac_tensor *out, int64_t reduction) {
    double sum = 0;
    j->losses = fac__alloc_array((size_t)j->rows + 1, sizeof *j->losses);
    if (!j->losses) return fac_error();
    fac_status st = run_rows(j);
    for (int64_t i = 0; st == FAC_OK && i < j->rows; i++) {
        sum += j->losses[i];
        if (out->ndim) put(fac__data(out), j->dtype, i * out->strides[0], j->losses[i]);
    }
    if (st == FAC_OK && !out->ndim)
        put(fac__data(out), j->dtype, 0, reduction == REDUCE_MEAN ? sum / (double)j->rows : sum);
    fac__free(j->losses);
    return st;
}

static fac_status run_backward(margin_job *j, fac_tensor *out, fac_tensor *grad_output, int64_t reduction) {
    fac_rowmajor r;
    if (out->numel == 0) return FAC_OK;
    FAC_TRY(fac__rowmajor_begin(out, false, &r));
    j->grad = fac__data(grad_output);
    j->grad_step = grad_output->numel > 1 ? grad_output->strides[0] : 0;
    j->scale = reduction == REDUCE_MEAN ? 1 / (double)j->rows : 1;
    j->out = fac__data(r.t);
    return fac__rowmajor_end(&r, run_rows(j));
}

static fac_status open_multi_margin(margin_job *j, fac_tensor *self, fac_tensor *target, fac_scalar p,
                                    fac_scalar margin, fac_tensor *weight) {
    *j = (margin_job){.fn = multi_margin_row,
                      .mark = multi_mark,
                      .square = fac__scalar_f64(p) == 2,
                      .margin = fac__scalar_f64(margin)};
    FAC_TRY(open_margin(j, self, target));
    j->weight = weight ? fac__data(weight) : NULL;
    j->weight_step = weight ? weight->strides[0] : 0;
    return check_classes(j, j->rows, 0);
}

fac_status multi_margin_loss_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_scalar p,
                                 fac_scalar margin, fac_tensor *weight, int64_t reduction) {
    margin_job j;
    fac_status st = open_multi_margin(&j, self, target, p, margin, weight);
    if (st == FAC_OK) st = run_forward(&j, s->out[0], reduction);
    margin_free(&j);
    return st;
}

fac_status multi_margin_loss_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                          fac_tensor *target, fac_scalar p, fac_scalar margin, fac_tensor *weight,
                                          int64_t reduction) {
    margin_job j;
    fac_status st = open_multi_margin(&j, self, target, p, margin, weight);
    if (st == FAC_OK) st = run_backward(&j, s->out[0], grad_output, reduction);
    margin_free(&j);
    return st;
}

/* A one for each class that is a target. */
static fac_status mark_range(void *ctx, int64_t begin, int64_t end) {
    const margin_job *j = ctx;
    const int64_t item = fac__dtype_size(j->dtype);
    _Alignas(16) char one[16];
    put(one, j->dtype, 0, 1);
    memset(j->flags + begin * j->classes * item, 0, (size_t)((end - begin) * j->classes * item));
#define MARK(T)                                                                                          \
    for (int64_t row = begin; row < end; row++) {                                                        \
        const int64_t *target = j->target + row * j->classes;                                            \
        T *flags = (T *)(void *)j->flags + row * j->classes;                                             \
        for (int64_t i = 0; i < j->classes && target[i] >= 0; i++) flags[target[i]] = *(T *)(void *)one; \
    }
    FAC_ITEM_SWITCH(item, MARK)
#undef MARK
    return FAC_OK;
}

/* The flags are marked apart, since the loss reads them and may want for memory before anything may be written. */
static fac_status multilabel_forward(margin_job *j, fac_tensor *loss, const fac_rowmajor *is_target,
                                     int64_t reduction) {
    const fac_tensor *t = is_target->t;
    FAC_TRY(fac__empty(t->sizes, t->ndim, j->dtype, t->device, &j->owned[2]));
    j->flags = fac__data(j->owned[2]);
    FAC_TRY(fac__parallel_for(0, j->rows, fac__grain(FAC_GRAIN, j->classes), mark_range, j));
    FAC_TRY(run_forward(j, loss, reduction));
    if (t->numel) memcpy(fac__data(t), j->flags, (size_t)t->numel * fac__dtype_size(j->dtype));
    return FAC_OK;
}

fac_status multilabel_margin_loss_forward_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target,
                                              int64_t reduction) {
    margin_job j = {.fn = multilabel_row, .mark = multilabel_mark};
    fac_rowmajor is_target;
    fac_status st = open_margin(&j, self, target);
    if (st == FAC_OK) st = check_classes(&j, j.rows * j.classes, -1);
    if (st == FAC_OK) st = fac__rowmajor_begin(s->out[1], false, &is_target);
    if (st == FAC_OK) st = fac__rowmajor_end(&is_target, multilabel_forward(&j, s->out[0], &is_target, reduction));
    margin_free(&j);
    return st;
}

fac_status multilabel_margin_loss_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                               fac_tensor *target, int64_t reduction, fac_tensor *is_target) {
    margin_job j = {.fn = multilabel_row, .mark = multilabel_mark};
    fac_status st = open_margin(&j, self, target);
    if (st == FAC_OK) st = check_classes(&j, j.rows * j.classes, -1);
    if (st == FAC_OK) st = fac__cpu_contiguous(is_target, &j.owned[2]);
    if (st == FAC_OK) {
        j.flags = fac__data(j.owned[2]);
        st = run_backward(&j, s->out[0], grad_output, reduction);
    }
    margin_free(&j);
    return st;
}
