/* Mixed precision with CUDA tensors. */
#include "support/cuda.h"

#include <math.h>

static fac_tensor *there(fac_tensor *t) { return fac_to(t, .device = cuda_device(0)); }

static void dtype_is(fac_tensor *t, fac_dtype d) {
    assert_no_error();
    assert_string_equal(fac_dtype_name(fac_tensor_dtype(t)), fac_dtype_name(d));
}

static void S170_cuda_calls_are_cast_by_their_own_list(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *host = fac_randn(FAC_SHAPE(4, 4)), *x = there(host), *h = fac_to(x, .dtype = FAC_F16);
    {
        FAC_AUTOCAST(g, .device = cuda_device(0));
        assert_true(fac_is_autocast_enabled(FAC_CUDA));
        dtype_is(fac_mm(x, x), FAC_F16);
        dtype_is(fac_mm(host, host), FAC_F32); /* the CPU's is off */
        dtype_is(fac_exp(h), FAC_F32);
        dtype_is(fac_sum(h), FAC_F32); /* asked for by its dtype */
        dtype_is(fac_sum(h, .dtype = FAC_F16), FAC_F16);
        dtype_is(fac_softmax(h, 1), FAC_F32);
        dtype_is(fac_addcmul(h, x, h), FAC_F32); /* the widest */
        dtype_is(fac_addcmul(h, h, h), FAC_F16);
        dtype_is(fac_mul(h, h), FAC_F16);
        dtype_is(fac_mse_loss(h, h), FAC_F32);
        assert_null(fac_binary_cross_entropy(fac_sigmoid(x), fac_sigmoid(x)));
        assert_error(FAC_ERR_UNSUPPORTED, "binary_cross_entropy is not safe to autocast");
        {
            FAC_AUTOCAST(off, .device = cuda_device(0), .enabled = false);
            dtype_is(fac_mm(x, x), FAC_F32);
        }
        FAC_AUTOCAST(other, .device = cuda_device(0), .dtype = FAC_BF16);
        dtype_is(fac_mm(x, x), FAC_BF16);
    }
    dtype_is(fac_mm(x, x), FAC_F32);
}

/* Steps of a weight on the device, of which the second overflows. */
static void S170_cuda_gradients_are_unscaled_and_looked_at(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *w = fac_set_requires_grad(there(fac_ones(FAC_SHAPE(3))), true);
    fac_optimizer *o = fac_sgd_of(FAC_TENSORS(w), 0.5);
    fac_grad_scaler *scaler = fac_grad_scaler_new(.init_scale = 8, .growth_interval = 2);
    const double slopes[] = {1, INFINITY, 0.5, 0.5}, values[] = {0.5, 0.5, 0.25, 0}, scales[] = {8, 4, 4, 8};
    for (size_t i = 0; i < FAC_COUNT(slopes); i++) {
        fac_optimizer_zero_grad(o);
        fac_tensor *loss = fac_grad_scaler_scale(scaler, fac_sum(fac_mul(w, slopes[i])));
        assert_ok(fac_backward(loss));
        if (i == 2) assert_ok(fac_grad_scaler_unscale(scaler, o));
        if (i == 2) assert_true(fac_item(fac_select(fac_grad_of(w), 0, 0)) == slopes[i]);
        assert_ok(fac_grad_scaler_step(scaler, o));
        assert_ok(fac_grad_scaler_update(scaler));
        assert_true(fac_item(fac_select(w, 0, 1)) == values[i]);
        assert_true(fac_grad_scaler_get_scale(scaler) == scales[i]);
    }
    /* The scale is on the device of the losses, so that what was captured reads the present one. */
    fac_tensor *loss = fac_grad_scaler_scale(scaler, there(fac_ones(FAC_SHAPE())));
    assert_int_equal(fac_tensor_device(loss).type, FAC_CUDA);
    assert_true(fac_item(loss) == 8);
    assert_true(fac_item(fac_grad_scaler_scale(scaler, fac_ones(FAC_SHAPE()))) == 8);
    fac_grad_scaler_release(scaler);
    fac_optimizer_release(o);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S170_cuda_calls_are_cast_by_their_own_list),
              FAC_CUDA_TEST(S170_cuda_gradients_are_unscaled_and_looked_at))
