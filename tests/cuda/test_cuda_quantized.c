/* Quantized tensors and 8-bit floats on CUDA devices: they are stored, viewed, moved and clamped there, and quantized on the CPU. */
#include "support/cuda.h"

static fac_tensor *numbers(void) { return fac_reshape(fac_tensor_of(-1, 0.5, 2, 3, -4, 5), FAC_SHAPE(2, 3)); }

static void quantized_tensors_move_to_devices_and_keep_their_quantizer_S024(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    const fac_device cpu = fac_device_make(FAC_CPU, -1);
    fac_tensor *q = fac_quantize_per_tensor(numbers(), 0.5, 3, FAC_QINT8), *there = fac_to(q, .device = cuda_device(0));
    assert_non_null(there);
    assert_true(fac_device_equal(fac_tensor_device(there), cuda_device(0)));
    char keys[200];
    assert_non_null(strstr(fac_keyset_format(fac_tensor_keys(there), keys, sizeof keys), "QuantizedCUDA"));
    fac_tensor *turned = fac_clone(fac_transpose(there, 0, 1)), *most = fac_relu(there);
    assert_no_error();
    assert_true(fac_equal(fac_to(turned, .device = cpu), fac_transpose(q, 0, 1)));
    assert_true(fac_equal(fac_to(most, .device = cpu), fac_relu(q)));
    assert_null(fac_dequantize(there));
    assert_error(FAC_ERR_NO_KERNEL, "QuantizedCUDA");
    assert_null(fac_add(there, there));
    assert_error(FAC_ERR_NO_KERNEL, "QuantizedCUDA");
}

static void float8_moves_to_devices_and_is_converted_on_the_cpu(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    const fac_device cpu = fac_device_make(FAC_CPU, -1);
    fac_tensor *x = fac_to(numbers(), .dtype = FAC_F8_E4M3FN), *there = fac_to(x, .device = cuda_device(0));
    assert_non_null(there);
    assert_true(fac_equal(fac_to(fac_cat(FAC_TENSORS(there, there)), .device = cpu), fac_cat(FAC_TENSORS(x, x))));
    assert_null(fac_to(there, .dtype = FAC_F32));
    assert_error(FAC_ERR_UNSUPPORTED, "on the CPU only");
}

FAC_TEST_MAIN(FAC_CUDA_TEST(quantized_tensors_move_to_devices_and_keep_their_quantizer_S024),
              FAC_CUDA_TEST(float8_moves_to_devices_and_is_converted_on_the_cpu))
