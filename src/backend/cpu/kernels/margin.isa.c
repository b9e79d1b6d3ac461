/* Sums are taken in eight lanes, in an order that depends on the length alone. */
#include "backend/cpu/kernels/margin.h"
#include "backend/cpu/simd.h"

enum { LANES = 8 };

static double total(const double *s) { return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])); }

#if FAC_VECTOR_BYTES == 64
/* A vector has all lanes; where classes end, those behind them are far below. */
static inline __attribute__((always_inline)) double hinges(const double *x, int64_t n, double shift, bool square) {
    const __m512d none = _mm512_setzero_pd(), by = _mm512_set1_pd(shift);
    __m512d sum = none;
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask8 there = n - i < LANES ? (__mmask8)((1u << (n - i)) - 1) : 0xff;
        const __m512d z = _mm512_add_pd(by, _mm512_maskz_loadu_pd(there, x + i));
        const __mmask8 in = _mm512_mask_cmp_pd_mask(there, z, none, _CMP_GT_OQ);
        sum = _mm512_mask_add_pd(sum, in, sum, square ? _mm512_mul_pd(z, z) : z);
    }
    return fac_sum_f64((fac_vf64)sum);
}
#define HINGES(EXPR, square) return hinges(x, n, shift, square)
#else
/* Adds EXPR of z, which is known to be positive, to a lane. */
#define HINGES(EXPR, square)                       \
    do {                                           \
        double sum[LANES] = {0};                   \
        int64_t i = 0;                             \
        for (; i + LANES <= n; i += LANES)         \
            for (int k = 0; k < LANES; k++) {      \
                const double z = shift + x[i + k]; \
                sum[k] += z > 0 ? (EXPR) : 0;      \
            }                                      \
        for (int k = 0; i + k < n; k++) {          \
            const double z = shift + x[i + k];     \
            sum[k] += z > 0 ? (EXPR) : 0;          \
        }                                          \
        return total(sum);                         \
    } while (0)
#endif

double FAC_ISA_NAME(fac__hinge_sum)(const double *x, int64_t n, double shift, bool square) {
    if (square) HINGES(z * z, true);
    HINGES(z, false);
}

#define SLOPES(EXPR)                                     \
    do {                                                 \
        double sum[LANES] = {0};                         \
        int64_t i = 0;                                   \
        for (; i + LANES <= n; i += LANES)               \
            for (int k = 0; k < LANES; k++) {            \
                const double z = shift + x[i + k];       \
                const double slope = z > 0 ? (EXPR) : 0; \
                dx[i + k] += slope;                      \
                sum[k] += slope;                         \
            }                                            \
        for (int k = 0; i + k < n; k++) {                \
            const double z = shift + x[i + k];           \
            const double slope = z > 0 ? (EXPR) : 0;     \
            dx[i + k] += slope;                          \
            sum[k] += slope;                             \
        }                                                \
        return total(sum);                               \
    } while (0)

double FAC_ISA_NAME(fac__hinge_slopes)(const double *restrict x, int64_t n, double shift, bool square, double scale,
                                       double *restrict dx) {
    if (square) SLOPES(2 * z * scale);
    SLOPES(scale);
}

bool FAC_ISA_NAME(fac__some_outside)(const int64_t *t, int64_t n, int64_t least, int64_t classes) {
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= (t[i] < least) | (t[i] >= classes);
    return bad;
}
