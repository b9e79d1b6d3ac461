/* A kind of device that is not CUDA, made known by a table, an allocator and kernels: support/npu.c, which includes nothing
   but public headers. */
#include "support/npu.h"
#include "support/support.h"
#include <facula/facula.h>
#include <pthread.h>

static int npu_setup(void **state) {
    int failed = support_setup(state);
    return failed ? failed : npu_register() != FAC_OK;
}

static int npu_teardown(void **state) {
    for (int d = 0; d < NPU_DEVICES; d++)
        if (npu_blocks(d) != 0) return -1;
    fac_shutdown();
    return support_teardown(state);
}
#define NPU_TEST(name) cmocka_unit_test_setup_teardown(name, npu_setup, npu_teardown)

static void S038_E30_every_entry_of_the_guard_table_is_reached(void **state) {
    (void)state;
    double ms;
    bool done;
    FAC_SCOPE(s);
    assert_int_equal(fac_device_count(FAC_PRIVATE1), 3);
    assert_true(fac_device_is_available(FAC_PRIVATE1));
    assert_ok(fac_set_device(npu(2)));
    assert_true(fac_device_equal(fac_current_device(FAC_PRIVATE1), npu(2)));
    fac_stream a = fac_stream_new(npu(-1), 0), first = fac_default_stream(npu(2));
    assert_true(fac_device_equal(a.device, npu(2)) && a.id != 0 && first.id == 0);
    assert_true(fac_stream_equal(fac_current_stream(npu(2)), first));
    assert_true(fac_stream_equal(fac_stream_wrap(npu(2), fac_stream_handle(a)), a));
    fac_event *begin = fac_event_new(FAC_PRIVATE1, .enable_timing = true),
              *end = fac_event_new(FAC_PRIVATE1, .enable_timing = true);
    assert_ok(fac_event_record(begin, a));
    assert_ok(fac_event_record(end, a));
    assert_ok(fac_event_elapsed(begin, end, &ms));
    assert_true(ms == 1);
    assert_ok(fac_event_query(end, &done));
    assert_true(done);
    assert_ok(fac_event_synchronize(end));
    assert_ok(fac_stream_query(a, &done));
    assert_ok(fac_stream_synchronize(a));
    assert_ok(fac_synchronize(npu(2)));
    fac_tensor *t = fac_zeros(FAC_SHAPE(3), .device = npu(-1));
    assert_true(fac_device_equal(fac_tensor_device(t), npu(2)));
    assert_ok(fac_record_stream(t, a));
    fac_event_free(begin);
    fac_event_free(end);
}

static void add_one(void *x) { ++*(int *)x; }
static void times_ten(void *x) { *(int *)x *= 10; }

static void S039_streams_of_a_third_device_wait_for_each_other(void **state) {
    (void)state;
    bool done;
    int x = 1;
    fac_stream a = fac_stream_new(npu(0), 0), b = fac_stream_new(npu(0), 0);
    {
        FAC_STREAM_SCOPE(on, a);
        npu_queue(0, add_one, &x);
    }
    assert_ok(fac_stream_wait_stream(b, a));
    {
        FAC_STREAM_SCOPE(on, b);
        npu_queue(0, times_ten, &x);
    }
    assert_int_equal(x, 1);
    assert_ok(fac_stream_query(b, &done));
    assert_false(done);
    assert_ok(fac_stream_synchronize(b));
    assert_int_equal(x, 20);
    assert_int_equal(npu_pending(), 0);
}

static void S039_operators_and_autograd_run_on_a_third_device(void **state) {
    (void)state;
    float values[4];
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3, 4), .device = npu(1));
    assert_no_error();
    fac_set_requires_grad(x, true);
    fac_tensor *y = fac_sum(fac_mul(fac_add(x, 1), x));
    assert_no_error();
    assert_true(fac_device_equal(fac_tensor_device(y), npu(1)));
    assert_true(fac_item(y) == 40);
    assert_ok(fac_backward(y));
    assert_true(fac_device_equal(fac_tensor_device(fac_grad_of(x)), npu(1)));
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, values, 4));
    for (int i = 0; i < 4; i++) assert_true(values[i] == (float)(2 * (i + 1) + 1));
    assert_true(npu_blocks(1) > 0);
    assert_int_equal(npu_blocks(0), 0);
}

static fac_tensor *note_thread(void *context, fac_tensor *grad) {
    *(pthread_t *)context = pthread_self();
    return grad;
}

static void S130_backward_over_several_devices_uses_a_thread_for_each(void **state) {
    (void)state;
    float values[2];
    pthread_t on[2];
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    fac_tensor *a = fac_to(x, .device = npu(0)), *b = fac_to(x, .device = npu(1));
    fac_tensor *aa = fac_mul(a, a), *bb = fac_mul(fac_mul(b, b), b);
    fac_register_hook(aa, note_thread, &on[0]);
    fac_register_hook(bb, note_thread, &on[1]);
    fac_tensor *y = fac_add(fac_sum(aa), fac_to(fac_sum(bb), .device = npu(0)));
    assert_no_error();
    assert_ok(fac_backward(y, .retain_graph = true));
    assert_false(pthread_equal(on[0], on[1]));
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, values, 2));
    assert_true(values[0] == 2 + 3 && values[1] == 4 + 12);
    assert_ok(fac_backward(y)); /* accumulates */
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, values, 2));
    assert_true(values[0] == 10 && values[1] == 32);
}

static fac_tensor *refuse(void *context, fac_tensor *grad) {
    (void)context, (void)grad;
    fac_error_set(FAC_ERR_ARGUMENT, "the hook refuses");
    return NULL;
}

static void S130_failure_on_one_device_ends_the_pass_on_all(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_set_requires_grad(fac_tensor_of(1, 2), true), *sum = fac_sum(x);
        for (int d = 0; d < NPU_DEVICES; d++) {
            fac_tensor *a = fac_to(x, .device = npu(d));
            for (int k = 0; k < 10; k++) a = fac_mul(a, 2);
            if (d == i % NPU_DEVICES) fac_register_hook(a, refuse, NULL);
            sum = fac_add(sum, fac_to(fac_sum(a), .device = fac_device_make(FAC_CPU, -1)));
        }
        assert_no_error();
        assert_int_equal(fac_backward(sum), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "the hook refuses");
    }
}

static void S033_S035_device_scopes_nest_and_restore(void **state) {
    (void)state;
    FAC_SCOPE(s);
    {
        FAC_DEVICE_SCOPE(one, npu(1));
        assert_true(fac_device_equal(fac_tensor_device(fac_ones(FAC_SHAPE(2), .device = npu(-1))), npu(1)));
        {
            FAC_DEVICE_SCOPE(two, npu(2));
            assert_true(fac_device_equal(fac_tensor_device(fac_ones(FAC_SHAPE(2), .device = npu(-1))), npu(2)));
            assert_true(fac_device_equal(fac_tensor_device(fac_ones(FAC_SHAPE(2), .device = npu(0))), npu(0)));
            fac_error_set(FAC_ERR_ARGUMENT, "left with an error pending");
        }
        assert_error(FAC_ERR_ARGUMENT, "left with");
        assert_true(fac_device_equal(fac_current_device(FAC_PRIVATE1), npu(1)));
        {
            FAC_DEVICE_SCOPE(none, npu(7));
            assert_error(FAC_ERR_DEVICE, "npu:7 is not there");
        }
    }
    assert_true(fac_device_equal(fac_current_device(FAC_PRIVATE1), npu(0)));
}

static void S036_operands_on_two_devices_are_an_error_that_names_both(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_SHAPE(2), .device = npu(0)), *b = fac_ones(FAC_SHAPE(2), .device = npu(1));
    fac_tensor *m = fac_ones(FAC_SHAPE(2, 2)), *n = fac_ones(FAC_SHAPE(2, 2), .device = npu(1));
    assert_null(fac_mm(m, n));
    assert_error(FAC_ERR_DEVICE, "private1:1");
    assert_ok(fac_copy_(a, b) ? FAC_OK : fac_error());
    assert_true(fac_device_equal(fac_tensor_device(fac_to(b, .device = npu(0))), npu(0)));
}

static void S038_guard_tables_are_checked(void **state) {
    (void)state;
    fac_device_guard g = *fac_device_guard_of(FAC_PRIVATE1);
    assert_int_equal(fac_register_device_guard(&g), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "have a guard table already");
    g.type = FAC_PRIVATE2;
    g.get_stream = NULL;
    assert_int_equal(fac_register_device_guard(&g), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "all of the functions on streams or none");
    g.count = NULL;
    assert_int_equal(fac_register_device_guard(&g), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "needs count");
    g.size = 8;
    assert_int_equal(fac_register_device_guard(&g), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "of 8 bytes");
}

static void E30_cpu_has_one_device_and_one_stream(void **state) {
    (void)state;
    double ms;
    bool done = false;
    fac_device cpu = fac_device_make(FAC_CPU, -1);
    assert_int_equal(fac_device_count(FAC_CPU), 1);
    assert_int_equal(fac_device_count(FAC_PRIVATE3), 0);
    assert_true(fac_device_equal(fac_current_device(FAC_CPU), cpu));
    assert_int_equal(fac_set_device(fac_device_make(FAC_CPU, 1)), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "must be -1 or zero, got 1");
    fac_stream s = fac_current_stream(cpu);
    fac_event *a = fac_event_new(FAC_CPU, .enable_timing = true), *b = fac_event_new(FAC_CPU, .enable_timing = true);
    assert_int_equal(fac_event_elapsed(a, b, &ms), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "must be recorded");
    assert_ok(fac_event_record(a, s));
    assert_ok(fac_event_record(b, s));
    assert_ok(fac_event_elapsed(a, b, &ms));
    assert_true(ms >= 0);
    assert_ok(fac_stream_wait_event(s, a));
    assert_ok(fac_stream_query(s, &done));
    assert_true(done);
    assert_ok(fac_stream_synchronize(s));
    assert_int_equal(fac_set_stream((fac_stream){cpu, 3}), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "one stream only");
    fac_event_free(a);
    fac_event_free(b);
}

FAC_TEST_MAIN(NPU_TEST(S038_E30_every_entry_of_the_guard_table_is_reached),
              NPU_TEST(S039_streams_of_a_third_device_wait_for_each_other),
              NPU_TEST(S039_operators_and_autograd_run_on_a_third_device),
              NPU_TEST(S130_backward_over_several_devices_uses_a_thread_for_each),
              NPU_TEST(S130_failure_on_one_device_ends_the_pass_on_all),
              NPU_TEST(S033_S035_device_scopes_nest_and_restore),
              NPU_TEST(S036_operands_on_two_devices_are_an_error_that_names_both),
              NPU_TEST(S038_guard_tables_are_checked), FAC_TEST(E30_cpu_has_one_device_and_one_stream))
