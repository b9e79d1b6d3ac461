/* Inner loops of pooling over channels. Elements of other dtypes are converted a point at a time. */
#include "backend/cpu/kernels/pool_last.h"
#include "backend/cpu/half.h"
#include <math.h>

#define EACH_POINT(w, at)                                                      \
    for (int64_t z_ = (w)->begin[0]; z_ < (w)->end[0]; z_ += (w)->step[0])     \
        for (int64_t y_ = (w)->begin[1]; y_ < (w)->end[1]; y_ += (w)->step[1]) \
            for (int64_t x_ = (w)->begin[2], at;                               \
                 x_ < (w)->end[2] && (at = (z_ * (w)->size[1] + y_) * (w)->size[2] + x_, true); x_ += (w)->step[2])

/* n elements in the kind, in place or at `room`. */
static inline const void *elements(const fac_pool_window *w, const void *at, void *room, int64_t n) {
    if (fac__acc_is(w->kind, w->dtype)) return at;
    fac__tile_load(w->kind, room, at, w->dtype, 1, n);
    return room;
}
static inline const void *point(const fac_pool_window *w, const void *image, int64_t at, void *room, int64_t n) {
    return elements(w, (const char *)image + (size_t)(at * w->channels) * fac__dtype_size(w->dtype), room, n);
}

/* What a window that lies in the padding alone gives: no element is less. */
static inline int64_t least_integer(fac_dtype d) {
    return d == FAC_U8 ? 0 : d == FAC_I8 ? INT8_MIN : d == FAC_I16 ? INT16_MIN : d == FAC_I32 ? INT32_MIN : INT64_MIN;
}

#define BLOCK_FNS(T, U, DIV, LEAST)                                                                               \
    static void max_##T(const fac_pool_window *w, const void *image, void *to, int64_t *indices, int64_t n) {     \
        T top[FAC_POOL_BLOCK], room[FAC_POOL_BLOCK];                                                              \
        int32_t best[FAC_POOL_BLOCK];                                                                             \
        bool first = true;                                                                                        \
        EACH_POINT(w, at) {                                                                                       \
            const T *v = point(w, image, at, room, n);                                                            \
            const int32_t here = (int32_t)at;                                                                     \
            for (int64_t c = 0; first && c < n; c++) top[c] = v[c], best[c] = here;                               \
            for (int64_t c = 0; !first && c < n; c++) {                                                           \
                const bool better = (v[c] > top[c]) | ((v[c] != v[c]) & (top[c] == top[c]));                      \
                top[c] = better ? v[c] : top[c];                                                                  \
                best[c] = better ? here : best[c];                                                                \
            }                                                                                                     \
            first = false;                                                                                        \
        }                                                                                                         \
        for (int64_t c = 0; first && c < n; c++) top[c] = (T)(LEAST), best[c] = 0;                                \
        fac__tile_store(w->kind, top, to, w->dtype, 1, n);                                                        \
        for (int64_t c = 0; c < n; c++) indices[c] = best[c];                                                     \
    }                                                                                                             \
    static void mean_##T(const fac_pool_window *w, const void *image, int64_t divisor, void *to, int64_t n) {     \
        U sum[FAC_POOL_BLOCK];                                                                                    \
        T room[FAC_POOL_BLOCK];                                                                                   \
        memset(sum, 0, (size_t)n * sizeof(U));                                                                    \
        EACH_POINT(w, at) {                                                                                       \
            const T *v = point(w, image, at, room, n);                                                            \
            for (int64_t c = 0; c < n; c++) sum[c] += (U)v[c];                                                    \
        }                                                                                                         \
        for (int64_t c = 0; c < n; c++) room[c] = divisor ? (T)DIV(sum[c], (U)divisor) : 0;                       \
        fac__tile_store(w->kind, room, to, w->dtype, 1, n);                                                       \
    }                                                                                                             \
    static void spread_##T(const fac_pool_window *w, const void *grad, int64_t divisor, void *sums, int64_t step, \
                           int64_t n) {                                                                           \
        T room[FAC_POOL_BLOCK];                                                                                   \
        U share[FAC_POOL_BLOCK];                                                                                  \
        const T *g = elements(w, grad, room, n);                                                                  \
        for (int64_t c = 0; c < n; c++) share[c] = divisor ? DIV((U)g[c], (U)divisor) : 0;                        \
        EACH_POINT(w, at) {                                                                                       \
            U *s = (U *)sums + at * step;                                                                         \
            for (int64_t c = 0; c < n; c++) s[c] += share[c];                                                     \
        }                                                                                                         \
    }

#define DIVIDE(sum, n) ((sum) / (n))
/* Integers wrap around: so does the one quotient that does not fit. */
static inline uint64_t divide_wrapping(uint64_t sum, uint64_t n) {
    return n == UINT64_MAX ? 0 - sum : (uint64_t)((int64_t)sum / (int64_t)n);
}
BLOCK_FNS(float, float, DIVIDE, -INFINITY)
BLOCK_FNS(double, double, DIVIDE, -INFINITY)
BLOCK_FNS(int64_t, uint64_t, divide_wrapping, least_integer(w->dtype))

/* Maxima of f32 or bf16, some vectors of channels at a time, which begin with the window's first point; returns how many channels these
   are. */
typedef int32_t words __attribute__((vector_size(FAC_VECTOR_BYTES)));
typedef int64_t wide_words __attribute__((vector_size(2 * FAC_VECTOR_BYTES), aligned(8), may_alias));
enum { STRIP = 4 };
#define MAX_VECTORS(T, S)                                                                                            \
    __attribute__((always_inline)) static inline void max_strip_##S(const int V, const fac_pool_window *w,           \
                                                                    const T *image, T *to, int64_t *indices) {       \
        const int64_t *b = w->begin, start = (b[0] * w->size[1] + b[1]) * w->size[2] + b[2];                         \
        const bool any = b[0] < w->end[0] && b[1] < w->end[1] && b[2] < w->end[2];                                   \
        fac_vf32 top[STRIP];                                                                                         \
        words best[STRIP];                                                                                           \
        _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                                                        \
            top[v] = any ? fac_load_##S(image + start * w->channels + v * FAC_LANES_F32) : fac_splat_f32(-INFINITY); \
            best[v] = any ? (words){0} + (int32_t)start : (words){0};                                                \
        }                                                                                                            \
        EACH_POINT(w, at) {                                                                                          \
            const T *from = image + at * w->channels;                                                                \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                                                    \
                const fac_vf32 x = fac_load_##S(from + v * FAC_LANES_F32);                                           \
                const words better = (x > top[v]) | ((x != x) & (top[v] == top[v]));                                 \
                top[v] = (fac_vf32)(((words)x & better) | ((words)top[v] & ~better));                                \
                best[v] = ((int32_t)at & better) | (best[v] & ~better);                                              \
            }                                                                                                        \
        }                                                                                                            \
        _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) {                                                        \
            fac_store_##S(to + v * FAC_LANES_F32, top[v]);                                                           \
            *(wide_words *)(void *)(indices + v * FAC_LANES_F32) = __builtin_convertvector(best[v], wide_words);     \
        }                                                                                                            \
    }                                                                                                                \
    static int64_t max_vectors_##S(const fac_pool_window *w, const T *image, T *to, int64_t *indices, int64_t n) {   \
        int64_t c = 0;                                                                                               \
        for (; c + STRIP * FAC_LANES_F32 <= n; c += STRIP * FAC_LANES_F32)                                           \
            max_strip_##S(STRIP, w, image + c, to + c, indices + c);                                                 \
        for (; c + FAC_LANES_F32 <= n; c += FAC_LANES_F32) max_strip_##S(1, w, image + c, to + c, indices + c);      \
        return c;                                                                                                    \
    }
MAX_VECTORS(float, f32)
MAX_VECTORS(uint16_t, bf16)

/* Means of the same, which begin with zero as all sums do. */
#define MEAN_VECTORS(T, S)                                                                                           \
    __attribute__((always_inline)) static inline void mean_strip_##S(const int V, const fac_pool_window *w,          \
                                                                     const T *image, int64_t divisor, T *to) {       \
        fac_vf32 sum[STRIP] = {{0}};                                                                                 \
        EACH_POINT(w, at) {                                                                                          \
            const T *from = image + at * w->channels;                                                                \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) sum[v] += fac_load_##S(from + v * FAC_LANES_F32);    \
        }                                                                                                            \
        _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)                                                          \
            fac_store_##S(to + v * FAC_LANES_F32, divisor ? sum[v] / fac_splat_f32((float)divisor) : (fac_vf32){0}); \
    }                                                                                                                \
    static int64_t mean_vectors_##S(const fac_pool_window *w, const T *image, int64_t divisor, T *to, int64_t n) {   \
        int64_t c = 0;                                                                                               \
        for (; c + STRIP * FAC_LANES_F32 <= n; c += STRIP * FAC_LANES_F32)                                           \
            mean_strip_##S(STRIP, w, image + c, divisor, to + c);                                                    \
        for (; c + FAC_LANES_F32 <= n; c += FAC_LANES_F32) mean_strip_##S(1, w, image + c, divisor, to + c);         \
        return c;                                                                                                    \
    }
MEAN_VECTORS(float, f32)
MEAN_VECTORS(uint16_t, bf16)

void FAC_ISA_NAME(fac__pool_last_max)(const fac_pool_window *w, const void *image, void *to, int64_t *indices,
                                      int64_t n) {
    int64_t done = 0;
    if (w->dtype == FAC_F32) done = max_vectors_f32(w, image, to, indices, n);
    if (w->dtype == FAC_BF16) done = max_vectors_bf16(w, image, to, indices, n);
    if (done == n) return;
    image = (const char *)image + (size_t)done * fac__dtype_size(w->dtype);
    to = (char *)to + (size_t)done * fac__dtype_size(w->dtype);
    indices += done;
    n -= done;
    if (w->kind == FAC_ACC_F32)
        max_float(w, image, to, indices, n);
    else if (w->kind == FAC_ACC_F64)
        max_double(w, image, to, indices, n);
    else
        max_int64_t(w, image, to, indices, n);
}

void FAC_ISA_NAME(fac__pool_last_mean)(const fac_pool_window *w, const void *image, int64_t divisor, void *to,
                                       int64_t n) {
    int64_t done = 0;
    if (w->dtype == FAC_F32) done = mean_vectors_f32(w, image, divisor, to, n);
    if (w->dtype == FAC_BF16) done = mean_vectors_bf16(w, image, divisor, to, n);
    if (done == n) return;
    image = (const char *)image + (size_t)done * fac__dtype_size(w->dtype);
    to = (char *)to + (size_t)done * fac__dtype_size(w->dtype);
    n -= done;
    if (w->kind == FAC_ACC_F32)
        mean_float(w, image, divisor, to, n);
    else if (w->kind == FAC_ACC_F64)
        mean_double(w, image, divisor, to, n);
    else
        mean_int64_t(w, image, divisor, to, n);
}

void FAC_ISA_NAME(fac__pool_last_spread)(const fac_pool_window *w, const void *grad, int64_t divisor, void *sums,
                                         int64_t step, int64_t n) {
    if (w->kind == FAC_ACC_F32)
        spread_float(w, grad, divisor, sums, step, n);
    else if (w->kind == FAC_ACC_F64)
        spread_double(w, grad, divisor, sums, step, n);
    else
        spread_int64_t(w, grad, divisor, sums, step, n);
}
