/* Byte pair encoding: the first 256 tokens are the bytes, each later one is two earlier ones in a row. Text is cut into pieces
   (words with the space before them, numbers, signs, white space), and no token reaches over the end of a piece.
   source: Sennrich, Haddow, Birch 2016; cutting as in Radford et al. 2019 */
#ifndef FAC_SRC_DATA_BPE_H
#define FAC_SRC_DATA_BPE_H

#include "base/numbers.h"
#include <facula/data.h>

enum { BPE_BYTES = 256, BPE_MAX_SIZE = 65536, BPE_MAX_PIECE = FAC_VOCAB_TOKEN_BYTES };

/* A pair of tokens as one number. */
static inline uint64_t fac__bpe_pair(uint32_t left, uint32_t right) { return (uint64_t)left << 32 | right; }

/* Pairs of tokens by number 0, 1, 2, ..., in the order in which they came, and a hash table over them. */
typedef struct bpe_pairs {
    uint64_t *keys;
    size_t n, cap; /* of keys */
    fac_numbers numbers;
} bpe_pairs;
/* The number of a pair, -1 if it is not there. */
int64_t fac__bpe_find(const bpe_pairs *p, uint64_t key);
/* Adds a pair that is not there, as number n. */
fac_status fac__bpe_add(bpe_pairs *p, uint64_t key);
void fac__bpe_free_pairs(bpe_pairs *p);

/* Token 256 + i is made of pair i. */
typedef struct bpe {
    bpe_pairs pairs;
    uint8_t *lengths; /* of all tokens, in bytes, at most BPE_MAX_PIECE */
    size_t cap;       /* of lengths */
} bpe;
static inline int64_t fac__bpe_size(const bpe *b) { return BPE_BYTES + (int64_t)b->pairs.n; }
/* Makes the tokens of single bytes. */
fac_status fac__bpe_begin(bpe *b);
/* Adds a token; one that exists, or would be longer than a piece, is an error. */
fac_status fac__bpe_merge(bpe *b, uint32_t left, uint32_t right);
void fac__bpe_free(bpe *b);

/* Length of the piece that begins at p < end; at most BPE_MAX_PIECE. */
size_t fac__bpe_piece(const unsigned char *p, const unsigned char *end);
/* Tokens of n bytes into out, room for n; returns how many. */
size_t fac__bpe_encode(const bpe *b, const char *text, size_t n, uint32_t *out);
/* Bytes of a token that exists into out, room for BPE_MAX_PIECE; returns how many. */
size_t fac__bpe_decode(const bpe *b, uint32_t token, char *out);

/* Learns tokens from a text until there are `size`, or no pair is left that comes twice. */
fac_status fac__bpe_learn(bpe *b, const char *text, size_t n, int64_t size);
/* The pairs as text, a line "LEFT RIGHT" for each, and back. */
fac_status fac__bpe_write(const bpe *b, fac_buf *out);
fac_status fac__bpe_read(bpe *b, const char *text, size_t n);

#endif
