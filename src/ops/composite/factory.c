/* Factory keywords: defaults, refusals, and the one place that turns them into an empty tensor. */
#include "ops/composite/factory.h"
#include "core/guard.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "iter/iter.h"

fac_status fac__factory_resolve(fac_factory *f, fac_dtype dtype) {
    FAC_CHECK(f->layout == FAC_STRIDED, FAC_ERR_UNSUPPORTED,
              "only strided tensors can be made here; make it strided and convert it");
    if (f->dtype == FAC_DTYPE_DEFAULT) f->dtype = dtype;
    if (f->device.type == FAC_DEVICE_UNSET) f->device = fac_device_make(FAC_CPU, -1);
    return fac__device_resolve(&f->device);
}

fac_status fac__pin_allocator(fac_opt_num pin_memory, fac_device device, const fac_allocator **out) {
    *out = NULL;
    if (!pin_memory.set || fac__scalar_f64(pin_memory.v) == 0) return FAC_OK;
    FAC_CHECK(device.type == FAC_CPU, FAC_ERR_ARGUMENT, "Only dense CPU tensors can be pinned, not those on %s",
              fac_device_format(device, (char[24]){0}, 24));
    return fac__host_allocator(out);
}

fac_status fac__factory_like(fac_factory *f, const fac_tensor *like) {
    if (f->device.type == FAC_DEVICE_UNSET) f->device = like->device;
    return fac__factory_resolve(f, (fac_dtype)like->dtype);
}

/* Strides of channels-last order: the second dimension is the fastest, the first the slowest. */
static fac_status channels_last(const int64_t *sizes, int ndim, int wanted, int64_t *strides) {
    FAC_CHECK(ndim == wanted, FAC_ERR_ARGUMENT, "required rank %d tensor to use %s format, got rank %d", wanted,
              wanted == 4 ? "channels_last" : "channels_last_3d", ndim);
    int64_t stride = 1;
    strides[1] = 1;
    bool fits = fac__mul(stride, fac__max(sizes[1], 1), &stride);
    for (int d = ndim - 1; d >= 2; d--) {
        strides[d] = stride;
        fits = fits && fac__mul(stride, fac__max(sizes[d], 1), &stride);
    }
    strides[0] = stride;
    FAC_CHECK(fits, FAC_ERR_OVERFLOW, "the strides of a tensor of these sizes do not fit 64 bits");
    return FAC_OK;
}

static fac_status in_format(const fac_factory *f, fac_ints size, fac_memory_format format, fac_tensor **out) {
    int64_t strides[FAC_MAX_DIMS];
    const fac_allocator *from;
    FAC_TRY(fac__pin_allocator(f->pin_memory, f->device, &from));
    bool last = format == FAC_CHANNELS_LAST || format == FAC_CHANNELS_LAST_3D;
    if (!last) return fac__empty_stored(size.v, NULL, (int)size.n, f->dtype, f->device, from, out);
    FAC_TRY(channels_last(size.v, (int)size.n, format == FAC_CHANNELS_LAST ? 4 : 5, strides));
    return fac__empty_stored(size.v, strides, (int)size.n, f->dtype, f->device, from, out);
}

fac_status fac__factory_empty(const fac_factory *f, fac_ints size, fac_memory_format format, fac_tensor **out) {
    FAC_CHECK(size.n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS,
              size.n);
    FAC_CHECK(format != FAC_PRESERVE, FAC_ERR_ARGUMENT, "there is nothing whose memory format could be preserved");
    return in_format(f, size, format, out);
}

/* Strides of a tensor that keeps the order of `like`'s dimensions but has no gaps. */
static fac_status dense_strides(fac_tensor *like, int64_t *strides) {
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE);
    FAC_TRY(fac_iter_out(&it, NULL));
    FAC_TRY(fac_iter_in(&it, like));
    FAC_TRY(fac_iter_plan(&it));
    fac_iter_out_strides(&it, strides);
    return FAC_OK;
}

fac_status fac__factory_empty_like(const fac_factory *f, fac_tensor *like, fac_memory_format format, fac_tensor **out) {
    fac_ints size = {like->sizes, like->ndim};
    bool preserve = format == FAC_FORMAT_DEFAULT || format == FAC_PRESERVE;
    if (!preserve || (like->flags & FAC_TF_CONTIGUOUS)) return in_format(f, size, format, out);
    const fac_allocator *from;
    int64_t strides[FAC_MAX_DIMS];
    FAC_TRY(fac__pin_allocator(f->pin_memory, f->device, &from));
    if (like->flags & FAC_TF_DENSE)
        return fac__empty_stored(like->sizes, like->strides, like->ndim, f->dtype, f->device, from, out);
    FAC_TRY(dense_strides(like, strides));
    return fac__empty_stored(like->sizes, strides, like->ndim, f->dtype, f->device, from, out);
}
