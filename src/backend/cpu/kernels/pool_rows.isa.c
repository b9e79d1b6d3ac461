/* Windows of a row side by side; each is folded in its own order, so that vectors change nothing. */
#include "backend/cpu/kernels/pool_rows.h"
#include "backend/cpu/simd.h"

/* Every second element of two vectors, from element i on. */
#define PICK_2(a, b, i) __builtin_shufflevector(a, b, i, i + 2)
#define PICK_4(a, b, i) __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6)
#define PICK_8(a, b, i) __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14)
#define PICK_16(a, b, i)                                                                                         \
    __builtin_shufflevector(a, b, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14, i + 16, i + 18, i + 20, \
                            i + 22, i + 24, i + 26, i + 28, i + 30)

/* V windows at once from window i on. */
#define SOME_PAIRS(SUF, T, INT, V)                                                                                     \
    typedef T v##V##_##SUF __attribute__((vector_size(V * sizeof(T))));                                                \
    typedef INT places_##V##_##SUF __attribute__((vector_size(V * sizeof(INT))));                                      \
    typedef int64_t indices_##V##_##SUF __attribute__((vector_size(V * sizeof(int64_t)), aligned(8), may_alias));      \
    static inline void take_##V##_##SUF(v##V##_##SUF v, places_##V##_##SUF at, v##V##_##SUF *top,                      \
                                        places_##V##_##SUF *best) {                                                    \
        const places_##V##_##SUF better = (v > *top) | ((v != v) & (*top == *top));                                    \
        *top = (v##V##_##SUF)(((places_##V##_##SUF)v & better) | ((places_##V##_##SUF) * top & ~better));              \
        *best = (at & better) | (*best & ~better);                                                                     \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void pairs_##V##_##SUF(const T *from, const int64_t *first, int rows, \
                                                                        int64_t i, T *out, int64_t *to) {              \
        v##V##_##SUF top = {0};                                                                                        \
        places_##V##_##SUF two = {0}, best = {0};                                                                      \
        for (int k = 0; k < V; k++) two[k] = 2 * k;                                                                    \
        for (int r = 0; r < rows; r++) {                                                                               \
            v##V##_##SUF a, b;                                                                                         \
            memcpy(&a, from + first[r] + 2 * i, sizeof a);                                                             \
            memcpy(&b, from + first[r] + 2 * i + V, sizeof b);                                                         \
            const places_##V##_##SUF at = two + (INT)(first[r] + 2 * i);                                               \
            const v##V##_##SUF even = PICK_##V(a, b, 0);                                                               \
            if (r == 0)                                                                                                \
                top = even, best = at;                                                                                 \
            else                                                                                                       \
                take_##V##_##SUF(even, at, &top, &best);                                                               \
            take_##V##_##SUF(PICK_##V(a, b, 1), at + 1, &top, &best);                                                  \
        }                                                                                                              \
        memcpy(out + i, &top, sizeof top);                                                                             \
        *(indices_##V##_##SUF *)(to + i) = __builtin_convertvector(best, indices_##V##_##SUF);                         \
    }

/* By vectors; what is left of a row is computed with some of the last vector's windows once more, or in a smaller vector. */
#define BY_VECTORS(SUF, V)                                                                \
    if (n >= V) {                                                                         \
        for (; i + V <= n; i += V) pairs_##V##_##SUF(from, first, rows, i, out, indices); \
        if (i < n) pairs_##V##_##SUF(from, first, rows, n - V, out, indices);             \
        return;                                                                           \
    }
#define MAX_PAIRS(SUF, T, BODY)                                                                                        \
    void FAC_ISA_NAME(fac__max_pairs_##SUF)(const T *from, const int64_t *first, int rows, int64_t n, T *restrict out, \
                                            int64_t *restrict indices) {                                               \
        int64_t i = 0;                                                                                                 \
        BODY for (; i < n; i++) {                                                                                      \
            int64_t best = first[0] + 2 * i;                                                                           \
            T top = from[best];                                                                                        \
            for (int r = 0; r < 2 * rows; r++) {                                                                       \
                const int64_t at = first[r / 2] + 2 * i + r % 2;                                                       \
                const bool better = (from[at] > top) | ((from[at] != from[at]) & (top == top));                        \
                top = better ? from[at] : top;                                                                         \
                best = better ? at : best;                                                                             \
            }                                                                                                          \
            out[i] = top;                                                                                              \
            indices[i] = best;                                                                                         \
        }                                                                                                              \
    }
SOME_PAIRS(f32, float, int32_t, 4)
SOME_PAIRS(f64, double, int64_t, 2)
#if FAC_VECTOR_BYTES == 64
SOME_PAIRS(f32, float, int32_t, 16)
SOME_PAIRS(f32, float, int32_t, 8)
SOME_PAIRS(f64, double, int64_t, 8)
SOME_PAIRS(f64, double, int64_t, 4)
MAX_PAIRS(f32, float, BY_VECTORS(f32, 16) BY_VECTORS(f32, 8) BY_VECTORS(f32, 4))
MAX_PAIRS(f64, double, BY_VECTORS(f64, 8) BY_VECTORS(f64, 4) BY_VECTORS(f64, 2))
#elif FAC_VECTOR_BYTES == 32
SOME_PAIRS(f32, float, int32_t, 8)
SOME_PAIRS(f64, double, int64_t, 4)
MAX_PAIRS(f32, float, BY_VECTORS(f32, 8) BY_VECTORS(f32, 4))
MAX_PAIRS(f64, double, BY_VECTORS(f64, 4) BY_VECTORS(f64, 2))
#else
MAX_PAIRS(f32, float, BY_VECTORS(f32, 4))
MAX_PAIRS(f64, double, BY_VECTORS(f64, 2))
#endif

#if FAC_ISA_LEVEL >= 2
/* Lanes of `in` take v, at `at`, if it is greater, a NaN, or the first. */
static inline void meet(__mmask16 in, __m512 v, __m512i at, __m512 *top, __m512i *best) {
    const __mmask16 better = _mm512_cmp_ps_mask(v, *top, _CMP_NLE_UQ) & _mm512_cmp_ps_mask(*top, *top, _CMP_ORD_Q),
                    take = in & (better | _mm512_movepi32_mask(*best));
    *top = _mm512_mask_mov_ps(*top, take, v);
    *best = _mm512_mask_mov_epi32(*best, take, at);
}

/* One window, whose columns follow each other: a column per lane, then the first of the greatest lanes; -1 if it is empty. */
static int64_t place_of_max(const fac_max_windows *w, int i) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512 top = _mm512_setzero_ps();
    __m512i best = _mm512_set1_epi32(-1);
    for (int64_t z = w->z; z < w->z_end; z += w->z_step)
        for (int64_t y = w->y[i]; y < w->y_end[i]; y += w->y_step) {
            const int64_t row = (z * w->rows + y) * w->columns;
            for (int32_t x = w->begin[i]; x < w->end[i]; x += 16) {
                const int32_t left = w->end[i] - x;
                const __mmask16 in = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
                meet(in, _mm512_maskz_loadu_ps(in, w->from + row + x),
                     _mm512_add_epi32(_mm512_set1_epi32((int32_t)row + x), lanes), &top, &best);
            }
        }
    const __mmask16 found = (__mmask16)~_mm512_movepi32_mask(best);
    const __mmask16 none = found & _mm512_cmp_ps_mask(top, top, _CMP_UNORD_Q);
    const __m512 most = _mm512_set1_ps(_mm512_mask_reduce_max_ps(found, top));
    const __mmask16 greatest = none ? none : found & _mm512_cmp_ps_mask(top, most, _CMP_EQ_OQ);
    return greatest ? _mm512_mask_reduce_min_epi32(greatest, best) : -1;
}

/* Below FEW_WINDOWS, of a few columns FEW_NARROW, lanes of windows would mostly be empty. */
enum { FEW_WINDOWS = 10, FEW_NARROW = 4, NARROW = 4 };
bool FAC_ISA_NAME(fac__max_windows_f32)(const fac_max_windows *w) {
    if (!w) return true;
    const int few = w->n && w->end[w->n / 2] - w->begin[w->n / 2] <= NARROW ? FEW_NARROW : FEW_WINDOWS;
    if (w->n < few && w->step == 1) {
        for (int i = 0; i < w->n; i++) {
            const int64_t at = place_of_max(w, i);
            w->to[i] = at < 0 ? -__builtin_inff() : w->from[at];
            w->indices[i] = at < 0 ? 0 : at;
        }
        return true;
    }
    const __mmask16 all = (__mmask16)((1u << w->n) - 1);
    const __m512i begin = _mm512_maskz_loadu_epi32(all, w->begin), end = _mm512_maskz_loadu_epi32(all, w->end),
                  y_end = _mm512_maskz_loadu_epi32(all, w->y_end), step = _mm512_set1_epi32(w->step),
                  y_step = _mm512_set1_epi32((int32_t)w->y_step), columns = _mm512_set1_epi32((int32_t)w->columns);
    __m512 top = _mm512_set1_ps(-__builtin_inff());
    __m512i best = _mm512_set1_epi32(-1);
    for (int64_t z = w->z; z < w->z_end; z += w->z_step) {
        const __m512i plane = _mm512_set1_epi32((int32_t)(z * w->rows * w->columns));
        __m512i y = _mm512_maskz_loadu_epi32(all, w->y);
        for (__mmask16 there; (there = _mm512_mask_cmplt_epi32_mask(all, y, y_end)); y = _mm512_add_epi32(y, y_step)) {
            const __m512i row = _mm512_add_epi32(plane, _mm512_mullo_epi32(y, columns));
            __m512i x = begin;
            for (__mmask16 in; (in = _mm512_mask_cmplt_epi32_mask(there, x, end)); x = _mm512_add_epi32(x, step)) {
                const __m512i at = _mm512_add_epi32(x, row);
                meet(in, _mm512_mask_i32gather_ps(top, in, at, w->from, 4), at, &top, &best);
            }
        }
    }
    best = _mm512_max_epi32(best, _mm512_setzero_si512());
    _mm512_mask_storeu_ps(w->to, all, top);
    _mm512_mask_storeu_epi64(w->indices, (__mmask8)all, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(best)));
    _mm512_mask_storeu_epi64(w->indices + 8, (__mmask8)(all >> 8),
                             _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(best, 1)));
    return true;
}
#else
bool FAC_ISA_NAME(fac__max_windows_f32)(const fac_max_windows *w) { return (void)w, false; }
#endif

bool FAC_ISA_NAME(fac__any_above_f64)(const double *x, int64_t n, double top) {
    int64_t above = 0;
    for (int64_t i = 0; i < n; i++) above |= -(int64_t) !(x[i] <= top);
    return above != 0;
}

#define SUM_OF_ROWS(SUF, T)                                                                                         \
    void FAC_ISA_NAME(fac__sum_of_rows_##SUF)(const T *x, int64_t planes, int64_t plane, int64_t rows, int64_t row, \
                                              int64_t n, T *restrict out) {                                         \
        for (int64_t i = 0; i < n; i++) out[i] = 0;                                                                 \
        for (int64_t p = 0; p < planes; p++)                                                                        \
            for (int64_t r = 0; r < rows; r++) {                                                                    \
                const T *from = x + p * plane + r * row;                                                            \
                for (int64_t i = 0; i < n; i++) out[i] += from[i];                                                  \
            }                                                                                                       \
    }
SUM_OF_ROWS(f32, float)
SUM_OF_ROWS(f64, double)
