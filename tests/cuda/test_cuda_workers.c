/* Passes over nodes of several devices, whose workers inherit the caller's thread state. */
#include "support/cuda.h"

enum { DEVICES = 3 };

/* The sum over the devices of a(d)^2, where a(d) is x there; `parts` gets each a(d). */
static fac_tensor *loss_over_devices(fac_tensor *x, fac_tensor **parts) {
    fac_tensor *sum = NULL;
    for (int d = 0; d < DEVICES; d++) {
        parts[d] = fac_to(x, .device = cuda_device(d));
        fac_tensor *part = fac_to(fac_sum(fac_mul(parts[d], parts[d])), .device = cuda_device(0));
        sum = sum ? fac_add(sum, part) : part;
    }
    return sum;
}

static fac_tensor *leaf(void) { return fac_set_requires_grad(fac_tensor_of(1, 2, 3), true); }

static fac_tensor *refuse(void *context, fac_tensor *grad) {
    (void)context;
    return fac_reshape(grad, FAC_SHAPE(7)); /* of three elements */
}

static void E28_failure_of_any_devices_worker_fails_the_pass(void **state) {
    (void)state;
    support_need_devices(DEVICES);
    for (int failing = 0; failing < DEVICES; failing++) {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(), *parts[DEVICES], *grad = NULL;
        fac_tensor *loss = loss_over_devices(x, parts);
        fac_register_hook(parts[failing], refuse, NULL);
        assert_int_equal(fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x), &grad), FAC_ERR_SHAPE);
        assert_non_null(strstr(fac_error_message(), "reshape"));
        fac_error_clear();
        assert_null(grad);
        assert_null(fac_grad_of(x));
        assert_int_equal(fac_error(), FAC_OK);
    }
}

typedef struct seen {
    fac_stream beside; /* current on a device of no node that the hook is of */
    fac_device current;
    int threads, calls;
} seen;

static fac_tensor *note_state(void *context, fac_tensor *grad) {
    (void)grad;
    seen *s = context;
    *s = (seen){fac_current_stream(cuda_device(3)), fac_current_device(FAC_CUDA), fac_num_threads(), s->calls + 1};
    return NULL;
}

static void E28_workers_of_devices_inherit_thread_state(void **state) {
    (void)state;
    support_need_devices(DEVICES + 1);
    FAC_SCOPE(s);
    fac_stream beside = fac_stream_new(cuda_device(3), 0);
    fac_tensor *x = leaf(), *parts[DEVICES];
    fac_tensor *loss = loss_over_devices(x, parts);
    {
        FAC_STREAM_SCOPE(on, beside);
        assert_non_null(fac_mul(fac_set_requires_grad(fac_ones(FAC_SHAPE(2), .device = cuda_device(3)), true), 2));
    }
    seen by[DEVICES] = {{.calls = 0}};
    for (int d = 0; d < DEVICES; d++) fac_register_hook(parts[d], note_state, &by[d]);
    const int threads = fac_num_threads();
    assert_ok(fac_set_num_threads(2));
    fac_stream was = fac_current_stream(cuda_device(3));
    assert_ok(fac_set_stream(beside));
    assert_ok(fac_backward(loss));
    assert_ok(fac_set_stream(was));
    assert_ok(fac_set_num_threads(threads));
    for (int d = 0; d < DEVICES; d++) {
        assert_int_equal(by[d].calls, 1);
        assert_int_equal(by[d].threads, 2);
        assert_true(fac_stream_equal(by[d].beside, beside));
        assert_true(fac_device_equal(by[d].current, cuda_device(d)));
    }
}

FAC_TEST_MAIN(FAC_CUDA_TEST(E28_failure_of_any_devices_worker_fails_the_pass),
              FAC_CUDA_TEST(E28_workers_of_devices_inherit_thread_state))
