/* Integer products: tiles of ROWS rows by two vectors of columns, summed in registers. Sums wrap, so that those of a dtype are right in any
   type as wide as it; bytes are summed in 16 bits. A strip of B is packed as [DEPTH][columns], A is read where it is. One column
   times rows or columns of A without gaps needs no tiles. */
#include "backend/cpu/blas_int.h"
#include "backend/cpu/simd.h"
#include "core/scalar.h"

enum { ROWS = 4, STRIP_BYTES = 2 * FAC_VECTOR_BYTES, DEPTH = 64, BLOCK = 512 };

/* E: the elements' type; S: the sums'; both unsigned. */
#define PRODUCT(name, E, S)                                                                                            \
    typedef S name##_vector __attribute__((vector_size(FAC_VECTOR_BYTES)));                                            \
    enum { name##_lanes = FAC_VECTOR_BYTES / sizeof(S), name##_cols = 2 * name##_lanes };                              \
    /* sums[rows, cols] = A[rows, depth] B[depth, cols] */                                                             \
    static inline __attribute__((always_inline)) void name##_tile(const int rows, int64_t depth, const E *a,           \
                                                                  int64_t rs, int64_t cs, const S *b, S *sums) {       \
        name##_vector acc[ROWS][2];                                                                                    \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (name##_vector){0};             \
        for (int64_t p = 0; p < depth; p++, a += cs, b += name##_cols) {                                               \
            name##_vector b0, b1;                                                                                      \
            memcpy(&b0, b, sizeof b0);                                                                                 \
            memcpy(&b1, b + name##_lanes, sizeof b1);                                                                  \
            _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {                                                   \
                const name##_vector x = (S)a[r * rs] - (name##_vector){0};                                             \
                acc[r][0] += x * b0;                                                                                   \
                acc[r][1] += x * b1;                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        memcpy(sums, acc, (size_t)rows * sizeof acc[0]);                                                               \
    }                                                                                                                  \
    /* c = beta * c + alpha * sums */                                                                                  \
    static void name##_merge(int rows, int64_t cols, E *c, int64_t row, int64_t col, const S *sums, S alpha, S beta) { \
        for (int r = 0; r < rows; r++)                                                                                 \
            for (int64_t j = 0; j < cols; j++) {                                                                       \
                E *e = c + r * row + j * col;                                                                          \
                *e = (E)((uint64_t)alpha * sums[r * name##_cols + j] + (beta ? (uint64_t)beta * *e : 0));              \
            }                                                                                                          \
    }                                                                                                                  \
    static S name##_dot(const E *a, const E *b, int64_t n) {                                                           \
        S sum = 0;                                                                                                     \
        for (int64_t i = 0; i < n; i++) sum += (S)(1u * (S)a[i] * (S)b[i]);                                            \
        return sum;                                                                                                    \
    }                                                                                                                  \
    /* sums[r] = the sum of a[r + p step] b[p b_step] over p, four columns at a time */                                \
    static void name##_columns(const E *a, int64_t step, const E *b, int64_t b_step, int64_t rows, int64_t k,          \
                               S *sums) {                                                                              \
        memset(sums, 0, (size_t)rows * sizeof *sums);                                                                  \
        int64_t p = 0;                                                                                                 \
        for (; p + 4 <= k; p += 4, a += 4 * step) {                                                                    \
            const S w = (S)b[p * b_step], x = (S)b[(p + 1) * b_step], y = (S)b[(p + 2) * b_step],                      \
                    z = (S)b[(p + 3) * b_step];                                                                        \
            FAC_IVDEP for (int64_t r = 0; r < rows; r++) sums[r] +=                                                    \
                (S)(1u * (S)a[r] * w + 1u * (S)a[r + step] * x + 1u * (S)a[r + 2 * step] * y +                         \
                    1u * (S)a[r + 3 * step] * z);                                                                      \
        }                                                                                                              \
        for (; p < k; p++, a += step) {                                                                                \
            const S w = (S)b[p * b_step];                                                                              \
            FAC_IVDEP for (int64_t r = 0; r < rows; r++) sums[r] += (S)(1u * (S)a[r] * w);                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(const fac_gemm *g, int64_t batch, int64_t begin, int64_t end, uint64_t alpha, uint64_t beta) {    \
        S strip[DEPTH * name##_cols] __attribute__((aligned(64))), sums[ROWS * name##_cols];                           \
        const E *a = (const E *)g->a.data + batch * g->a.batch, *b = (const E *)g->b.data + batch * g->b.batch;        \
        E *c = (E *)g->c + batch * g->c_batch;                                                                         \
        if (g->n == 1 && g->a.col == 1 && g->b.row == 1) {                                                             \
            for (int64_t i = begin; i < end; i++) {                                                                    \
                const S sum = name##_dot(a + i * g->a.row, b, g->k);                                                   \
                name##_merge(1, 1, c + i * g->c_row, 0, 0, &sum, (S)alpha, (S)beta);                                   \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        if (g->n == 1 && g->a.row == 1) {                                                                              \
            S column[BLOCK];                                                                                           \
            for (int64_t i = begin, rows; i < end; i += rows) {                                                        \
                rows = fac__min(BLOCK, end - i);                                                                       \
                name##_columns(a + i, g->a.col, b, g->b.row, rows, g->k, column);                                      \
                for (int64_t r = 0; r < rows; r++)                                                                     \
                    name##_merge(1, 1, c + (i + r) * g->c_row, 0, 0, column + r, (S)alpha, (S)beta);                   \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t j = 0; j < g->n; j += name##_cols)                                                                \
            for (int64_t p = 0; p < g->k; p += DEPTH) {                                                                \
                const int64_t depth = fac__min(DEPTH, g->k - p), cols = fac__min(name##_cols, g->n - j);               \
                for (int64_t q = 0; q < depth; q++) {                                                                  \
                    const E *from = b + (p + q) * g->b.row + j * g->b.col;                                             \
                    S *to = strip + q * name##_cols;                                                                   \
                    if (g->b.col == 1)                                                                                 \
                        for (int64_t e = 0; e < cols; e++) to[e] = from[e];                                            \
                    else                                                                                               \
                        for (int64_t e = 0; e < cols; e++) to[e] = from[e * g->b.col];                                 \
                    for (int64_t e = cols; e < name##_cols; e++) to[e] = 0;                                            \
                }                                                                                                      \
                for (int64_t i = begin, rows; i < end; i += rows) {                                                    \
                    const E *at = a + i * g->a.row + p * g->a.col;                                                     \
                    rows = end - i >= ROWS ? ROWS : 1;                                                                 \
                    if (rows == ROWS)                                                                                  \
                        name##_tile(ROWS, depth, at, g->a.row, g->a.col, strip, sums);                                 \
                    else                                                                                               \
                        name##_tile(1, depth, at, g->a.row, g->a.col, strip, sums);                                    \
                    name##_merge((int)rows, cols, c + i * g->c_row + j * g->c_col, g->c_row, g->c_col, sums, (S)alpha, \
                                 (S)(p ? 1 : beta));                                                                   \
                }                                                                                                      \
            }                                                                                                          \
        for (int64_t i = begin; g->k == 0 && i < end; i++)                                                             \
            for (int64_t j = 0; j < g->n; j++)                                                                         \
                name##_merge(1, 1, c + i * g->c_row + j * g->c_col, 0, 0, (const S[]){0}, 0, (S)beta);                 \
    }
PRODUCT(product_8, uint8_t, uint16_t)
PRODUCT(product_16, uint16_t, uint16_t)
PRODUCT(product_32, uint32_t, uint32_t)
PRODUCT(product_64, uint64_t, uint64_t)

void FAC_ISA_NAME(fac__gemm_int_rows)(const fac_gemm *g, int64_t batch, int64_t begin, int64_t end, uint64_t alpha,
                                      uint64_t beta) {
    switch (fac__dtype_size(g->dtype)) {
    case 1: product_8(g, batch, begin, end, alpha, beta); break;
    case 2: product_16(g, batch, begin, end, alpha, beta); break;
    case 4: product_32(g, batch, begin, end, alpha, beta); break;
    default: product_64(g, batch, begin, end, alpha, beta); break;
    }
}
