/* String -> pointer: open addressing with linear probing; removal shifts back instead of leaving marks. */
#include "base/base.h"

static size_t hash(const char *key) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
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
