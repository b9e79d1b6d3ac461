/* A few vectors of a row of the result, or of four rows of a block, stay in registers while the row's elements go by; a result of one
   column is a sum in eight lanes, of every eighth element each. */
#include "backend/cpu/kernels/spmm.h"
#include "backend/cpu/simd.h"

enum { SIDES = 8, TALL = 4, WIDE = FAC_ISA_LEVEL >= 2 ? 4 : 2 };

#define SPMM(T, S, V)                                                                                                  \
    /* A block's row begins `height * width` after the block before it, and the next one `width` after it. */          \
    static inline __attribute__((always_inline)) void strip_##S(                                                       \
        const int64_t *columns, const T *values, int64_t blocks, int64_t height, int64_t width, const T *dense,        \
        int64_t n, T *out, int rows, int vectors) {                                                                    \
        fac_v##S sum[TALL][4];                                                                                         \
        for (int r = 0; r < rows; r++)                                                                                 \
            for (int v = 0; v < vectors; v++) sum[r][v] = (fac_v##S){0};                                               \
        for (int64_t k = 0; k < blocks; k++) {                                                                         \
            const T *from = dense + columns[k] * width * n, *value = values + k * height * width;                      \
            for (int64_t c = 0; c < width; c++, from += n) {                                                           \
                fac_v##S x[4];                                                                                         \
                for (int v = 0; v < vectors; v++) x[v] = fac_load_##S(from + v * (V));                                 \
                for (int r = 0; r < rows; r++)                                                                         \
                    for (int v = 0; v < vectors; v++)                                                                  \
                        sum[r][v] = fac_fma_##S(fac_splat_##S(value[r * width + c]), x[v], sum[r][v]);                 \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < rows; r++)                                                                                 \
            for (int v = 0; v < vectors; v++) fac_store_##S(out + r * n + v * (V), sum[r][v]);                         \
    }                                                                                                                  \
    static T dot_##S(const int64_t *columns, const T *values, int64_t elements, const T *x) {                          \
        T sum[SIDES] = {0};                                                                                            \
        int64_t k = 0;                                                                                                 \
        for (; k + SIDES <= elements; k += SIDES)                                                                      \
            for (int s = 0; s < SIDES; s++) sum[s] += values[k + s] * x[columns[k + s]];                               \
        for (int s = 0; k + s < elements; s++) sum[s] += values[k + s] * x[columns[k + s]];                            \
        return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));                      \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void row_##S(const int64_t *c, const T *v, int64_t blocks, int64_t h, \
                                                              int64_t w, const T *dense, int64_t n, T *to) {           \
        int64_t j = 0;                                                                                                 \
        for (; j + 4 * (V) <= n; j += 4 * (V)) strip_##S(c, v, blocks, h, w, dense + j, n, to + j, 1, 4);              \
        for (; j + (V) <= n; j += (V)) strip_##S(c, v, blocks, h, w, dense + j, n, to + j, 1, 1);                      \
        for (; j < n; j++) {                                                                                           \
            T sum = 0;                                                                                                 \
            for (int64_t k = 0; k < blocks; k++)                                                                       \
                for (int64_t i = 0; i < w; i++)                                                                        \
                    sum = fac_fma1_##S(v[k * h * w + i], dense[(c[k] * w + i) * n + j], sum);                          \
            to[j] = sum;                                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void tall_##S(const int64_t *c, const T *v, int64_t blocks, int64_t h, int64_t w, const T *dense,           \
                         int64_t n, T *to) {                                                                           \
        int64_t j = 0;                                                                                                 \
        for (; j + WIDE * (V) <= n; j += WIDE * (V)) strip_##S(c, v, blocks, h, w, dense + j, n, to + j, TALL, WIDE);  \
        for (; j + (V) <= n; j += (V)) strip_##S(c, v, blocks, h, w, dense + j, n, to + j, TALL, 1);                   \
        for (; j < n; j++)                                                                                             \
            for (int r = 0; r < TALL; r++) {                                                                           \
                T sum = 0;                                                                                             \
                for (int64_t k = 0; k < blocks; k++)                                                                   \
                    for (int64_t i = 0; i < w; i++)                                                                    \
                        sum = fac_fma1_##S(v[(k * h + r) * w + i], dense[(c[k] * w + i) * n + j], sum);                \
                to[r * n + j] = sum;                                                                                   \
            }                                                                                                          \
    }                                                                                                                  \
    void FAC_ISA_NAME(fac__spmm_##S)(const fac_spmm *s, int64_t first, int64_t last) {                                 \
        const int64_t h = s->height, w = s->width, n = s->n;                                                           \
        const T *dense = s->dense;                                                                                     \
        for (int64_t i = first; i < last; i++) {                                                                       \
            const int64_t *c = s->columns + s->begin[i], blocks = s->begin[i + 1] - s->begin[i];                       \
            const T *v = (const T *)s->values + s->begin[i] * h * w;                                                   \
            T *to = (T *)s->out + i * h * n;                                                                           \
            int64_t r = 0;                                                                                             \
            if (h == 1 && w == 1 && n == 1) {                                                                          \
                *to = dot_##S(c, v, blocks, dense);                                                                    \
                continue;                                                                                              \
            }                                                                                                          \
            if (h == 1 && w == 1) {                                                                                    \
                row_##S(c, v, blocks, 1, 1, dense, n, to);                                                             \
                continue;                                                                                              \
            }                                                                                                          \
            for (; r + TALL <= h; r += TALL) tall_##S(c, v + r * w, blocks, h, w, dense, n, to + r * n);               \
            for (; r < h; r++) row_##S(c, v + r * w, blocks, h, w, dense, n, to + r * n);                              \
        }                                                                                                              \
    }
SPMM(float, f32, FAC_LANES_F32)
SPMM(double, f64, FAC_LANES_F64)

/* a where it is the larger one, else b; which is b where either is NaN. */
#if FAC_VECTOR_BYTES == 64
#define LARGER_f32(a, b) ((fac_vf32)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define LARGER_f64(a, b) ((fac_vf64)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#elif FAC_VECTOR_BYTES == 32
#define LARGER_f32(a, b) ((fac_vf32)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define LARGER_f64(a, b) ((fac_vf64)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#elif defined(__SSE2__)
#define LARGER_f32(a, b) ((fac_vf32)_mm_max_ps((__m128)(a), (__m128)(b)))
#define LARGER_f64(a, b) ((fac_vf64)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#else
#define LARGER(S, a, b) ((fac_v##S)(((bits_##S)(a) & ((a) > (b))) | ((bits_##S)(b) & ~((a) > (b)))))
#define LARGER_f32(a, b) LARGER(f32, a, b)
#define LARGER_f64(a, b) LARGER(f64, a, b)
#endif

/* Vectors of columns at a time: the largest of `sign` times the terms, times `sign`. */
#define EXTREMES(T, I, S, V)                                                                                          \
    typedef I bits_##S __attribute__((vector_size(FAC_VECTOR_BYTES)));                                                \
    static inline __attribute__((always_inline)) void strip_extremes_##S(                                             \
        const int64_t *columns, const T *values, int64_t z, const T *dense, int64_t n, T sign, T *out, int vectors) { \
        fac_v##S most[4];                                                                                             \
        bits_##S nan[4] = {{0}};                                                                                      \
        for (int v = 0; v < vectors; v++) most[v] = fac_splat_##S(-(T)__builtin_inff());                              \
        for (int64_t k = 0; k < z; k++) {                                                                             \
            const fac_v##S value = fac_splat_##S(sign * values[k]);                                                   \
            for (int v = 0; v < vectors; v++) {                                                                       \
                const fac_v##S term = fac_load_##S(dense + columns[k] * n + v * (V)) * value;                         \
                nan[v] |= (bits_##S)(term != term);                                                                   \
                most[v] = LARGER_##S(term, most[v]);                                                                  \
            }                                                                                                         \
        }                                                                                                             \
        for (int v = 0; v < vectors; v++)                                                                             \
            fac_store_##S(out + v * (V), (fac_v##S)((bits_##S)(most[v] * fac_splat_##S(sign)) | nan[v]));             \
    }                                                                                                                 \
    void FAC_ISA_NAME(fac__spmm_extremes_##S)(const fac_spmm *s, int64_t first, int64_t last, T sign) {               \
        const int64_t n = s->n;                                                                                       \
        for (int64_t i = first; i < last; i++) {                                                                      \
            const int64_t *c = s->columns + s->begin[i], z = s->begin[i + 1] - s->begin[i];                           \
            const T *v = (const T *)s->values + s->begin[i], *x = s->dense;                                           \
            T *to = (T *)s->out + i * n;                                                                              \
            int64_t j = 0;                                                                                            \
            if (z == 0) memset(to, 0, (size_t)n * sizeof(T)), j = n;                                                  \
            for (; j + 4 * (V) <= n; j += 4 * (V)) strip_extremes_##S(c, v, z, x + j, n, sign, to + j, 4);            \
            for (; j + (V) <= n; j += (V)) strip_extremes_##S(c, v, z, x + j, n, sign, to + j, 1);                    \
            for (; j < n; j++) {                                                                                      \
                T most = -(T)__builtin_inff();                                                                        \
                for (int64_t k = 0; k < z; k++) {                                                                     \
                    const T term = sign * v[k] * x[c[k] * n + j];                                                     \
                    most = term > most || term != term ? term : most;                                                 \
                }                                                                                                     \
                to[j] = most * sign;                                                                                  \
            }                                                                                                         \
        }                                                                                                             \
    }
EXTREMES(float, int32_t, f32, FAC_LANES_F32)
EXTREMES(double, int64_t, f64, FAC_LANES_F64)

/* As many vectors of columns at a time: the numbers within the row, which has an element at least, of those that give the best terms. */
#define WINNERS(T, I, S, V)                                                                                            \
    static inline __attribute__((always_inline)) void strip_winners_##S(const int64_t *columns, const T *values,       \
                                                                        int64_t z, const T *dense, int64_t n, T sign,  \
                                                                        int64_t before, int64_t *out, int vectors) {   \
        fac_v##S best[4];                                                                                              \
        bits_##S won[4] = {{0}};                                                                                       \
        for (int v = 0; v < vectors; v++)                                                                              \
            best[v] = fac_load_##S(dense + columns[0] * n + v * (V)) * fac_splat_##S(sign * values[0]);                \
        for (int64_t k = 1; k < z; k++) {                                                                              \
            const fac_v##S value = fac_splat_##S(sign * values[k]);                                                    \
            const bits_##S number = (bits_##S){0} + (I)k;                                                              \
            for (int v = 0; v < vectors; v++) {                                                                        \
                const fac_v##S term = fac_load_##S(dense + columns[k] * n + v * (V)) * value;                          \
                const bits_##S wins = (term > best[v]) | ((term != term) & (best[v] == best[v]));                      \
                best[v] = (fac_v##S)(((bits_##S)term & wins) | ((bits_##S)best[v] & ~wins));                           \
                won[v] = (number & wins) | (won[v] & ~wins);                                                           \
            }                                                                                                          \
        }                                                                                                              \
        I numbers[4 * (V)];                                                                                            \
        memcpy(numbers, won, sizeof won);                                                                              \
        for (int j = 0; j < vectors * (V); j++) out[j] = before + numbers[j];                                          \
    }                                                                                                                  \
    void FAC_ISA_NAME(fac__spmm_winners_##S)(const fac_spmm *s, int64_t first, int64_t last, T sign) {                 \
        const int64_t n = s->n;                                                                                        \
        for (int64_t i = first; i < last; i++) {                                                                       \
            const int64_t b = s->begin[i], z = s->begin[i + 1] - b, *c = s->columns + b;                               \
            const T *v = (const T *)s->values + b, *x = s->dense;                                                      \
            int64_t *to = (int64_t *)s->out + i * n, j = 0;                                                            \
            const bool counts = z > 0 && z <= INT32_MAX; /* in a lane */                                               \
            for (; counts && j + 4 * (V) <= n; j += 4 * (V)) strip_winners_##S(c, v, z, x + j, n, sign, b, to + j, 4); \
            for (; counts && j + (V) <= n; j += (V)) strip_winners_##S(c, v, z, x + j, n, sign, b, to + j, 1);         \
            for (; j < n; j++) {                                                                                       \
                T best = 0;                                                                                            \
                to[j] = z ? b : s->z;                                                                                  \
                for (int64_t k = 0; k < z; k++) {                                                                      \
                    const T term = sign * v[k] * x[c[k] * n + j];                                                      \
                    if (k && !(term > best || (term != term && best == best))) continue;                               \
                    best = term;                                                                                       \
                    to[j] = b + k;                                                                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
WINNERS(float, int32_t, f32, FAC_LANES_F32)
WINNERS(double, int64_t, f64, FAC_LANES_F64)

bool FAC_ISA_NAME(fac__some_beyond)(const int64_t *index, int64_t n, int64_t size) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (index[i] < 0) | (index[i] >= size);
    return bad;
}
