/* Copies between host and devices, and operators on devices: what waits, what is refused, which device results are on. */
#include "support/cuda.h"

#include <math.h>

static const fac_device cpu = {FAC_CPU, 0};

static void assert_on(fac_tensor *t, fac_device d) {
    char text[24];
    assert_non_null(t);
    if (!fac_device_equal(fac_tensor_device(t), d))
        print_error("is on %s\n", fac_device_format(fac_tensor_device(t), text, sizeof text));
    assert_true(fac_device_equal(fac_tensor_device(t), d));
}

/* Two tensors hold the same values, whatever their devices and orders. */
static void assert_same(fac_tensor *a, fac_tensor *b) {
    static double x[4096], y[4096];
    assert_non_null(a);
    assert_non_null(b);
    assert_true(fac__same_sizes(fac__header(a), fac__header(b)) && fac_tensor_numel(a) <= 4096);
    assert_ok(fac_tensor_read(a, FAC_F64, x, (size_t)fac_tensor_numel(a)));
    assert_ok(fac_tensor_read(b, FAC_F64, y, (size_t)fac_tensor_numel(b)));
    for (int64_t i = 0; i < fac_tensor_numel(a); i++) assert_true(x[i] == y[i] || (isnan(x[i]) && isnan(y[i])));
}

/* ---- there and back ------------------------------------------------------------------------------------------------------------ */

static void S036_copy_goes_between_any_two_devices(void **state) {
    (void)state;
    support_need_devices(2);
    const fac_device devices[] = {cpu, cuda_device(0), cuda_device(1)};
    FAC_SCOPE(s);
    fac_tensor *x = fac_reshape(fac_arange(24, .dtype = FAC_F32), FAC_INTS(4, 6));
    for (size_t i = 0; i < FAC_COUNT(devices); i++)
        for (size_t j = 0; j < FAC_COUNT(devices); j++) {
            fac_tensor *from = fac_to(x, .device = devices[i]), *to = fac_empty(FAC_SHAPE(4, 6), .device = devices[j]);
            assert_ptr_equal(fac_copy_(to, from), to);
            assert_on(from, devices[i]);
            assert_on(to, devices[j]);
            assert_same(to, x);
        }
}

static void E24_addition_after_moving_one_operand(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *a = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0)), *b = fac_tensor_of(10, 20, 30);
    assert_null(fac_add(a, b));
    assert_error(FAC_ERR_DEVICE, "cuda:0");
    b = fac_to(b, .device = cuda_device(0));
    fac_tensor *c = fac_add(a, b);
    assert_on(c, cuda_device(0));
    assert_same(c, fac_tensor_of(11, 22, 33));
}

static void S036_operands_on_two_gpus_are_an_error_naming_both(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *a = fac_to(fac_tensor_of(1, 2), .device = cuda_device(0));
    fac_tensor *b = fac_to(fac_tensor_of(1, 2), .device = cuda_device(1));
    assert_null(fac_add(a, b));
    assert_int_equal(fac_error(), FAC_ERR_DEVICE);
    assert_non_null(strstr(fac_error_message(), "cuda:1"));
    assert_error(FAC_ERR_DEVICE, "cuda:0");
}

static void S034_operators_run_on_their_operands_device(void **state) {
    (void)state;
    support_need_devices(3);
    FAC_SCOPE(s);
    fac_tensor *a = fac_to(fac_tensor_of(1, 2), .device = cuda_device(2));
    FAC_DEVICE_SCOPE(d, cuda_device(1));
    fac_tensor *b = fac_add(a, a);
    assert_on(b, cuda_device(2));
    assert_same(b, fac_tensor_of(2, 4));
    assert_true(fac_device_equal(fac_current_device(FAC_CUDA), cuda_device(1)));
}

static void S036_to_cuda_and_cpu_move_or_do_nothing(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3), *y = fac_to(x, .device = fac_device_parse("cuda"));
    assert_on(y, cuda_device(0));
    assert_ptr_equal(fac_to(y, .device = cuda_device(0)), y);
    {
        FAC_DEVICE_SCOPE(d, cuda_device(1));
        assert_on(fac_to(x, .device = fac_device_parse("cuda")), cuda_device(1));
        assert_on(fac_to(y, .device = fac_device_parse("cuda")), cuda_device(1));
    }
    fac_tensor *back = fac_to(y, .device = cpu);
    assert_on(back, cpu);
    assert_same(back, x);
    fac_tensor *half = fac_to(x, .device = cuda_device(1), .dtype = FAC_F16);
    assert_on(half, cuda_device(1));
    assert_int_equal(fac_tensor_dtype(half), FAC_F16);
    assert_same(half, x);
}

static void S036_copy_from_meta_is_an_error(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *m = fac_empty(FAC_SHAPE(2), .device = fac_device_parse("meta"));
    assert_null(fac_to(m, .device = cuda_device(0)));
    assert_error(FAC_ERR_DEVICE, "Cannot copy out of meta tensor");
}

/* ---- orders and dtypes ------------------------------------------------------------------------------------------------------------- */

static void S036_copy_across_devices_keeps_values_in_any_order_and_dtype(void **state) {
    (void)state;
    support_need_devices(2);
    const fac_device devices[] = {cpu, cuda_device(0), cuda_device(1)};
    const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I32, FAC_U8, FAC_F16};
    FAC_SCOPE(s);
    fac_tensor *x = fac_reshape(fac_arange(24, .dtype = FAC_F32), FAC_INTS(2, 3, 4));
    for (size_t i = 0; i < FAC_COUNT(devices); i++)
        for (size_t j = 0; j < FAC_COUNT(devices); j++)
            for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
                FAC_SCOPE(inner);
                fac_tensor *from = fac_transpose(fac_to(x, .device = devices[i]), 0, 2);
                fac_tensor *room = fac_zeros(FAC_SHAPE(4, 2, 6), .dtype = dtypes[d], .device = devices[j]);
                fac_tensor *to = fac_transpose(fac_slice(room, 2, .start = 0, .end = 6, .step = 2), 1, 2);
                assert_non_null(to);
                assert_non_null(fac_copy_(to, from));
                assert_same(to, fac_transpose(x, 0, 2));
                assert_same(fac_slice(room, 2, .start = 1, .end = 6, .step = 2),
                            fac_zeros(FAC_SHAPE(4, 2, 3))); /* gaps untouched */
            }
}

static void S036_copy_across_devices_broadcasts(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *row = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0));
    fac_tensor *to = fac_empty(FAC_SHAPE(2, 3), .device = cuda_device(1));
    assert_non_null(fac_copy_(to, row));
    assert_same(to, fac_expand(fac_tensor_of(1, 2, 3), FAC_INTS(2, 3)));
    fac_tensor *host = fac_empty(FAC_SHAPE(2, 3));
    assert_non_null(fac_copy_(host, row));
    assert_same(host, to);
    assert_null(fac_copy_(to, fac_to(fac_tensor_of(1, 2), .device = cuda_device(0))));
    assert_error(FAC_ERR_SHAPE, "size of tensor a (3) must match");
}

static void S036_copy_of_nothing(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *none = fac_to(fac_empty(FAC_SHAPE(0, 3)), .device = cuda_device(0));
    assert_on(none, cuda_device(0));
    assert_int_equal(fac_tensor_numel(none), 0);
    assert_on(fac_to(none, .device = cpu), cpu);
    assert_no_error();
}

static void S036_copy_between_overlapping_views_reads_first(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_arange(8, .dtype = FAC_F32), .device = cuda_device(0));
    fac_copy_(fac_slice(x, 0, .start = 1, .end = 8, .step = 1), fac_slice(x, 0, .start = 0, .end = 7, .step = 1));
    assert_same(x, fac_tensor_of(0, 0, 1, 2, 3, 4, 5, 6));
}

/* ---- non_blocking --------------------------------------------------------------------------------------------------------------------- */

static fac_stream home(void) { return fac_default_stream(cuda_device(0)); }

static bool pending(void) {
    bool done = false;
    assert_ok(fac_stream_query(home(), &done));
    return !done;
}

static void S049_copy_non_blocking_from_pinned_memory_does_not_wait(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *host = fac_pin_memory(fac_tensor_of(1, 2, 3)), *back = fac_pin_memory(fac_zeros(FAC_SHAPE(3)));
    fac_tensor *x = fac_empty(FAC_SHAPE(3), .device = cuda_device(0));
    support_gate_close(home());
    assert_non_null(fac_copy_(x, host, .non_blocking = true));
    assert_non_null(fac_copy_(back, x, .non_blocking = true));
    assert_true(pending());
    support_gate_open();
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_false(pending());
    assert_same(back, host);
}

static void S049_copy_non_blocking_from_pageable_memory_waits(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    float values[] = {1, 2, 3};
    fac_tensor *host = fac_tensor_wrap(values, sizeof values, FAC_F32, FAC_INTS(3), FAC_INTS(1), 0, NULL, NULL);
    fac_tensor *x = fac_empty(FAC_SHAPE(3), .device = cuda_device(0));
    assert_non_null(fac_copy_(x, host, .non_blocking = true));
    values[0] = 9; /* seen by nobody */
    assert_same(x, fac_tensor_of(1, 2, 3));
    assert_non_null(fac_copy_(host, x, .non_blocking = true));
    assert_true(values[0] == 1);
}

static void S049_copy_blocking_waits_for_pinned_memory_too(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *host = fac_pin_memory(fac_tensor_of(1, 2, 3));
    fac_tensor *x = fac_to(host, .device = cuda_device(0));
    assert_non_null(x);
    assert_false(pending());
    support_gate_close(home());
    fac_tensor *y = fac_to(host, .device = cuda_device(0), .non_blocking = true);
    assert_true(pending());
    support_gate_open();
    assert_same(x, y);
}

static void S045_copy_on_a_device_does_not_wait_and_reading_does(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0));
    support_gate_close(home());
    fac_tensor *y = fac_clone(x);
    assert_true(pending());
    support_gate_open();
    assert_true(fac_item(fac_select(y, 0, 2)) == 3);
    assert_same(y, x);
}

/* ---- the examples of PyTorch's notes ----------------------------------------------------------------------------------------------------- */

static void S054_flow_from_host_to_device_and_back(void **state) {
    (void)state;
    support_need_devices(1);
    float host[256], back[256];
    for (int i = 0; i < 256; i++) host[i] = (float)i;
    FAC_SCOPE(s);
    fac_tensor *d = fac_empty(FAC_SHAPE(256), .device = cuda_device(0));
    fac_copy_(d, fac_tensor_wrap(host, sizeof host, FAC_F32, FAC_INTS(256), FAC_INTS(1), 0, NULL, NULL));
    fac_tensor *sum = fac_add(d, d);
    assert_ok(fac_tensor_read(sum, FAC_F32, back, 256));
    for (int i = 0; i < 256; i++) assert_true(back[i] == 2 * host[i]);
    fac_drop(sum);
    fac_drop(d);
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
}

static void E83_tensor_and_module_on_the_device_there_is(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device device = fac_cuda_is_available() ? fac_device_parse("cuda") : fac_device_parse("cpu");
    fac_tensor *x = fac_empty(FAC_SHAPE(8, 42), .device = device);
    assert_on(x, cuda_device(0));
    assert_true(fac_tensor_size(x, 0) == 8 && fac_tensor_size(x, 1) == 42);
    fac_module *net = fac_linear_new(42, 5);
    assert_ok(fac_module_to(net, .device = device));
    assert_on(fac_module_parameter(net, "weight"), cuda_device(0));
    assert_on(fac_forward(net, x), cuda_device(0));
    fac_module_release(net);
}

static void E84_batches_move_one_by_one(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *all = fac_reshape(fac_arange(12, .dtype = FAC_F32), FAC_INTS(3, 4));
    for (int i = 0; i < 3; i++) {
        FAC_SCOPE(batch);
        fac_tensor *x = fac_to(fac_select(all, 0, i), .device = cuda_device(0));
        assert_on(x, cuda_device(0));
        assert_same(x, fac_select(all, 0, i));
    }
}

static void E85_outside_and_inside_a_device_scope(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    assert_on(fac_empty(FAC_SHAPE(1), .device = fac_device_parse("cuda")), cuda_device(0)); /* outside device is 0 */
    {
        FAC_DEVICE_SCOPE(d, cuda_device(1));
        assert_on(fac_empty(FAC_SHAPE(1), .device = fac_device_parse("cuda")), cuda_device(1)); /* inside is 1 */
    }
    assert_on(fac_empty(FAC_SHAPE(1), .device = fac_device_parse("cuda")), cuda_device(0)); /* still 0 */
}

static void E86_new_full_prints_its_device(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x_gpu = fac_empty(FAC_SHAPE(2), .device = fac_device_parse("cuda"));
    fac_tensor *y_gpu = fac_new_full(x_gpu, FAC_SHAPE(3, 2), -5);
    assert_on(y_gpu, cuda_device(0));
    char *text = fac_tensor_string(y_gpu);
    assert_non_null(text);
    assert_string_equal(text, "tensor([[-5., -5.],\n        [-5., -5.],\n        [-5., -5.]], device='cuda:0')");
    fac_string_free(text);
}

static void E87_zeros_like_keeps_the_device(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *x_gpu = fac_empty(FAC_SHAPE(2, 3), .device = cuda_device(1));
    assert_on(fac_zeros_like(x_gpu), cuda_device(1));
    assert_same(fac_zeros_like(x_gpu), fac_zeros(FAC_SHAPE(2, 3)));
    assert_same(fac_ones_like(x_gpu), fac_ones(FAC_SHAPE(2, 3)));
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S036_copy_goes_between_any_two_devices),
              FAC_CUDA_TEST(E24_addition_after_moving_one_operand),
              FAC_CUDA_TEST(S036_operands_on_two_gpus_are_an_error_naming_both),
              FAC_CUDA_TEST(S034_operators_run_on_their_operands_device),
              FAC_CUDA_TEST(S036_to_cuda_and_cpu_move_or_do_nothing), FAC_CUDA_TEST(S036_copy_from_meta_is_an_error),
              FAC_CUDA_TEST(S036_copy_across_devices_keeps_values_in_any_order_and_dtype),
              FAC_CUDA_TEST(S036_copy_across_devices_broadcasts), FAC_CUDA_TEST(S036_copy_of_nothing),
              FAC_CUDA_TEST(S036_copy_between_overlapping_views_reads_first),
              FAC_CUDA_TEST(S049_copy_non_blocking_from_pinned_memory_does_not_wait),
              FAC_CUDA_TEST(S049_copy_non_blocking_from_pageable_memory_waits),
              FAC_CUDA_TEST(S049_copy_blocking_waits_for_pinned_memory_too),
              FAC_CUDA_TEST(S045_copy_on_a_device_does_not_wait_and_reading_does),
              FAC_CUDA_TEST(S054_flow_from_host_to_device_and_back),
              FAC_CUDA_TEST(E83_tensor_and_module_on_the_device_there_is), FAC_CUDA_TEST(E84_batches_move_one_by_one),
              FAC_CUDA_TEST(E85_outside_and_inside_a_device_scope), FAC_CUDA_TEST(E86_new_full_prints_its_device),
              FAC_CUDA_TEST(E87_zeros_like_keeps_the_device))
