/* Scattering. The index space is cut in two: points that cannot meet (shared out to threads) and, for each chunk of them,
   the dimensions along which they can, walked in row-major order. So sums do not depend on the number of threads. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/scatter_runs.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include <stdlib.h>

enum {
    MIN_CHUNK = 256, /* points that cannot meet are not cut finer: rows are walked once per chunk */
    FEW_MEET = 32,
    SUM_TASKS = 16
};

typedef struct scatter_job {
    const fac_scatter_plan *s;
    fac_scatter_run_fn run;
    fac_nest apart, meeting; /* points that cannot meet, and those that can: dst, index, src */
    int64_t item;
    bool apart_first; /* each point that cannot meet walks all that can: they lie closer together */
} scatter_job;

/* Points [begin, end) of a nest, from a place that a cursor of the other nest gives. */
static void walk(const scatter_job *j, const fac_nest *nest, int64_t begin, int64_t end, const fac_cursor *from) {
    const fac_scatter_plan *s = j->s;
    fac_cursor c;
    if (nest->ndim <= 1) { /* one run, which a cursor would cost more than */
        const int64_t step[] = {fac__nest_step(nest, 0), fac__nest_step(nest, 1), fac__nest_step(nest, 2)};
        j->run(s->dst + (from->offset[0] + begin * step[0]) * j->item, step[0],
               s->index + from->offset[1] + begin * step[1], step[1], s->step,
               s->src + (from->offset[2] + begin * step[2]) * j->item, step[2], end - begin);
        return;
    }
    fac__nest_seek(nest, 3, begin, &c);
    for (int64_t i = begin; i < end;) {
        int64_t n = fac__min(fac__nest_run(nest, &c), end - i);
        j->run(s->dst + (from->offset[0] + c.offset[0]) * j->item, fac__nest_step(nest, 0),
               s->index + from->offset[1] + c.offset[1], fac__nest_step(nest, 1), s->step,
               s->src + (from->offset[2] + c.offset[2]) * j->item, fac__nest_step(nest, 2), n);
        fac__nest_advance(nest, 3, n, &c);
        i += n;
    }
}

/* Where few can meet, blocks of points that cannot take one step after the other together: none waits for its own last sum. */
static void scatter_blocks(const scatter_job *j, int64_t begin, int64_t end) {
    enum { BLOCK = 64 };
    for (int64_t i = begin; i < end; i += BLOCK)
        for (int64_t m = 0; m < j->meeting.count; m++) {
            fac_cursor from;
            for (int k = 0; k < 3; k++) from.offset[k] = m * fac__nest_step(&j->meeting, k);
            walk(j, &j->apart, i, fac__min(end, i + BLOCK), &from);
        }
}

static fac_status scatter_range(void *ctx, int64_t begin, int64_t end) {
    const scatter_job *j = ctx;
    fac_cursor c;
    if (j->apart_first && j->meeting.count <= FEW_MEET && j->meeting.ndim <= 1 && j->apart.ndim <= 1) {
        scatter_blocks(j, begin, end);
        return FAC_OK;
    }
    if (j->apart_first) {
        fac__nest_seek(&j->apart, 3, begin, &c);
        for (int64_t i = begin; i < end; i++) {
            walk(j, &j->meeting, 0, j->meeting.count, &c);
            fac__nest_advance(&j->apart, 3, 1, &c);
        }
        return FAC_OK;
    }
    fac__nest_seek(&j->meeting, 3, 0, &c);
    for (int64_t m = 0; m < j->meeting.count; m++) {
        walk(j, &j->apart, begin, end, &c);
        fac__nest_advance(&j->meeting, 3, 1, &c);
    }
    return FAC_OK;
}

/* How far apart the neighbours of a nest lie in all three: in the destination by `step` at least where the index changes. */
static int64_t distance(const fac_nest *n, int64_t step) {
    const int64_t index = llabs(fac__nest_step(n, 1));
    return llabs(fac__nest_step(n, 0)) + (index ? llabs(step) : 0) + index + llabs(fac__nest_step(n, 2));
}

fac_status fac__scatter_run(const fac_scatter_plan *s) {
    scatter_job j = {
        .s = s, .run = FAC_ISA_PICK(fac__scatter_pick)(s->dtype, s->op), .item = fac__dtype_size(s->dtype)};
    FAC_CHECK(j.run, FAC_ERR_DTYPE, "%s has no order, so there is no largest or smallest", fac_dtype_name(s->dtype));
    const int64_t *strides[3] = {s->dst_strides, s->index_strides, s->src_strides};
    fac__nest_build(&j.apart, s->sizes, s->ndim, ~s->conflicts, 3, strides, true);
    fac__nest_build(&j.meeting, s->sizes, s->ndim, s->conflicts, 3, strides, true);
    if (j.apart.count == 0 || j.meeting.count == 0) return FAC_OK;
    if (j.apart.count == 1) { /* all may meet: one long walk */
        fac_cursor origin = {.offset = {0}};
        walk(&j, &j.meeting, 0, j.meeting.count, &origin);
        return FAC_OK;
    }
    j.apart_first = j.meeting.count > 1 && distance(&j.meeting, s->step) < distance(&j.apart, s->step);
    const int64_t least = j.apart_first ? 1 : fac__max(MIN_CHUNK, j.apart.count / 16);
    return fac__parallel_for(0, j.apart.count, fac__max(fac__grain(FAC_GRAIN, j.meeting.count), least), scatter_range,
                             &j);
}

/* ---- rows --------------------------------------------------------------------------------------------------------------- */

typedef struct sum_job {
    fac_scatter_run_fn run;
    char *out;
    const char *src;
    const int64_t *index;
    int64_t n, width, row; /* row: in bytes */
} sum_job;

/* Sums [begin, end): cleared, then found in the cache by those rows of src that belong to them. */
static fac_status sum_range(void *ctx, int64_t begin, int64_t end) {
    const sum_job *j = ctx;
    memset(j->out + begin * j->row, 0, (size_t)((end - begin) * j->row));
    for (int64_t i = 0; i < j->n; i++)
        if (j->index[i] >= begin && j->index[i] < end)
            j->run(j->out, 1, j->index + i, 0, j->width, j->src + i * j->row, 1, j->width);
    return FAC_OK;
}

/* Every task looks through all indices, so there are few if rows are short. */
fac_status fac__sum_rows(fac_dtype dtype, char *out, int64_t out_rows, const char *src, const int64_t *index, int64_t n,
                         int64_t width) {
    sum_job j = {.run = FAC_ISA_PICK(fac__scatter_pick)(dtype, FAC_SCATTER_ADD),
                 .out = out,
                 .src = src,
                 .index = index,
                 .n = n,
                 .width = width,
                 .row = width * fac__dtype_size(dtype)};
    int64_t tasks = fac__min(SUM_TASKS, fac__min(width / 8, (out_rows + n) * width / FAC_GRAIN) + 1);
    return fac__parallel_for(0, out_rows, out_rows / tasks + 1, sum_range, &j);
}
