/* CUDA C compiled at run time: by NVRTC for a device, by the system's C compiler for a simulated one. The
   compilers, and what they made on disk, are in src/jit. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_COMPILE_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_COMPILE_H

#include "backend/cuda/runtime/runtime.h"
#include "jit/jit.h"

/* Compiles for the device at `index`, with the dialect's headers at hand besides the source's own (#include "kernel.h"); the image, from fac__alloc or loaded for good when simulated, is what
   cuLibraryLoadData takes. Free it with fac__cuda_compiled_free.
   errors: UNSUPPORTED if there is no compiler; FORMAT with the compiler's messages; MEMORY; IO */
fac_status fac__cuda_compile(int index, const fac_jit_source *source, void **out_image);
void fac__cuda_compiled_free(int index, void *image);
/* The source with the dialect's headers before its own, kept in `room`. */
enum { FAC_CUDA_MAX_HEADERS = 96 };
fac_status fac__cuda_with_dialect(const fac_jit_source *source, fac_jit_text room[FAC_CUDA_MAX_HEADERS],
                                  fac_jit_source *out);
/* The built-in kernels, from the sources that the library carries; UNSUPPORTED if it carries none. */
fac_status fac__cuda_compile_builtin(int index, void **out_image);

/* Made by the build: headers that make up the dialect, and the sources of the built-in kernels. */
extern const fac_jit_text fac__cuda_dialect[], fac__cuda_sources[];
extern const size_t fac__cuda_n_dialect, fac__cuda_n_sources;

#endif
