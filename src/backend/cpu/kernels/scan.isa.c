/* An element waits for the one before it, so that several go side by side: eight of a sum, whose own is found apart, or one each of
   four lines. */
#include "backend/cpu/kernels/scan.h"

typedef uint64_t eight __attribute__((vector_size(64), aligned(8)));

int64_t FAC_ISA_NAME(fac__prefix_sum_i64)(int64_t *x, int64_t n, int64_t before) {
    const eight none = {0};
    uint64_t sum = (uint64_t)before;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        eight v = *(eight *)(void *)(x + i);
        v += __builtin_shufflevector(none, v, 0, 8, 9, 10, 11, 12, 13, 14);
        v += __builtin_shufflevector(none, v, 0, 0, 8, 9, 10, 11, 12, 13);
        v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 8, 9, 10, 11);
        *(eight *)(void *)(x + i) = v + sum;
        sum += v[7];
    }
    for (; i < n; i++) x[i] = (int64_t)(sum += (uint64_t)x[i]);
    return (int64_t)sum;
}

#define LINES(NOT_WORSE)                                                       \
    for (int64_t i = 0; i < n; i++)                                            \
        for (int l = 0; l < FAC_SCAN_LINES; l++) {                             \
            const float v = x[l * x_line + i];                                 \
            const bool take = (v != v) | ((best[l] == best[l]) & (NOT_WORSE)); \
            best[l] = take ? v : best[l];                                      \
            place[l] = take ? i : place[l];                                    \
            out[l * out_line + i] = best[l];                                   \
            at[l * at_line + i] = place[l];                                    \
        }

void FAC_ISA_NAME(fac__extreme_lines_f32)(bool larger, const float *restrict x, int64_t x_line, float *restrict out,
                                          int64_t out_line, int64_t *restrict at, int64_t at_line, int64_t n) {
    float best[FAC_SCAN_LINES];
    int64_t place[FAC_SCAN_LINES] = {0};
    for (int l = 0; l < FAC_SCAN_LINES; l++) best[l] = larger ? -__builtin_inff() : __builtin_inff();
    if (larger) {
        LINES(v >= best[l])
    } else {
        LINES(v <= best[l])
    }
}
