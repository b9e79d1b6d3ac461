/* A hash table that numbers things. */
#ifndef FAC_SRC_BASE_NUMBERS_H
#define FAC_SRC_BASE_NUMBERS_H

#include "base/base.h"

/* A number that differs from process to process, for hashes of what comes from files: nobody can choose names or tokens that
   collide. No result may depend on it, such as by the order of the slots of a table. Never 0, and never fails. */
uint64_t fac__hash_seed(void);

/* Things that the caller keeps in an array, found by what they are: the table has their numbers 0, 1, 2, ... and their hashes, and
   asks the caller which thing is the same as another. Zero-initialise; free with fac__numbers_free. */
typedef struct fac_numbers {
    struct fac_numbers_slot {
        uint32_t hash, number; /* number + 1; 0: free */
    } * v;
    size_t n, cap;
} fac_numbers;
/* Whether the thing of this number in the caller's `things` is `wanted`. */
typedef bool fac_numbers_same(const void *things, uint32_t number, const void *wanted);
/* The number of what `wanted` is; -1 if it is not there. Inline, so that the comparison is, too. */
static inline int64_t fac__numbers_find(const fac_numbers *x, uint32_t hash, fac_numbers_same *same, const void *things,
                                        const void *wanted) {
    if (!x->cap) return -1;
    for (size_t i = hash & (x->cap - 1); x->v[i].number; i = (i + 1) & (x->cap - 1))
        if (x->v[i].hash == hash && same(things, x->v[i].number - 1, wanted)) return (int64_t)x->v[i].number - 1;
    return -1;
}
/* Adds a thing that is not there, as number n. */
fac_status fac__numbers_add(fac_numbers *x, uint32_t hash);
void fac__numbers_free(fac_numbers *x);

#endif
