/* Nodes: one block each, from the thread's lists, with edges and output records behind the class's own struct. */
#include "autograd/autograd_meta.h"
#include "autograd/hooks.h"
#include "autograd/streams.h"

fac_node *fac__node_new(fac_thread *th, const fac_node_class *cls, uint32_t n_edges, uint32_t n_outputs) {
    size_t edges_at = cls->size, outputs_at = edges_at + n_edges * sizeof(fac_edge);
    size_t bytes = outputs_at + n_outputs * sizeof(fac_output_meta);
    fac_node *n = fac__block_new(th, bytes);
    if (FAC_UNLIKELY(!n)) return NULL;
    memset(n, 0, bytes);
    atomic_init(&n->refs, 1);
    n->n_edges = n_edges;
    n->n_outputs = n_outputs;
    n->cls = cls;
    n->seq = ++th->next_seq;
    n->edges = (fac_edge *)((char *)n + edges_at);
    n->outputs = (fac_output_meta *)((char *)n + outputs_at);
    n->bytes = bytes;
    fac__live_add(1);
    return n;
}

fac_node *fac__node_ref(fac_node *n) {
    if (n) atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

/* ---- the end of a node ------------------------------------------------------------------------------------------- */

static void free_node(fac_node *n) {
    if (n->cls->release) n->cls->release(n);
    if (n->cls->destroy) n->cls->destroy(n);
    fac__hooks_free(n->hooks);
    for (uint32_t i = 0; i < n->n_edges; i++) fac__node_unref(n->edges[i].node);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i].sizes != n->outputs[i].inline_sizes) fac__free(n->outputs[i].sizes);
    fac__live_add(-1);
    fac__block_free(n, n->bytes);
}

/* Nodes whose count has reached zero. A node that dies while another is freed waits here, so that a chain, even one
   that runs through saved tensors, is freed by the loop of the first. */
static _Thread_local struct {
    fac_node *head;
    bool draining;
} dying __attribute__((tls_model("initial-exec")));

static void bury(fac_node *n) {
    n->next = dying.head;
    dying.head = n;
    if (dying.draining) return;
    dying.draining = true;
    while ((n = dying.head) != NULL) {
        dying.head = n->next;
        free_node(n);
    }
    dying.draining = false;
}

void fac__node_unref(fac_node *n) {
    if (!n) return;
    if (fac__is_accumulator(n)) {
        fac__accumulator_unref(n);
        return;
    }
    if (fac__last_ref(&n->refs)) bury(n);
}

/* ---- edges and outputs --------------------------------------------------------------------------------------------- */

fac_status fac__gradient_edge(fac_tensor *t, fac_edge *out) {
    *out = (fac_edge){NULL, 0};
    if (!t || !t->ag) return FAC_OK;
    struct fac_autograd *ag = t->ag;
    fac_node *fn = fac__history(ag);
    if (FAC_UNLIKELY(ag->view != NULL)) {
        fn = fac__grad_fn(t);
        if (!fn && fac__thread()->error != FAC_OK) return fac__thread()->error;
    }
    if (fn) {
        *out = (fac_edge){fac__node_ref(fn), ag->output_nr};
        return FAC_OK;
    }
    if (!ag->requires_grad) return FAC_OK;
    out->node = fac__accumulator_of(t);
    return out->node ? FAC_OK : FAC_ERR_MEMORY;
}

fac_status fac__node_connect(fac_node *n, uint32_t i, fac_tensor *t) {
    return t && t->ag ? fac__gradient_edge(t, &n->edges[i]) : FAC_OK;
}

fac_status fac__output_meta_set(fac_node *n, uint32_t nr, const fac_tensor *t) {
    fac_output_meta *m = &n->outputs[nr];
    size_t bytes = t->ndim * sizeof(int64_t);
    if (m->set && m->sizes != m->inline_sizes) fac__free(m->sizes);
    m->set = false;
    m->sizes = m->inline_sizes;
    if (FAC_UNLIKELY(t->ndim > FAC_NODE_DIMS)) {
        m->sizes = fac__alloc(bytes);
        if (!m->sizes) return FAC_ERR_MEMORY;
    }
    memcpy(m->sizes, t->sizes, bytes);
    m->ndim = t->ndim;
    m->dtype = t->dtype;
    m->device = t->device;
    m->set = true;
    return fac__note_stream(n, t->device);
}

/* ---- public: reading the graph ------------------------------------------------------------------------------------- */

const char *fac_node_name(const fac_node *n) { return n ? n->cls->name : ""; }

size_t fac_node_next_count(const fac_node *n) { return n ? n->n_edges : 0; }

fac_node *fac_node_next(const fac_node *n, size_t i) { return n && i < n->n_edges ? n->edges[i].node : NULL; }
