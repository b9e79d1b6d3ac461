/* The two halves of the simulated driver meet here: the queues (which decide when) and the executor (which runs the
   threads of a kernel's blocks on the host). Also the layout of an image that the simulated driver loads. */
#ifndef FAC_SRC_SIMCUDA_EXEC_H
#define FAC_SRC_SIMCUDA_EXEC_H

#include <stddef.h>
#include <stdint.h>

/* ---- images: what cuLibraryLoadData and cuModuleLoadData take when simulated ------------------------------------- */

#define SIM_IMAGE_MAGIC UINT64_C(0x314d495343414646) /* "FFACSIM1" */

enum { SIM_VAL = 0, SIM_IN = 1, SIM_OUT = 2, SIM_IO = 3 };

typedef struct sim_param {
    uint16_t size, align;
    uint8_t role; /* SIM_VAL, SIM_IN, ... */
    const char *name;
} sim_param;

typedef struct sim_kernel {
    const char *name;
    void (*call)(void **args); /* unpacks args[i], the address of parameter i, and runs one thread */
    const sim_param *params;
    uint32_t n_params;
    uint32_t static_shared; /* bytes of __shared__ arrays, for occupancy; 0 if not known */
    uint32_t native;        /* 1: `call` runs once per launch, not once per thread (library calls) */
} sim_kernel;

typedef struct sim_global { /* a __device__ variable */
    const char *name;
    void *address;
    size_t bytes;
} sim_global;

typedef struct sim_image {
    uint64_t magic;
    uint32_t size; /* sizeof(sim_image) */
    uint32_t n_kernels, n_globals;
    const sim_kernel *const *kernels;
    const sim_global *globals;
} sim_image;

/* ---- the executor ------------------------------------------------------------------------------------------------ */

typedef struct sim_launch {
    const sim_kernel *kernel;
    unsigned grid[3], block[3];
    unsigned dynamic_shared;
    void **args;         /* copies of the values, 16-byte aligned, alive until the launch is done */
    uint64_t seed;       /* order of threads and blocks; 0: plain order */
    int multiprocessors; /* of the device, for code that asks */
} sim_launch;

/* Runs a launch to its end on the calling OS thread. 0, or the CUresult a device would report (719 launch failed for a
   divergent barrier, 716 misaligned, 700 illegal address, 710 assert, ...), with a sentence in `message`. */
int sim_execute(const sim_launch *l, char *message, size_t message_size);

/* What the executor's fault handler asks of the driver half: what an address is. Writes a sentence and returns 1; 0 if
   there is nothing to say. Not called with the driver's lock held. */
int sim_memory_explain(const void *p, char *text, size_t size);

#endif
