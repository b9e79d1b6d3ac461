/* What a user might write: kernels of a few kinds, for test_cuda_launch.c and bench/cuda_overhead.c. */
#include "kernel.h"

KERNEL(VecAdd, (IN, float, A), (IN, float, B), (OUT, float, C)) {
    int i = (int)threadIdx.x;
    C[i] = A[i] + B[i];
}

KERNEL(scale, (IO, float, x), (VAL, float, by), (VAL, int64_t, n)) { KLOOP(i, n) x[i] *= by; }

KERNEL(reverse, (IN, float, x), (OUT, float, y), (VAL, int, n)) {
    KSHARED_DYNAMIC(float, part);
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[n - 1 - (int)threadIdx.x];
}

/* The block's sizes, as digits, in one place per block. */
KERNEL(where_am_i, (OUT, int, out)) {
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        out[block] = (int)(blockDim.x * 100 + blockDim.y * 10 + blockDim.z);
    }
}

KERNEL(breaks, (OUT, float, x)) {
    KASSERT(threadIdx.x > 1000000u);
    x[0] = 1;
}

KERNEL(nothing, (IO, float, x), (VAL, float, by), (VAL, int64_t, n)) {
    if (n < 0) x[0] = by;
}

#if !defined(__CUDACC__)
KERNEL_IMAGE(user_image)
#endif
