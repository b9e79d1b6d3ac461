/* Operators over images keep the channels innermost, with the values of the row-major computation; gradients too. */
#include "linalg_test.h"

typedef fac_tensor *(*image_fn)(fac_tensor *x);

/* A parameter of the same numbers in every call. */
static fac_tensor *fixed(fac_tensor *x, fac_ints sizes) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    fac_tensor *t = fac_reshape(fac_sin(fac_arange(n)), sizes);
    return fac_to_dtype(t, fac_tensor_dtype(x));
}
static fac_tensor *scales(fac_tensor *x) { return fixed(x, FAC_INTS(fac_tensor_size(x, 1))); }

#define FN(name, expr) \
    static fac_tensor *name(fac_tensor *x) { return expr; }
#define C fac_tensor_size(x, 1)
FN(conv2d, fac_conv2d(x, fixed(x, FAC_INTS(16, C, 3, 3)), fixed(x, FAC_INTS(16)), .padding = 1))
FN(conv3d, fac_conv3d(x, fixed(x, FAC_INTS(16, C, 3, 3, 3)), NULL, .padding = 1))
FN(transposed2d, fac_conv_transpose2d(x, fixed(x, FAC_INTS(C, 16, 3, 3)), fixed(x, FAC_INTS(16)), .stride = 2))
FN(depthwise2d, fac_conv2d(x, fixed(x, FAC_INTS(C, 1, 3, 3)), NULL, .padding = 1, .groups = C))
FN(max2d, fac_max_pool2d(x, FAC_INTS(3), .stride = 2, .padding = 1))
FN(max3d, fac_max_pool3d(x, FAC_INTS(2)))
FN(avg2d, fac_avg_pool2d(x, FAC_INTS(3), .stride = 2, .padding = 1))
FN(adaptive2d, fac_adaptive_avg_pool2d(x, FAC_INTS(3, 2)))
FN(adaptive_max2d, fac_adaptive_max_pool2d(x, FAC_INTS(3, 2)).result0)
FN(groups, fac_group_norm(x, 2, .weight = scales(x), .bias = scales(x)))
FN(reflected2d, fac_pad(x, FAC_INTS(1, 2, 2, 1), .mode = "reflect"))
FN(replicated2d, fac_pad(x, FAC_INTS(1, 2, 2, 1), .mode = "replicate"))
FN(replicated3d, fac_pad(x, FAC_INTS(1, 2, 2, 1, 1, 0), .mode = "replicate"))
FN(constant, fac_pad(x, FAC_INTS(1, 2, -1, 1)))
FN(shuffled, fac_channel_shuffle(x, 4))
FN(finer, fac_pixel_shuffle(x, 2))
FN(coarser, fac_pixel_unshuffle(fac_narrow(x, 3, 0, 4), 2))

static const struct row {
    const char *name;
    image_fn fn;
    int ndim;
} rows[] = {
    {"conv2d", conv2d, 4},
    {"conv3d", conv3d, 5},
    {"conv_transpose2d", transposed2d, 4},
    {"depthwise conv2d", depthwise2d, 4},
    {"max_pool2d", max2d, 4},
    {"max_pool3d", max3d, 5},
    {"avg_pool2d", avg2d, 4},
    {"adaptive_avg_pool2d", adaptive2d, 4},
    {"adaptive_max_pool2d", adaptive_max2d, 4},
    {"group_norm", groups, 4},
    {"group_norm of volumes", groups, 5},
    {"reflection_pad2d", reflected2d, 4},
    {"replication_pad2d", replicated2d, 4},
    {"replication_pad3d", replicated3d, 5},
    {"constant_pad_nd", constant, 4},
    {"constant_pad_nd of volumes", constant, 5},
    {"channel_shuffle", shuffled, 4},
    {"channel_shuffle of volumes", shuffled, 5},
    {"pixel_shuffle", finer, 4},
    {"pixel_unshuffle", coarser, 4},
};

static fac_memory_format last_of(int ndim) { return ndim == 4 ? FAC_CHANNELS_LAST : FAC_CHANNELS_LAST_3D; }

static fac_tensor *image(int ndim, int64_t n, int64_t c, fac_dtype d) {
    return random_of(d, ndim == 4 ? FAC_INTS(n, c, 6, 5) : FAC_INTS(n, c, 4, 6, 5));
}

static void check(const struct row *r, int64_t n, int64_t c, fac_dtype d, double tolerance) {
    fac_tensor *plain = fac_set_requires_grad(image(r->ndim, n, c, d), true);
    fac_tensor *last =
        fac_set_requires_grad(fac_contiguous(fac_detach(plain), .memory_format = last_of(r->ndim)), true);
    fac_tensor *want = r->fn(plain), *got = r->fn(last);
    assert_near(got, want, tolerance);
    if (!fac_tensor_is_contiguous_as(got, last_of(r->ndim)))
        fail_msg("%s of %s: the format is lost", r->name, fac_dtype_name(d));
    fac_tensor *seed = fixed(plain, fac_tensor_sizes(want)), *of_plain, *of_last;
    assert_ok(fac_grad(FAC_TENSORS(want), FAC_TENSORS(plain), &of_plain, .grad_outputs = FAC_TENSORS(seed)));
    seed = fac_contiguous(seed, .memory_format = last_of(r->ndim));
    assert_ok(fac_grad(FAC_TENSORS(got), FAC_TENSORS(last), &of_last, .grad_outputs = FAC_TENSORS(seed)));
    assert_near(of_last, of_plain, tolerance);
}

static void S012_operators_keep_channels_last(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        FAC_SCOPE(s);
        check(&rows[i], 2, 8, FAC_F32, 1e-4);
        check(&rows[i], 20, 8, FAC_F32, 1e-4);
        check(&rows[i], 1, 68, FAC_F32, 1e-3);
        check(&rows[i], 2, 8, FAC_F64, 1e-12);
        check(&rows[i], 2, 8, FAC_BF16, 0.1);
    }
}

static void S012_dropout_keeps_channels_last(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_contiguous(fac_add(fac_abs(RANDOM(2, 8, 6, 5)), 1), .memory_format = FAC_CHANNELS_LAST);
    fac_native_dropout_result r = fac_native_dropout(x, 0.5, true);
    assert_true(fac_tensor_is_contiguous_as(r.result0, FAC_CHANNELS_LAST));
    assert_true(fac_tensor_is_contiguous_as(r.result1, FAC_CHANNELS_LAST));
    assert_close(r.result0, fac_mul(fac_mul(x, 2), r.result1));
}

/* One channel or one point: strides fit both formats, and those of the input decide. */
static void S012_formats_that_fit_both_ways_follow_the_strides(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {{2, 1, 4, 4}, {2, 8, 1, 1}};
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        FAC_SCOPE(s);
        const fac_ints of = {sizes[i], 4};
        fac_tensor *plain = fac_zeros(of), *last = fac_empty(of, .memory_format = FAC_CHANNELS_LAST);
        fac_zero_(last);
        const fac_ints a = fac_tensor_strides(fac_max_pool2d(plain, FAC_INTS(1))),
                       b = fac_tensor_strides(fac_max_pool2d(last, FAC_INTS(1)));
        assert_memory_equal(a.v, fac_tensor_strides(plain).v, 4 * sizeof *a.v);
        assert_memory_equal(b.v, fac_tensor_strides(last).v, 4 * sizeof *b.v);
    }
    FAC_SCOPE(s);
    fac_tensor *none = fac_max_pool2d(fac_empty(FAC_INTS(0, 8, 4, 4), .memory_format = FAC_CHANNELS_LAST), FAC_INTS(2));
    assert_sizes(none, 0, 8, 2, 2);
}

static void S153_S158_E06_module_to_takes_a_format_and_a_tensor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_conv2d_new(3, 4, 3);
    fac_tensor *weight = fac_module_parameter(m, "weight"), *was = fac_clone(weight);
    assert_ok(fac_module_to(m, .memory_format = FAC_CHANNELS_LAST));
    assert_true(fac_tensor_is_contiguous_as(weight, FAC_CHANNELS_LAST));
    assert_false(fac_tensor_is_contiguous(weight));
    assert_close(weight, was);
    assert_int_equal(fac_module_to(m, .memory_format = FAC_CHANNELS_LAST_3D), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "channels_last_3d");
    assert_ok(fac_module_to(m, .tensor = fac_zeros(FAC_INTS(1), .dtype = FAC_F64)));
    assert_int_equal(fac_tensor_dtype(weight), FAC_F64);
    assert_int_equal(fac_module_to(m, .tensor = was, .dtype = FAC_F32), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "either a tensor or a dtype");
    fac_module_release(m);
}

static void S158_formats_leave_parameters_of_other_dimensions_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_conv2d_new(3, 4, 3), fac_batch_norm2d_new(4), fac_linear_new(6, 5));
    fac_tensor *weight = fac_module_parameter(m, "0.weight"), *bias = fac_module_parameter(m, "0.bias"),
               *scale = fac_module_parameter(m, "1.weight"), *matrix = fac_module_parameter(m, "2.weight");
    assert_ok(fac_module_to(m, .memory_format = FAC_CHANNELS_LAST));
    assert_true(fac_tensor_is_contiguous_as(weight, FAC_CHANNELS_LAST) && !fac_tensor_is_contiguous(weight));
    assert_true(fac_tensor_is_contiguous(bias) && fac_tensor_is_contiguous(scale) && fac_tensor_is_contiguous(matrix));
    assert_int_equal(fac_tensor_stride(matrix, 0), 6);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(S158_formats_leave_parameters_of_other_dimensions_alone),
              FAC_TEST(S012_operators_keep_channels_last), FAC_TEST(S012_dropout_keeps_channels_last),
              FAC_TEST(S012_formats_that_fit_both_ways_follow_the_strides),
              FAC_TEST(S153_S158_E06_module_to_takes_a_format_and_a_tensor))
