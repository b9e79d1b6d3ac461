/* SHA-256: a hash that nobody finds two texts for. source: FIPS 180-4 */
#ifndef FAC_SRC_JIT_SHA256_H
#define FAC_SRC_JIT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { FAC_SHA256_BYTES = 32, FAC_SHA256_BLOCK = 64 };

typedef struct fac_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* taken so far */
    unsigned char block[FAC_SHA256_BLOCK];
} fac_sha256;

void fac__sha256_begin(fac_sha256 *h);
void fac__sha256_add(fac_sha256 *h, const void *bytes, size_t n);
void fac__sha256_end(fac_sha256 *h, unsigned char out[FAC_SHA256_BYTES]);

#endif
