/* Making and growing storages. */
#ifndef FAC_SRC_CORE_STORAGE_H
#define FAC_SRC_CORE_STORAGE_H

#include "core/tensor.h"

/* Owned, uninitialised, from `a`, or from the device's allocator if that is NULL. */
fac_status fac__storage_new(fac_thread *th, fac_device device, int64_t bytes, const fac_allocator *a,
                            fac_storage **out);
/* Owned, over memory of the caller's; `release` (NULL allowed) is called with `context` when it dies. */
fac_status fac__storage_wrap(void *data, int64_t bytes, fac_device device, void (*release)(void *), void *context,
                             fac_storage **out);
/* Owned, over a wrapped storage, which it takes over, on failure too; strides not given: row-major. */
fac_status fac__tensor_over(fac_storage *s, fac_dtype dtype, fac_ints sizes, fac_ints strides, int64_t offset,
                            fac_tensor **out);
/* Owned, from the allocator of s, beginning with the first `kept` bytes of s. Fails for memory that is the caller's. */
fac_status fac__storage_like(const fac_storage *s, int64_t bytes, int64_t kept, fac_storage **out);
/* Exchanges the memory of two storages that have the same device and allocator. */
void fac__storage_swap(fac_storage *a, fac_storage *b);

#endif
