/* Ordering elements of a row. Every element becomes an unsigned key in the same order: NaN above all numbers, both zeros
   equal. With its position below it in one word, or beside it, no two entries are equal, so any way of sorting is stable. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_ORDER_H
#define FAC_SRC_BACKEND_CPU_KERNELS_ORDER_H

#include "backend/cpu/cpu.h"

/* An element's key and its position in the row. */
typedef struct fac_ranked {
    uint64_t key;
    int64_t at;
} fac_ranked;

/* Bits of the keys of a dtype: 8, 16, 32 or 64; 0 if it has no order. */
int fac__key_bits(fac_dtype d);
/* Keys of n elements, `stride` elements apart; bits of flip are inverted. */
FAC_ISA_DECLARE(void, fac__keys,
                (fac_dtype d, const void *restrict src, int64_t stride, int64_t n, uint64_t flip,
                 uint64_t *restrict out));
/* Whether any of n keys is below the limit. */
FAC_ISA_DECLARE(bool, fac__keys_below, (const uint64_t *keys, int64_t n, uint64_t limit));
/* How many of n keys are equal to one. */
FAC_ISA_DECLARE(int64_t, fac__keys_equal, (const uint64_t *keys, int64_t n, uint64_t key));
/* Where among n keys the one is that is equal to `key` for the `among`-th time, counted from one: there is one. */
FAC_ISA_DECLARE(int64_t, fac__key_at, (const uint64_t *keys, int64_t n, uint64_t key, int64_t among));
/* The k-th smallest of n keys, and the how-manieth it is of its equals, both counted from one. `room` is for as many keys. */
FAC_ISA_DECLARE(uint64_t, fac__kth_key, (const uint64_t *keys, int64_t n, int64_t k, uint64_t *room, int64_t *among));
/* Places in order of each of n keys of several short rows, side by side: of equals the first comes first. */
#define FAC_RANKED_ROWS 32
FAC_ISA_DECLARE(void, fac__ranks,
                (const uint64_t (*restrict keys)[FAC_RANKED_ROWS], int64_t n,
                 uint64_t (*restrict ranks)[FAC_RANKED_ROWS]));
/* Numbers of n ordered keys below each of some values, which are looked for side by side: one need not wait for another's memory. */
#define FAC_SEARCHES 8
FAC_ISA_DECLARE(void, fac__places, (const uint64_t *keys, int64_t n, const uint64_t *values, int64_t *at));
/* Runs of equal neighbours of n elements that compare as they stand, integers, f32 or f64: a NaN is equal to nothing. Writes what is
   not NULL: each run's element and length, and the run that each element is in. Returns how many runs there are. */
FAC_ISA_DECLARE(int64_t, fac__runs,
                (fac_dtype d, const void *data, int64_t n, void *values, int64_t *inverse, int64_t *counts));

/* A row being ordered, in scratch memory. Rows may be ordered one after another. */
typedef struct fac_order {
    fac_dtype dtype;
    int64_t n;
    bool descending;
    bool packed;              /* position and 32 bits of the key share a word: fewer than 2^32 elements */
    bool wide;                /* keys of 64 bits are packed: they lie in `keys`, by position */
    int shift;                /* of wide keys in words, to the right */
    int64_t bytes;            /* of scratch */
    uint64_t differ;          /* bits in which any two keys, as words hold them, differ */
    uint64_t *words, *words2; /* if packed: the row, and room for another */
    uint64_t *keys;
    fac_ranked *pairs, *pairs2; /* otherwise */
} fac_order;
/* For rows of n; says how much scratch they need. DTYPE error if there is no order. */
fac_status fac__order_plan(fac_order *o, fac_dtype d, int64_t n, bool descending);
/* The scratch to work in; a copy of a plan may be given its own. */
void fac__order_use(fac_order *o, void *scratch);
/* Reads a row. */
void fac__order_load(fac_order *o, const void *src, int64_t stride);
/* Orders the whole row: O(n), by radix. */
void fac__order_sort(fac_order *o);
/* Puts the first k entries in their places, in order; the others are lost. */
void fac__order_first(fac_order *o, int64_t k);
/* Reads a row's keys alone, by position, for what follows. */
const uint64_t *fac__order_keys(fac_order *o, const void *src, int64_t stride);
/* Position in the row of the k-th entry in order, counted from one. */
int64_t fac__order_nth(fac_order *o, int64_t k);
/* Whether the first k are so few that they are found while the row is read: fac__order_few instead of loading and ordering. */
bool fac__order_is_few(const fac_order *o, int64_t k);
/* Reads a row, of which the first k entries are then in their places: their positions, not keys. */
void fac__order_few(fac_order *o, const void *src, int64_t stride, int64_t k);
/* Key of the i-th entry: inverted if the order is descending. */
static inline uint64_t fac__order_key(const fac_order *o, int64_t i) {
    return o->wide ? o->keys[(uint32_t)o->words[i]] : o->packed ? o->words[i] >> 32 : o->pairs[i].key;
}
/* The key of NaN; 0 (which is then no NaN's) for dtypes that have none. */
uint64_t fac__nan_key(fac_dtype d);
/* Position in the row of the i-th entry. */
static inline int64_t fac__order_at(const fac_order *o, int64_t i) {
    return o->packed ? (int64_t)(uint32_t)o->words[i] : o->pairs[i].at;
}

#endif
