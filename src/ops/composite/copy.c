/* Copying and converting, in terms of copy_. */
#include "core/guard.h"
#include "ops/call.h"
#include "ops/composite/factory.h"
#include "ops_gen.h"

/* ---- copies below autograd -------------------------------------------------------------------------------------------- */

/* f says the dtype, device and memory of the copy. */
static fac_status copy_to_new(fac_keyset keys, const fac_factory *f, fac_tensor *self, fac_memory_format format,
                              bool non_blocking, fac_tensor **out) {
    fac_tensor *made, *same = NULL;
    FAC_TRY(fac__factory_empty_like(f, self, format, &made));
    /* Copying passes the key Conjugate by, and carries out here what is pending. */
    keys |= (made->keys & (FAC_BACKEND_MASK | FAC_KS_NOT_PLAIN)) | (self->keys & FAC_KS_NOT_PLAIN);
    fac_status st = fac__redispatch_copy_(keys, made, self, non_blocking, &same);
    fac__unref(same);
    if (st == FAC_OK)
        *out = made;
    else
        fac__unref(made);
    return st;
}

fac_status clone_explicit(const fac_call_info *c, fac_tensor *self, fac_memory_format memory_format, fac_tensor **out) {
    const fac_factory f = {.dtype = (fac_dtype)self->dtype, .device = self->device};
    return copy_to_new(c->keys, &f, self, memory_format, false, out);
}

fac_status to_copy_explicit(const fac_call_info *c, fac_tensor *self, fac_dtype dtype, fac_layout layout,
                            fac_device device, fac_opt_num pin_memory, bool non_blocking,
                            fac_memory_format memory_format, fac_tensor **out) {
    FAC_CHECK(layout == FAC_STRIDED, FAC_ERR_UNSUPPORTED, "only the strided layout can be asked for; use to_sparse");
    fac_factory f = {dtype, layout, device, pin_memory};
    FAC_TRY(fac__factory_like(&f, self));
    return copy_to_new(c->keys, &f, self, memory_format, non_blocking, out);
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
    FAC_TRY(fac__device_resolve(&device));
    bool same = (!dtype || dtype == self->dtype) && (!device.type || fac_device_equal(device, self->device)) &&
                layout == FAC_STRIDED && is_in_order(self, format);
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

/* ---- page-locked memory --------------------------------------------------------------------------------------------------- */

fac_status is_pinned_explicit(const fac_call_info *c, fac_tensor *self, fac_device device, bool *out) {
    (void)c, (void)device;
    *out = fac__is_cpu(self) && self->storage && fac__is_host_memory(self->storage->data);
    return FAC_OK;
}

fac_status pin_memory_composite(const fac_call_info *c, fac_tensor *self, fac_device device, fac_tensor **out) {
    bool pinned;
    FAC_TRY(is_pinned_explicit(c, self, device, &pinned));
    if (!pinned)
        return fac__c__to_copy(self, FAC_DTYPE_DEFAULT, FAC_STRIDED, self->device, fac_opt_num_(fac_scalar_b_(true)),
                               false, FAC_FORMAT_DEFAULT, out);
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- on the meta device --------------------------------------------------------------------------------------------------- */

/* Only the checks are left: that src broadcasts to self, and that no values are wanted. */
fac_status copy_on_meta(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking,
                        fac_tensor **out) {
    (void)c, (void)non_blocking;
    int64_t shape[FAC_MAX_DIMS];
    int ndim;
    FAC_CHECK(self->device.type == FAC_META, FAC_ERR_DEVICE, "Cannot copy out of meta tensor; no data!");
    FAC_TRY(fac__broadcast(self->sizes, self->ndim, src->sizes, src->ndim, shape, &ndim));
    bool fits = fac__has_sizes(self, shape, ndim);
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
