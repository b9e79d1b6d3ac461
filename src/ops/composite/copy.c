/* Copying and converting, in terms of copy_. */
#include "ops/call.h"
#include "ops_gen.h"

/* ---- copies below autograd -------------------------------------------------------------------------------------------- */

/* NHWC or NDHWC strides for `sizes`. */
static fac_status channels_last_strides(const int64_t *sizes, int ndim, int want_ndim, int64_t *strides) {
    FAC_CHECK(ndim == want_ndim, FAC_ERR_SHAPE,
              "required rank %d tensor to use this channels_last format, got %d dimensions", want_ndim, ndim);
    int64_t stride = 1;
    strides[1] = stride;
    stride *= fac__max(sizes[1], 1);
    for (int d = ndim - 1; d >= 2; d--) {
        strides[d] = stride;
        stride *= fac__max(sizes[d], 1);
    }
    strides[0] = stride;
    return FAC_OK;
}

static bool keeps_order(const fac_tensor *t, fac_memory_format format) {
    return (format == FAC_FORMAT_DEFAULT || format == FAC_PRESERVE) && (t->flags & FAC_TF_DENSE);
}

/* Owned, uninitialised, in self's sizes and the given order. */
static fac_status make_in_order(fac_tensor *self, fac_memory_format format, fac_dtype dtype, fac_device device,
                                fac_tensor **out) {
    int64_t strides[FAC_MAX_DIMS];
    if (keeps_order(self, format))
        return fac__empty_strided(self->sizes, self->strides, self->ndim, dtype, device, out);
    if (format != FAC_CHANNELS_LAST && format != FAC_CHANNELS_LAST_3D)
        return fac__empty(self->sizes, self->ndim, dtype, device, out);
    FAC_TRY(channels_last_strides(self->sizes, self->ndim, format == FAC_CHANNELS_LAST ? 4 : 5, strides));
    return fac__empty_strided(self->sizes, strides, self->ndim, dtype, device, out);
}

static fac_status copy_to_new(fac_keyset keys, fac_tensor *self, fac_memory_format format, fac_dtype dtype,
                              fac_device device, bool non_blocking, fac_tensor **out) {
    fac_tensor *made, *same = NULL;
    FAC_TRY(make_in_order(self, format, dtype, device, &made));
    fac_status st = fac__redispatch_copy_(keys | (made->keys & FAC_BACKEND_MASK), made, self, non_blocking, &same);
    fac__unref(same);
    if (st == FAC_OK)
        *out = made;
    else
        fac__unref(made);
    return st;
}

fac_status clone_explicit(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format, fac_tensor **out) {
    return copy_to_new(c->keys, self, memory_format, (fac_dtype)self->dtype, self->device, false, out);
}

fac_status to_copy_explicit(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                            fac_device device, fac_opt_num pin_memory, bool non_blocking,
                            fac_memory_format memory_format, fac_tensor **out) {
    FAC_CHECK(layout == FAC_STRIDED, FAC_ERR_UNSUPPORTED,
              "to: only the strided layout can be asked for; use to_sparse");
    (void)pin_memory;
    if (!device.type) device = self->device;
    if (!dtype) dtype = (fac_dtype)self->dtype;
    return copy_to_new(c->keys, self, memory_format, dtype, device, non_blocking, out);
}

/* ---- to ---------------------------------------------------------------------------------------------------------------- */

static bool is_in_order(const fac_tensor *t, fac_memory_format format) {
    switch (format) {
    case FAC_CONTIGUOUS: return fac__is_contiguous(t);
    case FAC_CHANNELS_LAST: return (t->flags & FAC_TF_CHANNELS_LAST) != 0;
    case FAC_CHANNELS_LAST_3D: return (t->flags & FAC_TF_CHANNELS_LAST_3D) != 0;
    default: return true;
    }
}

static fac_status to(fac_tensor *self, fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                     bool non_blocking, bool copy, fac_memory_format format, fac_tensor **out) {
    bool same = (!dtype || dtype == self->dtype) && (!device.type || fac_device_equal(device, self->device)) &&
                is_in_order(self, format);
    if (!same || copy) return fac__c__to_copy(self, dtype, layout, device, pin_memory, non_blocking, format, out);
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status to_layout_composite(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                               fac_device device, fac_opt_num pin_memory, bool non_blocking, bool copy,
                               fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    return to(self, dtype, layout, device, pin_memory, non_blocking, copy, memory_format, out);
}
fac_status to_dtype_composite(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, bool non_blocking, bool copy,
                              fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    return to(self, dtype, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, non_blocking, copy, memory_format, out);
}
fac_status to_device_composite(const fac_call_info *c, fac_tensor *self, fac_device device, fac_dtype dtype,
                               bool non_blocking, bool copy, fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    return to(self, dtype, FAC_STRIDED, device, (fac_opt_num){0}, non_blocking, copy, memory_format, out);
}
fac_status to_other_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, bool non_blocking, bool copy,
                              fac_memory_format memory_format, fac_tensor **out) {
    (void)c;
    return to(self, (fac_dtype)other->dtype, FAC_STRIDED, other->device, (fac_opt_num){0}, non_blocking, copy,
              memory_format, out);
}

fac_status contiguous_composite(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format,
                                fac_tensor **out) {
    (void)c;
    if (memory_format == FAC_FORMAT_DEFAULT) memory_format = FAC_CONTIGUOUS;
    FAC_CHECK(memory_format != FAC_PRESERVE, FAC_ERR_ARGUMENT,
              "preserve memory format is unsupported by the contiguous operator");
    if (!is_in_order(self, memory_format)) return fac__c_clone(self, memory_format, out);
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status copy_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking,
                          fac_tensor **out) {
    (void)c;
    FAC_SCOPE(scope);
    fac_tensor *moved = fac__s__to_copy(src, (fac_dtype)self->dtype, FAC_STRIDED, self->device, (fac_opt_num){0},
                                        non_blocking, FAC_FORMAT_DEFAULT);
    return fac__give(out, fac__s_clone(fac__s_expand(moved, fac__sizes_now(self), false), FAC_FORMAT_DEFAULT));
}

/* ---- on the meta device --------------------------------------------------------------------------------------------------- */

/* Only the check that src broadcasts to self is left. */
fac_status copy_on_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking,
                        fac_tensor **out) {
    (void)c, (void)non_blocking;
    int64_t shape[FAC_MAX_DIMS];
    int ndim;
    FAC_TRY(fac__broadcast(self->sizes, self->ndim, src->sizes, src->ndim, shape, &ndim));
    bool fits = ndim == self->ndim && memcmp(shape, self->sizes, (size_t)ndim * sizeof shape[0]) == 0;
    FAC_CHECK(fits, FAC_ERR_SHAPE, "output with shape %s doesn't match the broadcast shape %s", FAC_SHAPE_TEXT(self),
              fac__shape_text(shape, ndim, (char[256]){0}, 256));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status zero_on_meta(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    *out = fac__ref(self);
    return FAC_OK;
}
