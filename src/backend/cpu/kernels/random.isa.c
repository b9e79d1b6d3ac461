/* Philox on vectors: each 64-bit lane runs one block, its four counters in the low halves of four registers, so that the
   32 x 32 -> 64 products are single instructions. The high halves hold rubbish that no product reads. */
#include "backend/cpu/kernels/random.h"
#include "backend/cpu/simd.h"
#include "core/philox.h"

#if FAC_ISA_LEVEL >= 1

#if FAC_ISA_LEVEL == 2
#define LANES 8
typedef __m512i vec;
#define V(op) _mm512_##op
#define XOR(a, b) _mm512_xor_si512(a, b)
#define OR(a, b) _mm512_or_si512(a, b)
#define AND(a, b) _mm512_and_si512(a, b)
#define SPLAT(x) _mm512_set1_epi64(x)
#define IOTA _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0)
#else
#define LANES 4
typedef __m256i vec;
#define V(op) _mm256_##op
#define XOR(a, b) _mm256_xor_si256(a, b)
#define OR(a, b) _mm256_or_si256(a, b)
#define AND(a, b) _mm256_and_si256(a, b)
#define SPLAT(x) _mm256_set1_epi64x(x)
#define IOTA _mm256_set_epi64x(3, 2, 1, 0)
#endif

static inline vec splat(uint64_t x) { return SPLAT((long long)x); }

/* Two words of each block as one 64-bit lane, lower word first. */
static inline vec join(vec low, vec high) { return OR(AND(low, splat(0xffffffffu)), V(slli_epi64)(high, 32)); }

/* Writes lanes a0 b0 a1 b1 ...: the blocks in order. */
static inline void store_blocks(uint32_t *out, vec a, vec b) {
    vec low = V(unpacklo_epi64)(a, b), high = V(unpackhi_epi64)(a, b);
#if FAC_ISA_LEVEL == 2
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi64(low, second, high));
#else
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 8), _mm256_permute2x128_si256(low, high, 0x31));
#endif
}

static inline void many_blocks(uint32_t *out, uint64_t first, uint64_t seed, uint64_t offset) {
    const vec m0 = splat(0xD2511F53u), m1 = splat(0xCD9E8D57u);
    vec index = V(add_epi64)(splat(first), IOTA);
    vec c0 = index, c1 = V(srli_epi64)(index, 32), c2 = splat(offset & 0xffffffffu), c3 = splat(offset >> 32 & 0xffffu);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        vec p0 = V(mul_epu32)(m0, c0), p1 = V(mul_epu32)(m1, c2);
        c0 = XOR(XOR(V(srli_epi64)(p1, 32), c1), splat(k0));
        c2 = XOR(XOR(V(srli_epi64)(p0, 32), c3), splat(k1));
        c1 = p1;
        c3 = p0;
    }
    store_blocks(out, join(c0, c1), join(c2, c3));
}

#else
#define LANES 1
static inline void many_blocks(uint32_t *out, uint64_t first, uint64_t seed, uint64_t offset) {
    fac_philox_block b = fac__philox_at(seed, offset, first, 0);
    memcpy(out, b.word, sizeof b.word);
}
#endif

void FAC_ISA_NAME(fac__philox_words)(uint32_t *out, uint64_t first, int64_t blocks, uint64_t seed, uint64_t offset) {
    int64_t i = 0;
    for (; i + LANES <= blocks; i += LANES) many_blocks(out + 4 * i, first + (uint64_t)i, seed, offset);
    for (; i < blocks; i++) {
        fac_philox_block b = fac__philox_at(seed, offset, first + (uint64_t)i, 0);
        memcpy(out + 4 * i, b.word, sizeof b.word);
    }
}

/* ---- distributions ------------------------------------------------------------------------------------------------------ */

static inline uint64_t wide(const uint32_t *words, int64_t i) {
    return (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
}

void FAC_ISA_NAME(fac__normals_f32)(float *out, const uint32_t *words, int64_t n, float mean, float std) {
    for (int64_t p = 0; p < n / 2; p++) {
        float pair[2];
        fac__normal_pair_f32(words[2 * p], words[2 * p + 1], pair);
        out[2 * p] = fmaf(pair[0], std, mean);
        out[2 * p + 1] = fmaf(pair[1], std, mean);
    }
}

void FAC_ISA_NAME(fac__normals_f64)(double *out, const uint32_t *words, int64_t n, double mean, double std) {
    for (int64_t p = 0; p < n / 2; p++) {
        double pair[2];
        fac__normal_pair_f64(wide(words, 2 * p), wide(words, 2 * p + 1), pair);
        out[2 * p] = fma(pair[0], std, mean);
        out[2 * p + 1] = fma(pair[1], std, mean);
    }
}

void FAC_ISA_NAME(fac__uniforms_f32)(float *out, const uint32_t *words, int64_t n, float from, float to, int bits) {
    const float unit = 1.0f / (float)(1 << bits), span = to - from;
    for (int64_t i = 0; i < n; i++) out[i] = fmaf((float)(int32_t)(words[i] >> (32 - bits)) * unit, span, from);
}

void FAC_ISA_NAME(fac__uniforms_f64)(double *out, const uint32_t *words, int64_t n, double from, double to) {
    const double span = to - from;
    for (int64_t i = 0; i < n; i++) out[i] = fma(fac__uniform_f64(wide(words, i)), span, from);
}

void FAC_ISA_NAME(fac__exponentials)(double *out, const uint32_t *words, int64_t n, double rate) {
    for (int64_t i = 0; i < n; i++) {
        const double x = -fac__log_unit_f64(fac__uniform_open_f64(wide(words, i)));
        out[i] = (x > 0 ? x : 0x1p-54) / rate; /* zero is outside the distribution */
    }
}

void FAC_ISA_NAME(fac__geometrics)(double *out, const uint32_t *words, int64_t n, double log_rest) {
    for (int64_t i = 0; i < n; i++) {
        const double trials = ceil(fac__log_unit_f64(fac__uniform_open_f64(wide(words, i))) / log_rest);
        out[i] = trials > 1 ? trials : 1;
    }
}

void FAC_ISA_NAME(fac__cauchys)(double *out, const uint32_t *words, int64_t n, double median, double sigma) {
    for (int64_t i = 0; i < n; i++) {
        double s, c, u = fac__uniform_f64(wide(words, i));
        fac__sincos_turn_f64(0.5 * u, &s, &c); /* tan(pi (u - 1/2)) = -cos(pi u) / sin(pi u) */
        out[i] = median - sigma * c / (s > 0x1p-60 ? s : 0x1p-60);
    }
}

/* ---- dropout --------------------------------------------------------------------------------------------------------------- */

#define DROPOUT(T, name)                                                                                               \
    void FAC_ISA_NAME(name)(T * out, uint8_t * keep, const T *x, const uint32_t *words, int64_t n, uint64_t threshold, \
                            T scale) {                                                                                 \
        const uint32_t last = (uint32_t)(threshold - 1); /* threshold 0 keeps nothing: its loop is memset's */         \
        if (threshold == 0) {                                                                                          \
            memset(out, 0, (size_t)n * sizeof *out);                                                                   \
            memset(keep, 0, (size_t)n);                                                                                \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            keep[i] = words[i] <= last;                                                                                \
            out[i] = words[i] <= last ? x[i] * scale : 0;                                                              \
        }                                                                                                              \
    }

#define MASK_SCALE(T, name)                                                                 \
    void FAC_ISA_NAME(name)(T * out, const uint8_t *keep, const T *x, int64_t n, T scale) { \
        for (int64_t i = 0; i < n; i++) out[i] = keep[i] ? x[i] * scale : 0;                \
    }

DROPOUT(float, fac__dropout_f32)
DROPOUT(double, fac__dropout_f64)
MASK_SCALE(float, fac__mask_scale_f32)
MASK_SCALE(double, fac__mask_scale_f64)
