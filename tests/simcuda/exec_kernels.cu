/* Kernels for the executor's tests: right ones first, then ones that a checker must catch. */
#include "kernel.h"

KERNEL(add, (OUT, float, out), (IN, float, a), (IN, float, b), (VAL, int64_t, n)) { KLOOP(i, n) out[i] = a[i] + b[i]; }

/* Each thread writes where it stands, as numbers. */
KERNEL(places, (OUT, unsigned, out), (VAL, int, unused)) {
    (void)unused;
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 10000 + thread;
}

KDEV float warp_sum(float v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

KERNEL(sum, (IO, float, out), (IN, float, x), (VAL, int64_t, n)) {
    KSHARED(float, part, 32);
    float v = 0;
    KLOOP(i, n) v += x[i];
    v = warp_sum(v);
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (lane == 0) part[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = warp_sum(lane < warps ? part[lane] : 0.0f);
        if (lane == 0) atomicAdd(out, v);
    }
}

KERNEL(transpose, (OUT, float, out), (IN, float, x), (VAL, int, rows), (VAL, int, columns), (VAL, int, barrier)) {
    KSHARED2(float, tile, 32, 33);
    int c = (int)(blockIdx.x * 32 + threadIdx.x), r = (int)(blockIdx.y * 32 + threadIdx.y);
    for (int k = 0; k < 32; k += 8)
        if (c < columns && r + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(int64_t)(r + k) * columns + c];
    if (barrier) __syncthreads();
    int c2 = (int)(blockIdx.y * 32 + threadIdx.x), r2 = (int)(blockIdx.x * 32 + threadIdx.y);
    for (int k = 0; k < 32; k += 8)
        if (c2 < rows && r2 + k < columns) out[(int64_t)(r2 + k) * rows + c2] = tile[threadIdx.x][threadIdx.y + k];
}

/* The warp operations one after the other; out has a row of ten per lane. */
KERNEL(warps, (OUT, unsigned, out), (VAL, int, lanes)) {
    unsigned t = threadIdx.x, *row = out + t * 10, all = lanes == 32 ? ~0u : (1u << lanes) - 1;
    row[0] = __shfl_sync(all, t * 3, 5);
    row[1] = __shfl_up_sync(all, t, 1);
    row[2] = __shfl_down_sync(all, t, 2, 8);
    row[3] = __shfl_xor_sync(all, t, 4);
    row[4] = __ballot_sync(all, t % 3 == 0);
    row[5] = (unsigned)__any_sync(all, t == 7);
    row[6] = (unsigned)__all_sync(all, t < 7);
    row[7] = __match_any_sync(all, t / 4);
    __syncwarp(all);
    /* Halves of a warp talk among themselves. */
    unsigned half = t < 16 ? 0xffffu : 0xffff0000u;
    if (t < 16)
        row[8] = __shfl_xor_sync(half & all, t, 1);
    else
        row[8] = __shfl_xor_sync(half & all, t + 100, 1);
    row[9] = (unsigned)__shfl_sync(all, (double)t + 0.5, 3);
}

KERNEL(votes, (OUT, int, out), (VAL, int, limit)) {
    int in = (int)threadIdx.x < limit;
    int count = __syncthreads_count(in), all = __syncthreads_and(in), any = __syncthreads_or(in);
    if (threadIdx.x == 0) {
        out[0] = count;
        out[1] = all;
        out[2] = any;
    }
}

KERNEL(atomics, (IO, int, counters), (IO, double, total), (VAL, int, n)) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    atomicAdd(&counters[0], 1);
    atomicMax(&counters[1], i);
    atomicMin(&counters[2], -i);
    atomicOr(&counters[3], 1 << (i % 31));
    atomicCAS(&counters[4], 0, i + 1);
    atomicAdd(total, 0.5);
}

/* Threads that have returned are not waited for. */
KERNEL(early_return, (OUT, int, out), (VAL, int, n)) {
    KSHARED_DYNAMIC(int, values);
    if ((int)threadIdx.x >= n) return;
    values[threadIdx.x] = (int)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = values[n - 1 - (int)threadIdx.x];
}

/* The last block to arrive sees what all others wrote. */
KERNEL(last_block, (OUT, float, out), (IO, unsigned, arrived), (IO, float, parts)) {
    KSHARED(int, last, 1);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = (float)blockIdx.x;
        __threadfence();
        *last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!*last || threadIdx.x) return;
    float total = 0;
    for (unsigned b = 0; b < gridDim.x; b++) total += parts[b];
    *out = total;
}

KGLOBAL(int, launches);
KERNEL(count_launches, (VAL, int, by)) {
    if (threadIdx.x == 0) launches += by;
}

#ifndef __CUDACC__
KERNEL_NATIVE(native_fill, (OUT, float, out), (VAL, float, value), (VAL, int64_t, n)) {
    for (int64_t i = 0; i < n; i++) out[i] = value;
}
KERNEL_IMAGE(exec_image)
#endif

/* ---- wrong ones ---------------------------------------------------------------------------------------------------------- */

KERNEL(wrong_address, (OUT, float, out), (VAL, int64_t, at)) { out[at + (int64_t)threadIdx.x] = 1; }
KERNEL(wrong_shared_index, (OUT, float, out), (VAL, int, at)) {
    KSHARED(float, s, 64);
    s[threadIdx.x + (unsigned)at] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
KERNEL(wrong_barrier, (OUT, float, out), (VAL, int, n)) {
    if ((int)threadIdx.x < n) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}
KERNEL(wrong_warp, (OUT, float, out), (VAL, int, n)) {
    if ((int)threadIdx.x < n) out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f, 1);
    __syncthreads();
}
KERNEL(wrong_mask, (OUT, unsigned, out), (VAL, unsigned, mask)) { out[threadIdx.x] = __ballot_sync(mask, 1); }
KERNEL(wrong_alignment, (OUT, float, out), (VAL, int, at)) {
    float4 v;
    v.x = v.y = v.z = v.w = 0;
    KVECTOR(float4, out + at) = v;
}
KERNEL(wrong_assertion, (OUT, float, out), (VAL, int, n)) {
    KASSERT((int)threadIdx.x != n);
    out[threadIdx.x] = 1;
}
KERNEL(wrong_division, (OUT, int, out), (VAL, int, by)) { out[threadIdx.x] = 7 / by; }
/* A race that plain runs do not show. */
KERNEL(wrong_accumulation, (IO, float, out), (VAL, float, v)) { out[0] += v; }
