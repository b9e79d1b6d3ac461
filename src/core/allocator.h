/* The registry of allocators. */
#ifndef FAC_SRC_CORE_ALLOCATOR_H
#define FAC_SRC_CORE_ALLOCATOR_H

#include "core/thread.h"
#include <facula/tensor.h>

#define FAC_DATA_ALIGN 64 /* of every storage: a cache line and an AVX-512 register */

/* The allocator of a device; DEVICE error if none is registered for its type or the index is wrong. */
fac_status fac__allocator_of(fac_device d, const fac_allocator **out);
/* True if fac_allocator_set put the user's own in place of a device type's. */
bool fac__allocator_replaced(fac_device_type type);
/* Makes `a` the allocator of a device type, unless one was set already. */
void fac__allocator_default(fac_device_type type, const fac_allocator *a);

#endif
