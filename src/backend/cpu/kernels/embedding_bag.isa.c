/* Loops of embedding_bag.h. Sums of a bag are made a block of columns at a time, whose accumulators stay in registers. */
#include "backend/cpu/kernels/embedding_bag.h"
#include "backend/cpu/simd.h"

#define BLOCK 4 /* vectors of a block of columns */
#define AHEAD 8 /* rows fetched before they are needed */

#define BAG_SUM(S, T, V, LANES)                                                                                        \
    void FAC_ISA_NAME(fac__bag_sum_##S)(const T *table, int64_t width, const int64_t *rows, const T *scale, int64_t n, \
                                        int64_t skip, T *out) {                                                        \
        int64_t j = 0;                                                                                                 \
        for (; j + BLOCK * LANES <= width; j += BLOCK * LANES) {                                                       \
            V acc[BLOCK] = {{0}};                                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T *row = table + rows[i] * width + j;                                                            \
                if (i + AHEAD < n)                                                                                     \
                    for (int v = 0; v < BLOCK; v++)                                                                    \
                        __builtin_prefetch(table + rows[i + AHEAD] * width + j + v * LANES);                           \
                if (rows[i] == skip) continue;                                                                         \
                if (!scale)                                                                                            \
                    for (int v = 0; v < BLOCK; v++) acc[v] += fac_load_##S(row + v * LANES);                           \
                else                                                                                                   \
                    for (int v = 0; v < BLOCK; v++)                                                                    \
                        acc[v] = fac_fma_##S(fac_splat_##S(scale[i]), fac_load_##S(row + v * LANES), acc[v]);          \
            }                                                                                                          \
            for (int v = 0; v < BLOCK; v++) fac_store_##S(out + j + v * LANES, acc[v]);                                \
        }                                                                                                              \
        if (j == width) return;                                                                                        \
        for (int64_t k = j; k < width; k++) out[k] = 0;                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T *row = table + rows[i] * width;                                                                    \
            if (rows[i] == skip) continue;                                                                             \
            for (int64_t k = j; k < width; k++)                                                                        \
                out[k] = scale ? fac_fma1_##S(scale[i], row[k], out[k]) : out[k] + row[k];                             \
        }                                                                                                              \
    }
BAG_SUM(f32, float, fac_vf32, FAC_LANES_F32)
BAG_SUM(f64, double, fac_vf64, FAC_LANES_F64)

void FAC_ISA_NAME(fac__bag_add_f32)(float *out, const float *row, float scale, int64_t width) {
    for (int64_t j = 0; j < width; j++) out[j] = fac_fma1_f32(scale, row[j], out[j]);
}

#define BAG_MAX(S, T)                                                                                     \
    void FAC_ISA_NAME(fac__bag_max_##S)(T * out, int64_t * from, const T *row, int64_t index, bool first, \
                                        int64_t width) {                                                  \
        for (int64_t j = 0; j < width; j++) {                                                             \
            const bool take = first || row[j] > out[j];                                                   \
            out[j] = take ? row[j] : out[j];                                                              \
            from[j] = take ? index : from[j];                                                             \
        }                                                                                                 \
    }
BAG_MAX(f32, float)
BAG_MAX(f64, double)
