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
   errors: UNSUPPORTED if there is no compiler; FORMAT with the compiler's messages; MEMORY; IO */
fac_status fac__cuda_compile(int index, const fac_cuda_source *source, void **out_image);
void fac__cuda_compiled_free(int index, void *image);
/* The built-in kernels, from the sources that the library carries; UNSUPPORTED if it carries none. */
fac_status fac__cuda_compile_builtin(int index, void **out_image);

/* ---- the two compilers (nvrtc.c, host_compiler.c) ------------------------------------------------------------------------ */

/* Made by the build: headers that make up the dialect, and the sources of the built-in kernels. */
extern const fac_cuda_header fac__cuda_dialect[], fac__cuda_sources[];
extern const size_t fac__cuda_n_dialect, fac__cuda_n_sources;

/* Machine code for an architecture (90 is sm_90); the image is from fac__alloc. driver_version as of fac__cu_version: the
   compiler of the same major version is preferred. */
fac_status fac__nvrtc_compile(const fac_cuda_source *source, int arch, int driver_version, char **out,
                              size_t *out_bytes);
/* An image for the simulator, loaded and never unloaded. simulator: path of the simulated driver, which it is linked with. */
fac_status fac__host_compile(const fac_cuda_source *source, const char *simulator, void **out_image);

/* ---- the cache on disk (compile_cache.c) ------------------------------------------------------------------------------------ */

/* A name for what comes out of a source with these further inputs: 32 hexadecimal digits. */
void fac__compile_key(const fac_cuda_source *source, const char *compiler, char key[33]);
/* Path of a file in the cache's folder, which is made if need be; false where there is no place for one. */
bool fac__compile_cache_path(const char *key, const char *suffix, char *path, size_t size);
/* What is cached, from fac__alloc, or *out NULL. */
fac_status fac__compile_cache_read(const char *path, char **out, size_t *out_bytes);
/* Written aside and renamed, so that nobody reads half a file. A failure is no error: the next one compiles again. */
void fac__compile_cache_write(const char *path, const char *data, size_t bytes);

#endif
