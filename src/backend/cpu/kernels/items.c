/* Elements moved by size: strided runs, and whole index spaces cut into runs along the fastest dimension. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/transpose.h"
#include "backend/cpu/pointwise.h"
#include "core/tensor_make.h"

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

static fac_status copy_range(void *ctx, int64_t begin, int64_t end) {
    const fac_items_job *j = ctx;
    const fac_nest *nest = j->nest;
    fac_items_rows to = {NULL, fac__nest_step(nest, 0), fac__nest_row(nest, 0)};
    fac_items_rows from = {NULL, fac__nest_step(nest, 1), fac__nest_row(nest, 1)};
    fac_cursor c;
    fac__nest_seek(nest, 2, begin, &c);
    for (int64_t left = end - begin;;) {
        const int64_t n = fac__min(fac__nest_run(nest, &c), left), rows = fac__nest_rows(nest, &c, left);
        to.p = j->dst + c.offset[0];
        from.p = (char *)(uintptr_t)j->src + c.offset[1];
        if (rows)
            fac__items_copy_rows(j->item, to, from, n, rows);
        else
            fac__items_copy(j->item, to.p, to.step, from.p, from.step, n);
        left -= n * fac__max(rows, 1);
        if (left <= 0) return FAC_OK;
        if (rows)
            fac__nest_advance_rows(nest, 2, rows, &c);
        else
            fac__nest_advance(nest, 2, n, &c);
    }
}

fac_status fac__items_copy_nest(const fac_items_job *j) {
    const fac_nest *nest = j->nest;
    if (nest->ndim == 1 && nest->count > 0 && nest->count <= FAC_GRAIN) { /* small copies are all overhead */
        fac__items_copy(j->item, j->dst, nest->stride[0][0], j->src, nest->stride[1][0], nest->count);
        return FAC_OK;
    }
    if (fac__is_transposition(j)) return fac__transpose(j);
    return fac__parallel_for(0, nest->count, FAC_GRAIN, copy_range, (void *)(uintptr_t)j);
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

fac_status fac__rowmajor_end(fac_rowmajor *r, fac_status st) {
    if (r->t == r->target) return st;
    if (st == FAC_OK) st = fac__cpu_copy(r->target, r->t);
    fac__unref(r->t);
    return st;
}
