/* Images on devices: users' modules and their functions, behind the public handles. */
#ifndef FAC_SRC_BACKEND_CUDA_RUNTIME_MODULE_H
#define FAC_SRC_BACKEND_CUDA_RUNTIME_MODULE_H

#include "backend/cuda/runtime/runtime.h"
#include <facula/cuda.h>

struct fac_cuda_function {
    fac_cuda_module *module;
    char *name;
    fac_cuda_function *next;                           /* of the module */
    _Atomic(CUfunction) handles[FAC_CUDA_MAX_DEVICES]; /* NULL before the first launch there */
};

struct fac_cuda_module {
    const void *image; /* NULL if it is compiled from the source, for each device */
    char *source;
    char *name; /* for messages */
    bool owned; /* the image is ours to free */
    void *compiled[FAC_CUDA_MAX_DEVICES];
    CUmodule loaded[FAC_CUDA_MAX_DEVICES];
    fac_cuda_function *functions;
    fac_cuda_module *next, *prev; /* of all modules, for the shutdown */
};

void fac__cuda_module_link(fac_cuda_module *m);
void fac__cuda_module_unlink(fac_cuda_module *m);
/* Forgets what a module has on a device, whose context is current. */
void fac__cuda_module_unload(fac_cuda_module *m, int index);
/* A function of that name, NULL if none was asked for yet. */
fac_cuda_function *fac__cuda_module_find(fac_cuda_module *m, const char *name);
/* Adds a new one; gives it, or that of the same name which another thread has added meanwhile. */
fac_cuda_function *fac__cuda_module_add(fac_cuda_module *m, fac_cuda_function *f);
/* Loads the module on a device whose context is current, if it is not there yet; compiles it first if need be. */
fac_status fac__cuda_module_on(fac_cuda_module *m, int index);
/* The driver's handle on a device whose context is current; loads the image there if need be. */
fac_status fac__cuda_resolve(fac_cuda_function *f, int index, CUfunction *out);

#endif
