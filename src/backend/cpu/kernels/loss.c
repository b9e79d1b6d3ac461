/* Elementwise losses, reduced on the fly: elements go tile by tile through the loss and into a sum, so nothing of the size of
   the input is written unless no reduction is asked for. Blocks of 32768 elements are cut by shape and their sums added in
   order, in double. */
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include "ops_gen.h"

#define BLOCK 32768
enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };
/* Operands of a job; the gradient of the output is there in backward jobs only. */
enum { X, TARGET, WEIGHT, GRAD, OUT, OPERANDS };

typedef struct job {
    fac_loss loss;
    fac_acc kind;
    double p, scale;
    bool backward, one_grad; /* one gradient for every element */
    bool only_checks;        /* looks at the elements, and writes nothing */
    fac_nest nest;           /* over the common shape */
    char *data[OPERANDS];    /* NULL where there is none */
    fac_dtype dtype[OPERANDS];
    double *partial; /* sum of each block; NULL when elements are stored */
} job;

/* Scratch for one tile of each operand. */
static int64_t tiles_bytes(const job *j) { return OPERANDS * FAC_TILE * (int64_t)fac__acc_size(j->kind); }
static void *tile(const job *j, char *tiles, int k) { return tiles + (size_t)(k * FAC_TILE) * fac__acc_size(j->kind); }

/* n elements of operand k from the cursor on, in place if they can be read so. */
static const void *read(const job *j, char *tiles, int k, const fac_cursor *c, int64_t n) {
    if (!j->data[k]) return NULL;
    if (k == GRAD && j->one_grad) return tile(j, tiles, GRAD);
    const char *p = j->data[k] + c->offset[k] * fac__dtype_size(j->dtype[k]);
    int64_t step = fac__nest_step(&j->nest, k);
    if (fac__acc_is(j->kind, j->dtype[k]) && (step == 1 || n == 1)) return p;
    fac__tile_load(j->kind, tile(j, tiles, k), p, j->dtype[k], step, n);
    return tile(j, tiles, k);
}

static void apply(const job *j, const void *g, const void *x, const void *t, void *y, int64_t n) {
    if (j->kind == FAC_ACC_F32) {
        if (j->backward)
            FAC_ISA_PICK(fac__loss_back_f32)(j->loss, g, x, t, j->p, j->scale, y, n);
        else
            FAC_ISA_PICK(fac__loss_f32)(j->loss, x, t, j->p, y, n);
    } else {
        if (j->backward)
            FAC_ISA_PICK(fac__loss_back_f64)(j->loss, g, x, t, j->p, j->scale, y, n);
        else
            FAC_ISA_PICK(fac__loss_f64)(j->loss, x, t, j->p, y, n);
    }
}

static void multiply(fac_acc k, void *y, const void *w, int64_t n) {
    for (int64_t i = 0; w && i < n; i++) {
        if (k == FAC_ACC_F32)
            ((float *)y)[i] *= ((const float *)w)[i];
        else
            ((double *)y)[i] *= ((const double *)w)[i];
    }
}

static fac_status check_probabilities(const job *j, const void *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double v = j->kind == FAC_ACC_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
        FAC_CHECK(v >= 0 && v <= 1, FAC_ERR_ARGUMENT, "all elements of input should be between 0 and 1, got %g", v);
    }
    return FAC_OK;
}

static double sum_of(fac_acc k, const void *y, int64_t n) {
    fac_acc_value acc = {.f64 = 0};
    fac__fold_get(FAC_FOLD_SUM, k).row(y, n, &acc);
    return k == FAC_ACC_F32 ? (double)acc.f32 : acc.f64;
}

/* The losses of n elements, to where they belong or into the sum. */
static void write_losses(const job *j, char *tiles, const fac_cursor *c, const void *x, const void *t, int64_t n,
                         double *sum) {
    char *home = j->data[OUT] + c->offset[OUT] * fac__dtype_size(j->dtype[OUT]);
    bool in_place = !j->partial && fac__acc_is(j->kind, j->dtype[OUT]) && fac__nest_step(&j->nest, OUT) == 1;
    void *y = in_place ? (void *)home : tile(j, tiles, OUT);
    apply(j, read(j, tiles, GRAD, c, n), x, t, y, n);
    multiply(j->kind, y, read(j, tiles, WEIGHT, c, n), n);
    if (j->partial)
        *sum += sum_of(j->kind, y, n);
    else if (!in_place)
        fac__tile_store(j->kind, y, home, j->dtype[OUT], fac__nest_step(&j->nest, OUT), n);
}

/* Elements at a time, which nothing but sums depends on: fewer where several operands with gaps come from memory in turns. */
static int64_t tile_size(const job *j) {
    enum { PAST_CACHE = 4 << 20, TURN = 256 };
    int gaps = 0;
    for (int k = 0; k < OPERANDS; k++) gaps += k != OUT && j->data[k] && fac__nest_step(&j->nest, k) > 1;
    const bool large = j->nest.count * (int64_t)fac__acc_size(j->kind) >= PAST_CACHE;
    return large && gaps > 1 && !j->partial ? TURN : FAC_TILE;
}

static fac_status run_range(const job *j, int64_t i, int64_t end, char *tiles, double *sum) {
    const int64_t most = tile_size(j);
    fac_cursor c;
    fac__nest_seek(&j->nest, OPERANDS, i, &c);
    if (j->one_grad)
        fac__tile_load(j->kind, tile(j, tiles, GRAD), j->data[GRAD], j->dtype[GRAD], 0, fac__min(FAC_TILE, end - i));
    while (i < end) {
        int64_t n = fac__min(fac__min(fac__nest_run(&j->nest, &c), end - i), most);
        const void *x = read(j, tiles, X, &c, n), *t = read(j, tiles, TARGET, &c, n);
        if (j->loss == FAC_LOSS_BINARY && !j->backward) FAC_TRY(check_probabilities(j, x, n));
        if (!j->only_checks) write_losses(j, tiles, &c, x, t, n, sum);
        fac__nest_advance(&j->nest, OPERANDS, n, &c);
        i += n;
    }
    return FAC_OK;
}

static fac_status run_blocks(void *ctx, int64_t begin, int64_t end, void *tiles) {
    const job *j = ctx;
    for (int64_t b = begin; b < end; b++) {
        double sum = 0;
        FAC_TRY(run_range(j, b * BLOCK, fac__min(j->nest.count, (b + 1) * BLOCK), tiles, &sum));
        if (j->partial) j->partial[b] = sum;
    }
    return FAC_OK;
}

/* Lays the operands out over their common shape; returns its number of elements in nest.count. */
static fac_status plan(job *j, fac_tensor *const *operands) {
    int64_t sizes[FAC_MAX_DIMS], next[FAC_MAX_DIMS], strides[OPERANDS][FAC_MAX_DIMS];
    const int64_t *each[OPERANDS];
    int ndim = 0, n;
    for (int k = 0; k < OPERANDS; k++) {
        if (!operands[k] || (k == OUT && j->partial)) continue;
        FAC_TRY(fac__broadcast(sizes, ndim, operands[k]->sizes, operands[k]->ndim, next, &n));
        ndim = n;
        memcpy(sizes, next, (size_t)n * sizeof *sizes);
    }
    for (int k = 0; k < OPERANDS; k++) {
        each[k] = strides[k];
        j->data[k] = operands[k] ? fac__data(operands[k]) : NULL;
        j->dtype[k] = operands[k] ? (fac_dtype)operands[k]->dtype : FAC_F32;
        bool absent = !operands[k] || (k == OUT && j->partial);
        if (absent)
            memset(strides[k], 0, (size_t)ndim * sizeof **strides);
        else
            fac__broadcast_strides(operands[k], ndim, strides[k]);
    }
    fac__nest_build(&j->nest, sizes, ndim, UINT64_MAX, OPERANDS, each, false);
    return FAC_OK;
}

/* ---- operands that lie across the walk ------------------------------------------------------------------------------------ */

/* Copies of operands whose neighbours in the walk are far apart; of the output, where it is made. */
typedef struct aside {
    fac_workspace rooms;
    char *room, *home; /* of the output */
    int64_t strides[FAC_MAX_DIMS];
} aside;

static bool lies_across(const job *j, int k) {
    enum { FAR_BYTES = 64, RUN = 16 };
    if (!j->data[k] || (k == OUT && j->partial) || (k == GRAD && j->one_grad)) return false;
    for (int d = 0; d < j->nest.ndim; d++)
        if (j->nest.stride[k][d] == 0) return false;
    return j->nest.ndim > 1 && j->nest.size[0] >= RUN &&
           fac__nest_step(&j->nest, k) * fac__dtype_size(j->dtype[k]) >= FAR_BYTES;
}

/* All elements of the walk, between where they lie with these strides and a room where they follow each other. */
static fac_status carry(const job *j, int k, const int64_t *strides, char *there, char *room, bool home) {
    const size_t item = (size_t)fac__dtype_size(j->dtype[k]);
    int64_t dense[FAC_MAX_DIMS];
    for (int64_t d = 0, step = 1; d < j->nest.ndim; step *= j->nest.size[d++]) dense[d] = step;
    return home ? fac__items_copy_nd(item, there, strides, room, dense, j->nest.size, j->nest.ndim)
                : fac__items_copy_nd(item, room, dense, there, strides, j->nest.size, j->nest.ndim);
}

static int64_t room_bytes(const job *j, int k) {
    return fac__workspace_round(j->nest.count * fac__dtype_size(j->dtype[k]));
}

static fac_status put_aside(job *j, aside *a) {
    int64_t bytes = 0;
    *a = (aside){.home = NULL};
    for (int k = 0; k < OPERANDS; k++)
        if (lies_across(j, k)) bytes += room_bytes(j, k);
    if (!bytes) return FAC_OK;
    FAC_TRY(fac__workspace_take(bytes, &a->rooms));
    char *room = a->rooms.at;
    for (int k = 0; k < OPERANDS; k++) {
        if (!lies_across(j, k)) continue;
        if (k == OUT) {
            a->room = room;
            a->home = j->data[k];
            memcpy(a->strides, j->nest.stride[k], sizeof a->strides);
        } else {
            FAC_TRY(carry(j, k, j->nest.stride[k], j->data[k], room, false));
        }
        j->data[k] = room;
        room += room_bytes(j, k);
        for (int64_t d = 0, step = 1; d < j->nest.ndim; step *= j->nest.size[d++]) j->nest.stride[k][d] = step;
    }
    return FAC_OK;
}

static fac_status take_home(job *j, aside *a, fac_status st) {
    if (st == FAC_OK && a->home) st = carry(j, OUT, a->strides, a->home, a->room, true);
    if (a->rooms.at) fac__workspace_give(a->rooms);
    return st;
}

static int64_t blocks_of(const job *j) { return fac__div_up(j->nest.count, BLOCK); }

/* Sum or mean of the loss into the 0-dim out. */
static fac_status reduced(job *j, fac_tensor *const *operands, int64_t reduction) {
    double few[16], total = 0;
    j->partial = few;
    FAC_TRY(plan(j, operands));
    int64_t blocks = blocks_of(j);
    double *many = blocks > (int64_t)FAC_COUNT(few) ? fac__alloc_array((size_t)blocks, sizeof(double)) : NULL;
    if (blocks > (int64_t)FAC_COUNT(few) && !many) return fac_error();
    if (many) j->partial = many;
    aside far;
    fac_status st = put_aside(j, &far);
    if (st == FAC_OK) st = fac__parallel_for_scratch(0, blocks, 1, tiles_bytes(j), run_blocks, j);
    st = take_home(j, &far, st);
    for (int64_t b = 0; st == FAC_OK && b < blocks; b++) total += j->partial[b];
    fac__free(many);
    if (st != FAC_OK) return st;
    if (reduction == REDUCE_MEAN) total /= (double)j->nest.count;
    fac__tile_store(FAC_ACC_F64, &total, j->data[OUT], j->dtype[OUT], 1, 1);
    return FAC_OK;
}

/* Elements go straight into the output. A new one may be given up half way; one that was given is checked for first. */
static fac_status elementwise(job *j, bool given) {
    aside far;
    fac_status st = put_aside(j, &far);
    j->only_checks = given && j->loss == FAC_LOSS_BINARY && !j->backward;
    if (j->only_checks && st == FAC_OK)
        st = fac__parallel_for_scratch(0, blocks_of(j), 1, tiles_bytes(j), run_blocks, j);
    j->only_checks = false;
    if (st == FAC_OK) st = fac__parallel_for_scratch(0, blocks_of(j), 1, tiles_bytes(j), run_blocks, j);
    return take_home(j, &far, st);
}

static fac_status forward(fac_structured *s, fac_loss loss, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                          int64_t reduction, double p) {
    job j;
    j.loss = loss;
    j.kind = fac__acc_of((fac_dtype)s->out[0]->dtype);
    j.p = p;
    j.scale = 1;
    j.backward = j.one_grad = j.only_checks = false;
    j.partial = NULL;
    fac_tensor *const operands[OPERANDS] = {[X] = self, [TARGET] = target, [WEIGHT] = weight, [OUT] = s->out[0]};
    if (reduction != REDUCE_NONE) return reduced(&j, operands, reduction);
    FAC_TRY(plan(&j, operands));
    return elementwise(&j, s->form != FAC_FUNCTIONAL);
}

static fac_status backward(fac_structured *s, fac_loss loss, fac_tensor *grad, fac_tensor *self, fac_tensor *target,
                           fac_tensor *weight, int64_t reduction, double p) {
    job j;
    j.loss = loss;
    j.kind = fac__acc_of((fac_dtype)s->out[0]->dtype);
    j.p = p;
    j.scale = reduction == REDUCE_MEAN ? 1.0 / (double)s->out[0]->numel : 1.0;
    j.backward = true;
    j.only_checks = false;
    j.one_grad = grad->numel == 1;
    j.partial = NULL;
    fac_tensor *const operands[OPERANDS] = {
        [X] = self, [TARGET] = target, [WEIGHT] = weight, [GRAD] = grad, [OUT] = s->out[0]};
    FAC_TRY(plan(&j, operands));
    return elementwise(&j, false);
}

fac_status mse_loss_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction) {
    return forward(s, FAC_LOSS_SQUARE, self, target, NULL, reduction, 0);
}

fac_status mse_loss_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                 int64_t reduction) {
    return backward(s, FAC_LOSS_SQUARE, grad_output, self, target, NULL, reduction, 0);
}

fac_status smooth_l1_loss_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction, double beta) {
    return forward(s, FAC_LOSS_SMOOTH, self, target, NULL, reduction, beta);
}

fac_status smooth_l1_loss_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                       int64_t reduction, double beta) {
    return backward(s, FAC_LOSS_SMOOTH, grad_output, self, target, NULL, reduction, beta);
}

fac_status huber_loss_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, int64_t reduction, double delta) {
    return forward(s, FAC_LOSS_HUBER, self, target, NULL, reduction, delta);
}

fac_status huber_loss_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *target,
                                   int64_t reduction, double delta) {
    return backward(s, FAC_LOSS_HUBER, grad_output, self, target, NULL, reduction, delta);
}

fac_status binary_cross_entropy_cpu(fac_structured *s, fac_tensor *self, fac_tensor *target, fac_tensor *weight,
                                    int64_t reduction) {
    return forward(s, FAC_LOSS_BINARY, self, target, weight, reduction, 0);
}

fac_status binary_cross_entropy_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,
                                             fac_tensor *target, fac_tensor *weight, int64_t reduction) {
    return backward(s, FAC_LOSS_BINARY, grad_output, self, target, weight, reduction, 0);
}
