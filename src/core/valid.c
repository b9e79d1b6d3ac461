/* The invariants of tensors, as debug builds check them. */
#include "core/valid.h"
#include "core/tensor_flags.h"

static bool geometry_is_valid(const fac_tensor *t) {
    int64_t numel, end = t->offset, step;
    FAC_ASSERT(t->ndim <= FAC_MAX_DIMS);
    FAC_ASSERT((t->ndim <= FAC_INLINE_DIMS) == (t->sizes == t->inline_dims));
    FAC_ASSERT(fac__numel(t->sizes, t->ndim, &numel) && numel == t->numel);
    FAC_ASSERT(t->offset >= 0);
    for (int d = 0; d < t->ndim; d++) {
        FAC_ASSERT(t->strides[d] >= 0);
        if (numel) FAC_ASSERT(fac__mul(t->sizes[d] - 1, t->strides[d], &step) && fac__add(end, step, &end));
    }
    FAC_ASSERT((t->flags & FAC_TF_GEOMETRY) == fac__geometry_flags(t));
    if (t->storage && numel) FAC_ASSERT(end < t->storage->bytes / fac__item_size(t));
    return true;
}

static bool storage_is_valid(const fac_storage *s, fac_device device) {
    FAC_ASSERT(atomic_load_explicit(&s->refs, memory_order_relaxed) >= 1);
    FAC_ASSERT(s->bytes >= 0 && (s->data || s->bytes == 0));
    FAC_ASSERT(fac_device_equal(s->device, device));
    return true;
}

bool fac__tensor_is_valid(const fac_tensor *t) {
    FAC_ASSERT(atomic_load_explicit(&t->refs, memory_order_relaxed) >= 1);
    FAC_ASSERT(t->dtype > FAC_DTYPE_DEFAULT && t->dtype < FAC_DTYPE_COUNT);
    FAC_ASSERT(t->keys & FAC_BACKEND_MASK);
    FAC_ASSERT(!(t->flags & FAC_TF_INFERENCE) || !t->version);
    if (t->cls) return true; /* what else it has is its class's */
    FAC_ASSERT((t->storage == NULL) == (t->device.type == FAC_META));
    return geometry_is_valid(t) && (!t->storage || storage_is_valid(t->storage, t->device));
}
