/* Executable graphs: a flat copy of the nodes, child graphs laid out in place. A launch makes an op of every node,
   between a first and a last mark in the stream, so that nodes run in any order that their edges allow; launches of one
   executable graph follow one another. */
#include "simcuda/graph.h"
#include <stdlib.h>
#include <string.h>

typedef struct step {
    sim_spec spec;
    size_t *deps, n_deps;
    CUgraphNode origin; /* the node it was made from, compared and never read */
} step;

struct CUgraphExec_st {
    sim_object head;
    step *steps;
    size_t n, cap;
    sim_op *last; /* the end of the latest launch */
    struct CUgraphExec_st *next;
};
static CUgraphExec execs;

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void clear_steps(step *steps, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sim_spec_clear(&steps[i].spec);
        free(steps[i].deps);
    }
    free(steps);
}

static size_t add_step(CUgraphExec e, const sim_spec *spec, CUgraphNode origin, size_t room) {
    sim_grow(&e->steps, e->n, &e->cap, sizeof *e->steps);
    step *s = &e->steps[e->n];
    sim_spec_copy(&s->spec, spec);
    s->deps = sim_new(room, sizeof *s->deps);
    s->n_deps = 0;
    s->origin = origin;
    return e->n++;
}

/* Nodes in an order in which each comes after those it depends on; depth first without recursion over the graph's size.
   */
static CUgraphNode *sorted(CUgraph g) {
    CUgraphNode *order = sim_new(g->n, sizeof *order);
    bool *placed = sim_new(g->n, sizeof *placed);
    for (size_t n = 0; n < g->n;) {
        for (size_t i = 0; i < g->n; i++) {
            bool free_now = !placed[i];
            for (size_t k = 0; free_now && k < g->nodes[i]->n_deps; k++) free_now = placed[g->nodes[i]->deps[k]->index];
            if (free_now) placed[i] = true, order[n++] = g->nodes[i];
        }
    }
    free(placed);
    return order;
}

/* Lays a graph out; its roots depend on the steps in `before`. Returns with at[i] the step that ends node i. */
static void lay_out(CUgraphExec e, CUgraph g, const size_t *before, size_t n_before) {
    CUgraphNode *order = sorted(g);
    size_t *at = sim_new(g->n, sizeof *at);
    size_t *deps = sim_new(g->n + n_before, sizeof *deps);
    for (size_t i = 0; i < g->n; i++) {
        CUgraphNode node = order[i];
        size_t n = 0;
        for (size_t k = 0; k < node->n_deps; k++) deps[n++] = at[node->deps[k]->index];
        for (size_t k = 0; !node->n_deps && k < n_before; k++) deps[n++] = before[k];
        size_t first = e->n;
        sim_spec spec = node->spec;
        if (spec.child) {
            lay_out(e, spec.child, deps, n);
            spec = (sim_spec){.kind = SIM_OP_MARK, .device = spec.device};
        }
        size_t inner = e->n - first, made = add_step(e, &spec, node, n + inner);
        step *s = &e->steps[made];
        for (size_t k = 0; k < n; k++) s->deps[s->n_deps++] = deps[k];
        for (size_t k = 0; k < inner; k++) s->deps[s->n_deps++] = first + k;
        at[node->index] = made;
    }
    free(deps);
    free(at);
    free(order);
}

static CUresult check_exec(CUgraphExec e, const char *name) {
    SIM_CHECK(sim_object_is(e, SIM_EXEC), CUDA_ERROR_INVALID_VALUE, "%s: %p is no executable graph, or was destroyed",
              name, (void *)e);
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(exec && sim_object_is(graph, SIM_GRAPH), CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: %p is no graph",
              (void *)graph);
    SIM_CHECK(!(flags & ~UINT64_C(15)), CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: flags %llu", flags);
    CUgraphExec e = sim_object_new(SIM_EXEC, sizeof *e);
    lay_out(e, graph, NULL, 0);
    e->next = execs;
    *exec = execs = e;
    return CUDA_SUCCESS;
}

static void exec_free(CUgraphExec e) {
    CUgraphExec *at = &execs;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    sim_op_drop(e->last);
    clear_steps(e->steps, e->n);
    sim_object_free(e);
}

/* What was launched still runs. */
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_exec(exec, "cuGraphExecDestroy"));
    exec_free(exec);
    return CUDA_SUCCESS;
}

static bool stands_alone(const void *graph) { return !((CUgraph)graph)->inner; }

void sim_graphs_stop(void) {
    CUgraph g;
    while (execs) exec_free(execs);
    while ((g = sim_object_any(SIM_GRAPH, stands_alone))) sim_graph_free(g);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    return check_exec(exec, "cuGraphUpload");
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

static CUresult check_steps(CUgraphExec e) {
    for (size_t i = 0; i < e->n; i++) {
        const sim_spec *s = &e->steps[i].spec;
        SIM_CHECK(s->kind != SIM_OP_KERNEL || sim_object_is(s->kernel.function, SIM_FUNCTION),
                  CUDA_ERROR_INVALID_HANDLE, "cuGraphLaunch: the image of a kernel of the graph was unloaded");
        SIM_CHECK((s->kind != SIM_OP_RECORD && s->kind != SIM_OP_WAIT) || sim_object_is(s->event, SIM_EVENT),
                  CUDA_ERROR_INVALID_HANDLE, "cuGraphLaunch: an event of the graph was destroyed");
    }
    return CUDA_SUCCESS;
}

static sim_op *op_of(const step *s, sim_device *d) {
    sim_spec spec;
    sim_spec_copy(&spec, &s->spec);
    if (!spec.device) spec.device = d;
    sim_kind kind = spec.kind;
    if (kind == SIM_OP_RECORD || kind == SIM_OP_WAIT) spec.kind = SIM_OP_MARK;
    sim_op *op = sim_op_new(&spec);
    if (kind == SIM_OP_WAIT) sim_op_after(op, spec.event->op);
    if (kind == SIM_OP_RECORD) {
        sim_op_drop(spec.event->op);
        spec.event->op = sim_op_keep(op);
        spec.event->capture = 0;
    }
    return op;
}

/* A launch into a captured stream becomes a child graph. */
static CUresult launch_captured(CUgraphExec e, sim_stream *s) {
    CUgraph child = sim_graph_new();
    child->inner = true;
    for (size_t i = 0; i < e->n; i++) {
        sim_spec spec;
        sim_spec_copy(&spec, &e->steps[i].spec);
        CUgraphNode *deps = sim_new(e->steps[i].n_deps, sizeof(CUgraphNode));
        for (size_t k = 0; k < e->steps[i].n_deps; k++) deps[k] = child->nodes[e->steps[i].deps[k]];
        sim_graph_add(child, &spec, deps, e->steps[i].n_deps);
        free(deps);
    }
    CUresult r = sim_capture_add(s, &(sim_spec){.kind = SIM_OP_CHILD, .device = s->device, .child = child});
    if (r) sim_graph_free(child);
    return r;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_TRY(check_exec(exec, "cuGraphLaunch"));
    SIM_TRY(check_steps(exec));
    if (s->capture) return launch_captured(exec, s);
    if (s->legacy) SIM_TRY(sim_capture_implicit(s->device));
    size_t n = exec->n + 2;
    sim_op **ops = sim_new(n, sizeof *ops), *first = sim_op_new(&(sim_spec){.device = s->device});
    ops[0] = sim_op_keep(first);
    sim_op_after(first, exec->last);
    sim_append(s, first);
    for (size_t i = 0; i < exec->n; i++) {
        const step *at = &exec->steps[i];
        sim_op *op = ops[i + 1] = op_of(at, s->device);
        if (!at->n_deps) sim_op_after(op, first);
        for (size_t k = 0; k < at->n_deps; k++) sim_op_after(op, ops[at->deps[k] + 1]);
    }
    sim_op *last = sim_op_new(&(sim_spec){.device = s->device});
    ops[n - 1] = sim_op_keep(last);
    for (size_t i = 0; i < n - 1; i++) sim_op_after(last, ops[i]);
    sim_append(s, last);
    sim_op_drop(exec->last);
    exec->last = sim_op_keep(last);
    for (size_t i = 0; i < n; i++) sim_op_submit(ops[i]); /* may drop the lock: the graph is not read any more */
    for (size_t i = 0; i < n; i++) sim_op_drop(ops[i]);
    free(ops);
    return CUDA_SUCCESS;
}

/* ---- changing ---------------------------------------------------------------------------------------------------- */

static CUgraphExecUpdateResult compare(const step *a, const step *b) {
    if (a->spec.kind != b->spec.kind) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a->n_deps != b->n_deps || memcmp(a->deps, b->deps, a->n_deps * sizeof *a->deps) != 0) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    if (a->spec.device != b->spec.device) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* What was launched before is not touched: its ops have copies. */
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *result) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_exec(exec, "cuGraphExecUpdate"));
    SIM_CHECK(result && sim_object_is(graph, SIM_GRAPH), CUDA_ERROR_INVALID_VALUE, "cuGraphExecUpdate: %p is no graph",
              (void *)graph);
    struct CUgraphExec_st fresh = {0};
    lay_out(&fresh, graph, NULL, 0);
    *result = fresh.n == exec->n ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (error_node) *error_node = NULL;
    for (size_t i = 0; !*result && i < fresh.n; i++) {
        *result = compare(&exec->steps[i], &fresh.steps[i]);
        if (*result && error_node) *error_node = fresh.steps[i].origin;
    }
    if (*result) {
        clear_steps(fresh.steps, fresh.n);
        return sim_refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                          "cuGraphExecUpdate: the graphs differ in more than parameters");
    }
    for (size_t i = 0; i < fresh.n; i++) fresh.steps[i].origin = exec->steps[i].origin;
    clear_steps(exec->steps, exec->n);
    exec->steps = fresh.steps;
    exec->cap = fresh.cap;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_exec(exec, "cuGraphExecKernelNodeSetParams"));
    SIM_CHECK(p, CUDA_ERROR_INVALID_VALUE, "cuGraphExecKernelNodeSetParams: parameters is NULL");
    for (size_t i = 0; i < exec->n; i++) {
        step *s = &exec->steps[i];
        if (s->origin != node || s->spec.kind != SIM_OP_KERNEL) continue;
        sim_spec spec;
        SIM_TRY(sim_kernel_spec(p->func, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                                (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                                p->kernelParams, p->extra, s->spec.device, &spec));
        sim_spec_clear(&s->spec);
        s->spec = spec;
        return CUDA_SUCCESS;
    }
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "cuGraphExecKernelNodeSetParams: %p is no kernel node of the graph",
                      (void *)node);
}
