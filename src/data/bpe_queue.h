/* Pairs of tokens in the order in which they become tokens: the commonest first, of equally common ones the first to be seen. */
#ifndef FAC_SRC_DATA_BPE_QUEUE_H
#define FAC_SRC_DATA_BPE_QUEUE_H

#include "base/base.h"

typedef struct bpe_turn {
    int64_t count;
    uint32_t pair; /* number */
} bpe_turn;

/* A binary heap: v[0] is the next, and no entry comes before the one at half its place. Zero-initialise. */
typedef struct bpe_queue {
    bpe_turn *v;
    size_t n, cap;
} bpe_queue;
fac_status fac__bpe_queue_put(bpe_queue *q, bpe_turn t);
/* Gives the first entry a count that is not higher; 0 removes it. */
void fac__bpe_queue_lower(bpe_queue *q, int64_t count);
void fac__bpe_queue_free(bpe_queue *q);

#endif
