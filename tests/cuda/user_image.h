/* The image that CMake makes of user_kernels.cu, loaded as a user would load his own: a file beside the program for devices, a
   shared object for the simulator. */
#ifndef FAC_TESTS_CUDA_USER_IMAGE_H
#define FAC_TESTS_CUDA_USER_IMAGE_H

#include <dlfcn.h>
#include <facula/facula.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* They are beside the program, or in the folder USER_KERNELS of the environment. NULL with an error pending if it is not there: NOT_FOUND if the build had no compiler for devices. */
static inline fac_cuda_module *load_user_kernels(void) {
    char path[4096];
    const char *folder = getenv("USER_KERNELS");
    ssize_t n =
        folder ? snprintf(path, sizeof path - 64, "%s/", folder) : readlink("/proc/self/exe", path, sizeof path - 64);
    path[n > 0 && n < (ssize_t)sizeof path - 64 ? n : 0] = '\0';
    char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!fac_cuda_is_simulated()) {
        strcpy(name, "user_kernels.fatbin");
        if (access(path, R_OK) == 0) return fac_cuda_module_load_file(path);
        fac_error_set(FAC_ERR_NOT_FOUND, "%s was not built: it takes nvcc", path);
        return NULL;
    }
    strcpy(name, "libuser_kernels.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *image = library ? dlsym(library, "user_image") : NULL;
    if (image) return fac_cuda_module_load(image);
    fac_error_set(FAC_ERR_IO, "%s", dlerror());
    return NULL;
}

#endif
