/* CUDA C compiled at run time: by NVRTC for a device, by the system's C compiler for a simulated one. Results are kept on
   disk, under $XDG_CACHE_HOME/facula (or ~/.cache/facula), by the hash of all that went in. */
#ifndef FAC_SRC_BACKEND_CUDA_KERNELS_COMPILE_H
#define FAC_SRC_BACKEND_CUDA_KERNELS_COMPILE_H

#include "backend/cuda/runtime/runtime.h"

/* A file that sources may include, under this name. */
typedef struct fac_cuda_header {
    const char *name, *text;
} fac_cuda_header;

typedef struct fac_cuda_source {
    const char *name, *text;
    const fac_cuda_header *headers; /* besides the dialect's, which are always there: #include "kernel.h" */
    size_t n_headers;
    const char *const *options; /* "-DN=4" */
    size_t n_options;
} fac_cuda_source;

/* Compiles for the device at `index`; the image, from fac__alloc or loaded for good when simulated, is what
   cuLibraryLoadData takes. Free it with fac__cuda_compiled_free.
   errors: UNSUPPORTED if there is no compiler; ARGUMENT with the compiler's log for wrong source; MEMORY, IO */
fac_status fac__cuda_compile(int index, const fac_cuda_source *source, void **out_image);
void fac__cuda_compiled_free(int index, void *image);

#endif
