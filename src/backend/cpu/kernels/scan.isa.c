/* An element waits for the one before it, so that several go side by side: eight of a sum, whose own is found apart, or one each of
   four lines. */
#include "backend/cpu/kernels/scan.h"
#include <string.h>

typedef uint64_t eight __attribute__((vector_size(64), aligned(8)));

int64_t FAC_ISA_NAME(fac__prefix_sum_i64)(const int64_t *x, int64_t *out, int64_t n, int64_t before) {
    const eight none = {0};
    uint64_t sum = (uint64_t)before;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        eight v = *(const eight *)(const void *)(x + i);
        v += __builtin_shufflevector(none, v, 0, 8, 9, 10, 11, 12, 13, 14);
        v += __builtin_shufflevector(none, v, 0, 0, 8, 9, 10, 11, 12, 13);
        v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 8, 9, 10, 11);
        *(eight *)(void *)(out + i) = v + sum;
        sum += v[7];
    }
    for (; i < n; i++) out[i] = (int64_t)(sum += (uint64_t)x[i]);
    return (int64_t)sum;
}

/* Results are put together aside: lines may lie a whole page apart, where a store holds up the next line's load. */
enum { PART = 64 };
typedef struct part {
    float value[FAC_SCAN_LINES][PART];
    int64_t place[FAC_SCAN_LINES][PART];
} part;

#define LINES(NOT_WORSE)                                                       \
    for (int64_t k = 0; k < m; k++)                                            \
        for (int l = 0; l < FAC_SCAN_LINES; l++) {                             \
            const float v = x[l * x_line + i + k];                             \
            const bool take = (v != v) | ((best[l] == best[l]) & (NOT_WORSE)); \
            best[l] = take ? v : best[l];                                      \
            place[l] = take ? i + k : place[l];                                \
            p.value[l][k] = best[l];                                           \
            p.place[l][k] = place[l];                                          \
        }

void FAC_ISA_NAME(fac__extreme_lines_f32)(bool larger, const float *restrict x, int64_t x_line, float *restrict out,
                                          int64_t out_line, int64_t *restrict at, int64_t at_line, int64_t n) {
    float best[FAC_SCAN_LINES];
    int64_t place[FAC_SCAN_LINES] = {0};
    part p;
    for (int l = 0; l < FAC_SCAN_LINES; l++) best[l] = larger ? -__builtin_inff() : __builtin_inff();
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t m = n - i < PART ? n - i : PART;
        if (larger) {
            LINES(v >= best[l])
        } else {
            LINES(v <= best[l])
        }
        for (int l = 0; l < FAC_SCAN_LINES; l++) {
            memcpy(out + l * out_line + i, p.value[l], (size_t)m * sizeof *out);
            memcpy(at + l * at_line + i, p.place[l], (size_t)m * sizeof *at);
        }
    }
}
