/* Where a tensor lives is said once, when it is made or moved; from there on the library sees to it. */
#include "support/cuda.h"

#include <math.h>
#include <string.h>

static const fac_device cpu_device = {.type = FAC_CPU};

static void assert_on(fac_device d, fac_tensor *t) {
    assert_no_error();
    char at[24], wanted[24];
    const fac_device is = fac_tensor_device(t);
    if (!fac_device_equal(is, d))
        fail_msg("on %s, not on %s", fac_device_format(is, at, sizeof at), fac_device_format(d, wanted, sizeof wanted));
}

static void assert_all_on(fac_device d, fac_state *tensors) {
    assert_non_null(tensors);
    assert_true(tensors->n > 0);
    for (size_t i = 0; i < tensors->n; i++) assert_on(d, tensors->v[i].tensor);
    fac_state_free(tensors);
}

static fac_module *make_model(void) {
    return fac_sequential(fac_linear_new(4, 8), fac_layer_norm_new(8), fac_relu_new(), fac_linear_new(8, 3));
}

/* One step; the loss before it. Nothing in here names a device. */
static double step(fac_module *model, fac_optimizer *sgd, fac_tensor *x, fac_tensor *y) {
    fac_optimizer_zero_grad(sgd);
    fac_tensor *loss = fac_mse_loss(fac_forward(model, x), y);
    assert_on(fac_tensor_device(x), loss);
    assert_ok(fac_backward(loss));
    assert_on(fac_tensor_device(x), fac_grad_of(fac_module_parameter(model, "0.weight")));
    assert_ok(fac_optimizer_step(sgd));
    return fac_item(loss);
}

static void S286_placement_one_call_moves_a_model_and_training_follows(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_manual_seed(3);
    fac_module *here = make_model(), *there = fac_module_copy(here);
    fac_tensor *x = fac_randn(FAC_SHAPE(6, 4)), *y = fac_randn(FAC_SHAPE(6, 3));
    assert_ok(fac_module_cuda(there, 1));
    assert_all_on(cuda_device(1), fac_module_parameters(there));
    fac_tensor *far_x = fac_to(x, .device = cuda_device(1)), *far_y = fac_to(y, .device = cuda_device(1));
    fac_optimizer *sgd = fac_sgd_new(here, 0.1, .momentum = 0.9), *far_sgd = fac_sgd_new(there, 0.1, .momentum = 0.9);
    for (int i = 0; i < 3; i++) /* although device 0 is the current one */
        assert_true(fabs(step(here, sgd, x, y) - step(there, far_sgd, far_x, far_y)) < 1e-5);
    assert_ok(fac_module_cpu(there));
    assert_all_on(cpu_device, fac_module_parameters(there));
    assert_on(cpu_device, fac_forward(there, x));
    fac_optimizer_release(sgd);
    fac_optimizer_release(far_sgd);
    fac_module_release(here);
    fac_module_release(there);
    assert_no_error();
}

static void S286_placement_results_lie_where_the_operands_do(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    for (int current = 0; current < 2; current++) {
        assert_ok(fac_set_device(cuda_device(current)));
        for (int d = 0; d < 2; d++) {
            fac_tensor *a = fac_ones(FAC_SHAPE(2, 3), .device = cuda_device(d)), *b = fac_mul(a, 3);
            assert_on(cuda_device(d), b);
            assert_on(cuda_device(d), fac_matmul(a, fac_t(b)));
            assert_on(cuda_device(d), fac_zeros_like(a));
            assert_on(cuda_device(d), fac_add(b, fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(d))));
            assert_true(fac_item(fac_sum(b)) == 18);
        }
    }
    assert_ok(fac_set_device(cuda_device(0)));
}

static void S286_placement_nothing_moves_unasked(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *here = fac_ones(3), *there = fac_ones(3, .device = cuda_device(0));
    assert_null(fac_add(here, there));
    assert_non_null(strstr(fac_error_message(), "cuda:0"));
    assert_error(FAC_ERR_DEVICE, "cpu"); /* both are named */
    assert_on(cpu_device, here);
    assert_on(cuda_device(0), there);
    assert_ptr_equal(fac_to(there, .device = cuda_device(0)), there); /* already there: the tensor itself */
    fac_tensor *copied = fac_zeros(3);
    fac_copy_(copied, there); /* which is asked for: copies go between devices */
    assert_on(cpu_device, copied);
    assert_true(fac_item(fac_sum(copied)) == 3);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S286_placement_one_call_moves_a_model_and_training_follows),
              FAC_CUDA_TEST(S286_placement_results_lie_where_the_operands_do),
              FAC_CUDA_TEST(S286_placement_nothing_moves_unasked))
