/* A set of addresses: open addressing with linear probing, as map.c; removal shifts back instead of leaving marks. */
#include "base/base.h"

static size_t home_of(const fac_set *s, const void *p) {
    const uint64_t h = (uint64_t)(uintptr_t)p * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 32) & (s->cap - 1);
}

/* The place of p, or the free one where it belongs. cap is a power of two with at least one free place. */
static size_t find(const fac_set *s, const void *p) {
    size_t i = home_of(s, p);
    while (s->v[i] && s->v[i] != p) i = (i + 1) & (s->cap - 1);
    return i;
}

bool fac__set_has(const fac_set *s, const void *p) { return s->cap && s->v[find(s, p)]; }

static fac_status grow(fac_set *s) {
    fac_set bigger = {.cap = s->cap ? s->cap * 2 : 16, .n = s->n};
    bigger.v = fac__alloc_zero(bigger.cap * sizeof *bigger.v);
    if (!bigger.v) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < s->cap; i++)
        if (s->v[i]) bigger.v[find(&bigger, s->v[i])] = s->v[i];
    fac__free(s->v);
    *s = bigger;
    return FAC_OK;
}

fac_status fac__set_add(fac_set *s, const void *p) {
    if ((s->n + 1) * 4 > s->cap * 3) FAC_TRY(grow(s));
    const size_t i = find(s, p);
    s->n += !s->v[i];
    s->v[i] = p;
    return FAC_OK;
}

void fac__set_remove(fac_set *s, const void *p) {
    if (!s->cap) return;
    const size_t mask = s->cap - 1;
    size_t hole = find(s, p);
    if (!s->v[hole]) return;
    s->n--;
    for (size_t i = (hole + 1) & mask; s->v[i]; i = (i + 1) & mask) {
        const size_t home = home_of(s, s->v[i]);
        if (((i - home) & mask) < ((i - hole) & mask)) continue; /* its probe does not cross the hole */
        s->v[hole] = s->v[i];
        hole = i;
    }
    s->v[hole] = NULL;
}

void fac__set_free(fac_set *s) {
    fac__free(s->v);
    *s = (fac_set){0};
}
