/* Modules, optimisers and training on CUDA devices. */
#include "support/cuda.h"
#include <math.h>

#define cuda cuda_device
#define assert_on(t, index) assert_true(fac_device_equal(fac_tensor_device(t), cuda(index)))

/* The device example of the notes on CUDA semantics, all eleven tensors. */
static void E01_device_example(void **state) {
    (void)state;
    support_need_devices(3);
    FAC_SCOPE(s);
    fac_device any = fac_device_parse("cuda"), cuda0 = fac_device_parse("cuda:0"), cuda2 = fac_device_parse("cuda:2");
    fac_tensor *x = fac_to(fac_tensor_of(1, 2), .device = cuda0), *y = fac_to(fac_tensor_of(1, 2), .device = any);
    assert_on(x, 0);
    assert_on(y, 0);
    {
        FAC_DEVICE_SCOPE(on, cuda(1));
        fac_tensor *a = fac_to(fac_tensor_of(1, 2), .device = any), *b = fac_to(fac_tensor_of(1, 2), .device = any);
        fac_tensor *b2 = fac_to(fac_tensor_of(1, 2), .device = any);
        assert_on(a, 1);
        assert_on(b, 1);
        assert_on(b2, 1);
        fac_tensor *c = fac_add(a, b), *z = fac_add(x, y);
        assert_on(c, 1);
        assert_on(z, 0);
        assert_true(fac_item(fac_sum(c)) == 6 && fac_item(fac_sum(z)) == 6);
        fac_tensor *d = fac_randn(FAC_SHAPE(2), .device = cuda2), *e = fac_to(fac_randn(FAC_SHAPE(2)), .device = cuda2);
        fac_tensor *f = fac_to(fac_randn(FAC_SHAPE(2)), .device = cuda2);
        assert_on(d, 2);
        assert_on(e, 2);
        assert_on(f, 2);
    }
    assert_true(fac_device_equal(fac_current_device(FAC_CUDA), cuda(0)));
    assert_no_error();
}

static fac_module *make_net(void) {
    fac_manual_seed(7);
    fac_module *net = fac_sequential(fac_linear_new(4, 16), fac_tanh_new(), fac_linear_new(16, 1));
    assert_non_null(net);
    FAC_SCOPE(s);
    fac_module_add_buffer(net, "steps", fac_zeros(FAC_SHAPE(1), .dtype = FAC_I64));
    assert_no_error();
    return net;
}

static void assert_module_on(fac_module *m, fac_device d) {
    fac_state *lists[] = {fac_module_parameters(m), fac_module_buffers(m)};
    for (size_t k = 0; k < 2; k++) {
        assert_non_null(lists[k]);
        for (size_t i = 0; i < lists[k]->n; i++)
            assert_true(fac_device_equal(fac_tensor_device(lists[k]->v[i].tensor), d));
        fac_state_free(lists[k]);
    }
}

static void S152_S154_E05_E07_E23_module_moves_in_place(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *net = make_net(), *child = fac_module_child(net, "0");
    fac_tensor *w = fac_module_parameter(net, "0.weight");
    assert_ok(fac_module_cuda(net, 1));
    assert_module_on(net, cuda(1));
    assert_ptr_equal(fac_module_parameter(net, "0.weight"), w); /* the same object, its data elsewhere */
    assert_ptr_equal(fac_module_child(net, "0"), child);
    assert_true(fac_requires_grad(w) && !fac_grad_fn(w));
    assert_on(fac_forward(net, fac_ones(FAC_SHAPE(2, 4), .device = cuda(1))), 1);
    assert_ok(fac_module_cpu(net));
    assert_module_on(net, fac_device_make(FAC_CPU, -1));
    assert_no_error();
    fac_module_release(net);
}

static void S153_E06_module_to_casts_floats_and_moves_integers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *net = make_net();
    assert_ok(fac_module_to(net, .device = cuda(2), .dtype = FAC_F64, .non_blocking = true));
    assert_module_on(net, cuda(2));
    assert_int_equal(fac_tensor_dtype(fac_module_parameter(net, "2.bias")), FAC_F64);
    assert_int_equal(fac_tensor_dtype(fac_module_buffer(net, "steps")), FAC_I64);
    fac_module_release(net);
}

static void S157_gradient_moves_with_its_parameter(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *net = make_net();
    assert_ok(fac_backward(fac_sum(fac_forward(net, fac_ones(FAC_SHAPE(2, 4))))));
    fac_tensor *w = fac_module_parameter(net, "0.weight");
    double before = fac_item(fac_sum(fac_grad_of(w)));
    assert_ok(fac_module_cuda(net, 1));
    assert_on(fac_grad_of(w), 1);
    assert_true(fabs(fac_item(fac_sum(fac_grad_of(w))) - before) < 1e-5);
    fac_module_release(net);
}

/* Losses of a few steps on a device. */
static void train(fac_device d, bool move_after_optimizer, double *losses, int n) {
    fac_module *net = make_net();
    if (!move_after_optimizer) assert_ok(fac_module_to(net, .device = d));
    fac_optimizer *o = fac_sgd_new(net, 0.1, .momentum = 0.9);
    assert_non_null(o);
    if (move_after_optimizer) assert_ok(fac_module_to(net, .device = d));
    for (int i = 0; i < n; i++) {
        FAC_SCOPE(s);
        fac_manual_seed((uint64_t)i);
        fac_tensor *x = fac_to(fac_randn(FAC_SHAPE(32, 4)), .device = d);
        fac_tensor *y = fac_sum(fac_mul(x, x), .dim = 1, .keepdim = true);
        fac_tensor *loss = fac_mse_loss(fac_forward(net, x), y);
        assert_true(fac_device_equal(fac_tensor_device(loss), d)); /* S-167: where its inputs are */
        assert_ok(fac_backward(loss));
        assert_ok(fac_optimizer_step(o));
        fac_optimizer_zero_grad(o);
        losses[i] = fac_item(loss);
        assert_no_error();
    }
    fac_optimizer_release(o);
    fac_module_release(net);
}

enum { STEPS = 12 };

static void S167_training_on_a_device_gives_the_losses_of_the_cpu(void **state) {
    (void)state;
    double cpu[STEPS], gpu[STEPS];
    train(fac_device_make(FAC_CPU, -1), false, cpu, STEPS);
    train(cuda(2), false, gpu, STEPS);
    for (int i = 0; i < STEPS; i++) assert_true(fabs(cpu[i] - gpu[i]) <= 1e-4 * fabs(cpu[i]) + 1e-6);
    assert_true(gpu[STEPS - 1] < gpu[0]);
}

static void S160_optimizer_made_before_the_move_updates_the_moved_parameters(void **state) {
    (void)state;
    double cpu[STEPS], gpu[STEPS];
    train(fac_device_make(FAC_CPU, -1), false, cpu, STEPS);
    train(cuda(1), true, gpu, STEPS);
    for (int i = 0; i < STEPS; i++) assert_true(fabs(cpu[i] - gpu[i]) <= 1e-4 * fabs(cpu[i]) + 1e-6);
}

/* ---- backward and streams ---------------------------------------------------------------------------------------------- */

typedef struct seen {
    fac_stream stream;
    int calls;
} seen;

static fac_tensor *note_stream(void *context, fac_tensor *grad) {
    seen *s = context;
    s->stream = fac_current_stream(fac_tensor_device(grad));
    s->calls++;
    return NULL;
}

static void S130_S133_backward_runs_in_the_streams_of_forward(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_stream s = fac_stream_new(cuda(0), 0), other = fac_stream_new(cuda(0), 0);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_SHAPE(8), .device = cuda(0)), true), *y, *z;
    seen of_y = {.calls = 0}, of_z = {.calls = 0};
    assert_ok(fac_stream_wait_stream(s, fac_current_stream(cuda(0))));
    {
        FAC_STREAM_SCOPE(on, s);
        y = fac_mul(x, x);
    }
    assert_ok(fac_stream_wait_stream(other, s));
    {
        FAC_STREAM_SCOPE(on, other);
        z = fac_sum(y);
    }
    fac_register_hook(y, note_stream, &of_y);
    fac_register_hook(z, note_stream, &of_z);
    assert_ok(fac_stream_wait_stream(fac_current_stream(cuda(0)), other));
    assert_ok(fac_backward(z));
    assert_true(fac_stream_equal(of_y.stream, s) && of_y.calls == 1);
    assert_true(fac_stream_equal(of_z.stream, other) && of_z.calls == 1);
    assert_true(fac_stream_equal(fac_current_stream(cuda(0)), fac_default_stream(cuda(0))));
    assert_true(fac_item(fac_sum(fac_grad_of(x))) == 16);
}

static void S131_gradients_are_ordered_with_the_callers_stream(void **state) {
    (void)state;
    for (int i = 1; i <= 8; i++) { /* each time other values, since blocks come back with the former ones */
        FAC_SCOPE(scope);
        char option[32];
        snprintf(option, sizeof option, "seed=%d", i);
        if (fac_cuda_is_simulated()) support_sim_set(option);
        fac_stream s = fac_stream_new(cuda(0), 0), caller = fac_stream_new(cuda(0), 0);
        fac_tensor *x = fac_set_requires_grad(fac_full(FAC_SHAPE(500), i, .device = cuda(0), .dtype = FAC_F32), true),
                   *y;
        assert_ok(fac_stream_wait_stream(s, fac_current_stream(cuda(0))));
        {
            FAC_STREAM_SCOPE(on, s);
            y = fac_sum(fac_mul(fac_mul(x, x), x));
        }
        assert_ok(fac_stream_wait_stream(caller, s));
        FAC_STREAM_SCOPE(on, caller);
        assert_ok(fac_backward(y));
        fac_tensor *twice = fac_mul(fac_grad_of(x), 2); /* at once, in the caller's stream */
        assert_true(fac_item(fac_sum(twice)) == 500 * 6 * i * i);
    }
}

static void S132_gradients_of_several_devices_meet(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(1, 2, 3), true), *sum = NULL;
    for (int d = 0; d < 3; d++) {
        fac_tensor *a = fac_to(x, .device = cuda(d));
        fac_tensor *part = fac_to(fac_sum(fac_mul(a, a)), .device = cuda(0));
        sum = sum ? fac_add(sum, part) : part;
    }
    assert_ok(fac_backward(sum));
    float g[3];
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, g, 3));
    assert_true(g[0] == 6 && g[1] == 12 && g[2] == 18);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(E01_device_example), FAC_CUDA_TEST(S152_S154_E05_E07_E23_module_moves_in_place),
              FAC_CUDA_TEST(S153_E06_module_to_casts_floats_and_moves_integers),
              FAC_CUDA_TEST(S157_gradient_moves_with_its_parameter),
              FAC_CUDA_TEST(S167_training_on_a_device_gives_the_losses_of_the_cpu),
              FAC_CUDA_TEST(S160_optimizer_made_before_the_move_updates_the_moved_parameters),
              FAC_CUDA_TEST(S130_S133_backward_runs_in_the_streams_of_forward),
              FAC_CUDA_TEST(S131_gradients_are_ordered_with_the_callers_stream),
              FAC_CUDA_TEST(S132_gradients_of_several_devices_meet))
