/* Elements moved by size: strided runs, and whole index spaces cut into runs along the fastest dimension. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/transpose.h"
#include "backend/cpu/pointwise.h"
#include "core/tensor_make.h"
#include "ops/format.h"

void fac__items_zero(size_t item, char *dst, int64_t dst_stride, int64_t n) {
    if (dst_stride == (int64_t)item) {
        memset(dst, 0, (size_t)n * item);
        return;
    }
    fac_item16 nothing = {{0, 0}};
    fac__items_fill(item, dst, dst_stride, &nothing, n);
}

void fac__items_fill(size_t item, char *dst, int64_t dst_stride, const void *value, int64_t n) {
#define FILL(T)                                                           \
    do {                                                                  \
        const T v = *(const T *)value;                                    \
        for (int64_t i = 0; i < n; i++) *(T *)(dst + i * dst_stride) = v; \
    } while (0)
    FAC_ITEM_SWITCH(item, FILL)
#undef FILL
}

/* ---- index spaces ----------------------------------------------------------------------------------------------------- */

/* Whole rows that follow each other evenly from `at` on, within n points. */
static int64_t rows_from(const fac_nest *nest, const int64_t *at, int64_t n) {
    if (nest->ndim < 2 || at[0] != 0 || n < nest->size[0]) return 0;
    const int64_t most = nest->size[1] - at[1];
    return n >= most * nest->size[0] ? most : n / nest->size[0];
}

/* The addresses stay in registers: short rows are half as fast otherwise. */
void fac__items_copy_points(const fac_nest *nest, const int64_t *index, size_t item, fac_items_side to,
                            fac_items_side from, int64_t n) {
    int64_t at[FAC_MAX_DIMS];
    memcpy(at, index, (size_t)nest->ndim * sizeof *at);
    for (;;) {
        const int64_t m = fac__min(n, nest->size[0] - at[0]), rows = rows_from(nest, at, n);
        int d = rows > 0; /* the dimension that is gone along */
        const int64_t step = d ? rows : m;
        FAC_ISA_PICK(fac__items_copy_rows)
        (item, to.p, to.stride[0], from.p, from.stride[0], m, fac__max(rows, 1), to.stride[d], from.stride[d]);
        n -= m * fac__max(rows, 1);
        if (n <= 0) return;
        at[d] += step, to.p += step * to.stride[d], from.p += step * from.stride[d];
        for (; d + 1 < nest->ndim && at[d] == nest->size[d]; d++) {
            to.p += to.stride[d + 1] - at[d] * to.stride[d], from.p += from.stride[d + 1] - at[d] * from.stride[d];
            at[d] = 0, at[d + 1]++;
        }
    }
}

static fac_status copy_range(void *ctx, int64_t begin, int64_t end) {
    const fac_items_job *j = ctx;
    fac_cursor c;
    fac__nest_seek(j->nest, 2, begin, &c);
    fac__items_copy_points(j->nest, c.index, j->item, (fac_items_side){j->dst + c.offset[0], j->nest->stride[0]},
                           (fac_items_side){(char *)(uintptr_t)j->src + c.offset[1], j->nest->stride[1]}, end - begin);
    return FAC_OK;
}

/* Long rows without gaps of a large copy go past the cache: what a run writes it need not read. */
static bool rows_stream(const fac_items_job *j) {
    enum { LEAST_ROW = 512 };
    const fac_nest *nest = j->nest;
    const int64_t item = (int64_t)j->item;
    return nest->ndim > 1 && nest->stride[0][0] == item && nest->stride[1][0] == item &&
           nest->size[0] * item >= LEAST_ROW && nest->count * item >= FAC_STREAM_BYTES / 2;
}

static fac_status stream_range(void *ctx, int64_t begin, int64_t end) {
    const fac_items_job *j = ctx;
    fac_cursor c;
    fac__nest_seek(j->nest, 2, begin, &c);
    for (int64_t left = end - begin, n; left > 0; left -= n) {
        n = fac__min(left, fac__nest_run(j->nest, &c));
        fac__stream_copy(j->dst + c.offset[0], j->src + c.offset[1], n * (int64_t)j->item);
        if (left > n) fac__nest_advance(j->nest, 2, n, &c);
    }
    return FAC_OK;
}

/* Rows of a few bytes without gaps are items themselves, where all of them are aligned as such. */
static bool rows_are_items(const fac_items_job *j) {
    const fac_nest *nest = j->nest;
    const int64_t item = (int64_t)j->item, row = nest->ndim < 2 ? 0 : nest->size[0] * item;
    if ((row != 2 && row != 4 && row != 8 && row != 16) || nest->size[0] == 1) return false;
    int64_t bits = (int64_t)((uintptr_t)j->dst | (uintptr_t)j->src);
    for (int k = 0; k < 2; k++) {
        if (nest->stride[k][0] != item) return false;
        for (int d = 1; d < nest->ndim; d++) bits |= nest->stride[k][d];
    }
    return bits % row == 0;
}

static fac_status copy_rows_as_items(const fac_items_job *j) {
    fac_nest nest = *j->nest;
    nest.ndim--;
    nest.count /= nest.size[0];
    for (int d = 0; d < nest.ndim; d++) {
        nest.size[d] = nest.size[d + 1];
        for (int k = 0; k < 2; k++) nest.stride[k][d] = nest.stride[k][d + 1];
    }
    return fac__items_copy_nest(&(fac_items_job){&nest, j->item * (size_t)j->nest->size[0], j->dst, j->src});
}

/* Elements of a chunk: of rows without gaps, whose bytes count, at least as many as of strided ones. */
static int64_t copy_grain(const fac_items_job *j) {
    const int64_t item = (int64_t)j->item;
    const bool dense = j->nest->stride[0][0] == item && j->nest->stride[1][0] == item;
    return dense && item < 4 ? fac__grain(4 * FAC_GRAIN, item) : FAC_GRAIN;
}

fac_status fac__items_copy_nest(const fac_items_job *j) {
    const fac_nest *nest = j->nest;
    if (rows_are_items(j)) return copy_rows_as_items(j);
    if (nest->ndim <= 1 && nest->count > 0 && nest->count <= FAC_GRAIN) { /* small copies are all overhead */
        fac__items_copy(j->item, j->dst, fac__nest_step(nest, 0), j->src, fac__nest_step(nest, 1), nest->count);
        return FAC_OK;
    }
    if (fac__is_transposition(j)) return fac__transpose(j);
    return fac__parallel_for(0, nest->count, copy_grain(j), rows_stream(j) ? stream_range : copy_range,
                             (void *)(uintptr_t)j);
}

fac_status fac__items_copy_nd(size_t item, char *dst, const int64_t *dst_strides, const char *src,
                              const int64_t *src_strides, const int64_t *sizes, int ndim) {
    fac_nest nest;
    const int64_t *strides[2] = {dst_strides, src_strides};
    fac__nest_build(&nest, sizes, ndim, UINT64_MAX, 2, strides, false);
    for (int d = 0; d < nest.ndim; d++) nest.stride[0][d] *= (int64_t)item, nest.stride[1][d] *= (int64_t)item;
    return fac__items_copy_nest(&(fac_items_job){&nest, item, dst, src});
}

/* ---- row-major stand-ins ---------------------------------------------------------------------------------------------------- */

fac_status fac__cpu_contiguous(fac_tensor *t, fac_tensor **out) {
    if (fac__is_contiguous(t)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = fac__cpu_copy(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

fac_status fac__rowmajor_begin(fac_tensor *target, bool load, fac_rowmajor *out) {
    out->target = target;
    out->t = target;
    if (fac__is_contiguous(target)) return FAC_OK;
    if (load) return fac__cpu_contiguous(target, &out->t);
    return fac__empty(target->sizes, target->ndim, (fac_dtype)target->dtype, target->device, &out->t);
}

fac_status fac__formatted_begin(fac_tensor *target, fac_memory_format f, fac_rowmajor *out) {
    out->target = target;
    out->t = target;
    if (fac__lies_in(target, f)) return FAC_OK;
    return fac__empty_format(target->sizes, target->ndim, (fac_dtype)target->dtype, target->device, f, &out->t);
}

fac_status fac__rowmajor_end(fac_rowmajor *r, fac_status st) {
    if (r->t == r->target) return st;
    if (st == FAC_OK) st = fac__cpu_copy(r->target, r->t);
    fac__unref(r->t);
    return st;
}
