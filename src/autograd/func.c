/* Several backward passes in one, for transforms of functions: the gradients on their way are batched tensors, so
   that formulas run once for all of them. And what tells whether a result is a function of more than was asked for.
   */
#include "autograd/func.h"
#include "autograd/autograd_meta.h"
#include "autograd/leaf.h"
#include "base/base.h"
#include "core/tensor_make.h"
#include "ops/batch/batch.h"

/* ---- batches of gradients --------------------------------------------------------------------------------------- */

static fac_status check_batched(fac_tensors grads, int64_t n) {
    for (size_t i = 0; i < grads.n; i++)
        FAC_CHECK(!grads.v[i] || (grads.v[i]->ndim > 0 && grads.v[i]->sizes[0] == n), FAC_ERR_SHAPE,
                  "grad_outputs[%zu] has sizes %s, but gradients in batches of %lld have that size in front", i,
                  FAC_SHAPE_TEXT(grads.v[i]), (long long)n);
    return FAC_OK;
}

/* Temporaries of the innermost scope that stand for the rows of `grads`. */
static fac_status wrap_rows(const fac_batch_level *l, fac_tensors grads, fac_tensor **rows) {
    for (size_t i = 0; i < grads.n; i++) {
        fac_tensor *row = NULL;
        if (grads.v[i]) FAC_TRY(fac__batch_wrap(l, fac__ref(grads.v[i]), 0, &row));
        rows[i] = fac__adopt(fac__thread(), row);
        if (row && !rows[i]) return fac_error();
    }
    return FAC_OK;
}

/* The rows of each gradient; those that are the same for all are expanded. */
static fac_status take_rows(const fac_batch_level *l, fac_tensor *const *grads, size_t n, fac_tensor **out) {
    const fac_batch_sight was = fac__batch_hide(l->outer);
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && st == FAC_OK; i++)
        if (grads[i]) st = fac__batch_front(l, grads[i], true, &out[i]);
    for (size_t i = 0; i < n && st != FAC_OK; i++) fac__unref(out[i]), out[i] = NULL;
    fac__batch_see(was);
    return st;
}

static fac_status grad_rows(const fac_batch_level *l, fac_tensors outputs, fac_tensors inputs, fac_tensors grads,
                            fac_grad_kw *kw, fac_tensor **room, fac_tensor **out_grads) {
    fac_scope s = fac_scope_begin();
    fac_status st = wrap_rows(l, grads, room);
    kw->grad_outputs = (fac_tensors){room, grads.n};
    if (st == FAC_OK) st = fac__grad(outputs, inputs, room + grads.n, kw);
    if (st == FAC_OK) st = take_rows(l, room + grads.n, inputs.n, out_grads);
    fac_scope_end(&s);
    return st;
}

fac_status fac__grad_batched(fac_tensors outputs, fac_tensors inputs, fac_tensors grad_outputs, int64_t n,
                             bool keep_graph, bool create_graph, fac_tensor **out_grads) {
    for (size_t i = 0; i < inputs.n; i++) out_grads[i] = NULL;
    FAC_TRY(check_batched(grad_outputs, n));
    fac_tensor **room = fac__alloc_zero((grad_outputs.n + inputs.n + 1) * sizeof *room);
    if (!room) return fac_error();
    fac_grad_kw kw;
    fac_grad_kw_init(&kw);
    kw.retain_graph = keep_graph;
    kw.create_graph = create_graph;
    kw.allow_unused = true;
    fac_batch_level l;
    fac__batch_open(&l, n, FAC_RANDOM_REFUSED);
    const fac_status st = grad_rows(&l, outputs, inputs, grad_outputs, &kw, room, out_grads);
    fac__batch_close(&l);
    fac__free(room);
    return st;
}

/* ---- where a graph ends ----------------------------------------------------------------------------------------- */

typedef struct search {
    fac_set seen;
    struct {
        fac_node **v;
        size_t n, cap;
    } todo;
} search;

static fac_status visit(search *s, fac_node *n) {
    if (!n || fac__set_has(&s->seen, n)) return FAC_OK;
    FAC_TRY(fac__set_add(&s->seen, n));
    if (s->todo.n == s->todo.cap) FAC_TRY(FAC_VEC_GROW(&s->todo));
    s->todo.v[s->todo.n++] = n;
    return FAC_OK;
}

static bool is_among(fac_tensors leaves, const fac_tensor *t) {
    for (size_t i = 0; i < leaves.n; i++)
        if (leaves.v[i] == t) return true;
    return false;
}

static fac_status find_other(search *s, fac_tensors leaves, bool *out) {
    while (s->todo.n && !*out) {
        fac_node *n = s->todo.v[--s->todo.n];
        *out = fac__is_accumulator(n) && !is_among(leaves, fac__accumulator_leaf(n));
        for (uint32_t i = 0; i < n->n_edges && !*out; i++) FAC_TRY(visit(s, n->edges[i].node));
    }
    return FAC_OK;
}

fac_status fac__depends_on_others(fac_tensor *t, fac_tensors leaves, bool *out) {
    search s = {.seen = {0}};
    fac_edge from;
    *out = false;
    FAC_TRY(fac__gradient_edge(t, &from));
    fac_status st = visit(&s, from.node);
    if (st == FAC_OK) st = find_other(&s, leaves, out);
    fac__set_free(&s.seen);
    fac__free(s.todo.v);
    fac__node_unref(from.node);
    return st;
}
