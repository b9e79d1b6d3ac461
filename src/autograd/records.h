/* The scratch memory of a pass: a record per node, found by the node's address, and the heap of those that are ready.
   Nothing here is written into the nodes, which other threads may be passing over too. */
#ifndef FAC_SRC_AUTOGRAD_RECORDS_H
#define FAC_SRC_AUTOGRAD_RECORDS_H

#include "autograd/node.h"

typedef struct record {
    fac_node *node;
    fac_tensor *one;   /* what has arrived for the only output of a node that has one */
    fac_tensor **many; /* of other nodes: n_outputs slots, NULL until something arrives */
    uint32_t waits;    /* edges that have not delivered */
    uint32_t slot;     /* in the hash table */
    uint32_t capture;  /* 1 + first capture of its gradients, 0: none */
    bool needed;       /* to be run: a target lies behind, or none were named */
} record;

/* A gradient to hand out: that of output nr of a node, for one target. */
typedef struct capture {
    uint32_t nr, next; /* next: 1 + the node's next capture */
    size_t target;
} capture;

typedef struct visit {
    uint32_t record, edge;
} visit;

/* Positions of ready records, a heap with the most recent node on top. */
typedef struct ready {
    uint32_t *v;
    size_t n, cap;
} ready;

typedef struct scratch {
    struct {
        record *v;
        size_t n, cap;
    } records;
    ready heap; /* of the calling thread */
    struct {
        visit *v;
        size_t n, cap;
    } stack; /* of the walk */
    struct {
        capture *v;
        size_t n, cap;
    } captures;
    struct {
        fac_stream *v;
        size_t n, cap;
    } exits;         /* streams in which gradients that leave the pass came out */
    uint32_t *table; /* 1 + record, 0: free; linear probing */
    unsigned table_bits;
    bool busy;
} scratch;

/* Frees what is kept for the calling thread's next pass. */
void fac__scratch_trim(fac_thread *th);
/* The thread's scratch, or a fresh one if a pass is under way; NULL on failure. */
scratch *fac__scratch_take(void);
/* Empties it, and keeps it for the thread's next pass. */
void fac__scratch_give(scratch *s);
/* Doubles the hash table. */
fac_status fac__scratch_grow_table(scratch *s);

/* ---- records -------------------------------------------------------------------------------------------------------------- */

static inline size_t fac__node_hash(const fac_node *n, unsigned bits) {
    return (size_t)(((uint64_t)(uintptr_t)n >> 4) * 0x9e3779b97f4a7c15u >> (64 - bits));
}

/* The slot where n is, or would be put. */
static inline size_t fac__record_probe(const scratch *s, const fac_node *n) {
    size_t mask = ((size_t)1 << s->table_bits) - 1, i = fac__node_hash(n, s->table_bits);
    while (s->table[i] && s->records.v[s->table[i] - 1].node != n) i = (i + 1) & mask;
    return i;
}

/* n's record, NULL if the walk did not reach it. */
static inline record *fac__record_find(const scratch *s, const fac_node *n) {
    uint32_t at = s->table ? s->table[fac__record_probe(s, n)] : 0;
    return at ? &s->records.v[at - 1] : NULL;
}

static inline bool fac__wanted(const record *r) { return r->needed || r->capture; }

/* Position of n's record, which is made if new. */
static inline fac_status fac__record_of(scratch *s, fac_node *n, uint32_t *out) {
    if (FAC_UNLIKELY(!s->table || s->records.n * 2 >= (size_t)1 << s->table_bits)) FAC_TRY(fac__scratch_grow_table(s));
    size_t slot = fac__record_probe(s, n);
    if (s->table[slot] == 0) {
        FAC_CHECK(s->records.n < UINT32_MAX / 4, FAC_ERR_OVERFLOW, "the graph has too many nodes");
        if (FAC_UNLIKELY(s->records.n == s->records.cap)) FAC_TRY(FAC_VEC_GROW(&s->records));
        s->records.v[s->records.n] = (record){.node = n, .slot = (uint32_t)slot};
        s->table[slot] = (uint32_t)++s->records.n;
    }
    *out = s->table[slot] - 1;
    return FAC_OK;
}

/* ---- ready nodes: a heap with the highest seq on top -------------------------------------------------------------------------- */

static inline uint64_t fac__ready_seq(const scratch *s, const ready *h, size_t i) {
    return s->records.v[h->v[i]].node->seq;
}

static inline void fac__ready_swap(ready *h, size_t i, size_t j) {
    uint32_t t = h->v[i];
    h->v[i] = h->v[j];
    h->v[j] = t;
}

static inline fac_status fac__ready_push(const scratch *s, ready *h, uint32_t rec) {
    if (FAC_UNLIKELY(h->n == h->cap)) FAC_TRY(FAC_VEC_GROW(h));
    size_t i = h->n++;
    h->v[i] = rec;
    for (; i && fac__ready_seq(s, h, i) > fac__ready_seq(s, h, (i - 1) / 2); i = (i - 1) / 2)
        fac__ready_swap(h, i, (i - 1) / 2);
    return FAC_OK;
}

static inline record *fac__ready_pop(const scratch *s, ready *h) {
    uint32_t top = h->v[0];
    h->v[0] = h->v[--h->n];
    for (size_t i = 0, child = 1; child < h->n; child = 2 * i + 1) {
        if (child + 1 < h->n && fac__ready_seq(s, h, child + 1) > fac__ready_seq(s, h, child)) child++;
        if (fac__ready_seq(s, h, i) >= fac__ready_seq(s, h, child)) break;
        fac__ready_swap(h, i, child);
        i = child;
    }
    return &s->records.v[top];
}

#endif
