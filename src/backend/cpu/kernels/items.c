/* Elements moved by size: strided runs, and whole index spaces cut into runs along the fastest dimension. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "iter/nest.h"

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

typedef struct copy_job {
    fac_nest nest;
    size_t item;
    char *dst;
    const char *src;
} copy_job;

static fac_status copy_range(void *ctx, int64_t begin, int64_t end) {
    const copy_job *j = ctx;
    int64_t item = (int64_t)j->item, to = fac__nest_step(&j->nest, 0) * item, from = fac__nest_step(&j->nest, 1) * item;
    fac_cursor c;
    fac__nest_seek(&j->nest, 2, begin, &c);
    for (int64_t i = begin; i < end;) {
        int64_t n = fac__min(fac__nest_run(&j->nest, &c), end - i);
        fac__items_copy(j->item, j->dst + c.offset[0] * item, to, j->src + c.offset[1] * item, from, n);
        fac__nest_advance(&j->nest, 2, n, &c);
        i += n;
    }
    return FAC_OK;
}

fac_status fac__items_copy_nd(size_t item, char *dst, const int64_t *dst_strides, const char *src,
                              const int64_t *src_strides, const int64_t *sizes, int ndim) {
    copy_job j = {.item = item, .dst = dst, .src = src};
    const int64_t *strides[2] = {dst_strides, src_strides};
    fac__nest_build(&j.nest, sizes, ndim, UINT64_MAX, 2, strides, false);
    return fac__parallel_for(0, j.nest.count, FAC_GRAIN, copy_range, &j);
}

fac_status fac__items_copy_tensor(fac_tensor *dst, fac_tensor *src) {
    if (dst->numel == 0) return FAC_OK;
    return fac__items_copy_nd(fac__dtype_size((fac_dtype)dst->dtype), fac__data(dst), dst->strides, fac__data(src),
                              src->strides, src->sizes, src->ndim);
}

/* ---- row-major stand-ins ---------------------------------------------------------------------------------------------------- */

fac_status fac__cpu_contiguous(fac_tensor *t, fac_tensor **out) {
    if (fac__is_contiguous(t)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = fac__items_copy_tensor(*out, t);
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
    if (st == FAC_OK) st = fac__items_copy_tensor(r->target, r->t);
    fac__unref(r->t);
    return st;
}
