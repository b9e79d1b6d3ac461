/* Element by element: nothing depends on a neighbour, so all vectors give the same codes. */
#include "backend/cpu/kernels/quantize.h"
#include <math.h>

#define RUNS(T, name, least, most)                                                                          \
    void FAC_ISA_NAME(fac__encode_##name)(T *restrict out, const float *restrict x, int64_t n, float scale, \
                                          float zero) {                                                     \
        const float inverse = 1.0f / scale;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            float r = rintf(x[i] * inverse) + zero;                                                         \
            r = r > (least) ? r : (least);                                                                  \
            r = r < (most) ? r : (most);                                                                    \
            out[i] = (T)(int32_t)r;                                                                         \
        }                                                                                                   \
    }                                                                                                       \
    void FAC_ISA_NAME(fac__decode_##name)(float *restrict out, const T *restrict c, int64_t n, float scale, \
                                          int zero) {                                                       \
        for (int64_t i = 0; i < n; i++) out[i] = (float)(c[i] - zero) * scale;                              \
    }
RUNS(uint8_t, u8, 0.0f, 255.0f)
RUNS(int8_t, i8, -128.0f, 127.0f)
