/* Graphs: replay, updates, launches of one executable graph, child graphs. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* p[0] = value in a, then p[1] = p[0] in a and p[2] = p[0] in b, then p[0] += 1 in a after both. */
static CUgraph capture_fork_and_join(CUstream a, CUstream b, CUdeviceptr p, unsigned value) {
    CUgraph g = NULL;
    CUfunction add = contract_kernel("add");
    CUevent fork = new_event(CU_EVENT_DISABLE_TIMING), join = new_event(CU_EVENT_DISABLE_TIMING);
    ok(cu.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cu.cuMemsetD32Async(p, value, 1, a));
    ok(cu.cuEventRecord(fork, a));
    ok(cu.cuStreamWaitEvent(b, fork, 0));
    ok(cu.cuMemcpyDtoDAsync(p + 4, p, 4, a));
    ok(cu.cuMemcpyDtoDAsync(p + 8, p, 4, b));
    ok(cu.cuEventRecord(join, b));
    ok(cu.cuStreamWaitEvent(a, join, 0));
    ok(launch(add, p, 1, a));
    ok(cu.cuStreamEndCapture(a, &g));
    ok(cu.cuEventDestroy(fork));
    ok(cu.cuEventDestroy(join));
    return g;
}

static CUgraphExec instantiate(CUgraph g) {
    CUgraphExec e = NULL;
    ok(cu.cuGraphInstantiateWithFlags(&e, g, 0));
    return e;
}

static void assert_words(CUdeviceptr p, unsigned a, unsigned b, unsigned c) {
    assert_int_equal(read_word(p), a);
    assert_int_equal(read_word(p + 4), b);
    assert_int_equal(read_word(p + 8), c);
}

static void fork_and_join_replay_in_order(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(12);
    CUgraph g = capture_fork_and_join(a, b, p, 10);
    size_t nodes = 0, edges = 0, roots = 0;
    ok(cu.cuGraphGetNodes(g, NULL, &nodes));
    ok(cu.cuGraphGetEdges(g, NULL, NULL, &edges));
    ok(cu.cuGraphGetRootNodes(g, NULL, &roots));
    assert_int_equal(nodes, 4);
    assert_int_equal(edges, 4);
    assert_int_equal(roots, 1);
    CUgraphExec e = instantiate(g);
    ok(cu.cuGraphDestroy(g)); /* the executable graph stands alone */
    ok(cu.cuGraphUpload(e, a));
    for (int i = 0; i < 5; i++) ok(cu.cuGraphLaunch(e, a));
    ok(cu.cuStreamSynchronize(a));
    assert_words(p, 11, 10, 10);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void an_update_changes_later_launches(void **state) {
    (void)state;
    gate hold;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(12);
    CUgraph g = capture_fork_and_join(a, b, p, 10), h = capture_fork_and_join(a, b, p, 20);
    CUgraphExec e = instantiate(g);
    CUgraphNode wrong;
    CUgraphExecUpdateResult result;
    gate_close(&hold, a);
    ok(cu.cuGraphLaunch(e, a));
    ok(cu.cuGraphExecUpdate(e, h, &wrong, &result));
    assert_int_equal(result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    gate_open(&hold);
    ok(cu.cuStreamSynchronize(a));
    assert_words(p, 11, 10, 10); /* launched before the update */
    ok(cu.cuGraphLaunch(e, a));
    ok(cu.cuStreamSynchronize(a));
    assert_words(p, 21, 20, 20);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuGraphDestroy(h));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void an_update_does_not_change_the_shape(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(12);
    CUgraph g = capture_fork_and_join(a, b, p, 10), empty;
    CUgraphExec e = instantiate(g);
    CUgraphNode wrong, node;
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    ok(cu.cuGraphCreate(&empty, 0));
    ok(cu.cuGraphAddEmptyNode(&node, empty, NULL, 0));
    expect(cu.cuGraphExecUpdate(e, empty, &wrong, &result), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_not_equal(result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuGraphDestroy(empty));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void a_kernel_node_of_an_exec_takes_new_arguments(void **state) {
    (void)state;
    CUgraph g;
    CUgraphNode node;
    CUdeviceptr p = new_memory(4);
    unsigned v = 3;
    CUDA_KERNEL_NODE_PARAMS_v1 parameters = {contract_kernel("store"), 1, 1, 1, 1, 1, 1, 0, (void *[]){&p, &v}, NULL};
    ok(cu.cuGraphCreate(&g, 0));
    ok(cu.cuGraphAddKernelNode(&node, g, NULL, 0, &parameters));
    CUDA_KERNEL_NODE_PARAMS_v1 read = {0};
    ok(cu.cuGraphKernelNodeGetParams(node, &read));
    assert_int_equal(read.gridDimX, 1);
    assert_int_equal(*(unsigned *)read.kernelParams[1], 3);
    CUgraphExec e = instantiate(g);
    v = 4; /* copied when the node was made */
    ok(cu.cuGraphLaunch(e, NULL));
    assert_int_equal(read_word(p), 3);
    ok(cu.cuGraphExecKernelNodeSetParams(e, node, &parameters));
    ok(cu.cuGraphLaunch(e, NULL));
    assert_int_equal(read_word(p), 4);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuMemFree(p));
}

typedef struct visitor {
    atomic_int inside, most, visits;
} visitor;

static void visit(void *data) {
    visitor *v = data;
    int now = atomic_fetch_add(&v->inside, 1) + 1;
    if (now > atomic_load(&v->most)) atomic_store(&v->most, now);
    usleep(1000);
    atomic_fetch_sub(&v->inside, 1);
    atomic_fetch_add(&v->visits, 1);
}

/* add 1 to a counter in page-locked memory, then stand at a gate: while the first launch stands there, the second, in
   another stream, has not begun. */
static void a_second_launch_of_an_exec_waits_for_the_first(void **state) {
    (void)state;
    gate hold = {false, false};
    CUgraph g;
    CUgraphNode count, stand;
    volatile unsigned *counter;
    CUdeviceptr p;
    unsigned one = 1;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuMemHostAlloc((void **)&counter, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cu.cuMemHostGetDevicePointer(&p, (void *)counter, 0));
    *counter = 0;
    CUDA_KERNEL_NODE_PARAMS_v1 parameters = {contract_kernel("add"), 1, 1, 1, 1, 1, 1, 0, (void *[]){&p, &one}, NULL};
    ok(cu.cuGraphCreate(&g, 0));
    ok(cu.cuGraphAddKernelNode(&count, g, NULL, 0, &parameters));
    ok(cu.cuGraphAddHostNode(&stand, g, &count, 1, &(CUDA_HOST_NODE_PARAMS){gate_stand, &hold}));
    CUgraphExec e = instantiate(g);
    ok(cu.cuGraphLaunch(e, a));
    ok(cu.cuGraphLaunch(e, b));
    for (int i = 0; i < 2000 && !atomic_load(&hold.entered); i++) {
        expect(cu.cuStreamQuery(a), CUDA_ERROR_NOT_READY);
        usleep(100);
    }
    assert_true(atomic_load(&hold.entered));
    for (int i = 0; i < 20; i++) expect(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    usleep(5000);
    assert_int_equal(*counter, 1);
    gate_open(&hold);
    ok(cu.cuStreamSynchronize(a));
    ok(cu.cuStreamSynchronize(b));
    assert_int_equal(*counter, 2);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuMemFreeHost((void *)counter));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void launches_of_one_exec_do_not_overlap(void **state) {
    (void)state;
    CUgraph g;
    CUgraphNode node;
    visitor v = {0};
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(8);
    ok(cu.cuMemsetD32Async(p, 0, 2, NULL));
    ok(cu.cuCtxSynchronize());
    CUcontext context;
    ok(cu.cuCtxGetCurrent(&context));
    ok(cu.cuGraphCreate(&g, 0));
    ok(cu.cuGraphAddHostNode(&node, g, NULL, 0, &(CUDA_HOST_NODE_PARAMS){visit, &v}));
    CUfunction add = contract_kernel("add");
    unsigned one = 1;
    CUDA_KERNEL_NODE_PARAMS_v1 parameters = {add, 1, 1, 1, 1, 1, 1, 0, (void *[]){&p, &one}, NULL};
    CUgraphNode after;
    ok(cu.cuGraphAddKernelNode(&after, g, &node, 1, &parameters));
    CUgraphExec e = instantiate(g);
    for (int i = 0; i < 10; i++) ok(cu.cuGraphLaunch(e, i % 2 ? a : b));
    ok(cu.cuStreamSynchronize(a));
    ok(cu.cuStreamSynchronize(b));
    assert_int_equal(atomic_load(&v.visits), 10);
    assert_int_equal(atomic_load(&v.most), 1);
    assert_int_equal(read_word(p), 10);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

/* memset -> copy of rows -> child graph that adds 1 */
static void graphs_made_by_hand_run_child_graphs(void **state) {
    (void)state;
    CUgraph g, child, clone;
    CUgraphNode nodes[3], inner;
    CUdeviceptr p = new_memory(8), q = p + 4;
    CUcontext context;
    unsigned one = 1;
    ok(cu.cuCtxGetCurrent(&context));
    ok(cu.cuGraphCreate(&child, 0));
    CUDA_KERNEL_NODE_PARAMS_v1 parameters = {contract_kernel("add"), 1, 1, 1, 1, 1, 1, 0, (void *[]){&q, &one}, NULL};
    ok(cu.cuGraphAddKernelNode(&inner, child, NULL, 0, &parameters));
    ok(cu.cuGraphCreate(&g, 0));
    CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .value = 40, .elementSize = 4, .width = 1, .height = 1};
    ok(cu.cuGraphAddMemsetNode(&nodes[0], g, NULL, 0, &set, context));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = q,
                          .WidthInBytes = 4,
                          .Height = 1,
                          .Depth = 1};
    ok(cu.cuGraphAddMemcpyNode(&nodes[1], g, &nodes[0], 1, &copy, context));
    ok(cu.cuGraphAddChildGraphNode(&nodes[2], g, NULL, 0, child));
    ok(cu.cuGraphAddDependencies(g, &nodes[1], &nodes[2], 1));
    ok(cu.cuGraphDestroy(child)); /* the node has a copy */
    static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                            CU_GRAPH_NODE_TYPE_GRAPH};
    for (int i = 0; i < 3; i++) {
        CUgraphNodeType type;
        ok(cu.cuGraphNodeGetType(nodes[i], &type));
        assert_int_equal(type, types[i]);
    }
    ok(cu.cuGraphClone(&clone, g));
    ok(cu.cuGraphDestroy(g));
    CUgraphExec e = instantiate(clone);
    ok(cu.cuGraphLaunch(e, NULL));
    assert_int_equal(read_word(q), 41);
    assert_int_equal(read_word(p), 40);
    ok(cu.cuGraphExecDestroy(e));
    ok(cu.cuGraphDestroy(clone));
    ok(cu.cuMemFree(p));
}

static void a_graph_is_printed_as_dot(void **state) {
    (void)state;
    char path[] = "/tmp/driver_contract_XXXXXX", text[20000] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(12);
    CUgraph g = capture_fork_and_join(a, b, p, 10);
    ok(cu.cuGraphDebugDotPrint(g, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    assert_true(read(file, text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "digraph"));
    assert_non_null(strstr(text, "add"));
    assert_non_null(strstr(text, "->"));
    close(file);
    unlink(path);
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void a_wait_node_waits_for_what_the_event_marks(void **state) {
    (void)state;
    gate hold;
    CUgraph g;
    CUgraphNode wait, after;
    CUdeviceptr p = new_memory(4);
    unsigned v = 7;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUDA_KERNEL_NODE_PARAMS_v1 parameters = {contract_kernel("store"), 1, 1, 1, 1, 1, 1, 0, (void *[]){&p, &v}, NULL};
    ok(cu.cuGraphCreate(&g, 0));
    ok(cu.cuGraphAddEventWaitNode(&wait, g, NULL, 0, e));
    ok(cu.cuGraphAddKernelNode(&after, g, &wait, 1, &parameters));
    CUgraphExec exec = instantiate(g);
    gate_close(&hold, a);
    ok(cu.cuEventRecord(e, a));
    ok(cu.cuGraphLaunch(exec, b));
    expect(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    gate_open(&hold);
    ok(cu.cuStreamSynchronize(b));
    assert_int_equal(read_word(p), 7);
    ok(cu.cuGraphExecDestroy(exec));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuEventDestroy(e));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

const struct CMUnitTest graph_tests[] = {
    CONTRACT(a_second_launch_of_an_exec_waits_for_the_first),
    CONTRACT(a_wait_node_waits_for_what_the_event_marks),
    CONTRACT(fork_and_join_replay_in_order),
    CONTRACT(an_update_changes_later_launches),
    CONTRACT(an_update_does_not_change_the_shape),
    CONTRACT(a_kernel_node_of_an_exec_takes_new_arguments),
    CONTRACT(launches_of_one_exec_do_not_overlap),
    CONTRACT(graphs_made_by_hand_run_child_graphs),
    CONTRACT(a_graph_is_printed_as_dot),
};
const size_t n_graph_tests = FAC_COUNT(graph_tests);
