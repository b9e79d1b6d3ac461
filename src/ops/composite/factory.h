/* What the factories share: their keywords, and tensors filled below autograd. */
#ifndef FAC_SRC_OPS_COMPOSITE_FACTORY_H
#define FAC_SRC_OPS_COMPOSITE_FACTORY_H

#include "core/tensor.h"

/* The keywords that every factory has. */
typedef struct fac_factory {
    fac_dtype dtype;
    fac_layout layout;
    fac_device device;
    fac_opt_num pin_memory;
} fac_factory;
#define FACTORY(dtype, layout, device, pin_memory) ((fac_factory){dtype, layout, device, pin_memory})

/* Replaces what is not given: by `dtype` and the CPU. Refuses layouts and memory that are not there. */
fac_status fac__factory_resolve(fac_factory *f, fac_dtype dtype);
/* The same with the dtype and device of a tensor. */
fac_status fac__factory_like(fac_factory *f, const fac_tensor *like);
/* The allocator of page-locked memory if pin_memory is given and true, else NULL. ARGUMENT if the device is not the CPU;
   UNSUPPORTED without an accelerator. */
fac_status fac__pin_allocator(fac_opt_num pin_memory, fac_device device, const fac_allocator **out);
/* Owned and uninitialised, row-major or in the given format. */
fac_status fac__factory_empty(const fac_factory *f, fac_ints size, fac_memory_format format, fac_tensor **out);
/* Owned, uninitialised, in the sizes of `like`; strides as its memory format (unset: preserve) says. */
fac_status fac__factory_empty_like(const fac_factory *f, fac_tensor *like, fac_memory_format format, fac_tensor **out);

#endif
