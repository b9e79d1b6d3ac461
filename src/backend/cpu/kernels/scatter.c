/* Scattering. The index space is cut in two: points that cannot meet (shared out to threads) and, for each chunk of them,
   the dimensions along which they can, walked in row-major order. So sums do not depend on the number of threads. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/scatter_runs.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include <stdlib.h>

enum {
    MIN_CHUNK = 256, /* points that cannot meet are not cut finer: rows are walked once per chunk */
    SUM_TASKS = 16
};

typedef struct scatter_job {
    const fac_scatter_plan *s;
    fac_scatter_run_fn run;
    fac_nest apart, meeting; /* points that cannot meet, and those that can: dst, index, src */
    int64_t item;
    bool apart_first; /* each point that cannot meet walks all that can: they lie closer together */
} scatter_job;

typedef struct span {
    const fac_nest *nest;
    int64_t begin, end;
} span;

/* The points of a run of `inner`, from where both cursors are; so many times along `outer`, a row each. */
static void run_rows(const scatter_job *j, const span *inner, const fac_cursor *at, const fac_cursor *from, int64_t n,
                     const fac_nest *outer, int64_t rows) {
    const fac_scatter_plan *s = j->s;
    const fac_nest *nest = inner->nest;
    j->run(s->dst + (from->offset[0] + at->offset[0]) * j->item, fac__nest_step(nest, 0),
           s->index + from->offset[1] + at->offset[1], fac__nest_step(nest, 1), s->step,
           s->src + (from->offset[2] + at->offset[2]) * j->item, fac__nest_step(nest, 2), n,
           (fac_scatter_rows){rows, fac__nest_step(outer, 0), fac__nest_step(outer, 1), fac__nest_step(outer, 2)});
}

/* For each point of `outer` those of `inner`. */
static void walk(const scatter_job *j, const span *outer, const span *inner) {
    const bool one_run = inner->nest->ndim <= 1; /* which a cursor would cost more than */
    fac_cursor from, first;
    fac__nest_seek(outer->nest, 3, outer->begin, &from);
    fac__nest_seek(inner->nest, 3, inner->begin, &first);
    for (int64_t i = outer->begin, rows; i < outer->end; i += rows) {
        rows = one_run ? fac__min(fac__nest_run(outer->nest, &from), outer->end - i) : 1;
        fac_cursor at = first;
        for (int64_t k = inner->begin, n; k < inner->end; k += n) {
            n = fac__min(fac__nest_run(inner->nest, &at), inner->end - k);
            run_rows(j, inner, &at, &from, n, outer->nest, rows);
            if (k + n < inner->end) fac__nest_advance(inner->nest, 3, n, &at);
        }
        if (i + rows < outer->end) fac__nest_advance(outer->nest, 3, rows, &from);
    }
}

static fac_status scatter_range(void *ctx, int64_t begin, int64_t end) {
    const scatter_job *j = ctx;
    const span apart = {&j->apart, begin, end}, meeting = {&j->meeting, 0, j->meeting.count};
    if (j->apart_first)
        walk(j, &apart, &meeting);
    else
        walk(j, &meeting, &apart);
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
        j.apart_first = true;
        return scatter_range(&j, 0, 1);
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
    int64_t out_rows, n, width, row, item; /* row, item: in bytes */
} sum_job;

/* Brings a row of sums to the cache; the last element may lie in one more line. */
static void fetch(const char *at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += FAC_CACHE_LINE) __builtin_prefetch(at + i, 1);
}

/* The sums of rows [begin, end): cleared, then found in the cache by those rows of src that belong to them. */
static fac_status sum_range(void *ctx, int64_t begin, int64_t end) {
    const sum_job *j = ctx;
    memset(j->out + begin * j->row, 0, (size_t)((end - begin) * j->row));
    for (int64_t i = 0; i < j->n; i++)
        if (j->index[i] >= begin && j->index[i] < end)
            j->run(j->out, 1, j->index + i, 0, j->width, j->src + i * j->row, 1, j->width, FAC_SCATTER_ONE_ROW);
    return FAC_OK;
}

/* The sums of columns [begin, end): src is read in order, and the sums that it next adds to are fetched meanwhile. */
static fac_status sum_columns(void *ctx, int64_t begin, int64_t end) {
    enum { AHEAD = 2 }; /* rows */
    const sum_job *j = ctx;
    char *const out = j->out + begin * j->item;
    const char *const src = j->src + begin * j->item;
    const int64_t bytes = (end - begin) * j->item;
    if (bytes == j->row)
        memset(out, 0, (size_t)(j->out_rows * bytes));
    else
        for (int64_t i = 0; i < j->out_rows; i++) memset(out + i * j->row, 0, (size_t)bytes);
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t to = j->index[i], next = i + AHEAD < j->n ? j->index[i + AHEAD] : -1;
        if (next >= 0 && next < j->out_rows) fetch(out + next * j->row, bytes);
        if (to >= 0 && to < j->out_rows)
            j->run(out, 1, j->index + i, 0, j->width, src + i * j->row, 1, end - begin, FAC_SCATTER_ONE_ROW);
    }
    return FAC_OK;
}

/* Each sum is made in the order of src however work is cut: by columns if each thread has some cache lines of every row. By rows every
   task looks through all indices, so there are few if rows are short. */
fac_status fac__sum_rows(fac_dtype dtype, char *out, int64_t out_rows, const char *src, const int64_t *index, int64_t n,
                         int64_t width) {
    enum { PIECE = 128 }; /* bytes of a row */
    sum_job j = {.run = FAC_ISA_PICK(fac__scatter_pick)(dtype, FAC_SCATTER_ADD),
                 .out = out,
                 .src = src,
                 .index = index,
                 .out_rows = out_rows,
                 .n = n,
                 .width = width,
                 .row = width * fac__dtype_size(dtype),
                 .item = fac__dtype_size(dtype)};
    const int64_t tasks = fac__min(SUM_TASKS, fac__min(width / 8, (out_rows + n) * width / FAC_GRAIN) + 1);
    const int64_t piece = PIECE / j.item, threads = fac__parallel_threads(0, tasks, 1);
    if (width < piece * threads) return fac__parallel_for(0, out_rows, out_rows / tasks + 1, sum_range, &j);
    const int64_t pieces = fac__div_up(width, piece);
    return fac__parallel_for(0, width, fac__div_up(pieces, threads) * piece, sum_columns, &j);
}
