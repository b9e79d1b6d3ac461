/* Where the code of kernels comes from: embedded in the library, compiled at run time, or, simulated, a shared object. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_IMAGES_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_IMAGES_H

#include "backend/cuda/runtime/runtime.h"

/* The image of the built-in kernels for a device, to be given to cuModuleLoadData; NULL if the library was built with none. It
   lives as long as the process.
   errors: UNSUPPORTED if the simulator's was not found */
fac_status fac__cuda_builtin_image(int index, const void **out_image);
/* The same from the sources that the library carries, compiled (see compile.h) for the very device and driver: for those that
   have no use for the image above. It lives as long as the process.
   errors: UNSUPPORTED, saying how to get one, if the library carries no sources or there is no compiler */
fac_status fac__cuda_builtin_compiled(int index, const void **out_image);

#endif
