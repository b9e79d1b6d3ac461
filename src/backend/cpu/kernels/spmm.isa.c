/* Four vectors of a row of the result stay in registers while the row's elements go by; a result of one column is a sum in eight
   lanes, of every eighth element each. */
#include "backend/cpu/kernels/spmm.h"
#include "backend/cpu/simd.h"

enum { SIDES = 8 };

#define SPMM(T, S, V)                                                                                                  \
    static inline void strip_##S(const int64_t *columns, const T *values, int64_t elements, const T *dense, int64_t n, \
                                 T *out, int vectors) {                                                                \
        fac_v##S sum[4];                                                                                               \
        for (int v = 0; v < vectors; v++) sum[v] = (fac_v##S){0};                                                      \
        for (int64_t k = 0; k < elements; k++) {                                                                       \
            const fac_v##S value = fac_splat_##S(values[k]);                                                           \
            const T *from = dense + columns[k] * n;                                                                    \
            for (int v = 0; v < vectors; v++) sum[v] = fac_fma_##S(value, fac_load_##S(from + v * (V)), sum[v]);       \
        }                                                                                                              \
        for (int v = 0; v < vectors; v++) fac_store_##S(out + v * (V), sum[v]);                                        \
    }                                                                                                                  \
    static T dot_##S(const int64_t *columns, const T *values, int64_t elements, const T *x) {                          \
        T sum[SIDES] = {0};                                                                                            \
        int64_t k = 0;                                                                                                 \
        for (; k + SIDES <= elements; k += SIDES)                                                                      \
            for (int s = 0; s < SIDES; s++) sum[s] += values[k + s] * x[columns[k + s]];                               \
        for (int s = 0; k + s < elements; s++) sum[s] += values[k + s] * x[columns[k + s]];                            \
        return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));                      \
    }                                                                                                                  \
    void FAC_ISA_NAME(fac__spmm_##S)(const int64_t *begin, const int64_t *columns, const T *values, const T *dense,    \
                                     int64_t n, T *out, int64_t first, int64_t last) {                                 \
        for (int64_t i = first; i < last; i++) {                                                                       \
            const int64_t *c = columns + begin[i], elements = begin[i + 1] - begin[i];                                 \
            const T *v = values + begin[i];                                                                            \
            T *to = out + i * n;                                                                                       \
            int64_t j = 0;                                                                                             \
            if (n == 1) {                                                                                              \
                *to = dot_##S(c, v, elements, dense);                                                                  \
                continue;                                                                                              \
            }                                                                                                          \
            for (; j + 4 * (V) <= n; j += 4 * (V)) strip_##S(c, v, elements, dense + j, n, to + j, 4);                 \
            for (; j + (V) <= n; j += (V)) strip_##S(c, v, elements, dense + j, n, to + j, 1);                         \
            for (; j < n; j++) {                                                                                       \
                T sum = 0;                                                                                             \
                for (int64_t k = 0; k < elements; k++) sum = fac_fma1_##S(v[k], dense[c[k] * n + j], sum);             \
                to[j] = sum;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
SPMM(float, f32, FAC_LANES_F32)
SPMM(double, f64, FAC_LANES_F64)

bool FAC_ISA_NAME(fac__some_beyond)(const int64_t *index, int64_t n, int64_t size) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (index[i] < 0) | (index[i] >= size);
    return bad;
}
