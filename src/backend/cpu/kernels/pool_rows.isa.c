/* Windows of a row side by side; each is folded in its own order, so that vectors change nothing. */
#include "backend/cpu/kernels/pool_rows.h"
#include "backend/cpu/simd.h"

typedef int32_t places __attribute__((vector_size(FAC_VECTOR_BYTES)));
#define V FAC_LANES_F32

#if FAC_VECTOR_BYTES == 64
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif FAC_VECTOR_BYTES == 32
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#endif

static inline void take(fac_vf32 v, places at, fac_vf32 *top, places *best) {
    const places better = (v > *top) | ((v != v) & (*top == *top));
    *top = (fac_vf32)(((places)v & better) | ((places)*top & ~better));
    *best = (at & better) | (*best & ~better);
}

void FAC_ISA_NAME(fac__max_pairs_f32)(const float *from, const int64_t *first, int rows, int64_t n, float *restrict out,
                                      int64_t *restrict indices) {
    places two = {0};
    int64_t i = 0;
    for (int k = 0; k < V; k++) two[k] = 2 * k;
    for (; i + V <= n; i += V) {
        fac_vf32 top = {0};
        places best = {0};
        for (int r = 0; r < rows; r++) {
            const float *x = from + first[r] + 2 * i;
            const fac_vf32 a = fac_load_f32(x), b = fac_load_f32(x + V), even = EVEN(a, b);
            const places at = two + (int32_t)(first[r] + 2 * i);
            if (r == 0)
                top = even, best = at;
            else
                take(even, at, &top, &best);
            take(ODD(a, b), at + 1, &top, &best);
        }
        fac_store_f32(out + i, top);
        for (int k = 0; k < V; k++) indices[i + k] = best[k];
    }
    for (; i < n; i++) {
        int64_t best = first[0] + 2 * i;
        float top = from[best];
        for (int r = 0; r < 2 * rows; r++) {
            const int64_t at = first[r / 2] + 2 * i + r % 2;
            const bool better = (from[at] > top) | ((from[at] != from[at]) & (top == top));
            top = better ? from[at] : top;
            best = better ? at : best;
        }
        out[i] = top;
        indices[i] = best;
    }
}

void FAC_ISA_NAME(fac__sum_of_rows_f32)(const float *x, int64_t planes_, int64_t plane, int64_t rows, int64_t row,
                                        int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = 0;
    for (int64_t p = 0; p < planes_; p++)
        for (int64_t r = 0; r < rows; r++) {
            const float *from = x + p * plane + r * row;
            for (int64_t i = 0; i < n; i++) out[i] += from[i];
        }
}
