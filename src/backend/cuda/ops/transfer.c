/* copy_ where CUDA takes part. Across devices only bytes travel: elements in another order or dtype are arranged on the
   source's device first and put in place on the destination's, where need be. */
#include "backend/cuda/ops/transfer.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

/* Whether the same bytes in the same order mean the same tensor. */
static bool same_layout(const fac_tensor *a, const fac_tensor *b) {
    if (a->dtype != b->dtype || !fac__same_sizes(a, b)) return false;
    if (fac__is_contiguous(a) && fac__is_contiguous(b)) return true;
    size_t bytes = (size_t)a->ndim * sizeof(int64_t);
    return (a->flags & b->flags & FAC_TF_DENSE) && memcmp(a->strides, b->strides, bytes) == 0;
}

static fac_status copy_bytes(fac_tensor *dst, const fac_tensor *src, bool non_blocking) {
    return fac__cuda_copy(dst->device, fac__data(dst), src->device, fac__data(src), dst->numel * fac__item_size(dst),
                          non_blocking);
}

/* Both on one device. */
static fac_status copy_local(fac_tensor *dst, fac_tensor *src) {
    return fac__is_cpu(dst) ? fac__copy_below(dst, src) : fac__cuda_copy_elements(dst, src);
}

/* Owned: src's elements row-major in dst's dtype, on src's device. */
static fac_status arrange(fac_tensor *src, fac_dtype dtype, fac_tensor **out) {
    if (src->dtype == dtype && fac__is_contiguous(src)) {
        *out = fac__ref(src);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(src->sizes, src->ndim, dtype, src->device, out));
    fac_status st = copy_local(*out, src);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

/* src is row-major and of dst's dtype; dst is in another order, or larger, src being broadcast. */
static fac_status put_in_place(fac_tensor *dst, fac_tensor *src, bool non_blocking) {
    fac_tensor *moved;
    FAC_TRY(fac__empty(src->sizes, src->ndim, (fac_dtype)src->dtype, dst->device, &moved));
    fac_status st = copy_bytes(moved, src, non_blocking && !fac__is_cpu(dst)); /* the CPU reads it at once */
    if (st == FAC_OK) st = copy_local(dst, moved);
    fac__unref(moved);
    return st;
}

static fac_status copy_across(fac_tensor *dst, fac_tensor *src, bool non_blocking) {
    fac_tensor *ready;
    if (same_layout(dst, src)) return copy_bytes(dst, src, non_blocking);
    FAC_TRY(arrange(src, (fac_dtype)dst->dtype, &ready));
    fac_status st =
        same_layout(dst, ready) ? copy_bytes(dst, ready, non_blocking) : put_in_place(dst, ready, non_blocking);
    fac__unref(ready);
    return st;
}

/* On one device, from memory that dst shares in another arrangement. */
static fac_status copy_aside(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *aside;
    FAC_TRY(fac__empty(src->sizes, src->ndim, (fac_dtype)src->dtype, src->device, &aside));
    fac_status st = fac__cuda_copy_elements(aside, src);
    if (st == FAC_OK) st = fac__cuda_copy_elements(dst, aside);
    fac__unref(aside);
    return st;
}

static fac_status copy_on(fac_tensor *dst, fac_tensor *src) {
    fac_overlap overlap = fac__overlap(dst, src);
    if (overlap == FAC_OVERLAP_PARTIAL || overlap == FAC_OVERLAP_UNKNOWN) return copy_aside(dst, src);
    if (same_layout(dst, src)) return fac__data(dst) == fac__data(src) ? FAC_OK : copy_bytes(dst, src, true);
    return fac__cuda_copy_elements(dst, src);
}

static fac_status check(const fac_tensor *dst, const fac_tensor *src) {
    int64_t shape[FAC_MAX_DIMS];
    int ndim;
    bool here =
        (fac__is_cpu(dst) || dst->device.type == FAC_CUDA) && (fac__is_cpu(src) || src->device.type == FAC_CUDA);
    FAC_CHECK(here, FAC_ERR_DEVICE, "nothing copies from %s to %s", fac_device_format(src->device, (char[24]){0}, 24),
              fac_device_format(dst->device, (char[24]){0}, 24));
    FAC_TRY(fac__broadcast(dst->sizes, dst->ndim, src->sizes, src->ndim, shape, &ndim));
    bool fits = fac__has_sizes(dst, shape, ndim);
    FAC_CHECK(fits, FAC_ERR_SHAPE, "output with shape %s doesn't match the broadcast shape %s", FAC_SHAPE_TEXT(dst),
              fac__shape_text(shape, ndim, (char[256]){0}, 256));
    return FAC_OK;
}

fac_status fac__cuda_copy_tensor(fac_tensor *dst, fac_tensor *src, bool non_blocking) {
    FAC_TRY(check(dst, src));
    if (dst->numel == 0) return FAC_OK;
    return fac_device_equal(dst->device, src->device) ? copy_on(dst, src) : copy_across(dst, src, non_blocking);
}

fac_status copy_cuda(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__check_no_overlap(self));
    if (self != src) FAC_TRY(fac__cuda_copy_tensor(self, src, non_blocking));
    *out = fac__ref(self);
    return FAC_OK;
}
