/* Keys of elements, and what is looked for among them. */
#include "backend/cpu/kernels/order.h"

/* Floats of `bits` bits: the sign decides whether all bits or only the sign are inverted; NaN is the largest. */
static inline uint64_t float_key(uint64_t x, int bits, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (bits - 1), all = sign | (sign - 1);
    const uint64_t key = x & sign ? ~x & all : x | sign;
    return (x & (sign - 1)) > infinity ? all : x == sign ? sign : key;
}

#define KEYS(T, expr)                         \
    do {                                      \
        const T *s = src;                     \
        for (int64_t i = 0; i < n; i++) {     \
            const T x = s[i * stride];        \
            out[i] = (uint64_t)(expr) ^ flip; \
        }                                     \
    } while (0)

void FAC_ISA_NAME(fac__keys)(fac_dtype d, const void *restrict src, int64_t stride, int64_t n, uint64_t flip,
                             uint64_t *restrict out) {
    typedef uint32_t __attribute__((may_alias)) bits32;
    typedef uint64_t __attribute__((may_alias)) bits64;
    switch (d) {
    case FAC_BOOL: KEYS(uint8_t, x != 0); break;
    case FAC_U8: KEYS(uint8_t, x); break;
    case FAC_I8: KEYS(uint8_t, x ^ 0x80u); break;
    case FAC_I16: KEYS(uint16_t, x ^ 0x8000u); break;
    case FAC_I32: KEYS(bits32, x ^ 0x80000000u); break;
    case FAC_I64: KEYS(bits64, x ^ (uint64_t)1 << 63); break;
    case FAC_F16: KEYS(uint16_t, float_key(x, 16, 0x7c00)); break;
    case FAC_BF16: KEYS(uint16_t, float_key(x, 16, 0x7f80)); break;
    case FAC_F32: KEYS(bits32, float_key(x, 32, 0x7f800000)); break;
    default: KEYS(bits64, float_key(x, 64, 0x7ff0000000000000)); break;
    }
}

bool FAC_ISA_NAME(fac__keys_below)(const uint64_t *keys, int64_t n, uint64_t limit) {
    uint64_t below = 0;
    for (int64_t i = 0; i < n; i++) below |= (uint64_t)(keys[i] < limit);
    return below != 0;
}

void FAC_ISA_NAME(fac__ranks)(const uint64_t (*restrict keys)[FAC_RANKED_ROWS], int64_t n,
                              uint64_t (*restrict ranks)[FAC_RANKED_ROWS]) {
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    for (int64_t i = 1; i < n; i++) {
        uint64_t rank[FAC_RANKED_ROWS] = {0};
        for (int64_t k = 0; k < i; k++)
            for (int r = 0; r < FAC_RANKED_ROWS; r++) {
                const uint64_t after = keys[k][r] <= keys[i][r];
                rank[r] += after;
                ranks[k][r] += 1 - after;
            }
        memcpy(ranks[i], rank, sizeof rank);
    }
}
