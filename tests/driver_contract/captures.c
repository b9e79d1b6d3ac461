/* Stream capture: what may be called in one, what invalidates it. */
#include "contract.h"
#include <pthread.h>

static CUgraph end_capture(CUstream s, CUresult wanted) {
    CUgraph g = NULL;
    expect(cu.cuStreamEndCapture(s, &g), wanted);
    if (wanted) assert_null(g);
    return g;
}

/* Ends a capture of which it does not matter whether it was lost. */
static void drop_capture(CUstream s) {
    CUgraph g = NULL;
    cu.cuStreamEndCapture(s, &g);
    if (g) ok(cu.cuGraphDestroy(g));
}

static CUstreamCaptureStatus status_of(CUstream s) {
    CUstreamCaptureStatus status;
    ok(cu.cuStreamIsCapturing(s, &status));
    return status;
}

static void captured_work_does_not_run(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    ok(cu.cuMemsetD32Async(p, 1, 1, s));
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(cu.cuMemsetD32Async(p, 2, 1, s));
    CUgraph g = end_capture(s, CUDA_SUCCESS);
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(read_word(p), 1);
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

static void synchronising_loses_the_capture_900_901(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    expect(cu.cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect(cu.cuMemsetD32Async(p, 2, 1, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end_capture(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

static void allocating_loses_the_capture_unless_relaxed(void **state) {
    (void)state;
    CUdeviceptr p = 0;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect(cu.cuMemAlloc(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_capture(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cu.cuMemAlloc(&p, 4));
    ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cu.cuGraphDestroy(end_capture(s, CUDA_SUCCESS)));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

typedef struct other_thread {
    CUcontext context;
    CUstreamCaptureMode mode;
    CUresult allocated;
} other_thread;

static void *allocate(void *data) {
    other_thread *t = data;
    CUdeviceptr p;
    cu.cuCtxSetCurrent(t->context);
    cu.cuThreadExchangeStreamCaptureMode(&t->mode);
    t->allocated = cu.cuMemAlloc(&p, 4);
    if (!t->allocated) cu.cuMemFree(p);
    return NULL;
}

static CUresult allocate_elsewhere(CUstreamCaptureMode mode) {
    pthread_t thread;
    other_thread t = {.mode = mode};
    ok(cu.cuCtxGetCurrent(&t.context));
    assert_int_equal(pthread_create(&thread, NULL, allocate, &t), 0);
    pthread_join(thread, NULL);
    return t.allocated;
}

static void other_threads_are_held_to_a_global_capture_only(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ok(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cu.cuGraphDestroy(end_capture(s, CUDA_SUCCESS)));
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_capture(s, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamDestroy(s));
}

static void two_captures_cannot_merge_902(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    ok(cu.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cu.cuStreamBeginCapture(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cu.cuEventRecord(e, a));
    expect(cu.cuStreamWaitEvent(b, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    drop_capture(a);
    drop_capture(b);
    ok(cu.cuEventDestroy(e));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

/* Forks b from a; the event is left recorded in a. */
static void fork_stream(CUstream a, CUstream b, CUevent e) {
    ok(cu.cuEventRecord(e, a));
    ok(cu.cuStreamWaitEvent(b, e, 0));
}

static void a_forked_stream_does_not_end_the_capture_903(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUgraph g = NULL;
    ok(cu.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    fork_stream(a, b, e);
    expect(cu.cuStreamEndCapture(b, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    drop_capture(a);
    ok(cu.cuEventDestroy(e));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void forked_streams_must_be_joined_904(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = new_memory(4);
    ok(cu.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    fork_stream(a, b, e);
    ok(cu.cuMemsetD32Async(p, 1, 1, b));
    end_capture(a, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_int_equal(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cu.cuMemFree(p));
    ok(cu.cuEventDestroy(e));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void a_capture_does_not_wait_for_outside_work_905(void **state) {
    (void)state;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    ok(cu.cuEventRecord(e, b));
    ok(cu.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    expect(cu.cuStreamWaitEvent(a, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_capture(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuEventDestroy(e));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void the_legacy_stream_collides_with_captured_blocking_streams_906(void **state) {
    (void)state;
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    ok(cu.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    expect(cu.cuMemsetD32Async(p, 1, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_capture(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cu.cuMemsetD32Async(p, 1, 1, NULL)); /* a non-blocking one is not concerned */
    ok(cu.cuGraphDestroy(end_capture(other, CUDA_SUCCESS)));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(blocking));
    ok(cu.cuStreamDestroy(other));
}

static void a_captured_event_cannot_be_asked_907(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cu.cuEventRecord(e, s));
    expect(cu.cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
    expect(cu.cuEventSynchronize(e), CUDA_ERROR_CAPTURED_EVENT);
    drop_capture(s);
    ok(cu.cuEventDestroy(e));
    ok(cu.cuStreamDestroy(s));
}

static void the_legacy_stream_is_not_captured(void **state) {
    (void)state;
    CUgraph g;
    expect(cu.cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    expect(cu.cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);
    ok(cu.cuStreamDestroy(s));
}

static void a_capture_has_an_id_of_its_own(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    cuuint64_t ids[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        CUstreamCaptureStatus status;
        size_t n = 99;
        ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        ok(cu.cuStreamGetCaptureInfo(s, &status, &ids[i], NULL, NULL, &n));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_int_equal(n, 0);
        ok(cu.cuGraphDestroy(end_capture(s, CUDA_SUCCESS)));
    }
    assert_true(ids[0] && ids[0] != ids[1]);
    ok(cu.cuStreamDestroy(s));
}

/* What the next node depends on can be set by hand; an external record becomes a node and is an ordinary event after a
   launch. */
static void dependencies_are_set_and_events_recorded_outwards(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = new_memory(8);
    CUgraphNode nodes[3];
    CUgraphNodeType type;
    CUgraphExec exec;
    size_t n = 0, roots = 0, count = 3;
    ok(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cu.cuMemsetD32Async(p, 1, 1, s));
    ok(cu.cuStreamUpdateCaptureDependencies(s, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    ok(cu.cuMemsetD32Async(p + 4, 2, 1, s)); /* after nothing */
    ok(cu.cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
    CUgraph g = end_capture(s, CUDA_SUCCESS);
    ok(cu.cuGraphGetRootNodes(g, NULL, &roots));
    assert_int_equal(roots, 2);
    ok(cu.cuGraphGetNodes(g, nodes, &count));
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        ok(cu.cuGraphNodeGetType(nodes[i], &type));
        size_t deps = 0;
        ok(cu.cuGraphNodeGetDependencies(nodes[i], NULL, &deps));
        assert_int_equal(deps, type == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
        n += deps;
    }
    assert_int_equal(n, 1);
    ok(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
    ok(cu.cuGraphLaunch(exec, s));
    ok(cu.cuStreamWaitEvent(other, e, 0));
    ok(cu.cuMemcpyDtoDAsync(p, p + 4, 4, other));
    ok(cu.cuStreamSynchronize(other));
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(read_word(p + 4), 2);
    ok(cu.cuGraphExecDestroy(exec));
    ok(cu.cuGraphDestroy(g));
    ok(cu.cuEventDestroy(e));
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
    ok(cu.cuStreamDestroy(other));
}

const struct CMUnitTest capture_tests[] = {
    CONTRACT(captured_work_does_not_run),
    CONTRACT(synchronising_loses_the_capture_900_901),
    CONTRACT(allocating_loses_the_capture_unless_relaxed),
    CONTRACT(other_threads_are_held_to_a_global_capture_only),
    CONTRACT(two_captures_cannot_merge_902),
    CONTRACT(a_forked_stream_does_not_end_the_capture_903),
    CONTRACT(forked_streams_must_be_joined_904),
    CONTRACT(a_capture_does_not_wait_for_outside_work_905),
    CONTRACT(the_legacy_stream_collides_with_captured_blocking_streams_906),
    CONTRACT(a_captured_event_cannot_be_asked_907),
    CONTRACT(the_legacy_stream_is_not_captured),
    CONTRACT(a_capture_has_an_id_of_its_own),
    CONTRACT(dependencies_are_set_and_events_recorded_outwards),
};
const size_t n_capture_tests = FAC_COUNT(capture_tests);
