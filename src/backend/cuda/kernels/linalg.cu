/* Matrix products C = alpha A B + beta C of batches with any strides. Tiles of 16 x 16 pass through shared memory, each thread
   accumulates one element, along k in order: float for 16- and 32-bit floats, double, int64_t. C is not read where beta is 0.
   When simulated, a native kernel does the same sums on the host. */
#include "gemm.h"
#include "number.h"

#define K_GEMM(suffix, T, LOAD, STORE, FMA, ALPHA, BETA)                                                              \
    KDEV void k_gemm_put_##suffix(const k_gemm *g, int64_t z, int64_t i, int64_t j, T sum) {                          \
        char *c = g->c + (z * g->c_batch + i * g->c_row + j * g->c_col) * g->item;                                    \
        T v = (T)ALPHA * sum;                                                                                         \
        if (BETA != 0) v = v + (T)BETA * LOAD(c, g->dtype);                                                           \
        STORE(c, g->dtype, v);                                                                                        \
    }                                                                                                                 \
    KERNEL(gemm_##suffix, (VAL, k_gemm, g)) {                                                                         \
        KSHARED2(T, a_tile, K_TILE, K_TILE + 1);                                                                      \
        KSHARED2(T, b_tile, K_TILE, K_TILE + 1);                                                                      \
        const int64_t i = (int64_t)blockIdx.x * K_TILE + threadIdx.y, j = (int64_t)blockIdx.y * K_TILE + threadIdx.x; \
        for (int64_t z = blockIdx.z; z < g.batch; z += gridDim.z) {                                                   \
            T sum = 0;                                                                                                \
            for (int64_t k0 = 0; k0 < g.k; k0 += K_TILE) {                                                            \
                const int64_t ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;                                           \
                a_tile[threadIdx.y][threadIdx.x] =                                                                    \
                    i < g.m && ka < g.k ? LOAD(g.a + (z * g.a_batch + i * g.a_row + ka * g.a_col) * g.item, g.dtype)  \
                                        : (T)0;                                                                       \
                b_tile[threadIdx.y][threadIdx.x] =                                                                    \
                    kb < g.k && j < g.n ? LOAD(g.b + (z * g.b_batch + kb * g.b_row + j * g.b_col) * g.item, g.dtype)  \
                                        : (T)0;                                                                       \
                __syncthreads();                                                                                      \
                const int64_t end = g.k - k0 < K_TILE ? g.k - k0 : K_TILE;                                            \
                for (int64_t k = 0; k < end; k++) sum = FMA(a_tile[threadIdx.y][k], b_tile[k][threadIdx.x], sum);     \
                __syncthreads();                                                                                      \
            }                                                                                                         \
            if (i < g.m && j < g.n) k_gemm_put_##suffix(&g, z, i, j, sum);                                            \
        }                                                                                                             \
    }
#define K_MULTIPLY_ADD(a, b, c) ((int64_t)((uint64_t)(c) + (uint64_t)(a) * (uint64_t)(b)))
K_GEMM(f32, float, k_load_f32, k_store_f32, fmaf, g->alpha, g->beta)
K_GEMM(f64, double, k_load_f64, k_store_f64, fma, g->alpha, g->beta)
K_GEMM(i64, int64_t, k_load_i64, k_store_i64, K_MULTIPLY_ADD, g->alpha_i, g->beta_i)

#ifndef __CUDACC__
/* One row of C at a time, so that rows of B are read along. */
#define K_GEMM_NATIVE(suffix, T, LOAD, FMA)                                                                    \
    KERNEL_NATIVE(gemm_native_##suffix, (VAL, k_gemm, g)) {                                                    \
        enum { STRIP = 256 };                                                                                  \
        T sum[STRIP];                                                                                          \
        for (int64_t z = 0; z < g.batch; z++)                                                                  \
            for (int64_t i = 0; i < g.m; i++)                                                                  \
                for (int64_t j0 = 0; j0 < g.n; j0 += STRIP) {                                                  \
                    const int64_t w = g.n - j0 < STRIP ? g.n - j0 : STRIP;                                     \
                    for (int64_t j = 0; j < w; j++) sum[j] = 0;                                                \
                    for (int64_t k = 0; k < g.k; k++) {                                                        \
                        const T a = LOAD(g.a + (z * g.a_batch + i * g.a_row + k * g.a_col) * g.item, g.dtype); \
                        const char *b = g.b + (z * g.b_batch + k * g.b_row + j0 * g.b_col) * g.item;           \
                        if (g.b_col == 1 && g.item == sizeof(T)) {                                             \
                            const T *row = (const T *)(const void *)b;                                         \
                            for (int64_t j = 0; j < w; j++) sum[j] = FMA(a, row[j], sum[j]);                   \
                        } else {                                                                               \
                            for (int64_t j = 0; j < w; j++)                                                    \
                                sum[j] = FMA(a, LOAD(b + j * g.b_col * g.item, g.dtype), sum[j]);              \
                        }                                                                                      \
                    }                                                                                          \
                    for (int64_t j = 0; j < w; j++) k_gemm_put_##suffix(&g, z, i, j0 + j, sum[j]);             \
                }                                                                                              \
    }
#define K_PLAIN_ADD(a, b, c) ((c) + (a) * (b))
K_GEMM_NATIVE(f32, float, k_load_f32, K_PLAIN_ADD)
K_GEMM_NATIVE(f64, double, k_load_f64, K_PLAIN_ADD)
K_GEMM_NATIVE(i64, int64_t, k_load_i64, K_MULTIPLY_ADD)
#endif
