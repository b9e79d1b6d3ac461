/* The queue of pairs is a binary heap. */
#include "data/bpe_queue.h"

static bool before(const bpe_turn *a, const bpe_turn *b) {
    return a->count > b->count || (a->count == b->count && a->pair < b->pair);
}

fac_status fac__bpe_queue_put(bpe_queue *q, bpe_turn t) {
    FAC_TRY(FAC_VEC_GROW(q));
    size_t i = q->n++;
    for (; i > 0 && before(&t, &q->v[(i - 1) / 2]); i = (i - 1) / 2) q->v[i] = q->v[(i - 1) / 2];
    q->v[i] = t;
    return FAC_OK;
}

/* Lets an entry sink from the place of the first to its own. */
static void sink(bpe_queue *q, bpe_turn t) {
    size_t i = 0;
    for (size_t child = 1; child < q->n; child = 2 * i + 1) {
        child += child + 1 < q->n && before(&q->v[child + 1], &q->v[child]);
        if (!before(&q->v[child], &t)) break;
        q->v[i] = q->v[child];
        i = child;
    }
    q->v[i] = t;
}

void fac__bpe_queue_lower(bpe_queue *q, int64_t count) {
    if (count)
        sink(q, (bpe_turn){count, q->v[0].pair});
    else if (--q->n)
        sink(q, q->v[q->n]);
}

void fac__bpe_queue_free(bpe_queue *q) { fac__free(q->v); }
