/* Inner loops of pooling over channels. Elements of other dtypes are converted a point at a time. */
#include "backend/cpu/kernels/pool_last.h"
#include "backend/cpu/simd.h"
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

void FAC_ISA_NAME(fac__pool_last_max)(const fac_pool_window *w, const void *image, void *to, int64_t *indices,
                                      int64_t n) {
    if (w->kind == FAC_ACC_F32)
        max_float(w, image, to, indices, n);
    else if (w->kind == FAC_ACC_F64)
        max_double(w, image, to, indices, n);
    else
        max_int64_t(w, image, to, indices, n);
}

void FAC_ISA_NAME(fac__pool_last_mean)(const fac_pool_window *w, const void *image, int64_t divisor, void *to,
                                       int64_t n) {
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
