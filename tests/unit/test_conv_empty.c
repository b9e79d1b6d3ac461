/* A convolution of no input channels has nothing to sum: its result is the bias. */
#include "support/samples.h"
#include "support/support.h"

/* The call's one result must be this everywhere. */
static void result_is(const char *text, double expected) {
    sample_call c;
    sample_made made;
    fac_value result = fac_value_none();
    float v[256];
    assert_true(sample_parse(text, &c, NULL));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &made));
    assert_ok(fac_call(c.op, made.args, made.n_args, &result));
    size_t n = (size_t)fac_tensor_numel(fac_value_as_tensor(result));
    assert_in_range(n, 1, FAC_COUNT(v));
    assert_ok(fac_tensor_read(fac_value_as_tensor(result), FAC_F32, v, n));
    for (size_t i = 0; i < n; i++) assert_float_equal(v[i], expected, 0);
    fac_value_release(&result);
    sample_unmake(&made);
}

static void convolution_of_no_channels_is_its_bias(void **state) {
    (void)state;
    result_is("conv1d(f32[2,0,5], f32[6,0,3], f32[6]{2.5})", 2.5);
    result_is("conv2d(f32[2,0,7,6], f32[6,0,3,3], f32[6]{2.5})", 2.5);
    result_is("conv2d(f32[2,0,4,4], f32[6,0,1,1], f32[6]{2.5})", 2.5);
    result_is("conv3d(f32[1,0,4,4,4], f32[3,0,3,3,3], f32[3]{2.5})", 2.5);
}

static void convolution_of_no_channels_is_zero_without_a_bias(void **state) {
    (void)state;
    result_is("conv2d(f32[2,0,7,6], f32[6,0,3,3])", 0);
    result_is("conv2d(f64[2,0,7,6], f64[6,0,3,3])", 0);
}

FAC_TEST_MAIN(FAC_TEST(convolution_of_no_channels_is_its_bias),
              FAC_TEST(convolution_of_no_channels_is_zero_without_a_bias))
