/* Matrix-vector products: bound by memory, so each element of the matrix is read once, in order, and nothing is packed.
   Sums are kept in f32 (f64 for f64) and are pairwise over short blocks (cascade.h): of a row's dot product blocks of FAC_DOT vectors
   of partial sums, then the tail; of a column sum 16 rows. Neither depends on how callers cut the rows. The kernels of column
   sums are not inlined, so that the stack holds the sums of one dtype alone. */
#include "backend/cpu/cascade.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/half.h"

enum { FAC_DOT = 4, FAC_SUMS = 8, FAC_COLS = 128 };

#define SUM(v) _Generic((v), fac_vf32 : fac_sum_f32, fac_vf64 : fac_sum_f64)(v)
#define GEMV(SUF, E, T, V, LANES, LOAD_E, ONE, LOAD, STORE, SPLAT, FMA, FMA1)                                        \
    FAC_CASCADE(dots_##SUF, V, 1)                                                                                    \
    FAC_CASCADE(strip_##SUF, T, FAC_COLS)                                                                            \
    static T dot_##SUF(int64_t k, const E *a, const T *x) {                                                          \
        V level[FAC_CASCADE_LEVELS][1], s[FAC_DOT];                                                                  \
        uint64_t blocks = 0;                                                                                         \
        int64_t j = 0;                                                                                               \
        for (;; blocks++) {                                                                                          \
            const int64_t left = (k - j) / (FAC_DOT * LANES);                                                        \
            const int64_t end = j + (left < FAC_CASCADE_STEPS ? left : FAC_CASCADE_STEPS) * FAC_DOT * LANES;         \
            for (int u = 0; u < FAC_DOT; u++) s[u] = (V){0};                                                         \
            for (; j < end; j += FAC_DOT * LANES)                                                                    \
                for (int u = 0; u < FAC_DOT; u++)                                                                    \
                    s[u] = FMA(LOAD_E(a + j + u * LANES), LOAD(x + j + u * LANES), s[u]);                            \
            if (left < FAC_CASCADE_STEPS) break;                                                                     \
            s[0] = (s[0] + s[1]) + (s[2] + s[3]);                                                                    \
            dots_##SUF##_push(level, blocks, s);                                                                     \
        }                                                                                                            \
        for (; j + LANES <= k; j += LANES) s[0] = FMA(LOAD_E(a + j), LOAD(x + j), s[0]);                             \
        V v = (s[0] + s[1]) + (s[2] + s[3]);                                                                         \
        dots_##SUF##_total(level, blocks, &v);                                                                       \
        T tail = 0;                                                                                                  \
        for (; j < k; j++) tail = FMA1(ONE(a[j]), x[j], tail);                                                       \
        return SUM(v) + tail;                                                                                        \
    }                                                                                                                \
    static void rows_##SUF(int64_t m, int64_t k, const E *a, int64_t lda, const T *x, T *y) {                        \
        for (int64_t i = 0; i < m; i++) y[i] = dot_##SUF(k, a + i * lda, x);                                         \
    }                                                                                                                \
    /* Four rows at a time, so that y is read and written once per four. */                                          \
    static void rest_##SUF(int64_t k, int64_t n, const E *a, int64_t lda, const T *x, T *y) {                        \
        int64_t i = 0;                                                                                               \
        for (; i + 4 <= k; i += 4) {                                                                                 \
            const E *r = a + i * lda;                                                                                \
            int64_t j = 0;                                                                                           \
            for (; j + LANES <= n; j += LANES) {                                                                     \
                V s = LOAD(y + j);                                                                                   \
                for (int u = 0; u < 4; u++) s = FMA(SPLAT(x[i + u]), LOAD_E(r + u * lda + j), s);                    \
                STORE(y + j, s);                                                                                     \
            }                                                                                                        \
            for (; j < n; j++)                                                                                       \
                for (int u = 0; u < 4; u++) y[j] = FMA1(x[i + u], ONE(r[u * lda + j]), y[j]);                        \
        }                                                                                                            \
        for (; i < k; i++) {                                                                                         \
            const E *r = a + i * lda;                                                                                \
            int64_t j = 0;                                                                                           \
            for (; j + LANES <= n; j += LANES) STORE(y + j, FMA(SPLAT(x[i]), LOAD_E(r + j), LOAD(y + j)));           \
            for (; j < n; j++) y[j] = FMA1(x[i], ONE(r[j]), y[j]);                                                   \
        }                                                                                                            \
    }                                                                                                                \
    /* FAC_SUMS vectors of columns at a time, whose sums stay in registers, then the rest. */                        \
    static void few_##SUF(int64_t k, int64_t n, const E *a, int64_t lda, const T *x, T *y) {                         \
        int64_t j = 0;                                                                                               \
        for (; j + FAC_SUMS * LANES <= n; j += FAC_SUMS * LANES) {                                                   \
            V s[FAC_SUMS];                                                                                           \
            _Pragma("GCC unroll 8") for (int u = 0; u < FAC_SUMS; u++) s[u] = LOAD(y + j + u * LANES);               \
            for (int64_t i = 0; i < k; i++) {                                                                        \
                const V each = SPLAT(x[i]);                                                                          \
                _Pragma("GCC unroll 8") for (int u = 0; u < FAC_SUMS; u++) s[u] =                                    \
                    FMA(each, LOAD_E(a + i * lda + j + u * LANES), s[u]);                                            \
            }                                                                                                        \
            _Pragma("GCC unroll 8") for (int u = 0; u < FAC_SUMS; u++) STORE(y + j + u * LANES, s[u]);               \
        }                                                                                                            \
        if (j < n) rest_##SUF(k, n - j, a + j, lda, x, y + j);                                                       \
    }                                                                                                                \
    static                                                                                                           \
        __attribute__((noinline)) void cols_##SUF(int64_t k, int64_t n, const E *a, int64_t lda, const T *x, T *y) { \
        if (k <= 2 * FAC_CASCADE_STEPS) {                                                                            \
            few_##SUF(k, n, a, lda, x, y);                                                                           \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t j = 0; j < n; j += FAC_COLS) {                                                                  \
            const int64_t w = n - j < FAC_COLS ? n - j : FAC_COLS;                                                   \
            T level[FAC_CASCADE_LEVELS][FAC_COLS], s[FAC_COLS];                                                      \
            uint64_t blocks = 0;                                                                                     \
            for (int64_t i = 0; i < k; i += FAC_CASCADE_STEPS) {                                                     \
                memset(s, 0, sizeof s);                                                                              \
                few_##SUF(k - i < FAC_CASCADE_STEPS ? k - i : FAC_CASCADE_STEPS, w, a + i * lda + j, lda, x + i, s); \
                strip_##SUF##_push(level, blocks++, s);                                                              \
            }                                                                                                        \
            memcpy(s, y + j, (size_t)w * sizeof *s);                                                                 \
            strip_##SUF##_total(level, blocks, s);                                                                   \
            memcpy(y + j, s, (size_t)w * sizeof *s);                                                                 \
        }                                                                                                            \
    }
#define SAME(x) (x)
GEMV(f32, float, float, fac_vf32, FAC_LANES_F32, fac_load_f32, SAME, fac_load_f32, fac_store_f32, fac_splat_f32,
     fac_fma_f32, fac_fma1_f32)
GEMV(f64, double, double, fac_vf64, FAC_LANES_F64, fac_load_f64, SAME, fac_load_f64, fac_store_f64, fac_splat_f64,
     fac_fma_f64, fac_fma1_f64)
GEMV(bf16, uint16_t, float, fac_vf32, FAC_LANES_F32, fac_load_bf16, fac__bf16_to_f32, fac_load_f32, fac_store_f32,
     fac_splat_f32, fac_fma_f32, fac_fma1_f32)
GEMV(f16, uint16_t, float, fac_vf32, FAC_LANES_F32, fac_load_f16, fac_get_f16, fac_load_f32, fac_store_f32,
     fac_splat_f32, fac_fma_f32, fac_fma1_f32)

void FAC_ISA_NAME(fac__gemv_rows)(fac_dtype dtype, int64_t m, int64_t k, const void *a, int64_t lda, const void *x,
                                  void *y);
void FAC_ISA_NAME(fac__gemv_cols)(fac_dtype dtype, int64_t k, int64_t n, const void *a, int64_t lda, const void *x,
                                  void *y, bool accumulate);

void FAC_ISA_NAME(fac__gemv_rows)(fac_dtype dtype, int64_t m, int64_t k, const void *a, int64_t lda, const void *x,
                                  void *y) {
    switch (dtype) {
    case FAC_F64: rows_f64(m, k, a, lda, x, y); break;
    case FAC_BF16: rows_bf16(m, k, a, lda, x, y); break;
    case FAC_F16: rows_f16(m, k, a, lda, x, y); break;
    default: rows_f32(m, k, a, lda, x, y); break;
    }
}

void FAC_ISA_NAME(fac__gemv_cols)(fac_dtype dtype, int64_t k, int64_t n, const void *a, int64_t lda, const void *x,
                                  void *y, bool accumulate) {
    if (!accumulate) memset(y, 0, (size_t)n * (dtype == FAC_F64 ? sizeof(double) : sizeof(float)));
    switch (dtype) {
    case FAC_F64: cols_f64(k, n, a, lda, x, y); break;
    case FAC_BF16: cols_bf16(k, n, a, lda, x, y); break;
    case FAC_F16: cols_f16(k, n, a, lda, x, y); break;
    default: cols_f32(k, n, a, lda, x, y); break;
    }
}
