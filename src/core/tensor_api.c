/* The public face of a tensor: its properties, and tensors over given data. */
#include "core/handle.h"
#include "core/nested.h"
#include "core/sparse.h"
#include "core/storage.h"
#include "core/tensor_flags.h"
#include "core/tensor_make.h"

int fac_tensor_ndim(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", 0);
    return t->ndim;
}

bool fac_is_nested(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", false);
    return fac__nested_of(t) != NULL;
}

/* Entry `dim` of sizes or strides, 0 with an error if there is none. */
static int64_t entry(const int64_t *list, int ndim, int64_t dim) {
    if (ndim == 0) {
        FAC_FAIL(FAC_ERR_INDEX, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
        return 0;
    }
    return fac__wrap_dim(dim, ndim, &dim) == FAC_OK ? list[dim] : 0;
}

int64_t fac_tensor_size(const fac_tensor *t, int64_t dim) {
    FAC_OPEN(t, __func__, "t", 0);
    const int64_t size = entry(t->sizes, t->ndim, dim);
    if (FAC_LIKELY(size != FAC_RAGGED)) return size;
    FAC_FAIL(FAC_ERR_SHAPE, "Given dimension %lld is irregular and does not have a size.", (long long)dim);
    return 0;
}

/* Elements of other layouts do not lie at steps; an error is left pending. */
static bool has_strides(const fac_tensor *t) {
    const bool nested = fac__nested_of(t) != NULL;
    if (fac__layout_of(t) == FAC_STRIDED && !nested) return true;
    FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s tensors do not have strides",
             nested ? "nested" : fac__layout_name(fac__layout_of(t)));
    return false;
}

int64_t fac_tensor_stride(const fac_tensor *t, int64_t dim) {
    FAC_OPEN(t, __func__, "t", 0);
    return has_strides(t) ? entry(t->strides, t->ndim, dim) : 0;
}

fac_ints fac_tensor_sizes(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", (fac_ints){NULL, 0});
    for (int k = 0; k < t->ndim && fac__nested_of(t); k++) {
        if (t->sizes[k] != FAC_RAGGED) continue;
        FAC_FAIL(FAC_ERR_SHAPE,
                 "dimension %d of the nested tensor is irregular and does not have a size; "
                 "fac_nested_tensor_size gives those of the components",
                 k);
        return (fac_ints){NULL, 0};
    }
    return (fac_ints){t->sizes, t->ndim};
}

fac_ints fac_tensor_strides(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", (fac_ints){NULL, 0});
    return has_strides(t) ? (fac_ints){t->strides, t->ndim} : (fac_ints){NULL, 0};
}

int64_t fac_tensor_numel(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", 0);
    return t->numel;
}

int64_t fac_tensor_offset(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", 0);
    return t->offset;
}

fac_dtype fac_tensor_dtype(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", FAC_DTYPE_DEFAULT);
    return (fac_dtype)t->dtype;
}

fac_device fac_tensor_device(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", (fac_device){0});
    return t->device;
}

fac_layout fac_tensor_layout(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", FAC_STRIDED);
    return fac__layout_of(t);
}

bool fac_is_mkldnn(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", false);
    return fac__layout_of(t) == FAC_VENDOR_LAYOUT;
}

bool fac_tensor_is_contiguous(const fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", false);
    return fac__is_contiguous(t);
}

bool fac_tensor_is_contiguous_as(const fac_tensor *t, fac_memory_format format) {
    FAC_OPEN(t, __func__, "t", false);
    switch (format) {
    case FAC_FORMAT_DEFAULT:
    case FAC_CONTIGUOUS: return fac__is_contiguous(t);
    case FAC_CHANNELS_LAST: return (t->flags & FAC_TF_CHANNELS_LAST) != 0;
    case FAC_CHANNELS_LAST_3D: return (t->flags & FAC_TF_CHANNELS_LAST_3D) != 0;
    case FAC_PRESERVE: break;
    }
    FAC_FAIL(FAC_ERR_ARGUMENT, "memory format %d orders no elements; expected contiguous or a channels-last format",
             (int)format);
    return false;
}

/* A tensor that is not plain may have its elements elsewhere. */
static fac_status check_memory(const fac_tensor *t, const char *what) {
    return t->storage || !t->cls || t->device.type == FAC_META ? FAC_OK : fac__not_plain(t, what);
}

void *fac_tensor_data(fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", NULL);
    if (check_memory(t, "fac_tensor_data")) return NULL;
    return fac__data(t);
}

fac_storage *fac_tensor_storage(fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", NULL);
    if (check_memory(t, "fac_tensor_storage")) return NULL;
    return t->storage;
}

bool fac_is_alias_of(const fac_tensor *a, const fac_tensor *b) {
    FAC_OPEN(a, __func__, "a", false);
    FAC_OPEN(b, __func__, "b", false);
    return fac__is_alias(a, b);
}

int64_t fac_tensor_version(fac_tensor *t) {
    FAC_OPEN(t, __func__, "t", 0);
    if (t->flags & FAC_TF_INFERENCE) {
        FAC_FAIL(FAC_ERR_STATE, "Inference tensors do not track version counter");
        return 0;
    }
    return fac__version_of(t);
}

fac_status fac_set_data(fac_tensor *t, fac_tensor *src) {
    FAC_TRY(fac_error());
    FAC_OPEN(t, __func__, "t", fac_error());
    FAC_OPEN(src, __func__, "src", fac_error());
    bool differentiable = fac_dtype_is_floating((fac_dtype)src->dtype) || fac_dtype_is_complex((fac_dtype)src->dtype);
    FAC_CHECK(differentiable || !fac__requires_grad(t), FAC_ERR_AUTOGRAD,
              "data set to a tensor that requires gradients must be floating point or complex dtype, not %s",
              fac_dtype_name((fac_dtype)src->dtype));
    return t == src ? FAC_OK : fac__set_data(t, src);
}

/* ---- from data ---------------------------------------------------------------------------------------------------------- */

fac_tensor *fac__tensor_from(const void *data, fac_dtype dtype, fac_ints sizes) {
    fac_thread *th = fac__thread();
    fac_tensor *t;
    FAC_TRY_NULL(th->error);
    if (!fac__list_given(sizes.v, sizes.n, "sizes")) return NULL;
    int ndim = sizes.n > FAC_MAX_DIMS ? FAC_MAX_DIMS + 1 : (int)sizes.n;
    FAC_TRY_NULL(fac__empty_stored(sizes.v, NULL, ndim, dtype, fac_device_make(FAC_CPU, -1), NULL, &t));
    if (t->numel && !data) {
        fac__unref(t);
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_tensor_from: data is NULL, but the sizes ask for elements");
        return NULL;
    }
    if (t->numel) memcpy(fac__data(t), data, (size_t)(t->numel * fac__item_size(t)));
    return fac__adopt(th, t);
}

fac_tensor *fac_tensor_from(const void *data, fac_dtype dtype, fac_ints sizes) {
    return fac__handle(fac__tensor_from(data, dtype, sizes));
}

fac_status fac__tensor_over(fac_storage *s, fac_dtype dtype, fac_ints sizes, fac_ints strides, int64_t offset,
                            fac_tensor **out) {
    int64_t row_major[FAC_MAX_DIMS], none = 0;
    fac_tensor *shell;
    fac_status st = fac__empty_stored(&none, NULL, 1, dtype, s->device, NULL, &shell);
    if (st != FAC_OK) {
        fac__storage_unref(s);
        return st;
    }
    fac__storage_unref(shell->storage);
    shell->storage = s;
    int ndim = (int)sizes.n;
    if (!strides.v && fac__numel(sizes.v, ndim, &none)) {
        fac__row_major(sizes.v, ndim, row_major);
        strides.v = row_major;
    }
    if (!strides.v) strides = sizes; /* negative or too many: the view says so */
    st = fac__view(shell, sizes.v, strides.v, ndim, offset, true, out);
    if (st == FAC_OK && fac__item_size(*out) > 1 &&
        (uintptr_t)s->data % (uintptr_t)(fac__item_size(*out) > 8 ? 8 : fac__item_size(*out))) {
        fac__unref(*out);
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "the data at %p is not aligned for %s", (void *)s->data, fac_dtype_name(dtype));
    }
    fac__unref(shell);
    return st;
}

fac_tensor *fac_tensor_wrap(void *data, size_t bytes, fac_dtype dtype, fac_ints sizes, fac_ints strides, int64_t offset,
                            void (*release)(void *), void *context) {
    fac_thread *th = fac__thread();
    fac_storage *s;
    fac_tensor *t;
    FAC_TRY_NULL(th->error);
    if (!fac__list_given(sizes.v, sizes.n, "sizes") || !fac__list_given(strides.v, strides.n, "strides")) return NULL;
    if (bytes > INT64_MAX || sizes.n > FAC_MAX_DIMS || (strides.v && strides.n != sizes.n) || (!data && bytes)) {
        FAC_FAIL(FAC_ERR_SHAPE,
                 "fac_tensor_wrap: %zu sizes and %zu strides over %zu bytes at %p: lengths must agree, be at most "
                 "%d, and the memory must be there",
                 sizes.n, strides.n, bytes, data, FAC_MAX_DIMS);
        return NULL;
    }
    /* `release` is set last: on failure the memory stays the caller's. */
    FAC_TRY_NULL(fac__storage_wrap(data, (int64_t)bytes, fac_device_make(FAC_CPU, -1), NULL, context, &s));
    FAC_TRY_NULL(fac__tensor_over(s, dtype, sizes, strides, offset, &t));
    if (!fac__adopt(th, t)) return NULL;
    s->release = release;
    return fac__handle(t);
}
