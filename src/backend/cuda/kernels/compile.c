#define _GNU_SOURCE 1 /* dladdr */
#include "backend/cuda/kernels/compile.h"

#include <dlfcn.h>

fac_status fac__cuda_compile(int index, const fac_cuda_source *source, void **out_image) {
    fac_cuda_device *d;
    char *code = NULL;
    size_t bytes;
    *out_image = NULL;
    FAC_TRY(fac__cuda_device(index, &d));
    if (fac__cu_is_simulated()) {
        Dl_info driver;
        bool known = dladdr((void *)(uintptr_t)fac__cu.cuInit, &driver) && driver.dli_fname;
        FAC_CHECK(known, FAC_ERR_UNSUPPORTED,
                  "the simulated driver's file is not known, so nothing can be linked with it");
        return fac__host_compile(source, driver.dli_fname, out_image);
    }
    FAC_TRY(fac__nvrtc_compile(source, d->major * 10 + d->minor, fac__cu_version(), &code, &bytes));
    *out_image = code;
    return FAC_OK;
}

/* What is simulated stays loaded: launches of it may be queued. */
void fac__cuda_compiled_free(int index, void *image) {
    (void)index;
    if (!fac__cu_is_simulated()) fac__free(image);
}

fac_status fac__cuda_compile_builtin(int index, void **out_image) {
    FAC_CHECK(fac__cuda_n_sources, FAC_ERR_UNSUPPORTED,
              "this build of Facula has no CUDA kernels: configure it with -DFACULA_CUDA_IMAGES=nvcc (needs the CUDA "
              "toolkit) or nvrtc (compiles at run time)");
    const fac_cuda_source s = {.name = "facula.cu",
                               .text = fac__cuda_sources[0].text,
                               .headers = fac__cuda_sources + 1,
                               .n_headers = fac__cuda_n_sources - 1};
    return fac__cuda_compile(index, &s, out_image);
}
