/* A vocabulary's inside, for what cuts text into tokens. */
#ifndef FAC_SRC_DATA_VOCAB_H
#define FAC_SRC_DATA_VOCAB_H

#include "core/tensor.h"
#include "data/bpe.h"

typedef enum vocab_kind { VOCAB_BYTES, VOCAB_CHARACTERS, VOCAB_BPE } vocab_kind;

struct fac_vocab {
    atomic_int refs;
    vocab_kind kind;
    int64_t size;
    uint32_t *points; /* of characters: sorted */
    bpe bpe;
    char *text; /* what fac_vocab_text gives; NULL: "" */
};

/* Cuts a text of n bytes into tokens: into out, room for n; how many goes to out_n. */
fac_status fac__vocab_cut(const fac_vocab *v, const char *text, size_t n, uint32_t *out, int64_t *out_n);
/* Bytes of a token that exists. */
size_t fac__vocab_token_bytes(const fac_vocab *v, uint32_t token);

#endif
