/* SHA-256. Names as in FIPS 180-4: W the message schedule, a to h the working variables. */
#include "jit/sha256.h"
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t load_word(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void schedule(uint32_t W[64], const unsigned char *block) {
    for (int t = 0; t < 16; t++) W[t] = load_word(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        const uint32_t x = W[t - 15], y = W[t - 2];
        W[t] =
            (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10) + W[t - 7] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + W[t - 16];
    }
}

static void compress(uint32_t H[8], const unsigned char *block) {
    uint32_t W[64], v[8];
    schedule(W, block);
    memcpy(v, H, sizeof v);
    for (int t = 0; t < 64; t++) {
        const uint32_t a = v[0], b = v[1], c = v[2], e = v[4], f = v[5], g = v[6];
        const uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + W[t];
        const uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) H[i] += v[i];
}

void fac__sha256_begin(fac_sha256 *h) {
    *h = (fac_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void fac__sha256_add(fac_sha256 *h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    size_t held = h->bytes % FAC_SHA256_BLOCK;
    h->bytes += n;
    while (n > 0) {
        size_t piece = FAC_SHA256_BLOCK - held < n ? FAC_SHA256_BLOCK - held : n;
        memcpy(h->block + held, p, piece);
        held = (held + piece) % FAC_SHA256_BLOCK;
        if (held == 0) compress(h->state, h->block);
        p += piece;
        n -= piece;
    }
}

/* A one bit, zeros, and the length in bits fill the last block. */
void fac__sha256_end(fac_sha256 *h, unsigned char out[FAC_SHA256_BYTES]) {
    static const unsigned char padding[FAC_SHA256_BLOCK] = {0x80};
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(h->bytes * 8 >> (56 - 8 * i));
    const size_t held = h->bytes % FAC_SHA256_BLOCK;
    fac__sha256_add(h, padding, held < 56 ? 56 - held : 120 - held);
    fac__sha256_add(h, length, sizeof length);
    for (int i = 0; i < FAC_SHA256_BYTES; i++) out[i] = (unsigned char)(h->state[i / 4] >> (24 - i % 4 * 8));
}
