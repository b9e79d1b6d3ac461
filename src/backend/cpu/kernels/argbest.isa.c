/* Places of extremes: the best of a block is folded first, and looked for where it beats what came before. */
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/short_row.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define V32 FAC_LANES_F32

/* Bit j is set if lane j equals b or is a NaN. */
static inline unsigned hits_f32(fac_vf32 v, float b) {
#if FAC_VECTOR_BYTES == 64
    __m512 x = (__m512)v;
    return _mm512_cmp_ps_mask(x, _mm512_set1_ps(b), _CMP_EQ_OQ) | (unsigned)_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
#elif FAC_VECTOR_BYTES == 32
    __m256 x = (__m256)v;
    __m256 hit = _mm256_or_ps(_mm256_cmp_ps(x, _mm256_set1_ps(b), _CMP_EQ_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return (unsigned)_mm256_movemask_ps(hit);
#else
    unsigned bits = 0;
    for (int j = 0; j < V32; j++) bits |= (unsigned)(v[j] == b || v[j] != v[j]) << j;
    return bits;
#endif
}

/* First place of b, the best of n elements: of a NaN if b is one, and else there is none. */
static int64_t place_f32(const float *x, int64_t n, float b) {
    int64_t i = 0;
    for (; i + V32 <= n; i += V32) {
        unsigned hits = hits_f32(fac_load_f32(x + i), b);
        if (hits) return i + __builtin_ctz(hits);
    }
    while (x[i] != b && x[i] == x[i]) i++;
    return i;
}
static int64_t place_f64(const double *x, int64_t n, double b) {
    int64_t i = 0;
    (void)n;
    while (x[i] != b && x[i] == x[i]) i++;
    return i;
}

/* The best value of a block that stays in L1 is found first; only when it beats the best so far is its place looked up. */
#define ARG_BLOCK 2048
#define ARGBEST(NAME, T, KIND, PLACE)                                                                           \
    int64_t FAC_ISA_NAME(NAME)(const T *x, int64_t n, int sign) {                                               \
        const fac_fold_row_fn row = FAC_ISA_NAME(fac__folds)[sign > 0 ? FAC_FOLD_MAX : FAC_FOLD_MIN][KIND].row; \
        int64_t where = 0;                                                                                      \
        T best = x[0];                                                                                          \
        for (int64_t i = 0; i < n; i += ARG_BLOCK) {                                                            \
            int64_t m = n - i < ARG_BLOCK ? n - i : ARG_BLOCK;                                                  \
            T b = x[i];                                                                                         \
            row(x + i, m, &b);                                                                                  \
            if (i > 0 && !(sign > 0 ? UP(b, best) : DOWN(b, best))) continue;                                   \
            best = b;                                                                                           \
            where = i + PLACE(x + i, m, b);                                                                     \
            if (b != b) break;                                                                                  \
        }                                                                                                       \
        return where;                                                                                           \
    }
#define UP(b, best) ((b) > (best) || (b) != (b))
#define DOWN(b, best) ((b) < (best) || (b) != (b))
ARGBEST(fac__argbest_f32, float, FAC_ACC_F32, place_f32)
ARGBEST(fac__argbest_f64, double, FAC_ACC_F64, place_f64)

/* First place of b, which is there. */
#define PLACE_OF(NAME, T)                                                       \
    static __attribute__((noinline)) int64_t NAME(const T *x, int64_t n, T b) { \
        int64_t i = 0;                                                          \
        for (; i + 64 <= n; i += 64) {                                          \
            T found = 0;                                                        \
            for (int k = 0; k < 64; k++) found |= x[i + k] == b;                \
            if (found) break;                                                   \
        }                                                                       \
        while (x[i] != b) i++;                                                  \
        return i;                                                               \
    }
PLACE_OF(place_8, uint8_t)
PLACE_OF(place_16, uint16_t)
PLACE_OF(place_32, uint32_t)
PLACE_OF(place_64, uint64_t)

int64_t FAC_ISA_NAME(fac__argbest_int)(fac_dtype d, const void *vx, int64_t n, int sign, int64_t *best) {
    const fac_fold_op op = sign > 0 ? FAC_FOLD_MAX : FAC_FOLD_MIN;
    const fac_fold_row_fn row = d == FAC_I64 ? FAC_ISA_NAME(fac__folds)[op][FAC_ACC_I64].row
                                             : FAC_ISA_NAME(fac__fold_of)(op, FAC_ACC_I64, d, FAC_MAP_NONE).row;
    const int64_t item = d == FAC_I64 ? 8 : d == FAC_I32 ? 4 : d == FAC_I16 ? 2 : 1, block = 8 * ARG_BLOCK / item;
    int64_t where = -1;
    for (int64_t i = 0; i < n; i += block) {
        const int64_t m = n - i < block ? n - i : block;
        const char *x = (const char *)vx + i * item;
        int64_t b = where < 0 ? sign > 0 ? INT64_MIN : INT64_MAX : *best;
        row(x, m, &b);
        if (where >= 0 && b == *best) continue;
        *best = b;
        where = i + (item == 8   ? place_64((const void *)x, m, (uint64_t)b)
                     : item == 4 ? place_32((const void *)x, m, (uint32_t)b)
                     : item == 2 ? place_16((const void *)x, m, (uint16_t)b)
                                 : place_8((const void *)x, m, (uint8_t)b));
    }
    return where;
}

/* A row of at most a vector is compared in registers; the fill is no better than any element. */
static inline int64_t short_place(const float *x, int64_t n, int sign, float *best) {
    const fac_vf32 v = fac__short_load(x, n, sign > 0 ? -INFINITY : INFINITY);
    *best = sign > 0 ? fac__fold_max(v)[0] : fac__fold_min(v)[0];
    return __builtin_ctz(hits_f32(v, *best));
}

void FAC_ISA_NAME(fac__argbest_rows_f32)(const float *x, int64_t step, int64_t n, int64_t rows, int sign, float *values,
                                         int64_t *indices) {
    for (int64_t i = 0; i < rows; i++, x += step) {
        float best;
        if (n <= V32) {
            indices[i] = short_place(x, n, sign, &best);
        } else {
            indices[i] = FAC_ISA_NAME(fac__argbest_f32)(x, n, sign);
            best = x[indices[i]];
        }
        if (values) values[i] = best;
    }
}

/* Without branches, so that they vectorise. */
#define BETTER_COLUMNS(WINS)                    \
    FAC_IVDEP for (int64_t k = 0; k < n; k++) { \
        const bool wins = (WINS);               \
        best[k] = wins ? x[k] : best[k];        \
        at[k] = wins ? i : at[k];               \
    }
#define ARGBEST_COLUMNS(NAME, T, NEW_NAN)                                                                             \
    void FAC_ISA_NAME(NAME)(const T *x, int64_t step, int64_t rows, int64_t i, int64_t n, int sign, T *restrict best, \
                            int64_t *restrict at) {                                                                   \
        for (const int64_t end = i + rows; i < end; i++, x += step) {                                                 \
            if (sign > 0)                                                                                             \
                BETTER_COLUMNS((x[k] > best[k]) | (NEW_NAN))                                                          \
            else                                                                                                      \
                BETTER_COLUMNS((x[k] < best[k]) | (NEW_NAN))                                                          \
        }                                                                                                             \
    }
ARGBEST_COLUMNS(fac__argbest_columns_f32, float, (x[k] != x[k]) & (best[k] == best[k]))
ARGBEST_COLUMNS(fac__argbest_columns_f64, double, (x[k] != x[k]) & (best[k] == best[k]))
ARGBEST_COLUMNS(fac__argbest_columns_i64, int64_t, false)
