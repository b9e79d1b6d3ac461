/* A vocabulary's inside, for what cuts text into tokens. */
#ifndef FAC_SRC_DATA_VOCAB_H
#define FAC_SRC_DATA_VOCAB_H

#include "core/tensor.h"
#include <facula/data.h>

struct fac_vocab {
    atomic_int refs;
    int64_t size;
    uint32_t *points; /* sorted; NULL: the tokens are the bytes */
    char *text;       /* the same as UTF-8 */
};

/* Reads one token at *p (*p < end) and moves past it. */
fac_status fac__vocab_next(const fac_vocab *v, const char **p, const char *end, int64_t *out);

#endif
