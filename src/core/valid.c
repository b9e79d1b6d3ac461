/* The invariants of tensors, as debug builds check them. */
#include "core/valid.h"
#include "core/names.h"
#include "core/tensor_flags.h"

/* A tensor of which this does not hold is looked at no further: other builds than debug ones go on after a bug. */
#define HOLDS(cond)                                    \
    do {                                               \
        if (FAC_UNLIKELY(!(cond))) {                   \
            (void)fac__bug(__FILE__, __LINE__, #cond); \
            return false;                              \
        }                                              \
    } while (0)

static bool geometry_is_valid(const fac_tensor *t) {
    int64_t numel, end = t->offset, step;
    HOLDS(t->ndim <= FAC_MAX_DIMS);
    HOLDS((t->ndim <= FAC_INLINE_DIMS) == (t->sizes == t->inline_dims));
    HOLDS(fac__numel(t->sizes, t->ndim, &numel) && numel == t->numel);
    HOLDS(t->offset >= 0);
    for (int d = 0; d < t->ndim; d++) {
        HOLDS(t->strides[d] >= 0);
        if (numel) HOLDS(fac__mul(t->sizes[d] - 1, t->strides[d], &step) && fac__add(end, step, &end));
    }
    HOLDS((t->flags & FAC_TF_GEOMETRY) == fac__geometry_flags(t));
    if (t->storage && numel) HOLDS(end < t->storage->bytes / fac__item_size(t));
    return true;
}

static bool storage_is_valid(const fac_storage *s, fac_device device) {
    HOLDS(atomic_load_explicit(&s->refs, memory_order_relaxed) >= 1);
    HOLDS(s->bytes >= 0 && (s->data || s->bytes == 0));
    HOLDS(fac_device_equal(s->device, device));
    return true;
}

bool fac__tensor_is_valid(const fac_tensor *t) {
    HOLDS(atomic_load_explicit(&t->refs, memory_order_relaxed) >= 1);
    HOLDS(fac__dtype_size((fac_dtype)t->dtype));
    HOLDS((t->dtype >= FAC_DTYPE_COUNT) == !!(t->keys & fac__func_bit(FAC_KEY_QUANTIZED)));
    HOLDS(t->keys & FAC_BACKEND_MASK);
    HOLDS(!(t->flags & FAC_TF_INFERENCE) || !t->version);
    HOLDS(!fac__pending(t) == !(t->keys & fac__func_bit(FAC_KEY_CONJUGATE)));
    HOLDS(!t->names == !(t->keys & fac__func_bit(FAC_KEY_NAMED)));
    HOLDS(!t->names || fac__names_count(t->names) == t->ndim);
    HOLDS(!(t->flags & FAC_TF_CONJ) || fac_dtype_is_complex((fac_dtype)t->dtype));
    if (t->cls) return true; /* what else it has is its class's */
    HOLDS((t->storage == NULL) == (t->device.type == FAC_META));
    return geometry_is_valid(t) && (!t->storage || storage_is_valid(t->storage, t->device));
}
