/* Making tensors, and changing what a header shows. "Owned" means the receiver must release. */
#ifndef FAC_SRC_CORE_TENSOR_MAKE_H
#define FAC_SRC_CORE_TENSOR_MAKE_H

#include "core/tensor.h"

/* Owned, uninitialised, row-major. The one creation routine: allocator and keys follow from the device. Negative
   sizes, overflow, dtype 0 and too many dims are errors. */
fac_status fac__empty(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, fac_tensor **out);
/* Owned, with given strides (non-negative); the storage is just large enough. */
fac_status fac__empty_strided(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype,
                              fac_device device, fac_tensor **out);
/* The same with the bytes from an allocator that is not the device's own (page-locked memory); NULL: the device's. */
fac_status fac__empty_from(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, const fac_allocator *a,
                           fac_tensor **out);
fac_status fac__empty_strided_from(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype,
                                   fac_device device, const fac_allocator *a, fac_tensor **out);
/* Owned and uninitialised, of any dtype that a tensor can be stored in: the 8-bit floats, which the functions above refuse as
   kernels would compute in them, too. strides NULL: row-major; a NULL: the device's allocator. */
fac_status fac__empty_stored(const int64_t *sizes, const int64_t *strides, int ndim, fac_dtype dtype, fac_device device,
                             const fac_allocator *a, fac_tensor **out);
/* Owned, same dtype and device as `like`; strides follow `like`'s permutation if dense, else row-major. */
fac_status fac__empty_like(fac_tensor *like, fac_tensor **out);
/* Owned alias of base's storage with other geometry; shares the version counter; no autograd data. Checks that the
   view fits the storage when `check` is set. */
fac_status fac__view(fac_tensor *base, const int64_t *sizes, const int64_t *strides, int ndim, int64_t offset,
                     bool check, fac_tensor **out);
/* Owned alias with the same geometry (detach, alias). share_version false gives a fresh counter. */
fac_status fac__alias(fac_tensor *t, bool share_version, fac_tensor **out);
/* fac__alias without the check that t is plain: its class and what it hangs on the tensor are left behind. */
fac_status fac__alias_header(fac_tensor *t, bool share_version, fac_tensor **out);
/* What a tensor of a class of its own shows. */
typedef struct fac_geometry {
    const int64_t *sizes, *strides;
    int ndim;
    fac_dtype dtype;
    fac_device device;
    fac_keyset keys;
    uint16_t flags; /* those that do not follow from sizes and strides */
} fac_geometry;
/* Owned, without storage; takes ext on success. */
fac_status fac__tensor_of_class(const fac_tensor_class *cls, void *ext, const fac_geometry *g, fac_tensor **out);
/* fac_tensor_from, giving a header of the innermost scope. */
fac_tensor *fac__tensor_from(const void *data, fac_dtype dtype, fac_ints sizes);
/* Owned 0-dim tensor holding a number in `dtype` on the CPU. FAC_DTYPE_DEFAULT: in the number's own dtype, and marked as
   wrapped, so that it ranks lowest in promotion. */
fac_status fac__scalar_tensor(fac_scalar v, fac_dtype dtype, fac_tensor **out);
/* Changes sizes to row-major `sizes`, growing the storage when it must; contents up to the old end are kept. */
fac_status fac__resize(fac_tensor *t, const int64_t *sizes, int ndim);
/* Sizes and row-major strides of a tensor that is not plain; nothing else changes. */
fac_status fac__set_sizes(fac_tensor *t, const int64_t *sizes, int ndim);
/* Swaps storage, geometry, dtype, device and keys of `src` in under the handle `t`; fresh version. */
fac_status fac__set_data(fac_tensor *t, fac_tensor *src);

#endif
