/* Which memory format a tensor's strides suggest, and tensors in a given one. */
#include "ops/format.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"

/* Dimensions by rising stride. */
static const int8_t order4[] = {1, 3, 2, 0}, order5[] = {1, 4, 3, 2, 0};

/* Strides rise along the order, each past all that lies within it. That of one image says nothing if it is the channel's: such a
   tensor is as row-major as it is channels-last. */
static bool rises(const fac_tensor *t, const int8_t *order) {
    int64_t least = 0;
    if (t->strides[1] == 0) return false;
    for (int i = 0; i < t->ndim; i++) {
        const int d = order[i];
        if (t->sizes[d] == 0 || t->strides[d] < least) return false;
        if (d == 0 && least == t->strides[1]) return false;
        least = fac__mul_or_max(t->strides[d], t->sizes[d]);
    }
    return true;
}

fac_memory_format fac__format_of(const fac_tensor *t) {
    if (t->ndim == 4 && rises(t, order4)) return FAC_CHANNELS_LAST;
    return t->ndim == 5 && rises(t, order5) ? FAC_CHANNELS_LAST_3D : FAC_CONTIGUOUS;
}

bool fac__lies_in(const fac_tensor *t, fac_memory_format f) {
    if (f == FAC_CHANNELS_LAST) return t->flags & FAC_TF_CHANNELS_LAST;
    return f == FAC_CHANNELS_LAST_3D ? t->flags & FAC_TF_CHANNELS_LAST_3D : fac__is_contiguous(t);
}

void fac__format_strides(fac_memory_format f, const int64_t *sizes, int ndim, int64_t *strides) {
    const int8_t *order = f == FAC_CHANNELS_LAST ? order4 : order5;
    int64_t step = 1;
    if (!fac__is_channels_last(f)) {
        fac__row_major(sizes, ndim, strides);
        return;
    }
    for (int i = 0; i < ndim; i++) {
        strides[order[i]] = step;
        step = fac__mul_or_max(step, fac__max(1, sizes[order[i]]));
    }
}

fac_status fac_out_declare_format(fac_structured *s, int i, const int64_t *sizes, int ndim, fac_dtype dtype,
                                  fac_device device, fac_memory_format f) {
    int64_t strides[FAC_MAX_DIMS];
    if (!fac__is_channels_last(f)) return fac_out_declare(s, i, sizes, NULL, ndim, dtype, device);
    fac__format_strides(f, sizes, ndim, strides);
    return fac_out_declare(s, i, sizes, strides, ndim, dtype, device);
}

fac_status fac__empty_format(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, fac_memory_format f,
                             fac_tensor **out) {
    int64_t strides[FAC_MAX_DIMS];
    if (!fac__is_channels_last(f)) return fac__empty(sizes, ndim, dtype, device, out);
    fac__format_strides(f, sizes, ndim, strides);
    return fac__empty_strided(sizes, strides, ndim, dtype, device, out);
}

fac_status fac__in_format_below(fac_tensor *t, fac_memory_format f, fac_tensor **out) {
    *out = NULL;
    if (!t) return FAC_OK;
    if (fac__lies_in(t, f)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty_format(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, f, out));
    fac_status st = fac__copy_below(*out, t);
    if (st == FAC_OK) return FAC_OK;
    fac__unref(*out);
    *out = NULL;
    return st;
}

bool fac__lie_alike(const fac_tensor *a, const fac_tensor *b) {
    bool alike = a->flags & b->flags & FAC_TF_DENSE;
    for (int d = 0; alike && d < a->ndim; d++) alike = a->sizes[d] < 2 || a->strides[d] == b->strides[d];
    return alike;
}

fac_status fac__lying_like_below(fac_tensor *t, const fac_tensor *like, fac_tensor **out) {
    if (fac__lie_alike(t, like)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty_strided(t->sizes, like->strides, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = fac__copy_below(*out, t);
    if (st == FAC_OK) return FAC_OK;
    fac__unref(*out);
    *out = NULL;
    return st;
}
