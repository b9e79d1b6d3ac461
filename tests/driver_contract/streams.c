/* Streams and events: order, waits, queries, times. */
#include "contract.h"

static void legacy_stream_waits_for_blocking_streams_only(void **state) {
    (void)state;
    gate g;
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_running = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(8);
    ok(cu.cuMemsetD32Async(p, 0, 2, blocking));
    gate_close(&g, blocking);
    ok(cu.cuMemsetD32Async(p, 1, 1, blocking));
    ok(cu.cuMemcpyDtoDAsync(p + 4, p, 4, NULL)); /* reads what comes behind the gate */
    for (int i = 0; i < 20; i++) expect(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    ok(cu.cuStreamSynchronize(NULL));
    assert_int_equal(read_word(p + 4), 1);
    gate_close(&g, free_running);
    ok(cu.cuMemsetD32Async(p, 2, 1, NULL));
    ok(cu.cuStreamSynchronize(NULL)); /* comes back although the gate is closed */
    expect(cu.cuStreamQuery(free_running), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    assert_int_equal(read_word(p), 2);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(blocking));
    ok(cu.cuStreamDestroy(free_running));
}

static void blocking_streams_wait_for_the_legacy_stream(void **state) {
    (void)state;
    gate g;
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_running = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(8);
    gate_close(&g, NULL);
    ok(cu.cuMemsetD32Async(p, 1, 1, blocking));
    ok(cu.cuMemsetD32Async(p + 4, 2, 1, free_running));
    ok(cu.cuStreamSynchronize(free_running));
    expect(cu.cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    ok(cu.cuStreamSynchronize(blocking));
    assert_int_equal(read_word(p), 1);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(blocking));
    ok(cu.cuStreamDestroy(free_running));
}

static void work_in_one_stream_runs_in_order(void **state) {
    (void)state;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUfunction add = contract_kernel("add");
    CUdeviceptr p = new_memory(8);
    ok(cu.cuMemsetD32Async(p, 1, 2, s));
    for (unsigned i = 0; i < 100; i++) {
        ok(launch(add, p, 1, s));
        ok(cu.cuMemcpyDtoDAsync(p + 4, p, 4, s));
    }
    ok(cu.cuStreamSynchronize(s));
    assert_int_equal(read_word(p + 4), 101);
    ok(cu.cuMemFree(p));
    ok(cu.cuStreamDestroy(s));
}

static void a_wait_binds_to_the_latest_record(void **state) {
    (void)state;
    gate first, second;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    gate_close(&first, a);
    ok(cu.cuEventRecord(e, a));
    ok(cu.cuStreamWaitEvent(b, e, 0));
    gate_close(&second, a);
    ok(cu.cuEventRecord(e, a)); /* does not change what b waits for */
    expect(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    gate_open(&first);
    ok(cu.cuStreamSynchronize(b));
    expect(cu.cuEventQuery(e), CUDA_ERROR_NOT_READY);
    gate_open(&second);
    ok(cu.cuEventSynchronize(e));
    ok(cu.cuEventQuery(e));
    ok(cu.cuEventDestroy(e));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void an_event_never_recorded_is_complete(void **state) {
    (void)state;
    float ms;
    CUevent never = new_event(0), other = new_event(0);
    ok(cu.cuEventQuery(never));
    ok(cu.cuEventSynchronize(never));
    ok(cu.cuStreamWaitEvent(NULL, never, 0));
    ok(cu.cuEventRecord(other, NULL));
    ok(cu.cuEventSynchronize(other));
    expect(cu.cuEventElapsedTime(&ms, never, other), CUDA_ERROR_INVALID_HANDLE);
    ok(cu.cuEventDestroy(never));
    ok(cu.cuEventDestroy(other));
}

static void an_event_destroyed_while_waited_for_still_orders(void **state) {
    (void)state;
    gate g;
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    gate_close(&g, a);
    ok(cu.cuEventRecord(e, a));
    ok(cu.cuStreamWaitEvent(b, e, 0));
    ok(cu.cuEventDestroy(e));
    expect(cu.cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    ok(cu.cuStreamSynchronize(b));
    ok(cu.cuStreamDestroy(a));
    ok(cu.cuStreamDestroy(b));
}

static void elapsed_time_needs_two_timed_and_finished_events(void **state) {
    (void)state;
    gate g;
    float ms = -1;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent start = new_event(0), end = new_event(0), untimed = new_event(CU_EVENT_DISABLE_TIMING);
    ok(cu.cuEventRecord(start, s));
    gate_close(&g, s);
    ok(cu.cuEventRecord(end, s));
    expect(cu.cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
    gate_open(&g);
    ok(cu.cuEventSynchronize(end));
    ok(cu.cuEventElapsedTime(&ms, start, end));
    assert_true(ms >= 0);
    ok(cu.cuEventRecord(untimed, s));
    ok(cu.cuEventSynchronize(untimed));
    expect(cu.cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
    ok(cu.cuEventDestroy(start));
    ok(cu.cuEventDestroy(end));
    ok(cu.cuEventDestroy(untimed));
    ok(cu.cuStreamDestroy(s));
}

static void a_destroyed_stream_still_does_its_work(void **state) {
    (void)state;
    gate g;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_memory(4);
    gate_close(&g, s);
    ok(cu.cuMemsetD32Async(p, 5, 1, s));
    ok(cu.cuStreamDestroy(s));
    gate_open(&g);
    assert_int_equal(read_word(p), 5);
    ok(cu.cuMemFree(p));
}

static void priorities_and_flags_are_kept(void **state) {
    (void)state;
    int least, greatest, priority;
    unsigned flags;
    CUstream s;
    CUcontext c, current;
    ok(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest <= least);
    ok(cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    ok(cu.cuStreamGetPriority(s, &priority));
    ok(cu.cuStreamGetFlags(s, &flags));
    ok(cu.cuStreamGetCtx(s, &c));
    ok(cu.cuCtxGetCurrent(&current));
    assert_int_equal(priority, greatest);
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(c, current);
    ok(cu.cuStreamDestroy(s));
}

static void streams_have_ids(void **state) {
    (void)state;
    unsigned long long a, b;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuStreamGetId(s, &a));
    ok(cu.cuStreamGetId(NULL, &b));
    assert_true(a != b);
    ok(cu.cuStreamDestroy(s));
}

const struct CMUnitTest stream_tests[] = {
    CONTRACT(legacy_stream_waits_for_blocking_streams_only),
    CONTRACT(blocking_streams_wait_for_the_legacy_stream),
    CONTRACT(work_in_one_stream_runs_in_order),
    CONTRACT(a_wait_binds_to_the_latest_record),
    CONTRACT(an_event_never_recorded_is_complete),
    CONTRACT(an_event_destroyed_while_waited_for_still_orders),
    CONTRACT(elapsed_time_needs_two_timed_and_finished_events),
    CONTRACT(a_destroyed_stream_still_does_its_work),
    CONTRACT(priorities_and_flags_are_kept),
    CONTRACT(streams_have_ids),
};
const size_t n_stream_tests = FAC_COUNT(stream_tests);
