/* Names of dimensions: see names.h. */
#include "core/names.h"
#include "base/mutex.h"
#include <ctype.h>

enum { FIRST_BLOCK = 64, BLOCKS = 26 };

typedef struct name_list {
    int n;
    const char *v[];
} name_list;

/* Guards what is written below. Lists are read without it: list k lies in a block that never moves, of which
   each has twice as many as the one before. */
static fac_mutex lock = FAC_MUTEX_INIT;
static fac_map names;   /* text -> the same text, which is its own */
static fac_map numbers; /* text of a list -> its number, as a pointer */
static _Atomic(name_list **) blocks[BLOCKS];
static uint32_t n_lists; /* the last number that was given */

static fac_mutex once = FAC_MUTEX_INIT; /* guards the next while it is being set */
static atomic_bool begun;

/* ---- names -------------------------------------------------------------------------------------------------- */

static bool is_identifier(const char *text) {
    if (!*text || isdigit((unsigned char)*text)) return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return !*text;
}

static fac_status add_name(const char *text, const char **out) {
    char *own = fac__strdup(text);
    if (!own) return fac_error();
    const fac_status st = fac__map_set(&names, own, own);
    if (st)
        fac__free(own);
    else
        *out = own;
    return st;
}

fac_status fac__name_of_text(const char *text, const char **out) {
    FAC_CHECK(is_identifier(text), FAC_ERR_ARGUMENT,
              "'%s' is no name of a dimension, which is made of letters, digits and _, and begins with no digit", text);
    fac__mutex_lock(&lock);
    *out = fac__map_get(&names, text);
    const fac_status st = *out ? FAC_OK : add_name(text, out);
    fac__mutex_unlock(&lock);
    return st;
}

/* ---- lists -------------------------------------------------------------------------------------------------- */

/* Where the list of a number lies: its block, and its place there. */
static int block_of(uint32_t number, uint32_t *at) {
    const uint32_t k = number - 1 + FIRST_BLOCK;
    const int high = 31 - __builtin_clz(k);
    *at = k - (1u << high);
    return high - (31 - __builtin_clz((uint32_t)FIRST_BLOCK));
}

static const name_list *list_of(uint32_t number) {
    uint32_t at;
    const int b = block_of(number, &at);
    return atomic_load_explicit(&blocks[b], memory_order_acquire)[at];
}

/* Under the lock. */
static fac_status put_list(uint32_t number, name_list *l) {
    uint32_t at;
    const int b = block_of(number, &at);
    FAC_CHECK(b < BLOCKS, FAC_ERR_OVERFLOW, "there are too many lists of names");
    name_list **block = atomic_load_explicit(&blocks[b], memory_order_relaxed);
    if (!block) {
        block = fac__alloc_zero(((size_t)FIRST_BLOCK << b) * sizeof *block);
        if (!block) return fac_error();
        atomic_store_explicit(&blocks[b], block, memory_order_release);
    }
    block[at] = l;
    return FAC_OK;
}

static fac_status add_list(const fac_dim_names *l, char *text, uint32_t *out) {
    const size_t bytes = (size_t)l->n * sizeof *l->v;
    name_list *own = fac__alloc(sizeof *own + bytes);
    if (!own) return fac_error();
    own->n = l->n;
    memcpy(own->v, l->v, bytes);
    fac_status st = put_list(n_lists + 1, own);
    if (!st) st = fac__map_set(&numbers, text, (void *)(uintptr_t)(n_lists + 1));
    if (st)
        fac__free(own);
    else
        *out = ++n_lists;
    return st;
}

static fac_status check_distinct(const fac_dim_names *l) {
    for (int i = 0; i < l->n; i++)
        for (int j = 0; j < i && l->v[i]; j++)
            FAC_CHECK(l->v[i] != l->v[j], FAC_ERR_ARGUMENT, "two dimensions cannot have one name, '%s', as in %s",
                      l->v[i], FAC_NAMES_TEXT(l));
    return FAC_OK;
}

static fac_status key_text(const fac_dim_names *l, char **out) {
    fac_buf b = {0};
    for (int i = 0; i < l->n; i++) fac__buf_printf(&b, "%s,", l->v[i] ? l->v[i] : "");
    *out = b.data;
    if (!b.failed) return FAC_OK;
    fac__buf_free(&b);
    return fac_error();
}

fac_status fac__names_number(const fac_dim_names *l, uint32_t *out) {
    int named = 0;
    char *text;
    *out = 0;
    for (int i = 0; i < l->n; i++) named += l->v[i] != NULL;
    if (!named) return FAC_OK;
    FAC_TRY(check_distinct(l));
    FAC_TRY(key_text(l, &text));
    fac__mutex_lock(&lock);
    *out = (uint32_t)(uintptr_t)fac__map_get(&numbers, text);
    const bool known = *out != 0;
    const fac_status st = known ? FAC_OK : add_list(l, text, out);
    fac__mutex_unlock(&lock);
    if (known || st) fac__free(text);
    return st;
}

int fac__names_count(uint32_t number) { return number ? list_of(number)->n : 0; }

void fac__names_of(const fac_tensor *t, fac_dim_names *out) {
    const name_list *l = t->names && !fac__names_masked() ? list_of(t->names) : NULL;
    out->n = t->ndim;
    for (int i = 0; i < out->n; i++) out->v[i] = l && i < l->n ? l->v[i] : NULL;
}

char *fac__names_text(const fac_dim_names *l, char *buf, size_t size) {
    size_t at = (size_t)snprintf(buf, size, "(");
    for (int i = 0; i < l->n && at < size; i++) {
        const char *q = l->v[i] ? "'" : "";
        at += (size_t)snprintf(buf + at, size - at, "%s%s%s%s", i ? ", " : "", q, l->v[i] ? l->v[i] : "None", q);
    }
    if (at < size) snprintf(buf + at, size - at, l->n == 1 ? ",)" : ")");
    return buf;
}

/* ---- the beginning and the end ------------------------------------------------------------------------------------------------ */

fac_status fac__names_once(fac_status (*begin)(void)) {
    if (FAC_LIKELY(atomic_load_explicit(&begun, memory_order_acquire))) return FAC_OK;
    fac__mutex_lock(&once);
    fac_status st = FAC_OK;
    if (!atomic_load_explicit(&begun, memory_order_relaxed)) st = begin();
    if (st == FAC_OK) atomic_store_explicit(&begun, true, memory_order_release);
    fac__mutex_unlock(&once);
    return st;
}

static void free_lists(void) {
    for (uint32_t k = 1; k <= n_lists; k++) fac__free((void *)(uintptr_t)list_of(k));
    for (int b = 0; b < BLOCKS; b++) fac__free(atomic_exchange_explicit(&blocks[b], NULL, memory_order_relaxed));
    n_lists = 0;
}

/* The keys of a map are its own. */
static void free_map(fac_map *m) {
    for (size_t i = 0; i < m->cap; i++)
        if (m->v[i].key) fac__free((void *)(uintptr_t)m->v[i].key);
    fac__map_free(m);
}

void fac__names_forget(void) {
    fac__mutex_lock(&lock);
    free_lists();
    free_map(&numbers);
    free_map(&names);
    fac__mutex_unlock(&lock);
}

void fac__names_shutdown(void) {
    atomic_store_explicit(&begun, false, memory_order_relaxed);
    fac__names_forget();
}
