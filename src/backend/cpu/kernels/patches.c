/* Patches as columns and back. A row of the columns is one element of the window at every place: the rows of a plane, moved, which are
   copied where they lie inside and zero elsewhere. Back, a plane is summed from its rows of columns in their order, in the
   accumulation type, on one thread: results do not depend on the number of threads. */
#include "ops/patches.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "ops_gen.h"

/* One element of the window along one dimension: for window o in [begin, end) it lies inside, at o * stride + shift. */
typedef struct tap {
    int64_t begin, end, shift;
} tap;

static tap tap_at(const fac_patches *p, int d, int64_t k) {
    const int64_t shift = k * p->dilation[d] - p->padding[d], step = p->stride[d];
    const int64_t begin = shift >= 0 ? 0 : fac__div_up(-shift, step), room = p->in[d] - shift;
    const int64_t end = room <= 0 ? 0 : fac__div_up(room, step);
    const int64_t first = fac__min(begin, p->out[d]);
    return (tap){first, fac__max(first, fac__min(end, p->out[d])), shift};
}

typedef struct job {
    fac_patches p;
    fac_dtype dtype;
    fac_acc kind; /* of sums */
    size_t item;
    const char *from;
    char *to;
} job;

/* ---- to columns ------------------------------------------------------------------------------------------------------------------ */

static void copy_line(const job *j, const tap *x, const char *from, char *to) {
    const fac_patches *p = &j->p;
    const size_t item = j->item;
    memset(to, 0, (size_t)x->begin * item);
    const char *src = from + (x->begin * p->stride[1] + x->shift) * (int64_t)item;
    char *dst = to + (size_t)x->begin * item;
    if (x->end > x->begin && p->stride[1] == 1)
        memcpy(dst, src, (size_t)(x->end - x->begin) * item);
    else if (x->end > x->begin)
        fac__items_copy(item, dst, (int64_t)item, src, p->stride[1] * (int64_t)item, x->end - x->begin);
    memset(to + (size_t)x->end * item, 0, (size_t)(p->out[1] - x->end) * item);
}

/* Rows [begin, end) of the columns of all planes. */
static fac_status fill_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const fac_patches *p = &j->p;
    const int64_t out_line = p->out[1] * (int64_t)j->item, in_line = p->in[1] * (int64_t)j->item;
    for (int64_t r = begin; r < end; r++) {
        const tap y = tap_at(p, 0, r % p->taps / p->kernel[1]), x = tap_at(p, 1, r % p->kernel[1]);
        const char *plane = j->from + r / p->taps * p->in[0] * in_line;
        char *row = j->to + r * p->out[0] * out_line;
        memset(row, 0, (size_t)(y.begin * out_line));
        for (int64_t o = y.begin; o < y.end; o++)
            copy_line(j, &x, plane + (o * p->stride[0] + y.shift) * in_line, row + o * out_line);
        memset(row + y.end * out_line, 0, (size_t)((p->out[0] - y.end) * out_line));
    }
    return FAC_OK;
}

fac_status im2col_cpu(fac_structured *s, fac_tensor *self, fac_ints kernel_size, fac_ints dilation, fac_ints padding,
                      fac_ints stride) {
    job j = {.item = fac__dtype_size((fac_dtype)self->dtype)};
    fac_tensor *image;
    fac_rowmajor out;
    FAC_TRY(fac__patches_plan(self, &(fac_patches_args){kernel_size, dilation, padding, stride}, &j.p));
    if (s->out[0]->numel == 0) return FAC_OK;
    FAC_TRY(fac__cpu_contiguous(self, &image));
    fac_status st = fac__rowmajor_begin(s->out[0], false, &out);
    if (st == FAC_OK) {
        j.from = fac__data(image), j.to = fac__data(out.t);
        const int64_t windows = j.p.out[0] * j.p.out[1];
        st = fac__parallel_for(0, j.p.planes * j.p.taps, fac__grain(2 * FAC_GRAIN, windows), fill_rows, &j);
        st = fac__rowmajor_end(&out, st);
    }
    fac__unref(image);
    return st;
}

/* ---- from columns ---------------------------------------------------------------------------------------------------------------- */

#define ADD(SUF, T, S, N)                                                                                             \
    static void add_##SUF(T *restrict to, int64_t step, const T *restrict from, int64_t n) {                          \
        if (step == 1)                                                                                                \
            for (int64_t i = 0; i < N * n; i++) to[i] = (T)((S)to[i] + (S)from[i]);                                   \
        else                                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                           \
                for (int k = 0; k < N; k++) to[N * i * step + k] = (T)((S)to[N * i * step + k] + (S)from[N * i + k]); \
    }
ADD(f32, float, float, 1)
ADD(f64, double, double, 1)
ADD(i64, int64_t, uint64_t, 1)
ADD(c128, double, double, 2)

/* Adds n elements of kind `k` to places `step` apart. */
static void add_line(fac_acc k, void *to, int64_t step, const void *from, int64_t n) {
    switch (k) {
    case FAC_ACC_F32: add_f32(to, step, from, n); break;
    case FAC_ACC_F64: add_f64(to, step, from, n); break;
    case FAC_ACC_I64: add_i64(to, step, from, n); break;
    default: add_c128(to, step, from, n); break;
    }
}

/* Adds a line of columns, of at least one element inside, to a line of the plane. */
static void fold_line(const job *j, const tap *x, const char *from, char *line) {
    const int64_t step = j->p.stride[1], acc = (int64_t)fac__acc_size(j->kind);
    fac_tile_buf tile;
    if (fac__acc_is(j->kind, j->dtype)) {
        add_line(j->kind, line + (x->begin * step + x->shift) * acc, step, from + x->begin * (int64_t)j->item,
                 x->end - x->begin);
        return;
    }
    for (int64_t o = x->begin; o < x->end; o += FAC_TILE) {
        const int64_t n = fac__min(FAC_TILE, x->end - o);
        fac__tile_load(j->kind, &tile, from + o * (int64_t)j->item, j->dtype, 1, n);
        add_line(j->kind, line + (o * step + x->shift) * acc, step, &tile, n);
    }
}

static void fold_plane(const job *j, int64_t plane, char *to) {
    const fac_patches *p = &j->p;
    const int64_t acc = (int64_t)fac__acc_size(j->kind), line = p->out[1] * (int64_t)j->item;
    memset(to, 0, (size_t)(p->in[0] * p->in[1] * acc));
    for (int64_t k = 0; k < p->taps; k++) {
        const tap y = tap_at(p, 0, k / p->kernel[1]), x = tap_at(p, 1, k % p->kernel[1]);
        const char *row = j->from + (plane * p->taps + k) * p->out[0] * line;
        for (int64_t o = y.begin; o < y.end && x.begin < x.end; o++)
            fold_line(j, &x, row + o * line, to + (o * p->stride[0] + y.shift) * p->in[1] * acc);
    }
}

/* Planes of the accumulation type itself are summed where they lie. */
static fac_status fold_planes(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const job *j = ctx;
    const int64_t n = j->p.in[0] * j->p.in[1];
    for (int64_t p = begin; p < end; p++) {
        char *to = j->to + p * n * (int64_t)j->item;
        fold_plane(j, p, scratch ? scratch : to);
        if (scratch) fac__tile_store(j->kind, scratch, to, j->dtype, 1, n);
    }
    return FAC_OK;
}

fac_status col2im_cpu(fac_structured *s, fac_tensor *self, fac_ints output_size, fac_ints kernel_size,
                      fac_ints dilation, fac_ints padding, fac_ints stride) {
    const fac_dtype d = (fac_dtype)self->dtype;
    job j = {.dtype = d, .kind = fac__acc_of(d), .item = fac__dtype_size(d)};
    fac_tensor *columns;
    fac_rowmajor out;
    FAC_TRY(fac__patches_plan_columns(self, output_size, &(fac_patches_args){kernel_size, dilation, padding, stride},
                                      &j.p));
    if (s->out[0]->numel == 0) return FAC_OK;
    FAC_TRY(fac__cpu_contiguous(self, &columns));
    fac_status st = fac__rowmajor_begin(s->out[0], false, &out);
    if (st == FAC_OK) {
        j.from = fac__data(columns), j.to = fac__data(out.t);
        const int64_t n = j.p.in[0] * j.p.in[1], each = fac__mul_or_max(j.p.taps, j.p.out[0] * j.p.out[1]);
        const int64_t bytes = fac__acc_is(j.kind, d) ? 0 : fac__mul_or_max(n, (int64_t)fac__acc_size(j.kind));
        st = fac__parallel_for_scratch(0, j.p.planes, fac__grain(FAC_GRAIN, each), bytes, fold_planes, &j);
        st = fac__rowmajor_end(&out, st);
    }
    fac__unref(columns);
    return st;
}
