/* Sampling at given points, and its gradients. Tiles of points run in parallel: of the result and of the gradient of the grid, every
   element is written by one tile. The gradient of the input is a sum over points: channels run in parallel, the points of each in
   order, so that it does not depend on the threads. f16 and bf16 are widened to f32 first, all of them, and rounded once. */
#include "backend/cpu/kernels/grid.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

/* ---- operands ----------------------------------------------------------------------------------------------------------------- */

static fac_dtype working(fac_dtype d) { return fac__is_half(d) ? FAC_F32 : d; }

/* Owned, in the type of sums: t itself if it is so and `rows` are not asked for, or a row-major copy. */
static fac_status widened(fac_tensor *t, bool rows, fac_tensor **out) {
    const fac_dtype d = working((fac_dtype)t->dtype);
    *out = NULL;
    if (t->dtype == d && (!rows || fac__is_contiguous(t))) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(t->sizes, t->ndim, d, t->device, out));
    fac_status st = fac__cpu_copy(*out, t);
    if (st == FAC_OK) return FAC_OK;
    fac__unref(*out);
    *out = NULL;
    return st;
}

/* Owned: `target`, or what stands in for it, row-major and in the type of sums. */
static fac_status stand_in(fac_tensor *target, fac_tensor **out) {
    const fac_dtype d = working((fac_dtype)target->dtype);
    if (target->dtype != d || !fac__is_contiguous(target))
        return fac__empty(target->sizes, target->ndim, d, target->device, out);
    *out = fac__ref(target);
    return FAC_OK;
}

/* Elements from the first of a plane to the last, by its strides; more than fit an int32_t count as INT64_MAX. */
static int64_t extent(int nd, const int64_t *sizes, const int64_t *strides) {
    int64_t all = 1;
    for (int d = 0; d < nd; d++) {
        if (strides[d] > INT32_MAX || sizes[d] > INT32_MAX) return INT64_MAX;
        all += (sizes[d] - 1) * strides[d];
    }
    return all > INT32_MAX ? INT64_MAX : all;
}

/* The tensors of a call, in the type of sums. */
typedef struct operands {
    fac_tensor *input, *grid, *grad;
} operands;

static void close_operands(operands *o) {
    fac__unref(o->input);
    fac__unref(o->grid);
    fac__unref(o->grad);
}

static fac_status open_operands(operands *o, fac_tensor *input, fac_tensor *grid, fac_tensor *grad, fac_grid_job *j) {
    const int nd = j->g.nd;
    const bool wide = extent(nd, input->sizes + 2, input->strides + 2) == INT64_MAX;
    FAC_TRY(widened(input, wide, &o->input));
    FAC_TRY(widened(grid, true, &o->grid));
    if (grad) FAC_TRY(widened(grad, true, &o->grad));
    const fac_tensor *in = o->input;
    FAC_CHECK(extent(nd, in->sizes + 2, in->strides + 2) < INT64_MAX, FAC_ERR_UNSUPPORTED,
              "planes of 2^31 elements or more, as of %s, are not sampled", FAC_SHAPE_TEXT(input));
    memcpy(j->stride, in->strides + 2, (size_t)nd * sizeof *j->stride);
    j->sample = in->strides[0], j->channel = in->strides[1];
    j->input = fac__data(in), j->grid = fac__data(o->grid), j->grad = o->grad ? fac__data(o->grad) : NULL;
    return FAC_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------ */

static const fac_grid_loops *loops_of(const operands *o) {
    return &FAC_ISA_PICK(fac__grid_loops)[o->input->dtype == FAC_F64];
}

typedef struct run {
    const fac_grid_job *j;
    const fac_grid_loops *loops;
    void (*tile)(const fac_grid_job *j, int64_t n, int64_t begin, int64_t end);
    int64_t tiles; /* of a sample */
} run;

static fac_status run_tiles(void *ctx, int64_t begin, int64_t end) {
    const run *r = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i % r->tiles * FAC_GRID_TILE;
        r->tile(r->j, i / r->tiles, at, fac__min(r->j->g.points, at + FAC_GRID_TILE));
    }
    return FAC_OK;
}

static fac_status over_points(run *r) {
    const fac_grid *g = &r->j->g;
    r->tiles = fac__div_up(g->points, FAC_GRID_TILE);
    const int64_t work = fac__mul_or_max(4 * FAC_GRID_TILE, g->channels + 4);
    return fac__parallel_for(0, g->batch * r->tiles, fac__grain(FAC_GRAIN, work), run_tiles, r);
}

/* Channels [begin, end) of all samples as one row of them. */
static fac_status run_channels(void *ctx, int64_t begin, int64_t end) {
    const run *r = ctx;
    const fac_grid *g = &r->j->g;
    for (int64_t c = begin, next; c < end; c = next) {
        const int64_t n = c / g->channels, first = c % g->channels;
        next = fac__min(end, (n + 1) * g->channels);
        for (int64_t at = 0; at < g->points; at += FAC_GRID_TILE)
            r->loops->to_input(r->j, n, at, fac__min(g->points, at + FAC_GRID_TILE), first, first + next - c);
    }
    return FAC_OK;
}

/* Tiles are worked out again for each chunk: more channels in one cost less, fewer keep more threads at work. */
static fac_status over_channels(run *r) {
    const fac_grid *g = &r->j->g;
    const int64_t all = g->batch * g->channels;
    return fac__parallel_for(0, all, fac__max(1, fac__min(all / 8, 16)), run_channels, r);
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------ */

static fac_status sample(fac_structured *s, fac_tensor *input, fac_tensor *grid, fac_grid_job *j) {
    operands o = {0};
    fac_tensor *to = NULL;
    if (s->out[0]->numel == 0) return FAC_OK;
    fac_status st = open_operands(&o, input, grid, NULL, j);
    if (st == FAC_OK) st = stand_in(s->out[0], &to);
    if (st == FAC_OK) {
        j->to = fac__data(to);
        run r = {.j = j, .loops = loops_of(&o), .tile = loops_of(&o)->forward};
        st = over_points(&r);
        if (st == FAC_OK && to != s->out[0]) st = fac__cpu_copy(s->out[0], to);
    }
    fac__unref(to);
    close_operands(&o);
    return st;
}

/* One of the gradients; which: 0 the input's, 1 the grid's. */
static fac_status one_gradient(const operands *o, const fac_grid_job *job, int which, fac_tensor *target) {
    fac_tensor *to;
    fac_grid_job j = *job;
    if (target->numel == 0) return FAC_OK;
    FAC_TRY(stand_in(target, &to));
    j.to = fac__data(to);
    if (which == 0) fac__row_major(target->sizes + 2, j.g.nd, j.stride); /* points are added where `to` has them */
    run r = {.j = &j, .loops = loops_of(o), .tile = loops_of(o)->to_grid};
    memset(j.to, 0, (size_t)to->numel * fac__dtype_size((fac_dtype)to->dtype));
    fac_status st = o->grad->numel == 0 ? FAC_OK : which ? over_points(&r) : over_channels(&r);
    if (st == FAC_OK && to != target) st = fac__cpu_copy(target, to);
    fac__unref(to);
    return st;
}

static fac_status gradients(fac_structured *s, fac_tensor *grad, fac_tensor *input, fac_tensor *grid, fac_grid_job *j) {
    operands o = {0};
    fac_status st = open_operands(&o, input, grid, grad, j);
    for (int i = 0; i < 2 && st == FAC_OK; i++)
        if (s->out[i]) st = one_gradient(&o, j, i, s->out[i]);
    close_operands(&o);
    return st;
}

#define GRID_CPU(nd)                                                                                                 \
    fac_status grid_sampler_##nd##d_cpu(fac_structured *s, fac_tensor *input, fac_tensor *grid,                      \
                                        int64_t interpolation_mode, int64_t padding_mode, bool align_corners) {      \
        fac_grid_job j = {0};                                                                                        \
        FAC_TRY(fac__grid_plan(nd, input, grid, interpolation_mode, padding_mode, align_corners, &j.g));             \
        return sample(s, input, grid, &j);                                                                           \
    }                                                                                                                \
    fac_status grid_sampler_##nd##d_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *input,      \
                                                 fac_tensor *grid, int64_t interpolation_mode, int64_t padding_mode, \
                                                 bool align_corners, fac_ints output_mask) {                         \
        fac_grid_job j = {0};                                                                                        \
        (void)output_mask;                                                                                           \
        FAC_TRY(fac__grid_plan(nd, input, grid, interpolation_mode, padding_mode, align_corners, &j.g));             \
        return gradients(s, grad_output, input, grid, &j);                                                           \
    }
GRID_CPU(2)
GRID_CPU(3)
