/* Resizing, in two steps: the first does all that can fail and leaves the tensor as it is, the second cannot fail. Operators
   put their work between the two, so that an output of one that failed has kept its sizes, its bytes and its address. */
#include "core/resize.h"
#include "core/names.h"
#include "core/storage.h"
#include "core/tensor_flags.h"
#include "core/tensor_make.h"
#include "core/valid.h"

/* Bytes that a storage needs for this geometry; false on overflow. */
static bool bytes_needed(const fac_tensor *t, const int64_t *sizes, const int64_t *strides, int ndim, int64_t *out) {
    int64_t numel, step, last = t->offset;
    if (!fac__numel(sizes, ndim, &numel)) return false;
    *out = 0;
    if (numel == 0) return true;
    for (int d = 0; d < ndim; d++)
        if (!fac__mul(sizes[d] - 1, strides[d], &step) || !fac__add(last, step, &last)) return false;
    return last < INT64_MAX && fac__mul(last + 1, fac__item_size(t), out);
}

fac_status fac__resize_begin(fac_tensor *t, const int64_t *sizes, const int64_t *strides, int ndim, bool keep_all,
                             fac_tensor **out) {
    int64_t row_major[FAC_MAX_DIMS], bytes = 0;
    *out = NULL;
    if (!strides && ndim <= FAC_MAX_DIMS) fac__row_major(sizes, ndim, row_major);
    if (!strides) strides = row_major;
    for (int d = 0; d < ndim; d++)
        FAC_CHECK(sizes[d] >= 0, FAC_ERR_SHAPE, "Trying to create tensor with negative dimension %lld",
                  (long long)sizes[d]);
    FAC_CHECK(ndim > FAC_MAX_DIMS || bytes_needed(t, sizes, strides, ndim, &bytes), FAC_ERR_OVERFLOW,
              "a tensor of sizes %s and dtype %s has more bytes than 64 bits can count",
              fac__shape_text(sizes, ndim, (char[256]){0}, 256), fac_dtype_name((fac_dtype)t->dtype));
    fac_tensor *next;
    FAC_TRY(fac__view(t, sizes, strides, ndim, t->offset, false, &next));
    fac_status st = FAC_OK;
    if (t->storage && bytes > t->storage->bytes) {
        int64_t kept = keep_all ? t->storage->bytes : fac__min(t->storage->bytes, t->offset * fac__item_size(t));
        fac_storage *old = next->storage;
        st = fac__storage_like(old, bytes, kept, &next->storage);
        fac__storage_unref(old);
    }
    if (st == FAC_OK)
        *out = next;
    else
        fac__unref(next);
    return st;
}

/* Gives t the dimensions of `next`, which is left with none on the heap. */
static void move_dims(fac_tensor *t, fac_tensor *next) {
    if (t->sizes != t->inline_dims) fac__free(t->sizes);
    bool heap = next->sizes != next->inline_dims;
    if (!heap) memcpy(t->inline_dims, next->inline_dims, sizeof t->inline_dims);
    t->sizes = heap ? next->sizes : t->inline_dims;
    t->strides = t->sizes + (next->strides - next->sizes);
    t->ndim = next->ndim;
    next->sizes = next->inline_dims;
    next->ndim = 0;
}

static void take_geometry(fac_tensor *t, fac_tensor *next) {
    t->offset = next->offset;
    t->numel = next->numel;
    move_dims(t, next);
    fac__compute_flags(t);
}

void fac__move_geometry(fac_tensor *t, fac_tensor *next) {
    fac__set_names(t, 0);
    take_geometry(t, next);
}

void fac__resize_end(fac_tensor *t, fac_tensor *next) {
    if (next->storage != t->storage) fac__storage_swap(next->storage, t->storage);
    if (!fac__same_sizes(t, next)) fac__set_names(t, 0);
    take_geometry(t, next);
    fac__unref(next);
    FAC_INVARIANT(fac__tensor_is_valid(t));
}

fac_status fac__resize(fac_tensor *t, const int64_t *sizes, int ndim) {
    fac_tensor *next;
    FAC_TRY(fac__resize_begin(t, sizes, NULL, ndim, true, &next));
    fac__resize_end(t, next);
    return FAC_OK;
}
