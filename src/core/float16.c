/* IEEE half precision by integer arithmetic: exact one way, rounded to nearest even the other. */
#include "core/scalar.h"

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float fac__f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) { /* inf, NaN: the payload moves up, and NaNs become quiet */
        uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0;
        return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13 | quiet);
    }
    if (magnitude >= 0x400u) return float_of(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    float f = (float)magnitude * 0x1p-24f; /* subnormal: exact */
    return sign ? -f : f;
}

uint16_t fac__f32_to_f16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x1ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (a < 0x38800000u) { /* below 2^-14: adding 0.5 leaves the value in units of 2^-24, rounded by the hardware */
        float sum = float_of(a) + 0.5f;
        uint32_t r;
        memcpy(&r, &sum, sizeof r);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    uint32_t odd = a >> 13 & 1u;
    return (uint16_t)(sign | ((a - ((127u - 15u) << 23) + 0xfffu + odd) >> 13));
}
