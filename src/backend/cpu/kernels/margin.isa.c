/* Sums are taken in eight lanes, in an order that depends on the length alone. */
#include "backend/cpu/kernels/margin.h"

enum { LANES = 8 };

static double total(const double *s) { return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])); }

/* Adds EXPR of z, which is known to be positive, to a lane. */
#define HINGES(EXPR)                               \
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

double FAC_ISA_NAME(fac__hinge_sum)(const double *x, int64_t n, double shift, bool square) {
    if (square) HINGES(z * z);
    HINGES(z);
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
