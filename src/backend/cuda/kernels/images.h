/* Where the code of kernels comes from: embedded in the library, compiled at run time, or, simulated, a shared object. */
#ifndef FAC_SRC_BACKEND_CUDA_KERNELS_IMAGES_H
#define FAC_SRC_BACKEND_CUDA_KERNELS_IMAGES_H

#include "backend/cuda/runtime/runtime.h"

/* The image of the built-in kernels for a device, to be given to cuLibraryLoadData or cuModuleLoadData. It lives as long as
   the process; devices of one architecture get the same. The first call may compile (see compile.h).
   errors: UNSUPPORTED, saying how to get one, if the library was built without images and cannot make any here */
fac_status fac__cuda_builtin_image(int index, const void **out_image);

#endif
