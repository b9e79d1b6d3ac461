/* String -> pointer: open addressing with linear probing; removal shifts back instead of leaving marks. */
#include "base/numbers.h"
#include <stdlib.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

uint64_t fac__hash_seed(void) {
    static _Atomic uint64_t kept;
    uint64_t seed = atomic_load_explicit(&kept, memory_order_relaxed);
    if (FAC_LIKELY(seed)) return seed;
    seed = (uintptr_t)&kept;
#if defined(__linux__)
    const char *random =
        (const char *)(uintptr_t)getauxval(AT_RANDOM); /* 16 bytes, of which libraries take the first 8 */
    if (random) memcpy(&seed, random + 8, sizeof seed);
    seed |= 1;
    atomic_store_explicit(&kept, seed, memory_order_relaxed);
#else
    uint64_t none = 0;
    arc4random_buf(&seed, sizeof seed);
    seed = atomic_compare_exchange_strong(&kept, &none, seed | 1) ? seed | 1 : none;
#endif
    return seed;
}

static size_t hash(const char *key) {
    uint64_t h = fac__hash_seed(); /* then as FNV-1a */
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return (size_t)(h ^ (h >> 32));
}

/* Slot of key, or the free slot where it belongs. cap is a power of two with at least one free slot. */
static size_t find(const fac_map *m, const char *key) {
    size_t i = hash(key) & (m->cap - 1);
    while (m->v[i].key && strcmp(m->v[i].key, key) != 0) i = (i + 1) & (m->cap - 1);
    return i;
}

void *fac__map_get(const fac_map *m, const char *key) { return m->cap ? m->v[find(m, key)].value : NULL; }

static fac_status grow(fac_map *m) {
    fac_map bigger = {.cap = m->cap ? m->cap * 2 : 16, .n = m->n};
    bigger.v = fac__alloc_array(bigger.cap, sizeof *bigger.v);
    if (!bigger.v) return FAC_ERR_MEMORY;
    memset(bigger.v, 0, bigger.cap * sizeof *bigger.v);
    for (size_t i = 0; i < m->cap; i++)
        if (m->v[i].key) bigger.v[find(&bigger, m->v[i].key)] = m->v[i];
    fac__free(m->v);
    *m = bigger;
    return FAC_OK;
}

fac_status fac__map_set(fac_map *m, const char *key, void *value) {
    if ((m->n + 1) * 4 > m->cap * 3) FAC_TRY(grow(m));
    size_t i = find(m, key);
    if (!m->v[i].key) m->n++;
    m->v[i].key = key;
    m->v[i].value = value;
    return FAC_OK;
}

void fac__map_remove(fac_map *m, const char *key) {
    if (!m->cap) return;
    size_t mask = m->cap - 1, hole = find(m, key);
    if (!m->v[hole].key) return;
    m->n--;
    for (size_t i = (hole + 1) & mask; m->v[i].key; i = (i + 1) & mask) {
        size_t home = hash(m->v[i].key) & mask;
        if (((i - home) & mask) < ((i - hole) & mask)) continue; /* its probe does not cross the hole */
        m->v[hole] = m->v[i];
        hole = i;
    }
    m->v[hole].key = NULL;
    m->v[hole].value = NULL;
}

void fac__map_free(fac_map *m) {
    fac__free(m->v);
    *m = (fac_map){0};
}
