/* A row of the launch table: what the runtime knows of a kernel. */
#ifndef FAC_SRC_BACKEND_CUDA_KERNELS_LAUNCH_H
#define FAC_SRC_BACKEND_CUDA_KERNELS_LAUNCH_H

#include <stdint.h>

#define FAC_CUDA_MAX_DEVICES 64

/* A kernel of the images built into the library; defined by KERNEL (see kernel.h). */
typedef struct fac_cuda_kernel {
    const char *name;
    uint8_t n_params;
    const uint16_t *sizes;   /* bytes of each parameter */
    const uint8_t *roles;    /* FAC_CUDA_VAL, IN, OUT, IO of each */
    _Atomic(void *) *handle; /* FAC_CUDA_MAX_DEVICES of CUfunction or CUkernel, each set on first launch */
} fac_cuda_kernel;

/* The row of the launch table that KERNEL(name, ...) makes. */
#define FAC_CUDA_KERNEL(name) fac__cuda_kernel_##name

#endif
