/* Tensor headers: making, aliasing, geometry, freeing. */
#include "core/guard.h"
#include "core/handle.h"
#include "core/names.h"
#include "core/scalar.h"
#include "core/slot.h"
#include "core/storage.h"
#include "core/tensor_flags.h"
#include "core/tensor_make.h"
#include "core/valid.h"

fac_autograd_table fac__autograd;

/* ---- checks of what a caller asks for --------------------------------------------------------------------------------- */

static fac_status check_ndim(int ndim) {
    FAC_CHECK(ndim >= 0 && ndim <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor of %d dimensions; at most %d are supported",
              ndim, FAC_MAX_DIMS);
    return FAC_OK;
}

fac_status fac__not_plain(const fac_tensor *t, const char *what) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s works on plain tensors, not on a %s tensor", what, t->cls->name);
}

static fac_status bad_shape(const int64_t *sizes, int ndim, fac_dtype dtype) {
    char text[256];
    FAC_CHECK(!fac_dtype_is_float8(dtype), FAC_ERR_DTYPE,
              "no operator computes in %s: compute in float32 and convert the result with to", fac_dtype_name(dtype));
    FAC_CHECK(!fac_dtype_is_quantized(dtype), FAC_ERR_DTYPE,
              "a %s tensor needs a scale and a zero point: see quantize_per_tensor, _empty_affine_quantized and "
              "empty_quantized",
              fac_dtype_name(dtype));
    FAC_CHECK(dtype > FAC_DTYPE_DEFAULT && dtype < FAC_DTYPE_COUNT, FAC_ERR_DTYPE, "%d is no dtype", (int)dtype);
    FAC_TRY(check_ndim(ndim));
    fac__shape_text(sizes, ndim, text, sizeof text);
    for (int d = 0; d < ndim; d++)
        FAC_CHECK(sizes[d] >= 0, FAC_ERR_SHAPE, "Trying to create tensor with negative dimension %lld: %s",
                  (long long)sizes[d], text);
    return FAC_FAIL(FAC_ERR_OVERFLOW, "a tensor of sizes %s and dtype %s has more bytes than 64 bits can count", text,
                    fac_dtype_name(dtype));
}

/* Fills strides and counts elements; false if anything does not fit, or is not legal. A zero size does not excuse the
   others: strides are the products of the sizes, zeros taken as ones, and must fit too. */
static bool row_major(const int64_t *sizes, int ndim, int64_t item, int64_t *strides, int64_t *out_numel,
                      int64_t *out_bytes) {
    int64_t span = item, n = 1, stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        if (FAC_UNLIKELY(sizes[d] < 0)) return false;
        strides[d] = stride;
        int64_t width = sizes[d] ? sizes[d] : 1;
        if (FAC_UNLIKELY(!fac__mul(span, width, &span))) return false;
        stride *= width;
        n *= sizes[d];
    }
    *out_numel = n;
    *out_bytes = n ? span : 0;
    return true;
}

/* Elements from the first to one past the last that sizes and strides reach; 0 if there are none. False on overflow or a
   negative number. */
static bool extent(const int64_t *sizes, const int64_t *strides, int ndim, int64_t *out) {
    int64_t last = 0, numel;
    if (!fac__numel(sizes, ndim, &numel)) return false;
    for (int d = 0; d < ndim; d++) {
        int64_t step;
        if (strides[d] < 0) return false;
        if (numel && (!fac__mul(sizes[d] - 1, strides[d], &step) || !fac__add(last, step, &last))) return false;
    }
    if (last == INT64_MAX) return false;
    *out = numel ? last + 1 : 0;
    return true;
}

static fac_status bad_strides(const int64_t *sizes, const int64_t *strides, int ndim) {
    char a[256], b[256];
    fac__shape_text(sizes, ndim, a, sizeof a);
    fac__shape_text(strides, ndim, b, sizeof b);
    for (int d = 0; d < ndim; d++) {
        FAC_CHECK(sizes[d] >= 0, FAC_ERR_SHAPE, "Trying to create tensor with negative dimension %lld: %s",
                  (long long)sizes[d], a);
        FAC_CHECK(strides[d] >= 0, FAC_ERR_SHAPE, "negative strides are not supported, but got strides %s", b);
    }
    return FAC_FAIL(FAC_ERR_OVERFLOW, "sizes %s with strides %s reach further than 64 bits can count", a, b);
}

/* A stride that is never stepped by, of a dimension of one element or of a tensor without any, may be anything. It is held
   below what kernels can multiply by an element's size without overflow. */
static void limit_idle_strides(fac_tensor *t) {
    const int64_t most = INT64_MAX / 32;
    int64_t any = 0;
    for (int d = 0; d < t->ndim; d++) any |= t->strides[d];
    if (FAC_LIKELY(any <= most)) return;
    for (int d = 0; d < t->ndim; d++)
        if (t->strides[d] > most && (t->sizes[d] <= 1 || t->numel == 0)) t->strides[d] = most;
}

/* ---- headers ------------------------------------------------------------------------------------------------------------ */

/* A live header without storage and with room for ndim sizes and strides, which the caller fills in. */
static fac_tensor *new_header(fac_thread *th, int ndim, fac_dtype dtype, fac_device device) {
    fac_tensor *t = fac__slot_take(th);
    if (FAC_UNLIKELY(!t)) return NULL;
    t->sizes = t->inline_dims;
    t->strides = t->inline_dims + FAC_INLINE_DIMS;
    if (FAC_UNLIKELY(ndim > FAC_INLINE_DIMS)) {
        t->sizes = fac__alloc_array(2 * (size_t)ndim, sizeof *t->sizes);
        if (!t->sizes) {
            fac__slot_give(th, t);
            return NULL;
        }
        t->strides = t->sizes + ndim;
    }
    atomic_init(&t->refs, 1);
    atomic_init(&t->kept, 0);
    t->storage = NULL;
    t->offset = 0;
    t->ndim = (uint8_t)ndim;
    t->dtype = (uint8_t)dtype;
    t->flags = 0;
    t->device = device;
    t->version = NULL;
    t->ag = NULL;
    t->cls = NULL;
    t->ext = NULL;
    t->names = 0;
    fac__count(&th->live, 1);
    return t;
}

static void free_header(fac_tensor *t) {
    if (t->sizes != t->inline_dims) fac__free(t->sizes);
    fac__live_add(-1);
    fac__slot_give(fac__tls, t);
}

void fac__tensor_free(fac_tensor *t) {
    if (t->ag) fac__autograd.free(t->ag);
    if (t->cls && t->cls->destroy) t->cls->destroy(t);
    fac__version_unref(t->version);
    fac__storage_unref(t->storage);
    free_header(t);
}

void fac__unref(fac_tensor *t) {
    if (t && fac__last_ref(&t->refs)) fac__tensor_free(t);
}

/* ---- empty ----------------------------------------------------------------------------------------------------------------- */

/* Keys, device, flags and storage of a header that has its geometry. The bytes come from `a`, NULL: the device's own
   allocator. Frees the header on failure. */
static fac_status attach_storage(fac_thread *th, fac_tensor *t, int64_t bytes, const fac_allocator *a,
                                 fac_tensor **out) {
    fac_status st = FAC_OK;
    if (FAC_UNLIKELY(t->device.type != FAC_CPU || t->device.index_plus)) st = fac__device_resolve(&t->device);
    if (FAC_LIKELY(st == FAC_OK)) st = fac__default_keys(t->device, &t->keys);
    if (FAC_LIKELY(st == FAC_OK && t->device.type != FAC_META))
        st = fac__storage_new(th, t->device, bytes, a, &t->storage);
    if (FAC_UNLIKELY(st != FAC_OK)) {
        fac__unref(t);
        return st;
    }
    if (FAC_UNLIKELY(th->inference)) t->flags |= FAC_TF_INFERENCE;
    FAC_INVARIANT(fac__tensor_is_valid(t));
    *out = t;
    return FAC_OK;
}

fac_status fac__empty_from(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, const fac_allocator *a,
                           fac_tensor **out) {
    *out = NULL;
    if (FAC_UNLIKELY((unsigned)ndim > FAC_MAX_DIMS || (unsigned)dtype - 1 >= FAC_DTYPE_COUNT - 1))
        return bad_shape(sizes, ndim, dtype);
    fac_thread *th = fac__thread();
    fac_tensor *t = new_header(th, ndim, dtype, device);
    if (FAC_UNLIKELY(!t)) return FAC_ERR_MEMORY;
    int64_t bytes;
    if (FAC_UNLIKELY(!row_major(sizes, ndim, fac__item_sizes[dtype], t->strides, &t->numel, &bytes))) {
        fac__unref(t);
        return bad_shape(sizes, ndim, dtype);
    }
    for (int d = 0; d < ndim; d++) t->sizes[d] = sizes[d];
    t->flags = FAC_TF_CONTIGUOUS | FAC_TF_DENSE;
    if (FAC_UNLIKELY(ndim >= 4)) fac__compute_flags(t);
    return attach_storage(th, t, bytes, a, out);
}

fac_status fac__empty(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, fac_tensor **out) {
    return fac__empty_from(sizes, ndim, dtype, device, NULL, out);
}

fac_status fac__empty_strided_from(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype,
                                   fac_device device, const fac_allocator *a, fac_tensor **out) {
    int64_t room, bytes, numel;
    *out = NULL;
    if ((unsigned)ndim > FAC_MAX_DIMS || (unsigned)dtype - 1 >= FAC_DTYPE_COUNT - 1)
        return bad_shape(sizes, ndim, dtype);
    if (!extent(sizes, strides, ndim, &room)) return bad_strides(sizes, strides, ndim);
    if (!fac__mul(room, fac__item_sizes[dtype], &bytes) || !fac__numel(sizes, ndim, &numel))
        return bad_shape(sizes, ndim, dtype);
    fac_thread *th = fac__thread();
    fac_tensor *t = new_header(th, ndim, dtype, device);
    if (!t) return FAC_ERR_MEMORY;
    for (int d = 0; d < ndim; d++) {
        t->sizes[d] = sizes[d];
        t->strides[d] = strides[d];
    }
    t->numel = numel;
    limit_idle_strides(t);
    fac__compute_flags(t);
    return attach_storage(th, t, bytes, a, out);
}

fac_status fac__empty_strided(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype,
                              fac_device device, fac_tensor **out) {
    return fac__empty_strided_from(sizes, strides, ndim, dtype, device, NULL, out);
}

fac_status fac__empty_like(fac_tensor *like, fac_tensor **out) {
    if ((like->flags & FAC_TF_CONTIGUOUS) || !(like->flags & FAC_TF_DENSE))
        return fac__empty(like->sizes, like->ndim, (fac_dtype)like->dtype, like->device, out);
    return fac__empty_strided(like->sizes, like->strides, like->ndim, (fac_dtype)like->dtype, like->device, out);
}

fac_status fac__scalar_tensor(fac_scalar v, fac_dtype dtype, fac_tensor **out) {
    bool wrapped = dtype == FAC_DTYPE_DEFAULT;
    if (wrapped) dtype = fac__scalar_dtype(v);
    FAC_TRY(fac__empty(NULL, 0, dtype, fac_device_make(FAC_CPU, -1), out));
    fac__store((*out)->storage->data, dtype, v);
    if (wrapped) (*out)->flags |= FAC_TF_WRAPPED;
    return FAC_OK;
}

/* ---- of a class -------------------------------------------------------------------------------------------------------------- */

fac_status fac__tensor_of_class(const fac_tensor_class *cls, void *ext, const fac_geometry *g, fac_tensor **out) {
    fac_tensor *t = new_header(fac__thread(), g->ndim, g->dtype, g->device);
    if (!t) return FAC_ERR_MEMORY;
    for (int d = 0; d < g->ndim; d++) {
        t->sizes[d] = g->sizes[d];
        t->strides[d] = g->strides[d];
    }
    if (!fac__numel(t->sizes, t->ndim, &t->numel)) {
        free_header(t);
        return bad_shape(g->sizes, g->ndim, g->dtype);
    }
    t->keys = g->keys;
    t->flags = g->flags;
    fac__compute_flags(t);
    t->cls = cls;
    t->ext = ext;
    *out = t;
    return FAC_OK;
}

/* ---- aliases ------------------------------------------------------------------------------------------------------------------ */

/* Whether elements [0, room) from `offset` on lie inside t's storage; meta tensors have none to leave. */
static fac_status check_bounds(const fac_tensor *t, const int64_t *sizes, const int64_t *strides, int ndim,
                               int64_t offset) {
    int64_t room, end, bytes;
    char a[256], b[256];
    FAC_CHECK(offset >= 0, FAC_ERR_ARGUMENT, "storage_offset must be non-negative, got %lld", (long long)offset);
    if (!extent(sizes, strides, ndim, &room)) return bad_strides(sizes, strides, ndim);
    if (room == 0) return FAC_OK;
    bool fits = fac__add(room, offset, &end) && fac__mul(end, fac__item_size(t), &bytes);
    if (FAC_LIKELY(fits && (!t->storage || bytes <= t->storage->bytes))) return FAC_OK;
    return FAC_FAIL(FAC_ERR_SHAPE,
                    "sizes %s, strides %s, storage offset %lld, and itemsize %lld are out of bounds for storage "
                    "of size %lld",
                    fac__shape_text(sizes, ndim, a, sizeof a), fac__shape_text(strides, ndim, b, sizeof b),
                    (long long)offset, (long long)fac__item_size(t), t->storage ? (long long)t->storage->bytes : 0LL);
}

fac_status fac__view(fac_tensor *base, const int64_t *sizes, const int64_t *strides, int ndim, int64_t offset,
                     bool check, fac_tensor **out) {
    *out = NULL;
    FAC_TRY(fac__check_plain(base, "a strided view"));
    FAC_TRY(check_ndim(ndim));
    if (check) FAC_TRY(check_bounds(base, sizes, strides, ndim, offset));
    int64_t numel; /* a stride of 0 may repeat elements without end */
    FAC_CHECK(fac__numel(sizes, ndim, &numel), FAC_ERR_OVERFLOW,
              "a view of sizes %s has more elements than 64 bits can count",
              fac__shape_text(sizes, ndim, (char[256]){0}, 256));
    FAC_TRY(fac__version_make(base));
    fac_tensor *t = new_header(fac__thread(), ndim, (fac_dtype)base->dtype, base->device);
    if (!t) return FAC_ERR_MEMORY;
    for (int d = 0; d < ndim; d++) {
        t->sizes[d] = sizes[d];
        t->strides[d] = strides[d];
    }
    t->numel = numel;
    t->offset = offset;
    t->keys = base->keys & ~fac__func_bit(FAC_KEY_NAMED);
    t->flags = base->flags & (FAC_TF_INFERENCE | FAC_TF_PENDING);
    t->storage = fac__storage_ref(base->storage);
    t->version = fac__version_ref(base->version);
    limit_idle_strides(t);
    fac__compute_flags(t);
    FAC_INVARIANT(!check || fac__tensor_is_valid(t));
    *out = t;
    return FAC_OK;
}

/* An alias of a tensor that is not plain: its class says what hangs on it. */
static fac_status alias_of_class(fac_tensor *base, bool share_version, fac_tensor **out) {
    void *ext = NULL;
    *out = NULL;
    if (!base->cls->share) return fac__not_plain(base, "an alias");
    FAC_TRY(base->cls->share(base, &ext));
    const fac_status st = fac__alias_header(base, share_version, out);
    if (st != FAC_OK) {
        if (base->cls->destroy) base->cls->destroy(&(fac_tensor){.cls = base->cls, .ext = ext});
        return st;
    }
    (*out)->cls = base->cls;
    (*out)->ext = ext;
    return FAC_OK;
}

/* Every saved value that is no leaf is an alias, so this does not take the long way through fac__view. */
fac_status fac__alias(fac_tensor *base, bool share_version, fac_tensor **out) {
    if (FAC_UNLIKELY(base->cls != NULL)) return alias_of_class(base, share_version, out);
    return fac__alias_header(base, share_version, out);
}

fac_status fac__alias_header(fac_tensor *base, bool share_version, fac_tensor **out) {
    *out = NULL;
    if (share_version) FAC_TRY(fac__version_make(base));
    fac_tensor *t = new_header(fac__thread(), base->ndim, (fac_dtype)base->dtype, base->device);
    if (FAC_UNLIKELY(!t)) return FAC_ERR_MEMORY;
    for (int d = 0; d < base->ndim; d++) {
        t->sizes[d] = base->sizes[d];
        t->strides[d] = base->strides[d];
    }
    t->numel = base->numel;
    t->offset = base->offset;
    t->keys = base->keys & ~fac__func_bit(FAC_KEY_NAMED);
    t->flags = (uint16_t)(base->flags & ~FAC_TF_WRAPPED);
    t->storage = fac__storage_ref(base->storage);
    if (share_version) t->version = fac__version_ref(base->version);
    FAC_INVARIANT(base->cls || fac__tensor_is_valid(t));
    *out = t;
    return FAC_OK;
}

/* ---- changes under a handle ------------------------------------------------------------------------------------------------------ */

/* Room for ndim sizes and strides in t; the old ones are lost only on success. */
static fac_status reserve_dims(fac_tensor *t, int ndim) {
    if (ndim <= FAC_INLINE_DIMS) {
        if (t->sizes != t->inline_dims) fac__free(t->sizes);
        t->sizes = t->inline_dims;
        t->strides = t->inline_dims + FAC_INLINE_DIMS;
        return FAC_OK;
    }
    int64_t *block = fac__alloc_array(2 * (size_t)ndim, sizeof *block);
    if (!block) return FAC_ERR_MEMORY;
    if (t->sizes != t->inline_dims) fac__free(t->sizes);
    t->sizes = block;
    t->strides = block + ndim;
    return FAC_OK;
}

/* Sets geometry in place (resize_, set_data): no data moved, flags recomputed; dimensions of other sizes have no names. */
static fac_status set_geometry(fac_tensor *t, const int64_t *sizes, const int64_t *strides, int ndim, int64_t offset) {
    int64_t kept[2 * FAC_MAX_DIMS], numel; /* the given lists may be t's own */
    FAC_TRY(check_ndim(ndim));
    if (!fac__numel(sizes, ndim, &numel)) return bad_shape(sizes, ndim, (fac_dtype)t->dtype);
    size_t bytes = (size_t)ndim * sizeof *sizes;
    if (ndim) memcpy(kept, sizes, bytes), memcpy(kept + ndim, strides, bytes);
    if (ndim != t->ndim) FAC_TRY(reserve_dims(t, ndim));
    if (ndim != t->ndim || memcmp(t->sizes, kept, bytes) != 0) fac__set_names(t, 0);
    if (ndim) memcpy(t->sizes, kept, bytes), memcpy(t->strides, kept + ndim, bytes);
    t->ndim = (uint8_t)ndim;
    t->numel = numel;
    t->offset = offset;
    limit_idle_strides(t);
    fac__compute_flags(t);
    return FAC_OK;
}

fac_status fac__set_sizes(fac_tensor *t, const int64_t *sizes, int ndim) {
    int64_t strides[FAC_MAX_DIMS];
    const uint16_t flags = t->flags;
    FAC_TRY(check_ndim(ndim));
    fac__row_major(sizes, ndim, strides);
    FAC_TRY(set_geometry(t, sizes, strides, ndim, 0));
    t->flags = flags;
    return FAC_OK;
}

/* Between tensors of one class and layout. */
static fac_status set_opaque_data(fac_tensor *t, fac_tensor *src) {
    void *ext = NULL;
    FAC_CHECK(t->cls == src->cls && t->cls->share && t->cls->layout && t->cls->layout(t) == src->cls->layout(src),
              FAC_ERR_UNSUPPORTED, "set_data works on tensors of one layout");
    FAC_TRY(t->cls->share(src, &ext));
    fac_tensor old = {.cls = t->cls, .ext = t->ext};
    const fac_status st = fac__set_sizes(t, src->sizes, src->ndim);
    if (st != FAC_OK) old.ext = ext; /* which nobody has */
    if (old.cls->destroy) old.cls->destroy(&old);
    FAC_TRY(st);
    t->ext = ext;
    t->dtype = src->dtype;
    t->device = src->device;
    t->keys = src->keys;
    t->names = src->names;
    t->flags = (uint16_t)((t->flags & ~FAC_TF_INFERENCE) | (src->flags & FAC_TF_INFERENCE));
    fac__version_unref(t->version);
    t->version = NULL;
    return FAC_OK;
}

fac_status fac__set_data(fac_tensor *t, fac_tensor *src) {
    FAC_TRY(fac__check_own(t, "set_data"));
    FAC_TRY(fac__check_own(src, "set_data"));
    if (t->cls || src->cls) return set_opaque_data(t, src);
    fac_storage *old = t->storage;
    uint8_t dtype = t->dtype;
    t->dtype = src->dtype;
    fac_status st = set_geometry(t, src->sizes, src->strides, src->ndim, src->offset);
    if (st != FAC_OK) {
        t->dtype = dtype;
        return st;
    }
    t->storage = fac__storage_ref(src->storage);
    t->device = src->device;
    t->keys = src->keys;
    t->names = src->names;
    const unsigned taken = FAC_TF_PENDING | FAC_TF_INFERENCE;
    t->flags = (uint16_t)((t->flags & ~taken) | (src->flags & taken));
    fac__version_unref(t->version);
    t->version = NULL;
    fac__storage_unref(old);
    FAC_INVARIANT(fac__tensor_is_valid(t));
    return FAC_OK;
}
