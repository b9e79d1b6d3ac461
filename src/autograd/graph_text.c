/* The graph behind a tensor as text and as a GraphViz digraph: nodes in the order a backward pass meets them. */
#include "autograd/autograd_meta.h"
#include "core/handle.h"

typedef struct node_list {
    struct {
        const fac_node *node;
        int depth;
    } * v;
    size_t n, cap;
} node_list;

/* Position of a node in the list, or its length. */
typedef struct index_table {
    uint32_t *slots; /* 1 + position */
    size_t mask;
} index_table;

static size_t slot_of(const index_table *t, const node_list *l, const fac_node *n) {
    size_t i = (size_t)(((uint64_t)(uintptr_t)n >> 4) * 0x9e3779b97f4a7c15u >> 20) & t->mask;
    while (t->slots[i] && l->v[t->slots[i] - 1].node != n) i = (i + 1) & t->mask;
    return i;
}

static fac_status rehash(index_table *t, const node_list *l) {
    size_t size = t->slots ? (t->mask + 1) * 2 : 64;
    uint32_t *slots = fac__alloc_zero(size * sizeof *slots);
    if (!slots) return FAC_ERR_MEMORY;
    fac__free(t->slots);
    *t = (index_table){slots, size - 1};
    for (size_t i = 0; i < l->n; i++) slots[slot_of(t, l, l->v[i].node)] = (uint32_t)i + 1;
    return FAC_OK;
}

static fac_status add(node_list *l, index_table *t, const fac_node *n, int depth) {
    if (!t->slots || l->n * 2 > t->mask) FAC_TRY(rehash(t, l));
    size_t slot = slot_of(t, l, n);
    if (t->slots[slot]) return FAC_OK;
    FAC_TRY(FAC_VEC_GROW(l));
    l->v[l->n].node = n;
    l->v[l->n].depth = depth;
    t->slots[slot] = (uint32_t)++l->n;
    return FAC_OK;
}

/* Breadth first, each node once. */
static fac_status collect(fac_tensor *t, node_list *l, index_table *table) {
    const fac_node *root = fac__grad_fn(t);
    if (!root) return fac_error();
    FAC_TRY(add(l, table, root, 0));
    for (size_t i = 0; i < l->n; i++)
        for (uint32_t e = 0; e < l->v[i].node->n_edges; e++)
            if (l->v[i].node->edges[e].node) FAC_TRY(add(l, table, l->v[i].node->edges[e].node, l->v[i].depth + 1));
    return FAC_OK;
}

static uint32_t number(const node_list *l, const index_table *t, const fac_node *n) {
    return t->slots[slot_of(t, l, n)] - 1;
}

static void print_shape(FILE *f, const fac_node *n) {
    if (!fac__is_accumulator(n)) return;
    const fac_tensor *leaf = fac__accumulator_leaf(n);
    fprintf(f, " %s", FAC_SHAPE_TEXT(leaf));
}

static void print_text(FILE *f, const node_list *l, const index_table *t) {
    for (size_t i = 0; i < l->n; i++) {
        const fac_node *n = l->v[i].node;
        fprintf(f, "%%%zu = %s", i, n->cls->name);
        print_shape(f, n);
        const char *sep = " <- ";
        for (uint32_t e = 0; e < n->n_edges; e++) {
            if (!n->edges[e].node) continue;
            fprintf(f, "%s%%%u", sep, number(l, t, n->edges[e].node));
            sep = ", ";
        }
        fputc('\n', f);
    }
}

static void print_dot(FILE *f, const node_list *l, const index_table *t) {
    fputs("digraph graph_of_gradients {\n", f);
    for (size_t i = 0; i < l->n; i++) {
        const fac_node *n = l->v[i].node;
        fprintf(f, "    n%zu [label=\"%s", i, n->cls->name);
        print_shape(f, n);
        fprintf(f, "\"%s];\n", fac__is_accumulator(n) ? ", shape=box" : "");
        for (uint32_t e = 0; e < n->n_edges; e++)
            if (n->edges[e].node) fprintf(f, "    n%zu -> n%u;\n", i, number(l, t, n->edges[e].node));
    }
    fputs("}\n", f);
}

static fac_status print(fac_tensor *t, FILE *stream, void (*out)(FILE *, const node_list *, const index_table *)) {
    FAC_OPEN(t, "graph", "t", fac_error());
    FAC_CHECK(stream, FAC_ERR_ARGUMENT, "the stream is NULL");
    node_list l = {NULL, 0, 0};
    index_table table = {NULL, 0};
    fac_status st = collect(t, &l, &table);
    if (st == FAC_OK) out(stream, &l, &table);
    if (st == FAC_OK && ferror(stream)) st = FAC_FAIL(FAC_ERR_IO, "the graph could not be written");
    fac__free(l.v);
    fac__free(table.slots);
    return st;
}

fac_status fac_graph_print(fac_tensor *t, FILE *stream) { return print(t, stream, print_text); }

fac_status fac_graph_dot(fac_tensor *t, FILE *stream) { return print(t, stream, print_dot); }
