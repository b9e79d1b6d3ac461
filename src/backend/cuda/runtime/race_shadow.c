/* Who touched which bytes last: disjoint spans of addresses in a treap, each with its last write and the reads since. */
#include "backend/cuda/runtime/race.h"

typedef struct span {
    uintptr_t start, end;
    race_epoch write; /* site 0: none */
    race_epoch *reads;
    uint32_t n_reads, cap_reads, weight;
    struct span *left, *right;
} span;

static span *root;

static uint32_t draw(void) {
    static uint32_t x = 0x9e3779b9u;
    x ^= x << 13;
    x ^= x >> 17;
    return x ^= x << 5;
}

static span *span_new(uintptr_t start, uintptr_t end) {
    span *s = fac__alloc_zero(sizeof *s);
    if (!s) return NULL;
    s->start = start;
    s->end = end;
    s->weight = draw();
    return s;
}

static void span_free(span *s) {
    if (!s) return;
    span_free(s->left);
    span_free(s->right);
    fac__free(s->reads);
    fac__free(s);
}

static span *merge(span *a, span *b) {
    if (!a || !b) return a ? a : b;
    if (a->weight > b->weight) {
        a->right = merge(a->right, b);
        return a;
    }
    b->left = merge(a, b->left);
    return b;
}

/* Spans that start before `at` on the left, the others on the right. None may reach across. */
static void split(span *s, uintptr_t at, span **left, span **right) {
    if (!s) {
        *left = *right = NULL;
    } else if (s->start < at) {
        split(s->right, at, &s->right, right);
        *left = s;
    } else {
        split(s->left, at, left, &s->left);
        *right = s;
    }
}

/* The span that holds both the byte before `at` and that at `at`. */
static span *across(uintptr_t at) {
    for (span *s = root; s;) {
        if (at <= s->start)
            s = s->left;
        else if (at >= s->end)
            s = s->right;
        else
            return s;
    }
    return NULL;
}

/* Makes `at` a border between spans. */
static fac_status cut(uintptr_t at) {
    span *s = across(at), *l, *r, *tail;
    if (!s) return FAC_OK;
    tail = span_new(at, s->end);
    if (!tail) return FAC_ERR_MEMORY;
    tail->write = s->write;
    if (s->n_reads) {
        tail->reads = fac__alloc_array(s->n_reads, sizeof *tail->reads);
        if (!tail->reads) {
            span_free(tail);
            return FAC_ERR_MEMORY;
        }
        memcpy(tail->reads, s->reads, s->n_reads * sizeof *tail->reads);
        tail->n_reads = tail->cap_reads = s->n_reads;
    }
    s->end = at;
    split(root, at, &l, &r);
    root = merge(merge(l, tail), r);
    return FAC_OK;
}

typedef struct touch {
    bool write, go_on;
    race_epoch now;
    race_visit visit;
    void *context;
} touch;

static void compare(const span *s, touch *t) {
    if (s->write.site && !fac__race_knows(t->now.agent, s->write))
        t->go_on = t->visit(t->context, s->write, true, s->start);
    for (uint32_t i = 0; t->write && t->go_on && i < s->n_reads; i++)
        if (!fac__race_knows(t->now.agent, s->reads[i])) t->go_on = t->visit(t->context, s->reads[i], false, s->start);
}

/* A read that the present one's agent knows of needs no memory of its own: whoever comes later must know of this one. */
static fac_status add_read(span *s, race_epoch now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_reads; i++)
        if (!fac__race_knows(now.agent, s->reads[i])) s->reads[kept++] = s->reads[i];
    s->n_reads = kept;
    if (s->n_reads == s->cap_reads) {
        uint32_t cap = s->cap_reads ? 2 * s->cap_reads : 2;
        race_epoch *v = fac__realloc(s->reads, s->n_reads * sizeof *v, cap * sizeof *v);
        if (!v) return FAC_ERR_MEMORY;
        s->reads = v;
        s->cap_reads = cap;
    }
    s->reads[s->n_reads++] = now;
    return FAC_OK;
}

static fac_status read_all(span *s, touch *t) {
    if (!s) return FAC_OK;
    FAC_TRY(read_all(s->left, t));
    if (t->go_on) compare(s, t);
    FAC_TRY(add_read(s, t->now));
    return read_all(s->right, t);
}

static void compare_all(const span *s, touch *t) {
    if (!s || !t->go_on) return;
    compare_all(s->left, t);
    if (t->go_on) compare(s, t);
    compare_all(s->right, t);
}

/* Bytes of [start, end) that no span holds get one; `middle` holds the spans inside. */
static fac_status fill_gaps(span **middle, uintptr_t start, uintptr_t end) {
    span *rest = *middle, *done = NULL, *head;
    fac_status st = FAC_OK;
    for (uintptr_t at = start; at < end && st == FAC_OK;) {
        span *first = rest;
        while (first && first->left) first = first->left;
        uintptr_t border = first ? first->start : end;
        if (border > at) {
            span *gap = span_new(at, border);
            if (!gap) st = FAC_ERR_MEMORY;
            done = merge(done, gap);
        }
        if (!first) break;
        at = first->end;
        split(rest, at, &head, &rest);
        done = merge(done, head);
    }
    *middle = merge(done, rest);
    return st;
}

fac_status fac__race_shadow_touch(uintptr_t start, uintptr_t end, bool write, race_epoch now, race_visit visit,
                                  void *context) {
    span *left, *middle, *right;
    touch t = {write, true, now, visit, context};
    FAC_TRY(cut(start));
    FAC_TRY(cut(end));
    split(root, start, &left, &right);
    split(right, end, &middle, &right);
    fac_status st = FAC_OK;
    if (write) { /* what was known of the range is superseded */
        span *fresh = span_new(start, end);
        compare_all(middle, &t);
        if (fresh) {
            fresh->write = now;
            span_free(middle);
            middle = fresh;
        } else {
            st = FAC_ERR_MEMORY;
        }
    } else {
        st = fill_gaps(&middle, start, end);
        if (st == FAC_OK) st = read_all(middle, &t);
    }
    root = merge(merge(left, middle), right);
    return st;
}

void fac__race_shadow_forget(uintptr_t start, uintptr_t end) {
    span *left, *middle, *right;
    if (cut(start) != FAC_OK || cut(end) != FAC_OK) return;
    split(root, start, &left, &right);
    split(right, end, &middle, &right);
    span_free(middle);
    root = merge(left, right);
}

void fac__race_shadow_free(void) {
    span_free(root);
    root = NULL;
}
