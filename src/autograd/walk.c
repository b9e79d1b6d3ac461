/* The walk: which nodes a pass visits. It starts from the roots and counts, for each node, the edges that lead to it: the
   gradients that the node waits for before it runs. */
#include "autograd/pass.h"

static fac_status push_visit(scratch *s, uint32_t rec) {
    if (FAC_UNLIKELY(s->stack.n == s->stack.cap)) FAC_TRY(FAC_VEC_GROW(&s->stack));
    s->stack.v[s->stack.n++] = (visit){rec, 0};
    return FAC_OK;
}

/* All nodes behind r have been left: a node with a target behind it is needed. */
static void leave(const scratch *s, record *r) {
    const fac_node *n = r->node;
    for (uint32_t i = 0; i < n->n_edges && !r->needed; i++)
        r->needed = n->edges[i].node && fac__wanted(fac__record_find(s, n->edges[i].node));
}

/* Depth first, each node once, counting the edges to each. Targets have their records already, marked. */
static fac_status walk(const fac_pass *p, uint32_t root) {
    scratch *s = p->s;
    FAC_TRY(push_visit(s, root));
    while (s->stack.n) {
        visit *top = &s->stack.v[s->stack.n - 1];
        const fac_node *n = s->records.v[top->record].node;
        if (top->edge == n->n_edges) {
            if (p->r->n_targets)
                leave(s, &s->records.v[top->record]);
            else
                s->records.v[top->record].needed = true;
            s->stack.n--;
            continue;
        }
        fac_node *next = n->edges[top->edge++].node;
        if (!next) continue;
        uint32_t rec;
        FAC_TRY(fac__record_of(s, next, &rec));
        if (s->records.v[rec].waits++ == 0) FAC_TRY(push_visit(s, rec));
    }
    return FAC_OK;
}

static fac_status mark_targets(const fac_pass *p) {
    const fac_pass_request *r = p->r;
    scratch *s = p->s;
    for (size_t i = 0; i < r->n_targets; i++) {
        if (!r->targets[i].node) continue;
        uint32_t rec;
        FAC_TRY(fac__record_of(s, r->targets[i].node, &rec));
        if (!r->captured) {
            s->records.v[rec].needed = true;
            continue;
        }
        FAC_TRY(FAC_VEC_GROW(&s->captures));
        s->captures.v[s->captures.n++] = (capture){r->targets[i].nr, s->records.v[rec].capture, i};
        s->records.v[rec].capture = (uint32_t)s->captures.n;
    }
    return FAC_OK;
}

fac_status fac__pass_walk(const fac_pass *p) {
    const fac_pass_request *r = p->r;
    FAC_TRY(mark_targets(p));
    for (size_t i = 0; i < r->n_roots; i++) {
        uint32_t rec;
        FAC_TRY(fac__record_of(p->s, r->roots[i].node, &rec));
        /* A root waits for its own gradient; the first visit walks on from it. */
        if (p->s->records.v[rec].waits++ == 0) FAC_TRY(walk(p, rec));
    }
    return FAC_OK;
}
