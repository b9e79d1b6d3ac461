/* Numbers of things by their hashes: open addressing with linear probing. Hashes are kept, so that growing needs no thing. */
#include "base/numbers.h"

static void put(fac_numbers *x, struct fac_numbers_slot slot) {
    size_t i = slot.hash & (x->cap - 1);
    while (x->v[i].number) i = (i + 1) & (x->cap - 1);
    x->v[i] = slot;
}

static fac_status grow(fac_numbers *x) {
    fac_numbers bigger = {.cap = x->cap ? x->cap * 2 : 64, .n = x->n};
    bigger.v = fac__alloc_array(bigger.cap, sizeof *bigger.v);
    if (!bigger.v) return fac_error();
    memset(bigger.v, 0, bigger.cap * sizeof *bigger.v);
    for (size_t i = 0; i < x->cap; i++)
        if (x->v[i].number) put(&bigger, x->v[i]);
    fac__free(x->v);
    *x = bigger;
    return FAC_OK;
}

/* At most half of the slots are taken, so that searches are short and end. */
fac_status fac__numbers_add(fac_numbers *x, uint32_t hash) {
    FAC_CHECK(x->n < UINT32_MAX / 2, FAC_ERR_OVERFLOW, "a table with more than %zu entries", x->n);
    if (2 * (x->n + 1) > x->cap) FAC_TRY(grow(x));
    put(x, (struct fac_numbers_slot){hash, (uint32_t)++x->n});
    return FAC_OK;
}

void fac__numbers_free(fac_numbers *x) {
    fac__free(x->v);
    *x = (fac_numbers){0};
}
