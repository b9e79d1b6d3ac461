/* Reuse within a capture (graph_capture_record_stream_reuse): whether the graph orders a stream after the last use of a
   block. A mark is an empty node put behind what the stream has captured so far; it is passed by a stream whose next node
   would, directly or through others, depend on it. */
#include "backend/cuda/runtime/alloc_cuda.h"

/* The graph that a stream is captured into, and the nodes that its next one will depend on. */
typedef struct front {
    CUgraph graph;
    const CUgraphNode *nodes;
    size_t n;
} front;

static bool front_of(CUstream stream, front *out) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult r = fac__cu.cuStreamGetCaptureInfo(stream, &status, NULL, &out->graph, &out->nodes, &out->n);
    return r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

fac_status fac__cuda_capture_mark(CUstream stream, void **out_mark) {
    front f = {0};
    CUgraphNode node;
    FAC_CHECK(front_of(stream, &f), FAC_ERR_STATE, "the stream is not being captured");
    FAC_CU(fac__cu.cuGraphAddEmptyNode(&node, f.graph, f.nodes, f.n));
    FAC_CU(fac__cu.cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    *out_mark = node;
    return FAC_OK;
}

/* ---- search ---------------------------------------------------------------------------------------------------------- */

/* Nodes in the order in which they were met; a set by open addressing. */
typedef struct walk {
    CUgraphNode *v, *set;
    size_t n, cap, buckets;
} walk;

static bool grow(walk *w) {
    const size_t cap = w->cap ? w->cap * 2 : 64;
    CUgraphNode *v = fac__memory_hook.alloc(fac__memory_hook.ctx, cap * 5 * sizeof *v, _Alignof(max_align_t));
    if (!v) return false;
    if (w->n) memcpy(v, w->v, w->n * sizeof *v);
    memset(v + cap, 0, cap * 4 * sizeof *v);
    fac__free(w->v);
    *w = (walk){v, v + cap, w->n, cap, cap * 4};
    for (size_t i = 0; i < w->n; i++) {
        size_t k = ((uintptr_t)v[i] >> 4) % w->buckets;
        while (w->set[k]) k = (k + 1) % w->buckets;
        w->set[k] = v[i];
    }
    return true;
}

static bool meet(walk *w, CUgraphNode node) {
    if (w->n == w->cap && !grow(w)) return false;
    size_t k = ((uintptr_t)node >> 4) % w->buckets;
    for (; w->set[k]; k = (k + 1) % w->buckets)
        if (w->set[k] == node) return true;
    w->set[k] = w->v[w->n++] = node;
    return true;
}

static bool meet_dependencies(walk *w, CUgraphNode node) {
    CUgraphNode few[16], *v = few;
    size_t n = 0;
    if (fac__cu.cuGraphNodeGetDependencies(node, NULL, &n) != CUDA_SUCCESS) return false;
    if (n > FAC_COUNT(few)) v = fac__memory_hook.alloc(fac__memory_hook.ctx, n * sizeof *v, _Alignof(max_align_t));
    bool met = v && (n == 0 || fac__cu.cuGraphNodeGetDependencies(node, v, &n) == CUDA_SUCCESS);
    for (size_t i = 0; met && i < n; i++) met = meet(w, v[i]);
    if (v != few) fac__free(v);
    return met;
}

/* Without memory for the search the answer is no: the block then waits for the end of the capture. */
bool fac__cuda_capture_passed(CUstream stream, void *mark) {
    front f = {0};
    walk w = {0};
    if (!front_of(stream, &f)) return false;
    bool going = true, found = false;
    for (size_t i = 0; going && i < f.n; i++) going = meet(&w, f.nodes[i]);
    for (size_t i = 0; going && !found && i < w.n; i++) {
        found = w.v[i] == mark;
        going = found || meet_dependencies(&w, w.v[i]);
    }
    fac__free(w.v);
    return found;
}
