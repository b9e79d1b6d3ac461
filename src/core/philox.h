/* Random numbers by counter: element i of a draw is a pure function of (seed, offset, i), so it depends on no thread, no
   split of the work and no device. source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".

   The block at index b of a draw is Philox 4x32-10 of the counter {b low, b high, offset low, offset high} under the key
   {seed low, seed high}. Offsets use 48 bits; the upper 16 bits of the counter count the attempts of samplers that reject.
   Draws of one word per element read lane i % 4 of block i / 4; draws of two words read lanes 2 (i % 2) and the next of
   block i / 2. Every operator advances the generator's offset by one.

   The functions compile into any kernel, and the results are the same bits everywhere: each product that meets a sum is
   an explicit fma, so there is nothing that a compiler could contract. */
#ifndef FAC_SRC_CORE_PHILOX_H
#define FAC_SRC_CORE_PHILOX_H

#ifndef FAC_PHILOX_FN /* how the functions are declared: kernels of devices say it first, and bring what these headers have */
#define FAC_PHILOX_FN static inline
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

typedef struct fac_philox_block {
    uint32_t word[4];
} fac_philox_block;

/* The bare generator: ten rounds. */
FAC_PHILOX_FN fac_philox_block fac__philox(const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const fac_philox_block block = {{c0, c1, c2, c3}};
    return block;
}

/* Block `index` of the draw (seed, offset); `attempt` is 0 but for samplers that reject. */
FAC_PHILOX_FN fac_philox_block fac__philox_at(uint64_t seed, uint64_t offset, uint64_t index, uint32_t attempt) {
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)offset,
                                 ((uint32_t)(offset >> 32) & 0xffffu) | attempt << 16};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    return fac__philox(counter, key);
}

/* Element i's word, and its pair of words as 64 bits. */
FAC_PHILOX_FN uint32_t fac__random_u32(uint64_t seed, uint64_t offset, int64_t i) {
    return fac__philox_at(seed, offset, (uint64_t)i / 4, 0).word[i & 3];
}
FAC_PHILOX_FN uint64_t fac__random_u64(uint64_t seed, uint64_t offset, int64_t i) {
    fac_philox_block b = fac__philox_at(seed, offset, (uint64_t)i / 2, 0);
    unsigned lane = 2u * (unsigned)(i & 1);
    return (uint64_t)b.word[lane + 1] << 32 | b.word[lane];
}

/* ---- uniform --------------------------------------------------------------------------------------------------------- */

/* In [0, 1): 24 bits, or 53. */
FAC_PHILOX_FN float fac__uniform_f32(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }
FAC_PHILOX_FN double fac__uniform_f64(uint64_t bits) { return (double)(int64_t)(bits >> 11) * 0x1p-53; }
/* In (0, 1], for logarithms. */
FAC_PHILOX_FN float fac__uniform_open_f32(uint32_t word) { return (float)(int32_t)((word >> 8) + 1u) * 0x1p-24f; }
FAC_PHILOX_FN double fac__uniform_open_f64(uint64_t bits) { return (double)(int64_t)((bits >> 11) + 1u) * 0x1p-53; }

/* True with probability p: word < threshold. The threshold is p in units of 2^-32, rounded up; 2^32 for p >= 1. */
FAC_PHILOX_FN uint64_t fac__bernoulli_threshold(double p) {
    return !(p > 0) ? 0 : p >= 1 ? (uint64_t)1 << 32 : (uint64_t)ceil(p * 0x1p32);
}
FAC_PHILOX_FN int fac__bernoulli(uint32_t word, uint64_t threshold) { return word < threshold; }

/* An integer in [0, n), n >= 1: by the high half of a product; the bias is below n / 2^64 (n / 2^32 in the short form). */
FAC_PHILOX_FN uint32_t fac__below_u32(uint32_t word, uint32_t n) { return (uint32_t)((uint64_t)word * n >> 32); }
FAC_PHILOX_FN uint64_t fac__below_u64(uint64_t bits, uint64_t n) {
    return (uint64_t)((unsigned __int128)bits * n >> 64);
}

/* ---- normal ------------------------------------------------------------------------------------------------------------- */

/* Natural logarithm of u in (0, 1], u = m 2^e with m in [sqrt 1/2, sqrt 2): log m = 2 atanh s, s = (m - 1) / (m + 1). */
FAC_PHILOX_FN float fac__log_unit_f32(float u) {
    uint32_t bits, e_bits;
    memcpy(&bits, &u, 4);
    e_bits = bits - 0x3f3504f3u; /* the bits of sqrt 1/2 */
    float e = (float)((int32_t)e_bits >> 23), m;
    bits -= e_bits & 0xff800000u;
    memcpy(&m, &bits, 4);
    float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float p = fmaf(z, 0x1.ddced8p-3f, 0x1.245c44p-2f);
    p = fmaf(z, p, 0x1.9999ecp-2f);
    p = fmaf(z, p, 0x1.555554p-1f);
    float tail = fmaf(e, -0x1.05c61p-29f, z * s * p); /* ln 2 = 0x1.62e43p-1 - 0x1.05c61p-29 */
    return fmaf(e, 0x1.62e43p-1f, fmaf(s, 2.0f, tail));
}

FAC_PHILOX_FN double fac__log_unit_f64(double u) {
    uint64_t bits, e_bits;
    memcpy(&bits, &u, 8);
    e_bits = bits - 0x3fe6a09e667f3bcdu; /* the bits of sqrt 1/2 */
    double e = (double)((int64_t)e_bits >> 52), m;
    bits -= e_bits & 0xfff0000000000000u;
    memcpy(&m, &bits, 8);
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = fma(z, 0x1.0c039c49989c6p-3, 0x1.0fbe95d716020p-3);
    p = fma(z, p, 0x1.3b1c355a8f7a2p-3);
    p = fma(z, p, 0x1.745cf9048dd95p-3);
    p = fma(z, p, 0x1.c71c720159177p-3);
    p = fma(z, p, 0x1.2492492476cccp-2);
    p = fma(z, p, 0x1.9999999999a38p-2);
    p = fma(z, p, 0x1.5555555555555p-1);
    double tail = fma(e, 0x1.abc9e3b39803fp-56, z * s * p);
    return fma(e, 0x1.62e42fefa39efp-1, fma(s, 2.0, tail));
}

/* Sine and cosine of 2 pi u, u in [0, 1): quadrant q and the rest r in [-1/2, 1/2], exactly; then sin and cos of pi r / 2. */
FAC_PHILOX_FN void fac__sincos_turn_f32(float u, float *out_sin, float *out_cos) {
    float t = u * 4.0f;
    int32_t q = (int32_t)(t + 0.5f);
    float r = t - (float)q, z = r * r;
    float s = fmaf(z, -0x1.2d9b4p-8f, 0x1.465ec4p-4f);
    s = fmaf(z, s, -0x1.4abbbap-1f);
    s = r * fmaf(z, s, 0x1.921fb6p+0f);
    float c = fmaf(z, 0x1.d9c2e8p-11f, -0x1.55c57ap-6f);
    c = fmaf(z, c, 0x1.03c1dcp-2f);
    c = fmaf(z, c, -0x1.3bd3ccp+0f);
    c = fmaf(z, c, 1.0f);
    float a = q & 1 ? c : s, b = q & 1 ? s : c;
    *out_sin = q & 2 ? -a : a;
    *out_cos = (q + 1) & 2 ? -b : b;
}

FAC_PHILOX_FN void fac__sincos_turn_f64(double u, double *out_sin, double *out_cos) {
    double t = u * 4.0;
    int32_t q = (int32_t)(t + 0.5);
    double r = t - (double)q, z = r * r;
    double s = fma(z, -0x1.6c5b875d4e739p-31, 0x1.e8eed12ee00a3p-25);
    s = fma(z, s, -0x1.e3074b4ff3058p-19);
    s = fma(z, s, 0x1.50783485cbd83p-13);
    s = fma(z, s, -0x1.32d2cce62ac22p-8);
    s = fma(z, s, 0x1.466bc6775aad9p-4);
    s = fma(z, s, -0x1.4abbce625be53p-1);
    s = r * fma(z, s, 0x1.921fb54442d18p+0);
    double c = fma(z, -0x1.b264ba152378ap-28, 0x1.f9cc41140bb60p-22);
    c = fma(z, c, -0x1.a6d1ec7906c20p-16);
    c = fma(z, c, 0x1.e1f5068355e15p-11);
    c = fma(z, c, -0x1.55d3c7e3c90f8p-6);
    c = fma(z, c, 0x1.03c1f081b5aacp-2);
    c = fma(z, c, -0x1.3bd3cc9be45dep+0);
    c = fma(z, c, 1.0);
    double a = q & 1 ? c : s, b = q & 1 ? s : c;
    *out_sin = q & 2 ? -a : a;
    *out_cos = (q + 1) & 2 ? -b : b;
}

/* Two standard normals from two words, by Box and Muller: the even element takes the cosine, the odd one the sine. */
FAC_PHILOX_FN void fac__normal_pair_f32(uint32_t w0, uint32_t w1, float out[2]) {
    float radius = sqrtf(-2.0f * fac__log_unit_f32(fac__uniform_open_f32(w0))), s, c;
    fac__sincos_turn_f32(fac__uniform_f32(w1), &s, &c);
    out[0] = radius * c;
    out[1] = radius * s;
}
FAC_PHILOX_FN void fac__normal_pair_f64(uint64_t b0, uint64_t b1, double out[2]) {
    double radius = sqrt(-2.0 * fac__log_unit_f64(fac__uniform_open_f64(b0))), s, c;
    fac__sincos_turn_f64(fac__uniform_f64(b1), &s, &c);
    out[0] = radius * c;
    out[1] = radius * s;
}

/* Element i of a draw of standard normals. f32: words 0, 1 of block i / 4 make elements 0 and 1, words 2, 3 the others.
   f64: block i / 2 makes both of its elements. */
FAC_PHILOX_FN float fac__normal_f32(uint64_t seed, uint64_t offset, int64_t i) {
    fac_philox_block b = fac__philox_at(seed, offset, (uint64_t)i / 4, 0);
    unsigned lane = (unsigned)i & 2u;
    float pair[2];
    fac__normal_pair_f32(b.word[lane], b.word[lane + 1], pair);
    return pair[i & 1];
}
FAC_PHILOX_FN double fac__normal_f64(uint64_t seed, uint64_t offset, int64_t i) {
    fac_philox_block b = fac__philox_at(seed, offset, (uint64_t)i / 2, 0);
    double pair[2];
    fac__normal_pair_f64((uint64_t)b.word[1] << 32 | b.word[0], (uint64_t)b.word[3] << 32 | b.word[2], pair);
    return pair[i & 1];
}

/* ---- ranges --------------------------------------------------------------------------------------------------------------- */

/* Words, or standard normals, of elements [begin, end) of a draw; any split gives the same. */
FAC_PHILOX_FN void fac__random_fill_u32(uint32_t *out, int64_t begin, int64_t end, uint64_t seed, uint64_t offset) {
    for (int64_t i = begin; i < end;) {
        fac_philox_block b = fac__philox_at(seed, offset, (uint64_t)i / 4, 0);
        for (int64_t stop = (i | 3) + 1; i < stop && i < end; i++) *out++ = b.word[i & 3];
    }
}
FAC_PHILOX_FN void fac__random_fill_u64(uint64_t *out, int64_t begin, int64_t end, uint64_t seed, uint64_t offset) {
    for (int64_t i = begin; i < end; i++) *out++ = fac__random_u64(seed, offset, i);
}
FAC_PHILOX_FN void fac__normal_fill_f32(float *out, int64_t begin, int64_t end, uint64_t seed, uint64_t offset) {
    int64_t i = begin;
    for (; i < end && i & 3; i++) *out++ = fac__normal_f32(seed, offset, i);
    for (; i + 4 <= end; i += 4, out += 4) {
        fac_philox_block b = fac__philox_at(seed, offset, (uint64_t)i / 4, 0);
        fac__normal_pair_f32(b.word[0], b.word[1], out);
        fac__normal_pair_f32(b.word[2], b.word[3], out + 2);
    }
    for (; i < end; i++) *out++ = fac__normal_f32(seed, offset, i);
}
FAC_PHILOX_FN void fac__normal_fill_f64(double *out, int64_t begin, int64_t end, uint64_t seed, uint64_t offset) {
    int64_t i = begin;
    if (i < end && i & 1) *out++ = fac__normal_f64(seed, offset, i++);
    for (; i + 2 <= end; i += 2, out += 2) {
        fac_philox_block b = fac__philox_at(seed, offset, (uint64_t)i / 2, 0);
        fac__normal_pair_f64((uint64_t)b.word[1] << 32 | b.word[0], (uint64_t)b.word[3] << 32 | b.word[2], out);
    }
    if (i < end) *out = fac__normal_f64(seed, offset, i);
}

#endif
