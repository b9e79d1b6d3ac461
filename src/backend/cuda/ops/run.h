/* Launching the built-in kernels of operators. */
#ifndef FAC_SRC_BACKEND_CUDA_OPS_RUN_H
#define FAC_SRC_BACKEND_CUDA_OPS_RUN_H

#include "backend/cuda/kernels/bounds.h"
#include "backend/cuda/runtime/runtime.h"

#define FAC_CUDA_ACCESSES 8

/* A launch in the making. Start with {.kernel = ..., .device = index, .op = ...}. */
typedef struct fac_cuda_run {
    fac_cuda_kernel *kernel;
    int device;
    const fac_operator *op; /* named when the launch fails */
    fac_cuda_access access[FAC_CUDA_ACCESSES];
    size_t n_accesses;
    k_bounds *bounds; /* of a kernel that checks indices or heeds that others did: the launch fills in all but dim */
} fac_cuda_run;

/* Notes that the kernel reads or writes a tensor; NULL and tensors of other devices are ignored. */
void fac__cuda_reads(fac_cuda_run *r, const fac_tensor *t);
void fac__cuda_writes(fac_cuda_run *r, const fac_tensor *t);
void fac__cuda_updates(fac_cuda_run *r, const fac_tensor *t); /* both */

/* One thread per item, in a loop over a grid no larger than keeps the device busy. items >= 1. */
fac_status fac__cuda_run_items(const fac_cuda_run *r, void **args, int64_t items);
/* One block per row, in a loop over the grid; the block has a power of two of warps that suits rows of n elements. */
fac_status fac__cuda_run_rows(const fac_cuda_run *r, void **args, int64_t rows, int64_t n);

static inline int fac__cuda_index(const fac_tensor *t) { return t->device.index_plus - 1; }

/* The addresses of a kernel's parameters. */
#define FAC_CUDA_ARGS(...) ((void *[]){__VA_ARGS__})

/* Owned: t row-major on its device, t itself if it is that already. NULL gives NULL. */
fac_status fac__cuda_contiguous(fac_tensor *t, fac_tensor **out);
/* A row-major tensor for a kernel to write what belongs in `home`: home itself, if it is that, else scratch that _done copies
   home. NULL gives NULL. _done takes the kernel's status, releases, and hands the status on. */
fac_status fac__cuda_result(fac_tensor *home, fac_tensor **out);
fac_status fac__cuda_result_done(fac_tensor *home, fac_tensor *result, fac_status st);

#endif
