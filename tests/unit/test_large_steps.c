/* Strides, steps and counts near the end of 64 bits: right values or an error, never a wrapped address. */
#include "support/samples.h"
#include "support/support.h"
#include <facula/facula.h>

static const fac_device cpu = {.type = FAC_CPU};

/* Calls an operator written as text; the result's elements, of which there are n, as doubles. */
static void call(const char *text, double *out, size_t n) {
    sample_call c;
    sample_made made;
    fac_value result[2] = {fac_value_none(), fac_value_none()};
    assert_true(sample_parse(text, &c, NULL));
    assert_ok(sample_make(&c, cpu, &made));
    assert_ok(fac_call(c.op, made.args, made.n_args, result));
    assert_ok(fac_tensor_read(fac_value_as_tensor(result[0]), FAC_F64, out, n));
    for (int i = 0; i < 2; i++) fac_value_release(&result[i]);
    sample_unmake(&made);
}

/* The kernel is as large as the image: there is one position, and no step to another. */
static void convolution_with_a_stride_that_is_never_taken_gives_the_first_window(void **state) {
    (void)state;
    static const char *const strides[] = {"[1,1]", "[9223372036854775807,9223372036854775807]",
                                          "[9223372036854775806,4611686018427387904]", "[4294967296,3]"};
    for (size_t i = 0; i < FAC_COUNT(strides); i++) {
        char text[200];
        double y;
        snprintf(text, sizeof text,
                 "conv2d(f32[1,1,3,3]{1,2,3,4,5,6,7,8,9}, f32[1,1,3,3]{1}, None, %s, [0,0], [1,1], 1)", strides[i]);
        call(text, &y, 1);
        assert_true(y == 45);
        snprintf(text, sizeof text, "conv2d(f64[1,2,4,3]{1}, f64[2,1,3,3]{1}, None, %s, [0,0], [1,1], 2)",
                 i ? strides[i] : "[2,2]");
        double two[2];
        call(text, two, 2);
        assert_true(two[0] == 9 && two[1] == 9);
    }
}

/* Padding to both sides and strides of the same size: three positions, of which the middle one meets the image. */
static void convolution_with_padding_as_long_as_the_stride_finds_the_image(void **state) {
    (void)state;
    double y[9];
    call("conv2d(f32[1,1,1,1]{7}, f32[1,1,1,1]{1}, None, [1073741824,1073741824], [1073741824,1073741824], [1,1], 1)",
         y, 9);
    for (int i = 0; i < 9; i++) assert_true(y[i] == (i == 4 ? 7 : 0));
    call(
        "convolution(f64[1,1,1]{7}, f64[1,1,1]{1}, None, [2305843009213693952], [2305843009213693952], [1], False, [0], 1)",
        y, 3);
    assert_true(y[0] == 0 && y[1] == 7 && y[2] == 0);
}

static void pooling_with_a_stride_that_is_never_taken_gives_the_first_window(void **state) {
    (void)state;
    double y;
    call("max_pool2d_with_indices(f32[1,2,2]{1,4,3,2}, [2,2], [9223372036854775807,9223372036854775807], [0,0], [1,1], "
         "False)",
         &y, 1);
    assert_true(y == 4);
    call("avg_pool2d(f32[1,2,2]{1,4,3,2}, [2,2], [9223372036854775807,4611686018427387904], [0,0], True, True, None)",
         &y, 1);
    assert_true(y == 2.5);
}

static void topk_of_a_number_without_dimensions_is_the_number(void **state) {
    (void)state;
    double y = -1;
    call("topk(f32[]{3}, 0, -1, True, True)", &y, 1);
    assert_true(y == 3);
    call("topk(f32[]{3}, 1, -1, False, True)", &y, 1);
    assert_true(y == 3);
}

static void integer_pooling_wraps_around(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *least = fac_full(FAC_SHAPE(1, 1, 1), (double)INT64_MIN, .dtype = FAC_I64);
    fac_tensor *y = fac_avg_pool2d(least, FAC_INTS(1, 1), .divisor_override = -1);
    assert_no_error();
    assert_int_equal(fac_item_int(y), INT64_MIN);
}

FAC_TEST_MAIN(FAC_TEST(convolution_with_a_stride_that_is_never_taken_gives_the_first_window),
              FAC_TEST(convolution_with_padding_as_long_as_the_stride_finds_the_image),
              FAC_TEST(pooling_with_a_stride_that_is_never_taken_gives_the_first_window),
              FAC_TEST(topk_of_a_number_without_dimensions_is_the_number), FAC_TEST(integer_pooling_wraps_around))
