/* Loops of embedding_bag.h. Sums of a bag are made a block of columns at a time, whose accumulators stay in registers. */
#include "backend/cpu/kernels/embedding_bag.h"
#include "backend/cpu/half.h"

#define BLOCK 4  /* vectors of a block of columns, at most */
#define AHEAD 16 /* rows fetched before they are needed */

/* Vectors of a block that would reach beyond the row are moved back, over columns that others have the same sums of; narrow rows have
   blocks of fewer vectors. `vectors` is constant where a block is inlined. */
#define BAG_SUM(S, E, K, T, LANES, LOAD, GET)                                                                          \
    static inline __attribute__((always_inline)) void bag_block_##S(const int vectors, const E *table, int64_t width,  \
                                                                    const int64_t *rows, const T *scale, int64_t n,    \
                                                                    int64_t skip, int64_t j, T *out) {                 \
        fac_v##K acc[BLOCK] = {{0}};                                                                                   \
        int64_t at[BLOCK];                                                                                             \
        for (int v = 0; v < vectors; v++) at[v] = fac__min(j + v * LANES, width - LANES);                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const E *row = table + rows[i] * width;                                                                    \
            if (i + AHEAD < n)                                                                                         \
                for (int v = 0; v < vectors; v++) __builtin_prefetch(table + rows[i + AHEAD] * width + at[v]);         \
            if (rows[i] == skip) continue;                                                                             \
            if (!scale)                                                                                                \
                for (int v = 0; v < vectors; v++) acc[v] += LOAD(row + at[v]);                                         \
            else                                                                                                       \
                for (int v = 0; v < vectors; v++)                                                                      \
                    acc[v] = fac_fma_##K(fac_splat_##K(scale[i]), LOAD(row + at[v]), acc[v]);                          \
        }                                                                                                              \
        for (int v = 0; v < vectors; v++) fac_store_##K(out + at[v], acc[v]);                                          \
    }                                                                                                                  \
    void FAC_ISA_NAME(fac__bag_sum_##S)(const E *table, int64_t width, const int64_t *rows, const T *scale, int64_t n, \
                                        int64_t skip, T *out) {                                                        \
        if (NARROW && width == LANES)                                                                                  \
            bag_block_##S(1, table, width, rows, scale, n, skip, 0, out);                                              \
        else if (NARROW && width >= LANES && width <= 2 * LANES)                                                       \
            bag_block_##S(2, table, width, rows, scale, n, skip, 0, out);                                              \
        else                                                                                                           \
            for (int64_t j = 0; j < width && width >= LANES; j += BLOCK * LANES)                                       \
                bag_block_##S(BLOCK, table, width, rows, scale, n, skip, j, out);                                      \
        if (width >= LANES) return;                                                                                    \
        for (int64_t k = 0; k < width; k++) out[k] = 0;                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const E *row = table + rows[i] * width;                                                                    \
            if (rows[i] == skip) continue;                                                                             \
            for (int64_t k = 0; k < width; k++)                                                                        \
                out[k] = scale ? fac_fma1_##K(scale[i], GET(row[k]), out[k]) : out[k] + GET(row[k]);                   \
        }                                                                                                              \
    }
#if FAC_ISA_LEVEL
#define NARROW 1
#else
#define NARROW 0
#endif
#define SAME(x) (x)
BAG_SUM(f32, float, f32, float, FAC_LANES_F32, fac_load_f32, SAME)
BAG_SUM(f64, double, f64, double, FAC_LANES_F64, fac_load_f64, SAME)
BAG_SUM(f16, uint16_t, f32, float, FAC_LANES_F32, fac_load_f16, fac_get_f16)
BAG_SUM(bf16, uint16_t, f32, float, FAC_LANES_F32, fac_load_bf16, fac__bf16_to_f32)

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
