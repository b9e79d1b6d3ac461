/* Streams and events: pools, priorities, current stream of each thread, waits, times. */
#include "support/cuda.h"

#include <pthread.h>

enum { N = 1 << 16, SEEDS = 8 };

/* Owned by the innermost scope: N bytes on a device, in any state, for all streams: what was queued for their allocation is
   done. */
static fac_tensor *bytes_on(int index) {
    fac_tensor *t = fac_empty(FAC_SHAPE(N), .dtype = FAC_U8, .device = cuda_device(index));
    assert_ok(fac_stream_synchronize(fac_current_stream(cuda_device(index))));
    return t;
}

/* Queues a fill and a copy on the current stream of the tensor's device. */
static void fill(fac_tensor *t, int value) {
    assert_ok(fac__cuda_memset(fac_tensor_device(t).index_plus - 1, fac_tensor_data(t), value, N));
}
static void copy(fac_tensor *to, fac_tensor *from) {
    assert_ok(fac__cuda_copy(fac_tensor_device(to), fac_tensor_data(to), fac_tensor_device(from), fac_tensor_data(from),
                             N, true));
}

static bool all_are(fac_tensor *t, int value) {
    static uint8_t back[N];
    assert_ok(fac_tensor_read(t, FAC_U8, back, N));
    for (int i = 0; i < N; i++)
        if (back[i] != value) return false;
    return true;
}

/* Other orders of the same queues, where the simulator draws them. */
static void reseed(int seed) {
    char option[32];
    snprintf(option, sizeof option, "seed=%d", seed);
    if (fac_cuda_is_simulated()) support_sim_set(option);
}

/* ---- streams ------------------------------------------------------------------------------------------------------------------- */

static void S041_stream_current_is_the_default_until_set(void **state) {
    (void)state;
    support_need_devices(2);
    fac_stream standard = fac_default_stream(cuda_device(1)), s = fac_stream_new(cuda_device(1), 0);
    assert_true(fac_stream_equal(fac_current_stream(cuda_device(1)), standard));
    assert_int_equal(standard.id, 0);
    assert_null(fac_stream_handle(standard));
    assert_non_null(fac_stream_handle(s));
    {
        FAC_STREAM_SCOPE(scope, s);
        assert_true(fac_stream_equal(fac_current_stream(cuda_device(1)), s));
        assert_true(fac_stream_equal(fac_current_stream(cuda_device(0)), fac_default_stream(cuda_device(0))));
        assert_true(fac_device_equal(fac_current_device(FAC_CUDA), cuda_device(1)));
    }
    assert_true(fac_stream_equal(fac_current_stream(cuda_device(1)), standard));
    assert_true(fac_device_equal(fac_current_device(FAC_CUDA), cuda_device(0)));
    assert_ok(fac_set_stream(s));
    assert_true(fac_stream_equal(fac_current_stream(cuda_device(1)), s));
    assert_true(fac_device_equal(fac_current_device(FAC_CUDA), cuda_device(0)));
    assert_ok(fac_set_stream(standard));
    assert_no_error();
}

static void *current_stream_id(void *out) {
    *(int64_t *)out = fac_current_stream(cuda_device(0)).id;
    return NULL;
}

static void S041_stream_current_is_of_the_thread(void **state) {
    (void)state;
    support_need_devices(1);
    pthread_t other;
    int64_t seen = -1;
    assert_ok(fac_set_stream(fac_stream_new(cuda_device(0), 0)));
    assert_int_equal(pthread_create(&other, NULL, current_stream_id, &seen), 0);
    pthread_join(other, NULL);
    assert_int_equal(seen, 0);
    assert_ok(fac_set_stream(fac_default_stream(cuda_device(0))));
}

static void S040_stream_pool_gives_32_in_turn(void **state) {
    (void)state;
    support_need_devices(1);
    fac_stream s[FAC_CUDA_POOL_STREAMS + 1];
    for (int i = 0; i <= FAC_CUDA_POOL_STREAMS; i++) s[i] = fac_stream_new(cuda_device(0), 0);
    for (int i = 0; i < FAC_CUDA_POOL_STREAMS; i++)
        for (int j = 0; j < i; j++) {
            assert_false(fac_stream_equal(s[i], s[j]));
            assert_ptr_not_equal(fac_stream_handle(s[i]), fac_stream_handle(s[j]));
        }
    assert_true(fac_stream_equal(s[0], s[FAC_CUDA_POOL_STREAMS]));
    assert_ptr_equal(fac_stream_handle(s[0]), fac_stream_handle(s[FAC_CUDA_POOL_STREAMS]));
}

static int priority_of(fac_stream s) {
    int p = 1;
    assert_int_equal(fac__cu.cuStreamGetPriority(fac_stream_handle(s), &p), CUDA_SUCCESS);
    return p;
}

static void S040_stream_priorities_have_pools_of_their_own(void **state) {
    (void)state;
    support_need_devices(1);
    fac_stream normal = fac_stream_new(cuda_device(0), 0), high = fac_stream_new(cuda_device(0), -1);
    fac_stream beyond = fac_stream_new(cuda_device(0), -1000);
    assert_false(fac_stream_equal(normal, high));
    assert_int_equal(priority_of(normal), 0);
    assert_int_equal(priority_of(high), -1);
    assert_true(priority_of(beyond) <= -1);
    fac_stream none = fac_stream_new(cuda_device(0), 1);
    assert_int_equal(none.device.type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_ARGUMENT, "priority");
}

static void S040_stream_of_others_is_wrapped(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(scope);
    CUstream handle;
    fac_cuda_entry entry;
    fac_tensor *a = bytes_on(0), *b = bytes_on(0);
    assert_ok(fac__cuda_enter(0, &entry));
    assert_int_equal(fac__cu.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    fac_stream s = fac_stream_wrap(cuda_device(0), handle);
    assert_ptr_equal(fac_stream_handle(s), handle);
    assert_true(fac_stream_equal(fac_stream_wrap(cuda_device(0), handle), s));
    assert_true(fac_stream_equal(fac_stream_wrap(cuda_device(0), NULL), fac_default_stream(cuda_device(0))));
    assert_true(
        fac_stream_equal(fac_stream_wrap(cuda_device(0), CU_STREAM_LEGACY), fac_default_stream(cuda_device(0))));
    fac_stream own = fac_stream_new(cuda_device(0), 0);
    assert_true(fac_stream_equal(fac_stream_wrap(cuda_device(0), fac_stream_handle(own)), own));
    assert_int_equal(fac_stream_wrap(cuda_device(0), (char *)handle + 1).device.type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_ARGUMENT, "is no CUstream");
    {
        FAC_STREAM_SCOPE(on, s);
        fill(a, 7);
        copy(b, a);
    }
    assert_ok(fac_stream_synchronize(s));
    assert_true(all_are(b, 7));
    assert_int_equal(fac__cu.cuStreamDestroy(handle), CUDA_SUCCESS);
    fac__cuda_leave(&entry);
}

static void S040_stream_work_runs_in_order(void **state) {
    (void)state;
    support_need_devices(1);
    for (int seed = 1; seed <= SEEDS; seed++) {
        FAC_SCOPE(scope);
        reseed(seed);
        fac_stream s = fac_stream_new(cuda_device(0), 0);
        fac_tensor *a = bytes_on(0), *b = bytes_on(0);
        FAC_STREAM_SCOPE(on, s);
        for (int i = 1; i <= 5; i++) {
            fill(a, i);
            copy(b, a);
        }
        fill(a, 9);
        assert_ok(fac_stream_synchronize(s));
        assert_true(all_are(b, 5));
    }
}

/* Without a wait a stream may overtake another: on the simulator some seed shows it. */
static void S040_stream_work_of_two_may_overlap(void **state) {
    (void)state;
    support_need_no_checker();
    support_need_simulator();
    int early = 0, late = 0;
    for (int seed = 1; seed <= 64; seed++) {
        FAC_SCOPE(scope);
        reseed(seed);
        fac_stream s1 = fac_stream_new(cuda_device(0), 0), s2 = fac_stream_new(cuda_device(0), 0);
        fac_tensor *a = bytes_on(0), *b = bytes_on(0);
        fill(a, 1);
        assert_ok(fac_synchronize(cuda_device(0)));
        FAC_STREAM_SCOPE(on1, s1);
        fill(a, 2);
        FAC_STREAM_SCOPE(on2, s2);
        copy(b, a);
        assert_ok(fac_synchronize(cuda_device(0)));
        if (all_are(b, 1))
            early++;
        else
            late += all_are(b, 2);
    }
    assert_true(early > 0 && late > 0);
    assert_int_equal(early + late, 64);
}

static void S042_stream_waits_for_another(void **state) {
    (void)state;
    support_need_devices(1);
    for (int seed = 1; seed <= SEEDS; seed++) {
        FAC_SCOPE(scope);
        reseed(seed);
        fac_stream s1 = fac_stream_new(cuda_device(0), 0), s2 = fac_stream_new(cuda_device(0), 0);
        fac_tensor *a = bytes_on(0), *b = bytes_on(0);
        fill(a, 1);
        assert_ok(fac_stream_wait_stream(s1, fac_current_stream(cuda_device(0))));
        FAC_STREAM_SCOPE(on1, s1);
        fill(a, 2);
        assert_ok(fac_stream_wait_stream(s2, s1));
        FAC_STREAM_SCOPE(on2, s2);
        copy(b, a);
        assert_ok(fac_stream_synchronize(s2));
        assert_true(all_are(b, 2));
    }
}

static void S042_stream_waits_for_an_event_of_another_device(void **state) {
    (void)state;
    support_need_devices(2);
    for (int seed = 1; seed <= SEEDS; seed++) {
        FAC_SCOPE(scope);
        reseed(seed);
        fac_stream s0 = fac_stream_new(cuda_device(0), 0), s1 = fac_stream_new(cuda_device(1), 0);
        fac_tensor *a = bytes_on(0), *b = bytes_on(1), *other = bytes_on(0);
        fac_event *e = fac_event_new(FAC_CUDA);
        {
            FAC_STREAM_SCOPE(on, s0);
            fill(a, 10 + seed); /* unlike what the block held before */
            assert_ok(fac_event_record(e, s0));
            fill(other, 4); /* after the mark: nobody waits for it */
            assert_ok(fac_stream_wait_event(s1, e));
            fac_event_free(e);
        }
        FAC_STREAM_SCOPE(from, fac_stream_new(cuda_device(0), 0));
        FAC_STREAM_SCOPE(to, s1);
        copy(b, a); /* in stream `from`, once s1 is ready for it, and that is after the mark */
        assert_ok(fac_stream_synchronize(s1));
        assert_true(all_are(b, 10 + seed));
        assert_ok(fac_stream_synchronize(s0));
    }
}

static void record_stream_of_another_device_is_an_error(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(scope);
    fac_tensor *t = bytes_on(0);
    assert_int_equal(fac_record_stream(t, fac_default_stream(cuda_device(1))), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "on cuda:0 cannot be recorded in a stream of cuda:1");
    assert_int_equal(fac_record_stream(t, fac_default_stream(fac_device_make(FAC_CPU, -1))), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "in a stream of cpu");
    assert_ok(fac_record_stream(t, fac_default_stream(cuda_device(0))));
}

static void S042_stream_wait_binds_the_last_record(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(scope);
    fac_stream s = fac_stream_new(cuda_device(0), 0);
    fac_event *e = fac_event_new(FAC_CUDA);
    bool done = false;
    assert_ok(fac_event_query(e, &done)); /* never recorded */
    assert_true(done);
    assert_ok(fac_stream_wait_event(s, e));
    assert_ok(fac_event_synchronize(e));
    fac_tensor *a = bytes_on(0), *b = bytes_on(0);
    for (int i = 1; i <= 3; i++) {
        fill(a, i);
        assert_ok(fac_event_record(e, fac_current_stream(cuda_device(0))));
    }
    assert_ok(fac_stream_wait_event(s, e));
    FAC_STREAM_SCOPE(on, s);
    copy(b, a);
    assert_ok(fac_stream_synchronize(s));
    assert_true(all_are(b, 3));
    fac_event_free(e);
}

static void S045_stream_calls_return_before_the_work_is_done(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(scope);
    fac_stream s1 = fac_stream_new(cuda_device(0), 0), s2 = fac_stream_new(cuda_device(0), 0);
    fac_tensor *a = bytes_on(0), *b = bytes_on(0);
    bool done = false;
    assert_ok(fac_synchronize(cuda_device(0)));
    support_gate_close(s2);
    {
        FAC_STREAM_SCOPE(on, s1);
        fill(a, 1);
    }
    {
        FAC_STREAM_SCOPE(on, s2);
        fill(b, 2);
    }
    assert_ok(fac_stream_synchronize(s1));
    assert_ok(fac_stream_query(s1, &done));
    assert_true(done);
    assert_ok(fac_stream_query(s2, &done));
    assert_false(done);
    support_gate_open();
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_stream_query(s2, &done));
    assert_true(done);
    assert_true(all_are(a, 1) && all_are(b, 2));
}

static void S048_synchronize_waits_for_all_streams_of_the_device(void **state) {
    (void)state;
    support_need_devices(1);
    fac_stream s[8];
    bool done;
    FAC_SCOPE(scope);
    fac_tensor *t[8];
    for (int i = 0; i < 8; i++) {
        s[i] = fac_stream_new(cuda_device(0), -(i % 2));
        t[i] = bytes_on(0);
    }
    assert_ok(fac_synchronize(cuda_device(0)));
    for (int i = 0; i < 8; i++) {
        FAC_STREAM_SCOPE(on, s[i]);
        fill(t[i], i);
    }
    assert_ok(fac_synchronize(fac_device_parse("cuda")));
    for (int i = 0; i < 8; i++) {
        assert_ok(fac_stream_query(s[i], &done));
        assert_true(done);
        assert_true(all_are(t[i], i));
    }
}

static void S050_stream_default_orders_copies_between_devices_by_itself(void **state) {
    (void)state;
    support_need_devices(3);
    for (int seed = 1; seed <= SEEDS; seed++) {
        FAC_SCOPE(scope);
        reseed(seed);
        fac_tensor *a = bytes_on(0), *b = bytes_on(1), *c = bytes_on(2);
        fill(b, 9);
        fill(a, 1);
        copy(b, a); /* reads a after its fill, writes b after its own */
        fill(a, 2);
        copy(c, b);
        fill(b, 3);
        assert_true(all_are(c, 1));
        assert_true(all_are(b, 3));
        assert_true(all_are(a, 2));
    }
}

/* ---- events ---------------------------------------------------------------------------------------------------------------------- */

static void S043_event_times_work(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(scope);
    fac_event *start = fac_event_new(FAC_CUDA, .enable_timing = true),
              *end = fac_event_new(FAC_CUDA, .enable_timing = true);
    fac_stream s = fac_current_stream(cuda_device(0));
    fac_tensor *a = bytes_on(0);
    double ms = -1;
    assert_int_equal(fac_event_elapsed(start, end, &ms), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "recorded");
    assert_ok(fac_event_record(start, s));
    for (int i = 0; i < 10; i++) fill(a, i);
    assert_ok(fac_event_record(end, s));
    assert_ok(fac_event_synchronize(end));
    assert_ok(fac_event_elapsed(start, end, &ms));
    assert_true(ms >= 0 && ms < 60e3);
    fac_event *untimed = fac_event_new(FAC_CUDA);
    assert_ok(fac_event_record(untimed, s));
    assert_int_equal(fac_event_elapsed(start, untimed, &ms), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "with timing");
    fac_event_free(start);
    fac_event_free(end);
    fac_event_free(untimed);
}

/* The example of PyTorch's notes: two events around the work, a synchronisation, the time between them. */
static void E61_event_timing_example(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(scope);
    fac_event *start_event = fac_event_new(FAC_CUDA, .enable_timing = true),
              *end_event = fac_event_new(FAC_CUDA, .enable_timing = true);
    fac_tensor *a = bytes_on(0), *b = bytes_on(0);
    double elapsed_time_ms = -1;
    assert_ok(fac_event_record(start_event, fac_current_stream(fac_device_parse("cuda"))));
    fill(a, 1);
    copy(b, a);
    assert_ok(fac_event_record(end_event, fac_current_stream(fac_device_parse("cuda"))));
    assert_ok(fac_synchronize(fac_device_parse("cuda"))); /* wait for the events to be recorded */
    assert_ok(fac_event_elapsed(start_event, end_event, &elapsed_time_ms));
    assert_true(elapsed_time_ms >= 0);
    fac_event_free(start_event);
    fac_event_free(end_event);
}

static void S043_event_of_one_device_is_not_recorded_on_another(void **state) {
    (void)state;
    support_need_devices(2);
    fac_event *e = fac_event_new(FAC_CUDA);
    assert_ok(fac_event_record(e, fac_default_stream(cuda_device(0))));
    assert_int_equal(fac_event_record(e, fac_default_stream(cuda_device(1))), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "cuda:1");
    fac_event_free(e);
}

static void S043_event_handles_are_used_again(void **state) {
    (void)state;
    support_need_simulator();
    fac_stream s = fac_default_stream(cuda_device(0));
    int64_t made = -1;
    for (int i = 0; i < 100; i++) {
        fac_event *e = fac_event_new(FAC_CUDA, .enable_timing = i % 2);
        assert_ok(fac_event_record(e, s));
        fac_event_free(e);
        if (i == 1) made = support_sim_count("events");
    }
    assert_int_equal(support_sim_count("events"), made);
}

static void S043_event_outlives_a_shutdown_harmlessly(void **state) {
    (void)state;
    support_need_devices(1);
    fac_event *e = fac_event_new(FAC_CUDA);
    fac_stream s = fac_stream_new(cuda_device(0), 0);
    assert_ok(fac_event_record(e, s));
    fac_shutdown();
    assert_ok(fac_init());
    assert_int_equal(fac_event_synchronize(e), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "before fac_shutdown");
    assert_ok(fac_stream_synchronize(s)); /* ids stay good: the stream is made anew */
    fac_event_free(e);
}

static void *hammer(void *failed) {
    fac_stream s = fac_stream_new(cuda_device(0), 0), t = fac_stream_new(cuda_device(0), 0);
    for (int i = 0; i < 300; i++) {
        FAC_STREAM_SCOPE(on, i % 2 ? s : t);
        bool done;
        if (fac_stream_wait_stream(s, t) || fac_stream_query(s, &done) || fac_stream_synchronize(t)) *(int *)failed = 1;
    }
    return NULL;
}

static void S040_streams_and_events_serve_many_threads(void **state) {
    (void)state;
    support_need_devices(1);
    pthread_t threads[4];
    int failed[4] = {0};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, hammer, &failed[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) assert_int_equal(failed[i], 0);
}

static fac_status use_streams_and_events(void *context) {
    (void)context;
    fac_stream s = fac_stream_new(cuda_device(0), 0);
    fac_event *e = fac_event_new(FAC_CUDA, .enable_timing = true);
    if (e && fac_event_record(e, s) == FAC_OK && fac_stream_wait_event(fac_default_stream(cuda_device(0)), e) == FAC_OK)
        (void)(fac_stream_wait_stream(s, fac_default_stream(cuda_device(0))) == FAC_OK);
    fac_event_free(e);
    fac_status st = fac_error();
    fac__cuda_shutdown(); /* what is pooled is no leak */
    return st;
}

static void S043_event_allocations_may_fail(void **state) {
    (void)state;
    support_need_no_checker();
    support_need_devices(1);
    fac__cuda_shutdown();
    support_fail_each_allocation(use_streams_and_events, NULL);
}

FAC_TEST_MAIN(
    FAC_CUDA_TEST(S041_stream_current_is_the_default_until_set), FAC_CUDA_TEST(S041_stream_current_is_of_the_thread),
    FAC_CUDA_TEST(S040_stream_pool_gives_32_in_turn), FAC_CUDA_TEST(S040_stream_priorities_have_pools_of_their_own),
    FAC_CUDA_TEST(S040_stream_of_others_is_wrapped), FAC_CUDA_TEST(S040_stream_work_runs_in_order),
    FAC_CUDA_TEST(S040_stream_work_of_two_may_overlap), FAC_CUDA_TEST(S042_stream_waits_for_another),
    FAC_CUDA_TEST(S042_stream_waits_for_an_event_of_another_device),
    FAC_CUDA_TEST(record_stream_of_another_device_is_an_error), FAC_CUDA_TEST(S042_stream_wait_binds_the_last_record),
    FAC_CUDA_TEST(S045_stream_calls_return_before_the_work_is_done),
    FAC_CUDA_TEST(S048_synchronize_waits_for_all_streams_of_the_device),
    FAC_CUDA_TEST(S050_stream_default_orders_copies_between_devices_by_itself), FAC_CUDA_TEST(S043_event_times_work),
    FAC_CUDA_TEST(E61_event_timing_example), FAC_CUDA_TEST(S043_event_of_one_device_is_not_recorded_on_another),
    FAC_CUDA_TEST(S043_event_handles_are_used_again), FAC_CUDA_TEST(S043_event_outlives_a_shutdown_harmlessly),
    FAC_CUDA_TEST(S040_streams_and_events_serve_many_threads), FAC_CUDA_TEST(S043_event_allocations_may_fail))
