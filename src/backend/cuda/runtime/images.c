/* The image of the built-in kernels: a fatbin that the build embedded, the sources that it embedded, compiled on first use for
   each architecture, or the simulator's shared object, which lies beside the simulated driver. */
#define _GNU_SOURCE 1 /* dladdr */
#include "backend/cuda/runtime/images.h"
#include "backend/cuda/runtime/compile.h"

#include "base/mutex.h"
#include <dlfcn.h>
#include <stdio.h>

/* ---- simulated --------------------------------------------------------------------------------------------------------- */

#define SIM_KERNELS "libfacula-simkernels.so"

static void *open_beside_driver(char *path, size_t size) {
    Dl_info driver;
    if (dladdr((void *)(uintptr_t)fac__cu.cuInit, &driver) && driver.dli_fname) {
        const char *slash = strrchr(driver.dli_fname, '/');
        int folder = slash ? (int)(slash - driver.dli_fname) + 1 : 0;
        int n = snprintf(path, size, "%.*s%s", folder, driver.dli_fname, SIM_KERNELS);
        if (n > 0 && (size_t)n < size) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(path, size, "%s", SIM_KERNELS);
    return dlopen(SIM_KERNELS, RTLD_NOW | RTLD_LOCAL);
}

/* Stays loaded: kernels of it may be queued until the process ends. */
static fac_status simulated_image(const void **out) {
    static fac_mutex lock = FAC_MUTEX_INIT; /* of image */
    static const void *image;
    char path[4096];
    fac__mutex_lock(&lock);
    if (!image) {
        void *library = open_beside_driver(path, sizeof path);
        image = library ? dlsym(library, "facula_sim_image") : NULL;
    }
    *out = image;
    fac__mutex_unlock(&lock);
    const char *why = *out ? NULL : dlerror();
    FAC_CHECK(*out, FAC_ERR_UNSUPPORTED, "the simulator's kernels were not found: %s", why ? why : path);
    return FAC_OK;
}

/* ---- a device's ----------------------------------------------------------------------------------------------------------- */

#if defined(FAC_CUDA_FATBIN)
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".globl fac__cuda_fatbin\n"
        ".hidden fac__cuda_fatbin\n"
        "fac__cuda_fatbin:\n"
        ".incbin \"" FAC_CUDA_FATBIN "\"\n"
        ".popsection\n");
extern const char fac__cuda_fatbin[] __attribute__((visibility("hidden")));
#else
static const char *const fac__cuda_fatbin = NULL;
#endif

fac_status fac__cuda_builtin_image(int index, const void **out_image) {
    (void)index;
    *out_image = fac__cuda_fatbin;
    return fac__cu_is_simulated() ? simulated_image(out_image) : FAC_OK;
}

fac_status fac__cuda_builtin_compiled(int index, const void **out_image) {
    static fac_mutex lock = FAC_MUTEX_INIT; /* of images */
    static void *images[FAC_CUDA_MAX_DEVICES];
    fac_status st = FAC_OK;
    fac__mutex_lock(&lock);
    if (!images[index]) st = fac__cuda_compile_builtin(index, &images[index]);
    *out_image = images[index];
    fac__mutex_unlock(&lock);
    return st;
}
