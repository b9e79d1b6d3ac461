/* Headers of blocks, the table of blocks in use by address, and trees of free blocks.

   The trees are treaps: search trees by (size, address) that are heaps by a random priority, so that their expected depth is
   logarithmic whatever the order of requests; nodes are the blocks themselves, so that no operation allocates. */
#include "backend/cuda/runtime/alloc.h"

/* ---- trees ----------------------------------------------------------------------------------------------------------- */

static bool precedes(const fac_block *a, const fac_block *b) {
    return a->size != b->size ? a->size < b->size : (uintptr_t)a->p < (uintptr_t)b->p;
}

void fac__tree_add(fac_block_tree *t, fac_block *b) {
    fac_block **link = &t->root;
    while (*link && (*link)->priority >= b->priority) link = precedes(b, *link) ? &(*link)->left : &(*link)->right;
    /* what was there is divided into what lies before b and what lies after it */
    fac_block *rest = *link, **before = &b->left, **after = &b->right;
    *link = b;
    while (rest) {
        if (precedes(rest, b)) {
            *before = rest;
            before = &rest->right;
            rest = rest->right;
        } else {
            *after = rest;
            after = &rest->left;
            rest = rest->left;
        }
    }
    *before = *after = NULL;
    t->n++;
}

void fac__tree_remove(fac_block_tree *t, fac_block *b) {
    fac_block **link = &t->root, *l = b->left, *r = b->right;
    while (*link != b) link = precedes(b, *link) ? &(*link)->left : &(*link)->right;
    while (l && r) {
        if (l->priority >= r->priority) {
            *link = l;
            link = &l->right;
            l = l->right;
        } else {
            *link = r;
            link = &r->left;
            r = r->left;
        }
    }
    *link = l ? l : r;
    t->n--;
}

fac_block *fac__tree_at_least(const fac_block_tree *t, int64_t size) {
    fac_block *best = NULL;
    for (fac_block *b = t->root; b;) {
        if (b->size >= size) {
            best = b;
            b = b->left;
        } else {
            b = b->right;
        }
    }
    return best;
}

fac_block *fac__tree_after(const fac_block_tree *t, const fac_block *from) {
    fac_block *best = NULL;
    for (fac_block *b = t->root; b;) {
        if (precedes(from, b)) {
            best = b;
            b = b->left;
        } else {
            b = b->right;
        }
    }
    return best;
}

fac_block *fac__tree_before(const fac_block_tree *t, const fac_block *from) {
    fac_block *best = NULL;
    for (fac_block *b = t->root; b;) {
        if (precedes(b, from)) {
            best = b;
            b = b->right;
        } else {
            b = b->left;
        }
    }
    return best;
}

fac_block *fac__tree_last(const fac_block_tree *t) {
    fac_block *b = t->root;
    while (b && b->right) b = b->right;
    return b;
}

/* ---- headers ---------------------------------------------------------------------------------------------------------- */

enum { SPARE_MAX = 4096 }; /* headers kept when blocks are joined */

fac_status fac__headers_reserve(fac_caching_allocator *a, size_t n) {
    while (a->n_spare < n) {
        fac_block *b = fac__alloc(sizeof *b);
        if (!b) return FAC_ERR_MEMORY;
        b->left = a->spare;
        a->spare = b;
        a->n_spare++;
    }
    return FAC_OK;
}

fac_block *fac__header_take(fac_caching_allocator *a) {
    fac_block *b = a->spare;
    a->spare = b->left;
    a->n_spare--;
    *b = (fac_block){.priority = (uint32_t)(((uintptr_t)b * 0x9E3779B97F4A7C15u) >> 32)};
    return b;
}

void fac__header_give(fac_caching_allocator *a, fac_block *b) {
    if (a->n_spare >= SPARE_MAX) {
        fac__free(b);
        return;
    }
    b->left = a->spare;
    a->spare = b;
    a->n_spare++;
}

void fac__headers_free(fac_caching_allocator *a) {
    while (a->spare) {
        fac_block *b = a->spare;
        a->spare = b->left;
        fac__free(b);
    }
    a->n_spare = 0;
}

/* ---- blocks in use ------------------------------------------------------------------------------------------------------- */

static fac_block **bucket(const fac_caching_allocator *a, const void *p) {
    uint64_t h = ((uintptr_t)p >> 9) * 0x9E3779B97F4A7C15u;
    return &a->in_use.v[(h >> 32) & (a->in_use.buckets - 1)];
}

/* Doubles the table. Without memory for it, chains grow longer instead. */
static void grow_table(fac_caching_allocator *a) {
    size_t old_n = a->in_use.buckets, n = old_n * 2;
    fac_block **old = a->in_use.v,
              **v = fac__memory_hook.alloc(fac__memory_hook.ctx, n * sizeof *v, _Alignof(max_align_t));
    if (!v) return;
    memset(v, 0, n * sizeof *v);
    a->in_use.v = v;
    a->in_use.buckets = n;
    for (size_t i = 0; i < old_n; i++) {
        for (fac_block *b = old[i], *chain; b; b = chain) {
            fac_block **at = bucket(a, b->p);
            chain = b->chain;
            b->chain = *at;
            *at = b;
        }
    }
    fac__free(old);
}

void fac__in_use_add(fac_caching_allocator *a, fac_block *b) {
    if (a->in_use.n >= a->in_use.buckets) grow_table(a);
    fac_block **at = bucket(a, b->p);
    b->chain = *at;
    *at = b;
    a->in_use.n++;
}

fac_block *fac__in_use_find(const fac_caching_allocator *a, const void *p) {
    fac_block *b = *bucket(a, p);
    while (b && b->p != p) b = b->chain;
    return b;
}

void fac__in_use_remove(fac_caching_allocator *a, fac_block *b) {
    fac_block **at = bucket(a, b->p);
    while (*at != b) at = &(*at)->chain;
    *at = b->chain;
    a->in_use.n--;
}
