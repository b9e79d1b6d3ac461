/* Graphs: making them, their nodes and edges, and printing them. */
#include "simcuda/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t last_visit;

/* ---- building ---------------------------------------------------------------------------------------------------- */

CUgraph sim_graph_new(void) { return sim_object_new(SIM_GRAPH, sizeof(struct CUgraph_st)); }

void sim_graph_free(CUgraph g) {
    for (size_t i = 0; i < g->n; i++) {
        CUgraphNode node = g->nodes[i];
        if (node->spec.child) sim_graph_free(node->spec.child);
        sim_spec_clear(&node->spec);
        free(node->deps);
        sim_object_free(node);
    }
    free(g->nodes);
    sim_object_free(g);
}

static void add_dep(CUgraphNode node, CUgraphNode dep) {
    for (size_t i = 0; i < node->n_deps; i++) {
        if (node->deps[i] == dep) return;
    }
    sim_grow(&node->deps, node->n_deps, &node->cap_deps, sizeof *node->deps);
    node->deps[node->n_deps++] = dep;
}

CUgraphNode sim_graph_add(CUgraph g, sim_spec *spec, const CUgraphNode *deps, size_t n) {
    CUgraphNode node = sim_object_new(SIM_NODE, sizeof *node);
    node->graph = g;
    node->spec = *spec;
    node->index = g->n;
    for (size_t i = 0; i < n; i++) add_dep(node, deps[i]);
    sim_grow(&g->nodes, g->n, &g->cap, sizeof *g->nodes);
    g->nodes[g->n++] = node;
    return node;
}

bool sim_graph_reaches(CUgraph g, const CUgraphNode *from, size_t n, CUgraphNode wanted) {
    CUgraphNode *list = sim_new(g->n + n, sizeof *list);
    size_t left = 0;
    bool found = false;
    last_visit++;
    for (size_t i = 0; i < n; i++) {
        if (from[i]->visit != last_visit) from[i]->visit = last_visit, list[left++] = from[i];
    }
    while (left && !found) {
        CUgraphNode at = list[--left];
        found = at == wanted;
        for (size_t i = 0; i < at->n_deps; i++) {
            CUgraphNode dep = at->deps[i];
            if (dep->visit == last_visit) continue;
            dep->visit = last_visit;
            list[left++] = dep;
        }
    }
    free(list);
    return found;
}

static CUgraph clone_of(CUgraph g) {
    CUgraph clone = sim_graph_new();
    for (size_t i = 0; i < g->n; i++) {
        sim_spec spec;
        sim_spec_copy(&spec, &g->nodes[i]->spec);
        if (spec.child) {
            spec.child = clone_of(spec.child);
            spec.child->inner = true;
        }
        sim_graph_add(clone, &spec, NULL, 0);
    }
    for (size_t i = 0; i < g->n; i++) {
        for (size_t k = 0; k < g->nodes[i]->n_deps; k++)
            add_dep(clone->nodes[i], clone->nodes[g->nodes[i]->deps[k]->index]);
    }
    return clone;
}

static CUresult check_graph(CUgraph g, const char *name) {
    SIM_CHECK(sim_object_is(g, SIM_GRAPH), CUDA_ERROR_INVALID_VALUE, "%s: %p is no graph, or was destroyed", name,
              (void *)g);
    return CUDA_SUCCESS;
}

static CUresult check_node(CUgraphNode node, CUgraph of, const char *name) {
    SIM_CHECK(sim_object_is(node, SIM_NODE) && (!of || node->graph == of), CUDA_ERROR_INVALID_VALUE,
              "%s: %p is no node of the graph", name, (void *)node);
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(graph && !flags, CUDA_ERROR_INVALID_VALUE, "cuGraphCreate: flags %u", flags);
    *graph = sim_graph_new();
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_graph(graph, "cuGraphDestroy"));
    SIM_CHECK(!graph->inner, CUDA_ERROR_INVALID_VALUE, "cuGraphDestroy: the graph belongs to a node of another");
    for (const sim_capture *c = sim_captures; c; c = c->next) {
        SIM_CHECK(c->graph != graph, CUDA_ERROR_ILLEGAL_STATE, "cuGraphDestroy: the graph is being captured");
    }
    sim_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_graph(graph, "cuGraphClone"));
    SIM_CHECK(clone, CUDA_ERROR_INVALID_VALUE, "cuGraphClone: clone is NULL");
    *clone = clone_of(graph);
    return CUDA_SUCCESS;
}

/* ---- adding nodes ------------------------------------------------------------------------------------------------ */

static CUresult check_adding(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n, const char *name) {
    SIM_TRY(check_graph(g, name));
    SIM_CHECK(node && (deps || !n), CUDA_ERROR_INVALID_VALUE, "%s: NULL", name);
    for (size_t i = 0; i < n; i++) SIM_TRY(check_node(deps[i], g, name));
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    SIM_ENTER(SIM_CURRENT);
    sim_spec spec;
    SIM_TRY(check_adding(node, graph, dependencies, count, "cuGraphAddKernelNode"));
    SIM_CHECK(p, CUDA_ERROR_INVALID_VALUE, "cuGraphAddKernelNode: parameters is NULL");
    SIM_TRY(sim_kernel_spec(p->func, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                            (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, p->kernelParams,
                            p->extra, sim_current, &spec));
    *node = sim_graph_add(graph, &spec, dependencies, count);
    return CUDA_SUCCESS;
}

static CUresult device_of_context(CUcontext context, sim_device **out) {
    SIM_CHECK(context >= sim_devices && context < sim_devices + sim_n_devices && context->retained,
              CUDA_ERROR_INVALID_CONTEXT, "%p is no retained context", (void *)context);
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMCPY3D *copy, CUcontext context) {
    SIM_ENTER(SIM_INITIALISED);
    sim_spec spec = {.kind = SIM_OP_COPY};
    SIM_TRY(check_adding(node, graph, dependencies, count, "cuGraphAddMemcpyNode"));
    SIM_TRY(device_of_context(context, &spec.device));
    SIM_CHECK(copy, CUDA_ERROR_INVALID_VALUE, "cuGraphAddMemcpyNode: copy is NULL");
    SIM_TRY(sim_rows_of_3d(copy, &spec.copy, "cuGraphAddMemcpyNode"));
    spec.copy.to_host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
    spec.copy.from_host = copy->srcMemoryType == CU_MEMORYTYPE_HOST;
    *node = sim_graph_add(graph, &spec, dependencies, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context) {
    SIM_ENTER(SIM_INITIALISED);
    sim_spec spec = {.kind = SIM_OP_SET};
    SIM_TRY(check_adding(node, graph, dependencies, count, "cuGraphAddMemsetNode"));
    SIM_TRY(device_of_context(context, &spec.device));
    SIM_CHECK(p && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4) && p->width && p->height,
              CUDA_ERROR_INVALID_VALUE,
              "cuGraphAddMemsetNode: elements have 1, 2 or 4 bytes, and there is at least one");
    spec.set.to = (char *)p->dst;
    spec.set.value = p->value;
    spec.set.element = p->elementSize;
    spec.set.width = p->width;
    spec.set.height = p->height;
    spec.set.pitch = p->height > 1 ? p->pitch : p->width * p->elementSize;
    SIM_TRY(sim_set_check(spec.device, &spec, "cuGraphAddMemsetNode"));
    *node = sim_graph_add(graph, &spec, dependencies, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS *p) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_adding(node, graph, dependencies, count, "cuGraphAddHostNode"));
    SIM_CHECK(p && p->fn, CUDA_ERROR_INVALID_VALUE, "cuGraphAddHostNode: function is NULL");
    *node = sim_graph_add(graph, &(sim_spec){.kind = SIM_OP_HOST, .host = {p->fn, p->userData}}, dependencies, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  CUgraph child) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_adding(node, graph, dependencies, count, "cuGraphAddChildGraphNode"));
    SIM_TRY(check_graph(child, "cuGraphAddChildGraphNode"));
    sim_spec spec = {.kind = SIM_OP_CHILD, .child = clone_of(child)};
    spec.child->inner = true;
    *node = sim_graph_add(graph, &spec, dependencies, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_adding(node, graph, dependencies, count, "cuGraphAddEmptyNode"));
    *node = sim_graph_add(graph, &(sim_spec){.kind = SIM_OP_MARK}, dependencies, count);
    return CUDA_SUCCESS;
}

static CUresult add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n, CUevent event,
                          sim_kind kind, const char *name) {
    SIM_TRY(check_adding(node, graph, deps, n, name));
    SIM_CHECK(sim_object_is(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE, "%s: %p is no event", name, (void *)event);
    *node = sim_graph_add(graph, &(sim_spec){.kind = kind, .device = event->device, .event = event}, deps, n);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                   CUevent event) {
    SIM_ENTER(SIM_INITIALISED);
    return add_event(node, graph, dependencies, count, event, SIM_OP_RECORD, "cuGraphAddEventRecordNode");
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 CUevent event) {
    SIM_ENTER(SIM_INITIALISED);
    return add_event(node, graph, dependencies, count, event, SIM_OP_WAIT, "cuGraphAddEventWaitNode");
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_graph(graph, "cuGraphAddDependencies"));
    for (size_t i = 0; i < count; i++) {
        SIM_TRY(check_node(from[i], graph, "cuGraphAddDependencies"));
        SIM_TRY(check_node(to[i], graph, "cuGraphAddDependencies"));
        SIM_CHECK(!sim_graph_reaches(graph, &from[i], 1, to[i]), CUDA_ERROR_INVALID_VALUE,
                  "cuGraphAddDependencies: edge %zu would make a circle", i);
        add_dep(to[i], from[i]);
    }
    return CUDA_SUCCESS;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Fills at most *count places and says how many there are; places past the end are NULL. */
static void list_nodes(CUgraphNode *const *all, size_t n, CUgraphNode *nodes, size_t *count) {
    size_t room = nodes ? *count : 0;
    for (size_t i = 0; i < room; i++) nodes[i] = i < n ? (*all)[i] : NULL;
    *count = n;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_graph(graph, "cuGraphGetNodes"));
    SIM_CHECK(count, CUDA_ERROR_INVALID_VALUE, "cuGraphGetNodes: count is NULL");
    list_nodes(&graph->nodes, graph->n, nodes, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_graph(graph, "cuGraphGetRootNodes"));
    SIM_CHECK(count, CUDA_ERROR_INVALID_VALUE, "cuGraphGetRootNodes: count is NULL");
    CUgraphNode *roots = sim_new(graph->n, sizeof *roots);
    size_t n = 0;
    for (size_t i = 0; i < graph->n; i++) {
        if (!graph->nodes[i]->n_deps) roots[n++] = graph->nodes[i];
    }
    list_nodes(&roots, n, nodes, count);
    free(roots);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_graph(graph, "cuGraphGetEdges"));
    SIM_CHECK(count && !from == !to, CUDA_ERROR_INVALID_VALUE, "cuGraphGetEdges: NULL");
    size_t room = from ? *count : 0, n = 0;
    for (size_t i = 0; i < graph->n; i++) {
        for (size_t k = 0; k < graph->nodes[i]->n_deps; k++, n++) {
            if (n < room) from[n] = graph->nodes[i]->deps[k], to[n] = graph->nodes[i];
        }
    }
    *count = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies, size_t *count) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_node(node, NULL, "cuGraphNodeGetDependencies"));
    SIM_CHECK(count, CUDA_ERROR_INVALID_VALUE, "cuGraphNodeGetDependencies: count is NULL");
    list_nodes(&node->deps, node->n_deps, dependencies, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_node(node, NULL, "cuGraphNodeGetType"));
    SIM_CHECK(type, CUDA_ERROR_INVALID_VALUE, "cuGraphNodeGetType: type is NULL");
    static const CUgraphNodeType types[] = {
        [SIM_OP_MARK] = CU_GRAPH_NODE_TYPE_EMPTY,      [SIM_OP_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SIM_OP_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,     [SIM_OP_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SIM_OP_HOST] = CU_GRAPH_NODE_TYPE_HOST,       [SIM_OP_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        [SIM_OP_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,   [SIM_OP_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [SIM_OP_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT, [SIM_OP_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
    };
    *type = types[node->spec.kind];
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_node(node, NULL, "cuGraphKernelNodeGetParams"));
    SIM_CHECK(p && node->spec.kind == SIM_OP_KERNEL, CUDA_ERROR_INVALID_VALUE,
              "cuGraphKernelNodeGetParams: no kernel node");
    const sim_spec *s = &node->spec;
    *p = (CUDA_KERNEL_NODE_PARAMS_v1){.func = s->kernel.function,
                                      .gridDimX = s->kernel.grid[0],
                                      .gridDimY = s->kernel.grid[1],
                                      .gridDimZ = s->kernel.grid[2],
                                      .blockDimX = s->kernel.block[0],
                                      .blockDimY = s->kernel.block[1],
                                      .blockDimZ = s->kernel.block[2],
                                      .sharedMemBytes = s->kernel.shared,
                                      .kernelParams = s->payload};
    return CUDA_SUCCESS;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static void print_label(FILE *f, const sim_spec *s) {
    static const char *const names[] = {"EMPTY", "KERNEL", "MEMCPY", "MEMSET", "HOST",
                                        "ALLOC", "FREE",   "RECORD", "WAIT",   "GRAPH"};
    fprintf(f, "%s", names[s->kind]);
    if (s->kind == SIM_OP_KERNEL) {
        fprintf(f, "\\n%s\\n<<<%u,%u,%u, %u,%u,%u, %u>>>", s->kernel.code->name, s->kernel.grid[0], s->kernel.grid[1],
                s->kernel.grid[2], s->kernel.block[0], s->kernel.block[1], s->kernel.block[2], s->kernel.shared);
    }
    if (s->kind == SIM_OP_COPY) fprintf(f, "\\n%zu bytes", s->copy.width * s->copy.height * s->copy.depth);
    if (s->kind == SIM_OP_SET) fprintf(f, "\\n%zu x %u bytes", s->set.width * s->set.height, s->set.element);
    if (s->device) fprintf(f, "\\ndevice %d", s->device->index);
}

static void print_graph(FILE *f, CUgraph g, const char *prefix) {
    for (size_t i = 0; i < g->n; i++) {
        const struct CUgraphNode_st *node = g->nodes[i];
        fprintf(f, "    \"%s%zu\" [shape=\"%s\", label=\"%s%zu\\n", prefix, i,
                node->spec.kind == SIM_OP_KERNEL ? "octagon" : "rectangle", prefix, i);
        print_label(f, &node->spec);
        fprintf(f, "\"];\n");
        for (size_t k = 0; k < node->n_deps; k++) {
            fprintf(f, "    \"%s%zu\" -> \"%s%zu\";\n", prefix, node->deps[k]->index, prefix, i);
        }
        if (!node->spec.child) continue;
        char inner[64];
        snprintf(inner, sizeof inner, "%.40s%zu.", prefix, i);
        print_graph(f, node->spec.child, inner);
    }
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags) {
    SIM_ENTER(SIM_INITIALISED);
    (void)flags;
    SIM_TRY(check_graph(graph, "cuGraphDebugDotPrint"));
    FILE *f = path ? fopen(path, "w") : NULL;
    SIM_CHECK(f, CUDA_ERROR_OPERATING_SYSTEM, "cuGraphDebugDotPrint: cannot write %s", path ? path : "NULL");
    fprintf(f, "digraph dot {\n");
    print_graph(f, graph, "");
    fprintf(f, "}\n");
    bool written = !ferror(f);
    SIM_CHECK(!fclose(f) && written, CUDA_ERROR_OPERATING_SYSTEM, "cuGraphDebugDotPrint: writing %s failed", path);
    return CUDA_SUCCESS;
}
